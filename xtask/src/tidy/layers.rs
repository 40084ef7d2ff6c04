//! Which crate may use which.

use super::manifest::dependencies;
use super::{Finding, Outcome};
use crate::tree::Tree;

/// From the bottom. A crate uses crates of earlier rows, and what `BESIDE` adds.
pub(crate) const LAYERS: &[&[&str]] = &[
    &["ids", "codec", "mutations", "history", "transcript"],
    &["resp", "command", "txn", "script", "coding", "rdb"],
    &["keyspace", "consensus", "ring"],
    &["replica", "control", "peer-wire", "options"],
    &["gateway"],
    &["admin", "transport", "storage", "backup", "bench"],
    &["node"],
    &["chorale", "sim"],
];

/// Uses within a row, or from outside the order: user and used. `blackbox` judges what clients of real processes saw by the
/// checkers of `history`, which know nothing of the implementation either.
const BESIDE: &[(&str, &str)] = &[
    ("command", "resp"),
    ("peer-wire", "replica"),
    ("blackbox", "history"),
];

/// Crates outside the order: they use none of ours but what `BESIDE` names, and none of ours uses them.
const APART: &[&str] = &["blackbox", "models"];

/// Crates that use none of ours although their row would let them.
const ALONE: &[&str] = &["options", "admin"];

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&name))
}

fn may_use(user: &str, used: &str) -> bool {
    let lower = matches!((layer(user), layer(used)), (Some(user), Some(used)) if used < user);
    (lower && !ALONE.contains(&user)) || BESIDE.contains(&(user, used))
}

pub(super) fn check(tree: &Tree) -> Outcome {
    let crates: Vec<&str> = tree.crates().collect();
    let mut findings = Vec::new();
    for &name in &crates {
        let path = format!("crates/{name}/Cargo.toml");
        if layer(name).is_none() && !APART.contains(&name) {
            findings.push(Finding::new(
                &path,
                0,
                "not in the layer table of xtask/src/tidy/layers.rs",
            ));
        }
        let manifest = tree.text(&path).unwrap_or_default();
        for dependency in dependencies(manifest) {
            if crates.contains(&dependency.name) && !may_use(name, dependency.name) {
                let what = format!(
                    "`{name}` may not use `{}`: it is not of a lower layer",
                    dependency.name
                );
                findings.push(Finding::new(&path, dependency.line, what));
            }
        }
    }
    Outcome::new(crates.len(), "crates", findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_upwards_or_sideways_is_found() {
        let tree = Tree::of(&[
            ("crates/ids/Cargo.toml", "[dependencies]\nresp.workspace = true\n"),
            (
                "crates/resp/Cargo.toml",
                "[dependencies]\nids.workspace = true\nmemchr.workspace = true\n",
            ),
            (
                "crates/command/Cargo.toml",
                "[dependencies]\nids.workspace = true\nresp.workspace = true\n",
            ),
            (
                "crates/keyspace/Cargo.toml",
                "[dependencies]\ncommand.workspace = true\n\n[dev-dependencies]\nring.workspace = true\n",
            ),
            ("crates/ring/Cargo.toml", ""),
            ("crates/stray/Cargo.toml", ""),
        ]);
        let found: Vec<_> = check(&tree).findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/ids/Cargo.toml:2: `ids` may not use `resp`: it is not of a lower layer",
                "crates/keyspace/Cargo.toml:5: `keyspace` may not use `ring`: it is not of a lower layer",
                "crates/stray/Cargo.toml: not in the layer table of xtask/src/tidy/layers.rs",
            ]
        );
    }

    #[test]
    fn what_is_replicated_never_sees_options() {
        assert!(may_use("gateway", "options"));
        assert!(may_use("node", "options"));
        for lower in ["ids", "resp", "command", "keyspace", "txn", "replica", "admin"] {
            assert!(!may_use(lower, "options"), "{lower}");
        }
        assert!(!may_use("options", "ids"));
    }
}
