//! Files as they are, byte for byte: the next version has to read them.

use bytes::Bytes;
use consensus::{HardState, Index, LogEntry, Members, Payload, SnapshotPoint, Term};
use ids::{ClusterId, GroupCount, GroupId, Incarnation, NodeId, Token};
use peer_wire::hello::Secret;
use std::fmt::Write;
use storage::{
    Disk, DiskFile, Handover, HandoverWriter, Identity, LogIdentity, LogSettings, MetaLog, MetaState,
    PeerBook, ReplicaLog, ReplicaPosition, SimDisk, Snapshot, Taken, WorkerLog, read_logs,
};

/// Each file by its name: text as it is, other bytes as digits, 32 bytes a line; of the log of a worker the lines that are not all zeros,
/// and where they stand.
const PINNED: &str = include_str!("formats.txt");

/// The log of a worker as version 1 wrote it, likewise.
const LOG_1: &str = include_str!("log-format-1.txt");

fn point(index: u64) -> SnapshotPoint {
    SnapshotPoint {
        index: Index(index),
        term: Term(5),
        members: Members {
            voters: vec![Incarnation(4), Incarnation(5)],
            learners: vec![Incarnation(6)],
            outgoing: vec![Incarnation(7)],
            learners_next: vec![],
            ends_itself: true,
        },
    }
}

fn hard(commit: u64) -> HardState {
    HardState {
        term: Term(6),
        vote: Some(Incarnation(4)),
        commit: Index(commit),
    }
}

fn entries() -> Vec<LogEntry> {
    let entry = |index, payload| LogEntry {
        term: Term(6),
        index: Index(index),
        payload,
    };
    vec![
        entry(9, Payload::Data(Bytes::from_static(b"data"))),
        entry(10, Payload::Members(vec![0, 1, 9])),
    ]
}

fn meta_log(disk: &SimDisk) {
    let first = Snapshot {
        point: point(8),
        state: b"state".to_vec(),
    };
    let mut log = MetaLog::create(disk.clone(), first).expect("an intact disk");
    log.write(&entries(), Some(hard(9))).expect("an intact disk");
}

fn handover(disk: &SimDisk) {
    let position = ReplicaPosition {
        group: GroupId::new(0x0102),
        incarnation: Incarnation(4),
        hard: hard(8),
        applied: point(8),
    };
    let mut writer = HandoverWriter::begin(disk.clone(), NodeId(3), &[Token(8), Token(9)], &[position])
        .expect("an intact disk");
    writer
        .group(GroupId::new(0x0102), &entries())
        .expect("an intact disk");
    writer.block(b"block").expect("an intact disk");
    writer.end_group().expect("an intact disk");
    writer.finish().expect("an intact disk");
}

const LOG_IDENTITY: LogIdentity = LogIdentity {
    cluster: ClusterId(0x7d0c_2f6b_8e9a_41d3_b5f0_0c6a_9e1d_2c3b),
    node: NodeId(3),
    worker: 2,
    token: Token(0x0b5e_11aa_93c0_4d27_8f61_2c9e_d0a4_7716),
    start: 9,
};

fn replica(group: u16) -> ReplicaLog {
    ReplicaLog {
        group: GroupId::new(group),
        incarnation: Incarnation(4),
        generation: 300,
        start: point(8),
        hard: hard(9),
        entries: entries(),
        floor: Some((Term(7), Index(12))),
    }
}

/// Each kind of record, in a batch each but for the first.
fn worker_log(disk: &SimDisk) {
    let settings = LogSettings {
        segment_bytes: 24 * 1024,
    };
    let live = [replica(0x0102), replica(0x0103)];
    let mut log = WorkerLog::begin(disk.clone(), settings, LOG_IDENTITY, &live).expect("an intact disk");
    log.append(live[0].group, &entries(), hard(10));
    log.write().expect("an intact disk");
    log.on_snapshot(live[0].group, &point(9));
    log.end(live[1].group);
    log.write().expect("an intact disk");
    log.write().expect("an intact disk");
}

