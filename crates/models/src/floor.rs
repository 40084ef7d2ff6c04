//! A durable replica whose log is damaged below what it has synced keeps a floor.
//!
//! ```text
//!   log on disk, batch by batch:   [ 1 | 2 | 3 # damaged | 4 | 5 ]
//!                                    ^^^^^                    ^ the newest table: term, vote, last place, floor
//!                                    what is opened           |
//!                                                             v
//!   campaigns  once its own log reaches the floor        (term, place) that was here
//!   votes      for logs that reach it, and never again in a term in which it may have voted
//!   no table   it returns as somebody else
//! ```
//!
//! What is modelled: three replicas in `strict`, each with all batches that it has written; terms, votes, elections, appends with
//! their acknowledgements taken or lost; a log that is opened before any of its batches; a table that is destroyed; and a replica
//! that returns as somebody else and is taken in again. A step of two replicas happens at once, at any time or never; who is out
//! of reach is one of whom nothing happens. What is not modelled: changes of the members, snapshots, time. That the leader
//! begins its progress anew is in `progress.rs`.
//!
//! Invariants:
//!
//! 1. One leader in a term.
//! 2. A leader has all that is committed.
//! 3. Two logs that are committed are one the beginning of the other.
//! 4. What a replica has applied is committed.

use crate::catalogue::{Caught, Scene};
use crate::explore::{Model, Next};

const REPLICAS: usize = 3;
const ENTRIES_MAX: usize = 3;
const TERMS_MAX: usize = 4;
/// Batches that a log keeps; with one more, the first goes into a snapshot.
const BATCHES_MAX: usize = 6;

/// One clause of the rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Damage is cut as if it were a torn end.
    CutSilently,
    /// It campaigns before its log reaches the floor.
    CampaignsBelow,
    /// It votes as if its log were all it ever had.
    VotesBelow,
    /// The floor is forgotten at the next start.
    Forgotten,
    /// The floor is the farthest place that any table names, whatever its term.
    FarthestPlace,
    /// The floor counts as reached at its place, whatever the term there.
    ReachedByPlace,
    /// The floor is what is known to be synced: the newest batch is left out, because no later one speaks of it.
    OnlyKnownSynced,
    /// Term and vote are those of the last batch before the damage.
    VoteReverts,
    /// What is committed is what the newest table says, as far as the log goes.
    CommitOfNewest,
    /// A destroyed table is not missed: what those before it name is the floor.
    TableNotMissed,
    /// Who returns as somebody else takes part before it is taken in again.
    TakesPartAtOnce,
}

/// How much can happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Entries of a log, at most three.
    pub entries: u8,
    /// Terms, at most three.
    pub terms: u8,
    /// Whether replicas know what is committed, and apply it. It decides no vote, so the widest bounds are explored without.
    pub applies: bool,
    /// How often a batch is damaged.
    pub damage: u8,
    /// How often a table is destroyed with its batch.
    pub tables: u8,
}

/// The model: bounds, and what is left out of the rule.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// How much can happen.
    pub bounds: Bounds,
    /// What is left out.
    pub mistake: Option<Mistake>,
    /// Whether states that differ only in the names of replicas are one. A trace is easier to read without.
    pub is_nameless: bool,
}

const APPLIES: Scene<Bounds> = (
    "2 entries, 2 terms, 1 damaged batch, 1 lost table; entries are applied",
    false,
    Bounds {
        entries: 2,
        terms: 2,
        applies: true,
        damage: 1,
        tables: 1,
    },
);
const TERMS: Scene<Bounds> = (
    "2 entries, 3 terms, 1 damaged batch",
    false,
    Bounds {
        entries: 2,
        terms: 3,
        applies: false,
        damage: 1,
        tables: 0,
    },
);
const TWICE: Scene<Bounds> = (
    "3 entries, 2 terms, 2 damaged batches",
    false,
    Bounds {
        entries: 3,
        terms: 2,
        applies: false,
        damage: 2,
        tables: 0,
    },
);
const ALL: Scene<Bounds> = (
    "2 entries, 3 terms, 2 damaged batches, 1 lost table",
    true,
    Bounds {
        entries: 2,
        terms: 3,
        applies: false,
        damage: 2,
        tables: 1,
    },
);
const TERMS_APPLY: Scene<Bounds> = (
    "2 entries, 3 terms, 1 damaged batch; entries are applied",
    true,
    Bounds {
        entries: 2,
        terms: 3,
        applies: true,
        damage: 1,
        tables: 0,
    },
);

