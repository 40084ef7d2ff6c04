//! Tests as data: transcripts that a newcomer reads as documentation, and that a machine has to play as they stand.
//!
//! ```text
//!   # What the transcript shows, and why it is so.     a paragraph for the reader
//!
//!   # The second replica looks first.                  more of it, anywhere between sections
//!   tick 2 ms=300                                      a command: its name, words, key=value
//!   ----
//!   2 is a candidate in term 1                         what the machine answers, up to a blank line
//! ```
//!
//! A test hands [`play_folder`] a folder and an *interpreter* for each file: a closure that carries a [`Command`] out on
//! the machine of its crate and answers in the words of the field. With `CHORALE_REWRITE=1` in the environment what was
//! answered is written into the files instead, and everything else in them stays as it is: the change of a transcript is then
//! read in the diff of the commit, like any other change.
//!
//! What is absent: a language. There are no variables, no loops and no conditions; a transcript that wants one is two transcripts,
//! or a test in Rust. An answer holds no blank line, because a blank line ends it.
//!
//! Only tests use this crate.

mod command;
mod diff;
mod transcript;

pub use command::Command;
pub use transcript::{Malformed, Mismatch, Played, Transcript};

use std::fmt::Write;
use std::path::Path;

/// The variable that has the files written anew.
pub const REWRITE: &str = "CHORALE_REWRITE";

/// Plays every `.txt` file of a folder, each to an interpreter of its own, in the order of their names. An interpreter
/// answers what a command does; an error says that the command itself is wrong, and ends the transcript.
///
/// # Panics
///
/// If a file is malformed, a command is wrong, or an answer is another one than the file says. The message has the file,
/// the line, and what differs, of all files.
pub fn play_folder<I>(folder: impl AsRef<Path>, begin: impl FnMut() -> I)
where
    I: FnMut(&Command) -> Result<String, String>,
{
    let is_rewriting = std::env::var_os(REWRITE).is_some_and(|value| value == "1");
    let played = play_files(folder.as_ref(), is_rewriting, begin);
    if let Err(report) = played {
        panic!("\n{report}");
    }
}

/// [`play_folder`] with the choice as an argument. An error is the report.
///
/// # Errors
///
/// What [`play_folder`] panics for, and files that cannot be read or written.
pub fn play_files<I>(folder: &Path, is_rewriting: bool, mut begin: impl FnMut() -> I) -> Result<(), String>
where
    I: FnMut(&Command) -> Result<String, String>,
{
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in listed {
        let path = entry
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(format!("{}: there is no transcript", folder.display()));
    }
    // The order of a directory is that of the file system.
    paths.sort();
    let mut report = String::new();
    let mut can_be_rewritten = false;
    for path in paths {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let played = Transcript::read(&text).and_then(|transcript| {
            let mut interpreter = begin();
            transcript.play(|command| {
                let _place = Place { name: &name, command };
                interpreter(command)
            })
        });
        match played {
            Err(Malformed { line, what }) => {
                let _ = writeln!(report, "{name}:{line}: {what}");
            }
            Ok(played) if is_rewriting => {
                if played.text != text {
                    std::fs::write(&path, played.text).map_err(|error| format!("{name}: {error}"))?;
                }
            }
            Ok(played) => {
                for mismatch in played.mismatches {
                    can_be_rewritten = true;
                    let _ = writeln!(report, "{name}:{mismatch}");
                }
            }
        }
    }
    if can_be_rewritten {
        let _ = writeln!(
            report,
            "If what it answers now is right, {REWRITE}=1 writes it into the files; read the diff before you commit it."
        );
    }
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// Whether one transcript goes as it is written: for tests that plant a mistake in a machine and want its transcript to notice. A panic
/// of the machine is noticed too.
///
/// # Panics
///
/// If the file cannot be read.
pub fn goes_as_written(
    path: impl AsRef<Path>,
    interpreter: impl FnMut(&Command) -> Result<String, String>,
) -> bool {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // What a panic leaves half done is dropped with the interpreter.
    let play = std::panic::AssertUnwindSafe(|| {
        Transcript::read(&text).and_then(|transcript| transcript.play(interpreter))
    });
    std::panic::catch_unwind(play).is_ok_and(|played| played.is_ok_and(|played| played.mismatches.is_empty()))
}

/// Says where a transcript was when the machine panicked: an assertion of its own knows no file.
struct Place<'a> {
    name: &'a str,
    command: &'a Command,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}:{}: the machine panicked at `{}`",
                self.name,
                self.command.line(),
                self.command
            );
        }
    }
}
