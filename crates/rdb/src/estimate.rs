//! How much a value comes to, before it is read.

use crate::error::ValueError;
use crate::input::Input;
use crate::length::{read_length, string_bytes};
use crate::value;

/// At so many bytes it counts as much, however much more it is.
const ENOUGH: usize = 1 << 20;

/// An entry of a stream may name the fields of another one: its listpack is a fraction of what is made of it.
const STREAM_FACTOR: usize = 16;

/// About how many bytes the strings of a payload come to when they are unpacked: as their lengths say, which may be wrong. It stops at about a
/// mebibyte, and never takes longer than it takes to pass over one.
pub fn unpacked_bytes(payload: &[u8]) -> usize {
    let mut sum = 0;
    let _ = add_up(payload, &mut sum);
    sum.max(payload.len())
}

fn add_up(payload: &[u8], sum: &mut usize) -> Result<(), ValueError> {
    let mut input = Input::new(payload);
    let kind = input.byte()?;
    let is_stream = value::is_stream(kind);
    let (mut left, factor) = match value::is_one_string(kind) {
        true => (1, 1),
        false => (
            read_length(&mut input)?,
            if is_stream { STREAM_FACTOR } else { 1 },
        ),
    };
    while left > 0 && *sum < ENOUGH {
        left -= 1;
        if value::is_list_of_parts(kind) {
            read_length(&mut input)?;
        }
        let strings = if is_stream || kind == value::HASH { 2 } else { 1 };
        for _ in 0..strings {
            *sum = sum.saturating_add(string_bytes(&mut input)?.saturating_mul(factor));
        }
        value::pass_score(kind, &mut input)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PayloadWriter;

    #[test]
    fn what_is_compressed_counts_as_what_it_comes_to() {
        // A string of 300,000 bytes, by its own word.
        let string = b"\0\xc3\x05\x80\0\x04\x93\xe0\x01aa\xe0\x03";
        assert_eq!(unpacked_bytes(string), 300_000);
        // A listpack in a stream that says the same.
        let stream = [&b"\x13\x01\x10"[..], &[0; 16], &string[1..]].concat();
        assert!(unpacked_bytes(&stream) >= ENOUGH);
        // A list of one part.
        let list = [&b"\x12\x01\x02"[..], &string[1..]].concat();
        assert_eq!(unpacked_bytes(&list), 300_000);
    }

    #[test]
    fn what_is_not_counts_as_it_is() {
        let mut hash = PayloadWriter::hash(2);
        for word in ["f", "value", "g", "17"] {
            hash.element(word.as_bytes());
        }
        let mut sorted_set = PayloadWriter::sorted_set(1);
        sorted_set.element(b"member");
        sorted_set.score(0.5);
        for payload in [
            hash.finish(),
            sorted_set.finish(),
            PayloadWriter::string(b"v").finish(),
        ] {
            assert_eq!(unpacked_bytes(&payload), payload.len());
            for end in 0..payload.len() {
                assert_eq!(unpacked_bytes(&payload[..end]), end);
            }
        }
    }
}
