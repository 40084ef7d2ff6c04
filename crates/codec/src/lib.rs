//! How numbers and byte strings stand in entries, messages and files.
//!
//! ```text
//!  u8 .. u128   little-endian, as many bytes as the name says
//!  bool         0 or 1
//!  varint       seven bits a byte, the least first, bit 7 set in all but the last; as few bytes as will do
//!  count        u32: of the items, or of the bytes, that follow
//!  bytes        count | bytes
//!  option       bool | the value, if it is 1
//!  list         count | items
//! ```
//!
//! What a message, an entry or a file consists of stands where it is defined; [formats](../../../docs/formats.md) lists them all.
//! Reading is total: any bytes are a value, or a [`DecodeError`] that says what was expected, and where. No length is believed
//! before as many bytes are there.
//!
//! **What there is not:** derived encodings. Each format is spelled out field by field, so that whoever changes a type sees what
//! becomes of its bytes.

mod error;
mod reader;
mod writer;

pub use error::{Damage, DecodeError};
pub use reader::Reader;
pub use writer::{Pieces, Writer, fill_count};

/// Bytes of a count.
pub const COUNT_BYTES: usize = size_of::<u32>();

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn what_is_written_is_read_and_no_prefix_of_it_is() {
        let mut out = Vec::new();
        out.u8(1);
        out.u16(0x0203);
        out.u32(4);
        out.u64(5);
        out.i64(-6);
        out.u128(7);
        out.bool(true);
        out.varint(300);
        out.bytes(b"text");
        out.option(&Some(8), |out, number| out.u16(*number));
        out.list(&[9, 10], |out, number| out.u8(*number));
        out.raw(b"rest");
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            assert_eq!((reader.u8()?, reader.u16()?, reader.u32()?), (1, 0x0203, 4));
            assert_eq!((reader.u64()?, reader.i64()?, reader.u128()?), (5, -6, 7));
            assert_eq!((reader.bool()?, reader.varint()?), (true, 300));
            assert_eq!(reader.bytes()?, b"text");
            assert_eq!(reader.option(Reader::u16)?, Some(8));
            assert_eq!(reader.list(1, Reader::u8)?, [9, 10]);
            assert_eq!(reader.take(4)?, b"rest");
            reader.end()
        };
        assert_eq!(read(&out), Ok(()));
        for end in 0..out.len() {
            let error = read(&out[..end]).expect_err("something is missing");
            assert!(error.offset <= end);
        }
        out.push(0);
        let error = DecodeError {
            offset: out.len() - 1,
            expected: "the end",
        };
        assert_eq!(read(&out), Err(error));
        assert_eq!(error.to_string(), "expected the end at byte 63");
    }

    #[test]
    fn a_varint_has_one_encoding() {
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let number = reader.varint()?;
            reader.end().map(|()| number)
        };
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            out.varint(number);
            assert_eq!(read(&out), Ok(number));
            assert!(read(&out[..out.len() - 1]).is_err());
        }
        assert!(read(&[0x80, 0]).is_err(), "one byte would do");
        let mut large = vec![0xff; 9];
        large.push(2);
        assert!(read(&large).is_err(), "65 bits");
    }

    #[test]
    fn a_count_is_not_believed_before_the_bytes_are_there() {
        let hostile = [0xff; 64];
        let expected = |offset, expected| DecodeError { offset, expected };
        let list = Reader::new(&hostile).list(8, Reader::u64);
        assert_eq!(list, Err(expected(0, "a list that fits into what is there")));
        let bytes = Reader::new(&hostile).bytes();
        assert_eq!(bytes, Err(expected(0, "bytes that fit into what is there")));
        assert!(Reader::new(&hostile).long_bytes().is_err());
    }

    #[test]
    fn errors_of_a_part_say_where_in_the_whole_they_are() {
        let mut out = Vec::new();
        out.u16(0);
        out.bytes(&[7]);
        let mut reader = Reader::new(&out);
        reader.u16().expect("it is there");
        let mut part = reader.part().expect("it is there");
        assert_eq!(part.bool().map_err(|error| error.offset), Err(6));
        assert!(reader.is_empty());
    }

    #[test]
    fn long_bytes_are_shared_both_ways() {
        let long = Bytes::from(vec![b'l'; 64 * 1024]);
        let mut pieces = Pieces::default();
        pieces.u8(1);
        pieces.shared_bytes(&long);
        pieces.shared_bytes(&Bytes::from_static(b"short"));
        let pieces = pieces.finish();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[1].as_ptr(), long.as_ptr());
        let whole = Bytes::from(pieces.concat());
        let mut reader = Reader::sharing(&whole);
        reader.u8().expect("it is there");
        let read = reader.shared_bytes().expect("it is there");
        assert_eq!(read.as_ptr(), whole[5..].as_ptr());
        let short = reader.shared_bytes().expect("it is there");
        assert!(
            !whole.as_ptr_range().contains(&short.as_ptr()),
            "it keeps no large body in memory"
        );
    }

    #[test]
    fn of_pieces_any_part_is_copied() {
        let mut pieces = Pieces::default();
        let (first, second) = (Bytes::from(vec![1; 70_000]), Bytes::from(vec![2; 80_000]));
        pieces.raw(b"front");
        assert!(pieces.plain().is_some());
        pieces.shared(&first);
        pieces.shared(&second);
        pieces.raw(b"between");
        pieces.shared(&Bytes::from_static(b"short"));
        pieces.shared(&first);
        assert!(pieces.plain().is_none(), "not all of it is in one place");
        let all = [b"front", &first[..], &second, b"between", b"short", &first].concat();
        assert_eq!(pieces.len(), all.len());
        let places = [0, 3, 5, 6, 70_005, 150_005, 150_010, 150_017, all.len()];
        for from in places {
            for to in places.into_iter().filter(|to| *to >= from) {
                let mut copy = b"kept".to_vec();
                pieces.copy(from..to, &mut copy);
                assert!(copy == [b"kept", &all[from..to]].concat(), "{from}..{to}");
            }
        }
        pieces.cut(5, 100);
        assert_eq!(
            (pieces.len(), pieces.plain().map(|bytes| &bytes[..])),
            (5, Some(&b"front"[..]))
        );
        assert_eq!(pieces.finish(), [&b"front"[..]]);
    }
}
