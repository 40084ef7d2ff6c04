//! A value, from the byte of its type on.
//!
//! ```text
//!    0 string     string                                 9 hash         a string with a zipmap
//!    1 list       length | string*                      10 list         a string with a ziplist
//!    2 set        length | string*                      11 set          a string with an intset
//!    3 sorted set length | (string | score as text)*    12 sorted set   a string with a ziplist
//!    4 hash       length | (string | string)*           13 hash         a string with a ziplist
//!    5 sorted set length | (string | score)*            14 list         length | strings with ziplists
//!                                                       16 hash         a string with a listpack
//!    score          f64, the low byte first             17 sorted set   a string with a listpack
//!    score as text  253 not a number                    18 list         length | (length | string)*: 1 and an element, or
//!                   254 infinite, 255 less than that                    2 and a listpack
//!                   n and as many decimals              20 set          a string with a listpack
//!                                                       15, 19, 21      streams
//! ```

use crate::StreamValue;
use crate::ValueError;
use crate::error::expected;
use crate::input::{Budget, Input};
use crate::intset::Intset;
use crate::length::{EMPTY, read_count, read_element_count, read_length, read_string};
use crate::listpack::Listpack;
use crate::packed::{self, checked_score, parse_score};
use crate::stream::{self, Form};
use crate::ziplist::Ziplist;
use crate::zipmap::Zipmap;

pub(crate) const STRING: u8 = 0;
pub(crate) const LIST: u8 = 1;
pub(crate) const SET: u8 = 2;
const SORTED_SET_TEXT: u8 = 3;
pub(crate) const HASH: u8 = 4;
pub(crate) const SORTED_SET: u8 = 5;
const HASH_ZIPMAP: u8 = 9;
const LIST_ZIPLIST: u8 = 10;
const SET_INTSET: u8 = 11;
const SORTED_SET_ZIPLIST: u8 = 12;
const HASH_ZIPLIST: u8 = 13;
const LIST_ZIPLISTS: u8 = 14;
const STREAM_5_0: u8 = 15;
const HASH_LISTPACK: u8 = 16;
const SORTED_SET_LISTPACK: u8 = 17;
const LIST_LISTPACKS: u8 = 18;
pub(crate) const STREAM_7_0: u8 = 19;
const SET_LISTPACK: u8 = 20;
const STREAM_7_2: u8 = 21;

/// What a part of a list is, where it may be either.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;

pub(crate) fn is_stream(kind: u8) -> bool {
    [STREAM_5_0, STREAM_7_0, STREAM_7_2].contains(&kind)
}

/// Whether all of the value is one string, packed or not.
pub(crate) fn is_one_string(kind: u8) -> bool {
    [
        STRING,
        HASH_ZIPMAP,
        LIST_ZIPLIST,
        SET_INTSET,
        SORTED_SET_ZIPLIST,
        HASH_ZIPLIST,
        HASH_LISTPACK,
        SORTED_SET_LISTPACK,
        SET_LISTPACK,
    ]
    .contains(&kind)
}

/// Whether each string has before it what it is a part of.
pub(crate) fn is_list_of_parts(kind: u8) -> bool {
    kind == LIST_LISTPACKS
}

/// Passes over what stands behind a member.
pub(crate) fn pass_score(kind: u8, input: &mut Input<'_>) -> Result<(), ValueError> {
    let bytes = match kind {
        SORTED_SET => 8,
        SORTED_SET_TEXT => match input.byte()? {
            253.. => 0,
            length => length.into(),
        },
        _ => 0,
    };
    input.take(bytes).map(|_| ())
}

/// The value of a key.
#[derive(Clone, PartialEq, Debug)]
pub enum PayloadValue {
    /// A string.
    String(Vec<u8>),
    /// The elements of a list, from its left end.
    List(Vec<Vec<u8>>),
    /// The members of a set, each once, in no order.
    Set(Vec<Vec<u8>>),
    /// The members of a sorted set, each once, and their scores, which are numbers; in no order.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// The fields of a hash, each once, and their values; in no order.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// A stream.
    Stream(Box<StreamValue>),
}

