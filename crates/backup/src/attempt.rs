//! One attempt at a backup: from the first node that is asked to the parts that all of them have written.
//!
//! ```text
//!  BEGIN at each node --> filling ... ready --all are--> MARK --> marked ... written --all are--> PARTS
//!         |                  |                            |          |
//!         +------------------+--- lost, refused, gone ----+----------+--> Again: begun anew under another number
//! ```
//!
//! 1. The mark is tried once: whether one that was not answered was set nobody knows, and another attempt has another number.
//! 2. However it ends, the nodes are told to forget it (`Drop`); one that cannot be told forgets it by itself after a minute.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::{Answer, AskError, Connection, is_about_password};
use crate::desk::BUSY;
use crate::members::ClusterMembers;
use crate::part::PartSummary;
use crate::progress::RunProgress;
use crate::{BackupError, PartName};

/// Between two questions how far the nodes are.
const STATUS_EVERY: Duration = Duration::from_millis(100);

/// Without any change in what the nodes say, after which an attempt is given up.
const STANDSTILL_MAX: Duration = Duration::from_secs(120);

/// Why an attempt has no parts.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    /// Another one may: why this one did not.
    Again(String),
    /// Another one may when another backup is over: which node says so.
    Busy(String),
    /// Another one would not either.
    Failed(BackupError),
}

impl From<BackupError> for AttemptEnd {
    fn from(error: BackupError) -> AttemptEnd {
        AttemptEnd::Failed(error)
    }
}

/// A node, and what it copies.
#[derive(Debug)]
pub(crate) struct Source {
    connection: Connection,
    pub(crate) parts: Vec<PartSummary>,
}

impl Source {
    pub(crate) fn address(&self) -> &str {
        self.connection.address()
    }
}

/// An attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: u64,
    pub(crate) sources: Vec<Source>,
}

/// How far the groups of a node are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Standing {
    groups: usize,
    /// Of these: copied, but for what changes; written.
    ready: usize,
    written: usize,
    bytes: u64,
}

impl Attempt {
    /// Asks the nodes to begin.
    pub(crate) fn begin(
        id: u64,
        members: &ClusterMembers,
        password: Option<&str>,
    ) -> Result<Attempt, AttemptEnd> {
        let mut attempt = Attempt {
            id,
            sources: Vec::new(),
        };
        for (address, groups) in members.sources()? {
            let connection =
                Connection::open(&address, password).map_err(|error| refused(&address, error))?;
            attempt.sources.push(Source {
                connection,
                parts: Vec::new(),
            });
            let source = attempt.sources.last_mut().expect("it was just put there");
            let mut words = vec!["BACKUP".to_owned(), "BEGIN".to_owned(), id.to_string()];
            words.extend(groups.iter().map(ToString::to_string));
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            source
                .connection
                .ask(&words)
                .map_err(|error| refused(&address, error))?;
        }
        Ok(attempt)
    }

    /// Waits until all groups are copied, marks, and waits until all are written.
    pub(crate) fn take(&mut self, progress: &dyn RunProgress, stop: &AtomicBool) -> Result<(), AttemptEnd> {
        self.wait(
            "copying",
            |standing| standing.ready == standing.groups,
            progress,
            stop,
        )?;
        let id = self.id.to_string();
        let first = self
            .sources
            .first_mut()
            .expect("there is a group, so there is a source");
        let marked = first.connection.ask(&[b"BACKUP", b"MARK", id.as_bytes()]);
        marked.map_err(|error| AttemptEnd::Again(format!("the mark was not set: {error}")))?;
        self.wait(
            "writing",
            |standing| standing.written == standing.groups,
            progress,
            stop,
        )
    }

    fn wait(
        &mut self,
        what: &str,
        is_done: impl Fn(&Standing) -> bool,
        progress: &dyn RunProgress,
        stop: &AtomicBool,
    ) -> Result<(), AttemptEnd> {
        let (mut last, mut changed) = (Standing::default(), Instant::now());
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(BackupError::Interrupted.into());
            }
            let mut standing = Standing::default();
            for source in &mut self.sources {
                source.add_standing(self.id, &mut standing)?;
            }
            // How much there will be nobody knows before it is there: groups say how far it is.
            let done = if what == "copying" {
                standing.ready
            } else {
                standing.written
            };
            let share = standing.bytes.max(1) * done as u64 / standing.groups.max(1) as u64;
            progress.at(what, share, standing.bytes.max(1));
            if is_done(&standing) {
                return Ok(());
            }
            if standing != last {
                (last, changed) = (standing, Instant::now());
            }
            if changed.elapsed() > STANDSTILL_MAX {
                let why = format!(
                    "nothing has moved for {} s while {what}: {} of {} groups were done",
                    STANDSTILL_MAX.as_secs(),
                    done,
                    standing.groups
                );
                return Err(AttemptEnd::Again(why));
            }
            thread::sleep(STATUS_EVERY);
        }
    }

    /// Asks for the parts, and of how many partitions they are.
    pub(crate) fn parts(&mut self) -> Result<u16, AttemptEnd> {
        for source in &mut self.sources {
            source.parts = source.ask_parts(self.id)?;
        }
        let mut partitions: Vec<u16> = self.all_parts().map(|part| part.partition).collect();
        partitions.sort_unstable();
        if let Some(pair) = partitions.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AttemptEnd::Again(format!(
                "two nodes have written partition {}",
                pair[0]
            )));
        }
        let id = self.id;
        let mut footers = self.sources.iter_mut().filter_map(|source| source.ask_footer(id));
        match footers.next() {
            None => Ok(DEFAULT_PARTITIONS),
            Some(partitions) => partitions,
        }
    }

    pub(crate) fn all_parts(&self) -> impl Iterator<Item = &PartSummary> {
        self.sources.iter().flat_map(|source| &source.parts)
    }
}

