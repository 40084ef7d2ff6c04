//! Which partitions a group hosts, and how one comes and goes.
//!
//! ```text
//!   never here --Arrive: copies, piece by piece--> arriving --Prepare: Enter--> voted for --committed--> hosted
//!                                                                                                          | Prepare: Leave (the group is locked)
//!                                                           given away, to which group <------committed----+
//! ```
//!
//! A group that has begun anew may not know any more that a partition came or went. Two groups host it then, or none: that is mended, in each by a
//! transaction of that group alone (`hosting/mending.rs`).
//!
//! Which group hosts a partition is state of the groups: maps only say where to ask first. A partition goes from one to another by a
//! transaction of both, as `RENAME` over two groups does; what it holds has been copied before, into databases of its own that serve
//! nobody, and what has changed since comes with the vote (`docs/decisions/0074-partitions-move.md`). What is asked for a partition that
//! is not hosted is answered *Moved*, and nothing is done.
//!
//! The group that takes a partition over counts its operations, and its time, from where both groups are: so a version is never given
//! out twice for one key, and nothing that has expired is there again.
//!
//! Invariants:
//! 1. No object lies in a partition that is not hosted, but in the databases for arriving.
//! 2. There are databases for arriving exactly while a partition arrives.
//! 3. A copy that a vote relies on is changed by nobody else.

mod arrival;
mod mending;
mod partition_copy;

pub use arrival::ArrivingPiece;
pub use partition_copy::{PartitionCopy, PartitionCopyStep};

use crate::Keyspace;
use crate::database::Database;
use crate::digest::Digest;
use crate::directories::Cursor;
use crate::effects::Effect;
use crate::entry::{BlockCommand, ConditionView, EntryOperation, InPlaceStep, Work};
use crate::fields::{read_txn, write_txn};
use crate::local::LeaderLocal;
use crate::object::VERSION_MAX;
use crate::object_codec;
use crate::partition_step::{Enter, PartitionStep};
use crate::placing::Placing;
use crate::replies::Replies;
use crate::requests::is_request_name;
use codec::{DecodeError, Reader, Writer};
use command::CommandRoute;
use ids::{Db, GroupId, HashSeed, PartitionId, PartitionRange, Slot, Version};
use mutations::Mutation;
use resp::Args;
use std::collections::BTreeMap;
use txn::{Participants, TxnId};

/// See the file's header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosting {
    /// `None` as long as the group hosts exactly the partitions of its range, and never has hosted anything else.
    changed: Option<Box<Changed>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changed {
    hosted: BTreeMap<PartitionId, Hosted>,
    given: BTreeMap<PartitionId, Given>,
    arrival: Option<Arrival>,
}

/// A partition that is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hosted {
    /// How often it has moved.
    moves: u32,
    /// The version at which it came.
    entered: Version,
}

/// A partition that was here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    to: GroupId,
    moves: u32,
}

/// A partition of which a copy comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    partition: PartitionId,
    /// The transaction by which it is to move.
    txn: TxnId,
    /// Pieces that have come.
    pieces: u64,
    seed: HashSeed,
    is_voted_for: bool,
}

/// Where a partition is that was asked for and is not here, as far as this group knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Which partition.
    pub partition: PartitionId,
    /// To which group it has gone from here, and how often it had moved then; `None` if it never was here.
    pub to: Option<(GroupId, u32)>,
}

impl Moved {
    /// Partition, group and moves, one after the other; no moves stand for a partition that never was here.
    pub fn write(all: &[Moved], to: &mut Vec<u8>) {
        for moved in all {
            let (group, moves) = moved.to.unwrap_or((GroupId::new(0), 0));
            to.u16(moved.partition.number());
            to.u16(group.number());
            to.u32(moves);
        }
    }

    /// Reads what [`Answer::bytes`](crate::Answer::bytes) holds of an operation whose keys are elsewhere.
    pub fn read(bytes: &[u8]) -> Vec<Moved> {
        let mut rest = Reader::new(bytes);
        let mut all = Vec::new();
        while let (Ok(partition), Ok(group), Ok(moves)) = (rest.u16(), rest.u16(), rest.u32()) {
            all.push(Moved {
                partition: PartitionId::new(partition),
                to: (moves > 0).then(|| (GroupId::new(group), moves)),
            });
        }
        all
    }
}

