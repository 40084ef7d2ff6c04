//! Targets: what is kept, what goes, and what is found to be damaged. The same for a directory and for S3.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use backup::{
    BackupError, BackupTarget, DirectoryTarget, Manifest, ManifestPart, PartSummary, PartWriter,
    TargetFolder, Unwatched, Verification, Verified, backups, find_backup, prune,
};

/// A directory that goes with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("chorale-target-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A part of one string in partition `partition` of 256; the key need not belong there.
pub(crate) fn part(partition: u16, value: &[u8]) -> (PartSummary, Vec<u8>) {
    let mut writer = PartWriter::new(Vec::new(), partition, 256).expect("memory takes everything");
    let head = b"\x03\0\0\0key\0\0\0\0\0\0\0\0\0\0";
    let begun = writer.record(0, head, value.len() as u64);
    begun
        .and_then(|()| writer.value(value))
        .expect("memory takes everything");
    writer.finish().expect("memory takes everything")
}

/// Puts a backup of these parts.
pub(crate) fn put(target: &dyn BackupTarget, name: &str, made: u64, parts: &[(PartSummary, Vec<u8>)]) {
    for (summary, bytes) in parts {
        let path = format!("parts/{}", summary.name());
        let written = target.write(&path, summary.bytes, &mut &bytes[..]);
        written.expect("there is room");
    }
    let digits = |part: &PartSummary| part.name().to_string()[6..].to_owned();
    let total = |number: fn(&PartSummary) -> u64| parts.iter().map(|(part, _)| number(part)).sum();
    let manifest = Manifest {
        format: 1,
        name: name.to_owned(),
        cluster: String::new(),
        made,
        by: "a test".to_owned(),
        mark: "1".to_owned(),
        partitions: 256,
        keys: total(|part| part.keys),
        bytes: total(|part| part.bytes),
        raw_bytes: total(|part| part.raw_bytes),
        settings: Default::default(),
        secrets: Vec::new(),
        parts: parts
            .iter()
            .map(|(part, _)| ManifestPart {
                partition: part.partition,
                sha256: digits(part),
                bytes: part.bytes,
                raw_bytes: part.raw_bytes,
                keys: part.keys,
            })
            .collect(),
    };
    let file = manifest.encode();
    let path = format!("backups/{name}/manifest.json");
    target
        .write(&path, file.len() as u64, &mut &file[..])
        .expect("there is room");
}

fn verify(target: &dyn BackupTarget, is_deep: bool) -> Verified {
    let verification = Verification {
        target,
        backup: None,
        is_deep,
        progress: &Unwatched,
        stop: &AtomicBool::new(false),
    };
    verification.run().expect("the target can be read")
}

/// Gives some bytes, and then fails.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the source is gone"));
        }
        let count = to.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }
}

/// What must hold of every target.
pub(crate) fn keeps_files(target: &dyn BackupTarget) {
    assert_eq!(target.list(TargetFolder::Parts), Ok(Vec::new()));
    assert_eq!(backups(target), Ok(Vec::new()));
    let path = "parts/file";
    assert_eq!(target.exists(path), Ok(None));
    assert!(matches!(target.read(path), Err(BackupError::Missing(_))));
    let long: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    for from in [
        &mut Broken(1_000_000) as &mut dyn Read,
        &mut Broken(0),
        &mut &long[..1000],
    ] {
        assert!(target.write(path, 3_000_000, from).is_err(), "not all of it came");
        // A server may keep what has come of a body: of another length, it is no part.
        assert!(
            matches!(target.exists(path), Ok(None | Some(0..1_000_001))),
            "half a file is not whole"
        );
    }
    assert!(
        target.write(path, 10, &mut &long[..1000]).is_err(),
        "more came than was announced"
    );
    target
        .write(path, 3_000_000, &mut &long[..])
        .expect("there is room");
    assert_eq!(target.exists(path), Ok(Some(3_000_000)));
    let mut read = Vec::new();
    target
        .read(path)
        .and_then(|mut file| {
            file.read_to_end(&mut read)
                .map_err(|error| BackupError::Failed(error.to_string()))
        })
        .expect("it is there");
    assert!(read == long);
    let listed = target.list(TargetFolder::Parts).expect("it can be listed");
    assert_eq!(
        (listed.len(), listed[0].path.as_str(), listed[0].bytes),
        (1, path, 3_000_000)
    );
    assert!(
        listed[0]
            .modified
            .is_some_and(|time| time.elapsed().is_ok_and(|age| age < Duration::from_secs(3600)))
    );
    assert_eq!(target.refresh(path), Ok(()));
    assert_eq!(target.remove(path), Ok(()));
    assert_eq!(target.remove(path), Ok(()), "it is gone all the same");
    assert_eq!(target.exists(path), Ok(None));
}

