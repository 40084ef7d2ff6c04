//! The mark of a run: whole, of one file, and clean for one start.

use crate::directory::Scratch;
use ids::Token;
use mutations::Mutation;
use proptest::prelude::*;
use storage::{
    DataDirectory, Disk, DiskFile, Fault, FoundRun, KernelBoot, RunMark, SimDisk, StorageError, set_clean,
    set_failed, take_clean,
};

const KERNEL: KernelBoot = KernelBoot([0xa5; 16]);
const RELAXED: u8 = 1;

fn write(disk: &SimDisk, start: u128) -> Result<(), StorageError> {
    RunMark::write(disk, KERNEL, Token(start), RELAXED, (0, 0))
}

/// A start that the cluster is going to hear of.
fn add(disk: &SimDisk, start: u128) -> Result<(), StorageError> {
    RunMark::add_start(disk, &read(disk).expect("there is a mark"), Token(start))
}

fn read(disk: &SimDisk) -> Option<FoundRun> {
    RunMark::read(disk).expect("the mark is intact")
}

fn starts(found: &FoundRun) -> Vec<u128> {
    found.mark.starts.iter().map(|start| start.0).collect()
}

/// A run that has ended well.
fn ended(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    write(&disk, 1).expect("an intact disk");
    set_clean(&disk).expect("an intact disk");
    disk
}

#[test]
fn it_is_read_as_it_was_written() {
    let disk = SimDisk::new(0);
    assert_eq!(read(&disk), None);
    write(&disk, 1).unwrap();
    add(&disk, 2).unwrap();
    let found = read(&disk).unwrap();
    assert_eq!(found.mark.owner, Token(1));
    assert_eq!((found.mark.kernel, found.mark.durability), (KERNEL, RELAXED));
    assert_eq!(starts(&found), [1, 2]);
    assert!(!found.is_copy && !found.is_clean);
}

/// Found by a simulation (`--nodes 3..5 --workers 1..4 --durability relaxed,strict --seed 151`): the log of a start that was killed was needed
/// by the next one, which ended well, and what of it nobody had synced went with the power.
#[test]
fn a_run_that_ended_well_has_synced_the_logs_of_earlier_ones_too() {
    const LOG: &str = "log-00000-000000000001";
    for seed in 0..32 {
        let disk = SimDisk::new(seed);
        write(&disk, 1).expect("an intact disk");
        let mut log = disk.create(LOG).expect("an intact disk");
        disk.sync_names().expect("an intact disk");
        log.append(&[7; 20_000]).expect("an intact disk");
        drop(log);
        write(&disk, 2).expect("an intact disk");
        set_clean(&disk).expect("an intact disk");
        disk.restart();
        assert!(read(&disk).expect("there is a mark").is_clean);
        let content = disk.content(LOG).expect("its name was synced");
        assert!(content == [7; 20_000], "seed {seed}: something is gone");
    }
}

#[test]
fn of_too_many_starts_the_first_and_the_last_are_named() {
    let disk = SimDisk::new(0);
    write(&disk, 0).unwrap();
    (1..100).for_each(|start| add(&disk, start).unwrap());
    let named: Vec<u128> = (0..1).chain(37..100).collect();
    assert_eq!(starts(&read(&disk).unwrap()), named);
}

#[test]
fn a_fault_leaves_the_old_mark_or_the_new_one() {
    for fault in [Fault::PowerCut, Fault::SyncFails, Fault::Full, Fault::Fails] {
        for seed in 0..50 {
            for at in 0..5 {
                let disk = SimDisk::new(seed);
                write(&disk, 1).unwrap();
                disk.plan(Some((disk.operations() + at, fault)));
                let written = add(&disk, 2);
                let is_growing = at < 2;
                assert!(
                    written.is_err() || fault == Fault::Full && !is_growing,
                    "{fault:?} at {at}"
                );
                disk.restart();
                let found = read(&disk).unwrap();
                assert!(!found.is_copy);
                match written {
                    Ok(()) => assert_eq!(starts(&found), [1, 2]),
                    Err(_) => assert!(starts(&found) == [1] || starts(&found) == [1, 2]),
                }
            }
        }
    }
}

