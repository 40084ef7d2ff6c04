//! Random commands: every one that a group can be sent, with reasonable and with hostile words.

use ids::Prng;
use resp::ArgsBuf;

/// `K` a key, `V` a value, `F` a field of a hash, `N` a number or something that looks like one, `S` a small number,
/// `(S` one left out of a range, `T` a time in milliseconds, `D` a database, `P` a pattern, `G` a position (two words); everything else stands for
/// itself.
const TEMPLATES: &[&str] = &[
    "GET K",
    "MGET K K K",
    "STRLEN K",
    "GETRANGE K N N",
    "SUBSTR K S S",
    "LCS K K",
    "LCS K K LEN",
    "LCS K K IDX MINMATCHLEN S WITHMATCHLEN",
    "SET K V",
    "SET K V NX",
    "SET K V XX GET",
    "SET K V KEEPTTL",
    "SET K V PX T",
    "SET K V EX N",
    "SET K V PXAT T",
    "SET K V EXAT N",
    "SET K V IFEQ V",
    "SET K V GET",
    "SETEX K S V",
    "PSETEX K T V",
    "SETNX K V",
    "GETSET K V",
    "GETEX K",
    "GETEX K PERSIST",
    "GETEX K PX T",
    "GETEX K EXAT N",
    "GETDEL K",
    "MSET K V K V",
    "MSETNX K V K V",
    "APPEND K V",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "DECRBY K N",
    "INCRBYFLOAT K N",
    "CAS K V V",
    "ADD K N",
    "SUB K N",
    "XFER K K N",
    "XFER K K S",
    "XFER.FROM K S",
    "XFER.TO K N",
    "SETRANGE K S V",
    "SETBIT K S 1",
    "SETBIT K S 0",
    "GETBIT K S",
    "BITCOUNT K",
    "BITCOUNT K N N",
    "BITCOUNT K N N BIT",
    "BITPOS K 1",
    "BITPOS K 0 N N",
    "BITPOS K 1 S S BIT",
    "BITOP AND K K K",
    "BITOP OR K K K",
    "BITOP XOR K K",
    "BITOP NOT K K",
    "BITFIELD K GET u8 S SET i16 #S N OVERFLOW SAT INCRBY u5 S N",
    "BITFIELD K OVERFLOW FAIL INCRBY i64 S N",
    "BITFIELD K GET u63 S",
    "BITFIELD_RO K GET i64 S",
    "HSET K V V",
    "HSET K F V F V F V",
    "HSET K F V F V F V F V F V F V",
    "HMSET K F V F V",
    "HSETNX K F V",
    "HGET K F",
    "HMGET K F F F",
    "HGETALL K",
    "HKEYS K",
    "HVALS K",
    "HLEN K",
    "HSTRLEN K F",
    "HEXISTS K F",
    "HDEL K F",
    "HDEL K F F F F",
    "HINCRBY K F N",
    "HINCRBYFLOAT K F N",
    "HRANDFIELD K",
    "HRANDFIELD K S",
    "HRANDFIELD K N WITHVALUES",
    "HSCAN K N",
    "HSCAN K 0 MATCH P COUNT S",
    "PFADD K",
    "PFADD K V V",
    "PFADD K S V V V V V",
    "PFCOUNT K",
    "PFCOUNT K K K",
    "PFMERGE K",
    "PFMERGE K K K",
    "PFDEBUG GETREG K",
    "PFDEBUG DECODE K",
    "PFDEBUG ENCODING K",
    "PFDEBUG TODENSE K",
    "SADD K V",
    "SADD K N S S S",
    "SADD K V V V N S",
    "SREM K S",
    "SREM K V N S",
    "SISMEMBER K S",
    "SMISMEMBER K S V N",
    "SCARD K",
    "SMEMBERS K",
    "SPOP K",
    "SPOP K S",
    "SPOP K N",
    "SRANDMEMBER K",
    "SRANDMEMBER K S",
    "SRANDMEMBER K N",
    "SMOVE K K S",
    "SMOVE K K V",
    "SINTER K K",
    "SINTERCARD 2 K K",
    "SINTERCARD 2 K K LIMIT S",
    "SINTERSTORE K K K",
    "SUNION K K",
    "SUNIONSTORE K K K",
    "SDIFF K K",
    "SDIFFSTORE K K K",
    "SSCAN K 0",
    "SSCAN K N MATCH P COUNT S",
    "XADD K * F V",
    "XADD K S F V F V",
    "XADD K NOMKSTREAM MAXLEN ~ S LIMIT S * F V",
    "XADD K MINID = S * F V",
    "XADD K N F V",
    "XLEN K",
    "XRANGE K - +",
    "XRANGE K (S N COUNT S",
    "XREVRANGE K + - COUNT N",
    "XREAD COUNT S STREAMS K K S N",
    "XREAD STREAMS K $",
    "XREAD.LAST K K",
    "XREADGROUP GROUP F V COUNT S STREAMS K >",
    "XREADGROUP GROUP F F NOACK STREAMS K >",
    "XREADGROUP GROUP F F STREAMS K K > S",
    "XDEL K S S",
    "XTRIM K MAXLEN S",
    "XTRIM K MINID ~ N",
    "XSETID K S ENTRIESADDED S MAXDELETEDID S",
    "XACK K F S S",
    "XPENDING K F",
    "XPENDING K F IDLE S - + S F",
    "XCLAIM K F F S S S FORCE RETRYCOUNT N LASTID S",
    "XCLAIM K F F 0 S JUSTID IDLE N",
    "XAUTOCLAIM K F F S 0 COUNT S",
    "XGROUP CREATE K F $ MKSTREAM ENTRIESREAD S",
    "XGROUP CREATE K F 0",
    "XGROUP SETID K F S",
    "XGROUP DESTROY K F",
    "XGROUP CREATECONSUMER K F V",
    "XGROUP DELCONSUMER K F F",
    "XINFO STREAM K",
    "XINFO STREAM K FULL COUNT S",
    "XINFO GROUPS K",
    "XINFO CONSUMERS K F",
    "SORT K",
    "SORT K ALPHA DESC LIMIT N N",
    "SORT K BY k* GET # GET k* ALPHA",
    "SORT K BY k*->S GET k*->S LIMIT 0 S DESC",
    "SORT K BY nosort STORE K",
    "SORT K ALPHA STORE K",
    "SORT K BY k* GET k* GET # STORE K",
    "SORT_RO K ALPHA",
    "SORT_RO K BY k* LIMIT S S GET k*",
    "LPUSH K V",
    "LPUSH K V V V",
    "RPUSH K V",
    "RPUSH K V V V",
    "LPUSHX K V V",
    "RPUSHX K V",
    "LPOP K",
    "LPOP K S",
    "RPOP K",
    "RPOP K N",
    "LLEN K",
    "LINDEX K N",
    "LSET K N V",
    "LRANGE K N N",
    "LRANGE K 0 -1",
    "LTRIM K N N",
    "LINSERT K BEFORE V V",
    "LINSERT K AFTER N N",
    "LREM K N V",
    "LREM K 0 N",
    "LPOS K V",
    "LPOS K V RANK N COUNT N MAXLEN N",
    "LPOS K N COUNT 0",
    "LMOVE K K LEFT RIGHT",
    "LMOVE K K RIGHT RIGHT",
    "RPOPLPUSH K K",
    "LMPOP 2 K K LEFT",
    "LMPOP 1 K RIGHT COUNT S",
    "GEOADD K G V",
    "GEOADD K G a G b G c",
    "GEOADD K NX CH G a",
    "GEOADD K XX G b",
    "GEOPOS K a b V",
    "GEOHASH K a V",
    "GEODIST K a b",
    "GEODIST K a c ft",
    "GEOSEARCH K FROMMEMBER a BYRADIUS S km",
    "GEOSEARCH K FROMLONLAT G BYBOX S S mi WITHDIST WITHCOORD WITHHASH",
    "GEOSEARCH K FROMLONLAT G BYRADIUS N m COUNT S ANY DESC",
    "GEOSEARCHSTORE K K FROMMEMBER b BYBOX N S km",
    "GEOSEARCHSTORE K K FROMLONLAT G BYRADIUS S mi STOREDIST ASC COUNT S",
    "GEORADIUS K G S km WITHDIST",
    "GEORADIUS K G S km STORE K",
    "GEORADIUS_RO K G N mi COUNT S",
    "GEORADIUSBYMEMBER K a S km STOREDIST K",
    "GEORADIUSBYMEMBER_RO K a N km DESC",
    "ZADD K N V",
    "ZADD K S F S F S F S F",
    "ZADD K N F N F N F",
    "ZADD K NX CH N F",
    "ZADD K XX GT CH N F",
    "ZADD K LT N F",
    "ZADD K INCR N F",
    "ZINCRBY K N F",
    "ZINCRBY K N V",
    "ZREM K F",
    "ZREM K F F V",
    "ZCARD K",
    "ZSCORE K F",
    "ZMSCORE K F F V",
    "ZRANK K F",
    "ZRANK K F WITHSCORE",
    "ZREVRANK K F",
    "ZREVRANK K F WITHSCORE",
    "ZCOUNT K N N",
    "ZCOUNT K (S +inf",
    "ZLEXCOUNT K - +",
    "ZLEXCOUNT K [f1 (f7",
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANGE K N N",
    "ZRANGE K N N REV WITHSCORES",
    "ZRANGE K N N BYSCORE LIMIT N N WITHSCORES",
    "ZRANGE K + - BYLEX REV LIMIT S S",
    "ZRANGESTORE K K 0 -1",
    "ZRANGESTORE K K N N REV",
    "ZRANGESTORE K K -inf N BYSCORE LIMIT S N",
    "ZRANGESTORE K K [f2 + BYLEX",
    "ZREVRANGE K N N WITHSCORES",
    "ZRANGEBYSCORE K N N WITHSCORES",
    "ZRANGEBYSCORE K -inf (S LIMIT N N",
    "ZREVRANGEBYSCORE K N N",
    "ZRANGEBYLEX K - +",
    "ZRANGEBYLEX K (f1 [f7 LIMIT N N",
    "ZREVRANGEBYLEX K + [f3",
    "ZREMRANGEBYRANK K N N",
    "ZREMRANGEBYSCORE K N N",
    "ZREMRANGEBYSCORE K (S S",
    "ZREMRANGEBYLEX K [f1 (f3",
    "ZPOPMIN K",
    "ZPOPMIN K S",
    "ZPOPMAX K",
    "ZPOPMAX K N",
    "ZMPOP 2 K K MIN",
    "ZMPOP 1 K MAX COUNT S",
    "ZUNION 2 K K WITHSCORES",
    "ZUNION 2 K K WEIGHTS N N AGGREGATE MAX",
    "ZINTER 2 K K WITHSCORES",
    "ZINTER 2 K K AGGREGATE MIN",
    "ZDIFF 3 K K K WITHSCORES",
    "ZUNIONSTORE K 2 K K",
    "ZUNIONSTORE K 2 K K WEIGHTS N N",
    "ZUNIONSTORE K 3 K K K AGGREGATE MIN",
    "ZINTERSTORE K 2 K K",
    "ZINTERSTORE K 2 K K WEIGHTS S N AGGREGATE MAX",
    "ZDIFFSTORE K 2 K K",
    "ZINTERCARD 2 K K",
    "ZINTERCARD 2 K K LIMIT S",
    "ZRANDMEMBER K",
    "ZRANDMEMBER K S",
    "ZRANDMEMBER K N WITHSCORES",
    "ZSCAN K 0",
    "ZSCAN K N MATCH P COUNT S",
    "BLPOP K K 0",
    "BRPOP K 1",
    "BLMOVE K K LEFT RIGHT 0",
    "BLMOVE K K RIGHT RIGHT 1",
    "BRPOPLPUSH K K 0",
    "BLMPOP 0 2 K K LEFT",
    "BLMPOP 1 1 K RIGHT COUNT S",
    "BZPOPMIN K K 0",
    "BZPOPMAX K 1",
    "BZMPOP 0 2 K K MAX",
    "BZMPOP 1 1 K MIN COUNT S",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "TOUCH K K",
    "TYPE K",
    "EXPIRE K N",
    "EXPIRE K S NX",
    "PEXPIRE K T",
    "PEXPIRE K T GT",
    "EXPIREAT K N",
    "PEXPIREAT K T LT",
    "PEXPIREAT K T XX",
    "TTL K",
    "PTTL K",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "PERSIST K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K DB D REPLACE",
    "MOVE K D",
    "OBJECT ENCODING K",
    "OBJECT FREQ K",
    "OBJECT IDLETIME K",
    "OBJECT REFCOUNT K",
    "MEMORY USAGE K",
    "DEBUG OBJECT K",
    "DEBUG CODING K",
    "DEBUG SDSLEN K",
    "KEYS P",
    "SCAN N",
    "SCAN N MATCH P COUNT S TYPE string",
    "RANDOMKEY",
    "DBSIZE",
    "CLUSTER COUNTKEYSINSLOT N",
    "CLUSTER GETKEYSINSLOT N N",
    "FLUSHDB",
    "FLUSHALL",
    "SWAPDB D D",
    "BACKUP MARK S",
    "MRESTORE K T R K 0 R",
    "DUMP K",
    "RESTORE K T Y",
    "RESTORE K T Y REPLACE",
    "RESTORE K 0 Y REPLACE",
    "RESTORE-ASKING K T Y REPLACE",
    "RESTORE K T Y REPLACE ABSTTL IDLETIME 7",
];

