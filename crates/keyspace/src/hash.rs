//! Hashes.
//!
//! A small hash is a listpack of fields each followed by its value, in the order in which the fields came. A
//! hash beyond the limits is a directory, whose objects are the fields, and it stays one.

use crate::apply::{Apply, Edit};
use crate::directory::{Directory, Position};
use crate::events::EventClasses;
use crate::large::Large;
use crate::limits::EncodingLimits;
use crate::listpack::{self, Element, Listpack};
use crate::object::{Kind, Object, Value};
use crate::read::{Reader, write_scan};
use crate::sample::{are_too_many_picks, sample};
use crate::slot_word::ObjectRef;
use crate::value::Digits;
use command::number::LongDouble;
use command::{HashCommand, HashParts, HashSetReply, ReplyError, ScanOptions};
use ids::{HashSeed, Prng, Version};
use resp::{Args, Protocol, ReplyWriter};

/// A hash in a listpack stays below so many bytes, whatever the limits are: lengths have 32 bits.
const LISTPACK_BYTES_MAX: usize = 1 << 30;

/// Fields that are drawn at a time, before the hash is walked for them.
const BATCH: u64 = 4_096;

/// The fields of a hash, to read.
#[derive(Clone, Copy)]
pub(crate) enum Fields<'a> {
    /// Each followed by its value.
    Listpack(Listpack<'a>),
    /// Objects with their values.
    Large(&'a Directory),
}

impl<'a> Fields<'a> {
    /// Those in the value of a hash.
    ///
    /// # Panics
    /// If it is another value.
    #[inline]
    pub(crate) fn of(value: Value<'a>) -> Fields<'a> {
        match value {
            Value::Listpack(Kind::Hash, listpack) => Fields::Listpack(listpack),
            Value::Large(Large::Hash(fields)) => Fields::Large(fields),
            Value::Bytes(_)
            | Value::Coded(_)
            | Value::Integer(_)
            | Value::Integers(_)
            | Value::Listpack(..)
            | Value::Large(Large::List(_) | Large::Set(_) | Large::SortedSet(_) | Large::Stream(_)) => {
                unreachable!("the kind was checked: only hashes have fields")
            }
        }
    }

    /// How many there are.
    pub(crate) fn len(self) -> usize {
        match self {
            Fields::Listpack(listpack) => listpack.len() / 2,
            Fields::Large(fields) => fields.len(),
        }
    }

    /// Calls `look` with the value of `field`, or with `None`.
    #[inline]
    pub(crate) fn get<R>(self, field: &[u8], look: impl FnOnce(Option<Element<'_>>) -> R) -> R {
        match self {
            Fields::Listpack(listpack) => {
                let found = listpack.find(field, 2);
                look(found.map(|at| listpack.at(listpack.at(at).1).0))
            }
            Fields::Large(fields) => match fields.find(fields.hash(field), field) {
                Some(object) => look(Some(value_of(&object))),
                None => look(None),
            },
        }
    }

    /// Calls `visit` with all fields and values.
    pub(crate) fn for_each(self, mut visit: impl FnMut(Element<'_>, Element<'_>)) {
        match self {
            Fields::Listpack(listpack) => pairs(listpack).for_each(|(field, value)| visit(field, value)),
            Fields::Large(fields) => {
                fields.for_each(|object| visit(Element::Bytes(object.key()), value_of(object)));
            }
        }
    }

    /// Calls `visit` with the fields of these ranks, which ascend.
    fn pick(self, ranks: impl Iterator<Item = usize>, mut visit: impl FnMut(Picked<'a>)) {
        match self {
            Fields::Listpack(listpack) => {
                let mut rest = pairs(listpack);
                let mut seen = 0;
                for rank in ranks {
                    let (field, value) = rest
                        .nth(rank - seen)
                        .expect("ranks are below the number of fields");
                    seen = rank + 1;
                    visit(Picked::Pair(field, value));
                }
            }
            Fields::Large(fields) => fields.select(ranks, |object| visit(Picked::Object(object))),
        }
    }
}

/// A field that was drawn.
enum Picked<'a> {
    /// With its value.
    Pair(Element<'a>, Element<'a>),
    /// As an object.
    Object(ObjectRef<'a>),
}

impl Picked<'_> {
    fn field(&self) -> Element<'_> {
        match self {
            Picked::Pair(field, _) => *field,
            Picked::Object(object) => Element::Bytes(object.key()),
        }
    }

    fn value(&self) -> Element<'_> {
        match self {
            Picked::Pair(_, value) => *value,
            Picked::Object(object) => value_of(object),
        }
    }

    /// Writes the field, and its value if it is asked for: RESP3 has a pair of them.
    fn write(&self, out: &mut ReplyWriter<'_>, with_value: bool) {
        if with_value && out.protocol() == Protocol::Resp3 {
            out.array(2);
        }
        self.field().write(out);
        if with_value {
            self.value().write(out);
        }
    }
}

/// Fields with their values.
fn pairs(listpack: Listpack<'_>) -> impl Iterator<Item = (Element<'_>, Element<'_>)> {
    let mut elements = listpack.iter();
    std::iter::from_fn(move || Some((elements.next()?, elements.next()?)))
}

/// The value of a field that is an object.
#[inline]
fn value_of(object: &Object) -> Element<'_> {
    match object.value() {
        Value::Bytes(bytes) => Element::Bytes(bytes),
        Value::Integer(number) => Element::Integer(number),
        Value::Coded(_) | Value::Listpack(..) | Value::Integers(_) | Value::Large(_) => {
            unreachable!("the fields of a hash have strings")
        }
    }
}