#[test]
fn a_mark_that_was_written_is_there_when_the_power_goes() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        write(&disk, 1).unwrap();
        disk.restart();
        assert_eq!(starts(&read(&disk).unwrap()), [1]);
        set_clean(&disk).unwrap();
        disk.restart();
        assert!(read(&disk).unwrap().is_clean);
        take_clean(&disk).unwrap();
        disk.restart();
        assert!(!read(&disk).unwrap().is_clean);
        set_failed(&disk).unwrap();
        disk.restart();
        let found = read(&disk).unwrap();
        assert!(found.has_failed && !found.is_copy);
        assert_eq!(starts(&found), [1], "whose memory it is stays known");
        add(&disk, 2).unwrap();
        disk.restart();
        assert!(read(&disk).unwrap().has_failed, "nobody has written since");
        write(&disk, 2).unwrap();
        disk.restart();
        assert!(!read(&disk).unwrap().has_failed);
    }
}

#[test]
fn a_copy_that_counts_and_an_end_that_stays_are_noticed() {
    let is_copy = || {
        let disk = SimDisk::new(0);
        write(&disk, 1).unwrap();
        let copy = disk.copy();
        disk.put_back(&copy, false, &[]);
        let is_copy = read(&disk).unwrap().is_copy;
        disk.put_back(&copy, true, &[]);
        assert!(
            !read(&disk).unwrap().is_copy,
            "an image of the disk has the same files"
        );
        is_copy
    };
    let is_unclean = || {
        let disk = ended(0);
        write(&disk, 2).unwrap();
        take_clean(&disk).unwrap();
        disk.restart();
        read(&disk).unwrap().is_unclean(KernelBoot([1; 16]))
    };
    assert!(is_copy() && is_unclean());
    mutations::plant(Some(Mutation::CopyAccepted));
    let is_noticed = !is_copy();
    mutations::plant(Some(Mutation::CleanLeft));
    let is_left_noticed = !is_unclean();
    mutations::plant(None);
    assert!(is_noticed && is_left_noticed);
}

#[test]
fn clean_counts_for_one_owner_alone() {
    let disk = ended(0);
    assert!(read(&disk).unwrap().is_clean);
    add(&disk, 2).unwrap();
    assert!(read(&disk).unwrap().is_clean, "it has not written anything yet");
    write(&disk, 2).unwrap();
    assert!(
        !read(&disk).unwrap().is_clean,
        "the second start has not said that it ended"
    );
    set_clean(&disk).unwrap();
    assert!(read(&disk).unwrap().is_clean);
    set_failed(&disk).unwrap();
    set_clean(&disk).unwrap();
    assert!(
        read(&disk).unwrap().is_unclean(KERNEL),
        "there is no mark that it could be said of"
    );
    write(&disk, 3).unwrap();
    assert!(
        !read(&disk).unwrap().is_clean,
        "a start that met an error has not ended well"
    );
}

#[test]
fn a_stop_that_a_fault_interrupts_is_clean_or_is_not() {
    for fault in [Fault::PowerCut, Fault::SyncFails, Fault::Full, Fault::Fails] {
        let mut seen = [false; 2];
        for seed in 0..50 {
            for at in 0..5 {
                let disk = SimDisk::new(seed);
                write(&disk, 1).unwrap();
                disk.plan(Some((disk.operations() + at, fault)));
                let written = set_clean(&disk);
                disk.restart();
                let is_clean = read(&disk).unwrap().is_clean;
                assert!(is_clean || written.is_err(), "{fault:?} at {at}");
                seen[usize::from(is_clean)] = true;
            }
        }
        assert_eq!(seen, [true; 2], "{fault:?}");
    }
}

#[test]
fn a_start_that_the_power_interrupts_finds_the_end_before_it_or_none() {
    for seed in 0..50 {
        for at in 0..8 {
            let disk = ended(seed);
            disk.plan(Some((disk.operations() + at, Fault::PowerCut)));
            let started = write(&disk, 2).and_then(|()| take_clean(&disk));
            disk.restart();
            let found = read(&disk).unwrap();
            assert!(
                !found.is_clean || starts(&found) == [1],
                "seed {seed}, cut at {at}"
            );
            assert!(started.is_err() || !found.is_clean);
        }
    }
}

#[test]
fn nothing_is_gone_after_a_clean_end_or_on_the_same_kernel() {
    let disk = SimDisk::new(0);
    write(&disk, 1).unwrap();
    let other = KernelBoot([7; 16]);
    let found = read(&disk).unwrap();
    assert!(!found.is_unclean(KERNEL));
    assert!(found.is_unclean(other));
    assert!(found.is_unclean(KernelBoot::UNKNOWN));
    set_clean(&disk).unwrap();
    assert!(!read(&disk).unwrap().is_unclean(other));
    RunMark::write(&disk, KernelBoot::UNKNOWN, Token(2), RELAXED, (0, 0)).unwrap();
    assert!(
        read(&disk).unwrap().is_unclean(KernelBoot::UNKNOWN),
        "two kernels of which nothing is known may be two"
    );
}