/// Where the rule must hold.
pub(crate) const SCENES: &[Scene<Bounds>] = &[APPLIES, TERMS, TWICE, ALL, TERMS_APPLY];

const LACKS: Caught = Caught::Broken("a leader lacks what is committed");
const TWO: Caught = Caught::Broken("two leaders in one term");

/// Where each mistake must be caught, and by what.
pub(crate) const MISTAKES: &[(Mistake, Scene<Bounds>, Caught)] = &[
    (Mistake::CutSilently, APPLIES, LACKS),
    (Mistake::CampaignsBelow, APPLIES, LACKS),
    (Mistake::VotesBelow, APPLIES, LACKS),
    (Mistake::Forgotten, APPLIES, LACKS),
    (Mistake::FarthestPlace, TERMS, LACKS),
    (Mistake::ReachedByPlace, TERMS, LACKS),
    (Mistake::OnlyKnownSynced, APPLIES, LACKS),
    (Mistake::VoteReverts, APPLIES, TWO),
    (
        Mistake::CommitOfNewest,
        APPLIES,
        Caught::Broken("what is applied was never committed"),
    ),
    (Mistake::TableNotMissed, APPLIES, TWO),
    (Mistake::TakesPartAtOnce, APPLIES, TWO),
];

/// The terms of its entries: with its place, a term names an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
struct Log {
    terms: [u8; ENTRIES_MAX],
    len: u8,
}

/// The term of the last entry, and its place.
type Last = (u8, u8);

impl Log {
    fn terms(&self) -> &[u8] {
        &self.terms[..usize::from(self.len)]
    }

    fn push(&mut self, term: u8) {
        self.terms[usize::from(self.len)] = term;
        self.len += 1;
    }

    fn cut(&mut self, len: usize) {
        self.terms[len..].fill(0);
        self.len = u8::try_from(len).expect("few");
    }

    fn last(&self) -> Last {
        (self.terms().last().copied().unwrap_or_default(), self.len)
    }
}

/// What is on disk once this batch is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
struct Batch {
    term: u8,
    log: Log,
    commit: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
struct Replica {
    /// Whether the group knows its present incarnation.
    belongs: bool,
    leads: bool,
    /// The latest term: whoever was elected in it or voted in it, has voted in it.
    term: u8,
    log: Log,
    /// As far as it knows its log to be committed: so far it has applied it.
    commit: u8,
    floor: Last,
    batches: [Batch; BATCHES_MAX],
    count: u8,
}

impl Replica {
    fn batches(&self) -> &[Batch] {
        &self.batches[..usize::from(self.count)]
    }

    /// What it is now, is written and synced.
    fn persist(&mut self) {
        if usize::from(self.count) == BATCHES_MAX {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        self.batches[usize::from(self.count)] = Batch {
            term: self.term,
            log: self.log,
            commit: self.commit,
        };
        self.count += 1;
    }

    /// It starts with so many of its batches.
    fn open(&mut self, left: usize) {
        self.count = u8::try_from(left).expect("few");
        self.batches[left..].fill(Batch::default());
        (self.log, self.commit) = (self.batches[left - 1].log, self.batches[left - 1].commit);
        self.leads = false;
    }
}

/// All of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    replicas: [Replica; REPLICAS],
    committed: Log,
    /// Who was elected in a term, from 1.
    leaders: [u8; TERMS_MAX],
    damage: u8,
    tables: u8,
    shown: u8,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields say who")]
pub enum Step {
    /// A leader appends an entry.
    Appended { leader: usize },
    /// Its log is on another, too, and the acknowledgement has arrived.
    Acknowledged { leader: usize, by: usize },
    /// The same, and the acknowledgement was lost.
    Sent { leader: usize, to: usize },
    /// It was elected with this vote.
    Elected { leader: usize, by: usize },
    /// It has started again, and the batch behind so many is damaged.
    Damaged { replica: usize, left: usize },
    /// It has started again, and its newest batch is damaged with its table.
    TableLost { replica: usize },
    /// It has started again.
    Restarted { replica: usize },
    /// It is taken in again as somebody else, with a majority.
    TakenIn {
        replica: usize,
        leader: usize,
        by: usize,
    },
}

impl Model for Floor {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let mut replicas = [Replica::default(); REPLICAS];
        for replica in &mut replicas {
            (replica.belongs, replica.term) = (true, 1);
            replica.persist();
        }
        replicas[0].leads = true;
        State {
            replicas,
            committed: Log::default(),
            leaders: [0, 1, 0, 0],
            damage: 0,
            tables: 0,
            shown: 0,
        }
    }

