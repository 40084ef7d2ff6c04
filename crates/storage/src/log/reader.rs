//! Reading the logs that earlier starts left.
//!
//! ```text
//!  frame 7 | frame 8 | ???      | frame 10, which says that 8 was synced:  the log ends with 8, torn
//!  frame 7 | frame 8 | ???      | frame 10, which says that 9 was synced:  damage; 10 tells of whom
//!  frame 7 | frame 8 | zeros                                            :  the log ends with 8
//! ```
//!
//! Where all that was written is there, because the kernel is the one that took it, any frame behind says that all before it are.
//!
//! Invariants:
//! 1. What a later frame says to have been synced is there, or damage that is named; and so is what was written before a later frame,
//!    where nothing that was written can be missing.
//! 2. Behind the first frame that is missing, and of which that is not said, nothing counts.
//! 3. Of two logs that have a group, that of the later start counts; and what it may have lost is not taken from an earlier one.
//! 4. A group whose log has no beginning in the log of the last start has lost it behind the end that was found: a segment goes only when
//!    that is synced. So that end is damage as well.

use super::batch::Batch;
use super::found::{FoundLogs, Unused};
use super::replay::{Fate, Replay};
use super::segment::{self, BLOCK_BYTES, SegmentHead, SegmentName};
use super::{FRAME_BYTES_MAX, GOES_ON, PREFIX_BYTES, ROOM_MIN, WENT_ON};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::frame::{Frames, HEAD_BYTES};
use codec::Damage;
use codec::Reader;
use ids::{ClusterId, GroupId, NodeId};
use mutations::Mutation;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

/// A file with this name, and its head, if that is intact.
type Found = (String, u64, Result<SegmentHead, Damage>);

/// The segments that one worker wrote in one start.
struct Chain {
    worker: u16,
    start: u64,
    segments: Vec<Found>,
    /// Whether the first segment, whose head is damaged, stands in the chain before as well.
    is_first_shared: bool,
}

impl Chain {
    /// The first segment is of the start before if the first frame of this one stands behind it.
    fn drop_shared<D: Disk>(&mut self, disk: &D) -> Result<(), StorageError> {
        if !self.is_first_shared {
            return Ok(());
        }
        let mut cursor = ChainReader::new(disk, self, false, false).cursor;
        if cursor.read_at((1, BLOCK_BYTES), 1)?.is_ok() {
            drop(self.segments.remove(0));
            self.is_first_shared = false;
        }
        Ok(())
    }
}

/// Bytes that are read from a segment at once.
const WINDOW_BYTES: usize = 256 * 1024;

/// A segment that is read a window at a time: most of its frames are small, and most of its bytes may be zeros behind the last one.
struct Opened<F> {
    /// `None` if the file has gone meanwhile.
    file: Option<F>,
    size: u64,
    window: RefCell<Window>,
}

/// What was read last, and from where.
#[derive(Default)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl<F: DiskFile> Opened<F> {
    fn new(file: Option<F>) -> io::Result<Opened<F>> {
        Ok(Opened {
            size: file.as_ref().map_or(Ok(0), DiskFile::size)?,
            file,
            window: RefCell::default(),
        })
    }

    /// Fills the buffer, from the file itself.
    fn read_through(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_at(offset, buffer),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl<F: DiskFile> DiskFile for Opened<F> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let left = self.size.saturating_sub(offset);
        if left < buffer.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buffer.len() >= WINDOW_BYTES {
            return self.read_through(offset, buffer);
        }
        let mut window = self.window.borrow_mut();
        let end = window.offset + window.bytes.len() as u64;
        if offset < window.offset || offset + buffer.len() as u64 > end {
            let bytes = usize::try_from(left).map_or(WINDOW_BYTES, |left| left.min(WINDOW_BYTES));
            window.offset = offset;
            window.bytes.resize(bytes, 0);
            if let Err(error) = self.read_through(offset, &mut window.bytes) {
                window.bytes.clear();
                return Err(error);
            }
        }
        let start = usize::try_from(offset - window.offset).expect("it lies in the window");
        buffer.copy_from_slice(&window.bytes[start..start + buffer.len()]);
        Ok(())
    }

    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A place in a chain: which of its segments, and where in it.
