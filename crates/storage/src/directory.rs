//! The data directory, and who may use it.

use crate::disk::{Disk, DiskFile, FileStamp};
use crate::error::StorageError;
use crate::held_directory::{HeldDirectory, HeldFile};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Locked as long as a process uses the directory. It is never removed: whoever opened it just before would hold a
/// lock that nobody else sees.
const LOCK: &str = "lock";
/// Bytes of the lock file that an error shows.
const HOLDER_BYTES_MAX: u64 = 64;

/// A directory that this process alone uses, until it is dropped or the process ends in whatever way.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    held: Option<Arc<HeldDirectory>>,
    /// The system lets go of the lock when this is closed.
    _lock: File,
}

/// The files of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryDisk {
    path: PathBuf,
    /// What was written and not synced is in this process alone, for a test.
    held: Option<Arc<HeldDirectory>>,
}

/// A file of a directory.
#[derive(Debug)]
pub struct DirectoryFile(Opened);

#[derive(Debug)]
enum Opened {
    File(File),
    Held(HeldFile),
}

impl DataDirectory {
    /// Makes the directory if it is not there, and locks it.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if another process has.
    pub fn open(path: &Path) -> Result<DataDirectory, StorageError> {
        let shown = path.display().to_string();
        let is_new = !path.exists();
        // The identity holds the cluster's secret: it is for the owner alone.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(StorageError::io("make the directory", &shown))?;
        if is_new {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_directory(parent.unwrap_or(Path::new(".")))
                .map_err(StorageError::io("sync the parent of", &shown))?;
        }
        let lock_path = path.join(LOCK);
        let shown = lock_path.display().to_string();
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(StorageError::io("open", &shown))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message; without it the message is shorter.
                drop((&mut lock).take(HOLDER_BYTES_MAX).read_to_string(&mut holder));
                return Err(StorageError::Locked {
                    directory: path.to_owned(),
                    holder: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(StorageError::io("lock", &shown)(error)),
        }
        let sign = |lock: &mut File| {
            lock.set_len(0)?;
            lock.seek(SeekFrom::Start(0))?;
            writeln!(lock, "process {}", std::process::id())
        };
        sign(&mut lock).map_err(StorageError::io("write", &shown))?;
        Ok(DataDirectory {
            path: path.to_owned(),
            held: None,
            _lock: lock,
        })
    }

    /// From here on files get what was written to them when they are synced, and the directory their names: for a test, in which the
    /// end of the process is to be like a loss of power.
    ///
    /// # Errors
    /// What the system answers.
    pub fn hold(&mut self) -> io::Result<()> {
        self.held = Some(Arc::new(HeldDirectory::open(&self.path)?));
        Ok(())
    }

    /// The files in it. Only to be used while the directory is locked.
    pub fn disk(&self) -> DirectoryDisk {
        DirectoryDisk {
            path: self.path.clone(),
            held: self.held.clone(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl DirectoryDisk {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what is not synced is lost with the process ([`DataDirectory::hold`]).
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }
}

fn stamp_of(metadata: &Metadata) -> FileStamp {
    let born = metadata
        .created()
        .ok()
        .and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        born: born.map_or(0, |born| born.as_nanos() as u64),
    }
}

/// `None` where there is no such file.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Disk for DirectoryDisk {
    type File = DirectoryFile;

    fn create(&self, name: &str) -> io::Result<DirectoryFile> {
        if let Some(held) = &self.held {
            return Ok(DirectoryFile(Opened::Held(held.create(name)?)));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.mode(0o600).open(self.path.join(name))?;
        Ok(DirectoryFile(Opened::File(file)))
    }

    fn open(&self, name: &str) -> io::Result<Option<DirectoryFile>> {
        if self.held.is_some() {
            return self.open_to_write(name);
        }
        let opened = File::open(self.path.join(name));
        found(opened.map(|file| DirectoryFile(Opened::File(file))))
    }

    fn open_to_write(&self, name: &str) -> io::Result<Option<DirectoryFile>> {
        if let Some(held) = &self.held {
            return Ok(held.open_file(name).map(|file| DirectoryFile(Opened::Held(file))));
        }
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).open(self.path.join(name));
        found(opened.map(|file| DirectoryFile(Opened::File(file))))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        if let Some(held) = &self.held {
            return Ok(held.names());
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // Ours are plain text.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>> {
        if let Some(held) = &self.held {
            return held.stamp(name, stamp_of);
        }
        let metadata = found(std::fs::metadata(self.path.join(name)))?;
        Ok(metadata.as_ref().map(stamp_of))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if let Some(held) = &self.held {
            return held.rename(from, to);
        }
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if let Some(held) = &self.held {
            held.remove(name);
            return Ok(());
        }
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        match &self.held {
            Some(held) => held.sync_names(),
            None => sync_directory(&self.path),
        }
    }
}

impl DiskFile for DirectoryFile {
    fn size(&self) -> io::Result<u64> {
        match &self.0 {
            Opened::File(file) => Ok(file.metadata()?.len()),
            Opened::Held(held) => Ok(held.size()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match &self.0 {
            Opened::File(file) => file.read_exact_at(buffer, offset),
            Opened::Held(held) => held.read_at(offset, buffer),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Opened::File(file) => file.write_all(bytes),
            Opened::Held(held) => {
                held.append(bytes);
                Ok(())
            }
        }
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.0 {
            Opened::File(file) => file.write_all_at(bytes, offset),
            Opened::Held(held) => {
                held.write_at(offset, bytes);
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match &self.0 {
            Opened::File(file) => file.sync_data(),
            Opened::Held(held) => held.sync(),
        }
    }
}
