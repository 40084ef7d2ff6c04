//! How values are written into entries.
//!
//! ```text
//!  form 0       a string: its bytes
//!  form 1 to 4  a packed list, set, hash, sorted set: its bytes (`packed.rs`)
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
use crate::object::{Kind, Object, Value};
use crate::packed::Packed;
use crate::sorted_set::SortedSet;
use crate::value::Digits;
use ids::{HashSeed, UnixMillis, Version};

const KINDS: [Kind; 4] = [Kind::List, Kind::Set, Kind::Hash, Kind::SortedSet];

/// The number of the form that `object` is written in.
pub(crate) fn code(object: &Object) -> u8 {
    let place = |kind| KINDS.iter().position(|&other| other == kind).unwrap_or(0) as u8;
    match object.value() {
        Value::Bytes(_) | Value::Integer(_) => 0,
        Value::Packed(kind, _) => 1 + place(kind),
        Value::Integers(_) => 5,
        Value::Large(large) => 6 + place(large.kind()),
    }
}

/// Writes the value.
pub(crate) fn encode(object: &Object, to: &mut Vec<u8>) {
    match object.value() {
        Value::Bytes(bytes) | Value::Integers(bytes) => to.extend_from_slice(bytes),
        Value::Integer(number) => to.extend_from_slice(Digits::default().format(number)),
        Value::Packed(_, packed) => to.extend_from_slice(packed.bytes()),
        Value::Large(Large::List(list)) => list.for_each(|element| text(to, element)),
        Value::Large(Large::Set(members)) => {
            seed(to, members.seed());
            members.for_each(|member| text(to, member.key()));
        }
        Value::Large(Large::Hash(fields)) => {
            seed(to, fields.seed());
            fields.for_each(|field| {
                text(to, field.key());
                text(to, field.value().text(&mut Digits::default()));
            });
        }
        Value::Large(Large::SortedSet(sorted_set)) => {
            seed(to, sorted_set.seed());
            sorted_set.for_each(|member, score| {
                text(to, member);
                to.extend_from_slice(&score.to_bits().to_le_bytes());
            });
        }
    }
}

fn text(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn seed(to: &mut Vec<u8>, seed: HashSeed) {
    to.extend_from_slice(&seed.0[0].to_le_bytes());
    to.extend_from_slice(&seed.0[1].to_le_bytes());
}

/// Whether `bytes` are a value in this form: decoding it cannot fail then.
pub(crate) fn check(form: u8, bytes: &[u8]) -> bool {
    match form {
        0 => true,
        1 | 2 => Packed::check(bytes),
        3 => Packed::check(bytes) && Packed::new(bytes).len().is_multiple_of(2),
        4 => crate::sorted_set::check_packed(bytes),
        5 => integers::check(bytes),
        6..=9 => decode(form, b"", bytes, None).is_some(),
        _ => false,
    }
}

/// The object of a collection; `None` of a string.
pub(crate) fn decode(form: u8, key: &[u8], bytes: &[u8], deadline: Option<UnixMillis>) -> Option<Object> {
    let large = match form {
        1..=4 => {
            let kind = KINDS[usize::from(form) - 1];
            return Some(Object::with_packed(kind, key, bytes, deadline, Version(0)));
        }
        5 => {
            let mut object = Object::string(key, b"", deadline, Version(0));
            object.set_integers(bytes);
            return Some(object);
        }
        6 => {
            let mut list = List::default();
            let mut rest = Rest(bytes);
            while !rest.0.is_empty() {
                list.push_back(rest.text()?, crate::Limits::default().list_node_size);
            }
            Large::List(list)
        }
        7 | 8 => {
            let mut rest = Rest(bytes);
            let mut directory = Directory::new(rest.seed()?);
            while !rest.0.is_empty() {
                let member = rest.text()?;
                let value = if form == 8 { rest.text()? } else { b"" };
                let hash = directory.hash(member);
                if directory.find(hash, member).is_some() {
                    return None;
                }
                directory.insert(hash, Object::string(member, value, None, Version(0)));
            }
            if form == 7 {
                Large::Set(directory)
            } else {
                Large::Hash(directory)
            }
        }
        9 => {
            let mut rest = Rest(bytes);
            let mut sorted_set = SortedSet::new(rest.seed()?);
            while !rest.0.is_empty() {
                let member = rest.text()?;
                let score = f64::from_bits(rest.long()?);
                if score.is_nan() || !sorted_set.insert(member, score) {
                    return None;
                }
            }
            Large::SortedSet(sorted_set)
        }
        _ => return None,
    };
    Some(Object::large(key, large, deadline, Version(0)))
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

    pub(crate) fn seed(&mut self) -> Option<HashSeed> {
        Some(HashSeed([self.long()?, self.long()?]))
    }
}
