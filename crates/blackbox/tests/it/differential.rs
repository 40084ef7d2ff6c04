//! The same generated commands to the server under test and to a real Redis: the replies must be equal.
//!
//! Equal means equal parsed values, error texts and kinds of null included. What cannot be equal is named in
//! [`normalise`], [`same_time`] and [`out_of_range_before`], what is different on purpose in [`checked_earlier`] and
//! [`smaller_encoding`], and nothing else is forgiven.

mod generate;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;

use blackbox::{Client, Prng, Server, Value, eventually, frame};

use generate::{Families, Generator};

/// How much two readings of a time may be apart: the servers look at the clock one after the other, on a machine that
/// may be busy. Deadlines in generated commands are further apart than this, so that it decides nothing else.
const CLOCK_TOLERANCE_MILLIS: i64 = 5_000;

/// How often a failing sequence is run again to make it shorter.
const SHRINK_RUNS: usize = 600;

/// The connections a sequence uses, so that `WATCH` has somebody to be disturbed by.
const CONNECTIONS: usize = 2;

/// One command on one connection.
#[derive(Clone)]
struct Step {
    connection: usize,
    arguments: Vec<Vec<u8>>,
    /// What is sent if it is not the ordinary frame of `arguments`: an inline command, whatever it means.
    inline: Option<Vec<u8>>,
}

impl Step {
    fn bytes(&self) -> Vec<u8> {
        self.inline.clone().unwrap_or_else(|| frame(&self.arguments))
    }

    fn name(&self) -> String {
        name_of(&self.arguments)
    }
}

fn name_of(arguments: &[Vec<u8>]) -> String {
    arguments
        .first()
        .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
        .unwrap_or_default()
}

/// What a server answered.
struct Reply {
    value: Value,
    /// The commands that an `EXEC` ran; its reply has an element for each.
    executed: Vec<Vec<Vec<u8>>>,
}

impl Reply {
    fn to(step: &Step, value: Value) -> Self {
        Self {
            value: normalise(&step.arguments, value),
            executed: Vec::new(),
        }
    }

    fn plain(value: Value) -> Self {
        Self {
            value,
            executed: Vec::new(),
        }
    }

    /// True if this, from the server under test, is as good as the reference's `other`.
    fn agrees(&self, other: &Self, step: &Step) -> bool {
        match (&self.value, &other.value) {
            (Value::Array(ours), Value::Array(theirs)) if !self.executed.is_empty() => {
                ours.len() == theirs.len()
                    && ours.len() == self.executed.len()
                    && self.executed == other.executed
                    && self
                        .executed
                        .iter()
                        .zip(ours.iter().zip(theirs))
                        .all(|(arguments, (ours, theirs))| agree(arguments, ours, theirs))
            }
            (ours, theirs) => agree(&step.arguments, ours, theirs),
        }
    }
}

/// True if `subject` is as good a reply to a command as `reference`.
fn agree(arguments: &[Vec<u8>], subject: &Value, reference: &Value) -> bool {
    subject == reference
        || same_time(arguments, subject, reference)
        || checked_earlier(arguments, subject, reference)
        || smaller_encoding(arguments, subject, reference)
        || same_double(subject, reference)
}

/// True for one number in two notations, wherever it stands in the replies: Redis 7.0 writes 17 digits where 7.2 writes as
/// few as it takes.
fn same_double(subject: &Value, reference: &Value) -> bool {
    match (subject, reference) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(ours, theirs)| ours == theirs || same_double(ours, theirs))
        }
        (Value::Bulk(ours), Value::Bulk(theirs)) | (Value::Double(ours), Value::Double(theirs)) => {
            let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
            let digits = theirs.iter().filter(|byte| byte.is_ascii_digit()).count();
            digits >= 17 && number(ours).is_some() && number(ours) == number(theirs)
        }
        _ => false,
    }
}

/// True for a small set that Redis 7.0 keeps as a hash table, or a short list that it keeps in a list of nodes: from
/// Redis 7.2 on both are packed.
fn smaller_encoding(arguments: &[Vec<u8>], subject: &Value, reference: &Value) -> bool {
    name_of(arguments) == "object"
        && subject.text().as_deref() == Some("listpack")
        && matches!(reference.text().as_deref(), Some("hashtable" | "quicklist"))
}

