//! The groups of one worker, with its replicas of them.
//!
//! What is all here and free is carried out at once, and nothing can come between: whether it is, is asked here.
//!
//! Groups that are added while the node runs are made by each worker when it hears of them, and used when all of them have made theirs
//! (`Shared::common_groups`): until then nobody asks a worker for a group that it does not have.
//!
//! Invariants:
//! 1. The founded groups of a worker follow one another, and those that were added stand behind them.

use crate::cluster::Visits;
use crate::endpoint::Scope;
use crate::program::{Extent, Program, group_of_key, names_more};
use crate::shared::Shared;
use command::{CommandRoute, KeyUse, Spec};
use ids::{Db, GroupId, Groups, HashSeed, Monotonic, SemanticsVersion, Slot};
use keyspace::{EncodingLimits, Event, KEYS_AHEAD};
use replica::{Member, Operation, Replica, Scratch, Turn, locks_of, with_conditions};
use resp::Args;
use std::collections::VecDeque;
use std::ops::Range;
use txn::{Locks, Mode};

/// Stands for the index of a group that is not here: a worker has fewer than that.
const ELSEWHERE: u16 = u16::MAX;

/// See the file's header.
pub(crate) struct LocalGroups {
    /// As they are used: [`Context::groups`](crate::context::Context), which is told of them.
    groups: Groups,
    maker: Maker,
    /// The worker of each group that there can be.
    pub(crate) owners: Vec<u16>,
    /// The index of each group that there can be; [`ELSEWHERE`] if it is not here.
    indices: Vec<u16>,
    /// Whether all groups are here.
    is_whole: bool,
    pub(crate) replicas: Vec<Replica>,
    /// Where commands over several groups of this worker are carried out, emptied and kept for the next one.
    pub(crate) scratch: Option<Scratch>,
    /// Reused for replies that are looked at before they are sent.
    pub(crate) spare: Vec<u8>,
    /// What has happened in groups, and is to be told: `notify.rs`.
    pub(crate) events: Vec<(usize, Vec<Event>)>,
    /// What had happened in the groups, as a sum, when the figures were last to be written down.
    pub(crate) activity: u64,
    /// Which of them are to be visited, once there is a cluster.
    pub(crate) visits: Visits,
    /// Those that write long values for somebody, by their indices: each has its turn.
    long_reads: VecDeque<usize>,
}

/// What groups are made with.
struct Maker {
    worker: u16,
    /// Decides the hash order of keys.
    secret: HashSeed,
    semantics: SemanticsVersion,
    /// How many groups were made of all that there are, those of other workers included.
    made: u16,
}

impl Maker {
    fn hash_seed(&self, group: GroupId) -> HashSeed {
        let half = |half: u8| {
            let named = [&group.number().to_le_bytes()[..], &[half]].concat();
            self.secret.hash(&named).0
        };
        HashSeed([half(0), half(1)])
    }
}

impl LocalGroups {
    /// Those of a worker, empty. `secret` decides the hash order of their keys.
    pub(crate) fn new(worker: u16, shared: &Shared, secret: HashSeed) -> LocalGroups {
        let (groups, workers) = (shared.groups, shared.workers.len());
        let owner = |group| groups.worker_of(group, workers as u16);
        let mut local = LocalGroups {
            groups,
            maker: Maker {
                worker,
                secret,
                semantics: shared.semantics,
                made: 0,
            },
            owners: groups.most().iter().map(owner).collect(),
            indices: groups.most().iter().map(|_| ELSEWHERE).collect(),
            is_whole: false,
            replicas: Vec::new(),
            scratch: None,
            spare: Vec::new(),
            events: Vec::new(),
            activity: 0,
            visits: Visits::default(),
            long_reads: VecDeque::new(),
        };
        local.make(groups);
        local.use_groups(groups);
        local
    }

    /// Says which group holds keys that it does not host: for tests.
    pub(crate) fn check_hosting(&self) -> Result<(), String> {
        self.replicas.iter().try_for_each(|replica| {
            let checked = replica.keyspace().check_hosting();
            checked.map_err(|error| format!("{:?}: {error}", replica.group()))
        })
    }

