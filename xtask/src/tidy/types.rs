//! How much one type may be: fields, and files that its methods stand in.
//!
//! A type whose methods fill more than two files is several that have not been told apart, and so is one that anybody would need a
//! list to name the fields of. What is larger stands below, with its size, which it may fall short of and not exceed, and the reason.
//!
//! The sources are as `cargo fmt` leaves them: a struct's fields are one level deeper than it.

use super::source::Source;
use super::{Finding, Outcome};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of one struct.
const FIELDS_MAX: usize = 14;

/// Files in which inherent methods of one type stand.
const FILES_MAX: usize = 2;

/// Crates that are no part of a node: they test one, load one, or judge what one answered.
const BESIDE: &[&str] = &["bench", "blackbox", "history", "models", "sim", "transcript"];

const FACTS: &str = "facts or figures side by side, which nothing holds together";
const PARTS: &str = "one machine of several roles, which are to be parted";
const EDGE: &str = "what a thread of a node has of the system, which its loop goes through";

/// Structs with more fields: crate, name, how many, why.
const LARGE: &[(&str, &str, usize, &str)] = &[
    ("admin", "ClusterView", 20, FACTS),
    ("admin", "NodeView", 18, FACTS),
    ("admin", "TransactionsView", 17, FACTS),
    ("command", "Spec", 15, FACTS),
    ("consensus", "RaftNode", 33, PARTS),
    ("control", "LeaderState", 15, PARTS),
    ("control", "State", 24, PARTS),
    ("gateway", "ClientInfo", 24, FACTS),
    (
        "gateway",
        "Context",
        16,
        "where the machines of a worker stand: what they all read, and the outbox",
    ),
    (
        "gateway",
        "Gateway",
        17,
        "the machines of a worker, side by side: they hear of each other by what they return",
    ),
    ("gateway", "Coordinator", 16, PARTS),
    ("gateway", "Open", 36, PARTS),
    (
        "gateway",
        "Shared",
        36,
        "what workers share and nothing touches per command, side by side",
    ),
    ("gateway", "WorkerStats", 44, FACTS),
    ("keyspace", "Keyspace", 21, PARTS),
    ("keyspace", "LeaderLocal", 33, FACTS),
    ("node", "Disk", 16, EDGE),
    ("node", "Peers", 18, EDGE),
    ("node", "Worker", 21, EDGE),
    ("replica", "Effects", 18, FACTS),
    ("replica", "GroupClient", 24, PARTS),
    ("replica", "Member", 24, PARTS),
    ("replica", "MemberCounts", 15, FACTS),
    ("storage", "WorkerDisk", 18, PARTS),
    ("transport", "Transport", 15, EDGE),
];

const COMMANDS: &str = "a command's effect stands in the file of its data type";

const MOVES: &str = "what is no longer where it was sent to stands in a file of its own";

/// Types with methods in more files: crate, name, how many, why.
const SPREAD: &[(&str, &str, usize, &str)] = &[
    (
        "gateway",
        "Context",
        6,
        "what is counted, timed or refused by looking at all of it stands with its noun",
    ),
    ("gateway", "Coordinator", 3, MOVES),
    ("gateway", "Gateway", 3, MOVES),
    ("keyspace", "Apply", 19, COMMANDS),
    ("keyspace", "Edit", 3, COMMANDS),
    ("keyspace", "Keyspace", 20, PARTS),
    ("keyspace", "Reader", 17, COMMANDS),
    ("replica", "GroupClient", 3, MOVES),
    (
        "script",
        "Vm",
        4,
        "instructions, calls and replies are told apart, and all of them change the same run",
    ),
];

/// One type, by its crate and name.
type Name<'a> = (&'a str, &'a str);

pub(super) fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    let mut files: BTreeMap<Name<'_>, BTreeSet<&str>> = BTreeMap::new();
    let sources = tree.texts(".rs").filter_map(|(path, text)| {
        let name = path.strip_prefix("crates/")?.split('/').next()?;
        let is_product = path.split('/').nth(2) == Some("src") && !BESIDE.contains(&name);
        is_product.then(|| (name, path, text, Source::without_tests(text)))
    });
    for (crate_name, path, text, source) in sources {
        let code = source.lines();
        for (at, line) in code.iter().enumerate() {
            let words = text.lines().nth(at).unwrap_or_default();
            if let Some(name) = struct_of(line) {
                count += 1;
                let fields = fields_of(&code[at..]);
                let max = allowed(LARGE, crate_name, name).unwrap_or(FIELDS_MAX);
                if fields > max {
                    let what = format!("`{name}` has {fields} fields; at most {max}");
                    findings.push(Finding::new(path, at + 1, what));
                }
            } else if let Some(range) = implemented(line) {
                files.entry((crate_name, &words[range])).or_default().insert(path);
            }
        }
    }
    for ((crate_name, name), files) in files {
        let max = allowed(SPREAD, crate_name, name).unwrap_or(FILES_MAX);
        if files.len() > max {
            let all: Vec<&str> = files.iter().copied().collect();
            let what = format!(
                "methods of `{name}` in {} files; at most {max}: {}",
                all.len(),
                all.join(", ")
            );
            findings.push(Finding::new(all[0], 0, what));
        }
    }
    Outcome::new(count, "structs with fields", findings)
}

