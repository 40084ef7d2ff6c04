//! A small table of objects in hash order.
//!
//! All keys of a segment share a prefix of their hash (`depth` bits); the sixteen bits after it are the
//! *fingerprint*. A fingerprint's **home** is its share of the places, so that homes ascend with hashes, and
//! objects stand in ascending order of their hashes, each at its home or as soon behind it as there is room
//! ("ordered linear probing", Amble and Knuth 1974):
//!
//! ```text
//!  home      0     1     2     3     4     5     6     7   | padding, for runs that begin near the end
//!  place  [ 0a ][ 21 ][ 27 ][ 6e ][    ][ a0 ][ a1 ][ a3 ] [    ][    ]
//! ```
//!
//! Why not an ordinary hash table: the order. A scan cursor is a hash, so it means the same after growth, on
//! another replica, or after a failover; snapshots and refills walk in the same order everywhere.
//!
//! Invariants:
//! 1. Places `home(object)..=place(object)` are all occupied: a search ends at an empty place.
//! 2. Objects stand in ascending order of (fingerprint, hash).
//! 3. `earliest_deadline` is at most every deadline in the segment.

use crate::object::Object;
use crate::slot_word::{Fingerprint, ObjectMut, ObjectRef, SlotWord};
use ids::{HashSeed, KeyHash, UnixMillis};

/// Objects after which a segment of the largest span is split. Bounds the work of the one command that
/// splits: about a thousand keys are hashed and moved.
pub(crate) const OBJECTS_MAX: usize = 1_024;

/// Numbers of homes, ascending. A segment moves to the next when it is fuller than four fifths, so that large
/// segments stay between 64 % and 80 % full: a slot costs about eleven bytes a key.
const SPANS: [u16; 12] = [8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1_024, 1_280];

pub(crate) struct Segment {
    places: Box<[SlotWord]>,
    count: u16,
    span_index: u8,
    /// Bits of hash that all keys here share.
    depth: u8,
    earliest_deadline: UnixMillis,
}

/// What came of an insertion.
pub(crate) enum Inserted {
    Done,
    /// No room at the largest span: split, then insert again.
    Full(Object),
}

impl Segment {
    pub(crate) fn new(depth: u8) -> Segment {
        Segment::with_span(depth, 0)
    }

    /// An empty one in which about `count` objects find room without its being laid out anew.
    pub(crate) fn with_room(depth: u8, count: usize) -> Segment {
        // Of random hashes there are seldom more than an eighth too many.
        let most = count + count / 8 + 2;
        let span = SPANS.iter().position(|&span| most * 5 < usize::from(span) * 4);
        Segment::with_span(depth, span.unwrap_or(SPANS.len() - 1))
    }

    fn with_span(depth: u8, span_index: usize) -> Segment {
        let span = usize::from(SPANS[span_index]);
        Segment {
            places: (0..places(span)).map(|_| SlotWord::EMPTY).collect(),
            count: 0,
            span_index: span_index as u8,
            depth,
            earliest_deadline: UnixMillis(i64::MAX),
        }
    }

    /// The span that a segment of so many objects has grown to, or the next one in which all of them have places. They are in ascending
    /// order of their hashes. An index for [`Segment::filled`]; `None` if the largest span is not enough.
    pub(crate) fn span_for(depth: u8, objects: &[(KeyHash, Object)]) -> Option<usize> {
        let before = objects.len().saturating_sub(1);
        let grown = SPANS
            .iter()
            .position(|&span| before * 5 < usize::from(span) * 4)?;
        (grown..SPANS.len()).find(|&index| {
            let span = usize::from(SPANS[index]);
            let next = objects.iter().fold(0, |next, (hash, _)| {
                home_of(fingerprint_at(*hash, depth), span).max(next) + 1
            });
            next <= places(span)
        })
    }

