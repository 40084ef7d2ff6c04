//! Introductions by the peer protocol: who is there is proved, and then judged.

use crate::introduction::{Handshake, Introduced, Introducer, LinkId, Refused, Remote};
use ids::{GroupCount, SemanticsVersion};
use peer_wire::frame::Frame;
use peer_wire::hello::{
    self, Answerer, Caller, HelloRefusal, Nonce, NotIntroduced, Peer, Secret, Versions, Who,
};
use std::fmt;
use std::sync::Arc;

/// Says whether a peer that has proved who it is may come in, by what is known of the members.
pub type Judge = Arc<dyn Fn(&Peer) -> Option<HelloRefusal> + Send + Sync>;

/// Is told why a node that was called is not taken, or does not take this one.
pub type Refusals = Arc<dyn Fn(LinkId, &NotIntroduced) + Send + Sync>;

/// Where nonces come from: the system's source of randomness.
pub type Nonces = Box<dyn FnMut() -> Nonce + Send>;

/// Introduces one worker of this node.
pub struct Greeter {
    /// Who this node is.
    pub who: Who,
    /// What it proves that it knows.
    pub secret: Secret,
    /// This worker.
    pub worker: u16,
    /// How many workers this node has.
    pub workers: u16,
    /// How many groups of keys its cluster has, if it knows.
    pub groups: Option<GroupCount>,
    /// Who may come in.
    pub judge: Judge,
    /// One for each introduction.
    pub nonces: Nonces,
    /// Who is told of calls that came to nothing, if anybody is.
    pub refusals: Option<Refusals>,
    /// Introductions that others began, so far: from it the names of those who join. It goes on with a new greeter of the
    /// same worker, lest a name be given twice.
    pub answered: u64,
}

impl fmt::Debug for Greeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Greeter")
            .field("who", &self.who)
            .field("worker", &self.worker)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl Greeter {
    /// For worker `to` at the other end.
    fn introduction(&mut self, to: u16) -> hello::Introduction {
        hello::Introduction {
            versions: Versions::OURS,
            who: self.who,
            semantics: SemanticsVersion::CURRENT,
            worker: self.worker,
            workers: self.workers,
            to,
            groups: self.groups,
            nonce: (self.nonces)(),
        }
    }
}

impl Introducer for Greeter {
    type Peer = Peer;

    fn call(&mut self, link: LinkId, out: &mut Vec<u8>) -> Box<dyn Handshake<Peer> + Send> {
        let expected = match link.remote {
            Remote::Node(node) => Some(node),
            Remote::Joiner(_) | Remote::Contact(_) => None,
        };
        let own = self.introduction(link.number);
        Box::new(Calling {
            caller: Caller::new(own, self.secret.clone(), expected, out),
            link,
            worker: self.worker,
            refusals: self.refusals.clone(),
        })
    }

    fn answer(&mut self) -> Box<dyn Handshake<Peer> + Send> {
        self.answered += 1;
        // It is for whichever worker calls.
        let own = self.introduction(0);
        Box::new(Answering {
            answerer: Some(Answerer::new(own, self.secret.clone())),
            judge: self.judge.clone(),
            joiner: self.answered,
            worker: self.worker,
        })
    }
}

struct Calling {
    caller: Caller,
    link: LinkId,
    worker: u16,
    refusals: Option<Refusals>,
}

struct Answering {
    /// `None` once it has decided.
    answerer: Option<Answerer>,
    judge: Judge,
    /// The peer's name, if it has no other.
    joiner: u64,
    worker: u16,
}

