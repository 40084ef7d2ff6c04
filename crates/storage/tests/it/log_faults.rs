//! The log of a worker on a disk that fails: what was synced is there, or its loss has a name.

use crate::log_run::*;
use consensus::{Index, Term};
use ids::GroupId;
use mutations::Mutation;
use std::collections::BTreeMap;
use storage::{
    Damage, Disk, Fault, LogSettings, ReplicaLog, SimDisk, StorageError, WorkerLog, drop_segments,
};

const STEPS: u32 = 12;

/// Carries steps out until one fails.
fn run(disk: &SimDisk, seed: u64) -> Run {
    let mut run = Run::new(disk, seed);
    run.entry_bytes_max = 20_000;
    for _ in 0..STEPS {
        if run.step().is_err() {
            break;
        }
    }
    run
}

#[test]
fn what_was_synced_is_there_whenever_the_power_goes() {
    let mut shorter = 0;
    for seed in 0..4 {
        let disk = SimDisk::new(seed);
        run(&disk, seed);
        for at in 0..=disk.operations() {
            let disk = SimDisk::new(seed ^ (at << 8));
            disk.plan(Some((at, Fault::PowerCut)));
            let cut = run(&disk, seed);
            disk.restart();
            let found = read(&disk);
            cut.check(&found);
            shorter += u32::from(
                cut.history
                    .last()
                    .is_some_and(|(_, model)| *model != found.replicas),
            );
            // And when it goes again while another start begins.
            let mut again = Run::new(&disk, at);
            (again.model, again.start) = (found.replicas.clone(), found.start);
            let begun = disk.operations();
            disk.plan(Some((begun + at % 9, Fault::PowerCut)));
            if again.begin().is_ok() {
                disk.plan(None);
            }
            disk.restart();
            let kept = read(&disk);
            assert_eq!(kept.replicas, found.replicas, "seed {seed}, cut at {at}");
            assert_eq!(kept.damage, [], "seed {seed}, cut at {at}");
        }
    }
    assert!(shorter > 20, "the disk loses something");
}

#[test]
fn what_was_written_is_there_after_a_kill() {
    for seed in 0..10 {
        let disk = SimDisk::new(seed);
        let killed = run(&disk, seed);
        let found = read(&disk);
        assert_eq!(found.damage, []);
        assert_eq!(
            found.replicas,
            killed.history.last().expect("an intact disk").1,
            "seed {seed}"
        );
    }
}

#[test]
fn an_operation_that_fails_is_final() {
    for (seed, fault) in [Fault::SyncFails, Fault::Fails]
        .into_iter()
        .flat_map(|fault| (0..3).map(move |seed| (seed, fault)))
    {
        let disk = SimDisk::new(seed);
        run(&disk, seed);
        for at in 0..disk.operations() {
            let disk = SimDisk::new(seed ^ (at << 8));
            disk.plan(Some((at, fault)));
            let mut failed = run(&disk, seed);
            if let Some(log) = &mut failed.log
                && matches!(log.write(), Err(StorageError::Failed { .. }))
            {
                assert!(log.sync_job().is_none());
                assert!(log.prepare_job().is_none());
            }
            disk.restart();
            failed.check(&read(&disk));
        }
    }
}

#[test]
fn what_cannot_be_read_ends_the_start_and_is_no_damage() {
    let disk = SimDisk::new(1);
    run(&disk, 1);
    let whole = read(&disk);
    disk.plan(Some((0, Fault::ReadFails)));
    let error = storage::read_logs(&disk, CLUSTER, NODE, None).unwrap_err();
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
    assert_eq!(read(&disk).replicas, whole.replicas);
}

