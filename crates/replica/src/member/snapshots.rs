//! State on its way: to learners, to this replica, and to the disk.

use crate::disk::DiskRequest;
use crate::member::Effects;
use crate::snapshot_sender::{Lost, SnapshotSender};
use crate::state::GroupState;
use crate::turn::Copying;
use consensus::{Index, RaftNode, SnapshotPoint, Term};
use ids::{Incarnation, Monotonic};
use keyspace::{Keyspace, OwnRows, SnapshotReceiver};
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
    /// A snapshot on its way to the disk.
    storing: Option<SnapshotSender>,
    /// Whether one is to be begun.
    is_due: bool,
    /// Keys that commands had changed when the last piece of it was made, and when that of the one was that was stored last.
    changes_made: u64,
    changes_stored: u64,
    /// Rows of fragments that were made anew here: by now, when the one under way was begun, and when the one was that was stored last.
    rows_made: u64,
    rows_begun: u64,
    rows_stored: u64,
    /// See [`Snapshots::take_copied`].
    copied: Option<CopyCost>,
}

/// What making pieces of a state took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyCost {
    /// Nanoseconds. Of what writes outrun none are said, since no rest is to follow.
    pub nanos: u64,
    /// Bytes of those that go to other nodes, but for the end of a transfer, when all that there was has been sent: what is written outruns it,
    /// and comes at once with its last piece.
    pub sent_bytes: usize,
}

/// State on its way to this replica.
pub(super) struct Incoming {
    from: Incarnation,
    pub(super) transfer: u64,
    pub(super) next: u64,
    receiver: SnapshotReceiver,
    own_rows: OwnRows,
    point: Option<(Index, Term)>,
}

impl Snapshots {
    /// Of a replica whose state is to be stored first of all, if it is.
    pub(super) fn new(is_due: bool) -> Snapshots {
        Snapshots {
            is_due,
            ..Snapshots::default()
        }
    }

    /// A snapshot of the state is to be stored; if one is under way, that is the one.
    pub(super) fn store_soon(&mut self) {
        self.is_due = self.storing.is_none();
    }

    /// Whether the next piece may go to the disk.
    pub(super) fn may_store(&self) -> bool {
        self.is_due || self.storing.as_ref().is_some_and(SnapshotSender::may_send)
    }

    /// A piece is on disk; with the last one, all of it is.
    pub(super) fn on_stored(&mut self, snapshot: u64, number: u64) {
        let its = self.storing.as_mut();
        let its = its.filter(|sender| sender.transfer() == snapshot);
        if let Some(sender) = its
            && sender.on_taken(number).is_some()
        {
            self.changes_stored = self.changes_made;
            self.rows_stored = self.rows_begun;
            self.ended.extend(self.storing.take());
        }
    }

    /// The state is one that came, of which the disk has a snapshot: what commands have changed here is in it, or void.
    pub(super) fn note_installed(&mut self, changes: u64) {
        (self.changes_made, self.changes_stored) = (changes, changes);
    }

    /// How many keys commands had changed when the snapshot was made that was stored last.
    pub(super) fn changes_stored(&self) -> u64 {
        self.changes_stored
    }

    /// So many rows of fragments were made anew here.
    pub(super) fn note_rows(&mut self, made: u64) {
        self.rows_made = made;
    }

    /// How many of them are on disk, at least.
    pub(super) fn rows_stored(&self) -> u64 {
        self.rows_stored
    }

    /// What was on its way to the disk did not come there. Whoever wants a snapshot asks for one again.
    pub(super) fn on_not_stored(&mut self, snapshot: u64) {
        let is_its = |sender: &mut SnapshotSender| sender.transfer() == snapshot;
        self.ended.extend(self.storing.take_if(is_its));
    }

    /// The state becomes another one. Whether a snapshot was on its way to the disk.
    pub(super) fn give_up_storing(&mut self) -> bool {
        self.is_due = false;
        let storing = self.storing.take();
        let was_under_way = storing.is_some();
        self.ended.extend(storing);
        was_under_way
    }

