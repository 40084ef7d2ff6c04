//! What a node sends to a group at the end of a turn, and what it is answered, as bytes.
//!
//! ```text
//!  reads       (position u32 | read)*            position: writes of the batch that come before it
//!  read        1 command   db u8 | protocol u8 | flags u8 | count u32 | (length u32 | bytes)*
//!              2 versions  count u32 | (db u8 | length u32 | bytes)*
//!              3 asked for boot u64 | worker u16 | number u64 | index u32
//!              4 snapshot  length u32 | a block, as entries hold it
//!              5 objects   count u32 | (db u8 | length u32 | bytes)*
//!              6 wound     boot u64 | worker u16 | seq u64 | attempt u32
//!              7 waiting   sequence u64 | index u32
//!              8 holder    boot u64 | worker u16 | seq u64 | attempt u32 | a snapshot or objects
//!  answers     answer*                           one for each item, in the order of the batch
//!  answer      1 reply     length u32 | bytes
//!              2 block     count u32 | (length u32 | bytes)*
//!              3 refused
//!              4 versions  count u32 | (1 present or 0 absent u8 | version u64)*
//!              5 deferred  it waits for a transaction, and is answered by itself
//!              6 seen      age in nanoseconds u64 | time in milliseconds i64 | carried out u8 | count u32 | (length u32 | bytes)*
//!              7 gone      nothing is known of what is asked for, or whoever reads under locks has lost them
//!              8 crowded out  it would have had to wait, and too many do
//!              9 too long  it is a read of more than can be told
//!              10 moved    its keys belong to other groups; length u32 | (partition u16 | group u16 | moves u32)*
//!  flags       1 it counts as use of its keys
//! ```
//!
//! Little-endian. The writes are operations as entries hold them, so that the leader copies them and nothing else.
//! Reading is total on any bytes: whatever a peer sends, there is an answer or an error.

use crate::operation::{Condition, Operation};
use crate::request::FullKey;
use bytes::Bytes;
use codec::{COUNT_BYTES, DecodeError, Reader, Writer as _};
use command::ReplyError;
use ids::{Db, GroupId, UnixMillis, Version};
use keyspace::fields::{
    protocol_number, read_db, read_origin, read_protocol, read_txn, write_origin, write_txn,
};
use keyspace::{BlockCommand, KeyVersion, Keyspace, Moved, Operations, OperationsMark, Origin};
use resp::{Args, ArgsBuf, FrozenRope, Protocol, ReplyWriter, Rope, Span};
use std::ops::Range;
use std::time::Duration;
use txn::{Locks, Mode, TxnId};

/// What one node sends to one group at once. It is kept until it is answered, sent, and put into an entry: all share its
/// bytes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Batch {
    /// How many times the group had begun anew, as the node knows: one of another generation is not looked at.
    pub generation: u64,
    /// Counts all batches of this node for this group; the answer carries it.
    pub sequence: u64,
    /// Counts those with writes, from 1 on; 0 for one of reads alone, and for one of decisions that nobody waits for: they may
    /// be sent and applied any number of times.
    pub number: u64,
    /// It holds reads alone, and none of them need see a write that is not answered: they wait for nothing that is in flight.
    pub is_free: bool,
    /// The number of the last batch with writes that was sent before and was not answered, 0 if there is none: its reads are
    /// not answered before that is applied.
    pub behind: u64,
    /// Up to here the node has every answer: what the group remembers of them can go.
    pub acknowledged: u64,
    /// The writes, as entries hold them: whatever they come from, [`Operations::check`] has looked at them.
    pub writes: Bytes,
    /// The reads.
    pub reads: Bytes,
}

impl Batch {
    /// Bytes of what it asks for.
    pub fn byte_len(&self) -> usize {
        self.writes.len() + self.reads.len()
    }
}

/// The words of a command, in the batch that it left in: they may be long, and are not copied.
#[derive(Clone, Debug)]
pub struct SentArgv {
    is_read: bool,
    /// Which of the batch's reads, or writes.
    place: usize,
    writes: Bytes,
    reads: Bytes,
    /// They are those of a command that went in pieces.
    long: Option<FrozenRope>,
}

impl SentArgv {
    /// Of the read, or write, of this number in a batch.
    pub(crate) fn new(batch: &Batch, is_read: bool, place: usize) -> SentArgv {
        SentArgv {
            is_read,
            place,
            writes: batch.writes.clone(),
            reads: batch.reads.clone(),
            long: None,
        }
    }

    /// Of a command that went in pieces.
    pub(crate) fn of_long(long: &FrozenRope) -> SentArgv {
        SentArgv {
            long: Some(long.clone()),
            ..SentArgv::new(&Batch::default(), false, 0)
        }
    }