type Spot = (usize, u64);

/// An intact frame.
struct Frame {
    number: u64,
    synced: u64,
    flags: u8,
    behind: Spot,
}

/// Goes through the frames of a chain, with one segment open at a time.
struct Cursor<'a, D: Disk> {
    disk: &'a D,
    chain: &'a Chain,
    /// Whether all that was written is there.
    is_written: bool,
    opened: Option<(usize, Opened<D::File>)>,
    /// Of the frame that was read last.
    payload: Vec<u8>,
}

impl<D: Disk> Cursor<'_, D> {
    fn open(&mut self, segment: usize) -> Result<(), StorageError> {
        if self.opened.as_ref().is_some_and(|(opened, _)| *opened == segment) {
            return Ok(());
        }
        self.opened = None;
        let name = &self.chain.segments[segment].0;
        let file = self.disk.open(name).map_err(StorageError::io("open", name))?;
        let opened = Opened::new(file).map_err(StorageError::io("read", name))?;
        self.opened = Some((segment, opened));
        Ok(())
    }

    /// The frames of a segment; `None` if its head is damaged.
    fn frames(&self) -> Option<Frames<'_, Opened<D::File>>> {
        let (segment, opened) = self.opened.as_ref().expect("it was opened just before");
        let (name, _, head) = &self.chain.segments[*segment];
        Some(Frames {
            file: opened,
            name,
            size: opened.size,
            seal: head.as_ref().ok()?.seal,
            limit: FRAME_BYTES_MAX,
        })
    }

    /// The number of the first frame, of which segments before that went have left nothing else; 0 if its head is not intact.
    fn first_number(&mut self) -> Result<u64, StorageError> {
        self.open(0)?;
        let Some(frames) = self.frames() else { return Ok(0) };
        let first = frames.find_later(BLOCK_BYTES, 0)?;
        Ok(first
            .filter(|(place, _)| *place == BLOCK_BYTES)
            .map_or(0, |(_, number)| number))
    }

    /// Bytes of the segment that is open.
    fn size(&self) -> u64 {
        self.opened.as_ref().map_or(0, |(_, opened)| opened.size)
    }

    /// Whether nothing stands there in the segment that is open.
    fn is_empty_at(&self, offset: u64) -> Result<bool, StorageError> {
        let (segment, opened) = self.opened.as_ref().expect("it was just read from");
        let mut bytes = [0; HEAD_BYTES];
        let count = opened.size.saturating_sub(offset).min(HEAD_BYTES as u64) as usize;
        let name = &self.chain.segments[*segment].0;
        opened
            .read_at(offset, &mut bytes[..count])
            .map_err(StorageError::io("read", name))?;
        Ok(bytes.iter().all(|byte| *byte == 0))
    }

    /// Reads the frame with this number if it stands exactly there.
    fn read_at(
        &mut self,
        (segment, offset): Spot,
        number: u64,
    ) -> Result<Result<Frame, Damage>, StorageError> {
        self.open(segment)?;
        let mut payload = std::mem::take(&mut self.payload);
        let Some(frames) = self.frames() else {
            let damage = self.chain.segments[segment].2.as_ref().err();
            return Ok(Err(damage.expect("it has no frames for that reason").clone()));
        };
        let behind = match frames.read(offset, number, &mut payload) {
            Ok(behind) => behind,
            Err(StorageError::Damaged(damage)) => return Ok(Err(damage)),
            Err(error) => return Err(error),
        };
        self.payload = payload;
        let mut reader = Reader::new(&self.payload);
        let prefix = reader.u64().and_then(|synced| Ok((synced, reader.u8()?)));
        Ok(match prefix {
            Ok((synced, flags)) if synced < number && flags & !(GOES_ON | WENT_ON) == 0 => Ok(Frame {
                number,
                synced,
                flags,
                behind: (segment, behind),
            }),
            _ => {
                let name = &self.chain.segments[segment].0;
                let (at, expected) = (offset + HEAD_BYTES as u64, "what is synced, and flags");
                Err(Damage::new(name, at, expected, "others"))
            }
        })
    }

    /// Reads the frame with this number behind another one: right there, on the next block, or in the next segment.
    fn read_next(&mut self, spot: Spot, number: u64) -> Result<Result<Frame, Damage>, StorageError> {
        let (segment, offset) = spot;
        let block = segment::next_block(offset);
        let first = self.read_at(spot, number)?;
        let Err(damage) = first else { return Ok(first) };
        let size = self.size();
        let mut shown = damage;
        let mut shows_something = !self.is_empty_at(offset)?;
        if block != offset && block < size {
            match self.read_at((segment, block), number)? {
                Err(damage) => {
                    if !shows_something && !self.is_empty_at(block)? {
                        (shown, shows_something) = (damage, true);
                    }
                }
                frame => return Ok(frame),
            }
        }
        if segment + 1 < self.chain.segments.len() && !self.is_gap(segment) {
            match self.read_at((segment + 1, BLOCK_BYTES), number)? {
                // A full segment has its next frame in the one behind.
                Err(damage) if !shows_something || size.saturating_sub(offset) < ROOM_MIN => shown = damage,
                Err(_) => {}
                frame => return Ok(frame),
            }
        }
        Ok(Err(shown))
    }

    /// Whether a segment is missing behind this one.
    fn is_gap(&self, segment: usize) -> bool {
        let numbers = &self.chain.segments;
        numbers
            .get(segment + 1)
            .is_some_and(|next| next.1 != numbers[segment].1 + 1)
    }

    /// Finds the next intact frame with a higher number, wherever it stands from `spot` on.
    fn find(&mut self, spot: Spot, number: u64) -> Result<Option<(Spot, Frame)>, StorageError> {
        let (mut segment, mut offset) = spot;
        while segment < self.chain.segments.len() {
            self.open(segment)?;
            while let Some(frames) = self.frames() {
                let Some((place, found)) = frames.find_later(offset, number)? else {
                    break;
                };
                if let Ok(frame) = self.read_at((segment, place), found)? {
                    return Ok(Some(((segment, place), frame)));
                }
                offset = place + 1;
            }
            (segment, offset) = (segment + 1, BLOCK_BYTES);
        }
        Ok(None)
    }

    /// Up to which frame all was kept, by any intact one behind.
    fn highest_kept(&mut self, spot: Spot, number: u64) -> Result<u64, StorageError> {
        let (mut highest, mut spot, mut number) = (0, spot, number);
        while let Some((_, mut frame)) = self.find(spot, number)? {
            loop {
                // They are written one behind the other.
                let kept = if self.is_written {
                    frame.number - 1
                } else {
                    frame.synced
                };
                highest = highest.max(kept);
                (spot, number) = (frame.behind, frame.number);
                match self.read_next(spot, number + 1)? {
                    Ok(next) => frame = next,
                    Err(_) => break,
                }
            }
        }
        Ok(highest)
    }
}

