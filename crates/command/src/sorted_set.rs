//! Sorted sets: their effects. What clients write is read in `parse.rs` and described in `specs.rs`.

mod parse;
mod specs;

pub(crate) use specs::*;

use crate::ReplyError;
use crate::number::parse_double;
use crate::scan::ScanOptions;
use crate::set::SetOperation;
use crate::spec::ValueAccess;
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
    Count { key: &'a [u8], section: SortedRange<'a> },
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
    RemoveRange { key: &'a [u8], section: SortedRange<'a> },
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
    /// `ZSCAN key cursor ..`.
    Scan {
        key: &'a [u8],
        cursor: u64,
        options: ScanOptions<'a>,
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

impl SortedSetEnd {
    /// The end that `word` names.
    pub(crate) fn parse(word: &[u8]) -> Result<SortedSetEnd, ReplyError> {
        if word.eq_ignore_ascii_case(b"min") {
            Ok(SortedSetEnd::Min)
        } else if word.eq_ignore_ascii_case(b"max") {
            Ok(SortedSetEnd::Max)
        } else {
            Err(ReplyError::Syntax)
        }
    }
}

/// A part of a sorted set that has no gaps.
#[derive(Clone, Copy, Debug)]
pub enum SortedRange<'a> {
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
    pub section: SortedRange<'a>,
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
    pub operation: SetOperation,
    /// Of what.
    pub keys: Args<'a>,
    /// A factor for each key's scores, to be read with [`score`]; empty if all are 1.
    pub weights: Args<'a>,
    /// What becomes of several scores of one member.
    pub aggregate: Aggregate,
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
    /// See [`crate::Command::writes`].
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

    /// See [`crate::Command::access`].
    pub fn access(&self) -> ValueAccess {
        match self {
            SortedSetCommand::Card { .. } => ValueAccess::Metadata,
            _ if self.writes() => ValueAccess::Modifies,
            _ => ValueAccess::Reads,
        }
    }
}
