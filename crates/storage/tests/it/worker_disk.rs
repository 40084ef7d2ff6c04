//! The disk of a worker: what is answered when, and what is found after that.

use bytes::Bytes;
use consensus::{Config, HardState, Index, LogEntry, Members, Payload, Persist, Saved, SnapshotPoint, Term};
use ids::{ClusterId, DurabilityMode, GroupId, Incarnation, Monotonic, NodeId, Token};
use mutations::Mutation;
use replica::{DiskAnswer, DiskRequest, LogBase, LogBegin};
use std::collections::BTreeSet;
use std::time::Duration;
use storage::{
    Fault, FoundLogs, LogIdentity, LogSettings, Room, SYNC_WINDOW, SimDisk, SnapshotDone, SnapshotName,
    SnapshotOwner, SnapshotStore, StorageError, StoredSnapshot, WorkerDisk, WorkerLog, read_logs, snapshots,
};

const CLUSTER: ClusterId = ClusterId(7);
const NODE: NodeId = NodeId(1);
const ME: Incarnation = Incarnation(5);

fn group() -> GroupId {
    GroupId::new(0)
}

struct Scene {
    files: SimDisk,
    disk: WorkerDisk<SimDisk>,
    store: SnapshotStore<SimDisk>,
    now: Monotonic,
}

fn first() -> SnapshotPoint {
    Config::first(Members::of_voters([ME]))
}

fn persist(number: u64) -> Persist {
    Persist {
        number,
        start: None,
        entries: vec![LogEntry {
            term: Term(2),
            index: Index(number + 1),
            payload: Payload::Data(Bytes::from_static(b"an entry")),
        }],
        hard_state: HardState {
            term: Term(2),
            vote: Some(ME),
            commit: Index(1),
        },
    }
}

impl Scene {
    fn new(mode: DurabilityMode) -> Scene {
        let files = SimDisk::new(1);
        let identity = LogIdentity {
            cluster: CLUSTER,
            node: NODE,
            worker: 0,
            token: Token(9),
            start: 1,
        };
        let settings = LogSettings {
            segment_bytes: 64 * 1024,
        };
        let log = WorkerLog::begin(files.clone(), settings, identity, &[]).expect("an intact disk");
        Scene {
            disk: WorkerDisk::new(mode, log, Vec::new(), BTreeSet::new()),
            store: SnapshotStore::new(files.clone(), CLUSTER, NODE),
            files,
            now: Monotonic(1_000_000_000),
        }
    }

    fn begin(&mut self, life: u64, base: LogBase) {
        let begin = LogBegin {
            incarnation: ME,
            generation: 0,
            start: first(),
            saved: Saved::default(),
            base,
        };
        self.disk
            .request(group(), life, DiskRequest::Begin(Box::new(begin)));
    }

    fn persist(&mut self, life: u64, number: u64) {
        self.disk
            .request(group(), life, DiskRequest::Persist(persist(number)));
    }

    /// Writes all that there is, and hands out which requests were answered.
    fn write(&mut self) -> Vec<u64> {
        self.disk.write(self.now).expect("an intact disk");
        while self.disk.log().is_writing() {
            self.disk.write(self.now).expect("an intact disk");
        }
        self.answered()
    }

    fn answered(&mut self) -> Vec<u64> {
        assert_eq!(self.disk.check(), Ok(()));
        let answers = self.disk.take_answers().into_iter();
        answers
            .filter_map(|(_, _, answer)| match answer {
                DiskAnswer::Persisted(number) => Some(number),
                _ => None,
            })
            .collect()
    }

    fn sync(&mut self) {
        let job = self.disk.sync_job(self.now).expect("a sync is due");
        let synced = job.run().expect("an intact disk");
        self.disk.on_synced(synced, self.now);
    }

    /// Carries out what is to be done with snapshots.
    fn run_jobs(&mut self) {
        for job in self.disk.take_jobs() {
            let done = self.store.run(job);
            done.into_iter().for_each(|done| self.disk.on_snapshot(done));
        }
    }

    fn store_snapshot(&mut self, life: u64, snapshot: u64, index: u64) {
        let point = SnapshotPoint {
            index: Index(index),
            ..first()
        };
        let chunk = DiskRequest::Chunk {
            snapshot,
            number: 0,
            point: Some(Box::new(point)),
            bytes: b"a state".to_vec(),
        };
        self.disk.request(group(), life, chunk);
        self.run_jobs();
    }

