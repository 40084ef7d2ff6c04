//! The introduction: how a link between nodes begins.
//!
//! ```text
//!  caller                         answerer
//!    |---- 1 hello ----------------->|   who I am, a nonce
//!    |<--- 2 challenge --------------|   who I am, a nonce
//!    |---- 3 proof ----------------->|   I know the secret and mean this link
//!    |<--- 4 verdict ----------------|   so do I; and welcome, or why not
//!    |<--- 5 refusal --------------->|   instead of any of them: why not
//!
//!  1, 2  introduction (`hello/introduction.rs`); bytes behind it are a later version's, and are proved too
//!  3     mac 32 bytes
//!  4     mac 32 bytes | welcome u8: 0 no, 1 yes | [refusal]
//!  5     refusal (`hello/refusal.rs`)
//!
//!  mac   HMAC-SHA256, keyed with the secret, of
//!        "chorale link, caller" or "chorale link, answerer"
//!        | length u32 | body of 1 | length u32 | body of 2 | [body of 4 after its mac]: the answerer's
//! ```
//!
//! The left number is the frame's kind. The magic and the range of versions at the head of an introduction stay where they
//! are in all versions to come, and so does a refusal's form: that is how two nodes of any versions tell each other why
//! they cannot talk.
//!
//! ```text
//!  Caller    Called --challenge--> Proved --verdict--> (introduced)
//!  Answerer  Waiting --hello--> Challenged --proof--> Judging --decide--> (introduced)
//!            each of them --refusal, or anything else--> Over
//! ```
//!
//! 1. A peer is introduced only if its MAC over both introductions was right: over both nonces, identities and clusters, the
//!    ranges of versions, and its side of the link. A recorded MAC fits no other link, and none fits the other direction.
//! 2. The answerer makes no MAC before it has seen a right one. So whoever only connects gets nothing to guess secrets with.
//! 3. Whether a node is a member is told only to a node that knows the secret. That verdict is under the answerer's MAC: a
//!    node can believe that it was removed.
//! 4. Until it is introduced, a peer can send frames of [`BODY_BYTES_MAX`] bytes and no others.
//!
//! A cluster may have no secret. Then the MACs prove nothing, and an introduction keeps only honest nodes apart: it must be
//! impossible for others to connect. Time-outs are the transport's, and so is true randomness for nonces.

mod introduction;
mod refusal;
mod secret;

pub use introduction::{Introduction, Versions, Who};
pub use refusal::HelloRefusal;
pub use secret::{Nonce, Secret};

use crate::frame::{self, Frame};
use codec::{DecodeError, Reader};
use ids::{GroupCount, NodeId, SemanticsVersion};
use secret::{MAC_BYTES, Mac, Side};
use std::fmt;

/// Most bytes of a frame's body before the peer is introduced. A longer one is an error, and the link is dropped.
pub const BODY_BYTES_MAX: usize = 512;

const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const VERDICT: u8 = 4;
const REFUSAL: u8 = 5;

/// A peer that proved who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Who it is.
    pub who: Who,
    /// The version of the protocol that this link speaks: the newest that both know.
    pub version: u16,
    /// The newest semantics that it knows.
    pub semantics: SemanticsVersion,
    /// Its worker at the other end: a caller's own; the one that an answerer chose for it.
    pub worker: u16,
    /// How many workers it has.
    pub workers: u16,
    /// The worker that it wants at this end.
    pub to: u16,
    /// How many groups of keys its cluster has, if it says so.
    pub groups: Option<GroupCount>,
}

/// Why there is no link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotIntroduced {
    /// This node does not want the peer. The peer was told, unless it spoke the last word.
    Refused(HelloRefusal),
    /// The peer does not want this node.
    RefusedByPeer {
        /// Why.
        refusal: HelloRefusal,
        /// Whether it proved that it knows the secret: only then is what it says more than a rumour.
        is_proven: bool,
    },
    /// It is no node of ours, or one that is out of step.
    Garbled(DecodeError),
}

impl fmt::Display for NotIntroduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotIntroduced::Refused(refusal) => {
                f.write_str("the peer is refused: it ")?;
                refusal.words(f, "this node")
            }
            NotIntroduced::RefusedByPeer { refusal, is_proven } => {
                f.write_str("the peer refuses this node, which ")?;
                refusal.words(f, "the peer")?;
                f.write_str(if *is_proven {
                    ""
                } else {
                    ", as it says without proof"
                })
            }
            NotIntroduced::Garbled(error) => {
                write!(f, "the peer does not introduce itself as a node does: {error}")
            }
        }
    }
}

impl std::error::Error for NotIntroduced {}

impl From<DecodeError> for NotIntroduced {
    fn from(error: DecodeError) -> NotIntroduced {
        NotIntroduced::Garbled(error)
    }
}

/// The side that connected.
#[derive(Debug)]
pub struct Caller {
    own: Introduction,
    hello: Vec<u8>,
    secret: Secret,
    expected: Option<NodeId>,
    state: CallerState,
}

