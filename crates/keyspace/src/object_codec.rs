//! How objects and their values are written into entries and transfers.
//!
//! ```text
//!  object       key | flags u8 | deadline i64 | form u8 | value
//!  key, value   length u32 | bytes
//!  flags        1 the key has a deadline | 2 the string was changed in place | 4 it is kept as text | 8 it is settled whatever its version, 16 it is held
//!               (`coded.rs`; in transfers alone)
//!  form 0       a string: its bytes
//!  form 1 to 4  a list, set, hash, sorted set in a listpack: its bytes (`listpack.rs`)
//!  form 5       a set of integers: its bytes (`integers.rs`)
//!  form 6       a large list: (length u32 | element)*
//!  form 7, 8    a large set, hash: the seed of its order (16 bytes), then (length u32 | bytes)* of members, or of
//!               fields and values by turns
//!  form 9       a large sorted set: the seed, then (length u32 | member | score as the bits of a double)*
//!  form 10      a stream: (length u32 | record)* (`stream/record.rs`)
//!  form 11      a fragment of a string, of version 0 (`coding/fragment.rs`; in transfers alone)
//! ```
//!
//! A replica that installs what it decodes keeps the value in the same form as the one that encoded it, and in the same
//! order: random picks agree.

use crate::coded::Coded;
use crate::directory::Directory;
use crate::integers;
use crate::large::Large;
use crate::list::List;
use crate::listpack::Listpack;
use crate::object::{Kind, Object, Value};
use crate::placing::Placing;
use crate::sorted_set::SortedSet;
use crate::stream::{self, Stream};
use crate::value::Digits;
use bytes::Bytes;
use codec::{DecodeError, Reader, Writer, fill_count};
use ids::{HashSeed, PartitionCount, PartitionId, PartitionRange, UnixMillis, Version};

/// Up to this form a value is one run of bytes.
pub(crate) const LAST_FLAT: u8 = 5;

/// The flag of a key with a deadline.
pub(crate) const HAS_DEADLINE: u8 = 1;

/// The form of a stream.
const STREAM: u8 = 10;

/// The form of a fragment. Only who takes over another replica's state can do anything with it.
pub(crate) const CODED: u8 = 11;

/// In the order of their forms.
const KINDS: [Kind; 5] = [Kind::List, Kind::Set, Kind::Hash, Kind::SortedSet, Kind::Stream];

/// The number of the form that `object` is written in.
pub(crate) fn code(object: &Object) -> u8 {
    let place = |kind| KINDS.iter().position(|&other| other == kind).unwrap_or(0) as u8;
    match object.value() {
        Value::Bytes(_) | Value::Integer(_) => 0,
        Value::Listpack(kind, _) => 1 + place(kind),
        Value::Integers(_) => 5,
        Value::Large(large) => 6 + place(large.kind()),
        Value::Coded(_) => CODED,
    }
}

/// Writes the value.
pub(crate) fn encode(object: &Object, to: &mut Vec<u8>) {
    match object.value() {
        Value::Bytes(bytes) | Value::Integers(bytes) => to.raw(bytes),
        Value::Integer(number) => to.raw(Digits::default().format(number)),
        Value::Listpack(_, listpack) => to.raw(listpack.bytes()),
        Value::Large(large) => encode_large(large, to),
        Value::Coded(coded) => to.raw(coded.bytes()),
    }
}

fn encode_large(large: &Large, to: &mut Vec<u8>) {
    // Never moved while it grows: what is not written takes no memory.
    to.reserve(large.memory());
    match large {
        Large::List(list) => list.for_each(|element| to.bytes(element)),
        Large::Set(members) => {
            seed(to, members.seed());
            members.for_each(|member| to.bytes(member.key()));
        }
        Large::Hash(fields) => {
            seed(to, fields.seed());
            fields.for_each(|field| {
                to.bytes(field.key());
                to.bytes(field.value().text(&mut Digits::default()));
            });
        }
        Large::SortedSet(sorted_set) => {
            seed(to, sorted_set.seed());
            sorted_set.for_each(|member, score| {
                to.bytes(member);
                to.u64(score.to_bits());
            });
        }
        Large::Stream(stream) => stream.write(to),
    }
}

/// Writes key, deadline and value.
pub(crate) fn write_object(to: &mut Vec<u8>, object: &Object) {
    write_head(to, object);
    let length_at = to.len();
    to.count(0);
    encode(object, to);
    fill_count(to, length_at);
}