impl Hosting {
    /// Of a group that was made to take partitions over.
    pub(crate) fn nothing() -> Hosting {
        Hosting {
            changed: Some(Box::default()),
        }
    }

    /// Of a state that comes from elsewhere, until all of it is there: of this partition a copy arrives in it.
    pub(crate) fn awaiting(partition: PartitionId, seed: HashSeed) -> Hosting {
        let arrival = Arrival {
            partition,
            txn: TxnId {
                boot: ids::Boot(0),
                worker: 0,
                seq: 0,
                attempt: 0,
            },
            pieces: 0,
            seed,
            is_voted_for: false,
        };
        Hosting {
            changed: Some(Box::new(Changed {
                arrival: Some(arrival),
                ..Changed::default()
            })),
        }
    }

    /// Whether all that is hosted lies in this range, and what has gone is known of this cluster.
    pub(crate) fn is_within(&self, range: PartitionRange) -> bool {
        let Some(changed) = &self.changed else { return true };
        let is_known = |partition: &PartitionId| partition.number() < range.cluster_count().get();
        let arriving = changed.arrival.iter().map(|arrival| &arrival.partition);
        changed
            .hosted
            .keys()
            .all(|partition| range.index(*partition).is_some())
            && changed.given.keys().chain(arriving).all(is_known)
    }

    /// Whether nothing has ever changed.
    #[inline]
    pub(crate) fn is_as_made(&self) -> bool {
        self.changed.is_none()
    }

    /// Whether `partition`, of a group that was made with this range, is here.
    #[inline]
    fn hosts(&self, range: PartitionRange, partition: PartitionId) -> bool {
        match &self.changed {
            None => range.index(partition).is_some(),
            Some(changed) => changed.hosted.contains_key(&partition),
        }
    }

    /// The same, ready to change.
    fn change(&mut self, range: PartitionRange) -> &mut Changed {
        let all = || (0..range.len() as u16).map(|index| (range.at(index), Hosted::default()));
        self.changed.get_or_insert_with(|| {
            Box::new(Changed {
                hosted: all().collect(),
                ..Changed::default()
            })
        })
    }

    fn arrival(&self) -> Option<&Arrival> {
        self.changed.as_ref()?.arrival.as_ref()
    }

    /// Which partition arrives, and by which seed its keys are ordered.
    pub(crate) fn arriving(&self) -> Option<(PartitionId, HashSeed)> {
        self.arrival().map(|arrival| (arrival.partition, arrival.seed))
    }

    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        let Some(changed) = &self.changed else {
            return to.bool(false);
        };
        to.bool(true);
        to.count(changed.hosted.len());
        for (partition, hosted) in &changed.hosted {
            to.u16(partition.number());
            to.u32(hosted.moves);
            to.u64(hosted.entered.0);
        }
        to.count(changed.given.len());
        for (partition, given) in &changed.given {
            to.u16(partition.number());
            to.u16(given.to.number());
            to.u32(given.moves);
        }
        to.option(&changed.arrival, |to, arrival| {
            to.u16(arrival.partition.number());
            write_txn(to, arrival.txn);
            to.u64(arrival.pieces);
            object_codec::seed(to, arrival.seed);
            to.bool(arrival.is_voted_for);
        });
    }

    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<Hosting, DecodeError> {
        if !rest.bool()? {
            return Ok(Hosting::default());
        }
        let mut changed = Box::<Changed>::default();
        for _ in 0..rest.u32()? {
            let partition = PartitionId::new(rest.u16()?);
            let hosted = Hosted {
                moves: rest.u32()?,
                entered: Version(rest.u64()?),
            };
            changed.hosted.insert(partition, hosted);
        }
        for _ in 0..rest.u32()? {
            let partition = PartitionId::new(rest.u16()?);
            let given = Given {
                to: GroupId::new(rest.u16()?),
                moves: rest.u32()?,
            };
            changed.given.insert(partition, given);
        }
        changed.arrival = rest.option(|rest| {
            Ok(Arrival {
                partition: PartitionId::new(rest.u16()?),
                txn: read_txn(rest)?,
                pieces: rest.u64()?,
                seed: object_codec::read_seed(rest)?,
                is_voted_for: rest.bool()?,
            })
        })?;
        Ok(Hosting {
            changed: Some(changed),
        })
    }

    pub(crate) fn hash(&self, digest: &mut Digest) {
        // Of what never changed nothing is written down.
        if self.changed.is_some() {
            let mut bytes = Vec::new();
            self.encode(&mut bytes);
            digest.bytes(&bytes);
        }
    }
}

