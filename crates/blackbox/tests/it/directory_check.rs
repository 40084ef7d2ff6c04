//! What `chorale verify` says of the data directory of a node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blackbox::Cluster;

use crate::backup::{fails, show, succeeds};

/// A node that has written logs and snapshots, and was stopped.
fn stopped() -> (Cluster, PathBuf) {
    let mut cluster = Cluster::start(1, 4);
    cluster.wait_until_replicated();
    let mut client = cluster.client(0);
    let sets = |from: usize| {
        let sets = (from..from + 500).map(|at| vec!["SET".to_owned(), format!("key:{at}"), "x".repeat(200)]);
        sets.collect::<Vec<_>>()
    };
    client.pipeline(&sets(0));
    client.run_ok("SAVE");
    client.pipeline(&sets(500));
    let directory = cluster.data(0);
    let why = fails(&["verify", show(&directory)]);
    assert!(why.contains("is in use by process"), "{why}");
    assert!(cluster.terminate(0).success(), "it ends in order");
    (cluster, directory)
}

/// Flips a bit of a file, looks, and puts the bit back: what was said.
fn with_a_flipped_bit(directory: &Path, name: &str, at: usize) -> String {
    let file = directory.join(name);
    let whole = fs::read(&file).expect("it can be read");
    let mut flipped = whole.clone();
    flipped[at] ^= 4;
    fs::write(&file, &flipped).expect("it can be written");
    eprintln!("{name}: a bit is flipped at {at}");
    let why = fails(&["verify", show(directory)]);
    fs::write(&file, &whole).expect("it can be written");
    why
}

/// All files, with their bytes, but for the one that says who had the directory last.
fn content(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).expect("it is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.is_file() && !path.ends_with("lock"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).expect("it can be read");
            (path, bytes)
        })
        .collect()
}

#[test]
fn a_directory_is_read_whole_and_stays_as_it_is() {
    let (mut cluster, directory) = stopped();
    let before = content(&directory);
    for deep in [&["--deep"][..], &[]] {
        let said = succeeds(&[&["verify", show(&directory)], deep].concat());
        assert!(said.contains("identity: node 1 of cluster"), "{said}");
        assert!(said.contains("Everything is whole"), "{said}");
        assert_eq!(
            said.contains("replayed: 4 of 4 groups"),
            !deep.is_empty(),
            "{said}"
        );
    }
    assert!(content(&directory) == before, "nothing has changed");
    let why = fails(&["verify", show(&directory), "--backup", "monday"]);
    assert!(why.contains("has no backups"), "{why}");
    cluster.restart(0);
    cluster.wait_until_replicated();
    assert_eq!(cluster.client(0).run("DBSIZE").integer(), Some(1_000));
}

#[test]
fn damage_is_named_by_file_and_place() {
    let (_cluster, directory) = stopped();
    let files = content(&directory);
    let named = |prefix: &str| {
        let found = files.iter().filter_map(|(path, bytes)| {
            let name = path.file_name()?.to_str()?;
            (name.starts_with(prefix) && bytes.len() > 60).then_some((name, bytes.len()))
        });
        let found: Vec<(&str, usize)> = found.collect();
        assert!(
            !found.is_empty(),
            "there is no {prefix} among {:?}",
            files.iter().map(|file| &file.0).collect::<Vec<_>>()
        );
        found
    };
    for prefix in ["identity", "run", "snapshot-"] {
        let (name, length) = named(prefix)[0];
        for at in [3, length / 2, length - 1] {
            let why = with_a_flipped_bit(&directory, name, at);
            let expected = format!("{}/{name}", show(&directory));
            assert!(why.contains(&expected), "{name} at {at}: {why}");
        }
    }
    // At its end a log may be torn.
    for prefix in ["meta-log", "log-"] {
        let (name, _) = named(prefix)[0];
        for at in [3, 40] {
            let why = with_a_flipped_bit(&directory, name, at);
            let expected = format!("{}/{name} is damaged at offset", show(&directory));
            assert!(why.contains(&expected), "{name} at {at}: {why}");
        }
    }
    for (name, _) in named("snapshot-00001-") {
        fs::remove_file(directory.join(name)).expect("it is there");
    }
    for deep in [&["--deep"][..], &[]] {
        let why = fails(&[&["verify", show(&directory)], deep].concat());
        assert!(why.contains("group 1 cannot go on with what is here"), "{why}");
        assert!(!why.contains("group 2 cannot"), "{why}");
    }
}

#[test]
fn what_is_missing_or_a_copy_is_no_whole_directory() {
    let (_cluster, directory) = stopped();
    let away = directory.with_extension("away");
    fs::create_dir(&away).expect("there is room");
    let named = |prefix: &str| {
        let files = content(&directory).into_iter().map(|(path, _)| path);
        let is_one = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(prefix))
        };
        files.filter(is_one).collect::<Vec<_>>()
    };
    for (prefix, expected) in [
        ("log-", "cannot go on with what is here: no log has it"),
        ("run", "/run is not there"),
        ("meta-log", "/meta-log is not there"),
    ] {
        let files = named(prefix);
        assert!(!files.is_empty(), "{prefix}");
        let elsewhere = |path: &PathBuf| away.join(path.file_name().expect("it has one"));
        for path in &files {
            fs::rename(path, elsewhere(path)).expect("it is ours");
        }
        let why = fails(&["verify", show(&directory)]);
        assert!(why.contains(expected), "{prefix}: {why}");
        for path in &files {
            fs::rename(elsewhere(path), path).expect("it is ours");
        }
    }
    succeeds(&["verify", show(&directory)]);
    let copy = directory.with_extension("copy");
    let copied = Command::new("cp").arg("-a").args([&directory, &copy]).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let why = fails(&["verify", show(&copy)]);
    assert!(why.contains("is a copy of a directory"), "{why}");
}
