//! The cluster's secret, where a command has it: from a file that it names, or from where the server takes it, the environment.
//!
//! What is wanted of nodes is taken from their own machine. Whoever knows the secret may want it from anywhere.

use std::sync::OnceLock;
use std::{env, fs};

use admin::ProofKey;
use clap::{Arg, ArgMatches};
use options::Settings;

/// The flag.
const FILE: &str = "cluster-secret-file";

/// Where the server finds it too.
const SECRET_VARIABLE: &str = "CHORALE_CLUSTER_SECRET";
const FILE_VARIABLE: &str = "CHORALE_CLUSTER_SECRET_FILE";

/// What the command line names, and what the environment does: read when it is first needed, since most that is asked needs none.
static NAMED: OnceLock<ProofKey> = OnceLock::new();
static FROM_ENVIRONMENT: OnceLock<Option<ProofKey>> = OnceLock::new();

/// The flag of all commands that ask a node.
pub(crate) fn flag() -> Arg {
    Arg::new(FILE)
        .long(FILE)
        .value_name("FILE")
        .global(true)
        .help("A file with the cluster's secret, which lets a node of another machine be asked; without it the environment is looked at, as the server does")
}

/// Reads the file that the command line names, if it does.
///
/// # Errors
/// It cannot be read, or holds none.
pub(crate) fn read(matches: &ArgMatches) -> Result<(), String> {
    if let Some(file) = matches.get_one::<String>(FILE) {
        let key = of_file(file)?;
        NAMED.get_or_init(|| key);
    }
    Ok(())
}

fn of_file(file: &str) -> Result<ProofKey, String> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("{FILE}: {file}: cannot be read: {error}"))?;
    of_text(&text).map_err(|problem| format!("{FILE}: {file}: {problem}"))
}

/// By the rules of the server.
fn of_text(text: &str) -> Result<ProofKey, String> {
    let mut settings = Settings::default();
    settings.take_cluster_secret(text)?;
    let words = settings.cluster_secret.as_deref();
    Ok(ProofKey::of_words(words.expect("it was taken")))
}

fn of_environment() -> Option<ProofKey> {
    let words = env::var(SECRET_VARIABLE).ok().filter(|words| !words.is_empty());
    let file = env::var(FILE_VARIABLE).ok().filter(|file| !file.is_empty());
    let key = match (words, file) {
        (Some(words), _) => of_text(&words).map_err(|problem| format!("{SECRET_VARIABLE}: {problem}")),
        (None, Some(file)) => of_file(&file),
        (None, None) => return None,
    };
    // It may be there for the server alone.
    key.inspect_err(|problem| eprintln!("chorale: the cluster's secret is not used: {problem}"))
        .ok()
}

/// What to prove with that it is known, and whether the command line names it.
pub(crate) fn key() -> Option<(&'static ProofKey, bool)> {
    let named = NAMED.get().map(|key| (key, true));
    named.or_else(|| {
        let found = FROM_ENVIRONMENT.get_or_init(of_environment).as_ref();
        found.map(|key| (key, false))
    })
}
