//! One numbered database of a group.

use crate::coded::SettlingRule;
use crate::digest::Digest;
use crate::directories::{Cursor, Directories, Location};
use crate::directory::Directory;
use crate::object::Object;
use crate::placing::Placing;
use crate::segment::Segment;
use crate::slot_word::ObjectRef;
use crate::transfer::changes::Changes;
use codec::{DecodeError, Reader, Writer};
use ids::{HashSeed, PartitionId, Prng, Slot, UnixMillis, Version};

/// Buckets of creation stamps. More make a needless `EXEC` failure rarer and cost eight bytes each.
const CREATION_BUCKETS: usize = 1_024;

/// Buckets of removal stamps. More make the absence of a key seem young more rarely and cost eight bytes each.
const REMOVAL_BUCKETS: usize = 256;

/// Keys of one database of one group, with what `WATCH` and expiry need to know of them.
pub(crate) struct Database {
    keys: Directories,
    deadlines: Deadlines,
    /// For absent keys, `WATCH` must notice that a key came and went. Every creation stamps the bucket of
    /// the key's hash, so an absent key whose bucket kept its stamp was absent all the time. Two keys that
    /// share a bucket can fail an `EXEC` needlessly, never let one pass wrongly; and the table is bounded
    /// whatever clients do, which one of deleted keys would not be.
    created: Box<[Version]>,
    /// Of each bucket the last removal, and of all the last time that the database was emptied: since when a key has been absent,
    /// at least ([`Database::last_change`]). Not state: who leads asks only for what he has seen.
    removed: Box<[Version]>,
    emptied: Version,
    /// Whether anybody can watch keys here.
    is_watchable: bool,
    /// The last `SWAPDB` of this database, in which every present key changed.
    swapped: Version,
    /// What transfers under way must know of; hardly ever any. It goes with the keys.
    changes: Vec<Changes>,
}

/// The keys that have a deadline: how many, and the sum of the deadlines.
#[derive(Clone, Copy, Default)]
pub(crate) struct Deadlines {
    count: usize,
    sum: i128,
}

impl Deadlines {
    #[inline]
    pub(crate) fn add(&mut self, deadline: Option<UnixMillis>) {
        if let Some(deadline) = deadline {
            self.count += 1;
            self.sum += i128::from(deadline.0);
        }
    }

    #[inline]
    fn remove(&mut self, deadline: Option<UnixMillis>) {
        if let Some(deadline) = deadline {
            self.count -= 1;
            self.sum -= i128::from(deadline.0);
        }
    }
}

/// When keys of one bucket came last, and went ([`Database::stamps`]).
#[derive(Clone, Copy)]
pub(crate) struct Stamps {
    created: Version,
    removed: Version,
}

/// What `WATCH` remembers of a key, and `EXEC` compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyVersion {
    /// The key's version.
    Present(Version),
    /// The last creation in the absent key's bucket.
    Absent(Version),
}

