//! The log of a worker: what is written is read, by whole batches, and segments go when nobody needs them.

use crate::log_run::*;
use consensus::{Index, Term};
use ids::{GroupId, NodeId, Prng};
use storage::{
    DirectoryDisk, Disk, ReplicaLog, SimDisk, StorageError, SyncJob, WorkerLog, read_logs, rewrite_batch,
};

fn names(disk: &SimDisk) -> Vec<String> {
    disk.names().expect("an intact disk")
}

#[test]
fn what_was_written_is_found_by_the_next_start() {
    let disk = SimDisk::new(0);
    assert_eq!(read(&disk).start, 0);
    let (mut one, two) = (replica(1, 3, 100), replica(2, 0, 0));
    let mut log = begin(&disk, 1, &[one.clone(), two.clone()]);
    append(
        &mut log,
        &mut one,
        vec![entry(2, 13, 50), entry(2, 14, 0)],
        hard(2, 12),
    );
    assert!(log.has_batch());
    let number = log.write().unwrap();
    assert!(!log.has_batch());
    assert_eq!((number, log.written(), log.synced()), (2, 2, 1));
    assert!(log.unsynced_bytes() > 0);
    let found = read(&disk);
    assert_eq!(found.replicas, [(one.group, one), (two.group, two)].into());
    assert_eq!((found.start, found.synced_to_end), (1, false));
    sync(&mut log).unwrap();
    assert_eq!((log.synced(), log.unsynced_bytes()), (2, 0));
    log.write().unwrap();
    assert!(read(&disk).synced_to_end, "an empty batch says so");
}

#[test]
fn a_random_log_is_as_its_model() {
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let mut run = Run::new(&disk, seed);
        for _ in 0..80 {
            run.step().unwrap();
        }
        run.flush().unwrap();
        run.synced = u64::MAX - 1;
        run.check(&read(&disk));
    }
}

#[test]
fn the_first_segment_has_no_more_room_than_it_has_bytes() {
    let disk = SimDisk::new(0);
    let settings = storage::LogSettings {
        segment_bytes: 64 << 20,
    };
    let log = WorkerLog::begin(disk, settings, identity(0, 1), &[]).unwrap();
    assert!(!log.has_ready() && log.has_room(5 << 20));
    // Some is left for what lets go of other segments.
    assert!(!log.has_room(7 << 20));
}

#[test]
fn a_batch_goes_on_in_as_many_segments_as_it_needs() {
    let disk = SimDisk::new(0);
    let mut one = replica(1, 1, 10);
    let mut log = begin(&disk, 1, std::slice::from_ref(&one));
    for (index, bytes) in [
        (12, 3_000_000),
        (13, 10),
        (14, 70_000),
        (15, 60_000),
        (16, 5_000_000),
    ] {
        append(&mut log, &mut one, vec![entry(1, index, bytes)], hard(1, 11));
        log.write().unwrap();
        assert_eq!(read(&disk).replicas[&one.group], one, "up to {index}");
        if index == 14 {
            sync(&mut log).unwrap();
        }
    }
    assert!(names(&disk).len() > 120);
    assert_eq!(log.pinning(2), Some(one.group));
    snapshot(&mut log, &mut one, 16);
    log.write().unwrap();
    sync(&mut log).unwrap();
    sync(&mut log).unwrap();
    assert_eq!(log.pinning(2), None);
    assert!(log.bytes() <= 2 * SMALL.segment_bytes, "{}", log.bytes());
    // What begins in a segment that is gone is skipped.
    assert_eq!(read(&disk).replicas[&one.group], one);
    assert_eq!(read(&disk).damage, []);
}

#[test]
fn frames_of_4_mib_are_not_the_end_of_a_batch() {
    let disk = SimDisk::new(0);
    let settings = storage::LogSettings {
        segment_bytes: 64 * 1024 * 1024,
    };
    let mut one = replica(1, 0, 0);
    let mut log = WorkerLog::begin(disk.clone(), settings, identity(0, 1), std::slice::from_ref(&one))
        .expect("an intact disk");
    append(&mut log, &mut one, vec![entry(1, 11, 40_000_000)], hard(1, 10));
    assert_eq!(log.write().expect("an intact disk"), 11, "ten frames");
    assert_eq!(read(&disk).replicas[&one.group], one);
}

