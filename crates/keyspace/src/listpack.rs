//! Short sequences in one run of bytes: what small collections are kept in.
//!
//! ```text
//!  2 bytes  count
//!  entry*   head | payload | length of head and payload, readable from behind
//! ```
//!
//! An entry is written as in Redis's listpack ("listpack.md" in Redis's documentation): integers and strings in
//! as few bytes as they need, walkable in both directions.
//!
//! ```text
//!  0xxxxxxx                       an integer from 0 to 127
//!  10llllll  bytes                a string of up to 63 bytes
//!  110xxxxx  1 byte               a signed integer of 13 bits
//!  1110llll  1 byte, bytes        a string of up to 4,095 bytes
//!  11110000  4 bytes, bytes       a longer string
//!  11110001  2 bytes              a signed integer; 11110010, 11110011, 11110100: of 3, 4, 8 bytes
//! ```
//!
//! The length behind each entry has seven bits in a byte, the most significant group first, and the top bit set in all
//! but the first, so that it ends where it is read from behind.
//!
//! Invariants:
//! 1. The count is the number of entries, and the entries fill the rest of the bytes.
//! 2. Every entry has the shortest form there is, so equal sequences have equal bytes.

use crate::value::Digits;
use resp::ReplyWriter;
use std::ops::Range;

/// Bytes before the first entry.
const HEAD: usize = 2;

/// Entries that one sequence can hold: what its count can say. Whoever adds checks it.
pub(crate) const ENTRIES_MAX: usize = u16::MAX as usize;

/// An empty sequence.
pub(crate) const EMPTY: [u8; HEAD] = [0; HEAD];

/// Bytes that can be cut and spread: where a sequence is changed in place.
pub(crate) trait Buffer {
    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// Replaces the bytes of `range` by `length` others, and returns all bytes. What the new ones hold is unspecified.
    fn splice(&mut self, range: Range<usize>, length: usize) -> &mut [u8];
}

impl Buffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn splice(&mut self, range: Range<usize>, length: usize) -> &mut [u8] {
        let (before, tail) = (self.len(), self.len() - range.end);
        let after = before - range.len() + length;
        if after > before {
            self.reserve_exact(after - before);
            self.resize(after, 0);
        }
        self.copy_within(range.end..range.end + tail, range.start + length);
        self.truncate(after);
        self
    }
}

/// One element of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element<'a> {
    /// Any bytes but the canonical decimal form of an integer.
    Bytes(&'a [u8]),
    /// The canonical decimal form of this integer.
    Integer(i64),
}