impl Database {
    /// An empty database. One that is not watchable keeps no creation stamps.
    pub(crate) fn new(placing: Placing, is_watchable: bool) -> Database {
        Database {
            keys: Directories::new(placing),
            deadlines: Deadlines::default(),
            created: Box::default(),
            removed: Box::default(),
            emptied: Version(0),
            is_watchable,
            swapped: Version(0),
            changes: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Keys with a deadline.
    pub(crate) fn with_deadline(&self) -> usize {
        self.deadlines.count
    }

    /// The mean of their deadlines, if there are any.
    pub(crate) fn mean_deadline(&self) -> Option<UnixMillis> {
        let mean = self.deadlines.sum.checked_div(self.deadlines.count as i128)?;
        Some(UnixMillis(mean as i64))
    }

    pub(crate) fn memory(&self) -> usize {
        self.keys.memory()
    }

    /// The segment where a key is, or would be.
    #[inline]
    pub(crate) fn segment_of(&self, location: Location) -> Option<&Segment> {
        self.keys.segment_of(location)
    }

    #[inline(always)]
    pub(crate) fn find(&self, location: Location, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.keys.find(location, key)
    }

    /// Changes an object in place, keeping count of bytes and deadlines.
    #[inline]
    pub(crate) fn update<R>(
        &mut self,
        location: Location,
        key: &[u8],
        change: impl FnOnce(&mut Object) -> R,
    ) -> Option<R> {
        let mut object = self.keys.find_mut(location, key)?;
        let (memory_before, deadline_before) = (object.memory(), object.deadline());
        let result = change(&mut object);
        let (memory_after, deadline_after) = (object.memory(), object.deadline());
        drop(object);
        self.note_change(location);
        self.keys.adjust_memory(location, memory_before, memory_after);
        if deadline_before != deadline_after {
            self.deadlines.add(deadline_after);
            self.deadlines.remove(deadline_before);
            if let Some(deadline) = deadline_after {
                self.keys.note_deadline(location, deadline);
            }
        }
        Some(result)
    }

    /// Changes the form of an object, which is and remains the same for all that anybody can see: no transfer sends it once more. One that
    /// sends it in pieces begins it again.
    pub(crate) fn reform(&mut self, location: Location, key: &[u8], change: impl FnOnce(&mut Object)) {
        let Some(mut object) = self.keys.find_mut(location, key) else {
            return;
        };
        let before = object.memory();
        change(&mut object);
        let after = object.memory();
        drop(object);
        self.keys.adjust_memory(location, before, after);
        self.changes
            .iter_mut()
            .for_each(|changes| changes.note_form(location));
    }

    /// Adds an object whose key is absent.
    pub(crate) fn insert(&mut self, location: Location, object: Object) {
        self.note_creation(bucket(location), object.version());
        self.note_change(location);
        self.deadlines.add(object.deadline());
        self.keys.insert(location, object);
    }

    /// Puts an object back that was taken out for a moment: for all that anybody can see it was always there.
    pub(crate) fn restore(&mut self, location: Location, object: Object) {
        self.note_change(location);
        self.deadlines.add(object.deadline());
        self.keys.insert(location, object);
    }

    /// Whether a partition has no keys.
    pub(crate) fn is_empty_at(&self, partition: u16) -> bool {
        self.keys.is_empty_at(partition)
    }

    /// Gives a partition that has no keys all of these, which have such deadlines. They come from elsewhere, as with
    /// [`Database::restore`], and no transfer is under way from here.
    pub(crate) fn fill(&mut self, partition: u16, filled: Directory, deadlines: Deadlines) {
        assert!(
            self.changes.iter().all(|changes| changes.is_lost),
            "a transfer would not know of them"
        );
        self.keys.fill(partition, filled);
        self.deadlines.count += deadlines.count;
        self.deadlines.sum += deadlines.sum;
    }

    /// Takes out all keys of a partition, with what is known of their deadlines. No transfer is under way from here.
    pub(crate) fn take_at(&mut self, partition: u16) -> (Directory, Deadlines) {
        assert!(
            self.changes.iter().all(|changes| changes.is_lost),
            "a transfer would not know of them"
        );
        let taken = self.keys.take_at(partition);
        let mut deadlines = Deadlines::default();
        if self.deadlines.count > 0 {
            taken.for_each(|object| deadlines.add(object.deadline()));
        }
        self.deadlines.count -= deadlines.count;
        self.deadlines.sum -= deadlines.sum;
        (taken, deadlines)
    }

    /// See [`Directories::place_anew`].
    pub(crate) fn place_anew(&mut self, placing: &Placing) {
        self.keys.place_anew(placing);
    }

    /// See [`Directories::seed_at`].
    #[inline]
    pub(crate) fn seed_at(&self, partition: u16) -> HashSeed {
        self.keys.seed_at(partition)
    }

    /// When all present keys changed last ([`Database::swap`]).
    pub(crate) fn swapped(&self) -> Version {
        self.swapped
    }

    /// Keys have come that may have changed then.
    pub(crate) fn note_swap(&mut self, version: Version) {
        self.swapped = self.swapped.max(version);
    }

    /// Transfers under way know nothing of what follows: they are to be begun again.
    pub(crate) fn lose_changes(&mut self) {
        self.changes.iter_mut().for_each(Changes::lose);
    }

    /// Puts an object in place of the one under its key, which it returns, or adds it.
    pub(crate) fn put(&mut self, location: Location, object: Object) -> Option<Object> {
        let Some(mut before) = self.keys.find_mut(location, object.key()) else {
            self.insert(location, object);
            return None;
        };
        let (memory_before, memory_after) = (before.memory(), object.memory());
        let (deadline_before, deadline_after) = (before.deadline(), object.deadline());
        let version = object.version();
        let replaced = std::mem::replace(&mut *before, object);
        drop(before);
        self.note_change(location);
        self.keys.adjust_memory(location, memory_before, memory_after);
        self.deadlines.add(deadline_after);
        self.deadlines.remove(deadline_before);
        if let Some(deadline) = deadline_after {
            self.keys.note_deadline(location, deadline);
        }
        // The key may have been absent for all that clients could see.
        self.note_creation(bucket(location), version);
        Some(replaced)
    }

    /// An expired key came to be again without having been deleted.
    pub(crate) fn note_revival(&mut self, location: Location, version: Version) {
        self.note_creation(bucket(location), version);
    }

    /// Stamps never go back, even if an old object comes in.
    fn note_creation(&mut self, bucket: usize, version: Version) {
        if !self.is_watchable {
            return;
        }
        if self.created.is_empty() {
            self.created = vec![Version(0); CREATION_BUCKETS].into_boxed_slice();
        }
        let stamp = &mut self.created[bucket];
        *stamp = version.max(*stamp);
    }

    /// Takes an object out, at this version.
    pub(crate) fn remove(&mut self, location: Location, key: &[u8], version: Version) -> Option<Object> {
        let object = self.keys.remove(location, key)?;
        self.note_removal(location, version);
        self.note_change(location);
        self.deadlines.remove(object.deadline());
        Some(object)
    }

    /// When keys like this one came last, and went.
    pub(crate) fn stamps(&self, location: Location) -> Stamps {
        let of = |stamps: &[Version], bucket: usize| stamps.get(bucket).copied().unwrap_or_default();
        Stamps {
            created: of(&self.created, bucket(location)),
            removed: of(&self.removed, removal_bucket(location)),
        }
    }

    /// Makes what is under a key what it was, when this was told of it ([`Database::stamps`]): what was there since never was.
    pub(crate) fn take_back(
        &mut self,
        location: Location,
        key: &[u8],
        before: Option<Object>,
        stamps: Stamps,
    ) -> Option<Object> {
        let now = self.keys.remove(location, key);
        if let Some(now) = &now {
            self.deadlines.remove(now.deadline());
        }
        match before {
            Some(before) => self.restore(location, before),
            None => self.note_change(location),
        }
        if let Some(stamp) = self.created.get_mut(bucket(location)) {
            *stamp = stamps.created;
        }
        if let Some(stamp) = self.removed.get_mut(removal_bucket(location)) {
            *stamp = stamps.removed;
        }
        now
    }

    fn note_removal(&mut self, location: Location, version: Version) {
        if !self.is_watchable || mutations::is(mutations::Mutation::RemovalNotStamped) {
            return;
        }
        if self.removed.is_empty() {
            self.removed = vec![Version(0); REMOVAL_BUCKETS].into_boxed_slice();
        }
        self.removed[removal_bucket(location)] = version;
    }

    /// Tells the transfers under way that an object of this hash came, changed or went.
    #[inline]
    fn note_change(&mut self, location: Location) {
        if !self.changes.is_empty() {
            self.changes.iter_mut().for_each(|changes| changes.note(location));
        }
    }

    /// What transfers under way know of this database.
    pub(crate) fn changes(&mut self) -> &mut Vec<Changes> {
        &mut self.changes
    }

    /// Whether changes are remembered for this transfer.
    pub(crate) fn remembers_for(&self, transfer: u64) -> bool {
        self.changes.iter().any(|changes| changes.transfer == transfer)
    }

    /// See [`Directories::visit_from`].
    pub(crate) fn visit_from(&self, from: Location, visit: impl FnMut(u16, &Object) -> bool) {
        self.keys.visit_from(from, visit);
    }

    /// Where a key belongs.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Location {
        self.keys.locate(key)
    }

    /// Whether a key belongs to one of the partitions that keys lie in here.
    pub(crate) fn is_of_range(&self, key: &[u8]) -> bool {
        self.keys.is_of_range(key)
    }

    /// Takes all keys out, with what is known of their deadlines.
    pub(crate) fn take_keys(&mut self) -> (Directories, Deadlines) {
        (self.keys.take(), std::mem::take(&mut self.deadlines))
    }

    /// Puts in what [`Database::take_keys`] took out, here or of another database. There must be no keys.
    pub(crate) fn put_keys(&mut self, (keys, deadlines): (Directories, Deadlines)) {
        assert!(self.len() == 0, "keys would be lost");
        (self.keys, self.deadlines) = (keys, deadlines);
    }

    /// Whether anything was ever here.
    pub(crate) fn has_stamps(&self) -> bool {
        self.swapped > Version(0) || self.created.iter().any(|stamp| *stamp > Version(0))
    }

    /// Writes what `WATCH` needs of absent keys.
    pub(crate) fn write_stamps(&self, to: &mut Vec<u8>) {
        to.u64(self.swapped.0);
        let stamped = || {
            (0u16..)
                .zip(&self.created)
                .filter(|(_, stamp)| **stamp > Version(0))
        };
        to.count(stamped().count());
        for (bucket, stamp) in stamped() {
            to.u16(bucket);
            to.u64(stamp.0);
        }
    }

    /// Reads what [`Database::write_stamps`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn read_stamps(&mut self, rest: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.swapped = Version(rest.u64()?);
        for _ in 0..rest.u32()? {
            let unknown = rest.error("a bucket of stamps");
            let bucket = usize::from(rest.u16()?);
            let stamp = Version(rest.u64()?);
            if bucket >= CREATION_BUCKETS {
                return Err(unknown);
            }
            self.note_creation(bucket, stamp);
        }
        Ok(())
    }

