//! The binary `chorale`: reads the command line, and starts what it names.

mod admin_client;
mod backup;
mod backup_job;
mod bench;
mod cli;
mod cluster_secret;
mod dev;
mod forget;
mod goals;
mod http;
mod log;
mod may_stop;
mod progress_bar;
mod raise_semantics;
mod rate;
mod rebalance;
mod recover;
mod replace;
mod resize;
mod restore;
mod server;
mod status;
mod transactions;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

// Memory of strings that are overwritten at random stays compact under jemalloc (docs/decisions/0002).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let matches = cli::command().get_matches();
    match matches.subcommand() {
        Some((cli::SERVER, matches)) => server::main(cli::server_flags(matches)),
        Some((dev::DEV, matches)) => dev::main(matches),
        Some((bench::BENCH, matches)) => bench::main(matches),
        Some((admin_client::ADMIN, matches)) => admin_client::main(matches),
        Some((restore::RESTORE, matches)) => restore::main(matches),
        Some((verify::VERIFY, matches)) => verify::main(matches),
        Some((cli::OPTIONS, matches)) => {
            let page = if matches.get_flag(cli::MARKDOWN) {
                options::reference()
            } else {
                cli::option_list()
            };
            print(&page)
        }
        Some((cli::COMMANDS, matches)) => {
            let page = if matches.get_flag(cli::MARKDOWN) {
                command::reference()
            } else {
                command::listing()
            };
            print(&page)
        }
        _ => unreachable!("clap requires one of the subcommands above"),
    }
}

/// Prints a text that may be piped into `head`: a reader that has seen enough is not an error.
fn print(text: &str) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("chorale: cannot write: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