    /// What a process that starts now would find.
    fn found(&self) -> FoundLogs {
        read_logs(&self.files, CLUSTER, NODE, None).expect("the logs are intact")
    }

    fn after_a_loss_of_power(self) -> FoundLogs {
        self.files.restart();
        read_logs(&self.files, CLUSTER, NODE, None).expect("the logs are intact")
    }
}

/// A replica whose state is stored, and whose log has begun.
fn begun(mode: DurabilityMode) -> Scene {
    let mut scene = Scene::new(mode);
    scene.begin(1, LogBase::New);
    scene.store_snapshot(1, 1, 1);
    scene.write();
    if mode != DurabilityMode::Strict {
        // `strict` syncs what a log begins with where it is written.
        scene.now = scene.now.after(SYNC_WINDOW);
        scene.sync();
    }
    scene
}

#[test]
fn relaxed_answers_what_is_written_and_strict_what_is_synced() {
    let mut relaxed = begun(DurabilityMode::Relaxed);
    relaxed.persist(1, 1);
    assert_eq!(relaxed.answered(), [], "it is not written");
    assert_eq!(relaxed.write(), [1]);

    let mut strict = begun(DurabilityMode::Strict);
    strict.persist(1, 1);
    assert_eq!(strict.write(), []);
    strict.sync();
    assert_eq!(strict.answered(), [1]);
    let found = strict.after_a_loss_of_power();
    assert_eq!(found.replicas[&group()].entries.len(), 1);
}

#[test]
fn relaxed_syncs_in_time_and_answers_nothing_when_it_cannot() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.sync_soon();
    scene.persist(1, 1);
    assert_eq!(scene.write(), [1]);
    assert!(scene.disk.sync_job(scene.now).is_none(), "the window is open");
    scene.now = scene.now.after(SYNC_WINDOW);
    let job = scene.disk.sync_job(scene.now).expect("the window is over");
    scene.now = scene.now.after(SYNC_WINDOW + Duration::from_millis(1));
    scene.persist(1, 2);
    assert_eq!(scene.write(), [], "the sync takes longer than two windows");
    scene
        .disk
        .on_synced(job.run().expect("an intact disk"), scene.now);
    assert_eq!(scene.answered(), [2]);
}

#[test]
fn what_was_promised_is_answered_when_it_is_written() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.persist(1, 1);
    assert_eq!(scene.write(), [1]);
    let promised = scene.disk.promise(scene.now);
    assert!(promised >= 8 * 1024, "{promised}");
    // The loop stands still for so long that nothing else would be answered.
    scene.now = scene.now.after(SYNC_WINDOW * 3);
    scene.persist(1, 2);
    assert_eq!(scene.write(), [2]);
    scene.persist(1, 3);
    assert_eq!(scene.write(), [], "that was not promised");
    assert_eq!(scene.disk.promise(scene.now), 0);
    scene.sync();
    assert_eq!(scene.answered(), [3]);
    scene.persist(1, 4);
    assert_eq!(scene.write(), [4], "it waits for its sync from now on");
    assert_eq!(scene.disk.promise(scene.now), promised);
    scene.persist_long(5, promised as usize);
    scene.now = scene.now.after(SYNC_WINDOW * 3);
    assert_eq!(scene.write(), [], "it is more than was promised");
}

#[test]
fn nothing_is_promised_that_waits_for_a_sync_or_for_room() {
    let mut strict = begun(DurabilityMode::Strict);
    assert_eq!(strict.disk.promise(strict.now), 0);
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.persist(1, 1);
    assert_eq!(scene.disk.promise(scene.now), 0, "it is not written yet");
    assert_eq!(scene.write(), [1]);
    assert!(scene.disk.promise(scene.now) > 0);
    scene.now = scene.now.after(SYNC_WINDOW * 2);
    assert_eq!(
        scene.disk.promise(scene.now),
        0,
        "no sync has ended for two windows"
    );
    scene.sync();
    scene.prepare();
    scene.files.plan(Some((scene.files.operations(), Fault::Full)));
    let mut number = 1;
    loop {
        let promised = scene.disk.promise(scene.now);
        if promised == 0 {
            break;
        }
        // Always all of it.
        number += 1;
        scene.persist_long(number, promised as usize - 512);
        assert_eq!(scene.write(), [number]);
        scene.now = scene.now.after(Duration::from_secs(2));
        scene.sync();
        scene.prepare();
    }
    assert!(number > 8, "{number} found room");
    assert_eq!(scene.disk.room(), Room::Short, "what was promised has left room");
}

