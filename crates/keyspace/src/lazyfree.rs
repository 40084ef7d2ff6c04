//! What was deleted and is too large to be dropped at once.
//!
//! Dropping a million objects takes longer than a client should wait, and so does a string of a hundred megabytes. So flushed databases, large
//! collections and long strings come here, and the driver drops them piece by piece between turns.

use crate::large::Large;
use crate::list::List;
use crate::object::{Object, Value};
use crate::segment::Segment;
use crate::sorted_set::SortedSet;
use crate::stream::Stream;
use bytes::Bytes;
use std::collections::VecDeque;

/// Collections of fewer elements are dropped at once.
const SMALL_MAX: usize = 128;

/// Bytes of a stream of few entries that is dropped at once.
const SMALL_STREAM_BYTES: usize = 64 * 1024;

/// Bytes of a string that is not dropped at once: to give them back takes the system 0.1 ms for each MiB.
const LONG_TEXT_BYTES: usize = 1024 * 1024;

/// Bytes of it that are given back at once, where it has a block of its own.
const TEXT_STEP_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of such strings of a group that wait at most: what comes on top of that is dropped at once. Nobody counts them as memory.
const TEXT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of it that count as an object.
const TEXT_BYTES_PER_OBJECT: usize = 4 * 1024;

/// Things to be dropped. Not part of the state: no command can see them.
#[derive(Default)]
pub struct Lazyfree {
    /// Each with how many deleted keys it stands for: none, if others stand for its key.
    pieces: VecDeque<(Piece, usize)>,
    counts: LazyfreeCounts,
    /// Long strings whose blocks others may have, too. Each is given back in one call of the system, which the driver may have made elsewhere
    /// ([`Lazyfree::take_shared`]).
    shared: Vec<Bytes>,
    /// Bytes of the strings, of both kinds.
    text_bytes: usize,
}

/// How many deleted keys were dropped piece by piece.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LazyfreeCounts {
    /// That are not yet dropped.
    pub pending: u64,
    /// That are, since the counters were set back.
    pub dropped: u64,
}

impl std::fmt::Debug for Lazyfree {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} pieces to be freed", self.pieces.len())
    }
}

enum Piece {
    Segment(Segment),
    List(List),
    SortedSet(SortedSet),
    Stream(Stream),
    /// A long string.
    Text(Object),
}

