//! A disk that fails, for simulations.
//!
//! It keeps two states: what is *seen*, by whoever reads it now, and what is *kept*, if the power goes. Between them lie
//! the changes that were not synced. When the power goes, each of them is kept or lost, whatever the order; of a write
//! some sectors may be kept and others not; of a file that grew, only the growth. Names are changed and kept on their
//! own: the sync of a file keeps no name.
//!
//! After a sync that failed the changes are seen, and stay so, but nobody will ever bring them to the disk: a second
//! sync succeeds and keeps nothing. That is how Linux behaves, and why an error of a sync is final.
//!
//! A disk that lies ([`Fault::Lost`], [`Fault::Misdirected`], [`Fault::Flipped`]) says that it has kept what it was told to. Whoever reads sees
//! the right bytes as long as the machine runs, because it has them in memory, and what the disk has made of them afterwards.

use crate::disk::{Disk, DiskFile, FileStamp};
use ids::Prng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

/// Bytes that are kept or lost together.
const SECTOR_BYTES: usize = 512;
/// Bytes that go to another place together.
const BLOCK_BYTES: usize = 4096;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The power goes in the middle of the operation; all operations fail until [`SimDisk::restart`].
    PowerCut,
    /// The operation, or the first sync after it, fails; the disk goes on.
    SyncFails,
    /// From the operation on no file can grow.
    Full,
    /// The operation fails; the disk goes on. Of a write any part may be there, and whether a name was changed nobody knows.
    Fails,
    /// From the operation on the first thing that is read cannot be; the disk goes on.
    ReadFails,
    /// From the operation on no sync ends, the first one neither, until [`SimDisk::let_go`]: whoever syncs is to see to it.
    Hangs,
    /// The operation, or the first write after it, never comes to the disk.
    Lost,
    /// The same goes to another block of this file, or of another one, in place of what stands there.
    Misdirected,
    /// A bit of the same is another one.
    Flipped,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Names,
    Write,
    Sync,
}

/// The files of a disk, as they were seen at one moment.
#[derive(Clone, Debug)]
pub struct DiskCopy(BTreeMap<String, (FileStamp, Vec<u8>)>);

/// A disk, shared by its clones.
#[derive(Clone, Debug)]
pub struct SimDisk(Rc<RefCell<State>>);

/// An open file of a [`SimDisk`]. A restart closes it.
#[derive(Debug)]
pub struct SimFile {
    content: Rc<RefCell<Content>>,
    disk: SimDisk,
    restarts: u64,
}

#[derive(Debug)]
struct State {
    prng: Prng,
    seen: BTreeMap<String, Rc<RefCell<Content>>>,
    kept: BTreeMap<String, Rc<RefCell<Content>>>,
    /// Changes of names that were not synced.
    changes: Vec<Change>,
    /// Operations that change something, so far.
    operations: u64,
    fault: Option<(u64, Fault)>,
    is_off: bool,
    is_full: bool,
    /// What each sync takes longer.
    delay: Duration,
    /// No sync ends.
    hangs: bool,
    /// Something that was synced may be other than it was.
    is_harmed: bool,
    restarts: u64,
    /// Files that were made, so far.
    births: u64,
}

#[derive(Debug, Default)]
struct Content {
    stamp: FileStamp,
    seen: Vec<u8>,
    kept: Vec<u8>,
    /// Offsets and bytes that were not synced.
    changes: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Change {
    Named(String, Rc<RefCell<Content>>),
    Renamed(String, String, Rc<RefCell<Content>>),
    Removed(String),
}

type Names = BTreeMap<String, Rc<RefCell<Content>>>;

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Change::Named(name, content) => {
                names.insert(name.clone(), content.clone());
            }
            Change::Renamed(from, to, content) => {
                names.remove(from);
                names.insert(to.clone(), content.clone());
            }
            Change::Removed(name) => {
                names.remove(name);
            }
        }
    }
}

