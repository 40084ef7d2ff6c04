//! Entries: what a group's log holds.
//!
//! ```text
//!  entry      semantics u16 | now i64 | seed u64 | batch*
//!  batch      boot varint | worker varint | number varint | number less acknowledged varint | length u32 | operation*
//!             boot u64 | worker u16 | number u64 | acknowledged u64 | length u32 | operation*    where semantics is 1
//!  operation  tag u8 | fields
//!    1 command  db u8 | protocol u8 | count u32 | (length u32 | bytes)*
//!   24 short    the same, with varints in place of numbers of 32 bits
//!    2 expire   db u8 | key
//!    3 evict    db u8 | key
//!    4 install  effects
//!    5 limits   nine u32
//!    6 fence    newest u64 | count u32 | boot u64 *
//!    7 block    conditions | commands
//!    8 to 14    of transactions over several groups; see `entry/transaction.rs`
//!   15 once     request | commands
//!   16 wait     name | a command, as in 1
//!   17 end wait   name
//!   18 end waits  boot u64
//!   19 framed     db u8 | protocol u8 | count u32 | (start u32 | length u32)* | length u32 | a command's frame, in which its words
//!                 lie
//!   20 stage    number u64 | bytes of the whole u64 | offset u64 | length u32 | bytes; see `staging.rs`
//!   21 staged   number u64
//!   22 resume   up to u64 | count u32 | (batch u64)* | count u32 | (batch u64 | index u32)*
//!   26 arrive     a piece of a copy of a partition; see `hosting/arrival.rs`; from [`SemanticsVersion::PARTITIONS_MOVE`] on
//!   30 coding     a step of a group whose values are kept as fragments; see `coded.rs`; from [`SemanticsVersion::CODING`] on
//!   25 one phase  conditions (what was read) | effects; from [`SemanticsVersion::ONE_PHASE`] on
//!  effects     count u32 | (db u8 | tag u8: 0 delete, 1 put, 2 tell | key, the object, or the event)*
//!  conditions  count u32 | condition*
//!  commands    count u32 | (db u8 | protocol u8 | count u32 | (length u32 | bytes)*)*
//!  condition   db u8 | tag u8: 0 absent, 1 present at, 2 absent since | key | [version u64, unless 0]
//!  name        worker u16 | connection u64 | sequence u64
//!  request     UUID, 16 bytes | digest u64 | protocol u8
//!  key         length u32 | bytes
//!  object      key, deadline and value; see `object_codec.rs`
//! ```
//!
//! Most entries hold one short command, or a few: what stands around them is a good part of the log. *Short* is written in place of *command*
//! once every node reads it: from [`SemanticsVersion::SHORT_ENTRIES`] on.
//!
//! Little-endian. [`Entry::decode`] checks the whole structure once, so that reading it later cannot fail; it
//! is total on any bytes.

mod transaction;

pub use transaction::{Forget, InPlaceStep, Lock, Pairs, Prepare, QueryTxn, Resolve, Work};
use transaction::{read_effects_of_prepare, read_forget, read_lock, read_prepare, read_resolve};

use crate::building::Built;
use crate::coded::CodingStep;
use crate::database::KeyVersion;
use crate::effects::Effect;
use crate::events::Event;
use crate::fields::{
    protocol_number, read_db, read_gateway, read_participants, read_protocol, read_txn, write_gateway,
    write_participants, write_txn,
};
use crate::hosting::ArrivingPiece;
use crate::limits::{EncodingLimits, LIMITS, LIMITS_WITHOUT_STREAMS};
use crate::object::Object;
use crate::object_codec::{self, Head};
use crate::requests::ClientRequest;
use crate::sessions::Fence;
use crate::staging::Piece;
use crate::transactions::Origin;
use bytes::Bytes;
use codec::{COUNT_BYTES, DecodeError, Reader, Writer, fill_count};
use ids::{Boot, Db, GatewayId, SemanticsVersion, UnixMillis, Version};
use resp::{Args, FrozenRope, Protocol, Span};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use txn::TxnId;

/// What stands at the head of an entry, decided by the leader that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The rules by which the entry is to be applied.
    pub semantics: SemanticsVersion,
    /// The leader's wall clock. Group time becomes the larger of the two.
    pub now: UnixMillis,
    /// From which all random choices of the entry follow.
    pub seed: u64,
}

const PREPARE_TAG: u8 = 8;

/// With which [`EntryOperation::Lock`] begins.
pub(crate) const LOCK_TAG: u8 = 9;

const FRAMED_TAG: u8 = 19;

const SHORT_TAG: u8 = 24;

/// What is as long as this is not copied as a whole on its way: frames of commands go in pieces as they are, and strings stay in
/// what brought them. Shorter ones hold nobody up.
pub const KEPT_BYTES_MIN: usize = 1024 * 1024;

/// How long a head is.
const HEADER_BYTES: usize = 2 + 8 + 8;

/// How long what stands before a batch's operations is at most.
const BATCH_HEAD_BYTES_MAX: usize = 10 + 3 + 10 + 10 + 4;

