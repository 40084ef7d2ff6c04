//! Making segments, and taking those away that nobody needs, on whichever thread.
//!
//! ```text
//!  log-W-8.new   --head and zeros, sync-->  log-W-8 --sync the names-->  ready
//!  log-W-3.spare --another head, sync---->  log-W-8 --sync the names-->  ready
//!  log-W-4       -------------------------> log-W-4.spare, or gone --sync the names--> the next one
//! ```

use super::segment::{self, BLOCK_BYTES, SegmentHead};
use super::shelf::SPARES_MAX;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::replace;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of zeros that are written at once.
const ZEROS_BYTES: u64 = 256 * 1024;

/// A segment that is open.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) number: u64,
    pub(crate) seal: u64,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) file: F,
    /// The same file, for syncs; `None` while one is under way.
    pub(crate) sync_file: Option<F>,
    /// Whether something was written to it since the last sync began.
    pub(crate) is_dirty: bool,
}

/// Work ahead of the log, which writes on meanwhile.
#[derive(Debug)]
pub struct PrepareJob<D> {
    pub(crate) disk: D,
    pub(crate) worker: u16,
    /// Segments that nobody needs, the oldest first, and whether their files can be used again.
    pub(crate) drops: Vec<(u64, bool)>,
    /// The numbers that the files had which wait to be used again.
    pub(crate) spares: Vec<u64>,
    /// The segment to make.
    pub(crate) make: Option<SegmentHead>,
    pub(crate) segment_bytes: u64,
    pub(crate) has_failed: Arc<AtomicBool>,
}

/// What has come of a [`PrepareJob`].
#[derive(Debug)]
pub struct Prepared<F> {
    pub(crate) spares: Vec<u64>,
    pub(crate) made: Option<Result<Segment<F>, StorageError>>,
    pub(crate) dropped: Result<(), StorageError>,
}

impl<D: Disk> PrepareJob<D> {
    /// Does it.
    pub fn run(mut self) -> Prepared<D::File> {
        let drops = std::mem::take(&mut self.drops);
        let dropped = drops
            .into_iter()
            .try_for_each(|(number, is_whole)| self.drop_segment(number, is_whole));
        if dropped.is_err() {
            // Which names there are nobody knows: one more that went could leave a gap.
            self.has_failed.store(true, Ordering::Release);
            return Prepared {
                spares: self.spares,
                made: None,
                dropped,
            };
        }
        let made = self.make.map(|head| {
            let spare = self.spares.pop();
            make_segment(&self.disk, &head, spare, self.segment_bytes)
        });
        Prepared {
            spares: self.spares,
            made,
            dropped,
        }
    }

    /// Bytes that must be free for it.
    pub fn new_bytes(&self) -> u64 {
        match self.make.is_some() && self.spares.is_empty() && self.drops.is_empty() {
            true => self.segment_bytes,
            false => 0,
        }
    }

    /// Does not do it: there is no room for it.
    pub fn refuse(self) -> Prepared<D::File> {
        let made = self.make.map(|head| {
            let error = io::ErrorKind::StorageFull.into();
            Err(StorageError::io("make", &head.name())(error))
        });
        Prepared {
            spares: self.spares,
            made,
            dropped: Ok(()),
        }
    }

    /// Takes a segment's name away, durably: its bytes may be used again then.
    fn drop_segment(&mut self, number: u64, is_whole: bool) -> Result<(), StorageError> {
        let name = segment::name(self.worker, number);
        if is_whole && self.spares.len() < SPARES_MAX {
            let spare = segment::spare_name(self.worker, number);
            self.disk
                .rename(&name, &spare)
                .map_err(StorageError::io("rename", &name))?;
            self.spares.push(number);
        } else {
            self.disk
                .remove(&name)
                .map_err(StorageError::io("remove", &name))?;
        }
        self.disk
            .sync_names()
            .map_err(StorageError::io("sync the names beside", &name))
    }
}

/// Makes a segment of zeros, or of a file that was one, durably.
///
/// # Errors
/// Of the disk. What was begun is gone.
pub(crate) fn make_segment<D: Disk>(
    disk: &D,
    head: &SegmentHead,
    spare: Option<u64>,
    segment_bytes: u64,
) -> Result<Segment<D::File>, StorageError> {
    let name = head.name();
    let from = match spare {
        Some(number) => segment::spare_name(head.worker, number),
        None => replace::new_name(&name),
    };
    let make = || {
        let (mut file, bytes) = match spare {
            Some(_) => {
                let mut file = open(disk, &from)?;
                let bytes = file.size()?;
                file.write_at(0, &SegmentHead { bytes, ..*head }.encode())?;
                (file, bytes)
            }
            None => {
                let mut file = disk.create(&from)?;
                let bytes = segment_bytes;
                fill(&mut file, &SegmentHead { bytes, ..*head }, bytes)?;
                (file, bytes)
            }
        };
        file.sync()?;
        disk.rename(&from, &name)?;
        disk.sync_names()?;
        let sync_file = Some(open(disk, &name)?);
        Ok(Segment {
            number: head.number,
            seal: head.seal,
            name: name.clone(),
            bytes,
            file,
            sync_file,
            is_dirty: false,
        })
    };
    make().map_err(|error: io::Error| {
        // What cannot be removed is found by the next start, and counts for nothing.
        drop(disk.remove(&from));
        StorageError::io("make", &name)(error)
    })
}

fn open<D: Disk>(disk: &D, name: &str) -> io::Result<D::File> {
    disk.open_to_write(name)?
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn fill<F: DiskFile>(file: &mut F, head: &SegmentHead, segment_bytes: u64) -> io::Result<()> {
    let mut piece = head.encode();
    let mut left = segment_bytes - BLOCK_BYTES;
    loop {
        let zeros = left.min(ZEROS_BYTES);
        piece.resize(piece.len() + zeros as usize, 0);
        file.append(&piece)?;
        left -= zeros;
        if left == 0 {
            return Ok(());
        }
        piece.clear();
    }
}