/// True if Redis found a number of `SORT` out of range because one was before: 7.0 asks C's `errno`, which nobody reset.
/// It may have stored nothing then, so that a sequence that comes here is over.
fn out_of_range_before(subject: &Value, reference: &Value) -> bool {
    match (subject, reference) {
        (Value::Array(ours), Value::Array(theirs)) => ours
            .iter()
            .zip(theirs)
            .any(|(ours, theirs)| out_of_range_before(ours, theirs)),
        _ => {
            reference.error().as_deref() == Some("ERR One or more scores can't be converted into double")
                && subject.error().is_none()
        }
    }
}

/// True for two readings of one deadline: how far it is off, or where it is if it was given by how far it is off,
/// depends on the moment.
fn same_time(arguments: &[Vec<u8>], subject: &Value, reference: &Value) -> bool {
    let tolerance = match name_of(arguments).as_str() {
        "ttl" | "expiretime" => CLOCK_TOLERANCE_MILLIS / 1000,
        "pttl" | "pexpiretime" => CLOCK_TOLERANCE_MILLIS,
        _ => return false,
    };
    match (subject.integer(), reference.integer()) {
        (Some(ours @ 1..), Some(theirs @ 1..)) => ours.abs_diff(theirs) <= tolerance.unsigned_abs(),
        _ => false,
    }
}

/// True if the replies differ only because the server under test checks the words of a command before it looks at the
/// key: where Redis 7.0 answers that there is no such key, or one of another type, before it reads the words after it,
/// there is an error about the words instead. Later versions of Redis check first as well, and a client with a mistake
/// in its words learns of it with the first call, not with the first that finds the key.
fn checked_earlier(arguments: &[Vec<u8>], subject: &Value, reference: &Value) -> bool {
    let Some(error) = subject.error() else {
        return false;
    };
    // Redis looks at the type, and for the member that a search on a map starts from, before it has read all words.
    let at_the_key = reference.error().is_some_and(|error| {
        error.starts_with("WRONGTYPE")
            || error.starts_with("NOGROUP")
            || error.starts_with("ERR The XGROUP subcommand requires the key to exist")
            || error == "ERR The specified keys must contain string values"
            || error == "ERR could not decode requested zset member"
            || error == "ERR The specified key does not exist"
            || error == "ERR no such key" && matches!(name_of(arguments).as_str(), "xinfo" | "xsetid")
    });
    if at_the_key && error.starts_with("ERR ") {
        return true;
    }
    let name = name_of(arguments);
    // Without the key, Redis does not read the radius.
    let is_short_of_radius = *reference == Value::Array(Vec::new()) || reference.error().is_some();
    if name.starts_with("georadiusbymember") && is_short_of_radius {
        return matches!(
            error.as_str(),
            "ERR need numeric radius"
                | "ERR radius cannot be negative"
                | "ERR unsupported unit provided. please use M, KM, FT, MI"
        );
    }
    let about_the_words = matches!(
        error.as_str(),
        "ERR syntax error"
            | "ERR value is not an integer or out of range"
            | "ERR value is not a valid float"
            | "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
            | "ERR invalid expire time in 'getex' command"
            | "ERR Invalid stream ID specified as stream command argument"
    );
    let no_such_key = match name.as_str() {
        "bitcount" | "xack" | "xdel" => *reference == Value::Integer(0),
        "bitpos" => matches!(reference, Value::Integer(0 | -1)),
        "getex" | "lindex" => reference.is_null(),
        "lset" => reference.error().as_deref() == Some("ERR no such key"),
        // What is found was brought into the form of a whole scan, or of a page inside EXEC's reply.
        "hscan" | "sscan" | "zscan" => match reference {
            Value::Array(found) => found.is_empty(),
            other => *other == Value::Simple(SOME_PAGE.to_vec()),
        },
        _ => false,
    };
    about_the_words && no_such_key
}

/// What a page of a scan is compared as.
const SOME_PAGE: &[u8] = b"a page of a scan";