/// Sets a field; whether it is new.
#[inline]
pub(crate) fn set(
    object: &mut Object,
    limits: &EncodingLimits,
    seed: HashSeed,
    field: &[u8],
    value: &[u8],
) -> bool {
    if let Value::Listpack(_, listpack) = object.value() {
        let bytes_max = limits.hash_value_bytes as usize;
        let fits = field.len() <= bytes_max
            && value.len() <= bytes_max
            && listpack.bytes().len() + field.len() + value.len() < LISTPACK_BYTES_MAX;
        if fits {
            if let Some(at) = listpack.find(field, 2) {
                let (_, at) = listpack.at(at);
                listpack::replace(object, at, value);
                return false;
            }
            let entries_max = (limits.hash_entries as usize).min(listpack::ENTRIES_MAX / 2);
            if listpack.len() / 2 < entries_max {
                listpack::push_back_pair(object, field, value);
                return true;
            }
        }
        enlarge(object, seed);
    }
    let fields = large_mut(object);
    let found = fields.update(field, |object| object.set_string(value));
    if found.is_none() {
        fields.insert(fields.hash(field), member(field, value));
    }
    found.is_none()
}

/// Removes a field; whether there was one.
fn remove(object: &mut Object, field: &[u8]) -> bool {
    match object.value() {
        Value::Listpack(_, listpack) => match listpack.find(field, 2) {
            Some(at) => {
                listpack::remove(object, at, 2);
                true
            }
            None => false,
        },
        _ => {
            let fields = large_mut(object);
            fields.remove(fields.hash(field), field).is_some()
        }
    }
}

/// A field of a large hash.
fn member(field: &[u8], value: &[u8]) -> Object {
    Object::string(field, value, None, Version(0))
}

/// Makes a hash in a listpack a large one.
fn enlarge(object: &mut Object, seed: HashSeed) {
    let mut fields = Directory::new(seed);
    let (mut field_digits, mut value_digits) = (Digits::default(), Digits::default());
    Fields::of(object.value()).for_each(|field, value| {
        let field = field.text(&mut field_digits);
        fields.insert(fields.hash(field), member(field, value.text(&mut value_digits)));
    });
    object.set_large(Large::Hash(fields));
}

fn large_mut(object: &mut Object) -> &mut Directory {
    match object.large_mut() {
        Some(Large::Hash(fields)) => fields,
        _ => unreachable!("a hash that is in no listpack is a large one"),
    }
}