#[test]
fn a_mark_that_was_put_back_is_a_copy() {
    let disk = ended(0);
    let bytes = disk.content("run").unwrap();
    disk.put("run", &bytes);
    let found = read(&disk).unwrap();
    assert!(found.is_copy);
    assert!(found.is_clean, "it says what it said");
    add(&disk, 2).unwrap();
    assert!(
        read(&disk).unwrap().is_copy,
        "what stands in the directory is what was copied"
    );
    write(&disk, 2).unwrap();
    assert!(!read(&disk).unwrap().is_copy, "a new mark is of its own file");
}

#[test]
fn what_may_be_gone_stays_in_doubt_while_starts_end_before_they_write() {
    let disk = SimDisk::new(0);
    write(&disk, 1).unwrap();
    let other = KernelBoot([7; 16]);
    for start in 2..5 {
        assert!(read(&disk).unwrap().is_unclean(other));
        add(&disk, start).unwrap();
    }
    RunMark::write(&disk, other, Token(5), RELAXED, (0, 0)).unwrap();
    assert!(!read(&disk).unwrap().is_unclean(other));
}

#[test]
fn what_was_written_last_before_the_power_went_may_be_missing_whatever_starts_follow() {
    const STRICT: u8 = 2;
    let disk = SimDisk::new(0);
    RunMark::write(&disk, KERNEL, Token(1), STRICT, (0, 0)).expect("nothing fails here");
    let found = read(&disk).expect("nothing fails here");
    assert_eq!(found.written_from(KERNEL), Some(1));
    assert_eq!(found.torn_upto(1, KERNEL), 0);
    let other = KernelBoot([7; 16]);
    assert_eq!(found.written_from(other), None);
    // Nothing that was acknowledged is in doubt.
    RunMark::write(&disk, other, Token(2), STRICT, (0, found.torn_upto(1, other)))
        .expect("nothing fails here");
    for start in 2..4 {
        let found = read(&disk).expect("nothing fails here");
        assert_eq!(
            found.written_from(other),
            Some(2),
            "the first log may end anywhere"
        );
        assert_eq!(found.torn_upto(start, other), 1);
        assert_eq!(
            found.torn_upto(start, KERNEL),
            start,
            "the power has gone once more"
        );
        add(&disk, u128::from(start) + 1).expect("nothing fails here");
    }
    let text =
        String::from_utf8(disk.content("run").expect("nothing fails here")).expect("nothing fails here");
    assert!(text.contains("\ndoubted 0\ntorn 1\nstamp "), "{text}");
    mutations::plant(Some(Mutation::TornForgotten));
    let torn = found.torn_upto(1, other);
    mutations::plant(None);
    assert_eq!(torn, 0, "the mistake would be noticed");
}

#[test]
fn a_disk_that_failed_while_the_mode_was_written_has_failed() {
    let disk = SimDisk::new(0);
    write(&disk, 1).unwrap();
    let mark = disk.content("run").unwrap();
    set_failed(&disk).unwrap();
    disk.put("run", &mark);
    assert!(read(&disk).unwrap().is_unclean(KERNEL), "both names are there");
    RunMark::set_durability(&disk, RELAXED + 1).unwrap();
    let found = read(&disk).unwrap();
    assert!(found.has_failed && found.mark.durability == RELAXED + 1);
    add(&disk, 2).unwrap();
    assert!(read(&disk).unwrap().has_failed, "the mark says it itself now");
    write(&disk, 3).unwrap();
    assert!(!read(&disk).unwrap().has_failed);
}

