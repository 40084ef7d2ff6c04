//! Reads that wait until a round has confirmed that nobody else leads, and then for the state to be as new as that
//! (`ReadIndex`, Ongaro's thesis, section 6.4).

use super::Sender;
use super::gathering::Gathered;
use consensus::{Index, RaftNode, ReadId};
use ids::Monotonic;

/// See the file's header.
#[derive(Default)]
pub(super) struct Unconfirmed {
    /// In order, each with the round that will confirm it.
    reads: Vec<(Option<ReadId>, Gathered)>,
    /// Those that were confirmed as of an index that is not applied yet.
    confirmed: Vec<(Index, Gathered)>,
}

impl Unconfirmed {
    pub(super) fn len(&self) -> usize {
        self.reads.len() + self.confirmed.len()
    }

    /// Whether any of them waits for a round.
    pub(super) fn awaits_round(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Whether any of them is of this sender.
    pub(super) fn has_read_of(&self, sender: Sender) -> bool {
        let unconfirmed = self.reads.iter().map(|(_, read)| read);
        let mut all = unconfirmed.chain(self.confirmed.iter().map(|(_, read)| read));
        all.any(|read| read.sender == sender)
    }

    pub(super) fn push(&mut self, read: Gathered) {
        self.reads.push((None, read));
    }

    /// The same of a read that was evaluated this turn. What its gateway asked behind it is not to be answered before it; a round
    /// that was begun for that was begun after this one was evaluated.
    pub(super) fn push_evaluated(&mut self, read: Gathered) {
        let is_later =
            |later: &Gathered| later.sender == read.sender && later.batch.sequence > read.batch.sequence;
        match self.reads.iter().position(|(_, later)| is_later(later)) {
            Some(at) => self.reads.insert(at, (self.reads[at].0, read)),
            None => self.push(read),
        }
    }

    /// Takes out those of a sender.
    pub(super) fn remove_of(&mut self, sender: Sender) -> impl Iterator<Item = Gathered> {
        let its = self.reads.extract_if(.., move |(_, read)| read.sender == sender);
        its.map(|(_, read)| read)
    }

    /// Begins a round for those that have none: one for all of them.
    pub(super) fn begin_round(&mut self, raft: &mut RaftNode, now: Monotonic) {
        if self.reads.iter().any(|(round, _)| round.is_none())
            && let Ok(round) = raft.read_index(now)
        {
            for (awaited, _) in &mut self.reads {
                awaited.get_or_insert(round);
            }
        }
    }

    /// A round has confirmed leadership: its reads may be answered from a state as of `index`.
    pub(super) fn on_confirmed(&mut self, round: ReadId, index: Index) {
        let reads = self.reads.extract_if(.., |(awaited, _)| *awaited == Some(round));
        self.confirmed.extend(reads.map(|(_, read)| (index, read)));
    }

    /// A round will never be confirmed: hands out its reads.
    pub(super) fn on_round_lost(&mut self, round: ReadId) -> impl Iterator<Item = Gathered> {
        let its = self
            .reads
            .extract_if(.., move |(awaited, _)| *awaited == Some(round));
        its.map(|(_, read)| read)
    }

    /// Hands out those whose state is there.
    pub(super) fn take_confirmed(&mut self, applied: Index) -> Vec<Gathered> {
        let ready = self.confirmed.extract_if(.., |(index, _)| *index <= applied);
        ready.map(|(_, read)| read).collect()
    }

    /// Hands out all of them.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Gathered> {
        let unconfirmed = self.reads.drain(..).map(|(_, read)| read);
        unconfirmed.chain(self.confirmed.drain(..).map(|(_, read)| read))
    }
}