/// A pair of connections to one server, with what the server has queued for each.
struct Side {
    clients: Vec<Client>,
    queued: Vec<Vec<Vec<Vec<u8>>>>,
}

impl Side {
    fn new(server: &Server) -> Self {
        let mut side = Self {
            clients: (0..CONNECTIONS).map(|_| server.client()).collect(),
            queued: vec![Vec::new(); CONNECTIONS],
        };
        side.clients[0].run_ok("FLUSHALL");
        side
    }

    /// Sends `step` and reads its reply; `None` if the server answered by closing the connection.
    fn perform(&mut self, server: &Server, step: &Step) -> Option<Reply> {
        let reply = self.exchange(step);
        let fatal = match &reply {
            None => true,
            Some(Value::Error(text)) => text.starts_with(b"ERR Protocol error"),
            Some(_) => step.name() == "quit",
        };
        if fatal {
            self.clients[step.connection]
                .drain()
                .expect("the server closes after its last reply");
            self.clients[step.connection] = server.client();
            self.queued[step.connection].clear();
        }
        let reply = reply?;
        Some(self.settle(step, reply))
    }

    fn exchange(&mut self, step: &Step) -> Option<Value> {
        let client = &mut self.clients[step.connection];
        let result = client.send_raw(&step.bytes()).and_then(|()| client.receive());
        match result {
            Ok(reply) => Some(reply),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                ) =>
            {
                None
            }
            Err(error) => {
                let queued: Vec<String> = self.queued[step.connection]
                    .iter()
                    .map(|words| {
                        words
                            .iter()
                            .map(|word| word.escape_ascii().to_string())
                            .collect::<Vec<_>>()
                            .join(" ")
                    })
                    .collect();
                panic!("no reply to {} of {queued:#?}: {error}", show(step))
            }
        }
    }

    /// Brings the parts of a reply that may differ into one form.
    fn settle(&mut self, step: &Step, reply: Value) -> Reply {
        let queued = &mut self.queued[step.connection];
        if reply == Value::Simple(b"QUEUED".to_vec()) {
            queued.push(step.arguments.clone());
            return Reply::plain(reply);
        }
        match (step.name().as_str(), reply) {
            ("exec", Value::Array(replies)) => {
                let executed = std::mem::take(queued);
                let replies = executed
                    .iter()
                    .zip(replies)
                    .map(|(arguments, reply)| normalise(arguments, reply))
                    .collect();
                Reply {
                    value: Value::Array(replies),
                    executed,
                }
            }
            ("exec" | "discard" | "reset" | "multi", reply) => {
                if reply.error().is_none_or(|text| text.starts_with("EXECABORT")) {
                    queued.clear();
                }
                Reply::plain(reply)
            }
            ("scan" | "sscan" | "hscan" | "zscan", reply) if reply.elements().is_some() => {
                // A scan that begins in the middle finds what the order in the table makes it find.
                let from_start = matches!(step.arguments[cursor_place(step)].as_slice(), b"0" | b"");
                Reply::plain(if from_start {
                    self.scan_on(step, reply)
                } else {
                    Value::Simple(SOME_PAGE.to_vec())
                })
            }
            (_, reply) => Reply::to(step, reply),
        }
    }

    /// A cursor is the server's own; the set of keys that a whole scan finds is not.
    fn scan_on(&mut self, step: &Step, first: Value) -> Value {
        let mut keys = Vec::new();
        let mut reply = first;
        loop {
            let Some([cursor, found]) = reply.elements() else {
                panic!("{} answered {reply:?}", show(step))
            };
            keys.extend_from_slice(found.elements().expect("SCAN answers with an array of keys"));
            if cursor.text().as_deref() == Some("0") {
                keys.sort();
                keys.dedup();
                return Value::Array(keys);
            }
            let mut arguments = step.arguments.clone();
            arguments[cursor_place(step)] = cursor.text().expect("a cursor is a string").into_bytes();
            reply = self.clients[step.connection].command(&arguments);
        }
    }
}

