//! Looking for damage in a target.
//!
//! Every manifest's checksum; every part's blocks, its SHA-256 against its name, its counts against each manifest that names it.
//! *Deep*: every object is decoded as a replica decodes it, its key belongs to the part's partition, and no key is there twice.
//!
//! Nothing is changed. What is damaged is said, and the rest is looked at all the same. Absent: the order of records, which depends on
//! a hash that a part does not name, and which nothing that reads a part relies on.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use ids::{PartitionCount, Slot};
use sha2::{Digest, Sha256};

use crate::catalog::{backups, find_backup, shown};
use crate::part::hex;
use crate::part_reader::{PartReader, PartRecord};
use crate::progress::{RunProgress, bytes_in_words, counted};
use crate::target::{BackupTarget, TargetFolder, part_of, part_path};
use crate::{BackupError, Manifest, PartName, PartSummary};

/// Parts that are read at one time.
const READERS_MAX: usize = 8;
/// Bytes of a value that are read at a time.
const VALUE_BYTES: usize = 1 << 20;
/// Bytes of a value that is decoded: more than any can have.
const VALUE_BYTES_MAX: u64 = 16 << 30;

/// What is to be looked at.
pub struct Verification<'a> {
    /// Where.
    pub target: &'a dyn BackupTarget,
    /// One backup and its parts; all, and all parts, if none is named.
    pub backup: Option<&'a str>,
    /// Whether objects are decoded.
    pub is_deep: bool,
    /// Told how far it is.
    pub progress: &'a dyn RunProgress,
    /// Set by whoever wants it to stop.
    pub stop: &'a AtomicBool,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// Names of backups that are whole: their manifest, and all parts that it names.
    pub backups: BTreeSet<String>,
    /// Parts of these and other backups that are whole.
    pub parts: u64,
    /// In these.
    pub keys: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Parts that are whole, and that no backup names: of one that was interrupted or pruned, or that is being taken.
    pub unnamed: u64,
    /// Bytes of these.
    pub unnamed_bytes: u64,
    /// What is wrong, each with its file.
    pub damages: Vec<BackupError>,
}

/// A part, and what is said of it: by which file.
struct Expected {
    name: PartName,
    bytes: u64,
    said: Vec<(String, PartSummary, u16)>,
}