/// Of how many partitions a cluster without keys is said to be.
const DEFAULT_PARTITIONS: u16 = 256;

impl Drop for Attempt {
    fn drop(&mut self) {
        let id = self.id.to_string();
        for source in &mut self.sources {
            // A node that cannot be told forgets it after a minute.
            let _ = source.connection.ask(&[b"BACKUP", b"END", id.as_bytes()]);
        }
    }
}

impl Source {
    fn ask(&mut self, words: &[&[u8]]) -> Result<Answer, AttemptEnd> {
        let address = self.connection.address().to_owned();
        self.connection.ask(words).map_err(|error| match error {
            AskError::Link(why) => AttemptEnd::Again(why),
            AskError::Told(why) => AttemptEnd::Again(format!("{address} answers: {why}")),
        })
    }

    fn add_standing(&mut self, id: u64, to: &mut Standing) -> Result<(), AttemptEnd> {
        let answer = self.ask(&[b"BACKUP", b"STATUS", id.to_string().as_bytes()])?;
        for group in answer.array().unwrap_or_default() {
            let fields = group.array().unwrap_or_default();
            let number = fields.first().and_then(Answer::number);
            let state = fields.get(1).and_then(Answer::text);
            let bytes = fields.get(2).and_then(Answer::number);
            let (Some(number), Some(state), Some(bytes)) = (number, state, bytes) else {
                return Err(self.misunderstood("BACKUP STATUS"));
            };
            to.groups += 1;
            to.bytes += bytes;
            match state {
                "filling" => {}
                "ready" | "marked" => to.ready += 1,
                "written" => {
                    to.ready += 1;
                    to.written += 1;
                }
                "lost" => {
                    let why = fields
                        .get(3)
                        .and_then(Answer::text)
                        .unwrap_or("it did not say why");
                    let address = self.connection.address();
                    return Err(AttemptEnd::Again(format!("group {number} at {address}: {why}")));
                }
                _ => return Err(self.misunderstood("BACKUP STATUS")),
            }
        }
        Ok(())
    }

    fn ask_parts(&mut self, id: u64) -> Result<Vec<PartSummary>, AttemptEnd> {
        let answer = self.ask(&[b"BACKUP", b"PARTS", id.to_string().as_bytes()])?;
        let mut parts = Vec::new();
        for part in answer.array().unwrap_or_default() {
            let fields = part.array().unwrap_or_default();
            let name = fields
                .first()
                .and_then(Answer::text)
                .and_then(|name| name.parse::<PartName>().ok());
            let numbers: Option<Vec<u64>> = fields.iter().skip(1).map(Answer::number).collect();
            match (name, numbers.as_deref()) {
                (Some(name), Some(&[partition, bytes, raw_bytes, keys]))
                    if partition == u64::from(name.partition) =>
                {
                    parts.push(PartSummary {
                        partition: name.partition,
                        sha256: name.sha256,
                        bytes,
                        raw_bytes,
                        keys,
                    });
                }
                _ => return Err(self.misunderstood("BACKUP PARTS")),
            }
        }
        Ok(parts)
    }

    /// Of how many partitions the first part says that it is one; `None` if there is no part.
    fn ask_footer(&mut self, id: u64) -> Option<Result<u16, AttemptEnd>> {
        let part = self.parts.first()?;
        let length = crate::part::FOOTER_BYTES as u64;
        let name = part.name().to_string();
        let offset = part.bytes.saturating_sub(length).to_string();
        let (id, length) = (id.to_string(), length.to_string());
        let words = ["BACKUP", "READ", &id, &name, &offset, &length].map(str::as_bytes);
        Some(self.ask(&words).and_then(|answer| match answer {
            Answer::Bytes(footer) if footer.len() == crate::part::FOOTER_BYTES => {
                Ok(u16::from_le_bytes([footer[2], footer[3]]))
            }
            _ => Err(self.misunderstood("BACKUP READ")),
        }))
    }

    fn misunderstood(&self, command: &str) -> AttemptEnd {
        AttemptEnd::Failed(BackupError::Failed(format!(
            "{} answers to {command} what this version of Chorale does not understand: use the version of the nodes",
            self.connection.address()
        )))
    }
}

/// A node has not begun.
fn refused(address: &str, error: AskError) -> AttemptEnd {
    match error {
        AskError::Link(why) => AttemptEnd::Again(why),
        AskError::Told(why) if is_about_password(&why) => AttemptEnd::Failed(wrong_password(address, &why)),
        AskError::Told(why) if why.contains("unknown command") || why.starts_with("NOPERM") => {
            AttemptEnd::Failed(BackupError::Failed(format!(
                "{address} answers: {why}. Is it a node of this version of Chorale?"
            )))
        }
        AskError::Told(why) if why.starts_with(BUSY) => AttemptEnd::Busy(format!("{address} answers: {why}")),
        AskError::Told(why) => AttemptEnd::Again(format!("{address} answers: {why}")),
    }
}

/// Which password the nodes want, and where to put it.
pub(crate) fn wrong_password(address: &str, why: &str) -> BackupError {
    let what = match why.starts_with("NOAUTH") {
        true => "wants the password of its clients, and none was given",
        false => "does not take the password that was given",
    };
    BackupError::Failed(format!(
        "{address} {what}: put it into the environment as CHORALE_REQUIREPASS"
    ))
}
