//! Which of several nodes without a cluster makes the one that all of them are to be in.
//!
//! ```text
//!              an address answers as a node of a cluster
//!   waiting ------------------------------------------------------------------> Join
//!      |  ^
//!      |  | a link comes or goes, or a name leads elsewhere: what was promised is void
//!      v  |
//!   asking: all addresses answer, so many nodes are there, --- all promised --> Create
//!           and this one is the smallest behind the addresses
//! ```
//!
//! Every process draws a name for itself. Two nodes tell each other by it whether they are one, and a process that was started again
//! from what it was before. A node asks all others that it has links with; one that is asked promises if it would have that node create.
//!
//! What may be relied on is that of two nodes which each need the other's promise at most one creates, whatever becomes of links and
//! processes: whoever promises does not ask, and a promise answers one ask. So the one that created had promised before it asked for the
//! last time, and so had the other. [Decision 0072](../../../docs/decisions/0072-who-makes-the-cluster.md) has the argument.
//!
//! Invariants, checked by [`Founding::check`]:
//! 1. Whoever promised is there, and is not this node.
//! 2. Only a node that may ask has promises.
//! 3. Others have dialled at most [`FOUNDING_LINKS_MAX`] of the links. What this node dials is bounded by its owner.
//!
//! Absent: time. A promise lasts until links change; who waits for how long is for the owner to say.

use codec::{DecodeError, Reader, Writer};
use ids::FoundingId;
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet};

/// Links that others have dialled. One beyond them is to be closed: a cluster has fewer first nodes, and strangers must not keep out whom
/// this node dials.
pub const FOUNDING_LINKS_MAX: usize = 1_024;

/// What a node without a cluster says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundingNode {
    /// Its process.
    pub id: FoundingId,
    /// How many nodes are to be there before there is a cluster, itself among them.
    pub expects: u16,
}

/// What such nodes say to each other.
///
/// ```text
///  message  tag u8: 1 ask, 2 promise | round u64
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundingMessage {
    /// May I create?
    Ask {
        /// Counts what the sender has seen change: a promise for an earlier round is void.
        round: u64,
    },
    /// You may, as far as I can see.
    Promise {
        /// That of the ask.
        round: u64,
    },
}

impl FoundingMessage {
    /// As bytes.
    pub fn encode(self, out: &mut impl Writer) {
        let (tag, round) = match self {
            FoundingMessage::Ask { round } => (1, round),
            FoundingMessage::Promise { round } => (2, round),
        };
        out.u8(tag);
        out.u64(round);
    }

    /// From bytes.
    ///
    /// # Errors
    /// It is nothing that this version says.
    pub fn decode(bytes: &[u8]) -> Result<FoundingMessage, DecodeError> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            1 => FoundingMessage::Ask { round: reader.u64()? },
            2 => FoundingMessage::Promise { round: reader.u64()? },
            _ => return Err(reader.unknown("a word between nodes without a cluster")),
        };
        reader.end()?;
        Ok(message)
    }
}

/// What becomes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundingEnd {
    /// It makes the cluster.
    Create,
    /// There is one: it joins it, and never makes one in this life.
    Join,
}

/// A link that is up.
#[derive(Clone, Copy, Debug)]
struct Linked {
    /// The number of the address that was dialled; none if the other end dialled.
    address: Option<u16>,
    peer: FoundingNode,
    /// The round in which the peer asked, while it has no answer.
    asked: Option<u64>,
}

/// See the file's header. `L` is what its owner calls a link.
#[derive(Clone, Debug)]
pub struct Founding<L> {
    own: FoundingNode,
    /// Those that are to answer, by number; none while a name leads nowhere.
    addresses: Option<BTreeSet<u16>>,
    links: BTreeMap<L, Linked>,
    round: u64,
    has_asked: bool,
    promised: BTreeSet<FoundingId>,
    end: Option<FoundingEnd>,
}

impl<L: Copy + Ord> Founding<L> {
    /// Without links and addresses.
    pub fn new(own: FoundingNode) -> Founding<L> {
        Founding {
            own,
            addresses: None,
            links: BTreeMap::new(),
            round: 0,
            has_asked: false,
            promised: BTreeSet::new(),
            end: None,
        }
    }

    /// What this node says of itself.
    pub fn own(&self) -> FoundingNode {
        self.own
    }

    /// These addresses are to answer, by number; `None` while it is not known where some name leads.
    pub fn on_addresses(&mut self, addresses: Option<BTreeSet<u16>>) {
        if self.addresses != addresses {
            self.addresses = addresses;
            self.begin_round();
        }
    }

    /// A link is up with a node that has no cluster either. Whether there is room for it: else it is to be closed.
    ///
    /// `address` is the number of the one that was dialled; none if the other end dialled.
    #[must_use]
    pub fn on_link_up(&mut self, link: L, address: Option<u16>, peer: FoundingNode) -> bool {
        let is_known = self.links.contains_key(&link);
        if address.is_none() && !is_known && self.dialled_by_others() >= FOUNDING_LINKS_MAX {
            return false;
        }
        let asked = None;
        self.links.insert(link, Linked { address, peer, asked });
        self.begin_round();
        true
    }

