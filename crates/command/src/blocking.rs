//! Commands that wait for a list or sorted set to be filled, or for a stream to grow.
//!
//! As effects they are pops like any others, which answer nil if there is nothing to pop: that is all they are inside
//! `MULTI`. The gateway makes a client wait that is answered nil outside of it.

use crate::key_spec::{KeyFlags, KeySpec};
use crate::list::ListEnd;
use crate::sorted_set::SortedSetEnd;
use crate::spec::{Cost, Flags, Spec};
use crate::stream::{self, StreamRead};
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
    /// `XREAD`, `XREADGROUP` with `BLOCK`.
    Streams(StreamRead<'a>),
}

impl<'a> BlockingPop<'a> {
    /// Whether it changes anything: `XREAD` takes nothing away.
    pub fn writes(&self) -> bool {
        match self {
            BlockingPop::One { .. }
            | BlockingPop::Many { .. }
            | BlockingPop::Move { .. }
            | BlockingPop::OneScored { .. }
            | BlockingPop::ManyScored { .. } => true,
            BlockingPop::Streams(read) => read.writes(),
        }
    }

    /// The keys that may be filled while the client waits.
    pub fn awaited(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (one, many) = match *self {
            BlockingPop::One { keys, .. }
            | BlockingPop::Many { keys, .. }
            | BlockingPop::OneScored { keys, .. }
            | BlockingPop::ManyScored { keys, .. }
            | BlockingPop::Streams(StreamRead { keys, .. }) => (None, Some(keys)),
            BlockingPop::Move { from, .. } => (Some(from), None),
        };
        one.into_iter()
            .chain(many.into_iter().flat_map(|keys| keys.iter()))
    }
}

/// Whether these words ask to wait: of most commands that may wait, all do.
pub fn waits(spec: &Spec, args: Args<'_>) -> bool {
    match spec.id {
        CommandId::XRead | CommandId::XReadGroup => stream::has_block(args),
        _ => spec.flags.contains(Flags::BLOCKING),
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
const KEYS_BUT_LAST: &[KeySpec] = &[KeySpec::at(1, KeyFlags::TAKE).last(-2)];

const WAITS: Flags = Flags::NOSCRIPT.and(Flags::BLOCKING);

pub(crate) const BLPOP: Spec = Spec::write_several("blpop", -3)
    .keys(KEYS_BUT_LAST)
    .flags(WAITS)
    .parse(|args| parse_pop(args, ListEnd::Left));

pub(crate) const BRPOP: Spec = Spec::write_several("brpop", -3)
    .keys(KEYS_BUT_LAST)
    .flags(WAITS)
    .parse(|args| parse_pop(args, ListEnd::Right));

pub(crate) const BLMOVE: Spec = Spec::write_several("blmove", 6)
    .keys(KeySpec::MOVE)
    .flags(WAITS.and(Flags::DENYOOM))
    .parse(parse_move);

pub(crate) const BRPOPLPUSH: Spec = Spec::write_several("brpoplpush", 4)
    .keys(KeySpec::MOVE)
    .flags(WAITS.and(Flags::DENYOOM))
    .parse(|args| {
        let pop = BlockingPop::Move {
            from: args.arg(1),
            to: args.arg(2),
            from_end: ListEnd::Right,
            to_end: ListEnd::Left,
        };
        blocking(pop, args.arg(3))
    });

pub(crate) const BLMPOP: Spec = Spec::write_several("blmpop", -5)
    .keys(&[KeySpec::counted(2, KeyFlags::TAKE)])
    .flags(Flags::BLOCKING.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(parse_pop_many);

pub(crate) const BZPOPMIN: Spec = Spec::write_several("bzpopmin", -3)
    .keys(KEYS_BUT_LAST)
    .flags(WAITS.and(Flags::FAST))
    .parse(|args| parse_pop_scored(args, SortedSetEnd::Min));

pub(crate) const BZPOPMAX: Spec = Spec::write_several("bzpopmax", -3)
    .keys(KEYS_BUT_LAST)
    .flags(WAITS.and(Flags::FAST))
    .parse(|args| parse_pop_scored(args, SortedSetEnd::Max));

pub(crate) const BZMPOP: Spec = Spec::write_several("bzmpop", -5)
    .keys(&[KeySpec::counted(2, KeyFlags::TAKE)])
    .flags(Flags::BLOCKING.and(Flags::MOVABLEKEYS))
    .cost(Cost::Part)
    .parse(parse_pop_many_scored);
