//! A group in `relaxed` that lost its majority with the power begins anew by itself.
//!
//! ```text
//!             power        Taken in by a leader          (the generation before)
//!   member ----------> unclean -----------> member
//!      |                  |
//!      |  the meta group: a majority is lost, so the generation is over
//!      '------------------'----> sealed, reported ----> the best of them begins the next generation, alone
//!                                     ^   |                          |
//!                                     |   '--> its log is kept until it is filled; then all vote again
//!                                     '---- lost its power or its disk: reports once more
//! ```
//!
//! What is modelled: terms, elections, logs that are written first and synced later, lost power (what is not synced may be gone,
//! and so may votes; the replica returns as somebody else), empty disks, damage below what is synced, one change of the members,
//! and the meta group as one register that never fails. A step of several replicas happens at once, at any time or never, with
//! its acknowledgements taken or lost; a replica that is out of reach is one of which nothing happens. A vote is a term. An
//! entry that changes the members stands for the whole of a joint change: who has it in its log asks both majorities, who knows
//! it committed asks the new one. What is not modelled: time, and with it leases, which are
//! in `promises.rs`.
//!
//! Invariants:
//!
//! 1. One leader in a term, which has all that its generation has acknowledged.
//! 2. Nothing is acknowledged that those who are counted do not hold, and nothing in a generation that is over.
//! 3. What a majority of its configuration synced is in the next generation, whatever power is lost and whichever disk.
//! 4. What is acknowledged and not synced is missing there only if a majority of its configuration lost its power or disk, and
//!    nobody who was asked has it; and it lies behind the place that the new generation names as its end.
//! 5. What a generation began with no lost power takes.
//! 6. Who is filled holds what the leader holds.

mod faults;
mod group;
mod rule;

use crate::catalogue::{Caught, Scene};
use crate::explore::{Model, Next};
use crate::replicas::Set;

/// Replicas at most.
const REPLICAS_MAX: usize = 4;
/// Entries of a log.
const ENTRIES_MAX: usize = 3;
/// Generations and terms of each.
const GENERATIONS_MAX: usize = 3;
const TERMS_MAX: usize = 4;

/// One clause of the rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Who lost its power goes on as who it was.
    UncleanKeepsIdentity,
    /// A report binds nobody: whoever knew no leader when it reported may vote and acknowledge afterwards.
    ReportsBindNobody,
    /// What a report promised is forgotten when the process is killed.
    SealInMemory,
    /// What is reported is not synced first.
    ReportNotSynced,
    /// The report of a former start counts.
    FormerReportCounts,
    /// Whoever is out of reach for long is not waited for, whoever it is.
    MajorityMayBeMissing,
    /// A majority that is out of reach is as good as one that lost its power.
    MissingIsLost,
    /// Who came back with nothing counts as asked.
    EmptyCounts,
    /// Where the only voter came back with nothing, nobody else is waited for.
    LoneIsNotMissed,
    /// A log that is damaged below what was synced counts as whole.
    DamagedCounts,
    /// A floor ends when the log reaches it, synced or not.
    FloorEndsUnsynced,
    /// The configuration that was reported is taken for the one in force.
    OnlyWhatWasReported,
    /// Instead of what is in the logs it is guessed which configuration one order could have made, and who is lost is counted in
    /// the one that was reported.
    Guessed,
    /// A change of the members is acknowledged before it is synced.
    ChangeNotSynced,
    /// The longest log is chosen, whatever its term.
    ByLength,
    /// The best log is chosen, whatever its generation.
    AnyGeneration,
    /// Only voters' logs are chosen from.
    OnlyVoters,
    /// Terms go on from the chosen log's, and an entry is known by its term and place.
    TermsGoOn,
    /// The other copies are discarded as soon as the new generation has begun.
    CopiesDiscarded,
}

