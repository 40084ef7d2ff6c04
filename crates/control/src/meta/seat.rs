//! A seat in the meta group: this node's replica, with its log on disk.
//!
//! ```text
//!   vacant --the leader's state, and its word--> held --entries--> held     Begin, then Append, Snapshot, ... on disk
//!     |                                           ^
//!     '-- the process dies: the identity is gone  '-- restored from disk, founded
//! ```
//!
//! Invariants:
//! 1. An identity whose log is on disk never acknowledges, votes or applies what is not.
//! 2. A vacant seat has nothing on disk. What it acknowledges is nothing but where it stands; if it dies, the node is
//!    given another identity, because it has none to show.
//! 3. Only one snapshot is on its way to the disk, and the log keeps what is behind the last one that is there.

use super::book::Book;
use super::effects::{MetaWrite, Record};
use super::proposal::Proposal;
use crate::command::{MetaOutcome, MetaRefusal};
use crate::group::GroupRef;
use crate::state::State;
use bytes::Bytes;
use consensus::{
    Config, Durability, EntryEffect, HardState, Index, LogEntry, Members, RaftMessage, RaftNode, Saved,
    SnapshotPoint, Term, Times,
};
use ids::{Boot, GroupId, Incarnation, Monotonic};
use mutations::Mutation;
use std::collections::VecDeque;

/// The meta group's number where data groups have theirs: beyond all of them.
pub(crate) const META_GROUP: u16 = u16::MAX;

/// Entries behind the last snapshot at which another one is made.
const ENTRIES_MAX: u64 = 1_024;

/// Bytes of the log at which a snapshot is made.
const LOG_BYTES_MAX: usize = 1 << 20;

/// Entries that are kept in memory in front of a snapshot, for members that lag a little.
const ENTRIES_KEPT: u64 = 128;

/// See the file's header.
pub(crate) struct Seat {
    pub(crate) raft: RaftNode,
    /// None while it is vacant.
    book: Option<Book>,
    applied: Index,
    is_on_disk: bool,
    /// What was given and is not installed.
    held: Option<(Index, Term, Book)>,
    /// The last snapshot, and the one that is being written, with the number of the write.
    snapshot: Index,
    snapshotting: Option<(u64, Index)>,
    /// Writes under way, and what they are to consensus.
    writing: VecDeque<(u64, u64)>,
    writes: Vec<MetaWrite>,
}

/// What became of an entry.
pub(crate) struct Applied {
    pub(crate) index: Index,
    pub(crate) term: Term,
    /// None for what is no proposal, or answers nobody.
    pub(crate) result: Option<Result<MetaOutcome, MetaRefusal>>,
}

/// What a seat wants done.
#[derive(Default)]
pub(crate) struct SeatEffects {
    pub(crate) messages: Vec<RaftMessage>,
    pub(crate) applied: Vec<Applied>,
    pub(crate) is_new_status: bool,
    pub(crate) claims_changed: bool,
    /// The state was replaced as a whole.
    pub(crate) was_installed: bool,
    /// Members that need the state.
    pub(crate) wanted: Vec<Incarnation>,
}

/// What a log on disk held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// The last snapshot; none if the log never began.
    pub snapshot: Option<(SnapshotPoint, Vec<u8>)>,
    /// The entries behind it.
    pub entries: Vec<LogEntry>,
}

impl Restored {
    /// A log that begins with this state, as the member `me` of the meta group has it: for simulations of clusters that are large from
    /// the beginning. None if `me` is no member.
    pub fn of_state(state: &State, me: Incarnation) -> Option<Restored> {
        let group = state.groups().get(&GroupRef::Meta)?;
        if !group.members.iter().any(|member| member.incarnation == me) {
            return None;
        }
        let (index, term) = (Index(group.index.max(1)), Term(group.term));
        let mut book = Book::blank();
        book.state.clone_from(state);
        book.configured = index;
        let members = Members::of_voters(group.voters().map(|voter| voter.incarnation));
        let point = SnapshotPoint { index, term, members };
        let hard_state = HardState {
            term,
            commit: index,
            ..HardState::default()
        };
        Some(Restored {
            hard_state,
            snapshot: Some((point, book.encode_for(me))),
            entries: Vec::new(),
        })
    }

