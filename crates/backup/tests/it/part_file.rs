//! Part files, byte for byte.

use std::io::ErrorKind;

use backup::{BackupError, PartReader, PartSummary, PartWriter};
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

type Records = Vec<(u8, Vec<u8>, Vec<u8>)>;

fn read(bytes: &[u8]) -> Result<(Records, PartSummary), BackupError> {
    let mut reader = PartReader::open(bytes, "part")?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        let mut value = Vec::new();
        while reader.value(&mut value, 1000)? > 0 {}
        assert_eq!(value.len() as u64, record.value_length);
        assert_eq!(record.head, head(&record.key));
        records.push((record.db, record.key, value));
    }
    Ok((records, reader.summary()))
}

/// A part with blocks of both kinds.
fn part() -> (PartSummary, Vec<u8>) {
    let noise: Vec<u8> = (0..80_000u32)
        .flat_map(|n| n.wrapping_mul(n).wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let zeros = vec![0; 300_000];
    written(
        &[
            (0, b"a", b""),
            (1, b"noise", &noise),
            (1, b"zeros", &zeros),
            (15, b"z", b"1"),
        ],
        usize::MAX,
    )
}

#[test]
fn a_part_is_read_as_it_was_written() {
    let (summary, bytes) = part();
    let (records, is) = read(&bytes).unwrap();
    assert_eq!(is, summary);
    let keys: Vec<_> = records
        .iter()
        .map(|(db, key, value)| (*db, &key[..], value.len()))
        .collect();
    let expected: [(u8, &[u8], usize); 4] = [
        (0, b"a", 0),
        (1, b"noise", 320_000),
        (1, b"zeros", 300_000),
        (15, b"z", 1),
    ];
    assert_eq!(keys, expected);
    let reader = PartReader::open(&bytes[..], "part").unwrap();
    assert_eq!(reader.finish(), Ok(summary), "values can be passed over");
    let (empty, bytes) = written(&[], 1);
    assert_eq!(read(&bytes), Ok((Vec::new(), empty)));
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (_, bytes) = part();
    let places = (0..bytes.len()).filter(|at| *at < 200 || *at > bytes.len() - 200 || at % 977 == 0);
    for at in places {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        match read(&flipped) {
            Err(BackupError::Damaged(damage)) => {
                assert_eq!(damage.file, "part");
                assert!(damage.offset <= at as u64, "{at}: {damage}");
                assert!(at as u64 - damage.offset < 300_000, "{at}: {damage}");
            }
            // Two digits of the title are the version.
            Err(BackupError::Failed(why)) if at == 6 || at == 7 => assert!(why.contains("version"), "{why}"),
            other => panic!("{at}: {:?}", other.map(|(_, summary)| summary)),
        }
    }
}

#[test]
fn a_part_that_is_cut_or_has_something_behind_it_is_damaged() {
    let (_, bytes) = part();
    for at in (0..bytes.len()).filter(|at| *at < 100 || *at > bytes.len() - 100 || at % 7919 == 0) {
        assert!(
            matches!(read(&bytes[..at]), Err(BackupError::Damaged(_))),
            "{at} bytes"
        );
    }
    let longer = [&bytes[..], b"x"].concat();
    let Err(BackupError::Damaged(damage)) = read(&longer) else {
        panic!("there is something behind the footer")
    };
    assert_eq!(damage.offset, bytes.len() as u64);
}

#[test]
fn blocks_that_have_changed_places_are_damage() {
    let zeros = vec![0; 3 * 256 * 1024];
    let (_, bytes) = written(&[(0, b"k", &zeros)], usize::MAX);
    let length = |at: usize| 13 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let first = length(8);
    let (second, third) = (8 + first + length(8 + first), length(8 + first));
    // The second block once more, in place of the third: equal content, another number.
    let mut swapped = bytes.clone();
    let copy = bytes[8 + first..second].to_vec();
    swapped.splice(second..second + third, copy);
    let Err(BackupError::Damaged(damage)) = read(&swapped) else {
        panic!("a block stands in the place of another")
    };
    assert_eq!(damage.offset, second as u64);
}

#[test]
fn another_version_is_refused_and_not_called_damage() {
    let (_, mut bytes) = part();
    bytes[7] = b'2';
    let Err(BackupError::Failed(why)) = read(&bytes) else {
        panic!("it cannot be read")
    };
    assert!(why.contains("part has version 02 of its format"), "{why}");
}
