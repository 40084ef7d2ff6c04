//! `chorale admin`: what an operator asks of a running cluster, through a node's admin port.

use std::io;
use std::process::ExitCode;

use admin::ClusterView;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::{http, print, status};

/// Names of the subcommands, and of their arguments.
pub(crate) const ADMIN: &str = "admin";
const STATUS: &str = "status";
const ADDRESS: &str = "address";
const GROUPS: &str = "groups";
const JSON: &str = "json";

/// Where a node's admin port is, if nobody has moved it.
const DEFAULT_ADDRESS: &str = "127.0.0.1:9121";

const STATUS_EXAMPLES: &str = "\
Examples:
  chorale admin status
      The cluster of the node on this machine.
  chorale admin status 10.0.0.7:9121 --groups
      As another node sees it, with a line for each group.
  chorale admin status --json | jq '.groups[] | select(.leader == null) | .number'
      Groups without a leader.

Nodes may see the cluster differently for a moment. The lag of a replica is known to the node that leads its group.";

/// The command line of `chorale admin`.
pub(crate) fn command() -> Command {
    Command::new(ADMIN)
        .about("Ask a running cluster")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new(STATUS)
                .about("Show nodes, groups and replicas as a node sees them")
                .arg(
                    Arg::new(ADDRESS)
                        .value_name("HOST:PORT")
                        .default_value(DEFAULT_ADDRESS)
                        .help("Admin port of any node; a port alone is one of this machine"),
                )
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
}

/// Does what the command line says.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    match matches.subcommand() {
        Some((STATUS, matches)) => {
            let address = matches.get_one::<String>(ADDRESS).expect("it has a default");
            let page = show_status(address, matches.get_flag(GROUPS), matches.get_flag(JSON));
            match page {
                Ok(page) => print(&page),
                Err(reason) => {
                    eprintln!("chorale: {reason}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => unreachable!("clap requires one of the subcommands above"),
    }
}

fn show_status(address: &str, is_listing: bool, is_json: bool) -> Result<String, String> {
    let address = match address.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.to_owned(),
    };
    let page = page(&address)?;
    if is_json {
        return Ok(page);
    }
    Ok(status::report(&read(&address, &page)?, is_listing))
}

/// The cluster as the node with this admin port sees it, or what to do about it.
pub(crate) fn cluster(address: &str) -> Result<ClusterView, String> {
    read(address, &page(address)?)
}

fn read(address: &str, page: &str) -> Result<ClusterView, String> {
    ClusterView::from_json(page).map_err(|error| {
        format!("{address} answers with a page of another version ({error}); --json shows it")
    })
}

fn page(address: &str) -> Result<String, String> {
    match http::get(address, "/cluster") {
        Ok(page) if page.status == 200 => Ok(page.body),
        Ok(page) => Err(format!(
            "{address} answers with status {} to /cluster: is it the admin port of a node?",
            page.status
        )),
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