    fn landmarks(&self) -> &'static [&'static str] {
        &[
            "something is committed",
            "a floor stands",
            "a floor is reached",
            "somebody below a floor votes",
        ]
    }

    fn shows(&self, state: &State) -> u32 {
        let stands = state
            .replicas
            .iter()
            .any(|replica| replica.floor > replica.log.last());
        u32::from(state.committed.len > 0) | u32::from(stands) << 1 | u32::from(state.shown) << 2
    }

    fn steps(&self, state: &State, go: &mut dyn FnMut(Step, Next<State>)) {
        let mut go = |step, next: Next<State>| {
            let next = next.and_then(check);
            let named = next.map(|next| if self.is_nameless { nameless(&next) } else { next });
            go(step, named);
        };
        for at in 0..REPLICAS {
            let me = &state.replicas[at];
            self.fault_steps(state, at, &mut go);
            if !me.belongs {
                continue;
            }
            let has_room = me.log.len < self.bounds.entries;
            if me.leads && has_room {
                let mut next = *state;
                next.replicas[at].log.push(me.term);
                next.replicas[at].persist();
                go(Step::Appended { leader: at }, Ok(next));
            }
            for other in (0..REPLICAS).filter(|other| *other != at) {
                let it = &state.replicas[other];
                if me.leads && it.belongs && it.term <= me.term {
                    let mut next = *state;
                    self.append(&mut next, at, other);
                    let step = Step::Acknowledged {
                        leader: at,
                        by: other,
                    };
                    go(step, commit(&next, at, self.bounds.applies));
                    go(
                        Step::Sent {
                            leader: at,
                            to: other,
                        },
                        Ok(next),
                    );
                }
                if it.belongs {
                    self.elect(state, at, other, &mut go);
                    self.take_in(state, at, other, &mut go);
                }
            }
        }
    }
}

impl Floor {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn reaches(&self, last: Last, floor: Last) -> bool {
        match self.is(Mistake::ReachedByPlace) {
            true => last.1 >= floor.1,
            false => last >= floor,
        }
    }

    fn elect(&self, state: &State, at: usize, by: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let (me, it) = (&state.replicas[at], &state.replicas[by]);
        let term = me.term.max(it.term) + 1;
        // Whoever hears of a term votes in it; one that only heard of a later one than the candidate's is a vote later.
        let last = me.log.last();
        let may_campaign = self.reaches(last, me.floor) || self.is(Mistake::CampaignsBelow);
        let may_vote = self.reaches(last, it.floor) || self.is(Mistake::VotesBelow);
        if term > self.bounds.terms || !may_campaign || !may_vote || last < it.log.last() {
            return;
        }
        let mut next = *state;
        if it.log.last() < it.floor {
            next.shown |= 2;
        }
        for one in [at, by] {
            let replica = &mut next.replicas[one];
            (replica.term, replica.leads) = (term, one == at);
            replica.persist();
        }
        let name = u8::try_from(at).expect("few") + 1;
        let led_by = &mut next.leaders[usize::from(term)];
        let is_second = *led_by != 0 && *led_by != name;
        *led_by = name;
        let step = Step::Elected { leader: at, by };
        let has_all = me.log.terms().get(..usize::from(state.committed.len)) == Some(state.committed.terms());
        match (is_second, has_all) {
            (true, _) => go(step, Err("two leaders in one term")),
            (false, false) => go(step, Err("a leader lacks what is committed")),
            (false, true) => go(step, Ok(next)),
        }
    }

    fn append(&self, state: &mut State, leader: usize, to: usize) {
        let source = state.replicas[leader];
        let replica = &mut state.replicas[to];
        let before = (replica.term, replica.log);
        replica.term = source.term;
        replica.leads = false;
        let pairs = replica.log.terms().iter().zip(source.log.terms());
        let common = pairs.take_while(|(old, new)| old == new).count();
        if common < source.log.terms().len() {
            replica.log.cut(common);
            for term in &source.log.terms()[common..] {
                replica.log.push(*term);
            }
        }
        if self.bounds.applies && source.log.terms() == &replica.log.terms()[..source.log.terms().len()] {
            replica.commit = replica.commit.max(source.commit);
        }
        // The commit index is written with the next vote or entry.
        if before != (replica.term, replica.log) {
            replica.persist();
        }
        if replica.floor != Last::default() && self.reaches(replica.log.last(), replica.floor) {
            replica.floor = Last::default();
            state.shown |= 1;
        }
    }

