//! What a replica does when its group has others: it applies entries, and answers reads as they are asked.

use super::Replica;
use crate::batch::{AnswersBuf, Batch, Question, Read, reads};
use crate::member::Said;
use crate::turn::Turn;
use ids::Db;
use keyspace::{Answered, AttachedRead, Batched, Entry, Keyspace, UnknownSemantics};
use resp::{Args, Writer};

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
        leads: bool,
    ) -> Result<Vec<Said>, UnknownSemantics> {
        self.begin(turn);
        // They were looked at when they came.
        let questions: Vec<Vec<Read<'_>>> = batches
            .iter()
            .map(|batch| reads(&batch.reads).unwrap_or_default())
            .collect();
        let mut attached: Vec<AttachedRead<'_>> = Vec::new();
        // Which of `batches` each attached read came in.
        let mut places: Vec<usize> = Vec::new();
        if questions.iter().any(|questions| !questions.is_empty()) {
            let mut start = 0;
            for (at, batch) in entry.batches().iter().enumerate() {
                let index = at.checked_sub(own).filter(|index| *index < questions.len());
                for read in index.iter().flat_map(|index| &questions[*index]) {
                    if let Question::Command { db, protocol, .. } = &read.question {
                        places.extend(index);
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
                Batched::Applied | Batched::Repeated => Said::Answered(answers.finish().into()),
                Batched::Forgotten | Batched::Fenced => Said::Forgotten,
                Batched::Refused => Said::Elsewhere,
                Batched::Gap => Said::Gap(self.keyspace.last_batch(batch.gateway)),
            })
            .collect())
    }

    /// Judged by the leader's clock, as reads are: what has expired since the last entry is absent when it is watched, and
    /// absent for the `EXEC`, whose entry is later.
    fn versions_of<'a>(
        &'a self,
        keys: &'a [(Db, &'a [u8])],
    ) -> impl ExactSizeIterator<Item = keyspace::KeyVersion> + 'a {
        keys.iter()
            .map(|(db, key)| self.keyspace.version_read(*db, key, &self.local))
    }

    /// Answers one read from the state as it is.
    pub(crate) fn answer(&mut self, turn: &Turn, question: &Question<'_>, answers: &mut AnswersBuf) {
        self.begin(turn);
        match question {
            Question::Versions(keys) => answers.versions(self.versions_of(keys)),
            Question::Command {
                db,
                protocol,
                touches,
                ..
            } => {
                let mut bytes = Vec::new();
                let mut out = Writer::new(&mut bytes, *protocol);
                self.local.touches = *touches;
                self.read_words(*db, question.args(), &mut out);
                self.local.touches = true;
                answers.reply(&bytes);
            }
        }
    }

    /// Carries out a command that must not write, in words.
    fn read_words(&mut self, db: Db, args: Args<'_>, out: &mut Writer<'_>) {
        let parsed = command::resolve(args).and_then(|spec| {
            let parsed = command::parse(spec, args);
            parsed.unwrap_or_else(|| Err(command::ReplyError::unknown_command(args)))
        });
        match parsed {
            Ok(command) if command.writes() => command::ReplyError::unknown_command(args).write(out),
            Ok(command) => {
                self.keyspace.read(db, &command, &mut self.local, out);
            }
            Err(error) => error.write(out),
        }
    }

    /// Carries out a command that only reads, under the leader's lease: what [`Replica::execute`] is to a group alone.
    #[inline]
    pub fn read_leased(&mut self, turn: &Turn, db: Db, command: &command::Command<'_>, out: &mut Writer<'_>) {
        self.begin(turn);
        debug_assert!(!command.writes(), "what writes is an entry");
        self.keyspace.read(db, command, &mut self.local, out);
    }

    /// Whether nothing is locked, lent or waited for, so that the group can become a replicated one.
    pub fn is_quiet(&self) -> bool {
        self.locks.is_idle() && self.waiting.is_empty() && self.lent.is_empty()
    }

    /// Forgets all data: the replica here is a member no more, or another one.
    pub fn forget(&mut self) {
        let seed = self.keyspace.seed();
        self.replace_keyspace(Keyspace::new(seed));
    }

    /// Goes on with what an earlier life of this replica held. Only before anything was carried out.
    pub fn restore(&mut self, keyspace: Keyspace) {
        self.replace_keyspace(keyspace);
        self.entry_is_open = false;
    }

    /// Whether a transaction has, or may have, left something to be done here: what is held then is not all there is.
    pub fn has_transactions(&self) -> bool {
        self.locks.holder_count() > 0 || !self.prepared.is_empty() || !self.lent.is_empty()
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
        self.keyspace.adopt_garbage(before.into_garbage());
    }

    pub(crate) fn keyspace_mut(&mut self) -> &mut Keyspace {
        &mut self.keyspace
    }
}