    /// Makes those of these groups that are this worker's and are not here yet, empty. The indices of what was made.
    pub(crate) fn make(&mut self, groups: Groups) -> Range<usize> {
        let before = self.replicas.len();
        for group in groups.iter().skip(usize::from(self.maker.made)) {
            if self.owner(group) == self.maker.worker {
                self.indices[group.index()] = self.replicas.len() as u16;
                let replica = Replica::new(group, self.maker.hash_seed(group), groups.founded_range(group));
                self.replicas.push(replica.knows(self.maker.semantics));
            }
        }
        self.maker.made = self.maker.made.max(groups.get());
        before..self.replicas.len()
    }

    /// These are the groups from here on. All of them were made.
    pub(crate) fn use_groups(&mut self, groups: Groups) {
        assert!(
            groups.get() <= self.maker.made,
            "groups are made before they are used"
        );
        self.groups = groups;
        self.is_whole = groups.iter().all(|group| self.index(group).is_some());
    }

    /// A group was asked something: it may write long values from here on.
    #[inline]
    pub(crate) fn note_long_reads(&mut self, index: usize) {
        if self.replicas[index].reads_on() && !self.long_reads.contains(&index) {
            self.long_reads.push_back(index);
        }
    }

    /// Whether any does.
    #[inline]
    pub(crate) fn has_long_reads(&self) -> bool {
        !self.long_reads.is_empty()
    }

    /// Whose turn it is to write more.
    pub(crate) fn next_long_read(&mut self) -> Option<usize> {
        self.long_reads.pop_front()
    }

    /// The index of a group's replica, if it lives here.
    #[inline]
    pub(crate) fn index(&self, group: GroupId) -> Option<usize> {
        let index = *self.indices.get(group.index())?;
        (index != ELSEWHERE).then_some(usize::from(index))
    }

    /// The same of the group of a key.
    #[inline]
    pub(crate) fn index_of_key(&self, key: &[u8]) -> Option<usize> {
        self.index(group_of_key(self.groups, key))
    }

    pub(crate) fn owner(&self, group: GroupId) -> u16 {
        self.owners[group.index()]
    }

    /// Whether a group of this worker may be led elsewhere.
    pub(crate) fn is_replicated(&self, group: GroupId) -> bool {
        let index = self.index(group);
        index.is_some_and(|index| self.replicas[index].has_log())
    }

    /// Whether a group lives here and nothing keeps a command from running there at once.
    pub(crate) fn is_free(&self, group: GroupId, spec: &'static Spec, args: Args<'_>) -> bool {
        let groups = self.groups;
        self.index(group).is_some_and(|index| {
            self.replicas[index]
                .is_free(|| locks_of([(spec, args)], |key| group_of_key(groups, key) == group))
        })
    }

    /// Leaders that have kept decisions for long enough are to be visited.
    pub(crate) fn touch_keeping(&mut self, now: Monotonic) {
        let member = |index: usize| self.replicas[index].member();
        let keeps = |index| member(index).and_then(Member::kept_until).is_some();
        self.visits.touch_keeping(now, keeps);
    }

    /// Sets back what the groups count.
    pub(crate) fn reset_counters(&mut self) {
        let replicas = self.replicas.iter_mut();
        replicas.for_each(|replica| replica.state_mut().reset_counters());
    }

    /// Whether the lookups that follow count as use of keys.
    pub(crate) fn touch(&mut self, touches: bool) {
        self.replicas
            .iter_mut()
            .for_each(|replica| replica.state_mut().touch(touches));
    }

    /// What has just happened in a group is to be told.
    #[inline]
    pub(crate) fn note_events(&mut self, index: usize) {
        if !self.replicas[index].local().events.is_empty() {
            let events = self.replicas[index].state_mut().take_events();
            self.events.push((index, events));
        }
    }