/// What has come of the groups of a log that a disk has lied about at one of its operations, when the power has gone: how many are as they
/// were, and of how many it is known that something is missing. Two batches that say that all was synced stand behind.
fn lied_to(seed: u64, at: u64, fault: Fault) -> (u32, u32) {
    let disk = SimDisk::new(seed ^ (at << 8));
    disk.plan(Some((at, fault)));
    let mut lied = run(&disk, seed);
    for _ in 0..3 {
        lied.write().expect("a disk that lies says nothing");
        lied.sync().expect("a disk that lies says nothing");
    }
    disk.restart();
    let found = read(&disk);
    let is_known = |group: &GroupId| found.damaged.contains_key(group) || found.unclear.is_some();
    let (mut whole, mut known) = (0, 0);
    for (group, expected) in &lied.model {
        let log = found.replicas.get(group);
        if log.is_some_and(|log| holds(log, expected)) {
            whole += 1;
            continue;
        }
        known += 1;
        assert!(
            is_known(group),
            "{fault:?} at {at}, seed {seed}: {group:?} is lost in silence: {log:?} of {expected:?}"
        );
        let place = |log: &ReplicaLog| match log.entries.last() {
            Some(last) => (last.term, last.index),
            None => (log.start.term, log.start.index),
        };
        if let Some(log) = log {
            let reached = log.floor.map_or(place(log), |floor| floor.max(place(log)));
            assert!(
                reached >= place(expected),
                "{fault:?} at {at}, seed {seed}: {group:?} is to reach {reached:?}, and was at {:?}",
                place(expected)
            );
        }
    }
    for group in found
        .replicas
        .keys()
        .filter(|group| !lied.model.contains_key(group))
    {
        assert!(
            is_known(group),
            "{fault:?} at {at}, seed {seed}: {group:?} has come back"
        );
    }
    (whole, known)
}

/// Whether nothing of a log is missing; it may begin earlier, where what says that a snapshot is there is lost.
fn holds(log: &ReplicaLog, expected: &ReplicaLog) -> bool {
    let behind = log
        .entries
        .iter()
        .filter(|entry| entry.index > expected.start.index);
    let is_one =
        (log.incarnation, log.generation, log.floor) == (expected.incarnation, expected.generation, None);
    is_one
        && log.start.index <= expected.start.index
        && (log.hard.term, log.hard.vote) == (expected.hard.term, expected.hard.vote)
        && behind.eq(&expected.entries)
}

#[test]
fn what_a_disk_has_lied_about_is_known_whichever_operation_it_was() {
    for fault in [Fault::Lost, Fault::Misdirected, Fault::Flipped] {
        let (mut whole, mut known) = (0, 0);
        for seed in 0..4 {
            let disk = SimDisk::new(seed);
            run(&disk, seed);
            for at in 0..disk.operations() {
                let of_one = lied_to(seed, at, fault);
                (whole, known) = (whole + of_one.0, known + of_one.1);
            }
        }
        assert!(
            whole > 100 && known > 20,
            "{fault:?}: {whole} whole, {known} known"
        );
    }
}

#[test]
fn damage_that_is_taken_for_the_end_of_a_log_is_noticed() {
    let (disk, history) = small_log();
    let whole = history.last().expect("an intact disk");
    let name = "log-00000-000000000001";
    let mut bytes = disk.content(name).expect("an intact disk");
    bytes[3 * 4096 + 30] ^= 4;
    disk.put(name, &bytes);
    mutations::plant(Some(Mutation::DamageIsEnd));
    let found = read(&disk);
    mutations::plant(None);
    assert!(found.damage.is_empty() && found.damaged.is_empty());
    assert_ne!(found.replicas, *whole, "and nobody knows");
}

