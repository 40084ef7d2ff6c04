//! What clients were told was done, object by object, and whether it is there after processes have ended.
//!
//! ```text
//!   begin:    writers --pipelines of operations--> nodes, until end, or until the connection is lost: then a new page
//!             each operation has a number: the page has which were sent, and which were acknowledged
//!   missing:  the state of each object --> the number of the operation that made it
//!             acknowledged last <= that number <= sent last
//! ```
//!
//! A page has one connection, and objects that nobody else writes. What was under way when the connection broke may still be done
//! later: a page that was left is not written again, and its bounds stay true. Only the accounts of the bank are shared: whatever
//! is done of the transfers between them, their sum is zero.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Client, Prng, SETTLING, Value, frame};

/// Accounts between which is transferred, in each database.
const ACCOUNTS: usize = 12;

/// Databases that pages are in.
const DATABASES: u64 = 3;

/// Keys of one `MSET`: enough for several groups.
const MANY: usize = 8;

/// Keys, or fields, of a kind that each page has several of.
const SEVERAL: usize = 6;

/// The most operations of one pipeline.
const PIPELINE_MAX: usize = 32;

/// A time of expiry that no test reaches, in milliseconds since 1970. The number of an operation is added to it.
const FAR: u64 = 4_102_444_800_000;

/// Between attempts to connect, or to be answered.
const PAUSE: Duration = Duration::from_millis(10);

/// What the operations of one series change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Written {
    /// `SET` of the number.
    Text(usize),
    /// `INCR`.
    Counter,
    /// `LPUSH` of the number.
    List,
    /// `HSET` of a field to the number.
    Field(usize),
    /// `ZADD` of the number.
    Scores,
    /// `MSET` of all keys to the number.
    Many,
    /// `PEXPIREAT`, by the number later.
    Expiry,
    /// `SET` of an odd number, `DEL` for an even one.
    Fleeting,
    /// `MULTI`, from one account of the bank to another, and the number counted.
    Transfer,
}

/// Operations of one series.
#[derive(Debug, Default)]
struct Series {
    sent: u64,
    acknowledged: Vec<u64>,
    /// Those of which a client was told that nothing was done.
    refused: Vec<u64>,
}

impl Series {
    fn last(&self) -> u64 {
        self.acknowledged.last().copied().unwrap_or_default()
    }

    /// Why a state that the operation with this number made is not what it can be.
    fn judge(&self, found: u64) -> Option<String> {
        let (last, sent) = (self.last(), self.sent);
        if found < last {
            return Some(format!("{found} is there, and {last} was acknowledged"));
        }
        if self.refused.contains(&found) {
            return Some(format!("{found} is there, and was refused"));
        }
        (found > sent).then(|| format!("{found} is there, and no more than {sent} was sent"))
    }

    /// Why these, in the order of their numbers, are not what can be there if each operation adds its number.
    fn judge_all(&self, found: &[u64]) -> Option<String> {
        if !found.is_sorted_by(|one, other| one < other) {
            return Some("its elements are in another order, or some twice".to_owned());
        }
        let is_there = |number: &&u64| found.binary_search(number).is_err();
        let missing: Vec<&u64> = self.acknowledged.iter().filter(is_there).collect();
        if let Some(first) = missing.first() {
            return Some(format!(
                "{} that were acknowledged are missing, {first} first",
                missing.len()
            ));
        }
        if let Some(refused) = found.iter().find(|found| self.refused.contains(found)) {
            return Some(format!("{refused} is there, and was refused"));
        }
        found
            .last()
            .filter(|&&last| last > self.sent)
            .map(|last| format!("{last} was never sent"))
    }
}

/// What one connection wrote.
#[derive(Debug)]
struct Page {
    number: u64,
    at: SocketAddr,
    series: BTreeMap<Written, Series>,
    /// The first errors that it was told.
    errors: Vec<String>,
}

