//! A group's state on its way to a learner.
//!
//! ```text
//!  chunk   group u16 | from u64 | to u64 | transfer u64 | number u64 | is_last u8 | [index u64 | term u64]
//!          | bytes to the end of the message
//!  answer  group u16 | from u64 | to u64 | transfer u64 | tag u8: 1 held | number u64, 2 broken
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use consensus::{Index, Term};
use ids::{GroupId, Incarnation};

/// One chunk: what brings the learner's part of the state forward, and the next piece of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferChunk {
    /// The group.
    pub group: GroupId,
    /// The leader.
    pub from: Incarnation,
    /// The learner. One with another incarnation must not take it.
    pub to: Incarnation,
    /// The leader's number for this transfer: a later one begins from nothing.
    pub transfer: u64,
    /// Counted from 0 on within the transfer.
    pub number: u64,
    /// With the last one: the place in the log that the state reflects, and its term.
    pub point: Option<(Index, Term)>,
    /// In the replica's format.
    pub bytes: Bytes,
}

/// What became of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferAnswer {
    /// The group.
    pub group: GroupId,
    /// The learner.
    pub from: Incarnation,
    /// The leader.
    pub to: Incarnation,
    /// The transfer.
    pub transfer: u64,
    /// What became of it.
    pub outcome: TransferOutcome,
}

/// How a transfer stands at the learner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferOutcome {
    /// It holds all chunks up to this number; the leader may send more.
    Held {
        /// The last one.
        number: u64,
    },
    /// It holds nothing of it any more: the leader is to begin again.
    Broken,
}

impl TransferChunk {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        64 + self.bytes.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u16(self.group.number());
        out.u64s(&[self.from.0, self.to.0, self.transfer, self.number]);
        out.option(&self.point, |out, (index, term)| out.u64s(&[index.0, term.0]));
        out.raw(&self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<TransferChunk, DecodeError> {
        Ok(TransferChunk {
            group: GroupId::new(reader.u16()?),
            from: Incarnation(reader.u64()?),
            to: Incarnation(reader.u64()?),
            transfer: reader.u64()?,
            number: reader.u64()?,
            point: reader.option(|reader| Ok((Index(reader.u64()?), Term(reader.u64()?))))?,
            bytes: reader.shared_remainder(),
        })
    }
}

impl TransferAnswer {
    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u16(self.group.number());
        out.u64s(&[self.from.0, self.to.0, self.transfer]);
        match self.outcome {
            TransferOutcome::Held { number } => {
                out.u8(1);
                out.u64(number);
            }
            TransferOutcome::Broken => out.u8(2),
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<TransferAnswer, DecodeError> {
        let group = GroupId::new(reader.u16()?);
        let from = Incarnation(reader.u64()?);
        let to = Incarnation(reader.u64()?);
        let transfer = reader.u64()?;
        let outcome = match reader.u8()? {
            1 => TransferOutcome::Held {
                number: reader.u64()?,
            },
            2 => TransferOutcome::Broken,
            _ => return Err(reader.unknown("an answer to a chunk that this version knows")),
        };
        Ok(TransferAnswer {
            group,
            from,
            to,
            transfer,
            outcome,
        })
    }
}
