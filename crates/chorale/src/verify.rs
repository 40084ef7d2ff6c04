//! `chorale verify`: looks for damage in backups, or in the data directory of a node that is stopped.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use backup::{BackupJob, JobReport, TargetPlace, counted};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::admin_client::DEFAULT_ADDRESS;
use crate::backup_job::{self, S3_HELP, node_argument, target_argument};
use crate::progress_bar::ProgressBar;

/// The name of the subcommand, and of its arguments.
pub(crate) const VERIFY: &str = "verify";
const ADMIN_ADDRESS: &str = "admin";
const BACKUP: &str = "backup";
const DEEP: &str = "deep";

const EXAMPLES: &str = "\
Examples:
  chorale verify /mnt/backups
      Reads every backup and every part, and compares checksums, names and counts.
  chorale verify s3://backups/chorale --backup 20261126T233100Z
      One backup and its parts.
  chorale verify /mnt/backups --deep
      Decodes every object too, as a node would.
  chorale verify /var/lib/chorale --deep
      The data directory of a node, which has a file `identity`: who it is, its logs and snapshots, the meta log; deep, logs are replayed
      onto snapshots. The node must be stopped. Nothing is changed.

What is damaged is named with its file and the offset where it begins, and the rest is looked at all the same. The status is 0 only
if nothing is. A damaged part that is removed is written again by the next backup if the partition has not changed.";

/// Its command line.
pub(crate) fn command() -> Command {
    Command::new(VERIFY)
        .about("Look for damage in backups, or in the data directory of a node that is stopped")
        .arg(target_argument())
        .arg(
            node_argument(
                ADMIN_ADDRESS,
                "With node:/DIRECTORY, the admin port of the node whose directory it is; a port alone is one of this machine",
            )
            .default_value(DEFAULT_ADDRESS),
        )
        .arg(
            Arg::new(BACKUP)
                .long(BACKUP)
                .value_name("NAME")
                .help("One backup, instead of all and all parts"),
        )
        .arg(
            Arg::new(DEEP)
                .long(DEEP)
                .action(ArgAction::SetTrue)
                .help("Decode every object too"),
        )
        .after_help(format!("{EXAMPLES}\n\n{S3_HELP}"))
}

/// Does what the command line says.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    if let Some(directory) = data_directory(matches) {
        return backup_job::finish(check(&directory, matches));
    }
    let job = BackupJob::Verify {
        backup: matches.get_one::<String>(BACKUP).cloned(),
        is_deep: matches.get_flag(DEEP),
    };
    backup_job::main(matches, ADMIN_ADDRESS, &job)
}

/// The data directory that the command line names instead of a target.
fn data_directory(matches: &ArgMatches) -> Option<PathBuf> {
    match TargetPlace::parse(backup_job::target_of(matches)) {
        Ok(TargetPlace::Directory(path)) if node::is_data_directory(&path) => Some(path),
        _ => None,
    }
}

fn check(directory: &Path, matches: &ArgMatches) -> Result<JobReport, String> {
    if matches.contains_id(BACKUP) {
        return Err(format!(
            "{} is the data directory of a node, and has no backups: leave --{BACKUP} out",
            directory.display()
        ));
    }
    let (stop, bar) = (backup_job::stop_flag()?, ProgressBar::new());
    let found = node::check_directory(directory, matches.get_flag(DEEP), &bar, &stop);
    bar.finish();
    let found = found?;
    let verdict = match found.damages.len() {
        0 => "Everything is whole.\n".to_owned(),
        count => format!("{}.\n", counted(count as u64, "damage")),
    };
    Ok(JobReport {
        text: found.text + &verdict,
        damages: found.damages,
        ..JobReport::default()
    })
}
