//! A read behind its own unapplied write is answered when apply reaches it, not before and not later.

use ids::{Boot, Db, GatewayId, HashSeed, PartitionCount, PartitionRange, SemanticsVersion, UnixMillis};
use keyspace::{
    ApplyOutput, AttachedRead, Batched, Entry, EntryBuf, EntryOperation, Header, Keyspace, LeaderLocal,
};
use resp::{ArgsBuf, Protocol};

/// One pipeline's commands: `SET k 1, GET k, SET k 2, GET k, ...` over two keys.
const PIPELINE: [&[&str]; 8] = [
    &["SET", "k", "1"],
    &["GET", "k"],
    &["SET", "k", "2"],
    &["GET", "k"],
    &["GET", "other"],
    &["SET", "other", "3"],
    &["APPEND", "k", "4"],
    &["GET", "k"],
];
const REPLIES: [&str; 8] = [
    "+OK\r\n",
    "$1\r\n1\r\n",
    "+OK\r\n",
    "$1\r\n2\r\n",
    "$-1\r\n",
    "+OK\r\n",
    ":2\r\n",
    "$2\r\n24\r\n",
];

/// Carries the pipeline out in entries that end where `cuts` has a bit, reads attached to their positions.
fn run(cuts: u32) -> Vec<String> {
    let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::all(PartitionCount::DEFAULT));
    let mut local = LeaderLocal::new(1);
    let commands: Vec<ArgsBuf> = PIPELINE
        .iter()
        .map(|words| ArgsBuf::from_slices(words.iter().map(|word| word.as_bytes())))
        .collect();
    let mut replies = vec![String::new(); PIPELINE.len()];
    let mut start = 0;
    let mut number = 0;
    for end in 1..=PIPELINE.len() {
        if end < PIPELINE.len() && cuts & (1 << end) == 0 {
            continue;
        }
        number += 1;
        let header = Header {
            semantics: SemanticsVersion::CURRENT,
            now: UnixMillis(1_000),
            seed: 7,
        };
        let mut entry = EntryBuf::new(&header);
        let gateway = GatewayId {
            boot: Boot(1),
            worker: 0,
        };
        entry.begin_batch(gateway, number, number - 1);
        let (mut writes, mut reads, mut attached) = (Vec::new(), Vec::new(), Vec::new());
        for at in start..end {
            let (db, protocol, args) = (Db::default(), Protocol::Resp2, commands[at].as_args());
            if PIPELINE[at][0] == "GET" {
                reads.push(at);
                attached.push(AttachedRead {
                    position: writes.len(),
                    db,
                    protocol,
                    args,
                });
            } else {
                writes.push(at);
                entry.push(&EntryOperation::Command { db, protocol, args });
            }
        }
        let bytes = entry.finish();
        let entry = Entry::decode(&bytes).expect("just encoded");
        let mut writes = writes.into_iter();
        let applied = keyspace.apply_with_reads(&entry, &attached, &mut local, |answered| {
            let (at, reply) = match answered {
                ApplyOutput::Batch(batched) => return assert_eq!(batched, Batched::Applied),
                ApplyOutput::Operation(answer) => {
                    (writes.next().expect("one answer for each write"), answer.bytes())
                }
                ApplyOutput::Read(index, reply) => (reads[index], reply),
                ApplyOutput::ReadLater(..) | ApplyOutput::Freed(..) | ApplyOutput::ReadMoved(..) => {
                    unreachable!("nobody holds a key, and none has moved")
                }
            };
            replies[at] = String::from_utf8_lossy(reply).into_owned();
        });
        applied.expect("the rules are known");
        start = end;
    }
    replies
}

#[test]
fn every_batch_shape_answers_what_one_command_at_a_time_does() {
    for cuts in 0..1 << PIPELINE.len() {
        assert_eq!(run(cuts), REPLIES, "entries cut at {cuts:#b}");
    }
}

#[test]
fn a_repeated_batch_answers_in_the_order_of_its_items() {
    let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::all(PartitionCount::DEFAULT));
    let mut local = LeaderLocal::new(7);
    let header = Header {
        semantics: SemanticsVersion::CURRENT,
        now: UnixMillis(1_000),
        seed: 7,
    };
    let gateway = GatewayId {
        boot: Boot(1),
        worker: 0,
    };
    let words = |words: &[&str]| ArgsBuf::from_slices(words);
    let (first, second) = (words(&["SET", "a", "1"]), words(&["SET", "b", "2"]));
    let (left, right) = (words(&["GET", "a"]), words(&["GET", "b"]));
    let (db, protocol) = (Db::default(), Protocol::Resp2);
    let mut entry = EntryBuf::new(&header);
    entry.begin_batch(gateway, 1, 0);
    for args in [&first, &second] {
        let args = args.as_args();
        entry.push(&EntryOperation::Command { db, protocol, args });
    }
    let bytes = entry.finish();
    let entry = Entry::decode(&bytes).expect("just encoded");
    let read = |position, args| AttachedRead {
        position,
        db,
        protocol,
        args,
    };
    let reads = [read(1, left.as_args()), read(2, right.as_args())];
    for _ in 0..2 {
        let mut replies = Vec::new();
        let applied = keyspace.apply_with_reads(&entry, &reads, &mut local, |answered| match answered {
            ApplyOutput::Batch(_) => {}
            ApplyOutput::Operation(answer) => {
                replies.push(String::from_utf8_lossy(answer.bytes()).into_owned())
            }
            ApplyOutput::Read(_, reply) => replies.push(String::from_utf8_lossy(reply).into_owned()),
            ApplyOutput::ReadLater(..) | ApplyOutput::Freed(..) | ApplyOutput::ReadMoved(..) => {
                unreachable!("nobody holds a key, and none has moved")
            }
        });
        applied.expect("the rules are known");
        assert_eq!(replies, ["+OK\r\n", "$1\r\n1\r\n", "+OK\r\n", "$1\r\n2\r\n"]);
    }
}