/// Logs of two workers with as many frames, of which a block of one stands in the other.
#[test]
fn a_frame_of_another_log_is_not_read() {
    let disk = SimDisk::new(0);
    let mut logs = [replica(1, 1, 20), replica(2, 1, 20)];
    for (worker, one) in (0..).zip(&mut logs) {
        let mut log = WorkerLog::begin(
            disk.clone(),
            SMALL,
            identity(worker, 1),
            std::slice::from_ref(one),
        )
        .expect("an intact disk");
        for index in 12..15 {
            append(&mut log, one, vec![entry(1, index, 20)], hard(1, 11));
            log.write().expect("an intact disk");
            sync(&mut log).expect("an intact disk");
        }
    }
    let [from, to] = ["log-00000-000000000001", "log-00001-000000000001"];
    let block = disk.content(from).expect("an intact disk")[3 * 4096..4 * 4096].to_vec();
    let mut bytes = disk.content(to).expect("an intact disk");
    bytes[3 * 4096..4 * 4096].copy_from_slice(&block);
    disk.put(to, &bytes);
    let found = read(&disk);
    assert_eq!(found.replicas[&logs[0].group], logs[0]);
    assert!(found.damaged.contains_key(&logs[1].group));
    assert_eq!(found.replicas[&logs[1].group].floor, Some((Term(1), Index(14))));
}

#[test]
fn on_a_full_disk_no_part_of_a_batch_counts_and_the_log_can_be_used_on() {
    let disk = SimDisk::new(3);
    let mut one = replica(1, 0, 0);
    let mut log = begin(&disk, 1, &[one.clone()]);
    disk.plan(Some((disk.operations(), Fault::Full)));
    let mut is_full = false;
    for index in 11..40 {
        append(&mut log, &mut one, vec![entry(1, index, 5_000)], hard(1, 10));
        match log.write() {
            Ok(_) => {}
            Err(StorageError::Full { .. }) => {
                let found = read(&disk).replicas.remove(&one.group).expect("an intact disk");
                assert_eq!(last(&found), index - 1, "nothing of the batch is there");
                assert!(log.has_batch());
                let job = log.prepare_job().expect("an intact disk");
                let error = log.on_prepared(job.run()).unwrap_err();
                assert!(matches!(error, StorageError::Full { .. }), "{error}");
                disk.plan(None);
                disk.make_room();
                is_full = log.is_writing();
                log.write().expect("an intact disk");
            }
            Err(other) => panic!("{other}"),
        }
        if index % 4 == 0 {
            let job = log.sync_job().expect("an intact disk");
            log.on_synced(job.run().expect("an intact disk"));
        }
    }
    assert!(is_full, "a part of a batch was written");
    assert_eq!(read(&disk).replicas[&one.group], one);
}

#[test]
fn a_segment_that_is_being_made_is_waited_for() {
    let disk = SimDisk::new(3);
    let mut one = replica(1, 0, 0);
    let mut log = begin(&disk, 1, &[one.clone()]);
    let job = log.prepare_job().expect("an intact disk");
    assert!(log.prepare_job().is_none(), "one at a time");
    append(&mut log, &mut one, vec![entry(1, 11, 100_000)], hard(1, 10));
    assert!(matches!(log.write(), Err(StorageError::Full { .. })));
    log.on_prepared(job.run()).expect("an intact disk");
    log.write().expect("an intact disk");
    assert_eq!(read(&disk).replicas[&one.group], one);
}

/// A small log of three groups: one that is idle, one whose records are in every batch but the last two, and one in these.
fn small_log() -> (SimDisk, Vec<BTreeMap<GroupId, ReplicaLog>>) {
    let disk = SimDisk::new(0);
    let mut logs = [replica(1, 1, 20), replica(2, 1, 20), replica(3, 1, 20)];
    let settings = LogSettings {
        segment_bytes: 24 * 1024,
    };
    let mut log = WorkerLog::begin(disk.clone(), settings, identity(0, 1), &logs).expect("an intact disk");
    let map = |logs: &[ReplicaLog; 3]| logs.iter().map(|log| (log.group, log.clone())).collect();
    let mut history: Vec<BTreeMap<GroupId, ReplicaLog>> = vec![map(&logs)];
    for (index, which) in [(12, 1), (13, 1), (12, 2), (13, 2)] {
        append(
            &mut log,
            &mut logs[which],
            vec![entry(index, index, 20)],
            hard(index, 11),
        );
        log.write().expect("an intact disk");
        history.push(map(&logs));
        // The last batch is written and not synced.
        if (index, which) != (13, 2) {
            sync(&mut log).expect("an intact disk");
        }
    }
    (disk, history)
}

