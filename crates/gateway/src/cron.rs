//! Background work between turns: expired keys, garbage, and a surplus of memory, a bounded piece at a time.

use crate::gateway::Gateway;
use keyspace::EvictionPolicy;
use std::sync::atomic::Ordering;

impl Gateway {
    /// Does a piece of it. `true` if there is more to do right away.
    pub fn cron(&mut self) -> bool {
        /// Objects looked at for expiry in one call, over all groups.
        const EXPIRY_OBJECTS: usize = 4_096;
        /// Objects dropped in one call, over all groups: a third of a millisecond.
        const GARBAGE_OBJECTS: usize = 2_048;
        let mut more = false;
        if self.shared.active_expiry.load(Ordering::Relaxed) {
            let share = EXPIRY_OBJECTS / self.replicas.len().max(1);
            let turn = self.turn;
            let began = self.timing.now();
            for index in 0..self.replicas.len() {
                more |= if self.replicas[index].has_log() {
                    self.expire_replicated(index, share.max(64))
                } else {
                    !self.replicas[index].expire_due(&turn, share.max(64))
                };
            }
            self.note_event("expire-cycle", self.timing.now().saturating_sub(began));
        }
        let mut budget = GARBAGE_OBJECTS;
        for replica in &mut self.replicas {
            more |= !replica.state_mut().collect_garbage(&mut budget);
        }
        self.tell_all();
        if self.maxmemory > 0 && self.policy != EvictionPolicy::NoEviction && self.pause.is_none() {
            if self.is_spread {
                self.evict_replicated();
                return more;
            }
            // A limit that was lowered, or that other workers' writes passed: every worker gives its share.
            if self.has_share_of_victims() {
                self.make_room();
                more |= self.shared.counted_memory() > self.maxmemory;
            }
        }
        more
    }
}