/// What one chain says.
struct Outcome {
    /// Whether some log has no beginning here.
    is_headless: bool,
    fates: BTreeMap<GroupId, (Fate, Unused)>,
    /// Damage that may have been of any group.
    unclear: Option<Damage>,
    damage: Vec<Damage>,
    synced_to_end: bool,
    /// The segment in which it ends.
    end: usize,
}

/// Reads a chain from its beginning to its end.
struct ChainReader<'a, D: Disk> {
    cursor: Cursor<'a, D>,
    replay: Replay,
    /// Of the batch that is being read.
    batch: Vec<u8>,
    damage: Vec<Damage>,
    /// Up to which frame all was kept, once that was needed.
    highest: Option<u64>,
    /// Whether there is no log of a later start.
    is_last_start: bool,
}

impl<'a, D: Disk> ChainReader<'a, D> {
    fn new(disk: &'a D, chain: &'a Chain, is_written: bool, is_last_start: bool) -> ChainReader<'a, D> {
        ChainReader {
            cursor: Cursor {
                disk,
                chain,
                is_written,
                opened: None,
                payload: Vec::new(),
            },
            replay: Replay::default(),
            batch: Vec::new(),
            damage: Vec::new(),
            highest: None,
            is_last_start,
        }
    }

    fn read(mut self) -> Result<Outcome, StorageError> {
        self.note_segments()?;
        let mut synced_to_end = true;
        let (mut spot, mut number) = ((0, BLOCK_BYTES), self.cursor.first_number()?);
        loop {
            match self.cursor.read_next(spot, number)? {
                Ok(frame) => {
                    synced_to_end = frame.synced + 1 == frame.number;
                    (spot, number) = (frame.behind, frame.number + 1);
                    self.take(&frame);
                }
                Err(damage) => match self.go_on(spot, number, damage)? {
                    Some(next) => (spot, number) = next,
                    None => break,
                },
            }
        }
        if self.is_last_start && self.cursor.is_written && self.replay.has_headless() {
            let name = &self.cursor.chain.segments[spot.0].0;
            let expected = "the records with which logs begin that are continued before";
            let damage = Damage::new(name, spot.1, expected, "the end of the log");
            self.replay.damaged(&damage);
            self.damage.push(damage);
        }
        let is_whole = self.damage.is_empty() && self.batch.is_empty();
        let is_idle = self.replay.is_idle;
        let is_headless = self.replay.has_headless();
        let (fates, unclear) = self.replay.finish();
        Ok(Outcome {
            is_headless,
            fates,
            unclear,
            damage: self.damage,
            synced_to_end: synced_to_end && is_idle && is_whole,
            end: spot.0,
        })
    }

    /// Notes heads that are damaged, and segments that are missing or cut.
    fn note_segments(&mut self) -> Result<(), StorageError> {
        let chain = self.cursor.chain;
        for (at, (_, number, head)) in chain.segments.iter().enumerate() {
            self.damage.extend(head.as_ref().err().cloned());
            let cut = self.cut(at)?;
            self.damage.extend(cut);
            if self.cursor.is_gap(at) {
                self.damage.push(missing(chain.worker, number + 1));
            }
        }
        Ok(())
    }

    /// That a file is shorter than it was made: what stood at its end may have been anything.
    fn cut(&mut self, segment: usize) -> Result<Option<Damage>, StorageError> {
        let size = self.segment_size(segment)?;
        let (name, _, head) = &self.cursor.chain.segments[segment];
        let made = head.as_ref().map_or(0, |head| head.bytes);
        let is_cut = size < made && !mutations::is(Mutation::CutIsEnd);
        Ok(is_cut.then(|| {
            let found = format!("the end of the file after {size}");
            Damage::new(name, size, format!("a file of {made} bytes"), found)
        }))
    }

    fn take(&mut self, frame: &Frame) {
        let went_on = frame.flags & WENT_ON != 0;
        // A batch that began in a segment that went, or in damage, is needed by nobody, or is told of already.
        if went_on && self.batch.is_empty() {
            return;
        }
        if !went_on {
            self.batch.clear();
        }
        self.batch.extend_from_slice(&self.cursor.payload[PREFIX_BYTES..]);
        if frame.flags & GOES_ON != 0 {
            return;
        }
        let name = &self.cursor.chain.segments[frame.behind.0].0;
        match Batch::read(&self.batch) {
            Ok(batch) => self.replay.take(batch),
            Err(error) => {
                let found = format!("something else at byte {} of a batch", error.offset);
                let damage = Damage::new(name, frame.behind.1, error.expected, found);
                self.replay.damaged(&damage);
                self.damage.push(damage);
            }
        }
        self.batch.clear();
    }

    /// Frame `number` is not there: where to go on, and with which one; `None` if the log ends here.
    fn go_on(
        &mut self,
        spot: Spot,
        number: u64,
        damage: Damage,
    ) -> Result<Option<(Spot, u64)>, StorageError> {
        if mutations::is(Mutation::DamageIsEnd) {
            return Ok(None);
        }
        let highest = match self.highest {
            Some(highest) => highest,
            None => self.cursor.highest_kept(spot, number)?,
        };
        self.highest = Some(highest);
        let segments = &self.cursor.chain.segments;
        // What cannot be read at all may have been synced.
        let is_full = segment::next_block(spot.1) >= self.segment_size(spot.0)?;
        let next_is_lost = match segments.get(spot.0 + 1) {
            Some((_, _, head)) => self.cursor.is_gap(spot.0) || (is_full && head.is_err()),
            None => false,
        };
        let this_is_lost = spot.1 == BLOCK_BYTES && segments[spot.0].2.is_err();
        let cut = self.cut(spot.0)?;
        // Of a log that is being removed the first segments are missing.
        let begins_synced = number == 0 && highest > 0 && self.is_last_start;
        if begins_synced || (number > 0 && number <= highest) || next_is_lost || this_is_lost || cut.is_some()
        {
            let damage = cut.unwrap_or(damage);
            let later = self.cursor.find(spot, number)?;
            let is_one = matches!(&later, Some((_, frame)) if number > 0 && frame.number == number + 1);
            if !self.damage.contains(&damage) {
                self.damage.push(damage.clone());
            }
            match is_one && !next_is_lost && !this_is_lost {
                true => self.replay.damaged_one(damage),
                false => self.replay.damaged(&damage),
            }
            self.batch.clear();
            return Ok(later.map(|(spot, frame)| (spot, frame.number)));
        }
        Ok(None)
    }

    fn segment_size(&mut self, segment: usize) -> Result<u64, StorageError> {
        self.cursor.open(segment)?;
        Ok(self.cursor.size())
    }
}

