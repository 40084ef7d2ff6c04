//! What a replica does when its group has others: it applies entries, and answers reads as they are asked.

use super::Replica;
use crate::batch::{AnswersBuf, Batch, Question, Read, reads};
use crate::member::Sender;
use crate::parked::{Awaited, ReadPlace};
use crate::response::BatchOutcome;
use crate::turn::Turn;
use bytes::Bytes;
use ids::{Db, Monotonic};
use keyspace::{Answered, AttachedRead, Batched, Entry, Keyspace, LeaderLocal, Origin, UnknownSemantics};
use resp::{Args, FrozenRope, Writer};
use std::time::Duration;
use txn::{Locks, Participant, Participants, TxnId};

/// Carries out a command that must not write, in words.
pub(crate) fn read_words(
    keyspace: &Keyspace,
    local: &mut LeaderLocal,
    db: Db,
    args: Args<'_>,
    out: &mut Writer<'_>,
) {
    let parsed = command::resolve_in_group(args).and_then(|spec| {
        let parsed = command::parse(spec, args);
        parsed.unwrap_or_else(|| Err(command::ReplyError::unknown_command(args)))
    });
    match parsed {
        Ok(command) if command.writes() => command::ReplyError::unknown_command(args).write(out),
        Ok(command) => {
            keyspace.read(db, &command, local, out);
        }
        Err(error) => error.write(out),
    }
}

impl Replica {
    /// Applies an entry, and says what became of the batches in it behind the first `own` ones: `batches` are those, with
    /// the reads that came in them. Who does not lead answers nobody; clients of its own node may listen to what happens.
    ///
    /// # Errors
    /// The entry follows rules that this build does not know: nothing of it was applied.
    pub(crate) fn apply(
        &mut self,
        turn: &Turn,
        entry: &Entry<'_>,
        own: usize,
        batches: &[&Batch],
        senders: &[Sender],
        leads: bool,
    ) -> Result<Vec<BatchOutcome>, UnknownSemantics> {
        self.begin(turn);
        // They were looked at when they came.
        let questions: Vec<Vec<Read<'_>>> = batches
            .iter()
            .map(|batch| reads(&batch.reads).unwrap_or_default())
            .collect();
        let mut attached: Vec<AttachedRead<'_>> = Vec::new();
        // Which of `batches` each attached read came in.
        let mut places: Vec<usize> = Vec::new();
        // And which of its reads it is.
        let mut indices: Vec<u32> = Vec::new();
        if questions.iter().any(|questions| !questions.is_empty()) {
            let mut start = 0;
            for (at, batch) in entry.batches().iter().enumerate() {
                let index = at.checked_sub(own).filter(|index| *index < questions.len());
                let reads = index.iter().flat_map(|index| &questions[*index]);
                for (read_index, read) in (0..).zip(reads) {
                    if let Question::Command { db, protocol, .. } = &read.question {
                        places.extend(index);
                        indices.push(read_index);
                        attached.push(AttachedRead {
                            position: start + read.position as usize,
                            db: *db,
                            protocol: *protocol,
                            args: read.question.args(),
                        });
                    }
                }
                start += batch.len();
            }
        }
        // Answers come in the order of the items: a read before the write that it stood before.
        let of_batches = entry.batches().iter().skip(own).zip(batches);
        let mut answers: Vec<AnswersBuf> = of_batches
            .map(|(operations, _)| AnswersBuf::with_room(operations.len()))
            .collect();
        let mut verdicts: Vec<Batched> = Vec::with_capacity(entry.batches().len());
        let parked = &mut self.parked;
        self.keyspace
            .apply_with_reads(entry, &attached, &mut self.local, |answered| match answered {
                Answered::Batch(batched) => verdicts.push(batched),
                Answered::Operation(answer) => {
                    let index = (verdicts.len() - 1).checked_sub(own);
                    if let Some(buf) = index.and_then(|index| answers.get_mut(index)) {
                        buf.operation(answer);
                    }
                }
                Answered::Read(index, reply) => answers[places[index]].reply(reply),
                Answered::ReadLater(index, behind) => {
                    let (batch, place) = (places[index], indices[index]);
                    let place = ReadPlace {
                        sender: senders[batch],
                        sequence: batches[batch].sequence,
                        index: place,
                    };
                    let awaits = Awaited::of_command(attached[index].args);
                    if parked.park(place, batches[batch].reads.clone(), behind, awaits) {
                        answers[batch].later();
                    } else {
                        answers[batch].crowded_out();
                    }
                }
                Answered::Freed(keyspace, local, left) => parked.look_again(keyspace, local, left),
            })?;
        if !leads {
            self.local.met_expired.clear();
        }
        let said = verdicts
            .into_iter()
            .skip(own)
            .zip(answers)
            .zip(entry.batches().iter().skip(own));
        Ok(said
            .map(|((batched, answers), batch)| match batched {
                Batched::Applied | Batched::Repeated => BatchOutcome::Done(answers.finish()),
                Batched::Forgotten | Batched::Fenced => BatchOutcome::Evicted,
                // Sent again after a while, it acknowledges more.
                Batched::Refused => BatchOutcome::NotLeader { leader: None },
                Batched::Gap => BatchOutcome::Gap {
                    applied: self.keyspace.last_batch(batch.gateway),
                },
            })
            .collect())
    }