impl<'a> Element<'a> {
    /// The element that `text` is kept as.
    #[inline]
    pub(crate) fn of(text: &'a [u8]) -> Element<'a> {
        match crate::object::canonical_integer(text) {
            Some(number) => Element::Integer(number),
            None => Element::Bytes(text),
        }
    }

    /// Its bytes; an integer's digits are written to `digits`.
    #[inline]
    pub(crate) fn text<'b>(self, digits: &'b mut Digits) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Element::Bytes(bytes) => bytes,
            Element::Integer(number) => digits.format(number),
        }
    }

    /// Writes it as a bulk string.
    #[inline]
    pub(crate) fn write(self, out: &mut ReplyWriter<'_>) {
        match self {
            Element::Bytes(bytes) => out.bulk(bytes),
            Element::Integer(number) => out.bulk_integer(number),
        }
    }

    /// The bytes, owned.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        self.text(&mut Digits::default()).to_vec()
    }

    /// Bytes that the entry takes.
    pub(crate) fn entry_len(self) -> usize {
        let content = match self {
            Element::Integer(number) => match IntegerForm::of(number) {
                IntegerForm::Seven => 1,
                IntegerForm::Thirteen => 2,
                IntegerForm::Bytes(count) => 1 + count,
            },
            Element::Bytes(bytes) => string_head_len(bytes.len()) + bytes.len(),
        };
        content + back_len(content)
    }

    /// Writes the entry to `to`, which is as long as [`Element::entry_len`] says.
    fn encode(self, to: &mut [u8]) {
        let content = match self {
            Element::Integer(number) => match IntegerForm::of(number) {
                IntegerForm::Seven => {
                    to[0] = number as u8;
                    1
                }
                IntegerForm::Thirteen => {
                    let bits = number as u16 & 0x1fff;
                    to[0] = 0xc0 | (bits >> 8) as u8;
                    to[1] = bits as u8;
                    2
                }
                IntegerForm::Bytes(count) => {
                    to[0] = match count {
                        2 => 0xf1,
                        3 => 0xf2,
                        4 => 0xf3,
                        _ => 0xf4,
                    };
                    to[1..=count].copy_from_slice(&number.to_le_bytes()[..count]);
                    1 + count
                }
            },
            Element::Bytes(bytes) => {
                let length = bytes.len();
                let head = string_head_len(length);
                match head {
                    1 => to[0] = 0x80 | length as u8,
                    2 => {
                        to[0] = 0xe0 | (length >> 8) as u8;
                        to[1] = length as u8;
                    }
                    _ => {
                        to[0] = 0xf0;
                        to[1..5].copy_from_slice(&(length as u32).to_le_bytes());
                    }
                }
                to[head..head + length].copy_from_slice(bytes);
                head + length
            }
        };
        let back = back_len(content);
        for index in 0..back {
            let group = (content >> (7 * (back - 1 - index))) as u8 & 0x7f;
            to[content + index] = if index == 0 { group } else { 0x80 | group };
        }
    }
}

enum IntegerForm {
    Seven,
    Thirteen,
    Bytes(usize),
}

impl IntegerForm {
    fn of(number: i64) -> IntegerForm {
        let fits = |bits: u32| number >= -(1 << (bits - 1)) && number < 1 << (bits - 1);
        if (0..128).contains(&number) {
            IntegerForm::Seven
        } else if fits(13) {
            IntegerForm::Thirteen
        } else if fits(16) {
            IntegerForm::Bytes(2)
        } else if fits(24) {
            IntegerForm::Bytes(3)
        } else if fits(32) {
            IntegerForm::Bytes(4)
        } else {
            IntegerForm::Bytes(8)
        }
    }
}

fn string_head_len(length: usize) -> usize {
    match length {
        0..=63 => 1,
        64..=4_095 => 2,
        _ => 5,
    }
}

/// Bytes of the length that stands behind an entry's content.
#[inline]
fn back_len(content: usize) -> usize {
    match content {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    }
}

/// The entry at the start of `bytes`: its element, and its whole length.
#[inline]
fn decode(bytes: &[u8]) -> (Element<'_>, usize) {
    let head = bytes[0];
    let (element, content) = if head < 0x80 {
        (Element::Integer(i64::from(head)), 1)
    } else if head < 0xc0 {
        let length = usize::from(head & 0x3f);
        (Element::Bytes(&bytes[1..1 + length]), 1 + length)
    } else if head < 0xe0 {
        let bits = u16::from(head & 0x1f) << 8 | u16::from(bytes[1]);
        // The sign of thirteen bits is extended through sixteen.
        (Element::Integer(i64::from((bits << 3) as i16 >> 3)), 2)
    } else if head < 0xf0 {
        let length = usize::from(head & 0x0f) << 8 | usize::from(bytes[1]);
        (Element::Bytes(&bytes[2..2 + length]), 2 + length)
    } else if head == 0xf0 {
        let length = u32::from_le_bytes(bytes[1..5].try_into().expect("four bytes")) as usize;
        (Element::Bytes(&bytes[5..5 + length]), 5 + length)
    } else {
        let count = match head {
            0xf1 => 2,
            0xf2 => 3,
            0xf3 => 4,
            _ => 8,
        };
        let mut number = [0; 8];
        number[8 - count..].copy_from_slice(&bytes[1..=count]);
        let shift = 64 - 8 * count as u32;
        (Element::Integer(i64::from_le_bytes(number) >> shift), 1 + count)
    };
    (element, content + back_len(content))
}