impl Verification<'_> {
    /// Looks at everything.
    ///
    /// # Errors
    /// The target cannot be read, or it was interrupted. Damage is none: it is in what was found.
    pub fn run(&self) -> Result<Verified, BackupError> {
        let mut verified = Verified::default();
        let parts = self.expected(&mut verified)?;
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let all = parts.iter().map(|part| part.bytes).sum();
        let found = Mutex::new((verified, None));
        let readers = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(READERS_MAX);
        thread::scope(|scope| {
            for _ in 0..readers.min(parts.len()) {
                scope.spawn(|| {
                    while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let looked = self.look_at(part, &done, all);
                        let mut found = found.lock().expect("nobody panics while he holds it");
                        match looked {
                            Ok(summary) => found.0.add(&summary, !part.said.is_empty()),
                            Err(error @ (BackupError::Damaged(_) | BackupError::Missing(_))) => {
                                for (backup, ..) in &part.said {
                                    found.0.backups.remove(backup);
                                }
                                found.0.damages.push(error);
                            }
                            Err(error) => {
                                found.1 = Some(error);
                                next.store(parts.len(), Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        match found.into_inner().expect("nobody panics while he holds it") {
            (_, Some(error)) => Err(error),
            (mut verified, None) => {
                verified.damages.sort_by_key(ToString::to_string);
                Ok(verified)
            }
        }
    }

    /// The parts that are to be looked at, and what manifests say of them.
    fn expected(&self, verified: &mut Verified) -> Result<Vec<Expected>, BackupError> {
        let files = self.target.list(TargetFolder::Parts)?;
        let there: BTreeMap<PartName, u64> = files
            .iter()
            .filter_map(|file| Some((part_of(&file.path)?, file.bytes)))
            .collect();
        let mut said: BTreeMap<PartName, Vec<(String, PartSummary, u16)>> = BTreeMap::new();
        for manifest in self.manifests(verified)? {
            verified.backups.insert(manifest.name.clone());
            for part in &manifest.parts {
                let summary = part.summary();
                if !there.contains_key(&summary.name()) {
                    verified.backups.remove(&manifest.name);
                    if !said.contains_key(&summary.name()) {
                        let path = shown(self.target, &part_path(&summary.name()));
                        verified.damages.push(BackupError::Missing(path));
                    }
                }
                let says = (manifest.name.clone(), summary, manifest.partitions);
                said.entry(summary.name()).or_default().push(says);
            }
        }
        let is_wanted = |name: &PartName| self.backup.is_none() || said.contains_key(name);
        let wanted = there.iter().filter(|(name, _)| is_wanted(name));
        Ok(wanted
            .map(|(&name, &bytes)| Expected {
                name,
                bytes,
                said: said.get(&name).cloned().unwrap_or_default(),
            })
            .collect())
    }

    fn manifests(&self, verified: &mut Verified) -> Result<Vec<Manifest>, BackupError> {
        let read = match self.backup {
            Some(name) => vec![find_backup(self.target, Some(name))],
            None => backups(self.target)?
                .into_iter()
                .map(|entry| entry.manifest)
                .collect(),
        };
        let mut manifests = Vec::new();
        for manifest in read {
            match manifest {
                Ok(manifest) => manifests.push(manifest),
                Err(error @ BackupError::Damaged(_)) => verified.damages.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(manifests)
    }

    fn look_at(&self, part: &Expected, done: &AtomicU64, all: u64) -> Result<PartSummary, BackupError> {
        let path = part_path(&part.name);
        let watched = Watched {
            from: self.target.read(&path)?,
            run: self,
            done,
            all,
        };
        let mut reader = PartReader::open(watched, shown(self.target, &path))?;
        let mut seen = HashSet::new();
        while let Some(record) = reader.next_record()? {
            if self.is_deep {
                look_into(&record, &mut reader, part.name.partition, &part.said, &mut seen)?;
            }
        }
        let summary = reader.summary();
        let damaged =
            |expected: String, found: String| Err(BackupError::damaged(reader.file(), 0, expected, found));
        if summary.sha256 != part.name.sha256 {
            let expected = format!("bytes with the SHA-256 {}", hex(&part.name.sha256));
            return damaged(expected, hex(&summary.sha256));
        }
        if summary.partition != part.name.partition {
            let expected = format!("partition {}", part.name.partition);
            return damaged(expected, format!("partition {}", summary.partition));
        }
        for (backup, said, partitions) in &part.said {
            if *said != summary || *partitions != reader.partitions() {
                let expected = format!(
                    "what the backup {backup} says: {} keys, {} of {} bytes, {partitions} partitions",
                    said.keys, said.bytes, said.raw_bytes
                );
                let found = format!(
                    "{} keys, {} of {} bytes, {} partitions",
                    summary.keys,
                    summary.bytes,
                    summary.raw_bytes,
                    reader.partitions()
                );
                return damaged(expected, found);
            }
        }
        Ok(summary)
    }
}

/// Decodes an object.
fn look_into<R: Read>(
    record: &PartRecord,
    reader: &mut PartReader<R>,
    partition: u16,
    said: &[(String, PartSummary, u16)],
    seen: &mut HashSet<[u8; 16]>,
) -> Result<(), BackupError> {
    let at = reader.block_offset();
    let file = reader.file().to_owned();
    let key = record.key.escape_ascii().to_string();
    let damaged = |expected: &str, found: String| {
        Err(BackupError::damaged(
            &file,
            at,
            expected,
            format!("{found}, key {key:.60}"),
        ))
    };
    if record.value_length > VALUE_BYTES_MAX {
        return damaged(
            "a value of a length that there is",
            record.value_length.to_string(),
        );
    }
    let mut value = Vec::new();
    while reader.value(&mut value, VALUE_BYTES)? > 0 {}
    if let Err(error) = keyspace::check_object(&record.head, &value) {
        return damaged(error.expected, format!("another one in database {}", record.db));
    }
    // Of how many partitions it is one is known at its end; a manifest says it before.
    let count = said.first().and_then(|(_, _, count)| PartitionCount::new(*count));
    let belongs = count.map(|count| count.partition_of(Slot::of_key(&record.key)).number());
    if belongs.is_some_and(|belongs| belongs != partition) {
        return damaged(
            "keys of the partition of the part",
            format!("one of partition {belongs:?}"),
        );
    }
    let digest = Sha256::new()
        .chain_update([record.db])
        .chain_update(&record.key)
        .finalize();
    let mut name = [0; 16];
    name.copy_from_slice(&digest[..16]);
    if !seen.insert(name) {
        return damaged("each key once", format!("one again in database {}", record.db));
    }
    Ok(())
}

/// Counts what is read, and ends where somebody wants it to.
struct Watched<'a> {
    from: Box<dyn Read + Send>,
    run: &'a Verification<'a>,
    done: &'a AtomicU64,
    all: u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.run.stop.load(Ordering::Relaxed) {
            return Err(std::io::Error::other(BackupError::Interrupted));
        }
        let count = self.from.read(to)?;
        let done = self.done.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        self.run.progress.at("reading", done, self.all);
        Ok(count)
    }
}

impl Verified {
    /// A part is whole.
    fn add(&mut self, part: &PartSummary, is_named: bool) {
        match is_named {
            true => {
                self.parts += 1;
                self.keys += part.keys;
                self.bytes += part.bytes;
            }
            false => {
                self.unnamed += 1;
                self.unnamed_bytes += part.bytes;
            }
        }
    }

    /// What is whole, in a sentence, and what there is besides.
    pub fn in_words(&self) -> String {
        let mut text = format!(
            "{} and {} are whole: {}, {}.",
            counted(self.backups.len() as u64, "backup"),
            counted(self.parts, "part"),
            counted(self.keys, "key"),
            bytes_in_words(self.bytes)
        );
        if self.unnamed > 0 {
            text.push_str(&format!(
                " Besides, no backup names {} of {}: --prune removes what is so and a day old.",
                counted(self.unnamed, "part"),
                bytes_in_words(self.unnamed_bytes)
            ));
        }
        text
    }
}
