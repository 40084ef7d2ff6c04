//! What an earlier version has left on disk is read by this one: the data directory of a node, with a log, snapshots and the log of the meta
//! group, and a backup.
//!
//! Versions of the format do not change: a version that writes another one gets a new [`VERSION`] here, of which the test writes the archive,
//! and reads all of them.

use std::path::Path;
use std::process::Command;

use blackbox::{Client, Cluster, Value, eventually};

use crate::backup::{Cellar, admin, chorale, show, succeeds, text};
use crate::drain::{self, says};

/// Of the archives, each of which has the directories `node` and `backup`.
const VERSION: u32 = 1;

/// What the backup holds, and the snapshots of the node; what it answers to the reading that follows.
const KEPT: &[(&str, &str, &str)] = &[
    ("SET string value", "GET string", "$value"),
    ("SET number 4711", "OBJECT ENCODING number", "$int"),
    ("SETRANGE long 70000 end", "GETRANGE long 70000 -1", "$end"),
    ("RPUSH list a b c", "LINDEX list 1", "$b"),
    ("HSET hash a 1 b 2", "HGET hash b", "$2"),
    ("SADD set a b c", "SISMEMBER set c", ":1"),
    ("SADD integers 1 2 300000", "SISMEMBER integers 300000", ":1"),
    ("ZADD scores 1 a 2.5 b", "ZSCORE scores b", "$2.5"),
    ("PFADD visitors a b c", "PFCOUNT visitors", ":3"),
    (
        "SET brief x PXAT 4102444800123",
        "PEXPIRETIME brief",
        ":4102444800123",
    ),
];

/// What stands in the log of the node behind its snapshots.
const LOGGED: &[&str] = &[
    "SET later 1",
    "DEL string",
    "LPUSH list first",
    "EXPIREAT hash 4102444800",
];

fn archive(version: u32) -> String {
    format!("{}/testdata/format-{version}.tar.gz", env!("CARGO_MANIFEST_DIR"))
}

fn tar(arguments: &[&str]) {
    let status = Command::new("tar")
        .args(arguments)
        .status()
        .expect("tar is there");
    assert!(status.success(), "tar {arguments:?}");
}

fn node() -> Cluster {
    let mut cluster = Cluster::new(2);
    cluster.workers(1);
    cluster.flag("partitions", "4");
    cluster.add();
    cluster.wait_until_replicated();
    cluster
}

fn read(client: &mut Client) {
    for (written, read, expected) in KEPT {
        let found = match client.run(read) {
            Value::Integer(number) => format!(":{number}"),
            other => format!("${}", other.text().unwrap_or_else(|| panic!("{other:?}"))),
        };
        assert_eq!(&found, expected, "{read} after {written}");
    }
}

#[test]
fn what_earlier_versions_have_left_is_read() {
    let newest = archive(VERSION);
    if !Path::new(&newest).exists() {
        write(&newest);
        panic!("{newest} was written: it belongs to the test from here on");
    }
    for version in 1..=VERSION {
        let archives = Cellar::new(&format!("format-{version}"));
        std::fs::create_dir(&archives.0).expect("a directory for files that are soon gone");
        tar(&["-xzf", &archive(version), "-C", show(&archives.0)]);
        let node_directory = archives.0.join("node");
        let verified = chorale(&["verify", show(&node_directory), "--deep"]);
        let said = text(&verified.stdout);
        // The one damage is that it is a copy.
        for line in [
            "logs: 2 files with 2 groups.",
            "replayed: 2 of 2 groups.",
            "1 damage.",
        ] {
            assert!(said.contains(line), "{line} is missing in:\n{said}");
        }
        let damage = text(&verified.stderr);
        assert!(damage.contains("is a copy of a directory"), "{damage}");
        assert_eq!(verified.status.code(), Some(1));
        let backup = archives.0.join("backup");
        let said = succeeds(&["verify", show(&backup), "--deep"]);
        assert!(said.contains(&format!("{} keys", KEPT.len())), "{said}");
        let cluster = node();
        let into = admin(&cluster, 0);
        succeeds(&["restore", show(&backup), "--into", &into, "--confirm"]);
        let mut client = cluster.client(0);
        assert_eq!(client.run("DBSIZE"), Value::Integer(KEPT.len() as i64));
        read(&mut client);
        goes_on(&node_directory);
    }
}

