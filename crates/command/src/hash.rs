//! Hashes: fields and their values under one key.

use crate::key_spec::KeySpec;
use crate::number::{self, LongDouble};
use crate::scan::{self, ScanOptions};
use crate::spec::{Cost, Flags, Spec, ValueAccess};
use crate::{Command, ReplyError};
use resp::Args;

/// One command on hashes.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum HashCommand<'a> {
    /// `HSET key field value [field value ...]`, `HMSET`.
    Set {
        key: &'a [u8],
        pairs: Args<'a>,
        reply: HashSetReply,
    },
    /// `HSETNX key field value`.
    SetNx {
        key: &'a [u8],
        field: &'a [u8],
        value: &'a [u8],
    },
    /// `HGET key field`.
    Get { key: &'a [u8], field: &'a [u8] },
    /// `HMGET key field [field ...]`.
    MGet { key: &'a [u8], fields: Args<'a> },
    /// `HGETALL`, `HKEYS`, `HVALS`.
    All { key: &'a [u8], parts: HashParts },
    /// `HLEN key`.
    Len { key: &'a [u8] },
    /// `HSTRLEN key field`.
    StrLen { key: &'a [u8], field: &'a [u8] },
    /// `HEXISTS key field`.
    Exists { key: &'a [u8], field: &'a [u8] },
    /// `HDEL key field [field ...]`.
    Del { key: &'a [u8], fields: Args<'a> },
    /// `HINCRBY key field increment`.
    IncrBy { key: &'a [u8], field: &'a [u8], by: i64 },
    /// `HINCRBYFLOAT key field increment`: the increment is finite.
    IncrByFloat {
        key: &'a [u8],
        field: &'a [u8],
        by: LongDouble,
    },
    /// `HRANDFIELD key [count [WITHVALUES]]`: at most [`HASH_PICKS_MAX`] if the count is negative. `count` is `None` if
    /// the answer is one field, not an array.
    RandField {
        key: &'a [u8],
        count: Option<i64>,
        with_values: bool,
    },
    /// `HSCAN key cursor ..`.
    Scan {
        key: &'a [u8],
        cursor: u64,
        options: ScanOptions<'a>,
    },
}

/// What `HSET` and `HMSET` answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashSetReply {
    /// How many fields are new (`HSET`).
    Added,
    /// `+OK` (`HMSET`).
    Ok,
}

/// What is told of all fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashParts {
    /// Fields and values (`HGETALL`).
    Pairs,
    /// Fields (`HKEYS`).
    Fields,
    /// Values (`HVALS`).
    Values,
}

/// The most fields that `HRANDFIELD` picks with repetition; a larger count is out of range. Redis tries to answer any
/// count of 63 bits, until its memory is gone.
pub const HASH_PICKS_MAX: u64 = 1 << 24;

impl HashCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            HashCommand::Set { .. }
            | HashCommand::SetNx { .. }
            | HashCommand::Del { .. }
            | HashCommand::IncrBy { .. }
            | HashCommand::IncrByFloat { .. } => true,
            HashCommand::Get { .. }
            | HashCommand::MGet { .. }
            | HashCommand::All { .. }
            | HashCommand::Len { .. }
            | HashCommand::StrLen { .. }
            | HashCommand::Exists { .. }
            | HashCommand::RandField { .. }
            | HashCommand::Scan { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> ValueAccess {
        match self {
            HashCommand::Set { .. }
            | HashCommand::SetNx { .. }
            | HashCommand::Del { .. }
            | HashCommand::IncrBy { .. }
            | HashCommand::IncrByFloat { .. } => ValueAccess::Modifies,
            HashCommand::Get { .. }
            | HashCommand::MGet { .. }
            | HashCommand::All { .. }
            | HashCommand::StrLen { .. }
            | HashCommand::Exists { .. }
            | HashCommand::RandField { .. }
            | HashCommand::Scan { .. } => ValueAccess::Reads,
            HashCommand::Len { .. } => ValueAccess::Metadata,
        }
    }
}

pub(crate) const HSET: Spec = Spec::write("hset", -4, KeySpec::ADJUST)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| parse_hset(args, "hset", HashSetReply::Added));

fn parse_hset<'a>(
    args: Args<'a>,
    name: &'static str,
    reply: HashSetReply,
) -> Result<Command<'a>, ReplyError> {
    if args.len() % 2 == 1 {
        return Err(ReplyError::WrongArity(name));
    }
    Ok(Command::Hash(HashCommand::Set {
        key: args.arg(1),
        pairs: args.from(2),
        reply,
    }))
}

pub(crate) const HMSET: Spec = Spec::write("hmset", -4, KeySpec::ADJUST)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| parse_hset(args, "hmset", HashSetReply::Ok));

