//! The port over a real loopback connection.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use admin::{
    Access, AdminSource, CONNECTIONS_MAX, ClusterView, GoalError, GoalRequest, GoalsSet, Handle, Health,
    MovePlan, ProofKey, digest, spawn,
};

/// How long a client of the port may take for a head (`port.rs`).
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Node {
    ill: AtomicBool,
    access: Option<Access>,
    cluster_secret: Option<&'static str>,
}

impl AdminSource for Node {
    fn metrics(&self) -> String {
        "# TYPE up gauge\nup 1\n".into()
    }

    fn health(&self) -> Health {
        if self.ill.load(Ordering::Relaxed) {
            Health::Unhealthy("no memory".into())
        } else {
            Health::Ok
        }
    }

    fn unready(&self) -> Vec<String> {
        let all = ["group 3 is being filled", "the node is stopping"];
        let all = all.map(str::to_owned).into_iter();
        all.filter(|_| self.ill.load(Ordering::Relaxed)).collect()
    }

    fn access(&self) -> Access {
        self.access.unwrap_or(Access::Open)
    }

    fn is_password(&self, given: &[u8]) -> bool {
        given == b"secret"
    }

    fn proof_key(&self) -> Option<ProofKey> {
        self.cluster_secret.map(ProofKey::of_words)
    }

    fn names(&self) -> Vec<String> {
        vec!["node.example.org".to_owned()]
    }

    fn set_goals(&self, request: &GoalRequest) -> Result<GoalsSet, GoalError> {
        match request {
            GoalRequest::Pause { .. } => Err(GoalError::NotKnown("no word".to_owned())),
            GoalRequest::Rebalance {} => Ok(GoalsSet { epoch: Some(17) }),
            _ => Err(GoalError::Refused("too few nodes".to_owned())),
        }
    }

    fn move_plan(&self, factor: Option<&str>) -> Result<MovePlan, String> {
        match self.ill.load(Ordering::Relaxed) {
            true => Err("ask node 1 2 3".to_owned()),
            false => Ok(MovePlan {
                moves: vec![(7, 3)],
                refused: factor.map(|factor| format!("{factor} are too many")),
                ..MovePlan::default()
            }),
        }
    }
}

fn start() -> (SocketAddr, Arc<Node>, Handle) {
    start_for(Node::default())
}

fn start_for(node: Node) -> (SocketAddr, Arc<Node>, Handle) {
    let listener = TcpListener::bind("0.0.0.0:0").expect("the system has a free port");
    let port = listener
        .local_addr()
        .expect("a bound listener has an address")
        .port();
    let node = Arc::new(node);
    let handle = spawn(
        listener,
        Arc::clone(&node) as Arc<dyn AdminSource>,
        CONNECTIONS_MAX,
        [7; 32],
    );
    let handle = handle.expect("a thread can be started");
    (SocketAddr::from(([127, 0, 0, 1], port)), node, handle)
}

/// An address of this machine that is not the loopback's, if it has one.
fn outer_address() -> Option<IpAddr> {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only chooses the address that it would send from.
    probe.connect("192.0.2.1:9").ok()?;
    let ip = probe.local_addr().ok()?.ip();
    (!ip.is_loopback()).then_some(ip)
}

/// A connection as of another machine: from another address than the one that is asked, and neither by the loopback alone.
fn connect_from(outer: IpAddr, address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let connected = runtime.expect("a runtime without threads").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(outer, 0))?;
        socket.connect(address).await?.into_std()
    });
    let stream = connected.expect("the port listens");
    stream.set_nonblocking(false).expect("the system knows how");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("the time is not zero");
    stream
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the port listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("the time is not zero");
    stream
}

/// Sends bytes and reads until the server closes; head in lower case, and body.
fn exchange(address: SocketAddr, request: &str) -> (String, String) {
    exchange_by(connect(address), request)
}