/// How much can happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Replicas; those that do not vote at first are learners.
    pub replicas: usize,
    /// Who votes at first.
    pub voters: Set,
    /// Who votes after the one change there may be.
    pub target: Option<Set>,
    /// Writes of clients.
    pub writes: u8,
    /// Terms of one generation.
    pub terms: u8,
    /// Generations.
    pub generations: u8,
    /// How often a replica loses its power.
    pub power: u8,
    /// How often one loses its disk.
    pub disks: u8,
    /// How often a disk is damaged below what is synced.
    pub damage: u8,
}

/// The model: bounds, and what is left out of the rule.
#[derive(Clone, Copy, Debug)]
pub struct BeginAnew {
    /// How much can happen.
    pub bounds: Bounds,
    /// What is left out.
    pub mistake: Option<Mistake>,
    /// Whether states that differ only in the names of replicas are one. A trace is easier to read without.
    pub is_nameless: bool,
}

/// Three voters, whose log grows by one write: what the scenes widen.
const SMALL: Bounds = Bounds {
    replicas: 3,
    voters: Set(0b111),
    target: None,
    writes: 1,
    terms: 2,
    generations: 2,
    power: 2,
    disks: 0,
    damage: 0,
};

const POWER: Scene<Bounds> = (
    "3 voters, 2 writes, 2 terms, power lost twice",
    false,
    Bounds { writes: 2, ..SMALL },
);
const AGAIN: Scene<Bounds> = (
    "3 voters, 2 writes, 3 generations, power lost 3 times",
    false,
    Bounds {
        writes: 2,
        terms: 1,
        generations: 3,
        power: 3,
        ..SMALL
    },
);
const AGAIN_TERMS: Scene<Bounds> = (
    "3 voters, 1 write, 2 terms, 3 generations, power lost 3 times",
    false,
    Bounds {
        generations: 3,
        power: 3,
        ..SMALL
    },
);
const DISK: Scene<Bounds> = (
    "3 voters, 1 write, 3 generations, power lost twice, a disk once",
    false,
    Bounds {
        terms: 1,
        generations: 3,
        disks: 1,
        ..SMALL
    },
);
const DAMAGE: Scene<Bounds> = (
    "3 voters, 1 write, 2 terms, power lost twice, a log damaged once",
    false,
    Bounds { damage: 1, ..SMALL },
);
const GROWS: Scene<Bounds> = (
    "1 voter becomes 3; 1 write, 2 terms, power lost twice",
    false,
    Bounds {
        voters: Set(0b001),
        target: Some(Set(0b111)),
        ..SMALL
    },
);
const REPLACES: Scene<Bounds> = (
    "a learner takes the place of 1 of 3 voters; 1 write, power lost twice",
    false,
    Bounds {
        replicas: 4,
        target: Some(Set(0b1011)),
        terms: 1,
        ..SMALL
    },
);
const POWER_WIDE: Scene<Bounds> = (
    "3 voters, 2 writes, 2 terms, power lost 3 times",
    true,
    Bounds {
        writes: 2,
        power: 3,
        ..SMALL
    },
);
const DISK_WIDE: Scene<Bounds> = (
    "3 voters, 2 writes, 3 generations, power lost 3 times, a disk once",
    true,
    Bounds {
        writes: 2,
        terms: 1,
        generations: 3,
        power: 3,
        disks: 1,
        ..SMALL
    },
);
const DAMAGE_WIDE: Scene<Bounds> = (
    "3 voters, 2 writes, 2 terms, power lost twice, a log damaged once",
    true,
    Bounds {
        writes: 2,
        damage: 1,
        ..SMALL
    },
);
const BOTH: Scene<Bounds> = (
    "3 voters, 1 write, 3 generations, power lost twice, a disk once, a log damaged once",
    false,
    Bounds {
        terms: 1,
        generations: 3,
        disks: 1,
        damage: 1,
        ..SMALL
    },
);
const BOTH_WIDE: Scene<Bounds> = (
    "3 voters, 1 write, 2 terms, 3 generations, power lost twice, a disk once, a log damaged once",
    true,
    Bounds {
        generations: 3,
        disks: 1,
        damage: 1,
        ..SMALL
    },
);
const GROWS_WIDE: Scene<Bounds> = (
    "1 voter becomes 3; 2 writes, 2 terms, power lost twice, a disk once",
    true,
    Bounds {
        voters: Set(0b001),
        target: Some(Set(0b111)),
        writes: 2,
        disks: 1,
        ..SMALL
    },
);
const REPLACES_WIDE: Scene<Bounds> = (
    "a learner takes the place of 1 of 3 voters; 1 write, 2 terms, power lost twice",
    true,
    Bounds {
        replicas: 4,
        target: Some(Set(0b1011)),
        ..SMALL
    },
);

