//! Part files, byte for byte.

use std::io::ErrorKind;

use backup::{PartSummary, PartWriter};
use sha2::{Digest, Sha256};

/// What stands before the value of a string under this key.
fn head(key: &[u8]) -> Vec<u8> {
    let mut head = (key.len() as u32).to_le_bytes().to_vec();
    head.extend(key);
    head.extend([0; 10]);
    head
}

fn written(records: &[(u8, &[u8], &[u8])], piece_bytes: usize) -> (PartSummary, Vec<u8>) {
    let mut writer = PartWriter::new(Vec::new(), 7, 256).expect("memory takes everything");
    for (db, key, value) in records {
        writer
            .record(*db, &head(key), value.len() as u64)
            .expect("memory takes everything");
        for piece in value.chunks(piece_bytes) {
            writer.value(piece).expect("memory takes everything");
        }
    }
    writer.finish().expect("memory takes everything")
}

#[test]
fn a_part_is_a_title_blocks_and_a_footer() {
    let (summary, bytes) = written(&[(3, b"k", b"v!")], 1);
    let mut expected = b"ChorPT01".to_vec();
    let raw = b"\x03\x0f\0\0\0\x01\0\0\0k\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0v!";
    let mut block = |number: u64, raw_length: usize, flags: u8, stored: &[u8]| {
        let mut head = (stored.len() as u32).to_le_bytes().to_vec();
        head.extend((raw_length as u32).to_le_bytes());
        head.push(flags);
        let sum = crc32c::crc32c(&[&number.to_le_bytes(), &head[..], stored].concat());
        expected.extend(head);
        expected.extend(sum.to_le_bytes());
        expected.extend(stored);
    };
    let mut compressed = vec![0; 2 * raw.len()];
    let length = lz4_flex::block::compress_into(raw, &mut compressed).unwrap();
    compressed.truncate(length);
    if compressed.len() < raw.len() {
        block(0, raw.len(), 1, &compressed);
    } else {
        block(0, raw.len(), 0, raw);
    }
    let mut footer = b"\x07\0\0\x01".to_vec();
    footer.extend(1u64.to_le_bytes());
    footer.extend((raw.len() as u64).to_le_bytes());
    footer.extend(crc32c::crc32c(raw).to_le_bytes());
    block(1, footer.len(), 2, &footer);
    assert_eq!(bytes, expected);
    let sha256: [u8; 32] = Sha256::digest(&bytes).into();
    let is = PartSummary {
        partition: 7,
        sha256,
        bytes: bytes.len() as u64,
        raw_bytes: raw.len() as u64,
        keys: 1,
    };
    assert_eq!(summary, is);
}

#[test]
fn equal_records_make_equal_bytes_however_values_were_cut() {
    let long: Vec<u8> = (0..700_000u32)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761) >> (n % 7)).to_le_bytes())
        .collect();
    let records: &[(u8, &[u8], &[u8])] = &[(0, b"a", b""), (0, b"long", &long), (15, b"z", b"1")];
    let (summary, whole) = written(records, usize::MAX);
    for piece_bytes in [1, 1000, 256 * 1024, 256 * 1024 + 1] {
        assert_eq!(
            written(records, piece_bytes),
            (summary, whole.clone()),
            "{piece_bytes}"
        );
    }
    assert_eq!(summary.keys, 3);
    assert_eq!(summary.raw_bytes, long.len() as u64 + 1 + 3 * 27 + 6);
}

#[test]
fn a_value_that_is_not_as_long_as_was_announced_is_an_error() {
    let mut writer = PartWriter::new(Vec::new(), 0, 1).unwrap();
    writer.record(0, &head(b"k"), 3).unwrap();
    writer.value(b"12").unwrap();
    let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(writer.record(0, &head(b"l"), 0)), ErrorKind::InvalidInput);
    assert_eq!(kind(writer.value(b"34")), ErrorKind::InvalidInput);
    let mut writer = PartWriter::new(Vec::new(), 0, 1).unwrap();
    writer.record(0, &head(b"k"), 3).unwrap();
    assert_eq!(kind(writer.finish().map(drop)), ErrorKind::InvalidInput);
}

#[test]
fn a_full_disk_is_an_error() {
    let mut room = [0; 100];
    let mut writer = PartWriter::new(&mut room[..], 0, 1).unwrap();
    writer.record(0, &head(b"k"), 300_000).unwrap();
    let noise: Vec<u8> = (0..75_000u32)
        .flat_map(|n| n.wrapping_mul(n).wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    assert_eq!(writer.value(&noise).unwrap_err().kind(), ErrorKind::WriteZero);
}
