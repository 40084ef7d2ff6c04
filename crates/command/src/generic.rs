//! Keys of any type: existence, deadlines, names, and the keyspace as a whole.

use crate::deadline::{Base, Unit};
use crate::docs::{Argument, ArgumentKind, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Access, Categories, Flags, Merge, Route, Spec, Spread, Walks};
use crate::{Command, CommandId, Deadline, ExpireCondition, ObjectAspect, ReplyError, ScanOptions, TtlForm};
use ids::Db;
use resp::Args;

/// `DEL`.
pub(crate) static DEL: Spec = Spec {
    name: "del",
    id: CommandId::Del,
    arity: -2,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::from(1, KeyFlags::REMOVE)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    route: Route::Keys,
    spread: Spread::Split(Merge::Sum),
    access: Access::Metadata,
    docs: Docs {
        summary: "Deletes keys.",
        since: "1.0.0",
        group: Group::Generic,
        complexity: "O(N) for N keys, and O(M) for each one that holds M elements.",
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Del { keys: args.from(1) })),
    ..Spec::BASE
};

/// `UNLINK`.
pub(crate) static UNLINK: Spec = Spec {
    name: "unlink",
    id: CommandId::Unlink,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::from(1, KeyFlags::REMOVE)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    route: Route::Keys,
    spread: Spread::Split(Merge::Sum),
    access: Access::Metadata,
    docs: Docs {
        summary: "Deletes keys, and frees the memory of their values later.",
        since: "4.0.0",
        group: Group::Generic,
        complexity: "O(1) for each key; the memory is freed in the background.",
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Del { keys: args.from(1) })),
    ..Spec::BASE
};

/// `EXISTS`.
pub(crate) static EXISTS: Spec = Spec {
    name: "exists",
    id: CommandId::Exists,
    arity: -2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::from(1, KeyFlags::RO)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    route: Route::Keys,
    spread: Spread::Split(Merge::Sum),
    access: Access::Metadata,
    docs: Docs {
        summary: "Counts how many of the given keys exist.",
        since: "1.0.0",
        group: Group::Generic,
        complexity: "O(N) for N keys.",
        history: &[("3.0.3", "More than one key.")],
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Exists { keys: args.from(1) })),
    ..Spec::BASE
};

/// `TOUCH`.
pub(crate) static TOUCH: Spec = Spec {
    name: "touch",
    id: CommandId::Touch,
    arity: -2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::from(1, KeyFlags::RO)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    route: Route::Keys,
    spread: Spread::Split(Merge::Sum),
    access: Access::Metadata,
    docs: Docs {
        summary: "Counts how many of the given keys exist, and notes that they were used.",
        since: "3.2.1",
        group: Group::Generic,
        complexity: "O(N) for N keys.",
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Touch { keys: args.from(1) })),
    ..Spec::BASE
};

/// `TYPE`.
pub(crate) static TYPE: Spec = Spec {
    name: "type",
    id: CommandId::Type,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns the type of the value that a key holds.",
        since: "1.0.0",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Type { key: args.arg(1) })),
    ..Spec::BASE
};

