//! What crates that every replica must agree on cannot do, and what to do instead.

use super::manifest::dependencies;
use super::source::{Source, is_word};
use super::{Finding, Outcome};
use crate::tree::Tree;

const PURE: &[&str] = &[
    "ids",
    "codec",
    "mutations",
    "resp",
    "command",
    "keyspace",
    "txn",
    "consensus",
    "ring",
    "replica",
    "control",
    "peer-wire",
    "options",
    "gateway",
    "script",
    "coding",
    "rdb",
];

/// Foreign crates that compute and do nothing else.
const PURE_FOREIGN: &[&str] = &[
    "siphasher",
    "memchr",
    "itoa",
    "ryu",
    "toml",
    "libm",
    "raft",
    "slog",
    "bytes",
    "crc32c",
    "hmac",
    "sha2",
    "sha1",
    // It hands an event to whoever the program chose to listen.
    "tracing",
];

const SEND: &str = "return a message; `node` does the I/O";
const CLOCK: &str = "take the time as an argument, as `ids::UnixMillis`";
const RANDOM: &str = "take an `ids::Prng`, seeded from the entry or by the caller";
const ORDER: &str = "its order differs from run to run: use a `BTreeMap`, or `keyspace::Directory`";
const WAIT: &str = "be a state machine that is called again";
const PRINT: &str = "return an error or an event; the caller logs";

/// Words of code, each with its replacement.
const FORBIDDEN: &[(&str, &str)] = &[
    ("TcpStream", SEND),
    ("TcpListener", SEND),
    ("UdpSocket", SEND),
    ("UnixStream", SEND),
    ("ToSocketAddrs", SEND),
    ("mio", SEND),
    ("tokio", WAIT),
    ("async", WAIT),
    ("Instant", CLOCK),
    ("SystemTime", CLOCK),
    ("thread_rng", RANDOM),
    ("rand::", RANDOM),
    ("RandomState", RANDOM),
    (
        "DefaultHasher",
        "use `siphasher` with a fixed key: std may change its hash",
    ),
    ("HashMap", ORDER),
    ("HashSet", ORDER),
    ("println!", PRINT),
    ("eprintln!", PRINT),
    ("print!", PRINT),
    ("eprint!", PRINT),
];

/// Modules of std, however they are named.
const FORBIDDEN_MODULES: &[(&str, &str)] = &[
    ("fs", SEND),
    ("os", SEND),
    ("thread", "the caller decides what runs where: hold plain state"),
    ("process", SEND),
    ("env", "take the value as an argument; `options` reads settings"),
];

pub(super) fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for name in PURE {
        let manifest_path = format!("crates/{name}/Cargo.toml");
        for dependency in dependencies(tree.text(&manifest_path).unwrap_or_default()) {
            let known =
                PURE_FOREIGN.contains(&dependency.name) || tree.crates().any(|ours| ours == dependency.name);
            if !dependency.dev && !known {
                let what = format!(
                    "`{}` is not known to be pure: read it, then add it to PURE_FOREIGN in xtask/src/tidy/purity.rs",
                    dependency.name
                );
                findings.push(Finding::new(&manifest_path, dependency.line, what));
            }
        }
        let folder = format!("crates/{name}/src/");
        for (path, text) in tree.texts(".rs") {
            if path.starts_with(&folder) && !path.ends_with("/tests.rs") {
                count += 1;
                check_source(path, text, &mut findings);
            }
        }
    }
    Outcome::new(count, "files", findings)
}

fn check_source(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let source = Source::without_tests(text);
    let mut find = |at: usize, word: &str, instead: &str| {
        let what = format!("`{word}` in a pure crate; {instead}");
        findings.push(Finding::new(path, source.line_of(at), what));
    };
    for (word, instead) in FORBIDDEN {
        for at in source.words(word) {
            find(at, word, instead);
        }
    }
    for (at, module) in std_modules(&source) {
        if let Some((_, instead)) = FORBIDDEN_MODULES.iter().find(|(name, _)| *name == module) {
            find(at, &format!("std::{module}"), instead);
        }
    }
}

/// First parts of all paths in std, from `std::x` as from `std::{x, y::z}`.
fn std_modules(source: &Source) -> Vec<(usize, &str)> {
    let code = source.code();
    let mut modules = Vec::new();
    for at in source.words("std::") {
        let start = at + "std::".len();
        let Some(group) = code[start..].strip_prefix('{') else {
            modules.push((at, first_word(&code[start..])));
            continue;
        };
        let mut depth = 0;
        let mut expects_name = true;
        for (offset, character) in group.char_indices() {
            match character {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => expects_name = true,
                _ if expects_name && !character.is_whitespace() => {
                    expects_name = false;
                    modules.push((start + 1 + offset, first_word(&group[offset..])));
                }
                _ => {}
            }
        }
    }
    modules
}

fn first_word(code: &str) -> &str {
    let end = code.bytes().position(|byte| !is_word(byte)).unwrap_or(code.len());
    &code[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = check(&Tree::of(files)).findings;
        findings.sort();
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_differs_between_replicas_is_found_with_its_replacement() {
        let text = "\
use std::time::Instant;
use std::{cmp, fs, collections::{HashMap, BTreeMap}};
fn f() {
    std::thread::spawn(g);
}
";
        assert_eq!(
            found(&[("crates/ids/src/lib.rs", text)]),
            [
                "crates/ids/src/lib.rs:1: `Instant` in a pure crate; take the time as an argument, as `ids::UnixMillis`",
                "crates/ids/src/lib.rs:2: `HashMap` in a pure crate; its order differs from run to run: \
                 use a `BTreeMap`, or `keyspace::Directory`",
                "crates/ids/src/lib.rs:2: `std::fs` in a pure crate; return a message; `node` does the I/O",
                "crates/ids/src/lib.rs:4: `std::thread` in a pure crate; the caller decides what runs where: \
                 hold plain state",
            ]
        );
    }

    #[test]
    fn tests_comments_strings_and_other_crates_may_name_anything() {
        let text = "\
// std::fs, HashMap
use std::net::IpAddr;
const WORD: &str = \"async\";
const NO_ASYNC_LOADING: u8 = 1;
#[cfg(test)]
mod tests {
    use std::fs;
}
";
        let files = [
            ("crates/ids/src/lib.rs", text),
            ("crates/ids/src/decode/tests.rs", "use std::fs;"),
            ("crates/ids/tests/it.rs", "use std::fs;"),
            ("crates/node/src/lib.rs", "use std::fs;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn foreign_crates_below_the_line_are_listed_one_by_one() {
        let manifest = "[dependencies]\nmemchr.workspace = true\nrayon = \"1\"\n\n[dev-dependencies]\nproptest = \"1\"\n";
        let found = found(&[("crates/resp/Cargo.toml", manifest)]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/resp/Cargo.toml:3: `rayon` is not known to be pure"),
            "{}",
            found[0]
        );
    }
}
