//! Backups into a directory of a node, which the node's process writes and reads.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use blackbox::{Cluster, chorale_binary, eventually, http_get};

use crate::backup::{Cellar, admin, fails, grown, show, succeeds, text};

fn filled(nodes: usize) -> Cluster {
    let cluster = grown(nodes);
    let sets = (0..300).map(|at| vec!["SET".to_owned(), format!("key:{at}"), at.to_string()]);
    cluster.client(0).pipeline(&sets.collect::<Vec<_>>());
    cluster
}

fn of_node(cellar: &Cellar) -> String {
    format!("node:{}", show(&cellar.0))
}

#[test]
fn a_node_takes_shows_verifies_prunes_and_restores_what_is_in_its_directory() {
    let cellar = Cellar::new("of-node");
    fs::create_dir(&cellar.0).expect("it was removed a moment ago");
    let cluster = filled(3);
    let (target, at) = (of_node(&cellar), admin(&cluster, 1));
    let said = succeeds(&["admin", "backup", &target, "--admin", &at, "--name", "first"]);
    assert!(said.contains("Backup first: 300 keys"), "{said}");
    cluster.client(0).run_ok("SET key:301 x");
    let said = succeeds(&[
        "admin", "backup", &target, "--admin", &at, "--name", "second", "--prune", "1",
    ]);
    assert!(
        said.contains("301 keys") && said.contains("Pruned: 1 backup,"),
        "{said}"
    );
    let listed = succeeds(&["admin", "backup", &target, "--admin", &at, "--list"]);
    assert!(listed.contains("second") && !listed.contains("first"), "{listed}");
    let said = succeeds(&["verify", &target, "--admin", &at, "--deep"]);
    assert!(said.starts_with("1 backup and"), "{said}");
    // What a node wrote is the same as what a command line would have.
    succeeds(&["verify", show(&cellar.0), "--deep"]);

    // A node of another cluster has the same directory here.
    let other = grown(1);
    let into = admin(&other, 0);
    let said = succeeds(&["restore", &target, "--into", &into]);
    assert!(said.contains("Nothing was done"), "{said}");
    let said = succeeds(&["restore", &target, "--into", &into, "--confirm"]);
    assert!(said.contains("Restored second: 301 keys"), "{said}");
    assert_eq!(
        other.client(0).run("GET key:301").text().as_deref(),
        Some("x"),
        "it is there"
    );
    let why = fails(&["restore", &target, "--into", &into, "--confirm"]);
    assert!(why.contains("goes into an empty cluster"), "{why}");

    let part = cellar.parts().swap_remove(3);
    fs::write(&part, b"ChorPT01 and no more").expect("it can be written");
    let why = fails(&["verify", &target, "--admin", &at]);
    assert!(why.contains(show(&part)) && why.contains("damaged"), "{why}");
}

#[test]
fn a_directory_that_a_node_cannot_use_is_told() {
    let cellar = Cellar::new("no-directory");
    let cluster = grown(1);
    let at = admin(&cluster, 0);
    let why = |target: &str| fails(&["admin", "backup", target, "--admin", &at]);
    let said = why("node:backups");
    assert!(said.contains("is no absolute path"), "{said}");
    let said = why(&of_node(&cellar));
    assert!(said.contains("this node has no directory"), "{said}");
    fs::write(&cellar.0, b"").expect("it can be written");
    let said = why(&of_node(&cellar));
    assert!(said.contains("this node has no directory"), "{said}");
    fs::remove_file(&cellar.0).expect("it is there");
    fs::create_dir(&cellar.0).expect("there is nothing");
    // No folder can be made where a file is.
    fs::write(cellar.0.join("tmp"), b"").expect("it can be written");
    let said = why(&of_node(&cellar));
    assert!(
        said.contains("cannot write into") || said.contains("cannot make"),
        "{said}"
    );
    let said = fails(&["verify", &of_node(&cellar), "--admin", &at]);
    assert!(said.contains("has no backups"), "{said}");
    let data = cluster.data(0);
    for target in [
        show(&data).to_owned(),
        format!("node:{}", show(&data)),
        format!("{}/new", show(&data)),
    ] {
        let said = why(&target);
        assert!(
            said.contains("is the data directory of a node"),
            "{target}: {said}"
        );
    }
    assert!(!data.join("parts").exists() && !data.join("new").exists());
}

#[test]
fn a_node_does_one_job_at_a_time_and_stops_it_when_it_is_told_to() {
    let cellar = Cellar::new("one-job");
    fs::create_dir(&cellar.0).expect("it was removed a moment ago");
    let mut cluster = filled(3);
    // The backup waits for the node that does not answer.
    cluster.pause(2);
    let (target, at) = (of_node(&cellar), admin(&cluster, 0));
    let mut first = Command::new(chorale_binary())
        .args(["admin", "backup", &target, "--admin", &at, "--name", "first"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is there");
    let address = cluster.admin_address(0);
    let page = || http_get(address, "/backup").expect("the port answers").body;
    eventually("the job is shown", || page().contains("backup into node:"));
    let why = fails(&["admin", "backup", &target, "--admin", &at, "--list"]);
    assert!(
        why.contains("this node is at another job, a backup into node:"),
        "{why}"
    );
    let told = Command::new("kill")
        .args(["-INT", &first.id().to_string()])
        .status();
    assert!(told.expect("there is a kill").success());
    let mut told = BufReader::new(first.stderr.take().expect("it is a pipe"));
    let mut line = String::new();
    while !line.contains("the node is told to stop") {
        line.clear();
        let read = told.read_line(&mut line).expect("it can be read");
        assert!(read > 0, "it ends without a word of it");
    }
    // The question that waits for the node is answered first.
    cluster.resume(2);
    let status = first.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "it is a failure");
    let mut said = Vec::new();
    told.read_to_end(&mut said).expect("it can be read");
    let said = text(&said);
    assert!(said.contains("interrupted: there is no backup first"), "{said}");
    let said = succeeds(&["admin", "backup", &target, "--admin", &at, "--name", "second"]);
    assert!(said.contains("300 keys"), "{said}");
}
