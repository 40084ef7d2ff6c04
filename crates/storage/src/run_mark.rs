//! The mark of a run: which start uses the directory, on which boot of the kernel, and whether it ended well.
//!
//! ```text
//!  start:   read `run` and `clean` --> add this start --> the cluster counts it
//!           --> write `run` as its owner's, remove `clean` --> logs begin, and anything that is relied on
//!  stop:    sync everything --> write `clean`
//!  error of the disk:  rename `run` to `run-failed`
//!  another mode:  write `run` with it; a weaker one before anything is acknowledged in it, a stronger one when that is true of all
//!           that was acknowledged
//! ```
//!
//! Two text files, so that an operator can read them:
//!
//! ```text
//! chorale run 1                                 chorale clean 1
//! kernel 5d0c2f6b8e9a41d3b5f00c6a9e1d2c3b       start 0000000000000000000000000000002a
//! durability 1                                  checksum 4a1f0c22
//! failed 0
//! copied 0
//! doubted 0
//! stamp 2049 131 1764186172000000000
//! owner 0000000000000000000000000000002a
//! start 00000000000000000000000000000029
//! start 0000000000000000000000000000002a
//! checksum 4a1f0c22
//! ```
//!
//! The start after reads from them what may be gone of what was written and not synced: nothing if `clean` names the last
//! start, nothing if the kernel still runs that held it. And it reads whether the directory is the one that was written, or a
//! copy of it: a copy of `run` says which file it was, and is another. A start that ends before it has written anything of its own
//! leaves all of that as it was: what may be gone, may be gone for the start after it, too.
//!
//! 1. `run` is whole: the old one or the new one, whenever the power goes.
//! 2. `clean` counts for one start, the owner that `run` names: one that is left over says nothing of a later start. Where `run`
//!    is missing nothing counts.
//! 3. What is in doubt stays so: until a start owns the directory by what the mark says of the owner, and from then on by the number of
//!    the last start of which anything may be gone that was acknowledged (`doubted`), or anything that was written (a line `torn 2` behind it,
//!    where that is a later one: what only counts when it is synced has been lost by nobody, and is no damage).

use crate::disk::{Disk, DiskFile, FileStamp};
use crate::error::StorageError;
use crate::log::sync_logs;
use crate::replace::{Replacement, new_name};
use codec::Damage;
use ids::Token;
use mutations::Mutation;
use std::fmt::Write as _;

const RUN: &str = "run";
/// The name of `run` when what was written may be gone, whatever the kernel says.
const FAILED: &str = "run-failed";
const CLEAN: &str = "clean";
const RUN_TITLE: &str = "chorale run 1";
const CLEAN_TITLE: &str = "chorale clean 1";
/// Bytes of the longest of both files; a longer one is none.
const BYTES_MAX: u64 = 4_096;
/// Starts that a mark names. Of more the first and the last ones are written: the directory counts as a copy if the cluster has
/// counted one of the others last.
const STARTS_MAX: usize = 64;

/// One boot of the kernel, by the identifier that it gives itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelBoot(pub [u8; 16]);

impl KernelBoot {
    /// That of a kernel that gives itself none.
    pub const UNKNOWN: KernelBoot = KernelBoot([0; 16]);

    /// Whether the kernel has certainly not been started again between the two: never, where one is unknown.
    pub fn is_surely(self, other: KernelBoot) -> bool {
        self == other && self != KernelBoot::UNKNOWN
    }
}

/// Which start uses the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunMark {
    /// The start that wrote last.
    pub owner: Token,
    /// The kernel that it ran on.
    pub kernel: KernelBoot,
    /// The last start that the cluster has counted, as far as known, and those after it; the present one last.
    pub starts: Vec<Token>,
    /// What is acknowledged when: 0 `memory`, 1 `relaxed`, 2 `strict`.
    pub durability: u8,
    /// Whether a write or a sync of the owner failed.
    pub has_failed: bool,
    /// Whether the directory was found to be a copy since the owner wrote.
    pub is_copied: bool,
    /// What stands in the logs of starts up to this number may lack something.
    pub doubted: u64,
    /// What was written last in the logs of starts up to this number, or of doubted ones, may be missing.
    pub torn: u64,
    /// Which file it was written to.
    pub stamp: FileStamp,
}

/// What a start finds of the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRun {
    /// Its mark.
    pub mark: RunMark,
    /// Whether the mark was written to another file, or one before it was: the directory is a copy, or was put back.
    pub is_copy: bool,
    /// Whether it ended with everything synced.
    pub is_clean: bool,
    /// Whether a write or a sync of it failed: what can be read may not be what is on disk.
    pub has_failed: bool,
}

