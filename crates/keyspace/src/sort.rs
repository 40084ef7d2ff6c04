//! `SORT` and `SORT_RO`.
//!
//! What patterns name is looked up in this keyspace alone ([`Reader::external`]). Whoever runs the command on copies of
//! some keys learns from [`LeaderLocal::wanted`](crate::LeaderLocal::wanted) which others it asked for.

use crate::Keyspace;
use crate::apply::Apply;
use crate::events::EventClasses;
use crate::large::Large;
use crate::limits::EncodingLimits;
use crate::list::List;
use crate::listpack::{self, Listpack};
use crate::local::LeaderLocal;
use crate::object::{Kind, Object, Value};
use crate::read::Reader;
use crate::set::Members;
use crate::slot_word::ObjectRef;
use crate::value::Digits;
use command::{ReplyError, SortCommand, number};
use ids::{Db, Version};
use resp::{Protocol, ReplyWriter};
use std::cmp::Ordering;
use std::ops::Range;

/// An element of a collection, or what a pattern found.
type Text = Box<[u8]>;

/// A key made of a pattern and an element.
struct Place {
    key: Vec<u8>,
    /// The field of a hash; the key holds a string if there is none.
    field: Option<Vec<u8>>,
}

impl Place {
    /// Puts `element` in the place of the pattern's first `*`; `None` if there is none. What follows an arrow behind it
    /// is a field, unless nothing follows.
    fn new(pattern: &[u8], element: &[u8]) -> Option<Place> {
        let star = pattern.iter().position(|&byte| byte == b'*')?;
        let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
        let arrow = behind.windows(2).position(|pair| pair == b"->");
        let (behind, field) = match arrow {
            Some(at) if at + 2 < behind.len() => (&behind[..at], Some(behind[at + 2..].to_vec())),
            _ => (behind, None),
        };
        Some(Place {
            key: [before, element, behind].concat(),
            field,
        })
    }
}

/// Calls `visit` for the elements of a list, set or sorted set, in the order in which it has them.
pub(crate) fn for_each_element(object: &Object, mut visit: impl FnMut(&[u8])) {
    let mut digits = Digits::default();
    match object.value() {
        Value::Listpack(Kind::SortedSet, listpack) => listpack
            .iter()
            .step_by(2)
            .for_each(|member| visit(member.text(&mut digits))),
        Value::Listpack(Kind::List, listpack) => listpack
            .iter()
            .for_each(|element| visit(element.text(&mut digits))),
        Value::Large(Large::List(list)) => list.for_each(visit),
        Value::Large(Large::SortedSet(sorted_set)) => sorted_set.for_each(|member, _| visit(member)),
        Value::Integers(_) | Value::Listpack(Kind::Set, _) | Value::Large(Large::Set(_)) => {
            Members::of(object).for_each(visit);
        }
        Value::Bytes(_)
        | Value::Coded(_)
        | Value::Integer(_)
        | Value::Listpack(..)
        | Value::Large(Large::Hash(_) | Large::Stream(_)) => {
            unreachable!("the kind was checked: only lists, sets and sorted sets are sorted")
        }
    }
}

/// The number that an element is sorted by: what C's `strtod` makes of a string that ends at its first NUL.
fn score(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let blank = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    let start = text[..end].iter().take_while(blank).count();
    if end == 0 {
        return Some(0.0);
    }
    number::parse_double(&text[start..end])
}

/// The places from which `LIMIT` answers.
fn window(limit: Option<(i64, i64)>, len: usize) -> Range<usize> {
    let Some((offset, count)) = limit else {
        return 0..len;
    };
    let start = usize::try_from(offset.max(0)).unwrap_or(len).min(len);
    let count = usize::try_from(count).unwrap_or(len);
    start..start.saturating_add(count).min(len)
}

fn sort_by(texts: &mut [Text], is_descending: bool) {
    if is_descending {
        texts.sort_by(|a, b| b.cmp(a));
    } else {
        texts.sort();
    }
}

