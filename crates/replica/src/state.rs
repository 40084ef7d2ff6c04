//! The state of one group as this node holds it: it changes by entries, of a log or of the group's own turns, and answers reads.
//!
//! Who may change it, and when, is the role's to know: `alone.rs`, `member.rs`.

use crate::batch::{AnswersBuf, Batch, Question, Read, reads};
use crate::member::Sender;
use crate::operation::{Condition, as_conditions};
use crate::replica::Reload;
use crate::request::FullKey;
use crate::response::BatchOutcome;
use crate::turn::{Copying, Turn};
use crate::waiting_reads::{Awaited, LongRead, ReadPlace, Unmade};
use crate::waiting_reads::{Marks, WaitingReads};
use bytes::Bytes;
use ids::{Db, GroupId, HashSeed, Monotonic, PartitionRange, Prng, SemanticsVersion, UnixMillis};
use keyspace::{ApplyOutput, AttachedRead, Batched, Entry, Keyspace, LeaderLocal, Origin, UnknownSemantics};
use keyspace::{
    Cursor, Effect, EncodingLimits, Event, EventClasses, EvictionPolicy, Header, KeyVersion, Lazyfree,
    LongStep, LongValues, Object, OpenTransaction, SnapshotReceiver, TransactionCounts, Transfer,
    TransferStep, Victims,
};
use mutations::Mutation;
use resp::{Args, FrozenRope, ReplyWriter};
use std::time::Duration;
use txn::{Locks, Participant, Participants, TxnId};

/// Carries out a command that must not write, in words.
pub(crate) fn read_words(
    keyspace: &Keyspace,
    local: &mut LeaderLocal,
    db: Db,
    args: Args<'_>,
    out: &mut ReplyWriter<'_>,
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

/// How often long values are begun anew for one read because they have changed, before they are written at once.
const LONG_TRIES_MAX: u32 = 4;

/// Bytes of the pieces in which a state is decoded that was encoded here.
const RELOAD_CHUNK_BYTES: usize = 4 << 20;

/// See [`GroupState::mark_reads`].
#[derive(Clone, Copy, Debug)]
pub struct ReadsMark(u64, u64, usize);

/// See the file's header.
pub struct GroupState {
    pub(crate) group: GroupId,
    /// Those that it was made with.
    pub(crate) partitions: PartitionRange,
    /// How many times the group had begun anew when the log began that is applied here.
    generation: u64,
    pub(crate) keyspace: Keyspace,
    pub(crate) local: LeaderLocal,
    pub(crate) turn: Turn,
    /// Whether `turn` is one that was told.
    has_begun: bool,
    pub(crate) entry_is_open: bool,
    /// How many keys clients wait for, each counted as often as it is waited for.
    awaited: usize,
    /// Reads that wait for transactions of the replicated group, and when what was applied.
    pub(crate) waiting_reads: WaitingReads,
    /// What reads wait for that is here as fragments, and was not asked for yet.
    lacking: Vec<FullKey>,
    marks: Marks,
    /// Whether expired keys stay where they are for now: see [`GroupState::keep_expired`].
    pub(crate) keeps_expired: bool,
    /// The newest rules that its keyspaces know.
    known: SemanticsVersion,
}

/// Lookups that were made elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub struct LocalCounts {
    /// Of keys that were there.
    pub hits: u64,
    /// Of keys that were not.
    pub misses: u64,
}

