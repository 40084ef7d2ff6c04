//! What the value of an option may look like.

use crate::advertise::Advertised;
use crate::bind::BindAddress;
use crate::cron::CronSchedule;
use crate::memory::{human_bytes, parse_memory};
use crate::output_limit::OutputLimits;
use crate::peer::PeerAddress;
use crate::value::OptionValue;

/// The type of an option with its bounds, inclusive on both sides.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A whole number, in the option's unit.
    Integer {
        /// The least allowed.
        min: i64,
        /// The greatest allowed.
        max: i64,
    },
    /// A size such as `100`, `64kb`, `512mb`, `2gb`.
    Memory {
        /// The least allowed, in bytes.
        min: u64,
        /// The greatest allowed, in bytes.
        max: u64,
    },
    /// A size, or a share of `maxmemory` such as `5%`.
    MemoryOrPercent,
    /// `yes` or `no`.
    Bool,
    /// One of these words, in any letter case.
    Choice {
        /// The words, lower case.
        words: &'static [&'static str],
    },
    /// Any text.
    Text {
        /// The greatest length allowed, in bytes.
        max_len: usize,
    },
    /// What something is called, or nothing: printable letters of ASCII without blanks and quotes, so that it is one word in every table,
    /// metric and line.
    Name {
        /// The greatest length allowed, in bytes.
        max_len: usize,
    },
    /// Addresses to listen on, separated by spaces: `127.0.0.1 -::1`, `* -::*`.
    Addresses,
    /// `HOST[:PORT]`, or nothing.
    Advertised,
    /// `HOST:PORT`, any number of times, separated by spaces, or nothing.
    Peers,
    /// `CLASS HARD SOFT SECONDS` for one or more of `normal`, `replica`, `pubsub`.
    OutputLimits,
    /// `SECONDS CHANGES`, any number of times, or nothing.
    SavePoints,
    /// The classes of keyspace events: any of the letters of `Ag$lshzxetdKEmn`.
    KeyspaceEvents,
    /// Numbers from 0 to 100, separated by spaces, or nothing.
    Percentiles,
    /// Where backups go: an absolute path, `s3://BUCKET/PREFIX`, or nothing.
    BackupTarget,
    /// The five fields of cron, or nothing.
    Schedule,
}

/// The letters that `A` stands for, in the order in which Redis shows them.
const EVENT_CLASSES: &str = "g$lshzxetd";

/// The letters outside `A`, in the order in which Redis shows them.
const EVENT_EXTRAS: &str = "nKEm";

