//! One node: a replica with its state, its disk, its clock, and its heartbeats to each other node.

use std::collections::{BTreeMap, VecDeque};

use consensus::{
    Beats, Config, Durability, HardState, Index, Listener, LogEntry, Persist, RaftNode, ReadId, Saved,
    SnapshotPoint, Term, Times,
};
use ids::{Boot, GroupId, Incarnation, Monotonic};

use crate::network::Packet;

/// The state machine: it counts what was appended, and remembers the order by a running hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    pub(crate) count: u64,
    hash: u64,
}

impl State {
    pub(crate) fn append(&mut self, number: u64) {
        self.count += 1;
        self.hash = (self.hash ^ number).wrapping_mul(0x100_0000_01b3).rotate_left(23);
    }
}

/// What survives a crash of a durable replica.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) start: SnapshotPoint,
    pub(crate) state: State,
    pub(crate) entries: Vec<LogEntry>,
    pub(crate) hard_state: HardState,
    pub(crate) floor: Option<(Term, Index)>,
    /// What was on it before the last writes.
    pub(crate) former: Vec<(SnapshotPoint, State, Vec<LogEntry>, HardState)>,
}

/// Writes of which damage may take the last ones.
const FORMER_MAX: usize = 12;

impl Disk {
    /// The last entry, or the start.
    fn last(&self) -> (Term, Index) {
        let entry = self.entries.last().map(|entry| (entry.term, entry.index));
        entry.unwrap_or((self.start.term, self.start.index))
    }

    /// So many of the last writes are damaged: what was there before them is left, and what the newest table says.
    pub(crate) fn damage(&mut self, writes: usize) {
        let newest = self.last();
        let left = self.former.len().saturating_sub(writes);
        let Some((start, state, entries, hard_state)) = self.former.drain(left..).next() else {
            return;
        };
        (self.start, self.state, self.entries) = (start, state, entries);
        self.hard_state.commit = hard_state.commit;
        self.floor = self.floor.max(Some(newest)).filter(|floor| *floor > self.last());
    }

    pub(crate) fn write(&mut self, persist: &Persist, installed: Option<State>) {
        let former = (
            self.start.clone(),
            self.state,
            self.entries.clone(),
            self.hard_state,
        );
        self.former.push(former);
        if self.former.len() > FORMER_MAX {
            self.former.remove(0);
        }
        if let Some(start) = &persist.start {
            self.start = (**start).clone();
            self.state = installed.expect("a start comes with a state");
            self.entries.clear();
        }
        if let Some(first) = persist.entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
        }
        self.entries.extend(persist.entries.iter().cloned());
        self.hard_state = persist.hard_state;
        self.floor = self.floor.filter(|floor| *floor > self.last());
    }
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Proposed numbers, by place and term.
    pub(crate) writes: BTreeMap<Index, (Term, u64)>,
    /// Rounds, with what must be visible.
    pub(crate) rounds: BTreeMap<ReadId, u64>,
    /// Confirmed, until applied.
    pub(crate) confirmed: Vec<(Index, u64)>,
}

pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) boot: Boot,
    pub(crate) group: RaftNode,
    pub(crate) state: State,
    pub(crate) applied: Index,
    pub(crate) disk: Disk,
    /// Writes under way: when each is done.
    pub(crate) writing: VecDeque<(u64, Persist, Option<State>)>,
    pub(crate) beats: BTreeMap<usize, Beats>,
    pub(crate) listeners: BTreeMap<usize, Listener>,
    pub(crate) held: Option<(SnapshotPoint, State)>,
    pub(crate) clients: Clients,
    /// The term in which it was told to hand over.
    pub(crate) handed_over_in: Option<Term>,
    /// Parts per million by which its clock is too fast.
    pub(crate) drift: i64,
    pub(crate) offset: u64,
    pub(crate) paused_until: u64,
    /// Whether the end of a turn is scheduled.
    pub(crate) has_turn: bool,
    pub(crate) inbox: VecDeque<(usize, Packet)>,
}

pub(crate) struct Birth {
    pub(crate) number: usize,
    pub(crate) boot: Boot,
    pub(crate) me: Incarnation,
    pub(crate) start: SnapshotPoint,
    pub(crate) state: State,
    pub(crate) saved: Saved,
    pub(crate) durability: Durability,
    pub(crate) drift: i64,
    pub(crate) seed: u64,
}

impl Node {
    pub(crate) fn born(birth: Birth, real: u64) -> Node {
        let offset = birth.seed % 1_000_000_000_000;
        let config = Config {
            group: GroupId::new(7),
            me: birth.me,
            start: birth.start.clone(),
            saved: birth.saved.clone(),
            durability: birth.durability,
            node_start: birth.boot,
            times: Times::DEFAULT,
            seed: birth.seed,
        };
        let now = clock(real, birth.drift, offset);
        let group = RaftNode::new(config, now).expect("a valid configuration");
        Node {
            number: birth.number,
            boot: birth.boot,
            group,
            state: birth.state,
            applied: birth.start.index,
            disk: Disk {
                start: birth.start,
                state: birth.state,
                entries: birth.saved.entries,
                hard_state: birth.saved.hard_state,
                floor: birth.saved.floor,
                former: Vec::new(),
            },
            writing: VecDeque::new(),
            beats: BTreeMap::new(),
            listeners: BTreeMap::new(),
            held: None,
            clients: Clients::default(),
            handed_over_in: None,
            drift: birth.drift,
            offset,
            paused_until: 0,
            has_turn: false,
            inbox: VecDeque::new(),
        }
    }

    pub(crate) fn now(&self, real: u64) -> Monotonic {
        clock(real, self.drift, self.offset)
    }

    pub(crate) fn is_paused(&self, real: u64) -> bool {
        real < self.paused_until
    }
}

fn clock(real: u64, drift: i64, offset: u64) -> Monotonic {
    let skew = i128::from(real) * i128::from(drift) / 1_000_000;
    Monotonic((i128::from(real) + skew) as u64 + offset)
}
