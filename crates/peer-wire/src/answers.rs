//! The answer to a batch.
//!
//! ```text
//!  answers   group u16 | boot u64 | worker u16 | number u64 | tag u8 | fields
//!    1 replies     count u32 | end u32* | bytes to the end of the message
//!    2 not leader  term u64 | known u8 | [node u64 | incarnation u64]
//!    3 stale       epoch u64
//!    4 refused     reason u8: 1 gap, 2 forgotten, 3 full | [next u64]: with gap
//! ```

use crate::batch::{put_gateway, take_gateway};
use crate::cursor::{DecodeError, Reader, Writer};
use bytes::Bytes;
use consensus::Term;
use ids::{Epoch, GatewayId, GroupId, Incarnation, NodeId};

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answers {
    /// The group.
    pub group: GroupId,
    /// Whose batch it was.
    pub gateway: GatewayId,
    /// The batch's number.
    pub number: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a batch. But for `Replies`, nothing of it was done by whoever answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was carried out, now or when it came first.
    Replies {
        /// One reply after the other, as clients get them.
        bytes: Bytes,
        /// Where each ends; never falling, the last at the end of `bytes`.
        ends: Vec<u32>,
    },
    /// Somebody else leads the group. An earlier sending of the batch may still be carried out.
    NotLeader {
        /// Who leads, if that is known.
        leader: Option<(NodeId, Incarnation)>,
        /// The term of the one who answers: what an older term says of the leader is old news.
        term: Term,
    },
    /// It was chosen by another map than the group's.
    Stale {
        /// The group's.
        epoch: Epoch,
    },
    /// It cannot be taken.
    Refused(Refused),
}

/// Why a batch is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The one before it is not there.
    Gap {
        /// The number that the group waits for.
        next: u64,
    },
    /// The gateway's boot is over, as the cluster knows; its session with the group is gone.
    Forgotten,
    /// The leader holds as many batches as it may.
    Full,
}

impl Answers {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        64 + match &self.outcome {
            Outcome::Replies { bytes, ends } => bytes.len() + ends.len() * 4,
            Outcome::NotLeader { .. } | Outcome::Stale { .. } | Outcome::Refused(_) => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.u16(self.group.number());
        put_gateway(out, self.gateway);
        out.u64(self.number);
        match &self.outcome {
            Outcome::Replies { bytes, ends } => {
                assert!(are_ends(ends, bytes), "replies fill their bytes");
                out.u8(1);
                out.count(ends.len());
                ends.iter().for_each(|&end| out.u32(end));
                out.remainder(bytes);
            }
            Outcome::NotLeader { leader, term } => {
                out.u8(2);
                out.u64(term.0);
                out.bool(leader.is_some());
                if let Some((node, incarnation)) = leader {
                    out.u64(node.0);
                    out.u64(incarnation.0);
                }
            }
            Outcome::Stale { epoch } => {
                out.u8(3);
                out.u64(epoch.0);
            }
            Outcome::Refused(refused) => {
                out.u8(4);
                match refused {
                    Refused::Gap { next } => {
                        out.u8(1);
                        out.u64(*next);
                    }
                    Refused::Forgotten => out.u8(2),
                    Refused::Full => out.u8(3),
                }
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Answers, DecodeError> {
        let group = GroupId::new(reader.u16()?);
        let gateway = take_gateway(reader)?;
        let number = reader.u64()?;
        let unknown = reader.error("an unknown outcome");
        let outcome = match reader.u8()? {
            1 => {
                let misplaced = reader.error("replies that do not fill their bytes");
                let count = reader.count(4)?;
                let ends: Vec<u32> = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
                let bytes = reader.remainder();
                if !are_ends(&ends, &bytes) {
                    return Err(misplaced);
                }
                Outcome::Replies { bytes, ends }
            }
            2 => Outcome::NotLeader {
                term: Term(reader.u64()?),
                leader: match reader.bool()? {
                    true => Some((NodeId(reader.u64()?), Incarnation(reader.u64()?))),
                    false => None,
                },
            },
            3 => Outcome::Stale {
                epoch: Epoch(reader.u64()?),
            },
            4 => Outcome::Refused(match reader.u8()? {
                1 => Refused::Gap { next: reader.u64()? },
                2 => Refused::Forgotten,
                3 => Refused::Full,
                _ => return Err(unknown),
            }),
            _ => return Err(unknown),
        };
        Ok(Answers {
            group,
            gateway,
            number,
            outcome,
        })
    }
}

/// Whether `ends` cut `bytes` into replies without a rest.
fn are_ends(ends: &[u32], bytes: &[u8]) -> bool {
    let last = ends.last().map_or(0, |&end| end as usize);
    ends.is_sorted() && last == bytes.len()
}
