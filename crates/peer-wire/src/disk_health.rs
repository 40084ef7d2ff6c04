//! How a node's disk is, told to the others when it changes and now and then.
//!
//! ```text
//!  flags     1: there is no room for another segment of a log; 2: it is too slow to lead  u8
//!  sync p99  microseconds, the largest number for more; 0 where nothing is known          u32
//! ```

use codec::{DecodeError, Reader, Writer};
use std::time::Duration;

/// Bytes of the body.
pub(crate) const WEIGHT: usize = 5;

const SHORT: u8 = 1;
const SLOW: u8 = 2;

/// How a node's disk is, as it says itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskHealth {
    /// Whether a segment of a log could not be made: what there is is all that there will be until somebody makes room.
    pub is_short: bool,
    /// Whether syncs take too long for a leader.
    pub is_slow: bool,
    /// What 99 of 100 syncs take at most, in whole microseconds; `None` where too few were seen.
    pub sync_p99: Option<Duration>,
}

impl DiskHealth {
    /// Whether nothing speaks against leading groups.
    pub fn may_lead(self) -> bool {
        !self.is_short && !self.is_slow
    }

    pub(crate) fn encode(self, out: &mut impl Writer) {
        let flag = |is_set: bool, bit| if is_set { bit } else { 0 };
        out.u8(flag(self.is_short, SHORT) | flag(self.is_slow, SLOW));
        let micros = self.sync_p99.map_or(0, |p99| p99.as_micros().max(1));
        out.u32(u32::try_from(micros).unwrap_or(u32::MAX));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<DiskHealth, DecodeError> {
        let flags = reader.u8()?;
        if flags > SHORT | SLOW {
            return Err(reader.error("flags of a disk that this version knows"));
        }
        let micros = reader.u32()?;
        Ok(DiskHealth {
            is_short: flags & SHORT != 0,
            is_slow: flags & SLOW != 0,
            sync_p99: (micros > 0).then(|| Duration::from_micros(micros.into())),
        })
    }
}
