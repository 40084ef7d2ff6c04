//! A keyspace with its leader's companion, driven by words.

use ids::{Boot, Db, GatewayId, HashSeed, PartitionCount, PartitionRange, SemanticsVersion, UnixMillis};
use keyspace::{ApplyOutput, Batched, Entry, Header, Keyspace, LeaderLocal, LfuParameters};
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};

/// Of each node: few, so that keys of any few share some and not others.
pub(crate) const PARTITIONS: PartitionRange =
    PartitionRange::all(PartitionCount::new(PARTITION_COUNT).expect("not too many"));
pub(crate) const PARTITION_COUNT: u16 = 4;
pub(crate) const SEED: HashSeed = HashSeed([0x0123_4567_89ab_cdef, 42]);

pub(crate) struct Node {
    pub(crate) keyspace: Keyspace,
    pub(crate) local: LeaderLocal,
}

impl Node {
    pub(crate) fn new(local_seed: u64) -> Node {
        let mut local = LeaderLocal::new(local_seed);
        // Statistics of another kind on every other node: the state must not depend on them.
        let lfu = (local_seed % 2 == 1).then_some(LfuParameters {
            log_factor: 10,
            decay_minutes: 1,
        });
        local.access.set(UnixMillis(local_seed as i64), lfu);
        Node {
            keyspace: Keyspace::new(SEED, PARTITIONS),
            local,
        }
    }

    pub(crate) fn open(&mut self, now: i64) {
        self.open_with(now, 0);
        self.local.now = UnixMillis(now);
    }

    /// Opens an entry without telling the leader's companion.
    pub(crate) fn open_with(&mut self, now: i64, seed: u64) {
        self.keyspace
            .open(&header(now, seed))
            .expect("the rules are known");
    }

    /// Applies a whole entry: what became of its batches, and the replies of what was carried out, in order.
    pub(crate) fn apply_entry(&mut self, bytes: &[u8]) -> (Vec<Batched>, Vec<Vec<u8>>) {
        let entry = Entry::decode(bytes).expect("an entry that was encoded can be decoded");
        let (mut outcomes, mut replies) = (Vec::new(), Vec::new());
        let applied = self
            .keyspace
            .apply(&entry, &mut self.local, |answered| match answered {
                ApplyOutput::Batch(batched) => outcomes.push(batched),
                ApplyOutput::Operation(answer) if answer.is_carried_out() => {
                    let joined: Vec<u8> = answer.replies().flatten().copied().collect();
                    assert_eq!(joined, answer.bytes());
                    replies.push(joined);
                }
                ApplyOutput::Operation(_) => replies.push(b"not carried out".to_vec()),
                ApplyOutput::Read(..) | ApplyOutput::ReadLater(..) | ApplyOutput::ReadMoved(..) => {
                    unreachable!("none is attached")
                }
                ApplyOutput::Freed(..) => {}
            });
        applied.expect("the rules are known");
        (outcomes, replies)
    }

    /// Applies words at once, as a replica that commits at once does.
    pub(crate) fn apply(&mut self, db: Db, protocol: Protocol, args: Args<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ReplyWriter::new(&mut out, protocol);
        match command::resolve_in_group(args).map(|spec| command::parse(spec, args)) {
            Ok(Some(Ok(command))) => self
                .keyspace
                .apply_command(db, &command, &mut self.local, &mut writer),
            Ok(Some(Err(error))) | Err(error) => error.write(&mut writer),
            Ok(None) => command::ReplyError::unknown_command(args).write(&mut writer),
        }
        out
    }

    /// [`Node::apply`] in database 0, for words without spaces in them.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.run_in(0, line)
    }

    pub(crate) fn run_in(&mut self, number: u8, line: &str) -> String {
        let words = ArgsBuf::from_slices(line.split_ascii_whitespace());
        let reply = self.apply(db(number), Protocol::Resp2, words.as_args());
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Runs commands, of which each tells these events, `name key`, in this order.
    #[track_caller]
    pub(crate) fn tells(&mut self, commands: &[(&str, &str)]) {
        for (line, expected) in commands {
            self.run(line);
            let events = self.local.events.drain(..);
            let events: Vec<String> = events
                .map(|event| format!("{} {}", event.name, String::from_utf8_lossy(&event.key)))
                .collect();
            assert_eq!(events.join(", "), *expected, "{line}");
        }
    }

    /// Reads as the leader does, without an entry.
    pub(crate) fn read(&mut self, line: &str) -> (String, keyspace::Read) {
        let words = ArgsBuf::from_slices(line.split_ascii_whitespace());
        let spec = command::resolve(words.as_args()).expect("a known command");
        let command = command::parse(spec, words.as_args())
            .expect("on keys")
            .expect("well formed");
        let mut out = Vec::new();
        let mut writer = ReplyWriter::new(&mut out, Protocol::Resp2);
        let read = self.keyspace.read(db(0), &command, &mut self.local, &mut writer);
        (String::from_utf8_lossy(&out).into_owned(), read)
    }
}

pub(crate) fn header(now: i64, seed: u64) -> Header {
    Header {
        semantics: SemanticsVersion::CURRENT,
        now: UnixMillis(now),
        seed,
    }
}

pub(crate) fn gateway(boot: u64, worker: u16) -> GatewayId {
    GatewayId {
        boot: Boot(boot),
        worker,
    }
}

pub(crate) fn db(number: u8) -> Db {
    Db::new(number).expect("below sixteen")
}
