//! The command table: every spec, and how a client's words find theirs.

use crate::word::Word;
use crate::{
    ReplyError, Spec, bitmap, blocking, cluster, connection, generic, geo, hash, hyperloglog, latency, list,
    own, pubsub, scan, server, set, slowlog, sort, sorted_set, string, transaction,
};
use resp::Args;

/// Lists every spec once; the order is that of the documentation, subcommands following their container.
macro_rules! command_table {
    ($($id:ident = $family:ident::$spec:ident,)*) => {
        /// One command or subcommand, as a dense number: an index for counters, and something to `match` on.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum CommandId {
            $(#[doc = concat!("[`", stringify!($spec), "`](crate::Spec::name)")] $id,)*
        }

        /// Indexed by [`CommandId`].
        static SPECS: [&Spec; CommandId::COUNT] = [$(&$family::$spec),*];

        impl CommandId {
            /// Every command and subcommand, in the order of their numbers.
            pub const ALL: &'static [CommandId] = &[$(CommandId::$id),*];

            /// How many there are: [`CommandId::index`] stays below.
            pub const COUNT: usize = CommandId::ALL.len();
        }
    };
}

command_table! {
    // Strings.
    Get = string::GET,
    Set = string::SET,
    SetEx = string::SETEX,
    PSetEx = string::PSETEX,
    SetNx = string::SETNX,
    GetSet = string::GETSET,
    GetEx = string::GETEX,
    GetDel = string::GETDEL,
    MGet = string::MGET,
    MSet = string::MSET,
    MSetNx = string::MSETNX,
    Append = string::APPEND,
    StrLen = string::STRLEN,
    Incr = string::INCR,
    Decr = string::DECR,
    IncrBy = string::INCRBY,
    DecrBy = string::DECRBY,
    IncrByFloat = string::INCRBYFLOAT,
    GetRange = string::GETRANGE,
    SubStr = string::SUBSTR,
    SetRange = string::SETRANGE,
    Lcs = string::LCS,
    // Strings, not of Redis.
    Cas = own::CAS,
    Add = own::ADD,
    Sub = own::SUB,
    Xfer = own::XFER,
    XferFrom = own::XFER_FROM,
    XferTo = own::XFER_TO,
    // Bitmaps.
    SetBit = bitmap::SETBIT,
    GetBit = bitmap::GETBIT,
    BitCount = bitmap::BITCOUNT,
    BitPos = bitmap::BITPOS,
    BitOp = bitmap::BITOP,
    BitField = bitmap::BITFIELD,
    BitFieldRo = bitmap::BITFIELD_RO,
    // Keys of any type.
    Del = generic::DEL,
    Unlink = generic::UNLINK,
    Exists = generic::EXISTS,
    Touch = generic::TOUCH,
    Type = generic::TYPE,
    Expire = generic::EXPIRE,
    PExpire = generic::PEXPIRE,
    ExpireAt = generic::EXPIREAT,
    PExpireAt = generic::PEXPIREAT,
    Ttl = generic::TTL,
    PTtl = generic::PTTL,
    ExpireTime = generic::EXPIRETIME,
    PExpireTime = generic::PEXPIRETIME,
    Persist = generic::PERSIST,
    Rename = generic::RENAME,
    RenameNx = generic::RENAMENX,
    Copy = generic::COPY,
    Move = generic::MOVE,
    Object = generic::OBJECT,
    ObjectEncoding = generic::OBJECT_ENCODING,
    ObjectFreq = generic::OBJECT_FREQ,
    ObjectIdleTime = generic::OBJECT_IDLETIME,
    ObjectRefCount = generic::OBJECT_REFCOUNT,
    ObjectHelp = generic::OBJECT_HELP,
    Keys = generic::KEYS,
    Scan = scan::SCAN,
    RandomKey = generic::RANDOMKEY,
    DbSize = generic::DBSIZE,
    FlushDb = generic::FLUSHDB,
    FlushAll = generic::FLUSHALL,
    SwapDb = generic::SWAPDB,
    // Lists.
    LPush = list::LPUSH,
    RPush = list::RPUSH,
    LPushX = list::LPUSHX,
    RPushX = list::RPUSHX,
    LPop = list::LPOP,
    RPop = list::RPOP,
    LLen = list::LLEN,
    LIndex = list::LINDEX,
    LSet = list::LSET,
    LRange = list::LRANGE,
    LTrim = list::LTRIM,
    LInsert = list::LINSERT,
    LRem = list::LREM,
    LPos = list::LPOS,
    LMove = list::LMOVE,
    RPopLPush = list::RPOPLPUSH,
    LMPop = list::LMPOP,
    // Sets.
    SAdd = set::SADD,
    SRem = set::SREM,
    SIsMember = set::SISMEMBER,
    SMIsMember = set::SMISMEMBER,
    SCard = set::SCARD,
    SMembers = set::SMEMBERS,
    SPop = set::SPOP,
    SRandMember = set::SRANDMEMBER,
    SMove = set::SMOVE,
    SInter = set::SINTER,
    SInterCard = set::SINTERCARD,
    SInterStore = set::SINTERSTORE,
    SUnion = set::SUNION,
    SUnionStore = set::SUNIONSTORE,
    SDiff = set::SDIFF,
    SDiffStore = set::SDIFFSTORE,
    SScan = set::SSCAN,
    // Hashes.
    HSet = hash::HSET,
    HMSet = hash::HMSET,
    HSetNx = hash::HSETNX,
    HGet = hash::HGET,
    HMGet = hash::HMGET,
    HGetAll = hash::HGETALL,
    HKeys = hash::HKEYS,
    HVals = hash::HVALS,
    HLen = hash::HLEN,
    HStrLen = hash::HSTRLEN,
    HExists = hash::HEXISTS,
    HDel = hash::HDEL,
    HIncrBy = hash::HINCRBY,
    HIncrByFloat = hash::HINCRBYFLOAT,
    HRandField = hash::HRANDFIELD,
    HScan = hash::HSCAN,
    // Sorted sets.
    ZAdd = sorted_set::ZADD,
    ZIncrBy = sorted_set::ZINCRBY,
    ZRem = sorted_set::ZREM,
    ZCard = sorted_set::ZCARD,
    ZScore = sorted_set::ZSCORE,
    ZMScore = sorted_set::ZMSCORE,
    ZRank = sorted_set::ZRANK,
    ZRevRank = sorted_set::ZREVRANK,
    ZCount = sorted_set::ZCOUNT,
    ZLexCount = sorted_set::ZLEXCOUNT,
    ZRange = sorted_set::ZRANGE,
    ZRangeStore = sorted_set::ZRANGESTORE,
    ZRevRange = sorted_set::ZREVRANGE,
    ZRangeByScore = sorted_set::ZRANGEBYSCORE,
    ZRevRangeByScore = sorted_set::ZREVRANGEBYSCORE,
    ZRangeByLex = sorted_set::ZRANGEBYLEX,
    ZRevRangeByLex = sorted_set::ZREVRANGEBYLEX,
    ZRemRangeByRank = sorted_set::ZREMRANGEBYRANK,
    ZRemRangeByScore = sorted_set::ZREMRANGEBYSCORE,
    ZRemRangeByLex = sorted_set::ZREMRANGEBYLEX,
    ZPopMin = sorted_set::ZPOPMIN,
    ZPopMax = sorted_set::ZPOPMAX,
    ZMPop = sorted_set::ZMPOP,
    ZUnion = sorted_set::ZUNION,
    ZInter = sorted_set::ZINTER,
    ZDiff = sorted_set::ZDIFF,
    ZUnionStore = sorted_set::ZUNIONSTORE,
    ZInterStore = sorted_set::ZINTERSTORE,
    ZDiffStore = sorted_set::ZDIFFSTORE,
    ZInterCard = sorted_set::ZINTERCARD,
    ZRandMember = sorted_set::ZRANDMEMBER,
    ZScan = sorted_set::ZSCAN,
    // HyperLogLogs.
    PfAdd = hyperloglog::PFADD,
    PfCount = hyperloglog::PFCOUNT,
    PfMerge = hyperloglog::PFMERGE,
    PfDebug = hyperloglog::PFDEBUG,
    PfSelfTest = hyperloglog::PFSELFTEST,
    // Positions on the earth.
    GeoAdd = geo::GEOADD,
    GeoPos = geo::GEOPOS,
    GeoDist = geo::GEODIST,
    GeoHash = geo::GEOHASH,
    GeoSearch = geo::GEOSEARCH,
    GeoSearchStore = geo::GEOSEARCHSTORE,
    GeoRadius = geo::GEORADIUS,
    GeoRadiusRo = geo::GEORADIUS_RO,
    GeoRadiusByMember = geo::GEORADIUSBYMEMBER,
    GeoRadiusByMemberRo = geo::GEORADIUSBYMEMBER_RO,
    // Pops that may wait.
    BLPop = blocking::BLPOP,
    BRPop = blocking::BRPOP,
    BLMove = blocking::BLMOVE,
    BRPopLPush = blocking::BRPOPLPUSH,
    BLMPop = blocking::BLMPOP,
    BZPopMin = blocking::BZPOPMIN,
    BZPopMax = blocking::BZPOPMAX,
    BZMPop = blocking::BZMPOP,
    // Sorting.
    Sort = sort::SORT,
    SortRo = sort::SORT_RO,
    // The connection.
    Hello = connection::HELLO,
    Auth = connection::AUTH,
    Ping = connection::PING,
    Echo = connection::ECHO,
    Quit = connection::QUIT,
    Reset = connection::RESET,
    Select = connection::SELECT,
    Client = connection::CLIENT,
    ClientId = connection::CLIENT_ID,
    ClientInfo = connection::CLIENT_INFO,
    ClientList = connection::CLIENT_LIST,
    ClientKill = connection::CLIENT_KILL,
    ClientGetName = connection::CLIENT_GETNAME,
    ClientSetName = connection::CLIENT_SETNAME,
    ClientSetInfo = connection::CLIENT_SETINFO,
    ClientReply = connection::CLIENT_REPLY,
    ClientNoEvict = connection::CLIENT_NO_EVICT,
    ClientUnblock = connection::CLIENT_UNBLOCK,
    ClientNoTouch = connection::CLIENT_NO_TOUCH,
    ClientPause = connection::CLIENT_PAUSE,
    ClientUnpause = connection::CLIENT_UNPAUSE,
    ClientGetRedir = connection::CLIENT_GETREDIR,
    ClientTrackingInfo = connection::CLIENT_TRACKINGINFO,
    ClientRequest = connection::CLIENT_REQUEST,
    ClientHelp = connection::CLIENT_HELP,
    // Publish and subscribe.
    Subscribe = pubsub::SUBSCRIBE,
    Unsubscribe = pubsub::UNSUBSCRIBE,
    PSubscribe = pubsub::PSUBSCRIBE,
    PUnsubscribe = pubsub::PUNSUBSCRIBE,
    Publish = pubsub::PUBLISH,
    SSubscribe = pubsub::SSUBSCRIBE,
    SUnsubscribe = pubsub::SUNSUBSCRIBE,
    SPublish = pubsub::SPUBLISH,
    PubSub = pubsub::PUBSUB,
    PubSubChannels = pubsub::PUBSUB_CHANNELS,
    PubSubNumSub = pubsub::PUBSUB_NUMSUB,
    PubSubNumPat = pubsub::PUBSUB_NUMPAT,
    PubSubShardChannels = pubsub::PUBSUB_SHARDCHANNELS,
    PubSubShardNumSub = pubsub::PUBSUB_SHARDNUMSUB,
    PubSubHelp = pubsub::PUBSUB_HELP,
    Monitor = pubsub::MONITOR,
    // The server.
    Info = server::INFO,
    Config = server::CONFIG,
    ConfigGet = server::CONFIG_GET,
    ConfigSet = server::CONFIG_SET,
    ConfigResetStat = server::CONFIG_RESETSTAT,
    ConfigRewrite = server::CONFIG_REWRITE,
    ConfigHelp = server::CONFIG_HELP,
    Command = server::COMMAND,
    CommandCount = server::COMMAND_COUNT,
    CommandDocs = server::COMMAND_DOCS,
    CommandGetKeys = server::COMMAND_GETKEYS,
    CommandGetKeysAndFlags = server::COMMAND_GETKEYSANDFLAGS,
    CommandInfo = server::COMMAND_INFO,
    CommandList = server::COMMAND_LIST,
    CommandHelp = server::COMMAND_HELP,
    Time = server::TIME,
    Wait = server::WAIT,
    Memory = server::MEMORY,
    MemoryUsage = server::MEMORY_USAGE,
    MemoryStats = server::MEMORY_STATS,
    MemoryDoctor = server::MEMORY_DOCTOR,
    MemoryMallocStats = server::MEMORY_MALLOC_STATS,
    MemoryPurge = server::MEMORY_PURGE,
    MemoryHelp = server::MEMORY_HELP,
    SlowLog = slowlog::SLOWLOG,
    SlowLogLen = slowlog::SLOWLOG_LEN,
    SlowLogGet = slowlog::SLOWLOG_GET,
    SlowLogReset = slowlog::SLOWLOG_RESET,
    SlowLogHelp = slowlog::SLOWLOG_HELP,
    Latency = latency::LATENCY,
    LatencyDoctor = latency::LATENCY_DOCTOR,
    LatencyGraph = latency::LATENCY_GRAPH,
    LatencyHistogram = latency::LATENCY_HISTOGRAM,
    LatencyHistory = latency::LATENCY_HISTORY,
    LatencyLatest = latency::LATENCY_LATEST,
    LatencyReset = latency::LATENCY_RESET,
    LatencyHelp = latency::LATENCY_HELP,
    LolWut = server::LOLWUT,
    Debug = server::DEBUG,
    DebugObject = server::DEBUG_OBJECT,
    DebugSdsLen = server::DEBUG_SDSLEN,
    Function = server::FUNCTION,
    FunctionFlush = server::FUNCTION_FLUSH,
    FunctionHelp = server::FUNCTION_HELP,
    Module = server::MODULE,
    ModuleList = server::MODULE_LIST,
    ModuleHelp = server::MODULE_HELP,
    Role = server::ROLE,
    LastSave = server::LASTSAVE,
    Save = server::SAVE,
    Shutdown = server::SHUTDOWN,
    // The cluster.
    Cluster = cluster::CLUSTER,
    ClusterInfo = cluster::CLUSTER_INFO,
    ClusterMyId = cluster::CLUSTER_MYID,
    ClusterMyShardId = cluster::CLUSTER_MYSHARDID,
    ClusterNodes = cluster::CLUSTER_NODES,
    ClusterSlots = cluster::CLUSTER_SLOTS,
    ClusterShards = cluster::CLUSTER_SHARDS,
    ClusterKeySlot = cluster::CLUSTER_KEYSLOT,
    ClusterCountKeysInSlot = cluster::CLUSTER_COUNTKEYSINSLOT,
    ClusterGetKeysInSlot = cluster::CLUSTER_GETKEYSINSLOT,
    ClusterLinks = cluster::CLUSTER_LINKS,
    ClusterReplicas = cluster::CLUSTER_REPLICAS,
    ClusterSlaves = cluster::CLUSTER_SLAVES,
    ClusterCountFailureReports = cluster::CLUSTER_COUNT_FAILURE_REPORTS,
    ClusterHelp = cluster::CLUSTER_HELP,
    ClusterAddSlots = cluster::CLUSTER_ADDSLOTS,
    ClusterAddSlotsRange = cluster::CLUSTER_ADDSLOTSRANGE,
    ClusterBumpEpoch = cluster::CLUSTER_BUMPEPOCH,
    ClusterDelSlots = cluster::CLUSTER_DELSLOTS,
    ClusterDelSlotsRange = cluster::CLUSTER_DELSLOTSRANGE,
    ClusterFailover = cluster::CLUSTER_FAILOVER,
    ClusterFlushSlots = cluster::CLUSTER_FLUSHSLOTS,
    ClusterForget = cluster::CLUSTER_FORGET,
    ClusterMeet = cluster::CLUSTER_MEET,
    ClusterReplicate = cluster::CLUSTER_REPLICATE,
    ClusterReset = cluster::CLUSTER_RESET,
    ClusterSaveConfig = cluster::CLUSTER_SAVECONFIG,
    ClusterSetConfigEpoch = cluster::CLUSTER_SET_CONFIG_EPOCH,
    ClusterSetSlot = cluster::CLUSTER_SETSLOT,
    ReadOnly = cluster::READONLY,
    ReadWrite = cluster::READWRITE,
    Asking = cluster::ASKING,
    // Transactions.
    Multi = transaction::MULTI,
    Exec = transaction::EXEC,
    Discard = transaction::DISCARD,
    Watch = transaction::WATCH,
    Unwatch = transaction::UNWATCH,
}

