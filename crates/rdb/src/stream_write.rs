//! A stream as a payload, from entries and groups that come one after the other. How it looks stands at [`crate::stream`].

use crate::EntryId;
use crate::length::{write_length, write_long_length, write_string};
use crate::listpack::ListpackWriter;
use crate::payload::close;
use crate::stream::{ENTRY_ELEMENTS, READ_UNKNOWN, SAME_FIELDS};
use crate::value::STREAM_7_0;

/// The version that payloads of streams have: that of Redis 7.0. What 5.0 would read as well does not say how many entries were
/// ever added, which was the greatest ID that was deleted, and how far groups have read.
const VERSION: u16 = 10;

/// A listpack takes no further entry that it would come to more bytes with, as in Redis by default.
const PART_BYTES_MAX: usize = 4096;

/// Nor one beyond these.
const PART_ENTRIES_MAX: u8 = 100;

/// Where the number of listpacks stands: behind the type, nine bytes, since it is known when they are written.
const PARTS_AT: usize = 1;

/// What a stream has beside its entries and groups. Fields as in [`StreamValue`](crate::StreamValue).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamNumbers {
    /// The greatest ID that it ever had.
    pub last_id: EntryId,
    /// That of its first entry, or 0-0.
    pub first_id: EntryId,
    /// The greatest ID that was deleted, or 0-0.
    pub max_deleted_id: EntryId,
    /// How many entries it ever had.
    pub entries_added: u64,
}

/// A payload of a stream, of which entries are being written.
pub struct StreamWriter {
    out: Vec<u8>,
    /// The listpack that entries go to now.
    part: ListpackWriter,
    /// The ID that those in it are counted from.
    part_id: EntryId,
    /// The fields of its first entry.
    part_fields: Vec<Vec<u8>>,
    /// How many entries it has.
    part_entries: u8,
    /// How many listpacks were written.
    parts: u64,
    /// How many entries came.
    entries: u64,
}

impl Default for StreamWriter {
    fn default() -> StreamWriter {
        StreamWriter::new()
    }
}

impl StreamWriter {
    /// Of a stream without entries so far.
    pub fn new() -> StreamWriter {
        let mut out = vec![STREAM_7_0];
        write_long_length(&mut out, 0);
        StreamWriter {
            out,
            part: ListpackWriter::new(),
            part_id: (0, 0),
            part_fields: Vec::new(),
            part_entries: 0,
            parts: 0,
            entries: 0,
        }
    }

    /// The next entry, of a greater ID than those before, with its fields and values.
    ///
    /// # Panics
    /// If these come to 4 GiB or more: listpacks have no place for that.
    pub fn entry<'a>(&mut self, id: EntryId, fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) {
        let bytes: usize = fields
            .clone()
            .map(|(field, value)| field.len() + value.len())
            .sum();
        let is_full = self.part_entries >= PART_ENTRIES_MAX || self.part.len() + bytes >= PART_BYTES_MAX;
        if is_full && !self.part.is_empty() {
            self.end_part();
        }
        if self.part.is_empty() {
            self.begin_part(id, fields.clone());
        }
        let names = self.part_fields.iter().map(Vec::as_slice);
        let has_same_fields = fields.clone().map(|(field, _)| field).eq(names);
        self.part.number(if has_same_fields { SAME_FIELDS } else { 0 });
        self.part.number(id.0.wrapping_sub(self.part_id.0) as i64);
        self.part.number(id.1.wrapping_sub(self.part_id.1) as i64);
        if has_same_fields {
            for (_, value) in fields {
                self.part.element(value);
            }
            self.part.number(self.part_fields.len() as i64 + ENTRY_ELEMENTS);
        } else {
            let count = fields.clone().count() as i64;
            self.part.number(count);
            for (field, value) in fields {
                self.part.element(field);
                self.part.element(value);
            }
            self.part.number(2 * count + 1 + ENTRY_ELEMENTS);
        }
        self.part_entries += 1;
        self.entries += 1;
    }

    fn begin_part<'a>(&mut self, id: EntryId, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        self.part_id = id;
        self.part_entries = 0;
        self.part_fields.clear();
        self.part_fields.extend(fields.map(|(field, _)| field.to_vec()));
        // How many entries come is not known, but it takes one byte in any case.
        self.part.number(0);
        self.part.number(0);
        self.part.number(self.part_fields.len() as i64);
        for field in &self.part_fields {
            self.part.element(field);
        }
        self.part.number(0);
    }

    fn end_part(&mut self) {
        write_length(&mut self.out, 16);
        write_packed_id(&mut self.out, self.part_id);
        self.part.set_first_number(self.part_entries);
        let bytes = self.part.finish();
        write_length(&mut self.out, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.part.clear();
        self.parts += 1;
    }

    /// Bytes so far, without those of some of the last entries.
    pub fn bytes_written(&self) -> usize {
        self.out.len()
    }

    /// No more entries come, but so many groups.
    pub fn groups(mut self, numbers: StreamNumbers, groups: usize) -> GroupWriter {
        if !self.part.is_empty() {
            self.end_part();
        }
        let mut out = self.out;
        let mut parts = Vec::new();
        write_long_length(&mut parts, self.parts);
        out[PARTS_AT..PARTS_AT + parts.len()].copy_from_slice(&parts);
        write_length(&mut out, self.entries);
        write_id(&mut out, numbers.last_id);
        write_id(&mut out, numbers.first_id);
        write_id(&mut out, numbers.max_deleted_id);
        write_length(&mut out, numbers.entries_added);
        write_length(&mut out, groups as u64);
        GroupWriter {
            out,
            groups,
            consumers: 0,
        }
    }
}