/// How many bytes of memory a value of so many bytes may come to: 64 times as many, and 512 MiB at least. What compresses well
/// does come to far more than it was, a string to 88 times; but a few bytes can also be made to say that a long field name
/// stands in each of a million entries.
pub const fn memory_max(body_bytes: usize) -> usize {
    const AT_LEAST: usize = 512 << 20;
    let many = body_bytes.saturating_mul(64);
    if many > AT_LEAST { many } else { AT_LEAST }
}

/// The value that these bytes are: that of [`open`](crate::open), from the type on.
///
/// # Errors
/// If they are none, something stands behind it, or it comes to more than [`memory_max`].
pub fn read(body: &[u8]) -> Result<PayloadValue, ValueError> {
    read_within(body, memory_max(body.len()))
}

/// As [`read`], with another bound: the bytes of memory that the value may come to, 32 of them for each element. While it is
/// read, what was unpacked of one string stands beside it, which is no more than that or 512 MiB.
///
/// # Errors
/// As those of [`read`].
pub fn read_within(body: &[u8], memory_max: usize) -> Result<PayloadValue, ValueError> {
    let mut input = Input::new(body);
    let kind = input.byte()?;
    let mut budget = Budget::new(memory_max);
    let value = read_value(kind, &mut input, &mut budget)?;
    input.end()?;
    match &value {
        PayloadValue::String(_) | PayloadValue::List(_) | PayloadValue::Stream(_) => {}
        PayloadValue::Set(members) => packed::check_unique(members.iter().map(Vec::as_slice))?,
        PayloadValue::SortedSet(members) => {
            packed::check_unique(members.iter().map(|(member, _)| member.as_slice()))?
        }
        PayloadValue::Hash(fields) => packed::check_unique(fields.iter().map(|(field, _)| field.as_slice()))?,
    }
    Ok(value)
}

/// A value, whose members may still stand there twice.
fn read_value(kind: u8, input: &mut Input<'_>, budget: &mut Budget) -> Result<PayloadValue, ValueError> {
    match kind {
        STRING => read_element(input, budget).map(PayloadValue::String),
        LIST => read_elements(input, budget).map(PayloadValue::List),
        SET => read_elements(input, budget).map(PayloadValue::Set),
        SORTED_SET_TEXT => {
            let members = read_pairs(input, budget, 1, |input, _| read_score_text(input))?;
            Ok(PayloadValue::SortedSet(members))
        }
        SORTED_SET => {
            let members = read_pairs(input, budget, 8, |input, _| {
                checked_score(input.array().map(f64::from_le_bytes)?)
            })?;
            Ok(PayloadValue::SortedSet(members))
        }
        HASH => read_pairs(input, budget, 1, read_element).map(PayloadValue::Hash),
        LIST_ZIPLISTS => read_ziplists(input, budget).map(PayloadValue::List),
        LIST_LISTPACKS => read_listpacks(input, budget).map(PayloadValue::List),
        STREAM_5_0 => read_stream(input, budget, Form::V5_0),
        STREAM_7_0 => read_stream(input, budget, Form::V7_0),
        STREAM_7_2 => read_stream(input, budget, Form::V7_2),
        HASH_ZIPMAP | LIST_ZIPLIST | SET_INTSET | SORTED_SET_ZIPLIST | HASH_ZIPLIST | HASH_LISTPACK
        | SORTED_SET_LISTPACK | SET_LISTPACK => {
            let bytes = read_string(input, budget)?;
            match kind {
                HASH_ZIPMAP => packed::hash(Zipmap::open(&bytes)?, budget).map(PayloadValue::Hash),
                LIST_ZIPLIST => packed::list(Ziplist::open(&bytes)?, budget).map(PayloadValue::List),
                SET_INTSET => packed::list(Intset::open(&bytes)?, budget).map(PayloadValue::Set),
                SORTED_SET_ZIPLIST => {
                    packed::sorted_set(Ziplist::open(&bytes)?, budget).map(PayloadValue::SortedSet)
                }
                HASH_ZIPLIST => packed::hash(Ziplist::open(&bytes)?, budget).map(PayloadValue::Hash),
                HASH_LISTPACK => packed::hash(Listpack::open(&bytes)?, budget).map(PayloadValue::Hash),
                SORTED_SET_LISTPACK => {
                    packed::sorted_set(Listpack::open(&bytes)?, budget).map(PayloadValue::SortedSet)
                }
                _ => packed::list(Listpack::open(&bytes)?, budget).map(PayloadValue::Set),
            }
        }
        _ => Err(expected("the type of a value, of no module")),
    }
}

