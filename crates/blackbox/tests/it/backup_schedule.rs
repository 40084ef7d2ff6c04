//! Backups that the cluster takes by itself.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use blackbox::{Cluster, eventually, http_get};

use crate::backup::{Cellar, admin, grown, show, succeeds, take, text};

const HOUR_MILLIS: u64 = 60 * 60 * 1_000;

/// Makes a backup some hours older than it is, as its writer would have written it.
fn age(cellar: &Cellar, name: &str, hours: u64) {
    let path = cellar.0.join("backups").join(name).join("manifest.json");
    let file = fs::read_to_string(&path).expect("it is there");
    let (_, rest) = file.split_once('\n').expect("there is a first line");
    let (before, behind) = rest.split_once("\"made\": ").expect("there is a time");
    let (made, behind) = behind.split_once(',').expect("more fields follow");
    let made = made.parse::<u64>().expect("it is a number") - hours * HOUR_MILLIS;
    let rest = format!("{before}\"made\": {made},{behind}");
    let mut sum = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is sha256sum");
    let mut input = sum.stdin.take().expect("it is a pipe");
    input.write_all(rest.as_bytes()).expect("it reads");
    drop(input);
    let digits = text(&sum.wait_with_output().expect("it ends").stdout);
    fs::write(&path, format!("{{\"sha256\":\"{}\",\n{rest}", &digits[..64])).expect("it can be written");
}

/// Every day at this many hours before now.
fn daily(hours_ago: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let minute = (now.as_secs() / 60 - hours_ago * 60) % (24 * 60);
    format!("{} {} * * *", minute % 60, minute / 60)
}

fn set(cluster: &Cluster, name: &str, value: &str) {
    let set = cluster.client(0).command(&["CONFIG", "SET", name, value]);
    assert_eq!(set.text().as_deref(), Some("OK"), "{name} {value}: {set:?}");
}

/// The node that leads the meta group, and what it says of backups.
fn backups_of_leader(cluster: &mut Cluster) -> Option<(usize, serde_json::Value)> {
    for node in 0..cluster.len() {
        if !cluster.is_running(node) {
            continue;
        }
        let page = http_get(cluster.admin_address(node), "/cluster").ok()?;
        let page: serde_json::Value = serde_json::from_str(&page.body).ok()?;
        if page["meta_leader"].is_u64() && page["meta_leader"] == page["answered_by"] {
            return Some((node, page["backups"].clone()));
        }
    }
    None
}

/// Waits until nothing is due at the node that leads the meta group, which knows of a good backup: which node that is.
fn wait_until_taken(cluster: &mut Cluster) -> usize {
    let mut leader = None;
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("it is later")
            .as_millis() as u64
    };
    eventually("the next backup is for later", || {
        let found = backups_of_leader(cluster);
        let is_quiet = |page: &serde_json::Value| {
            page["is_running"] == false
                && page["good_at"].is_u64()
                && page["next_at"].as_u64().is_some_and(|next| next > now())
        };
        leader = found.filter(|(_, page)| is_quiet(page)).map(|(node, _)| node);
        leader.is_some()
    });
    leader.expect("it was found a moment ago")
}

fn count(cellar: &Cellar) -> usize {
    fs::read_dir(cellar.0.join("backups"))
        .expect("there are backups")
        .count()
}

#[test]
fn a_backup_that_is_due_is_taken_once_whoever_leads() {
    let cellar = Cellar::new("schedule");
    let mut cluster = grown(3);
    cluster.client(0).run_ok("SET key value");
    take(&cluster, 0, &cellar, "by-hand");
    age(&cellar, "by-hand", 3);
    succeeds(&["verify", show(&cellar.0)]);
    set(&cluster, "backup-target", show(&cellar.0));
    assert_eq!(count(&cellar), 1, "there is no schedule");
    let schedule = daily(1);
    set(&cluster, "backup-schedule", &schedule);
    let leader = wait_until_taken(&mut cluster);
    assert_eq!(count(&cellar), 2, "one is due, of the hours that were missed");
    let mut client = cluster.client(leader);
    assert_eq!(
        client.info("persistence", "backup_last_status").as_deref(),
        Some("ok")
    );
    assert!(client.info_number("persistence", "backup_last_good_time") > 0);
    assert!(client.info_number("persistence", "backup_next_time") > 0);
    let metrics = http_get(cluster.admin_address(leader), "/metrics").expect("the port answers");
    let line = metrics
        .body
        .lines()
        .find_map(|line| line.strip_prefix("chorale_backup_last_good_timestamp_seconds "));
    assert!(line.is_some_and(|seconds| seconds != "0"), "{line:?}");
    let said = succeeds(&["admin", "status", &admin(&cluster, leader)]);
    let expected = format!("Backups: {schedule} into {}", show(&cellar.0));
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("The last good one is of"), "{said}");

    cluster.kill(leader);
    let next = wait_until_taken(&mut cluster);
    assert_ne!(next, leader, "it is dead");
    assert_eq!(count(&cellar), 2, "the new leader sees what the old one did");
    succeeds(&["verify", show(&cellar.0), "--deep"]);
}

#[test]
fn a_target_that_is_not_there_is_an_error_that_is_shown_until_a_backup_is_good() {
    let cellar = Cellar::new("no-target");
    let mut cluster = grown(1);
    let why = cluster
        .client(0)
        .run("CONFIG SET backup-schedule 61")
        .error()
        .unwrap_or_default();
    assert!(why.contains("a schedule has five fields"), "{why}");
    set(&cluster, "backup-target", show(&cellar.0));
    set(&cluster, "backup-schedule", &daily(1));
    let mut client = cluster.client(0);
    eventually("the error is shown", || {
        client
            .info("persistence", "backup_last_error")
            .is_some_and(|why| why.contains("there is no directory"))
    });
    assert_eq!(
        client.info("persistence", "backup_last_status").as_deref(),
        Some("err")
    );
    let metrics = http_get(cluster.admin_address(0), "/metrics").expect("the port answers");
    assert!(
        metrics
            .body
            .contains("chorale_backup_failure_info{reason=\"backup-target"),
        "it is there"
    );
    let said = succeeds(&["admin", "status", &admin(&cluster, 0)]);
    assert!(said.contains("The last try failed"), "{said}");
    take(&cluster, 0, &cellar, "by-hand");
    // Another schedule is looked at anew.
    set(&cluster, "backup-schedule", &daily(2));
    wait_until_taken(&mut cluster);
    assert_eq!(
        client.info("persistence", "backup_last_status").as_deref(),
        Some("ok")
    );
    assert_eq!(count(&cellar), 1, "the one by hand is younger than what was due");
}