    /// The state behind all that is there, and its place. Committed or not: those who are gone may have acknowledged it, and who is alone has. None
    /// if there is none that can be read.
    pub(super) fn book(&self) -> Option<((Index, Term), Book)> {
        let (start, bytes) = self.snapshot.as_ref()?;
        let (_, mut book) = Book::decode_owned(bytes).ok()?;
        let mut last = (start.index, start.term);
        if let Some(entry) = self.entries.last() {
            last = (entry.index, entry.term);
        }
        for bytes in self.entries.iter().filter_map(LogEntry::data) {
            if let Ok(proposal) = Proposal::decode(bytes) {
                let _ = book.apply(&proposal);
            }
        }
        Some((last, book))
    }
}

fn config(me: Incarnation, start: SnapshotPoint, saved: Saved, times: Times, seed: u64) -> Config {
    Config {
        group: GroupId::new(META_GROUP),
        me,
        start,
        saved,
        durability: Durability::Durable,
        // A member whose log is damaged does not start: none comes back with less than it acknowledged.
        node_start: Boot(0),
        times,
        seed,
    }
}

impl Seat {
    /// The first one of a new group.
    pub(crate) fn found(me: Incarnation, times: Times, seed: u64, now: Monotonic, write: &mut u64) -> Seat {
        let point = Config::first(Members::of_voters([me]));
        let config = config(me, point.clone(), Saved::default(), times, seed);
        let raft = RaftNode::new(config, now).expect("one member, and times that were checked");
        let mut seat = Seat::new(raft, Some(Book::blank()), point.index, true);
        let state = Book::blank().encode_for(me);
        seat.write(write, Record::Begin { point, state });
        seat
    }

    /// One that has nothing yet.
    pub(crate) fn vacant(me: Incarnation, times: Times, seed: u64, now: Monotonic) -> Option<Seat> {
        let config = config(me, Config::NOWHERE, Saved::default(), times, seed);
        let raft = RaftNode::new(config, now).ok()?;
        Some(Seat::new(raft, None, Index(0), false))
    }

    /// One that goes on. None if the disk holds nothing that can.
    pub(crate) fn restore(
        restored: Restored,
        times: Times,
        seed: u64,
        now: Monotonic,
    ) -> Option<(Incarnation, Seat)> {
        let (point, bytes) = restored.snapshot?;
        let (me, book) = Book::decode_owned(&bytes).ok()?;
        let saved = Saved {
            hard_state: restored.hard_state,
            entries: restored.entries,
            floor: None,
        };
        let start = point.index;
        let raft = RaftNode::new(config(me, point, saved, times, seed), now).ok()?;
        Some((me, Seat::new(raft, Some(book), start, true)))
    }

    fn new(raft: RaftNode, book: Option<Book>, start: Index, is_on_disk: bool) -> Seat {
        Seat {
            raft,
            book,
            applied: start,
            is_on_disk,
            held: None,
            snapshot: start,
            snapshotting: None,
            writing: VecDeque::new(),
            writes: Vec::new(),
        }
    }

    pub(crate) fn book(&self) -> Option<&Book> {
        self.book.as_ref()
    }

