//! What a group does when a transaction by which a partition moves is committed: it leaves one group and enters another. Or one group alone
//! mends what it has lost of that when it began anew.
//!
//! ```text
//!  step    1 leave   partition u16 | to which group u16 | moves u32
//!          2 enter   partition u16 | moves u32 | pieces u64 | time i64 | applied u64 | swapped u64 for each database | records | requests
//!          3 mend    partition u16 | found | becomes | seed u64 u64, from [`SemanticsVersion::PARTITIONS_MENDED`] on
//!  found, becomes   0; or 1 u8 | moves u32: it is here; or 2 u8 | to which group u16 | moves u32: it has gone
//!  records, requests   length u32 | bytes: `hosting/arrival.rs`, `keyspace/remainder.rs`
//! ```
//!
//! [`SemanticsVersion::PARTITIONS_MENDED`]: ids::SemanticsVersion::PARTITIONS_MENDED

use crate::object::VERSION_MAX;
use crate::object_codec;
use codec::{DecodeError, Reader, Writer};
use ids::{Db, GroupId, HashSeed, Host, PartitionId, UnixMillis, Version, Whereabouts};

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartitionStep {
    /// The partition goes to another group.
    Leave {
        /// Which.
        partition: PartitionId,
        /// To which group.
        to: GroupId,
        /// How often it will have moved then.
        moves: u32,
    },
    /// The partition comes, of which a copy has arrived.
    Enter(Box<Enter>),
    /// What the group knows of the partition is not what others do.
    Mend(PartitionMend),
}

/// What a group is to know of a partition in place of what it does. It is judged by what it knows when it votes: so an order that is late,
/// or rests on what a leader said long ago, changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionMend {
    /// Which.
    pub partition: PartitionId,
    /// What it knows.
    pub found: Whereabouts,
    /// What it is to know. If it comes to be here so, it is empty; if it is here no more, what it holds goes.
    pub becomes: Whereabouts,
    /// By what the keys of a partition are ordered that comes to be here so.
    pub seed: HashSeed,
}

impl PartitionMend {
    /// Whether it says that the partition has moved more often than the group knows, and is or was here.
    pub fn is_newer(&self) -> bool {
        let is_or_was = self.becomes.is_here() || self.found.is_here();
        is_or_was && self.becomes.moves() > self.found.moves()
    }
}

/// What comes with a partition beside the copy of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enter {
    /// Which.
    pub partition: PartitionId,
    /// How often it will have moved then.
    pub moves: u32,
    /// Of how many pieces the copy is.
    pub pieces: u64,
    /// The time of the group that it leaves.
    pub time: UnixMillis,
    /// What that group has counted.
    pub applied: Version,
    /// For each of its databases, when all present keys changed last.
    pub swapped: Vec<Version>,
    /// What has changed since the last piece of the copy.
    pub records: Vec<u8>,
    /// What is kept there of requests that clients have named.
    pub requests: Vec<u8>,
}

impl PartitionStep {
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            PartitionStep::Leave {
                partition,
                to: group,
                moves,
            } => {
                to.u8(1);
                to.u16(partition.number());
                to.u16(group.number());
                to.u32(*moves);
            }
            PartitionStep::Enter(enter) => {
                to.u8(2);
                to.u16(enter.partition.number());
                to.u32(enter.moves);
                to.u64(enter.pieces);
                to.i64(enter.time.0);
                to.u64(enter.applied.0);
                for index in 0..usize::from(Db::KEPT) {
                    to.u64(enter.swapped.get(index).copied().unwrap_or_default().0);
                }
                to.bytes(&enter.records);
                to.bytes(&enter.requests);
            }
            PartitionStep::Mend(mend) => {
                to.u8(3);
                to.u16(mend.partition.number());
                whereabouts(to, mend.found);
                whereabouts(to, mend.becomes);
                object_codec::seed(to, mend.seed);
            }
        }
    }

    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<PartitionStep, DecodeError> {
        let unknown = rest.error("a step of a partition");
        let tag = rest.u8()?;
        let partition = PartitionId::new(rest.u16()?);
        match tag {
            1 => {
                let (to, moves) = (GroupId::new(rest.u16()?), rest.u32()?);
                if moves == 0 {
                    return Err(unknown);
                }
                Ok(PartitionStep::Leave { partition, to, moves })
            }
            2 => {
                let (moves, pieces, time, applied) = (rest.u32()?, rest.u64()?, rest.i64()?, rest.u64()?);
                if applied >= VERSION_MAX || moves == 0 {
                    return Err(unknown);
                }
                let swapped = (0..Db::KEPT).map(|_| Ok(Version(rest.u64()?)));
                let swapped = swapped.collect::<Result<_, DecodeError>>()?;
                Ok(PartitionStep::Enter(Box::new(Enter {
                    partition,
                    moves,
                    pieces,
                    time: UnixMillis(time),
                    applied: Version(applied),
                    swapped,
                    records: rest.bytes()?.into(),
                    requests: rest.bytes()?.into(),
                })))
            }
            3 => {
                let mend = PartitionMend {
                    partition,
                    found: read_whereabouts(rest)?,
                    becomes: read_whereabouts(rest)?,
                    seed: object_codec::read_seed(rest)?,
                };
                let mend = Some(mend).filter(PartitionMend::is_newer);
                mend.map(PartitionStep::Mend).ok_or(unknown)
            }
            _ => Err(unknown),
        }
    }
}

fn whereabouts(to: &mut Vec<u8>, whereabouts: Whereabouts) {
    match whereabouts {
        Whereabouts::Unknown => to.u8(0),
        Whereabouts::Here(moves) => {
            to.u8(1);
            to.u32(moves);
        }
        Whereabouts::Gone(Host { group, moves }) => {
            to.u8(2);
            to.u16(group.number());
            to.u32(moves);
        }
    }
}

fn read_whereabouts(rest: &mut Reader<'_>) -> Result<Whereabouts, DecodeError> {
    let unknown = rest.error("what a group knows of a partition");
    match rest.u8()? {
        0 => Ok(Whereabouts::Unknown),
        1 => Ok(Whereabouts::Here(rest.u32()?)),
        2 => {
            let (group, moves) = (GroupId::new(rest.u16()?), rest.u32()?);
            Ok(Whereabouts::Gone(Host { group, moves }))
        }
        _ => Err(unknown),
    }
}