#[test]
fn a_flipped_bit_is_named_below_the_sync_and_cuts_the_log_above_it() {
    let (disk, history) = small_log();
    let whole = history.last().expect("an intact disk");
    let name = "log-00000-000000000001";
    let bytes = disk.content(name).expect("an intact disk");
    // Zeros between frames are looked at now and then.
    let is_used = |at: usize| {
        let around = at.saturating_sub(8)..(at + 8).min(bytes.len());
        at.is_multiple_of(128) || bytes[around].iter().any(|byte| *byte != 0)
    };
    let (mut named, mut shorter, mut unseen, mut partly) = (0, 0, 0, 0);
    for at in (0..bytes.len()).filter(|at| is_used(*at)) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        disk.put(name, &flipped);
        let found = read(&disk);
        match found.damage.as_slice() {
            [] if found.replicas == *whole => unseen += 1,
            [] => {
                // The first batch that is not known to be synced is the last one but one... which only the last one tells of.
                let before = &history[history.len() - 2];
                assert_eq!(found.replicas, *before, "at {at}");
                shorter += 1;
            }
            [Damage { file, offset, .. }] => {
                assert_eq!(file, name);
                assert_eq!(offset / 4096, at as u64 / 4096, "at {at}");
                named += 1;
                check_damaged(&found, whole, at);
                partly += u32::from(!found.replicas.is_empty());
            }
            more => panic!("one flip at {at} makes {more:?}"),
        }
    }
    assert!(
        named > 300 && shorter > 50 && unseen > 100,
        "{named} {shorter} {unseen}"
    );
    assert!(partly > 200, "{partly} of {named}");
}

/// The kernel is the one that took what was written, though the disk was never told to keep it.
#[test]
fn where_all_that_was_written_is_there_damage_above_the_sync_is_named() {
    let disk = SimDisk::new(0);
    let mut one = replica(1, 1, 20);
    let mut log = begin(&disk, 1, &[one.clone(), replica(2, 1, 20)]);
    for index in 12..16 {
        append(&mut log, &mut one, vec![entry(1, index, 20)], hard(1, 11));
        log.write().expect("an intact disk");
    }
    let whole = read(&disk).replicas;
    assert_eq!(whole[&one.group], one);
    let name = "log-00000-000000000001";
    let bytes = disk.content(name).expect("an intact disk");
    let mark = memchr_of(&bytes, &bytes[4096..4100]);
    let [_, second, .., last] = mark[..] else {
        panic!("{mark:?}")
    };
    for at in second..last {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        disk.put(name, &flipped);
        let (torn, written) = (read(&disk), read_written(&disk));
        assert_eq!(torn.damage, [], "at {at}: nothing says that it was synced");
        assert_eq!(torn.replicas[&one.group].floor, None);
        assert_eq!(written.damage.len(), 1, "at {at}");
        assert!(written.replicas[&one.group].floor.is_some(), "at {at}");
        check_damaged(&written, &whole, at);
    }
}

/// Where in the bytes others stand.
fn memchr_of(bytes: &[u8], what: &[u8]) -> Vec<usize> {
    (0..bytes.len() - what.len())
        .filter(|at| bytes[*at..].starts_with(what))
        .collect()
}