impl Page {
    fn new(number: u64, at: SocketAddr) -> Page {
        Page {
            number,
            at,
            series: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    fn database(&self) -> String {
        (self.number % DATABASES).to_string()
    }

    fn key(&self, name: impl fmt::Display) -> String {
        format!("{name}:{}", self.number)
    }

    fn draw(prng: &mut Prng) -> Written {
        match prng.below(10) {
            0 | 1 => Written::Text(prng.below(SEVERAL)),
            2 => Written::Counter,
            3 => Written::List,
            4 => Written::Field(prng.below(SEVERAL)),
            5 => Written::Scores,
            6 => Written::Many,
            7 => Written::Expiry,
            8 => Written::Fleeting,
            _ => Written::Transfer,
        }
    }

    /// The commands of an operation; the last one's reply is its own.
    fn commands(&self, written: Written, number: u64, prng: &mut Prng) -> Vec<Vec<String>> {
        let text = number.to_string();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let one = match written {
            Written::Text(which) => words(&["SET", &self.key(format_args!("text-{which}")), &text]),
            Written::Counter => words(&["INCR", &self.key("counter")]),
            Written::List => words(&["LPUSH", &self.key("list"), &text]),
            Written::Field(which) => words(&["HSET", &self.key("hash"), &which.to_string(), &text]),
            Written::Scores => words(&["ZADD", &self.key("scores"), &text, &text]),
            Written::Many => {
                let pairs =
                    (0..MANY).flat_map(|which| [self.key(format_args!("many-{which}")), text.clone()]);
                std::iter::once("MSET".to_owned()).chain(pairs).collect()
            }
            Written::Expiry => {
                let (key, at) = (self.key("expiry"), (FAR + number).to_string());
                match number {
                    1 => words(&["SET", &key, "x", "PXAT", &at]),
                    _ => words(&["PEXPIREAT", &key, &at]),
                }
            }
            Written::Fleeting if number % 2 == 1 => words(&["SET", &self.key("fleeting"), &text]),
            Written::Fleeting => words(&["DEL", &self.key("fleeting")]),
            Written::Transfer => {
                let from = prng.below(ACCOUNTS);
                let to = (from + 1 + prng.below(ACCOUNTS - 1)) % ACCOUNTS;
                return vec![
                    words(&["MULTI"]),
                    words(&["DECRBY", &format!("bank:{from}"), "7"]),
                    words(&["INCRBY", &format!("bank:{to}"), "7"]),
                    words(&["INCR", &self.key("transfers")]),
                    words(&["EXEC"]),
                ];
            }
        };
        vec![one]
    }

    /// One pipeline: how much of it was acknowledged. An error of the connection, or one that leaves open what was done, ends the
    /// page.
    fn write(&mut self, client: &mut Client, prng: &mut Prng, done: &AtomicU64) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut asked = Vec::new();
        for _ in 0..=prng.below(PIPELINE_MAX) {
            let written = Page::draw(prng);
            let series = self.series.entry(written).or_default();
            series.sent += 1;
            let number = series.sent;
            let commands = self.commands(written, number, prng);
            bytes.extend(commands.iter().flat_map(|words| frame(words)));
            asked.push((written, number, commands.len()));
        }
        client.send_raw(&bytes)?;
        let mut is_open = false;
        for (written, number, replies) in asked {
            let mut reply = client.receive()?;
            for _ in 1..replies {
                reply = client.receive()?;
            }
            if let Some(error) = reply.error() {
                match ["TRYAGAIN", "EXECABORT", "MISCONF"]
                    .iter()
                    .any(|code| error.starts_with(code))
                {
                    // Nothing was done, for certain.
                    true => self.series.entry(written).or_default().refused.push(number),
                    false => is_open = true,
                }
                if self.errors.len() < 4 {
                    self.errors.push(error);
                }
                continue;
            }
            // An expiry of what is not there, because the first operation failed.
            if written == Written::Expiry && reply == Value::Integer(0) {
                continue;
            }
            let series = self.series.entry(written).or_default();
            series.acknowledged.push(number);
            done.fetch_add(1, Ordering::Relaxed);
        }
        match is_open {
            true => Err(io::ErrorKind::Other.into()),
            false => Ok(()),
        }
    }

    /// The commands that show an object.
    fn look(&self, written: Written) -> Vec<String> {
        let key = |name: &str| self.key(name);
        match written {
            Written::Text(which) => vec!["GET".to_owned(), key(&format!("text-{which}"))],
            Written::Counter => vec!["GET".to_owned(), key("counter")],
            Written::List => vec!["LRANGE".to_owned(), key("list"), "0".to_owned(), "-1".to_owned()],
            Written::Field(which) => vec!["HGET".to_owned(), key("hash"), which.to_string()],
            Written::Scores => vec![
                "ZRANGE".to_owned(),
                key("scores"),
                "0".to_owned(),
                "-1".to_owned(),
            ],
            Written::Many => {
                let keys = (0..MANY).map(|which| key(&format!("many-{which}")));
                std::iter::once("MGET".to_owned()).chain(keys).collect()
            }
            Written::Expiry => vec!["PEXPIRETIME".to_owned(), key("expiry")],
            Written::Fleeting => vec!["GET".to_owned(), key("fleeting")],
            Written::Transfer => vec!["GET".to_owned(), key("transfers")],
        }
    }

    /// Why a reply to [`Page::look`] is not what the series can have made.
    fn judge(&self, written: Written, series: &Series, reply: &Value) -> Option<String> {
        let number = |value: &Value| match value.is_null() {
            true => Some(0),
            false => value.integer().and_then(|number| u64::try_from(number).ok()),
        };
        let all = |value: &Value| -> Option<Vec<u64>> { value.elements()?.iter().map(number).collect() };
        let strange = || Some(format!("{reply:?} is there"));
        match written {
            Written::Text(_) | Written::Field(_) => {
                number(reply).map_or_else(strange, |found| series.judge(found))
            }
            // They count, so what was refused makes them smaller than the last number.
            Written::Counter | Written::Transfer => {
                let count = series.acknowledged.len() as u64;
                let refused = series.refused.len() as u64;
                match number(reply) {
                    Some(found) if (count..=series.sent - refused).contains(&found) => None,
                    found => Some(format!(
                        "{found:?} were counted, {count} acknowledged, {refused} refused and {} sent",
                        series.sent
                    )),
                }
            }
            Written::List => all(reply).map_or_else(strange, |mut found| {
                found.reverse();
                series.judge_all(&found)
            }),
            Written::Scores => all(reply).map_or_else(strange, |found| series.judge_all(&found)),
            Written::Many => match all(reply) {
                Some(found) if found.iter().all(|&one| one == found[0]) => series.judge(found[0]),
                _ => Some(format!("an MSET is there in part: {reply:?}")),
            },
            Written::Expiry => match reply.integer() {
                Some(-2) => series.judge(0),
                Some(at) if at >= FAR as i64 => series.judge(at as u64 - FAR),
                _ => strange(),
            },
            Written::Fleeting => match number(reply) {
                Some(0) => {
                    // The last one that was acknowledged, or any behind it, may have removed it.
                    let (last, sent) = (series.last(), series.sent);
                    let is_removed = last % 2 == 0 || sent > last;
                    (!is_removed).then(|| format!("nothing is there, and {last} was acknowledged"))
                }
                Some(found) if found % 2 == 1 => series.judge(found),
                _ => strange(),
            },
        }
    }
}

/// Writers that are at work.
#[derive(Debug)]
struct Writers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Page>>>,
}

