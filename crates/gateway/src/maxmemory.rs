//! Memory: what the groups of this worker hold, and making room when there is too much.

use crate::context::Context;
use crate::program::Program;
use crate::shared::Shared;
use crate::stats::{Counter, WorkerStats};
use command::CommandId;
use ids::Monotonic;
use keyspace::{EvictionPolicy, Victims};
use options::{MaxmemoryPolicy, Settings};
use replica::{FullKey, Operation, Replica};
use std::sync::atomic::Ordering;

/// How much memory may be used, and what the groups of this worker use of it.
pub(crate) struct Maxmemory {
    /// 0 if there is no limit.
    bytes_max: u64,
    policy: EvictionPolicy,
    /// Bytes of each replica's data and their sum, as last looked at: only kept while there is a limit.
    data_bytes: Vec<usize>,
    data_bytes_sum: usize,
    /// Whose bytes may have changed since.
    changed: Changed,
}

/// Which replicas were written since their memory was last looked at.
#[derive(Clone, Copy)]
pub(crate) enum Changed {
    One(usize),
    Any,
}

impl Default for Maxmemory {
    fn default() -> Maxmemory {
        Maxmemory {
            bytes_max: 0,
            policy: EvictionPolicy::NoEviction,
            data_bytes: Vec::new(),
            data_bytes_sum: 0,
            changed: Changed::Any,
        }
    }
}

impl Maxmemory {
    /// The settings are others.
    pub(crate) fn follow(&mut self, settings: &Settings) {
        self.bytes_max = settings.maxmemory;
        self.policy = match settings.maxmemory_policy {
            MaxmemoryPolicy::Noeviction => EvictionPolicy::NoEviction,
            MaxmemoryPolicy::AllkeysLru => EvictionPolicy::AllKeysLru,
            MaxmemoryPolicy::AllkeysLfu => EvictionPolicy::AllKeysLfu,
            MaxmemoryPolicy::AllkeysRandom => EvictionPolicy::AllKeysRandom,
            MaxmemoryPolicy::VolatileLru => EvictionPolicy::VolatileLru,
            MaxmemoryPolicy::VolatileLfu => EvictionPolicy::VolatileLfu,
            MaxmemoryPolicy::VolatileRandom => EvictionPolicy::VolatileRandom,
            MaxmemoryPolicy::VolatileTtl => EvictionPolicy::VolatileTtl,
        };
    }

    /// These were written since.
    #[inline]
    pub(crate) fn note_changed(&mut self, changed: Changed) {
        self.changed = changed;
    }

    /// Whether it matters how often keys are used.
    pub(crate) fn is_lfu(&self) -> bool {
        self.policy.is_lfu()
    }

    /// Whether there is too much.
    pub(crate) fn is_exceeded(&self, cx: &Context) -> bool {
        cx.shared.counted_memory() > self.bytes_max
    }