/// Where the rule must hold.
pub(crate) const SCENES: &[Scene<Bounds>] = &[
    POWER,
    AGAIN,
    AGAIN_TERMS,
    DISK,
    DAMAGE,
    BOTH,
    GROWS,
    REPLACES,
    POWER_WIDE,
    DISK_WIDE,
    DAMAGE_WIDE,
    BOTH_WIDE,
    GROWS_WIDE,
    REPLACES_WIDE,
];

const SYNCED: Caught = Caught::Broken("what a majority had synced is lost");
const NO_MAJORITY: Caught =
    Caught::Broken("a write is lost although no majority of its configuration lost its power");
const ASKED: Caught = Caught::Broken("a write is lost that somebody who was asked has");

/// Where each mistake must be caught, and by what.
pub(crate) const MISTAKES: &[(Mistake, Scene<Bounds>, Caught)] = &[
    (
        Mistake::UncleanKeepsIdentity,
        POWER,
        Caught::Broken("two leaders in one term"),
    ),
    (Mistake::ReportsBindNobody, GROWS, ASKED),
    (Mistake::SealInMemory, REPLACES, ASKED),
    (
        Mistake::ReportNotSynced,
        AGAIN,
        Caught::Broken("what a generation began with is lost"),
    ),
    (Mistake::FormerReportCounts, DISK, SYNCED),
    (Mistake::MajorityMayBeMissing, POWER, SYNCED),
    (Mistake::MissingIsLost, POWER, NO_MAJORITY),
    (Mistake::EmptyCounts, DISK, SYNCED),
    (Mistake::LoneIsNotMissed, DISK, SYNCED),
    (Mistake::DamagedCounts, DAMAGE, SYNCED),
    (Mistake::FloorEndsUnsynced, DAMAGE, SYNCED),
    (Mistake::OnlyWhatWasReported, REPLACES, NO_MAJORITY),
    (Mistake::Guessed, REPLACES, NO_MAJORITY),
    (
        Mistake::ChangeNotSynced,
        REPLACES,
        Caught::Broken("acknowledged in a generation that is over"),
    ),
    (Mistake::ByLength, POWER, ASKED),
    (Mistake::AnyGeneration, AGAIN, SYNCED),
    (Mistake::OnlyVoters, GROWS, ASKED),
    (
        Mistake::TermsGoOn,
        POWER,
        Caught::Broken("who is filled does not hold what the leader holds"),
    ),
    (Mistake::CopiesDiscarded, DISK, SYNCED),
];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
struct Entry {
    generation: u8,
    term: u8,
    changes: bool,
}

/// The term of an entry as replicas compare it: a number above all of the generations before.
type Key = (u8, u8);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
struct Log {
    entries: [Entry; ENTRIES_MAX],
    len: u8,
}

impl Log {
    fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.len)]
    }

    fn push(&mut self, entry: Entry) {
        self.entries[usize::from(self.len)] = entry;
        self.len += 1;
    }

    fn cut(&mut self, len: u8) {
        self.len = len;
        self.entries[usize::from(len)..].fill(Entry::default());
    }

    fn has(&self, write: &Write) -> bool {
        self.entries().get(usize::from(write.index) - 1) == Some(&write.entry)
    }

    fn has_change(&self) -> bool {
        self.entries().iter().any(|entry| entry.changes)
    }
}

/// What the meta group was told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
struct Said {
    generation: u8,
    last: (Key, u8),
    changes: bool,
    is_whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, PartialOrd, Ord)]
