//! From this node to the leader of one group, wherever that is.
//!
//! ```text
//!   command --> open batch --turn's end--> unanswered, in order --answer--> outputs
//!                                              ^       |
//!                                              +-------+ the leader changed: sent again, with the same numbers
//! ```
//!
//! Batches with writes are numbered. The group remembers the last number it applied for each gateway and what it answered,
//! so that a batch which is sent again is not applied again: a change of leader is a pause, not an error. Plain reads are
//! evaluated by the leader, behind the writes that stand before them; a batch of reads alone carries no number. It
//! names the last one before it that is unanswered: if that was lost on its way, the leader says so, and both are sent again.
//!
//! Reads of connections that have nothing under way on the same slots are *free*: they gather apart, leave first, and wait for
//! nothing that is in flight at the leader.
//!
//! A read that is sent again could see a write that its connection sent later, to the same slot, and that was applied already.
//! On the any-node endpoint such a write is held back until the read is answered. On the cluster endpoint such a read is answered
//! `TRYAGAIN` instead: it certainly did nothing, and a reply out of order would be wrong.
//!
//! Of the reads of one connection and slot none is answered before one that was asked before it: what came is *held*. An
//! earlier read that is asked again may see what the later one has not seen, and so what was held behind it is asked again
//! with it.
//!
//! What is *long* goes in pieces, each in a batch of its own, and no more than [`PIECES_MAX`] of them are under way: whatever
//! else goes to the group finds its place between them. When all of them are sent, the group is told to carry out what they are
//! ([`keyspace::Piece`]). What its connection sends behind a long command is not taken before that is answered.
//!
//! What waits for a transaction is answered *later* than its batch: the leader says so, and says by itself when it is over.
//! After a change of leader, or if nothing was heard for a while, it is asked for. What came is acknowledged with the next
//! batch, and so is what is over everywhere.
//!
//! A group may begin anew without part of its state: that is another *generation*, and what it has applied of this node may be
//! less than was answered. Before anything numbered goes there it is asked ([`PROBE`]), and what is unanswered is numbered
//! after that. Batches name their generation, and no leader looks at one of another: a copy from before can not take a number
//! that means something else now.
//!
//! Invariants:
//! 1. The numbers of the unanswered batches that have one are consecutive, and end before the next one.
//! 2. An item is answered once.
//! 3. Within a generation a number is given to one batch: numbers change only before the first one is sent in it.
//! 4. What was sent stays here until the group has said what became of it, even if its client was told that this is not
//!    known: a later number would be a gap.
//! 5. Clients are told of reads of one connection and slot in the order in which these were asked.

use crate::batch::{Answer, Answers, Batch, BatchBuf, SentWords, reads};
use crate::operation::{Condition, Operation, Replies, as_conditions};
use crate::request::{Assignment, FullKey, IndexedKey, Journey, Output, Part, ReplyTo, Seen};
use crate::response::BatchOutcome;
use bytes::Bytes;
use command::{CommandId, Flags, Spec};
use ids::{Db, GatewayId, GroupId, Monotonic, Slot, UnixMillis};
use keyspace::{
    ClientRequest, Forget, KEPT_BYTES_MIN, KeyVersion, OperationsMark, Piece, QueryTxn, Resolve, SeenObject,
    WaitId, read_seen,
};
use mutations::Mutation;
use resp::{Args, FrozenRope, Protocol};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use txn::{Participants, Refusal, TxnId, Vote, VoteRecord};

/// How long a client waits for a leader of its keys to be found.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer is waited for before the batch is sent again.
const RETRY: Duration = Duration::from_secs(1);

/// The same, of what a client waits for that waits for a key. Whoever serves it says so; only what was lost on a link
/// comes so late.
const WAIT_RETRY: Duration = Duration::from_secs(5);

/// Bytes of what waits for an answer that are taken to be under way for a second: clients wait longer for what is long, and it is
/// not sent again meanwhile. A slow network carries as many to one node and from there to two others.
const BYTES_PER_SECOND: usize = 16 * 1024 * 1024;

/// How much longer is waited for so many bytes.
pub fn time_of(bytes: usize) -> Duration {
    Duration::from_millis((bytes / (BYTES_PER_SECOND / 1_000)) as u64)
}

/// How much longer is waited while bytes of a long message come from the leader's node, or go there.
const MOVING_PATIENCE: Duration = Duration::from_secs(60);

/// A reply of so many bytes is not copied into the output of its connection.
const COPIED_BYTES_MIN: usize = 64 * 1024;

/// How long after the last of them that is so.
const MOVING: Duration = Duration::from_millis(500);

/// How long what a group need not keep any more waits for a batch to go with.
const TELL_AFTER: Duration = Duration::from_millis(50);

/// With a threshold of slow commands below it, every one of them is told with its words; above, one of each batch.
const EACH_BELOW: Duration = Duration::from_millis(1);

/// Batches that are on their way to the leader. At the limit what comes gathers in the open one: the group remembers the
/// answers of twice as many and no more ([`keyspace::UNACKNOWLEDGED_MAX`]).
const WINDOW: usize = 32;

/// Bytes after which a batch is closed and the next begun: what is sent as one frame must not hold others up.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Pieces of long operations that are under way to a group: one is carried out while the next is on its way.
const PIECES_MAX: usize = 2;

/// What is long, how it is cut, and what is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieceSizes {
    /// Bytes of an operation from which on it goes in pieces.
    pub long_bytes_min: usize,
    /// Bytes of one piece: what others wait for that find it before them.
    pub piece_bytes: usize,
    /// Bytes of one request to a group: a value of the largest size with a good many words around it. What is longer is refused
    /// before anything of it is sent; an entry and a message between nodes have room for more ([`consensus::ENTRY_BYTES_MAX`]).
    pub request_bytes_max: usize,
    /// Bytes of the answers to the reads of one batch: as much. A read whose answer passes it is told so instead; a message between
    /// nodes has room for more.
    pub answers_bytes_max: usize,
    /// Bytes of one chunk of a state that is transferred: what a learner is sent at once.
    pub chunk_bytes: usize,
}

impl Default for PieceSizes {
    fn default() -> PieceSizes {
        PieceSizes {
            long_bytes_min: KEPT_BYTES_MIN,
            piece_bytes: 128 * 1024,
            request_bytes_max: 768 * 1024 * 1024,
            answers_bytes_max: 768 * 1024 * 1024,
            chunk_bytes: 256 * 1024,
        }
    }
}

/// Bytes that an entry has for each word beside it.
const WORD_HEAD_BYTES: usize = 4;

impl PieceSizes {
    /// Whether a command goes in pieces.
    #[inline]
    pub fn is_long(&self, spec: &Spec, args: Args<'_>) -> bool {
        let bytes = args.byte_len() + args.len() * WORD_HEAD_BYTES;
        spec.flags.contains(Flags::WRITE) && bytes >= self.long_bytes_min
    }
}

/// Bytes, and items, that room is made for when a batch is begun. What is made room for and not used stays with the batch until
/// it is answered.
const ROOM_BYTES_MAX: usize = 16 * 1024;
const ROOM_MAX: usize = 256;

/// The number of a batch that asks how far a group has applied those of this node: no other has it, so that it is never the
/// next one, and is always answered by a gap. It goes through the log: what comes behind it stands behind what it was told.
const PROBE: u64 = u64::MAX;

/// What clients are told of a command that nobody was there to carry out.
pub const UNREACHABLE: &str =
    "CLUSTERDOWN no leader of this key's group could be reached in time; nothing was done";
const UNKNOWN: &str = "UNKNOWN the leader of this key's group was lost before it answered: \
                       whether the command was carried out is not known";
/// What clients are told of a command, or a part of a transaction, that was not sent, and never will be.
pub const TOO_LONG: &str = "ERR the command, or the part of it for one group, is longer than the 768 MiB that can be replicated at \
                        once; nothing was done";
const READ_TOO_LONG: &str = "ERR what this command reads of one group at once is longer than the 768 MiB that can travel \
                             together; nothing was done";
/// What clients are told of a command that would have had to wait, and did not.
pub const CROWDED_OUT: &str =
    "TRYAGAIN too many commands wait for transactions on keys of this group; nothing was done";
const OVERTAKEN: &str = "TRYAGAIN the leader of this key's group changed, and what was sent behind this read may have \
                         been carried out; the read was not";

/// Who waits for an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// A client's command.
    Command(ReplyTo),
    /// A client's command that may wait.
    Wait(ReplyTo),
    /// Such a client does not wait any more.
    EndWait(ReplyTo),
    /// A client's commands that are one: `EXEC`.
    Block(ReplyTo),
    /// A client's `WATCH`: which of its keys these are, by their index in the question.
    Versions(ReplyTo, Vec<usize>),
    /// This group's part of a command that every group carries out for itself.
    Part(TxnId),
    /// This group's part of a transaction: a vote is wanted.
    Vote(TxnId),
    /// The same, before it votes: its keys' objects are wanted.
    Lock(TxnId),
    /// A decision, for this worker.
    Decision(TxnId, u16),
    /// Decisions that nobody waits for, each for a worker.
    Decisions(Vec<(TxnId, u16)>),
    /// What has become of a transaction, for this worker.
    TxnQuery(TxnId, u16),
    /// Commands of a transaction that only read.
    SnapshotRead(TxnId),
    /// Objects that a transaction works on.
    Objects(TxnId),
    /// An answer that comes later.
    Late(Place),
    /// Nobody.
    Nobody,
}

/// What is answered later than its batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    is_read: bool,
    /// The batch's number among those with writes, or its sequence if this is a read.
    batch: u64,
    /// Which of its operations, or of its reads.
    index: u32,
}