/// True for replies about the server itself, or in a project's own words: they are compared by their kind.
fn is_about_itself(name: &str, subcommand: Option<&str>) -> bool {
    match (name, subcommand) {
        ("info" | "time" | "lolwut", _) => true,
        ("command", None | Some("count" | "list")) => true,
        (_, Some("help")) => true,
        ("client", Some("id" | "info" | "list")) => true,
        ("memory", Some("usage" | "stats" | "doctor" | "malloc-stats")) => true,
        // What is slow, chance decides.
        ("slowlog", Some("get" | "len")) => true,
        ("latency", Some("doctor" | "histogram")) => true,
        _ => false,
    }
}

/// What is left of such a reply. Errors and nulls are compared as they are.
fn kind_of(reply: Value) -> Value {
    let kind: &[u8] = match reply {
        Value::Bulk(_) => b"a string",
        Value::Verbatim(_) => b"a text",
        Value::Integer(_) => b"an integer",
        Value::Array(_) => b"an array",
        Value::Map(_) => b"a map",
        other => return other,
    };
    Value::Simple(kind.to_vec())
}

/// Where a scan's cursor stands.
fn cursor_place(step: &Step) -> usize {
    if step.name() == "scan" { 1 } else { 2 }
}

/// The list of all that is forgiven.
fn normalise(arguments: &[Vec<u8>], reply: Value) -> Value {
    let subcommand = arguments
        .get(1)
        .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
    match (name_of(arguments).as_str(), subcommand.as_deref(), reply) {
        // The order in a hash table is the server's own.
        ("keys", _, Value::Array(mut keys)) => {
            keys.sort();
            Value::Array(keys)
        }
        // A page of a scan inside EXEC's reply: its cursor cannot be followed. Other scans are compared whole.
        ("scan" | "sscan" | "hscan" | "zscan", _, Value::Array(_)) => Value::Simple(SOME_PAGE.to_vec()),
        ("smembers" | "sinter" | "sunion" | "sdiff" | "spop", _, Value::Array(mut members)) => {
            members.sort();
            Value::Array(members)
        }
        ("smembers" | "sinter" | "sunion" | "sdiff" | "spop", _, Value::Set(mut members)) => {
            members.sort();
            Value::Set(members)
        }
        // Chance.
        ("srandmember", _, Value::Array(members)) => Value::Integer(members.len() as i64),
        ("srandmember", _, Value::Bulk(_)) => Value::Simple(b"some member".to_vec()),
        ("hgetall", _, Value::Array(fields)) | ("config", Some("get"), Value::Array(fields)) => {
            let mut pairs: Vec<_> = fields.chunks(2).map(<[Value]>::to_vec).collect();
            pairs.sort();
            Value::Array(pairs.into_iter().map(Value::Array).collect())
        }
        ("hgetall", _, Value::Map(mut pairs)) | ("config", Some("get"), Value::Map(mut pairs)) => {
            pairs.sort();
            Value::Map(pairs)
        }
        ("hkeys" | "hvals", _, Value::Array(mut parts)) => {
            parts.sort();
            Value::Array(parts)
        }
        // Chance.
        ("hrandfield", _, Value::Array(fields)) => Value::Integer(fields.len() as i64),
        ("hrandfield", _, Value::Bulk(_)) => Value::Simple(b"some field".to_vec()),
        ("randomkey", _, Value::Bulk(_)) => Value::Simple(b"some key".to_vec()),
        // Redis shares small integers between keys; nobody else's object has such a count.
        ("object", Some("refcount"), Value::Integer(1..)) => Value::Simple(b"some count".to_vec()),
        // The shared ones also lie idle together.
        ("object", Some("idletime"), Value::Integer(0..=3_600)) => Value::Simple(b"some time".to_vec()),
        // The servers' identities.
        ("hello", _, reply @ (Value::Map(_) | Value::Array(_))) => {
            let in_resp3 = matches!(reply, Value::Map(_));
            let mut pairs = reply.pairs().expect("HELLO answers with a map");
            for (field, value) in &mut pairs {
                if matches!(field.text().as_deref(), Some("version" | "id")) {
                    *value = Value::Null;
                }
            }
            Value::Array(vec![Value::Boolean(in_resp3), Value::Map(pairs)])
        }
        ("zrandmember", _, Value::Array(members)) => Value::Integer(members.len() as i64),
        ("zrandmember", _, Value::Bulk(_)) => Value::Simple(b"some member".to_vec()),
        // The explanations are this project's own; `command_table.rs` compares the rest.
        ("command", Some("docs"), Value::Array(_) | Value::Map(_)) => {
            Value::Simple(b"documentation".to_vec())
        }
        ("command", Some("info"), reply) if arguments.len() == 2 => kind_of(reply),
        (name, subcommand, reply) if is_about_itself(name, subcommand) => kind_of(reply),
        ("xinfo", _, reply @ (Value::Array(_) | Value::Map(_))) => without_times(reply),
        ("xpending", _, Value::Array(pending)) if arguments.len() > 3 => {
            Value::Array(pending.into_iter().map(without_idle_time).collect())
        }
        (_, _, reply) => reply,
    }
}

