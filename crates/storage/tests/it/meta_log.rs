//! The meta log: what was reported as written is there after a crash, whatever the moment.

use bytes::Bytes;
use consensus::{HardState, Index, LogEntry, Members, Payload, SnapshotPoint, Term};
use ids::Incarnation;
use proptest::prelude::*;
use storage::{Damage, Fault, MetaLog, MetaState, SimDisk, Snapshot, StorageError};

/// One thing that happens to the log. Numbers are taken modulo what is possible.
#[derive(Clone, Debug)]
enum Step {
    Write {
        cut: u8,
        count: u8,
        bytes: u16,
        raises_term: bool,
        votes: bool,
        commits: u8,
    },
    Compact {
        place: u8,
    },
    Install {
        ahead: u8,
    },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..4u8, 0..4u8, 0..3_000u16, any::<bool>(), any::<bool>(), 0..4u8).prop_map(
        |(cut, count, bytes, raises_term, votes, commits)| Step::Write {
            cut,
            count,
            bytes,
            raises_term,
            votes,
            commits,
        },
    );
    let step = prop_oneof![
        8 => write,
        2 => any::<u8>().prop_map(|place| Step::Compact { place }),
        1 => (1..5u8).prop_map(|ahead| Step::Install { ahead }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..10)
}

fn last(state: &MetaState) -> Index {
    let base = state
        .snapshot
        .as_ref()
        .map_or(Index(0), |snapshot| snapshot.point.index);
    state.entries.last().map_or(base, |entry| entry.index)
}

fn snapshot(index: Index, term: Term) -> Snapshot {
    Snapshot {
        point: SnapshotPoint {
            index,
            term,
            members: Members {
                voters: vec![Incarnation(1), Incarnation(index.0)],
                ..Members::default()
            },
        },
        state: vec![index.0 as u8; 700],
    }
}

/// What a log begins with.
fn first() -> Snapshot {
    snapshot(Index(0), Term(0))
}

/// What a write does, plainly.
fn after_write(mut state: MetaState, entries: &[LogEntry], hard: HardState) -> MetaState {
    if let Some(first) = entries.first() {
        state.entries.retain(|entry| entry.index < first.index);
    }
    state.entries.extend(entries.iter().cloned());
    state.hard = hard;
    state
}

fn after_snapshot(mut state: MetaState, snapshot: Snapshot) -> MetaState {
    let point = &snapshot.point;
    let agrees = |entry: &LogEntry| entry.index == point.index && entry.term == point.term;
    if state.entries.iter().any(agrees) {
        state.entries.retain(|entry| entry.index > point.index);
    } else {
        state.entries.clear();
    }
    if state.hard.term < point.term {
        (state.hard.term, state.hard.vote) = (point.term, None);
    }
    state.hard.commit = state.hard.commit.max(point.index);
    state.snapshot = Some(snapshot);
    state
}

/// What must be there: the last state that was reported, or the one that was being written.
#[derive(Debug)]
struct Outcome {
    reported: Option<MetaState>,
    attempted: Option<MetaState>,
    /// What was there before the last write.
    before: MetaState,
}

impl Outcome {
    fn allows(&self, found: &Option<MetaState>) -> bool {
        *found == self.reported || *found == self.attempted
    }
}