impl Content {
    /// Decides the fate of every change that was not synced.
    fn settle(&mut self, prng: &mut Prng) {
        for (offset, bytes) in std::mem::take(&mut self.changes) {
            let fate = prng.below(4);
            if fate == 0 {
                continue;
            }
            let end = offset + bytes.len();
            // The size may be kept without the bytes.
            if fate != 1 && prng.below(2) == 0 && self.kept.len() < end {
                self.kept.resize(end, 0);
            }
            let mut at = offset;
            while at < end {
                let piece_end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                if fate == 1 || prng.below(2) == 0 {
                    if self.kept.len() < piece_end {
                        self.kept.resize(piece_end, 0);
                    }
                    self.kept[at..piece_end].copy_from_slice(&bytes[at - offset..piece_end - offset]);
                }
                at = piece_end;
            }
        }
    }
}

impl State {
    /// Begins an operation that changes something.
    fn operate(&mut self, kind: Kind) -> io::Result<()> {
        if self.is_off {
            return Err(io::Error::other("the power is off"));
        }
        let number = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, Fault::PowerCut)) if number >= at => {
                self.is_off = true;
                self.fault = None;
                Err(io::Error::other("the power went"))
            }
            Some((at, Fault::SyncFails)) if number >= at && kind == Kind::Sync => {
                self.fault = None;
                Err(io::Error::other("the disk failed a sync"))
            }
            Some((at, Fault::Fails)) if number >= at => {
                self.fault = None;
                Err(io::Error::other("the disk failed"))
            }
            Some((at, Fault::Hangs)) if number >= at && kind == Kind::Sync => {
                self.fault = None;
                self.hangs = true;
                Ok(())
            }
            Some((at, Fault::Full)) if number >= at => {
                self.is_full = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// How the disk lies about the write that begins.
    fn lie(&mut self) -> Option<Fault> {
        let (at, fault) = self.fault?;
        let is_lie = matches!(fault, Fault::Lost | Fault::Misdirected | Fault::Flipped);
        if !is_lie || self.operations < at {
            return None;
        }
        (self.fault, self.is_harmed) = (None, true);
        Some(fault)
    }

    /// Begins to read.
    fn read(&mut self) -> io::Result<()> {
        if self.is_off {
            return Err(io::Error::other("the power is off"));
        }
        match self.fault {
            Some((at, Fault::ReadFails)) if self.operations >= at => {
                self.fault = None;
                Err(io::Error::other("the disk cannot read that"))
            }
            _ => Ok(()),
        }
    }

    /// Brings bytes that belong to `offset` of a file to another block of some file, as many as have room there. The place is drawn.
    fn misdirect(&mut self, of: &Rc<RefCell<Content>>, offset: usize, bytes: &[u8]) {
        let blocks = |content: &Rc<RefCell<Content>>| content.borrow().kept.len() / BLOCK_BYTES;
        let files = self.kept.values().filter(|content| blocks(content) > 1);
        let files: Vec<Rc<RefCell<Content>>> = files.cloned().collect();
        if files.is_empty() {
            return;
        }
        let file = &files[self.prng.below(files.len() as u64) as usize];
        let count = blocks(file) as u64;
        let own = if Rc::ptr_eq(file, of) {
            offset / BLOCK_BYTES
        } else {
            usize::MAX
        };
        let mut block = self.prng.below(count) as usize;
        if block == own {
            block = (block + 1) % count as usize;
        }
        let place = block * BLOCK_BYTES + offset % BLOCK_BYTES;
        let kept = &mut file.borrow_mut().kept;
        let end = (place + bytes.len()).min(kept.len());
        kept[place..end].copy_from_slice(&bytes[..end - place]);
    }

    fn next_stamp(&mut self) -> FileStamp {
        self.births += 1;
        FileStamp {
            device: 1,
            inode: self.births,
            born: self.births,
        }
    }

    /// Changes a name. Whoever does so when the power goes cannot know whether it was done.
    fn change(&mut self, change: Change) -> io::Result<()> {
        let was_off = self.is_off;
        let result = self.operate(Kind::Names);
        let is_done = result.is_ok() || self.is_off || self.prng.below(2) == 0;
        if !was_off && is_done {
            change.apply(&mut self.seen);
            self.changes.push(change);
        }
        result
    }

    fn settle_names(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            if self.prng.below(2) == 0 {
                change.apply(&mut self.kept);
            }
        }
    }
}

