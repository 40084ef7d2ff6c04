//! The keys of one database of one partition: extendible hashing over segments in hash order.
//!
//! The top `depth` bits of a key's hash index a table of segment numbers; a segment of smaller depth than the
//! table's stands in several neighbouring entries. When a segment is full it is split in two by its next bit,
//! and only when its depth equals the table's does the table double (it holds four bytes an entry). So no
//! growth moves more than one segment's objects: there is no stall (Fagin et al., "Extendible hashing", 1979).
//!
//! Segments are not merged when keys go: a database that shrank keeps its segments, each at its smallest span
//! (under 200 bytes for every thousand keys it once held), until it is flushed.

pub(crate) mod builder;

use crate::object::Object;
use crate::segment::{Inserted, OBJECTS_MAX, Segment};
use crate::slot_word::{ObjectMut, ObjectRef};
use ids::{HashSeed, KeyHash, Prng, UnixMillis};

/// Beyond this depth a segment could not tell its keys' scan positions apart (see [`Position::BITS`]). It would
/// take 2^24 segments, some ten thousand million keys in one partition, to get there by honest hashes.
const DEPTH_MAX: u8 = 24;

/// A place in hash order: the top [`Position::BITS`] bits of a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position(u64);

impl Position {
    /// With twelve bits of partition above them, positions stay below 2^53: cursors survive clients that keep
    /// numbers in doubles.
    pub const BITS: u32 = 41;
    /// Before all keys.
    pub const START: Position = Position(0);

    /// `None` at 2^41 and above.
    pub fn new(bits: u64) -> Option<Position> {
        (bits >> Position::BITS == 0).then_some(Position(bits))
    }

    /// As a number below 2^41.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Where a hash is.
    fn of(hash: KeyHash) -> Position {
        Position(hash.0 >> (64 - Position::BITS))
    }

    /// The first hash at this position.
    fn hash(self) -> KeyHash {
        KeyHash(self.0 << (64 - Position::BITS))
    }
}

/// Objects found by key and walked in hash order: the keys of a database, the members of a large set, the fields of a
/// large hash.
pub struct Directory {
    seed: HashSeed,
    depth: u8,
    table: Vec<u32>,
    segments: Vec<Segment>,
    count: usize,
    /// Bytes of all objects and tables.
    memory: usize,
    /// Where the search for due deadlines goes on.
    expiry_cursor: usize,
}

impl Directory {
    pub(crate) fn new(seed: HashSeed) -> Directory {
        Directory {
            seed,
            depth: 0,
            table: Vec::new(),
            segments: Vec::new(),
            count: 0,
            memory: 0,
            expiry_cursor: 0,
        }
    }

    /// An empty one with room for `count` objects. One that grows by itself while objects come in hash order, as they do when a
    /// value is decoded, would crowd each segment's objects at its beginning, pass over all of them with each insertion, and split it
    /// again and again.
    pub(crate) fn with_room(seed: HashSeed, count: usize) -> Directory {
        /// Objects of a segment on the average, so that few need more room than they are given.
        const MEAN_MAX: usize = OBJECTS_MAX * 3 / 4;
        let mut directory = Directory::new(seed);
        if count > 0 {
            let depth = count.div_ceil(MEAN_MAX).next_power_of_two().trailing_zeros();
            directory.depth = DEPTH_MAX.min(depth as u8);
            let segments = 1_u32 << directory.depth;
            directory.table = (0..segments).collect();
            let make = |_| Segment::with_room(directory.depth, count >> directory.depth);
            directory.segments = (0..segments).map(make).collect();
            directory.memory = directory.segments.iter().map(Segment::memory).sum();
        }
        directory
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.seed.hash(key)
    }

    /// Bytes of all objects and tables.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Objects changed size by this many bytes.
    #[inline]
    pub(crate) fn adjust_memory(&mut self, before: usize, after: usize) {
        self.memory = self.memory + after - before;
    }

    #[inline]
    fn segment_index(&self, hash: KeyHash) -> Option<usize> {
        // At depth 0 all keys share the one entry: a shift by 64 would be no shift at all.
        let entry = if self.depth == 0 {
            0
        } else {
            hash.0 >> (64 - self.depth)
        };
        self.table.get(entry as usize).map(|&index| index as usize)
    }

    /// The segment where a key of this hash is, or would be.
    #[inline]
    pub(crate) fn segment_of(&self, hash: KeyHash) -> Option<&Segment> {
        Some(&self.segments[self.segment_index(hash)?])
    }

