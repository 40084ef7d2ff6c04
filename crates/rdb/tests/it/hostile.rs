//! Bytes that nobody should have written: they are refused, at once and without memory for what is not there.

use super::*;
use golden::ALL;
use rdb::{memory_max, read_within};

/// That whatever this is taken for is a value that can be written.
fn check_total(body: &[u8]) {
    if let Ok(value) = read(body) {
        check_round_trip(value);
    }
}

#[test]
fn no_prefix_of_a_value_is_one() {
    for payload in ALL {
        let body = body(payload);
        for end in 0..body.len() {
            assert!(read(&body[..end]).is_err(), "{end} of {body:?}");
        }
    }
}

#[test]
fn nothing_may_stand_behind_a_value() {
    for payload in ALL {
        for byte in [0, 1, 0xFF] {
            assert!(read(&[body(payload), &[byte]].concat()).is_err());
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_a_value_or_an_error() {
    for payload in ALL {
        let body = body(payload);
        let mut other = body.to_vec();
        for at in 0..body.len() {
            for bit in 0..8 {
                other[at] = body[at] ^ 1 << bit;
                check_total(&other);
            }
            for byte in [0, 0x7F, 0xFF, body[at].wrapping_add(1), body[at].wrapping_sub(1)] {
                other[at] = byte;
                check_total(&other);
            }
            other[at] = body[at];
        }
    }
}

#[test]
fn any_byte_in_front_of_short_values_is_a_value_or_an_error() {
    for payload in ALL {
        let body = body(payload);
        for first in 0..=255 {
            check_total(&[&[first], &body[1..]].concat());
            check_total(&[&body[..1], &[first], &body[2.min(body.len())..]].concat());
        }
    }
}

#[test]
fn a_byte_more_or_less_anywhere_is_a_value_or_an_error() {
    for payload in ALL {
        let body = body(payload);
        for at in 0..body.len() {
            let (front, back) = body.split_at(at);
            check_total(&[front, &back[1..]].concat());
            for byte in [0, 0x7F, 0x81, 0xC3, 0xFF] {
                check_total(&[front, &[byte], back].concat());
            }
        }
    }
}

/// A small generator of Marsaglia's: seeds are all that matters here.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn parts_of_values_put_together_are_a_value_or_an_error() {
    const SEED: u64 = 0x5EED;
    let mut random = Random(SEED);
    for _ in 0..20_000 {
        let [one, other] = [(); 2].map(|()| body(ALL[random.below(ALL.len())]));
        let (end, start) = (random.below(one.len() + 1), random.below(other.len() + 1));
        let mut joined = [&one[..end], &other[start..]].concat();
        for _ in 0..random.below(3) {
            let at = random.below(joined.len().max(1));
            if let Some(byte) = joined.get_mut(at) {
                *byte = random.below(256) as u8;
            }
        }
        check_total(&joined);
    }
}

#[test]
fn types_of_modules_and_of_no_one_are_refused() {
    for kind in [6, 7, 8, 22, 23, 100, 255] {
        assert!(read(&[kind, 1, 1, b'a', 1, b'b']).is_err(), "{kind}");
    }
    assert!(read(b"").is_err());
}

#[test]
fn no_length_is_believed_before_the_bytes_are_there() {
    let large = [
        &[0x80, 0xFF, 0xFF, 0xFF, 0xFF][..],
        &[0x81, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
    ];
    for kind in 0..22 {
        for length in large {
            for front in [&b""[..], b"\x01", b"\x01\x01", b"\xC3", b"\xC3\x01", b"\x01\x01a"] {
                let body = [&[kind], front, length, &[0; 20]].concat();
                assert!(read(&body).is_err(), "{body:?}");
            }
        }
    }
}

#[test]
fn nothing_stands_twice_in_a_set_a_sorted_set_or_a_hash() {
    assert!(read(b"\x02\x02\x01a\x01b").is_ok());
    assert!(read(b"\x02\x02\x01a\x01a").is_err());
    assert!(read(b"\x02\x02\x017\xC0\x07").is_err(), "as text and as a number");
    assert!(read(b"\x04\x02\x01a\x01b\x01a\x01c").is_err());
    assert!(read(b"\x03\x02\x01a\x011\x01a\x012").is_err());
    let score = 1f64.to_le_bytes();
    assert!(read(&[b"\x05\x02\x01a", &score[..], b"\x01a", &score].concat()).is_err());
    assert!(read(b"\x14\x0D\x0D\0\0\0\x02\0\x81a\x02\x81a\x02\xFF").is_err());
    assert!(read(b"\x10\x11\x11\0\0\0\x04\0\x81a\x02\x07\x01\x81a\x02\x08\x01\xFF").is_err());
}

#[test]
fn empty_collections_are_refused() {
    for body in [
        &b"\x01\0"[..],
        b"\x02\0",
        b"\x03\0",
        b"\x04\0",
        b"\x05\0",
        b"\x12\0",
        b"\x0E\0",
    ] {
        assert!(read(body).is_err(), "{body:?}");
    }
    let listpack = b"\x07\x07\0\0\0\0\0\xFF";
    for kind in [16, 17, 20] {
        assert!(read(&[&[kind], &listpack[..]].concat()).is_err(), "{kind}");
    }
    assert!(read(b"\x0B\x08\x02\0\0\0\0\0\0\0").is_err());
}

/// A stream of one listpack: its first entry has a field of so many bytes, and so do so many more, in a few bytes each.
fn inflating(field_bytes: usize, entries: usize) -> Vec<u8> {
    let mut elements = Vec::new();
    let number = |to: &mut Vec<u8>, number: u32| {
        to.push(0xF3);
        to.extend_from_slice(&number.to_le_bytes());
        to.push(5);
    };
    number(&mut elements, entries as u32);
    elements.extend_from_slice(b"\0\x01\x01\x01\xF0");
    elements.extend_from_slice(&(field_bytes as u32).to_le_bytes());
    elements.resize(elements.len() + field_bytes, b'f');
    let length = field_bytes + 5;
    let back = [length >> 14, length >> 7 & 0x7F | 0x80, length & 0x7F | 0x80];
    elements.extend(back.map(|byte| byte as u8));
    elements.extend_from_slice(b"\0\x01");
    for at in 0..entries {
        elements.extend_from_slice(b"\x02\x01\0\x01");
        number(&mut elements, at as u32);
        elements.extend_from_slice(b"\x07\x01\x04\x01");
    }
    let size = elements.len() as u32 + 7;
    let mut body = b"\x0F\x01\x10\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\x80".to_vec();
    body.extend_from_slice(&size.to_be_bytes());
    body.extend_from_slice(&size.to_le_bytes());
    body.extend_from_slice(b"\xFF\xFF");
    body.extend_from_slice(&elements);
    body.push(0xFF);
    body.push(0x80);
    body.extend_from_slice(&(entries as u32).to_be_bytes());
    body.extend_from_slice(b"\x09\x80");
    body.extend_from_slice(&(entries as u32).to_be_bytes());
    body.push(0);
    body
}

#[test]
fn a_value_stays_within_its_memory() {
    let small = inflating(20_000, 10);
    assert!(read(&small).is_ok());
    assert_eq!(read_within(&small, 200_000), Err(ValueError::TooLarge));
    assert!(read_within(&small, 202_000).is_ok());
    // 200 KB that would come to 2 GB.
    assert_eq!(read(&inflating(200_000, 10_000)), Err(ValueError::TooLarge));
    assert_eq!(memory_max(small.len()), 512 << 20);
}

#[test]
fn what_lzf_makes_is_bounded() {
    // 600 MiB are announced.
    let announced = [&b"\0\xC3\x02\x80"[..], &(600u32 << 20).to_be_bytes(), b"\0a"].concat();
    assert_eq!(read(&announced), Err(ValueError::TooLarge));
    // Five hundred are, and do not come.
    let announced = [&b"\0\xC3\x02\x80"[..], &(500u32 << 20).to_be_bytes(), b"\0a"].concat();
    assert!(read(&announced).is_err());
    // 3 KB that come to 264 KB.
    let packed = [&b"\0a"[..], &b"\xE0\xFF\0".repeat(1000)].concat();
    let mut body = b"\0\xC3\x80".to_vec();
    body.extend_from_slice(&(packed.len() as u32).to_be_bytes());
    body.push(0x80);
    body.extend_from_slice(&264_001u32.to_be_bytes());
    body.extend_from_slice(&packed);
    assert_eq!(read(&body), Ok(PayloadValue::String(vec![b'a'; 264_001])));
    assert_eq!(read_within(&body, 264_000), Err(ValueError::TooLarge));
}
