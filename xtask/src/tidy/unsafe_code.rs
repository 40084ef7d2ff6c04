//! Where `unsafe` may stand, and that each says why it holds.

use super::source::Source;
use super::{Finding, Outcome};
use crate::tree::Tree;

/// Files that may, each for one reason.
const ALLOWED: &[&str] = &[
    // A key and its value in one block, whose layout no type of Rust's can say.
    "crates/keyspace/src/object.rs",
    // The address of that block and sixteen bits of hash in one word.
    "crates/keyspace/src/slot_word.rs",
    // Members are kept once, in their directory; the tree of their order has their addresses.
    "crates/keyspace/src/sorted_set/tree.rs",
    // Calls of the system and of the allocator that no crate wraps.
    "crates/node/src/memory.rs",
    "crates/node/src/clock.rs",
    "crates/node/src/free_space.rs",
    "crates/node/src/priority.rs",
    // A child process that ends with its parent, and signals to it: the standard library has no safe name for either.
    "crates/chorale/src/dev/process.rs",
    // A timer that a loop waits for, signals to other processes and their clocks: the standard library has no name for them.
    "crates/bench/src/system.rs",
];

pub(super) fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts(".rs") {
        let source = Source::new(text);
        let (code, lines) = (source.lines(), text.lines().collect::<Vec<_>>());
        for at in source.words("unsafe") {
            count += 1;
            let line = source.line_of(at);
            if !ALLOWED.contains(&path) {
                let what = "unsafe code only in the files listed in xtask/src/tidy/unsafe_code.rs";
                findings.push(Finding::new(path, line, what));
            } else if !has_reason(&lines, &code, line - 1) {
                let what =
                    "`unsafe` needs a comment above it that begins with SAFETY: (or # Safety for a function)";
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    Outcome::new(count, "uses", findings)
}

/// Looks upwards from the statement on this line through the comment above it.
fn has_reason(lines: &[&str], code: &[&str], line: usize) -> bool {
    let is_comment = |at: usize| lines[at].trim_start().starts_with("//");
    let mut at = line;
    // To the first line of the statement: what is above it ends another one, or is a comment or an attribute.
    while at > 0 {
        let above = code[at - 1].trim_end();
        let ends = above.ends_with([';', '{', '}', ',']) && !opens_literal(above);
        let ends = ends && !above.trim_start().starts_with("#[");
        if ends || above.is_empty() {
            break;
        }
        at -= 1;
    }
    while at > 0 && is_comment(at - 1) {
        at -= 1;
        if lines[at].contains("SAFETY:") || lines[at].contains("# Safety") {
            return true;
        }
    }
    false
}

/// True of `f(|x| Name {`, whose statement goes on in the next line; not of `f(|x| {`, which begins others.
fn opens_literal(line: &str) -> bool {
    let Some(before) = line.strip_suffix('{') else {
        return false;
    };
    let count = |bracket| before.matches(bracket).count();
    count('(') > count(')')
        && before
            .trim_end()
            .ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]))
            .findings
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn unsafe_code_elsewhere_is_found() {
        assert_eq!(
            found("crates/ids/src/lib.rs", "// SAFETY: fine.\nunsafe { f() }\n"),
            [2]
        );
        assert_eq!(
            found(
                "crates/ids/src/lib.rs",
                "// unsafe\nlet a = \"unsafe\"; not_unsafe();\n"
            ),
            [0; 0]
        );
    }

    #[test]
    fn each_use_has_its_reason() {
        let text = "\
// SAFETY: the block is ours.
unsafe { f() };
unsafe { f() };
// SAFETY: two lines
// of reason.
let a = g(
    1).
    h(unsafe { f() });
/// Reads.
///
/// # Safety
/// `at` is inside.
#[inline]
pub(crate) unsafe fn f() {}
// Something else.
unsafe impl Send for X {}
// SAFETY: the struct goes to `g` at once.
g(|x| Y {
    z: unsafe { f() },
});
// SAFETY: not of the closure's statements.
g(|x| {
    unsafe { f() }
});
";
        assert_eq!(found(ALLOWED[0], text), [3, 16, 23]);
    }
}
