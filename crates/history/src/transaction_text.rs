//! Histories of transactions as text: one line each, in the order of their calls.
//!
//! ```text
//!   process invoked returned outcome action; action...
//!   3 1200 1450 committed append x 7; read y [1,2]
//!   4 1210 - unknown append x 8; read y ?
//!   3 1500 1600 aborted append x 9
//! ```
//!
//! What an action looks like, its own file says. Keys are written as in histories of operations, a `;` as `%3b`. Empty
//! lines and lines that begin with `#` say nothing.

use crate::operation::Process;
use crate::text::{self, TextError};
use crate::transaction::{Outcome, Transaction, Transactions};
use std::fmt;
use std::str::FromStr;

/// A transaction's action can be written down and read back.
pub trait ActionText: fmt::Display + Sized {
    /// Reads what `Display` writes, or says what was expected.
    fn from_words(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Self, &'static str>;
}

impl<A: fmt::Display> fmt::Display for Transactions<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|transaction| writeln!(f, "{transaction}"))
    }
}

impl<A: fmt::Display> fmt::Display for Transaction<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.process.0, self.invoked)?;
        match self.returned {
            Some(returned) => write!(f, "{returned} ")?,
            None => f.write_str("- ")?,
        }
        f.write_str(match self.outcome {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Unknown => "unknown",
        })?;
        for (index, action) in self.actions.iter().enumerate() {
            let separator = if index > 0 { ";" } else { "" };
            write!(f, "{separator} {action}")?;
        }
        Ok(())
    }
}

impl<A: ActionText> FromStr for Transactions<A> {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Transactions<A>, TextError> {
        let mut transactions = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let transaction = parse_line(line).map_err(|expected| TextError {
                line: index + 1,
                expected,
            })?;
            transactions.push(transaction);
        }
        Ok(Transactions::new(transactions))
    }
}

fn parse_line<A: ActionText>(line: &str) -> Result<Transaction<A>, &'static str> {
    let mut parts = line.split(';');
    let mut words = parts.next().unwrap_or_default().split_ascii_whitespace();
    let process = text::number(&mut words, "the number of a process")?;
    let invoked = text::number(&mut words, "the time of the call")?;
    let returned = match words.next() {
        Some("-") => None,
        Some(word) => Some(word.parse().map_err(|_| "the time of the answer")?),
        None => return Err("the time of the answer"),
    };
    if returned.is_some_and(|returned: u64| returned < invoked) {
        return Err("an answer that is not before the call");
    }
    let outcome = match words.next() {
        Some("committed") => Outcome::Committed,
        Some("aborted") => Outcome::Aborted,
        Some("unknown") => Outcome::Unknown,
        _ => return Err("`committed`, `aborted` or `unknown`"),
    };
    let mut actions = Vec::new();
    let mut parts = parts.peekable();
    if words.clone().next().is_some() || parts.peek().is_some() {
        actions.push(A::from_words(&mut words)?);
    }
    let mut rest = words;
    for part in parts {
        if rest.next().is_some() {
            return Err("`;` or the end of the line");
        }
        rest = part.split_ascii_whitespace();
        actions.push(A::from_words(&mut rest)?);
    }
    if rest.next().is_some() {
        return Err("`;` or the end of the line");
    }
    Ok(Transaction {
        process: Process(process),
        invoked,
        returned,
        outcome,
        actions,
    })
}

/// Reads a key.
pub(crate) fn key(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<String, &'static str> {
    words.next().and_then(text::parse_key).ok_or("a key")
}

/// Reads a number, or the word for that it is not known or not there.
pub(crate) fn maybe<N: FromStr>(
    words: &mut std::str::SplitAsciiWhitespace<'_>,
    nothing: &str,
    expected: &'static str,
) -> Result<Option<N>, &'static str> {
    match words.next() {
        Some(word) if word == nothing => Ok(None),
        Some(word) => word.parse().map(Some).map_err(|_| expected),
        None => Err(expected),
    }
}

/// Reads `[1,2]`, or `?`.
pub(crate) fn elements(
    words: &mut std::str::SplitAsciiWhitespace<'_>,
) -> Result<Option<Vec<i64>>, &'static str> {
    let expected = "elements in brackets, or `?`";
    match words.next().ok_or(expected)? {
        "?" => Ok(None),
        word => text::parse_elements(word).map(Some).ok_or(expected),
    }
}

/// Writes what [`elements`] reads.
pub(crate) fn write_elements(f: &mut fmt::Formatter<'_>, elements: Option<&[i64]>) -> fmt::Result {
    match elements {
        Some(elements) => text::write_elements(f, elements),
        None => f.write_str("?"),
    }
}

/// A key as it is written.
pub(crate) struct Key<'a>(pub(crate) &'a str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_key(f, self.0)
    }
}
