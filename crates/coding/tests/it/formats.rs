//! Rows and fragments as they are, byte for byte: replicas of later versions have them in memory, and are sent them.
//!
//! Both files were written by another implementation, which multiplies by the definition.

use crate::rows_of;
use coding::{Code, CodeEpoch, Fragment, FragmentHead};
use ids::Version;
use std::fmt::Write;

const ROWS: &str = include_str!("rows.txt");
const FRAGMENTS: &str = include_str!("formats.txt");

/// Bytes that look like nothing in particular.
fn value(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at * 131 + at * at * 7 + 89) as u8)
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn head(replicas: usize, row: u8, epoch: u32, version: u64, whole: &[u8]) -> FragmentHead {
    let code = Code::of_replicas(replicas).expect("so many have one");
    FragmentHead {
        code,
        row: code.row(row).expect("it has this row"),
        epoch: CodeEpoch(epoch),
        version: Version(version),
        length: whole.len(),
        checksum: crc32c::crc32c(whole),
    }
}

#[test]
fn rows_are_as_they_were() {
    let mut text = String::new();
    for replicas in 3..=6 {
        let code = Code::of_replicas(replicas).unwrap();
        for length in [0, 1, 5, 30, 97] {
            for (row, bytes) in rows_of(code, &value(length)) {
                let (row, bytes) = (row.number(), hex(&bytes));
                let _ = writeln!(text, "{replicas} replicas, {length} bytes, row {row}: {bytes}");
            }
        }
    }
    assert_eq!(text, ROWS);
}

#[test]
fn fragments_are_as_they_were_and_are_read_back() {
    let mut text = String::new();
    for (replicas, row, epoch, version, length) in [
        (3, 0, 0, 0, 0),
        (3, 2, 1, 77, 30),
        (4, 3, 127, 128, 31),
        (5, 4, 128, 1 << 35, 97),
        (6, 5, u32::MAX, u64::MAX, 5),
        (6, 3, 1, 1_000, 5),
    ] {
        let whole = value(length);
        let head = head(replicas, row, epoch, version, &whole);
        let mut bytes = b"before".to_vec();
        head.write_fragment(&whole, &mut bytes);
        let bytes = bytes.strip_prefix(b"before").unwrap();
        let read = Fragment::read(bytes).unwrap();
        assert_eq!(read.head, head);
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again, bytes);
        let shared = bytes::Bytes::copy_from_slice(bytes);
        assert_eq!(Fragment::read_shared(&shared).unwrap().bytes, read.bytes);
        let _ = writeln!(
            text,
            "row {row} of {replicas}, epoch {epoch}, version {version}, {length} bytes: {}",
            hex(bytes)
        );
    }
    assert_eq!(text, FRAGMENTS);
}

#[test]
fn no_part_of_a_fragment_and_nothing_longer_is_one() {
    let whole = value(31);
    for code in Code::all() {
        for row in code.rows() {
            let replicas = code.data() + code.parity();
            let mut bytes = Vec::new();
            head(replicas, row.number(), 300, 70_000, &whole).write_fragment(&whole, &mut bytes);
            for end in 0..bytes.len() {
                assert!(Fragment::read(&bytes[..end]).is_err());
            }
            bytes.push(0);
            assert!(Fragment::read(&bytes).is_err());
        }
    }
}

#[test]
fn what_no_fragment_says_is_refused_where_it_stands() {
    let error = |bytes: &[u8]| {
        let error = Fragment::read(bytes).unwrap_err();
        (error.offset, error.expected)
    };
    let place = "a number of replicas, and one of their rows";
    assert_eq!(
        error(&[0x20, 0, 0, 0, 0, 0, 0, 0]),
        (0, place),
        "two have no code"
    );
    assert_eq!(
        error(&[0x33, 0, 0, 0, 0, 0, 0, 0]),
        (0, place),
        "three have no fourth row"
    );
    assert_eq!(error(&[0x70, 0, 0, 0, 0, 0, 0, 0]), (0, place));
    let large = [0x30, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0, 0, 0];
    assert_eq!(error(&large), (1, "a code epoch"));
    let long = [0x30, 0, 0, 0x81, 0x80, 0x80, 0x80, 0x02, 0, 0, 0, 0];
    assert_eq!(error(&long), (3, "a length of at most 512 MiB"));
    let longest = [0x30, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x02, 0, 0, 0, 0];
    assert_eq!(error(&longest).1, "more bytes", "nothing is reserved for it");
}

/// Bytes of a fragment, beside those of the value.
fn kept(replicas: usize, length: usize, version: u64) -> usize {
    let code = Code::of_replicas(replicas).expect("so many have one");
    let whole = value(length);
    let rows = code.rows().map(|row| {
        let mut bytes = Vec::new();
        head(replicas, row.number(), 1, version, &whole).write_fragment(&whole, &mut bytes);
        bytes.len()
    });
    rows.max().expect("there are rows")
}

#[test]
fn fragments_of_256_bytes_are_little_more_than_half_of_them() {
    let version = 10_000_000_000;
    assert_eq!(
        [3, 4, 5, 6].map(|replicas| kept(replicas, 256, version)),
        [141, 99, 99, 77]
    );
    assert_eq!(
        [3, 4, 5, 6].map(|replicas| kept(replicas, 1024, version)),
        [525, 355, 355, 269]
    );
    // The threshold of the design, 256 bytes, pays; so would any from 26 on.
    let pays = |length| kept(3, length, version) < length;
    assert!((26..2_000).all(pays));
    assert!(!pays(24));
}
