//! State on its way: to learners, and to this replica.

use crate::member::Effects;
use crate::snapshot_sender::{Lost, SnapshotSender};
use crate::state::GroupState;
use consensus::{Index, RaftNode, SnapshotPoint, Term};
use ids::{Incarnation, Monotonic};
use keyspace::{Keyspace, SnapshotReceiver};
use std::collections::{BTreeMap, BTreeSet};

/// A piece of state on its way to a learner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Which transfer: never used again by this replica.
    pub transfer: u64,
    /// Which piece, from 0 on.
    pub number: u64,
    /// With the last piece: what the state reflects.
    pub point: Option<(Index, Term)>,
    /// The piece.
    pub bytes: Vec<u8>,
}

/// See the file's header.
#[derive(Default)]
pub(super) struct Snapshots {
    senders: BTreeMap<Incarnation, SnapshotSender>,
    /// Learners that have all of the state, up to a place in the log, and may not have said yet that they go on from there.
    offered: BTreeSet<Incarnation>,
    /// Snapshot senders that are over, and that the keyspace has not been told of.
    ended: Vec<SnapshotSender>,
    /// How many were begun.
    transfers: u64,
    pub(super) incoming: Option<Incoming>,
}

/// State on its way to this replica.
pub(super) struct Incoming {
    from: Incarnation,
    pub(super) transfer: u64,
    pub(super) next: u64,
    receiver: SnapshotReceiver,
    point: Option<(Index, Term)>,
}

impl Snapshots {
    /// Whether anything is on its way to a learner, or was.
    pub(super) fn has_senders(&self) -> bool {
        !self.senders.is_empty() || !self.ended.is_empty()
    }

    /// Takes a piece of state; whether it was the next one. An error if it cannot be read: its sender is to begin again.
    pub(super) fn on_chunk(
        &mut self,
        from: Incarnation,
        chunk: &Chunk,
        raft: &mut RaftNode,
    ) -> Result<bool, String> {
        let is_late = |incoming: &Incoming| incoming.from == from && chunk.transfer < incoming.transfer;
        if self.incoming.as_ref().is_some_and(is_late) {
            // Sent before the one that is under way, and overtaken by it.
            return Ok(false);
        }
        if chunk.number == 0 {
            if !raft.hold_transfer(None) {
                // What is held is about to be installed.
                return Ok(false);
            }
            self.incoming = Some(Incoming {
                from,
                transfer: chunk.transfer,
                next: 0,
                receiver: SnapshotReceiver::new(),
                point: None,
            });
        }
        let Some(incoming) = &mut self.incoming else {
            return Ok(false);
        };
        let is_next =
            incoming.from == from && incoming.transfer == chunk.transfer && incoming.next == chunk.number;
        if !is_next || incoming.point.is_some() {
            return Ok(false);
        }
        incoming.next += 1;
        if let Err(error) = incoming.receiver.take(&chunk.bytes) {
            self.incoming = None;
            return Err(error.to_string());
        }
        incoming.point = chunk.point;
        if chunk.point.is_some() {
            // Only now may the leader's snapshot message pass: what it stands for is here, and whole.
            let _ = raft.hold_transfer(chunk.point);
        }
        Ok(true)
    }

    /// Hands out the state that came, which reflects this point.
    pub(super) fn take_installed(&mut self, point: &SnapshotPoint) -> Keyspace {
        let incoming = self
            .incoming
            .take()
            .expect("consensus was told of it only when it was whole");
        let here = Some((point.index, point.term));
        assert_eq!(
            incoming.point, here,
            "consensus was told of this state and no other"
        );
        incoming
            .receiver
            .finish()
            .expect("the last chunk completes the state")
    }

    /// A learner is to be given the state. Whether it is: not if it is given it already.
    pub(super) fn begin(&mut self, to: Incarnation, keyspace: &mut Keyspace) -> bool {
        self.offered.remove(&to);
        if self.senders.contains_key(&to) {
            return false;
        }
        self.transfers += 1;
        let sender = SnapshotSender::begin(self.transfers, keyspace);
        self.senders.extend(sender.map(|sender| (to, sender)));
        true
    }

    /// A learner has taken a piece, or has not: `is_taken` is `false` if the transfer is to begin again.
    pub(super) fn on_chunk_answer(
        &mut self,
        from: Incarnation,
        (transfer, number): (u64, u64),
        is_taken: bool,
        now: Monotonic,
        raft: &mut RaftNode,
    ) {
        let its = self.senders.get_mut(&from);
        let Some(sender) = its.filter(|sender| sender.transfer() == transfer) else {
            return;
        };
        if !is_taken {
            return self.fail(from, raft);
        }
        if let Some(point) = sender.on_taken(number) {
            self.ended.extend(self.senders.remove(&from));
            if raft.offer_transfer(from, point, now) {
                self.offered.insert(from);
            } else {
                raft.transfer_failed(from);
            }
        }
    }

    /// What is on its way to a learner is to begin again.
    pub(super) fn fail(&mut self, to: Incarnation, raft: &mut RaftNode) {
        if let Some(sender) = self.senders.remove(&to) {
            self.ended.push(sender);
            raft.transfer_failed(to);
        }
    }

    /// Begins again what has stood still for long.
    pub(super) fn fail_stalled(&mut self, now: Monotonic, raft: &mut RaftNode) {
        for (to, sender) in self.senders.extract_if(.., |_, sender| sender.is_stalled(now)) {
            self.ended.push(sender);
            raft.transfer_failed(to);
        }
    }

    /// Whether a member applies what is applied here now itself. A learner that is still given the state finds it done.
    pub(super) fn is_applied_by(&self, member: Incarnation, raft: &RaftNode) -> bool {
        match self.senders.get(&member) {
            // What is in the last piece is not applied again.
            Some(sender) => sender.held().is_some_and(|held| held < raft.point().index),
            None => {
                let matched = raft.matched(member);
                self.offered.contains(&member) || matched.is_some_and(|matched| matched > Index(0))
            }
        }
    }

    /// Ends all that is on its way to learners: this replica does not lead any more.
    pub(super) fn step_down(&mut self) {
        self.ended.extend(std::mem::take(&mut self.senders).into_values());
    }

    /// Tells the keyspace of those that are over.
    pub(super) fn end(&mut self, keyspace: &mut Keyspace) {
        self.ended.drain(..).for_each(|sender| sender.end(keyspace));
    }

    /// Sends learners the next piece of the state.
    pub(super) fn send_next(&mut self, state: &mut GroupState, raft: &mut RaftNode, effects: &mut Effects) {
        let mut lost = Vec::new();
        let chunk_bytes = state.turn.chunk_bytes;
        for (&to, sender) in &mut self.senders {
            match sender.next(state.keyspace_mut(), chunk_bytes, || raft.point()) {
                Ok(chunk) => effects.chunks.extend(chunk.map(|chunk| (to, chunk))),
                Err(Lost) => lost.push(to),
            }
        }
        lost.into_iter().for_each(|to| self.fail(to, raft));
        self.end(state.keyspace_mut());
    }

    /// The place behind which the log is still needed for each learner.
    pub(super) fn held(&self) -> impl Iterator<Item = Index> {
        self.senders.values().filter_map(SnapshotSender::held)
    }
}