    /// What `WATCH` remembers of `key` at `time`.
    pub(crate) fn version(&self, location: Location, key: &[u8], time: UnixMillis) -> KeyVersion {
        match self.find(location, key).filter(|object| !object.is_expired(time)) {
            Some(object) => self.version_of(&object),
            None => KeyVersion::Absent(self.created.get(bucket(location)).copied().unwrap_or_default()),
        }
    }

    /// The same of what is there.
    pub(crate) fn version_of(&self, object: &Object) -> KeyVersion {
        KeyVersion::Present(object.version().max(self.swapped))
    }

    /// The version at which what is under `key` at `time` came to be so, or a later one. `None` if it is there and has
    /// expired: nobody has written down when.
    pub(crate) fn last_change(&self, location: Location, key: &[u8], time: UnixMillis) -> Option<Version> {
        if let Some(object) = self.find(location, key) {
            return (!object.is_expired(time)).then(|| object.version().max(self.swapped));
        }
        let created = self.created.get(bucket(location)).copied().unwrap_or_default();
        let removed = self.removed.get(removal_bucket(location));
        let removed = removed.copied().unwrap_or_default();
        Some(created.max(removed).max(self.emptied).max(self.swapped))
    }

    /// Empties the database at this version; the keys are dropped later, piece by piece. Creation stamps stay: they speak of
    /// the past.
    pub(crate) fn flush(&mut self, version: Version) -> Directories {
        self.deadlines = Deadlines::default();
        self.emptied = version;
        self.changes.iter_mut().for_each(Changes::note_flush);
        self.keys.take()
    }