#[test]
fn what_comes_while_a_batch_is_written_in_parts_stands_in_the_next_one() {
    let disk = SimDisk::new(0);
    let (mut long, mut short) = (replica(1, 1, 10), replica(2, 1, 10));
    let mut log = begin(&disk, 1, &[long.clone(), short.clone()]);
    sync(&mut log).expect("an intact disk");
    let before = [(long.group, long.clone()), (short.group, short.clone())];
    append(&mut log, &mut long, vec![entry(1, 12, 70_000)], hard(1, 11));
    let last_frame = log.close().expect("an intact disk");
    log.write_part().expect("an intact disk");
    // Its snapshot lets go of the first segment, once it is in the log.
    snapshot(&mut log, &mut short, 11);
    append(&mut log, &mut short, vec![entry(1, 12, 10)], hard(1, 11));
    let (mut parts, mut syncs) = (1, 0);
    while log.is_writing() {
        assert_eq!(
            read(&disk).replicas,
            before.clone().into(),
            "a batch counts whole"
        );
        assert!(log.has_batch());
        // Only where the next part lies in another segment.
        if let Some(job) = log.sync_job() {
            log.on_synced(job.run().expect("an intact disk"));
            syncs += 1;
        }
        log.write_part().expect("an intact disk");
        parts += 1;
    }
    assert!(parts > 4 && (1..parts).contains(&syncs), "{syncs} of {parts}");
    assert_eq!(log.written(), last_frame);
    sync(&mut log).expect("an intact disk");
    sync(&mut log).expect("an intact disk");
    let [_, (group, unchanged)] = before;
    assert_eq!(
        read(&disk).replicas,
        [(long.group, long.clone()), (group, unchanged)].into()
    );
    assert!(log.has_batch(), "the next one is not written");
    log.write().expect("an intact disk");
    assert!(!log.has_batch());
    assert_eq!(
        read(&disk).replicas,
        [(long.group, long), (short.group, short)].into()
    );
}

#[test]
fn segments_go_when_all_groups_have_snapshots_beyond_them_and_are_used_again() {
    let disk = SimDisk::new(0);
    let (mut busy, idle) = (replica(1, 0, 0), replica(2, 5, 100));
    let mut log = begin(&disk, 1, &[busy.clone(), idle.clone()]);
    let (mut largest, mut rewritten) = (0, 0);
    for index in 11..200 {
        append(
            &mut log,
            &mut busy,
            vec![entry(1, index, 5_000)],
            hard(1, index - 1),
        );
        log.write().unwrap();
        if index % 10 == 0 {
            snapshot(&mut log, &mut busy, index - 2);
            log.write().unwrap();
            let bytes = log.bytes_of(busy.group);
            assert!((8_000..20_000).contains(&bytes), "{bytes} bytes for two entries");
        }
        sync(&mut log).unwrap();
        match log.pinning(2) {
            Some(group) => {
                if group == busy.group {
                    snapshot(&mut log, &mut busy, index - 1);
                    log.write().unwrap();
                    continue;
                }
                assert_eq!(group, idle.group);
                rewritten += 1;
                let first = &names(&disk)[0];
                log.live(&idle);
                assert_eq!(log.pinning(2), None, "it is in the open batch");
                log.write().unwrap();
                assert_eq!(&names(&disk)[0], first, "it is not synced yet");
            }
            None => largest = largest.max(log.bytes()),
        }
        let found = read(&disk);
        assert_eq!(found.replicas[&busy.group], busy, "at {index}");
        assert_eq!(found.replicas[&idle.group], idle, "at {index}");
        assert_eq!(found.damage, []);
    }
    assert!(rewritten > 5, "{rewritten}");
    assert!(largest <= 4 * SMALL.segment_bytes, "{largest}");
    let names = names(&disk);
    assert!(names.len() <= 6, "{names:?}");
    assert!(!names[0].ends_with("-000000000001"), "{names:?}");
    // Files were used again: fewer were made than there were segments.
    let highest = names
        .iter()
        .filter_map(|name| name.get(10..22)?.parse::<u64>().ok())
        .max();
    let inodes = names
        .iter()
        .map(|name| disk.stamp(name).unwrap().unwrap().inode)
        .max();
    assert!(inodes.unwrap() + 5 < highest.unwrap(), "{names:?}");
}

