//! One replica of one group: entries to the keyspace, answers from it.

use super::cluster::{Cluster, Place};
use super::frame::{Batch, Body, Elsewhere, Outcome, Read, State};
use super::session::with_words;
use crate::clock::Clock;
use bytes::Bytes;
use consensus::{
    Config, Durability, Effect, Group, Index, Lease, Members, Message, ReadId, ReadPermit, Saved,
    SnapshotPoint, Times,
};
use ids::{Db, GatewayId, GroupId, Incarnation, Monotonic, PartitionRange, Prng, SemanticsVersion};
use keyspace::{Answered, Arrival, Batched, Cut, Entry, EntryBuf, Header, Keyspace, LeaderLocal, Transfer};
use planted::Bug;
use resp::{Protocol, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Entries of a group that are proposed and not committed.
const IN_FLIGHT_MAX: u64 = 2;
/// About how long a cut is: short, so that a state takes several.
const CUT_BYTES: usize = 200;
/// After so long without an answer a cut is sent again.
const TRANSFER_AGAIN: Duration = Duration::from_millis(200);
/// From one attempt to hand leadership over to the next: longer than one takes.
const HAND_OVER_AGAIN: Duration = Duration::from_millis(1_500);
/// A learner that lags behind by no more entries can be promoted.
const LAG_MAX: u64 = 8;
/// After every so many entries states are compared.
const COMPARED_EVERY: u64 = 4;

/// What a replica leaves to the next process.
pub(super) struct Kept {
    incarnation: Incarnation,
    members: Members,
    point: SnapshotPoint,
    saved: Saved,
    keyspace: Keyspace,
}

impl Kept {
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }
}

/// To whom something is said.
pub(crate) enum To {
    Replica(Incarnation),
    Gateway(GatewayId),
}

/// What a replica wants said.
pub(crate) type Said = Vec<(To, Body)>;

/// A transfer to another replica, until its last cut has come.
struct Sending {
    /// `None` once the last cut was made.
    transfer: Option<Transfer>,
    newest: State,
    again_at: Monotonic,
}

/// A transfer to this replica.
struct Arriving {
    name: (Incarnation, u64),
    /// Cuts that were taken.
    number: u64,
    arrival: Arrival,
    /// With the last cut: of what the state is.
    point: Option<SnapshotPoint>,
}

/// A read, and the entry that its answer has to contain.
type Question = (Read, Index);

/// See the file's header.
pub(crate) struct Replica {
    pub(crate) group: Group,
    pub(crate) keyspace: Keyspace,
    local: LeaderLocal,
    /// Entries that its log keeps.
    log_kept: u64,
    batches: VecDeque<Batch>,
    /// Questions that no round was begun for, that one was, and that only wait to be reached by apply.
    reads: BTreeMap<(GatewayId, u64), Question>,
    rounds: BTreeMap<ReadId, Vec<Question>>,
    confirmed: Vec<(Index, Question)>,
    /// The lease as of the end of the last turn: whether it still holds is looked at after each read.
    lease: Option<Lease>,
    /// Peers that took this replica for an earlier one; only a planted mistake fills it.
    aliases: BTreeMap<Incarnation, Incarnation>,
    /// The state that is being given to this replica.
    arriving: Option<Arriving>,
    /// The states that it gives to others.
    transfers: BTreeMap<Incarnation, Sending>,
    transfers_counted: u64,
    /// When it may hand leadership over again, being no longer wanted.
    hand_over_at: Monotonic,
    prng: Prng,
    has_leases: bool,
}

