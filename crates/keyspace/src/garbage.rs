//! What was deleted and is too large to be dropped at once.
//!
//! Dropping a million objects takes longer than a client should wait. So flushed databases and large collections come
//! here, and the driver drops them piece by piece between turns.

use crate::large::Large;
use crate::list::List;
use crate::object::Object;
use crate::segment::Segment;
use crate::sorted_set::SortedSet;
use std::collections::VecDeque;

/// Collections of fewer elements are dropped at once.
const SMALL_MAX: usize = 128;

/// Things to be dropped. Not part of the state: no command can see them.
#[derive(Default)]
pub struct Garbage(VecDeque<Piece>);

impl std::fmt::Debug for Garbage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} pieces of garbage", self.0.len())
    }
}

enum Piece {
    Segment(Segment),
    List(List),
    SortedSet(SortedSet),
}

impl Garbage {
    /// The objects of a flushed database or of a collection.
    pub(crate) fn add_segments(&mut self, segments: Vec<Segment>) {
        self.0.extend(segments.into_iter().map(Piece::Segment));
    }

    /// What another keyspace was to drop.
    pub(crate) fn append(&mut self, mut other: Garbage) {
        self.0.append(&mut other.0);
    }

    /// An object that was deleted.
    #[inline]
    pub(crate) fn add(&mut self, mut object: Object) {
        if let Some(large) = object.take_large() {
            self.add_large(*large);
        }
    }

    /// A collection whose object got another value.
    pub(crate) fn add_large(&mut self, large: Large) {
        if large.len() <= SMALL_MAX {
            return;
        }
        match large {
            Large::List(list) => self.0.push_back(Piece::List(list)),
            Large::Set(directory) | Large::Hash(directory) => self.add_segments(directory.into_segments()),
            Large::SortedSet(sorted_set) => self.0.push_back(Piece::SortedSet(sorted_set)),
        }
    }

    /// Drops up to about `budget` objects, and counts them down; `true` if none is left.
    pub(crate) fn collect(&mut self, budget: &mut usize) -> bool {
        while let Some(piece) = self.0.pop_front() {
            let rest = match piece {
                Piece::Segment(mut segment) => {
                    let is_empty = segment.drain(budget, |object| self.add(object));
                    (!is_empty).then_some(Piece::Segment(segment))
                }
                Piece::List(mut list) => (!list.drain(budget)).then_some(Piece::List(list)),
                Piece::SortedSet(mut sorted_set) => {
                    (!sorted_set.drain(budget)).then_some(Piece::SortedSet(sorted_set))
                }
            };
            if let Some(rest) = rest {
                self.0.push_front(rest);
                return false;
            }
        }
        true
    }
}
