//! `MEMORY`: where the process's memory is.

use super::info::ratio;
use crate::context::Context;
use crate::shared::Shared;
use ids::Db;
use resp::ReplyWriter;
use std::sync::atomic::Ordering;

/// What memory is used for, in bytes.
struct Memory {
    allocated: u64,
    resident: u64,
    peak: u64,
    data: u64,
    keys: u64,
}

impl Memory {
    fn of(shared: &Shared) -> Memory {
        (shared.hooks.sample_memory)(shared);
        let allocated = shared.used_memory();
        Memory {
            allocated,
            resident: shared.memory.resident.load(Ordering::Relaxed),
            peak: shared.memory.peak.load(Ordering::Relaxed).max(allocated),
            data: shared.total(|worker| worker.data_bytes.get()),
            keys: shared.total(|worker| worker.keys.iter().map(|count| count.get()).sum()),
        }
    }
}

/// Keys and tables of a database are not told apart, so the overheads of a database are 0; all that is not data is
/// overhead.
pub(super) fn stats(cx: &Context, w: &mut ReplyWriter<'_>) {
    let memory = Memory::of(&cx.shared);
    let overhead = memory.allocated.saturating_sub(memory.data);
    let number = |bytes: u64| Figure::Number(bytes as i64);
    let percent = |part, whole| Figure::Share(ratio(part, whole) * 100.0);
    let fragmented = memory.resident as i64 - memory.allocated as i64;
    let mut stats = vec![
        ("peak.allocated", number(memory.peak)),
        ("total.allocated", number(memory.allocated)),
        ("startup.allocated", number(0)),
        ("replication.backlog", number(0)),
        ("clients.slaves", number(0)),
        ("clients.normal", number(clients_bytes(cx))),
        ("cluster.links", number(0)),
        ("aof.buffer", number(0)),
        ("lua.caches", number(cx.shared.scripts.counts().1 as u64)),
        ("functions.caches", number(0)),
    ];
    let names: Vec<String> = (0..Db::COUNT).map(|db| format!("db.{db}")).collect();
    for (db, name) in names.iter().enumerate() {
        if cx.shared.total(|worker| worker.keys[db].get()) > 0 {
            stats.push((name, Figure::Database));
        }
    }
    stats.extend([
        ("overhead.total", number(overhead)),
        ("keys.count", number(memory.keys)),
        ("keys.bytes-per-key", number(memory.data / memory.keys.max(1))),
        ("dataset.bytes", number(memory.data)),
        ("dataset.percentage", percent(memory.data, memory.allocated)),
        ("peak.percentage", percent(memory.allocated, memory.peak)),
        ("allocator.allocated", number(memory.allocated)),
        ("allocator.active", number(memory.resident)),
        ("allocator.resident", number(memory.resident)),
        (
            "allocator-fragmentation.ratio",
            Figure::Share(ratio(memory.resident, memory.allocated)),
        ),
        ("allocator-fragmentation.bytes", Figure::Number(fragmented)),
        ("allocator-rss.ratio", Figure::Share(1.0)),
        ("allocator-rss.bytes", number(0)),
        ("rss-overhead.ratio", Figure::Share(1.0)),
        ("rss-overhead.bytes", number(0)),
        (
            "fragmentation",
            Figure::Share(ratio(memory.resident, memory.allocated)),
        ),
        ("fragmentation.bytes", Figure::Number(fragmented)),
    ]);
    w.map(stats.len());
    for (name, figure) in stats {
        w.bulk(name.as_bytes());
        match figure {
            Figure::Number(number) => w.integer(number),
            Figure::Share(share) => w.double(share),
            Figure::Database => {
                let parts = ["main", "expires", "slot-to-keys"];
                w.map(parts.len());
                for part in parts {
                    w.bulk(format!("overhead.hashtable.{part}").as_bytes());
                    w.integer(0);
                }
            }
        }
    }
}

/// Bytes that wait to be read as commands or to be sent, as last counted.
fn clients_bytes(cx: &Context) -> u64 {
    let infos = cx.shared.clients.all();
    let bytes = |info: &crate::client::ClientInfo| {
        info.input_bytes.load(Ordering::Relaxed) + info.output_bytes.load(Ordering::Relaxed)
    };
    infos.iter().map(|info| bytes(info)).sum()
}

pub(super) fn doctor(cx: &Context, w: &mut ReplyWriter<'_>) {
    let maxmemory = cx.settings.maxmemory;
    let text = diagnosis(&Memory::of(&cx.shared), cx.shared.counted_memory(), maxmemory);
    w.verbatim("txt", text.as_bytes());
}

pub(super) fn malloc_stats(cx: &Context, w: &mut ReplyWriter<'_>) {
    w.verbatim("txt", (cx.shared.hooks.allocator)().as_bytes());
}

pub(super) fn purge(cx: &Context, w: &mut ReplyWriter<'_>) {
    (cx.shared.hooks.purge)();
    w.ok();
}

/// One line of `MEMORY STATS`.
enum Figure {
    Number(i64),
    Share(f64),
    Database,
}

/// What people should know of the memory, and may do.
fn diagnosis(memory: &Memory, counted: u64, maxmemory: u64) -> String {
    /// With less than this, shares say nothing.
    const LITTLE: u64 = 16 * 1024 * 1024;
    if memory.allocated < LITTLE {
        return "There is little data: too little for shares of it to mean anything.\n".to_owned();
    }
    let mut text = String::new();
    if memory.peak > memory.allocated / 2 * 3 {
        text.push_str(
            "- Much more memory was in use at the peak than now. The allocator gives it back a little at a time; \
             MEMORY PURGE gives it back at once.\n",
        );
    }
    if memory.resident > memory.allocated / 5 * 7 {
        text.push_str(
            "- The process takes far more memory than is in use: memory is fragmented, or was in use until a moment \
             ago. MEMORY PURGE helps in the second case.\n",
        );
    }
    if memory.data < memory.allocated / 2 {
        text.push_str(
            "- More than half of the memory in use is not data: look for clients with long requests or unread \
             replies in CLIENT LIST (qbuf, omem).\n",
        );
    }
    if maxmemory > 0 && counted > maxmemory / 10 * 9 {
        text.push_str("- Memory is nearly full: less than a tenth of maxmemory is left.\n");
    }
    if text.is_empty() {
        text.push_str("Nothing strange was found.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagnosis_names_what_is_strange() {
        const MB: u64 = 1 << 20;
        let memory = |allocated, resident, peak, data| Memory {
            allocated: allocated * MB,
            resident: resident * MB,
            peak: peak * MB,
            data: data * MB,
            keys: 1,
        };
        assert!(diagnosis(&memory(1, 99, 99, 0), 0, 0).contains("little data"));
        assert!(diagnosis(&memory(100, 110, 100, 90), 0, 0).contains("Nothing strange"));
        assert!(diagnosis(&memory(100, 110, 200, 90), 0, 0).contains("at the peak"));
        assert!(diagnosis(&memory(100, 150, 100, 90), 0, 0).contains("fragmented"));
        assert!(diagnosis(&memory(100, 110, 100, 30), 0, 0).contains("not data"));
        assert!(diagnosis(&memory(100, 110, 100, 90), 95 * MB, 100 * MB).contains("nearly full"));
    }
}