fn exchange_by(mut stream: TcpStream, request: &str) -> (String, String) {
    // The server may refuse and close before it has read everything.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..n]);
    }
    let answer = String::from_utf8(bytes).expect("answers are text");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_ascii_lowercase(), body.into())
}

fn ask(address: SocketAddr, line: &str) -> (String, String) {
    exchange(
        address,
        &format!("{line} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"),
    )
}

#[test]
fn metrics_come_in_the_text_format() {
    let (address, _, handle) = start();
    let (head, body) = ask(address, "GET /metrics");
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert_eq!(body, "# TYPE up gauge\nup 1\n");
    handle.shutdown();
}

#[test]
fn readiness_is_200_or_503_with_all_that_is_missing() {
    let (address, node, handle) = start();
    let (head, body) = ask(address, "GET /readyz");
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert_eq!(body, "ready\n");
    node.ill.store(true, Ordering::Relaxed);
    let (head, body) = ask(address, "GET /readyz");
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert_eq!(body, "not ready: group 3 is being filled; the node is stopping\n");
    handle.shutdown();
}

#[test]
fn health_is_200_or_503_with_the_reason() {
    let (address, node, handle) = start();
    let (head, body) = ask(address, "GET /healthz");
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert_eq!(body, "ok\n");
    node.ill.store(true, Ordering::Relaxed);
    let (head, body) = ask(address, "GET /healthz");
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert_eq!(body, "unhealthy: no memory\n");
    handle.shutdown();
}

#[test]
fn a_node_that_says_nothing_of_others_is_a_cluster_of_one() {
    let (address, _, handle) = start();
    let (head, body) = ask(address, "GET /cluster");
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(ClusterView::from_json(&body), Ok(ClusterView::alone()));
    handle.shutdown();
}

#[test]
fn the_index_links_to_every_page() {
    let (address, _, handle) = start();
    let (head, body) = ask(address, "GET /");
    assert!(head.contains("content-type: text/html"), "{head}");
    for path in ["/metrics", "/healthz", "/cluster", "/transactions"] {
        assert!(body.contains(&format!("<a href=\"{path}\">")), "{body}");
        assert!(
            ask(address, &format!("GET {path}"))
                .0
                .starts_with("http/1.1 200 ")
        );
    }
    handle.shutdown();
}

#[test]
fn head_has_the_head_of_get_and_no_body() {
    let (address, _, handle) = start();
    let (head, body) = ask(address, "HEAD /metrics");
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("content-length: 21"), "{head}");
    assert_eq!(body, "");
    handle.shutdown();
}

#[test]
fn other_paths_and_methods_are_refused_in_words() {
    let (address, _, handle) = start();
    let (head, body) = ask(address, "GET /secret?x=1");
    assert!(
        head.starts_with("http/1.1 404 ") && head.contains("content-type: text/plain"),
        "{head}"
    );
    assert_eq!(body, "no page /secret; / lists the pages\n");
    let (head, body) = ask(address, "DELETE /metrics");
    assert!(
        head.starts_with("http/1.1 405 ") && head.contains("allow: get,head"),
        "{head}"
    );
    assert_eq!(body, "DELETE is not allowed here; GET and HEAD are\n");
    handle.shutdown();
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let (address, _, handle) = start();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: node\r\nX: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    let (head, _) = exchange(address, &request);
    // The answer may be lost with the reset that follows unread bytes; what matters is that there is no page.
    assert!(head.is_empty() || head.starts_with("http/1.1 431 "), "{head}");
    let many = format!("GET / HTTP/1.1\r\nHost: node\r\n{}\r\n", "X: y\r\n".repeat(200));
    assert!(exchange(address, &many).0.starts_with("http/1.1 431 "));
    handle.shutdown();
}

#[test]
fn a_client_of_redis_is_turned_away() {
    let (address, _, handle) = start();
    let (head, _) = exchange(address, "*1\r\n$4\r\nPING\r\n");
    assert!(head.starts_with("http/1.1 400 "), "{head}");
    handle.shutdown();
}

