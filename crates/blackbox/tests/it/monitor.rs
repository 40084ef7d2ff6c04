//! `MONITOR`: the commands of all workers, in the form that tools read.

use blackbox::{Client, Server, eventually};

#[track_caller]
fn line(monitor: &mut Client) -> String {
    monitor
        .receive()
        .expect("a line is sent")
        .text()
        .expect("a simple string")
}

#[test]
fn a_monitor_sees_the_commands_of_all_workers() {
    let server = Server::subject().workers(2).start();
    let mut monitors = [server.client(), server.client(), server.client()];
    for monitor in &mut monitors {
        monitor.run_ok("MONITOR");
    }
    for round in 0..4 {
        let mut client = server.client();
        client.run_ok("SELECT 3");
        client.command(&["SET", &format!("k{round}"), "a \"b\"\n\u{1}"]);
        client.run("AUTH secret");
        client.run("CONFIG GET port");
        client.run("NOPE");
        client.run("PING");
        for monitor in &mut monitors {
            let selected = line(monitor);
            let (time, rest) = selected.split_once(' ').unwrap();
            let (seconds, micros) = time.split_once('.').unwrap();
            assert!(seconds.parse::<u64>().is_ok() && micros.len() == 6, "{time}");
            assert!(
                rest.starts_with("[3 127.0.0.1:") && rest.ends_with("] \"SELECT\" \"3\""),
                "{rest}"
            );
            let expected = format!("\"SET\" \"k{round}\" \"a \\\"b\\\"\\n\\x01\"");
            assert!(line(monitor).ends_with(&expected));
            assert!(line(monitor).ends_with("\"AUTH\" \"(redacted)\""));
            assert!(line(monitor).ends_with("\"PING\""));
        }
    }
}

#[test]
fn a_transaction_is_shown_before_its_exec() {
    let server = Server::subject().workers(2).start();
    let mut monitor = server.client();
    monitor.run_ok("MONITOR");
    for _ in 0..4 {
        let mut client = server.client();
        client.run_ok("MULTI");
        for index in 0..6 {
            client.run(&format!("SET key:{index} x"));
        }
        client.run("exec");
        assert!(line(&mut monitor).ends_with("\"MULTI\""));
        for index in 0..6 {
            let expected = format!("\"SET\" \"key:{index}\" \"x\"");
            assert!(line(&mut monitor).ends_with(&expected));
        }
        assert!(line(&mut monitor).ends_with("\"exec\""));
    }
}

#[test]
fn a_monitor_is_marked_and_can_stop() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let mut monitor = server.client();
    monitor.run_ok("MONITOR");
    eventually("the monitor is marked", || {
        client.run("CLIENT LIST").text().unwrap().contains("flags=O ")
    });
    assert_eq!(
        monitor.run("GET k").error().unwrap(),
        "ERR Replica can't interact with the keyspace"
    );
    monitor.run("RESET");
    client.run("SET k v");
    assert_eq!(monitor.run("GET k").text().unwrap(), "v");
}