/// One thing an entry asks of the keyspace.
pub enum EntryOperation<'a> {
    /// A client's command.
    Command {
        /// The connection's database.
        db: Db,
        /// How to write the reply.
        protocol: Protocol,
        /// Name and arguments.
        args: Args<'a>,
    },
    /// The leader found the key expired.
    Expire {
        /// Its database.
        db: Db,
        /// The key.
        key: &'a [u8],
    },
    /// The leader needs room.
    Evict {
        /// Its database.
        db: Db,
        /// The key.
        key: &'a [u8],
    },
    /// A transaction over several groups was committed.
    Install {
        /// This group's part of it.
        effects: Vec<Effect>,
    },
    /// The configuration of the compact encodings changed.
    Limits {
        /// What they are from now on.
        limits: EncodingLimits,
    },
    /// Boots have died.
    Fence {
        /// Which of them live.
        fence: Fence,
    },
    /// A client's commands as one: `EXEC`.
    Block {
        /// What must hold, or nothing is carried out.
        conditions: Vec<ConditionView<'a>>,
        /// The commands in order.
        commands: Vec<BlockCommand<'a>>,
    },
    /// A client's commands as one that are carried out at most once, however often they come.
    Once {
        /// What the client calls them.
        request: ClientRequest,
        /// The commands in order.
        commands: Vec<BlockCommand<'a>>,
    },
    /// A transaction whose effects are in this group alone, in one phase: they are installed, unless what it has seen has changed.
    OnePhase {
        /// What its coordinator has seen and relies on, or nothing is carried out.
        expects: Vec<ConditionView<'a>>,
        /// What changes.
        effects: Vec<Effect>,
    },
    /// This group's part of a transaction is to be done or refused, and kept until it is resolved.
    Prepare(Box<Prepare<'a>>),
    /// A transaction locks keys before it knows what to do.
    Lock(Box<Lock<'a>>),
    /// Transactions were decided.
    Resolve(Resolve),
    /// What has become of a transaction here; it is refused if nothing has.
    QueryTxn(QueryTxn),
    /// An older transaction waits for this one: it is refused if it only waits here.
    Withdraw {
        /// Which one.
        txn: TxnId,
    },
    /// Transactions are over everywhere.
    Forget(Forget),
    /// Answers that came later have arrived.
    Received {
        /// The number of the batch of the same gateway, and the index of the operation in it.
        answers: Vec<(u64, u32)>,
    },
    /// The group has begun anew without all that its gateway had told it: what this one awaits of its batches. All else that is
    /// kept of them for it is not, and who waits there is gone.
    Resume(Resume),
    /// A client's command that waits until there is something to pop.
    Wait {
        /// Who waits, among the clients of the batch's gateway.
        id: WaitId,
        /// The command.
        command: BlockCommand<'a>,
    },
    /// A client of the batch's gateway does not wait any more.
    EndWait {
        /// Who.
        id: WaitId,
    },
    /// The leader cannot reach the node of these clients: they do not wait here any more.
    EndWaits {
        /// The boot of their node.
        boot: Boot,
    },
    /// A piece of an operation of the batch's gateway that is long.
    Stage(Piece<'a>),
    /// All pieces of such an operation are there: it is carried out.
    Staged {
        /// Which one.
        number: u64,
    },
    /// A piece of a copy of a partition that is to come: from [`SemanticsVersion::PARTITIONS_MOVE`] on.
    Arrive(ArrivingPiece<'a>),
    /// What becomes of values that are kept as fragments: from [`SemanticsVersion::CODING`] on. The leader's own.
    Coding(CodingStep<'a>),
}

/// What a gateway awaits of a group that has begun anew.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resume {
    /// Of its batches up to this number.
    pub up_to: u64,
    /// Those that are not answered: all of their answers. In order.
    pub batches: Vec<u64>,
    /// Answers that come later than their batches: the number of the batch, and the index of the operation in it. In order.
    pub answers: Vec<(u64, u32)>,
}

impl Resume {
    /// Whether what is kept for this is not awaited any more. `origin` is of the same gateway.
    pub(crate) fn forgets(&self, origin: Origin) -> bool {
        let (number, index) = (origin.number, origin.index);
        let is_awaited = self.batches.binary_search(&number).is_ok()
            || self.answers.binary_search(&(number, index)).is_ok();
        number <= self.up_to && !is_awaited
    }
}

/// Who waits for a key: a client of one gateway, and which of its commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WaitId {
    /// The worker of the client's connection.
    pub worker: u16,
    /// The connection.
    pub connection: u64,
    /// Counts its commands.
    pub sequence: u64,
}

/// One command of a block.
#[derive(Clone, Copy)]
pub struct BlockCommand<'a> {
    /// The connection's database.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Name and arguments.
    pub args: Args<'a>,
}

/// What must hold for a block to be carried out; judged when it is applied, by the group's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConditionView<'a> {
    /// A watched key is as it was.
    Unchanged {
        /// Its database.
        db: Db,
        /// The key.
        key: &'a [u8],
        /// As `WATCH` saw it.
        version: KeyVersion,
    },
    /// A key of `MSETNX` is absent.
    Absent {
        /// Its database.
        db: Db,
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> ConditionView<'a> {
    /// Its database.
    pub fn db(&self) -> Db {
        match self {
            ConditionView::Unchanged { db, .. } | ConditionView::Absent { db, .. } => *db,
        }
    }

    /// The key it is about.
    pub fn key(&self) -> &'a [u8] {
        match self {
            ConditionView::Unchanged { key, .. } | ConditionView::Absent { key, .. } => key,
        }
    }
}

/// Operations in the format of entries, on their way into a batch: what a gateway gathers, keeps until it is answered, and
/// sends again.
#[derive(Clone, Default, Debug)]
pub struct Operations {
    out: Vec<u8>,
    /// What is long in them and was not copied, each with its place among the bytes.
    runs: Vec<(usize, Bytes)>,
    count: usize,
}

/// A place between two operations.
#[derive(Clone, Copy, Default, Debug)]
pub struct OperationsMark {
    bytes: usize,
    count: usize,
}

/// An entry under construction.
pub struct EntryBuf {
    /// Head and closed batches, and of the open batch what stands before its operations.
    operations: Operations,
    /// Where the open batch's length stands.
    batch_length_at: Option<usize>,
    semantics: SemanticsVersion,
}

impl EntryBuf {
    /// An entry without batches.
    pub fn new(header: &Header) -> EntryBuf {
        EntryBuf::with_room(header, 0, 0)
    }

