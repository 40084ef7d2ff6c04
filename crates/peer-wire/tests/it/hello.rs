//! Introductions that succeed, and those that must not, each with its reason.

use ids::{Boot, ClusterId, FoundingId, NodeId, SemanticsVersion};
use peer_wire::FrameKind;
use peer_wire::frame::{self, FrameDecoder, HEAD_BYTES};
use peer_wire::hello::{
    Answerer, BODY_BYTES_MAX, Caller, HelloRefusal, Introduction, Nonce, NotIntroduced, Peer, Secret,
    Versions, Who,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn member(node: u64) -> Who {
    Who::Member {
        cluster: ClusterId(77),
        node: NodeId(node),
        boot: Boot(node * 10),
    }
}

fn own(who: Who, nonce: u8) -> Introduction {
    Introduction {
        versions: Versions::OURS,
        who,
        semantics: SemanticsVersion(1),
        worker: 5,
        workers: 8,
        to: 5,
        groups: None,
        nonce: Nonce([nonce; 32]),
    }
}

fn secret(byte: u8) -> Secret {
    Secret(Some([byte; 32]))
}

type Told = Result<Option<Peer>, NotIntroduced>;

/// One side, and what it holds of the other's bytes.
enum Side {
    Caller(Caller),
    Answerer(Option<Answerer>, Option<HelloRefusal>),
}

struct End {
    side: Side,
    decoder: FrameDecoder,
    /// Its last word.
    end: Option<Told>,
}

impl End {
    fn new(side: Side) -> End {
        End {
            side,
            decoder: FrameDecoder::new(BODY_BYTES_MAX),
            end: None,
        }
    }

    /// Takes whole frames; gives what is to be sent.
    fn receive(&mut self, mut input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while self.end.is_none() {
            let frame = match self.decoder.next(&mut input) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => panic!("{error}"),
            };
            let told = match &mut self.side {
                Side::Caller(caller) => caller.on_frame(&frame, &mut out),
                Side::Answerer(answerer, refusal) => {
                    let machine = answerer.as_mut().expect("it is not over");
                    match machine.on_frame(&frame, &mut out) {
                        Ok(Some(peer)) => {
                            let machine = answerer.take().expect("it is not over");
                            machine.decide(*refusal, &mut out).map(|()| Some(peer))
                        }
                        told => told,
                    }
                }
            };
            if !matches!(told, Ok(None)) {
                self.end = Some(told);
            }
        }
        out
    }
}

struct Meeting {
    caller: (Introduction, Secret, Option<NodeId>),
    answerer: (Introduction, Secret),
    verdict: Option<HelloRefusal>,
}

impl Meeting {
    fn of(caller: Who, answerer: Who) -> Meeting {
        Meeting {
            caller: (own(caller, 1), secret(9), None),
            answerer: (own(answerer, 2), secret(9)),
            verdict: None,
        }
    }

    /// What both sides end with, and everything that was said: the caller's bytes and the answerer's by turns. `change` may
    /// change each of them on its way.
    fn hold(self, mut change: impl FnMut(usize, &mut Vec<u8>)) -> (Option<Told>, Option<Told>, Vec<Vec<u8>>) {
        let mut bytes = Vec::new();
        let (introduction, secret, expected) = self.caller;
        let caller = Caller::new(introduction, secret, expected, &mut bytes);
        let (introduction, secret) = self.answerer;
        let answerer = Side::Answerer(Some(Answerer::new(introduction, secret)), self.verdict);
        let mut ends = [End::new(answerer), End::new(Side::Caller(caller))];
        let mut said = Vec::new();
        for turn in 0.. {
            if bytes.is_empty() {
                break;
            }
            said.push(bytes.clone());
            change(turn, &mut bytes);
            bytes = ends[turn % 2].receive(&bytes);
        }
        let [answerer, caller] = ends.map(|end| end.end);
        (caller, answerer, said)
    }

    /// Both sides' reasons.
    fn fail(self) -> (NotIntroduced, NotIntroduced) {
        let (caller, answerer, _) = self.hold(|_, _| ());
        (
            caller.expect("it heard of it").expect_err("it is refused"),
            answerer.expect("it heard of it").expect_err("it is refused"),
        )
    }
}