impl Keyspace {
    /// Whether the group hosts exactly the partitions that it was made with, and always has: then all that is asked of it belongs to it.
    #[inline]
    pub fn hosts_as_made(&self) -> bool {
        self.hosting.is_as_made()
    }

    /// Whether a partition is here.
    pub fn hosts(&self, partition: PartitionId) -> bool {
        self.hosting.hosts(self.placing.range(), partition)
    }

    /// Whether a key belongs here.
    #[inline]
    pub fn hosts_key(&self, key: &[u8]) -> bool {
        self.hosts_as_made() || self.hosts_slot(Slot::of_key(key))
    }

    /// Whether the keys of a slot belong here.
    #[inline]
    pub fn hosts_slot(&self, slot: Slot) -> bool {
        self.hosts(self.placing.range().cluster_count().partition_of(slot))
    }

    /// Whether all replicas of the group have the same seed: what it hosts, or what arrives, has brought one.
    pub(crate) fn has_common_seed(&self) -> bool {
        self.hosts_as_made() || !self.hosted().is_empty() || self.hosting.arrival().is_some()
    }

    /// The partitions that are here.
    pub fn hosted(&self) -> Vec<PartitionId> {
        let range = self.placing.range();
        match &self.hosting.changed {
            None => (0..range.len() as u16).map(|index| range.at(index)).collect(),
            Some(changed) => changed.hosted.keys().copied().collect(),
        }
    }

    /// Says if invariant 1 or 2 does not hold. Looks at all partitions: for tests.
    ///
    /// # Errors
    /// In words.
    pub fn check_hosting(&self) -> Result<(), String> {
        let arrives = self.hosting.arrival().is_some();
        if arrives != (self.databases.len() > usize::from(Db::KEPT)) {
            return Err(format!("invariant 2: a partition arrives: {arrives}"));
        }
        if self.hosts_as_made() {
            return Ok(());
        }
        let range = self.placing.range();
        for index in (0..range.len() as u16).filter(|index| !self.hosts(range.at(*index))) {
            let mut kept = (0..).zip(&self.databases).take(Db::KEPT.into());
            if let Some((db, _)) = kept.find(|(_, database)| !database.is_empty_at(index)) {
                return Err(format!(
                    "invariant 1: {:?} has keys in database {db}",
                    range.at(index)
                ));
            }
        }
        Ok(())
    }

    /// Those of them that have keys.
    pub fn partitions_in_use(&self) -> Vec<PartitionId> {
        let range = self.placing.range();
        let databases = || self.databases.iter().take(Db::KEPT.into());
        let mut all = self.hosted();
        all.retain(|partition| {
            let index = range.index(*partition);
            index.is_some_and(|index| databases().any(|database| !database.is_empty_at(index)))
        });
        all
    }

    /// Those of them that have moved, each with how often.
    pub fn moved_here(&self) -> impl Iterator<Item = (PartitionId, u32)> {
        let hosted = self.hosting.changed.iter().flat_map(|changed| &changed.hosted);
        hosted
            .filter(|(_, hosted)| hosted.moves > 0)
            .map(|(partition, hosted)| (*partition, hosted.moves))
    }

    /// How often a partition that is here has moved; 0 of another one.
    pub fn moves_of(&self, partition: PartitionId) -> u32 {
        let changed = self.hosting.changed.as_ref();
        let hosted = changed.and_then(|changed| changed.hosted.get(&partition));
        hosted.map_or(0, |hosted| hosted.moves)
    }