#[test]
fn a_change_of_the_members_is_synced_in_every_mode() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.sync_soon();
    let mut change = persist(1);
    change.entries[0].payload = Payload::Members(b"a change".to_vec());
    scene.disk.request(group(), 1, DiskRequest::Persist(change));
    scene.persist(1, 2);
    assert_eq!(scene.write(), [], "what comes behind it waits too");
    scene.sync();
    assert_eq!(scene.answered(), [1, 2]);
}

#[test]
fn that_data_have_a_new_name_is_synced_in_every_mode() {
    let begins = || {
        let mut scene = Scene::new(DurabilityMode::Relaxed);
        scene.begin(1, LogBase::New);
        scene.persist(1, 1);
        scene.store_snapshot(1, 1, 1);
        scene
    };
    mutations::plant(Some(Mutation::NameNotSynced));
    let mut scene = begins();
    assert_eq!(scene.write(), [1]);
    let found = scene.after_a_loss_of_power();
    assert_eq!(
        found.replicas.len(),
        0,
        "and nobody knows what is there by that name"
    );
    mutations::plant(None);
    let mut scene = begins();
    assert_eq!(scene.write(), []);
    scene.persist(1, 2);
    assert_eq!(scene.write(), []);
    scene.sync();
    assert_eq!(scene.answered(), [1, 2]);
    scene.persist(1, 3);
    assert_eq!(scene.write(), [3], "from then on as any other");
    // What was kept under that name before is there under it.
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::Stored);
    scene.persist(1, 1);
    assert_eq!(scene.write(), [1]);
}

#[test]
fn a_log_begins_when_the_state_behind_which_it_begins_is_kept() {
    let begins = || {
        let mut scene = Scene::new(DurabilityMode::Strict);
        scene.begin(1, LogBase::New);
        scene.persist(1, 1);
        let early = scene.write();
        let is_empty = read_logs(&scene.files, CLUSTER, NODE, None)
            .expect("the logs are intact")
            .replicas
            .is_empty();
        scene.store_snapshot(1, 1, 1);
        let mut late = scene.write();
        scene.sync_soon();
        late.extend(scene.answered());
        (early, is_empty, late)
    };
    assert_eq!(begins(), (vec![], true, vec![1]));
    mutations::plant(Some(Mutation::BaseNotAwaited));
    let noticed = begins();
    mutations::plant(None);
    assert_ne!(noticed, (vec![], true, vec![1]));
}

#[test]
fn what_a_leader_sends_counts_when_it_is_kept() {
    let takes = || {
        let mut scene = Scene::new(DurabilityMode::Relaxed);
        let begin = LogBegin {
            incarnation: ME,
            generation: 0,
            start: Config::NOWHERE,
            saved: Saved::default(),
            base: LogBase::New,
        };
        scene
            .disk
            .request(group(), 1, DiskRequest::Begin(Box::new(begin)));
        let received = DiskRequest::Received {
            from: Incarnation(3),
            transfer: 1,
            number: 0,
            bytes: b"a state".to_vec(),
        };
        scene.disk.request(group(), 1, received);
        let mut installed = persist(9);
        installed.start = Some(Box::new(SnapshotPoint {
            index: Index(9),
            ..first()
        }));
        scene.disk.request(group(), 1, DiskRequest::Persist(installed));
        let early = scene.write();
        scene.run_jobs();
        let kept = snapshots(&scene.files).expect("an intact disk").len();
        (early, scene.write(), kept)
    };
    assert_eq!(takes(), (vec![], vec![9], 1));
    mutations::plant(Some(Mutation::ReceivedNotAwaited));
    let noticed = takes();
    mutations::plant(None);
    assert_ne!(noticed, (vec![], vec![9], 1));
}

#[test]
fn the_vote_is_in_the_log() {
    let vote = || {
        let mut scene = begun(DurabilityMode::Strict);
        scene.persist(1, 1);
        scene.write();
        scene.sync();
        scene.after_a_loss_of_power().replicas[&group()].hard.vote
    };
    assert_eq!(vote(), Some(ME));
    mutations::plant(Some(Mutation::VoteNotKept));
    let noticed = vote();
    mutations::plant(None);
    assert_eq!(noticed, None);
}

