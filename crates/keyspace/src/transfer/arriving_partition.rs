//! A partition whose objects come in scan order, until they have all come.
//!
//! A sender goes through a partition from its first hash to its last. What comes behind all that came is added to a
//! [builder](DirectoryBuilder): its key cannot be there, and nothing is looked up. What changed meanwhile comes *late*, among hashes that
//! have come. It waits, and is placed when the partition is complete, in the order in which it came: as nothing behind it is about the same
//! hash but what is late as well, it is as if it had been placed at once.

use crate::database::Deadlines;
use crate::directories::Location;
use crate::directory::builder::DirectoryBuilder;
use crate::keyspace::Keyspace;
use crate::object::Object;
use ids::{Db, HashSeed, KeyHash};

/// What may wait. It is placed then, and what comes later is placed one by one, which takes longer.
const LATE_MAX: usize = 4_096;

/// See the file's header.
pub(crate) struct ArrivingPartition {
    db: Db,
    partition: u16,
    builder: DirectoryBuilder,
    deadlines: Deadlines,
    late: Vec<Late>,
}

/// Something about a hash that has come.
enum Late {
    /// Nothing is there.
    Nothing(KeyHash),
    /// This is.
    Object(KeyHash, Object),
}

impl ArrivingPartition {
    /// Nothing has come of it.
    pub(crate) fn begin(db: Db, partition: u16, seed: HashSeed) -> ArrivingPartition {
        ArrivingPartition {
            db,
            partition,
            builder: DirectoryBuilder::new(seed),
            deadlines: Deadlines::default(),
            late: Vec::new(),
        }
    }

    /// Objects that came in scan order.
    pub(crate) fn len(&self) -> usize {
        self.builder.len()
    }

    /// What waits for the others.
    #[cfg(test)]
    pub(crate) fn late(&self) -> usize {
        self.late.len()
    }

    /// Whether what belongs there belongs here.
    #[inline]
    pub(crate) fn hosts(&self, db: Db, location: Location) -> bool {
        (self.db, self.partition) == (db, location.partition)
    }

    /// Whether as much is late as may be: it is to be completed.
    #[inline]
    pub(crate) fn is_overdue(&self) -> bool {
        self.late.len() >= LATE_MAX
    }

    /// An object has come, in place of the one under its key; `None` if that cannot be, as in [`DirectoryBuilder::add`].
    pub(crate) fn add(&mut self, hash: KeyHash, object: Object) -> Option<()> {
        if !self.builder.is_behind(hash) {
            self.late.push(Late::Object(hash, object));
            return Some(());
        }
        self.deadlines.add(object.deadline());
        self.builder.add(hash, object)
    }

    /// There are no objects of this hash.
    pub(crate) fn clear(&mut self, hash: KeyHash) {
        if !self.builder.is_behind(hash) {
            self.late.push(Late::Nothing(hash));
        }
    }

    /// Puts all that came where it belongs; `None` as above.
    pub(crate) fn complete(self, keyspace: &mut Keyspace) -> Option<()> {
        let ArrivingPartition { db, partition, .. } = self;
        keyspace.fill_arrived(db, partition, self.builder.finish()?, self.deadlines);
        for late in self.late {
            match late {
                Late::Nothing(hash) => keyspace.clear_at(db, Location { partition, hash }),
                Late::Object(hash, object) => {
                    keyspace.place_arrived(db, Location { partition, hash }, object);
                }
            }
        }
        Some(())
    }
}