/// What is told of streams, without times, what only Redis 7.2 tells, and how many nodes a radix tree has.
fn without_times(reply: Value) -> Value {
    let is_of_later = |field: &Value| {
        matches!(
            field.text().as_deref(),
            Some("idle" | "inactive" | "active-time" | "seen-time")
        )
    };
    match reply {
        Value::Map(pairs) => {
            let pairs = pairs.into_iter().filter(|(field, _)| !is_of_later(field));
            let one = |(field, value): (Value, Value)| match field.text().as_deref() {
                Some("radix-tree-nodes") => (field, some_nodes(value)),
                _ => (field, without_times(value)),
            };
            Value::Map(pairs.map(one).collect())
        }
        Value::Array(elements) => {
            let mut all = Vec::new();
            let mut elements = elements.into_iter();
            while let Some(element) = elements.next() {
                if is_of_later(&element) {
                    elements.next();
                } else if element.text().as_deref() == Some("radix-tree-nodes") {
                    all.push(element);
                    all.extend(elements.next().map(some_nodes));
                } else {
                    all.push(without_times(element));
                }
            }
            Value::Array(all)
        }
        Value::Integer(millis) if MILLIS_OF_TODAY.contains(&millis) => Value::Simple(b"some time".to_vec()),
        other => other,
    }
}

/// What the clock of a test says, in Unix milliseconds: nothing else that a test counts is among it.
const MILLIS_OF_TODAY: std::ops::Range<i64> = 1_600_000_000_000..10_000_000_000_000;

/// A tree of one leaf has a root beside it.
fn some_nodes(nodes: Value) -> Value {
    match nodes {
        Value::Integer(3..) => Value::Simple(b"some nodes".to_vec()),
        other => other,
    }
}

/// An entry of `XPENDING`: for how long it is idle, is the third that is told of it. It was delivered a moment ago, or counts as
/// delivered long ago.
fn without_idle_time(pending: Value) -> Value {
    let Value::Array(mut told) = pending else {
        return pending;
    };
    if let Some(idle @ Value::Integer(_)) = told.get_mut(2) {
        let is_old = idle.integer() > Some(100_000_000);
        *idle = Value::Simple(if is_old { b"old".to_vec() } else { b"new".to_vec() });
    }
    Value::Array(told)
}

/// Where the two servers disagreed.
struct Difference {
    step: usize,
    subject: Option<Value>,
    reference: Option<Value>,
}

impl Difference {
    /// Whether an `EXEC` failed that need not: of one key in a thousand that is created, a client that watches an absent
    /// key cannot know that it is another one.
    fn is_needless_failure(&self) -> bool {
        let is_nil = self.subject.as_ref().is_some_and(Value::is_null);
        is_nil && matches!(self.reference, Some(Value::Array(_)))
    }
}

/// The server under test and the one that knows.
struct Pair {
    subject: Server,
    reference: Server,
}

/// How the servers of a pair are set up.
#[derive(Clone, Copy)]
struct Setup {
    workers: usize,
    groups: usize,
    /// Options of both that say from which size on a collection is large.
    limits: &'static [&'static str],
    /// Whether the subject lends the keys of every command that walks to another thread, however little there is.
    all_aside: bool,
    families: Families,
}

