//! Taking a backup: attempts until one has all parts, then what the target has not, then the manifest.
//!
//! 1. The manifest is written when every part is there, and nothing is written after it.
//! 2. Whatever ends a run earlier leaves parts, which the next run uses, and nothing else.
//! 3. While nodes are at another backup it waits, for as long as that takes: that is no attempt.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::attempt::{Attempt, AttemptEnd, Source};
use crate::clock::unix_millis;
use crate::connection::Connection;
use crate::members::ClusterMembers;
use crate::part::PartSummary;
use crate::part_copy::{Copied, copy_part};
use crate::progress::{RunProgress, bytes_in_words, counted};
use crate::target::{BackupTarget, TargetFolder, manifest_path, part_of, part_path};
use crate::{BackupError, Manifest, check_name};

/// How often a backup is begun.
const ATTEMPTS_MAX: usize = 5;
/// Between two attempts.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);
/// How often a part is fetched that the target did not take for a reason that passes, and the pause before that.
const FETCHES_MAX: u32 = 4;
const FETCH_PAUSE: Duration = Duration::from_secs(2);
/// Connections to one node while parts are fetched from it.
const FETCHES_A_NODE: usize = 2;

/// What is to be done.
pub struct BackupRun<'a> {
    /// Where to.
    pub target: &'a dyn BackupTarget,
    /// The name of the backup.
    pub name: &'a str,
    /// The cluster as it is now: asked before each attempt.
    pub members: &'a (dyn Fn() -> Result<ClusterMembers, BackupError> + Sync),
    /// The password of the nodes' clients.
    pub password: Option<&'a str>,
    /// Told how far it is.
    pub progress: &'a dyn RunProgress,
    /// Set by whoever wants it to stop.
    pub stop: &'a AtomicBool,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupReport {
    /// The backup.
    pub manifest: Manifest,
    /// How many parts the target had not.
    pub parts_written: usize,
    /// Their bytes.
    pub bytes_written: u64,
}

