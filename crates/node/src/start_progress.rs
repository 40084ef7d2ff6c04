//! How far a start is, for clients and operators who ask before the node is ready.
//!
//! ```text
//!   reading: logs and snapshots, group by group --> waiting: the cluster is to count this start --> ready: nobody asks here any more
//!   founding: others are to be there first   -----'
//! ```

use crate::{clock, service_manager};
use gateway::{Gateway, LoadProgress};
use ids::UnixMillis;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the file's header.
#[derive(Default)]
pub(crate) struct StartProgress(Mutex<Stage>);

/// What is to be read, or was.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub(crate) groups: usize,
    /// Of their snapshots.
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    /// Of so much, so much; of how much is not known before the logs are read.
    Reading {
        since: UnixMillis,
        done: Load,
        of: Option<Load>,
    },
    /// There is no cluster yet, and so many nodes of so many.
    Founding { there: usize, expected: u16 },
    #[default]
    Waiting,
}

impl StartProgress {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept is read: so much, if that is known.
    pub(crate) fn reads(&self, of: Option<Load>) {
        let stage = &mut *self.stage();
        let since = match stage {
            Stage::Reading { since, .. } => *since,
            Stage::Founding { .. } | Stage::Waiting => clock::now(),
        };
        let done = Load::default();
        *stage = Stage::Reading { since, done, of };
        self.tell(stage);
    }

    /// Another group is read, whose snapshot has so many bytes.
    pub(crate) fn has_read_one(&self, bytes: u64) {
        let stage = &mut *self.stage();
        if let Stage::Reading { done, .. } = stage {
            done.groups += 1;
            done.bytes += bytes;
        }
        self.tell(stage);
    }

    /// So many nodes are there of those that are to make a cluster.
    pub(crate) fn founds(&self, there: usize, expected: u16) {
        let stage = &mut *self.stage();
        *stage = Stage::Founding { there, expected };
        self.tell(stage);
    }

    /// Nothing more is to be read, and there is a cluster.
    pub(crate) fn waits(&self) {
        let stage = &mut *self.stage();
        *stage = Stage::Waiting;
        self.tell(stage);
    }

    /// Tells a service manager.
    fn tell(&self, stage: &Stage) {
        service_manager::tell_status(&sentence(stage));
    }

    /// What every command is answered, in words that clients know of Redis: it is worth asking again.
    pub(crate) fn reply(&self) -> &'static [u8] {
        match *self.stage() {
            Stage::Reading { .. } => b"-LOADING Chorale is loading the dataset in memory\r\n",
            Stage::Founding { .. } | Stage::Waiting => {
                b"-LOADING Chorale is starting and waits for the other nodes of its cluster\r\n"
            }
        }
    }

    /// The same for an operator.
    pub(crate) fn sentence(&self) -> String {
        sentence(&self.stage())
    }

    /// What `INFO` says meanwhile: clients that know it from Redis ask again when it says that this may be over.
    pub(crate) fn info(&self, now: UnixMillis) -> String {
        let mut text = format!(
            "# Server\r\nredis_version:{}\r\n\r\n# Persistence\r\nloading:1\r\nasync_loading:0\r\n",
            Gateway::REDIS_VERSION
        );
        let progress = match *self.stage() {
            Stage::Reading { since, done, of } => LoadProgress {
                since,
                done_bytes: done.bytes,
                of_bytes: of.unwrap_or_default().bytes,
            },
            // For how long is not known: clients ask again after a second.
            Stage::Founding { .. } | Stage::Waiting => LoadProgress {
                since: now,
                ..LoadProgress::default()
            },
        };
        progress.write(now, &mut text);
        text
    }
}

fn sentence(stage: &Stage) -> String {
    match stage {
        Stage::Reading { of: None, .. } => "starting: reading the logs that were kept".to_owned(),
        Stage::Reading {
            done, of: Some(of), ..
        } => {
            let mib = |bytes: u64| bytes >> 20;
            format!(
                "starting: reading what was kept, {} of {} groups are there, {} of {} MiB",
                done.groups,
                of.groups,
                mib(done.bytes),
                mib(of.bytes)
            )
        }
        Stage::Founding { there, expected } => format!(
            "starting: there is no cluster yet, and {there} of {expected} nodes are there that are to make one; the log says what it waits for"
        ),
        Stage::Waiting => {
            "starting: the cluster has not counted this start yet, which takes a majority of the nodes that \
                           have the meta group; the log says whom it waits for"
                .to_owned()
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
        progress.founds(2, 3);
        assert!(progress.sentence().contains("2 of 3 nodes are there"));
        assert!(progress.reply().starts_with(b"-LOADING Chorale is starting"));
        progress.reads(None);
        assert!(progress.reply().starts_with(b"-LOADING Chorale is loading"));
        progress.reads(Some(Load {
            groups: 12,
            bytes: 40 << 20,
        }));
        progress.has_read_one(10 << 20);
        assert_eq!(
            progress.sentence(),
            "starting: reading what was kept, 1 of 12 groups are there, 10 of 40 MiB"
        );
        let Stage::Reading { since, .. } = *progress.stage() else {
            panic!("it is read");
        };
        let info = progress.info(UnixMillis(since.0 + 2_000));
        let tells = |line: &str| info.split("\r\n").any(|told| told == line);
        assert!(
            tells("loading:1") && tells("loading_total_bytes:41943040"),
            "{info}"
        );
        assert!(
            tells("loading_loaded_perc:25.00") && tells("loading_eta_seconds:6"),
            "{info}"
        );
        progress.waits();
        progress.has_read_one(1);
        assert!(progress.info(since).contains("loading:1\r\n"));
        assert!(progress.reply().starts_with(b"-LOADING Chorale is starting"));
    }
}
