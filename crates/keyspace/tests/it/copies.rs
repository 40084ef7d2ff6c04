//! A copy of the objects is what the mark found, whatever happened before it, and behind it in the same entry.

use crate::entries::push_random;
use crate::node::{Node, db, header};
use codec::DecodeError;
use ids::{Db, Prng};
use keyspace::{ChunkRecord, CopyStep, EntryBuf, EntryOperation, RecordPlace, read_records};
use resp::{ArgsBuf, Protocol};
use std::collections::BTreeMap;

const BACKUP: u64 = 7;

/// What an object is: all that stands before its value, and the value.
type Written = (Vec<u8>, Vec<u8>);

/// What has come of a copy: of each database, the objects by partition and hash.
#[derive(Default)]
struct Received {
    databases: Vec<BTreeMap<(u16, u64), Vec<Written>>>,
    partials: BTreeMap<Db, ((u16, u64), Written)>,
    chunks: u64,
}

impl Received {
    fn new() -> Received {
        Received {
            databases: vec![BTreeMap::new(); usize::from(Db::COUNT)],
            ..Received::default()
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.chunks += 1;
        let number = read_records(chunk, |record| self.record(record)).expect("it is a chunk of objects");
        assert_eq!(number, self.chunks);
    }

    fn record(&mut self, record: ChunkRecord<'_>) -> Result<(), DecodeError> {
        let at = |place: RecordPlace| (place.partition.number(), place.hash);
        match record {
            ChunkRecord::Arranged(origins) => {
                let before = std::mem::take(&mut self.databases);
                let of = |origin: &Option<u8>| origin.map(|origin| before[usize::from(origin)].clone());
                self.databases = origins
                    .iter()
                    .map(|origin| of(origin).unwrap_or_default())
                    .collect();
                let mut partials = std::mem::take(&mut self.partials);
                for (number, origin) in (0..).zip(origins) {
                    let partial = origin.and_then(|origin| partials.remove(&db(origin)));
                    self.partials.extend(partial.map(|partial| (db(number), partial)));
                }
            }
            ChunkRecord::Cleared(place) => drop(self.databases[place.db.index()].remove(&at(place))),
            ChunkRecord::Object { place, head, value } => {
                let objects = self.databases[place.db.index()].entry(at(place)).or_default();
                objects.push((head.to_vec(), value.to_vec()));
            }
            ChunkRecord::Begun { place, head, begin } => {
                self.partials
                    .insert(place.db, (at(place), (head.to_vec(), begin.to_vec())));
            }
            ChunkRecord::Piece(db, piece) => {
                let (_, (_, value)) = self.partials.get_mut(&db).expect("one has begun");
                value.extend_from_slice(piece);
            }
            ChunkRecord::Ended(db) => {
                let (at, object) = self.partials.remove(&db).expect("one has begun");
                self.databases[db.index()].entry(at).or_default().push(object);
            }
        }
        Ok(())
    }

    /// All objects, in order.
    fn objects(mut self) -> Vec<(usize, (u16, u64), Vec<Written>)> {
        let numbered = self.databases.iter_mut().enumerate();
        let all = numbered.flat_map(|(db, objects)| {
            std::mem::take(objects).into_iter().map(move |(at, mut objects)| {
                objects.sort();
                (db, at, objects)
            })
        });
        all.filter(|(.., objects)| !objects.is_empty()).collect()
    }
}

fn push(entry: &mut EntryBuf, number: u8, words: &[&[u8]]) {
    let words = ArgsBuf::from_slices(words);
    entry.push(&EntryOperation::Command {
        db: db(number),
        protocol: Protocol::Resp2,
        args: words.as_args(),
    });
}

fn push_mark(entry: &mut EntryBuf) {
    push(entry, 0, &[b"BACKUP", b"MARK", BACKUP.to_string().as_bytes()]);
}

/// Now and then values that go in pieces, and databases that move.
fn push_some(entry: &mut EntryBuf, node: &Node, prng: &mut Prng) {
    let number = prng.below(3) as u8;
    match prng.below(20) {
        0 => push(entry, number, &[b"APPEND", b"long", &vec![b'v'; 40_000]]),
        1 | 2 => {
            let members: Vec<String> = (0..300)
                .map(|_| format!("member:{:300}", prng.below(3_000)))
                .collect();
            let words: Vec<&[u8]> = [&b"SADD"[..], b"large"]
                .into_iter()
                .chain(members.iter().map(String::as_bytes))
                .collect();
            push(entry, number, &words);
        }
        3 => push(entry, 0, &[b"SWAPDB", b"0", b"2"]),
        4 if prng.below(8) == 0 => push(entry, number, &[b"FLUSHDB"]),
        _ => push_random(entry, &node.keyspace, prng),
    }
}

/// Everything that a node has at this moment.
fn contents(node: &mut Node) -> Vec<(usize, (u16, u64), Vec<Written>)> {
    assert!(node.keyspace.begin_copy(BACKUP));
    let mut entry = EntryBuf::new(&header(i64::MIN + 1, 1));
    entry.begin_own_batch();
    push_mark(&mut entry);
    node.apply_entry(&entry.finish());
    let mut received = Received::new();
    match node.keyspace.next_of_copy(BACKUP, 1) {
        CopyStep::Last(chunk) => received.take(&chunk),
        other => panic!("{other:?}"),
    }
    received.objects()
}

#[test]
fn a_copy_is_what_its_mark_found_whatever_happened_before_and_behind_it() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        // The other one is never copied, and ends with the mark.
        let (mut node, mut other) = (Node::new(seed), Node::new(seed));
        let mut time = 0;
        let mut entry = |node: &Node, prng: &mut Prng| {
            time += 100;
            let mut entry = EntryBuf::new(&header(time, prng.next_u64()));
            entry.begin_own_batch();
            (0..prng.below(12)).for_each(|_| push_some(&mut entry, node, prng));
            entry
        };
        for _ in 0..prng.below(60) {
            let bytes = entry(&node, &mut prng).finish();
            node.apply_entry(&bytes);
            other.apply_entry(&bytes);
        }
        assert!(node.keyspace.begin_copy(BACKUP));
        let mut received = Received::new();
        // Early, or when everything was sent and something has changed since.
        for _ in 0..prng.below(200) {
            let size = [100, 2_000, 20_000][prng.below(3) as usize];
            match node.keyspace.next_of_copy(BACKUP, size) {
                CopyStep::More(chunk) => received.take(&chunk),
                CopyStep::Ready => {}
                other => panic!("seed {seed}: {other:?}"),
            }
            if prng.below(3) == 0 {
                let bytes = entry(&node, &mut prng).finish();
                node.apply_entry(&bytes);
                other.apply_entry(&bytes);
            }
        }
        let seed_of_last = prng.next_u64();
        let mut last = EntryBuf::new(&header(1_000_000, seed_of_last));
        let mut shorter = EntryBuf::new(&header(1_000_000, seed_of_last));
        for entry in [&mut last, &mut shorter] {
            entry.begin_own_batch();
            push(entry, 0, &[b"SET", b"before", b"the mark"]);
            push_mark(entry);
        }
        push(&mut last, 0, &[b"SET", b"before", b"behind it"]);
        push(&mut last, 0, &[b"DEL", b"long", b"large"]);
        push(&mut last, 0, &[b"FLUSHALL"]);
        node.apply_entry(&last.finish());
        other.apply_entry(&shorter.finish());
        assert!(node.keyspace.is_copy_over(BACKUP));
        match node.keyspace.next_of_copy(BACKUP, 1) {
            CopyStep::Last(chunk) => received.take(&chunk),
            step => panic!("seed {seed}: {step:?}"),
        }
        assert!(matches!(node.keyspace.next_of_copy(BACKUP, 1), CopyStep::Lost));
        assert_eq!(received.objects(), contents(&mut other), "seed {seed}");
    }
}

