//! Sets.

use crate::docs::{Argument, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::scan::{self, ScanOptions};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::{Command, CommandId, ReplyError, number};
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
    pub fn access(&self) -> Access {
        match self {
            SetCommand::Card { .. } => Access::Metadata,
            SetCommand::IsMember { .. }
            | SetCommand::AreMembers { .. }
            | SetCommand::Members { .. }
            | SetCommand::RandomMember { .. }
            | SetCommand::Combine { .. }
            | SetCommand::InterCard { .. }
            | SetCommand::Scan { .. } => Access::Reads,
            SetCommand::Add { .. }
            | SetCommand::Remove { .. }
            | SetCommand::Pop { .. }
            | SetCommand::Move { .. }
            | SetCommand::CombineStore { .. } => Access::Modifies,
        }
    }
}

const MEMBER: Argument = Argument::string("member");
const COMBINING: &str = "O(N*M) at worst for M sets, the smallest of N members.";
const ALL_MEMBERS: &str = "O(N) for N members of all sets together.";

/// `SADD`.
pub(crate) static SADD: Spec = Spec {
    name: "sadd",
    id: CommandId::SAdd,
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::EXTEND)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds members to a set, which is made if there is none.",
        since: "1.0.0",
        group: Group::Set,
        complexity: "O(1) for each member.",
        history: &[("2.4.0", "Takes several members.")],
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Members(SetCommand::Add {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `SREM`.
pub(crate) static SREM: Spec = Spec {
    name: "srem",
    id: CommandId::SRem,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Removes members from a set, and the key with the last of them.",
        since: "1.0.0",
        group: Group::Set,
        complexity: "O(N) for N members to be removed.",
        history: &[("2.4.0", "Takes several members.")],
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Members(SetCommand::Remove {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `SISMEMBER`.
pub(crate) static SISMEMBER: Spec = Spec {
    name: "sismember",
    id: CommandId::SIsMember,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Tells whether a set has a member.",
        since: "1.0.0",
        group: Group::Set,
        arguments: &[Argument::KEY, MEMBER],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Members(SetCommand::IsMember {
            key: args.arg(1),
            member: args.arg(2),
        }))
    }),
    ..Spec::BASE
};

/// `SMISMEMBER`.
pub(crate) static SMISMEMBER: Spec = Spec {
    name: "smismember",
    id: CommandId::SMIsMember,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Tells of several values whether a set has them.",
        since: "6.2.0",
        group: Group::Set,
        complexity: "O(N) for N values.",
        arguments: &[Argument::KEY, MEMBER.multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Members(SetCommand::AreMembers {
            key: args.arg(1),
            members: args.from(2),
        }))
    }),
    ..Spec::BASE
};

/// `SCARD`.
pub(crate) static SCARD: Spec = Spec {
    name: "scard",
    id: CommandId::SCard,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many members a set has.",
        since: "1.0.0",
        group: Group::Set,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Members(SetCommand::Card { key: args.arg(1) }))),
    ..Spec::BASE
};

/// `SMEMBERS`.
pub(crate) static SMEMBERS: Spec = Spec {
    name: "smembers",
    id: CommandId::SMembers,
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output_order"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Whole,
    docs: Docs {
        summary: "Returns all members of a set.",
        since: "1.0.0",
        group: Group::Set,
        complexity: "O(N) for N members.",
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| Ok(Command::Members(SetCommand::Members { key: args.arg(1) }))),
    ..Spec::BASE
};

/// `SPOP`.
pub(crate) static SPOP: Spec = Spec {
    name: "spop",
    id: CommandId::SPop,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes random members from a set and returns them.",
        since: "1.0.0",
        group: Group::Set,
        complexity: "O(1) without a count, O(N) for a count of N.",
        history: &[("3.2.0", "The count.")],
        arguments: &[
            Argument::KEY,
            Argument::integer("count").since("3.2.0").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_spop),
    ..Spec::BASE
};

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

/// `SRANDMEMBER`.
pub(crate) static SRANDMEMBER: Spec = Spec {
    name: "srandmember",
    id: CommandId::SRandMember,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns random members of a set.",
        since: "1.0.0",
        group: Group::Set,
        complexity: "O(1) without a count, O(N) for a count whose absolute value is N.",
        history: &[("2.6.0", "The count.")],
        arguments: &[
            Argument::KEY,
            Argument::integer("count").since("2.6.0").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_srandmember),
    ..Spec::BASE
};

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

/// `SMOVE`.
pub(crate) static SMOVE: Spec = Spec {
    name: "smove",
    id: CommandId::SMove,
    arity: 4,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::TAKE), KeySpec::at(2, KeyFlags::EXTEND)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    docs: Docs {
        summary: "Moves a member from one set to another.",
        since: "1.0.0",
        group: Group::Set,
        arguments: &[
            Argument::key("source", 0),
            Argument::key("destination", 1),
            MEMBER,
        ],
        ..Docs::BASE
    },
    parse: Some(|args| {
        Ok(Command::Members(SetCommand::Move {
            source: args.arg(1),
            destination: args.arg(2),
            member: args.arg(3),
        }))
    }),
    ..Spec::BASE
};