#[test]
fn a_directory_keeps_files_whole_or_not_at_all() {
    let folder = Folder::new("keeps");
    let target = DirectoryTarget::new(folder.0.join("made/with/the/first"));
    keeps_files(&target);
    assert!(
        target
            .write("parts/half", 3_000_000, &mut Broken(1_000_000))
            .is_err()
    );
    assert_eq!(target.exists("parts/half"), Ok(None));
    let left = fs::read_dir(folder.0.join("made/with/the/first/tmp"))
        .expect("it was made")
        .count();
    assert_eq!(left, 0, "nothing is left of what failed");
}

#[test]
fn pruning_keeps_what_is_needed_and_what_is_young() {
    let folder = Folder::new("prune");
    let target = DirectoryTarget::new(&folder.0);
    let parts = [
        part(1, b"old"),
        part(1, b"new"),
        part(2, b"both"),
        part(3, b"young"),
    ];
    put(
        &target,
        "monday",
        1_000,
        &[parts[0].clone(), parts[2].clone(), parts[3].clone()],
    );
    put(&target, "tuesday", 2_000, &[parts[1].clone(), parts[2].clone()]);
    let place = |at: usize| folder.0.join("parts").join(parts[at].0.name().to_string());
    let two_days_ago = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    for at in 0..3 {
        let file = File::options().append(true).open(place(at)).expect("it is there");
        file.set_modified(two_days_ago).expect("it is ours");
    }
    fs::write(folder.0.join("parts/README"), "not ours").expect("there is room");
    let pruned = prune(&target, 1).expect("all manifests can be read");
    assert_eq!(
        (pruned.backups, pruned.parts, pruned.bytes),
        (vec!["monday".to_owned()], 1, parts[0].0.bytes)
    );
    let there = [0, 1, 2, 3].map(|at| place(at).exists());
    assert_eq!(there, [false, true, true, true], "the last one is young");
    assert!(folder.0.join("parts/README").exists(), "what is not ours stays");
    let found = find_backup(&target, None).expect("one is left");
    assert_eq!(found.name, "tuesday");
    assert!(
        find_backup(&target, Some("monday"))
            .unwrap_err()
            .to_string()
            .contains("--list")
    );
    assert_eq!(verify(&target, false).damages, []);
}

#[test]
fn what_no_backup_names_is_counted_apart_and_what_is_missing_is_named() {
    let folder = Folder::new("apart");
    let target = DirectoryTarget::new(&folder.0);
    let parts = [part(1, b"named"), part(2, b"named, too"), part(3, b"left over")];
    put(&target, "monday", 1_000, &parts[..2]);
    let whole = |verified: &Verified| verified.backups.iter().cloned().collect::<Vec<_>>();
    let path = format!("parts/{}", parts[2].0.name());
    let written = target.write(&path, parts[2].0.bytes, &mut &parts[2].1[..]);
    written.expect("there is room");
    let verified = verify(&target, false);
    let bytes = parts[0].0.bytes + parts[1].0.bytes;
    let expected = Verified {
        backups: ["monday".to_owned()].into(),
        parts: 2,
        keys: 2,
        bytes,
        unnamed: 1,
        unnamed_bytes: parts[2].0.bytes,
        damages: Vec::new(),
    };
    assert_eq!(verified, expected);
    assert_eq!(
        verified.in_words(),
        format!(
            "1 backup and 2 parts are whole: 2 keys, {bytes} bytes. Besides, no backup names 1 part of {} bytes: --prune removes what \
             is so and a day old.",
            parts[2].0.bytes
        )
    );
    put(&target, "tuesday", 2_000, &parts[..1]);
    let lost = format!("parts/{}", parts[1].0.name());
    target.remove(&lost).expect("it is there");
    let verified = verify(&target, false);
    let missing = BackupError::Missing(folder.0.join(lost).display().to_string());
    assert_eq!(whole(&verified), ["tuesday"], "the other one cannot be restored");
    assert_eq!((verified.parts, verified.damages), (1, vec![missing]));
    let kept = folder.0.join("parts").join(parts[0].0.name().to_string());
    fs::write(&kept, b"something else").expect("there is room");
    let verified = verify(&target, false);
    assert_eq!(whole(&verified), [""; 0]);
    assert_eq!((verified.parts, verified.damages.len()), (0, 2));
}