/// The whole length of the entry that ends where `bytes` end.
#[inline]
fn decode_back(bytes: &[u8]) -> usize {
    let (mut content, mut back) = (0, 0);
    loop {
        let byte = bytes[bytes.len() - 1 - back];
        content |= usize::from(byte & 0x7f) << (7 * back);
        back += 1;
        if byte & 0x80 == 0 {
            return content + back;
        }
    }
}

/// A sequence, to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Listpack<'a>(&'a [u8]);

impl std::fmt::Debug for Listpack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The byte offset of an entry in its sequence, or of the sequence's end. Any change of the sequence makes the offsets
/// behind it stale.
pub(crate) type Offset = usize;

impl<'a> Listpack<'a> {
    /// The sequence in `bytes`, which were made by this module or checked by [`Listpack::check`].
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Listpack<'a> {
        Listpack(bytes)
    }

    /// Whether `bytes` are a sequence: whoever has them from elsewhere asks first.
    pub(crate) fn check(bytes: &[u8]) -> bool {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return false;
        };
        let (mut at, mut count) = (HEAD, 0);
        while at < bytes.len() {
            let Some(length) = checked_entry(&bytes[at..]) else {
                return false;
            };
            at += length;
            count += 1;
        }
        count == usize::from(u16::from_le_bytes(*head))
    }

    /// All bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// How many elements there are.
    #[inline]
    pub(crate) fn len(self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.len() == HEAD
    }

    /// Where the first element stands.
    pub(crate) fn start(self) -> Offset {
        HEAD
    }

    /// Behind the last element.
    pub(crate) fn end(self) -> Offset {
        self.0.len()
    }

    /// The element at `at`, and the offset of the next.
    ///
    /// # Panics
    /// If no entry begins there.
    #[inline]
    pub(crate) fn at(self, at: Offset) -> (Element<'a>, Offset) {
        let (element, length) = decode(&self.0[at..]);
        (element, at + length)
    }

    /// The offset of the element before `at`; `None` at the start.
    #[inline]
    pub(crate) fn before(self, at: Offset) -> Option<Offset> {
        (at > HEAD).then(|| at - decode_back(&self.0[..at]))
    }

    /// The offset of the element of this index, found from the nearer end; the end's for the length.
    pub(crate) fn offset_of(self, index: usize) -> Option<Offset> {
        let len = self.len();
        if index > len {
            return None;
        }
        if index <= len / 2 {
            return Some((0..index).fold(HEAD, |at, _| self.at(at).1));
        }
        let steps = len - index;
        Some((0..steps).fold(self.end(), |at, _| {
            self.before(at).expect("fewer steps than elements")
        }))
    }

    /// The elements in order; from both ends.
    #[inline]
    pub(crate) fn iter(self) -> Iter<'a> {
        Iter {
            listpack: self,
            front: HEAD,
            back: self.0.len(),
        }
    }

    /// The first element equal to `text` among those whose index is a multiple of `step`: of a sequence of fields and
    /// values, the fields are every second.
    #[inline]
    pub(crate) fn find(self, text: &[u8], step: usize) -> Option<Offset> {
        let wanted = Element::of(text);
        if let Element::Bytes(text) = wanted
            && text.len() < 0x40
        {
            return self.find_short(text, step);
        }
        let mut at = HEAD;
        while at < self.0.len() {
            let (element, next) = self.at(at);
            if element == wanted {
                return Some(at);
            }
            at = (1..step).fold(next, |at, _| at + entry_len_at(&self.0[at..]));
        }
        None
    }

    /// [`Listpack::find`] of a string whose head is one byte. An element has one form only, so most entries are passed by
    /// with a look at their head and at the byte in which theirs would differ soonest: the last.
    fn find_short(self, text: &[u8], step: usize) -> Option<Offset> {
        let bytes = self.0;
        let head = 0x80 | text.len() as u8;
        let mut at = HEAD;
        while at < bytes.len() {
            if bytes[at] == head {
                let found = &bytes[at + 1..at + 1 + text.len()];
                if found.last() == text.last() && found == text {
                    return Some(at);
                }
            }
            at = (0..step).fold(at, |at, _| at + entry_len_at(&bytes[at..]));
        }
        None
    }
}