impl GroupState {
    /// The empty state of `group`, which is made with these partitions; none if it is to take some over.
    pub(crate) fn new(group: GroupId, seed: HashSeed, partitions: PartitionRange) -> GroupState {
        // Not the hash seed itself: what follows from this one shows in random picks.
        let local_seed = seed.hash(b"leader-local").0;
        let mut keyspace = Keyspace::new(seed, partitions);
        keyspace.set_place(Participant::first(group));
        let mut local = LeaderLocal::new(local_seed);
        local.is_alone = true;
        GroupState {
            group,
            partitions,
            generation: 0,
            keyspace,
            local,
            turn: Turn {
                number: 0,
                now: UnixMillis(0),
                seed: 0,
                lfu: None,
                notify: EventClasses::default(),
                steps_max: usize::MAX,
                answers_bytes_max: usize::MAX,
                copying: Copying::at_once(256 * 1024),
                semantics: SemanticsVersion::CURRENT,
                coding: None,
            },
            has_begun: false,
            entry_is_open: false,
            awaited: 0,
            waiting_reads: WaitingReads::default(),
            lacking: Vec::new(),
            marks: Marks::default(),
            keeps_expired: false,
            known: SemanticsVersion::CURRENT,
        }
    }

    /// This state as a build would have it that knows no rules newer than `newest`.
    pub(crate) fn knows(&mut self, newest: SemanticsVersion) {
        self.known = newest;
        let seed = self.keyspace.seed();
        let empty = Keyspace::new(seed, self.partitions);
        self.keyspace = std::mem::replace(&mut self.keyspace, empty).knows(newest);
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The state, to look at.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// What the leader keeps beside it.
    pub fn local(&self) -> &LeaderLocal {
        &self.local
    }

    /// What happened since it was last asked, in order: empty if nobody listens.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.local.events)
    }

    /// Transactions that hold locks and requests that wait.
    pub fn lock_counts(&self) -> (usize, usize) {
        let counts = self.keyspace.transaction_counts();
        (counts.prepared, counts.waiting)
    }

    /// How much of transactions is here, and who waits for them.
    pub fn transaction_counts(&self) -> TransactionCounts {
        self.keyspace.transaction_counts()
    }

    /// How many transactions were refused here because an older one waited for them.
    pub fn wounded(&self) -> u64 {
        self.local.wounded
    }

    /// Keys with the most waiters, and how many these are; at most `max`.
    pub fn hottest_keys(&self, max: usize) -> Vec<(&[u8], usize)> {
        self.keyspace.hottest_keys(max)
    }

    /// The oldest of the transactions that hold locks here, at most `max`.
    pub fn oldest_transactions(&self, max: usize) -> Vec<OpenTransaction> {
        self.keyspace.oldest_transactions(max)
    }

    /// Forgets hits, misses and other counts.
    pub fn reset_counters(&mut self) {
        (self.local.hits, self.local.misses) = (0, 0);
        (self.local.expired, self.local.evicted) = (0, 0);
        self.local.wounded = 0;
        self.keyspace.reset_lazyfree_counts();
    }

    /// Learns the time, once a turn.
    #[inline]
    pub(crate) fn begin(&mut self, turn: &Turn) {
        if self.turn.number != turn.number || !self.has_begun {
            self.has_begun = true;
            self.turn = *turn;
            self.entry_is_open = false;
            self.local.now = turn.now;
            self.local.access.set(turn.now, turn.lfu);
            self.local.notify = turn.notify;
            self.local.answers_bytes_max = match self.local.is_alone {
                true => turn.answers_bytes_max,
                false => usize::MAX,
            };
        }
    }

    /// One share of `SCAN`; see [`Keyspace::scan`]. What it meets that has expired is for the role.
    pub(crate) fn scan(
        &mut self,
        turn: &Turn,
        db: Db,
        from: Cursor,
        budget: u64,
        found: impl FnMut(&Object),
    ) -> Option<Cursor> {
        self.begin(turn);
        self.open();
        self.keyspace.scan(db, from, budget, &mut self.local, found)
    }

    /// Opens the turn's entry.
    #[inline]
    pub(crate) fn open(&mut self) {
        if !self.entry_is_open {
            self.entry_is_open = true;
            let seed = Prng::new(self.turn.seed ^ u64::from(self.group.number())).next_u64();
            let header = Header {
                semantics: self.known,
                now: self.turn.now,
                seed,
            };
            self.keyspace
                .open(&header)
                .expect("a build knows the rules that it writes");
        }
    }

