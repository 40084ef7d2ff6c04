//! The data of one group as a deterministic state machine.
//!
//! What it is: a [`Keyspace`] to which entries are applied and from which reads are answered. What it is not:
//! it knows nothing of consensus, clients, clocks or other groups, and does no I/O.
//!
//! Reading order: `keyspace.rs` (the state and its operations), `entry.rs` (what is applied), `apply.rs` and
//! `read.rs` (the two dispatches), then the data types; below them `database.rs`, `directories.rs`,
//! `directory.rs`, `segment.rs`, `object.rs` (how keys lie in memory); `listpack.rs`, `integers.rs` and `large.rs` (how collections do); `coded.rs` (strings of which replicas have fragments, which none does yet). `unsafe` is in
//! `object.rs`, `slot_word.rs` and `sorted_set/tree.rs` alone.

mod keyspace;

mod alone;

mod digest;
mod effects;
mod encoded;
mod entry;
mod evaluate;
mod hosting;
mod local;
mod locking;
mod long_values;
mod object_copy;
mod partition_step;
mod placing;
mod replies;
mod requests;
mod scratch;
mod scrub;
mod sessions;
mod staging;
mod transactions;
mod transfer;
mod undo;
mod waiters;

mod apply;
mod dump;
mod read;
mod restore;

mod bitmap;
mod blocking;
mod building;
mod coded;
mod cost;
mod extensions;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod integers;
mod lcs;
mod list;
mod set;
mod sort;
mod sorted_set;
mod stream;
mod string;
mod value;

mod events;
pub mod fields;
mod large;
mod lazyfree;
mod limits;
mod listpack;

mod access;
mod database;
mod directories;
mod directory;
mod eviction;
mod object;
mod object_check;
mod object_codec;
mod sample;
mod segment;
mod slot_word;

pub use access::{AccessClock, LfuParameters};
pub use alone::{Terms, Told, shared};
pub use coded::needs::{Needed, changes_any};
pub use coded::own_rows::OwnRows;
pub use coded::{
    Coded, CodingStep, CodingTally, Demoted, Given, GroupCode, HELD_MAX, Hot, Refilled, THRESHOLD_MIN,
    WalkPlace, WrongValue,
};
pub use cost::{cost, string_bytes, zero_bytes};
pub use database::KeyVersion;
pub use directories::Cursor;
pub use directory::Position;
pub use effects::Effect;
pub use encoded::{EncodedObject, SeenObject};
pub use entry::{
    BatchView, BlockCommand, ConditionView, Entry, EntryBuf, EntryOperation, Forget, Header, InPlaceStep,
    KEPT_BYTES_MIN, Lock, Operations, OperationsMark, Pairs, Prepare, QueryTxn, Resolve, Resume, WaitId,
    Work,
};
pub use evaluate::{Answers, Outcome};
pub use events::{Event, EventClasses};
pub use eviction::{EvictionPolicy, Victims};
pub use hosting::{ArrivingPiece, Moved, PartitionCopy, PartitionCopyStep};
pub use hyperloglog::self_test as hyperloglog_self_test;
pub use keyspace::{ApplyOutput, AttachedRead, KEYS_AHEAD, Keyspace, UnknownSemantics, look_ahead};
pub use large::Large;
pub use lazyfree::{Lazyfree, LazyfreeCounts};
pub use limits::EncodingLimits;
pub use listpack::{Element, Listpack};
pub use local::LeaderLocal;
pub use locking::{is_scan, locks_among, locks_of};
pub use long_values::{LONG_STEP_BYTES, LongStep, LongValues};
pub use object::{Kind, Object, Value, allocation_size};
pub use object_check::check_object;
pub use object_copy::CopyStep;
pub use partition_step::{Enter, PartitionStep};
pub use read::{Read, SCAN_COUNT_MAX, scan_accepts};
pub use replies::Answer;
pub use requests::{
    ClientRequest, KeptResult, REQUESTS_AHEAD_MAX, RESULT_BYTES_MAX, RESULTS_BYTES_MAX, RESULTS_KEPT_FOR,
    RequestStanding, is_request_name,
};
pub use scratch::{Returned, Scratch, databases};
pub use scrub::{SCRUB_FORMAT, ScrubRound};
pub use sessions::{BOOTS_MAX, Batched, Fence, UNACKNOWLEDGED_BYTES_MAX, UNACKNOWLEDGED_MAX};
pub use staging::{Piece, STAGED_BYTES_MAX};
pub use transactions::{
    Behind, OpenTransaction, Origin, TransactionCounts, UnknownOrigin, WAITING_MAX, read_seen,
};
pub use transfer::chunk_records::{ChunkRecord, RecordPlace, read_records};
pub use transfer::snapshot_receiver::{Progress, SnapshotReceiver, TransferError};
pub use transfer::{Transfer, TransferStep};
pub use undo::{UNDO_BYTES_MAX, Undo};
pub use waiters::{awaited_kind, awaits_group, is_nil, told_gone};
