//! What a node makes of what its replicas copy.

use backup::{CopiedPiece, Desk, DeskOrder, SILENCE_MAX};
use ids::{Db, GroupId, HashSeed, PartitionCount, PartitionRange, SemanticsVersion, UnixMillis};
use keyspace::{CopyStep, Header, Keyspace, LeaderLocal};
use resp::{ArgsBuf, Protocol, ReplyWriter};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The group of a node that has one.
fn group() -> GroupId {
    GroupId::new(0)
}

/// A node with one group, whose replica is here.
struct Node {
    keyspace: Keyspace,
    local: LeaderLocal,
    desk: Desk,
    directory: PathBuf,
    now: Instant,
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

impl Node {
    fn new(name: &str) -> Node {
        let partitions = PartitionCount::new(8).expect("not too many");
        let directory = std::env::temp_dir().join(format!("chorale-desk-{name}-{}", std::process::id()));
        let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::all(partitions));
        let header = Header {
            semantics: SemanticsVersion::CURRENT,
            now: UnixMillis(1_000),
            seed: 7,
        };
        keyspace.open(&header).expect("the rules are known");
        Node {
            keyspace,
            local: LeaderLocal::new(1),
            desk: Desk::new(directory.clone(), 8),
            directory,
            now: Instant::now(),
        }
    }

    fn run(&mut self, db: u8, words: &[&str]) {
        let words = ArgsBuf::from_slices(words);
        let (mut out, args) = (Vec::new(), words.as_args());
        let spec = command::resolve_in_group(args).expect("a known command");
        let command = command::parse(spec, args).expect("on keys").expect("well formed");
        let mut writer = ReplyWriter::new(&mut out, Protocol::Resp2);
        let db = Db::new(db).expect("below sixteen");
        self.keyspace
            .apply_command(db, &command, &mut self.local, &mut writer);
        assert_ne!(out.first(), Some(&b'-'), "{}", String::from_utf8_lossy(&out));
    }

