//! Sorted sets: the words of their commands, read.

use super::{
    AddOptions, Aggregate, Combination, MemberBound, RangeQuery, ScoreBound, SortedRange, SortedSetCommand,
    SortedSetEnd, score,
};
use crate::number::{self, parse_double_prefix};
use crate::set::SetOperation;
use crate::word::Word;
use crate::{Command, ReplyError, pop_first, scan};
use resp::Args;

/// Makes the parser's result of a command.
pub(super) fn command(command: SortedSetCommand<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::SortedSet(command))
}

const AGGREGATE: Word = Word::new(b"aggregate");
const BYLEX: Word = Word::new(b"bylex");
const BYSCORE: Word = Word::new(b"byscore");
const CH: Word = Word::new(b"ch");
const GT: Word = Word::new(b"gt");
const INCR: Word = Word::new(b"incr");
const LIMIT: Word = Word::new(b"limit");
const LT: Word = Word::new(b"lt");
const MAX: Word = Word::new(b"max");
const MIN: Word = Word::new(b"min");
const NX: Word = Word::new(b"nx");
const REV: Word = Word::new(b"rev");
const SUM: Word = Word::new(b"sum");
const WEIGHTS: Word = Word::new(b"weights");
const WITHSCORE: Word = Word::new(b"withscore");
const WITHSCORES: Word = Word::new(b"withscores");
const XX: Word = Word::new(b"xx");

pub(super) fn parse_zadd(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_add(args, AddOptions::default())
}

/// `ZINCRBY` takes the options of `ZADD` for what they are, too, and then has no pair left.
pub(super) fn parse_zincrby(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let options = AddOptions {
        adds_up: true,
        ..AddOptions::default()
    };
    parse_add(args, options)
}

fn parse_add(args: Args<'_>, mut options: AddOptions) -> Result<Command<'_>, ReplyError> {
    let mut at = 2;
    while let Some(word) = args.get(at) {
        match Word::new(word) {
            NX => options.if_absent = true,
            XX => options.if_present = true,
            GT => options.if_greater = true,
            LT => options.if_less = true,
            CH => options.counts_changes = true,
            INCR => options.adds_up = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = args.from(at);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(ReplyError::Syntax);
    }
    if options.if_absent && options.if_present {
        return Err(ReplyError::AddNxAndXx);
    }
    let comparisons = [options.if_greater, options.if_less, options.if_absent];
    if comparisons.iter().filter(|is_set| **is_set).count() > 1 {
        return Err(ReplyError::AddGtLtAndNx);
    }
    if options.adds_up && pairs.len() > 2 {
        return Err(ReplyError::AddIncrOfSeveral);
    }
    if pairs.iter().step_by(2).any(|word| score(word).is_none()) {
        return Err(ReplyError::NotAFloat);
    }
    command(SortedSetCommand::Add {
        key: args.arg(1),
        options,
        pairs,
    })
}

pub(super) fn parse_zrank(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_rank(args, "zrank", false)
}

pub(super) fn parse_zrevrank(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_rank(args, "zrevrank", true)
}

fn parse_rank<'a>(args: Args<'a>, name: &'static str, reverse: bool) -> Result<Command<'a>, ReplyError> {
    let with_score = match args.get(3).map(Word::new) {
        _ if args.len() > 4 => return Err(ReplyError::WrongArity(name)),
        None => false,
        Some(WITHSCORE) => true,
        Some(_) => return Err(ReplyError::Syntax),
    };
    command(SortedSetCommand::Rank {
        key: args.arg(1),
        member: args.arg(2),
        reverse,
        with_score,
    })
}

impl<'a> SortedRange<'a> {
    fn ranks(start: &[u8], end: &[u8]) -> Result<SortedRange<'a>, ReplyError> {
        Ok(SortedRange::Ranks {
            start: number::integer(start)?,
            end: number::integer(end)?,
        })
    }

    /// As Redis reads it: more leniently than a score.
    fn scores(min: &[u8], max: &[u8]) -> Result<SortedRange<'a>, ReplyError> {
        let bound = |word: &[u8]| {
            let (is_exclusive, number) = match word {
                [b'(', number @ ..] => (true, number),
                number => (false, number),
            };
            let (score, rest) = parse_double_prefix(number);
            // C's strings end at a NUL.
            let is_whole = matches!(rest, [] | [0, ..]);
            (is_whole && !score.is_nan()).then_some(ScoreBound { score, is_exclusive })
        };
        match (bound(min), bound(max)) {
            (Some(min), Some(max)) => Ok(SortedRange::Scores { min, max }),
            _ => Err(ReplyError::ScoreRange),
        }
    }

    fn members(min: &'a [u8], max: &'a [u8]) -> Result<SortedRange<'a>, ReplyError> {
        let bound = |word: &'a [u8]| match word {
            [b'(', member @ ..] => Some(MemberBound::Excluding(member)),
            [b'[', member @ ..] => Some(MemberBound::Including(member)),
            [b'-'] | [b'-', 0, ..] => Some(MemberBound::Lowest),
            [b'+'] | [b'+', 0, ..] => Some(MemberBound::Highest),
            _ => None,
        };
        match (bound(min), bound(max)) {
            (Some(min), Some(max)) => Ok(SortedRange::Members { min, max }),
            _ => Err(ReplyError::MemberRange),
        }
    }
}

