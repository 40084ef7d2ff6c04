//! A replica that was sent the state is the one that sent it.

use crate::entries::push_random;
use crate::node::{Node, db, gateway, header};
use ids::{Prng, SemanticsVersion, UnixMillis};
use keyspace::{
    BlockCommand, ConditionView, EntryBuf, EntryOperation, Keyspace, Operations, Piece, SnapshotReceiver,
    Transfer, TransferError, TransferStep,
};
use resp::{ArgsBuf, Protocol};

/// Entries in order, of two gateways and of the leader itself.
struct Log {
    prng: Prng,
    numbers: [u64; 2],
    now: i64,
    /// One in so many operations makes a value large, or changes one.
    large: u64,
    /// The operation that each gateway sends in pieces: its number, its bytes, and how many of them were sent.
    long: [(u64, Vec<u8>, usize); 2],
}

impl Log {
    fn new(seed: u64, large: u64) -> Log {
        Log {
            prng: Prng::new(seed),
            numbers: [0; 2],
            now: 0,
            large,
            long: Default::default(),
        }
    }

    /// A piece of what this gateway sends, or the word that all of them are there; now and then it begins another one.
    fn push_piece(&mut self, entry: &mut EntryBuf, worker: usize) {
        let prng = &mut self.prng;
        let (number, bytes, sent) = &mut self.long[worker];
        if *sent == bytes.len() && !bytes.is_empty() {
            bytes.clear();
            return entry.push(&EntryOperation::Staged { number: *number });
        }
        if bytes.is_empty() || prng.below(10) == 0 {
            let value = vec![b'v'; prng.below(3_000) as usize];
            let words = [
                b"SET".to_vec(),
                format!("long:{}", prng.below(4)).into_bytes(),
                value,
            ];
            let words = ArgsBuf::from_slices(words);
            let mut operations = Operations::new();
            operations.push(&EntryOperation::Command {
                db: db(0),
                protocol: Protocol::Resp2,
                args: words.as_args(),
            });
            (*number, *bytes, *sent) = (*number + 1, operations.into_bytes(), 0);
        }
        let rest = &bytes[*sent..];
        let piece = &rest[..rest.len().min(1 + prng.below(1_000) as usize)];
        entry.push(&EntryOperation::Stage(Piece {
            number: *number,
            whole_bytes: bytes.len() as u64,
            offset: *sent as u64,
            bytes: piece,
        }));
        *sent += piece.len();
    }

    fn entry(&mut self, state: &Keyspace, operations_max: u64) -> Vec<u8> {
        self.now += self.prng.below(200) as i64 - 20;
        let mut entry = EntryBuf::new(&header(self.now, self.prng.next_u64()));
        for _ in 0..self.prng.below(3) {
            let prng = &mut self.prng;
            let worker = prng.below(3) as usize;
            match self.numbers.get_mut(worker) {
                Some(number) => {
                    *number += 1;
                    let unacknowledged = prng.below(5);
                    entry.begin_batch(
                        gateway(3, worker as u16),
                        *number,
                        number.saturating_sub(unacknowledged + 1),
                    );
                }
                None => entry.begin_own_batch(),
            }
            for _ in 0..self.prng.below(operations_max) {
                let prng = &mut self.prng;
                if worker < self.long.len() && prng.below(4) == 0 {
                    self.push_piece(&mut entry, worker);
                } else if prng.below(self.large) == 0 {
                    push_large(&mut entry, prng);
                } else {
                    push_random(&mut entry, state, prng);
                }
            }
        }
        entry.finish()
    }
}

fn push(entry: &mut EntryBuf, number: u8, words: &ArgsBuf) {
    entry.push(&EntryOperation::Command {
        db: db(number),
        protocol: Protocol::Resp3,
        args: words.as_args(),
    });
}

