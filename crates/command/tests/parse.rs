//! What clients' words become: a command, or the words of an error.

use command::number::LongDouble;
use command::{
    BlockingPop, ClaimOptions, Claimant, Command, Deadline, DeliveryTime, LcsOutput, ListCommand, ListEnd,
    ListSearch, NewId, ReadFrom, SetCondition, SetExpiry, SetReply, StreamCommand, Trim, TrimBound,
    ValueAccess, parse, resolve, waits,
};
use ids::{StreamId, UnixMillis};
use resp::ArgsBuf;

/// Words divided by spaces; `''` is the empty one.
fn words(line: &str) -> ArgsBuf {
    ArgsBuf::from_slices(line.split(' ').map(|word| if word == "''" { "" } else { word }))
}

/// The error of a command, or nothing.
fn error(line: &str) -> Option<String> {
    let args = words(line);
    let parsed = resolve(args.as_args()).and_then(|spec| parse(spec, args.as_args()).expect(line));
    parsed.err().map(|error| error.to_string())
}

/// Calls `check` with the command that a line becomes.
fn with(line: &str, check: impl FnOnce(Command<'_>)) {
    let args = words(line);
    let spec = resolve(args.as_args()).expect(line);
    check(
        parse(spec, args.as_args())
            .expect("a command of the keyspace")
            .expect(line),
    );
}

#[test]
fn lines_are_refused_in_the_words_of_redis() {
    const SYNTAX: &str = "ERR syntax error";
    const INTEGER: &str = "ERR value is not an integer or out of range";
    const FLOAT: &str = "ERR value is not a valid float";
    const BIT_OFFSET: &str = "ERR bit offset is not an integer or out of range";
    const BIT: &str = "ERR bit is not an integer or out of range";
    const DB: &str = "ERR DB index is out of range";
    const FIELD: &str =
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
    for (line, expected) in [
        // The number of words.
        ("get", "ERR wrong number of arguments for 'get' command"),
        ("mset a 1 b", "ERR wrong number of arguments for 'mset' command"),
        (
            "MSETNX a 1 b",
            "ERR wrong number of arguments for 'msetnx' command",
        ),
        (
            "object freq",
            "ERR wrong number of arguments for 'object|freq' command",
        ),
        // Hashes and HyperLogLogs.
        ("hset k f", "ERR wrong number of arguments for 'hset' command"),
        (
            "hmset k f v g",
            "ERR wrong number of arguments for 'hmset' command",
        ),
        ("hincrby k f 1.5", INTEGER),
        ("hincrbyfloat k f x", FLOAT),
        ("hincrbyfloat k f inf", "ERR value is NaN or Infinity"),
        ("hrandfield k x bogus", INTEGER),
        ("hrandfield k 1 bogus", SYNTAX),
        ("hrandfield k 1 withvalues x", SYNTAX),
        (
            "hrandfield k -9223372036854775808",
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        (
            "hrandfield k 9223372036854775807 withvalues",
            "ERR value is out of range",
        ),
        ("hrandfield k -16777217", "ERR value is out of range"),
        ("hscan k x bogus", "ERR invalid cursor"),
        ("hscan k 0 count 0", SYNTAX),
        ("hscan k 0 type hash", SYNTAX),
        ("hscan k 0 match", SYNTAX),
        ("pfdebug bogus k", "ERR Unknown PFDEBUG subcommand 'bogus'"),
        // The commands that Redis has not.
        ("cas k a", "ERR wrong number of arguments for 'cas' command"),
        ("add k 1.5", INTEGER),
        ("add k 9223372036854775808", INTEGER),
        ("sub k x", INTEGER),
        ("sub k -9223372036854775808", "ERR decrement would overflow"),
        ("xfer a b", "ERR wrong number of arguments for 'xfer' command"),
        ("xfer a b x", INTEGER),
        ("xfer a b -1", "ERR value is out of range, must be positive"),
        (
            "xfer.from a 1",
            "ERR unknown command 'xfer.from', with args beginning with: 'a' '1' ",
        ),
        (
            "xfer.to a 1",
            "ERR unknown command 'xfer.to', with args beginning with: 'a' '1' ",
        ),
        // SET and GETEX: an option that does not fit is found before a number that does not.
        ("set k v nx xx", SYNTAX),
        ("set k v nx ifeq x", SYNTAX),
        ("set k v ifeq x xx", SYNTAX),
        ("set k v ifeq x ifeq y", SYNTAX),
        ("set k v ifeq", SYNTAX),
        ("set k v ex", SYNTAX),
        ("set k v ex 1 px 1", SYNTAX),
        ("set k v ex 1 exat 1", SYNTAX),
        ("set k v keepttl ex 1", SYNTAX),
        ("set k v ex 1 keepttl", SYNTAX),
        ("set k v ex x foo", SYNTAX),
        ("set k v persist", SYNTAX),
        ("set k v ex x", INTEGER),
        ("set k v ex 0", "ERR invalid expire time in 'set' command"),
        ("set k v px -1", "ERR invalid expire time in 'set' command"),
        ("set k v exat 0", "ERR invalid expire time in 'set' command"),
        (
            "set k v ex 9223372036854776",
            "ERR invalid expire time in 'set' command",
        ),
        (
            "set k v px 9223372036854775807",
            "ERR invalid expire time in 'set' command",
        ),
        ("setex k 0 v", "ERR invalid expire time in 'setex' command"),
        ("psetex k -1 v", "ERR invalid expire time in 'psetex' command"),
        ("setex k x v", INTEGER),
        ("getex k nx", SYNTAX),
        ("getex k keepttl", SYNTAX),
        ("getex k ex 1 persist", SYNTAX),
        ("getex k ex 0", "ERR invalid expire time in 'getex' command"),
        // Numbers.
        ("incrby k 01", INTEGER),
        ("incrby k ''", INTEGER),
        ("decrby k -9223372036854775808", "ERR decrement would overflow"),
        ("incrbyfloat k nan", FLOAT),
        ("incrbyfloat k 1x", FLOAT),
        ("getrange k 0 x", INTEGER),
        ("setrange k -1 x", "ERR offset is out of range"),
        (
            "setrange k 536870912 x",
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ),
        (
            "setrange k 9223372036854775807 x",
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ),
        (
            "lcs a b len idx",
            "ERR If you want both the length and indexes, please just use IDX.",
        ),
        ("lcs a b minmatchlen", SYNTAX),
        // Bits.
        ("setbit k -1 2", BIT_OFFSET),
        ("setbit k 4294967296 1", BIT_OFFSET),
        ("setbit k 0 2", BIT),
        ("setbit k 0 x", BIT),
        ("getbit k x", BIT_OFFSET),
        ("bitcount k 0", SYNTAX),
        ("bitcount k x 0 foo", INTEGER),
        ("bitcount k 0 0 foo", SYNTAX),
        ("bitpos k 2", "ERR The bit argument must be 1 or 0."),
        ("bitpos k x", INTEGER),
        ("bitpos k 1 0 x foo", SYNTAX),
        ("bitpos k 1 0 0 bit x", SYNTAX),
        ("bitop nand a b", SYNTAX),
        (
            "bitop not a b c",
            "ERR BITOP NOT must be called with a single source key.",
        ),
        ("bitfield k get u64 0", FIELD),
        ("bitfield k get I8 0", FIELD),
        ("bitfield k get u8 4294967296", BIT_OFFSET),
        ("bitfield k get u8 #536870912", BIT_OFFSET),
        ("bitfield k set u8 0 x", INTEGER),
        ("bitfield k overflow x", "ERR Invalid OVERFLOW type specified"),
        ("bitfield k get u8", SYNTAX),
        (
            "bitfield_ro k set u8 0 1",
            "ERR BITFIELD_RO only supports the GET subcommand",
        ),
        ("bitfield_ro k set u8 0 1 foo", SYNTAX),
        // Sets.
        ("sadd k", "ERR wrong number of arguments for 'sadd' command"),
        ("spop k -1", "ERR value is out of range, must be positive"),
        ("spop k x", "ERR value is out of range, must be positive"),
        ("spop k 1 2", SYNTAX),
        ("srandmember k x", INTEGER),
        (
            "srandmember k -9223372036854775808",
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("srandmember k 1 2", SYNTAX),
        ("sintercard 0 a", "ERR numkeys should be greater than 0"),
        ("sintercard x a", "ERR numkeys should be greater than 0"),
        (
            "sintercard 2 a",
            "ERR Number of keys can't be greater than number of args",
        ),
        ("sintercard 1 a b", SYNTAX),
        ("sintercard 1 a limit", SYNTAX),
        ("sintercard 1 a limit -1", "ERR LIMIT can't be negative"),
        ("sintercard 1 a limit x", "ERR LIMIT can't be negative"),
        ("sscan k x", "ERR invalid cursor"),
        ("sscan k 0 count 0", SYNTAX),
        ("sscan k 0 type set", SYNTAX),
        // Sorting.
        ("sort k by", SYNTAX),
        ("sort k limit 1", SYNTAX),
        ("sort k limit 1 x", INTEGER),
        ("sort k store", SYNTAX),
        ("sort k bogus", SYNTAX),
        ("sort_ro k store d", SYNTAX),
        // Keys.
        ("expire k x foo", "ERR Unsupported option foo"),
        (
            "expire k x nx gt",
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        (
            "expire k x gt lt",
            "ERR GT and LT options at the same time are not compatible",
        ),
        ("expire k x", INTEGER),
        (
            "expire k 9223372036854776",
            "ERR invalid expire time in 'expire' command",
        ),
        (
            "pexpire k 9223372036854775807",
            "ERR invalid expire time in 'pexpire' command",
        ),
        (
            "expireat k -9223372036854776",
            "ERR invalid expire time in 'expireat' command",
        ),
        ("copy a a", "ERR source and destination objects are the same"),
        ("copy a b db", SYNTAX),
        ("copy a b db 16", DB),
        ("move k -1", DB),
        ("move k x", INTEGER),
        (
            "move k 2147483648",
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ),
        ("swapdb x y", "ERR invalid first DB index"),
        ("swapdb 0 y", "ERR invalid second DB index"),
        ("swapdb 0 16", DB),
        ("scan x", "ERR invalid cursor"),
        ("scan 18446744073709551616", "ERR invalid cursor"),
        ("scan 0 count 0", SYNTAX),
        ("scan 0 count x", INTEGER),
        ("scan 0 match", SYNTAX),
        ("flushall now", SYNTAX),
        ("flushdb sync async", SYNTAX),
        ("memory usage k samples -1", SYNTAX),
        ("memory usage k samples x", INTEGER),
    ] {
        assert_eq!(error(line).as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn unusual_lines_are_accepted_as_redis_accepts_them() {
    for line in [
        "set k v nx nx get",
        "set k v EX 1 ex 2",
        "set k v xx keepttl get",
        "set k v pxat 9223372036854775807",
        "set k v ifeq old get ex 5",
        "getex k persist persist",
        "setrange k 9223372036854775807 ''",
        "incrbyfloat k 0x10",
        "setbit k 4294967295 1",
        "bitfield k",
        "bitfield k overflow sat",
        "bitpos k 1 0 -1 byte",
        "pexpire k -9223372036854775808",
        "spop k 9223372036854775807",
        "sintercard 1 limit limit 0 limit 5",
        "sort k by store get limit store by asc desc alpha",
        "sort k limit -5 -5 limit 1 1",
        "expire k 1 xx gt",
        "copy a a db 3",
        "scan '' match x count 5 type string",
        "scan -1",
        "lcs a b minmatchlen -1 withmatchlen",
        "memory usage k samples 0",
    ] {
        assert_eq!(error(line), None, "{line}");
    }
}

#[test]
fn the_set_family_is_one_effect_with_different_replies() {
    let set = |line: &str, condition, expiry, reply, access| {
        with(line, |command| {
            assert_eq!(command.access(), access, "{line}");
            let Command::Set {
                key,
                value,
                condition: c,
                expiry: e,
                reply: r,
            } = command
            else {
                panic!("{line}: {command:?}")
            };
            assert_eq!((key, value), (&b"k"[..], &b"v"[..]), "{line}");
            assert_eq!((c, e, r), (condition, expiry, reply), "{line}");
        });
    };
    let lives = |millis| SetExpiry::At(Deadline::In(millis));
    let expires = |millis| SetExpiry::At(Deadline::At(UnixMillis(millis)));
    use SetCondition::{Always, IfAbsent, IfEqual, IfPresent};
    set(
        "SET k v",
        Always,
        SetExpiry::Clear,
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "set k v KeepTTL",
        Always,
        SetExpiry::Keep,
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "set k v ex 5 nx",
        IfAbsent,
        lives(5_000),
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "set k v px 5 xx get",
        IfPresent,
        lives(5),
        SetReply::Old,
        ValueAccess::Modifies,
    );
    set(
        "set k v exat 5",
        Always,
        expires(5_000),
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "set k v pxat 5",
        Always,
        expires(5),
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "set k v ex 1 ex 2",
        Always,
        lives(2_000),
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "set k v ifeq nx",
        IfEqual(b"nx"),
        SetExpiry::Clear,
        SetReply::Ok,
        ValueAccess::Modifies,
    );
    set(
        "setex k 5 v",
        Always,
        lives(5_000),
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "psetex k 5 v",
        Always,
        lives(5),
        SetReply::Ok,
        ValueAccess::Overwrites,
    );
    set(
        "setnx k v",
        IfAbsent,
        SetExpiry::Clear,
        SetReply::Integer,
        ValueAccess::Overwrites,
    );
    set(
        "getset k v",
        Always,
        SetExpiry::Clear,
        SetReply::Old,
        ValueAccess::Modifies,
    );
}

#[test]
fn numbers_and_options_reach_the_command() {
    with("decrby k 5", |command| {
        assert!(matches!(command, Command::IncrBy { by: -5, .. }))
    });
    with("sub k 5", |command| {
        assert!(matches!(command, Command::Add { by: -5, .. }))
    });
    with("xfer a b 0", |command| {
        assert!(matches!(
            command,
            Command::Xfer {
                from: b"a",
                to: b"b",
                amount: 0
            }
        ))
    });
    with("incrbyfloat k -1.5", |command| {
        let Command::IncrByFloat { by, .. } = command else {
            panic!("{command:?}")
        };
        assert_eq!(Some(by), LongDouble::parse(b"-1.5"));
    });
    with("lcs a b idx minmatchlen 4 withmatchlen", |command| {
        let Command::Lcs { output, .. } = command else {
            panic!("{command:?}")
        };
        assert_eq!(
            output,
            LcsOutput::Matches {
                min_length: 4,
                with_length: true
            }
        );
    });
    with("scan 17 count 5 match a*", |command| {
        let Command::Scan { cursor, options } = command else {
            panic!("{command:?}")
        };
        assert_eq!(
            (cursor, options.count, options.pattern, options.kind),
            (17, 5, Some(&b"a*"[..]), None)
        );
    });
    with("bitop or d a b", |command| {
        let Command::BitOp {
            destination, sources, ..
        } = command
        else {
            panic!("{command:?}")
        };
        assert_eq!(
            (destination, sources.len(), sources.arg(0)),
            (&b"d"[..], 2, &b"a"[..])
        );
    });
    with("mset a 1 b 2", |command| {
        let Command::MSet { pairs } = command else {
            panic!("{command:?}")
        };
        assert_eq!(pairs, ArgsBuf::from_slices(["a", "1", "b", "2"]).as_args());
    });
    with("debug coding k", |command| {
        assert!(matches!(command, Command::DebugCoding { key: b"k" }))
    });
    with("debug sdslen k", |command| {
        assert!(matches!(command, Command::DebugSdsLen { key: b"k" }))
    });
}

#[test]
fn commands_of_the_gateway_have_no_parser() {
    for line in [
        "ping",
        "config get x",
        "client id",
        "multi",
        "watch k",
        "debug sleep 0",
    ] {
        let args = words(line);
        assert!(
            parse(resolve(args.as_args()).expect(line), args.as_args()).is_none(),
            "{line}"
        );
    }
}

#[test]
fn lines_about_lists_are_refused_in_the_words_of_redis() {
    const SYNTAX: &str = "ERR syntax error";
    const INTEGER: &str = "ERR value is not an integer or out of range";
    const POSITIVE: &str = "ERR value is out of range, must be positive";
    const KEYS: &str = "ERR numkeys should be greater than 0";
    const COUNT: &str = "ERR count should be greater than 0";
    for (line, expected) in [
        ("lpush k", "ERR wrong number of arguments for 'lpush' command"),
        ("lpop k 1 2", "ERR wrong number of arguments for 'lpop' command"),
        ("rpop k 1 2", "ERR wrong number of arguments for 'rpop' command"),
        ("lpop k -1", POSITIVE),
        ("rpop k x", POSITIVE),
        ("lindex k x", INTEGER),
        ("lset k x v", INTEGER),
        ("lrange k 0 x", INTEGER),
        ("ltrim k x 0", INTEGER),
        ("lrem k x v", INTEGER),
        ("linsert k beside a b", SYNTAX),
        ("lpos k v rank", SYNTAX),
        ("lpos k v foo 1", SYNTAX),
        ("lpos k v rank x", INTEGER),
        (
            "lpos k v rank 0",
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        ),
        (
            "lpos k v rank -9223372036854775808",
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("lpos k v count -1", "ERR COUNT can't be negative"),
        ("lpos k v maxlen x", "ERR MAXLEN can't be negative"),
        ("lmove a b left top", SYNTAX),
        ("lmpop 0 a left", KEYS),
        ("lmpop x a left", KEYS),
        ("lmpop 9223372036854775807 a left", SYNTAX),
        ("lmpop 2 a left", SYNTAX),
        ("lmpop 1 a top", SYNTAX),
        ("lmpop 1 a left count", SYNTAX),
        ("lmpop 1 a left count 0", COUNT),
        ("lmpop 1 a left count x", COUNT),
        ("lmpop 1 a left count 1 count", SYNTAX),
        ("lmpop 1 a left limit 1", SYNTAX),
    ] {
        assert_eq!(error(line).as_deref(), Some(expected), "{line}");
    }
    with("lpos k v rank -2 maxlen 5 count 0", |command| {
        let Command::List(ListCommand::Position { search, .. }) = command else {
            panic!("{command:?}");
        };
        let expected = ListSearch {
            from: ListEnd::Right,
            rank: 2,
            count: Some(0),
            length_max: 5,
        };
        assert_eq!(search, expected);
    });
    with("lmpop 2 a b right count 7", |command| {
        let Command::List(ListCommand::PopFirst { keys, end, count }) = command else {
            panic!("{command:?}");
        };
        assert_eq!((keys, end, count), (words("a b").as_args(), ListEnd::Right, 7));
    });
}

#[test]
fn lines_about_streams_are_refused_in_the_words_of_redis() {
    const SYNTAX: &str = "ERR syntax error";
    const INTEGER: &str = "ERR value is not an integer or out of range";
    const ID: &str = "ERR Invalid stream ID specified as stream command argument";
    const ADD: &str = "ERR wrong number of arguments for 'xadd' command";
    const TWO: &str = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
    const NO_TRIM: &str = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
    const EXACT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
    const XGROUP: &str = "ERR unknown subcommand or wrong number of arguments for 'create'. Try XGROUP HELP.";
    const XINFO: &str = "ERR unknown subcommand or wrong number of arguments for 'stream'. Try XINFO HELP.";
    for (line, expected) in [
        ("xadd k * f", ADD),
        ("xadd k maxlen 1 *", ADD),
        ("xadd k 1-1 f v f", ADD),
        (
            "xadd k 0-0 f v",
            "ERR The ID specified in XADD must be greater than 0-0",
        ),
        ("xadd k 1-1- f v", ID),
        ("xadd k 1-x f v", ID),
        ("xadd k - f v", ID),
        ("xadd k 18446744073709551616-0 f v", ID),
        ("xadd k maxlen x * f v", INTEGER),
        ("xadd k maxlen -1 * f v", "ERR The MAXLEN argument must be >= 0."),
        (
            "xadd k maxlen ~ 1 limit -1 * f v",
            "ERR The LIMIT argument must be >= 0.",
        ),
        ("xadd k maxlen 1 minid 1 * f v", TWO),
        ("xadd k minid - * f v", ID),
        ("xadd k limit 3 * f v", NO_TRIM),
        ("xadd k maxlen 1 limit 3 * f v", EXACT),
        ("xadd k maxlen 1 limit 0 * f v", EXACT),
        ("xtrim k foo 1", SYNTAX),
        (
            "xtrim k limit 0",
            "ERR syntax error, XTRIM must be called with a trimming strategy",
        ),
        ("xtrim k limit 1", NO_TRIM),
        ("xrange k 0 x", ID),
        (
            "xrange k (18446744073709551615-18446744073709551615 +",
            "ERR invalid start ID for the interval",
        ),
        ("xrange k - (0-0", "ERR invalid end ID for the interval"),
        ("xrange k (- +", ID),
        ("xrange k - + count", SYNTAX),
        ("xrange k - + limit 1", SYNTAX),
        ("xrange k - + count x", INTEGER),
        ("xdel k 1 x", ID),
        ("xsetid k 1 entriesadded -1", "ERR entries_added must be positive"),
        (
            "xsetid k 1 maxdeletedid 2",
            "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
        ),
        ("xsetid k 1 entriesadded", SYNTAX),
        ("xread count 1 foo 1", SYNTAX),
        ("xread count 1 count 1", SYNTAX),
        (
            "xread block x streams k 0",
            "ERR timeout is not an integer or out of range",
        ),
        ("xread block -1 streams k 0", "ERR timeout is negative"),
        (
            "xread streams a b 0",
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
        ),
        ("xread streams k +", ID),
        (
            "xread group g c streams k 0",
            "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        (
            "xread noack streams k 0",
            "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        (
            "xread streams k >",
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        ),
        (
            "xreadgroup count 1 block 1 streams k >",
            "ERR Missing GROUP option for XREADGROUP",
        ),
        (
            "xreadgroup group g c streams k $",
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        ),
        ("xack k g x", ID),
        ("xpending k g -", SYNTAX),
        ("xpending k g idle 5 - +", SYNTAX),
        ("xpending k g idle x - + 1", INTEGER),
        (
            "xclaim k g c x 1",
            "ERR Invalid min-idle-time argument for XCLAIM",
        ),
        (
            "xclaim k g c 1 1 idle x",
            "ERR Invalid IDLE option argument for XCLAIM",
        ),
        (
            "xclaim k g c 1 1 time x",
            "ERR Invalid TIME option argument for XCLAIM",
        ),
        (
            "xclaim k g c 1 1 retrycount x",
            "ERR Invalid RETRYCOUNT option argument for XCLAIM",
        ),
        (
            "xclaim k g c 1 1 force foo",
            "ERR Unrecognized XCLAIM option 'foo'",
        ),
        ("xclaim k g c 1 1 idle", "ERR Unrecognized XCLAIM option 'idle'"),
        (
            "xautoclaim k g c x 1",
            "ERR Invalid min-idle-time argument for XAUTOCLAIM",
        ),
        ("xautoclaim k g c 1 0 count 0", "ERR COUNT must be > 0"),
        (
            "xautoclaim k g c 1 0 count 9223372036854775807",
            "ERR COUNT must be > 0",
        ),
        ("xautoclaim k g c 1 0 foo", SYNTAX),
        ("xgroup create k g x", ID),
        ("xgroup create k g $ foo", XGROUP),
        (
            "xgroup create k g $ entriesread -2",
            "ERR value for ENTRIESREAD must be positive or -1",
        ),
        ("xgroup", "ERR wrong number of arguments for 'xgroup' command"),
        ("xinfo stream k foo", XINFO),
        ("xinfo stream k full count", XINFO),
        ("xinfo stream k full count x", INTEGER),
    ] {
        assert_eq!(error(line).as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn options_of_streams_reach_the_command() {
    let stream = |line: &str, check: &dyn Fn(StreamCommand<'_>)| {
        with(line, |command| match command {
            Command::Stream(stream) => check(stream),
            other => panic!("{other:?}"),
        });
    };
    let adds = |line: &str, expected: (NewId, bool, Option<Trim>)| {
        stream(line, &|command| {
            let StreamCommand::Add {
                id,
                creates,
                trim,
                fields,
                ..
            } = command
            else {
                panic!("{command:?}");
            };
            assert_eq!((id, creates, trim), expected, "{line}");
            assert_eq!(fields, words("f v").as_args());
        });
    };
    let trim = |keeps, is_approximate, limit| {
        Some(Trim {
            keeps,
            is_approximate,
            limit,
        })
    };
    adds("xadd k * f v", (NewId::Now, true, None));
    adds("xadd k 7-* f v", (NewId::Of { ms: 7 }, true, None));
    adds(
        "xadd k 007 f v",
        (NewId::Exactly(StreamId::new(7, 0)), true, None),
    );
    let id = NewId::Exactly(StreamId::new(7, 3));
    adds(
        "xadd k nomkstream maxlen 5 7-3 f v",
        (id, false, trim(TrimBound::Newest(5), false, None)),
    );
    adds(
        "xadd k maxlen ~ 5 limit 0 * f v",
        (NewId::Now, true, trim(TrimBound::Newest(5), true, Some(0))),
    );
    let from = TrimBound::From(StreamId::new(9, 0));
    adds(
        "xadd k limit 3 minid ~ 9 * f v",
        (NewId::Now, true, trim(from, true, Some(3))),
    );
    stream("xrevrange k (9-1 5 count -1", &|command| {
        let StreamCommand::Range {
            start,
            end,
            count,
            reverse: true,
            ..
        } = command
        else {
            panic!("{command:?}");
        };
        assert_eq!(
            (start, end, count),
            (StreamId::new(5, 0), StreamId::new(9, 0), Some(0))
        );
    });
    stream("xrange k 5 9", &|command| {
        let StreamCommand::Range { start, end, .. } = command else {
            panic!("{command:?}");
        };
        assert_eq!((start, end), (StreamId::new(5, 0), StreamId::new(9, u64::MAX)));
    });
    stream(
        "xclaim k g c -5 1-1 2 idle 7 retrycount 3 force justid lastid 9",
        &|command| {
            let StreamCommand::Claim {
                claimant,
                ids,
                options,
            } = command
            else {
                panic!("{command:?}");
            };
            let expected = ClaimOptions {
                delivered: DeliveryTime::Ago(7),
                deliveries: Some(3),
                is_forced: true,
                only_ids: true,
                last_id: StreamId::new(9, 0),
            };
            let by = Claimant {
                key: b"k",
                group: b"g",
                consumer: b"c",
                idle_min_millis: 0,
            };
            assert_eq!((claimant, ids.len(), options), (by, 2, expected));
        },
    );
    with(
        "xreadgroup group streams c block 0 noack streams a b > 5",
        |command| {
            let Command::Blocking(blocking) = command else {
                panic!("{command:?}");
            };
            let BlockingPop::Streams(read) = blocking.pop else {
                panic!("{blocking:?}");
            };
            let group = read.group.expect("it is of one");
            assert_eq!((group.group, group.is_acknowledged), (&b"streams"[..], true));
            let starts: Vec<ReadFrom> = read.streams().map(|(_, from)| from).collect();
            assert_eq!(starts, [ReadFrom::New, ReadFrom::After(StreamId::new(5, 0))]);
            assert!(blocking.timeout_millis.is_none() && read.writes());
        },
    );
}

#[test]
fn reads_of_streams_wait_only_if_they_are_asked_to() {
    for (line, expected) in [
        ("xread streams block 0", false),
        ("xread count block streams k 0", false),
        ("xread block 5 streams k $", true),
        ("xreadgroup group block c streams k >", false),
        ("xreadgroup group g c block 0 streams k >", true),
        ("blpop k 0", true),
        ("lpop k", false),
    ] {
        let args = words(line);
        let spec = resolve(args.as_args()).expect(line);
        assert_eq!(waits(spec, args.as_args()), expected, "{line}");
    }
}
