//! Strings: text, bytes and counters.

use crate::deadline::{Base, Unit};
use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number::{self, LongDouble};
use crate::spec::{Access, Categories, Flags, Merge, Route, Spec, Spread};
use crate::word::Word;
use crate::{
    Command, CommandId, Deadline, LcsOutput, ReplyError, SetCondition, SetExpiry, SetReply, VALUE_BYTES_MAX,
};
use resp::Args;

/// `GET`.
pub(crate) static GET: Spec = Spec {
    name: "get",
    id: CommandId::Get,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the string that a key holds.",
        since: "1.0.0",
        group: Group::String,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Get { key: args.arg(1) })),
    ..Spec::BASE
};

/// `SET`.
pub(crate) static SET: Spec = Spec {
    name: "set",
    id: CommandId::Set,
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec {
        notes: Some("Reads the value with `GET` or `IFEQ`."),
        ..KeySpec::at(1, KeyFlags::CHANGE.and(KeyFlags::VARIABLE_FLAGS))
    }],
    route: Route::Keys,
    access: Access::Overwrites,
    docs: Docs {
        summary: "Gives a key a string value, whatever it held before.",
        since: "1.0.0",
        group: Group::String,
        history: &[
            ("2.6.12", "`EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "`KEEPTTL`."),
            ("6.2.0", "`GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` together with `GET`."),
        ],
        arguments: &[
            Argument::KEY,
            Argument::string("value"),
            Argument::one_of(
                "condition",
                &[
                    Argument::word("nx", "NX"),
                    Argument::word("xx", "XX"),
                    Argument::string("ifeq").token("IFEQ").since("8.1.0"),
                ],
            )
            .since("2.6.12")
            .optional(),
            Argument::word("get", "GET").since("6.2.0").optional(),
            Argument::one_of(
                "expiration",
                &[
                    Argument::integer("seconds").token("EX").since("2.6.12"),
                    Argument::integer("milliseconds").token("PX").since("2.6.12"),
                    Argument::new("unix-time-seconds", ArgumentKind::UnixTime)
                        .token("EXAT")
                        .since("6.2.0"),
                    Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime)
                        .token("PXAT")
                        .since("6.2.0"),
                    Argument::word("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_set),
    ..Spec::BASE
};

fn parse_set(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut options = SetOptions::NONE;
    if args.len() > 3 {
        options.read(args, Writes::Value)?;
    }
    let expiry = match options.deadline {
        Some((base, unit, amount)) => SetExpiry::At(Deadline::of_write(base, unit, amount, "set")?),
        None if options.keep => SetExpiry::Keep,
        None => SetExpiry::Clear,
    };
    let reply = if options.old { SetReply::Old } else { SetReply::Ok };
    Ok(Command::Set {
        key: args.arg(1),
        value: args.arg(2),
        condition: options.condition,
        expiry,
        reply,
    })
}

/// The options of `SET` and `GETEX`, as far as they go together.
struct SetOptions<'a> {
    condition: SetCondition<'a>,
    old: bool,
    keep: bool,
    persist: bool,
    /// The amount is read only once all options are known: a wrong option is reported before a wrong number.
    deadline: Option<(Base, Unit, &'a [u8])>,
}

/// Which of the two commands the options belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// `SET`.
    Value,
    /// `GETEX`.
    TimeToLive,
}

impl<'a> SetOptions<'a> {
    const NONE: SetOptions<'static> = SetOptions {
        condition: SetCondition::Always,
        old: false,
        keep: false,
        persist: false,
        deadline: None,
    };

    /// Reads the words after the key, or after the value. The same option may stand twice if it agrees with
    /// itself: the last one counts.
    fn read(&mut self, args: Args<'a>, writes: Writes) -> Result<(), ReplyError> {
        let of_set = writes == Writes::Value;
        let mut at = if of_set { 3 } else { 2 };
        while let Some(word) = args.get(at) {
            let next = args.get(at + 1);
            let free = |condition| self.condition == SetCondition::Always || self.condition == condition;
            match (Word::new(word), next) {
                (NX, _) if of_set && free(SetCondition::IfAbsent) => self.condition = SetCondition::IfAbsent,
                (XX, _) if of_set && free(SetCondition::IfPresent) => {
                    self.condition = SetCondition::IfPresent
                }
                (GET_OLD, _) if of_set => self.old = true,
                (KEEPTTL, _) if of_set && self.deadline.is_none() => self.keep = true,
                (PERSIST, _) if !of_set && self.deadline.is_none() => self.persist = true,
                (IFEQ, Some(value)) if of_set && free(SetCondition::Always) => {
                    self.condition = SetCondition::IfEqual(value);
                    at += 1;
                }
                (EX, Some(amount)) => self.read_deadline(Base::Now, Unit::Seconds, amount, &mut at)?,
                (PX, Some(amount)) => self.read_deadline(Base::Now, Unit::Millis, amount, &mut at)?,
                (EXAT, Some(amount)) => self.read_deadline(Base::Epoch, Unit::Seconds, amount, &mut at)?,
                (PXAT, Some(amount)) => self.read_deadline(Base::Epoch, Unit::Millis, amount, &mut at)?,
                _ => return Err(ReplyError::Syntax),
            }
            at += 1;
        }
        Ok(())
    }

    /// Keeps a deadline for later, and skips its amount.
    fn read_deadline(
        &mut self,
        base: Base,
        unit: Unit,
        amount: &'a [u8],
        at: &mut usize,
    ) -> Result<(), ReplyError> {
        let agrees = self.deadline.is_none_or(|(b, u, _)| (b, u) == (base, unit));
        if self.keep || self.persist || !agrees {
            return Err(ReplyError::Syntax);
        }
        self.deadline = Some((base, unit, amount));
        *at += 1;
        Ok(())
    }
}

const NX: Word = Word::new(b"nx");
const XX: Word = Word::new(b"xx");
const GET_OLD: Word = Word::new(b"get");
const KEEPTTL: Word = Word::new(b"keepttl");
const PERSIST: Word = Word::new(b"persist");
const IFEQ: Word = Word::new(b"ifeq");
const EX: Word = Word::new(b"ex");
const PX: Word = Word::new(b"px");
const EXAT: Word = Word::new(b"exat");
const PXAT: Word = Word::new(b"pxat");

/// `SETEX`.
pub(crate) static SETEX: Spec = Spec {
    name: "setex",
    id: CommandId::SetEx,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::OVERWRITE)],
    route: Route::Keys,
    access: Access::Overwrites,
    docs: Docs {
        summary: "Gives a key a string value and a time to live in seconds.",
        since: "2.0.0",
        group: Group::String,
        arguments: &[
            Argument::KEY,
            Argument::integer("seconds"),
            Argument::string("value"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_setex),
    ..Spec::BASE
};

fn parse_setex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    with_time_to_live(args, Unit::Seconds, "setex")
}

/// `SETEX` and `PSETEX`: the time to live stands before the value.
fn with_time_to_live<'a>(args: Args<'a>, unit: Unit, name: &'static str) -> Result<Command<'a>, ReplyError> {
    let deadline = Deadline::of_write(Base::Now, unit, args.arg(2), name)?;
    Ok(Command::Set {
        key: args.arg(1),
        value: args.arg(3),
        condition: SetCondition::Always,
        expiry: SetExpiry::At(deadline),
        reply: SetReply::Ok,
    })
}

/// `PSETEX`.
pub(crate) static PSETEX: Spec = Spec {
    name: "psetex",
    id: CommandId::PSetEx,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::OVERWRITE)],
    route: Route::Keys,
    access: Access::Overwrites,
    docs: Docs {
        summary: "Gives a key a string value and a time to live in milliseconds.",
        since: "2.6.0",
        group: Group::String,
        arguments: &[
            Argument::KEY,
            Argument::integer("milliseconds"),
            Argument::string("value"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_psetex),
    ..Spec::BASE
};

fn parse_psetex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    with_time_to_live(args, Unit::Millis, "psetex")
}

