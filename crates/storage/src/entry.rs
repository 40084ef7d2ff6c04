//! An entry of a log, as a field of a frame.
//!
//! ```text
//!  entry  term u64 | index u64 | tag u8: 0 data, 1 members | length u64 | bytes
//!  short  the same, with varints in place of numbers of 64 bits
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use consensus::{Index, LogEntry, Payload, Term};

const DATA: u8 = 0;
const MEMBERS: u8 = 1;

fn tag_and_length(payload: &Payload) -> (u8, u64) {
    let (tag, length) = match payload {
        Payload::Data(bytes) => (DATA, bytes.len()),
        Payload::Members(bytes) => (MEMBERS, bytes.len()),
    };
    (tag, length as u64)
}

fn write_payload(out: &mut impl Writer, payload: &Payload) {
    match payload {
        Payload::Data(bytes) => out.shared(bytes),
        Payload::Members(bytes) => out.raw(bytes),
    }
}

pub(crate) fn write(out: &mut impl Writer, entry: &LogEntry) {
    let (tag, length) = tag_and_length(&entry.payload);
    out.u64s(&[entry.term.0, entry.index.0]);
    out.u8(tag);
    out.u64(length);
    write_payload(out, &entry.payload);
}

pub(crate) fn write_short(out: &mut impl Writer, entry: &LogEntry) {
    let (tag, length) = tag_and_length(&entry.payload);
    out.varint(entry.term.0);
    out.varint(entry.index.0);
    out.u8(tag);
    out.varint(length);
    write_payload(out, &entry.payload);
}

pub(crate) fn read(reader: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
    let (term, index) = (Term(reader.u64()?), Index(reader.u64()?));
    let tag = read_tag(reader)?;
    let bytes = reader.long_bytes()?;
    Ok(entry(term, index, tag, bytes))
}

pub(crate) fn read_short(reader: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
    let (term, index) = (Term(reader.varint()?), Index(reader.varint()?));
    let tag = read_tag(reader)?;
    let length = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    Ok(entry(term, index, tag, reader.take(length)?))
}

fn read_tag(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
    let tag = reader.u8()?;
    match tag {
        DATA | MEMBERS => Ok(tag),
        _ => Err(reader.unknown("data or members")),
    }
}

fn entry(term: Term, index: Index, tag: u8, bytes: &[u8]) -> LogEntry {
    let payload = match tag {
        MEMBERS => Payload::Members(bytes.to_vec()),
        _ => Payload::Data(Bytes::copy_from_slice(bytes)),
    };
    LogEntry { term, index, payload }
}