impl Replica {
    fn with(config: Config, keyspace: Keyspace, has_leases: bool, now: Monotonic) -> Replica {
        let mut prng = Prng::new(config.seed);
        let group = Group::new(config, now).expect("the cluster is made as the rules say");
        Replica {
            group,
            keyspace,
            local: LeaderLocal::new(prng.next_u64()),
            log_kept: 4 + prng.below(60),
            batches: VecDeque::new(),
            reads: BTreeMap::new(),
            rounds: BTreeMap::new(),
            confirmed: Vec::new(),
            lease: None,
            aliases: BTreeMap::new(),
            arriving: None,
            transfers: BTreeMap::new(),
            // One that another process of this incarnation began is not mistaken for one of these.
            transfers_counted: prng.next_u64() >> 1,
            hand_over_at: now,
            prng,
            has_leases,
        }
    }

    /// A replica that holds nothing: one of the first of its group if `first` says who they are, or one to be added.
    pub(crate) fn empty(
        group: GroupId,
        me: Incarnation,
        first: Option<&Place>,
        cluster: &Cluster,
        seed: u64,
        now: Monotonic,
    ) -> Replica {
        let start = match first {
            Some(place) => Config::first(Members::of_voters(place.wanted.iter().copied())),
            None => Config::NOWHERE,
        };
        let config = config(group, me, start, Saved::default(), seed);
        let keyspace = Keyspace::new(cluster.seeds[group.index()], PartitionRange::ONE);
        Replica::with(config, keyspace, cluster.shape.has_leases, now)
    }

    /// The replica that another process left.
    pub(crate) fn resumed(
        group: GroupId,
        kept: Kept,
        has_leases: bool,
        seed: u64,
        now: Monotonic,
    ) -> Replica {
        let config = config(group, kept.incarnation, kept.point, kept.saved, seed);
        Replica::with(config, kept.keyspace, has_leases, now)
    }

    /// What the next process needs.
    pub(crate) fn keep(mut self) -> Kept {
        self.end_transfers(|_| true);
        Kept {
            incarnation: self.group.me(),
            members: self.group.members().clone(),
            point: self.group.point(),
            saved: self.group.saved(),
            keyspace: self.keyspace,
        }
    }

    // ---- what gateways ask

    pub(crate) fn on_batch(&mut self, batch: Batch, said: &mut Said) {
        if !self.group.is_leader() {
            let outcome = Outcome::Elsewhere(Elsewhere(self.group.status().leader));
            said.push(answer(&batch, outcome));
            return;
        }
        if planted::is(Bug::ReplyBeforeCommit) {
            let operations = keyspace::Operations::check(&batch.operations).unwrap_or(0);
            let replies = vec![b":1\r\n".to_vec(); operations];
            said.push(answer(&batch, Outcome::Replies(replies)));
        }
        self.batches.push_back(batch);
    }

    pub(crate) fn on_read(
        &mut self,
        read: Read,
        cluster: &mut Cluster,
        clock: &mut Clock<'_>,
        said: &mut Said,
    ) {
        if !self.group.is_leader() {
            said.push(self.elsewhere(&read));
            return;
        }
        let group = self.group.group();
        let floor = cluster.floor(group);
        self.local.now = clock.wall();
        if let Some(lease) = self.lease.filter(|_| self.has_leases) {
            let reply = self.evaluate(&read);
            if self.group.holds(lease, clock.read()) {
                cluster.reads(group, self.group.point().index, floor);
                said.push(read_answer(&read, Ok(reply)));
                return;
            }
        }
        self.reads.insert((read.gateway, read.number), (read, floor));
    }

    pub(crate) fn on_message(&mut self, mut message: Message, now: Monotonic) {
        let me = self.group.me();
        if planted::is(Bug::IncarnationNotChecked) && message.to != me {
            self.aliases.insert(message.from, message.to);
            message.to = me;
        }
        self.group.step(message, now);
    }

    fn elsewhere(&self, read: &Read) -> (To, Body) {
        read_answer(read, Err(Elsewhere(self.group.status().leader)))
    }

