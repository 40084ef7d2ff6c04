//! Transactions over several groups, as this group's state has them: locks, who waits for them, votes and ends.
//!
//! ```text
//!   Prepare --keys free--> judged --conditions hold--> [ Prepared ] --Resolve--> [ Committed ] or [ Aborted ]
//!      |                      +---- they do not ----> [ Refused ]
//!      +--else--> waits, by age --QueryTxn, Withdraw, Resolve--> [ Refused ]
//!   Lock ----> holds without a vote; an older one may take its locks away
//!   commands on locked keys wait like transactions, and hold nothing
//! ```
//!
//! The four in brackets are the *vote record* of a transaction. All of it is state: every replica has the same queue, and
//! hands a key over with the same entry. What waited is answered later than its batch: the answer stays here until its
//! gateway says that it came ([`EntryOperation::Received`]).
//! What is carried out only when a transaction is committed is answered to whoever commits it, and again to its coordinator:
//! that answer stays until the transaction is forgotten.
//!
//! Invariants:
//! 1. A vote record is written once, and only `Resolve` changes it, from `Prepared` to what was decided. A decision that
//!    contradicts it changes nothing: a group has begun anew without its vote record, and the transaction is *torn*.
//! 2. `Prepared` transactions hold their locks, and nobody else but those of `Lock` holds any.
//! 3. Nothing touches a key that is held, except its holder when it is resolved.
//! 4. Every waiter of the lock table is in `waiting`, and the other way round.

use crate::Keyspace;
use crate::apply::Apply;
use crate::database::KeyVersion;
use crate::digest::Digest;
use crate::effects::Effect;
use crate::encoded::{EncodedObject, SeenObject};
use crate::entry::{
    BatchView, BlockCommand, ConditionView, Entry, EntryOperation, Forget, InPlaceStep, Lock, Operations,
    Pairs, Prepare, QueryTxn, Work,
};
use crate::entry::{KEPT_BYTES_MIN, LOCK_TAG, Resolve, WaitId};
use crate::evaluate::Answers;
use crate::events::Event;
use crate::fields::{
    read_db, read_gateway, read_origin, read_participants, read_txn, write_gateway, write_origin,
    write_participants, write_txn,
};
use crate::hosting::Moved;
use crate::keyspace::{ApplyOutput, KEYS_AHEAD, look_ahead};
use crate::local::LeaderLocal;
use crate::object::{Object, Value};
use crate::object_codec::{self, Head};
use crate::partition_step::PartitionStep;
use crate::replies::Replies;
use crate::requests::KeptResult;
use crate::scratch::databases;
use crate::transfer::parts::{Part, PartId, Parts, SentParts};
use bytes::Bytes;
use codec::{COUNT_BYTES, DecodeError, Reader, Writer as _};
use ids::{Boot, Db, GatewayId, GroupId, Slot, UnixMillis, Version};
use mutations::Mutation;
use resp::{Args, FrozenRope, Protocol, ReplyWriter, Rope};
use std::collections::{BTreeMap, BTreeSet};
use txn::{
    Grant, LockTable, Locks, Mode, Participant, Participants, Priority, Refusal, RequestId, Requester, TxnId,
    VoteRecord,
};

/// Operations that may wait in one group, or whose answers may not have arrived. At the limit commands get `TRYAGAIN` and
/// transactions are refused.
pub const WAITING_MAX: usize = 65_536;

/// Which operation of which batch is answered later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// Whose batch.
    pub gateway: GatewayId,
    /// Its number.
    pub number: u64,
    /// Which of its operations.
    pub index: u32,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Transactions {
    pub(crate) locks: LockTable,
    requests: RequestId,
    waiting: BTreeMap<RequestId, Waiting>,
    /// Of those that wait, which of a batch each is.
    by_origin: BTreeMap<Origin, RequestId>,
    /// Who holds locks without a vote.
    held: BTreeMap<TxnId, Participants>,
    prepared: BTreeMap<TxnId, Prepared>,
    /// Whose end is known, and not yet everywhere.
    pub(crate) ended: BTreeMap<TxnId, Ended>,
    /// Whose end is known everywhere, at or above their coordinator's mark: they must not look as if they had never been.
    over: BTreeSet<TxnId>,
    /// Of each coordinator: all sequences below are over, but for those of which something else is written here. One that is
    /// held up by a group that is out of reach does not keep the others from being forgotten.
    low: BTreeMap<GatewayId, u64>,
    /// Answers that came later than their batches.
    pub(crate) deferred: BTreeMap<Origin, Replies>,
    /// What answers are written in while the group is alone, kept for the next one: not state.
    pub(crate) spare: Replies,
}

struct Waiting {
    origin: Origin,
    priority: Priority,
    locks: Locks,
    /// If it is a transaction's.
    txn: Option<(TxnId, Participants)>,
    /// The operation, in the format of entries.
    bytes: Box<[u8]>,
}

struct Prepared {
    participants: Participants,
    effects: Vec<Effect>,
    /// What is told to those who listen: not state, as it follows from who listens here.
    events: Vec<Event>,
    /// Commands to be carried out when it is committed, and effects that lie between them, in the format of entries.
    in_place: Box<[u8]>,
    /// What is put when it is committed, as [`Pairs`] have it, and in which database.
    put: Option<(Db, Box<[u8]>)>,
    /// To be kept when it is committed.
    result: Option<KeptResult>,
    /// What becomes of a partition when it is committed.
    step: Option<PartitionStep>,
}

pub(crate) struct Ended {
    vote_record: VoteRecord,
    participants: Participants,
    /// What was answered to commands that were carried out when it was committed: whoever committed it need not be its
    /// coordinator, who has the client.
    replies: Option<Replies>,
}

impl Transactions {
    /// None, of which reads that wait learn what becomes free.
    pub(crate) fn new() -> Transactions {
        Transactions {
            locks: LockTable::default().noting_what_is_left(),
            ..Transactions::default()
        }
    }

    fn await_locks(&mut self, id: RequestId, waiting: Waiting) {
        self.by_origin.insert(waiting.origin, id);
        self.waiting.insert(id, waiting);
    }

    /// It has its turn, or will not.
    fn stop_waiting(&mut self, id: RequestId) -> Waiting {
        let waiting = self.waiting.remove(&id).expect("invariant 4");
        self.by_origin.remove(&waiting.origin);
        waiting
    }

