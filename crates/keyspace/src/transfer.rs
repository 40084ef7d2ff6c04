//! State for a replica that has none: the sender's side. `transfer/snapshot_receiver.rs` is the receiver's.
//!
//! ```text
//!   sender   [ chunk 1 ] entries [ chunk 2 ] entries [ chunk 3 ] ...    [ last chunk ] entries ...
//!               |                   |                   |                     |           |
//!   receiver    +--- objects in scan order, and those that changed -----------+ complete  +--> applied as usual
//!                                                                             |
//!                                                             everything of the state that is no object
//! ```
//!
//! A transfer goes through the databases, partition by partition in hash order. Each chunk carries what changed since the
//! last one among the keys that were sent already, and then the next of those that were not, up to about the wanted size. So
//! the receiver holds a prefix of the order that is the sender's at the moment of the chunk; but where there is more than
//! fits, the rest lags, and is named nowhere but in the sender's [`Changes`]. The last chunk is made when nothing lags. Only
//! then does the receiver have a state, and it is the sender's of that moment.
//!
//! Large values are sent in pieces over as many chunks as it takes. One that changes meanwhile is begun again, when
//! everything else was sent; one that changes again and again goes whole with the last chunk. That chunk is the one that can
//! take long: its size is what changed since the chunk before, and such restless values. Should more change than chunks can
//! carry, so that after everything was sent once as much was sent again, the next chunk is the last, whatever its size. Pieces of
//! long operations, and of what is long without being an object (`transfer/parts.rs`), are never sent twice. They make no
//! chunk longer, unless more of the latter has gone before all of it was sent than there is of everything.
//!
//! ```text
//!  chunk   format u8 | number u64 | seed of the hash order | partitions | [moved] | origin u8 for each database of clients | record*
//!  moved   in formats 6 and 7   count u32 | (place in the range u16 | its seed)* | 0 u8, or 1 u8 and what arrives: partition u16 | seed
//!  partitions  of the cluster u16 | the first here u16 | how many here u16
//!  origin  which of the receiver's databases this one is from now on; 255 an empty one
//!  record  1 exactly these objects have this hash   db u8 | partition u16 | hash u64 | count u32 | object*
//!          2 an object                              db u8 | object
//!          3 a large object begins                  db u8 | head (pieces.rs)
//!          4 a piece of it                          db u8 | length u32 | bytes
//!          5 it is complete                         db u8
//!          6 the rest, and the end                  keyspace/remainder.rs
//!          7 a piece of a long operation            boot u64 | worker u16 | number u64 | bytes of the whole u64 | offset u64
//!                                                   | length u32 | bytes
//!  8 a long part of what is no object begins        number u32 | 0 u8 | length u64, or
//!                                                   number u32 | 1 u8 | head (pieces.rs)
//!  9 a piece of it                                  number u32 | length u32 | bytes
//!  10 it is not needed any more                     number u32
//!  object  version u64 | key, deadline, value (object_codec.rs)
//! ```
//!
//! Access statistics are not sent: they are each replica's own. The format is 7 where the group has a code (`coded.rs`), and a build that knows none
//! takes nothing of such a state: of strings the sender may have fragments, which are sent as they are.

pub(crate) mod arriving_partition;
pub(crate) mod changes;
pub(crate) mod chunk_records;
pub(crate) mod parts;
pub(crate) mod pieces;
pub(crate) mod snapshot_receiver;

use crate::database::Database;
use crate::directories::Location;
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::object_codec;
use crate::staging::SentStaging;
use changes::{Changes, Open};
use codec::{Writer, fill_count};
use ids::Db;
use mutations::Mutation;
use parts::SentParts;

/// Transfers of one keyspace at once: learners of one group. Each makes every change a little dearer.
pub(crate) const TRANSFERS_MAX: usize = 4;

/// Values up to this size are sent whole.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// Chunks that may be made when only changes are left and there are more of them than fit. The next one carries all of them.
const LAGGING_CHUNKS_MAX: u32 = 16;

