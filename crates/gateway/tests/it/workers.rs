//! Two workers of one node, whose mailbox batches take their time: what several clients of both see has an order.

use crate::world::SIZES;
use gateway::{
    ClientInfo, Connection, Delivery, Endpoint, Gateway, Layout, MailboxBatch, OffloadJob, Session, Shared,
};
use ids::{Boot, Epoch, GroupCount, Groups, HashSeed, Monotonic, NodeId, Prng, UnixMillis};
use mutations::Mutation;
use options::Sources;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Clients; the even ones are with the first worker.
const CLIENTS: usize = 4;
/// Keys: some of each worker, two of them in one slot.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "{a}2", "{b}2"];
/// Commands of one history. With more there is more to search, and hardly more to find.
const COMMANDS: usize = 24;
/// Groups, half of them of each worker.
const GROUPS: u16 = 8;
/// Between two turns in which a worker looks at the clock, in nanoseconds.
const TURN: u64 = 5_000_000;
/// Between what workers hear, in nanoseconds: how old a value is that was changed just now, the clock tells.
const MOMENT: u64 = 1_000;

/// One command, as a client saw it.
struct Seen {
    client: usize,
    words: Vec<String>,
    invoked: u64,
    returned: u64,
    reply: String,
}

thread_local! {
    /// What a look at the monotonic clock shows.
    static CLOCK: Cell<u64> = const { Cell::new(0) };
}

struct Workers {
    gateways: Vec<Gateway>,
    shared: Arc<Shared>,
    /// On their way to each worker from the other one.
    mail: Vec<VecDeque<MailboxBatch>>,
    clients: Vec<Connection>,
    /// Commands of each client that are not answered, by their place among `seen`.
    asked: Vec<Vec<usize>>,
    seen: Vec<Seen>,
    moment: u64,
    /// The monotonic time, in nanoseconds.
    now: u64,
    /// What the wall clock shows, in milliseconds.
    wall: i64,
}

impl Workers {
    fn new(seed: u64) -> Workers {
        let settings = options::load(&Sources::default()).expect("no option is given");
        let groups = Groups::with_default_partitions(GroupCount::new(GROUPS).expect("a valid count"));
        let mut shared = Shared::new(Boot(1), "run".into(), 0, 6379, groups, 2, settings);
        shared.hooks.piece_sizes = SIZES.get();
        shared.hooks.monotonic = || Monotonic(CLOCK.get());
        let shared = Arc::new(shared);
        let gateway = |worker| Gateway::new(worker, shared.clone(), HashSeed([seed, 7]), seed);
        let address = "127.0.0.1:1".parse().expect("an address");
        let client = |token: usize| {
            let worker = (token % 2) as u16;
            let info = ClientInfo::new(shared.clients.next_id(), address, address, worker, 0, 0);
            let info = Arc::new(info);
            shared.clients.add(info.clone());
            Connection::new(Session::new(info, token as u64, Endpoint::AnyNode, true))
        };
        Workers {
            gateways: [0, 1].map(gateway).into(),
            shared: shared.clone(),
            mail: [(), ()].map(|()| VecDeque::new()).into(),
            clients: (0..CLIENTS).map(client).collect(),
            asked: vec![Vec::new(); CLIENTS],
            seen: Vec::new(),
            moment: 0,
            now: TURN,
            wall: 1,
        }
    }

    /// The workers hear that their node is a cluster by itself.
    fn found(&mut self) {
        for gateway in &mut self.gateways {
            let layout = Layout::alone(NodeId(0), Boot(1), GROUPS);
            gateway.set_layout(Arc::new(layout));
        }
    }

    /// Both workers go on, and take what they have for each other, until so much time has passed.
    fn pass(&mut self, time: Duration) {
        let until = self.now + u64::try_from(time.as_nanos()).expect("a few seconds");
        while self.now < until {
            self.tick(0);
            self.tick(1);
            while self.receive(0) || self.receive(1) {}
        }
    }