    fn ask(&mut self, line: &str) -> String {
        let words = ArgsBuf::from_slices(line.split(' '));
        let reply = self.desk.on_question(words.as_args(), self.now);
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn furnish(&mut self) {
        for number in 0..300 {
            self.run(0, &["SET", &format!("key:{number}"), &"v".repeat(number)]);
            self.run(1, &["HSET", &format!("hash:{number}"), "a", "1", "b", "2"]);
        }
        let members: Vec<String> = (0..2_000).map(|member| format!("member:{member:100}")).collect();
        for chunk in members.chunks(100) {
            let words: Vec<&str> = ["SADD", "large"]
                .into_iter()
                .chain(chunk.iter().map(String::as_str))
                .collect();
            self.run(0, &words);
        }
        self.run(5, &["SET", "alone", &"x".repeat(100_000)]);
        self.run(3, &["SET", "with a deadline", "1", "PXAT", "5000"]);
    }

    /// Hands the desk what is copied, piece by piece, up to the mark; `meanwhile` is called between two pieces.
    fn back_up(&mut self, backup: u64, mut meanwhile: impl FnMut(&mut Node, usize)) -> Vec<String> {
        assert_eq!(self.ask(&format!("BACKUP BEGIN {backup} 0")), "+OK\r\n");
        assert!(self.keyspace.begin_copy(backup));
        for piece in 0.. {
            match self.keyspace.next_of_copy(backup, 3_000) {
                CopyStep::More(chunk) => self.desk.on_piece(backup, group(), CopiedPiece::Chunk(chunk)),
                CopyStep::Ready => break,
                other => panic!("{other:?}"),
            }
            meanwhile(self, piece);
        }
        self.desk.on_piece(backup, group(), CopiedPiece::Ready);
        assert!(self.ask(&format!("BACKUP STATUS {backup}")).contains("ready"));
        self.run(0, &["BACKUP", "MARK", &backup.to_string()]);
        let CopyStep::Last(chunk) = self.keyspace.next_of_copy(backup, 1) else {
            panic!("the mark was set");
        };
        self.desk.on_piece(backup, group(), CopiedPiece::Last(chunk));
        assert!(self.ask(&format!("BACKUP STATUS {backup}")).contains("marked"));
        for order in self.desk.take_orders() {
            if let DeskOrder::Merge(job) = order {
                self.desk.on_merged(job.run());
            }
        }
        assert!(self.ask(&format!("BACKUP STATUS {backup}")).contains("written"));
        let parts = self.ask(&format!("BACKUP PARTS {backup}"));
        let names = parts
            .split("\r\n")
            .filter(|line| line.len() == 70)
            .map(str::to_owned);
        names.collect()
    }
}

#[test]
fn equal_objects_make_equal_parts_however_they_came() {
    let mut node = Node::new("equal");
    node.furnish();
    // The databases change places, keys come, change and go, large ones among them, and all is as before in the end.
    let restless = node.back_up(1, |node, piece| match piece {
        3 => node.run(0, &["SWAPDB", "0", "1"]),
        5 => node.run(1, &["DEL", "key:7", "key:8"]),
        8 => node.run(1, &["SADD", "large", "one more"]),
        9 => node.run(0, &["SWAPDB", "0", "1"]),
        12 => {
            node.run(0, &["SET", "key:7", &"v".repeat(7)]);
            node.run(0, &["SET", "key:8", &"w".repeat(8)]);
            node.run(0, &["SREM", "large", "one more"]);
        }
        20 => node.run(0, &["SET", "key:8", &"v".repeat(8)]),
        25 => node.run(9, &["SET", "for a moment", "1"]),
        30 => node.run(9, &["FLUSHDB"]),
        _ => {}
    });
    assert_eq!(node.ask("BACKUP END 1"), "+OK\r\n");
    let calm = node.back_up(2, |_, _| {});
    assert_eq!(restless, calm);
    assert_eq!(calm.len(), 8, "every partition has keys");
    node.run(0, &["SET", "key:8", "changed"]);
    assert_eq!(node.ask("BACKUP END 2"), "+OK\r\n");
    let changed = node.back_up(3, |_, _| {});
    let before: BTreeSet<&String> = calm.iter().collect();
    let others = changed.iter().filter(|name| !before.contains(name));
    assert_eq!(others.count(), 1, "one partition has changed");
}

#[test]
fn a_part_is_read_as_it_lies_there() {
    let mut node = Node::new("read");
    node.furnish();
    let parts = node.back_up(7, |_, _| {});
    let name = &parts[0];
    let file = std::fs::read(node.directory.join("7").join(name)).expect("it is there");
    let words = |offset: usize, count: usize| {
        ArgsBuf::from_slices([
            "BACKUP",
            "READ",
            "7",
            name,
            &offset.to_string(),
            &count.to_string(),
        ])
    };
    let mut read = |offset, count| node.desk.on_question(words(offset, count).as_args(), node.now);
    assert_eq!(read(8, 100), [b"$100\r\n", &file[8..108], b"\r\n"].concat());
    assert_eq!(
        read(file.len() - 1, 100),
        [b"$1\r\n", &file[file.len() - 1..], b"\r\n"].concat()
    );
    assert_eq!(read(file.len() + 5, 100), b"$0\r\n\r\n");
    assert!(read(0, 2 << 20).starts_with(b"-ERR not more than"));
    assert!(
        node.ask("BACKUP READ 7 ../../secret 0 1")
            .starts_with("-ERR this node has no such part")
    );
    assert!(
        node.ask("BACKUP READ 8 x 0 1")
            .starts_with("-ERR this node has no backup 8")
    );
    assert_eq!(node.ask("BACKUP END 7"), "+OK\r\n");
    assert!(!node.directory.exists(), "nothing is left");
}

#[test]
fn what_is_lost_is_said_and_who_is_silent_is_forgotten() {
    let mut node = Node::new("lost");
    node.furnish();
    assert_eq!(node.ask("BACKUP BEGIN 4 0 1"), "+OK\r\n");
    node.desk
        .on_piece(4, group(), CopiedPiece::Lost("it has gone".to_owned()));
    node.desk
        .on_piece(4, GroupId::new(1), CopiedPiece::Chunk(b"nonsense".to_vec()));
    let status = node.ask("BACKUP STATUS 4");
    assert!(
        status.contains("it has gone") && status.contains("no chunk of objects"),
        "{status}"
    );
    assert!(
        node.ask("BACKUP PARTS 4")
            .starts_with("-ERR the parts of this backup are not all written")
    );
    // Another one waits until it is over.
    assert_eq!(
        node.ask("BACKUP BEGIN 5 0"),
        "-BUSY this node is at another backup, 4: begin when that is over. One that nobody asks about is forgotten after 60 seconds\r\n"
    );
    assert!(node.ask("BACKUP STATUS 4").starts_with('*'), "it goes on");
    assert_eq!(node.ask("BACKUP END 4"), "+OK\r\n");
    assert_eq!(node.ask("BACKUP BEGIN 5 0"), "+OK\r\n");
    assert!(
        node.ask("BACKUP STATUS 4")
            .starts_with("-ERR this node has no backup 4")
    );
    node.desk.tick(node.now + SILENCE_MAX);
    assert!(node.directory.exists());
    node.desk.tick(node.now + SILENCE_MAX + Duration::from_secs(1));
    assert!(!node.directory.exists());
    assert!(matches!(node.desk.take_orders().last(), Some(DeskOrder::End)));
    for wrong in [
        "BACKUP BEGIN 0 0",
        "BACKUP BEGIN 1 x",
        "BACKUP STATUS -1",
        "BACKUP END x",
    ] {
        assert!(node.ask(wrong).starts_with("-ERR "), "{wrong}");
    }
}
