//! Sets.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::scan::{self, ScanOptions};
use crate::spec::{Cost, Flags, Spec, ValueAccess};
use crate::{Command, ReplyError, number};
use resp::Args;

/// One command on sets.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum SetCommand<'a> {
    /// `SADD key member [member ...]`.
    Add { key: &'a [u8], members: Args<'a> },
    /// `SREM key member [member ...]`.
    Remove { key: &'a [u8], members: Args<'a> },
    /// `SISMEMBER key member`.
    IsMember { key: &'a [u8], member: &'a [u8] },
    /// `SMISMEMBER key member [member ...]`.
    AreMembers { key: &'a [u8], members: Args<'a> },
    /// `SCARD key`.
    Card { key: &'a [u8] },
    /// `SMEMBERS key`.
    Members { key: &'a [u8] },
    /// `SPOP key [count]`.
    Pop { key: &'a [u8], count: Option<u64> },
    /// `SRANDMEMBER key [count]`: a negative count lets members be picked more than once.
    RandomMember { key: &'a [u8], count: Option<i64> },
    /// `SMOVE source destination member`.
    Move {
        source: &'a [u8],
        destination: &'a [u8],
        member: &'a [u8],
    },
    /// `SINTER`, `SUNION`, `SDIFF`.
    Combine { operation: SetOperation, keys: Args<'a> },
    /// `SINTERSTORE`, `SUNIONSTORE`, `SDIFFSTORE`.
    CombineStore {
        operation: SetOperation,
        destination: &'a [u8],
        keys: Args<'a>,
    },
    /// `SINTERCARD numkeys key [key ...] [LIMIT limit]`: a limit of 0 is none.
    InterCard { keys: Args<'a>, limit: u64 },
    /// `SSCAN key cursor ..`.
    Scan {
        key: &'a [u8],
        cursor: u64,
        options: ScanOptions<'a>,
    },
}

/// How several sets, or sorted sets, become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOperation {
    /// What is in all of them.
    Intersection,
    /// What is in any of them.
    Union,
    /// What is in the first and in none of the others.
    Difference,
}

impl SetCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            SetCommand::Add { .. }
            | SetCommand::Remove { .. }
            | SetCommand::Pop { .. }
            | SetCommand::Move { .. }
            | SetCommand::CombineStore { .. } => true,
            SetCommand::IsMember { .. }
            | SetCommand::AreMembers { .. }
            | SetCommand::Card { .. }
            | SetCommand::Members { .. }
            | SetCommand::RandomMember { .. }
            | SetCommand::Combine { .. }
            | SetCommand::InterCard { .. }
            | SetCommand::Scan { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> ValueAccess {
        match self {
            SetCommand::Card { .. } => ValueAccess::Metadata,
            SetCommand::IsMember { .. }
            | SetCommand::AreMembers { .. }
            | SetCommand::Members { .. }
            | SetCommand::RandomMember { .. }
            | SetCommand::Combine { .. }
            | SetCommand::InterCard { .. }
            | SetCommand::Scan { .. } => ValueAccess::Reads,
            SetCommand::Add { .. }
            | SetCommand::Remove { .. }
            | SetCommand::Pop { .. }
            | SetCommand::Move { .. }
            | SetCommand::CombineStore { .. } => ValueAccess::Modifies,
        }
    }
}

pub(crate) const SADD: Spec = Spec::write("sadd", -3, KeySpec::EXTEND)
    .flags(Flags::DENYOOM.and(Flags::FAST))
    .parse(|args| {
        Ok(Command::Members(SetCommand::Add {
            key: args.arg(1),
            members: args.from(2),
        }))
    });

pub(crate) const SREM: Spec = Spec::write("srem", -3, KeySpec::SHRINK)
    .flags(Flags::FAST)
    .parse(|args| {
        Ok(Command::Members(SetCommand::Remove {
            key: args.arg(1),
            members: args.from(2),
        }))
    });

pub(crate) const SISMEMBER: Spec = Spec::read("sismember", 3)
    .keys(KeySpec::LOOK)
    .flags(Flags::FAST)
    .parse(|args| {
        Ok(Command::Members(SetCommand::IsMember {
            key: args.arg(1),
            member: args.arg(2),
        }))
    });

pub(crate) const SMISMEMBER: Spec = Spec::read("smismember", -3).flags(Flags::FAST).parse(|args| {
    Ok(Command::Members(SetCommand::AreMembers {
        key: args.arg(1),
        members: args.from(2),
    }))
});

pub(crate) const SCARD: Spec = Spec::look("scard", 2)
    .flags(Flags::FAST)
    .parse(|args| Ok(Command::Members(SetCommand::Card { key: args.arg(1) })));

pub(crate) const SMEMBERS: Spec = Spec::read("smembers", 2)
    .tips("nondeterministic_output_order")
    .cost(Cost::Whole)
    .parse(|args| Ok(Command::Members(SetCommand::Members { key: args.arg(1) })));

pub(crate) const SPOP: Spec = Spec::write("spop", -2, KeySpec::TAKE)
    .flags(Flags::FAST)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_spop);

fn parse_spop(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    if args.len() > 3 {
        return Err(ReplyError::Syntax);
    }
    let count = args
        .get(2)
        .map(|word| number::natural(word, ReplyError::NotPositive));
    Ok(Command::Members(SetCommand::Pop {
        key: args.arg(1),
        count: count.transpose()?,
    }))
}

pub(crate) const SRANDMEMBER: Spec = Spec::read("srandmember", -2)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_srandmember);

fn parse_srandmember(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    if args.len() > 3 {
        return Err(ReplyError::Syntax);
    }
    let count = args.get(2).map(number::integer).transpose()?;
    if count == Some(i64::MIN) {
        return Err(ReplyError::NotNegatable);
    }
    Ok(Command::Members(SetCommand::RandomMember {
        key: args.arg(1),
        count,
    }))
}

pub(crate) const SMOVE: Spec = Spec::write_several("smove", 4)
    .keys(KeySpec::MOVE)
    .flags(Flags::FAST)
    .parse(|args| {
        Ok(Command::Members(SetCommand::Move {
            source: args.arg(1),
            destination: args.arg(2),
            member: args.arg(3),
        }))
    });

pub(crate) const SINTER: Spec = Spec::read_several("sinter", -2)
    .keys(&[KeySpec::from(1, KeyFlags::READ)])
    .tips("nondeterministic_output_order")
    .cost(Cost::Part)
    .parse(|args| Ok(combine(SetOperation::Intersection, args)));

pub(crate) const SUNION: Spec = Spec::read_several("sunion", -2)
    .keys(&[KeySpec::from(1, KeyFlags::READ)])
    .tips("nondeterministic_output_order")
    .cost(Cost::Part)
    .parse(|args| Ok(combine(SetOperation::Union, args)));

pub(crate) const SDIFF: Spec = Spec::read_several("sdiff", -2)
    .keys(&[KeySpec::from(1, KeyFlags::READ)])
    .tips("nondeterministic_output_order")
    .cost(Cost::Part)
    .parse(|args| Ok(combine(SetOperation::Difference, args)));

fn combine(operation: SetOperation, args: Args<'_>) -> Command<'_> {
    Command::Members(SetCommand::Combine {
        operation,
        keys: args.from(1),
    })
}

pub(crate) const SINTERSTORE: Spec = Spec::write_several("sinterstore", -3)
    .keys(&[KeySpec::at(1, KeyFlags::ADJUST), KeySpec::from(2, KeyFlags::READ)])
    .flags(Flags::DENYOOM)
    .cost(Cost::Part)
    .parse(|args| Ok(combine_store(SetOperation::Intersection, args)));

pub(crate) const SUNIONSTORE: Spec = Spec::write_several("sunionstore", -3)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::from(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM)
    .cost(Cost::Part)
    .parse(|args| Ok(combine_store(SetOperation::Union, args)));

pub(crate) const SDIFFSTORE: Spec = Spec::write_several("sdiffstore", -3)
    .keys(&[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::from(2, KeyFlags::READ),
    ])
    .flags(Flags::DENYOOM)
    .cost(Cost::Part)
    .parse(|args| Ok(combine_store(SetOperation::Difference, args)));

fn combine_store(operation: SetOperation, args: Args<'_>) -> Command<'_> {
    Command::Members(SetCommand::CombineStore {
        operation,
        destination: args.arg(1),
        keys: args.from(2),
    })
}

pub(crate) const SINTERCARD: Spec = Spec::read_several("sintercard", -3)
    .keys(&[KeySpec::counted(1, KeyFlags::READ)])
    .flags(Flags::MOVABLEKEYS)
    .cost(Cost::Part)
    .parse(parse_sintercard);

fn parse_sintercard(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let count = number::positive(args.arg(1), ReplyError::NumKeysNotPositive)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > args.len() - 2 {
        return Err(ReplyError::NumKeysTooLarge);
    }
    let (mut at, mut limit) = (2 + count, 0);
    while let Some(word) = args.get(at) {
        let Some(value) = args.get(at + 1).filter(|_| word.eq_ignore_ascii_case(b"limit")) else {
            return Err(ReplyError::Syntax);
        };
        limit = number::natural(value, ReplyError::LimitNegative)?;
        at += 2;
    }
    Ok(Command::Members(SetCommand::InterCard {
        keys: args.slice(2..2 + count),
        limit,
    }))
}

pub(crate) const SSCAN: Spec = Spec::read("sscan", -3)
    .tips("nondeterministic_output")
    .cost(Cost::Part)
    .parse(parse_sscan);

fn parse_sscan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (cursor, options) = scan::parse_within_key(args)?;
    Ok(Command::Members(SetCommand::Scan {
        key: args.arg(1),
        cursor,
        options,
    }))
}
