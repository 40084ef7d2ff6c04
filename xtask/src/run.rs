//! Stages: what they are, and running them one after the other.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tree::Tree;

/// A named part of a command such as `ci`.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Stages that must have run; `--only` runs them too.
    pub(crate) needs: &'static [&'static str],
    pub(crate) steps: fn(&Place) -> Vec<Step>,
}

/// Where stages run.
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    /// Cargo's target directory.
    pub(crate) target: PathBuf,
}

impl Place {
    pub(crate) fn of(tree: &Tree) -> Place {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        // Stages run in the root, the caller may be elsewhere.
        let target = match std::env::current_dir() {
            Ok(here) if std::env::var_os("CARGO_TARGET_DIR").is_some() => here.join(target),
            _ => tree.root.join(target),
        };
        Place {
            root: tree.root.clone(),
            target,
        }
    }

    /// The release binary.
    pub(crate) fn chorale(&self) -> PathBuf {
        self.target
            .join("release")
            .join("chorale")
            .with_extension(std::env::consts::EXE_EXTENSION)
    }
}

/// One thing that a stage does.
pub(crate) enum Step {
    Program(Program),
    /// Something that this program does itself: how it is shown, and what it does. True is success.
    Own(&'static str, fn(&Place) -> bool),
}

/// A program to run in the root, by its words; it succeeds with status 0.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) words: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Program {
    /// The words of `line` are separated by spaces.
    pub(crate) fn new(line: &str) -> Program {
        Program {
            words: line.split_whitespace().map(str::to_owned).collect(),
            environment: Vec::new(),
        }
    }