impl CommandId {
    /// What is known about the command.
    #[inline]
    pub fn spec(self) -> &'static Spec {
        SPECS[self.index()]
    }

    /// The number, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The commands that clients can call, without the subcommands, in the order of the documentation.
pub static TABLE: &[&Spec] = {
    const TOP_LEVEL: [&Spec; top_level_count()] = {
        let mut table = [SPECS[0]; top_level_count()];
        let (mut found, mut i) = (0, 0);
        while i < SPECS.len() {
            if is_listed(SPECS[i]) {
                table[found] = SPECS[i];
                found += 1;
            }
            i += 1;
        }
        table
    };
    &TOP_LEVEL
};

const fn top_level_count() -> usize {
    let (mut count, mut i) = (0, 0);
    while i < SPECS.len() {
        count += is_listed(SPECS[i]) as usize;
        i += 1;
    }
    count
}

/// Whether clients find it by its name: it is neither a subcommand nor a part of another command.
const fn is_listed(spec: &Spec) -> bool {
    if spec.is_internal {
        return false;
    }
    let name = spec.name.as_bytes();
    let mut i = 0;
    while i < name.len() {
        if name[i] == b'|' {
            return false;
        }
        i += 1;
    }
    true
}

/// Four times the number of commands or more, so that most names are found at the first place.
const BUCKETS: usize = 1_024;

