//! The operations of `BITFIELD` and `BITFIELD_RO`.

use crate::bitmap::BIT_OFFSET_MAX;
use crate::{ReplyError, number};
use resp::Args;

/// One operation on a field of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitFieldOperation {
    /// What to do with the field.
    pub action: BitFieldAction,
    /// Whether the field is in two's complement.
    pub signed: bool,
    /// Width: `1..=64` if signed, `1..=63` if not.
    pub bits: u32,
    /// Position of the field's first bit.
    pub offset: u64,
    /// What happens to results that the field cannot hold.
    pub overflow: BitFieldOverflow,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitFieldAction {
    /// Answers the field.
    Get,
    /// Stores a value and answers the one before.
    Set(i64),
    /// Adds, and answers the sum.
    IncrBy(i64),
}

/// What happens to a result that its field cannot hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BitFieldOverflow {
    /// Modulo the field's size.
    #[default]
    Wrap,
    /// The nearest value that fits.
    Saturate,
    /// Nothing is stored, and the answer is nil.
    Fail,
}

/// The operations in the words of [`crate::Command::BitField`].
///
/// # Panics
/// If the words were not checked by the parser.
pub fn bitfield_operations(operations: Args<'_>) -> impl Iterator<Item = BitFieldOperation> + '_ {
    Operations {
        argv: operations,
        at: 0,
        overflow: BitFieldOverflow::default(),
    }
    .map(|operation| operation.expect("the parser has read the same words before"))
}

/// Checks the words after the key: whether any of them writes.
pub(crate) fn check(argv: Args<'_>) -> Result<bool, ReplyError> {
    let mut writes = false;
    for operation in (Operations {
        argv,
        at: 0,
        overflow: BitFieldOverflow::default(),
    }) {
        writes |= operation?.action != BitFieldAction::Get;
    }
    Ok(writes)
}

/// Whether a `BITFIELD` command, which need not be valid, is anything but `GET`s.
pub(crate) fn mentions_writes(args: Args<'_>) -> bool {
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.arg(at).eq_ignore_ascii_case(b"get") && left >= 2 {
            at += 3;
        } else if args.arg(at).eq_ignore_ascii_case(b"overflow") && left >= 1 {
            at += 2;
        } else {
            return true;
        }
    }
    false
}

/// Reads operation after operation; `OVERFLOW` holds for those that follow it.
struct Operations<'a> {
    argv: Args<'a>,
    at: usize,
    overflow: BitFieldOverflow,
}

impl Operations<'_> {
    fn read(&mut self) -> Result<Option<BitFieldOperation>, ReplyError> {
        loop {
            let Some(verb) = self.argv.get(self.at) else {
                return Ok(None);
            };
            let left = self.argv.len() - self.at - 1;
            let is = |name: &[u8], words| verb.eq_ignore_ascii_case(name) && left >= words;
            let length = if is(b"get", 2) {
                3
            } else if is(b"set", 3) || is(b"incrby", 3) {
                4
            } else if is(b"overflow", 1) {
                self.overflow = overflow(self.argv.arg(self.at + 1))?;
                self.at += 2;
                continue;
            } else {
                return Err(ReplyError::Syntax);
            };
            let (signed, bits) = field_type(self.argv.arg(self.at + 1))?;
            let offset = offset(self.argv.arg(self.at + 2), bits)?;
            let action = if length == 3 {
                BitFieldAction::Get
            } else {
                let value = number::integer(self.argv.arg(self.at + 3))?;
                if is(b"set", 3) {
                    BitFieldAction::Set(value)
                } else {
                    BitFieldAction::IncrBy(value)
                }
            };
            self.at += length;
            return Ok(Some(BitFieldOperation {
                action,
                signed,
                bits,
                offset,
                overflow: self.overflow,
            }));
        }
    }
}

impl Iterator for Operations<'_> {
    type Item = Result<BitFieldOperation, ReplyError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn overflow(word: &[u8]) -> Result<BitFieldOverflow, ReplyError> {
    if word.eq_ignore_ascii_case(b"wrap") {
        Ok(BitFieldOverflow::Wrap)
    } else if word.eq_ignore_ascii_case(b"sat") {
        Ok(BitFieldOverflow::Saturate)
    } else if word.eq_ignore_ascii_case(b"fail") {
        Ok(BitFieldOverflow::Fail)
    } else {
        Err(ReplyError::BitFieldOverflow)
    }
}

/// `i16`, `u8` and so on; the letter's case matters.
fn field_type(word: &[u8]) -> Result<(bool, u32), ReplyError> {
    let (signed, width_max, width) = match word {
        [b'i', width @ ..] => (true, 64, width),
        [b'u', width @ ..] => (false, 63, width),
        _ => return Err(ReplyError::BitFieldType),
    };
    match number::parse_i64(width) {
        Some(bits) if (1..=width_max).contains(&bits) => Ok((signed, bits as u32)),
        _ => Err(ReplyError::BitFieldType),
    }
}

/// A bit's position, or with `#` a field's.
fn offset(word: &[u8], bits: u32) -> Result<u64, ReplyError> {
    let (unit, digits) = match word {
        [b'#', digits @ ..] => (u64::from(bits), digits),
        digits => (1, digits),
    };
    number::parse_i64(digits)
        .and_then(|position| u64::try_from(position).ok())
        .and_then(|position| position.checked_mul(unit))
        .filter(|offset| *offset <= BIT_OFFSET_MAX)
        .ok_or(ReplyError::BitOffset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    #[test]
    fn overflow_holds_for_the_operations_after_it() {
        let words = ArgsBuf::from_slices(
            "INCRBY u2 100 1 OVERFLOW sat INCRBY i5 #2 -1 GET u63 0 overflow FAIL set i64 7 9".split(' '),
        );
        assert_eq!(check(words.as_args()), Ok(true));
        let field = |action, signed, bits, offset, overflow| BitFieldOperation {
            action,
            signed,
            bits,
            offset,
            overflow,
        };
        assert_eq!(
            bitfield_operations(words.as_args()).collect::<Vec<_>>(),
            [
                field(BitFieldAction::IncrBy(1), false, 2, 100, BitFieldOverflow::Wrap),
                field(
                    BitFieldAction::IncrBy(-1),
                    true,
                    5,
                    10,
                    BitFieldOverflow::Saturate
                ),
                field(BitFieldAction::Get, false, 63, 0, BitFieldOverflow::Saturate),
                field(BitFieldAction::Set(9), true, 64, 7, BitFieldOverflow::Fail),
            ]
        );
    }

    #[test]
    fn words_after_the_key_need_not_be_any() {
        assert_eq!(check(ArgsBuf::default().as_args()), Ok(false));
    }
}
