//! The keys of one numbered database of a group, by partitions: a directory for each.
//!
//! *Scan order* is that of partitions, and inside one the hash order. It is the order of everything that goes over all keys:
//! `SCAN`, transfers, random picks, the state hash. A partition without keys costs nothing but its place, and a database
//! without keys not even that.
//!
//! Invariants:
//! 1. There are no directories, or one for each partition of the range: those that the group does not host have no objects.
//! 2. `count` and `memory` are the sums of theirs.

use crate::directory::{Directory, Position};
use crate::object::Object;
use crate::placing::Placing;
use crate::scrub::SLICE_OBJECTS;
use crate::segment::Segment;
use crate::slot_word::{ObjectMut, ObjectRef};
use ids::{HashSeed, KeyHash, PartitionId, Prng, Slot, UnixMillis};

/// Where a key belongs in its group: in scan order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Location {
    /// The place of its partition among those of the group.
    pub(crate) partition: u16,
    /// Its hash.
    pub(crate) hash: KeyHash,
}

impl Location {
    /// Before all keys.
    pub(crate) const START: Location = Location {
        partition: 0,
        hash: KeyHash(0),
    };

    /// Before all keys of a partition.
    pub(crate) fn before(partition: u16) -> Location {
        Location {
            partition,
            hash: KeyHash(0),
        }
    }
}

/// Where a `SCAN` goes on: in a partition of the cluster, from a position on. It means the same after growth, on another
/// replica, and in whichever group the partition is by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor {
    /// The partition.
    pub partition: PartitionId,
    /// Where in it.
    pub position: Position,
}

impl Cursor {
    /// Before all keys of a partition.
    pub fn before(partition: PartitionId) -> Cursor {
        Cursor {
            partition,
            position: Position::START,
        }
    }

    /// What a client has brought back; `None` if it is beyond any partition that there could be.
    pub fn of_number(number: u64) -> Option<Cursor> {
        let partition = u16::try_from(number >> Position::BITS).ok()?;
        let position = Position::new(number & ((1 << Position::BITS) - 1))?;
        (partition < ids::PartitionCount::MAX).then_some(Cursor {
            partition: PartitionId::new(partition),
            position,
        })
    }

    /// As a number below 2^53, by which clients know it. 0 is the beginning of everything.
    pub fn number(self) -> u64 {
        u64::from(self.partition.number()) << Position::BITS | self.position.bits()
    }
}

/// See the file's header.
pub(crate) struct Directories {
    placing: Placing,
    directories: Vec<Directory>,
    count: usize,
    memory: usize,
    /// The partition where the search for due deadlines goes on.
    expiry_cursor: usize,
}

impl Directories {
    pub(crate) fn new(placing: Placing) -> Directories {
        Directories {
            placing,
            directories: Vec::new(),
            count: 0,
            memory: 0,
            expiry_cursor: 0,
        }
    }

    /// All keys, leaving none.
    pub(crate) fn take(&mut self) -> Directories {
        std::mem::replace(self, Directories::new(self.placing.clone()))
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of all objects and tables.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Where `key` belongs.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Location {
        self.placing.locate(key)
    }

    /// Whether a key belongs to one of the partitions of the range.
    pub(crate) fn is_of_range(&self, key: &[u8]) -> bool {
        let range = self.placing.range();
        let partition = range.cluster_count().partition_of(Slot::of_key(key));
        range.index(partition).is_some()
    }

    /// The directory of a partition, if any key was ever here.
    #[inline(always)]
    fn at(&self, partition: u16) -> Option<&Directory> {
        self.directories.get(usize::from(partition))
    }

    /// The segment where a key is, or would be.
    #[inline]
    pub(crate) fn segment_of(&self, location: Location) -> Option<&Segment> {
        self.at(location.partition)?.segment_of(location.hash)
    }

    #[inline(always)]
    pub(crate) fn find(&self, location: Location, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.at(location.partition)?.find(location.hash, key)
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, location: Location, key: &[u8]) -> Option<ObjectMut<'_>> {
        let directory = self.directories.get_mut(usize::from(location.partition))?;
        directory.find_mut(location.hash, key)
    }