#[test]
fn a_mark_without_a_copy_and_one_of_another_copy_change_nothing() {
    let mut node = Node::new(1);
    node.open(1_000);
    node.run("SET key value");
    assert_eq!(node.run("BACKUP MARK 9"), "+OK\r\n");
    assert!(node.keyspace.begin_copy(BACKUP));
    assert_eq!(node.run("BACKUP MARK 9"), "+OK\r\n");
    assert!(!node.keyspace.is_copy_over(BACKUP));
    node.keyspace.end_copy();
    assert!(matches!(node.keyspace.next_of_copy(BACKUP, 1), CopyStep::Lost));
}

fn run_words(node: &mut Node, words: &[&[u8]]) -> String {
    let reply = node.apply(db(0), Protocol::Resp2, ArgsBuf::from_slices(words).as_args());
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn objects_are_restored_as_they_were_and_large_ones_in_pieces() {
    let mut node = Node::new(1);
    node.open(1_000);
    let restore = |node: &mut Node, key: &str, deadline: i64, payload: &[u8]| {
        let deadline = deadline.to_string();
        run_words(node, &[b"MRESTORE", key.as_bytes(), deadline.as_bytes(), payload])
    };
    assert_eq!(restore(&mut node, "s", 0, b"\x01\x00\x00hello"), "+OK\r\n");
    assert_eq!(node.run("GET s"), "$5\r\nhello\r\n");
    assert_eq!(node.run("TTL s"), ":-1\r\n");
    assert_eq!(restore(&mut node, "s", 61_000, b"\x01\x01\x0012"), "+OK\r\n");
    assert_eq!(node.run("PEXPIRETIME s"), ":61000\r\n");
    assert_eq!(restore(&mut node, "s", 900, b"\x01\x00\x0012"), "+OK\r\n");
    assert_eq!(node.run("EXISTS s"), ":0\r\n", "its time had passed");
    let element = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let seed = [7; 16];
    let set = [&[1, 0, 7][..], &seed, &element("a"), &element("b")].concat();
    assert_eq!(restore(&mut node, "set", 0, &set), "+OK\r\n");
    let more = [&[1, 128, 7][..], &element("b"), &element("c")].concat();
    assert_eq!(restore(&mut node, "set", 0, &more), "+OK\r\n");
    assert_eq!(
        restore(&mut node, "set", 0, &more),
        "+OK\r\n",
        "once more is as once"
    );
    assert_eq!(node.run("SCARD set"), ":3\r\n");
    let list = [&[1, 0, 6][..], &element("x")].concat();
    let more = [&[1, 128, 6][..], &element("y")].concat();
    assert_eq!(restore(&mut node, "list", 0, &list), "+OK\r\n");
    assert_eq!(restore(&mut node, "list", 0, &more), "+OK\r\n");
    assert_eq!(node.run("LRANGE list 0 -1"), "*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
    // What is none changes nothing, whatever else the command has.
    for wrong in [
        &b""[..],
        b"\x02\x00\x00x",
        b"\x01\x00\x0ax",
        b"\x01\x00\x01x",
        b"\x01\x80\x00x",
    ] {
        let words: [&[u8]; 7] = [b"MRESTORE", b"new", b"0", b"\x01\x00\x00x", b"list", b"0", wrong];
        assert!(
            run_words(&mut node, &words).starts_with("-ERR the payload"),
            "{wrong:?}"
        );
        assert_eq!(node.run("EXISTS new"), ":0\r\n");
    }
    assert!(restore(&mut node, "nothing", 0, &more).starts_with("-ERR there is no large collection"));
    assert!(restore(&mut node, "set", 0, &more).starts_with("-ERR there is no large collection"));
    assert!(restore(&mut node, "s", -1, b"\x01\x00\x00x").starts_with("-ERR invalid expire"));
}

#[test]
fn a_long_stream_goes_in_pieces_and_is_restored_as_it_was() {
    const STREAM: u8 = 10;
    let mut node = Node::new(3);
    let mut entry = EntryBuf::new(&header(100, 1));
    entry.begin_own_batch();
    for number in 1..=2_000 {
        let (id, text) = (format!("{number}-1"), format!("{number:100}"));
        push(
            &mut entry,
            0,
            &[b"XADD", b"stream", id.as_bytes(), b"field", text.as_bytes()],
        );
    }
    node.apply_entry(&entry.finish());
    let found = contents(&mut node);
    let [(0, _, objects)] = &found[..] else {
        panic!("there is one: {found:?}");
    };
    let [(head, value)] = &objects[..] else {
        panic!("there is one: {objects:?}");
    };
    assert_eq!(head.last(), Some(&STREAM));
    assert!(value.len() > 100_000, "it is long: {}", value.len());
    let mut restored = Node::new(4);
    restored.open(1_000);
    let payload = [&[1, 0, STREAM][..], value].concat();
    let words: [&[u8]; 4] = [b"MRESTORE", b"stream", b"0", &payload];
    assert_eq!(run_words(&mut restored, &words), "+OK\r\n");
    assert_eq!(restored.run("XLEN stream"), ":2000\r\n");
    let last = format!(
        "*1\r\n*2\r\n$6\r\n2000-1\r\n*2\r\n$5\r\nfield\r\n$100\r\n{:100}\r\n",
        2_000
    );
    assert_eq!(restored.run("XREVRANGE stream + - COUNT 1"), last);
}