#[derive(Clone, Copy)]
struct Bucket {
    name: Word,
    spec: Option<&'static Spec>,
}

/// Open addressing: a name stands in its own bucket or in the ones after it. Those that are longer than any word are
/// not here.
static BUCKET_TABLE: [Bucket; BUCKETS] = {
    let mut table = [Bucket {
        name: Word::NONE,
        spec: None,
    }; BUCKETS];
    let mut i = 0;
    while i < SPECS.len() {
        if is_listed(SPECS[i]) && SPECS[i].name.len() <= Word::MAX {
            let name = Word::new(SPECS[i].name.as_bytes());
            let mut bucket = name.hash(BUCKETS.ilog2());
            while table[bucket].spec.is_some() {
                bucket = (bucket + 1) % BUCKETS;
            }
            table[bucket] = Bucket {
                name,
                spec: Some(SPECS[i]),
            };
        }
        i += 1;
    }
    table
};

/// The command of this name, in any case.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Spec> {
    if name.len() > Word::MAX {
        return lookup_long(name);
    }
    let name = Word::new(name);
    let mut bucket = name.hash(BUCKETS.ilog2());
    loop {
        let candidate = &BUCKET_TABLE[bucket];
        if candidate.name == name {
            return candidate.spec;
        }
        candidate.spec?;
        bucket = (bucket + 1) % BUCKETS;
    }
}

