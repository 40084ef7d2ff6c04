//! Where a worker's log is synced: beside its loop, or by the loop itself.
//!
//! ```text
//!   beside    write --> thread: fdatasync --> wake the loop --> answer      the loop serves others meanwhile
//!   here      write --> fdatasync ---------------------------> answer      nobody is served meanwhile
//! ```
//!
//! Beside the loop a sync costs two wake-ups, which on a fast disk is as much as the sync. And of clients that each wait for an answer
//! before they ask again, half are answered by one sync while the others gather for the next: twice as many syncs as when all wait for
//! the same one. Here it costs neither, but whoever wants something else waits for it: a reader, another worker, another node. So it is
//! done here where in the last tenth of a second there was nobody of the kind, and as long as the disk is not very slow.

use crate::sync_watch::SyncWatch;
use std::sync::Arc;
use std::time::Duration;

/// How long syncs may take, on the average, that the loop waits for.
const HERE_MAX: Duration = Duration::from_millis(5);

/// See the file's header.
#[derive(Default)]
pub(crate) struct SyncPlace {
    is_here: bool,
    /// What was served that waits for no sync, as it was counted when it was last looked at.
    served: u64,
    /// How long syncs took of late, on the average.
    average: Duration,
    /// Of those of the loop.
    pub(crate) watch: Arc<SyncWatch>,
}

impl SyncPlace {
    /// Whether the next sync is for the loop.
    pub(crate) fn is_here(&self) -> bool {
        self.is_here && self.average <= HERE_MAX
    }

    /// A sync was done.
    pub(crate) fn took(&mut self, took: Duration) {
        self.average = (self.average * 7 + took) / 8;
    }

    /// Ten times a second: makes up its mind. `may_be_here` if only answers wait for syncs, and no other node relies on this one;
    /// `served` counts what waits for no sync.
    pub(crate) fn look(&mut self, may_be_here: bool, served: u64) {
        let serves_others = std::mem::replace(&mut self.served, served) != served;
        self.is_here = may_be_here && !serves_others;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_for_the_loop_while_nobody_else_is_served_and_the_disk_is_not_slow() {
        let mut place = SyncPlace::default();
        assert!(!place.is_here(), "nothing is known yet");
        place.look(true, 0);
        assert!(place.is_here());
        place.took(HERE_MAX * 2);
        assert!(place.is_here(), "it was one");
        (0..20).for_each(|_| place.took(HERE_MAX * 2));
        assert!(!place.is_here());
        (0..20).for_each(|_| place.took(HERE_MAX / 2));
        assert!(place.is_here());
        place.look(true, 1);
        assert!(!place.is_here(), "somebody read");
        place.look(true, 1);
        assert!(place.is_here());
        place.look(false, 1);
        assert!(!place.is_here(), "there is another node");
    }
}
