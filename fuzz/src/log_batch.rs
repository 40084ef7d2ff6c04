//! The log of a worker, as it is read.

use bytes::Bytes;
use consensus::{Config, HardState, Index, LogEntry, Members, Payload, Term};
use ids::{ClusterId, GroupId, Incarnation, NodeId, Token};
use storage::{LogIdentity, LogSettings, ReplicaLog, SimDisk, WorkerLog, read_logs, rewrite_batch};

const IDENTITY: LogIdentity = LogIdentity {
    cluster: ClusterId(1),
    node: NodeId(2),
    worker: 0,
    token: Token(3),
    start: 1,
};
const SETTINGS: LogSettings = LogSettings {
    segment_bytes: 16 * 1024,
};
/// The only segment of such a log.
const NAME: &str = "log-00000-000000000001";
/// Bytes of a segment's head, and of a frame's before the batch.
const BEFORE_BATCH: usize = 4096 + 24 + 9;

/// Any bytes are a batch that encodes to them, or none. In a log that is intact around them they cost what they replace.
pub fn log_batch(data: &[u8]) {
    if let Ok(again) = rewrite_batch(data) {
        assert_eq!(again, data, "a batch has one encoding");
    }
    let disk = SimDisk::new(0);
    let _log = begin(&disk);
    let mut bytes = disk.content(NAME).expect("it was made");
    let from = data.first().map_or(0, |first| usize::from(*first) * 64);
    for (byte, new) in bytes[from..].iter_mut().zip(data) {
        *byte = *new;
    }
    disk.put(NAME, &bytes);
    for written_from in [None, Some(1)] {
        let Ok(found) = read_logs(&disk, IDENTITY.cluster, IDENTITY.node, written_from) else {
            continue;
        };
        for (group, log) in found.replicas {
            assert_eq!(
                (group, &log),
                (GroupId::new(4), &replica()),
                "what is found was written"
            );
        }
    }
}

fn replica() -> ReplicaLog {
    ReplicaLog {
        group: GroupId::new(4),
        incarnation: Incarnation(5),
        generation: 6,
        start: Config::first(Members::of_voters([Incarnation(5)])),
        hard: HardState {
            term: Term(7),
            vote: Some(Incarnation(5)),
            commit: Index(1),
        },
        entries: vec![LogEntry {
            term: Term(7),
            index: Index(2),
            payload: Payload::Data(Bytes::from_static(b"data")),
        }],
        floor: Some((Term(7), Index(9))),
    }
}

fn begin(disk: &SimDisk) -> WorkerLog<SimDisk> {
    WorkerLog::begin(disk.clone(), SETTINGS, IDENTITY, &[replica()]).expect("an intact disk")
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let disk = SimDisk::new(0);
    let mut log = begin(&disk);
    let content = |disk: &SimDisk| disk.content(NAME).expect("it was made");
    let length = |at: usize, bytes: &[u8]| {
        let field: [u8; 4] = bytes[at + 4..at + 8].try_into().expect("four bytes");
        u32::from_le_bytes(field) as usize - 9
    };
    let mut seeds = Vec::new();
    let first = content(&disk);
    seeds.push(first[BEFORE_BATCH..BEFORE_BATCH + length(4096, &first)].to_vec());
    let one = replica();
    log.append(one.group, &one.entries, one.hard);
    log.on_snapshot(one.group, &one.start);
    log.end(one.group);
    log.write().expect("an intact disk");
    let second = content(&disk);
    seeds.push(second[BEFORE_BATCH + 4096..BEFORE_BATCH + 4096 + length(8192, &second)].to_vec());
    seeds
}