fn push_large(entry: &mut EntryBuf, prng: &mut Prng) {
    let number = [0, 0, 1, 2][prng.below(4) as usize];
    let kind = prng.below(8);
    let key = format!("large:{}:{}", kind % 6, prng.below(2));
    let mut words: Vec<Vec<u8>> = Vec::new();
    let (name, arity) = [
        ("RPUSH", 1),
        ("SADD", 1),
        ("HSET", 2),
        ("ZADD", 2),
        ("APPEND", 0),
        ("SADD", 9),
        ("DEL", 8),
        ("SPOP", 7),
    ][kind as usize];
    words.push(name.into());
    words.push(key.into_bytes());
    let long = |n: u64| {
        let mut text = format!("element:{n}:").into_bytes();
        text.resize(400, b'x');
        text
    };
    match arity {
        0 => words.push(vec![b'v'; 50_000]),
        8 => words.push(format!("large:{}:0", prng.below(6)).into_bytes()),
        7 => {
            words[1] = b"large:1:0".to_vec();
            words.push(b"20".to_vec());
        }
        // Integers alone: a sorted array.
        9 => words.extend((0..500).map(|_| prng.below(100_000).to_string().into_bytes())),
        _ => {
            for _ in 0..1 + prng.below(200) {
                if name == "ZADD" {
                    words.push(prng.below(50).to_string().into_bytes());
                }
                words.push(long(prng.below(2_000)));
                if name == "HSET" {
                    words.push(prng.below(50).to_string().into_bytes());
                }
            }
        }
    }
    push(entry, number, &ArgsBuf::from_slices(words));
}

/// A transfer and what has come of it.
struct Way {
    transfer: Transfer,
    snapshot_receiver: SnapshotReceiver,
    /// The replica at its end, once it is complete.
    node: Option<Node>,
    chunks: usize,
    /// Bytes of the longest one.
    longest: usize,
}

impl Way {
    fn new(sender: &mut Node) -> Way {
        Way {
            transfer: Transfer::begin(&mut sender.keyspace).expect("few are under way"),
            snapshot_receiver: SnapshotReceiver::new(),
            node: None,
            chunks: 0,
            longest: 0,
        }
    }

    /// `true` with the last chunk, whose state must be the sender's.
    fn step(&mut self, sender: &mut Node, bytes_max: usize) -> bool {
        if self.node.is_some() {
            return true;
        }
        self.chunks += 1;
        let (bytes, is_last) = match self.transfer.next_chunk(&mut sender.keyspace, bytes_max) {
            TransferStep::More(bytes) => (bytes, false),
            TransferStep::Last(bytes) => (bytes, true),
            TransferStep::Lost => panic!("little changed"),
        };
        self.longest = self.longest.max(bytes.len());
        let progress = self
            .snapshot_receiver
            .take(&bytes)
            .expect("what was sent is a cut");
        assert_eq!(progress.is_complete, is_last);
        self.snapshot_receiver.collect_lazyfree(&mut 100);
        if is_last {
            let snapshot_receiver = std::mem::take(&mut self.snapshot_receiver);
            let mut node = Node::new(77);
            node.keyspace = snapshot_receiver.finish().expect("it is complete");
            assert_eq!(node.keyspace.state_hash(), sender.keyspace.state_hash());
            assert_eq!(scrubbed(&node), scrubbed(sender));
            for number in 0..16 {
                let counts = |node: &Node| node.keyspace.counts(db(number));
                assert_eq!(counts(&node), counts(sender));
            }
            self.node = Some(node);
        }
        is_last
    }
}

/// What replicas compare while they serve.
fn scrubbed(node: &Node) -> u64 {
    node.keyspace.scrub(node.keyspace.scrub_round())
}

/// Runs entries and chunks by turns until `ways` transfers are complete, and some entries beyond.
fn run(seed: u64, large: u64, ways: usize, sizes: &[usize]) -> usize {
    let mut prng = Prng::new(seed ^ 0x5eed);
    let mut log = Log::new(seed, large);
    let mut sender = Node::new(seed);
    for _ in 0..prng.below(60) {
        let entry = log.entry(&sender.keyspace, 20);
        sender.apply_entry(&entry);
    }
    let mut all: Vec<Way> = Vec::new();
    let (mut left, mut rounds) = (15, 0);
    while left > 0 {
        rounds += 1;
        assert!(rounds < 3_000, "seed {seed}: transfers do not end");
        if all.len() < ways && prng.below(4) == 0 {
            all.push(Way::new(&mut sender));
        }
        for _ in 0..prng.below(3) {
            let entry = log.entry(&sender.keyspace, 6);
            let (_, replies) = sender.apply_entry(&entry);
            for way in &mut all {
                if let Some(node) = &mut way.node {
                    let (_, others) = node.apply_entry(&entry);
                    assert_eq!(others.len(), replies.len());
                    assert_eq!(
                        node.keyspace.state_hash(),
                        sender.keyspace.state_hash(),
                        "seed {seed}, round {rounds}"
                    );
                    assert_eq!(scrubbed(node), scrubbed(&sender), "seed {seed}, round {rounds}");
                }
            }
        }
        let mut are_complete = all.len() == ways;
        for way in &mut all {
            let size = sizes[prng.below(sizes.len() as u64) as usize];
            are_complete &= way.step(&mut sender, size);
        }
        left -= i32::from(are_complete);
    }
    all.iter().map(|way| way.chunks).sum()
}