#[test]
fn a_sync_that_fails_is_final() {
    let fails = || {
        let mut scene = begun(DurabilityMode::Strict);
        scene.persist(1, 1);
        scene.write();
        scene
            .files
            .plan(Some((scene.files.operations(), Fault::SyncFails)));
        let job = scene.disk.sync_job(scene.now).expect("a sync is due");
        job.run().is_err()
    };
    assert!(fails());
    mutations::plant(Some(Mutation::SyncRetried));
    let noticed = fails();
    mutations::plant(None);
    assert!(!noticed, "a second sync says nothing of what the first one lost");
}

#[test]
fn another_life_is_not_answered() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.sync_soon();
    scene.persist(1, 1);
    scene.begin(2, LogBase::Stored);
    scene.persist(1, 2);
    scene.persist(2, 1);
    scene.disk.write(scene.now).expect("an intact disk");
    let answers = scene.disk.take_answers();
    assert_eq!(answers, [(group(), 2, DiskAnswer::Persisted(1))]);
}

#[test]
fn a_snapshot_goes_when_the_log_is_synced_behind_a_later_one() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.sync_soon();
    scene.persist(1, 1);
    scene.write();
    scene.store_snapshot(1, 2, 2);
    let kept = |scene: &Scene| snapshots(&scene.files).expect("an intact disk").len();
    scene.write();
    scene.run_jobs();
    assert_eq!(kept(&scene), 2, "the log is not synced");
    scene.sync_soon();
    scene.run_jobs();
    assert_eq!(kept(&scene), 1);
    scene.disk.request(group(), 1, DiskRequest::End);
    scene.write();
    scene.sync_soon();
    scene.run_jobs();
    assert_eq!(kept(&scene), 0, "the replica has ended");
}

impl Scene {
    /// Syncs what is written, whether or not that is due.
    fn sync_soon(&mut self) {
        self.now = self.now.after(SYNC_WINDOW);
        if let Some(job) = self.disk.sync_job(self.now) {
            self.disk.on_synced(job.run().expect("an intact disk"), self.now);
        }
    }
}

#[test]
fn a_sync_that_is_forced_covers_what_was_written_before_it() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.sync_soon();
    scene.disk.force_sync(1);
    assert_eq!(
        scene.disk.take_forced(),
        [(1, vec![group()])],
        "all is synced already"
    );
    scene.persist(1, 1);
    assert_eq!(scene.write(), [1]);
    scene.disk.force_sync(2);
    assert_eq!(scene.disk.take_forced(), []);
    let job = scene
        .disk
        .sync_job(scene.now)
        .expect("it does not wait for the window");
    scene.persist(1, 2);
    assert_eq!(scene.write(), [2]);
    scene.disk.force_sync(3);
    scene
        .disk
        .on_synced(job.run().expect("an intact disk"), scene.now);
    assert_eq!(scene.disk.take_forced(), [(2, vec![group()])]);
    scene.sync();
    assert_eq!(scene.disk.take_forced(), [(3, vec![group()])]);
    let found = scene.after_a_loss_of_power();
    assert_eq!(found.replicas[&group()].entries.len(), 2);
}

#[test]
fn a_forced_sync_says_nothing_of_logs_that_have_not_begun() {
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::New);
    scene.disk.force_sync(1);
    assert_eq!(scene.disk.take_forced(), [(1, vec![])], "its state is not kept");
    scene.store_snapshot(1, 1, 1);
    scene.disk.force_sync(2);
    assert_eq!(scene.disk.take_forced(), [(2, vec![])], "it is not written");
    scene.write();
    scene.disk.force_sync(3);
    scene.sync();
    assert_eq!(scene.disk.take_forced(), [(3, vec![group()])]);
}

#[test]
fn a_save_ends_when_all_that_it_waits_for_is_kept() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.disk.save(3, [(group(), Index(4))]);
    assert_eq!(scene.disk.take_saved(), []);
    assert_eq!(scene.disk.next_snapshot(scene.now), Some(group()));
    assert_eq!(scene.disk.next_snapshot(scene.now), None, "it is under way");
    scene.store_snapshot(1, 2, 3);
    assert_eq!(scene.disk.take_saved(), [], "it was begun too early");
    assert_eq!(scene.disk.next_snapshot(scene.now), Some(group()));
    scene.store_snapshot(1, 3, 4);
    assert_eq!(scene.disk.take_saved(), [(3, true)]);
    assert_eq!(scene.disk.next_snapshot(scene.now), None, "nobody waits for more");
    assert_eq!(scene.disk.check(), Ok(()));
}

