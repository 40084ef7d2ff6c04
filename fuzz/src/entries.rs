//! Entries from anywhere.

use crate::node::{Node, grows_much, header};
use ids::{Boot, Db, GatewayId, GroupId, HashSeed, PartitionId, RequestUuid, UnixMillis, Version};
use keyspace::{
    ArrivingPiece, BlockCommand, ClientRequest, ConditionView, Effect, Entry, EntryBuf, EntryOperation,
    Fence, Forget, InPlaceStep, KeptResult, KeyVersion, Lock, Object, Pairs, PartitionStep, Prepare,
    QueryTxn, Resolve, Resume, Work,
};
use resp::{ArgsBuf, Protocol};
use txn::{Participant, Participants, TxnId};

/// Any bytes are an entry or an error; applying one never panics; encoding it again changes nothing.
pub fn entries(data: &[u8]) {
    let Ok(entry) = Entry::decode(data) else { return };
    let mut again = EntryBuf::new(&entry.header());
    for batch in entry.batches() {
        again.begin_batch(batch.gateway, batch.number, batch.acknowledged);
        for operation in batch.operations() {
            let is_slow = match &operation {
                EntryOperation::Command { args, .. } => grows_much(*args),
                EntryOperation::Block { commands, .. } | EntryOperation::Once { commands, .. } => {
                    commands.iter().any(|command| grows_much(command.args))
                }
                EntryOperation::Prepare(prepare) => match &prepare.work {
                    Work::Evaluate { commands, .. } => {
                        commands.iter().any(|command| grows_much(command.args))
                    }
                    Work::InPlace { steps, .. } => steps.iter().any(|step| match step {
                        InPlaceStep::Run(command) => grows_much(command.args),
                        InPlaceStep::Install(_) => false,
                    }),
                    Work::Install { .. } | Work::Put { .. } | Work::Move(_) => false,
                },
                _ => false,
            };
            if is_slow {
                return;
            }
            again.push(&operation);
        }
    }
    let again = again.finish();
    let again = Entry::decode(&again).expect("what was encoded can be decoded");
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    let (mut replies, mut others) = (Vec::new(), Vec::new());
    assert_eq!(one.apply(&entry, &mut replies), two.apply(&again, &mut others));
    assert_eq!(one.keyspace.state_hash(), two.keyspace.state_hash());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let db = Db::default();
    let mut seeds = vec![EntryBuf::new(&header(5, 6)).finish()];
    for lines in [
        &["SET k v PX 100", "APPEND k w", "GET k"][..],
        &[
            "SETRANGE k 5 x",
            "BITFIELD k SET i16 #1 77",
            "SWAPDB 0 1",
            "KEYS *",
        ],
        &[
            "MSET a 1 b 2",
            "INCR a",
            "RENAME a c",
            "COPY c b REPLACE",
            "SCAN 0",
        ],
    ] {
        let mut entry = EntryBuf::new(&header(1_000, 2));
        let gateway = GatewayId {
            boot: Boot(1),
            worker: 2,
        };
        entry.begin_batch(gateway, 1, 0);
        for line in lines {
            let words = ArgsBuf::from_slices(line.split(' '));
            entry.push(&EntryOperation::Command {
                db,
                protocol: Protocol::Resp3,
                args: words.as_args(),
            });
        }
        entry.push(&EntryOperation::Expire { db, key: b"k" });
        entry.begin_batch(gateway, 2, 1);
        let effects = || {
            let object = Object::string(b"put", b"12", Some(UnixMillis(9_000)), Version(0));
            let key = Box::from(&b"a"[..]);
            vec![Effect::Put { db, object }, Effect::Delete { db, key }]
        };
        entry.push(&EntryOperation::OnePhase {
            expects: vec![ConditionView::Absent { db, key: b"put" }],
            effects: effects(),
        });
        entry.push(&EntryOperation::Install { effects: effects() });
        entry.push(&EntryOperation::Evict { db, key: b"c" });
        let words: Vec<ArgsBuf> = lines
            .iter()
            .map(|line| ArgsBuf::from_slices(line.split(' ')))
            .collect();
        entry.push(&EntryOperation::Block {
            conditions: vec![
                ConditionView::Absent { db, key: b"c" },
                ConditionView::Unchanged {
                    db,
                    key: b"put",
                    version: KeyVersion::Present(Version(7)),
                },
                ConditionView::Unchanged {
                    db,
                    key: b"d",
                    version: KeyVersion::Absent(Version(0)),
                },
            ],
            commands: words
                .iter()
                .map(|words| BlockCommand {
                    db,
                    protocol: Protocol::Resp2,
                    args: words.as_args(),
                })
                .collect(),
        });
        entry.push(&EntryOperation::Once {
            request: request(1),
            commands: words
                .iter()
                .map(|words| BlockCommand {
                    db,
                    protocol: Protocol::Resp2,
                    args: words.as_args(),
                })
                .collect(),
        });
        entry.begin_own_batch();
        let fence = Fence::new(Boot(5), [Boot(1), Boot(4)]);
        entry.push(&EntryOperation::Fence { fence });
        entry.begin_batch(gateway, 1, 0);
        seeds.push(entry.finish());
    }
    seeds.push(transactions());
    seeds
}