/// Something that waits for a transaction.
struct Waiting {
    item: Item,
    /// The reads of its batch, if it is one of them.
    reads: Bytes,
    asked_at: Monotonic,
    /// It waits for nothing any more: this is the answer, which is told behind that of an earlier read.
    held: Option<FrozenRope>,
    /// A write that its connection sent behind it, to the same slot, was carried out.
    is_overtaken: bool,
}

/// Transactions that are over, to be told with the next batch.
#[derive(Default)]
struct OverOf {
    low: u64,
    over: Vec<(u64, u32)>,
}

struct Item {
    /// `None` once it was answered.
    origin: Option<Origin>,
    /// The worker and connection of the client, also after that.
    connection: Option<(u16, u64)>,
    /// If it is measured here: which command, and since when it waits.
    trip: Option<(&'static Spec, Monotonic)>,
    is_read: bool,
    /// When it came: sent again in another batch, it has waited since then.
    since: Monotonic,
    /// Of its first key; nothing is known of a command that names none.
    slot: Option<Slot>,
    /// Which of all items it is, also when it is asked again.
    order: u64,
    /// An earlier read of the same connection and slot was sent again together with it, and answered. What comes may be what
    /// was answered the first time.
    is_stale: bool,
}

/// A read of which the client was not told yet, with the sequence of the batch that it is in; the largest if that was not sent.
#[derive(Clone, Copy)]
struct Outstanding {
    connection: (u16, u64),
    slot: Slot,
    order: u64,
    sequence: u64,
}

/// What gathers.
#[derive(Default)]
struct Open {
    batch: BatchBuf,
    items: Vec<Item>,
    /// Since when it is open.
    since: Monotonic,
    /// When the oldest of its items came, perhaps with another batch.
    oldest: Monotonic,
    /// Whether it holds reads that are no plain commands: no write goes with them.
    is_apart: bool,
    /// Whether it holds reads that were in a batch before: others may have been asked behind them.
    has_again: bool,
    /// Bytes of reads, and the writes, up to the newest item.
    taken: (usize, OperationsMark),
    /// Whether it is a piece of a long operation.
    is_piece: bool,
    /// What it tells the group to carry out.
    long: Option<FrozenRope>,
}

impl Open {
    fn take(&mut self, item: Item, now: Monotonic) {
        if self.items.is_empty() {
            (self.since, self.oldest) = (now, item.since);
        }
        self.oldest = self.oldest.min(item.since);
        self.items.push(item);
    }
}

/// How a batch stands to others of its gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ordering {
    /// Behind those before it.
    InTurn,
    /// Reads that wait for nothing.
    Free,
    /// Decisions that nobody waits for.
    Unnumbered,
}

/// An operation that goes in pieces, until the last of them is sent.
struct Long {
    /// What is long in it is shared with its connection, or with the value that it puts.
    operation: FrozenRope,
    item: Item,
    /// Which of this group client's long operations.
    number: u64,
    /// Bytes that were sent.
    sent: usize,
}

struct Sent {
    batch: Batch,
    items: Vec<Item>,
    /// Whether it is a piece of a long operation.
    is_piece: bool,
    /// What it tells the group to carry out.
    long: Option<FrozenRope>,
    /// Since when it was open.
    since: Monotonic,
    /// When the oldest of its items came, perhaps with another batch.
    oldest: Monotonic,
    /// Whether it was ever handed to anybody, whether more than once, and when last.
    was_sent: bool,
    was_resent: bool,
    sent_at: Monotonic,
    /// Whether it holds reads that were in a batch before.
    has_again: bool,
    /// Whether it is to be handed to the present leader.
    is_due: bool,
    /// It waited too long, and its clients were told so.
    is_given_up: bool,
    /// The group has said what became of it. It stays as long as one before it is unanswered.
    is_answered: bool,
    /// One of its commands was slow, and its words were told.
    is_told: bool,
}

/// The question how far a group has applied the batches of this node.
struct Probe {
    is_due: bool,
    sent_at: Monotonic,
}

/// Values are not checked out of a group with a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCheckOut;

/// See the file's header.
pub struct GroupClient {
    group: GroupId,
    /// How many times the group has begun anew, as is known here.
    generation: u64,
    /// What is too long, and is told so with the next tick.
    refused: Vec<Origin>,
    /// Until it is answered, nothing else goes to a group that has begun anew.
    probe: Option<Probe>,
    gateway: GatewayId,
    open: Open,
    /// Reads that wait for nothing, apart: they leave before what is open, so that they see none of it.
    free: Open,
    /// What is long, in order. Of the first one pieces may be sent.
    staging: VecDeque<Long>,
    next_long: u64,
    sizes: PieceSizes,
    /// Bytes of writes and items that the last batch with writes held: the next one is mostly like it.
    room: (usize, usize),
    /// What is committed, each for a worker: it leaves when the turn ends, without a number.
    committed: Vec<(TxnId, u16)>,
    unanswered: VecDeque<Sent>,
    next_sequence: u64,
    next_number: u64,
    /// Up to here everything was answered.
    acknowledged: u64,
    now: Monotonic,
    /// When bytes of a long message last moved on the link with the leader's node.
    moved_at: Option<Monotonic>,
    /// Of a command that takes so long, the words are told with the answer.
    slow: Option<Duration>,
    /// Batches that were handed to somebody, and how many of them not for the first time.
    handed: u64,
    resent: u64,
    /// Items that were taken so far.
    items: u64,
    /// What is answered later.
    late: BTreeMap<Place, Waiting>,
    /// Late answers that have come and that the group still keeps.
    received: Vec<(u64, u32)>,
    /// Transactions that the group need not remember, by coordinator.
    over: BTreeMap<GatewayId, OverOf>,
    /// Up to this batch the group, which has begun anew, is to be told what is awaited.
    resumes: Option<u64>,
    /// Since when the oldest of these three waits to be told.
    untold_since: Option<Monotonic>,
}

/// A command on its way to a group.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Which command.
    pub spec: &'static Spec,
    /// The connection's database.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Whether it counts as use of its keys.
    pub touches: bool,
    /// Whether its connection has nothing under way on the same slots: a read need not wait for what is in flight.
    pub is_free: bool,
    /// Since when it waits, if what it takes is to be told with its answer.
    pub began: Option<Monotonic>,
    /// Its words.
    pub args: Args<'a>,
    /// What they lie in, if that is so long that it is not copied: see [`keyspace::KEPT_BYTES_MIN`].
    pub frame: Option<&'a Bytes>,
}

impl<'a> Asked<'a> {
    /// A command that waited.
    pub fn of(operation: &'a Operation) -> Asked<'a> {
        let (spec, args) = operation.words();
        Asked {
            spec,
            db: operation.db,
            protocol: operation.protocol,
            touches: true,
            is_free: false,
            began: None,
            args,
            frame: None,
        }
    }

    /// The same command, to outlive its frame.
    pub fn to_operation(&self) -> Operation {
        Operation {
            spec: self.spec,
            db: self.db,
            protocol: self.protocol,
            args: self.args.to_buf(),
        }
    }
}

impl GroupClient {
    /// A group client to `group`, under a name that no other has ever had.
    pub fn new(group: GroupId, generation: u64, gateway: GatewayId) -> GroupClient {
        GroupClient {
            group,
            generation,
            probe: None,
            gateway,
            open: Open::default(),
            free: Open::default(),
            committed: Vec::new(),
            staging: VecDeque::new(),
            next_long: 1,
            sizes: PieceSizes::default(),
            room: (0, 0),
            unanswered: VecDeque::new(),
            next_sequence: 1,
            next_number: 1,
            acknowledged: 0,
            now: Monotonic(0),
            moved_at: None,
            refused: Vec::new(),
            slow: None,
            handed: 0,
            resent: 0,
            items: 0,
            late: BTreeMap::new(),
            received: Vec::new(),
            resumes: None,
            over: BTreeMap::new(),
            untold_since: None,
        }
    }

    /// Says what goes in pieces from now on.
    pub fn set_piece_sizes(&mut self, sizes: PieceSizes) {
        self.sizes = sizes;
    }

    /// Batches that were handed to a leader so far, and how many of these had been handed to one before.
    pub fn handed(&self) -> (u64, u64) {
        (self.handed, self.resent)
    }

    /// The name under which the group knows this node.
    pub fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// How many times the group has begun anew, as is known here.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The group has begun anew: nothing goes there before it has said what it knows of this node.
    pub fn begin_generation(&mut self, generation: u64, out: &mut Vec<Output>) {
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        if let Some(long) = self.staging.front_mut().filter(|long| long.sent > 0) {
            // What was sent of it may be lost.
            (long.number, long.sent) = (self.next_long, 0);
            self.next_long += 1;
        }
        self.probe = (self.next_number > 1).then_some(Probe {
            is_due: true,
            sent_at: self.now,
        });
        self.resend(out);
    }

    /// A group that began anew has applied numbers up to this one: what it has not is numbered from there on.
    fn on_probed(&mut self, applied: u64, out: &mut Vec<Output>) {
        self.probe = None;
        self.next_number = applied + 1;
        self.acknowledged = self.acknowledged.min(applied);
        for sent in self
            .unanswered
            .iter_mut()
            .filter(|sent| sent.batch.number > applied)
        {
            if sent.is_answered {
                // It was carried out in what is lost: its number is another's.
                sent.batch.number = 0;
                continue;
            }
            sent.batch.number = self.next_number;
            self.next_number += 1;
        }
        self.received.retain(|(number, _)| *number <= applied);
        let is_lost = |place: &&Place| !place.is_read && place.batch > applied;
        let lost: Vec<Place> = self.late.keys().filter(is_lost).copied().collect();
        for place in lost {
            self.on_gone(place, out);
        }
        // What the group was told after this place, it has not heard.
        self.resumes = Some(applied);
        self.untold_since.get_or_insert(self.now);
        self.resend(out);
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.unanswered.is_empty()
            && self.probe.is_none()
            && self.open.items.is_empty()
            && self.free.items.is_empty()
            && self.staging.is_empty()
            && self.committed.is_empty()
            && self.late.is_empty()
            && self.refused.is_empty()
            && self.untold_since.is_none()
    }