    /// Whether nobody holds or waits for anything.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.locks.is_idle()
    }

    /// What is held and awaited.
    pub(crate) fn all_locks(&self) -> impl Iterator<Item = &Locks> {
        self.locks.all()
    }

    fn vote_record(&self, txn: TxnId) -> VoteRecord {
        if self.prepared.contains_key(&txn) {
            return VoteRecord::Prepared;
        }
        if self.over.contains(&txn) {
            return VoteRecord::Over;
        }
        self.ended
            .get(&txn)
            .map_or(VoteRecord::Empty, |ended| ended.vote_record)
    }

    fn is_over(&self, txn: TxnId) -> bool {
        let low = self.low.get(&txn.coordinator());
        let is_below = low.is_some_and(|low| txn.seq < *low);
        is_below && !mutations::is(Mutation::MarkNotConsulted)
    }

    fn end(&mut self, txn: TxnId, vote_record: VoteRecord, participants: Participants) {
        let ended = Ended {
            vote_record,
            participants,
            replies: None,
        };
        let before = self.ended.insert(txn, ended);
        assert!(before.is_none(), "invariant 1: {txn:?} ended before");
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() + self.deferred.len() >= WAITING_MAX
    }

    /// Holds what is free, without a vote, and cannot lose it.
    pub(crate) fn hold(&mut self, txn: TxnId, priority: Priority, locks: Locks) {
        self.requests += 1;
        let grant = self
            .locks
            .request(self.requests, Requester::Preparing(txn), priority, locks);
        assert!(grant == Grant::Granted, "the caller looked whether it is free");
    }

    /// Takes a transaction out of those that wait; where its answer goes.
    fn withdraw(&mut self, txn: TxnId) -> Option<Waiting> {
        let id = self.locks.withdraw(txn)?;
        Some(self.stop_waiting(id))
    }

    /// Commands that wait for transactions, and would wait for keys then, are only tried, if `is_meant` says so of the
    /// client.
    pub(crate) fn try_once(&mut self, is_meant: impl Fn(Origin, WaitId) -> bool) {
        for waiting in self.waiting.values_mut() {
            let tried = Operations::read_one(&waiting.bytes, |operation| match operation {
                EntryOperation::Wait { id, command } if is_meant(waiting.origin, id) => {
                    let BlockCommand { db, protocol, args } = command;
                    let mut tried = Operations::new();
                    tried.push(&EntryOperation::Command { db, protocol, args });
                    Some(tried.into_bytes())
                }
                _ => None,
            });
            if let Some(bytes) = tried.flatten() {
                // Shorter, without a name: a transfer takes it for another one (`transfer/parts.rs`, invariant 1).
                debug_assert!(bytes.len() < waiting.bytes.len());
                waiting.bytes = bytes.into();
            }
        }
    }

    /// What is known of dead coordinators goes, but for what is prepared or has an end that others may ask for.
    pub(crate) fn fence(&mut self, is_dead: impl Fn(Boot) -> bool) {
        self.low.retain(|coordinator, _| !is_dead(coordinator.boot));
        // Who is dead cannot prepare any more: what is over need not be told from what never was.
        self.over.retain(|txn| !is_dead(txn.boot));
        self.deferred.retain(|origin, _| !is_dead(origin.gateway.boot));
        let dead = self.ended.iter_mut().filter(|(txn, _)| is_dead(txn.boot));
        dead.for_each(|(_, ended)| ended.replies = None);
    }

    pub(crate) fn hash(&self, digest: &mut Digest) {
        let mut bytes = Vec::new();
        // Of replies, what all replicas agree on.
        let none = SentParts::default();
        self.write(&none, &mut bytes, &mut |_, replies, _| replies.hash(digest));
        digest.bytes(&bytes);
    }

    /// What may be long of those that are under way.
    pub(crate) fn each_pending(&self, visit: &mut impl FnMut(PartId, Part<'_>)) {
        for (id, waiting) in &self.waiting {
            visit(PartId::Waiting(*id), Part::Run(&waiting.bytes));
        }
        for (txn, prepared) in &self.prepared {
            for (index, effect) in (0..).zip(&prepared.effects) {
                if let Some(part) = part_of(effect) {
                    visit(PartId::Effect(*txn, index), part);
                }
            }
            visit(PartId::InPlace(*txn), Part::Run(&prepared.in_place));
            if let Some((_, pairs)) = &prepared.put {
                visit(PartId::Put(*txn), Part::Run(pairs));
            }
        }
    }

    /// What may be long of all of them.
    pub(crate) fn each_part(&self, visit: &mut impl FnMut(PartId, Part<'_>)) {
        self.each_pending(visit);
        for (txn, ended) in &self.ended {
            if let Some(replies) = &ended.replies {
                visit(PartId::Ended(*txn), Part::Run(replies.bytes()));
            }
        }
        for (origin, replies) in &self.deferred {
            visit(PartId::Deferred(*origin), Part::Run(replies.bytes()));
        }
    }

    /// What becomes of partitions when transactions are committed that are prepared.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (TxnId, &PartitionStep)> {
        let prepared = self.prepared.iter();
        prepared.filter_map(|(txn, prepared)| Some((*txn, prepared.step.as_ref()?)))
    }

    /// That is to become of a partition when this transaction is committed, which is prepared; `None` if it is not.
    pub(crate) fn restore_step(&mut self, txn: TxnId, step: PartitionStep) -> Option<()> {
        self.prepared.get_mut(&txn)?.step = Some(step);
        Some(())
    }

    /// Writes them for another replica.
    pub(crate) fn encode(&self, parts: &SentParts, to: &mut Vec<u8>) {
        self.write(parts, to, &mut |id, replies, to| replies.encode(id, parts, to));
    }

    fn write(
        &self,
        parts: &SentParts,
        to: &mut Vec<u8>,
        write_replies: &mut impl FnMut(PartId, &Replies, &mut Vec<u8>),
    ) {
        to.u64s(&[self.requests, self.locks.arrivals()]);
        to.count(self.waiting.len());
        // In the order in which they are to go on, with their places in it.
        for (priority, arrival, id, _) in self.locks.waiting_ids() {
            let waiting = &self.waiting[&id];
            to.u64s(&[id, arrival]);
            write_origin(to, waiting.origin);
            priority_to(to, priority);
            // Not what follows from the operation alone: keys with a deadline are locked alone.
            locks_to(to, &waiting.locks);
            parts.text(PartId::Waiting(id), &waiting.bytes, to);
        }
        to.count(self.held.len());
        for (txn, participants) in &self.held {
            write_txn(to, *txn);
            write_participants(to, participants);
        }
        to.count(self.locks.holders().count());
        for (txn, priority, locks, is_prepared) in self.locks.holders() {
            write_txn(to, txn);
            priority_to(to, priority);
            to.bool(is_prepared);
            locks_to(to, locks);
        }
        to.count(self.prepared.len());
        for (txn, prepared) in &self.prepared {
            write_txn(to, *txn);
            write_participants(to, &prepared.participants);
            to.count(prepared.effects.len());
            for (index, effect) in (0..).zip(&prepared.effects) {
                effect_to(to, effect, parts.number(PartId::Effect(*txn, index)));
            }
            parts.text(PartId::InPlace(*txn), &prepared.in_place, to);
            to.bool(prepared.put.is_some());
            if let Some((db, pairs)) = &prepared.put {
                to.u8(db.number());
                parts.text(PartId::Put(*txn), pairs, to);
            }
            to.option(&prepared.result, |to, result| result.encode(to));
        }
        to.count(self.ended.len());
        for (txn, ended) in &self.ended {
            write_txn(to, *txn);
            to.u8(ended.vote_record.code());
            write_participants(to, &ended.participants);
            to.option(&ended.replies, |to, replies| {
                write_replies(PartId::Ended(*txn), replies, to)
            });
        }
        to.count(self.over.len());
        for txn in &self.over {
            write_txn(to, *txn);
        }
        to.count(self.low.len());
        for (coordinator, low) in &self.low {
            write_gateway(to, *coordinator);
            to.u64(*low);
        }
        to.count(self.deferred.len());
        for (origin, replies) in &self.deferred {
            write_origin(to, *origin);
            write_replies(PartId::Deferred(*origin), replies, to);
        }
    }

    /// Reads what [`Transactions::encode`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn decode(parts: &mut Parts, rest: &mut Reader<'_>) -> Result<Transactions, DecodeError> {
        let mut all = Transactions {
            requests: rest.u64()?,
            ..Transactions::new()
        };
        let conflict = rest.error("operations that can wait for locks");
        let arrivals = rest.u64()?;
        let mut waiters = Vec::new();
        for _ in 0..rest.u32()? {
            let (id, arrival) = (rest.u64()?, rest.u64()?);
            let (origin, priority) = (read_origin(rest)?, priority_of(rest)?);
            let locks = locks_from(rest)?;
            let bytes: Box<[u8]> = parts.text(rest)?.into();
            waiters.push((id, arrival, origin, priority, locks, bytes));
        }
        for _ in 0..rest.u32()? {
            all.held.insert(read_txn(rest)?, read_participants(rest)?);
        }
        for _ in 0..rest.u32()? {
            let conflict = rest.error("locks that can be held");
            let (txn, priority) = (read_txn(rest)?, priority_of(rest)?);
            let is_prepared = rest.bool()?;
            let locks = locks_from(rest)?;
            if !all.locks.restore_holder(txn, priority, locks, is_prepared) {
                return Err(conflict);
            }
        }
        for _ in 0..rest.u32()? {
            let lockless = rest.error("a transaction that holds its locks");
            let (txn, participants) = (read_txn(rest)?, read_participants(rest)?);
            let effects = rest.list(2 + COUNT_BYTES, |rest| effect_of(parts, rest))?;
            let in_place = parts.text(rest)?.into();
            let put = rest.option(|rest| {
                let (db, pairs) = (read_db(rest)?, parts.text(rest)?);
                Pairs::read(&pairs)?;
                Ok((db, pairs.into()))
            })?;
            let result = rest.option(KeptResult::decode)?;
            if all.locks.locks_of(txn).is_none() {
                return Err(lockless);
            }
            let prepared = Prepared {
                participants,
                effects,
                events: Vec::new(),
                in_place,
                put,
                result,
                step: None,
            };
            all.prepared.insert(txn, prepared);
        }
        for _ in 0..rest.u32()? {
            let txn = read_txn(rest)?;
            let unknown = rest.error("a vote record");
            let vote_record = VoteRecord::of_code(rest.u8()?).ok_or(unknown)?;
            let participants = read_participants(rest)?;
            let replies = rest.option(|rest| Replies::decode(parts, rest))?;
            let ended = Ended {
                vote_record,
                participants,
                replies,
            };
            all.ended.insert(txn, ended);
        }
        for _ in 0..rest.u32()? {
            all.over.insert(read_txn(rest)?);
        }
        for _ in 0..rest.u32()? {
            all.low.insert(read_gateway(rest)?, rest.u64()?);
        }
        for _ in 0..rest.u32()? {
            all.deferred
                .insert(read_origin(rest)?, Replies::decode(parts, rest)?);
        }
        for (id, arrival, origin, priority, locks, bytes) in waiters {
            let txn = Operations::read_one(&bytes, |operation| Some(needs_of(&operation)?.txn));
            let txn = txn.flatten().ok_or(conflict)?;
            let requester = requester(&txn, is_lock(&bytes));
            if !all
                .locks
                .restore_waiter(arrival, id, requester, priority, locks.clone())
            {
                return Err(conflict);
            }
            let waiting = Waiting {
                origin,
                priority,
                locks,
                txn,
                bytes,
            };
            all.await_locks(id, waiting);
        }
        if !all.locks.restore_arrivals(arrivals) {
            return Err(conflict);
        }
        Ok(all)
    }
}