#[test]
fn a_save_waits_for_nothing_of_replicas_that_are_not_here() {
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.disk.save(1, [(group(), Index(4))]);
    assert_eq!(scene.disk.take_saved(), [(1, true)]);
    scene.begin(1, LogBase::Stored);
    scene.disk.save(2, [(group(), Index(4))]);
    assert_eq!(scene.disk.take_saved(), []);
    scene.disk.request(group(), 1, DiskRequest::End);
    assert_eq!(scene.disk.take_saved(), [(2, true)], "it has ended");
    assert_eq!(scene.disk.check(), Ok(()));
}

#[test]
fn a_save_fails_if_nothing_comes_of_a_snapshot() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.disk.save(1, [(group(), Index(4))]);
    assert_eq!(scene.disk.next_snapshot(scene.now), Some(group()));
    let at = scene.files.operations();
    scene.files.plan(Some((at, Fault::Full)));
    scene.store_snapshot(1, 2, 4);
    assert_eq!(scene.disk.take_saved(), [(1, false)]);

    let mut scene = begun(DurabilityMode::Relaxed);
    scene.disk.save(1, [(group(), Index(4))]);
    assert_eq!(scene.disk.next_snapshot(scene.now), Some(group()));
    scene.now = scene.now.after(Duration::from_secs(31));
    assert_eq!(
        scene.disk.next_snapshot(scene.now),
        None,
        "nothing came of it for long"
    );
    assert_eq!(scene.disk.take_saved(), [(1, false)]);
}

impl Scene {
    /// An entry of so many bytes.
    fn persist_long(&mut self, number: u64, bytes: usize) {
        let mut long = persist(number);
        long.entries[0].payload = Payload::Data(Bytes::from(vec![7; bytes]));
        self.disk.request(group(), 1, DiskRequest::Persist(long));
    }

    /// A snapshot is kept, wherever.
    fn kept(&mut self, point: SnapshotPoint) {
        let owner = SnapshotOwner {
            group: group(),
            incarnation: ME,
            generation: 0,
            life: 1,
        };
        let name = SnapshotName {
            group: group(),
            incarnation: ME,
            index: point.index,
        };
        let bytes = 100;
        self.disk.on_snapshot(SnapshotDone::Stored {
            owner,
            snapshot: 2,
            number: 0,
            kept: Some(StoredSnapshot { name, point, bytes }),
        });
    }

    /// The segment that is to be made ahead is tried, if it is time.
    fn prepare(&mut self) {
        if let Some(job) = self.disk.prepare_job(self.now) {
            let prepared = self.disk.on_prepared(job.run());
            assert!(matches!(prepared, Ok(()) | Err(StorageError::Full { .. })));
        }
    }
}

#[test]
fn a_full_disk_is_known_before_nothing_can_be_written_and_what_waits_is_answered_in_order() {
    for mode in [DurabilityMode::Relaxed, DurabilityMode::Strict] {
        let mut scene = begun(mode);
        scene.prepare();
        assert_eq!(scene.disk.room(), Room::Enough);
        scene.files.plan(Some((scene.files.operations(), Fault::Full)));
        let (mut answered, mut rooms) = (Vec::new(), Vec::new());
        for number in 1..=40 {
            scene.persist_long(number, 5_000);
            answered.extend(scene.write());
            if let Some(job) = scene.disk.sync_job(scene.now) {
                let synced = job.run().expect("an intact disk");
                scene.disk.on_synced(synced, scene.now);
            }
            answered.extend(scene.answered());
            scene.now = scene.now.after(Duration::from_secs(2));
            scene.prepare();
            rooms.push(scene.disk.room());
        }
        let reached = |room| {
            rooms
                .iter()
                .position(|found| *found == room)
                .expect("it comes to that")
        };
        assert!(rooms.is_sorted());
        assert!(
            reached(Room::Short) + 4 <= reached(Room::None),
            "there is room when it is known: {rooms:?}"
        );
        assert_eq!(
            answered.len(),
            reached(Room::None),
            "what waits is not answered: {rooms:?}"
        );
        // There is room for what lets go of segments, although there is none on the disk.
        let waiting = scene.disk.log().written();
        let point = SnapshotPoint {
            index: Index(5),
            term: Term(2),
            ..first()
        };
        scene.kept(point);
        assert_eq!(scene.write(), []);
        assert!(scene.disk.log().written() > waiting);
        scene.files.plan(None);
        scene.files.make_room();
        scene.now = scene.now.after(Duration::from_secs(2));
        scene.prepare();
        answered.extend(scene.write());
        scene.sync();
        answered.extend(scene.answered());
        assert_eq!(scene.disk.room(), Room::Enough);
        assert_eq!(answered, Vec::from_iter(1..=40));
    }
}