/// Carries steps out until one fails.
fn run(disk: &SimDisk, steps: &[Step]) -> Outcome {
    // There is no log, or one that has its snapshot: an empty one is none that its member can go on from.
    let mut state = after_snapshot(MetaState::default(), first());
    let mut outcome = Outcome {
        reported: None,
        attempted: Some(state.clone()),
        before: state.clone(),
    };
    let Ok(mut log) = MetaLog::create(disk.clone(), first()) else {
        return outcome;
    };
    for step in steps {
        outcome = Outcome {
            reported: Some(state.clone()),
            attempted: Some(state.clone()),
            before: outcome.before,
        };
        let result = match *step {
            Step::Write {
                cut,
                count,
                bytes,
                raises_term,
                votes,
                commits,
            } => {
                let mut hard = state.hard;
                if raises_term {
                    hard = HardState {
                        term: Term(hard.term.0 + 1),
                        vote: None,
                        ..hard
                    };
                }
                if votes {
                    hard.vote = hard.vote.or(Some(Incarnation(hard.term.0 + 100)));
                }
                let first = (last(&state).0 + 1).saturating_sub(u64::from(cut));
                let first = first.max(state.hard.commit.0 + 1);
                let entries: Vec<LogEntry> = (first..first + u64::from(count))
                    .map(|index| LogEntry {
                        term: hard.term,
                        index: Index(index),
                        payload: match index % 5 {
                            0 => Payload::Members(vec![3; 20]),
                            _ => Payload::Data(Bytes::from(vec![index as u8; usize::from(bytes)])),
                        },
                    })
                    .collect();
                let next = after_write(state.clone(), &entries, hard);
                hard.commit = Index((hard.commit.0 + u64::from(commits)).min(last(&next).0));
                let next = after_write(next, &[], hard);
                outcome.attempted = Some(next.clone());
                outcome.before = state.clone();
                log.write(&entries, Some(hard)).map(|()| state = next)
            }
            Step::Compact { place } => {
                let committed: Vec<&LogEntry> = state
                    .entries
                    .iter()
                    .filter(|entry| entry.index <= state.hard.commit)
                    .collect();
                let Some(entry) = committed.get(usize::from(place) % committed.len().max(1)) else {
                    continue;
                };
                let snapshot = snapshot(entry.index, entry.term);
                let next = after_snapshot(state.clone(), snapshot.clone());
                outcome.attempted = Some(next.clone());
                log.write_snapshot(snapshot).map(|()| state = next)
            }
            Step::Install { ahead } => {
                let snapshot = snapshot(Index(last(&state).0 + u64::from(ahead)), state.hard.term);
                let next = after_snapshot(state.clone(), snapshot.clone());
                outcome.attempted = Some(next.clone());
                log.write_snapshot(snapshot).map(|()| state = next)
            }
            Step::Reopen => match MetaLog::open(disk.clone()) {
                Ok(opened) => {
                    let (reopened, found) = opened.expect("it was made");
                    assert_eq!(found, state);
                    log = reopened;
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = result {
            if matches!(error, StorageError::Full { .. }) {
                let hard = Some(state.hard);
                // It goes on at its length, as far as there is room.
                assert!(!matches!(log.write(&[], hard), Err(StorageError::Failed { .. })));
            } else if !matches!(step, Step::Reopen) {
                let hard = Some(state.hard);
                assert!(
                    matches!(log.write(&[], hard), Err(StorageError::Failed { .. })),
                    "an error is final"
                );
            }
            return outcome;
        }
    }
    Outcome {
        reported: Some(state.clone()),
        attempted: Some(state),
        before: outcome.before,
    }
}

fn open(disk: &SimDisk) -> Result<Option<MetaState>, StorageError> {
    Ok(MetaLog::open(disk.clone())?.map(|(_, state)| state))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_reported_is_there_whenever_the_power_goes(steps in steps(), seed in any::<u64>()) {
        let disk = SimDisk::new(seed);
        run(&disk, &steps);
        for at in 0..=disk.operations() {
            let disk = SimDisk::new(seed ^ at);
            disk.plan(Some((at, Fault::PowerCut)));
            let outcome = run(&disk, &steps);
            disk.restart();
            // And when it goes again, while the log is opened.
            let begun = disk.operations();
            for again in 0..4 {
                disk.plan(Some((begun + again, Fault::PowerCut)));
                if let Ok(found) = open(&disk) {
                    prop_assert!(outcome.allows(&found), "cut at {at}: {outcome:?}, found {found:?}");
                }
                disk.restart();
            }
            let found = open(&disk).unwrap();
            prop_assert!(outcome.allows(&found), "cut at {at}: {outcome:?}, found {found:?}");
        }
    }

    #[test]
    fn what_is_found_after_an_error_stays(steps in steps(), seed in any::<u64>(), is_full in any::<bool>()) {
        let fault = if is_full { Fault::Full } else { Fault::SyncFails };
        let disk = SimDisk::new(seed);
        run(&disk, &steps);
        for at in 0..disk.operations() {
            let disk = SimDisk::new(seed ^ at);
            disk.plan(Some((at, fault)));
            let outcome = run(&disk, &steps);
            // The process ends and another begins; what it reads may be in the system's memory only.
            let Ok(found) = open(&disk) else {
                // The disk is full. With room it opens.
                disk.restart();
                let found = open(&disk).unwrap();
                prop_assert!(outcome.allows(&found));
                continue;
            };
            prop_assert!(outcome.allows(&found), "{fault:?} at {at}: {outcome:?}, found {found:?}");
            disk.restart();
            let kept = open(&disk).unwrap();
            prop_assert_eq!(kept, found, "{:?} at {}", fault, at);
        }
    }

    #[test]
    fn damage_is_an_error_or_loses_the_last_write_only(
        steps in steps(),
        place in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let disk = SimDisk::new(0);
        let outcome = run(&disk, &steps);
        let mut bytes = disk.content("meta-log").unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let place = place.index((end + 100).min(bytes.len()));
        bytes[place] ^= flip;
        disk.put("meta-log", &bytes);
        match open(&disk) {
            // What is changed behind the frames is none of theirs.
            Ok(Some(found)) => {
                let is_behind = place > end && outcome.allows(&Some(found.clone()));
                prop_assert!(found == outcome.before || is_behind);
            }
            Ok(None) => prop_assert!(false, "the log is there"),
            Err(StorageError::Damaged(damage)) => prop_assert_eq!(damage.file, "meta-log"),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let disk = SimDisk::new(0);
        disk.put("meta-log", &bytes);
        prop_assert!(open(&disk).is_err());
        let mut titled = b"ChorML01".to_vec();
        titled.extend_from_slice(&bytes);
        disk.put("meta-log", &titled);
        prop_assert!(open(&disk).is_err());
    }
}

fn hard(term: u64) -> HardState {
    HardState {
        term: Term(term),
        ..HardState::default()
    }
}

/// A log of three frames of 24 + 18 bytes each behind its first one, and where the second begins.
fn three_frames() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::new(0);
    let mut log = MetaLog::create(disk.clone(), first()).expect("an intact disk");
    for term in 1..=3 {
        log.write(&[], Some(hard(term))).expect("an intact disk");
    }
    let mut bytes = disk.content("meta-log").expect("an intact disk");
    // Without the room behind them. The last frame ends with the high bytes of a term, no vote, and a commit of nothing.
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .expect("there are frames");
    bytes.truncate(end + 1 + 7 + 1 + 8);
    (disk, bytes)
}

#[test]
fn a_torn_tail_is_cut_and_the_log_goes_on() {
    let (disk, bytes) = three_frames();
    let last = bytes.len() - (24 + 18);
    for length in last..bytes.len() {
        disk.put("meta-log", &bytes[..length]);
        let (mut log, state) = MetaLog::open(disk.clone()).unwrap().unwrap();
        assert_eq!(state.hard, hard(2), "{length} bytes");
        log.write(&[], Some(hard(7))).unwrap();
        assert_eq!(open(&disk).unwrap().unwrap().hard, hard(7));
    }
}

#[test]
fn a_damaged_middle_names_file_and_offset_and_what_was_found() {
    let (disk, mut bytes) = three_frames();
    let middle = bytes.len() - 2 * (24 + 18);
    bytes[middle + 24 + 3] ^= 1;
    disk.put("meta-log", &bytes);
    let Err(StorageError::Damaged(damage)) = open(&disk) else {
        panic!("damage was not seen");
    };
    let Damage {
        file,
        offset,
        expected,
        found,
    } = &damage;
    assert_eq!((file.as_str(), *offset), ("meta-log", middle as u64 + 24));
    assert!(expected.starts_with("18 bytes with checksum "), "{damage}");
    assert!(found.starts_with("checksum "), "{damage}");
    assert_eq!(disk.content("meta-log").unwrap(), bytes, "it is left as it is");
}

#[test]
fn a_lost_page_in_the_middle_is_damage_too() {
    let (disk, mut bytes) = three_frames();
    let middle = bytes.len() - 2 * (24 + 18);
    bytes[middle..middle + 24 + 18].fill(0);
    disk.put("meta-log", &bytes);
    assert!(matches!(open(&disk), Err(StorageError::Damaged(damage)) if damage.offset == middle as u64));
}

#[test]
#[should_panic(expected = "in one term there is one vote")]
fn nobody_votes_twice() {
    let mut log = MetaLog::create(SimDisk::new(0), first()).unwrap();
    let vote = |one| {
        Some(HardState {
            vote: Some(Incarnation(one)),
            ..hard(1)
        })
    };
    log.write(&[], vote(1)).unwrap();
    drop(log.write(&[], vote(2)));
}

#[test]
#[should_panic(expected = "a log is made once")]
fn a_log_is_never_made_in_place_of_one() {
    let disk = SimDisk::new(0);
    MetaLog::create(disk.clone(), first()).unwrap();
    drop(MetaLog::create(disk, first()));
}

#[test]
fn the_first_members_are_a_snapshot_at_place_0() {
    let disk = SimDisk::new(0);
    MetaLog::create(disk.clone(), first()).unwrap();
    let state = open(&disk).unwrap().unwrap();
    assert_eq!(state.snapshot, Some(first()));
}

#[test]
fn who_has_a_snapshot_has_reached_its_term() {
    let disk = SimDisk::new(0);
    MetaLog::create(disk.clone(), snapshot(Index(5), Term(3))).unwrap();
    let hard = open(&disk).unwrap().unwrap().hard;
    assert_eq!((hard.term, hard.vote, hard.commit), (Term(3), None, Index(5)));
}

#[test]
fn a_long_log_asks_for_a_snapshot() {
    let mut log = MetaLog::create(SimDisk::new(0), first()).unwrap();
    let entry = |index| LogEntry {
        term: Term(1),
        index: Index(index),
        payload: Payload::Data(Bytes::from(vec![0; 3 << 20])),
    };
    log.write(&[entry(1)], Some(hard(1))).unwrap();
    assert!(!log.is_long());
    let commit = HardState {
        commit: Index(2),
        ..hard(1)
    };
    log.write(&[entry(2)], Some(commit)).unwrap();
    assert!(log.is_long());
    log.write_snapshot(snapshot(Index(2), Term(1))).unwrap();
    assert!(!log.is_long());
}
