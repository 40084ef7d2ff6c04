//! Sorted sets.
//!
//! A small one is a packed sequence of members, each followed by its score, in the order of the scores
//! ([`check_packed`] says what it promises); a large one is a [`SortedSet`]. Reads see both as a [`View`].

mod tree;

pub(crate) use tree::SortedSet;

use crate::apply::{Apply, Edit};
use crate::directory::Position;
use crate::events::EventClasses;
use crate::hash::are_too_many_picks;
use crate::integers;
use crate::large::Large;
use crate::limits::Limits;
use crate::object::{Kind, Object, Value, canonical_integer};
use crate::packed::{self, Element, Offset, Packed};
use crate::read::Reader;
use crate::slot_word::ObjectRef;
use crate::value::Digits;
use command::{
    AddOptions, Aggregate, Combination, CombineOperation, MemberBound, RangeQuery, ReplyError, Section,
    SortedSetCommand, SortedSetEnd, glob, score,
};
use ids::{HashSeed, Prng, Version};
use resp::{Args, Protocol, Writer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tree::compare;

/// A member with its score.
type Scored = (Vec<u8>, f64);

// The compact form.

/// Calls `with` with the element that a score is kept as: an integer if it is one exactly, else the shortest digits
/// that give it back, with an exponent where they would be many. As in Redis, `-0` becomes 0.
fn with_score_element<R>(score: f64, with: impl FnOnce(Element<'_>) -> R) -> R {
    let integer = score as i64;
    // Two to the power of 63, where the conversion saturates, is not below itself.
    let is_integer = integer as f64 == score && score < i64::MAX as f64;
    if is_integer {
        return with(Element::Integer(integer));
    }
    let has_exponent = score.is_finite() && score != 0.0 && !(1e-5..1e17).contains(&score.abs());
    let text = if has_exponent {
        format!("{score:e}")
    } else {
        format!("{score}")
    };
    with(Element::Bytes(text.as_bytes()))
}

/// The score that an element is; `None` if it is none.
fn read_score(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Integer(number) => Some(number as f64),
        Element::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Whether `bytes` are the compact form of a sorted set: members and scores by turns, every score in the form in which
/// it is written, none NaN, in ascending order of score and member, and no member twice.
pub(crate) fn check_packed(bytes: &[u8]) -> bool {
    if !Packed::check(bytes) || !Packed::new(bytes).len().is_multiple_of(2) {
        return false;
    }
    let mut elements = Packed::new(bytes).iter();
    let mut members = BTreeSet::new();
    let mut last: Option<(f64, Vec<u8>)> = None;
    while let (Some(member), Some(element)) = (elements.next(), elements.next()) {
        let Some(score) = read_score(element).filter(|score| !score.is_nan()) else {
            return false;
        };
        let member = member.to_vec();
        let is_canonical = with_score_element(score, |canonical| canonical == element);
        let ascends = last
            .as_ref()
            .is_none_or(|(before, other)| compare((*before, other), (score, &member)).is_lt());
        if !is_canonical || !ascends || !members.insert(member.clone()) {
            return false;
        }
        last = Some((score, member));
    }
    true
}

/// The member at `at` with its score, and the offset of the next.
#[inline]
fn pair_at(packed: Packed<'_>, at: Offset) -> (Element<'_>, f64, Offset) {
    let (member, at) = packed.at(at);
    let (element, next) = packed.at(at);
    let score = read_score(element).expect("every second element of a packed sorted set is a score");
    (member, score, next)
}

/// Where a new member belongs.
fn place(packed: Packed<'_>, score: f64, member: &[u8]) -> Offset {
    let mut digits = Digits::default();
    let mut at = packed.start();
    while at < packed.end() {
        let (other, other_score, next) = pair_at(packed, at);
        if compare((other_score, other.text(&mut digits)), (score, member)).is_gt() {
            break;
        }
        at = next;
    }
    at
}

fn insert_packed(buffer: &mut impl packed::Buffer, at: Offset, member: &[u8], score: f64) {
    let at = packed::insert(buffer, at, member);
    with_score_element(score, |element| packed::insert_element(buffer, at, element));
}

/// Whether a sorted set of so many members may be kept small.
fn fits_packed(limits: &Limits, members: usize) -> bool {
    members <= (limits.sorted_set_entries as usize).min(packed::ENTRIES_MAX / 2)
}

// Both forms, to read.

/// A sorted set in either form.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Packed(Packed<'a>),
    Large(&'a SortedSet),
}

impl<'a> View<'a> {
    /// The sorted set that the object holds.
    ///
    /// # Panics
    /// If it holds something else.
    pub(crate) fn of(object: &'a Object) -> View<'a> {
        match object.value() {
            Value::Packed(Kind::SortedSet, packed) => View::Packed(packed),
            Value::Large(Large::SortedSet(large)) => View::Large(large),
            other => unreachable!("the kind was checked: {other:?} is no sorted set"),
        }
    }

    /// How many members there are.
    pub(crate) fn len(self) -> usize {
        match self {
            View::Packed(packed) => packed.len() / 2,
            View::Large(large) => large.len(),
        }
    }

    /// The score of a member.
    pub(crate) fn score_of(self, member: &[u8]) -> Option<f64> {
        match self {
            View::Packed(packed) => Some(pair_at(packed, packed.find(member, 2)?).1),
            View::Large(large) => large.score_of(member),
        }
    }

    /// How many members are before this one.
    fn rank(self, member: &[u8]) -> Option<usize> {
        match self {
            View::Packed(packed) => {
                let wanted = Element::of(member);
                packed.iter().step_by(2).position(|element| element == wanted)
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
            View::Packed(packed) => {
                let offset = |rank| packed.offset_of(2 * rank).expect("no rank is beyond the length");
                Members::Packed {
                    packed,
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
            View::Packed(_) => {
                let mut digits = Digits::default();
                self.members(0..self.len())
                    .take_while(|(member, score)| is_before(*score, member.text(&mut digits)))
                    .count()
            }
            View::Large(large) => large.partition_point(is_before),
        }
    }

    /// The ranks of a section. With `reverse` ranks count from the highest score; what is returned does not.
    pub(crate) fn section(self, section: Section<'_>, reverse: bool) -> Range<usize> {
        let ranks = match section {
            Section::Ranks { start, end } => {
                let ranks = resolve(start, end, self.len());
                if reverse {
                    self.len() - ranks.end..self.len() - ranks.start
                } else {
                    ranks
                }
            }
            Section::Scores { min, max } => {
                let start = self.partition_point(|score, _| {
                    score < min.score || (min.is_exclusive && score == min.score)
                });
                let end = self.partition_point(|score, _| {
                    score < max.score || (!max.is_exclusive && score == max.score)
                });
                start..end
            }
            Section::Members { min, max } => self.between(min, max, reverse),
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
            View::Packed(_) if len == 0 || is_empty(min, max) => 0..0,
            View::Packed(_) => {
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
    Packed {
        packed: Packed<'a>,
        front: Offset,
        back: Offset,
    },
    Large(tree::Range<'a>),
}

impl<'a> Iterator for Members<'a> {
    type Item = (Element<'a>, f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Members::Packed { packed, front, back } => {
                if front >= back {
                    return None;
                }
                let (member, score, next) = pair_at(*packed, *front);
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
            Members::Packed { packed, front, back } => {
                if front >= back {
                    return None;
                }
                *back = packed.before(packed.before(*back)?)?;
                let (member, score, _) = pair_at(*packed, *back);
                Some((member, score))
            }
            Members::Large(range) => range
                .next_back()
                .map(|(member, score)| (Element::Bytes(member), score)),
        }
    }
}

// Both forms, to change.

fn large_mut(object: &mut Object) -> Option<&mut SortedSet> {
    match object.large_mut()? {
        Large::SortedSet(large) => Some(large),
        other => unreachable!("the kind was checked: {other:?} is no sorted set"),
    }
}

/// Adds a member that is not there, or gives one that is there (`is_there`) another score.
fn put(edit: &mut Edit<'_>, member: &[u8], score: f64, is_there: bool) {
    if let View::Packed(packed) = View::of(edit.object) {
        let stays = is_there
            || (fits_packed(&edit.limits, packed.len() / 2 + 1)
                && member.len() <= edit.limits.sorted_set_value_bytes as usize);
        if !stays {
            let large = grown(View::Packed(packed), edit.seed);
            edit.object.set_large(Large::SortedSet(large));
        }
    }
    match large_mut(edit.object) {
        Some(large) if is_there => large.set_score(member, score),
        Some(large) => {
            large.insert(member, score);
        }
        None => {
            if is_there {
                take(edit, member);
            }
            let at = place(Packed::new(packed::Buffer::bytes(edit.object)), score, member);
            insert_packed(edit.object, at, member, score);
        }
    }
}

/// The large form of a sorted set.
fn grown(view: View<'_>, seed: HashSeed) -> SortedSet {
    let mut large = SortedSet::new(seed);
    let mut digits = Digits::default();
    for (member, score) in view.members(0..view.len()) {
        large.insert(member.text(&mut digits), score);
    }
    large
}

/// Removes a member; whether it was there.
fn take(edit: &mut Edit<'_>, member: &[u8]) -> bool {
    if let Some(large) = large_mut(edit.object) {
        return large.remove(member).is_some();
    }
    let found = Packed::new(packed::Buffer::bytes(edit.object)).find(member, 2);
    if let Some(at) = found {
        packed::remove(edit.object, at, 2);
    }
    found.is_some()
}

/// Removes the members of these ranks, which there are.
fn take_ranks(edit: &mut Edit<'_>, ranks: Range<usize>) {
    if let Some(large) = large_mut(edit.object) {
        for _ in ranks.clone() {
            large.remove_at(ranks.start);
        }
        return;
    }
    let packed = Packed::new(packed::Buffer::bytes(edit.object));
    let at = packed.offset_of(2 * ranks.start);
    let at = at.expect("no rank is beyond the length");
    packed::remove(edit.object, at, 2 * ranks.len());
}

/// The object of a result: these members, in order and none twice.
pub(crate) fn object_of(
    key: &[u8],
    members: &[(Vec<u8>, f64)],
    limits: &Limits,
    seed: HashSeed,
    version: Version,
) -> Object {
    let longest = members.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    if fits_packed(limits, members.len()) && longest <= limits.sorted_set_value_bytes as usize {
        let mut bytes = packed::EMPTY.to_vec();
        for (member, score) in members {
            let end = bytes.len();
            insert_packed(&mut bytes, end, member, *score);
        }
        return Object::with_packed(Kind::SortedSet, key, &bytes, None, version);
    }
    let mut large = SortedSet::new(seed);
    for (member, score) in members {
        large.insert(member, *score);
    }
    Object::large(key, Large::SortedSet(large), None, version)
}

// Adding.

/// What adding did.
#[derive(Clone, Copy, Default)]
pub(crate) struct Added {
    /// Members that were not there.
    pub(crate) new: usize,
    /// Members that got another score.
    pub(crate) changed: usize,
    /// The score of the last member, unless the options kept it from being looked at.
    pub(crate) score: Option<f64>,
}

/// Adds one pair, as far as the options let it.
fn add_pair(
    edit: &mut Edit<'_>,
    options: AddOptions,
    member: &[u8],
    score: f64,
    added: &mut Added,
) -> Result<(), ReplyError> {
    let Some(before) = View::of(edit.object).score_of(member) else {
        if !options.if_present {
            put(edit, member, score, false);
            added.new += 1;
            added.score = Some(score);
        }
        return Ok(());
    };
    if options.if_absent {
        return Ok(());
    }
    let after = if options.adds_up { before + score } else { score };
    if after.is_nan() {
        return Err(ReplyError::ScoreNotANumber);
    }
    if (options.if_greater && after <= before) || (options.if_less && after >= before) {
        return Ok(());
    }
    added.score = Some(after);
    if after != before {
        put(edit, member, after, true);
        added.changed += 1;
    }
    Ok(())
}

// Combining.

/// One source of a combination.
#[derive(Clone, Copy)]
enum Source<'a> {
    Absent,
    Scores(View<'a>),
    /// A set: every score is 1.
    Members(Value<'a>),
}

impl<'a> Source<'a> {
    fn of(object: Option<&'a Object>) -> Source<'a> {
        match object {
            None => Source::Absent,
            Some(object) if object.kind() == Kind::SortedSet => Source::Scores(View::of(object)),
            Some(object) => Source::Members(object.value()),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Absent => 0,
            Source::Scores(view) => view.len(),
            Source::Members(set) => set.len(),
        }
    }

    fn score_of(self, member: &[u8]) -> Option<f64> {
        let is_there = match self {
            Source::Absent => false,
            Source::Scores(view) => return view.score_of(member),
            Source::Members(Value::Packed(_, packed)) => packed.find(member, 1).is_some(),
            Source::Members(Value::Integers(bytes)) => canonical_integer(member).is_some_and(|number| {
                let (mut low, mut high) = (0, integers::len(bytes));
                while low < high {
                    let middle = low.midpoint(high);
                    if integers::at(bytes, middle) < number {
                        low = middle + 1;
                    } else {
                        high = middle;
                    }
                }
                low < integers::len(bytes) && integers::at(bytes, low) == number
            }),
            Source::Members(Value::Large(Large::Set(members))) => {
                members.find(members.hash(member), member).is_some()
            }
            Source::Members(_) => unreachable!("the kind was checked: it is a set"),
        };
        is_there.then_some(1.0)
    }

    /// Calls `visit` for the members until it says `false`.
    fn for_each_while(self, mut visit: impl FnMut(&[u8], f64) -> bool) {
        let mut digits = Digits::default();
        match self {
            Source::Absent => {}
            Source::Scores(view) => {
                let mut members = view.members(0..view.len());
                members.all(|(member, score)| visit(member.text(&mut digits), score));
            }
            Source::Members(Value::Packed(_, packed)) => {
                packed.iter().all(|member| visit(member.text(&mut digits), 1.0));
            }
            Source::Members(Value::Integers(bytes)) => {
                (0..integers::len(bytes)).all(|index| visit(digits.format(integers::at(bytes, index)), 1.0));
            }
            Source::Members(Value::Large(Large::Set(members))) => {
                let mut goes_on = true;
                let mut position = Some(Position::START);
                while let Some(from) = position.filter(|_| goes_on) {
                    position = members.walk(from, WALK_BUDGET, |member| {
                        goes_on = goes_on && visit(member.key(), 1.0);
                    });
                }
            }
            Source::Members(_) => unreachable!("the kind was checked: it is a set"),
        }
    }
}

/// Members of a large set that are visited before somebody asks whether that is enough.
const WALK_BUDGET: u64 = 128;

/// Several scores of one member as one. Infinities of both signs add up to 0, as in Redis.
fn aggregated(aggregate: Aggregate, left: f64, right: f64) -> f64 {
    match aggregate {
        Aggregate::Sum => number_or_zero(left + right),
        Aggregate::Min if right < left => right,
        Aggregate::Max if right > left => right,
        Aggregate::Min | Aggregate::Max => left,
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The members of a combination with their scores, in order.
fn combined(combination: &Combination<'_>, objects: &[Option<ObjectRef<'_>>]) -> Vec<Scored> {
    let weight = |index| combination.weights.get(index).and_then(score).unwrap_or(1.0);
    let mut sources: Vec<(Source<'_>, f64)> = objects
        .iter()
        .enumerate()
        .map(|(index, object)| (Source::of(object.as_deref()), weight(index)))
        .collect();
    let aggregate = combination.aggregate;
    let mut members = match combination.operation {
        CombineOperation::Union => {
            // From the smallest to the largest: sums of doubles depend on the order, and Redis has this one.
            sources.sort_by_key(|(source, _)| source.len());
            let mut union: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
            for (source, weight) in sources {
                source.for_each_while(|member, score| {
                    let score = number_or_zero(weight * score);
                    match union.get_mut(member) {
                        Some(other) => *other = aggregated(aggregate, *other, score),
                        None => {
                            union.insert(member.to_vec(), score);
                        }
                    }
                    true
                });
            }
            union.into_iter().collect()
        }
        CombineOperation::Intersection => {
            sources.sort_by_key(|(source, _)| source.len());
            let mut shared = Vec::new();
            intersect(&sources, aggregate, |member, score| {
                shared.push((member.to_vec(), score));
                true
            });
            shared
        }
        CombineOperation::Difference => {
            let mut left = Vec::new();
            if let Some(((first, _), others)) = sources.split_first() {
                first.for_each_while(|member, score| {
                    if others.iter().all(|(other, _)| other.score_of(member).is_none()) {
                        left.push((member.to_vec(), score));
                    }
                    true
                });
            }
            left
        }
    };
    members.sort_unstable_by(|left, right| compare((left.1, &left.0), (right.1, &right.0)));
    members
}

/// Calls `visit` for the members that all sources have, until it says `false`. The smallest source comes first.
fn intersect(sources: &[(Source<'_>, f64)], aggregate: Aggregate, mut visit: impl FnMut(&[u8], f64) -> bool) {
    let Some(((first, weight), others)) = sources.split_first() else {
        return;
    };
    first.for_each_while(|member, score| {
        let first = Some(number_or_zero(weight * score));
        let score = others.iter().try_fold(first, |sum, (other, weight)| {
            let score = other.score_of(member)?;
            Some(sum.map(|sum| aggregated(aggregate, sum, weight * score)))
        });
        score.flatten().is_none_or(|score| visit(member, score))
    });
}

/// Whether values of this kind can be combined.
fn is_source(kind: Kind) -> bool {
    matches!(kind, Kind::SortedSet | Kind::Set)
}

// Replies.

/// The start of a reply of members, or of members with their scores: in RESP2 all in one array, in RESP3 an array of
/// pairs.
fn write_count(out: &mut Writer<'_>, count: usize, with_scores: bool) {
    let flat = with_scores && out.protocol() == Protocol::Resp2;
    out.array(if flat { 2 * count } else { count });
}

fn write_member(out: &mut Writer<'_>, member: Element<'_>, score: f64, with_score: bool) {
    if with_score && out.protocol() == Protocol::Resp3 {
        out.array(2);
    }
    member.write(out);
    if with_score {
        out.double(score);
    }
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn sorted_set(&mut self, command: &SortedSetCommand<'_>) {
        let result = match *command {
            SortedSetCommand::Add { key, options, pairs } => self.z_add(key, options, pairs),
            SortedSetCommand::Remove { key, members } => self.z_remove(key, members),
            SortedSetCommand::RangeStore {
                destination,
                source,
                query,
            } => self.z_range_store(destination, source, &query),
            SortedSetCommand::RemoveRange { key, section } => self.z_remove_range(key, section),
            SortedSetCommand::Pop { key, end, count } => self.z_pop(key, end, count),
            SortedSetCommand::PopFirst { keys, end, count } => self.z_pop_first(keys, end, count),
            SortedSetCommand::CombineStore {
                destination,
                combination,
            } => self.z_combine_store(destination, &combination),
            SortedSetCommand::Card { .. }
            | SortedSetCommand::Score { .. }
            | SortedSetCommand::Scores { .. }
            | SortedSetCommand::Rank { .. }
            | SortedSetCommand::Count { .. }
            | SortedSetCommand::Range { .. }
            | SortedSetCommand::Combine { .. }
            | SortedSetCommand::IntersectionCard { .. }
            | SortedSetCommand::RandomMember { .. }
            | SortedSetCommand::Scan { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn z_add(&mut self, key: &[u8], options: AddOptions, pairs: Args<'_>) -> Result<(), ReplyError> {
        let scores = pairs.iter().step_by(2).map(score);
        let members = pairs.iter().skip(1).step_by(2);
        let pairs = scores
            .zip(members)
            .map(|(score, member)| (member, score.expect("the parser read every score")));
        let added = self.add_scores(key, options, pairs)?;
        match added.score {
            Some(score) if options.adds_up => self.out.double(score),
            None if options.adds_up => self.out.null(),
            _ if options.counts_changes => self.out.integer((added.new + added.changed) as i64),
            _ => self.out.integer(added.new as i64),
        }
        Ok(())
    }

    /// Adds members with their scores to the sorted set of `key`. No score is NaN.
    pub(crate) fn add_scores<'a>(
        &mut self,
        key: &[u8],
        options: AddOptions,
        pairs: impl Iterator<Item = (&'a [u8], f64)>,
    ) -> Result<Added, ReplyError> {
        let result = self.edit(Kind::SortedSet, key, !options.if_present, |edit| {
            let mut added = Added::default();
            for (member, score) in pairs {
                add_pair(edit, options, member, score, &mut added)?;
            }
            if added.new + added.changed > 0 {
                edit.mark();
            }
            Ok::<_, ReplyError>(added)
        })?;
        let added = result.transpose()?.unwrap_or_default();
        if added.new + added.changed > 0 {
            let name = if options.adds_up { "zincr" } else { "zadd" };
            self.event(EventClasses::SORTED_SET, name, key);
        }
        Ok(added)
    }

    fn z_remove(&mut self, key: &[u8], members: Args<'_>) -> Result<(), ReplyError> {
        let removed = self.take_members(key, "zrem", |edit| {
            members.iter().filter(|member| take(edit, member)).count()
        })?;
        self.out.integer(removed as i64);
        Ok(())
    }

    fn z_remove_range(&mut self, key: &[u8], section: Section<'_>) -> Result<(), ReplyError> {
        let name = match section {
            Section::Ranks { .. } => "zremrangebyrank",
            Section::Scores { .. } => "zremrangebyscore",
            Section::Members { .. } => "zremrangebylex",
        };
        let removed = self.take_members(key, name, |edit| {
            let ranks = View::of(edit.object).section(section, false);
            take_ranks(edit, ranks.clone());
            ranks.len()
        })?;
        self.out.integer(removed as i64);
        Ok(())
    }

    /// Lets `take` remove members of `key`, which says how many it did, and notes it under this name.
    fn take_members(
        &mut self,
        key: &[u8],
        name: &'static str,
        take: impl FnOnce(&mut Edit<'_>) -> usize,
    ) -> Result<usize, ReplyError> {
        let taken = self.edit(Kind::SortedSet, key, false, |edit| {
            let count = take(edit);
            if count > 0 {
                edit.mark();
            }
            (count, edit.object.value().len() == 0)
        })?;
        let (count, is_empty) = taken.unwrap_or((0, false));
        if count > 0 {
            self.event(EventClasses::SORTED_SET, name, key);
            if is_empty {
                self.event(EventClasses::GENERIC, "del", key);
            }
        }
        Ok(count)
    }

    fn z_pop(&mut self, key: &[u8], end: SortedSetEnd, count: Option<u64>) -> Result<(), ReplyError> {
        let popped = self.pop_scores(key, end, count.unwrap_or(1))?.unwrap_or_default();
        if count.is_some() {
            write_count(self.out, popped.len(), true);
        } else {
            self.out.array(2 * popped.len());
        }
        for (member, score) in &popped {
            if count.is_some() && self.out.protocol() == Protocol::Resp3 {
                self.out.array(2);
            }
            self.out.bulk(member);
            self.out.double(*score);
        }
        Ok(())
    }

    fn z_pop_first(&mut self, keys: Args<'_>, end: SortedSetEnd, count: u64) -> Result<(), ReplyError> {
        for key in keys.iter() {
            if let Some(popped) = self.pop_scores(key, end, count)? {
                self.write_popped(key, &popped);
                return Ok(());
            }
        }
        self.out.null_array();
        Ok(())
    }

    /// What `ZMPOP` answers if it found something under `key`.
    pub(crate) fn write_popped(&mut self, key: &[u8], popped: &[(Vec<u8>, f64)]) {
        self.out.array(2);
        self.out.bulk(key);
        self.out.array(popped.len());
        for (member, score) in popped {
            self.out.array(2);
            self.out.bulk(member);
            self.out.double(*score);
        }
    }

    /// Removes up to `count` members from one end of the sorted set of `key` and returns them, the outermost first;
    /// `None` if there is no such key.
    pub(crate) fn pop_scores(
        &mut self,
        key: &[u8],
        end: SortedSetEnd,
        count: u64,
    ) -> Result<Option<Vec<Scored>>, ReplyError> {
        let mut popped = None;
        let name = match end {
            SortedSetEnd::Min => "zpopmin",
            SortedSetEnd::Max => "zpopmax",
        };
        self.take_members(key, name, |edit| {
            let view = View::of(edit.object);
            let len = view.len();
            let count = usize::try_from(count).unwrap_or(len).min(len);
            let owned = |(member, score): (Element<'_>, f64)| (member.to_vec(), score);
            let (ranks, members) = match end {
                SortedSetEnd::Min => (0..count, view.members(0..count).map(owned).collect()),
                SortedSetEnd::Max => {
                    let ranks = len - count..len;
                    (ranks.clone(), view.members(ranks).rev().map(owned).collect())
                }
            };
            popped = Some(members);
            take_ranks(edit, ranks);
            count
        })?;
        Ok(popped)
    }

    fn z_range_store(
        &mut self,
        destination: &[u8],
        source: &[u8],
        query: &RangeQuery<'_>,
    ) -> Result<(), ReplyError> {
        let members = match self.peek(Kind::SortedSet, source)? {
            None => Vec::new(),
            Some(object) => {
                let view = View::of(&object);
                view.members(view.query(query))
                    .map(|(member, score)| (member.to_vec(), score))
                    .collect()
            }
        };
        self.store_scores(destination, &members, "zrangestore");
        Ok(())
    }

    fn z_combine_store(
        &mut self,
        destination: &[u8],
        combination: &Combination<'_>,
    ) -> Result<(), ReplyError> {
        let objects: Vec<Option<ObjectRef<'_>>> = combination
            .keys
            .iter()
            .map(|key| match self.kind(key) {
                None => Ok(None),
                Some(kind) if is_source(kind) => self.peek(kind, key),
                Some(_) => Err(ReplyError::WrongType),
            })
            .collect::<Result<_, _>>()?;
        let members = combined(combination, &objects);
        let name = match combination.operation {
            CombineOperation::Union => "zunionstore",
            CombineOperation::Intersection => "zinterstore",
            CombineOperation::Difference => "zdiffstore",
        };
        self.store_scores(destination, &members, name);
        Ok(())
    }

    /// Stores a result, in order, under `key`, notes it under this name, and answers how many members it has. If it has
    /// none, the key is deleted.
    pub(crate) fn store_scores(&mut self, key: &[u8], members: &[(Vec<u8>, f64)], name: &'static str) {
        if members.is_empty() {
            let hash = self.hash(key);
            if self.delete(hash, key) {
                self.event(EventClasses::GENERIC, "del", key);
            }
        } else {
            let (limits, seed) = (self.keyspace.limits(), self.keyspace.seed());
            self.store(object_of(key, members, &limits, seed, self.version()));
            self.event(EventClasses::SORTED_SET, name, key);
        }
        self.out.integer(members.len() as i64);
    }
}

impl<'k> Reader<'k, '_> {
    /// The dispatch of reads.
    pub(crate) fn sorted_set(&mut self, command: &SortedSetCommand<'_>) {
        match *command {
            SortedSetCommand::Card { key } => {
                if let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.integer(0)) {
                    self.out.integer(object.value().len() as i64);
                }
            }
            SortedSetCommand::Score { key, member } => {
                if let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.null()) {
                    self.write_score(View::of(&object).score_of(member));
                }
            }
            SortedSetCommand::Scores { key, members } => self.z_scores(key, members),
            SortedSetCommand::Rank {
                key,
                member,
                reverse,
                with_score,
            } => self.z_rank(key, member, reverse, with_score),
            SortedSetCommand::Count { key, section } => {
                if let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.integer(0)) {
                    let ranks = View::of(&object).section(section, false);
                    self.out.integer(ranks.len() as i64);
                }
            }
            SortedSetCommand::Range {
                key,
                query,
                with_scores,
            } => self.z_range(key, &query, with_scores),
            SortedSetCommand::Combine {
                combination,
                with_scores,
            } => self.z_combine(&combination, with_scores),
            SortedSetCommand::IntersectionCard { keys, limit } => self.z_intersection_card(keys, limit),
            SortedSetCommand::RandomMember {
                key,
                count,
                with_scores,
            } => self.z_random_member(key, count, with_scores),
            SortedSetCommand::Scan {
                key,
                cursor,
                pattern,
                count,
            } => self.z_scan(key, cursor, pattern, count),
            SortedSetCommand::Add { .. }
            | SortedSetCommand::Remove { .. }
            | SortedSetCommand::RangeStore { .. }
            | SortedSetCommand::RemoveRange { .. }
            | SortedSetCommand::Pop { .. }
            | SortedSetCommand::PopFirst { .. }
            | SortedSetCommand::CombineStore { .. } => unreachable!("{command:?} is not a read"),
        }
    }

    fn write_score(&mut self, score: Option<f64>) {
        match score {
            Some(score) => self.out.double(score),
            None => self.out.null(),
        }
    }

    fn z_scores(&mut self, key: &[u8], members: Args<'_>) {
        let found = match self.lookup_kind(key, Kind::SortedSet) {
            Ok(found) => found,
            Err(error) => return error.write(self.out),
        };
        self.out.array(members.len());
        for member in members.iter() {
            self.write_score(
                found
                    .as_deref()
                    .and_then(|object| View::of(object).score_of(member)),
            );
        }
    }

    fn z_rank(&mut self, key: &[u8], member: &[u8], reverse: bool, with_score: bool) {
        let absent = |out: &mut Writer<'_>| {
            if with_score {
                out.null_array();
            } else {
                out.null();
            }
        };
        let Some(object) = self.lookup_or(key, Kind::SortedSet, absent) else {
            return;
        };
        let view = View::of(&object);
        let Some((rank, score)) = view.rank(member).zip(view.score_of(member)) else {
            return absent(self.out);
        };
        let rank = if reverse { view.len() - 1 - rank } else { rank };
        if with_score {
            self.out.array(2);
        }
        self.out.integer(rank as i64);
        if with_score {
            self.out.double(score);
        }
    }

    fn z_range(&mut self, key: &[u8], query: &RangeQuery<'_>, with_scores: bool) {
        let Some(object) = self.lookup_or(key, Kind::SortedSet, |out| out.array(0)) else {
            return;
        };
        let view = View::of(&object);
        let ranks = view.query(query);
        write_count(self.out, ranks.len(), with_scores);
        let mut members = view.members(ranks);
        let mut next = || {
            if query.reverse {
                members.next_back()
            } else {
                members.next()
            }
        };
        while let Some((member, score)) = next() {
            write_member(self.out, member, score, with_scores);
        }
    }

    /// The living objects of these keys, which are all sorted sets or sets.
    fn lookup_sources(&mut self, keys: Args<'_>) -> Result<Vec<Option<ObjectRef<'k>>>, ReplyError> {
        let mut objects = Vec::with_capacity(keys.len());
        for key in keys.iter() {
            let found = self.lookup(key);
            if found.as_ref().is_some_and(|object| !is_source(object.kind())) {
                return Err(ReplyError::WrongType);
            }
            objects.push(found);
        }
        Ok(objects)
    }

    fn z_combine(&mut self, combination: &Combination<'_>, with_scores: bool) {
        let members = match self.lookup_sources(combination.keys) {
            Ok(objects) => combined(combination, &objects),
            Err(error) => return error.write(self.out),
        };
        write_count(self.out, members.len(), with_scores);
        for (member, score) in &members {
            write_member(self.out, Element::Bytes(member), *score, with_scores);
        }
    }

    fn z_intersection_card(&mut self, keys: Args<'_>, limit: u64) {
        let objects = match self.lookup_sources(keys) {
            Ok(objects) => objects,
            Err(error) => return error.write(self.out),
        };
        let mut sources: Vec<(Source<'_>, f64)> = objects
            .iter()
            .map(|object| (Source::of(object.as_deref()), 1.0))
            .collect();
        sources.sort_by_key(|(source, _)| source.len());
        let mut count = 0;
        intersect(&sources, Aggregate::Sum, |_, _| {
            count += 1;
            count != limit
        });
        self.out.integer(count as i64);
    }

    fn z_random_member(&mut self, key: &[u8], count: Option<i64>, with_scores: bool) {
        let absent = |out: &mut Writer<'_>| match count {
            Some(_) => out.array(0),
            None => out.null(),
        };
        let Some(object) = self.lookup_or(key, Kind::SortedSet, absent) else {
            return;
        };
        let picker = Picker::new(View::of(&object));
        let prng = &mut self.local.prng;
        match count {
            None => {
                let (member, _) = picker.at(prng.below(picker.len as u64) as usize);
                member.write(self.out);
            }
            Some(count @ 0..) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX).min(picker.len);
                let ranks = sample(count, picker.len, prng);
                write_count(self.out, count, with_scores);
                for rank in ranks.iter() {
                    let (member, score) = picker.at(*rank);
                    write_member(self.out, member, score, with_scores);
                }
            }
            Some(count) => {
                if are_too_many_picks(&object, count.unsigned_abs()) {
                    return ReplyError::OutOfRange.write(self.out);
                }
                let count = count.unsigned_abs() as usize;
                write_count(self.out, count, with_scores);
                for _ in 0..count {
                    let (member, score) = picker.at(prng.below(picker.len as u64) as usize);
                    write_member(self.out, member, score, with_scores);
                }
            }
        }
    }

    fn z_scan(&mut self, key: &[u8], cursor: u64, pattern: Option<&[u8]>, count: u64) {
        let absent = |out: &mut Writer<'_>| {
            out.array(2);
            out.bulk(b"0");
            out.array(0);
        };
        let Some(object) = self.lookup_or(key, Kind::SortedSet, absent) else {
            return;
        };
        let mut found: Vec<(Cow<'_, [u8]>, f64)> = Vec::new();
        let accepts = |member: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, member));
        let next = match View::of(&object) {
            // A small one is answered as a whole, whatever the cursor: that is within any bound.
            view @ View::Packed(_) => {
                let members = view.members(0..view.len());
                let owned = members.map(|(member, score)| (member.to_vec().into(), score));
                found.extend(owned.filter(|(member, _): &(Cow<'_, [u8]>, f64)| accepts(member)));
                None
            }
            View::Large(large) => {
                let Some(from) = Position::new(cursor) else {
                    return ReplyError::InvalidCursor.write(self.out);
                };
                large.walk(from, count, |member, score| {
                    if accepts(member) {
                        found.push((member.to_vec().into(), score));
                    }
                })
            }
        };
        self.out.array(2);
        self.out
            .bulk_integer(next.map_or(0, |position| position.bits() as i64));
        self.out.array(2 * found.len());
        for (member, score) in &found {
            self.out.bulk(member);
            self.out.bulk_double(*score);
        }
    }
}

/// Members by rank, any number of times.
struct Picker<'a> {
    len: usize,
    /// All members of a small sorted set, which would otherwise be walked through again and again.
    small: Vec<(Element<'a>, f64)>,
    view: View<'a>,
}

impl<'a> Picker<'a> {
    fn new(view: View<'a>) -> Picker<'a> {
        let len = view.len();
        let small = match view {
            View::Packed(_) => view.members(0..len).collect(),
            View::Large(_) => Vec::new(),
        };
        Picker { len, small, view }
    }

    fn at(&self, rank: usize) -> (Element<'a>, f64) {
        match self.small.get(rank) {
            Some(found) => *found,
            None => {
                let found = self.view.members(rank..rank + 1).next();
                found.expect("the rank is below the length")
            }
        }
    }
}

/// `count` of the numbers below `len`, every choice equally likely (Floyd's algorithm: Bentley and Floyd, "A sample of
/// brilliance", 1987).
fn sample(count: usize, len: usize, prng: &mut Prng) -> BTreeSet<usize> {
    let mut chosen = BTreeSet::new();
    for last in len - count..len {
        let pick = prng.below(last as u64 + 1) as usize;
        if !chosen.insert(pick) {
            chosen.insert(last);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_comes_back_from_the_compact_form_bit_by_bit() {
        let mut scores = vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            0.1 + 0.2,
            1e-5,
            9.9e-6,
            1e16,
            1e17,
            1.5e17,
            1e21,
            1e-7,
            -1e300,
            f64::MAX,
            f64::MIN_POSITIVE,
            f64::from_bits(1),
            f64::INFINITY,
            f64::NEG_INFINITY,
            9_007_199_254_740_993.0,
            9_223_372_036_854_775_807.0,
            9_223_372_036_854_774_784.0,
            -9_223_372_036_854_775_808.0,
        ];
        let mut prng = Prng::new(9);
        scores.extend(
            (0..20_000)
                .map(|_| f64::from_bits(prng.next_u64()))
                .filter(|score| !score.is_nan()),
        );
        scores.extend((0..20_000).map(|_| (prng.next_u64() as i64 >> prng.below(64)) as f64 / 8.0));
        for score in scores {
            with_score_element(score, |element| {
                assert_eq!(
                    read_score(element).map(f64::to_bits),
                    Some((score + 0.0).to_bits()),
                    "{score}"
                );
                assert_eq!(Element::of(&element.to_vec()), element, "{score}");
                assert!(element.entry_len() <= 26, "{score}");
            });
        }
    }

    fn packed(elements: &[&str]) -> Vec<u8> {
        let mut bytes = packed::EMPTY.to_vec();
        elements
            .iter()
            .for_each(|element| packed::push_back(&mut bytes, element.as_bytes()));
        bytes
    }

    #[test]
    fn only_a_sorted_set_is_the_compact_form_of_one() {
        for good in [
            &[][..],
            &["a", "1"],
            &["a", "1", "b", "1"],
            &["b", "0", "c", "0", "a", "1.5"],
            &["10", "-inf", "9", "1e300", "8", "inf"],
        ] {
            assert!(check_packed(&packed(good)), "{good:?}");
        }
        for bad in [
            &["a"][..],
            &["a", "x"],
            &["a", "NaN"],
            &["a", "1.50"],
            &["a", "+1"],
            &["a", "-0"],
            &["a", "infinity"],
            &["a", "100e1"],
            &["a", "2", "b", "1"],
            &["b", "1", "a", "1"],
            &["a", "1", "a", "2"],
            &["a", "1", "a", "1"],
        ] {
            assert!(!check_packed(&packed(bad)), "{bad:?}");
        }
        assert!(!check_packed(b""));
    }

    #[test]
    fn samples_are_of_the_right_size_and_every_number_is_as_likely() {
        let mut prng = Prng::new(3);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            let chosen = sample(3, 10, &mut prng);
            assert_eq!(chosen.len(), 3);
            chosen.iter().for_each(|number| counts[*number] += 1);
        }
        assert!(
            counts.iter().all(|count| (2_700..3_300).contains(count)),
            "{counts:?}"
        );
        assert_eq!(sample(10, 10, &mut prng).len(), 10);
        assert!(sample(0, 10, &mut prng).is_empty());
    }
}