/// What an operation has to wait for.
pub(crate) struct Needs {
    pub(crate) locks: Locks,
    pub(crate) txn: Option<(TxnId, Participants)>,
}

/// Whether the locks of a transaction were taken before.
fn after_lock(operation: &EntryOperation<'_>) -> bool {
    match operation {
        EntryOperation::Prepare(prepare) => match prepare.work {
            Work::Install { after_lock, .. } | Work::InPlace { after_lock, .. } => after_lock,
            Work::Evaluate { .. } | Work::Put { .. } | Work::Move(_) => false,
        },
        _ => false,
    }
}

fn is_lock(bytes: &[u8]) -> bool {
    bytes.first() == Some(&LOCK_TAG)
}

fn requester(txn: &Option<(TxnId, Participants)>, is_lock: bool) -> Requester {
    match txn {
        None => Requester::Plain,
        Some((txn, _)) if is_lock => Requester::Reading(*txn),
        Some((txn, _)) => Requester::Preparing(*txn),
    }
}

/// What an operation has to wait for; `None` if it waits for nothing.
pub(crate) fn needs_of(operation: &EntryOperation<'_>) -> Option<Needs> {
    let (locks, txn) = match operation {
        EntryOperation::Command { args, .. } => (crate::locking::locks_of([*args]), None),
        EntryOperation::Wait { command, .. } => (crate::locking::locks_of([command.args]), None),
        EntryOperation::Block { conditions, commands } => {
            let locks = crate::locking::locks_of(commands.iter().map(|command| command.args));
            (crate::locking::and_conditions(locks, conditions), None)
        }
        EntryOperation::Once { commands, .. } => {
            let locks = crate::locking::locks_of(commands.iter().map(|command| command.args));
            (locks, None)
        }
        EntryOperation::OnePhase { expects, effects } => {
            (crate::locking::of_effects(expects, effects, None), None)
        }
        EntryOperation::Prepare(prepare) => {
            let txn = Some((prepare.txn, prepare.participants.clone()));
            let locks = if after_lock(operation) {
                // It has them.
                Locks::Keys(Vec::new())
            } else {
                crate::locking::of_prepare(prepare)
            };
            (locks, txn)
        }
        EntryOperation::Lock(lock) if lock.is_whole => {
            let txn = Some((lock.txn, lock.participants.clone()));
            (Locks::WholeGroup(Mode::Exclusive), txn)
        }
        EntryOperation::Lock(lock) => {
            let mode = |alone| if alone { Mode::Exclusive } else { Mode::Shared };
            let keys = lock
                .keys
                .iter()
                .map(|(_, key, alone)| ((*key).into(), mode(*alone)));
            let txn = Some((lock.txn, lock.participants.clone()));
            (Locks::of_keys(keys.collect()), txn)
        }
        EntryOperation::Expire { .. }
        | EntryOperation::Evict { .. }
        | EntryOperation::Install { .. }
        | EntryOperation::Limits { .. }
        | EntryOperation::Fence { .. }
        | EntryOperation::Resolve(_)
        | EntryOperation::QueryTxn(_)
        | EntryOperation::Withdraw { .. }
        | EntryOperation::Forget(_)
        | EntryOperation::Received { .. }
        | EntryOperation::Resume(_)
        | EntryOperation::EndWait { .. }
        | EntryOperation::EndWaits { .. }
        | EntryOperation::Stage(_)
        | EntryOperation::Staged { .. }
        | EntryOperation::Arrive(_)
        | EntryOperation::Coding(_) => return None,
    };
    Some(Needs { locks, txn })
}

/// What operators and whoever recovers see of a group's transactions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TransactionCounts {
    /// Transactions that hold locks: prepared and not resolved, or locked before that.
    pub prepared: usize,
    /// Operations that wait for locks.
    pub waiting: usize,
    /// Ends that are kept until they are known everywhere.
    pub ended: usize,
    /// Answers that have not arrived.
    pub deferred: usize,
    /// Results that are kept of requests that clients have named.
    pub results: usize,
    /// Bytes that these count for.
    pub result_bytes: usize,
}

impl std::ops::AddAssign for TransactionCounts {
    fn add_assign(&mut self, other: TransactionCounts) {
        self.prepared += other.prepared;
        self.waiting += other.waiting;
        self.ended += other.ended;
        self.deferred += other.deferred;
        self.results += other.results;
        self.result_bytes += other.result_bytes;
    }
}

/// A transaction that holds locks, as operators see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenTransaction {
    /// Its name, which says who coordinates it.
    pub txn: TxnId,
    /// Since when, by its coordinator's clock.
    pub began: UnixMillis,
    /// Whether it has voted: it cannot lose its locks any more.
    pub is_prepared: bool,
    /// All groups that have a part in it; empty where they are not written down.
    pub participants: Vec<GroupId>,
}

impl Keyspace {
    /// How much of transactions is here.
    pub fn transaction_counts(&self) -> TransactionCounts {
        let all = &self.transactions;
        let (results, result_bytes) = self.requests.size();
        TransactionCounts {
            prepared: all.locks.holder_count(),
            waiting: all.waiting.len(),
            ended: all.ended.len() + all.over.len(),
            deferred: all.deferred.len(),
            results,
            result_bytes,
        }
    }

    /// The ends and answers that are kept here, each by the boot that is to say that they need not be any more, and in words
    /// for traces.
    pub fn kept_for(&self) -> impl Iterator<Item = (Boot, String)> {
        let all = &self.transactions;
        let ended = all.ended.iter();
        let ended = ended.map(|(txn, ended)| (txn.boot, format!("{txn:?} {:?}", ended.vote_record)));
        let over = all.over.iter().map(|txn| (txn.boot, format!("{txn:?} is over")));
        let deferred = all.deferred.keys();
        let arrival = self.arrival().into_iter();
        let arrival = arrival.map(|(txn, partition)| (txn.boot, format!("{txn:?} has {partition:?} arrive")));
        ended
            .chain(over)
            .chain(arrival)
            .chain(deferred.map(|origin| (origin.gateway.boot, format!("{origin:?}"))))
    }

    /// Whether anything is held or waited for, or an end is kept.
    pub fn has_transactions(&self) -> bool {
        !self.transactions.is_idle() || !self.transactions.ended.is_empty()
    }

    /// Keys with the most waiters, and how many these are.
    pub fn hottest_keys(&self, max: usize) -> Vec<(&[u8], usize)> {
        self.transactions.locks.hottest(max)
    }

    /// The oldest of the transactions that hold locks, at most `max`.
    pub fn oldest_transactions(&self, max: usize) -> Vec<OpenTransaction> {
        let all = &self.transactions;
        let mut holders: Vec<_> = all.locks.holders().collect();
        holders.sort_unstable_by_key(|(_, priority, ..)| *priority);
        let of = |(txn, priority, _, is_prepared): (TxnId, Priority, &Locks, bool)| {
            let prepared = all.prepared.get(&txn).map(|prepared| &prepared.participants);
            let participants = prepared.or_else(|| all.held.get(&txn));
            let participants = participants.into_iter().flat_map(|all| all.iter());
            OpenTransaction {
                txn,
                began: priority.began,
                is_prepared,
                participants: participants.map(|participant| participant.group).collect(),
            }
        };
        holders.into_iter().take(max).map(of).collect()
    }

