//! Messages as they are, byte for byte, with their frames: nodes of an agreed version say them to each other.

use bytes::Bytes;
use coding::CodeEpoch;
use consensus::{
    Beat, BeatAnswer, Claim, Index, LogEntry, Members, MessageBody, Payload, RaftMessage, Scrubbed,
    SnapshotPoint, Term,
};
use ids::{
    Boot, ClusterId, Db, Epoch, FoundingId, GatewayId, GroupCount, GroupId, Incarnation, NodeId,
    SemanticsVersion, UnixMillis, Version,
};
use peer_wire::hello::{Caller, Introduction, Nonce, Secret, Versions, Who};
use peer_wire::{
    Await, BatchRequest, ChannelKind, Coding, DiskHealth, Filled, Join, JoinAnswer, Leave, Map, Notify,
    PeerAnswer, PeerMessage, Publish, Question, Raft, ScrubHash, TransferAnswer, TransferChunk,
    TransferOutcome,
};
use replica::{AskedKey, BatchOutcome, BatchResponse, CodingMessage, Found, Holding};
use std::fmt::Write;
use std::time::Duration;

/// Each message by its name.
const PINNED: &str = include_str!("formats.txt");

const GATEWAY: GatewayId = GatewayId {
    boot: Boot(0x0b),
    worker: 1,
};

fn group() -> GroupId {
    GroupId::new(0x0102)
}

fn raft(body: MessageBody) -> PeerMessage {
    PeerMessage::Raft(Raft {
        group: group(),
        message: RaftMessage {
            from: Incarnation(4),
            to: Incarnation(5),
            term: Term(6),
            body,
        },
    })
}

fn append() -> MessageBody {
    let entry = |index, payload| LogEntry {
        term: Term(6),
        index: Index(index),
        payload,
    };
    MessageBody::Append {
        log_term: Term(5),
        index: Index(8),
        commit: Index(7),
        entries: vec![
            entry(9, Payload::Data(Bytes::from_static(b"data"))),
            entry(10, Payload::Members(vec![0, 1, 9])),
        ],
    }
}

