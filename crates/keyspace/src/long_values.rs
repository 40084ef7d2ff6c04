//! Large collections that are written step by step, to be worked on elsewhere: nobody stands still for all of one.
//!
//! ```text
//!   begin --> go_on: More --> go_on: More --> .. --> Whole: all are as they were when it began, and are written
//!                |
//!                +--> Changed: what was written is of no use
//! ```
//!
//! Between two steps anything may happen to what is read. A value that has another version by then, or another length, is not the one that
//! was begun: one that is lent leaves an empty one in its place.

use crate::Keyspace;
use crate::database::KeyVersion;
use crate::encoded::EncodedObject;
use crate::large::Large;
use crate::object::{Object, Value};
use crate::object_codec;
use crate::transfer::pieces::{self, Place};
use ids::{Db, HashSeed};

/// Bytes of a collection that is written step by step: a smaller one takes a millisecond or two.
const LONG_BYTES_MIN: usize = 512 * 1024;

/// Bytes that are written in one step: half a millisecond.
pub const LONG_STEP_BYTES: usize = 128 * 1024;

/// The long values among what is read together. See the file's header.
pub struct LongValues(Vec<LongValue>);

struct LongValue {
    db: Db,
    key: Box<[u8]>,
    /// As it was when it was begun.
    version: KeyVersion,
    len: usize,
    state: Progress,
}

enum Progress {
    /// Where to go on, and what was written so far.
    Begun(Option<Place>, Vec<u8>),
    Whole(EncodedObject),
}

/// How far they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LongStep {
    /// There is more to be written.
    More,
    /// All are written.
    Whole,
    /// They are not any more what they were.
    Changed,
}

/// A value that is to be written step by step.
fn long(object: &Object) -> Option<&Large> {
    match object.value() {
        Value::Large(large) if large.memory() >= LONG_BYTES_MIN => Some(large),
        _ => None,
    }
}

impl LongValues {
    /// Whether there is a long one among what these keys hold.
    pub fn are_among<'a>(keyspace: &Keyspace, keys: impl IntoIterator<Item = (Db, &'a [u8])>) -> bool {
        keys.into_iter().any(|(db, key)| {
            let object = keyspace.object_at(db, key);
            object.as_deref().and_then(long).is_some()
        })
    }

    /// Begins with the long ones among what these keys hold; `None` if none is.
    pub fn begin<'a>(
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = (Db, &'a [u8])>,
    ) -> Option<LongValues> {
        let mut values: Vec<LongValue> = Vec::new();
        for (db, key) in keys {
            let object = keyspace.object_at(db, key);
            let Some(large) = object.as_deref().and_then(long) else {
                continue;
            };
            let is_there = values.iter().any(|value| value.db == db && *value.key == *key);
            if is_there {
                continue;
            }
            values.push(LongValue {
                db,
                key: key.into(),
                version: keyspace.version(db, key),
                len: large.len(),
                state: Progress::Begun(None, Vec::new()),
            });
        }
        (!values.is_empty()).then_some(LongValues(values))
    }

    /// Takes one step.
    pub fn go_on(&mut self, keyspace: &Keyspace) -> LongStep {
        if !self.0.iter().all(|value| value.is_current(keyspace)) {
            return LongStep::Changed;
        }
        let Some(value) = self.0.iter_mut().find(|value| !value.is_whole()) else {
            return LongStep::Whole;
        };
        let object = keyspace.object_at(value.db, &value.key);
        value.write(&object.expect("it is as it was"));
        match self.0.iter().all(LongValue::is_whole) {
            true => LongStep::Whole,
            false => LongStep::More,
        }
    }

    /// What was written of a key, if that is what it holds.
    pub fn of(&self, keyspace: &Keyspace, db: Db, key: &[u8]) -> Option<&EncodedObject> {
        let is_its = |value: &&LongValue| value.db == db && *value.key == *key;
        let value = self.0.iter().find(is_its)?;
        match &value.state {
            Progress::Whole(encoded) if value.is_current(keyspace) => Some(encoded),
            Progress::Whole(_) | Progress::Begun(..) => None,
        }
    }
}

impl LongValue {
    fn is_current(&self, keyspace: &Keyspace) -> bool {
        let object = keyspace.object_at(self.db, &self.key);
        let large = object.as_deref().and_then(long);
        large.is_some_and(|large| large.len() == self.len)
            && keyspace.version(self.db, &self.key) == self.version
    }

    fn is_whole(&self) -> bool {
        matches!(self.state, Progress::Whole(_))
    }

    fn write(&mut self, object: &Object) {
        let Progress::Begun(place, value) = &mut self.state else {
            return;
        };
        if let (Value::Large(large), true) = (object.value(), value.is_empty()) {
            *value = begun(large);
        }
        *place = pieces::write(value, object, *place, LONG_STEP_BYTES);
        if place.is_none() {
            let mut head = Vec::new();
            object_codec::write_head(&mut head, object);
            self.state = Progress::Whole(EncodedObject::new(&head, std::mem::take(value).into()));
        }
    }
}

/// What an element of a list takes at most when it is written, beyond what it takes in the list: of a number of 64 bits twenty digits and
/// their length, where there were ten bytes. Of a text it is two bytes.
const MORE_OF_LIST: usize = 14;

