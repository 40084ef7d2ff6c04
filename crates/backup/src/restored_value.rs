//! A value on its way from a part into commands: as many of them as its length takes.
//!
//! A large collection (forms 6 to 10) that is longer than a piece goes in several: the first one puts it, with its seed, the
//! others add to it. A piece ends where an element ends.

use std::io::Read;

use codec::Reader;

use crate::BackupError;
use crate::part_reader::{PartReader, PartRecord};

/// Bytes of a piece, but for an element that is longer.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Up to this form a value is one run of bytes, and goes whole; so says `keyspace/object_codec.rs`.
const LAST_FLAT: u8 = 5;
const LIST: u8 = 6;
const HASH: u8 = 8;
const SORTED_SET: u8 = 9;
const STREAM: u8 = 10;

/// What a block of a stream begins with, as one of its records, and where it says how many entries it has: behind that and
/// two ids.
const BLOCK: u8 = 1;
const BLOCK_ENTRIES_AT: usize = 33;
const SEED_BYTES: usize = 16;

/// What a payload begins with, and its flag for a piece that is not the first.
const PAYLOAD_FORMAT: u8 = 1;
const CONTINUES: u8 = 128;
const PAYLOAD_HEAD_BYTES: usize = 3;

/// What is left of a value.
pub(crate) struct RestoredValue<'a> {
    record: &'a PartRecord,
    /// What was read and not given: the beginning of an element.
    read: Vec<u8>,
    left: u64,
    is_first: bool,
    elements: u64,
}

impl<'a> RestoredValue<'a> {
    pub(crate) fn new(record: &'a PartRecord) -> RestoredValue<'a> {
        RestoredValue {
            record,
            read: Vec::new(),
            left: record.value_length,
            is_first: true,
            elements: 0,
        }
    }

    /// How many elements were given of a value that goes in several pieces.
    pub(crate) fn elements(&self) -> u64 {
        self.elements
    }

    /// Whether one command takes it.
    pub(crate) fn is_one_piece(record: &PartRecord) -> bool {
        record.form <= LAST_FLAT || record.value_length <= PIECE_BYTES as u64
    }

    /// The command that says how many elements a large collection has.
    pub(crate) fn size_command(record: &PartRecord) -> &'static [u8] {
        match record.form {
            LIST => b"LLEN",
            HASH => b"HLEN",
            SORTED_SET => b"ZCARD",
            STREAM => b"XLEN",
            _ => b"SCARD",
        }
    }

    /// The payload of the next command; `None` when all was given.
    pub(crate) fn next<R: Read>(&mut self, from: &mut PartReader<R>) -> Result<Option<Vec<u8>>, BackupError> {
        if !self.is_first && self.left == 0 && self.read.is_empty() {
            return Ok(None);
        }
        let is_whole = RestoredValue::is_one_piece(self.record);
        let has_seed = (HASH - 1..=SORTED_SET).contains(&self.record.form);
        let seed = if self.is_first && has_seed { SEED_BYTES } else { 0 };
        let mut wanted = PIECE_BYTES;
        let (end, elements) = loop {
            while self.left > 0 && (is_whole || self.read.len() < wanted) {
                let count = from.value(&mut self.read, PIECE_BYTES)?;
                self.left -= count as u64;
            }
            if is_whole {
                break (self.read.len(), 0);
            }
            let (end, elements) = elements_end(self.record.form, &self.read, seed);
            if end > seed && (end == self.read.len() || self.left > 0) {
                break (end, elements);
            }
            if self.left == 0 {
                return Err(BackupError::damaged(
                    from.file(),
                    from.block_offset(),
                    "whole elements of a collection",
                    "a part of one at the end of its value",
                ));
            }
            // An element that is longer than a piece.
            wanted = self.read.len() + PIECE_BYTES;
        };
        let mut payload = Vec::with_capacity(PAYLOAD_HEAD_BYTES + end);
        let continues = if self.is_first { 0 } else { CONTINUES };
        payload.extend([PAYLOAD_FORMAT, self.record.flags | continues, self.record.form]);
        payload.extend_from_slice(&self.read[..end]);
        self.read.drain(..end);
        self.is_first = false;
        self.elements += elements;
        Ok(Some(payload))
    }
}