impl Pair {
    fn start(setup: Setup) -> Self {
        let subject = Server::subject().workers(setup.workers).groups(setup.groups);
        let pair = Self {
            subject: subject.flag("enable-debug-command", "yes").start(),
            reference: Server::reference().start(),
        };
        if !setup.limits.is_empty() {
            for server in [&pair.subject, &pair.reference] {
                set_limits(server, setup.limits);
            }
        }
        if setup.all_aside && !pair.subject.is_redis() {
            pair.subject.client().run_ok("DEBUG SET-STEPS-MAX 0");
        }
        pair
    }

    fn first_difference(&self, steps: &[Step]) -> Option<Difference> {
        let mut ours = Side::new(&self.subject);
        let mut theirs = Side::new(&self.reference);
        for (index, step) in steps.iter().enumerate() {
            let subject = ours.perform(&self.subject, step);
            let reference = theirs.perform(&self.reference, step);
            let agree = match (&subject, &reference) {
                (Some(subject), Some(reference)) if out_of_range_before(&subject.value, &reference.value) => {
                    return None;
                }
                (Some(subject), Some(reference)) => subject.agrees(reference, step),
                (None, None) => true,
                _ => false,
            };
            if !agree {
                return Some(Difference {
                    step: index,
                    subject: subject.map(|reply| reply.value),
                    reference: reference.map(|reply| reply.value),
                });
            }
        }
        None
    }

    /// Leaves out as much as it can while the servers still disagree.
    fn shrink(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let mut runs = 0;
        let mut chunk = steps.len() / 2;
        while chunk > 0 {
            let mut start = 0;
            while start < steps.len() && runs < SHRINK_RUNS {
                let mut shorter = steps.clone();
                shorter.drain(start..(start + chunk).min(steps.len()));
                runs += 1;
                if let Some(difference) = self.first_difference(&shorter) {
                    shorter.truncate(difference.step + 1);
                    steps = shorter;
                } else {
                    start += chunk;
                }
            }
            chunk /= 2;
        }
        steps
    }
}

fn show(step: &Step) -> String {
    let mut text = format!("[{}]", step.connection);
    if let Some(inline) = &step.inline {
        let _ = write!(text, " inline \"{}\"", inline.escape_ascii());
        return text;
    }
    for argument in &step.arguments {
        if !argument.is_empty() && argument.iter().all(u8::is_ascii_graphic) {
            let _ = write!(text, " {}", String::from_utf8_lossy(argument));
        } else {
            let _ = write!(text, " \"{}\"", argument.escape_ascii());
        }
    }
    text
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text}, no number")),
    )
}

fn compare(workers: usize, groups: usize, limits: &'static [&'static str]) {
    compare_as(Setup {
        workers,
        groups,
        limits,
        all_aside: false,
        families: Families::All,
    });
}

fn compare_as(setup: Setup) {
    let Setup { workers, groups, .. } = setup;
    let mut pair = Pair::start(setup);
    let first = number_from_environment("CHORALE_BLACKBOX_SEED")
        .unwrap_or(1_000_000 * workers as u64 + groups as u64);
    let count = number_from_environment("CHORALE_BLACKBOX_SEQUENCES").unwrap_or(200);
    for seed in first..first + count {
        let steps = Generator::new(Prng::new(seed), setup.families).sequence();
        let Some(found) = pair.first_difference(&steps) else {
            continue;
        };
        if found.is_needless_failure() {
            // By another server's secret, other keys share a stamp. What fails again is no accident.
            pair = Pair::start(setup);
            if pair.first_difference(&steps).is_none() {
                continue;
            }
        }
        let shrunk = pair.shrink(steps[..=found.step].to_vec());
        let last = pair.first_difference(&shrunk).unwrap_or(found);
        let mut report = format!(
            "replies differ with {workers} workers and {groups} groups. To repeat:\n\
             CHORALE_BLACKBOX_SEED={seed} CHORALE_BLACKBOX_SEQUENCES=1 cargo test -p blackbox differential\n\
             shrunk sequence:\n"
        );
        for step in &shrunk {
            let _ = writeln!(report, "  {}", show(step));
        }
        let _ = writeln!(
            report,
            "subject:   {:?}\nreference: {:?}",
            last.subject, last.reference
        );
        panic!("{report}");
    }
}

