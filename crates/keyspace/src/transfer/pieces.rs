//! Large values in pieces, as they are cut and as they are put together.
//!
//! A piece is a part of what `object_codec.rs` would write of the whole value: bytes of a flat one, whole elements of others. While
//! a value is being sent it does not change (if it does, it is begun again), so a place in it stays what it is.

use crate::directory::Directory;
use crate::large::Large;
use crate::list::List;
use crate::object::{Object, Value};
use crate::object_codec::{self, CODED, Head, LAST_FLAT};
use crate::sorted_set::SortedSet;
use crate::stream::{RecordsFrom, Stream};
use crate::value::Digits;
use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use command::ListEnd;
use ids::{HashSeed, KeyHash, UnixMillis, Version};

/// Where the next piece of a value begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// At this byte, element of a list, or rank of a sorted set.
    Index(usize),
    /// At this hash of a set or hash.
    Hash(KeyHash),
    /// At this record of a stream.
    Record(RecordsFrom),
}

/// The bytes of a value that is one run of them; `None` of any other.
fn flat<'a>(value: Value<'a>, digits: &'a mut Digits) -> Option<&'a [u8]> {
    match value {
        Value::Bytes(bytes) | Value::Integers(bytes) => Some(bytes),
        Value::Integer(number) => Some(digits.format(number)),
        Value::Listpack(_, listpack) => Some(listpack.bytes()),
        Value::Coded(coded) => Some(coded.bytes()),
        Value::Large(_) => None,
    }
}

/// Writes a piece of about `budget` bytes, of at least one element, from `place` on. Returns where the next begins; `None`
/// if it was the last.
pub(crate) fn write(to: &mut Vec<u8>, object: &Object, place: Option<Place>, budget: usize) -> Option<Place> {
    let limit = to.len().saturating_add(budget.max(1));
    let start = match place {
        Some(Place::Index(index)) => index,
        _ => 0,
    };
    let mut digits = Digits::default();
    if let Some(bytes) = flat(object.value(), &mut digits) {
        let end = bytes.len().min(start.saturating_add(budget.max(1)));
        to.raw(&bytes[start..end]);
        return (end < bytes.len()).then_some(Place::Index(end));
    }
    let mut next = None;
    match object.value() {
        Value::Large(Large::List(list)) => {
            let elements = list.elements(ListEnd::Left, start, usize::MAX);
            for (index, element) in (start..).zip(elements) {
                if to.len() >= limit {
                    next = Some(Place::Index(index));
                    break;
                }
                to.bytes(element.text(&mut Digits::default()));
            }
        }
        Value::Large(Large::Set(directory)) => next = write_directory(to, directory, place, limit, false),
        Value::Large(Large::Hash(directory)) => next = write_directory(to, directory, place, limit, true),
        Value::Large(Large::SortedSet(sorted_set)) => {
            let members = sorted_set.range(start..sorted_set.len());
            for (rank, (member, score)) in (start..).zip(members) {
                if to.len() >= limit {
                    next = Some(Place::Index(rank));
                    break;
                }
                to.bytes(member);
                to.u64(score.to_bits());
            }
        }
        Value::Large(Large::Stream(stream)) => {
            let from = match place {
                Some(Place::Record(from)) => from,
                _ => RecordsFrom::Start,
            };
            next = stream.write_from(to, from, limit).map(Place::Record);
        }
        _ => unreachable!("every other value is flat"),
    }
    next
}

fn write_directory(
    to: &mut Vec<u8>,
    directory: &Directory,
    place: Option<Place>,
    limit: usize,
    with_values: bool,
) -> Option<Place> {
    let from = match place {
        Some(Place::Hash(hash)) => hash,
        _ => KeyHash(0),
    };
    let mut next = None;
    let mut last = None;
    directory.visit_from(from, |object| {
        if to.len() >= limit {
            // Members of one hash are never parted.
            let hash = directory.hash(object.key());
            if last.is_some_and(|last| last != hash) {
                next = Some(Place::Hash(hash));
                return false;
            }
        }
        to.bytes(object.key());
        if with_values {
            to.bytes(object.value().text(&mut Digits::default()));
        }
        if to.len() >= limit {
            last = Some(directory.hash(object.key()));
        }
        true
    });
    next
}