/// `SETNX`.
pub(crate) static SETNX: Spec = Spec {
    name: "setnx",
    id: CommandId::SetNx,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CREATE)],
    route: Route::Keys,
    access: Access::Overwrites,
    docs: Docs {
        summary: "Gives a key a string value if the key is absent.",
        since: "1.0.0",
        group: Group::String,
        arguments: &[Argument::KEY, Argument::string("value")],
        ..Docs::BASE
    },
    parse: Some(parse_setnx),
    ..Spec::BASE
};

fn parse_setnx(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::Set {
        key: args.arg(1),
        value: args.arg(2),
        condition: SetCondition::IfAbsent,
        expiry: SetExpiry::Clear,
        reply: SetReply::Integer,
    })
}

/// `GETSET`.
pub(crate) static GETSET: Spec = Spec {
    name: "getset",
    id: CommandId::GetSet,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Gives a key a string value and returns the one before.",
        since: "1.0.0",
        group: Group::String,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`SET` with `GET`",
        }),
        arguments: &[Argument::KEY, Argument::string("value")],
        ..Docs::BASE
    },
    parse: Some(parse_getset),
    ..Spec::BASE
};

fn parse_getset(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::Set {
        key: args.arg(1),
        value: args.arg(2),
        condition: SetCondition::Always,
        expiry: SetExpiry::Clear,
        reply: SetReply::Old,
    })
}