    /// The same, with room for so many batches with so many bytes of operations in all.
    pub fn with_room(header: &Header, batches: usize, operation_bytes: usize) -> EntryBuf {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + batches * BATCH_HEAD_BYTES_MAX + operation_bytes);
        bytes.u16(header.semantics.0);
        bytes.i64(header.now.0);
        bytes.u64(header.seed);
        EntryBuf {
            operations: Operations {
                out: bytes,
                ..Operations::default()
            },
            batch_length_at: None,
            semantics: header.semantics,
        }
    }

    /// Begins the batch of this number of `gateway`, which has the answers of all batches up to `acknowledged`; operations
    /// pushed from now on belong to it.
    pub fn begin_batch(&mut self, gateway: GatewayId, number: u64, acknowledged: u64) {
        self.close_batch();
        let bytes = &mut self.operations.out;
        if self.semantics >= SemanticsVersion::SHORT_ENTRIES {
            bytes.varint(gateway.boot.0);
            bytes.varint(gateway.worker.into());
            bytes.varint(number);
            bytes.varint(number.wrapping_sub(acknowledged));
        } else {
            write_gateway(bytes, gateway);
            bytes.u64s(&[number, acknowledged]);
        }
        self.batch_length_at = Some(bytes.len());
        bytes.count(0);
    }

    /// Begins a batch of what `gateway` may ask for any number of times: it is applied whenever the entry is, unless the gateway
    /// is dead, and nothing of it is recorded.
    pub fn begin_unnumbered_batch(&mut self, gateway: GatewayId) {
        self.begin_batch(gateway, 0, 0);
    }

    /// Begins a batch of what the leader itself asks for: it is applied whenever the entry is, and nothing of it is
    /// recorded.
    pub fn begin_own_batch(&mut self) {
        let nobody = GatewayId {
            boot: Boot(0),
            worker: 0,
        };
        self.begin_batch(nobody, 0, 0);
    }

    fn close_batch(&mut self) {
        if let Some(at) = self.batch_length_at.take() {
            fill_count(&mut self.operations.out, at);
        }
    }

    /// Adds an operation to the open batch.
    ///
    /// # Panics
    /// If no batch was begun.
    pub fn push(&mut self, operation: &EntryOperation<'_>) {
        assert!(self.batch_length_at.is_some(), "an operation belongs to a batch");
        match operation {
            EntryOperation::Command { db, protocol, args } => {
                self.operations
                    .push_command(self.semantics, *db, *protocol, *args);
            }
            _ => self.operations.push(operation),
        }
        self.operations.join();
    }

    /// Adds operations that were encoded elsewhere ([`Operations`]) to the open batch. Bytes that may come from anywhere are
    /// looked at first, with [`Operations::check`]; else the entry may be none.
    ///
    /// # Panics
    /// If no batch was begun.
    pub fn append(&mut self, operations: &[u8]) {
        assert!(self.batch_length_at.is_some(), "an operation belongs to a batch");
        self.operations.out.extend_from_slice(operations);
    }

    /// Where what was pushed by now ends.
    pub fn mark(&self) -> OperationsMark {
        self.operations.mark()
    }

    /// Takes back what was pushed to the open batch since a mark; its room is kept.
    pub fn cut(&mut self, mark: OperationsMark) {
        self.operations.out.truncate(mark.bytes);
        self.operations.count = mark.count;
    }

    /// How many bytes there are by now.
    pub fn len(&self) -> usize {
        self.operations.out.len()
    }

    /// Whether no batch was begun.
    pub fn is_empty(&self) -> bool {
        self.len() == HEADER_BYTES
    }

    /// The entry's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.close_batch();
        self.operations.out
    }
}

impl Operations {
    /// Where what was pushed by now ends.
    pub fn mark(&self) -> OperationsMark {
        OperationsMark {
            bytes: self.out.len(),
            count: self.count,
        }
    }

