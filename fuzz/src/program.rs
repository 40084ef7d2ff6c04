//! Bytes as programs of commands.

use crate::node::{Node, grows_much, header};
use crate::parse_and_keys;
use crate::source::Source;
use ids::{Db, Prng, UnixMillis, Version};
use keyspace::{Cursor, Effect, EncodingLimits, Entry, EntryBuf, EntryOperation, Object};
use resp::{ArgsBuf, Protocol};

/// `K` a key, `V` a value, `N` a number, `S` a small one, `T` a time, `D` a database; the rest as it stands.
const TEMPLATES: &[&str] = &[
    "SET K V",
    "SET K V PX T",
    "SET K V PXAT T",
    "SET K V NX GET",
    "SET K V XX KEEPTTL",
    "SET K V IFEQ V",
    "SETNX K V",
    "GETEX K PX T",
    "GETEX K PERSIST",
    "GETDEL K",
    "MSET K V K V",
    "MSETNX K V K V",
    "APPEND K V",
    "INCRBY K N",
    "INCRBYFLOAT K N",
    "CAS K V V",
    "ADD K N",
    "SUB K N",
    "XFER K K S",
    "SETRANGE K S V",
    "SETBIT K S 1",
    "SETBIT K S 0",
    "BITOP AND K K K",
    "BITOP XOR K K K",
    "BITOP NOT K K",
    "BITFIELD K SET i16 S N OVERFLOW SAT INCRBY u5 S N",
    "BITFIELD K OVERFLOW FAIL INCRBY i64 S N",
    "SADD K V",
    "SADD K N S S S",
    "SREM K S V",
    "SPOP K",
    "SPOP K S",
    "SMOVE K K S",
    "SINTERSTORE K K K",
    "SUNIONSTORE K K K",
    "SDIFFSTORE K K K",
    "SINTER K K",
    "SINTERCARD 2 K K LIMIT S",
    "SRANDMEMBER K N",
    "SSCAN K N COUNT S",
    "SORT K BY *->V GET * GET # STORE K",
    "SORT K ALPHA LIMIT N N",
    "LPUSH K V V",
    "RPUSH K V V V V",
    "LPOP K S",
    "RPOP K",
    "LSET K N V",
    "LINSERT K AFTER V V",
    "LREM K N V",
    "LTRIM K S N",
    "LMOVE K K LEFT RIGHT",
    "LMPOP 2 K K RIGHT COUNT S",
    "LPOS K V RANK N COUNT S",
    "LRANGE K N N",
    "GEOADD K 13.4 52.5 V 13.5 52.4 a",
    "GEOADD K XX CH N S V",
    "GEOSEARCH K FROMLONLAT 13.4 52.5 BYBOX S N km WITHDIST WITHCOORD",
    "GEOSEARCHSTORE K K FROMMEMBER a BYRADIUS N km STOREDIST",
    "GEORADIUS K 13.4 52.5 N mi COUNT S STORE K",
    "GEOHASH K V a",
    "HSET K V V",
    "HSET K S V S V S V",
    "HSETNX K S V",
    "HDEL K S S",
    "HINCRBY K S N",
    "HINCRBYFLOAT K S N",
    "HGETALL K",
    "HRANDFIELD K N WITHVALUES",
    "HSCAN K N COUNT S",
    "PFADD K V V S",
    "PFCOUNT K K",
    "PFMERGE K K K",
    "PFDEBUG TODENSE K",
    "XADD K * V S",
    "XADD K MAXLEN ~ S N V S",
    "XREADGROUP GROUP S S COUNT S STREAMS K >",
    "XGROUP CREATE K S 0 MKSTREAM",
    "XDEL K S S",
    "XTRIM K MINID = S",
    "XCLAIM K S S 0 S S FORCE",
    "XAUTOCLAIM K S S 0 0 COUNT S",
    "XACK K S S",
    "XINFO STREAM K FULL",
    "ZADD K N V",
    "ZADD K S S S S S S",
    "ZADD K GT CH N S",
    "ZADD K NX INCR N V",
    "ZINCRBY K N V",
    "ZREM K S V",
    "ZRANGE K N N REV WITHSCORES",
    "ZRANGE K N N BYSCORE LIMIT N N",
    "ZRANGEBYLEX K - +",
    "ZRANGESTORE K K N N BYSCORE",
    "ZRANGESTORE K K N N REV",
    "ZREMRANGEBYRANK K N N",
    "ZREMRANGEBYSCORE K N N",
    "ZREMRANGEBYLEX K [V [V",
    "ZPOPMIN K S",
    "ZPOPMAX K",
    "ZMPOP 2 K K MIN COUNT S",
    "ZUNIONSTORE K 2 K K WEIGHTS N N",
    "ZINTERSTORE K 2 K K AGGREGATE MAX",
    "ZDIFFSTORE K 2 K K",
    "ZUNION 2 K K WITHSCORES",
    "ZINTERCARD 2 K K LIMIT S",
    "ZRANDMEMBER K N WITHSCORES",
    "ZSCAN K N COUNT S",
    "ZRANK K S WITHSCORE",
    "BLPOP K K 0",
    "BRPOP K 1",
    "BLMOVE K K LEFT RIGHT 0",
    "BRPOPLPUSH K K 0",
    "BLMPOP 0 2 K K LEFT COUNT S",
    "BZPOPMIN K K 0",
    "BZMPOP 0 2 K K MAX COUNT S",
    "DEL K K",
    "PEXPIRE K T",
    "PEXPIREAT K T GT",
    "EXPIRE K N NX",
    "PERSIST K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K DB D",
    "COPY K K REPLACE",
    "MOVE K D",
    "SWAPDB D D",
    "FLUSHDB",
    "FLUSHALL",
    "LCS K K IDX WITHMATCHLEN",
    "GETRANGE K N N",
    "BITCOUNT K N N BIT",
    "BITPOS K 0 N N",
    "BITFIELD_RO K GET u63 S",
    "PTTL K",
    "OBJECT ENCODING K",
    "KEYS *",
    "SCAN N COUNT S",
    "DBSIZE",
    "MGET K K K",
];