/// See the file's header.
#[derive(Debug)]
pub struct Receipts {
    prng: Prng,
    next: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
    writers: Option<Writers>,
    pages: Vec<Page>,
}

impl Receipts {
    /// One without pages.
    #[must_use]
    pub fn new(seed: u64) -> Receipts {
        Receipts {
            prng: Prng::new(seed),
            next: Arc::default(),
            done: Arc::default(),
            writers: None,
            pages: Vec::new(),
        }
    }

    /// So many writers at each of the nodes begin, and go on until [`Receipts::end`], whatever becomes of the nodes.
    ///
    /// # Panics
    /// If there are some.
    pub fn begin(&mut self, nodes: &[SocketAddr], at_each: usize) {
        assert!(self.writers.is_none(), "writers are at work");
        let is_over = Arc::new(AtomicBool::new(false));
        let of_all = nodes.iter().flat_map(|&node| std::iter::repeat_n(node, at_each));
        let threads = of_all.map(|node| {
            let (is_over, next, done) = (is_over.clone(), self.next.clone(), self.done.clone());
            let mut prng = Prng::new(self.prng.bits());
            thread::spawn(move || {
                let mut pages = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let page = Page::new(next.fetch_add(1, Ordering::Relaxed), node);
                    match fill(page, &is_over, &done, &mut prng) {
                        Ok(page) => pages.push(page),
                        Err(_) => thread::sleep(PAUSE),
                    }
                }
                pages
            })
        });
        let threads = threads.collect();
        self.writers = Some(Writers { is_over, threads });
    }

    /// How many operations were acknowledged since these receipts began.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until so many more operations were acknowledged.
    ///
    /// # Panics
    /// If they are not within [`SETTLING`] for each 25,000 of them.
    #[track_caller]
    pub fn wait_for_more(&self, operations: u64) {
        let (wanted, start) = (self.acknowledged() + operations, Instant::now());
        let patience = SETTLING * operations.div_ceil(25_000) as u32;
        while self.acknowledged() < wanted {
            let more = self.acknowledged() + operations - wanted;
            assert!(
                start.elapsed() < patience,
                "only {more} of {operations} operations were acknowledged within {patience:?}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for a round of writing: until some hundreds of operations more were acknowledged, and up to 20,000 beyond them, or up to
    /// `CHORALE_BLACKBOX_WRITES`.
    ///
    /// # Panics
    /// As [`Receipts::wait_for_more`].
    #[track_caller]
    pub fn wait_for_a_round(&self, prng: &mut Prng) {
        let most = std::env::var("CHORALE_BLACKBOX_WRITES");
        let most = most.map_or(20_000, |most| most.parse().expect("a number of operations"));
        self.wait_for_more(300 + prng.below(most) as u64);
    }

    /// The writers end, after the pipeline that each of them waits for.
    ///
    /// # Panics
    /// If there are none.
    pub fn end(&mut self) {
        let writers = self.writers.take().expect("writers are at work");
        writers.is_over.store(true, Ordering::Relaxed);
        for thread in writers.threads {
            self.pages.extend(thread.join().expect("a writer does not panic"));
        }
    }

    /// What is not there, to clients of a node, that should be; for people. Writers must not be at work.
    ///
    /// # Panics
    /// If the node does not answer.
    #[must_use]
    pub fn missing(&self, node: SocketAddr) -> Vec<String> {
        let mut missing = Vec::new();
        for page in &self.pages {
            let looks = page.series.keys().map(|&written| page.look(written)).collect();
            let replies = ask(node, &page.database(), looks);
            for ((&written, series), reply) in page.series.iter().zip(&replies) {
                if let Some(why) = page.judge(written, series, reply) {
                    let (number, at, errors) = (page.number, page.at, &page.errors);
                    missing.push(format!(
                        "{written:?} of page {number}, written at {at}: {why}; errors {errors:?}"
                    ));
                }
            }
        }
        for database in 0..DATABASES {
            let accounts = (0..ACCOUNTS).map(|account| format!("bank:{account}"));
            let look = std::iter::once("MGET".to_owned()).chain(accounts).collect();
            let replies = ask(node, &database.to_string(), vec![look]);
            let accounts = replies[0].elements().unwrap_or_default();
            let sum: i64 = accounts.iter().filter_map(Value::integer).sum();
            if sum != 0 {
                missing.push(format!("the bank of database {database} has {sum}: {accounts:?}"));
            }
        }
        missing
    }

    /// Some of the errors that clients were told, for people.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<&str, usize> {
        let mut errors = BTreeMap::new();
        for error in self.pages.iter().flat_map(|page| &page.errors) {
            *errors.entry(error.as_str()).or_default() += 1;
        }
        errors
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        if let Some(writers) = &self.writers {
            writers.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes a page until it is lost, or nothing more is wanted.
///
/// # Errors
/// Nothing was written: there was no connection.
fn fill(mut page: Page, is_over: &AtomicBool, done: &AtomicU64, prng: &mut Prng) -> io::Result<Page> {
    let mut client = Client::connect(page.at)?;
    let reply = client.try_command(&["SELECT", &page.database()])?;
    if reply != Value::ok() {
        return Err(io::ErrorKind::Other.into());
    }
    while !is_over.load(Ordering::Relaxed) && page.write(&mut client, prng, done).is_ok() {}
    Ok(page)
}

/// The replies to these commands, asked again while there are errors among them: a group may have no leader yet.
///
/// # Panics
/// If that is so for longer than [`SETTLING`].
fn ask(node: SocketAddr, database: &str, commands: Vec<Vec<String>>) -> Vec<Value> {
    let start = Instant::now();
    loop {
        let failed = match try_to_ask(node, database, &commands) {
            Ok(replies) => match replies.iter().find_map(Value::error) {
                None => return replies,
                Some(error) => error,
            },
            Err(error) => error.to_string(),
        };
        assert!(
            start.elapsed() < SETTLING,
            "{node} does not answer within {SETTLING:?}: {failed}"
        );
        thread::sleep(PAUSE);
    }
}

fn try_to_ask(node: SocketAddr, database: &str, commands: &[Vec<String>]) -> io::Result<Vec<Value>> {
    let mut client = Client::connect(node)?;
    client.try_command(&["SELECT", database])?;
    let bytes: Vec<u8> = commands.iter().flat_map(|words| frame(words)).collect();
    client.send_raw(&bytes)?;
    commands.iter().map(|_| client.receive()).collect()
}
