//! What a transfer needs of a keyspace beside its objects: everything else of the state, and the places where changes are
//! remembered.
//!
//! ```text
//!  rest      semantics u16 | now i64 | applied u64 | limits, nine u32 | stamps of each database of clients | sessions | transactions
//!            | requests | waiters | staging | limits of streams, two u32 | stamps of that of libraries, if it was ever used
//!            | hosting | count u32 | (transaction | step of a partition)*    these in chunks of format 6 and 7, and the stamps before them always
//!            | the code and what goes with it (`coded.rs`)                   in chunks of format 7
//!  hosting   0 u8: as made; or 1 u8 | count u32 | (partition u16 | moves u32 | version at which it came u64)*
//!            | count u32 | (partition u16 | to which group u16 | moves u32)*
//!            | 0 u8, or 1 u8: what arrives  partition u16 | transaction | pieces u64 | seed u64 u64 | voted for u8
//!  waiters   arrivals u64 | count u32 | (arrival u64 | origin | length u32 | a wait, as entries hold it)*
//!  stamps    swapped u64 | count u32 | (bucket u16 | version u64)*
//!  requests  floor UUID | count u32 | (UUID | digest u64 | protocol u8 | 0 u8, or 1 u8 and count u32 | (length u32 | bytes)*)*
//!  staging   count u32 | (boot u64 | worker u16 | number u64 | bytes that are there u64)*
//!  sessions  fence | count u32 | (boot u64 | worker u16 | last u64 | count u32 | replies*)*
//! ```

use super::Keyspace;
use crate::coded::Coding;
use crate::database::Deadlines;
use crate::directories::Location;
use crate::directory::Directory;
use crate::fields::{read_txn, write_txn};
use crate::hosting::Hosting;
use crate::limits::{EncodingLimits, LIMITS_WITHOUT_STREAMS};
use crate::object::{Object, VERSION_MAX};
use crate::partition_step::PartitionStep;
use crate::requests::Requests;
use crate::sessions::Sessions;
use crate::transactions::Transactions;
use crate::transfer::TRANSFERS_MAX;
use crate::transfer::changes::Changes;
use crate::transfer::parts::{Part, PartId, Parts, SentParts};
use crate::waiters::Waiters;
use codec::{DecodeError, Reader, Writer};
use ids::{Db, HashSeed, PartitionId, SemanticsVersion, UnixMillis, Version};

impl Keyspace {
    /// Writes everything of the state that is no object; of what was sent before, only which it is.
    pub(crate) fn write_remainder(&self, parts: &SentParts, to: &mut Vec<u8>) {
        to.u16(self.semantics.0);
        to.i64(self.time.0);
        to.u64(self.applied.0);
        let limits = self.limits.numbers();
        let (first, others) = limits.split_at(LIMITS_WITHOUT_STREAMS);
        first.iter().for_each(|&limit| to.u32(limit));
        let (of_clients, others_stamps) = self.databases.split_at(Db::COUNT.into());
        of_clients.iter().for_each(|database| database.write_stamps(to));
        self.sessions.encode(parts, to);
        self.transactions.encode(parts, to);
        self.requests.encode(to);
        self.waiters.encode(to);
        self.staging.encode(to);
        // Behind all else: a state of before there were streams ends here.
        others.iter().for_each(|&limit| to.u32(limit));
        // And one without libraries of functions here.
        let libraries = others_stamps.iter().take(usize::from(Db::KEPT - Db::COUNT));
        let writes_hosting = self.writes_hosting();
        let touched = libraries.filter(|database| writes_hosting || database.has_stamps());
        touched.for_each(|database| database.write_stamps(to));
        if writes_hosting {
            self.hosting.encode(to);
            to.count(self.transactions.steps().count());
            for (txn, step) in self.transactions.steps() {
                write_txn(to, txn);
                step.encode(to);
            }
        }
        self.write_coding(to);
    }

    /// Whether what is hosted here must be written down: it is not what the group was made with, or will not be; or something is behind it.
    pub(crate) fn writes_hosting(&self) -> bool {
        !self.hosts_as_made() || self.transactions.steps().next().is_some() || self.code().is_some()
    }

    /// Reads what [`Keyspace::write_remainder`] wrote; an error if the bytes are nothing like it. The newest rules by which
    /// the state was made.
    pub(crate) fn read_remainder(
        &mut self,
        parts: &mut Parts,
        has_moves: bool,
        rest: &mut Reader<'_>,
    ) -> Result<SemanticsVersion, DecodeError> {
        self.semantics = SemanticsVersion(rest.u16()?);
        self.time = UnixMillis(rest.i64()?);
        let too_far = rest.error("a version that there can be");
        self.applied = Version(rest.u64()?);
        if self.applied.0 > VERSION_MAX {
            return Err(too_far);
        }
        let mut numbers = EncodingLimits::default().numbers();
        let (first, others) = numbers.split_at_mut(LIMITS_WITHOUT_STREAMS);
        for number in first {
            *number = rest.u32()?;
        }
        let (of_clients, others_stamps) = self.databases.split_at_mut(Db::COUNT.into());
        for database in of_clients {
            database.read_stamps(rest)?;
        }
        self.sessions = Sessions::decode(parts, rest)?;
        self.transactions = Transactions::decode(parts, rest)?;
        self.requests = Requests::decode(rest)?;
        self.waiters = Waiters::decode(rest)?;
        self.staging.settle(rest)?;
        if !rest.is_empty() {
            for number in others {
                *number = rest.u32()?;
            }
        }
        if !rest.is_empty() {
            for database in others_stamps.iter_mut().take(usize::from(Db::KEPT - Db::COUNT)) {
                database.read_stamps(rest)?;
            }
        }
        if has_moves {
            let foreign = rest.error("partitions that can be hosted, and arrive");
            let arriving = self.hosting.arriving();
            self.hosting = Hosting::decode(rest)?;
            if self.hosting.arriving() != arriving || !self.hosting.is_within(self.placing.range()) {
                return Err(foreign);
            }
            for _ in 0..rest.u32()? {
                let (txn, step) = (read_txn(rest)?, PartitionStep::decode(rest)?);
                self.transactions.restore_step(txn, step).ok_or(foreign)?;
            }
        }
        if !rest.is_empty() {
            let unlike = rest.error("a code that goes with the objects");
            self.take_coding(Coding::decode(rest)?).ok_or(unlike)?;
        }
        self.limits = EncodingLimits::from_numbers(numbers);
        Ok(self.semantics)
    }