    /// The transactions that hold locks here, with all their participants: whoever leads sees to it that they end.
    pub fn open_transactions(&self) -> impl Iterator<Item = (TxnId, &Participants)> {
        let prepared = self.transactions.prepared.iter();
        let prepared = prepared.map(|(txn, prepared)| (*txn, &prepared.participants));
        let held = self.transactions.held.iter();
        prepared.chain(held.map(|(txn, participants)| (*txn, participants)))
    }

    /// Whether a transaction has voted here that it can be carried out, and has not ended.
    pub fn has_prepared(&self, txn: TxnId) -> bool {
        self.transactions.prepared.contains_key(&txn)
    }

    /// The transactions whose end is kept here although their coordinator is dead.
    pub fn ended_of_dead(&self) -> impl Iterator<Item = (TxnId, &Participants)> {
        let ended = self.transactions.ended.iter();
        let is_dead = |txn: &TxnId| self.sessions.is_dead(txn.boot);
        ended
            .filter(move |(txn, _)| is_dead(txn))
            .map(|(txn, ended)| (*txn, &ended.participants))
    }

    /// Whether a transaction waits here, and has no vote.
    pub fn is_waiting(&self, txn: TxnId) -> bool {
        self.transactions.locks.is_waiting(txn)
    }

    /// Whether an operation waits here for what a transaction holds.
    pub fn is_awaited(&self, txn: TxnId) -> bool {
        self.transactions.locks.is_awaited(txn)
    }

    /// What a transaction holds here, if anything.
    pub fn locks_of(&self, txn: TxnId) -> Option<&Locks> {
        self.transactions.locks.locks_of(txn)
    }

    /// Whether any operation waits here.
    #[inline]
    pub fn has_lock_waiters(&self) -> bool {
        !self.transactions.waiting.is_empty()
    }

    /// The younger transactions that older ones wait for here, with their participants.
    pub fn to_be_wounded(&self) -> Vec<(TxnId, Participants)> {
        let all = &self.transactions;
        let mut found: Vec<TxnId> = all
            .waiting
            .keys()
            .flat_map(|id| all.locks.blockers(*id))
            .collect();
        found.sort_unstable();
        found.dedup();
        let of = |txn: TxnId| Some((txn, all.prepared.get(&txn)?.participants.clone()));
        found.into_iter().filter_map(of).collect()
    }

    /// Whether a read of these keys may be answered now: no transaction holds them alone, and no command waits for them. A
    /// transaction that waits for them is not decided, and keeps nobody: a write that comes behind the read may be older than it, and go
    /// first, and the read must not see what that one writes.
    #[inline]
    pub fn admits(&self, locks: impl FnOnce() -> Locks) -> bool {
        self.transactions.is_idle()
            || mutations::is(Mutation::LockIgnoredByRead)
            || self.admits_behind(&locks(), self.transactions.locks.arrivals())
    }

    /// The same, of a read that came when so many had begun to wait.
    pub fn admits_behind(&self, locks: &Locks, arrivals: u64) -> bool {
        self.transactions.locks.admits_behind(locks, arrivals)
    }

    /// Whether a command that only reads may be answered now. One that goes through the keyspace in steps (`SCAN`) needs no
    /// lock: it is to see what was decided before it came, and so waits for what is prepared.
    pub fn admits_read(&self, args: Args<'_>) -> bool {
        if self.transactions.is_idle() {
            return true;
        }
        if crate::locking::is_scan(args) {
            return self.have_left(self.behind().prepared);
        }
        self.admits(|| crate::locking::locks_of([args]))
    }

    /// Where a read stands that comes now.
    pub fn behind(&self) -> Behind {
        let locks = &self.transactions.locks;
        Behind {
            arrivals: locks.arrivals(),
            prepared: locks.prepared_count(),
        }
    }

    /// Whether all that were prepared then ([`Behind::prepared`]) have ended.
    pub fn have_left(&self, prepared: u64) -> bool {
        self.transactions.locks.have_left(prepared)
    }

