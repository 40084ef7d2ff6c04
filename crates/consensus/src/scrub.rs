//! What the replicas of a group say to each other of their states, so that one that differs is found.
//!
//! ```text
//!   entry begins a round --> hash of a slice --> told to all other members
//!                                                      |
//!            what is known of a round: own hash, others' hashes
//!                |
//!                +-- most voters say the same --+-- so does this one: all is well; who says otherwise is named
//!                |                              '-- this one does not: it is given up
//!                '-- all have spoken, and no hash has a majority: nobody can tell who is right, and it is said
//! ```
//!
//! Which entries begin rounds, and what is hashed, is the state machine's concern: it must say the same everywhere. Nobody waits for
//! what is told here: a word that is lost is not sent again, since another round comes soon.
//!
//! Each judges itself. What most voters agree on counts, whoever leads: the leader may be the one that is wrong. When a replica gives
//! itself up, a majority that does not differ is there: the group goes on.
//!
//! Invariants:
//! 1. At most [`ROUNDS_MAX`] rounds are known.
//! 2. Nobody is named, and nobody gives up, without a majority of the voters that agree.

use crate::message::{Index, Members};
use ids::Incarnation;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds that are known at once. Whoever is further behind is not compared until he has caught up.
const ROUNDS_MAX: usize = 8;

/// What a replica says of its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scrubbed {
    /// The entry that began the round.
    pub at: Index,
    /// The hash behind it.
    pub hash: u64,
}

/// What comes of what is known of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Too few have spoken; or there is nothing new.
    Open,
    /// A majority agrees, and this replica with it. Said once of a round.
    Agreed,
    /// A majority agrees, and this replica differs.
    Differs,
    /// All voters have spoken, and no hash has a majority. Said once until a majority agrees again: rounds follow each other by the
    /// second.
    Undecided,
}

#[derive(Default)]
struct Round {
    own: Option<u64>,
    others: BTreeMap<Incarnation, u64>,
    is_judged: bool,
}

/// See the file's header.
pub struct Scrub {
    me: Incarnation,
    /// What was applied when this began: entries up to there may have begun rounds that nobody here has seen.
    since: Index,
    rounds: BTreeMap<Index, Round>,
    /// Members that were found to differ.
    differing: BTreeSet<Incarnation>,
    /// Of these, the ones that nobody was told of.
    unnamed: Vec<Incarnation>,
    /// Whether no majority agreed when one was last looked for.
    is_undecided: bool,
}

impl Scrub {
    /// Of a replica whose state reflects entries up to `since`, which others may have applied.
    pub fn new(me: Incarnation, since: Index) -> Scrub {
        Scrub {
            me,
            since,
            rounds: BTreeMap::new(),
            differing: BTreeSet::new(),
            unnamed: Vec::new(),
            is_undecided: false,
        }
    }

    /// The state was replaced by what a leader sent, which reflects entries up to `since`.
    pub fn restart(&mut self, since: Index) {
        *self = Scrub::new(self.me, since);
    }

    /// The hash of this replica's own state.
    pub fn took(&mut self, scrubbed: Scrubbed) {
        if let Some(round) = self.round(scrubbed.at) {
            round.own = Some(scrubbed.hash);
        }
    }

    /// Another member has told its own.
    pub fn heard(&mut self, from: Incarnation, scrubbed: Scrubbed) {
        if let Some(round) = self.round(scrubbed.at) {
            round.others.insert(from, scrubbed.hash);
        }
    }

    /// The round that this entry began, unless it is older than all that there is room for.
    fn round(&mut self, at: Index) -> Option<&mut Round> {
        let is_new = !self.rounds.contains_key(&at);
        if is_new && self.rounds.len() >= ROUNDS_MAX {
            let oldest = *self.rounds.keys().next()?;
            if at < oldest {
                return None;
            }
            self.rounds.remove(&oldest);
        }
        Some(self.rounds.entry(at).or_default())
    }

    /// A round that others have found where this replica, which has applied its entry, has none.
    pub fn missed(&self, applied: Index) -> Option<Index> {
        let passed = self.rounds.range(..=applied).filter(|(at, _)| **at > self.since);
        let missed = passed.filter(|(_, round)| round.own.is_none());
        missed.map(|(at, _)| *at).next()
    }

