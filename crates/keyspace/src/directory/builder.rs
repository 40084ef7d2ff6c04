//! A directory that is made of objects in hash order, which is how a state comes.
//!
//! ```text
//!    complete segments              | pending
//!    [ a d f ] [ ] [ m n ] [ p q r ]  s u v x ...   <-- add
//!                                   ^ start
//! ```
//!
//! One that grows by itself while objects come like this crowds those of its last segment at the segment's beginning, passes over all
//! of them with each insertion, and splits the segment again and again. Here each object is moved twice, however many there are. Nobody
//! need know beforehand how many that is, so whoever announces much and sends little takes no memory.
//!
//! The segments are those of a directory that grew: each is of the widest prefix that has at most [`OBJECTS_MAX`] objects.
//!
//! Invariants:
//! 1. `segments` cover the hashes before `start`, in their order.
//! 2. `pending` are the objects behind these, in ascending order of hashes, none twice, and at most [`OBJECTS_MAX`].
//! 3. Every prefix that has a hash before `start` and one behind it was found to be too much for a segment.

use super::{DEPTH_MAX, Directory};
use crate::object::Object;
use crate::segment::{OBJECTS_MAX, Segment};
use ids::{HashSeed, KeyHash};

/// See the file's header.
pub(crate) struct DirectoryBuilder {
    seed: HashSeed,
    segments: Vec<Segment>,
    /// The first hash behind the segments; 0 also if they cover all.
    start: u64,
    pending: Vec<(KeyHash, Object)>,
    last: Option<KeyHash>,
    count: usize,
    /// Bytes of the objects.
    memory: usize,
}

impl DirectoryBuilder {
    /// One that has no objects.
    pub(crate) fn new(seed: HashSeed) -> DirectoryBuilder {
        DirectoryBuilder {
            seed,
            segments: Vec::new(),
            start: 0,
            pending: Vec::new(),
            last: None,
            count: 0,
            memory: 0,
        }
    }

    /// Objects that were added.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether this hash is behind those of all objects here.
    #[inline]
    pub(crate) fn is_behind(&self, hash: KeyHash) -> bool {
        self.last.is_none_or(|last| last < hash)
    }

    /// Adds an object. Its hash [is behind](DirectoryBuilder::is_behind) all others: so its key is absent, and nobody need look.
    /// `None` if more hashes agree in [`DEPTH_MAX`] bits than a segment can hold: nobody's keys are so by chance.
    pub(crate) fn add(&mut self, hash: KeyHash, object: Object) -> Option<()> {
        debug_assert!(self.is_behind(hash), "objects come in hash order");
        while self.pending.len() == OBJECTS_MAX {
            self.complete_segment(Some(hash))?;
        }
        self.last = Some(hash);
        self.count += 1;
        self.memory += object.memory();
        self.pending.push((hash, object));
        Some(())
    }

    /// The directory of all objects; `None` as above.
    pub(crate) fn finish(mut self) -> Option<Directory> {
        self.complete_segment(None)?;
        while self.start != 0 {
            self.complete_segment(None)?;
        }
        let depth = self.segments.iter().map(Segment::depth).max().unwrap_or(0);
        let entries =
            |(index, segment): (u32, &Segment)| std::iter::repeat_n(index, 1 << (depth - segment.depth()));
        Some(Directory {
            seed: self.seed,
            depth,
            table: (0..).zip(&self.segments).flat_map(entries).collect(),
            count: self.count,
            memory: self.memory + self.segments.iter().map(Segment::memory).sum::<usize>(),
            segments: self.segments,
            expiry_cursor: 0,
        })
    }

    /// Makes the segment that begins at `start`. `next` is the hash of an object that comes behind those that are pending.
    fn complete_segment(&mut self, next: Option<KeyHash>) -> Option<()> {
        // Invariant 3: what is wider begins earlier, or is all.
        let widest = (u64::BITS - self.start.trailing_zeros()) as u8;
        for depth in widest..=DEPTH_MAX {
            let end = self.start | (u64::MAX >> depth);
            if next.is_some_and(|next| next.0 <= end) {
                continue;
            }
            let count = self.pending.partition_point(|(hash, _)| hash.0 <= end);
            if let Some(span) = Segment::span_for(depth, &self.pending[..count]) {
                let objects = self.pending.drain(..count);
                self.segments.push(Segment::filled(depth, span, objects));
                self.start = end.wrapping_add(1);
                return Some(());
            }
        }
        None
    }

