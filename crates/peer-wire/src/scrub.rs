//! What a replica says of its state to the others of its group.
//!
//! ```text
//!  scrub   group u16 | generation u64 | from u64 | to u64 | format u8 | index u64 | hash u64
//! ```

use codec::{DecodeError, Reader, Writer};
use consensus::{Index, Scrubbed};
use ids::{GroupId, Incarnation};

/// Bytes of the body.
pub(crate) const WEIGHT: usize = 43;

/// One hash of a slice of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubHash {
    /// The group.
    pub group: GroupId,
    /// How many times it had begun anew.
    pub generation: u64,
    /// Who says it.
    pub from: Incarnation,
    /// To whom. One with another incarnation must not take it.
    pub to: Incarnation,
    /// What was hashed, and how (`SCRUB_FORMAT` of `keyspace`): hashes of two formats say nothing of each other.
    pub format: u8,
    /// The entry, and the hash of the state behind it.
    pub scrubbed: Scrubbed,
}

impl ScrubHash {
    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u16(self.group.number());
        out.u64s(&[self.generation, self.from.0, self.to.0]);
        out.u8(self.format);
        out.u64s(&[self.scrubbed.at.0, self.scrubbed.hash]);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ScrubHash, DecodeError> {
        Ok(ScrubHash {
            group: GroupId::new(reader.u16()?),
            generation: reader.u64()?,
            from: Incarnation(reader.u64()?),
            to: Incarnation(reader.u64()?),
            format: reader.u8()?,
            scrubbed: Scrubbed {
                at: Index(reader.u64()?),
                hash: reader.u64()?,
            },
        })
    }
}