impl SimDisk {
    /// An empty disk. What is kept when the power goes follows from `seed`.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk(Rc::new(RefCell::new(State {
            prng: Prng::new(seed),
            seen: BTreeMap::new(),
            kept: BTreeMap::new(),
            changes: Vec::new(),
            operations: 0,
            fault: None,
            is_off: false,
            is_full: false,
            delay: Duration::ZERO,
            hangs: false,
            is_harmed: false,
            restarts: 0,
            births: 0,
        })))
    }

    /// Operations that changed something, so far.
    pub fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    /// Lets the operation with this number, counted from 0 since the disk was new, go wrong; `None` takes it back.
    pub fn plan(&self, fault: Option<(u64, Fault)>) {
        self.0.borrow_mut().fault = fault;
    }

    /// How often the power has gone and come back.
    pub fn restarts(&self) -> u64 {
        self.0.borrow().restarts
    }

    /// Whether the power has not gone.
    pub fn has_power(&self) -> bool {
        !self.0.borrow().is_off
    }

    /// Whether no file can grow.
    pub fn is_full(&self) -> bool {
        self.0.borrow().is_full
    }

    /// Each sync takes so much longer from here on: whoever syncs is to see to it.
    pub fn slow_down(&self, delay: Duration) {
        self.0.borrow_mut().delay = delay;
    }

    /// By how much syncs are slowed down.
    pub fn delay(&self) -> Duration {
        self.0.borrow().delay
    }

    /// Whether no sync ends.
    pub fn hangs(&self) -> bool {
        self.0.borrow().hangs
    }

    /// Syncs end again.
    pub fn let_go(&self) {
        self.0.borrow_mut().hangs = false;
    }

    /// Whether something that was synced may be other than it was: the disk has lied, or somebody has put files there.
    pub fn is_harmed(&self) -> bool {
        self.0.borrow().is_harmed
    }

    /// The files as they are seen.
    pub fn copy(&self) -> DiskCopy {
        let state = self.0.borrow();
        let files = state.seen.iter().map(|(name, content)| {
            let content = content.borrow();
            (name.clone(), (content.stamp, content.seen.clone()))
        });
        DiskCopy(files.collect())
    }

    /// Puts a copy in place of all files but those with the names `but`, durably. Its files are made anew; `is_image` says that they are those that
    /// were copied, as where a whole disk is put back. Nobody is to have a file open.
    pub fn put_back(&self, copy: &DiskCopy, is_image: bool, but: &[&str]) {
        let state = &mut *self.0.borrow_mut();
        state.changes.clear();
        state.seen.retain(|name, content| {
            let content = &mut *content.borrow_mut();
            content.changes.clear();
            content.kept.clone_from(&content.seen);
            but.contains(&name.as_str())
        });
        for (name, (stamp, bytes)) in copy.0.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
            let content = Content {
                stamp: if is_image { *stamp } else { state.next_stamp() },
                seen: bytes.clone(),
                kept: bytes.clone(),
                changes: Vec::new(),
            };
            state.seen.insert(name.clone(), Rc::new(RefCell::new(content)));
        }
        state.kept = state.seen.clone();
    }

    /// Somebody removes what the disk was full of.
    pub fn make_room(&self) {
        self.0.borrow_mut().is_full = false;
    }

    /// The power goes, if it has not gone yet, and comes back: what is kept is what is seen, open files are closed, and
    /// there is room again.
    pub fn restart(&self) {
        let state = &mut *self.0.borrow_mut();
        let pending = std::mem::take(&mut state.changes);
        let named = pending.iter().filter_map(|change| match change {
            Change::Named(_, content) | Change::Renamed(_, _, content) => Some(content),
            Change::Removed(_) => None,
        });
        for content in named.chain(state.kept.values()) {
            // A content with two names is settled once: its changes are gone then.
            content.borrow_mut().settle(&mut state.prng);
        }
        state.changes = pending;
        state.settle_names();
        for content in state.kept.values() {
            let content = &mut *content.borrow_mut();
            content.seen.clone_from(&content.kept);
        }
        state.seen = state.kept.clone();
        state.fault = None;
        state.is_off = false;
        state.is_full = false;
        state.hangs = false;
        state.restarts += 1;
    }

    /// What a file holds, as it is seen; `None` if there is none.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.0.borrow();
        state.seen.get(name).map(|content| content.borrow().seen.clone())
    }

    /// Puts a file there, durably: what somebody else wrote, or damage.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let state = &mut *self.0.borrow_mut();
        state.is_harmed = true;
        let content = Rc::new(RefCell::new(Content {
            stamp: state.next_stamp(),
            seen: bytes.to_vec(),
            kept: bytes.to_vec(),
            changes: Vec::new(),
        }));
        state.seen.insert(name.to_owned(), content.clone());
        state.kept.insert(name.to_owned(), content);
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let state = &mut *self.0.borrow_mut();
        state.operate(Kind::Names)?;
        if state.is_full {
            return Err(ErrorKind::StorageFull.into());
        }
        let content = Rc::new(RefCell::new(Content {
            stamp: state.next_stamp(),
            ..Content::default()
        }));
        let change = Change::Named(name.to_owned(), content.clone());
        change.apply(&mut state.seen);
        state.changes.push(change);
        Ok(SimFile {
            content,
            disk: self.clone(),
            restarts: state.restarts,
        })
    }

    fn open(&self, name: &str) -> io::Result<Option<SimFile>> {
        let state = &mut *self.0.borrow_mut();
        state.read()?;
        Ok(state.seen.get(name).map(|content| SimFile {
            content: content.clone(),
            disk: self.clone(),
            restarts: state.restarts,
        }))
    }

    fn open_to_write(&self, name: &str) -> io::Result<Option<SimFile>> {
        self.open(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let state = self.0.borrow();
        match state.is_off {
            true => Err(io::Error::other("the power is off")),
            false => Ok(state.seen.keys().cloned().collect()),
        }
    }

    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        let state = self.0.borrow();
        Ok(state.seen.get(name).map(|content| content.borrow().stamp))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let content = state.seen.get(from).cloned().ok_or(ErrorKind::NotFound)?;
        state.change(Change::Renamed(from.to_owned(), to.to_owned(), content))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.change(Change::Removed(name.to_owned()))
    }

    fn sync_names(&self) -> io::Result<()> {
        let state = &mut *self.0.borrow_mut();
        let was_off = state.is_off;
        let result = state.operate(Kind::Sync);
        match result {
            Ok(()) => std::mem::take(&mut state.changes)
                .iter()
                .for_each(|change| change.apply(&mut state.kept)),
            Err(_) if was_off || state.is_off => {}
            Err(_) => state.settle_names(),
        }
        result
    }
}

