//! Commands that wait for a list or sorted set to be filled.
//!
//! As effects they are pops like any others, which answer nil if there is nothing to pop: that is all they are inside
//! `MULTI`. The gateway makes a client wait that is answered nil outside of it.

use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::key_spec::{KeyFlags, KeySpec};
use crate::list::ListEnd;
use crate::sorted_set::SortedSetEnd;
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::{Command, CommandId, ReplyError, number, pop_first};
use resp::Args;

/// One command that may wait.
#[derive(Clone, Copy, Debug)]
pub struct BlockingCommand<'a> {
    /// What it pops.
    pub pop: BlockingPop<'a>,
    /// How long it waits, in milliseconds; `None`: for ever.
    pub timeout_millis: Option<u64>,
}

/// What a command that may wait pops.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum BlockingPop<'a> {
    /// `BLPOP`, `BRPOP`: one element, with its key.
    One { keys: Args<'a>, end: ListEnd },
    /// `BLMPOP`: up to `count` elements of the first list that has any.
    Many {
        keys: Args<'a>,
        end: ListEnd,
        count: u64,
    },
    /// `BLMOVE`, `BRPOPLPUSH`.
    Move {
        from: &'a [u8],
        to: &'a [u8],
        from_end: ListEnd,
        to_end: ListEnd,
    },
    /// `BZPOPMIN`, `BZPOPMAX`: one member, with key and score.
    OneScored { keys: Args<'a>, end: SortedSetEnd },
    /// `BZMPOP`.
    ManyScored {
        keys: Args<'a>,
        end: SortedSetEnd,
        count: u64,
    },
}

impl<'a> BlockingPop<'a> {
    /// The keys that may be filled while the client waits.
    pub fn awaited(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (one, many) = match *self {
            BlockingPop::One { keys, .. }
            | BlockingPop::Many { keys, .. }
            | BlockingPop::OneScored { keys, .. }
            | BlockingPop::ManyScored { keys, .. } => (None, Some(keys)),
            BlockingPop::Move { from, .. } => (Some(from), None),
        };
        one.into_iter()
            .chain(many.into_iter().flat_map(|keys| keys.iter()))
    }
}

/// The last word of `BLPOP` and its kin, the first of `BLMPOP`: seconds, with a fraction.
fn timeout(word: &[u8]) -> Result<Option<u64>, ReplyError> {
    // Infinity is a number, and then too much or negative.
    let seconds = number::LongDouble::parse(word)
        .map(|_| number::parse_double_prefix(word).0)
        .ok_or(ReplyError::TimeoutNotAFloat)?;
    let millis = (seconds * 1_000.0).ceil();
    if millis > i64::MAX as f64 {
        return Err(ReplyError::TimeoutOutOfRange);
    }
    if millis < 0.0 || seconds < 0.0 {
        return Err(ReplyError::TimeoutNegative);
    }
    Ok((millis > 0.0).then_some(millis as u64))
}

fn blocking<'a>(pop: BlockingPop<'a>, timeout_word: &[u8]) -> Result<Command<'a>, ReplyError> {
    Ok(Command::Blocking(BlockingCommand {
        pop,
        timeout_millis: timeout(timeout_word)?,
    }))
}

