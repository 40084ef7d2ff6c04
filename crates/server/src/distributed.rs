//! Transactions over groups whose logs decide: the coordinator's part.
//!
//! ```text
//!   see     commands that only read --> Seen by all: old enough together? --> answer;  else again;  else vote
//!   fetch   values that cross groups --> Fetched by all --> evaluated on a scratch --> vote on the effects, if nothing of
//!                                        what was seen has changed;  else again;  else lock
//!   lock    the same, with locks first: Locked by all --> evaluated --> vote on the effects
//!   vote    Prepare to all --> all Prepared: answer, Resolve(commit)    one Refused: Resolve(abort), answer or again
//!   hold    commands on whole groups: as vote, but the replies come with the end
//!   step    both of the latter: as lock, of whole groups; then each votes on a list of effects and commands, as for hold
//!
//!   settling: Resolve was recorded by all --> Forget
//! ```
//!
//! Nothing is logged here. A transaction is committed when the last vote for it is in the log of its group, and whoever
//! asks all groups finds that out: see `recovery.rs`.
//!
//! Invariants:
//! 1. Commit is sent only when every participant has prepared; abort only when one has refused, or was never asked.
//! 2. The client is answered once.
//! 3. A participant is told to forget only what all have recorded the end of.

use crate::delivery::{Answered, Answers, Delivery};
use crate::gateway::Gateway;
use crate::named::error_of;
use crate::plan::Plan;
use crate::program::{Extent, Program, by_group, group_of_key};
use crate::transaction::objects_in;
use crate::transaction_figures::TransactionSight;
use ids::{GroupId, Monotonic, UnixMillis};
use keyspace::KeyVersion;
use keyspace::Object;
use planted::Bug;
use replica::{
    Assignment, CROWDED_OUT, Condition, FullKey, Operation, Part, Replies, Request, Scratch, Seen, Step,
    Ticket, UNREACHABLE,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use txn::{Coordinator, Decision, Participant, Refusal, TxnId, Vote};

/// How often values are read again because something changed meanwhile, before locks are taken.
const TRIES_MAX: u32 = 2;

/// How long votes are waited for before the participants are asked what has become of the transaction.
const PATIENCE: Duration = Duration::from_secs(5);

/// Numbers by which a worker's newest transaction is ahead of its oldest one that a client waits for: what participants
/// remember of those between grows with them. Another one is refused then.
const SPAN_MAX: u64 = 1 << 20;

/// Transactions of a worker that are not over: what is decided, or in doubt, while one of its groups is out of reach stays
/// until that is back. Another one is refused then.
const UNFINISHED_MAX: usize = 65_536;

const BEHIND: &str =
    "TRYAGAIN too many transactions of this node wait for groups that are out of reach; nothing was done";
const BUSY: &str = "TRYAGAIN too many transactions wait for the same keys; nothing was done";
const TAKEN_FOR_DEAD: &str =
    "TRYAGAIN this node was taken for dead by a group of the transaction; nothing was done";
const TIMED_OUT: &str = "TRYAGAIN the keys of this transaction did not become free in time; nothing was done";
const UNKNOWN: &str = "UNKNOWN a group of this transaction was lost before it answered: whether the transaction was \
                       carried out is not known";

/// The transactions of one worker's gateway over groups whose logs decide. Bounded by its connections, and by what is
/// unanswered of groups that are out of reach.
#[derive(Default)]
pub(crate) struct Distributed {
    open: BTreeMap<u64, Open>,
    /// Of these, the ones that a client waits for.
    waited_for: BTreeSet<u64>,
    /// Decided; who has not recorded it yet.
    settling: BTreeMap<TxnId, Settling>,
    /// Of groups that were told to forget a transaction before all with smaller numbers were over: the greatest such
    /// number. They are told once more when that is so. Bounded by the groups.
    behind: BTreeMap<GroupId, u64>,
    /// Decisions that did not reach their groups, which are out of reach: they are told when those are back. Bounded by
    /// those that settle.
    untold: BTreeMap<GroupId, BTreeSet<TxnId>>,
}

/// Which way a transaction takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    See,
    Fetch,
    Lock,
    Vote,
    Hold,
    Step,
}

impl Way {
    /// Whether groups are locked first, and shown.
    fn locks_first(self) -> bool {
        matches!(self, Way::Lock | Way::Step)
    }

    /// Whether groups carry out commands when it is decided, and answer them only then.
    fn is_in_place(self) -> bool {
        matches!(self, Way::Hold | Way::Step)
    }
}