fn missing(worker: u16, number: u64) -> Damage {
    Damage::new(
        &segment::name(worker, number),
        0,
        "a segment",
        "no such file, although there is a later one",
    )
}

/// Reads the logs of all workers, of all starts. Of starts from the number `written_from` on, all that was written is there
/// ([`FoundRun::written_from`](crate::FoundRun::written_from)).
///
/// # Errors
/// What the disk answers; [`StorageError::Newer`] if a later version of Chorale wrote one of them; [`StorageError::Damaged`] if one is of another
/// node. Damage to what is ours is no error: it is told with what was found.
pub fn read_logs<D: Disk>(
    disk: &D,
    cluster: ClusterId,
    node: NodeId,
    written_from: Option<u64>,
) -> Result<FoundLogs, StorageError> {
    let names = disk.names().map_err(StorageError::io("list", "the directory"))?;
    let mut segments = Vec::new();
    let mut found = FoundLogs::default();
    for name in names {
        let Some(parsed) = segment::parse_name(&name) else {
            continue;
        };
        if parsed.is_segment {
            let head = read_head(disk, &name, cluster, node)?;
            segments.push((parsed, (name, parsed.number, head)));
        } else {
            found.segments.push(name);
        }
    }
    segments.sort_by_key(|(parsed, _)| *parsed);
    let mut chains = chains_of(segments);
    for chain in &mut chains {
        chain.drop_shared(disk)?;
    }
    found.start = chains.iter().map(|chain| chain.start).max().unwrap_or(0);
    for chain in &mut chains {
        // Nothing says of which start it was: it may be of the last one.
        if chain.start == 0 {
            chain.start = found.start;
        }
    }
    chains.sort_by_key(|chain| {
        (
            chain.start,
            chain.segments.last().map(|segment| segment.1),
            chain.worker,
        )
    });
    take_chains(disk, &chains, written_from, &mut found)?;
    Ok(found)
}

