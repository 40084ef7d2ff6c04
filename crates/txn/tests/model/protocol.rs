//! The protocol as a model: every step that a world can take, and what must never be seen.

use crate::entries::Entries;
use crate::explore::Model;
use crate::order::{Disorder, View, disorder};
use crate::scenario::{ATTEMPTS, GROUPS, KEYS, Mutant, OPERATIONS, Scenario, Way};
use crate::world::{Attempt, Client, Phase, VoteRecord, World};
use ids::GroupId;
use txn::{Decision, Refusal, Vote, VoteTally};

/// Steps; numbers are operation, attempt (from 0), group. Those that name a group are entries of its log.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "traces show them")]
pub(crate) enum Step {
    Begin(usize),
    Plain(usize, usize),
    Read(usize, usize, usize),
    Lock(usize, usize, usize),
    Prepare(usize, usize, usize),
    Wound(usize, usize),
    WoundArrives(usize, usize, usize),
    Answer(usize, bool),
    TimeIsUp(usize),
    Retry(usize, usize),
    Ask(usize, usize),
    QueryTxn(usize, usize, usize),
    Decide(usize, usize, bool),
    Commit(usize, usize, usize),
    Abort(usize, usize, usize),
    PretendToResolve(usize, usize, usize),
    Forget(usize, usize),
    ForgetOne(usize, usize),
    Crash(usize),
    Lose(usize),
    Fence(usize, usize),
    Bury(usize, usize),
    NewLeader(usize),
}

/// What must never be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// Somebody decided to commit an attempt, somebody to abort it.
    Disagreement,
    /// Committed in one group; refused or aborted in another.
    NotAtomic,
    /// The client was told that it is done, and a participant refused or aborted it.
    LostAnswered,
    /// The client was told that it is not done, and it is.
    FalseRefusal,
    /// Effects were installed twice.
    DoneTwice,
    Order(Disorder),
}

fn groups(bits: u8) -> impl Iterator<Item = usize> {
    (0..GROUPS).filter(move |group| bits & 1 << group != 0)
}

/// The product's tally, told what the groups said.
fn decision(participants: u8, yes: u8, no: u8) -> Option<Decision> {
    let name = |group: usize| GroupId::new(u16::try_from(group).expect("groups are few"));
    let mut tally = VoteTally::new(groups(participants).map(name));
    let votes = groups(yes).map(|group| (group, Vote::Prepared));
    let votes = votes.chain(groups(no).map(|group| (group, Vote::Refused(Refusal::Wounded))));
    votes
        .filter_map(|(group, vote)| tally.on_vote(name(group), vote))
        .last()
}

impl Scenario {
    fn may_commit(&self, op: usize, attempt: usize, about: &Attempt) -> bool {
        let voters = self.voters(op, attempt);
        decision(voters, about.yes & voters, 0) == Some(Decision::Commit)
    }

    fn may_abort(&self, op: usize, about: &Attempt) -> bool {
        decision(self.participants(op), 0, about.no).is_some()
    }

    /// The place of an attempt's vote records and messages: its own, if attempts have names.
    fn place(&self, client: &Client) -> usize {
        match self.mutant {
            Some(Mutant::AttemptNotNamed) => 0,
            _ => usize::from(client.attempt),
        }
    }

    fn begins(&self, op: usize, world: &mut World) {
        let place = self.place(&world.clients[op]);
        let way = self.way(op, place);
        let about = &mut world.attempts[op][place];
        about.begun = true;
        about.asked |= way == Way::OneShot;
    }
}

/// Collects the steps from one state.
struct Steps<'a> {
    scenario: &'a Scenario,
    from: &'a World,
    steps: Vec<(Step, World)>,
}

