//! Replies of which the long parts are not copied.
//!
//! ```text
//!   bytes    $5\r\n+OK\r\n$4\r\n..\r\n$1048576\r\n|\r\n:1\r\n
//!   runs                                          ^ a share of the value
//! ```
//!
//! A rope is bytes and *runs* of bytes that are shared with whoever else has them, such as the value that they are of. A run
//! stands before the byte at its place; runs are in the order of their places.

use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// Replies under construction. See the file's header.
#[derive(Default, Debug)]
pub struct Rope {
    bytes: Vec<u8>,
    /// How many of `bytes` were taken off the front.
    taken: usize,
    runs: Runs,
}

/// The runs of a rope.
#[derive(Default, Debug)]
pub(crate) struct Runs {
    all: VecDeque<(usize, Bytes)>,
    /// Their bytes.
    len: usize,
}

impl Runs {
    pub(crate) fn push(&mut self, at: usize, run: Bytes) {
        self.len += run.len();
        self.all.push_back((at, run));
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Drops those behind a place. A run has at least its header before it.
    pub(crate) fn truncate(&mut self, mark: usize) {
        while let Some((_, run)) = self.all.pop_back_if(|(at, _)| *at > mark) {
            self.len -= run.len();
        }
    }

    fn pop(&mut self) -> Option<(usize, Bytes)> {
        let popped = self.all.pop_front()?;
        self.len -= popped.1.len();
        Some(popped)
    }
}

impl Rope {
    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken + self.runs.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are no runs, to add to them.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where the next byte goes, among those that are no runs.
    #[inline]
    pub fn mark(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn parts_mut(&mut self) -> (&mut Vec<u8>, &mut Runs) {
        (&mut self.bytes, &mut self.runs)
    }

    /// A rope that goes on where `bytes` end.
    pub fn over(bytes: Vec<u8>) -> Rope {
        Rope {
            bytes,
            ..Rope::default()
        }
    }

    /// The bytes again, and what was added since `mark` by itself if there are runs in it. Nothing may have been taken off.
    pub fn into_bytes_and_long(mut self, mark: usize) -> (Vec<u8>, Option<FrozenRope>) {
        if self.runs.all.is_empty() {
            return (self.bytes, None);
        }
        let before = self.bytes.drain(..mark).collect();
        self.runs.all.iter_mut().for_each(|(at, _)| *at -= mark);
        (before, Some(self.freeze()))
    }

    /// Adds a run.
    pub fn push_run(&mut self, run: Bytes) {
        if !run.is_empty() {
            self.runs.push(self.bytes.len(), run);
        }
    }

    /// Adds what is in `frozen`: parts of so many bytes or more as runs, shorter ones are copied.
    pub fn append(&mut self, frozen: &FrozenRope, run_bytes_min: usize) {
        for piece in frozen.pieces() {
            if piece.len() >= run_bytes_min {
                self.push_run(piece);
            } else {
                self.bytes.extend_from_slice(&piece);
            }
        }
    }

    /// Adds what is in `frozen`: what are runs in it as runs, and the bytes between them, however long, copied. So a text whose
    /// length stands before it never begins with a run that `frozen` does not begin with.
    pub fn append_sharing(&mut self, frozen: &FrozenRope) {
        let mut at = 0;
        for (place, run) in &frozen.runs {
            self.bytes.extend_from_slice(&frozen.bytes[at..*place]);
            self.push_run(run.clone());
            at = *place;
        }
        self.bytes.extend_from_slice(&frozen.bytes[at..]);
    }

    /// Takes what stands in `from` at these marks, and adds it. `from` gives its runs from the front, so its parts are moved in
    /// their order, and no run stands at their ends.
    pub fn append_part(&mut self, from: &mut Rope, part: Range<usize>) {
        let mut at = part.start;
        while from.runs.all.front().is_some_and(|(place, _)| *place < part.end) {
            let (place, run) = from.runs.pop().expect("it was just looked at");
            self.bytes.extend_from_slice(&from.bytes[at..place]);
            self.push_run(run);
            at = place;
        }
        self.bytes.extend_from_slice(&from.bytes[at..part.end]);
    }

    /// Drops what was added since `mark`.
    pub fn truncate(&mut self, mark: usize) {
        self.bytes.truncate(mark);
        self.runs.truncate(mark);
    }

    /// The first bytes, up to a run or the end of it; empty only if there are none.
    #[inline]
    pub fn first(&self) -> &[u8] {
        match self.runs.all.front() {
            None => &self.bytes[self.taken..],
            Some((at, run)) if *at == self.taken => run,
            Some((at, _)) => &self.bytes[self.taken..*at],
        }
    }

    /// Takes bytes off the front.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let first = self.first().len();
            assert!(first > 0, "invariant: no more is taken than there is");
            let now = count.min(first);
            count -= now;
            match self.runs.all.front_mut() {
                Some((at, run)) if *at == self.taken => {
                    self.runs.len -= now;
                    // What was sent is let go of with the whole run: a share of part of it keeps all of it.
                    let _ = run.split_to(now);
                    if run.is_empty() {
                        self.runs.all.pop_front();
                    }
                }
                _ => self.taken += now,
            }
        }
        if self.taken >= self.bytes.len() / 2 && self.taken > 0 {
            // What was taken is given up once it is the larger part: each byte is moved a bounded number of times.
            self.bytes.drain(..self.taken);
            self.runs.all.iter_mut().for_each(|(at, _)| *at -= self.taken);
            self.taken = 0;
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.runs = Runs::default();
    }