impl OptionKind {
    /// Reads a value. `current` is what the option holds now: a partial value such as one class of output
    /// limits keeps the rest of it.
    ///
    /// The error is the reason in the words that Redis uses in its reply to `CONFIG SET`.
    pub fn parse(&self, text: &str, current: Option<&OptionValue>) -> Result<OptionValue, String> {
        match *self {
            OptionKind::Integer { min, max } => {
                // `i64::from_str` accepts a leading plus sign; Redis does not.
                let number = text
                    .parse::<i64>()
                    .ok()
                    .filter(|_| !text.starts_with('+'))
                    .ok_or("argument couldn't be parsed into an integer")?;
                if !(min..=max).contains(&number) {
                    return Err(format!("argument must be between {min} and {max} inclusive"));
                }
                Ok(OptionValue::Integer(number))
            }
            OptionKind::Memory { min, max } => {
                let bytes = parse_memory(text).ok_or("argument must be a memory value")?;
                if !(min..=max).contains(&bytes) {
                    return Err(format!("argument must be between {min} and {max} inclusive"));
                }
                Ok(OptionValue::Memory(bytes))
            }
            OptionKind::MemoryOrPercent => match text.strip_suffix('%') {
                Some(number) => match number.parse::<u64>() {
                    Ok(percent @ 0..=100) => Ok(OptionValue::Percent(percent as u8)),
                    Ok(_) => Err("percentage argument must be less or equal to 100".into()),
                    Err(_) => Err("argument must be a memory or percent value".into()),
                },
                None => parse_memory(text)
                    .map(OptionValue::Memory)
                    .ok_or_else(|| "argument must be a memory or percent value".into()),
            },
            OptionKind::Bool => match text.to_ascii_lowercase().as_str() {
                "yes" => Ok(OptionValue::Bool(true)),
                "no" => Ok(OptionValue::Bool(false)),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            OptionKind::Choice { words } => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text))
                .map(|word| OptionValue::Word(word))
                .ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", "))),
            OptionKind::Text { max_len } => {
                if text.len() > max_len {
                    return Err(format!("argument must be at most {max_len} bytes long"));
                }
                if text.contains(['\0', '\r', '\n']) {
                    return Err("argument must not contain NUL, CR or LF".into());
                }
                Ok(OptionValue::Text(text.into()))
            }
            OptionKind::Name { max_len } => {
                if text.len() > max_len {
                    return Err(format!("argument must be at most {max_len} bytes long"));
                }
                match text
                    .chars()
                    .all(|c| c.is_ascii_graphic() && !NOT_IN_NAMES.contains(c))
                {
                    true => Ok(OptionValue::Text(text.into())),
                    false => Err(
                        "argument must be one word of ASCII letters, digits and marks, without quotes".into(),
                    ),
                }
            }
            OptionKind::Addresses => match BindAddress::parse_list(text) {
                Some(_) => Ok(OptionValue::Text(
                    text.split_whitespace().collect::<Vec<_>>().join(" "),
                )),
                None => Err("argument must be a list of IP addresses".into()),
            },
            OptionKind::Advertised => match text.is_empty() || Advertised::parse(text).is_some() {
                true => Ok(OptionValue::Text(text.into())),
                false => Err("argument must be HOST or HOST:PORT".into()),
            },
            OptionKind::Peers => match PeerAddress::parse_list(text) {
                Some(list) => {
                    let words: Vec<String> = list.iter().map(ToString::to_string).collect();
                    Ok(OptionValue::Text(words.join(" ")))
                }
                None => Err("argument must be a list of HOST:PORT".into()),
            },
            OptionKind::OutputLimits => {
                let current = match current {
                    Some(OptionValue::OutputLimits(limits)) => *limits,
                    _ => OutputLimits::default(),
                };
                current.with(text).map(OptionValue::OutputLimits)
            }
            OptionKind::SavePoints => parse_save_points(text).ok_or_else(|| "Invalid save parameters".into()),
            OptionKind::KeyspaceEvents => parse_keyspace_events(text)
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
            OptionKind::Percentiles => parse_percentiles(text),
            OptionKind::BackupTarget => match is_backup_target(text) {
                true => Ok(OptionValue::Text(text.into())),
                false => Err("argument must be an absolute path or s3://BUCKET/PREFIX".into()),
            },
            OptionKind::Schedule if text.trim().is_empty() => Ok(OptionValue::Text(String::new())),
            OptionKind::Schedule => {
                CronSchedule::parse(text).map(|schedule| OptionValue::Text(schedule.to_string()))
            }
        }
    }

    /// What is allowed, as the end of a sentence.
    pub fn allowed(&self) -> String {
        match *self {
            OptionKind::Integer { min, max } if min == max => format!("only {min}"),
            OptionKind::Integer { min, max: i64::MAX } => format!("an integer from {min}"),
            OptionKind::Integer { min, max } => format!("an integer from {min} to {max}"),
            OptionKind::Memory { min: 0, .. } => "a size such as 100mb or 2gb".into(),
            OptionKind::Memory { min, .. } => format!("a size of at least {}", human_bytes(min)),
            OptionKind::MemoryOrPercent => "a size such as 100mb, or a percentage such as 5%".into(),
            OptionKind::Bool => "yes or no".into(),
            OptionKind::Choice { words } => match words {
                [""] => "nothing".into(),
                [only] => format!("only {only}"),
                [init @ .., last] => format!("{} or {last}", init.join(", ")),
                [] => unreachable!("a choice has words: a test checks every row"),
            },
            OptionKind::Text { max_len } => format!("text of at most {max_len} bytes"),
            OptionKind::Name { max_len } => {
                format!("one word of at most {max_len} ASCII letters, digits and marks, without quotes; or nothing")
            }
            OptionKind::Addresses => {
                "IP addresses separated by spaces; * and ::* for all, - before an optional one".into()
            }
            OptionKind::Advertised => {
                "HOST or HOST:PORT, where HOST is a name or an IP address, an IPv6 address in brackets if a port \
                 follows; or nothing"
                    .into()
            }
            OptionKind::Peers => {
                "HOST:PORT, at most 64 of them separated by spaces, an IPv6 address in brackets; or nothing".into()
            }
            OptionKind::OutputLimits => {
                "CLASS HARD SOFT SECONDS, once or more; CLASS is normal, replica or pubsub".into()
            }
            OptionKind::SavePoints => "pairs of SECONDS CHANGES, or nothing".into(),
            OptionKind::KeyspaceEvents => format!("letters of A{EVENT_CLASSES}{EVENT_EXTRAS}, or nothing"),
            OptionKind::Percentiles => "numbers from 0 to 100 separated by spaces, or nothing".into(),
            OptionKind::BackupTarget => {
                format!("an absolute path of at most {PATH_BYTES_MAX} bytes, s3://BUCKET/PREFIX, or nothing")
            }
            OptionKind::Schedule => "minute, hour, day of the month, month, day of the week as in cron, or nothing".into(),
        }
    }

    /// The name of the type, for the reference page.
    pub fn noun(&self) -> &'static str {
        match self {
            OptionKind::Integer { .. } => "integer",
            OptionKind::Memory { .. } => "size",
            OptionKind::MemoryOrPercent => "size or share",
            OptionKind::Bool => "yes/no",
            OptionKind::Choice { .. } => "word",
            OptionKind::Text { .. } => "text",
            OptionKind::Name { .. } => "name",
            OptionKind::Addresses => "addresses",
            OptionKind::Advertised => "address",
            OptionKind::Peers => "addresses",
            OptionKind::OutputLimits => "limits",
            OptionKind::SavePoints => "pairs",
            OptionKind::KeyspaceEvents => "letters",
            OptionKind::Percentiles => "numbers",
            OptionKind::BackupTarget => "place",
            OptionKind::Schedule => "schedule",
        }
    }
}

