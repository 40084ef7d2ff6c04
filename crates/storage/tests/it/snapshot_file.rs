//! Snapshot files: whole or not there, and never another chunk than was written.

use crate::directory::Scratch;
use consensus::{Index, Members, SnapshotPoint, Term};
use ids::{ClusterId, GroupId, Incarnation, NodeId, Prng};
use proptest::prelude::*;
use storage::{
    DataDirectory, Disk, Fault, SimDisk, SnapshotHead, SnapshotName, SnapshotReader, SnapshotWriter,
    StorageError, remove_snapshot, remove_unfinished_snapshots, snapshots,
};

const BLOCK_BYTES: usize = 256 * 1024;
const GENERATION: u64 = 6;

/// Two chunks, one of them empty.
const PINNED: &str = "\
    43686f72534e3031b95e84854412d2eac446729e2500000000000000000000004412d2ea0e20a5a30101000700000000\
    000000000000000000000003000000000000000c002800000000000000c446729e0700000001000000000000004f6bad\
    bfb7a1645802026368756e6bc446729e020000000200000000000000cb371f37911fdbcb0202c446729e4e0000000300\
    0000000000007821c2b0b479e78303090000000000000004000000000000000200000028000000000000002900000000\
    00000000000000000000000000000000060000000000000002000000000000000500000000000000448e6b4a";
/// One chunk in a compressed block. Another version of the compressor may write other bytes: these are still to be read.
const COMPRESSED: &str = "\
    43686f72534e3031b95e84854412d2eac446729e2500000000000000000000004412d2ea0e20a5a30101000700000000\
    000000000000000000000003000000000000000c002800000000000000c446729e160000000100000000000000d80fbb\
    004edde92d02032d0000005f6368756e6b05000f606b6368756e6bc446729e4e0000000200000000000000afdd2baf38\
    55fa46030900000000000000040000000000000002000000280000000000000029000000000000000000000000000000\
    0000000000060000000000000001000000000000002d0000000000000058ec3261";

fn head() -> SnapshotHead {
    SnapshotHead {
        cluster: ClusterId(7),
        node: NodeId(3),
        group: GroupId::new(12),
        incarnation: Incarnation(40),
    }
}

fn point(index: u64) -> SnapshotPoint {
    SnapshotPoint {
        index: Index(index),
        term: Term(4),
        members: Members {
            voters: vec![Incarnation(40), Incarnation(41)],
            ..Members::default()
        },
    }
}

fn name(index: u64) -> SnapshotName {
    SnapshotName {
        group: head().group,
        incarnation: head().incarnation,
        index: Index(index),
    }
}

/// What no compression makes shorter.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    (0..bytes).map(|_| prng.below(256) as u8).collect()
}

/// A block that is compressed, an empty one, one that is not compressed.
fn small() -> Vec<Vec<u8>> {
    vec![b"chunk".repeat(9), Vec::new(), noise(1, 60)]
}

fn write(disk: &SimDisk, index: u64, chunks: &[Vec<u8>]) -> Result<SnapshotName, StorageError> {
    let mut writer = SnapshotWriter::begin(disk.clone(), head())?;
    chunks.iter().try_for_each(|chunk| writer.chunk(chunk))?;
    writer.finish(&point(index), GENERATION)
}

type Found = (Vec<Vec<u8>>, Result<u64, StorageError>);