impl Steps<'_> {
    fn add(&mut self, step: Step, change: impl FnOnce(&mut World)) {
        let mut world = *self.from;
        change(&mut world);
        self.steps.push((step, world));
    }

    fn entry(&mut self, step: Step, apply: impl FnOnce(&mut Entries)) {
        let (scenario, world) = (self.scenario, *self.from);
        let mut entries = Entries { scenario, world };
        apply(&mut entries);
        self.steps.push((step, entries.world));
    }

    fn of_client(&mut self, op: usize) {
        let (scenario, client) = (self.scenario, self.from.clients[op]);
        let boot = scenario.operations[op].boot;
        let is_first = scenario
            .pipeline
            .is_some_and(|(first, second)| second == op && self.from.clients[first].phase == Phase::New);
        if client.phase == Phase::New && !self.is_dead(boot) && !is_first {
            self.add(Step::Begin(op), |world| {
                let is_answered = |op: &usize| world.clients[*op].phase == Phase::Committed;
                let after = (0..OPERATIONS)
                    .filter(is_answered)
                    .fold(0, |after, op| after | 1 << op);
                let sent_before = match scenario.pipeline {
                    Some((first, second)) if second == op => 1 << first,
                    _ => 0,
                };
                world.clients[op].after = after | sent_before;
                world.clients[op].phase = Phase::Running;
                scenario.begins(op, world);
            });
        }
        if client.phase != Phase::Running || scenario.is_plain(op) {
            return;
        }
        let place = scenario.place(&client);
        let about = self.from.attempts[op][place];
        if scenario.may_commit(op, place, &about) {
            self.add(Step::Answer(op, true), |world| {
                world.clients[op].phase = Phase::Committed;
                world.attempts[op][place].commits = true;
                world.attempts[op][place].has_committed = true;
            });
        }
        if scenario.is(Mutant::TimeoutAborts) && about.asked {
            self.add(Step::TimeIsUp(op), |world| {
                world.clients[op].phase = Phase::Refused
            });
        }
        if !scenario.may_abort(op, &about) {
            return;
        }
        let next = usize::from(client.attempt) + 1;
        if next == scenario.attempts {
            self.add(Step::Answer(op, false), |world| {
                world.clients[op].phase = Phase::Refused;
                world.attempts[op][place].aborts = true;
                world.attempts[op][place].has_aborted = true;
            });
            return;
        }
        self.add(Step::Retry(op, next), |world| {
            world.clients[op].attempt += 1;
            let about = &mut world.attempts[op][place];
            about.aborts = true;
            about.has_aborted = true;
            if scenario.is(Mutant::AttemptNotNamed) {
                *about = Attempt {
                    aborts: true,
                    installed: about.installed,
                    ..Attempt::default()
                };
            }
            scenario.begins(op, world);
        });
    }

    fn is_dead(&self, boot: usize) -> bool {
        self.from.dead & 1 << boot != 0
    }

    fn of_boot(&self, boot: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.scenario.operations.len()).filter(move |&op| self.scenario.operations[op].boot == boot)
    }

    fn of_plain(&mut self, op: usize) {
        let (scenario, about) = (self.scenario, self.from.attempts[op][0]);
        for group in groups(scenario.participants(op)) {
            let vote_record = self.from.vote_record(group, op, 0);
            let again = scenario.is(Mutant::PlainTwice) && vote_record == VoteRecord::Done;
            let is_early = scenario.pipeline.is_some_and(|(first, second)| {
                second == op && self.from.attempts[first][0].locked & 1 << group == 0
            });
            if about.begun && (about.locked & 1 << group == 0 || again) && !is_early {
                self.entry(Step::Plain(op, group), |entries| entries.plain(group, op));
            }
        }
    }

    /// What an older one that waits tells the participants of a younger one.
    fn of_waiting(&mut self, group: usize, op: usize, at: usize) {
        if self.scenario.is(Mutant::WoundToldOnce) || !self.from.vote_record(group, op, at).is_queued() {
            return;
        }
        let (scenario, world) = (self.scenario, *self.from);
        for victim in (Entries { scenario, world }).wounds(group, op, at) {
            let (op, at) = (victim.boot.0 as usize, victim.attempt as usize - 1);
            self.add(Step::Wound(op, at), |world| world.attempts[op][at].wounded = true);
        }
    }

    fn of_participant(&mut self, group: usize, op: usize, at: usize) {
        let (scenario, client) = (self.scenario, self.from.clients[op]);
        let (about, vote_record) = (self.from.attempts[op][at], self.from.vote_record(group, op, at));
        let bit = 1 << group;
        let is_current = client.phase == Phase::Running && scenario.place(&client) == at;
        let way = scenario.way(op, at);
        if way == Way::Validated && is_current && about.values & bit == 0 {
            self.entry(Step::Read(op, at, group), |entries| {
                entries.answer_values(group, op, at)
            });
        }
        let again = scenario.is(Mutant::LockTwice) && vote_record == VoteRecord::Empty;
        if way == Way::Locked && about.begun && (about.locked & bit == 0 || again) {
            self.entry(Step::Lock(op, at, group), |entries| entries.lock(group, op, at));
        }
        if about.asked && about.arrived & bit == 0 && scenario.voters(op, at) & bit != 0 {
            self.entry(Step::Prepare(op, at, group), |entries| {
                entries.prepare(group, op, at)
            });
        }
        if about.wounded || about.wound_at & bit != 0 {
            self.entry(Step::WoundArrives(op, at, group), |entries| {
                entries.wound(group, op, at)
            });
        }
        if about.queried_txn {
            self.entry(Step::QueryTxn(op, at, group), |entries| {
                entries.query_txn(group, op, at)
            });
        }
        if about.commits {
            self.entry(Step::Commit(op, at, group), |entries| {
                entries.resolve(group, op, at, true)
            });
            if scenario.is(Mutant::ResolveForgotten) {
                self.add(Step::PretendToResolve(op, at, group), |world| {
                    world.attempts[op][at].pretended |= bit;
                });
            }
        }
        if about.aborts {
            self.entry(Step::Abort(op, at, group), |entries| {
                entries.resolve(group, op, at, false)
            });
        }
    }

    /// Recovery, by whoever asks: the coordinator, or a group that holds what was prepared.
    fn of_recovery(&mut self, op: usize, at: usize) {
        let (scenario, client, about) = (self.scenario, self.from.clients[op], self.from.attempts[op][at]);
        let holds = |group| match self.from.vote_record(group, op, at) {
            VoteRecord::Locked => !scenario.is(Mutant::LocksOfDeadStay),
            vote_record => vote_record.is_prepared(),
        };
        let is_held = groups(scenario.participants(op)).any(holds);
        let is_dead = self.is_dead(scenario.operations[op].boot);
        let is_asked = about.asked || about.locked != 0;
        let is_impatient =
            client.phase == Phase::Running && scenario.place(&client) == at && is_asked || is_held;
        if is_dead && is_held || scenario.gives_up && is_impatient {
            self.add(Step::Ask(op, at), |world| {
                world.attempts[op][at].queried_txn = true
            });
        }
        if !about.queried_txn {
            return;
        }
        if scenario.may_commit(op, at, &about) {
            self.add(Step::Decide(op, at, true), |world| {
                world.attempts[op][at].commits = true;
                world.attempts[op][at].has_committed = true;
            });
        }
        if scenario.may_abort(op, &about) {
            self.add(Step::Decide(op, at, false), |world| {
                world.attempts[op][at].aborts = true;
                world.attempts[op][at].has_aborted = true;
            });
        }
    }

    fn of_boots(&mut self, boot: usize) {
        let scenario = self.scenario;
        if self.of_boot(boot).next().is_none() {
            return;
        }
        let is_dead = self.is_dead(boot);
        let dies: Vec<usize> = self.of_boot(boot).filter(|&op| !scenario.is_plain(op)).collect();
        let has_begun = dies.iter().any(|&op| self.from.clients[op].phase != Phase::New);
        if scenario.crashes && !is_dead && has_begun {
            self.add(Step::Crash(boot), |world| {
                world.dead |= 1 << boot;
                for &op in &dies {
                    let phase = &mut world.clients[op].phase;
                    if *phase == Phase::Running {
                        *phase = Phase::Crashed;
                    }
                }
            });
        }
        if is_dead && scenario.loses {
            let all: Vec<usize> = self.of_boot(boot).collect();
            self.add(Step::Lose(boot), |world| {
                for &op in &all {
                    for about in &mut world.attempts[op] {
                        *about = Attempt {
                            has_committed: about.has_committed,
                            has_aborted: about.has_aborted,
                            installed: about.installed,
                            locked: about.locked,
                            arrived: about.arrived,
                            saw: about.saw,
                            ..Attempt::default()
                        };
                    }
                }
            });
        }
        for group in 0..GROUPS {
            if scenario.fences && (is_dead || scenario.fences_living && has_begun) {
                self.of_dead(boot, group);
            }
            if !is_dead && scenario.forgets {
                self.of_forgetting(boot, group);
            }
        }
    }

    fn of_dead(&mut self, boot: usize, group: usize) {
        self.add(Step::Fence(boot, group), |world| {
            world.groups[group].fenced |= 1 << boot
        });
        let homes = &self.scenario.homes;
        let is_quiet = homes.iter().all(|&home| {
            self.from.groups[home].fenced & 1 << boot != 0 && !self.from.is_open(self.scenario, boot, home)
        });
        if is_quiet || self.from.groups.iter().any(|group| group.buried & 1 << boot != 0) {
            self.entry(Step::Bury(boot, group), |entries| entries.bury(group, boot));
        }
    }

    /// The gateway raises its mark over all that is settled, up to the oldest that is not.
    fn of_forgetting(&mut self, boot: usize, group: usize) {
        let scenario = self.scenario;
        let is_settled = |op: &usize| {
            self.from
                .is_settled(scenario, *op, |settled, participants| match scenario.mutant {
                    Some(Mutant::ForgetsEarly) => settled != 0,
                    _ => settled == participants,
                })
        };
        let open = self.of_boot(boot).filter(|op| !is_settled(op));
        let above = u8::try_from(self.of_boot(boot).count()).expect("operations are few");
        let mark = open.map(|op| scenario.operations[op].seq).min().unwrap_or(above);
        if mark > self.from.groups[group].mark[boot] {
            self.entry(Step::Forget(boot, group), |entries| {
                entries.forget(group, boot, mark)
            });
        }
        if scenario.is(Mutant::ForgetsAboveMark) {
            let above = |op: &usize| scenario.operations[*op].seq >= mark;
            let settled: Vec<usize> = self.of_boot(boot).filter(is_settled).filter(above).collect();
            for op in settled {
                self.entry(Step::ForgetOne(op, group), |entries| {
                    entries.forget_one(group, op)
                });
            }
        }
    }
}

