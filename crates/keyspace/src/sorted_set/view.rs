//! Sorted sets of both forms, to read.

use super::compact::pair_at;
use super::tree::{self, SortedSet};
use crate::large::Large;
use crate::listpack::{Element, Listpack, Offset};
use crate::object::{Kind, Object, Value};
use crate::value::Digits;
use command::{MemberBound, RangeQuery, SortedRange};
use std::ops::Range;

/// A sorted set in either form.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Listpack(Listpack<'a>),
    Large(&'a SortedSet),
}

impl<'a> View<'a> {
    /// The sorted set that the object holds.
    ///
    /// # Panics
    /// If it holds something else.
    pub(crate) fn of(object: &'a Object) -> View<'a> {
        match object.value() {
            Value::Listpack(Kind::SortedSet, listpack) => View::Listpack(listpack),
            Value::Large(Large::SortedSet(large)) => View::Large(large),
            other => unreachable!("the kind was checked: {other:?} is no sorted set"),
        }
    }

    /// How many members there are.
    pub(crate) fn len(self) -> usize {
        match self {
            View::Listpack(listpack) => listpack.len() / 2,
            View::Large(large) => large.len(),
        }
    }

    /// The score of a member.
    pub(crate) fn score_of(self, member: &[u8]) -> Option<f64> {
        match self {
            View::Listpack(listpack) => Some(pair_at(listpack, listpack.find(member, 2)?).1),
            View::Large(large) => large.score_of(member),
        }
    }

    /// How many members are before this one.
    pub(super) fn rank(self, member: &[u8]) -> Option<usize> {
        match self {
            View::Listpack(listpack) => {
                let wanted = Element::of(member);
                listpack.iter().step_by(2).position(|element| element == wanted)
            }
            View::Large(large) => large.rank(member),
        }
    }

    /// The members of these ranks with their scores, from either end.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn members(self, ranks: Range<usize>) -> Members<'a> {
        match self {
            View::Listpack(listpack) => {
                let offset = |rank| {
                    listpack
                        .offset_of(2 * rank)
                        .expect("no rank is beyond the length")
                };
                Members::Listpack {
                    listpack,
                    front: offset(ranks.start),
                    back: offset(ranks.end),
                }
            }
            View::Large(large) => Members::Large(large.range(ranks)),
        }
    }

    /// How many members at the front fulfil `is_before`, which those behind them do not.
    fn partition_point(self, mut is_before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        match self {
            View::Listpack(_) => {
                let mut digits = Digits::default();
                self.members(0..self.len())
                    .take_while(|(member, score)| is_before(*score, member.text(&mut digits)))
                    .count()
            }
            View::Large(large) => large.partition_point(is_before),
        }
    }

    /// The ranks of a section. With `reverse` ranks count from the highest score; what is returned does not.
    pub(crate) fn section(self, section: SortedRange<'_>, reverse: bool) -> Range<usize> {
        let ranks = match section {
            SortedRange::Ranks { start, end } => {
                let ranks = resolve(start, end, self.len());
                if reverse {
                    self.len() - ranks.end..self.len() - ranks.start
                } else {
                    ranks
                }
            }
            SortedRange::Scores { min, max } => {
                let start = self.partition_point(|score, _| {
                    score < min.score || (min.is_exclusive && score == min.score)
                });
                let end = self.partition_point(|score, _| {
                    score < max.score || (!max.is_exclusive && score == max.score)
                });
                start..end
            }
            SortedRange::Members { min, max } => self.between(min, max, reverse),
        };
        if ranks.start <= ranks.end { ranks } else { 0..0 }
    }

