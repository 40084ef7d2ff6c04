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

fn parts(payload: &Payload) -> (u8, &[u8]) {
    match payload {
        Payload::Data(bytes) => (DATA, bytes),
        Payload::Members(bytes) => (MEMBERS, bytes),
    }
}

pub(crate) fn write(out: &mut Vec<u8>, entry: &LogEntry) {
    let (tag, bytes) = parts(&entry.payload);
    out.u64s(&[entry.term.0, entry.index.0]);
    out.u8(tag);
    out.long_bytes(bytes);
}

pub(crate) fn write_short(out: &mut Vec<u8>, entry: &LogEntry) {
    let (tag, bytes) = parts(&entry.payload);
    out.varint(entry.term.0);
    out.varint(entry.index.0);
    out.u8(tag);
    out.varint(bytes.len() as u64);
    out.raw(bytes);
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