/// The elements of a sequence by what they are, for whoever looks for many of them.
pub(crate) struct Index<'a> {
    listpack: Listpack<'a>,
    /// Offsets of elements, each at the place that its hash says or as soon behind it as there was room; 0 where there is
    /// none, since no element stands there.
    places: Vec<u32>,
}

impl<'a> Index<'a> {
    /// An index of all elements.
    pub(crate) fn new(listpack: Listpack<'a>) -> Index<'a> {
        let mut places = vec![0; (2 * listpack.len()).next_power_of_two()];
        let mut at = listpack.start();
        while at < listpack.end() {
            let (element, next) = listpack.at(at);
            let mut place = hash(element) as usize % places.len();
            while places[place] != 0 {
                place = (place + 1) % places.len();
            }
            places[place] = at as u32;
            at = next;
        }
        Index { listpack, places }
    }

    /// Whether `text` is one of the elements.
    pub(crate) fn contains(&self, text: &[u8]) -> bool {
        let wanted = Element::of(text);
        let mut place = hash(wanted) as usize % self.places.len();
        while self.places[place] != 0 {
            if self.listpack.at(self.places[place] as usize).0 == wanted {
                return true;
            }
            place = (place + 1) % self.places.len();
        }
        false
    }
}

/// A hash that costs little. Whoever makes many elements share one only makes searches as slow as without an index.
fn hash(element: Element<'_>) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let folded = match element {
        Element::Integer(number) => number as u64,
        Element::Bytes(text) => text.chunks(8).fold(text.len() as u64, |folded, bytes| {
            (folded ^ word(bytes))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        }),
    };
    folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// The whole length of the entry at the start of `bytes`: [`decode`] without the element, for entries that are passed by.
#[inline]
fn entry_len_at(bytes: &[u8]) -> usize {
    let head = bytes[0];
    let content = match head {
        0x00..=0x7f => 1,
        0x80..=0xbf => 1 + usize::from(head & 0x3f),
        0xc0..=0xdf => 2,
        _ => return decode(bytes).1,
    };
    // All of these are below 128 bytes.
    content + 1
}

/// The length of the entry at the start of `bytes`, if it is whole and in its shortest form.
fn checked_entry(bytes: &[u8]) -> Option<usize> {
    let head = *bytes.first()?;
    let content = match head {
        0..=0x7f => 1,
        0x80..=0xbf => 1 + usize::from(head & 0x3f),
        0xc0..=0xdf => 2,
        0xe0..=0xef => 2 + (usize::from(head & 0x0f) << 8 | usize::from(*bytes.get(1)?)),
        0xf0 => 5 + u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?) as usize,
        0xf1 => 3,
        0xf2 => 4,
        0xf3 => 5,
        0xf4 => 9,
        _ => return None,
    };
    let length = content.checked_add(back_len(content))?;
    let entry = bytes.get(..length)?;
    let (element, _) = decode(entry);
    let canonical = match element {
        Element::Bytes(text) => Element::of(text),
        Element::Integer(_) => element,
    };
    let mut again = vec![0; canonical.entry_len()];
    canonical.encode(&mut again);
    (again == entry).then_some(length)
}