fn told(refusal: HelloRefusal, is_proven: bool) -> NotIntroduced {
    NotIntroduced::RefusedByPeer { refusal, is_proven }
}

#[test]
fn two_members_introduce_themselves_in_four_frames() {
    let (caller, answerer, said) = Meeting::of(member(1), member(2)).hold(|_, _| ());
    let caller = caller.unwrap().unwrap().unwrap();
    let answerer = answerer.unwrap().unwrap().unwrap();
    assert_eq!((caller.who, answerer.who), (member(2), member(1)));
    assert_eq!((caller.version, answerer.version), (3, 3));
    assert_eq!((caller.worker, caller.workers, answerer.worker), (5, 8, 5));
    assert_eq!(said.len(), 4);
    assert_eq!(
        said.iter().map(|bytes| bytes[4]).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
}

#[test]
fn an_answerer_with_fewer_workers_answers_with_one_that_it_has() {
    let mut meeting = Meeting::of(member(1), member(2));
    meeting.answerer.0.workers = 3;
    let (caller, answerer, _) = meeting.hold(|_, _| ());
    let caller = caller.unwrap().unwrap().unwrap();
    assert_eq!((caller.worker, caller.workers), (2, 3));
    assert_eq!(answerer.unwrap().unwrap().unwrap().worker, 5);
}

#[test]
fn nodes_speak_the_newest_version_that_both_know() {
    let mut meeting = Meeting::of(member(1), member(2));
    meeting.caller.0.versions = Versions { oldest: 2, newest: 7 };
    meeting.answerer.0.versions = Versions { oldest: 3, newest: 5 };
    let (caller, answerer, _) = meeting.hold(|_, _| ());
    assert_eq!(caller.unwrap().unwrap().unwrap().version, 5);
    assert_eq!(answerer.unwrap().unwrap().unwrap().version, 5);
}

#[test]
fn nodes_without_a_common_version_say_so_on_both_sides() {
    let mut meeting = Meeting::of(member(1), member(2));
    meeting.caller.0.versions = Versions { oldest: 3, newest: 4 };
    meeting.answerer.0.versions = Versions { oldest: 1, newest: 2 };
    let (caller, answerer) = meeting.fail();
    assert_eq!(
        answerer.to_string(),
        "the peer is refused: it speaks protocol versions 3..4, this node 1..2"
    );
    assert_eq!(
        caller.to_string(),
        "the peer refuses this node, which speaks protocol versions 3..4, the peer 1..2, as it says without proof"
    );
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    let cluster = ClusterId(78);
    let node = NodeId(1);
    let boot = Boot(10);
    let (caller, answerer) = Meeting::of(Who::Member { cluster, node, boot }, member(2)).fail();
    assert_eq!(answerer, NotIntroduced::Refused(HelloRefusal::OtherCluster));
    assert_eq!(caller, told(HelloRefusal::OtherCluster, false));
    assert_eq!(
        answerer.to_string(),
        "the peer is refused: it belongs to another cluster"
    );
}

#[test]
fn a_caller_that_does_not_know_the_secret_is_refused_and_gets_no_proof() {
    for known in [Secret(None), secret(8)] {
        let mut meeting = Meeting::of(member(1), member(2));
        meeting.caller.1 = known;
        let (caller, answerer, said) = meeting.hold(|_, _| ());
        assert_eq!(
            answerer,
            Some(Err(NotIntroduced::Refused(HelloRefusal::Unproven)))
        );
        assert_eq!(caller, Some(Err(told(HelloRefusal::Unproven, false))));
        assert_eq!(said[3].len(), HEAD_BYTES + 1);
    }
}

#[test]
fn an_answerer_that_does_not_know_the_secret_is_noticed() {
    // It lets everybody in, with what it heard an honest one say on another link.
    let honest = || Meeting::of(member(1), member(2));
    let (_, _, recorded) = honest().hold(|_, _| ());
    let mut meeting = honest();
    meeting.caller.0.nonce = Nonce([3; 32]);
    let (caller, ..) = meeting.hold(|turn, bytes| {
        if turn % 2 == 1 {
            *bytes = recorded[turn].clone();
        }
    });
    let caller = caller.expect("it was answered").expect_err("no proof");
    assert_eq!(
        caller.to_string(),
        "the peer is refused: it does not know the cluster's secret, or this node has another one"
    );
}

#[test]
fn a_recorded_introduction_fits_no_other_link() {
    let (_, _, recorded) = Meeting::of(member(1), member(2)).hold(|_, _| ());
    let mut answerer = Answerer::new(own(member(2), 4), secret(9));
    let (mut decoder, mut out) = (FrameDecoder::new(BODY_BYTES_MAX), Vec::new());
    let bytes = [&recorded[0][..], &recorded[2]].concat();
    let mut input = &bytes[..];
    let hello = decoder.next(&mut input).unwrap().unwrap();
    assert_eq!(answerer.on_frame(&hello, &mut out), Ok(None));
    let proof = decoder.next(&mut input).unwrap().unwrap();
    let end = answerer.on_frame(&proof, &mut out).unwrap_err();
    assert_eq!(end, NotIntroduced::Refused(HelloRefusal::Unproven));
}

#[test]
fn a_proof_of_one_direction_proves_nothing_in_the_other() {
    let (caller, ..) = {
        let mut proof = Vec::new();
        Meeting::of(member(1), member(2)).hold(move |turn, bytes| match turn {
            2 => proof = bytes[HEAD_BYTES..].to_vec(),
            3 => {
                // The caller's own proof comes back, with a welcome.
                bytes.clear();
                frame::append(bytes, 4, false, |out| {
                    out.extend_from_slice(&proof);
                    out.push(1);
                });
            }
            _ => {}
        })
    };
    assert_eq!(caller, Some(Err(NotIntroduced::Refused(HelloRefusal::Unproven))));
}

#[test]
fn what_the_members_say_is_told_with_a_proof() {
    for (refusal, words) in [
        (HelloRefusal::NotMember, "is not a member"),
        (HelloRefusal::Removed, "was removed"),
        (HelloRefusal::OldBoot, "was started again since"),
        (
            HelloRefusal::Semantics {
                needed: SemanticsVersion(3),
            },
            "does not know semantics version 3, which the cluster uses",
        ),
        (
            HelloRefusal::Unknown(200),
            "has a fault that only a later version knows, number 200",
        ),
    ] {
        let mut meeting = Meeting::of(member(1), member(2));
        meeting.verdict = Some(refusal);
        let (caller, answerer) = meeting.fail();
        assert_eq!(caller, told(refusal, true));
        assert_eq!(
            caller.to_string(),
            format!("the peer refuses this node, which {words}")
        );
        assert_eq!(answerer.to_string(), format!("the peer is refused: it {words}"));
    }
}

#[test]
fn a_changed_verdict_is_not_believed() {
    let (caller, ..) = Meeting::of(member(1), member(2)).hold(|turn, bytes| {
        if turn == 3 {
            let mut body = bytes[HEAD_BYTES..].to_vec();
            body[32] = 0;
            body.push(8);
            bytes.clear();
            frame::append(bytes, 4, false, |out| out.extend_from_slice(&body));
        }
    });
    assert_eq!(caller, Some(Err(NotIntroduced::Refused(HelloRefusal::Unproven))));
}

#[test]
fn a_caller_that_reaches_another_node_than_it_meant_says_so() {
    let mut meeting = Meeting::of(member(1), member(4));
    meeting.caller.2 = Some(NodeId(3));
    let (caller, answerer) = meeting.fail();
    assert_eq!(
        caller.to_string(),
        "the peer is refused: it is node 4, not node 3"
    );
    assert!(
        answerer
            .to_string()
            .starts_with("the peer refuses this node, which is node 4, not node 3")
    );
}

#[test]
fn a_node_that_calls_itself_is_refused() {
    let (caller, answerer) = Meeting::of(member(1), member(1)).fail();
    assert_eq!(caller, told(HelloRefusal::Itself, false));
    assert_eq!(
        answerer.to_string(),
        "the peer is refused: it has the number of this node itself"
    );
}

#[test]
fn a_node_that_belongs_to_no_cluster_cannot_be_joined() {
    for caller in [Who::Joining, member(1)] {
        let (caller, answerer) = Meeting::of(caller, Who::Joining).fail();
        assert_eq!(caller, NotIntroduced::Refused(HelloRefusal::NoCluster));
        assert_eq!(answerer, told(HelloRefusal::NoCluster, false));
    }
}

#[test]
fn a_joiner_may_say_that_it_joins_and_nothing_else() {
    let (caller, answerer, _) = Meeting::of(Who::Joining, member(2)).hold(|_, _| ());
    assert_eq!(caller.unwrap().unwrap().unwrap().who, member(2));
    let who = answerer.unwrap().unwrap().unwrap().who;
    assert_eq!(who, Who::Joining);
    let said: Vec<FrameKind> = FrameKind::ALL
        .iter()
        .copied()
        .filter(|&kind| who.may_say(kind))
        .collect();
    assert_eq!(said, [FrameKind::Join]);
}

fn founding(id: u128, expects: u16) -> Who {
    let id = FoundingId(id);
    Who::Founding { id, expects }
}

#[test]
fn nodes_that_make_a_cluster_together_know_each_other_and_themselves() {
    for answerer in [founding(1, 3), founding(2, 3), founding(2, 5)] {
        let (caller, answered, _) = Meeting::of(founding(1, 3), answerer).hold(|_, _| ());
        assert_eq!(caller.unwrap().unwrap().unwrap().who, answerer);
        assert_eq!(answered.unwrap().unwrap().unwrap().who, founding(1, 3));
    }
    let said = FrameKind::ALL.iter().copied();
    let said: Vec<FrameKind> = said.filter(|&kind| founding(1, 3).may_say(kind)).collect();
    assert_eq!(said, [FrameKind::Join, FrameKind::Founding]);
}

#[test]
fn a_node_that_would_make_a_cluster_joins_one_that_is_there_and_cannot_be_joined() {
    let (caller, answerer, _) = Meeting::of(founding(1, 3), member(2)).hold(|_, _| ());
    assert_eq!(caller.unwrap().unwrap().unwrap().who, member(2));
    assert_eq!(answerer.unwrap().unwrap().unwrap().who, founding(1, 3));
    for caller in [Who::Joining, member(1)] {
        let (caller, answerer) = Meeting::of(caller, founding(1, 3)).fail();
        assert_eq!(caller, NotIntroduced::Refused(HelloRefusal::NoCluster));
        assert_eq!(answerer, told(HelloRefusal::NoCluster, false));
    }
}

#[test]
fn a_node_that_would_make_a_cluster_proves_that_it_knows_the_secret() {
    let mut meeting = Meeting::of(founding(1, 3), founding(2, 3));
    meeting.caller.1 = secret(8);
    let (caller, answerer) = meeting.fail();
    assert_eq!(answerer, NotIntroduced::Refused(HelloRefusal::Unproven));
    assert_eq!(caller, told(HelloRefusal::Unproven, false));
}

#[test]
fn a_start_that_is_not_counted_yet_can_vote_for_the_meta_group_but_write_nothing() {
    let starting = Who::Starting {
        cluster: ClusterId(77),
        node: NodeId(1),
    };
    let (_, answerer, _) = Meeting::of(starting, member(2)).hold(|_, _| ());
    let who = answerer.unwrap().unwrap().unwrap().who;
    assert_eq!(who, starting);
    assert!(who.may_say(FrameKind::Raft) && who.may_say(FrameKind::MetaRequest));
    assert!(
        !who.may_say(FrameKind::Batch)
            && !who.may_say(FrameKind::TransferChunk)
            && !who.may_say(FrameKind::Publish)
    );
}

#[test]
fn a_cluster_without_a_secret_introduces_its_nodes() {
    let mut meeting = Meeting::of(member(1), member(2));
    meeting.caller.1 = Secret(None);
    meeting.answerer.1 = Secret(None);
    let (caller, answerer, _) = meeting.hold(|_, _| ());
    assert!(matches!(
        (caller, answerer),
        (Some(Ok(Some(_))), Some(Ok(Some(_))))
    ));
}

#[test]
fn what_a_later_version_says_behind_an_introduction_is_proved_but_not_read() {
    let append = |kind: u8, bytes: &mut Vec<u8>, more: &[u8]| {
        let body = [&bytes[HEAD_BYTES..], more].concat();
        bytes.clear();
        frame::append(bytes, kind, false, |out| out.extend_from_slice(&body));
    };
    // Whoever adds it on the way is noticed.
    let (caller, answerer, _) = Meeting::of(member(1), member(2)).hold(|turn, bytes| {
        if turn == 0 {
            append(1, bytes, b"more");
        }
    });
    assert_eq!(
        answerer,
        Some(Err(NotIntroduced::Refused(HelloRefusal::Unproven)))
    );
    assert_eq!(caller, Some(Err(told(HelloRefusal::Unproven, false))));
}

#[test]
fn a_long_frame_is_refused_before_it_is_there() {
    let mut bytes = Vec::new();
    frame::append(&mut bytes, 1, false, |out| {
        out.resize(out.len() + BODY_BYTES_MAX + 1, 0)
    });
    let error = FrameDecoder::new(BODY_BYTES_MAX)
        .next(&mut &bytes[..HEAD_BYTES])
        .unwrap_err();
    assert_eq!(error.what, "the length");
}

#[test]
fn frames_out_of_step_end_it_for_good() {
    let mut bytes = Vec::new();
    let _ = Caller::new(own(member(1), 1), secret(9), None, &mut bytes);
    let hello = FrameDecoder::new(BODY_BYTES_MAX)
        .next(&mut &bytes[..])
        .unwrap()
        .unwrap();
    let mut answerer = Answerer::new(own(member(2), 2), secret(9));
    let mut out = Vec::new();
    assert_eq!(answerer.on_frame(&hello, &mut out), Ok(None));
    for _ in 0..2 {
        let end = answerer.on_frame(&hello, &mut out).unwrap_err();
        assert!(
            end.to_string()
                .contains("expected a frame that has its place here"),
            "{end}"
        );
    }
}

proptest! {
    #[test]
    fn no_change_of_any_byte_introduces_anybody(turn in 0..4usize, place in any::<Index>(), bit in 0..8u8) {
        let mut was_changed = false;
        let (caller, answerer, _) = Meeting::of(member(1), member(2)).hold(|at, bytes| {
            if at == turn {
                let mut body = bytes[HEAD_BYTES..].to_vec();
                let byte = place.index(body.len());
                body[byte] ^= 1 << bit;
                let kind = bytes[4];
                bytes.clear();
                frame::append(bytes, kind, false, |out| out.extend_from_slice(&body));
                was_changed = true;
            }
        });
        prop_assert!(was_changed);
        prop_assert!(matches!(caller, Some(Err(_)) | None), "{:?}", caller);
        // The answerer has spoken the last word before the verdict is changed.
        prop_assert!(turn == 3 || matches!(answerer, Some(Err(_)) | None), "{:?}", answerer);
    }

    #[test]
    fn any_frames_end_in_an_error_or_wait(frames in vec((0..8u8, vec(any::<u8>(), 0..120)), 0..6)) {
        let mut out = Vec::new();
        let mut caller = Caller::new(own(member(1), 1), secret(9), None, &mut out);
        let mut answerer = Answerer::new(own(member(2), 2), secret(9));
        for (kind, body) in frames {
            let mut bytes = Vec::new();
            frame::append(&mut bytes, kind, false, |out| out.extend_from_slice(&body));
            let frame = FrameDecoder::new(BODY_BYTES_MAX).next(&mut &bytes[..]).unwrap().unwrap();
            prop_assert!(!matches!(caller.on_frame(&frame, &mut out), Ok(Some(_))));
            prop_assert!(!matches!(answerer.on_frame(&frame, &mut out), Ok(Some(_))));
        }
    }
}