#[test]
fn nothing_is_pruned_where_a_manifest_is_damaged() {
    let folder = Folder::new("damaged");
    let target = DirectoryTarget::new(&folder.0);
    put(&target, "one", 1_000, &[part(1, b"old")]);
    put(&target, "two", 2_000, &[part(1, b"new")]);
    let path = folder.0.join("backups/one/manifest.json");
    let mut file = fs::read(&path).unwrap();
    file[200] ^= 1;
    fs::write(&path, &file).unwrap();
    let why = prune(&target, 1).unwrap_err().to_string();
    assert!(
        why.starts_with("nothing was pruned") && why.contains("one/manifest.json"),
        "{why}"
    );
    assert_eq!(target.list(TargetFolder::Parts).unwrap().len(), 2);
    let entries = backups(&target).unwrap();
    assert!(entries[0].manifest.is_err() && entries[1].manifest.is_ok());
    let damages = verify(&target, false).damages;
    assert_eq!(damages.len(), 1, "{damages:?}");
}

#[test]
fn a_flipped_bit_of_any_file_is_named_with_its_place() {
    let folder = Folder::new("flipped");
    let target = DirectoryTarget::new(&folder.0);
    let noise: Vec<u8> = (0..90_000u32)
        .flat_map(|n| n.wrapping_mul(n).wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    put(&target, "only", 1_000, &[part(1, b"short"), part(2, &noise)]);
    assert_eq!(verify(&target, false).damages, []);
    let mut files = target.list(TargetFolder::Parts).unwrap();
    files.extend(target.list(TargetFolder::Backups).unwrap());
    for file in files {
        let path = folder.0.join(&file.path);
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 40 + 1) {
            if file.path.starts_with("parts/") && (at == 6 || at == 7) {
                continue; // The version.
            }
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            let damages = verify(&target, false).damages;
            let [BackupError::Damaged(damage)] = &damages[..] else {
                panic!("{} at {at}: {damages:?}", file.path)
            };
            assert_eq!(damage.file, path.display().to_string());
            assert!(damage.offset <= at as u64, "{damage}");
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn what_a_replica_would_not_take_is_found_by_a_deep_look() {
    let folder = Folder::new("deep");
    let target = DirectoryTarget::new(&folder.0);
    // `key` is of another partition, and twice there.
    let mut writer = PartWriter::new(Vec::new(), 7, 256).unwrap();
    writer.record(0, b"\x03\0\0\0key\0\0\0\0\0\0\0\0\0\0", 0).unwrap();
    put(&target, "elsewhere", 1_000, &[writer.finish().unwrap()]);
    assert_eq!(verify(&target, false).damages, []);
    let damages = verify(&target, true).damages;
    assert!(
        damages[0].to_string().contains("of the partition of the part"),
        "{damages:?}"
    );
    // A list that is no listpack.
    let folder = Folder::new("deeper");
    let target = DirectoryTarget::new(&folder.0);
    let mut writer = PartWriter::new(Vec::new(), 7, 256).unwrap();
    writer
        .record(0, b"\x03\0\0\0key\0\0\0\0\0\0\0\0\0\x01", 3)
        .unwrap();
    writer.value(b"bad").unwrap();
    put(&target, "list", 1_000, &[writer.finish().unwrap()]);
    let damages = verify(&target, true).damages;
    assert!(damages[0].to_string().contains("key key"), "{damages:?}");
}