    /// Makes room for so many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve_exact(bytes);
    }

    /// Takes back what was pushed since a mark.
    pub fn cut(&mut self, mark: OperationsMark) {
        self.runs.truncate(self.runs.len() - self.runs_since(mark).len());
        self.out.truncate(mark.bytes);
        self.out.shrink_to(mark.bytes);
        self.count = mark.count;
    }

    /// The bytes of what was pushed since a mark.
    pub fn bytes_since(&self, mark: OperationsMark) -> usize {
        let runs = self.runs_since(mark).iter().map(|(_, run)| run.len());
        self.out.len() - mark.bytes + runs.sum::<usize>()
    }

    fn runs_since(&self, mark: OperationsMark) -> &[(usize, Bytes)] {
        &self.runs[self.runs.partition_point(|(at, _)| *at <= mark.bytes)..]
    }

    /// Takes out what was pushed since a mark. What is long in it is still shared with what it was pushed from.
    pub fn split_off(&mut self, mark: OperationsMark) -> FrozenRope {
        self.count = mark.count;
        let before = self.runs.len() - self.runs_since(mark).len();
        let runs = self.runs.drain(before..).map(|(at, run)| (at - mark.bytes, run));
        let runs = runs.collect();
        FrozenRope::new(self.out.split_off(mark.bytes).into(), runs)
    }

    /// Copies what is long to its place among the others' bytes.
    fn join(&mut self) {
        if !self.runs.is_empty() {
            let count = self.count;
            self.out = self.split_off(OperationsMark::default()).to_bytes().into();
            self.count = count;
        }
    }

    /// None.
    pub fn new() -> Operations {
        Operations::default()
    }

    /// Bytes that a command takes at most.
    pub fn room_of(args: Args<'_>) -> usize {
        const HEAD: usize = 8;
        const LENGTH: usize = 5;
        HEAD + args.len() * LENGTH + args.byte_len()
    }

    /// Adds one.
    pub fn push(&mut self, operation: &EntryOperation<'_>) {
        self.count += 1;
        match operation {
            EntryOperation::Command { db, protocol, args } => {
                self.out.u8(1);
                self.command(*db, *protocol, *args);
            }
            EntryOperation::Expire { db, key } => {
                self.out.raw(&[2, db.number()]);
                self.out.bytes(key);
            }
            EntryOperation::Evict { db, key } => {
                self.out.raw(&[3, db.number()]);
                self.out.bytes(key);
            }
            EntryOperation::Install { effects } => {
                self.out.u8(4);
                self.effects(effects);
            }
            EntryOperation::Limits { limits } => {
                self.out.u8(23);
                limits.numbers().iter().for_each(|&limit| self.out.u32(limit));
            }
            EntryOperation::Fence { fence } => {
                self.out.u8(6);
                fence.encode(&mut self.out);
            }
            EntryOperation::Block { conditions, commands } => {
                self.out.u8(7);
                self.conditions(conditions);
                self.commands(commands);
            }
            EntryOperation::Once { request, commands } => {
                self.out.u8(15);
                request.encode(&mut self.out);
                self.commands(commands);
            }
            EntryOperation::OnePhase { expects, effects } => {
                self.out.u8(25);
                self.conditions(expects);
                self.effects(effects);
            }
            EntryOperation::Prepare(prepare) => {
                self.out.u8(PREPARE_TAG);
                self.prepare(prepare);
            }
            EntryOperation::Lock(lock) => {
                self.out.u8(LOCK_TAG);
                self.lock(lock);
            }
            EntryOperation::Resolve(resolve) => {
                self.out.u8(10);
                self.resolve(resolve);
            }
            EntryOperation::QueryTxn(query_txn) => {
                self.out.u8(11);
                write_txn(&mut self.out, query_txn.txn);
                write_participants(&mut self.out, &query_txn.participants);
            }
            EntryOperation::Withdraw { txn } => {
                self.out.u8(12);
                write_txn(&mut self.out, *txn);
            }
            EntryOperation::Forget(forget) => {
                self.out.u8(13);
                self.forget(forget);
            }
            EntryOperation::Received { answers } => {
                self.out.u8(14);
                self.places(answers);
            }
            EntryOperation::Resume(resume) => {
                self.out.u8(22);
                self.out.u64(resume.up_to);
                self.out.list(&resume.batches, |out, &number| out.u64(number));
                self.places(&resume.answers);
            }
            EntryOperation::Wait { id, command } => {
                self.out.u8(16);
                self.wait_id(*id);
                self.command(command.db, command.protocol, command.args);
            }
            EntryOperation::EndWait { id } => {
                self.out.u8(17);
                self.wait_id(*id);
            }
            EntryOperation::EndWaits { boot } => {
                self.out.u8(18);
                self.out.u64(boot.0);
            }
            EntryOperation::Stage(piece) => {
                self.out.u8(20);
                self.out.u64s(&[piece.number, piece.whole_bytes, piece.offset]);
                self.out.bytes(piece.bytes);
            }
            EntryOperation::Staged { number } => {
                self.out.u8(21);
                self.out.u64(*number);
            }
            EntryOperation::Arrive(piece) => {
                self.out.u8(26);
                piece.encode(&mut self.out);
            }
            EntryOperation::Coding(step) => {
                self.out.u8(30);
                step.encode(&mut self.out);
            }
        }
    }

    fn places(&mut self, places: &[(u64, u32)]) {
        self.out.list(places, |out, &(number, index)| {
            out.u64(number);
            out.u32(index);
        });
    }

    /// Adds a command as the frame that its words lie in, which is not copied. `false`, and nothing is added, if a word does not
    /// lie in it.
    pub fn push_framed(&mut self, db: Db, protocol: Protocol, args: Args<'_>, frame: &Bytes) -> bool {
        let Some(spans) = args.spans_in(frame) else {
            return false;
        };
        self.count += 1;
        self.out
            .raw(&[FRAMED_TAG, db.number(), protocol_number(protocol)]);
        self.out.count(spans.len());
        for Span { start, len } in spans {
            self.out.u32(start);
            self.out.u32(len);
        }
        self.out.count(frame.len());
        self.runs.push((self.out.len(), frame.clone()));
        true
    }

    fn wait_id(&mut self, id: WaitId) {
        self.out.u16(id.worker);
        self.out.u64s(&[id.connection, id.sequence]);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// In the format of entries.
    ///
    /// # Panics
    /// If anything in them is long and was not copied: [`Operations::into_bytes`] copies it.
    pub fn bytes(&self) -> &[u8] {
        assert!(self.runs.is_empty(), "whoever has long ones takes them out first");
        &self.out
    }

    /// How many bytes they are.
    pub fn byte_len(&self) -> usize {
        self.bytes_since(OperationsMark::default())
    }

    /// In the format of entries.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.join();
        self.out
    }

    /// How many operations `bytes` are, from end to end: bytes that came from elsewhere.
    ///
    /// # Errors
    /// They are none.
    pub fn check(bytes: &[u8]) -> Result<usize, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut spans = Vec::new();
        let mut count = 0;
        while !reader.is_empty() {
            read_operation(&mut reader, &mut spans)?;
            spans.clear();
            count += 1;
        }
        Ok(count)
    }

    /// Calls `found` with every operation of `bytes`; `None` if they are none.
    pub fn read(bytes: &[u8], mut found: impl FnMut(EntryOperation<'_>)) -> Option<()> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let mut spans = Vec::new();
            let part = read_operation(&mut reader, &mut spans).ok()?;
            found(part.operation(&spans, None));
        }
        Some(())
    }

    /// What `read` makes of the one operation that `bytes` are; `None` if they are none.
    pub fn read_one<R>(bytes: &[u8], read: impl FnOnce(EntryOperation<'_>) -> R) -> Option<R> {
        let mut spans = Vec::new();
        let part = read_operation(&mut Reader::new(bytes), &mut spans).ok()?;
        Some(read(part.operation(&spans, None)))
    }

    /// The same of an operation that came in pieces.
    pub(crate) fn read_kept<R>(source: &Source<'_>, read: impl FnOnce(EntryOperation<'_>) -> R) -> Option<R> {
        let (mut reader, mut spans) = (Reader::new(source.bytes), Vec::new());
        let part = read_operation(&mut reader, &mut spans).ok()?;
        reader
            .is_empty()
            .then(|| read(part.operation(&spans, Some(source))))
    }

    /// Where the effects of the one operation begin that `bytes` are the beginning of, and how many there are; `None` if it has
    /// none, or this is not to be seen yet.
    pub(crate) fn effects_of(bytes: &[u8]) -> Option<(usize, usize)> {
        let mut reader = Reader::new(bytes);
        let count = read_effects_of_prepare(&mut reader).ok()??;
        Some((reader.offset(), count))
    }

    /// What stands before the value of the effect that `bytes` begin with, if it is a large one's, and how long that is. A long string is one that
    /// does not stay in an operation of so many bytes. Then how
    /// long both are, of another effect all of it; `None` if this is not to be seen yet.
    pub(crate) fn large_value_of(bytes: &[u8], whole_bytes: usize) -> Option<(Option<(u8, usize)>, usize)> {
        let mut reader = Reader::new(bytes);
        let large = read_large_value(&mut reader, whole_bytes).ok()?;
        let behind = match large {
            Some((_, length)) => length,
            None => 0,
        };
        Some((large, reader.offset() + behind))
    }

    /// What `look` makes of the words of the command that is operation number `index` of `bytes`; `None` if it is none.
    pub fn argv<R>(bytes: &[u8], index: usize, look: impl FnOnce(Args<'_>) -> R) -> Option<R> {
        let mut reader = Reader::new(bytes);
        let mut spans = Vec::new();
        for _ in 0..index {
            read_operation(&mut reader, &mut spans).ok()?;
        }
        match read_operation(&mut reader, &mut spans).ok()? {
            Part::Command(command) | Part::Wait { command, .. } => Some(look(command.command(&spans).args)),
            _ => None,
        }
    }

    /// The same with what it says beside them.
    pub fn command_at<R>(bytes: &[u8], index: usize, look: impl FnOnce(BlockCommand<'_>) -> R) -> Option<R> {
        let mut reader = Reader::new(bytes);
        let mut spans = Vec::new();
        for _ in 0..index {
            read_operation(&mut reader, &mut spans).ok()?;
        }
        match read_operation(&mut reader, &mut spans).ok()? {
            Part::Command(command) => Some(look(command.command(&spans))),
            _ => None,
        }
    }

    /// The same of the one command that was taken out of others, with what it says beside its words.
    pub fn command_of_long<R>(operation: &FrozenRope, look: impl FnOnce(BlockCommand<'_>) -> R) -> Option<R> {
        let Some((_, frame)) = operation.runs().first() else {
            return Operations::command_at(operation.bytes(), 0, look);
        };
        let (mut reader, mut spans) = (Reader::new(operation.bytes()), Vec::new());
        if reader.u8().ok()? != FRAMED_TAG {
            return None;
        }
        let (db, protocol) = read_framed_head(&mut reader, &mut spans).ok()?;
        let args = Args::new(frame, &spans);
        Some(look(BlockCommand { db, protocol, args }))
    }

    /// The same of the one command that was taken out of others ([`Operations::split_off`]).
    pub fn argv_of_long<R>(operation: &FrozenRope, look: impl FnOnce(Args<'_>) -> R) -> Option<R> {
        let Some((_, frame)) = operation.runs().first() else {
            return Operations::argv(operation.bytes(), 0, look);
        };
        let (mut reader, mut spans) = (Reader::new(operation.bytes()), Vec::new());
        if reader.u8().ok()? != FRAMED_TAG {
            return None;
        }
        read_framed_head(&mut reader, &mut spans).ok()?;
        Some(look(Args::new(frame, &spans)))
    }

    /// Adds a command, in the shortest form that all can read who follow these rules.
    pub fn push_command(&mut self, semantics: SemanticsVersion, db: Db, protocol: Protocol, args: Args<'_>) {
        if semantics < SemanticsVersion::SHORT_ENTRIES {
            return self.push(&EntryOperation::Command { db, protocol, args });
        }
        self.count += 1;
        // At once, and not word by word.
        self.out.reserve(Operations::room_of(args));
        self.out.raw(&[SHORT_TAG, db.number(), protocol_number(protocol)]);
        self.out.varint(args.len() as u64);
        for arg in args.iter() {
            self.out.varint(arg.len() as u64);
            self.out.raw(arg);
        }
    }

    fn command(&mut self, db: Db, protocol: Protocol, args: Args<'_>) {
        self.out.reserve(Operations::room_of(args));
        self.out.raw(&[db.number(), protocol_number(protocol)]);
        self.out.count(args.len());
        args.iter().for_each(|arg| self.out.bytes(arg));
    }

    fn conditions(&mut self, conditions: &[ConditionView<'_>]) {
        self.out.count(conditions.len());
        conditions.iter().for_each(|condition| self.condition(condition));
    }

    fn commands(&mut self, commands: &[BlockCommand<'_>]) {
        self.out.count(commands.len());
        for command in commands {
            self.command(command.db, command.protocol, command.args);
        }
    }

    fn effects(&mut self, effects: &[Effect]) {
        self.out.count(effects.len());
        effects.iter().for_each(|effect| self.effect(effect));
    }

    fn condition(&mut self, condition: &ConditionView<'_>) {
        let (db, key, tag, version) = match *condition {
            ConditionView::Absent { db, key } => (db, key, 0, None),
            ConditionView::Unchanged { db, key, version } => match version {
                KeyVersion::Present(version) => (db, key, 1, Some(version)),
                KeyVersion::Absent(version) => (db, key, 2, Some(version)),
            },
        };
        self.out.raw(&[db.number(), tag]);
        self.out.bytes(key);
        if let Some(version) = version {
            self.out.u64(version.0);
        }
    }

    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Delete { db, key } => {
                self.out.raw(&[db.number(), 0]);
                self.out.bytes(key);
            }
            Effect::PutEncoded { db, object } => {
                self.out.raw(&[db.number(), 1]);
                self.out.raw(object.head_bytes());
                let value = object.value_bytes();
                self.out.count(value.len());
                if value.len() >= KEPT_BYTES_MIN {
                    self.runs.push((self.out.len(), value.clone()));
                } else {
                    self.out.raw(value);
                }
            }
            Effect::Put { db, object } => {
                self.out.raw(&[db.number(), 1]);
                match object.kept_string() {
                    Some(kept) => {
                        object_codec::write_head(&mut self.out, object);
                        self.out.count(kept.len());
                        self.runs.push((self.out.len(), kept.clone()));
                    }
                    None => object_codec::write_object(&mut self.out, object),
                }
            }
            Effect::Tell(event) => {
                self.out.raw(&[event.db.number(), 2]);
                event.write(&mut self.out);
            }
        }
    }
}

/// A checked entry over borrowed bytes.
pub struct Entry<'a> {
    header: Header,
    batches: Vec<BatchView<'a>>,
}

/// The operations that one gateway sent together.
pub struct BatchView<'a> {
    /// The gateway.
    pub gateway: GatewayId,
    /// The batch's number, counted by that gateway for this group from 1 on; 0 is what the leader itself asks for.
    pub number: u64,
    /// The gateway has the answers of all batches up to this one.
    pub acknowledged: u64,
    operations: Vec<Part<'a>>,
    /// Of the words of all commands.
    spans: Vec<Span>,
}

/// An operation with its arguments' positions found.
enum Part<'a> {
    Command(CommandView<'a>),
    Expire {
        db: Db,
        key: &'a [u8],
    },
    Evict {
        db: Db,
        key: &'a [u8],
    },
    Install {
        effects: Vec<EffectView<'a>>,
    },
    Limits(EncodingLimits),
    Fence(Fence),
    Block {
        conditions: Vec<ConditionView<'a>>,
        commands: Vec<CommandView<'a>>,
    },
    Once {
        request: ClientRequest,
        commands: Vec<CommandView<'a>>,
    },
    OnePhase {
        expects: Vec<ConditionView<'a>>,
        effects: Vec<EffectView<'a>>,
    },
    Prepare(Box<transaction::PrepareView<'a>>),
    Lock(Box<Lock<'a>>),
    Resolve(Resolve),
    QueryTxn(QueryTxn),
    Withdraw {
        txn: TxnId,
    },
    Forget(Forget),
    Received(Vec<(u64, u32)>),
    Resume(Resume),
    Wait {
        id: WaitId,
        command: CommandView<'a>,
    },
    EndWait {
        id: WaitId,
    },
    EndWaits {
        boot: Boot,
    },
    Stage(Piece<'a>),
    Staged {
        number: u64,
    },
    Arrive(ArrivingPiece<'a>),
    Coding(CodingStep<'a>),
}

struct CommandView<'a> {
    db: Db,
    protocol: Protocol,
    bytes: &'a [u8],
    /// Where its words are among the spans of the batch.
    words: Range<usize>,
}

enum EffectView<'a> {
    Delete(Db, &'a [u8]),
    Put(Db, PutView<'a>),
    Tell(Event),
}

struct PutView<'a> {
    head: Head<'a>,
    value: &'a [u8],
}

/// Operations of a batch that room is made for at once, by what the first one takes.
const RESERVED_MAX: usize = 1_024;

/// Words that each of these is thought to have at most.
const RESERVED_WORDS_MAX: usize = 8;

/// Commands of a block that room is made for at once.
const RESERVED_COMMANDS_MAX: usize = 16;

impl<'a> Entry<'a> {
    /// Checks `bytes` from end to end.
    pub fn decode(bytes: &'a [u8]) -> Result<Entry<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let semantics = SemanticsVersion(reader.u16()?);
        let now = UnixMillis(reader.i64()?);
        let seed = reader.u64()?;
        let mut batches = Vec::new();
        while !reader.is_empty() {
            let (gateway, number, acknowledged) = match semantics >= SemanticsVersion::SHORT_ENTRIES {
                true => read_short_head(&mut reader)?,
                false => (read_gateway(&mut reader)?, reader.u64()?, reader.u64()?),
            };
            let mut body = reader.part()?;
            let (mut operations, mut spans) = (Vec::new(), Vec::new());
            while !body.is_empty() {
                let before = body.rest().len();
                operations.push(read_operation(&mut body, &mut spans)?);
                if operations.len() == 1 {
                    // Those behind the first are mostly as long as it is.
                    let left = body.rest().len();
                    let like_it = (left / (before - left).max(1)).min(RESERVED_MAX);
                    operations.reserve_exact(like_it);
                    spans.reserve_exact(like_it * spans.len().min(RESERVED_WORDS_MAX));
                }
            }
            batches.push(BatchView {
                gateway,
                number,
                acknowledged,
                operations,
                spans,
            });
        }
        Ok(Entry {
            header: Header { semantics, now, seed },
            batches,
        })
    }

    /// The entry's head.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The batches in order.
    pub fn batches(&self) -> &[BatchView<'a>] {
        &self.batches
    }
}

impl BatchView<'_> {
    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The first word behind the name, mostly a key, of each command from operation `first` on, and the first key that a transaction of one
    /// phase has seen.
    pub(crate) fn keys_from(&self, first: usize) -> impl Iterator<Item = (Db, &[u8])> + Clone {
        self.operations[first..].iter().filter_map(|part| match part {
            Part::Command(command) => Some((command.db, command.command(&self.spans).args.get(1)?)),
            Part::OnePhase { expects, .. } => expects.first().map(|seen| (seen.db(), seen.key())),
            _ => None,
        })
    }

    /// The transactions that it commits.
    pub(crate) fn committed(&self) -> impl Iterator<Item = TxnId> {
        let resolved = self.operations.iter().flat_map(|part| match part {
            Part::Resolve(Resolve { decisions }) => &decisions[..],
            _ => &[],
        });
        let committed = resolved.filter(|(_, is_committed)| *is_committed);
        committed.map(|(txn, _)| *txn)
    }

    /// The operations in order.
    pub fn operations(&self) -> impl Iterator<Item = EntryOperation<'_>> {
        let operations = self.operations.iter();
        operations.map(|part| part.operation(&self.spans, None))
    }
}

impl Part<'_> {
    fn operation<'s>(&'s self, spans: &'s [Span], source: Option<&Source<'_>>) -> EntryOperation<'s> {
        match self {
            Part::Command(command) => {
                let BlockCommand { db, protocol, args } = command.command(spans);
                EntryOperation::Command { db, protocol, args }
            }
            Part::Expire { db, key } => EntryOperation::Expire { db: *db, key },
            Part::Evict { db, key } => EntryOperation::Evict { db: *db, key },
            Part::Install { effects } => EntryOperation::Install {
                effects: effects.iter().map(|effect| effect.effect(source)).collect(),
            },
            Part::Limits(limits) => EntryOperation::Limits { limits: *limits },
            Part::Fence(fence) => EntryOperation::Fence { fence: fence.clone() },
            Part::Block { conditions, commands } => EntryOperation::Block {
                conditions: conditions.clone(),
                commands: commands.iter().map(|command| command.command(spans)).collect(),
            },
            Part::Once { request, commands } => EntryOperation::Once {
                request: *request,
                commands: commands.iter().map(|command| command.command(spans)).collect(),
            },
            Part::OnePhase { expects, effects } => EntryOperation::OnePhase {
                expects: expects.clone(),
                effects: effects.iter().map(|effect| effect.effect(source)).collect(),
            },
            Part::Prepare(prepare) => EntryOperation::Prepare(Box::new(prepare.prepare(spans, source))),
            Part::Lock(lock) => EntryOperation::Lock(lock.clone()),
            Part::Resolve(resolve) => EntryOperation::Resolve(resolve.clone()),
            Part::QueryTxn(query_txn) => EntryOperation::QueryTxn(query_txn.clone()),
            Part::Withdraw { txn } => EntryOperation::Withdraw { txn: *txn },
            Part::Forget(forget) => EntryOperation::Forget(forget.clone()),
            Part::Received(answers) => EntryOperation::Received {
                answers: answers.clone(),
            },
            Part::Resume(resume) => EntryOperation::Resume(resume.clone()),
            Part::Wait { id, command } => EntryOperation::Wait {
                id: *id,
                command: command.command(spans),
            },
            Part::EndWait { id } => EntryOperation::EndWait { id: *id },
            Part::EndWaits { boot } => EntryOperation::EndWaits { boot: *boot },
            Part::Stage(piece) => EntryOperation::Stage(*piece),
            Part::Staged { number } => EntryOperation::Staged { number: *number },
            Part::Arrive(piece) => EntryOperation::Arrive(*piece),
            Part::Coding(step) => EntryOperation::Coding(step.clone()),
        }
    }
}