    /// Objects at `location` changed size by this many bytes.
    #[inline]
    pub(crate) fn adjust_memory(&mut self, location: Location, before: usize, after: usize) {
        self.directories[usize::from(location.partition)].adjust_memory(before, after);
        self.memory = self.memory + after - before;
    }

    /// Tells the key's segment of a deadline it now has.
    pub(crate) fn note_deadline(&mut self, location: Location, deadline: UnixMillis) {
        if let Some(directory) = self.directories.get_mut(usize::from(location.partition)) {
            directory.note_deadline(location.hash, deadline);
        }
    }

    /// The directory of a partition, to be changed.
    #[inline]
    fn make(&mut self, partition: u16) -> &mut Directory {
        if self.directories.is_empty() {
            self.directories = (0..self.placing.range().len() as u16)
                .map(|index| Directory::new(self.placing.seed_at(index)))
                .collect();
        }
        &mut self.directories[usize::from(partition)]
    }

    /// What the hash order of a partition follows from.
    #[inline]
    pub(crate) fn seed_at(&self, partition: u16) -> HashSeed {
        self.placing.seed_at(partition)
    }

    /// Takes out all objects of a partition.
    pub(crate) fn take_at(&mut self, partition: u16) -> Directory {
        let empty = Directory::new(self.placing.seed_at(partition));
        let Some(directory) = self.directories.get_mut(usize::from(partition)) else {
            return empty;
        };
        let taken = std::mem::replace(directory, empty);
        self.memory -= taken.memory();
        self.count -= taken.len();
        taken
    }

    /// The keys lie in another range from now on, which has all of these partitions that have objects.
    pub(crate) fn place_anew(&mut self, placing: &Placing) {
        let before = std::mem::replace(&mut self.placing, placing.clone());
        let directories = std::mem::take(&mut self.directories);
        if directories.is_empty() {
            return;
        }
        let range = placing.range();
        self.directories = (0..range.len() as u16)
            .map(|index| Directory::new(placing.seed_at(index)))
            .collect();
        for (index, directory) in (0..)
            .zip(directories)
            .filter(|(_, directory)| directory.len() > 0)
        {
            let index = range.index(before.range().at(index));
            self.directories[usize::from(index.expect("the caller has kept it in the range"))] = directory;
        }
        // A directory without objects may have had tables.
        self.memory = self.directories.iter().map(Directory::memory).sum();
        self.expiry_cursor = 0;
    }

    /// Whether a partition has no objects.
    pub(crate) fn is_empty_at(&self, partition: u16) -> bool {
        self.at(partition).is_none_or(|directory| directory.len() == 0)
    }

    /// Gives a partition that has no objects all of these.
    pub(crate) fn fill(&mut self, partition: u16, filled: Directory) {
        let (count, after) = (filled.len(), filled.memory());
        let before = std::mem::replace(self.make(partition), filled);
        assert!(before.len() == 0, "objects would be lost");
        self.memory = self.memory + after - before.memory();
        self.count += count;
    }

    /// Adds an object whose key is absent.
    pub(crate) fn insert(&mut self, location: Location, object: Object) {
        let directory = self.make(location.partition);
        let before = directory.memory();
        directory.insert(location.hash, object);
        let after = directory.memory();
        self.memory = self.memory + after - before;
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, location: Location, key: &[u8]) -> Option<Object> {
        let directory = self.directories.get_mut(usize::from(location.partition))?;
        let before = directory.memory();
        let object = directory.remove(location.hash, key)?;
        self.memory = self.memory + directory.memory() - before;
        self.count -= 1;
        Some(object)
    }