struct Open {
    id: TxnId,
    began: UnixMillis,
    /// When it came, by the clock that commands are timed by.
    came_at: u64,
    /// `None` once the client was answered.
    client: Option<(Ticket, Program)>,
    groups: Vec<GroupId>,
    /// The same as of this attempt, with their generations.
    participants: Vec<Participant>,
    way: Way,
    /// Whether anything in it may write.
    writes: bool,
    coordinator: Coordinator,
    /// What the groups answered: for each the index of the item and its reply.
    parts: BTreeMap<GroupId, (Vec<usize>, Replies)>,
    /// Keys that it reads and that only the data name, as far as an attempt has found them.
    wanted: BTreeMap<GroupId, BTreeSet<FullKey>>,
    /// What was fetched or locked.
    objects: BTreeMap<GroupId, Vec<(Option<Object>, KeyVersion)>>,
    /// Groups whose answer to this step is still to come.
    outstanding: usize,
    /// The replies of a program that was evaluated here, one for each operation.
    evaluated: Option<Replies>,
    /// What is known of the replies of one that groups carry out.
    plan: Plan,
    /// Whether locks are waited for, and not votes.
    is_locking: bool,
    /// Whether a group has lost what it answered.
    has_lost_replies: bool,
    /// When the reads of this attempt were sent.
    sent_at: Monotonic,
    /// Whether all that was seen so far was there when they were sent.
    is_together: bool,
    tries: u32,
    /// Whether parts were sent that a group may vote on.
    has_asked: bool,
    /// All have prepared: the replies are to come.
    is_committed: bool,
    /// Since when it is open.
    opened_at: Monotonic,
    /// Since when the attempt's votes are waited for.
    since: Monotonic,
    /// Whether the participants were asked what has become of it.
    is_inquired: bool,
    /// They said that all have prepared: the votes, with the replies, are to come.
    is_found_committed: bool,
}

/// A decision on its way.
struct Settling {
    groups: Vec<GroupId>,
    outstanding: BTreeSet<GroupId>,
    is_committed: bool,
    /// Whether the participants are to forget it then: not if its coordinator lives elsewhere and sees to it.
    forgets: bool,
}

impl Distributed {
    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.settling.is_empty() && self.behind.is_empty()
    }

    /// How many are open, and how many are decided and not recorded everywhere.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.open.len(), self.settling.len())
    }

    /// What is under way, for traces.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let open = self.open.values().map(|open| {
            let (id, way, outstanding) = (open.id, open.way, open.outstanding);
            let (has_client, has_asked, is_inquired) = (open.client.is_some(), open.has_asked, open.is_inquired);
            format!("{id:?} {way:?}: {outstanding} outstanding, client {has_client}, asked {has_asked}, inquired {is_inquired}, committed {}", open.is_committed)
        });
        let settling = self
            .settling
            .iter()
            .map(|(id, settling)| format!("{id:?} settles: {:?} outstanding", settling.outstanding));
        let behind = self
            .behind
            .iter()
            .map(|(group, seq)| format!("{group:?} behind {seq}"));
        open.chain(settling).chain(behind).collect()
    }

    /// The oldest of those that are open, at most `max`.
    pub(crate) fn sights(&self, max: usize) -> Vec<TransactionSight> {
        // Sequences grow with time.
        let oldest = self.open.values().take(max);
        let sight = |open: &Open| {
            let program = open.client.as_ref().map(|(_, program)| program);
            TransactionSight::coordinated(open.id, open.began, open.state(), &open.groups, program)
        };
        oldest.map(sight).collect()
    }

    /// Whether this worker coordinates a transaction that is not decided, or not answered.
    pub(crate) fn is_open(&self, txn: TxnId) -> bool {
        self.open.get(&txn.seq).is_some_and(|open| open.id == txn)
    }

    /// Whether a client waits for an open transaction.
    pub(crate) fn is_waited_for(&self, txn: TxnId) -> bool {
        self.waited_for.contains(&txn.seq)
    }

    /// Whether this worker still sees to a transaction.
    pub(crate) fn has(&self, txn: TxnId) -> bool {
        self.is_open(txn) || self.settling.contains_key(&txn)
    }
}