/// Room that is made at once for a flat value: nobody writes on it before the bytes are there. A longer one is moved as it grows.
pub(crate) const FLAT_ROOM_MAX: u64 = 1 << 30;

/// Writes what a receiver must know before the first piece: everything of the object but its value, the seed of the
/// value's order, and how long it is if it is flat.
pub(crate) fn write_head(to: &mut Vec<u8>, object: &Object) {
    object_codec::write_head(to, object);
    to.u64(object.version().0);
    let seed = match object.value() {
        Value::Large(Large::Set(directory) | Large::Hash(directory)) => directory.seed(),
        Value::Large(Large::SortedSet(sorted_set)) => sorted_set.seed(),
        _ => HashSeed([0; 2]),
    };
    object_codec::seed(to, seed);
    let length = flat(object.value(), &mut Digits::default()).map_or(0, <[u8]>::len);
    to.u64(length as u64);
}

/// A large object of which pieces have come.
pub(crate) struct Partial {
    key: Box<[u8]>,
    deadline: Option<UnixMillis>,
    version: Version,
    content: Content,
}

enum Content {
    /// What [`object_codec::write_head`] wrote, and the bytes of the value so far.
    Flat {
        head: Box<[u8]>,
        value: Vec<u8>,
    },
    Large(Large),
}

/// Room for a flat value that is said to be so long; `None` if there is none.
pub(crate) fn room(length: u64) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(length.min(FLAT_ROOM_MAX) as usize).ok()?;
    Some(room)
}

impl Partial {
    /// Reads what [`write_head`] wrote.
    pub(crate) fn read(rest: &mut Reader<'_>) -> Result<Partial, DecodeError> {
        let unknown = rest.error("the head of a value that there is room for");
        let before = rest.rest();
        let head = Head::read(rest)?;
        let head_bytes = &before[..before.len() - rest.rest().len()];
        let version = Version(rest.u64()?);
        let seed = object_codec::read_seed(rest)?;
        let length = rest.u64()?;
        let content = match head.form {
            0..=LAST_FLAT | CODED => Content::Flat {
                head: head_bytes.into(),
                value: room(length).ok_or(unknown)?,
            },
            6 => Content::Large(Large::List(List::default())),
            7 => Content::Large(Large::Set(Directory::new(seed))),
            8 => Content::Large(Large::Hash(Directory::new(seed))),
            9 => Content::Large(Large::SortedSet(SortedSet::new(seed))),
            10 => Content::Large(Large::Stream(Stream::default())),
            _ => return Err(unknown),
        };
        Ok(Partial {
            key: head.key.into(),
            deadline: head.deadline,
            version,
            content,
        })
    }

    /// Adds a piece; `None` if it is none of such a value.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Option<()> {
        match &mut self.content {
            Content::Flat { value, .. } => {
                value.extend_from_slice(piece);
                Some(())
            }
            Content::Large(large) => object_codec::read_elements(&mut Reader::new(piece), large),
        }
    }

    /// The object, complete; `None` if the pieces are no value.
    pub(crate) fn finish(self) -> Option<Object> {
        let mut object = match self.content {
            Content::Flat { head, value } => {
                let (head, value) = (Head::read(&mut Reader::new(&head)).ok()?, Bytes::from(value));
                // A long string stays where it was put together.
                object_codec::arrived(&head, &value, Some(&value))?
            }
            // There are no empty collections but streams.
            Content::Large(large) if large.len() == 0 && !matches!(large, Large::Stream(_)) => return None,
            Content::Large(large) => Object::large(&self.key, large, self.deadline, Version(0)),
        };
        object.set_version(self.version);
        Some(object)
    }

    /// What was put together so far, to be dropped piece by piece.
    pub(crate) fn into_large(self) -> Option<Large> {
        match self.content {
            Content::Flat { .. } => None,
            Content::Large(large) => Some(large),
        }
    }
}