    /// Sends the disk the next piece of the state.
    pub(super) fn store_next(
        &mut self,
        state: &mut GroupState,
        copying: Copying,
        raft: &RaftNode,
        effects: &mut Effects,
    ) {
        if std::mem::take(&mut self.is_due) {
            self.transfers += 1;
            self.storing = SnapshotSender::begin(self.transfers, state.keyspace_mut());
            self.rows_begun = self.rows_made;
            // As many learners are given the state as may be: later.
            self.is_due = self.storing.is_none();
        }
        let Some(sender) = self.storing.as_mut().filter(|_| copying.may_copy) else {
            return;
        };
        if sender.point().is_none() {
            self.changes_made = state.local.changes;
        }
        let began = (copying.clock)();
        let next = sender.next(state.keyspace_mut(), copying.chunk_bytes, || raft.point());
        if next.as_ref().is_ok_and(Option::is_some) {
            note_copied(&mut self.copied, copying, began, sender.lags(), 0);
        }
        match next {
            Ok(chunk) => effects.disk.extend(chunk.map(|chunk| DiskRequest::Chunk {
                snapshot: chunk.transfer,
                number: chunk.number,
                point: sender.point().cloned().map(Box::new),
                bytes: chunk.bytes,
            })),
            Err(Lost) => {
                self.give_up_storing();
                self.is_due = true;
                effects.disk.push(DiskRequest::GiveUp);
            }
        }
        self.end(state.keyspace_mut());
    }

    /// Ends all that is on its way from here.
    pub(super) fn end_all(&mut self, keyspace: &mut Keyspace) {
        self.step_down();
        self.give_up_storing();
        self.end(keyspace);
    }

    /// Whether a piece could be made for a learner.
    pub(super) fn wants_to_send(&self) -> bool {
        self.senders.values().any(SnapshotSender::may_send)
    }

    /// Whether a piece could be made, for the disk or for a learner.
    pub(super) fn wants_to_copy(&self) -> bool {
        self.may_store() || self.wants_to_send()
    }

    /// See [`Member::take_copied`](super::Member::take_copied).
    pub(super) fn take_copied(&mut self) -> Option<CopyCost> {
        self.copied.take()
    }

    /// Whether anything is on its way to a learner, or was.
    pub(super) fn has_senders(&self) -> bool {
        !self.senders.is_empty() || !self.ended.is_empty()
    }

    /// Takes a piece of state; whether it was the next one. An error if it cannot be read: its sender is to begin again.
    ///
    /// Where it has rows of the sender, those of `former`, the state that there is here, take their places in it.
    pub(super) fn on_chunk(
        &mut self,
        from: Incarnation,
        chunk: &mut Chunk,
        former: &Keyspace,
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
                own_rows: OwnRows::default(),
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
        if let Some(bytes) = incoming.own_rows.put_in(former, &chunk.bytes) {
            chunk.bytes = bytes;
        }
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
    pub(super) fn send_next(
        &mut self,
        state: &mut GroupState,
        copying: Copying,
        raft: &mut RaftNode,
        effects: &mut Effects,
    ) {
        let mut lost = Vec::new();
        if copying.may_copy && copying.may_send && !self.senders.is_empty() {
            for (&to, sender) in &mut self.senders {
                let began = (copying.clock)();
                let next = sender.next(state.keyspace_mut(), copying.chunk_bytes, || raft.point());
                if let Ok(Some(chunk)) = &next {
                    let charged = if sender.is_ending() { 0 } else { chunk.bytes.len() };
                    note_copied(&mut self.copied, copying, began, sender.lags(), charged);
                }
                match next {
                    Ok(chunk) => effects.chunks.extend(chunk.map(|chunk| (to, chunk))),
                    Err(Lost) => lost.push(to),
                }
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

/// A piece was made since the clock showed `began`.
fn note_copied(copied: &mut Option<CopyCost>, copying: Copying, began: u64, lags: bool, sent_bytes: usize) {
    let copied = copied.get_or_insert_default();
    copied.sent_bytes += sent_bytes;
    if !lags {
        copied.nanos += (copying.clock)() - began;
    }
}