/// A request that its client has named, of the first moments of all time.
fn request(number: u128) -> ClientRequest {
    let id = 7 << 76 | 0b10 << 62 | number;
    ClientRequest {
        id: RequestUuid::of_bytes(id.to_be_bytes()),
        digest: 1,
        protocol: Protocol::Resp2,
    }
}

/// Transactions that prepare, wait, are refused, end and are forgotten.
fn transactions() -> Vec<u8> {
    let db = Db::default();
    let gateway = GatewayId {
        boot: Boot(1),
        worker: 2,
    };
    let txn = |seq| TxnId {
        boot: Boot(1),
        worker: 2,
        seq,
        attempt: 1,
    };
    let participants: Participants = [0, 3].map(|group| Participant::first(GroupId::new(group))).into();
    let words = ArgsBuf::from_slices(["MSET", "a", "1", "b", "2"]);
    let command = BlockCommand {
        db,
        protocol: Protocol::Resp2,
        args: words.as_args(),
    };
    let prepare = |seq, work| {
        EntryOperation::Prepare(Box::new(Prepare {
            txn: txn(seq),
            began: UnixMillis(seq as i64),
            participants: participants.clone(),
            conditions: vec![ConditionView::Absent { db, key: b"c" }],
            expects: vec![ConditionView::Unchanged {
                db,
                key: b"d",
                version: KeyVersion::Absent(Version(0)),
            }],
            work,
        }))
    };
    let evaluate = || Work::Evaluate {
        commands: vec![command],
        is_strict: true,
    };
    let mut entry = EntryBuf::new(&header(1_000, 2));
    entry.begin_batch(gateway, 1, 0);
    entry.push(&prepare(2, evaluate()));
    entry.push(&prepare(1, evaluate()));
    entry.push(&EntryOperation::Command {
        db,
        protocol: Protocol::Resp2,
        args: words.as_args(),
    });
    let lock = Lock {
        txn: txn(3),
        began: UnixMillis(3),
        participants: participants.clone(),
        is_whole: false,
        keys: vec![(db, b"e", true), (db, b"f", false)],
    };
    entry.push(&EntryOperation::Lock(Box::new(lock)));
    let effects = vec![Effect::Delete {
        db,
        key: Box::from(&b"e"[..]),
    }];
    entry.push(&prepare(
        3,
        Work::Install {
            effects,
            after_lock: true,
            result: Some(KeptResult {
                request: request(2),
                replies: vec![Box::from(&b":1\r\n"[..])],
            }),
        },
    ));
    entry.push(&EntryOperation::Withdraw { txn: txn(1) });
    entry.push(&EntryOperation::QueryTxn(QueryTxn {
        txn: txn(9),
        participants: participants.clone(),
    }));
    entry.push(&EntryOperation::Resolve(Resolve {
        decisions: vec![(txn(2), true), (txn(3), false)],
    }));
    entry.push(&prepare(
        4,
        Work::InPlace {
            steps: vec![InPlaceStep::Run(command), InPlaceStep::Install(Vec::new())],
            after_lock: false,
        },
    ));
    let put = Work::Put {
        db,
        pairs: Pairs::of(ArgsBuf::from_slices(["g", "1"]).as_args()),
    };
    entry.push(&prepare(5, put));
    entry.begin_batch(gateway, 2, 1);
    entry.push(&EntryOperation::Resolve(Resolve {
        decisions: vec![(txn(4), true), (txn(5), true)],
    }));
    entry.push(&EntryOperation::Received {
        answers: vec![(1, 1), (1, 2)],
    });
    entry.push(&EntryOperation::Resume(Resume {
        up_to: 1,
        batches: vec![1],
        answers: vec![(1, 1)],
    }));
    let partition = PartitionId::new(0);
    let leave = PartitionStep::Leave {
        partition,
        to: GroupId::new(3),
        moves: 1,
    };
    entry.push(&prepare(6, Work::Move(leave)));
    entry.push(&EntryOperation::Resolve(Resolve {
        decisions: vec![(txn(6), true)],
    }));
    entry.push(&EntryOperation::Arrive(ArrivingPiece {
        txn: txn(7),
        partition,
        number: 1,
        seed: HashSeed([5, 6]),
        records: b"",
    }));
    entry.push(&EntryOperation::Forget(Forget {
        coordinator: gateway,
        low: 3,
        over: vec![(3, 1), (4, 1)],
    }));
    entry.finish()
}