    /// A client of `worker` asks for all of a large value, which goes to another thread and stays there.
    fn take_away(&mut self, client: usize, line: &str) -> OffloadJob {
        self.send(client, vec![command(line)]);
        let mut offload_jobs = self.gateways[client % 2].take_offload_jobs();
        assert_eq!(offload_jobs.len(), 1, "{line}");
        offload_jobs.remove(0)
    }

    /// What was on another thread is back.
    fn bring_back(&mut self, worker: usize, mut offload_job: OffloadJob) {
        offload_job.run();
        self.gateways[worker].on_offload_job(offload_job);
        self.end_turn(worker);
    }

    /// A worker hears that another node has become a member: from now on its groups have logs.
    fn join(&mut self, worker: usize) {
        let layout = Layout {
            epoch: Epoch(1),
            peers: vec![NodeId(1)],
            ..Layout::alone(NodeId(0), Boot(1), GROUPS)
        };
        self.gateways[worker].set_layout(Arc::new(layout));
        self.end_turn(worker);
    }

    /// So much time passes, in nanoseconds.
    fn go_on_for(&mut self, nanos: u64) -> Monotonic {
        self.now += nanos;
        CLOCK.set(self.now);
        Monotonic(self.now)
    }

    /// Time passes for a worker.
    fn tick(&mut self, worker: usize) {
        let now = self.go_on_for(TURN);
        let gateway = &mut self.gateways[worker];
        gateway.begin_turn(UnixMillis(self.wall));
        gateway.begin_cluster(now);
        gateway.pump();
        self.end_turn(worker);
    }

    /// A client sends commands in one piece.
    fn send(&mut self, client: usize, commands: Vec<Vec<String>>) {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend(format!("*{}\r\n", words.len()).bytes());
            for word in &words {
                bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
            }
            self.asked[client].push(self.seen.len());
            self.moment += 1;
            self.seen.push(Seen {
                client,
                words,
                invoked: self.moment,
                returned: u64::MAX,
                reply: String::new(),
            });
        }
        let now = self.go_on_for(MOMENT);
        let gateway = &mut self.gateways[client % 2];
        gateway.begin_cluster(now);
        gateway.feed(&mut self.clients[client], &bytes);
        self.end_turn(client % 2);
    }

    /// A worker takes the next mailbox batch that has come, if there is one.
    fn receive(&mut self, worker: usize) -> bool {
        let Some(mut mailbox_batch) = self.mail[worker].pop_front() else {
            return false;
        };
        let now = self.go_on_for(MOMENT);
        let gateway = &mut self.gateways[worker];
        gateway.begin_turn(UnixMillis(self.wall));
        gateway.begin_cluster(now);
        let clients = &mut self.clients;
        gateway.receive(1 - worker as u16, &mut mailbox_batch, &mut |incoming| {
            if let gateway::Incoming::Answer {
                connection,
                sequence,
                reply,
            } = incoming
            {
                clients[connection as usize].pipeline.complete(sequence, reply);
            }
        });
        gateway.recycle(mailbox_batch);
        self.end_turn(worker);
        true
    }

    fn end_turn(&mut self, worker: usize) {
        self.deliver(worker);
        self.gateways[worker].finish_cluster(Monotonic(self.now));
        self.deliver(worker);
        // What ends here lets the next commands of other connections go on: a driver asks until none can.
        while self.go_on(worker) {}
        let checked = self.gateways[worker].check();
        let checked = checked.and_then(|()| self.gateways[worker].check_replicas());
        assert_eq!(checked, Ok(()), "worker {worker}");
        let post = self.gateways[worker].post(1 - worker as u16);
        self.mail[1 - worker].extend(post.drain(..));
        (worker..CLIENTS).step_by(2).for_each(|client| self.hear(client));
    }

    /// Lets the connections of this worker go on that need not wait. Whether any has.
    fn go_on(&mut self, worker: usize) -> bool {
        let mut has_gone_on = false;
        for client in (worker..CLIENTS).step_by(2) {
            let connection = &mut self.clients[client];
            if connection.has_commands() && !connection.session.is_waiting() {
                let before = connection.input_len();
                self.gateways[worker].resume(connection);
                has_gone_on |= connection.input_len() < before;
                self.deliver(worker);
            }
        }
        has_gone_on
    }

    fn deliver(&mut self, worker: usize) {
        let gateway = &mut self.gateways[worker];
        while let Some(delivery) = gateway.next_delivery() {
            if let Delivery::Message { listeners, message } = &delivery {
                let clients = &mut self.clients;
                listeners
                    .iter()
                    .for_each(|client| clients[*client as usize].hear(message));
            } else if !matches!(delivery, Delivery::Reap) {
                let client = delivery.connection().expect("all others are for one") as usize;
                gateway.deliver(&mut self.clients[client], delivery);
            }
        }
    }

    /// What a client has been answered, once all that it has asked for is.
    fn hear(&mut self, client: usize) {
        let connection = &mut self.clients[client];
        if self.asked[client].is_empty() || !connection.pipeline.is_settled() || connection.has_commands() {
            return;
        }
        let mut bytes = Vec::new();
        while connection.pipeline.ready_bytes() > 0 {
            let ready = connection.pipeline.ready().to_vec();
            connection.pipeline.sent(ready.len());
            bytes.extend(ready);
        }
        self.moment += 1;
        let mut rest = &bytes[..];
        for asked in std::mem::take(&mut self.asked[client]) {
            let length = resp::skip_value(rest).expect("a reply for each command");
            let reply = String::from_utf8_lossy(&rest[..length]).replace("\r\n", " ");
            rest = &rest[length..];
            let seen = &mut self.seen[asked];
            (seen.returned, seen.reply) = (self.moment, reply.trim().to_owned());
        }
        assert!(rest.is_empty(), "a reply that nobody asked for");
    }

    /// What a client may be sent.
    fn take_output(&mut self, client: usize) -> String {
        let pipeline = &mut self.clients[client].pipeline;
        let ready = pipeline.ready().to_vec();
        pipeline.sent(ready.len());
        String::from_utf8_lossy(&ready).trim().replace("\r\n", " ")
    }

    /// Everything that is under way ends.
    fn settle(&mut self) {
        while self.receive(0) || self.receive(1) {}
        for (worker, gateway) in self.gateways.iter().enumerate() {
            assert!(gateway.is_at_rest(), "worker {worker} has something under way");
        }
    }
}

