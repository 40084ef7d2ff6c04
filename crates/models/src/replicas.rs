//! What models of a group have in common: sets of its replicas, and majorities.

use std::fmt;

/// Some of a handful of replicas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Set(pub u8);

impl Set {
    /// Nobody.
    pub const NONE: Set = Set(0);

    /// One of them.
    pub const fn of(replica: usize) -> Set {
        Set(1 << replica)
    }

    /// The first so many.
    pub const fn first(count: usize) -> Set {
        Set((1 << count) - 1)
    }

    /// Those for which it is so.
    pub fn which(count: usize, is_in: impl Fn(usize) -> bool) -> Set {
        Set((0..count)
            .filter(|replica| is_in(*replica))
            .map(|replica| 1 << replica)
            .sum())
    }

    /// Whether it is in it.
    pub fn has(self, replica: usize) -> bool {
        self.0 & (1 << replica) != 0
    }

    /// With this one.
    pub fn with(self, replica: usize) -> Set {
        Set(self.0 | 1 << replica)
    }

    /// Those that are in both.
    pub fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// Those that are not in the other.
    pub fn but(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    /// Everybody in it, in order.
    pub fn each(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |replica| self.has(*replica))
    }

    /// Whether more than half of `all` are in it.
    pub fn is_majority_of(self, all: Set) -> bool {
        self.and(all).0.count_ones() * 2 > all.0.count_ones()
    }

    /// All sets of these.
    pub fn subsets(self) -> impl Iterator<Item = Set> {
        (0..=self.0).filter(move |bits| bits & !self.0 == 0).map(Set)
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_no_majority() {
        let all = Set::first(4);
        assert!(!Set(0b0011).is_majority_of(all));
        assert!(Set(0b1011).is_majority_of(all));
        assert!(!Set::NONE.is_majority_of(Set::NONE));
        assert!(Set(0b1110).is_majority_of(Set::of(2)));
    }

    #[test]
    fn each_subset_comes_once() {
        let subsets: Vec<Set> = Set(0b101).subsets().collect();
        assert_eq!(subsets, [Set(0), Set(1), Set(0b100), Set(0b101)]);
        assert_eq!(format!("{:?}", Set(0b101)), "{0, 2}");
    }
}
