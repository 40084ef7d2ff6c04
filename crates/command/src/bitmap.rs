//! Bitmaps: strings seen as bits.

use crate::bitfield;
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Flags, Spec};
use crate::{BitOperation, BitRange, BitUnit, Command, ReplyError, VALUE_BYTES_MAX};
use resp::Args;

/// The last bit that a value can have.
pub(crate) const BIT_OFFSET_MAX: u64 = VALUE_BYTES_MAX * 8 - 1;

pub(crate) const SETBIT: Spec = Spec::write("setbit", 4, KeySpec::CHANGE)
    .flags(Flags::DENYOOM)
    .parse(parse_setbit);

fn parse_setbit(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let offset = bit_offset(args.arg(2))?;
    let bit = match number::parse_i64(args.arg(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(ReplyError::Bit),
    };
    Ok(Command::SetBit {
        key: args.arg(1),
        offset,
        bit,
    })
}

fn bit_offset(word: &[u8]) -> Result<u64, ReplyError> {
    number::parse_i64(word)
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| *offset <= BIT_OFFSET_MAX)
        .ok_or(ReplyError::BitOffset)
}

pub(crate) const GETBIT: Spec = Spec::read("getbit", 3).flags(Flags::FAST).parse(|args| {
    Ok(Command::GetBit {
        key: args.arg(1),
        offset: bit_offset(args.arg(2))?,
    })
});

pub(crate) const BITCOUNT: Spec = Spec::read("bitcount", -2).parse(parse_bitcount);

fn parse_bitcount(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let range = match args.len() {
        2 => None,
        4 | 5 => {
            let start = number::integer(args.arg(2))?;
            let end = number::integer(args.arg(3))?;
            Some(BitRange {
                start,
                end,
                unit: unit(args.get(4))?,
            })
        }
        _ => return Err(ReplyError::Syntax),
    };
    Ok(Command::BitCount {
        key: args.arg(1),
        range,
    })
}

fn unit(word: Option<&[u8]>) -> Result<BitUnit, ReplyError> {
    match word {
        None => Ok(BitUnit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(BitUnit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(BitUnit::Bit),
        Some(_) => Err(ReplyError::Syntax),
    }
}

pub(crate) const BITPOS: Spec = Spec::read("bitpos", -3).parse(parse_bitpos);

fn parse_bitpos(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let bit = match number::integer(args.arg(2))? {
        0 => false,
        1 => true,
        _ => return Err(ReplyError::BitArgument),
    };
    if args.len() > 6 {
        return Err(ReplyError::Syntax);
    }
    let start = args.get(3).map(number::integer).transpose()?;
    let unit = unit(args.get(5))?;
    let end = args.get(4).map(number::integer).transpose()?;
    Ok(Command::BitPos {
        key: args.arg(1),
        bit,
        start,
        end,
        unit,
    })
}

pub(crate) const BITOP: Spec = Spec::write_several("bitop", -4)
    .keys(&[
        KeySpec::at(2, KeyFlags::OVERWRITE),
        KeySpec::from(3, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM)
    .parse(parse_bitop);

fn parse_bitop(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let word = args.arg(1);
    let operation = if word.eq_ignore_ascii_case(b"and") {
        BitOperation::And
    } else if word.eq_ignore_ascii_case(b"or") {
        BitOperation::Or
    } else if word.eq_ignore_ascii_case(b"xor") {
        BitOperation::Xor
    } else if word.eq_ignore_ascii_case(b"not") {
        BitOperation::Not
    } else {
        return Err(ReplyError::Syntax);
    };
    if operation == BitOperation::Not && args.len() != 4 {
        return Err(ReplyError::BitOpNotSources);
    }
    Ok(Command::BitOp {
        operation,
        destination: args.arg(2),
        sources: args.from(3),
    })
}

const BITFIELD_KEY: &[KeySpec] = &[KeySpec::at(1, KeyFlags::CHANGE.and(KeyFlags::VARIABLE_FLAGS))
    .notes("Only reads if all operations are `GET`.")];

pub(crate) const BITFIELD: Spec = Spec::write("bitfield", -2, BITFIELD_KEY)
    .flags(Flags::DENYOOM)
    .parse(parse_bitfield);

fn parse_bitfield(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let operations = args.from(2);
    let writes = bitfield::check(operations)?;
    Ok(Command::BitField {
        key: args.arg(1),
        operations,
        writes,
    })
}

pub(crate) const BITFIELD_RO: Spec = Spec::read("bitfield_ro", -2)
    .flags(Flags::FAST)
    .parse(parse_bitfield_ro);

fn parse_bitfield_ro(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let operations = args.from(2);
    if bitfield::check(operations)? {
        return Err(ReplyError::BitFieldReadOnly);
    }
    Ok(Command::BitField {
        key: args.arg(1),
        operations,
        writes: false,
    })
}
