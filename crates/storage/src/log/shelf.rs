//! The segments of an open log: those in use, those made ahead, and those that go.

use super::LogIdentity;
use super::prepare::{PrepareJob, Prepared, Segment, make_segment};
use super::segment::{self, SegmentHead};
use crate::disk::Disk;
use crate::error::StorageError;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Files that wait to be used again, at most: more than these go. A log that is about as long as it may be whatever the states are lets go
/// of so many at once, and each that was kept need not be filled with zeros.
pub(crate) const SPARES_MAX: usize = 3;

/// Bytes of the first segment of a log.
const FIRST_BYTES: u64 = 8 << 20;

const HAS_ONE: &str = "a log begins with a segment";

/// Segments by their numbers, which rise without a gap from those in use to those that are ready.
pub(crate) struct Shelf<D: Disk> {
    disk: D,
    identity: LogIdentity,
    pub(crate) segment_bytes: u64,
    /// The last one is written to.
    in_use: VecDeque<Segment<D::File>>,
    ready: VecDeque<Segment<D::File>>,
    /// The numbers that the files had which wait to be used again.
    spares: Vec<u64>,
    /// Segments that nobody needs, the oldest first, and whether their files can be used again.
    drops: Vec<(u64, bool)>,
    /// Of the next segment that is made.
    next: u64,
    is_preparing: bool,
    /// Whether the last segment that was to be made found no room.
    is_short: bool,
    pub(crate) has_failed: Arc<AtomicBool>,
}

impl<D: Disk + Clone> Shelf<D> {
    /// Behind all that there are of this worker.
    pub(crate) fn new(disk: D, identity: LogIdentity, segment_bytes: u64) -> Result<Shelf<D>, StorageError> {
        let names = disk.names().map_err(StorageError::io("list", "the directory"))?;
        let highest = names
            .iter()
            .filter_map(|name| segment::parse_name(name))
            .filter(|name| name.worker == identity.worker)
            .map(|name| name.number)
            .max();
        Ok(Shelf {
            disk,
            identity,
            segment_bytes,
            in_use: VecDeque::new(),
            ready: VecDeque::new(),
            spares: Vec::new(),
            drops: Vec::new(),
            next: highest.map_or(1, |number| number + 1),
            is_preparing: false,
            is_short: false,
            has_failed: Arc::default(),
        })
    }

    /// Makes the first segment, and goes on to it. It is a small one: a node begins as many as it has workers before it serves anybody.
    pub(crate) fn begin(&mut self) -> Result<(), StorageError> {
        let head = SegmentHead::new(&self.identity, self.next);
        let bytes = self.segment_bytes.min(FIRST_BYTES);
        let segment = make_segment(&self.disk, &head, None, bytes)?;
        self.next = segment.number + 1;
        self.in_use.push_back(segment);
        Ok(())
    }

    /// Sees to it that the next segment is ready. The answer is its number.
    pub(crate) fn reserve(&mut self) -> Result<u64, StorageError> {
        loop {
            if let Some(ready) = self.ready.front() {
                return Ok(ready.number);
            }
            let head = SegmentHead::new(&self.identity, self.next);
            let made = match self.is_preparing {
                // The next number is taken.
                true => Err(StorageError::io("make", &head.name())(
                    ErrorKind::WouldBlock.into(),
                )),
                false => make_segment(&self.disk, &head, self.spares.pop(), self.segment_bytes),
            };
            match made {
                Ok(segment) => self.take_in(segment),
                Err(StorageError::Io { file, error, .. }) => {
                    self.is_short |= !self.is_preparing;
                    return Err(StorageError::Full { file, error });
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Whether the last segment that was to be made found no room: what is ready is all that there will be for now.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Whether the segment behind the one that is written to is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a segment can be made of a file that is there, or some are to go first.
    pub(crate) fn has_leftovers(&self) -> bool {
        !self.spares.is_empty() || !self.drops.is_empty()
    }

    fn take_in(&mut self, segment: Segment<D::File>) {
        self.next = segment.number + 1;
        self.is_short = false;
        self.ready.push_back(segment);
    }

    /// Goes on to the next segment, which is ready.
    pub(crate) fn advance(&mut self) {
        let segment = self
            .ready
            .pop_front()
            .expect("as many as are needed were reserved");
        self.in_use.push_back(segment);
    }

    /// The segment that is written to.
    pub(crate) fn current(&mut self) -> &mut Segment<D::File> {
        self.in_use.back_mut().expect(HAS_ONE)
    }

    /// Bytes of the segment that is written to.
    pub(crate) fn current_bytes(&self) -> u64 {
        self.in_use.back().expect(HAS_ONE).bytes
    }

    /// The numbers of the segments in use: of the oldest, and of the last one.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let number = |segment: Option<&Segment<D::File>>| segment.map_or(0, |segment| segment.number);
        (number(self.in_use.front()), number(self.in_use.back()))
    }

    pub(crate) fn in_use(&mut self) -> impl Iterator<Item = &mut Segment<D::File>> {
        self.in_use.iter_mut()
    }

    /// The segments in use, and those that wait to go: how many, and how many bytes they have.
    pub(crate) fn size(&self) -> (u64, u64) {
        let in_use = self.in_use.iter().map(|segment| segment.bytes);
        let bytes_of = |is_whole| if is_whole { self.segment_bytes } else { FIRST_BYTES };
        let drops = self.drops.iter().map(|(_, is_whole)| bytes_of(*is_whole));
        let all = in_use.chain(drops);
        all.fold((0, 0), |(count, bytes), segment| (count + 1, bytes + segment))
    }

    /// Nobody needs segments below this number, and that is kept.
    pub(crate) fn drop_below(&mut self, number: u64) {
        while self.in_use.len() > 1 && self.in_use[0].number < number {
            let segment = self.in_use.pop_front().expect("there are two");
            self.drops
                .push((segment.number, segment.bytes == self.segment_bytes));
        }
    }

    pub(crate) fn prepare_job(&mut self) -> Option<PrepareJob<D>> {
        let make = self
            .ready
            .is_empty()
            .then(|| SegmentHead::new(&self.identity, self.next));
        if self.is_preparing || (make.is_none() && self.drops.is_empty()) {
            return None;
        }
        self.is_preparing = true;
        Some(PrepareJob {
            disk: self.disk.clone(),
            worker: self.identity.worker,
            drops: std::mem::take(&mut self.drops),
            spares: std::mem::take(&mut self.spares),
            make,
            segment_bytes: self.segment_bytes,
            has_failed: self.has_failed.clone(),
        })
    }

    pub(crate) fn on_prepared(&mut self, prepared: Prepared<D::File>) -> Result<(), StorageError> {
        self.is_preparing = false;
        self.spares = prepared.spares;
        prepared.dropped?;
        match prepared.made {
            Some(Ok(segment)) => self.take_in(segment),
            Some(Err(StorageError::Io { file, error, .. })) => {
                self.is_short = true;
                return Err(StorageError::Full { file, error });
            }
            Some(Err(other)) => return Err(other),
            None => {}
        }
        Ok(())
    }
}
