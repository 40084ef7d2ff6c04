//! A replica between two lives of its node's process: all that the next one needs to go on as the same. It was handed over by the last
//! stop, or read from the log.
//!
//! ```text
//!   seats --Gateway::into_handover_images--> HandoverImage --> file --> next start --> HandoverImage --Gateway::keep--> seats
//! ```
//!
//! Nothing may be said in its name between: whoever makes one has no gateway any more that could.

use super::seat::Seat;
use consensus::{Config, Durability, RaftNode, Saved, SnapshotPoint, Times};
use ids::{Boot, GroupId, Incarnation, Monotonic};
use keyspace::Keyspace;
use replica::{Replica, Turn};

/// See the file's header.
pub struct HandoverImage {
    /// Its group.
    pub group: GroupId,
    /// Whose memory.
    pub incarnation: Incarnation,
    /// Its part in consensus, which reflects what the keyspace does; none in a group that nobody else had a part in.
    pub rest: Option<(SnapshotPoint, Saved)>,
    /// The generation of its group, where that stands in a log.
    pub generation: Option<u64>,
    /// The data. None while they are being read from disk: the seat waits for them ([`crate::Gateway::on_kept_state`]).
    pub keyspace: Option<Keyspace>,
}

impl HandoverImage {
    /// What consensus begins with, if the replica has a part in it.
    pub(super) fn config(&self, durability: Durability, node_start: Boot, seed: u64) -> Option<Config> {
        let (start, saved) = self.rest.clone()?;
        Some(Config {
            group: self.group,
            me: self.incarnation,
            start,
            saved,
            durability,
            node_start,
            times: Times::DEFAULT,
            seed,
        })
    }

    /// Whether a replica can begin with it.
    pub fn is_sound(&self) -> bool {
        self.config(Durability::Memory, Boot(0), 0)
            .is_none_or(|config| RaftNode::new(config, Monotonic(0)).is_ok())
    }

    /// What a seat and its replica leave behind; none if that is not all that the group relies on.
    pub(super) fn of(
        seat: Seat,
        mut replica: Replica,
        alone: Option<Incarnation>,
        turn: &Turn,
        now: Monotonic,
    ) -> Option<HandoverImage> {
        let group = replica.group();
        if replica.has_transactions() {
            return None;
        }
        let (incarnation, rest) = if let Some(member) = replica.member() {
            // A file that is handed over has no floors, and who lacks something without one would count for what it has not.
            if member.raft().is_below_floor() {
                return None;
            }
            (seat.incarnation?, Some(replica.end(turn, now)?))
        } else if seat.recovered.is_some() {
            // It waits until it may begin its group anew.
            (seat.incarnation?, None)
        } else if replica.has_log() {
            return None;
        } else {
            (alone?, None)
        };
        Some(HandoverImage {
            group,
            incarnation,
            rest,
            generation: None,
            keyspace: Some(replica.into_keyspace()),
        })
    }
}