#[test]
fn slow_clients_keep_nobody_from_asking_for_the_nodes_health() {
    let (address, _, handle) = start();
    let slow: Vec<_> = (0..500)
        .map(|at| {
            let mut stream = connect(address);
            if at % 2 == 0 {
                // It may have lost its place already.
                let _ = stream.write_all(b"GET /cluster HTTP/1.1\r\nHost: no");
            }
            stream
        })
        .collect();
    for _ in 0..5 {
        let asked = Instant::now();
        assert!(ask(address, "GET /healthz").0.starts_with("http/1.1 200 "));
        // Who waited for their places would wait until their time for a head is over. A second may go by before the kernel sends a
        // connection request again that found the listener's queue full.
        let waited = asked.elapsed();
        assert!(waited < HEAD_TIME_MAX, "{waited:?}");
    }
    drop(slow);
    handle.shutdown();
}

#[test]
fn from_elsewhere_the_pages_want_what_the_ports_of_clients_want() {
    const PAGES: [&str; 5] = ["/", "/cluster", "/metrics", "/transactions", "/nosuch"];
    let with = |stream, path: &str, header: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\n{header}Connection: close\r\n\r\n");
        let (head, body) = exchange_by(stream, &request);
        (head.get(9..12).map(str::to_owned).expect("a status"), head, body)
    };
    // "any:secret" and "any:secreT".
    let right = "Authorization: Basic YW55OnNlY3JldA==\r\n";
    let wrong = "Authorization: Basic YW55OnNlY3JlVA==\r\n";
    for (access, refusal) in [(Access::Password, "401"), (Access::Loopback, "403")] {
        let (here, _, handle) = start_for(Node {
            access: Some(access),
            ..Node::default()
        });
        for path in PAGES {
            assert!(
                ["200", "404"].contains(&with(connect(here), path, "").0.as_str()),
                "{path}"
            );
        }
        let Some(outer) = outer_address() else {
            return;
        };
        // By an address of its own the machine asks itself.
        let own = SocketAddr::new(outer, here.port());
        assert_eq!(with(connect(own), "/metrics", "").0, "200");
        let elsewhere = || connect_from(outer, here);
        assert_eq!(with(elsewhere(), "/healthz", "").0, "200");
        assert_eq!(with(elsewhere(), "/readyz", "").0, "200");
        for path in PAGES {
            for header in ["", wrong] {
                let (status, head, body) = with(elsewhere(), path, header);
                assert_eq!(status, refusal, "{path}");
                assert!(!body.contains("up 1") && !body.contains("nodes"), "{body}");
                assert_eq!(
                    head.contains("www-authenticate: basic"),
                    refusal == "401",
                    "{head}"
                );
            }
        }
        assert_eq!(with(elsewhere(), "/metrics", right).0, "200");
        handle.shutdown();
    }
}