impl BackupRun<'_> {
    /// Takes the backup.
    ///
    /// # Errors
    /// In words that say what to do next. The target has no such backup then, and the cluster is as it was.
    pub fn run(&self) -> Result<BackupReport, BackupError> {
        check_name(self.name)?;
        let path = manifest_path(self.name);
        // Whether the target can be used is known before the cluster has any work.
        self.target.prepare()?;
        if self
            .target
            .list(TargetFolder::Backups)?
            .iter()
            .any(|file| file.path == path)
        {
            return Err(BackupError::Failed(format!(
                "{} has a backup {} already: choose another name with --name",
                self.target.name(),
                self.name
            )));
        }
        let mut reasons = Vec::new();
        let mut waits = false;
        while reasons.len() < ATTEMPTS_MAX {
            match self.attempt() {
                Ok(report) => return Ok(report),
                Err(AttemptEnd::Failed(error)) => return Err(error),
                Err(AttemptEnd::Busy(why)) => {
                    if !std::mem::replace(&mut waits, true) {
                        self.progress
                            .say(&format!("it waits until another backup is over: {why}"));
                    }
                    self.progress.at("waiting for another backup", 0, 1);
                    self.pause()?;
                    continue;
                }
                Err(AttemptEnd::Again(why)) => {
                    let number = reasons.len() + 1;
                    self.progress.say(&format!(
                        "attempt {number} of {ATTEMPTS_MAX} came to nothing: {why}"
                    ));
                    reasons.push(why);
                }
            }
            if reasons.len() < ATTEMPTS_MAX {
                self.pause()?;
            }
        }
        Err(BackupError::Failed(format!(
            "no backup after {ATTEMPTS_MAX} attempts, the last one because: {}. Look at chorale admin status, and run it again when \
             all groups have a leader; parts that were written already are used then",
            reasons.last().map_or("", String::as_str)
        )))
    }

    fn pause(&self) -> Result<(), BackupError> {
        thread::sleep(ATTEMPT_PAUSE);
        match self.stop.load(Ordering::Relaxed) {
            true => Err(BackupError::Interrupted),
            false => Ok(()),
        }
    }

    fn attempt(&self) -> Result<BackupReport, AttemptEnd> {
        let members = (self.members)()?;
        let made = unix_millis();
        let mut attempt = Attempt::begin(random_id()?, &members, self.password)?;
        attempt.take(self.progress, self.stop)?;
        let partitions = attempt.parts()?;
        let (parts_written, bytes_written) = self.fetch(&attempt)?;
        let parts: Vec<PartSummary> = attempt.all_parts().copied().collect();
        let manifest = Manifest::new(self.name, &members, made, attempt.id, partitions, &parts);
        drop(attempt);
        self.write_manifest(&manifest, &parts)?;
        Ok(BackupReport {
            manifest,
            parts_written,
            bytes_written,
        })
    }

    /// Copies what the target has not: how many parts, and how many bytes.
    fn fetch(&self, attempt: &Attempt) -> Result<(usize, u64), AttemptEnd> {
        let there = self.there()?;
        let mut missing: Vec<(&Source, Vec<&PartSummary>)> = Vec::new();
        for source in &attempt.sources {
            let mut parts = Vec::new();
            for part in &source.parts {
                // One of another length is not what it is called.
                if there.get(&part_path(&part.name())) == Some(&part.bytes) {
                    match self.target.refresh(&part_path(&part.name())) {
                        Ok(()) => continue,
                        Err(BackupError::Missing(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                parts.push(part);
            }
            missing.push((source, parts));
        }
        let all = missing.iter().flat_map(|(_, parts)| parts);
        let (count, bytes) = (all.clone().count(), all.map(|part| part.bytes).sum());
        let copied = Copied {
            progress: self.progress,
            done: 0.into(),
            all: bytes,
            stop: self.stop,
        };
        let failure = Mutex::new(None);
        thread::scope(|scope| {
            for (source, parts) in &missing {
                let next = std::sync::Arc::new(AtomicUsize::new(0));
                for _ in 0..FETCHES_A_NODE.min(parts.len()) {
                    let (next, failure, copied) = (next.clone(), &failure, &copied);
                    scope.spawn(move || {
                        if let Err(end) =
                            self.fetch_from(attempt.id, source.address(), parts, &next, failure, copied)
                        {
                            let mut kept = failure.lock().expect("nobody panics while he holds it");
                            // What no other attempt helps against counts more.
                            if kept.is_none() || matches!(end, AttemptEnd::Failed(_)) {
                                *kept = Some(end);
                            }
                        }
                    });
                }
            }
        });
        match failure.into_inner().expect("nobody panics while he holds it") {
            Some(end) => Err(end),
            None => Ok((count, bytes)),
        }
    }

    fn fetch_from(
        &self,
        id: u64,
        address: &str,
        parts: &[&PartSummary],
        next: &AtomicUsize,
        failure: &Mutex<Option<AttemptEnd>>,
        copied: &Copied<'_>,
    ) -> Result<(), AttemptEnd> {
        let open =
            || Connection::open(address, self.password).map_err(|error| AttemptEnd::Again(error.to_string()));
        let mut connection = open()?;
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failure.lock().expect("nobody panics while he holds it").is_some() {
                break;
            }
            let mut fetched = 0;
            loop {
                fetched += 1;
                match copy_part(id, part, &mut connection, self.target, copied) {
                    Err(AttemptEnd::Failed(BackupError::Passing(why))) if fetched < FETCHES_MAX => {
                        self.progress.say(&why);
                        thread::sleep(FETCH_PAUSE);
                        // The answer to a question may still be under way.
                        connection = open()?;
                    }
                    other => break other?,
                }
            }
        }
        Ok(())
    }

    /// Paths and lengths of the parts that the target has.
    fn there(&self) -> Result<BTreeMap<String, u64>, BackupError> {
        let files = self.target.list(TargetFolder::Parts)?.into_iter();
        let parts = files.filter(|file| part_of(&file.path).is_some());
        Ok(parts.map(|file| (file.path, file.bytes)).collect())
    }

    fn write_manifest(&self, manifest: &Manifest, parts: &[PartSummary]) -> Result<(), BackupError> {
        let path = manifest_path(&manifest.name);
        let file = manifest.encode();
        self.target.write(&path, file.len() as u64, &mut &file[..])?;
        // Whoever pruned before this manifest could be seen may have removed a part that was there already.
        let there = self.there()?;
        let gone = parts
            .iter()
            .filter(|part| there.get(&part_path(&part.name())) != Some(&part.bytes));
        let gone = gone.count();
        if gone == 0 {
            return Ok(());
        }
        self.target.remove(&path)?;
        Err(BackupError::Failed(format!(
            "{} had {} that {} there no more, so the backup is not kept: run it again when nobody prunes",
            self.target.name(),
            counted(gone as u64, "part"),
            if gone == 1 { "is" } else { "are" }
        )))
    }
}

/// A number that nobody else has: of 63 bits, not 0.
pub(crate) fn random_id() -> Result<u64, BackupError> {
    use std::io::Read;
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(BackupError::io("read", "/dev/urandom"))?;
    Ok((u64::from_le_bytes(bytes) >> 1).max(1))
}

/// What was done, in a sentence.
impl BackupReport {
    /// For people.
    pub fn in_words(&self) -> String {
        let manifest = &self.manifest;
        format!(
            "Backup {}: {} in {}, {}; {} of these parts {} written now, {}.",
            manifest.name,
            counted(manifest.keys, "key"),
            counted(manifest.parts.len() as u64, "part"),
            bytes_in_words(manifest.bytes),
            self.parts_written,
            if self.parts_written == 1 { "was" } else { "were" },
            bytes_in_words(self.bytes_written)
        )
    }
}