#[test]
fn files_have_the_bytes_that_they_always_had() {
    let disk = SimDisk::new(0);
    meta_log(&disk);
    handover(&disk);
    let identity = Identity {
        cluster: ClusterId(0x7d0c_2f6b_8e9a_41d3_b5f0_0c6a_9e1d_2c3b),
        node: NodeId(3),
        groups: GroupCount::new(64).expect("a valid count"),
        secret: Secret(Some([0xa7; 32])),
    };
    identity.write(&disk).expect("an intact disk");
    let book = PeerBook {
        peers: [(NodeId(1), "10.0.0.1:7389".to_owned())].into(),
    };
    book.write(&disk).expect("an intact disk");
    let mut found = String::new();
    for name in ["meta-log", "handover"] {
        writeln!(found, "{name}").expect("a string takes everything");
        let content = disk.content(name).expect("it was written");
        // Behind the frames of the meta log, of which the last ends with high bytes of an index, there is room.
        let last = content
            .iter()
            .rposition(|byte| *byte != 0)
            .expect("it was written");
        let end = if name == "meta-log" {
            last + 1 + 7
        } else {
            content.len()
        };
        for line in content[..end].chunks(32) {
            line.iter()
                .for_each(|byte| write!(found, "{byte:02x}").expect("a string takes everything"));
            found.push('\n');
        }
    }
    worker_log(&disk);
    let name = "log-00002-000000000001";
    writeln!(found, "{name}").expect("a string takes everything");
    let log = disk.content(name).expect("it was written");
    for (at, line) in log.chunks(32).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            write!(found, "{:04x} ", at * 32).expect("a string takes everything");
            line.iter()
                .for_each(|byte| write!(found, "{byte:02x}").expect("a string takes everything"));
            found.push('\n');
        }
    }
    for name in ["identity", "peers"] {
        let text = String::from_utf8(disk.content(name).expect("it was written")).expect("text");
        write!(found, "{name}\n{text}").expect("a string takes everything");
    }
    assert!(found == PINNED, "found:\n{found}");
    let (_, state) = MetaLog::open(disk.clone())
        .expect("it was just written")
        .expect("it is there");
    let expected = MetaState {
        hard: hard(9),
        snapshot: Some(Snapshot {
            point: point(8),
            state: b"state".to_vec(),
        }),
        entries: entries(),
    };
    assert_eq!(state, expected);
    is_worker_log(&disk);
    let taken = Handover::take(&disk, NodeId(3)).expect("an intact disk");
    assert!(matches!(taken, Taken::Found(_)));
}

/// That what [`worker_log`] wrote is there.
fn is_worker_log(disk: &SimDisk) {
    let logs = read_logs(disk, LOG_IDENTITY.cluster, LOG_IDENTITY.node, None).expect("an intact disk");
    let expected = ReplicaLog {
        start: point(9),
        hard: hard(10),
        entries: entries().split_off(1),
        ..replica(0x0102)
    };
    assert_eq!(logs.replicas.into_values().collect::<Vec<_>>(), [expected]);
    assert_eq!((logs.start, logs.damage), (9, vec![]));
}

#[test]
fn a_log_of_version_1_is_read() {
    let mut content = vec![0; 24 * 1024];
    for line in LOG_1.lines() {
        let (at, digits) = line.split_once(' ').expect("each line says where it stands");
        let at = usize::from_str_radix(at, 16).expect("digits");
        for (byte, digits) in content[at..].iter_mut().zip(digits.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).expect("digits");
            *byte = u8::from_str_radix(digits, 16).expect("digits");
        }
    }
    let disk = SimDisk::new(0);
    let mut file = disk.create("log-00002-000000000001").expect("an intact disk");
    file.append(&content).expect("an intact disk");
    is_worker_log(&disk);
}
