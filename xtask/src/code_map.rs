//! The code map: every source file with the first sentence of its header. A page that is made cannot lag behind the sources.

use std::fmt::Write;

use crate::tidy::LAYERS;
use crate::tree::Tree;

/// Where the page lies.
pub(crate) const PATH: &str = "docs/code-map.md";

/// Named with the crate itself, or of no interest to a reader of the map.
const UNMAPPED: &[&str] = &["lib.rs", "tests.rs"];

const HEAD: &str = "\
# Code map

Every source file, in the words of its header's first sentence. Crates stand in the order of their layers, lowest first; those
that stand beside them come last. [ARCHITECTURE.md](../ARCHITECTURE.md) says how they belong together. `cargo xtask fix` makes
this page.
";

/// The page. An error names the files without a header.
pub(crate) fn page(tree: &Tree) -> Result<String, String> {
    let mut page = HEAD.to_owned();
    let mut nameless = Vec::new();
    let layered = LAYERS.iter().flat_map(|row| row.iter().copied());
    let beside = tree
        .crates()
        .filter(|name| !LAYERS.iter().any(|row| row.contains(name)));
    let mut describe = |path: &str| {
        let sentence = tree.text(path).and_then(first_sentence);
        if sentence.is_none() {
            nameless.push(path.to_owned());
        }
        sentence.unwrap_or_default()
    };
    for name in layered.chain(beside) {
        let root = format!("crates/{name}/");
        let mut files: Vec<&str> = tree.texts(".rs").map(|(path, _)| path).collect();
        files.retain(|path| path.starts_with(&root));
        if files.is_empty() {
            continue;
        }
        let _ = write!(page, "\n## crates/{name}\n\n");
        let lib = format!("{root}src/lib.rs");
        if files.contains(&lib.as_str()) {
            let _ = writeln!(page, "{}.\n", describe(&lib));
        }
        let mut rows = String::new();
        for path in files {
            let in_crate = &path[root.len()..];
            let shown = match in_crate.strip_prefix("src/") {
                Some(file) if !UNMAPPED.contains(&file.rsplit('/').next().unwrap_or(file)) => file,
                // Of tests in several files the first one speaks for all.
                None if is_entry_of_tests(in_crate) => in_crate,
                _ => continue,
            };
            let _ = writeln!(rows, "| `{shown}` | {} |", describe(path));
        }
        if !rows.is_empty() {
            let _ = write!(page, "| file | holds |\n| --- | --- |\n{rows}");
        }
    }
    if nameless.is_empty() {
        return Ok(page);
    }
    Err(format!(
        "no header (`//!` in the first line) in {}",
        nameless.join(", ")
    ))
}

fn is_entry_of_tests(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["tests", _] | ["tests", _, "main.rs"])
}

/// Of the header that a file begins with, without the point at its end. A colon ends it too: a picture or a list follows.
fn first_sentence(text: &str) -> Option<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    let sentence = paragraph[..end].trim_end_matches(['.', ':']);
    // A link to an item leads nowhere from a page.
    let plain = sentence.replace("[`", "`").replace("`]", "`").replace('|', "\\|");
    (!plain.is_empty()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lists_files_by_their_first_sentences_and_crates_by_their_layers() {
        let tree = Tree::of(&[
            ("crates/node/Cargo.toml", ""),
            ("crates/node/src/lib.rs", "//! Where parts meet.\n"),
            (
                "crates/node/src/loop.rs",
                "//! One loop:\n//! it turns.\n//!\n//! More.\n",
            ),
            ("crates/ids/Cargo.toml", ""),
            ("crates/ids/src/lib.rs", "//! Nouns. And units.\n"),
            (
                "crates/ids/src/a/b.rs",
                "//! What [`a`]\n//! holds. It is short.\n",
            ),
            ("crates/ids/src/a/tests.rs", "use a;\n"),
            ("crates/ids/tests/it/main.rs", "//! Whether they hold.\n"),
            ("crates/ids/tests/it/more.rs", "//! More.\n"),
            ("crates/chaos/Cargo.toml", ""),
            ("crates/chaos/src/main.rs", "//! Beside.\n"),
        ]);
        let expected = "
## crates/ids

Nouns.

| file | holds |
| --- | --- |
| `a/b.rs` | What `a` holds |
| `tests/it/main.rs` | Whether they hold |

## crates/node

Where parts meet.

| file | holds |
| --- | --- |
| `loop.rs` | One loop: it turns |

## crates/chaos

| file | holds |
| --- | --- |
| `main.rs` | Beside |
";
        assert_eq!(page(&tree), Ok(format!("{HEAD}{expected}")));
    }

    #[test]
    fn a_file_without_a_header_is_named() {
        let tree = Tree::of(&[("crates/ids/Cargo.toml", ""), ("crates/ids/src/a.rs", "use b;\n")]);
        let trouble = page(&tree).expect_err("it has none");
        assert!(trouble.ends_with("crates/ids/src/a.rs"), "{trouble}");
    }
}