#[test]
fn replies_equal_redis_with_one_worker_and_one_group() {
    compare(1, 1, &[]);
}

#[test]
fn replies_equal_redis_with_one_worker_and_many_groups() {
    compare(1, 64, &[]);
}

#[test]
fn replies_equal_redis_with_two_workers_and_one_group() {
    compare(2, 1, &[]);
}

#[test]
fn replies_equal_redis_with_two_workers_and_many_groups() {
    compare(2, 64, &[]);
}

/// Collections of more than a few short elements are large.
const SMALL_LIMITS: &[&str] = &[
    "hash-max-listpack-entries 3",
    "hash-max-listpack-value 10",
    "set-max-intset-entries 4",
    "zset-max-listpack-entries 3",
    "zset-max-listpack-value 10",
    "list-max-listpack-size 3",
    "hll-sparse-max-bytes 60",
];

/// Every worker learns of a limit by itself: waits until all of them have.
fn set_limits(server: &Server, limits: &[&str]) {
    let mut client = server.client();
    for limit in limits {
        client.run_ok(&format!("CONFIG SET {limit}"));
    }
    eventually("all workers know the limits", || {
        client.run_ok("FLUSHALL");
        (0..100).all(|number| {
            client.run(&format!("ZADD {number} 1 a 2 b 3 c 4 d"));
            client.run(&format!("OBJECT ENCODING {number}")).text().as_deref() == Some("skiplist")
        })
    });
}

#[test]
fn replies_equal_redis_with_large_collections() {
    compare(1, 64, SMALL_LIMITS);
}

#[test]
fn replies_equal_redis_with_large_collections_and_two_workers() {
    compare(2, 64, SMALL_LIMITS);
}

#[test]
fn replies_equal_redis_with_everything_carried_out_aside() {
    compare_as(Setup {
        workers: 2,
        groups: 64,
        limits: SMALL_LIMITS,
        all_aside: true,
        families: Families::All,
    });
}

#[test]
fn replies_equal_redis_with_everything_of_one_group_carried_out_aside() {
    compare_as(Setup {
        workers: 1,
        groups: 1,
        limits: &[],
        all_aside: true,
        families: Families::All,
    });
}

/// A few entries fill a block of a stream. The last one says when all workers know them.
const SMALL_BLOCKS: &[&str] = &["stream-node-max-entries 3", "zset-max-listpack-entries 3"];

fn compare_streams(workers: usize, groups: usize, all_aside: bool) {
    compare_as(Setup {
        workers,
        groups,
        limits: SMALL_BLOCKS,
        all_aside,
        families: Families::Streams,
    });
}

#[test]
fn replies_of_streams_equal_redis_with_one_group() {
    compare_streams(1, 1, false);
}

#[test]
fn replies_of_streams_equal_redis_with_two_workers_and_many_groups() {
    compare_streams(2, 64, false);
}

#[test]
fn replies_of_streams_equal_redis_with_everything_carried_out_aside() {
    compare_streams(2, 64, true);
}

