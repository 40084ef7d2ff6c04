//! How objects and their values are written into entries and transfers.
//!
//! ```text
//!  object       key | flags u8 | deadline i64 | form u8 | value
//!  key, value   length u32 | bytes
//!  flags        1 the key has a deadline | 2 the string was changed in place | 4 it is kept as text
//!  form 0       a string: its bytes
//!  form 1 to 4  a list, set, hash, sorted set in a listpack: its bytes (`listpack.rs`)
//!  form 5       a set of integers: its bytes (`integers.rs`)
//!  form 6       a large list: (length u32 | element)*
//!  form 7, 8    a large set, hash: the seed of its order (16 bytes), then (length u32 | bytes)* of members, or of
//!               fields and values by turns
//!  form 9       a large sorted set: the seed, then (length u32 | member | score as the bits of a double)*
//! ```
//!
//! A replica that installs what it decodes keeps the value in the same form as the one that encoded it, and in the same
//! order: random picks agree.

use crate::directory::Directory;
use crate::integers;
use crate::large::Large;
use crate::list::List;
use crate::listpack::Listpack;
use crate::object::{Kind, Object, Value};
use crate::sorted_set::SortedSet;
use crate::value::Digits;
use bytes::Bytes;
use ids::{HashSeed, PartitionCount, PartitionId, PartitionRange, UnixMillis, Version};

/// Up to this form a value is one run of bytes.
pub(crate) const LAST_FLAT: u8 = 5;

const KINDS: [Kind; 4] = [Kind::List, Kind::Set, Kind::Hash, Kind::SortedSet];

/// The number of the form that `object` is written in.
pub(crate) fn code(object: &Object) -> u8 {
    let place = |kind| KINDS.iter().position(|&other| other == kind).unwrap_or(0) as u8;
    match object.value() {
        Value::Bytes(_) | Value::Integer(_) => 0,
        Value::Listpack(kind, _) => 1 + place(kind),
        Value::Integers(_) => 5,
        Value::Large(large) => 6 + place(large.kind()),
    }
}

/// Writes the value.
pub(crate) fn encode(object: &Object, to: &mut Vec<u8>) {
    match object.value() {
        Value::Bytes(bytes) | Value::Integers(bytes) => to.extend_from_slice(bytes),
        Value::Integer(number) => to.extend_from_slice(Digits::default().format(number)),
        Value::Listpack(_, listpack) => to.extend_from_slice(listpack.bytes()),
        Value::Large(large) => encode_large(large, to),
    }
}

fn encode_large(large: &Large, to: &mut Vec<u8>) {
    // Never moved while it grows: what is not written takes no memory.
    to.reserve(large.memory());
    match large {
        Large::List(list) => list.for_each(|element| text(to, element)),
        Large::Set(members) => {
            seed(to, members.seed());
            members.for_each(|member| text(to, member.key()));
        }
        Large::Hash(fields) => {
            seed(to, fields.seed());
            fields.for_each(|field| {
                text(to, field.key());
                text(to, field.value().text(&mut Digits::default()));
            });
        }
        Large::SortedSet(sorted_set) => {
            seed(to, sorted_set.seed());
            sorted_set.for_each(|member, score| {
                text(to, member);
                to.extend_from_slice(&score.to_bits().to_le_bytes());
            });
        }
    }
}

/// Writes key, deadline and value.
pub(crate) fn write_object(to: &mut Vec<u8>, object: &Object) {
    write_head(to, object);
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    encode(object, to);
    let length = u32::try_from(to.len() - length_at - 4).expect("a value stays below 4 GiB");
    to[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Writes everything of an object that stands before its value.
pub(crate) fn write_head(to: &mut Vec<u8>, object: &Object) {
    text(to, object.key());
    let is_text = matches!(object.value(), Value::Bytes(_));
    let flags =
        u8::from(object.deadline().is_some()) | u8::from(object.is_grown()) << 1 | u8::from(is_text) << 2;
    to.push(flags);
    let deadline = object.deadline().unwrap_or_default();
    to.extend_from_slice(&deadline.0.to_le_bytes());
    to.push(code(object));
}

/// What stands before the value of an object.
pub(crate) struct Head<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) deadline: Option<UnixMillis>,
    is_grown: bool,
    is_text: bool,
    pub(crate) form: u8,
}