pub(super) fn parse_zcount(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = SortedRange::scores(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::Count { key, section })
}

pub(super) fn parse_zlexcount(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = SortedRange::members(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::Count { key, section })
}

pub(super) fn parse_zremrangebyrank(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = SortedRange::ranks(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::RemoveRange { key, section })
}

pub(super) fn parse_zremrangebyscore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = SortedRange::scores(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::RemoveRange { key, section })
}

pub(super) fn parse_zremrangebylex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = SortedRange::members(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::RemoveRange { key, section })
}

/// By what a range is cut out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeBy {
    Rank,
    Score,
    Lex,
}

pub(super) fn parse_zrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, None, None)
}

pub(super) fn parse_zrevrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Rank), Some(true))
}

pub(super) fn parse_zrangebyscore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Score), Some(false))
}

pub(super) fn parse_zrevrangebyscore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Score), Some(true))
}

pub(super) fn parse_zrangebylex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Lex), Some(false))
}

pub(super) fn parse_zrevrangebylex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Lex), Some(true))
}

fn parse_range(
    args: Args<'_>,
    by: Option<RangeBy>,
    reverse: Option<bool>,
) -> Result<Command<'_>, ReplyError> {
    let mut with_scores = false;
    let query = parse_query(args.from(2), by, reverse, Some(&mut with_scores))?;
    command(SortedSetCommand::Range {
        key: args.arg(1),
        query,
        with_scores,
    })
}

pub(super) fn parse_zrangestore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    command(SortedSetCommand::RangeStore {
        destination: args.arg(1),
        source: args.arg(2),
        query: parse_query(args.from(3), None, None, None)?,
    })
}

/// The words from the bounds on. What the command's name says cannot be said by an option.
fn parse_query<'a>(
    argv: Args<'a>,
    mut by: Option<RangeBy>,
    mut reverse: Option<bool>,
    mut with_scores: Option<&mut bool>,
) -> Result<RangeQuery<'a>, ReplyError> {
    let mut limit = (0, -1);
    let mut at = 2;
    while let Some(word) = argv.get(at) {
        match (Word::new(word), argv.get(at + 1), argv.get(at + 2)) {
            (WITHSCORES, _, _) if with_scores.is_some() => {
                with_scores.iter_mut().for_each(|is_set| **is_set = true);
            }
            (LIMIT, Some(offset), Some(count)) => {
                limit = (number::integer(offset)?, number::integer(count)?);
                at += 2;
            }
            (REV, _, _) if reverse.is_none() => reverse = Some(true),
            (BYSCORE, _, _) if by.is_none() => by = Some(RangeBy::Score),
            (BYLEX, _, _) if by.is_none() => by = Some(RangeBy::Lex),
            _ => return Err(ReplyError::Syntax),
        }
        at += 1;
    }
    let (by, reverse) = (by.unwrap_or(RangeBy::Rank), reverse.unwrap_or(false));
    if limit.1 != -1 && by == RangeBy::Rank {
        return Err(ReplyError::LimitOfRanks);
    }
    if by == RangeBy::Lex && with_scores.is_some_and(|is_set| *is_set) {
        return Err(ReplyError::ScoresByLex);
    }
    let (first, second) = (argv.arg(0), argv.arg(1));
    // Backwards the upper bound comes first.
    let (min, max) = if reverse { (second, first) } else { (first, second) };
    let section = match by {
        RangeBy::Rank => SortedRange::ranks(first, second)?,
        RangeBy::Score => SortedRange::scores(min, max)?,
        RangeBy::Lex => SortedRange::members(min, max)?,
    };
    // An offset alone means nothing for ranks.
    let limit = if by == RangeBy::Rank { (0, -1) } else { limit };
    Ok(RangeQuery {
        section,
        reverse,
        limit,
    })
}

pub(super) fn parse_zpopmin(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_pop(args, SortedSetEnd::Min)
}

pub(super) fn parse_zpopmax(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_pop(args, SortedSetEnd::Max)
}

fn parse_pop(args: Args<'_>, end: SortedSetEnd) -> Result<Command<'_>, ReplyError> {
    if args.len() > 3 {
        return Err(ReplyError::Syntax);
    }
    let count = match args.get(2) {
        None => None,
        Some(word) => Some(number::natural(word, ReplyError::NotPositive)?),
    };
    let key = args.arg(1);
    command(SortedSetCommand::Pop { key, end, count })
}

pub(super) fn parse_zmpop(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (keys, end, count) = pop_first::parse(args.from(1), SortedSetEnd::parse)?;
    command(SortedSetCommand::PopFirst { keys, end, count })
}

pub(super) fn parse_zunion(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine(args, SetOperation::Union, "zunion")
}

pub(super) fn parse_zinter(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine(args, SetOperation::Intersection, "zinter")
}

pub(super) fn parse_zdiff(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine(args, SetOperation::Difference, "zdiff")
}

pub(super) fn parse_zunionstore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine_store(args, SetOperation::Union, "zunionstore")
}

