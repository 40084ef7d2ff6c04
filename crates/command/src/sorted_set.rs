//! Sorted sets.

use crate::docs::{Argument, ArgumentKind, Deprecated, Docs, Group};
use crate::generic::cursor;
use crate::key_spec::{KeyFlags, KeySpec};
use crate::number::{self, parse_double, parse_double_prefix};
use crate::spec::{Access, Categories, Flags, Route, Spec, Spread, Walks};
use crate::word::Word;
use crate::{Command, CommandId, ReplyError};
use resp::Args;

/// One command on sorted sets.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum SortedSetCommand<'a> {
    /// `ZADD key .. score member [score member ...]`, `ZINCRBY`: every score can be read with [`score`].
    Add {
        key: &'a [u8],
        options: AddOptions,
        pairs: Args<'a>,
    },
    /// `ZREM key member [member ...]`.
    Remove { key: &'a [u8], members: Args<'a> },
    /// `ZCARD key`.
    Card { key: &'a [u8] },
    /// `ZSCORE key member`.
    Score { key: &'a [u8], member: &'a [u8] },
    /// `ZMSCORE key member [member ...]`.
    Scores { key: &'a [u8], members: Args<'a> },
    /// `ZRANK`, `ZREVRANK key member [WITHSCORE]`.
    Rank {
        key: &'a [u8],
        member: &'a [u8],
        reverse: bool,
        with_score: bool,
    },
    /// `ZCOUNT key min max`, `ZLEXCOUNT key min max`.
    Count { key: &'a [u8], section: Section<'a> },
    /// `ZRANGE` and its kin.
    Range {
        key: &'a [u8],
        query: RangeQuery<'a>,
        with_scores: bool,
    },
    /// `ZRANGESTORE destination source min max ..`.
    RangeStore {
        destination: &'a [u8],
        source: &'a [u8],
        query: RangeQuery<'a>,
    },
    /// `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE`, `ZREMRANGEBYLEX key min max`.
    RemoveRange { key: &'a [u8], section: Section<'a> },
    /// `ZPOPMIN`, `ZPOPMAX key [count]`.
    Pop {
        key: &'a [u8],
        end: SortedSetEnd,
        count: Option<u64>,
    },
    /// `ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]`.
    PopFirst {
        keys: Args<'a>,
        end: SortedSetEnd,
        count: u64,
    },
    /// `ZUNION`, `ZINTER`, `ZDIFF numkeys key [key ...] ..`.
    Combine {
        combination: Combination<'a>,
        with_scores: bool,
    },
    /// `ZUNIONSTORE`, `ZINTERSTORE`, `ZDIFFSTORE destination numkeys key [key ...] ..`.
    CombineStore {
        destination: &'a [u8],
        combination: Combination<'a>,
    },
    /// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`; a limit of 0 is none.
    IntersectionCard { keys: Args<'a>, limit: u64 },
    /// `ZRANDMEMBER key [count [WITHSCORES]]`.
    RandomMember {
        key: &'a [u8],
        count: Option<i64>,
        with_scores: bool,
    },
    /// `ZSCAN key cursor [MATCH pattern] [COUNT count]`.
    Scan {
        key: &'a [u8],
        cursor: u64,
        pattern: Option<&'a [u8]>,
        count: u64,
    },
}

/// The options of `ZADD`, as far as they go together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddOptions {
    /// `NX`: only members that are not there.
    pub if_absent: bool,
    /// `XX`: only members that are there.
    pub if_present: bool,
    /// `GT`: no score gets smaller, or stays.
    pub if_greater: bool,
    /// `LT`: no score gets greater, or stays.
    pub if_less: bool,
    /// `CH`: members with changed scores are counted too.
    pub counts_changes: bool,
    /// `INCR`, `ZINCRBY`: the score is added to the one that is there. There is one pair then.
    pub adds_up: bool,
}

/// One of the two ends of a sorted set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SortedSetEnd {
    /// Where the lowest score is.
    Min,
    /// Where the highest score is.
    Max,
}

/// A part of a sorted set that has no gaps.
#[derive(Clone, Copy, Debug)]
pub enum Section<'a> {
    /// By rank; negative ones count from the end.
    Ranks {
        /// The first.
        start: i64,
        /// The last, included.
        end: i64,
    },
    /// By score.
    Scores {
        /// The lower bound.
        min: ScoreBound,
        /// The upper bound.
        max: ScoreBound,
    },
    /// By the bytes of members, which are in this order if all scores are equal.
    Members {
        /// The lower bound.
        min: MemberBound<'a>,
        /// The upper bound.
        max: MemberBound<'a>,
    },
}

/// A bound of scores, never NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScoreBound {
    /// Where it is.
    pub score: f64,
    /// Whether the score itself is outside.
    pub is_exclusive: bool,
}