/// Chunks full of pieces of parts that were gone before they were sent, of a group that holds less than that.
const VAIN_CHUNKS_MAX: usize = 64;

/// Keys of a partition that may have changed since its newest chunk: they come with the last one. While it is written to, some always have.
const PARTITION_LEFT_MAX: usize = 256;

const FORMAT: u8 = 5;

/// The same of a group that does not host what it was made with, or will not.
const FORMAT_OF_MOVES: u8 = 6;

/// That of a group with a code: there may be fragments, and there is the code in the rest, behind what is hosted.
pub(crate) const FORMAT_CODED: u8 = 7;
pub(crate) const EMPTY: u8 = 255;
pub(crate) const AT: u8 = 1;
pub(crate) const OBJECT: u8 = 2;
pub(crate) const BEGIN: u8 = 3;
pub(crate) const PIECE: u8 = 4;
pub(crate) const END: u8 = 5;
const REST: u8 = 6;
pub(crate) const STAGED: u8 = 7;
pub(crate) const PART_BEGINS: u8 = 8;
pub(crate) const PART: u8 = 9;
pub(crate) const GONE: u8 = 10;

/// A transfer under way, at its sender. See the file's header.
#[derive(Debug)]
pub struct Transfer {
    id: u64,
    /// Of the newest chunk.
    number: u64,
    /// Chunks since everything was covered that could not carry all changes.
    lagging: u32,
    /// Bytes of objects in all chunks since then.
    ending_bytes: usize,
    /// Whether the newest chunk could not carry all changes.
    lags: bool,
    is_ending: bool,
    /// Of long operations that come in pieces.
    staging: SentStaging,
    parts: SentParts,
}

/// What a transfer sends next.
#[derive(Debug)]
pub enum TransferStep {
    /// These bytes, and there is more to come.
    More(Vec<u8>),
    /// These bytes, and the receiver has the state as it is now. The transfer is over.
    Last(Vec<u8>),
    /// Nothing: more changed than could be remembered. The transfer is over, and may be begun again.
    Lost,
}

/// What a copy of the objects alone sends next.
pub(crate) enum ObjectsStep {
    /// These bytes.
    More(Vec<u8>),
    /// Nothing: the receiver has all objects as they are now, but for large values that change again and again.
    Ready,
    /// Nothing: more changed than could be remembered. The copy is over, and may be begun again.
    Lost,
}

impl Transfer {
    /// Begins a transfer of the state. From now on changes are remembered, until the last chunk or [`Transfer::end`]. `None`
    /// if there are as many transfers as may be.
    pub fn begin(keyspace: &mut Keyspace) -> Option<Transfer> {
        let id = keyspace.begin_changes()?;
        Some(Transfer {
            id,
            number: 0,
            lagging: 0,
            ending_bytes: 0,
            lags: false,
            is_ending: false,
            staging: SentStaging::default(),
            parts: SentParts::default(),
        })
    }

    /// Begins a transfer of the objects that are hosted: of what arrives, whoever hosts it has them.
    pub(crate) fn begin_hosted(keyspace: &mut Keyspace) -> Option<Transfer> {
        let transfer = Transfer::begin(keyspace)?;
        let mut databases = keyspace.take_changes(transfer.id).expect("it has just begun");
        for changes in databases.iter_mut().skip(Db::KEPT.into()) {
            changes.ignore_all();
        }
        keyspace.put_changes(databases);
        Some(transfer)
    }

    /// Begins a transfer of one partition alone, which stands at this place of the range.
    pub(crate) fn begin_partition(keyspace: &mut Keyspace, partition: u16) -> Option<Transfer> {
        let transfer = Transfer::begin(keyspace)?;
        let databases = keyspace.take_changes(transfer.id).expect("it has just begun");
        let only =
            |(number, changes): (u8, Changes)| Changes::of_partition(changes.transfer, number, partition);
        keyspace.put_changes((0..).zip(databases).map(only).collect());
        Some(transfer)
    }

