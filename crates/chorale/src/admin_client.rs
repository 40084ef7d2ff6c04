//! `chorale admin`: what an operator asks of a running cluster, through a node's admin port.

use std::io;
use std::process::ExitCode;

use admin::{ClusterView, TransactionsView};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};

use crate::{backup, cluster_secret, goals, http, print, recover, status, transactions};

/// Names of the subcommands, and of their arguments.
pub(crate) const ADMIN: &str = "admin";
const STATUS: &str = "status";
const TXNS: &str = "txns";
const RECOVER: &str = "recover";
const GONE: &str = "gone";
const META: &str = "meta";
const CUT: &str = "cut";
/// What is done on the directory of a node that is stopped.
const STOPPED: &str = "stopped";
const DIR: &str = "dir";
const CONFIRM: &str = "confirm";
const ADDRESS: &str = "address";
const GROUPS: &str = "groups";
/// The same address, as the other subcommands take it.
pub(crate) const ADMIN_PORT: &str = "admin";
const JSON: &str = "json";
const TORN: &str = "torn";

/// Where a node's admin port is, if nobody has moved it.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:9121";

const STATUS_EXAMPLES: &str = "\
Examples:
  chorale admin status
      The cluster of the node on this machine.
  chorale admin status 10.0.0.7:9121 --groups
      As another node sees it, with a line for each group.
  chorale admin status 10.0.0.7:9121 10.0.0.8:9121 10.0.0.9:9121
      As the first of three sees it, with what each of them keeps on disk.
  chorale admin status --json | jq '.groups[] | select(.leader == null) | .number'
      Groups without a leader.

Nodes may see the cluster differently for a moment. The lag of a replica is known to the node that leads its group,
and what is on a node's disk to that node alone.";

const TXNS_EXAMPLES: &str = "\
What the columns say:
  in flight      transactions that the node coordinates and has not answered
  settling       decided and answered; some group has not recorded the end yet
  in doubt       the node asks all groups of the transaction what has become of it, because its coordinator is silent
  hold locks     transactions that have prepared in groups that the node leads: others wait for their keys
  waiting        commands and transactions that wait for locks there
  ends kept      ends of transactions, kept until all their groups have them
  late answers   answers to what waited, kept until whoever asked has them
  retries        attempts begun anew, after a conflict or because values had changed
  refused        nothing was done, because a watched key had changed or a key of MSETNX was there
  wounded        gave way to an older transaction, and began anew; every replica counts them
  recovered      of those in doubt, the ones whose end was found
  torn           carried out in some of their groups only: another one had lost what it acknowledged, and began anew

Each node knows what it coordinates and what the groups hold that it leads: ask all nodes to see everything. The status is 1 if one
of them could not be asked; what the others say is shown.

Examples:
  chorale admin txns
      The node on this machine.
  chorale admin txns 10.0.0.7:9121 10.0.0.8:9121 10.0.0.9:9121
      Three nodes in one table.
  chorale admin txns --torn
      What to look after when a group has begun anew: the newest that each node has found.
  chorale admin txns --json | jq '.hottest[] | [.waiters, .key]'
      The keys that most wait for. Of several nodes --json prints one page behind the other.

A key that is always among the hottest is what transactions wait for each other for: spread what it holds over several keys.
A transaction that holds locks for seconds has lost its coordinator; a second later its groups find its end themselves, if
they are all led: see chorale admin status.";

const RECOVER_EXAMPLES: &str = "\
Examples:
  chorale admin recover
      What could be saved of groups that have lost the memory of most of their voters. Changes nothing.
  chorale admin recover --confirm
      Does what that said.
  chorale admin recover --gone 2 --gone 3
      The same if nodes 2 and 3 will never come back with what they had. A node that was killed and is started again
      need not be named: it says itself that it has lost its memory.
  chorale admin recover --meta --dir /var/lib/chorale --confirm
      On the machine of a node that is stopped: makes it the only voter of the meta group, because the directories of a
      majority of the others are gone for good. Do this on one node only; stop the others first. Then start this
      node, then the others, and recover the groups of keys.

  chorale admin recover --cut --dir /var/lib/chorale
      On the machine of a node that does not start because a log of it is damaged, and that is alone: what would go if
      its groups went on with what stands before the damage. Changes nothing; with --confirm it is done.

What was acknowledged and is on no surviving replica is lost. Copy the data directory before you use --meta or --cut.
Recovery is taken from the node's own machine alone.";

/// The pages that are asked for.
const CLUSTER_PAGE: &str = "/cluster";
const TRANSACTIONS_PAGE: &str = "/transactions";

