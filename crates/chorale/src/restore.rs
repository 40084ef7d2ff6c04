//! `chorale restore`: puts a backup into an empty cluster.

use std::process::ExitCode;

use backup::{RestoreRun, find_backup};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::admin_client::{full, show};
use crate::backup_target::{self, S3_HELP, TARGET_HELP};
use crate::progress_bar::ProgressBar;

/// The name of the subcommand, and of its arguments.
pub(crate) const RESTORE: &str = "restore";
const TARGET: &str = "target";
const INTO: &str = "into";
const BACKUP: &str = "backup";
const CONFIRM: &str = "confirm";

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
and users are not restored.";

/// Its command line.
pub(crate) fn command() -> Command {
    Command::new(RESTORE)
        .about("Say what a backup would put into an empty cluster, and put it there if confirmed")
        .arg(
            Arg::new(TARGET)
                .value_name("TARGET")
                .required(true)
                .help(TARGET_HELP),
        )
        .arg(
            Arg::new(INTO)
                .long(INTO)
                .value_name("HOST:PORT")
                .required(true)
                .help("Admin port of any node of the cluster; a port alone is one of this machine"),
        )
        .arg(
            Arg::new(BACKUP)
                .long(BACKUP)
                .value_name("NAME")
                .help("Which backup, instead of the newest"),
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
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let target = text(TARGET).expect("it is required");
    let into = text(INTO).expect("it is required");
    show(restore(
        target,
        &full(into),
        text(BACKUP),
        matches.get_flag(CONFIRM),
    ))
}

fn restore(target: &str, address: &str, name: Option<&str>, is_confirmed: bool) -> Result<String, String> {
    let target = backup_target::open_existing(target)?;
    let manifest = find_backup(&*target, name).map_err(|error| error.to_string())?;
    let members = backup_target::members(address)?;
    let (stop, password, bar) = (
        backup_target::stop_flag()?,
        backup_target::password(),
        ProgressBar::new(),
    );
    let run = RestoreRun {
        target: &*target,
        manifest: &manifest,
        members: &members,
        password: password.as_deref(),
        progress: &bar,
        stop: &stop,
    };
    if !is_confirmed {
        run.check().map_err(|error| error.to_string())?;
        return Ok(format!(
            "{}\nNothing was done. --confirm does it.\n",
            run.in_words()
        ));
    }
    let report = run.run();
    bar.finish();
    let report = report.map_err(|error| error.to_string())?;
    let expired = match report.expired {
        0 => String::new(),
        count => format!(" {count} had expired."),
    };
    Ok(format!(
        "Restored {}: {} keys.{expired}\n",
        manifest.name, report.keys
    ))
}
