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

use codec::{DecodeError, Reader, Writer};
use consensus::Term;
use ids::{GroupId, NodeId};
use keyspace::fields::{read_gateway, write_gateway};
use replica::{BatchOutcome, BatchResponse};

/// At least as many bytes as the body has.
pub(crate) fn weight(response: &BatchResponse) -> usize {
    64 + match &response.outcome {
        BatchOutcome::Done(bytes) | BatchOutcome::Deferred { bytes, .. } => bytes.len(),
        BatchOutcome::NotLeader { .. } | BatchOutcome::Gap { .. } | BatchOutcome::Evicted => 0,
    }
}

pub(crate) fn encode(response: &BatchResponse, out: &mut impl Writer) {
    out.u16(response.group.number());
    out.u64(response.generation);
    out.u64(response.term.0);
    write_gateway(out, response.gateway);
    out.u64(response.sequence);
    match &response.outcome {
        BatchOutcome::Done(bytes) => {
            out.u8(1);
            bytes.pieces().for_each(|piece| out.shared(&piece));
        }
        BatchOutcome::NotLeader { leader } => {
            out.u8(2);
            out.option(leader, |out, node| out.u64(node.0));
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
            bytes.pieces().for_each(|piece| out.shared(&piece));
        }
    }
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<BatchResponse, DecodeError> {
    let group = GroupId::new(reader.u16()?);
    let generation = reader.u64()?;
    let term = Term(reader.u64()?);
    let gateway = read_gateway(reader)?;
    let sequence = reader.u64()?;
    let outcome = match reader.u8()? {
        1 => BatchOutcome::Done(reader.shared_remainder().into()),
        2 => BatchOutcome::NotLeader {
            leader: reader.option(|reader| reader.u64().map(NodeId))?,
        },
        3 => BatchOutcome::Gap {
            applied: reader.u64()?,
        },
        4 => BatchOutcome::Evicted,
        5 => BatchOutcome::Deferred {
            is_read: reader.bool()?,
            index: reader.u32()?,
            bytes: reader.shared_remainder().into(),
        },
        _ => return Err(reader.unknown("an outcome that this version knows")),
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
