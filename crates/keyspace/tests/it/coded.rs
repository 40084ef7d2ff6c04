//! Values of which each replica keeps a fragment: all replicas are equal, whatever each of them has, and any few of them have everything.

use crate::node::{Node, db, header};
use bytes::Bytes;
use coding::{Code, CodeEpoch, Fragment, Gather, Gathered};
use ids::{Db, Incarnation, Prng, UnixMillis, Version};
use keyspace::{
    Demoted, Given, GroupCode, KeyVersion, Keyspace, Read, Refilled, SnapshotReceiver, THRESHOLD_MIN,
    Transfer, TransferError, TransferStep, WrongValue, allocation_size, read_records,
};
use mutations::Mutation;
use resp::{ArgsBuf, Protocol};

const IN_FRAGMENTS: &[u8] =
    b"-TRYAGAIN a value of this command is in fragments, and was not gathered; nothing was done\r\n";

const THRESHOLD: u32 = 100;

/// Keys of a database.
const KEYS: u64 = 10;

pub(crate) fn group_code(replicas: usize, epoch: u32) -> GroupCode {
    let code = Code::of_replicas(replicas).expect("there is one");
    GroupCode {
        epoch: CodeEpoch(epoch),
        code,
        threshold: THRESHOLD,
        holders: (1..=replicas as u64)
            .map(|holder| Some(Incarnation(holder)))
            .collect(),
        is_on: true,
    }
}

/// The value that fragments of these replicas make up, or what is the matter.
fn gathered(fragments: Vec<Fragment<Bytes>>) -> Result<Vec<u8>, Gathered> {
    let head = fragments[0].head;
    let mut gather = Gather::new(head);
    for fragment in fragments {
        gather.offer(fragment).expect("all are of one value");
    }
    let mut whole = vec![0; head.length];
    match gather.decode(&mut whole) {
        Gathered::Whole { corrupt } if corrupt.is_empty() => Ok(whole),
        other => Err(other),
    }
}

pub(crate) fn words<const N: usize>(words: [&[u8]; N]) -> ArgsBuf {
    ArgsBuf::from_slices(words)
}

pub(crate) fn full_key(db: Db, key: &[u8]) -> (Db, Box<[u8]>) {
    (db, key.into())
}

fn is_present(keyspace: &Keyspace, db: Db, key: &[u8]) -> bool {
    matches!(keyspace.version(db, key), KeyVersion::Present(_))
}

pub(crate) fn version(keyspace: &Keyspace, db: Db, key: &[u8]) -> Version {
    assert!(is_present(keyspace, db, key), "there is no such key");
    keyspace.version_of(db, key).expect("it is there")
}

/// What this replica gives of a value, whatever the version of its key.
fn given(keyspace: &Keyspace, db: Db, key: &[u8]) -> Option<Fragment<Bytes>> {
    match keyspace.fragment(db, key, keyspace.version_of(db, key)?) {
        Given::Fragment(bytes) => Some(Fragment::read_shared(&bytes).expect("it was written a moment ago")),
        Given::Nothing => None,
        Given::Newer | Given::Older => panic!("that is the version that it has"),
    }
}

/// All keys whose values are settled, and those that are held though nobody is to let go of them; by steps of a few objects.
pub(crate) fn found(keyspace: &Keyspace) -> [Vec<(Db, Box<[u8]>)>; 2] {
    let (mut settled, mut held, mut at) = (Vec::new(), Vec::new(), None);
    loop {
        at = keyspace.find_settled(at, 3, &mut settled, &mut held);
        if at.is_none() {
            return [settled, held];
        }
    }
}

pub(crate) fn is_settled(keyspace: &Keyspace, db: Db, key: &[u8]) -> bool {
    found(keyspace)[0].contains(&full_key(db, key))
}

/// The same, if it is settled.
fn fragment(keyspace: &Keyspace, db: Db, key: &[u8]) -> Option<Fragment<Bytes>> {
    given(keyspace, db, key).filter(|_| is_settled(keyspace, db, key))
}

/// A step of demotion of a replica that keeps nothing in use.
pub(crate) fn demote(node: &mut Node, budget: usize) -> Demoted {
    node.keyspace.demote(budget, Version(u64::MAX), &node.local, None)
}

/// The replicas of a group, and a keyspace of the same commands that keeps everything whole.
pub(crate) struct Group {
    pub(crate) nodes: Vec<Node>,
    plain: Node,
    code: GroupCode,
    prng: Prng,
    now: i64,
}

impl Group {
    pub(crate) fn new(replicas: usize, seed: u64) -> Group {
        let mut group = Group {
            nodes: (0..replicas as u64).map(Node::new).collect(),
            plain: Node::new(99),
            code: group_code(replicas, 1),
            prng: Prng::new(seed),
            now: 1_000,
        };
        for (node, holder) in group.nodes.iter_mut().zip(1..) {
            assert!(node.keyspace.set_code(group.code.clone()));
            node.keyspace.hold_as(Incarnation(holder));
        }
        group.open(0);
        group
    }

    fn open(&mut self, millis: i64) {
        self.now += millis;
        let seed = self.prng.next_u64();
        for node in self.nodes.iter_mut().chain([&mut self.plain]) {
            node.open_with(self.now, seed);
            node.local.now = UnixMillis(self.now);
        }
    }

