//! What a process has on disk: who it is, its part of the meta group's log, and what the last stop left, or the last process has
//! kept.
//!
//! The files are those of production, on a disk that is simulated, and that fails. `node` does the same with real ones.

use super::disk::{Disk, Former};
use control::{Record, Restored};
use gateway::HandoverImage;
use ids::{ClusterId, DurabilityMode, GroupId, Groups, Incarnation, NodeId, Prng, Token};
use keyspace::{Keyspace, SnapshotReceiver, Transfer, TransferStep};
use mutations::Mutation;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storage::{
    Handover, HandoverWriter, Identity, Item, KernelBoot, LogIdentity, LogSettings, MetaLog, MetaState,
    ModeStep, PeerBook, ReplicaLog, ReplicaPosition, RunMark, SimDisk, Snapshot, SnapshotName, SnapshotStore,
    StorageError, StoredReplica, Taken, WorkerDisk, WorkerLog, read_logs, remove_replicas, remove_snapshot,
    remove_unfinished_snapshots, set_clean, snapshots, sync_segments, take_clean,
};

type Stored<T> = Result<T, StorageError>;

/// Bytes of one chunk: a block holds a whole one.
const CHUNK_BYTES: usize = 64 * 1024;

/// See the file's header.
pub(crate) struct Store {
    disk: SimDisk,
    log: Option<MetaLog<SimDisk>>,
    book: PeerBook,
    earlier: Earlier,
    /// The snapshots of replicas that were found, of which the states are not read yet.
    states: BTreeMap<GroupId, SnapshotName>,
}

/// Bytes of a segment, so that logs have several of them.
const SEGMENT_BYTES: u64 = 64 * 1024;

/// What a start finds.
pub(crate) struct Found {
    pub(crate) identity: Option<Identity>,
    pub(crate) restored: Option<Restored>,
    pub(crate) kept: Vec<HandoverImage>,
    /// Those of them that may lack what they acknowledged.
    pub(crate) unclean: Vec<(GroupId, Incarnation)>,
    /// By which starts.
    pub(crate) left_by: Vec<Token>,
    pub(crate) peers: Vec<NodeId>,
    /// In which mode the process before has kept what it acknowledged.
    pub(crate) mode: DurabilityMode,
    /// What is worth a line in a trace.
    pub(crate) notes: Vec<String>,
}

/// What the logs of a process begin with.
pub(crate) struct NewLogs<'a> {
    pub(crate) mode: DurabilityMode,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) token: Token,
    pub(crate) workers: usize,
    pub(crate) groups: Groups,
    /// Groups that go on, or begin anew, with what earlier logs have: these go when all of them stand in the new ones.
    pub(crate) kept: Vec<GroupId>,
    /// Earlier logs stay in any case.
    pub(crate) keeps_earlier: bool,
    /// Groups whose states are still to be read.
    pub(crate) unread: Vec<GroupId>,
    pub(crate) prng: &'a mut Prng,
}

/// What logs of earlier starts there are.
#[derive(Default)]
struct Earlier {
    segments: Vec<String>,
    /// The number of the last start with a log.
    start: u64,
    /// That of the last one whose log may lack something.
    doubted: u64,
    /// That of the last one whose log may lack what was written last.
    torn: u64,
}

