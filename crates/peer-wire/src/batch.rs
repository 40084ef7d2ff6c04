//! A gateway's batch for a group, on its way to the leader.
//!
//! ```text
//!  batch     group u16 | generation u64 | boot u64 | worker u16 | sequence u64 | number u64 | acknowledged u64
//!            | free u8 | behind u64 | length u32 | reads | writes, to the end of the message
//!  reads     as `replica/batch.rs` has them
//!  writes    operations as in an entry (`keyspace/entry.rs`)
//! ```

use crate::cursor::{DecodeError, Reader, Writer};
use bytes::Bytes;
use ids::{Boot, GatewayId, GroupId};

/// Operations of one gateway for one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The group.
    pub group: GroupId,
    /// How many times the group had begun anew, as the gateway knows: one of another generation is not looked at.
    pub generation: u64,
    /// Whose batch it is.
    pub gateway: GatewayId,
    /// Counts all batches of that gateway for this group; the answer carries it.
    pub sequence: u64,
    /// Counts those with writes, from 1 on; 0 for one of reads alone, or of decisions alone. Sent again, it has the same number.
    pub number: u64,
    /// Up to this number the gateway has the answers: they need not be recorded any more.
    pub acknowledged: u64,
    /// Whether its reads wait for nothing that is in flight.
    pub is_free: bool,
    /// The number of the batch that its reads are not answered before, or 0.
    pub behind: u64,
    /// What only reads. Not looked into here.
    pub reads: Bytes,
    /// What writes, in entry format. Not looked into here.
    pub writes: Bytes,
}

impl Batch {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        64 + self.reads.len() + self.writes.len()
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.u16(self.group.number());
        out.u64(self.generation);
        put_gateway(out, self.gateway);
        out.u64(self.sequence);
        out.u64(self.number);
        out.u64(self.acknowledged);
        out.bool(self.is_free);
        out.u64(self.behind);
        out.long(&self.reads);
        out.long_remainder(&self.writes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Batch, DecodeError> {
        Ok(Batch {
            group: GroupId::new(reader.u16()?),
            generation: reader.u64()?,
            gateway: take_gateway(reader)?,
            sequence: reader.u64()?,
            number: reader.u64()?,
            acknowledged: reader.u64()?,
            is_free: reader.bool()?,
            behind: reader.u64()?,
            reads: reader.bytes()?,
            writes: reader.remainder(),
        })
    }
}

pub(crate) fn put_gateway(out: &mut Writer<'_>, gateway: GatewayId) {
    out.u64(gateway.boot.0);
    out.u16(gateway.worker);
}

pub(crate) fn take_gateway(reader: &mut Reader<'_>) -> Result<GatewayId, DecodeError> {
    Ok(GatewayId {
        boot: Boot(reader.u64()?),
        worker: reader.u16()?,
    })
}