/// `SINTER`.
pub(crate) static SINTER: Spec = Spec {
    name: "sinter",
    id: CommandId::SInter,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns what is in all of some sets.",
        complexity: COMBINING,
        ..COMBINE.docs
    },
    parse: Some(|args| Ok(combine(SetOperation::Intersection, args))),
    ..COMBINE
};

/// `SUNION`.
pub(crate) static SUNION: Spec = Spec {
    name: "sunion",
    id: CommandId::SUnion,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns what is in any of some sets.",
        complexity: ALL_MEMBERS,
        ..COMBINE.docs
    },
    parse: Some(|args| Ok(combine(SetOperation::Union, args))),
    ..COMBINE
};

/// `SDIFF`.
pub(crate) static SDIFF: Spec = Spec {
    name: "sdiff",
    id: CommandId::SDiff,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns what is in one set and in none of some others.",
        complexity: ALL_MEMBERS,
        ..COMBINE.docs
    },
    parse: Some(|args| Ok(combine(SetOperation::Difference, args))),
    ..COMBINE
};

/// What the three have in common.
const COMBINE: Spec = Spec {
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    keys: &[KeySpec::from(1, KeyFlags::READ)],
    tips: &["nondeterministic_output_order"],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    docs: Docs {
        since: "1.0.0",
        group: Group::Set,
        arguments: &[Argument::KEY.multiple()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

fn combine(operation: SetOperation, args: Args<'_>) -> Command<'_> {
    Command::Members(SetCommand::Combine {
        operation,
        keys: args.from(1),
    })
}

/// `SINTERSTORE`.
pub(crate) static SINTERSTORE: Spec = Spec {
    name: "sinterstore",
    id: CommandId::SInterStore,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST), KeySpec::from(2, KeyFlags::READ)],
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores what is in all of some sets.",
        complexity: COMBINING,
        ..COMBINE_STORE.docs
    },
    parse: Some(|args| Ok(combine_store(SetOperation::Intersection, args))),
    ..COMBINE_STORE
};

/// `SUNIONSTORE`.
pub(crate) static SUNIONSTORE: Spec = Spec {
    name: "sunionstore",
    id: CommandId::SUnionStore,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores what is in any of some sets.",
        complexity: ALL_MEMBERS,
        ..COMBINE_STORE.docs
    },
    parse: Some(|args| Ok(combine_store(SetOperation::Union, args))),
    ..COMBINE_STORE
};

/// `SDIFFSTORE`.
pub(crate) static SDIFFSTORE: Spec = Spec {
    name: "sdiffstore",
    id: CommandId::SDiffStore,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores what is in one set and in none of some others.",
        complexity: ALL_MEMBERS,
        ..COMBINE_STORE.docs
    },
    parse: Some(|args| Ok(combine_store(SetOperation::Difference, args))),
    ..COMBINE_STORE
};

/// What the three have in common.
const COMBINE_STORE: Spec = Spec {
    arity: -3,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::SET,
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::from(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    docs: Docs {
        since: "1.0.0",
        group: Group::Set,
        arguments: &[
            Argument::key("destination", 0),
            Argument::key("key", 1).multiple(),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

fn combine_store(operation: SetOperation, args: Args<'_>) -> Command<'_> {
    Command::Members(SetCommand::CombineStore {
        operation,
        destination: args.arg(1),
        keys: args.from(2),
    })
}

/// `SINTERCARD`.
pub(crate) static SINTERCARD: Spec = Spec {
    name: "sintercard",
    id: CommandId::SInterCard,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    categories: Categories::SET,
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns how many members are in all of some sets.",
        since: "7.0.0",
        group: Group::Set,
        complexity: COMBINING,
        arguments: &[
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::integer("limit").token("LIMIT").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_sintercard),
    ..Spec::BASE
};

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

/// `SSCAN`.
pub(crate) static SSCAN: Spec = Spec {
    name: "sscan",
    id: CommandId::SScan,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns some members of a set, and where to go on.",
        since: "2.8.0",
        group: Group::Set,
        complexity: "O(1) for each call, O(N) for a whole scan of N members.",
        arguments: scan::WITHIN_KEY,
        ..Docs::BASE
    },
    parse: Some(parse_sscan),
    ..Spec::BASE
};

fn parse_sscan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (cursor, options) = scan::parse_within_key(args)?;
    Ok(Command::Members(SetCommand::Scan {
        key: args.arg(1),
        cursor,
        options,
    }))
}