    /// Says whether the sum is not that of the replicas' bytes.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.data_bytes.iter().sum::<usize>() == self.data_bytes_sum {
            true => Ok(()),
            false => Err(format!(
                "{:?} are not {} bytes",
                self.data_bytes, self.data_bytes_sum
            )),
        }
    }

    /// Whether keys are given up.
    pub(crate) fn evicts(&self) -> bool {
        self.bytes_max > 0 && self.policy != EvictionPolicy::NoEviction
    }

    /// Looks at the memory of the replicas that may have changed, and writes the sum down.
    pub(crate) fn refresh(&mut self, replicas: &[Replica], stats: &WorkerStats) {
        match self.changed {
            Changed::One(index) if self.data_bytes.len() == replicas.len() => {
                let now = replicas[index].memory();
                let before = std::mem::replace(&mut self.data_bytes[index], now);
                self.data_bytes_sum = self.data_bytes_sum + now - before;
            }
            Changed::One(_) | Changed::Any => {
                self.data_bytes = replicas.iter().map(Replica::memory).collect();
                self.data_bytes_sum = self.data_bytes.iter().sum();
            }
        }
        stats.data_bytes.set(self.data_bytes_sum as u64);
    }

    /// Room for a command that needs memory: gives up keys if the policy allows it. `false`: refuse.
    #[inline]
    pub(crate) fn make_room(&mut self, cx: &mut Context, is_paused: bool) -> bool {
        if self.bytes_max == 0 {
            return true;
        }
        let has_room = self.evict(cx, is_paused);
        // The command that follows may write anywhere; a command within one group says where.
        self.changed = Changed::Any;
        has_room
    }

    fn evict(&mut self, cx: &mut Context, is_paused: bool) -> bool {
        /// Keys given up for one command; a larger surplus is worked off by the commands that follow.
        const VICTIMS_MAX: usize = 64;
        // Where there are other nodes, leaders give up keys between turns, by entries: see `cron`. In a pause the data stay as they
        // are; so may what little is written, by transactions under way.
        if is_paused || cx.view.is_spread && self.evicts() {
            return true;
        }
        for _ in 0..VICTIMS_MAX {
            self.refresh(&cx.local.replicas, &cx.stats);
            if cx.shared.counted_memory() <= self.bytes_max {
                return true;
            }
            if !self.evicts() {
                return has_just_flushed(&cx.shared);
            }
            let mut victims = Victims::default();
            // A few random groups stand for all: hashing spreads keys evenly over them.
            for _ in 0..samples(cx) {
                let index = cx.prng.below(cx.local.replicas.len() as u64) as usize;
                self.sample(cx, index, 1, &mut victims);
            }
            if victims.is_empty() {
                for index in 0..cx.local.replicas.len() {
                    self.sample(cx, index, 1, &mut victims);
                }
            }
            let Some((index, db, key)) = victims.take() else {
                return self.others_have_victims(cx) || has_just_flushed(&cx.shared);
            };
            self.changed = Changed::One(index);
            // A locked key stays; another is looked for.
            cx.local.replicas[index].evict(&cx.turn, db, &key);
            cx.local.note_events(index);
        }
        // What is left of the surplus is worked off by the commands that follow.
        true
    }

    fn sample(&self, cx: &mut Context, index: usize, count: u32, victims: &mut Victims) {
        let state = cx.local.replicas[index].state_mut();
        state.sample_victims(&cx.turn, index, self.policy, count, victims);
    }

    /// Keys are given up in the entry that needs their room: what a group led here is about to write goes behind as much as it
    /// takes, and a part of the surplus. Asked before an entry is made.
    pub(crate) fn victims_for_entry(
        &mut self,
        cx: &mut Context,
        index: usize,
        writes: usize,
    ) -> Vec<FullKey> {
        /// Keys given up in one entry.
        const VICTIMS_MAX: usize = 1_024;
        /// Bytes given up for each that comes: what is written lies in more than one place for a while.
        const FACTOR: usize = 2;
        /// The part of the surplus that one entry works off.
        const SURPLUS_PART: usize = 32;
        if writes == 0 || !self.evicts() {
            return Vec::new();
        }
        self.changed = Changed::One(index);
        self.refresh(&cx.local.replicas, &cx.stats);
        let surplus = cx.shared.counted_memory().saturating_sub(self.bytes_max) as usize;
        let keys = cx.local.replicas[index].keyspace().key_count();
        if surplus == 0 || keys == 0 {
            return Vec::new();
        }
        let key_bytes = (cx.local.replicas[index].memory() / keys).max(1);
        let wanted = (FACTOR * writes + surplus / SURPLUS_PART) / key_bytes + 1;
        let victim = |_| {
            let mut victims = Victims::default();
            self.sample(cx, index, samples(cx), &mut victims);
            victims.take().map(|(_, db, key)| (db, key))
        };
        (0..wanted.min(VICTIMS_MAX)).map_while(victim).collect()
    }

    /// Keys to be given up in these groups, which this worker leads, by entries, if there is too much.
    pub(crate) fn victims_of_led(&mut self, cx: &mut Context, led: &[usize]) -> Vec<(usize, FullKey)> {
        /// Keys that are on their way out at a time.
        const VICTIMS_MAX: usize = 256;
        self.changed = Changed::Any;
        self.refresh(&cx.local.replicas, &cx.stats);
        if led.is_empty() || cx.shared.counted_memory() <= self.bytes_max {
            return Vec::new();
        }
        let victim = |_| {
            let mut victims = Victims::default();
            for _ in 0..samples(cx) {
                let index = led[cx.prng.below(led.len() as u64) as usize];
                self.sample(cx, index, 1, &mut victims);
            }
            victims.take().map(|(index, db, key)| (index, (db, key)))
        };
        (0..VICTIMS_MAX).filter_map(victim).collect()
    }

    /// Whether a worker holds its share of the keys that the policy may give up. Who holds less leaves a surplus
    /// to the others: a worker that happens to run more often must not give up all it has.
    pub(crate) fn has_share_of_victims(&self, cx: &Context) -> bool {
        let total = cx.shared.total(|stats| self.victims_of(stats));
        // A tenth below the average still is a share: then everyone works at an even surplus.
        self.victims_of(&cx.stats) * cx.shared.workers.len() as u64 * 10 >= total * 9
    }

    /// Whether other workers hold keys that the policy may give up: they do so by themselves, soon.
    fn others_have_victims(&self, cx: &Context) -> bool {
        let mut others = cx.other_workers();
        others.any(|(_, stats)| self.victims_of(stats) > 0)
    }

    /// How many keys of a worker the policy may give up.
    fn victims_of(&self, stats: &WorkerStats) -> u64 {
        let counts = match self.policy.only_volatile() {
            true => &stats.keys_with_deadline,
            false => &stats.keys,
        };
        counts.iter().map(Counter::get).sum()
    }

    /// Notes that a program was carried out which may have emptied databases.
    pub(crate) fn note_flush(&self, shared: &Shared, program: &Program) {
        let empties =
            |operation: &Operation| matches!(operation.spec.id, CommandId::FlushAll | CommandId::FlushDb);
        if self.bytes_max > 0 && program.operations().any(empties) {
            let now = (shared.hooks.monotonic)();
            shared.memory.flushed_at.store(now.0, Ordering::Relaxed);
        }
    }
}

/// Keys that are looked at for each that is given up.
fn samples(cx: &Context) -> u32 {
    cx.settings.maxmemory_samples.clamp(1, 64)
}

/// Databases were emptied a moment ago by a client of this node: what the other workers hold, and what a replica holds that
/// hears of it with the next entry, is known a moment later.
fn has_just_flushed(shared: &Shared) -> bool {
    /// How old the figures may be.
    const STATS_AGE: std::time::Duration = std::time::Duration::from_secs(1);
    let flushed = shared.memory.flushed_at.load(Ordering::Relaxed);
    let now = (shared.hooks.monotonic)();
    flushed > 0 && now.since(Monotonic(flushed)) < STATS_AGE
}