    fn evaluate(&mut self, read: &Read) -> Vec<u8> {
        let mut reply = Vec::new();
        let mut writer = Writer::new(&mut reply, Protocol::Resp2);
        with_words(&read.request, |args| {
            let command = command::resolve(args).map(|spec| command::parse(spec, args));
            match command {
                Ok(Some(Ok(command))) => {
                    let db = Db::new(0).expect("there is a first database");
                    self.keyspace.read(db, &command, &mut self.local, &mut writer);
                }
                Ok(Some(Err(error))) | Err(error) => error.write(&mut writer),
                Ok(None) => command::ReplyError::unknown_command(args).write(&mut writer),
            }
        });
        reply
    }

    // ---- the end of a turn

    /// Everything that follows from what happened: entries, rounds, messages, answers.
    pub(crate) fn finish_turn(
        &mut self,
        clock: &mut Clock<'_>,
        place: &Place,
        cluster: &mut Cluster,
        said: &mut Said,
    ) {
        if self.group.is_leader() {
            self.mend_members(place, clock.read());
        }
        loop {
            self.propose(clock, said);
            self.begin_round(clock, said);
            if !self.group.has_ready() {
                break;
            }
            self.take_ready(clock, cluster, said);
        }
        self.lease = match self.group.read_permit(clock.read()) {
            ReadPermit::Lease(lease) => Some(lease),
            ReadPermit::ReadIndex | ReadPermit::NotLeader => None,
        };
        let points = self
            .transfers
            .values()
            .filter_map(|sending| sending.newest.point.as_ref());
        let needed = points.map(|point| point.index.0).min().unwrap_or(u64::MAX);
        let keep = self
            .group
            .point()
            .index
            .0
            .saturating_sub(self.log_kept)
            .min(needed);
        if self.prng.below(8) == 0 {
            self.group.compact(Index(keep));
        }
    }

    fn propose(&mut self, clock: &mut Clock<'_>, said: &mut Said) {
        if self.batches.is_empty() {
            return;
        }
        if !self.group.is_leader() {
            let elsewhere = Elsewhere(self.group.status().leader);
            for batch in self.batches.drain(..) {
                said.push(answer(&batch, Outcome::Elsewhere(elsewhere)));
            }
            return;
        }
        if self.group.in_flight() >= IN_FLIGHT_MAX {
            return;
        }
        let header = Header {
            semantics: SemanticsVersion::CURRENT,
            now: clock.wall(),
            seed: self.prng.next_u64(),
        };
        let mut entry = EntryBuf::new(&header);
        for batch in &self.batches {
            entry.begin_batch(batch.gateway, batch.number, batch.acknowledged);
            entry.append(&batch.operations);
        }
        let refused = self.group.propose(Bytes::from(entry.finish())).is_err();
        for batch in self.batches.drain(..) {
            if refused {
                said.push(answer(&batch, Outcome::Elsewhere(Elsewhere(None))));
            }
        }
    }

    fn begin_round(&mut self, clock: &mut Clock<'_>, said: &mut Said) {
        if self.reads.is_empty() {
            return;
        }
        if !self.group.is_leader() {
            for (read, _) in std::mem::take(&mut self.reads).into_values() {
                said.push(self.elsewhere(&read));
            }
            return;
        }
        if let Ok(round) = self.group.read_index(clock.read()) {
            let reads = std::mem::take(&mut self.reads).into_values();
            self.rounds.entry(round).or_default().extend(reads);
        }
    }