/// `GETEX`.
pub(crate) static GETEX: Spec = Spec {
    name: "getex",
    id: CommandId::GetEx,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec {
        notes: Some("Changes the time to live."),
        ..KeySpec::at(1, KeyFlags::CHANGE)
    }],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the string that a key holds and changes its time to live.",
        since: "6.2.0",
        group: Group::String,
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                "expiration",
                &[
                    Argument::integer("seconds").token("EX"),
                    Argument::integer("milliseconds").token("PX"),
                    Argument::new("unix-time-seconds", ArgumentKind::UnixTime).token("EXAT"),
                    Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime).token("PXAT"),
                    Argument::word("persist", "PERSIST"),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_getex),
    ..Spec::BASE
};

fn parse_getex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let mut options = SetOptions::NONE;
    options.read(args, Writes::TimeToLive)?;
    let expiry = match options.deadline {
        Some((base, unit, amount)) => SetExpiry::At(Deadline::of_write(base, unit, amount, "getex")?),
        None if options.persist => SetExpiry::Clear,
        None => SetExpiry::Keep,
    };
    Ok(Command::GetEx {
        key: args.arg(1),
        expiry,
    })
}

/// `GETDEL`.
pub(crate) static GETDEL: Spec = Spec {
    name: "getdel",
    id: CommandId::GetDel,
    arity: 2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Returns the string that a key holds and deletes the key.",
        since: "6.2.0",
        group: Group::String,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::GetDel { key: args.arg(1) })),
    ..Spec::BASE
};

/// `MGET`.
pub(crate) static MGET: Spec = Spec {
    name: "mget",
    id: CommandId::MGet,
    arity: -2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::from(1, KeyFlags::READ)],
    tips: &["request_policy:multi_shard"],
    route: Route::Keys,
    spread: Spread::Split(Merge::ByPosition),
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the strings that several keys hold.",
        since: "1.0.0",
        group: Group::String,
        complexity: "O(N) for N keys.",
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::MGet { keys: args.from(1) })),
    ..Spec::BASE
};

/// `MSET`.
pub(crate) static MSET: Spec = Spec {
    name: "mset",
    id: CommandId::MSet,
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec {
        step: 2,
        ..KeySpec::from(1, KeyFlags::OVERWRITE)
    }],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    route: Route::Keys,
    spread: Spread::Split(Merge::Ok),
    access: Access::Overwrites,
    docs: Docs {
        summary: "Gives several keys their values, all at once.",
        since: "1.0.1",
        group: Group::String,
        complexity: "O(N) for N keys.",
        arguments: &[Argument::block("key_value", &[Argument::KEY, Argument::string("value")]).multiple()],
        ..Docs::BASE
    },
    parse: Some(parse_mset),
    ..Spec::BASE
};

fn parse_mset(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::MSet {
        pairs: pairs(args, "mset")?,
    })
}