impl CommandView<'_> {
    fn command<'s>(&'s self, spans: &'s [Span]) -> BlockCommand<'s> {
        BlockCommand {
            db: self.db,
            protocol: self.protocol,
            args: Args::new(self.bytes, &spans[self.words.clone()]),
        }
    }
}

impl EffectView<'_> {
    /// A long string stays in `source`, if it lies there.
    fn effect(&self, source: Option<&Source<'_>>) -> Effect {
        match self {
            EffectView::Delete(db, key) => Effect::Delete {
                db: *db,
                key: (*key).into(),
            },
            EffectView::Put(db, put) => {
                let built = source.and_then(|source| source.built(put.value));
                let object = match built {
                    Some(Built::Text(text)) => put.head.object(&text, Some(&text)),
                    Some(Built::Large(large)) => {
                        Object::large(put.head.key, large, put.head.deadline, Version(0))
                    }
                    None => put.head.object(put.value, source.map(|source| source.bytes)),
                };
                Effect::Put { db: *db, object }
            }
            EffectView::Tell(event) => Effect::Tell(event.clone()),
        }
    }
}

/// Bytes of an operation that came in pieces.
pub(crate) struct Source<'a> {
    /// All of them. Long strings may stay there.
    pub(crate) bytes: &'a Bytes,
    /// Large values in them that were put together as they came, by where they begin.
    pub(crate) built: RefCell<BTreeMap<usize, Built>>,
}

