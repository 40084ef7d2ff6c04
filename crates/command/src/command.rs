//! A command after parsing: what the data of a group is asked to do.
//!
//! One variant for each *effect*, not for each name: `SETEX`, `PSETEX`, `SETNX`, `GETSET` and `SET` are one
//! effect with different replies. Everything borrowed points into the client's frame, so that parsing
//! allocates nothing. A value of this type is valid by construction: numbers are in range and options do
//! not contradict each other, so that applying it can fail only for reasons that lie in the data.

use crate::blocking::BlockingCommand;
use crate::geo::GeoCommand;
use crate::hash::HashCommand;
use crate::hyperloglog::HyperLogLogCommand;
use crate::list::ListCommand;
use crate::number::LongDouble;
use crate::scan::ScanOptions;
use crate::set::SetCommand;
use crate::sort::SortCommand;
use crate::sorted_set::SortedSetCommand;
use crate::spec::ValueAccess;
use crate::stream::StreamCommand;
use ids::{Db, Slot, UnixMillis};
use resp::Args;

/// One command on the keys of a group.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    // Strings.
    /// `GET key`.
    Get { key: &'a [u8] },
    /// `SET`, `SETEX`, `PSETEX`, `SETNX`, `GETSET`.
    Set {
        key: &'a [u8],
        value: &'a [u8],
        condition: SetCondition<'a>,
        expiry: SetExpiry,
        reply: SetReply,
    },
    /// `GETEX key [..]`.
    GetEx { key: &'a [u8], expiry: SetExpiry },
    /// `GETDEL key`.
    GetDel { key: &'a [u8] },
    /// `MGET key [key ...]`.
    MGet { keys: Args<'a> },
    /// `MSET key value [key value ...]`.
    MSet { pairs: Args<'a> },
    /// `MSETNX key value [key value ...]`.
    MSetNx { pairs: Args<'a> },
    /// `APPEND key value`.
    Append { key: &'a [u8], value: &'a [u8] },
    /// `STRLEN key`.
    StrLen { key: &'a [u8] },
    /// `INCR`, `DECR`, `INCRBY`, `DECRBY`.
    IncrBy { key: &'a [u8], by: i64 },
    /// `INCRBYFLOAT key increment`: the increment may be infinite.
    IncrByFloat { key: &'a [u8], by: LongDouble },
    /// `CAS key expected new`.
    Cas {
        key: &'a [u8],
        expected: &'a [u8],
        new: &'a [u8],
    },
    /// `ADD`, `SUB`, `XFER.TO`: an error where there is nothing to add to.
    Add { key: &'a [u8], by: i64 },
    /// `XFER from to amount`: the amount is not negative.
    Xfer {
        from: &'a [u8],
        to: &'a [u8],
        amount: i64,
    },
    /// `XFER.FROM key amount`: the amount is not negative, and an error where there is less.
    Take { key: &'a [u8], amount: i64 },
    /// `GETRANGE key start end`, `SUBSTR`. Negative positions count from the end.
    GetRange { key: &'a [u8], start: i64, end: i64 },
    /// `SETRANGE key offset value`: offset + length is within [`crate::VALUE_BYTES_MAX`], unless the value is
    /// empty: then nothing changes, wherever the offset lies.
    SetRange {
        key: &'a [u8],
        offset: u64,
        value: &'a [u8],
    },
    /// `LCS key1 key2 ..`.
    Lcs {
        left: &'a [u8],
        right: &'a [u8],
        output: LcsOutput,
    },

    // Bitmaps.
    /// `SETBIT key offset value`.
    SetBit { key: &'a [u8], offset: u64, bit: bool },
    /// `GETBIT key offset`.
    GetBit { key: &'a [u8], offset: u64 },
    /// `BITCOUNT key [start end [BYTE|BIT]]`.
    BitCount { key: &'a [u8], range: Option<BitRange> },
    /// `BITPOS key bit [start [end [BYTE|BIT]]]`.
    BitPos {
        key: &'a [u8],
        bit: bool,
        start: Option<i64>,
        end: Option<i64>,
        unit: BitUnit,
    },
    /// `BITOP operation destkey key [key ...]`.
    BitOp {
        operation: BitOperation,
        destination: &'a [u8],
        sources: Args<'a>,
    },
    /// `BITFIELD key ..`, `BITFIELD_RO key ..`: the words after the key, checked by the parser and read with
    /// [`crate::bitfield_operations`]. `writes` is false if all of them are `GET`.
    BitField {
        key: &'a [u8],
        operations: Args<'a>,
        writes: bool,
    },

    // Collections, each family with an enum of its own.
    /// Lists.
    List(ListCommand<'a>),
    /// Sets: named after what they hold, because `SET` is of strings.
    Members(SetCommand<'a>),
    /// Hashes.
    Hash(HashCommand<'a>),
    /// Sorted sets.
    SortedSet(SortedSetCommand<'a>),
    /// Streams.
    Stream(StreamCommand<'a>),
    /// HyperLogLogs.
    HyperLogLog(HyperLogLogCommand<'a>),
    /// Positions on the earth.
    Geo(GeoCommand<'a>),
    /// `SORT`, `SORT_RO`.
    Sort(SortCommand<'a>),
    /// Pops that may wait.
    Blocking(BlockingCommand<'a>),

    // Keys.
    /// `DEL`, `UNLINK`.
    Del { keys: Args<'a> },
    /// `EXISTS key [key ...]`.
    Exists { keys: Args<'a> },
    /// `TOUCH key [key ...]`.
    Touch { keys: Args<'a> },
    /// `TYPE key`.
    Type { key: &'a [u8] },
    /// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`.
    Expire {
        key: &'a [u8],
        deadline: Deadline,
        condition: ExpireCondition,
    },
    /// `TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`.
    Ttl { key: &'a [u8], form: TtlForm },
    /// `PERSIST key`.
    Persist { key: &'a [u8] },
    /// `RENAME`, `RENAMENX`.
    Rename {
        from: &'a [u8],
        to: &'a [u8],
        only_if_absent: bool,
    },
    /// `COPY source destination [DB db] [REPLACE]`; `db` is `None` for the connection's own.
    Copy {
        from: &'a [u8],
        to: &'a [u8],
        db: Option<Db>,
        replace: bool,
    },
    /// `MOVE key db`.
    Move { key: &'a [u8], db: Db },
    /// `DUMP key`.
    Dump { key: &'a [u8] },
    /// `RESTORE key ttl payload ..`; without a deadline the key stays.
    Restore {
        key: &'a [u8],
        deadline: Option<Deadline>,
        payload: &'a [u8],
        replace: bool,
        use_of_key: RestoredUse,
    },
    /// `OBJECT ENCODING|FREQ|IDLETIME|REFCOUNT key`.
    Object { key: &'a [u8], aspect: ObjectAspect },
    /// `MEMORY USAGE key [SAMPLES count]`.
    MemoryUsage { key: &'a [u8] },
    /// `DEBUG OBJECT key`.
    DebugObject { key: &'a [u8] },
    /// `DEBUG CODING key`.
    DebugCoding { key: &'a [u8] },
    /// `DEBUG SDSLEN key`.
    DebugSdsLen { key: &'a [u8] },

    // The whole keyspace: every group answers for its own part, and `merge` joins the answers.
    /// `KEYS pattern`.
    Keys { pattern: &'a [u8] },
    /// `SCAN cursor ..`: one group's share of it.
    Scan { cursor: u64, options: ScanOptions<'a> },
    /// `RANDOMKEY`: answers `*2` of the group's key count and a random key (or nil).
    RandomKey,
    /// `DBSIZE`.
    DbSize,
    /// `CLUSTER COUNTKEYSINSLOT slot`.
    CountKeysInSlot { slot: Slot },
    /// `CLUSTER GETKEYSINSLOT slot count`.
    KeysInSlot { slot: Slot, count: u64 },
    /// `FLUSHDB` (`all` false), `FLUSHALL` (`all` true).
    Flush { all: bool },
    /// `BACKUP MARK id`: changes nothing, and whoever copies the objects for this mark has them as of now.
    BackupMark { id: u64 },
    /// `MRESTORE key deadline payload [..]`: what stands there are [`crate::RestoredObject`]s.
    MRestore { triples: Args<'a> },
    /// `SWAPDB a b`.
    SwapDb { a: Db, b: Db },
}

/// What `RESTORE` says of when the key was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoredUse {
    /// Nothing: a moment ago.
    New,
    /// `IDLETIME`: so many seconds ago.
    Idle(u64),
    /// `FREQ`: so often, as the counter has it.
    Frequency(u8),
}

/// When `SET` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetCondition<'a> {
    /// Always.
    Always,
    /// `NX`: only if the key is absent.
    IfAbsent,
    /// `XX`: only if the key is present.
    IfPresent,
    /// `IFEQ value`: only if the key holds exactly these bytes (as Valkey has it).
    IfEqual(&'a [u8]),
}

/// What `SET` and `GETEX` do to the time to live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetExpiry {
    /// `SET` without an option: the key lives for ever. `GETEX PERSIST` too.
    Clear,
    /// `KEEPTTL`; `GETEX` without an option.
    Keep,
    /// `EX`, `PX`, `EXAT`, `PXAT`.
    At(Deadline),
}

/// A deadline as the client gave it; entry time makes it absolute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// This many milliseconds after entry time.
    In(i64),
    /// At this time.
    At(UnixMillis),
}

/// What a write of the `SET` family answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetReply {
    /// `+OK`, or nil if the condition failed (`SET`).
    Ok,
    /// `:1`, or `:0` if the condition failed (`SETNX`).
    Integer,
    /// The value before, or nil (`SET .. GET`, `GETSET`).
    Old,
}

/// What `LCS` answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LcsOutput {
    /// The subsequence itself.
    Text,
    /// `LEN`.
    Length,
    /// `IDX [MINMATCHLEN n] [WITHMATCHLEN]`.
    Matches {
        /// Shorter matches are left out.
        min_length: u64,
        /// Every match comes with its length.
        with_length: bool,
    },
}

/// The range of `BITCOUNT`, negative positions counting from the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitRange {
    /// First position.
    pub start: i64,
    /// Last position, included.
    pub end: i64,
    /// What positions count.
    pub unit: BitUnit,
}

/// What positions in a bitmap count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitUnit {
    /// `BYTE`, the default.
    Byte,
    /// `BIT`.
    Bit,
}

/// The operation of `BITOP`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BitOperation {
    /// `AND`
    And,
    /// `OR`
    Or,
    /// `XOR`
    Xor,
    /// `NOT`, of exactly one source.
    Not,
}

/// When `EXPIRE` and its kin write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpireCondition {
    /// `NX`: only if the key has no deadline.
    pub if_none: bool,
    /// `XX`: only if the key has one.
    pub if_any: bool,
    /// `GT`: only if the new deadline is later (no deadline counts as infinitely late).
    pub if_later: bool,
    /// `LT`: only if the new deadline is earlier.
    pub if_earlier: bool,
}

/// What of a deadline is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TtlForm {
    /// `EXPIRETIME`, `PEXPIRETIME`: the deadline itself, not what is left.
    pub absolute: bool,
    /// `PTTL`, `PEXPIRETIME`.
    pub in_millis: bool,
}

/// The subcommands of `OBJECT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectAspect {
    /// `ENCODING`
    Encoding,
    /// `FREQ`
    Frequency,
    /// `IDLETIME`
    IdleTime,
    /// `REFCOUNT`
    RefCount,
}

impl Command<'_> {
    /// Whether applying the command can change the state. Reads take a path of their own.
    #[inline]
    pub fn writes(&self) -> bool {
        match self {
            Command::List(command) => command.writes(),
            Command::Members(command) => command.writes(),
            Command::Hash(command) => command.writes(),
            Command::SortedSet(command) => command.writes(),
            Command::Stream(command) => command.writes(),
            Command::HyperLogLog(command) => command.writes(),
            Command::Geo(command) => command.writes(),
            Command::Sort(command) => command.writes(),
            Command::Blocking(command) => command.pop.writes(),
            Command::Get { .. }
            | Command::MGet { .. }
            | Command::StrLen { .. }
            | Command::GetRange { .. }
            | Command::Lcs { .. }
            | Command::GetBit { .. }
            | Command::BitCount { .. }
            | Command::BitPos { .. }
            | Command::BitField { writes: false, .. }
            | Command::Exists { .. }
            | Command::Touch { .. }
            | Command::Type { .. }
            | Command::Ttl { .. }
            | Command::Dump { .. }
            | Command::Object { .. }
            | Command::MemoryUsage { .. }
            | Command::DebugObject { .. }
            | Command::DebugCoding { .. }
            | Command::DebugSdsLen { .. }
            | Command::Keys { .. }
            | Command::Scan { .. }
            | Command::RandomKey
            | Command::DbSize
            | Command::CountKeysInSlot { .. }
            | Command::KeysInSlot { .. } => false,
            Command::Set { .. }
            | Command::GetEx { .. }
            | Command::GetDel { .. }
            | Command::MSet { .. }
            | Command::MSetNx { .. }
            | Command::Append { .. }
            | Command::IncrBy { .. }
            | Command::IncrByFloat { .. }
            | Command::Cas { .. }
            | Command::Add { .. }
            | Command::Xfer { .. }
            | Command::Take { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::BitOp { .. }
            | Command::BitField { writes: true, .. }
            | Command::Del { .. }
            | Command::Expire { .. }
            | Command::Persist { .. }
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Flush { .. }
            | Command::BackupMark { .. }
            | Command::MRestore { .. }
            | Command::Restore { .. }
            | Command::SwapDb { .. } => true,
        }
    }
}

impl Command<'_> {
    /// What the command needs of the values it names. Never more than [`field@crate::Spec::access`] of a command
    /// without options, except that `SET` reads the value before if its options ask for it.
    pub fn access(&self) -> ValueAccess {
        match self {
            Command::List(command) => command.access(),
            Command::Members(command) => command.access(),
            Command::Hash(command) => command.access(),
            Command::SortedSet(command) => command.access(),
            Command::Stream(command) => command.access(),
            Command::HyperLogLog(command) => command.access(),
            Command::Geo(command) => command.access(),
            Command::Sort(command) => command.access(),
            Command::Blocking(command) if command.pop.writes() => ValueAccess::Modifies,
            Command::Blocking(_) => ValueAccess::Reads,
            Command::Get { .. }
            | Command::GetEx { .. }
            | Command::MGet { .. }
            | Command::GetRange { .. }
            | Command::Lcs { .. }
            | Command::GetBit { .. }
            | Command::BitCount { .. }
            | Command::BitPos { .. }
            | Command::Dump { .. }
            | Command::BitField { writes: false, .. } => ValueAccess::Reads,

            Command::Set {
                condition: SetCondition::IfEqual(_),
                ..
            }
            | Command::Set {
                reply: SetReply::Old, ..
            } => ValueAccess::Modifies,
            Command::Set { .. }
            | Command::MSet { .. }
            | Command::MSetNx { .. }
            | Command::MRestore { .. }
            | Command::Restore { .. }
            | Command::Flush { .. }
            | Command::BackupMark { .. }
            | Command::SwapDb { .. } => ValueAccess::Overwrites,

            Command::GetDel { .. }
            | Command::Append { .. }
            | Command::IncrBy { .. }
            | Command::IncrByFloat { .. }
            | Command::Cas { .. }
            | Command::Add { .. }
            | Command::Xfer { .. }
            | Command::Take { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::BitOp { .. }
            | Command::BitField { writes: true, .. } => ValueAccess::Modifies,

            Command::StrLen { .. }
            | Command::Del { .. }
            | Command::Exists { .. }
            | Command::Touch { .. }
            | Command::Type { .. }
            | Command::Expire { .. }
            | Command::Ttl { .. }
            | Command::Persist { .. }
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Object { .. }
            | Command::MemoryUsage { .. }
            | Command::DebugObject { .. }
            | Command::DebugCoding { .. }
            | Command::DebugSdsLen { .. } => ValueAccess::Metadata,

            Command::Keys { .. }
            | Command::Scan { .. }
            | Command::RandomKey
            | Command::DbSize
            | Command::CountKeysInSlot { .. }
            | Command::KeysInSlot { .. } => ValueAccess::None,
        }
    }
}
