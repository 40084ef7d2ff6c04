//! Where an entry stands in a stream.

use std::fmt;

/// The id of an entry: the time when it was added, and a number among those of that time. Ids of one stream only grow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId {
    /// Unix milliseconds, if the server has drawn it: clients may give any number.
    pub ms: u64,
    /// The number among those of this time.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`: no entry has it.
    pub const MIN: StreamId = StreamId::new(0, 0);
    /// No id is above it.
    pub const MAX: StreamId = StreamId::new(u64::MAX, u64::MAX);

    /// The id of these parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The one above; `None` of the highest.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId::new(self.ms, seq)),
            None => Some(StreamId::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// The one below; `None` of the lowest.
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId::new(self.ms, seq)),
            None => Some(StreamId::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }
}

/// As clients write it: `ms-seq`.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_apart_and_the_ends_have_one() {
        let first = StreamId::new(7, 0);
        assert_eq!(first.next(), Some(StreamId::new(7, 1)));
        assert_eq!(first.previous(), Some(StreamId::new(6, u64::MAX)));
        assert_eq!(first.previous().and_then(StreamId::next), Some(first));
        assert_eq!((StreamId::MIN.previous(), StreamId::MAX.next()), (None, None));
        assert!(StreamId::new(7, u64::MAX) < StreamId::new(8, 0));
    }
}
