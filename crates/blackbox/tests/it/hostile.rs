//! Clients that mean harm, or are broken: each may lose its own connection, and nobody else may notice.

use std::io;
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Prng, Server, Value, eventually, frame};

/// An ordinary command waits at most this long while somebody misbehaves. Far above what it should be, because the
/// machine that tests is busy.
const PROMPT: Duration = Duration::from_secs(2);

/// Memory that the process may gain while it is abused: limits, buffers, and the allocator's reserve.
const MEMORY_SLACK_BYTES: u64 = 128 << 20;

/// A client that does nothing wrong, to be served whatever others do.
struct Bystander(Client);

impl Bystander {
    fn of(server: &Server) -> Self {
        Self(server.client())
    }

    #[track_caller]
    fn is_served(&mut self) {
        let start = Instant::now();
        self.0.run_ok("SET bystander here");
        assert_eq!(self.0.run("GET bystander"), Value::bulk("here"));
        assert!(
            start.elapsed() < PROMPT,
            "an innocent client waited {:?}",
            start.elapsed()
        );
    }
}

/// Sends bytes, expects this error, and the end of the connection after it.
#[track_caller]
fn is_refused(server: &Server, bytes: &[u8], error: &str) {
    let mut client = server.client();
    client.send_raw(bytes).expect("the server reads");
    let shown = bytes[..bytes.len().min(60)].escape_ascii();
    match client.receive() {
        Ok(reply) => assert_eq!(reply.error().as_deref(), Some(error), "reply to {shown}"),
        Err(problem) => panic!("no reply to {shown}: {problem}"),
    }
    client
        .drain()
        .unwrap_or_else(|problem| panic!("still open after {shown}: {problem}"));
}

/// Writes until the server has closed the connection; answers how many bytes it let in.
fn write_until_closed(client: &mut Client, chunk: &[u8], limit: usize) -> usize {
    let mut total = 0;
    while total < limit {
        match client.send_raw(chunk) {
            Ok(()) => total += chunk.len(),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::ConnectionAborted
                ) =>
            {
                return total;
            }
            Err(error) => panic!("the server neither reads nor closes: {error}"),
        }
    }
    panic!("the server took {total} bytes and wants more");
}

