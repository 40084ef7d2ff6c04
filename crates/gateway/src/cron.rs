//! Background work between turns: expired keys, what is freed lazily, and a surplus of memory, a bounded piece at a time.

use crate::cluster::Seats;
use crate::context::Context;
use crate::maxmemory::Maxmemory;
use std::sync::atomic::Ordering;

/// Deletes expired keys, and frees what is freed lazily. `true` if there is more to do right away.
pub(crate) fn expire_and_free(cx: &mut Context, seats: &mut Seats) -> bool {
    /// Objects looked at for expiry in one call, over all groups.
    const EXPIRY_OBJECTS: usize = 4_096;
    /// Objects dropped in one call, over all groups: a third of a millisecond.
    const LAZYFREE_OBJECTS: usize = 2_048;
    let mut more = false;
    if cx.shared.active_expiry.load(Ordering::Relaxed) {
        let share = (EXPIRY_OBJECTS / cx.local.replicas.len().max(1)).max(64);
        let began = cx.timing.now();
        for index in 0..cx.local.replicas.len() {
            more |= if cx.local.replicas[index].has_log() {
                seats.expire_replicated(cx, index, share)
            } else {
                !cx.local.replicas[index].expire_due(&cx.turn, share)
            };
        }
        cx.note_event("expire-cycle", cx.timing.now().saturating_sub(began));
    }
    for replica in &mut cx.local.replicas {
        while let Some(text) = replica
            .state_mut()
            .take_shared_lazyfree(cx.scripts.room_to_drop())
        {
            let bytes = text.len();
            cx.outbox
                .offload_jobs
                .extend(cx.scripts.drop_elsewhere(Box::new(text), bytes));
        }
    }
    let mut budget = LAZYFREE_OBJECTS;
    for replica in &mut cx.local.replicas {
        more |= !replica.state_mut().collect_lazyfree(&mut budget);
    }
    (0..cx.local.replicas.len()).for_each(|index| cx.local.note_events(index));
    more
}

/// A limit that was lowered, or that other workers' writes passed: every worker gives its share. `true` if there is more to do right
/// away.
pub(crate) fn evict(cx: &mut Context, seats: &mut Seats, maxmemory: &mut Maxmemory) -> bool {
    if cx.view.is_spread {
        let led = seats.led_and_free(cx);
        for (index, (db, key)) in maxmemory.victims_of_led(cx, &led) {
            seats.ask_own(cx, index, &keyspace::EntryOperation::Evict { db, key: &key });
        }
        return false;
    }
    if !maxmemory.has_share_of_victims(cx) {
        return false;
    }
    maxmemory.make_room(cx, false);
    maxmemory.is_exceeded(cx)
}