    /// Ends it early: changes are no longer remembered.
    pub fn end(self, keyspace: &mut Keyspace) {
        keyspace.take_changes(self.id);
    }

    /// Whether more has changed than the newest chunk could carry. Then the next one should follow soon: what lags in the end comes all
    /// at once.
    pub fn lags(&self) -> bool {
        self.lags
    }

    /// Whether all objects have been sent once, so that only what changes is still to follow.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether it has not made its last chunk.
    pub fn is_under_way(&self, keyspace: &Keyspace) -> bool {
        keyspace.has_changes(self.id)
    }

    /// The next chunk, of the keyspace that it was begun with: about `bytes_max` bytes, or half as much again if many changes
    /// wait, and one object more. The last chunk may be larger: see the file's header.
    pub fn next_chunk(&mut self, keyspace: &mut Keyspace, bytes_max: usize) -> TransferStep {
        let Some(mut databases) = keyspace.take_changes(self.id) else {
            return TransferStep::Lost;
        };
        if databases.iter().any(|changes| changes.is_lost) {
            return TransferStep::Lost;
        }
        let to = self.begin_chunk(keyspace, &mut databases);
        let part_min = WHOLE_BYTES_MAX.min(bytes_max / 4);
        let is_overdue = self.is_overdue(keyspace, part_min, bytes_max);
        let bytes_max = if is_overdue { usize::MAX } else { bytes_max };
        let mut sender = Sender::new(keyspace, to);
        sender.send(&mut databases, bytes_max, self.lagging >= LAGGING_CHUNKS_MAX);
        let objects_bytes = sender.to.len();
        let limit = bytes_max.max(objects_bytes.saturating_add(bytes_max / 2));
        let all_staged = self
            .staging
            .send(&keyspace.staging, STAGED, limit, &mut sender.to);
        let is_covered = databases.iter().all(Changes::is_covered);
        // They come and go: what is sent early may be in vain.
        let all_parts =
            is_covered && all_staged && self.parts.send(keyspace, part_min, limit, &mut sender.to);
        if all_parts && databases.iter().all(Changes::is_ready) {
            sender.send_restless(&mut databases);
            sender.to.u8(REST);
            keyspace.write_remainder(&self.parts, &mut sender.to);
            return TransferStep::Last(sender.to);
        }
        let chunk = sender.to;
        self.lags = databases.iter().any(|changes| !changes.changed.is_empty());
        self.is_ending = is_covered;
        if is_covered {
            self.ending_bytes += objects_bytes;
            self.lagging += u32::from(self.lags);
        }
        keyspace.put_changes(databases);
        TransferStep::More(chunk)
    }

    /// The same of a copy of the objects alone, which [`Transfer::last_objects`] ends: with nothing of the rest, and never the last.
    pub(crate) fn next_objects(&mut self, keyspace: &mut Keyspace, bytes_max: usize) -> ObjectsStep {
        let Some(mut databases) = keyspace.take_changes(self.id) else {
            return ObjectsStep::Lost;
        };
        if databases.iter().any(|changes| changes.is_lost) {
            return ObjectsStep::Lost;
        }
        let is_moved = |(number, changes): (u8, &Changes)| changes.origin != Some(number);
        if databases.iter().all(Changes::is_ready) && !(0..).zip(&databases).any(is_moved) {
            keyspace.put_changes(databases);
            return ObjectsStep::Ready;
        }
        let to = self.begin_chunk(keyspace, &mut databases);
        let mut sender = Sender::new(keyspace, to);
        sender.send(&mut databases, bytes_max, self.lagging >= LAGGING_CHUNKS_MAX);
        if sender.has_sent_coded {
            return ObjectsStep::Lost;
        }
        let chunk = sender.to;
        self.lags = databases.iter().any(|changes| !changes.changed.is_empty());
        if databases.iter().all(Changes::is_covered) {
            self.lagging += u32::from(self.lags);
        }
        keyspace.put_changes(databases);
        ObjectsStep::More(chunk)
    }