impl FoundRun {
    /// Whether something may be gone that was written and not synced, for a start on `kernel`.
    pub fn is_unclean(&self, kernel: KernelBoot) -> bool {
        self.may_lack(kernel) && !mutations::is(Mutation::UncleanIgnored)
    }

    /// Up to which start the logs may lack what was written last, if the last that has one is `start`, for a start on `kernel`.
    pub fn torn_upto(&self, start: u64, kernel: KernelBoot) -> u64 {
        match self.written_from(kernel) {
            None if mutations::is(Mutation::TornForgotten) => 0,
            None => start,
            Some(_) => self.mark.torn,
        }
    }

    fn may_lack(&self, kernel: KernelBoot) -> bool {
        self.has_failed || !self.is_clean && !self.mark.kernel.is_surely(kernel)
    }

    /// The number of a start from which on the logs have all that was written, for a start on `kernel`; `None` if none surely has.
    pub fn written_from(&self, kernel: KernelBoot) -> Option<u64> {
        let is_written = !self.is_copy && !self.may_lack(kernel);
        is_written.then_some(self.mark.doubted.max(self.mark.torn) + 1)
    }
}

impl RunMark {
    /// Reads what the start before left; `None` if it left no mark: the directory is new.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if `run` is not what was written, and what the disk answers. A damaged `clean` is as none.
    pub fn read(disk: &impl Disk) -> Result<Option<FoundRun>, StorageError> {
        let (name, bytes) = match content(disk, RUN)? {
            Some(bytes) => (RUN, bytes),
            None => match content(disk, FAILED)? {
                Some(bytes) => (FAILED, bytes),
                None => return Ok(None),
            },
        };
        let mark = decode_run(&bytes)?;
        let failed = disk.stamp(FAILED).map_err(StorageError::io("look at", FAILED))?;
        let has_failed = failed.is_some();
        let stamp = disk.stamp(name).map_err(StorageError::io("look at", name))?;
        let ended = match read_clean(disk) {
            Ok(ended) => ended,
            Err(StorageError::Damaged(damage)) => {
                tracing::warn!(%damage, "whether the last run ended well is unknown: it counts as one that did not");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Some(FoundRun {
            is_copy: (mark.is_copied || stamp.is_none_or(|stamp| !stamp.is_surely(mark.stamp)))
                && !mutations::is(Mutation::CopyAccepted),
            is_clean: ended == Some(mark.owner) || ended.is_some() && mutations::is(Mutation::CleanLeft),
            // Both are there if it failed while the mark was written, or if a start ended between writing it and this.
            has_failed: mark.has_failed || has_failed,
            mark,
        }))
    }

    /// Writes the mark of a start that the cluster has counted, and that is about to write: it owns the directory. What logs of starts up
    /// to the number `doubted` hold may lack something, and in those up to `torn` what was written last. Whole and durably, in place of one that is
    /// there, or not at all. Before that nothing that this start does may be relied on.
    ///
    /// # Errors
    /// What the disk answers. It may have been written all the same.
    pub fn write(
        disk: &impl Disk,
        kernel: KernelBoot,
        start: Token,
        durability: u8,
        (doubted, torn): (u64, u64),
    ) -> Result<(), StorageError> {
        let mark = RunMark {
            owner: start,
            kernel,
            starts: vec![start],
            durability,
            has_failed: false,
            is_copied: false,
            doubted,
            torn,
            stamp: FileStamp::default(),
        };
        mark.replace(disk)
    }

    /// Writes the mark that was found once more, with a start that the cluster is going to hear of: it was counted, or was not, whatever
    /// comes of it.
    ///
    /// # Errors
    /// As [`RunMark::write`].
    pub fn add_start(disk: &impl Disk, found: &FoundRun, start: Token) -> Result<(), StorageError> {
        let mut starts = found.mark.starts.clone();
        starts.push(start);
        let dropped = starts.len().saturating_sub(STARTS_MAX);
        starts.drain(1..=dropped);
        let mark = RunMark {
            starts,
            has_failed: found.has_failed,
            is_copied: found.is_copy,
            ..found.mark.clone()
        };
        mark.replace(disk)?;
        match mutations::is(Mutation::DoubtForgotten) {
            true => set_clean(disk),
            false => Ok(()),
        }
    }

    /// Writes the mark that was found once more, if something is in doubt: what stands in the logs of starts up to this number may lack
    /// something, too. To be called before what does is written there.
    ///
    /// # Errors
    /// As [`RunMark::write`].
    pub fn doubt_upto(disk: &impl Disk, found: &FoundRun, start: u64) -> Result<(), StorageError> {
        if found.mark.doubted == 0 {
            return Ok(());
        }
        let mark = RunMark {
            has_failed: found.has_failed,
            is_copied: found.is_copy,
            doubted: start,
            ..found.mark.clone()
        };
        mark.replace(disk)
    }

    /// Writes the mark of the start that owns the directory once more, with another mode. Whoever is to acknowledge less than before does that
    /// first; who is to acknowledge more has it written when all that was acknowledged is kept as that demands.
    ///
    /// # Errors
    /// As [`RunMark::write`], and if there is no mark or a damaged one.
    pub fn set_durability(disk: &impl Disk, durability: u8) -> Result<(), StorageError> {
        let found = RunMark::read(disk)?;
        let found = found.ok_or_else(|| Damage::new(RUN, 0, "the mark of a run", "no such file"))?;
        let mark = RunMark {
            durability,
            has_failed: found.has_failed,
            is_copied: found.is_copy,
            ..found.mark
        };
        // What failed meanwhile is said by another name, which stays.
        mark.write_to(disk)
    }

    fn write_to(mut self, disk: &impl Disk) -> Result<(), StorageError> {
        let mut replacement = Replacement::begin(disk, RUN)?;
        let new = new_name(RUN);
        let stamp = disk.stamp(&new).map_err(StorageError::io("look at", &new))?;
        self.stamp = stamp.unwrap_or_default();
        replacement.append(self.encode().as_bytes())?;
        replacement.finish()?;
        Ok(())
    }

    fn replace(self, disk: &impl Disk) -> Result<(), StorageError> {
        self.write_to(disk)?;
        // What failed is said by the mark now, if it still is to be.
        let failed = disk.stamp(FAILED).map_err(StorageError::io("look at", FAILED))?;
        match failed {
            Some(_) => remove(disk, FAILED),
            None => Ok(()),
        }
    }

    fn encode(&self) -> String {
        let kernel = u128::from_be_bytes(self.kernel.0);
        let FileStamp { device, inode, born } = self.stamp;
        let durability = self.durability;
        let (failed, copied) = (u8::from(self.has_failed), u8::from(self.is_copied));
        let (owner, doubted) = (self.owner.0, self.doubted);
        let torn = match self.torn > doubted {
            true => format!("torn {}\n", self.torn),
            false => String::new(),
        };
        let mut text = format!(
            "{RUN_TITLE}\nkernel {kernel:032x}\ndurability {durability}\nfailed {failed}\ncopied {copied}\ndoubted {doubted}\n{torn}\
             stamp {device} {inode} {born}\nowner {owner:032x}\n"
        );
        self.starts.iter().for_each(|start| write_start(&mut text, start));
        write_checksum(&mut text);
        text
    }
}

/// The owner has synced what it wrote, and does nothing more. Without a mark it says nothing: then there was an
/// error, and it is not known what is durable.
///
/// # Errors
/// What the disk answers, and if the mark is damaged. It may have been written all the same.
pub fn set_clean(disk: &impl Disk) -> Result<(), StorageError> {
    let Some(bytes) = content(disk, RUN)? else {
        return Ok(());
    };
    let mark = decode_run(&bytes)?;
    // Logs of earlier starts stand as long as something in them is needed. Their owners may have been killed before they had synced them,
    // and nobody has since.
    sync_logs(disk)?;
    let mut text = format!("{CLEAN_TITLE}\n");
    write_start(&mut text, &mark.owner);
    write_checksum(&mut text);
    let mut replacement = Replacement::begin(disk, CLEAN)?;
    replacement.append(text.as_bytes())?;
    replacement.finish()?;
    Ok(())
}

/// A start is about to write: what the one before said of its end is durably gone.
///
/// # Errors
/// What the disk answers. The start must not go on.
pub fn take_clean(disk: &impl Disk) -> Result<(), StorageError> {
    match mutations::is(Mutation::CleanLeft) {
        true => Ok(()),
        false => remove(disk, CLEAN),
    }
}

/// A write or a sync has failed, and what this start has written may be gone though it can still be read: the next start is told
/// ([`FoundRun::has_failed`]). To be followed by the end of the process. It writes nothing: a disk that has failed may still
/// rename.
///
/// # Errors
/// What the disk answers. The next start may be told all the same.
pub fn set_failed(disk: &impl Disk) -> Result<(), StorageError> {
    disk.rename(RUN, FAILED)
        .map_err(StorageError::io("rename", RUN))?;
    disk.sync_names()
        .map_err(StorageError::io("sync the names beside", FAILED))
}

fn remove(disk: &impl Disk, name: &str) -> Result<(), StorageError> {
    disk.remove(name).map_err(StorageError::io("remove", name))?;
    disk.sync_names()
        .map_err(StorageError::io("sync the names beside", name))
}

fn content(disk: &impl Disk, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
    let Some(file) = disk.open(name).map_err(StorageError::io("open", name))? else {
        return Ok(None);
    };
    let size = file.size().map_err(StorageError::io("read", name))?;
    if size > BYTES_MAX {
        let expected = format!("at most {BYTES_MAX} bytes");
        return Err(Damage::new(name, BYTES_MAX, expected, format!("{size} bytes")).into());
    }
    let mut bytes = vec![0; size as usize];
    file.read_at(0, &mut bytes)
        .map_err(StorageError::io("read", name))?;
    Ok(Some(bytes))
}

fn write_start(text: &mut String, start: &Token) {
    writeln!(text, "start {:032x}", start.0).expect("a string takes everything");
}

fn write_checksum(text: &mut String) {
    let checksum = crc32c::crc32c(text.as_bytes());
    writeln!(text, "checksum {checksum:08x}").expect("a string takes everything");
}

fn decode_run(bytes: &[u8]) -> Result<RunMark, Damage> {
    let mut lines = Lines::new(RUN, bytes)?;
    lines.value("chorale run", "1", |version| (version == "1").then_some(()))?;
    let kernel = lines.value("kernel", "ID", hex)?;
    let durability = lines.value("durability", "MODE", |mode| mode.parse().ok())?;
    let has_failed = lines.value("failed", "0 or 1", flag)?;
    let is_copied = lines.value("copied", "0 or 1", flag)?;
    let doubted = lines.value("doubted", "START", |start| start.parse().ok())?;
    let torn = match lines.is_next("torn") {
        true => lines.value("torn", "START", |start| start.parse().ok())?,
        false => 0,
    };
    let stamp = lines.value("stamp", "DEVICE INODE BORN", |stamp| {
        let parts: Option<Vec<u64>> = stamp.split(' ').map(|part| part.parse().ok()).collect();
        match *parts? {
            [device, inode, born] => Some(FileStamp { device, inode, born }),
            _ => None,
        }
    })?;
    let owner = lines.value("owner", "START", hex)?;
    let mut starts = vec![lines.start()?];
    while !lines.is_at_end() && starts.len() < STARTS_MAX {
        starts.push(lines.start()?);
    }
    lines.end()?;
    Ok(RunMark {
        owner: Token(owner),
        kernel: KernelBoot(kernel.to_be_bytes()),
        starts,
        durability,
        has_failed,
        is_copied,
        doubted,
        torn,
        stamp,
    })
}

/// The start that said that it ended well; `None` if there is none.
fn read_clean(disk: &impl Disk) -> Result<Option<Token>, StorageError> {
    let Some(bytes) = content(disk, CLEAN)? else {
        return Ok(None);
    };
    let mut lines = Lines::new(CLEAN, &bytes)?;
    lines.value("chorale clean", "1", |version| (version == "1").then_some(()))?;
    let start = lines.start()?;
    lines.end()?;
    Ok(Some(start))
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn hex(text: &str) -> Option<u128> {
    let is_plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// The lines in front of a checksum that is right.
struct Lines<'a> {
    name: &'static str,
    text: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(name: &'static str, bytes: &'a [u8]) -> Result<Lines<'a>, Damage> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Damage::new(name, error.valid_up_to() as u64, "text", "other bytes"))?;
        let before = text.strip_suffix('\n').unwrap_or(text);
        let at = before.rfind('\n').map_or(0, |at| at + 1);
        let (text, last) = text.split_at(at);
        let expected = format!("checksum {:08x}\n", crc32c::crc32c(text.as_bytes()));
        if last != expected {
            let (expected, found) = (format!("{expected:?}"), format!("{last:?}"));
            return Err(Damage::new(name, at as u64, expected, found));
        }
        Ok(Lines { name, text, at: 0 })
    }

    /// The value of the next line, which begins with `key`, as `read` understands it.
    fn value<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Damage> {
        let line = self.text[self.at..].split_inclusive('\n').next().unwrap_or("");
        let value = line
            .strip_suffix('\n')
            .and_then(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let value = value.and_then(read).ok_or_else(|| {
            let expected = format!("`{key} {expected}`");
            Damage::new(self.name, self.at as u64, expected, format!("{line:?}"))
        })?;
        self.at += line.len();
        Ok(value)
    }

    /// Whether the next line begins with `key`.
    fn is_next(&self, key: &str) -> bool {
        let rest = self.text[self.at..].strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with(' '))
    }

    fn start(&mut self) -> Result<Token, Damage> {
        self.value("start", "TOKEN", hex).map(Token)
    }

    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn end(&self) -> Result<(), Damage> {
        match self.is_at_end() {
            true => Ok(()),
            false => {
                let found = format!("{} more bytes", self.text.len() - self.at);
                Err(Damage::new(self.name, self.at as u64, "the checksum", found))
            }
        }
    }
}