/// The chunks until the end or the first error, and where the state stands in the log.
fn read(disk: &SimDisk, name: &SnapshotName) -> Found {
    let mut chunks = Vec::new();
    let mut reader = match SnapshotReader::open(disk, name, head().cluster, head().node) {
        Ok(reader) => reader,
        Err(error) => return (chunks, Err(error)),
    };
    loop {
        match reader.next_chunk() {
            Ok(Some(chunk)) => chunks.push(chunk),
            Ok(None) => break,
            Err(error) => {
                let again = reader.next_chunk().expect_err("an error stays").to_string();
                assert_eq!(again, error.to_string(), "an error stays");
                return (chunks, Err(error));
            }
        }
    }
    let end = reader.next_chunk().expect("the end is not damaged");
    assert_eq!(end, None, "the end stays");
    let footer = reader.footer();
    assert_eq!(footer.point, point(footer.point.index.0));
    assert_eq!(footer.generation, GENERATION);
    assert_eq!(footer.chunks, chunks.len() as u64);
    assert_eq!(footer.raw_bytes, chunks.concat().len() as u64);
    assert_eq!(footer.checksum, crc32c::crc32c(&chunks.concat()));
    (chunks, Ok(footer.point.index.0))
}

#[track_caller]
fn assert_whole(disk: &SimDisk, name: &SnapshotName, chunks: &[Vec<u8>]) {
    let (found, index) = read(disk, name);
    assert_eq!(index.expect("it is whole"), name.index.0);
    assert!(found == chunks, "other chunks than were written");
}

#[test]
fn chunks_are_read_as_they_were_written() {
    let lengths = [
        0,
        1,
        BLOCK_BYTES - 1,
        BLOCK_BYTES,
        BLOCK_BYTES + 1,
        3 * BLOCK_BYTES,
        0,
    ];
    let zeros = lengths.iter().map(|&length| vec![0; length]);
    let noises = lengths.iter().map(|&length| noise(2, length));
    for chunks in [Vec::new(), small(), zeros.collect(), noises.collect()] {
        let disk = SimDisk::new(0);
        assert_eq!(write(&disk, 9, &chunks).unwrap(), name(9));
        assert_eq!(snapshots(&disk).unwrap(), [name(9)]);
        assert_whole(&disk, &name(9), &chunks);
    }
}

#[test]
fn what_can_be_shorter_is_and_what_cannot_costs_little() {
    let disk = SimDisk::new(0);
    let size = |chunk: &[u8]| {
        let name = write(&disk, 9, &[chunk.to_vec()]).unwrap().to_string();
        disk.content(&name).unwrap().len()
    };
    let empty = size(&[]);
    assert!(size(&b"value".repeat(BLOCK_BYTES)) < 5 * BLOCK_BYTES / 100);
    assert_eq!(size(&noise(3, BLOCK_BYTES)), empty + BLOCK_BYTES);
}

#[test]
fn a_writer_says_how_much_it_was_given() {
    let mut writer = SnapshotWriter::begin(SimDisk::new(0), head()).unwrap();
    assert_eq!(writer.raw_bytes(), 0);
    writer.chunk(&[0; 1_000]).unwrap();
    writer.chunk(&[1; 10]).unwrap();
    assert_eq!(writer.raw_bytes(), 1_010);
}

