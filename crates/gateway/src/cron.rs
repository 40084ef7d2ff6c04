//! Background work between turns: expired keys, what is freed lazily, and a surplus of memory, a bounded piece at a time.

use crate::gateway::Gateway;
use std::sync::atomic::Ordering;

impl Gateway {
    /// Does a piece of it. `true` if there is more to do right away.
    pub fn cron(&mut self) -> bool {
        /// Objects looked at for expiry in one call, over all groups.
        const EXPIRY_OBJECTS: usize = 4_096;
        /// Objects dropped in one call, over all groups: a third of a millisecond.
        const LAZYFREE_OBJECTS: usize = 2_048;
        let mut more = false;
        if self.cx.shared.active_expiry.load(Ordering::Relaxed) {
            let share = EXPIRY_OBJECTS / self.cx.local.replicas.len().max(1);
            let turn = self.cx.turn;
            let began = self.cx.timing.now();
            for index in 0..self.cx.local.replicas.len() {
                more |= if self.cx.local.replicas[index].has_log() {
                    self.seats.expire_replicated(&mut self.cx, index, share.max(64))
                } else {
                    !self.cx.local.replicas[index].expire_due(&turn, share.max(64))
                };
            }
            self.cx
                .note_event("expire-cycle", self.cx.timing.now().saturating_sub(began));
        }
        let mut budget = LAZYFREE_OBJECTS;
        for replica in &mut self.cx.local.replicas {
            more |= !replica.state_mut().collect_lazyfree(&mut budget);
        }
        (0..self.cx.local.replicas.len()).for_each(|index| self.cx.local.note_events(index));
        self.tell_noted();
        if self.maxmemory.evicts() && self.pausing.pause.is_none() {
            if self.cx.view.is_spread {
                let led = self.seats.led_and_free(&self.cx);
                let victims = self.maxmemory.victims_of_led(&mut self.cx, &led);
                for (index, (db, key)) in victims {
                    let evict = keyspace::Operation::Evict { db, key: &key };
                    self.seats.ask_own(&mut self.cx, index, &evict);
                }
                return more;
            }
            // A limit that was lowered, or that other workers' writes passed: every worker gives its share.
            if self.maxmemory.has_share_of_victims(&self.cx) {
                self.make_room();
                more |= self.cx.shared.counted_memory() > self.maxmemory.bytes_max;
            }
        }
        more
    }
}
