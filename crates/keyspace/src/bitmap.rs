//! Bitmaps: strings as arrays of bits, and of integers of any width.
//!
//! Bit 0 is the highest bit of the first byte, so that comparing two bitmaps as strings compares them bit by
//! bit. What lies beyond the end of a string reads as zeros.

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::object::{Kind, Object, Value};
use crate::read::Reader;
use crate::value::Digits;
use command::{
    BitFieldAction, BitFieldOperation, BitFieldOverflow, BitOperation, BitRange, BitUnit, bitfield_operations,
};
use resp::Args;
use std::ops::Range;

impl Apply<'_, '_> {
    pub(crate) fn set_bit(&mut self, key: &[u8], offset: u64, bit: bool) {
        if self.refuses_string(key) {
            return;
        }
        let index = (offset / 8) as usize;
        let mask = 0x80 >> (offset % 8);
        let before = self.write_bits(key, index + 1, |bytes| {
            let before = bytes[index] & mask != 0;
            if bit {
                bytes[index] |= mask;
            } else {
                bytes[index] &= !mask;
            }
            (before, before != bit)
        });
        self.out.integer(i64::from(before));
    }

    pub(crate) fn bit_op(&mut self, operation: BitOperation, destination: &[u8], sources: Args<'_>) {
        let mut length = 0;
        for key in sources.iter() {
            if self.refuses_string(key) {
                return;
            }
            let location = self.locate(key);
            let found = self.look(location, key, |value| value.map(Value::len));
            if found.is_none() {
                self.missed(key);
            }
            length = length.max(found.unwrap_or(0));
        }
        if length == 0 {
            self.delete_and_note(destination);
            return self.out.integer(0);
        }
        // The result grows outside the keyspace, because the destination may be one of the sources.
        let mut result = Object::string(destination, b"", None, self.version());
        let bytes = result.bytes_mut(length);
        for (index, key) in sources.iter().enumerate() {
            let location = self.locate(key);
            self.look(location, key, |value| {
                let mut digits = Digits::default();
                let text = value.map_or(&b""[..], |value| value.text(&mut digits));
                if index == 0 {
                    bytes[..text.len()].copy_from_slice(text);
                } else {
                    combine(operation, bytes, text);
                }
            });
        }
        if operation == BitOperation::Not {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
        self.store(result);
        self.event(EventClasses::STRING, "set", destination);
        self.out.integer(length as i64);
    }

    pub(crate) fn bit_field(&mut self, key: &[u8], operations: Args<'_>) {
        if self.refuses_string(key) {
            return;
        }
        let end = bitfield_operations(operations)
            .filter(|operation| operation.action != BitFieldAction::Get)
            .map(|operation| operation.offset + u64::from(operation.bits))
            .max()
            .unwrap_or(0);
        let answers = self.write_bits(key, end.div_ceil(8) as usize, |bytes| {
            let mut changes = false;
            let answers: Vec<Option<i64>> = bitfield_operations(operations)
                .map(|operation| {
                    let before = field(bytes, &operation);
                    let (answer, after) = outcome(&operation, before);
                    if after != before {
                        set_field(bytes, &operation, after);
                        changes = true;
                    }
                    answer
                })
                .collect();
            (answers, changes)
        });
        self.out.array(answers.len());
        for answer in answers {
            match answer {
                Some(number) => self.out.integer(number),
                None => self.out.null(),
            }
        }
    }

    /// Changes the string of `key` in place, grown with zeros to `length_min` bytes; an absent one is made.
    /// `change_bits` says whether it changed a bit. If not, and if nothing grew, the object keeps its version:
    /// whoever watches the key sees no change, as in Redis. (A string that grew for operations which then all
    /// failed is a change here, and not in Redis; but a version must never stand for two values.)
    fn write_bits<R>(
        &mut self,
        key: &[u8],
        length_min: usize,
        mut change_bits: impl FnMut(&mut [u8]) -> (R, bool),
    ) -> R {
        let location = self.locate(key);
        let result = self.update(location, key, |change| {
            let length_before = change.object.value().len();
            let bytes = change.object.bytes_mut(length_min);
            let grows = bytes.len() > length_before;
            let (result, changes) = change_bits(bytes);
            if grows || changes {
                change.mark();
            }
            (result, grows || changes)
        });
        let (result, is_changed) = result.unwrap_or_else(|| {
            let mut object = Object::string(key, b"", None, self.version());
            let (result, _) = change_bits(object.bytes_mut(length_min));
            self.insert(location, object);
            (result, true)
        });
        if is_changed {
            self.event(EventClasses::STRING, "setbit", key);
        }
        result
    }
}

impl Reader<'_, '_> {
    pub(crate) fn get_bit(&mut self, key: &[u8], offset: u64) {
        let Some(object) = self.lookup_or(key, Kind::String, |out| out.integer(0)) else {
            return;
        };
        let mut digits = Digits::default();
        let byte = object
            .value()
            .text(&mut digits)
            .get((offset / 8) as usize)
            .copied();
        let bit = byte.unwrap_or(0) & 0x80 >> (offset % 8) != 0;
        self.out.integer(i64::from(bit));
    }