    /// Whether its log is, or is about to be.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.is_on_disk
    }

    pub(crate) fn applied(&self) -> Index {
        self.applied
    }

    fn write(&mut self, write: &mut u64, record: Record) -> u64 {
        *write += 1;
        self.writes.push(MetaWrite {
            number: *write,
            record,
        });
        *write
    }

    pub(crate) fn take_writes(&mut self) -> Vec<MetaWrite> {
        std::mem::take(&mut self.writes)
    }

    /// Everything up to this write is on disk.
    pub(crate) fn on_persisted(&mut self, number: u64, now: Monotonic) {
        let mut persisted = None;
        while let Some(&(write, ready)) = self.writing.front()
            && write <= number
        {
            persisted = Some(ready);
            self.writing.pop_front();
        }
        if let Some(ready) = persisted {
            self.raft.persisted(ready, now);
        }
        if let Some((write, index)) = self.snapshotting
            && write <= number
        {
            self.snapshotting = None;
            self.snapshot = self.snapshot.max(index);
            self.raft.compact(Index(index.0.saturating_sub(ENTRIES_KEPT)));
        }
    }

    /// The state as of `point` has come. Whether it is held from now on.
    pub(crate) fn hold(&mut self, point: &SnapshotPoint, bytes: &[u8]) -> bool {
        // One that consensus has been told of must not be taken from under it.
        if self.raft.has_ready() || point.index <= self.applied {
            return false;
        }
        let Ok(book) = Book::decode(bytes) else {
            return false;
        };
        if !self.raft.hold_transfer(Some((point.index, point.term))) {
            return false;
        }
        self.held = Some((point.index, point.term, book));
        true
    }

    /// The state as it is now, for a member that needs it.
    pub(crate) fn give(&self) -> Option<(SnapshotPoint, Vec<u8>)> {
        let book = self.book.as_ref()?;
        Some((self.raft.point(), book.encode()))
    }

    pub(crate) fn propose(&mut self, proposal: &[u8]) -> Option<(Index, Term)> {
        self.raft.propose(Bytes::copy_from_slice(proposal)).ok()
    }

    /// Carries out what consensus says.
    pub(crate) fn turn(&mut self, write: &mut u64, now: Monotonic, effects: &mut SeatEffects) {
        while self.raft.has_ready() {
            let ready = self.raft.take_ready(now);
            effects.is_new_status |= ready.status.is_some();
            effects.claims_changed |= ready.claims_changed;
            if let Some(persist) = ready.persist {
                self.persist(persist, write, now);
            }
            if let Some(point) = ready.install {
                let (index, term, book) = self.held.take().expect("consensus was told of what is held");
                assert_eq!(
                    (index, term),
                    (point.index, point.term),
                    "consensus was told of this state and no other"
                );
                self.book = Some(book);
                self.applied = index;
                self.snapshot = index;
                effects.was_installed = true;
            }
            for committed in ready.committed {
                let (index, term) = (committed.index, committed.term);
                assert_eq!(
                    index.0,
                    self.applied.0 + 1,
                    "entries are applied in order, each once"
                );
                let book = self.book.as_mut().expect("nothing is committed behind no state");
                let result = match committed.effect {
                    EntryEffect::Nothing => None,
                    EntryEffect::Members(members) => {
                        if !members.is_joint() {
                            book.configured = index;
                        }
                        None
                    }
                    // What this build cannot read, no member of the same rules can.
                    EntryEffect::Apply(bytes) => match Proposal::decode(&bytes) {
                        Ok(proposal) => book.apply(&proposal),
                        Err(_) => Some(Err(MetaRefusal::Malformed)),
                    },
                };
                self.applied = index;
                effects.applied.push(Applied { index, term, result });
            }
            self.raft.applied(self.applied);
            effects.messages.extend(ready.messages);
            effects.wanted.extend(ready.transfers_wanted);
        }
        self.compact(write);
    }

    fn persist(&mut self, persist: consensus::Persist, write: &mut u64, now: Monotonic) {
        if let Some(point) = persist.start {
            // The state that was given is on disk before anything that stands on it.
            let (_, _, book) = self.held.as_ref().expect("consensus was told of what is held");
            let state = book.encode_for(self.raft.me());
            let point = *point;
            let record = match self.is_on_disk {
                true => Record::Snapshot { point, state },
                false => Record::Begin { point, state },
            };
            self.write(write, record);
            self.is_on_disk = true;
        } else if !self.is_on_disk {
            // Invariant 2.
            return self.raft.persisted(persist.number, now);
        }
        let mut hard_state = persist.hard_state;
        if mutations::is(Mutation::MetaVoteNotWritten) {
            hard_state.vote = None;
        }
        let record = Record::Append {
            entries: persist.entries,
            hard_state,
        };
        let number = self.write(write, record);
        self.writing.push_back((number, persist.number));
    }

    /// Makes a snapshot if the log is long.
    fn compact(&mut self, write: &mut u64) {
        let is_long =
            self.applied.0 - self.snapshot.0 >= ENTRIES_MAX || self.raft.log_bytes() >= LOG_BYTES_MAX;
        let is_new = self.applied.0 > self.snapshot.0 + ENTRIES_KEPT;
        if !is_long || !is_new || self.snapshotting.is_some() || !self.is_on_disk {
            return;
        }
        let Some(book) = &self.book else { return };
        let (point, state) = (self.raft.point(), book.encode_for(self.raft.me()));
        let index = point.index;
        let number = self.write(write, Record::Snapshot { point, state });
        self.snapshotting = Some((number, index));
    }
}