/// Marks that begin or end something where names are written.
const NOT_IN_NAMES: &str = "\"'`\\";

fn parse_save_points(text: &str) -> Option<OptionValue> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let numbers: Vec<u32> = words
        .iter()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    // Zero seconds would ask for a save without end; Redis refuses it too.
    let whole = numbers.len().is_multiple_of(2) && numbers.chunks(2).all(|pair| pair[0] > 0);
    whole.then(|| OptionValue::Text(words.join(" ")))
}

fn parse_keyspace_events(text: &str) -> Option<OptionValue> {
    if !text
        .chars()
        .all(|c| c == 'A' || EVENT_CLASSES.contains(c) || EVENT_EXTRAS.contains(c))
    {
        return None;
    }
    let has = |c: char| text.contains(c);
    let mut normal = String::new();
    if has('A') || EVENT_CLASSES.chars().all(has) {
        normal.push('A');
    } else {
        normal.extend(EVENT_CLASSES.chars().filter(|&c| has(c)));
    }
    // Redis leaves `n` out after `A`; then a value that was read and set again would lose it.
    normal.extend(EVENT_EXTRAS.chars().filter(|&c| has(c)));
    Some(OptionValue::Text(normal))
}

/// Bytes of the place of backups.
const PATH_BYTES_MAX: usize = 4_096;

fn is_backup_target(text: &str) -> bool {
    let bucket = text.strip_prefix("s3://");
    let is_place = text.is_empty()
        || text.starts_with('/')
        || bucket.is_some_and(|bucket| !bucket.is_empty() && !bucket.starts_with('/'));
    is_place && text.len() <= PATH_BYTES_MAX && !text.contains(['\0', '\r', '\n'])
}

/// Percentiles that one value may hold: each is a figure in a line for every command.
const PERCENTILES_MAX: usize = 32;

