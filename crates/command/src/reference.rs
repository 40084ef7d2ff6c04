//! The page of commands: what is there, what it does over several groups, and what is not there.

use crate::docs::Group;
use crate::own::SINCE;
use crate::table::TABLE;
use crate::{Route, Spec, Spread};
use std::fmt::Write;

/// In the order of the page.
const GROUPS: [(Group, &str); 15] = [
    (Group::Generic, "Keys of any type"),
    (Group::String, "Strings"),
    (Group::Bitmap, "Bitmaps"),
    (Group::List, "Lists"),
    (Group::Set, "Sets"),
    (Group::Hash, "Hashes"),
    (Group::SortedSet, "Sorted sets"),
    (Group::HyperLogLog, "HyperLogLogs"),
    (Group::Geo, "Positions"),
    (Group::Transactions, "Transactions"),
    (Group::PubSub, "Pub/Sub"),
    (Group::Connection, "Connections"),
    (Group::Server, "The server"),
    (Group::Cluster, "Redis Cluster's protocol"),
    (Group::Scripting, "Scripts and functions"),
];

/// Commands of Redis 7.0 that are not there, as its `COMMAND LIST` names them, containers whole: each with what stands for it.
pub(crate) const ABSENT: &[(&[&str], &str)] = &[
    (
        &[
            "xack",
            "xadd",
            "xautoclaim",
            "xclaim",
            "xdel",
            "xgroup",
            "xinfo",
            "xlen",
            "xpending",
            "xrange",
            "xread",
            "xreadgroup",
            "xrevrange",
            "xsetid",
            "xtrim",
        ],
        "streams are not there yet",
    ),
    (
        &[
            "eval",
            "eval_ro",
            "evalsha",
            "evalsha_ro",
            "script",
            "fcall",
            "fcall_ro",
            "function|delete",
            "function|dump",
            "function|kill",
            "function|list",
            "function|load",
            "function|restore",
            "function|stats",
        ],
        "scripts and functions are not there yet",
    ),
    (
        &["bgrewriteaof", "bgsave"],
        "data are in memory and nowhere else; `SAVE` says so",
    ),
    (
        &["dump", "restore", "restore-asking", "migrate"],
        "values in Redis's own encoding are not there yet",
    ),
    (&["acl"], "there is one user; `requirepass` sets its password"),
    (
        &["client|caching", "client|tracking"],
        "clients cannot be told of what they keep",
    ),
    (
        &["module|load", "module|loadex", "module|unload"],
        "there are no modules",
    ),
    (
        &["failover", "psync", "replconf", "replicaof", "slaveof", "sync"],
        "replicas belong to groups, not to servers: nodes join with `--join`",
    ),
];

/// The page of all commands, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         <!-- Made by `chorale commands --markdown` from the table in crates/command. Do not edit. -->\n\n\
         What is there answers as Redis 7.0 does, texts of errors included. *Since* is the version of Redis that brought a \
         command; **Chorale** stands where it is ours ([what they do](commands.md)). The last column says what becomes of a command \
         whose keys are in several groups: it is atomic in each case.\n\n\
         - *parts*: each group gets the command with its own keys, in one transaction.\n\
         - *values cross*: values are read in some groups and written in others, in one transaction.\n\
         - *every group*: it is over the whole keyspace.\n\
         - *one key*: there is nothing to spread.\n",
    );
    for (group, title) in GROUPS {
        let specs: Vec<&Spec> = TABLE
            .iter()
            .copied()
            .filter(|spec| spec.docs.group == group)
            .collect();
        if specs.is_empty() {
            continue;
        }
        let _ = write!(
            page,
            "\n## {title}\n\n| command | since | what it does | over several groups |\n| --- | --- | --- | --- |\n"
        );
        for spec in specs {
            let children = spec.visible_subcommands();
            if children.is_empty() {
                row(&mut page, spec);
            }
            children.iter().for_each(|child| row(&mut page, child));
        }
    }
    page.push_str("\n## Not there\n\n| commands of Redis 7.0 | |\n| --- | --- |\n");
    for (names, why) in ABSENT {
        let names: Vec<String> = names.iter().map(|name| shown(name)).collect();
        let _ = writeln!(page, "| {} | {why} |", names.join(", "));
    }
    page
}

/// The commands that are there, a line each, for a terminal.
pub fn listing() -> String {
    let mut listing = String::new();
    for spec in TABLE {
        let children = spec.visible_subcommands();
        let all = children
            .iter()
            .copied()
            .chain(children.is_empty().then_some(*spec));
        for spec in all {
            let _ = writeln!(listing, "{:24} {}", called(spec.name), spec.docs.summary);
        }
    }
    listing
}

fn row(page: &mut String, spec: &Spec) {
    let docs = &spec.docs;
    let since = if docs.since == SINCE {
        "**Chorale**"
    } else {
        docs.since
    };
    let summary = docs.summary.trim_end_matches('.').replace('|', "\\|");
    let _ = writeln!(
        page,
        "| {} | {since} | {summary} | {} |",
        shown(spec.name),
        spreads(spec)
    );
}

/// `config|set` as clients write it.
fn called(name: &str) -> String {
    name.replace('|', " ").to_ascii_uppercase()
}

fn shown(name: &str) -> String {
    format!("`{}`", called(name))
}

fn spreads(spec: &Spec) -> &'static str {
    match (spec.route, spec.spread) {
        (Route::Connection, _) => "",
        (Route::Everywhere, _) => "every group",
        (Route::Scan, _) => "one after the other",
        (Route::Keys, Spread::Single) => "one key",
        (Route::Keys, Spread::Split(_) | Spread::IfAllAbsent | Spread::AllOrNothing) => "parts",
        (Route::Keys, Spread::ValueFlow) => "values cross",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn no_command_is_both_there_and_absent() {
        for name in ABSENT.iter().flat_map(|(names, _)| names.iter()) {
            let is_there = match name.split_once('|') {
                None => lookup(name.as_bytes()).is_some(),
                Some((container, _)) => lookup(container.as_bytes())
                    .is_some_and(|spec| spec.visible_subcommands().iter().any(|child| child.name == *name)),
            };
            assert!(!is_there, "{name}");
        }
    }

    #[test]
    fn every_command_that_clients_see_is_on_the_page_once() {
        let page = reference();
        for spec in TABLE.iter().filter(|spec| spec.visible_subcommands().is_empty()) {
            let begin = format!("\n| {} |", shown(spec.name));
            assert_eq!(page.matches(&begin).count(), 1, "{}", spec.name);
        }
    }
}
