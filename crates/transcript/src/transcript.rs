//! One file: what stands where, so that answers can be compared, and replaced without touching anything else.

use crate::command::Command;
use crate::diff;
use std::fmt;
use std::ops::Range;

/// What stands between a command and its answer.
const RULE: &str = "----";

/// A transcript as it was read.
#[derive(Debug)]
pub struct Transcript {
    lines: Vec<String>,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    command: Command,
    /// The lines of the answer, from 0.
    answer: Range<usize>,
}

/// What is wrong with a file, or with a command in it: nothing that an answer could mend.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// An answer that is not the one in the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The line of the command, from 1.
    pub line: usize,
    /// The command as it stands there.
    pub command: String,
    /// What differs, line by line: ` ` in both, `-` in the file only, `+` in the answer only.
    pub diff: String,
}

/// What became of a transcript.
#[derive(Debug)]
pub struct Played {
    /// Where it went otherwise.
    pub mismatches: Vec<Mismatch>,
    /// The file with the answers that were given.
    pub text: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: `{}` is answered otherwise\n{}",
            self.line, self.command, self.diff
        )
    }
}

impl Transcript {
    /// Finds the sections of a file.
    ///
    /// # Errors
    ///
    /// If it does not begin with a paragraph of comment, holds no command, or a command and its rule do not stand together.
    pub fn read(text: &str) -> Result<Transcript, Malformed> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let malformed = |at: usize, what: &str| Malformed {
            line: at + 1,
            what: what.into(),
        };
        if !lines.first().is_some_and(|line| line.starts_with('#')) {
            return Err(malformed(
                0,
                "a transcript begins with a `#` paragraph: what it shows, and why",
            ));
        }
        let mut sections = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let line = &lines[at];
            if line.starts_with('#') || line.trim().is_empty() {
                at += 1;
                continue;
            }
            if line == RULE {
                return Err(malformed(at, "`----` without a command above it"));
            }
            let command = Command::read(at + 1, line).map_err(|what| malformed(at, &what))?;
            if lines.get(at + 1).is_none_or(|below| below != RULE) {
                return Err(malformed(at, "a command without `----` below it"));
            }
            let start = at + 2;
            let length = lines[start..]
                .iter()
                .take_while(|line| !line.trim().is_empty())
                .count();
            let answer = start..start + length;
            if let Some(rule) = lines[answer.clone()].iter().position(|line| line == RULE) {
                // Most likely the blank line before the next command was forgotten.
                return Err(malformed(
                    start + rule,
                    "`----` within an answer: a blank line ends one",
                ));
            }
            at = answer.end;
            sections.push(Section { command, answer });
        }
        if sections.is_empty() {
            return Err(malformed(lines.len() - 1, "a transcript without a command"));
        }
        Ok(Transcript { lines, sections })
    }

    /// Plays all commands in order. Those behind a mismatch are played too.
    ///
    /// # Errors
    ///
    /// If the interpreter refuses a command, leaves a word of it unread, or answers with a blank line.
    pub fn play(
        &self,
        mut interpreter: impl FnMut(&Command) -> Result<String, String>,
    ) -> Result<Played, Malformed> {
        let mut mismatches = Vec::new();
        let mut text = Vec::new();
        let mut copied = 0;
        for Section { command, answer } in &self.sections {
            let malformed = |what: String| Malformed {
                line: command.line(),
                what,
            };
            let given = interpreter(command).map_err(malformed)?;
            if let Some(word) = command.unread() {
                return Err(malformed(format!("`{}` has no use for `{word}`", command.name())));
            }
            let given: Vec<&str> = given.lines().map(str::trim_end).collect();
            if given.iter().any(|line| line.is_empty() || *line == RULE) {
                return Err(malformed(
                    "an answer holds neither a blank line nor `----`".into(),
                ));
            }
            let expected: Vec<&str> = self.lines[answer.clone()].iter().map(String::as_str).collect();
            if expected != given {
                mismatches.push(Mismatch {
                    line: command.line(),
                    command: command.to_string(),
                    diff: diff::between(&expected, &given),
                });
            }
            text.extend(
                self.lines[copied..answer.start]
                    .iter()
                    .map(String::as_str)
                    .map(str::to_owned),
            );
            text.extend(given.into_iter().map(str::to_owned));
            copied = answer.end;
        }
        text.extend_from_slice(&self.lines[copied..]);
        let text = text.join("\n") + "\n";
        Ok(Played { mismatches, text })
    }
}
