//! What is asked of a disk.

use std::io;

/// The files of one directory.
///
/// Nothing is durable because a call returned, but for two: [`DiskFile::sync`] keeps what was written to a file, and
/// [`Disk::sync_names`] keeps which names there are.
pub trait Disk {
    /// An open file.
    type File: DiskFile;

    /// Makes an empty file, in place of one that has this name.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file to read; `None` if there is none.
    fn open(&self, name: &str) -> io::Result<Option<Self::File>>;

    /// The same, to write to it too.
    fn open_to_write(&self, name: &str) -> io::Result<Option<Self::File>>;

    /// The names of all files, in order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Which file has this name; `None` if none has.
    fn stamp(&self, name: &str) -> io::Result<Option<FileStamp>>;

    /// Renames a file, in place of one that has the new name, in one step.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a name away, if it is there. The file can be read on by those who have it open.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renamings and removals durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// Which file it is, whatever its name and content: a copy has another stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileStamp {
    /// Of the file system.
    pub device: u64,
    /// In it.
    pub inode: u64,
    /// When the file was made, in nanoseconds of Unix time; 0 where the file system does not say.
    pub born: u64,
}

impl FileStamp {
    /// Whether both are of one file. The numbers of devices may be others after the machine was started again; where it is known
    /// when files are made, they are not needed.
    pub fn is_surely(self, other: FileStamp) -> bool {
        let is_same = self.inode == other.inode && self.born == other.born;
        is_same && (self.born != 0 || self.device == other.device)
    }
}

/// One open file.
pub trait DiskFile {
    /// Bytes in the file.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes behind what was appended so far. After an error any part of it may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes at `offset`, in place of what stands there. What lies between the end of the file and `offset` is zero. After an
    /// error any part of it may be there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable. After an error nobody can know what is: a second call may succeed and mean
    /// nothing, so there must not be one.
    fn sync(&mut self) -> io::Result<()>;
}
