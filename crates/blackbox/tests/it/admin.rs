//! The admin port, as a Prometheus server or an orchestrator meets it. Redis has none, so these tests pass there
//! without a word.

use std::collections::HashSet;
use std::net::SocketAddr;

use blackbox::{Server, eventually, http_get};

/// A running server with some traffic behind it, and its admin port.
fn busy_server() -> Option<(Server, SocketAddr)> {
    let server = Server::subject().workers(2).start();
    let admin = server.admin_address()?;
    let mut client = server.client();
    for index in 0..10 {
        client.run_ok(&format!("SET key:{index} value"));
    }
    client.run("EXPIRE key:0 1000");
    client.run("GET key:0");
    client.run("GET missing");
    Some((server, admin))
}

struct Sample {
    name: String,
    labels: String,
    value: f64,
}

/// The samples of a page in Prometheus's text format, which is checked on the way.
fn samples(page: &str) -> Vec<Sample> {
    let mut series = HashSet::new();
    let mut types = HashSet::new();
    let mut samples = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# TYPE ") {
            let (name, kind) = comment
                .split_once(' ')
                .unwrap_or_else(|| panic!("bad line: {line}"));
            assert!(
                ["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind),
                "unknown type: {line}"
            );
            assert!(types.insert(name.to_owned()), "typed twice: {name}");
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (series_name, value) = line
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("bad line: {line}"));
        assert!(
            series.insert(series_name.to_owned()),
            "two samples for {series_name}"
        );
        let (name, labels) = match series_name.split_once('{') {
            Some((name, rest)) => (
                name,
                rest.strip_suffix('}')
                    .unwrap_or_else(|| panic!("labels do not end: {line}")),
            ),
            None => (series_name, ""),
        };
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'),
            "bad name: {line}"
        );
        let value = value.parse().unwrap_or_else(|_| panic!("bad value: {line}"));
        samples.push(Sample {
            name: name.to_owned(),
            labels: labels.to_owned(),
            value,
        });
    }
    samples
}

fn sum(samples: &[Sample], name: &str, label: &str) -> f64 {
    let found: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.name == name && sample.labels.contains(label))
        .map(|sample| sample.value)
        .collect();
    assert!(!found.is_empty(), "no sample of {name} with {label:?}");
    found.iter().sum()
}

/// Whole numbers are exact in floating point.
fn is(value: f64, expected: f64) -> bool {
    (value - expected).abs() < f64::EPSILON
}

#[test]
fn metrics_are_prometheus_text_under_the_names_dashboards_use() {
    let Some((server, admin)) = busy_server() else {
        return;
    };
    let mut connected = server.client();
    assert_eq!(connected.run("PING").text().as_deref(), Some("PONG"));
    let reply = http_get(admin, "/metrics").expect("the admin port answers");
    assert_eq!(reply.status, 200);
    let kind = reply.header("content-type").expect("a page says what it is");
    assert!(kind.starts_with("text/plain"), "{kind}");
    // The workers publish their figures ten times a second, so a page may be a little behind.
    let mut page = Vec::new();
    eventually("the metrics show ten keys and what made them", || {
        page = samples(&http_get(admin, "/metrics").expect("the admin port answers").body);
        sum(&page, "redis_commands_processed_total", "") >= 14.0
            && is(sum(&page, "redis_db_keys", "db=\"db0\""), 10.0)
            && sum(&page, "redis_connected_clients", "") >= 1.0
    });
    assert!(is(sum(&page, "redis_up", ""), 1.0));
    for name in [
        "redis_memory_used_bytes",
        "redis_uptime_in_seconds",
        "redis_connections_received_total",
    ] {
        assert!(sum(&page, name, "") >= 0.0, "{name}");
    }
}

#[test]
fn counters_in_the_metrics_follow_the_commands() {
    let Some((server, admin)) = busy_server() else {
        return;
    };
    let count = || {
        let reply = http_get(admin, "/metrics").expect("the admin port answers");
        sum(&samples(&reply.body), "redis_commands_processed_total", "")
    };
    let before = count();
    let mut client = server.client();
    client.pipeline(&vec![vec!["GET", "key:1"]; 500]);
    eventually("500 commands are counted", || count() >= before + 500.0);
}

#[test]
fn health_is_plain_to_see() {
    let Some((_server, admin)) = busy_server() else {
        return;
    };
    assert_eq!(
        http_get(admin, "/healthz")
            .expect("the admin port answers")
            .status,
        200
    );
}

#[test]
fn unknown_pages_are_not_found() {
    let Some((_server, admin)) = busy_server() else {
        return;
    };
    for path in ["/nosuch", "/metrics/x", "/..%2f..%2fetc/passwd"] {
        assert_eq!(
            http_get(admin, path).expect("the admin port answers").status,
            404,
            "{path}"
        );
    }
}

#[test]
fn the_admin_port_answers_while_clients_keep_the_server_busy() {
    let Some((server, admin)) = busy_server() else {
        return;
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..10 {
                    client.pipeline(&vec![vec!["INCR", "busy"]; 2_000]);
                }
            });
        }
        for _ in 0..20 {
            assert_eq!(
                http_get(admin, "/metrics")
                    .expect("the admin port answers")
                    .status,
                200
            );
        }
    });
    assert_eq!(server.client().run("GET busy").integer(), Some(40_000));
}

#[test]
fn garbage_on_the_admin_port_harms_nobody() {
    let Some((server, admin)) = busy_server() else {
        return;
    };
    for bytes in [
        &b"\x00\xff\x00\xff\r\n\r\n"[..],
        b"PING\r\n",
        b"GET",
        b"*1\r\n$4\r\nPING\r\n",
    ] {
        let mut stranger = blackbox::Client::connect(admin).expect("the admin port accepts");
        stranger.send_raw(bytes).expect("the admin port reads");
        stranger
            .half_close()
            .expect("a connected socket can be shut down");
        stranger.drain().expect("the admin port closes");
    }
    assert_eq!(
        http_get(admin, "/healthz")
            .expect("the admin port answers")
            .status,
        200
    );
    assert_eq!(server.client().run("PING").text().as_deref(), Some("PONG"));
}