#[test]
fn the_receiver_of_the_last_chunk_is_equal_and_stays_equal_whatever_happened_meanwhile() {
    for seed in 0..25 {
        run(seed, u64::MAX, 1, &[1, 50, 400, 3_000]);
    }
}

#[test]
fn two_transfers_at_once_are_both_right() {
    for seed in 100..112 {
        run(seed, u64::MAX, 2, &[30, 500, 5_000]);
    }
}

#[test]
fn large_values_arrive_in_pieces_even_if_they_change() {
    for seed in 200..208 {
        run(seed, 6, 2, &[2_000, 20_000, 100_000]);
    }
}

/// A sender with keys of every kind in several databases.
fn furnished() -> Node {
    let mut node = Node::new(3);
    node.open(1_000);
    for n in 0..400 {
        node.run(&format!("SET key:{n} value:{n}"));
        node.run_in(1, &format!("SET key:{n} {n} PX {}", 100 + n));
        node.run_in(2, &format!("HSET hash:{n} f {n} g v"));
    }
    node
}

#[test]
fn databases_that_are_emptied_and_exchanged_arrive_where_they_are() {
    let lines: [&[(u8, &str)]; 8] = [
        &[(0, "FLUSHALL")],
        &[(0, "FLUSHDB"), (0, "SET new v")],
        &[(0, "SWAPDB 0 1")],
        &[
            (0, "SWAPDB 0 1"),
            (0, "SWAPDB 1 2"),
            (0, "FLUSHDB"),
            (1, "SET key:7 new"),
        ],
        &[
            (0, "SET key:1 changed"),
            (0, "SWAPDB 0 15"),
            (15, "DEL key:2"),
            (0, "SET key:3 new"),
        ],
        &[
            (0, "SWAPDB 2 0"),
            (0, "FLUSHALL"),
            (0, "SWAPDB 0 1"),
            (5, "SET key:1 x"),
        ],
        &[
            (0, "MOVE key:9 1"),
            (0, "RENAME key:1 key:2"),
            (0, "COPY key:3 key:3 DB 9"),
        ],
        &[(1, "DEL key:0 key:1 key:2"), (1, "SWAPDB 1 0"), (1, "SWAPDB 1 0")],
    ];
    for (at, lines) in lines.iter().enumerate() {
        // Before the first chunk, in the first database, in the second, and when all was sent but the last chunk.
        for before in [0, 3, 9, 14] {
            let mut sender = furnished();
            let mut way = Way::new(&mut sender);
            (0..before).for_each(|_| assert!(!way.step(&mut sender, 2_000), "it has {before} cuts"));
            for (number, line) in *lines {
                assert!(!sender.run_in(*number, line).starts_with('-'), "{line}");
            }
            let mut chunks = 0;
            while !way.step(&mut sender, 2_000) {
                chunks += 1;
                assert!(chunks < 200, "lines {at}");
            }
        }
    }
}