#[test]
fn names_are_in_the_order_of_what_they_say() {
    let shown = name(9).to_string();
    assert_eq!(shown, "snapshot-00012-00000000000000000040-00000000000000000009");
    assert_eq!(SnapshotName::parse(&shown), Some(name(9)));
    let last = SnapshotName {
        group: GroupId::new(u16::MAX),
        incarnation: Incarnation(u64::MAX),
        index: Index(u64::MAX),
    };
    assert_eq!(SnapshotName::parse(&last.to_string()), Some(last));
    let mut names: Vec<SnapshotName> = [(9, 1, 1), (10, 1, 1), (9, 10, 1), (9, 9, 10), (9, 9, 9)]
        .map(|(group, incarnation, index)| SnapshotName {
            group: GroupId::new(group),
            incarnation: Incarnation(incarnation),
            index: Index(index),
        })
        .to_vec();
    names.sort_unstable();
    let mut shown: Vec<String> = names.iter().map(SnapshotName::to_string).collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        names.iter().map(SnapshotName::to_string).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_spelled_otherwise_is_no_snapshot() {
    let disk = SimDisk::new(0);
    let right = name(9).to_string();
    let others = [
        "snapshot-".to_owned(),
        "snapshot-12-40-9".to_owned(),
        format!("{right}.new"),
        format!("{right}-"),
        format!("{right}0"),
        format!("x{right}"),
        right.replace("-00012", "-+0012"),
        right.replace("-00012", "-65536"),
        right.replace("00000000000000000009", "99999999999999999999"),
        "snapshot-00012-00000000000000000040.new.new".to_owned(),
        "snapshot-00012-x.new".to_owned(),
    ];
    for other in &others {
        assert_eq!(SnapshotName::parse(other), None, "{other}");
        disk.put(other, b"mine");
    }
    assert_eq!(snapshots(&disk).unwrap(), []);
    remove_unfinished_snapshots(&disk).unwrap();
    assert!(others.iter().all(|other| disk.content(other).is_some()));
}

#[test]
fn what_was_not_finished_does_not_count_and_is_removed() {
    let disk = SimDisk::new(0);
    write(&disk, 9, &small()).unwrap();
    let mut writer = SnapshotWriter::begin(disk.clone(), head()).unwrap();
    writer.chunk(b"chunk").unwrap();
    drop(writer);
    assert_eq!(disk.names().unwrap().len(), 2);
    assert_eq!(snapshots(&disk).unwrap(), [name(9)]);
    remove_unfinished_snapshots(&disk).unwrap();
    assert_eq!(disk.names().unwrap(), [name(9).to_string()]);
    let writer = SnapshotWriter::begin(disk.clone(), head()).unwrap();
    writer.abandon().unwrap();
    assert_eq!(disk.names().unwrap(), [name(9).to_string()]);
    assert_whole(&disk, &name(9), &small());
}

#[test]
fn one_that_is_removed_stays_away() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        write(&disk, 9, &small()).unwrap();
        write(&disk, 10, &small()).unwrap();
        remove_snapshot(&disk, &name(9)).unwrap();
        disk.restart();
        assert_eq!(snapshots(&disk).unwrap(), [name(10)]);
        remove_snapshot(&disk, &name(9)).unwrap();
    }
}

#[test]
fn whenever_the_disk_fails_a_snapshot_is_whole_or_not_there() {
    let disk = SimDisk::new(0);
    write(&disk, 9, &small()).unwrap();
    let before = disk.operations();
    write(&disk, 10, &small()).unwrap();
    let operations = disk.operations() - before;
    for fault in [Fault::PowerCut, Fault::SyncFails, Fault::Full, Fault::Fails] {
        for at in 0..=operations {
            for seed in 0..20 {
                let disk = SimDisk::new(seed);
                write(&disk, 9, &small()).unwrap();
                disk.plan(Some((disk.operations() + at, fault)));
                let written = write(&disk, 10, &small());
                // Once before the power goes and once after.
                for _ in 0..2 {
                    if disk.has_power() {
                        let found = snapshots(&disk).unwrap();
                        assert!(found.contains(&name(9)));
                        assert!(written.is_err() || found.contains(&name(10)), "{fault:?} at {at}");
                        found.iter().for_each(|name| assert_whole(&disk, name, &small()));
                    }
                    disk.restart();
                }
                let grows = at < operations - 3;
                let must_fail = at < operations && (fault != Fault::Full || grows);
                assert_eq!(written.is_err(), must_fail, "{fault:?} at {at}");
                remove_unfinished_snapshots(&disk).unwrap();
                assert_eq!(disk.names().unwrap().len(), snapshots(&disk).unwrap().len());
            }
        }
    }
}

