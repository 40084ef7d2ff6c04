//! Reads over several groups without the log: values and their ages, against writers that commit by votes.
//!
//! Two groups with one key each. Time is discrete, and each node reads a clock of its own. Only how long ago something
//! was is kept, and beyond what anybody waits not even that: so time has no end. A group is a log and the
//! replica that leads it, which applies entries some time after they are committed; a second replica may take over.
//! Writers are what the protocol's other models are about, reduced to what a reader meets: `Prepare` and `Resolve`, or
//! one plain write. An answer arrives when it is given: one that is longer under way only makes the reader stricter.

use crate::explore::Model;
use crate::order::{Disorder, View, Writers, disorder};

const WRITERS: usize = 3;
const READERS: usize = 2;
const GROUPS: usize = 2;
/// Two entries of each writer and of each reader.
const ENTRIES: usize = 2 * (WRITERS + READERS);
const MISSING: u8 = u8::MAX;
/// A multiple of all clocks' resolutions.
const PERIOD: u8 = 2;

/// A mistake made on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    /// Any age will do.
    AgeUnchecked,
    /// Values are read under the locks of what is prepared.
    LocksUnseen,
    /// Ages begin when the entry is committed, which is before it is applied.
    AgeFromCommit,
    /// The answer's time is that of the turn in which it was read, which may have begun before the answer was given.
    ReceivedAtTurnStart,
    /// A new leader counts ages from when it applied the entry as a follower.
    AgeFromFollower,
    /// Only the answer that was too young is asked for again.
    RereadsOne,
    /// Groups are asked one after the other, and each wait begins when its own group was asked.
    OwnSendTimes,
}

/// A node's clock: at time `t` it shows `(t * rate + phase) / resolution`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) rate: u8,
    pub(crate) phase: u8,
    pub(crate) resolution: u8,
}

impl Clock {
    pub(crate) const EXACT: Clock = Clock {
        rate: 1,
        phase: 0,
        resolution: 1,
    };

    /// What it shows of the last `elapsed`, if `now` is a time since some multiple of all resolutions.
    fn shows(self, elapsed: u8, now: u8) -> u8 {
        let shows = |time: u8| (time * self.rate + self.phase) / self.resolution;
        let now = now + PERIOD * (elapsed / PERIOD + 1);
        shows(now) - shows(now - elapsed)
    }
}

/// What a reader does: so many times it reads by age, and then perhaps it locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) tries: u8,
    pub(crate) locks: bool,
}

/// A configuration.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The groups that each writes, as bits: both, or one by a plain write.
    pub(crate) writers: Vec<u8>,
    pub(crate) readers: Vec<Reading>,
    /// A reader does not wait longer for an answer.
    pub(crate) patience: u8,
    pub(crate) reader_clock: Clock,
    pub(crate) leader_clocks: [Clock; GROUPS],
    /// An age is enough if it is this many times the wait, and `slack` more.
    pub(crate) margin: u8,
    pub(crate) slack: u8,
    /// Group 0 may change its leader.
    pub(crate) fails_over: bool,
    pub(crate) mistake: Option<Mistake>,
}

impl Snapshot {
    pub(crate) fn new(writers: &[u8], readers: &[Reading]) -> Snapshot {
        assert!(writers.len() <= WRITERS && readers.len() <= READERS);
        Snapshot {
            writers: writers.to_vec(),
            readers: readers.to_vec(),
            patience: 2,
            reader_clock: Clock::EXACT,
            leader_clocks: [Clock::EXACT; GROUPS],
            margin: 1,
            slack: 1,
            fails_over: false,
            mistake: None,
        }
    }

    pub(crate) fn with(&self, mistake: Mistake) -> Snapshot {
        Snapshot {
            mistake: Some(mistake),
            ..self.clone()
        }
    }

    fn wait(&self, elapsed: u8, now: u8) -> u8 {
        self.reader_clock.shows(elapsed, now) * self.margin + self.slack
    }