/// What was synced last has let a segment go, and nothing was written behind it that could say so.
#[test]
fn a_log_that_lost_its_beginning_behind_the_end_is_damaged_before() {
    use storage::Disk;
    for is_last in [false, true] {
        let disk = SimDisk::new(0);
        let (mut one, mut two) = (replica(1, 1, 20), replica(2, 1, 20));
        let mut log = begin(&disk, 1, &[one.clone(), two.clone()]);
        let is_there = |number: u64| {
            let name = format!("log-00000-{number:012}");
            disk.content(&name)
                .is_some_and(|bytes| bytes[4096..].iter().any(|byte| *byte != 0))
        };
        let mut index = 12;
        while !is_there(2) {
            append(&mut log, &mut one, vec![entry(1, index, 7_000)], hard(1, 11));
            append(&mut log, &mut two, vec![entry(1, index, 20)], hard(1, 11));
            log.write().expect("an intact disk");
            sync(&mut log).expect("an intact disk");
            index += 1;
        }
        snapshot(&mut log, &mut one, index - 2);
        log.write().expect("an intact disk");
        sync(&mut log).expect("an intact disk");
        let name = "log-00000-000000000002";
        let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).expect("it is used");
        let before = used(&disk.content(name).expect("an intact disk"));
        append(&mut log, &mut one, vec![entry(1, index, 20)], hard(1, 11));
        log.write().expect("an intact disk");
        let between = used(&disk.content(name).expect("an intact disk"));
        snapshot(&mut log, &mut two, index - 1);
        log.write().expect("an intact disk");
        sync(&mut log).expect("an intact disk");
        sync(&mut log).expect("an intact disk");
        let names = disk.names().expect("an intact disk");
        assert!(
            names.iter().all(|name| !name.ends_with("000000000001")),
            "{names:?}"
        );
        assert_eq!(read(&disk).replicas[&two.group], two);
        let mut bytes = disk.content(name).expect("an intact disk");
        let at = if is_last {
            used(&bytes)
        } else {
            between.max(before + 1)
        };
        bytes[at] ^= 1;
        disk.put(name, &bytes);
        for found in [read(&disk), read_written(&disk)] {
            assert!(!found.damage.is_empty());
            assert!(found.damaged.contains_key(&one.group), "{:?}", found.damaged);
            let is_two_damaged = found.damaged.contains_key(&two.group);
            assert_eq!(
                is_two_damaged, is_last,
                "it begins behind what is damaged otherwise"
            );
            let left = found.replicas.get(&one.group);
            match is_last {
                true => assert_eq!(left, None, "nothing tells how far it went"),
                false => assert_eq!(
                    left.expect("its beginning is there").floor,
                    Some((Term(1), Index(index)))
                ),
            }
        }
    }
}

#[test]
fn the_head_of_a_segment_that_was_made_ahead_says_nothing_of_the_next_start() {
    use storage::Disk;
    let disk = SimDisk::new(0);
    let (one, two) = (replica(1, 2, 10), replica(2, 2, 10));
    let mut log = begin(&disk, 1, &[one.clone(), two.clone()]);
    sync(&mut log).expect("an intact disk");
    let ahead = disk.names().expect("an intact disk").pop().expect("it was made");
    assert_eq!(ahead, "log-00000-000000000002");
    let mut next = begin(&disk, 2, std::slice::from_ref(&one));
    next.write().expect("an intact disk");
    let mut bytes = disk.content(&ahead).expect("an intact disk");
    bytes[20] ^= 1;
    disk.put(&ahead, &bytes);
    let found = read(&disk);
    assert_eq!(found.damage.len(), 1, "{:?}", found.damage);
    assert_eq!(found.unclear, None);
    assert_eq!(found.replicas[&one.group], one);
    assert_eq!(found.replicas[&two.group], two, "of the start before");
}