/// `EXPIRE`.
pub(crate) static EXPIRE: Spec = Spec {
    name: "expire",
    id: CommandId::Expire,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Gives a key a time to live in seconds.",
        since: "1.0.0",
        group: Group::Generic,
        history: &[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")],
        arguments: &[
            Argument::KEY,
            Argument::integer("seconds"),
            Argument::one_of(
                "condition",
                &[
                    Argument::word("nx", "NX"),
                    Argument::word("xx", "XX"),
                    Argument::word("gt", "GT"),
                    Argument::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| expire(args, "expire", Unit::Seconds, Base::Now)),
    ..Spec::BASE
};

/// `EXPIRE` and its kin: the options are checked before the number.
fn expire<'a>(args: Args<'a>, name: &'static str, unit: Unit, base: Base) -> Result<Command<'a>, ReplyError> {
    let mut condition = ExpireCondition::default();
    for word in args.from(3).iter() {
        if word.eq_ignore_ascii_case(b"nx") {
            condition.if_none = true;
        } else if word.eq_ignore_ascii_case(b"xx") {
            condition.if_any = true;
        } else if word.eq_ignore_ascii_case(b"gt") {
            condition.if_later = true;
        } else if word.eq_ignore_ascii_case(b"lt") {
            condition.if_earlier = true;
        } else {
            return Err(ReplyError::unsupported_option(word));
        }
    }
    if condition.if_none && (condition.if_any || condition.if_later || condition.if_earlier) {
        return Err(ReplyError::ExpireNxWithOthers);
    }
    if condition.if_later && condition.if_earlier {
        return Err(ReplyError::ExpireGtAndLt);
    }
    let deadline = Deadline::parse(base, unit, args.arg(2), name)?;
    Ok(Command::Expire {
        key: args.arg(1),
        deadline,
        condition,
    })
}

/// `PEXPIRE`.
pub(crate) static PEXPIRE: Spec = Spec {
    name: "pexpire",
    id: CommandId::PExpire,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Gives a key a time to live in milliseconds.",
        since: "2.6.0",
        group: Group::Generic,
        history: &[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")],
        arguments: &[
            Argument::KEY,
            Argument::integer("milliseconds"),
            Argument::one_of(
                "condition",
                &[
                    Argument::word("nx", "NX"),
                    Argument::word("xx", "XX"),
                    Argument::word("gt", "GT"),
                    Argument::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| expire(args, "pexpire", Unit::Millis, Base::Now)),
    ..Spec::BASE
};

/// `EXPIREAT`.
pub(crate) static EXPIREAT: Spec = Spec {
    name: "expireat",
    id: CommandId::ExpireAt,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Sets when a key expires, in Unix seconds.",
        since: "1.2.0",
        group: Group::Generic,
        history: &[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")],
        arguments: &[
            Argument::KEY,
            Argument::new("unix-time-seconds", ArgumentKind::UnixTime),
            Argument::one_of(
                "condition",
                &[
                    Argument::word("nx", "NX"),
                    Argument::word("xx", "XX"),
                    Argument::word("gt", "GT"),
                    Argument::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| expire(args, "expireat", Unit::Seconds, Base::Epoch)),
    ..Spec::BASE
};

/// `PEXPIREAT`.
pub(crate) static PEXPIREAT: Spec = Spec {
    name: "pexpireat",
    id: CommandId::PExpireAt,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Sets when a key expires, in Unix milliseconds.",
        since: "2.6.0",
        group: Group::Generic,
        history: &[("7.0.0", "`NX`, `XX`, `GT` and `LT`.")],
        arguments: &[
            Argument::KEY,
            Argument::new("unix-time-milliseconds", ArgumentKind::UnixTime),
            Argument::one_of(
                "condition",
                &[
                    Argument::word("nx", "NX"),
                    Argument::word("xx", "XX"),
                    Argument::word("gt", "GT"),
                    Argument::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(|args| expire(args, "pexpireat", Unit::Millis, Base::Epoch)),
    ..Spec::BASE
};

/// `TTL`.
pub(crate) static TTL: Spec = Spec {
    name: "ttl",
    id: CommandId::Ttl,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many seconds a key has left to live.",
        since: "1.0.0",
        group: Group::Generic,
        history: &[("2.8.0", "The reply -2.")],
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Ttl {
            key: args.arg(1),
            form: TtlForm {
                absolute: false,
                in_millis: false,
            },
        })
    }),
    ..Spec::BASE
};

/// `PTTL`.
pub(crate) static PTTL: Spec = Spec {
    name: "pttl",
    id: CommandId::PTtl,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many milliseconds a key has left to live.",
        since: "2.6.0",
        group: Group::Generic,
        history: &[("2.8.0", "The reply -2.")],
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Ttl {
            key: args.arg(1),
            form: TtlForm {
                absolute: false,
                in_millis: true,
            },
        })
    }),
    ..Spec::BASE
};

/// `EXPIRETIME`.
pub(crate) static EXPIRETIME: Spec = Spec {
    name: "expiretime",
    id: CommandId::ExpireTime,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns when a key expires, in Unix seconds.",
        since: "7.0.0",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Ttl {
            key: args.arg(1),
            form: TtlForm {
                absolute: true,
                in_millis: false,
            },
        })
    }),
    ..Spec::BASE
};

/// `PEXPIRETIME`.
pub(crate) static PEXPIRETIME: Spec = Spec {
    name: "pexpiretime",
    id: CommandId::PExpireTime,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns when a key expires, in Unix milliseconds.",
        since: "7.0.0",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Ttl {
            key: args.arg(1),
            form: TtlForm {
                absolute: true,
                in_millis: true,
            },
        })
    }),
    ..Spec::BASE
};

