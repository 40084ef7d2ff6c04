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
//! A long string that is most of the operation stays where it came. Of several, each is copied as it comes, to a block of its own.
//!
//! Only effects of a coordinator are looked at: nothing else in an operation has large values. Bytes that are none end it, and are
//! refused when the operation is carried out.

use crate::entry::Operations;
use crate::large::Large;
use crate::lazyfree::Lazyfree;
use crate::object_codec;
use bytes::Bytes;
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
    built: BTreeMap<usize, Built>,
}

/// A value that was put together.
pub(crate) enum Built {
    Large(Large),
    /// A long string.
    Text(Bytes),
}

impl Built {
    /// It is dropped piece by piece.
    pub(crate) fn discard(self, lazyfree: &mut Lazyfree) {
        match self {
            Built::Large(large) => lazyfree.add_large(large),
            Built::Text(text) => lazyfree.add_shared(text),
        }
    }
}

/// A value of which some is there.
enum Grown {
    Large(Large),
    Text(Vec<u8>),
}

struct Growing {
    start: usize,
    /// Up to where it was decoded.
    at: usize,
    end: usize,
    grown: Grown,
}

impl Growing {
    /// Takes what has come. Whether it is part of a value.
    fn grow(&mut self, bytes: &[u8]) -> bool {
        let end = bytes.len().min(self.end);
        let come = &bytes[self.at..end];
        match &mut self.grown {
            Grown::Large(large) => {
                let mut rest = Reader::new(come);
                let is_sound = object_codec::read_whole_elements(&mut rest, large).is_some();
                self.at = end - rest.rest().len();
                is_sound
            }
            Grown::Text(text) => {
                text.extend_from_slice(come);
                self.at = end;
                true
            }
        }
    }

    fn built(self) -> Built {
        match self.grown {
            Grown::Large(large) => Built::Large(large),
            Grown::Text(text) => Built::Text(text.into()),
        }
    }
}

impl Building {
    /// More of the operation has come: `bytes` are all of it so far, of so many.
    pub(crate) fn follow(&mut self, bytes: &[u8], whole_bytes: usize, lazyfree: &mut Lazyfree) {
        if self.next.is_none() && bytes.len() <= HEAD_BYTES_MAX {
            self.next = Operations::effects_of(bytes);
        }
        while self.step(bytes, whole_bytes, lazyfree) {}
    }

    /// Whether it went on to the next effect.
    fn step(&mut self, bytes: &[u8], whole_bytes: usize, lazyfree: &mut Lazyfree) -> bool {
        let Some((next, left @ 1..)) = self.next else {
            return false;
        };
        if let Some(mut growing) = self.growing.take() {
            let is_sound = growing.grow(bytes);
            if growing.at == growing.end && is_sound {
                self.next = Some((growing.end, left - 1));
                self.built.insert(growing.start, growing.built());
                return true;
            }
            if is_sound && bytes.len() < growing.end {
                self.growing = Some(growing);
            } else {
                growing.built().discard(lazyfree);
                self.next = Some((next, 0));
            }
            return false;
        }
        let large_value = |bytes| Operations::large_value_of(bytes, whole_bytes);
        let Some((large, length)) = bytes.get(next..).and_then(large_value) else {
            return false;
        };
        let Some((form, value)) = large else {
            self.next = Some((next + length, left - 1));
            return true;
        };
        let (start, end) = (next + length - value, next + length);
        if end > whole_bytes {
            self.next = Some((next, 0));
            return false;
        }
        if form == 0 {
            // What is not filled takes no memory.
            let grown = Grown::Text(Vec::with_capacity(value));
            self.growing = Some(Growing {
                start,
                at: start,
                end,
                grown,
            });
            return true;
        }
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
                    grown: Grown::Large(large),
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
    pub(crate) fn take_built(&mut self) -> BTreeMap<usize, Built> {
        std::mem::take(&mut self.built)
    }

    /// All of it is dropped piece by piece.
    pub(crate) fn discard(self, lazyfree: &mut Lazyfree) {
        let growing = self.growing.map(Growing::built);
        growing
            .into_iter()
            .chain(self.built.into_values())
            .for_each(|built| built.discard(lazyfree));
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

    fn len(built: &Built) -> usize {
        match built {
            Built::Large(large) => large.len(),
            Built::Text(text) => text.len(),
        }
    }

    fn len_of(grown: &Grown) -> usize {
        match grown {
            Grown::Large(large) => large.len(),
            Grown::Text(text) => text.len(),
        }
    }

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
        prepare_of(objects.map(|object| Effect::Put { db, object }).into())
    }

    /// A part of a transaction.
    fn prepare_of(effects: Vec<Effect>) -> Vec<u8> {
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
                effects,
                after_lock: false,
                result: None,
            },
        })));
        operations.into_bytes()
    }

    /// Of what is built, and of what is being built.
    fn held_bytes(building: &Building) -> usize {
        let growing = building.growing.as_ref();
        growing.map_or(0, |growing| len_of(&growing.grown)) + building.built.values().map(len).sum::<usize>()
    }

    #[test]
    fn values_are_built_as_their_pieces_come() {
        let bytes = prepare();
        for piece in [1, 7, 100, 4_096, 1 << 20] {
            let (mut building, mut lazyfree) = (Building::default(), Lazyfree::default());
            let mut most = 0;
            let mut before = 0;
            for end in (0..bytes.len()).step_by(piece).skip(1).chain([bytes.len()]) {
                building.follow(&bytes[..end], bytes.len(), &mut lazyfree);
                let now = held_bytes(&building);
                most = most.max(now - before);
                before = now;
            }
            let built = building.take_built();
            let lengths: Vec<usize> = built.values().map(len).collect();
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
                building.follow(&bytes[..end], bytes.len(), &mut lazyfree);
            }
            building.discard(&mut lazyfree);
            lazyfree.collect(&mut usize::MAX.clone());
        }
    }

    #[test]
    fn long_strings_of_which_none_is_most_of_the_operation_are_copied_as_they_come() {
        const BYTES: usize = 2 * 1024 * 1024;
        let db = Db::default();
        for (count, copied) in [(1, 0), (2, 2), (3, 3)] {
            let put = |number: u8| Effect::Put {
                db,
                object: Object::string(&[number], &vec![number; BYTES], None, Version(0)),
            };
            let bytes = prepare_of((0..count).map(put).collect());
            let (mut building, mut lazyfree, mut before) = (Building::default(), Lazyfree::default(), 0);
            for end in (0..bytes.len()).step_by(128 * 1024).skip(1).chain([bytes.len()]) {
                building.follow(&bytes[..end], bytes.len(), &mut lazyfree);
                let now = held_bytes(&building);
                assert!(
                    now - before <= 128 * 1024,
                    "no piece copies more than has come with it"
                );
                before = now;
            }
            let built = building.take_built();
            let is_text = |(number, built): (usize, &Built)| match built {
                Built::Text(text) => text.len() == BYTES && text.iter().all(|byte| *byte == number as u8),
                Built::Large(_) => false,
            };
            assert_eq!(built.len(), copied);
            assert!(built.values().enumerate().all(is_text));
        }
    }
}