fn parse_percentiles(text: &str) -> Result<OptionValue, String> {
    let words = text.split_whitespace();
    let numbers: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
    let numbers = numbers
        .filter(|numbers| numbers.len() <= PERCENTILES_MAX)
        .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
    if !numbers.iter().all(|number| (0.0..=100.0).contains(number)) {
        return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
    }
    let words: Vec<String> = numbers.iter().map(f64::to_string).collect();
    Ok(OptionValue::Text(words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        let parse = |text: &str| OptionKind::Name { max_len: 8 }.parse(text, None);
        for name in ["", "a", "room-1", "eu/1.b:2", "A_B@c"] {
            assert_eq!(parse(name), Ok(OptionValue::Text(name.into())), "{name}");
        }
        for other in [
            "ninebytes",
            "a b",
            "a\tb",
            "a\0",
            "\"a\"",
            "it's",
            "a\\b",
            "zürich",
        ] {
            assert!(parse(other).is_err(), "{other}");
        }
    }

    #[test]
    fn values_are_shown_in_their_normal_form() {
        let words = &["allkeys-lru", "noeviction"];
        for (kind, text, shown) in [
            (OptionKind::Integer { min: -2, max: 9 }, "-2", "-2"),
            (
                OptionKind::Memory {
                    min: 0,
                    max: u64::MAX,
                },
                "2MB",
                "2097152",
            ),
            (OptionKind::MemoryOrPercent, "5%", "5%"),
            (OptionKind::MemoryOrPercent, "1kb", "1024"),
            (OptionKind::Bool, "YES", "yes"),
            (OptionKind::Choice { words }, "AllKeys-LRU", "allkeys-lru"),
            (OptionKind::Addresses, " 127.0.0.1   -::1 ", "127.0.0.1 -::1"),
            (
                OptionKind::Peers,
                " a:7389  [::1]:7389 10.0.0.1:1 ",
                "a:7389 [::1]:7389 10.0.0.1:1",
            ),
            (OptionKind::Peers, "", ""),
            (OptionKind::SavePoints, "3600 1  300 100", "3600 1 300 100"),
            (OptionKind::SavePoints, "", ""),
            (OptionKind::KeyspaceEvents, "KEg", "gKE"),
            (OptionKind::KeyspaceEvents, "KA", "AK"),
            (OptionKind::KeyspaceEvents, "mnKE", "nKEm"),
            (OptionKind::KeyspaceEvents, "nKA", "AnK"),
            (OptionKind::KeyspaceEvents, "Eg$lshzxetd", "AE"),
            (OptionKind::KeyspaceEvents, "", ""),
            (OptionKind::Percentiles, "10.0 0  100.0 99.90", "10 0 100 99.9"),
            (OptionKind::Percentiles, "", ""),
            (OptionKind::BackupTarget, "/mnt/b", "/mnt/b"),
            (OptionKind::BackupTarget, "s3://b/p", "s3://b/p"),
            (OptionKind::BackupTarget, "", ""),
            (OptionKind::Schedule, " 0  3 * * MON ", "0 3 * * MON"),
            (OptionKind::Schedule, " ", ""),
        ] {
            assert_eq!(
                kind.parse(text, None).map(|value| value.render()).as_deref(),
                Ok(shown),
                "{text:?}"
            );
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused_in_the_words_of_redis() {
        let words = &["a", "b"];
        for (kind, text, reason) in [
            (
                OptionKind::Integer { min: 0, max: 9 },
                "x",
                "argument couldn't be parsed into an integer",
            ),
            (
                OptionKind::Integer { min: 0, max: 9 },
                "+1",
                "argument couldn't be parsed into an integer",
            ),
            (
                OptionKind::Integer { min: 0, max: 9 },
                "10",
                "argument must be between 0 and 9 inclusive",
            ),
            (
                OptionKind::Memory { min: 0, max: 9 },
                "1x",
                "argument must be a memory value",
            ),
            (
                OptionKind::Memory { min: 0, max: 9 },
                "10",
                "argument must be between 0 and 9 inclusive",
            ),
            (
                OptionKind::MemoryOrPercent,
                "200%",
                "percentage argument must be less or equal to 100",
            ),
            (
                OptionKind::MemoryOrPercent,
                "x%",
                "argument must be a memory or percent value",
            ),
            (OptionKind::Bool, "1", "argument must be 'yes' or 'no'"),
            (
                OptionKind::Choice { words },
                "c",
                "argument(s) must be one of the following: a, b",
            ),
            (OptionKind::SavePoints, "60", "Invalid save parameters"),
            (OptionKind::SavePoints, "0 1", "Invalid save parameters"),
            (
                OptionKind::Percentiles,
                "50 x",
                "Invalid latency-tracking-info-percentiles parameters",
            ),
            (
                OptionKind::Percentiles,
                "100.5",
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ),
            (OptionKind::SavePoints, "60 -1", "Invalid save parameters"),
            (
                OptionKind::BackupTarget,
                "backups",
                "argument must be an absolute path or s3://BUCKET/PREFIX",
            ),
            (
                OptionKind::BackupTarget,
                "s3://",
                "argument must be an absolute path or s3://BUCKET/PREFIX",
            ),
            (OptionKind::Schedule, "0 0 30 2 *", "there is no such day"),
            (
                OptionKind::KeyspaceEvents,
                "q",
                "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
            ),
        ] {
            assert_eq!(kind.parse(text, None), Err(reason.to_owned()), "{text:?}");
        }
    }
}