/// As [`words`], and commands whose values cross groups.
fn any_words(prng: &mut Prng, value: u64) -> Vec<String> {
    let key = |prng: &mut Prng| KEYS[prng.below(KEYS.len() as u64) as usize].to_owned();
    match prng.below(8) {
        0 | 1 => vec!["RENAME".into(), key(prng), key(prng)],
        2 => vec!["DBSIZE".into()],
        _ => words(prng, value),
    }
}

fn words(prng: &mut Prng, value: u64) -> Vec<String> {
    let first = prng.below(KEYS.len() as u64) as usize;
    let count = 1 + prng.below(4) as usize;
    let keys = (0..count).map(|at| KEYS[(first + at) % KEYS.len()].to_owned());
    let pairs = keys.clone().flat_map(|key| [key, format!("v{value}")]);
    let first = KEYS[first].to_owned();
    match prng.below(16) {
        0 | 1 => vec!["SET".into(), first, format!("v{value}")],
        2 | 3 => vec!["GET".into(), first],
        4..=7 => std::iter::once("MSET".into()).chain(pairs).collect(),
        8..=11 => std::iter::once("MGET".into()).chain(keys).collect(),
        12 => std::iter::once("DEL".into()).chain(keys).collect(),
        13 => std::iter::once("EXISTS".into()).chain(keys).collect(),
        14 => std::iter::once("MSETNX".into()).chain(pairs).collect(),
        _ => vec!["FLUSHALL".into()],
    }
}

/// Sets one key or two, of which the first is declared.
const SET: &str =
    "redis.call('SET',KEYS[1],ARGV[1]) if ARGV[2] then redis.call('SET',ARGV[2],ARGV[1]) end return 1";