/// The segments of each worker, by number, parted by the starts that wrote them.
fn chains_of(segments: Vec<(SegmentName, Found)>) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for (parsed, segment) in segments {
        let start = segment.2.as_ref().ok().map(|head| head.start);
        let mut shared = None;
        match chains.last_mut().filter(|chain| chain.worker == parsed.worker) {
            // One whose head is damaged goes with those before it.
            Some(chain) if start.is_none_or(|start| start == chain.start || chain.start == 0) => {
                chain.start = start.unwrap_or(chain.start);
                chain.segments.push(segment);
                continue;
            }
            // And with those behind, of whose start it may be the first.
            Some(chain) => shared = chain.segments.last().filter(|last| last.2.is_err()).cloned(),
            None => {}
        }
        chains.push(Chain {
            worker: parsed.worker,
            start: start.unwrap_or(0),
            is_first_shared: shared.is_some(),
            segments: shared.into_iter().chain([segment]).collect(),
        });
    }
    chains
}

/// Reads chains in the order of their starts.
fn take_chains<D: Disk>(
    disk: &D,
    chains: &[Chain],
    written_from: Option<u64>,
    found: &mut FoundLogs,
) -> Result<(), StorageError> {
    // The start whose log said last what has become of a group.
    let mut told: BTreeMap<GroupId, u64> = BTreeMap::new();
    found.synced_to_end = !chains.is_empty();
    for chain in chains {
        let is_last_start = chain.start == found.start;
        let is_written = written_from.is_some_and(|from| chain.start >= from);
        let mut outcome = ChainReader::new(disk, chain, is_written, is_last_start).read()?;
        if outcome.is_headless && is_last_start && !is_written {
            // What is missing was synced, so it was written, and all before it.
            outcome = ChainReader::new(disk, chain, true, is_last_start).read()?;
        }
        found.synced_to_end &= outcome.synced_to_end || chain.start < found.start;
        // What stands behind the end goes first, from behind: it does not count because of what is missing before, and that would be
        // seen no more.
        let (counted, behind) = chain.segments.split_at(outcome.end + 1);
        for (name, ..) in behind.iter().rev().chain(counted) {
            if !found.segments.contains(name) {
                found.segments.push(name.clone());
            }
        }
        for damage in outcome.damage {
            if !found.damage.contains(&damage) {
                found.damage.push(damage);
            }
        }
        if let Some(damage) = &outcome.unclear {
            found.unclear.get_or_insert_with(|| damage.clone());
            for (group, start) in &mut told {
                if *start < chain.start {
                    found.replicas.remove(group);
                    found.damaged.insert(*group, damage.clone());
                }
            }
        }
        for (group, (fate, unused)) in outcome.fates {
            let is_elsewhere = told.get(&group).is_some_and(|start| *start == chain.start);
            // Of an earlier start: the logs of a later one stand, and this one was being removed.
            let is_gone = matches!(fate, Fate::Headless) && chain.start < found.start;
            if is_gone || (is_elsewhere && matches!(fate, Fate::Ended)) {
                continue;
            }
            told.insert(group, chain.start);
            found.replicas.remove(&group);
            found.damaged.remove(&group);
            found.unused.remove(&group);
            if unused != Unused::default() {
                found.unused.insert(group, unused);
            }
            match fate {
                Fate::Found(log, damage) => {
                    found.replicas.insert(group, *log);
                    found.starts.insert(group, chain.start);
                    found.damaged.extend(damage.map(|damage| (group, damage)));
                }
                Fate::Void(damage) => drop(found.damaged.insert(group, damage)),
                Fate::Ended => {}
                Fate::Headless => {
                    let expected =
                        format!("the record with which the log of group {} begins", group.number());
                    let damage = Damage::new(&chain.segments[0].0, BLOCK_BYTES, expected, "later ones");
                    found.damaged.insert(group, damage.clone());
                    found.damage.push(damage);
                }
            }
        }
    }
    Ok(())
}