impl Store {
    /// A process starts.
    pub(crate) fn open(disk: SimDisk, token: Token) -> Stored<(Store, Found)> {
        let identity = Identity::read(&disk)?;
        let book = PeerBook::read(&disk).unwrap_or_default();
        let (mut log, mut restored) = (None, None);
        let (mut left_by, mut kept) = (Vec::new(), Vec::new());
        let mut states = BTreeMap::new();
        let (mut unclean, mut earlier, mut notes) = (Vec::new(), Earlier::default(), Vec::new());
        let run = RunMark::read(&disk)?;
        let mode = run
            .as_ref()
            .and_then(|run| DurabilityMode::of_code(run.mark.durability));
        let mode = mode.unwrap_or(DurabilityMode::Memory);
        if let (Some(identity), true) = (&identity, mode.writes()) {
            if let Some((found, state)) = MetaLog::open(disk.clone())? {
                (log, restored) = (Some(found), Some(as_restored(state)));
            }
            let starts;
            let kernel = kernel_of(&disk);
            let written_from = run.as_ref().and_then(|run| run.written_from(kernel));
            (kept, earlier, starts, states) = read(&disk, identity, written_from, &mut notes)?;
            let is_copy = run.as_ref().is_none_or(|run| run.is_copy);
            let is_unclean = run.as_ref().is_none_or(|run| match mode {
                DurabilityMode::Strict => run.has_failed,
                DurabilityMode::Memory | DurabilityMode::Relaxed => run.is_unclean(kernel),
            });
            let doubted = run.as_ref().map_or(0, |run| run.mark.doubted);
            unclean = kept
                .iter()
                .filter(|kept| starts[&kept.group] <= doubted)
                .map(|kept| (kept.group, kept.incarnation))
                .collect();
            earlier.doubted = doubted;
            earlier.torn = run.as_ref().map_or(0, |run| run.torn_upto(earlier.start, kernel));
            if is_copy {
                notes.push("the directory is a copy".to_owned());
                kept.clear();
            }
            if is_unclean {
                notes.push("what was not synced may be gone".to_owned());
                earlier.doubted = earlier.start;
                unclean = kept.iter().map(|kept| (kept.group, kept.incarnation)).collect();
            }
            if let Some(run) = run {
                RunMark::add_start(&disk, &run, token)?;
                left_by = run.mark.starts;
            }
            remove_unfinished_snapshots(&disk)?;
        } else if let Some(identity) = &identity {
            if let Some((found, state)) = MetaLog::open(disk.clone())? {
                (log, restored) = (Some(found), Some(as_restored(state)));
            }
            (left_by, kept) = take(&disk, identity.node)?;
        }
        let found = Found {
            identity,
            restored,
            kept,
            unclean,
            left_by,
            notes,
            peers: book.peers.keys().copied().collect(),
            mode,
        };
        let store = Store {
            disk,
            log,
            book,
            earlier,
            states,
        };
        Ok((store, found))
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// The process has ended; the disk stays.
    pub(crate) fn into_disk(self) -> SimDisk {
        self.disk
    }

    pub(crate) fn write_identity(&self, identity: &Identity) -> Stored<()> {
        identity.write(&self.disk)
    }

    /// Where the others were.
    pub(crate) fn book(&self) -> &PeerBook {
        &self.book
    }

    /// Writes down where the others are; if that fails, the next start goes by what was there before.
    pub(crate) fn write_book(&mut self, book: PeerBook) {
        if self.book != book && book.write(&self.disk).is_ok() {
            self.book = book;
        }
    }

    /// Writes what the meta group wants written.
    pub(crate) fn write(&mut self, record: Record) -> Stored<()> {
        match record {
            Record::Begin { point, state } => {
                self.log = None;
                MetaLog::remove(&self.disk)?;
                self.log = Some(MetaLog::create(self.disk.clone(), Snapshot { point, state })?);
            }
            Record::Append { entries, hard_state } => {
                self.open_log().write(&entries, Some(hard_state))?;
            }
            Record::Snapshot { point, state } => {
                let snapshot = Snapshot { point, state };
                match self.open_log().write_snapshot(snapshot) {
                    // The log goes on at its length.
                    Ok(()) | Err(StorageError::Full { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Record::End => {
                self.log = None;
                MetaLog::remove(&self.disk)?;
            }
        }
        Ok(())
    }

    fn open_log(&mut self) -> &mut MetaLog<SimDisk> {
        self.log.as_mut().expect("a log begins before it goes on")
    }

    /// Reads the state of a replica that was found. None if that cannot be: it was looked at, and is damaged since.
    pub(crate) fn read_state(&self, group: GroupId) -> Option<Keyspace> {
        let identity = Identity::read(&self.disk).ok().flatten()?;
        let name = &self.states[&group];
        StoredReplica::read_state(&self.disk, identity.cluster, identity.node, name).ok()
    }

    /// Begins the logs of a process that is about to serve.
    pub(crate) fn begin_logs(&mut self, logs: NewLogs<'_>) -> Stored<Vec<Disk>> {
        let NewLogs {
            mode,
            cluster,
            node,
            token,
            workers,
            groups,
            kept,
            keeps_earlier,
            unread,
            prng,
        } = logs;
        let earlier = std::mem::take(&mut self.earlier);
        if earlier.segments.is_empty() {
            remove_replicas(&self.disk)?;
        }
        let kernel = kernel_of(&self.disk);
        RunMark::write(
            &self.disk,
            kernel,
            token,
            mode.code(),
            (earlier.doubted, earlier.torn),
        )?;
        take_clean(&self.disk)?;
        let segments = if keeps_earlier {
            // What is set aside is told, and is not to be lost then.
            sync_segments(&self.disk, &earlier.segments)?;
            Vec::new()
        } else {
            earlier.segments
        };
        let former: Former = Rc::new(RefCell::new((segments, kept)));
        let files = snapshots(&self.disk)?;
        let worker_of = |group| usize::from(groups.worker_of(group, workers as u16));
        let mut all = Vec::new();
        for worker in 0..workers {
            let identity = LogIdentity {
                cluster,
                node,
                worker: worker as u16,
                token,
                start: earlier.start + 1,
            };
            let settings = LogSettings {
                segment_bytes: SEGMENT_BYTES,
            };
            let log = WorkerLog::begin(self.disk.clone(), settings, identity, &[])?;
            let its = files.iter().filter(|file| worker_of(file.group) == worker);
            let unread = unread.iter().filter(|group| worker_of(**group) == worker);
            let unread = unread.map(|group| self.states[group]).collect();
            let worker_disk = WorkerDisk::new(mode, log, its.copied().collect(), unread);
            let store = SnapshotStore::new(self.disk.clone(), cluster, node);
            let prng = Prng::new(prng.next_u64());
            all.push(Disk::new(
                worker_disk,
                self.disk.clone(),
                store,
                former.clone(),
                mode,
                prng,
            ));
        }
        Ok(all)
    }

    /// A step of a change of durability; logs are not opened by it.
    pub(crate) fn carry_out(&self, step: ModeStep) -> Stored<()> {
        match step {
            ModeStep::Nothing | ModeStep::Open(_) => Ok(()),
            ModeStep::Mark(mode) => RunMark::set_durability(&self.disk, mode.code()),
            ModeStep::Remove => remove_replicas(&self.disk),
        }
    }

    /// Nothing that is on disk of replicas is to count for a start after this one.
    pub(crate) fn keep_nothing(&mut self) -> Stored<()> {
        let Some(found) = RunMark::read(&self.disk)? else {
            return Ok(());
        };
        if found.mark.durability != DurabilityMode::Memory.code() {
            RunMark::set_durability(&self.disk, DurabilityMode::Memory.code())?;
        }
        remove_replicas(&self.disk)?;
        // Logs that begin later in this process have the names of these files.
        self.earlier = Earlier::default();
        Ok(())
    }

    /// The process ends with everything synced.
    pub(crate) fn set_clean(&self) -> Stored<()> {
        set_clean(&self.disk)
    }

    /// Leaves replicas to the next start.
    pub(crate) fn leave(&self, node: NodeId, left_by: &[Token], mut all: Vec<HandoverImage>) -> Stored<()> {
        all.sort_unstable_by_key(|kept| kept.group);
        let positions: Vec<ReplicaPosition> = all.iter().map(position).collect();
        let mut writer = HandoverWriter::begin(self.disk.clone(), node, left_by, &positions)?;
        for mut kept in all {
            let entries = kept.rest.as_ref().map_or(&[][..], |(_, saved)| &saved.entries);
            writer.group(kept.group, entries)?;
            let keyspace = kept.keyspace.as_mut().expect("who leaves it has held it");
            let mut transfer = Transfer::begin(keyspace).expect("those of learners have ended");
            loop {
                let (chunk, is_over) = match transfer.next_chunk(keyspace, CHUNK_BYTES) {
                    TransferStep::More(chunk) => (chunk, false),
                    TransferStep::Last(chunk) => (chunk, true),
                    TransferStep::Lost => unreachable!("nothing changes any more"),
                };
                writer.block(&chunk)?;
                if is_over {
                    break;
                }
            }
            writer.end_group()?;
        }
        writer.finish()
    }
}

/// The kernel that a process on this disk runs on: another one each time that the power has gone.
fn kernel_of(disk: &SimDisk) -> KernelBoot {
    KernelBoot((u128::from(disk.restarts()) + 1).to_be_bytes())
}

/// Replicas without their states, the logs that they stand in, the start of each, and the snapshots that hold the states.
type FoundReplicas = (
    Vec<HandoverImage>,
    Earlier,
    BTreeMap<GroupId, u64>,
    BTreeMap<GroupId, SnapshotName>,
);

/// What the logs and snapshots of earlier starts hold.
fn read(
    disk: &SimDisk,
    identity: &Identity,
    written_from: Option<u64>,
    notes: &mut Vec<String>,
) -> Stored<FoundReplicas> {
    let found = read_logs(disk, identity.cluster, identity.node, written_from)?;
    if let Some(damage) = found.damage.first() {
        // Whatever the power has taken, and whatever failed: nothing else makes damage.
        assert!(disk.is_harmed(), "a log contradicts itself: {damage}");
    }
    let names = snapshots(disk)?;
    let (mut kept, mut states) = (Vec::new(), BTreeMap::new());
    for (group, log) in found.replicas {
        if let Some(damage) = found.damaged.get(&group) {
            notes.push(format!(
                "group {}: {damage}; floor {:?}",
                group.number(),
                log.floor
            ));
        }
        match StoredReplica::look(disk, identity.cluster, identity.node, log, &names) {
            Ok(stored) => {
                states.insert(group, stored.snapshot);
                kept.push(HandoverImage {
                    group: stored.group,
                    incarnation: stored.incarnation,
                    rest: Some((stored.point, stored.saved)),
                    generation: Some(stored.generation),
                    keyspace: None,
                });
            }
            Err(why) => notes.push(format!("group {}: {why}", group.number())),
        }
    }
    assert!(kept.iter().all(HandoverImage::is_sound), "it is what was written");
    let earlier = Earlier {
        segments: found.segments,
        start: found.start,
        ..Earlier::default()
    };
    Ok((kept, earlier, found.starts, states))
}

fn as_restored(state: MetaState) -> Restored {
    Restored {
        hard_state: state.hard,
        snapshot: state.snapshot.map(|snapshot| (snapshot.point, snapshot.state)),
        entries: state.entries,
    }
}

/// Where a replica stood.
fn position(kept: &HandoverImage) -> ReplicaPosition {
    let alone = || {
        let members = consensus::Members::of_voters([kept.incarnation]);
        (consensus::Config::first(members), consensus::Saved::default())
    };
    let (applied, saved) = kept.rest.clone().unwrap_or_else(alone);
    ReplicaPosition {
        group: kept.group,
        incarnation: kept.incarnation,
        hard: saved.hard_state,
        applied,
    }
}

/// What the last stop left, and by which starts: it is not found again.
fn take(disk: &SimDisk, node: NodeId) -> Stored<(Vec<Token>, Vec<HandoverImage>)> {
    let mut handover = match Handover::take(disk, node)? {
        Taken::Nothing => return Ok((Vec::new(), Vec::new())),
        Taken::Unusable(damage) => panic!("the file got its name when it was whole: {damage}"),
        Taken::Found(handover) => handover,
    };
    let mut all = Vec::new();
    let (mut entries, mut snapshot_receiver) = (Vec::new(), SnapshotReceiver::new());
    loop {
        match handover.next_item()? {
            Item::Group(_) => (entries, snapshot_receiver) = (Vec::new(), SnapshotReceiver::new()),
            Item::Entry(entry) => entries.push(entry),
            Item::Block(block) => {
                snapshot_receiver.take(block).expect("it is what was written");
            }
            Item::Whole(position) => {
                let hard_state = position.hard;
                let had_others = hard_state.term.0 > 0 || hard_state.commit.0 > 0;
                let saved = consensus::Saved {
                    hard_state,
                    entries: std::mem::take(&mut entries),
                    floor: None,
                };
                let kept = HandoverImage {
                    group: position.group,
                    incarnation: position.incarnation,
                    rest: had_others.then(|| (position.applied.clone(), saved)),
                    generation: None,
                    keyspace: std::mem::take(&mut snapshot_receiver).finish(),
                };
                assert!(
                    kept.is_sound() && kept.keyspace.is_some(),
                    "it is what was written"
                );
                all.push(kept);
            }
            Item::End => return Ok((handover.left_by().to_vec(), all)),
        }
    }
}

/// Brings a block of what a worker's log has kept to the place of another one, of that log or of any file of replicas, which is overwritten
/// by it; where it should be stands what was there before. `None` if nothing was hit that counts: then nothing was changed.
pub(crate) fn misplace(disk: &SimDisk, prng: &mut Prng) -> Option<String> {
    const BLOCK_BYTES: usize = 4096;
    let is_of_replicas = |name: &String| name.starts_with("log-") || name.starts_with("snapshot-");
    damage_by(disk, prng, |disk, name, bytes, prng| {
        let blocks = bytes.len() / BLOCK_BYTES;
        let used = bytes.iter().rposition(|byte| *byte != 0)? / BLOCK_BYTES;
        let from = prng.below(used as u64 + 1) as usize;
        let names = storage::Disk::names(disk).ok()?;
        let others: Vec<String> = names.into_iter().filter(is_of_replicas).collect();
        let to_name = match prng.below(2) {
            0 => name.to_owned(),
            _ => others[prng.below(others.len() as u64) as usize].clone(),
        };
        let block = bytes.get(from * BLOCK_BYTES..(from + 1) * BLOCK_BYTES)?.to_vec();
        // Before it was written there were zeros, or what an earlier use of the file had left: the block before stands for that.
        let before = match from {
            1.. if prng.below(4) == 0 => bytes[(from - 1) * BLOCK_BYTES..from * BLOCK_BYTES].to_vec(),
            _ => vec![0; BLOCK_BYTES],
        };
        bytes[from * BLOCK_BYTES..(from + 1) * BLOCK_BYTES].copy_from_slice(&before);
        if to_name == name {
            let to = prng.below(blocks as u64) as usize;
            bytes[to * BLOCK_BYTES..(to + 1) * BLOCK_BYTES].copy_from_slice(&block);
            return Some((format!("block {from} of {name} went to block {to}"), None));
        }
        let mut other = disk.content(&to_name)?;
        let to = prng.below(other.len().div_ceil(BLOCK_BYTES).max(1) as u64) as usize;
        let end = ((to + 1) * BLOCK_BYTES).min(other.len());
        other[to * BLOCK_BYTES..end].copy_from_slice(&block[..end - to * BLOCK_BYTES]);
        let what = format!("block {from} of {name} went to block {to} of {to_name}");
        Some((what, Some((to_name, other))))
    })
}

/// Damages what is known to have been kept: a byte or some blocks of a worker's log, its end, or a snapshot. `None` if nothing was hit that
/// counts: then nothing was changed.
pub(crate) fn damage(disk: &SimDisk, prng: &mut Prng) -> Option<String> {
    match prng.below(3) {
        0 => damage_snapshot(disk, prng),
        _ => damage_log(disk, prng),
    }
}

/// Flips a bit of a snapshot, cuts it, or takes it away.
fn damage_snapshot(disk: &SimDisk, prng: &mut Prng) -> Option<String> {
    let names = snapshots(disk).ok()?;
    let name = names.get(prng.below(names.len().max(1) as u64) as usize)?;
    let mut bytes = disk.content(&name.to_string())?;
    let at = prng.below(bytes.len() as u64) as usize;
    let what = match prng.below(3) {
        0 => {
            remove_snapshot(disk, name).ok()?;
            return Some(format!("{name} is gone"));
        }
        1 => {
            bytes.truncate(at);
            "cut"
        }
        _ => {
            bytes[at] ^= 1 << prng.below(8);
            "damaged"
        }
    };
    disk.put(&name.to_string(), &bytes);
    Some(format!("{name} is {what} at {at}"))
}

fn damage_log(disk: &SimDisk, prng: &mut Prng) -> Option<String> {
    damage_by(disk, prng, |_, name, bytes, prng| {
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let at = prng.below(used as u64 + 1) as usize;
        match prng.below(4) {
            0 => bytes.truncate(at),
            1 => {
                let end = (at + 1 + prng.below(3 * 4096) as usize).min(bytes.len());
                bytes[at..end].fill(0);
            }
            _ => bytes[at] ^= 1 << prng.below(8),
        }
        Some((format!("{name} is damaged at {at}"), None))
    })
}

/// Up to where a log went, as far as it is known: term and place.
fn reach(log: &ReplicaLog) -> (consensus::Term, consensus::Index) {
    let last = log.entries.last();
    let last = last.map_or((log.start.term, log.start.index), |last| (last.term, last.index));
    log.floor.map_or(last, |floor| floor.max(last))
}

/// What was done to a file, and the name and the bytes of another one that was hit as well.
type Harm = Option<(String, Option<(String, Vec<u8>)>)>;

/// Damages a worker's log, of which `harm` is given the name and the bytes, so that a start notices it.
fn damage_by(
    disk: &SimDisk,
    prng: &mut Prng,
    harm: impl Fn(&SimDisk, &str, &mut Vec<u8>, &mut Prng) -> Harm,
) -> Option<String> {
    /// How often a place is drawn.
    const TRIES: u32 = 8;
    let identity = Identity::read(disk).ok()??;
    let run = RunMark::read(disk).ok()?;
    let written_from = run.and_then(|run| run.written_from(kernel_of(disk)));
    let look = || {
        // What is noticed does not depend on who makes a mistake.
        let mut blind = [Mutation::DamageIsEnd, Mutation::CutIsEnd].into_iter();
        let Some(planted) = blind.find(|mutation| mutations::is(*mutation)) else {
            return read_logs(disk, identity.cluster, identity.node, written_from).ok();
        };
        mutations::plant(None);
        let found = read_logs(disk, identity.cluster, identity.node, written_from).ok();
        mutations::plant(Some(planted));
        found
    };
    let whole = look()?;
    if !whole.damage.is_empty() {
        return None;
    }
    // The end of a log, of which nothing behind it tells, is not to go beside what is noticed.
    let is_known = |log: &ReplicaLog| {
        let before = whole.replicas.get(&log.group);
        before.is_none_or(|before| reach(log) >= reach(before))
    };
    let is_noticed =
        || look().is_some_and(|found| !found.damage.is_empty() && found.replicas.values().all(is_known));
    let names = storage::Disk::names(disk).ok()?;
    let logs: Vec<String> = names
        .into_iter()
        .filter(|name| name.starts_with("log-"))
        .collect();
    for _ in 0..TRIES {
        let name = logs.get(prng.below(logs.len().max(1) as u64) as usize)?;
        let before = disk.content(name)?;
        let mut bytes = before.clone();
        let (what, other) = harm(disk, name, &mut bytes, prng)?;
        disk.put(name, &bytes);
        let other_before = other.and_then(|(name, bytes)| {
            let before = disk.content(&name)?;
            disk.put(&name, &bytes);
            Some((name, before))
        });
        if is_noticed() {
            return Some(what);
        }
        disk.put(name, &before);
        if let Some((name, bytes)) = other_before {
            disk.put(&name, &bytes);
        }
    }
    None
}