    /// Whether the leader has been out of reach for so long that no more is to be sent: a new command is refused at once.
    pub fn is_cut_off(&self) -> bool {
        self.unanswered.front().is_some_and(|sent| sent.is_given_up)
    }

    /// Learns the time, and what counts as slow, if anything does.
    pub fn begin(&mut self, now: Monotonic, slow: Option<Duration>) {
        (self.now, self.slow) = (now, slow);
    }

    /// Takes a command.
    #[inline]
    pub fn command(&mut self, reply_to: ReplyTo, asked: Asked<'_>) {
        let slot = first_slot(asked.spec, asked.args);
        self.item(Origin::Command(reply_to), &asked, slot);
    }

    /// Takes this group's part of a command that every group carries out for itself.
    pub fn part(&mut self, txn: TxnId, asked: Asked<'_>) {
        self.item(Origin::Part(txn), &asked, None);
    }

    fn item(&mut self, origin: Origin, asked: &Asked<'_>, slot: Option<Slot>) {
        let &Asked {
            spec,
            db,
            protocol,
            touches,
            is_free,
            began,
            args,
            frame,
        } = asked;
        let writes = spec.flags.contains(Flags::WRITE);
        let trip = began.map(|began| (spec, began));
        if is_free && !writes {
            self.make_free_room();
            self.free.batch.push_read(db, protocol, touches, args);
            let item = self.new_item(origin, true, slot);
            return self.free.take(Item { trip, ..item }, self.now);
        }
        self.make_room(writes);
        let batch = &mut self.open.batch;
        let is_long = self.sizes.is_long(spec, args);
        if is_long
            && let Some(frame) = frame
            && batch.writes.push_framed(db, protocol, args, frame)
        {
            // The frame is not copied.
        } else if writes {
            batch
                .writes
                .push(&keyspace::Operation::Command { db, protocol, args });
        } else {
            batch.push_read(db, protocol, touches, args);
        }
        let item = self.new_item(origin, !writes, slot);
        let item = Item { trip, ..item };
        if is_long {
            self.took_write(item, 0);
        } else {
            self.took(item);
        }
    }

    /// Takes a command that waits until there is something to pop.
    pub fn wait(&mut self, reply_to: ReplyTo, operation: &Operation) {
        let (spec, args) = operation.words();
        let (id, command) = (wait_id(reply_to), operation.as_state());
        let wait = keyspace::Operation::Wait { id, command };
        self.write(Origin::Wait(reply_to), &wait, first_slot(spec, args));
    }

    /// The client of a command that waits does not wait any more.
    pub fn end_wait(&mut self, reply_to: ReplyTo) {
        if mutations::is(Mutation::WaitNotEnded) {
            return;
        }
        let id = wait_id(reply_to);
        self.write(
            Origin::EndWait(reply_to),
            &keyspace::Operation::EndWait { id },
            None,
        );
    }

    /// Takes commands that are carried out as one, if conditions hold.
    pub fn block(&mut self, reply_to: ReplyTo, conditions: &[Condition], operations: &[Operation]) {
        let block = keyspace::Operation::Block {
            conditions: as_conditions(conditions),
            commands: operations.iter().map(Operation::as_state).collect(),
        };
        self.block_of(reply_to, &block);
    }

    fn block_of(&mut self, reply_to: ReplyTo, block: &keyspace::Operation<'_>) {
        self.make_room(true);
        self.open.batch.writes.push(block);
        // It may write anything it names.
        let item = self.new_item(Origin::Block(reply_to), false, None);
        self.took_write(item, self.sizes.long_bytes_min);
    }

    /// Takes commands that are carried out as one, and at most once.
    pub fn once(&mut self, reply_to: ReplyTo, request: ClientRequest, operations: &[Operation]) {
        let commands = operations.iter().map(Operation::as_state).collect();
        let once = keyspace::Operation::Once { request, commands };
        self.block_of(reply_to, &once);
    }

    /// Takes a question for the versions of keys.
    pub fn versions(&mut self, reply_to: ReplyTo, keys: &[IndexedKey]) {
        let indices = keys.iter().map(|(at, ..)| *at).collect();
        let keys = keys.iter().map(|(_, db, key)| (*db, &**key));
        self.read_apart(Origin::Versions(reply_to, indices), |batch| {
            batch.push_versions(keys)
        });
    }

    /// Takes this group's part of a transaction. `Err` if values are to be checked out, as no log can say: whoever asks did not know
    /// yet that there is one.
    pub fn vote(&mut self, mut part: Part) -> Result<(), NoCheckOut> {
        let origin = match part.assignment {
            Assignment::CheckOut { .. } => return Err(NoCheckOut),
            Assignment::Lock { .. } => Origin::Lock(part.txn),
            Assignment::Evaluate { .. } | Assignment::Install { .. } | Assignment::InPlace { .. } => {
                Origin::Vote(part.txn)
            }
        };
        self.make_room(true);
        self.open.batch.writes.push(&part.as_state());
        let item = self.new_item(origin, false, None);
        self.took_write(item, self.sizes.long_bytes_min);
        Ok(())
    }

    /// Takes the decision that a transaction is committed, of which no client awaits what the group answers. Every part of it
    /// was prepared by what has been applied, so that it needs no place among the batches with numbers: the leader keeps it
    /// until it makes an entry anyway, and it is repeated until it is recorded.
    pub fn commit_lazily(&mut self, txn: TxnId, worker: u16) {
        self.committed.push((txn, worker));
    }

    /// Closes the batch of decisions that nobody waits for, if there are any.
    fn close_committed(&mut self) {
        if self.committed.is_empty() {
            return;
        }
        let committed = std::mem::take(&mut self.committed);
        let mut open = Open::default();
        let decisions = committed.iter().map(|(txn, _)| (*txn, true)).collect();
        open.batch
            .writes
            .push(&keyspace::Operation::Resolve(Resolve { decisions }));
        let item = self.new_item(Origin::Decisions(committed), false, None);
        open.take(item, self.now);
        self.queue(open, Ordering::Unnumbered);
    }

    /// Takes a decision that is waited for, or that a group may hear of which has not voted: it keeps its place behind the vote.
    pub fn decide(&mut self, txn: TxnId, is_committed: bool, worker: u16) {
        let is_its = |long: &Long| matches!(long.item.origin, Some(Origin::Vote(own) | Origin::Lock(own)) if own == txn);
        if let Some(at) = self.staging.iter().position(is_its) {
            // It was given up, and the group has not heard of it.
            self.drop_long(at);
        }
        let decisions = vec![(txn, is_committed)];
        let resolve = keyspace::Operation::Resolve(Resolve { decisions });
        self.write(Origin::Decision(txn, worker), &resolve, None);
    }

    /// Takes the question of a worker what has become of a transaction.
    pub fn query_txn(&mut self, txn: TxnId, participants: Participants, worker: u16) {
        let query_txn = keyspace::Operation::QueryTxn(QueryTxn { txn, participants });
        self.write(Origin::TxnQuery(txn, worker), &query_txn, None);
    }

    /// Takes the hint that an older transaction waits elsewhere for this one. It may be lost, and is repeated.
    pub fn wound(&mut self, txn: TxnId) {
        self.read_free(Origin::Nobody, |batch| batch.push_wound(txn));
    }

    /// Takes commands of a transaction that only read. What its connection sent before on the same slots was answered.
    pub fn see(&mut self, txn: TxnId, conditions: &[Condition], operations: &[Operation]) {
        let see = |batch: &mut BatchBuf| batch.push_see(conditions, operations);
        let counts_keys = |operation: &Operation| operation.spec.id == CommandId::DbSize;
        if operations.iter().any(counts_keys) {
            // A key that a read found to be expired is counted until an entry deletes it: the count is behind that entry.
            self.read_apart(Origin::SnapshotRead(txn), see);
        } else {
            self.read_free(Origin::SnapshotRead(txn), see);
        }
    }

    /// Takes a question for objects that a transaction works on.
    pub fn fetch(&mut self, txn: TxnId, keys: &[FullKey]) {
        self.read_free(Origin::Objects(txn), |batch| batch.push_fetch(keys));
    }

    /// Every participant has recorded the end of a transaction, and of all that its coordinator numbered below `low`: told
    /// with the next batch, or after a while.
    pub fn forget(&mut self, txn: TxnId, low: u64) {
        let of = self.over.entry(txn.coordinator()).or_default();
        of.low = of.low.max(low);
        of.over.push((txn.seq, txn.attempt));
        self.untold_since.get_or_insert(self.now);
    }

    /// Puts what the group need not keep any more into the open batch.
    fn tell_over(&mut self) {
        if self.untold_since.take().is_none() {
            return;
        }
        if let Some(up_to) = self.resumes.take() {
            let unanswered = self.unanswered.iter().filter(|sent| !sent.is_answered);
            let batches = unanswered.map(|sent| sent.batch.number);
            let late = self.late.keys().filter(|place| !place.is_read);
            let mut resume = keyspace::Resume {
                up_to,
                batches: batches.filter(|number| (1..=up_to).contains(number)).collect(),
                answers: late.map(|place| (place.batch, place.index)).collect(),
            };
            resume.batches.sort_unstable();
            resume.answers.sort_unstable();
            self.push(Origin::Nobody, &keyspace::Operation::Resume(resume), None);
        }
        if !self.received.is_empty() {
            let answers = std::mem::take(&mut self.received);
            let received = keyspace::Operation::Received { answers };
            self.push(Origin::Nobody, &received, None);
        }
        for (coordinator, OverOf { low, over }) in std::mem::take(&mut self.over) {
            let forget = Forget {
                coordinator,
                low,
                over,
            };
            self.push(Origin::Nobody, &keyspace::Operation::Forget(forget), None);
        }
    }