/// The command of a name that is longer than any [`Word`]: there are few.
#[cold]
fn lookup_long(name: &[u8]) -> Option<&'static Spec> {
    let is_it = |spec: &&&'static Spec| spec.name.as_bytes().eq_ignore_ascii_case(name);
    TABLE.iter().find(is_it).copied()
}

/// The spec that a client's words mean: the command's, or its subcommand's, with the number of words checked.
#[inline]
pub fn resolve(args: Args<'_>) -> Result<&'static Spec, ReplyError> {
    resolve_found(args.get(0).and_then(lookup), args)
}

/// [`resolve`] of words that a gateway sent to a group: among them are those that only gateways say
/// ([`Spec::is_internal`]).
#[inline]
pub fn resolve_in_group(args: Args<'_>) -> Result<&'static Spec, ReplyError> {
    let find = |name| lookup(name).or_else(|| lookup_internal(name));
    resolve_found(args.get(0).and_then(find), args)
}

#[cold]
fn lookup_internal(name: &[u8]) -> Option<&'static Spec> {
    let parts = [CommandId::XferFrom, CommandId::XferTo].map(CommandId::spec);
    let is_it = |spec: &&'static Spec| spec.name.as_bytes().eq_ignore_ascii_case(name);
    parts.into_iter().find(is_it)
}

#[inline]
fn resolve_found(found: Option<&'static Spec>, args: Args<'_>) -> Result<&'static Spec, ReplyError> {
    let Some(command) = found else {
        return Err(ReplyError::unknown_command(args));
    };
    let spec = if command.subcommands.is_empty() {
        command
    } else {
        resolve_subcommand(command, args)?
    };
    check_arity(spec, args)?;
    Ok(spec)
}

