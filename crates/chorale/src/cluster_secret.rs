//! The cluster's secret, where a command has it: from a file that it names, or from where the server takes it, the environment.
//!
//! What is wanted of nodes is taken from their own machine. Whoever knows the secret may want it from anywhere.

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs};

use admin::ProofKey;
use clap::{Arg, ArgMatches};

/// The flag.
const FILE: &str = "cluster-secret-file";

/// Where the server finds it too.
const SECRET_VARIABLE: &str = "CHORALE_CLUSTER_SECRET";
const FILE_VARIABLE: &str = "CHORALE_CLUSTER_SECRET_FILE";

/// Read once, when the command begins.
static KEY: OnceLock<ProofKey> = OnceLock::new();

/// The flag of all commands that ask a node.
pub(crate) fn flag() -> Arg {
    Arg::new(FILE)
        .long(FILE)
        .value_name("FILE")
        .global(true)
        .help("A file with the cluster's secret, which lets a node of another machine be asked; without it the environment is looked at, as the server does")
}

/// Reads it, if the command line or the environment names it.
///
/// # Errors
/// A file that cannot be read, or holds none.
pub(crate) fn read(matches: &ArgMatches) -> Result<(), String> {
    let named = matches.get_one::<String>(FILE).cloned();
    let words = match (named, env::var(SECRET_VARIABLE)) {
        (Some(file), _) => Some(words_of(Path::new(&file))?),
        (None, Ok(words)) if !words.is_empty() => Some(words),
        _ => match env::var_os(FILE_VARIABLE).filter(|file| !file.is_empty()) {
            Some(file) => Some(words_of(Path::new(&file))?),
            None => None,
        },
    };
    if let Some(words) = words {
        KEY.get_or_init(|| ProofKey::of_words(&words));
    }
    Ok(())
}

/// White space around it, such as the last line's end, is not part of it.
fn words_of(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let text =
        fs::read_to_string(file).map_err(|error| format!("{FILE}: {shown}: cannot be read: {error}"))?;
    match text.trim() {
        "" => Err(format!("{FILE}: {shown}: is empty; it must hold the secret")),
        words => Ok(words.to_owned()),
    }
}

/// What to prove with that it is known.
pub(crate) fn key() -> Option<&'static ProofKey> {
    KEY.get()
}
