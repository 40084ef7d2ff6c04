//! Heartbeats between two nodes, for all groups at once.
//!
//! One side says: I lead these groups, in these terms, and replicas of them are with you. It says so by a digest, and
//! lists them only while the other side does not know the digest. The other side looks at its own replica of each
//! claimed group, confirms those that agree on term and leader, and answers which do not. What is confirmed counts as an
//! acknowledgement of what was sent *when the heartbeat was sent*, in every confirmed group.
//!
//! ```text
//!   Beats (claims)                                       Listener (knows lists by digest)
//!     | -- number, digest, list while not confirmed ------> |   asks each group: do you agree?
//!     | <---- number, digest, not known | who disagrees --- |   those that agree renew their promise
//!     |  each claim: acknowledged as of when the number was sent, or refused
//! ```
//!
//! There is one pair of these for each two parts of nodes that share a link, not for each group: a quiet group costs a
//! few comparisons a heartbeat, and sends nothing.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::message::Term;
use ids::{Boot, GroupId, Incarnation, Monotonic};

/// Heartbeats whose answers are waited for. With more under way the oldest is forgotten, and its answer means nothing.
pub const BEATS_MAX: usize = 32;

/// Most claims of one list: as many groups as a cluster can have, and some. A longer list is answered as not known.
pub const CLAIMS_MAX: usize = 8_192;

/// That a replica leads, said to one of its group's members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The group.
    pub group: GroupId,
    /// The term in which it leads.
    pub term: Term,
    /// The leader.
    pub leader: Incarnation,
    /// The member it is said to.
    pub to: Incarnation,
}

/// One heartbeat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beat {
    /// The boot of the node that sends it.
    pub boot: Boot,
    /// Which of that boot's heartbeats to this peer.
    pub number: u64,
    /// Of the list of claims.
    pub digest: u128,
    /// The list, if the receiver may not know it.
    pub claims: Option<Vec<Claim>>,
}

/// The answer to one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeatAnswer {
    /// As it was said.
    pub boot: Boot,
    /// As it was said.
    pub number: u64,
    /// As it was said.
    pub digest: u128,
    /// The places in the list of the claims that the receiver does not agree with; `None` if it does not know the list.
    pub refused: Option<Vec<u16>>,
    /// The start of the node that answers ([`crate::Config::node_start`]).
    pub start: Boot,
}

/// The side that leads.
#[derive(Clone, Debug)]
pub struct Beats {
    boot: Boot,
    interval: Duration,
    claims: Vec<Claim>,
    digest: u128,
    is_known: bool,
    number: u64,
    due: Option<Monotonic>,
    /// Number, digest and time of what was sent, oldest first.
    sent: VecDeque<(u64, u128, Monotonic)>,
}

impl Beats {
    /// Nothing is claimed yet.
    pub fn new(boot: Boot, interval: Duration) -> Beats {
        Beats {
            boot,
            interval,
            claims: Vec::new(),
            digest: digest_of(&[]),
            is_known: false,
            number: 0,
            due: None,
            sent: VecDeque::new(),
        }
    }

    /// From now on these are claimed. If they differ from before, a heartbeat is due at once.
    ///
    /// # Panics
    /// If there are more than [`CLAIMS_MAX`]: a node has one replica of a group.
    pub fn claim(&mut self, claims: Vec<Claim>, now: Monotonic) {
        assert!(claims.len() <= CLAIMS_MAX, "a node has one replica of a group");
        if claims == self.claims {
            return;
        }
        self.digest = digest_of(&claims);
        self.is_known = false;
        self.due = (!claims.is_empty()).then_some(now);
        self.claims = claims;
    }

    /// When the next one is due; never while nothing is claimed.
    pub fn due(&self) -> Option<Monotonic> {
        self.due
    }

    /// The heartbeat that is due, if one is. `now` is not later than when it is sent.
    pub fn beat(&mut self, now: Monotonic) -> Option<Beat> {
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        self.number += 1;
        self.due = Some(now.after(self.interval));
        if self.sent.len() == BEATS_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((self.number, self.digest, now));
        Some(Beat {
            boot: self.boot,
            number: self.number,
            digest: self.digest,
            claims: (!self.is_known).then(|| self.claims.clone()),
        })
    }

    /// The link to the peer is a new one, or the peer is: it may know no list.
    pub fn reconnected(&mut self, now: Monotonic) {
        self.is_known = false;
        self.due = (!self.claims.is_empty()).then_some(now);
    }

