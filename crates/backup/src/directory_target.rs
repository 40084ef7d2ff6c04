//! A directory of this machine as a target.
//!
//! A file is written under a temporary name in `tmp/`, synced, renamed, and the directory it is in is synced: one that has its name
//! is whole and durable. What an interrupted write leaves in `tmp/` the next backup removes once it is a day old.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::BackupError;
use crate::target::{BackupTarget, TargetFile, TargetFolder};

/// Where files are until they are whole.
const UNFINISHED: &str = "tmp";
/// After which nobody writes an unfinished file any more.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes from one hand to the other at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// A directory.
#[derive(Debug)]
pub struct DirectoryTarget {
    directory: PathBuf,
    name: String,
}

impl DirectoryTarget {
    /// The target in this directory, which is made with the first file that is written.
    pub fn new(directory: impl Into<PathBuf>) -> DirectoryTarget {
        let directory = directory.into();
        DirectoryTarget {
            name: directory.display().to_string(),
            directory,
        }
    }

    /// The same in a node's process, for whoever has asked the node.
    pub(crate) fn of_node(directory: &str) -> DirectoryTarget {
        DirectoryTarget {
            directory: directory.into(),
            name: format!("node:{directory}"),
        }
    }

    fn full(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }

    /// As errors call it.
    fn shown(&self, path: &str) -> String {
        self.full(path).display().to_string()
    }

    fn write_unfinished(
        &self,
        unfinished: &Path,
        path: &str,
        bytes: u64,
        from: &mut dyn Read,
    ) -> Result<(), BackupError> {
        let shown = self.shown(path);
        let mut file = File::create(unfinished).map_err(BackupError::io("write", &shown))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut written = 0;
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(BackupError::io("fetch what is to be", &shown)(error)),
            };
            file.write_all(&buffer[..count])
                .map_err(BackupError::io("write", &shown))?;
            written += count as u64;
        }
        if written != bytes {
            return Err(BackupError::Failed(format!(
                "{shown} was to have {bytes} bytes, and {written} came"
            )));
        }
        file.sync_all().map_err(BackupError::io("sync", &shown))?;
        let full = self.full(path);
        let folder = full.parent().expect("paths of a target have a folder");
        self.make(folder)
            .map_err(BackupError::io("make the folder of", &shown))?;
        fs::rename(unfinished, &full).map_err(BackupError::io("rename", &shown))?;
        sync_names(folder).map_err(BackupError::io("sync the names beside", &shown))
    }

    /// Makes a folder of the target, durably, and those above it.
    fn make(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            self.make(above)?;
        }
        match fs::create_dir(folder) {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        sync_names(above.unwrap_or(Path::new(".")))
    }

    /// Nobody goes on with a file that was begun a day ago.
    fn clean(&self) {
        let Ok(entries) = fs::read_dir(self.full(UNFINISHED)) else {
            return;
        };
        for entry in entries.flatten() {
            let age = entry.metadata().and_then(|data| data.modified());
            let age = age.ok().and_then(|modified| modified.elapsed().ok());
            if age.is_some_and(|age| age > UNFINISHED_AGE_MAX) {
                // It takes room, and nothing else: no reason to stop.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn sync_names(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A name that no other file in `tmp/` has.
fn unfinished_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    format!("{now:x}-{}-{number}", std::process::id())
}

impl BackupTarget for DirectoryTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&self) -> Result<(), BackupError> {
        let folder = self.full(UNFINISHED);
        let shown = folder.display().to_string();
        self.make(&folder).map_err(BackupError::io("make", &shown))?;
        let probe = folder.join(unfinished_name());
        File::create(&probe)
            .and_then(|_| fs::remove_file(&probe))
            .map_err(BackupError::io("write into", &shown))
    }

    fn list(&self, folder: TargetFolder) -> Result<Vec<TargetFile>, BackupError> {
        let prefix = folder.prefix();
        let mut files = Vec::new();
        for (name, entry) in entries(&self.full(prefix))? {
            let path = format!("{prefix}{name}");
            if folder == TargetFolder::Parts {
                files.extend(file_of(&path, &entry)?);
                continue;
            }
            if entry.is_dir() {
                for (name, inner) in entries(&entry)? {
                    files.extend(file_of(&format!("{path}/{name}"), &inner)?);
                }
            }
        }
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(files)
    }

    fn read(&self, path: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        let file = File::open(self.full(path)).map_err(BackupError::io("open", &self.shown(path)))?;
        Ok(Box::new(io::BufReader::with_capacity(BUFFER_BYTES, file)))
    }

    fn write(&self, path: &str, bytes: u64, from: &mut dyn Read) -> Result<(), BackupError> {
        let folder = self.full(UNFINISHED);
        self.make(&folder)
            .map_err(BackupError::io("make", &folder.display().to_string()))?;
        self.clean();
        let unfinished = folder.join(unfinished_name());
        let written = self.write_unfinished(&unfinished, path, bytes, from);
        if written.is_err() {
            // If this fails too, `clean` sees to it.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn remove(&self, path: &str) -> Result<(), BackupError> {
        let full = self.full(path);
        match fs::remove_file(&full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(BackupError::io("remove", &self.shown(path)))?,
        }
        let folder = full.parent().expect("paths of a target have a folder");
        if path.starts_with(TargetFolder::Backups.prefix()) && fs::remove_dir(folder).is_ok() {
            return Ok(());
        }
        sync_names(folder).map_err(BackupError::io("sync the names beside", &self.shown(path)))
    }

    fn refresh(&self, path: &str) -> Result<(), BackupError> {
        let shown = self.shown(path);
        let file = File::options().append(true).open(self.full(path));
        let file = file.map_err(BackupError::io("open", &shown))?;
        file.set_modified(SystemTime::now())
            .map_err(BackupError::io("touch", &shown))
    }

    fn exists(&self, path: &str) -> Result<Option<u64>, BackupError> {
        match fs::metadata(self.full(path)) {
            Ok(data) => Ok(data.is_file().then_some(data.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::io("look at", &self.shown(path))(error)),
        }
    }
}

/// Names and paths of what is in a folder; nothing if it is not there.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, BackupError> {
    let shown = folder.display().to_string();
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(BackupError::io("list", &shown))?,
    };
    let mut entries = Vec::new();
    for entry in listed {
        let entry = entry.map_err(BackupError::io("list", &shown))?;
        // What is not UTF-8 nobody here has written.
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((name, entry.path()));
        }
    }
    Ok(entries)
}

fn file_of(path: &str, full: &Path) -> Result<Option<TargetFile>, BackupError> {
    let data = match fs::metadata(full) {
        // Removed since it was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        data => data.map_err(BackupError::io("look at", &full.display().to_string()))?,
    };
    Ok(data.is_file().then(|| TargetFile {
        path: path.to_owned(),
        bytes: data.len(),
        modified: data.modified().ok(),
    }))
}