struct Replica {
    /// Whether the group knows its present incarnation: only then is anything sent to it, and does it vote if it is to.
    belongs: bool,
    generation: u8,
    term: u8,
    leads: bool,
    log: Log,
    synced: u8,
    /// Whether it knows the change committed.
    knows_change: bool,
    /// It has said where its log ends and does nothing more in its generation.
    is_sealed: bool,
    /// Its disk was empty at a start, and it was not filled since.
    is_empty: bool,
    /// What was in its log before it was damaged.
    floor: (Key, u8),
    said: Option<Said>,
}

/// A write that a client was told of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Write {
    entry: Entry,
    index: u8,
    /// Its configuration; two during a change.
    voters: [Set; 2],
    /// A majority of it synced it.
    is_synced: bool,
    /// A generation began with it.
    is_kept: bool,
}

/// All of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    replicas: [Replica; REPLICAS_MAX],
    /// What the meta group knows: the generation and whether it is over, and who votes in it.
    generation: u8,
    is_over: bool,
    voters: Set,
    is_change_reported: bool,
    released: Set,
    /// What has happened.
    writes: u8,
    power: u8,
    disks: u8,
    damage: u8,
    begun_without_all: bool,
    acknowledged: [Write; ENTRIES_MAX],
    count: u8,
    leaders: [[u8; TERMS_MAX]; GENERATIONS_MAX],
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields say who")]
pub enum Step {
    /// A leader appends a client's write.
    Appended { leader: usize },
    /// A leader appends a change of the members.
    ChangeAppended { leader: usize },
    /// A leader's log is on these too, and their acknowledgements have arrived.
    Acknowledged { leader: usize, by: Set },
    /// It is on this one too, and the acknowledgement was lost.
    Sent { leader: usize, to: usize },
    /// It was elected by these.
    Elected { leader: usize, by: Set },
    /// What it has written is synced.
    Synced { replica: usize },
    /// Its power was lost, and it has started again with so many entries.
    PowerLost { replica: usize, left: u8 },
    /// It has started again with an empty disk.
    DiskLost { replica: usize },
    /// It was killed, and has started again.
    Killed { replica: usize },
    /// It has started again and found its log damaged behind so many entries.
    Damaged { replica: usize, left: u8 },
    /// A leader has taken in an unclean replica again, with a majority that has its log.
    TakenIn { replica: usize, leader: usize, by: Set },
    /// The meta group was told of the change.
    ChangeReported { by: usize },
    /// It is a member no more, and has let go of its copy.
    Released { replica: usize },
    /// The meta group: the generation is over.
    Ended,
    /// It has said where its log ends.
    Reported { replica: usize },
    /// It has heard that the group began anew.
    Heard { replica: usize },
    /// The next generation has begun with this one's log.
    Begun { with: usize },
    /// It was filled by the leader of the new generation.
    Filled { replica: usize, leader: usize },
    /// All vote again.
    Whole { leader: usize },
}

impl Model for BeginAnew {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let bounds = &self.bounds;
        let mut replicas = [Replica::default(); REPLICAS_MAX];
        for replica in replicas.iter_mut().take(bounds.replicas) {
            replica.belongs = true;
            replica.term = 1;
        }
        replicas[0].leads = true;
        let mut leaders = [[0; TERMS_MAX]; GENERATIONS_MAX];
        leaders[0][1] = 1;
        State {
            replicas,
            generation: 0,
            is_over: false,
            voters: bounds.voters,
            is_change_reported: false,
            released: Set::NONE,
            writes: 0,
            power: 0,
            disks: 0,
            damage: 0,
            begun_without_all: false,
            acknowledged: [Write::default(); ENTRIES_MAX],
            count: 0,
            leaders,
        }
    }

    fn steps(&self, state: &State, go: &mut dyn FnMut(Step, Next<State>)) {
        let mut go = |step, next: Next<State>| go(step, next.map(|next| self.seen(next)));
        for replica in 0..self.bounds.replicas {
            if state.released.has(replica) {
                continue;
            }
            self.group_steps(state, replica, &mut go);
            self.fault_steps(state, replica, &mut go);
            self.recovery_steps(state, replica, &mut go);
        }
        if self.may_end(state) {
            let mut next = *state;
            next.is_over = true;
            go(Step::Ended, Ok(next));
        }
    }

    fn landmarks(&self) -> &'static [&'static str] {
        &[
            "a write is acknowledged",
            "a generation begins anew",
            "it begins without all",
            "all vote again",
        ]
    }

    /// A generation that is over has a next one as soon as all have reported, whatever has come back meanwhile: unless a disk was
    /// lost or damaged, which is then an operator's affair.
    fn is_settled(&self, state: &State) -> Option<bool> {
        (state.disks + state.damage == 0).then_some(!state.is_over)
    }

    fn shows(&self, state: &State) -> u32 {
        let anew = state.generation > 0;
        u32::from(state.count > 0)
            | u32::from(anew) << 1
            | u32::from(state.begun_without_all) << 2
            // Where the members change, the second generation is not followed further.
            | u32::from((anew && state.voters == self.bounds.voters) || self.bounds.target.is_some()) << 3
    }
}

