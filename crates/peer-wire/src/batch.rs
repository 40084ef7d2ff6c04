//! A gateway's batch for a group, on its way to the leader.
//!
//! ```text
//!  batch     group u16 | epoch u64 | boot u64 | worker u16 | number u64 | acknowledged u64
//!            | count u32 | read* | operations
//!  read      position u32 | flags u8
//!  operations  as in an entry (`keyspace/entry.rs`), to the end of the message
//! ```

use crate::cursor::{DecodeError, Reader, Writer};
use bytes::Bytes;
use ids::{Boot, Epoch, GatewayId, GroupId};

/// Operations of one gateway for one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The group.
    pub group: GroupId,
    /// The map by which the gateway chose it.
    pub epoch: Epoch,
    /// Whose batch it is.
    pub gateway: GatewayId,
    /// Counted by that gateway for this group, from 1 on. Sent again, it has the same number.
    pub number: u64,
    /// Up to this number the gateway has the answers: they need not be recorded any more.
    pub acknowledged: u64,
    /// Which of the operations only read, in their order.
    pub reads: Vec<Read>,
    /// In entry format; not looked into here.
    pub operations: Bytes,
}

/// An operation that only reads: it does not become part of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// Its place among the batch's operations, from 0.
    pub position: u32,
    /// What the leader has to know of it. The replica gives them their meaning.
    pub flags: u8,
}

const READ_BYTES: usize = 4 + 1;

impl Batch {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        64 + self.operations.len() + self.reads.len() * READ_BYTES
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.u16(self.group.number());
        out.u64(self.epoch.0);
        put_gateway(out, self.gateway);
        out.u64(self.number);
        out.u64(self.acknowledged);
        out.count(self.reads.len());
        for (at, read) in self.reads.iter().enumerate() {
            let is_next = at == 0 || self.reads[at - 1].position < read.position;
            assert!(is_next, "reads stand in the order of their operations");
            out.u32(read.position);
            out.u8(read.flags);
        }
        out.remainder(&self.operations);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Batch, DecodeError> {
        let group = GroupId::new(reader.u16()?);
        let epoch = Epoch(reader.u64()?);
        let gateway = take_gateway(reader)?;
        let number = reader.u64()?;
        let acknowledged = reader.u64()?;
        let count = reader.count(READ_BYTES)?;
        let mut reads: Vec<Read> = Vec::with_capacity(count);
        for _ in 0..count {
            let disorder = reader.error("reads that are not in order");
            let position = reader.u32()?;
            if reads.last().is_some_and(|before| before.position >= position) {
                return Err(disorder);
            }
            let flags = reader.u8()?;
            reads.push(Read { position, flags });
        }
        Ok(Batch {
            group,
            epoch,
            gateway,
            number,
            acknowledged,
            reads,
            operations: reader.remainder(),
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