/// `PERSIST`.
pub(crate) static PERSIST: Spec = Spec {
    name: "persist",
    id: CommandId::Persist,
    arity: 2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Lets a key live for ever.",
        since: "2.2.0",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Persist { key: args.arg(1) })),
    ..Spec::BASE
};

/// `RENAME`.
pub(crate) static RENAME: Spec = Spec {
    name: "rename",
    id: CommandId::Rename,
    arity: 3,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: &[
        KeySpec::at(1, KeyFlags::TAKE),
        KeySpec::at(2, KeyFlags::OVERWRITE),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Metadata,
    docs: Docs {
        summary: "Gives a value another key, and overwrites what that key held.",
        since: "1.0.0",
        group: Group::Generic,
        arguments: &[Argument::KEY, Argument::key("newkey", 1)],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Rename {
            from: args.arg(1),
            to: args.arg(2),
            only_if_absent: false,
        })
    }),
    ..Spec::BASE
};

/// `RENAMENX`.
pub(crate) static RENAMENX: Spec = Spec {
    name: "renamenx",
    id: CommandId::RenameNx,
    arity: 3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::TAKE), KeySpec::at(2, KeyFlags::CREATE)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Metadata,
    docs: Docs {
        summary: "Gives a value another key if that key is absent.",
        since: "1.0.0",
        group: Group::Generic,
        history: &[("3.2.0", "No error if both names are the same.")],
        arguments: &[Argument::KEY, Argument::key("newkey", 1)],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Rename {
            from: args.arg(1),
            to: args.arg(2),
            only_if_absent: true,
        })
    }),
    ..Spec::BASE
};

/// `COPY`.
pub(crate) static COPY: Spec = Spec {
    name: "copy",
    id: CommandId::Copy,
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::KEYSPACE,
    keys: &[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::at(2, KeyFlags::OVERWRITE),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Metadata,
    walks: Walks::Part,
    docs: Docs {
        summary: "Copies a value to another key.",
        since: "6.2.0",
        group: Group::Generic,
        complexity: "O(N) for N elements, O(1) for a string.",
        arguments: &[
            Argument::key("source", 0),
            Argument::key("destination", 1),
            Argument::integer("destination-db").token("DB").optional(),
            Argument::word("replace", "REPLACE").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_copy),
    ..Spec::BASE
};

fn parse_copy(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (mut db, mut replace) = (None, false);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        if word.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if let (true, Some(number)) = (word.eq_ignore_ascii_case(b"db"), args.get(at + 1)) {
            db = Some(number::parse_db(number)?);
            at += 1;
        } else {
            return Err(ReplyError::Syntax);
        }
        at += 1;
    }
    let (from, to) = (args.arg(1), args.arg(2));
    // With `DB` only whoever knows the connection's database can tell.
    if db.is_none() && from == to {
        return Err(ReplyError::SameObject);
    }
    Ok(Command::Copy {
        from,
        to,
        db,
        replace,
    })
}

/// `MOVE`.
pub(crate) static MOVE: Spec = Spec {
    name: "move",
    id: CommandId::Move,
    arity: 3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Moves a key to another database.",
        since: "1.0.0",
        group: Group::Generic,
        arguments: &[Argument::KEY, Argument::integer("db")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Move {
            key: args.arg(1),
            db: number::parse_db(args.arg(2))?,
        })
    }),
    ..Spec::BASE
};

/// `OBJECT`.
pub(crate) static OBJECT: Spec = Spec {
    name: "object",
    id: CommandId::Object,
    arity: -2,
    docs: Docs {
        summary: "Tells how values are stored.",
        since: "2.2.3",
        group: Group::Generic,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[
        &OBJECT_ENCODING,
        &OBJECT_FREQ,
        &OBJECT_IDLETIME,
        &OBJECT_REFCOUNT,
        &OBJECT_HELP,
    ],
    ..Spec::BASE
};

/// `OBJECT ENCODING`.
pub(crate) static OBJECT_ENCODING: Spec = Spec {
    name: "object|encoding",
    id: CommandId::ObjectEncoding,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns the representation of a value in memory.",
        since: "2.2.3",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Object {
            key: args.arg(2),
            aspect: ObjectAspect::Encoding,
        })
    }),
    ..Spec::BASE
};

