//! What a group does by itself: writes, elections, a change of its members, an unclean replica that is taken in again.

use super::{BeginAnew, ENTRIES_MAX, Entry, Mistake, Replica, State, Step, Write};
use crate::explore::Next;
use crate::replicas::Set;

impl BeginAnew {
    pub(super) fn group_steps(&self, state: &State, at: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = &state.replicas[at];
        if !Self::acts(me) {
            return;
        }
        let others = Set::which(self.bounds.replicas, |other| {
            let it = &state.replicas[other];
            other != at && Self::acts(it) && it.generation == me.generation && !state.released.has(other)
        });
        if me.leads {
            let has_room = usize::from(me.log.len) < ENTRIES_MAX;
            if state.writes < self.bounds.writes && has_room {
                let mut next = *state;
                next.writes += 1;
                next.replicas[at].log.push(Entry {
                    generation: me.generation,
                    term: me.term,
                    changes: false,
                });
                go(Step::Appended { leader: at }, Ok(next));
            }
            let may_change = self.bounds.target.is_some() && me.generation == 0 && !me.log.has_change();
            if may_change && has_room {
                let mut next = *state;
                let log = &mut next.replicas[at].log;
                log.push(Entry {
                    generation: me.generation,
                    term: me.term,
                    changes: true,
                });
                if !self.is(Mistake::ChangeNotSynced) {
                    next.replicas[at].synced = log.len;
                }
                go(Step::ChangeAppended { leader: at }, Ok(next));
            }
            let hears = Set::which(self.bounds.replicas, |other| {
                others.has(other) && state.replicas[other].term <= me.term
            });
            for to in hears.each() {
                let mut next = *state;
                self.append(&mut next, at, to);
                if next != *state {
                    go(Step::Sent { leader: at, to }, Ok(next));
                }
            }
            for by in hears.subsets() {
                let next = self.acknowledge(state, at, by);
                if next != Ok(*state) {
                    go(Step::Acknowledged { leader: at, by }, next);
                }
            }
            for replica in 0..self.bounds.replicas {
                self.take_in(state, at, replica, hears, go);
            }
        }
        let is_voter = self.configurations(state, me).iter().any(|voters| voters.has(at));
        if is_voter && self.last(&me.log) >= me.floor {
            self.elections(state, at, others, go);
        }
    }

    fn elections(&self, state: &State, at: usize, others: Set, go: &mut dyn FnMut(Step, Next<State>)) {
        let me = &state.replicas[at];
        let configurations = self.configurations(state, me);
        let grants = Set::which(self.bounds.replicas, |other| {
            let it = &state.replicas[other];
            let last = self.last(&me.log);
            others.has(other) && last >= self.last(&it.log) && last >= it.floor
        });
        let is_quorum = |by: Set| {
            let all = by.with(at);
            configurations.iter().all(|voters| all.is_majority_of(*voters))
        };
        for by in grants.subsets() {
            // Whoever is asked beyond a majority only learns of the term, and may learn of it later.
            if !is_quorum(by) || by.each().any(|one| is_quorum(by.but(Set::of(one)))) {
                continue;
            }
            let terms = by.with(at).each().map(|one| state.replicas[one].term);
            let term = terms.max().unwrap_or_default() + 1;
            if term > self.bounds.terms {
                continue;
            }
            let mut next = *state;
            for one in by.with(at).each() {
                next.replicas[one].term = term;
                next.replicas[one].leads = one == at;
            }
            let led_by = &mut next.leaders[usize::from(me.generation)][usize::from(term)];
            let is_second = *led_by != 0 && *led_by != u8::try_from(at).expect("few") + 1;
            *led_by = u8::try_from(at).expect("few") + 1;
            let lacks = Self::acknowledged(state)
                .any(|write| write.entry.generation == me.generation && !me.log.has(write));
            let step = Step::Elected { leader: at, by };
            if is_second {
                go(step, Err("two leaders in one term"));
            } else if lacks {
                go(step, Err("a leader lacks what its generation has acknowledged"));
            } else {
                go(step, Ok(next));
            }
        }
    }

