//! Hashes: fields and their values under one key.

use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number::{self, LongDouble};
use crate::spec::{Access, Categories, Flags, Route, Spec, Walks};
use crate::{Command, CommandId, ReplyError};
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
        options: HashScanOptions<'a>,
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

/// The options of `HSCAN`.
#[derive(Clone, Copy, Debug)]
pub struct HashScanOptions<'a> {
    /// `MATCH`: what the fields are compared with.
    pub pattern: Option<&'a [u8]>,
    /// `COUNT`, at least 1, default 10.
    pub count: u64,
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
    pub fn access(&self) -> Access {
        match self {
            HashCommand::Set { .. }
            | HashCommand::SetNx { .. }
            | HashCommand::Del { .. }
            | HashCommand::IncrBy { .. }
            | HashCommand::IncrByFloat { .. } => Access::Modifies,
            HashCommand::Get { .. }
            | HashCommand::MGet { .. }
            | HashCommand::All { .. }
            | HashCommand::StrLen { .. }
            | HashCommand::Exists { .. }
            | HashCommand::RandField { .. }
            | HashCommand::Scan { .. } => Access::Reads,
            HashCommand::Len { .. } => Access::Metadata,
        }
    }
}

const FIELD: Argument = Argument::string("field");
const PAIR: &[Argument] = &[FIELD, Argument::string("value")];

/// `HSET`.
pub(crate) static HSET: Spec = Spec {
    name: "hset",
    id: CommandId::HSet,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Gives fields of a hash their values.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        history: &[("4.0.0", "Several fields.")],
        arguments: &[Argument::KEY, Argument::block("field_value", PAIR).multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| parse_hset(args, "hset", HashSetReply::Added)),
    ..Spec::BASE
};

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

/// `HMSET`.
pub(crate) static HMSET: Spec = Spec {
    name: "hmset",
    id: CommandId::HMSet,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Gives several fields of a hash their values.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        deprecated: Some(Deprecated {
            since: "4.0.0",
            replaced_by: "`HSET` with multiple field-value pairs",
        }),
        arguments: &[Argument::KEY, Argument::block("field_value", PAIR).multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| parse_hset(args, "hmset", HashSetReply::Ok)),
    ..Spec::BASE
};

/// `HSETNX`.
pub(crate) static HSETNX: Spec = Spec {
    name: "hsetnx",
    id: CommandId::HSetNx,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::EXTEND)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Gives a field of a hash its value, if it has none.",
        since: "2.0.0",
        group: Group::Hash,
        arguments: &[Argument::KEY, FIELD, Argument::string("value")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::SetNx {
            key: args.arg(1),
            field: args.arg(2),
            value: args.arg(3),
        }))
    }),
    ..Spec::BASE
};

/// `HGET`.
pub(crate) static HGET: Spec = Spec {
    name: "hget",
    id: CommandId::HGet,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the value of a field of a hash.",
        since: "2.0.0",
        group: Group::Hash,
        arguments: &[Argument::KEY, FIELD],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::Get {
            key: args.arg(1),
            field: args.arg(2),
        }))
    }),
    ..Spec::BASE
};

/// `HMGET`.
pub(crate) static HMGET: Spec = Spec {
    name: "hmget",
    id: CommandId::HMGet,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the values of several fields of a hash.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        arguments: &[Argument::KEY, FIELD.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::MGet {
            key: args.arg(1),
            fields: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `HGETALL`.
pub(crate) static HGETALL: Spec = Spec {
    name: "hgetall",
    id: CommandId::HGetAll,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output_order"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Whole,
    docs: Docs {
        summary: "Returns all fields of a hash with their values.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::All {
            key: args.arg(1),
            parts: HashParts::Pairs,
        }))
    }),
    ..Spec::BASE
};

/// `HKEYS`.
pub(crate) static HKEYS: Spec = Spec {
    name: "hkeys",
    id: CommandId::HKeys,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output_order"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Whole,
    docs: Docs {
        summary: "Returns all fields of a hash.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::All {
            key: args.arg(1),
            parts: HashParts::Fields,
        }))
    }),
    ..Spec::BASE
};

/// `HVALS`.
pub(crate) static HVALS: Spec = Spec {
    name: "hvals",
    id: CommandId::HVals,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output_order"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Whole,
    docs: Docs {
        summary: "Returns the values of all fields of a hash.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::All {
            key: args.arg(1),
            parts: HashParts::Values,
        }))
    }),
    ..Spec::BASE
};

