//! The hash of a small part of the state, which replicas compare while they serve.
//!
//! Replicas that have applied the same entries are equal. If one is not (a mistake in `apply`, a bit that has flipped), nobody
//! notices: it votes, and may lead. To compare everything ([`Keyspace::state_hash`]) would hold a worker up for as long as it takes to
//! walk over everything. So now and then a *round* begins, with an entry, and each replica hashes a slice of what it has then:
//! the counts of everything, and some two hundred objects, of long values a piece.
//!
//! ```text
//!   group time  --|---------------------|---------------------|-->     about a second each, another moment in each group
//!   entries       e  e  e      e  e     E  e  e            e  E        the first entry behind it begins the round
//! ```
//!
//! When a round begins, and which slice it is, follow from the entries and the state alone: nothing is written into the log for it,
//! and a replica that was filled a moment ago takes part. The slice is drawn by the number of the round, each object being as likely
//! as any other: of a million keys nearly all were looked at within a day.

use crate::Keyspace;
use crate::coded::SettlingRule;
use crate::database::Database;
use crate::digest::Digest;
use crate::large::Large;
use crate::object::{Object, Value};
use crate::value::Digits;
use ids::{Db, KeyHash, Prng};

/// Milliseconds of group time from one round to the next.
const ROUND_MILLIS: i64 = 1_000;

/// By how many milliseconds groups begin their rounds apart: a worker has several, and a turn should have one of them.
const APART_MILLIS: i64 = 61;

/// About as many objects are in one slice: the hash space is divided by it.
pub(crate) const SLICE_OBJECTS: usize = 128;

/// No more of them are looked at: twice as many as there should be.
const OBJECTS_MAX: usize = 2 * SLICE_OBJECTS;

/// Bytes of a key, or of a value, that are looked at: of what is longer, a piece somewhere in it.
const PIECE_BYTES: usize = 1_024;

/// Elements of a large collection that are looked at.
const PIECE_ELEMENTS: usize = 16;

/// Bytes of each of them, so that a slice of the longest of all is below a mebibyte.
const ELEMENT_BYTES: usize = 64;

/// Of a string that can be settled, the longest of which the checksum is looked at: a slice has some hundreds of them. A replica that has
/// a fragment can compare nothing else, and of those that are longer the length alone.
const CHECKED_BYTES_MAX: usize = 16 * 1024;

/// When rounds begin, what is hashed, and in which order. Replicas that say another number cannot be compared.
pub const SCRUB_FORMAT: u8 = 2;

/// The number of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubRound(i64);

impl Keyspace {
    /// The round that the newest entry is in: if that of the entry before was another one, it has begun with this one.
    pub fn scrub_round(&self) -> ScrubRound {
        let apart = i64::from(self.place.group.number()) * APART_MILLIS;
        ScrubRound(self.time().0.saturating_add(apart).div_euclid(ROUND_MILLIS))
    }

    /// The hash of the slice of a round: equal on replicas that have applied the same entries. Takes about a tenth of a
    /// millisecond, however large the state is.
    pub fn scrub(&self, round: ScrubRound) -> u64 {
        let mut prng = Prng::new(round.0 as u64);
        let mut digest = Digest::new();
        digest.number(self.time().0 as u64).number(self.applied().0);
        for limit in self.limits().numbers() {
            digest.number(limit.into());
        }
        let counts = self.transaction_counts();
        for count in [
            counts.prepared,
            counts.waiting,
            counts.ended,
            counts.deferred,
            counts.results,
        ] {
            digest.number(count as u64);
        }
        digest
            .number(self.session_count() as u64)
            .number(self.waiters.len() as u64);
        for database in &self.databases {
            database.hash_counts(&mut digest);
        }
        let at = prng.next_u64();
        if let Some((database, rank)) = self.draw_key(&mut prng) {
            let mut slice = Slice {
                digest: &mut digest,
                rule: self.settling_rule(Db::default()),
                at,
                left: OBJECTS_MAX,
            };
            database.scrub(rank, &mut prng, |object| slice.object(object));
        }
        digest.finish()
    }

    /// The database of a key, each as likely, and the key's rank in it. `None` if there are none.
    fn draw_key(&self, prng: &mut Prng) -> Option<(&Database, usize)> {
        let all: usize = self.databases.iter().map(Database::len).sum();
        let mut rank = prng.below(all.max(1) as u64) as usize;
        for database in &self.databases {
            if rank < database.len() {
                return Some((database, rank));
            }
            rank -= database.len();
        }
        None
    }
}

/// A slice under way.
struct Slice<'a> {
    digest: &'a mut Digest,
    rule: Option<SettlingRule>,
    /// Which piece of what is long.
    at: u64,
    left: usize,
}