    /// What `look` makes of them; `None` if it is no command that stands there.
    pub fn look<R>(&self, look: impl FnOnce(Args<'_>) -> R) -> Option<R> {
        if let Some(long) = &self.long {
            return Operations::argv_of_long(long, look);
        }
        if !self.is_read {
            return Operations::argv(&self.writes, self.place, look);
        }
        let reads = reads(&self.reads).ok()?;
        reads.get(self.place).map(|read| look(read.question.args()))
    }
}

impl SentArgv {
    /// The command, to be sent elsewhere; `None` if it is none that stands there.
    pub(crate) fn to_operation(&self) -> Option<Operation> {
        let owned = |command: BlockCommand<'_>| {
            let spec = command::resolve(command.args).ok()?;
            Some(Operation {
                spec,
                db: command.db,
                protocol: command.protocol,
                args: ArgsBuf::from_slices(command.args.iter()),
            })
        };
        if let Some(long) = &self.long {
            return Operations::command_of_long(long, owned)?;
        }
        if !self.is_read {
            return Operations::command_at(&self.writes, self.place, owned)?;
        }
        let reads = reads(&self.reads).ok()?;
        let question = &reads.get(self.place)?.question;
        let &Question::Command { db, protocol, .. } = question else {
            return None;
        };
        let args = question.args();
        owned(BlockCommand { db, protocol, args })
    }
}

/// What a batch will hold.
#[derive(Default)]
pub(crate) struct BatchBuf {
    pub(crate) writes: Operations,
    pub(crate) reads: Vec<u8>,
}

impl BatchBuf {
    /// Bytes of what it asks for by now.
    pub(crate) fn byte_len(&self) -> usize {
        self.writes.byte_len() + self.reads.len()
    }

    /// Takes out what was written since a mark, if it is as long as this.
    pub(crate) fn take_long(&mut self, mark: OperationsMark, bytes_min: usize) -> Option<FrozenRope> {
        (self.writes.bytes_since(mark) >= bytes_min).then(|| self.writes.split_off(mark))
    }

    /// The batch, to be numbered.
    pub(crate) fn finish(self) -> Batch {
        Batch {
            writes: self.writes.into_bytes().into(),
            reads: self.reads.into(),
            ..Batch::default()
        }
    }

    /// Adds a read, behind the writes that the batch holds so far.
    pub(crate) fn push_read(&mut self, db: Db, protocol: Protocol, touches: bool, args: Args<'_>) {
        let protocol = protocol_number(protocol);
        self.push_position();
        self.reads
            .raw(&[COMMAND, db.number(), protocol, u8::from(touches)]);
        self.reads.count(args.len());
        args.iter().for_each(|arg| self.reads.bytes(arg));
    }

    /// Adds a question for what an operation was answered later than its batch.
    pub(crate) fn push_deferred(&mut self, origin: Origin) {
        self.push_position();
        self.reads.u8(ASKED_FOR);
        write_origin(&mut self.reads, origin);
    }

    /// Adds a question for what a read waits that stood in another batch: the read itself is not asked again as long as it
    /// waits.
    pub(crate) fn push_waiting_read(&mut self, sequence: u64, index: u32) {
        self.push_position();
        self.reads.u8(WAITING_READ);
        self.reads.u64(sequence);
        self.reads.u32(index);
    }

    /// Adds commands that only read, and what must hold for them; of a `holder`, under its locks; of one who reads the whole keyspace, with
    /// the groups that host it, as far as he knows.
    pub(crate) fn push_snapshot_read(
        &mut self,
        holder: Option<TxnId>,
        hosting: Option<&[GroupId]>,
        conditions: &[Condition],
        operations: &[Operation],
    ) {
        self.push_position();
        self.push_holder(holder);
        match hosting {
            None => self.reads.u8(SNAPSHOT_READ),
            Some(hosting) => {
                self.reads.u8(SNAPSHOT_READ_OF_ALL);
                self.reads.count(hosting.len());
                hosting.iter().for_each(|group| self.reads.u16(group.number()));
            }
        }
        let mut block = Operations::new();
        block.push(&keyspace::EntryOperation::Block {
            conditions: conditions.iter().map(Condition::as_state).collect(),
            commands: operations.iter().map(Operation::as_state).collect(),
        });
        self.reads.bytes(block.bytes());
    }

    /// Adds a question for the objects of keys; of a `holder`, under its locks.
    pub(crate) fn push_optimistic_read(&mut self, holder: Option<TxnId>, keys: &[FullKey]) {
        self.push_position();
        self.push_holder(holder);
        self.push_keys(OPTIMISTIC_READ, keys.iter().map(|(db, key)| (*db, &**key)));
    }

    fn push_holder(&mut self, holder: Option<TxnId>) {
        if let Some(txn) = holder {
            self.reads.u8(HOLDER);
            write_txn(&mut self.reads, txn);
        }
    }

    /// Adds the hint that an older transaction waits elsewhere for this one.
    pub(crate) fn push_wound(&mut self, txn: TxnId) {
        self.push_position();
        self.reads.u8(WOUND);
        write_txn(&mut self.reads, txn);
    }

