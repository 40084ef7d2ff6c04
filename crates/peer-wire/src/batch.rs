//! A gateway's batch for a group, on its way to the leader.
//!
//! ```text
//!  batch     group u16 | generation u64 | boot u64 | worker u16 | sequence u64 | number u64 | acknowledged u64
//!            | free u8 | behind u64 | length u32 | reads | writes, to the end of the message
//!  reads     as `replica/batch.rs` has them
//!  writes    operations as in an entry (`keyspace/entry.rs`)
//! ```

use codec::{DecodeError, Reader, Writer};
use ids::{GatewayId, GroupId};
use keyspace::fields::{read_gateway, write_gateway};

/// Operations of one gateway for one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchRequest {
    /// The group.
    pub group: GroupId,
    /// Whose batch it is.
    pub gateway: GatewayId,
    /// The batch. What it asks for is not looked into here.
    pub batch: replica::Batch,
}

impl BatchRequest {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        64 + self.batch.byte_len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        let BatchRequest {
            group,
            gateway,
            batch,
        } = self;
        out.u16(group.number());
        out.u64(batch.generation);
        write_gateway(out, *gateway);
        out.u64(batch.sequence);
        out.u64(batch.number);
        out.u64(batch.acknowledged);
        out.bool(batch.is_free);
        out.u64(batch.behind);
        out.shared_bytes(&batch.reads);
        out.shared(&batch.writes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<BatchRequest, DecodeError> {
        let (group, generation) = (GroupId::new(reader.u16()?), reader.u64()?);
        Ok(BatchRequest {
            group,
            gateway: read_gateway(reader)?,
            batch: replica::Batch {
                generation,
                sequence: reader.u64()?,
                number: reader.u64()?,
                acknowledged: reader.u64()?,
                is_free: reader.bool()?,
                behind: reader.u64()?,
                reads: reader.shared_bytes()?,
                writes: reader.shared_remainder(),
            },
        })
    }
}
