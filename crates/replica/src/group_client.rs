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
//! 6. What a closed batch holds keeps its place, or all of it goes: it is answered by the order of its items, and a read names
//!    the writes before it by their count.

mod asked;
mod deferred;
mod item;
mod moved;
mod sent;
mod staging;
mod untold;

pub use self::asked::{Asked, PieceSizes, time_of};
pub use self::item::{CROWDED_OUT, FULL, TOO_LONG, UNREACHABLE};

use self::asked::first_slot;
use self::deferred::{Deferred, DeferredId};
use self::item::{Item, Origin, unknown, wait_id};
use self::moved::MovedItem;
use self::sent::Sent;
use self::staging::{Next, Staging};
use self::untold::Untold;
use crate::batch::{Batch, BatchBuf};
use crate::operation::{Condition, Operation, as_conditions};
use crate::request::{Assignment, FullKey, IndexedKey, Output, Part, ReplyTo, SnapshotAsker};
use crate::response::BatchOutcome;
use bytes::Bytes;
use command::{CommandId, Flags};
use ids::{GatewayId, GroupId, Monotonic, SemanticsVersion, Slot};
use keyspace::{ArrivingPiece, ClientRequest, OperationsMark, Piece, QueryTxn, Resolve};
use mutations::Mutation;
use resp::FrozenRope;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use txn::{Participants, TxnId};

/// How long a client waits for a leader of its keys to be found.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer is waited for before the batch is sent again.
const RETRY: Duration = Duration::from_secs(1);

/// How much longer is waited while bytes of a long message come from the leader's node, or go there, and while the group takes
/// pieces of what is long: however slow its disks are, somebody leads it.
const MOVING_PATIENCE: Duration = Duration::from_secs(60);

/// How long after the last of them that is so.
const MOVING: Duration = Duration::from_millis(500);

/// Batches that are on their way to the leader. At the limit what comes gathers in the open one: the group remembers the
/// answers of twice as many and no more ([`keyspace::UNACKNOWLEDGED_MAX`]).
const WINDOW: usize = 32;

/// Bytes after which a batch is closed and the next begun: what is sent as one frame must not hold others up.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Pieces of long operations that are under way to a group: one is carried out while the next is on its way.
const PIECES_MAX: usize = 2;

/// Bytes, and items, that room is made for when a batch is begun. What is made room for and not used stays with the batch until
/// it is answered.
const ROOM_BYTES_MAX: usize = 16 * 1024;
const ROOM_MAX: usize = 256;

/// The number of a batch that asks how far a group has applied those of this node: no other has it, so that it is never the
/// next one, and is always answered by a gap. It goes through the log: what comes behind it stands behind what it was told.
const PROBE: u64 = u64::MAX;

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

/// When something last came forward that takes long.
#[derive(Default)]
struct Moving {
    /// Bytes of a long message moved on the link with the leader's node.
    message: Option<Monotonic>,
    /// The group took a piece of what is long.
    piece: Option<Monotonic>,
}

