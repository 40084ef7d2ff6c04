//! Snapshot files of anybody.

use crate::source::Source;
use consensus::{Index, Members, SnapshotPoint, Term};
use ids::{ClusterId, GroupId, Incarnation, NodeId};
use storage::{SimDisk, SnapshotHead, SnapshotName, SnapshotReader, SnapshotWriter, StorageError};

const MARK: [u8; 4] = [0xc4, b'F', b'r', 0x9e];
const TITLE: &[u8; 8] = b"ChorSN01";
const SEAL: u64 = 7;
const TITLE_BYTES: usize = 16;
const HEAD_BYTES: usize = 24;
/// Chunks of an input; what is behind them is not read.
const CHUNKS_MAX: u64 = 64;

/// Any bytes, as a file or as the payloads of intact frames, are a snapshot or an error that names the file and a place in it; what
/// is counted at the end is what was read, and an error and an end stay.
pub fn snapshot_file(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let bytes = if kind & 1 == 0 {
        data.to_vec()
    } else {
        framed(data)
    };
    let name = name();
    let disk = SimDisk::new(0);
    disk.put(&name.to_string(), &bytes);
    match read(&disk, &name) {
        Ok(()) => {}
        Err(StorageError::Damaged(damage)) => {
            assert_eq!(damage.file, name.to_string());
            assert!(damage.offset <= bytes.len() as u64);
        }
        Err(other) => panic!("the disk is intact: {other}"),
    }
}

fn read(disk: &SimDisk, name: &SnapshotName) -> Result<(), StorageError> {
    let mut reader = SnapshotReader::open(disk, name, ClusterId(7), NodeId(3))?;
    let (mut chunks, mut raw_bytes, mut checksum) = (0, 0, 0);
    while chunks < CHUNKS_MAX {
        match reader.next_chunk() {
            Ok(Some(chunk)) => {
                chunks += 1;
                raw_bytes += chunk.len() as u64;
                checksum = crc32c::crc32c_append(checksum, &chunk);
            }
            Ok(None) => {
                let footer = reader.footer();
                assert_eq!(footer.point.index, name.index);
                let counted = (footer.chunks, footer.raw_bytes, footer.checksum);
                assert_eq!(counted, (chunks, raw_bytes, checksum), "it is all of it");
                assert!(reader.next_chunk().is_ok_and(|chunk| chunk.is_none()));
                return Ok(());
            }
            Err(error) => {
                assert!(reader.next_chunk().is_err(), "an error stays");
                return Err(error);
            }
        }
    }
    Ok(())
}

fn name() -> SnapshotName {
    SnapshotName {
        group: GroupId::new(12),
        incarnation: Incarnation(40),
        index: Index(9),
    }
}

/// A file whose frames are intact, whatever they say. Each payload stands behind its length.
fn framed(data: &[u8]) -> Vec<u8> {
    let mut source = Source(data);
    let mut file = TITLE.to_vec();
    file.extend(SEAL.to_le_bytes());
    let mut number = 0u64;
    while !source.is_empty() {
        let length = usize::from(source.byte()) | usize::from(source.byte()) << 8;
        let payload = source.bytes(length);
        let offset = file.len() as u64;
        let mut head = MARK.to_vec();
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend(number.to_le_bytes());
        head.extend(crc32c::crc32c(payload).to_le_bytes());
        let place = [offset.to_le_bytes(), SEAL.to_le_bytes()].concat();
        let check = crc32c::crc32c_append(crc32c::crc32c(&head), &place);
        head.extend(check.to_le_bytes());
        file.extend(head);
        file.extend(payload);
        number += 1;
    }
    file
}

fn written(chunks: &[&[u8]]) -> Vec<u8> {
    let disk = SimDisk::new(0);
    let head = SnapshotHead {
        cluster: ClusterId(7),
        node: NodeId(3),
        group: name().group,
        incarnation: name().incarnation,
    };
    let mut writer = SnapshotWriter::begin(disk.clone(), head).expect("an intact disk");
    for chunk in chunks {
        writer.chunk(chunk).expect("an intact disk");
    }
    let point = SnapshotPoint {
        index: name().index,
        term: Term(1),
        members: Members::of_voters([name().incarnation]),
    };
    let name = writer.finish(&point, 2).expect("an intact disk");
    disk.content(&name.to_string()).expect("it was written")
}

/// The payloads of a whole file, each behind its length.
fn payloads(file: &[u8]) -> Vec<u8> {
    let (mut at, mut out) = (TITLE_BYTES, Vec::new());
    while at < file.len() {
        let length = usize::from(file[at + 4]) | usize::from(file[at + 5]) << 8;
        out.extend(&file[at + 4..at + 6]);
        at += HEAD_BYTES;
        out.extend(&file[at..at + length]);
        at += length;
    }
    out
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let long = b"value".repeat(30);
    let all: [&[&[u8]]; 4] = [&[], &[b""], &[b"chunk", b"next"], &[&long, b"chunk"]];
    let files = all.map(written);
    for file in &files {
        let disk = SimDisk::new(0);
        disk.put(&name().to_string(), &framed(&payloads(file)));
        read(&disk, &name()).expect("a seed is a whole file");
    }
    let plain = files.iter().map(|file| [&[0], &file[..]].concat());
    let framed = files.iter().map(|file| [&[1], &payloads(file)[..]].concat());
    plain.chain(framed).collect()
}