    /// What comes of what is known of a round, if these are the members, and entries up to `applied` are applied.
    pub fn judge(&mut self, at: Index, members: &Members, applied: Index) -> Verdict {
        let Some(round) = self.rounds.get_mut(&at) else {
            return Verdict::Open;
        };
        // Who voted for what while voters change is nobody's concern: the next round comes soon.
        let is_due = self.since < at && at <= applied && !members.is_joint();
        if !is_due {
            return Verdict::Open;
        }
        // The entry that began a round elsewhere has been applied here: if it began none, the states differed before.
        let own = round.own;
        let says = |voter: &Incarnation| match *voter == self.me {
            true => own,
            false => round.others.get(voter).copied(),
        };
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for hash in members.voters.iter().filter_map(says) {
            *counts.entry(hash).or_default() += 1;
        }
        let majority = members.voters.len() / 2 + 1;
        let spoken: usize = counts.values().sum();
        let agreed = counts.iter().find(|(_, count)| **count >= majority);
        let verdict = match agreed {
            None if spoken < members.voters.len() => return Verdict::Open,
            None => Verdict::Undecided,
            Some((agreed, _)) if own != Some(*agreed) => return Verdict::Differs,
            Some((&agreed, _)) => {
                let all = members.all();
                self.differing.retain(|known| all.contains(known));
                let differing = round.others.iter().filter(|(_, hash)| **hash != agreed);
                for (other, _) in differing.filter(|(other, _)| all.contains(other)) {
                    if self.differing.insert(*other) {
                        self.unnamed.push(*other);
                    }
                }
                Verdict::Agreed
            }
        };
        let was_undecided = std::mem::replace(&mut self.is_undecided, verdict == Verdict::Undecided);
        match std::mem::replace(&mut round.is_judged, true) || was_undecided && self.is_undecided {
            true => Verdict::Open,
            false => verdict,
        }
    }

    /// The members that were found to differ since this was last asked.
    pub fn take_named(&mut self) -> Vec<Incarnation> {
        std::mem::take(&mut self.unnamed)
    }

    /// The members that were found to differ.
    pub fn differing(&self) -> impl Iterator<Item = Incarnation> {
        self.differing.iter().copied()
    }

