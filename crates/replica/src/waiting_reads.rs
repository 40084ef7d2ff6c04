//! Reads that wait for transactions at the leader of a replicated group, and the ages of what is read.
//!
//! A read of a key that a prepared transaction holds must not see the value before the decision: it is answered when the
//! key is free, behind whatever had begun to wait before it. Such reads are the leader's alone. Who leads next is asked
//! again.

use crate::batch::{AnswersBuf, Question, reads};
use crate::member::Sender;
use crate::request::FullKey;
use bytes::Bytes;
use ids::{Db, GatewayId, Monotonic, Version};
use keyspace::{Behind, Keyspace, LeaderLocal, LongValues};
use resp::{Args, FrozenRope};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use txn::{Locks, Mode, TxnId};

/// Reads that wait in one group. At the limit one more is answered `TRYAGAIN`.
const WAITING_READS_MAX: usize = 65_536;

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

/// What keeps a read waiting.
pub(crate) enum Awaited {
    /// Its keys.
    Keys(Locks),
    /// The transactions that were prepared when it came: it goes through the keyspace in steps, and needs no lock.
    Prepared,
}

impl Awaited {
    /// What a command waits for that only reads.
    pub(crate) fn of_command(args: Args<'_>) -> Awaited {
        if keyspace::is_scan(args) {
            Awaited::Prepared
        } else {
            Awaited::Keys(keyspace::locks_of([args]))
        }
    }
}

struct WaitingRead {
    place: ReadPlace,
    /// The reads of the batch.
    reads: Bytes,
    /// How many operations had begun to wait when it came.
    arrivals: u64,
    locks: Locks,
}

/// A read of long values, which are written step by step before it is answered; or of values of which there are fragments here, which are
/// gathered before.
pub(crate) struct LongRead {
    pub(crate) place: ReadPlace,
    /// The reads of the batch.
    pub(crate) all: Bytes,
    /// The transaction under whose locks it reads, if it does.
    pub(crate) holder: Option<TxnId>,
    /// How often they were begun anew.
    pub(crate) tries: u32,
    /// What is written of them; nothing of those that are not the first.
    pub(crate) values: Option<LongValues>,
    /// Keys of the values that it lacked: what is gathered of them stays whole until it is answered. Otherwise it might wait for ever,
    /// each time for what went while another was gathered.
    pub(crate) needs: Vec<FullKey>,
    /// Why what it lacks cannot be gathered, if that is so: it is answered that.
    pub(crate) gives_up: Option<Unmade>,
}

/// Why a value is not made up of its fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unmade {
    /// Too few members could be reached, for now.
    OutOfReach,
    /// All were heard, and too few have a fragment.
    Lost,
}

/// A read's place among those that wait for the same: what had come before it, and its number here.
type Turn = (u64, u64);

/// See the file's header. A read that waits for keys is entered under each that may keep it waiting: what becomes free costs no
/// look at those that wait for others, nor at those behind one that waits still.
#[derive(Default)]
pub(crate) struct WaitingReads {
    reads: BTreeMap<u64, WaitingRead>,
    numbers: u64,
    by_key: BTreeMap<Box<[u8]>, BTreeSet<Turn>>,
    /// Those that wait for all keys of the group.
    whole: BTreeSet<Turn>,
    /// Those that wait for what was prepared.
    scans: BTreeSet<Turn>,
    /// Where they stand: whose, and which read of which batch.
    places: BTreeSet<(GatewayId, u64, u32)>,
    /// What was answered since it was last taken.
    answered: Vec<(ReadPlace, FrozenRope)>,
    /// Those that ask for long values, in the order of their turns.
    long: VecDeque<LongRead>,
    /// Those that wait for a value of which there is a fragment here.
    cold: BTreeMap<FullKey, Vec<LongRead>>,
    /// What was answered to such, to be told if the lease holds still; if not, they are looked at again.
    shown: Vec<(ReadPlace, FrozenRope, LongRead)>,
    #[cfg(test)]
    looks: usize,
}

