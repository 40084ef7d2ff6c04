//! A value as a payload, from elements that come one after the other.

use crate::length::{write_length, write_string};
use crate::payload::{FOOTER, close};
use crate::value::{HASH, LIST, SET, SORTED_SET, STRING};

/// The version that payloads without streams have: that of Redis 5.0, since a server refuses what is newer than itself, and
/// what stands in them is older than that.
const VERSION: u16 = 9;

/// Bytes of a type, and of the longest length.
const HEAD: usize = 10;

/// A payload of a string or a collection that is being written: in the plain form of its type, which all versions of Redis from
/// 5.0 on read, and turn into what they would have made of the value themselves.
///
/// As many elements and scores must be given as were announced. What gives one more panics, and so does
/// [`finish`](PayloadWriter::finish) if one is missing: what came of it would be another value, or none.
#[derive(Debug)]
pub struct PayloadWriter {
    out: Vec<u8>,
    /// Elements and scores that were announced and not given.
    left: u64,
}

impl PayloadWriter {
    /// Of a string, which is all of it.
    pub fn string(bytes: &[u8]) -> PayloadWriter {
        let mut out = Vec::with_capacity(HEAD + bytes.len() + FOOTER);
        out.push(STRING);
        write_string(&mut out, bytes);
        PayloadWriter { out, left: 0 }
    }

    /// Of a list: so many elements follow, from its left end. There are some, as in all collections.
    pub fn list(elements: usize) -> PayloadWriter {
        PayloadWriter::collection(LIST, elements, 1)
    }

    /// Of a set: so many members follow.
    pub fn set(members: usize) -> PayloadWriter {
        PayloadWriter::collection(SET, members, 1)
    }

    /// Of a sorted set: so many members follow, each with its score behind it. It reads fastest where the greatest comes first,
    /// which is how Redis writes them.
    pub fn sorted_set(members: usize) -> PayloadWriter {
        PayloadWriter::collection(SORTED_SET, members, 2)
    }

    /// Of a hash: so many fields follow, each with its value behind it.
    pub fn hash(fields: usize) -> PayloadWriter {
        PayloadWriter::collection(HASH, fields, 2)
    }

    fn collection(kind: u8, count: usize, each: u64) -> PayloadWriter {
        let mut out = vec![kind];
        write_length(&mut out, count as u64);
        PayloadWriter {
            out,
            left: count as u64 * each,
        }
    }

    /// An element, a member, a field or a value.
    pub fn element(&mut self, bytes: &[u8]) {
        write_string(&mut self.out, bytes);
        self.one_less();
    }

    /// The score of the member before, which is a number.
    pub fn score(&mut self, score: f64) {
        self.out.extend_from_slice(&score.to_le_bytes());
        self.one_less();
    }

    fn one_less(&mut self) {
        self.left = self
            .left
            .checked_sub(1)
            .expect("no more is given than was announced");
    }

    /// Bytes so far.
    pub fn bytes_written(&self) -> usize {
        self.out.len()
    }

    /// The payload.
    ///
    /// # Panics
    /// If less was given than was announced.
    pub fn finish(mut self) -> Vec<u8> {
        assert!(self.left == 0, "no less is given than was announced");
        close(&mut self.out, VERSION);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PayloadValue, open, read};

    #[test]
    #[should_panic = "no less is given than was announced"]
    fn what_is_missing_is_noticed() {
        PayloadWriter::list(1).finish();
    }

    #[test]
    #[should_panic = "no more is given than was announced"]
    fn what_is_too_much_is_noticed() {
        PayloadWriter::string(b"").element(b"");
    }

    #[test]
    fn what_is_written_is_read() {
        let mut list = PayloadWriter::list(2);
        list.element(b"a");
        list.element(b"-300");
        assert_eq!(list.bytes_written(), 7);
        let payload = list.finish();
        assert_eq!(payload[..9], *b"\x01\x02\x01a\xC1\xD4\xFE\x09\0");
        let value = read(open(&payload).unwrap());
        assert_eq!(
            value,
            Ok(PayloadValue::List(vec![b"a".to_vec(), b"-300".to_vec()]))
        );
    }
}