/// As [`words`], and scripts.
fn words_and_scripts(prng: &mut Prng, value: u64) -> Vec<String> {
    let key = |prng: &mut Prng| KEYS[prng.below(KEYS.len() as u64) as usize].to_owned();
    let mut words = match prng.below(3) {
        0 => return words(prng, value),
        _ => vec![
            "EVAL".into(),
            SET.into(),
            "1".into(),
            key(prng),
            format!("v{value}"),
        ],
    };
    if prng.below(3) == 0 {
        words.push(key(prng));
    }
    words
}

type State = BTreeMap<String, String>;

/// What a command does, and what it answers.
fn carry_out(state: &State, words: &[String]) -> (State, String) {
    let mut state = state.clone();
    let text = |value: Option<&String>| match value {
        Some(value) => format!("${} {value}", value.len()),
        None => "$-1".into(),
    };
    let set = |state: &mut State| {
        let pairs = words[1..].chunks(2);
        pairs.for_each(|pair| drop(state.insert(pair[0].clone(), pair[1].clone())));
    };
    let reply = match words[0].as_str() {
        "SET" | "MSET" => {
            set(&mut state);
            "+OK".into()
        }
        "MSETNX" => {
            let is_free = words[1..].iter().step_by(2).all(|key| !state.contains_key(key));
            if is_free {
                set(&mut state);
            }
            format!(":{}", u8::from(is_free))
        }
        "GET" => text(state.get(&words[1])),
        "MGET" => {
            let texts = words[1..].iter().map(|key| text(state.get(key)));
            let texts: Vec<String> = texts.collect();
            format!("*{} {}", texts.len(), texts.join(" "))
        }
        "DEL" => format!(
            ":{}",
            words[1..]
                .iter()
                .filter(|key| state.remove(*key).is_some())
                .count()
        ),
        "EXISTS" => format!(
            ":{}",
            words[1..].iter().filter(|key| state.contains_key(*key)).count()
        ),
        "RENAME" => match state.remove(&words[1]) {
            Some(value) => {
                state.insert(words[2].clone(), value);
                "+OK".into()
            }
            None => "-ERR no such key".into(),
        },
        "DBSIZE" => format!(":{}", state.len()),
        "EVAL" => {
            let keys = [Some(&words[3]), words.get(5)].into_iter().flatten();
            keys.for_each(|key| drop(state.insert(key.clone(), words[4].clone())));
            ":1".into()
        }
        "FLUSHALL" => {
            state.clear();
            "+OK".into()
        }
        other => unreachable!("nobody sends {other}"),
    };
    (state, reply)
}

/// Whether two commands of one client keep their order: if they name the same key, or one of them concerns all keys.
fn keep_order(one: &Seen, other: &Seen) -> bool {
    let keys = |seen: &'_ Seen| -> BTreeSet<String> {
        let keys = seen.words[1..]
            .iter()
            .filter(|word| KEYS.contains(&word.as_str()));
        keys.cloned().collect()
    };
    let (ones, others) = (keys(one), keys(other));
    one.client == other.client && (ones.is_empty() || others.is_empty() || !ones.is_disjoint(&others))
}

/// Whether the commands could have happened one at a time, each between its call and its answer, those of one client that name
/// the same keys in their order. `done` are those that have, one bit each.
fn has_order(seen: &[Seen], done: u64, state: &State, failed: &mut BTreeSet<(u64, State)>) -> bool {
    if done == (1 << seen.len()) - 1 {
        return true;
    }
    if failed.contains(&(done, state.clone())) {
        return false;
    }
    let left = || (0..seen.len()).filter(|at| done & (1 << at) == 0);
    let first_end = left().map(|at| seen[at].returned).min().unwrap_or(u64::MAX);
    for at in left() {
        let one = &seen[at];
        let is_first = !left().any(|before| before < at && keep_order(&seen[before], one));
        if one.invoked < first_end && is_first {
            let (next, reply) = carry_out(state, &one.words);
            if reply == one.reply && has_order(seen, done | 1 << at, &next, failed) {
                return true;
            }
        }
    }
    failed.insert((done, state.clone()));
    false
}

/// What several clients saw for a while; `None` if it has an order.
fn anomaly(seed: u64) -> Option<String> {
    anomaly_of(seed, words)
}