#[test]
fn frames_that_lie_about_lengths_are_refused_as_redis_refuses_them() {
    let server = Server::subject().start();
    let mut bystander = Bystander::of(&server);
    let bulk = "ERR Protocol error: invalid bulk length";
    let multibulk = "ERR Protocol error: invalid multibulk length";
    for (bytes, error) in [
        ("*2147483648\r\n", multibulk),
        ("*9223372036854775808\r\n", multibulk),
        ("*99999999999999999999999\r\n", multibulk),
        ("*abc\r\n", multibulk),
        ("*1x\r\n", multibulk),
        ("* 1\r\n", multibulk),
        ("*+1\r\n", multibulk),
        ("*\r\n", multibulk),
        ("*1\r\n$-1\r\n", bulk),
        ("*1\r\n$-2147483648\r\n", bulk),
        ("*1\r\n$536870913\r\n", bulk),
        ("*1\r\n$9223372036854775807\r\n", bulk),
        ("*1\r\n$18446744073709551616\r\n", bulk),
        ("*1\r\n$\r\n", bulk),
        ("*1\r\n$4x\r\nPING\r\n", bulk),
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-5\r\n", bulk),
        ("*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
        (
            "*2\r\n$4\r\nPING\r\nx\r\n",
            "ERR Protocol error: expected '$', got 'x'",
        ),
        (
            "PING \"open\r\n",
            "ERR Protocol error: unbalanced quotes in request",
        ),
        (
            "SET k 'a'b\r\n",
            "ERR Protocol error: unbalanced quotes in request",
        ),
    ] {
        is_refused(&server, bytes.as_bytes(), error);
    }
    bystander.is_served();
}

#[test]
fn empty_requests_are_passed_over() {
    let server = Server::subject().start();
    let mut client = server.client();
    client
        .send_raw(b"*0\r\n*-1\r\n*-10\r\n\r\n\n*1\r\n$4\r\nPING\r\n")
        .expect("the server reads");
    assert_eq!(
        client.receive().expect("one request has content"),
        Value::Simple(b"PONG".to_vec())
    );
}

#[test]
fn lengths_without_content_cost_no_memory() {
    let server = Server::subject().start();
    let mut bystander = Bystander::of(&server);
    bystander.is_served();
    let before = server.resident_bytes();
    let mut clients = Vec::new();
    for index in 0..200 {
        let mut client = server.client();
        // All three are legal beginnings, and promise a gigabyte or more.
        let bytes: &[u8] = match index % 3 {
            0 => b"*2147483647\r\n",
            1 => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n",
            _ => b"*1000000\r\n$4\r\nMSET\r\n$1\r\n",
        };
        client.send_raw(bytes).expect("the server reads");
        clients.push(client);
    }
    bystander.is_served();
    let gained = server.resident_bytes().saturating_sub(before);
    assert!(gained < MEMORY_SLACK_BYTES, "{gained} bytes for 200 short lies");
}

#[test]
fn nested_arrays_are_refused_at_the_first_level() {
    let server = Server::subject().start();
    is_refused(
        &server,
        &b"*1\r\n".repeat(10_000),
        "ERR Protocol error: expected '$', got '*'",
    );
    Bystander::of(&server).is_served();
}

#[test]
fn lines_without_an_end_are_refused() {
    let server = Server::subject().start();
    is_refused(
        &server,
        &[b'a'; 70_000],
        "ERR Protocol error: too big inline request",
    );
    let mut endless = b"*".to_vec();
    endless.resize(70_000, b'1');
    is_refused(
        &server,
        &endless,
        "ERR Protocol error: too big mbulk count string",
    );
    let mut endless = b"*1\r\n$".to_vec();
    endless.resize(70_000, b'1');
    is_refused(&server, &endless, "ERR Protocol error: too big bulk count string");
    Bystander::of(&server).is_served();
}

#[test]
fn garbage_ends_at_most_its_own_connection() {
    let mut server = Server::subject().start();
    let mut bystander = Bystander::of(&server);
    let mut prng = Prng::new(11);
    for round in 0..300 {
        let mut client = server.client();
        let mut bytes: Vec<u8> = (0..1 + prng.below(400)).map(|_| prng.bits() as u8).collect();
        match round % 3 {
            0 => {}
            // Valid frames with a few bytes changed get further into the parser than noise does.
            1 => {
                bytes = frame(&["SET", "key", "value"]).repeat(5);
                for _ in 0..1 + prng.below(4) {
                    let index = prng.below(bytes.len());
                    bytes[index] = prng.bits() as u8;
                }
            }
            _ => {
                const ALPHABET: &[u8] = b"*$\r\n-0123456789:+\"' SETGET\\x";
                bytes.iter_mut().for_each(|byte| *byte = *prng.pick(ALPHABET));
            }
        }
        // The server may have closed before all is sent.
        let _ = client.send_raw(&bytes);
        let _ = client.half_close();
        client
            .drain()
            .unwrap_or_else(|error| panic!("round {round} is not closed: {error}"));
    }
    assert!(server.is_alive());
    bystander.is_served();
}

#[test]
fn strangers_get_small_limits_before_they_authenticate() {
    let server = Server::subject().requirepass("secret").start();
    let noauth = "NOAUTH Authentication required.";

    let mut client = server.client();
    assert_eq!(client.run("GET k").error().as_deref(), Some(noauth));
    assert!(
        client
            .run("AUTH wrong")
            .error()
            .is_some_and(|text| text.starts_with("WRONGPASS"))
    );
    assert_eq!(client.run("SET k v").error().as_deref(), Some(noauth));

    is_refused(
        &server,
        b"*11\r\n",
        "ERR Protocol error: unauthenticated multibulk length",
    );
    is_refused(
        &server,
        b"*2\r\n$4\r\nAUTH\r\n$16385\r\n",
        "ERR Protocol error: unauthenticated bulk length",
    );
    // The limits themselves are within the limits.
    assert_eq!(client.command(&["MGET"; 10]).error().as_deref(), Some(noauth));
    assert!(
        client
            .command(&["AUTH", &"x".repeat(16_384)])
            .error()
            .is_some_and(|text| text.starts_with("WRONGPASS"))
    );

    client.run_ok("AUTH secret");
    let large = "x".repeat(1_000_000);
    assert_eq!(client.command(&["SET", "k", &large]), Value::ok());
    assert_eq!(client.command(&["EXISTS"; 1_001]), Value::Integer(0));
}

#[test]
fn a_flood_of_strangers_costs_little_and_harms_nobody() {
    let server = Server::subject().requirepass("secret").start();
    let mut known = server.client();
    known.run_ok("AUTH secret");
    let mut bystander = Bystander(known);
    bystander.is_served();
    let before = server.resident_bytes();
    let mut strangers = Vec::new();
    for _ in 0..100 {
        let mut client = server.client();
        client
            .send_raw(b"*2\r\n$4\r\nAUTH\r\n$16384\r\n")
            .expect("the server reads");
        client.send_raw(&[b'x'; 10_000]).expect("the server reads");
        strangers.push(client);
    }
    bystander.is_served();
    // Strangers who ask without listening may be dropped sooner than others, as Redis does.
    let mut loud = server.client();
    let _ = loud.send_raw(&frame(&["GET", "k"]).repeat(5_000));
    let _ = loud.half_close();
    loud.drain().expect("the connection is closed");
    bystander.is_served();
    assert!(server.resident_bytes().saturating_sub(before) < MEMORY_SLACK_BYTES);
}

const LARGE_BYTES: usize = 16 << 20;

/// Readers ask for a large value again and again, and read nothing, until no process keeps more than so many bytes for them.
/// The most that each takes meanwhile beside what it took.
fn ask_and_never_read(
    readers: &mut [Client],
    requests: usize,
    processes: &[u32],
    kept_bytes_max: u64,
) -> Vec<u64> {
    let resident = || processes.iter().map(|process| blackbox::resident_bytes(*process));
    let before: Vec<u64> = resident().collect();
    let asked = frame(&["GET", "large"]).repeat(requests);
    for reader in readers {
        reader.send_raw(&asked).expect("the server reads");
    }
    let (mut most, began) = (vec![0; processes.len()], Instant::now());
    // It takes a second or two until all of them are answered, if nothing bounds them.
    while began.elapsed() < Duration::from_secs(3) {
        for ((most, now), before) in most.iter_mut().zip(resident()).zip(&before) {
            *most = (*most).max(now.saturating_sub(*before));
        }
    }
    eventually("little is kept for readers that never read", || {
        resident()
            .zip(&before)
            .all(|(now, before)| now < before + kept_bytes_max)
    });
    most
}

/// So many connections whose own worker holds the key `large`, or whose does not: commands on it go to the other one then.
fn readers_of_worker(server: &Server, count: usize, is_own: bool) -> Vec<Client> {
    let mut observer = server.client();
    let mut hops = || observer.info_number("chorale", "hops");
    // What the look itself takes: other workers are asked for their figures.
    let first = hops();
    let look = hops() - first;
    let mut readers = Vec::new();
    // Connections are dealt out among the workers.
    eventually("each worker has been given connections", || {
        let mut reader = server.client();
        let before = hops();
        assert_eq!(
            reader.run("STRLEN large").integer().map(|bytes| bytes > 0),
            Some(true)
        );
        if (hops() - before == look) == is_own {
            readers.push(reader);
        }
        readers.len() == count
    });
    readers
}

/// Readers that are many, and what they ask for: small enough that a connection may have several replies.
const READERS: usize = 10;
const VALUE_BYTES: usize = 1 << 20;

/// What docs/limits.md lists among the limits of one connection: its replies that are ready in one turn...
const TURN_OUTPUT_BYTES: u64 = 1 << 20;

/// ... and replies of others that have come, and that are expected.
const UNSENT_BYTES_MAX: u64 = 16 << 20;

/// The allocator's reserve, and what a process takes for other reasons.
const RESERVE_BYTES: u64 = 32 << 20;

/// How large a reply is that another worker or node computes is not known before it comes: eight are asked for at first, and
/// each lies where it was computed, on its way, and where it is to be sent.
const UNREAD_BYTES_MAX: u64 = 8 * 5 * LARGE_BYTES as u64;

/// In the end they lie where they are to be sent, and only there.
const KEPT_BYTES_MAX: u64 = 8 * LARGE_BYTES as u64 + RESERVE_BYTES;

/// The same of values of which sixteen may be under way to each reader: while they are, they lie in two places.
const UNREAD_BY_MANY_BYTES_MAX: u64 =
    READERS as u64 * 2 * (UNSENT_BYTES_MAX + VALUE_BYTES as u64) + RESERVE_BYTES;

#[test]
fn large_replies_of_the_own_worker_that_nobody_reads_are_not_gathered() {
    let server = Server::subject().workers(2).start();
    if server.is_redis() {
        return; // it gathers all, up to the output limit
    }
    for bytes in [VALUE_BYTES, LARGE_BYTES] {
        let value = "x".repeat(bytes);
        assert_eq!(server.client().command(&["SET", "large", &value]), Value::ok());
        let mut readers = readers_of_worker(&server, READERS, true);
        // The last reply goes past what a turn may gather, if it is large.
        let bound = READERS as u64 * (TURN_OUTPUT_BYTES + bytes as u64) + RESERVE_BYTES;
        let most = ask_and_never_read(&mut readers, 300, &[server.process_id()], bound)[0];
        assert!(most < bound, "{} of {} MB", most >> 20, bound >> 20);
        Bystander::of(&server).is_served();
    }
}

#[test]
fn large_replies_of_another_worker_that_nobody_reads_are_not_gathered() {
    let server = Server::subject().workers(2).start();
    if server.is_redis() {
        return; // it gathers all, up to the output limit
    }
    for (count, bytes, bound, kept_bound) in [
        // What of small ones was freed goes back to the system late.
        (
            READERS,
            VALUE_BYTES,
            UNREAD_BY_MANY_BYTES_MAX,
            UNREAD_BY_MANY_BYTES_MAX,
        ),
        (1, LARGE_BYTES, UNREAD_BYTES_MAX, KEPT_BYTES_MAX),
    ] {
        let value = "x".repeat(bytes);
        assert_eq!(server.client().command(&["SET", "large", &value]), Value::ok());
        let mut readers = readers_of_worker(&server, count, false);
        let most = ask_and_never_read(&mut readers, 300, &[server.process_id()], kept_bound)[0];
        assert!(most < bound, "{} of {} MB", most >> 20, bound >> 20);
        Bystander::of(&server).is_served();
    }
}

#[test]
fn large_replies_of_another_node_that_nobody_reads_are_not_gathered() {
    let mut cluster = Cluster::new(4);
    cluster.workers(2);
    cluster.grow(3);
    let processes: Vec<u32> = (0..3).map(|node| cluster.process_id(node)).collect();
    for (count, bytes, bound, kept_bound) in [
        // What of small ones was freed goes back to the system late.
        (
            READERS,
            VALUE_BYTES,
            UNREAD_BY_MANY_BYTES_MAX,
            UNREAD_BY_MANY_BYTES_MAX,
        ),
        (1, LARGE_BYTES, UNREAD_BYTES_MAX, KEPT_BYTES_MAX),
    ] {
        let value = "x".repeat(bytes);
        assert_eq!(cluster.client(0).command(&["SET", "large", &value]), Value::ok());
        for node in 0..3 {
            let mut readers: Vec<Client> = (0..count).map(|_| cluster.client(node)).collect();
            let most = ask_and_never_read(&mut readers, 300, &processes, kept_bound);
            let most: Vec<u64> = most.iter().map(|bytes| bytes >> 20).collect();
            assert!(
                most.iter().all(|most| *most < bound >> 20),
                "through node {node}: {most:?} of {} MB",
                bound >> 20
            );
            assert_eq!(
                cluster.client(node).run("STRLEN large"),
                Value::Integer(bytes as i64)
            );
        }
    }
}

#[test]
fn listeners_at_any_node_that_read_nothing_are_closed_and_cost_their_limit() {
    const LISTENERS: usize = 4;
    const LIMIT_BYTES: u64 = 8 << 20;
    let mut cluster = Cluster::new(4);
    cluster.workers(2);
    cluster.grow(3);
    let mut publisher = cluster.client(0);
    let limit = format!("pubsub {LIMIT_BYTES} 0 0");
    assert_eq!(
        publisher.command(&["CONFIG", "SET", "client-output-buffer-limit", &limit]),
        Value::ok()
    );
    // Connections are dealt out among the workers.
    let mut listeners: Vec<Client> = Vec::new();
    for node in 0..3 {
        for _ in 0..LISTENERS {
            let mut listener = cluster.client(node);
            listener.run("SUBSCRIBE much");
            listeners.push(listener);
        }
    }
    let message = "x".repeat(VALUE_BYTES);
    let heard = |publisher: &mut Client| publisher.command(&["PUBLISH", "much", &message]);
    eventually("all are heard of", || {
        heard(&mut publisher) == Value::Integer(listeners.len() as i64)
    });
    let resident = || (0..3).map(|node| blackbox::resident_bytes(cluster.process_id(node)));
    let before: Vec<u64> = resident().collect();
    // The message that is too much for a listener, and the messages of one command, come on top.
    let bound = LISTENERS as u64 * (LIMIT_BYTES + 2 * VALUE_BYTES as u64) + RESERVE_BYTES;
    eventually("all are closed", || {
        let is_over = heard(&mut publisher) == Value::Integer(0);
        for (now, before) in resident().zip(&before) {
            let gained = now.saturating_sub(*before);
            assert!(gained < bound, "{} of {} MB", gained >> 20, bound >> 20);
        }
        is_over
    });
}

#[test]
fn a_reader_that_never_reads_is_dropped_at_the_output_limit() {
    const VALUE_BYTES: usize = 100_000;
    const REQUESTS: usize = 5_000;
    let server = Server::subject().workers(2).start();
    let mut bystander = Bystander::of(&server);
    let observer = &mut server.client();
    assert_eq!(
        observer.command(&[
            "CONFIG",
            "SET",
            "client-output-buffer-limit",
            "normal 1048576 0 0"
        ]),
        Value::ok()
    );
    assert_eq!(
        observer.command(&["SET", "large", &"x".repeat(VALUE_BYTES)]),
        Value::ok()
    );
    let before = server.resident_bytes();
    let connected = observer.info_number("clients", "connected_clients");

    let mut reader = server.client();
    reader.run("PING");
    // It may be dropped before it has sent all.
    let _ = reader.send_raw(&frame(&["GET", "large"]).repeat(REQUESTS));

    eventually("the reader is dropped", || {
        bystander.is_served();
        observer.info_number("clients", "connected_clients") == connected
    });
    let gained = server.resident_bytes().saturating_sub(before);
    assert!(gained < MEMORY_SLACK_BYTES, "{gained} bytes for one slow reader");
    let received = reader.drain().expect("the connection is closed");
    assert!(
        received < VALUE_BYTES * REQUESTS / 4,
        "{received} bytes were kept for it"
    );
}

#[test]
fn a_frame_that_never_ends_is_dropped_at_the_query_limit() {
    let server = Server::subject().workers(2).start();
    let mut bystander = Bystander::of(&server);
    let mut observer = server.client();
    observer.run_ok("CONFIG SET client-query-buffer-limit 1048576");
    let before = server.resident_bytes();
    for beginning in [
        &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\n"[..],
        b"*1000000\r\n$4\r\nMSET\r\n$300000000\r\n",
    ] {
        let mut client = server.client();
        client.send_raw(beginning).expect("the server reads");
        let taken = write_until_closed(&mut client, &[b'x'; 65_536], 200 << 20);
        assert!(taken < 64 << 20, "{taken} bytes were taken");
        bystander.is_served();
    }
    // The same in many small arguments, which Redis 7.0 does not count.
    if !server.is_redis() {
        let mut client = server.client();
        client.send_raw(b"*1000000\r\n").expect("the server reads");
        let argument = [&b"$100\r\n"[..], &[b'x'; 100], b"\r\n"].concat();
        let taken = write_until_closed(&mut client, &argument.repeat(500), 100 << 20);
        assert!(taken < 64 << 20, "{taken} bytes were taken");
        bystander.is_served();
    }
    let gained = server.resident_bytes().saturating_sub(before);
    assert!(gained < MEMORY_SLACK_BYTES, "{gained} bytes");
}

#[test]
fn connections_above_maxclients_are_told_so_and_closed() {
    const LIMIT: usize = 10;
    let server = Server::subject().workers(2).maxclients(LIMIT).start();
    // The harness's own connection, which waited for the start, may still be on its way out.
    let mut clients: Vec<Client> = Vec::new();
    eventually("as many connections as are allowed", || {
        let mut client = server.client();
        if client
            .try_command(&["PING"])
            .is_ok_and(|reply| reply.error().is_none())
        {
            clients.push(client);
        }
        clients.len() == LIMIT
    });
    for _ in 0..20 {
        let mut refused = server.client();
        let reply = refused
            .receive()
            .expect("the reason is said without being asked for");
        assert_eq!(
            reply.error().as_deref(),
            Some("ERR max number of clients reached")
        );
        refused.drain().expect("the connection is closed");
    }
    for client in &mut clients {
        assert_eq!(client.run("PING"), Value::Simple(b"PONG".to_vec()));
    }
    assert!(clients[0].info_number("stats", "rejected_connections") >= 20);
    clients.pop();
    eventually("a place that becomes free is given away", || {
        server
            .client()
            .try_command(&["PING"])
            .is_ok_and(|reply| reply.error().is_none())
    });
}

#[test]
fn a_half_closed_connection_gets_its_replies_before_the_end() {
    let server = Server::subject().workers(2).start();
    for count in [1, 10, 300] {
        let mut client = server.client();
        let bytes: Vec<u8> = (0..count)
            .flat_map(|index| frame(&["SET", &format!("k{index}"), "v"]))
            .collect();
        client.send_raw(&bytes).expect("the server reads");
        client.half_close().expect("a connected socket can be shut down");
        for _ in 0..count {
            assert_eq!(client.receive().expect("a reply to each"), Value::ok());
        }
        assert_eq!(client.drain().expect("then the end"), 0);
    }
    assert_eq!(server.client().run("DBSIZE"), Value::Integer(300));
}

#[test]
fn clients_that_die_inside_a_frame_leave_nothing_behind() {
    let server = Server::subject().workers(2).start();
    let mut bystander = Bystander::of(&server);
    let mut observer = server.client();
    eventually("only two clients", || {
        observer.info_number("clients", "connected_clients") == 2
    });
    let open = server.open_files();
    let whole = frame(&["SET", "key", "never"]);
    for end in 1..whole.len() {
        let mut client = server.client();
        client.send_raw(&whole[..end]).expect("the server reads");
    }
    for command in ["WATCH key", "MULTI", "CLIENT SETNAME gone"] {
        server.client().run_ok(command);
    }
    eventually("they are forgotten", || {
        observer.info_number("clients", "connected_clients") == 2
    });
    eventually("their sockets are closed", || server.open_files() == open);
    assert_eq!(observer.run("EXISTS key"), Value::Integer(0));
    bystander.is_served();
}

#[test]
fn a_block_that_dies_before_exec_has_done_nothing() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    client.run_ok("MULTI");
    client.run("SET key never");
    drop(client);
    let mut observer = server.client();
    eventually("it is gone", || {
        observer.info_number("clients", "connected_clients") == 1
    });
    assert_eq!(observer.run("EXISTS key"), Value::Integer(0));
}

