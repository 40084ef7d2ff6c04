//! How far a start is, for clients and operators who ask before the node is ready.
//!
//! ```text
//!   reading: logs and snapshots, group by group --> waiting: the cluster is to count this start --> ready: nobody asks here any more
//! ```

use crate::service_manager;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the file's header.
#[derive(Default)]
pub(crate) struct StartProgress(Mutex<Stage>);

#[derive(Clone, Copy, Default)]
enum Stage {
    /// Of so many groups, so many; of how many is not known before the logs are read.
    Reading { done: usize, of: Option<usize> },
    #[default]
    Waiting,
}

impl StartProgress {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept is read: of so many groups, if that is known.
    pub(crate) fn reads(&self, of: Option<usize>) {
        *self.stage() = Stage::Reading { done: 0, of };
        self.tell();
    }

    /// Another group is read.
    pub(crate) fn has_read_one(&self) {
        if let Stage::Reading { done, .. } = &mut *self.stage() {
            *done += 1;
        }
        self.tell();
    }

    /// Nothing more is to be read.
    pub(crate) fn waits(&self) {
        *self.stage() = Stage::Waiting;
        self.tell();
    }

    /// Tells a service manager.
    fn tell(&self) {
        service_manager::tell_status(&self.sentence());
    }

    /// What every command is answered, in words that clients know of Redis: it is worth asking again.
    pub(crate) fn reply(&self) -> &'static [u8] {
        match *self.stage() {
            Stage::Reading { .. } => b"-LOADING Chorale is loading the dataset in memory\r\n",
            Stage::Waiting => {
                b"-LOADING Chorale is starting and waits for the other nodes of its cluster\r\n"
            }
        }
    }

    /// The same for an operator.
    pub(crate) fn sentence(&self) -> String {
        match *self.stage() {
            Stage::Reading { of: None, .. } => "starting: reading the logs that were kept".to_owned(),
            Stage::Reading { done, of: Some(of) } => {
                format!("starting: reading what was kept, {done} of {of} groups are there")
            }
            Stage::Waiting => "starting: the cluster has not counted this start yet, which takes a majority of the nodes that \
                               have the meta group; the log says whom it waits for"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_told_how_far_the_start_is() {
        let progress = StartProgress::default();
        assert!(progress.sentence().contains("counted this start"));
        progress.reads(None);
        assert!(progress.reply().starts_with(b"-LOADING Chorale is loading"));
        progress.reads(Some(12));
        progress.has_read_one();
        assert_eq!(
            progress.sentence(),
            "starting: reading what was kept, 1 of 12 groups are there"
        );
        progress.waits();
        progress.has_read_one();
        assert!(progress.reply().starts_with(b"-LOADING Chorale is starting"));
    }
}
