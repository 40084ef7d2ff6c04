//! What goes wrong: lost power, lost disks, damage. Syncing stands here too, since it is what limits the loss.

use super::{BeginAnew, Mistake, Replica, State, Step};
use crate::explore::Next;
use crate::replicas::Set;

impl BeginAnew {
    pub(super) fn fault_steps(&self, state: &State, at: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = &state.replicas[at];
        if me.synced < me.log.len {
            let mut next = *state;
            next.replicas[at].synced = me.log.len;
            self.settle_floor(&mut next.replicas[at]);
            go(Step::Synced { replica: at }, Ok(next));
        }
        if state.power < self.bounds.power {
            for left in me.synced..=me.log.len {
                let mut next = *state;
                next.power += 1;
                let replica = &mut next.replicas[at];
                replica.log.cut(left);
                replica.synced = left;
                if self.is(Mistake::UncleanKeepsIdentity) {
                    replica.leads = false;
                    replica.term = replica.log.entries().last().map_or(1, |entry| entry.term);
                } else {
                    self.as_somebody_else(replica);
                }
                go(Step::PowerLost { replica: at, left }, Ok(next));
            }
        }
        if state.disks < self.bounds.disks {
            let mut next = *state;
            next.disks += 1;
            let replica = &mut next.replicas[at];
            replica.log.cut(0);
            replica.synced = 0;
            replica.generation = state.generation;
            self.as_somebody_else(replica);
            replica.is_empty = true;
            replica.floor = Default::default();
            for write in &mut next.acknowledged {
                // Of a group of one, the disk was the majority.
                if write.voters[0] == Set::of(at) {
                    (write.is_synced, write.is_kept) = (false, false);
                }
            }
            go(Step::DiskLost { replica: at }, Ok(next));
        }
        if state.damage < self.bounds.damage {
            for left in 0..me.synced {
                let mut next = *state;
                next.damage += 1;
                let replica = &mut next.replicas[at];
                replica.floor = replica.floor.max(self.last(&me.log));
                replica.log.cut(left);
                replica.synced = left;
                replica.leads = false;
                replica.knows_change &= replica.log.has_change();
                replica.said = None;
                go(Step::Damaged { replica: at, left }, Ok(next));
            }
        }
        if self.is(Mistake::SealInMemory) && me.is_sealed && me.generation == state.generation {
            let mut next = *state;
            next.replicas[at].is_sealed = false;
            go(Step::Killed { replica: at }, Ok(next));
        }
    }

    fn as_somebody_else(&self, replica: &mut Replica) {
        (replica.belongs, replica.leads) = (false, false);
        (replica.term, replica.knows_change, replica.is_sealed) = (0, false, false);
        if !self.is(Mistake::FormerReportCounts) {
            replica.said = None;
        }
    }
}