impl<'k> Reader<'k, '_> {
    /// The dispatch of reads.
    pub(crate) fn sort(&mut self, command: &SortCommand<'_>) {
        let sorted = self.sorted(command);
        let elements = match sorted {
            Ok(elements) => elements,
            Err(error) => {
                error.write(self.out);
                return self.end_without();
            }
        };
        let patterns = command.patterns().count();
        self.out.array(elements.len() * patterns.max(1));
        for element in &elements {
            if patterns == 0 {
                self.out.bulk(element);
            }
            for pattern in command.patterns() {
                match self.found(pattern, element) {
                    Some(text) => self.out.bulk(&text),
                    None => self.out.null(),
                }
            }
        }
        self.note_each_once();
        self.end_without();
    }

    /// If a value is lacking, nothing is answered but that ([`Reader::answer`]).
    fn end_without(&mut self) {
        if self.lacks {
            self.out.pass_bound();
        }
    }

    /// The elements in the order that is asked for, those between the limits.
    fn sorted(&mut self, command: &SortCommand<'_>) -> Result<Vec<Text>, ReplyError> {
        let Some(object) = self.lookup(command.key) else {
            return Ok(Vec::new());
        };
        let kind = object.kind();
        if !matches!(kind, Kind::List | Kind::Set | Kind::SortedSet) {
            return Err(ReplyError::WrongType);
        }
        let is_unsorted = command.by.is_some_and(|pattern| !pattern.contains(&b'*'));
        // A set has no order of its own that one could store.
        let orders_set = is_unsorted && kind == Kind::Set && command.destination.is_some();
        let len = object.value().len();
        let window = window(command.limit, len);
        if is_unsorted && !orders_set {
            // From a sorted set in descending order the greatest come first.
            let is_reversed = kind == Kind::SortedSet && command.is_descending;
            let wanted = if is_reversed {
                len - window.end..len - window.start
            } else {
                window
            };
            let (mut texts, mut index) = (Vec::with_capacity(wanted.len()), 0);
            for_each_element(&object, |element| {
                if wanted.contains(&index) {
                    texts.push(element.into());
                }
                index += 1;
            });
            if is_reversed {
                texts.reverse();
            }
            return Ok(texts);
        }
        let mut texts = Vec::with_capacity(len);
        for_each_element(&object, |element| texts.push(Text::from(element)));
        let by = command.by.filter(|_| !orders_set);
        let is_alpha = command.is_alpha || orders_set;
        let mut texts = match (is_alpha, by) {
            (true, None) => {
                sort_by(&mut texts, command.is_descending);
                texts
            }
            (true, Some(pattern)) => self.by_text(texts, pattern, command.is_descending),
            (false, by) => self.by_score(texts, by, command.is_descending)?,
        };
        texts.truncate(window.end);
        texts.drain(..window.start);
        Ok(texts)
    }

    /// Sorts by the bytes of what a pattern finds, nothing first; what is equal stays as it is.
    fn by_text(&mut self, texts: Vec<Text>, pattern: &[u8], is_descending: bool) -> Vec<Text> {
        let weighed = texts.into_iter().map(|text| (self.found(pattern, &text), text));
        let mut weighed: Vec<(Option<Text>, Text)> = weighed.collect();
        weighed.sort_by(|(a, _), (b, _)| directed(a.cmp(b), is_descending));
        weighed.into_iter().map(|(_, text)| text).collect()
    }

    /// Sorts by numbers: the elements, or what a pattern finds for them, zero if nothing. What is equal is sorted by its
    /// bytes.
    fn by_score(
        &mut self,
        texts: Vec<Text>,
        pattern: Option<&[u8]>,
        is_descending: bool,
    ) -> Result<Vec<Text>, ReplyError> {
        let mut weighed = Vec::with_capacity(texts.len());
        let mut is_known = true;
        // All patterns are followed even so: whoever fetches what they name learns of all at once.
        for text in texts {
            let score = match pattern {
                Some(pattern) => self.found(pattern, &text).map_or(Some(0.0), |text| score(&text)),
                None => score(&text),
            };
            is_known &= score.is_some();
            weighed.push((score.unwrap_or(0.0), text));
        }
        if !is_known {
            self.note_each_once();
            return Err(ReplyError::ScoreNotADouble);
        }
        weighed.sort_by(|(a, a_text), (b, b_text)| {
            let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            directed(order.then_with(|| a_text.cmp(b_text)), is_descending)
        });
        Ok(weighed.into_iter().map(|(_, text)| text).collect())
    }

    /// What `pattern` finds for `element`: a string, or the value of a hash's field.
    fn found(&mut self, pattern: &[u8], element: &[u8]) -> Option<Text> {
        if pattern == b"#" {
            return Some(element.into());
        }
        let place = Place::new(pattern, element)?;
        let object = self.external(&place.key)?;
        if place.field.is_none() && self.keyspace.withholds(self.db, &object, self.is_in_entry) {
            self.lacks = true;
            self.local.to_gather.push((self.db, place.key.into()));
            return None;
        }
        let mut digits = Digits::default();
        match (object.value(), place.field) {
            (value @ (Value::Bytes(_) | Value::Integer(_)), None) => Some(value.text(&mut digits).into()),
            (Value::Listpack(Kind::Hash, listpack), Some(field)) => {
                let at = listpack.find(&field, 2)?;
                let (_, behind) = listpack.at(at);
                Some(listpack.at(behind).0.text(&mut digits).into())
            }
            (Value::Large(Large::Hash(fields)), Some(field)) => {
                let found = fields.find(fields.hash(&field), &field)?;
                Some(found.value().text(&mut digits).into())
            }
            _ => None,
        }
    }

    /// The living object of a key that only the data named.
    fn external(&mut self, key: &[u8]) -> Option<ObjectRef<'k>> {
        if self.local.collects_wanted {
            self.local.wanted.push((self.db, key.into()));
        }
        self.lookup(key)
    }

    fn note_each_once(&mut self) {
        self.local.wanted.sort_unstable();
        self.local.wanted.dedup();
    }
}