#[test]
fn conditions_random_picks_and_expiry_go_on_as_if_nothing_had_happened() {
    let mut sender = furnished();
    for n in 0..300 {
        sender.run(&format!("SADD members m:{n}"));
        sender.run(&format!("ZADD scores {n} m:{n}"));
    }
    // What was there and went is remembered in the stamps alone.
    sender.run("SET gone v");
    let remembered = sender.keyspace.version(db(0), b"gone");
    let present = sender.keyspace.version(db(0), b"key:5");
    sender.run("DEL gone");
    let absent = sender.keyspace.version(db(0), b"gone");
    let mut way = Way::new(&mut sender);
    while !way.step(&mut sender, 700) {}
    let mut other = way.node.expect("complete");
    let words = [
        "RANDOMKEY",
        "SPOP members 3",
        "SRANDMEMBER members 4",
        "ZRANDMEMBER scores 2",
        "SCAN 0 COUNT 9",
    ]
    .map(|line| ArgsBuf::from_slices(line.split(' ')));
    let unchanged = |key: &'static [u8], version| ConditionView::Unchanged {
        db: db(0),
        key,
        version,
    };
    let conditions = [
        vec![unchanged(b"key:5", present), unchanged(b"gone", absent)],
        vec![unchanged(b"gone", remembered)],
        vec![ConditionView::Absent {
            db: db(1),
            key: b"key:150",
        }],
    ];
    for (number, conditions) in (1..).zip(conditions) {
        // By then half of the keys of database 1 have expired.
        let mut entry = EntryBuf::new(&header(1_000 + 100 * number as i64, number));
        entry.begin_batch(gateway(1, 1), number, 0);
        entry.push(&EntryOperation::Block {
            conditions,
            commands: words
                .iter()
                .map(|words| BlockCommand {
                    db: db(0),
                    protocol: Protocol::Resp2,
                    args: words.as_args(),
                })
                .collect(),
        });
        for n in 0..400 {
            let key = format!("key:{n}").into_bytes();
            entry.push(&EntryOperation::Expire { db: db(1), key: &key });
        }
        let entry = entry.finish();
        let answers = sender.apply_entry(&entry);
        assert_eq!(other.apply_entry(&entry), answers);
        assert_eq!(answers.1[0] == b"not carried out", number == 2);
        assert_eq!(other.keyspace.state_hash(), sender.keyspace.state_hash());
    }
}

#[test]
fn a_value_that_changes_all_the_time_does_not_keep_a_transfer_from_its_end() {
    for kind in ["RPUSH", "SADD", "APPEND"] {
        let mut sender = Node::new(1);
        let long = "x".repeat(1_000);
        for n in 0..600 {
            sender.run(&format!("{kind} hot {n}:{long}"));
            sender.run(&format!("SET key:{n} v"));
        }
        let mut way = Way::new(&mut sender);
        let mut n = 600;
        while !way.step(&mut sender, 20_000) {
            sender.run(&format!("{kind} hot {n}:{long}"));
            n += 1;
            assert!(n < 1_000, "{kind}");
        }
        assert!(way.chunks < 60, "{kind}: {} cuts", way.chunks);
    }
}

#[test]
fn more_changes_than_chunks_can_carry_do_not_keep_a_transfer_from_its_end() {
    let mut sender = Node::new(1);
    let value = "v".repeat(100);
    for n in 0..2_000 {
        sender.run(&format!("SET key:{n} {value}"));
    }
    let mut way = Way::new(&mut sender);
    let mut n = 0;
    while !way.step(&mut sender, 1_000) {
        for _ in 0..100 {
            n += 7;
            sender.run(&format!("SET key:{} {n}{value}", n % 2_000));
        }
        assert!(way.chunks < 1_000);
    }
}

#[test]
fn chunks_have_about_the_size_that_was_asked_for() {
    let mut sender = furnished();
    for n in 0..400 {
        sender.run_in(3, &format!("RPUSH list {n}:{}", "x".repeat(1_000)));
    }
    let mut transfer = Transfer::begin(&mut sender.keyspace).expect("it is the first");
    let mut chunks = 0;
    loop {
        for n in 0..20 {
            sender.run(&format!("SET key:{} x", n * 7));
        }
        match transfer.next_chunk(&mut sender.keyspace, 10_000) {
            TransferStep::More(bytes) => assert!(bytes.len() < 16_500, "{}", bytes.len()),
            TransferStep::Last(_) => break,
            TransferStep::Lost => panic!("little changed"),
        }
        chunks += 1;
    }
    assert!((45..80).contains(&chunks), "{chunks}");
}

