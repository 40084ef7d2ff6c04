//! An ordered set that mostly has one member.
//!
//! Nearly every locked key has one holder, and a `BTreeSet` makes room for eleven with its first member: half a
//! kilobyte for each key of a transaction.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

/// Values in ascending order, each once; the first needs no memory of its own.
#[derive(Debug, Default)]
pub(super) enum Few<T> {
    #[default]
    None,
    One(T),
    /// Also of what is left of many, however few.
    Many(BTreeSet<T>),
}

impl<T: Copy + Ord> Few<T> {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Few::None => true,
            Few::One(_) => false,
            Few::Many(values) => values.is_empty(),
        }
    }

    pub(super) fn insert(&mut self, value: T) {
        match self {
            Few::None => *self = Few::One(value),
            Few::One(other) => *self = Few::Many(BTreeSet::from([*other, value])),
            Few::Many(values) => {
                values.insert(value);
            }
        }
    }

    pub(super) fn remove(&mut self, value: T) {
        match self {
            Few::One(other) if *other == value => *self = Few::None,
            Few::None | Few::One(_) => {}
            Few::Many(values) => {
                values.remove(&value);
            }
        }
    }

    /// The values between two bounds, in order. Panics as `BTreeSet::range` does.
    pub(super) fn range(&self, bounds: (Bound<T>, Bound<T>)) -> impl Iterator<Item = T> {
        let (one, many) = match self {
            Few::None => (None, None),
            Few::One(value) => (bounds.contains(value).then_some(*value), None),
            Few::Many(values) => (None, Some(values.range(bounds).copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn iter(&self) -> impl Iterator<Item = T> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }
}

impl<T: Copy + Ord> PartialEq for Few<T> {
    fn eq(&self, other: &Few<T>) -> bool {
        self.iter().eq(other.iter())
    }
}