/// Each group is as it was, or void, or a part with what it must reach.
fn check_damaged(found: &storage::FoundLogs, whole: &BTreeMap<GroupId, ReplicaLog>, at: usize) {
    for (group, expected) in whole {
        let Some(log) = found.replicas.get(group) else {
            assert!(
                found.damaged.contains_key(group) || found.unclear.is_some(),
                "at {at}: {group:?} is lost in silence"
            );
            continue;
        };
        let count = log.entries.len();
        assert_eq!(log.entries[..], expected.entries[..count], "at {at}");
        assert_eq!(
            (log.incarnation, &log.start),
            (expected.incarnation, &expected.start)
        );
        assert_eq!(
            (log.hard.term, log.hard.vote),
            (expected.hard.term, expected.hard.vote),
            "at {at}"
        );
        match count == expected.entries.len() {
            true => assert_eq!(log.floor, None, "at {at}"),
            false => {
                assert!(found.damaged.contains_key(group), "at {at}");
                let last = expected.entries.last().expect("there are some");
                assert_eq!(log.floor, Some((last.term, last.index)), "at {at}");
            }
        }
    }
}

#[test]
fn damage_to_one_batch_concerns_the_groups_in_it_alone() {
    let (disk, history) = small_log();
    let name = "log-00000-000000000001";
    let mut bytes = disk.content(name).expect("an intact disk");
    // Head, first batch, and then one block a batch.
    bytes[3 * 4096 + 30] ^= 4;
    disk.put(name, &bytes);
    let found = read(&disk);
    let groups: Vec<u16> = found.damaged.keys().map(|group| group.number()).collect();
    assert_eq!(groups, [2]);
    let cut = &found.replicas[&GroupId::new(2)];
    assert_eq!((last(cut), cut.floor), (12, Some((Term(13), Index(13)))));
    assert_eq!(cut.hard.term, Term(13), "the table has it");
    for group in [1, 3].map(GroupId::new) {
        assert_eq!(
            found.replicas[&group],
            history.last().expect("an intact disk")[&group]
        );
    }
    // A whole log behind it makes good for it.
    let mut again = begin(&disk, 2, &found.replicas.values().cloned().collect::<Vec<_>>());
    let whole = &history.last().expect("an intact disk")[&GroupId::new(2)];
    assert_eq!(read(&disk).replicas[&GroupId::new(2)].floor, cut.floor);
    again.live(whole);
    again.write().expect("an intact disk");
    assert_eq!(read(&disk).replicas[&GroupId::new(2)], *whole);
}

#[test]
fn what_stands_behind_damage_and_cannot_be_used_is_counted() {
    let (disk, _) = small_log();
    let name = "log-00000-000000000001";
    let mut bytes = disk.content(name).expect("an intact disk");
    bytes[2 * 4096 + 30] ^= 4;
    disk.put(name, &bytes);
    let found = read(&disk);
    let cut = &found.replicas[&GroupId::new(2)];
    assert_eq!((last(cut), cut.floor), (11, Some((Term(13), Index(13)))));
    let unused = storage::Unused {
        entries: 1,
        bytes: 20,
    };
    assert_eq!(
        found.unused.into_iter().collect::<Vec<_>>(),
        [(GroupId::new(2), unused)]
    );
}

#[test]
fn damage_to_more_makes_groups_void_of_which_nothing_later_tells() {
    let (disk, history) = small_log();
    let name = "log-00000-000000000001";
    let mut bytes = disk.content(name).expect("an intact disk");
    for block in [2, 3] {
        bytes[block * 4096 + 30] ^= 4;
    }
    disk.put(name, &bytes);
    let found = read(&disk);
    let groups: Vec<u16> = found.damaged.keys().map(|group| group.number()).collect();
    assert_eq!(
        groups,
        [1, 2, 3],
        "the idle one may have been there, and so may the third"
    );
    assert!(!found.replicas.contains_key(&GroupId::new(1)));
    for group in [2, 3].map(GroupId::new) {
        let (cut, whole) = (
            &found.replicas[&group],
            &history.last().expect("an intact disk")[&group],
        );
        assert_eq!((last(cut), cut.floor), (11, Some((Term(13), Index(13)))));
        assert_eq!(cut.hard.vote, whole.hard.vote);
    }
}