impl BeginAnew {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn key(&self, entry: Entry) -> Key {
        match self.is(Mistake::TermsGoOn) {
            true => (0, entry.term),
            false => (entry.generation, entry.term),
        }
    }

    fn last(&self, log: &Log) -> (Key, u8) {
        (
            log.entries().last().map_or((0, 0), |entry| self.key(*entry)),
            log.len,
        )
    }

    /// The configurations of which a replica wants majorities: two while a change is under way.
    fn configurations(&self, state: &State, replica: &Replica) -> [Set; 2] {
        if replica.generation > 0 {
            return [state.voters; 2];
        }
        match self.bounds.target {
            Some(target) if replica.knows_change => [target; 2],
            Some(target) if replica.log.has_change() => [self.bounds.voters, target],
            _ => [self.bounds.voters; 2],
        }
    }

    fn everybody(&self, state: &State) -> Set {
        Set::first(self.bounds.replicas).but(state.released)
    }

    /// Takes part in its generation, as far as it knows.
    fn acts(replica: &Replica) -> bool {
        replica.belongs && !replica.is_sealed
    }

    fn acknowledged(state: &State) -> impl Iterator<Item = &Write> {
        state.acknowledged[..usize::from(state.count)].iter()
    }

    /// Notes what a majority has synced.
    fn seen(&self, mut state: State) -> State {
        let replicas = state.replicas;
        let count = usize::from(state.count);
        for write in &mut state.acknowledged[..count] {
            let synced = Set::which(self.bounds.replicas, |at| {
                replicas[at].log.has(write) && replicas[at].synced >= write.index
            });
            write.is_synced |= write.voters.iter().all(|voters| synced.is_majority_of(*voters));
        }
        match self.is_nameless {
            true => self.nameless(&state),
            false => state,
        }
    }

    /// Replicas that began alike, in the order of what has become of them.
    fn nameless(&self, state: &State) -> State {
        let began = |at: usize| {
            let target = self.bounds.target.unwrap_or_default();
            (self.bounds.voters.has(at), target.has(at))
        };
        let mut order = [0, 1, 2, 3];
        for at in 1..self.bounds.replicas {
            for other in (0..at).rev() {
                let (left, right) = (order[other], order[other + 1]);
                if began(left) == began(right) && state.replicas[left] > state.replicas[right] {
                    order.swap(other, other + 1);
                } else {
                    break;
                }
            }
        }
        let names = |set: Set| Set::which(REPLICAS_MAX, |at| set.has(order[at]));
        let mut next = *state;
        for (at, from) in order.iter().enumerate() {
            next.replicas[at] = state.replicas[*from];
        }
        (next.voters, next.released) = (names(state.voters), names(state.released));
        for write in &mut next.acknowledged {
            write.voters = write.voters.map(names);
        }
        for led_by in next.leaders.iter_mut().flatten().filter(|led_by| **led_by > 0) {
            let leader = usize::from(*led_by) - 1;
            let place = order
                .iter()
                .position(|from| *from == leader)
                .expect("everybody is in the order");
            *led_by = u8::try_from(place).expect("few") + 1;
        }
        next
    }
}