/// Keys and values in turn.
fn pairs<'a>(args: Args<'a>, name: &'static str) -> Result<Args<'a>, ReplyError> {
    if args.len() % 2 == 1 {
        Ok(args.from(1))
    } else {
        Err(ReplyError::WrongArity(name))
    }
}

/// `MSETNX`.
pub(crate) static MSETNX: Spec = Spec {
    name: "msetnx",
    id: CommandId::MSetNx,
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec {
        step: 2,
        ..KeySpec::from(1, KeyFlags::CREATE)
    }],
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    route: Route::Keys,
    spread: Spread::IfAllAbsent,
    access: Access::Overwrites,
    docs: Docs {
        summary: "Gives several keys their values, all at once, if all of them are absent.",
        since: "1.0.1",
        group: Group::String,
        complexity: "O(N) for N keys.",
        arguments: &[Argument::block("key_value", &[Argument::KEY, Argument::string("value")]).multiple()],
        ..Docs::BASE
    },
    parse: Some(parse_msetnx),
    ..Spec::BASE
};

fn parse_msetnx(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::MSetNx {
        pairs: pairs(args, "msetnx")?,
    })
}

/// `APPEND`.
pub(crate) static APPEND: Spec = Spec {
    name: "append",
    id: CommandId::Append,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::EXTEND)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds bytes to the end of a string.",
        since: "2.0.0",
        group: Group::String,
        complexity: "O(1) amortized over many appends of few bytes.",
        arguments: &[Argument::KEY, Argument::string("value")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Append {
            key: args.arg(1),
            value: args.arg(2),
        })
    }),
    ..Spec::BASE
};

/// `STRLEN`.
pub(crate) static STRLEN: Spec = Spec {
    name: "strlen",
    id: CommandId::StrLen,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns the length of a string.",
        since: "2.2.0",
        group: Group::String,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::StrLen { key: args.arg(1) })),
    ..Spec::BASE
};

/// `INCR`.
pub(crate) static INCR: Spec = Spec {
    name: "incr",
    id: CommandId::Incr,
    arity: 2,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds one to an integer.",
        since: "1.0.0",
        group: Group::String,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::IncrBy {
            key: args.arg(1),
            by: 1,
        })
    }),
    ..Spec::BASE
};

/// `DECR`.
pub(crate) static DECR: Spec = Spec {
    name: "decr",
    id: CommandId::Decr,
    arity: 2,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Subtracts one from an integer.",
        since: "1.0.0",
        group: Group::String,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::IncrBy {
            key: args.arg(1),
            by: -1,
        })
    }),
    ..Spec::BASE
};

/// `INCRBY`.
pub(crate) static INCRBY: Spec = Spec {
    name: "incrby",
    id: CommandId::IncrBy,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds to an integer.",
        since: "1.0.0",
        group: Group::String,
        arguments: &[Argument::KEY, Argument::integer("increment")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::IncrBy {
            key: args.arg(1),
            by: number::integer(args.arg(2))?,
        })
    }),
    ..Spec::BASE
};

/// `DECRBY`.
pub(crate) static DECRBY: Spec = Spec {
    name: "decrby",
    id: CommandId::DecrBy,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Subtracts from an integer.",
        since: "1.0.0",
        group: Group::String,
        arguments: &[Argument::KEY, Argument::integer("decrement")],
        ..Docs::BASE
    },
    parse: Some(parse_decrby),
    ..Spec::BASE
};

fn parse_decrby(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let decrement = number::integer(args.arg(2))?;
    let by = decrement.checked_neg().ok_or(ReplyError::DecrementOverflow)?;
    Ok(Command::IncrBy { key: args.arg(1), by })
}

/// `INCRBYFLOAT`.
pub(crate) static INCRBYFLOAT: Spec = Spec {
    name: "incrbyfloat",
    id: CommandId::IncrByFloat,
    arity: 3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds to a number, which need not be whole.",
        since: "2.6.0",
        group: Group::String,
        arguments: &[Argument::KEY, Argument::new("increment", ArgumentKind::Double)],
        ..Docs::BASE
    },
    parse: Some(parse_incrbyfloat),
    ..Spec::BASE
};