#[test]
fn an_ended_group_pins_nothing_and_does_not_come_back() {
    let disk = SimDisk::new(0);
    let (mut one, two) = (replica(1, 2, 10), replica(2, 2, 10));
    let mut log = begin(&disk, 1, &[one.clone(), two.clone()]);
    for index in 13..60 {
        append(&mut log, &mut one, vec![entry(1, index, 5_000)], hard(1, 10));
        log.write().unwrap();
    }
    log.end(two.group);
    snapshot(&mut log, &mut one, 59);
    log.write().unwrap();
    sync(&mut log).unwrap();
    sync(&mut log).unwrap();
    assert_eq!(log.pinning(2), None);
    assert_eq!(read(&disk).replicas.keys().collect::<Vec<_>>(), [&one.group]);
    // A start that was cut off before the old log went leaves both.
    let _later = begin(&disk, 2, &[one.clone(), two.clone()]);
    assert_eq!(read(&disk).replicas.len(), 2);
    let mut last = begin(&disk, 3, std::slice::from_ref(&two));
    last.end(two.group);
    last.write().unwrap();
    assert_eq!(read(&disk).replicas.keys().collect::<Vec<_>>(), [&one.group]);
}

#[test]
fn the_log_of_the_latest_start_counts_and_workers_have_their_own() {
    let disk = SimDisk::new(0);
    let (one, two) = (replica(1, 2, 10), replica(2, 2, 10));
    let begin_at = |worker, start, live: &[ReplicaLog]| {
        WorkerLog::begin(disk.clone(), SMALL, identity(worker, start), live).unwrap()
    };
    begin_at(0, 1, std::slice::from_ref(&one));
    begin_at(1, 1, std::slice::from_ref(&two));
    let former = read(&disk);
    assert_eq!(former.replicas.len(), 2);
    // The groups change places; only one worker has got so far.
    let mut later = one.clone();
    later.entries.truncate(1);
    begin_at(1, 2, &[later.clone()]);
    let found = read(&disk);
    assert_eq!(found.replicas, [(one.group, later), (two.group, two)].into());
    assert_eq!(found.start, 2);
    former.drop_former(&disk).unwrap();
    assert_eq!(read(&disk).replicas.keys().collect::<Vec<_>>(), [&one.group]);
    assert_eq!(names(&disk).len(), 1);
}

#[test]
fn a_group_that_moves_to_another_worker_is_where_it_went() {
    let disk = SimDisk::new(0);
    let one = replica(1, 2, 10);
    for (from, to) in [(0, 1), (1, 0)] {
        let disk = SimDisk::new(0);
        let open = |worker, live: &[ReplicaLog]| {
            WorkerLog::begin(disk.clone(), SMALL, identity(worker, 1), live).unwrap()
        };
        let (mut first, mut second) = (open(from, std::slice::from_ref(&one)), open(to, &[]));
        second.live(&one);
        second.write().unwrap();
        first.end(one.group);
        first.write().unwrap();
        assert_eq!(read(&disk).replicas[&one.group], one);
    }
    drop(disk);
}

#[test]
fn a_floor_stays_until_what_reaches_it_is_synced() {
    let disk = SimDisk::new(0);
    let mut one = replica(1, 2, 10);
    one.floor = Some((Term(2), Index(14)));
    let mut log = begin(&disk, 1, std::slice::from_ref(&one));
    assert_eq!(read(&disk).replicas[&one.group], one);
    append(&mut log, &mut one, vec![entry(1, 13, 10)], hard(2, 10));
    log.write().unwrap();
    assert_eq!(read(&disk).replicas[&one.group].floor, one.floor);
    append(&mut log, &mut one, vec![entry(2, 14, 10)], hard(2, 10));
    log.write().unwrap();
    assert_eq!(read(&disk).replicas[&one.group].floor, None, "it is reached");
    let unsynced = disk.operations();
    disk.plan(Some((unsynced, storage::Fault::PowerCut)));
    assert!(sync(&mut log).is_err());
    disk.restart();
    let found = read(&disk).replicas.remove(&one.group).unwrap();
    assert!(found.floor.is_some() || found.entries == one.entries);
    // It lives on in later starts.
    let mut log = begin(&disk, 2, std::slice::from_ref(&found));
    append(&mut log, &mut found.clone(), vec![], hard(3, 10));
    log.write().unwrap();
    assert_eq!(read(&disk).replicas[&one.group].floor, found.floor);
}