pub(crate) const HSETNX: Spec = Spec::write("hsetnx", 4, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::Hash(HashCommand::SetNx {
            key: args.arg(1),
            field: args.arg(2),
            value: args.arg(3),
        }))
    });

pub(crate) const HGET: Spec = Spec::read("hget", 3).flags(Flags::FAST).parse(|args| {
    Ok(Command::Hash(HashCommand::Get {
        key: args.arg(1),
        field: args.arg(2),
    }))
});

pub(crate) const HMGET: Spec = Spec::read("hmget", -3).flags(Flags::FAST).parse(|args| {
    Ok(Command::Hash(HashCommand::MGet {
        key: args.arg(1),
        fields: args.from(2),
    }))
});

pub(crate) const HGETALL: Spec = Spec::read("hgetall", 2)
    .tips("nondeterministic_output_order")
    .cost(Cost::Whole)
    .parse(|args| {
        Ok(Command::Hash(HashCommand::All {
            key: args.arg(1),
            parts: HashParts::Pairs,
        }))
    });

pub(crate) const HKEYS: Spec = Spec::read("hkeys", 2)
    .tips("nondeterministic_output_order")
    .cost(Cost::Whole)
    .parse(|args| {
        Ok(Command::Hash(HashCommand::All {
            key: args.arg(1),
            parts: HashParts::Fields,
        }))
    });

pub(crate) const HVALS: Spec = Spec::read("hvals", 2)
    .tips("nondeterministic_output_order")
    .cost(Cost::Whole)
    .parse(|args| {
        Ok(Command::Hash(HashCommand::All {
            key: args.arg(1),
            parts: HashParts::Values,
        }))
    });

pub(crate) const HLEN: Spec = Spec::look("hlen", 2)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::Hash(HashCommand::Len { key: args.arg(1) })));

pub(crate) const HSTRLEN: Spec = Spec::read("hstrlen", 3)
    .keys(KeySpec::LOOK)
    .flags(Flags::FAST)
    .parse(|args| {
        Ok(Command::Hash(HashCommand::StrLen {
            key: args.arg(1),
            field: args.arg(2),
        }))
    });

pub(crate) const HEXISTS: Spec = Spec::read("hexists", 3)
    .keys(KeySpec::LOOK)
    .flags(Flags::FAST)
    .parse(|args| {
        Ok(Command::Hash(HashCommand::Exists {
            key: args.arg(1),
            field: args.arg(2),
        }))
    });

pub(crate) const HDEL: Spec = Spec::write("hdel", -3, KeySpec::SHRINK)
    .flags(Flags::FAST)
    .parse(|args| {
        Ok(Command::Hash(HashCommand::Del {
            key: args.arg(1),
            fields: args.from(2),
        }))
    });

pub(crate) const HINCRBY: Spec = Spec::write("hincrby", 4, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::Hash(HashCommand::IncrBy {
            key: args.arg(1),
            field: args.arg(2),
            by: number::integer(args.arg(3))?,
        }))
    });

pub(crate) const HINCRBYFLOAT: Spec = Spec::write("hincrbyfloat", 4, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_hincrbyfloat);

fn parse_hincrbyfloat(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let by = LongDouble::parse(args.arg(3)).ok_or(ReplyError::NotAFloat)?;
    if !by.is_finite() {
        return Err(ReplyError::NanOrInfinityGiven);
    }
    Ok(Command::Hash(HashCommand::IncrByFloat {
        key: args.arg(1),
        field: args.arg(2),
        by,
    }))
}

pub(crate) const HRANDFIELD: Spec = Spec::read("hrandfield", -2)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_hrandfield);

fn parse_hrandfield(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let count = match args.get(2).map(number::integer).transpose()? {
        Some(i64::MIN) => return Err(ReplyError::NotALongInRange),
        count => count,
    };
    let with_values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"withvalues") => true,
        Some(_) => return Err(ReplyError::Syntax),
    };
    // A count that doubles for fields and values must fit; see also `HASH_PICKS_MAX`.
    let too_many = |count: i64| {
        (with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count))
            || (count < 0 && count.unsigned_abs() > HASH_PICKS_MAX)
    };
    if count.is_some_and(too_many) {
        return Err(ReplyError::OutOfRange);
    }
    Ok(Command::Hash(HashCommand::RandField {
        key: args.arg(1),
        count,
        with_values,
    }))
}

pub(crate) const HSCAN: Spec = Spec::read("hscan", -3)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_hscan);

fn parse_hscan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (cursor, options) = scan::parse_within_key(args)?;
    Ok(Command::Hash(HashCommand::Scan {
        key: args.arg(1),
        cursor,
        options,
    }))
}
