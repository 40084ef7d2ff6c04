//! Markdown: titles, and the code map.

use std::collections::BTreeSet;

use super::{Finding, Outcome};
use crate::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// Named with the crate itself, or of no interest to a reader of the map.
const UNMAPPED: &[&str] = &["lib.rs", "tests.rs"];

pub(super) fn check_titles(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts(".md") {
        count += 1;
        let titles: Vec<usize> = prose(text)
            .filter(|(_, line)| line.starts_with("# "))
            .map(|(number, _)| number)
            .collect();
        match titles.as_slice() {
            [1] => {}
            [] => findings.push(Finding::new(path, 1, "no `# Title`")),
            [first] => findings.push(Finding::new(path, *first, "the `# Title` is not the first line")),
            [_, second, ..] => findings.push(Finding::new(path, *second, "a second `# Title`")),
        }
    }
    Outcome::new(count, "files", findings)
}

/// Lines outside of fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Links to files of the repository lead somewhere. Others, and the part behind `#`, are not looked at.
pub(super) fn check_links(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts(".md") {
        for (number, line) in prose(text) {
            for link in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split([')', '#']).next())
            {
                if link.is_empty() || link.contains(':') || link.contains(' ') {
                    continue;
                }
                count += 1;
                let target = join(path, link);
                let folder = format!("{target}/");
                let is_there = |file: &str| file == target || file.starts_with(&folder);
                if !tree.files.iter().any(|file| is_there(&file.path)) {
                    findings.push(Finding::new(
                        path,
                        number,
                        format!("the link to {link} leads nowhere"),
                    ));
                }
            }
        }
    }
    Outcome::new(count, "links", findings)
}

/// The path from the root of what a file calls `link`.
fn join(file: &str, link: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A file is named in the map by its whole path, as `CRATE/file.rs`, or by its path under `src/` in the section of its
/// crate. A section begins at a line whose first word is `NAME/` or `crates/NAME`, or at a heading with the crate's name as a word,
/// and goes on to the next such line or heading.
pub(super) fn check_map(tree: &Tree) -> Outcome {
    let Some(map) = tree.text(MAP) else {
        return Outcome::new(0, "files", vec![Finding::new(MAP, 0, "there is no such file")]);
    };
    let crates: Vec<&str> = tree.crates().collect();
    let mut findings = Vec::new();
    let mut named_crates = BTreeSet::new();
    let mut named = BTreeSet::new();
    let mut section = None;
    for (number, line) in (1..).zip(map.lines()) {
        match begins_section(line, &crates) {
            Some(begun) => {
                section = Some(begun);
                named_crates.insert(begun);
            }
            None if line.starts_with('#') => section = None,
            None => {}
        }
        for word in words(line).filter(|word| word.ends_with(".rs")) {
            let Some(path) = resolve(tree, &crates, section, word) else {
                continue;
            };
            if tree.text(&path).is_none() {
                findings.push(Finding::new(MAP, number, format!("{path} is not there")));
            }
            named.insert(path);
        }
    }
    for name in &crates {
        if !named_crates.contains(name) {
            findings.push(Finding::new(MAP, 0, format!("the crate `{name}` has no section")));
        }
    }
    let mut count = 0;
    for (path, _) in tree.texts(".rs") {
        let parts: Vec<&str> = path.splitn(4, '/').collect();
        let &["crates", _, "src", file] = parts.as_slice() else {
            continue;
        };
        count += 1;
        let is_mapped = named.contains(path) || UNMAPPED.contains(&file.rsplit('/').next().unwrap_or(file));
        if !is_mapped {
            findings.push(Finding::new(MAP, 0, format!("{path} is not in the code map")));
        }
    }
    Outcome::new(count, "files", findings)
}

/// The path that a word of the map stands for, whether or not there is such a file. None for what may be a file of any
/// crate: prose may say `lib.rs`.
fn resolve(tree: &Tree, crates: &[&str], section: Option<&str>, word: &str) -> Option<String> {
    if word.starts_with("crates/") {
        return Some(word.to_owned());
    }
    let in_section = section.map(|name| match word.split_once('/') {
        Some(("src" | "tests", _)) => format!("crates/{name}/{word}"),
        _ => format!("crates/{name}/src/{word}"),
    });
    let in_crate = word.split_once('/').filter(|(name, _)| crates.contains(name));
    let in_crate = in_crate.map(|(name, file)| format!("crates/{name}/src/{file}"));
    // In the section of `command`, `server/x.rs` may be either; it is the one that exists.
    let exists = |path: &&String| tree.text(path).is_some();
    let existing = in_section
        .as_ref()
        .filter(exists)
        .or(in_crate.as_ref().filter(exists))
        .cloned();
    existing.or(in_section).or(in_crate)
}

fn begins_section<'a>(line: &str, crates: &[&'a str]) -> Option<&'a str> {
    if line.starts_with('#') {
        let names = words(line).map(|word| word.trim_start_matches("crates/").trim_end_matches('/'));
        return names
            .filter_map(|word| crates.iter().find(|name| **name == word))
            .next()
            .copied();
    }
    let first = words(line).next()?;
    let name = match first.strip_prefix("crates/") {
        Some(rest) => rest.trim_end_matches('/'),
        None => first.strip_suffix('/')?,
    };
    crates.iter().find(|ours| **ours == name).copied()
}