/// How many entries of a stream this record of it has.
fn entries_of(record: &[u8]) -> u64 {
    let entries = record.get(BLOCK_ENTRIES_AT..BLOCK_ENTRIES_AT + size_of::<u32>());
    match (record, entries.map(<[u8; 4]>::try_from)) {
        ([BLOCK, ..], Some(Ok(entries))) => u32::from_le_bytes(entries).into(),
        _ => 0,
    }
}

/// Where the last whole element ends, and how many there are up to it; `from` is behind the seed.
fn elements_end(form: u8, bytes: &[u8], from: usize) -> (usize, u64) {
    let Some(elements) = bytes.get(from..) else {
        return (0, 0);
    };
    let (mut rest, mut end, mut count) = (Reader::new(elements), 0, 0);
    loop {
        let element = rest.bytes().and_then(|element| match form {
            HASH => rest.bytes().map(|_| 1),
            SORTED_SET => rest.take(size_of::<f64>()).map(|_| 1),
            STREAM => Ok(entries_of(element)),
            _ => Ok(1),
        });
        let Ok(elements) = element else {
            return (from + end, count);
        };
        (end, count) = (rest.offset(), count + elements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartWriter;
    use codec::Writer;

    /// The payloads of a value in this form.
    fn payloads(form: u8, value: &[u8]) -> Result<Vec<Vec<u8>>, BackupError> {
        let mut head = Vec::new();
        head.bytes(b"k");
        head.u8(2);
        head.i64(0);
        head.u8(form);
        let mut writer = PartWriter::new(Vec::new(), 0, 1).unwrap();
        writer.record(0, &head, value.len() as u64).unwrap();
        writer.value(value).unwrap();
        let (_, bytes) = writer.finish().unwrap();
        let mut reader = PartReader::open(&bytes[..], "part").unwrap();
        let record = reader.next_record().unwrap().unwrap();
        let mut rest = RestoredValue::new(&record);
        let mut payloads = Vec::new();
        while let Some(payload) = rest.next(&mut reader)? {
            payloads.push(payload);
        }
        assert_eq!(reader.next_record(), Ok(None));
        Ok(payloads)
    }

    fn elements(form: u8, count: usize, length: usize) -> Vec<u8> {
        let mut value = Vec::new();
        if form > LIST {
            value.u64s(&[1, 2]);
        }
        for at in 0..count {
            value.bytes(&vec![at as u8; length]);
            match form {
                HASH => value.bytes(b"value"),
                SORTED_SET => value.u64(at as u64),
                _ => {}
            }
        }
        value
    }

    #[test]
    fn pieces_end_where_elements_end_and_are_the_value_together() {
        for form in LIST..=SORTED_SET {
            for (count, length) in [(3_000, 1_000), (5, 3 << 20), (1, 5 << 20), (1 << 20, 0)] {
                let value = elements(form, count, length);
                let payloads = payloads(form, &value).unwrap();
                let mut together = Vec::new();
                for (at, payload) in payloads.iter().enumerate() {
                    let continues = if at > 0 { CONTINUES } else { 0 };
                    assert_eq!(payload[..3], [1, 2 | continues, form]);
                    let piece = &payload[3..];
                    let seed = if at == 0 && form > LIST { 16 } else { 0 };
                    assert_eq!(elements_end(form, piece, seed).0, piece.len(), "form {form}");
                    assert!(piece.len() <= PIECE_BYTES.max(2 * length) + 2 * PIECE_BYTES);
                    together.extend_from_slice(piece);
                }
                assert!(together == value, "form {form}");
                assert!(
                    payloads.len() > 1 || count == 1,
                    "form {form}: {count} of {length}"
                );
            }
        }
    }

    #[test]
    fn a_string_goes_whole() {
        let value = vec![7; 5 << 20];
        let payloads = payloads(0, &value).unwrap();
        assert_eq!(payloads.len(), 1);
        assert_eq!(payloads[0].len(), 3 + value.len());
        assert_eq!(self::payloads(0, b"").unwrap(), [b"\x01\x02\0"]);
    }

    #[test]
    fn a_cut_element_is_damage() {
        let mut value = elements(LIST, 2_000, 1_000);
        value.truncate(value.len() - 1);
        assert!(matches!(payloads(LIST, &value), Err(BackupError::Damaged(_))));
    }
}