/// `OBJECT FREQ`.
pub(crate) static OBJECT_FREQ: Spec = Spec {
    name: "object|freq",
    id: CommandId::ObjectFreq,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how often a value is used, on a logarithmic scale.",
        since: "4.0.0",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Object {
            key: args.arg(2),
            aspect: ObjectAspect::Frequency,
        })
    }),
    ..Spec::BASE
};

/// `OBJECT IDLETIME`.
pub(crate) static OBJECT_IDLETIME: Spec = Spec {
    name: "object|idletime",
    id: CommandId::ObjectIdleTime,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns for how many seconds a value has not been used.",
        since: "2.2.3",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Object {
            key: args.arg(2),
            aspect: ObjectAspect::IdleTime,
        })
    }),
    ..Spec::BASE
};

/// `OBJECT REFCOUNT`.
pub(crate) static OBJECT_REFCOUNT: Spec = Spec {
    name: "object|refcount",
    id: CommandId::ObjectRefCount,
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many references a value has.",
        since: "2.2.3",
        group: Group::Generic,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Object {
            key: args.arg(2),
            aspect: ObjectAspect::RefCount,
        })
    }),
    ..Spec::BASE
};

/// `OBJECT HELP`.
pub(crate) static OBJECT_HELP: Spec = Spec {
    name: "object|help",
    id: CommandId::ObjectHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::KEYSPACE,
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "6.2.0",
        group: Group::Generic,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `KEYS`.
pub(crate) static KEYS: Spec = Spec {
    name: "keys",
    id: CommandId::Keys,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE.and(Categories::DANGEROUS),
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Concatenate),
    docs: Docs {
        summary: "Returns all keys that fit a pattern.",
        since: "1.0.0",
        group: Group::Generic,
        complexity: "O(N) for N keys in the database.",
        arguments: &[Argument::new("pattern", ArgumentKind::Pattern)],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Keys { pattern: args.arg(1) })),
    ..Spec::BASE
};

/// `SCAN`.
pub(crate) static SCAN: Spec = Spec {
    name: "scan",
    id: CommandId::Scan,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    tips: &["nondeterministic_output", "request_policy:special"],
    route: Route::Scan,
    docs: Docs {
        summary: "Walks through the keys, a few at each call.",
        since: "2.8.0",
        group: Group::Generic,
        complexity: "O(1) for each call, O(N) for the whole walk over N keys.",
        history: &[("6.0.0", "`TYPE`.")],
        arguments: &[
            Argument::integer("cursor"),
            Argument::new("pattern", ArgumentKind::Pattern)
                .token("MATCH")
                .optional(),
            Argument::integer("count").token("COUNT").optional(),
            Argument::string("type").token("TYPE").since("6.0.0").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_scan),
    ..Spec::BASE
};

fn parse_scan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let cursor = cursor(args.arg(1))?;
    let mut options = ScanOptions {
        pattern: None,
        count: 10,
        kind: None,
    };
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let Some(value) = args.get(at + 1) else {
            return Err(ReplyError::Syntax);
        };
        if word.eq_ignore_ascii_case(b"count") {
            let count = number::integer(value)?;
            options.count = u64::try_from(count)
                .ok()
                .filter(|count| *count > 0)
                .ok_or(ReplyError::Syntax)?;
        } else if word.eq_ignore_ascii_case(b"match") {
            options.pattern = Some(value);
        } else if word.eq_ignore_ascii_case(b"type") {
            options.kind = Some(value);
        } else {
            return Err(ReplyError::Syntax);
        }
        at += 2;
    }
    Ok(Command::Scan { cursor, options })
}

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

/// `RANDOMKEY`.
pub(crate) static RANDOMKEY: Spec = Spec {
    name: "randomkey",
    id: CommandId::RandomKey,
    arity: 1,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    route: Route::Everywhere,
    spread: Spread::Split(Merge::RandomKey),
    docs: Docs {
        summary: "Returns a key drawn at random.",
        since: "1.0.0",
        group: Group::Generic,
        ..Docs::BASE
    },
    parse: Some(|_| Ok(Command::RandomKey)),
    ..Spec::BASE
};

