//! A worker's log beside a plain model of it, which a seed drives.

use bytes::Bytes;
use consensus::{HardState, Index, LogEntry, Members, Payload, SnapshotPoint, Term};
use ids::{ClusterId, GroupId, Incarnation, NodeId, Prng, Token};
use std::collections::BTreeMap;
use storage::{FoundLogs, LogIdentity, LogSettings, ReplicaLog, SimDisk, StorageError, WorkerLog, read_logs};

pub(crate) const CLUSTER: ClusterId = ClusterId(0x77);
pub(crate) const NODE: NodeId = NodeId(3);
pub(crate) const SMALL: LogSettings = LogSettings {
    segment_bytes: 64 * 1024,
};

/// What each group's log should be.
pub(crate) type Model = BTreeMap<GroupId, ReplicaLog>;

pub(crate) fn identity(worker: u16, start: u64) -> LogIdentity {
    LogIdentity {
        cluster: CLUSTER,
        node: NODE,
        worker,
        token: Token(u128::from(start) << 70 | 5),
        start,
    }
}

pub(crate) fn read(disk: &SimDisk) -> FoundLogs {
    read_logs(disk, CLUSTER, NODE, None).expect("an intact disk")
}

/// The same where all that was written is there.
pub(crate) fn read_written(disk: &SimDisk) -> FoundLogs {
    read_logs(disk, CLUSTER, NODE, Some(1)).expect("an intact disk")
}

pub(crate) fn begin(disk: &SimDisk, start: u64, live: &[ReplicaLog]) -> WorkerLog<SimDisk> {
    WorkerLog::begin(disk.clone(), SMALL, identity(0, start), live).expect("an intact disk")
}

pub(crate) fn point(term: u64, index: u64) -> SnapshotPoint {
    SnapshotPoint {
        index: Index(index),
        term: Term(term),
        members: Members::of_voters([Incarnation(1), Incarnation(index + 1)]),
    }
}

pub(crate) fn hard(term: u64, commit: u64) -> HardState {
    HardState {
        term: Term(term),
        vote: term.is_multiple_of(2).then_some(Incarnation(term)),
        commit: Index(commit),
    }
}

pub(crate) fn entry(term: u64, index: u64, bytes: usize) -> LogEntry {
    LogEntry {
        term: Term(term),
        index: Index(index),
        payload: match index % 7 {
            0 => Payload::Members(vec![term as u8; bytes]),
            _ => Payload::Data(Bytes::from(vec![(index + 31 * term) as u8; bytes])),
        },
    }
}

/// A log of entries of so many bytes, of term 1, behind the place 10.
pub(crate) fn replica(group: u16, entries: u64, bytes: usize) -> ReplicaLog {
    ReplicaLog {
        group: GroupId::new(group),
        incarnation: Incarnation(u64::from(group) + 100),
        generation: 1,
        start: point(1, 10),
        hard: hard(1, 10),
        entries: (11..11 + entries).map(|index| entry(1, index, bytes)).collect(),
        floor: None,
    }
}

pub(crate) fn last(log: &ReplicaLog) -> u64 {
    log.entries
        .last()
        .map_or(log.start.index.0, |entry| entry.index.0)
}

/// Syncs, and tends to the segments.
pub(crate) fn sync(log: &mut WorkerLog<SimDisk>) -> Result<(), StorageError> {
    if let Some(job) = log.sync_job() {
        log.on_synced(job.run()?);
    }
    if let Some(job) = log.prepare_job() {
        log.on_prepared(job.run())?;
    }
    Ok(())
}

pub(crate) fn append(
    log: &mut WorkerLog<SimDisk>,
    model: &mut ReplicaLog,
    entries: Vec<LogEntry>,
    hard: HardState,
) {
    log.append(model.group, &entries, hard);
    if let Some(first) = entries.first() {
        model.entries.retain(|entry| entry.index < first.index);
    }
    model.entries.extend(entries);
    model.hard = hard;
}

pub(crate) fn snapshot(log: &mut WorkerLog<SimDisk>, model: &mut ReplicaLog, index: u64) {
    let term = model.entries.iter().find(|entry| entry.index.0 == index);
    let point = point(term.map_or(model.start.term, |entry| entry.term).0, index);
    log.on_snapshot(model.group, &point);
    model.entries.retain(|entry| entry.index > point.index);
    model.start = point;
}

/// A log, its model, and the model as of each batch that was written.
pub(crate) struct Run {
    pub(crate) disk: SimDisk,
    pub(crate) prng: Prng,
    pub(crate) log: Option<WorkerLog<SimDisk>>,
    pub(crate) model: Model,
    /// As of each batch, with the number of its last frame. The first is what the log began with.
    pub(crate) history: Vec<(u64, Model)>,
    pub(crate) synced: u64,
    pub(crate) start: u64,
    /// How long entries are at most.
    pub(crate) entry_bytes_max: u64,
}