    /// Adds a read that another batch held, as that held it.
    pub(crate) fn push_again(&mut self, raw: &[u8]) {
        self.push_position();
        self.reads.raw(raw);
    }

    fn push_position(&mut self) {
        let position = u32::try_from(self.writes.count()).expect("a batch is closed long before");
        self.reads.u32(position);
    }

    /// Adds a question for the versions of keys, behind the writes that the batch holds so far.
    pub(crate) fn push_versions<'a>(&mut self, keys: impl ExactSizeIterator<Item = (Db, &'a [u8])>) {
        self.push_position();
        self.push_keys(VERSIONS, keys);
    }

    fn push_keys<'a>(&mut self, tag: u8, keys: impl ExactSizeIterator<Item = (Db, &'a [u8])>) {
        self.reads.u8(tag);
        self.reads.count(keys.len());
        for (db, key) in keys {
            self.reads.u8(db.number());
            self.reads.bytes(key);
        }
    }
}

const COMMAND: u8 = 1;
const VERSIONS: u8 = 2;
const ASKED_FOR: u8 = 3;
const SNAPSHOT_READ: u8 = 4;
const OPTIMISTIC_READ: u8 = 5;
const WOUND: u8 = 6;
const WAITING_READ: u8 = 7;
const HOLDER: u8 = 8;
const SNAPSHOT_READ_OF_ALL: u8 = 9;

const REPLY: u8 = 1;
const BLOCK: u8 = 2;
const REFUSED: u8 = 3;
const ANSWERED_VERSIONS: u8 = 4;
const DEFERRED: u8 = 5;
const SEEN: u8 = 6;
const GONE: u8 = 7;
const CROWDED_OUT: u8 = 8;
const TOO_LONG_READ: u8 = 9;
const MOVED: u8 = 10;

/// One read of a batch.
pub(crate) struct Read<'a> {
    /// Writes of the batch that come before it.
    pub(crate) position: u32,
    pub(crate) question: Question<'a>,
    /// The transaction that asks, if it reads under its own locks.
    pub(crate) holder: Option<TxnId>,
    /// The question, as the batch holds it.
    pub(crate) raw: &'a [u8],
}

