//! A batch: what the log gathered in one turn.
//!
//! ```text
//!  count u32 | rows of the table | records, to the end
//! ```

use super::record::Record;
use super::table::{self, Row};
use codec::{DecodeError, Reader};

/// A batch, as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<Row>,
    pub(crate) records: Vec<Record>,
}

impl Batch {
    pub(crate) fn read(bytes: &[u8]) -> Result<Batch, DecodeError> {
        let mut reader = Reader::new(bytes);
        let rows = table::read(&mut reader)?;
        let mut records = Vec::new();
        while !reader.is_empty() {
            records.push(Record::read(&mut reader)?);
        }
        Ok(Batch { rows, records })
    }
}

/// Reads the bytes of a batch, and writes it again: of a batch the same bytes come back.
///
/// # Errors
/// The bytes are none.
pub fn rewrite_batch(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let batch = Batch::read(bytes)?;
    let mut out = Vec::new();
    table::write(&mut out, &batch.rows);
    batch.records.iter().for_each(|record| record.write(&mut out));
    Ok(out)
}