/// The elements of a sequence.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    listpack: Listpack<'a>,
    front: Offset,
    back: Offset,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.front >= self.back {
            return None;
        }
        let (element, next) = self.listpack.at(self.front);
        self.front = next;
        Some(element)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        self.back = self.listpack.before(self.back).expect("the front is not reached");
        Some(self.listpack.at(self.back).0)
    }
}

/// Adds an element before the one at `at`, or at the end. Returns where the next one stands.
///
/// # Panics
/// If there are [`ENTRIES_MAX`] already.
pub(crate) fn insert(buffer: &mut impl Buffer, at: Offset, text: &[u8]) -> Offset {
    insert_element(buffer, at, Element::of(text))
}

/// As [`insert`], of an element that is known.
pub(crate) fn insert_element(buffer: &mut impl Buffer, at: Offset, element: Element<'_>) -> Offset {
    let length = element.entry_len();
    let bytes = buffer.splice(at..at, length);
    element.encode(&mut bytes[at..at + length]);
    recount(bytes, 1);
    at + length
}

/// Adds an element at the end.
pub(crate) fn push_back(buffer: &mut impl Buffer, text: &[u8]) {
    let end = buffer.bytes().len();
    insert(buffer, end, text);
}

/// Adds two elements at the end, in one step.
pub(crate) fn push_back_pair(buffer: &mut impl Buffer, first: &[u8], second: &[u8]) {
    let (first, second) = (Element::of(first), Element::of(second));
    let at = buffer.bytes().len();
    let (middle, end) = (
        at + first.entry_len(),
        at + first.entry_len() + second.entry_len(),
    );
    let bytes = buffer.splice(at..at, end - at);
    first.encode(&mut bytes[at..middle]);
    second.encode(&mut bytes[middle..end]);
    recount(bytes, 2);
}

/// Puts another element in the place of the one at `at`. Returns where the next one stands.
pub(crate) fn replace(buffer: &mut impl Buffer, at: Offset, text: &[u8]) -> Offset {
    let element = Element::of(text);
    let (_, next) = Listpack::new(buffer.bytes()).at(at);
    let length = element.entry_len();
    let bytes = buffer.splice(at..next, length);
    element.encode(&mut bytes[at..at + length]);
    at + length
}

/// Removes `count` elements from the one at `at` on. What follows them then stands at `at`.
///
/// # Panics
/// If there are fewer.
pub(crate) fn remove(buffer: &mut impl Buffer, at: Offset, count: usize) {
    let listpack = Listpack::new(buffer.bytes());
    let end = (0..count).fold(at, |at, _| listpack.at(at).1);
    let bytes = buffer.splice(at..end, 0);
    recount(bytes, -(count as isize));
}

/// Puts the entries `run`, `count` of them, before the one at `at`, or at the end. Returns where the next one stands.
///
/// # Panics
/// If they are more than [`ENTRIES_MAX`] together with those that are there.
pub(crate) fn insert_run(buffer: &mut impl Buffer, at: Offset, run: &[u8], count: usize) -> Offset {
    let bytes = buffer.splice(at..at, run.len());
    bytes[at..at + run.len()].copy_from_slice(run);
    recount(bytes, count as isize);
    at + run.len()
}

/// Removes the entries in `range`, `count` of them. What follows them then stands at its start.
pub(crate) fn remove_run(buffer: &mut impl Buffer, range: Range<Offset>, count: usize) {
    let bytes = buffer.splice(range, 0);
    recount(bytes, -(count as isize));
}

