//! A disk that fails, for simulations.
//!
//! It keeps two states: what is *seen*, by whoever reads it now, and what is *kept*, if the power goes. Between them lie
//! the changes that were not synced. When the power goes, each of them is kept or lost, whatever the order; of a write
//! some sectors may be kept and others not; of a file that grew, only the growth. Names are changed and kept on their
//! own: the sync of a file keeps no name.
//!
//! After a sync that failed the changes are seen, and stay so, but nobody will ever bring them to the disk: a second
//! sync succeeds and keeps nothing. That is how Linux behaves, and why an error of a sync is final.

use crate::disk::{Disk, DiskFile, FileStamp};
use ids::Prng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

/// Bytes that are kept or lost together.
const SECTOR_BYTES: usize = 512;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The power goes in the middle of the operation; all operations fail until [`SimDisk::restart`].
    PowerCut,
    /// The operation, or the first sync after it, fails; the disk goes on.
    SyncFails,
    /// From the operation on no file can grow.
    Full,
}

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
    fn operate(&mut self, is_sync: bool) -> io::Result<()> {
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
            Some((at, Fault::SyncFails)) if number >= at && is_sync => {
                self.fault = None;
                Err(io::Error::other("the disk failed a sync"))
            }
            Some((at, Fault::Full)) if number >= at => {
                self.is_full = true;
                Ok(())
            }
            _ => Ok(()),
        }
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
        let result = self.operate(false);
        if !was_off {
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
        state.operate(false)?;
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
        let state = self.0.borrow();
        if state.is_off {
            return Err(io::Error::other("the power is off"));
        }
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
        let result = state.operate(true);
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
        let result = state.operate(false);
        if was_off {
            return result;
        }
        let content = &mut *self.content.borrow_mut();
        let end = offset + bytes.len();
        // What stands in its place is room that the file has already.
        let has_room = !state.is_full || end <= content.seen.len();
        let (result, part) = match result {
            Ok(()) if !has_room => (Err(ErrorKind::StorageFull.into()), &bytes[..bytes.len() / 2]),
            result => (result, bytes),
        };
        content.changes.push((offset, part.to_vec()));
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
        if self.disk.0.borrow().is_off {
            return Err(io::Error::other("the power is off"));
        }
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
        let result = state.operate(true);
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
}