/// Commands of the table, or containers, that are never generated, and why. An entry that is not needed any more fails the test.
const NOT_GENERATED: &[(&str, &str)] = &[
    ("add", "Redis has it not; see `own_commands.rs`"),
    ("asking", "of the cluster endpoint; see `cluster_endpoint.rs`"),
    ("backup", "Redis has it not; see `backup.rs`"),
    (
        "bgrewriteaof",
        "in memory there is nothing to save to; see `saves.rs`",
    ),
    ("bgsave", "in memory there is nothing to save to; see `saves.rs`"),
    ("cas", "Redis has it not; see `own_commands.rs`"),
    ("client|no-touch", "came with Redis 7.2"),
    ("client|request", "Redis has it not; see `examples/once`"),
    ("client|setinfo", "came with Redis 7.2"),
    ("cluster", "of the cluster endpoint; see `cluster_endpoint.rs`"),
    (
        "debug",
        "answers with addresses and sizes, or has subcommands of its own; see `observation.rs`",
    ),
    (
        "monitor",
        "its replies come with what others do; see `monitor.rs`",
    ),
    (
        "eval",
        "generated scripts would mostly be mistakes; see `scripts.rs`",
    ),
    ("eval_ro", "see `scripts.rs`"),
    ("evalsha", "see `scripts.rs`"),
    ("evalsha_ro", "see `scripts.rs`"),
    (
        "script",
        "what is known is what `eval` made known; see `scripts.rs`",
    ),
    ("fcall", "see `functions.rs`"),
    ("fcall_ro", "see `functions.rs`"),
    ("function|load", "see `functions.rs`"),
    ("function|delete", "see `functions.rs`"),
    ("function|list", "see `functions.rs`"),
    ("function|dump", "see `functions.rs`"),
    ("function|restore", "see `functions.rs`"),
    ("function|stats", "see `functions.rs`"),
    ("function|kill", "see `functions.rs`"),
    (
        "function|help",
        "lists what this server has; see `observation.rs`",
    ),
    ("lastsave", "counts snapshots of replicas; see `saves.rs`"),
    ("module", "there are none; see `observation.rs`"),
    ("mrestore", "Redis has it not; see `backup.rs`"),
    ("dump", "it says as much in other bytes; see `dumps.rs`"),
    ("restore", "see `dumps.rs`"),
    ("restore-asking", "see `dumps.rs`"),
    ("psubscribe", "a reply for each pattern; see `pubsub.rs`"),
    ("readonly", "of the cluster endpoint; see `cluster_endpoint.rs`"),
    ("readwrite", "of the cluster endpoint; see `cluster_endpoint.rs`"),
    ("role", "the offset is not Redis's; see `observation.rs`"),
    ("save", "in memory there is nothing to save to; see `saves.rs`"),
    ("shutdown", "ends the server; see `shutdown.rs`"),
    ("ssubscribe", "a reply for each channel; see `pubsub.rs`"),
    ("sub", "Redis has it not; see `own_commands.rs`"),
    ("subscribe", "a reply for each channel; see `pubsub.rs`"),
    ("waitaof", "came with Redis 7.2"),
    ("xfer", "Redis has it not; see `own_commands.rs`"),
];

/// Whether an entry of [`NOT_GENERATED`] means this command.
fn is_meant(entry: &str, name: &str) -> bool {
    let container = name.split_once('|').map(|(container, _)| container);
    name == entry || container == Some(entry)
}

#[test]
fn every_command_of_the_table_is_generated() {
    let server = Server::subject().start();
    if server.is_redis() {
        return;
    }
    let listed = server.client().run("COMMAND LIST");
    let mut names: BTreeSet<String> = listed
        .elements()
        .expect("COMMAND LIST answers with names")
        .iter()
        .map(|name| name.text().expect("names are strings"))
        .collect();
    // A container is generated with its subcommands; only COMMAND and DEBUG can stand alone or with words of their own.
    let containers: BTreeSet<String> = names
        .iter()
        .filter_map(|name| name.split_once('|'))
        .map(|(container, _)| container.to_owned())
        .collect();
    names.retain(|name| name == "command" || !containers.contains(name));
    let mut generator = Generator::new(Prng::new(1), Families::All);
    for _ in 0..100_000 {
        let arguments = generator.command();
        let name = name_of(&arguments);
        let name = match arguments.get(1) {
            Some(subcommand) if containers.contains(&name) => {
                format!(
                    "{name}|{}",
                    String::from_utf8_lossy(subcommand).to_ascii_lowercase()
                )
            }
            _ => name,
        };
        assert!(
            NOT_GENERATED.iter().all(|(entry, _)| !is_meant(entry, &name)),
            "{name} is generated, but listed as not generated"
        );
        names.remove(&name);
    }
    let missing: Vec<_> = names
        .iter()
        .filter(|name| NOT_GENERATED.iter().all(|(entry, _)| !is_meant(entry, name)))
        .collect();
    assert!(missing.is_empty(), "never generated: {missing:?}");
    for (entry, _) in NOT_GENERATED {
        let is_there = names.iter().any(|name| is_meant(entry, name));
        assert!(is_there, "{entry} is no command of the table");
    }
}
