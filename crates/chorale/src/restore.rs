//! `chorale restore`: puts a backup into an empty cluster.

use std::process::ExitCode;

use backup::BackupJob;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::backup_job::{self, S3_HELP, node_argument, target_argument};

/// The name of the subcommand, and of its arguments.
pub(crate) const RESTORE: &str = "restore";
const INTO: &str = "into";
const BACKUP: &str = "backup";
const CONFIRM: &str = "confirm";
const SETTINGS: &str = "settings";

const EXAMPLES: &str = "\
Examples:
  chorale restore /mnt/backups --into 127.0.0.1:9121
      What would be done with the newest backup. Changes nothing.
  chorale restore /mnt/backups --into 127.0.0.1:9121 --confirm
      Does it. The cluster must be empty; it may have any number of nodes and groups.
  chorale restore s3://backups/chorale --backup 20261126T233100Z --into 10.0.0.7:9121 --confirm
      An older backup; chorale admin backup TARGET --list shows which there are.

Keep clients away until it is done. Each part is compared with the backup as it is read, and the number of keys at the end. Keys
that have expired meanwhile stay away. Where it stops halfway the cluster has a part of the keys: FLUSHALL, then again. Settings
are shown, and set with --settings; passwords and backup-* never are. Users are not restored.";

/// Its command line.
pub(crate) fn command() -> Command {
    Command::new(RESTORE)
        .about("Say what a backup would put into an empty cluster, and put it there if confirmed")
        .arg(target_argument())
        .arg(
            node_argument(
                INTO,
                "Admin port of any node of the cluster, with node:/DIRECTORY of the one whose directory it is; a port alone is one of \
                 this machine",
            )
            .required(true),
        )
        .arg(
            Arg::new(BACKUP)
                .long(BACKUP)
                .value_name("NAME")
                .help("Which backup, instead of the newest"),
        )
        .arg(
            Arg::new(SETTINGS)
                .long(SETTINGS)
                .action(ArgAction::SetTrue)
                .help("Set the settings of the backup too, once its keys are there"),
        )
        .arg(
            Arg::new(CONFIRM)
                .long(CONFIRM)
                .action(ArgAction::SetTrue)
                .help("Do it"),
        )
        .after_help(format!("{EXAMPLES}\n\n{S3_HELP}"))
}

/// Does what the command line says.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    let job = BackupJob::Restore {
        backup: matches.get_one::<String>(BACKUP).cloned(),
        is_confirmed: matches.get_flag(CONFIRM),
        with_settings: matches.get_flag(SETTINGS),
    };
    backup_job::main(matches, INTO, &job)
}
