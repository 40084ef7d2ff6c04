//! A sync of a worker's log, to be done on whichever thread.

use crate::disk::DiskFile;
use crate::error::StorageError;
use mutations::Mutation;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sync that is to be done. It has files of its own: the log is written on meanwhile.
#[derive(Debug)]
pub struct SyncJob<F> {
    /// The numbers and names of the segments that were written to.
    pub(crate) files: Vec<(u64, String, F)>,
    pub(crate) upto: u64,
    pub(crate) bytes: u64,
    pub(crate) has_failed: Arc<AtomicBool>,
}

/// A sync that was done.
#[derive(Debug)]
pub struct Synced<F> {
    pub(crate) files: Vec<(u64, String, F)>,
    /// The last frame that is kept.
    pub(crate) upto: u64,
    /// Bytes that were written up to there.
    pub(crate) bytes: u64,
}

impl<F: DiskFile> SyncJob<F> {
    /// Makes everything that was written when the job was made durable.
    ///
    /// # Errors
    /// They are final: every later call of the log fails.
    pub fn run(mut self) -> Result<Synced<F>, StorageError> {
        for (_, name, file) in &mut self.files {
            let synced = file
                .sync()
                .or_else(|error| match mutations::is(Mutation::SyncRetried) {
                    true => file.sync(),
                    false => Err(error),
                });
            if let Err(error) = synced {
                self.has_failed.store(true, Ordering::Release);
                return Err(StorageError::io("sync", name)(error));
            }
        }
        Ok(Synced {
            files: self.files,
            upto: self.upto,
            bytes: self.bytes,
        })
    }
}

impl<F> Synced<F> {
    /// The number of the last frame that is kept.
    pub fn upto(&self) -> u64 {
        self.upto
    }
}
