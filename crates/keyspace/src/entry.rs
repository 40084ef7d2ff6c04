//! Entries: what a group's log holds.
//!
//! ```text
//!  entry      semantics u16 | now i64 | seed u64 | batch*
//!  batch      boot u64 | worker u16 | number u64 | acknowledged u64 | length u32 | operation*
//!  operation  tag u8 | fields
//!    1 command  db u8 | protocol u8 | count u32 | (length u32 | bytes)*
//!    2 expire   db u8 | key
//!    3 evict    db u8 | key
//!    4 install  effects
//!    5 limits   eight u32
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
//!  effects     count u32 | (db u8 | tag u8: 0 delete, 1 put, 2 tell | key, the object, or the event)*
//!  conditions  count u32 | condition*
//!  commands    count u32 | (db u8 | protocol u8 | count u32 | (length u32 | bytes)*)*
//!  condition   db u8 | tag u8: 0 absent, 1 present at, 2 absent since | key | [version u64, unless 0]
//!  name        worker u16 | connection u64 | sequence u64
//!  request     UUID, 16 bytes | digest u64 | protocol u8
//!  key         length u32 | bytes
//!  object      key, deadline and value; see `form.rs`
//! ```
//!
//! Little-endian. [`Entry::decode`] checks the whole structure once, so that reading it later cannot fail; it
//! is total on any bytes.

mod transaction;

pub use transaction::{Forget, Lock, Pairs, Prepare, QueryTxn, Resolve, Step, Work};
pub(crate) use transaction::{write_participant, write_txn};

use crate::database::KeyVersion;
use crate::effects::Effect;
use crate::events::Event;
use crate::form::{self, Head, Rest};
use crate::large::Large;
use crate::limits::Limits;
use crate::object::Object;
use crate::requests::ClientRequest;
use crate::sessions::Fence;
use crate::staging::Piece;
use crate::transactions::Origin;
use bytes::Bytes;
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

/// With which [`Operation::Lock`] begins.
pub(crate) const LOCK_TAG: u8 = 9;

const FRAMED_TAG: u8 = 19;

/// What is as long as this is not copied as a whole on its way: frames of commands go in pieces as they are, and strings stay in
/// what brought them. Shorter ones hold nobody up.
pub const KEPT_BYTES_MIN: usize = 1024 * 1024;

fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

/// How long a head is.
const HEADER_BYTES: usize = 2 + 8 + 8;

/// How long what stands before a batch's operations is.
const BATCH_HEAD_BYTES: usize = 8 + 2 + 8 + 8 + 4;

/// One thing an entry asks of the keyspace.
pub enum Operation<'a> {
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
        limits: Limits,
    },
    /// Boots have died.
    Fence {
        /// Which of them live.
        fence: Fence,
    },
    /// A client's commands as one: `EXEC`.
    Block {
        /// What must hold, or nothing is carried out.
        conditions: Vec<Condition<'a>>,
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
pub enum Condition<'a> {
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

impl<'a> Condition<'a> {
    /// Its database.
    pub fn db(&self) -> Db {
        match self {
            Condition::Unchanged { db, .. } | Condition::Absent { db, .. } => *db,
        }
    }

    /// The key it is about.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Condition::Unchanged { key, .. } | Condition::Absent { key, .. } => key,
        }
    }
}

/// Operations in the format of entries, on their way into a batch: what a gateway gathers, keeps until it is answered, and
/// sends again.
#[derive(Clone, Default, Debug)]
pub struct Operations {
    bytes: Vec<u8>,
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
}

impl EntryBuf {
    /// An entry without batches.
    pub fn new(header: &Header) -> EntryBuf {
        EntryBuf::with_room(header, 0, 0)
    }