fn allowed(table: &[(&str, &str, usize, &str)], crate_name: &str, name: &str) -> Option<usize> {
    let row = table.iter().find(|row| (row.0, row.1) == (crate_name, name))?;
    Some(row.2)
}

/// The length of the word that a text begins with.
fn word(text: &str) -> usize {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    end.unwrap_or(text.len())
}

/// The name of the struct with named fields that begins in this line.
fn struct_of(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("struct ")?;
    let is_item = before.trim().is_empty() || before.trim_start().starts_with("pub");
    (is_item && line.ends_with('{')).then(|| &after[..word(after)])
}

/// How many fields the struct has that begins in the first of these lines.
fn fields_of(code: &[&str]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outer = indent(code[0]);
    let inside = code[1..]
        .iter()
        .take_while(|line| line.trim().is_empty() || indent(line) > outer);
    let is_field = |line: &&&str| {
        let name = line
            .trim_start()
            .rsplit_once(") ")
            .map_or(line.trim_start(), |(_, name)| name);
        let name = name.strip_prefix("pub ").unwrap_or(name);
        indent(line) == outer + 4 && word(name) > 0 && name[word(name)..].starts_with(": ")
    };
    inside.filter(is_field).count()
}

/// Where the name of the type stands whose inherent methods begin in this line.
fn implemented(line: &str) -> Option<std::ops::Range<usize>> {
    let rest = line.strip_prefix("impl")?;
    if line.contains(" for ") || !line.ends_with('{') || !rest.starts_with([' ', '<']) {
        return None;
    }
    let mut depth = 0_usize;
    let parameters = rest.find(|c: char| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c == ' '
    })?;
    let path = &rest[parameters + 1..];
    let path_len = path.find(['<', ' ']).unwrap_or(path.len());
    let name = path[..path_len].rfind(':').map_or(0, |colon| colon + 1);
    let start = "impl".len() + parameters + 1;
    Some(start + name..start + path_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of(files)).findings;
        findings.iter().map(ToString::to_string).collect()
    }

    fn of_fields(name: &str, count: usize) -> String {
        let fields =
            (0..count).map(|number| format!("    /// One.\n    pub(crate) f{number}: Vec<(u8, u8)>,\n"));
        format!(
            "pub struct {name}<'a, T: B> {{\n{}}}\n",
            fields.collect::<String>()
        )
    }

    #[test]
    fn a_struct_of_too_many_fields_is_found() {
        let path = "crates/ids/src/a.rs";
        assert!(found(&[(path, &of_fields("A", FIELDS_MAX))]).is_empty());
        let what = "crates/ids/src/a.rs:1: `A` has 15 fields; at most 14";
        assert_eq!(found(&[(path, &of_fields("A", FIELDS_MAX + 1))]), [what]);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", of_fields("A", 20));
        assert!(found(&[(path, &test)]).is_empty(), "tests are no product");
        assert!(found(&[("crates/sim/src/a.rs", &of_fields("A", 20))]).is_empty());
    }

    #[test]
    fn an_exception_has_a_bound_too() {
        let (crate_name, name, max, _) = LARGE[0];
        let path = format!("crates/{crate_name}/src/a.rs");
        assert!(found(&[(&path, &of_fields(name, max))]).is_empty());
        assert_eq!(found(&[(&path, &of_fields(name, max + 1))]).len(), 1);
    }

    #[test]
    fn methods_in_too_many_files_are_found() {
        let methods = [
            "impl A {\n}\n",
            "impl<'a, T: B<'a>> A<'a, T> {\n}\n",
            "impl crate::x::A<'_> {\n}\n",
        ];
        let traits = "impl Display for A {\n}\nimpl<T> From<T> for A {\n}\n";
        let paths = [
            "crates/ids/src/a.rs",
            "crates/ids/src/b.rs",
            "crates/ids/src/c.rs",
        ];
        let mut files: Vec<(&str, &str)> = paths.into_iter().zip(methods).collect();
        let all = "crates/ids/src/a.rs, crates/ids/src/b.rs, crates/ids/src/c.rs";
        let what = format!("crates/ids/src/a.rs: methods of `A` in 3 files; at most 2: {all}");
        assert_eq!(found(&files), [what]);
        files[2].1 = traits;
        assert!(found(&files).is_empty());
    }
}