/// Words as in a path: what stands between anything else, such as backticks and the lines of a drawn tree.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    line.split(move |c| !in_path(c))
        .map(|word| word.trim_end_matches('.').trim_start_matches('-'))
        .filter(|word| word.chars().any(|c| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(outcome: Outcome) -> Vec<String> {
        outcome.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_markdown_file_has_one_title_and_begins_with_it() {
        let tree = Tree::of(&[
            ("good.md", "# Good\n\n```sh\n# not a title\n```\n## Part\n"),
            ("none.md", "text\n"),
            ("late.md", "text\n\n# Late\n"),
            ("two.md", "# One\n\n# Two\n"),
        ]);
        assert_eq!(
            found(check_titles(&tree)),
            [
                "none.md:1: no `# Title`",
                "late.md:3: the `# Title` is not the first line",
                "two.md:3: a second `# Title`",
            ]
        );
    }

    #[test]
    fn links_between_files_lead_somewhere() {
        let text = "[a](b.md) [c](../README.md#part) [d](../docs) [e](https://example.org) [f](#here)\n[g](gone.md)\n";
        let tree = Tree::of(&[("README.md", ""), ("docs/a.md", text), ("docs/b.md", "")]);
        assert_eq!(
            found(check_links(&tree)),
            ["docs/a.md:2: the link to gone.md leads nowhere"]
        );
    }

    #[test]
    fn the_map_names_all_files_and_no_others() {
        let map = "\
# Architecture

The server calls replica.rs from `gateway.rs`; see `crates/ids/src/gone.rs` and `ids/gone.rs`, `ids/slot.rs`.

```text
\u{251c}\u{2500} ids/
\u{2502}    slot.rs    slots
crates/resp: `decode.rs`, `src/decode/frame.rs`, `tests/it.rs`, `ids/slot.rs`
```

### `server`

| `gateway.rs` | requests |
| `stale.rs` | nothing |

## More

Other text about old.rs.
";
        let tree = Tree::of(&[
            (MAP, map),
            ("crates/ids/Cargo.toml", ""),
            ("crates/ids/src/lib.rs", ""),
            ("crates/ids/src/slot.rs", ""),
            ("crates/resp/Cargo.toml", ""),
            ("crates/resp/src/decode.rs", ""),
            ("crates/resp/src/decode/frame.rs", ""),
            ("crates/resp/src/decode/tests.rs", ""),
            ("crates/resp/tests/it.rs", ""),
            ("crates/server/Cargo.toml", ""),
            ("crates/server/src/gateway.rs", ""),
            ("crates/server/src/missing.rs", ""),
            ("crates/txn/Cargo.toml", ""),
        ]);
        assert_eq!(
            found(check_map(&tree)),
            [
                "ARCHITECTURE.md:3: crates/ids/src/gone.rs is not there",
                "ARCHITECTURE.md:3: crates/ids/src/gone.rs is not there",
                "ARCHITECTURE.md:14: crates/server/src/stale.rs is not there",
                "ARCHITECTURE.md: the crate `txn` has no section",
                "ARCHITECTURE.md: crates/server/src/missing.rs is not in the code map",
            ]
        );
    }
}
