//! What no file of the repository holds.

use super::source::{Source, is_word};
use super::{Finding, Outcome};
use crate::tree::Tree;

/// Put together, so that this file does not find itself.
const MARKERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("HA", "CK"),
];

/// Words of code, each with what to do about it.
const LEFTOVERS: &[(&str, &str)] = &[
    ("dbg!", "debug output: take it out"),
    ("todo!", "write it, or leave it out"),
    ("unimplemented!", "write it, or leave it out"),
    ("#[ignore", "a test that does not run: repair it or delete it"),
];

/// Folders that exist on somebody's machine only.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/fa", "rm/"),
    concat!("/ho", "me/"),
];

const LARGEST: u64 = 1 << 20;

pub(super) fn check_leftovers(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts("") {
        count += 1;
        for (number, line) in (1..).zip(text.lines()) {
            for marker in MARKERS.iter().filter(|marker| has_word(line, marker)) {
                let what = format!("{marker}: do it, or open an issue and say what is missing");
                findings.push(Finding::new(path, number, what));
            }
        }
        if path.ends_with(".rs") {
            let source = Source::new(text);
            for (word, what) in LEFTOVERS {
                for at in source.words(word) {
                    findings.push(Finding::new(
                        path,
                        source.line_of(at),
                        format!("`{word}`: {what}"),
                    ));
                }
            }
        }
    }
    Outcome::new(count, "files", findings)
}

pub(super) fn check_machine(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    for file in &tree.files {
        if file.bytes > LARGEST {
            let what = format!(
                "{} bytes: make it when it is needed instead of keeping it",
                file.bytes
            );
            findings.push(Finding::new(&file.path, 0, what));
        }
        for (number, line) in (1..).zip(file.text.as_deref().unwrap_or_default().lines()) {
            for folder in MACHINE.iter().filter(|folder| begins_path(line, folder)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("a path of one machine: {folder}"),
                ));
            }
        }
    }
    Outcome::new(tree.files.len(), "files", findings)
}

fn has_word(line: &str, word: &str) -> bool {
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// True unless the folder is only the middle of a longer path, as in `a/b/c`.
fn begins_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = at.checked_sub(1).map(|before| line.as_bytes()[before]);
        !before.is_some_and(|byte| is_word(byte) || matches!(byte, b'.' | b'-' | b'}' | b')' | b'~'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(check: fn(&Tree) -> Outcome, path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]))
            .findings
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn markers_are_found_in_any_file_and_macros_in_code() {
        let marker = MARKERS[0];
        assert_eq!(
            found(check_leftovers, "a.py", &format!("x\n# {marker}: y\n")),
            [2]
        );
        assert_eq!(found(check_leftovers, "a.py", &format!("{marker}S\n")), [0; 0]);
        let text = "// dbg!\nlet a = \"dbg!\";\ndbg!(a);\n#[test]\n#[ignore = \"slow\"]\nfn f() {}\n";
        assert_eq!(found(check_leftovers, "a.rs", text), [3, 5]);
        assert_eq!(found(check_leftovers, "a.md", "Write no `dbg!`.\n"), [0; 0]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let folder = MACHINE[0];
        assert_eq!(
            found(check_machine, "a.md", &format!("see\n`{folder}main`\n")),
            [2]
        );
        assert_eq!(
            found(check_machine, "a.md", &format!("frame{folder}out\n")),
            [0; 0]
        );
    }

    #[test]
    fn large_files_are_found() {
        assert_eq!(
            found(check_machine, "a.txt", &"a".repeat(LARGEST as usize + 1)),
            [0]
        );
        assert_eq!(
            found(check_machine, "a.txt", &"a".repeat(LARGEST as usize)),
            [0; 0]
        );
    }
}