/// The command line of `chorale admin`.
pub(crate) fn command() -> Command {
    Command::new(ADMIN)
        .about("Ask a running cluster, or say what is wanted of it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(cluster_secret::flag())
        .subcommand(
            Command::new(STATUS)
                .about("Show nodes, groups and replicas as a node sees them")
                .arg(
                    Arg::new(ADDRESS)
                        .value_name("HOST:PORT")
                        .num_args(1..)
                        .default_value(DEFAULT_ADDRESS)
                        .help("Admin port of any node, and of others whose disks are to be shown; a port alone is one of this machine"),
                )
                .arg(named_ports())
                .arg(
                    Arg::new(GROUPS)
                        .long(GROUPS)
                        .action(ArgAction::SetTrue)
                        .help("A line for each group too"),
                )
                .arg(
                    Arg::new(JSON)
                        .long(JSON)
                        .action(ArgAction::SetTrue)
                        .help("The page itself, for programs"),
                )
                .after_help(STATUS_EXAMPLES),
        )
        .subcommand(
            Command::new(TXNS)
                .about("Show transactions over several groups, who waits for them, and which keys are hot")
                .arg(
                    Arg::new(ADDRESS)
                        .value_name("HOST:PORT")
                        .num_args(1..)
                        .default_value(DEFAULT_ADDRESS)
                        .help("Admin ports of the nodes to ask; a port alone is one of this machine"),
                )
                .arg(named_ports())
                .arg(
                    Arg::new(JSON)
                        .long(JSON)
                        .action(ArgAction::SetTrue)
                        .help("The page of each node itself, for programs"),
                )
                .arg(
                    Arg::new(TORN)
                        .long(TORN)
                        .action(ArgAction::SetTrue)
                        .conflicts_with(JSON)
                        .help("Only those of which a group has lost its part when it began anew"),
                )
                .after_help(TXNS_EXAMPLES),
        )
        .subcommand(
            Command::new(RECOVER)
                .about(
                    "Say what can be saved of groups that have lost their majority, and do it if confirmed",
                )
                .arg(
                    Arg::new(ADDRESS)
                        .value_name("HOST:PORT")
                        .default_value(DEFAULT_ADDRESS)
                        .help("Admin port of a node of this machine; a port alone will do"),
                )
                .arg(named_ports().action(ArgAction::Set).help("The same"))
                .arg(
                    Arg::new(GONE)
                        .long(GONE)
                        .value_name("NODE")
                        .action(ArgAction::Append)
                        .value_parser(clap::value_parser!(u64))
                        .help("A node that will never come back with what it had; may be given again"),
                )
                .arg(
                    Arg::new(META)
                        .long(META)
                        .action(ArgAction::SetTrue)
                        .requires(DIR)
                        .conflicts_with(GONE)
                        .help("The meta group, on the directory of a stopped node"),
                )
                .arg(
                    Arg::new(CUT)
                        .long(CUT)
                        .action(ArgAction::SetTrue)
                        .requires(DIR)
                        .conflicts_with(GONE)
                        .help("Damaged logs of groups that nobody else has, on the directory of a stopped node"),
                )
                .group(ArgGroup::new(STOPPED).args([META, CUT]))
                .arg(
                    Arg::new(DIR)
                        .long(DIR)
                        .value_name("PATH")
                        .requires(STOPPED)
                        .help("The data directory of that node"),
                )
                .arg(
                    Arg::new(CONFIRM)
                        .long(CONFIRM)
                        .action(ArgAction::SetTrue)
                        .help("Do it"),
                )
                .after_help(RECOVER_EXAMPLES),
        )
        .subcommands(goals::commands())
        .subcommand(backup::command())
}

/// Nodes to ask, by the name that all subcommands have for it.
fn named_ports() -> Arg {
    Arg::new(ADMIN_PORT)
        .long(ADMIN_PORT)
        .value_name("HOST:PORT")
        .action(ArgAction::Append)
        .conflicts_with(ADDRESS)
        .help("The same; may be given again")
}

/// The nodes to ask, one at least.
fn addresses(matches: &ArgMatches) -> Vec<String> {
    let named = matches.get_many::<String>(ADMIN_PORT);
    let given = named
        .or_else(|| matches.get_many(ADDRESS))
        .expect("it has a default");
    given.map(|address| full(address)).collect()
}

/// Does what the command line says.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    let (_, given) = matches.subcommand().expect("clap requires one");
    if let Err(reason) = cluster_secret::read(given) {
        return show(Err(reason));
    }
    match matches.subcommand() {
        Some((STATUS, matches)) => show(show_status(
            &addresses(matches),
            matches.get_flag(GROUPS),
            matches.get_flag(JSON),
        )),
        Some((TXNS, matches)) => {
            let report = match matches.get_flag(TORN) {
                true => transactions::torn,
                false => transactions::report,
            };
            show_transactions(&addresses(matches), matches.get_flag(JSON), report)
        }
        Some((RECOVER, matches)) => {
            let is_confirmed = matches.get_flag(CONFIRM);
            if let Some(directory) = matches.get_one::<String>(DIR) {
                return show(match matches.get_flag(CUT) {
                    true => recover::cut(directory, is_confirmed),
                    false => recover::meta(directory, is_confirmed),
                });
            }
            let address = &addresses(matches)[0];
            let gone: Vec<u64> = matches.get_many(GONE).into_iter().flatten().copied().collect();
            show(recover::groups(address, &gone, is_confirmed))
        }
        Some((backup::BACKUP, matches)) => backup::main(matches),
        Some((name, matches)) => goals::main(name, matches),
        None => unreachable!("clap requires one of the subcommands above"),
    }
}

