//! `cargo run -p sim`: simulations by the hundred.

mod cli;
mod progress;

use cli::{Scale, Seeds};
use progress::Progress;
use sim::Failure;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

fn main() -> ExitCode {
    let plan = match cli::plan(std::env::args_os()) {
        Ok(plan) => plan,
        Err(error) => error.exit(),
    };
    if let Some(scale) = &plan.scale {
        return measure(scale);
    }
    let (first, last) = match plan.seeds {
        Seeds::One(seed) => (seed, seed),
        Seeds::Many { first, count } => (first, first.saturating_add(count - 1)),
    };
    let started = Instant::now();
    let progress = Progress::new(last - first + 1);
    let next = AtomicU64::new(first);
    let is_over = AtomicBool::new(false);
    let failure: Mutex<Option<Box<Failure>>> = Mutex::new(None);
    let run = || {
        while !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_late = plan.time.is_some_and(|time| started.elapsed() >= time);
            if seed > last || is_late {
                break;
            }
            match sim::run(seed, &plan.options) {
                Ok(summary) => progress.done(&summary),
                Err(found) => {
                    is_over.store(true, Ordering::Relaxed);
                    let mut failure = failure.lock().expect("nobody panics while he holds it");
                    // Of two that are found at once the first seed is shown.
                    if failure.as_ref().is_none_or(|known| found.seed < known.seed) {
                        *failure = Some(found);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..plan.threads {
            scope.spawn(run);
        }
        run();
    });
    progress.finish();
    let failure = failure.into_inner().expect("nobody panics while he holds it");
    let Some(failure) = failure else {
        println!("{}", progress.summary(started.elapsed()));
        if let Some(mutation) = plan.options.mutation {
            println!("{mutation:?} was planted, and nobody noticed");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    };
    println!("{failure}");
    println!("commit: {}", commit());
    if let Some(path) = &plan.history {
        match std::fs::write(path, &failure.history) {
            Ok(()) => println!("history: {}", path.display()),
            Err(error) => println!("the history could not be written to {}: {error}", path.display()),
        }
    }
    match plan.options.mutation {
        // It was to be caught.
        Some(mutation) => {
            println!("{mutation:?} was caught");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

/// Simulates clusters of several sizes, and prints what it cost them.
fn measure(scale: &Scale) -> ExitCode {
    let started = Instant::now();
    let report = sim::scale(&scale.sizes, scale.groups, |size| {
        eprintln!("{} nodes: {:.0} s", size.nodes, started.elapsed().as_secs_f64());
    });
    println!("founded with {} groups, commit {}\n", report.groups, commit());
    print!("{}", report.markdown());
    let Some(path) = &scale.json else {
        return ExitCode::SUCCESS;
    };
    match std::fs::write(path, report.json()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} could not be written: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// The commit that the failure belongs to, if git knows.
fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