/// The same of these commands.
fn anomaly_of(seed: u64, words: fn(&mut Prng, u64) -> Vec<String>) -> Option<String> {
    let mut prng = Prng::new(seed);
    let mut workers = Workers::new(seed);
    while workers.seen.len() < COMMANDS {
        let client = prng.below(CLIENTS as u64) as usize;
        if prng.below(3) > 0 {
            workers.receive(client % 2);
        } else if workers.asked[client].is_empty() {
            let count = (1 + prng.below(3) as usize).min(COMMANDS - workers.seen.len());
            let first = workers.seen.len() as u64;
            let commands = (0..count as u64).map(|at| words(&mut prng, first + at));
            let commands = commands.collect();
            workers.send(client, commands);
        }
    }
    workers.settle();
    no_order(seed, &workers.seen)
}

/// Why what was seen has no order, if it has none.
fn no_order(seed: u64, seen: &[Seen]) -> Option<String> {
    if seen.iter().any(|one| one.reply.is_empty()) {
        return Some(format!("seed {seed}: no answer"));
    }
    if has_order(seen, 0, &State::new(), &mut BTreeSet::new()) {
        return None;
    }
    let lines = seen.iter().map(|one| {
        let (client, words, reply) = (one.client, one.words.join(" "), &one.reply);
        format!(
            "{:>3}-{:<3} client {client}: {words} -> {reply}",
            one.invoked, one.returned
        )
    });
    Some(format!("seed {seed}\n{}", lines.collect::<Vec<_>>().join("\n")))
}

/// The same while a second node becomes a member, which each worker hears of at a moment of its own.
fn anomaly_in_growth(seed: u64) -> Option<String> {
    let mut prng = Prng::new(seed);
    let joins = [0, 1].map(|_| prng.below(60));
    anomaly_with_logs(seed, &mut prng, joins, any_words)
}

/// The same of scripts that stand one behind the other, where groups have logs.
fn anomaly_of_scripts_ahead(seed: u64) -> Option<String> {
    anomaly_with_logs(seed, &mut Prng::new(seed), [0, 0], words_and_scripts)
}

/// What clients saw whose workers hear after so many steps that their groups have logs; `None` if it has an order.
fn anomaly_with_logs(
    seed: u64,
    prng: &mut Prng,
    mut joins: [u64; 2],
    words: fn(&mut Prng, u64) -> Vec<String>,
) -> Option<String> {
    let mut workers = Workers::new(seed);
    while workers.seen.len() < COMMANDS {
        for worker in [0, 1] {
            if joins[worker] == 0 {
                workers.join(worker);
            }
            joins[worker] = joins[worker].wrapping_sub(1);
        }
        let client = prng.below(CLIENTS as u64) as usize;
        match prng.below(6) {
            0..=2 => drop(workers.receive(client % 2)),
            3 => workers.tick(client % 2),
            _ if !workers.asked[client].is_empty() => {}
            _ => {
                let count = (1 + prng.below(3) as usize).min(COMMANDS - workers.seen.len());
                let first = workers.seen.len() as u64;
                let commands = (0..count as u64).map(|at| words(prng, first + at));
                let commands = commands.collect();
                workers.send(client, commands);
            }
        }
    }
    for worker in [0, 1] {
        if joins[worker] < 60 {
            workers.join(worker);
        }
    }
    for _ in 0..400 {
        while workers.receive(0) || workers.receive(1) {}
        workers.tick(0);
        workers.tick(1);
    }
    no_order(seed, &workers.seen)
}

#[test]
fn what_clients_of_two_workers_see_has_an_order_while_their_groups_begin_to_have_logs() {
    for seed in 0..400 {
        assert_eq!(anomaly_in_growth(seed), None);
    }
}

#[test]
fn scripts_that_run_ahead_of_those_before_them_keep_their_order() {
    for seed in 0..400 {
        assert_eq!(anomaly_of_scripts_ahead(seed), None);
    }
    mutations::plant(Some(Mutation::AheadOfTurn));
    let noticed = (0..400).find_map(anomaly_of_scripts_ahead);
    mutations::plant(None);
    assert!(
        noticed.is_some(),
        "nobody noticed that scripts come before those before them"
    );
}