impl Model for Scenario {
    type State = World;
    type Step = Step;
    type Violation = Wrong;

    fn initial(&self) -> World {
        World::default()
    }

    fn steps(&self, from: &World) -> Vec<(Step, World)> {
        let mut steps = Steps {
            scenario: self,
            from,
            steps: Vec::new(),
        };
        for op in 0..self.operations.len() {
            steps.of_client(op);
            if self.is_plain(op) {
                steps.of_plain(op);
                for group in groups(self.participants(op)) {
                    steps.of_waiting(group, op, 0);
                }
                continue;
            }
            for at in 0..=usize::from(from.clients[op].attempt) {
                steps.of_recovery(op, at);
                for group in groups(self.participants(op)) {
                    steps.of_participant(group, op, at);
                    steps.of_waiting(group, op, at);
                }
            }
        }
        for boot in 0..OPERATIONS {
            steps.of_boots(boot);
        }
        if self.is(Mutant::LeaderForgetsLocks) {
            for group in 0..GROUPS {
                steps.entry(Step::NewLeader(group), |entries| entries.lose_locks(group));
            }
        }
        steps.steps
    }

    fn violation(&self, world: &World) -> Option<Wrong> {
        let mut views = Vec::new();
        for op in 0..self.operations.len() {
            if let Some(wrong) = self.wrong_with(world, op) {
                return Some(wrong);
            }
            for at in 0..ATTEMPTS {
                let about = &world.attempts[op][at];
                let seen = self.operations[op]
                    .keys
                    .iter()
                    .filter(|(key, _)| about.has_committed || about.installed & 1 << self.homes[*key] != 0);
                views.extend(seen.map(|&(key, _)| View {
                    operation: op,
                    key,
                    version: about.saw[key],
                }));
            }
        }
        if world.keys.iter().any(|writers| writers.has_twice()) {
            return Some(Wrong::DoneTwice);
        }
        let after = world.clients.map(|client| client.after);
        disorder(&world.keys[..KEYS], &views, &after).map(Wrong::Order)
    }

