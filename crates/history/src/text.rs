//! Histories as text: one line an operation, in the order of their calls.
//!
//! ```text
//!   process key invoked returned call... = answer...
//!   3 r1 1200 1450 set 7 = done
//!   4 r1 1210 - cas 7 8 = unknown
//!   3 l1 1500 1600 list = [1,2,3]
//! ```
//!
//! Bytes of a key that are not plain letters, digits or punctuation, and `%` and `;`, are written `%xx`. Empty lines and lines
//! that begin with `#` say nothing.

use crate::history::History;
use crate::operation::{Answer, Call, Operation, Process};
use std::fmt;

/// A line that is not an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Which one, from 1.
    pub line: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.expected)
    }
}

impl std::error::Error for TextError {}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operations()
            .iter()
            .try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.process.0)?;
        write_key(f, &self.key)?;
        write!(f, " {} ", self.invoked)?;
        match self.returned {
            Some(returned) => write!(f, "{returned} ")?,
            None => f.write_str("- ")?,
        }
        write!(f, "{} = {}", self.call, self.answer)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Get => f.write_str("get"),
            Call::Set(value) => write!(f, "set {value}"),
            Call::Swap(value) => write!(f, "swap {value}"),
            Call::Cas(from, to) => write!(f, "cas {from} {to}"),
            Call::Count => f.write_str("count"),
            Call::Add(by) => write!(f, "add {by}"),
            Call::Append(element) => write!(f, "append {element}"),
            Call::List => f.write_str("list"),
            Call::Push(element) => write!(f, "push {element}"),
            Call::Pop => f.write_str("pop"),
            Call::Insert(member) => write!(f, "insert {member}"),
            Call::Remove(member) => write!(f, "remove {member}"),
            Call::Has(member) => write!(f, "has {member}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Unknown => f.write_str("unknown"),
            Answer::Refused => f.write_str("refused"),
            Answer::Done => f.write_str("done"),
            Answer::Value(None) => f.write_str("nil"),
            Answer::Value(Some(value)) => write!(f, "{value}"),
            Answer::Held(true) => f.write_str("yes"),
            Answer::Held(false) => f.write_str("no"),
            Answer::Elements(elements) => write_elements(f, elements),
        }
    }
}

pub(crate) fn write_elements(f: &mut fmt::Formatter<'_>, elements: &[i64]) -> fmt::Result {
    f.write_str("[")?;
    for (index, element) in elements.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(f, "{comma}{element}")?;
    }
    f.write_str("]")
}

pub(crate) fn write_key(f: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    for byte in key.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'%' | b';') {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02x}")?;
        }
    }
    if key.is_empty() { f.write_str("%") } else { Ok(()) }
}

impl std::str::FromStr for History {
    type Err = TextError;

    fn from_str(text: &str) -> Result<History, TextError> {
        let mut operations = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let operation = parse_line(line).map_err(|expected| TextError {
                line: line_number,
                expected,
            })?;
            operations.push(operation);
        }
        Ok(History::new(operations))
    }
}

type Words<'a> = std::str::SplitAsciiWhitespace<'a>;

fn parse_line(line: &str) -> Result<Operation, &'static str> {
    let mut words = line.split_ascii_whitespace();
    let process = number(&mut words, "the number of a process")?;
    let key = parse_key(words.next().ok_or("a key")?).ok_or("a key")?;
    let invoked = number(&mut words, "the time of the call")?;
    let returned = match words.next() {
        Some("-") => None,
        Some(word) => Some(word.parse().map_err(|_| "the time of the answer")?),
        None => return Err("the time of the answer"),
    };
    let call = parse_call(&mut words)?;
    if words.next() != Some("=") {
        return Err("`=`");
    }
    let answer = parse_answer(words.next().ok_or("an answer")?).ok_or("an answer")?;
    if words.next().is_some() {
        return Err("the end of the line");
    }
    Ok(Operation {
        process: Process(process),
        key,
        invoked,
        returned,
        call,
        answer,
    })
}

pub(crate) fn number<N: std::str::FromStr>(
    words: &mut Words<'_>,
    expected: &'static str,
) -> Result<N, &'static str> {
    words.next().and_then(|word| word.parse().ok()).ok_or(expected)
}

fn parse_call(words: &mut Words<'_>) -> Result<Call, &'static str> {
    let name = words.next().ok_or("a call")?;
    let mut value = || number(words, "a number");
    Ok(match name {
        "get" => Call::Get,
        "set" => Call::Set(value()?),
        "swap" => Call::Swap(value()?),
        "cas" => Call::Cas(value()?, value()?),
        "count" => Call::Count,
        "add" => Call::Add(value()?),
        "append" => Call::Append(value()?),
        "list" => Call::List,
        "push" => Call::Push(value()?),
        "pop" => Call::Pop,
        "insert" => Call::Insert(value()?),
        "remove" => Call::Remove(value()?),
        "has" => Call::Has(value()?),
        _ => return Err("a call"),
    })
}

fn parse_answer(word: &str) -> Option<Answer> {
    Some(match word {
        "unknown" => Answer::Unknown,
        "refused" => Answer::Refused,
        "done" => Answer::Done,
        "nil" => Answer::Value(None),
        "yes" => Answer::Held(true),
        "no" => Answer::Held(false),
        _ if word.starts_with('[') => Answer::Elements(parse_elements(word)?),
        _ => Answer::Value(Some(word.parse().ok()?)),
    })
}

pub(crate) fn parse_elements(word: &str) -> Option<Vec<i64>> {
    let inner = word.strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|element| element.parse().ok()).collect()
}

pub(crate) fn parse_key(word: &str) -> Option<String> {
    if word == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