#[test]
fn what_clients_of_two_workers_see_has_an_order() {
    for seed in 0..200 {
        assert_eq!(anomaly(seed), None);
    }
}

#[test]
fn scripts_of_two_workers_have_an_order_among_all_else() {
    for seed in 0..200 {
        assert_eq!(anomaly_of(seed, words_and_scripts), None);
    }
}

/// Whether a mistake shows.
fn shows(mutation: Mutation) -> bool {
    mutations::plant(Some(mutation));
    let shows = (0..400).any(|seed| anomaly(seed).is_some());
    mutations::plant(None);
    shows
}

#[test]
fn keys_that_are_not_held_while_another_worker_decides_are_noticed() {
    assert!(shows(Mutation::LastAgentNotHeld));
}

#[test]
fn a_worker_that_decides_over_keys_that_are_held_is_noticed() {
    assert!(shows(Mutation::LastAgentNotFree));
}

#[test]
fn wounds_of_a_group_without_a_log_that_are_lost_on_their_way_to_one_with_a_log_are_noticed() {
    mutations::plant(Some(Mutation::AloneWoundsOnce));
    let shows = anomaly_in_growth(373).is_some();
    mutations::plant(None);
    assert!(shows);
}

/// The key of a worker, the one that bears this number among those with the prefix.
fn key_of(worker: u16, prefix: &str, number: usize) -> String {
    let groups = Groups::with_default_partitions(GroupCount::new(GROUPS).expect("a valid count"));
    let is_its = |key: &String| {
        let group = groups.group_of(ids::Slot::of_key(key.as_bytes()));
        group.index() / 4 == usize::from(worker)
    };
    let mut keys = (0..).map(|at| format!("{prefix}{at}")).filter(is_its);
    keys.nth(number).expect("every worker has keys")
}