#[test]
fn thousands_of_short_visits_leak_nothing() {
    let server = Server::subject().workers(2).start();
    let mut observer = server.client();
    eventually("only one client", || {
        observer.info_number("clients", "connected_clients") == 1
    });
    let open = server.open_files();
    let before = server.resident_bytes();
    for visit in 0..3_000 {
        let mut client = server.client();
        match visit % 4 {
            0 => {}
            1 => client.send_raw(b"PING\r\n").expect("the server reads"),
            2 => client
                .send_raw(b"*2\r\n$3\r\nGET\r\n$1")
                .expect("the server reads"),
            _ => assert_eq!(client.run("PING"), Value::Simple(b"PONG".to_vec())),
        }
    }
    eventually("all visitors are gone", || {
        observer.info_number("clients", "connected_clients") == 1
    });
    eventually("their sockets are closed", || server.open_files() == open);
    assert!(server.resident_bytes().saturating_sub(before) < MEMORY_SLACK_BYTES / 2);
    assert!(observer.info_number("stats", "total_connections_received") >= 3_000);
}

#[test]
fn unknown_commands_are_refused_and_the_connection_stays() {
    let server = Server::subject().start();
    let mut client = server.client();
    assert_eq!(
        client.run("NOSUCH a b").error().as_deref(),
        Some("ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ")
    );
    let long = "n".repeat(100_000);
    let text = client
        .command(&[long.as_str(), long.as_str()])
        .error()
        .expect("nobody knows this command");
    assert!(text.len() < 1_000, "an error of {} bytes", text.len());
    let broken = client
        .command(&["no\r\nsuch", "+OK\r\n"])
        .error()
        .expect("nobody knows this command");
    assert!(
        !broken.contains('\n'),
        "a line end of the client's came back: {broken:?}"
    );
    assert!(
        client
            .run("CONFIG NOSUCH")
            .error()
            .is_some_and(|text| text.starts_with("ERR unknown subcommand"))
    );
    assert!(
        client
            .run("GET")
            .error()
            .is_some_and(|text| text.contains("wrong number of arguments"))
    );
    assert_eq!(client.run("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn a_web_page_that_posts_to_a_port_of_clients_is_cut_off_before_its_body() {
    let server = Server::subject().start();
    let body = "CONFIG SET maxclients 77\r\nSET page here\r\nPUBLISH c m\r\n";
    let post = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60\r\n\r\n{body}");
    let get = format!("GET / HTTP/1.1\r\nhOST: 127.0.0.1\r\n\r\n{body}");
    let framed = [frame(&["pOsT", "/"]), body.as_bytes().to_vec()].concat();
    let ports = [Some(server.address()), server.cluster_address()];
    for port in ports.into_iter().flatten() {
        for request in [post.as_bytes(), get.as_bytes(), &framed] {
            // As it comes, and in pieces that end anywhere in the first two lines.
            for cut in [request.len(), 2, 5, 19] {
                let mut page = Client::connect(port).expect("the port listens");
                let (first, rest) = request.split_at(cut.min(request.len()));
                page.send_raw(first).expect("the server reads");
                let _ = page.send_raw(rest);
                page.drain().expect("the connection ends at once");
            }
        }
    }
    let mut client = server.client();
    assert_eq!(client.run("EXISTS page"), Value::Integer(0));
    let clients = client.command(&["CONFIG", "GET", "maxclients"]);
    assert_ne!(clients.elements().expect("a pair")[1], Value::bulk("77"));
    if !server.is_redis() {
        let lines = server.log().matches("it sends HTTP").count();
        assert_eq!(lines, 1, "{}", server.log());
    }
}

#[test]
fn what_was_asked_for_before_a_post_is_answered() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    client
        .send_raw(b"SET k v\r\nGET k\r\nPOST /\r\nSET k w\r\n")
        .expect("the server reads");
    assert_eq!(client.receive().expect("a reply"), Value::ok());
    assert_eq!(client.receive().expect("a reply"), Value::bulk("v"));
    assert_eq!(client.drain().expect("then the end"), 0);
    assert_eq!(server.client().run("GET k"), Value::bulk("v"));
}

#[test]
fn with_few_descriptors_fewer_clients_are_let_in_and_the_rest_are_told() {
    let server = Server::subject().open_files(64).start();
    let mut clients: Vec<Client> = (0..80).map(|_| server.client()).collect();
    let mut served = 0;
    for client in &mut clients {
        client.set_patience(Duration::from_secs(5));
        // One who is refused is told before it asks, and may not be able to.
        let _ = client.send(&["PING"]);
        let reply = client.receive().expect("an answer, or a refusal");
        match reply.error() {
            None => served += 1,
            Some(text) => assert_eq!(text, "ERR max number of clients reached"),
        }
    }
    let shown = clients[0].command(&["CONFIG", "GET", "maxclients"]);
    assert_eq!(shown.elements().expect("a pair")[1], Value::bulk("32"));
    assert!((30..=32).contains(&served), "{served}");
    let more = clients[0].command(&["CONFIG", "SET", "maxclients", "100"]);
    assert!(
        more.error()
            .is_some_and(|text| text.contains("The operating system is not able")),
        "{more:?}"
    );
    if !server.is_redis() {
        let log = server.log();
        assert_eq!(log.matches("maxclients is lowered").count(), 1, "{log}");
        assert_eq!(log.matches("WARN").count(), 1, "{log}");
    }
}

#[test]
fn a_node_out_of_descriptors_says_so_once_and_goes_on_when_there_are_some() {
    let server = Server::subject().start();
    let mut observer = server.client();
    observer.run("PING");
    let limit = format!("--nofile={0}:{0}", server.open_files() + 5);
    let pid = server.process_id().to_string();
    let changed = std::process::Command::new("prlimit")
        .args(["--pid", &pid, &limit])
        .status();
    assert!(changed.expect("util-linux is installed").success());
    let mut waiting: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let mut last = waiting.pop().expect("there are twenty");
    last.send(&["PING"]).expect("the system takes it");
    let uptime = observer.info_number("server", "uptime_in_seconds");
    // Accepting is tried again ten times a second all the while.
    eventually("three seconds have passed", || {
        observer.info_number("server", "uptime_in_seconds") >= uptime + 3
    });
    drop(waiting);
    assert_eq!(last.receive().expect("its turn"), Value::Simple(b"PONG".to_vec()));
    if !server.is_redis() {
        let lines = server.log().matches("cannot accept a connection").count();
        assert_eq!(lines, 1, "{}", server.log());
    }
}

#[test]
fn patterns_made_to_be_slow_are_compared_at_once() {
    let server = Server::subject().start();
    let mut client = server.client();
    let key = "a".repeat(30_000);
    assert_eq!(client.command(&["SET", &key, "v"]), Value::ok());
    let patterns = [
        format!("*[{}]b*", "ac".repeat(150_000)),
        format!("*{}b*", "a".repeat(15_000)),
        format!("*{}b*", "a?".repeat(7_500)),
        "*?".repeat(50_000),
    ];
    for pattern in &patterns {
        for command in [
            &["KEYS", pattern][..],
            &["SCAN", "0", "MATCH", pattern, "COUNT", "100"],
        ] {
            let start = Instant::now();
            let reply = client.command(command);
            let found = reply.elements().expect("a list").last();
            let none = matches!(found, None | Some(Value::Array(_)));
            assert!(none, "{:?} {}", command[0], &pattern[..20]);
            let took = start.elapsed();
            assert!(took < PROMPT, "{} {} took {took:?}", command[0], &pattern[..20]);
        }
    }
    assert_eq!(client.run("KEYS a*a*a").elements().map(<[Value]>::len), Some(1));
}

#[test]
fn publishing_past_many_patterns_holds_nobody_up() {
    const PATTERNS: usize = 20_000;
    const MESSAGES: usize = 5_000;
    let server = Server::subject().workers(2).start();
    let mut listeners: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (number, listener) in listeners.iter_mut().enumerate() {
        for first in (0..PATTERNS).step_by(1_000) {
            let names = (first..first + 1_000).map(|at| format!("user:{number}:{at}:*"));
            let words: Vec<String> = std::iter::once("PSUBSCRIBE".to_owned()).chain(names).collect();
            listener.send(&words).expect("the server reads");
            for _ in 0..1_000 {
                listener.receive().expect("each is confirmed");
            }
        }
    }
    let mut bystanders: Vec<Bystander> = (0..4).map(|_| Bystander::of(&server)).collect();
    let mut publisher = server.client();
    let message = frame(&["PUBLISH", "user:1:7:x", "m"]);
    publisher
        .send_raw(&message.repeat(MESSAGES))
        .expect("the server reads");
    bystanders.iter_mut().for_each(Bystander::is_served);
    for _ in 0..MESSAGES {
        assert_eq!(publisher.receive().expect("a reply"), Value::Integer(1));
    }
    bystanders.iter_mut().for_each(Bystander::is_served);
}