/// What a read asks.
pub(crate) enum Question<'a> {
    /// A command that does not write.
    Command {
        db: Db,
        protocol: Protocol,
        touches: bool,
        bytes: &'a [u8],
        spans: Vec<Span>,
    },
    /// The versions of keys.
    Versions(Vec<(Db, &'a [u8])>),
    /// What an operation was answered later than its batch.
    Deferred(Origin),
    /// Commands that only read.
    SnapshotRead {
        /// A block of them, as entries hold it; it was checked.
        block: &'a [u8],
        /// The groups that host anything, as far as who asks for the whole keyspace knows.
        hosting: Option<Vec<GroupId>>,
        /// Whether he reads under his own locks: then it is a step of a walk through all that they have.
        is_holder: bool,
    },
    /// The objects of keys.
    OptimisticRead(Vec<(Db, &'a [u8])>),
    /// An older transaction waits elsewhere for this one.
    Wound(TxnId),
    /// Whether a read of the same gateway waits still.
    WaitingRead {
        /// Its batch.
        sequence: u64,
        /// Which of the batch's reads.
        index: u32,
    },
}

impl Question<'_> {
    /// The words of a command.
    pub(crate) fn args(&self) -> Args<'_> {
        match self {
            Question::Command { bytes, spans, .. } => Args::new(bytes, spans),
            _ => Args::default(),
        }
    }

    /// What `look` makes of the conditions and commands of a question for a snapshot.
    pub(crate) fn block<R: Default>(
        &self,
        look: impl FnOnce(&[keyspace::ConditionView<'_>], &[BlockCommand<'_>]) -> R,
    ) -> R {
        let Question::SnapshotRead { block: bytes, .. } = self else {
            return R::default();
        };
        let looked = Operations::read_one(bytes, |operation| match operation {
            keyspace::EntryOperation::Block { conditions, commands } => look(&conditions, &commands),
            _ => R::default(),
        });
        looked.unwrap_or_default()
    }

    /// The partitions of its keys that are not in this group.
    pub(crate) fn elsewhere(&self, keyspace: &Keyspace) -> Vec<Moved> {
        match self {
            Question::Command { .. } => keyspace.elsewhere_of_args(self.args()),
            Question::Versions(keys) | Question::OptimisticRead(keys) => {
                let keys = keys.iter().map(|(_, key)| *key);
                keyspace.elsewhere(keys.filter(|key| !keyspace::is_request_name(key)))
            }
            Question::SnapshotRead {
                hosting, is_holder, ..
            } => self.block(|conditions, commands| {
                let mut all = keyspace.elsewhere(conditions.iter().map(keyspace::ConditionView::key));
                // Whoever goes through groups step by step asks each of them for what it has.
                let is_walk = *is_holder && hosting.is_some();
                let placed = commands
                    .iter()
                    .filter(|command| !is_walk || !keyspace::is_scan(command.args));
                all.extend(placed.flat_map(|command| keyspace.elsewhere_of_args(command.args)));
                if !is_holder {
                    all.extend(hosting.iter().flat_map(|hosting| keyspace.gone_but_to(hosting)));
                }
                all
            }),
            Question::Deferred(_) | Question::Wound(_) | Question::WaitingRead { .. } => Vec::new(),
        }
    }

    /// The locks that keep a transaction from changing what it reads meanwhile.
    pub(crate) fn locks(&self) -> Locks {
        let shared = |keys: &[(Db, &[u8])]| {
            let keys = keys.iter().map(|(_, key)| ((*key).into(), Mode::Shared));
            Locks::of_keys(keys.collect())
        };
        match self {
            Question::Command { .. } => keyspace::locks_of([self.args()]),
            Question::Versions(keys) | Question::OptimisticRead(keys) => shared(keys),
            Question::Deferred(_) | Question::Wound(_) | Question::WaitingRead { .. } => {
                Locks::Keys(Vec::new())
            }
            Question::SnapshotRead { .. } => {
                let mut locks = Locks::Keys(Vec::new());
                self.block(|conditions, commands| {
                    locks = keyspace::locks_of(commands.iter().map(|command| command.args));
                    let keys: Vec<Box<[u8]>> = conditions
                        .iter()
                        .map(|condition| condition.key().into())
                        .collect();
                    locks = std::mem::replace(&mut locks, Locks::Keys(Vec::new())).and_shared(keys.iter());
                });
                locks
            }
        }
    }
}

/// The reads of a batch, in order.
pub(crate) fn reads(bytes: &[u8]) -> Result<Vec<Read<'_>>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut found = Vec::new();
    while !reader.is_empty() {
        let position = reader.u32()?;
        let (start, unknown) = (reader.rest(), reader.error("a read"));
        let mut tag = reader.u8()?;
        let mut holder = None;
        if tag == HOLDER {
            holder = Some(read_txn(&mut reader)?);
            tag = reader.u8()?;
        }
        let question = match tag {
            tag if holder.is_some()
                && !matches!(tag, SNAPSHOT_READ | OPTIMISTIC_READ | SNAPSHOT_READ_OF_ALL) =>
            {
                return Err(unknown);
            }
            COMMAND => read_command(&mut reader)?,
            VERSIONS => Question::Versions(read_keys(&mut reader)?),
            ASKED_FOR => Question::Deferred(read_origin(&mut reader)?),
            SNAPSHOT_READ | SNAPSHOT_READ_OF_ALL => {
                let hosting = match tag {
                    SNAPSHOT_READ => None,
                    _ => Some(read_groups(&mut reader)?),
                };
                let block = reader.bytes()?;
                let is_block = Operations::read_one(block, |operation| {
                    matches!(operation, keyspace::EntryOperation::Block { .. })
                });
                if is_block != Some(true) {
                    return Err(unknown);
                }
                Question::SnapshotRead {
                    block,
                    hosting,
                    is_holder: holder.is_some(),
                }
            }
            OPTIMISTIC_READ => Question::OptimisticRead(read_keys(&mut reader)?),
            WOUND => Question::Wound(read_txn(&mut reader)?),
            WAITING_READ => Question::WaitingRead {
                sequence: reader.u64()?,
                index: reader.u32()?,
            },
            _ => return Err(unknown),
        };
        let raw = &start[..start.len() - reader.rest().len()];
        found.push(Read {
            position,
            question,
            holder,
            raw,
        });
    }
    Ok(found)
}

/// Groups that a question names.
fn read_groups(reader: &mut Reader<'_>) -> Result<Vec<GroupId>, DecodeError> {
    let mut groups = Vec::new();
    for _ in 0..reader.u32()? {
        groups.push(GroupId::new(reader.u16()?));
    }
    Ok(groups)
}

/// Answers under construction.
#[derive(Default)]
pub(crate) struct AnswersBuf(Rope);

impl AnswersBuf {
    /// Those to so many items, each with a short reply.
    pub(crate) fn with_room(items: usize) -> AnswersBuf {
        /// `+OK`, or a number, and what stands before it.
        const SHORT: usize = 12;
        AnswersBuf(Rope::over(Vec::with_capacity(items * SHORT)))
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.0.bytes_mut()
    }