impl Edit<'_> {
    fn set_field(&mut self, field: &[u8], value: &[u8]) -> bool {
        set(self.object, &self.limits, self.seed, field, value)
    }
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn fields(&mut self, command: &HashCommand<'_>) {
        let result = match *command {
            HashCommand::Set { key, pairs, reply } => self.hset(key, pairs, reply),
            HashCommand::SetNx { key, field, value } => self.hset_nx(key, field, value),
            HashCommand::Del { key, fields } => self.hdel(key, fields),
            HashCommand::IncrBy { key, field, by } => self.hincr_by(key, field, by),
            HashCommand::IncrByFloat { key, field, by } => self.hincr_by_float(key, field, by),
            HashCommand::Get { .. }
            | HashCommand::MGet { .. }
            | HashCommand::All { .. }
            | HashCommand::Len { .. }
            | HashCommand::StrLen { .. }
            | HashCommand::Exists { .. }
            | HashCommand::RandField { .. }
            | HashCommand::Scan { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    fn hset(&mut self, key: &[u8], pairs: Args<'_>, reply: HashSetReply) -> Result<(), ReplyError> {
        let added = self.edit(Kind::Hash, key, true, |edit| {
            let mut added = 0;
            let mut words = pairs.iter();
            while let (Some(field), Some(value)) = (words.next(), words.next()) {
                added += i64::from(edit.set_field(field, value));
            }
            edit.mark();
            added
        })?;
        self.event(EventClasses::HASH, "hset", key);
        match reply {
            HashSetReply::Added => self.out.integer(added.unwrap_or(0)),
            HashSetReply::Ok => self.out.ok(),
        }
        Ok(())
    }

    fn hset_nx(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> Result<(), ReplyError> {
        let is_set = self.edit(Kind::Hash, key, true, |edit| {
            let is_there = Fields::of(edit.object.value()).get(field, |found| found.is_some());
            if !is_there {
                edit.set_field(field, value);
                edit.mark();
            }
            !is_there
        })?;
        let is_set = is_set.unwrap_or(false);
        if is_set {
            self.event(EventClasses::HASH, "hset", key);
        }
        self.out.integer(i64::from(is_set));
        Ok(())
    }

    fn hdel(&mut self, key: &[u8], fields: Args<'_>) -> Result<(), ReplyError> {
        let removed = self.remove_elements(Kind::Hash, key, (EventClasses::HASH, "hdel"), |edit| {
            fields.iter().filter(|field| remove(edit.object, field)).count()
        })?;
        self.out.integer(removed as i64);
        Ok(())
    }

    fn hincr_by(&mut self, key: &[u8], field: &[u8], by: i64) -> Result<(), ReplyError> {
        let sum: Option<Result<i64, ReplyError>> = self.edit(Kind::Hash, key, true, |edit| {
            let before = Fields::of(edit.object.value()).get(field, |found| match found {
                None => Some(0),
                Some(Element::Integer(number)) => Some(number),
                Some(Element::Bytes(_)) => None,
            });
            let before = before.ok_or(ReplyError::HashNotAnInteger)?;
            let after = before.checked_add(by).ok_or(ReplyError::Overflow)?;
            edit.set_field(field, Digits::default().format(after));
            edit.mark();
            Ok(after)
        })?;
        let sum = sum.expect("the hash is made if there is none")?;
        self.event(EventClasses::HASH, "hincrby", key);
        self.out.integer(sum);
        Ok(())
    }

    fn hincr_by_float(&mut self, key: &[u8], field: &[u8], by: LongDouble) -> Result<(), ReplyError> {
        let sum: Option<Result<String, ReplyError>> = self.edit(Kind::Hash, key, true, |edit| {
            let after = Fields::of(edit.object.value()).get(field, |found| match found {
                None => Some(by),
                Some(value) => LongDouble::parse(value.text(&mut Digits::default())).map(|sum| sum + by),
            });
            let after = after.ok_or(ReplyError::HashNotAFloat)?;
            if !after.is_finite() {
                return Err(ReplyError::NanOrInfinity);
            }
            let text = after.to_text();
            edit.set_field(field, text.as_bytes());
            edit.mark();
            Ok(text)
        })?;
        let sum = sum.expect("the hash is made if there is none")?;
        self.event(EventClasses::HASH, "hincrbyfloat", key);
        self.out.bulk(sum.as_bytes());
        Ok(())
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn fields(&mut self, command: &HashCommand<'_>) {
        match *command {
            HashCommand::Get { key, field } => self.hget(key, field),
            HashCommand::MGet { key, fields } => self.hmget(key, fields),
            HashCommand::All { key, parts } => self.hash_parts(key, parts),
            HashCommand::Len { key } => self.hlen(key),
            HashCommand::StrLen { key, field } => self.hstr_len(key, field),
            HashCommand::Exists { key, field } => self.hexists(key, field),
            HashCommand::RandField {
                key,
                count: None,
                with_values: _,
            } => self.random_field(key),
            HashCommand::RandField {
                key,
                count: Some(count),
                with_values,
            } => self.random_fields(key, count, with_values),
            HashCommand::Scan { key, cursor, options } => self.hscan(key, cursor, options),
            HashCommand::Set { .. }
            | HashCommand::SetNx { .. }
            | HashCommand::Del { .. }
            | HashCommand::IncrBy { .. }
            | HashCommand::IncrByFloat { .. } => unreachable!("{command:?} is not a read"),
        }
    }

    #[inline]
    fn hget(&mut self, key: &[u8], field: &[u8]) {
        if let Some(object) = self.lookup_or(key, Kind::Hash, |out| out.null()) {
            Fields::of(object.value()).get(field, |value| write_found(self.out, value));
        }
    }

    fn hmget(&mut self, key: &[u8], fields: Args<'_>) {
        let nulls = |out: &mut ReplyWriter<'_>| {
            out.array(fields.len());
            fields.iter().for_each(|_| out.null());
        };
        if let Some(object) = self.lookup_or(key, Kind::Hash, nulls) {
            let hash = Fields::of(object.value());
            self.out.array(fields.len());
            for field in fields.iter() {
                hash.get(field, |value| write_found(self.out, value));
            }
        }
    }

    fn hash_parts(&mut self, key: &[u8], parts: HashParts) {
        let head = |out: &mut ReplyWriter<'_>, len| match parts {
            HashParts::Pairs => out.map(len),
            HashParts::Fields | HashParts::Values => out.array(len),
        };
        let Some(object) = self.lookup_or(key, Kind::Hash, |out| head(out, 0)) else {
            return;
        };
        let hash = Fields::of(object.value());
        head(self.out, hash.len());
        hash.for_each(|field, value| {
            if parts != HashParts::Values {
                field.write(self.out);
            }
            if parts != HashParts::Fields {
                value.write(self.out);
            }
        });
    }

    fn hlen(&mut self, key: &[u8]) {
        if let Some(object) = self.lookup_or(key, Kind::Hash, |out| out.integer(0)) {
            self.out.integer(object.value().len() as i64);
        }
    }

    fn hstr_len(&mut self, key: &[u8], field: &[u8]) {
        if let Some(object) = self.lookup_or(key, Kind::Hash, |out| out.integer(0)) {
            let length = Fields::of(object.value()).get(field, |value| {
                value.map_or(0, |value| value.text(&mut Digits::default()).len())
            });
            self.out.integer(length as i64);
        }
    }

    fn hexists(&mut self, key: &[u8], field: &[u8]) {
        if let Some(object) = self.lookup_or(key, Kind::Hash, |out| out.integer(0)) {
            let is_there = Fields::of(object.value()).get(field, |value| value.is_some());
            self.out.integer(i64::from(is_there));
        }
    }

    fn random_field(&mut self, key: &[u8]) {
        let Some(object) = self.lookup_or(key, Kind::Hash, |out| out.null()) else {
            return;
        };
        let hash = Fields::of(object.value());
        if let Fields::Large(fields) = hash {
            let field = fields.pick(&mut self.local.prng).expect("a hash has fields");
            return self.out.bulk(field.key());
        }
        let rank = self.local.prng.below(hash.len() as u64) as usize;
        hash.pick(std::iter::once(rank), |picked| picked.write(self.out, false));
    }

    fn random_fields(&mut self, key: &[u8], count: i64, with_values: bool) {
        let Some(object) = self.lookup_or(key, Kind::Hash, |out| out.array(0)) else {
            return;
        };
        let hash = Fields::of(object.value());
        let (out, prng) = (&mut *self.out, &mut self.local.prng);
        if count < 0 {
            let count = count.unsigned_abs();
            if are_too_many_picks(&object, count) {
                return ReplyError::OutOfRange.write(out);
            }
            picked_head(out, count as usize, with_values);
            return pick_repeating(hash, count, prng, |picked| picked.write(out, with_values));
        }
        let count = (count.unsigned_abs() as usize).min(hash.len());
        picked_head(out, count, with_values);
        let ranks = sample(prng, hash.len(), count);
        hash.pick(ranks.into_iter(), |picked| picked.write(out, with_values));
    }

    fn hscan(&mut self, key: &[u8], cursor: u64, options: ScanOptions<'_>) {
        let empty = |out: &mut ReplyWriter<'_>| write_scan(out, None, 0, &[]);
        let Some(object) = self.lookup_or(key, Kind::Hash, empty) else {
            return;
        };
        let filter = options.filter();
        let (mut count, mut found) = (0, Vec::new());
        let mut writer = ReplyWriter::new(&mut found, self.out.protocol());
        let mut digits = Digits::default();
        let mut visit = |field: Element<'_>, value: Element<'_>| {
            if filter.matches(field.text(&mut digits)) {
                field.write(&mut writer);
                value.write(&mut writer);
                count += 2;
            }
        };
        let next = match Fields::of(object.value()) {
            // A small hash is told at once, whatever the cursor.
            hash @ Fields::Listpack(_) => {
                hash.for_each(visit);
                None
            }
            Fields::Large(fields) => {
                let Some(from) = Position::new(cursor) else {
                    return ReplyError::InvalidCursor.write(self.out);
                };
                fields.walk(from, options.count, |object| {
                    visit(Element::Bytes(object.key()), value_of(object));
                })
            }
        };
        write_scan(self.out, next, count, &found);
    }
}

#[inline]
fn write_found(out: &mut ReplyWriter<'_>, value: Option<Element<'_>>) {
    match value {
        Some(value) => value.write(out),
        None => out.null(),
    }
}

/// RESP3 has a pair for each field with its value, RESP2 has them by turns.
fn picked_head(out: &mut ReplyWriter<'_>, count: usize, with_values: bool) {
    let is_flat = with_values && out.protocol() == Protocol::Resp2;
    out.array(if is_flat { 2 * count } else { count });
}

/// Draws `count` fields, each of them from all.
///
/// They are drawn in batches, and every batch is found in one walk: a pick costs no walk of its own, and no more than a
/// batch is in memory besides the reply.
fn pick_repeating(hash: Fields<'_>, count: u64, prng: &mut Prng, mut visit: impl FnMut(&Picked<'_>)) {
    let mut left = count;
    let mut drawn: Vec<(usize, usize)> = Vec::new();
    let mut picked = Vec::new();
    // Where what was drawn at each turn stands in `picked`.
    let mut places = Vec::new();
    while left > 0 {
        let size = left.min(BATCH) as usize;
        left -= size as u64;
        drawn.clear();
        drawn.extend((0..size).map(|turn| (prng.below(hash.len() as u64) as usize, turn)));
        drawn.sort_unstable();
        let mut ranks: Vec<usize> = Vec::new();
        places.resize(size, 0);
        for &(rank, turn) in &drawn {
            if ranks.last() != Some(&rank) {
                ranks.push(rank);
            }
            places[turn] = ranks.len() - 1;
        }
        picked.clear();
        hash.pick(ranks.into_iter(), |field| picked.push(field));
        places.iter().for_each(|&place| visit(&picked[place]));
    }
}