    #[inline(always)]
    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.segments[self.segment_index(hash)?].find(hash, key)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: KeyHash, key: &[u8]) -> Option<ObjectMut<'_>> {
        let index = self.segment_index(hash)?;
        self.segments[index].find_mut(hash, key)
    }

    /// Tells the key's segment of a deadline it now has.
    pub(crate) fn note_deadline(&mut self, hash: KeyHash, deadline: UnixMillis) {
        if let Some(index) = self.segment_index(hash) {
            self.segments[index].note_deadline(deadline);
        }
    }

    /// Adds an object whose key is absent.
    pub(crate) fn insert(&mut self, hash: KeyHash, object: Object) {
        if self.table.is_empty() {
            let segment = Segment::new(0);
            self.memory += segment.memory();
            self.segments.push(segment);
            self.table.push(0);
        }
        self.count += 1;
        self.memory += object.memory();
        let mut object = object;
        loop {
            let index = self
                .segment_index(hash)
                .expect("a table with entries covers every hash");
            let segment = &mut self.segments[index];
            let before = segment.memory();
            let inserted = segment.insert(self.seed, hash, object);
            self.memory = self.memory + segment.memory() - before;
            match inserted {
                Inserted::Done => return,
                Inserted::Full(back) => object = back,
            }
            self.split(index, hash);
        }
    }

    pub(crate) fn remove(&mut self, hash: KeyHash, key: &[u8]) -> Option<Object> {
        let index = self.segment_index(hash)?;
        let segment = &mut self.segments[index];
        let before = segment.memory();
        let object = segment.remove(hash, key)?;
        self.memory = self.memory + segment.memory() - before - object.memory();
        self.count -= 1;
        Some(object)
    }

    /// Splits the segment at `index`, in which `hash` lies; the table doubles if it must.
    fn split(&mut self, index: usize, hash: KeyHash) {
        let depth = self.segments[index].depth();
        assert!(
            depth < DEPTH_MAX,
            "{OBJECTS_MAX} keys share {depth} bits of a keyed hash"
        );
        if depth == self.depth {
            self.table = self.table.iter().flat_map(|&entry| [entry, entry]).collect();
            self.depth += 1;
        }
        let segment = std::mem::replace(&mut self.segments[index], Segment::new(depth));
        let before = segment.memory();
        let [lower, upper] = segment.split(self.seed);
        self.memory = self.memory + lower.memory() + upper.memory() - before;
        // The entries of the split segment are neighbours; the upper half of them moves to the new segment.
        let width = 1usize << (self.depth - depth);
        let first = (hash.0 >> (64 - self.depth)) as usize & !(width - 1);
        let upper_index = u32::try_from(self.segments.len()).expect("DEPTH_MAX bounds the segments");
        self.table[first + width / 2..first + width].fill(upper_index);
        self.segments[index] = lower;
        self.segments.push(upper);
    }

    /// Calls `visit` for objects in hash order, from `from` on, until it has seen at least `budget` of them
    /// (objects at one position are never parted) or all. Returns where to go on, `None` at the end. All of it follows from
    /// the objects, however the segments came to be: replicas agree.
    pub(crate) fn walk(
        &self,
        from: Position,
        budget: u64,
        mut visit: impl FnMut(&Object),
    ) -> Option<Position> {
        let (mut seen, mut last, mut next) = (0, None, None);
        self.visit_from(from.hash(), |object| {
            if seen >= budget {
                let here = Position::of(self.hash(object.key()));
                if last != Some(here) {
                    next = Some(here);
                    return false;
                }
            }
            visit(object);
            seen += 1;
            if seen == budget {
                last = Some(Position::of(self.hash(object.key())));
            }
            true
        });
        next
    }

    /// Calls `visit` for objects in hash order, from the hash `from` on, as long as it answers `true`.
    pub(crate) fn visit_from(&self, from: KeyHash, mut visit: impl FnMut(&Object) -> bool) {
        let mut start = from;
        while let Some(index) = self.segment_index(start) {
            let segment = &self.segments[index];
            let depth = u32::from(segment.depth());
            let first = segment.fingerprint(start);
            for (fingerprint, object) in segment.iter_from(first) {
                // Fingerprints are not whole hashes. Behind a segment's first hash nothing is skipped.
                let may_precede = fingerprint == first && start == from && from.0 > 0;
                if may_precede && self.hash(object.key()) < from {
                    continue;
                }
                if !visit(&object) {
                    return;
                }
            }
            // The first hash behind the segment's prefix; past the last segment there is none.
            if depth == 0 {
                return;
            }
            let next_prefix = (start.0 >> (64 - depth)) + 1;
            if next_prefix >> depth != 0 {
                return;
            }
            start = KeyHash(next_prefix << (64 - depth));
        }
    }

    /// A random object: uniform over segments' shares of the hash space, then over places, so nearly uniform
    /// over objects. `None` if there is none.
    pub(crate) fn random(&self, prng: &mut Prng) -> Option<ObjectRef<'_>> {
        if self.count == 0 {
            return None;
        }
        for _ in 0..256 {
            let segment = &self.segments[self.segment_index(KeyHash(prng.next_u64()))?];
            if segment.len() == 0 {
                continue;
            }
            if let Some(object) = segment.at(prng.next_u64()) {
                return Some(object);
            }
        }
        // Nearly empty, and once large: take the next object from a random segment on.
        let start = self.segment_index(KeyHash(prng.next_u64()))?;
        let order = (start..self.segments.len()).chain(0..start);
        order
            .filter_map(|index| self.segments[index].iter_from(0).next())
            .map(|(_, object)| object)
            .next()
    }

    /// An object picked so that every one is as likely as any other. Which one follows from the objects and `prng` alone,
    /// however the segments came to be: replicas agree. `None` if there is none.
    ///
    /// The hashes are divided into ranges of equal width. A range and an index in it are drawn together, and drawn again if
    /// the range has fewer objects: so none need be counted, and large directories take no longer than small ones.
    pub(crate) fn pick(&self, prng: &mut Prng) -> Option<ObjectRef<'_>> {
        /// Objects of a range, on the average; at most twice as many.
        const OBJECTS_MEAN: usize = 16;
        /// No range has more: for random hashes, of which two thirds as many are expected at most, the chance is below
        /// one in a million millions.
        const OBJECTS_LIMIT: u64 = 80;
        /// Each try finds an object with a chance of a fifth or more.
        const TRIES: usize = 200;
        let ranges = self.count / OBJECTS_MEAN;
        if ranges > 1 {
            let bits = ranges.ilog2() as u8;
            for _ in 0..TRIES {
                let range = prng.next_u64() >> (64 - bits);
                let index = prng.below(OBJECTS_LIMIT) as usize;
                if let Some(object) = self.nth_in_range(range, bits, index) {
                    return Some(object);
                }
            }
        }
        if self.count == 0 {
            return None;
        }
        let mut found = None;
        let rank = prng.below(self.count as u64) as usize;
        self.select([rank], |object| found = Some(object));
        found
    }

    /// The object of this index among those whose hash begins with the `bits` bits of `range`.
    fn nth_in_range(&self, range: u64, bits: u8, mut index: usize) -> Option<ObjectRef<'_>> {
        let first = KeyHash(range << (64 - bits));
        let segment = &self.segments[self.segment_index(first)?];
        if segment.depth() <= bits {
            // The range lies in one segment. Were it narrower than a fingerprint can tell, the segment would be one of
            // tens of thousands of ranges.
            let width = 0x1_0000 >> (bits - segment.depth()).min(16);
            let start = u32::from(segment.fingerprint(first));
            return segment.nth_within(start..start + width, index);
        }
        // Many objects went, and the range has several segments.
        let mut entry = (first.0 >> (64 - self.depth)) as usize;
        let end = entry + (1 << (self.depth - bits));
        while entry < end {
            let segment = &self.segments[self.table[entry] as usize];
            if index < segment.len() {
                return segment.nth_within(0..0x1_0000, index);
            }
            index -= segment.len();
            entry += 1 << (self.depth - segment.depth());
        }
        None
    }

    /// Calls `visit` for the objects of these ranks in hash order; ranks ascend and may repeat. One pass over the
    /// segments, and only those that hold a wanted object are looked into.
    pub(crate) fn select<'a>(
        &'a self,
        ranks: impl IntoIterator<Item = usize>,
        mut visit: impl FnMut(ObjectRef<'a>),
    ) {
        let mut ranks = ranks.into_iter().peekable();
        let (mut entry, mut first) = (0, 0);
        while let (Some(&wanted), Some(&index)) = (ranks.peek(), self.table.get(entry)) {
            let segment = &self.segments[index as usize];
            let past = first + segment.len();
            if wanted < past {
                for (rank, (_, object)) in (first..).zip(segment.iter_from(0)) {
                    while ranks.next_if_eq(&rank).is_some() {
                        visit(object.clone());
                    }
                    if ranks.peek().is_none_or(|&next| next >= past) {
                        break;
                    }
                }
            }
            first = past;
            entry += 1 << (self.depth - segment.depth());
        }
    }

    /// The seed of the hash order.
    pub(crate) fn seed(&self) -> HashSeed {
        self.seed
    }

    /// Changes an object in place, keeping count of the bytes.
    pub(crate) fn update<R>(&mut self, key: &[u8], change: impl FnOnce(&mut Object) -> R) -> Option<R> {
        let hash = self.hash(key);
        let mut object = self.find_mut(hash, key)?;
        let before = object.memory();
        let result = change(&mut object);
        let after = object.memory();
        drop(object);
        self.adjust_memory(before, after);
        Some(result)
    }

    /// Collects keys whose deadline is at or before `time`, going round the segments from where the last call
    /// stopped, until about `budget` objects were looked at or all segments were, and counts it down. Segments without a due
    /// deadline cost one comparison. `true` if everything was looked at.
    pub(crate) fn due(
        &mut self,
        time: UnixMillis,
        budget: &mut usize,
        mut found: impl FnMut(&Object),
    ) -> bool {
        for _ in 0..self.segments.len() {
            if *budget == 0 {
                return false;
            }
            if self.expiry_cursor >= self.segments.len() {
                self.expiry_cursor = 0;
            }
            let segment = &mut self.segments[self.expiry_cursor];
            self.expiry_cursor += 1;
            if segment.earliest_deadline() > time {
                continue;
            }
            segment.refresh_deadline();
            *budget = budget.saturating_sub(segment.len());
            if segment.earliest_deadline() > time {
                continue;
            }
            for (_, object) in segment.iter_from(0) {
                if object.is_expired(time) {
                    found(&object);
                }
            }
        }
        true
    }

    /// All objects, in hash order.
    pub(crate) fn for_each(&self, visit: impl FnMut(&Object)) {
        let rest = self.walk(Position::START, u64::MAX, visit);
        debug_assert!(rest.is_none());
    }

    /// The segments, to be dropped piece by piece.
    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Asserts the invariants of all segments and of the table.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut memory = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            segment.check(self.seed);
            memory += segment.memory();
            let entries = self
                .table
                .iter()
                .filter(|&&entry| entry as usize == index)
                .count();
            assert_eq!(entries, 1 << (self.depth - segment.depth()));
        }
        self.for_each(|object| memory += object.memory());
        assert_eq!(self.memory, memory);
        assert_eq!(self.count, self.segments.iter().map(Segment::len).sum::<usize>());
    }
}

