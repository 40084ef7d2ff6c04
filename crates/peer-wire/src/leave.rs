//! Notice that a link, or a membership, ends.
//!
//! ```text
//!  leave  reason u8: 1 stopping, 2 removed
//! ```

use codec::{DecodeError, Reader, Writer};

/// The last message of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// The sender's process ends: nobody need wait for silence to notice.
    Stopping,
    /// The receiver is no member any more.
    Removed,
}

impl Leave {
    pub(crate) fn encode(self, out: &mut impl Writer) {
        out.u8(match self {
            Leave::Stopping => 1,
            Leave::Removed => 2,
        });
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Leave, DecodeError> {
        match reader.u8()? {
            1 => Ok(Leave::Stopping),
            2 => Ok(Leave::Removed),
            _ => Err(reader.unknown("a reason to leave that this version knows")),
        }
    }
}
