//! `chorale admin backup`: takes a backup of the cluster that runs, or shows those that there are.

use std::process::ExitCode;

use backup::BackupJob;
use clap::{Arg, ArgAction, ArgMatches, Command};
use node::{BesideWork, step_back};

use crate::admin_client::DEFAULT_ADDRESS;
use crate::backup_job::{self, S3_HELP, node_argument, target_argument};

/// The name of the subcommand, and of its arguments.
pub(crate) const BACKUP: &str = "backup";
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
  chorale admin backup node:/var/backups --admin 10.0.0.7:9121
      The same into a directory of that node, which must be there and which the node's process writes. --list, chorale restore and
      chorale verify take node:/DIRECTORY too.
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
        .about("Take a backup of the whole cluster as of one instant, into a directory, one of a node, or S3")
        .arg(target_argument())
        .arg(
            node_argument(
                ADMIN_ADDRESS,
                "Admin port of any node, with node:/DIRECTORY of the one whose directory it is; a port alone is one of this machine",
            )
            .default_value(DEFAULT_ADDRESS),
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
    let job = match matches.get_flag(LIST) {
        true => BackupJob::List {},
        false => BackupJob::Take {
            name: matches.get_one::<String>(NAME).cloned(),
            keep: matches.get_one::<u32>(PRUNE).copied(),
        },
    };
    // It may run beside a node, which has clients that wait.
    step_back(BesideWork::Backups);
    backup_job::main(matches, ADMIN_ADDRESS, &job)
}
