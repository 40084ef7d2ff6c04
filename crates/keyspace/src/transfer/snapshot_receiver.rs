//! State that comes from another replica: the receiver's side of a transfer (`transfer.rs`).
//!
//! ```text
//!   new --take(chunk 1)--> under way --take(chunk n)--> ... --take(last chunk)--> complete --finish--> Keyspace
//!                              |
//!                              +-- a chunk that is none, or out of order: an error, and the receiver is good for nothing
//! ```
//!
//! It is total on any bytes: chunks come from another machine. What it makes of bytes that only look like chunks is some
//! state or an error, never a panic, and it writes on no more memory than the bytes say.

use super::arriving_partition::ArrivingPartition;
use super::parts::Parts;
use super::pieces::Partial;
use super::{
    AT, BEGIN, EMPTY, END, FORMAT, FORMAT_CODED, FORMAT_OF_MOVES, GONE, OBJECT, PART, PART_BEGINS, PIECE,
    REST, STAGED,
};
use crate::directories::Location;
use crate::fields::read_stored_db;
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::object_codec;
use crate::staging;
use codec::{DecodeError, Reader};
use ids::{Db, KeyHash, SemanticsVersion, Version};

/// A state under way to this replica. See the file's header.
pub struct SnapshotReceiver {
    /// There is one as soon as the first chunk has told the seed and the partitions.
    keyspace: Option<Keyspace>,
    /// The partition whose objects come in scan order now.
    arriving: Option<ArrivingPartition>,
    /// For each database, the large object of which pieces have come.
    partials: Vec<Option<Partial>>,
    /// Long parts of what is no object.
    parts: Parts,
    /// Of the newest chunk.
    number: u64,
    known: SemanticsVersion,
    /// Whether the newest chunk says what is hosted.
    has_moves: bool,
    /// Whether a fragment has come in place of a string: the group must have a code.
    has_coded: bool,
    is_complete: bool,
    is_broken: bool,
}

/// How far a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Objects that are here.
    pub objects: usize,
    /// Whether this was the last chunk.
    pub is_complete: bool,
}

/// Why bytes are not the next chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferError {
    /// They are no chunk at all.
    Malformed(DecodeError),
    /// They are not the chunk behind the last one.
    OutOfOrder,
    /// The state was made by rules that this build does not know.
    Semantics,
}

impl std::fmt::Display for TransferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TransferError::Malformed(error) => {
                return write!(f, "the bytes are no chunk of a transfer: {error}");
            }
            TransferError::OutOfOrder => "the chunk is not the one behind the last",
            TransferError::Semantics => "the state was made by rules that this build does not know",
        })
    }
}

impl std::error::Error for TransferError {}

impl From<DecodeError> for TransferError {
    fn from(error: DecodeError) -> TransferError {
        TransferError::Malformed(error)
    }
}

impl Default for SnapshotReceiver {
    fn default() -> SnapshotReceiver {
        SnapshotReceiver::new()
    }
}

impl SnapshotReceiver {
    /// Nothing has come.
    pub fn new() -> SnapshotReceiver {
        SnapshotReceiver {
            keyspace: None,
            arriving: None,
            partials: (0..Db::STORED).map(|_| None).collect(),
            parts: Parts::default(),
            number: 0,
            known: SemanticsVersion::CURRENT,
            has_moves: false,
            has_coded: false,
            is_complete: false,
            is_broken: false,
        }
    }

