//! The answer to a batch.
//!
//! ```text
//!  answers   group u16 | generation u64 | term u64 | boot u64 | worker u16 | sequence u64 | tag u8 | fields
//!    1 done        as `replica/batch.rs` has it, to the end of the message
//!    2 not leader  known u8 | [node u64]
//!    3 gap         applied u64
//!    4 evicted
//!    5 deferred    is a read u8 | index u32 | as 1: the sequence is the batch's number if it is no read
//! ```

use crate::batch::{put_gateway, take_gateway};
use crate::cursor::{DecodeError, Reader, Writer};
use consensus::Term;
use ids::{GroupId, NodeId};
use replica::{BatchOutcome, BatchResponse};

/// At least as many bytes as the body has.
pub(crate) fn weight(response: &BatchResponse) -> usize {
    64 + match &response.outcome {
        BatchOutcome::Done(bytes) | BatchOutcome::Deferred { bytes, .. } => bytes.len(),
        BatchOutcome::NotLeader { .. } | BatchOutcome::Gap { .. } | BatchOutcome::Evicted => 0,
    }
}

pub(crate) fn encode(response: &BatchResponse, out: &mut Writer<'_>) {
    out.u16(response.group.number());
    out.u64(response.generation);
    out.u64(response.term.0);
    put_gateway(out, response.gateway);
    out.u64(response.sequence);
    match &response.outcome {
        BatchOutcome::Done(bytes) => {
            out.u8(1);
            bytes.pieces().for_each(|piece| out.long_remainder(&piece));
        }
        BatchOutcome::NotLeader { leader } => {
            out.u8(2);
            out.bool(leader.is_some());
            if let Some(node) = leader {
                out.u64(node.0);
            }
        }
        BatchOutcome::Gap { applied } => {
            out.u8(3);
            out.u64(*applied);
        }
        BatchOutcome::Evicted => out.u8(4),
        BatchOutcome::Deferred {
            is_read,
            index,
            bytes,
        } => {
            out.u8(5);
            out.bool(*is_read);
            out.u32(*index);
            bytes.pieces().for_each(|piece| out.long_remainder(&piece));
        }
    }
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<BatchResponse, DecodeError> {
    let group = GroupId::new(reader.u16()?);
    let generation = reader.u64()?;
    let term = Term(reader.u64()?);
    let gateway = take_gateway(reader)?;
    let sequence = reader.u64()?;
    let unknown = reader.error("an unknown outcome");
    let outcome = match reader.u8()? {
        1 => BatchOutcome::Done(reader.remainder().into()),
        2 => BatchOutcome::NotLeader {
            leader: match reader.bool()? {
                true => Some(NodeId(reader.u64()?)),
                false => None,
            },
        },
        3 => BatchOutcome::Gap {
            applied: reader.u64()?,
        },
        4 => BatchOutcome::Evicted,
        5 => BatchOutcome::Deferred {
            is_read: reader.bool()?,
            index: reader.u32()?,
            bytes: reader.remainder().into(),
        },
        _ => return Err(unknown),
    };
    Ok(BatchResponse {
        group,
        generation,
        term,
        gateway,
        sequence,
        outcome,
    })
}