    /// The same of one partition: records alone, and large values whole. It is ready when little is left.
    pub(crate) fn next_of_partition(&mut self, keyspace: &mut Keyspace, bytes_max: usize) -> ObjectsStep {
        let Some(mut databases) = keyspace.take_changes(self.id) else {
            return ObjectsStep::Lost;
        };
        if databases.iter().any(|changes| changes.is_lost) {
            return ObjectsStep::Lost;
        }
        let left: usize = databases.iter().map(|changes| changes.changed.len()).sum();
        let is_covered = databases.iter().all(Changes::is_covered);
        self.lagging += u32::from(is_covered);
        if is_covered && (left <= PARTITION_LEFT_MAX || self.lagging > LAGGING_CHUNKS_MAX) {
            keyspace.put_changes(databases);
            return ObjectsStep::Ready;
        }
        let mut sender = Sender::of_whole_values(keyspace);
        sender.send(&mut databases, bytes_max, false);
        if sender.has_sent_coded {
            return ObjectsStep::Lost;
        }
        let records = sender.to;
        keyspace.put_changes(databases);
        ObjectsStep::More(records)
    }

    /// All that is left of it, whatever its size; `None` if the transfer is to begin again. It is over.
    pub(crate) fn last_of_partition(self, keyspace: &mut Keyspace) -> Option<Vec<u8>> {
        let mut databases = keyspace.take_changes(self.id)?;
        if databases.iter().any(|changes| changes.is_lost) {
            return None;
        }
        let mut sender = Sender::of_whole_values(keyspace);
        sender.send(&mut databases, usize::MAX, true);
        (!sender.has_sent_coded).then_some(sender.to)
    }

    /// All that is left of the objects, as they are now, whatever its size; `None` if the transfer is to begin again. It is over.
    pub(crate) fn last_objects(mut self, keyspace: &mut Keyspace) -> Option<Vec<u8>> {
        let mut databases = keyspace.take_changes(self.id)?;
        if databases.iter().any(|changes| changes.is_lost) {
            return None;
        }
        let to = self.begin_chunk(keyspace, &mut databases);
        let mut sender = Sender::new(keyspace, to);
        sender.send(&mut databases, usize::MAX, true);
        sender.send_restless(&mut databases);
        (!sender.has_sent_coded).then_some(sender.to)
    }

    /// The head of the next chunk.
    fn begin_chunk(&mut self, keyspace: &Keyspace, databases: &mut [Changes]) -> Vec<u8> {
        self.number += 1;
        let mut to = vec![match (keyspace.code(), keyspace.writes_hosting()) {
            (Some(_), _) => FORMAT_CODED,
            (None, true) => FORMAT_OF_MOVES,
            (None, false) => FORMAT,
        }];
        to.u64(self.number);
        object_codec::seed(&mut to, keyspace.seed());
        object_codec::partitions(&mut to, keyspace.partitions());
        if keyspace.writes_hosting() {
            let others: Vec<_> = keyspace.placing.others().collect();
            to.list(&others, |to, (index, seed)| {
                to.u16(*index);
                object_codec::seed(to, *seed);
            });
            to.option(&keyspace.hosting.arriving(), |to, (partition, seed)| {
                to.u16(partition.number());
                object_codec::seed(to, *seed);
            });
        }
        for (number, changes) in (0..).zip(databases) {
            // That of libraries is never moved, nor emptied as a whole.
            if number < Db::COUNT {
                to.u8(changes.origin.unwrap_or(EMPTY));
            }
            changes.origin = Some(number);
        }
        to
    }

