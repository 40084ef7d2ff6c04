//! Strings: text, bytes and counters.

use crate::deadline::{Base, Unit};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number::{self, LongDouble};
use crate::spec::{Cost, Flags, Merge, Spec, Spread, ValueAccess};
use crate::word::Word;
use crate::{Command, Deadline, LcsOutput, ReplyError, SetCondition, SetExpiry, SetReply, VALUE_BYTES_MAX};
use resp::Args;

pub(crate) const GET: Spec = Spec::read("get", 2)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::Get { key: args.arg(1) }));

const SET_KEY: &[KeySpec] = &[KeySpec::at(1, KeyFlags::CHANGE.and(KeyFlags::VARIABLE_FLAGS))
    .notes("Reads the value with `GET` or `IFEQ`.")];

pub(crate) const SET: Spec = Spec::write("set", -3, SET_KEY)
    .flags(Flags::DENYOOM)
    .access(ValueAccess::Overwrites)
    .parse(parse_set);

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

pub(crate) const SETEX: Spec = Spec::write("setex", 4, KeySpec::OVERWRITE)
    .flags(Flags::DENYOOM)
    .access(ValueAccess::Overwrites)
    .parse(parse_setex);

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

pub(crate) const PSETEX: Spec = Spec::write("psetex", 4, KeySpec::OVERWRITE)
    .flags(Flags::DENYOOM)
    .access(ValueAccess::Overwrites)
    .parse(parse_psetex);

fn parse_psetex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    with_time_to_live(args, Unit::Millis, "psetex")
}

pub(crate) const SETNX: Spec = Spec::write("setnx", 3, KeySpec::CREATE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .access(ValueAccess::Overwrites)
    .parse(parse_setnx);

fn parse_setnx(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::Set {
        key: args.arg(1),
        value: args.arg(2),
        condition: SetCondition::IfAbsent,
        expiry: SetExpiry::Clear,
        reply: SetReply::Integer,
    })
}

pub(crate) const GETSET: Spec = Spec::write("getset", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_getset);

fn parse_getset(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::Set {
        key: args.arg(1),
        value: args.arg(2),
        condition: SetCondition::Always,
        expiry: SetExpiry::Clear,
        reply: SetReply::Old,
    })
}

const GETEX_KEY: &[KeySpec] = &[KeySpec::at(1, KeyFlags::CHANGE).notes("Changes the time to live.")];

pub(crate) const GETEX: Spec = Spec::write("getex", -2, GETEX_KEY)
    .flags(Flags::FAST)
    .access(ValueAccess::Reads)
    .parse(parse_getex);

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

pub(crate) const GETDEL: Spec = Spec::write("getdel", 2, KeySpec::TAKE)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::GetDel { key: args.arg(1) }));

pub(crate) const MGET: Spec = Spec::read_several("mget", -2)
    .keys(&[KeySpec::from(1, KeyFlags::READ)])
    .flags(Flags::FAST)
    .tips("request_policy:multi_shard")
    .spread(Spread::Split(Merge::ByPosition))
    .parse(|args| Ok(Command::MGet { keys: args.from(1) }));

pub(crate) const MSET: Spec = Spec::write_several("mset", -3)
    .keys(&[KeySpec::from(1, KeyFlags::OVERWRITE).step(2)])
    .flags(Flags::DENYOOM)
    .tips("request_policy:multi_shard response_policy:all_succeeded")
    .spread(Spread::Split(Merge::Ok))
    .access(ValueAccess::Overwrites)
    .parse(parse_mset);

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

pub(crate) const MSETNX: Spec = Spec::write_several("msetnx", -3)
    .keys(&[KeySpec::from(1, KeyFlags::CREATE).step(2)])
    .flags(Flags::DENYOOM)
    .tips("request_policy:multi_shard response_policy:agg_min")
    .spread(Spread::IfAllAbsent)
    .access(ValueAccess::Overwrites)
    .parse(parse_msetnx);

fn parse_msetnx(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::MSetNx {
        pairs: pairs(args, "msetnx")?,
    })
}

pub(crate) const APPEND: Spec = Spec::write("append", 3, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::Append {
            key: args.arg(1),
            value: args.arg(2),
        })
    });

pub(crate) const STRLEN: Spec = Spec::look("strlen", 2)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::StrLen { key: args.arg(1) }));

pub(crate) const INCR: Spec = Spec::write("incr", 2, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::IncrBy {
            key: args.arg(1),
            by: 1,
        })
    });

pub(crate) const DECR: Spec = Spec::write("decr", 2, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::IncrBy {
            key: args.arg(1),
            by: -1,
        })
    });

pub(crate) const INCRBY: Spec = Spec::write("incrby", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::IncrBy {
            key: args.arg(1),
            by: number::integer(args.arg(2))?,
        })
    });

pub(crate) const DECRBY: Spec = Spec::write("decrby", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_decrby);

fn parse_decrby(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let decrement = number::integer(args.arg(2))?;
    let by = decrement.checked_neg().ok_or(ReplyError::DecrementOverflow)?;
    Ok(Command::IncrBy { key: args.arg(1), by })
}

pub(crate) const INCRBYFLOAT: Spec = Spec::write("incrbyfloat", 3, KeySpec::CHANGE)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(parse_incrbyfloat);

fn parse_incrbyfloat(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let by = LongDouble::parse(args.arg(2)).ok_or(ReplyError::NotAFloat)?;
    Ok(Command::IncrByFloat { key: args.arg(1), by })
}

pub(crate) const GETRANGE: Spec = Spec::read("getrange", 4).parse(parse_getrange);

fn parse_getrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let start = number::integer(args.arg(2))?;
    let end = number::integer(args.arg(3))?;
    Ok(Command::GetRange {
        key: args.arg(1),
        start,
        end,
    })
}

pub(crate) const SUBSTR: Spec = Spec::read("substr", 4).parse(parse_getrange);

pub(crate) const SETRANGE: Spec = Spec::write("setrange", 4, KeySpec::ADJUST)
    .flags(Flags::DENYOOM)
    .parse(parse_setrange);

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

pub(crate) const LCS: Spec = Spec::read_several("lcs", -3)
    .keys(&[KeySpec::at(1, KeyFlags::READ).last(1)])
    .cost(Cost::Part)
    .parse(parse_lcs);

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
