//! Why one node does not want another.
//!
//! ```text
//!  refusal  1 versions       | oldest u16 | newest u16: of the refused | oldest u16 | newest u16: of the refuser
//!           2 other cluster  | 3 no cluster | 4 wrong node | expected u64 | found u64 | 5 itself | 6 unproven
//!           7 not a member   | 8 removed | 9 old boot | 10 semantics | needed u16
//! ```
//!
//! A later version may have others, with fields of their own behind their number.

use super::introduction::Versions;
use codec::{DecodeError, Reader, Writer};
use ids::{NodeId, SemanticsVersion};
use std::fmt;

/// Why one node does not want another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloRefusal {
    /// There is no version that both speak.
    Versions {
        /// What the one who is refused speaks.
        refused: Versions,
        /// What the one who refuses speaks.
        refuser: Versions,
    },
    /// It belongs to another cluster.
    OtherCluster,
    /// It was called, and belongs to no cluster.
    NoCluster,
    /// It was called, and is not the one that was meant.
    WrongNode {
        /// Who was meant.
        expected: NodeId,
        /// Who it is.
        found: NodeId,
    },
    /// Two nodes of one number: a node that called itself, or a copy of a data directory.
    Itself,
    /// Its proof was wrong: it does not know the secret.
    Unproven,
    /// The cluster has no member of its number.
    NotMember,
    /// It was a member until it was removed.
    Removed,
    /// The cluster knows a later start of it.
    OldBoot,
    /// It does not know the semantics that the cluster's entries have.
    Semantics {
        /// What it would have to know.
        needed: SemanticsVersion,
    },
    /// What a later version of the protocol calls by this number.
    Unknown(u8),
}

impl HelloRefusal {
    /// What is wrong with the one who is refused, as the rest of a sentence about it.
    pub(super) fn words(&self, f: &mut fmt::Formatter<'_>, refuser: &str) -> fmt::Result {
        match self {
            HelloRefusal::Versions {
                refused,
                refuser: own,
            } => write!(f, "speaks protocol versions {refused}, {refuser} {own}"),
            HelloRefusal::OtherCluster => f.write_str("belongs to another cluster"),
            HelloRefusal::NoCluster => f.write_str("belongs to no cluster yet"),
            HelloRefusal::WrongNode { expected, found } => {
                write!(f, "is node {}, not node {}", found.0, expected.0)
            }
            HelloRefusal::Itself => write!(f, "has the number of {refuser} itself"),
            HelloRefusal::Unproven => write!(
                f,
                "does not know the cluster's secret, or {refuser} has another one"
            ),
            HelloRefusal::NotMember => f.write_str("is not a member"),
            HelloRefusal::Removed => f.write_str("was removed"),
            HelloRefusal::OldBoot => f.write_str("was started again since"),
            HelloRefusal::Semantics { needed } => {
                write!(
                    f,
                    "does not know semantics version {}, which the cluster uses",
                    needed.0
                )
            }
            HelloRefusal::Unknown(number) => {
                write!(f, "has a fault that only a later version knows, number {number}")
            }
        }
    }

    pub(super) fn encode(&self, out: &mut impl Writer) {
        match self {
            HelloRefusal::Versions { refused, refuser } => {
                out.u8(1);
                for versions in [refused, refuser] {
                    out.u16(versions.oldest);
                    out.u16(versions.newest);
                }
            }
            HelloRefusal::OtherCluster => out.u8(2),
            HelloRefusal::NoCluster => out.u8(3),
            HelloRefusal::WrongNode { expected, found } => {
                out.u8(4);
                out.u64s(&[expected.0, found.0]);
            }
            HelloRefusal::Itself => out.u8(5),
            HelloRefusal::Unproven => out.u8(6),
            HelloRefusal::NotMember => out.u8(7),
            HelloRefusal::Removed => out.u8(8),
            HelloRefusal::OldBoot => out.u8(9),
            HelloRefusal::Semantics { needed } => {
                out.u8(10);
                out.u16(needed.0);
            }
            HelloRefusal::Unknown(number) => out.u8(*number),
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<HelloRefusal, DecodeError> {
        let versions = |reader: &mut Reader<'_>| {
            Ok(Versions {
                oldest: reader.u16()?,
                newest: reader.u16()?,
            })
        };
        Ok(match reader.u8()? {
            1 => HelloRefusal::Versions {
                refused: versions(reader)?,
                refuser: versions(reader)?,
            },
            2 => HelloRefusal::OtherCluster,
            3 => HelloRefusal::NoCluster,
            4 => HelloRefusal::WrongNode {
                expected: NodeId(reader.u64()?),
                found: NodeId(reader.u64()?),
            },
            5 => HelloRefusal::Itself,
            6 => HelloRefusal::Unproven,
            7 => HelloRefusal::NotMember,
            8 => HelloRefusal::Removed,
            9 => HelloRefusal::OldBoot,
            10 => HelloRefusal::Semantics {
                needed: SemanticsVersion(reader.u16()?),
            },
            number => HelloRefusal::Unknown(number),
        })
    }
}
