//! The hand-over file: used at most once, whole or not at all.

use bytes::Bytes;
use consensus::{HardState, Index, LogEntry, Members, Payload, SnapshotPoint, Term};
use ids::{GroupId, Incarnation, NodeId, Token};
use mutations::Mutation;
use proptest::prelude::*;
use std::collections::BTreeMap;
use storage::{
    Disk, DiskFile, Fault, Handover, HandoverWriter, Item, ReplicaPosition, SimDisk, StorageError, Taken,
};

const NODE: NodeId = NodeId(3);

/// What a replica leaves: the end of its log, and its state in blocks.
type Left = (Vec<LogEntry>, Vec<Vec<u8>>);

fn positions() -> Vec<ReplicaPosition> {
    (0..4)
        .map(|number| ReplicaPosition {
            group: GroupId::new(number * 3),
            incarnation: Incarnation(10 + u64::from(number)),
            hard: HardState {
                term: Term(5),
                vote: (number % 2 == 0).then_some(Incarnation(11)),
                commit: Index(100),
            },
            applied: SnapshotPoint {
                index: Index(99),
                term: Term(4),
                members: Members {
                    voters: vec![Incarnation(10), Incarnation(11)],
                    ..Members::default()
                },
            },
        })
        .collect()
}

fn left(position: &ReplicaPosition) -> Left {
    let number = position.group.number();
    let log = (0..u64::from(number % 2) * 2).map(|above| LogEntry {
        term: Term(5),
        index: Index(100 + above),
        payload: Payload::Data(Bytes::from_static(b"SET")),
    });
    let blocks = (0..number).map(|length| vec![number as u8; usize::from(length) * 300]);
    (log.collect(), blocks.collect())
}

fn write(disk: &SimDisk) -> Result<(), StorageError> {
    let positions = positions();
    let mut writer = HandoverWriter::begin(disk.clone(), NODE, &[Token(8)], &positions)?;
    for position in &positions {
        let (log, blocks) = left(position);
        writer.group(position.group, &log)?;
        blocks.iter().try_for_each(|block| writer.block(block))?;
        writer.end_group()?;
    }
    writer.finish()
}

/// Reads until the end or the first error: what is whole, and what is missing.
fn read<F: DiskFile>(mut handover: Handover<F>) -> (BTreeMap<GroupId, Left>, Vec<ReplicaPosition>) {
    let mut whole = BTreeMap::new();
    let mut open: Left = Default::default();
    loop {
        match handover.next_item() {
            Ok(Item::Group(_)) => open = Default::default(),
            Ok(Item::Entry(entry)) => open.0.push(entry),
            Ok(Item::Block(block)) => open.1.push(block.to_vec()),
            Ok(Item::Whole(position)) => drop(whole.insert(position.group, std::mem::take(&mut open))),
            Ok(Item::End) => break,
            Err(_) => {
                assert!(handover.next_item().is_err(), "an error stays");
                break;
            }
        }
    }
    (whole, handover.missing().to_vec())
}

fn everything() -> BTreeMap<GroupId, Left> {
    let positions = positions();
    positions.iter().map(|one| (one.group, left(one))).collect()
}

#[test]
fn what_was_left_is_found_once() {
    let disk = SimDisk::new(0);
    write(&disk).unwrap();
    let Taken::Found(handover) = Handover::take(&disk, NODE).unwrap() else {
        panic!("nothing was found");
    };
    assert_eq!(handover.left_by(), [Token(8)]);
    assert_eq!(handover.positions(), positions());
    assert_eq!(read(handover), (everything(), vec![]));
    assert!(matches!(Handover::take(&disk, NODE).unwrap(), Taken::Nothing));
}

#[test]
fn of_too_many_starts_the_first_and_the_last_are_named() {
    let disk = SimDisk::new(0);
    let starts = |numbers: std::ops::Range<u128>| numbers.map(Token);
    let left_by: Vec<Token> = starts(0..100).collect();
    let writer = HandoverWriter::begin(disk.clone(), NODE, &left_by, &[]).unwrap();
    writer.finish().unwrap();
    let Taken::Found(handover) = Handover::take(&disk, NODE).unwrap() else {
        panic!("nothing was found");
    };
    let named: Vec<Token> = starts(0..1).chain(starts(37..100)).collect();
    assert_eq!(handover.left_by(), named);
}

