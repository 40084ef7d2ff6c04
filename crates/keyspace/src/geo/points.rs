//! What positions need of sorted sets.

use crate::apply::Edit;
use crate::limits::Limits;
use crate::object::{Kind, Object};
use crate::sorted_set::SortedSet;
use crate::{Large, Value};
use ids::HashSeed;
use ids::Version;

pub(crate) fn score_of(object: &Object, member: &[u8]) -> Option<f64> {
    let mut found = None;
    if let Value::Large(Large::SortedSet(set)) = object.value() {
        set.for_each(|name, score| {
            if name == member {
                found = Some(score)
            }
        });
    }
    found
}

pub(crate) fn in_range(object: &Object, from: f64, to: f64, mut visit: impl FnMut(&[u8], f64) -> bool) {
    let mut all: Vec<(f64, Vec<u8>)> = vec![];
    if let Value::Large(Large::SortedSet(set)) = object.value() {
        set.for_each(|name, score| {
            if score >= from && score < to {
                all.push((score, name.to_vec()))
            }
        });
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (s, m) in all {
        if !visit(&m, s) {
            return;
        }
    }
}

pub(crate) fn insert(edit: &mut Edit<'_>, member: &[u8], score: f64) {
    let mut new = SortedSet::new(edit.seed);
    if let Value::Large(Large::SortedSet(set)) = edit.object.value() {
        new = set.clone();
    }
    new.insert(member, score);
    edit.object.set_large(Large::SortedSet(new));
}

pub(crate) fn collection<'a>(
    key: &[u8],
    version: Version,
    _limits: Limits,
    seed: HashSeed,
    members: impl Iterator<Item = (&'a [u8], f64)>,
) -> Object {
    let mut new = SortedSet::new(seed);
    for (m, s) in members {
        new.insert(m, s);
    }
    let mut object = Object::collection(Kind::SortedSet, key, version);
    object.set_large(Large::SortedSet(new));
    object
}