/// The head of a segment, or what is wrong with it.
fn read_head<D: Disk>(
    disk: &D,
    name: &str,
    cluster: ClusterId,
    node: NodeId,
) -> Result<Result<SegmentHead, Damage>, StorageError> {
    let mut block = Vec::new();
    if let Some(file) = disk.open(name).map_err(StorageError::io("open", name))? {
        let size = file.size().map_err(StorageError::io("read", name))?;
        block.resize(size.min(BLOCK_BYTES) as usize, 0);
        file.read_at(0, &mut block)
            .map_err(StorageError::io("read", name))?;
    }
    let head = match SegmentHead::decode(name, &block) {
        Ok(head) => head,
        Err(StorageError::Damaged(damage)) => return Ok(Err(damage)),
        Err(error) => return Err(error),
    };
    if (head.cluster, head.node) != (cluster, node) {
        let show =
            |cluster: ClusterId, node: NodeId| format!("node {} of cluster {:032x}", node.0, cluster.0);
        return Err(Damage::new(name, 0, show(cluster, node), show(head.cluster, head.node)).into());
    }
    let is_its =
        segment::parse_name(name).is_none_or(|its| (its.worker, its.number) == (head.worker, head.number));
    // Of a file that is used again the head is written first: what stands there is of its use before, and nothing behind it would be found.
    Ok(match is_its {
        true => Ok(head),
        false => Err(Damage::new(
            name,
            0,
            "the head of this segment",
            format!("that of {}", head.name()),
        )),
    })
}
