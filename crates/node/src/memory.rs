//! What the process takes.

use gateway::Shared;
use std::sync::atomic::Ordering;

/// Watches what the process takes.
pub(crate) struct Sampler {
    /// Bytes allocated beside data, in the last samples; a ring.
    overheads: [u64; Sampler::WINDOW],
    next: usize,
    /// Commands and operations that all workers had carried out by the last sample.
    activity: u64,
}

impl Sampler {
    /// Samples that [`gateway::MemoryStats::lasting_overhead`] is the least of: 3.2 seconds under load.
    const WINDOW: usize = 32;

    /// One that has not sampled.
    pub(crate) fn new() -> Sampler {
        Sampler {
            overheads: [u64::MAX; Sampler::WINDOW],
            next: 0,
            activity: 0,
        }
    }

    /// Samples, if any worker has carried anything out since the last time, or if `is_overdue`. Called by one worker, ten
    /// times a second.
    pub(crate) fn keep_sampling(&mut self, shared: &Shared, is_overdue: bool) {
        let activity = shared.total(|worker| worker.commands.get() + worker.applied.get());
        let is_idle = std::mem::replace(&mut self.activity, activity) == activity;
        if is_overdue || !is_idle {
            self.sample(shared);
        }
    }

    /// Samples, and looks at what was allocated beside data in the last samples.
    fn sample(&mut self, shared: &Shared) {
        sample(shared);
        let memory = &shared.memory;
        let allocated = memory.allocated.load(Ordering::Relaxed);
        let data = memory.data_at_sample.load(Ordering::Relaxed);
        // Whoever announces a long request and sends little of it takes no memory from others.
        let unfilled = shared.total(|worker| worker.input_unfilled.get());
        self.overheads[self.next] = allocated.saturating_sub(data + unfilled);
        self.next = (self.next + 1) % Sampler::WINDOW;
        let least = self.overheads.iter().min().expect("the ring has places");
        memory.lasting_overhead.store(*least, Ordering::Relaxed);
    }
}

/// Samples the allocator and the system; a few microseconds. Figures that cannot be read stay as they were.
pub(crate) fn sample(shared: &Shared) {
    // The allocator's figures are as of its last epoch.
    if tikv_jemalloc_ctl::epoch::advance().is_ok()
        && let Ok(allocated) = tikv_jemalloc_ctl::stats::allocated::read()
        && let Ok(active) = tikv_jemalloc_ctl::stats::active::read()
        && let Ok(resident) = tikv_jemalloc_ctl::stats::resident::read()
    {
        let memory = &shared.memory;
        let data = shared.total(|worker| worker.data_bytes.get());
        memory.data_at_sample.store(data, Ordering::Relaxed);
        memory.allocated.store(allocated as u64, Ordering::Relaxed);
        memory.active.store(active as u64, Ordering::Relaxed);
        if memory.at_start.load(Ordering::Relaxed) == 0 {
            memory.at_start.store(allocated as u64, Ordering::Relaxed);
        }
        memory.peak.fetch_max(allocated as u64, Ordering::Relaxed);
        memory.resident.store(resident as u64, Ordering::Relaxed);
    }
}

/// Descriptors of a node with so many workers that has no clients: listeners, queues, logs and whatever libraries open.
pub(crate) fn descriptors_needed(workers: usize) -> u64 {
    24 + 4 * workers as u64
}

/// Descriptors beside clients' that a large limit leaves free: links to other nodes, connections of the admin port, files.
const DESCRIPTORS_BESIDE: u64 = 1_024;

/// Raises the limit of open files so that `clients` fit, with some for everything else. Returns how many clients do: of a
/// small limit a quarter is for the rest, and what the node needs at the least.
pub(crate) fn room_for_clients(clients: u64, workers: usize) -> u64 {
    let needed = descriptors_needed(workers);
    let limit = raise_descriptors(clients + needed + DESCRIPTORS_BESIDE);
    let beside = (limit / 4).clamp(needed, needed + DESCRIPTORS_BESIDE);
    clients.min(limit.saturating_sub(beside))
}

/// Connections that the admin port may have at a time: fewer where the limit of open files is low.
pub(crate) fn admin_connections() -> usize {
    let share = usize::try_from(raise_descriptors(0) / 8).unwrap_or(usize::MAX);
    share.clamp(4, admin::CONNECTIONS_MAX)
}

/// Raises the limit of open files to `wanted`, or as far as the system allows. Returns what it is then.
pub(crate) fn raise_descriptors(wanted: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is ours and lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        // It is not known to be too little.
        return wanted;
    }
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit {
            rlim_cur: wanted.min(limit.rlim_max),
            rlim_max: limit.rlim_max,
        };
        // SAFETY: as above.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
            limit = raised;
        }
    }
    limit.rlim_cur
}

/// Lets the allocator return the pages that it keeps although nothing lies on them.
///
/// It does so when an arena is told to keep none; afterwards each goes on as it was told before.
pub(crate) fn purge() {
    let Ok(arenas) = tikv_jemalloc_ctl::arenas::narenas::read() else {
        return;
    };
    for arena in 0..arenas {
        for kind in ["dirty", "muzzy"] {
            let name = format!("arena.{arena}.{kind}_decay_ms\0");
            // SAFETY: the name ends with a NUL and names a setting of jemalloc's whose type is ssize_t. An arena that
            // does not exist is an error, and not purged.
            let before = unsafe { tikv_jemalloc_ctl::raw::update(name.as_bytes(), 0_isize) };
            if let Ok(before) = before {
                // SAFETY: as above.
                let _ = unsafe { tikv_jemalloc_ctl::raw::write(name.as_bytes(), before) };
            }
        }
    }
}

/// The allocator's figures, a line for each.
pub(crate) fn describe() -> String {
    use tikv_jemalloc_ctl::{epoch, stats};
    // The figures are as of the last epoch; if it cannot be advanced, they are a little old.
    let _ = epoch::advance();
    let stats = [
        ("allocated", stats::allocated::read()),
        ("active", stats::active::read()),
        ("metadata", stats::metadata::read()),
        ("resident", stats::resident::read()),
        ("mapped", stats::mapped::read()),
        ("retained", stats::retained::read()),
    ];
    let mut text = String::from("jemalloc, bytes:\n");
    for (name, bytes) in stats {
        if let Ok(bytes) = bytes {
            text.push_str(&format!("{name}: {bytes}\n"));
        }
    }
    text
}