/// `HLEN`.
pub(crate) static HLEN: Spec = Spec {
    name: "hlen",
    id: CommandId::HLen,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many fields a hash has.",
        since: "2.0.0",
        group: Group::Hash,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Hash(HashCommand::Len { key: args.arg(1) }))),
    ..Spec::BASE
};

/// `HSTRLEN`.
pub(crate) static HSTRLEN: Spec = Spec {
    name: "hstrlen",
    id: CommandId::HStrLen,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the length of the value of a field of a hash.",
        since: "3.2.0",
        group: Group::Hash,
        arguments: &[Argument::KEY, FIELD],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::StrLen {
            key: args.arg(1),
            field: args.arg(2),
        }))
    }),
    ..Spec::BASE
};

/// `HEXISTS`.
pub(crate) static HEXISTS: Spec = Spec {
    name: "hexists",
    id: CommandId::HExists,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Says whether a hash has a field.",
        since: "2.0.0",
        group: Group::Hash,
        arguments: &[Argument::KEY, FIELD],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::Exists {
            key: args.arg(1),
            field: args.arg(2),
        }))
    }),
    ..Spec::BASE
};

/// `HDEL`.
pub(crate) static HDEL: Spec = Spec {
    name: "hdel",
    id: CommandId::HDel,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Removes fields from a hash; a hash without fields is deleted.",
        since: "2.0.0",
        group: Group::Hash,
        complexity: "O(N) for N fields.",
        history: &[("2.4.0", "Several fields.")],
        arguments: &[Argument::KEY, FIELD.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::Del {
            key: args.arg(1),
            fields: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `HINCRBY`.
pub(crate) static HINCRBY: Spec = Spec {
    name: "hincrby",
    id: CommandId::HIncrBy,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds to an integer in a field of a hash.",
        since: "2.0.0",
        group: Group::Hash,
        arguments: &[Argument::KEY, FIELD, Argument::integer("increment")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Hash(HashCommand::IncrBy {
            key: args.arg(1),
            field: args.arg(2),
            by: number::integer(args.arg(3))?,
        }))
    }),
    ..Spec::BASE
};

/// `HINCRBYFLOAT`.
pub(crate) static HINCRBYFLOAT: Spec = Spec {
    name: "hincrbyfloat",
    id: CommandId::HIncrByFloat,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds to a number in a field of a hash, which need not be whole.",
        since: "2.6.0",
        group: Group::Hash,
        arguments: &[
            Argument::KEY,
            FIELD,
            Argument::new("increment", ArgumentKind::Double),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_hincrbyfloat),
    ..Spec::BASE
};

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

/// `HRANDFIELD`.
pub(crate) static HRANDFIELD: Spec = Spec {
    name: "hrandfield",
    id: CommandId::HRandField,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns fields of a hash drawn at random.",
        since: "6.2.0",
        group: Group::Hash,
        complexity: "O(N) for N fields returned, and O(M) for M fields if many of them are.",
        arguments: &[
            Argument::KEY,
            Argument::block(
                "options",
                &[
                    Argument::integer("count"),
                    Argument::word("withvalues", "WITHVALUES").optional(),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_hrandfield),
    ..Spec::BASE
};

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

/// `HSCAN`.
pub(crate) static HSCAN: Spec = Spec {
    name: "hscan",
    id: CommandId::HScan,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Walks through the fields of a hash, a few at each call.",
        since: "2.8.0",
        group: Group::Hash,
        complexity: "O(1) for each call, O(N) for the whole walk over N fields.",
        arguments: &[
            Argument::KEY,
            Argument::integer("cursor"),
            Argument::new("pattern", ArgumentKind::Pattern)
                .token("MATCH")
                .optional(),
            Argument::integer("count").token("COUNT").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_hscan),
    ..Spec::BASE
};

fn parse_hscan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let cursor = crate::cursor(args.arg(2))?;
    let mut options = HashScanOptions {
        pattern: None,
        count: 10,
    };
    let mut at = 3;
    while let Some(word) = args.get(at) {
        let value = args.get(at + 1).ok_or(ReplyError::Syntax)?;
        if word.eq_ignore_ascii_case(b"count") {
            let count = number::integer(value)?;
            options.count = u64::try_from(count)
                .ok()
                .filter(|count| *count > 0)
                .ok_or(ReplyError::Syntax)?;
        } else if word.eq_ignore_ascii_case(b"match") {
            options.pattern = Some(value);
        } else {
            return Err(ReplyError::Syntax);
        }
        at += 2;
    }
    Ok(Command::Hash(HashCommand::Scan {
        key: args.arg(1),
        cursor,
        options,
    }))
}