    /// An answer: calls `each` with every claim that it speaks of, and when what was confirmed was sent, or `None` if it
    /// is refused. The caller hands that to the group: [`acknowledged`](crate::RaftNode::acknowledged) or
    /// [`refused`](crate::RaftNode::refused).
    pub fn on_answer(
        &mut self,
        answer: &BeatAnswer,
        now: Monotonic,
        mut each: impl FnMut(&Claim, Option<Monotonic>),
    ) {
        let sent = self
            .sent
            .iter()
            .find(|(number, digest, _)| *number == answer.number && *digest == answer.digest);
        let Some((_, _, sent)) = sent.copied() else {
            return;
        };
        // What was said of an earlier list says nothing of this one.
        if answer.boot != self.boot || answer.digest != self.digest {
            return;
        }
        let Some(refused) = &answer.refused else {
            if self.is_known {
                self.is_known = false;
                self.due = self.due.map(|due| due.min(now));
            }
            return;
        };
        self.is_known = true;
        let mut refused = refused.iter().copied().peekable();
        for (place, claim) in self.claims.iter().enumerate() {
            let is_refused = refused
                .next_if(|refused| usize::from(*refused) == place)
                .is_some();
            each(claim, (!is_refused).then_some(sent));
        }
    }
}

/// The side that follows.
#[derive(Clone, Debug)]
pub struct Listener {
    start: Boot,
    known: Option<(u128, Vec<Claim>)>,
}

impl Listener {
    /// It knows no list, and answers as of this start of its node.
    pub fn new(start: Boot) -> Listener {
        Listener { start, known: None }
    }

    /// A heartbeat: asks `confirms` for each claim whether this node's replica agrees, which is
    /// [`confirm`](crate::RaftNode::confirm), and makes the answer.
    pub fn on_beat(&mut self, beat: Beat, mut confirms: impl FnMut(&Claim) -> bool) -> BeatAnswer {
        if let Some(claims) = beat.claims
            && claims.len() <= CLAIMS_MAX
            && digest_of(&claims) == beat.digest
        {
            self.known = Some((beat.digest, claims));
        }
        let refused = match &self.known {
            Some((digest, claims)) if *digest == beat.digest => {
                let places = claims.iter().enumerate();
                // CLAIMS_MAX is below 2^16.
                Some(
                    places
                        .filter(|(_, claim)| !confirms(claim))
                        .map(|(place, _)| place as u16)
                        .collect(),
                )
            }
            _ => None,
        };
        BeatAnswer {
            boot: beat.boot,
            number: beat.number,
            digest: beat.digest,
            refused,
            start: self.start,
        }
    }
}

fn digest_of(claims: &[Claim]) -> u128 {
    let mut hasher = SipHasher13::new();
    for claim in claims {
        hasher.write_u16(claim.group.number());
        hasher.write_u64(claim.term.0);
        hasher.write_u64(claim.leader.0);
        hasher.write_u64(claim.to.0);
    }
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(group: u16) -> Claim {
        Claim {
            group: GroupId::new(group),
            term: Term(3),
            leader: Incarnation(1),
            to: Incarnation(2),
        }
    }

    #[test]
    fn a_list_travels_until_it_is_known_and_what_is_confirmed_counts_from_the_sending() {
        let mut beats = Beats::new(Boot(1), Duration::from_nanos(100));
        let mut listener = Listener::new(Boot(2));
        assert_eq!(beats.beat(Monotonic(0)), None);
        beats.claim(vec![claim(0), claim(1)], Monotonic(5));
        let first = beats.beat(Monotonic(5)).expect("due at once");
        assert!(first.claims.is_some());
        let answer = listener.on_beat(first, |claim| claim.group == GroupId::new(0));
        let mut told = Vec::new();
        beats.on_answer(&answer, Monotonic(50), |claim, sent| {
            told.push((claim.group.number(), sent))
        });
        assert_eq!(told, [(0, Some(Monotonic(5))), (1, None)]);
        let second = beats.beat(Monotonic(105)).expect("due again");
        assert_eq!(second.claims, None);
        assert_eq!(listener.on_beat(second, |_| true).refused, Some(vec![]));
    }

    #[test]
    fn a_listener_that_does_not_know_the_list_is_told_it_at_once() {
        let mut beats = Beats::new(Boot(1), Duration::from_nanos(100));
        let mut listener = Listener::new(Boot(2));
        beats.claim(vec![claim(0)], Monotonic(0));
        let first = beats.beat(Monotonic(0)).expect("due at once");
        let answer = listener.on_beat(first, |_| true);
        beats.on_answer(&answer, Monotonic(1), |_, _| ());
        let second = beats.beat(Monotonic(100)).expect("due again");
        let answer = Listener::new(Boot(2)).on_beat(second, |_| true);
        assert_eq!(answer.refused, None);
        beats.on_answer(&answer, Monotonic(110), |_, _| panic!("nothing is confirmed"));
        assert!(
            beats
                .beat(Monotonic(110))
                .is_some_and(|beat| beat.claims.is_some())
        );
    }

    #[test]
    fn an_answer_about_an_earlier_list_confirms_nothing() {
        let mut beats = Beats::new(Boot(1), Duration::from_nanos(100));
        let mut listener = Listener::new(Boot(2));
        beats.claim(vec![claim(0)], Monotonic(0));
        let first = beats.beat(Monotonic(0)).expect("due at once");
        let answer = listener.on_beat(first, |_| true);
        beats.claim(vec![claim(1)], Monotonic(1));
        beats.on_answer(&answer, Monotonic(2), |_, _| panic!("it was another list"));
    }
}