impl Open {
    /// What it waits for, for operators.
    fn state(&self) -> &'static str {
        match self.way {
            _ if self.is_inquired => "in doubt",
            _ if self.is_committed => "committed",
            Way::See | Way::Fetch if !self.has_asked => "reading",
            Way::Lock | Way::Step if self.is_locking => "locking",
            Way::See | Way::Fetch | Way::Lock | Way::Vote | Way::Hold | Way::Step => "voting",
        }
    }
}

impl Gateway {
    /// Sends a program on its way over groups whose logs decide.
    pub(crate) fn start_distributed(
        &mut self,
        ticket: Ticket,
        program: Program,
        extent: Extent,
        sees_whole: bool,
    ) {
        // The result of a named one is kept with the votes, and so must be known before them.
        let way = match (extent.flows || program.request.is_some(), extent.writes) {
            (true, _) if sees_whole => Way::Step,
            (true, _) => Way::Fetch,
            (false, false) => Way::See,
            (false, true) if sees_whole => Way::Hold,
            (false, true) => Way::Vote,
        };
        let (id, priority) = self.new_transaction();
        let span = id.seq - self.lowest_open(id.seq).min(id.seq);
        let (open, settling) = self.distributed.counts();
        if way != Way::See && (span >= SPAN_MAX || open + settling >= UNFINISHED_MAX) {
            let came_at = self.timing.now();
            return self.finish_program(ticket, program, Answers::Failed(BEHIND), came_at);
        }
        self.stats.transactions.add(1);
        // It is measured when it is answered.
        self.timing.is_ours = false;
        let came_at = self.timing.now();
        let open = Open {
            id,
            began: priority.began,
            came_at,
            client: Some((ticket, program)),
            coordinator: Coordinator::new(extent.groups.iter().copied()),
            groups: extent.groups,
            participants: Vec::new(),
            way,
            writes: extent.writes,
            parts: BTreeMap::new(),
            wanted: BTreeMap::new(),
            objects: BTreeMap::new(),
            outstanding: 0,
            evaluated: None,
            plan: Plan::default(),
            is_locking: false,
            has_lost_replies: false,
            sent_at: Monotonic(0),
            is_together: true,
            tries: 0,
            has_asked: false,
            is_committed: false,
            opened_at: self.cluster_now(),
            since: self.cluster_now(),
            is_inquired: false,
            is_found_committed: false,
        };
        self.distributed.open.insert(id.seq, open);
        self.distributed.waited_for.insert(id.seq);
        self.attempt_distributed(id.seq);
    }

    /// Sends the first messages of an attempt.
    fn attempt_distributed(&mut self, seq: u64) {
        let groups = self.groups;
        let now = (self.shared.hooks.monotonic)();
        let open = self.distributed.open.get_mut(&seq).expect("the caller opened it");
        let participants: Vec<Participant> = open
            .groups
            .iter()
            .map(|group| self.cluster.participant(*group))
            .collect();
        open.participants.clone_from(&participants);
        let (txn, began) = (open.id, open.began);
        if open.groups.iter().any(|group| self.shared.is_cut_off(*group)) {
            // Nothing of this attempt was sent: the others' keys are not locked for it.
            return self.answer_distributed(txn, Answers::Failed(UNREACHABLE));
        }
        let Some((_, program)) = &open.client else {
            return;
        };
        open.parts.clear();
        open.objects.clear();
        open.evaluated = None;
        open.is_locking = open.way.locks_first();
        open.outstanding = open.groups.len();
        open.is_together = true;
        open.sent_at = now;
        open.coordinator = Coordinator::new(open.groups.iter().copied());
        let mut partition = program.partition(groups);
        let is_strict = program.is_strict();
        let mut requests = Vec::with_capacity(open.groups.len());
        for &group in &open.groups {
            let conditions = program.conditions_in(groups, group);
            let is_there = |key: &[u8]| group_of_key(groups, key) == group;
            let request = match open.way {
                Way::See | Way::Vote | Way::Hold => {
                    let parts = partition.remove(&group).unwrap_or_default();
                    let (items, operations): (Vec<usize>, Vec<Operation>) = parts.into_iter().unzip();
                    open.parts.insert(group, (items, Replies::default()));
                    if open.way == Way::See {
                        Request::See {
                            txn,
                            conditions,
                            operations,
                        }
                    } else {
                        open.has_asked = true;
                        let assignment = if open.way == Way::Hold {
                            Assignment::InPlace {
                                steps: operations.into_iter().map(Step::Run).collect(),
                                after_lock: false,
                            }
                        } else {
                            Assignment::Evaluate {
                                operations,
                                is_strict,
                            }
                        };
                        Request::Prepared(Box::new(Part {
                            txn,
                            began,
                            participants: participants.clone(),
                            conditions,
                            expects: Vec::new(),
                            assignment,
                        }))
                    }
                }
                Way::Fetch => {
                    let mut keys = objects_in(program, open.wanted.get(&group), is_there);
                    // If it is on its way already, its end is waited for. There is nothing under the name.
                    keys.extend(program.name_lock(groups, group));
                    Request::Fetch { txn, keys }
                }
                Way::Lock | Way::Step => {
                    open.has_asked = true;
                    let keys = objects_in(program, open.wanted.get(&group), is_there);
                    let changed = changed_keys(program);
                    let keys = keys.into_iter().map(|(db, key)| {
                        let alone = changed.contains(&key);
                        ((db, key), alone)
                    });
                    let name = program.name_lock(groups, group).map(|name| (name, true));
                    Request::Lock(Box::new(Part {
                        txn,
                        began,
                        participants: participants.clone(),
                        conditions: Vec::new(),
                        expects: Vec::new(),
                        assignment: Assignment::Lock {
                            keys: keys.chain(name).collect(),
                            is_whole: open.way == Way::Step,
                        },
                    }))
                }
            };
            requests.push((group, request));
        }
        if requests.is_empty() {
            // Nothing was named at all: `EXEC` of connection commands never comes here, `DEL` of nothing is an error.
            return self.answer_distributed(txn, Answers::Parts(BTreeMap::new()));
        }
        for (group, request) in requests {
            self.request(group, request);
        }
    }