    /// A link is down.
    pub fn on_link_down(&mut self, link: L) {
        if self.links.remove(&link).is_some() {
            self.begin_round();
        }
    }

    /// Somebody is of a cluster already.
    pub fn on_cluster(&mut self) {
        self.end.get_or_insert(FoundingEnd::Join);
    }

    /// What came over a link.
    pub fn on_message(&mut self, link: L, message: FoundingMessage) {
        let Some(linked) = self.links.get_mut(&link) else {
            return;
        };
        match message {
            FoundingMessage::Ask { round } => linked.asked = Some(round),
            FoundingMessage::Promise { round } => {
                let is_asked = round == self.round && self.has_asked;
                if is_asked && linked.peer.id != self.own.id {
                    self.promised.insert(linked.peer.id);
                }
            }
        }
    }

    /// Says what is to be said, and what comes of all that was heard. After it nothing more is said.
    pub fn step(&mut self, say: &mut impl FnMut(L, FoundingMessage)) -> Option<FoundingEnd> {
        if self.end.is_some() {
            return self.end;
        }
        if self.may_ask() {
            let others: BTreeMap<FoundingId, L> = self.others().collect();
            if !std::mem::replace(&mut self.has_asked, true) {
                let round = self.round;
                others
                    .values()
                    .for_each(|link| say(*link, FoundingMessage::Ask { round }));
            }
            let have_promised = others.keys().all(|other| self.promised.contains(other));
            if have_promised || mutations::is(Mutation::TwoCreators) {
                self.end = Some(FoundingEnd::Create);
            }
        } else if self.is_complete() {
            let creator = self.smallest();
            for (link, linked) in &mut self.links {
                if Some(linked.peer.id) == creator
                    && let Some(round) = linked.asked.take()
                {
                    say(*link, FoundingMessage::Promise { round });
                }
            }
        }
        self.check();
        self.end
    }

    /// The addresses that nobody answers at, by number.
    pub fn unanswered(&self) -> impl Iterator<Item = u16> + '_ {
        let answer: BTreeSet<u16> = self.links.values().filter_map(|linked| linked.address).collect();
        let addresses = self.addresses.iter().flatten().copied();
        addresses.filter(move |address| !answer.contains(address))
    }

    /// How many nodes without a cluster are there, this one among them.
    pub fn present(&self) -> usize {
        self.others().collect::<BTreeMap<_, _>>().len() + 1
    }

    /// Whether one of the addresses leads to this node itself: only such a one may create.
    pub fn is_named(&self) -> bool {
        self.named().any(|id| id == self.own.id)
    }

    /// The links with nodes that expect another number, and that.
    pub fn other_numbers(&self) -> impl Iterator<Item = (L, u16)> + '_ {
        let others = self
            .links
            .iter()
            .map(|(link, linked)| (*link, linked.peer.expects));
        others.filter(|(_, expects)| *expects != self.own.expects)
    }

    /// What was promised is void: it was about what is not so any more.
    fn begin_round(&mut self) {
        self.round += 1;
        self.has_asked = false;
        self.promised.clear();
    }

    /// The other nodes, each with one of the links to it.
    fn others(&self) -> impl Iterator<Item = (FoundingId, L)> + '_ {
        let links = self.links.iter().map(|(link, linked)| (linked.peer.id, *link));
        links.filter(|(id, _)| *id != self.own.id)
    }

    fn dialled_by_others(&self) -> usize {
        let links = self.links.values();
        links.filter(|linked| linked.address.is_none()).count()
    }

    /// Those behind the addresses.
    fn named(&self) -> impl Iterator<Item = FoundingId> + '_ {
        let is_wanted = |address: u16| self.addresses.as_ref().is_some_and(|all| all.contains(&address));
        let links = self.links.values();
        let named = links.filter(move |linked| linked.address.is_some_and(is_wanted));
        named.map(|linked| linked.peer.id)
    }

    /// Who is to create.
    fn smallest(&self) -> Option<FoundingId> {
        self.named().min()
    }

    /// Whether all addresses answer, and all nodes expect the same.
    fn is_complete(&self) -> bool {
        let is_known = self.addresses.as_ref().is_some_and(|all| !all.is_empty());
        is_known && self.unanswered().next().is_none() && self.other_numbers().next().is_none()
    }

    fn may_ask(&self) -> bool {
        self.is_complete()
            && self.smallest() == Some(self.own.id)
            && self.present() >= usize::from(self.own.expects)
    }

    /// Asserts the invariants of the file's header.
    pub fn check(&self) {
        let is_there = |id: &FoundingId| self.others().any(|(other, _)| other == *id);
        assert!(
            self.promised.iter().all(is_there),
            "1: promises are of other nodes there"
        );
        assert!(
            self.promised.is_empty() || self.may_ask(),
            "2: a node that may not ask has no promises"
        );
        assert!(
            self.dialled_by_others() <= FOUNDING_LINKS_MAX,
            "3: links are bounded"
        );
    }
}