pub(crate) fn show(page: Result<String, String>) -> ExitCode {
    match page {
        Ok(page) => print(&page),
        Err(reason) => {
            eprintln!("chorale: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// A port alone is one of this machine.
pub(crate) fn full(address: &str) -> String {
    match address.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.to_owned(),
    }
}

/// As the first node sees it; of the others it is shown what they keep on disk.
fn show_status(addresses: &[String], is_listing: bool, is_json: bool) -> Result<String, String> {
    let (first, others) = addresses.split_first().expect("there is a default");
    let page = page(first, CLUSTER_PAGE)?;
    if is_json && others.is_empty() {
        return Ok(page);
    }
    let mut view = read(first, &page)?;
    for address in others {
        view.add_disk(&cluster(address)?);
    }
    Ok(match is_json {
        true => view.to_json(),
        false => status::report(&view, is_listing),
    })
}

/// The cluster as the node with this admin port sees it, or what to do about it.
pub(crate) fn cluster(address: &str) -> Result<ClusterView, String> {
    read(address, &page(address, CLUSTER_PAGE)?)
}

/// A node that does not answer is said, and the others are shown: that is when one looks. It is a failure all the same: a program
/// must not take a part for the whole.
fn show_transactions(
    addresses: &[String],
    is_json: bool,
    report: fn(&[TransactionsView]) -> String,
) -> ExitCode {
    let (mut pages, mut views, mut failures) = (String::new(), Vec::new(), Vec::new());
    for address in addresses {
        let read = |page: String| {
            let view = TransactionsView::from_json(&page);
            let view = view.map_err(|error| is_other_version(address, &error));
            // Programs read it themselves.
            pages.push_str(&page);
            if is_json { Ok(None) } else { view.map(Some) }
        };
        match page(address, TRANSACTIONS_PAGE).and_then(read) {
            Ok(view) => views.extend(view),
            Err(reason) => failures.push(reason),
        }
    }
    failures.iter().for_each(|reason| eprintln!("chorale: {reason}"));
    let printed = match is_json {
        true => print(&pages),
        false if views.is_empty() => ExitCode::FAILURE,
        false => print(&report(&views)),
    };
    if failures.is_empty() {
        printed
    } else {
        ExitCode::FAILURE
    }
}

fn read(address: &str, page: &str) -> Result<ClusterView, String> {
    ClusterView::from_json(page).map_err(|error| is_other_version(address, &error))
}

pub(crate) fn is_other_version(address: &str, error: &str) -> String {
    format!("{address} answers with a page of another version ({error}); --json shows it")
}

pub(crate) fn page(address: &str, path: &str) -> Result<String, String> {
    match http::get(address, path) {
        Ok(page) if page.status == 200 => Ok(page.body),
        Ok(page) if page.status == 401 => Err(format!(
            "{address} is on another machine and wants the password of its clients: put it into the environment as {}; or, if the node has a \
             cluster-secret, name its file by --cluster-secret-file",
            http::PASSWORD_VARIABLE
        )),
        Ok(page) if page.status == 403 => Err(format!("{address} answers: {}", page.body.trim_end())),
        Ok(page) if page.status == 503 => Err(format!("{address} answers: {}", page.body.trim_end())),
        Ok(page) => Err(format!(
            "{address} answers with status {} to {path}: is it the admin port of a node?",
            page.status
        )),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Err(
            format!("{address} does not answer in time. Is it the admin-port of a node that runs?"),
        ),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(format!(
            "{address}: {error}. Name the node's admin-port, not one for clients"
        )),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(format!("{address}: {error}. It must be HOST:PORT"))
        }
        Err(error) => Err(format!(
            "cannot ask {address}: {error}. Is a node running there, with this admin-port?"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_by_position_or_as_all_other_subcommands_name_them() {
        let named = |words: &str| {
            let matches = command().try_get_matches_from(words.split(' ')).ok()?;
            let (_, matches) = matches.subcommand()?;
            Some(addresses(matches).join(" "))
        };
        for verb in [STATUS, TXNS, RECOVER] {
            for (given, expected) in [
                ("", Some("127.0.0.1:9121")),
                (" 7", Some("127.0.0.1:7")),
                (" --admin a:7", Some("a:7")),
                (" a:7 --admin b:7", None),
            ] {
                let words = format!("admin {verb}{given}");
                assert_eq!(named(&words).as_deref(), expected, "{words}");
            }
        }
        let two = named("admin status --admin 7 --admin b:8");
        assert_eq!(two.as_deref(), Some("127.0.0.1:7 b:8"));
        assert_eq!(
            named("admin recover --admin 7 --admin b:8"),
            None,
            "one node is asked"
        );
    }
}
