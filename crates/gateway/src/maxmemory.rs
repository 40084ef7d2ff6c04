//! Memory: what the groups of this worker hold, and making room when there is too much.

use crate::gateway::{Changed, Gateway};
use crate::program::Program;
use crate::stats::{Counter, WorkerStats};
use command::CommandId;
use ids::Monotonic;
use keyspace::{EvictionPolicy, Victims};
use replica::Operation;
use std::sync::atomic::Ordering;

impl Gateway {
    /// Room for a command that needs memory: gives up keys if the policy allows it. `false`: refuse.
    #[inline]
    pub(crate) fn make_room(&mut self) -> bool {
        if self.maxmemory == 0 {
            return true;
        }
        let has_room = self.evict();
        // The command that follows may write anywhere; a command within one group says where.
        self.changed = Changed::Any;
        has_room
    }

    pub(crate) fn evict(&mut self) -> bool {
        /// Keys given up for one command; a larger surplus is worked off by the commands that follow.
        const VICTIMS_MAX: usize = 64;
        if self.is_spread && self.policy != EvictionPolicy::NoEviction {
            // Leaders give up keys between turns, by entries: see `cron`.
            return true;
        }
        if self.pause.is_some() {
            // The data stay as they are; so may what little is written, by transactions under way.
            return true;
        }
        for _ in 0..VICTIMS_MAX {
            self.refresh_memory();
            if self.shared.counted_memory() <= self.maxmemory {
                return true;
            }
            if self.policy == EvictionPolicy::NoEviction {
                return self.has_just_flushed();
            }
            let samples = self.settings.maxmemory_samples;
            let mut victims = Victims::default();
            // A few random groups stand for all: hashing spreads keys evenly over them.
            for _ in 0..samples.clamp(1, 64) {
                let index = self.prng.below(self.replicas.len() as u64) as usize;
                self.replicas[index].state_mut().sample_victims(
                    &self.turn,
                    index,
                    self.policy,
                    1,
                    &mut victims,
                );
            }
            if victims.is_empty() {
                for index in 0..self.replicas.len() {
                    self.replicas[index].state_mut().sample_victims(
                        &self.turn,
                        index,
                        self.policy,
                        1,
                        &mut victims,
                    );
                }
            }
            let Some((index, db, key)) = victims.take() else {
                return self.others_have_victims() || self.has_just_flushed();
            };
            self.changed = Changed::One(index);
            // A locked key stays; another is looked for.
            self.replicas[index].evict(&self.turn, db, &key);
            self.tell(index);
        }
        // What is left of the surplus is worked off by the commands that follow.
        true
    }

    /// Databases were emptied a moment ago by a client of this node: what the other workers hold, and what a replica holds that
    /// hears of it with the next entry, is known a moment later.
    fn has_just_flushed(&self) -> bool {
        /// How old the figures may be.
        const STATS_AGE: std::time::Duration = std::time::Duration::from_secs(1);
        let flushed = self.shared.memory.flushed_at.load(Ordering::Relaxed);
        let now = (self.shared.hooks.monotonic)();
        flushed > 0 && now.since(Monotonic(flushed)) < STATS_AGE
    }

    /// Notes that a program was carried out which may have emptied databases.
    pub(crate) fn note_flush(&self, program: &Program) {
        let empties =
            |operation: &Operation| matches!(operation.spec.id, CommandId::FlushAll | CommandId::FlushDb);
        if self.maxmemory > 0 && program.operations().any(empties) {
            let now = (self.shared.hooks.monotonic)();
            self.shared.memory.flushed_at.store(now.0, Ordering::Relaxed);
        }
    }

    /// Keys are given up in the entry that needs their room: what a group led here is about to write goes behind as much as it
    /// takes, and a part of the surplus. Called before an entry is made.
    pub(crate) fn evict_for_entry(&mut self, index: usize, writes: usize) {
        /// Keys given up in one entry.
        const VICTIMS_MAX: usize = 1_024;
        /// Bytes given up for each that comes: what is written lies in more than one place for a while.
        const FACTOR: usize = 2;
        /// The part of the surplus that one entry works off.
        const SURPLUS_PART: usize = 32;
        let is_off = self.maxmemory == 0 || self.policy == EvictionPolicy::NoEviction;
        if writes == 0 || is_off || self.pause.is_some() {
            return;
        }
        self.changed = Changed::One(index);
        self.refresh_memory();
        let surplus = self.shared.counted_memory().saturating_sub(self.maxmemory) as usize;
        let keys = self.replicas[index].keyspace().key_count();
        if surplus == 0 || keys == 0 {
            return;
        }
        let key_bytes = (self.replicas[index].memory() / keys).max(1);
        let wanted = (FACTOR * writes + surplus / SURPLUS_PART) / key_bytes + 1;
        let samples = self.settings.maxmemory_samples.clamp(1, 64);
        for _ in 0..wanted.min(VICTIMS_MAX) {
            let mut victims = Victims::default();
            let replica = &mut self.replicas[index];
            replica
                .state_mut()
                .sample_victims(&self.turn, index, self.policy, samples, &mut victims);
            let Some((_, db, key)) = victims.take() else {
                return;
            };
            self.ask_own(index, &keyspace::Operation::Evict { db, key: &key });
        }
    }

    /// Asks for keys to be given up in the groups that this worker leads, by entries, if there is too much.
    pub(crate) fn evict_replicated(&mut self) {
        /// Keys that are on their way out at a time.
        const VICTIMS_MAX: usize = 256;
        self.changed = Changed::Any;
        self.refresh_memory();
        let led = self.led_and_free();
        if led.is_empty() || self.shared.counted_memory() <= self.maxmemory {
            return;
        }
        let samples = self.settings.maxmemory_samples.clamp(1, 64);
        for _ in 0..VICTIMS_MAX {
            let mut victims = Victims::default();
            for _ in 0..samples {
                let index = led[self.prng.below(led.len() as u64) as usize];
                self.replicas[index].state_mut().sample_victims(
                    &self.turn,
                    index,
                    self.policy,
                    1,
                    &mut victims,
                );
            }
            if let Some((index, db, key)) = victims.take() {
                self.ask_own(index, &keyspace::Operation::Evict { db, key: &key });
            }
        }
    }

    /// Whether this worker holds its share of the keys that the policy may give up. Who holds less leaves a surplus
    /// to the others: a worker that happens to run more often must not give up all it has.
    pub(crate) fn has_share_of_victims(&self) -> bool {
        let total = self.shared.total(|stats| self.victims_of(stats));
        // A tenth below the average still is a share: then everyone works at an even surplus.
        self.victims_of(&self.stats) * self.shared.workers.len() as u64 * 10 >= total * 9
    }

    /// Whether other workers hold keys that the policy may give up: they do so by themselves, soon.
    pub(crate) fn others_have_victims(&self) -> bool {
        let mut others = self.other_workers();
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

    /// Looks at the memory of the replicas that may have changed, and writes the sum down.
    pub(crate) fn refresh_memory(&mut self) {
        match self.changed {
            Changed::One(index) if self.data_bytes.len() == self.replicas.len() => {
                let now = self.replicas[index].memory();
                let before = std::mem::replace(&mut self.data_bytes[index], now);
                self.data_bytes_sum = self.data_bytes_sum + now - before;
            }
            Changed::One(_) | Changed::Any => {
                let each = self.replicas.iter().map(replica::Replica::memory);
                self.data_bytes = each.collect();
                self.data_bytes_sum = self.data_bytes.iter().sum();
            }
        }
        self.stats.data_bytes.set(self.data_bytes_sum as u64);
    }
}