    /// Asserts the numbered invariants of this file; the third shows in how many segments there are.
    #[cfg(test)]
    fn check(&self) {
        let width = |segment: &Segment| 1_u128 << (u64::BITS - u32::from(segment.depth()));
        let covered: u128 = self.segments.iter().map(width).sum();
        assert_eq!(covered, u128::from(self.start), "invariant 1");
        let hashes: Vec<u64> = self.pending.iter().map(|(hash, _)| hash.0).collect();
        assert!(
            hashes.first().is_none_or(|&first| first >= self.start),
            "invariant 2"
        );
        assert!(hashes.is_sorted_by(|one, next| one < next), "invariant 2");
        assert!(hashes.len() <= OBJECTS_MAX, "invariant 2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{UnixMillis, Version};

    const SEED: HashSeed = HashSeed([1, 2]);

    fn object(key: &[u8]) -> Object {
        Object::string(key, b"v", None, Version(1))
    }

    /// The objects of these keys, in hash order.
    fn in_order(keys: impl Iterator<Item = Vec<u8>>) -> Vec<(KeyHash, Object)> {
        let mut objects: Vec<_> = keys.map(|key| (SEED.hash(&key), object(&key))).collect();
        objects.sort_unstable_by_key(|(hash, _)| *hash);
        objects
    }

    fn build(objects: Vec<(KeyHash, Object)>) -> Option<Directory> {
        let mut builder = DirectoryBuilder::new(SEED);
        for (hash, object) in objects {
            assert!(builder.is_behind(hash));
            builder.add(hash, object)?;
            assert!(!builder.is_behind(hash));
            builder.check();
        }
        builder.finish()
    }

    fn keys(directory: &Directory) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        directory.for_each(|object| keys.push(object.key().to_vec()));
        keys
    }

    #[test]
    fn what_is_built_has_the_segments_and_the_memory_of_what_grew() {
        for count in [0, 1, 6, 7, 8, 700, 1_024, 1_025, 5_000, 60_000] {
            let names = || (0..count).map(|n: u32| n.to_string().into_bytes());
            let mut grown = Directory::new(SEED);
            names().for_each(|key| grown.insert(SEED.hash(&key), object(&key)));
            let built = build(in_order(names())).expect("these hashes are random");
            built.check();
            assert_eq!(keys(&built), keys(&grown));
            assert_eq!(built.len(), grown.len());
            assert_eq!(built.segments.len(), grown.segments.len().max(1));
            // One that grew may have needed more for a while.
            assert!(
                built.memory() <= grown.memory() + Segment::new(0).memory(),
                "{count}"
            );
            assert!(built.memory() * 50 >= grown.memory() * 49, "{count}");
        }
    }

    #[test]
    fn what_is_built_goes_on_as_any_other() {
        let mut built = build(in_order((0..3_000).map(|n: u32| n.to_string().into_bytes()))).unwrap();
        for n in 3_000..9_000_u32 {
            let key = n.to_string().into_bytes();
            built.insert(SEED.hash(&key), object(&key));
        }
        for n in 0..8_000_u32 {
            let key = n.to_string().into_bytes();
            assert!(built.remove(SEED.hash(&key), &key).is_some());
        }
        built.check();
        assert_eq!(built.len(), 1_000);
    }

    #[test]
    fn objects_that_crowd_at_the_end_of_the_hashes_have_places() {
        // More than stand behind the last home of the largest segment.
        let crowd = (0_u32..).map(|n| n.to_string().into_bytes());
        let crowd = crowd.filter(|key| SEED.hash(key).0 >> 53 == 0x7ff);
        let objects = in_order(crowd.take(150));
        assert_eq!(Segment::span_for(0, &objects), None);
        let built = build(objects).unwrap();
        built.check();
        assert_eq!(built.len(), 150);
        assert!(built.segments.len() > 1);
    }

    #[test]
    fn hashes_that_agree_in_too_many_bits_are_refused() {
        let objects = |count: u64| (0..count).map(|n| (KeyHash(n << 20), object(b"key"))).collect();
        assert!(build(objects(OBJECTS_MAX as u64 + 1)).is_none());
    }

    #[test]
    fn a_deadline_is_found_in_what_was_built() {
        let mut objects = in_order((0..5_000).map(|n: u32| n.to_string().into_bytes()));
        let due = UnixMillis(100);
        let key = objects[3_210].1.key().to_vec();
        objects[3_210].1 = Object::string(&key, b"v", Some(due), Version(1));
        let mut built = build(objects).unwrap();
        let mut found = Vec::new();
        assert!(built.due(due, &mut usize::MAX.clone(), |object| {
            found.push(object.key().to_vec())
        }));
        assert_eq!(found, [key]);
    }
}