impl Source<'_> {
    fn built(&self, value: &[u8]) -> Option<Built> {
        let at = value.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        self.built.borrow_mut().remove(&at)
    }
}

fn read_short_head(reader: &mut Reader<'_>) -> Result<(GatewayId, u64, u64), DecodeError> {
    let boot = Boot(reader.varint()?);
    let too_large = reader.error("the number of a worker");
    let worker = u16::try_from(reader.varint()?).map_err(|_| too_large)?;
    let number = reader.varint()?;
    let acknowledged = number.wrapping_sub(reader.varint()?);
    Ok((GatewayId { boot, worker }, number, acknowledged))
}

fn read_operation<'a>(reader: &mut Reader<'a>, spans: &mut Vec<Span>) -> Result<Part<'a>, DecodeError> {
    match reader.u8()? {
        SHORT_TAG => Ok(Part::Command(read_short_command(reader, spans)?)),
        1 => Ok(Part::Command(read_command(reader, spans)?)),
        2 => Ok(Part::Expire {
            db: read_db(reader)?,
            key: reader.bytes()?,
        }),
        3 => Ok(Part::Evict {
            db: read_db(reader)?,
            key: reader.bytes()?,
        }),
        4 => Ok(Part::Install {
            effects: read_effects(reader)?,
        }),
        // As it was written before there were streams.
        5 => {
            let limits = EncodingLimits::of_first(LIMITS_WITHOUT_STREAMS, || reader.u32());
            limits.map(Part::Limits)
        }
        23 => EncodingLimits::of_first(LIMITS, || reader.u32()).map(Part::Limits),
        6 => Ok(Part::Fence(Fence::decode(reader)?)),
        7 => Ok(Part::Block {
            conditions: read_conditions(reader)?,
            commands: read_commands(reader, spans)?,
        }),
        25 => Ok(Part::OnePhase {
            expects: read_conditions(reader)?,
            effects: read_effects(reader)?,
        }),
        PREPARE_TAG => Ok(Part::Prepare(Box::new(read_prepare(reader, spans)?))),
        LOCK_TAG => Ok(Part::Lock(Box::new(read_lock(reader)?))),
        10 => Ok(Part::Resolve(read_resolve(reader)?)),
        11 => Ok(Part::QueryTxn(QueryTxn {
            txn: read_txn(reader)?,
            participants: read_participants(reader)?,
        })),
        12 => Ok(Part::Withdraw {
            txn: read_txn(reader)?,
        }),
        13 => Ok(Part::Forget(read_forget(reader)?)),
        14 => Ok(Part::Received(read_places(reader)?)),
        22 => {
            let up_to = reader.u64()?;
            let mut batches = reader.list(8, Reader::u64)?;
            let mut answers = read_places(reader)?;
            // Whoever wrote them did so in order; what is looked up by it does not rely on that.
            batches.sort_unstable();
            answers.sort_unstable();
            Ok(Part::Resume(Resume {
                up_to,
                batches,
                answers,
            }))
        }
        15 => Ok(Part::Once {
            request: ClientRequest::decode(reader)?,
            commands: read_commands(reader, spans)?,
        }),
        16 => Ok(Part::Wait {
            id: read_wait_id(reader)?,
            command: read_command(reader, spans)?,
        }),
        17 => Ok(Part::EndWait {
            id: read_wait_id(reader)?,
        }),
        18 => Ok(Part::EndWaits {
            boot: Boot(reader.u64()?),
        }),
        FRAMED_TAG => Ok(Part::Command(read_framed(reader, spans)?)),
        20 => Ok(Part::Stage(Piece {
            number: reader.u64()?,
            whole_bytes: reader.u64()?,
            offset: reader.u64()?,
            bytes: reader.bytes()?,
        })),
        21 => Ok(Part::Staged {
            number: reader.u64()?,
        }),
        26 => Ok(Part::Arrive(ArrivingPiece::decode(reader)?)),
        30 => Ok(Part::Coding(CodingStep::decode(reader)?)),
        _ => Err(reader.unknown("an operation")),
    }
}