#[test]
fn a_file_that_was_cut_is_damaged_at_its_end() {
    let name = "log-00000-000000000001";
    let cut_after = |blocks: usize| {
        let (disk, history) = small_log();
        let bytes = disk.content(name).expect("an intact disk");
        disk.put(name, &bytes[..blocks * 4096]);
        (read(&disk), history)
    };
    mutations::plant(Some(Mutation::CutIsEnd));
    let (found, history) = cut_after(3);
    let whole = history.last().expect("an intact disk");
    assert!(found.damage.is_empty() && found.damaged.is_empty());
    let group = GroupId::new(2);
    assert!(
        last(&found.replicas[&group]) < last(&whole[&group]),
        "and nobody knows"
    );
    mutations::plant(None);
    for blocks in 2..6 {
        let (found, _) = cut_after(blocks);
        assert!(!found.damage.is_empty(), "{blocks} blocks are left");
        for group in [1, 2, 3].map(GroupId::new) {
            // What is left may lack anything, and nothing says how much.
            assert!(found.damaged.contains_key(&group), "{blocks} blocks are left");
            assert!(!found.replicas.contains_key(&group), "{blocks} blocks are left");
        }
    }
}

/// A log of one group over several segments, all synced but for the last batch.
fn long_log() -> (SimDisk, ReplicaLog) {
    let disk = SimDisk::new(0);
    let mut one = replica(1, 1, 20);
    let mut log = begin(&disk, 1, &[one.clone(), replica(2, 1, 20)]);
    for index in 12..60 {
        append(&mut log, &mut one, vec![entry(1, index, 7_000)], hard(1, 11));
        log.write().expect("an intact disk");
        sync(&mut log).expect("an intact disk");
    }
    (disk, one)
}

#[test]
fn a_segment_that_is_missing_or_has_no_head_is_damage() {
    use storage::Disk;
    for number in 1..6 {
        for is_removed in [true, false] {
            let (disk, one) = long_log();
            let name = format!("log-00000-{number:012}");
            if is_removed {
                disk.remove(&name).expect("an intact disk");
            } else {
                let mut bytes = disk.content(&name).expect("an intact disk");
                bytes[20] ^= 1;
                disk.put(&name, &bytes);
            }
            let found = read(&disk);
            assert!(!found.damage.is_empty(), "segment {number}");
            // The first one's absence is that of the logs' beginning.
            let file = &found.damage[0].file;
            assert!(
                *file == name || (is_removed && number == 1),
                "{file} for {number}"
            );
            assert!(found.damaged.contains_key(&one.group), "segment {number}");
            match found.replicas.get(&one.group) {
                Some(log) => assert_eq!(log.floor, Some((Term(1), Index(59))), "segment {number}"),
                None => assert_eq!(number, 1),
            }
        }
    }
}

#[test]
fn remnants_of_an_earlier_use_neither_pass_nor_look_damaged() {
    let disk = SimDisk::new(5);
    let mut one = replica(1, 1, 20);
    let mut log = begin(&disk, 1, &[one.clone()]);
    for index in 12..300 {
        append(&mut log, &mut one, vec![entry(1, index, 3_000)], hard(1, 11));
        log.write().expect("an intact disk");
        if index % 8 == 0 {
            snapshot(&mut log, &mut one, index);
            log.write().expect("an intact disk");
        }
        sync(&mut log).expect("an intact disk");
        sync(&mut log).expect("an intact disk");
        let found = read(&disk);
        assert_eq!(found.damage, []);
        assert_eq!(found.replicas[&one.group], one);
    }
    use storage::Disk;
    let spare = disk
        .names()
        .expect("an intact disk")
        .iter()
        .any(|name| name.ends_with(".spare"));
    let remains = disk
        .content(
            disk.names()
                .expect("an intact disk")
                .last()
                .expect("an intact disk"),
        )
        .expect("an intact disk");
    assert!(
        spare || remains[4096..].iter().any(|byte| *byte != 0),
        "there is a remnant"
    );
}