    fn is_goal(&self, world: &World) -> bool {
        (0..self.operations.len()).all(|op| world.clients[op].phase != Phase::Running)
            && (0..OPERATIONS).all(|boot| (0..GROUPS).all(|group| !world.is_open(self, boot, group)))
    }
}

impl Scenario {
    fn wrong_with(&self, world: &World, op: usize) -> Option<Wrong> {
        let client = &world.clients[op];
        for at in 0..ATTEMPTS {
            let about = &world.attempts[op][at];
            if about.has_committed && about.has_aborted {
                return Some(Wrong::Disagreement);
            }
            let has = |is: fn(VoteRecord) -> bool| {
                groups(self.participants(op)).any(|group| is(world.vote_record(group, op, at)))
            };
            let is_lost = has(|vote_record| matches!(vote_record, VoteRecord::Refused | VoteRecord::Aborted));
            if is_lost && client.phase == Phase::Committed && self.place(client) == at {
                return Some(Wrong::LostAnswered);
            }
            let is_done = about.installed != 0 || has(|vote_record| vote_record == VoteRecord::Committed);
            if is_lost && is_done {
                return Some(Wrong::NotAtomic);
            }
            if client.phase == Phase::Refused && (about.has_committed || is_done) {
                return Some(Wrong::FalseRefusal);
            }
        }
        None
    }
}