    /// The members between two bounds. If the scores are not all equal, the members are not in order either; which
    /// ones a small sorted set then answers is what Redis answers: those from the first (backwards: the last) that is
    /// within one bound to the first that is not within the other.
    fn between(self, min: MemberBound<'_>, max: MemberBound<'_>, reverse: bool) -> Range<usize> {
        let is_below = |member: &[u8]| match min {
            MemberBound::Lowest => false,
            MemberBound::Highest => true,
            MemberBound::Including(bound) => member < bound,
            MemberBound::Excluding(bound) => member <= bound,
        };
        let is_above = |member: &[u8]| match max {
            MemberBound::Lowest => true,
            MemberBound::Highest => false,
            MemberBound::Including(bound) => member > bound,
            MemberBound::Excluding(bound) => member >= bound,
        };
        let len = self.len();
        match self {
            View::Large(large) => {
                large.partition_point(|_, member| is_below(member))
                    ..large.partition_point(|_, member| !is_above(member))
            }
            View::Listpack(_) if len == 0 || is_empty(min, max) => 0..0,
            View::Listpack(_) => {
                let mut digits = Digits::default();
                let mut tells =
                    |member: Element<'_>, what: &dyn Fn(&[u8]) -> bool| what(member.text(&mut digits));
                let all = || self.members(0..len).map(|(member, _)| member);
                if all().next_back().is_some_and(|last| tells(last, &is_below))
                    || all().next().is_some_and(|first| tells(first, &is_above))
                {
                    return 0..0;
                }
                if reverse {
                    let end = len - all().rev().take_while(|member| tells(*member, &is_above)).count();
                    let inside = all().rev().skip(len - end);
                    let count = inside.take_while(|member| !tells(*member, &is_below)).count();
                    end - count..end
                } else {
                    let start = all().take_while(|member| tells(*member, &is_below)).count();
                    let inside = all().skip(start);
                    start..start + inside.take_while(|member| !tells(*member, &is_above)).count()
                }
            }
        }
    }

    /// The ranks that a query answers, in ascending order.
    pub(crate) fn query(self, query: &RangeQuery<'_>) -> Range<usize> {
        let ranks = self.section(query.section, query.reverse);
        let (offset, count) = query.limit;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(ranks.len());
        let rest = ranks.len() - offset;
        let count = usize::try_from(count).unwrap_or(rest).min(rest);
        if query.reverse {
            let end = ranks.end - offset;
            end - count..end
        } else {
            let start = ranks.start + offset;
            start..start + count
        }
    }
}

/// Whether nothing can be between two bounds.
fn is_empty(min: MemberBound<'_>, max: MemberBound<'_>) -> bool {
    match (min, max) {
        (MemberBound::Highest, _) | (_, MemberBound::Lowest) => true,
        (MemberBound::Lowest, _) | (_, MemberBound::Highest) => false,
        (MemberBound::Including(min), MemberBound::Including(max)) => min > max,
        (
            MemberBound::Including(min) | MemberBound::Excluding(min),
            MemberBound::Including(max) | MemberBound::Excluding(max),
        ) => min >= max,
    }
}

/// Ranks as clients give them, the last included and negative ones counted from the end, among `len` members.
fn resolve(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_end = |rank: i64| {
        if rank < 0 {
            rank.saturating_add(len as i64)
        } else {
            rank
        }
    };
    let start = usize::try_from(from_end(start)).unwrap_or(0);
    match usize::try_from(from_end(end)) {
        Ok(end) if start <= end && start < len => start..end.saturating_add(1).min(len),
        _ => 0..0,
    }
}

/// Members with their scores, in order.
pub(crate) enum Members<'a> {
    Listpack {
        listpack: Listpack<'a>,
        front: Offset,
        back: Offset,
    },
    Large(tree::Range<'a>),
}

impl<'a> Iterator for Members<'a> {
    type Item = (Element<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Members::Listpack {
                listpack,
                front,
                back,
            } => {
                if front >= back {
                    return None;
                }
                let (member, score, next) = pair_at(*listpack, *front);
                *front = next;
                Some((member, score))
            }
            Members::Large(range) => range
                .next()
                .map(|(member, score)| (Element::Bytes(member), score)),
        }
    }
}

impl DoubleEndedIterator for Members<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Members::Listpack {
                listpack,
                front,
                back,
            } => {
                if front >= back {
                    return None;
                }
                *back = listpack.before(listpack.before(*back)?)?;
                let (member, score, _) = pair_at(*listpack, *back);
                Some((member, score))
            }
            Members::Large(range) => range
                .next_back()
                .map(|(member, score)| (Element::Bytes(member), score)),
        }
    }
}
