//! What continuous integration is: the stages, cheapest first.

use std::fs;
use std::process::{Command, Stdio};

use crate::code_map;
use crate::run::{Place, Program, Stage, Step};
use crate::tidy;
use crate::tree::Tree;

/// Pages that the server prints: each with what is asked for, and what it is made from.
const PAGES: &[(&str, &str, &str)] = &[
    ("docs/operating/options.md", "options", "the table of options"),
    ("docs/command-table.md", "commands", "the table of commands"),
];

/// How long each fuzz target runs; long campaigns are for people.
const CAMPAIGN: &str = "5s";

/// Units in which it matters that some groups are led by the node that a client talks to, and some are not. With many groups
/// the others show no more than with one.
const OVER_GROUPS: &[&str] = &[
    "unit/type/list",
    "unit/keyspace",
    "unit/expire",
    "unit/multi",
    "unit/pubsub",
];

/// Units that write much, save and read again: where each write is synced they take minutes, and what all others would show is no more.
const KEPT: &[&str] = &["unit/type/list", "unit/type/stream", "unit/other"];

/// Changes nothing but build outputs.
pub(crate) const VERIFY: &[&Stage] = &[
    &Stage {
        name: "format",
        what: "sources are as rustfmt writes them",
        needs: &[],
        steps: |_| {
            vec![
                program("cargo fmt --all --check"),
                program("cargo fmt --manifest-path fuzz/Cargo.toml --check"),
                program("cargo fmt --manifest-path tests/clients/redis-rs/Cargo.toml --check"),
            ]
        },
    },
    &Stage {
        name: "tidy",
        what: "layers, purity, unsafe code, manifests, documents",
        needs: &[],
        steps: |_| vec![Step::Own("cargo xtask tidy", tidy_workspace)],
    },
    &Stage {
        name: "clippy",
        what: "lints",
        needs: &[],
        steps: |_| {
            vec![
                program("cargo clippy --locked --workspace --all-targets -- -D warnings"),
                // Built into the same folder: most of it is what the workspace has built already.
                program(
                    "cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir target --lib --bin campaign --tests -- -D warnings",
                ),
            ]
        },
    },
    &Stage {
        name: "doc",
        what: "documentation comments and their links",
        needs: &[],
        steps: |_| {
            let doc = Program::new("cargo doc --locked --workspace --no-deps --document-private-items");
            vec![Step::Program(doc.with("RUSTDOCFLAGS", "-D warnings"))]
        },
    },
];