#[test]
fn it_is_synced_while_it_is_written_so_that_the_last_sync_is_short() {
    let disk = SimDisk::new(0);
    let mut writer = SnapshotWriter::begin(disk.clone(), head()).unwrap();
    let chunk = noise(4, 4 * BLOCK_BYTES);
    disk.plan(Some((0, Fault::SyncFails)));
    let failed = (0..100).find_map(|number| writer.chunk(&chunk).err().map(|error| (number, error)));
    let (number, error) = failed.expect("a sync fails");
    assert!(matches!(error, StorageError::Io { what: "sync", .. }), "{error}");
    assert_eq!(number, 7, "after 8 MiB");
    // A second sync would succeed and mean nothing.
    assert!(matches!(writer.chunk(&chunk), Err(StorageError::Failed { .. })));
    assert!(matches!(
        writer.finish(&point(9), GENERATION),
        Err(StorageError::Failed { .. })
    ));
    assert_eq!(snapshots(&disk).unwrap(), []);
}

#[test]
fn a_chunk_that_nobody_could_hold_ends_the_snapshot() {
    let disk = SimDisk::new(0);
    let mut writer = SnapshotWriter::begin(disk.clone(), head()).unwrap();
    let error = writer.chunk(&vec![0; (1 << 30) + 1]).unwrap_err();
    assert!(matches!(error, StorageError::TooLarge { .. }), "{error}");
    assert!(writer.finish(&point(9), GENERATION).is_err());
    assert_eq!(snapshots(&disk).unwrap(), []);
}

#[track_caller]
fn assert_damaged(disk: &SimDisk, what: &str) {
    let (chunks, index) = read(disk, &name(9));
    assert!(small().starts_with(&chunks), "{what}: a wrong chunk");
    match index {
        Err(StorageError::Damaged(damage)) => assert_eq!(damage.file, name(9).to_string()),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_flipped_bit_is_found_and_named() {
    let disk = SimDisk::new(0);
    let shown = write(&disk, 9, &small()).unwrap().to_string();
    let bytes = disk.content(&shown).unwrap();
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << bit;
            disk.put(&shown, &changed);
            assert_damaged(&disk, &format!("byte {place}, bit {bit}"));
        }
    }
}

#[test]
fn what_is_cut_or_longer_is_not_whole() {
    let disk = SimDisk::new(0);
    let shown = write(&disk, 9, &small()).unwrap().to_string();
    let bytes = disk.content(&shown).unwrap();
    for length in 0..bytes.len() {
        disk.put(&shown, &bytes[..length]);
        assert_damaged(&disk, &format!("{length} bytes"));
    }
    disk.put(&shown, &[&bytes[..], &[0]].concat());
    assert_damaged(&disk, "one byte more");
    disk.put(&shown, &bytes);
    assert_whole(&disk, &name(9), &small());
}

/// The payloads of a file's frames.
fn payloads(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut payloads) = (&file[16..], Vec::new());
    while !rest.is_empty() {
        let length = rest[4..8]
            .iter()
            .rev()
            .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        payloads.push(rest[24..24 + length].to_vec());
        rest = &rest[24 + length..];
    }
    payloads
}

/// A file whose frames are intact, whatever they hold.
fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let seal = 5u64.to_le_bytes();
    let mut file = [b"ChorSN01", &seal[..]].concat();
    for (number, payload) in payloads.iter().enumerate() {
        let mut head = vec![0xc4, b'F', b'r', 0x9e];
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend((number as u64).to_le_bytes());
        head.extend(crc32c::crc32c(payload).to_le_bytes());
        let place = [(file.len() as u64).to_le_bytes(), seal].concat();
        let check = crc32c::crc32c_append(crc32c::crc32c(&head), &place);
        file.extend(head);
        file.extend(check.to_le_bytes());
        file.extend(payload);
    }
    file
}

#[test]
fn a_snapshot_of_a_later_format_is_not_read() {
    let disk = SimDisk::new(0);
    let shown = write(&disk, 9, &small()).unwrap().to_string();
    let mut later = payloads(&disk.content(&shown).unwrap());
    later[0][1] = 2;
    disk.put(&shown, &framed(&later));
    let is_read = || read(&disk, &name(9)).1.is_ok();
    assert!(!is_read());
    mutations::plant(Some(mutations::Mutation::LaterFormatRead));
    let is_noticed = is_read();
    mutations::plant(None);
    assert!(is_noticed, "the mistake is noticed");
}