/// Writes everything of an object that stands before its value.
pub(crate) fn write_head(to: &mut Vec<u8>, object: &Object) {
    to.bytes(object.key());
    let is_text = matches!(object.value(), Value::Bytes(_));
    let flags = (u8::from(object.deadline().is_some()) * HAS_DEADLINE)
        | (u8::from(object.is_grown()) << 1)
        | (u8::from(is_text) << 2)
        | (u8::from(object.is_settled_for_good()) << 3)
        | (u8::from(object.is_held()) << 4);
    to.u8(flags);
    let deadline = object.deadline().unwrap_or_default();
    to.i64(deadline.0);
    to.u8(code(object));
}

/// What stands before the value of an object.
pub(crate) struct Head<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) deadline: Option<UnixMillis>,
    is_grown: bool,
    is_text: bool,
    is_settled: bool,
    is_held: bool,
    pub(crate) form: u8,
}

impl<'a> Head<'a> {
    /// Reads what [`write_head`] wrote; the form may be none.
    pub(crate) fn read(rest: &mut Reader<'a>) -> Result<Head<'a>, DecodeError> {
        let key = rest.bytes()?;
        let flags = rest.u8()?;
        let deadline = UnixMillis(rest.i64()?);
        let form = rest.u8()?;
        Ok(Head {
            key,
            deadline: (flags & 1 != 0).then_some(deadline),
            is_grown: flags & 2 != 0,
            is_text: flags & 4 != 0,
            is_settled: flags & 8 != 0,
            is_held: flags & 16 != 0,
            form,
        })
    }

    /// The object of this value, which [`check`] has found to be one; of version 0. A long string stays in `source` if it lies
    /// there.
    pub(crate) fn object(&self, value: &[u8], source: Option<&Bytes>) -> Object {
        if self.form == 0
            && let Some(kept) = crate::string::kept(source, value)
        {
            let mut object = Object::kept(self.key, kept, self.deadline, Version(0));
            object.set_grown(self.is_grown);
            return object;
        }
        if let Some(object) = decode(self.form, self.key, value, self.deadline) {
            return object;
        }
        let mut object = Object::string(self.key, value, self.deadline, Version(0));
        if self.is_text && matches!(object.value(), Value::Integer(_)) {
            object.set_text(value);
        }
        if self.is_grown {
            object.bytes_mut(0);
        }
        object
    }
}

/// The object with this head and value, of a state that is taken over, of version 0; `None` if they are none. A long string stays in
/// `source` if it lies there.
pub(crate) fn arrived(head: &Head<'_>, value: &[u8], source: Option<&Bytes>) -> Option<Object> {
    let mut object = match head.form {
        CODED => {
            Coded::check(value).then(|| Object::of_fragment(head.key, value, head.is_grown, head.deadline))
        }
        0..=LAST_FLAT => check(head.form, value).then(|| head.object(value, source)),
        // Decoding checks it.
        _ => decode(head.form, head.key, value, head.deadline)
            .filter(|object| head.form == STREAM || object.value().len() > 0),
    }?;
    if head.is_settled {
        object.settle_for_good();
    }
    if head.is_held {
        object.hold(true);
    }
    Some(object)
}

/// Reads an object of version 0, of a state that is taken over.
pub(crate) fn read_arrived(rest: &mut Reader<'_>) -> Result<Object, DecodeError> {
    let malformed = rest.error("an object");
    let head = Head::read(rest)?;
    arrived(&head, rest.bytes()?, None).ok_or(malformed)
}

/// Reads an object of version 0, which is whole.
pub(crate) fn read_object(rest: &mut Reader<'_>) -> Result<Object, DecodeError> {
    let malformed = rest.error("an object");
    let head = Head::read(rest)?;
    let value = rest.bytes()?;
    let object = if head.form > LAST_FLAT {
        // Decoding checks it.
        decode(head.form, head.key, value, head.deadline)
            .filter(|object| head.form == STREAM || object.value().len() > 0)
    } else {
        check(head.form, value).then(|| head.object(value, None))
    };
    object.ok_or(malformed)
}

pub(crate) fn partitions(to: &mut Vec<u8>, partitions: PartitionRange) {
    to.u16(partitions.cluster_count().get());
    to.u16(partitions.first().number());
    to.u16(partitions.len() as u16);
}

pub(crate) fn seed(to: &mut Vec<u8>, seed: HashSeed) {
    to.u64s(&seed.0);
}

pub(crate) fn read_partitions(rest: &mut Reader<'_>) -> Result<PartitionRange, DecodeError> {
    let unknown = rest.error("partitions");
    let (count, first, length) = (rest.u16()?, rest.u16()?, rest.u16()?);
    PartitionCount::new(count)
        .and_then(|count| PartitionRange::new(count, PartitionId::new(first), length))
        .ok_or(unknown)
}

/// What stands behind these in the head of a chunk of such a format: where keys lie, and the partition that arrives, with its seed.
pub(crate) fn read_placing(
    seed: HashSeed,
    range: PartitionRange,
    has_moves: bool,
    rest: &mut Reader<'_>,
) -> Result<(Placing, Option<(PartitionId, HashSeed)>), DecodeError> {
    let placing = Placing::new(seed, range);
    if !has_moves {
        return Ok((placing, None));
    }
    let foreign = rest.error("places of the range, in order");
    let others = rest.list(2 + 16, |rest| Ok((rest.u16()?, read_seed(rest)?)))?;
    let is_in_order = others.is_sorted_by(|(one, _), (next, _)| one < next);
    if !is_in_order || others.iter().any(|(index, _)| usize::from(*index) >= range.len()) {
        return Err(foreign);
    }
    let arriving = rest.option(|rest| Ok((PartitionId::new(rest.u16()?), read_seed(rest)?)))?;
    Ok((placing.with_others(&others), arriving))
}

pub(crate) fn read_seed(rest: &mut Reader<'_>) -> Result<HashSeed, DecodeError> {
    Ok(HashSeed([rest.u64()?, rest.u64()?]))
}

/// Whether `bytes` are a value in this form. There are no empty collections but streams. Decoding it cannot fail then, but for a large one that
/// has a member twice: to find that out is to decode it, and nobody writes such a one.
pub(crate) fn check(form: u8, bytes: &[u8]) -> bool {
    let is_listpack = || Listpack::check(bytes) && !Listpack::new(bytes).is_empty();
    match form {
        0 => true,
        1 | 2 => is_listpack(),
        3 => is_listpack() && Listpack::new(bytes).len().is_multiple_of(2),
        4 => is_listpack() && crate::sorted_set::check_listpack(bytes),
        5 => integers::check(bytes) && integers::len(bytes) > 0,
        6..=9 => check_elements(form, bytes),
        STREAM => stream::is_stream(bytes),
        _ => false,
    }
}

/// Whether a value in this form begins with the seed of its table: a large set, hash or sorted set does.
pub(crate) fn has_seed(form: u8) -> bool {
    matches!(form, 7..=9)
}

/// Whether `bytes` are the elements of a large value, at least one.
fn check_elements(form: u8, bytes: &[u8]) -> bool {
    let mut rest = Reader::new(bytes);
    (!has_seed(form) || read_seed(&mut rest).is_ok()) && are_elements(form, rest.rest())
}

/// Whether `bytes` are elements of a large value in this form, at least one.
pub(crate) fn are_elements(form: u8, bytes: &[u8]) -> bool {
    if form == STREAM {
        return stream::are_records(bytes);
    }
    if form == CODED {
        return false;
    }
    let mut rest = Reader::new(bytes);
    let mut is_whole = !rest.is_empty();
    while is_whole && !rest.is_empty() {
        is_whole = rest.bytes().is_ok()
            && match form {
                8 => rest.bytes().is_ok(),
                9 => rest.u64().is_ok_and(|score| !f64::from_bits(score).is_nan()),
                _ => true,
            };
    }
    is_whole
}

/// The object of a collection; `None` of a string.
pub(crate) fn decode(form: u8, key: &[u8], bytes: &[u8], deadline: Option<UnixMillis>) -> Option<Object> {
    let large = match form {
        1..=4 => {
            let kind = KINDS[usize::from(form) - 1];
            return Some(Object::with_listpack(kind, key, bytes, deadline, Version(0)));
        }
        5 => {
            let mut object = Object::string(key, b"", deadline, Version(0));
            object.set_integers(bytes);
            return Some(object);
        }
        6..=STREAM => {
            let mut rest = Reader::new(bytes);
            let mut large = with_room(form, &mut rest, bytes.len()).ok()?;
            read_elements(&mut rest, &mut large)?;
            large
        }
        _ => return None,
    };
    Some(Object::large(key, large, deadline, Version(0)))
}

/// How many times as much as has come room is made for: whoever announces much and sends little takes no more.
const ROOM_TIMES_MAX: usize = 128;

/// An empty large value in this form, of which `rest` is the beginning and all have `whole` bytes; its seed is read. It has room for as
/// many elements as there would be if all were as long as those.
pub(crate) fn with_room(form: u8, rest: &mut Reader<'_>, whole: usize) -> Result<Large, DecodeError> {
    let seed = match form {
        6 => return Ok(Large::List(List::default())),
        STREAM => return Ok(Large::Stream(Stream::default())),
        _ => read_seed(rest)?,
    };
    let times = whole.saturating_sub(size_of::<HashSeed>()) / rest.rest().len().max(1);
    let count = |behind| texts(rest.rest(), behind) * times.clamp(1, ROOM_TIMES_MAX);
    Ok(match form {
        7 => Large::Set(Directory::with_room(seed, count(0))),
        8 => Large::Hash(Directory::with_room(seed, count(0) / 2)),
        _ => Large::SortedSet(SortedSet::with_room(seed, count(size_of::<f64>()))),
    })
}

/// How many texts there are, each with so many bytes behind it. Of bytes that are no texts, not more than could be.
fn texts(bytes: &[u8], behind: usize) -> usize {
    let (mut rest, mut count) = (Reader::new(bytes), 0);
    while rest.bytes().and_then(|_| rest.take(behind)).is_ok() {
        count += 1;
    }
    count
}

/// Adds elements to a large value until the bytes end; `None` if they are none, or there already.
pub(crate) fn read_elements(rest: &mut Reader<'_>, large: &mut Large) -> Option<()> {
    read_whole_elements(rest, large)?;
    rest.is_empty().then_some(())
}

/// The same of the elements that are whole: what follows them is left.
pub(crate) fn read_whole_elements(rest: &mut Reader<'_>, large: &mut Large) -> Option<()> {
    loop {
        let mut ahead = rest.clone();
        let Ok(element) = ahead.bytes() else {
            return Some(());
        };
        match large {
            Large::List(list) => list.push_back(element, crate::EncodingLimits::default().list_node_size),
            Large::Set(directory) => insert(directory, element, b"")?,
            Large::Hash(directory) => {
                let Ok(value) = ahead.bytes() else {
                    return Some(());
                };
                insert(directory, element, value)?;
            }
            Large::SortedSet(sorted_set) => {
                let Ok(score) = ahead.u64().map(f64::from_bits) else {
                    return Some(());
                };
                if score.is_nan() || !sorted_set.insert(element, score) {
                    return None;
                }
            }
            Large::Stream(stream) => stream.read_record(element)?,
        }
        *rest = ahead;
    }
}

/// Adds [elements](are_elements) to a large value; those that are there already get what is given with them.
pub(crate) fn merge_elements(bytes: &[u8], large: &mut Large, list_node_size: i32) {
    let mut rest = Reader::new(bytes);
    while let Ok(element) = rest.bytes() {
        match large {
            Large::List(list) => list.push_back(element, list_node_size),
            Large::Set(directory) => merge(directory, element, b""),
            Large::Hash(directory) => merge(directory, element, rest.bytes().unwrap_or_default()),
            Large::SortedSet(sorted_set) => {
                let score = rest.u64().map(f64::from_bits).unwrap_or_default();
                if !sorted_set.insert(element, score) {
                    sorted_set.set_score(element, score);
                }
            }
            // One that is there already, or is none, is left out.
            Large::Stream(stream) => _ = stream.read_record(element),
        }
    }
}

fn merge(directory: &mut Directory, element: &[u8], value: &[u8]) {
    let is_there = directory
        .update(element, |object| object.set_string(value))
        .is_some();
    if !is_there {
        directory.insert(
            directory.hash(element),
            Object::string(element, value, None, Version(0)),
        );
    }
}

fn insert(directory: &mut Directory, element: &[u8], value: &[u8]) -> Option<()> {
    let hash = directory.hash(element);
    if directory.find(hash, element).is_some() {
        return None;
    }
    directory.insert(hash, Object::string(element, value, None, Version(0)));
    Some(())
}
