//! `chorale admin backup`: takes a backup of the cluster that runs, or shows those that there are.

use std::fmt::Write;
use std::process::ExitCode;

use backup::{BackupEntry, BackupError, BackupRun, BackupTarget, backups, bytes_in_words, prune};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::admin_client::{DEFAULT_ADDRESS, full, show};
use crate::backup_target::{self, S3_HELP, TARGET_HELP};
use crate::progress_bar::ProgressBar;
use crate::status::columns;

/// The name of the subcommand, and of its arguments.
pub(crate) const BACKUP: &str = "backup";
const TARGET: &str = "target";
const ADMIN_ADDRESS: &str = "admin";
const NAME: &str = "name";
const LIST: &str = "list";
const PRUNE: &str = "prune";

const EXAMPLES: &str = "\
Examples:
  chorale admin backup /mnt/backups
      All keys of the cluster of the node on this machine, as of one instant, into a directory of this machine. The name is the
      time in UTC, such as 20261126T233100Z.
  chorale admin backup s3://backups/chorale --admin 10.0.0.7:9121 --prune 14
      Through another node, into a bucket; then all but the newest 14 backups go.
  chorale admin backup /mnt/backups --list
      Which backups there are, without asking the cluster.
  15 3 * * *  chorale admin backup /mnt/backups --prune 14 || mail -s 'no backup' ops@example.org </dev/null
      A line for cron: the status is 0 only if there is a new backup.

Writes go on meanwhile; commands wait for a moment where the instant is fixed. Followers do the work where there are any. What has
not changed since an earlier backup of the same target takes no room and is not sent again. An interrupted backup leaves no backup,
and what it wrote is used by the next. chorale verify looks for damage, chorale restore puts a backup into an empty cluster.";

/// Its command line.
pub(crate) fn command() -> Command {
    Command::new(BACKUP)
        .about("Take a backup of the whole cluster as of one instant, into a directory or S3")
        .arg(
            Arg::new(TARGET)
                .value_name("TARGET")
                .required(true)
                .help(TARGET_HELP),
        )
        .arg(
            Arg::new(ADMIN_ADDRESS)
                .long(ADMIN_ADDRESS)
                .value_name("HOST:PORT")
                .default_value(DEFAULT_ADDRESS)
                .help("Admin port of any node; a port alone is one of this machine"),
        )
        .arg(
            Arg::new(NAME)
                .long(NAME)
                .value_name("NAME")
                .conflicts_with(LIST)
                .help("What the backup is called, instead of the time in UTC"),
        )
        .arg(
            Arg::new(LIST)
                .long(LIST)
                .action(ArgAction::SetTrue)
                .help("Show the backups that are there, and make none"),
        )
        .arg(
            Arg::new(PRUNE)
                .long(PRUNE)
                .value_name("N")
                .value_parser(clap::value_parser!(u32).range(1..))
                .conflicts_with(LIST)
                .help("Then keep the newest N backups, and remove the others and what nobody needs any more"),
        )
        .after_help(format!("{EXAMPLES}\n\n{S3_HELP}"))
}

/// Does what the command line says.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    let target = matches.get_one::<String>(TARGET).expect("it is required");
    if matches.get_flag(LIST) {
        return show(backup_target::open_existing(target).and_then(|target| list(&*target)));
    }
    let address = matches
        .get_one::<String>(ADMIN_ADDRESS)
        .expect("it has a default");
    let name = matches.get_one::<String>(NAME).cloned();
    let keep = matches.get_one::<u32>(PRUNE).map(|&keep| keep as usize);
    show(take(target, &full(address), name, keep))
}

fn take(target: &str, address: &str, name: Option<String>, keep: Option<usize>) -> Result<String, String> {
    let target = backup_target::open(target)?;
    let (stop, password, bar) = (
        backup_target::stop_flag()?,
        backup_target::password(),
        ProgressBar::new(),
    );
    let name = name.unwrap_or_else(backup::name_of_now);
    let members = || backup_target::members(address).map_err(BackupError::Failed);
    let run = BackupRun {
        target: &*target,
        name: &name,
        members: &members,
        password: password.as_deref(),
        progress: &bar,
        stop: &stop,
    };
    let report = run.run();
    bar.finish();
    let report = report.map_err(|error| match error {
        BackupError::Interrupted => {
            format!("interrupted: there is no backup {name}. What was written is used by the next one")
        }
        other => other.to_string(),
    })?;
    let mut text = format!("{}\n", report.in_words());
    if let Some(keep) = keep {
        let pruned = prune(&*target, keep).map_err(|error| format!("{text}But {error}"))?;
        let _ = writeln!(
            text,
            "Pruned: {} backups, {} parts, {}.",
            pruned.backups.len(),
            pruned.parts,
            bytes_in_words(pruned.bytes)
        );
    }
    Ok(text)
}

fn list(target: &dyn BackupTarget) -> Result<String, String> {
    let entries = backups(target).map_err(|error| error.to_string())?;
    if entries.is_empty() {
        return Ok(format!("{} has no backups.\n", target.name()));
    }
    Ok(columns(&rows(&entries)))
}

fn rows(entries: &[BackupEntry]) -> Vec<Vec<String>> {
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
                backup::time_in_words(manifest.made),
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