    /// Where a partition has gone that was here, and how often it had moved then.
    pub fn given_to(&self, partition: PartitionId) -> Option<(GroupId, u32)> {
        let given = self.hosting.changed.as_ref()?.given.get(&partition)?;
        Some((given.to, given.moves))
    }

    /// The transaction by which a partition is to come of which a copy arrives, and that partition.
    pub fn arrival(&self) -> Option<(TxnId, PartitionId)> {
        let arrival = self.hosting.arrival()?;
        Some((arrival.txn, arrival.partition))
    }

    /// Whether all keys belong here that a command names, and the place where it goes on if it goes through all keys in steps.
    #[inline]
    pub fn hosts_args(&self, args: Args<'_>) -> bool {
        self.hosts_as_made() || self.elsewhere_of_args(args).is_empty()
    }

    /// Those of these keys' partitions that are not here.
    pub fn elsewhere<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Vec<Moved> {
        let count = self.placing.range().cluster_count();
        self.elsewhere_among(keys.map(|key| count.partition_of(Slot::of_key(key))))
    }

    /// Those of a command's keys; of one that goes through all keys in steps, that in which it goes on.
    pub fn elsewhere_of_args(&self, args: Args<'_>) -> Vec<Moved> {
        if crate::locking::is_scan(args) {
            let cursor = args.get(1).and_then(|word| command::cursor(word).ok());
            let partition = cursor.and_then(Cursor::of_number).map(|cursor| cursor.partition);
            return self.elsewhere_among(partition.into_iter());
        }
        let mut keys = Vec::new();
        each_key(args, &mut |key| keys.push(key));
        self.elsewhere(keys.into_iter())
    }

    /// Those of these that are not here.
    fn elsewhere_among(&self, partitions: impl Iterator<Item = PartitionId>) -> Vec<Moved> {
        let mut found: Vec<Moved> = Vec::new();
        for partition in partitions {
            if !self.hosts(partition) && !found.iter().any(|moved| moved.partition == partition) {
                let to = self.given_to(partition);
                found.push(Moved { partition, to });
            }
        }
        found
    }

