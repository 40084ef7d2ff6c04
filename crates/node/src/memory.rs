//! What the process takes.

use server::Shared;
use std::sync::atomic::Ordering;

/// Watches what the process takes.
pub(crate) struct Sampler {
    /// Bytes allocated beside data, in the last samples; a ring.
    overheads: [u64; Sampler::WINDOW],
    next: usize,
}

impl Sampler {
    /// Samples that [`server::shared::MemoryFigures::lasting_overhead`] is the least of: 3.2 seconds.
    const WINDOW: usize = 32;

    /// One that has not sampled.
    pub(crate) fn new() -> Sampler {
        Sampler {
            overheads: [u64::MAX; Sampler::WINDOW],
            next: 0,
        }
    }

    /// Samples the allocator and the system. A few microseconds; called by one worker, ten times a second.
    pub(crate) fn sample(&mut self, shared: &Shared) {
        let memory = &shared.memory;
        // The allocator's figures are as of its last epoch.
        if tikv_jemalloc_ctl::epoch::advance().is_ok()
            && let Ok(allocated) = tikv_jemalloc_ctl::stats::allocated::read()
            && let Ok(resident) = tikv_jemalloc_ctl::stats::resident::read()
        {
            let (allocated, resident) = (allocated as u64, resident as u64);
            let data = shared.total(|worker| worker.data_bytes.get());
            memory.data_at_sample.store(data, Ordering::Relaxed);
            memory.allocated.store(allocated, Ordering::Relaxed);
            memory.peak.fetch_max(allocated, Ordering::Relaxed);
            memory.resident.store(resident, Ordering::Relaxed);
            self.overheads[self.next] = allocated.saturating_sub(data);
            self.next = (self.next + 1) % Sampler::WINDOW;
            let least = self.overheads.iter().min().expect("the ring has places");
            memory.lasting_overhead.store(*least, Ordering::Relaxed);
        }
    }
}

/// Raises the limit of open files so that `clients` fit, with some for everything else. Returns how many
/// clients do.
pub(crate) fn make_room_for_clients(clients: u64) -> u64 {
    /// Listeners, queues, logs and whatever libraries open.
    const OTHERS: u64 = 64;
    let wanted = clients + OTHERS;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is ours and lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return clients;
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
    clients.min(limit.rlim_cur.saturating_sub(OTHERS))
}
