//! Bytes, written behind each other.

use crate::COUNT_BYTES;
use bytes::Bytes;

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
#[derive(Default)]
pub struct Pieces {
    bytes: Vec<u8>,
    /// What is long: where among `bytes` it stands, and itself.
    shared: Vec<(usize, Bytes)>,
}

/// From this length on bytes are not copied.
const SHARED_BYTES_MIN: usize = 64 * 1024;

impl Pieces {
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
    fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn shared(&mut self, bytes: &Bytes) {
        if bytes.len() >= SHARED_BYTES_MIN {
            self.shared.push((self.bytes.len(), bytes.clone()));
        } else {
            self.raw(bytes);
        }
    }
}
