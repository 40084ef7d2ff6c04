//! `chorale server`: from what the operator wrote to a running node.

use std::process::ExitCode;
use std::{env, fs};

use options::{File, Settings, Sources, config_path, load};

use crate::log;

/// For options that cannot be: the same code as clap's, so that supervisors can tell it from a crash.
const EXIT_USAGE: u8 = 2;

/// Reads all options, starts the log and runs the node until it is told to stop.
pub(crate) fn main(flags: Vec<(String, String)>) -> ExitCode {
    let settings = match read_settings(flags) {
        Ok(settings) => settings,
        Err(problems) => {
            let count = problems.len();
            eprintln!(
                "chorale: {count} problem{} in the options:",
                if count == 1 { "" } else { "s" }
            );
            for problem in problems {
                eprintln!("  {problem}");
            }
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let level = match log::start(&settings) {
        Ok(level) => level,
        Err(error) => {
            eprintln!("chorale: cannot start the log: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(settings, level) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            tracing::error!(%reason, "cannot run");
            ExitCode::FAILURE
        }
    }
}

/// The settings, or everything that is wrong with them, one line each.
fn read_settings(flags: Vec<(String, String)>) -> Result<Settings, Vec<String>> {
    // A variable that is not Unicode cannot be the name or value of an option; others' variables do not matter.
    let env =
        env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
    let mut sources = Sources {
        flags,
        env: env.collect(),
        file: None,
    };
    let mut problems = Vec::new();
    if let Some(path) = config_path(&sources).map(str::to_owned) {
        match fs::read_to_string(&path) {
            Ok(text) => sources.file = Some(File { path, text }),
            Err(error) => problems.push(format!("{path}: cannot be read: {error}")),
        }
    }
    match load(&sources) {
        Ok(mut settings) => {
            problems.extend(read_cluster_secret(&mut settings).err());
            if problems.is_empty() {
                Ok(settings)
            } else {
                Err(problems)
            }
        }
        Err(found) => {
            problems.extend(found.iter().map(ToString::to_string));
            Err(problems)
        }
    }
}

/// Puts what stands in `cluster-secret-file` into the settings.
fn read_cluster_secret(settings: &mut Settings) -> Result<(), String> {
    let Some(path) = settings.cluster_secret_file.clone() else {
        return Ok(());
    };
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| format!("cluster-secret-file: {path}: cannot be read: {error}"))?;
    let taken = settings.take_cluster_secret(&text);
    taken.map_err(|problem| format!("cluster-secret-file: {path}: {problem}"))
}

/// Runs the node, which calls `set_log_level` when `CONFIG SET` changes that option.
fn run(settings: Settings, level: log::LevelHandle) -> Result<(), node::StartError> {
    node::run(settings, move |new| level.set(new))
}