    /// The same, with room for so many batches with so many bytes of operations in all.
    pub fn with_room(header: &Header, batches: usize, operation_bytes: usize) -> EntryBuf {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + batches * BATCH_HEAD_BYTES + operation_bytes);
        bytes.extend_from_slice(&header.semantics.0.to_le_bytes());
        bytes.extend_from_slice(&header.now.0.to_le_bytes());
        bytes.extend_from_slice(&header.seed.to_le_bytes());
        EntryBuf {
            operations: Operations {
                bytes,
                ..Operations::default()
            },
            batch_length_at: None,
        }
    }

    /// Begins the batch of this number of `gateway`, which has the answers of all batches up to `acknowledged`; operations
    /// pushed from now on belong to it.
    pub fn begin_batch(&mut self, gateway: GatewayId, number: u64, acknowledged: u64) {
        self.close_batch();
        let bytes = &mut self.operations.bytes;
        bytes.extend_from_slice(&gateway.boot.0.to_le_bytes());
        bytes.extend_from_slice(&gateway.worker.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&acknowledged.to_le_bytes());
        self.batch_length_at = Some(bytes.len());
        self.operations.length(0);
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
            let bytes = &mut self.operations.bytes;
            let length = u32::try_from(bytes.len() - at - 4).expect("a batch stays below 4 GiB");
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Adds an operation to the open batch.
    ///
    /// # Panics
    /// If no batch was begun.
    pub fn push(&mut self, operation: &Operation<'_>) {
        assert!(self.batch_length_at.is_some(), "an operation belongs to a batch");
        self.operations.push(operation);
        self.operations.join();
    }

    /// Adds operations that were encoded elsewhere ([`Operations`]) to the open batch. Bytes that may come from anywhere are
    /// looked at first, with [`Operations::check`]; else the entry may be none.
    ///
    /// # Panics
    /// If no batch was begun.
    pub fn append(&mut self, operations: &[u8]) {
        assert!(self.batch_length_at.is_some(), "an operation belongs to a batch");
        self.operations.bytes.extend_from_slice(operations);
    }

    /// How many bytes there are by now.
    pub fn len(&self) -> usize {
        self.operations.bytes.len()
    }

    /// Whether no batch was begun.
    pub fn is_empty(&self) -> bool {
        self.len() == HEADER_BYTES
    }

    /// The entry's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.close_batch();
        self.operations.bytes
    }
}

impl Operations {
    /// Where what was pushed by now ends.
    pub fn mark(&self) -> OperationsMark {
        OperationsMark {
            bytes: self.bytes.len(),
            count: self.count,
        }
    }

    /// Makes room for so many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// Takes back what was pushed since a mark.
    pub fn cut(&mut self, mark: OperationsMark) {
        self.runs.truncate(self.runs.len() - self.runs_since(mark).len());
        self.bytes.truncate(mark.bytes);
        self.bytes.shrink_to(mark.bytes);
        self.count = mark.count;
    }

    /// The bytes of what was pushed since a mark.
    pub fn bytes_since(&self, mark: OperationsMark) -> usize {
        let runs = self.runs_since(mark).iter().map(|(_, run)| run.len());
        self.bytes.len() - mark.bytes + runs.sum::<usize>()
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
        FrozenRope::new(self.bytes.split_off(mark.bytes).into(), runs)
    }

    /// Copies what is long to its place among the others' bytes.
    fn join(&mut self) {
        if !self.runs.is_empty() {
            let count = self.count;
            self.bytes = self.split_off(OperationsMark::default()).to_bytes().into();
            self.count = count;
        }
    }

    /// None.
    pub fn new() -> Operations {
        Operations::default()
    }

    /// Bytes that a command takes at most.
    pub(crate) fn room_of(args: Args<'_>) -> usize {
        const HEAD: usize = 9;
        const LENGTH: usize = 4;
        HEAD + args.len() * LENGTH + args.byte_len()
    }

