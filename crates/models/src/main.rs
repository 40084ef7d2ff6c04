//! Explores everything and prints a table: `cargo run --release -p models`, with `wide` for the widest bounds too, and with a
//! word for what has it in its name, with the way to what is broken.

use models::catalogue::cases;
use models::explore::End;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_wide = words.iter().any(|word| word == "wide");
    let wanted = words.iter().find(|word| *word != "wide");
    let mut is_well = true;
    println!("| model | scene | left out | found | states |");
    println!("| --- | --- | --- | --- | --- |");
    for case in cases() {
        let mistake = case.mistake.as_deref().unwrap_or("");
        let name = format!("{} {} {mistake}", case.model, case.scene);
        if (case.is_wide && !is_wide) || wanted.is_some_and(|word| !name.contains(word.as_str())) {
            continue;
        }
        let report = case.explore();
        let (found, way) = match &report.end {
            End::Holds => ("holds".to_owned(), None),
            End::Broken(what, way) => ((*what).to_owned(), Some(way)),
            End::Stuck(way) => ("no way back".to_owned(), Some(way)),
            End::Vacuous(missing) => (format!("NEVER SEEN: {}", missing.join(", ")), None),
            End::TooMany => ("TOO MANY STATES".to_owned(), None),
        };
        let unexpected = if case.is_as_expected(&report) {
            ""
        } else {
            " (UNEXPECTED)"
        };
        is_well &= unexpected.is_empty();
        let states = report.states;
        println!(
            "| `{}` | {} | {mistake} | {found}{unexpected} | {states} |",
            case.model, case.scene
        );
        if let Some(way) = way.filter(|_| wanted.is_some()) {
            for step in way {
                println!("    {step}");
            }
        }
    }
    match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
