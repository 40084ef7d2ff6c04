//! What can be asked of the backups of a target: the same by a command line of its own machine and by one of a node's.

use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::clock::{name_of_now, time_in_words};
use crate::progress::{RunProgress, bytes_in_words, counted};
use crate::restored_settings;
use crate::{
    BackupEntry, BackupError, BackupRun, BackupTarget, ClusterMembers, RestoreRun, Verification, backups,
    find_backup, prune,
};

/// Backups that a list shows, the newest, and damages that are named: the rest is counted.
const LISTED_MAX: usize = 4_096;
const DAMAGES_MAX: usize = 1_024;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BackupJob {
    /// A backup is taken.
    Take {
        /// Its name, if not the time.
        name: Option<String>,
        /// How many of the newest stay then; all if it does not say.
        keep: Option<u32>,
    },
    /// The backups are shown.
    List {},
    /// A backup is put into an empty cluster, or it is said what would be.
    Restore {
        /// Which, if not the newest.
        backup: Option<String>,
        /// Whether it is done.
        is_confirmed: bool,
        /// Whether its settings are set too.
        with_settings: bool,
    },
    /// Damage is looked for.
    Verify {
        /// In one backup, if not in all.
        backup: Option<String>,
        /// Whether objects are decoded.
        is_deep: bool,
    },
}

/// With what.
pub struct JobContext<'a> {
    /// Whose backups.
    pub target: &'a dyn BackupTarget,
    /// The cluster as it is now.
    pub members: &'a (dyn Fn() -> Result<ClusterMembers, BackupError> + Sync),
    /// The password of the nodes' clients.
    pub password: Option<&'a str>,
    /// Told how far it is.
    pub progress: &'a dyn RunProgress,
    /// Set by whoever wants it to stop.
    pub stop: &'a AtomicBool,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct JobReport {
    /// For people.
    pub text: String,
    /// A table for people, its head first; empty if there is none.
    pub rows: Vec<Vec<String>>,
    /// What is damaged, each with its file. The job has not failed, but whoever asked has to be told.
    pub damages: Vec<String>,
    /// When the backup was made that was taken: Unix milliseconds.
    pub made: Option<u64>,
}

impl BackupJob {
    /// Whether it needs nothing but to read the target.
    pub fn only_reads(&self) -> bool {
        !matches!(self, BackupJob::Take { .. })
    }