impl WaitingReads {
    /// Lets a read wait. `false` if there is no room.
    pub(crate) fn add(&mut self, place: ReadPlace, all: Bytes, behind: Behind, awaited: Awaited) -> bool {
        if self.reads.len() >= WAITING_READS_MAX {
            return false;
        }
        self.places.insert(place.key());
        self.numbers += 1;
        let number = self.numbers;
        let locks = match awaited {
            Awaited::Keys(locks) => {
                let turn = (behind.arrivals, number);
                match &locks {
                    // Some of them may be free. It leaves those that are looked at and do not keep it waiting.
                    Locks::Keys(keys) => keys.iter().for_each(|(key, _)| self.await_key(Some(key), turn)),
                    Locks::WholeGroup(_) => self.await_key(None, turn),
                }
                locks
            }
            Awaited::Prepared => {
                self.scans.insert((behind.prepared, number));
                Locks::Keys(Vec::new())
            }
        };
        let read = WaitingRead {
            place,
            reads: all,
            arrivals: behind.arrivals,
            locks,
        };
        self.reads.insert(number, read);
        true
    }

    fn await_key(&mut self, key: Option<&[u8]>, turn: Turn) {
        match key {
            Some(key) => self.by_key.entry(key.into()).or_default().insert(turn),
            None => self.whole.insert(turn),
        };
    }

