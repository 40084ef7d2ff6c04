//! What replicas of one group say to each other.
//!
//! ```text
//!  raft  group u16 | message, as `consensus/wire.rs` has it
//! ```

use codec::{DecodeError, Reader, Writer};
use consensus::RaftMessage;
use ids::GroupId;

/// One message of the Raft protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raft {
    /// The group. Whether there is one of that number is for the receiver to say.
    pub group: GroupId,
    /// What one replica says to another.
    pub message: RaftMessage,
}

impl Raft {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        2 + self.message.weight()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u16(self.group.number());
        self.message.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Raft, DecodeError> {
        Ok(Raft {
            group: GroupId::new(reader.u16()?),
            message: RaftMessage::decode(reader)?,
        })
    }
}