    /// Closes the open batch if it is full, or if a write cannot go with it.
    fn make_room(&mut self, is_write: bool) {
        let is_full = self.open.batch.byte_len() >= BATCH_BYTES_MAX;
        if is_full || is_write && self.open.is_apart {
            self.close();
        }
        if is_write && self.open.batch.writes.is_empty() {
            let (bytes, items) = self.room;
            self.open.batch.writes.reserve(bytes);
            self.open.items.reserve_exact(items);
        }
    }

    /// Takes an operation that writes.
    fn write(&mut self, origin: Origin, operation: &keyspace::Operation<'_>, slot: Option<Slot>) {
        self.make_room(true);
        self.push(origin, operation, slot);
    }

    /// The same, if there is room.
    fn push(&mut self, origin: Origin, operation: &keyspace::Operation<'_>, slot: Option<Slot>) {
        self.open.batch.writes.push(operation);
        let item = self.new_item(origin, false, slot);
        self.took(item);
    }

    /// Takes a read that waits for nothing.
    fn read_free(&mut self, origin: Origin, push: impl FnOnce(&mut BatchBuf)) {
        self.make_free_room();
        push(&mut self.free.batch);
        let item = self.new_item(origin, true, None);
        self.free.take(item, self.now);
    }

    /// Takes a read that no write goes with.
    fn read_apart(&mut self, origin: Origin, push: impl FnOnce(&mut BatchBuf)) {
        self.set_apart();
        push(&mut self.open.batch);
        let item = self.new_item(origin, true, None);
        self.took(item);
    }

    /// Opens a batch of reads alone: they are answered behind whatever came before.
    fn set_apart(&mut self) {
        self.make_room(false);
        if !self.open.batch.writes.is_empty() {
            self.close();
        }
        self.open.is_apart = true;
    }

    fn new_item(&mut self, origin: Origin, is_read: bool, slot: Option<Slot>) -> Item {
        self.items += 1;
        Item {
            connection: origin.connection(),
            origin: Some(origin),
            trip: None,
            is_read,
            since: self.now,
            slot,
            order: self.items,
            is_stale: false,
        }
    }

    /// The same of a write that goes in pieces if it has so many bytes.
    fn took_write(&mut self, mut item: Item, long_bytes_min: usize) {
        let mark = self.open.taken.1;
        match self.open.batch.take_long(mark, long_bytes_min) {
            None => self.took(item),
            Some(operation) if operation.len() > self.sizes.request_bytes_max => {
                self.refused.extend(item.origin.take());
            }
            Some(operation) => {
                let number = self.next_long;
                self.next_long += 1;
                self.staging.push_back(Long {
                    operation,
                    item,
                    number,
                    sent: 0,
                });
            }
        }
    }

    /// Whether a piece of what is long may be sent.
    fn can_stage(&self) -> bool {
        if self.staging.is_empty() || self.unanswered.len() >= WINDOW {
            return false;
        }
        let pieces = self
            .unanswered
            .iter()
            .filter(|sent| sent.is_piece && !sent.is_answered);
        pieces.count() < PIECES_MAX
    }

    /// Sends what is next of what is long.
    fn stage(&mut self) {
        while self.can_stage() {
            // What is short does not wait for it.
            self.close();
            let Some(long) = self.staging.front_mut() else {
                return;
            };
            let (number, whole) = (long.number, long.operation.len());
            if long.sent < whole {
                let bytes = long.operation.piece_at(long.sent, self.sizes.piece_bytes);
                self.open.batch.writes.push(&keyspace::Operation::Stage(Piece {
                    number,
                    whole_bytes: whole as u64,
                    offset: long.sent as u64,
                    bytes: &bytes,
                }));
                long.sent += bytes.len();
                self.open.is_piece = true;
                let item = self.new_item(Origin::Nobody, false, None);
                self.took(item);
            } else {
                let staged = keyspace::Operation::Staged { number };
                self.open.batch.writes.push(&staged);
                let long = self.staging.pop_front().expect("looked at a moment ago");
                self.open.long = Some(long.operation);
                self.took(long.item);
            }
            self.close();
        }
    }

    /// Nobody waits any more for what is long, and not all of it was sent: the group need not keep what it has of it.
    fn drop_long(&mut self, at: usize) -> Option<Item> {
        let long = self.staging.remove(at)?;
        if long.sent > 0 {
            let none = keyspace::Operation::Stage(Piece {
                number: long.number,
                whole_bytes: 0,
                offset: 0,
                bytes: &[],
            });
            self.write(Origin::Nobody, &none, None);
        }
        Some(long.item)
    }

    /// The open batch holds an item more, which may have been sent in another one before.
    fn took(&mut self, mut item: Item) {
        if self.open.batch.byte_len() > self.sizes.request_bytes_max {
            // What was open before is at most a full batch: it is this one.
            let (reads, writes) = self.open.taken;
            self.open.batch.reads.truncate(reads);
            self.open.batch.writes.cut(writes);
            self.refused.extend(item.origin.take());
            return;
        }
        let batch = &self.open.batch;
        self.open.taken = (batch.reads.len(), batch.writes.mark());
        self.open.take(item, self.now);
    }

    /// Closes the batch of free reads if it is full.
    fn make_free_room(&mut self) {
        if self.free.batch.byte_len() >= BATCH_BYTES_MAX {
            let free = std::mem::take(&mut self.free);
            self.queue(free, Ordering::Free);
        }
    }

    /// Closes the open batches, if anything is in them: that of the free reads first, since a write of the same connection
    /// may have come behind one of them.
    fn close(&mut self) {
        let free = std::mem::take(&mut self.free);
        self.queue(free, Ordering::Free);
        // Before what may wait for them.
        self.close_committed();
        if !self.open.batch.writes.is_empty() {
            self.tell_over();
        }
        let open = std::mem::take(&mut self.open);
        if !open.batch.writes.is_empty() {
            self.room = (
                open.batch.writes.byte_len().min(ROOM_BYTES_MAX),
                open.items.len().min(ROOM_MAX),
            );
        }
        self.queue(open, Ordering::InTurn);
    }

    fn queue(&mut self, open: Open, ordering: Ordering) {
        let Open {
            batch,
            items,
            since,
            oldest,
            has_again,
            is_piece,
            long,
            ..
        } = open;
        if items.is_empty() {
            return;
        }
        let mut batch = batch.finish();
        batch.is_free = ordering == Ordering::Free;
        batch.sequence = self.next_sequence;
        self.next_sequence += 1;
        if !batch.writes.is_empty() && ordering != Ordering::Unnumbered {
            batch.number = self.next_number;
            self.next_number += 1;
        }
        self.unanswered.push_back(Sent {
            batch,
            items,
            is_piece,
            long,
            since,
            oldest,
            was_sent: false,
            was_resent: false,
            has_again,
            sent_at: self.now,
            is_due: true,
            is_given_up: false,
            is_answered: false,
            is_told: false,
        });
    }

    /// At the turn's end, if a leader is known: hands every batch that is due to `send`, in order.
    pub fn dispatch(&mut self, mut send: impl FnMut(&Batch)) {
        let (generation, now) = (self.generation, self.now);
        if let Some(probe) = &mut self.probe {
            if std::mem::take(&mut probe.is_due) {
                probe.sent_at = now;
                send(&Batch {
                    generation,
                    number: PROBE,
                    ..Batch::default()
                });
            }
            return;
        }
        self.stage();
        if self.unanswered.len() < WINDOW {
            self.close();
        }
        // Answered ones leave from the front, so that what is due is at the back, or all of them are.
        let acknowledged = self.acknowledged;
        let mut behind = 0;
        for sent in self.unanswered.iter_mut().take(WINDOW) {
            if sent.is_due {
                sent.is_due = false;
                self.handed += 1;
                self.resent += u64::from(sent.was_sent);
                sent.was_resent = sent.was_sent;
                sent.was_sent = true;
                sent.sent_at = now;
                sent.batch.acknowledged = acknowledged;
                sent.batch.generation = generation;
                sent.batch.behind = if sent.batch.is_free { 0 } else { behind };
                send(&sent.batch);
            }
            if !sent.is_answered && sent.batch.number > 0 {
                behind = sent.batch.number;
            }
        }
    }

    /// Whether [`GroupClient::dispatch`] has anything to hand over.
    pub fn has_due(&self) -> bool {
        if let Some(probe) = &self.probe {
            return probe.is_due;
        }
        let has_window = self.unanswered.len() < WINDOW;
        let has_open =
            !self.open.items.is_empty() || !self.free.items.is_empty() || !self.committed.is_empty();
        has_window && has_open
            || self.can_stage()
            || self.unanswered.iter().take(WINDOW).any(|sent| sent.is_due)
    }

    /// The leader is another one, or was lost and found again: everything unanswered goes to it, once more.
    pub fn resend(&mut self, out: &mut Vec<Output>) {
        if let Some(probe) = &mut self.probe {
            probe.is_due = true;
        }
        self.close();
        for sent in &mut self.unanswered {
            sent.is_due = !sent.is_answered;
        }
        self.withdraw_overtaken(out);
        let late = self.late.iter();
        let mut all: Vec<(u64, Place)> = late
            .map(|(place, waiting)| (waiting.item.order, *place))
            .collect();
        all.sort_unstable();
        for (_, place) in all {
            // What was held behind another one was asked again with that.
            if self.late.contains_key(&place) {
                self.ask_again(place, out);
            }
        }
    }