fn read_places(reader: &mut Reader<'_>) -> Result<Vec<(u64, u32)>, DecodeError> {
    reader.list(8 + 4, |reader| Ok((reader.u64()?, reader.u32()?)))
}

fn read_wait_id(reader: &mut Reader<'_>) -> Result<WaitId, DecodeError> {
    Ok(WaitId {
        worker: reader.u16()?,
        connection: reader.u64()?,
        sequence: reader.u64()?,
    })
}

/// What stands before a command's frame, but for its length: where the words lie.
fn read_framed_head(reader: &mut Reader<'_>, spans: &mut Vec<Span>) -> Result<(Db, Protocol), DecodeError> {
    let (db, protocol) = (read_db(reader)?, read_protocol(reader)?);
    for _ in 0..reader.count(4 + 4)? {
        let (start, len) = (reader.u32()?, reader.u32()?);
        spans.push(Span { start, len });
    }
    Ok((db, protocol))
}

fn read_framed<'a>(reader: &mut Reader<'a>, spans: &mut Vec<Span>) -> Result<CommandView<'a>, DecodeError> {
    let first = spans.len();
    let (db, protocol) = read_framed_head(reader, spans)?;
    let outside = reader.error("a frame in which all words lie");
    let bytes = reader.bytes()?;
    let is_inside = |span: &Span| u64::from(span.start) + u64::from(span.len) <= bytes.len() as u64;
    if !spans[first..].iter().all(is_inside) {
        return Err(outside);
    }
    Ok(CommandView {
        db,
        protocol,
        bytes,
        words: first..spans.len(),
    })
}