    /// Answers one read from the state as it is, or lets it wait for the transactions that hold its keys. What is read is as
    /// it was judged by the leader's clock, as reads are: what has expired since the last entry is absent when it is watched,
    /// and absent for the `EXEC`, whose entry is later.
    pub(crate) fn answer(
        &mut self,
        turn: &Turn,
        now: Monotonic,
        question: &Question<'_>,
        place: ReadPlace,
        all: &Bytes,
        answers: &mut AnswersBuf,
    ) {
        self.begin(turn);
        if let &Question::Parked { sequence, index } = question
            && self.parked.holds(ReadPlace {
                sequence,
                index,
                ..place
            })
        {
            return answers.later();
        }
        let is_admitted = match question {
            Question::Command { .. } => self.keyspace.admits_read(question.args()),
            _ => self.keyspace.admits(|| question.locks()),
        };
        if !is_admitted {
            let awaited = match question {
                Question::Command { .. } => Awaited::of_command(question.args()),
                _ => Awaited::Keys(question.locks()),
            };
            // While transactions come and go, there may never be a moment in which none of them holds any key.
            let is_starved = matches!(
                (question, &awaited),
                (Question::See(_), Awaited::Keys(Locks::WholeGroup(_)))
            );
            let behind = self.keyspace.behind();
            if !is_starved && self.parked.park(place, all.clone(), behind, awaited) {
                return answers.later();
            }
            return answers.crowded_out();
        }
        let age = match question {
            Question::See(_) | Question::Fetch(_) => self.age_of(question, now),
            _ => Duration::ZERO,
        };
        crate::parked::answer(&self.keyspace, &mut self.local, question, age, answers);
    }

    /// The mistake of [`planted::Bug::KeptIgnoredByRead`].
    pub(crate) fn answer_past_locks(
        &mut self,
        turn: &Turn,
        question: &Question<'_>,
        answers: &mut AnswersBuf,
    ) {
        self.begin(turn);
        crate::parked::answer(&self.keyspace, &mut self.local, question, Duration::ZERO, answers);
    }

    /// For how long, at least, nothing has changed of what a question asks for.
    fn age_of(&self, question: &Question<'_>, now: Monotonic) -> Duration {
        let (keyspace, local) = (&self.keyspace, &self.local);
        let changed = match question {
            Question::Fetch(keys) => keyspace.last_change(keys.iter().copied(), local),
            _ => question.block(|conditions, commands| {
                let mut keys: Vec<(Db, &[u8])> = Vec::new();
                for command in commands {
                    let Ok(spec) = command::resolve_in_group(command.args) else {
                        continue;
                    };
                    if spec.route != command::Route::Keys {
                        return Some(keyspace.applied());
                    }
                    command::keys(spec, command.args, &mut |position, _| {
                        keys.push((command.db, command.args.arg(position)));
                    });
                }
                for condition in conditions {
                    keys.push((condition.db(), condition.key()));
                }
                keyspace.last_change(keys, local)
            }),
        };
        changed.map_or(Duration::ZERO, |version| self.marks.age(version, now))
    }

    /// Whatever was applied so far was applied before `now`.
    pub(crate) fn mark(&mut self, now: Monotonic) {
        self.marks.mark(now, self.keyspace.applied());
    }

    /// Nobody is answered here any more.
    pub(crate) fn step_down(&mut self) {
        self.parked.clear();
        self.local.wounds.clear();
        self.local.torn.clear();
        self.local.late.clear();
    }

    /// The transactions that older ones have begun to wait for since the last call, with their participants.
    pub fn take_wounds(&mut self) -> Vec<(TxnId, Participants)> {
        std::mem::take(&mut self.local.wounds)
    }

    /// Whether anything was answered later than its batch, or an older transaction has begun to wait, and nobody was told.
    pub(crate) fn has_late(&self) -> bool {
        let local = &self.local;
        let is_told = local.late.is_empty() && local.wounds.is_empty() && local.torn.is_empty();
        self.parked.has_answered() || !is_told
    }

    /// The transactions that are committed elsewhere and were refused or dropped here, found since the last call.
    pub fn take_torn(&mut self) -> Vec<TxnId> {
        std::mem::take(&mut self.local.torn)
    }

    /// The log that is applied from here on is the group's in this generation.
    pub fn begin_generation(&mut self, generation: u64) {
        self.generation = generation;
        self.keyspace.set_place(self.place());
    }