/// What stands before the elements. It has room for all of them: what is not written takes no memory, and nothing is moved. To move sixteen
/// mebibytes takes ten milliseconds.
fn begun(large: &Large) -> Vec<u8> {
    let more = match large {
        Large::List(_) => large.len() * MORE_OF_LIST,
        Large::Set(_) | Large::Hash(_) | Large::SortedSet(_) | Large::Stream(_) => size_of::<HashSeed>(),
    };
    let mut value = Vec::with_capacity(large.memory() + more);
    match large {
        Large::Set(directory) | Large::Hash(directory) => object_codec::seed(&mut value, directory.seed()),
        Large::SortedSet(sorted_set) => object_codec::seed(&mut value, sorted_set.seed()),
        Large::List(_) | Large::Stream(_) => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LeaderLocal;
    use ids::{PartitionCount, PartitionRange};
    use resp::{ArgsBuf, Protocol, ReplyWriter};

    fn keyspace() -> Keyspace {
        let partitions = PartitionRange::all(PartitionCount::new(4).expect("a valid count"));
        Keyspace::new(HashSeed([1, 2]), partitions)
    }

    fn run(keyspace: &mut Keyspace, words: &[&str]) {
        let (args, mut reply) = (ArgsBuf::from_slices(words), Vec::new());
        let command = crate::keyspace::parse(args.as_args()).expect("a command");
        let mut local = LeaderLocal::new(1);
        let out = &mut ReplyWriter::new(&mut reply, Protocol::Resp2);
        keyspace.apply_command(Db::default(), &command, &mut local, out);
        assert_ne!(reply[0], b'-', "{}", String::from_utf8_lossy(&reply));
    }

    /// A key of each kind, each of so many elements.
    fn fill(keyspace: &mut Keyspace, count: usize) -> [&'static str; 5] {
        for number in 0..count {
            let (text, score) = (format!("element:{number:09}"), number.to_string());
            run(keyspace, &["RPUSH", "list", &text]);
            run(keyspace, &["SADD", "set", &text]);
            run(keyspace, &["HSET", "hash", &text, &text]);
            run(keyspace, &["ZADD", "zset", &score, &text]);
            run(
                keyspace,
                &["XADD", "stream", &format!("1-{}", number + 1), "f", &text],
            );
        }
        ["list", "set", "hash", "zset", "stream"]
    }

    #[test]
    fn what_is_written_step_by_step_is_what_is_written_at_once() {
        let mut keyspace = keyspace();
        for key in fill(&mut keyspace, 40_000) {
            let key = (Db::default(), key.as_bytes());
            let mut values = LongValues::begin(&keyspace, [key, key]).expect("it is long");
            let (mut steps, mut step) = (1, values.go_on(&keyspace));
            while step == LongStep::More {
                steps += 1;
                step = values.go_on(&keyspace);
            }
            assert_eq!(step, LongStep::Whole);
            let object = keyspace.object_at(key.0, key.1).expect("it is there");
            let (whole, written) = (EncodedObject::of(&object), values.of(&keyspace, key.0, key.1));
            let (whole, written) = (whole.expect("it is large"), written.expect("it has not changed"));
            assert_eq!(whole.head_bytes(), written.head_bytes());
            assert!(whole.value_bytes() == written.value_bytes(), "{:?}", key.1);
            let least = whole.byte_len().div_ceil(LONG_STEP_BYTES + 1_024);
            assert!(
                steps >= least && steps > 3,
                "{steps} steps of {}",
                whole.byte_len()
            );
        }
    }

    #[test]
    fn there_is_room_for_all_of_a_value_before_it_is_written() {
        let mut keyspace = keyspace();
        for start in ["element:", "", "-", "123456789012"] {
            for number in 0..180_000 {
                run(&mut keyspace, &["RPUSH", start, &format!("{start}{number}")]);
            }
        }
        let keys = fill(&mut keyspace, 40_000).into_iter();
        for key in keys.chain(["element:", "", "-", "123456789012"]) {
            let key = (Db::default(), key.as_bytes());
            let Some(mut values) = LongValues::begin(&keyspace, [key]) else {
                panic!("{:?} is short", String::from_utf8_lossy(key.1));
            };
            let room = |values: &LongValues| match &values.0[0].state {
                Progress::Begun(_, value) => Some(value.as_ptr()),
                Progress::Whole(_) => None,
            };
            assert_eq!(values.go_on(&keyspace), LongStep::More);
            let first = room(&values);
            while values.go_on(&keyspace) == LongStep::More {
                assert_eq!(room(&values), first, "{:?} was moved", key.1);
            }
        }
    }

    #[test]
    fn what_changes_meanwhile_is_of_no_use() {
        let mut keyspace = keyspace();
        fill(&mut keyspace, 40_000);
        let key = (Db::default(), &b"set"[..]);
        for change in [
            &["SADD", "set", "another"][..],
            &["PEXPIREAT", "set", "99999999999999"],
            &["SREM", "set", "another"],
            &["RENAME", "set", "other"],
        ] {
            let mut values = LongValues::begin(&keyspace, [key]).expect("it is long");
            assert_eq!(values.go_on(&keyspace), LongStep::More);
            run(&mut keyspace, &["SET", "beside", "x"]);
            assert_eq!(values.go_on(&keyspace), LongStep::More);
            run(&mut keyspace, change);
            assert_eq!(values.go_on(&keyspace), LongStep::Changed, "{change:?}");
        }
        let other = (Db::default(), &b"other"[..]);
        let mut values = LongValues::begin(&keyspace, [other]).expect("it is long");
        let lent = keyspace.check_out_value(other.0, other.1).expect("it is there");
        assert_eq!(values.go_on(&keyspace), LongStep::Changed, "it is lent");
        keyspace.check_in_value(other.0, lent);
        assert!(LongValues::begin(&keyspace, [(Db::default(), &b"beside"[..])]).is_none());
    }
}
