//! A bucket of a real server. `tests/s3/run` installs one, versitygw, which checks signatures, and names it by `CHORALE_S3_SERVER`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use backup::{BackupTarget, S3Target, TargetFolder};

use crate::target::{Folder, keeps_files};

struct S3Server {
    process: Child,
    folder: Folder,
    port: u16,
}

impl S3Server {
    /// `None` where there is none to start.
    fn start(name: &str) -> Option<S3Server> {
        let Some(program) = std::env::var_os("CHORALE_S3_SERVER") else {
            eprintln!("CHORALE_S3_SERVER names no server: tests/s3/run installs one");
            return None;
        };
        let folder = Folder::new(name);
        fs::create_dir(folder.0.join("cellar")).expect("it was made a moment ago");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let process = Command::new(program)
            .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
            .arg(&folder.0)
            .env("ROOT_ACCESS_KEY", "key")
            .env("ROOT_SECRET_KEY", "secret")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server is there: the variable names it");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the server does not listen"
            );
            thread::sleep(Duration::from_millis(20));
        }
        Some(S3Server {
            process,
            folder,
            port,
        })
    }

    fn target(&self, address: &str, secret: &str) -> S3Target {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let variable = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("key".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
            "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
            _ => None,
        };
        S3Target::from_environment(address, variable).expect("all is said")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_bucket_keeps_files_whole_or_not_at_all() {
    let Some(server) = S3Server::start("s3-keeps") else {
        return;
    };
    keeps_files(&server.target("s3://cellar/a/prefix with a space", "secret"));
    keeps_files(&server.target("s3://cellar", "secret"));
    assert!(server.folder.0.join("cellar").is_dir());
}

#[test]
fn more_files_than_one_answer_lists_are_listed() {
    let Some(server) = S3Server::start("s3-many") else {
        return;
    };
    let target = server.target("s3://cellar/p", "secret");
    for at in 0..1_050 {
        target
            .write(&format!("parts/{at:05}"), 1, &mut &b"x"[..])
            .expect("there is room");
    }
    let listed = target.list(TargetFolder::Parts).expect("it can be listed");
    assert_eq!(listed.len(), 1_050);
    assert_eq!(listed[1_049].path, "parts/01049");
}

#[test]
fn a_refusal_says_what_to_do() {
    let Some(server) = S3Server::start("s3-refuses") else {
        return;
    };
    let why = |address: &str, secret: &str| {
        server
            .target(address, secret)
            .list(TargetFolder::Parts)
            .expect_err("it is refused")
            .to_string()
    };
    let wrong = why("s3://cellar/p", "other");
    assert!(
        wrong.contains("SignatureDoesNotMatch") && wrong.contains("AWS_SECRET_ACCESS_KEY"),
        "{wrong}"
    );
    let none = why("s3://attic/p", "secret");
    assert!(none.contains("make the bucket first"), "{none}");
    let target = server.target("s3://cellar/p", "other");
    let wrong = target
        .write("parts/x", 1, &mut &b"x"[..])
        .expect_err("it is refused")
        .to_string();
    assert!(wrong.contains("SignatureDoesNotMatch"), "{wrong}");
}