    fn take_ready(&mut self, clock: &mut Clock<'_>, cluster: &mut Cluster, said: &mut Said) {
        let ready = self.group.take_ready(clock.read());
        if let Some(point) = &ready.install {
            let arriving = self.arriving.take().expect("only what is held is installed");
            let held = arriving.point.as_ref().map(|held| (held.index, held.term));
            assert!(
                held == Some((point.index, point.term)),
                "what is held is what was offered"
            );
            // Transfers of the state that was are void.
            self.transfers.clear();
            self.keyspace = arriving.arrival.finish().expect("what is held is complete");
            cluster.state(self.group.group(), point.index, self.keyspace.state_hash());
        }
        for committed in ready.committed {
            let group = self.group.group();
            let bytes: &[u8] = match &committed.effect {
                Effect::Apply(bytes) => bytes,
                Effect::Nothing | Effect::Members(_) => &[],
            };
            cluster.applied(group, committed.index, committed.term, fold(bytes));
            if let Effect::Apply(bytes) = committed.effect {
                self.apply(&bytes, said);
                if self.group.is_leader() {
                    cluster.answers(group, committed.index);
                }
                if committed.index.0 % COMPARED_EVERY == 0 {
                    cluster.state(group, committed.index, self.keyspace.state_hash());
                }
            }
            self.group.applied(committed.index);
        }
        for mut message in ready.messages {
            cluster.sends(self.group.group(), &message);
            if let Some(alias) = self.aliases.get(&message.to) {
                message.from = *alias;
            }
            said.push((To::Replica(message.to), Body::Raft(self.group.group(), message)));
        }
        for (round, index) in ready.reads {
            let reads = self.rounds.remove(&round).unwrap_or_default();
            self.confirmed.extend(reads.into_iter().map(|read| (index, read)));
        }
        for round in ready.reads_lost {
            for (read, _) in self.rounds.remove(&round).unwrap_or_default() {
                said.push(self.elsewhere(&read));
            }
        }
        let applied = self.group.point().index;
        self.local.now = clock.wall();
        let (reached, waiting) = std::mem::take(&mut self.confirmed)
            .into_iter()
            .partition(|(index, _)| *index <= applied);
        self.confirmed = waiting;
        let reached: Vec<(Index, Question)> = reached;
        for (_, (read, floor)) in reached {
            let reply = self.evaluate(&read);
            cluster.reads(self.group.group(), applied, floor);
            said.push(read_answer(&read, Ok(reply)));
        }
        for to in ready.transfers_wanted {
            self.give_state(to, clock.read(), said);
        }
        let members = self.group.members().all();
        let is_leader = self.group.is_leader();
        self.end_transfers(|to| !is_leader || !members.contains(&to));
    }

    fn apply(&mut self, bytes: &[u8], said: &mut Said) {
        let entry = Entry::decode(bytes).expect("a leader made it");
        let mut outcomes: Vec<(Batched, Vec<Vec<u8>>)> = Vec::new();
        self.keyspace
            .apply(&entry, &mut self.local, |answered| match answered {
                Answered::Batch(batched) => outcomes.push((batched, Vec::new())),
                Answered::Operation(operation) => {
                    let (_, replies) = outcomes.last_mut().expect("a batch comes before its operations");
                    replies.push(operation.bytes().to_vec());
                }
                Answered::Read(..) | Answered::ReadLater(..) => unreachable!("none is attached"),
                // Nobody holds any.
                Answered::Freed(..) => {}
            })
            .expect("there is one version of the rules");
        if !self.group.is_leader() {
            return;
        }
        for (batch, (batched, replies)) in entry.batches().iter().zip(outcomes) {
            let outcome = match batched {
                Batched::Applied | Batched::Repeated => Outcome::Replies(replies),
                Batched::Gap | Batched::Refused => Outcome::Again,
                Batched::Forgotten | Batched::Fenced => Outcome::Never(batched),
            };
            let group = self.group.group();
            let number = batch.number;
            said.push((
                To::Gateway(batch.gateway),
                Body::Answers {
                    group,
                    number,
                    outcome,
                },
            ));
        }
    }

    // ---- transfers of state