    /// As it is, not to be changed any more.
    pub fn freeze(mut self) -> FrozenRope {
        self.bytes.drain(..self.taken);
        let taken = self.taken;
        FrozenRope {
            bytes: self.bytes.into(),
            runs: self
                .runs
                .all
                .into_iter()
                .map(|(at, run)| (at - taken, run))
                .collect(),
        }
    }
}

/// Replies that are not changed any more: a copy shares them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FrozenRope {
    bytes: Bytes,
    runs: Vec<(usize, Bytes)>,
}

impl From<Bytes> for FrozenRope {
    fn from(bytes: Bytes) -> FrozenRope {
        FrozenRope {
            bytes,
            runs: Vec::new(),
        }
    }
}

impl From<Vec<u8>> for FrozenRope {
    fn from(bytes: Vec<u8>) -> FrozenRope {
        Bytes::from(bytes).into()
    }
}

impl FrozenRope {
    /// These bytes, with runs, each behind so many of them, in order.
    pub fn new(bytes: Bytes, runs: Vec<(usize, Bytes)>) -> FrozenRope {
        FrozenRope { bytes, runs }
    }

    /// Up to so many bytes from `from` on, in one piece.
    pub fn piece_at(&self, mut from: usize, bytes_max: usize) -> Bytes {
        let piece = self.pieces().find(|piece| {
            let is_there = from < piece.len();
            from -= if is_there { 0 } else { piece.len() };
            is_there
        });
        let mut piece = piece.unwrap_or_default().split_off(from);
        piece.truncate(bytes_max);
        piece
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.runs.iter().map(|(_, run)| run.len()).sum::<usize>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are no runs.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The runs, each behind so many of [`FrozenRope::bytes`].
    #[inline]
    pub fn runs(&self) -> &[(usize, Bytes)] {
        &self.runs
    }

    /// All bytes in order, in as many pieces as it takes.
    pub fn pieces(&self) -> impl Iterator<Item = Bytes> {
        let ends = self.runs.iter().map(|(at, _)| *at).chain([self.bytes.len()]);
        let runs = self.runs.iter().map(|(_, run)| run.clone()).chain([Bytes::new()]);
        let starts = [0].into_iter().chain(self.runs.iter().map(|(at, _)| *at));
        let pieces = starts.zip(ends).zip(runs);
        let pieces = pieces.flat_map(|((start, end), run)| [self.bytes.slice(start..end), run]);
        pieces.filter(|piece| !piece.is_empty())
    }

    /// What stands at these of [`FrozenRope::bytes`], with the runs in it and at its end. It begins with none.
    pub fn part(&self, marks: Range<usize>) -> FrozenRope {
        let is_in_it = |(at, _): &&(usize, Bytes)| marks.start < *at && *at <= marks.end;
        let runs = self.runs.iter().filter(is_in_it);
        FrozenRope {
            runs: runs.map(|(at, run)| (at - marks.start, run.clone())).collect(),
            bytes: self.bytes.slice(marks),
        }
    }

    /// All bytes in one piece: copied if there are runs.
    pub fn to_bytes(&self) -> Bytes {
        if self.runs.is_empty() {
            return self.bytes.clone();
        }
        let mut all = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| all.extend_from_slice(&piece));
        all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Protocol, ReplyWriter};

    fn rope() -> Rope {
        let mut rope = Rope::default();
        rope.bytes_mut().extend_from_slice(b"+OK\r\n");
        let mut writer = ReplyWriter::sharing(&mut rope, Protocol::Resp2);
        writer.bulk_shared(&Bytes::from_static(b"shared"));
        writer.integer(1);
        writer.bulk_shared(&Bytes::from_static(b"more"));
        rope
    }

    const TEXT: &[u8] = b"+OK\r\n$6\r\nshared\r\n:1\r\n$4\r\nmore\r\n";