    /// Asks for an answer that comes later: what wrote is asked for, what reads is read again.
    fn ask_again(&mut self, place: Place, out: &mut Vec<Output>) {
        if mutations::is(Mutation::LateAnswerTwice) && !place.is_read {
            return self.send_again(place);
        }
        if !place.is_read {
            let late = keyspace::Origin {
                gateway: self.gateway,
                number: place.batch,
                index: place.index,
            };
            return self.ask_for(place, |batch| batch.push_late(late));
        }
        let waiting = self.late.remove(&place).expect("the caller has seen it");
        let Waiting {
            mut item,
            reads: all,
            is_overtaken,
            ..
        } = waiting;
        let Some(origin) = &item.origin else { return };
        let is_behind =
            |other: &Item| !other.is_read && other.connection == item.connection && other.slot == item.slot;
        let mut others = self
            .unanswered
            .iter()
            .flat_map(|sent| &sent.items)
            .chain(&self.open.items)
            .filter(|_| item.slot.is_some());
        let has_written = item.connection.is_some()
            && (is_overtaken
                || others.any(is_behind)
                || self.late.values().any(|waiting| is_behind(&waiting.item)));
        if has_written && matches!(origin, Origin::Command(_)) {
            let origin = item.origin.take().expect("looked at above");
            return origin.fail(self.group, OVERTAKEN, None, out);
        }
        self.set_apart();
        let raw = reads(&all).expect("they were written here")[place.index as usize].raw;
        self.open.batch.push_again(raw);
        self.open.has_again = true;
        item.is_stale = false;
        let asked = item.outstanding(u64::MAX);
        self.took(item);
        // What was held behind it may be older than what it is answered now.
        let held = self.late_reads().filter(|(_, waiting)| waiting.held.is_some());
        let behind = held.filter(|(_, waiting)| asked.is_some_and(|asked| asked.is_before(&waiting.item)));
        if let Some((_, place)) = behind.map(|(place, waiting)| (waiting.item.order, *place)).min() {
            // Which asks for those behind it.
            self.ask_again(place, out);
        }
    }

    /// Asks what has become of something that is answered later.
    fn ask_for(&mut self, place: Place, push: impl FnOnce(&mut BatchBuf)) {
        self.read_free(Origin::Late(place), push);
        if let Some(waiting) = self.late.get_mut(&place) {
            waiting.asked_at = self.now;
        }
    }

    /// The reads among what is answered later.
    fn late_reads(&self) -> impl Iterator<Item = (&Place, &Waiting)> {
        let late = self.late.iter().rev();
        late.take_while(|(place, _)| place.is_read)
    }

    /// Reads of which clients were not told yet, but for those of the batch with this sequence.
    fn outstanding(&self, except: Option<u64>) -> impl Iterator<Item = Outstanding> {
        let unanswered = self.unanswered.iter();
        let sent = unanswered.filter(move |sent| !sent.is_answered && Some(sent.batch.sequence) != except);
        let sent = sent.flat_map(|sent| sent.items.iter().map(|item| (item, sent.batch.sequence)));
        let open = self.open.items.iter().chain(&self.free.items);
        let late = self
            .late_reads()
            .map(|(place, waiting)| (&waiting.item, place.batch));
        let all = sent.chain(open.map(|item| (item, u64::MAX))).chain(late);
        all.filter_map(|(item, sequence)| item.outstanding(sequence))
    }

    /// Whether a read that is answered with a batch may be behind one that is not.
    fn may_be_behind(&self, at: usize) -> bool {
        let is_free = self.unanswered[at].batch.is_free;
        let before = self.unanswered.iter().take(at);
        // What is free is behind nothing that is not, unless that is asked again.
        let mut before = before.filter(|sent| !sent.is_answered && (sent.batch.is_free || !is_free));
        before.any(|sent| !sent.batch.reads.is_empty())
            || self.open.has_again
            || self
                .unanswered
                .iter()
                .any(|sent| sent.has_again && !sent.is_answered)
            || self.late_reads().next().is_some()
    }

    /// Tells clients what was held, as far as nothing before it is outstanding.
    fn tell_held(&mut self, out: &mut Vec<Output>) {
        let held = self.late_reads().filter(|(_, waiting)| waiting.held.is_some());
        let mut held: Vec<(u64, Place)> = held
            .map(|(place, waiting)| (waiting.item.order, *place))
            .collect();
        if held.is_empty() {
            return;
        }
        held.sort_unstable();
        let mut outstanding: Vec<Outstanding> = self.outstanding(None).collect();
        for (order, place) in held {
            if outstanding
                .iter()
                .any(|other| other.is_before(&self.late[&place].item))
            {
                continue;
            }
            outstanding.retain(|other| other.order != order);
            let waiting = self.late.remove(&place).expect("it was found there");
            let journey = waiting.item.journey(self.now);
            if let (Some(origin), Some(bytes)) = (waiting.item.origin, &waiting.held) {
                let answer = Answers::new(bytes).next().expect("it was written here");
                origin.answer(self.group, answer, bytes, journey, out);
            }
        }
    }

    /// What was written with a batch was sent behind reads that wait still: asked again, these would see it.
    fn note_overtaken(&mut self, at: usize) {
        for write in self.unanswered[at].items.iter().filter(|item| !item.is_read) {
            let place = (write.connection, write.slot);
            let late = self.late.values_mut().rev();
            for waiting in late.take_while(|waiting| waiting.item.is_read) {
                let item = &waiting.item;
                waiting.is_overtaken |=
                    item.slot.is_some() && (item.connection, item.slot) == place && item.order < write.order;
            }
        }
    }

    /// A batch was answered that had been sent again. What was sent again behind its reads may be answered yet as it was the
    /// first time, with what is older.
    fn note_stale(&mut self, at: usize) {
        let (told, behind) = self.unanswered.make_contiguous().split_at_mut(at + 1);
        let told = &told[at];
        for sent in behind
            .iter_mut()
            .filter(|sent| sent.was_resent && !sent.is_answered)
        {
            for item in &mut sent.items {
                let place = (item.connection, item.slot);
                let is_same = |other: &Item| {
                    other.is_read && (other.connection, other.slot) == place && other.order < item.order
                };
                item.is_stale |= item.is_read
                    && item.connection.is_some()
                    && item.slot.is_some()
                    && told.items.iter().any(is_same);
            }
        }
    }

    /// Asks whether a read waits still. If not, its answer was lost on its way.
    fn look_after(&mut self, place: Place) {
        if !place.is_read {
            let mut ignored = Vec::new();
            return self.ask_again(place, &mut ignored);
        }
        self.ask_for(place, |batch| batch.push_parked(place.batch, place.index));
    }

    /// The mistake of [`Mutation::LateAnswerTwice`].
    fn send_again(&mut self, place: Place) {
        let Some(waiting) = self.late.remove(&place) else {
            return;
        };
        let Some(origin) = waiting.item.origin else { return };
        self.make_room(true);
        let (writes, mut at) = (&mut self.open.batch.writes, 0);
        let is_read = keyspace::Operations::read(&waiting.reads, |operation| {
            if at == place.index {
                writes.push(&operation);
            }
            at += 1;
        });
        assert!(is_read.is_some(), "it was written here");
        let item = self.new_item(origin, false, waiting.item.slot);
        let trip = waiting.item.trip;
        self.took(Item { trip, ..item });
    }

    /// An answer has come later than its batch.
    fn on_late(&mut self, place: Place, bytes: &FrozenRope, out: &mut Vec<Output>) -> bool {
        let Some(waiting) = self.late.get(&place) else {
            // It was asked for, and both ways brought it.
            return true;
        };
        let mut answers = Answers::new(bytes);
        let Ok(answer) = answers.next() else { return false };
        if !answers.is_over() || answer == Answer::Later {
            return false;
        }
        let item = &waiting.item;
        if item
            .origin
            .as_ref()
            .is_some_and(|origin| !origin.expects(&answer))
        {
            return false;
        }
        let before = self.outstanding(None).filter(|other| other.is_before(item));
        if let Some(newest) = before.map(|other| other.sequence).max() {
            if newest > place.batch {
                // What is before it is asked again, and will be answered what is newer.
                self.ask_again(place, out);
            } else if let Some(waiting) = self.late.get_mut(&place) {
                waiting.held = Some(bytes.clone());
            }
            return true;
        }
        let waiting = self.late.remove(&place).expect("looked at a moment ago");
        if !place.is_read {
            self.received.push((place.batch, place.index));
            self.untold_since.get_or_insert(self.now);
        }
        let journey = waiting.item.journey(self.now);
        if let Some(origin) = waiting.item.origin {
            origin.answer(self.group, answer, bytes, journey, out);
        }
        self.tell_held(out);
        true
    }

    /// Nothing is known of what is answered later: the group lost its state, or whoever was asked has answered before.
    fn on_gone(&mut self, place: Place, out: &mut Vec<Output>) {
        if place.is_read && self.late.contains_key(&place) {
            return self.ask_again(place, out);
        }
        if let Some(waiting) = self.late.remove(&place)
            && let Some(origin) = waiting.item.origin
        {
            origin.fail(self.group, UNKNOWN, None, out);
        }
    }