    /// Begins a transfer, or says its newest cut again.
    fn give_state(&mut self, to: Incarnation, now: Monotonic, said: &mut Said) {
        if let Some(sending) = self.transfers.get_mut(&to) {
            if now >= sending.again_at {
                sending.again_at = now.after(TRANSFER_AGAIN);
                said.push((To::Replica(to), Body::State(sending.newest.clone())));
            }
            return;
        }
        // Too many at once: it is wanted again.
        if let Some(transfer) = Transfer::begin(&mut self.keyspace) {
            self.transfers_counted += 1;
            let newest = State {
                group: self.group.group(),
                from: self.group.me(),
                to,
                transfer: self.transfers_counted,
                number: 0,
                cut: Bytes::new(),
                point: None,
            };
            let sending = Sending {
                transfer: Some(transfer),
                newest,
                again_at: now,
            };
            self.transfers.insert(to, sending);
            self.next_cut(to, now, said);
        }
    }

    fn next_cut(&mut self, to: Incarnation, now: Monotonic, said: &mut Said) {
        let point = self.group.point();
        let Some(sending) = self.transfers.get_mut(&to) else {
            return;
        };
        let Some(transfer) = &mut sending.transfer else {
            return;
        };
        let (cut, point) = match transfer.next_cut(&mut self.keyspace, CUT_BYTES) {
            Cut::More(cut) => (cut, None),
            Cut::Last(cut) => (cut, Some(point)),
            Cut::Lost => {
                self.end_transfer(to);
                return;
            }
        };
        if point.is_some() {
            sending.transfer = None;
        }
        sending.newest.number += 1;
        sending.newest.cut = Bytes::from(cut);
        sending.newest.point = point;
        sending.again_at = now.after(TRANSFER_AGAIN);
        said.push((To::Replica(to), Body::State(sending.newest.clone())));
    }

    fn end_transfer(&mut self, to: Incarnation) {
        if let Some(Sending {
            transfer: Some(transfer),
            ..
        }) = self.transfers.remove(&to)
        {
            transfer.end(&mut self.keyspace);
        }
    }

    fn end_transfers(&mut self, ends: impl Fn(Incarnation) -> bool) {
        let ending: Vec<Incarnation> = self.transfers.keys().copied().filter(|to| ends(*to)).collect();
        ending.into_iter().for_each(|to| self.end_transfer(to));
    }

    /// A cut comes: taken if it is the next, confirmed if it was taken before.
    pub(crate) fn on_state(&mut self, state: &State, said: &mut Said) {
        if state.to != self.group.me() {
            return;
        }
        let name = (state.from, state.transfer);
        if state.number == 1
            && self
                .arriving
                .as_ref()
                .is_none_or(|arriving| arriving.name != name)
        {
            // What is being installed stays.
            if !self.group.hold_transfer(None) {
                return;
            }
            self.arriving = Some(Arriving {
                name,
                number: 0,
                arrival: Arrival::new(),
                point: None,
            });
        }
        let mut held = Body::Held {
            group: state.group,
            from: state.to,
            to: state.from,
            transfer: state.transfer,
            number: state.number,
        };
        let arriving = self.arriving.as_mut();
        let Some(arriving) = arriving.filter(|one| one.name == name && state.number <= one.number + 1) else {
            // An old frame made this replica forget what came before, or it never came: from the beginning.
            if let Body::Held { number, .. } = &mut held {
                *number = 0;
            }
            said.push((To::Replica(state.from), held));
            return;
        };
        if state.number == arriving.number + 1 {
            arriving
                .arrival
                .take(&state.cut)
                .expect("a leader made the cut, and this is the next one");
            arriving.number = state.number;
            arriving.point.clone_from(&state.point);
            if let Some(point) = &state.point
                && !self.group.hold_transfer(Some((point.index, point.term)))
            {
                self.arriving = None;
                return;
            }
        }
        said.push((To::Replica(state.from), held));
    }

