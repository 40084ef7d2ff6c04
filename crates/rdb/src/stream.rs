//! A stream: its entries in listpacks, then its numbers, then its groups.
//!
//! ```text
//!   stream     length | (ID as a string of 16 bytes | a string with a listpack)* | entries length | last ID
//!              from 7.0 on: first ID | greatest deleted ID | entries added length
//!              groups length | group*
//!   group      name string | last ID | from 7.0 on: entries read length, which is all ones if unknown
//!              pending length | (ID in 16 bytes | delivered at u64 | times delivered length)*
//!              consumers length | consumer*
//!   consumer   name string | seen at u64 | from 7.2 on: active at u64, which is all ones if never
//!              pending length | (ID in 16 bytes)*
//!   ID         milliseconds length | sequence length;       in 16 bytes: u64 u64, the high byte first
//!   times      Unix milliseconds, the low byte first
//!
//!   listpack   entries | deleted entries | fields | field* | 0 | entry*            IDs: less that of the listpack
//!   entry      flags | milliseconds | sequence | fields | (field value)* | elements of this entry
//!              flags | milliseconds | sequence | value*                  | elements of this entry     flag 2: the fields above
//!              flag 1: it is deleted
//! ```

use crate::ValueError;
use crate::error::expected;
use crate::input::{Budget, Input};
use crate::length::{read_count, read_length, read_string};
use crate::listpack::Listpack;
use crate::packed::{Element, check_unique};

/// The flags of an entry.
pub(crate) const DELETED: i64 = 1;
pub(crate) const SAME_FIELDS: i64 = 2;

/// Elements of an entry beside its fields, their number and its values, as they count for the last of them.
pub(crate) const ENTRY_ELEMENTS: i64 = 3;

/// The number of entries that a group has read, if it is not known.
pub(crate) const READ_UNKNOWN: u64 = u64::MAX;

/// The entries of a listpack come to no more than so many bytes, and to so many times its own: a server ends one at some kilobytes, or a
/// hundred entries.
const PART_MIN: usize = 1 << 20;
const PART_FACTOR: usize = 128;

/// A time that never was.
const NEVER: i64 = -1;

/// Bytes of an entry in a group's list, and of one in a consumer's, at least.
const PENDING_BYTES: usize = 25;
const CONSUMER_PENDING_BYTES: usize = 16;

/// The ID of an entry: Unix milliseconds, and the number among those of this time.
pub type EntryId = (u64, u64);

/// A stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamValue {
    /// Its entries, by ID; those that were deleted are not here.
    pub entries: Vec<StreamEntry>,
    /// The greatest ID that it ever had: no less than that of any entry.
    pub last_id: EntryId,
    /// That of its first entry, as the stream says; 0-0 if it has none and says nothing.
    pub first_id: EntryId,
    /// The greatest ID that was deleted; 0-0 if none was.
    pub max_deleted_id: EntryId,
    /// How many entries it ever had.
    pub entries_added: u64,
    /// Its groups, each with another name.
    pub groups: Vec<StreamGroup>,
}

/// An entry of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamEntry {
    /// Its ID, which is greater than 0-0.
    pub id: EntryId,
    /// Fields and values. A field may be there more than once.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A group of consumers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamGroup {
    /// Its name.
    pub name: Vec<u8>,
    /// The last ID that was delivered to it.
    pub last_id: EntryId,
    /// How many entries were, if that is known. It may be anything that fits into an `i64`.
    pub entries_read: Option<u64>,
    /// What was delivered and not acknowledged, by ID. The entries may be deleted.
    pub pending: Vec<Pending>,
    /// Its consumers, each with another name.
    pub consumers: Vec<Consumer>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Its ID.
    pub id: EntryId,
    /// When it was delivered last, in Unix milliseconds.
    pub delivered_at_ms: u64,
    /// How many times it was.
    pub delivered: u64,
    /// To whom, as a place in [`StreamGroup::consumers`].
    pub consumer: usize,
}

/// A consumer of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it last asked for anything, in Unix milliseconds.
    pub seen_at_ms: u64,
    /// When it last got anything, in Unix milliseconds, if it ever did. Where the payload does not say, since it is from before
    /// Redis 7.2, it is when it was seen, as Redis has it.
    pub active_at_ms: Option<u64>,
}

/// Which versions of Redis write it so.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Form {
    V5_0,
    V7_0,
    V7_2,
}

