//! The command table: every spec, and how a client's words find theirs.

use crate::spec::Categories;
use crate::word::Word;
use crate::{
    ReplyError, Spec, backup, bitmap, blocking, cluster, connection, extensions, generic, geo, hash,
    hyperloglog, latency, list, pubsub, scan, scripting, server, set, slowlog, sort, sorted_set, stream,
    string, transaction,
};
use resp::Args;

/// Lists every spec once, with the category of its family; the order is that of the documentation, subcommands following
/// their container.
macro_rules! command_table {
    ($($family:ident: $category:ident { $($id:ident = $spec:ident,)* })*) => {
        /// One command or subcommand, as a dense number: an index for counters, and something to `match` on.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum CommandId {
            $($(#[doc = concat!("[`", stringify!($spec), "`](crate::Spec::name)")] $id,)*)*
        }

        /// Indexed by [`CommandId`].
        static SPECS: [Spec; CommandId::COUNT] = [
            $($($family::$spec.listed(CommandId::$id, Categories::$category, subcommands(CommandId::$id)),)*)*
        ];

        /// Those of [`SPECS`], which has to be there before it is read.
        const NAMES: [&str; CommandId::COUNT] = [$($($family::$spec.name,)*)*];

        impl CommandId {
            /// Every command and subcommand, in the order of their numbers.
            pub const ALL: &'static [CommandId] = &[$($(CommandId::$id,)*)*];

            /// How many there are: [`CommandId::index`] stays below.
            pub const COUNT: usize = CommandId::ALL.len();
        }
    };
}

command_table! {
    string: STRING {
        Get = GET, Set = SET, SetEx = SETEX, PSetEx = PSETEX, SetNx = SETNX, GetSet = GETSET, GetEx = GETEX,
        GetDel = GETDEL, MGet = MGET, MSet = MSET, MSetNx = MSETNX, Append = APPEND, StrLen = STRLEN, Incr = INCR,
        Decr = DECR, IncrBy = INCRBY, DecrBy = DECRBY, IncrByFloat = INCRBYFLOAT, GetRange = GETRANGE,
        SubStr = SUBSTR, SetRange = SETRANGE, Lcs = LCS,
    }
    extensions: STRING {
        Cas = CAS, Add = ADD, Sub = SUB, Xfer = XFER, XferFrom = XFER_FROM, XferTo = XFER_TO,
    }
    bitmap: BITMAP {
        SetBit = SETBIT, GetBit = GETBIT, BitCount = BITCOUNT, BitPos = BITPOS, BitOp = BITOP, BitField = BITFIELD,
        BitFieldRo = BITFIELD_RO,
    }
    generic: KEYSPACE {
        Del = DEL, Unlink = UNLINK, Exists = EXISTS, Touch = TOUCH, Type = TYPE, Expire = EXPIRE, PExpire = PEXPIRE,
        ExpireAt = EXPIREAT, PExpireAt = PEXPIREAT, Ttl = TTL, PTtl = PTTL, ExpireTime = EXPIRETIME,
        PExpireTime = PEXPIRETIME, Persist = PERSIST, Rename = RENAME, RenameNx = RENAMENX, Copy = COPY, Move = MOVE,
        Dump = DUMP, Restore = RESTORE, RestoreAsking = RESTORE_ASKING, Object = OBJECT, ObjectEncoding = OBJECT_ENCODING, ObjectFreq = OBJECT_FREQ, ObjectIdleTime = OBJECT_IDLETIME,
        ObjectRefCount = OBJECT_REFCOUNT, ObjectHelp = OBJECT_HELP, Keys = KEYS,
    }
    scan: KEYSPACE {
        Scan = SCAN,
    }
    generic: KEYSPACE {
        RandomKey = RANDOMKEY, DbSize = DBSIZE, FlushDb = FLUSHDB, FlushAll = FLUSHALL, SwapDb = SWAPDB,
    }
    list: LIST {
        LPush = LPUSH, RPush = RPUSH, LPushX = LPUSHX, RPushX = RPUSHX, LPop = LPOP, RPop = RPOP, LLen = LLEN,
        LIndex = LINDEX, LSet = LSET, LRange = LRANGE, LTrim = LTRIM, LInsert = LINSERT, LRem = LREM, LPos = LPOS,
        LMove = LMOVE, RPopLPush = RPOPLPUSH, LMPop = LMPOP,
    }
    set: SET {
        SAdd = SADD, SRem = SREM, SIsMember = SISMEMBER, SMIsMember = SMISMEMBER, SCard = SCARD, SMembers = SMEMBERS,
        SPop = SPOP, SRandMember = SRANDMEMBER, SMove = SMOVE, SInter = SINTER, SInterCard = SINTERCARD,
        SInterStore = SINTERSTORE, SUnion = SUNION, SUnionStore = SUNIONSTORE, SDiff = SDIFF, SDiffStore = SDIFFSTORE,
        SScan = SSCAN,
    }
    hash: HASH {
        HSet = HSET, HMSet = HMSET, HSetNx = HSETNX, HGet = HGET, HMGet = HMGET, HGetAll = HGETALL, HKeys = HKEYS,
        HVals = HVALS, HLen = HLEN, HStrLen = HSTRLEN, HExists = HEXISTS, HDel = HDEL, HIncrBy = HINCRBY,
        HIncrByFloat = HINCRBYFLOAT, HRandField = HRANDFIELD, HScan = HSCAN,
    }
    sorted_set: SORTEDSET {
        ZAdd = ZADD, ZIncrBy = ZINCRBY, ZRem = ZREM, ZCard = ZCARD, ZScore = ZSCORE, ZMScore = ZMSCORE, ZRank = ZRANK,
        ZRevRank = ZREVRANK, ZCount = ZCOUNT, ZLexCount = ZLEXCOUNT, ZRange = ZRANGE, ZRangeStore = ZRANGESTORE,
        ZRevRange = ZREVRANGE, ZRangeByScore = ZRANGEBYSCORE, ZRevRangeByScore = ZREVRANGEBYSCORE,
        ZRangeByLex = ZRANGEBYLEX, ZRevRangeByLex = ZREVRANGEBYLEX, ZRemRangeByRank = ZREMRANGEBYRANK,
        ZRemRangeByScore = ZREMRANGEBYSCORE, ZRemRangeByLex = ZREMRANGEBYLEX, ZPopMin = ZPOPMIN, ZPopMax = ZPOPMAX,
        ZMPop = ZMPOP, ZUnion = ZUNION, ZInter = ZINTER, ZDiff = ZDIFF, ZUnionStore = ZUNIONSTORE,
        ZInterStore = ZINTERSTORE, ZDiffStore = ZDIFFSTORE, ZInterCard = ZINTERCARD, ZRandMember = ZRANDMEMBER,
        ZScan = ZSCAN,
    }
    hyperloglog: HYPERLOGLOG {
        PfAdd = PFADD, PfCount = PFCOUNT, PfMerge = PFMERGE, PfDebug = PFDEBUG, PfSelfTest = PFSELFTEST,
    }
    geo: GEO {
        GeoAdd = GEOADD, GeoPos = GEOPOS, GeoDist = GEODIST, GeoHash = GEOHASH, GeoSearch = GEOSEARCH,
        GeoSearchStore = GEOSEARCHSTORE, GeoRadius = GEORADIUS, GeoRadiusRo = GEORADIUS_RO,
        GeoRadiusByMember = GEORADIUSBYMEMBER, GeoRadiusByMemberRo = GEORADIUSBYMEMBER_RO,
    }
    stream: STREAM {
        XAdd = XADD, XLen = XLEN, XRange = XRANGE, XRevRange = XREVRANGE, XRead = XREAD, XReadLast = XREAD_LAST,
        XReadGroup = XREADGROUP, XDel = XDEL, XTrim = XTRIM, XSetId = XSETID, XAck = XACK, XPending = XPENDING,
        XClaim = XCLAIM, XAutoClaim = XAUTOCLAIM, XGroup = XGROUP, XGroupCreate = XGROUP_CREATE,
        XGroupSetId = XGROUP_SETID, XGroupDestroy = XGROUP_DESTROY, XGroupCreateConsumer = XGROUP_CREATECONSUMER,
        XGroupDelConsumer = XGROUP_DELCONSUMER, XGroupHelp = XGROUP_HELP, XInfo = XINFO, XInfoStream = XINFO_STREAM,
        XInfoGroups = XINFO_GROUPS, XInfoConsumers = XINFO_CONSUMERS, XInfoHelp = XINFO_HELP,
    }
    blocking: LIST {
        BLPop = BLPOP, BRPop = BRPOP, BLMove = BLMOVE, BRPopLPush = BRPOPLPUSH, BLMPop = BLMPOP,
    }
    blocking: SORTEDSET {
        BZPopMin = BZPOPMIN, BZPopMax = BZPOPMAX, BZMPop = BZMPOP,
    }
    sort: NONE {
        Sort = SORT, SortRo = SORT_RO,
    }
    connection: CONNECTION {
        Hello = HELLO, Auth = AUTH, Ping = PING, Echo = ECHO, Quit = QUIT, Reset = RESET, Select = SELECT,
        Client = CLIENT, ClientId = CLIENT_ID, ClientInfo = CLIENT_INFO, ClientList = CLIENT_LIST,
        ClientKill = CLIENT_KILL, ClientGetName = CLIENT_GETNAME, ClientSetName = CLIENT_SETNAME,
        ClientSetInfo = CLIENT_SETINFO, ClientReply = CLIENT_REPLY, ClientNoEvict = CLIENT_NO_EVICT,
        ClientUnblock = CLIENT_UNBLOCK, ClientNoTouch = CLIENT_NO_TOUCH, ClientRequest = CLIENT_REQUEST,
        ClientPause = CLIENT_PAUSE,
        ClientUnpause = CLIENT_UNPAUSE, ClientGetRedir = CLIENT_GETREDIR, ClientTrackingInfo = CLIENT_TRACKINGINFO,
        ClientHelp = CLIENT_HELP,
    }
    pubsub: NONE {
        Subscribe = SUBSCRIBE, Unsubscribe = UNSUBSCRIBE, PSubscribe = PSUBSCRIBE, PUnsubscribe = PUNSUBSCRIBE,
        Publish = PUBLISH, SSubscribe = SSUBSCRIBE, SUnsubscribe = SUNSUBSCRIBE, SPublish = SPUBLISH, PubSub = PUBSUB,
        PubSubChannels = PUBSUB_CHANNELS, PubSubNumSub = PUBSUB_NUMSUB, PubSubNumPat = PUBSUB_NUMPAT,
        PubSubShardChannels = PUBSUB_SHARDCHANNELS, PubSubShardNumSub = PUBSUB_SHARDNUMSUB, PubSubHelp = PUBSUB_HELP,
        Monitor = MONITOR,
    }
    server: NONE {
        Info = INFO, Config = CONFIG, ConfigGet = CONFIG_GET, ConfigSet = CONFIG_SET,
        ConfigResetStat = CONFIG_RESETSTAT, ConfigRewrite = CONFIG_REWRITE, ConfigHelp = CONFIG_HELP,
        Command = COMMAND, CommandCount = COMMAND_COUNT, CommandDocs = COMMAND_DOCS, CommandGetKeys = COMMAND_GETKEYS,
        CommandGetKeysAndFlags = COMMAND_GETKEYSANDFLAGS, CommandInfo = COMMAND_INFO, CommandList = COMMAND_LIST,
        CommandHelp = COMMAND_HELP, Time = TIME, Wait = WAIT, WaitAof = WAITAOF, Memory = MEMORY, MemoryUsage = MEMORY_USAGE,
        MemoryStats = MEMORY_STATS, MemoryDoctor = MEMORY_DOCTOR, MemoryMallocStats = MEMORY_MALLOC_STATS,
        MemoryPurge = MEMORY_PURGE, MemoryHelp = MEMORY_HELP,
    }
    slowlog: NONE {
        SlowLog = SLOWLOG, SlowLogLen = SLOWLOG_LEN, SlowLogGet = SLOWLOG_GET, SlowLogReset = SLOWLOG_RESET,
        SlowLogHelp = SLOWLOG_HELP,
    }
    latency: NONE {
        Latency = LATENCY, LatencyDoctor = LATENCY_DOCTOR, LatencyGraph = LATENCY_GRAPH,
        LatencyHistogram = LATENCY_HISTOGRAM, LatencyHistory = LATENCY_HISTORY, LatencyLatest = LATENCY_LATEST,
        LatencyReset = LATENCY_RESET, LatencyHelp = LATENCY_HELP,
    }
    server: NONE {
        LolWut = LOLWUT, Debug = DEBUG, DebugObject = DEBUG_OBJECT, DebugCoding = DEBUG_CODING, DebugSdsLen = DEBUG_SDSLEN,
        Module = MODULE, ModuleList = MODULE_LIST,
        ModuleHelp = MODULE_HELP, Role = ROLE, LastSave = LASTSAVE, Save = SAVE, BgSave = BGSAVE, BgRewriteAof = BGREWRITEAOF, Shutdown = SHUTDOWN,
    }
    scripting: SCRIPTING {
        Eval = EVAL, EvalRo = EVAL_RO, EvalSha = EVALSHA, EvalShaRo = EVALSHA_RO, Script = SCRIPT,
        ScriptLoad = SCRIPT_LOAD, ScriptExists = SCRIPT_EXISTS, ScriptFlush = SCRIPT_FLUSH, ScriptKill = SCRIPT_KILL,
        ScriptHelp = SCRIPT_HELP, FCall = FCALL, FCallRo = FCALL_RO, Function = FUNCTION, FunctionLoad = FUNCTION_LOAD,
        FunctionDelete = FUNCTION_DELETE, FunctionFlush = FUNCTION_FLUSH, FunctionList = FUNCTION_LIST,
        FunctionDump = FUNCTION_DUMP, FunctionRestore = FUNCTION_RESTORE, FunctionStats = FUNCTION_STATS,
        FunctionKill = FUNCTION_KILL, FunctionHelp = FUNCTION_HELP,
    }
    backup: NONE {
        Backup = BACKUP, BackupBegin = BACKUP_BEGIN, BackupStatus = BACKUP_STATUS, BackupMark = BACKUP_MARK,
        BackupParts = BACKUP_PARTS, BackupRead = BACKUP_READ, BackupEnd = BACKUP_END, BackupHelp = BACKUP_HELP,
    }
    backup: KEYSPACE {
        MRestore = MRESTORE,
    }
    cluster: NONE {
        Cluster = CLUSTER, ClusterInfo = CLUSTER_INFO, ClusterMyId = CLUSTER_MYID,
        ClusterMyShardId = CLUSTER_MYSHARDID, ClusterNodes = CLUSTER_NODES, ClusterSlots = CLUSTER_SLOTS,
        ClusterShards = CLUSTER_SHARDS, ClusterKeySlot = CLUSTER_KEYSLOT,
        ClusterCountKeysInSlot = CLUSTER_COUNTKEYSINSLOT, ClusterGetKeysInSlot = CLUSTER_GETKEYSINSLOT,
        ClusterLinks = CLUSTER_LINKS, ClusterReplicas = CLUSTER_REPLICAS, ClusterSlaves = CLUSTER_SLAVES,
        ClusterCountFailureReports = CLUSTER_COUNT_FAILURE_REPORTS, ClusterHelp = CLUSTER_HELP,
        ClusterAddSlots = CLUSTER_ADDSLOTS, ClusterAddSlotsRange = CLUSTER_ADDSLOTSRANGE,
        ClusterBumpEpoch = CLUSTER_BUMPEPOCH, ClusterDelSlots = CLUSTER_DELSLOTS,
        ClusterDelSlotsRange = CLUSTER_DELSLOTSRANGE, ClusterFailover = CLUSTER_FAILOVER,
        ClusterFlushSlots = CLUSTER_FLUSHSLOTS, ClusterForget = CLUSTER_FORGET, ClusterMeet = CLUSTER_MEET,
        ClusterReplicate = CLUSTER_REPLICATE, ClusterReset = CLUSTER_RESET, ClusterSaveConfig = CLUSTER_SAVECONFIG,
        ClusterSetConfigEpoch = CLUSTER_SET_CONFIG_EPOCH, ClusterSetSlot = CLUSTER_SETSLOT, ReadOnly = READONLY,
        ReadWrite = READWRITE, Asking = ASKING,
    }
    transaction: TRANSACTION {
        Multi = MULTI, Exec = EXEC, Discard = DISCARD, Watch = WATCH, Unwatch = UNWATCH,
    }
}

impl CommandId {
    /// What is known about the command.
    #[inline]
    pub fn spec(self) -> &'static Spec {
        &SPECS[self.index()]
    }

    /// The number, from 0.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The specs that follow a container's with its name before theirs.
const fn subcommands(container: CommandId) -> &'static [Spec] {
    let first = container as usize + 1;
    let mut end = first;
    while end < NAMES.len() && is_within(NAMES[container as usize].as_bytes(), NAMES[end].as_bytes()) {
        end += 1;
    }
    SPECS.split_at(end).0.split_at(first).1
}

