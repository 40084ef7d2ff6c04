//! Sorted sets.

use crate::apply::Apply;
use crate::object::Kind;
use crate::read::Reader;
use command::SortedSetCommand;
use ids::HashSeed;
use std::collections::BTreeMap;

/// A sorted set beyond the limits of the compact form.
#[derive(Clone)]
pub struct SortedSet {
    seed: HashSeed,
    scores: BTreeMap<Vec<u8>, f64>,
}

impl SortedSet {
    /// An empty one; `seed` orders its members where no score does.
    pub(crate) fn new(seed: HashSeed) -> SortedSet {
        SortedSet {
            seed,
            scores: BTreeMap::new(),
        }
    }

    /// The seed of the members' hash order.
    pub(crate) fn seed(&self) -> HashSeed {
        self.seed
    }

    /// How many members there are.
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Bytes of everything, in constant time.
    pub(crate) fn memory(&self) -> usize {
        self.scores.len() * 64
    }

    /// Adds a member; `false` if it is there.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) -> bool {
        self.scores.insert(member.to_vec(), score).is_none()
    }

    /// Calls `visit` for the members in order of their scores.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], f64)) {
        self.scores
            .iter()
            .for_each(|(member, score)| visit(member, *score));
    }

    /// Drops about `budget` members, and counts it down; `true` once none is left.
    pub(crate) fn drain(&mut self, budget: &mut usize) -> bool {
        while *budget > 0 && self.scores.pop_first().is_some() {
            *budget -= 1;
        }
        self.scores.is_empty()
    }
}

/// Whether `bytes` are the compact form of a sorted set.
pub(crate) fn check_packed(bytes: &[u8]) -> bool {
    crate::packed::Packed::check(bytes)
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn sorted_set(&mut self, command: &SortedSetCommand<'_>) {
        match *command {
            SortedSetCommand::Card { .. } => unreachable!("{command:?} does not write"),
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn sorted_set(&mut self, command: &SortedSetCommand<'_>) {
        match *command {
            SortedSetCommand::Card { key } => match self.lookup_kind(key, Kind::SortedSet) {
                Ok(found) => self
                    .out
                    .integer(found.map_or(0, |object| object.value().len()) as i64),
                Err(error) => error.write(self.out),
            },
        }
    }
}