fn read_stream(input: &mut Input<'_>, budget: &mut Budget, form: Form) -> Result<PayloadValue, ValueError> {
    stream::read(input, budget, form).map(|stream| PayloadValue::Stream(Box::new(stream)))
}

fn read_element(input: &mut Input<'_>, budget: &mut Budget) -> Result<Vec<u8>, ValueError> {
    let bytes = read_string(input, budget)?;
    budget.element(bytes)
}

fn read_elements(input: &mut Input<'_>, budget: &mut Budget) -> Result<Vec<Vec<u8>>, ValueError> {
    let count = read_element_count(input, 1)?;
    (0..count).map(|_| read_element(input, budget)).collect()
}

/// Strings with something behind each that takes so many bytes at least.
fn read_pairs<T>(
    input: &mut Input<'_>,
    budget: &mut Budget,
    bytes_behind: usize,
    behind: impl Fn(&mut Input<'_>, &mut Budget) -> Result<T, ValueError>,
) -> Result<Vec<(Vec<u8>, T)>, ValueError> {
    let count = read_element_count(input, 1 + bytes_behind)?;
    (0..count)
        .map(|_| Ok((read_element(input, budget)?, behind(input, budget)?)))
        .collect()
}

fn read_score_text(input: &mut Input<'_>) -> Result<f64, ValueError> {
    match input.byte()? {
        253 => checked_score(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        length => parse_score(input.take(usize::from(length))?),
    }
}

/// A list in ziplists. Empty ones are passed over, as Redis does: there were versions that wrote them.
fn read_ziplists(input: &mut Input<'_>, budget: &mut Budget) -> Result<Vec<Vec<u8>>, ValueError> {
    let mut list = Vec::new();
    for _ in 0..read_count(input, 1)? {
        let bytes = read_string(input, budget)?;
        packed::extend_list(&mut list, Ziplist::open(&bytes)?, budget)?;
    }
    if list.is_empty() { Err(EMPTY) } else { Ok(list) }
}

/// A list in listpacks, with long elements between them.
fn read_listpacks(input: &mut Input<'_>, budget: &mut Budget) -> Result<Vec<Vec<u8>>, ValueError> {
    let mut list = Vec::new();
    for _ in 0..read_count(input, 2)? {
        let container = read_length(input)?;
        let bytes = read_string(input, budget)?;
        match container {
            PLAIN if bytes.is_empty() => return Err(expected("an element of a list that is long")),
            PLAIN => list.push(budget.element(bytes)?),
            PACKED => packed::extend_list(&mut list, Listpack::open(&bytes)?, budget)?,
            _ => return Err(expected("an element of a list, or a listpack")),
        }
    }
    if list.is_empty() { Err(EMPTY) } else { Ok(list) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_value_may_come_to_much_and_a_large_one_to_a_multiple() {
        assert_eq!(memory_max(0), 512 << 20);
        assert_eq!(memory_max(16 << 20), 1 << 30);
        assert_eq!(memory_max(usize::MAX), usize::MAX);
    }
}
