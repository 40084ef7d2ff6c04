//! The page of commands: what is there, what it does over several groups, and what is not there.

use crate::docs::{DOCUMENTATION, docs_of};
use crate::table::TABLE;
use crate::{CommandRoute, Spec, Spread};
use std::fmt::Write;

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
    for (group, title) in &DOCUMENTATION.groups {
        let _ = write!(
            page,
            "\n## {title}\n\n| command | since | what it does | over several groups |\n| --- | --- | --- | --- |\n"
        );
        let is_in_group = |spec: &&&Spec| docs_of(spec).group == *group;
        for spec in TABLE.iter().filter(is_in_group) {
            let children = spec.visible_subcommands();
            if children.is_empty() {
                row(&mut page, spec);
            }
            children.iter().for_each(|child| row(&mut page, child));
        }
    }
    page.push_str("\n## Not there\n\n| commands of Redis 7.0 | |\n| --- | --- |\n");
    for (names, why) in &DOCUMENTATION.absent {
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
        let all = children.iter().chain(children.is_empty().then_some(*spec));
        for spec in all {
            let _ = writeln!(listing, "{:24} {}", called(spec.name), docs_of(spec).summary);
        }
    }
    listing
}

/// The version of our own commands.
const OURS: &str = "0.2.0";

fn row(page: &mut String, spec: &Spec) {
    let docs = docs_of(spec);
    let since = if docs.since == OURS {
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
        (CommandRoute::Connection, _) => "",
        (CommandRoute::Everywhere, _) => "every group",
        (CommandRoute::Scan, _) => "one after the other",
        (CommandRoute::Keys, Spread::Single) => "one key",
        (CommandRoute::Keys, Spread::Split(_) | Spread::IfAllAbsent | Spread::AllOrNothing) => "parts",
        (CommandRoute::Keys, Spread::ValueFlow) | (CommandRoute::Script, _) => "values cross",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn no_command_is_both_there_and_absent() {
        for name in DOCUMENTATION.absent.iter().flat_map(|(names, _)| names) {
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