fn directed(order: Ordering, is_descending: bool) -> Ordering {
    if is_descending { order.reverse() } else { order }
}

impl Keyspace {
    /// Notes which values `SORT` would meet that it needs and lacks ([`LeaderLocal::to_gather`]): only on its way it finds out.
    pub(crate) fn note_lacking_of_sort(
        &self,
        db: Db,
        command: &SortCommand<'_>,
        is_in_entry: bool,
        local: &mut LeaderLocal,
    ) {
        let (now, mut bytes) = (self.time(), Vec::new());
        let mut out = ReplyWriter::new(&mut bytes, Protocol::Resp2);
        let mut reader = Reader {
            keyspace: self,
            local,
            db,
            out: &mut out,
            now,
            is_in_entry,
            waits: false,
            lacks: false,
        };
        let Ok(elements) = reader.sorted(command) else {
            return;
        };
        for element in &elements {
            for pattern in command.patterns() {
                reader.found(pattern, element);
            }
        }
    }
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write: those that store the result.
    pub(crate) fn sort(&mut self, command: &SortCommand<'_>) {
        let Some(destination) = command.destination else {
            unreachable!("{command:?} does not write");
        };
        let elements = match self.elements_to_store(command) {
            Ok(elements) => elements,
            Err(error) => return error.write(self.out),
        };
        let (limits, version) = (self.keyspace.limits(), self.version());
        let list = (!elements.is_empty()).then(|| list_of(destination, &elements, limits, version));
        self.store_result(destination, list, (EventClasses::LIST, "sortstore"));
        self.out.integer(elements.len() as i64);
    }