    /// As many of the replicas as make up a value, drawn.
    fn draw(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.nodes.len()).collect();
        for at in 0..self.code.code.data() {
            let other = at + self.prng.below((all.len() - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(self.code.code.data());
        all
    }

    pub(crate) fn gather(&mut self, db: Db, key: &[u8]) -> Vec<u8> {
        let fragments = self
            .draw()
            .into_iter()
            .map(|at| given(&self.nodes[at].keyspace, db, key).expect("it is settled"));
        let fragments = fragments.collect();
        gathered(fragments).expect("they are of different rows, and nothing is damaged")
    }

    /// An entry of a command, before which its leader brings back what the command needs. What it answers.
    pub(crate) fn run(&mut self, db: Db, args: &ArgsBuf) -> Vec<u8> {
        let spec = command::resolve_in_group(args.as_args()).expect("a command");
        let command = command::parse(spec, args.as_args())
            .expect("on keys")
            .expect("well formed");
        let mut needed: Vec<Vec<Box<[u8]>>> = Vec::new();
        for node in &self.nodes {
            let mut keys = Vec::new();
            node.keyspace
                .each_to_refill(db, &command, |key| keys.push(key.into()));
            needed.push(keys);
        }
        assert!(
            needed.iter().all(|keys| *keys == needed[0]),
            "what is settled is alike everywhere"
        );
        for key in &needed[0] {
            let whole = self.gather(db, key);
            assert_eq!(Some(&whole), self.plain.keyspace.text(db, key).as_ref());
            for node in &mut self.nodes {
                let version = version(&node.keyspace, db, key);
                assert_eq!(node.keyspace.refill(db, key, version, &whole), Ok(Refilled::Held));
            }
        }
        let plain = self.plain.apply(db, Protocol::Resp2, args.as_args());
        let replies: Vec<Vec<u8>> = self
            .nodes
            .iter_mut()
            .map(|node| node.apply(db, Protocol::Resp2, args.as_args()))
            .collect();
        let first = &replies[0];
        assert!(replies.iter().all(|reply| reply == first), "{args:?}");
        let by_pattern = args.as_args().arg(0) == b"SORT";
        if !by_pattern || first != IN_FRAGMENTS {
            assert_eq!(
                String::from_utf8_lossy(first),
                String::from_utf8_lossy(&plain),
                "{args:?}"
            );
        }
        plain
    }

    pub(crate) fn line(&mut self, line: &str) -> String {
        let args = ArgsBuf::from_slices(line.split_ascii_whitespace());
        String::from_utf8_lossy(&self.run(db(0), &args)).into_owned()
    }

    pub(crate) fn settle(&mut self, up_to: Version) -> bool {
        let outcomes: Vec<bool> = self
            .nodes
            .iter_mut()
            .map(|node| node.keyspace.settle(up_to))
            .collect();
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
        outcomes[0]
    }

    pub(crate) fn settle_all(&mut self) {
        let applied = self.nodes[0].keyspace.applied();
        assert!(self.settle(applied));
    }

    pub(crate) fn demote_all(&mut self) {
        for node in &mut self.nodes {
            while !demote(node, 100).is_done {}
        }
    }

    /// Some command, on few keys.
    fn random_command(&mut self) -> ArgsBuf {
        let prng = &mut self.prng;
        let [key, other] = [(); 2].map(|()| format!("k:{}", prng.below(KEYS)).into_bytes());
        let (key, other) = (&key[..], &other[..]);
        let length = match prng.below(12) {
            0 => 0,
            1 => THRESHOLD as usize - 1,
            2 => THRESHOLD as usize,
            3 => 150_000,
            4..7 => prng.below(40) as usize,
            _ => THRESHOLD as usize + prng.below(900) as usize,
        };
        let value: Vec<u8> = (0..length).map(|_| prng.next_u64() as u8).collect();
        let value = &value[..];
        let number = prng.below(1_500).to_string().into_bytes();
        let number = &number[..];
        match prng.below(44) {
            0..8 => words([b"SET", key, value]),
            8 => words([b"SET", key, value, b"KEEPTTL"]),
            9 => words([b"SET", key, value, b"GET"]),
            10 => words([b"SET", key, value, b"NX"]),
            11 => words([b"MSET", key, value, other, b"a value"]),
            12 => words([b"APPEND", key, b"more"]),
            13 => words([b"SETRANGE", key, number, b"range"]),
            14 => words([b"SETRANGE", key, number, b""]),
            15 => words([b"GETRANGE", key, b"10", b"-3"]),
            16 => words([b"GET", key]),
            17 => words([b"MGET", key, other]),
            18 => words([b"STRLEN", key]),
            19..21 => words([b"PEXPIRE", key, number]),
            21 => words([b"PEXPIRE", key, b"900000"]),
            22 => words([b"PERSIST", key]),
            23 => words([b"GETEX", key, b"PX", b"500000"]),
            24 => words([b"GETEX", key]),
            25..27 if key != other => words([b"RENAME", key, other]),
            27..29 if key != other => words([b"COPY", key, other, b"REPLACE"]),
            29 => words([b"COPY", key, key, b"DB", b"1", b"REPLACE"]),
            30 => words([b"MOVE", key, b"1"]),
            31 => words([b"DEL", key]),
            32 => words([b"GETDEL", key]),
            33 => words([b"INCR", key]),
            34 => words([b"SETBIT", key, number, b"1"]),
            35 => words([b"BITOP", b"XOR", b"k:0", key, other]),
            36 => words([b"BITCOUNT", key]),
            37 => words([b"PFADD", key, number]),
            38 => words([b"CAS", key, b"a value", value]),
            39 => match prng.below(6) {
                0 => words([b"SWAPDB", b"0", b"1"]),
                1 => words([b"FLUSHDB"]),
                _ => words([b"EXISTS", key]),
            },
            40 => words([b"RPUSH", key, b"1", b"2"]),
            41 => words([b"OBJECT", b"ENCODING", key]),
            42 => words([b"SORT", b"list", b"BY", b"k:*", b"ALPHA", b"GET", b"k:*"]),
            _ => words([
                b"SORT", b"list", b"BY", b"nosort", b"GET", b"k:*", b"STORE", b"sorted",
            ]),
        }
    }

    /// Something happens.
    fn step(&mut self) {
        match self.prng.below(10) {
            0 => {
                let applied = self.nodes[0].keyspace.applied().0;
                let up_to = applied.saturating_sub(self.prng.below(20));
                self.settle(Version(up_to));
            }
            1..3 => {
                let node = self.prng.below(self.nodes.len() as u64) as usize;
                let budget = self.prng.below(20) as usize;
                demote(&mut self.nodes[node], budget);
            }
            3 => {
                let millis = self.prng.below(400) as i64;
                self.open(millis);
            }
            _ => {
                let number = if self.prng.below(4) == 0 { 1 } else { 0 };
                let command = self.random_command();
                self.run(db(number), &command);
            }
        }
    }

    /// All replicas are equal; what is settled is made up of any few, what is not is whole everywhere, and a read that answers answers right.
    pub(crate) fn check(&mut self) {
        self.check_hashes();
        for number in 0..2 {
            for key in (0..KEYS).map(|key| format!("k:{key}").into_bytes()) {
                self.check_key(db(number), &key);
            }
        }
    }

    /// All replicas are equal.
    pub(crate) fn check_hashes(&self) {
        let hashes = self.nodes.iter().map(|node| {
            let keyspace = &node.keyspace;
            (keyspace.state_hash(), keyspace.scrub(keyspace.scrub_round()))
        });
        let hashes: Vec<(u64, u64)> = hashes.collect();
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    }

    fn check_key(&mut self, db: Db, key: &[u8]) {
        let text = self.plain.keyspace.text(db, key);
        let is_there = is_present(&self.plain.keyspace, db, key);
        let fragments = self.nodes.iter().map(|node| fragment(&node.keyspace, db, key));
        let settled = fragments.flatten().count();
        if is_there && settled > 0 {
            assert_eq!(settled, self.nodes.len(), "what is settled is so everywhere");
            assert_eq!(Some(self.gather(db, key)), text);
        }
        let get = words([b"GET", key]);
        let plain = self.plain.apply(db, Protocol::Resp2, get.as_args());
        for node in &mut self.nodes {
            assert_eq!(is_present(&node.keyspace, db, key), is_there);
            let command = command::Command::Get { key };
            let mut out = Vec::new();
            let mut writer = resp::ReplyWriter::new(&mut out, Protocol::Resp2);
            node.local.to_gather.clear();
            match node.keyspace.read(db, &command, &mut node.local, &mut writer) {
                Read::Answered => assert!(out == plain, "{key:?}"),
                Read::NeedsWhole => {
                    assert!(settled > 0, "what is not settled is whole");
                    assert_eq!(node.local.to_gather, [full_key(db, key)]);
                    assert_eq!(out, IN_FRAGMENTS);
                }
                Read::AwaitsTime => panic!("the clocks agree"),
            }
        }
    }

    /// A replica loses its memory, and is sent the state of another one while things go on.
    fn refill_replica(&mut self) {
        let lost = self.prng.below(self.nodes.len() as u64) as usize;
        let sender = (lost + 1 + self.prng.below(self.nodes.len() as u64 - 1) as usize) % self.nodes.len();
        let mut transfer = Transfer::begin(&mut self.nodes[sender].keyspace).expect("it is the first");
        let mut receiver = SnapshotReceiver::new();
        loop {
            let bytes = 200 + self.prng.below(60_000) as usize;
            match transfer.next_chunk(&mut self.nodes[sender].keyspace, bytes) {
                TransferStep::More(chunk) => {
                    receiver.take(&chunk).expect("it is the next");
                }
                TransferStep::Last(chunk) => {
                    receiver.take(&chunk).expect("it is the last");
                    break;
                }
                TransferStep::Lost => panic!("little changes"),
            }
            for _ in 0..self.prng.below(4) {
                self.step();
            }
        }
        let keyspace = receiver.finish().expect("it is complete");
        assert_eq!(keyspace.state_hash(), self.nodes[sender].keyspace.state_hash());
        self.nodes[lost].keyspace = keyspace;
        self.nodes[lost].keyspace.hold_as(Incarnation(lost as u64 + 1));
        // From what the others have it makes its own fragments.
        loop {
            let demoted = demote(&mut self.nodes[lost], 7);
            for (db, key) in demoted.others {
                let from = (0..self.nodes.len()).filter(|at| *at != lost);
                let fragments = from.map(|at| given(&self.nodes[at].keyspace, db, &key).expect("settled"));
                let whole = gathered(fragments.collect()).expect("all but one are enough");
                let keyspace = &mut self.nodes[lost].keyspace;
                let version = keyspace.version_of(db, &key).expect("expired or not");
                assert!(!keyspace.recode(db, &key, Version(0), &whole));
                assert!(keyspace.recode(db, &key, version, &whole));
            }
            if demoted.is_done {
                return;
            }
        }
    }
}

fn run_seed(seed: u64) {
    let replicas = 3 + (seed % 4) as usize;
    let mut group = Group::new(replicas, seed);
    group.line("RPUSH list 0 1 2 3 4 5 6 7 8 9");
    for round in 0..12 {
        for _ in 0..30 {
            group.step();
        }
        group.check();
        if round % 4 == 3 {
            group.refill_replica();
            group.check();
        }
    }
    group.settle_all();
    group.demote_all();
    group.check();
    for key in (0..KEYS).map(|key| format!("k:{key}")) {
        let text = group.plain.keyspace.text(db(0), key.as_bytes());
        if text.is_some_and(|text| text.len() >= THRESHOLD as usize) {
            for node in &mut group.nodes {
                assert_eq!(
                    node.read(&format!("GET {key}")).1,
                    Read::NeedsWhole,
                    "nothing is left whole"
                );
            }
        }
    }
}

#[test]
fn replicas_that_demote_at_their_own_pace_are_equal_and_any_few_have_every_value() {
    for seed in 0..40 {
        run_seed(seed);
    }
}

#[test]
fn every_mistake_with_fragments_is_noticed() {
    for mutation in [
        Mutation::FormIsHashed,
        Mutation::SettledAboveWatermark,
        Mutation::SettledForgotten,
    ] {
        mutations::plant(Some(mutation));
        let noticed = (0..20).any(|seed| std::panic::catch_unwind(|| run_seed(seed)).is_err());
        mutations::plant(None);
        assert!(noticed, "{mutation:?}");
    }
    let scenes: [(Mutation, fn()); 5] = [
        (
            Mutation::NewerIgnored,
            crate::coding_steps::a_fragment_is_given_of_the_version_that_was_asked_for_and_of_no_other,
        ),
        (Mutation::RefillNotChecked, a_refill_of_other_bytes_is_damage),
        (
            Mutation::OldRefillTaken,
            a_refill_of_an_earlier_value_does_nothing,
        ),
        (Mutation::LockedIsSettled, what_is_locked_is_held_until_it_is_free),
        (
            Mutation::OwnRowsLost,
            crate::coding_steps::a_replica_that_is_sent_the_state_of_another_one_keeps_its_own_rows,
        ),
    ];
    for (mutation, scene) in scenes {
        mutations::plant(Some(mutation));
        let noticed = std::panic::catch_unwind(scene).is_err();
        mutations::plant(None);
        assert!(noticed, "{mutation:?}");
    }
}

/// Three replicas with a value of 1,000 bytes under `k`, settled; the first one has a fragment alone.
pub(crate) fn with_a_coded_value() -> (Group, Vec<u8>) {
    let mut group = Group::new(3, 7);
    let value: Vec<u8> = (0..1_000u32).map(|at| (at * 7 / 5) as u8).collect();
    group.run(db(0), &words([b"SET", b"k", &value]));
    group.settle_all();
    assert_eq!(demote(&mut group.nodes[0], 10).values, 1);
    let demoted = demote(&mut group.nodes[0], 10);
    assert_eq!((demoted.values, demoted.is_done), (0, true));
    (group, value)
}

#[test]
fn what_does_not_need_the_bytes_is_done_with_a_fragment() {
    let (mut group, _) = with_a_coded_value();
    assert_eq!(
        group.run(db(0), &words([b"SETRANGE", b"k", b"5", b""])),
        b":1000\r\n"
    );
    for (line, reply) in [
        ("STRLEN k", ":1000\r\n"),
        ("EXISTS k", ":1\r\n"),
        ("TYPE k", "+string\r\n"),
        ("OBJECT ENCODING k", "$3\r\nraw\r\n"),
        (
            "LPUSH k v",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        ),
        ("EXPIRE k 100", ":1\r\n"),
        ("TTL k", ":100\r\n"),
        ("RENAME k other", "+OK\r\n"),
        ("COPY other k", ":1\r\n"),
        ("MOVE other 1", ":1\r\n"),
        ("PERSIST k", ":1\r\n"),
        ("SETNX k v", ":0\r\n"),
    ] {
        assert_eq!(group.line(line), reply, "{line}");
        group.check();
        for (number, key) in [(0, &b"k"[..]), (1, b"k"), (0, b"other"), (1, b"other")] {
            group.check_key(db(number), key);
        }
    }
    assert_eq!(group.nodes[0].read("GET k").1, Read::NeedsWhole);
    for (number, key) in [(0, &b"k"[..]), (1, b"other")] {
        let fragments = group
            .nodes
            .iter()
            .map(|node| fragment(&node.keyspace, db(number), key));
        let fragments: Vec<_> = fragments.flatten().collect();
        assert_eq!(fragments.len(), 3, "no replica has brought it back");
        let versions: Vec<Version> = fragments.iter().map(|fragment| fragment.head.version).collect();
        assert_eq!(versions[1..], versions[..2], "they have the version of the key");
    }
    assert_eq!(group.line("SET k v"), "+OK\r\n");
    assert_eq!(group.line("DEL k"), ":1\r\n");
    group.check();
}

#[test]
fn what_needs_the_bytes_is_refused_without_them_everywhere_alike_and_does_nothing() {
    let (mut group, _) = with_a_coded_value();
    group.line("SET short v");
    for line in [
        "GET k",
        "MGET short k",
        "GETRANGE k 0 1",
        "LCS k short",
        "GETBIT k 1",
        "BITCOUNT k",
        "BITPOS k 1",
        "BITFIELD k GET u8 0",
        "SET k v GET",
        "SET k v IFEQ v",
        "GETEX k",
        "GETDEL k",
        "APPEND k v",
        "SETRANGE k 0 v",
        "INCR k",
        "INCRBYFLOAT k 1",
        "CAS k v w",
        "ADD k 1",
        "XFER k short 1",
        "XFER.FROM k 1",
        "SETBIT k 1 1",
        "BITOP AND to short k",
        "BITFIELD k SET u8 0 1",
        "PFADD k v",
        "PFCOUNT k",
        "PFMERGE to k",
    ] {
        let args = ArgsBuf::from_slices(line.split_ascii_whitespace());
        let before = version(&group.nodes[0].keyspace, db(0), b"k");
        for node in &mut group.nodes {
            let reply = node.apply(db(0), Protocol::Resp2, args.as_args());
            assert_eq!(reply, IN_FRAGMENTS, "{line}");
            assert_eq!(version(&node.keyspace, db(0), b"k"), before);
        }
    }
    group.line("RPUSH list a");
    for line in [
        "SORT list BY *k ALPHA GET k*",
        "SORT list ALPHA GET nothing:* STORE to",
    ] {
        let args = ArgsBuf::from_slices(line.split_ascii_whitespace());
        for node in &mut group.nodes {
            assert_ne!(
                node.apply(db(0), Protocol::Resp2, args.as_args()),
                IN_FRAGMENTS,
                "no pattern finds it"
            );
        }
        group.plain.apply(db(0), Protocol::Resp2, args.as_args());
    }
    group.line("RPUSH names k");
    for line in [
        "SORT names ALPHA GET *",
        "SORT names BY * GET #",
        "SORT names ALPHA GET * STORE to",
    ] {
        let args = ArgsBuf::from_slices(line.split_ascii_whitespace());
        for node in &mut group.nodes {
            assert_eq!(
                node.apply(db(0), Protocol::Resp2, args.as_args()),
                IN_FRAGMENTS,
                "{line}"
            );
        }
    }
    group.line("DEL to");
    group.check();
}

#[test]
fn a_read_is_answered_from_what_is_here() {
    let (mut group, value) = with_a_coded_value();
    group.line("RPUSH names k");
    for line in ["GET k", "STRLEN k", "SORT names ALPHA GET *"] {
        let [coded, whole, _] = &mut group.nodes[..] else {
            panic!("there are three")
        };
        coded.local.to_gather.clear();
        let (reply, read) = coded.read(line);
        let (expected, answered) = whole.read(line);
        assert_eq!(answered, Read::Answered);
        if line == "STRLEN k" {
            assert_eq!((reply, read), (expected, Read::Answered));
        } else {
            assert_eq!((reply.as_bytes(), read), (IN_FRAGMENTS, Read::NeedsWhole));
            assert_eq!(coded.local.to_gather, [full_key(db(0), b"k")]);
        }
    }
    assert_eq!(group.gather(db(0), b"k"), value);
}

#[test]
fn a_value_that_was_brought_back_is_no_other_and_settles_again() {
    let (mut group, value) = with_a_coded_value();
    let seen = group.nodes[0].keyspace.version(db(0), b"k");
    assert_eq!(group.line("GETRANGE k 0 0"), "$1\r\n\0\r\n");
    assert_eq!(group.line("SETBIT k 0 0"), ":0\r\n", "it was zero");
    assert_eq!(
        group.nodes[0].keyspace.version(db(0), b"k"),
        seen,
        "whoever watches it sees nothing"
    );
    for node in &mut group.nodes {
        assert!(fragment(&node.keyspace, db(0), b"k").is_none());
        let KeyVersion::Present(version) = seen else {
            panic!("it is there")
        };
        assert_eq!(
            node.keyspace.refill(db(0), b"k", version, &value),
            Ok(Refilled::Held),
            "once more"
        );
        assert_eq!(demote(node, 10).values, 0);
    }
    group.check();
    group.settle(Version(0));
    assert_eq!(
        demote(&mut group.nodes[0], 10).values,
        1,
        "it is as settled as it was"
    );
    group.check();
}

#[test]
fn a_refill_of_other_bytes_is_damage() {
    let (mut group, mut value) = with_a_coded_value();
    value[500] ^= 4;
    for node in &mut group.nodes {
        let (applied, version) = (node.keyspace.applied(), version(&node.keyspace, db(0), b"k"));
        assert_eq!(
            node.keyspace.refill(db(0), b"k", version, &value),
            Err(WrongValue),
            "by its fragment, or by the value"
        );
        assert_eq!(node.keyspace.applied().0, applied.0 + 1);
        assert_eq!(
            node.keyspace.refill(db(0), b"k", version, &value[1..]),
            Err(WrongValue),
            "too short"
        );
    }
    group.check();
}

#[test]
fn a_refill_of_an_earlier_value_does_nothing() {
    let (mut group, value) = with_a_coded_value();
    let before = version(&group.nodes[0].keyspace, db(0), b"k");
    let newer = vec![b'n'; 1_000];
    group.run(db(0), &words([b"SET", b"k", &newer]));
    group.settle_all();
    demote(&mut group.nodes[1], 10);
    for node in &mut group.nodes {
        assert_eq!(
            node.keyspace.refill(db(0), b"k", before, &value),
            Ok(Refilled::NotSettled)
        );
        assert_eq!(
            node.keyspace.refill(db(0), b"nothing", before, &value),
            Ok(Refilled::NotSettled)
        );
    }
    group.check();
}

#[test]
fn what_is_short_or_no_string_or_above_the_mark_stays_whole() {
    let mut group = Group::new(3, 1);
    let below = vec![b'b'; THRESHOLD as usize - 1];
    group.run(db(0), &words([b"SET", b"below", &below]));
    let list = vec![b'l'; 500];
    group.run(db(0), &words([b"RPUSH", b"list", &list]));
    group.run(db(0), &words([b"SET", b"settled", &list]));
    let up_to = group.nodes[0].keyspace.applied();
    group.run(db(0), &words([b"SET", b"above", &list]));
    // What is not applied yet is not known to be settled, whoever says so.
    assert!(group.settle(up_to));
    for node in &mut group.nodes {
        assert_eq!(node.keyspace.settled_up_to(), Some(up_to));
        assert_eq!(demote(node, 100).values, 1);
        assert!(fragment(&node.keyspace, db(0), b"settled").is_some());
        assert!(fragment(&node.keyspace, db(0), b"above").is_none());
    }
    assert!(group.settle(Version(u64::MAX)));
    for node in &mut group.nodes {
        assert_eq!(node.keyspace.settled_up_to(), Some(node.keyspace.applied()));
        assert_eq!(demote(node, 100).values, 1);
    }
    assert!(group.settle(Version(1)), "it does not go back");
    group.check();
}

#[test]
fn a_group_without_a_code_settles_nothing() {
    let mut node = Node::new(1);
    assert!(!node.keyspace.settle(Version(u64::MAX)));
    node.keyspace.hold_as(Incarnation(1));
    assert!(demote(&mut node, 10).is_done);
    let refilled = node.keyspace.refill(db(0), b"k", Version(1), b"value");
    assert_eq!(refilled, Ok(Refilled::NotSettled));
    assert!(fragment(&node.keyspace, db(0), b"k").is_none());
    assert!(!node.keyspace.recode(db(0), b"k", Version(1), b"value"));
    assert_eq!(node.keyspace.code(), None);
}

#[test]
fn a_code_is_followed_by_a_later_one_with_a_threshold_that_is_not_higher() {
    let (mut group, value) = with_a_coded_value();
    let keyspace = &mut group.nodes[0].keyspace;
    let refused = [
        group_code(3, 1),
        GroupCode {
            threshold: THRESHOLD + 1,
            ..group_code(3, 2)
        },
        GroupCode {
            threshold: THRESHOLD_MIN - 1,
            ..group_code(3, 2)
        },
        GroupCode {
            holders: vec![None; 4],
            ..group_code(3, 2)
        },
    ];
    for code in refused {
        assert!(!keyspace.set_code(code));
    }
    assert_eq!(keyspace.code(), Some(&group_code(3, 1)));
    // The first and the third change their rows: one more row is gathered, and each has what it is to have.
    let mut later = group_code(3, 2);
    later.holders.swap(0, 2);
    assert!(keyspace.set_code(later.clone()));
    let node = &mut group.nodes[0];
    assert_eq!(demote(node, 10).others, [full_key(db(0), b"k")]);
    let version = version(&node.keyspace, db(0), b"k");
    assert!(node.keyspace.recode(db(0), b"k", version, &value));
    let fragment = fragment(&node.keyspace, db(0), b"k").expect("it is settled");
    assert_eq!(fragment.head.row.number(), 2);
    assert_eq!(
        fragment.head.epoch,
        CodeEpoch(0),
        "it goes with those that were made before"
    );
    assert!(demote(node, 10).others.is_empty());
}

#[test]
fn a_fragment_takes_what_it_is_said_to() {
    for (length, replicas) in [(256, 3), (1_024, 3), (4_096, 5), (65_536, 3), (200_000, 6)] {
        let mut group = Group::new(replicas, 3);
        group.settle_all();
        let value: Vec<u8> = (0..length).map(|_| group.prng.next_u64() as u8).collect();
        let before: Vec<usize> = group.nodes.iter().map(|node| node.keyspace.memory()).collect();
        for key in 0..20 {
            group.run(
                db(0),
                &words([b"SET", format!("key:{key:03}").as_bytes(), &value]),
            );
        }
        let whole: Vec<usize> = group.nodes.iter().map(|node| node.keyspace.memory()).collect();
        group.settle_all();
        group.demote_all();
        let code = group.code.code;
        for (at, node) in group.nodes.iter().enumerate() {
            let row = code.row(at as u8).expect("there are as many");
            let fragment = fragment(&node.keyspace, db(0), b"key:000").expect("it is coded");
            assert_eq!(
                (fragment.head.row, fragment.bytes.len()),
                (row, code.row_bytes(row, length))
            );
            let saved = whole[at] - node.keyspace.memory();
            let block = |value: usize| {
                // What stands before the key, and the key.
                allocation_size(16 + b"key:000".len() + value)
            };
            let head = 1 + 1 + 1 + 4 + [1, 2, 3][(length.ilog2() / 7) as usize];
            assert!(head <= 16);
            let is = 20 * block(code.row_bytes(row, length) + head);
            assert_eq!(saved, 20 * block(length) - is, "{length} bytes, row {at}");
            assert!(
                node.keyspace.memory() - before[at] >= is,
                "and the places of the keys"
            );
        }
        group.check();
    }
}

#[test]
fn what_is_demoted_at_a_time_is_bounded() {
    let mut group = Group::new(3, 3);
    let value = vec![b'v'; 300_000];
    for key in 0..20 {
        group.run(db(0), &words([b"SET", format!("key:{key}").as_bytes(), &value]));
        group.run(db(0), &words([b"SET", format!("short:{key}").as_bytes(), b"v"]));
    }
    group.settle_all();
    let node = &mut group.nodes[0];
    let (mut calls, mut values) = (0, 0);
    loop {
        let demoted = demote(node, 1_000);
        assert!(demoted.values <= 4, "about a mebibyte");
        values += demoted.values;
        calls += 1;
        if demoted.is_done {
            break;
        }
    }
    assert_eq!(values, 20);
    assert!(calls >= 5);
    assert_eq!(demote(node, 1_000).values, 0);
    group.check();
}

/// A transaction holds the key of a value when an entry settles more.
#[test]
fn what_is_locked_is_held_until_it_is_free() {
    use ids::{Boot, GroupId};
    use keyspace::{BlockCommand, EntryBuf, EntryOperation, InPlaceStep, Prepare, Resolve, Work};
    let mut group = Group::new(3, 5);
    let value = vec![b'v'; 1_000];
    group.run(db(0), &words([b"SET", b"k", &value]));
    group.run(db(0), &words([b"SET", b"free", &value]));
    let txn = txn::TxnId {
        boot: Boot(3),
        worker: 0,
        seq: 1,
        attempt: 1,
    };
    let append = words([b"APPEND", b"k", b"more"]);
    let prepare = |commands: &ArgsBuf, txn, is_whole: bool| {
        let command = BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args: commands.as_args(),
        };
        let mut entry = EntryBuf::new(&header(1_000, 1));
        entry.begin_own_batch();
        entry.push(&EntryOperation::Prepare(Box::new(Prepare {
            txn,
            began: UnixMillis(1),
            participants: [txn::Participant::first(GroupId::new(0))].into(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: match is_whole {
                true => Work::InPlace {
                    steps: vec![InPlaceStep::Run(command)],
                    after_lock: false,
                },
                false => Work::Evaluate {
                    commands: vec![command],
                    is_strict: false,
                },
            },
        })));
        entry.finish()
    };
    let entry = prepare(&append, txn, false);
    for node in &mut group.nodes {
        let (_, replies) = node.apply_entry(&entry);
        let text = String::from_utf8_lossy(&replies[0]).into_owned();
        assert!(text.ends_with(":1004\r\n"), "{text}");
    }
    group.settle_all();
    for node in &mut group.nodes {
        assert_eq!(demote(node, 100).values, 1, "the one that is free");
        assert!(fragment(&node.keyspace, db(0), b"k").is_none());
    }
    group.settle_all();
    for node in &mut group.nodes {
        assert_eq!(demote(node, 100).values, 0, "it is locked still");
    }
    let mut entry = EntryBuf::new(&header(1_000, 2));
    entry.begin_own_batch();
    entry.push(&EntryOperation::Resolve(Resolve {
        decisions: vec![(txn, true)],
    }));
    let entry = entry.finish();
    for node in &mut group.nodes {
        node.apply_entry(&entry);
    }
    group.plain.apply(db(0), Protocol::Resp2, append.as_args());
    group.settle_all();
    for node in &mut group.nodes {
        assert_eq!(demote(node, 100).values, 1);
    }
    // Once all of it is locked, nothing is settled.
    let flush = words([b"FLUSHALL"]);
    let entry = prepare(&flush, txn::TxnId { seq: 2, ..txn }, true);
    for node in &mut group.nodes {
        node.apply_entry(&entry);
        assert!(!node.keyspace.settle(Version(u64::MAX)));
    }
}

/// What stands before the records of a chunk: format, number, seed, partitions, that none has moved and none arrives, and where each
/// database comes from.
const CHUNK_HEAD_BYTES: usize = 1 + 8 + 16 + 6 + 4 + 1 + 16;

/// The chunks of a state of which everything is coded that can be.
fn chunks_of_a_coded_state() -> Vec<Vec<u8>> {
    let (mut group, _) = with_a_coded_value();
    group.run(db(0), &words([b"SET", b"long", &vec![b'l'; 300_000]]));
    group.line("EXPIRE k 1000");
    group.settle_all();
    let node = &mut group.nodes[0];
    while !demote(node, 100).is_done {}
    let mut transfer = Transfer::begin(&mut node.keyspace).expect("it is the first");
    let mut chunks = Vec::new();
    loop {
        match transfer.next_chunk(&mut node.keyspace, 50_000) {
            TransferStep::More(chunk) => chunks.push(chunk),
            TransferStep::Last(chunk) => {
                chunks.push(chunk);
                return chunks;
            }
            TransferStep::Lost => panic!("nothing changes"),
        }
    }
}

#[test]
fn bytes_that_are_like_chunks_of_a_coded_state_never_panic() {
    let chunks = chunks_of_a_coded_state();
    assert!(chunks.len() > 3, "a fragment goes in pieces");
    assert!(chunks.iter().all(|chunk| chunk[0] == 7));
    let mut prng = Prng::new(11);
    for _ in 0..2_000 {
        let mut receiver = SnapshotReceiver::new();
        for chunk in &chunks {
            let mut chunk = chunk.clone();
            for _ in 0..prng.below(3) {
                let at = prng.below(chunk.len().min(600) as u64) as usize;
                let place = if prng.below(2) == 0 {
                    at
                } else {
                    chunk.len() - 1 - at
                };
                // Other partitions would have other keys.
                if place >= CHUNK_HEAD_BYTES {
                    chunk[place] = prng.next_u64() as u8;
                }
            }
            if receiver.take(&chunk).is_err() {
                break;
            }
        }
        let Some(keyspace) = receiver.finish() else {
            continue;
        };
        let mut node = Node::new(1);
        node.keyspace = keyspace;
        node.keyspace.hold_as(Incarnation(2));
        for line in [
            "GET k",
            "GETRANGE long 0 3",
            "STRLEN k",
            "RENAME k other",
            "APPEND other v",
        ] {
            node.run(line);
        }
        for line in ["GET k", "GETRANGE long 0 3", "STRLEN k"] {
            node.read(line);
        }
        node.keyspace.state_hash();
        demote(&mut node, 1_000);
    }
}

/// But for the two bytes of the newest rules, which are behind the `06` of the rest.
#[test]
fn a_coded_state_has_the_bytes_that_it_always_had() {
    let (mut group, _) = with_a_coded_value();
    let value = b"0123456789".repeat(THRESHOLD as usize / 10);
    group.run(db(0), &words([b"SET", b"k", &value]));
    group.run(db(0), &words([b"SET", b"whole", &value]));
    group.settle_all();
    let node = &mut group.nodes[1];
    assert_eq!(demote(node, 1).values, 1);
    let one = version(&node.keyspace, db(0), b"k");
    assert_eq!(node.keyspace.refill(db(0), b"k", one, &value), Ok(Refilled::Held));
    node.run("EXPIRE whole 1000");
    while !demote(node, 1).is_done {}
    let mut transfer = Transfer::begin(&mut node.keyspace).expect("it is the first");
    let TransferStep::Last(chunk) = transfer.next_chunk(&mut node.keyspace, 10_000) else {
        panic!("there is little")
    };
    let digits = chunk.iter().map(|byte| format!("{byte:02x}"));
    let found = format!("chunk: {}\n", digits.collect::<String>());
    assert!(found == include_str!("coded.txt"), "found:\n{found}");
}

#[test]
fn fragments_are_nothing_to_who_knows_no_code_or_wants_whole_values() {
    let chunks = chunks_of_a_coded_state();
    // The rest of a group without one, behind objects of a group with one.
    let mut plain = Node::new(1);
    let mut transfer = Transfer::begin(&mut plain.keyspace).expect("it is the first");
    let TransferStep::Last(mut last) = transfer.next_chunk(&mut plain.keyspace, 1_000) else {
        panic!("there is nothing but the rest");
    };
    let mut receiver = SnapshotReceiver::new();
    for chunk in &chunks[..chunks.len() - 1] {
        receiver.take(chunk).expect("it is the next");
    }
    last[1..9].copy_from_slice(&(chunks.len() as u64).to_le_bytes());
    assert!(matches!(receiver.take(&last), Err(TransferError::Malformed(_))));
    let mut refused = None;
    for chunk in &chunks {
        let read = read_records(chunk, |_| Ok::<(), codec::DecodeError>(()));
        refused = refused.or(read.err());
    }
    let expected = refused.expect("a fragment is no object").expected;
    assert_eq!(expected, "an object, and not a fragment of its value");
}
