//! One type per name: what one crate exports under a name, no other crate of the product exports under it too.

use super::source::Source;
use super::{Finding, LAYERS, Outcome};
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Crates that test and measure the product: their names meet those of the product only in their own files.
const TOOLS: &[&str] = &["bench", "history", "mutations", "sim", "transcript"];

/// What a type begins with.
const ITEMS: &[&str] = &[
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
    "pub union ",
];

/// Where types are exported: name, then crate, file and line.
type Exports<'a> = BTreeMap<String, Vec<(&'a str, &'a str, usize)>>;

pub(super) fn check(tree: &Tree) -> Outcome {
    let product = LAYERS.iter().flat_map(|row| row.iter().copied());
    let mut exports: Exports<'_> = BTreeMap::new();
    for name in product.filter(|name| !TOOLS.contains(name)) {
        let sources = format!("crates/{name}/src/");
        for (path, text) in tree.texts(".rs").filter(|(path, _)| path.starts_with(&sources)) {
            for (number, line) in (1..).zip(Source::without_tests(text).lines()) {
                if let Some(exported) = exported(line) {
                    let places = exports.entry(exported.to_owned()).or_default();
                    places.push((name, path, number));
                }
            }
        }
    }
    let mut findings = Vec::new();
    for (exported, places) in &exports {
        let (first, ..) = places[0];
        for (_, path, line) in places.iter().filter(|(name, ..)| *name != first) {
            let what =
                format!("`{exported}` is a type of `{first}` already: give this one a name of its own");
            findings.push(Finding::new(path, *line, what));
        }
    }
    Outcome::new(exports.len(), "types", findings)
}

/// The type that a line begins to define for other crates.
fn exported(line: &str) -> Option<&str> {
    let rest = ITEMS.iter().find_map(|item| line.strip_prefix(item))?;
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_two_crates_export_is_found() {
        let tree = Tree::of(&[
            (
                "crates/ids/src/a.rs",
                "pub struct One;\npub enum Two<'a> {}\nstruct Own;\n",
            ),
            ("crates/ids/src/b.rs", "pub type One = u8;\n"),
            (
                "crates/resp/src/lib.rs",
                "// pub struct Two\npub(crate) struct One;\nstruct Own;\npub trait Two: Sized {}\n",
            ),
            ("crates/sim/src/lib.rs", "pub struct One;\n"),
        ]);
        let outcome = check(&tree);
        assert_eq!(outcome.looked_at, "2 types");
        let found: Vec<(&str, usize)> = outcome
            .findings
            .iter()
            .map(|finding| (finding.path.as_str(), finding.line))
            .collect();
        assert_eq!(found, [("crates/resp/src/lib.rs", 4)]);
    }
}