fn command(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn what_happens_to_the_key_of_a_blocked_client_is_told_before_the_client_is_answered() {
    for owner in [0, 1] {
        let mut workers = Workers::new(1);
        let settings: [(&[u8], &[u8]); 1] = [(b"notify-keyspace-events", b"EA")];
        workers.shared.set_settings(&settings).expect("letters of events");
        let (key, channel) = (key_of(owner, "list", 0), "__keyevent@0__:lpop");
        let lines = format!("HELLO 3\r\nSUBSCRIBE {channel}\r\nBLPOP {key} 0\r\n");
        workers.gateways[0].feed(&mut workers.clients[0], lines.as_bytes());
        workers.end_turn(0);
        while workers.receive(0) || workers.receive(1) {}
        workers.take_output(0);
        workers.send(1, vec![command(&format!("RPUSH {key} x"))]);
        while workers.receive(0) || workers.receive(1) {}
        let key = format!("${} {key}", key.len());
        let told = format!(">3 $7 message ${} {channel} {key}", channel.len());
        assert_eq!(
            workers.take_output(0),
            format!("{told} *2 {key} $1 x"),
            "at worker {owner}"
        );
    }
}

#[test]
fn an_exec_sees_that_a_watched_key_is_about_to_change() {
    let (a, b, x) = (key_of(0, "a", 0), key_of(1, "b", 0), key_of(0, "x", 0));
    let mut workers = Workers::new(1);
    let at = |workers: &mut Workers, client: usize, lines: &[String]| {
        workers.send(client, lines.iter().map(|line| command(line)).collect());
        workers.seen.len() - 1
    };
    at(&mut workers, 2, &[format!("WATCH {a}")]);
    let written = at(&mut workers, 0, &[format!("MSET {a} new {b} new")]);
    assert!(workers.receive(1), "the other worker decides");
    let read = at(&mut workers, 1, &[format!("GET {b}")]);
    assert_eq!(
        workers.seen[read].reply, "$3 new",
        "whoever asks there hears of it"
    );
    // The decision is on its way back when the client that watches goes on.
    let lines = ["MULTI".to_owned(), format!("SET {x} 1"), "EXEC".to_owned()];
    let exec = at(&mut workers, 2, &lines);
    workers.settle();
    assert_eq!(workers.seen[written].reply, "+OK");
    assert_eq!(workers.seen[exec].reply, "*-1", "what it watches has changed");
}

/// A read over both workers of a key that expires while the other worker decides, and of one that is changed there meanwhile: what
/// it was answered, and what was read of the first key by who had changed the second one.
fn read_while_a_key_expires() -> (String, String) {
    let (a, b) = (key_of(0, "a", 0), key_of(1, "b", 0));
    let mut workers = Workers::new(1);
    workers.send(0, vec![command(&format!("SET {a} 1 PX 100"))]);
    workers.send(1, vec![command(&format!("SET {b} old"))]);
    let read = workers.seen.len();
    workers.send(0, vec![command(&format!("MGET {a} {b}"))]);
    assert!(workers.receive(1), "the other worker reads its half");
    let changed = workers.seen.len();
    workers.send(1, vec![command(&format!("SET {b} new"))]);
    assert_eq!(workers.seen[changed].reply, "+OK");
    let then = workers.seen.len();
    workers.send(2, vec![command(&format!("GET {a}"))]);
    workers.wall = 200;
    workers.settle();
    (workers.seen[read].reply.clone(), workers.seen[then].reply.clone())
}

#[test]
fn a_key_that_expires_between_the_halves_of_a_read_was_gone_for_all_before() {
    let (read, then) = read_while_a_key_expires();
    assert_eq!(read, "*2 $-1 $3 old", "its half here is read by a later clock");
    assert_eq!(
        then, "$-1",
        "it came before the change, and whoever reads behind the change comes later"
    );
}

#[test]
fn a_key_with_a_deadline_that_is_held_together_with_others_is_noticed() {
    mutations::plant(Some(Mutation::MortalLockedShared));
    let (read, then) = read_while_a_key_expires();
    mutations::plant(None);
    assert_eq!((read.as_str(), then.as_str()), ("*2 $-1 $3 old", "$1 1"));
}

#[test]
fn a_client_that_waits_for_a_key_goes_on_waiting_when_its_transaction_before_is_over() {
    let (a, b) = (key_of(0, "a", 0), key_of(1, "b", 0));
    let queues = [key_of(0, "q", 0), key_of(0, "q", 1)];
    let mut workers = Workers::new(2);
    let lines = [
        format!("MSETNX {a} 1 {b} 1"),
        format!("BLPOP {} 0", queues[0]),
        format!("BLPOP {} 0", queues[1]),
    ];
    workers.send(0, lines.iter().map(|line| command(line)).collect());
    while workers.receive(0) || workers.receive(1) {}
    for queue in &queues {
        workers.send(2, vec![command(&format!("RPUSH {queue} element"))]);
        while workers.receive(0) || workers.receive(1) {}
    }
    let replies: Vec<&str> = workers.seen.iter().map(|seen| seen.reply.as_str()).collect();
    assert_eq!(replies[0], ":1");
    for (reply, queue) in replies[1..3].iter().zip(&queues) {
        assert!(
            reply.contains(queue.as_str()) && reply.contains("element"),
            "{reply}"
        );
    }
    assert_eq!(replies[3..], [":1", ":1"]);
}

/// How long any transaction may take until its client is told.
const DEADLINE: Duration = Duration::from_secs(10);

/// Two workers of a node that is alone, and two keys of them with values that are taken away to be read: a list, and what a `SORT` of
/// that asks for by a pattern.
fn with_large_values() -> (Workers, String, String) {
    let element = key_of(1, "w", 0).split_off(1);
    let (list, weight) = (key_of(0, "l", 0), format!("w{element}"));
    let mut workers = Workers::new(3);
    workers.found();
    let elements = vec![element; 50].join(" ");
    workers.send(0, vec![command(&format!("RPUSH {list} {elements}"))]);
    let members: Vec<String> = (0..50).map(|member| format!("m{member}")).collect();
    workers.send(1, vec![command(&format!("SADD {weight} {}", members.join(" ")))]);
    workers.shared.steps_max.store(8, Ordering::Relaxed);
    workers.tick(0);
    workers.tick(1);
    (workers, list, weight)
}

/// What a transaction over both workers is answered by its deadline, whose first attempt waits for long for one key, and whose
/// second one for another.
fn answer_by_the_deadline() -> String {
    let (mut workers, list, weight) = with_large_values();
    let first = workers.take_away(2, &format!("LRANGE {list} 0 -1"));
    let second = workers.take_away(3, &format!("SMEMBERS {weight}"));
    let sorted = workers.seen.len();
    workers.send(0, vec![command(&format!("SORT {list} BY w*"))]);
    workers.pass(DEADLINE / 2);
    assert_eq!(workers.seen[sorted].reply, "", "it waits for the list");
    workers.bring_back(0, first);
    workers.pass(DEADLINE / 2);
    let reply = workers.seen[sorted].reply.clone();
    workers.bring_back(1, second);
    workers.settle();
    reply
}

#[test]
fn a_transaction_within_a_node_has_one_deadline_whatever_it_waits_for() {
    let reply = answer_by_the_deadline();
    assert!(
        reply.starts_with("-TRYAGAIN") && reply.contains("nothing was done"),
        "{reply:?}"
    );
}

#[test]
fn a_deadline_that_each_attempt_sets_anew_is_noticed() {
    mutations::plant(Some(Mutation::DeadlinePerAttempt));
    let reply = answer_by_the_deadline();
    mutations::plant(None);
    assert_eq!(reply, "", "its second attempt waits as long again");
}

#[test]
fn a_read_of_another_worker_that_is_too_long_is_told_so_whatever_way_it_takes() {
    SIZES.set(gateway::PieceSizes {
        answers_bytes_max: 4_096,
        ..gateway::PieceSizes::default()
    });
    let mut workers = Workers::new(1);
    SIZES.set(gateway::PieceSizes::default());
    let value = "v".repeat(1_500);
    let key = |group| crate::out_of_reach::key(GROUPS, group, "k");
    // Of the first worker, and two of the other.
    let [here, there, beside] = [0, 4, 6].map(key);
    for key in [&here, &there, &beside] {
        workers.send(0, vec![command(&format!("SET {key} {value}"))]);
        workers.settle();
    }
    let mut ask = |lines: &[String]| {
        let before = workers.seen.len();
        workers.send(0, lines.iter().map(|line| command(line)).collect());
        workers.settle();
        assert!(workers.seen[before..].iter().all(|seen| seen.returned < u64::MAX));
        workers
            .seen
            .last()
            .expect("something was asked")
            .reply
            .replace(&value, "V")
    };
    const ERROR: &str = "-ERR the replies to what was read at once are longer than the 768 MiB that can travel \
                         together; read less at a time";
    for keys in [
        format!("{there} {there} {there}"),
        format!("{here} {there} {here}"),
        format!("{there} {beside} {there}"),
    ] {
        assert_eq!(ask(&[format!("MGET {keys}")]), ERROR, "{keys}");
    }
    let (two, twice) = (format!("MGET {here} {there}"), "$1500 V $1500 V");
    assert_eq!(ask(&[two]), format!("*2 {twice}"));
    for key in [&here, &there] {
        let get = format!("GET {key}");
        let exec = |between: &[String]| {
            let all = [&["MULTI".to_owned()], between, &["EXEC".to_owned()]];
            all.concat()
        };
        let lines = [&get, &get, &get, &get, &format!("STRLEN {key}")].map(String::clone);
        let reply = format!("*5 {twice} {ERROR} {ERROR} :1500");
        assert_eq!(ask(&exec(&lines)), reply, "{key}");
        for other in [&here, &beside] {
            let lines = [
                &get,
                &get,
                &get,
                &format!("SET {key} {value}"),
                &format!("STRLEN {other}"),
            ];
            let reply = format!("*5 {twice} {ERROR} +OK :1500");
            assert_eq!(ask(&exec(&lines.map(String::clone))), reply, "{key}, {other}");
        }
    }
    let lines = [&here, &there, &beside].map(|key| format!("GET {key}"));
    let lines = [&["MULTI".to_owned()], &lines[..], &["EXEC".to_owned()]].concat();
    assert_eq!(ask(&lines), format!("*3 {twice} {ERROR}"));
}