    /// The reply to a command, which `write` writes. Long values in it are shared.
    pub(crate) fn write_reply(&mut self, protocol: Protocol, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        let start = self.0.mark();
        self.out().u8(REPLY);
        self.out().count(0);
        let (at, before) = (self.0.mark(), self.0.len());
        write(&mut ReplyWriter::sharing(&mut self.0, protocol));
        // What is shared is soon as long as no message can be.
        let Ok(length) = u32::try_from(self.0.len() - before) else {
            self.0.truncate(start);
            return self.reply_too_long();
        };
        self.out()[at - COUNT_BYTES..at].copy_from_slice(&length.to_le_bytes());
    }

    /// The reply to a command that may hold long values, which are shared.
    fn long_reply(&mut self, reply: &FrozenRope) {
        self.out().u8(REPLY);
        self.out().count(reply.len());
        self.0.append_sharing(reply);
    }

    /// The reply to a command.
    pub(crate) fn reply(&mut self, reply: &[u8]) {
        self.out().u8(REPLY);
        self.out().bytes(reply);
    }

    /// The replies to the commands of a block.
    pub(crate) fn block<'a>(&mut self, replies: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.out().u8(BLOCK);
        self.out().count(replies.len());
        replies.for_each(|reply| self.out().bytes(reply));
    }

    /// A condition of a block did not hold.
    pub(crate) fn refused(&mut self) {
        self.out().u8(REFUSED);
    }

    /// The answer comes later, by itself.
    pub(crate) fn deferred(&mut self) {
        self.out().u8(DEFERRED);
    }

    /// Their bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.0.len()
    }

    /// Where the next answer goes: for [`AnswersBuf::refuse_from`].
    pub(crate) fn mark(&self) -> usize {
        self.0.mark()
    }

    /// What was answered from the mark `at` on is too long to be told: an error stands for it.
    pub(crate) fn refuse_from(&mut self, at: usize, is_command: bool) {
        self.0.truncate(at);
        if is_command {
            self.reply_too_long();
        } else {
            self.too_long();
        }
    }

    fn reply_too_long(&mut self) {
        self.write_reply(Protocol::Resp2, |out| ReplyError::RepliesTooLong.write(out));
    }

    /// It would have had to wait, and too many do: nothing was done.
    pub(crate) fn crowded_out(&mut self) {
        self.out().u8(CROWDED_OUT);
    }

    /// Its keys belong to other groups.
    pub(crate) fn moved(&mut self, elsewhere: &[Moved]) {
        let mut bytes = Vec::new();
        Moved::write(elsewhere, &mut bytes);
        self.out().u8(MOVED);
        self.out().bytes(&bytes);
    }

    /// It is longer than what can be told, and would be if it were asked again.
    fn too_long(&mut self) {
        self.out().u8(TOO_LONG_READ);
    }

    /// Nothing is known of what is asked for.
    pub(crate) fn gone(&mut self) {
        self.out().u8(GONE);
    }

    /// What is there by this time of the group, and for how long it has been so.
    pub(crate) fn seen<'a>(
        &mut self,
        age: Duration,
        time: UnixMillis,
        is_carried_out: bool,
        replies: impl ExactSizeIterator<Item = &'a [u8]>,
    ) {
        self.seen_head(age, time, is_carried_out, replies.len());
        replies.for_each(|reply| self.out().bytes(reply));
    }

    fn seen_head(&mut self, age: Duration, time: UnixMillis, is_carried_out: bool, count: usize) {
        self.out().u8(SEEN);
        let nanos = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.out().u64(nanos);
        self.out().i64(time.0);
        self.out().bool(is_carried_out);
        self.out().count(count);
    }

    /// The objects that are there by this time of the group, and for how long that has been so. Long strings in them are shared.
    pub(crate) fn seen_objects(&mut self, age: Duration, time: UnixMillis, seen: &[FrozenRope]) {
        self.seen_head(age, time, true, seen.len());
        for one in seen {
            self.out().count(one.len());
            self.0.append_sharing(one);
        }
    }

    /// What an operation of an entry answered: a command, or a block of them.
    pub(crate) fn operation(&mut self, answer: keyspace::Answer<'_>) {
        if answer.is_deferred() {
            return self.deferred();
        }
        if answer.is_crowded_out() {
            return self.crowded_out();
        }
        if !answer.is_carried_out() {
            return self.refused();
        }
        if let Some(elsewhere) = answer.moved() {
            return self.moved(&elsewhere);
        }
        if answer.replies().count() == 1 {
            return self.reply(answer.bytes());
        }
        let replies: Vec<&[u8]> = answer.replies().collect();
        self.block(replies.into_iter());
    }

    /// The versions of keys.
    pub(crate) fn versions(&mut self, versions: impl ExactSizeIterator<Item = KeyVersion>) {
        self.out().u8(ANSWERED_VERSIONS);
        self.out().count(versions.len());
        for version in versions {
            let (tag, version) = match version {
                KeyVersion::Absent(version) => (0, version),
                KeyVersion::Present(version) => (1, version),
            };
            self.out().u8(tag);
            self.out().u64(version.0);
        }
    }

    /// The answers.
    pub(crate) fn finish(self) -> FrozenRope {
        self.0.freeze()
    }
}

