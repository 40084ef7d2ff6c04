//! Keys of any type: existence, deadlines, names, and the keyspace as a whole.

use crate::deadline::{Base, Unit};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number;
use crate::spec::{Categories, Cost, Flags, Merge, Spec, Spread, ValueAccess};
use crate::{Command, Deadline, ExpireCondition, ObjectAspect, ReplyError, RestoredUse, TtlForm};
use ids::{Db, UnixMillis};
use resp::Args;

pub(crate) const DEL: Spec = Spec::write_several("del", -2)
    .keys(&[KeySpec::from(1, KeyFlags::REMOVE)])
    .tips("request_policy:multi_shard response_policy:agg_sum")
    .spread(Spread::Split(Merge::Sum))
    .access(ValueAccess::Metadata)
    .parse(|args| Ok(Command::Del { keys: args.from(1) }));

pub(crate) const UNLINK: Spec = Spec::write_several("unlink", -2)
    .keys(&[KeySpec::from(1, KeyFlags::REMOVE)])
    .flags(Flags::FAST)
    .tips("request_policy:multi_shard response_policy:agg_sum")
    .spread(Spread::Split(Merge::Sum))
    .access(ValueAccess::Metadata)
    .parse(|args| Ok(Command::Del { keys: args.from(1) }));

pub(crate) const EXISTS: Spec = Spec::read_several("exists", -2)
    .keys(&[KeySpec::from(1, KeyFlags::RO)])
    .flags(Flags::FAST)
    .tips("request_policy:multi_shard response_policy:agg_sum")
    .spread(Spread::Split(Merge::Sum))
    .access(ValueAccess::Metadata)
    .parse(|args| Ok(Command::Exists { keys: args.from(1) }));

pub(crate) const TOUCH: Spec = Spec::read_several("touch", -2)
    .keys(&[KeySpec::from(1, KeyFlags::RO)])
    .flags(Flags::FAST)
    .tips("request_policy:multi_shard response_policy:agg_sum")
    .spread(Spread::Split(Merge::Sum))
    .access(ValueAccess::Metadata)
    .parse(|args| Ok(Command::Touch { keys: args.from(1) }));

pub(crate) const TYPE: Spec = Spec::look("type", 2)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::Type { key: args.arg(1) }));

pub(crate) const EXPIRE: Spec = Spec::write("expire", -3, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| expire(args, "expire", Unit::Seconds, Base::Now));

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

pub(crate) const PEXPIRE: Spec = Spec::write("pexpire", -3, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| expire(args, "pexpire", Unit::Millis, Base::Now));

pub(crate) const EXPIREAT: Spec = Spec::write("expireat", -3, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| expire(args, "expireat", Unit::Seconds, Base::Epoch));

pub(crate) const PEXPIREAT: Spec = Spec::write("pexpireat", -3, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| expire(args, "pexpireat", Unit::Millis, Base::Epoch));

/// `TTL` and its kin: what is left from `base` on.
fn ttl(args: Args<'_>, base: Base, unit: Unit) -> Result<Command<'_>, ReplyError> {
    Ok(Command::Ttl {
        key: args.arg(1),
        form: TtlForm {
            absolute: base == Base::Epoch,
            in_millis: unit == Unit::Millis,
        },
    })
}

pub(crate) const TTL: Spec = Spec::read("ttl", 2)
    .flags(Flags::FAST)
    .tips("nondeterministic_output")
    .access(ValueAccess::Metadata)
    .parse(|args| ttl(args, Base::Now, Unit::Seconds));

pub(crate) const PTTL: Spec = Spec::read("pttl", 2)
    .flags(Flags::FAST)
    .tips("nondeterministic_output")
    .access(ValueAccess::Metadata)
    .parse(|args| ttl(args, Base::Now, Unit::Millis));

pub(crate) const EXPIRETIME: Spec = Spec::read("expiretime", 2)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| ttl(args, Base::Epoch, Unit::Seconds));