/// The subcommand's spec, or the container's own if there is no second word.
fn resolve_subcommand(container: &'static Spec, args: Args<'_>) -> Result<&'static Spec, ReplyError> {
    let Some(word) = args.get(1) else {
        return Ok(container);
    };
    match subcommand(container, word) {
        Some(spec) if !container.open || spec.accepts(args.len()) => Ok(spec),
        _ if container.open => Ok(container),
        _ => Err(ReplyError::unknown_subcommand(container.name, word)),
    }
}

/// The subcommand of this name, in any case.
pub(crate) fn subcommand(container: &Spec, word: &[u8]) -> Option<&'static Spec> {
    let skipped = container.name.len() + 1;
    container
        .subcommands
        .iter()
        .copied()
        .find(|spec| spec.name.as_bytes()[skipped..].eq_ignore_ascii_case(word))
}

/// The command `name`, or the subcommand `container|name`, as `COMMAND INFO` takes them.
pub(crate) fn lookup_full(name: &[u8]) -> Option<&'static Spec> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = lookup(parts.next()?)?;
    match parts.next() {
        None => Some(command),
        Some(_) if command.open => None,
        Some(word) => subcommand(command, word),
    }
}

/// The spec that the first words name, however many words follow; `None` if there is none.
pub(crate) fn resolve_any(words: Args<'_>) -> Option<&'static Spec> {
    let command = lookup(words.get(0)?)?;
    match words.get(1) {
        Some(word) if !command.visible_subcommands().is_empty() => subcommand(command, word),
        _ => Some(command),
    }
}

/// Whether the number of words fits.
#[inline]
pub fn check_arity(spec: &Spec, args: Args<'_>) -> Result<(), ReplyError> {
    if spec.accepts(args.len()) {
        Ok(())
    } else {
        Err(ReplyError::WrongArity(spec.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Access, Categories, Flags, Route, Spread, Walks};
    use crate::{KeyFlags, KeySpec, KeyUse, keys};
    use resp::ArgsBuf;

    fn all() -> impl Iterator<Item = &'static Spec> {
        CommandId::ALL.iter().map(|id| id.spec())
    }

    #[test]
    fn numbers_and_specs_belong_together() {
        for (number, id) in CommandId::ALL.iter().enumerate() {
            assert_eq!(id.index(), number);
            assert_eq!(id.spec().id, *id, "{}", id.spec().name);
        }
        for container in TABLE {
            for spec in container.subcommands {
                assert!(
                    spec.name.starts_with(container.name) && spec.is_subcommand(),
                    "{}",
                    spec.name
                );
                assert!(
                    all().any(|listed| std::ptr::eq(listed, *spec)),
                    "{} is not in the table",
                    spec.name
                );
            }
        }
    }

    #[test]
    fn every_name_is_found_in_any_case() {
        for spec in TABLE {
            let upper = spec.name.to_ascii_uppercase();
            let mixed: String = upper
                .char_indices()
                .map(|(i, c)| if i % 2 == 0 { c.to_ascii_lowercase() } else { c })
                .collect();
            for name in [spec.name, &upper, &mixed] {
                let found = lookup(name.as_bytes()).expect(name);
                assert!(std::ptr::eq(found, *spec), "{name}");
            }
        }
    }

    #[test]
    fn parts_of_commands_are_found_by_groups_alone() {
        for id in [CommandId::XferFrom, CommandId::XferTo] {
            let spec = id.spec();
            assert!(spec.is_internal && TABLE.iter().all(|listed| listed.id != id));
            assert!(lookup(spec.name.as_bytes()).is_none() && lookup_full(spec.name.as_bytes()).is_none());
            for name in [spec.name.to_owned(), spec.name.to_ascii_uppercase()] {
                let words = ArgsBuf::from_slices([name.as_str(), "k", "1"]);
                assert!(resolve_any(words.as_args()).is_none());
                assert_eq!(
                    resolve(words.as_args()).err(),
                    Some(ReplyError::unknown_command(words.as_args()))
                );
                let found = resolve_in_group(words.as_args()).expect("groups know it");
                assert!(std::ptr::eq(found, spec), "{name}");
            }
            let words = ArgsBuf::from_slices([spec.name, "k"]);
            let error = resolve_in_group(words.as_args()).err();
            assert_eq!(error, Some(ReplyError::WrongArity(spec.name)));
        }
        let internal = all().filter(|spec| spec.is_internal).count();
        assert_eq!(internal, 2, "`lookup_internal` finds them all");
        let listed = ArgsBuf::from_slices(["GET", "k"]);
        assert!(std::ptr::eq(
            resolve_in_group(listed.as_args()).expect("everybody knows it"),
            CommandId::Get.spec()
        ));
        let unknown = ArgsBuf::from_slices(["XFER.NOPE", "k", "1"]);
        assert!(resolve_in_group(unknown.as_args()).is_err());
    }

    #[test]
    fn names_that_are_almost_right_are_not_found() {
        for name in [
            "",
            "ge",
            "gett",
            "get\0",
            "\0get",
            "g\x05t",
            "[et",
            "gET ",
            "config|get",
            "a-very-long-name-indeed",
        ] {
            assert!(lookup(name.as_bytes()).is_none(), "{name:?}");
        }
        // 0xC7 is `G` with the high bit set.
        assert!(lookup(b"\xc7ET").is_none());
    }

    #[test]
    fn specs_keep_the_rules_of_the_table() {
        for spec in all() {
            let name = spec.name;
            assert_eq!(name, name.to_ascii_lowercase());
            assert_ne!(spec.arity, 0, "{name}");
            assert!(
                usize::from(spec.arity.unsigned_abs()) > usize::from(spec.is_subcommand()),
                "{name}"
            );
            assert!(!spec.docs.summary.is_empty(), "{name}");
            assert!(
                !(spec.flags.contains(Flags::WRITE) && spec.flags.contains(Flags::READONLY)),
                "{name}"
            );
            assert_eq!(spec.parse.is_some(), spec.route != Route::Connection, "{name}");
            // Names of shard channels stand where keys stand.
            let is_key = |key: &&KeySpec| !key.flags.contains(KeyFlags::NOT_KEY);
            assert_eq!(
                spec.route == Route::Keys,
                spec.keys.iter().any(|key| is_key(&key)) && name != "watch",
                "{name}"
            );
            let mut keys = spec.keys.iter().filter(is_key);
            let writes_key = keys.any(|key| key.flags.key_use() == KeyUse::Write);
            if spec.flags.contains(Flags::WRITE)
                && spec.route != Route::Everywhere
                && name != "function|flush"
            {
                assert!(writes_key, "{name}");
            }
            assert!(
                !writes_key || spec.flags.contains(Flags::WRITE) || name == "pfcount",
                "{name}"
            );
            if spec.spread == Spread::Single && spec.route == Route::Keys {
                let many = spec.keys.len() > 1 || spec.keys[0].last != 0;
                assert!(!many, "{name} can have several keys");
            }
        }
    }

    #[test]
    fn commands_that_may_walk_far_say_so() {
        let named = |walks: Walks| {
            let mut names: Vec<&str> = all()
                .filter(|spec| spec.walks == walks)
                .map(|spec| spec.name)
                .collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(named(Walks::Whole), "hgetall hkeys hvals linsert lrem smembers");
        assert_eq!(
            named(Walks::Part),
            "blmpop bzmpop copy georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch \
             geosearchstore hrandfield hscan lmpop lpop lpos lrange ltrim rpop sdiff sdiffstore sinter sintercard \
             sinterstore sort sort_ro spop srandmember sscan sunion sunionstore zdiff zdiffstore zinter zintercard \
             zinterstore zmpop zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore \
             zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zscan zunion \
             zunionstore"
        );
        for spec in all().filter(|spec| spec.walks != Walks::Little) {
            assert_eq!(spec.route, Route::Keys, "{}", spec.name);
        }
        // Of the rest, those on the values of collections: a few elements each, or one for each word. Whoever adds a
        // command says here that it is one of them.
        let reads = |spec: &&Spec| matches!(spec.access, Access::Reads | Access::Modifies);
        let collections = [
            Categories::LIST,
            Categories::SET,
            Categories::HASH,
            Categories::SORTEDSET,
            Categories::GEO,
        ];
        let mut little: Vec<&str> = all()
            .filter(|spec| spec.walks == Walks::Little)
            .filter(reads)
            .filter(|spec| collections.iter().any(|one| spec.categories.contains(*one)))
            .map(|spec| spec.name)
            .collect();
        little.sort_unstable();
        assert_eq!(
            little.join(" "),
            "blmove blpop brpop brpoplpush bzpopmax bzpopmin geoadd geodist geohash geopos hdel hexists hget hincrby \
             hincrbyfloat hmget hmset hset hsetnx hstrlen lindex lmove lpush lpushx lset rpoplpush rpush rpushx sadd \
             sismember smismember smove srem zadd zcount zincrby zlexcount zmscore zrank zrem zrevrank zscore"
        );
    }

    #[test]
    fn words_resolve_to_a_spec_or_to_the_right_error() {
        for (words, expected) in [
            ("get k", Ok("get")),
            ("CONFIG Get x", Ok("config|get")),
            ("command", Ok("command")),
            ("command count", Ok("command|count")),
            ("debug object k", Ok("debug|object")),
            ("debug object", Ok("debug")),
            ("debug sleep 1", Ok("debug")),
            ("get", Err("ERR wrong number of arguments for 'get' command")),
            ("get a b", Err("ERR wrong number of arguments for 'get' command")),
            (
                "config",
                Err("ERR wrong number of arguments for 'config' command"),
            ),
            ("debug", Err("ERR wrong number of arguments for 'debug' command")),
            (
                "client kill",
                Err("ERR wrong number of arguments for 'client|kill' command"),
            ),
            ("client X y", Err("ERR unknown subcommand 'X'. Try CLIENT HELP.")),
            (
                "foo a b",
                Err("ERR unknown command 'foo', with args beginning with: 'a' 'b' "),
            ),
        ] {
            let args = ArgsBuf::from_slices(words.split(' '));
            let resolved = resolve(args.as_args())
                .map(|spec| spec.name)
                .map_err(|error| error.to_string());
            assert_eq!(resolved, expected.map_err(str::to_owned), "{words}");
        }
    }

    #[test]
    fn keys_are_found_whatever_the_options_are() {
        let read = |position| (position, KeyUse::Read);
        let write = |position| (position, KeyUse::Write);
        for (words, expected) in [
            ("get k", vec![read(1)]),
            ("set k v", vec![write(1)]),
            ("set k v get", vec![write(1)]),
            ("mget a b c", vec![read(1), read(2), read(3)]),
            ("mset a 1 b 2", vec![write(1), write(3)]),
            ("mset a 1 b", vec![write(1), write(3)]),
            ("rename a b", vec![write(1), write(2)]),
            ("copy a b replace", vec![read(1), write(2)]),
            ("lcs a b idx", vec![read(1), read(2)]),
            ("xfer a b 1", vec![write(1), write(2)]),
            ("bitop and d a b", vec![write(2), read(3), read(4)]),
            ("bitfield k get u8 0", vec![read(1)]),
            ("bitfield k get u8 0 overflow sat", vec![read(1)]),
            ("bitfield k get u8 0 set u8 0 1", vec![write(1)]),
            ("bitfield k", vec![read(1)]),
            ("bitfield_ro k set u8 0 1", vec![read(1)]),
            ("object freq k", vec![read(2)]),
            ("memory usage k samples 5", vec![read(2)]),
            ("debug object k", vec![read(2)]),
            ("smove a b m", vec![write(1), write(2)]),
            ("sinterstore d a b", vec![write(1), read(2), read(3)]),
            ("sintercard 2 a b limit 1", vec![read(2), read(3)]),
            ("sintercard 3 a b", vec![]),
            ("sintercard x a b", vec![]),
            ("sort k by * get *", vec![read(1)]),
            ("sort k store d", vec![read(1), write(3)]),
            ("sort k store d by store asc", vec![read(1), write(3)]),
            ("sort k by store store d", vec![read(1), write(5)]),
            ("sort k limit store x store d store", vec![read(1), write(6)]),
            ("sort_ro k store d", vec![read(1)]),
            ("watch a b", vec![read(1), read(2)]),
            ("pfcount a b", vec![read(1), read(2)]),
            ("pfmerge a b c", vec![write(1), read(2), read(3)]),
            ("ping", vec![]),
            ("ssubscribe a b", vec![]),
            ("spublish a b", vec![]),
            ("scan 0", vec![]),
        ] {
            let args = ArgsBuf::from_slices(words.split(' '));
            let spec = resolve(args.as_args()).expect(words);
            let mut found = Vec::new();
            keys(spec, args.as_args(), &mut |position, key_use| {
                found.push((position, key_use))
            });
            assert_eq!(found, expected, "{words}");
        }
    }

    #[test]
    fn keys_of_the_fewest_words_lie_within_them() {
        for spec in all() {
            let words = usize::from(spec.arity.unsigned_abs());
            let args = ArgsBuf::from_slices(vec!["x"; words]);
            keys(spec, args.as_args(), &mut |position, _| {
                assert!(position < words, "{}", spec.name)
            });
        }
    }
}
