//! The backups of a target: which there are, and which go.
//!
//! Pruning removes manifests first and parts last, and of parts only those that no manifest names and that are older than a day: a
//! backup that runs at the same time has written its parts, or made them young again, and not yet its manifest.

use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, SystemTime};

use crate::manifest::MANIFEST_BYTES_MAX;
use crate::target::{BackupTarget, TargetFile, TargetFolder, backup_of, manifest_path, part_of, part_path};
use crate::{BackupError, Manifest};

/// Below this age a part that no manifest names may be one of a backup that is being made.
const PART_AGE_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A backup of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupEntry {
    /// Its name.
    pub name: String,
    /// What it is, or why that is not known.
    pub manifest: Result<Manifest, BackupError>,
}

/// What pruning has removed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pruned {
    /// Names of backups.
    pub backups: Vec<String>,
    /// How many parts.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All backups of a target, the oldest first; those whose manifest cannot be read before all others.
///
/// # Errors
/// The target cannot be listed.
pub fn backups(target: &dyn BackupTarget) -> Result<Vec<BackupEntry>, BackupError> {
    let files = target.list(TargetFolder::Backups)?;
    let mut entries = Vec::new();
    for name in files.iter().filter_map(|file| backup_of(&file.path)) {
        match read_manifest(target, name) {
            // Removed since it was listed.
            Err(BackupError::Missing(_)) => {}
            manifest => entries.push(BackupEntry {
                name: name.to_owned(),
                manifest,
            }),
        }
    }
    entries.sort_by_key(|entry| (entry.made(), entry.name.clone()));
    Ok(entries)
}

impl BackupEntry {
    fn made(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.made)
    }
}

/// The manifest of this backup, or of the newest one that can be read.
///
/// # Errors
/// There is none; it is damaged, or of a later version.
pub fn find_backup(target: &dyn BackupTarget, name: Option<&str>) -> Result<Manifest, BackupError> {
    if let Some(name) = name {
        crate::check_name(name)?;
        return read_manifest(target, name).map_err(|error| match error {
            BackupError::Missing(_) => BackupError::Failed(format!(
                "{} has no backup {name}: chorale admin backup {} --list shows those it has",
                target.name(),
                target.name()
            )),
            other => other,
        });
    }
    let newest = backups(target)?.pop();
    let newest = newest.ok_or_else(|| {
        BackupError::Failed(format!(
            "{} has no backup: is it the right target?",
            target.name()
        ))
    })?;
    newest.manifest
}

pub(crate) fn read_manifest(target: &dyn BackupTarget, name: &str) -> Result<Manifest, BackupError> {
    let path = manifest_path(name);
    let shown = shown(target, &path);
    let mut bytes = Vec::new();
    let mut from = target.read(&path)?.take(MANIFEST_BYTES_MAX + 1);
    from.read_to_end(&mut bytes)
        .map_err(BackupError::io("read", &shown))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        let expected = format!("a manifest of at most {MANIFEST_BYTES_MAX} bytes");
        return Err(BackupError::damaged(&shown, MANIFEST_BYTES_MAX, expected, "more"));
    }
    Manifest::decode(&bytes, &shown, name)
}

/// A file as errors call it.
pub(crate) fn shown(target: &dyn BackupTarget, path: &str) -> String {
    format!("{}/{path}", target.name().trim_end_matches('/'))
}

/// Keeps the newest `keep` backups, and removes the others, and the parts that nobody needs any more.
///
/// # Errors
/// A manifest cannot be read: no part goes then, because it may be one of its. What was removed before stays removed.
pub fn prune(target: &dyn BackupTarget, keep: usize) -> Result<Pruned, BackupError> {
    let entries = backups(target)?;
    for entry in &entries {
        if let Err(error) = &entry.manifest {
            return Err(BackupError::Failed(format!(
                "nothing was pruned: which parts the backup {} needs is not known ({error}). Remove {} if it is of no use",
                entry.name,
                shown(target, &manifest_path(&entry.name))
            )));
        }
    }
    let mut pruned = Pruned::default();
    for entry in &entries[..entries.len().saturating_sub(keep)] {
        target.remove(&manifest_path(&entry.name))?;
        pruned.backups.push(entry.name.clone());
    }
    // The parts before the manifests: what is written meanwhile is in no list, and a manifest that comes meanwhile is read.
    let parts = target.list(TargetFolder::Parts)?;
    let mut needed = BTreeSet::new();
    for entry in backups(target)? {
        let parts = entry.manifest?.parts;
        needed.extend(parts.iter().map(|part| part_path(&part.name())));
    }
    let now = SystemTime::now();
    for part in parts.iter().filter(|part| part_of(&part.path).is_some()) {
        if !needed.contains(&part.path) && is_old(part, now) {
            target.remove(&part.path)?;
            pruned.parts += 1;
            pruned.bytes += part.bytes;
        }
    }
    Ok(pruned)
}

/// One of which it is not known is not.
fn is_old(part: &TargetFile, now: SystemTime) -> bool {
    let age = part
        .modified
        .and_then(|modified| now.duration_since(modified).ok());
    age.is_some_and(|age| age > PART_AGE_MIN)
}