/// What is done to the frames of a file.
type Change<'a> = &'a dyn Fn(&mut Vec<Vec<u8>>);

#[test]
fn intact_frames_that_are_no_snapshot_are_damage() {
    let disk = SimDisk::new(0);
    let shown = write(&disk, 9, &small()).unwrap().to_string();
    let right = payloads(&disk.content(&shown).unwrap());
    disk.put(&shown, &framed(&right));
    assert_whole(&disk, &name(9), &small());
    assert_eq!(right.len(), 5);
    // What is done to the frames (a head, three blocks, a footer), and what is said of it.
    let last = right[4].len();
    let cases: [(&str, Change); 14] = [
        ("expected the head of a snapshot", &|all| drop(all.remove(0))),
        ("expected format 1, found format 2", &|all| all[0][1] = 2),
        ("expected the end,", &|all| all[0].push(0)),
        ("expected Total {", &|all| drop(all.remove(1))),
        ("expected Total {", &|all| all.insert(2, all[2].clone())),
        ("expected Total {", &|all| *all[3].last_mut().unwrap() ^= 1),
        ("expected Total {", &|all| all[4][last - 1] ^= 1),
        ("expected a block or the footer", &|all| all[1][0] = 4),
        ("expected a block or the footer", &|all| all[1].clear()),
        ("expected flags of a block", &|all| all[1][1] = 4),
        ("expected a block of at most 256 KiB", &|all| all[1][5] = 1),
        ("expected as many compressed bytes", &|all| all[1][2] += 1),
        ("expected 262144 bytes in a block", &|all| all[3][1] = 0),
        ("expected the end of the file", &|all| all.push(all[4].clone())),
    ];
    for (said, change) in cases {
        let mut changed = right.clone();
        change(&mut changed);
        disk.put(&shown, &framed(&changed));
        let (_, index) = read(&disk, &name(9));
        let error = index.unwrap_err().to_string();
        assert!(error.contains(said), "{error}, and not: {said}");
    }
    // A chunk goes on behind a full block: with another block, and not with nothing.
    let full = [&[2, 0][..], &noise(5, BLOCK_BYTES)].concat();
    for (behind, said) in [
        (vec![3], "expected a block, found"),
        (vec![2, 2], "expected the rest of a chunk, found no bytes"),
    ] {
        disk.put(&shown, &framed(&[right[0].clone(), full.clone(), behind]));
        let (chunks, index) = read(&disk, &name(9));
        assert!(chunks.is_empty());
        let error = index.unwrap_err().to_string();
        assert!(error.contains(said), "{error}, and not: {said}");
    }
}

#[test]
fn one_of_somebody_else_is_not_read() {
    let disk = SimDisk::new(0);
    let shown = write(&disk, 9, &small()).unwrap().to_string();
    let bytes = disk.content(&shown).unwrap();
    let open = |name: &SnapshotName, cluster, node| {
        SnapshotReader::open(&disk, name, ClusterId(cluster), NodeId(node))
    };
    assert!(open(&name(9), 7, 3).is_ok());
    assert!(open(&name(9), 8, 3).is_err());
    let error = open(&name(9), 7, 4).unwrap_err().to_string();
    assert!(
        error.contains("is damaged at offset 40") && error.contains("NodeId(4)"),
        "{error}"
    );
    let mut other = name(9);
    other.incarnation = Incarnation(41);
    disk.put(&other.to_string(), &bytes);
    assert!(open(&other, 7, 3).is_err());
    disk.put(&name(10).to_string(), &bytes);
    let (_, index) = read(&disk, &name(10));
    let error = index.unwrap_err().to_string();
    assert!(
        error.ends_with("expected a state at 10, found one at 9"),
        "{error}"
    );
    let error = open(&name(11), 7, 3).unwrap_err();
    assert!(matches!(error, StorageError::Io { .. }), "there is none: {error}");
}