fn recount(bytes: &mut [u8], by: isize) {
    let count = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let count = count
        .checked_add_signed(by)
        .and_then(|count| u16::try_from(count).ok());
    bytes[..HEAD].copy_from_slice(&count.expect("the count stays within its bounds").to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    fn texts(bytes: &[u8]) -> Vec<Vec<u8>> {
        Listpack::new(bytes).iter().map(Element::to_vec).collect()
    }

    fn samples() -> Vec<Vec<u8>> {
        let mut samples: Vec<Vec<u8>> = [0usize, 1, 63, 64, 126, 4_095, 4_096, 20_000]
            .iter()
            .map(|&length| vec![b'x'; length])
            .collect();
        for bits in [6, 7, 8, 12, 13, 15, 16, 23, 24, 31, 32, 62] {
            for delta in [-1i64, 0, 1] {
                samples.push(((1i64 << bits) + delta).to_string().into_bytes());
                samples.push((-(1i64 << bits) + delta).to_string().into_bytes());
            }
        }
        samples.extend(
            [
                &b"-0"[..],
                b"007",
                b"9223372036854775807",
                b"-9223372036854775808",
            ]
            .map(<[u8]>::to_vec),
        );
        samples
    }

    #[test]
    fn every_element_comes_back_from_both_ends() {
        let mut bytes = EMPTY.to_vec();
        for sample in samples() {
            push_back(&mut bytes, &sample);
        }
        assert_eq!(texts(&bytes), samples());
        let mut backwards: Vec<Vec<u8>> = Listpack::new(&bytes).iter().rev().map(Element::to_vec).collect();
        backwards.reverse();
        assert_eq!(backwards, samples());
        assert!(Listpack::check(&bytes));
    }

    #[test]
    fn a_pair_is_two_elements() {
        let samples = samples();
        let (mut bytes, mut expected) = (EMPTY.to_vec(), EMPTY.to_vec());
        for pair in samples.windows(2) {
            push_back_pair(&mut bytes, &pair[0], &pair[1]);
            push_back(&mut expected, &pair[0]);
            push_back(&mut expected, &pair[1]);
        }
        assert_eq!(bytes, expected);
    }

    #[test]
    fn agrees_with_a_vector_under_any_changes() {
        let samples = samples();
        let mut prng = Prng::new(3);
        let (mut bytes, mut model) = (EMPTY.to_vec(), Vec::<Vec<u8>>::new());
        for _ in 0..4_000 {
            let sample = &samples[prng.below(samples.len() as u64) as usize];
            let index = prng.below(model.len() as u64 + 1) as usize;
            let at = Listpack::new(&bytes)
                .offset_of(index)
                .expect("within the sequence");
            match prng.below(5) {
                0 | 1 if model.len() < 60 => {
                    insert(&mut bytes, at, sample);
                    model.insert(index, sample.clone());
                }
                2 if index < model.len() => {
                    replace(&mut bytes, at, sample);
                    model[index] = sample.clone();
                }
                _ => {
                    let count = (prng.below(3) as usize).min(model.len() - index);
                    remove(&mut bytes, at, count);
                    model.drain(index..index + count);
                }
            }
            assert_eq!(texts(&bytes), model);
            assert_eq!(Listpack::new(&bytes).len(), model.len());
            let found = Listpack::new(&bytes).find(sample, 1);
            assert_eq!(
                Index::new(Listpack::new(&bytes)).contains(sample),
                found.is_some()
            );
            let expected = model.iter().position(|text| text == sample);
            assert_eq!(
                found,
                expected.and_then(|index| Listpack::new(&bytes).offset_of(index))
            );
        }
    }

    #[test]
    fn bytes_from_elsewhere_are_refused_unless_they_are_whole_and_canonical() {
        let mut bytes = EMPTY.to_vec();
        for sample in samples() {
            push_back(&mut bytes, &sample);
        }
        for end in 0..bytes.len().min(600) {
            assert!(!Listpack::check(&bytes[..end]));
        }
        let mut prng = Prng::new(5);
        for _ in 0..20_000 {
            let mut bytes = bytes[..300].to_vec();
            let at = prng.below(300) as usize;
            bytes[at] = prng.next_u64() as u8;
            if Listpack::check(&bytes) {
                texts(&bytes);
            }
        }
    }
}
