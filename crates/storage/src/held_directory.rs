//! A directory whose files get what was written to them when they are synced, for tests: until then it is in this process alone, and
//! so is which names there are. To be killed is to lose power.
//!
//! ```text
//!   write --> in memory --sync-------> the file, which may be called held-N
//!   names --> in memory --sync_names-> the directory
//! ```
//!
//! What was not synced is lost as a whole, and in order: [`SimDisk`](crate::SimDisk) loses some of it, and tears the rest.

use crate::disk::FileStamp;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What files are called that have no name yet.
const NAMELESS: &str = "held-";

/// See the file's header.
#[derive(Debug)]
pub(crate) struct HeldDirectory {
    path: PathBuf,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<String, Arc<Content>>,
    /// Not synced, in order.
    changes: Vec<Change>,
    /// Files that had no name, so far.
    nameless: u64,
}

#[derive(Debug)]
enum Change {
    Renamed(String, String),
    Removed(String),
}

#[derive(Debug)]
struct Content {
    file: File,
    held: Mutex<Unsynced>,
}

#[derive(Debug)]
struct Unsynced {
    size: u64,
    /// Not synced, in order.
    writes: Vec<(u64, Vec<u8>)>,
}

/// An open file of it.
#[derive(Debug)]
pub(crate) struct HeldFile(Arc<Content>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldDirectory {
    /// With what is there. Files without a name are gone.
    pub(crate) fn open(path: &Path) -> io::Result<HeldDirectory> {
        let mut names = Names::default();
        for entry in fs::read_dir(path)? {
            let Ok(name) = entry?.file_name().into_string() else {
                continue;
            };
            if name.starts_with(NAMELESS) {
                fs::remove_file(path.join(&name))?;
                continue;
            }
            let file = OpenOptions::new().read(true).write(true).open(path.join(&name))?;
            names.files.insert(name, content(file)?);
        }
        Ok(HeldDirectory {
            path: path.to_owned(),
            names: Mutex::new(names),
        })
    }

    pub(crate) fn create(&self, name: &str) -> io::Result<HeldFile> {
        let mut names = lock(&self.names);
        names.nameless += 1;
        let nameless = format!("{NAMELESS}{}", names.nameless);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let made = content(options.open(self.path.join(&nameless))?)?;
        names.files.insert(name.to_owned(), made.clone());
        names.changes.push(Change::Renamed(nameless, name.to_owned()));
        Ok(HeldFile(made))
    }

    pub(crate) fn open_file(&self, name: &str) -> Option<HeldFile> {
        lock(&self.names).files.get(name).cloned().map(HeldFile)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.names).files.keys().cloned().collect()
    }

    pub(crate) fn stamp(
        &self,
        name: &str,
        stamp: impl Fn(&fs::Metadata) -> FileStamp,
    ) -> io::Result<Option<FileStamp>> {
        let names = lock(&self.names);
        let metadata = names.files.get(name).map(|found| found.file.metadata());
        Ok(metadata.transpose()?.as_ref().map(stamp))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = lock(&self.names);
        let found = names.files.remove(from).ok_or(ErrorKind::NotFound)?;
        names.files.insert(to.to_owned(), found);
        names
            .changes
            .push(Change::Renamed(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) {
        let mut names = lock(&self.names);
        if names.files.remove(name).is_some() {
            names.changes.push(Change::Removed(name.to_owned()));
        }
    }

    pub(crate) fn sync_names(&self) -> io::Result<()> {
        let mut names = lock(&self.names);
        for change in std::mem::take(&mut names.changes) {
            match change {
                Change::Renamed(from, to) => fs::rename(self.path.join(from), self.path.join(to))?,
                Change::Removed(name) => fs::remove_file(self.path.join(name))?,
            }
        }
        Ok(())
    }
}

fn content(file: File) -> io::Result<Arc<Content>> {
    let held = Unsynced {
        size: file.metadata()?.len(),
        writes: Vec::new(),
    };
    Ok(Arc::new(Content {
        file,
        held: Mutex::new(held),
    }))
}

impl HeldFile {
    pub(crate) fn size(&self) -> u64 {
        lock(&self.0.held).size
    }

    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let held = lock(&self.0.held);
        let end = offset + buffer.len() as u64;
        if end > held.size {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let on_disk = self.0.file.metadata()?.len().clamp(offset, end) - offset;
        let (there, beyond) = buffer.split_at_mut(on_disk as usize);
        self.0.file.read_exact_at(there, offset)?;
        beyond.fill(0);
        for (at, bytes) in &held.writes {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let written = &bytes[(from - at) as usize..(to - at) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(written);
            }
        }
        Ok(())
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        let mut held = lock(&self.0.held);
        let end = held.size;
        held.write(end, bytes);
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) {
        lock(&self.0.held).write(offset, bytes);
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut held = lock(&self.0.held);
        for (at, bytes) in std::mem::take(&mut held.writes) {
            self.0.file.write_all_at(&bytes, at)?;
        }
        drop(held);
        // It takes as long as it takes.
        self.0.file.sync_data()
    }
}

impl Unsynced {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.size = self.size.max(offset + bytes.len() as u64);
        self.writes.push((offset, bytes.to_vec()));
    }
}