#[test]
fn what_waits_for_room_is_not_answered_when_its_replica_has_ended() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.prepare();
    scene.files.plan(Some((scene.files.operations(), Fault::Full)));
    let mut number = 0;
    while scene.disk.room() < Room::None {
        number += 1;
        scene.persist_long(number, 5_000);
        scene.write();
        scene.now = scene.now.after(Duration::from_secs(2));
        scene.prepare();
    }
    scene.disk.request(group(), 1, DiskRequest::End);
    assert_eq!(scene.disk.room(), Room::Short);
    scene.files.plan(None);
    scene.files.make_room();
    scene.now = scene.now.after(Duration::from_secs(2));
    scene.prepare();
    assert_eq!(scene.write(), []);
    assert_eq!(scene.disk.room(), Room::Enough);
}

#[test]
fn what_waits_for_room_is_not_acknowledged() {
    for (mutation, is_noticed) in [(None, false), (Some(Mutation::FullAcknowledged), true)] {
        mutations::plant(mutation);
        let mut scene = begun(DurabilityMode::Relaxed);
        scene.prepare();
        scene.files.plan(Some((scene.files.operations(), Fault::Full)));
        let (mut number, mut answered) = (0, Vec::new());
        while scene.disk.room() < Room::None {
            number += 1;
            scene.persist_long(number, 5_000);
            answered = scene.write();
            if let Some(job) = scene.disk.sync_job(scene.now) {
                let synced = job.run().expect("an intact disk");
                scene.disk.on_synced(synced, scene.now);
            }
            scene.now = scene.now.after(Duration::from_secs(2));
            scene.prepare();
        }
        assert_eq!(
            answered.contains(&number),
            is_noticed,
            "{mutation:?}: {answered:?} of {number}"
        );
        mutations::plant(None);
    }
}

#[test]
fn a_stronger_mode_is_reached_when_what_was_acknowledged_before_is_synced() {
    let reached = || {
        let mut scene = begun(DurabilityMode::Relaxed);
        scene.sync_soon();
        scene.persist(1, 1);
        assert_eq!(scene.write(), [1]);
        scene.disk.set_mode(DurabilityMode::Strict);
        let early = scene.disk.is_reached();
        scene.persist(1, 2);
        assert_eq!(scene.write(), [], "it is not synced");
        scene.sync();
        assert_eq!(scene.answered(), [2]);
        (early, scene.disk.is_reached())
    };
    assert_eq!(reached(), (false, true));
    mutations::plant(Some(Mutation::ReachedTooSoon));
    let noticed = reached();
    mutations::plant(None);
    assert_ne!(noticed, (false, true));
}

#[test]
fn a_weaker_mode_lets_go_of_what_waits_for_a_sync() {
    let mut scene = begun(DurabilityMode::Strict);
    scene.sync_soon();
    scene.persist(1, 1);
    assert_eq!(scene.write(), []);
    scene.disk.set_mode(DurabilityMode::Relaxed);
    assert_eq!(scene.answered(), [1]);
    assert!(scene.disk.is_reached());
}

#[test]
fn a_replica_in_use_is_answered_at_once_until_it_has_a_log_and_all_that_it_was_told_stands_there_then() {
    for mode in [DurabilityMode::Relaxed, DurabilityMode::Strict] {
        let mut scene = Scene::new(mode);
        scene.begin(1, LogBase::InUse);
        scene.persist(1, 1);
        scene.persist(1, 2);
        assert_eq!(scene.write(), [1, 2]);
        assert!(scene.disk.has_in_use() && !scene.disk.is_reached());
        let found = read_logs(&scene.files, CLUSTER, NODE, None).expect("the logs are intact");
        assert!(found.replicas.is_empty(), "it does not count yet");
        scene.store_snapshot(1, 1, 2);
        scene.write();
        scene.sync_soon();
        assert!(scene.disk.is_reached());
        scene.persist(1, 3);
        let is_written = !scene.write().is_empty();
        assert_eq!(is_written, mode == DurabilityMode::Relaxed);
        let found = scene.after_a_loss_of_power();
        let indexes = found.replicas[&group()].entries.iter();
        let indexes: Vec<u64> = indexes.map(|entry| entry.index.0).collect();
        assert_eq!(indexes, [3], "the snapshot has the others");
    }
}

