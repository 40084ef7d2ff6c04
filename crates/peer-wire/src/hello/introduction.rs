//! What a node says of itself.
//!
//! ```text
//!  introduction  magic: 63 68 6f 72 61 6c 65 0a, "chorale" and a line's end
//!                | oldest u16 | newest u16 | nonce 32 bytes | semantics u16 | worker u16 | workers u16 | who
//!                | to u16 | groups u16 | [intent u8 | what it is about]
//!  who   1 joining   |
//!        2 starting  | cluster u128 | node u64
//!        3 member    | cluster u128 | node u64 | boot u64
//! ```
//!  intent        1 founding, of one who joins | founding node u128 | expects u16
//!
//! What stands behind `who` is not there if a build says it that knows only of nodes with the same number of workers: then `to` is
//! `worker`, and it is not known how many groups there are. Such a build passes it over.
//! A node that would make a cluster together with others says that it joins, and with what intent behind all else: to a build that does
//! not know that, it is one that joins. Other intents, and what stands behind them, are a later version's, and are passed over.

use super::secret::{NONCE_BYTES, Nonce};
use crate::message::FrameKind;
use codec::{DecodeError, Reader, Writer};
use ids::{Boot, ClusterId, FoundingId, GroupCount, NodeId, SemanticsVersion};
use std::fmt;

/// The intent of one who would make a cluster together with others.
const FOUNDING: u8 = 1;

const MAGIC: [u8; 8] = *b"chorale\n";

/// Versions of the protocol, from the oldest that a node still speaks to the newest that it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
}

impl Versions {
    /// What this build speaks. From 3 on answers say of which start of their node they are.
    pub const OURS: Versions = Versions { oldest: 3, newest: 3 };

    /// The newest that is in both.
    pub(super) fn newest_common(self, other: Versions) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.oldest, self.newest)
    }
}

/// Who a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// Nobody yet: it wants to become a member.
    Joining,
    /// Nobody yet: it wants to become a member, and where there is no cluster, make one with others like it.
    Founding {
        /// Its process.
        id: FoundingId,
        /// How many of them there are to be, itself among them.
        expects: u16,
    },
    /// A member whose present start the meta group has not counted yet.
    Starting {
        /// Its cluster.
        cluster: ClusterId,
        /// Itself.
        node: NodeId,
    },
    /// A member.
    Member {
        /// Its cluster.
        cluster: ClusterId,
        /// Itself.
        node: NodeId,
        /// Its present start.
        boot: Boot,
    },
}

impl Who {
    /// The cluster, unless it has none yet.
    pub fn cluster(self) -> Option<ClusterId> {
        match self {
            Who::Joining | Who::Founding { .. } => None,
            Who::Starting { cluster, .. } | Who::Member { cluster, .. } => Some(cluster),
        }
    }

    /// The node, unless it is none yet.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Who::Joining | Who::Founding { .. } => None,
            Who::Starting { node, .. } | Who::Member { node, .. } => Some(node),
        }
    }

    /// Its process and how many it expects, if it would make a cluster with others.
    pub fn founding(self) -> Option<(FoundingId, u16)> {
        match self {
            Who::Founding { id, expects } => Some((id, expects)),
            Who::Joining | Who::Starting { .. } | Who::Member { .. } => None,
        }
    }

    /// Whether somebody who introduced itself so may send messages of this kind. A link on which it sends others is to be
    /// dropped.
    pub fn may_say(self, kind: FrameKind) -> bool {
        match self {
            Who::Joining => kind == FrameKind::Join,
            Who::Founding { .. } => matches!(kind, FrameKind::Join | FrameKind::Founding),
            // The meta group may need its vote before anybody can count its start.
            Who::Starting { .. } => matches!(
                kind,
                FrameKind::Raft
                    | FrameKind::Heartbeat
                    | FrameKind::HeartbeatAnswer
                    | FrameKind::Map
                    | FrameKind::MetaRequest
                    | FrameKind::MetaAnswer
                    | FrameKind::Leave
            ),
            Who::Member { .. } => true,
        }
    }
}

/// What a node says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Introduction {
    /// What it speaks.
    pub versions: Versions,
    /// Who it is.
    pub who: Who,
    /// The newest semantics that it knows.
    pub semantics: SemanticsVersion,
    /// Its worker at this end of the link.
    pub worker: u16,
    /// How many workers it has.
    pub workers: u16,
    /// The worker that it wants at the other end. A caller is answered by that one, modulo the answerer's count.
    pub to: u16,
    /// How many groups of keys its cluster has; none if it does not know of any.
    pub groups: Option<GroupCount>,
    /// New for each link.
    pub nonce: Nonce,
}

impl Introduction {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.raw(&MAGIC);
        out.u16(self.versions.oldest);
        out.u16(self.versions.newest);
        out.raw(&self.nonce.0);
        out.u16(self.semantics.0);
        out.u16(self.worker);
        out.u16(self.workers);
        match self.who {
            Who::Joining | Who::Founding { .. } => out.u8(1),
            Who::Starting { cluster, node } => {
                out.u8(2);
                out.u128(cluster.0);
                out.u64(node.0);
            }
            Who::Member { cluster, node, boot } => {
                out.u8(3);
                out.u128(cluster.0);
                out.u64(node.0);
                out.u64(boot.0);
            }
        }
        out.u16(self.to);
        out.u16(self.groups.map_or(0, GroupCount::get));
        if let Who::Founding { id, expects } = self.who {
            out.u8(FOUNDING);
            out.u128(id.0);
            out.u16(expects);
        }
        out
    }

    /// The part that is the same in all versions to come.
    pub(super) fn decode_versions(reader: &mut Reader<'_>) -> Result<Versions, DecodeError> {
        let stranger = reader.error("the magic of a Chorale node");
        if reader.array()? != MAGIC {
            return Err(stranger);
        }
        let reversed = reader.error("versions of which none is older than the oldest");
        let oldest = reader.u16()?;
        let newest = reader.u16()?;
        if oldest > newest {
            return Err(reversed);
        }
        Ok(Versions { oldest, newest })
    }

    /// What follows. More may stand behind it.
    pub(super) fn decode_rest(
        versions: Versions,
        reader: &mut Reader<'_>,
    ) -> Result<Introduction, DecodeError> {
        let nonce = Nonce(reader.array::<NONCE_BYTES>()?);
        let semantics = SemanticsVersion(reader.u16()?);
        let worker = reader.u16()?;
        let error = reader.error("a worker that there is");
        let workers = reader.u16()?;
        if worker >= workers {
            return Err(error);
        }
        let who = match reader.u8()? {
            1 => Who::Joining,
            2 => Who::Starting {
                cluster: ClusterId(reader.u128()?),
                node: NodeId(reader.u64()?),
            },
            3 => Who::Member {
                cluster: ClusterId(reader.u128()?),
                node: NodeId(reader.u64()?),
                boot: Boot(reader.u64()?),
            },
            _ => return Err(reader.unknown("somebody that this version knows of")),
        };
        let (to, groups) = match reader.is_empty() {
            true => (worker, None),
            false => (reader.u16()?, GroupCount::new(reader.u16()?)),
        };
        let intent = match reader.is_empty() {
            true => 0,
            false => reader.u8()?,
        };
        let who = match (who, intent) {
            (Who::Joining, FOUNDING) => Who::Founding {
                id: FoundingId(reader.u128()?),
                expects: reader.u16()?,
            },
            _ => who,
        };
        Ok(Introduction {
            versions,
            who,
            semantics,
            worker,
            workers,
            to,
            groups,
            nonce,
        })
    }
}
