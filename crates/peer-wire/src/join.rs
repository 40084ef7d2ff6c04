//! How a node becomes a member.
//!
//! ```text
//!  join         bytes to the end of the message
//!  join answer  tag u8
//!    1 admitted  | cluster u128 | node u64 | bytes to the end of the message
//!    2 refused   | reason, UTF-8, to the end of the message
//! ```

use crate::cursor::{DecodeError, Reader, Writer};
use bytes::Bytes;
use ids::{ClusterId, NodeId};

/// The only thing that a node may say that introduced itself as joining.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// What it offers and where it is to be found, in the format of `control`.
    pub bytes: Bytes,
}

/// What becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinAnswer {
    /// It is a member from now on; it is to keep its number durably before it introduces itself with it.
    Admitted {
        /// The cluster.
        cluster: ClusterId,
        /// The number that it was given.
        node: NodeId,
        /// What it has to know of the cluster, in the format of `control`.
        bytes: Bytes,
    },
    /// It is not, and nothing was done.
    Refused {
        /// Why, for its operator.
        reason: String,
    },
}

impl Join {
    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.remainder(&self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Join {
        Join {
            bytes: reader.remainder(),
        }
    }
}

impl JoinAnswer {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        32 + match self {
            JoinAnswer::Admitted { bytes, .. } => bytes.len(),
            JoinAnswer::Refused { reason } => reason.len(),
        }
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        match self {
            JoinAnswer::Admitted { cluster, node, bytes } => {
                out.u8(1);
                out.remainder(&cluster.0.to_le_bytes());
                out.u64(node.0);
                out.remainder(bytes);
            }
            JoinAnswer::Refused { reason } => {
                out.u8(2);
                out.remainder(reason.as_bytes());
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<JoinAnswer, DecodeError> {
        let unknown = reader.error("an unknown answer to a join");
        Ok(match reader.u8()? {
            1 => JoinAnswer::Admitted {
                cluster: ClusterId(u128::from_le_bytes(reader.array()?)),
                node: NodeId(reader.u64()?),
                bytes: reader.remainder(),
            },
            2 => {
                let error = reader.error("a reason that is not UTF-8");
                JoinAnswer::Refused {
                    reason: String::from_utf8(reader.remainder().into()).map_err(|_| error)?,
                }
            }
            _ => return Err(unknown),
        })
    }
}