impl<'a> Head<'a> {
    /// Reads what [`write_head`] wrote; the form may be none.
    pub(crate) fn read(rest: &mut Rest<'a>) -> Option<Head<'a>> {
        let key = rest.text()?;
        let [flags] = rest.array()?;
        let deadline = UnixMillis(i64::from_le_bytes(rest.array()?));
        let [form] = rest.array()?;
        Some(Head {
            key,
            deadline: (flags & 1 != 0).then_some(deadline),
            is_grown: flags & 2 != 0,
            is_text: flags & 4 != 0,
            form,
        })
    }

    /// Whether it is of a string that nothing was added to in place: such a one may stay where it lies.
    pub(crate) fn is_string(&self) -> bool {
        self.form == 0 && !self.is_grown
    }

    /// The object of this value, which [`check`] has found to be one; of version 0. A long string stays in `source` if it lies
    /// there.
    pub(crate) fn object(&self, value: &[u8], source: Option<&Bytes>) -> Object {
        // One that was changed in place has a block of its own.
        if self.is_string()
            && let Some(kept) = crate::string::kept(source, value)
        {
            return Object::kept(self.key, kept, self.deadline, Version(0));
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

/// Reads an object of version 0; `None` if the bytes are none.
pub(crate) fn read_object(rest: &mut Rest<'_>) -> Option<Object> {
    read_object_in(rest, None)
}

/// The same of bytes that lie in `source`, where a long string may stay.
pub(crate) fn read_object_in(rest: &mut Rest<'_>, source: Option<&Bytes>) -> Option<Object> {
    let head = Head::read(rest)?;
    let value = rest.text()?;
    if head.form <= LAST_FLAT && !check(head.form, value) {
        return None;
    }
    if head.form > LAST_FLAT {
        // Decoding checks it.
        let object = decode(head.form, head.key, value, head.deadline);
        return object.filter(|object| object.value().len() > 0);
    }
    Some(head.object(value, source))
}

pub(crate) fn text(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

pub(crate) fn partitions(to: &mut Vec<u8>, partitions: PartitionRange) {
    let numbers = [
        partitions.cluster_count().get(),
        partitions.first().number(),
        partitions.len() as u16,
    ];
    numbers
        .iter()
        .for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
}

pub(crate) fn seed(to: &mut Vec<u8>, seed: HashSeed) {
    to.extend_from_slice(&seed.0[0].to_le_bytes());
    to.extend_from_slice(&seed.0[1].to_le_bytes());
}

/// Whether `bytes` are a value in this form. There are no empty collections. Decoding it cannot fail then, but for a large one that
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
        _ => false,
    }
}

/// Whether `bytes` are the elements of a large value, at least one.
fn check_elements(form: u8, bytes: &[u8]) -> bool {
    let mut rest = Rest(bytes);
    if form > 6 && rest.seed().is_none() || rest.0.is_empty() {
        return false;
    }
    let mut is_whole = true;
    while is_whole && !rest.0.is_empty() {
        is_whole = rest.text().is_some()
            && match form {
                8 => rest.text().is_some(),
                9 => rest.long().is_some_and(|score| !f64::from_bits(score).is_nan()),
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
        6..=9 => {
            let mut rest = Rest(bytes);
            let mut large = with_room(form, &mut rest, bytes.len())?;
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
pub(crate) fn with_room(form: u8, rest: &mut Rest<'_>, whole: usize) -> Option<Large> {
    let seed = match form {
        6 => return Some(Large::List(List::default())),
        _ => rest.seed()?,
    };
    let times = whole.saturating_sub(size_of::<HashSeed>()) / rest.0.len().max(1);
    let count = |behind| texts(rest.0, behind) * times.clamp(1, ROOM_TIMES_MAX);
    Some(match form {
        7 => Large::Set(Directory::with_room(seed, count(0))),
        8 => Large::Hash(Directory::with_room(seed, count(0) / 2)),
        _ => Large::SortedSet(SortedSet::with_room(seed, count(size_of::<f64>()))),
    })
}

/// How many texts there are, each with so many bytes behind it. Of bytes that are no texts, not more than could be.
fn texts(bytes: &[u8], behind: usize) -> usize {
    let (mut rest, mut count) = (Rest(bytes), 0);
    while rest.text().and_then(|_| rest.take(behind)).is_some() {
        count += 1;
    }
    count
}

/// Adds elements to a large value until the bytes end; `None` if they are none, or there already.
pub(crate) fn read_elements(rest: &mut Rest<'_>, large: &mut Large) -> Option<()> {
    read_whole_elements(rest, large)?;
    rest.0.is_empty().then_some(())
}

/// The same of the elements that are whole: what follows them is left.
pub(crate) fn read_whole_elements(rest: &mut Rest<'_>, large: &mut Large) -> Option<()> {
    loop {
        let mut ahead = Rest(rest.0);
        let Some(element) = ahead.text() else {
            return Some(());
        };
        match large {
            Large::List(list) => list.push_back(element, crate::Limits::default().list_node_size),
            Large::Set(directory) => insert(directory, element, b"")?,
            Large::Hash(directory) => {
                let Some(value) = ahead.text() else {
                    return Some(());
                };
                insert(directory, element, value)?;
            }
            Large::SortedSet(sorted_set) => {
                let Some(score) = ahead.long().map(f64::from_bits) else {
                    return Some(());
                };
                if score.is_nan() || !sorted_set.insert(element, score) {
                    return None;
                }
            }
        }
        *rest = ahead;
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

/// What is left to be read of bytes that may be anything.
pub(crate) struct Rest<'a>(pub(crate) &'a [u8]);

impl<'a> Rest<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// 32 bits.
    pub(crate) fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// 64 bits.
    pub(crate) fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind their length.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }

    pub(crate) fn partitions(&mut self) -> Option<PartitionRange> {
        let mut number = || Some(u16::from_le_bytes(self.array()?));
        let (count, first, length) = (number()?, number()?, number()?);
        PartitionRange::new(PartitionCount::new(count)?, PartitionId::new(first), length)
    }

    pub(crate) fn seed(&mut self) -> Option<HashSeed> {
        Some(HashSeed([self.long()?, self.long()?]))
    }
}
