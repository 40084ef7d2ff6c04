//! Names and small values as entries, transfers and batches hold them.
//!
//! ```text
//!  gateway       boot u64 | worker u16
//!  origin        gateway | number u64 | index u32
//!  txn           gateway | seq u64 | attempt u32
//!  participants  count u32 | (group u16 | generation u64)*
//!  db            u8
//!  protocol      u8: 2, 3
//! ```

use crate::transactions::Origin;
use codec::{DecodeError, Reader, Writer};
use ids::{Boot, Db, GatewayId, GroupId};
use resp::Protocol;
use txn::{Participant, Participants, TxnId};

/// Writes the name of a gateway.
#[inline]
pub fn write_gateway(out: &mut impl Writer, gateway: GatewayId) {
    out.u64(gateway.boot.0);
    out.u16(gateway.worker);
}

/// Reads the name of a gateway.
///
/// # Errors
/// The bytes are none; as of all of these.
#[inline]
pub fn read_gateway(reader: &mut Reader<'_>) -> Result<GatewayId, DecodeError> {
    Ok(GatewayId {
        boot: Boot(reader.u64()?),
        worker: reader.u16()?,
    })
}

/// Writes where an operation came from.
pub fn write_origin(out: &mut impl Writer, origin: Origin) {
    write_gateway(out, origin.gateway);
    out.u64(origin.number);
    out.u32(origin.index);
}

/// Reads where an operation came from.
pub fn read_origin(reader: &mut Reader<'_>) -> Result<Origin, DecodeError> {
    Ok(Origin {
        gateway: read_gateway(reader)?,
        number: reader.u64()?,
        index: reader.u32()?,
    })
}

/// Writes the name of a transaction.
pub fn write_txn(out: &mut impl Writer, txn: TxnId) {
    out.u64(txn.boot.0);
    out.u16(txn.worker);
    out.u64(txn.seq);
    out.u32(txn.attempt);
}

/// Reads the name of a transaction.
pub fn read_txn(reader: &mut Reader<'_>) -> Result<TxnId, DecodeError> {
    Ok(TxnId {
        boot: Boot(reader.u64()?),
        worker: reader.u16()?,
        seq: reader.u64()?,
        attempt: reader.u32()?,
    })
}

pub(crate) fn write_participants(out: &mut impl Writer, participants: &[Participant]) {
    out.list(participants, |out, participant| {
        out.u16(participant.group.number());
        out.u64(participant.generation);
    });
}

pub(crate) fn read_participants(reader: &mut Reader<'_>) -> Result<Participants, DecodeError> {
    const PARTICIPANT_BYTES: usize = 2 + 8;
    let count = reader.count(PARTICIPANT_BYTES)?;
    let (each, _) = reader
        .take(count * PARTICIPANT_BYTES)?
        .as_chunks::<PARTICIPANT_BYTES>();
    let participant = |&[a, b, generation @ ..]: &[u8; PARTICIPANT_BYTES]| Participant {
        group: GroupId::new(u16::from_le_bytes([a, b])),
        generation: u64::from_le_bytes(generation),
    };
    // In one allocation: how many there are is known.
    Ok(each.iter().map(participant).collect())
}

/// Reads the number of a database.
#[inline]
pub fn read_db(reader: &mut Reader<'_>) -> Result<Db, DecodeError> {
    Db::kept(reader.u8()?).ok_or_else(|| reader.unknown("a database"))
}

/// The same of one that a partition may arrive in.
pub(crate) fn read_stored_db(reader: &mut Reader<'_>) -> Result<Db, DecodeError> {
    Db::stored(reader.u8()?).ok_or_else(|| reader.unknown("a database"))
}

/// The number of a version of the protocol.
#[inline]
pub fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

/// Reads a version of the protocol.
#[inline]
pub fn read_protocol(reader: &mut Reader<'_>) -> Result<Protocol, DecodeError> {
    match reader.u8()? {
        2 => Ok(Protocol::Resp2),
        3 => Ok(Protocol::Resp3),
        _ => Err(reader.unknown("a protocol")),
    }
}
