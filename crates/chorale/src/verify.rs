//! `chorale verify`: looks for damage in backups.

use std::process::ExitCode;

use backup::{BackupError, Verification};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::backup_target::{self, S3_HELP, TARGET_HELP};
use crate::print;
use crate::progress_bar::ProgressBar;

/// The name of the subcommand, and of its arguments.
pub(crate) const VERIFY: &str = "verify";
const TARGET: &str = "target";
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
        .arg(
            Arg::new(TARGET)
                .value_name("TARGET")
                .required(true)
                .help(TARGET_HELP),
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
    let target = matches.get_one::<String>(TARGET).expect("it is required");
    let backup = matches.get_one::<String>(BACKUP).map(String::as_str);
    match verify(target, backup, matches.get_flag(DEEP)) {
        Ok((text, damages)) => {
            damages.iter().for_each(|damage| eprintln!("chorale: {damage}"));
            let printed = print(&text);
            if damages.is_empty() {
                printed
            } else {
                ExitCode::FAILURE
            }
        }
        Err(reason) => {
            eprintln!("chorale: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn verify(target: &str, backup: Option<&str>, is_deep: bool) -> Result<(String, Vec<BackupError>), String> {
    let target = backup_target::open_existing(target)?;
    let (stop, bar) = (backup_target::stop_flag()?, ProgressBar::new());
    let verification = Verification {
        target: &*target,
        backup,
        is_deep,
        progress: &bar,
        stop: &stop,
    };
    let verified = verification.run();
    bar.finish();
    let verified = verified.map_err(|error| error.to_string())?;
    if verified.backups == 0 && verified.parts == 0 && verified.damages.is_empty() {
        return Err(format!(
            "{} has no backups: is it the right target?",
            target.name()
        ));
    }
    let mut text = format!("{}\n", verified.in_words());
    if !verified.damages.is_empty() {
        text.push_str(&format!(
            "{} files are damaged or missing.\n",
            verified.damages.len()
        ));
    }
    Ok((text, verified.damages))
}