impl Handshake<Peer> for Calling {
    fn on_frame(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Introduced<Peer>>, Refused> {
        let peer = self.caller.on_frame(frame, out);
        let introduced = |peer| Introduced {
            link: self.link,
            worker: self.worker,
            peer,
        };
        if let (Err(error), Some(refusals)) = (&peer, &self.refusals) {
            refusals(self.link, error);
        }
        peer.map(|peer| peer.map(introduced))
            .map_err(|error| Refused(error.to_string()))
    }
}

impl Handshake<Peer> for Answering {
    fn on_frame(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Introduced<Peer>>, Refused> {
        let refused = |error: hello::NotIntroduced| Refused(error.to_string());
        let Some(answerer) = &mut self.answerer else {
            return Err(Refused("a frame after the verdict".to_owned()));
        };
        let Some(peer) = answerer.on_frame(frame, out).map_err(refused)? else {
            return Ok(None);
        };
        let (remote, worker) = match peer.who.node() {
            Some(node) => (Remote::Node(node), answerer.worker()),
            // It has one link, and no group to talk about.
            None => (Remote::Joiner(self.joiner), self.worker),
        };
        let link = LinkId {
            remote,
            number: peer.worker,
        };
        let answerer = self.answerer.take().expect("it has just taken a frame");
        answerer.decide((self.judge)(&peer), out).map_err(refused)?;
        Ok(Some(Introduced { link, worker, peer }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, ClusterId, NodeId};
    use peer_wire::frame::FrameDecoder;

    const CLUSTER: ClusterId = ClusterId(7);

    fn member(node: u64) -> Who {
        Who::Member {
            cluster: CLUSTER,
            node: NodeId(node),
            boot: Boot(1),
        }
    }

    fn greeter(who: Who, worker: u16, workers: u16) -> Greeter {
        let mut count = 0;
        Greeter {
            who,
            secret: Secret(Some([1; 32])),
            worker,
            workers,
            groups: GroupCount::new(24),
            judge: Arc::new(|peer| (peer.who.node() == Some(NodeId(66))).then_some(HelloRefusal::Removed)),
            nonces: Box::new(move || {
                count += 1;
                Nonce([count; 32])
            }),
            refusals: None,
            answered: 0,
        }
    }

    type Outcome = Result<Option<Introduced<Peer>>, Refused>;

    /// Shows each frame of `bytes` to `end`, and gives what it says back.
    fn show(end: &mut dyn Handshake<Peer>, bytes: &[u8]) -> (Outcome, Vec<u8>) {
        let (mut rest, mut out) = (bytes, Vec::new());
        let mut decoder = FrameDecoder::new(hello::BODY_BYTES_MAX);
        let mut outcome = Ok(None);
        while let (Ok(None), Some(frame)) = (&outcome, decoder.next(&mut rest).expect("whole frames")) {
            outcome = end.on_frame(&frame, &mut out);
        }
        (outcome, out)
    }

    /// What both ends know in the end: of `caller`, who dialled `remote`, and of `answerer`.
    fn meet(caller: Greeter, remote: Remote, answerer: Greeter) -> (Outcome, Outcome) {
        let number = caller.worker;
        meet_worker(caller, LinkId { remote, number }, answerer)
    }

    /// The same, where the link is for another worker.
    fn meet_worker(mut caller: Greeter, link: LinkId, mut answerer: Greeter) -> (Outcome, Outcome) {
        let mut to_answerer = Vec::new();
        let mut calling = caller.call(link, &mut to_answerer);
        let mut answering = answerer.answer();
        let (mut called, mut answered) = (Ok(None), Ok(None));
        while matches!((&called, &answered), (Ok(None), Ok(None))) {
            let to_caller;
            (answered, to_caller) = show(&mut *answering, &to_answerer);
            (called, to_answerer) = show(&mut *calling, &to_caller);
        }
        if matches!(answered, Ok(None)) {
            (answered, _) = show(&mut *answering, &to_answerer);
        }
        (called, answered)
    }

    fn node(number: u64) -> Remote {
        Remote::Node(NodeId(number))
    }

    #[test]
    fn members_know_their_link_and_its_workers() {
        let (called, answered) = meet(greeter(member(1), 3, 4), node(2), greeter(member(2), 0, 2));
        let (called, answered) = (called.unwrap().unwrap(), answered.unwrap().unwrap());
        assert_eq!((called.link.remote, called.worker), (node(2), 3));
        assert_eq!((answered.link.remote, answered.worker), (node(1), 1));
        assert_eq!((called.link.number, answered.link.number), (3, 3));
        assert_eq!((called.peer.workers, answered.peer.workers), (2, 4));
    }

    #[test]
    fn each_end_of_a_link_is_the_worker_that_the_other_one_wants() {
        let link = LinkId {
            remote: node(2),
            number: 1,
        };
        let (called, answered) = meet_worker(greeter(member(1), 3, 4), link, greeter(member(2), 0, 2));
        let (called, answered) = (called.unwrap().unwrap(), answered.unwrap().unwrap());
        assert_eq!((called.worker, called.link.number, called.peer.worker), (3, 1, 1));
        assert_eq!((answered.worker, answered.link.number), (1, 3));
        assert_eq!(called.peer.groups, GroupCount::new(24));
    }

    #[test]
    fn whoever_joins_has_a_name_for_its_link() {
        let contact = Remote::Contact(0);
        let (called, answered) = meet(greeter(Who::Joining, 0, 4), contact, greeter(member(2), 1, 2));
        let (called, answered) = (called.unwrap().unwrap(), answered.unwrap().unwrap());
        assert_eq!((called.link.remote, called.peer.who), (contact, member(2)));
        assert_eq!(
            (answered.link.remote, answered.worker, answered.peer.who),
            (Remote::Joiner(1), 1, Who::Joining)
        );
    }

    #[test]
    fn both_ends_know_why_there_is_no_link() {
        let mut other = greeter(member(2), 0, 1);
        other.secret = Secret(Some([2; 32]));
        let cases = [
            (
                greeter(member(1), 0, 1),
                node(3),
                greeter(member(2), 0, 1),
                "is node 2, not node 3",
            ),
            (
                greeter(member(66), 0, 1),
                node(2),
                greeter(member(2), 0, 1),
                "was removed",
            ),
            (
                greeter(member(1), 0, 1),
                node(2),
                other,
                "does not know the cluster's secret",
            ),
        ];
        for (caller, remote, answerer, why) in cases {
            let (called, answered) = meet(caller, remote, answerer);
            for outcome in [called, answered] {
                let Err(Refused(reason)) = outcome else {
                    panic!("there is a link, in spite of: {why}");
                };
                assert!(reason.contains(why), "{reason}");
            }
        }
    }
}