/// Each test there is.
pub(crate) const TEST: &[&Stage] = &[
    &Stage {
        name: "packages",
        what: "what the tests need from the system",
        needs: &[],
        steps: |_| {
            vec![Step::Own(
                "look for programs, and install Debian packages as root",
                |_| packages(),
            )]
        },
    },
    &Stage {
        name: "build",
        what: "the server as it is released",
        needs: &["packages"],
        steps: |_| vec![program("cargo build --locked --release")],
    },
    &Stage {
        name: "generated",
        what: "generated documents are fresh",
        needs: &["packages", "build"],
        steps: |_| {
            vec![Step::Own(
                "compare docs/operating/options.md and docs/command-table.md with what chorale prints",
                are_pages_fresh,
            )]
        },
    },
    &Stage {
        name: "cargo",
        what: "tests of all crates; those of the process use the released server",
        needs: &["packages", "build"],
        steps: |place| {
            let test = Program::new("cargo test --locked --workspace");
            vec![Step::Program(
                test.with("CHORALE_BIN", place.chorale().display().to_string()),
            )]
        },
    },
    &Stage {
        name: "fuzz",
        what: "regressions, then a short campaign",
        needs: &["packages"],
        steps: |_| {
            let campaign =
                "cargo run --locked --release --manifest-path fuzz/Cargo.toml --bin campaign -- all";
            vec![
                program("cargo test --locked --release --manifest-path fuzz/Cargo.toml"),
                Step::Program(Program::new(campaign).word(CAMPAIGN)),
            ]
        },
    },
    &Stage {
        name: "simulation",
        what: "whole clusters from seeds, with faults",
        needs: &["packages"],
        steps: |_| {
            vec![
                program("cargo run --locked --release -p sim -- --seeds 1000 --workers 2"),
                program("cargo run --locked --release -p sim -- --seeds 400 --workers 1..4"),
                program(
                    "cargo run --locked --release -p sim -- --seeds 600 --workers 2 --durability relaxed,strict",
                ),
                // Groups of six replicas, which outlive two losses.
                program("cargo run --locked --release -p sim -- --seeds 100 --nodes 6..7 --workers 1..2"),
            ]
        },
    },
    &Stage {
        name: "suite",
        what: "Redis's own tests: one node as started by default, with one group and one worker, with two workers; three nodes of two workers, with one group, and with many and long strings in fragments; some units where each write is synced",
        needs: &["packages", "build"],
        steps: |place| {
            vec![
                suite(place, &[]),
                suite(place, &["--quick", "--extra-args=--groups 1 --workers 1"]),
                suite(place, &["--quick", "--extra-args=--workers 2"]),
                // Said, as by default the machine's cores decide it.
                suite(
                    place,
                    &["--quick", "--nodes=3", "--groups=1", "--extra-args=--workers 2"],
                ),
                suite(
                    place,
                    &[
                        &[
                            "--nodes=3",
                            "--extra-args=--workers 2 --coding on --coding-threshold 64 --coding-delay 0",
                        ],
                        OVER_GROUPS,
                    ]
                    .concat(),
                ),
                suite(place, &[&["--durability=strict"], KEPT].concat()),
            ]
        },
    },
    &Stage {
        name: "clients",
        what: "programs of stock clients, over RESP2 and RESP3, and of applications",
        needs: &["packages", "build"],
        steps: |place| {
            let step = |line| Step::Program(Program::new(line).word(place.chorale().display().to_string()));
            // The others need toolchains of their own.
            let programs = [
                "tests/clients/run redis-cli redis-py ioredis node-redis redis-rs --server",
                "tests/clients/run redis-cli redis-py ioredis node-redis redis-rs --every-node --server",
                "tests/applications/run --ci --server",
            ];
            programs.map(step).into()
        },
    },
    &Stage {
        name: "cities",
        what: "the stock Redis client and a public data set",
        needs: &["packages", "build"],
        steps: |place| {
            let cities = Program::new("examples/cities/run --quick --server");
            vec![Step::Program(cities.word(place.chorale().display().to_string()))]
        },
    },
    &Stage {
        name: "chaos",
        what: "a minute of faults on five nodes for each load, and what the clients saw judged",
        needs: &["packages", "build"],
        steps: |place| {
            let chaos = |(load, durability, coding)| {
                let run = Program::new("cargo run --locked -p blackbox --bin chaos -- --minutes 1 --load")
                    .word(load)
                    .word("--durability")
                    .word(durability)
                    .word("--coding")
                    .word(coding);
                Step::Program(run.with("CHORALE_BIN", place.chorale().display().to_string()))
            };
            // In `strict` each kill is a loss of power.
            let loads = [
                ("transactions", "relaxed", "off"),
                ("registers", "strict", "on"),
                ("queues", "relaxed", "off"),
            ];
            loads.map(chaos).into()
        },
    },
    &Stage {
        name: "growth",
        what: "a cluster of 1, 3, 4 and 3 nodes under load, then the same with a node killed in each step, and what the clients saw judged; without namespaces it says so, and the nodes share an address",
        needs: &["packages", "build"],
        steps: |place| {
            let growth = |words: &[&str]| {
                let run =
                    Program::new("cargo run --locked -p blackbox --bin growth -- --sizes 1,3,4,3 --calm 2");
                let run = words.iter().fold(run, |run, &word| run.word(word));
                Step::Program(run.with("CHORALE_BIN", place.chorale().display().to_string()))
            };
            vec![growth(&[]), growth(&["--kills"])]
        },
    },
    &Stage {
        name: "bank",
        what: "transfers, and a job queue, on three nodes that are killed and paused; requests that are sent again; values in fragments on nodes that are killed and replaced",
        needs: &["packages", "build"],
        steps: |place| {
            let programs = [
                "examples/bank/run --seconds 8 --way both --plain --server",
                "examples/bank/run --seconds 8 --way once --plain --server",
                "examples/once/run --server",
                "examples/queue/run --quick --plain --server",
                "examples/coding/run --short --plain --server",
            ];
            let step = |line| Step::Program(Program::new(line).word(place.chorale().display().to_string()));
            programs.map(step).into()
        },
    },
    &Stage {
        name: "s3",
        what: "backups against a real server of S3, which Go builds; without Go it says so, and that is all",
        needs: &["packages"],
        steps: |_| vec![program("tests/s3/run --if-go")],
    },
];

fn program(line: &str) -> Step {
    Step::Program(Program::new(line))
}

fn suite(place: &Place, words: &[&str]) -> Step {
    let suite = Program::new("tests/redis-suite/run --server").word(place.chorale().display().to_string());
    Step::Program(words.iter().fold(suite, |suite, &word| suite.word(word)))
}