    /// A segment of these objects, at a span that was [found for them](Segment::span_for).
    pub(crate) fn filled(
        depth: u8,
        span_index: usize,
        objects: impl Iterator<Item = (KeyHash, Object)>,
    ) -> Segment {
        let mut segment = Segment::with_span(depth, span_index);
        let mut next = 0;
        for (hash, object) in objects {
            if let Some(deadline) = object.deadline() {
                segment.note_deadline(deadline);
            }
            let fingerprint = segment.fingerprint(hash);
            let place = segment.home(fingerprint).max(next);
            segment.places[place] = SlotWord::new(fingerprint, object);
            segment.count += 1;
            next = place + 1;
        }
        segment
    }

    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub(crate) fn earliest_deadline(&self) -> UnixMillis {
        self.earliest_deadline
    }

    /// Keeps invariant 3 when an object here gets a deadline.
    #[inline]
    pub(crate) fn note_deadline(&mut self, deadline: UnixMillis) {
        self.earliest_deadline = self.earliest_deadline.min(deadline);
    }

    /// Bytes of the table itself, without the objects.
    pub(crate) fn memory(&self) -> usize {
        self.places.len() * size_of::<SlotWord>()
    }

    fn span(&self) -> usize {
        usize::from(SPANS[usize::from(self.span_index)])
    }

    /// The sixteen bits of `hash` after the prefix.
    #[inline]
    pub(crate) fn fingerprint(&self, hash: KeyHash) -> Fingerprint {
        fingerprint_at(hash, self.depth)
    }

    #[inline]
    fn home(&self, fingerprint: Fingerprint) -> usize {
        home_of(fingerprint, self.span())
    }

    /// The place of `key`, if it is here.
    #[inline]
    fn place_of(&self, hash: KeyHash, key: &[u8]) -> Option<usize> {
        let fingerprint = self.fingerprint(hash);
        let start = self.home(fingerprint);
        for (distance, word) in self.places[start..].iter().enumerate() {
            if word.is_empty() || word.fingerprint() > fingerprint {
                return None;
            }
            if word.fingerprint() == fingerprint && word.object().is_some_and(|object| object.key() == key) {
                return Some(start + distance);
            }
        }
        None
    }

    /// The word of the place where a search for `hash` begins: nothing but a read of the memory where it lies.
    #[inline]
    pub(crate) fn look_at_place(&self, hash: KeyHash) -> u64 {
        self.places[self.home(self.fingerprint(hash))].bits()
    }

    /// The version of the first object that has the fingerprint of `hash`, which is nearly always the key's: nothing but a read
    /// of the memory where it lies. 0 if there is none.
    #[inline]
    pub(crate) fn look_at_object(&self, hash: KeyHash) -> u64 {
        let fingerprint = self.fingerprint(hash);
        let mut words = self.places[self.home(fingerprint)..].iter();
        words
            .find(|word| word.is_empty() || word.fingerprint() >= fingerprint)
            .filter(|word| word.fingerprint() == fingerprint)
            .and_then(SlotWord::object)
            .map_or(0, |object| object.version().0)
    }

