//! Every error that a client can see.

use ids::Slot;
use resp::{Args, ReplyWriter};
use std::borrow::Cow;
use std::fmt;

/// An error reply. `Display` is the text on the wire, its code included, except that bytes which are not
/// UTF-8 are replaced: [`ReplyError::write`] sends them as they are.
///
/// The words are those of Redis 7.0: clients and test suites compare them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplyError {
    /// Its words never vary.
    Fixed(&'static str),
    /// The number of words does not fit the command of this name.
    WrongArity(&'static str),
    /// The command of this name was given a time to live that is not positive or reaches too far.
    InvalidExpireTime(&'static str),
    /// It quotes what the client sent, which can be any bytes.
    Quoting(Box<[u8]>),
}

/// Gives the errors whose words never vary their names.
macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        #[allow(non_upper_case_globals)]
        impl ReplyError {
            $(
                $(#[$doc])*
                #[doc = concat!("`", $text, "`")]
                pub const $name: ReplyError = ReplyError::Fixed($text);
            )*
        }
    };
}

fixed! {
    // Words that do not parse.
    /// A backup without a number.
    InvalidBackupId = "ERR a backup is named by a positive integer";
    /// `MRESTORE`.
    BadPayload = "ERR the payload of an object is none, or of a version that this build does not know; nothing was restored";
    /// `MRESTORE` of more elements.
    NothingToContinue = "ERR there is no large collection of that kind under the key to add elements to; nothing was restored";
    /// `RESTORE`, and so on.
    InvalidTtl = "ERR Invalid TTL value, must be >= 0";
    IdleTimeNegative = "ERR Invalid IDLETIME value, must be >= 0";
    FrequencyOutOfRange = "ERR Invalid FREQ value, must be >= 0 and <= 255";
    WrongPayload = "ERR DUMP payload version or checksum are wrong";
    BadDataFormat = "ERR Bad data format";
    RestoreTooEarly = "ERR RESTORE cannot be carried out while a node of the cluster may be of a build that does not know it: \
        start all nodes with this build first; nothing was done";
    BusyKey = "BUSYKEY Target key name already exists.";
    /// A value is to be gathered before.
    ValueLost = "LOST too few fragments of a value of this command are left: more replicas have lost their memory than its code bears; SET or DEL puts an end to it";
    /// The same, where it may be a matter of time.
    InFragments = "TRYAGAIN a value of this command is in fragments, and was not gathered; nothing was done";
    Syntax = "ERR syntax error";
    NotAnInteger = "ERR value is not an integer or out of range";
    CountNegative = "ERR COUNT can't be negative";
    MaxLenNegative = "ERR MAXLEN can't be negative";
    NotPositive = "ERR value is out of range, must be positive";
    RankOutOfRange = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    RankZero = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
        or use negative to start from the end of the list";
    NotAnIntInRange = "ERR value is out of range, value must between -2147483648 and 2147483647";
    NotAFloat = "ERR value is not a valid float";
    NotALongInRange =
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    NanOrInfinityGiven = "ERR value is NaN or Infinity";
    OutOfRange = "ERR value is out of range";
    OffsetOutOfRange = "ERR offset is out of range";
    LimitNegative = "ERR LIMIT can't be negative";
    NotNegatable = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
    NumKeysNotPositive = "ERR numkeys should be greater than 0";
    NumKeysTooLarge = "ERR Number of keys can't be greater than number of args";
    BitOffset = "ERR bit offset is not an integer or out of range";
    Bit = "ERR bit is not an integer or out of range";
    BitArgument = "ERR The bit argument must be 1 or 0.";
    BitOpNotSources = "ERR BITOP NOT must be called with a single source key.";
    BitFieldType =
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
    BitFieldOverflow = "ERR Invalid OVERFLOW type specified";
    BitFieldReadOnly = "ERR BITFIELD_RO only supports the GET subcommand";
    GeoUnit = "ERR unsupported unit provided. please use M, KM, FT, MI";
    GeoRadius = "ERR need numeric radius";
    GeoRadiusNegative = "ERR radius cannot be negative";
    GeoWidth = "ERR need numeric width";
    GeoHeight = "ERR need numeric height";
    GeoBoxNegative = "ERR height or width cannot be negative";
    GeoCount = "ERR COUNT must be > 0";
    GeoAnyWithoutCount = "ERR the ANY argument requires COUNT argument";
    GeoSearchStoreWith =
        "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
    GeoRadiusStoreWith =
        "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
    ExpireNxWithOthers = "ERR NX and XX, GT or LT options at the same time are not compatible";
    ExpireGtAndLt = "ERR GT and LT options at the same time are not compatible";
    LcsLengthAndMatches = "ERR If you want both the length and indexes, please just use IDX.";
    InvalidCursor = "ERR invalid cursor";
    DbOutOfRange = "ERR DB index is out of range";
    InvalidFirstDb = "ERR invalid first DB index";
    InvalidSecondDb = "ERR invalid second DB index";
    SameObject = "ERR source and destination objects are the same";
    AddGtLtAndNx = "ERR GT, LT, and/or NX options at the same time are not compatible";
    AddIncrOfSeveral = "ERR INCR option supports a single increment-element pair";
    AddNxAndXx = "ERR XX and NX options at the same time are not compatible";
    LimitOfRanks =
        "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
    MemberRange = "ERR min or max not valid string range item";
    ScoreRange = "ERR min or max is not a float";
    ScoresByLex = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
    Weight = "ERR weight value is not a float";
    TimeoutNotAnInteger = "ERR timeout is not an integer or out of range";
    TimeoutNotAFloat = "ERR timeout is not a float or out of range";
    TimeoutOutOfRange = "ERR timeout is out of range";
    CountNotPositive = "ERR count should be greater than 0";
    TimeoutNegative = "ERR timeout is negative";

    // What the data do not allow.
    WrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
    GeoNoSuchMember = "ERR could not decode requested zset member";
    LcsWrongType = "ERR The specified keys must contain string values";
    IndexOutOfRange = "ERR index out of range";
    NoSuchKey = "ERR no such key";
    ScoreNotADouble = "ERR One or more scores can't be converted into double";
    ValueOutOfRange = "ERR value is out of range";
    Overflow = "ERR increment or decrement would overflow";
    DecrementOverflow = "ERR decrement would overflow";
    InsufficientBalance = "ERR insufficient balance";
    HashNotAnInteger = "ERR hash value is not an integer";
    HashNotAFloat = "ERR hash value is not a float";
    NotAHyperLogLog = "WRONGTYPE Key is not a valid HyperLogLog string value.";
    CorruptedHyperLogLog = "INVALIDOBJ Corrupted HLL object detected";
    NoHyperLogLogToDebug = "ERR The specified key does not exist";
    HyperLogLogNotSparse = "ERR HLL encoding is not sparse";
    NanOrInfinity = "ERR increment would produce NaN or Infinity";
    ScoreNotANumber = "ERR resulting score is not a number (NaN)";
    RepliesTooLong = "ERR the replies to what was read at once are longer than the 768 MiB that can travel together; \
        read less at a time";
    StringTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    NoFrequency = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
        Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    NoIdleTime = "ERR An LFU maxmemory policy is selected, idle time not tracked. \
        Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    OutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";

    // The connection.
    /// What was kept of the keys is still being read, and no other node leads their group.
    Loading = "LOADING Chorale is loading the dataset in memory";
    NoAuth = "NOAUTH Authentication required.";
    HelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
        HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
        protocol version at the same time";
    WrongPass = "WRONGPASS invalid username-password pair or user is disabled.";
    AuthWithoutPassword = "ERR AUTH <password> called without any password configured for the default user. \
        Are you sure your configuration is correct?";
    NoProto = "NOPROTO unsupported protocol version";
    ProtocolNotAnInteger = "ERR Protocol version is not an integer or out of range";
    ClientName = "ERR Client names cannot contain spaces, newlines or special characters.";
    ClientId = "ERR Invalid client ID";
    ClientIdNotPositive = "ERR client-id should be greater than 0";
    NoSuchClient = "ERR No such client";
    MaxAgeNotAnInteger = "ERR maxage is not an integer or out of range";
    MaxAgeNotPositive = "ERR maxage should be greater than 0";
    PauseMode = "ERR CLIENT PAUSE mode must be WRITE or ALL";
    TooManyClients = "ERR max number of clients reached";

    // Transactions.
    ExecAbort = "EXECABORT Transaction discarded because of previous errors.";
    ExecWithoutMulti = "ERR EXEC without MULTI";
    DiscardWithoutMulti = "ERR DISCARD without MULTI";
    NestedMulti = "ERR MULTI calls can not be nested";
    WatchInsideMulti = "ERR WATCH inside MULTI is not allowed";
    NotInTransaction = "ERR Command not allowed inside a transaction";

    // Streams.
    InvalidStreamId = "ERR Invalid stream ID specified as stream command argument";
    InvalidRangeStart = "ERR invalid start ID for the interval";
    InvalidRangeEnd = "ERR invalid end ID for the interval";
    StreamIdZero = "ERR The ID specified in XADD must be greater than 0-0";
    StreamIdNotAbove = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    StreamIdsExhausted = "ERR The stream has exhausted the last possible ID, unable to add more items";
    StreamEntryTooLarge = "ERR Elements are too large to be stored";
    StreamMaxLenNegative = "ERR The MAXLEN argument must be >= 0.";
    StreamLimitNegative = "ERR The LIMIT argument must be >= 0.";
    TwoTrimBounds = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
    LimitWithoutTrim = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
    LimitOfExactTrim = "ERR syntax error, LIMIT cannot be used without the special ~ option";
    NoTrim = "ERR syntax error, XTRIM must be called with a trimming strategy";
    EntriesAddedNegative = "ERR entries_added must be positive";
    EntriesReadNegative = "ERR value for ENTRIESREAD must be positive or -1";
    SetIdBelowGivenDeleted = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
    SetIdBelowTop = "ERR The ID specified in XSETID is smaller than the target stream top item";
    EntriesAddedBelowLength = "ERR The entries_added specified in XSETID is smaller than the target stream length";
    UnbalancedStreams = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.";
    GroupOfXread = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.";
    NoAckOfXread = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.";
    NoGroup = "ERR Missing GROUP option for XREADGROUP";
    LastIdOfGroup = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this \
        consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty \
        result set.";
    NewWithoutGroup = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> \
        option.";
    ClaimIdleMin = "ERR Invalid min-idle-time argument for XCLAIM";
    ClaimIdle = "ERR Invalid IDLE option argument for XCLAIM";
    ClaimTime = "ERR Invalid TIME option argument for XCLAIM";
    ClaimRetryCount = "ERR Invalid RETRYCOUNT option argument for XCLAIM";
    AutoClaimIdleMin = "ERR Invalid min-idle-time argument for XAUTOCLAIM";
    AutoClaimCount = "ERR COUNT must be > 0";
    GroupExists = "BUSYGROUP Consumer Group name already exists";
    /// `XGROUP` of a key that is absent.
    NoStreamForGroup = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
        the MKSTREAM option to create an empty stream automatically.";
    /// A client waited for a group of a stream that is gone, or is something else now.
    StreamIsGone = "UNBLOCKED the stream key no longer exists";
    /// A client waited for a group that is gone.
    GroupIsGone = "NOGROUP the consumer group this client was blocked on no longer exists";

    // Publish and subscribe, and `MONITOR`.
    MonitorDenied = "ERR MONITOR isn't allowed for DENY BLOCKING client";
    MonitorOnKeys = "ERR Replica can't interact with the keyspace";
    ShardSubscribeDenied = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
    TooManySubscriptions = "ERR too many subscriptions";
    // The cluster.
    ClusterDisabled = "ERR This instance has cluster support disabled";
    InvalidSlot = "ERR Invalid slot";
    InvalidSlotOrCount = "ERR Invalid slot or number of keys";
    SelectInCluster = "ERR SELECT is not allowed in cluster mode";
    SwapDbInCluster = "ERR SWAPDB is not allowed in cluster mode";
    MoveInCluster = "ERR MOVE is not allowed in cluster mode";
    CopyInCluster = "ERR Copying to another database is not allowed in cluster mode";

    // The server.
    NoConfigFile = "ERR The server is running without a config file";
    SlowLogCount = "ERR count should be greater than or equal to -1";

    // `COMMAND`.
    InvalidCommand = "ERR Invalid command specified";
    NoKeyArguments = "ERR The command has no key arguments";
    InvalidArguments = "ERR Invalid arguments specified for command";
    InvalidArgumentCount = "ERR Invalid number of arguments specified for command";
}

/// Longest part of a client's word that an error quotes.
const QUOTED_MAX: usize = 128;

impl ReplyError {
    /// The first word is no command.
    pub fn unknown_command(args: Args<'_>) -> ReplyError {
        let mut text = b"ERR unknown command '".to_vec();
        text.extend_from_slice(quotable(args.get(0).unwrap_or_default(), QUOTED_MAX));
        text.extend_from_slice(b"', with args beginning with: ");
        let start = text.len();
        for word in args.from(1).iter() {
            let quoted = text.len() - start;
            if quoted >= QUOTED_MAX {
                break;
            }
            text.push(b'\'');
            text.extend_from_slice(quotable(word, QUOTED_MAX - quoted));
            text.extend_from_slice(b"' ");
        }
        ReplyError::Quoting(text.into())
    }

    /// The second word is no subcommand of `container`.
    pub fn unknown_subcommand(container: &str, word: &[u8]) -> ReplyError {
        ReplyError::subcommand("unknown subcommand", container, word)
    }

    /// A container that tells its subcommands apart by itself does not know this one, or not with so many
    /// words.
    pub fn unknown_subcommand_or_arity(container: &str, word: &[u8]) -> ReplyError {
        ReplyError::subcommand(
            "unknown subcommand or wrong number of arguments for",
            container,
            word,
        )
    }

    fn subcommand(what: &str, container: &str, word: &[u8]) -> ReplyError {
        let container = container.to_ascii_uppercase();
        let before = format!("ERR {what} '");
        let after = format!("'. Try {container} HELP.");
        ReplyError::quoting(&before, quotable(word, QUOTED_MAX), &after)
    }

    /// There is no such group, or nothing under its key.
    pub fn no_group(key: &[u8], group: &[u8]) -> ReplyError {
        ReplyError::group_missing(
            b"NOGROUP No such key '",
            key,
            b"' or consumer group '",
            group,
            b"'",
        )
    }

    /// The same, as `XREADGROUP` says it.
    pub fn no_group_to_read(key: &[u8], group: &[u8]) -> ReplyError {
        let after = b"' in XREADGROUP with GROUP option";
        ReplyError::group_missing(
            b"NOGROUP No such key '",
            key,
            b"' or consumer group '",
            group,
            after,
        )
    }

    /// There is no such group of the stream that is there.
    pub fn no_group_of_key(key: &[u8], group: &[u8]) -> ReplyError {
        let between = b"' for key name '";
        ReplyError::group_missing(b"NOGROUP No such consumer group '", group, between, key, b"'")
    }

    fn group_missing(before: &[u8], first: &[u8], between: &[u8], second: &[u8], after: &[u8]) -> ReplyError {
        let (first, second) = (quotable(first, usize::MAX), quotable(second, usize::MAX));
        ReplyError::Quoting([before, first, between, second, after].concat().into())
    }

    /// `XCLAIM` does not know this option.
    pub(crate) fn unknown_claim_option(word: &[u8]) -> ReplyError {
        ReplyError::quoting(
            "ERR Unrecognized XCLAIM option '",
            quotable(word, usize::MAX),
            "'",
        )
    }

    /// `PFDEBUG` does not know this subcommand.
    pub(crate) fn unknown_pfdebug(word: &[u8]) -> ReplyError {
        ReplyError::quoting(
            "ERR Unknown PFDEBUG subcommand '",
            quotable(word, QUOTED_MAX),
            "'",
        )
    }

    /// `EXPIRE` and its kin do not know this option.
    pub fn unsupported_option(word: &[u8]) -> ReplyError {
        ReplyError::quoting("ERR Unsupported option ", quotable(word, usize::MAX), "")
    }

    /// The node of this address leads `slot`.
    pub fn moved(slot: Slot, address: &str) -> ReplyError {
        ReplyError::Quoting(format!("MOVED {} {address}", slot.number()).into_bytes().into())
    }

    /// No node is called this.
    pub fn unknown_node(name: &[u8]) -> ReplyError {
        ReplyError::quoting("ERR Unknown node ", quotable(name, QUOTED_MAX), "")
    }

    /// No place on the map has this longitude and latitude.
    pub fn position_out_of_range(longitude: f64, latitude: f64) -> ReplyError {
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        ReplyError::Quoting(text.into_bytes().into())
    }

    /// An error that quotes `word`.
    pub fn quoting(before: &str, word: &[u8], after: &str) -> ReplyError {
        ReplyError::Quoting([before.as_bytes(), word, after.as_bytes()].concat().into())
    }

    /// Sends the error.
    pub fn write(&self, w: &mut ReplyWriter<'_>) {
        w.error_bytes(&self.bytes());
    }

    /// The reply's bytes, without the leading `-` and the line end.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            ReplyError::Fixed(text) => Cow::Borrowed(text.as_bytes()),
            ReplyError::WrongArity(name) => {
                Cow::Owned(format!("ERR wrong number of arguments for '{name}' command").into_bytes())
            }
            ReplyError::InvalidExpireTime(name) => {
                Cow::Owned(format!("ERR invalid expire time in '{name}' command").into_bytes())
            }
            ReplyError::Quoting(text) => Cow::Borrowed(text),
        }
    }
}

