//! A node alone whose files are damaged, gone or copied: it does not begin without what nobody else has, and goes on when they are back.

use blackbox::{Cluster, Implementation, Value, eventually};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const GROUPS: usize = 8;
const KEYS: usize = 400;

/// What somebody does to a data directory.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// A byte of the first file of these is another one.
    Flipped(&'static str, usize),
    /// The first file of these ends here.
    Cut(&'static str, usize),
    /// All files of these are gone.
    Gone(&'static str),
    /// It is a copy.
    Copied,
}

/// What it was before.
enum Before {
    File(PathBuf, Vec<u8>),
    Moved(PathBuf, PathBuf),
}

/// The files whose names begin so, in the order of their names.
fn files(data: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(data).expect("it is there");
    let names = all.map(|entry| entry.expect("it can be read").path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().expect("it has one").to_string_lossy();
        name.starts_with(prefix) && path.extension().is_none()
    };
    let mut found: Vec<PathBuf> = names.filter(is_one).collect();
    found.sort();
    assert!(!found.is_empty(), "{prefix} in {}", data.display());
    found
}

fn harm(data: &Path, harm: Harm) -> Vec<Before> {
    let change = |prefix: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let file = files(data, prefix).remove(0);
        let before = fs::read(&file).expect("it is ours");
        let mut changed = before.clone();
        change(&mut changed);
        fs::write(&file, changed).expect("it is ours");
        vec![Before::File(file, before)]
    };
    match harm {
        Harm::Flipped(prefix, at) => change(prefix, &|bytes| bytes[at] ^= 4),
        Harm::Cut(prefix, at) => change(prefix, &|bytes| bytes.truncate(at)),
        Harm::Gone(prefix) => {
            let away = data.with_extension("away");
            fs::create_dir_all(&away).expect("there is room");
            let moved = files(data, prefix).into_iter().map(|file| {
                let to = away.join(file.file_name().expect("it has one"));
                fs::rename(&file, &to).expect("it is ours");
                Before::Moved(file, to)
            });
            moved.collect()
        }
        Harm::Copied => {
            let original = data.with_extension("original");
            fs::rename(data, &original).expect("it is ours");
            let copied = Command::new("cp").arg("-a").args([&original, data]).status();
            assert!(copied.is_ok_and(|status| status.success()));
            vec![Before::Moved(data.to_owned(), original)]
        }
    }
}

fn mend(before: Vec<Before>) {
    for before in before {
        match before {
            Before::File(file, bytes) => fs::write(file, bytes).expect("it is ours"),
            Before::Moved(from, to) => {
                if from.is_dir() {
                    fs::remove_dir_all(&from).expect("it is ours");
                }
                fs::rename(to, from).expect("it is ours");
            }
        }
    }
}

fn is_ready(line: &str) -> bool {
    line.contains("ready for clients")
}

fn holds_all(cluster: &Cluster) -> bool {
    cluster.client(0).run("DBSIZE") == Value::Integer(KEYS as i64)
}

#[test]
fn a_node_alone_does_not_begin_without_what_nobody_else_has() {
    if matches!(Implementation::subject(), Implementation::Redis(_)) {
        return;
    }
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    cluster.flag("durability", "strict");
    cluster.add();
    let mut client = cluster.client(0);
    for key in 0..KEYS {
        if key == KEYS / 2 {
            client.run_ok("SAVE");
        }
        client.run_ok(&format!("SET key:{key} value:{key}"));
    }
    let data = cluster.data(0);
    let mut refused = 0;
    for case in [
        // The identity of the cluster in the head of a log, and its first batch, which the log of the start before may have too.
        Harm::Flipped("log-00000", 20),
        Harm::Flipped("log-00001", 4096 + 40),
        Harm::Cut("log-00001", 2 * 4096),
        Harm::Cut("log-00000", 1 << 20),
        Harm::Gone("log-00000"),
        Harm::Gone("log-"),
        Harm::Flipped("snapshot-", 100),
        Harm::Gone("snapshot-"),
        Harm::Gone("run"),
        Harm::Gone("meta-log"),
        Harm::Copied,
    ] {
        let mut client = cluster.client(0);
        client.run_ok("SET key:7 again");
        assert!(cluster.terminate(0).success(), "before {case:?}");
        let before = harm(&data, case);
        cluster.restart(0);
        eventually("it starts, or does not", || {
            !cluster.is_running(0) || cluster.log(0).trim_end().lines().last().is_some_and(is_ready)
        });
        assert!(
            !cluster.log(0).contains("DATA LOST"),
            "{case:?}: {}",
            cluster.log(0)
        );
        if cluster.is_running(0) {
            assert!(holds_all(&cluster), "with {case:?}: {}", cluster.log(0));
            continue;
        }
        refused += 1;
        assert_eq!(cluster.wait(0).code(), Some(1), "{case:?}: {}", cluster.log(0));
        let log = cluster.log(0);
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains(&data.display().to_string()), "{case:?}: {last}");
        mend(before);
        cluster.restart(0);
        cluster.wait_until_ready(0);
        assert!(holds_all(&cluster), "after {case:?}: {}", cluster.log(0));
    }
    assert!(refused >= 9, "{refused} starts were refused");
}

#[test]
fn a_node_alone_begins_without_if_it_is_told_to_and_goes_on_with_a_copy() {
    if matches!(Implementation::subject(), Implementation::Redis(_)) {
        return;
    }
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(1);
    cluster.flag("durability", "strict");
    cluster.add();
    for key in 0..KEYS {
        cluster.client(0).run_ok(&format!("SET key:{key} value:{key}"));
    }
    assert!(cluster.terminate(0).success());
    let data = cluster.data(0);
    let original = harm(&data, Harm::Copied);
    cluster.flag("accept-data-loss", "yes");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert!(holds_all(&cluster), "of the copy: {}", cluster.log(0));
    drop(original);
    assert!(cluster.terminate(0).success());
    harm(&data, Harm::Gone("log-"));
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert!(cluster.log(0).contains("DATA LOST"), "{}", cluster.log(0));
    assert_eq!(cluster.client(0).run("DBSIZE"), Value::Integer(0));
}
