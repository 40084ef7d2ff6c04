//! How a node becomes a member.
//!
//! ```text
//!  join         bytes to the end of the message
//!  join answer  tag u8
//!    1 admitted  | cluster u128 | node u64 | bytes to the end of the message
//!    2 refused   | reason, UTF-8, to the end of the message
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
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
    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.raw(&self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Join {
        Join {
            bytes: reader.shared_remainder(),
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

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        match self {
            JoinAnswer::Admitted { cluster, node, bytes } => {
                out.u8(1);
                out.u128(cluster.0);
                out.u64(node.0);
                out.raw(bytes);
            }
            JoinAnswer::Refused { reason } => {
                out.u8(2);
                out.raw(reason.as_bytes());
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<JoinAnswer, DecodeError> {
        Ok(match reader.u8()? {
            1 => JoinAnswer::Admitted {
                cluster: ClusterId(reader.u128()?),
                node: NodeId(reader.u64()?),
                bytes: reader.shared_remainder(),
            },
            2 => {
                let error = reader.error("a reason in UTF-8");
                JoinAnswer::Refused {
                    reason: String::from_utf8(reader.shared_remainder().into()).map_err(|_| error)?,
                }
            }
            _ => return Err(reader.unknown("an answer to a join that this version knows")),
        })
    }
}