/// A bound of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberBound<'a> {
    /// `-`: below all members.
    Lowest,
    /// `+`: above all members.
    Highest,
    /// `[member`.
    Including(&'a [u8]),
    /// `(member`.
    Excluding(&'a [u8]),
}

/// What `ZRANGE` and its kin look for.
#[derive(Clone, Copy, Debug)]
pub struct RangeQuery<'a> {
    /// Which members. Of ranks, the highest score has rank 0 if `reverse` is set.
    pub section: Section<'a>,
    /// From the highest to the lowest.
    pub reverse: bool,
    /// `LIMIT offset count`: how many to leave out (none is left if it is negative), and how many to answer (all if it
    /// is negative).
    pub limit: (i64, i64),
}

/// Several sorted sets, or sets, made into one.
#[derive(Clone, Copy, Debug)]
pub struct Combination<'a> {
    /// How.
    pub operation: CombineOperation,
    /// Of what.
    pub keys: Args<'a>,
    /// A factor for each key's scores, to be read with [`score`]; empty if all are 1.
    pub weights: Args<'a>,
    /// What becomes of several scores of one member.
    pub aggregate: Aggregate,
}

/// How several sorted sets become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CombineOperation {
    /// Members of any.
    Union,
    /// Members of all.
    Intersection,
    /// Members of the first that are in no other.
    Difference,
}

/// What becomes of several scores of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// They are added.
    Sum,
    /// The lowest stays.
    Min,
    /// The highest stays.
    Max,
}

/// Reads a score or a weight: any double but NaN. Whatever stands as one in a [`SortedSetCommand`] was read before.
pub fn score(word: &[u8]) -> Option<f64> {
    parse_double(word)
}

impl SortedSetCommand<'_> {
    /// See [`Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            SortedSetCommand::Add { .. }
            | SortedSetCommand::Remove { .. }
            | SortedSetCommand::RangeStore { .. }
            | SortedSetCommand::RemoveRange { .. }
            | SortedSetCommand::Pop { .. }
            | SortedSetCommand::PopFirst { .. }
            | SortedSetCommand::CombineStore { .. } => true,
            SortedSetCommand::Card { .. }
            | SortedSetCommand::Score { .. }
            | SortedSetCommand::Scores { .. }
            | SortedSetCommand::Rank { .. }
            | SortedSetCommand::Count { .. }
            | SortedSetCommand::Range { .. }
            | SortedSetCommand::Combine { .. }
            | SortedSetCommand::IntersectionCard { .. }
            | SortedSetCommand::RandomMember { .. }
            | SortedSetCommand::Scan { .. } => false,
        }
    }

    /// See [`Command::access`].
    pub fn access(&self) -> Access {
        match self {
            SortedSetCommand::Card { .. } => Access::Metadata,
            _ if self.writes() => Access::Modifies,
            _ => Access::Reads,
        }
    }
}

/// Makes the parser's result of a command.
fn command(command: SortedSetCommand<'_>) -> Result<Command<'_>, ReplyError> {
    Ok(Command::SortedSet(command))
}

const AGGREGATE: Word = Word::new(b"aggregate");
const BYLEX: Word = Word::new(b"bylex");
const BYSCORE: Word = Word::new(b"byscore");
const CH: Word = Word::new(b"ch");
const COUNT: Word = Word::new(b"count");
const GT: Word = Word::new(b"gt");
const INCR: Word = Word::new(b"incr");
const LIMIT: Word = Word::new(b"limit");
const LT: Word = Word::new(b"lt");
const MATCH: Word = Word::new(b"match");
const MAX: Word = Word::new(b"max");
const MIN: Word = Word::new(b"min");
const NX: Word = Word::new(b"nx");
const REV: Word = Word::new(b"rev");
const SUM: Word = Word::new(b"sum");
const WEIGHTS: Word = Word::new(b"weights");
const WITHSCORE: Word = Word::new(b"withscore");
const WITHSCORES: Word = Word::new(b"withscores");
const XX: Word = Word::new(b"xx");

fn parse_zadd(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_add(args, AddOptions::default())
}

/// `ZINCRBY` takes the options of `ZADD` for what they are, too, and then has no pair left.
fn parse_zincrby(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
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

fn parse_zrank(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_rank(args, "zrank", false)
}

fn parse_zrevrank(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
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

impl<'a> Section<'a> {
    fn ranks(start: &[u8], end: &[u8]) -> Result<Section<'a>, ReplyError> {
        Ok(Section::Ranks {
            start: number::integer(start)?,
            end: number::integer(end)?,
        })
    }

    /// As Redis reads it: more leniently than a score.
    fn scores(min: &[u8], max: &[u8]) -> Result<Section<'a>, ReplyError> {
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
            (Some(min), Some(max)) => Ok(Section::Scores { min, max }),
            _ => Err(ReplyError::ScoreRange),
        }
    }

    fn members(min: &'a [u8], max: &'a [u8]) -> Result<Section<'a>, ReplyError> {
        let bound = |word: &'a [u8]| match word {
            [b'(', member @ ..] => Some(MemberBound::Excluding(member)),
            [b'[', member @ ..] => Some(MemberBound::Including(member)),
            [b'-'] | [b'-', 0, ..] => Some(MemberBound::Lowest),
            [b'+'] | [b'+', 0, ..] => Some(MemberBound::Highest),
            _ => None,
        };
        match (bound(min), bound(max)) {
            (Some(min), Some(max)) => Ok(Section::Members { min, max }),
            _ => Err(ReplyError::MemberRange),
        }
    }
}

