//! Entries as they are, byte for byte: logs and links hold them.

use coding::{Code, CodeEpoch};
use ids::{
    Boot, Db, GatewayId, GroupId, HashSeed, Incarnation, PartitionId, RequestUuid, SemanticsVersion,
    UnixMillis, Version,
};
use keyspace::{
    ArrivingPiece, BlockCommand, ClientRequest, CodingStep, ConditionView, Effect, EncodingLimits, Enter,
    Entry, EntryBuf, EntryOperation, Fence, Forget, GroupCode, Header, InPlaceStep, KeptResult, KeyVersion,
    Lock, Object, Operations, Pairs, PartitionStep, Piece, Prepare, QueryTxn, Resolve, Resume, WaitId, Work,
};
use resp::{ArgsBuf, Protocol};
use std::fmt::Write;
use txn::{Participant, TxnId};

/// Each operation by its name, and last an entry.
const PINNED: &str = include_str!("formats.txt");

const GATEWAY: GatewayId = GatewayId {
    boot: Boot(0x0b),
    worker: 1,
};
const TXN: TxnId = TxnId {
    boot: Boot(0x0b),
    worker: 1,
    seq: 0x5e,
    attempt: 2,
};

fn participants() -> txn::Participants {
    let participant = |group, generation| Participant {
        group: GroupId::new(group),
        generation,
    };
    [participant(3, 0), participant(0x0104, 1)].into()
}

fn operations<'a>(get: &'a ArgsBuf, set: &'a ArgsBuf) -> Vec<(&'static str, EntryOperation<'a>)> {
    let db = Db::new(3).expect("one of sixteen");
    let command = |args: &'a ArgsBuf| BlockCommand {
        db,
        protocol: Protocol::Resp3,
        args: args.as_args(),
    };
    let id = WaitId {
        worker: 1,
        connection: 7,
        sequence: 9,
    };
    let request = ClientRequest {
        id: RequestUuid::of_bytes(*b"\x01\x89\x00\x00\x00\x00\x70\x00\x80\x00\x00\x00\x00\x00\x00\x07"),
        digest: 0xd1,
        protocol: Protocol::Resp2,
    };
    let conditions = || {
        vec![
            ConditionView::Absent { db, key: b"a" },
            ConditionView::Unchanged {
                db,
                key: b"b",
                version: KeyVersion::Present(Version(5)),
            },
            ConditionView::Unchanged {
                db,
                key: b"c",
                version: KeyVersion::Absent(Version(6)),
            },
        ]
    };
    let effects = || {
        vec![
            Effect::Delete {
                db,
                key: (*b"gone").into(),
            },
            Effect::Put {
                db,
                object: Object::string(b"k", b"v", Some(UnixMillis(8)), Version(0)),
            },
        ]
    };
    let prepare = |work| {
        EntryOperation::Prepare(Box::new(Prepare {
            txn: TXN,
            began: UnixMillis(4),
            participants: participants(),
            conditions: conditions(),
            expects: vec![],
            work,
        }))
    };
    let result = KeptResult {
        request,
        replies: vec![(*b"+OK\r\n").into()],
    };
    vec![
        (
            "command",
            EntryOperation::Command {
                db,
                protocol: Protocol::Resp2,
                args: set.as_args(),
            },
        ),
        ("expire", EntryOperation::Expire { db, key: b"k" }),
        ("evict", EntryOperation::Evict { db, key: b"k" }),
        ("install", EntryOperation::Install { effects: effects() }),
        (
            "limits",
            EntryOperation::Limits {
                limits: EncodingLimits::default(),
            },
        ),
        (
            "fence",
            EntryOperation::Fence {
                fence: Fence::new(Boot(9), vec![Boot(2), Boot(9)]),
            },
        ),
        (
            "block",
            EntryOperation::Block {
                conditions: conditions(),
                commands: vec![command(get), command(set)],
            },
        ),
        (
            "prepare to evaluate",
            prepare(Work::Evaluate {
                commands: vec![command(set)],
                is_strict: true,
            }),
        ),
        (
            "prepare to install",
            prepare(Work::Install {
                effects: effects(),
                after_lock: true,
                result: Some(result),
            }),
        ),
        (
            "prepare in place",
            prepare(Work::InPlace {
                steps: vec![InPlaceStep::Run(command(set)), InPlaceStep::Install(effects())],
                after_lock: false,
            }),
        ),
        (
            "prepare to put",
            prepare(Work::Put {
                db,
                pairs: Pairs::of(get.as_args()),
            }),
        ),
        (
            "lock",
            EntryOperation::Lock(Box::new(Lock {
                txn: TXN,
                began: UnixMillis(4),
                participants: participants(),
                is_whole: false,
                keys: vec![(db, b"k", true)],
            })),
        ),
        (
            "resolve",
            EntryOperation::Resolve(Resolve {
                decisions: vec![(TXN, true)],
            }),
        ),
        (
            "query",
            EntryOperation::QueryTxn(QueryTxn {
                txn: TXN,
                participants: participants(),
            }),
        ),
        ("withdraw", EntryOperation::Withdraw { txn: TXN }),
        (
            "forget",
            EntryOperation::Forget(Forget {
                coordinator: GATEWAY,
                low: 0x10,
                over: vec![(0x12, 1)],
            }),
        ),
        (
            "received",
            EntryOperation::Received {
                answers: vec![(6, 2)],
            },
        ),
        (
            "once",
            EntryOperation::Once {
                request,
                commands: vec![command(set)],
            },
        ),
        (
            "one phase",
            EntryOperation::OnePhase {
                expects: conditions(),
                effects: effects(),
            },
        ),
        (
            "wait",
            EntryOperation::Wait {
                id,
                command: command(get),
            },
        ),
        ("end wait", EntryOperation::EndWait { id }),
        ("end waits", EntryOperation::EndWaits { boot: Boot(0x0b) }),
        (
            "stage",
            EntryOperation::Stage(Piece {
                number: 4,
                whole_bytes: 0x0100_0000,
                offset: 0x0200,
                bytes: b"piece",
            }),
        ),
        ("staged", EntryOperation::Staged { number: 4 }),
        (
            "prepare to leave",
            prepare(Work::Move(PartitionStep::Leave {
                partition: PartitionId::new(7),
                to: GroupId::new(2),
                moves: 3,
            })),
        ),
        (
            "prepare to enter",
            prepare(Work::Move(PartitionStep::Enter(Box::new(Enter {
                partition: PartitionId::new(7),
                moves: 3,
                pieces: 2,
                time: UnixMillis(4),
                applied: Version(9),
                swapped: vec![Version(8)],
                records: b"records".to_vec(),
                requests: b"requests".to_vec(),
            })))),
        ),
        (
            "arrive",
            EntryOperation::Arrive(ArrivingPiece {
                txn: TXN,
                partition: PartitionId::new(7),
                number: 2,
                seed: HashSeed([5, 6]),
                records: b"records",
            }),
        ),
        (
            "code",
            EntryOperation::Coding(CodingStep::Code(GroupCode {
                epoch: CodeEpoch(2),
                code: Code::of_replicas(3).expect("there is one"),
                threshold: 256,
                holders: vec![Some(Incarnation(5)), None, Some(Incarnation(7))],
                is_on: true,
            })),
        ),
        ("settle", EntryOperation::Coding(CodingStep::Settle(Version(9)))),
        (
            "refill",
            EntryOperation::Coding(CodingStep::Refill {
                db,
                key: b"k",
                version: Version(9),
                whole: b"value",
            }),
        ),
        (
            "release",
            EntryOperation::Coding(CodingStep::Release(vec![(db, b"k"), (Db::default(), b"")])),
        ),
        (
            "resume",
            EntryOperation::Resume(Resume {
                up_to: 9,
                batches: vec![7, 8],
                answers: vec![(6, 2)],
            }),
        ),
    ]
}

