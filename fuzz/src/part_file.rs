//! Part files of backups, of anybody.

use crate::source::Source;
use backup::{BackupError, PartReader, PartSummary, PartWriter};

const TITLE: &[u8; 8] = b"ChorPT01";
/// Records of an input; what is behind them is not read.
const RECORDS_MAX: u64 = 64;

/// Any bytes, as a file or as the blocks of one that are intact, are a part or an error that names the file and a place in it; what
/// is counted at the end is what was read, and an error and an end stay.
pub fn part_file(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let bytes = if kind & 1 == 0 {
        data.to_vec()
    } else {
        framed(data)
    };
    match read(&bytes) {
        Ok(None) => {}
        Ok(Some(summary)) => assert_eq!(summary.bytes, bytes.len() as u64),
        Err(BackupError::Damaged(damage)) => {
            assert_eq!(damage.file, "part");
            assert!(damage.offset <= bytes.len() as u64);
        }
        Err(BackupError::Failed(why)) => assert!(why.contains("of its format"), "{why}"),
        Err(other) => panic!("memory can be read: {other}"),
    }
}

/// What it came to, unless there are more records than are read.
fn read(bytes: &[u8]) -> Result<Option<PartSummary>, BackupError> {
    let mut reader = PartReader::open(bytes, "part")?;
    let (mut keys, mut raw_bytes) = (0, 0);
    while keys < RECORDS_MAX {
        match reader.next_record() {
            Ok(Some(record)) => {
                keys += 1;
                raw_bytes += 13 + record.head.len() as u64;
                let mut value = Vec::new();
                loop {
                    match reader.value(&mut value, 1000) {
                        Ok(0) => break,
                        Ok(count) => assert!(count <= 1000),
                        Err(error) => {
                            assert!(reader.next_record().is_err(), "an error stays");
                            return Err(error);
                        }
                    }
                }
                assert_eq!(value.len() as u64, record.value_length);
                raw_bytes += record.value_length;
            }
            Ok(None) => {
                let summary = reader.summary();
                assert_eq!(
                    (summary.keys, summary.raw_bytes),
                    (keys, raw_bytes),
                    "it is all of it"
                );
                assert_eq!(reader.next_record(), Ok(None));
                return Ok(Some(summary));
            }
            Err(error) => {
                assert_eq!(reader.next_record(), Err(error.clone()), "an error stays");
                return Err(error);
            }
        }
    }
    Ok(None)
}

/// A file whose blocks are intact, whatever they say. Each stands behind its flags, what its raw length is more than its own, and its
/// length.
fn framed(data: &[u8]) -> Vec<u8> {
    let mut source = Source(data);
    let mut file = TITLE.to_vec();
    let mut number = 0u64;
    while !source.is_empty() {
        let flags = source.byte();
        let more = u32::from(source.byte()) | u32::from(source.byte()) << 8;
        let length = usize::from(source.byte()) | usize::from(source.byte()) << 8;
        let stored = source.bytes(length);
        let mut head = (stored.len() as u32).to_le_bytes().to_vec();
        head.extend((stored.len() as u32 + more).to_le_bytes());
        head.push(flags);
        let sum = crc32c::crc32c(&[&number.to_le_bytes(), &head[..], stored].concat());
        file.extend(head);
        file.extend(sum.to_le_bytes());
        file.extend(stored);
        number += 1;
    }
    file
}

fn written(records: &[Pair<'_>]) -> Vec<u8> {
    let mut writer = PartWriter::new(Vec::new(), 3, 256).expect("memory takes everything");
    for (db, key, value) in records {
        let mut head = (key.len() as u32).to_le_bytes().to_vec();
        head.extend_from_slice(key);
        head.extend([0; 10]);
        let begun = writer.record(*db, &head, value.len() as u64);
        begun
            .and_then(|()| writer.value(value))
            .expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything").1
}

/// The blocks of a whole file, as `framed` takes them.
fn blocks(file: &[u8]) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    let (mut at, mut out) = (TITLE.len(), Vec::new());
    while at < file.len() {
        let (stored, raw) = (number(at), number(at + 4));
        out.push(file[at + 8]);
        out.extend(((raw - stored) as u16).to_le_bytes());
        out.extend((stored as u16).to_le_bytes());
        at += 13;
        out.extend(&file[at..at + stored as usize]);
        at += stored as usize;
    }
    out
}

/// A database, a key and its value.
type Pair<'a> = (u8, &'a [u8], &'a [u8]);

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let long = b"value".repeat(300);
    let all: [&[Pair<'_>]; 3] = [
        &[],
        &[(0, b"key", b"value"), (15, b"", b"")],
        &[(1, b"long", &long), (2, b"k", b"1")],
    ];
    let files = all.map(written);
    for file in &files {
        assert_eq!(framed(&blocks(file)), *file, "a seed is a whole file");
    }
    let plain = files.iter().map(|file| [&[0], &file[..]].concat());
    let framed = files.iter().map(|file| [&[1], &blocks(file)[..]].concat());
    plain.chain(framed).collect()
}