    /// Says which of the invariants that can be seen here does not hold.
    pub fn check(&self) -> Result<(), String> {
        match self.rounds.len() {
            0..=ROUNDS_MAX => Ok(()),
            count => Err(format!("invariant 1 of scrubs: {count} rounds")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Incarnation = Incarnation(1);
    const SECOND: Incarnation = Incarnation(2);
    const THIRD: Incarnation = Incarnation(3);
    const LEARNER: Incarnation = Incarnation(4);

    fn members() -> Members {
        Members {
            learners: vec![LEARNER],
            ..Members::of_voters([ME, SECOND, THIRD])
        }
    }

    fn at(index: u64, hash: u64) -> Scrubbed {
        Scrubbed {
            at: Index(index),
            hash,
        }
    }

    /// What a replica that has applied ten entries says of the tenth, after this was said of it, and whom it names.
    fn judged_with(own: Option<u64>, others: &[(Incarnation, u64)]) -> (Verdict, Vec<Incarnation>) {
        let mut scrub = Scrub::new(ME, Index(0));
        own.into_iter().for_each(|hash| scrub.took(at(10, hash)));
        others
            .iter()
            .for_each(|(from, hash)| scrub.heard(*from, at(10, *hash)));
        let verdict = scrub.judge(Index(10), &members(), Index(10));
        (verdict, scrub.take_named())
    }

    fn judged(own: Option<u64>, others: &[(Incarnation, u64)]) -> Verdict {
        judged_with(own, others).0
    }

    #[test]
    fn a_majority_of_voters_is_right_and_whoever_differs_is_named_once() {
        assert_eq!(judged(Some(7), &[]), Verdict::Open);
        assert_eq!(judged(Some(7), &[(LEARNER, 7)]), Verdict::Open, "it has no vote");
        assert_eq!(judged_with(Some(7), &[(SECOND, 7)]), (Verdict::Agreed, vec![]));
        let others = [(SECOND, 7), (THIRD, 8), (LEARNER, 9)];
        assert_eq!(
            judged_with(Some(7), &others),
            (Verdict::Agreed, vec![THIRD, LEARNER])
        );
        let mut scrub = Scrub::new(ME, Index(0));
        let mut named = Vec::new();
        let mut verdicts = Vec::new();
        for round in 1..=2 {
            scrub.took(at(round, 7));
            for (from, hash) in others {
                scrub.heard(from, at(round, hash));
                verdicts.push(scrub.judge(Index(round), &members(), Index(round)));
                named.extend(scrub.take_named());
            }
        }
        assert_eq!(named, [THIRD, LEARNER]);
        let once = [Verdict::Agreed, Verdict::Open, Verdict::Open];
        assert_eq!(verdicts, [once, once].concat());
        assert_eq!(scrub.differing().collect::<Vec<_>>(), [THIRD, LEARNER]);
    }

    #[test]
    fn that_nobody_can_tell_is_said_once_until_a_majority_agrees_again() {
        let mut scrub = Scrub::new(ME, Index(0));
        let mut judge = |round, second, third| {
            scrub.took(at(round, 7));
            scrub.heard(SECOND, at(round, second));
            scrub.heard(THIRD, at(round, third));
            scrub.judge(Index(round), &members(), Index(round))
        };
        assert_eq!(judge(1, 8, 9), Verdict::Undecided);
        assert_eq!(judge(2, 8, 9), Verdict::Open, "that is known");
        assert_eq!(judge(3, 7, 7), Verdict::Agreed);
        assert_eq!(judge(4, 8, 9), Verdict::Undecided);
    }

    #[test]
    fn who_differs_from_a_majority_gives_up_and_from_less_does_not() {
        assert_eq!(judged(Some(7), &[(SECOND, 8)]), Verdict::Open);
        assert_eq!(judged(Some(7), &[(SECOND, 8), (THIRD, 8)]), Verdict::Differs);
        assert_eq!(judged(Some(7), &[(SECOND, 8), (THIRD, 9)]), Verdict::Undecided);
        assert_eq!(judged(Some(7), &[(SECOND, 8), (LEARNER, 8)]), Verdict::Open);
    }

    #[test]
    fn who_has_found_no_round_where_a_majority_has_differs() {
        assert_eq!(judged(None, &[(SECOND, 8), (THIRD, 8)]), Verdict::Differs);
        assert_eq!(judged(None, &[(SECOND, 8), (THIRD, 9)]), Verdict::Open);
        // Also if it comes to its entry when the others have spoken.
        let mut scrub = Scrub::new(ME, Index(0));
        scrub.took(at(5, 7));
        scrub.heard(SECOND, at(10, 8));
        scrub.heard(THIRD, at(10, 8));
        assert_eq!(scrub.missed(Index(9)), None);
        assert_eq!(scrub.missed(Index(10)), Some(Index(10)));
        // Unless it has not come to it, or was given a state that is behind it.
        for (since, applied) in [(0, 9), (10, 10)] {
            let mut scrub = Scrub::new(ME, Index(since));
            scrub.heard(SECOND, at(10, 8));
            scrub.heard(THIRD, at(10, 8));
            let verdict = scrub.judge(Index(10), &members(), Index(applied));
            assert_eq!(verdict, Verdict::Open, "{since}, {applied}");
        }
    }

    #[test]
    fn nobody_is_judged_while_voters_change() {
        let mut scrub = Scrub::new(ME, Index(0));
        scrub.took(at(10, 7));
        scrub.heard(SECOND, at(10, 8));
        scrub.heard(THIRD, at(10, 8));
        let joint = Members {
            outgoing: vec![ME, SECOND],
            ..members()
        };
        assert_eq!(scrub.judge(Index(10), &joint, Index(10)), Verdict::Open);
    }

    #[test]
    fn the_newest_rounds_are_known_and_no_more() {
        let mut scrub = Scrub::new(ME, Index(0));
        for round in 1..=100 {
            scrub.took(at(round, 7));
            scrub.heard(SECOND, at(round, 8));
            scrub.heard(THIRD, at(round.saturating_sub(50), 8));
            assert_eq!(scrub.check(), Ok(()));
        }
        assert_eq!(scrub.judge(Index(50), &members(), Index(100)), Verdict::Open);
        scrub.heard(THIRD, at(100, 8));
        assert_eq!(scrub.judge(Index(100), &members(), Index(100)), Verdict::Differs);
    }
}