/// The places that the log of a process that starts now has, if one counts.
fn places(scene: &Scene) -> Option<Vec<u64>> {
    let found = scene.found();
    assert_eq!((found.damage, found.damaged.len()), (Vec::new(), 0));
    let log = found.replicas.get(&group())?;
    assert_eq!(log.incarnation, ME);
    Some(log.entries.iter().map(|entry| entry.index.0).collect())
}

#[test]
fn a_log_in_use_takes_whatever_is_written_while_its_snapshot_is_stored() {
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::InUse);
    // More than is ever held in memory.
    let last = 60;
    for number in 1..=last {
        scene.persist_long(number, 1 << 20);
        assert_eq!(scene.write(), [number]);
        while scene.disk.room() == Room::Enough && !scene.disk.log().has_ready() {
            scene.prepare();
        }
        assert_eq!(scene.disk.stalled_in_use(scene.now), None, "{number} MiB");
    }
    assert_eq!(places(&scene), None, "it does not count yet");
    scene.store_snapshot(1, 1, last);
    scene.write();
    assert!(scene.disk.is_reached());
    assert_eq!(places(&scene), Some(vec![last + 1]));
}

#[test]
fn a_log_in_use_counts_when_all_that_was_told_stands_in_it() {
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::InUse);
    scene.write();
    // There is no room but for what is small.
    scene.persist_long(1, 40_000);
    scene.persist_long(2, 40_000);
    scene.persist_long(3, 40_000);
    assert_eq!(scene.write(), [1, 2, 3]);
    scene.store_snapshot(1, 1, 2);
    scene.write();
    assert!(!scene.disk.is_reached() && scene.disk.has_in_use());
    assert_eq!(places(&scene), None, "what was told is not there");
    for _ in 0..6 {
        scene.prepare();
        scene.write();
    }
    assert!(scene.disk.is_reached());
    assert_eq!(places(&scene), Some(vec![3, 4]));
}

#[test]
fn a_log_in_use_that_begins_anew_is_void_until_a_snapshot_of_what_it_begins_with() {
    let begun_at = |scene: &mut Scene, index| {
        let begin = LogBegin {
            incarnation: ME,
            generation: 0,
            start: SnapshotPoint {
                index: Index(index),
                ..first()
            },
            saved: Saved::default(),
            base: LogBase::InUse,
        };
        scene
            .disk
            .request(group(), 1, DiskRequest::Begin(Box::new(begin)));
    };
    let mut scene = Scene::new(DurabilityMode::Strict);
    begun_at(&mut scene, 1);
    scene.persist(1, 1);
    scene.write();
    begun_at(&mut scene, 8);
    scene.persist(1, 8);
    scene.write();
    // That of the log before.
    scene.store_snapshot(1, 1, 2);
    scene.write();
    assert_eq!((places(&scene), scene.disk.is_reached()), (None, false));
    scene.store_snapshot(1, 2, 8);
    scene.write();
    assert_eq!((places(&scene), scene.disk.is_reached()), (Some(vec![9]), true));
}

#[test]
fn a_log_in_use_under_its_own_name_would_count_too_soon() {
    mutations::plant(Some(Mutation::BaseNotAwaited));
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::InUse);
    scene.persist(1, 1);
    scene.write();
    let found = places(&scene);
    mutations::plant(None);
    assert_eq!(found, Some(vec![2]));
}

#[test]
fn a_log_in_use_begins_anew_where_the_disk_is_full() {
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::InUse);
    scene.files.plan(Some((scene.files.operations(), Fault::Full)));
    scene.prepare();
    for number in 1..=48 {
        assert_eq!(scene.disk.stalled_in_use(scene.now), None);
        scene.persist_long(number, 1 << 20);
        assert_eq!(scene.write(), [number], "nobody relies on the log");
        assert_eq!(scene.disk.room(), Room::Short);
    }
    assert_eq!(scene.disk.stalled_in_use(scene.now), Some(group()));
}

#[test]
fn strict_is_not_reached_before_what_a_log_begins_with_is_synced() {
    let mut scene = Scene::new(DurabilityMode::Strict);
    scene.begin(1, LogBase::InUse);
    scene.persist(1, 1);
    assert_eq!(scene.write(), [1]);
    // A sync is under way that has not seen what follows.
    let job = scene.disk.sync_job(scene.now).expect("it is due at once");
    scene.store_snapshot(1, 1, 1);
    scene.write();
    assert!(!scene.disk.has_in_use() && !scene.disk.is_reached());
    scene
        .disk
        .on_synced(job.run().expect("an intact disk"), scene.now);
    scene.sync_soon();
    assert!(scene.disk.is_reached());
    assert_eq!(scene.disk.take_begun(), [group()]);
}