/// A payload of a stream, of which groups are being written: as many as were announced, each with as many consumers as it
/// announced.
#[derive(Debug)]
pub struct GroupWriter {
    out: Vec<u8>,
    /// Groups that were announced and did not come.
    groups: usize,
    /// Consumers of the last group that were announced and did not come.
    consumers: usize,
}

impl GroupWriter {
    /// The next group: its name, the last ID that was delivered, how many entries were if that is known, what was not
    /// acknowledged (the ID, when it was delivered last in Unix milliseconds, and how many times it was), and how many consumers
    /// follow.
    ///
    /// # Panics
    /// If it is one more than were announced, or consumers of the one before are missing.
    pub fn group(
        &mut self,
        name: &[u8],
        last_id: EntryId,
        entries_read: Option<u64>,
        pending: impl ExactSizeIterator<Item = (EntryId, u64, u64)>,
        consumers: usize,
    ) {
        assert!(
            self.consumers == 0,
            "no fewer consumers are given than were announced"
        );
        self.groups = self
            .groups
            .checked_sub(1)
            .expect("no more groups are given than were announced");
        self.consumers = consumers;
        let out = &mut self.out;
        write_string(out, name);
        write_id(out, last_id);
        write_length(out, entries_read.unwrap_or(READ_UNKNOWN));
        write_length(out, pending.len() as u64);
        for (id, delivered_at_ms, delivered) in pending {
            write_packed_id(out, id);
            out.extend_from_slice(&delivered_at_ms.to_le_bytes());
            write_length(out, delivered);
        }
        write_length(out, consumers as u64);
    }

    /// The next consumer of the last group: its name, when it was seen in Unix milliseconds, and which of the group's pending
    /// entries it has. When it was active is not written: Redis 7.0 does not know that.
    ///
    /// # Panics
    /// If it is one more than were announced.
    pub fn consumer(
        &mut self,
        name: &[u8],
        seen_at_ms: u64,
        pending: impl ExactSizeIterator<Item = EntryId>,
    ) {
        let left = self.consumers.checked_sub(1);
        self.consumers = left.expect("no more consumers are given than were announced");
        let out = &mut self.out;
        write_string(out, name);
        out.extend_from_slice(&seen_at_ms.to_le_bytes());
        write_length(out, pending.len() as u64);
        for id in pending {
            write_packed_id(out, id);
        }
    }

    /// The payload.
    ///
    /// # Panics
    /// If groups or consumers are missing.
    pub fn finish(mut self) -> Vec<u8> {
        assert!(
            self.groups == 0 && self.consumers == 0,
            "no fewer groups and consumers are given than were announced"
        );
        close(&mut self.out, VERSION);
        self.out
    }
}

fn write_id(to: &mut Vec<u8>, id: EntryId) {
    write_length(to, id.0);
    write_length(to, id.1);
}

fn write_packed_id(to: &mut Vec<u8>, id: EntryId) {
    to.extend_from_slice(&id.0.to_be_bytes());
    to.extend_from_slice(&id.1.to_be_bytes());
}