    /// What may be long of that, but for operations that are under way.
    pub(crate) fn each_part(&self, visit: &mut impl FnMut(PartId, Part<'_>)) {
        self.sessions.each_part(visit);
        self.transactions.each_part(visit);
    }

    /// Remembers changes from now on, for a new transfer; `None` if there are too many.
    pub(crate) fn begin_changes(&mut self) -> Option<u64> {
        // What is lost is good for nothing any more.
        let is_lost = |changes: &Changes| changes.is_lost.then_some(changes.transfer);
        let lost = self
            .databases
            .iter_mut()
            .flat_map(|database| database.changes().iter().filter_map(is_lost));
        for transfer in lost.collect::<Vec<u64>>() {
            self.take_changes(transfer);
        }
        if self.databases[0].changes().len() >= TRANSFERS_MAX {
            return None;
        }
        self.transfers += 1;
        for (number, database) in (0..).zip(&mut self.databases) {
            database.changes().push(Changes::new(self.transfers, number));
        }
        Some(self.transfers)
    }

    /// This state, which takes the place of another one: transfers of that are lost, and none is taken for one of this.
    pub fn behind_transfers_of(mut self, before: &Keyspace) -> Keyspace {
        self.transfers = before.transfers;
        self
    }

    /// Whether a transfer or a copy of this state is under way.
    pub fn has_transfers(&mut self) -> bool {
        self.databases[0].changes().iter().any(|changes| !changes.is_lost)
    }

    /// Whether changes are remembered for this transfer.
    pub(crate) fn has_changes(&self, transfer: u64) -> bool {
        self.databases[0].remembers_for(transfer)
    }

    /// Takes out what was remembered for a transfer, of each database by its number; `None` if nothing was.
    pub(crate) fn take_changes(&mut self, transfer: u64) -> Option<Vec<Changes>> {
        self.databases
            .iter_mut()
            .map(|database| {
                let all = database.changes();
                let at = all.iter().position(|changes| changes.transfer == transfer)?;
                Some(all.swap_remove(at))
            })
            .collect()
    }

    /// Goes on remembering.
    pub(crate) fn put_changes(&mut self, changes: Vec<Changes>) {
        for (database, changes) in self.databases.iter_mut().zip(changes) {
            database.changes().push(changes);
        }
    }

    /// The databases in which a partition arrives, as a state has them that comes from elsewhere; `None` if there is no such partition.
    pub(crate) fn expect_arrival(&mut self, arriving: Option<(PartitionId, HashSeed)>) -> Option<()> {
        if let Some((partition, seed)) = arriving {
            if partition.number() >= self.placing.range().cluster_count().get() {
                return None;
            }
            self.make_room_for_arrival(partition, seed);
            self.hosting = Hosting::awaiting(partition, seed);
        }
        Some(())
    }

    /// Puts an object that has arrived under its key, whatever was there.
    pub(crate) fn place_arrived(&mut self, db: Db, location: Location, object: Object) {
        let database = &mut self.databases[db.index()];
        if let Some(before) = database.remove(location, object.key(), self.applied) {
            self.lazyfree.add(before);
        }
        database.restore(location, object);
    }

    /// Puts all objects of a partition that have arrived in its place, where nothing was.
    pub(crate) fn fill_arrived(&mut self, db: Db, partition: u16, filled: Directory, deadlines: Deadlines) {
        self.databases[db.index()].fill(partition, filled, deadlines);
    }

    /// Drops all objects of this partition and hash.
    pub(crate) fn clear_at(&mut self, db: Db, location: Location) {
        let database = &mut self.databases[db.index()];
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        database.visit_from(location, |_, object| {
            let is_there = database.locate(object.key()) == location;
            if is_there {
                keys.push(object.key().into());
            }
            is_there
        });
        for key in keys {
            if let Some(object) = database.remove(location, &key, self.applied) {
                self.lazyfree.add(object);
            }
        }
    }

    /// Moves each database of clients to where it is from now on: none twice. What is moved nowhere is dropped.
    pub(crate) fn arrange(&mut self, origins: [Option<u8>; Db::COUNT as usize]) {
        let of_clients = &mut self.databases[..usize::from(Db::COUNT)];
        let mut before: Vec<_> = of_clients
            .iter_mut()
            .map(|database| Some(database.take_keys()))
            .collect();
        for (database, origin) in of_clients.iter_mut().zip(origins) {
            let keys = origin.and_then(|origin| before.get_mut(usize::from(origin))?.take());
            if let Some(keys) = keys {
                database.put_keys(keys);
            }
        }
        for (keys, _) in before.into_iter().flatten() {
            self.lazyfree.add_segments(keys.into_segments());
        }
    }

    /// Keys of all databases.
    pub fn key_count(&self) -> usize {
        self.databases.iter().map(|database| database.len()).sum()
    }
}
