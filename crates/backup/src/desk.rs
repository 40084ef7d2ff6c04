//! What one node does for a backup: keeps what its replicas give, makes parts of it, and answers whoever makes the backup.
//!
//! ```text
//!   BACKUP BEGIN --> DeskOrder::Begin --> workers: pieces --> a spool for each group --ready--> (BACKUP MARK, by the groups)
//!        --last piece--> DeskOrder::Merge --> a thread beside --on_merged--> parts, which BACKUP PARTS and READ show --BACKUP END--> nothing
//! ```
//!
//! It is called on a thread of its own, one for the node, and may wait for the disk. Its driver carries out its orders. There is one
//! backup at a time: another one is refused until it is over, and one that nobody has asked about for [`SILENCE_MAX`] is forgotten.
//!
//! All that it has on disk is in one directory, which it empties whenever a backup begins or ends.

use crate::part::{PartName, PartSummary};
use crate::spool::Spool;
use command::{ReplyError, backup_id, number};
use ids::GroupId;
use resp::{Args, Protocol, ReplyWriter};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After so long without a question a backup is forgotten: whoever made it has gone.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// With this begins what is answered to whoever is to wait until another backup is over.
pub(crate) const BUSY: &str = "BUSY";

/// Bytes that are read at once.
const READ_BYTES_MAX: u64 = 1024 * 1024;

/// What the driver is to do.
#[derive(Debug)]
pub enum DeskOrder {
    /// Have the workers copy these groups.
    Begin {
        /// For this backup.
        backup: u64,
        /// These, each on the worker that has it.
        groups: Vec<GroupId>,
    },
    /// Tell the worker of this group that a chunk of it was taken.
    Taken {
        /// Of this backup.
        backup: u64,
        /// The group.
        group: GroupId,
    },
    /// Have the workers copy nothing any more.
    End,
    /// Run this on a thread beside, and hand the outcome to [`Desk::on_merged`].
    Merge(MergeJob),
}

/// What a group has for a backup: see `gateway`.
#[derive(Debug)]
pub enum CopiedPiece {
    /// A chunk of objects.
    Chunk(Vec<u8>),
    /// There is no more at this moment.
    Ready,
    /// The last chunk.
    Last(Vec<u8>),
    /// There will be no more.
    Lost(String),
}

/// Parts that are to be made.
#[derive(Debug)]
pub struct MergeJob {
    backup: u64,
    group: GroupId,
    spool: Spool,
    target: PathBuf,
}

/// What has come of them.
#[derive(Debug)]
pub struct Merged {
    backup: u64,
    group: GroupId,
    parts: io::Result<Vec<PartSummary>>,
}

impl MergeJob {
    /// Makes the parts. It takes as long as to read and write the group's data.
    pub fn run(self) -> Merged {
        Merged {
            backup: self.backup,
            group: self.group,
            parts: self.spool.finish(&self.target),
        }
    }
}

/// See the file's header.
#[derive(Debug)]
pub struct Desk {
    directory: PathBuf,
    partitions: u16,
    current: Option<Current>,
    orders: Vec<DeskOrder>,
}

/// The backup under way.
#[derive(Debug)]
struct Current {
    backup: u64,
    /// Where its parts are, and what they are made of.
    directory: PathBuf,
    asked: Instant,
    groups: BTreeMap<GroupId, Group>,
    parts: BTreeMap<PartName, PartSummary>,
    /// The part that was read last.
    open: Option<(PartName, File)>,
}

#[derive(Debug)]
struct Group {
    bytes: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Filling(Spool),
    Ready(Spool),
    /// Its parts are being made.
    Marked,
    Written,
    Lost(String),
}

impl State {
    fn word(&self) -> &'static str {
        match self {
            State::Filling(_) => "filling",
            State::Ready(_) => "ready",
            State::Marked => "marked",
            State::Written => "written",
            State::Lost(_) => "lost",
        }
    }
}

impl Desk {
    /// One that keeps what it has in this directory, which it makes when it is needed, of a cluster with so many partitions.
    pub fn new(directory: PathBuf, partitions: u16) -> Desk {
        Desk {
            directory,
            partitions,
            current: None,
            orders: Vec::new(),
        }
    }

    /// Removes what an earlier process has left.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn clean(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What is to be done, in order.
    pub fn take_orders(&mut self) -> Vec<DeskOrder> {
        std::mem::take(&mut self.orders)
    }

