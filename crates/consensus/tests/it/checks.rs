//! What must be true of a group, whatever happened. It sees everything, and knows nothing of the protocol's inside.

use std::collections::BTreeMap;

use consensus::{Committed, EntryEffect, Index, RaftNode, ReadPermit, Term};
use ids::{Incarnation, Monotonic};

use crate::node::State;

/// A promise that was broken.
pub(crate) type Broken = String;

#[derive(Default)]
pub(crate) struct Checks {
    leaders: BTreeMap<Term, Incarnation>,
    /// The one history: what is committed at each place, and the state after it.
    history: BTreeMap<Index, (Committed, State)>,
    /// As many numbers every read must see that begins now.
    pub(crate) floor: u64,
    pub(crate) acknowledged: u64,
    pub(crate) leased_reads: u64,
    pub(crate) confirmed_reads: u64,
}

impl Checks {
    pub(crate) fn on_leader(
        &mut self,
        term: Term,
        leader: Incarnation,
        group: &RaftNode,
    ) -> Result<(), Broken> {
        let known = self.leaders.entry(term).or_insert(leader);
        if *known != leader {
            return Err(format!("{known:?} and {leader:?} lead in {term:?}"));
        }
        // Whoever leads later than the last commitment has everything that is committed.
        if let Some((index, (last, _))) = self.history.last_key_value()
            && last.term < term
            && group.point().index < *index
        {
            let log = group.entries_after(Index(index.0 - 1));
            if log
                .first()
                .is_none_or(|entry| entry.index != *index || entry.term != last.term)
            {
                return Err(format!("{leader:?} leads in {term:?} without {index:?}"));
            }
        }
        Ok(())
    }

    /// A replica applied `entry`, which made its state `after`.
    pub(crate) fn on_applied(
        &mut self,
        who: Incarnation,
        entry: &Committed,
        after: State,
    ) -> Result<(), Broken> {
        match self.history.get(&entry.index) {
            Some((known, state)) => {
                if known.term != entry.term || known.effect != entry.effect || *state != after {
                    return Err(format!(
                        "{who:?} applied {entry:?} ({after:?}), others {known:?} ({state:?})"
                    ));
                }
            }
            None => {
                self.history.insert(entry.index, (entry.clone(), after));
            }
        }
        Ok(())
    }

    pub(crate) fn on_installed(&self, who: Incarnation, index: Index, state: State) -> Result<(), Broken> {
        match self.history.get(&index) {
            Some((_, known)) if *known != state => Err(format!(
                "{who:?} installed {state:?} for {index:?}, which is {known:?}"
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn on_acknowledged(&mut self, count: u64) {
        self.acknowledged += 1;
        self.floor = self.floor.max(count);
    }

    /// A read that began when `floor` numbers had to be visible saw `count`.
    pub(crate) fn on_read(
        &mut self,
        who: Incarnation,
        floor: u64,
        count: u64,
        how: &str,
    ) -> Result<(), Broken> {
        if count < floor {
            return Err(format!("{who:?} answered a {how} read with {count} of {floor}"));
        }
        self.floor = self.floor.max(count);
        Ok(())
    }

    /// The last change of the members that is known at all.
    fn last_change(&self) -> Option<Index> {
        let mut entries = self.history.iter().rev();
        let (index, _) = entries.find(|(_, (entry, _))| matches!(entry.effect, EntryEffect::Members(_)))?;
        Some(*index)
    }

    /// Of a leader whose voters have disks that keep what was written: `kept` says up to where one of them knows, if its process ends
    /// now, that everything is committed.
    pub(crate) fn on_known_change(
        &self,
        leader: &RaftNode,
        kept: impl Fn(Incarnation) -> Option<Index>,
    ) -> Result<(), Broken> {
        let Some(index) = self
            .last_change()
            .filter(|index| leader.is_known_committed(*index))
        else {
            return Ok(());
        };
        let voters = &leader.members().voters;
        let keeps = |voter: &&Incarnation| **voter == leader.me() || kept(**voter) >= Some(index);
        if 2 * voters.iter().filter(keeps).count() > voters.len() {
            return Ok(());
        }
        Err(format!(
            "{:?} takes the change {index:?} for known by a majority, of which most would not remember it",
            leader.me()
        ))
    }

    /// Of all replicas, at one moment.
    pub(crate) fn on_leases<'a>(
        &self,
        replicas: impl Iterator<Item = (&'a RaftNode, State, Monotonic)>,
    ) -> Result<(), Broken> {
        let mut holder = None;
        for (group, state, now) in replicas {
            if !matches!(group.read_permit(now), ReadPermit::Lease(_)) {
                continue;
            }
            if let Some(other) = holder.replace(group.me()) {
                return Err(format!("{other:?} and {:?} hold leases", group.me()));
            }
            if state.count < self.floor {
                let (me, count, floor) = (group.me(), state.count, self.floor);
                return Err(format!("{me:?} holds a lease over {count} of {floor}"));
            }
        }
        Ok(())
    }
}

/// Whether an entry appends a number.
pub(crate) fn number_of(entry: &Committed) -> Option<u64> {
    match &entry.effect {
        EntryEffect::Apply(data) => Some(u64::from_le_bytes(data[..].try_into().expect("eight bytes"))),
        EntryEffect::Nothing | EntryEffect::Members(_) => None,
    }
}