    /// Sets how large collections may be and still be kept small, in the groups that are alone on this node: those of a replicated
    /// group are the leader's to set.
    pub(crate) fn set_limits(&mut self, turn: &Turn, limits: EncodingLimits) {
        for replica in self.replicas.iter_mut().filter(|replica| !replica.has_log()) {
            replica.state_mut().set_limits(turn, limits);
        }
    }

    /// Reads where the keys of the next commands lie, all at once, if they are carried out at once: where they go into a log before, that
    /// is done for each of its entries. `applies_first`: whether anything is carried out at once that goes into one.
    pub(crate) fn look_ahead(&self, db: Db, bytes: &[u8], applies_first: bool) {
        let is_at_once = |replica: &Replica| !replica.has_log() || applies_first && replica.may_apply_first();
        let is_worth = |replica: &Replica| is_at_once(replica) && replica.keyspace().is_large(db);
        if !self.replicas.first().is_some_and(is_worth) {
            return;
        }
        let here = |key| {
            let slot = Slot::of_key(key);
            let replica = &self.replicas[self.index(self.groups.group_of(slot))?];
            Some((replica.keyspace(), db, slot, key))
        };
        keyspace::look_ahead(resp::second_words(bytes).take(KEYS_AHEAD).filter_map(here));
    }

    /// Whether all groups of a command live here and are free: then it is one step, and nothing can come
    /// between its parts.
    pub(crate) fn is_one_step(&self, spec: &'static Spec, args: Args<'_>, scope: &Scope) -> bool {
        if spec.route == CommandRoute::Everywhere {
            let hosting = self.groups.hosting().iter();
            let mut concerned = hosting.filter(|group| scope.holds(self.groups, spec, args, **group));
            return concerned.all(|group| self.is_free(*group, spec, args));
        }
        if names_more(spec, args) && !self.is_idle_and_whole() {
            return false;
        }
        let mut free = true;
        command::keys(spec, args, &mut |position, key_use| {
            let key = args.arg(position);
            let mode = if key_use == KeyUse::Read {
                Mode::Shared
            } else {
                Mode::Exclusive
            };
            let locks = || Locks::Keys(vec![(key.into(), mode)]);
            let index = self.index_of_key(key);
            free = free && index.is_some_and(|index| self.replicas[index].is_free(locks));
        });
        free
    }

    /// Whether a command whose keys all live here has them for itself.
    pub(crate) fn has_alone(&self, spec: &'static Spec, args: Args<'_>) -> bool {
        let mut is_alone = true;
        command::keys(spec, args, &mut |position, _| {
            let key = args.arg(position);
            let index = self.index_of_key(key);
            let locks = || txn::Locks::Keys(vec![(key.into(), Mode::Exclusive)]);
            is_alone = is_alone && index.is_some_and(|index| self.replicas[index].is_free(locks));
        });
        is_alone
    }

    /// Whether all groups live here and no transaction is under way: then any key can be read at once.
    pub(crate) fn is_idle_and_whole(&self) -> bool {
        let is_free = |replica: &Replica| replica.is_idle() && !replica.has_log();
        self.is_whole && self.replicas.iter().all(is_free)
    }

    /// Whether all groups of a program live here and are free.
    pub(crate) fn can_run_here(&self, program: &Program, extent: &Extent) -> bool {
        let groups = self.groups;
        if extent.is_scripted || extent.wants && !self.is_idle_and_whole() {
            return false;
        }
        extent.groups.iter().all(|group| {
            self.index(*group).is_some_and(|index| {
                self.replicas[index].is_free(|| {
                    let commands = program.operations().map(Operation::argv);
                    let is_ours = |key: &[u8]| group_of_key(groups, key) == *group;
                    let conditions = program.conditions.iter();
                    let conditions = conditions.filter(|condition| is_ours(condition.key())).cloned();
                    // What is watched may be about to change, though no command here names it.
                    with_conditions(locks_of(commands, is_ours), &conditions.collect::<Vec<_>>())
                })
            })
        })
    }
}