    #[inline]
    pub(crate) fn find(&self, hash: KeyHash, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.places[self.place_of(hash, key)?].object()
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, hash: KeyHash, key: &[u8]) -> Option<ObjectMut<'_>> {
        let place = self.place_of(hash, key)?;
        self.places[place].object_mut()
    }

    /// Adds an object whose key is absent.
    pub(crate) fn insert(&mut self, seed: HashSeed, hash: KeyHash, object: Object) -> Inserted {
        if self.len() * 5 >= self.span() * 4 && !self.grow() {
            return Inserted::Full(object);
        }
        loop {
            let fingerprint = self.fingerprint(hash);
            let place = self.insertion_place(seed, hash, fingerprint);
            let gap = self.places[place..].iter().position(SlotWord::is_empty);
            if let Some(gap) = gap {
                if let Some(deadline) = object.deadline() {
                    self.note_deadline(deadline);
                }
                self.places[place..=place + gap].rotate_right(1);
                self.places[place] = SlotWord::new(fingerprint, object);
                self.count += 1;
                return Inserted::Done;
            }
            if !self.grow() {
                return Inserted::Full(object);
            }
        }
    }

    /// The first place from the hash's home on that is empty or holds a larger hash.
    fn insertion_place(&self, seed: HashSeed, hash: KeyHash, fingerprint: Fingerprint) -> usize {
        let mut place = self.home(fingerprint);
        while let Some(object) = self.places.get(place).and_then(SlotWord::object) {
            let other = self.places[place].fingerprint();
            // Equal fingerprints are rare (one in 64 objects of a full segment): only they are hashed again.
            if other > fingerprint || (other == fingerprint && seed.hash(object.key()) > hash) {
                break;
            }
            place += 1;
        }
        place
    }

    /// Takes out the object of `key`.
    pub(crate) fn remove(&mut self, hash: KeyHash, key: &[u8]) -> Option<Object> {
        let place = self.place_of(hash, key)?;
        let object = self.places[place].take();
        self.count -= 1;
        // Pull back what stands behind its home, so that invariant 1 holds without tombstones.
        let mut gap = place;
        while let Some(next) = self.places.get(gap + 1) {
            if next.is_empty() || self.home(next.fingerprint()) > gap {
                break;
            }
            self.places.swap(gap, gap + 1);
            gap += 1;
        }
        if self.span_index > 0 && self.len() * 4 < self.span() {
            self.lay_out(self.span_index - 1);
        }
        object
    }

    /// Moves to the next larger span; `false` at the largest.
    fn grow(&mut self) -> bool {
        let next = self.span_index + 1;
        if usize::from(next) == SPANS.len() {
            return false;
        }
        self.lay_out(next);
        true
    }

    /// Lays the objects out over another span, larger spans following if a run does not fit.
    fn lay_out(&mut self, span_index: u8) {
        let before = std::mem::take(&mut self.places);
        let (depth, deadline) = (self.depth, self.earliest_deadline);
        *self = Segment::from_ordered(depth, usize::from(span_index), before.into_vec());
        self.earliest_deadline = deadline;
    }

    /// Builds a segment from words in ascending order; empty ones are dropped.
    fn from_ordered(depth: u8, span_index: usize, words: Vec<SlotWord>) -> Segment {
        let mut segment = Segment::with_span(depth, span_index);
        let mut next = 0;
        let mut words = words.into_iter().filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let place = segment.home(word.fingerprint()).max(next);
            if place == segment.places.len() {
                // A run reached the end of the padding: start over with what was placed and what is left.
                let placed = std::mem::take(&mut segment.places).into_vec();
                let all = placed
                    .into_iter()
                    .chain(std::iter::once(word))
                    .chain(words)
                    .collect();
                assert!(
                    span_index + 1 < SPANS.len(),
                    "hashes so uneven that a segment cannot hold them"
                );
                return Segment::from_ordered(depth, span_index + 1, all);
            }
            segment.places[place] = word;
            segment.count += 1;
            next = place + 1;
        }
        segment
    }

    /// Splits by the next bit of the hash: lower half and upper half. The lower half's hashes precede the
    /// upper half's, so each is built in one pass.
    pub(crate) fn split(self, seed: HashSeed) -> [Segment; 2] {
        let (depth, deadline) = (self.depth + 1, self.earliest_deadline);
        let mut halves: [Vec<SlotWord>; 2] = [Vec::new(), Vec::new()];
        for mut word in self.places.into_vec() {
            let Some(hash) = word.object().map(|object| seed.hash(object.key())) else {
                continue;
            };
            let upper = word.fingerprint() >> 15;
            word.set_fingerprint(fingerprint_at(hash, depth));
            halves[usize::from(upper)].push(word);
        }
        halves.map(|words| {
            let span = SPANS
                .iter()
                .position(|&span| words.len() * 5 < usize::from(span) * 4);
            let mut segment = Segment::from_ordered(depth, span.unwrap_or(SPANS.len() - 1), words);
            segment.earliest_deadline = deadline;
            segment
        })
    }

    /// Objects in hash order from the first whose fingerprint is at least `from`, with their fingerprints.
    pub(crate) fn iter_from(&self, from: Fingerprint) -> impl Iterator<Item = (Fingerprint, ObjectRef<'_>)> {
        self.places[self.home(from)..]
            .iter()
            .filter_map(|word| word.object().map(|object| (word.fingerprint(), object)))
            .filter(move |(fingerprint, _)| *fingerprint >= from)
    }

    /// The object of this index among those whose fingerprints are in `range`.
    pub(crate) fn nth_within(&self, range: std::ops::Range<u32>, index: usize) -> Option<ObjectRef<'_>> {
        let start = self.home(range.start as Fingerprint);
        self.places[start..]
            .iter()
            .filter(|word| !word.is_empty())
            .skip_while(|word| u32::from(word.fingerprint()) < range.start)
            .take_while(|word| u32::from(word.fingerprint()) < range.end)
            .nth(index)
            .and_then(SlotWord::object)
    }

    /// Whatever stands at place `index` modulo the number of places: for random picks.
    pub(crate) fn at(&self, index: u64) -> Option<ObjectRef<'_>> {
        self.places[(index % self.places.len() as u64) as usize].object()
    }

    /// Recomputes the earliest deadline exactly.
    pub(crate) fn refresh_deadline(&mut self) {
        let deadlines = self
            .places
            .iter()
            .filter_map(SlotWord::object)
            .filter_map(|object| object.deadline());
        self.earliest_deadline = deadlines.min().unwrap_or(UnixMillis(i64::MAX));
    }

    /// Takes up to `budget` objects out; `true` once none is left.
    pub(crate) fn drain(&mut self, budget: &mut usize, mut taken: impl FnMut(Object)) -> bool {
        for word in &mut self.places {
            if *budget == 0 {
                return false;
            }
            if let Some(object) = word.take() {
                self.count -= 1;
                *budget -= 1;
                taken(object);
            }
        }
        true
    }

    /// By how many places the objects stand behind their homes, all together.
    #[cfg(test)]
    pub(crate) fn displacement(&self) -> usize {
        let places = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, word)| !word.is_empty());
        places
            .map(|(place, word)| place - self.home(word.fingerprint()))
            .sum()
    }

    /// Asserts the numbered invariants of this file.
    #[cfg(test)]
    pub(crate) fn check(&self, seed: HashSeed) {
        let mut last: Option<(Fingerprint, KeyHash)> = None;
        let mut count = 0;
        for (place, word) in self.places.iter().enumerate() {
            let Some(object) = word.object() else { continue };
            count += 1;
            let hash = seed.hash(object.key());
            assert_eq!(word.fingerprint(), self.fingerprint(hash));
            let home = self.home(word.fingerprint());
            assert!(home <= place);
            assert!(
                self.places[home..place].iter().all(|word| !word.is_empty()),
                "invariant 1"
            );
            let order = (word.fingerprint(), hash);
            assert!(last.is_none_or(|last| last <= order), "invariant 2");
            last = Some(order);
            if let Some(deadline) = object.deadline() {
                assert!(self.earliest_deadline <= deadline, "invariant 3");
            }
        }
        assert_eq!(count, self.len());
    }
}

/// Places of a segment with so many homes. Runs that begin near the end need room behind the last home; without it, the segment grows
/// early.
fn places(span: usize) -> usize {
    span + 4 + span / 16
}

#[inline]
fn home_of(fingerprint: Fingerprint, span: usize) -> usize {
    (usize::from(fingerprint) * span) >> 16
}

/// Bits `depth..depth + 16` of the hash, counted from the top.
#[inline]
fn fingerprint_at(hash: KeyHash, depth: u8) -> Fingerprint {
    ((hash.0 << depth) >> 48) as Fingerprint
}