    /// Answers reads that were sent before, if what their connection sent behind them may have been applied: also in the same
    /// batch, of which the writes are not applied again.
    fn withdraw_overtaken(&mut self, out: &mut Vec<Output>) {
        let (now, slow) = (self.now, self.slow);
        // The writes behind: their connections and slots.
        let mut written = BTreeSet::new();
        for sent in self.unanswered.iter_mut().rev().filter(|sent| sent.was_sent) {
            for index in (0..sent.items.len()).rev() {
                let item = &sent.items[index];
                let place = (item.connection, item.slot);
                if !item.is_read {
                    written.insert(place);
                    continue;
                }
                let is_overtaken = item.slot.is_some() && written.contains(&place);
                if !sent.is_due || !is_overtaken || !matches!(item.origin, Some(Origin::Command(_))) {
                    continue;
                }
                let journey = sent.journey(index, now, slow);
                let origin = sent.items[index].origin.take().expect("looked at a moment ago");
                origin.fail(self.group, OVERTAKEN, journey, out);
            }
        }
    }

    /// The leader's word on the batch of this number in the group client's own count. `false` if the bytes are not what a leader
    /// writes, which counts as no answer.
    pub fn on_outcome(&mut self, sequence: u64, outcome: &BatchOutcome, out: &mut Vec<Output>) -> bool {
        if let BatchOutcome::Deferred {
            is_read,
            index,
            bytes,
        } = outcome
        {
            let place = Place {
                is_read: *is_read,
                batch: sequence,
                index: *index,
            };
            return self.on_late(place, bytes, out);
        }
        if self.probe.is_some() {
            // Nothing else was sent in this generation.
            if let BatchOutcome::Gap { applied } = outcome
                && sequence == 0
            {
                self.on_probed(*applied, out);
            }
            return true;
        }
        let Some(first) = self.unanswered.front().map(|sent| sent.batch.sequence) else {
            return true;
        };
        let found = sequence
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok());
        // A batch that was sent twice is answered twice.
        let Some(at) = found.filter(|&at| at < self.unanswered.len()) else {
            return true;
        };
        let mut outstanding = match outcome {
            BatchOutcome::Done(_) if self.may_be_behind(at) => self.outstanding(Some(sequence)).collect(),
            _ => Vec::new(),
        };
        let (sent, group) = (&mut self.unanswered[at], self.group);
        let (now, slow) = (self.now, self.slow);
        match outcome {
            BatchOutcome::NotLeader { .. } => return true,
            BatchOutcome::Gap { applied } => {
                if mutations::is(Mutation::RenumberedWithoutLoss) {
                    self.on_probed(*applied, out);
                    return true;
                }
                // One before it is on its way, or was lost there: sent again, they come in order.
                self.resend(out);
                return true;
            }
            BatchOutcome::Evicted => {
                let (waits, ends) = sent.waits();
                sent.fail(group, |_| UNKNOWN, now, slow, out);
                ends.into_iter()
                    .for_each(|reply_to| self.lose_wait(reply_to, out));
                // Nothing is to be popped for who was told an error.
                waits.into_iter().for_each(|reply_to| self.end_wait(reply_to));
            }
            BatchOutcome::Done(bytes) => {
                let mut late = Vec::new();
                let was_answered = sent.is_answered;
                if !was_answered && !sent.answer(group, bytes, (now, slow), &mut outstanding, &mut late, out)
                {
                    return false;
                }
                let was_resent = sent.was_resent;
                sent.is_answered = true;
                if was_resent && !was_answered {
                    self.note_stale(at);
                }
                self.note_overtaken(at);
                self.on_later(late, out);
            }
            BatchOutcome::Deferred { .. } => unreachable!("looked at above"),
        }
        let sent = &mut self.unanswered[at];
        sent.is_answered = true;
        sent.is_due = false;
        while let Some(sent) = self.unanswered.pop_front_if(|sent| sent.is_answered) {
            self.acknowledged = self.acknowledged.max(sent.batch.number);
        }
        self.tell_held(out);
        true
    }

    /// Some items of a batch were not answered with it.
    fn on_later(&mut self, late: Vec<Later>, out: &mut Vec<Output>) {
        for later in late {
            match later {
                Later::Waits {
                    place,
                    waiting,
                    is_stale,
                } => {
                    self.late.insert(place, waiting);
                    if is_stale {
                        self.ask_again(place, out);
                    }
                }
                Later::Came(place, bytes) => {
                    self.on_late(place, &bytes, out);
                }
                Later::Gone(place) => self.on_gone(place, out),
            }
        }
    }

    /// Bytes of a long message have moved on the link with the leader's node: what is waited for may be behind them, or among
    /// them.
    pub fn on_moving(&mut self) {
        self.moved_at = Some(self.now);
    }

    /// How much longer than usual is waited.
    fn time_of_long_messages(&self) -> Duration {
        let is_moving = self.moved_at.is_some_and(|at| self.now.since(at) < MOVING);
        let moving = if is_moving {
            MOVING_PATIENCE
        } else {
            Duration::ZERO
        };
        // Those that follow each other are waited for together, and what goes in pieces counts until it is answered.
        let sent = self.unanswered.iter().map(|sent| {
            let long = sent.long.as_ref().map_or(0, FrozenRope::len);
            sent.batch.byte_len() + long
        });
        let staged = self.staging.iter().map(|long| long.operation.len());
        moving.max(time_of(sent.chain(staged).sum()))
    }

    /// Tells clients that waited too long, and sends again what nobody has answered for a while: it may be lost on a link
    /// that had no room. Called once a tick.
    pub fn give_up(&mut self, out: &mut Vec<Output>) {
        let (slow, group) = (self.slow, self.group);
        for origin in std::mem::take(&mut self.refused) {
            origin.fail(group, TOO_LONG, None, out);
        }
        // As if it were earlier by what long messages take.
        let now = Monotonic(
            self.now
                .0
                .saturating_sub(self.time_of_long_messages().as_nanos() as u64),
        );
        let is_late = |sent: &Sent| sent.was_sent && now.since(sent.sent_at) >= RETRY;
        let is_unheard = |probe: &Probe| !probe.is_due && now.since(probe.sent_at) >= RETRY;
        if self.unanswered.front().is_some_and(is_late) || self.probe.as_ref().is_some_and(is_unheard) {
            self.resend(out);
        }
        let is_quiet = |waiting: &Waiting| {
            if waiting.held.is_some() {
                return false;
            }
            let is_wait = matches!(waiting.item.origin, Some(Origin::Wait(_)));
            now.since(waiting.asked_at) >= if is_wait { WAIT_RETRY } else { RETRY }
        };
        let quiet = self.late.iter().filter(|(_, waiting)| is_quiet(waiting));
        let quiet: Vec<Place> = quiet.map(|(place, _)| *place).collect();
        quiet.into_iter().for_each(|place| self.look_after(place));
        for waiting in self.late.values_mut() {
            // A vote is waited for as long as its coordinator does, and a key as long as its client.
            let has_patience = waiting.item.is_of_transaction() || waiting.item.is_wait();
            // What is held is told behind who is given up.
            let has_patience = has_patience || waiting.held.is_some();
            let is_given_up = waiting.item.is_overdue(now) && !has_patience;
            if let Some(origin) = waiting.item.origin.take_if(|_| is_given_up) {
                let error = if waiting.item.is_read {
                    UNREACHABLE
                } else {
                    UNKNOWN
                };
                origin.fail(group, error, None, out);
            }
        }
        // A read that nobody waits for is forgotten; of what writes the answer is to be acknowledged.
        self.late
            .retain(|place, waiting| !place.is_read || waiting.item.origin.is_some());
        if self
            .untold_since
            .is_some_and(|since| self.now.since(since) >= TELL_AFTER)
        {
            self.make_room(true);
            self.tell_over();
        }
        while let Some(at) = self.staging.iter().position(|long| long.item.is_overdue(now)) {
            if let Some(Item {
                origin: Some(origin), ..
            }) = self.drop_long(at)
            {
                origin.fail(group, UNREACHABLE, None, out);
            }
        }
        // With nobody in reach nothing else closes it.
        let is_old = |open: &Open| !open.items.is_empty() && now.since(open.since) >= PATIENCE;
        if is_old(&self.open) || is_old(&self.free) {
            self.close();
        }
        for open in [&mut self.open, &mut self.free] {
            if now.since(open.oldest) >= PATIENCE {
                let items = open.items.iter_mut();
                items.for_each(|item| item.give_up_read(group, now, out));
            }
        }
        let (received, over, resumes) = (&mut self.received, &mut self.over, &mut self.resumes);
        let (mut given_up, mut ends) = (Vec::new(), Vec::new());
        for sent in &mut self.unanswered {
            if !sent.is_answered && now.since(sent.oldest) >= PATIENCE {
                let items = sent.items.iter_mut();
                items.for_each(|item| item.give_up_read(group, now, out));
            }
            if sent.is_given_up || sent.is_answered || now.since(sent.since) < PATIENCE {
                continue;
            }
            sent.is_given_up = true;
            let was_sent = sent.was_sent;
            let (begun, ended) = sent.waits();
            given_up.extend(begun);
            ends.extend(ended.into_iter().map(|reply_to| (reply_to, was_sent)));
            let error = |item: &Item| {
                if was_sent && !item.is_read {
                    UNKNOWN
                } else {
                    UNREACHABLE
                }
            };
            sent.fail(group, error, now, slow, out);
            if !was_sent {
                // Nobody has seen it: its number stays, and nothing is in it. What the group need not keep is told later.
                let is_read = keyspace::Operations::read(&sent.batch.writes, |operation| match operation {
                    keyspace::Operation::Received { answers } => received.extend(answers),
                    keyspace::Operation::Resume(resume) => {
                        resumes.get_or_insert(resume.up_to);
                    }
                    keyspace::Operation::Forget(forget) => {
                        let of: &mut OverOf = over.entry(forget.coordinator).or_default();
                        of.low = of.low.max(forget.low);
                        of.over.extend(forget.over);
                    }
                    _ => {}
                });
                assert!(is_read.is_some(), "it was written here");
                self.untold_since.get_or_insert(now);
                sent.batch.writes = Bytes::new();
                sent.batch.reads = Bytes::new();
                sent.items.clear();
            }
        }
        // They may be entered yet: nothing is to be popped for who was told an error.
        given_up.into_iter().for_each(|reply_to| self.end_wait(reply_to));
        for (reply_to, was_sent) in ends {
            self.lose_wait(reply_to, out);
            if !was_sent {
                self.end_wait(reply_to);
            }
        }
        self.tell_held(out);
    }

