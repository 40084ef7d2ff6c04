//! The cluster's map, as one node hands it to another.
//!
//! ```text
//!  map  epoch u64 | bytes to the end of the message
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use ids::Epoch;

/// A map that was committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// Its version: one that is not newer than what the receiver has is no news, and need not be decoded.
    pub epoch: Epoch,
    /// In the format of `control`.
    pub bytes: Bytes,
}

impl Map {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        8 + self.bytes.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u64(self.epoch.0);
        out.raw(&self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Map, DecodeError> {
        Ok(Map {
            epoch: Epoch(reader.u64()?),
            bytes: reader.shared_remainder(),
        })
    }
}