fn line(text: &mut String, name: &str, bytes: &[u8]) {
    write!(text, "{name}: ").expect("a string takes everything");
    bytes
        .iter()
        .for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything"));
    text.push('\n');
}

#[test]
fn entries_have_the_bytes_that_they_always_had() {
    let (get, set) = (
        ArgsBuf::from_slices(["GET", "k"]),
        ArgsBuf::from_slices(["SET", "k", "v"]),
    );
    let mut found = String::new();
    for (name, operation) in operations(&get, &set) {
        let mut one = Operations::new();
        one.push(&operation);
        assert_eq!(Operations::check(one.bytes()), Ok(1), "{name}");
        line(&mut found, name, one.bytes());
    }
    let frame = bytes::Bytes::from_static(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    let mut framed = Operations::new();
    let (spans, mut out) = (
        [resp::Span { start: 8, len: 3 }, resp::Span { start: 17, len: 1 }],
        vec![],
    );
    let args = resp::Args::new(&frame, &spans);
    assert!(framed.push_framed(Db::default(), Protocol::Resp2, args, &frame));
    out.extend_from_slice(&framed.into_bytes());
    line(&mut found, "framed", &out);
    for (name, semantics) in [("entry", 1), ("short entry", 2)] {
        let header = Header {
            semantics: SemanticsVersion(semantics),
            now: UnixMillis(-1),
            seed: 0x5eed,
        };
        let mut entry = EntryBuf::new(&header);
        entry.begin_batch(GATEWAY, 12, 11);
        entry.push(&EntryOperation::Staged { number: 4 });
        let (db, protocol) = (Db::new(3).expect("one of sixteen"), Protocol::Resp2);
        entry.push(&EntryOperation::Command {
            db,
            protocol,
            args: set.as_args(),
        });
        entry.begin_own_batch();
        let entry = entry.finish();
        line(&mut found, name, &entry);
        let entry = Entry::decode(&entry).expect("it was just made");
        assert_eq!(entry.header(), header);
        let [batch, own] = entry.batches() else {
            panic!("it has two batches")
        };
        assert_eq!(
            (batch.gateway, batch.number, batch.acknowledged),
            (GATEWAY, 12, 11)
        );
        assert_eq!((own.number, own.acknowledged), (0, 0));
        let words = batch.operations().find_map(|operation| match operation {
            EntryOperation::Command { db, args, .. } => Some((db.number(), args.to_buf())),
            _ => None,
        });
        assert_eq!(words, Some((3, ArgsBuf::from_slices(["SET", "k", "v"]))));
    }
    assert!(found == PINNED, "found:\n{found}");
}

#[test]
fn limits_of_before_there_were_streams_are_read() {
    let mut now = Operations::new();
    let limits = EncodingLimits {
        sparse_bytes: 7,
        ..EncodingLimits::default()
    };
    now.push(&EntryOperation::Limits { limits });
    let mut before = now.bytes().to_vec();
    before[0] = 5;
    before.truncate(1 + 9 * size_of::<u32>());
    let read = Operations::read_one(&before, |operation| match operation {
        EntryOperation::Limits { limits } => Some(limits),
        _ => None,
    });
    assert_eq!(read, Some(Some(limits)));
}