#[test]
fn a_save_waits_for_a_log_in_use_that_begins_anew() {
    let mut scene = Scene::new(DurabilityMode::Relaxed);
    scene.begin(1, LogBase::InUse);
    scene.persist(1, 1);
    scene.write();
    scene.disk.save(7, [(group(), Index(2))]);
    scene.begin(2, LogBase::InUse);
    scene.write();
    assert_eq!(scene.disk.take_saved(), [], "there is no snapshot");
    scene.store_snapshot(2, 1, 2);
    assert_eq!(scene.disk.take_saved(), [(7, true)]);
}

/// The floor in the tables of a log that begins with one, before and behind a state that a leader sends, and when it is reached.
fn floors() -> [Option<(Term, Index)>; 3] {
    let mut scene = Scene::new(DurabilityMode::Strict);
    let floor = Some((Term(2), Index(12)));
    let begin = LogBegin {
        incarnation: ME,
        generation: 0,
        start: first(),
        saved: Saved {
            floor,
            ..Saved::default()
        },
        base: LogBase::Stored,
    };
    scene
        .disk
        .request(group(), 1, DiskRequest::Begin(Box::new(begin)));
    let found = |scene: &mut Scene| {
        scene.write();
        if let Some(job) = scene.disk.sync_job(scene.now) {
            let synced = job.run().expect("an intact disk");
            scene.disk.on_synced(synced, scene.now);
        }
        let found = read_logs(&scene.files, CLUSTER, NODE, None).expect("an intact disk");
        found.replicas[&group()].floor
    };
    let begun = found(&mut scene);
    let received = DiskRequest::Received {
        from: Incarnation(3),
        transfer: 1,
        number: 0,
        bytes: b"a state".to_vec(),
    };
    scene.disk.request(group(), 1, received);
    let mut installed = persist(9);
    installed.start = Some(Box::new(SnapshotPoint {
        index: Index(9),
        ..first()
    }));
    scene.disk.request(group(), 1, DiskRequest::Persist(installed));
    scene.write();
    scene.run_jobs();
    let installed = found(&mut scene);
    for number in 10..12 {
        scene.persist(1, number);
    }
    [begun, installed, found(&mut scene)]
}

#[test]
fn a_floor_is_in_the_log_of_each_start_until_the_log_reaches_it() {
    let floor = Some((Term(2), Index(12)));
    assert_eq!(floors(), [floor, floor, None]);
    mutations::plant(Some(Mutation::FloorNotWritten));
    let noticed = floors();
    mutations::plant(None);
    assert_eq!(noticed[0], None);
}

#[test]
fn what_is_long_is_written_in_parts_and_is_answered_when_all_of_it_is_written() {
    let takes = || {
        let mut scene = begun(DurabilityMode::Relaxed);
        scene.sync_soon();
        scene.prepare();
        scene.persist_long(1, 100_000);
        let (mut calls, mut early) = (0, Vec::new());
        loop {
            scene.disk.write(scene.now).expect("an intact disk");
            if !scene.disk.log().is_writing() {
                break (calls, early, scene.answered());
            }
            assert_eq!(
                scene.disk.promise(scene.now),
                0,
                "nothing is written behind it at once"
            );
            early.extend(scene.answered());
            calls += 1;
            // What comes meanwhile is for the next batch.
            scene.persist(1, 1 + calls);
        }
    };
    let (calls, early, then) = takes();
    assert!(calls > 5, "{calls}");
    assert_eq!((early, then), (vec![], vec![1]));
    mutations::plant(Some(Mutation::PartIsWhole));
    let (_, early, _) = takes();
    mutations::plant(None);
    assert_eq!(early, [1], "a part is not all of it");
}

#[test]
fn what_was_promised_is_written_at_once() {
    let mut scene = begun(DurabilityMode::Relaxed);
    scene.sync_soon();
    scene.prepare();
    let promised = scene.disk.promise(scene.now);
    let long = usize::try_from(promised).expect("a promise is short") - 400;
    scene.persist_long(1, long / 2);
    scene.persist_long(2, long / 2);
    scene.disk.write(scene.now).expect("an intact disk");
    assert_eq!(scene.answered(), [1, 2]);
}