#[derive(Debug)]
enum CallerState {
    Called,
    Proved { peer: Peer, challenge: Vec<u8> },
    Over,
}

impl Caller {
    /// Begins: appends the hello to `out`. `expected` is the node that is thought to be there; a joiner may know none.
    ///
    /// # Panics
    /// If `own` names a worker that it does not have.
    pub fn new(own: Introduction, secret: Secret, expected: Option<NodeId>, out: &mut Vec<u8>) -> Caller {
        assert!(own.worker < own.workers, "a link is one worker's");
        let hello = own.to_bytes();
        say(out, HELLO, &[&hello]);
        Caller {
            own,
            hello,
            secret,
            expected,
            state: CallerState::Called,
        }
    }

    /// Takes a frame, and appends what is to be sent to `out`. Gives the peer once it is introduced: from then on frames are
    /// messages.
    ///
    /// # Errors
    /// There is no link. What stands in `out` is still to be sent, so that the peer can log the reason too.
    pub fn on_frame(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<Peer>, NotIntroduced> {
        let mut reader = Reader::new(frame.body);
        match (std::mem::replace(&mut self.state, CallerState::Over), frame.kind) {
            (CallerState::Called, CHALLENGE) => {
                self.on_challenge(frame.body, &mut reader, out).map(|()| None)
            }
            (CallerState::Proved { peer, challenge }, VERDICT) => {
                self.on_verdict(&challenge, frame.body, &mut reader)?;
                Ok(Some(peer))
            }
            (CallerState::Called | CallerState::Proved { .. }, REFUSAL) => Err(on_refusal(&mut reader)),
            (CallerState::Called | CallerState::Proved { .. } | CallerState::Over, _) => {
                Err(out_of_step(&reader))
            }
        }
    }

    fn on_challenge(
        &mut self,
        challenge: &[u8],
        reader: &mut Reader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotIntroduced> {
        let peer = match agree(&self.own, reader)? {
            Ok(peer) => peer,
            Err(refusal) => return Err(refuse(refusal, out)),
        };
        let may_found = self.own.who.founding().is_some() && peer.who.founding().is_some();
        let refusal = match (peer.who.node(), self.expected) {
            (None, None) if may_found => None,
            (None, _) => Some(HelloRefusal::NoCluster),
            (Some(found), Some(expected)) if found != expected => {
                Some(HelloRefusal::WrongNode { expected, found })
            }
            (Some(_), _) => None,
        };
        if let Some(refusal) = refusal {
            return Err(refuse(refusal, out));
        }
        let mac = Mac::of(&self.secret, Side::Caller, &self.hello, challenge, &[]);
        say(out, PROOF, &[&mac.into_bytes()]);
        let challenge = challenge.to_vec();
        self.state = CallerState::Proved { peer, challenge };
        Ok(())
    }

    fn on_verdict(
        &self,
        challenge: &[u8],
        verdict: &[u8],
        reader: &mut Reader<'_>,
    ) -> Result<(), NotIntroduced> {
        let mac: [u8; MAC_BYTES] = reader.array()?;
        let said = &verdict[MAC_BYTES..];
        if !Mac::of(&self.secret, Side::Answerer, &self.hello, challenge, said).is(&mac) {
            return Err(NotIntroduced::Refused(HelloRefusal::Unproven));
        }
        if reader.bool()? {
            return Ok(());
        }
        let refusal = HelloRefusal::decode(reader)?;
        let is_proven = true;
        Err(NotIntroduced::RefusedByPeer { refusal, is_proven })
    }
}

/// The side that was connected to.
#[derive(Debug)]
pub struct Answerer {
    own: Introduction,
    secret: Secret,
    state: AnswererState,
}

#[derive(Debug)]
enum AnswererState {
    Waiting,
    Challenged(Challenged),
    Judging(Challenged),
    Over,
}

#[derive(Debug)]
struct Challenged {
    peer: Peer,
    hello: Vec<u8>,
    challenge: Vec<u8>,
}

impl Answerer {
    /// Waits for the hello. The worker of `own` is set by the one that the caller comes from.
    ///
    /// # Panics
    /// If `own` has no workers.
    pub fn new(own: Introduction, secret: Secret) -> Answerer {
        assert!(own.workers > 0, "a node has a worker");
        Answerer {
            own,
            secret,
            state: AnswererState::Waiting,
        }
    }

    /// Takes a frame, and appends what is to be sent to `out`. Gives the peer once it proved who it is; it is introduced when
    /// [`Answerer::decide`] lets it in.
    ///
    /// # Errors
    /// There is no link. What stands in `out` is still to be sent, so that the peer can log the reason too.
    pub fn on_frame(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<Peer>, NotIntroduced> {
        let mut reader = Reader::new(frame.body);
        match (
            std::mem::replace(&mut self.state, AnswererState::Over),
            frame.kind,
        ) {
            (AnswererState::Waiting, HELLO) => self.on_hello(frame.body, &mut reader, out).map(|()| None),
            (AnswererState::Challenged(challenged), PROOF) => {
                self.on_proof(challenged, &mut reader, out).map(Some)
            }
            (AnswererState::Waiting | AnswererState::Challenged(_), REFUSAL) => Err(on_refusal(&mut reader)),
            (
                AnswererState::Waiting
                | AnswererState::Challenged(_)
                | AnswererState::Judging(_)
                | AnswererState::Over,
                _,
            ) => Err(out_of_step(&reader)),
        }
    }

    fn on_hello(
        &mut self,
        hello: &[u8],
        reader: &mut Reader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotIntroduced> {
        let peer = match agree(&self.own, reader)? {
            Ok(peer) => peer,
            Err(refusal) => return Err(refuse(refusal, out)),
        };
        (self.own.worker, self.own.to) = (peer.to % self.own.workers, peer.worker);
        let challenge = self.own.to_bytes();
        say(out, CHALLENGE, &[&challenge]);
        let hello = hello.to_vec();
        self.state = AnswererState::Challenged(Challenged {
            peer,
            hello,
            challenge,
        });
        Ok(())
    }

    fn on_proof(
        &mut self,
        challenged: Challenged,
        reader: &mut Reader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Peer, NotIntroduced> {
        let mac: [u8; MAC_BYTES] = reader.array()?;
        reader.end()?;
        let Challenged {
            peer,
            hello,
            challenge,
        } = &challenged;
        if !Mac::of(&self.secret, Side::Caller, hello, challenge, &[]).is(&mac) {
            return Err(refuse(HelloRefusal::Unproven, out));
        }
        let peer = *peer;
        self.state = AnswererState::Judging(challenged);
        Ok(peer)
    }

    /// Lets the peer in, or not, as the members say; appends the verdict to `out`. From then on frames are messages.
    ///
    /// # Errors
    /// `refusal`, as what it is for this node's log. The verdict is still to be sent.
    ///
    /// # Panics
    /// If [`Answerer::on_frame`] did not give a peer just before.
    pub fn decide(self, refusal: Option<HelloRefusal>, out: &mut Vec<u8>) -> Result<(), NotIntroduced> {
        let AnswererState::Judging(challenged) = self.state else {
            panic!("only a peer that proved who it is can be let in");
        };
        let mut said = vec![refusal.is_none().into()];
        if let Some(refusal) = &refusal {
            refusal.encode(&mut said);
        }
        let Challenged { hello, challenge, .. } = &challenged;
        let mac = Mac::of(&self.secret, Side::Answerer, hello, challenge, &said);
        say(out, VERDICT, &[&mac.into_bytes(), &said]);
        refusal.map_or(Ok(()), |refusal| Err(NotIntroduced::Refused(refusal)))
    }

    /// The worker of this node that the link is for.
    pub fn worker(&self) -> u16 {
        self.own.worker
    }
}

/// What both sides look at in the other's introduction, in this order: its magic, whether there is a version that both
/// speak, whether it is of the same cluster, and whether it is somebody else.
fn agree(own: &Introduction, reader: &mut Reader<'_>) -> Result<Result<Peer, HelloRefusal>, DecodeError> {
    let versions = Introduction::decode_versions(reader)?;
    let Some(version) = versions.newest_common(own.versions) else {
        return Ok(Err(HelloRefusal::Versions {
            refused: versions,
            refuser: own.versions,
        }));
    };
    let theirs = Introduction::decode_rest(versions, reader)?;
    if let (Some(own), Some(theirs)) = (own.who.cluster(), theirs.who.cluster())
        && own != theirs
    {
        return Ok(Err(HelloRefusal::OtherCluster));
    }
    if own.who.node().is_some() && own.who.node() == theirs.who.node() {
        return Ok(Err(HelloRefusal::Itself));
    }
    Ok(Ok(Peer {
        who: theirs.who,
        version,
        semantics: theirs.semantics,
        worker: theirs.worker,
        workers: theirs.workers,
        to: theirs.to,
        groups: theirs.groups,
    }))
}

fn refuse(refusal: HelloRefusal, out: &mut Vec<u8>) -> NotIntroduced {
    let mut body = Vec::new();
    refusal.encode(&mut body);
    say(out, REFUSAL, &[&body]);
    NotIntroduced::Refused(refusal)
}

fn on_refusal(reader: &mut Reader<'_>) -> NotIntroduced {
    match HelloRefusal::decode(reader) {
        Ok(refusal) => NotIntroduced::RefusedByPeer {
            refusal,
            is_proven: false,
        },
        Err(error) => NotIntroduced::Garbled(error),
    }
}

#[cold]
fn out_of_step(reader: &Reader<'_>) -> NotIntroduced {
    NotIntroduced::Garbled(reader.error("a frame that has its place here"))
}

fn say(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    frame::append(out, kind, false, |out| {
        parts.iter().for_each(|part| out.extend_from_slice(part));
    });
}