#[test]
fn a_long_operation_under_way_makes_no_chunk_longer_however_small_the_state_is() {
    let mut sender = Node::new(1);
    sender.run("SET key v");
    let piece = vec![b'v'; 10_000];
    let stage = |sender: &mut Node, at: u64| {
        let mut entry = EntryBuf::new(&header(1_000, at));
        entry.begin_batch(gateway(3, 0), at + 1, at);
        entry.push(&EntryOperation::Stage(Piece {
            number: 1,
            whole_bytes: 10_000_000,
            offset: at * 10_000,
            bytes: &piece,
        }));
        sender.apply_entry(&entry.finish());
    };
    (0..500).for_each(|at| stage(&mut sender, at));
    let mut way = Way::new(&mut sender);
    let mut at = 500;
    while !way.step(&mut sender, 20_000) {
        // Not as fast as it is sent.
        stage(&mut sender, at);
        at += 1;
    }
    assert!(way.longest < 31_000, "a cut of {} bytes", way.longest);
    assert!(way.chunks > 200, "{} cuts", way.chunks);
}

#[test]
fn a_transfer_that_has_to_remember_too_much_is_lost_and_another_can_begin() {
    let mut sender = Node::new(1);
    for n in 0..3 {
        sender.run_in(1, &format!("SET key:{n} {}", "x".repeat(300)));
    }
    let mut lost = Transfer::begin(&mut sender.keyspace).expect("it is the first");
    // All of database 0, which is empty, and a part of the next.
    assert!(matches!(
        lost.next_chunk(&mut sender.keyspace, 200),
        TransferStep::More(_)
    ));
    for n in 0..263 {
        let pairs: String = (0..1_000).map(|m| format!(" key:{n}:{m} v")).collect();
        sender.run(&format!("MSET{pairs}"));
    }
    assert!(lost.is_under_way(&sender.keyspace));
    assert!(matches!(
        lost.next_chunk(&mut sender.keyspace, 100),
        TransferStep::Lost
    ));
    assert!(!lost.is_under_way(&sender.keyspace));
    assert!(matches!(
        lost.next_chunk(&mut sender.keyspace, 100),
        TransferStep::Lost
    ));
    let mut way = Way::new(&mut sender);
    while !way.step(&mut sender, 1 << 20) {}
}

#[test]
fn transfers_are_few_and_ended_ones_leave_room() {
    let mut sender = furnished();
    let mut transfers: Vec<Transfer> = Vec::new();
    while let Some(transfer) = Transfer::begin(&mut sender.keyspace) {
        transfers.push(transfer);
        assert!(transfers.len() < 10);
    }
    transfers.swap_remove(1).end(&mut sender.keyspace);
    let mut way = Way::new(&mut sender);
    while !way.step(&mut sender, 5_000) {}
    assert!(Transfer::begin(&mut sender.keyspace).is_some());
}

#[test]
fn chunks_are_taken_in_their_order_and_only_by_whoever_knows_their_rules() {
    let newer = SemanticsVersion(SemanticsVersion::CURRENT.0 + 1);
    let mut sender = furnished();
    sender.keyspace = std::mem::replace(
        &mut sender.keyspace,
        Keyspace::new(crate::node::SEED, crate::node::PARTITIONS),
    )
    .knows(newer);
    let chunks = |sender: &mut Node| {
        let mut transfer = Transfer::begin(&mut sender.keyspace).expect("it is the only one");
        let mut chunks = Vec::new();
        loop {
            match transfer.next_chunk(&mut sender.keyspace, 20_000) {
                TransferStep::More(bytes) => chunks.push(bytes),
                TransferStep::Last(bytes) => {
                    chunks.push(bytes);
                    return chunks;
                }
                TransferStep::Lost => panic!("nothing changed"),
            }
        }
    };
    let all = chunks(&mut sender);
    assert!(all.len() > 2);
    let mut snapshot_receiver = SnapshotReceiver::new();
    assert_eq!(snapshot_receiver.take(&all[1]), Err(TransferError::OutOfOrder));
    assert_eq!(
        snapshot_receiver.take(&all[0]),
        Err(TransferError::OutOfOrder),
        "it is broken"
    );
    let mut snapshot_receiver = SnapshotReceiver::new();
    snapshot_receiver.take(&all[0]).expect("the first");
    assert!(snapshot_receiver.finish().is_none(), "it is not complete");
    let mut snapshot_receiver = SnapshotReceiver::new();
    snapshot_receiver.take(&all[0]).expect("the first");
    assert_eq!(snapshot_receiver.take(&all[0]), Err(TransferError::OutOfOrder));
    // From now on the state is of rules that a build of today does not know.
    let newest = keyspace::Header {
        semantics: newer,
        ..header(2_000, 1)
    };
    sender.keyspace.open(&newest).expect("it knows them");
    let all = chunks(&mut sender);
    for (known, expected) in [
        (SemanticsVersion::CURRENT, Err(TransferError::Semantics)),
        (newer, Ok(true)),
    ] {
        let mut snapshot_receiver = SnapshotReceiver::new().knows(known);
        let taken: Vec<_> = all.iter().map(|chunk| snapshot_receiver.take(chunk)).collect();
        let last = taken.last().expect("some").map(|progress| progress.is_complete);
        assert_eq!(last, expected);
        assert_eq!(snapshot_receiver.finish().is_some(), expected.is_ok());
    }
}

