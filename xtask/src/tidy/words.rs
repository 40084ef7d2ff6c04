//! Words that have gone: for each idea there is one, and it is the field's ([glossary](../../../docs/glossary.md)).
//!
//! They are looked for in every part of an identifier (`take_errands`, `GroupSight`), in comments, strings and documents. What is a
//! record of its time keeps its words.

use super::{Finding, Outcome};
use crate::tree::Tree;

/// Each with the word that is there instead. Plurals are found too.
const RETIRED: &[(&str, &str)] = &[
    ("berth", "in-flight slot"),
    ("courier", "group client"),
    ("departure", "snapshot sender"),
    ("errand", "offload job, or pending request"),
    ("founder", "bootstrap replica"),
    ("glimpse", "replica view"),
    ("heir", "recovered"),
    ("inquire", "query"),
    ("inquiry", "query"),
    ("mesh", "mailboxes"),
    ("parcel", "mailbox batch"),
    ("parked", "waiting read"),
    ("pulse", "node heartbeat"),
    ("reign", "leader state"),
    ("entrusted", "last agent"),
    ("sight", "group report, or observations"),
    ("survivor", "recovery source"),
];

/// What is not rewritten: it says what was so when it was written.
const OF_THEIR_TIME: &[&str] = &[
    "CHANGELOG.md",
    "bench/records/",
    "docs/decisions/",
    "xtask/src/tidy/words.rs",
];

pub(super) fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts("") {
        let is_read = path.ends_with(".rs") || path.ends_with(".md");
        if !is_read || OF_THEIR_TIME.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        count += 1;
        for (number, line) in (1..).zip(text.lines()) {
            for part in parts(line) {
                let found = RETIRED.iter().find(|(word, _)| is_form_of(&part, word));
                if let Some((word, instead)) = found {
                    findings.push(Finding::new(
                        path,
                        number,
                        format!("`{word}` is retired: {instead}"),
                    ));
                }
            }
        }
    }
    Outcome::new(count, "files", findings)
}

fn is_form_of(part: &str, word: &str) -> bool {
    let singular = word.strip_suffix('y').map(|stem| format!("{stem}ies"));
    part == word || part.strip_suffix('s') == Some(word) || singular.as_deref() == Some(part)
}

/// The words of a line in lower case, and those that identifiers are put together from.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for char in line.chars() {
        let begins = !char.is_ascii_alphabetic() || char.is_ascii_uppercase() && was_lower;
        if begins && parts.last().is_none_or(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        was_lower = char.is_ascii_lowercase();
        if let Some(part) = parts.last_mut().filter(|_| char.is_ascii_alphabetic()) {
            part.push(char.to_ascii_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_every_part_of_a_name_and_in_no_other_word() {
        let has = |line: &str| parts(line).iter().any(|part| is_form_of(part, "sight"));
        for line in [
            "GroupSight",
            "take_sights()",
            "SIGHTS_MAX",
            "out of sight.",
            "`sight`",
        ] {
            assert!(has(line), "{line}");
        }
        for line in ["insight", "sightsee", "overSightless", ""] {
            assert!(!has(line), "{line}");
        }
        assert!(
            parts("two inquiries")
                .iter()
                .any(|part| is_form_of(part, "inquiry"))
        );
    }
}