    /// A `BACKUP` command of a client, and when it came. The reply, in RESP.
    pub fn on_question(&mut self, words: Args<'_>, now: Instant) -> Vec<u8> {
        let mut reply = Vec::new();
        let mut w = ReplyWriter::new(&mut reply, Protocol::Resp2);
        if let Err(error) = self.answer(words, now, &mut w) {
            w.error(&error);
        }
        reply
    }

    fn answer(&mut self, words: Args<'_>, now: Instant, w: &mut ReplyWriter<'_>) -> Result<(), String> {
        let is = |word: &str| words.arg(1).eq_ignore_ascii_case(word.as_bytes());
        let backup = backup_id(words.arg(2)).map_err(|error| error.to_string())?;
        if is("begin") {
            self.begin(backup, words, now)?;
            w.ok();
            return Ok(());
        }
        let current = self.current.as_mut().filter(|current| current.backup == backup);
        if is("end") {
            if current.is_some() {
                self.end();
            }
            w.ok();
            return Ok(());
        }
        let current = current.ok_or_else(|| {
            format!(
                "ERR this node has no backup {backup}: it was ended, or nobody asked about it for {} seconds",
                SILENCE_MAX.as_secs()
            )
        })?;
        current.asked = now;
        if is("status") {
            current.status(w);
        } else if is("parts") {
            current.parts(w)?;
        } else if is("read") {
            let bytes = current.read(words)?;
            w.bulk(&bytes);
        } else {
            return Err(ReplyError::unknown_subcommand("backup", words.arg(1)).to_string());
        }
        Ok(())
    }

    fn begin(&mut self, backup: u64, words: Args<'_>, now: Instant) -> Result<(), String> {
        let group = |word: &[u8]| {
            let number = number::parse_i64(word).and_then(|number| u16::try_from(number).ok());
            number.map(GroupId::new).ok_or("ERR a group is a number")
        };
        let groups = words
            .from(3)
            .iter()
            .map(group)
            .collect::<Result<Vec<GroupId>, _>>()?;
        if let Some(other) = self.current.as_ref().filter(|current| current.backup != backup) {
            return Err(format!(
                "{BUSY} this node is at another backup, {}: begin when that is over. One that nobody asks about is forgotten after {} seconds",
                other.backup,
                SILENCE_MAX.as_secs()
            ));
        }
        self.end();
        let failed = |error: io::Error| {
            format!(
                "ERR this node cannot keep what it copies in {}: {error}",
                self.directory.display()
            )
        };
        self.clean().map_err(failed)?;
        // One of its own: parts of an earlier one may still be on their way.
        let directory = self.directory.join(backup.to_string());
        let mut all = BTreeMap::new();
        for &group in &groups {
            let of_group = directory.join(format!("group-{}", group.number()));
            let spool = Spool::begin(&of_group, self.partitions).map_err(failed)?;
            let state = State::Filling(spool);
            all.insert(group, Group { bytes: 0, state });
        }
        self.current = Some(Current {
            backup,
            directory,
            asked: now,
            groups: all,
            parts: BTreeMap::new(),
            open: None,
        });
        self.orders.push(DeskOrder::Begin { backup, groups });
        Ok(())
    }

    /// Forgets the backup under way.
    fn end(&mut self) {
        if self.current.take().is_some() {
            self.orders.push(DeskOrder::End);
            if let Err(error) = self.clean() {
                tracing::warn!(%error, directory = %self.directory.display(), "what was copied for a backup stays");
            }
        }
    }

    /// Something of a group has come.
    pub fn on_piece(&mut self, backup: u64, group: GroupId, piece: CopiedPiece) {
        let Some(current) = self.current.as_mut().filter(|current| current.backup == backup) else {
            return;
        };
        let Some(of_group) = current.groups.get_mut(&group) else {
            return;
        };
        let state = std::mem::replace(&mut of_group.state, State::Marked);
        of_group.state = match (state, piece) {
            (State::Filling(spool), CopiedPiece::Ready) => State::Ready(spool),
            (State::Filling(mut spool), CopiedPiece::Chunk(chunk)) => {
                self.orders.push(DeskOrder::Taken { backup, group });
                of_group.bytes += chunk.len() as u64;
                kept(spool.take(&chunk), || State::Filling(spool))
            }
            (State::Ready(mut spool), CopiedPiece::Chunk(chunk)) => {
                self.orders.push(DeskOrder::Taken { backup, group });
                of_group.bytes += chunk.len() as u64;
                kept(spool.take(&chunk), || State::Ready(spool))
            }
            (State::Filling(mut spool) | State::Ready(mut spool), CopiedPiece::Last(chunk)) => {
                of_group.bytes += chunk.len() as u64;
                let taken = spool.take(&chunk);
                kept(taken, || {
                    self.orders.push(DeskOrder::Merge(MergeJob {
                        backup,
                        group,
                        spool,
                        target: current.directory.clone(),
                    }));
                    State::Marked
                })
            }
            (State::Filling(_) | State::Ready(_), CopiedPiece::Lost(why)) => State::Lost(why),
            (state, _) => state,
        };
    }