    /// Whether this is to be the last chunk, whatever its size: it would go on for ever otherwise.
    fn is_overdue(&self, keyspace: &Keyspace, part_min: usize, bytes_max: usize) -> bool {
        let memory = keyspace.memory();
        let vain_max = memory.max(bytes_max.saturating_mul(VAIN_CHUNKS_MAX));
        let are_in_vain = self.parts.vain_bytes() > vain_max;
        if !are_in_vain && self.ending_bytes <= memory {
            return false;
        }
        // Nothing of these is sent again: however much is left, it comes in chunks of the wanted size.
        self.staging.left(&keyspace.staging) <= bytes_max
            && (are_in_vain || self.parts.left(keyspace, part_min) <= bytes_max)
    }
}

/// A chunk under construction.
struct Sender<'a> {
    keyspace: &'a Keyspace,
    to: Vec<u8>,
    /// Objects that take more go in pieces.
    whole_bytes_max: usize,
    /// Whether a fragment was sent: of no use but to another replica of the same group.
    has_sent_coded: bool,
}

impl<'a> Sender<'a> {
    fn new(keyspace: &'a Keyspace, to: Vec<u8>) -> Sender<'a> {
        Sender {
            keyspace,
            to,
            whole_bytes_max: WHOLE_BYTES_MAX,
            has_sent_coded: false,
        }
    }

    /// One that sends everything whole.
    fn of_whole_values(keyspace: &'a Keyspace) -> Sender<'a> {
        Sender {
            keyspace,
            to: Vec::new(),
            whole_bytes_max: usize::MAX,
            has_sent_coded: false,
        }
    }

    fn send(&mut self, databases: &mut [Changes], bytes_max: usize, sends_all_changes: bool) {
        let limit = if sends_all_changes { usize::MAX } else { bytes_max };
        for (db, changes) in numbered(databases) {
            while self.to.len() < limit
                && let Some(location) = changes.changed.pop_first()
            {
                self.send_hash(db, changes, location);
            }
        }
        // However much changes, the rest goes on.
        let limit = bytes_max.max(self.to.len().saturating_add(bytes_max / 2));
        for (db, changes) in numbered(databases) {
            self.send_next(db, changes, limit, false);
        }
        if databases.iter().all(Changes::is_covered) {
            for (db, changes) in numbered(databases) {
                self.send_next(db, changes, limit, true);
            }
        }
    }

    /// Large values that are to be sent, and then what is not covered, large values among it as they come.
    fn send_next(&mut self, db: Db, changes: &mut Changes, limit: usize, with_later: bool) {
        while self.to.len() < limit {
            if let Some(open) = changes.open {
                changes.open = self.send_piece(db, open, limit);
            } else if let Some(location) = changes.take_waiting(with_later, false) {
                self.open(db, changes, location);
            } else if let Some(from) = changes.covered_to {
                self.send_range(db, changes, from, limit);
            } else {
                return;
            }
        }
    }

    /// What changes too often to be sent in pieces.
    fn send_restless(&mut self, databases: &mut [Changes]) {
        for (db, changes) in numbered(databases) {
            while let Some(location) = changes.take_waiting(true, true) {
                self.open(db, changes, location);
                while let Some(open) = changes.open {
                    changes.open = self.send_piece(db, open, usize::MAX);
                }
            }
        }
    }

    /// The objects of a hash as they are; if one of them is large, they wait.
    fn send_hash(&mut self, db: Db, changes: &mut Changes, location: Location) {
        let objects_at = self.begin_hash(db, location);
        let (mut count, mut is_large) = (0u32, false);
        each_at(self.keyspace.database(db), location, |object| {
            is_large = is_large || object.memory() > self.whole_bytes_max;
            if !is_large && !is_lost_by_mistake(self.keyspace, object) {
                count += 1;
                self.has_sent_coded |= object.is_coded();
                write_object(&mut self.to, object);
            }
        });
        if is_large {
            self.to.truncate(objects_at - HASH_RECORD);
            changes.wait(location);
        } else {
            self.to[objects_at - 4..objects_at].copy_from_slice(&count.to_le_bytes());
        }
    }

    /// A record that says that this hash has no objects, or those that follow once their count is filled in.
    fn begin_hash(&mut self, db: Db, location: Location) -> usize {
        self.to.raw(&[AT, db.number()]);
        self.to.u16(location.partition);
        self.to.u64(location.hash.0);
        self.to.count(0);
        self.to.len()
    }

    /// Begins to send the objects of a hash in pieces.
    fn open(&mut self, db: Db, changes: &mut Changes, location: Location) {
        self.begin_hash(db, location);
        changes.begin(location);
    }

    /// The next piece, up to `limit`. What is to be sent after it.
    fn send_piece(&mut self, db: Db, open: Open, limit: usize) -> Option<Open> {
        let (mut index, mut next) = (0, None);
        each_at(self.keyspace.database(db), open.location, |object| {
            if index == open.index {
                next = Some(self.write_piece(db, object, open, limit));
            }
            index += 1;
        });
        next
    }

    fn write_piece(&mut self, db: Db, object: &Object, open: Open, limit: usize) -> Open {
        let after = Open {
            index: open.index + 1,
            next: None,
            ..open
        };
        if is_lost_by_mistake(self.keyspace, object) {
            return after;
        }
        if open.next.is_none() {
            self.to.raw(&[BEGIN, db.number()]);
            pieces::write_head(&mut self.to, object);
        }
        self.to.raw(&[PIECE, db.number()]);
        let length_at = self.to.len();
        self.to.count(0);
        // A piece's length has 32 bits, however large the chunk may be.
        let budget = limit.saturating_sub(length_at).min(1 << 30);
        let next = pieces::write(&mut self.to, object, open.next, budget);
        fill_count(&mut self.to, length_at);
        if next.is_some() {
            return Open { next, ..open };
        }
        self.to.raw(&[END, db.number()]);
        after
    }

    /// What is not covered, until the limit or behind the next large object.
    fn send_range(&mut self, db: Db, changes: &mut Changes, from: Location, limit: usize) {
        let (mut last, mut stop) = (None, None);
        let database = self.keyspace.database(db);
        database.visit_from(from, |partition, object| {
            if changes.only.is_some_and(|only| only != partition) {
                return false;
            }
            let location = || Location {
                partition,
                hash: database.seed_at(partition).hash(object.key()),
            };
            if let Some(last) = last {
                // Objects of one hash are never parted.
                let here = location();
                if here != last {
                    stop = Some(here);
                    return false;
                }
            }
            let is_large = object.memory() > self.whole_bytes_max;
            if is_large {
                changes.wait(location());
            } else if !is_lost_by_mistake(self.keyspace, object) {
                self.to.raw(&[OBJECT, db.number()]);
                self.has_sent_coded |= object.is_coded();
                write_object(&mut self.to, object);
            }
            if is_large || self.to.len() >= limit {
                last = Some(location());
            }
            true
        });
        changes.covered_to = stop;
    }
}

/// How long the record of a hash is, without objects.
const HASH_RECORD: usize = 2 + 2 + 8 + 4;

fn write_object(to: &mut Vec<u8>, object: &Object) {
    to.u64(object.version().0);
    object_codec::write_object(to, object);
}

/// Calls `visit` for the objects of this hash: hardly ever more than one.
fn each_at(database: &Database, location: Location, mut visit: impl FnMut(&Object)) {
    database.visit_from(location, |_, object| {
        let is_there = database.locate(object.key()) == location;
        if is_there {
            visit(object);
        }
        is_there
    });
}

fn numbered(databases: &mut [Changes]) -> impl Iterator<Item = (Db, &mut Changes)> {
    (0..).zip(databases).map(|(number, changes)| {
        let db = Db::stored(number).expect("as many databases as numbers");
        (db, changes)
    })
}

/// A mutation: what the newest command changed is forgotten.
fn is_lost_by_mistake(keyspace: &Keyspace, object: &Object) -> bool {
    mutations::is(Mutation::EntryLostAtSnapshot) && object.version() == keyspace.applied()
}