    fn leave(&mut self, key: &[u8], turn: Turn) {
        if let Some(turns) = self.by_key.get_mut(key) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.by_key.remove(key);
            }
        }
    }

    /// A read asks for long values: it is answered when they are written. `false` if there is no room.
    pub(crate) fn put_off(&mut self, place: ReadPlace, all: &Bytes, holder: Option<TxnId>) -> bool {
        if self.len() >= WAITING_READS_MAX {
            return false;
        }
        self.put_behind(LongRead {
            place,
            all: all.clone(),
            holder,
            tries: 0,
            values: None,
            needs: Vec::new(),
            gives_up: None,
        });
        true
    }

    /// Values that it needs are to be gathered: it is looked at again when the first of them is here. `false` if there is no room.
    pub(crate) fn await_values(&mut self, lacking: &[FullKey], mut long: LongRead) -> bool {
        let Some(first) = lacking.first().filter(|_| self.len() < WAITING_READS_MAX) else {
            return false;
        };
        long.needs.extend_from_slice(lacking);
        long.needs.sort_unstable();
        long.needs.dedup();
        self.places.insert(long.place.key());
        self.cold.entry(first.clone()).or_default().push(long);
        true
    }

    /// A value is here, or another one, or cannot be made up: who has waited for it is looked at again.
    pub(crate) fn end_wait(&mut self, key: &FullKey, unmade: Option<Unmade>) {
        for mut long in self.cold.remove(key).into_iter().flatten() {
            long.gives_up = long.gives_up.or(unmade);
            self.long.push_back(long);
        }
    }

    /// Whether any read waits for a value.
    pub(crate) fn has_cold(&self) -> bool {
        !self.cold.is_empty()
    }

    /// Whether one waits for this.
    pub(crate) fn is_awaited(&self, db: Db, key: &[u8]) -> bool {
        self.cold.contains_key(&(db, key.into()))
    }

    /// Values that reads need that are not answered yet, be they here or not.
    pub(crate) fn needed(&self) -> BTreeSet<&FullKey> {
        let cold = self.cold.values().flatten();
        cold.chain(&self.long).flat_map(|long| &long.needs).collect()
    }

    /// What those wait for that need a value.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = &FullKey> {
        self.cold.keys()
    }

    /// It has its next turn when the others have had theirs.
    pub(crate) fn put_behind(&mut self, long: LongRead) {
        self.places.insert(long.place.key());
        self.long.push_back(long);
    }

    /// It goes on before the others have their turn.
    pub(crate) fn go_on_with(&mut self, long: LongRead) {
        self.long.push_front(long);
    }

    /// Whose turn it is.
    pub(crate) fn take_long(&mut self) -> Option<LongRead> {
        self.long.pop_front()
    }

    /// Whether long values are to be written.
    pub(crate) fn reads_on(&self) -> bool {
        !self.long.is_empty()
    }

    /// It is answered, if this replica led when it was.
    pub(crate) fn show(&mut self, place: ReadPlace, answer: FrozenRope, long: LongRead) {
        self.shown.push((place, answer, long));
    }

    /// Whether anything waits for a look at the lease.
    pub(crate) fn has_shown(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Whether this replica led when it answered: it leads still.
    pub(crate) fn look_at_shown(&mut self, still_leads: bool) {
        for (place, answer, long) in std::mem::take(&mut self.shown) {
            if still_leads {
                self.places.remove(&place.key());
                self.answered.push((place, answer));
            } else {
                self.put_behind(long);
            }
        }
    }

    /// Whether this read waits.
    pub(crate) fn holds(&self, place: ReadPlace) -> bool {
        self.places.contains(&place.key())
    }

    /// Whether a read may wait for whoever holds these locks.
    pub(crate) fn awaits(&self, locks: &Locks) -> bool {
        if self.reads.is_empty() {
            return false;
        }
        if !self.whole.is_empty() || !self.scans.is_empty() {
            return true;
        }
        match locks {
            Locks::Keys(keys) => keys.iter().any(|(key, _)| self.by_key.contains_key(key)),
            Locks::WholeGroup(_) => true,
        }
    }

    /// Somebody has left these locks.
    pub(crate) fn look_again(&mut self, keyspace: &Keyspace, local: &mut LeaderLocal, left: &[Locks]) {
        if self.reads.is_empty() {
            return;
        }
        for locks in left {
            match locks {
                Locks::Keys(keys) => {
                    for (key, _) in keys {
                        self.look_at(key, keyspace, local);
                    }
                }
                Locks::WholeGroup(_) => {
                    for key in self.by_key.keys().cloned().collect::<Vec<_>>() {
                        self.look_at(&key, keyspace, local);
                    }
                }
            }
        }
        while let Some(&turn) = self.whole.first() {
            self.note_look();
            if !keyspace.admits_behind(&self.reads[&turn.1].locks, turn.0) {
                break;
            }
            self.whole.remove(&turn);
            self.answer(turn.1, keyspace, local);
        }
        while let Some(&turn) = self.scans.first() {
            self.note_look();
            if !keyspace.have_left(turn.0) {
                break;
            }
            self.scans.remove(&turn);
            self.answer(turn.1, keyspace, local);
        }
    }

    /// Answers those that waited for this key and for nothing else any more.
    fn look_at(&mut self, key: &[u8], keyspace: &Keyspace, local: &mut LeaderLocal) {
        while let Some(&turn) = self.by_key.get(key).and_then(BTreeSet::first) {
            self.note_look();
            if is_kept_by(key, turn, keyspace) {
                // Whoever came later waits too.
                return;
            }
            self.leave(key, turn);
            let read = &self.reads[&turn.1];
            if keyspace.admits_behind(&read.locks, turn.0) {
                self.answer(turn.1, keyspace, local);
                continue;
            }
            let next = match &read.locks {
                Locks::Keys(keys) => {
                    let mut keys = keys.iter().map(|(key, _)| key);
                    keys.find(|key| is_kept_by(key, turn, keyspace)).cloned()
                }
                Locks::WholeGroup(_) => None,
            };
            self.await_key(next.as_deref(), turn);
        }
    }

    fn answer(&mut self, number: u64, keyspace: &Keyspace, local: &mut LeaderLocal) {
        let read = self.reads.remove(&number).expect("what is entered waits");
        if let Locks::Keys(keys) = &read.locks {
            let turn = (read.arrivals, number);
            keys.iter().for_each(|(key, _)| self.leave(key, turn));
        }
        let mut answers = AnswersBuf::default();
        let all = reads(&read.reads).expect("they were read when they came");
        let question = &all[read.place.index as usize].question;
        let is_long = match question {
            Question::OptimisticRead(keys) => LongValues::are_among(keyspace, keys.iter().copied()),
            _ => false,
        };
        if is_long || lacks(keyspace, local, question) {
            return self.put_behind(LongRead {
                place: read.place,
                all: read.reads.clone(),
                holder: None,
                tries: 0,
                values: None,
                needs: Vec::new(),
                gives_up: None,
            });
        }
        // By group time, as of the entry that has freed what it waited for: nobody who leads later judges by an earlier one.
        let now = std::mem::replace(&mut local.now, keyspace.time());
        answer(
            keyspace,
            local,
            &all[read.place.index as usize].question,
            Duration::ZERO,
            &mut answers,
        );
        local.now = now;
        self.places.remove(&read.place.key());
        self.answered.push((read.place, answers.finish()));
    }

    /// Counts one look at a read, for tests.
    fn note_look(&mut self) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
    }

    /// Whether anything was answered.
    pub(crate) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// What was answered.
    pub(crate) fn take_answered(&mut self) -> Vec<(ReadPlace, FrozenRope)> {
        std::mem::take(&mut self.answered)
    }

    /// Somebody else leads: who sent them asks there.
    pub(crate) fn clear(&mut self) {
        *self = WaitingReads::default();
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        let cold: usize = self.cold.values().map(Vec::len).sum();
        self.reads.len() + self.long.len() + self.shown.len() + cold
    }
}