    /// The parts of a group were made, or not.
    pub fn on_merged(&mut self, merged: Merged) {
        let backup = merged.backup;
        let Some(current) = self.current.as_mut().filter(|current| current.backup == backup) else {
            return;
        };
        let Some(group) = current.groups.get_mut(&merged.group) else {
            return;
        };
        group.state = match merged.parts {
            Ok(parts) => {
                current
                    .parts
                    .extend(parts.into_iter().map(|part| (part.name(), part)));
                State::Written
            }
            Err(error) => State::Lost(format!("its parts cannot be made: {error}")),
        };
    }

    /// Time passes.
    pub fn tick(&mut self, now: Instant) {
        let is_silent = |current: &Current| now.saturating_duration_since(current.asked) > SILENCE_MAX;
        if self.current.as_ref().is_some_and(is_silent) {
            tracing::warn!("nobody asks about a backup any more: what this node has of it is removed");
            self.end();
        }
    }
}

/// What becomes of a group of which a chunk was kept, or not.
fn kept(taken: Result<(), crate::spool::SpoolError>, state: impl FnOnce() -> State) -> State {
    match taken {
        Ok(()) => state(),
        Err(error) => State::Lost(error.to_string()),
    }
}

impl Current {
    fn status(&self, w: &mut ReplyWriter<'_>) {
        w.array(self.groups.len());
        for (number, group) in &self.groups {
            let reason = match &group.state {
                State::Lost(why) => Some(why),
                _ => None,
            };
            w.array(3 + usize::from(reason.is_some()));
            w.integer(i64::from(number.number()));
            w.bulk(group.state.word().as_bytes());
            w.integer(group.bytes as i64);
            if let Some(why) = reason {
                w.bulk(why.as_bytes());
            }
        }
    }

    fn parts(&self, w: &mut ReplyWriter<'_>) -> Result<(), String> {
        if self
            .groups
            .values()
            .any(|group| !matches!(group.state, State::Written))
        {
            return Err("ERR the parts of this backup are not all written".to_owned());
        }
        w.array(self.parts.len());
        for (name, part) in &self.parts {
            w.array(5);
            w.bulk(name.to_string().as_bytes());
            w.integer(i64::from(part.partition));
            w.integer(part.bytes as i64);
            w.integer(part.raw_bytes as i64);
            w.integer(part.keys as i64);
        }
        Ok(())
    }

    fn read(&mut self, words: Args<'_>) -> Result<Vec<u8>, String> {
        let name = std::str::from_utf8(words.arg(3))
            .ok()
            .and_then(|name| name.parse().ok());
        let part = name.and_then(|name: PartName| self.parts.get(&name));
        let part = *part.ok_or("ERR this node has no such part")?;
        let number = |at| number::parse_i64(words.arg(at)).and_then(|number| u64::try_from(number).ok());
        let (Some(offset), Some(count)) = (number(4), number(5)) else {
            return Err(ReplyError::NotAnInteger.to_string());
        };
        if count > READ_BYTES_MAX {
            return Err(format!(
                "ERR not more than {READ_BYTES_MAX} bytes are read at once"
            ));
        }
        let name = part.name();
        let failed = |error: io::Error| format!("ERR the part cannot be read: {error}");
        let file = match self.open.take() {
            Some((open, file)) if open == name => file,
            _ => File::open(self.directory.join(name.to_string())).map_err(failed)?,
        };
        let mut bytes = vec![0; count.min(part.bytes.saturating_sub(offset)) as usize];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        self.open = Some((name, file));
        Ok(bytes)
    }
}