#[test]
fn from_elsewhere_goals_are_taken_from_whoever_proves_that_he_knows_the_secret() {
    let (here, _, handle) = start_for(Node {
        access: Some(Access::Loopback),
        cluster_secret: Some("open sesame"),
        ..Node::default()
    });
    let Some(outer) = outer_address() else {
        return;
    };
    let ask = |request: String| {
        let (head, body) = exchange_by(connect_from(outer, here), &request);
        (head.get(9..12).map(str::to_owned).expect("a status"), body)
    };
    let challenge = || {
        let (status, body) =
            ask("GET /challenge HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n".to_owned());
        assert_eq!(status, "200");
        body.trim_end().to_owned()
    };
    let goal = GoalRequest::Rebalance {}.to_json();
    let post = |challenge: &str, proof: &str, body: &str| {
        ask(format!(
            "POST /goals HTTP/1.1\r\nHost: node\r\nx-chorale-confirm: goals\r\nx-chorale-challenge: {challenge}\r\n\
             x-chorale-digest: {}\r\nx-chorale-proof: {proof}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            digest(body.as_bytes()),
            body.len()
        ))
    };
    let key = ProofKey::of_words("open sesame");
    let given = challenge();
    let proof = key.proof(&given, "POST", "/goals", &digest(goal.as_bytes()));
    // Neither a password nor that others may read helps.
    let unproven = ask(format!(
        "POST /goals HTTP/1.1\r\nHost: node\r\nAuthorization: Basic YW55OnNlY3JldA==\r\nx-chorale-confirm: goals\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{goal}",
        goal.len()
    ));
    assert_eq!(unproven.0, "403");
    assert!(unproven.1.contains("--cluster-secret-file"), "{}", unproven.1);
    let stranger = ProofKey::of_words("open poppy").proof(&given, "POST", "/goals", &digest(goal.as_bytes()));
    assert_eq!(post(&given, &stranger, &goal).0, "403");
    assert_eq!(
        post(&given, &proof, &GoalRequest::Resume {}.to_json()).0,
        "403",
        "of another request"
    );
    let (status, body) = post(&given, &proof, &goal);
    assert_eq!(status, "200", "{body}");
    assert!(body.contains("17"), "{body}");
    assert_eq!(post(&given, &proof, &goal).0, "403", "a proof is taken once");
    // Of whoever proves nothing no body is waited for.
    for headers in ["x-chorale-proof: 00\r\n", ""] {
        let request = format!(
            "POST /goals HTTP/1.1\r\nHost: node\r\n{headers}Content-Length: 9\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(ask(request).0, "403", "{headers}");
    }
    // A recovery stays with the node's own machine.
    let given = challenge();
    let proof = key.proof(&given, "POST", "/recover", &digest(b"{}"));
    let (status, _) = ask(format!(
        "POST /recover HTTP/1.1\r\nHost: node\r\nx-chorale-confirm: recover\r\nx-chorale-challenge: {given}\r\n\
         x-chorale-digest: {}\r\nx-chorale-proof: {proof}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}",
        digest(b"{}")
    ));
    assert_eq!(status, "403");
    // And pages are shown, though no password is set.
    let given = challenge();
    let proof = key.proof(&given, "GET", "/cluster", &digest(b""));
    let (status, body) = ask(format!(
        "GET /cluster HTTP/1.1\r\nHost: node\r\nx-chorale-challenge: {given}\r\nx-chorale-digest: {}\r\nx-chorale-proof: {proof}\r\nConnection: close\r\n\r\n",
        digest(b"")
    ));
    assert_eq!(status, "200", "{body}");
    handle.shutdown();
}

#[test]
fn a_node_without_a_secret_takes_no_proof() {
    let (here, _, handle) = start();
    let (head, _) = exchange(
        here,
        "GET /challenge HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n",
    );
    assert!(head.starts_with("http/1.1 404"), "{head}");
    let request = "GET /cluster HTTP/1.1\r\nHost: node\r\nx-chorale-proof: 00\r\nConnection: close\r\n\r\n";
    let (head, _) = exchange(here, request);
    assert!(
        head.starts_with("http/1.1 200"),
        "of this machine nobody asks for one: {head}"
    );
    if let Some(outer) = outer_address() {
        let (head, _) = exchange_by(connect_from(outer, here), request);
        assert!(head.starts_with("http/1.1 403"), "{head}");
    }
    handle.shutdown();
}

#[test]
fn a_page_that_has_pointed_its_own_name_here_reads_nothing() {
    let (address, _, handle) = start();
    let named = |host: &str, line: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(address, &request).0
    };
    for page in ["/", "/cluster", "/metrics", "/transactions"] {
        for host in ["evil.example", "evil.example:9121", "127.0.0.1.evil.example"] {
            assert!(
                named(host, &format!("GET {page}")).contains(" 421 "),
                "{host} {page}"
            );
        }
        for host in [
            "127.0.0.1:9121",
            "[::1]:9121",
            "localhost",
            "node",
            "node.example.org:9121",
        ] {
            assert!(
                named(host, &format!("GET {page}")).contains(" 200 "),
                "{host} {page}"
            );
        }
    }
    assert!(named("evil.example", "POST /recover").contains(" 421 "));
    assert!(named("evil.example", "GET /healthz").contains(" 200 "));
    handle.shutdown();
}