pub(crate) const PEXPIRETIME: Spec = Spec::read("pexpiretime", 2)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| ttl(args, Base::Epoch, Unit::Millis));

pub(crate) const PERSIST: Spec = Spec::write("persist", 2, KeySpec::ADJUST)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| Ok(Command::Persist { key: args.arg(1) }));

pub(crate) const RENAME: Spec = Spec::write_several("rename", 3)
    .keys(&[
        KeySpec::at(1, KeyFlags::TAKE),
        KeySpec::at(2, KeyFlags::OVERWRITE),
    ])
    .access(ValueAccess::Metadata)
    .parse(|args| {
        Ok(Command::Rename {
            from: args.arg(1),
            to: args.arg(2),
            only_if_absent: false,
        })
    });

pub(crate) const RENAMENX: Spec = Spec::write_several("renamenx", 3)
    .keys(&[KeySpec::at(1, KeyFlags::TAKE), KeySpec::at(2, KeyFlags::CREATE)])
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| {
        Ok(Command::Rename {
            from: args.arg(1),
            to: args.arg(2),
            only_if_absent: true,
        })
    });

pub(crate) const COPY: Spec = Spec::write_several("copy", -3)
    .keys(&[
        KeySpec::at(1, KeyFlags::READ),
        KeySpec::at(2, KeyFlags::OVERWRITE),
    ])
    .flags(Flags::DENYOOM)
    .access(ValueAccess::Metadata)
    .cost(Cost::Part)
    .parse(parse_copy);

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

pub(crate) const MOVE: Spec = Spec::write("move", 3, KeySpec::CHANGE)
    .flags(Flags::FAST)
    .access(ValueAccess::Metadata)
    .parse(|args| {
        Ok(Command::Move {
            key: args.arg(1),
            db: number::parse_db(args.arg(2))?,
        })
    });

pub(crate) const DUMP: Spec = Spec::read("dump", 2)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(|args| Ok(Command::Dump { key: args.arg(1) }));

pub(crate) const RESTORE: Spec = Spec::write("restore", -4, KeySpec::OVERWRITE)
    .flags(Flags::DENYOOM)
    .of(Categories::DANGEROUS)
    .access(ValueAccess::Overwrites)
    .cost(Cost::Part)
    .parse(restore);

/// What clients send behind `ASKING` where slots move. They never do so here, so it is the same.
pub(crate) const RESTORE_ASKING: Spec = Spec::write("restore-asking", -4, KeySpec::OVERWRITE)
    .flags(Flags::DENYOOM.and(Flags::ASKING))
    .of(Categories::DANGEROUS)
    .access(ValueAccess::Overwrites)
    .cost(Cost::Part)
    .parse(restore);

fn restore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (mut replace, mut is_absolute, mut use_of_key) = (false, false, RestoredUse::New);
    let mut at = 4;
    while let Some(word) = args.get(at) {
        let number = args.get(at + 1);
        if word.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if word.eq_ignore_ascii_case(b"absttl") {
            is_absolute = true;
        } else if let (true, Some(seconds), RestoredUse::New | RestoredUse::Idle(_)) =
            (word.eq_ignore_ascii_case(b"idletime"), number, use_of_key)
        {
            let seconds = number::integer(seconds)?;
            let seconds = u64::try_from(seconds).map_err(|_| ReplyError::IdleTimeNegative)?;
            use_of_key = RestoredUse::Idle(seconds);
            at += 1;
        } else if let (true, Some(frequency), RestoredUse::New | RestoredUse::Frequency(_)) =
            (word.eq_ignore_ascii_case(b"freq"), number, use_of_key)
        {
            let frequency = number::integer(frequency)?;
            let frequency = u8::try_from(frequency).map_err(|_| ReplyError::FrequencyOutOfRange)?;
            use_of_key = RestoredUse::Frequency(frequency);
            at += 1;
        } else {
            return Err(ReplyError::Syntax);
        }
        at += 1;
    }
    let millis = number::integer(args.arg(2))?;
    let deadline = match (millis, is_absolute) {
        (..0, _) => return Err(ReplyError::InvalidTtl),
        (0, _) => None,
        // Whether there is such a time is said when the payload was looked at.
        (_, false) => Some(Deadline::In(millis)),
        (_, true) => Some(Deadline::At(UnixMillis(millis))),
    };
    Ok(Command::Restore {
        key: args.arg(1),
        deadline,
        payload: args.arg(3),
        replace,
        use_of_key,
    })
}