fn parse_incrbyfloat(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let by = LongDouble::parse(args.arg(2)).ok_or(ReplyError::NotAFloat)?;
    Ok(Command::IncrByFloat { key: args.arg(1), by })
}

/// `GETRANGE`.
pub(crate) static GETRANGE: Spec = Spec {
    name: "getrange",
    id: CommandId::GetRange,
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns a part of a string.",
        since: "2.4.0",
        group: Group::String,
        complexity: "O(N) for N bytes returned.",
        arguments: &[
            Argument::KEY,
            Argument::integer("start"),
            Argument::integer("end"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_getrange),
    ..Spec::BASE
};

fn parse_getrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let start = number::integer(args.arg(2))?;
    let end = number::integer(args.arg(3))?;
    Ok(Command::GetRange {
        key: args.arg(1),
        start,
        end,
    })
}

/// `SUBSTR`.
pub(crate) static SUBSTR: Spec = Spec {
    name: "substr",
    id: CommandId::SubStr,
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns a part of a string.",
        since: "1.0.0",
        group: Group::String,
        complexity: "O(N) for N bytes returned.",
        deprecated: Some(Deprecated {
            since: "2.0.0",
            replaced_by: "`GETRANGE`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::integer("start"),
            Argument::integer("end"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_getrange),
    ..Spec::BASE
};

/// `SETRANGE`.
pub(crate) static SETRANGE: Spec = Spec {
    name: "setrange",
    id: CommandId::SetRange,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::STRING,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Overwrites a string from an offset on, with zeros before it where there was nothing.",
        since: "2.2.0",
        group: Group::String,
        complexity: "O(M) for M bytes written.",
        arguments: &[
            Argument::KEY,
            Argument::integer("offset"),
            Argument::string("value"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_setrange),
    ..Spec::BASE
};

fn parse_setrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let offset = number::integer(args.arg(2))?;
    let offset = u64::try_from(offset).map_err(|_| ReplyError::OffsetOutOfRange)?;
    let value = args.arg(3);
    // Writing nothing changes nothing, wherever it is written.
    if !value.is_empty() && offset + value.len() as u64 > VALUE_BYTES_MAX {
        return Err(ReplyError::StringTooLong);
    }
    Ok(Command::SetRange {
        key: args.arg(1),
        offset,
        value,
    })
}

/// `LCS`.
pub(crate) static LCS: Spec = Spec {
    name: "lcs",
    id: CommandId::Lcs,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    keys: &[KeySpec {
        last: 1,
        ..KeySpec::at(1, KeyFlags::READ)
    }],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    docs: Docs {
        summary: "Finds the longest subsequence that two strings share.",
        since: "7.0.0",
        group: Group::String,
        complexity: "O(N*M) for strings of N and M bytes.",
        arguments: &[
            Argument::key("key1", 0),
            Argument::key("key2", 0),
            Argument::word("len", "LEN").optional(),
            Argument::word("idx", "IDX").optional(),
            Argument::integer("len").token("MINMATCHLEN").optional(),
            Argument::word("withmatchlen", "WITHMATCHLEN").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_lcs),
    ..Spec::BASE
};

fn parse_lcs(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (mut length, mut matches, mut with_length, mut min_length) = (false, false, false, 0);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        if word.eq_ignore_ascii_case(b"idx") {
            matches = true;
        } else if word.eq_ignore_ascii_case(b"len") {
            length = true;
        } else if word.eq_ignore_ascii_case(b"withmatchlen") {
            with_length = true;
        } else if let (true, Some(number)) = (word.eq_ignore_ascii_case(b"minmatchlen"), args.get(at + 1)) {
            min_length = u64::try_from(number::integer(number)?).unwrap_or(0);
            at += 1;
        } else {
            return Err(ReplyError::Syntax);
        }
        at += 1;
    }
    let output = match (length, matches) {
        (true, true) => return Err(ReplyError::LcsLengthAndMatches),
        (true, false) => LcsOutput::Length,
        (false, true) => LcsOutput::Matches {
            min_length,
            with_length,
        },
        (false, false) => LcsOutput::Text,
    };
    Ok(Command::Lcs {
        left: args.arg(1),
        right: args.arg(2),
        output,
    })
}
