//! The rule: when a generation is over, what is reported, what begins the next one, and how it becomes whole.
//!
//! 1. The meta group knows that a majority of the voters came back as others: the generation is over, for good.
//! 2. Each replica that hears so does nothing more in that generation. It syncs its log, then says where it ends, whether it holds a
//!    change of the members, and whether it is whole: neither empty nor below a floor. A later start says it again.
//! 3. In question are the configuration that was reported, and a later one that a reported log holds. Those that have not reported
//!    a whole log are no majority of any of them; but an only voter that came back empty is passed over if all others are whole.
//! 4. And the lost are a majority of each, or everybody has reported.
//! 5. The best log, by generation, term and place, begins the next generation, as its only voter. All others keep theirs until
//!    they are filled.

use super::{BeginAnew, ENTRIES_MAX, Mistake, Replica, Said, State, Step, Write};
use crate::explore::Next;
use crate::replicas::Set;

impl BeginAnew {
    fn lost(&self, state: &State) -> Set {
        Set::which(self.bounds.replicas, |at| !state.replicas[at].belongs)
    }

    /// The meta group says that a generation is over when a majority of its voters, as they were reported, came back as others.
    pub(super) fn may_end(&self, state: &State) -> bool {
        let is_lost = match self.is(Mistake::MissingIsLost) {
            true => self.lost(state) != Set::NONE,
            false => self.lost(state).is_majority_of(state.voters),
        };
        !state.is_over && state.generation + 1 < self.bounds.generations && is_lost
    }

    pub(super) fn recovery_steps(&self, state: &State, at: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = &state.replicas[at];
        if state.is_over && me.said.is_none() && self.may_report(state, at) {
            let mut next = *state;
            let replica = &mut next.replicas[at];
            if !self.is(Mistake::ReportNotSynced) {
                replica.synced = me.log.len;
            }
            replica.said = Some(Said {
                // Who came back with nothing is behind everybody, whenever it lost the rest.
                generation: if me.is_empty { 0 } else { me.generation },
                last: self.last(&me.log),
                changes: me.log.has_change(),
                is_whole: self.is_whole(me),
            });
            if !self.is(Mistake::ReportsBindNobody) {
                (replica.is_sealed, replica.leads) = (true, false);
            }
            go(Step::Reported { replica: at }, Ok(next));
        }
        if self.is_chosen(state, at) {
            go(Step::Begun { with: at }, self.begin(state, at));
        }
        if me.generation < state.generation && Self::acts(me) {
            let mut next = *state;
            let replica = &mut next.replicas[at];
            (replica.belongs, replica.leads) = (false, false);
            (replica.is_sealed, replica.said) = (true, None);
            go(Step::Heard { replica: at }, Ok(next));
        }
        if me.knows_change && state.generation == 0 && !state.is_change_reported {
            let mut next = *state;
            next.is_change_reported = true;
            next.voters = self.bounds.target.unwrap_or_default();
            go(Step::ChangeReported { by: at }, Ok(next));
        }
        if state.is_change_reported && state.generation == 0 && !state.voters.has(at) {
            let mut next = *state;
            next.released = state.released.with(at);
            next.replicas[at] = Replica::default();
            go(Step::Released { replica: at }, Ok(next));
        }
        let leads_anew = me.leads && Self::acts(me) && me.generation > 0 && me.generation == state.generation;
        if leads_anew && state.voters == Set::of(at) && !state.is_over {
            self.grow(state, at, go);
        }
    }

    fn may_report(&self, state: &State, at: usize) -> bool {
        let me = &state.replicas[at];
        let is_led = (0..self.bounds.replicas).any(|other| {
            let it = &state.replicas[other];
            it.leads && it.generation == me.generation && (it.term == me.term || other == at)
        });
        !self.is(Mistake::ReportsBindNobody) || !is_led || !me.belongs
    }

    fn is_whole(&self, replica: &Replica) -> bool {
        let is_damaged = self.last(&replica.log) < replica.floor;
        (!replica.is_empty || self.is(Mistake::EmptyCounts))
            && (!is_damaged || self.is(Mistake::DamagedCounts))
    }

    fn is_chosen(&self, state: &State, at: usize) -> bool {
        let Some(mine) = state.replicas[at].said else {
            return false;
        };
        let everybody = self.everybody(state);
        let candidates = everybody
            .each()
            .filter(|&at| !self.is(Mistake::OnlyVoters) || state.voters.has(at));
        let said = candidates.filter_map(|at| state.replicas[at].said);
        let rank = |said: Said| match self.mistake {
            Some(Mistake::ByLength) => (said.generation, (0, 0), said.last.1),
            Some(Mistake::AnyGeneration) => (0, (0, said.last.0.1), said.last.1),
            _ => (said.generation, said.last.0, said.last.1),
        };
        let is_best = said.map(rank).max() == Some(rank(mine));
        state.is_over && is_best && self.enough_is_whole(state) && self.is_lost(state)
    }

    /// The configurations that may be in force.
    fn in_question(&self, state: &State) -> impl Iterator<Item = Set> {
        let said = state.replicas.iter().filter_map(|replica| replica.said);
        let mut first_ones = said.filter(|said| said.generation == 0);
        let is_changing = match self.mistake {
            Some(Mistake::OnlyWhatWasReported) => false,
            Some(Mistake::Guessed) => true,
            _ => first_ones.any(|said| said.changes),
        };
        let later = self
            .bounds
            .target
            .filter(|_| is_changing && state.generation == 0);
        [Some(state.voters), later].into_iter().flatten()
    }