    /// The leader's log comes to `to`, as entries or as a head start and what follows it.
    pub(super) fn append(&self, state: &mut State, leader: usize, to: usize) {
        let source = state.replicas[leader];
        let replica = &mut state.replicas[to];
        replica.term = source.term;
        replica.leads = false;
        let (old, new) = (replica.log, source.log);
        let pairs = old.entries().iter().zip(new.entries());
        let common = pairs
            .take_while(|(old, new)| self.key(**old) == self.key(**new))
            .count();
        if common < new.entries().len() {
            let common = u8::try_from(common).expect("few");
            replica.log.cut(common);
            replica.synced = replica.synced.min(common);
            for entry in &new.entries()[usize::from(common)..] {
                replica.log.push(*entry);
            }
        }
        replica.knows_change |= source.knows_change && replica.log.has_change();
        // A majority that has the change, has it for good: whoever is asked later knows who voted.
        if replica.log.has_change() && !self.is(Mistake::ChangeNotSynced) {
            replica.synced = replica.log.len;
        }
        self.settle_floor(replica);
    }

    /// A floor ends when what reaches it is synced: until then lost power could take it, and nobody would know that it was there.
    pub(super) fn settle_floor(&self, replica: &mut Replica) {
        let is_synced = replica.synced == replica.log.len || self.is(Mistake::FloorEndsUnsynced);
        if is_synced && self.last(&replica.log) >= replica.floor {
            replica.floor = Default::default();
        }
    }

    fn acknowledge(&self, state: &State, leader: usize, by: Set) -> Next<State> {
        let mut next = *state;
        for to in by.each() {
            self.append(&mut next, leader, to);
        }
        let me = next.replicas[leader];
        let configurations = self.configurations(&next, &me);
        let all = by.with(leader);
        let is_own = |entry: &Entry| (entry.generation, entry.term) == (me.generation, me.term);
        let enough = configurations.iter().all(|voters| all.is_majority_of(*voters));
        if !enough || !me.log.entries().last().is_some_and(is_own) {
            return Ok(next);
        }
        if by.each().any(|one| next.replicas[one].log != me.log) {
            return Err("what is acknowledged is not what is held");
        }
        next.replicas[leader].knows_change |= me.log.has_change();
        for (index, entry) in (1..).zip(me.log.entries()) {
            let is_known =
                Self::acknowledged(&next).any(|write| (write.entry, write.index) == (*entry, index));
            if entry.changes || is_known {
                continue;
            }
            if me.generation < next.generation {
                return Err("acknowledged in a generation that is over");
            }
            if entry.generation < me.generation {
                // It came with the log that the generation began with; its client was told that the outcome is unknown.
                continue;
            }
            next.acknowledged[usize::from(next.count)] = Write {
                entry: *entry,
                index,
                voters: configurations,
                ..Write::default()
            };
            next.count += 1;
        }
        Ok(next)
    }

    /// An unclean replica is a learner, then a voter again: a change that a majority of the others has, on its log's newest entry.
    fn take_in(
        &self,
        state: &State,
        leader: usize,
        at: usize,
        hears: Set,
        go: &mut dyn FnMut(Step, Next<State>),
    ) {
        let (me, it) = (&state.replicas[leader], &state.replicas[at]);
        let is_own = |entry: &Entry| (entry.generation, entry.term) == (me.generation, me.term);
        let voters = self.configurations(state, me);
        let is_voter = voters[0] == voters[1] && voters[0].has(at);
        let waits = !it.belongs && !it.is_sealed && it.generation == me.generation;
        if !is_voter || !waits || !me.log.entries().last().is_some_and(is_own) {
            return;
        }
        for by in hears.subsets() {
            if !by.with(leader).is_majority_of(voters[0]) {
                continue;
            }
            let next = self.acknowledge(state, leader, by).map(|mut next| {
                for one in by.with(leader).each() {
                    next.replicas[one].synced = next.replicas[one].log.len;
                }
                self.append(&mut next, leader, at);
                let replica = &mut next.replicas[at];
                (replica.belongs, replica.is_empty) = (true, false);
                replica.synced = replica.log.len;
                replica.floor = Default::default();
                next
            });
            let step = Step::TakenIn {
                replica: at,
                leader,
                by,
            };
            go(step, next);
        }
    }
}