    /// Adds a word, which may hold anything.
    pub(crate) fn word(mut self, word: impl Into<String>) -> Program {
        self.words.push(word.into());
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Program {
        self.environment.push((name, value.into()));
        self
    }

    /// As one would type it.
    fn shown(&self) -> String {
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        environment
            .chain(self.words.iter().map(|word| quoted(word)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn run(&self, place: &Place) -> bool {
        let (program, arguments) = self.words.split_first().expect("a program has a name");
        // A path is meant from the root; what has no slash is looked up.
        let program = if program.contains('/') {
            place.root.join(program)
        } else {
            program.into()
        };
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(&place.root)
            .envs(self.environment.iter().cloned());
        // `cargo run` tells its child about the package it ran; other cargos should not hear of it.
        for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
            command.env_remove(name);
        }
        match command.status() {
            Ok(status) if status.success() => true,
            Ok(status) => {
                eprintln!("xtask: {status}: {}", self.shown());
                false
            }
            Err(error) => {
                eprintln!("xtask: cannot run {}: {error}", program.display());
                false
            }
        }
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

/// What the command line asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) list: bool,
    pub(crate) keep_going: bool,
    pub(crate) only: Vec<String>,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--list" => options.list = true,
                "--keep-going" => options.keep_going = true,
                "--only" => options
                    .only
                    .push(words.next().ok_or("--only needs the name of a stage")?.clone()),
                other => match other.strip_prefix("--only=") {
                    Some(stage) => options.only.push(stage.to_owned()),
                    None => return Err(format!("unknown option {other}")),
                },
            }
        }
        Ok(options)
    }

    /// The stages to run, in their order: all, or those asked for and what they need.
    pub(crate) fn choose(&self, stages: &[&'static Stage]) -> Result<Vec<&'static Stage>, String> {
        if self.only.is_empty() {
            return Ok(stages.to_vec());
        }
        let mut wanted: Vec<&str> = Vec::new();
        for only in &self.only {
            let Some(stage) = stages.iter().find(|stage| stage.name == only) else {
                let names: Vec<_> = stages.iter().map(|stage| stage.name).collect();
                return Err(format!(
                    "there is no stage {only}; there are {}",
                    names.join(", ")
                ));
            };
            wanted.push(stage.name);
            wanted.extend(stage.needs);
        }
        Ok(stages
            .iter()
            .filter(|stage| wanted.contains(&stage.name))
            .copied()
            .collect())
    }
}

/// Prints what would run.
pub(crate) fn list(tree: &Tree, stages: &[&Stage]) {
    let place = Place::of(tree);
    for stage in stages {
        println!("{:<10} {}", stage.name, stage.what);
        for step in (stage.steps)(&place) {
            println!("           $ {}", step.shown());
        }
    }
}

impl Step {
    fn shown(&self) -> String {
        match self {
            Step::Program(program) => program.shown(),
            Step::Own(shown, _) => (*shown).to_owned(),
        }
    }

    fn run(&self, place: &Place) -> bool {
        match self {
            Step::Program(program) => program.run(place),
            Step::Own(_, run) => run(place),
        }
    }
}

/// How a stage ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    /// A stage before it failed.
    NotRun,
}

/// Runs the stages and prints a table of them at the end. True if all succeeded.
pub(crate) fn run(tree: &Tree, stages: &[&Stage], keep_going: bool) -> bool {
    let place = Place::of(tree);
    let start = Instant::now();
    let mut ends: Vec<(&Stage, End, Duration)> = Vec::new();
    for &stage in stages {
        let failed = |name: &str| {
            ends.iter()
                .any(|(other, end, _)| other.name == name && *end != End::Passed)
        };
        let has_failure = ends.iter().any(|(_, end, _)| *end != End::Passed);
        if has_failure && !keep_going || stage.needs.iter().any(|name| failed(name)) {
            ends.push((stage, End::NotRun, Duration::ZERO));
            continue;
        }
        println!("\n==> {}: {}", stage.name, stage.what);
        let began = Instant::now();
        let passed = (stage.steps)(&place).iter().all(|step| {
            println!("$ {}", step.shown());
            step.run(&place)
        });
        let end = if passed { End::Passed } else { End::Failed };
        let verdict = if passed { "passed" } else { "FAILED" };
        println!("<== {}: {verdict} in {}", stage.name, seconds(began.elapsed()));
        ends.push((stage, end, began.elapsed()));
    }
    println!();
    for (stage, end, took) in &ends {
        match end {
            End::Passed => println!("{:<10} passed  {:>8}", stage.name, seconds(*took)),
            End::Failed => println!("{:<10} FAILED  {:>8}", stage.name, seconds(*took)),
            End::NotRun => println!("{:<10} not run", stage.name),
        }
    }
    println!("{:<10}         {:>8}", "together", seconds(start.elapsed()));
    ends.iter().all(|(_, end, _)| *end == End::Passed)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    static FIRST: Stage = Stage {
        name: "first",
        what: "",
        needs: &[],
        steps: |_| Vec::new(),
    };
    static SECOND: Stage = Stage {
        name: "second",
        what: "",
        needs: &[],
        steps: |_| vec![Step::Own("no", |_| false)],
    };
    static THIRD: Stage = Stage {
        name: "third",
        what: "",
        needs: &["first"],
        steps: |_| Vec::new(),
    };
    const ALL: &[&Stage] = &[&FIRST, &SECOND, &THIRD];

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_stage_alone_brings_what_it_needs() {
        let chosen = |line| {
            parse(line)?
                .choose(ALL)
                .map(|stages| stages.iter().map(|stage| stage.name).collect())
        };
        let expect = |names: &[&'static str]| Ok::<Vec<&str>, String>(names.to_vec());
        assert_eq!(chosen(""), expect(&["first", "second", "third"]));
        assert_eq!(chosen("--only third"), expect(&["first", "third"]));
        assert_eq!(chosen("--only=second --keep-going"), expect(&["second"]));
        assert_eq!(
            chosen("--only fourth"),
            Err("there is no stage fourth; there are first, second, third".into())
        );
        assert_eq!(chosen("--only"), Err("--only needs the name of a stage".into()));
        assert_eq!(chosen("--keepgoing"), Err("unknown option --keepgoing".into()));
    }

    #[test]
    fn a_failure_fails_the_run() {
        let tree = Tree::of(&[]);
        assert!(run(&tree, &[&FIRST, &THIRD], false));
        assert!(!run(&tree, ALL, false));
        assert!(!run(&tree, ALL, true));
    }

    #[test]
    fn commands_are_shown_as_one_would_type_them() {
        let program = Program::new("tests/run --only")
            .word("a b")
            .with("FLAGS", "-D warnings");
        assert_eq!(program.shown(), "FLAGS='-D warnings' tests/run --only 'a b'");
    }
}
