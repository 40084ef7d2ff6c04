//! Backups of a cluster whose clients write, and what comes of them in clusters of other sizes.
//!
//! | variable | means |
//! | --- | --- |
//! | `CHORALE_BLACKBOX_BACKUPS` | how many backups are taken while money is transferred, 2 if it is not set |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use blackbox::{Client, Cluster, Prng, Value, chorale_binary, eventually};

const ACCOUNTS: usize = 40;
const OPENING: i64 = 100;
const WRITERS: usize = 3;

/// A directory for backups, which goes with it.
pub(crate) struct Cellar(pub(crate) PathBuf);

impl Cellar {
    pub(crate) fn new(name: &str) -> Cellar {
        let path = std::env::temp_dir().join(format!("chorale-cellar-{name}-{}", std::process::id()));
        // One of a run that was killed.
        let _ = fs::remove_dir_all(&path);
        Cellar(path)
    }

    pub(crate) fn parts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("parts")).expect("there is a backup");
        let mut parts: Vec<PathBuf> = entries
            .map(|entry| entry.expect("it can be listed").path())
            .collect();
        parts.sort();
        parts
    }
}

impl Drop for Cellar {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs it.
pub(crate) fn chorale(arguments: &[&str]) -> Output {
    let mut command = Command::new(chorale_binary());
    command.args(arguments).output().expect("the binary is there")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it, and gives what it prints.
pub(crate) fn succeeds(arguments: &[&str]) -> String {
    let output = chorale(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs what is to fail, and gives the reason.
pub(crate) fn fails(arguments: &[&str]) -> String {
    let output = chorale(arguments);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{arguments:?}: {}",
        text(&output.stdout)
    );
    text(&output.stderr)
}

pub(crate) fn admin(cluster: &Cluster, node: usize) -> String {
    cluster.admin_address(node).to_string()
}

pub(crate) fn show(path: &Path) -> &str {
    path.to_str().expect("it is in ASCII")
}

pub(crate) fn take(cluster: &Cluster, node: usize, cellar: &Cellar, name: &str) -> String {
    succeeds(&[
        "admin",
        "backup",
        show(&cellar.0),
        "--admin",
        &admin(cluster, node),
        "--name",
        name,
    ])
}

pub(crate) fn restore(cluster: &Cluster, cellar: &Cellar, name: &str) -> String {
    let into = admin(cluster, cluster.len() - 1);
    succeeds(&[
        "restore",
        show(&cellar.0),
        "--into",
        &into,
        "--backup",
        name,
        "--confirm",
    ])
}

pub(crate) fn grown(nodes: usize) -> Cluster {
    let mut cluster = Cluster::start(nodes, 6);
    cluster.wait_until_replicated();
    cluster
}

fn account(number: usize) -> String {
    format!("account:{number}")
}

fn balances(client: &mut Client) -> Vec<i64> {
    let mut words = vec!["MGET".to_owned()];
    words.extend((0..ACCOUNTS).map(account));
    let answer = client.command(&words);
    let values = answer.elements().unwrap_or_else(|| panic!("{answer:?}"));
    values
        .iter()
        .map(|value| {
            value
                .text()
                .and_then(|text| text.parse().ok())
                .expect("every account is there")
        })
        .collect()
}

/// Moves money until it is told to stop, and says how often.
fn transfer(mut client: Client, seed: u64, is_over: &AtomicBool, count: &AtomicU64) {
    let mut prng = Prng::new(seed);
    while !is_over.load(Ordering::Relaxed) {
        let (from, to, sum) = (prng.below(ACCOUNTS), prng.below(ACCOUNTS), prng.below(10));
        let commands = [
            "MULTI".to_owned(),
            format!("DECRBY {} {sum}", account(from)),
            format!("INCRBY {} {sum}", account(to)),
            "EXEC".to_owned(),
        ];
        let words: Vec<Vec<&str>> = commands
            .iter()
            .map(|command| command.split(' ').collect())
            .collect();
        let last = client.pipeline(&words).pop().expect("EXEC is answered");
        assert!(last.elements().is_some(), "{last:?}");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_of_a_bank_has_all_its_money_in_a_cluster_of_any_size() {
    let backups: usize = match std::env::var("CHORALE_BLACKBOX_BACKUPS") {
        Ok(count) => count.parse().expect("a number of backups"),
        Err(_) => 2,
    };
    let cellar = Cellar::new("bank");
    let cluster = grown(3);
    for number in 0..ACCOUNTS {
        cluster
            .client(0)
            .run_ok(&format!("SET {} {OPENING}", account(number)));
    }
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, is_over, count) = (cluster.client(writer), Arc::clone(&is_over), Arc::clone(&count));
            thread::spawn(move || transfer(client, writer as u64, &is_over, &count))
        })
        .collect();
    for number in 0..backups {
        let before = count.load(Ordering::Relaxed);
        take(&cluster, number % 3, &cellar, &number.to_string());
        let after = count.load(Ordering::Relaxed);
        assert!(after > before, "transfers went on");
        eventually("a transfer lies between two backups", || {
            count.load(Ordering::Relaxed) > after
        });
    }
    is_over.store(true, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|writer| writer.join().expect("every transfer was answered"));
    drop(cluster);

    let said = succeeds(&["verify", show(&cellar.0), "--deep"]);
    assert!(said.starts_with(&format!("{backups} backups")), "{said}");
    let mut seen = Vec::new();
    for nodes in [1, 3, 5] {
        let cluster = grown(nodes);
        let mut client = cluster.client(0);
        for number in 0..backups {
            let said = restore(&cluster, &cellar, &number.to_string());
            assert!(said.contains(&format!("{ACCOUNTS} keys")), "{said}");
            let balances = balances(&mut client);
            assert_eq!(
                balances.iter().sum::<i64>(),
                OPENING * ACCOUNTS as i64,
                "backup {number} on {nodes} nodes: {balances:?}"
            );
            seen.push((number, balances));
            client.run_ok("FLUSHALL");
        }
    }
    for (number, balances) in &seen {
        let others = seen.iter().filter(|(other, _)| other == number);
        others.for_each(|(_, other)| assert_eq!(other, balances, "backup {number} is the same everywhere"));
    }
}

/// Values of every type, small and large, in several databases.
fn fill(client: &mut Client) {
    let numbered = |words: &str, count: usize, each: &dyn Fn(usize) -> String| {
        let mut command: Vec<String> = words.split(' ').map(str::to_owned).collect();
        command.extend((0..count).flat_map(|at| each(at).split(' ').map(str::to_owned).collect::<Vec<_>>()));
        command
    };
    let long = "x".repeat(60);
    for (name, count) in [("small", 5), ("large", 40_000)] {
        for from in (0..count).step_by(4_000) {
            let length = 4_000.min(count - from);
            let commands = [
                numbered(&format!("RPUSH list:{name}"), length, &|at| {
                    format!("{}-{long}", from + at)
                }),
                numbered(&format!("SADD set:{name}"), length, &|at| {
                    format!("{}-{long}", from + at)
                }),
                numbered(&format!("HSET hash:{name}"), length, &|at| {
                    format!("{} {long}", from + at)
                }),
                numbered(&format!("ZADD sorted:{name}"), length, &|at| {
                    format!("{}.5 {}-{long}", at, from + at)
                }),
            ];
            for command in commands {
                let answer = client.command(&command);
                assert!(answer.integer().is_some(), "{answer:?}");
            }
        }
    }
    client.run_ok("SET number 12345678901");
    client.run_ok("SET text value");
    client.run("APPEND text -and-more");
    client.run("SADD integers 1 2 300000");
    client.run("PFADD about a b c");
    client.run_ok("SET empty-soon x PX 1");
    client.run_ok("SET later x EX 100000");
    assert_eq!(
        client.command(&["SET", "huge", &"h".repeat(9 << 20)]),
        Value::ok()
    );
    assert_eq!(
        client.command(&[&b"SET"[..], b"\0binary\xff", b"\r\n\0"]),
        Value::ok()
    );
    client.run_ok("SELECT 9");
    client.run_ok("SET elsewhere 1");
    client.run_ok("SELECT 0");
    let at_least_as_many = (0..300).map(|at| vec!["SET".to_owned(), format!("key:{at}"), at.to_string()]);
    client.pipeline(&at_least_as_many.collect::<Vec<_>>());
}

/// What clients see of all keys of a database.
fn content(client: &mut Client, db: usize) -> Vec<(Vec<u8>, Vec<Value>)> {
    client.run_ok(&format!("SELECT {db}"));
    let answer = client.run("KEYS *");
    let mut keys: Vec<Vec<u8>> = answer
        .elements()
        .expect("a list of keys")
        .iter()
        .map(|key| match key {
            Value::Bulk(bytes) => bytes.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    keys.sort();
    let mut content = Vec::new();
    for key in keys {
        let kind = client
            .command(&[b"TYPE", &key[..]])
            .text()
            .expect("it has a type");
        let of = |words: &str| -> Vec<Vec<u8>> {
            let words = words.split(' ').map(|word| word.as_bytes().to_vec());
            words
                .map(|word| if word == b"KEY" { key.clone() } else { word })
                .collect()
        };
        let value = client.command(&of(match kind.as_str() {
            "string" => "GET KEY",
            "list" => "LRANGE KEY 0 -1",
            "set" => "SMEMBERS KEY",
            "hash" => "HGETALL KEY",
            "zset" => "ZRANGE KEY 0 -1 WITHSCORES",
            other => panic!("a value of type {other}"),
        }));
        let encoding = client.command(&of("OBJECT ENCODING KEY"));
        let deadline = client.command(&of("PEXPIRETIME KEY"));
        content.push((key, vec![value, encoding, deadline]));
    }
    content
}

#[test]
fn every_type_survives_and_what_has_not_changed_is_not_written_again() {
    let cellar = Cellar::new("types");
    let cluster = grown(3);
    let mut client = cluster.client(1);
    fill(&mut client);
    let expected = [content(&mut client, 0), content(&mut client, 9)];
    take(&cluster, 0, &cellar, "first");
    let parts = cellar.parts();
    let said = take(&cluster, 2, &cellar, "second");
    assert!(said.contains("; 0 of these parts were written now"), "{said}");
    assert_eq!(cellar.parts(), parts, "nothing has changed");
    client.run_ok("SELECT 0");
    client.run_ok("SET number 5");
    let said = take(&cluster, 1, &cellar, "third");
    assert!(said.contains("; 1 of these parts was written now"), "{said}");
    let listed = succeeds(&["admin", "backup", show(&cellar.0), "--list"]);
    let names: Vec<&str> = listed
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["first", "second", "third"], "{listed}");
    drop(cluster);

    let said = succeeds(&["verify", show(&cellar.0), "--deep"]);
    assert!(said.starts_with("3 backups"), "{said}");
    let cluster = grown(1);
    let into = admin(&cluster, 0);
    let said = succeeds(&["restore", show(&cellar.0), "--into", &into]);
    assert!(
        said.contains("Backup third") && said.contains("Nothing was done"),
        "{said}"
    );
    assert_eq!(cluster.client(0).run("DBSIZE"), Value::Integer(0));
    restore(&cluster, &cellar, "second");
    let mut client = cluster.client(0);
    let found = [content(&mut client, 0), content(&mut client, 9)];
    for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
        assert!(
            expected == found,
            "{} has become {}",
            expected.0.escape_ascii(),
            found.0.escape_ascii()
        );
    }
    assert_eq!(expected.map(|db| db.len()), found.map(|db| db.len()));
    let why = fails(&["restore", show(&cellar.0), "--into", &into, "--confirm"]);
    assert!(why.contains("goes into an empty cluster"), "{why}");
}

#[test]
fn damage_in_a_backup_is_named_and_is_not_restored() {
    let cellar = Cellar::new("damage");
    let cluster = grown(1);
    let mut client = cluster.client(0);
    for at in 0..2_000 {
        client.run_ok(&format!("SET key:{at} value-of-{at}"));
    }
    take(&cluster, 0, &cellar, "only");
    client.run_ok("FLUSHALL");
    let part = cellar.parts().swap_remove(17);
    let whole = fs::read(&part).expect("it can be read");
    for at in (0..whole.len()).step_by(whole.len() / 25 + 1) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&part, &flipped).expect("it can be written");
        let why = fails(&["verify", show(&cellar.0)]);
        let is_version = at == 6 || at == 7;
        assert!(why.contains(show(&part)), "{at}: {why}");
        assert!(is_version || why.contains("is damaged at offset"), "{at}: {why}");
    }
    let why = fails(&[
        "restore",
        show(&cellar.0),
        "--into",
        &admin(&cluster, 0),
        "--confirm",
    ]);
    assert!(
        why.contains("is damaged at offset") && why.contains("FLUSHALL"),
        "{why}"
    );
    client.run_ok("FLUSHALL");
    fs::write(&part, &whole).expect("it can be written");
    restore(&cluster, &cellar, "only");
    assert_eq!(client.run("GET key:77"), Value::bulk("value-of-77"));
    fs::remove_file(&part).expect("it can be removed");
    let why = fails(&["verify", show(&cellar.0)]);
    assert!(why.contains("is not there"), "{why}");
    // The partition has not changed, so the next backup has it again.
    take(&cluster, 0, &cellar, "again");
    succeeds(&["verify", show(&cellar.0)]);
}