fn parse_zcount(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = Section::scores(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::Count { key, section })
}

fn parse_zlexcount(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = Section::members(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::Count { key, section })
}

fn parse_zremrangebyrank(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = Section::ranks(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::RemoveRange { key, section })
}

fn parse_zremrangebyscore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = Section::scores(args.arg(2), args.arg(3))?;
    let key = args.arg(1);
    command(SortedSetCommand::RemoveRange { key, section })
}

fn parse_zremrangebylex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let section = Section::members(args.arg(2), args.arg(3))?;
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

fn parse_zrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, None, None)
}

fn parse_zrevrange(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Rank), Some(true))
}

fn parse_zrangebyscore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Score), Some(false))
}

fn parse_zrevrangebyscore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Score), Some(true))
}

fn parse_zrangebylex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_range(args, Some(RangeBy::Lex), Some(false))
}

fn parse_zrevrangebylex(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
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

fn parse_zrangestore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    command(SortedSetCommand::RangeStore {
        destination: args.arg(1),
        source: args.arg(2),
        query: parse_query(args.from(3), None, None, None)?,
    })
}

/// The words from the bounds on. What the command's name says cannot be said by an option.
fn parse_query<'a>(
    words: Args<'a>,
    mut by: Option<RangeBy>,
    mut reverse: Option<bool>,
    mut with_scores: Option<&mut bool>,
) -> Result<RangeQuery<'a>, ReplyError> {
    let mut limit = (0, -1);
    let mut at = 2;
    while let Some(word) = words.get(at) {
        match (Word::new(word), words.get(at + 1), words.get(at + 2)) {
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
    let (first, second) = (words.arg(0), words.arg(1));
    // Backwards the upper bound comes first.
    let (min, max) = if reverse { (second, first) } else { (first, second) };
    let section = match by {
        RangeBy::Rank => Section::ranks(first, second)?,
        RangeBy::Score => Section::scores(min, max)?,
        RangeBy::Lex => Section::members(min, max)?,
    };
    // An offset alone means nothing for ranks.
    let limit = if by == RangeBy::Rank { (0, -1) } else { limit };
    Ok(RangeQuery {
        section,
        reverse,
        limit,
    })
}

fn parse_zpopmin(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_pop(args, SortedSetEnd::Min)
}

fn parse_zpopmax(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_pop(args, SortedSetEnd::Max)
}

fn parse_pop(args: Args<'_>, end: SortedSetEnd) -> Result<Command<'_>, ReplyError> {
    if args.len() > 3 {
        return Err(ReplyError::Syntax);
    }
    let count = match args.get(2) {
        None => None,
        Some(word) => {
            let count = number::parse_i64(word).and_then(|count| u64::try_from(count).ok());
            Some(count.ok_or(ReplyError::NotPositive)?)
        }
    };
    let key = args.arg(1);
    command(SortedSetCommand::Pop { key, end, count })
}

/// A number of one or more, or the error that the command has for it.
fn one_or_more(word: &[u8], error: ReplyError) -> Result<u64, ReplyError> {
    let number = number::parse_i64(word).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(error)
}

fn parse_zmpop(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (keys, end, count) = pop_first(args.from(1))?;
    command(SortedSetCommand::PopFirst { keys, end, count })
}

/// The words of `ZMPOP`, and those of `BZMPOP` after its timeout: keys, which end, and how many.
pub(crate) fn pop_first(words: Args<'_>) -> Result<(Args<'_>, SortedSetEnd, u64), ReplyError> {
    let number = one_or_more(words.arg(0), ReplyError::NumKeysNotPositive)?;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let at = number.saturating_add(1);
    let Some(end) = words.get(at) else {
        return Err(ReplyError::Syntax);
    };
    let end = match Word::new(end) {
        MIN => SortedSetEnd::Min,
        MAX => SortedSetEnd::Max,
        _ => return Err(ReplyError::Syntax),
    };
    let options = words.from(at + 1);
    let count = match (options.get(0).map(Word::new), options.get(1)) {
        (None, _) => 1,
        (Some(COUNT), Some(count)) => {
            let count = one_or_more(count, ReplyError::CountNotPositive)?;
            if options.len() > 2 {
                return Err(ReplyError::Syntax);
            }
            count
        }
        _ => return Err(ReplyError::Syntax),
    };
    Ok((words.slice(1..at), end, count))
}

fn parse_zunion(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine(args, CombineOperation::Union, "zunion")
}

fn parse_zinter(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine(args, CombineOperation::Intersection, "zinter")
}

fn parse_zdiff(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine(args, CombineOperation::Difference, "zdiff")
}

fn parse_zunionstore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine_store(args, CombineOperation::Union, "zunionstore")
}

fn parse_zinterstore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine_store(args, CombineOperation::Intersection, "zinterstore")
}