    fn open_of(&mut self, txn: TxnId) -> Option<&mut Open> {
        let is_its = |open: &&mut Open| open.id == txn || planted::is(Bug::AttemptIgnored);
        self.distributed.open.get_mut(&txn.seq).filter(is_its)
    }

    /// A group has answered commands that only read.
    pub(crate) fn on_seen(&mut self, txn: TxnId, group: GroupId, seen: Seen) {
        let now = (self.shared.hooks.monotonic)();
        let Some(open) = self.open_of(txn) else { return };
        let Some(replies) = seen.replies else {
            return self.answer_distributed(txn, Answers::Refused);
        };
        open.is_together &= is_old_enough(seen.age, now.since(open.sent_at));
        if let Some((_, held)) = open.parts.get_mut(&group) {
            *held = replies;
        }
        open.outstanding -= 1;
        if open.outstanding > 0 {
            return;
        }
        if open.groups.len() == 1 || open.is_together || planted::is(Bug::AgeNotChecked) {
            let parts = std::mem::take(&mut open.parts);
            return self.answer_distributed(txn, Answers::Parts(parts));
        }
        open.tries += 1;
        if open.tries > TRIES_MAX {
            open.way = Way::Vote;
        }
        self.stats.transaction_retries.add(1);
        self.begin_again_distributed(txn);
    }

    /// A group has sent objects.
    pub(crate) fn on_fetched(
        &mut self,
        txn: TxnId,
        group: GroupId,
        objects: Vec<(Option<Object>, KeyVersion)>,
        age: Duration,
    ) {
        let now = (self.shared.hooks.monotonic)();
        let Some(open) = self.open_of(txn) else { return };
        open.is_together &= is_old_enough(age, now.since(open.sent_at));
        self.on_objects(txn, group, objects);
    }

    /// A group has locked keys, and sent their objects.
    pub(crate) fn on_locked_distributed(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let absent = KeyVersion::Absent(ids::Version(0));
        let objects = objects.into_iter().map(|object| (object, absent)).collect();
        self.on_objects(txn, group, objects);
    }

    fn on_objects(&mut self, txn: TxnId, group: GroupId, objects: Vec<(Option<Object>, KeyVersion)>) {
        let Some(open) = self.open_of(txn) else { return };
        if open.objects.insert(group, objects).is_some() {
            return;
        }
        open.outstanding -= 1;
        if open.outstanding == 0 {
            self.evaluate_distributed(txn);
        }
    }

