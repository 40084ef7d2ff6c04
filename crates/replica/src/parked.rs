//! Reads that wait for transactions at the leader of a replicated group, and the ages of what is read.
//!
//! A read of a key that a prepared transaction holds must not see the value before the decision: it is answered when the
//! key is free, behind whatever had begun to wait before it. Such reads are the leader's alone. Who leads next is asked
//! again.

use crate::batch::{AnswersBuf, Question, reads};
use crate::member::Sender;
use bytes::Bytes;
use ids::{GatewayId, Monotonic, Version};
use keyspace::{Keyspace, LeaderLocal};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use txn::Locks;

/// Reads that wait in one group. At the limit one more is answered `TRYAGAIN`.
const PARKED_MAX: usize = 65_536;

/// Points in time that are remembered of a group; the oldest go. What changed before them counts as that old.
const MARKS_MAX: usize = 256;

/// Which read of which batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadPlace {
    /// Who sent it.
    pub sender: Sender,
    /// The batch in the sender's count.
    pub sequence: u64,
    /// Which of its reads.
    pub index: u32,
}

impl ReadPlace {
    fn key(self) -> (GatewayId, u64, u32) {
        (self.sender.gateway, self.sequence, self.index)
    }
}

struct ParkedRead {
    place: ReadPlace,
    /// The reads of the batch.
    reads: Bytes,
    /// How many had begun to wait when it came.
    behind: u64,
    locks: Locks,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Parked {
    reads: VecDeque<ParkedRead>,
    /// Where those stand: whose, and which read of which batch.
    places: BTreeSet<(GatewayId, u64, u32)>,
    /// What was answered since it was last taken.
    answered: Vec<(ReadPlace, Vec<u8>)>,
}

impl Parked {
    /// Lets a read wait. `false` if there is no room.
    pub(crate) fn park(&mut self, place: ReadPlace, all: Bytes, behind: u64, locks: Locks) -> bool {
        if self.reads.len() >= PARKED_MAX {
            return false;
        }
        self.places.insert(place.key());
        self.reads.push_back(ParkedRead {
            place,
            reads: all,
            behind,
            locks,
        });
        true
    }

    /// Whether this read waits.
    pub(crate) fn holds(&self, place: ReadPlace) -> bool {
        self.places.contains(&place.key())
    }

    /// Keys may have become free.
    pub(crate) fn look_again(&mut self, keyspace: &Keyspace, local: &mut LeaderLocal) {
        let Parked { answered, places, .. } = self;
        self.reads.retain(|read| {
            if !keyspace.admits_behind(&read.locks, read.behind) {
                return true;
            }
            let mut answers = AnswersBuf::default();
            let all = reads(&read.reads).expect("they were read when they came");
            answer(
                keyspace,
                local,
                &all[read.place.index as usize].question,
                Duration::ZERO,
                &mut answers,
            );
            places.remove(&read.place.key());
            answered.push((read.place, answers.finish()));
            false
        });
    }

    /// Whether anything was answered.
    pub(crate) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// What was answered.
    pub(crate) fn take_answered(&mut self) -> Vec<(ReadPlace, Vec<u8>)> {
        std::mem::take(&mut self.answered)
    }