pub(crate) fn read(
    input: &mut Input<'_>,
    budget: &mut Budget,
    form: Form,
) -> Result<StreamValue, ValueError> {
    let mut entries = Vec::new();
    let mut before = (0, 0);
    for _ in 0..read_count(input, 2)? {
        let id = read_string(input, budget)?;
        let id = &mut Input::new(&id);
        let id = read_packed_id(id).and_then(|packed| id.end().map(|()| packed))?;
        let bytes = read_string(input, budget)?;
        let mut part = Part {
            listpack: Listpack::open(&bytes)?,
            id,
            fields: Vec::new(),
        };
        // Each entry may repeat the names of all fields.
        let most = budget.left().min(PART_MIN + PART_FACTOR * bytes.len());
        let mut own = Budget::new(most);
        part.read(&mut before, &mut entries, &mut own)?;
        budget.charge(most - own.left())?;
    }
    let count = read_length(input)?;
    if count != entries.len() as u64 {
        return Err(expected("a stream of as many entries as it says"));
    }
    let last_id = read_id(input)?;
    if last_id < before {
        return Err(expected("a last ID that is that of the last entry or greater"));
    }
    let mut stream = StreamValue {
        first_id: entries.first().map_or((0, 0), |entry| entry.id),
        entries,
        last_id,
        max_deleted_id: (0, 0),
        entries_added: count,
        groups: Vec::new(),
    };
    if form >= Form::V7_0 {
        stream.first_id = read_id(input)?;
        stream.max_deleted_id = read_id(input)?;
        stream.entries_added = read_length(input)?;
    }
    for _ in 0..read_count(input, 5)? {
        let group = read_group(input, budget, form, &stream)?;
        stream.groups.push(group);
    }
    check_unique(stream.groups.iter().map(|group| group.name.as_slice()))?;
    Ok(stream)
}

/// A listpack with some of the entries.
struct Part<'a> {
    listpack: Listpack<'a>,
    /// What the IDs in it are counted from.
    id: EntryId,
    /// The fields of the entry that it began with.
    fields: Vec<Element<'a>>,
}