/// `DBSIZE`.
pub(crate) static DBSIZE: Spec = Spec {
    name: "dbsize",
    id: CommandId::DbSize,
    arity: 1,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Sum),
    docs: Docs {
        summary: "Counts the keys of the database.",
        since: "1.0.0",
        group: Group::Server,
        ..Docs::BASE
    },
    parse: Some(|_| Ok(Command::DbSize)),
    ..Spec::BASE
};

/// `FLUSHDB`.
pub(crate) static FLUSHDB: Spec = Spec {
    name: "flushdb",
    id: CommandId::FlushDb,
    arity: -1,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE.and(Categories::DANGEROUS),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Ok),
    access: Access::Overwrites,
    docs: Docs {
        summary: "Deletes all keys of the database.",
        since: "1.0.0",
        group: Group::Server,
        complexity: "O(N) for N keys.",
        history: &[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")],
        arguments: &[Argument::one_of(
            "async",
            &[
                Argument::word("async", "ASYNC").since("4.0.0"),
                Argument::word("sync", "SYNC").since("6.2.0"),
            ],
        )
        .optional()],
        ..Docs::BASE
    },
    parse: Some(parse_flushdb),
    ..Spec::BASE
};

fn parse_flushdb(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    check_flush_mode(args)?;
    Ok(Command::Flush { all: false })
}

/// `SYNC` or `ASYNC`, which make no difference here: memory is always freed bit by bit.
fn check_flush_mode(args: Args<'_>) -> Result<(), ReplyError> {
    match (args.len(), args.get(1)) {
        (1, _) => Ok(()),
        (2, Some(word)) if word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async") => {
            Ok(())
        }
        _ => Err(ReplyError::Syntax),
    }
}

/// `FLUSHALL`.
pub(crate) static FLUSHALL: Spec = Spec {
    name: "flushall",
    id: CommandId::FlushAll,
    arity: -1,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE.and(Categories::DANGEROUS),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Ok),
    access: Access::Overwrites,
    docs: Docs {
        summary: "Deletes all keys of all databases.",
        since: "1.0.0",
        group: Group::Server,
        complexity: "O(N) for N keys.",
        history: &[("4.0.0", "`ASYNC`."), ("6.2.0", "`SYNC`.")],
        arguments: &[Argument::one_of(
            "async",
            &[
                Argument::word("async", "ASYNC").since("4.0.0"),
                Argument::word("sync", "SYNC").since("6.2.0"),
            ],
        )
        .optional()],
        ..Docs::BASE
    },
    parse: Some(parse_flushall),
    ..Spec::BASE
};

fn parse_flushall(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    check_flush_mode(args)?;
    Ok(Command::Flush { all: true })
}

/// `SWAPDB`.
pub(crate) static SWAPDB: Spec = Spec {
    name: "swapdb",
    id: CommandId::SwapDb,
    arity: 3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::KEYSPACE.and(Categories::DANGEROUS),
    route: Route::Everywhere,
    spread: Spread::Split(Merge::Ok),
    access: Access::Overwrites,
    docs: Docs {
        summary: "Exchanges the contents of two databases.",
        since: "4.0.0",
        group: Group::Server,
        complexity: "O(N) for N clients that watch keys of either.",
        arguments: &[Argument::integer("index1"), Argument::integer("index2")],
        ..Docs::BASE
    },
    parse: Some(parse_swapdb),
    ..Spec::BASE
};

fn parse_swapdb(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let number = |word, error| {
        number::parse_i64(word)
            .and_then(|number| i32::try_from(number).ok())
            .ok_or(error)
    };
    let a = number(args.arg(1), ReplyError::InvalidFirstDb)?;
    let b = number(args.arg(2), ReplyError::InvalidSecondDb)?;
    let db = |number| {
        u8::try_from(number)
            .ok()
            .and_then(Db::new)
            .ok_or(ReplyError::DbOutOfRange)
    };
    Ok(Command::SwapDb { a: db(a)?, b: db(b)? })
}