    /// The partitions that an operation names and that are not here. Of what concerns whole groups, those too that have gone to a group that
    /// takes no part.
    pub(crate) fn elsewhere_of(&self, operation: &EntryOperation<'_>) -> Vec<Moved> {
        if self.hosts_as_made() {
            return Vec::new();
        }
        let mut keys: Vec<&[u8]> = Vec::new();
        // The groups that take part in what concerns whole groups.
        let mut whole: Option<Vec<GroupId>> = None;
        let parts = |participants: &Participants| participants.iter().map(|one| one.group).collect();
        fn of_conditions<'a>(keys: &mut Vec<&'a [u8]>, conditions: &[ConditionView<'a>]) {
            keys.extend(conditions.iter().map(ConditionView::key));
        }
        fn of_commands<'a>(keys: &mut Vec<&'a [u8]>, commands: &[BlockCommand<'a>]) {
            for command in commands {
                each_key(command.args, &mut |key| keys.push(key));
            }
        }
        fn of_effects<'a>(keys: &mut Vec<&'a [u8]>, effects: &'a [Effect]) {
            let changes = effects.iter().filter(|effect| !matches!(effect, Effect::Tell(_)));
            keys.extend(changes.map(Effect::key));
        }
        match operation {
            EntryOperation::Command { args, .. } => {
                each_key(*args, &mut |key| keys.push(key));
            }
            EntryOperation::Wait { command, .. } => each_key(command.args, &mut |key| keys.push(key)),
            EntryOperation::Block { conditions, commands } => {
                of_conditions(&mut keys, conditions);
                of_commands(&mut keys, commands);
                // Who sends one that concerns whole groups knows of no other group.
                whole = sees_all(commands).then(Vec::new);
            }
            EntryOperation::Once { commands, .. } => of_commands(&mut keys, commands),
            EntryOperation::OnePhase { expects, effects } => {
                of_conditions(&mut keys, expects);
                of_effects(&mut keys, effects);
            }
            EntryOperation::Lock(lock) => {
                let names = lock.keys.iter().map(|(_, key, _)| *key);
                keys.extend(names.filter(|key| !is_request_name(key)));
                whole = lock.is_whole.then(|| parts(&lock.participants));
            }
            EntryOperation::Prepare(prepare) => {
                of_conditions(&mut keys, &prepare.conditions);
                of_conditions(&mut keys, &prepare.expects);
                match &prepare.work {
                    Work::Evaluate { commands, .. } => {
                        of_commands(&mut keys, commands);
                        whole = sees_all(commands).then(|| parts(&prepare.participants));
                    }
                    Work::Install { effects, .. } => of_effects(&mut keys, effects),
                    Work::Put { pairs, .. } => keys.extend(pairs.iter().map(|(key, _)| key)),
                    Work::InPlace { steps, .. } => {
                        whole = Some(parts(&prepare.participants));
                        for step in steps {
                            match step {
                                InPlaceStep::Install(effects) => of_effects(&mut keys, effects),
                                InPlaceStep::Run(_) if mutations::is(Mutation::StepsNotPlaced) => {}
                                InPlaceStep::Run(command) => {
                                    each_key(command.args, &mut |key| keys.push(key))
                                }
                            }
                        }
                    }
                    Work::Move(_) => {}
                }
            }
            _ => {}
        }
        let mut elsewhere = self.elsewhere(keys.into_iter());
        elsewhere.extend(whole.iter().flat_map(|groups| self.gone_but_to(groups)));
        elsewhere
    }

    /// The partitions that have gone from here to groups that are none of these.
    pub fn gone_but_to(&self, groups: &[GroupId]) -> Vec<Moved> {
        let given = self.hosting.changed.iter().flat_map(|changed| &changed.given);
        let gone =
            given.filter(|(_, given)| !groups.contains(&given.to) && !mutations::is(Mutation::GivenNotSaid));
        gone.map(|(partition, given)| Moved {
            partition: *partition,
            to: Some((given.to, given.moves)),
        })
        .collect()
    }

    /// For absent keys: since when they can have been absent here.
    pub(crate) fn entered_at(&self, index: u16) -> Version {
        let Some(changed) = &self.hosting.changed else {
            return Version(0);
        };
        let partition = self.placing.range().at(index);
        if mutations::is(Mutation::WatchLostAtMove) {
            return Version(0);
        }
        changed
            .hosted
            .get(&partition)
            .map_or(Version(0), |hosted| hosted.entered)
    }

    /// Whether a step can be voted for: the partition is here that is to leave, and all of the copy of the one that is to come.
    pub(crate) fn may_step(&self, txn: TxnId, step: &PartitionStep) -> bool {
        match step {
            PartitionStep::Leave { partition, moves, .. } => {
                self.hosts(*partition) && self.moves_of(*partition) == *moves - 1
            }
            PartitionStep::Enter(enter) => self.hosting.arrival().is_some_and(|arrival| {
                let is_it =
                    (arrival.txn, arrival.partition, arrival.pieces) == (txn, enter.partition, enter.pieces);
                let is_free = !arrival.is_voted_for && !self.hosts(enter.partition);
                is_it && is_free && self.knows_fewer_moves(enter.partition, enter.moves)
            }),
            PartitionStep::Mend(mend) => self.may_mend(mend),
        }
    }

    /// A step was voted for.
    pub(crate) fn note_step_voted(&mut self, step: &PartitionStep) {
        if let (PartitionStep::Enter(_), Some(changed)) = (step, &mut self.hosting.changed)
            && let Some(arrival) = &mut changed.arrival
        {
            arrival.is_voted_for = true;
        }
    }

    /// A step that was voted for is not to be.
    pub(crate) fn drop_step(&mut self, step: &PartitionStep) {
        if let PartitionStep::Enter(_) = step {
            self.end_arrival();
        }
    }

    /// A step that was voted for is decided.
    pub(crate) fn take_step(&mut self, step: PartitionStep, local: &mut LeaderLocal) {
        self.applied.0 += 1;
        match step {
            PartitionStep::Leave { partition, to, moves } => self.leave(partition, to, moves, local),
            PartitionStep::Enter(enter) => self.enter(*enter, local),
            PartitionStep::Mend(mend) => self.mend(mend, local),
        }
    }

    /// The keys of a partition go, and who asks for them is sent to another group.
    fn leave(&mut self, partition: PartitionId, to: GroupId, moves: u32, local: &mut LeaderLocal) {
        let range = self.placing.range();
        let Some(index) = range.index(partition) else {
            return;
        };
        self.lose_transfers();
        let changed = self.hosting.change(range);
        changed.hosted.remove(&partition);
        changed.given.insert(partition, Given { to, moves });
        for database in self.databases.iter_mut().take(Db::KEPT.into()) {
            let (directory, _) = database.take_at(index);
            self.lazyfree.add_segments(directory.into_segments());
        }
        if !mutations::is(Mutation::WaitersLeftBehind) {
            self.dismiss_moved(local);
        }
    }

    /// Those who wait for keys that are not here any more wait where these are.
    fn dismiss_moved(&mut self, local: &mut LeaderLocal) {
        for (origin, elsewhere) in self.take_waiters_elsewhere() {
            let mut replies = Replies::default();
            replies.begin();
            replies.moved(&elsewhere);
            self.answer_deferred(origin, replies, local);
        }
    }

    /// What has arrived of a partition is hosted from here on.
    fn enter(&mut self, enter: Enter, local: &mut LeaderLocal) {
        let Enter {
            partition,
            moves,
            time,
            applied,
            swapped,
            records,
            requests,
            ..
        } = enter;
        // All bytes were looked at before they were proposed; what is none of ours changes nothing.
        if !mutations::is(Mutation::ChangesLeftBehind) {
            let _ = self.take_records(&records);
        }
        self.lose_transfers();
        self.time = self.time.max(time);
        self.applied = Version((self.applied.max(applied).0 + 1).min(VERSION_MAX));
        let Some((_, seed)) = self.hosting.arriving() else {
            return;
        };
        let is_alone = self.hosted().is_empty();
        self.placing = self.placing.with(partition, seed, is_alone);
        let index = self
            .placing
            .range()
            .index(partition)
            .expect("the range has it now");
        let arrived: Vec<Database> = self.databases.drain(usize::from(Db::KEPT)..).collect();
        for (database, mut arrived) in self.databases.iter_mut().zip(arrived) {
            database.place_anew(&self.placing);
            let (directory, deadlines) = arrived.take_at(0);
            database.fill(index, directory, deadlines);
        }
        for (database, version) in self.databases.iter_mut().zip(swapped) {
            database.note_swap(version);
        }
        let entered = self.applied;
        let changed = self.hosting.change(self.placing.range());
        changed.arrival = None;
        changed.given.remove(&partition);
        changed.hosted.insert(partition, Hosted { moves, entered });
        if !mutations::is(Mutation::ResultsLeftBehind) {
            self.requests.adopt(&requests);
        }
        // Whoever waits here for keys of it has come too early, and is told so by what comes into them; now all of it has.
        local.is_all_ready = true;
    }

    /// Nothing is here, and keys lie so from now on.
    pub(crate) fn place_anew(&mut self, placing: &Placing) {
        self.placing = placing.clone();
        self.databases
            .iter_mut()
            .for_each(|database| database.place_anew(placing));
    }

    /// Transfers that are under way know nothing of partitions that come and go.
    fn lose_transfers(&mut self) {
        self.databases.iter_mut().for_each(Database::lose_changes);
    }
}

/// Whether one of these commands concerns whole groups.
fn sees_all(commands: &[BlockCommand<'_>]) -> bool {
    commands.iter().any(|command| {
        let spec = command::resolve_in_group(command.args);
        spec.is_ok_and(|spec| spec.route == CommandRoute::Everywhere)
    })
}

fn each_key<'a>(args: Args<'a>, visit: &mut dyn FnMut(&'a [u8])) {
    if let Ok(spec) = command::resolve_in_group(args) {
        command::keys(spec, args, &mut |position, _| visit(args.arg(position)));
    }
}