#[test]
fn the_log_of_another_node_or_a_later_version_is_refused_and_left() {
    let disk = SimDisk::new(0);
    begin(&disk, 1, &[replica(1, 1, 1)]);
    let error = read_logs(&disk, CLUSTER, NodeId(4), None).unwrap_err();
    assert!(matches!(&error, StorageError::Damaged(_)), "{error}");
    let name = names(&disk).remove(0);
    let mut bytes = disk.content(&name).unwrap();
    bytes[..8].copy_from_slice(b"ChorLG03");
    bytes[60] ^= 1;
    disk.put(&name, &bytes);
    let error = read_logs(&disk, CLUSTER, NODE, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "log-00000-000000000001 has version 3 of its format, which this version of Chorale cannot read"
    );
    assert_eq!(disk.content(&name).unwrap(), bytes);
}

#[test]
fn work_goes_to_other_threads() {
    fn is_sent<T: Send>() {}
    is_sent::<SyncJob<<DirectoryDisk as Disk>::File>>();
    is_sent::<storage::PrepareJob<DirectoryDisk>>();
    is_sent::<storage::Prepared<<DirectoryDisk as Disk>::File>>();
    is_sent::<WorkerLog<DirectoryDisk>>();
}

#[test]
fn what_is_written_while_a_sync_is_under_way_waits_for_the_next() {
    let disk = SimDisk::new(0);
    let mut one = replica(1, 0, 0);
    let mut log = begin(&disk, 1, std::slice::from_ref(&one));
    append(&mut log, &mut one, vec![entry(1, 11, 100)], hard(1, 10));
    log.write().unwrap();
    let job = log.sync_job().unwrap();
    let block = |disk: &SimDisk| disk.content("log-00000-000000000001").unwrap();
    let before = block(&disk);
    append(&mut log, &mut one, vec![entry(1, 12, 100)], hard(1, 10));
    log.write().unwrap();
    let after = block(&disk);
    let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    // Head, first batch, second batch, and a fresh block.
    assert_eq!(changed[0], 3 * 4096);
    assert!(log.sync_job().is_none(), "one at a time");
    log.on_synced(job.run().unwrap());
    assert_eq!((log.synced(), log.written()), (2, 3));
    assert!(log.sync_job().is_some());
}

#[test]
#[should_panic(expected = "do not follow a log")]
fn entries_leave_no_gap() {
    let mut log = begin(&SimDisk::new(0), 1, &[replica(1, 1, 1)]);
    log.append(GroupId::new(1), &[entry(1, 13, 1)], hard(1, 10));
}

#[test]
fn any_bytes_are_a_batch_or_none() {
    let mut prng = Prng::new(7);
    for _ in 0..20_000 {
        let length = prng.below(80);
        let mut bytes: Vec<u8> = (0..length).map(|_| prng.below(6) as u8).collect();
        bytes.splice(0..0, [prng.below(2) as u8, 0, 0, 0]);
        if let Ok(again) = rewrite_batch(&bytes) {
            assert_eq!(again, bytes);
        }
    }
}

#[test]
fn a_segment_stays_until_the_record_that_frees_it_is_synced() {
    let disk = SimDisk::new(0);
    let mut one = replica(1, 0, 0);
    let mut log = begin(&disk, 1, std::slice::from_ref(&one));
    append(&mut log, &mut one, vec![entry(1, 11, 200_000)], hard(1, 10));
    log.write().unwrap();
    let job = log.sync_job().unwrap();
    snapshot(&mut log, &mut one, 11);
    log.write().unwrap();
    let bytes = log.bytes();
    // The sync had begun before the record was there.
    log.on_synced(job.run().unwrap());
    let job = log.prepare_job().unwrap();
    log.on_prepared(job.run()).unwrap();
    assert_eq!(log.bytes(), bytes);
    sync(&mut log).unwrap();
    assert!(log.bytes() < bytes);
    assert_eq!(read(&disk).replicas[&one.group], one);
}
