//! Bytes, written behind each other.

use crate::COUNT_BYTES;
use bytes::Bytes;
use std::ops::Range;

/// What fields are written to: a `Vec<u8>`, or [`Pieces`].
pub trait Writer {
    /// Bytes as they are.
    fn raw(&mut self, bytes: &[u8]);

    /// The same of what may be long.
    fn shared(&mut self, bytes: &Bytes) {
        self.raw(bytes);
    }

    /// A byte.
    #[inline]
    fn u8(&mut self, number: u8) {
        self.raw(&[number]);
    }

    /// Two bytes.
    #[inline]
    fn u16(&mut self, number: u16) {
        self.raw(&number.to_le_bytes());
    }

    /// Four bytes.
    #[inline]
    fn u32(&mut self, number: u32) {
        self.raw(&number.to_le_bytes());
    }

    /// Eight bytes.
    #[inline]
    fn u64(&mut self, number: u64) {
        self.raw(&number.to_le_bytes());
    }

    /// Eight bytes each.
    #[inline]
    fn u64s(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&number| self.u64(number));
    }

    /// Eight bytes, with a sign.
    #[inline]
    fn i64(&mut self, number: i64) {
        self.raw(&number.to_le_bytes());
    }

    /// Sixteen bytes.
    #[inline]
    fn u128(&mut self, number: u128) {
        self.raw(&number.to_le_bytes());
    }

    /// Yes or no.
    #[inline]
    fn bool(&mut self, is: bool) {
        self.u8(is.into());
    }

    /// A number in as few bytes as will do.
    #[inline]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.u8(number as u8 | 0x80);
            number >>= 7;
        }
        self.u8(number as u8);
    }

    /// How many items, or bytes, follow.
    ///
    /// # Panics
    /// If there are more than a count can say.
    #[inline]
    fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("what is written has bounds far below 4 GiB"));
    }

    /// Bytes behind their count.
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// The same of what may be long.
    fn shared_bytes(&mut self, bytes: &Bytes) {
        self.count(bytes.len());
        self.shared(bytes);
    }

    /// Bytes behind a count of 64 bits.
    fn long_bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.raw(bytes);
    }

    /// A value that may not be there.
    #[inline]
    fn option<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut Self, &T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Items behind their count.
    #[inline]
    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        items.iter().for_each(|item| write(self, item));
    }
}

impl Writer for Vec<u8> {
    #[inline]
    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn u8(&mut self, number: u8) {
        self.push(number);
    }
}

/// Sets the count that was written at `at` to the number of bytes that stand behind it.
///
/// # Panics
/// If these are more than a count can say.
#[inline]
pub fn fill_count(bytes: &mut [u8], at: usize) {
    let behind = at + COUNT_BYTES;
    let count = u32::try_from(bytes.len() - behind).expect("what is written has bounds far below 4 GiB");
    bytes[at..behind].copy_from_slice(&count.to_le_bytes());
}

/// Bytes in pieces that follow each other: what is long is not copied.
#[derive(Default, Debug)]
pub struct Pieces {
    bytes: Vec<u8>,
    /// What is long: where among `bytes` it stands, and itself.
    shared: Vec<(usize, Bytes)>,
    /// How many bytes `shared` has.
    shared_len: usize,
}

/// From this length on bytes are not copied.
const SHARED_BYTES_MIN: usize = 64 * 1024;

impl Pieces {
    /// How many bytes they have.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_len
    }

    /// Whether they have none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes in one piece, if none of them is long.
    #[inline]
    pub fn plain(&mut self) -> Option<&mut Vec<u8>> {
        self.shared.is_empty().then_some(&mut self.bytes)
    }

    /// Copies those from one place to another behind `to`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn copy(&self, range: Range<usize>, to: &mut Vec<u8>) {
        assert!(range.end <= self.len(), "no more is copied than is there");
        // Where in all of them, and where in `bytes`, the next piece begins.
        let (mut place, mut from) = (0, 0);
        let mut copy = |piece: &[u8]| {
            let (start, end) = (range.start.max(place), range.end.min(place + piece.len()));
            if start < end {
                to.extend_from_slice(&piece[start - place..end - place]);
            }
            place += piece.len();
        };
        for (at, bytes) in &self.shared {
            copy(&self.bytes[from..*at]);
            copy(bytes);
            from = *at;
        }
        copy(&self.bytes[from..]);
    }

    /// Keeps the first bytes, none of which is long, and as much room as is given.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn cut(&mut self, len: usize, room: usize) {
        let is_plain = self.shared.first().is_none_or(|(at, _)| *at >= len);
        assert!(
            is_plain && len <= self.bytes.len(),
            "what stays is there, and short"
        );
        self.shared.clear();
        self.shared_len = 0;
        self.bytes.truncate(len);
        self.bytes.shrink_to(room);
    }

    /// All of them, none empty.
    pub fn finish(self) -> Vec<Bytes> {
        let (mut rest, mut pieces, mut from) = (Bytes::from(self.bytes), Vec::new(), 0);
        for (at, bytes) in self.shared {
            pieces.push(rest.split_to(at - from));
            pieces.push(bytes);
            from = at;
        }
        pieces.push(rest);
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

impl Writer for Pieces {
    #[inline]
    fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    fn shared(&mut self, bytes: &Bytes) {
        if bytes.len() >= SHARED_BYTES_MIN {
            self.shared.push((self.bytes.len(), bytes.clone()));
            self.shared_len += bytes.len();
        } else {
            self.raw(bytes);
        }
    }
}