    pub(crate) fn bit_count(&mut self, key: &[u8], range: Option<BitRange>) {
        let Some(object) = self.lookup_or(key, Kind::String, |out| out.integer(0)) else {
            return;
        };
        let mut digits = Digits::default();
        let text = object.value().text(&mut digits);
        let count = match range {
            None => ones(text),
            // Clamping would make one byte of such a range if both ends lie before the string.
            Some(BitRange { start, end, .. }) if start < 0 && end < 0 && start > end => 0,
            Some(BitRange { start, end, unit }) => {
                bits_of_range(text.len(), start, end, unit).map_or(0, |bits| count_ones(text, bits))
            }
        };
        self.out.integer(count as i64);
    }

    pub(crate) fn bit_pos(
        &mut self,
        key: &[u8],
        bit: bool,
        start: Option<i64>,
        end: Option<i64>,
        unit: BitUnit,
    ) {
        let absent = if bit { -1 } else { 0 };
        let Some(object) = self.lookup_or(key, Kind::String, |out| out.integer(absent)) else {
            return;
        };
        let mut digits = Digits::default();
        let text = object.value().text(&mut digits);
        let range = bits_of_range(text.len(), start.unwrap_or(0), end.unwrap_or(-1), unit);
        let position = range.and_then(|bits| {
            // Zeros follow the string for ever, but not the range, if the client gave its end.
            let beyond = (!bit && end.is_none()).then_some(bits.end);
            first_bit(text, bits, bit).or(beyond)
        });
        self.out.integer(position.map_or(-1, |position| position as i64));
    }