    /// All objects are here: carries the commands out on a scratch, and asks for votes on what they would change.
    fn evaluate_distributed(&mut self, txn: TxnId) {
        let (groups, turn, limits, now) = (self.groups, self.turn, self.compactness, self.cluster_now());
        let Some(open) = self.open_of(txn) else { return };
        let Some((_, program)) = &open.client else { return };
        let mut scratch: Scratch = turn.scratch(turn.now);
        scratch.set_limits(limits);
        let mut expects: BTreeMap<GroupId, Vec<Condition>> = BTreeMap::new();
        for (group, objects) in std::mem::take(&mut open.objects) {
            let is_there = |key: &[u8]| group_of_key(groups, key) == group;
            let keys = objects_in(program, open.wanted.get(&group), is_there);
            for ((db, key), (object, version)) in keys.into_iter().zip(objects) {
                scratch.place(db, &key, object);
                expects
                    .entry(group)
                    .or_default()
                    .push(Condition::Unchanged { db, key, version });
            }
        }
        let mut evaluated = Replies::default();
        let mut lacks = Vec::new();
        if open.way == Way::Step {
            match Plan::make(program, groups, &mut scratch) {
                Ok(plan) => open.plan = plan,
                Err(found) => lacks = found,
            }
        } else {
            for operation in program.operations() {
                lacks = scratch.wanted(&operation.as_state());
                if !lacks.is_empty() {
                    break;
                }
                operation.run_on(&mut scratch, &mut evaluated);
            }
        }
        if !lacks.is_empty() {
            for (db, key) in lacks {
                let group = group_of_key(groups, &key);
                open.wanted.entry(group).or_default().insert((db, key));
            }
            open.groups.extend(open.wanted.keys());
            open.groups.sort_unstable();
            open.groups.dedup();
            if open.has_asked {
                self.end_attempt(txn, false);
            }
            return self.begin_again_distributed(txn);
        }
        let after_lock = open.way.locks_first();
        if !open.writes && !after_lock && program.conditions.is_empty() {
            if open.is_together || planted::is(Bug::AgeNotChecked) {
                return self.answer_distributed(txn, Answers::Whole(evaluated));
            }
            open.tries += 1;
            if open.tries <= TRIES_MAX {
                self.stats.transaction_retries.add(1);
                return self.begin_again_distributed(txn);
            }
        }
        open.is_locking = false;
        open.outstanding = open.groups.len();
        open.has_asked = true;
        open.since = now;
        let mut effects = by_group(groups, scratch.take_effects(), |effect| effect.key());
        let mut requests = Vec::new();
        for &group in &open.groups {
            let assignment = if open.way == Way::Step {
                let items = open.plan.items.remove(&group).unwrap_or_default();
                open.parts.insert(group, (items, Replies::default()));
                Assignment::InPlace {
                    steps: open.plan.steps.remove(&group).unwrap_or_default(),
                    after_lock,
                }
            } else {
                Assignment::Install {
                    effects: effects.remove(&group).unwrap_or_default(),
                    after_lock,
                    result: program.result_in(groups, group, &evaluated),
                }
            };
            let part = Part {
                txn,
                began: open.began,
                participants: open.participants.clone(),
                conditions: program.conditions_in(groups, group),
                expects: if after_lock {
                    Vec::new()
                } else {
                    expects.remove(&group).unwrap_or_default()
                },
                assignment,
            };
            requests.push((group, Request::Prepared(Box::new(part))));
        }
        open.evaluated = (!open.way.is_in_place()).then_some(evaluated);
        for (group, request) in requests {
            self.request(group, request);
        }
    }

    /// A group has voted.
    pub(crate) fn on_vote_distributed(&mut self, txn: TxnId, group: GroupId, vote: Vote, replies: Replies) {
        let Some(open) = self.open_of(txn) else { return };
        if !open.groups.contains(&group) {
            return;
        }
        if vote == Vote::Refused(Refusal::Known) {
            open.evaluated = Some(replies);
        } else if vote == Vote::Refused(Refusal::Failed) {
            let error = replies.iter().find(|reply| reply.first() == Some(&b'-'));
            let error = error.map(<[u8]>::to_vec).unwrap_or_default();
            open.evaluated = Some(Replies::of([&*error]));
        } else if let Some((_, held)) = open.parts.get_mut(&group)
            && !open.way.is_in_place()
        {
            *held = replies;
        }
        let decision = open.coordinator.on_vote(group, vote);
        let decision = match decision {
            None if planted::is(Bug::CommitWithoutAll) && open.coordinator.on_wound().len() == 1 => {
                Some(Decision::Commit)
            }
            decision => decision,
        };
        match decision {
            None => {}
            Some(Decision::Commit) => self.commit_distributed(txn),
            Some(Decision::Abort(refusal)) => self.abort_distributed(txn, refusal),
        }
    }