    /// Adds one.
    pub fn push(&mut self, operation: &Operation<'_>) {
        self.count += 1;
        match operation {
            Operation::Command { db, protocol, args } => {
                self.bytes.push(1);
                self.command(*db, *protocol, *args);
            }
            Operation::Expire { db, key } => {
                self.bytes.extend_from_slice(&[2, db.number()]);
                self.text(key);
            }
            Operation::Evict { db, key } => {
                self.bytes.extend_from_slice(&[3, db.number()]);
                self.text(key);
            }
            Operation::Install { effects } => {
                self.bytes.push(4);
                self.effects(effects);
            }
            Operation::Limits { limits } => {
                self.bytes.push(5);
                for number in limits.numbers() {
                    self.bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            Operation::Fence { fence } => {
                self.bytes.push(6);
                fence.encode(&mut self.bytes);
            }
            Operation::Block { conditions, commands } => {
                self.bytes.push(7);
                self.conditions(conditions);
                self.commands(commands);
            }
            Operation::Once { request, commands } => {
                self.bytes.push(15);
                request.encode(&mut self.bytes);
                self.commands(commands);
            }
            Operation::Prepare(prepare) => {
                self.bytes.push(PREPARE_TAG);
                self.prepare(prepare);
            }
            Operation::Lock(lock) => {
                self.bytes.push(LOCK_TAG);
                self.lock(lock);
            }
            Operation::Resolve(resolve) => {
                self.bytes.push(10);
                self.resolve(resolve);
            }
            Operation::QueryTxn(query_txn) => {
                self.bytes.push(11);
                self.txn(query_txn.txn);
                self.participants(&query_txn.participants);
            }
            Operation::Withdraw { txn } => {
                self.bytes.push(12);
                self.txn(*txn);
            }
            Operation::Forget(forget) => {
                self.bytes.push(13);
                self.forget(forget);
            }
            Operation::Received { answers } => {
                self.bytes.push(14);
                self.places(answers);
            }
            Operation::Resume(resume) => {
                self.bytes.push(22);
                self.bytes.extend_from_slice(&resume.up_to.to_le_bytes());
                self.length(resume.batches.len());
                for number in &resume.batches {
                    self.bytes.extend_from_slice(&number.to_le_bytes());
                }
                self.places(&resume.answers);
            }
            Operation::Wait { id, command } => {
                self.bytes.push(16);
                self.wait_id(*id);
                self.command(command.db, command.protocol, command.args);
            }
            Operation::EndWait { id } => {
                self.bytes.push(17);
                self.wait_id(*id);
            }
            Operation::EndWaits { boot } => {
                self.bytes.push(18);
                self.bytes.extend_from_slice(&boot.0.to_le_bytes());
            }
            Operation::Stage(piece) => {
                self.bytes.push(20);
                for number in [piece.number, piece.whole_bytes, piece.offset] {
                    self.bytes.extend_from_slice(&number.to_le_bytes());
                }
                self.text(piece.bytes);
            }
            Operation::Staged { number } => {
                self.bytes.push(21);
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    fn places(&mut self, places: &[(u64, u32)]) {
        self.length(places.len());
        for (number, index) in places {
            self.bytes.extend_from_slice(&number.to_le_bytes());
            self.bytes.extend_from_slice(&index.to_le_bytes());
        }
    }

    /// Adds a command as the frame that its words lie in, which is not copied. `false`, and nothing is added, if a word does not
    /// lie in it.
    pub fn push_framed(&mut self, db: Db, protocol: Protocol, args: Args<'_>, frame: &Bytes) -> bool {
        let Some(spans) = args.spans_in(frame) else {
            return false;
        };
        self.count += 1;
        self.bytes
            .extend_from_slice(&[FRAMED_TAG, db.number(), protocol_number(protocol)]);
        self.length(spans.len());
        for Span { start, len } in spans {
            self.bytes.extend_from_slice(&start.to_le_bytes());
            self.bytes.extend_from_slice(&len.to_le_bytes());
        }
        self.length(frame.len());
        self.runs.push((self.bytes.len(), frame.clone()));
        true
    }

    fn wait_id(&mut self, id: WaitId) {
        self.bytes.extend_from_slice(&id.worker.to_le_bytes());
        self.bytes.extend_from_slice(&id.connection.to_le_bytes());
        self.bytes.extend_from_slice(&id.sequence.to_le_bytes());
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
        &self.bytes
    }

    /// How many bytes they are.
    pub fn byte_len(&self) -> usize {
        self.bytes_since(OperationsMark::default())
    }

    /// In the format of entries.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.join();
        self.bytes
    }

    /// How many operations `bytes` are, from end to end: bytes that came from elsewhere.
    ///
    /// # Errors
    /// They are none.
    pub fn check(bytes: &[u8]) -> Result<usize, EntryError> {
        let mut cursor = Cursor(bytes);
        let mut spans = Vec::new();
        let mut count = 0;
        while !cursor.is_empty() {
            cursor.operation(&mut spans)?;
            spans.clear();
            count += 1;
        }
        Ok(count)
    }

    /// Calls `found` with every operation of `bytes`; `None` if they are none.
    pub fn read(bytes: &[u8], mut found: impl FnMut(Operation<'_>)) -> Option<()> {
        let mut cursor = Cursor(bytes);
        while !cursor.is_empty() {
            let mut spans = Vec::new();
            let part = cursor.operation(&mut spans).ok()?;
            found(part.operation(&spans, None));
        }
        Some(())
    }

    /// What `read` makes of the one operation that `bytes` are; `None` if they are none.
    pub fn read_one<R>(bytes: &[u8], read: impl FnOnce(Operation<'_>) -> R) -> Option<R> {
        let mut spans = Vec::new();
        let part = Cursor(bytes).operation(&mut spans).ok()?;
        Some(read(part.operation(&spans, None)))
    }

    /// The same of an operation that came in pieces.
    pub(crate) fn read_kept<R>(source: &Source<'_>, read: impl FnOnce(Operation<'_>) -> R) -> Option<R> {
        let (mut cursor, mut spans) = (Cursor(source.bytes), Vec::new());
        let part = cursor.operation(&mut spans).ok()?;
        cursor
            .is_empty()
            .then(|| read(part.operation(&spans, Some(source))))
    }

    /// Where the effects of the one operation begin that `bytes` are the beginning of, and how many there are; `None` if it has
    /// none, or this is not to be seen yet.
    pub(crate) fn effects_of(bytes: &[u8]) -> Option<(usize, usize)> {
        let mut cursor = Cursor(bytes);
        let count = cursor.effects_of_prepare().ok()??;
        Some((bytes.len() - cursor.0.len(), count))
    }

    /// What stands before the value of the effect that `bytes` begin with, if it is a large one's, and how long that is. Then how
    /// long both are, of another effect all of it; `None` if this is not to be seen yet.
    pub(crate) fn large_value_of(bytes: &[u8]) -> Option<(Option<(u8, usize)>, usize)> {
        let mut cursor = Cursor(bytes);
        let large = cursor.large_value().ok()?;
        let behind = match large {
            Some((_, length)) => length,
            None => 0,
        };
        Some((large, bytes.len() - cursor.0.len() + behind))
    }

    /// What `look` makes of the words of the command that is operation number `index` of `bytes`; `None` if it is none.
    pub fn words<R>(bytes: &[u8], index: usize, look: impl FnOnce(Args<'_>) -> R) -> Option<R> {
        let mut cursor = Cursor(bytes);
        let mut spans = Vec::new();
        for _ in 0..index {
            cursor.operation(&mut spans).ok()?;
        }
        match cursor.operation(&mut spans).ok()? {
            Part::Command(command) | Part::Wait { command, .. } => Some(look(command.command(&spans).args)),
            _ => None,
        }
    }

    /// The same of the one command that was taken out of others ([`Operations::split_off`]).
    pub fn words_of_long<R>(operation: &FrozenRope, look: impl FnOnce(Args<'_>) -> R) -> Option<R> {
        let Some((_, frame)) = operation.runs().first() else {
            return Operations::words(operation.bytes(), 0, look);
        };
        let (mut cursor, mut spans) = (Cursor(operation.bytes()), Vec::new());
        if cursor.byte().ok()? != FRAMED_TAG {
            return None;
        }
        cursor.framed_head(&mut spans).ok()?;
        Some(look(Args::new(frame, &spans)))
    }

    fn command(&mut self, db: Db, protocol: Protocol, args: Args<'_>) {
        // At once, and not word by word.
        self.bytes.reserve(Operations::room_of(args));
        self.bytes
            .extend_from_slice(&[db.number(), protocol_number(protocol)]);
        self.length(args.len());
        args.iter().for_each(|arg| self.text(arg));
    }

    fn conditions(&mut self, conditions: &[Condition<'_>]) {
        self.length(conditions.len());
        conditions.iter().for_each(|condition| self.condition(condition));
    }

    fn commands(&mut self, commands: &[BlockCommand<'_>]) {
        self.length(commands.len());
        for command in commands {
            self.command(command.db, command.protocol, command.args);
        }
    }

    fn effects(&mut self, effects: &[Effect]) {
        self.length(effects.len());
        effects.iter().for_each(|effect| self.effect(effect));
    }

    fn condition(&mut self, condition: &Condition<'_>) {
        let (db, key, tag, version) = match *condition {
            Condition::Absent { db, key } => (db, key, 0, None),
            Condition::Unchanged { db, key, version } => match version {
                KeyVersion::Present(version) => (db, key, 1, Some(version)),
                KeyVersion::Absent(version) => (db, key, 2, Some(version)),
            },
        };
        self.bytes.extend_from_slice(&[db.number(), tag]);
        self.text(key);
        if let Some(version) = version {
            self.bytes.extend_from_slice(&version.0.to_le_bytes());
        }
    }

    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Delete { db, key } => {
                self.bytes.extend_from_slice(&[db.number(), 0]);
                self.text(key);
            }
            Effect::PutEncoded { db, object } => {
                self.bytes.extend_from_slice(&[db.number(), 1]);
                self.bytes.extend_from_slice(object.head_bytes());
                let value = object.value_bytes();
                self.length(value.len());
                if value.len() >= KEPT_BYTES_MIN {
                    self.runs.push((self.bytes.len(), value.clone()));
                } else {
                    self.bytes.extend_from_slice(value);
                }
            }
            Effect::Put { db, object } => {
                self.bytes.extend_from_slice(&[db.number(), 1]);
                match object.kept_string() {
                    Some(kept) => {
                        form::write_head(&mut self.bytes, object);
                        self.length(kept.len());
                        self.runs.push((self.bytes.len(), kept.clone()));
                    }
                    None => form::write_object(&mut self.bytes, object),
                }
            }
            Effect::Tell(event) => {
                self.bytes.extend_from_slice(&[event.db.number(), 2]);
                event.write(&mut self.bytes);
            }
        }
    }

    fn length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("frames are below 4 GiB, so their parts are");
        self.bytes.extend_from_slice(&length.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }
}

/// A checked entry over borrowed bytes.
pub struct Entry<'a> {
    header: Header,
    batches: Vec<Batch<'a>>,
}

/// The operations that one gateway sent together.
pub struct Batch<'a> {
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
    Limits(Limits),
    Fence(Fence),
    Block {
        conditions: Vec<Condition<'a>>,
        commands: Vec<CommandView<'a>>,
    },
    Once {
        request: ClientRequest,
        commands: Vec<CommandView<'a>>,
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

/// Why bytes are not an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryError {
    /// They end too soon.
    Short,
    /// A tag, database or protocol that does not exist, or a value that is none.
    Unknown,
}

impl std::fmt::Display for EntryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EntryError::Short => "the entry ends too soon",
            EntryError::Unknown => "the entry holds an unknown tag",
        })
    }
}

impl std::error::Error for EntryError {}

/// Operations of a batch that room is made for at once, by what the first one takes.
const RESERVED_MAX: usize = 1_024;

/// Words that each of these is thought to have at most.
const RESERVED_WORDS_MAX: usize = 8;

/// Commands of a block that room is made for at once.
const RESERVED_COMMANDS_MAX: usize = 16;

impl<'a> Entry<'a> {
    /// Checks `bytes` from end to end.
    pub fn decode(bytes: &'a [u8]) -> Result<Entry<'a>, EntryError> {
        let mut cursor = Cursor(bytes);
        let semantics = SemanticsVersion(u16::from_le_bytes(cursor.array()?));
        let now = UnixMillis(i64::from_le_bytes(cursor.array()?));
        let seed = u64::from_le_bytes(cursor.array()?);
        let mut batches = Vec::new();
        while !cursor.is_empty() {
            let boot = Boot(u64::from_le_bytes(cursor.array()?));
            let worker = u16::from_le_bytes(cursor.array()?);
            let number = u64::from_le_bytes(cursor.array()?);
            let acknowledged = u64::from_le_bytes(cursor.array()?);
            let mut body = Cursor(cursor.text()?);
            let (mut operations, mut spans) = (Vec::new(), Vec::new());
            while !body.is_empty() {
                let before = body.0.len();
                operations.push(body.operation(&mut spans)?);
                if operations.len() == 1 {
                    // Those behind the first are mostly as long as it is.
                    let like_it = (body.0.len() / (before - body.0.len()).max(1)).min(RESERVED_MAX);
                    operations.reserve_exact(like_it);
                    spans.reserve_exact(like_it * spans.len().min(RESERVED_WORDS_MAX));
                }
            }
            batches.push(Batch {
                gateway: GatewayId { boot, worker },
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
    pub fn batches(&self) -> &[Batch<'a>] {
        &self.batches
    }
}

impl Batch<'_> {
    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The first word behind the name, mostly a key, of each command from operation `first` on.
    pub(crate) fn keys_from(&self, first: usize) -> impl Iterator<Item = (Db, &[u8])> + Clone {
        self.operations[first..].iter().filter_map(|part| match part {
            Part::Command(command) => Some((command.db, command.command(&self.spans).args.get(1)?)),
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
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        let operations = self.operations.iter();
        operations.map(|part| part.operation(&self.spans, None))
    }
}

impl Part<'_> {
    fn operation<'s>(&'s self, spans: &'s [Span], source: Option<&Source<'_>>) -> Operation<'s> {
        match self {
            Part::Command(command) => {
                let BlockCommand { db, protocol, args } = command.command(spans);
                Operation::Command { db, protocol, args }
            }
            Part::Expire { db, key } => Operation::Expire { db: *db, key },
            Part::Evict { db, key } => Operation::Evict { db: *db, key },
            Part::Install { effects } => Operation::Install {
                effects: effects.iter().map(|effect| effect.effect(source)).collect(),
            },
            Part::Limits(limits) => Operation::Limits { limits: *limits },
            Part::Fence(fence) => Operation::Fence { fence: fence.clone() },
            Part::Block { conditions, commands } => Operation::Block {
                conditions: conditions.clone(),
                commands: commands.iter().map(|command| command.command(spans)).collect(),
            },
            Part::Once { request, commands } => Operation::Once {
                request: *request,
                commands: commands.iter().map(|command| command.command(spans)).collect(),
            },
            Part::Prepare(prepare) => Operation::Prepare(Box::new(prepare.prepare(spans, source))),
            Part::Lock(lock) => Operation::Lock(lock.clone()),
            Part::Resolve(resolve) => Operation::Resolve(resolve.clone()),
            Part::QueryTxn(query_txn) => Operation::QueryTxn(query_txn.clone()),
            Part::Withdraw { txn } => Operation::Withdraw { txn: *txn },
            Part::Forget(forget) => Operation::Forget(forget.clone()),
            Part::Received(answers) => Operation::Received {
                answers: answers.clone(),
            },
            Part::Resume(resume) => Operation::Resume(resume.clone()),
            Part::Wait { id, command } => Operation::Wait {
                id: *id,
                command: command.command(spans),
            },
            Part::EndWait { id } => Operation::EndWait { id: *id },
            Part::EndWaits { boot } => Operation::EndWaits { boot: *boot },
            Part::Stage(piece) => Operation::Stage(*piece),
            Part::Staged { number } => Operation::Staged { number: *number },
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
                    Some(large) => Object::large(put.head.key, large, put.head.deadline, Version(0)),
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
    pub(crate) built: RefCell<BTreeMap<usize, Large>>,
}

impl Source<'_> {
    fn built(&self, value: &[u8]) -> Option<Large> {
        let at = value.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        self.built.borrow_mut().remove(&at)
    }
}

/// What is not read yet.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], EntryError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(EntryError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EntryError> {
        Ok(self
            .take(N)?
            .try_into()
            .expect("take returns as many bytes as asked for"))
    }

    /// What something reads that also stands elsewhere.
    fn read<T>(&mut self, read: impl FnOnce(&mut Rest<'a>) -> Option<T>) -> Result<T, EntryError> {
        let mut rest = Rest(self.0);
        let found = read(&mut rest).ok_or(EntryError::Unknown)?;
        self.0 = rest.0;
        Ok(found)
    }

    fn byte(&mut self) -> Result<u8, EntryError> {
        Ok(self.array::<1>()?[0])
    }

    fn length(&mut self) -> Result<usize, EntryError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn text(&mut self) -> Result<&'a [u8], EntryError> {
        let length = self.length()?;
        self.take(length)
    }

    fn db(&mut self) -> Result<Db, EntryError> {
        Db::new(self.byte()?).ok_or(EntryError::Unknown)
    }

    fn operation(&mut self, spans: &mut Vec<Span>) -> Result<Part<'a>, EntryError> {
        match self.byte()? {
            1 => Ok(Part::Command(self.command(spans)?)),
            2 => Ok(Part::Expire {
                db: self.db()?,
                key: self.text()?,
            }),
            3 => Ok(Part::Evict {
                db: self.db()?,
                key: self.text()?,
            }),
            4 => Ok(Part::Install {
                effects: self.effects()?,
            }),
            5 => {
                let mut numbers = [0; 9];
                for number in &mut numbers {
                    *number = u32::from_le_bytes(self.array()?);
                }
                Ok(Part::Limits(Limits::from_numbers(numbers)))
            }
            6 => Ok(Part::Fence(self.read(Fence::decode)?)),
            7 => Ok(Part::Block {
                conditions: self.conditions()?,
                commands: self.commands(spans)?,
            }),
            PREPARE_TAG => Ok(Part::Prepare(Box::new(self.prepare(spans)?))),
            LOCK_TAG => Ok(Part::Lock(Box::new(self.lock()?))),
            10 => Ok(Part::Resolve(self.resolve()?)),
            11 => Ok(Part::QueryTxn(QueryTxn {
                txn: self.txn()?,
                participants: self.participants()?,
            })),
            12 => Ok(Part::Withdraw { txn: self.txn()? }),
            13 => Ok(Part::Forget(self.forget()?)),
            14 => Ok(Part::Received(self.places()?)),
            22 => {
                let up_to = u64::from_le_bytes(self.array()?);
                let mut batches = Vec::new();
                for _ in 0..self.length()? {
                    batches.push(u64::from_le_bytes(self.array()?));
                }
                let mut answers = self.places()?;
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
                request: self.read(ClientRequest::decode)?,
                commands: self.commands(spans)?,
            }),
            16 => Ok(Part::Wait {
                id: self.wait_id()?,
                command: self.command(spans)?,
            }),
            17 => Ok(Part::EndWait { id: self.wait_id()? }),
            18 => Ok(Part::EndWaits {
                boot: Boot(u64::from_le_bytes(self.array()?)),
            }),
            FRAMED_TAG => Ok(Part::Command(self.framed(spans)?)),
            20 => Ok(Part::Stage(Piece {
                number: u64::from_le_bytes(self.array()?),
                whole_bytes: u64::from_le_bytes(self.array()?),
                offset: u64::from_le_bytes(self.array()?),
                bytes: self.text()?,
            })),
            21 => Ok(Part::Staged {
                number: u64::from_le_bytes(self.array()?),
            }),
            _ => Err(EntryError::Unknown),
        }
    }

    fn places(&mut self) -> Result<Vec<(u64, u32)>, EntryError> {
        let mut places = Vec::new();
        for _ in 0..self.length()? {
            let number = u64::from_le_bytes(self.array()?);
            places.push((number, u32::from_le_bytes(self.array()?)));
        }
        Ok(places)
    }

    fn wait_id(&mut self) -> Result<WaitId, EntryError> {
        Ok(WaitId {
            worker: u16::from_le_bytes(self.array()?),
            connection: u64::from_le_bytes(self.array()?),
            sequence: u64::from_le_bytes(self.array()?),
        })
    }

    fn protocol(&mut self) -> Result<Protocol, EntryError> {
        match self.byte()? {
            2 => Ok(Protocol::Resp2),
            3 => Ok(Protocol::Resp3),
            _ => Err(EntryError::Unknown),
        }
    }

    /// What stands before a command's frame, but for its length: where the words lie.
    fn framed_head(&mut self, spans: &mut Vec<Span>) -> Result<(Db, Protocol), EntryError> {
        let (db, protocol) = (self.db()?, self.protocol()?);
        for _ in 0..self.length()? {
            let start = u32::from_le_bytes(self.array()?);
            let len = u32::from_le_bytes(self.array()?);
            spans.push(Span { start, len });
        }
        Ok((db, protocol))
    }

    fn framed(&mut self, spans: &mut Vec<Span>) -> Result<CommandView<'a>, EntryError> {
        let first = spans.len();
        let (db, protocol) = self.framed_head(spans)?;
        let bytes = self.text()?;
        let is_inside = |span: &Span| u64::from(span.start) + u64::from(span.len) <= bytes.len() as u64;
        if !spans[first..].iter().all(is_inside) {
            return Err(EntryError::Short);
        }
        Ok(CommandView {
            db,
            protocol,
            bytes,
            words: first..spans.len(),
        })
    }

    fn command(&mut self, spans: &mut Vec<Span>) -> Result<CommandView<'a>, EntryError> {
        let (db, protocol) = (self.db()?, self.protocol()?);
        let count = self.length()?;
        let bytes = self.0;
        let first = spans.len();
        spans.reserve(count.min(RESERVED_WORDS_MAX));
        for _ in 0..count {
            let text = self.text()?;
            let end = bytes.len() - self.0.len();
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

    fn conditions(&mut self) -> Result<Vec<Condition<'a>>, EntryError> {
        let mut conditions = Vec::new();
        for _ in 0..self.length()? {
            conditions.push(self.condition()?);
        }
        Ok(conditions)
    }

    fn commands(&mut self, spans: &mut Vec<Span>) -> Result<Vec<CommandView<'a>>, EntryError> {
        let count = self.length()?;
        let mut commands = Vec::with_capacity(count.min(RESERVED_COMMANDS_MAX));
        for _ in 0..count {
            commands.push(self.command(spans)?);
        }
        Ok(commands)
    }