    /// What it does, as the beginning of a sentence.
    pub fn in_words(&self, target: &str) -> String {
        match self {
            BackupJob::Take { .. } => format!("backup into {target}"),
            BackupJob::List {} => format!("list of {target}"),
            BackupJob::Restore { .. } => format!("restore from {target}"),
            BackupJob::Verify { .. } => format!("verification of {target}"),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// In words that say what to do next.
    pub fn run(&self, cx: &JobContext<'_>) -> Result<JobReport, BackupError> {
        match self {
            BackupJob::Take { name, keep } => take(cx, name.clone(), *keep),
            BackupJob::List {} => list(cx.target),
            BackupJob::Restore {
                backup,
                is_confirmed,
                with_settings,
            } => restore(cx, backup.as_deref(), *is_confirmed, *with_settings),
            BackupJob::Verify { backup, is_deep } => verify(cx, backup.as_deref(), *is_deep),
        }
    }
}

fn take(cx: &JobContext<'_>, name: Option<String>, keep: Option<u32>) -> Result<JobReport, BackupError> {
    let name = name.unwrap_or_else(name_of_now);
    let run = BackupRun {
        target: cx.target,
        name: &name,
        members: cx.members,
        password: cx.password,
        progress: cx.progress,
        stop: cx.stop,
    };
    let report = run.run().map_err(|error| match error {
        BackupError::Interrupted => BackupError::Failed(format!(
            "interrupted: there is no backup {name}. What was written is used by the next one"
        )),
        other => other,
    })?;
    let mut text = format!("{}\n", report.in_words());
    if let Some(keep) = keep {
        let pruned = prune(cx.target, keep as usize)
            .map_err(|error| BackupError::Failed(format!("{text}But {error}")))?;
        let _ = writeln!(
            text,
            "Pruned: {}, {}, {}.",
            counted(pruned.backups.len() as u64, "backup"),
            counted(pruned.parts, "part"),
            bytes_in_words(pruned.bytes)
        );
    }
    Ok(JobReport {
        text,
        made: Some(report.manifest.made),
        ..JobReport::default()
    })
}

fn list(target: &dyn BackupTarget) -> Result<JobReport, BackupError> {
    let entries = backups(target)?;
    let passed_over = entries.len().saturating_sub(LISTED_MAX);
    let text = match (entries.len(), passed_over) {
        (0, _) => format!("{} has no backups.\n", target.name()),
        (_, 0) => String::new(),
        (_, 1) => "1 older one is not shown.\n".to_owned(),
        (_, count) => format!("{count} older ones are not shown.\n"),
    };
    Ok(JobReport {
        text,
        rows: rows(&entries[passed_over..]),
        ..JobReport::default()
    })
}

fn rows(entries: &[BackupEntry]) -> Vec<Vec<String>> {
    if entries.is_empty() {
        return Vec::new();
    }
    let head = [
        "backup",
        "made (UTC)",
        "keys",
        "parts",
        "in files",
        "by",
        "cluster",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for entry in entries {
        let mut row = vec![entry.name.clone()];
        match &entry.manifest {
            Ok(manifest) => row.extend([
                time_in_words(manifest.made),
                manifest.keys.to_string(),
                manifest.parts.len().to_string(),
                bytes_in_words(manifest.bytes),
                manifest.by.clone(),
                manifest.cluster.get(..8).unwrap_or("-").to_owned(),
            ]),
            Err(error) => row.push(error.to_string()),
        }
        rows.push(row);
    }
    rows
}

fn restore(
    cx: &JobContext<'_>,
    backup: Option<&str>,
    is_confirmed: bool,
    with_settings: bool,
) -> Result<JobReport, BackupError> {
    let manifest = find_backup(cx.target, backup)?;
    let members = (cx.members)()?;
    let run = RestoreRun {
        target: cx.target,
        manifest: &manifest,
        members: &members,
        password: cx.password,
        progress: cx.progress,
        stop: cx.stop,
    };
    let text = if is_confirmed {
        let report = run.run()?;
        let expired = match report.expired {
            0 => String::new(),
            count => format!(" {count} had expired."),
        };
        if with_settings {
            restored_settings::apply(&manifest, &members, cx.password)?;
        }
        format!(
            "Restored {}: {}.{expired}\n{}",
            manifest.name,
            counted(report.keys, "key"),
            restored_settings::in_words(&manifest, with_settings)
        )
    } else {
        run.check()?;
        let settings = restored_settings::in_words(&manifest, false);
        format!(
            "{}\n{settings}Nothing was done. --confirm does it.\n",
            run.in_words()
        )
    };
    Ok(JobReport {
        text,
        ..JobReport::default()
    })
}

fn verify(cx: &JobContext<'_>, backup: Option<&str>, is_deep: bool) -> Result<JobReport, BackupError> {
    let verification = Verification {
        target: cx.target,
        backup,
        is_deep,
        progress: cx.progress,
        stop: cx.stop,
    };
    let verified = verification.run()?;
    let count = verified.damages.len();
    if verified.backups.is_empty() && verified.parts + verified.unnamed == 0 && count == 0 {
        return Err(BackupError::Failed(format!(
            "{} has no backups: is it the right target?",
            cx.target.name()
        )));
    }
    let mut text = format!("{}\n", verified.in_words());
    match count {
        0 => {}
        1 => text.push_str("1 file is damaged or missing.\n"),
        _ => text.push_str(&format!("{count} files are damaged or missing.\n")),
    }
    let damages = verified.damages.iter().take(DAMAGES_MAX).map(ToString::to_string);
    Ok(JobReport {
        text,
        damages: damages.collect(),
        ..JobReport::default()
    })
}
