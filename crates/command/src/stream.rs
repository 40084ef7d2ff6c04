//! Streams: their effects. What clients write is read in `stream/parse.rs` and described in `stream/specs.rs`.

mod parse;
mod read;
mod specs;

pub(crate) use read::has_block;
pub use read::{GroupRead, ReadFrom, StreamRead, streams_at};
pub(crate) use specs::*;

use crate::spec::ValueAccess;
use ids::StreamId;
use resp::Args;

/// One command on streams.
#[expect(
    missing_docs,
    reason = "fields are named as the words of the syntax that each variant shows"
)]
#[derive(Clone, Copy, Debug)]
pub enum StreamCommand<'a> {
    /// `XADD key [NOMKSTREAM] [MAXLEN|MINID ..] *|id field value [field value ...]`.
    Add {
        key: &'a [u8],
        id: NewId,
        creates: bool,
        trim: Option<Trim>,
        fields: Args<'a>,
    },
    /// `XLEN key`.
    Len { key: &'a [u8] },
    /// `XRANGE`, `XREVRANGE key start end [COUNT count]`: both ends are included. A count of 0 asks for nothing.
    Range {
        key: &'a [u8],
        start: StreamId,
        end: StreamId,
        count: Option<u64>,
        reverse: bool,
    },
    /// `XDEL key id [id ...]`: every id can be read with [`stream_id`].
    Delete { key: &'a [u8], ids: Args<'a> },
    /// `XTRIM key MAXLEN|MINID ..`.
    Trim { key: &'a [u8], trim: Trim },
    /// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`.
    SetId {
        key: &'a [u8],
        last: StreamId,
        added: Option<u64>,
        max_deleted: Option<StreamId>,
    },
    /// `XREAD`, `XREADGROUP` that do not wait.
    Read(StreamRead<'a>),
    /// `XREAD.LAST key [key ...]`: the last id of each stream, `0-0` where there is none.
    LastIds { keys: Args<'a> },
    /// `XACK key group id [id ...]`: every id can be read with [`stream_id`].
    Acknowledge {
        key: &'a [u8],
        group: &'a [u8],
        ids: Args<'a>,
    },
    /// `XPENDING key group`.
    Pending { key: &'a [u8], group: &'a [u8] },
    /// `XPENDING key group [IDLE min-idle-time] start end count [consumer]`.
    PendingRange {
        key: &'a [u8],
        group: &'a [u8],
        start: StreamId,
        end: StreamId,
        count: u64,
        idle_min_millis: u64,
        consumer: Option<&'a [u8]>,
    },
    /// `XCLAIM key group consumer min-idle-time id [id ...] ..`: every id can be read with [`stream_id`].
    Claim {
        claimant: Claimant<'a>,
        ids: Args<'a>,
        options: ClaimOptions,
    },
    /// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`.
    AutoClaim {
        claimant: Claimant<'a>,
        start: StreamId,
        count: u64,
        only_ids: bool,
    },
    /// `XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD entries-read]`.
    CreateGroup {
        key: &'a [u8],
        group: &'a [u8],
        from: GroupStart,
        creates: bool,
        entries_read: Option<u64>,
    },
    /// `XGROUP SETID key group id|$ [ENTRIESREAD entries-read]`.
    SetGroupId {
        key: &'a [u8],
        group: &'a [u8],
        from: GroupStart,
        entries_read: Option<u64>,
    },
    /// `XGROUP DESTROY key group`.
    DestroyGroup { key: &'a [u8], group: &'a [u8] },
    /// `XGROUP CREATECONSUMER key group consumer`.
    CreateConsumer {
        key: &'a [u8],
        group: &'a [u8],
        consumer: &'a [u8],
    },
    /// `XGROUP DELCONSUMER key group consumer`.
    DeleteConsumer {
        key: &'a [u8],
        group: &'a [u8],
        consumer: &'a [u8],
    },
    /// `XINFO STREAM key`.
    Info { key: &'a [u8] },
    /// `XINFO STREAM key FULL [COUNT count]`: at most so many entries, and pending ones of each list; all if it is 0.
    FullInfo { key: &'a [u8], count: u64 },
    /// `XINFO GROUPS key`.
    GroupsInfo { key: &'a [u8] },
    /// `XINFO CONSUMERS key group`.
    ConsumersInfo { key: &'a [u8], group: &'a [u8] },
}

/// Which id a new entry gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewId {
    /// `*`: of the time now.
    Now,
    /// `ms-*`: the next one of this time.
    Of {
        /// The time.
        ms: u64,
    },
    /// This one.
    Exactly(StreamId),
}

/// What of a stream's beginning is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// What stays.
    pub keeps: TrimBound,
    /// `~`: only whole blocks go.
    pub is_approximate: bool,
    /// `LIMIT`: no more entries than these are looked at; 0 for as many as there are. `None` of an approximate one: as many
    /// as the size of blocks says.
    pub limit: Option<u64>,
}

/// What stays of a stream that is trimmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimBound {
    /// `MAXLEN`: so many of the newest entries.
    Newest(u64),
    /// `MINID`: this id, and those above.
    From(StreamId),
}

/// Who claims pending entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claimant<'a> {
    /// The stream.
    pub key: &'a [u8],
    /// Its group.
    pub group: &'a [u8],
    /// For whom.
    pub consumer: &'a [u8],
    /// How long they must be idle, in milliseconds.
    pub idle_min_millis: u64,
}

/// What `XCLAIM` does to the entries beside giving them to a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClaimOptions {
    /// `IDLE`, `TIME`: when they count as delivered.
    pub delivered: DeliveryTime,
    /// `RETRYCOUNT`: how often they count as delivered.
    pub deliveries: Option<u64>,
    /// `FORCE`: also those that are pending for nobody.
    pub is_forced: bool,
    /// `JUSTID`: the entries are not told, and the delivery is not counted.
    pub only_ids: bool,
    /// `LASTID`: the group's last id becomes this, if it is below.
    pub last_id: StreamId,
}

/// When a claimed entry counts as delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeliveryTime {
    /// Now.
    #[default]
    Now,
    /// `IDLE`: so many milliseconds ago.
    Ago(i64),
    /// `TIME`: at these Unix milliseconds.
    At(i64),
}