/// The tree is read anew: stages know only where it is.
fn tidy_workspace(_: &Place) -> bool {
    match Tree::of_workspace() {
        Ok(tree) => tidy::check(&tree),
        Err(trouble) => report(Err(trouble)),
    }
}

/// Writes what can be written by a program. True if it all could.
pub(crate) fn fix(tree: &Tree) -> bool {
    let place = Place::of(tree);
    let run = |line: &str| {
        println!("$ {line}");
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().expect("the lines below are not empty"));
        command
            .args(words)
            .current_dir(&place.root)
            .status()
            .is_ok_and(|status| status.success())
    };
    run("cargo fmt --all")
        && run("cargo fmt --manifest-path fuzz/Cargo.toml")
        && run("cargo fmt --manifest-path tests/clients/redis-rs/Cargo.toml")
        && report(code_map::page(tree).and_then(|page| write(&place, code_map::PATH, &page)))
        && run("cargo build --release")
        && PAGES.iter().all(|(path, name, _)| {
            report(printed_page(&place, name).and_then(|page| write(&place, path, &page)))
        })
}

fn write(place: &Place, page: &str, text: &str) -> Result<(), String> {
    println!("write {page}");
    let path = place.root.join(page);
    fs::create_dir_all(path.parent().expect("a page lies in a folder"))
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn are_pages_fresh(place: &Place) -> bool {
    // All of them, whatever one is like.
    let stale = PAGES.iter().filter(|page| !is_page_fresh(place, page));
    stale.count() == 0
}

fn is_page_fresh(place: &Place, (path, name, source): &(&str, &str, &str)) -> bool {
    report(printed_page(place, name).and_then(|page| {
        let kept = fs::read_to_string(place.root.join(path)).unwrap_or_default();
        if kept == page {
            return Ok(());
        }
        let line = 1 + kept
            .lines()
            .zip(page.lines())
            .take_while(|(kept, page)| kept == page)
            .count();
        Err(format!(
            "{path}:{line}: not what {source} says; run `cargo xtask fix`"
        ))
    }))
}

fn printed_page(place: &Place, name: &str) -> Result<String, String> {
    let binary = place.chorale();
    let output = Command::new(&binary)
        .args([name, "--markdown"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} {name} --markdown: {}",
            binary.display(),
            output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| "the page is not UTF-8".to_owned())
}

/// True for `Ok`; prints the trouble otherwise.
fn report(result: Result<(), String>) -> bool {
    if let Err(trouble) = &result {
        eprintln!("xtask: {trouble}");
    }
    result.is_ok()
}

const PYTHON: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";

/// What must run with status 0, and the Debian packages that bring it.
const PACKAGES: &[(&[&str], &str)] = &[
    (&["cc", "--version"], "gcc libc6-dev"),
    (&["make", "--version"], "make"),
    (&["redis-server", "--version"], "redis-server"),
    (&["redis-cli", "--version"], "redis-tools"),
    // It has no option to ask for its version; without input it ends.
    (&["tclsh"], "tcl"),
    (&["python3", "-c", PYTHON], "python3 python3-venv"),
    (&["node", "--version"], "nodejs"),
    (&["npm", "--version"], "npm"),
    // Errors and delays of the disk.
    (&["strace", "--version"], "strace"),
    (&["nsenter", "--version"], "util-linux mount"),
    // Network namespaces, and the secrets that the pages make.
    (&["ip", "-V"], "iproute2"),
    (&["openssl", "version"], "openssl"),
];

fn packages() -> bool {
    let missing = missing_packages();
    if missing.is_empty() {
        println!("all are there");
        return true;
    }
    let names: Vec<&str> = missing.iter().flat_map(|package| package.split(' ')).collect();
    println!("missing: {}", names.join(" "));
    if !is_root() || !answers(&["apt-get", "--version"]) {
        eprintln!(
            "xtask: install these, then start again. On Debian: sudo apt-get install {}",
            names.join(" ")
        );
        return false;
    }
    let apt = |arguments: &[&str]| {
        println!("$ apt-get {}", arguments.join(" "));
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    // One repository out of reach fails the update although the others suffice; the installation decides.
    apt(&["update"]);
    let install = [&["install", "-y", "--no-install-recommends"], names.as_slice()].concat();
    if !apt(&install) {
        eprintln!("xtask: apt-get could not install them");
        return false;
    }
    let missing = missing_packages();
    if !missing.is_empty() {
        eprintln!(
            "xtask: installed, and yet these do not work: {}",
            missing.join(" ")
        );
    }
    missing.is_empty()
}

fn missing_packages() -> Vec<&'static str> {
    let missing = PACKAGES.iter().filter(|(words, _)| !answers(words));
    missing.map(|&(_, package)| package).collect()
}

fn answers(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