    /// Whether those of whom nothing is known are no majority, so that nobody goes on without this, and what was synced is known.
    fn enough_is_whole(&self, state: &State) -> bool {
        let whole = Set::which(self.bounds.replicas, |at| {
            state.replicas[at].said.is_some_and(|said| said.is_whole)
        });
        // What a group of one had is gone with its disk, whoever is waited for. What it began with, the others have, if none of
        // them lost anything.
        let is_gone = |voters: Set| {
            let others = self.everybody(state).but(voters);
            let is_empty = |at: usize| state.replicas[at].is_empty && state.replicas[at].said.is_some();
            voters.0.count_ones() == 1
                && voters.each().all(is_empty)
                && (others.but(whole) == Set::NONE || self.is(Mistake::LoneIsNotMissed))
        };
        self.is(Mistake::MajorityMayBeMissing)
            || self
                .in_question(state)
                .all(|voters| !voters.but(whole).is_majority_of(voters) || is_gone(voters))
    }

    /// Whether a majority came back as others, so that it is their loss and not the others' absence that costs what is lost. Where all
    /// have said what they have, nothing is to be had by waiting.
    fn is_lost(&self, state: &State) -> bool {
        let lost = self.lost(state);
        let mut everybody = self.everybody(state).each();
        self.is(Mistake::MissingIsLost)
            || everybody.all(|at| state.replicas[at].said.is_some())
            || match self.is(Mistake::Guessed) {
                true => lost.is_majority_of(state.voters),
                false => self.in_question(state).all(|voters| lost.is_majority_of(voters)),
            }
    }

    fn begin(&self, state: &State, at: usize) -> Next<State> {
        let log = state.replicas[at].log;
        let everybody = self.everybody(state);
        let asked = Set::which(self.bounds.replicas, |at| {
            everybody.has(at) && state.replicas[at].said.is_some()
        });
        let end = self.last(&log);
        let mut next = *state;
        next.begun_without_all |= asked != everybody;
        next.acknowledged = [Write::default(); ENTRIES_MAX];
        next.count = 0;
        for write in Self::acknowledged(state) {
            if log.has(write) {
                let write = Write {
                    is_kept: true,
                    ..*write
                };
                next.acknowledged[usize::from(next.count)] = write;
                next.count += 1;
                continue;
            }
            let gone = self.lost(state);
            let holds = |at: usize| state.replicas[at].log.has(write);
            if write.is_synced {
                return Err("what a majority had synced is lost");
            }
            if write.is_kept && state.disks == 0 {
                return Err("what a generation began with is lost");
            }
            if !write.voters.iter().any(|voters| gone.is_majority_of(*voters)) {
                return Err("a write is lost although no majority of its configuration lost its power");
            }
            if asked.each().any(holds) {
                return Err("a write is lost that somebody who was asked has");
            }
            if (self.key(write.entry), write.index) <= end {
                return Err("a write is lost that lies before the end which is named");
            }
        }
        next.generation += 1;
        next.is_over = false;
        next.voters = Set::of(at);
        for (other, replica) in next.replicas.iter_mut().enumerate() {
            replica.said = None;
            if other != at && self.is(Mistake::CopiesDiscarded) && asked.has(other) {
                replica.log.cut(0);
                replica.synced = 0;
            }
        }
        let term = match self.is(Mistake::TermsGoOn) {
            true => {
                log.entries()
                    .last()
                    .map_or(0, |entry| entry.term)
                    .max(state.replicas[at].term)
                    + 1
            }
            false => 1,
        };
        let is_synced_before = next.replicas[at].synced;
        next.replicas[at] = Replica {
            belongs: true,
            leads: true,
            generation: next.generation,
            term,
            log,
            synced: is_synced_before,
            ..Replica::default()
        };
        Ok(next)
    }

    /// The leader of a new generation fills the others, and then all vote: both are synced before they count.
    fn grow(&self, state: &State, leader: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = state.replicas[leader];
        let others = self.bounds.voters.but(Set::of(leader));
        for at in others.each() {
            let it = &state.replicas[at];
            // Whoever still takes part in a former generation has not heard of this one.
            if it.generation < me.generation && Self::acts(it) || state.released.has(at) {
                continue;
            }
            let mut next = *state;
            self.append(&mut next, leader, at);
            let replica = &mut next.replicas[at];
            (replica.belongs, replica.is_sealed, replica.is_empty) = (true, false, false);
            (replica.generation, replica.synced) = (me.generation, replica.log.len);
            (replica.said, replica.floor) = (None, Default::default());
            // A former copy may go on behind the place where the generation began: it is cut there.
            let is_same = replica.log.entries().get(..me.log.entries().len()) == Some(me.log.entries());
            replica.log.cut(me.log.len.min(replica.log.len));
            replica.synced = replica.log.len;
            let step = Step::Filled { replica: at, leader };
            if !is_same {
                go(step, Err("who is filled does not hold what the leader holds"));
            } else if next != *state {
                go(step, Ok(next));
            }
        }
        let is_filled = |at: usize| {
            let it = &state.replicas[at];
            Self::acts(it) && it.generation == me.generation && it.log == me.log
        };
        if others.each().all(is_filled) {
            let mut next = *state;
            next.voters = self.bounds.voters;
            for at in self.bounds.voters.each() {
                let replica = &mut next.replicas[at];
                replica.term = me.term;
                replica.synced = replica.log.len;
            }
            go(Step::Whole { leader }, Ok(next));
        }
    }
}