    /// The result, in which the empty string stands for what no pattern found.
    fn elements_to_store(&mut self, command: &SortCommand<'_>) -> Result<Vec<Text>, ReplyError> {
        let now = self.time();
        let mut reader = Reader {
            keyspace: self.keyspace,
            local: self.local,
            db: self.db,
            out: self.out,
            now,
            is_in_entry: true,
            waits: false,
            lacks: false,
        };
        let sorted = reader.sorted(command);
        if reader.lacks {
            return Err(ReplyError::InFragments);
        }
        let elements = sorted?;
        if command.patterns().next().is_none() {
            reader.note_each_once();
            return Ok(elements);
        }
        let mut found = Vec::with_capacity(elements.len() * command.patterns().count());
        for element in &elements {
            for pattern in command.patterns() {
                found.push(reader.found(pattern, element).unwrap_or_default());
            }
        }
        reader.note_each_once();
        match reader.lacks {
            false => Ok(found),
            true => Err(ReplyError::InFragments),
        }
    }
}

/// A list of these elements.
pub(crate) fn list_of(
    key: &[u8],
    elements: &[impl AsRef<[u8]>],
    limits: EncodingLimits,
    version: Version,
) -> Object {
    let mut sequence = listpack::EMPTY.to_vec();
    for element in elements.iter().map(AsRef::as_ref) {
        if !fits_one_node(Listpack::new(&sequence), element.len(), limits.list_node_size) {
            let mut list = List::default();
            for element in elements.iter().map(AsRef::as_ref) {
                list.push_back(element, limits.list_node_size);
            }
            return Object::large(key, Large::List(list), None, version);
        }
        listpack::push_back(&mut sequence, element);
    }
    Object::with_listpack(Kind::List, key, &sequence, None, version)
}

/// Whether a list of one node has room for another element.
fn fits_one_node(node: Listpack<'_>, length: usize, node_size: i32) -> bool {
    let (count, bytes) = (node.len() + 1, node.bytes().len() + length);
    let bytes_max = match node_size {
        // Nodes limited by their count have a limit of bytes too.
        0.. => 8 << 10,
        -1 => 4 << 10,
        -2 => 8 << 10,
        -3 => 16 << 10,
        -4 => 32 << 10,
        _ => 64 << 10,
    };
    let count_max = usize::try_from(node_size).unwrap_or(listpack::ENTRIES_MAX);
    count <= count_max.min(listpack::ENTRIES_MAX) && bytes <= bytes_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_keys_and_fields() {
        for (pattern, key, field) in [
            ("w_*", Some("w_x"), None),
            ("*", Some("x"), None),
            ("a*b*", Some("axb*"), None),
            ("w_*->f", Some("w_x"), Some("f")),
            ("w_*:z->f->g", Some("w_x:z"), Some("f->g")),
            ("w_*->", Some("w_x->"), None),
            ("a->*", Some("a->x"), None),
            ("a->*->f", Some("a->x"), Some("f")),
            ("nosort", None, None),
            ("", None, None),
        ] {
            let place = Place::new(pattern.as_bytes(), b"x");
            assert_eq!(
                place.as_ref().map(|place| place.key.as_slice()),
                key.map(str::as_bytes),
                "{pattern}"
            );
            assert_eq!(
                place.and_then(|place| place.field),
                field.map(|field| field.as_bytes().to_vec()),
                "{pattern}"
            );
        }
    }

    #[test]
    fn scores_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("", Some(0.0)),
            ("12", Some(12.0)),
            ("-1.5e3", Some(-1500.0)),
            (" 7", Some(7.0)),
            ("7 ", None),
            (" ", None),
            ("7\0x", Some(7.0)),
            ("\x007", Some(0.0)),
            ("inf", Some(f64::INFINITY)),
            ("nan", None),
            ("1e400", None),
            ("x", None),
            ("0x10", Some(16.0)),
        ] {
            assert_eq!(score(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn limits_stay_within_the_elements() {
        for (limit, expected) in [
            (None, 0..5),
            (Some((1, 2)), 1..3),
            (Some((-3, 2)), 0..2),
            (Some((1, -1)), 1..5),
            (Some((9, 1)), 5..5),
            (Some((2, i64::MAX)), 2..5),
            (Some((i64::MAX, i64::MAX)), 5..5),
            (Some((0, 0)), 0..0),
        ] {
            assert_eq!(window(limit, 5), expected, "{limit:?}");
        }
    }
}