/// No number here lets a string grow beyond some kilobytes: larger ones are refused.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "-4294967297",
    "",
    "+1",
    "01",
    "-0",
    " 1",
    "1 ",
    "1.5",
    "1e400",
    "inf",
    "-inf",
    "nan",
    "0x10",
    "3.0e-4900",
    "#1",
    "abc",
];

/// The words of one command.
pub(crate) fn random(prng: &mut Prng) -> ArgsBuf {
    // Emptying everything is a rare event, or nothing else would be tested.
    let template = loop {
        let template = TEMPLATES[prng.below(TEMPLATES.len() as u64) as usize];
        if !template.starts_with("FLUSH") || prng.below(20) == 0 {
            break template;
        }
    };
    let mut words: Vec<Vec<u8>> = template.split(' ').flat_map(|word| filled(word, prng)).collect();
    if prng.below(12) == 0 {
        let at = prng.below(words.len() as u64) as usize;
        match prng.below(3) {
            0 => drop(words.remove(at)),
            1 => words[at] = fill("N", prng),
            _ => words.insert(at, fill("V", prng)),
        }
    }
    ArgsBuf::from_slices(words)
}

fn filled(word: &str, prng: &mut Prng) -> Vec<Vec<u8>> {
    match word {
        "G" => position(prng),
        word => vec![fill(word, prng)],
    }
}