impl Moving {
    fn is_on(&self, now: Monotonic) -> bool {
        let is_within = |at: Option<Monotonic>, time| at.is_some_and(|at| now.since(at) < time);
        is_within(self.message, MOVING) || is_within(self.piece, PATIENCE)
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
    staging: Staging,
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
    /// The rules that commands are written by.
    semantics: SemanticsVersion,
    moving: Moving,
    /// Of a command that takes so long, the words are told with the answer.
    slow: Option<Duration>,
    /// Batches that were handed to somebody, and how many of them not for the first time.
    handed: (u64, u64),
    /// Items that were taken so far.
    items: u64,
    /// What is answered later.
    deferred: BTreeMap<DeferredId, Deferred>,
    /// What belongs to other groups, by the order in which it came.
    moved: BTreeMap<u64, MovedItem>,
    /// What the group need not keep any more.
    untold: Untold,
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
            staging: Staging::default(),
            sizes: PieceSizes::default(),
            room: (0, 0),
            unanswered: VecDeque::new(),
            next_sequence: 1,
            next_number: 1,
            acknowledged: 0,
            now: Monotonic(0),
            semantics: SemanticsVersion::OLDEST,
            moving: Moving::default(),
            refused: Vec::new(),
            slow: None,
            handed: (0, 0),
            items: 0,
            deferred: BTreeMap::new(),
            moved: BTreeMap::new(),
            untold: Untold::default(),
        }
    }

    /// Says what goes in pieces from now on.
    pub fn set_piece_sizes(&mut self, sizes: PieceSizes) {
        self.sizes = sizes;
    }

    /// Batches that were handed to a leader so far, and how many of these had been handed to one before.
    pub fn handed(&self) -> (u64, u64) {
        self.handed
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
        self.staging.restart();
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
            sent.forget_numbers();
        }
        self.void_questions();
        self.untold.on_begun_anew(applied, self.now);
        let is_lost = |id: &&DeferredId| !id.is_read && id.batch > applied;
        let lost: Vec<DeferredId> = self.deferred.keys().filter(is_lost).copied().collect();
        for id in lost {
            self.on_gone(id, out);
        }
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
            && self.deferred.is_empty()
            && self.moved.is_empty()
            && self.refused.is_empty()
            && self.untold.is_empty()
    }

    /// Whether the leader has been out of reach for so long that no more is to be sent: a new command is refused at once.
    pub fn is_cut_off(&self) -> bool {
        self.unanswered.front().is_some_and(|sent| sent.is_given_up)
    }

    /// Learns the time, by which rules every node reads commands, and what counts as slow, if anything does.
    pub fn begin(&mut self, now: Monotonic, semantics: SemanticsVersion, slow: Option<Duration>) {
        (self.now, self.semantics, self.slow) = (now, semantics, slow);
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
        // What is asked again is behind writes, and this may be behind it.
        if is_free && !writes && !self.asks_again() {
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
            batch.writes.push_command(self.semantics, db, protocol, args);
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

    /// Whether reads that were in a batch before are under way.
    fn asks_again(&self) -> bool {
        let mut unanswered = self.unanswered.iter();
        self.open.has_again || unanswered.any(|sent| sent.has_again && !sent.is_answered)
    }

    /// Takes a command that waits until there is something to pop.
    pub fn wait(&mut self, reply_to: ReplyTo, operation: &Operation) {
        let (spec, args) = operation.argv();
        let (id, command) = (wait_id(reply_to), operation.as_state());
        let wait = keyspace::EntryOperation::Wait { id, command };
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
            &keyspace::EntryOperation::EndWait { id },
            None,
        );
    }

    /// Takes commands that are carried out as one, if conditions hold.
    pub fn block(&mut self, reply_to: ReplyTo, conditions: &[Condition], operations: &[Operation]) {
        let block = keyspace::EntryOperation::Block {
            conditions: as_conditions(conditions),
            commands: operations.iter().map(Operation::as_state).collect(),
        };
        self.block_of(reply_to, &block);
    }

    fn block_of(&mut self, reply_to: ReplyTo, block: &keyspace::EntryOperation<'_>) {
        self.make_room(true);
        self.open.batch.writes.push(block);
        // It may write anything it names.
        let item = self.new_item(Origin::Block(reply_to), false, None);
        self.took_write(item, self.sizes.long_bytes_min);
    }

    /// Takes the effects of a transaction within this group, if what it expects holds.
    pub fn one_phase(&mut self, reply_to: ReplyTo, expects: &[Condition], effects: Vec<keyspace::Effect>) {
        let expects = as_conditions(expects);
        self.block_of(reply_to, &keyspace::EntryOperation::OnePhase { expects, effects });
    }

    /// Takes commands that are carried out as one, and at most once.
    pub fn once(&mut self, reply_to: ReplyTo, request: ClientRequest, operations: &[Operation]) {
        let commands = operations.iter().map(Operation::as_state).collect();
        let once = keyspace::EntryOperation::Once { request, commands };
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
            Assignment::Evaluate { .. }
            | Assignment::Install { .. }
            | Assignment::InPlace { .. }
            | Assignment::Move(_) => Origin::Vote(part.txn),
        };
        self.make_room(true);
        self.open.batch.writes.push(&part.as_state());
        let item = self.new_item(origin, false, None);
        self.took_write(item, self.sizes.long_bytes_min);
        Ok(())
    }

    /// Takes a piece of a copy of a partition.
    pub fn arrive(&mut self, piece: ArrivingPiece<'_>) {
        self.make_room(true);
        self.open
            .batch
            .writes
            .push(&keyspace::EntryOperation::Arrive(piece));
        let item = self.new_item(Origin::Arrival(piece.txn), false, None);
        self.took_write(item, self.sizes.long_bytes_min);
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
            .push(&keyspace::EntryOperation::Resolve(Resolve { decisions }));
        let item = self.new_item(Origin::Decisions(committed), false, None);
        open.take(item, self.now);
        self.queue(open, Ordering::Unnumbered);
    }

    /// Takes a decision that is waited for, or that a group may hear of which has not voted: it keeps its place behind the vote.
    pub fn decide(&mut self, txn: TxnId, is_committed: bool, worker: u16) {
        // If it was given up, the group has not heard of it; nor is it to hear of it, or of a piece that it waits for, behind this.
        let is_its = |item: &Item| match item.origin {
            Some(Origin::Vote(own) | Origin::Lock(own) | Origin::Arrival(own)) => own == txn,
            _ => false,
        };
        while self.drop_long(is_its).is_some() {}
        let decisions = vec![(txn, is_committed)];
        let resolve = keyspace::EntryOperation::Resolve(Resolve { decisions });
        self.write(Origin::Decision(txn, worker), &resolve, None);
    }

    /// Takes the question of a worker what has become of a transaction.
    pub fn query_txn(&mut self, txn: TxnId, participants: Participants, worker: u16) {
        let query_txn = keyspace::EntryOperation::QueryTxn(QueryTxn { txn, participants });
        self.write(Origin::TxnQuery(txn, worker), &query_txn, None);
    }

    /// Takes the hint that an older transaction waits elsewhere for this one. It may be lost, and is repeated.
    pub fn wound(&mut self, txn: TxnId) {
        self.read_free(Origin::Nobody, |batch| batch.push_wound(txn));
    }

    /// Takes commands of a transaction that only read. What its connection sent before on the same slots was answered. If it `is_holder`, it
    /// reads under locks that it has.
    pub fn snapshot_read(
        &mut self,
        txn: TxnId,
        conditions: &[Condition],
        operations: &[Operation],
        asker: SnapshotAsker,
    ) {
        let hosting = match asker {
            SnapshotAsker::OfAll(hosting) | SnapshotAsker::Walker(hosting)
                if self.semantics >= SemanticsVersion::PARTITIONS_MOVE =>
            {
                Some(hosting)
            }
            _ => None,
        };
        let is_holder = matches!(asker, SnapshotAsker::Holder | SnapshotAsker::Walker(_));
        let holder = is_holder.then_some(txn);
        let push = |batch: &mut BatchBuf| batch.push_snapshot_read(holder, hosting, conditions, operations);
        let counts_keys = |operation: &Operation| operation.spec.id == CommandId::DbSize;
        if operations.iter().any(counts_keys) {
            // A key that a read found to be expired is counted until an entry deletes it: the count is behind that entry.
            self.read_apart(Origin::SnapshotRead(txn), push);
        } else {
            self.read_free(Origin::SnapshotRead(txn), push);
        }
    }

    /// Takes a question for objects that a transaction works on; `is_holder`: under its own locks.
    pub fn optimistic_read(&mut self, txn: TxnId, keys: &[FullKey], is_holder: bool) {
        let holder = is_holder.then_some(txn);
        self.read_free(Origin::OptimisticRead(txn), |batch| {
            batch.push_optimistic_read(holder, keys);
        });
    }

    /// Every participant has recorded the end of a transaction, and of all that its coordinator numbered below `low`: told
    /// with the next batch, or after a while.
    pub fn forget(&mut self, txn: TxnId, low: u64) {
        self.untold.on_over(txn, low, self.now);
    }

    /// Puts what the group need not keep any more into the open batch. Not before a group that has begun anew has said which
    /// numbers it knows: the others are given again.
    fn tell_over(&mut self) {
        if self.untold.is_empty() || self.probe.is_some() {
            return;
        }
        let (resumes, operations) = self.untold.take();
        if let Some(up_to) = resumes {
            let unanswered = self.unanswered.iter().filter(|sent| !sent.is_answered);
            let batches = unanswered.map(|sent| sent.batch.number);
            let deferred = self.deferred.keys().filter(|id| !id.is_read);
            let mut resume = keyspace::Resume {
                up_to,
                batches: batches.filter(|number| (1..=up_to).contains(number)).collect(),
                answers: deferred.map(|id| (id.batch, id.index)).collect(),
            };
            resume.batches.sort_unstable();
            resume.answers.sort_unstable();
            self.push(Origin::Nobody, &keyspace::EntryOperation::Resume(resume), None);
        }
        for operation in operations {
            self.push(Origin::Nobody, &operation, None);
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
    fn write(&mut self, origin: Origin, operation: &keyspace::EntryOperation<'_>, slot: Option<Slot>) {
        self.make_room(true);
        self.push(origin, operation, slot);
    }

    /// The same, if there is room.
    fn push(&mut self, origin: Origin, operation: &keyspace::EntryOperation<'_>, slot: Option<Slot>) {
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
            Some(operation) => self.staging.push(operation, item),
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
            match self.staging.next(self.sizes.piece_bytes) {
                None => return,
                Some(Next::Piece {
                    number,
                    whole_bytes,
                    offset,
                    bytes,
                }) => {
                    self.open
                        .batch
                        .writes
                        .push(&keyspace::EntryOperation::Stage(Piece {
                            number,
                            whole_bytes: whole_bytes as u64,
                            offset: offset as u64,
                            bytes: &bytes,
                        }));
                    self.open.is_piece = true;
                    let item = self.new_item(Origin::Nobody, false, None);
                    self.took(item);
                }
                Some(Next::Whole {
                    number,
                    operation,
                    item,
                }) => {
                    self.open
                        .batch
                        .writes
                        .push(&keyspace::EntryOperation::Staged { number });
                    self.open.long = Some(operation);
                    self.took(item);
                }
            }
            self.close();
        }
    }

    /// Nobody waits any more for what is long, and not all of it was sent: the group need not keep what it has of it.
    fn drop_long(&mut self, is_given_up: impl Fn(&Item) -> bool) -> Option<Item> {
        let (item, number) = self.staging.remove(is_given_up)?;
        if let Some(number) = number {
            let none = keyspace::EntryOperation::Stage(Piece {
                number,
                whole_bytes: 0,
                offset: 0,
                bytes: &[],
            });
            self.write(Origin::Nobody, &none, None);
        }
        Some(item)
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
                self.handed.0 += 1;
                self.handed.1 += u64::from(sent.was_sent);
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

    /// The leader's word on the batch of this number in the group client's own count. `false` if the bytes are not what a leader
    /// writes, which counts as no answer.
    pub fn on_outcome(&mut self, sequence: u64, outcome: &BatchOutcome, out: &mut Vec<Output>) -> bool {
        if let BatchOutcome::Deferred {
            is_read,
            index,
            bytes,
        } = outcome
        {
            let id = DeferredId {
                is_read: *is_read,
                batch: sequence,
                index: *index,
            };
            return self.on_deferred(id, bytes, out);
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
                sent.fail(group, |_| unknown(), now, slow, out);
                ends.into_iter()
                    .for_each(|reply_to| self.lose_wait(reply_to, out));
                // Nothing is to be popped for who was told an error.
                waits.into_iter().for_each(|reply_to| self.end_wait(reply_to));
            }
            BatchOutcome::Done(bytes) => {
                let mut news = Vec::new();
                let was_answered = sent.is_answered;
                if !was_answered && !sent.answer(group, bytes, (now, slow), &mut outstanding, &mut news, out)
                {
                    return false;
                }
                let was_resent = sent.was_resent;
                sent.is_answered = true;
                if sent.is_piece && !was_answered {
                    self.moving.piece = Some(now);
                }
                if was_resent && !was_answered {
                    self.note_stale(at);
                }
                self.note_overtaken(at);
                self.on_deferred_news(news, out);
            }
            BatchOutcome::Deferred { .. } => unreachable!("looked at above"),
        }
        let sent = &mut self.unanswered[at];
        sent.is_answered = true;
        sent.is_due = false;
        while let Some(sent) = self.unanswered.pop_front_if(|sent| sent.is_answered) {
            self.acknowledged = self.acknowledged.max(sent.batch.number);
            if let Some(long) = sent.long {
                self.staging.spend(long);
            }
        }
        self.tell_held(out);
        self.tell_moved(out);
        true
    }

    /// What was sent and is not needed any more, and would take long to be dropped.
    pub fn take_spent(&mut self) -> Vec<FrozenRope> {
        self.staging.take_spent()
    }

    /// Bytes of a long message have moved on the link with the leader's node: what is waited for may be behind them, or among
    /// them.
    pub fn on_moving(&mut self) {
        self.moving.message = Some(self.now);
    }

    /// How much longer than usual is waited.
    fn time_of_long_messages(&self) -> Duration {
        let moving = match self.moving.is_on(self.now) {
            true => MOVING_PATIENCE,
            false => Duration::ZERO,
        };
        // Those that follow each other are waited for together, and what goes in pieces counts until it is answered.
        let sent = self.unanswered.iter().map(|sent| {
            let long = sent.long.as_ref().map_or(0, FrozenRope::len);
            sent.batch.byte_len() + long
        });
        moving.max(time_of(sent.sum::<usize>() + self.staging.byte_len()))
    }

    /// Tells clients that waited too long, and sends again what nobody has answered for a while: it may be lost on a link
    /// that had no room. Called once a tick.
    pub fn give_up(&mut self, out: &mut Vec<Output>) {
        for origin in std::mem::take(&mut self.refused) {
            origin.fail(self.group, TOO_LONG, None, out);
        }
        // As if it were earlier by what long messages take.
        let long = self.time_of_long_messages().as_nanos() as u64;
        let now = Monotonic(self.now.0.saturating_sub(long));
        self.repeat_unheard(now, out);
        self.look_after_quiet(now);
        self.give_up_deferred(now, out);
        if self.untold.is_due(self.now) {
            self.make_room(true);
            self.tell_over();
        }
        while let Some(item) = self.drop_long(|item| item.is_overdue(now)) {
            if let Some(origin) = item.origin {
                origin.fail(self.group, UNREACHABLE, None, out);
            }
        }
        self.give_up_open(now, out);
        self.give_up_sent(now, out);
        self.tell_held(out);
        self.tell_moved(out);
    }

    /// Sends again what nobody has answered for a while.
    fn repeat_unheard(&mut self, now: Monotonic, out: &mut Vec<Output>) {
        let is_late = |sent: &Sent| sent.was_sent && now.since(sent.sent_at) >= RETRY;
        let is_unheard = |probe: &Probe| !probe.is_due && now.since(probe.sent_at) >= RETRY;
        if self.unanswered.front().is_some_and(is_late) || self.probe.as_ref().is_some_and(is_unheard) {
            self.resend(out);
        }
    }

    /// Tells clients of what gathers, which with nobody in reach nothing else closes.
    fn give_up_open(&mut self, now: Monotonic, out: &mut Vec<Output>) {
        let is_old = |open: &Open| !open.items.is_empty() && now.since(open.since) >= PATIENCE;
        if is_old(&self.open) || is_old(&self.free) {
            self.close();
        }
        for open in [&mut self.open, &mut self.free] {
            if now.since(open.oldest) >= PATIENCE {
                let items = open.items.iter_mut();
                items.for_each(|item| item.give_up_read(self.group, now, out));
            }
        }
    }

    /// Tells clients of what is in batches.
    fn give_up_sent(&mut self, now: Monotonic, out: &mut Vec<Output>) {
        let (group, slow) = (self.group, self.slow);
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
                    unknown()
                } else {
                    UNREACHABLE
                }
            };
            sent.fail(group, error, now, slow, out);
            if !was_sent {
                // Nobody has seen it: its number stays, and nothing is in it. What the group need not keep is told later.
                let untold = &mut self.untold;
                let is_read = keyspace::Operations::read(&sent.batch.writes, |operation| {
                    untold.take_back(operation, now);
                });
                assert!(is_read.is_some(), "it was written here");
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
    }

    /// The group does not say whether it has let go of a client that is not to wait any more: the client is told so, unless
    /// its wait was answered meanwhile.
    fn lose_wait(&mut self, reply_to: ReplyTo, out: &mut Vec<Output>) {
        let sent = self.unanswered.iter_mut().flat_map(|sent| &mut sent.items);
        let deferred = self.deferred.values_mut().map(|deferred| &mut deferred.item);
        for item in sent.chain(deferred) {
            let is_its = |origin: &mut Origin| matches!(origin, Origin::Wait(own) if *own == reply_to);
            if let Some(origin) = item.origin.take_if(is_its) {
                origin.fail(self.group, unknown(), None, out);
            }
        }
    }

    /// Refuses a command at once, because nobody leads its group.
    pub fn refuse(&self, reply_to: ReplyTo, out: &mut Vec<Output>) {
        Origin::Command(reply_to).fail(self.group, UNREACHABLE, None, out);
    }
}
