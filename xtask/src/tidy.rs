//! The checks that a compiler does not make. Each is a function of the [`Tree`] alone.

mod documents;
mod exports;
mod layers;
mod manifest;
mod purity;
mod source;
mod tracked;
mod types;
mod unsafe_code;
mod words;

use std::fmt::{self, Display};

pub(crate) use layers::LAYERS;

use crate::tree::Tree;

/// Something to change, and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// What a check looked at, and what it found.
struct Outcome {
    /// Such as `12 crates`.
    looked_at: String,
    findings: Vec<Finding>,
}

impl Outcome {
    fn new(count: usize, things: &str, findings: Vec<Finding>) -> Outcome {
        Outcome {
            looked_at: format!("{count} {things}"),
            findings,
        }
    }
}

/// Name, what holds if nothing is found, and the check.
type Check = (&'static str, &'static str, fn(&Tree) -> Outcome);

const CHECKS: &[Check] = &[
    (
        "layers",
        "a crate uses only crates of lower layers",
        layers::check,
    ),
    (
        "purity",
        "crates up to `gateway` do no I/O and read no clock",
        purity::check,
    ),
    (
        "unsafe",
        "unsafe code is where it may be, with its reason",
        unsafe_code::check,
    ),
    (
        "types",
        "no type has too many fields, or methods in too many files",
        types::check,
    ),
    (
        "dependencies",
        "each foreign crate stands under a reason",
        manifest::check,
    ),
    (
        "leftovers",
        "no markers, debug output or tests switched off",
        tracked::check_leftovers,
    ),
    (
        "machine",
        "no paths of one machine, no file above 1 MiB",
        tracked::check_machine,
    ),
    (
        "titles",
        "each Markdown file has one title",
        documents::check_titles,
    ),
    (
        "links",
        "links between files lead somewhere",
        documents::check_links,
    ),
    ("map", "the code map is what headers say", documents::check_map),
    (
        "names",
        "documents name no source file that is not there",
        documents::check_names,
    ),
    (
        "exports",
        "one type per name in the crates of the product",
        exports::check,
    ),
    ("words", "no word is used that another has replaced", words::check),
];

/// Runs all checks and prints them. True if nothing was found.
pub(crate) fn check(tree: &Tree) -> bool {
    let mut total = 0;
    for (name, holds, check) in CHECKS {
        let mut outcome = check(tree);
        outcome.findings.sort();
        let count = outcome.findings.len();
        total += count;
        let verdict = if count == 0 {
            "ok".to_owned()
        } else {
            format!("{count} to change")
        };
        println!("{name:<13} {holds} ({}): {verdict}", outcome.looked_at);
        for finding in &outcome.findings {
            println!("  {finding}");
        }
    }
    if total > 0 {
        println!("\ntidy: {total} to change");
    }
    total == 0
}
