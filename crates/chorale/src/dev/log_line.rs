//! Lines of a node's log, as JSON, made short.

use serde_json::{Map, Value};

/// Letters of a line that are shown; the file has all of it.
const SHOWN_CHARS_MAX: usize = 400;

/// Fields that are shown otherwise, or not at all.
const HANDLED: &[&str] = &["timestamp", "level", "target", "message"];

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) level: Level,
    /// What happened, without its details: lines that say the same of different things have the same.
    pub(super) message: String,
    /// The details, `name=value`.
    pub(super) details: String,
}

/// How much attention a line deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warning,
    Error,
}

impl LogLine {
    /// Reads a line. What is not JSON (a panic, complaints about options) is an error's text as it is.
    pub(super) fn parse(line: &str) -> LogLine {
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => LogLine::of_fields(&fields),
            _ => LogLine {
                level: Level::Error,
                message: shortened(line),
                details: String::new(),
            },
        }
    }

    fn of_fields(fields: &Map<String, Value>) -> LogLine {
        let level = match fields.get("level").and_then(Value::as_str) {
            Some("ERROR") => Level::Error,
            Some("WARN") => Level::Warning,
            _ => Level::Info,
        };
        let details: Vec<String> = fields
            .iter()
            .filter(|(name, _)| !HANDLED.contains(&name.as_str()))
            .map(|(name, value)| format!("{name}={}", text_of(value)))
            .collect();
        LogLine {
            level,
            message: shortened(&fields.get("message").map(text_of).unwrap_or_default()),
            details: shortened(&details.join(" ")),
        }
    }
}

/// Texts without their quotes.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// As much as is shown, without anything that would move the cursor.
fn shortened(text: &str) -> String {
    let mut letters = text.chars();
    let mut short: String = letters
        .by_ref()
        .take(SHOWN_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if letters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_a_message_with_details() {
        let line = r#"{"timestamp":"2026-01-01T00:00:00Z","level":"WARN","message":"lost","node":3,"why":"reset","target":"node"}"#;
        let read = LogLine::parse(line);
        assert_eq!(
            (read.level, read.message.as_str(), read.details.as_str()),
            (Level::Warning, "lost", "node=3 why=reset")
        );
    }

    #[test]
    fn what_is_no_json_is_shown_as_it_is_but_cannot_steer_the_terminal() {
        let read = LogLine::parse("thread 'x' panicked \u{1b}[2J");
        assert_eq!(
            (read.level, read.message.as_str()),
            (Level::Error, "thread 'x' panicked  [2J")
        );
        assert!(LogLine::parse(&"x".repeat(10_000)).message.chars().count() <= SHOWN_CHARS_MAX + 1);
        assert_eq!(LogLine::parse("[1]").level, Level::Error);
    }
}