pub(super) fn parse_zinterstore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine_store(args, SetOperation::Intersection, "zinterstore")
}

pub(super) fn parse_zdiffstore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine_store(args, SetOperation::Difference, "zdiffstore")
}

/// The keys that the first word counts, and the words after them.
fn counted_keys<'a>(argv: Args<'a>, name: &str) -> Result<(Args<'a>, Args<'a>), ReplyError> {
    let number = number::integer(argv.arg(0))?;
    if number < 1 {
        return Err(ReplyError::quoting(
            "ERR at least 1 input key is needed for '",
            name.as_bytes(),
            "' command",
        ));
    }
    match usize::try_from(number) {
        Ok(number) if number < argv.len() => Ok((argv.slice(1..number + 1), argv.from(number + 1))),
        _ => Err(ReplyError::Syntax),
    }
}

fn parse_combine<'a>(args: Args<'a>, operation: SetOperation, name: &str) -> Result<Command<'a>, ReplyError> {
    let mut with_scores = false;
    let combination = parse_combination(args.from(1), operation, name, Some(&mut with_scores))?;
    command(SortedSetCommand::Combine {
        combination,
        with_scores,
    })
}

fn parse_combine_store<'a>(
    args: Args<'a>,
    operation: SetOperation,
    name: &str,
) -> Result<Command<'a>, ReplyError> {
    command(SortedSetCommand::CombineStore {
        destination: args.arg(1),
        combination: parse_combination(args.from(2), operation, name, None)?,
    })
}

fn parse_combination<'a>(
    argv: Args<'a>,
    operation: SetOperation,
    name: &str,
    mut with_scores: Option<&mut bool>,
) -> Result<Combination<'a>, ReplyError> {
    let (keys, options) = counted_keys(argv, name)?;
    let mut combination = Combination {
        operation,
        keys,
        weights: Args::default(),
        aggregate: Aggregate::Sum,
    };
    let combines = operation != SetOperation::Difference;
    let mut at = 0;
    while let Some(word) = options.get(at) {
        match Word::new(word) {
            WEIGHTS if combines && options.len() - at > keys.len() => {
                let weights = options.slice(at + 1..at + 1 + keys.len());
                if weights.iter().any(|weight| score(weight).is_none()) {
                    return Err(ReplyError::Weight);
                }
                combination.weights = weights;
                at += keys.len();
            }
            AGGREGATE if combines => {
                combination.aggregate = match options.get(at + 1).map(Word::new) {
                    Some(SUM) => Aggregate::Sum,
                    Some(MIN) => Aggregate::Min,
                    Some(MAX) => Aggregate::Max,
                    _ => return Err(ReplyError::Syntax),
                };
                at += 1;
            }
            WITHSCORES if with_scores.is_some() => {
                with_scores.iter_mut().for_each(|is_set| **is_set = true);
            }
            _ => return Err(ReplyError::Syntax),
        }
        at += 1;
    }
    Ok(combination)
}

pub(super) fn parse_zintercard(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (keys, options) = counted_keys(args.from(1), "zintercard")?;
    let mut limit = 0;
    let mut at = 0;
    while let Some(word) = options.get(at) {
        match (Word::new(word), options.get(at + 1)) {
            (LIMIT, Some(number)) => limit = number::natural(number, ReplyError::LimitNegative)?,
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    command(SortedSetCommand::IntersectionCard { keys, limit })
}

pub(super) fn parse_zrandmember(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let Some(word) = args.get(2) else {
        return command(SortedSetCommand::RandomMember {
            key: args.arg(1),
            count: None,
            with_scores: false,
        });
    };
    let count = number::integer(word)?;
    if count == i64::MIN {
        return Err(ReplyError::NotALongInRange);
    }
    let with_scores = match args.get(3).map(Word::new) {
        _ if args.len() > 4 => return Err(ReplyError::Syntax),
        None => false,
        Some(WITHSCORES) => true,
        Some(_) => return Err(ReplyError::Syntax),
    };
    let is_too_much = with_scores && count.unsigned_abs() > i64::MAX as u64 / 2;
    if is_too_much || count < -REPEATS_MAX {
        return Err(ReplyError::OutOfRange);
    }
    command(SortedSetCommand::RandomMember {
        key: args.arg(1),
        count: Some(count),
        with_scores,
    })
}

/// How many members `ZRANDMEMBER` picks at most if it may pick one twice. More are refused: the answer would grow
/// without any bound that the data have.
const REPEATS_MAX: i64 = 1 << 24;

pub(super) fn parse_zscan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (cursor, options) = scan::parse_within_key(args)?;
    command(SortedSetCommand::Scan {
        key: args.arg(1),
        cursor,
        options,
    })
}
