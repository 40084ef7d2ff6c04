//! Markdown: titles, links, the code map, and the source files that documents name.

use super::{Finding, Outcome};
use crate::code_map;
use crate::tree::Tree;

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

/// The code map is made from headers, and is to be made again when they change.
pub(super) fn check_map(tree: &Tree) -> Outcome {
    let finding = match code_map::page(tree) {
        Ok(page) if tree.text(code_map::PATH) == Some(&page) => None,
        Ok(_) => Some("not what the headers say; run `cargo xtask fix`".to_owned()),
        Err(trouble) => Some(trouble),
    };
    let finding = finding.map(|what| Finding::new(code_map::PATH, 0, what));
    Outcome::new(1, "page", finding.into_iter().collect())
}

/// A document names a file as `crates/CRATE/src/file.rs` or as `CRATE/file.rs`. Decisions are left out: they say what was there when
/// they were made.
pub(super) fn check_names(tree: &Tree) -> Outcome {
    let crates: Vec<&str> = tree.crates().collect();
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts(".md") {
        if path.starts_with("docs/decisions/") || path == code_map::PATH {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            for word in words(line).filter(|word| word.ends_with(".rs")) {
                let of_crate = |name: &&str| crates.contains(name);
                let file = match word.split_once('/') {
                    Some(("crates", _)) => word.to_owned(),
                    Some((name, file)) if of_crate(&name) => format!("crates/{name}/src/{file}"),
                    _ => continue,
                };
                count += 1;
                if tree.text(&file).is_none() {
                    findings.push(Finding::new(path, number, format!("{file} is not there")));
                }
            }
        }
    }
    Outcome::new(count, "names", findings)
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
    fn documents_name_files_that_are_there() {
        let text = "See `ids/slot.rs`, `crates/ids/src/gone.rs` and `slot.rs`,\nor `ids/gone.rs`; `old/file.rs` is no crate's.\n";
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", text),
            ("docs/decisions/0001-a.md", "`ids/gone.rs`"),
            ("crates/ids/Cargo.toml", ""),
            ("crates/ids/src/slot.rs", ""),
        ]);
        assert_eq!(
            found(check_names(&tree)),
            [
                "ARCHITECTURE.md:1: crates/ids/src/gone.rs is not there",
                "ARCHITECTURE.md:2: crates/ids/src/gone.rs is not there",
            ]
        );
    }

    #[test]
    fn a_code_map_that_lags_behind_headers_is_found() {
        let sources = [
            ("crates/ids/Cargo.toml", ""),
            ("crates/ids/src/slot.rs", "//! Slots.\n"),
        ];
        let page = code_map::page(&Tree::of(&sources)).expect("it has a header");
        let with = |page: &str| {
            found(check_map(&Tree::of(&[
                sources[0],
                sources[1],
                (code_map::PATH, page),
            ])))
        };
        assert!(with(&page).is_empty());
        assert_eq!(
            with("# Code map\n"),
            ["docs/code-map.md: not what the headers say; run `cargo xtask fix`"]
        );
    }
}