#[test]
fn a_backup_goes_on_when_a_node_is_lost() {
    let cellar = Cellar::new("lost");
    let mut cluster = grown(3);
    for at in 0..500 {
        cluster.client(0).run_ok(&format!("SET key:{at} {at}"));
    }
    cluster.kill(2);
    let said = take(&cluster, 0, &cellar, "two-of-three");
    assert!(said.contains("500 keys"), "{said}");
    succeeds(&["verify", show(&cellar.0), "--deep"]);
}

#[test]
fn settings_stand_in_a_backup_without_secrets_and_are_set_when_that_is_asked_for() {
    let cellar = Cellar::new("settings");
    let cluster = grown(3);
    let mut client = cluster.client(0);
    client.run_ok("SET key value");
    client.run_ok("CONFIG SET maxmemory-samples 7 backup-keep 3 requirepass not-for-backups");
    for (given, expected) in [
        ("", "wants the password of its clients, and none was given"),
        ("wrong", "does not take the password that was given"),
    ] {
        let refused = Command::new(chorale_binary())
            .args(["admin", "backup", show(&cellar.0), "--admin"])
            .arg(admin(&cluster, 1))
            .env("CHORALE_REQUIREPASS", given)
            .output()
            .expect("the binary is there");
        let why = text(&refused.stderr);
        assert!(
            why.contains(expected) && why.contains("as CHORALE_REQUIREPASS"),
            "{why}"
        );
        assert!(!why.contains("attempt"), "it is told at once: {why}");
    }
    let taken = Command::new(chorale_binary())
        .args(["admin", "backup", show(&cellar.0), "--name", "only", "--admin"])
        .arg(admin(&cluster, 1))
        .env("CHORALE_REQUIREPASS", "not-for-backups")
        .output()
        .expect("the binary is there");
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    drop(cluster);
    let manifest = fs::read_to_string(cellar.0.join("backups/only/manifest.json")).expect("it is there");
    assert!(manifest.contains("\"maxmemory-samples\": \"7\""), "{manifest}");
    assert!(
        manifest.contains("\"requirepass\""),
        "that it was set is said: {manifest}"
    );
    assert!(!manifest.contains("not-for-backups"), "{manifest}");

    let cluster = grown(1);
    let into = admin(&cluster, 0);
    let mut client = cluster.client(0);
    let mut value = |name: &str| {
        let answer = client.run(&format!("CONFIG GET {name}"));
        answer.elements().and_then(|pair| pair.get(1)?.text())
    };
    let said = succeeds(&["restore", show(&cellar.0), "--into", &into, "--confirm"]);
    assert!(
        said.contains("only with --settings:\n  maxmemory-samples \"7\""),
        "{said}"
    );
    assert!(said.contains("not in the backup: requirepass"), "{said}");
    assert_eq!(value("maxmemory-samples").as_deref(), Some("5"), "it was not set");
    cluster.client(0).run_ok("FLUSHALL");
    let said = succeeds(&[
        "restore",
        show(&cellar.0),
        "--into",
        &into,
        "--settings",
        "--confirm",
    ]);
    assert!(
        said.contains("Settings that were set:\n  maxmemory-samples"),
        "{said}"
    );
    assert_eq!(value("maxmemory-samples").as_deref(), Some("7"));
    assert_eq!(
        value("backup-keep").as_deref(),
        Some("0"),
        "it is of the other cluster"
    );
    assert_eq!(value("requirepass").as_deref(), Some(""));
}