fn point() -> SnapshotPoint {
    SnapshotPoint {
        index: Index(8),
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

fn response(outcome: BatchOutcome) -> PeerMessage {
    PeerMessage::Answers(BatchResponse {
        group: group(),
        generation: 1,
        term: Term(6),
        gateway: GATEWAY,
        sequence: 12,
        outcome,
    })
}

fn messages() -> Vec<(&'static str, PeerMessage)> {
    let text = Bytes::from_static;
    let digest = 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100;
    let commit = (Index(7), Term(5));
    let claim = Claim {
        group: group(),
        term: Term(6),
        leader: Incarnation(4),
        to: Incarnation(5),
    };
    let chunk = |point, bytes| {
        PeerMessage::TransferChunk(TransferChunk {
            group: group(),
            from: Incarnation(4),
            to: Incarnation(5),
            transfer: 2,
            number: 3,
            point,
            bytes,
        })
    };
    let question = || Question {
        id: 3,
        bytes: text(b"what"),
    };
    let answer = || PeerAnswer {
        id: 3,
        bytes: text(b"that"),
    };
    let held = TransferAnswer {
        group: group(),
        from: Incarnation(5),
        to: Incarnation(4),
        transfer: 2,
        outcome: TransferOutcome::Held { number: 3 },
    };
    let broken = TransferAnswer {
        outcome: TransferOutcome::Broken,
        ..held.clone()
    };
    let batch = replica::Batch {
        generation: 1,
        sequence: 12,
        number: 9,
        acknowledged: 8,
        is_free: false,
        behind: 7,
        reads: text(b"reads"),
        writes: text(b"writes"),
    };
    let admitted = JoinAnswer::Admitted {
        cluster: ClusterId(digest),
        node: NodeId(3),
        bytes: text(b"map"),
    };
    vec![
        ("raft append", raft(append())),
        (
            "raft append answer",
            raft(MessageBody::AppendAnswer {
                index: Index(10),
                commit: Index(7),
                reject: None,
                start: Boot(3),
            }),
        ),
        (
            "raft append refused",
            raft(MessageBody::AppendAnswer {
                index: Index(10),
                commit: Index(7),
                reject: Some(commit),
                start: Boot(3),
            }),
        ),
        (
            "raft heartbeat",
            raft(MessageBody::Heartbeat {
                commit: Index(7),
                read: 2,
            }),
        ),
        (
            "raft heartbeat answer",
            raft(MessageBody::HeartbeatAnswer {
                commit: Index(7),
                read: 2,
                start: Boot(3),
            }),
        ),
        (
            "raft vote",
            raft(MessageBody::Vote {
                is_pre: true,
                index: Index(8),
                log_term: Term(5),
                commit,
                priority: -1,
                is_transfer: false,
            }),
        ),
        (
            "raft vote answer",
            raft(MessageBody::VoteAnswer {
                is_pre: false,
                reject: true,
                commit,
            }),
        ),
        ("raft snapshot", raft(MessageBody::Snapshot(point()))),
        ("raft time-out", raft(MessageBody::TimeoutNow)),
        (
            "heartbeat",
            PeerMessage::Heartbeat(Beat {
                boot: Boot(0x0b),
                number: 2,
                digest,
                claims: Some(vec![claim]),
            }),
        ),
        (
            "heartbeat answer",
            PeerMessage::HeartbeatAnswer(BeatAnswer {
                boot: Boot(0x0b),
                number: 2,
                digest,
                refused: Some(vec![0, 3]),
                start: Boot(3),
            }),
        ),
        (
            "batch",
            PeerMessage::Batch(BatchRequest {
                group: group(),
                gateway: GATEWAY,
                batch,
            }),
        ),
        ("answers", response(BatchOutcome::Done(text(b"answers").into()))),
        (
            "answers of no leader",
            response(BatchOutcome::NotLeader {
                leader: Some(NodeId(3)),
            }),
        ),
        ("answers to a gap", response(BatchOutcome::Gap { applied: 8 })),
        ("answers evicted", response(BatchOutcome::Evicted)),
        (
            "answers deferred",
            response(BatchOutcome::Deferred {
                is_read: true,
                index: 2,
                bytes: text(b"answer").into(),
            }),
        ),
        ("chunk", chunk(None, text(b"chunk"))),
        ("last chunk", chunk(Some((Index(8), Term(5))), text(b"chunk"))),
        ("chunk held", PeerMessage::TransferAnswer(held)),
        ("chunk broken", PeerMessage::TransferAnswer(broken)),
        (
            "map",
            PeerMessage::Map(Map {
                epoch: Epoch(4),
                bytes: text(b"map"),
            }),
        ),
        ("meta request", PeerMessage::MetaRequest(question())),
        ("meta answer", PeerMessage::MetaAnswer(answer())),
        (
            "publish",
            PeerMessage::Publish(Publish {
                kind: ChannelKind::ShardChannel,
                channel: text(b"news"),
                payload: text(b"rain"),
            }),
        ),
        (
            "notify",
            PeerMessage::Notify(Notify {
                db: Db::default(),
                class: 2,
                event: text(b"set"),
                key: text(b"k"),
            }),
        ),
        ("fanout", PeerMessage::Fanout(question())),
        ("fanout answer", PeerMessage::FanoutAnswer(answer())),
        ("join", PeerMessage::Join(Join { bytes: text(b"me") })),
        ("join admitted", PeerMessage::JoinAnswer(admitted)),
        (
            "join refused",
            PeerMessage::JoinAnswer(JoinAnswer::Refused {
                reason: "no".to_owned(),
            }),
        ),
        ("leave", PeerMessage::Leave(Leave::Removed)),
        (
            "await",
            PeerMessage::Await(Await {
                group: group(),
                db: Db::default(),
                is_on: true,
                key: text(b"k"),
            }),
        ),
        (
            "filled",
            PeerMessage::Filled(Filled {
                group: group(),
                db: Db::default(),
                is_kept: false,
                key: text(b"k"),
            }),
        ),
        ("wall clock", PeerMessage::WallClock(UnixMillis(-2))),
        (
            "disk health",
            PeerMessage::DiskHealth(DiskHealth {
                is_short: true,
                is_slow: true,
                sync_p99: Some(Duration::from_micros(51_000)),
            }),
        ),
        ("founding", PeerMessage::Founding(text(b"may I"))),
        (
            "scrub",
            PeerMessage::Scrub(ScrubHash {
                group: group(),
                generation: 1,
                from: Incarnation(4),
                to: Incarnation(5),
                format: 3,
                scrubbed: Scrubbed {
                    at: Index(8),
                    hash: 0x0a,
                },
            }),
        ),
        (
            "coding: holding",
            coding(CodingMessage::Holding(Holding {
                kept: Version(8),
                epoch: Some(CodeEpoch(2)),
            })),
        ),
        (
            "coding: ask",
            coding(CodingMessage::Ask {
                number: 9,
                keys: vec![AskedKey {
                    db: Db::default(),
                    key: b"k".to_vec().into(),
                    version: Version(7),
                }],
            }),
        ),
        (
            "coding: answer",
            coding(CodingMessage::Answer {
                number: 9,
                found: vec![Found::Fragment(text(b"half")), Found::Newer, Found::Older],
            }),
        ),
        (
            "coding: damaged",
            coding(CodingMessage::Damaged(AskedKey {
                db: Db::default(),
                key: b"k".to_vec().into(),
                version: Version(7),
            })),
        ),
    ]
}

fn coding(message: CodingMessage) -> PeerMessage {
    PeerMessage::Coding(Coding {
        group: group(),
        generation: 1,
        from: Incarnation(4),
        to: Incarnation(5),
        message,
    })
}

fn line(text: &mut String, name: &str, bytes: &[u8]) {
    write!(text, "{name}: ").expect("a string takes everything");
    bytes
        .iter()
        .for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything"));
    text.push('\n');
}

#[test]
fn messages_have_the_bytes_that_they_always_had() {
    let mut found = String::new();
    for (name, message) in messages() {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).expect("it is short");
        line(&mut found, name, &bytes);
    }
    let own = Introduction {
        versions: Versions { oldest: 1, newest: 2 },
        who: Who::Member {
            cluster: ClusterId(1),
            node: NodeId(3),
            boot: Boot(0x0b),
        },
        semantics: SemanticsVersion(2),
        worker: 1,
        workers: 4,
        to: 3,
        groups: GroupCount::new(24),
        nonce: Nonce([7; 32]),
    };
    let mut hello = Vec::new();
    Caller::new(own.clone(), Secret(None), None, &mut hello);
    line(&mut found, "hello", &hello);
    let founding = Introduction {
        who: Who::Founding {
            id: FoundingId(0x0f),
            expects: 3,
        },
        groups: None,
        ..own
    };
    let mut hello = Vec::new();
    Caller::new(founding, Secret(None), None, &mut hello);
    line(&mut found, "hello of a founding node", &hello);
    assert!(found == PINNED, "found:\n{found}");
}