    #[test]
    fn a_run_stands_where_it_was_written_and_is_shared() {
        let value = Bytes::from(b"value".to_vec());
        let mut rope = Rope::default();
        ReplyWriter::sharing(&mut rope, Protocol::Resp2).bulk_shared(&value);
        assert_eq!(rope.len(), 11);
        let pieces: Vec<Bytes> = rope.freeze().pieces().collect();
        assert_eq!(pieces, [&b"$5\r\n"[..], b"value", b"\r\n"]);
        assert_eq!(pieces[1].as_ptr(), value.as_ptr());
    }

    #[test]
    fn a_writer_of_plain_bytes_copies() {
        let mut bytes = Vec::new();
        ReplyWriter::new(&mut bytes, Protocol::Resp2).bulk_shared(&Bytes::from_static(b"value"));
        assert_eq!(bytes, b"$5\r\nvalue\r\n");
    }

    #[test]
    fn all_comes_off_the_front_in_order_however_much_at_a_time() {
        for step in 1..=TEXT.len() {
            let mut rope = rope();
            let mut found = Vec::new();
            while !rope.is_empty() {
                let part = &rope.first()[..rope.first().len().min(step)];
                found.extend_from_slice(part);
                let count = part.len();
                rope.advance(count);
                assert_eq!(rope.len(), TEXT.len() - found.len());
                assert_eq!(rope.first().is_empty(), rope.is_empty());
            }
            assert_eq!(found, TEXT, "{step}");
            assert_eq!(rope.mark(), 0, "nothing is kept of what was sent");
        }
        for count in 0..=TEXT.len() {
            let mut rope = rope();
            rope.advance(count);
            assert_eq!(rope.freeze().to_bytes(), TEXT[count..]);
        }
    }

    #[test]
    fn what_is_dropped_takes_its_runs_along() {
        let mut rope = rope();
        let mark = rope.mark();
        ReplyWriter::sharing(&mut rope, Protocol::Resp2).bulk_shared(&Bytes::from_static(b"gone"));
        rope.truncate(mark);
        assert_eq!(rope.len(), TEXT.len());
        assert_eq!(rope.freeze().to_bytes(), TEXT);
    }

    #[test]
    fn parts_move_with_their_runs() {
        let mut from = rope();
        let (first, end) = (b"+OK\r\n$6\r\n\r\n".len(), from.mark());
        let mut to = Rope::default();
        to.append_part(&mut from, 0..first);
        assert_eq!(to.len(), b"+OK\r\n$6\r\nshared\r\n".len());
        to.bytes_mut().extend_from_slice(b"|");
        to.append_part(&mut from, first..end);
        let text = [&b"+OK\r\n$6\r\nshared\r\n|"[..], b":1\r\n$4\r\nmore\r\n"].concat();
        assert_eq!(to.freeze().to_bytes(), text);
    }

    #[test]
    fn a_long_answer_leaves_the_bytes_before_it() {
        let text = TEXT.to_vec();
        let mut plain = Rope::over(text.clone());
        plain.bytes_mut().push(b'x');
        assert_eq!(
            plain.into_bytes_and_long(text.len()),
            ([TEXT, b"x"].concat(), None)
        );
        let mut long = Rope::over(text.clone());
        ReplyWriter::sharing(&mut long, Protocol::Resp2).bulk_shared(&Bytes::from_static(b"long"));
        let (before, long) = long.into_bytes_and_long(text.len());
        assert_eq!(before, TEXT);
        assert_eq!(long.expect("there is a run").to_bytes(), &b"$4\r\nlong\r\n"[..]);
    }

    #[test]
    fn a_part_of_what_is_frozen_has_its_runs() {
        let frozen = rope().freeze();
        let (start, end) = (b"+OK\r\n".len(), b"+OK\r\n$6\r\n\r\n".len());
        assert_eq!(frozen.part(start..end).to_bytes(), &b"$6\r\nshared\r\n"[..]);
    }

    #[test]
    fn a_piece_begins_anywhere_and_ends_at_a_run_or_before() {
        let frozen = rope().freeze();
        for bytes_max in [1, 3, 100] {
            let mut found = Vec::new();
            while found.len() < TEXT.len() {
                let piece = frozen.piece_at(found.len(), bytes_max);
                assert!(!piece.is_empty() && piece.len() <= bytes_max);
                found.extend_from_slice(&piece);
            }
            assert_eq!(found, TEXT);
        }
        assert_eq!(frozen.piece_at(TEXT.len(), 1), Bytes::new());
    }

    #[test]
    fn what_is_frozen_is_added_to_another() {
        let frozen = rope().freeze();
        assert_eq!(frozen.len(), TEXT.len());
        for run_bytes_min in [1, 5, 100] {
            let mut to = Rope::default();
            to.bytes_mut().push(b'<');
            to.append(&frozen, run_bytes_min);
            to.bytes_mut().push(b'>');
            assert_eq!(to.freeze().to_bytes(), [b"<", TEXT, b">"].concat());
        }
    }
}