/// Two replicas, one fed with entries and one that commits at once, answer alike and end alike; scans end;
/// counts are right.
pub fn program(data: &[u8]) {
    let mut source = Source(&data[..data.len().min(4_000)]);
    // The same local randomness, since replies may follow from it; the state hash may not.
    let (mut one, mut two) = (Node::new(1), Node::new(1));
    let mut now = 1_000;
    while !source.is_empty() {
        now += i64::from(source.byte()) - 50;
        let mut entry = EntryBuf::new(&header(now, u64::from(source.byte())));
        // Sessions are kept only of what comes in batches.
        entry.begin_own_batch();
        for _ in 0..1 + source.below(6) {
            push(&mut entry, &mut source);
        }
        let bytes = entry.finish();
        let entry = Entry::decode(&bytes).expect("what was encoded can be decoded");
        let (mut replies, mut others) = (Vec::new(), Vec::new());
        assert!(one.apply(&entry, &mut replies));
        two.apply_one_by_one(&entry, &mut others);
        assert_eq!(
            replies.escape_ascii().to_string(),
            others.escape_ascii().to_string()
        );
        assert_eq!(one.keyspace.state_hash(), two.keyspace.state_hash());
    }
    check(&mut one);
}

pub(crate) fn push(entry: &mut EntryBuf, source: &mut Source<'_>) {
    let db = db(source);
    match source.below(40) {
        0 => entry.push(&EntryOperation::Expire {
            db,
            key: &key(source),
        }),
        1 => entry.push(&EntryOperation::Evict {
            db,
            key: &key(source),
        }),
        2 => {
            let mut object = Object::string(&key(source), &value(source), None, Version(0));
            if source.below(2) == 0 {
                object.set_deadline(Some(UnixMillis(i64::from(source.byte()) * 10)));
            }
            let other = key(source);
            let effects = vec![
                Effect::Put { db, object },
                Effect::Delete {
                    db,
                    key: other.into(),
                },
            ];
            entry.push(&EntryOperation::Install { effects });
        }
        3 => {
            let limits = limits(source);
            entry.push(&EntryOperation::Limits { limits });
        }
        kind => {
            let words = match kind {
                4 => parse_and_keys::words(&mut Source(source.bytes(12))),
                _ => source
                    .pick(TEMPLATES)
                    .split(' ')
                    .map(|word| fill(word, source))
                    .collect(),
            };
            // Addresses and random picks are no part of what replicas agree on.
            let is_local = words.first().is_some_and(|word| {
                [&b"debug"[..], b"randomkey"]
                    .iter()
                    .any(|local| word.eq_ignore_ascii_case(local))
            });
            let args = ArgsBuf::from_slices(words);
            if !is_local && !grows_much(args.as_args()) {
                let protocol = source.pick(&[Protocol::Resp2, Protocol::Resp3]);
                entry.push(&EntryOperation::Command {
                    db,
                    protocol,
                    args: args.as_args(),
                });
            }
        }
    }
}

