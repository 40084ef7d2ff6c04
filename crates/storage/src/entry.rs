//! An entry of a log, as a field of a frame.
//!
//! ```text
//!  entry  term u64 | index u64 | tag u8: 0 data, 1 members | length u64 | bytes
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use consensus::{Index, LogEntry, Payload, Term};

pub(crate) fn write(out: &mut Vec<u8>, entry: &LogEntry) {
    out.u64s(&[entry.term.0, entry.index.0]);
    let (tag, bytes) = match &entry.payload {
        Payload::Data(bytes) => (0, &bytes[..]),
        Payload::Members(bytes) => (1, &bytes[..]),
    };
    out.u8(tag);
    out.long_bytes(bytes);
}

pub(crate) fn read(reader: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
    let (term, index) = (Term(reader.u64()?), Index(reader.u64()?));
    let payload = match reader.u8()? {
        0 => Payload::Data(Bytes::copy_from_slice(reader.long_bytes()?)),
        1 => Payload::Members(reader.long_bytes()?.to_vec()),
        _ => return Err(reader.unknown("data or members")),
    };
    Ok(LogEntry { term, index, payload })
}