    /// Exchanges the keys, but not what `WATCH` needs: that belongs to (database number, key).
    pub(crate) fn swap(&mut self, other: &mut Database, version: Version, time: UnixMillis) {
        let (ours, theirs) = (self.arriving(time), other.arriving(time));
        std::mem::swap(&mut self.keys, &mut other.keys);
        std::mem::swap(&mut self.deadlines, &mut other.deadlines);
        std::mem::swap(&mut self.changes, &mut other.changes);
        // A copy of one partition does not say what a database is made of.
        let changes = self.changes.iter_mut().chain(&mut other.changes);
        changes
            .filter(|changes| changes.only.is_some())
            .for_each(Changes::lose);
        self.take_over(&theirs, version);
        other.take_over(&ours, version);
    }

    /// The buckets of the keys that live here: exactly, if there are few; else every bucket ever stamped, so
    /// that a swap costs no walk over a large database.
    fn arriving(&self, time: UnixMillis) -> Vec<usize> {
        const WALKED_MAX: usize = 4_096;
        if self.len() > WALKED_MAX {
            let stamps = self.created.iter().enumerate();
            return stamps
                .filter(|(_, stamp)| **stamp > Version(0))
                .map(|(bucket, _)| bucket)
                .collect();
        }
        let mut buckets = Vec::new();
        self.for_each(|object| {
            if !object.is_expired(time) {
                buckets.push(bucket(self.locate(object.key())));
            }
        });
        buckets
    }