/// The write of a head to a file that is used again did not come to the disk: the head of the use before stands there, intact.
#[test]
fn a_head_of_an_earlier_use_is_damage() {
    let disk = SimDisk::new(5);
    let mut one = replica(1, 1, 20);
    let mut log = begin(&disk, 1, &[one.clone()]);
    let first = disk.content("log-00000-000000000001").expect("it has begun");
    for index in 12..88 {
        append(&mut log, &mut one, vec![entry(1, index, 3_000)], hard(1, 11));
        log.write().expect("an intact disk");
        if index % 30 == 0 {
            snapshot(&mut log, &mut one, index);
            log.write().expect("an intact disk");
        }
        sync(&mut log).expect("an intact disk");
        sync(&mut log).expect("an intact disk");
    }
    assert_eq!(read(&disk).replicas[&one.group], one);
    let names = disk.names().expect("an intact disk");
    let segments: Vec<&String> = names.iter().filter(|name| !name.ends_with(".spare")).collect();
    assert!(segments.len() > 2, "{names:?}");
    let mut lost = 0;
    for name in segments {
        let whole = disk.content(name).expect("an intact disk");
        let mut bytes = whole.clone();
        bytes[..4096].copy_from_slice(&first[..4096]);
        disk.put(name, &bytes);
        let found = read(&disk);
        assert!(!found.damage.is_empty(), "{name}");
        if found.replicas.get(&one.group).is_none_or(|log| !holds(log, &one)) {
            assert!(found.damaged.contains_key(&one.group), "{name}");
            lost += 1;
        }
        disk.put(name, &whole);
    }
    assert!(lost > 0, "nothing was lost");
}

#[test]
fn what_a_damaged_later_log_may_have_had_is_not_taken_from_an_earlier_one() {
    let disk = SimDisk::new(0);
    let (one, two) = (replica(1, 2, 10), replica(2, 2, 10));
    begin(&disk, 1, &[one.clone(), two.clone()]);
    let mut log = begin(&disk, 2, &[one.clone(), two.clone()]);
    log.write().expect("an intact disk");
    let name = "log-00000-000000000002";
    let mut bytes = disk.content(name).expect("an intact disk");
    bytes[4096 + 40] ^= 1;
    disk.put(name, &bytes);
    let found = read(&disk);
    assert_eq!(found.damage.len(), 1);
    for group in [one.group, two.group] {
        let log = found.replicas.get(&group);
        assert!(
            log.is_none() && found.damaged.contains_key(&group),
            "{group:?}: {log:?}"
        );
    }
}

#[test]
fn what_stands_behind_the_end_does_not_count_once_what_is_missing_goes_too() {
    let disk = SimDisk::new(0);
    let (mut one, four) = (replica(1, 0, 0), replica(4, 1, 20));
    let mut log = begin(&disk, 1, std::slice::from_ref(&one));
    let first = "log-00000-000000000001";
    let before = disk.content(first).expect("an intact disk");
    for index in 11.. {
        append(&mut log, &mut one, vec![entry(1, index, 5_000)], hard(1, 10));
        log.write().expect("an intact disk");
        if disk.names().expect("an intact disk").len() > 1 {
            break;
        }
    }
    log.live(&four);
    log.write().expect("an intact disk");
    // The power goes: of what was not synced the second segment is kept, and nothing of the first.
    disk.put(first, &before);
    let found = read(&disk);
    assert_eq!(found.replicas.keys().collect::<Vec<_>>(), [&one.group]);
    assert_eq!(found.damage, []);
    let replicas: Vec<ReplicaLog> = found.replicas.values().cloned().collect();
    begin(&disk, 2, &replicas);
    for count in 0..=found.segments.len() {
        drop_segments(&disk, &found.segments[..count]).expect("an intact disk");
        let again = read(&disk);
        assert_eq!(
            again.replicas,
            found.replicas,
            "without {:?}",
            &found.segments[..count]
        );
        assert_eq!(again.damage, []);
    }
}
