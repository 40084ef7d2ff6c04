//! A copy of a partition on its way into a group that does not host it yet.
//!
//! ```text
//!  piece    transaction | partition u16 | number u64, from 1 on | seed u64 u64 | records
//!  records  1 exactly these objects have this hash   db u8 | partition u16 | hash u64 | count u32 | object*
//!           2 an object                              db u8 | object
//! ```
//!
//! They are records of a transfer (`transfer.rs`), of one partition, with large values whole. A piece that does not follow those before
//! it is refused. The first one of another transaction takes the place of what has come by then, unless a vote relies on that.

use super::Arrival;
use crate::Keyspace;
use crate::database::Database;
use crate::directories::Location;
use crate::fields::{read_stored_db, read_txn, write_txn};
use crate::object_codec;
use crate::placing::Placing;
use crate::replies::Replies;
use crate::transfer::{AT, OBJECT};
use codec::{DecodeError, Reader, Writer};
use ids::{Db, HashSeed, KeyHash, PartitionId, PartitionRange, Version};
use mutations::Mutation;
use txn::TxnId;

/// A piece of a copy: an operation of whoever moves the partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivingPiece<'a> {
    /// The transaction by which the partition is to move.
    pub txn: TxnId,
    /// Which partition.
    pub partition: PartitionId,
    /// From 1 on; 0 if there is to be no copy any more.
    pub number: u64,
    /// What the hash order of its keys follows from.
    pub seed: HashSeed,
    /// See the file's header.
    pub records: &'a [u8],
}

impl<'a> ArrivingPiece<'a> {
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        write_txn(to, self.txn);
        to.u16(self.partition.number());
        to.u64(self.number);
        object_codec::seed(to, self.seed);
        to.bytes(self.records);
    }

    pub(crate) fn decode(rest: &mut Reader<'a>) -> Result<ArrivingPiece<'a>, DecodeError> {
        Ok(ArrivingPiece {
            txn: read_txn(rest)?,
            partition: PartitionId::new(rest.u16()?),
            number: rest.u64()?,
            seed: object_codec::read_seed(rest)?,
            records: rest.bytes()?,
        })
    }
}

impl Keyspace {
    /// Takes a piece, and answers whether it did.
    pub(crate) fn arrive(&mut self, piece: &ArrivingPiece<'_>, replies: &mut Replies) {
        self.applied.0 += 1;
        let is_taken = self.take_piece(piece);
        replies.buffer().push(u8::from(is_taken));
        replies.end_reply(false);
    }

    /// Takes a piece. `false` if it is of no use: whoever sends it is to begin again.
    fn take_piece(&mut self, piece: &ArrivingPiece<'_>) -> bool {
        let ArrivingPiece {
            txn,
            partition,
            number,
            seed,
            records,
        } = *piece;
        let arrival = self.hosting.arrival().copied();
        if number == 0 {
            // Of a copy that is not the one it means nothing is dropped.
            self.drop_arrival_of(txn);
            return true;
        }
        if number == 1 {
            let count = self.placing.range().cluster_count();
            let is_in_use = arrival.is_some_and(|arrival| arrival.is_voted_for);
            let is_known = partition.number() < count.get() && !self.hosts(partition);
            // It may come late, and its transaction be over.
            if is_in_use || !is_known || self.has_ended(txn) {
                return false;
            }
            self.end_arrival();
            self.begin_arrival(txn, partition, seed);
        }
        let found = self.hosting.change(self.placing.range()).arrival.as_mut();
        let is_next = |arrival: &&mut Arrival| {
            (arrival.txn, arrival.partition, arrival.pieces + 1) == (txn, partition, number)
                && !arrival.is_voted_for
        };
        let Some(arrival) = found.filter(is_next) else {
            return false;
        };
        arrival.pieces = number;
        if self.take_records(records).is_err() {
            self.end_arrival();
            return false;
        }
        true
    }

    fn begin_arrival(&mut self, txn: TxnId, partition: PartitionId, seed: HashSeed) {
        if self.hosted().is_empty() && self.databases.iter().all(|database| database.len() == 0) {
            // All replicas agree on the seed of a group that was made empty from here on: what they were made with is each one's own.
            self.placing = self.placing.of_seed(seed);
            let placing = &self.placing;
            self.databases
                .iter_mut()
                .for_each(|database| database.place_anew(placing));
        }
        self.make_room_for_arrival(partition, seed);
        let changed = self.hosting.change(self.placing.range());
        changed.arrival = Some(Arrival {
            partition,
            txn,
            pieces: 0,
            seed,
            is_voted_for: false,
        });
        self.lose_transfers();
    }

    /// The databases in which a partition arrives, of which this is the seed.
    pub(crate) fn make_room_for_arrival(&mut self, partition: PartitionId, seed: HashSeed) {
        let count = self.placing.range().cluster_count();
        let range = PartitionRange::new(count, partition, 1).expect("the caller has looked");
        let placing = Placing::new(seed, range);
        self.databases.truncate(Db::KEPT.into());
        let arriving = std::iter::repeat_with(|| Database::new(placing.clone(), false));
        self.databases.extend(arriving.take(Db::KEPT.into()));
    }

    /// What has come is of no use.
    pub(crate) fn end_arrival(&mut self) {
        if self.hosting.arrival().is_none() {
            return;
        }
        self.hosting.change(self.placing.range()).arrival = None;
        for mut database in self.databases.drain(usize::from(Db::KEPT)..) {
            self.lazyfree
                .add_segments(database.flush(Version(0)).into_segments());
        }
        self.lose_transfers();
    }

    /// Drops the copy of this transaction, if no vote relies on it.
    pub(crate) fn drop_arrival_of(&mut self, txn: TxnId) {
        let arrival = self.hosting.arrival();
        if arrival.is_some_and(|arrival| arrival.txn == txn && !arrival.is_voted_for) {
            self.end_arrival();
        }
    }

    /// Drops a copy whose transaction nobody can prepare any more.
    pub(crate) fn drop_ended_arrival(&mut self) {
        let arrival = self.hosting.arrival();
        if arrival.is_some_and(|arrival| self.has_ended(arrival.txn) && !arrival.is_voted_for) {
            self.end_arrival();
        }
    }

    /// Carries out the records of a piece.
    pub(super) fn take_records(&mut self, records: &[u8]) -> Result<(), DecodeError> {
        let rest = &mut Reader::new(records);
        while !rest.is_empty() {
            let unknown = rest.error("a record of a copy");
            let tag = rest.u8()?;
            let db = read_stored_db(rest)?.arriving();
            if self.databases.len() <= db.index() {
                return Err(unknown);
            }
            let count = match tag {
                AT => {
                    let _partition = rest.u16()?;
                    let hash = KeyHash(rest.u64()?);
                    self.clear_at(db, Location { partition: 0, hash });
                    rest.u32()?
                }
                OBJECT => 1,
                _ => return Err(unknown),
            };
            for _ in 0..count {
                let version = Version(rest.u64()?);
                let mut object = object_codec::read_object(rest)?;
                object.set_version(version);
                // Its version is that of another group, of which entries of this one have not said how far it is settled.
                if self.code().is_some() && !mutations::is(Mutation::ArrivalsNotHeld) {
                    object.hold(true);
                }
                let database = self.database(db);
                if !database.is_of_range(object.key()) {
                    return Err(unknown);
                }
                let location = database.locate(object.key());
                self.place_arrived(db, location, object);
            }
        }
        Ok(())
    }
}