    /// Keys of another database came in: all that were here changed, and some that were absent may have come.
    fn take_over(&mut self, arriving: &[usize], version: Version) {
        self.swapped = version;
        arriving
            .iter()
            .for_each(|&bucket| self.note_creation(bucket, version));
    }

    /// Keys, and what `WATCH` needs of those that are absent: conditions are judged by it.
    pub(crate) fn hash(&self, rule: Option<SettlingRule>, digest: &mut Digest) {
        digest.number(self.len() as u64).number(self.swapped.0);
        for (bucket, stamp) in (0..).zip(&self.created) {
            if *stamp > Version(0) {
                digest.number(bucket).number(stamp.0);
            }
        }
        digest.number(u64::MAX);
        self.for_each(|object| digest.object(object, rule));
    }

    /// How much is here, for a [scrub](crate::Keyspace::scrub).
    pub(crate) fn hash_counts(&self, digest: &mut Digest) {
        let Deadlines { count, sum } = self.deadlines;
        digest.number(self.len() as u64).number(self.swapped.0);
        digest.number(count as u64).bytes(&sum.to_le_bytes());
    }

    /// Calls `visit` for the objects of a slice of the partition that has the key of this rank, as long as it answers `true`.
    pub(crate) fn scrub(&self, rank: usize, prng: &mut Prng, mut visit: impl FnMut(&Object) -> bool) {
        let start = self.keys.slice(rank, prng);
        self.keys.visit_from(start, |_, object| visit(object));
    }

    /// See [`Directories::walk`].
    pub(crate) fn walk(
        &self,
        from: Cursor,
        budget: u64,
        hosts: impl Fn(PartitionId) -> bool,
        visit: impl FnMut(&Object),
    ) -> Option<Cursor> {
        self.keys.walk(from, budget, hosts, visit)
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(&Object)) {
        self.keys.for_each(visit);
    }

    /// See [`Directories::for_each_beside`].
    pub(crate) fn for_each_beside(&self, slot: Slot, visit: impl FnMut(&Object)) {
        self.keys.for_each_beside(slot, visit);
    }

    /// See [`crate::directory::Directory::pick`].
    pub(crate) fn pick(&self, prng: &mut Prng) -> Option<ObjectRef<'_>> {
        self.keys.pick(prng)
    }

    /// See [`crate::directory::Directory::random`].
    pub(crate) fn random(&self, prng: &mut Prng) -> Option<ObjectRef<'_>> {
        self.keys.random(prng)
    }

    pub(crate) fn due(&mut self, time: UnixMillis, objects_max: usize, found: impl FnMut(&Object)) -> bool {
        self.deadlines.count == 0 || self.keys.due(time, objects_max, found)
    }
}

/// The bucket of creation stamps: low bits, since segments are chosen by the high ones.
fn bucket(location: Location) -> usize {
    (location.hash.0 as usize) % CREATION_BUCKETS
}

fn removal_bucket(location: Location) -> usize {
    (location.hash.0 as usize) % REMOVAL_BUCKETS
}