/// Whether `name` is `container|..`.
const fn is_within(container: &[u8], name: &[u8]) -> bool {
    let Some((begin, [b'|', ..])) = name.split_at_checked(container.len()) else {
        return false;
    };
    let mut i = 0;
    while i < begin.len() {
        if begin[i] != container[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The commands that clients can call, without the subcommands, in the order of the documentation.
pub static TABLE: &[&Spec] = {
    const TOP_LEVEL: [&Spec; top_level_count()] = {
        let mut table = [&SPECS[0]; top_level_count()];
        let (mut found, mut i) = (0, 0);
        while i < SPECS.len() {
            if is_listed(&SPECS[i]) {
                table[found] = &SPECS[i];
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
        count += is_listed(&SPECS[i]) as usize;
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
        if is_listed(&SPECS[i]) && SPECS[i].name.len() <= Word::MAX {
            let name = Word::new(SPECS[i].name.as_bytes());
            let mut bucket = name.hash(BUCKETS.ilog2());
            while table[bucket].spec.is_some() {
                bucket = (bucket + 1) % BUCKETS;
            }
            table[bucket] = Bucket {
                name,
                spec: Some(&SPECS[i]),
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
    let parts = [CommandId::XferFrom, CommandId::XferTo, CommandId::XReadLast].map(CommandId::spec);
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
pub(crate) fn resolve_any(argv: Args<'_>) -> Option<&'static Spec> {
    let command = lookup(argv.get(0)?)?;
    match argv.get(1) {
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
    use crate::spec::{Categories, CommandRoute, Cost, Flags, Spread, ValueAccess};
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
        let found = TABLE.iter().flat_map(|container| container.subcommands);
        let found: Vec<CommandId> = found.map(|spec| spec.id).collect();
        let named = all().filter(|spec| spec.is_subcommand());
        assert_eq!(
            found,
            named.map(|spec| spec.id).collect::<Vec<_>>(),
            "they follow their container"
        );
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
        for id in [CommandId::XferFrom, CommandId::XferTo, CommandId::XReadLast] {
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
            let words = ArgsBuf::from_slices(if spec.arity < 0 {
                vec![spec.name]
            } else {
                vec![spec.name, "k"]
            });
            let error = resolve_in_group(words.as_args()).err();
            assert_eq!(error, Some(ReplyError::WrongArity(spec.name)));
        }
        let internal = all().filter(|spec| spec.is_internal).count();
        assert_eq!(internal, 3, "`lookup_internal` finds them all");
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
            assert!(
                !(spec.flags.contains(Flags::WRITE) && spec.flags.contains(Flags::READONLY)),
                "{name}"
            );
            assert_eq!(
                spec.parse.is_some(),
                !matches!(spec.route, CommandRoute::Connection | CommandRoute::Script),
                "{name}"
            );
            // Names of shard channels stand where keys stand.
            let is_key = |key: &&KeySpec| !key.flags.contains(KeyFlags::NOT_KEY);
            let is_of_libraries = name.starts_with("function|");
            assert_eq!(
                matches!(spec.route, CommandRoute::Keys | CommandRoute::Script) && !is_of_libraries,
                spec.keys.iter().any(|key| is_key(&key)) && name != "watch",
                "{name}"
            );
            let mut keys = spec.keys.iter().filter(is_key);
            let writes_key = keys.any(|key| key.flags.key_use() == KeyUse::Write);
            if spec.flags.contains(Flags::WRITE) && spec.route != CommandRoute::Everywhere && !is_of_libraries
            {
                // Of `XREADGROUP`, Redis says that it reads.
                assert!(writes_key || name == "xreadgroup", "{name}");
            }
            assert!(
                !writes_key
                    || spec.flags.contains(Flags::WRITE)
                    || spec.route == CommandRoute::Script
                    || name == "pfcount",
                "{name}"
            );
            if spec.spread == Spread::Single && spec.route == CommandRoute::Keys {
                let many = spec.keys.len() > 1 || spec.keys[0].last != 0;
                assert!(!many, "{name} can have several keys");
            }
        }
    }

    #[test]
    fn commands_that_may_walk_far_say_so() {
        let named = |cost: Cost| {
            let mut names: Vec<&str> = all()
                .filter(|spec| spec.cost == cost)
                .map(|spec| spec.name)
                .collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(named(Cost::Whole), "hgetall hkeys hvals linsert lrem smembers");
        assert_eq!(
            named(Cost::Part),
            "blmpop bzmpop copy dump georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch \
             geosearchstore hrandfield hscan lcs lmpop lpop lpos lrange ltrim restore restore-asking \
             rpop sdiff sdiffstore sinter sintercard \
             sinterstore sort sort_ro spop srandmember sscan sunion sunionstore xautoclaim xgroup|delconsumer xgroup|destroy \
             xinfo|stream xpending xrange xread xreadgroup xrevrange xtrim zdiff zdiffstore zinter zintercard \
             zinterstore zmpop zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore \
             zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zscan zunion \
             zunionstore"
        );
        for spec in all().filter(|spec| spec.cost != Cost::Little) {
            assert_eq!(spec.route, CommandRoute::Keys, "{}", spec.name);
        }
        // Of the rest, those on the values of collections: a few elements each, or one for each word. Whoever adds a
        // command says here that it is one of them.
        let reads = |spec: &&Spec| matches!(spec.access, ValueAccess::Reads | ValueAccess::Modifies);
        let collections = [
            Categories::LIST,
            Categories::SET,
            Categories::HASH,
            Categories::SORTEDSET,
            Categories::GEO,
            Categories::STREAM,
        ];
        let mut little: Vec<&str> = all()
            .filter(|spec| spec.cost == Cost::Little)
            .filter(reads)
            .filter(|spec| collections.iter().any(|one| spec.categories.contains(*one)))
            .map(|spec| spec.name)
            .collect();
        little.sort_unstable();
        assert_eq!(
            little.join(" "),
            "blmove blpop brpop brpoplpush bzpopmax bzpopmin geoadd geodist geohash geopos hdel hexists hget hincrby \
             hincrbyfloat hmget hmset hset hsetnx hstrlen lindex lmove lpush lpushx lset rpoplpush rpush rpushx sadd \
             sismember smismember smove srem xack xadd xclaim xdel xgroup|create xgroup|createconsumer xgroup|setid \
             xinfo|consumers xinfo|groups xread.last xsetid zadd zcount zincrby zlexcount zmscore zrank zrem zrevrank \
             zscore"
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
            ("xadd k * streams v", vec![write(1)]),
            ("xread streams a b 0 0", vec![read(2), read(3)]),
            (
                "xread block streams count streams streams streams 0",
                vec![read(6)],
            ),
            ("xread count 5 a 0", vec![]),
            ("xread count 5 streams a b 0", vec![]),
            (
                "xreadgroup group streams streams noack streams a >",
                vec![write(6)],
            ),
            ("xgroup create k g $", vec![write(2)]),
            ("xinfo stream k", vec![read(2)]),
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