    /// A cut has come: the next one, or, after the last, the log goes on from there. 0: the transfer has to begin again.
    pub(crate) fn on_held(
        &mut self,
        (from, to): (Incarnation, Incarnation),
        transfer: u64,
        number: u64,
        now: Monotonic,
        said: &mut Said,
    ) {
        let newest = self
            .transfers
            .get(&from)
            .map(|sending| (sending.newest.transfer, sending.newest.number));
        if to != self.group.me() {
            return;
        }
        if newest.is_some_and(|(known, _)| known == transfer) && number == 0 {
            self.end_transfer(from);
        }
        if newest != Some((transfer, number)) {
            return;
        }
        match self
            .transfers
            .get(&from)
            .and_then(|sending| sending.newest.point.clone())
        {
            Some(point) => {
                self.end_transfer(from);
                // If the log does not reach back so far any more, it is wanted again.
                self.group.offer_transfer(from, point, now);
            }
            None => self.next_cut(from, now, said),
        }
    }

    // ---- members

    /// One step towards the members that are wanted.
    fn mend_members(&mut self, place: &Place, now: Monotonic) {
        let members = self.group.members().clone();
        let is_settled = members.learners.is_empty() && members.voters.iter().eq(place.wanted.iter());
        if members.is_joint() || is_settled {
            return;
        }
        let me = self.group.me();
        if !place.wanted.contains(&me) {
            // Somebody who stays is to take the others out. He may be dead: then it is another's turn, after a while in
            // which the group does its work.
            if now >= self.hand_over_at {
                self.hand_over_at = now.after(HAND_OVER_AGAIN);
                let voters = members.voters.iter().copied();
                let heirs: Vec<Incarnation> = voters.filter(|voter| place.wanted.contains(voter)).collect();
                if !heirs.is_empty() {
                    let heir = heirs[self.prng.below(heirs.len() as u64) as usize];
                    // Refused while one is under way.
                    let _ = self.group.transfer(heir, now);
                }
            }
            return;
        }
        let wanted: Vec<Incarnation> = place.wanted.iter().copied().collect();
        let is_known = |incarnation: &Incarnation| members.voters.contains(incarnation);
        let learners: Vec<Incarnation> = wanted.iter().copied().filter(|one| !is_known(one)).collect();
        let commit = self.group.commit_index().0;
        let is_ready = |learner: &Incarnation| {
            self.group
                .matched(*learner)
                .is_some_and(|matched| matched.0 > 0 && matched.0 + LAG_MAX >= commit)
        };
        let target = if learners
            .iter()
            .all(|learner| members.learners.contains(learner) && is_ready(learner))
        {
            Members::of_voters(wanted)
        } else {
            Members {
                voters: members.voters.clone(),
                learners,
                ..Members::default()
            }
        };
        // Refused while another change is under way, or if there is nothing to change yet.
        let _ = self.group.change_members(&target);
    }

    pub(crate) fn next_timer(&self) -> Option<Monotonic> {
        self.group.next_timer()
    }

    /// Whether it has something to try again in a while.
    pub(crate) fn is_restless(&self) -> bool {
        !self.reads.is_empty() || !self.batches.is_empty()
    }
}

fn config(group: GroupId, me: Incarnation, start: SnapshotPoint, saved: Saved, seed: u64) -> Config {
    Config {
        group,
        me,
        start,
        saved,
        durability: Durability::Memory,
        times: Times::DEFAULT,
        seed,
    }
}

fn answer(batch: &Batch, outcome: Outcome) -> (To, Body) {
    let (group, number) = (batch.group, batch.number);
    let body = Body::Answers {
        group,
        number,
        outcome,
    };
    (To::Gateway(batch.gateway), body)
}

fn read_answer(read: &Read, answer: Result<Vec<u8>, Elsewhere>) -> (To, Body) {
    let (group, number) = (read.group, read.number);
    let body = Body::ReadAnswer {
        group,
        number,
        answer,
    };
    (To::Gateway(read.gateway), body)
}

/// A number that follows from bytes, to compare entries by.
fn fold(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |folded, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        Prng::new(folded ^ u64::from_le_bytes(word)).next_u64()
    })
}