/// Some positions, on the edges of the map too, with neighbours at all distances.
fn position(prng: &mut Prng) -> Vec<Vec<u8>> {
    const LONGITUDES: &[f64] = &[-180.0, -179.99, 0.0, 13.4, 13.41, 90.0, 179.99, 180.0, 181.0];
    const LATITUDES: &[f64] = &[-85.051_128_78, -66.0, 0.0, 52.5, 52.51, 81.0, 85.051_128_78, 86.0];
    [LONGITUDES, LATITUDES]
        .map(|degrees| {
            degrees[prng.below(degrees.len() as u64) as usize] + prng.below(10) as f64 / 1e4 - 5e-4
        })
        .map(|degrees| degrees.to_string().into_bytes())
        .into()
}

fn fill(word: &str, prng: &mut Prng) -> Vec<u8> {
    match word {
        "K" => key(prng),
        "V" => value(prng),
        "N" if prng.below(2) == 0 => NUMBERS[prng.below(NUMBERS.len() as u64) as usize].into(),
        "N" => (prng.below(400) as i64 - 200).to_string().into_bytes(),
        // Few enough that they meet again.
        "F" => format!("f{}", prng.below(12)).into_bytes(),
        "S" => prng.below(300).to_string().into_bytes(),
        "(S" => format!("({}", prng.below(300)).into_bytes(),
        "#S" => format!("#{}", prng.below(20)).into_bytes(),
        "T" => (prng.below(3_000) as i64 - 100).to_string().into_bytes(),
        "D" => prng.below(4).to_string().into_bytes(),
        "R" => {
            let form = prng.below(12) as u8;
            let flags = [0, 2, 4, 128][prng.below(4) as usize];
            [vec![1, flags, form], value(prng)].concat()
        }
        "Y" => payload(prng),
        "P" => ["*", "k*", "[a-k]?", "\\", "[^k", "*1*2*", ""][prng.below(7) as usize].into(),
        _ => word.into(),
    }
}