fn parse_zdiffstore(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    parse_combine_store(args, CombineOperation::Difference, "zdiffstore")
}

/// The keys that the first word counts, and the words after them.
fn counted_keys<'a>(words: Args<'a>, name: &str) -> Result<(Args<'a>, Args<'a>), ReplyError> {
    let number = number::integer(words.arg(0))?;
    if number < 1 {
        return Err(ReplyError::quoting(
            "ERR at least 1 input key is needed for '",
            name.as_bytes(),
            "' command",
        ));
    }
    match usize::try_from(number) {
        Ok(number) if number < words.len() => Ok((words.slice(1..number + 1), words.from(number + 1))),
        _ => Err(ReplyError::Syntax),
    }
}

fn parse_combine<'a>(
    args: Args<'a>,
    operation: CombineOperation,
    name: &str,
) -> Result<Command<'a>, ReplyError> {
    let mut with_scores = false;
    let combination = parse_combination(args.from(1), operation, name, Some(&mut with_scores))?;
    command(SortedSetCommand::Combine {
        combination,
        with_scores,
    })
}

fn parse_combine_store<'a>(
    args: Args<'a>,
    operation: CombineOperation,
    name: &str,
) -> Result<Command<'a>, ReplyError> {
    command(SortedSetCommand::CombineStore {
        destination: args.arg(1),
        combination: parse_combination(args.from(2), operation, name, None)?,
    })
}

fn parse_combination<'a>(
    words: Args<'a>,
    operation: CombineOperation,
    name: &str,
    mut with_scores: Option<&mut bool>,
) -> Result<Combination<'a>, ReplyError> {
    let (keys, options) = counted_keys(words, name)?;
    let mut combination = Combination {
        operation,
        keys,
        weights: Args::default(),
        aggregate: Aggregate::Sum,
    };
    let combines = operation != CombineOperation::Difference;
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

