//! `ZUNION`, `ZINTER`, `ZDIFF` and their kin: several sorted sets, or sets, made into one.

use super::view::View;
use super::{Scored, sort, write_count, write_member};
use crate::apply::Apply;
use crate::listpack::Element;
use crate::object::{Kind, Object};
use crate::read::Reader;
use crate::set;
use crate::slot_word::ObjectRef;
use crate::value::Digits;
use command::{Aggregate, Combination, ReplyError, SetOperation, score};
use resp::Args;
use std::collections::BTreeMap;

/// One source of a combination.
#[derive(Clone, Copy)]
enum Source<'a> {
    Absent,
    Scores(View<'a>),
    /// Every score is 1.
    Set(set::Members<'a>),
}

impl<'a> Source<'a> {
    fn of(object: Option<&'a Object>) -> Source<'a> {
        match object {
            None => Source::Absent,
            Some(object) if object.kind() == Kind::SortedSet => Source::Scores(View::of(object)),
            Some(object) => Source::Set(set::Members::of(object)),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Absent => 0,
            Source::Scores(view) => view.len(),
            Source::Set(set) => set.len(),
        }
    }

    fn score_of(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Absent => None,
            Source::Scores(view) => view.score_of(member),
            Source::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    /// Calls `visit` for the members until it says `false`.
    fn for_each_while(self, mut visit: impl FnMut(&[u8], f64) -> bool) {
        match self {
            Source::Absent => {}
            Source::Scores(view) => {
                let mut digits = Digits::default();
                let mut members = view.members(0..view.len());
                members.all(|(member, score)| visit(member.text(&mut digits), score));
            }
            Source::Set(set) => {
                set.any(|member| !visit(member, 1.0));
            }
        }
    }
}

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
        SetOperation::Union => {
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
        SetOperation::Intersection => {
            sources.sort_by_key(|(source, _)| source.len());
            let mut shared = Vec::new();
            intersect(&sources, aggregate, |member, score| {
                shared.push((member.to_vec(), score));
                true
            });
            shared
        }
        SetOperation::Difference => {
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
    sort(&mut members);
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

impl Apply<'_, '_> {
    pub(super) fn z_combine_store(
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
            SetOperation::Union => "zunionstore",
            SetOperation::Intersection => "zinterstore",
            SetOperation::Difference => "zdiffstore",
        };
        self.store_scores(destination, &members, name);
        Ok(())
    }
}

impl<'k> Reader<'k, '_> {
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

    pub(super) fn z_combine(&mut self, combination: &Combination<'_>, with_scores: bool) {
        let members = match self.lookup_sources(combination.keys) {
            Ok(objects) => combined(combination, &objects),
            Err(error) => return error.write(self.out),
        };
        write_count(self.out, members.len(), with_scores);
        for (member, score) in &members {
            write_member(self.out, Element::Bytes(member), *score, with_scores);
        }
    }

    pub(super) fn z_intersection_card(&mut self, keys: Args<'_>, limit: u64) {
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
}