/// What `DUMP` gives of a value of any type; or something that differs from it in a bit.
fn payload(prng: &mut Prng) -> Vec<u8> {
    let (kind, count) = (prng.below(5), 1 + prng.below(9) as usize);
    let mut payload = match kind {
        0 => rdb::PayloadWriter::string(&value(prng)),
        1 => rdb::PayloadWriter::list(count),
        2 => rdb::PayloadWriter::set(count),
        3 => rdb::PayloadWriter::hash(count),
        _ => rdb::PayloadWriter::sorted_set(count),
    };
    for number in (0..count).filter(|_| kind > 0) {
        payload.element(format!("m{number}").as_bytes());
        match kind {
            3 => payload.element(&value(prng)),
            4 => payload.score(number as f64 / 2.0),
            _ => {}
        }
    }
    let mut payload = payload.finish();
    if prng.below(4) == 0 {
        let at = prng.below(payload.len() as u64) as usize;
        payload[at] ^= 1 << prng.below(8);
    }
    payload
}

pub(crate) fn key(prng: &mut Prng) -> Vec<u8> {
    match prng.below(40) {
        0 => Vec::new(),
        1 => vec![b'k'; 300],
        _ => format!("k{}", prng.below(30)).into_bytes(),
    }
}

pub(crate) fn value(prng: &mut Prng) -> Vec<u8> {
    match prng.below(8) {
        0 => NUMBERS[prng.below(NUMBERS.len() as u64) as usize].into(),
        1 | 2 => (prng.next_u64() as i64 >> prng.below(64))
            .to_string()
            .into_bytes(),
        3 => vec![prng.next_u64() as u8; prng.below(600) as usize],
        _ => (0..prng.below(12)).map(|_| prng.next_u64() as u8).collect(),
    }
}

#[test]
fn every_command_of_a_group_is_among_them() {
    for id in command::CommandId::ALL {
        let spec = id.spec();
        let name = spec.name.replace('|', " ").to_ascii_uppercase();
        let is_there = TEMPLATES.iter().any(|template| {
            *template == name
                || template
                    .strip_prefix(&name)
                    .is_some_and(|rest| rest.starts_with(' '))
        });
        assert!(spec.parse.is_none() || is_there, "{name}");
    }
}
