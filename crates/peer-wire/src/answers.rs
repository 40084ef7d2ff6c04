//! The answer to a batch.
//!
//! ```text
//!  answers   group u16 | boot u64 | worker u16 | sequence u64 | tag u8 | fields
//!    1 answered    as `replica/batch.rs` has it, to the end of the message
//!    2 not leader  known u8 | [node u64]
//!    3 gap         applied u64
//!    4 forgotten
//!    5 late        is a read u8 | index u32 | as 1: the sequence is the batch's number if it is no read
//! ```

use crate::batch::{put_gateway, take_gateway};
use crate::cursor::{DecodeError, Reader, Writer};
use bytes::Bytes;
use ids::{GatewayId, GroupId, NodeId};

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answers {
    /// The group.
    pub group: GroupId,
    /// Whose batch it was.
    pub gateway: GatewayId,
    /// Which of the gateway's batches for the group.
    pub sequence: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was carried out, now or when it came first. What each of its items answers, not looked into here.
    Answered(Bytes),
    /// Who was asked does not lead. An earlier sending of the batch may still be carried out.
    NotLeader {
        /// Where the leader is, if that is known.
        leader: Option<NodeId>,
    },
    /// Batches before it are missing.
    Gap {
        /// The number of the last one that the group has applied.
        applied: u64,
    },
    /// It was carried out when it came first, but what it answered is no longer known.
    Forgotten,
    /// One of its operations or reads had waited for a transaction. The batch is named by its number among those with writes,
    /// or, for a read, by its sequence.
    Late {
        /// Whether it is a read.
        is_read: bool,
        /// Which of its operations, or of its reads.
        index: u32,
        /// The answer, not looked into here.
        bytes: Bytes,
    },
}

impl Answers {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        64 + match &self.outcome {
            Outcome::Answered(bytes) | Outcome::Late { bytes, .. } => bytes.len(),
            Outcome::NotLeader { .. } | Outcome::Gap { .. } | Outcome::Forgotten => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.u16(self.group.number());
        put_gateway(out, self.gateway);
        out.u64(self.sequence);
        match &self.outcome {
            Outcome::Answered(bytes) => {
                out.u8(1);
                out.long_remainder(bytes);
            }
            Outcome::NotLeader { leader } => {
                out.u8(2);
                out.bool(leader.is_some());
                if let Some(node) = leader {
                    out.u64(node.0);
                }
            }
            Outcome::Gap { applied } => {
                out.u8(3);
                out.u64(*applied);
            }
            Outcome::Forgotten => out.u8(4),
            Outcome::Late {
                is_read,
                index,
                bytes,
            } => {
                out.u8(5);
                out.bool(*is_read);
                out.u32(*index);
                out.long_remainder(bytes);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Answers, DecodeError> {
        let group = GroupId::new(reader.u16()?);
        let gateway = take_gateway(reader)?;
        let sequence = reader.u64()?;
        let unknown = reader.error("an unknown outcome");
        let outcome = match reader.u8()? {
            1 => Outcome::Answered(reader.remainder()),
            2 => Outcome::NotLeader {
                leader: match reader.bool()? {
                    true => Some(NodeId(reader.u64()?)),
                    false => None,
                },
            },
            3 => Outcome::Gap {
                applied: reader.u64()?,
            },
            4 => Outcome::Forgotten,
            5 => Outcome::Late {
                is_read: reader.bool()?,
                index: reader.u32()?,
                bytes: reader.remainder(),
            },
            _ => return Err(unknown),
        };
        Ok(Answers {
            group,
            gateway,
            sequence,
            outcome,
        })
    }
}