    /// A learner, then a voter again: a change that a majority has, on its leader's newest entry.
    fn take_in(&self, state: &State, leader: usize, by: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = &state.replicas[leader];
        let new = (0..REPLICAS).find(|at| !state.replicas[*at].belongs && *at != leader);
        let Some(at) = new.filter(|_| me.leads && state.replicas[by].term <= me.term) else {
            return;
        };
        if me.log.last().0 != me.term {
            return;
        }
        let mut next = *state;
        self.append(&mut next, leader, by);
        let next = commit(&next, leader, self.bounds.applies).map(|mut next| {
            self.append(&mut next, leader, at);
            next.replicas[at].belongs = true;
            next
        });
        go(
            Step::TakenIn {
                replica: at,
                leader,
                by,
            },
            next,
        );
    }

    fn fault_steps(&self, state: &State, at: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = &state.replicas[at];
        let newest = me.batches()[me.batches().len() - 1];
        if state.damage < self.bounds.damage {
            for left in 1..me.batches().len() {
                let mut next = *state;
                next.damage += 1;
                let replica = &mut next.replicas[at];
                let floor = match self.mistake {
                    Some(Mistake::CutSilently) => replica.floor,
                    Some(Mistake::FarthestPlace) => {
                        let places = me.batches()[left..].iter().map(|batch| batch.log.last());
                        let farthest = places.max_by_key(|last| (last.1, last.0));
                        farthest.unwrap_or_default().max(replica.floor)
                    }
                    Some(Mistake::OnlyKnownSynced) => {
                        replica.floor.max(me.batches()[me.batches().len() - 2].log.last())
                    }
                    _ => replica.floor.max(newest.log.last()),
                };
                replica.open(left);
                replica.floor = floor;
                if self.is(Mistake::VoteReverts) {
                    replica.term = replica.batches[left - 1].term;
                }
                if self.is(Mistake::CommitOfNewest) {
                    // The library would not bear more.
                    replica.commit = newest.commit.min(replica.log.len);
                }
                if self.reaches(replica.log.last(), replica.floor) {
                    replica.floor = Last::default();
                }
                // The floor, the term and the vote are written anew, and synced, before anything is answered.
                replica.persist();
                go(Step::Damaged { replica: at, left }, Ok(next));
            }
        }
        if state.tables < self.bounds.tables && me.batches().len() > 1 {
            let mut next = *state;
            next.tables += 1;
            let left = me.batches().len() - 1;
            let replica = &mut next.replicas[at];
            replica.open(left);
            match self.mistake {
                Some(Mistake::TableNotMissed) => replica.term = replica.batches[left - 1].term,
                Some(Mistake::TakesPartAtOnce) => replica.term = 0,
                // What it has left is its head start.
                _ => (replica.belongs, replica.term, replica.floor) = (false, 0, Last::default()),
            }
            replica.persist();
            go(Step::TableLost { replica: at }, Ok(next));
        }
        if self.is(Mistake::Forgotten) && me.floor != Last::default() {
            let mut next = *state;
            next.replicas[at].floor = Last::default();
            next.replicas[at].leads = false;
            go(Step::Restarted { replica: at }, Ok(next));
        }
    }
}

/// What a leader and another have, two of three, is committed, if it ends with an entry of the leader's term.
fn commit(state: &State, leader: usize, applies: bool) -> Next<State> {
    let me = &state.replicas[leader];
    let mut next = *state;
    if me.log.last().0 != me.term {
        return Ok(next);
    }
    let (old, new) = (state.committed.terms(), me.log.terms());
    let common = old.len().min(new.len());
    if old[..common] != new[..common] {
        return Err("two histories are committed");
    }
    if new.len() > old.len() {
        next.committed = me.log;
    }
    if applies {
        next.replicas[leader].commit = me.log.len;
    }
    Ok(next)
}

fn check(state: State) -> Next<State> {
    let applies = |replica: &Replica| {
        let applied = usize::from(replica.commit);
        state.committed.terms().get(..applied) == Some(&replica.log.terms()[..applied])
    };
    match state.replicas.iter().all(applies) {
        true => Ok(state),
        false => Err("what is applied was never committed"),
    }
}

/// All three began alike: in the order of what has become of them.
fn nameless(state: &State) -> State {
    let mut order = [0, 1, 2];
    order.sort_by_key(|at| state.replicas[*at]);
    let mut next = *state;
    next.replicas = order.map(|at| state.replicas[at]);
    for led_by in next.leaders.iter_mut().filter(|led_by| **led_by > 0) {
        let place = order.iter().position(|from| from + 1 == usize::from(*led_by));
        *led_by = u8::try_from(place.expect("everybody is in the order")).expect("few") + 1;
    }
    next
}