/// What an error quotes of a client's word: at most `max` bytes, and nothing from the first NUL on.
fn quotable(word: &[u8], max: usize) -> &[u8] {
    let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
    &word[..end.min(max)]
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes()))
    }
}

impl std::error::Error for ReplyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    #[test]
    fn unknown_commands_are_quoted_up_to_a_limit() {
        let error = |words: &[&str]| {
            let words = ArgsBuf::from_slices(words);
            ReplyError::unknown_command(words.as_args()).to_string()
        };
        let long = "x".repeat(200);
        assert_eq!(
            error(&["foo"]),
            "ERR unknown command 'foo', with args beginning with: "
        );
        assert_eq!(
            error(&["foo", "a", "b"]),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
        assert_eq!(
            error(&[&long]),
            format!(
                "ERR unknown command '{}', with args beginning with: ",
                &long[..128]
            )
        );
        assert_eq!(
            error(&["foo", "a", &long, "b"]),
            format!(
                "ERR unknown command 'foo', with args beginning with: 'a' '{}' ",
                &long[..124]
            )
        );
        assert_eq!(
            error(&["a\0b", "c\0d"]),
            "ERR unknown command 'a', with args beginning with: 'c' "
        );
    }

    #[test]
    fn quoted_bytes_reach_the_client_unchanged() {
        let mut out = Vec::new();
        let error = ReplyError::unknown_subcommand("config", b"\xff\r\n");
        error.write(&mut ReplyWriter::new(&mut out, resp::Protocol::Resp2));
        assert_eq!(out, b"-ERR unknown subcommand '\xff  '. Try CONFIG HELP.\r\n");
    }

    #[test]
    fn errors_are_small_because_every_result_has_room_for_one() {
        assert!(size_of::<ReplyError>() <= 24);
    }
}