/// A node begins on the directory, which is a copy by now, and goes on with all that its snapshots and logs hold.
fn goes_on(directory: &Path) {
    let mut cluster = node();
    assert!(cluster.terminate(0).success());
    let data = cluster.data(0);
    std::fs::remove_dir_all(&data).expect("nobody uses it");
    let mut copy = Command::new("cp");
    copy.args(["-r", "--sparse=always"]).args([directory, &data]);
    assert!(copy.status().expect("cp is there").success());
    cluster.flag("accept-data-loss", "yes");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    let log = cluster.log(0);
    assert!(!log.contains("DATA LOST"), "{log}");
    let mut client = cluster.client(0);
    for (read, expected) in [
        ("DBSIZE", Value::Integer(KEPT.len() as i64)),
        ("GET later", Value::bulk("1")),
        ("EXISTS string", Value::Integer(0)),
        (
            "LRANGE list 0 -1",
            Value::Array(["first", "a", "b", "c"].map(Value::bulk).into()),
        ),
        ("EXPIRETIME hash", Value::Integer(4_102_444_800)),
        ("GETRANGE long 70000 -1", Value::bulk("end")),
        ("ZSCORE scores b", Value::bulk("2.5")),
    ] {
        assert_eq!(client.run(read), expected, "{read}");
    }
    raise_semantics(&cluster);
    // And what it writes from here on is read by its next start.
    client.run_ok("SET after x");
    drop(client);
    cluster.drop_flag("accept-data-loss");
    cluster.kill(0);
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert_eq!(cluster.client(0).run("GET after"), Value::bulk("x"));
}

/// The rules of before are followed, so that the older build could be gone back to, until an operator says so or ten minutes have passed.
fn raise_semantics(cluster: &Cluster) {
    let said = |arguments: &str, status| says(&drain::admin(cluster, 0, arguments), status);
    let before = said("status", 0);
    assert!(before.contains("chorale admin raise-semantics."), "{before}");
    let plan = said("raise-semantics", 0);
    assert!(plan.contains("Nothing was done"), "{plan}");
    assert_eq!(said("status", 0), before, "a plan changes nothing");
    let done = said("raise-semantics --confirm", 0);
    assert!(done.starts_with("Entries follow semantics version"), "{done}");
    eventually("it is known", || !said("status", 0).contains("raise-semantics"));
    for again in ["raise-semantics", "raise-semantics --confirm"] {
        assert!(
            said(again, 0).contains("the newest that the nodes know"),
            "{again}"
        );
    }
}

/// Writes the archive of this version.
fn write(path: &str) {
    let archives = Cellar::new("format");
    std::fs::create_dir(&archives.0).expect("a directory for files that are soon gone");
    let mut cluster = node();
    let mut client = cluster.client(0);
    for (written, ..) in KEPT {
        client.run(written);
    }
    read(&mut client);
    client.run_ok("SAVE");
    let into = admin(&cluster, 0);
    let backup = archives.0.join("backup");
    succeeds(&["admin", "backup", show(&backup), "--admin", &into]);
    for line in LOGGED {
        client.run(line);
    }
    assert!(cluster.terminate(0).success(), "it ends in order");
    let (data, node) = (cluster.data(0), archives.0.join("node"));
    // Logs are nearly all zeros.
    let mut copy = Command::new("cp");
    copy.args(["-r", "--sparse=always"]).args([&data, &node]);
    assert!(copy.status().expect("cp is there").success());
    // Who had it last, which nobody reads.
    std::fs::remove_file(node.join("lock")).expect("it was there");
    let flags = ["--sparse", "--owner=0", "--group=0", "-czf", path];
    tar(&[&flags[..], &["-C", show(&archives.0), "node", "backup"]].concat());
}