    /// See [`Keyspace::knows`].
    pub fn knows(mut self, newest: SemanticsVersion) -> SnapshotReceiver {
        self.known = newest;
        self
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// If the bytes are something else. Nothing more can be taken then: the transfer must start again.
    pub fn take(&mut self, chunk: &[u8]) -> Result<Progress, TransferError> {
        if self.is_broken || self.is_complete {
            return Err(TransferError::OutOfOrder);
        }
        self.is_broken = true;
        self.read(&mut Reader::new(chunk))?;
        self.is_broken = false;
        let arriving = self.arriving.as_ref().map_or(0, ArrivingPartition::len);
        Ok(Progress {
            objects: self.keyspace.as_ref().map_or(0, Keyspace::key_count) + arriving,
            is_complete: self.is_complete,
        })
    }

    /// The state, if it is complete.
    pub fn finish(self) -> Option<Keyspace> {
        self.keyspace.filter(|_| self.is_complete)
    }

    /// Drops up to about `budget` objects of what is large and was sent in vain, and counts them down; `true` if none is
    /// left.
    pub fn collect_lazyfree(&mut self, budget: &mut usize) -> bool {
        self.keyspace
            .as_mut()
            .is_none_or(|keyspace| keyspace.collect_lazyfree(budget))
    }

    fn read(&mut self, rest: &mut Reader<'_>) -> Result<(), TransferError> {
        let unknown = rest.error("a format that this build knows");
        self.has_moves = match rest.u8()? {
            FORMAT => false,
            FORMAT_OF_MOVES | FORMAT_CODED => true,
            _ => return Err(unknown.into()),
        };
        if rest.u64()? != self.number + 1 {
            return Err(TransferError::OutOfOrder);
        }
        self.number += 1;
        let seed = object_codec::read_seed(rest)?;
        let partitions = object_codec::read_partitions(rest)?;
        let foreign = rest.error("a partition of the cluster");
        let (placing, arriving) = object_codec::read_placing(seed, partitions, self.has_moves, rest)?;
        if self.keyspace.is_none() {
            let mut keyspace = Keyspace::new(seed, partitions).knows(self.known);
            keyspace.place_anew(&placing);
            keyspace.expect_arrival(arriving).ok_or(foreign)?;
            self.keyspace = Some(keyspace);
        }
        let keyspace = self.keyspace.as_mut().expect("it was just made");
        if keyspace.placing != placing || keyspace.hosting.arriving() != arriving {
            return Err(TransferError::OutOfOrder);
        }
        let twice = rest.error("where each database comes from, none twice");
        let origins: [u8; Db::COUNT as usize] = rest.array()?;
        let is_moved = |(origin, db): (&u8, u8)| *origin != db;
        if origins.iter().zip(0..).any(is_moved) {
            complete(keyspace, &mut self.arriving)
                .and_then(|()| arrange(keyspace, &mut self.partials, origins))
                .ok_or(twice)?;
        }
        while !rest.is_empty() && !self.is_complete {
            self.record(rest)?;
        }
        Ok(rest.end()?)
    }

    fn record(&mut self, rest: &mut Reader<'_>) -> Result<(), TransferError> {
        let keyspace = self.keyspace.as_mut().expect("the head of a chunk makes one");
        let unknown = rest.error("a record that follows those before");
        let arriving = &mut self.arriving;
        if arriving.as_ref().is_some_and(ArrivingPartition::is_overdue) {
            complete(keyspace, arriving).ok_or(unknown)?;
        }
        let tag = rest.u8()?;
        if tag == REST {
            complete(keyspace, arriving).ok_or(unknown)?;
            let semantics = keyspace.read_remainder(&mut self.parts, self.has_moves, rest)?;
            if !(SemanticsVersion::OLDEST..=self.known).contains(&semantics) {
                return Err(TransferError::Semantics);
            }
            if self.has_coded && keyspace.code().is_none() {
                return Err(unknown.into());
            }
            // What is left of them was begun and changed.
            for partial in &mut self.partials {
                discard(keyspace, partial);
            }
            self.parts.discard(&mut keyspace.lazyfree);
            self.is_complete = true;
            return Ok(());
        }
        if tag == STAGED {
            let (gateway, piece) = staging::read_piece(rest)?;
            keyspace.staging.add(gateway, piece, &mut keyspace.lazyfree);
            return Ok(());
        }
        if let PART_BEGINS | PART | GONE = tag {
            return Ok(self.parts.record(tag, rest, &mut keyspace.lazyfree)?);
        }
        let db = read_stored_db(rest)?;
        if db.index() >= keyspace.databases.len() {
            return Err(unknown.into());
        }
        let partial = &mut self.partials[db.index()];
        let done = match tag {
            AT => {
                let location = Location {
                    partition: rest.u16()?,
                    hash: KeyHash(rest.u64()?),
                };
                match part_of(arriving, db, location) {
                    Some(arriving) => arriving.clear(location.hash),
                    None => keyspace.clear_at(db, location),
                }
                for _ in 0..rest.u32()? {
                    let object = object(rest)?;
                    note_form(&mut self.has_coded, db, &object).ok_or(unknown)?;
                    let location = keyspace.database(db).locate(object.key());
                    place(keyspace, arriving, db, location, object).ok_or(unknown)?;
                }
                Some(())
            }
            OBJECT => {
                let object = object(rest)?;
                note_form(&mut self.has_coded, db, &object).ok_or(unknown)?;
                let location = keyspace.database(db).locate(object.key());
                let begins = part_of(arriving, db, location).is_none()
                    && keyspace.database(db).is_empty_at(location.partition);
                if begins {
                    complete(keyspace, arriving).ok_or(unknown)?;
                    let seed = keyspace.database(db).seed_at(location.partition);
                    *arriving = Some(ArrivingPartition::begin(db, location.partition, seed));
                }
                place(keyspace, arriving, db, location, object)
            }
            BEGIN => {
                let begun = Partial::read(rest)?;
                discard(keyspace, partial);
                *partial = Some(begun);
                Some(())
            }
            PIECE => {
                let piece = rest.bytes()?;
                partial.as_mut().and_then(|partial| partial.add(piece))
            }
            END => {
                let object = partial.take().and_then(Partial::finish).ok_or(unknown)?;
                note_form(&mut self.has_coded, db, &object).ok_or(unknown)?;
                let location = keyspace.database(db).locate(object.key());
                place(keyspace, arriving, db, location, object)
            }
            _ => None,
        };
        Ok(done.ok_or(unknown)?)
    }
}

/// Notes whether an object is a fragment. `None` if it is one where there are none.
fn note_form(has_coded: &mut bool, db: Db, object: &Object) -> Option<()> {
    *has_coded |= object.is_coded();
    (!object.is_coded() || db != Db::LIBRARIES).then_some(())
}

/// The partition that is arriving, if what belongs there belongs to it.
fn part_of(
    arriving: &mut Option<ArrivingPartition>,
    db: Db,
    location: Location,
) -> Option<&mut ArrivingPartition> {
    arriving.as_mut().filter(|arriving| arriving.hosts(db, location))
}

/// Puts an object under its key, whatever was there; `None` if it cannot be.
fn place(
    keyspace: &mut Keyspace,
    arriving: &mut Option<ArrivingPartition>,
    db: Db,
    location: Location,
    object: Object,
) -> Option<()> {
    match part_of(arriving, db, location) {
        Some(arriving) => arriving.add(location.hash, object),
        None => {
            keyspace.place_arrived(db, location, object);
            Some(())
        }
    }
}

/// Nothing more comes in scan order of the partition that is arriving. `None` if it cannot be what came.
fn complete(keyspace: &mut Keyspace, arriving: &mut Option<ArrivingPartition>) -> Option<()> {
    arriving
        .take()
        .map_or(Some(()), |arriving| arriving.complete(keyspace))
}

fn object(rest: &mut Reader<'_>) -> Result<Object, DecodeError> {
    let version = Version(rest.u64()?);
    let mut object = object_codec::read_arrived(rest)?;
    object.set_version(version);
    Ok(object)
}

/// Moves databases, and what has come in pieces of them, to where the sender has them now.
fn arrange(
    keyspace: &mut Keyspace,
    partials: &mut [Option<Partial>],
    origins: [u8; Db::COUNT as usize],
) -> Option<()> {
    let mut is_taken = [false; Db::COUNT as usize];
    for &origin in origins.iter().filter(|&&origin| origin != EMPTY) {
        let taken = is_taken.get_mut(usize::from(origin))?;
        if std::mem::replace(taken, true) {
            return None;
        }
    }
    keyspace.arrange(origins.map(|origin| (origin != EMPTY).then_some(origin)));
    let of_clients = &mut partials[..usize::from(Db::COUNT)];
    let mut before: Vec<Option<Partial>> = of_clients.iter_mut().map(Option::take).collect();
    for (partial, &origin) in of_clients.iter_mut().zip(&origins) {
        *partial = before.get_mut(usize::from(origin)).and_then(Option::take);
    }
    for partial in &mut before {
        discard(keyspace, partial);
    }
    Some(())
}

fn discard(keyspace: &mut Keyspace, partial: &mut Option<Partial>) {
    if let Some(large) = partial.take().and_then(Partial::into_large) {
        keyspace.lazyfree().add_large(large);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Transfer, TransferStep};
    use ids::{HashSeed, PartitionCount, PartitionRange, Prng, UnixMillis};

    const KEYS: u64 = 12_000;

    fn put(keyspace: &mut Keyspace, number: u64, value: &str) {
        let key = format!("key:{number}");
        let deadline = (number.is_multiple_of(7)).then_some(UnixMillis(number as i64));
        let object = Object::string(key.as_bytes(), value.as_bytes(), deadline, Version(number + 1));
        let location = keyspace.locate(key.as_bytes());
        keyspace.place_arrived(Db::default(), location, object);
    }

    fn delete(keyspace: &mut Keyspace, number: u64) {
        let location = keyspace.locate(format!("key:{number}").as_bytes());
        keyspace.clear_at(Db::default(), location);
    }

    fn sender(partitions: u16) -> Keyspace {
        let partitions = PartitionRange::all(PartitionCount::new(partitions).unwrap());
        let mut sender = Keyspace::new(HashSeed([3, 4]), partitions);
        (0..KEYS).for_each(|number| put(&mut sender, number, "a value"));
        sender
    }

    /// What has come of a state that changes after each chunk. The receiver is looked at after each but the last.
    fn sent(
        sender: &mut Keyspace,
        mut change: impl FnMut(&mut Keyspace),
        mut look: impl FnMut(&SnapshotReceiver),
    ) -> Keyspace {
        let mut transfer = Transfer::begin(sender).unwrap();
        let mut receiver = SnapshotReceiver::new();
        loop {
            match transfer.next_chunk(sender, 20_000) {
                TransferStep::More(chunk) => receiver.take(&chunk).unwrap(),
                TransferStep::Last(chunk) => {
                    receiver.take(&chunk).unwrap();
                    return receiver.finish().unwrap();
                }
                TransferStep::Lost => panic!("little changed"),
            };
            look(&receiver);
            change(sender);
        }
    }

    fn are_equal(ours: &Keyspace, theirs: &Keyspace) {
        assert_eq!(ours.state_hash(), theirs.state_hash());
        assert_eq!(ours.counts(Db::default()), theirs.counts(Db::default()));
        let (ours, theirs) = (ours.memory(), theirs.memory());
        assert!(
            ours.abs_diff(theirs) * 100 <= theirs,
            "{ours} bytes of what were {theirs}"
        );
    }

    #[test]
    fn what_does_not_change_comes_in_scan_order_and_takes_as_much_memory_as_where_it_grew() {
        for partitions in [1, 4, 64] {
            let mut sender = sender(partitions);
            let mut chunks = 0;
            let received = sent(
                &mut sender,
                |_| {},
                |receiver| {
                    chunks += 1;
                    let (keyspace, arriving) = (&receiver.keyspace, &receiver.arriving);
                    let (keyspace, arriving) = (keyspace.as_ref().unwrap(), arriving.as_ref().unwrap());
                    assert!(arriving.len() > 0 && arriving.late() == 0);
                    if partitions == 1 {
                        assert_eq!(keyspace.key_count(), 0, "nothing is placed by itself");
                    }
                },
            );
            assert!(chunks > 10);
            are_equal(&received, &sender);
        }
    }

    #[test]
    fn what_changes_among_hashes_that_have_come_is_right_in_the_end_however_much_it_is() {
        // With many changes the partition is completed before it has come, and the rest is placed one by one.
        for (partitions, changes, is_overdue) in [(1, 40, false), (1, 400, true), (4, 40, false)] {
            let mut prng = Prng::new(u64::from(partitions) + changes);
            let mut sender = sender(partitions);
            let (mut most_late, mut without) = (0, 0);
            let received = sent(
                &mut sender,
                |sender| {
                    for _ in 0..changes {
                        let number = prng.below(KEYS * 5 / 4);
                        match prng.below(3) {
                            0 => delete(sender, number),
                            1 => put(sender, number, "another value"),
                            _ => put(sender, number, &"v".repeat(prng.below(400) as usize)),
                        }
                    }
                },
                |receiver| {
                    let late = receiver.arriving.as_ref().map(ArrivingPartition::late);
                    most_late = late.unwrap_or(0).max(most_late);
                    without += u32::from(late.is_none());
                },
            );
            assert!(most_late > 0);
            assert_eq!(
                without > 0,
                is_overdue,
                "{partitions} partitions, {changes} changes"
            );
            are_equal(&received, &sender);
        }
    }
}