impl SimFile {
    fn check(&self) -> io::Result<()> {
        if self.restarts == self.disk.0.borrow().restarts {
            Ok(())
        } else {
            Err(io::Error::other("a restart closed this file"))
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        let state = &mut *self.disk.0.borrow_mut();
        let was_off = state.is_off;
        let lie = state.lie();
        let result = state.operate(Kind::Write);
        if was_off {
            return result;
        }
        if lie == Some(Fault::Misdirected) {
            state.misdirect(&self.content, offset, bytes);
        }
        let content = &mut *self.content.borrow_mut();
        let end = offset + bytes.len();
        // What stands in its place is room that the file has already.
        let has_room = !state.is_full || end <= content.seen.len();
        let (result, part) = match result {
            Ok(()) if !has_room => (Err(ErrorKind::StorageFull.into()), &bytes[..bytes.len() / 2]),
            Err(error) if !state.is_off => {
                let count = state.prng.below(bytes.len() as u64 + 1) as usize;
                (Err(error), &bytes[..count])
            }
            result => (result, bytes),
        };
        match lie {
            Some(Fault::Flipped) if !part.is_empty() => {
                let mut flipped = part.to_vec();
                let at = state.prng.below(part.len() as u64) as usize;
                flipped[at] ^= 1 << state.prng.below(8);
                content.changes.push((offset, flipped));
            }
            // The file is as long as it was told to be.
            Some(_) => {
                let end = offset + part.len();
                if content.kept.len() < end {
                    content.kept.resize(end, 0);
                }
            }
            None => content.changes.push((offset, part.to_vec())),
        }
        let end = offset + part.len();
        if content.seen.len() < end {
            content.seen.resize(end, 0);
        }
        content.seen[offset..end].copy_from_slice(part);
        result
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        self.check()?;
        Ok(self.content.borrow().seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.check()?;
        self.disk.0.borrow_mut().read()?;
        let content = self.content.borrow();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let range = start..start.saturating_add(buffer.len());
        buffer.copy_from_slice(content.seen.get(range).ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.content.borrow().seen.len();
        self.write(end, bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(usize::try_from(offset).map_err(io::Error::other)?, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.check()?;
        let state = &mut *self.disk.0.borrow_mut();
        let was_off = state.is_off;
        let result = state.operate(Kind::Sync);
        let content = &mut *self.content.borrow_mut();
        match result {
            Ok(()) => {
                for (offset, bytes) in std::mem::take(&mut content.changes) {
                    let end = offset + bytes.len();
                    if content.kept.len() < end {
                        content.kept.resize(end, 0);
                    }
                    content.kept[offset..end].copy_from_slice(&bytes);
                }
            }
            Err(_) if was_off || state.is_off => {}
            Err(_) => content.settle(&mut state.prng),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(disk: &SimDisk) -> SimFile {
        let mut file = disk.create("a").unwrap();
        file.append(&[7; 2_000]).unwrap();
        file
    }

    #[test]
    fn what_is_synced_with_its_name_is_kept() {
        for seed in 0..50 {
            let disk = SimDisk::new(seed);
            let mut file = written(&disk);
            file.sync().unwrap();
            disk.sync_names().unwrap();
            file.append(b"more").unwrap();
            disk.restart();
            let content = disk.content("a").unwrap();
            assert_eq!(content[..2_000], [7; 2_000]);
            assert!(file.append(b"x").is_err(), "the file was closed");
        }
    }

    #[test]
    fn what_is_not_synced_has_every_fate() {
        let fates: Vec<Option<Vec<u8>>> = (0..200)
            .map(|seed| {
                let disk = SimDisk::new(seed);
                written(&disk);
                disk.restart();
                disk.content("a")
            })
            .collect();
        let has = |what: &dyn Fn(&[u8]) -> bool| fates.iter().flatten().any(|bytes| what(bytes));
        assert!(fates.contains(&None), "no name");
        assert!(has(&|bytes| bytes.is_empty()), "no bytes");
        assert!(has(&|bytes| bytes == [7; 2_000]), "all of it");
        assert!(has(&|bytes| bytes.len() == 2_000 && bytes.contains(&0)), "torn");
        assert!(has(&|bytes| !bytes.is_empty() && bytes.len() < 2_000), "cut");
    }

    #[test]
    fn a_second_sync_after_a_failed_one_succeeds_and_means_nothing() {
        let is_lost = |seed| {
            let disk = SimDisk::new(seed);
            disk.sync_names().unwrap();
            let mut file = written(&disk);
            disk.sync_names().unwrap();
            disk.plan(Some((0, Fault::SyncFails)));
            assert!(file.sync().is_err());
            assert!(file.sync().is_ok());
            assert_eq!(disk.content("a").unwrap(), [7; 2_000]);
            disk.restart();
            disk.content("a").unwrap() != [7; 2_000]
        };
        assert!((0..20).any(is_lost));
    }

    #[test]
    fn of_a_write_that_fails_a_part_is_there() {
        let sizes: Vec<usize> = (0..100)
            .map(|seed| {
                let disk = SimDisk::new(seed);
                let mut file = written(&disk);
                disk.plan(Some((2, Fault::Fails)));
                assert!(file.append(&[8; 3]).is_err());
                file.append(&[9; 3]).unwrap();
                disk.content("a")
                    .unwrap()
                    .iter()
                    .filter(|byte| **byte == 8)
                    .count()
            })
            .collect();
        assert!((0..4).all(|size| sizes.contains(&size)), "{sizes:?}");
    }

    #[test]
    fn a_name_that_could_not_be_changed_may_have_been() {
        let is_renamed = |seed| {
            let disk = SimDisk::new(seed);
            written(&disk);
            disk.plan(Some((2, Fault::Fails)));
            assert!(disk.rename("a", "b").is_err());
            assert_ne!(disk.content("a").is_some(), disk.content("b").is_some());
            disk.content("b").is_some()
        };
        assert!((0..20).any(is_renamed) && !(0..20).all(is_renamed));
    }

    #[test]
    fn what_cannot_be_read_can_be_read_again() {
        let disk = SimDisk::new(0);
        let file = written(&disk);
        disk.plan(Some((0, Fault::ReadFails)));
        let mut bytes = [0; 10];
        assert!(file.read_at(0, &mut bytes).is_err());
        assert!(file.read_at(0, &mut bytes).is_ok());
        assert_eq!(bytes, [7; 10]);
    }

    /// Two files of three blocks, of which one is written to when the disk lies: what is seen before the power goes, and after.
    fn lied_to(seed: u64, fault: Fault) -> [(Vec<u8>, Vec<u8>); 2] {
        let disk = SimDisk::new(seed);
        let mut files = ["a", "b"].map(|name| {
            let mut file = disk.create(name).unwrap();
            file.append(&[0; 3 * BLOCK_BYTES]).unwrap();
            file.sync().unwrap();
            file
        });
        disk.sync_names().unwrap();
        disk.plan(Some((disk.operations(), fault)));
        files[0].write_at(BLOCK_BYTES as u64, &[7; BLOCK_BYTES]).unwrap();
        files[0].write_at(2 * BLOCK_BYTES as u64, &[8; 10]).unwrap();
        files.iter_mut().for_each(|file| file.sync().unwrap());
        assert!(disk.is_harmed());
        let seen = ["a", "b"].map(|name| disk.content(name).unwrap());
        disk.restart();
        let [a, b] = seen;
        [(a, disk.content("a").unwrap()), (b, disk.content("b").unwrap())]
    }

    #[test]
    fn a_disk_that_lies_is_believed_until_the_power_goes() {
        let own = BLOCK_BYTES..2 * BLOCK_BYTES;
        let (mut elsewhere, mut inside) = (0, 0);
        for seed in 0..40 {
            let [(seen, kept), _] = lied_to(seed, Fault::Lost);
            assert_eq!(seen[own.clone()], [7; BLOCK_BYTES]);
            assert_eq!(kept[own.clone()], [0; BLOCK_BYTES]);
            assert_eq!(kept[own.end..own.end + 10], [8; 10], "what follows is kept");
            let [(seen, kept), _] = lied_to(seed, Fault::Flipped);
            let differ = seen.iter().zip(&kept).filter(|(seen, kept)| seen != kept);
            let bits = differ.map(|(seen, kept)| (seen ^ kept).count_ones());
            assert_eq!(bits.collect::<Vec<_>>(), [1]);
            let [(seen, kept), (_, other)] = lied_to(seed, Fault::Misdirected);
            assert_eq!(seen[own.clone()], [7; BLOCK_BYTES]);
            assert_eq!(kept[own.clone()], [0; BLOCK_BYTES]);
            let sevens = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == 7).count();
            inside += usize::from(sevens(&kept) > 0);
            elsewhere += usize::from(sevens(&other) == BLOCK_BYTES);
        }
        assert!(inside > 5 && elsewhere > 5, "{inside} {elsewhere}");
    }

    #[test]
    fn a_copy_that_is_put_back_has_other_files_and_an_image_the_same() {
        let disk = SimDisk::new(0);
        let mut file = written(&disk);
        disk.put("stays", b"old");
        let (copy, stamp) = (disk.copy(), disk.stamp("a").unwrap());
        file.append(b"more").unwrap();
        disk.put("stays", b"new");
        disk.put("later", b"new");
        for is_image in [false, true] {
            disk.put_back(&copy, is_image, &["stays"]);
            assert_eq!(disk.names().unwrap(), ["a", "stays"]);
            assert_eq!(disk.content("a").unwrap(), [7; 2_000]);
            assert_eq!(disk.content("stays").unwrap(), b"new");
            assert_eq!(disk.stamp("a").unwrap() == stamp, is_image);
            disk.restart();
            assert_eq!(disk.content("a").unwrap(), [7; 2_000], "it is durable");
        }
    }
}