/// One answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer<'a> {
    Reply(&'a [u8]),
    /// A reply that holds long values.
    Long(FrozenRope),
    Block(Vec<&'a [u8]>),
    Refused,
    Versions(Vec<KeyVersion>),
    Deferred,
    Seen {
        age: Duration,
        time: UnixMillis,
        is_carried_out: bool,
        replies: Vec<&'a [u8]>,
    },
    /// The same of objects, of which long strings are shared.
    SeenObjects {
        age: Duration,
        time: UnixMillis,
        seen: Vec<FrozenRope>,
    },
    Gone,
    CrowdedOut,
    TooLong,
    Moved(Vec<Moved>),
}

impl<'a> Answer<'a> {
    /// By itself.
    pub(crate) fn to_rope(&self) -> FrozenRope {
        let mut buf = AnswersBuf::default();
        match self {
            Answer::Reply(reply) => buf.reply(reply),
            Answer::Long(reply) => buf.long_reply(reply),
            Answer::Block(replies) => buf.block(replies.iter().copied()),
            Answer::Refused => buf.refused(),
            Answer::Versions(versions) => buf.versions(versions.iter().copied()),
            Answer::Deferred => buf.deferred(),
            Answer::Gone => buf.gone(),
            Answer::CrowdedOut => buf.crowded_out(),
            Answer::TooLong => buf.too_long(),
            Answer::Moved(elsewhere) => buf.moved(elsewhere),
            Answer::Seen {
                age,
                time,
                is_carried_out,
                replies,
            } => buf.seen(*age, *time, *is_carried_out, replies.iter().copied()),
            Answer::SeenObjects { age, time, seen } => buf.seen_objects(*age, *time, seen),
        }
        buf.finish()
    }

    /// The replies of an operation that has any number of them.
    pub(crate) fn texts(self) -> Option<Vec<&'a [u8]>> {
        match self {
            Answer::Reply(reply) => Some(vec![reply]),
            Answer::Block(replies) => Some(replies),
            _ => None,
        }
    }
}

/// The answers to a batch.
pub(crate) struct Answers<'a> {
    all: &'a FrozenRope,
    reader: Reader<'a>,
    /// Those that were not passed yet.
    runs: &'a [(usize, Bytes)],
}

impl<'a> Answers<'a> {
    pub(crate) fn new(all: &'a FrozenRope) -> Answers<'a> {
        Answers {
            all,
            reader: Reader::new(all.bytes()),
            runs: all.runs(),
        }
    }

    fn reply(&mut self) -> Result<Answer<'a>, DecodeError> {
        let (marks, has_runs) = self.pass_text()?;
        if has_runs {
            return Ok(Answer::Long(self.all.part(marks)));
        }
        Ok(Answer::Reply(&self.all.bytes()[marks]))
    }

    /// Where the next text stands, and whether there are runs in it. Replies to commands have some, and objects that were seen.
    fn pass_text(&mut self) -> Result<(Range<usize>, bool), DecodeError> {
        let error = self.reader.error("a text that ends outside of what is shared");
        let mut rest = self.reader.u32()? as usize;
        let start = self.reader.offset();
        let (mut end, before) = (start, self.runs.len());
        while let Some(((at, run), others)) = self.runs.split_first() {
            let own = at.checked_sub(end).ok_or(error)?;
            if own >= rest {
                break;
            }
            rest = (rest - own).checked_sub(run.len()).ok_or(error)?;
            end = *at;
            self.runs = others;
        }
        end += rest;
        self.reader.take(end - start)?;
        Ok((start..end, self.runs.len() < before))
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Result<Answer<'a>, DecodeError> {
        let reader = &mut self.reader;
        match reader.u8()? {
            REPLY => self.reply(),
            BLOCK => Ok(Answer::Block(reader.list(COUNT_BYTES, Reader::bytes)?)),
            DEFERRED => Ok(Answer::Deferred),
            GONE => Ok(Answer::Gone),
            CROWDED_OUT => Ok(Answer::CrowdedOut),
            TOO_LONG_READ => Ok(Answer::TooLong),
            MOVED => Ok(Answer::Moved(Moved::read(reader.bytes()?))),
            SEEN => {
                let age = Duration::from_nanos(reader.u64()?);
                let time = UnixMillis(reader.i64()?);
                let is_carried_out = reader.bool()?;
                let count = reader.count(COUNT_BYTES)?;
                let (mut texts, mut has_runs) = (Vec::new(), false);
                for _ in 0..count {
                    let (marks, has) = self.pass_text()?;
                    texts.push(marks);
                    has_runs |= has;
                }
                // Those of what else was answered at once are none of these.
                if has_runs {
                    let seen = texts.into_iter().map(|marks| self.all.part(marks)).collect();
                    return Ok(Answer::SeenObjects { age, time, seen });
                }
                let all = self.all.bytes();
                Ok(Answer::Seen {
                    age,
                    time,
                    is_carried_out,
                    replies: texts.into_iter().map(|marks| &all[marks]).collect(),
                })
            }
            REFUSED => Ok(Answer::Refused),
            ANSWERED_VERSIONS => {
                let versions = reader.list(1 + 8, |reader| {
                    let is_present = reader.bool()?;
                    let version = Version(reader.u64()?);
                    Ok(match is_present {
                        false => KeyVersion::Absent(version),
                        true => KeyVersion::Present(version),
                    })
                })?;
                Ok(Answer::Versions(versions))
            }
            _ => Err(reader.unknown("an answer")),
        }
    }