/// Stops once and starts a few times, with the power going at operation `at`. How often the state was used.
fn uses(seed: u64, at: u64) -> u32 {
    let disk = SimDisk::new(seed);
    disk.plan(Some((at, Fault::PowerCut)));
    // The process ends either way.
    drop(write(&disk));
    let mut uses = 0;
    for start in 0..4 {
        match Handover::take(&disk, NODE) {
            Ok(Taken::Found(handover)) => {
                let (whole, missing) = read(handover);
                if missing.is_empty() {
                    assert_eq!(whole, everything());
                }
                uses += u32::from(!whole.is_empty());
            }
            Ok(Taken::Nothing) => {}
            Ok(Taken::Unusable(damage)) => panic!("seed {seed}, cut at {at}, start {start}: {damage}"),
            Err(_) => {}
        }
        disk.restart();
    }
    uses
}

#[test]
fn it_is_used_at_most_once_whenever_the_power_goes() {
    let disk = SimDisk::new(0);
    write(&disk).unwrap();
    drop(Handover::take(&disk, NODE).unwrap());
    for at in 0..=disk.operations() {
        for seed in 0..50 {
            assert!(uses(seed, at) <= 1, "seed {seed}, cut at {at}");
        }
    }
}

#[test]
fn a_planted_second_use_is_noticed() {
    mutations::plant(Some(Mutation::HandoverUsedTwice));
    let is_noticed = (0..50).any(|seed| uses(seed, u64::MAX) > 1);
    mutations::plant(None);
    assert!(is_noticed);
}

#[test]
fn a_file_that_cannot_be_removed_ends_the_start() {
    for fault in [Fault::SyncFails, Fault::PowerCut, Fault::Fails] {
        let disk = SimDisk::new(1);
        write(&disk).unwrap();
        disk.plan(Some((disk.operations(), fault)));
        assert!(Handover::take(&disk, NODE).is_err(), "{fault:?}");
    }
}

#[test]
fn a_stop_on_a_full_disk_leaves_nothing_to_be_found() {
    let disk = SimDisk::new(0);
    write(&disk).unwrap();
    let operations = disk.operations();
    for at in 0..operations - 3 {
        let disk = SimDisk::new(0);
        disk.plan(Some((at, Fault::Full)));
        assert!(write(&disk).is_err());
        assert!(matches!(Handover::take(&disk, NODE).unwrap(), Taken::Nothing));
    }
}

#[test]
fn a_torn_or_foreign_file_is_as_none_and_gone() {
    let disk = SimDisk::new(0);
    write(&disk).unwrap();
    let bytes = disk.content("handover").unwrap();
    for length in (0..bytes.len()).step_by(7) {
        disk.put("handover", &bytes[..length]);
        assert!(
            matches!(Handover::take(&disk, NODE).unwrap(), Taken::Unusable(_)),
            "{length}"
        );
        assert!(disk.open("handover").unwrap().is_none());
    }
    disk.put("handover", &bytes);
    let Taken::Unusable(damage) = Handover::take(&disk, NodeId(4)).unwrap() else {
        panic!("another node's file was taken");
    };
    assert_eq!(
        damage.to_string(),
        "handover is damaged at offset 40: expected the table of node 4, found that of node 3"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_costs_its_group_and_those_behind_it(place in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let disk = SimDisk::new(0);
        write(&disk).unwrap();
        let mut bytes = disk.content("handover").unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        disk.put("handover", &bytes);
        if let Taken::Found(handover) = Handover::take(&disk, NODE).unwrap() {
            let (whole, missing) = read(handover);
            prop_assert!(!missing.is_empty(), "byte {} is not covered", place);
            let mut expected = everything();
            for position in &missing {
                expected.remove(&position.group);
            }
            prop_assert_eq!(whole, expected);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let disk = SimDisk::new(0);
        let mut titled = b"ChorHO01".to_vec();
        titled.extend_from_slice(&bytes);
        disk.put("handover", &titled);
        prop_assert!(matches!(Handover::take(&disk, NODE).unwrap(), Taken::Unusable(_)));
    }
}