/// Behind which entry a group begins to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupStart {
    /// `$`: the last one.
    Last,
    /// This one.
    After(StreamId),
}

/// Reads an id without a remark: `ms` or `ms-seq`. Whatever stands as one in a [`StreamCommand`] was read before.
pub fn stream_id(word: &[u8]) -> Option<StreamId> {
    parse::id(word, 0)
}

impl StreamCommand<'_> {
    /// See [`crate::Command::writes`].
    pub fn writes(&self) -> bool {
        match self {
            StreamCommand::Add { .. }
            | StreamCommand::Delete { .. }
            | StreamCommand::Trim { .. }
            | StreamCommand::SetId { .. }
            | StreamCommand::Acknowledge { .. }
            | StreamCommand::Claim { .. }
            | StreamCommand::AutoClaim { .. }
            | StreamCommand::CreateGroup { .. }
            | StreamCommand::SetGroupId { .. }
            | StreamCommand::DestroyGroup { .. }
            | StreamCommand::CreateConsumer { .. }
            | StreamCommand::DeleteConsumer { .. } => true,
            StreamCommand::Read(read) => read.writes(),
            StreamCommand::Len { .. }
            | StreamCommand::Range { .. }
            | StreamCommand::LastIds { .. }
            | StreamCommand::Pending { .. }
            | StreamCommand::PendingRange { .. }
            | StreamCommand::Info { .. }
            | StreamCommand::FullInfo { .. }
            | StreamCommand::GroupsInfo { .. }
            | StreamCommand::ConsumersInfo { .. } => false,
        }
    }

    /// See [`crate::Command::access`].
    pub fn access(&self) -> ValueAccess {
        match self {
            StreamCommand::Len { .. } => ValueAccess::Metadata,
            _ if self.writes() => ValueAccess::Modifies,
            _ => ValueAccess::Reads,
        }
    }
}