    fn effects(&mut self) -> Result<Vec<EffectView<'a>>, EntryError> {
        (0..self.length()?).map(|_| self.effect()).collect()
    }

    fn condition(&mut self) -> Result<Condition<'a>, EntryError> {
        let db = self.db()?;
        let tag = self.byte()?;
        let key = self.text()?;
        if tag == 0 {
            return Ok(Condition::Absent { db, key });
        }
        let version = Version(u64::from_le_bytes(self.array()?));
        let version = match tag {
            1 => KeyVersion::Present(version),
            2 => KeyVersion::Absent(version),
            _ => return Err(EntryError::Unknown),
        };
        Ok(Condition::Unchanged { db, key, version })
    }

    /// The form of the value of an effect and how long it is, if it is a large one: it follows. Another effect is passed over.
    fn large_value(&mut self) -> Result<Option<(u8, usize)>, EntryError> {
        let db = self.db()?;
        match self.byte()? {
            0 => self.text().map(|_| None),
            1 => {
                let form = self.read(Head::read)?.form;
                if form > form::LAST_FLAT {
                    return Ok(Some((form, self.length()?)));
                }
                self.text().map(|_| None)
            }
            _ => self.read(|rest| Event::read(db, rest)).map(|_| None),
        }
    }

    fn effect(&mut self) -> Result<EffectView<'a>, EntryError> {
        let db = self.db()?;
        match self.byte()? {
            0 => Ok(EffectView::Delete(db, self.text()?)),
            1 => {
                let mut rest = Rest(self.0);
                let head = Head::read(&mut rest).ok_or(EntryError::Short)?;
                self.0 = rest.0;
                let value = self.text()?;
                if !form::check(head.form, value) {
                    return Err(EntryError::Unknown);
                }
                Ok(EffectView::Put(db, PutView { head, value }))
            }
            2 => self.read(|rest| Event::read(db, rest)).map(EffectView::Tell),
            _ => Err(EntryError::Unknown),
        }
    }
}