impl Slice<'_> {
    /// The next object; `false` if it was the last one.
    fn object(&mut self, object: &Object) -> bool {
        self.piece(object.key());
        self.digest.number(object.version().0);
        match object.deadline() {
            None => self.digest.number(0),
            Some(deadline) => self.digest.number(1).number(deadline.0 as u64),
        };
        match object.value() {
            Value::Integer(number) => _ = self.digest.number(0).number(number as u64),
            Value::Bytes(bytes)
                if let Some(rule) = self.rule
                    && bytes.len() >= rule.threshold =>
            {
                self.string(object, bytes.len(), || crc32c::crc32c(bytes));
            }
            Value::Coded(coded) => self.string(object, coded.length(), || coded.checksum()),
            Value::Bytes(bytes) => {
                self.digest.number(1 + u64::from(object.is_grown()));
                self.piece(bytes);
            }
            Value::Listpack(kind, listpack) => {
                self.digest.number(3 + kind as u64);
                self.piece(listpack.bytes());
            }
            Value::Integers(bytes) => {
                self.digest.number(9);
                self.piece(bytes);
            }
            Value::Large(large) => {
                self.digest.number(10 + large.kind() as u64);
                self.large(large);
            }
        }
        self.left -= 1;
        self.left > 0
    }

    fn string(&mut self, object: &Object, length: usize, checksum: impl FnOnce() -> u32) {
        self.digest
            .number(16 + u64::from(object.is_grown()))
            .number(length as u64);
        if length <= CHECKED_BYTES_MAX {
            self.digest.number(checksum().into());
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.piece_of(bytes, PIECE_BYTES);
    }

    fn element(&mut self, bytes: &[u8]) {
        self.piece_of(bytes, ELEMENT_BYTES);
    }

    fn piece_of(&mut self, bytes: &[u8], len: usize) {
        self.digest.number(bytes.len() as u64);
        let start = self.start(bytes.len(), len);
        let end = bytes.len().min(start + len);
        self.digest.bytes(&bytes[start..end]);
    }

    /// Where a piece of something of this length begins.
    fn start(&self, len: usize, piece: usize) -> usize {
        let places = len.saturating_sub(piece) + 1;
        (self.at % places as u64) as usize
    }

    fn large(&mut self, large: &Large) {
        let len = large.len();
        self.digest.number(len as u64);
        let start = self.start(len, PIECE_ELEMENTS);
        match large {
            Large::List(list) => {
                for element in list.range(start, PIECE_ELEMENTS) {
                    self.element(element.text(&mut Digits::default()));
                }
            }
            Large::Set(members) | Large::Hash(members) => {
                let mut left = PIECE_ELEMENTS;
                members.visit_from(KeyHash(self.at), |member| {
                    self.element(member.key());
                    self.element(member.value().text(&mut Digits::default()));
                    left -= 1;
                    left > 0
                });
            }
            Large::SortedSet(sorted_set) => {
                for (member, score) in sorted_set.range(start..len.min(start + PIECE_ELEMENTS)) {
                    self.element(member);
                    self.digest.number(score.to_bits());
                }
            }
            Large::Stream(stream) => {
                self.piece(&stream.sample(self.at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, LeaderLocal};
    use ids::{HashSeed, PartitionRange, UnixMillis, Version};

    fn keyspace(keys: u64) -> Keyspace {
        let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::ONE);
        let mut local = LeaderLocal::new(1);
        let put = |number: u64| Effect::Put {
            db: Db::default(),
            object: string(number, b"value"),
        };
        keyspace.install((0..keys).map(put).collect(), &mut local);
        keyspace
    }

    fn string(number: u64, value: &[u8]) -> Object {
        Object::string(format!("k{number}").as_bytes(), value, None, Version(0))
    }

    /// The first round in which two states differ, of so many.
    fn noticed(one: &Keyspace, other: &Keyspace, rounds: i64) -> Option<i64> {
        (0..rounds).find(|round| one.scrub(ScrubRound(*round)) != other.scrub(ScrubRound(*round)))
    }

    #[test]
    fn a_round_begins_once_in_a_second_of_group_time_and_not_in_all_groups_at_once() {
        let mut keyspace = keyspace(0);
        let round_at = |keyspace: &mut Keyspace, millis| {
            keyspace.set_time(UnixMillis(millis));
            keyspace.scrub_round()
        };
        assert_eq!(round_at(&mut keyspace, 5_000), round_at(&mut keyspace, 5_999));
        assert_ne!(round_at(&mut keyspace, 5_999), round_at(&mut keyspace, 6_000));
        keyspace.set_place(txn::Participant::first(ids::GroupId::new(1)));
        assert_eq!(round_at(&mut keyspace, 5_999), round_at(&mut keyspace, 6_000));
        let empty = Keyspace::new(HashSeed([1, 2]), PartitionRange::ONE);
        let _ = empty.scrub(empty.scrub_round());
    }

    #[test]
    fn equal_states_have_equal_hashes_in_every_round() {
        assert_eq!(noticed(&keyspace(5_000), &keyspace(5_000), 1_000), None);
    }

    #[test]
    fn one_object_of_many_that_differs_is_found_after_as_many_rounds_as_there_are_slices() {
        let keys = 5_000;
        for number in [0, 1_234, keys - 1] {
            let (one, mut other) = (keyspace(keys), keyspace(keys));
            let location = other.locate(string(number, b"").key());
            let key = format!("k{number}");
            let database = other.database_mut(Db::default());
            let version = database
                .find(location, key.as_bytes())
                .expect("it was put")
                .version();
            let object = Object::string(key.as_bytes(), b"VALUE", None, version);
            database.put(location, object);
            let slices = (keys as usize / SLICE_OBJECTS) as i64;
            // By chance it may take a while: after twenty times as many rounds it was missed with a chance of e^-20.
            let round = noticed(&one, &other, 20 * slices);
            assert!(round.is_some(), "{key} was never looked at");
        }
    }

    #[test]
    fn of_what_is_long_every_piece_is_looked_at_in_some_round() {
        let long = vec![b'x'; 20 * PIECE_BYTES];
        for changed in [0, 7_777, long.len() - 1] {
            let mut other = long.clone();
            other[changed] = b'y';
            let keyspaces = [&long, &other].map(|value| {
                let mut keyspace = keyspace(0);
                let effect = Effect::Put {
                    db: Db::default(),
                    object: string(1, value),
                };
                keyspace.install(vec![effect], &mut LeaderLocal::new(1));
                keyspace
            });
            let [one, other] = &keyspaces;
            // The ends are in few of the pieces.
            assert!(noticed(one, other, 200 * 1_024).is_some(), "byte {changed}");
        }
    }
}