fn parse_zintercard(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let (keys, options) = counted_keys(args.from(1), "zintercard")?;
    let mut limit = 0;
    let mut at = 0;
    while let Some(word) = options.get(at) {
        match (Word::new(word), options.get(at + 1)) {
            (LIMIT, Some(number)) => {
                let number = number::parse_i64(number).and_then(|number| u64::try_from(number).ok());
                limit = number.ok_or(ReplyError::LimitNegative)?;
            }
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    command(SortedSetCommand::IntersectionCard { keys, limit })
}

fn parse_zrandmember(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
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

fn parse_zscan(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let cursor = cursor(args.arg(2))?;
    let (mut pattern, mut count) = (None, 10);
    let mut at = 3;
    while let Some(word) = args.get(at) {
        match (Word::new(word), args.get(at + 1)) {
            (MATCH, Some(value)) => pattern = Some(value),
            (COUNT, Some(value)) => {
                let number = u64::try_from(number::integer(value)?).ok();
                count = number.filter(|number| *number > 0).ok_or(ReplyError::Syntax)?;
            }
            _ => return Err(ReplyError::Syntax),
        }
        at += 2;
    }
    command(SortedSetCommand::Scan {
        key: args.arg(1),
        cursor,
        pattern,
        count,
    })
}

/// `ZADD`.
pub(crate) static ZADD: Spec = Spec {
    name: "zadd",
    id: CommandId::ZAdd,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::ADJUST)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds members with their scores to a sorted set, or changes the scores of members that are there.",
        since: "1.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)) for each member, for a sorted set of N members.",
        history: &[
            ("2.4.0", "Several pairs."),
            ("3.0.2", "`XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "`GT` and `LT`."),
        ],
        arguments: &[
            Argument::KEY,
            Argument::one_of(
                "condition",
                &[Argument::word("nx", "NX"), Argument::word("xx", "XX")],
            )
            .since("3.0.2")
            .optional(),
            Argument::one_of(
                "comparison",
                &[Argument::word("gt", "GT"), Argument::word("lt", "LT")],
            )
            .since("6.2.0")
            .optional(),
            Argument::word("change", "CH").since("3.0.2").optional(),
            Argument::word("increment", "INCR").since("3.0.2").optional(),
            Argument::block(
                "score_member",
                &[
                    Argument::new("score", ArgumentKind::Double),
                    Argument::string("member"),
                ],
            )
            .multiple(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zadd),
    ..Spec::BASE
};

/// `ZINCRBY`.
pub(crate) static ZINCRBY: Spec = Spec {
    name: "zincrby",
    id: CommandId::ZIncrBy,
    arity: 4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::CHANGE)],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Adds a number to the score of a member.",
        since: "1.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)) for a sorted set of N members.",
        arguments: &[
            Argument::KEY,
            Argument::integer("increment"),
            Argument::string("member"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zincrby),
    ..Spec::BASE
};

/// `ZREM`.
pub(crate) static ZREM: Spec = Spec {
    name: "zrem",
    id: CommandId::ZRem,
    arity: -3,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    route: Route::Keys,
    access: Access::Modifies,
    docs: Docs {
        summary: "Removes members from a sorted set.",
        since: "1.2.0",
        group: Group::SortedSet,
        complexity: "O(M*log(N)) for M of N members.",
        history: &[("2.4.0", "Several members.")],
        arguments: &[Argument::KEY, Argument::string("member").multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        command(SortedSetCommand::Remove {
            key: args.arg(1),
            members: args.from(2),
        })
    }),
    ..Spec::BASE
};

/// `ZCARD`.
pub(crate) static ZCARD: Spec = Spec {
    name: "zcard",
    id: CommandId::ZCard,
    arity: 2,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    route: Route::Keys,
    access: Access::Metadata,
    docs: Docs {
        summary: "Returns how many members a sorted set has.",
        since: "1.2.0",
        group: Group::SortedSet,
        arguments: &[Argument::KEY],
        ..Docs::BASE
    },
    parse: Some(|args| command(SortedSetCommand::Card { key: args.arg(1) })),
    ..Spec::BASE
};

/// `ZSCORE`.
pub(crate) static ZSCORE: Spec = Spec {
    name: "zscore",
    id: CommandId::ZScore,
    arity: 3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the score of a member.",
        since: "1.2.0",
        group: Group::SortedSet,
        arguments: &[Argument::KEY, Argument::string("member")],
        ..Docs::BASE
    },
    parse: Some(|args| {
        command(SortedSetCommand::Score {
            key: args.arg(1),
            member: args.arg(2),
        })
    }),
    ..Spec::BASE
};

/// `ZMSCORE`.
pub(crate) static ZMSCORE: Spec = Spec {
    name: "zmscore",
    id: CommandId::ZMScore,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns the scores of several members.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(N) for N members asked for.",
        arguments: &[Argument::KEY, Argument::string("member").multiple()],
        ..Docs::BASE
    },
    parse: Some(|args| {
        command(SortedSetCommand::Scores {
            key: args.arg(1),
            members: args.from(2),
        })
    }),
    ..Spec::BASE
};

/// `ZRANK`.
pub(crate) static ZRANK: Spec = Spec {
    name: "zrank",
    id: CommandId::ZRank,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns how many members have a lower score than this one.",
        since: "2.0.0",
        group: Group::SortedSet,
        complexity: "O(log(N))",
        history: &[("7.2.0", "`WITHSCORE`.")],
        arguments: &[
            Argument::KEY,
            Argument::string("member"),
            Argument::word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrank),
    ..Spec::BASE
};

/// `ZREVRANK`.
pub(crate) static ZREVRANK: Spec = Spec {
    name: "zrevrank",
    id: CommandId::ZRevRank,
    arity: -3,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Returns how many members have a higher score than this one.",
        since: "2.0.0",
        group: Group::SortedSet,
        complexity: "O(log(N))",
        history: &[("7.2.0", "`WITHSCORE`.")],
        arguments: &[
            Argument::KEY,
            Argument::string("member"),
            Argument::word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrevrank),
    ..Spec::BASE
};

/// `ZCOUNT`.
pub(crate) static ZCOUNT: Spec = Spec {
    name: "zcount",
    id: CommandId::ZCount,
    arity: 4,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Counts the members whose scores are between two bounds.",
        since: "2.0.0",
        group: Group::SortedSet,
        complexity: "O(log(N)) for a sorted set of N members.",
        arguments: &[
            Argument::KEY,
            Argument::new("min", ArgumentKind::Double),
            Argument::new("max", ArgumentKind::Double),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zcount),
    ..Spec::BASE
};

/// `ZLEXCOUNT`.
pub(crate) static ZLEXCOUNT: Spec = Spec {
    name: "zlexcount",
    id: CommandId::ZLexCount,
    arity: 4,
    flags: Flags::READONLY.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    docs: Docs {
        summary: "Counts the members between two bounds, where all scores are equal.",
        since: "2.8.9",
        group: Group::SortedSet,
        complexity: "O(log(N)) for a sorted set of N members.",
        arguments: &[Argument::KEY, Argument::string("min"), Argument::string("max")],
        ..Docs::BASE
    },
    parse: Some(parse_zlexcount),
    ..Spec::BASE
};

/// `ZRANGE`.
pub(crate) static ZRANGE: Spec = Spec {
    name: "zrange",
    id: CommandId::ZRange,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of a range of ranks, of scores, or of members.",
        since: "1.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        history: &[("6.2.0", "`REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")],
        arguments: &[
            Argument::KEY,
            Argument::string("start"),
            Argument::string("stop"),
            Argument::one_of(
                "sortby",
                &[
                    Argument::word("byscore", "BYSCORE"),
                    Argument::word("bylex", "BYLEX"),
                ],
            )
            .since("6.2.0")
            .optional(),
            Argument::word("rev", "REV").since("6.2.0").optional(),
            Argument::block(
                "offset_count",
                &[Argument::integer("offset"), Argument::integer("count")],
            )
            .token("LIMIT")
            .since("6.2.0")
            .optional(),
            Argument::word("withscores", "WITHSCORES").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrange),
    ..Spec::BASE
};

/// `ZRANGESTORE`.
pub(crate) static ZRANGESTORE: Spec = Spec {
    name: "zrangestore",
    id: CommandId::ZRangeStore,
    arity: -5,
    flags: Flags::WRITE.and(Flags::DENYOOM),
    categories: Categories::SORTEDSET,
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::at(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members of a range as another sorted set.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        arguments: &[
            Argument::key("dst", 0),
            Argument::key("src", 1),
            Argument::string("min"),
            Argument::string("max"),
            Argument::one_of(
                "sortby",
                &[
                    Argument::word("byscore", "BYSCORE"),
                    Argument::word("bylex", "BYLEX"),
                ],
            )
            .optional(),
            Argument::word("rev", "REV").optional(),
            Argument::block(
                "offset_count",
                &[Argument::integer("offset"), Argument::integer("count")],
            )
            .token("LIMIT")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrangestore),
    ..Spec::BASE
};

/// `ZREVRANGE`.
pub(crate) static ZREVRANGE: Spec = Spec {
    name: "zrevrange",
    id: CommandId::ZRevRange,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of a range of ranks, the highest score first.",
        since: "1.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `REV`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::integer("start"),
            Argument::integer("stop"),
            Argument::word("withscores", "WITHSCORES").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrevrange),
    ..Spec::BASE
};

/// `ZRANGEBYSCORE`.
pub(crate) static ZRANGEBYSCORE: Spec = Spec {
    name: "zrangebyscore",
    id: CommandId::ZRangeByScore,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members whose scores are between two bounds.",
        since: "1.0.5",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `BYSCORE`",
        }),
        history: &[("2.0.0", "`WITHSCORES`.")],
        arguments: &[
            Argument::KEY,
            Argument::new("min", ArgumentKind::Double),
            Argument::new("max", ArgumentKind::Double),
            Argument::word("withscores", "WITHSCORES")
                .since("2.0.0")
                .optional(),
            Argument::block(
                "offset_count",
                &[Argument::integer("offset"), Argument::integer("count")],
            )
            .token("LIMIT")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrangebyscore),
    ..Spec::BASE
};

/// `ZREVRANGEBYSCORE`.
pub(crate) static ZREVRANGEBYSCORE: Spec = Spec {
    name: "zrevrangebyscore",
    id: CommandId::ZRevRangeByScore,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members whose scores are between two bounds, the highest score first.",
        since: "2.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `REV` and `BYSCORE`",
        }),
        history: &[("2.1.6", "Bounds can be exclusive.")],
        arguments: &[
            Argument::KEY,
            Argument::new("max", ArgumentKind::Double),
            Argument::new("min", ArgumentKind::Double),
            Argument::word("withscores", "WITHSCORES").optional(),
            Argument::block(
                "offset_count",
                &[Argument::integer("offset"), Argument::integer("count")],
            )
            .token("LIMIT")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrevrangebyscore),
    ..Spec::BASE
};

/// `ZRANGEBYLEX`.
pub(crate) static ZRANGEBYLEX: Spec = Spec {
    name: "zrangebylex",
    id: CommandId::ZRangeByLex,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members between two bounds, where all scores are equal.",
        since: "2.8.9",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `BYLEX`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::string("min"),
            Argument::string("max"),
            Argument::block(
                "offset_count",
                &[Argument::integer("offset"), Argument::integer("count")],
            )
            .token("LIMIT")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrangebylex),
    ..Spec::BASE
};

/// `ZREVRANGEBYLEX`.
pub(crate) static ZREVRANGEBYLEX: Spec = Spec {
    name: "zrevrangebylex",
    id: CommandId::ZRevRangeByLex,
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members between two bounds, the last one first, where all scores are equal.",
        since: "2.8.9",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with `REV` and `BYLEX`",
        }),
        arguments: &[
            Argument::KEY,
            Argument::string("max"),
            Argument::string("min"),
            Argument::block(
                "offset_count",
                &[Argument::integer("offset"), Argument::integer("count")],
            )
            .token("LIMIT")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrevrangebylex),
    ..Spec::BASE
};

/// `ZREMRANGEBYRANK`.
pub(crate) static ZREMRANGEBYRANK: Spec = Spec {
    name: "zremrangebyrank",
    id: CommandId::ZRemRangeByRank,
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    route: Route::Keys,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members of a range of ranks.",
        since: "2.0.0",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        arguments: &[
            Argument::KEY,
            Argument::integer("start"),
            Argument::integer("stop"),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zremrangebyrank),
    ..Spec::BASE
};

/// `ZREMRANGEBYSCORE`.
pub(crate) static ZREMRANGEBYSCORE: Spec = Spec {
    name: "zremrangebyscore",
    id: CommandId::ZRemRangeByScore,
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    route: Route::Keys,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members whose scores are between two bounds.",
        since: "1.2.0",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        arguments: &[
            Argument::KEY,
            Argument::new("min", ArgumentKind::Double),
            Argument::new("max", ArgumentKind::Double),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zremrangebyscore),
    ..Spec::BASE
};

/// `ZREMRANGEBYLEX`.
pub(crate) static ZREMRANGEBYLEX: Spec = Spec {
    name: "zremrangebylex",
    id: CommandId::ZRemRangeByLex,
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::RW.and(KeyFlags::DELETE))],
    route: Route::Keys,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members between two bounds, where all scores are equal.",
        since: "2.8.9",
        group: Group::SortedSet,
        complexity: "O(log(N)+M) for M of N members.",
        arguments: &[Argument::KEY, Argument::string("min"), Argument::string("max")],
        ..Docs::BASE
    },
    parse: Some(parse_zremrangebylex),
    ..Spec::BASE
};

/// `ZPOPMIN`.
pub(crate) static ZPOPMIN: Spec = Spec {
    name: "zpopmin",
    id: CommandId::ZPopMin,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    route: Route::Keys,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members with the lowest scores and returns them.",
        since: "5.0.0",
        group: Group::SortedSet,
        complexity: "O(M*log(N)) for M of N members.",
        arguments: &[Argument::KEY, Argument::integer("count").optional()],
        ..Docs::BASE
    },
    parse: Some(parse_zpopmin),
    ..Spec::BASE
};

/// `ZPOPMAX`.
pub(crate) static ZPOPMAX: Spec = Spec {
    name: "zpopmax",
    id: CommandId::ZPopMax,
    arity: -2,
    flags: Flags::WRITE.and(Flags::FAST),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::TAKE)],
    route: Route::Keys,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes the members with the highest scores and returns them.",
        since: "5.0.0",
        group: Group::SortedSet,
        complexity: "O(M*log(N)) for M of N members.",
        arguments: &[Argument::KEY, Argument::integer("count").optional()],
        ..Docs::BASE
    },
    parse: Some(parse_zpopmax),
    ..Spec::BASE
};

/// `ZMPOP`.
pub(crate) static ZMPOP: Spec = Spec {
    name: "zmpop",
    id: CommandId::ZMPop,
    arity: -4,
    flags: Flags::WRITE.and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::counted(1, KeyFlags::TAKE)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Removes members from one end of the first sorted set that has any, and returns them.",
        since: "7.0.0",
        group: Group::SortedSet,
        complexity: "O(K+M*log(N)) for K keys and M of N members.",
        arguments: &[
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
    parse: Some(parse_zmpop),
    ..Spec::BASE
};

/// `ZUNION`.
pub(crate) static ZUNION: Spec = Spec {
    name: "zunion",
    id: CommandId::ZUnion,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of any of several sorted sets.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(N*log(M)) for N members of all sources and M of the result.",
        arguments: &[
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::integer("weight").token("WEIGHTS").optional().multiple(),
            Argument::one_of(
                "aggregate",
                &[
                    Argument::word("sum", "SUM"),
                    Argument::word("min", "MIN"),
                    Argument::word("max", "MAX"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
            Argument::word("withscores", "WITHSCORES").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zunion),
    ..Spec::BASE
};

/// `ZINTER`.
pub(crate) static ZINTER: Spec = Spec {
    name: "zinter",
    id: CommandId::ZInter,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members that several sorted sets share.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(N*K+M*log(M)) for K sources, N members of the smallest, and M of the result.",
        arguments: &[
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::integer("weight").token("WEIGHTS").optional().multiple(),
            Argument::one_of(
                "aggregate",
                &[
                    Argument::word("sum", "SUM"),
                    Argument::word("min", "MIN"),
                    Argument::word("max", "MAX"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
            Argument::word("withscores", "WITHSCORES").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zinter),
    ..Spec::BASE
};

/// `ZDIFF`.
pub(crate) static ZDIFF: Spec = Spec {
    name: "zdiff",
    id: CommandId::ZDiff,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns the members of the first sorted set that are in no other.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(N*K+M*log(M)) for K sources, N members of the first, and M of the result.",
        arguments: &[
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::word("withscores", "WITHSCORES").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zdiff),
    ..Spec::BASE
};

/// `ZUNIONSTORE`.
pub(crate) static ZUNIONSTORE: Spec = Spec {
    name: "zunionstore",
    id: CommandId::ZUnionStore,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members of any of several sorted sets as a sorted set.",
        since: "2.0.0",
        group: Group::SortedSet,
        complexity: "O(N*log(M)) for N members of all sources and M of the result.",
        arguments: &[
            Argument::key("destination", 0),
            Argument::integer("numkeys"),
            Argument::key("key", 1).multiple(),
            Argument::integer("weight").token("WEIGHTS").optional().multiple(),
            Argument::one_of(
                "aggregate",
                &[
                    Argument::word("sum", "SUM"),
                    Argument::word("min", "MIN"),
                    Argument::word("max", "MAX"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zunionstore),
    ..Spec::BASE
};

/// `ZINTERSTORE`.
pub(crate) static ZINTERSTORE: Spec = Spec {
    name: "zinterstore",
    id: CommandId::ZInterStore,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members that several sorted sets share as a sorted set.",
        since: "2.0.0",
        group: Group::SortedSet,
        complexity: "O(N*K+M*log(M)) for K sources, N members of the smallest, and M of the result.",
        arguments: &[
            Argument::key("destination", 0),
            Argument::integer("numkeys"),
            Argument::key("key", 1).multiple(),
            Argument::integer("weight").token("WEIGHTS").optional().multiple(),
            Argument::one_of(
                "aggregate",
                &[
                    Argument::word("sum", "SUM"),
                    Argument::word("min", "MIN"),
                    Argument::word("max", "MAX"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zinterstore),
    ..Spec::BASE
};

/// `ZDIFFSTORE`.
pub(crate) static ZDIFFSTORE: Spec = Spec {
    name: "zdiffstore",
    id: CommandId::ZDiffStore,
    arity: -4,
    flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[
        KeySpec::at(1, KeyFlags::OVERWRITE),
        KeySpec::counted(2, KeyFlags::READ),
    ],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Modifies,
    walks: Walks::Part,
    docs: Docs {
        summary: "Stores the members of the first sorted set that are in no other as a sorted set.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(N*K+M*log(M)) for K sources, N members of the first, and M of the result.",
        arguments: &[
            Argument::key("destination", 0),
            Argument::integer("numkeys"),
            Argument::key("key", 1).multiple(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zdiffstore),
    ..Spec::BASE
};

/// `ZINTERCARD`.
pub(crate) static ZINTERCARD: Spec = Spec {
    name: "zintercard",
    id: CommandId::ZInterCard,
    arity: -3,
    flags: Flags::READONLY.and(Flags::MOVABLEKEYS),
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::counted(1, KeyFlags::READ)],
    route: Route::Keys,
    spread: Spread::ValueFlow,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Counts the members that several sorted sets share.",
        since: "7.0.0",
        group: Group::SortedSet,
        complexity: "O(N*K) for K sources and N members of the smallest.",
        arguments: &[
            Argument::integer("numkeys"),
            Argument::KEY.multiple(),
            Argument::integer("limit").token("LIMIT").optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zintercard),
    ..Spec::BASE
};

/// `ZRANDMEMBER`.
pub(crate) static ZRANDMEMBER: Spec = Spec {
    name: "zrandmember",
    id: CommandId::ZRandMember,
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Returns members picked at random.",
        since: "6.2.0",
        group: Group::SortedSet,
        complexity: "O(M*log(N)) for M of N members.",
        arguments: &[
            Argument::KEY,
            Argument::block(
                "options",
                &[
                    Argument::integer("count"),
                    Argument::word("withscores", "WITHSCORES").optional(),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    parse: Some(parse_zrandmember),
    ..Spec::BASE
};

/// `ZSCAN`.
pub(crate) static ZSCAN: Spec = Spec {
    name: "zscan",
    id: CommandId::ZScan,
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    keys: &[KeySpec::at(1, KeyFlags::READ)],
    tips: &["nondeterministic_output"],
    route: Route::Keys,
    access: Access::Reads,
    walks: Walks::Part,
    docs: Docs {
        summary: "Walks through the members of a sorted set, a few at each call.",
        since: "2.8.0",
        group: Group::SortedSet,
        complexity: "O(1) for each call, O(N) for the whole walk over N members.",
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
    parse: Some(parse_zscan),
    ..Spec::BASE
};
