//! The meta group begins anew with one member, because the majority of the others is gone with its disks.
//!
//! ```text
//!   the log on a recovery source's disk --RecoveredMeta::of--> the same state with one member, in a new generation --> its log
//! ```
//!
//! What the recovery source did not know when the others were lost is not known to anybody any more. So that nothing is given out a
//! second time that they may have given out, all counters leap: by more than anybody counts, and by a random part, so that
//! two recovery sources that were both made to begin anew, which must not be, can be told apart when they meet: the larger epoch
//! wins, and whoever is not in its map leaves its seat.

use super::seat::Restored;
use crate::group::GroupRef;
use consensus::{Index, Members, SnapshotPoint};
use ids::NodeId;

/// By how much counters leap at least.
const LEAP: u64 = 1 << 32;

/// Of the random part, so many bits are used.
const LEAP_BITS: u32 = 30;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveredMeta {
    /// The place in the log at which the new state stands, behind all that is there.
    pub point: SnapshotPoint,
    /// The state, as a snapshot for this node's disk.
    pub state: Vec<u8>,
    /// How many times the meta group has begun anew, this time included.
    pub generation: u64,
    /// The version of the map that the recovery source knew.
    pub epoch: u64,
    /// Entries of its log that were not known to be committed, and count from now on.
    pub uncommitted: u64,
    /// The nodes that had the other voters, with their peer addresses.
    pub others: Vec<(NodeId, String)>,
}

impl RecoveredMeta {
    /// From what is on the disk of `node`. `chance` is drawn at random. None if the log is not one that can be gone on with, or
    /// the node is no member of the cluster, or the only voter already.
    pub fn of(restored: &Restored, node: NodeId, chance: u64) -> Option<RecoveredMeta> {
        let ((last, term), mut book) = restored.book()?;
        let state = &mut book.state;
        let epoch = state.epoch().0;
        let meta = state.groups.get(&GroupRef::Meta)?;
        let voters: Vec<NodeId> = meta.voters().map(|voter| voter.node).collect();
        let is_alone = voters.iter().all(|&voter| voter == node);
        if !state.nodes.contains_key(&node) || is_alone {
            return None;
        }
        let others = voters.into_iter().filter(|&voter| voter != node);
        let others = others.filter_map(|voter| {
            let known = state.nodes.get(&voter)?;
            Some((voter, known.announcement.peer.clone()))
        });
        let others = others.collect();
        let (me, generation) = state.recover_meta(node, LEAP + (chance >> (u64::BITS - LEAP_BITS)));
        let index = Index(last.0 + 1);
        book.configured = index;
        Some(RecoveredMeta {
            point: SnapshotPoint {
                index,
                term,
                members: Members::of_voters([me]),
            },
            state: book.encode_for(me),
            generation,
            epoch,
            uncommitted: last.0.saturating_sub(restored.hard_state.commit.0),
            others,
        })
    }
}