/// Whether a key alone keeps a read waiting.
fn is_kept_by(key: &[u8], (arrivals, _): Turn, keyspace: &Keyspace) -> bool {
    let locks = Locks::Keys(vec![(key.into(), Mode::Shared)]);
    !keyspace.admits_behind(&locks, arrivals)
}

/// Whether a question is about values of which there are fragments here, as far as that can be told before it is answered; which,
/// [`LeaderLocal::to_gather`] says.
pub(crate) fn lacks(keyspace: &Keyspace, local: &mut LeaderLocal, question: &Question<'_>) -> bool {
    local.to_gather.clear();
    if keyspace.code().is_none() {
        return false;
    }
    match question {
        Question::OptimisticRead(keys) => {
            let cold = keys.iter().filter(|(db, key)| keyspace.is_coded(*db, key));
            let cold = cold.map(|(db, key)| (*db, Box::from(*key)));
            local.to_gather.extend(cold);
            !local.to_gather.is_empty()
        }
        Question::Command { db, .. } => keyspace.note_lacking(*db, question.args(), local),
        Question::SnapshotRead { .. } => {
            question.block(|_, commands| {
                for command in commands {
                    keyspace.note_lacking(command.db, command.args, local);
                }
                true
            });
            !local.to_gather.is_empty()
        }
        Question::Versions(_) | Question::Deferred(_) | Question::WaitingRead { .. } | Question::Wound(_) => {
            false
        }
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
    if !keyspace.hosts_as_made() {
        let elsewhere = question.elsewhere(keyspace);
        if !elsewhere.is_empty() {
            return answers.moved(&elsewhere);
        }
    }
    // As reads are judged.
    let time = keyspace.time().max(local.now);
    match question {
        Question::Versions(keys) | Question::OptimisticRead(keys) => {
            keys.iter()
                .for_each(|(db, key)| keyspace.note_expired(*db, key, local));
        }
        Question::SnapshotRead { .. } => {
            question.block(|conditions, _| {
                for condition in conditions {
                    let (keyspace::ConditionView::Unchanged { db, key, .. }
                    | keyspace::ConditionView::Absent { db, key }) = *condition;
                    keyspace.note_expired(db, key, local);
                }
                true
            });
        }
        Question::Command { .. }
        | Question::Deferred(_)
        | Question::WaitingRead { .. }
        | Question::Wound(_) => {}
    }
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
            local.touches = *touches;
            answers.write_reply(*protocol, |out| {
                crate::state::read_words(keyspace, local, *db, question.args(), out);
            });
            local.touches = true;
        }
        Question::SnapshotRead { .. } => {
            let mut replies: Vec<Vec<u8>> = Vec::new();
            let is_carried_out = question.block(|conditions, commands| {
                // By the leader's clock, as reads are.
                let holds = |condition: &keyspace::ConditionView<'_>| match *condition {
                    keyspace::ConditionView::Unchanged { db, key, version } => {
                        keyspace.version_read(db, key, local) == version
                    }
                    keyspace::ConditionView::Absent { db, key } => {
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
                    let mut out = resp::ReplyWriter::new(&mut bytes, command.protocol);
                    crate::state::read_words(keyspace, local, command.db, command.args, &mut out);
                    replies.push(bytes);
                }
                true
            });
            answers.seen(age, time, is_carried_out, replies.iter().map(|reply| &**reply));
        }
        Question::OptimisticRead(keys) => {
            let seen: Vec<FrozenRope> = keys
                .iter()
                .map(|(db, key)| keyspace.share_seen(*db, key, local))
                .collect();
            answers.seen_objects(age, time, &seen);
        }
        Question::Deferred(origin) => match keyspace.deferred_answer(*origin) {
            Ok(Some(answer)) => answers.operation(answer),
            Ok(None) => answers.deferred(),
            Err(keyspace::UnknownOrigin) => answers.gone(),
        },
        // One that waits is told so before this.
        Question::WaitingRead { .. } => answers.gone(),
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
    use crate::batch::BatchBuf;
    use ids::{Boot, Db, GroupId, HashSeed, NodeId, SemanticsVersion, UnixMillis};
    use keyspace::{
        ApplyOutput, BlockCommand, Entry, EntryBuf, EntryOperation, Header, Prepare, Resolve, Work,
    };
    use resp::{ArgsBuf, Protocol};
    use txn::{Participant, TxnId};

    /// One group, and the reads that wait in it.
    struct Waits {
        keyspace: Keyspace,
        local: LeaderLocal,
        waiting_reads: WaitingReads,
        batches: u64,
        reads: u64,
    }

    impl Waits {
        fn new() -> Waits {
            Waits {
                keyspace: Keyspace::new(HashSeed([1, 2]), ids::PartitionRange::ONE),
                local: LeaderLocal::new(1),
                waiting_reads: WaitingReads::default(),
                batches: 0,
                reads: 0,
            }
        }

        fn apply(&mut self, operation: &EntryOperation<'_>) {
            self.batches += 1;
            let mut entry = EntryBuf::new(&Header {
                semantics: SemanticsVersion::CURRENT,
                now: UnixMillis(1_000),
                seed: 7,
            });
            let gateway = GatewayId {
                boot: Boot(1),
                worker: 0,
            };
            entry.begin_batch(gateway, self.batches, self.batches - 1);
            entry.push(operation);
            let bytes = entry.finish();
            let entry = Entry::decode(&bytes).expect("written a moment ago");
            let waiting_reads = &mut self.waiting_reads;
            let applied = self.keyspace.apply(&entry, &mut self.local, |answered| {
                if let ApplyOutput::Freed(keyspace, local, left) = answered {
                    waiting_reads.look_again(keyspace, local, left);
                }
            });
            applied.expect("these rules are known");
        }

        fn txn(seq: u64) -> TxnId {
            TxnId {
                boot: Boot(1),
                worker: 0,
                seq,
                attempt: 1,
            }
        }

        fn prepare(&mut self, seq: u64, line: &str) {
            let words = ArgsBuf::from_slices(line.split(' '));
            let command = BlockCommand {
                db: Db::default(),
                protocol: Protocol::Resp2,
                args: words.as_args(),
            };
            let prepare = Prepare {
                txn: Waits::txn(seq),
                began: UnixMillis(seq as i64),
                participants: [
                    Participant::first(GroupId::new(0)),
                    Participant::first(GroupId::new(1)),
                ]
                .into(),
                conditions: Vec::new(),
                expects: Vec::new(),
                work: Work::Evaluate {
                    commands: vec![command],
                    is_strict: false,
                },
            };
            self.apply(&EntryOperation::Prepare(Box::new(prepare)));
        }

        fn commit(&mut self, seq: u64) {
            let decisions = vec![(Waits::txn(seq), true)];
            self.apply(&EntryOperation::Resolve(Resolve { decisions }));
        }

        /// A read that comes now and has to wait.
        fn read(&mut self, line: &str) {
            let words = ArgsBuf::from_slices(line.split(' '));
            assert!(
                !self.keyspace.admits_read(words.as_args()),
                "{line} would not wait"
            );
            let mut batch = BatchBuf::default();
            batch.push_read(Db::default(), Protocol::Resp2, true, words.as_args());
            let gateway = GatewayId {
                boot: Boot(1),
                worker: 0,
            };
            self.reads += 1;
            let place = ReadPlace {
                sender: Sender {
                    node: NodeId(1),
                    gateway,
                },
                sequence: self.reads,
                index: 0,
            };
            let awaited = Awaited::of_command(words.as_args());
            let (behind, all) = (self.keyspace.behind(), batch.finish().reads);
            assert!(
                self.waiting_reads.add(place, all, behind, awaited),
                "there is room"
            );
        }

        /// Which reads were answered since the last call.
        fn answered(&mut self) -> Vec<u64> {
            let answered = self.waiting_reads.take_answered().into_iter();
            answered.map(|(place, _)| place.sequence).collect()
        }
    }

    #[test]
    fn what_becomes_free_costs_no_look_at_those_that_wait_for_something_else() {
        let mut waits = Waits::new();
        waits.prepare(1, "SET hot 1");
        waits.prepare(2, "SET cold 1");
        for _ in 0..10_000 {
            waits.read("GET hot");
            waits.read("MGET a cold free hot");
        }
        for seq in 3..203 {
            waits.prepare(seq, &format!("SET other:{seq} 1"));
            waits.commit(seq);
        }
        assert!(
            waits.waiting_reads.looks < 1_000,
            "{} looks",
            waits.waiting_reads.looks
        );
        assert_eq!(waits.answered(), Vec::<u64>::new());
        waits.commit(2);
        assert_eq!(waits.answered(), Vec::<u64>::new(), "they wait for the other key");
        waits.commit(1);
        assert_eq!(waits.answered().len(), 20_000);
        assert!(
            waits.waiting_reads.looks < 60_000,
            "{} looks",
            waits.waiting_reads.looks
        );
        assert_eq!(waits.waiting_reads.len(), 0);
    }

    #[test]
    fn a_transaction_that_waits_keeps_no_read_from_being_answered() {
        let mut waits = Waits::new();
        waits.prepare(1, "MSET held 1");
        // It waits for the one key, and would hold the other.
        waits.prepare(2, "MSET free 2 held 2");
        let admits = |waits: &Waits, line: &str| {
            let words = ArgsBuf::from_slices(line.split(' '));
            waits.keyspace.admits_read(words.as_args())
        };
        assert!(admits(&waits, "GET free"), "nothing is decided about it");
        assert!(!admits(&waits, "GET held"));
        waits.commit(1);
        assert!(!admits(&waits, "GET free"), "it has its turn");
        waits.commit(2);
        assert!(admits(&waits, "MGET free held"));
    }

    #[test]
    fn reads_of_a_key_are_answered_in_the_order_in_which_they_came() {
        let mut waits = Waits::new();
        waits.prepare(1, "SET hot 1");
        for _ in 0..20_000 {
            waits.read("GET hot");
        }
        waits.commit(1);
        assert_eq!(waits.answered(), (1..=20_000).collect::<Vec<u64>>());
        assert!(
            waits.waiting_reads.looks < 21_000,
            "{} looks",
            waits.waiting_reads.looks
        );
    }

    #[test]
    fn a_scan_waits_for_what_was_prepared_when_it_came_and_for_nothing_else() {
        let mut waits = Waits::new();
        waits.prepare(1, "SET a 1");
        waits.read("SCAN 0");
        waits.prepare(2, "SET b 1");
        waits.read("SCAN 0");
        waits.commit(1);
        assert_eq!(waits.answered(), [1]);
        waits.prepare(3, "SET c 1");
        waits.commit(2);
        assert_eq!(waits.answered(), [2]);
    }

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