    /// Every group has prepared.
    fn commit_distributed(&mut self, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        let is_in_place = open.way.is_in_place();
        let answers = match open.evaluated.take() {
            Some(evaluated) => Answers::Whole(evaluated),
            None if is_in_place => {
                open.is_committed = true;
                open.outstanding = open.groups.len();
                return self.end_attempt(txn, true);
            }
            None => Answers::Parts(std::mem::take(&mut open.parts)),
        };
        self.end_attempt(txn, true);
        self.answer_distributed(txn, answers);
    }

    /// A group has refused.
    fn abort_distributed(&mut self, txn: TxnId, refusal: Refusal) {
        self.end_attempt(txn, false);
        let now = self.cluster_now();
        let Some(open) = self.open_of(txn) else { return };
        match refusal {
            Refusal::Condition => return self.answer_distributed(txn, Answers::Refused),
            Refusal::Failed => {
                let error = open.evaluated.take().unwrap_or_default();
                return self.answer_distributed(txn, Answers::Whole(error));
            }
            Refusal::Known => {
                let known = open.evaluated.take().unwrap_or_default().into_once();
                let answers =
                    known.map_or_else(|standing| Answers::Failed(error_of(standing)), Answers::Whole);
                return self.answer_distributed(txn, answers);
            }
            Refusal::Busy => return self.answer_distributed(txn, Answers::Failed(BUSY)),
            Refusal::Over => return self.answer_distributed(txn, Answers::Failed(TAKEN_FOR_DEAD)),
            Refusal::Inquired if open.is_inquired => {
                return self.answer_distributed(txn, Answers::Failed(TIMED_OUT));
            }
            Refusal::Changed => {
                open.tries += 1;
                open.way = if open.tries > TRIES_MAX {
                    Way::Lock
                } else {
                    Way::Fetch
                };
            }
            Refusal::Renewed if now.since(open.opened_at) >= PATIENCE => {
                // The map that names the group as it is now has not come.
                return self.answer_distributed(txn, Answers::Failed(TIMED_OUT));
            }
            Refusal::Wounded | Refusal::Inquired | Refusal::TooLarge | Refusal::Renewed => {}
        }
        self.stats.transaction_retries.add(1);
        self.begin_again_distributed(txn);
    }

    /// Tells all participants of an attempt how it ended.
    fn end_attempt(&mut self, txn: TxnId, is_committed: bool) {
        let Some(open) = self.open_of(txn) else { return };
        open.has_asked = false;
        let groups = open.groups.clone();
        self.settle(txn, groups, is_committed, true);
    }

    /// Tells participants what was decided, until all have recorded it.
    pub(crate) fn settle(&mut self, txn: TxnId, groups: Vec<GroupId>, is_committed: bool, forgets: bool) {
        if self.distributed.settling.contains_key(&txn) {
            // It is decided once. Who recovers a dead coordinator's transaction may hear, late, from one that has forgotten it,
            // and of our own it may be found, after a group began anew, that nothing of it was left.
            return;
        }
        let settling = Settling {
            outstanding: groups.iter().copied().collect(),
            groups: groups.clone(),
            is_committed,
            forgets,
        };
        self.distributed.settling.insert(txn, settling);
        for &group in &groups {
            self.request(group, self.decision(txn, is_committed));
        }
        if planted::is(Bug::ForgottenEarly) {
            self.forget_everywhere(txn, &groups);
        }
    }

    fn decision(&self, txn: TxnId, is_committed: bool) -> Request {
        let open = self.distributed.open.get(&txn.seq);
        Request::Decide {
            txn,
            is_committed,
            // The replies of what groups carry out when it is decided.
            is_awaited: open.is_some_and(|open| open.id == txn && open.is_committed),
            worker: self.worker,
        }
    }

    /// A group has recorded the end of a transaction.
    pub(crate) fn on_decided(&mut self, txn: TxnId, group: GroupId, replies: Replies) {
        if let Some(open) = self.open_of(txn).filter(|open| open.is_committed) {
            if let Some((items, held)) = open.parts.get_mut(&group) {
                // Of a coordinator that was taken for dead, nothing is kept.
                open.has_lost_replies |= replies.iter().count() != items.len();
                *held = replies;
            }
            open.outstanding -= 1;
            if open.outstanding == 0 {
                let parts = std::mem::take(&mut open.parts);
                let answers = match open.has_lost_replies {
                    true => Answers::Failed(UNKNOWN),
                    false => std::mem::take(&mut open.plan).answers(parts),
                };
                self.answer_distributed(txn, answers);
            }
        }
        let Some(settling) = self.distributed.settling.get_mut(&txn) else {
            return;
        };
        settling.outstanding.remove(&group);
        if !settling.outstanding.is_empty() {
            return;
        }
        let settling = self
            .distributed
            .settling
            .remove(&txn)
            .expect("looked at a moment ago");
        if settling.forgets {
            self.forget_everywhere(txn, &settling.groups);
        }
    }