    /// A change so long ago is old enough for everybody.
    fn long_ago(&self) -> u8 {
        let is_long = |elapsed: &u8| {
            (0..PERIOD).all(|now| {
                let mut clocks = self.leader_clocks.iter();
                clocks.all(|clock| clock.shows(*elapsed, now) >= self.wait(self.patience, now))
            })
        };
        (0..u8::MAX).find(is_long).expect("all clocks go on")
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Entry {
    Prepare(u8),
    /// `Resolve`, or a plain write.
    Install(u8),
    /// `Resolve` of what was refused elsewhere.
    Drop(u8),
    Share(u8),
    Release(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Replica {
    applied: u8,
    /// How long ago its value changed.
    age: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Group {
    log: [Option<Entry>; ENTRIES],
    /// How long ago each entry was committed; kept only where that is taken for the age.
    committed: [u8; ENTRIES],
    leader: Replica,
    follower: Replica,
    is_second: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Phase {
    #[default]
    New,
    /// A writer is under way; a reader reads by age.
    Running,
    /// A reader goes through `Prepare` with shared locks.
    Locking,
    Done,
    /// Some group refused it.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Writer {
    phase: Phase,
    after: u8,
    prepared: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Reader {
    phase: Phase,
    after: u8,
    tries: u8,
    /// Whom it has asked, as bits.
    asked: u8,
    /// How long ago, where there is no answer yet. All groups are asked at one moment, before whatever is sent.
    wait: [u8; GROUPS],
    saw: [u8; GROUPS],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct World {
    /// The time, of which only the last part matters.
    now: u8,
    groups: [Group; GROUPS],
    writers: [Writer; WRITERS],
    readers: [Reader; READERS],
}

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "traces show them")]
pub(crate) enum Step {
    Tick,
    Begin(usize),
    Prepare(usize, usize),
    Install(usize, usize),
    RefuseWriter(usize),
    Drop(usize, usize),
    Apply(usize),
    FollowerApplies,
    NewLeader,
    Acknowledge(usize),
    Read(usize),
    Send(usize, usize),
    Value(usize, usize),
    TooYoung(usize, usize),
    Share(usize, usize),
    Release(usize, usize),
    Refuse(usize),
}

impl Group {
    fn entries(&self, upto: u8) -> impl Iterator<Item = Entry> + '_ {
        self.log[..usize::from(upto)].iter().flatten().copied()
    }

    fn length(&self) -> u8 {
        u8::try_from(self.log.iter().flatten().count()).expect("logs are short")
    }

    fn has(&self, entry: Entry) -> bool {
        self.log.contains(&Some(entry))
    }

    fn version(&self, upto: u8) -> u8 {
        let installs = self
            .entries(upto)
            .filter(|entry| matches!(entry, Entry::Install(_)));
        u8::try_from(installs.count()).expect("logs are short")
    }

    /// Whether a transaction holds the key after `upto` entries.
    fn is_held(&self, upto: u8) -> bool {
        self.entries(upto).any(|entry| match entry {
            Entry::Prepare(writer) => {
                let ends = [Entry::Install(writer), Entry::Drop(writer)];
                !self.entries(upto).any(|other| ends.contains(&other))
            }
            _ => false,
        })
    }

    /// Whether readers share the key, at the log's end.
    fn is_shared(&self) -> bool {
        self.entries(self.length()).any(|entry| match entry {
            Entry::Share(reader) => !self.has(Entry::Release(reader)),
            _ => false,
        })
    }

    fn is_free(&self) -> bool {
        !self.is_shared() && !self.is_held(self.length())
    }
}

impl World {
    /// Everybody who was answered, as bits: writers, then readers.
    fn answered(&self) -> u8 {
        let writers = self.writers.iter().map(|writer| writer.phase);
        let phases = writers.chain(self.readers.iter().map(|reader| reader.phase));
        phases
            .enumerate()
            .filter(|(_, phase)| *phase == Phase::Done)
            .fold(0, |answered, (at, _)| answered | 1 << at)
    }

    fn commit(&mut self, group: usize, entry: Entry) {
        let at = usize::from(self.groups[group].length());
        self.groups[group].log[at] = Some(entry);
    }

    /// The leader of a group answers for an entry that it has applied.
    fn answer(&mut self, snapshot: &Snapshot, group: usize, entry: Entry, upto: u8) {
        match entry {
            Entry::Prepare(writer) => self.writers[usize::from(writer)].prepared |= 1 << group,
            Entry::Install(writer) if snapshot.writers[usize::from(writer)] == 1 << group => {
                self.writers[usize::from(writer)].phase = Phase::Done;
            }
            Entry::Share(reader) if self.readers[usize::from(reader)].phase == Phase::Locking => {
                self.saw(usize::from(reader), group, self.groups[group].version(upto));
            }
            Entry::Install(_) | Entry::Drop(_) | Entry::Share(_) | Entry::Release(_) => {}
        }
    }

    fn saw(&mut self, reader: usize, group: usize, version: u8) {
        let reader = &mut self.readers[reader];
        reader.saw[group] = version;
        reader.wait[group] = 0;
        if !reader.saw.contains(&MISSING) {
            reader.phase = Phase::Done;
        }
    }

    fn apply(&mut self, snapshot: &Snapshot, group: usize) {
        let state = &mut self.groups[group];
        let at = usize::from(state.leader.applied);
        let entry = state.log[at].expect("there is more to apply");
        state.leader.applied += 1;
        if matches!(entry, Entry::Install(_)) {
            let is_early = snapshot.is(Mistake::AgeFromCommit);
            state.leader.age = if is_early { state.committed[at] } else { 0 };
        }
        let upto = state.leader.applied;
        self.answer(snapshot, group, entry, upto);
    }

    fn follower_applies(&mut self) {
        let state = &mut self.groups[0];
        let at = usize::from(state.follower.applied);
        state.follower.applied += 1;
        if matches!(state.log[at], Some(Entry::Install(_))) {
            state.follower.age = 0;
        }
    }

    /// The other replica leads: first it applies all that is committed, and answers for it.
    fn new_leader(&mut self, snapshot: &Snapshot) {
        while self.groups[0].follower.applied < self.groups[0].length() {
            self.follower_applies();
        }
        let state = &mut self.groups[0];
        state.is_second = true;
        let follower = std::mem::take(&mut state.follower);
        let answered = state.leader.applied;
        state.leader = follower;
        if !snapshot.is(Mistake::AgeFromFollower) {
            state.leader.age = 0;
        }
        for at in answered..state.leader.applied {
            let entry = self.groups[0].log[usize::from(at)].expect("it was applied");
            self.answer(snapshot, 0, entry, at + 1);
        }
    }

    /// Whether an answer of now is old enough for a reader.
    fn is_old_enough(&self, snapshot: &Snapshot, group: usize, reader: usize) -> bool {
        if snapshot.is(Mistake::AgeUnchecked) {
            return true;
        }
        let mut wait = self.readers[reader].wait[group];
        if snapshot.is(Mistake::ReceivedAtTurnStart) {
            wait = wait.saturating_sub(1);
        }
        let age = self.groups[group].leader.age;
        snapshot.leader_clocks[group].shows(age, self.now) >= snapshot.wait(wait, self.now)
    }

    fn tick(&mut self, snapshot: &Snapshot) {
        let long_ago = snapshot.long_ago();
        let later = |elapsed: &mut u8| *elapsed = (*elapsed + 1).min(long_ago);
        self.now = (self.now + 1) % PERIOD;
        for group in &mut self.groups {
            later(&mut group.leader.age);
            later(&mut group.follower.age);
            if snapshot.is(Mistake::AgeFromCommit) {
                let length = usize::from(group.length());
                group.committed[..length].iter_mut().for_each(later);
            }
        }
        for reader in &mut self.readers {
            for group in 0..GROUPS {
                let is_asked = reader.asked & 1 << group != 0 && reader.saw[group] == MISSING;
                reader.wait[group] += u8::from(is_asked && reader.phase == Phase::Running);
            }
        }
    }
}

impl Model for Snapshot {
    type State = World;
    type Step = Step;
    type Violation = Disorder;

    fn initial(&self) -> World {
        let replica = Replica {
            applied: 0,
            age: self.long_ago(),
        };
        let group = Group {
            log: [None; ENTRIES],
            committed: [0; ENTRIES],
            leader: replica,
            follower: replica,
            is_second: !self.fails_over,
        };
        let reader = Reader {
            phase: Phase::New,
            after: 0,
            tries: 0,
            asked: 0,
            wait: [0; GROUPS],
            saw: [MISSING; GROUPS],
        };
        let mut groups = [group; GROUPS];
        groups[1].is_second = true;
        World {
            now: 0,
            groups,
            writers: [Writer::default(); WRITERS],
            readers: [reader; READERS],
        }
    }

    fn steps(&self, from: &World) -> Vec<(Step, World)> {
        let mut steps = Vec::new();
        let mut add = |step: Step, change: &dyn Fn(&mut World)| {
            let mut world = *from;
            change(&mut world);
            steps.push((step, world));
        };
        if from
            .readers
            .iter()
            .all(|reader| reader.wait.iter().all(|wait| *wait < self.patience))
        {
            add(Step::Tick, &|world| world.tick(self));
        }
        for (at, &wants) in self.writers.iter().enumerate() {
            self.of_writer(from, at, wants, &mut add);
        }
        for group in 0..GROUPS {
            let state = &from.groups[group];
            if state.leader.applied < state.length() {
                add(Step::Apply(group), &|world| world.apply(self, group));
            }
            if !state.is_second && state.follower.applied < state.length() {
                add(Step::FollowerApplies, &World::follower_applies);
            }
            if !state.is_second {
                add(Step::NewLeader, &|world| world.new_leader(self));
            }
        }
        for at in 0..self.readers.len() {
            self.of_reader(from, at, &mut add);
        }
        steps
    }

    fn violation(&self, world: &World) -> Option<Disorder> {
        let mut keys = [Writers::default(); GROUPS];
        for (group, writers) in world.groups.iter().zip(&mut keys) {
            for entry in group.entries(group.length()) {
                if let Entry::Install(writer) = entry {
                    writers.push(usize::from(writer));
                }
            }
        }
        let mut views = Vec::new();
        let mut after = [0; WRITERS + READERS];
        for (at, writer) in world.writers.iter().enumerate() {
            after[at] = writer.after;
        }
        for (at, reader) in world.readers.iter().enumerate() {
            after[WRITERS + at] = reader.after;
            if reader.phase == Phase::Done {
                views.extend(reader.saw.iter().enumerate().map(|(key, &version)| View {
                    operation: WRITERS + at,
                    key,
                    version,
                }));
            }
        }
        disorder(&keys, &views, &after)
    }

    fn is_goal(&self, world: &World) -> bool {
        let is_over = |phase| matches!(phase, Phase::New | Phase::Done | Phase::Refused);
        world.writers.iter().all(|writer| is_over(writer.phase))
            && world.readers.iter().all(|reader| is_over(reader.phase))
            && world.groups.iter().all(Group::is_free)
    }
}

type Add<'a> = dyn FnMut(Step, &dyn Fn(&mut World)) + 'a;

impl Snapshot {
    fn of_writer(&self, from: &World, at: usize, wants: u8, add: &mut Add) {
        let name = u8::try_from(at).expect("writers are few");
        let writer = from.writers[at];
        if writer.phase == Phase::New {
            add(Step::Begin(at), &|world| {
                world.writers[at].after = world.answered();
                world.writers[at].phase = Phase::Running;
            });
            return;
        }
        let is_transaction = wants.count_ones() > 1;
        let is_decided = writer.prepared == wants;
        for group in (0..GROUPS).filter(|group| wants & 1 << group != 0) {
            let state = &from.groups[group];
            if state.has(Entry::Install(name)) {
                continue;
            }
            let is_refused = writer.phase == Phase::Refused;
            if is_refused && state.has(Entry::Prepare(name)) && !state.has(Entry::Drop(name)) {
                add(Step::Drop(at, group), &|world| {
                    world.commit(group, Entry::Drop(name))
                });
            }
            if is_refused {
                continue;
            }
            if is_transaction && !state.has(Entry::Prepare(name)) {
                add(Step::RefuseWriter(at), &|world| {
                    world.writers[at].phase = Phase::Refused;
                });
            }
            if is_transaction && !state.has(Entry::Prepare(name)) && state.is_free() {
                add(Step::Prepare(at, group), &|world| {
                    world.commit(group, Entry::Prepare(name))
                });
            }
            if is_transaction && is_decided || !is_transaction && state.is_free() {
                add(Step::Install(at, group), &|world| {
                    world.commit(group, Entry::Install(name))
                });
            }
        }
        if is_transaction && is_decided && writer.phase == Phase::Running {
            add(Step::Acknowledge(at), &|world| {
                world.writers[at].phase = Phase::Done
            });
        }
    }

    fn of_reader(&self, from: &World, at: usize, add: &mut Add) {
        let name = u8::try_from(at).expect("readers are few");
        let reader = from.readers[at];
        for (group, state) in from.groups.iter().enumerate() {
            let has_share = state.has(Entry::Share(name)) && !state.has(Entry::Release(name));
            let is_over = matches!(reader.phase, Phase::Done | Phase::Refused);
            if has_share && is_over {
                add(Step::Release(at, group), &|world| {
                    world.commit(group, Entry::Release(name))
                });
            }
            let is_held = state.is_held(state.leader.applied) && !self.is(Mistake::LocksUnseen);
            let is_asked = reader.asked & 1 << group != 0;
            if reader.phase == Phase::Running && !is_asked {
                add(Step::Send(at, group), &|world| {
                    world.readers[at].asked |= 1 << group
                });
            }
            let is_reading = reader.phase == Phase::Running && is_asked;
            if is_reading && reader.saw[group] == MISSING && !is_held {
                self.of_value(from, at, group, add);
            }
            let may_share = !state.is_held(state.length()) && !state.has(Entry::Share(name));
            if reader.phase == Phase::Locking && may_share {
                add(Step::Share(at, group), &|world| {
                    world.commit(group, Entry::Share(name))
                });
            }
        }
        match reader.phase {
            Phase::New => add(Step::Read(at), &|world| {
                world.readers[at].after = world.answered();
                world.readers[at].asked = if self.is(Mistake::OwnSendTimes) {
                    0
                } else {
                    u8::MAX
                };
                world.readers[at].phase = match self.readers[at].tries {
                    0 => Phase::Locking,
                    _ => Phase::Running,
                };
            }),
            // A wound, or somebody's impatience.
            Phase::Locking => add(Step::Refuse(at), &|world| {
                world.readers[at].phase = Phase::Refused;
            }),
            Phase::Running | Phase::Done | Phase::Refused => {}
        }
    }

    fn of_value(&self, from: &World, at: usize, group: usize, add: &mut Add) {
        if from.is_old_enough(self, group, at) {
            add(Step::Value(at, group), &|world| {
                let version = world.groups[group].version(world.groups[group].leader.applied);
                world.saw(at, group, version);
            });
            return;
        }
        add(Step::TooYoung(at, group), &|world| {
            let reader = &mut world.readers[at];
            reader.wait = [0; GROUPS];
            reader.tries += 1;
            if reader.tries == self.readers[at].tries {
                reader.phase = match self.readers[at].locks {
                    true => Phase::Locking,
                    false => Phase::Refused,
                };
            }
            if reader.phase != Phase::Running || !self.is(Mistake::RereadsOne) {
                reader.saw = [MISSING; GROUPS];
            }
        });
    }
}