impl Lazyfree {
    /// The objects of a flushed database.
    pub(crate) fn add_segments(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            let objects = segment.len();
            self.push(Piece::Segment(segment), objects);
        }
    }

    fn push(&mut self, piece: Piece, objects: usize) {
        self.counts.pending += objects as u64;
        self.pieces.push_back((piece, objects));
    }

    /// What another keyspace was to drop.
    pub(crate) fn append(&mut self, mut other: Lazyfree) {
        self.pieces.append(&mut other.pieces);
        self.shared.append(&mut other.shared);
        self.text_bytes += other.text_bytes;
        self.counts.pending += other.counts.pending;
        self.counts.dropped += other.counts.dropped;
    }

    /// How many deleted keys went this way.
    pub(crate) fn counts(&self) -> LazyfreeCounts {
        self.counts
    }

    /// Counts from now on.
    pub(crate) fn reset_counts(&mut self) {
        self.counts.dropped = 0;
    }

    /// An object that was deleted.
    #[inline]
    pub(crate) fn add(&mut self, mut object: Object) {
        if let Some(large) = object.take_large() {
            self.add_large(*large);
        } else {
            self.add_text(object);
        }
    }

    /// A string. One that is long and has a block of its own is dropped a piece at a time, as long as these are not much; a shared one as a
    /// whole. As with Redis it is none of the keys that are counted.
    fn add_text(&mut self, object: Object) {
        if let Some(kept) = object.kept_string() {
            return self.add_shared(kept.clone());
        }
        let bytes = text_len(&object);
        if bytes >= LONG_TEXT_BYTES && self.has_room_for(bytes) {
            self.text_bytes += bytes;
            self.push(Piece::Text(object), 0);
        }
    }

    /// Bytes that are not needed here any more, whoever else has them: that cannot be told of all.
    pub(crate) fn add_shared(&mut self, bytes: Bytes) {
        if bytes.len() >= LONG_TEXT_BYTES && self.has_room_for(bytes.len()) {
            self.text_bytes += bytes.len();
            self.shared.push(bytes);
        }
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.text_bytes.saturating_add(bytes) <= TEXT_BYTES_MAX
    }

    /// A string that others may have, too, of at most so many bytes, to be dropped elsewhere.
    pub(crate) fn take_shared(&mut self, bytes_max: usize) -> Option<Bytes> {
        let bytes = self.shared.pop_if(|bytes| bytes.len() <= bytes_max)?;
        self.text_bytes -= bytes.len();
        Some(bytes)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.shared.is_empty()
    }

    /// A collection whose object got another value.
    pub(crate) fn add_large(&mut self, large: Large) {
        self.add_collection(large, 1);
    }

    /// A part of a collection that stays.
    pub(crate) fn add_part(&mut self, large: Large) {
        self.add_collection(large, 0);
    }

    /// A collection that stands for so many keys: itself, or none if its key was counted with others.
    fn add_collection(&mut self, large: Large, objects: usize) {
        // A stream may have few entries, and many that are pending.
        let is_stream = matches!(large, Large::Stream(_));
        if large.len() <= SMALL_MAX && (!is_stream || large.memory() <= SMALL_STREAM_BYTES) {
            return;
        }
        match large {
            Large::List(list) => self.push(Piece::List(list), objects),
            Large::Set(directory) | Large::Hash(directory) => {
                let mut segments = directory.into_segments();
                // The last one to be dropped stands for the key.
                let last = segments.pop();
                segments
                    .into_iter()
                    .for_each(|segment| self.push(Piece::Segment(segment), 0));
                last.into_iter()
                    .for_each(|segment| self.push(Piece::Segment(segment), objects));
            }
            Large::SortedSet(sorted_set) => self.push(Piece::SortedSet(sorted_set), objects),
            Large::Stream(stream) => self.push(Piece::Stream(stream), objects),
        }
    }

    /// Drops up to about `budget` objects, and counts them down; `true` if none is left.
    pub(crate) fn collect(&mut self, budget: &mut usize) -> bool {
        while !self.shared.is_empty() && *budget > 0 {
            if let Some(bytes) = self.take_shared(usize::MAX) {
                *budget = budget.saturating_sub(bytes.len() / TEXT_BYTES_PER_OBJECT);
            }
        }
        while let Some((piece, objects)) = self.pieces.pop_front() {
            let rest = match piece {
                Piece::Segment(mut segment) => {
                    let is_empty = segment.drain(budget, |mut object| match object.take_large() {
                        Some(large) => self.add_collection(*large, 0),
                        None => self.add_text(object),
                    });
                    (!is_empty).then_some(Piece::Segment(segment))
                }
                Piece::List(mut list) => (!list.drain(budget)).then_some(Piece::List(list)),
                Piece::SortedSet(mut sorted_set) => {
                    (!sorted_set.drain(budget)).then_some(Piece::SortedSet(sorted_set))
                }
                Piece::Stream(mut stream) => (!stream.drain(budget)).then_some(Piece::Stream(stream)),
                Piece::Text(object) if *budget == 0 => Some(Piece::Text(object)),
                Piece::Text(mut object) => {
                    let before = text_len(&object);
                    // What would be short is not moved to a block of its size: it goes with the last piece.
                    let after = match before.saturating_sub(TEXT_STEP_BYTES) {
                        ..LONG_TEXT_BYTES => 0,
                        after => after,
                    };
                    *budget = budget.saturating_sub((before - after) / TEXT_BYTES_PER_OBJECT);
                    self.text_bytes -= before - after;
                    (after > 0).then(|| {
                        object.cut_text(after);
                        Piece::Text(object)
                    })
                }
            };
            if let Some(rest) = rest {
                self.pieces.push_front((rest, objects));
                return false;
            }
            self.counts.pending -= objects as u64;
            self.counts.dropped += objects as u64;
        }
        self.shared.is_empty()
    }
}

fn text_len(object: &Object) -> usize {
    match object.value() {
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Version;

    fn kept(text: &Bytes) -> Object {
        Object::kept(b"key", text.clone(), None, Version(0))
    }

    #[test]
    fn a_long_string_that_was_shared_is_not_dropped_at_once() {
        let (mut lazyfree, text) = (Lazyfree::default(), Bytes::from(vec![b'x'; LONG_TEXT_BYTES]));
        // It has a block that an object had, as one has that was changed in place.
        let mut object = kept(&text);
        object.bytes_mut(0);
        object.share_text();
        assert!(
            object
                .kept_string()
                .is_some_and(|shared| *shared == text && shared.as_ptr() != text.as_ptr())
        );
        lazyfree.add(object);
        assert!(!lazyfree.is_empty());
        assert!(!lazyfree.collect(&mut 0), "it waits");
        assert!(
            lazyfree.take_shared(LONG_TEXT_BYTES - 1).is_none(),
            "there is no room for it"
        );
        let taken = lazyfree
            .take_shared(LONG_TEXT_BYTES)
            .expect("it is to be dropped");
        assert_eq!((taken.len(), lazyfree.text_bytes), (LONG_TEXT_BYTES, 0));
        lazyfree.add_shared(taken);
        assert!(lazyfree.collect(&mut 1), "nobody else has taken it");
        assert_eq!(lazyfree.text_bytes, 0);
    }

    #[test]
    fn of_long_strings_not_more_wait_than_may() {
        let mut lazyfree = Lazyfree::default();
        for _ in 0..3 {
            lazyfree.add_shared(Bytes::from(Vec::from_iter(std::iter::repeat_n(
                0,
                TEXT_BYTES_MAX / 2,
            ))));
        }
        assert_eq!(lazyfree.text_bytes, TEXT_BYTES_MAX);
    }
}
