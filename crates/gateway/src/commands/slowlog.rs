//! `SLOWLOG`: what the workers' slow logs hold.

use crate::context::Context;
use crate::slow_log::SlowEntry;
use command::{ReplyError, number};
use resp::{Args, ReplyWriter};

/// Entries that `SLOWLOG GET` shows if it does not say how many.
const SHOWN: i64 = 10;

pub(super) fn get(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let count = match args.get(2) {
        _ if args.len() > 3 => {
            return Err(ReplyError::unknown_subcommand_or_arity("slowlog", args.arg(1)));
        }
        None => SHOWN,
        Some(word) => number::parse_i64(word)
            .filter(|count| *count >= -1)
            .ok_or(ReplyError::SlowLogCount)?,
    };
    // -1: all there are.
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entries = entries(cx);
    w.array(entries.len().min(count));
    for entry in entries.iter().take(count) {
        w.array(6);
        w.integer(entry.id as i64);
        w.integer(entry.at_secs);
        w.integer(i64::try_from(entry.micros).unwrap_or(i64::MAX));
        w.array(entry.words.len());
        entry.words.iter().for_each(|word| w.bulk(word));
        w.bulk(entry.address.as_bytes());
        w.bulk(&entry.name);
    }
    Ok(())
}

pub(super) fn len(cx: &Context, w: &mut ReplyWriter<'_>) {
    let held = cx.shared.total(|worker| worker.slow_log().len() as u64);
    w.integer(held.min(cx.settings.slowlog_max_len) as i64);
}

pub(super) fn reset(cx: &Context, w: &mut ReplyWriter<'_>) {
    for worker in &cx.shared.workers {
        worker.slow_log().clear();
    }
    w.ok();
}

/// The newest entries of all workers, newest first: as many as the log is to keep. Each worker keeps so many of its
/// own, so that the newest of all are among them.
fn entries(cx: &Context) -> Vec<SlowEntry> {
    let mut entries: Vec<SlowEntry> = Vec::new();
    for worker in &cx.shared.workers {
        entries.extend(worker.slow_log().entries().cloned());
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.id));
    entries.truncate(usize::try_from(cx.settings.slowlog_max_len).unwrap_or(usize::MAX));
    entries
}
