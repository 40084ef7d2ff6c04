//! The project's automation, as one program: `cargo xtask --help`.

mod code_map;
mod run;
mod stages;
mod tidy;
mod tree;

use std::process::ExitCode;

use run::Options;
use tree::Tree;

const HELP: &str = "\
usage: cargo xtask COMMAND [options]

  tidy      mechanical checks of the sources: layers, purity, unsafe code, manifests, documents
  test      every test: unit, generated documents, fuzzing, simulation, Redis's own suite, stock clients, the examples
  verify    formatting, tidy, lints, documentation; changes nothing but build outputs
  ci        verify, then test: what continuous integration runs
  fix       format the sources and write the generated documents again

Options of test, verify and ci:
  --list          print the stages and what each runs, and stop
  --only STAGE    run this stage and those that it needs; may be given several times
  --keep-going    run the other stages after one has failed

The tests need a C compiler, make, Python 3.11 with venv, redis-server, redis-cli, tclsh, node and npm. On Debian, as
root, what is missing is installed; elsewhere the first stage says what is.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        None => return usage("a command is missing"),
        Some((first, _)) if ["--help", "-h", "help"].contains(&first.as_str()) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some((first, rest)) => (first.as_str(), rest),
    };
    let options = match Options::parse(rest) {
        Ok(options) => options,
        Err(mistake) => return usage(&mistake),
    };
    let tree = match Tree::of_workspace() {
        Ok(tree) => tree,
        Err(trouble) => {
            eprintln!("xtask: {trouble}");
            return ExitCode::FAILURE;
        }
    };
    let stages = match command {
        "tidy" if rest.is_empty() => return exit(tidy::check(&tree)),
        "fix" if rest.is_empty() => return exit(stages::fix(&tree)),
        "tidy" | "fix" => return usage(&format!("{command} has no options")),
        "test" => stages::TEST.to_vec(),
        "verify" => stages::VERIFY.to_vec(),
        "ci" => [stages::VERIFY, stages::TEST].concat(),
        other => return usage(&format!("there is no command {other}")),
    };
    match options.choose(&stages) {
        Err(mistake) => usage(&mistake),
        Ok(chosen) if options.list => {
            run::list(&tree, &chosen);
            ExitCode::SUCCESS
        }
        Ok(chosen) => exit(run::run(&tree, &chosen, options.keep_going)),
    }
}

fn exit(success: bool) -> ExitCode {
    if success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage(mistake: &str) -> ExitCode {
    eprintln!("xtask: {mistake}\n\n{HELP}");
    ExitCode::from(2)
}