    /// The group does not say whether it has let go of a client that is not to wait any more: the client is told so, unless
    /// its wait was answered meanwhile.
    fn lose_wait(&mut self, reply_to: ReplyTo, out: &mut Vec<Output>) {
        let sent = self.unanswered.iter_mut().flat_map(|sent| &mut sent.items);
        let late = self.late.values_mut().map(|waiting| &mut waiting.item);
        for item in sent.chain(late) {
            let is_its = |origin: &mut Origin| matches!(origin, Origin::Wait(own) if *own == reply_to);
            if let Some(origin) = item.origin.take_if(is_its) {
                origin.fail(self.group, UNKNOWN, None, out);
            }
        }
    }

    /// Refuses a command at once, because nobody leads its group.
    pub fn refuse(&self, reply_to: ReplyTo, out: &mut Vec<Output>) {
        Origin::Command(reply_to).fail(self.group, UNREACHABLE, None, out);
    }
}

impl Sent {
    /// The clients whose commands would wait, and those of which it says that they do not wait any more.
    fn waits(&self) -> (Vec<ReplyTo>, Vec<ReplyTo>) {
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for item in &self.items {
            match item.origin {
                Some(Origin::Wait(reply_to)) => begun.push(reply_to),
                Some(Origin::EndWait(reply_to)) => ended.push(reply_to),
                _ => {}
            }
        }
        (begun, ended)
    }

    /// Answers all items that were not answered yet.
    fn fail(
        &mut self,
        group: GroupId,
        error: impl Fn(&Item) -> &'static str,
        now: Monotonic,
        slow: Option<Duration>,
        out: &mut Vec<Output>,
    ) {
        for index in 0..self.items.len() {
            let error = error(&self.items[index]);
            if let Some(origin) = self.items[index].origin.take() {
                let journey = self.journey(index, now, slow);
                origin.fail(group, error, journey, out);
            }
        }
    }

    /// What one of the items took, if it is measured. If it was slow, with its words, unless those of another stand for it:
    /// what is sent together waits together, and a cluster that has more to do than it can must not write it down besides.
    fn journey(&mut self, index: usize, now: Monotonic, slow: Option<Duration>) -> Option<Journey> {
        let mut journey = self.items[index].journey(now)?;
        let is_slow = slow.is_some_and(|slow| journey.took >= slow);
        if is_slow && (!self.is_told || slow < Some(EACH_BELOW)) {
            self.is_told = true;
            journey.words = Some(Box::new(self.words(index)));
        }
        Some(journey)
    }

    fn words(&self, index: usize) -> SentWords {
        if let Some(long) = self.long.as_ref().filter(|_| index == 0) {
            return SentWords::of_long(long);
        }
        let is_read = self.items[index].is_read;
        let before = self.items[..index].iter().filter(|item| item.is_read == is_read);
        SentWords::new(&self.batch, is_read, before.count())
    }

    /// An item that is not answered with the batch.
    fn waiting(&self, index: usize, origin: Option<Origin>, now: Monotonic) -> Waiting {
        let item = Item {
            origin,
            ..self.items[index]
        };
        let reads = if item.is_read {
            self.batch.reads.clone()
        } else if mutations::is(Mutation::LateAnswerTwice) {
            self.batch.writes.clone()
        } else {
            Bytes::new()
        };
        Waiting {
            item,
            reads,
            asked_at: now,
            held: None,
            is_overtaken: false,
        }
    }

    /// Whether what has come for a read is not to be told yet, or not at all.
    fn must_wait(&self, index: usize, outstanding: &[Outstanding]) -> bool {
        let item = &self.items[index];
        if mutations::is(Mutation::ReadToldEarly) {
            return false;
        }
        item.is_stale || outstanding.iter().any(|other| other.is_before(item))
    }

    /// Answers all items with what the group answered. `false` if these are not their answers.
    fn answer(
        &mut self,
        group: GroupId,
        bytes: &FrozenRope,
        (now, slow): (Monotonic, Option<Duration>),
        outstanding: &mut Vec<Outstanding>,
        late: &mut Vec<Later>,
        out: &mut Vec<Output>,
    ) -> bool {
        let mut answers = Answers::new(bytes);
        let mut all = Vec::with_capacity(self.items.len());
        for item in &self.items {
            match answers.next() {
                Ok(answer)
                    if answer == Answer::Later
                        || item.origin.as_ref().is_none_or(|origin| origin.expects(&answer)) =>
                {
                    all.push(answer);
                }
                Ok(_) | Err(_) => return false,
            }
        }
        if !answers.is_over() {
            return false;
        }
        let (mut reads, mut writes) = (0, 0);
        for (index, answer) in all.into_iter().enumerate() {
            let is_read = self.items[index].is_read;
            let count = if is_read { &mut reads } else { &mut writes };
            let place = Place {
                is_read,
                batch: if is_read {
                    self.batch.sequence
                } else {
                    self.batch.number
                },
                index: *count,
            };
            *count += 1;
            let origin = self.items[index].origin.take();
            match (origin, answer) {
                (Some(Origin::Late(_)), Answer::Later) => {}
                (origin, Answer::Later) => {
                    let waiting = self.waiting(index, origin, now);
                    if let Some(Origin::Wait(reply_to)) = waiting.item.origin {
                        out.push(Output::Waits { reply_to });
                    }
                    outstanding.extend(waiting.item.outstanding(self.batch.sequence));
                    late.push(Later::Waits {
                        place,
                        waiting,
                        is_stale: false,
                    });
                }
                (Some(Origin::Late(place)), Answer::Gone) => late.push(Later::Gone(place)),
                (Some(Origin::Late(place)), answer) => {
                    // As the leader would have sent it by itself.
                    late.push(Later::Came(place, answer.to_rope()));
                }
                (Some(origin), answer) if self.must_wait(index, outstanding) => {
                    let mut waiting = self.waiting(index, Some(origin), now);
                    let (item, sequence) = (&waiting.item, self.batch.sequence);
                    let mut before = outstanding.iter().filter(|other| other.is_before(item));
                    // As old as the first time it was sent, or older than what one before it is answered now.
                    let is_stale =
                        item.is_stale || self.was_resent || before.any(|other| other.sequence > sequence);
                    outstanding.extend(item.outstanding(if is_stale { u64::MAX } else { sequence }));
                    waiting.held = (!is_stale).then(|| answer.to_rope());
                    late.push(Later::Waits {
                        place,
                        waiting,
                        is_stale,
                    });
                }
                (Some(origin), answer) => {
                    let journey = self.journey(index, now, slow);
                    origin.answer(group, answer, bytes, journey, out);
                }
                (None, _) => {}
            }
        }
        true
    }
}

/// What was not answered with its batch, or came with a later one.
enum Later {
    /// Perhaps with an answer that is not to be told yet; what is stale is to be asked again.
    Waits {
        place: Place,
        waiting: Waiting,
        is_stale: bool,
    },
    Came(Place, FrozenRope),
    Gone(Place),
}

impl Outstanding {
    /// Whether a read is to be told behind it.
    fn is_before(&self, item: &Item) -> bool {
        self.order < item.order
            && item.is_read
            && item.connection == Some(self.connection)
            && item.slot == Some(self.slot)
    }
}

impl Item {
    /// A read of which the client is to be told, in a batch with this sequence.
    fn outstanding(&self, sequence: u64) -> Option<Outstanding> {
        if !self.is_read || !matches!(self.origin, Some(Origin::Command(_))) {
            return None;
        }
        Some(Outstanding {
            connection: self.connection?,
            slot: self.slot?,
            order: self.order,
            sequence,
        })
    }

    /// Whether it has waited for too long.
    fn is_overdue(&self, now: Monotonic) -> bool {
        now.since(self.since) >= PATIENCE
    }

    /// Tells the client of a read that has waited for too long, in whichever batches.
    fn give_up_read(&mut self, group: GroupId, now: Monotonic, out: &mut Vec<Output>) {
        let is_given_up = self.is_read && self.is_overdue(now);
        let journey = self.journey(now);
        if let Some(origin) = self.origin.take_if(|_| is_given_up) {
            origin.fail(group, UNREACHABLE, journey, out);
        }
    }

    /// What it took, if it is measured.
    fn journey(&self, now: Monotonic) -> Option<Journey> {
        let (spec, began) = self.trip?;
        Some(Journey {
            spec,
            took: now.since(began),
            words: None,
        })
    }

    /// Whether it waits for a key.
    fn is_wait(&self) -> bool {
        matches!(self.origin, Some(Origin::Wait(_)))
    }

    /// Whether a coordinator waits for it, and gives up by itself.
    fn is_of_transaction(&self) -> bool {
        matches!(
            self.origin,
            Some(Origin::Vote(_) | Origin::Lock(_) | Origin::Decision(..) | Origin::TxnQuery(..))
        )
    }
}