    pub(crate) fn bit_field_read(&mut self, key: &[u8], operations: Args<'_>) {
        let object = match self.lookup_kind(key, Kind::String) {
            Ok(object) => object,
            Err(error) => return error.write(self.out),
        };
        let mut digits = Digits::default();
        let text = object
            .as_ref()
            .map_or(&b""[..], |object| object.value().text(&mut digits));
        self.out.array(bitfield_operations(operations).count());
        for operation in bitfield_operations(operations) {
            self.out.integer(field(text, &operation));
        }
    }
}

/// `target = target operation source`, where zeros follow a shorter source. The loops over zipped slices are
/// what the compiler makes vector instructions of.
fn combine(operation: BitOperation, target: &mut [u8], source: &[u8]) {
    let pairs = target.iter_mut().zip(source);
    match operation {
        BitOperation::And => {
            pairs.for_each(|(target, source)| *target &= source);
            target[source.len()..].fill(0);
        }
        BitOperation::Or => pairs.for_each(|(target, source)| *target |= source),
        BitOperation::Xor => pairs.for_each(|(target, source)| *target ^= source),
        BitOperation::Not => unreachable!("the parser gives NOT one source only"),
    }
}

/// The positions in bits of a range, end included, of a string of `length` bytes; `None` if it is empty.
fn bits_of_range(length: usize, start: i64, end: i64, unit: BitUnit) -> Option<Range<u64>> {
    let unit_bits = match unit {
        BitUnit::Byte => 8,
        BitUnit::Bit => 1,
    };
    let total = length as i64 * 8 / unit_bits;
    let from_end = |position: i64| {
        if position < 0 {
            position.saturating_add(total).max(0)
        } else {
            position
        }
    };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    (start <= end).then(|| (start * unit_bits) as u64..((end + 1) * unit_bits) as u64)
}

/// How many bits are set.
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let in_words: u64 = words
        .iter()
        .map(|&word| u64::from(u64::from_ne_bytes(word).count_ones()))
        .sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// How many bits of a range are set. The range is not empty and lies within the bytes.
fn count_ones(bytes: &[u8], bits: Range<u64>) -> u64 {
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    let before = bytes[first] & !(0xff >> (bits.start % 8));
    let after = bytes[last] & 0x7f >> ((bits.end - 1) % 8);
    ones(&bytes[first..=last]) - u64::from(before.count_ones() + after.count_ones())
}

/// The first bit of a range that is `bit`. The range is not empty and lies within the bytes.
fn first_bit(bytes: &[u8], bits: Range<u64>, bit: bool) -> Option<u64> {
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    let without = if bit { 0 } else { 0xff };
    let head = (bytes[first] ^ without) & 0xff >> (bits.start % 8);
    let index = if head != 0 {
        first
    } else {
        // Blocks of this size are compared with vector instructions.
        const BLOCK: usize = 32;
        let (blocks, rest) = bytes[first + 1..=last].as_chunks::<BLOCK>();
        let of_blocks = blocks.iter().position(|&block| block != [without; BLOCK]);
        let from = of_blocks.unwrap_or(blocks.len()) * BLOCK;
        let tail = of_blocks.map_or(rest, |block| &blocks[block]);
        first + 1 + from + tail.iter().position(|&byte| byte != without)?
    };
    let found = if index == first {
        head
    } else {
        bytes[index] ^ without
    };
    let position = index as u64 * 8 + u64::from(found.leading_zeros());
    (position < bits.end).then_some(position)
}

/// The nine bytes that hold a field of up to 64 bits wherever it begins, as the upper part of an integer, and
/// how many of them the string has.
fn window(bytes: &[u8], operation: &BitFieldOperation) -> (u128, Range<usize>) {
    let start = bytes.len().min((operation.offset / 8) as usize);
    let end = bytes.len().min(start + 9);
    let mut window = [0; 16];
    window[..end - start].copy_from_slice(&bytes[start..end]);
    (u128::from_be_bytes(window), start..end)
}

/// The integer in a field.
fn field(bytes: &[u8], operation: &BitFieldOperation) -> i64 {
    let (window, _) = window(bytes, operation);
    let aligned = window << (operation.offset % 8);
    let unused = 128 - operation.bits;
    if operation.signed {
        (aligned as i128 >> unused) as i64
    } else {
        (aligned >> unused) as i64
    }
}

/// Stores an integer that fits in a field, which lies within the bytes.
fn set_field(bytes: &mut [u8], operation: &BitFieldOperation, value: i64) {
    let (window, range) = window(bytes, operation);
    let mask = u128::MAX << (128 - operation.bits) >> (operation.offset % 8);
    let shifted = (value as u128) << (128 - operation.bits) >> (operation.offset % 8);
    let length = range.len();
    bytes[range].copy_from_slice(&(window & !mask | shifted).to_be_bytes()[..length]);
}

/// What an operation on a field that holds `before` answers, and what the field holds after it.
fn outcome(operation: &BitFieldOperation, before: i64) -> (Option<i64>, i64) {
    let wanted = match operation.action {
        BitFieldAction::Get => return (Some(before), before),
        BitFieldAction::Set(value) if operation.signed => i128::from(value),
        BitFieldAction::Set(value) => i128::from(value as u64),
        BitFieldAction::IncrBy(by) => i128::from(before) + i128::from(by),
    };
    match fit(operation, wanted) {
        Some(after) => {
            let sets = matches!(operation.action, BitFieldAction::Set(_));
            (Some(if sets { before } else { after }), after)
        }
        None => (None, before),
    }
}

/// What a field holds instead of `wanted`; `None` if `wanted` does not fit and nothing may be stored for it.
fn fit(operation: &BitFieldOperation, wanted: i128) -> Option<i64> {
    let &BitFieldOperation {
        action,
        signed,
        bits,
        overflow,
        ..
    } = operation;
    let max = (1_i128 << (bits - u32::from(signed))) - 1;
    let min = if signed { -max - 1 } else { 0 };
    if (min..=max).contains(&wanted) {
        return Some(wanted as i64);
    }
    match overflow {
        BitFieldOverflow::Fail => None,
        BitFieldOverflow::Saturate => {
            // Redis computes the room above a value in 64 bits, so that SET with a value near the least
            // integer saturates upwards.
            let wraps = matches!(action, BitFieldAction::Set(_)) && max - wanted > i128::from(i64::MAX);
            Some(if wanted > max || wraps { max } else { min } as i64)
        }
        BitFieldOverflow::Wrap => {
            let unused = 128 - bits;
            let low = (wanted as u128) << unused;
            Some(if signed {
                (low as i128 >> unused) as i64
            } else {
                (low >> unused) as i64
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    fn bit_at(bytes: &[u8], position: u64) -> bool {
        bytes
            .get((position / 8) as usize)
            .is_some_and(|byte| byte & 0x80 >> (position % 8) != 0)
    }

    fn random_bytes(prng: &mut Prng, length: usize, dense: u64) -> Vec<u8> {
        // Long runs of equal bits reach the word loops; a few odd bytes end them.
        let common = if prng.below(2) == 0 { 0 } else { 0xff };
        (0..length)
            .map(|_| {
                if prng.below(16) < dense {
                    prng.next_u64() as u8
                } else {
                    common
                }
            })
            .collect()
    }

    #[test]
    fn counts_and_positions_are_those_of_looking_at_every_bit() {
        let mut prng = Prng::new(1);
        for round in 0..4_000 {
            let length = 1 + prng.below(150) as usize;
            let bytes = random_bytes(&mut prng, length, [0, 1, 16][round % 3]);
            let start = prng.below(length as u64 * 8);
            let end = start + 1 + prng.below(length as u64 * 8 - start);
            let ones = (start..end).filter(|&position| bit_at(&bytes, position)).count() as u64;
            assert_eq!(count_ones(&bytes, start..end), ones, "{bytes:x?} {start}..{end}");
            for bit in [false, true] {
                let first = (start..end).find(|&position| bit_at(&bytes, position) == bit);
                assert_eq!(
                    first_bit(&bytes, start..end, bit),
                    first,
                    "{bytes:x?} {start}..{end} {bit}"
                );
            }
        }
    }

    #[test]
    fn ranges_clamp_to_the_string() {
        use BitUnit::{Bit, Byte};
        for (length, start, end, unit, expected) in [
            (3, 0, -1, Byte, Some(0..24)),
            (3, 1, 1, Byte, Some(8..16)),
            (3, -100, 100, Byte, Some(0..24)),
            (3, -100, -50, Byte, Some(0..8)),
            (3, 2, 1, Byte, None),
            (3, 3, 9, Byte, None),
            (3, 5, 30, Bit, Some(5..24)),
            (3, -3, -2, Bit, Some(21..23)),
            (3, i64::MIN, i64::MAX, Bit, Some(0..24)),
            (3, i64::MAX, i64::MAX, Byte, None),
            (0, 0, -1, Byte, None),
            (0, 0, 0, Bit, None),
        ] {
            assert_eq!(
                bits_of_range(length, start, end, unit),
                expected,
                "{start} {end} {unit:?}"
            );
        }
    }

    #[test]
    fn operations_on_strings_pad_the_shorter_with_zeros() {
        for (operation, source, expected) in [
            (BitOperation::And, &b"\xf0\x3c"[..], [0xf0 & 0x66, 0x3c & 0x55, 0]),
            (BitOperation::Or, b"\xf0\x3c", [0xf0 | 0x66, 0x3c | 0x55, 0xaa]),
            (BitOperation::Xor, b"\xf0\x3c", [0xf0 ^ 0x66, 0x3c ^ 0x55, 0xaa]),
            (BitOperation::And, b"", [0, 0, 0]),
            (BitOperation::Or, b"", [0x66, 0x55, 0xaa]),
        ] {
            let mut target = [0x66, 0x55, 0xaa];
            combine(operation, &mut target, source);
            assert_eq!(target, expected, "{operation:?}");
        }
    }

    fn operation(signed: bool, bits: u32, offset: u64) -> BitFieldOperation {
        BitFieldOperation {
            action: BitFieldAction::Get,
            signed,
            bits,
            offset,
            overflow: BitFieldOverflow::Wrap,
        }
    }

    #[test]
    fn a_field_is_its_bits_wherever_it_begins() {
        let mut prng = Prng::new(2);
        for _ in 0..4_000 {
            let signed = prng.below(2) == 0;
            let bits = 1 + prng.below(if signed { 64 } else { 63 }) as u32;
            let offset = prng.below(150);
            let mut bytes = random_bytes(&mut prng, 16, 16);
            let operation = operation(signed, bits, offset);

            let mut expected = if signed && bit_at(&bytes, offset) { -1 } else { 0 };
            for position in offset..offset + u64::from(bits) {
                expected = expected << 1 | i64::from(bit_at(&bytes, position));
            }
            assert_eq!(field(&bytes, &operation), expected, "{operation:?} {bytes:x?}");

            if offset + u64::from(bits) <= 128 {
                let before = bytes.clone();
                let unused = 64 - bits;
                let random = (prng.next_u64() << unused) as i64;
                let value = if signed {
                    random >> unused
                } else {
                    (random as u64 >> unused) as i64
                };
                set_field(&mut bytes, &operation, value);
                assert_eq!(field(&bytes, &operation), value, "{operation:?}");
                for position in (0..128).filter(|at| !(offset..offset + u64::from(bits)).contains(at)) {
                    assert_eq!(
                        bit_at(&bytes, position),
                        bit_at(&before, position),
                        "{operation:?} {position}"
                    );
                }
            }
        }
    }

    #[test]
    fn overflow_wraps_saturates_or_fails() {
        use BitFieldAction::{IncrBy, Set};
        for (signed, bits, before, action, wrapped, saturated) in [
            (false, 8, 250, IncrBy(10), 4, 255),
            (false, 8, 5, IncrBy(-10), 251, 0),
            (false, 2, 0, Set(7), 3, 3),
            (false, 2, 0, Set(-1), 3, 3),
            (false, 63, 1, IncrBy(i64::MAX), 0, i64::MAX),
            (true, 8, 127, IncrBy(1), -128, 127),
            (true, 8, -128, IncrBy(i64::MIN), -128, -128),
            (true, 8, 0, Set(128), -128, 127),
            (true, 8, 0, Set(-129), 127, -128),
            (true, 8, 0, Set(i64::MIN + 128), -128, -128),
            (true, 8, 0, Set(i64::MIN + 127), 127, 127),
            (true, 64, i64::MAX, IncrBy(1), i64::MIN, i64::MAX),
            (true, 64, i64::MIN, IncrBy(-1), i64::MAX, i64::MIN),
        ] {
            for (overflow, expected) in [
                (BitFieldOverflow::Wrap, Some(wrapped)),
                (BitFieldOverflow::Saturate, Some(saturated)),
                (BitFieldOverflow::Fail, None),
            ] {
                let operation = BitFieldOperation {
                    action,
                    overflow,
                    ..operation(signed, bits, 0)
                };
                let answer = expected.map(|after| if let Set(_) = action { before } else { after });
                assert_eq!(
                    outcome(&operation, before),
                    (answer, expected.unwrap_or(before)),
                    "{operation:?} of {before}"
                );
            }
        }
    }

    #[test]
    fn what_fits_is_stored_under_every_overflow() {
        use BitFieldAction::{Get, IncrBy, Set};
        for overflow in [
            BitFieldOverflow::Wrap,
            BitFieldOverflow::Saturate,
            BitFieldOverflow::Fail,
        ] {
            for (signed, bits, before, action, answer, after) in [
                (true, 5, -16, IncrBy(31), 15, 15),
                (false, 1, 1, IncrBy(-1), 0, 0),
                (true, 64, 7, Set(i64::MIN), 7, i64::MIN),
                (false, 63, 7, Set(i64::MAX), 7, i64::MAX),
                (true, 64, 7, Get, 7, 7),
            ] {
                let operation = BitFieldOperation {
                    action,
                    overflow,
                    ..operation(signed, bits, 0)
                };
                assert_eq!(
                    outcome(&operation, before),
                    (Some(answer), after),
                    "{operation:?} of {before}"
                );
            }
        }
    }
}
