//! What a node's wall clock shows, told to the others now and then.
//!
//! ```text
//!  wall clock  milliseconds since the epoch i64
//! ```

use codec::{DecodeError, Reader, Writer};
use ids::UnixMillis;

/// Bytes of the body.
pub(crate) const WEIGHT: usize = 8;

pub(crate) fn encode(wall: UnixMillis, out: &mut impl Writer) {
    out.i64(wall.0);
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<UnixMillis, DecodeError> {
    reader.i64().map(UnixMillis)
}