    /// What an operation was answered later than its batch, if it was; `None` if it waits still.
    ///
    /// # Errors
    /// Nothing is known of it.
    pub fn deferred_answer(&self, origin: Origin) -> Result<Option<crate::Answer<'_>>, UnknownOrigin> {
        if let Some(replies) = self.transactions.deferred.get(&origin) {
            return Ok(Some(replies.newest()));
        }
        let is_waiting = self.waiters.has(origin) || self.transactions.by_origin.contains_key(&origin);
        if is_waiting { Ok(None) } else { Err(UnknownOrigin) }
    }

    /// The version of the last change of whatever commands that only read look at, and conditions, or a later one. `None` if
    /// a key has expired: it has changed, and nobody has written down when.
    pub fn last_change<'a>(
        &self,
        keys: impl IntoIterator<Item = (Db, &'a [u8])>,
        local: &LeaderLocal,
    ) -> Option<Version> {
        let mut last = Version(0);
        for (db, key) in keys {
            last = last.max(self.last_change_of(db, key, local)?);
        }
        Some(last)
    }

    /// What `key` holds, with its version, to be worked on elsewhere, as [`read_seen`] reads it. A long string is shared, and
    /// nothing else is copied but into these bytes.
    pub fn share_seen(&self, db: Db, key: &[u8], local: &LeaderLocal) -> FrozenRope {
        let version = self.version_read(db, key, local);
        let is_there = matches!(version, KeyVersion::Present(_));
        let object = is_there.then(|| self.object_at(db, key)).flatten();
        let written = local.written.as_ref().filter(|_| is_there);
        let written = written.and_then(|written| written.of(self, db, key));
        share_seen(object.as_deref(), written, version)
    }

    /// Has [`Keyspace::share_seen`] share a long string that was changed in place. It is as it was: nobody can tell but by its place.
    pub fn prepare_to_share(&mut self, db: Db, key: &[u8]) {
        let location = self.locate(key);
        let is_own = |object: &Object| {
            object.kept_string().is_none()
                && matches!(object.value(), Value::Bytes(bytes) if bytes.len() >= KEPT_BYTES_MIN)
        };
        let found = self.database(db).find(location, key);
        if found.is_some_and(|object| is_own(&object)) {
            self.database_mut(db).update(location, key, Object::share_text);
        }
    }

    /// Whether the operation must wait for a transaction: it is queued, and answered later.
    pub(crate) fn parks(
        &mut self,
        operation: &EntryOperation<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) -> bool {
        if mutations::is(Mutation::LockIgnoredByCommand) {
            return false;
        }
        let Some(needs) = needs_of(operation).filter(|needs| !self.transactions.locks.admits(&needs.locks))
        else {
            return false;
        };
        if self.transactions.is_full() {
            replies.crowd_out();
            return true;
        }
        let priority = self.priority_of_arrival();
        if self.queue(operation, needs, origin, priority, local) {
            // Whoever held the keys had no vote, and is younger. Reads that waited for him came before this.
            self.tell_freed(local, answer);
            return false;
        }
        replies.deferred();
        true
    }

    /// A plain operation is as old as its arrival.
    pub(crate) fn priority_of_arrival(&self) -> Priority {
        Priority {
            began: self.time(),
            boot: Boot(u64::MAX),
            seq: self.transactions.requests,
        }
    }

    /// Asks for locks. `true` if they are held.
    pub(crate) fn queue(
        &mut self,
        operation: &EntryOperation<'_>,
        needs: Needs,
        origin: Origin,
        priority: Priority,
        local: &mut LeaderLocal,
    ) -> bool {
        let all = &mut self.transactions;
        all.requests += 1;
        let id = all.requests;
        let mut locks = needs.locks;
        if needs.txn.is_some() {
            locks = crate::locking::alone_if_mortal(locks, &self.databases);
        }
        let all = &mut self.transactions;
        let requester = requester(&needs.txn, matches!(operation, EntryOperation::Lock(_)));
        let (grant, locks) = match all.locks.try_hold(requester, priority, locks) {
            Ok(()) => (Grant::Granted, Locks::Keys(Vec::new())),
            Err(locks) => {
                let holders = all.locks.holder_count();
                let grant = all.locks.request(id, requester, priority, locks.clone());
                let is_new = grant == Grant::Granted && needs.txn.is_some();
                if all.locks.holder_count() < holders + usize::from(is_new) {
                    // Whoever held without a vote has lost his locks to this one.
                    let table = &all.locks;
                    all.held.retain(|txn, _| table.locks_of(*txn).is_some());
                }
                (grant, locks)
            }
        };
        match grant {
            Grant::Granted => {
                if let (EntryOperation::Lock(_), Some((txn, participants))) = (operation, needs.txn) {
                    all.held.insert(txn, participants);
                }
                true
            }
            Grant::Waits { wound } => {
                let of = |txn: TxnId| Some((txn, all.prepared.get(&txn)?.participants.clone()));
                local.wounds.extend(wound.into_iter().filter_map(of));
                local.waited += 1;
                let mut bytes = Operations::new();
                bytes.push(operation);
                let waiting = Waiting {
                    origin,
                    priority,
                    locks,
                    txn: needs.txn,
                    bytes: bytes.into_bytes().into(),
                };
                all.await_locks(id, waiting);
                false
            }
        }
    }

    /// One operation of a transaction.
    pub(crate) fn apply_transaction(
        &mut self,
        operation: EntryOperation<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) {
        self.applied.0 += 1;
        if let (EntryOperation::Prepare(_) | EntryOperation::Lock(_), Some(needs)) =
            (&operation, needs_of(&operation))
        {
            return self.ask_for_part(operation, needs, None, origin, local, replies, answer);
        }
        match operation {
            EntryOperation::Resolve(Resolve { decisions }) => {
                for (txn, is_committed) in decisions {
                    self.resolve(txn, is_committed, local, replies);
                    self.serve(local);
                    // Each for itself: what waited for the first goes before what waits for the next.
                    self.go_on(local, answer);
                }
            }
            EntryOperation::QueryTxn(query_txn) => {
                let vote_record = self.query_txn(&query_txn, local);
                replies.buffer().push(vote_record.code());
                replies.end_reply(false);
                self.go_on(local, answer);
            }
            EntryOperation::Withdraw { txn } => {
                if mutations::is(Mutation::PreparedRevoked)
                    && self.transactions.prepared.remove(&txn).is_some()
                {
                    self.transactions.locks.release(txn);
                    self.transactions.end(txn, VoteRecord::Refused, [].into());
                }
                self.refuse_waiting(txn, Refusal::Wounded, local);
                self.go_on(local, answer);
            }
            EntryOperation::Forget(forget) => self.forget(&forget),
            EntryOperation::Received { answers } => {
                for (number, index) in answers {
                    let gateway = origin.gateway;
                    self.transactions.deferred.remove(&Origin {
                        gateway,
                        number,
                        index,
                    });
                }
            }
            EntryOperation::Resume(resume) => {
                let is_vain = |kept: Origin| kept.gateway == origin.gateway && resume.forgets(kept);
                self.transactions.deferred.retain(|kept, _| !is_vain(*kept));
                self.waiters.retain(|waiter| !is_vain(waiter));
            }
            EntryOperation::Command { .. }
            | EntryOperation::Expire { .. }
            | EntryOperation::Evict { .. }
            | EntryOperation::Install { .. }
            | EntryOperation::Limits { .. }
            | EntryOperation::Fence { .. }
            | EntryOperation::Block { .. }
            | EntryOperation::Once { .. }
            | EntryOperation::OnePhase { .. }
            | EntryOperation::Wait { .. }
            | EntryOperation::EndWait { .. }
            | EntryOperation::EndWaits { .. }
            | EntryOperation::Prepare(_)
            | EntryOperation::Lock(_)
            | EntryOperation::Stage(_)
            | EntryOperation::Staged { .. }
            | EntryOperation::Arrive(_)
            | EntryOperation::Coding(_) => unreachable!("the caller has looked"),
        }
    }

    /// A part of a transaction asks for its locks, and for a vote if it is not to be told only what they hold. `age` is what it
    /// waits by, if not by when its transaction began.
    #[expect(
        clippy::too_many_arguments,
        reason = "an operation, how it waits, and where its answer goes"
    )]
    pub(crate) fn ask_for_part(
        &mut self,
        operation: EntryOperation<'_>,
        needs: Needs,
        age: Option<Priority>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) {
        let (txn, began, participants) = match &operation {
            EntryOperation::Prepare(prepare) => (prepare.txn, prepare.began, &prepare.participants),
            EntryOperation::Lock(lock) => (lock.txn, lock.began, &lock.participants),
            _ => unreachable!("the caller has looked"),
        };
        let is_after_lock = after_lock(&operation);
        let is_repeated = !is_after_lock && self.transactions.held.contains_key(&txn);
        if matches!(
            self.transactions.vote_record(txn),
            VoteRecord::Prepared | VoteRecord::Committed
        ) {
            // It has voted, and a vote is never taken back, whoever asks again.
            return vote(replies, Ok(()));
        }
        if self.has_begun_anew(participants) {
            // Nothing is written down of it: this group had no part, or had one that is lost.
            return vote(replies, Err(Refusal::Renewed));
        }
        if let Some(refusal) = self.refuses(txn).or(is_repeated.then_some(Refusal::Queried)) {
            return vote(replies, Err(refusal));
        }
        let is_granted = if is_after_lock {
            let is_held = self.transactions.locks.prepare_held(txn);
            self.transactions.held.remove(&txn);
            if !is_held && !mutations::is(Mutation::TakenLockPrepares) {
                return self.refuse(txn, participants, Refusal::Wounded, replies);
            }
            true
        } else if self.transactions.is_full() {
            return self.refuse(txn, participants, Refusal::Busy, replies);
        } else {
            let age = age.unwrap_or_else(|| priority(txn, began));
            self.queue(&operation, needs, origin, age, local)
        };
        if is_granted {
            self.carry_out(operation, local, replies);
        } else {
            replies.deferred();
        }
        self.go_on(local, answer);
    }

    /// The locks are held.
    fn carry_out(&mut self, operation: EntryOperation<'_>, local: &mut LeaderLocal, replies: &mut Replies) {
        let elsewhere = self.elsewhere_of(&operation);
        if !elsewhere.is_empty() {
            let (txn, participants) = match &operation {
                EntryOperation::Prepare(prepare) => (prepare.txn, &prepare.participants),
                EntryOperation::Lock(lock) => (lock.txn, &lock.participants),
                _ => unreachable!("only these are transactions that wait"),
            };
            self.transactions.held.remove(&txn);
            self.refuse(txn, participants, Refusal::Moved, replies);
            Moved::write(&elsewhere, replies.buffer());
            return replies.end_reply(false);
        }
        match operation {
            EntryOperation::Prepare(prepare) => self.judge(*prepare, local, replies),
            // Whoever asked is here, and takes the objects himself.
            EntryOperation::Lock(_) if local.is_alone => vote(replies, Ok(())),
            EntryOperation::Lock(lock) => self.show(&lock, replies),
            _ => unreachable!("only these are transactions that wait"),
        }
    }

    /// Whether the group, as one of these, was another generation of it.
    fn has_begun_anew(&self, participants: &[Participant]) -> bool {
        let mut participants = participants.iter();
        let ours = participants.find(|participant| participant.group == self.place.group);
        ours.is_some_and(|ours| ours.generation != self.place.generation)
    }

    /// Whether it is known that a transaction is over, or will never be prepared.
    pub(crate) fn has_ended(&self, txn: TxnId) -> bool {
        self.sessions.is_dead(txn.boot)
            || self.transactions.vote_record(txn) != VoteRecord::Empty
            || self.transactions.is_over(txn)
    }

    /// Why a transaction can no longer prepare here.
    fn refuses(&self, txn: TxnId) -> Option<Refusal> {
        if self.sessions.is_dead(txn.boot) && !mutations::is(Mutation::FenceIgnored) {
            return Some(Refusal::Over);
        }
        // Somebody took its coordinator for lost, and asked before it came. The next attempt is another one.
        let is_known = self.transactions.vote_record(txn) != VoteRecord::Empty
            || self.transactions.locks.is_waiting(txn)
            || self.transactions.is_over(txn);
        is_known.then_some(Refusal::Queried)
    }

    /// The locks are held: conditions are judged, effects computed, the vote record written.
    fn judge(&mut self, prepare: Prepare<'_>, local: &mut LeaderLocal, replies: &mut Replies) {
        let txn = prepare.txn;
        if let Work::Install {
            result: Some(result), ..
        } = &prepare.work
            && let Some(standing) = self.requests.standing(&result.request, self.time())
        {
            // Before all conditions: what was carried out has changed what they ask for.
            self.refuse(txn, &prepare.participants, Refusal::Known, replies);
            self.stand(standing, &result.request, replies);
            return self.discard_work(prepare.work);
        }
        let holds = |all: &[ConditionView<'_>]| all.iter().all(|condition| self.holds(condition));
        let refusal = if self.evaluates_settled(&prepare.work) {
            Some(Refusal::Busy)
        } else if !holds(&prepare.conditions) && !mutations::is(Mutation::ConditionsNotJudged) {
            Some(Refusal::Condition)
        } else if !holds(&prepare.expects) && !mutations::is(Mutation::VersionsNotChecked) {
            Some(Refusal::Changed)
        } else if let Work::Move(step) = &prepare.work
            && !self.may_step(txn, step)
        {
            Some(Refusal::Condition)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.refuse(txn, &prepare.participants, refusal, replies);
            return self.discard_work(prepare.work);
        }
        let mut prepared = Prepared {
            participants: prepare.participants.clone(),
            effects: Vec::new(),
            events: Vec::new(),
            in_place: Box::default(),
            put: None,
            result: None,
            step: None,
        };
        let start = replies.mark();
        vote(replies, Ok(()));
        match prepare.work {
            Work::Put { db, pairs } => {
                prepared.put = Some((db, pairs.bytes().into()));
                Answers::answer(replies, Protocol::Resp2, |out| out.ok());
            }
            Work::Evaluate { commands, is_strict } => {
                let evaluated = self.evaluate(&commands, local, replies);
                if is_strict && replies.has_error_since(start) {
                    replies.change_vote(start, Refusal::Failed.code());
                    self.transactions.locks.release(txn);
                    return self
                        .transactions
                        .end(txn, VoteRecord::Refused, prepare.participants.clone());
                }
                (prepared.effects, prepared.events) = evaluated;
            }
            Work::Install { effects, result, .. } => (prepared.effects, prepared.result) = (effects, result),
            Work::Move(step) => {
                self.note_step_voted(&step);
                prepared.step = Some(step);
            }
            Work::InPlace { steps, .. } => {
                let mut operations = Operations::new();
                for step in steps {
                    operations.push(&match step {
                        InPlaceStep::Run(BlockCommand { db, protocol, args }) => {
                            EntryOperation::Command { db, protocol, args }
                        }
                        InPlaceStep::Install(effects) => EntryOperation::Install { effects },
                    });
                }
                prepared.in_place = operations.into_bytes().into();
            }
        }
        local.prepared += 1;
        let leaves = matches!(prepared.step, Some(PartitionStep::Leave { .. }));
        if mutations::is(Mutation::LocksReleasedEarly) || leaves && mutations::is(Mutation::LeavingNotLocked)
        {
            self.transactions.locks.release(txn);
        }
        let before = self.transactions.prepared.insert(txn, prepared);
        assert!(before.is_none(), "invariant 1: {txn:?} prepared before");
    }

    /// Whether commands are to be evaluated on copies of values that are settled: whoever proposes that brings them back before.
    fn evaluates_settled(&self, work: &Work<'_>) -> bool {
        let Work::Evaluate { commands, .. } = work else {
            return false;
        };
        if self.code().is_none() {
            return false;
        }
        let databases = databases(commands.iter().copied());
        commands.iter().any(|command| {
            let mut is_settled = false;
            if let Ok(spec) = command::resolve_in_group(command.args) {
                command::keys(spec, command.args, &mut |position, _| {
                    let key = command.args.arg(position);
                    is_settled |= self.has_settled(databases.iter().map(|db| (*db, key)));
                });
            }
            is_settled
        })
    }

    fn discard_work(&mut self, work: Work<'_>) {
        if let Work::Install { effects, .. } = work {
            self.discard(effects);
        }
    }

    fn refuse(&mut self, txn: TxnId, participants: &Participants, refusal: Refusal, replies: &mut Replies) {
        self.transactions.locks.release(txn);
        self.transactions
            .end(txn, VoteRecord::Refused, participants.clone());
        vote(replies, Err(refusal));
    }

    /// The locks of `Lock` are held: answers with the group's time and what the keys hold.
    fn show(&mut self, lock: &Lock<'_>, replies: &mut Replies) {
        if self.has_settled(lock.keys.iter().map(|(db, key, _)| (*db, &key[..]))) {
            // Whoever proposed it was to bring them back before.
            self.transactions.held.remove(&lock.txn);
            return self.refuse(lock.txn, &lock.participants, Refusal::Busy, replies);
        }
        vote(replies, Ok(()));
        replies.buffer().i64(self.time().0);
        replies.end_reply(false);
        for (db, key, _) in &lock.keys {
            let (object, version) = (self.object_at(*db, key), self.version(*db, key));
            write_seen(replies.buffer(), object.as_deref(), version);
            replies.end_reply(false);
        }
    }

    fn resolve(&mut self, txn: TxnId, is_committed: bool, local: &mut LeaderLocal, replies: &mut Replies) {
        let Some(prepared) = self.transactions.prepared.remove(&txn) else {
            let vote_record = self.transactions.vote_record(txn);
            let ended = self.transactions.ended.get(&txn);
            if let Some(kept) = ended.and_then(|ended| ended.replies.as_ref()) {
                replies.repeat(kept);
            }
            if is_committed && matches!(vote_record, VoteRecord::Refused | VoteRecord::Aborted) {
                // Some group has begun anew without what it knew of it. What stands here stays.
                local.torn.push(txn);
            }
            if !is_committed {
                self.refuse_waiting(txn, Refusal::Over, local);
                self.release_held(txn);
                self.drop_arrival_of(txn);
            }
            return;
        };
        let participants = prepared.participants.clone();
        self.transactions.locks.release(txn);
        if !is_committed {
            if let Some(step) = &prepared.step {
                self.drop_step(step);
            }
            self.discard(prepared.effects);
            return self.transactions.end(txn, VoteRecord::Aborted, participants);
        }
        self.transactions.end(txn, VoteRecord::Committed, participants);
        let start = replies.mark();
        if self.carry_out_decision(prepared, local, replies)
            && !self.sessions.is_dead(txn.boot)
            && !mutations::is(Mutation::HoldRepliesNotKept)
        {
            let ended = self.transactions.ended.get_mut(&txn);
            ended.expect("it has just ended").replies = Some(replies.since(start));
        }
    }

    /// Reads where the keys of commands lie that an entry commits.
    pub(crate) fn look_at_resolved(&self, entry: &Entry<'_>) {
        if self.transactions.prepared.is_empty() {
            return;
        }
        let committed = entry.batches().iter().flat_map(BatchView::committed);
        let mut keys = committed.flat_map(|txn| self.put_keys(txn));
        loop {
            let mut count = 0;
            look_ahead(keys.by_ref().take(KEYS_AHEAD).inspect(|_| count += 1));
            if count < KEYS_AHEAD {
                return;
            }
        }
    }

    /// The keys of what is put, if it is worth while to look for them: these are all that it locked.
    fn put_keys(&self, txn: TxnId) -> impl Iterator<Item = (&Keyspace, Db, Slot, &[u8])> {
        let prepared = self.transactions.prepared.get(&txn);
        let put = prepared.and_then(|prepared| prepared.put.as_ref());
        let db = put.map(|(db, _)| *db).filter(|db| self.is_large(*db));
        let locks = db.and_then(|db| Some((db, self.transactions.locks.locks_of(txn)?)));
        locks.into_iter().flat_map(move |(db, locks)| {
            let keys = match locks {
                Locks::Keys(keys) => &keys[..],
                Locks::WholeGroup(_) => &[],
            };
            keys.iter()
                .map(move |(key, _)| (self, db, Slot::of_key(key), &**key))
        })
    }

    /// Does what a transaction was prepared to do, that is committed. Whether it is answered.
    fn carry_out_decision(
        &mut self,
        prepared: Prepared,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) -> bool {
        if !prepared.effects.is_empty() {
            self.install(prepared.effects, local);
        }
        local.events.extend(prepared.events);
        if let Some(result) = prepared.result {
            self.keep(result);
        }
        if let Some((db, pairs)) = prepared.put {
            self.put(db, &pairs, local);
        }
        if let Some(step) = prepared.step {
            self.take_step(step, local);
        }
        if prepared.in_place.is_empty() {
            return false;
        }
        let in_place = Operations::read(&prepared.in_place, |operation| match operation {
            EntryOperation::Command { db, protocol, args } => {
                self.apply_words(&BlockCommand { db, protocol, args }, local, replies);
            }
            EntryOperation::Install { effects } => self.install(effects, local),
            _ => unreachable!("nothing else is carried out in place"),
        });
        assert!(in_place.is_some(), "it was encoded here");
        true
    }

    /// Carries out what is an `MSET` and was answered with the vote.
    fn put(&mut self, db: Db, pairs: &[u8], local: &mut LeaderLocal) {
        self.applied.0 += 1;
        let pairs = Pairs::read(pairs).expect("it was encoded here");
        let mut nobody = Vec::new();
        let out = &mut ReplyWriter::new(&mut nobody, Protocol::Resp2);
        let mut apply = Apply {
            keyspace: self,
            local,
            db,
            out,
        };
        apply.put_each(pairs.iter());
    }

    /// A decision of which nobody will ask any more: nothing is written down of a vote that was given. `false` if none was.
    pub(crate) fn resolve_for_good(
        &mut self,
        txn: TxnId,
        is_committed: bool,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) -> bool {
        let Some(prepared) = self.transactions.prepared.remove(&txn) else {
            return false;
        };
        self.applied.0 += 1;
        self.transactions.locks.release(txn);
        if is_committed {
            self.carry_out_decision(prepared, local, replies);
        } else if let Some(step) = &prepared.step {
            self.drop_step(step);
        }
        self.serve(local);
        true
    }

    fn release_held(&mut self, txn: TxnId) {
        if self.transactions.held.remove(&txn).is_some() {
            self.transactions.locks.release(txn);
        }
    }

    /// Refuses a transaction that waits here.
    fn refuse_waiting(&mut self, txn: TxnId, refusal: Refusal, local: &mut LeaderLocal) {
        let Some(waiting) = self.transactions.withdraw(txn) else {
            return;
        };
        let (_, participants) = waiting.txn.expect("only transactions are withdrawn");
        self.transactions.end(txn, VoteRecord::Refused, participants);
        if refusal == Refusal::Wounded {
            local.wounded += 1;
        }
        self.answer_deferred(waiting.origin, refused(refusal), local);
    }

    fn query_txn(&mut self, query_txn: &QueryTxn, local: &mut LeaderLocal) -> VoteRecord {
        let txn = query_txn.txn;
        let vote_record = self.transactions.vote_record(txn);
        if vote_record != VoteRecord::Empty {
            return vote_record;
        }
        // Nobody votes for it any more.
        self.drop_arrival_of(txn);
        if self.transactions.is_over(txn) && !self.transactions.locks.is_waiting(txn) {
            // Its locks may have become free only after its coordinator had given it up, and nobody else would ask for them back.
            self.release_held(txn);
            return VoteRecord::Over;
        }
        if mutations::is(Mutation::RefusalNotRecorded) {
            return VoteRecord::Refused;
        }
        if self.has_begun_anew(&query_txn.participants) {
            // What it was here is not known. It will not be prepared any more, and that is not written down as a vote.
            if let Some(waiting) = self.transactions.withdraw(txn) {
                self.answer_deferred(waiting.origin, refused(Refusal::Renewed), local);
            }
            self.release_held(txn);
            return VoteRecord::Lost;
        }
        if self.transactions.locks.is_waiting(txn) {
            self.refuse_waiting(txn, Refusal::Queried, local);
            return VoteRecord::Refused;
        }
        self.release_held(txn);
        if self.sessions.is_dead(txn.boot) {
            // Whoever is fenced cannot prepare any more: there is nothing to remember. Nor is it known whether there was.
            return VoteRecord::Empty;
        }
        self.transactions
            .end(txn, VoteRecord::Refused, query_txn.participants.clone());
        VoteRecord::Refused
    }

    fn forget(&mut self, forget: &Forget) {
        let Forget {
            coordinator,
            low,
            over,
        } = forget;
        let is_dead = self.sessions.is_dead(coordinator.boot);
        let known = self.transactions.low.get(coordinator);
        let before = known.copied().unwrap_or_default();
        let mark = before.max(*low);
        let of = |seq, attempt| TxnId {
            boot: coordinator.boot,
            worker: coordinator.worker,
            seq,
            attempt,
        };
        for &(seq, attempt) in over {
            let txn = of(seq, attempt);
            self.transactions.ended.remove(&txn);
            // Above the mark it must not look as if it had never been, though nothing of it may have been written down here: who
            // asks late would write a refusal, and nobody would forget that.
            if !is_dead && seq >= mark {
                self.transactions.over.insert(txn);
            }
        }
        if !is_dead && mark > before {
            self.transactions.low.insert(*coordinator, mark);
            let below = self.transactions.over.range(of(0, 0)..of(mark, 0));
            for txn in below.copied().collect::<Vec<_>>() {
                self.transactions.over.remove(&txn);
            }
        }
        self.drop_ended_arrival();
    }

    pub(crate) fn answer_deferred(&mut self, origin: Origin, replies: Replies, local: &mut LeaderLocal) {
        if !self.sessions.is_dead(origin.gateway.boot) {
            self.transactions.deferred.insert(origin, replies);
            local.deferred.push(origin);
        }
    }

    /// Carries on whatever waited and is free.
    pub(crate) fn go_on(&mut self, local: &mut LeaderLocal, answer: &mut impl FnMut(ApplyOutput<'_>)) {
        self.tell_freed(local, answer);
        while let Some(id) = self.transactions.locks.next_granted() {
            let waiting = self.transactions.stop_waiting(id);
            let Waiting {
                origin,
                priority,
                locks,
                txn,
                bytes,
            } = waiting;
            let mut replies = Replies::default();
            replies.begin();
            let is_answered = Operations::read_one(&bytes, |operation| {
                let Some((txn, participants)) = txn.clone() else {
                    return self.apply_plain(operation, origin, local, &mut replies);
                };
                let mortal = crate::locking::alone_if_mortal(locks.clone(), &self.databases);
                if mortal != locks {
                    // A key was given a deadline meanwhile.
                    self.transactions.locks.release(txn);
                    let needs = Needs {
                        locks: mortal,
                        txn: Some((txn, participants.clone())),
                    };
                    if !self.queue(&operation, needs, origin, priority, local) {
                        return false;
                    }
                }
                if matches!(operation, EntryOperation::Lock(_)) {
                    self.transactions.held.insert(txn, participants);
                }
                self.carry_out(operation, local, &mut replies);
                true
            });
            if is_answered.expect("it was encoded here") {
                self.answer_deferred(origin, replies, local);
            }
            self.serve(local);
            self.tell_freed(local, answer);
        }
    }

    /// Whether a client that waits for keys may be served now: no transaction has voted on its keys, or seen them, and it is
    /// not behind a client of whom that is not so. If it may not, it waits for these from now on.
    pub(crate) fn admits_waiter(
        &mut self,
        operation: &EntryOperation<'_>,
        origin: Origin,
        is_behind: bool,
        local: &mut LeaderLocal,
    ) -> bool {
        let all = &self.transactions;
        if all.is_idle() {
            return true;
        }
        let Some(needs) = needs_of(operation) else {
            return true;
        };
        // Whoever was granted his locks and has not been carried out has seen nothing yet, and comes later.
        let is_open = |txn: &TxnId| all.prepared.contains_key(txn) || all.held.contains_key(txn);
        let in_the_way = |(txn, _, locks, _): (TxnId, Priority, &Locks, bool)| {
            is_open(&txn) && locks.conflicts(&needs.locks)
        };
        if !is_behind && !all.locks.holders().any(in_the_way) {
            return true;
        }
        let priority = self.priority_of_arrival();
        self.queue(operation, needs, origin, priority, local)
    }

    /// Reads that wait look again at what has become free.
    fn tell_freed(&mut self, local: &mut LeaderLocal, answer: &mut impl FnMut(ApplyOutput<'_>)) {
        let left = self.transactions.locks.take_left();
        if !left.is_empty() {
            answer(ApplyOutput::Freed(self, local, &left));
        }
    }
}

/// What a read waits for that came at some moment: the operations that waited then, and the transactions that were prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    /// How many operations had begun to wait.
    pub arrivals: u64,
    /// How many transactions had been prepared.
    pub prepared: u64,
}

/// Nothing is known of an operation: its answer has arrived, or the state was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOrigin;

fn priority(txn: TxnId, began: UnixMillis) -> Priority {
    Priority {
        began,
        boot: txn.boot,
        seq: txn.seq,
    }
}

/// The first reply of a participant: 0 is a vote for the transaction, anything else the reason against.
fn vote(replies: &mut Replies, vote: Result<(), Refusal>) {
    replies.buffer().push(vote.map_or_else(Refusal::code, |()| 0));
    replies.end_reply(false);
}

/// The answer to a participant's part that was refused after it had waited.
fn refused(refusal: Refusal) -> Replies {
    let mut replies = Replies::default();
    replies.begin();
    vote(&mut replies, Err(refusal));
    replies
}

/// Writes what was seen under a key: `present u8 | version u64 | [object]`.
fn write_seen(to: &mut Vec<u8>, object: Option<&Object>, version: KeyVersion) {
    seen_head(to, object.is_some(), version);
    if let Some(object) = object {
        assert!(!object.is_coded(), "a fragment is of no use elsewhere");
        object_codec::write_object(to, object);
    }
}

/// The same, a long value being shared: a string with the object, another one with nobody.
fn share_seen(object: Option<&Object>, written: Option<&EncodedObject>, version: KeyVersion) -> FrozenRope {
    let mut seen = Rope::default();
    let to = seen.bytes_mut();
    let encoded = written.cloned().or_else(|| object.and_then(EncodedObject::of));
    if let Some((object, kept)) = object.and_then(|object| Some((object, object.kept_string()?))) {
        seen_head(to, true, version);
        object_codec::write_head(to, object);
        to.count(kept.len());
        seen.push_run(kept.clone());
    } else if let Some(encoded) = encoded {
        seen_head(to, true, version);
        to.raw(encoded.head_bytes());
        let value = encoded.value_bytes();
        if value.len() >= KEPT_BYTES_MIN {
            to.count(value.len());
            seen.push_run(value.clone());
        } else {
            to.bytes(value);
        }
    } else {
        write_seen(to, object, version);
    }
    seen.freeze()
}

fn seen_head(to: &mut Vec<u8>, is_present: bool, version: KeyVersion) {
    let (tag, version) = match version {
        KeyVersion::Absent(version) => (0, version),
        KeyVersion::Present(version) => (1, version),
    };
    to.u8(tag | u8::from(is_present) << 1);
    to.u64(version.0);
}

/// Reads what a group wrote of what was seen under a key; `None` if the bytes are nothing like it. A long value is shared with
/// them, and a large collection is left as it is.
pub fn read_seen(seen: &FrozenRope) -> Option<(Option<SeenObject>, KeyVersion)> {
    let (bytes, run) = match seen.runs() {
        [(at, run)] if *at == seen.bytes().len() => (seen.bytes().clone(), Some(run)),
        _ => (seen.to_bytes(), None),
    };
    let mut rest = Reader::new(&bytes);
    let (is_present, version) = read_seen_head(&mut rest).ok()?;
    if !is_present {
        return rest.is_empty().then_some((None, version));
    }
    let before = rest.rest();
    let head = Head::read(&mut rest).ok()?;
    let head_bytes = &before[..before.len() - rest.rest().len()];
    let length = rest.u32().ok()? as usize;
    let value = match run {
        Some(run) => &run[..],
        None => rest.take(length).ok()?,
    };
    if !rest.is_empty() || value.len() != length {
        return None;
    }
    let source = run.unwrap_or(&bytes);
    let object = if head.form > object_codec::LAST_FLAT {
        SeenObject::Encoded(EncodedObject::new(head_bytes, source.slice_ref(value)))
    } else if object_codec::check(head.form, value) {
        SeenObject::Whole(head.object(value, Some(source)))
    } else {
        return None;
    };
    Some((Some(object), version))
}

fn read_seen_head(rest: &mut Reader<'_>) -> Result<(bool, KeyVersion), DecodeError> {
    let tag = rest.u8()?;
    let version = Version(rest.u64()?);
    let version = if tag & 1 == 0 {
        KeyVersion::Absent(version)
    } else {
        KeyVersion::Present(version)
    };
    Ok((tag & 2 != 0, version))
}

fn priority_to(to: &mut Vec<u8>, priority: Priority) {
    to.i64(priority.began.0);
    to.u64s(&[priority.boot.0, priority.seq]);
}

fn priority_of(rest: &mut Reader<'_>) -> Result<Priority, DecodeError> {
    Ok(Priority {
        began: UnixMillis(rest.i64()?),
        boot: Boot(rest.u64()?),
        seq: rest.u64()?,
    })
}

fn locks_to(to: &mut Vec<u8>, locks: &Locks) {
    match locks {
        Locks::WholeGroup(mode) => to.raw(&[1, u8::from(*mode == Mode::Exclusive)]),
        Locks::Keys(keys) => {
            to.u8(0);
            to.count(keys.len());
            for (key, mode) in keys {
                to.bool(*mode == Mode::Exclusive);
                to.bytes(key);
            }
        }
    }
}

fn locks_from(rest: &mut Reader<'_>) -> Result<Locks, DecodeError> {
    let mode = |code: u8| if code == 0 { Mode::Shared } else { Mode::Exclusive };
    if rest.u8()? != 0 {
        return Ok(Locks::WholeGroup(mode(rest.u8()?)));
    }
    let keys = rest.list(1 + COUNT_BYTES, |rest| {
        let code = rest.u8()?;
        Ok((rest.bytes()?.into(), mode(code)))
    })?;
    Ok(Locks::of_keys(keys))
}

/// What may be long of an effect.
fn part_of(effect: &Effect) -> Option<Part<'_>> {
    match effect {
        Effect::Put { object, .. } => match object.value() {
            Value::Bytes(bytes) | Value::Integers(bytes) => Some(Part::Run(bytes)),
            Value::Listpack(_, listpack) => Some(Part::Run(listpack.bytes())),
            Value::Large(_) => Some(Part::Collection(object)),
            // What a transaction decides is whole.
            Value::Integer(_) | Value::Coded(_) => None,
        },
        Effect::PutEncoded { object, .. } => Some(Part::Run(object.value_bytes())),
        Effect::Delete { .. } | Effect::Tell(_) => None,
    }
}