    /// It is not known whether a group was told: it is told again, as soon as it can be.
    pub(crate) fn on_undecided(&mut self, txn: TxnId, group: GroupId) {
        let settling = self.distributed.settling.get(&txn);
        if let Some(settling) = settling.filter(|settling| settling.outstanding.contains(&group)) {
            if self.shared.is_cut_off(group) {
                self.distributed.untold.entry(group).or_default().insert(txn);
                return;
            }
            let request = self.decision(txn, settling.is_committed);
            self.request(group, request);
        }
    }

    /// Tells groups that are in reach again what was decided meanwhile.
    fn tell_untold(&mut self) {
        let shared = &self.shared;
        let reached = self
            .distributed
            .untold
            .extract_if(.., |group, _| !shared.is_cut_off(*group));
        for (group, decided) in reached.collect::<Vec<_>>() {
            for txn in decided {
                self.on_undecided(txn, group);
            }
        }
    }

    fn forget_everywhere(&mut self, txn: TxnId, groups: &[GroupId]) {
        let is_ours = txn.boot == self.boot() && txn.worker == self.worker;
        // Of somebody else's, nothing is known of the others.
        let low = if is_ours { self.lowest_open(txn.seq) } else { 0 };
        for &group in groups {
            if is_ours && low <= txn.seq {
                let behind = self.distributed.behind.entry(group).or_default();
                *behind = (*behind).max(txn.seq);
            }
            self.request(group, Request::Forget { txn, low });
        }
    }

    /// All of this worker's transactions below are over everywhere, or written down by whoever has a part in them, if those up
    /// to `newest` are all that there were. Only what has a client may be begun again.
    fn lowest_open(&self, newest: u64) -> u64 {
        let first = self.distributed.waited_for.first();
        first.copied().unwrap_or(newest + 1)
    }

    /// Tells groups that know of transactions by their numbers alone that all up to there are over.
    fn raise_marks(&mut self) {
        let Some(&newest) = self.distributed.behind.values().max() else {
            return;
        };
        let low = self.lowest_open(newest);
        let (boot, worker) = (self.boot(), self.worker);
        let behind = self.distributed.behind.extract_if(.., |_, seq| *seq < low);
        for (group, seq) in behind.collect::<Vec<_>>() {
            let txn = TxnId {
                boot,
                worker,
                seq,
                attempt: 0,
            };
            self.request(group, Request::Forget { txn, low });
        }
    }

    /// The next attempt, of the same age.
    fn begin_again_distributed(&mut self, txn: TxnId) {
        let now = self.cluster_now();
        let Some(open) = self.open_of(txn) else { return };
        if open.client.is_none() {
            self.distributed.open.remove(&txn.seq);
            return;
        }
        open.id.attempt += 1;
        open.since = now;
        open.is_inquired = false;
        self.attempt_distributed(txn.seq);
    }

    /// Answers the client, and ends here.
    fn answer_distributed(&mut self, txn: TxnId, answers: Answers) {
        let Some(mut open) = self.distributed.open.remove(&txn.seq) else {
            return;
        };
        self.distributed.waited_for.remove(&txn.seq);
        if let Answers::Refused = answers {
            self.stats.transactions_refused.add(1);
        }
        if let Some((ticket, program)) = open.client.take() {
            self.finish_program(ticket, program, answers, open.came_at);
        }
    }