impl Part<'_> {
    /// Puts its entries behind those that are there. `before` is the last ID. Those of deleted ones are not looked at: behind a
    /// deleted last entry `XSETID` sets the last ID back.
    fn read(
        &mut self,
        before: &mut EntryId,
        entries: &mut Vec<StreamEntry>,
        budget: &mut Budget,
    ) -> Result<(), ValueError> {
        let (live, deleted) = (self.number()?, self.number()?);
        for _ in 0..self.number()? {
            let field = self.element()?;
            self.fields.push(field);
        }
        if self.number()? != 0 {
            return Err(expected("the end of the fields of a listpack's first entry"));
        }
        let (mut live_read, mut deleted_read) = (0, 0);
        while let Some(flags) = self.listpack.next() {
            let flags = as_number(flags?)?;
            let id = self.entry_id()?;
            if flags & DELETED == 0 {
                if id <= *before {
                    return Err(expected("a stream in ascending order"));
                }
                *before = id;
                budget.charge(size_of::<StreamEntry>())?;
                let mut fields = Vec::new();
                self.entry(flags, |field, value| {
                    fields.push((budget.element(field.bytes())?, budget.element(value.bytes())?));
                    Ok(())
                })?;
                entries.push(StreamEntry { id, fields });
                live_read += 1;
            } else {
                self.entry(flags, |_, _| Ok(()))?;
                deleted_read += 1;
            }
        }
        if (live, deleted) != (live_read, deleted_read) {
            return Err(expected("a listpack of as many entries as it says"));
        }
        Ok(())
    }

    /// The ID of an entry. Its parts are what each is more than that of the listpack, if need be round the end.
    fn entry_id(&mut self) -> Result<EntryId, ValueError> {
        let (ms, seq) = (self.number()?, self.number()?);
        Ok((
            self.id.0.wrapping_add_signed(ms),
            self.id.1.wrapping_add_signed(seq),
        ))
    }

    /// The fields and values of an entry, and that it has as many elements as it says.
    fn entry(
        &mut self,
        flags: i64,
        mut each: impl FnMut(Element<'_>, Element<'_>) -> Result<(), ValueError>,
    ) -> Result<(), ValueError> {
        let elements = if flags & SAME_FIELDS == 0 {
            let count = self.number()?;
            for _ in 0..count {
                each(self.element()?, self.element()?)?;
            }
            count.checked_mul(2).and_then(|count| count.checked_add(1))
        } else {
            for at in 0..self.fields.len() {
                let value = self.element()?;
                each(self.fields[at], value)?;
            }
            Some(self.fields.len() as i64)
        };
        let elements = elements.and_then(|elements| elements.checked_add(ENTRY_ELEMENTS));
        if elements != Some(self.number()?) {
            return Err(expected("an entry of as many elements as it says"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<i64, ValueError> {
        as_number(self.element()?)
    }
}

impl<'a> Part<'a> {
    fn element(&mut self) -> Result<Element<'a>, ValueError> {
        let element = self.listpack.next();
        element.ok_or(expected("another element of an entry"))?
    }
}

fn as_number(element: Element<'_>) -> Result<i64, ValueError> {
    match element {
        Element::Number(number) => Ok(number),
        Element::Bytes(_) => Err(expected("a number of an entry")),
    }
}

fn read_group(
    input: &mut Input<'_>,
    budget: &mut Budget,
    form: Form,
    stream: &StreamValue,
) -> Result<StreamGroup, ValueError> {
    let name = read_string(input, budget)?;
    let name = budget.element(name)?;
    let last_id = read_id(input)?;
    let entries_read = if form >= Form::V7_0 {
        match read_length(input)? {
            READ_UNKNOWN => None,
            read if i64::try_from(read).is_ok() => Some(read),
            _ => return Err(expected("the number of entries that a group has read")),
        }
    } else {
        estimated_read(stream, last_id)
    };
    let mut pending = Vec::new();
    for _ in 0..read_count(input, PENDING_BYTES)? {
        pending.push(Pending {
            id: read_packed_id(input)?,
            delivered_at_ms: read_time(input)?,
            delivered: read_length(input)?,
            consumer: NOBODY,
        });
    }
    pending.sort_unstable_by_key(|pending| pending.id);
    if pending.windows(2).any(|pair| pair[0].id == pair[1].id) {
        return Err(expected("no pending entry twice"));
    }
    let mut consumers = Vec::new();
    for place in 0..read_count(input, 10)? {
        consumers.push(read_consumer(input, budget, form, place, &mut pending)?);
    }
    check_unique(consumers.iter().map(|consumer| consumer.name.as_slice()))?;
    if pending.iter().any(|pending| pending.consumer == NOBODY) {
        return Err(expected("a consumer for each pending entry"));
    }
    Ok(StreamGroup {
        name,
        last_id,
        entries_read,
        pending,
        consumers,
    })
}

/// The place of no consumer: there are fewer than bytes.
const NOBODY: usize = usize::MAX;

/// A consumer, to whom its pending entries are given.
fn read_consumer(
    input: &mut Input<'_>,
    budget: &mut Budget,
    form: Form,
    place: usize,
    pending: &mut [Pending],
) -> Result<Consumer, ValueError> {
    let name = read_string(input, budget)?;
    let name = budget.element(name)?;
    let seen_at_ms = read_time(input)?;
    let active_at_ms = if form >= Form::V7_2 {
        match input.signed(8)? {
            NEVER => None,
            time => Some(checked_time(time)?),
        }
    } else {
        Some(seen_at_ms)
    };
    for _ in 0..read_count(input, CONSUMER_PENDING_BYTES)? {
        let id = read_packed_id(input)?;
        let at = pending.binary_search_by_key(&id, |pending| pending.id);
        let entry = at.ok().and_then(|at| pending.get_mut(at));
        let entry = entry.filter(|entry| entry.consumer == NOBODY);
        entry
            .ok_or(expected("a pending entry of the group that nobody else has"))?
            .consumer = place;
    }
    Ok(Consumer {
        name,
        seen_at_ms,
        active_at_ms,
    })
}

/// How many entries a group has read that has come as far as this ID, in a stream from before this was counted. Redis believes
/// that such a stream never lost an entry.
fn estimated_read(stream: &StreamValue, id: EntryId) -> Option<u64> {
    let length = stream.entries.len() as u64;
    if length == 0 {
        return Some(0);
    }
    if id == stream.last_id {
        Some(length)
    } else if id < stream.first_id {
        Some(0)
    } else if id == stream.first_id {
        Some(1)
    } else {
        None
    }
}

fn read_id(input: &mut Input<'_>) -> Result<EntryId, ValueError> {
    Ok((read_length(input)?, read_length(input)?))
}

/// An ID in 16 bytes.
fn read_packed_id(input: &mut Input<'_>) -> Result<EntryId, ValueError> {
    let (ms, seq) = (input.array()?, input.array()?);
    Ok((u64::from_be_bytes(ms), u64::from_be_bytes(seq)))
}

fn read_time(input: &mut Input<'_>) -> Result<u64, ValueError> {
    checked_time(input.signed(8)?)
}

fn checked_time(time: i64) -> Result<u64, ValueError> {
    u64::try_from(time).map_err(|_| expected("a time"))
}
