//! `XCLAIM` and `XAUTOCLAIM`: pending entries for another consumer.

use super::answers::{write_entry, write_id};
use super::group::{ConsumerNumber, Group, Pending};
use super::{Stream, StreamEntry, ids};
use crate::apply::Apply;
use crate::events::EventClasses;
use command::{ClaimOptions, Claimant, DeliveryTime, ReplyError};
use ids::{StreamId, UnixMillis};
use resp::{Args, ReplyWriter};

/// `XAUTOCLAIM` looks at so many times as many pending entries as it claims.
const ATTEMPTS: u64 = 10;

/// When claimed entries count as delivered: not before the epoch, and not later than now.
fn delivered_at(delivered: DeliveryTime, now: UnixMillis) -> UnixMillis {
    let at = match delivered {
        DeliveryTime::Now => now.0,
        DeliveryTime::Ago(millis) => now.0.wrapping_sub(millis),
        DeliveryTime::At(millis) => millis,
    };
    UnixMillis(if (0..=now.0).contains(&at) { at } else { now.0 })
}

/// Whether something pending is idle for so long.
fn is_idle(pending: &Pending, now: UnixMillis, millis: u64) -> bool {
    let idle = now.0.saturating_sub(pending.delivered_at.0);
    millis == 0 || u64::try_from(idle).is_ok_and(|idle| idle >= millis)
}

/// What became of a claim.
#[derive(Default)]
struct Claimed {
    /// Whether the consumer was made for it.
    is_new_consumer: bool,
    /// Whether anything has changed.
    has_changed: bool,
}

/// The consumer of this name, to which something is given: it is made if there is none.
fn consumer_for(group: &mut Group, name: &[u8], now: UnixMillis, claimed: &mut Claimed) -> ConsumerNumber {
    let found = group.find(name);
    let number = found.unwrap_or_else(|| group.add_consumer(name, now));
    group.see(number, now);
    group.activate(number, now);
    claimed.is_new_consumer |= found.is_none();
    claimed.has_changed = true;
    number
}

fn write_claimed(out: &mut ReplyWriter<'_>, entry: StreamEntry<'_>, only_id: bool) {
    if only_id {
        write_id(out, entry.id);
    } else {
        write_entry(out, entry);
    }
}

impl Apply<'_, '_> {
    /// Claims something in a group, at this time, and answers.
    fn claim(
        &mut self,
        claimant: Claimant<'_>,
        claim: impl FnOnce(&mut Group, &Stream, UnixMillis, &mut ReplyWriter<'_>) -> Claimed,
    ) -> Result<(), ReplyError> {
        let no_group = || ReplyError::no_group(claimant.key, claimant.group);
        let claimed = self.edit_stream(claimant.key, false, |edit, out| {
            let now = edit.now;
            let claimed = edit
                .stream
                .with_group_and_entries(claimant.group, |group, stream| claim(group, stream, now, out));
            let claimed = claimed.ok_or_else(no_group)?;
            if claimed.has_changed {
                edit.mark();
            }
            Ok(claimed)
        })?;
        if claimed.ok_or_else(no_group)?.is_new_consumer {
            self.event(EventClasses::STREAM, "xgroup-createconsumer", claimant.key);
        }
        Ok(())
    }

    pub(super) fn xclaim(
        &mut self,
        claimant: Claimant<'_>,
        words: Args<'_>,
        options: ClaimOptions,
    ) -> Result<(), ReplyError> {
        self.claim(claimant, |group, stream, now, out| {
            let delivered_at = delivered_at(options.delivered, now);
            let mut outcome = Claimed::default();
            outcome.has_changed |= options.last_id > group.last_id;
            group.last_id = group.last_id.max(options.last_id);
            let mut claimed = Vec::new();
            for id in ids(words) {
                let Some(entry) = stream.find(id) else {
                    outcome.has_changed |= group.remove_pending(id);
                    continue;
                };
                let before = group.pending(id);
                let is_claimed = match &before {
                    Some(pending) => is_idle(pending, now, claimant.idle_min_millis),
                    None => options.is_forced,
                };
                if !is_claimed {
                    continue;
                }
                let counted = before.map_or(1, |pending| pending.deliveries);
                let again = if options.only_ids {
                    counted
                } else {
                    counted.saturating_add(1)
                };
                let pending = Pending {
                    consumer: consumer_for(group, claimant.consumer, now, &mut outcome),
                    delivered_at,
                    deliveries: options.deliveries.unwrap_or(again),
                };
                group.set_pending(id, pending);
                claimed.push(entry);
            }
            out.array(claimed.len());
            claimed
                .into_iter()
                .for_each(|entry| write_claimed(out, entry, options.only_ids));
            outcome
        })
    }

    pub(super) fn xautoclaim(
        &mut self,
        claimant: Claimant<'_>,
        start: StreamId,
        count: u64,
        only_ids: bool,
    ) -> Result<(), ReplyError> {
        self.claim(claimant, |group, stream, now, out| {
            let mut outcome = Claimed::default();
            let (mut looked_at, mut deleted, mut left) = (Vec::new(), Vec::new(), count);
            let attempts = usize::try_from(count.saturating_mul(ATTEMPTS)).unwrap_or(usize::MAX);
            let mut next = StreamId::MIN;
            for (tried, (id, pending)) in group.pending_from(start).enumerate() {
                if tried == attempts || left == 0 {
                    next = id;
                    break;
                }
                match stream.find(id) {
                    None => deleted.push(id),
                    Some(entry) if is_idle(pending, now, claimant.idle_min_millis) => {
                        looked_at.push((entry, *pending))
                    }
                    Some(_) => continue,
                }
                left -= 1;
            }
            for id in &deleted {
                outcome.has_changed |= group.remove_pending(*id);
            }
            for (entry, before) in &looked_at {
                let pending = Pending {
                    consumer: consumer_for(group, claimant.consumer, now, &mut outcome),
                    delivered_at: now,
                    deliveries: before.deliveries.saturating_add(u64::from(!only_ids)),
                };
                group.set_pending(entry.id, pending);
            }
            out.array(3);
            write_id(out, next);
            out.array(looked_at.len());
            looked_at
                .into_iter()
                .for_each(|(entry, _)| write_claimed(out, entry, only_ids));
            out.array(deleted.len());
            deleted.into_iter().for_each(|id| write_id(out, id));
            outcome
        })
    }
}
