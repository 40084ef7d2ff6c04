//! `chorale verify`: looks for damage in backups.

use std::process::ExitCode;

use backup::BackupJob;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::admin_client::DEFAULT_ADDRESS;
use crate::backup_job::{self, S3_HELP, node_argument, target_argument};

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

What is damaged is named with its file and the offset where it begins, and the rest is looked at all the same. The status is 0 only
if nothing is. A damaged part that is removed is written again by the next backup if the partition has not changed.";

/// Its command line.
pub(crate) fn command() -> Command {
    Command::new(VERIFY)
        .about("Look for damage in backups")
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
    let job = BackupJob::Verify {
        backup: matches.get_one::<String>(BACKUP).cloned(),
        is_deep: matches.get_flag(DEEP),
    };
    backup_job::main(matches, ADMIN_ADDRESS, &job)
}