impl Clone for Directory {
    fn clone(&self) -> Directory {
        let mut copy = Directory::with_room(self.seed, self.count);
        self.for_each(|object| {
            let member = object.copy_as(object.key(), object.deadline(), object.version());
            copy.insert(self.hash(object.key()), member);
        });
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Version;
    use std::collections::BTreeMap;

    const SEED: HashSeed = HashSeed([1, 2]);

    fn insert(directory: &mut Directory, key: &[u8]) {
        directory.insert(SEED.hash(key), Object::string(key, b"v", None, Version(1)));
    }

    #[test]
    fn agrees_with_a_map_through_growth_and_removal() {
        let mut directory = Directory::new(SEED);
        let mut model = BTreeMap::new();
        let mut prng = Prng::new(7);
        for round in 0..60_000u64 {
            let key = format!("key:{}", prng.below(9_000)).into_bytes();
            let hash = SEED.hash(&key);
            let grows = round < 30_000 || prng.below(8) == 0;
            if grows && !model.contains_key(&key) {
                insert(&mut directory, &key);
                model.insert(key, ());
            } else {
                assert_eq!(
                    directory.remove(hash, &key).is_some(),
                    model.remove(&key).is_some()
                );
            }
            if round % 5_000 == 0 {
                directory.check();
            }
        }
        directory.check();
        assert_eq!(directory.len(), model.len());
        for key in model.keys() {
            assert!(directory.find(SEED.hash(key), key).is_some());
        }
    }

    #[test]
    fn a_walk_in_pieces_visits_every_key_that_stays_exactly_once_across_growth() {
        let mut directory = Directory::new(SEED);
        let staying: Vec<Vec<u8>> = (0..3_000).map(|n| format!("stay:{n}").into_bytes()).collect();
        for key in &staying {
            insert(&mut directory, key);
        }
        let mut seen = BTreeMap::new();
        let mut position = Some(Position::START);
        let mut extra = 0;
        while let Some(from) = position {
            position = directory.walk(from, 10, |object| {
                *seen.entry(object.key().to_vec()).or_insert(0) += 1
            });
            for _ in 0..40 {
                insert(&mut directory, format!("extra:{extra}").as_bytes());
                extra += 1;
            }
        }
        for key in &staying {
            assert_eq!(seen.get(key), Some(&1), "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn walking_order_is_hash_order() {
        let mut directory = Directory::new(SEED);
        for n in 0..5_000 {
            insert(&mut directory, format!("{n}").as_bytes());
        }
        let mut last = KeyHash(0);
        directory.for_each(|object| {
            let hash = SEED.hash(object.key());
            assert!(hash >= last);
            last = hash;
        });
    }

    #[test]
    fn what_has_room_is_filled_in_hash_order_without_splitting_and_without_passing_over_others() {
        for count in [1, 7, 700, 769, 5_000, 100_000] {
            let mut any = Directory::new(SEED);
            (0..count).for_each(|n| insert(&mut any, format!("{n}").as_bytes()));
            let mut filled = Directory::with_room(SEED, count);
            let segments = filled.segments.len();
            any.for_each(|object| insert(&mut filled, object.key()));
            filled.check();
            let passed: usize = filled.segments.iter().map(Segment::displacement).sum();
            assert!(
                passed <= 8 * count,
                "{count} objects stand {passed} places behind their homes"
            );
            assert_eq!((filled.len(), filled.segments.len()), (count, segments));
            let (bytes, most) = (filled.memory, any.memory * 5 / 4 + 128);
            assert!(bytes <= most, "{count}: {bytes} bytes, {most} are plenty");
        }
    }

    #[test]
    fn every_object_is_picked_as_often_as_any_other_whatever_the_segments() {
        for (most, left) in [
            (1, 1),
            (40, 40),
            (500, 500),
            (5_000, 5_000),
            (40_000, 300),
            (40_000, 3),
        ] {
            let mut directory = Directory::new(SEED);
            let key = |n: usize| format!("key:{n}").into_bytes();
            (0..most).for_each(|n| insert(&mut directory, &key(n)));
            for n in left..most {
                directory.remove(SEED.hash(&key(n)), &key(n));
            }
            let mut same = Directory::new(SEED);
            (0..left).for_each(|n| insert(&mut same, &key(n)));
            let (mut prng, mut other) = (Prng::new(9), Prng::new(9));
            let mut counts = BTreeMap::new();
            let picks = 40 * left;
            for _ in 0..picks {
                let picked = directory.pick(&mut prng).expect("it is not empty").key().to_vec();
                assert_eq!(same.pick(&mut other).expect("nor is this").key(), picked);
                *counts.entry(picked).or_insert(0) += 1;
            }
            // Forty are expected of each; ninety are out of reach of chance.
            assert!(counts.values().all(|&count| count < 90));
            assert!(counts.len() * 100 >= left * 99);
        }
        assert!(Directory::new(SEED).pick(&mut Prng::new(1)).is_none());
    }

    #[test]
    fn picking_by_rank_agrees_with_walking() {
        let mut directory = Directory::new(SEED);
        for n in 0..5_000 {
            insert(&mut directory, format!("{n}").as_bytes());
        }
        let mut order = Vec::new();
        directory.for_each(|object| order.push(object.key().to_vec()));
        let mut prng = Prng::new(11);
        for chance in [1, 2, 50, 2_000] {
            let ranks: Vec<usize> = (0..order.len()).filter(|_| prng.below(chance) == 0).collect();
            let mut picked = Vec::new();
            directory.select(ranks.iter().copied(), |object| picked.push(object.key().to_vec()));
            let expected: Vec<Vec<u8>> = ranks.iter().map(|&rank| order[rank].clone()).collect();
            assert_eq!(picked, expected);
        }
    }

    #[test]
    fn due_deadlines_are_found_and_only_they() {
        let mut directory = Directory::new(SEED);
        for n in 0..4_000i64 {
            let key = format!("{n}").into_bytes();
            let deadline = (n % 2 == 0).then_some(UnixMillis(n));
            directory.insert(SEED.hash(&key), Object::string(&key, b"v", deadline, Version(1)));
        }
        let mut gone = 0;
        loop {
            let mut found = Vec::new();
            let complete = directory.due(UnixMillis(100), &mut 500, |object| {
                found.push(object.key().to_vec())
            });
            for key in &found {
                assert!(directory.remove(SEED.hash(key), key).is_some());
            }
            gone += found.len();
            if complete {
                break;
            }
        }
        assert_eq!(gone, 51);
        directory.check();
    }
}