#[test]
fn a_real_mark_knows_its_file_and_its_copy_does_not() {
    let scratch = Scratch::new();
    let directory = DataDirectory::open(&scratch.0).unwrap();
    let disk = directory.disk();
    for start in 1..4 {
        RunMark::write(&disk, KERNEL, Token(start), RELAXED, (0, 0)).unwrap();
        set_clean(&disk).unwrap();
        let found = RunMark::read(&disk).unwrap().unwrap();
        assert!(found.is_clean && !found.is_copy);
    }
    let other = Scratch::new();
    let copy = DataDirectory::open(&other.0).unwrap();
    std::fs::copy(scratch.0.join("run"), other.0.join("run")).unwrap();
    assert!(RunMark::read(&copy.disk()).unwrap().unwrap().is_copy);
    // Put back beside the original, before that is gone.
    std::fs::copy(scratch.0.join("run"), scratch.0.join("kept")).unwrap();
    std::fs::rename(scratch.0.join("kept"), scratch.0.join("run")).unwrap();
    assert!(RunMark::read(&disk).unwrap().unwrap().is_copy);
}

#[test]
fn files_have_the_bytes_that_they_always_had() {
    let disk = ended(0);
    let text = |name| String::from_utf8(disk.content(name).unwrap()).unwrap();
    let run = "chorale run 1\nkernel a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\ndurability 1\nfailed 0\ncopied 0\ndoubted 0\n\
               stamp 1 1 1\nowner 00000000000000000000000000000001\n\
               start 00000000000000000000000000000001\nchecksum 36b3c684\n";
    assert_eq!(text("run"), run);
    let clean = "chorale clean 1\nstart 00000000000000000000000000000001\nchecksum f6542733\n";
    assert_eq!(text("clean"), clean);
}

#[test]
fn a_changed_byte_is_an_error_that_says_where() {
    let disk = ended(0);
    let (run, clean) = (disk.content("run").unwrap(), disk.content("clean").unwrap());
    for place in 0..run.len() {
        for bit in 0..8 {
            let mut changed = run.clone();
            changed[place] ^= 1 << bit;
            disk.put("run", &changed);
            let Err(StorageError::Damaged(damage)) = RunMark::read(&disk) else {
                panic!("byte {place}, bit {bit}");
            };
            assert_eq!(damage.file, "run");
            assert!(damage.offset <= run.len() as u64);
            assert!(set_clean(&disk).is_err());
        }
    }
    for length in 0..run.len() {
        disk.put("run", &run[..length]);
        assert!(
            matches!(RunMark::read(&disk), Err(StorageError::Damaged(_))),
            "{length}"
        );
    }
    disk.put("run", &run);
    for place in 0..clean.len() {
        let mut changed = clean.clone();
        changed[place] ^= 1;
        disk.put("clean", &changed);
        assert!(!read(&disk).unwrap().is_clean, "byte {place}");
        disk.put("clean", &clean[..place]);
        assert!(!read(&disk).unwrap().is_clean, "{place} bytes");
    }
    disk.put("clean", &clean);
    assert!(read(&disk).unwrap().is_clean);
}

#[test]
fn damage_is_named() {
    let disk = SimDisk::new(0);
    write(&disk, 1).unwrap();
    let text = String::from_utf8(disk.content("run").unwrap()).unwrap();
    let (lines, _) = text.rsplit_once("checksum").unwrap();
    let lines = lines.replace("durability 1", "durability one");
    let checksum = crc32c::crc32c(lines.as_bytes());
    disk.put("run", format!("{lines}checksum {checksum:08x}\n").as_bytes());
    assert_eq!(
        RunMark::read(&disk).unwrap_err().to_string(),
        "run is damaged at offset 54: expected `durability MODE`, found \"durability one\\n\""
    );
    let more = (0..65).map(|_| format!("start {:032x}\n", 1)).collect::<String>();
    let lines = text.split_inclusive("start").next().unwrap();
    let lines = format!("{}{more}", lines.strip_suffix("start").unwrap());
    let checksum = crc32c::crc32c(lines.as_bytes());
    disk.put("run", format!("{lines}checksum {checksum:08x}\n").as_bytes());
    let error = RunMark::read(&disk).unwrap_err().to_string();
    assert!(
        error.ends_with("expected the checksum, found 39 more bytes"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(lines in prop::collection::vec(any::<u8>(), 0..300), has_title in any::<bool>()) {
        let disk = SimDisk::new(0);
        let mut bytes = if has_title { b"chorale run 1\n".to_vec() } else { Vec::new() };
        bytes.extend_from_slice(&lines);
        let checksum = format!("\nchecksum {:08x}\n", crc32c::crc32c_append(crc32c::crc32c(&bytes), b"\n"));
        bytes.extend_from_slice(checksum.as_bytes());
        disk.put("run", &bytes);
        prop_assert!(RunMark::read(&disk).is_err());
    }
}