impl Run {
    pub(crate) fn new(disk: &SimDisk, seed: u64) -> Run {
        Run {
            disk: disk.clone(),
            prng: Prng::new(seed),
            log: None,
            model: Model::new(),
            history: vec![(0, Model::new())],
            synced: 0,
            start: 0,
            entry_bytes_max: 3_000,
        }
    }

    /// Begins the log of another start with what the model has.
    pub(crate) fn begin(&mut self) -> Result<(), StorageError> {
        self.log = None;
        self.start += 1;
        let live: Vec<ReplicaLog> = self.model.values().cloned().collect();
        self.history = vec![(0, self.model.clone())];
        self.synced = 0;
        let former = read_logs(&self.disk, CLUSTER, NODE, None)?;
        assert_eq!(former.replicas, self.model);
        assert!(former.start < self.start);
        let log = WorkerLog::begin(self.disk.clone(), SMALL, identity(0, self.start), &live)?;
        self.log = Some(log);
        former.drop_former(&self.disk)
    }

    /// Does something.
    pub(crate) fn step(&mut self) -> Result<(), StorageError> {
        if self.log.is_none() || self.prng.below(40) == 0 {
            // What was gathered or not synced goes on in memory, as the process would.
            self.flush()?;
            return self.begin();
        }
        for _ in 0..1 + self.prng.below(3) {
            self.gather();
        }
        self.write()?;
        if self.prng.below(3) == 0 {
            self.sync()?;
        }
        let log = self.log.as_mut().expect("it has begun");
        if let Some(group) = log.pinning(2) {
            let model = self.model.get_mut(&group).expect("it has a log");
            match self.prng.below(2) {
                0 => log.live(model),
                _ => snapshot(log, model, last(model)),
            }
            self.write()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), StorageError> {
        match self.log.as_ref().is_some_and(|log| log.has_batch()) {
            true => self.write(),
            false => Ok(()),
        }
    }

    pub(crate) fn write(&mut self) -> Result<(), StorageError> {
        let log = self.log.as_mut().expect("it has begun");
        // It may be there although the call fails.
        self.history.push((u64::MAX, self.model.clone()));
        let number = log.write()?;
        self.history.last_mut().expect("it was just pushed").0 = number;
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), StorageError> {
        let log = self.log.as_mut().expect("it has begun");
        sync(log)?;
        self.synced = log.synced();
        Ok(())
    }

    fn gather(&mut self) {
        let prng = &mut self.prng;
        let log = self.log.as_mut().expect("it has begun");
        let group = GroupId::new(prng.below(5) as u16);
        let Some(model) = self.model.get_mut(&group) else {
            let mut fresh = replica(group.number(), prng.below(4), 200);
            fresh.incarnation = Incarnation(1 + prng.below(1_000_000));
            log.live(&fresh);
            self.model.insert(group, fresh);
            return;
        };
        let (begin, end) = (model.start.index.0, last(model));
        match prng.below(20) {
            0 => {
                self.model.remove(&group);
                log.end(group);
            }
            1 | 2 if end > begin => snapshot(log, model, begin + 1 + prng.below(end - begin)),
            3 => {
                let point = point(model.hard.term.0 + 1, end + 1 + prng.below(9));
                let hard = hard(model.hard.term.0 + 1, point.index.0);
                let entries = vec![entry(hard.term.0, point.index.0 + 1, 10)];
                log.restart(group, &point, &entries, hard);
                (model.start, model.entries, model.hard) = (point, entries, hard);
            }
            4 => log.live(model),
            5 => append(log, model, vec![], hard(model.hard.term.0 + 1, begin)),
            _ => {
                let term = model.hard.term.0 + prng.below(2);
                let cut = if term > model.hard.term.0 {
                    prng.below(1 + (end - begin).min(3))
                } else {
                    0
                };
                let first = end + 1 - cut;
                let entries = (first..first + 1 + prng.below(4))
                    .map(|index| entry(term, index, prng.below(self.entry_bytes_max) as usize))
                    .collect();
                append(log, model, entries, hard(term, begin));
            }
        }
    }

    /// The batches that may be the last one found: from the last one that is kept on.
    pub(crate) fn check(&self, found: &FoundLogs) {
        assert_eq!(found.damage, [], "nothing was damaged");
        assert!(found.damaged.is_empty());
        let kept = self
            .history
            .iter()
            .rposition(|(number, _)| *number <= self.synced);
        let allowed = &self.history[kept.unwrap_or(0)..];
        let is_allowed = allowed.iter().any(|(_, model)| *model == found.replicas);
        assert!(
            is_allowed,
            "what was found is none of the last {} batches: {found:?}",
            allowed.len()
        );
    }
}