    /// A group could not be asked, or what came of it is not known. `false` if the transaction is none of these.
    pub(crate) fn on_failed_distributed(&mut self, txn: TxnId, error: &'static str) -> bool {
        let is_certain = error == UNREACHABLE;
        let Some(open) = self.open_of(txn) else {
            return false;
        };
        if open.way == Way::See && !open.has_asked && error == CROWDED_OUT {
            // What looks at groups as a whole would wait for a moment in which nobody holds a lock there. It takes its place in
            // the queue instead, where those that are younger do not overtake it.
            open.way = Way::Vote;
            self.stats.transaction_retries.add(1);
            self.begin_again_distributed(txn);
        } else if !open.has_asked {
            // Reads did nothing, whatever is not known.
            let error = match error.starts_with("UNKNOWN") {
                true => UNREACHABLE,
                false => error,
            };
            self.answer_distributed(txn, Answers::Failed(error));
        } else if is_certain {
            // The part was never sent, and will not be.
            self.end_attempt(txn, false);
            self.answer_distributed(txn, Answers::Failed(UNREACHABLE));
        } else {
            self.inquire_after(txn);
        }
        true
    }

    /// Asks the participants what has become of a transaction of this worker.
    fn inquire_after(&mut self, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        open.is_inquired = true;
        let participants = open.participants.clone();
        self.recover(txn, participants);
    }

    /// What the participants of a transaction of this worker have written down decides it. `true` if it is one.
    pub(crate) fn on_recovered(&mut self, txn: TxnId, decision: Option<Decision>) -> bool {
        let Some(open) = self.open_of(txn) else {
            return self.distributed.settling.contains_key(&txn);
        };
        match decision {
            // It waits for the groups to carry it out, whatever else they have written.
            _ if open.is_committed && open.client.is_some() => {}
            // The votes are on their way, with the replies; if the client was told already, they are not waited for.
            Some(Decision::Commit) if open.client.is_some() => open.is_found_committed = true,
            Some(Decision::Commit) => {
                self.end_attempt(txn, true);
                self.distributed.open.remove(&txn.seq);
            }
            Some(Decision::Abort(_)) => self.abort_distributed(txn, Refusal::Inquired),
            None => self.answer_distributed(txn, Answers::Failed(UNKNOWN)),
        }
        true
    }

    /// Time passes: whoever waits too long for votes asks what has become of his transaction; whoever does not learn it is
    /// told that it is not known, and it is asked for until somebody knows.
    pub(crate) fn tick_distributed(&mut self) {
        self.raise_marks();
        self.tell_untold();
        self.drop_lost_inquiries();
        let now = self.cluster_now();
        let waits = |open: &&Open, factor: u32| now.since(open.since) >= PATIENCE * factor;
        let open = self.distributed.open.values();
        let late: Vec<TxnId> = open
            .filter(|open| open.has_asked && !open.is_found_committed && waits(open, 1))
            .map(|open| open.id)
            .collect();
        for txn in late {
            self.inquire_after(txn);
        }
        let open = self.distributed.open.values();
        let lost: Vec<TxnId> = open
            .filter(|open| open.client.is_some() && waits(open, 2))
            .map(|open| open.id)
            .collect();
        for txn in lost {
            let open = self
                .distributed
                .open
                .get_mut(&txn.seq)
                .expect("looked at a moment ago");
            if !open.has_asked {
                // It has read and done nothing, and whatever still comes is of no use.
                self.answer_distributed(txn, Answers::Failed(UNREACHABLE));
                continue;
            }
            let is_found_committed = open.is_found_committed;
            let came_at = open.came_at;
            self.distributed.waited_for.remove(&txn.seq);
            if let Some((ticket, program)) = open.client.take() {
                self.finish_program(ticket, program, Answers::Failed(UNKNOWN), came_at);
            }
            if is_found_committed {
                self.end_attempt(txn, true);
                self.distributed.open.remove(&txn.seq);
            }
        }
    }

    fn finish_program(&mut self, ticket: Ticket, program: Program, replies: Answers, came_at: u64) {
        if self.ends_try(ticket, &replies) {
            return;
        }
        let took = self.timing.now().saturating_sub(came_at);
        self.note_program(&program, took, ticket);
        self.deliveries.push_back(Delivery::Answered(Box::new(Answered {
            ticket,
            program,
            replies,
        })));
    }
}

/// Whether what had not changed for so long when it was read was there when the reads were sent, if sending, reading and
/// receiving took no longer than `took`. Clocks may differ by a sixteenth in their rates, and tick at different moments.
fn is_old_enough(age: Duration, took: Duration) -> bool {
    age > took + took / 16
}

/// The keys that the commands of a program may change.
fn changed_keys(program: &Program) -> BTreeSet<Box<[u8]>> {
    let mut changed = BTreeSet::new();
    for operation in program.operations() {
        operation.keys(|key, key_use| {
            if key_use != command::KeyUse::Read {
                changed.insert(Box::from(key));
            }
        });
    }
    changed
}