/// Small ones, so that collections grow beyond them, and some that no configuration allows.
fn limits(source: &mut Source<'_>) -> EncodingLimits {
    let number = |source: &mut Source<'_>| u32::from(source.byte()) >> 3;
    EncodingLimits {
        hash_entries: number(source),
        hash_value_bytes: number(source),
        set_integers: number(source),
        set_entries: number(source),
        set_value_bytes: number(source),
        sorted_set_entries: number(source),
        sorted_set_value_bytes: number(source),
        list_node_size: i32::from(source.byte()) - 100,
        sparse_bytes: number(source),
        stream_node_bytes: number(source),
        stream_node_entries: number(source),
    }
}

fn db(source: &mut Source<'_>) -> Db {
    Db::new(source.pick(&[0, 0, 0, 1, 15])).expect("below sixteen")
}

fn key(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() {
        0 => Vec::new(),
        1 => vec![b'k'; 300],
        number => format!("k{}", number % 16).into_bytes(),
    }
}

fn value(source: &mut Source<'_>) -> Vec<u8> {
    match source.byte() {
        length @ 0..40 => source.bytes(usize::from(length)).to_vec(),
        40..80 => (i64::from(source.byte()) - 100).to_string().into_bytes(),
        80..90 => vec![source.byte(); 500],
        90..100 => b"9223372036854775800".to_vec(),
        _ => b"value".to_vec(),
    }
}

fn fill(word: &str, source: &mut Source<'_>) -> Vec<u8> {
    const NUMBERS: &[&str] = &[
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "",
        "01",
        "1.5",
        "inf",
        "nan",
        "-1",
    ];
    match word {
        "K" => key(source),
        "V" => value(source),
        "N" if source.below(3) == 0 => source.pick(NUMBERS).into(),
        "N" => (i64::from(source.byte()) - 128).to_string().into_bytes(),
        "S" => source.byte().to_string().into_bytes(),
        "T" => (i64::from(source.byte()) * 16).to_string().into_bytes(),
        "D" => source.pick(&["0", "1", "15", "16"]).into(),
        "[V" => [b"[", value(source).as_slice()].concat(),
        other => other.into(),
    }
}

fn check(node: &mut Node) {
    let mut bytes = 0;
    for number in 0..Db::COUNT {
        let db = Db::new(number).expect("below the count");
        let (mut keys, mut from) = (0, Some(Cursor::default()));
        while let Some(cursor) = from {
            from = node.keyspace.scan(db, cursor, 3, &mut node.local, |object| {
                keys += 1;
                bytes += object.memory();
            });
            assert!(from.is_none_or(|next| next > cursor));
        }
        assert!(keys <= node.keyspace.counts(db).0);
    }
    assert!(bytes <= node.keyspace.memory());
    node.keyspace.collect_lazyfree(&mut { usize::MAX });
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut prng = Prng::new(1);
    (0..30)
        .map(|length| (0..length * 20).map(|_| prng.next_u64() as u8).collect())
        .collect()
}
