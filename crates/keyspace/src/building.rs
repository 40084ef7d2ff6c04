//! Large values of an operation that comes in pieces, put together as the pieces come.
//!
//! ```text
//!  bytes    | head | effect | put, key .. form | element element ele | ment ...          piece after piece
//!                             next             start       at ^      ^ end of what has come
//! ```
//!
//! A set of a million members is decoded for hundreds of milliseconds. Whoever did so when the last piece is there would do
//! nothing else for so long; so each piece is decoded when it comes. What is built follows from the bytes, which are the state: it
//! is in no hash and in no transfer, and whoever gets the bytes builds it again.
//!
//! Only effects of a coordinator are looked at: nothing else in an operation has large values. Bytes that are none end it, and are
//! refused when the operation is carried out.

use crate::entry::Operations;
use crate::large::Large;
use crate::lazyfree::Lazyfree;
use crate::object_codec;
use codec::Reader;
use std::collections::BTreeMap;

/// Bytes at the beginning of an operation in which its effects are looked for. What begins later is decoded at once.
const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a value from which its elements are counted, to make room for all of them.
const SAMPLE_BYTES: usize = 4 * 1024;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Building {
    /// Where the next effect begins, and how many are left; `None` until that is known.
    next: Option<(usize, usize)>,
    growing: Option<Growing>,
    /// What is complete, by where it begins.
    built: BTreeMap<usize, Large>,
}

/// A value of which some elements are there.
struct Growing {
    start: usize,
    /// Up to where it was decoded.
    at: usize,
    end: usize,
    large: Large,
}

impl Building {
    /// More of the operation has come: `bytes` are all of it so far.
    pub(crate) fn follow(&mut self, bytes: &[u8], lazyfree: &mut Lazyfree) {
        if self.next.is_none() && bytes.len() <= HEAD_BYTES_MAX {
            self.next = Operations::effects_of(bytes);
        }
        while self.step(bytes, lazyfree) {}
    }

    /// Whether it went on to the next effect.
    fn step(&mut self, bytes: &[u8], lazyfree: &mut Lazyfree) -> bool {
        let Some((next, left @ 1..)) = self.next else {
            return false;
        };
        if let Some(mut growing) = self.growing.take() {
            let mut rest = Reader::new(&bytes[growing.at..bytes.len().min(growing.end)]);
            let is_sound = object_codec::read_whole_elements(&mut rest, &mut growing.large).is_some();
            growing.at = bytes.len().min(growing.end) - rest.rest().len();
            if growing.at == growing.end && is_sound {
                self.built.insert(growing.start, growing.large);
                self.next = Some((growing.end, left - 1));
                return true;
            }
            if is_sound && bytes.len() < growing.end {
                self.growing = Some(growing);
            } else {
                lazyfree.add_large(growing.large);
                self.next = Some((next, 0));
            }
            return false;
        }
        let Some((large, length)) = bytes.get(next..).and_then(Operations::large_value_of) else {
            return false;
        };
        let Some((form, value)) = large else {
            self.next = Some((next + length, left - 1));
            return true;
        };
        let (start, end) = (next + length - value, next + length);
        let there = &bytes[start..bytes.len().min(end)];
        if there.len() < value.min(SAMPLE_BYTES) {
            return false;
        }
        let mut rest = Reader::new(there);
        match object_codec::with_room(form, &mut rest, value) {
            Ok(large) => {
                let at = start + there.len() - rest.rest().len();
                self.growing = Some(Growing {
                    start,
                    at,
                    end,
                    large,
                });
                true
            }
            Err(_) => {
                self.next = Some((next, 0));
                false
            }
        }
    }

    /// What is complete.
    pub(crate) fn take_built(&mut self) -> BTreeMap<usize, Large> {
        std::mem::take(&mut self.built)
    }

    /// All of it is dropped piece by piece.
    pub(crate) fn discard(self, lazyfree: &mut Lazyfree) {
        let growing = self.growing.map(|growing| growing.large);
        growing
            .into_iter()
            .chain(self.built.into_values())
            .for_each(|large| lazyfree.add_large(large));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Effect;
    use crate::entry::{EntryOperation, Prepare, Work};
    use crate::object::Object;
    use ids::{Boot, Db, GroupId, HashSeed, UnixMillis, Version};
    use txn::{Participant, TxnId};

    const MEMBERS: usize = 3_000;

    fn set(key: &[u8]) -> Object {
        let mut members = crate::directory::Directory::new(HashSeed([3, 4]));
        for number in 0..MEMBERS {
            let member = format!("member:{number}");
            let hash = members.hash(member.as_bytes());
            members.insert(hash, Object::string(member.as_bytes(), b"", None, Version(0)));
        }
        Object::large(key, Large::Set(members), Some(UnixMillis(9)), Version(0))
    }

    /// A part of a transaction that puts a string and two sets.
    fn prepare() -> Vec<u8> {
        let db = Db::default();
        let string = Object::string(b"s", &[b'x'; 5_000], None, Version(0));
        let objects = [set(b"a"), string, set(b"b")];
        let effects = objects.map(|object| Effect::Put { db, object });
        let mut operations = Operations::new();
        operations.push(&EntryOperation::Prepare(Box::new(Prepare {
            txn: TxnId {
                boot: Boot(1),
                worker: 0,
                seq: 1,
                attempt: 1,
            },
            began: UnixMillis(1),
            participants: [Participant::first(GroupId::new(0))].into(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: Work::Install {
                effects: effects.into(),
                after_lock: false,
                result: None,
            },
        })));
        operations.into_bytes()
    }

    #[test]
    fn values_are_built_as_their_pieces_come() {
        let bytes = prepare();
        for piece in [1, 7, 100, 4_096, 1 << 20] {
            let (mut building, mut lazyfree) = (Building::default(), Lazyfree::default());
            let mut most = 0;
            let mut before = 0;
            for end in (0..bytes.len()).step_by(piece).skip(1).chain([bytes.len()]) {
                building.follow(&bytes[..end], &mut lazyfree);
                let growing = building.growing.as_ref().map_or(0, |growing| growing.large.len());
                let now = growing + building.built.values().map(Large::len).sum::<usize>();
                most = most.max(now - before);
                before = now;
            }
            let built = building.take_built();
            let lengths: Vec<usize> = built.values().map(Large::len).collect();
            assert_eq!(lengths, [MEMBERS, MEMBERS], "pieces of {piece}");
            if piece <= SAMPLE_BYTES {
                assert!(
                    most < 1_000,
                    "no piece of {piece} is decoded with many others: {most}"
                );
            }
        }
    }

    #[test]
    fn bytes_that_are_no_values_end_it() {
        let sound = prepare();
        for at in 0..sound.len().min(400) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x55;
            let (mut building, mut lazyfree) = (Building::default(), Lazyfree::default());
            for end in (0..bytes.len()).step_by(1_000).chain([bytes.len()]) {
                building.follow(&bytes[..end], &mut lazyfree);
            }
            building.discard(&mut lazyfree);
            lazyfree.collect(&mut usize::MAX.clone());
        }
    }
}