fn read_short_command<'a>(
    reader: &mut Reader<'a>,
    spans: &mut Vec<Span>,
) -> Result<CommandView<'a>, DecodeError> {
    let (db, protocol) = (read_db(reader)?, read_protocol(reader)?);
    let count = reader.varint()?;
    let bytes = reader.rest();
    let first = spans.len();
    spans.reserve(usize::try_from(count).map_or(RESERVED_WORDS_MAX, |count| count.min(RESERVED_WORDS_MAX)));
    for _ in 0..count {
        let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        let start = bytes.len() - reader.rest().len();
        reader.take(len)?;
        spans.push(Span {
            start: start as u32,
            len: len as u32,
        });
    }
    Ok(CommandView {
        db,
        protocol,
        bytes,
        words: first..spans.len(),
    })
}

fn read_command<'a>(reader: &mut Reader<'a>, spans: &mut Vec<Span>) -> Result<CommandView<'a>, DecodeError> {
    let (db, protocol) = (read_db(reader)?, read_protocol(reader)?);
    let count = reader.u32()? as usize;
    let bytes = reader.rest();
    let first = spans.len();
    spans.reserve(count.min(RESERVED_WORDS_MAX));
    for _ in 0..count {
        let text = reader.bytes()?;
        let end = bytes.len() - reader.rest().len();
        spans.push(Span {
            start: (end - text.len()) as u32,
            len: text.len() as u32,
        });
    }
    Ok(CommandView {
        db,
        protocol,
        bytes,
        words: first..spans.len(),
    })
}

fn read_conditions<'a>(reader: &mut Reader<'a>) -> Result<Vec<ConditionView<'a>>, DecodeError> {
    reader.list(2 + COUNT_BYTES, read_condition)
}

fn read_commands<'a>(
    reader: &mut Reader<'a>,
    spans: &mut Vec<Span>,
) -> Result<Vec<CommandView<'a>>, DecodeError> {
    let count = reader.count(2 + COUNT_BYTES)?;
    let mut commands = Vec::with_capacity(count.min(RESERVED_COMMANDS_MAX));
    for _ in 0..count {
        commands.push(read_command(reader, spans)?);
    }
    Ok(commands)
}

fn read_effects<'a>(reader: &mut Reader<'a>) -> Result<Vec<EffectView<'a>>, DecodeError> {
    reader.list(2 + COUNT_BYTES, read_effect)
}

fn read_condition<'a>(reader: &mut Reader<'a>) -> Result<ConditionView<'a>, DecodeError> {
    let db = read_db(reader)?;
    let unknown = reader.error("a condition");
    let tag = reader.u8()?;
    let key = reader.bytes()?;
    if tag == 0 {
        return Ok(ConditionView::Absent { db, key });
    }
    let version = Version(reader.u64()?);
    let version = match tag {
        1 => KeyVersion::Present(version),
        2 => KeyVersion::Absent(version),
        _ => return Err(unknown),
    };
    Ok(ConditionView::Unchanged { db, key, version })
}

/// The form of the value of an effect and how long it is, if it is a large one: it follows. Another effect is passed over.
fn read_large_value(reader: &mut Reader<'_>, whole_bytes: usize) -> Result<Option<(u8, usize)>, DecodeError> {
    let db = read_db(reader)?;
    match reader.u8()? {
        0 => reader.bytes().map(|_| None),
        1 => {
            let form = Head::read(reader)?.form;
            if form > object_codec::LAST_FLAT {
                return Ok(Some((form, reader.u32()? as usize)));
            }
            let length = reader.clone().u32()? as usize;
            if form == 0 && length >= KEPT_BYTES_MIN && !crate::string::is_most_of(length, whole_bytes) {
                return Ok(Some((form, reader.u32()? as usize)));
            }
            reader.bytes().map(|_| None)
        }
        _ => Event::read(db, reader).map(|_| None),
    }
}

fn read_effect<'a>(reader: &mut Reader<'a>) -> Result<EffectView<'a>, DecodeError> {
    let db = read_db(reader)?;
    match reader.u8()? {
        0 => Ok(EffectView::Delete(db, reader.bytes()?)),
        1 => {
            let head = Head::read(reader)?;
            let malformed = reader.error("a value of its form");
            let value = reader.bytes()?;
            if !object_codec::check(head.form, value) {
                return Err(malformed);
            }
            Ok(EffectView::Put(db, PutView { head, value }))
        }
        2 => Event::read(db, reader).map(EffectView::Tell),
        _ => Err(reader.unknown("an effect")),
    }
}