    /// Calls `visit` for objects in scan order, from the first partition from `from` on that is hosted here, until it has seen about `budget`
    /// of them or all, or comes to a partition that is not. Returns where to go on, a partition behind these if all were seen; `None` if
    /// there is none. All of it follows from the objects: replicas agree.
    pub(crate) fn walk(
        &self,
        from: Cursor,
        budget: u64,
        hosts: impl Fn(PartitionId) -> bool,
        mut visit: impl FnMut(&Object),
    ) -> Option<Cursor> {
        let range = self.placing.range();
        let mut ahead = (0..range.len() as u16).map(|index| (index, range.at(index)));
        let (first, partition) =
            ahead.find(|(_, partition)| *partition >= from.partition && hosts(*partition))?;
        let is_there = partition == from.partition;
        let mut position = if is_there { from.position } else { Position::START };
        let mut seen = 0;
        for index in first..range.len() as u16 {
            let partition = range.at(index);
            if !hosts(partition) {
                return Some(Cursor::before(partition));
            }
            if let Some(directory) = self.at(index).filter(|directory| directory.len() > 0) {
                if seen >= budget {
                    return Some(Cursor { partition, position });
                }
                let rest = directory.walk(position, budget - seen, |object| {
                    seen += 1;
                    visit(object);
                });
                if let Some(position) = rest {
                    return Some(Cursor { partition, position });
                }
            }
            position = Position::START;
        }
        range.next().map(Cursor::before)
    }

    /// Calls `visit` for objects in scan order, with the place of their partition, from `from` on, as long as it answers
    /// `true`.
    pub(crate) fn visit_from(&self, from: Location, mut visit: impl FnMut(u16, &Object) -> bool) {
        let mut hash = from.hash;
        let directories = self.directories.iter().skip(from.partition.into());
        for (partition, directory) in (from.partition..).zip(directories) {
            let mut goes_on = true;
            directory.visit_from(hash, |object| {
                goes_on = visit(partition, object);
                goes_on
            });
            if !goes_on {
                return;
            }
            hash = KeyHash(0);
        }
    }

    /// The objects of the partition of `slot`, if it is one of these.
    pub(crate) fn for_each_beside(&self, slot: Slot, visit: impl FnMut(&Object)) {
        let range = self.placing.range();
        let partition = range.cluster_count().partition_of(slot);
        let directory = range.index(partition).and_then(|index| self.at(index));
        if let Some(directory) = directory {
            directory.for_each(visit);
        }
    }

    /// All objects, in scan order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Object)) {
        self.directories
            .iter()
            .for_each(|directory| directory.for_each(&mut visit));
    }

    /// Where a slice begins of the partition that has the object of this rank: one of equal shares of its hash space, that have about
    /// [`SLICE_OBJECTS`] objects each.
    pub(crate) fn slice(&self, mut rank: usize, prng: &mut Prng) -> Location {
        for (partition, directory) in (0..).zip(&self.directories) {
            if rank < directory.len() {
                let shares = directory.len().div_ceil(SLICE_OBJECTS) as u64;
                let share = u128::from(prng.below(shares));
                return Location {
                    partition,
                    hash: KeyHash(((share << 64) / u128::from(shares)) as u64),
                };
            }
            rank -= directory.len();
        }
        Location::START
    }

    /// A directory, each as likely as it has objects. `None` if there are none.
    fn draw(&self, prng: &mut Prng) -> Option<&Directory> {
        if self.count == 0 {
            return None;
        }
        let mut rank = prng.below(self.count as u64) as usize;
        self.directories.iter().find(|directory| {
            let is_it = rank < directory.len();
            rank = rank.saturating_sub(directory.len());
            is_it
        })
    }

    /// See [`Directory::pick`].
    pub(crate) fn pick(&self, prng: &mut Prng) -> Option<ObjectRef<'_>> {
        self.draw(prng)?.pick(prng)
    }

    /// See [`Directory::random`].
    pub(crate) fn random(&self, prng: &mut Prng) -> Option<ObjectRef<'_>> {
        self.draw(prng)?.random(prng)
    }

    /// Collects keys whose deadline is at or before `time`, going round the partitions from where the last call stopped,
    /// until about `objects_max` objects were looked at or all partitions were. `true` if everything was looked at.
    pub(crate) fn due(
        &mut self,
        time: UnixMillis,
        objects_max: usize,
        mut found: impl FnMut(&Object),
    ) -> bool {
        let mut budget = objects_max;
        for _ in 0..self.directories.len() {
            if self.expiry_cursor >= self.directories.len() {
                self.expiry_cursor = 0;
            }
            if !self.directories[self.expiry_cursor].due(time, &mut budget, &mut found) {
                return false;
            }
            self.expiry_cursor += 1;
        }
        true
    }

    /// The segments, to be dropped piece by piece.
    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.directories
            .into_iter()
            .flat_map(Directory::into_segments)
            .collect()
    }
}
