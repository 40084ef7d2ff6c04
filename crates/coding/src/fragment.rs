//! A fragment: one row of a value, with what says whose row it is.
//!
//! ```text
//!  place     u8: the number of replicas that the code is for in the upper four bits, the row in the lower four
//!  epoch     varint, the code epoch
//!  version   varint, of the value
//!  length    varint, bytes of the whole
//!  checksum  u32, CRC32C of the whole
//!  bytes     the row, to the end
//! ```
//!
//! It is kept in memory as it is sent. Beside the row these are at most 14 bytes where the epoch is below 128, the version below 2^42 and
//! the value shorter than 2 MiB. Of 256 bytes, at version 10^10, each of three replicas keeps 141: 0.55 of them; of 1 KiB 0.51. From 26
//! bytes on a fragment is shorter than the value, so the threshold is not a matter of these bytes.

use crate::code::{Code, Row, WHOLE_BYTES_MAX};
use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use ids::Version;

/// Version of how a group cuts its values. It grows when the group gets another code, and rows of two of them never make up a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CodeEpoch(pub u32);

/// Whose row a fragment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentHead {
    /// How the value was cut.
    pub code: Code,
    /// Which part of it this is.
    pub row: Row,
    /// Since when the group cuts like that.
    pub epoch: CodeEpoch,
    /// Which value of the key.
    pub version: Version,
    /// Bytes of the whole.
    pub length: usize,
    /// CRC32C of the whole.
    pub checksum: u32,
}

/// One row of a value. What holds its bytes is the caller's choice: a slice of what was received, shared [`Bytes`], a `Vec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<B> {
    /// Whose row this is.
    pub head: FragmentHead,
    /// The row.
    pub bytes: B,
}

impl FragmentHead {
    /// Bytes of this row.
    pub fn row_bytes(&self) -> usize {
        self.code.row_bytes(self.row, self.length)
    }

    fn write(&self, out: &mut impl Writer) {
        let replicas = (self.code.data() + self.code.parity()) as u8;
        out.u8(replicas << 4 | self.row.number());
        out.varint(self.epoch.0.into());
        out.varint(self.version.0);
        out.varint(self.length as u64);
        out.u32(self.checksum);
    }

    fn read(reader: &mut Reader<'_>) -> Result<FragmentHead, DecodeError> {
        let place = reader.u8()?;
        let code = Code::of_replicas((place >> 4).into());
        let row = code.and_then(|code| code.row(place & 0xf));
        let (Some(code), Some(row)) = (code, row) else {
            return Err(reader.unknown("a number of replicas, and one of their rows"));
        };
        let invalid = reader.error("a code epoch");
        let epoch = u32::try_from(reader.varint()?).map_err(|_| invalid)?;
        let version = reader.varint()?;
        let invalid = reader.error("a length of at most 512 MiB");
        let length = usize::try_from(reader.varint()?).map_err(|_| invalid)?;
        if length > WHOLE_BYTES_MAX {
            return Err(invalid);
        }
        Ok(FragmentHead {
            code,
            row,
            epoch: CodeEpoch(epoch),
            version: Version(version),
            length,
            checksum: reader.u32()?,
        })
    }

    /// That of the fragment that begins with these bytes, of which more may follow; `None` if none does.
    pub fn of_beginning(bytes: &[u8]) -> Option<FragmentHead> {
        FragmentHead::read(&mut Reader::new(bytes)).ok()
    }

    /// Writes the fragment with this head: the row is made where it goes.
    ///
    /// # Panics
    /// If `whole` has another length.
    pub fn write_fragment(&self, whole: &[u8], out: &mut Vec<u8>) {
        assert_eq!(whole.len(), self.length, "a head is that of its value");
        self.write(out);
        let from = out.len();
        out.resize(from + self.row_bytes(), 0);
        self.code.encode(self.row, whole, &mut out[from..]);
    }
}

impl<B: AsRef<[u8]>> Fragment<B> {
    /// Writes it.
    pub fn write(&self, out: &mut impl Writer) {
        self.head.write(out);
        out.raw(self.bytes.as_ref());
    }
}

impl<'a> Fragment<&'a [u8]> {
    /// That of which `bytes` are all.
    ///
    /// # Errors
    /// They are none. That they are one does not say that its bytes are right: only the whole has a checksum.
    pub fn read(bytes: &'a [u8]) -> Result<Fragment<&'a [u8]>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let head = FragmentHead::read(&mut reader)?;
        let bytes = reader.take(head.row_bytes())?;
        reader.end()?;
        Ok(Fragment { head, bytes })
    }
}

impl Fragment<Bytes> {
    /// The same, which keeps what it was read from.
    ///
    /// # Errors
    /// As of [`Fragment::read`].
    pub fn read_shared(bytes: &Bytes) -> Result<Fragment<Bytes>, DecodeError> {
        let Fragment { head, bytes: row } = Fragment::read(bytes)?;
        Ok(Fragment {
            head,
            bytes: bytes.slice_ref(row),
        })
    }
}