#[test]
fn bytes_that_are_no_chunks_are_refused_and_never_panic() {
    let mut prng = Prng::new(9);
    let mut sender = furnished();
    for n in 0..100 {
        let long = "x".repeat(1_000);
        sender.run(&format!("RPUSH list {n}:{long}"));
        sender.run(&format!("SADD set {n}:{long}"));
        sender.run(&format!("ZADD scores {n} {n}:{long}"));
        sender.run(&format!("HSET hash {n}:{long} v"));
    }
    sender.run(&format!("SET string {}", "x".repeat(90_000)));
    let mut transfer = Transfer::begin(&mut sender.keyspace).expect("it is the first");
    let mut chunks = Vec::new();
    loop {
        match transfer.next_chunk(&mut sender.keyspace, 60_000) {
            TransferStep::More(bytes) => chunks.push(bytes),
            TransferStep::Last(bytes) => {
                chunks.push(bytes);
                break;
            }
            TransferStep::Lost => panic!("nothing changed"),
        }
    }
    for round in 0..400 {
        let mut snapshot_receiver = SnapshotReceiver::new();
        for chunk in &chunks {
            let mut chunk = chunk.clone();
            if prng.below(4) == 0 {
                match prng.below(2) {
                    0 => chunk.truncate(prng.below(chunk.len() as u64) as usize),
                    _ => {
                        let at = prng.below(if round % 2 == 0 { 300 } else { chunk.len() as u64 }) as usize;
                        if let Some(byte) = chunk.get_mut(at) {
                            *byte = prng.next_u64() as u8;
                        }
                    }
                }
            }
            if snapshot_receiver.take(&chunk).is_err() {
                break;
            }
        }
        if let Some(keyspace) = snapshot_receiver.finish() {
            let mut node = Node::new(1);
            node.keyspace = keyspace;
            node.local.now = UnixMillis(5_000);
            for line in [
                "KEYS *",
                "SPOP set 2",
                "LPOP list",
                "ZPOPMIN scores",
                "HDEL hash f",
                "FLUSHALL",
            ] {
                node.run(line);
            }
        }
    }
}

#[test]
fn mutations_make_a_difference() {
    let transferred = |mutation| {
        mutations::plant(mutation);
        let mut sender = furnished();
        sender.run("SET key:1 changed");
        let mut transfer = Transfer::begin(&mut sender.keyspace).expect("it is the first");
        let mut snapshot_receiver = SnapshotReceiver::new();
        loop {
            match transfer.next_chunk(&mut sender.keyspace, 10_000) {
                TransferStep::More(bytes) => drop(snapshot_receiver.take(&bytes).expect("a cut")),
                TransferStep::Last(bytes) => {
                    snapshot_receiver.take(&bytes).expect("a cut");
                    break;
                }
                TransferStep::Lost => panic!("nothing changed"),
            }
        }
        let keyspace = snapshot_receiver.finish().expect("complete");
        let mut repeated = EntryBuf::new(&header(1_000, 1));
        for _ in 0..2 {
            repeated.begin_batch(gateway(1, 1), 1, 0);
            push(&mut repeated, 0, &ArgsBuf::from_slices(["INCR", "counter"]));
        }
        let is_equal = keyspace.state_hash() == sender.keyspace.state_hash();
        sender.apply_entry(&repeated.finish());
        mutations::plant(None);
        (is_equal, sender.run("GET counter"))
    };
    let right = (true, "$1\r\n1\r\n".to_owned());
    assert_eq!(transferred(None), right);
    assert!(!transferred(Some(mutations::Mutation::EntryLostAtSnapshot)).0);
    assert_ne!(
        transferred(Some(mutations::Mutation::ForwardAppliedTwice)).1,
        right.1
    );
}