impl Origin {
    /// The worker and connection of a client.
    fn connection(&self) -> Option<(u16, u64)> {
        match self {
            Origin::Command(reply_to)
            | Origin::Wait(reply_to)
            | Origin::Block(reply_to)
            | Origin::Versions(reply_to, _) => Some((reply_to.worker, reply_to.connection)),
            _ => None,
        }
    }

    /// Whether a group answers so to it.
    fn expects(&self, answer: &Answer<'_>) -> bool {
        match self {
            // Of the others none waits, or comes in pieces.
            Origin::Command(_)
            | Origin::Wait(_)
            | Origin::Part(_)
            | Origin::Vote(_)
            | Origin::Lock(_)
            | Origin::Block(_)
            | Origin::Versions(..)
            | Origin::SnapshotRead(_)
            | Origin::Objects(_)
                if matches!(answer, Answer::CrowdedOut | Answer::TooLong) =>
            {
                true
            }
            Origin::Command(_) | Origin::Wait(_) | Origin::EndWait(_) | Origin::Part(_) => {
                matches!(answer, Answer::Reply(_) | Answer::Long(_))
            }
            // A block of one command answers as that does.
            Origin::Block(_) => !matches!(answer, Answer::Versions(_)),
            Origin::Versions(_, indices) => {
                matches!(answer, Answer::Versions(versions) if versions.len() == indices.len())
            }
            Origin::Vote(_) | Origin::Lock(_) | Origin::TxnQuery(..) => {
                let first = match answer {
                    Answer::Reply(reply) => Some(*reply),
                    Answer::Block(replies) => replies.first().copied(),
                    _ => None,
                };
                first.is_some_and(|first| first.len() == 1)
            }
            Origin::Decision(..) | Origin::Decisions(_) => {
                matches!(answer, Answer::Reply(_) | Answer::Block(_))
            }
            Origin::SnapshotRead(_) => matches!(answer, Answer::Seen { .. }),
            Origin::Objects(_) => matches!(answer, Answer::Seen { .. } | Answer::SeenObjects { .. }),
            Origin::Late(_) | Origin::Nobody => true,
        }
    }

    /// Tells whoever asked. `bytes` hold the answer.
    fn answer(
        self,
        group: GroupId,
        answer: Answer<'_>,
        bytes: &FrozenRope,
        journey: Option<Journey>,
        out: &mut Vec<Output>,
    ) {
        if let (Answer::CrowdedOut, Origin::Vote(txn) | Origin::Lock(txn)) = (&answer, &self) {
            return out.push(Output::Voted {
                txn: *txn,
                group,
                vote: Vote::Refused(Refusal::Busy),
                is_logged: false,
                replies: Replies::default(),
            });
        }
        if answer == Answer::CrowdedOut {
            return self.fail(group, CROWDED_OUT, journey, out);
        }
        if answer == Answer::TooLong {
            return self.fail(group, READ_TOO_LONG, journey, out);
        }
        if let Origin::Decisions(recorded) = self {
            out.extend(recorded.into_iter().map(|(txn, worker)| Output::Decided {
                txn,
                group,
                replies: Replies::default(),
                worker,
            }));
            return;
        }
        out.push(match (self, answer) {
            (Origin::Command(reply_to) | Origin::Wait(reply_to), Answer::Reply(reply)) => Output::Replied {
                reply_to,
                reply: kept_reply(bytes.bytes(), reply).into(),
                journey,
            },
            (Origin::Command(reply_to) | Origin::Wait(reply_to), Answer::Long(reply)) => Output::Replied {
                reply_to,
                reply,
                journey,
            },
            (Origin::Block(reply_to), Answer::Refused) => Output::Answered {
                reply_to,
                replies: None,
            },
            (Origin::Block(reply_to), answer) => Output::Answered {
                reply_to,
                replies: answer.texts().map(Replies::of),
            },
            (Origin::Versions(reply_to, indices), Answer::Versions(versions)) => Output::Versions {
                reply_to,
                versions: indices.into_iter().zip(versions).collect(),
            },
            (Origin::Part(txn), Answer::Reply(reply)) => Output::Resolved {
                txn,
                group,
                replies: Replies::of([reply]),
            },
            (Origin::Part(txn), Answer::Long(reply)) => Output::Resolved {
                txn,
                group,
                replies: Replies::of([&reply.to_bytes()[..]]),
            },
            (Origin::Decision(txn, worker), answer) => Output::Decided {
                txn,
                group,
                replies: Replies::of(answer.texts().unwrap_or_default()),
                worker,
            },
            (Origin::Vote(txn), answer) => {
                let replies = answer.texts().unwrap_or_default();
                Output::Voted {
                    txn,
                    group,
                    vote: Vote::of_code(replies[0][0]),
                    is_logged: true,
                    replies: Replies::of(replies[1..].iter().copied()),
                }
            }
            (Origin::Lock(txn), answer) => {
                let replies = answer.texts().unwrap_or_default();
                let time = replies
                    .get(1)
                    .and_then(|time| Some(i64::from_le_bytes((*time).try_into().ok()?)));
                let seen = |seen: &&[u8]| read_seen(&kept_reply(bytes.bytes(), seen).into());
                let objects = replies.iter().skip(2).map(seen);
                let objects: Option<Vec<_>> = objects.map(|seen| seen.map(|(object, _)| object)).collect();
                match (Vote::of_code(replies[0][0]), time.zip(objects)) {
                    (Vote::Prepared, Some((time, objects))) => Output::Locked {
                        txn,
                        group,
                        is_logged: true,
                        time: UnixMillis(time),
                        objects,
                    },
                    (Vote::Prepared, None) => Output::FailedPart {
                        txn,
                        group,
                        error: UNKNOWN,
                    },
                    (vote, _) => Output::Voted {
                        txn,
                        group,
                        vote,
                        is_logged: true,
                        replies: Replies::default(),
                    },
                }
            }
            (Origin::TxnQuery(txn, worker), answer) => {
                let replies = answer.texts().unwrap_or_default();
                Output::QueriedTxn {
                    txn,
                    group,
                    vote_record: VoteRecord::of_code(replies[0][0]).unwrap_or(VoteRecord::Over),
                    worker,
                }
            }
            (
                Origin::SnapshotRead(txn),
                Answer::Seen {
                    age,
                    is_carried_out,
                    replies,
                    ..
                },
            ) => Output::Seen {
                txn,
                group,
                seen: Seen {
                    replies: is_carried_out.then(|| Replies::of(replies)),
                    age,
                },
            },
            (
                Origin::Objects(txn),
                Answer::Seen {
                    age, time, replies, ..
                },
            ) => {
                let seen = |seen: &[u8]| read_seen(&kept_reply(bytes.bytes(), seen).into());
                fetched(txn, group, age, time, replies.into_iter().map(seen).collect())
            }
            (Origin::Objects(txn), Answer::SeenObjects { age, time, seen }) => {
                fetched(txn, group, age, time, seen.iter().map(read_seen).collect())
            }
            // What became of the wait is its own answer.
            (Origin::Nobody | Origin::EndWait(_), _) => return,
            (origin, answer) => unreachable!("{origin:?} does not expect {answer:?}"),
        });
    }

    fn fail(self, group: GroupId, error: &'static str, journey: Option<Journey>, out: &mut Vec<Output>) {
        out.push(match self {
            Origin::Command(reply_to) | Origin::Wait(reply_to) | Origin::Block(reply_to) => Output::Failed {
                reply_to,
                error,
                journey,
            },
            Origin::Versions(reply_to, _) => Output::FailedWatch { reply_to, error },
            Origin::Part(txn)
            | Origin::Vote(txn)
            | Origin::Lock(txn)
            | Origin::SnapshotRead(txn)
            | Origin::Objects(txn) => Output::FailedPart { txn, group, error },
            Origin::Decision(txn, worker) => Output::Undecided { txn, group, worker },
            Origin::Decisions(committed) => {
                let undecided = |(txn, worker)| Output::Undecided { txn, group, worker };
                return out.extend(committed.into_iter().map(undecided));
            }
            // Whoever recovers a transaction asks again. Of a wait that is to end, the wait itself is told.
            Origin::TxnQuery(..) | Origin::Late(_) | Origin::EndWait(_) | Origin::Nobody => return,
        });
    }
}

/// By which a group knows who waits.
fn wait_id(reply_to: ReplyTo) -> WaitId {
    WaitId {
        worker: reply_to.worker,
        connection: reply_to.connection,
        sequence: reply_to.sequence,
    }
}

/// A reply among the answers that it came with. A client that does not read must keep no more than what it is told, and a value that
/// goes to another group no more than itself: a long reply that is less than half of them is copied. A shorter one is copied into the output of its connection anyway, and soon.
fn kept_reply(answers: &Bytes, reply: &[u8]) -> Bytes {
    if reply.len() >= COPIED_BYTES_MIN && reply.len() < answers.len() / 2 {
        return Bytes::copy_from_slice(reply);
    }
    answers.slice_ref(reply)
}

/// What was read, if it can be.
fn fetched(
    txn: TxnId,
    group: GroupId,
    age: Duration,
    time: UnixMillis,
    objects: Option<Vec<(Option<SeenObject>, KeyVersion)>>,
) -> Output {
    match objects {
        Some(objects) => Output::Fetched {
            txn,
            group,
            objects,
            age,
            time,
        },
        None => Output::FailedPart {
            txn,
            group,
            error: UNKNOWN,
        },
    }
}

/// The slot of a command's first key.
fn first_slot(spec: &'static Spec, args: Args<'_>) -> Option<Slot> {
    if let Some(position) = command::only_key(spec) {
        return args.get(position).map(Slot::of_key);
    }
    let mut first = None;
    command::keys(spec, args, &mut |position, _| {
        first.get_or_insert_with(|| Slot::of_key(args.arg(position)));
    });
    first
}
