//! The command line. The flags of `server` are made from the table of options.

use std::fmt::Write;

use crate::{admin_client, bench, dev, restore, verify};
use clap::{Arg, ArgAction, ArgMatches, Command};
use options::{Change, OptionEffect, PARAMETERS, Parameter, Section};

/// Names of the subcommands, and of their own flags.
pub(crate) const SERVER: &str = "server";
pub(crate) const OPTIONS: &str = "options";
pub(crate) const COMMANDS: &str = "commands";
pub(crate) const MARKDOWN: &str = "markdown";

const SERVER_EXAMPLES: &str = "\
Examples:
  chorale server
      Clients on port 6379 of every address; while there is no password, only from this machine.
  CHORALE_REQUIREPASS=secret chorale server --maxmemory 2gb --maxmemory-policy allkeys-lru
      A cache of two gigabytes with a password that `ps` does not show.
  chorale server --config /etc/chorale.toml --log-format json
      Options from a file; flags and environment go before it.

Each flag can also be set in the environment ([env: ..]) or in the file. Sizes take kb, mb, gb.
`chorale options` lists these and the rarer options that have no flag.";

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("chorale")
        .version(env!("CARGO_PKG_VERSION"))
        .about("An in-memory key-value store that speaks the Redis protocol")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new(SERVER)
                .about("Run a node in the foreground")
                .args(PARAMETERS.iter().filter(|row| row.has_flag()).map(flag))
                .next_line_help(true)
                .after_help(SERVER_EXAMPLES),
        )
        .subcommand(dev::command())
        .subcommand(admin_client::command())
        .subcommand(restore::command())
        .subcommand(verify::command())
        .subcommand(bench::command())
        .subcommand(
            Command::new(OPTIONS)
                .about("List every option: name, default, what is allowed")
                .arg(
                    Arg::new(MARKDOWN)
                        .long(MARKDOWN)
                        .action(ArgAction::SetTrue)
                        .help("Print the reference page docs/operating/options.md"),
                ),
        )
        .subcommand(
            Command::new(COMMANDS)
                .about("List every command: since when, what it does, what it does over several groups, and what is not there")
                .arg(
                    Arg::new(MARKDOWN)
                        .long(MARKDOWN)
                        .action(ArgAction::SetTrue)
                        .help("Print the reference page docs/command-table.md"),
                ),
        )
}

/// A flag takes any text: `options::load` judges it, so that every mistake is reported at once, whether it comes
/// from a flag, the environment or the file.
fn flag(row: &'static Parameter) -> Arg {
    let default = row.default_value().render_for_people();
    let default = if default.is_empty() {
        String::new()
    } else {
        format!("[default: {default}] ")
    };
    Arg::new(row.name)
        .long(row.name)
        .value_name(row.placeholder())
        .help(format!("{}\n{default}[env: {}]", plain(row.doc), row.env()))
        .help_heading(row.section.title())
        // The last one counts, so that a script can append to the flags that it was given.
        .action(ArgAction::Append)
        // Numbers such as -1, and addresses such as -::1.
        .allow_hyphen_values(true)
}

/// The flags that were given, in the form that `options::load` takes.
pub(crate) fn server_flags(matches: &ArgMatches) -> Vec<(String, String)> {
    let given = |row: &'static Parameter| {
        let values = matches.get_many::<String>(row.name).into_iter().flatten();
        values.map(|text| (row.name.to_owned(), text.clone()))
    };
    PARAMETERS
        .iter()
        .filter(|row| row.has_flag())
        .flat_map(given)
        .collect()
}

/// Every option for reading in a terminal.
pub(crate) fn option_list() -> String {
    let mut list = String::new();
    for section in Section::ALL {
        let _ = writeln!(list, "{}", section.title());
        for row in PARAMETERS.iter().filter(|row| row.section == section) {
            let _ = write!(list, "\n  {}", row.name);
            if let Some(alias) = row.alias {
                let _ = write!(list, " ({alias})");
            }
            let _ = write!(list, "\n      {}\n", plain(row.doc));
            if let OptionEffect::None(why) = row.effect {
                let _ = writeln!(list, "      No effect in Chorale: {}", plain(why));
            }
            let default = row.default_value().render_for_people();
            let default = if default.is_empty() { "empty" } else { &default };
            let change = match row.change {
                Change::Live => "CONFIG SET changes it",
                Change::Restart => "fixed at start",
                Change::Order => "the whole cluster follows",
            };
            let _ = writeln!(
                list,
                "      [default: {default}] [allowed: {}] [{change}]",
                row.kind.allowed()
            );
        }
        list.push('\n');
    }
    list
}

/// Documentation without the quotes of Markdown.
fn plain(doc: &str) -> String {
    doc.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Vec<(String, String)> {
        let matches = command()
            .try_get_matches_from([&["chorale", SERVER], arguments].concat())
            .unwrap();
        server_flags(matches.subcommand().unwrap().1)
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn flags_take_any_value_and_keep_their_order() {
        let given = parsed(&[
            "--port",
            "1",
            "--workers=-1",
            "--port",
            "2",
            "--bind",
            "-::1",
            "--requirepass",
            "",
        ]);
        let own = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            given,
            [
                own("port", "1"),
                own("port", "2"),
                own("bind", "-::1"),
                own("requirepass", ""),
                own("workers", "-1")
            ]
        );
    }

    #[test]
    fn help_shows_every_flag_with_its_environment_variable() {
        let mut command = command();
        let help = command
            .find_subcommand_mut(SERVER)
            .unwrap()
            .render_long_help()
            .to_string();
        for row in PARAMETERS.iter().filter(|row| row.has_flag()) {
            assert!(
                help.contains(&format!("--{} <{}>", row.name, row.placeholder())),
                "{}\n{help}",
                row.name
            );
            assert!(help.contains(&format!("[env: {}]", row.env())), "{}", row.name);
        }
    }

    #[test]
    fn the_list_has_every_option() {
        let list = option_list();
        for row in PARAMETERS {
            assert!(list.contains(&format!("\n  {}", row.name)), "{}", row.name);
        }
    }
}