#[test]
fn shutdown_closes_the_port_and_open_connections() {
    let (address, _, handle) = start();
    let mut open = connect(address);
    open.write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
        .unwrap();
    let mut first = [0; 1];
    open.read_exact(&mut first).unwrap();
    handle.shutdown();
    let mut rest = Vec::new();
    let _ = open.read_to_end(&mut rest);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_goal_of_which_nobody_knows_whether_it_was_set_is_not_said_to_be_refused() {
    let (address, _node, handle) = start();
    let post = |request: &GoalRequest| {
        let (header, body) = (admin::CONFIRMATION, request.to_json());
        let length = body.len();
        exchange(
            address,
            &format!("POST /goals HTTP/1.0\r\n{header}: goals\r\nContent-Length: {length}\r\n\r\n{body}"),
        )
    };
    let (head, body) = post(&GoalRequest::Resume {});
    assert!(
        head.contains(" 409 ") && body.contains("too few"),
        "{head}\n{body}"
    );
    let (head, body) = post(&GoalRequest::Pause { seconds: None });
    assert!(
        head.contains(" 504 ") && body.starts_with("it is not known whether it was done (no word): look at"),
        "{head}\n{body}"
    );
    let (head, body) = post(&GoalRequest::Rebalance {});
    assert!(head.contains(" 200 "), "{head}\n{body}");
    assert_eq!(GoalsSet::from_json(&body).epoch, Some(17));
    handle.shutdown();
}

#[test]
fn what_a_rebalance_would_move_is_shown_by_nodes_that_know_it() {
    let (address, node, handle) = start();
    let get = || exchange(address, "GET /rebalance HTTP/1.0\r\n\r\n");
    let (head, body) = get();
    assert!(head.contains(" 200 "), "{head}\n{body}");
    let plan = MovePlan::from_json(&body).expect("it is a plan");
    assert_eq!((plan.moves, plan.refused), (vec![(7, 3)], None));
    let (_, body) = exchange(address, "GET /set-rf/5 HTTP/1.0\r\n\r\n");
    let plan = MovePlan::from_json(&body).expect("it is a plan");
    assert_eq!(plan.refused.as_deref(), Some("5 are too many"));
    node.ill.store(true, Ordering::Relaxed);
    let (head, body) = get();
    assert!(
        head.contains(" 409 ") && body.contains("ask node 1 2 3"),
        "{head}\n{body}"
    );
    handle.shutdown();
}

#[test]
fn a_recovery_must_be_confirmed_and_readable_and_is_the_nodes_own_decision() {
    let (address, _node, handle) = start();
    let post = |header: &str, body: &str| {
        let length = body.len();
        let request = format!("POST /recover HTTP/1.0\r\n{header}Content-Length: {length}\r\n\r\n{body}");
        exchange(address, &request)
    };
    let recovery = r#"{"gone":[],"groups":[{"group":1,"node":2,"recovery_source":3}]}"#;
    let (head, body) = post("", recovery);
    assert!(
        head.starts_with("http/1.0 403") || head.starts_with("http/1.1 403"),
        "{head}"
    );
    assert!(body.contains(admin::CONFIRMATION), "{body}");
    let confirmed = format!("{}: recover\r\n", admin::CONFIRMATION);
    let (head, body) = post(&confirmed, "{");
    assert!(
        head.contains(" 400 ") && body.contains("no recovery"),
        "{head}\n{body}"
    );
    let (head, body) = post(&confirmed, recovery);
    assert!(
        head.contains(" 409 ") && body.contains("in no cluster"),
        "{head}\n{body}"
    );
    let (head, _) = exchange(address, "GET /recover HTTP/1.0\r\n\r\n");
    assert!(head.contains(" 405 "), "{head}");
    handle.shutdown();
}
