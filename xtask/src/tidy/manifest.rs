//! Manifests, read line by line: dependencies stand one to a line in this repository.

use super::{Finding, Outcome};
use crate::tree::Tree;

/// One line of a `[dependencies]` section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency<'a> {
    pub(super) name: &'a str,
    /// What stands behind the name: `.workspace = true`, or `= ..`.
    pub(super) value: &'a str,
    /// For the tests of a crate alone.
    pub(super) dev: bool,
    pub(super) line: usize,
    /// Stands under a comment, or directly under a dependency that does.
    pub(super) explained: bool,
}

impl Dependency<'_> {
    /// Described in the workspace's manifest.
    pub(super) fn is_inherited(&self) -> bool {
        self.value.starts_with(".workspace") || self.value.contains("workspace = true")
    }

    /// A crate of this repository.
    fn is_path(&self) -> bool {
        self.value.contains("path =")
    }
}

/// All dependencies of a manifest, of the workspace or of a crate.
pub(super) fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut section = "";
    let mut explained = false;
    for (number, line) in (1..).zip(manifest.lines()) {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            explained = false;
        } else if line.is_empty() {
            explained = false;
        } else if line.starts_with('#') {
            explained = true;
        } else if section.ends_with("dependencies") {
            // Lines inside a list of features have no name.
            let end = line.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
            if let Some(end) = end.filter(|&end| end > 0) {
                found.push(Dependency {
                    name: &line[..end],
                    value: line[end..].trim(),
                    dev: section.ends_with("dev-dependencies"),
                    line: number,
                    explained,
                });
            }
        }
    }
    found
}

pub(super) fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, manifest) in tree.texts("Cargo.toml") {
        for dependency in dependencies(manifest) {
            if dependency.is_path() || dependency.is_inherited() {
                continue;
            }
            count += 1;
            if !dependency.explained {
                let what = format!(
                    "`{}` needs a comment above it that says why it is here",
                    dependency.name
                );
                findings.push(Finding::new(path, dependency.line, what));
            }
        }
    }
    Outcome::new(count, "foreign crates", findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[package]
name = \"x\"

[dependencies]
ids.workspace = true
near = { path = \"../near\" }
bare = \"1\"
# Digits without the fmt machinery.
itoa = \"1\"
ryu = { version = \"1\", features = [\"small\"] }

orphan = \"1\"

[target.'cfg(unix)'.dev-dependencies]
# Properties over generated input.
proptest = { workspace = true }
";

    #[test]
    fn dependencies_are_read_with_their_section_and_comment() {
        let read: Vec<_> = dependencies(MANIFEST)
            .iter()
            .map(|dependency| {
                (
                    dependency.name,
                    dependency.line,
                    dependency.dev,
                    dependency.explained,
                )
            })
            .collect();
        assert_eq!(
            read,
            [
                ("ids", 5, false, false),
                ("near", 6, false, false),
                ("bare", 7, false, false),
                ("itoa", 9, false, true),
                ("ryu", 10, false, true),
                ("orphan", 12, false, false),
                ("proptest", 16, true, true),
            ]
        );
    }

    #[test]
    fn a_foreign_crate_without_a_reason_is_found() {
        let tree = Tree::of(&[("crates/x/Cargo.toml", MANIFEST)]);
        let found: Vec<_> = check(&tree).findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/x/Cargo.toml:7: `bare` needs a comment above it that says why it is here",
                "crates/x/Cargo.toml:12: `orphan` needs a comment above it that says why it is here",
            ]
        );
    }
}
