//! `SCAN`, and what it shares with `HSCAN`, `SSCAN` and `ZSCAN`: cursors and options.

use crate::glob::Glob;
use crate::spec::{CommandRoute, Flags, Spec};
use crate::{Command, ReplyError, number};
use resp::Args;

/// The options of `SCAN` and its kin.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions<'a> {
    /// `MATCH`
    pub pattern: Option<&'a [u8]>,
    /// `COUNT`, at least 1, default 10.
    pub count: u64,
    /// `TYPE`, as given: of `SCAN` alone.
    pub kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// What `MATCH` lets through.
    pub fn filter(&self) -> Filter {
        Filter(self.pattern.map(Glob::new))
    }

    fn parse(argv: Args<'a>, knows_type: bool) -> Result<ScanOptions<'a>, ReplyError> {
        let mut options = ScanOptions {
            pattern: None,
            count: 10,
            kind: None,
        };
        let mut at = 0;
        while let Some(word) = argv.get(at) {
            let value = argv.get(at + 1).ok_or(ReplyError::Syntax)?;
            if word.eq_ignore_ascii_case(b"count") {
                let count = u64::try_from(number::integer(value)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(ReplyError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"match") {
                options.pattern = Some(value);
            } else if knows_type && word.eq_ignore_ascii_case(b"type") {
                options.kind = Some(value);
            } else {
                return Err(ReplyError::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }
}

/// What `MATCH` lets through.
#[derive(Debug)]
pub struct Filter(Option<Glob>);

impl Filter {
    /// Whether it lets this key, field or member through.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|glob| glob.matches(text))
    }
}

/// The cursor and the options of `HSCAN`, `SSCAN` or `ZSCAN`.
pub(crate) fn parse_within_key(args: Args<'_>) -> Result<(u64, ScanOptions<'_>), ReplyError> {
    Ok((cursor(args.arg(2))?, ScanOptions::parse(args.from(3), false)?))
}

pub(crate) const SCAN: Spec = Spec::new("scan", -2)
    .flags(Flags::READONLY)
    .tips("nondeterministic_output request_policy:special")
    .route(CommandRoute::Scan)
    .parse(|args| {
        Ok(Command::Scan {
            cursor: cursor(args.arg(1))?,
            options: ScanOptions::parse(args.from(2), true)?,
        })
    });

/// Reads a cursor of `SCAN` as C's `strtoul` does, which clients may rely on: an empty one is 0, and a sign is allowed.
pub fn cursor(word: &[u8]) -> Result<u64, ReplyError> {
    let (negative, digits) = match word {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(ReplyError::InvalidCursor);
    }
    let value = digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            None
        } else {
            value.checked_mul(10)?.checked_add(u64::from(digit))
        }
    });
    let value = value.ok_or(ReplyError::InvalidCursor)?;
    Ok(if negative { value.wrapping_neg() } else { value })
}