fn parse_pop(args: Args<'_>, end: ListEnd) -> Result<Command<'_>, ReplyError> {
    let last = args.len() - 1;
    let keys = args.slice(1..last);
    blocking(BlockingPop::One { keys, end }, args.arg(last))
}

fn parse_pop_scored(args: Args<'_>, end: SortedSetEnd) -> Result<Command<'_>, ReplyError> {
    let last = args.len() - 1;
    let keys = args.slice(1..last);
    blocking(BlockingPop::OneScored { keys, end }, args.arg(last))
}

fn parse_pop_many(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (keys, end, count) = pop_first::parse(args.from(2), ListEnd::parse)?;
    blocking(BlockingPop::Many { keys, end, count }, args.arg(1))
}

fn parse_pop_many_scored(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (keys, end, count) = pop_first::parse(args.from(2), SortedSetEnd::parse)?;
    blocking(BlockingPop::ManyScored { keys, end, count }, args.arg(1))
}

fn parse_move(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let pop = BlockingPop::Move {
        from: args.arg(1),
        to: args.arg(2),
        from_end: ListEnd::parse(args.arg(3))?,
        to_end: ListEnd::parse(args.arg(4))?,
    };
    blocking(pop, args.arg(5))
}

/// Keys, and the timeout behind them.
const KEYS_BUT_LAST: KeySpec = KeySpec {
    last: -2,
    ..KeySpec::from(1, KeyFlags::TAKE)
};

const FLAGS: Flags = Flags::WRITE.and(Flags::NOSCRIPT).and(Flags::BLOCKING);

const TIMEOUT: Argument = Argument::new("timeout", ArgumentKind::Double);

const TIMEOUT_HISTORY: &[(&str, &str)] = &[("6.0.0", "The timeout may have a fraction.")];

const SIDES: &[Argument] = &[Argument::word("left", "LEFT"), Argument::word("right", "RIGHT")];

const BASE: Spec = Spec {
    flags: FLAGS,
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    ..Spec::BASE
};

/// `BLPOP`.
pub(crate) static BLPOP: Spec = Spec {
    name: "blpop",
    id: CommandId::BLPop,
    arity: -3,
    categories: Categories::LIST,
    keys: &[KEYS_BUT_LAST],
    docs: Docs {
        summary: "Takes the first element of the first list that has any, waiting for one if need be.",
        since: "2.0.0",
        group: Group::List,
        complexity: "O(N) where N is the number of provided keys.",
        history: TIMEOUT_HISTORY,
        arguments: &[Argument::KEY.multiple(), TIMEOUT],
        ..Docs::BASE
    },
    parse: Some(|args| parse_pop(args, ListEnd::Left)),
    ..BASE
};

/// `BRPOP`.
pub(crate) static BRPOP: Spec = Spec {
    name: "brpop",
    id: CommandId::BRPop,
    arity: -3,
    categories: Categories::LIST,
    keys: &[KEYS_BUT_LAST],
    docs: Docs {
        summary: "Takes the last element of the first list that has any, waiting for one if need be.",
        since: "2.0.0",
        group: Group::List,
        complexity: "O(N) where N is the number of provided keys.",
        history: TIMEOUT_HISTORY,
        arguments: &[Argument::KEY.multiple(), TIMEOUT],
        ..Docs::BASE
    },
    parse: Some(|args| parse_pop(args, ListEnd::Right)),
    ..BASE
};

const MOVE_KEYS: &[KeySpec] = &[KeySpec::at(1, KeyFlags::TAKE), KeySpec::at(2, KeyFlags::EXTEND)];

/// `BLMOVE`.
pub(crate) static BLMOVE: Spec = Spec {
    name: "blmove",
    id: CommandId::BLMove,
    arity: 6,
    flags: FLAGS.and(Flags::DENYOOM),
    categories: Categories::LIST,
    keys: MOVE_KEYS,
    docs: Docs {
        summary: "Moves an element from one list to another, waiting for one if need be.",
        since: "6.2.0",
        group: Group::List,
        arguments: &[
            Argument::key("source", 0),
            Argument::key("destination", 1),
            Argument::one_of("wherefrom", SIDES),
            Argument::one_of("whereto", SIDES),
            TIMEOUT,
        ],
        ..Docs::BASE
    },
    parse: Some(parse_move),
    ..BASE
};

/// `BRPOPLPUSH`.
pub(crate) static BRPOPLPUSH: Spec = Spec {
    name: "brpoplpush",
    id: CommandId::BRPopLPush,
    arity: 4,
    flags: FLAGS.and(Flags::DENYOOM),
    categories: Categories::LIST,
    keys: MOVE_KEYS,
    docs: Docs {
        summary: "Moves the last element of one list to the front of another, waiting for one if need be.",
        since: "2.2.0",
        group: Group::List,
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
        }),
        history: TIMEOUT_HISTORY,
        arguments: &[
            Argument::key("source", 0),
            Argument::key("destination", 1),
            TIMEOUT,
        ],
        ..Docs::BASE
    },
    parse: Some(|args| {
        let pop = BlockingPop::Move {
            from: args.arg(1),
            to: args.arg(2),
            from_end: ListEnd::Right,
            to_end: ListEnd::Left,
        };
        blocking(pop, args.arg(3))
    }),
    ..BASE
};

/// `BLMPOP`.
pub(crate) static BLMPOP: Spec = Spec {
    name: "blmpop",
    id: CommandId::BLMPop,
    arity: -5,
    flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLEKEYS),
    categories: Categories::LIST,
    keys: &[KeySpec::counted(2, KeyFlags::TAKE)],
    walks: Walks::Part,
    docs: Docs {
        summary: "Takes elements of the first list that has any, waiting for one if need be.",
        since: "7.0.0",
        group: Group::List,
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        arguments: &[
            TIMEOUT,
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::one_of("where", SIDES),
            Argument::integer("count").token("COUNT").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_pop_many),
    ..BASE
};

/// `BZPOPMIN`.
pub(crate) static BZPOPMIN: Spec = Spec {
    name: "bzpopmin",
    id: CommandId::BZPopMin,
    arity: -3,
    flags: FLAGS.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KEYS_BUT_LAST],
    docs: Docs {
        summary: "Takes the member with the lowest score, waiting for one if need be.",
        since: "5.0.0",
        group: Group::SortedSet,
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        history: TIMEOUT_HISTORY,
        arguments: &[Argument::KEY.multiple(), TIMEOUT],
        ..Docs::BASE
    },
    parse: Some(|args| parse_pop_scored(args, SortedSetEnd::Min)),
    ..BASE
};

/// `BZPOPMAX`.
pub(crate) static BZPOPMAX: Spec = Spec {
    name: "bzpopmax",
    id: CommandId::BZPopMax,
    arity: -3,
    flags: FLAGS.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KEYS_BUT_LAST],
    docs: Docs {
        summary: "Takes the member with the highest score, waiting for one if need be.",
        since: "5.0.0",
        group: Group::SortedSet,
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        history: TIMEOUT_HISTORY,
        arguments: &[Argument::KEY.multiple(), TIMEOUT],
        ..Docs::BASE
    },
    parse: Some(|args| parse_pop_scored(args, SortedSetEnd::Max)),
    ..BASE
};

/// `BZMPOP`.
pub(crate) static BZMPOP: Spec = Spec {
    name: "bzmpop",
    id: CommandId::BZMPop,
    arity: -5,
    flags: Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::counted(2, KeyFlags::TAKE)],
    walks: Walks::Part,
    docs: Docs {
        summary: "Takes members of the first sorted set that has any, waiting for one if need be.",
        since: "7.0.0",
        group: Group::SortedSet,
        complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements \
                     in the sorted set, and M being the number of elements popped.",
        arguments: &[
            TIMEOUT,
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::one_of(
                "where",
                &[Argument::word("min", "MIN"), Argument::word("max", "MAX")],
            ),
            Argument::integer("count").token("COUNT").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_pop_many_scored),
    ..BASE
};