    /// Whether there are no more.
    pub(crate) fn is_over(&self) -> bool {
        self.reader.is_empty() && self.runs.is_empty()
    }
}

fn read_keys<'a>(reader: &mut Reader<'a>) -> Result<Vec<(Db, &'a [u8])>, DecodeError> {
    reader.list(1 + COUNT_BYTES, |reader| Ok((read_db(reader)?, reader.bytes()?)))
}

fn read_command<'a>(reader: &mut Reader<'a>) -> Result<Question<'a>, DecodeError> {
    let (db, protocol) = (read_db(reader)?, read_protocol(reader)?);
    let touches = reader.u8()? & 1 != 0;
    let count = reader.count(COUNT_BYTES)?;
    let bytes = reader.rest();
    let mut spans = Vec::new();
    for _ in 0..count {
        let text = reader.bytes()?;
        let end = bytes.len() - reader.rest().len();
        spans.push(Span {
            start: (end - text.len()) as u32,
            len: text.len() as u32,
        });
    }
    Ok(Question::Command {
        db,
        protocol,
        touches,
        bytes,
        spans,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspace::KEPT_BYTES_MIN;
    use resp::ArgsBuf;

    #[test]
    fn long_bytes_that_are_no_run_stay_where_they_are_told() {
        let value = Bytes::from(vec![b'v'; KEPT_BYTES_MIN]);
        let plain = FrozenRope::from(vec![b'p'; KEPT_BYTES_MIN]);
        let mut shared = Rope::default();
        shared.bytes_mut().extend_from_slice(b"head");
        shared.push_run(value);
        let mut buf = AnswersBuf::default();
        let time = UnixMillis(7);
        buf.seen(Duration::ZERO, time, true, [&b"a"[..], b"bc"].into_iter());
        buf.seen_objects(Duration::ZERO, time, &[plain.clone(), shared.freeze()]);
        let all = buf.finish();
        let mut answers = Answers::new(&all);
        let Ok(Answer::Seen { replies, .. }) = answers.next() else {
            panic!("what follows it has a run, and it has none")
        };
        assert_eq!(replies, [&b"a"[..], b"bc"]);
        let Ok(Answer::SeenObjects { seen, .. }) = answers.next() else {
            panic!("one of these is shared")
        };
        assert!(seen[0].to_bytes() == plain.to_bytes());
        assert_eq!(seen[1].len(), 4 + KEPT_BYTES_MIN);
        assert!(answers.is_over());
        let held = Answer::Long(plain.clone()).to_rope();
        let Ok(Answer::Reply(told)) = Answers::new(&held).next() else {
            panic!("nothing of it is shared")
        };
        assert!(
            told == &plain.to_bytes()[..],
            "a reply that was held is told whole"
        );
    }

    #[test]
    fn a_long_value_in_an_answer_is_shared_and_told_as_if_it_were_not() {
        let value = Bytes::from(vec![b'v'; KEPT_BYTES_MIN]);
        let mut buf = AnswersBuf::default();
        let reads = |buf: &mut AnswersBuf| {
            buf.reply(b"+OK\r\n");
            buf.write_reply(Protocol::Resp2, |out| {
                out.array(2);
                out.bulk_shared(&value);
                out.bulk_shared(&value);
            });
            buf.write_reply(Protocol::Resp2, |out| out.integer(1));
            buf.write_reply(Protocol::Resp2, |out| out.bulk_shared(&value));
        };
        reads(&mut buf);
        let all = buf.finish();
        assert_eq!(all.runs().len(), 3);
        // As it comes from another node.
        let whole = FrozenRope::from(all.to_bytes());
        let (mut answers, mut others) = (Answers::new(&all), Answers::new(&whole));
        let mut lengths = Vec::new();
        while !others.is_over() {
            let (answer, other) = (
                answers.next().expect("well formed"),
                others.next().expect("well formed"),
            );
            let Answer::Reply(other) = other else {
                panic!("these are replies")
            };
            lengths.push(other.len());
            match answer {
                Answer::Reply(reply) => assert_eq!(reply, other),
                Answer::Long(reply) => {
                    assert!(reply.to_bytes() == other);
                    let again = Answer::Long(reply.clone()).to_rope();
                    assert!(Answers::new(&again).next() == Ok(Answer::Long(reply.clone())));
                    let shared = reply.pieces().filter(|piece| piece.as_ptr() == value.as_ptr());
                    assert_eq!(shared.count(), reply.runs().len());
                }
                _ => panic!("these are replies"),
            }
        }
        assert!(answers.is_over());
        assert_eq!(lengths[2], 4);
        // What is refused takes its runs along.
        let mut buf = AnswersBuf::default();
        buf.reply(b"+OK\r\n");
        let mark = buf.mark();
        buf.write_reply(Protocol::Resp2, |out| out.bulk_shared(&value));
        buf.refuse_from(mark, true);
        let all = buf.finish();
        assert_eq!(all.runs(), []);
        let mut answers = Answers::new(&all);
        assert_eq!(answers.next(), Ok(Answer::Reply(b"+OK\r\n")));
        let mut error = Vec::new();
        ReplyError::RepliesTooLong.write(&mut ReplyWriter::new(&mut error, Protocol::Resp2));
        assert_eq!(answers.next(), Ok(Answer::Reply(&error)));
    }

    #[test]
    fn reads_and_answers_come_back_as_they_were_put_in() {
        let mut batch = BatchBuf::default();
        let get = ArgsBuf::from_slices(["get", "k"]);
        let db = Db::new(3).expect("one of sixteen");
        batch.push_read(db, Protocol::Resp3, true, get.as_args());
        let set = ArgsBuf::from_slices(["set", "k", "v"]);
        batch.writes.push(&keyspace::EntryOperation::Command {
            db,
            protocol: Protocol::Resp2,
            args: set.as_args(),
        });
        batch.push_versions([(db, &b"a"[..]), (db, b"b")].into_iter());
        let txn = TxnId {
            boot: ids::Boot(7),
            worker: 1,
            seq: 9,
            attempt: 2,
        };
        batch.push_optimistic_read(Some(txn), &[(db, Box::from(&b"a"[..]))]);
        batch.push_snapshot_read(Some(txn), None, &[], &[]);
        let found = reads(&batch.reads).expect("well formed");
        assert_eq!([found[0].position, found[1].position], [0, 1]);
        let holders: Vec<Option<TxnId>> = found.iter().map(|read| read.holder).collect();
        assert_eq!(holders, [None, None, Some(txn), Some(txn)]);
        // Nothing else is asked under locks.
        let mut commanded = batch.reads.clone();
        let at = commanded.len() - found[3].raw.len();
        let name_bytes = 8 + 2 + 8 + 4;
        commanded[at + 1 + name_bytes] = COMMAND;
        assert!(reads(&commanded).is_err());
        assert_eq!(found[0].question.args().arg(1), b"k");
        assert!(matches!(&found[1].question, Question::Versions(keys) if keys.len() == 2));

        let mut buf = AnswersBuf::default();
        buf.reply(b"+OK\r\n");
        buf.block([&b":1\r\n"[..], b"$-1\r\n"].into_iter());
        buf.refused();
        buf.versions([KeyVersion::Absent(Version(4)), KeyVersion::Present(Version(5))].into_iter());
        let (age, time) = (Duration::from_micros(7), UnixMillis(-8));
        buf.seen(age, time, true, [&b"$-1\r\n"[..]].into_iter());
        let bytes = buf.finish();
        let mut answers = Answers::new(&bytes);
        assert_eq!(answers.next(), Ok(Answer::Reply(b"+OK\r\n")));
        assert_eq!(answers.next(), Ok(Answer::Block(vec![b":1\r\n", b"$-1\r\n"])));
        assert_eq!(answers.next(), Ok(Answer::Refused));
        let versions = vec![KeyVersion::Absent(Version(4)), KeyVersion::Present(Version(5))];
        assert_eq!(answers.next(), Ok(Answer::Versions(versions)));
        let seen = Answer::Seen {
            age,
            time,
            is_carried_out: true,
            replies: vec![b"$-1\r\n"],
        };
        assert_eq!(answers.next(), Ok(seen));
        assert!(answers.is_over());
    }

    #[test]
    fn cut_or_changed_bytes_are_refused_or_read_but_never_panic() {
        let mut batch = BatchBuf::default();
        let get = ArgsBuf::from_slices(["mget", "k", "another"]);
        batch.push_read(Db::default(), Protocol::Resp2, false, get.as_args());
        batch.push_versions([(Db::default(), &b"a"[..])].into_iter());
        let whole = batch.reads;
        for cut in 0..whole.len() {
            drop(reads(&whole[..cut]));
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[cut] ^= 1 << bit;
                drop(reads(&changed));
                let changed = FrozenRope::from(changed);
                let mut answers = Answers::new(&changed);
                while !answers.is_over() && answers.next().is_ok() {}
            }
        }
    }
}