/// Writes an effect; of a value that was sent before, only which part it is.
fn effect_to(to: &mut Vec<u8>, effect: &Effect, part: Option<u32>) {
    match (effect, part) {
        (Effect::Delete { db, key }, _) => {
            to.raw(&[db.number(), 0]);
            to.bytes(key);
        }
        (Effect::Put { db, object }, None) => {
            to.raw(&[db.number(), 1]);
            object_codec::write_object(to, object);
        }
        (Effect::PutEncoded { db, object }, None) => {
            to.raw(&[db.number(), 1]);
            to.raw(object.head_bytes());
            to.bytes(object.value_bytes());
        }
        (Effect::Tell(event), _) => {
            to.raw(&[event.db.number(), 2]);
            event.write(to);
        }
        (Effect::Put { db, object }, Some(number)) => {
            if let Some(Part::Collection(_)) = part_of(effect) {
                to.raw(&[db.number(), 4]);
            } else {
                to.raw(&[db.number(), 3]);
                object_codec::write_head(to, object);
            }
            to.u32(number);
        }
        (Effect::PutEncoded { db, object }, Some(number)) => {
            to.raw(&[db.number(), 3]);
            to.raw(object.head_bytes());
            to.u32(number);
        }
    }
}

fn effect_of(parts: &mut Parts, rest: &mut Reader<'_>) -> Result<Effect, DecodeError> {
    let db = read_db(rest)?;
    let unknown = rest.error("an effect");
    match rest.u8()? {
        0 => Ok(Effect::Delete {
            db,
            key: rest.bytes()?.into(),
        }),
        1 => Ok(Effect::Put {
            db,
            object: object_codec::read_object(rest)?,
        }),
        2 => Event::read(db, rest).map(Effect::Tell),
        3 => {
            let before = rest.rest();
            let head = Head::read(rest)?;
            let head_bytes = &before[..before.len() - rest.rest().len()];
            let value = Bytes::from(parts.run(rest)?);
            if !object_codec::check(head.form, &value) {
                return Err(unknown);
            }
            Ok(if head.form > object_codec::LAST_FLAT {
                let object = EncodedObject::new(head_bytes, value);
                Effect::PutEncoded { db, object }
            } else {
                let object = head.object(&value, Some(&value));
                Effect::Put { db, object }
            })
        }
        4 => Ok(Effect::Put {
            db,
            object: parts.collection(rest)?,
        }),
        _ => Err(unknown),
    }
}