pub(crate) const OBJECT: Spec = Spec::container("object");

fn object(args: Args<'_>, aspect: ObjectAspect) -> Result<Command<'_>, ReplyError> {
    let key = args.arg(2);
    Ok(Command::Object { key, aspect })
}

pub(crate) const OBJECT_ENCODING: Spec = Spec::look("object|encoding", 3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .tips("nondeterministic_output")
    .parse(|args| object(args, ObjectAspect::Encoding));

pub(crate) const OBJECT_FREQ: Spec = Spec::look("object|freq", 3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .tips("nondeterministic_output")
    .parse(|args| object(args, ObjectAspect::Frequency));

pub(crate) const OBJECT_IDLETIME: Spec = Spec::look("object|idletime", 3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .tips("nondeterministic_output")
    .parse(|args| object(args, ObjectAspect::IdleTime));

pub(crate) const OBJECT_REFCOUNT: Spec = Spec::look("object|refcount", 3)
    .keys(&[KeySpec::at(2, KeyFlags::RO)])
    .tips("nondeterministic_output")
    .parse(|args| object(args, ObjectAspect::RefCount));

pub(crate) const OBJECT_HELP: Spec = Spec::help("object|help");

pub(crate) const KEYS: Spec = Spec::new("keys", 2)
    .flags(Flags::READONLY)
    .of(Categories::DANGEROUS)
    .tips("request_policy:all_shards nondeterministic_output_order")
    .everywhere(Merge::Concatenate)
    .parse(|args| Ok(Command::Keys { pattern: args.arg(1) }));

pub(crate) const RANDOMKEY: Spec = Spec::new("randomkey", 1)
    .flags(Flags::READONLY)
    .tips("request_policy:all_shards nondeterministic_output")
    .everywhere(Merge::RandomKey)
    .parse(|_| Ok(Command::RandomKey));

pub(crate) const DBSIZE: Spec = Spec::new("dbsize", 1)
    .flags(Flags::READONLY.and(Flags::FAST))
    .tips("request_policy:all_shards response_policy:agg_sum")
    .everywhere(Merge::Sum)
    .parse(|_| Ok(Command::DbSize));

pub(crate) const FLUSHDB: Spec = Spec::new("flushdb", -1)
    .flags(Flags::WRITE)
    .of(Categories::DANGEROUS)
    .tips("request_policy:all_shards response_policy:all_succeeded")
    .everywhere(Merge::Ok)
    .access(ValueAccess::Overwrites)
    .parse(|args| flush(args, false));

/// `SYNC` or `ASYNC`, which make no difference here: memory is always freed bit by bit.
fn flush(args: Args<'_>, all: bool) -> Result<Command<'_>, ReplyError> {
    match (args.len(), args.get(1)) {
        (1, _) => Ok(Command::Flush { all }),
        (2, Some(word)) if word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async") => {
            Ok(Command::Flush { all })
        }
        _ => Err(ReplyError::Syntax),
    }
}

pub(crate) const FLUSHALL: Spec = Spec::new("flushall", -1)
    .flags(Flags::WRITE)
    .of(Categories::DANGEROUS)
    .tips("request_policy:all_shards response_policy:all_succeeded")
    .everywhere(Merge::Ok)
    .access(ValueAccess::Overwrites)
    .parse(|args| flush(args, true));

pub(crate) const SWAPDB: Spec = Spec::new("swapdb", 3)
    .flags(Flags::WRITE.and(Flags::FAST))
    .of(Categories::DANGEROUS)
    .everywhere(Merge::Ok)
    .access(ValueAccess::Overwrites)
    .parse(parse_swapdb);

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