    /// Opens an entry of the log.
    pub(crate) fn open_entry(&mut self, header: &Header) {
        self.entry_is_open = true;
        self.keyspace
            .open(header)
            .expect("a leader knows the rules that it writes");
        self.keyspace.begin_unserved(&mut self.local);
    }

    /// Whether keys that have expired stay until further notice. For clients they are gone all the same; but while
    /// `CLIENT PAUSE` holds writes back, the data do not change.
    pub fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }

    /// Whether the lookups that follow count as use of keys: `CLIENT NO-TOUCH`.
    pub fn touch(&mut self, touches: bool) {
        self.local.touches = touches;
    }

    /// Sets how large collections may be and still be kept small, if that differs from what is so.
    pub fn set_limits(&mut self, turn: &Turn, limits: EncodingLimits) {
        if self.keyspace.limits() != limits {
            self.begin(turn);
            self.open();
            self.keyspace.set_limits(limits);
        }
    }

    /// Offers keys to be given up; see [`Keyspace::sample_victims`].
    pub fn sample_victims(
        &mut self,
        turn: &Turn,
        index: usize,
        policy: EvictionPolicy,
        samples: u32,
        victims: &mut Victims,
    ) {
        self.begin(turn);
        self.keyspace
            .sample_victims(index, policy, samples, &mut self.local, victims);
    }

    /// One more client, or one less, waits for a key of this group to be filled.
    pub fn await_keys(&mut self, is_more: bool) {
        if is_more {
            self.awaited += 1;
        } else {
            self.awaited -= 1;
        }
        self.local.is_awaited = self.awaited > 0;
    }

    /// Keys that lists and sorted sets came to be under since the last call, and whether databases were exchanged, so
    /// that any key may have been filled. Nothing unless somebody waits.
    #[inline]
    pub fn take_filled(&mut self) -> (Vec<FullKey>, bool) {
        let is_swapped = std::mem::take(&mut self.local.is_swapped);
        (std::mem::take(&mut self.local.filled), is_swapped)
    }

    /// What kind of value `key` holds.
    pub fn kind(&mut self, turn: &Turn, db: Db, key: &[u8]) -> Option<keyspace::Kind> {
        self.begin(turn);
        self.open();
        self.keyspace.kind(db, key)
    }

    /// Drops up to about `budget` objects of what was deleted, and counts them down; `true` if none is left.
    pub fn collect_lazyfree(&mut self, budget: &mut usize) -> bool {
        self.keyspace.collect_lazyfree(budget)
    }

    /// See [`Keyspace::take_shared_lazyfree`].
    pub fn take_shared_lazyfree(&mut self, bytes_max: usize) -> Option<Bytes> {
        self.keyspace.take_shared_lazyfree(bytes_max)
    }

    /// What `WATCH` remembers of `key`.
    pub fn version(&mut self, turn: &Turn, db: Db, key: &[u8]) -> KeyVersion {
        self.begin(turn);
        self.open();
        self.keyspace.version(db, key)
    }

    /// Whether conditions hold, here and now.
    pub fn holds(&mut self, turn: &Turn, conditions: &[Condition]) -> bool {
        self.begin(turn);
        self.open();
        let conditions = as_conditions(conditions);
        conditions.iter().all(|condition| self.keyspace.holds(condition))
    }

    /// A copy of an object, for a transaction that runs in one step.
    pub fn copy_object(&mut self, turn: &Turn, db: Db, key: &[u8]) -> Option<Object> {
        self.begin(turn);
        self.open();
        self.keyspace.share_object(db, key)
    }

    /// Takes an object out, for a command that runs in one step elsewhere: nothing of it is copied.
    pub fn check_out_object(&mut self, turn: &Turn, db: Db, key: &[u8]) -> Option<Object> {
        self.begin(turn);
        self.open();
        self.keyspace.check_out_object(db, key)
    }

    /// Puts back what was lent and not changed.
    pub fn check_in_object(&mut self, db: Db, object: Object) {
        self.keyspace.check_in_object(db, object);
    }

    /// Drops large values piece by piece that were deleted elsewhere.
    pub fn adopt_lazyfree(&mut self, lazyfree: Lazyfree) {
        self.keyspace.adopt_lazyfree(lazyfree);
    }

    /// Installs effects of a transaction that ran in one step. Its events are the caller's to tell.
    pub fn install(&mut self, turn: &Turn, effects: Vec<Effect>) {
        self.begin(turn);
        self.open();
        self.keyspace.install(effects, &mut self.local);
    }
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
        let waiting_reads = &mut self.waiting_reads;
        self.keyspace
            .apply_with_reads(entry, &attached, &mut self.local, |answered| match answered {
                ApplyOutput::Batch(batched) => verdicts.push(batched),
                ApplyOutput::Operation(answer) => {
                    let index = (verdicts.len() - 1).checked_sub(own);
                    if let Some(buf) = index.and_then(|index| answers.get_mut(index)) {
                        buf.operation(answer);
                    }
                }
                ApplyOutput::Read(index, reply) => answers[places[index]].reply(reply),
                ApplyOutput::ReadMoved(index, elsewhere) => answers[places[index]].moved(&elsewhere),
                ApplyOutput::ReadLater(index, behind) => {
                    let (batch, place) = (places[index], indices[index]);
                    if !matches!(
                        verdicts.get(own + batch),
                        Some(Batched::Applied | Batched::Repeated)
                    ) {
                        // It is sent again: by then the writes before it are applied.
                        return;
                    }
                    let place = ReadPlace {
                        sender: senders[batch],
                        sequence: batches[batch].sequence,
                        index: place,
                    };
                    let awaits = Awaited::of_command(attached[index].args);
                    if waiting_reads.add(place, batches[batch].reads.clone(), behind, awaits) {
                        answers[batch].deferred();
                    } else {
                        answers[batch].crowded_out();
                    }
                }
                ApplyOutput::Freed(keyspace, local, left) => waiting_reads.look_again(keyspace, local, left),
            })?;
        if !leads {
            self.local.met_expired.clear();
        }
        self.local.to_gather.clear();
        let behinds = batches.iter().map(|batch| batch.behind);
        let said = verdicts
            .into_iter()
            .skip(own)
            .zip(answers)
            .zip(entry.batches().iter().skip(own));
        Ok(said
            .zip(behinds)
            .map(|(((batched, answers), batch), behind)| match batched {
                // Reads alone that went with writes: those of their own gateway before them may have been lost on their way.
                Batched::Applied if batch.number == 0 && self.keyspace.last_batch(batch.gateway) < behind => {
                    BatchOutcome::Gap {
                        applied: self.keyspace.last_batch(batch.gateway),
                    }
                }
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
        read: &Read<'_>,
        place: ReadPlace,
        all: &Bytes,
        answers: &mut AnswersBuf,
    ) {
        self.begin(turn);
        let question = &read.question;
        if let Some(txn) = read.holder {
            let is_locked = self.keyspace.locks_of(txn).is_some();
            if is_locked && self.puts_off(question) && self.waiting_reads.put_off(place, all, Some(txn)) {
                return answers.deferred();
            }
            if is_locked && self.lets_wait(question, place, all, Some(txn), answers) {
                return;
            }
            return self.answer_holder(txn, question, answers);
        }
        if let &Question::WaitingRead { sequence, index } = question
            && self.waiting_reads.holds(ReadPlace {
                sequence,
                index,
                ..place
            })
        {
            return answers.deferred();
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
                (Question::SnapshotRead { .. }, Awaited::Keys(Locks::WholeGroup(_)))
            );
            let behind = self.keyspace.behind();
            if !is_starved && self.waiting_reads.add(place, all.clone(), behind, awaited) {
                return answers.deferred();
            }
            return answers.crowded_out();
        }
        if self.puts_off(question) && self.waiting_reads.put_off(place, all, None) {
            return answers.deferred();
        }
        if self.lets_wait(question, place, all, None, answers) {
            return;
        }
        let age = match question {
            Question::SnapshotRead { .. } | Question::OptimisticRead(_) => self.age_of(question, now),
            _ => Duration::ZERO,
        };
        self.prepare_to_share(question);
        crate::waiting_reads::answer(&self.keyspace, &mut self.local, question, age, answers);
    }

    /// Whether a read asks for long values, which are written step by step before it is answered.
    fn puts_off(&self, question: &Question<'_>) -> bool {
        match question {
            Question::OptimisticRead(keys) => LongValues::are_among(&self.keyspace, keys.iter().copied()),
            _ => false,
        }
    }

    /// If a read lacks values of which there are fragments here, it waits for them, or is told that there is no room to wait.
    fn lets_wait(
        &mut self,
        question: &Question<'_>,
        place: ReadPlace,
        all: &Bytes,
        holder: Option<TxnId>,
        answers: &mut AnswersBuf,
    ) -> bool {
        if !crate::waiting_reads::lacks(&self.keyspace, &mut self.local, question) {
            return false;
        }
        let is_waiting = self.let_wait(LongRead {
            place,
            all: all.clone(),
            holder,
            tries: 0,
            values: None,
            needs: Vec::new(),
            gives_up: None,
        });
        match is_waiting {
            true => answers.deferred(),
            false => answers.crowded_out(),
        }
        true
    }

    /// Lets a read wait for what it was found to lack; `false` if there is no room.
    fn let_wait(&mut self, long: LongRead) -> bool {
        let mut lacking = std::mem::take(&mut self.local.to_gather);
        let is_waiting = self.waiting_reads.await_values(&lacking, long);
        if is_waiting {
            self.lacking.append(&mut lacking);
        }
        is_waiting
    }

    /// Whether a command that reads needs values of which there are fragments here.
    pub(crate) fn lacks(&mut self, db: Db, command: &command::Command<'_>) -> bool {
        self.local.to_gather.clear();
        let lacks = self.keyspace.note_lacking_of(db, command, &mut self.local);
        self.local.to_gather.clear();
        lacks
    }

    /// Values that are to be gathered, for reads, since this was last asked.
    pub(crate) fn take_lacking(&mut self) -> Vec<FullKey> {
        std::mem::take(&mut self.lacking)
    }

    /// Whether there are such.
    pub(crate) fn has_lacking(&self) -> bool {
        !self.lacking.is_empty()
    }

    /// Writes a step of the long values that the first of those reads asks for, or answers it. Whether another step can be taken in the same
    /// turn.
    pub(crate) fn read_on(&mut self, turn: &Turn) -> bool {
        self.begin(turn);
        let Some(long) = self.waiting_reads.take_long() else {
            return false;
        };
        let all = long.all.clone();
        let questions = reads(&all).expect("they were read when they came");
        let question = &questions[long.place.index as usize].question;
        if long.gives_up.is_none() && crate::waiting_reads::lacks(&self.keyspace, &mut self.local, question) {
            // There is room: it has just left.
            self.let_wait(long);
            return true;
        }
        self.local.to_gather.clear();
        let is_short = !self.puts_off(question);
        self.go_on_with(turn, long);
        is_short
    }

    fn go_on_with(&mut self, turn: &Turn, long: LongRead) {
        let LongRead {
            place,
            all,
            holder,
            tries,
            values,
            needs,
            gives_up,
        } = long;
        let questions = reads(&all).expect("they were read when they came");
        let question = &questions[place.index as usize].question;
        let mut values = match question {
            Question::OptimisticRead(keys) => {
                values.or_else(|| LongValues::begin(&self.keyspace, keys.iter().copied()))
            }
            _ => None,
        };
        let step = match &mut values {
            Some(values) => values.go_on(&self.keyspace),
            // They are not long any more.
            None => LongStep::Whole,
        };
        let again = |values, tries| LongRead {
            place,
            all: all.clone(),
            holder,
            tries,
            values,
            needs: needs.clone(),
            gives_up,
        };
        match step {
            LongStep::More => return self.waiting_reads.go_on_with(again(values, tries)),
            LongStep::Changed if tries < LONG_TRIES_MAX => {
                return self.waiting_reads.put_behind(again(None, tries + 1));
            }
            // One that changes all the time is written at once in the end.
            LongStep::Changed | LongStep::Whole => {}
        }
        if holder.is_none() && !self.keyspace.admits(|| question.locks()) {
            let (behind, awaited) = (self.keyspace.behind(), Awaited::Keys(question.locks()));
            if !self.waiting_reads.add(place, all.clone(), behind, awaited) {
                let mut answers = AnswersBuf::default();
                answers.crowded_out();
                self.waiting_reads
                    .show(place, answers.finish(), again(None, tries));
            }
            return;
        }
        let mark = self.mark_reads(turn, false);
        let mut answers = AnswersBuf::default();
        self.local.written = values;
        if gives_up.is_some() && matches!(question, Question::OptimisticRead(_)) {
            // What a transaction wants to see cannot be told.
            answers.crowded_out();
            self.local.written = None;
            return self
                .waiting_reads
                .show(place, answers.finish(), again(None, tries));
        }
        self.local.is_lost = gives_up == Some(Unmade::Lost);
        match holder {
            Some(txn) => self.answer_holder(txn, question, &mut answers),
            None => crate::waiting_reads::answer(
                &self.keyspace,
                &mut self.local,
                question,
                Duration::ZERO,
                &mut answers,
            ),
        }
        self.local.is_lost = false;
        let values = self.local.written.take();
        if self.is_ahead(mark) {
            // When an entry has said how late it is.
            return self.waiting_reads.put_behind(again(values, tries));
        }
        if answers.byte_len() > turn.answers_bytes_max {
            answers = AnswersBuf::default();
            let start = answers.mark();
            answers.refuse_from(start, false);
        }
        self.waiting_reads
            .show(place, answers.finish(), again(values, tries));
    }

    /// What a transaction reads under its own locks: nobody changes it before they are given back. Whoever has lost them is told so, since
    /// what was read before may have changed.
    fn answer_holder(&mut self, txn: TxnId, question: &Question<'_>, answers: &mut AnswersBuf) {
        if self.keyspace.locks_of(txn).is_none() && !mutations::is(Mutation::LostLocksIgnored) {
            return answers.gone();
        }
        self.prepare_to_share(question);
        crate::waiting_reads::answer(&self.keyspace, &mut self.local, question, Duration::ZERO, answers);
    }

    /// Long values that are asked for are copied by nobody.
    fn prepare_to_share(&mut self, question: &Question<'_>) {
        if let Question::OptimisticRead(keys) = question {
            keys.iter()
                .for_each(|(db, key)| self.keyspace.prepare_to_share(*db, key));
        }
    }

    /// The mistake of [`mutations::Mutation::KeptIgnoredByRead`].
    pub(crate) fn answer_past_locks(
        &mut self,
        turn: &Turn,
        question: &Question<'_>,
        answers: &mut AnswersBuf,
    ) {
        self.begin(turn);
        crate::waiting_reads::answer(&self.keyspace, &mut self.local, question, Duration::ZERO, answers);
    }

    /// For how long, at least, nothing has changed of what a question asks for.
    fn age_of(&self, question: &Question<'_>, now: Monotonic) -> Duration {
        let (keyspace, local) = (&self.keyspace, &self.local);
        let changed = match question {
            Question::OptimisticRead(keys) => keyspace.last_change(keys.iter().copied(), local),
            _ => question.block(|conditions, commands| {
                let mut keys: Vec<(Db, &[u8])> = Vec::new();
                for command in commands {
                    let Ok(spec) = command::resolve_in_group(command.args) else {
                        continue;
                    };
                    if spec.route != command::CommandRoute::Keys {
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
    pub fn mark(&mut self, now: Monotonic) {
        self.marks.mark(now, self.keyspace.applied());
    }

    /// Nobody is answered here any more.
    pub(crate) fn step_down(&mut self) {
        self.waiting_reads.clear();
        self.lacking.clear();
        self.local.wounds.clear();
        self.local.torn.clear();
        self.local.deferred.clear();
    }

    /// The transactions that older ones have begun to wait for since the last call, with their participants.
    pub fn take_wounds(&mut self) -> Vec<(TxnId, Participants)> {
        std::mem::take(&mut self.local.wounds)
    }

    /// Whether anything was answered later than its batch, or an older transaction has begun to wait, and nobody was told.
    pub(crate) fn has_deferred(&self) -> bool {
        let local = &self.local;
        let is_told = local.deferred.is_empty() && local.wounds.is_empty() && local.torn.is_empty();
        self.waiting_reads.has_answered() || !is_told
    }

    /// The transactions that are committed elsewhere and were refused or dropped here, found since the last call.
    pub fn take_torn(&mut self) -> Vec<TxnId> {
        std::mem::take(&mut self.local.torn)
    }

    /// How many times the group had begun anew when the log began that is applied here.
    pub fn generation(&self) -> u64 {
        self.generation
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
    pub(crate) fn take_deferred(&mut self) -> Vec<(Origin, FrozenRope)> {
        let deferred = std::mem::take(&mut self.local.deferred).into_iter();
        let answers = deferred.filter_map(|origin| {
            let answer = self.keyspace.deferred_answer(origin).ok()??;
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

    /// Whether no transaction holds what these locks name, nor waits for it.
    #[inline]
    pub fn are_unlocked(&self, locks: impl FnOnce() -> Locks) -> bool {
        self.keyspace.is_unlocked() || self.keyspace.is_free(&locks())
    }

    /// Carries out a command that only reads, under the leader's lease: what [`crate::Replica::execute`] is to a group alone.
    #[inline]
    pub fn read_leased(
        &mut self,
        turn: &Turn,
        db: Db,
        command: &command::Command<'_>,
        out: &mut ReplyWriter<'_>,
    ) {
        self.begin(turn);
        debug_assert!(!command.writes(), "what writes is an entry");
        let applied = std::mem::replace(&mut self.local.answers_bytes_max, turn.answers_bytes_max);
        self.keyspace.read(db, command, &mut self.local, out);
        self.local.answers_bytes_max = applied;
    }

    /// What reads count and tell of, before some that may have to be answered again: for [`GroupState::is_ahead`]. They are judged by
    /// the clock, or by group time.
    #[inline]
    pub fn mark_reads(&mut self, turn: &Turn, by_group_time: bool) -> ReadsMark {
        self.begin(turn);
        self.local.is_ahead = false;
        if by_group_time {
            self.local.now = self.keyspace.time();
        }
        ReadsMark(self.local.hits, self.local.misses, self.local.events.len())
    }

    /// Whether what was answered since says that a key has expired which lives by group time, and an entry can say that it has: it is
    /// to be answered behind that, and has counted nothing. While writes are held back there are no such entries.
    #[inline]
    pub fn is_ahead(&mut self, mark: ReadsMark) -> bool {
        self.local.now = self.turn.now;
        if !std::mem::take(&mut self.local.is_ahead)
            || self.keeps_expired
            || mutations::is(Mutation::ExpiredByClockTold)
        {
            return false;
        }
        (self.local.hits, self.local.misses) = (mark.0, mark.1);
        self.local.events.truncate(mark.2);
        true
    }

    /// Whether an operation or a read waits for any of these transactions.
    pub(crate) fn is_any_awaited(&self, mut txns: impl Iterator<Item = TxnId>) -> bool {
        let keyspace = &self.keyspace;
        if !keyspace.has_lock_waiters() && self.waiting_reads.len() == 0 {
            return false;
        }
        txns.any(|txn| {
            let is_read = || {
                keyspace
                    .locks_of(txn)
                    .is_some_and(|locks| self.waiting_reads.awaits(locks))
            };
            keyspace.is_awaited(txn) || is_read()
        })
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
        self.keyspace.adopt_lazyfree(before.into_lazyfree());
        self.marks.clear();
    }

    /// Whether reads wait for transactions.
    pub(crate) fn has_waiting_reads(&self) -> bool {
        self.waiting_reads.len() > 0 || self.has_deferred()
    }

    /// Becomes what its encoded form decodes to: see [`crate::Replica::reload`].
    pub(crate) fn reload(&mut self) -> Reload {
        let Some(mut transfer) = Transfer::begin(&mut self.keyspace) else {
            // As many learners are given the state as may be.
            return Reload::Busy;
        };
        let mut receiver = SnapshotReceiver::new().knows(self.known);
        let mut is_whole = false;
        while !is_whole {
            let chunk = match transfer.next_chunk(&mut self.keyspace, RELOAD_CHUNK_BYTES) {
                TransferStep::More(chunk) => chunk,
                TransferStep::Last(chunk) => {
                    is_whole = true;
                    chunk
                }
                TransferStep::Lost => unreachable!("nothing changes meanwhile"),
            };
            if let Err(error) = receiver.take(&chunk) {
                transfer.end(&mut self.keyspace);
                return Reload::Failed(error.to_string());
            }
        }
        let decoded = receiver.finish().expect("the last chunk completes the state");
        if decoded.state_hash() != self.keyspace.state_hash() {
            return Reload::Failed("what was decoded differs from what was encoded".to_owned());
        }
        let decoded = decoded.behind_transfers_of(&self.keyspace);
        self.replace_keyspace(decoded);
        self.entry_is_open = false;
        Reload::Done
    }

    /// The data to look at, and what the leader keeps beside it.
    pub(crate) fn parts(&mut self) -> (&Keyspace, &mut LeaderLocal, &WaitingReads) {
        (&self.keyspace, &mut self.local, &self.waiting_reads)
    }

    /// The data, to be demoted by who keeps what is in use.
    pub(crate) fn keyspace_and_local(&mut self) -> (&mut Keyspace, &LeaderLocal) {
        (&mut self.keyspace, &self.local)
    }

    pub(crate) fn keyspace_mut(&mut self) -> &mut Keyspace {
        &mut self.keyspace
    }

    /// Forgets all data: the replica here is a member no more, or another one.
    pub(crate) fn forget(&mut self) {
        let seed = self.keyspace.seed();
        self.replace_keyspace(Keyspace::new(seed, self.partitions));
    }

    /// The data; nothing is left here.
    pub(crate) fn take_keyspace(&mut self) -> Keyspace {
        let seed = self.keyspace.seed();
        let empty = Keyspace::new(seed, self.partitions).knows(self.known);
        let taken = std::mem::replace(&mut self.keyspace, empty);
        self.keyspace.set_place(self.place());
        self.marks.clear();
        taken
    }

    /// Forgets all data, and does not touch it again, not even to free it: a step that panicked may have left it in pieces.
    pub(crate) fn abandon(&mut self) {
        let seed = self.keyspace.seed();
        let empty = Keyspace::new(seed, self.partitions).knows(self.known);
        std::mem::forget(std::mem::replace(&mut self.keyspace, empty));
        self.marks.clear();
        self.step_down();
    }
}