    /// The same, where the group begins anew with the state of this replica.
    pub fn begin_anew(&mut self, generation: u64) {
        self.begin_generation(generation);
        self.keyspace.begin_anew(generation);
    }

    fn place(&self) -> Participant {
        Participant {
            group: self.group,
            generation: self.generation,
        }
    }

    /// What was answered later than its batch since the last call.
    pub(crate) fn take_late(&mut self) -> Vec<(Origin, FrozenRope)> {
        let late = std::mem::take(&mut self.local.late).into_iter();
        let answers = late.filter_map(|origin| {
            let answer = self.keyspace.late_answer(origin).ok()??;
            let mut answers = AnswersBuf::default();
            answers.operation(answer);
            Some((origin, answers.finish()))
        });
        answers.collect()
    }

    /// Whether a read of these keys need not wait for a transaction.
    #[inline]
    pub fn admits(&self, locks: impl FnOnce() -> Locks) -> bool {
        self.keyspace.admits(locks)
    }

    /// Carries out a command that only reads, under the leader's lease: what [`Replica::execute`] is to a group alone.
    #[inline]
    pub fn read_leased(&mut self, turn: &Turn, db: Db, command: &command::Command<'_>, out: &mut Writer<'_>) {
        self.begin(turn);
        debug_assert!(!command.writes(), "what writes is an entry");
        self.keyspace.read(db, command, &mut self.local, out);
    }

    /// Whether an operation or a read waits for any of these transactions.
    pub(crate) fn is_any_awaited(&self, mut txns: impl Iterator<Item = TxnId>) -> bool {
        let keyspace = &self.keyspace;
        if !keyspace.has_lock_waiters() && self.parked.len() == 0 {
            return false;
        }
        txns.any(|txn| {
            let is_read = || {
                keyspace
                    .locks_of(txn)
                    .is_some_and(|locks| self.parked.awaits(locks))
            };
            keyspace.is_awaited(txn) || is_read()
        })
    }

    /// Reads that wait for transactions.
    pub fn parked_count(&self) -> usize {
        self.parked.len()
    }

    /// Whether nothing is locked, lent or waited for, so that the group can become a replicated one.
    pub fn is_quiet(&self) -> bool {
        let is_unlocked = self.inherits || self.keyspace.is_unlocked();
        is_unlocked && self.brief.is_empty() && self.askers.is_empty() && self.lent.is_empty()
    }

    /// Forgets all data: the replica here is a member no more, or another one.
    pub fn forget(&mut self) {
        let seed = self.keyspace.seed();
        self.replace_keyspace(Keyspace::new(seed, self.keyspace.partitions()));
    }

    /// Forgets all data, and does not touch it again, not even to free it: a step that panicked may have left it in pieces.
    pub fn abandon(&mut self) {
        let seed = self.keyspace.seed();
        let empty = Keyspace::new(seed, self.keyspace.partitions()).knows(self.known);
        std::mem::forget(std::mem::replace(&mut self.keyspace, empty));
        self.marks.clear();
        self.step_down();
    }

    /// Goes on with what an earlier life of this replica held. Only before anything was carried out.
    pub fn restore(&mut self, keyspace: Keyspace) {
        self.inherits = !keyspace.is_unlocked();
        self.replace_keyspace(keyspace);
        self.entry_is_open = false;
    }

    /// Whether a transaction has, or may have, left something to be done here: what is held then is not all there is.
    pub fn has_transactions(&self) -> bool {
        let holds = !self.is_replicated && !self.keyspace.is_unlocked();
        holds || !self.brief.is_empty() || !self.lent.is_empty()
    }

    /// Ends here, and leaves the data.
    pub fn into_keyspace(self) -> Keyspace {
        self.keyspace
    }

    /// Expired keys that reads have met: to be deleted by an entry.
    pub fn take_met_expired(&mut self) -> Vec<(Db, Box<[u8]>)> {
        if self.keeps_expired {
            self.local.met_expired.clear();
        }
        std::mem::take(&mut self.local.met_expired)
    }

    /// Keys that have expired, found by looking at no more than about `objects_max` objects: to be deleted by an entry.
    /// `true` if the whole group was searched.
    pub fn find_expired(
        &mut self,
        turn: &Turn,
        objects_max: usize,
        found: &mut Vec<(Db, Box<[u8]>)>,
    ) -> bool {
        self.begin(turn);
        self.keeps_expired || self.keyspace.due(turn.now, objects_max, found)
    }

    /// Becomes what a leader has sent. What was here is dropped piece by piece.
    pub(crate) fn replace_keyspace(&mut self, keyspace: Keyspace) {
        let before = std::mem::replace(&mut self.keyspace, keyspace.knows(self.known));
        self.keyspace.set_place(self.place());
        self.keyspace.adopt_garbage(before.into_garbage());
        self.marks.clear();
    }

    pub(crate) fn keyspace_mut(&mut self) -> &mut Keyspace {
        &mut self.keyspace
    }
}