#[test]
fn frames_of_an_earlier_snapshot_do_not_pass() {
    let disk = SimDisk::new(0);
    let first = write(&disk, 9, &small()).unwrap().to_string();
    let first = disk.content(&first).unwrap();
    let mut chunks = small();
    chunks[2][0] ^= 1;
    let second = write(&disk, 9, &chunks).unwrap().to_string();
    let second = disk.content(&second).unwrap();
    assert_eq!(first.len(), second.len());
    // What the first left lies in place of an end that never reached the disk.
    for place in 16..second.len() {
        disk.put(
            &name(9).to_string(),
            &[&second[..place], &first[place..]].concat(),
        );
        let (found, index) = read(&disk, &name(9));
        assert!(
            chunks.starts_with(&found) && index.is_err(),
            "from byte {place} on"
        );
    }
}

#[test]
fn files_have_the_bytes_that_they_always_had() {
    let disk = SimDisk::new(0);
    let written = write(&disk, 9, &[b"chunk".to_vec(), Vec::new()]).unwrap();
    let found = disk.content(&written.to_string()).unwrap();
    let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, PINNED);
}

#[test]
fn a_block_that_was_compressed_long_ago_is_read() {
    let disk = SimDisk::new(0);
    let byte = |at| u8::from_str_radix(&COMPRESSED[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..COMPRESSED.len()).step_by(2).map(byte).collect();
    disk.put(&name(9).to_string(), &bytes);
    assert_whole(&disk, &name(9), &[b"chunk".repeat(9)]);
}

#[test]
fn a_writer_on_another_thread_writes_a_real_file() {
    let scratch = Scratch::new();
    let directory = DataDirectory::open(&scratch.0).unwrap();
    let chunks: Vec<Vec<u8>> = (0..12).map(|seed| noise(seed, 4 * BLOCK_BYTES + 1)).collect();
    let mut writer = SnapshotWriter::begin(directory.disk(), head()).unwrap();
    let written = std::thread::scope(|scope| {
        let chunks = &chunks;
        let written = scope.spawn(move || {
            chunks.iter().try_for_each(|chunk| writer.chunk(chunk))?;
            writer.finish(&point(9), GENERATION)
        });
        written.join().unwrap().unwrap()
    });
    assert_eq!(snapshots(&directory.disk()).unwrap(), [written]);
    let mut reader = SnapshotReader::open(&directory.disk(), &written, head().cluster, head().node).unwrap();
    for chunk in &chunks {
        assert!(reader.next_chunk().unwrap().as_ref() == Some(chunk));
    }
    assert_eq!(reader.next_chunk().unwrap(), None);
    assert_eq!(reader.footer().point, point(9));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_chunks_are_read_as_they_were_written(
        sizes in prop::collection::vec((0..600_000usize, 1..256usize), 0..4),
        seed in any::<u64>(),
    ) {
        let chunks: Vec<Vec<u8>> = sizes
            .iter()
            .map(|&(bytes, period)| {
                let pattern = noise(seed, period);
                pattern.into_iter().cycle().take(bytes).collect()
            })
            .collect();
        let disk = SimDisk::new(0);
        write(&disk, 9, &chunks).unwrap();
        let (found, index) = read(&disk, &name(9));
        prop_assert_eq!(index.unwrap(), 9);
        prop_assert!(found == chunks);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let disk = SimDisk::new(0);
        let mut titled = b"ChorSN01".to_vec();
        titled.extend_from_slice(&bytes);
        disk.put(&name(9).to_string(), &titled);
        prop_assert!(read(&disk, &name(9)).1.is_err());
    }
}