    /// Somebody else leads: who sent them asks there.
    pub(crate) fn clear(&mut self) {
        self.reads.clear();
        self.places.clear();
        self.answered.clear();
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.reads.len()
    }
}

/// Answers one read from the state as it is. What it reads has not changed for so long as `age` says.
pub(crate) fn answer(
    keyspace: &Keyspace,
    local: &mut LeaderLocal,
    question: &Question<'_>,
    age: Duration,
    answers: &mut AnswersBuf,
) {
    match question {
        Question::Versions(keys) => {
            let versions = keys
                .iter()
                .map(|(db, key)| keyspace.version_read(*db, key, local));
            answers.versions(versions);
        }
        Question::Command {
            db,
            protocol,
            touches,
            ..
        } => {
            let mut bytes = Vec::new();
            let mut out = resp::Writer::new(&mut bytes, *protocol);
            local.touches = *touches;
            crate::replica::read_words(keyspace, local, *db, question.args(), &mut out);
            local.touches = true;
            answers.reply(&bytes);
        }
        Question::See(_) => {
            let mut replies: Vec<Vec<u8>> = Vec::new();
            let is_carried_out = question.block(|conditions, commands| {
                // By the leader's clock, as reads are.
                let holds = |condition: &keyspace::Condition<'_>| match *condition {
                    keyspace::Condition::Unchanged { db, key, version } => {
                        keyspace.version_read(db, key, local) == version
                    }
                    keyspace::Condition::Absent { db, key } => {
                        matches!(
                            keyspace.version_read(db, key, local),
                            keyspace::KeyVersion::Absent(_)
                        )
                    }
                };
                if !conditions.iter().all(holds) {
                    return false;
                }
                for command in commands {
                    let mut bytes = Vec::new();
                    let mut out = resp::Writer::new(&mut bytes, command.protocol);
                    crate::replica::read_words(keyspace, local, command.db, command.args, &mut out);
                    replies.push(bytes);
                }
                true
            });
            answers.seen(age, is_carried_out, replies.iter().map(|reply| &**reply));
        }
        Question::Fetch(keys) => {
            let seen: Vec<Vec<u8>> = keys
                .iter()
                .map(|(db, key)| {
                    let (object, version) = keyspace.seen_object(*db, key, local);
                    let mut bytes = Vec::new();
                    keyspace::write_seen(&mut bytes, object.as_ref(), version);
                    bytes
                })
                .collect();
            answers.seen(age, true, seen.iter().map(|one| &**one));
        }
        Question::Late(origin) => match keyspace.late_answer(*origin) {
            Ok(Some(answer)) => answers.operation(answer),
            Ok(None) => answers.later(),
            Err(keyspace::UnknownOrigin) => answers.gone(),
        },
        // One that waits is told so before this.
        Question::Parked { .. } => answers.gone(),
        Question::Wound(_) => answers.block(std::iter::empty()),
    }
}

/// When what was applied: for how long a value has been what it is.
#[derive(Default)]
pub(crate) struct Marks(VecDeque<(Monotonic, Version)>);

impl Marks {
    /// Whatever has a version up to `applied` was applied before `now`.
    pub(crate) fn mark(&mut self, now: Monotonic, applied: Version) {
        if self.0.back().is_some_and(|(_, known)| *known >= applied) {
            return;
        }
        if self.0.len() == MARKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, applied));
    }

    /// For how long, at least, what has this version has been there.
    pub(crate) fn age(&self, version: Version, now: Monotonic) -> Duration {
        let at = self.0.partition_point(|(_, applied)| *applied < version);
        self.0
            .get(at)
            .map_or(Duration::ZERO, |(since, _)| now.since(*since))
    }

    /// The state is another one.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_old_as_the_first_mark_that_holds_it() {
        let mut marks = Marks::default();
        let at = |millis: u64| Monotonic(millis * 1_000_000);
        assert_eq!(marks.age(Version(1), at(9)), Duration::ZERO, "nothing is known");
        marks.mark(at(10), Version(5));
        marks.mark(at(20), Version(9));
        marks.mark(at(30), Version(9));
        assert_eq!(marks.age(Version(5), at(40)), Duration::from_millis(30));
        assert_eq!(marks.age(Version(6), at(40)), Duration::from_millis(20));
        assert_eq!(marks.age(Version(10), at(40)), Duration::ZERO);
        marks.clear();
        assert_eq!(marks.age(Version(5), at(40)), Duration::ZERO);
    }

    #[test]
    fn the_oldest_marks_go_and_values_only_seem_younger() {
        let mut marks = Marks::default();
        for millis in 0..1_000 {
            marks.mark(Monotonic(millis), Version(millis));
        }
        assert_eq!(
            marks.age(Version(3), Monotonic(1_000)),
            Duration::from_nanos(MARKS_MAX as u64)
        );
    }
}
