//! Clients that append to lists and read them, up to four operations in one `MULTI`, over keys of any nodes, and write down
//! what they saw.
//!
//! Keys are used for a while and then left, so that lists stay short. At the end every key is written and read once more: what
//! was acknowledged and is not there then was lost, and what is not answered in time is held by a transaction that nobody ends.
//!
//! The same clients can talk to a Redis Cluster: with one hash tag in each transaction, because there is no other there, and
//! following `MOVED`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use history::list_append::{self, Action};
use history::{Judgement, Ledger, Transactions};

use crate::hand::{Common, Hand, is_refusal, lock, persist};
use crate::{Client, Mixture, Seen, Value, frame};

/// Transactions after which other keys are taken, of those that share the same keys.
const GENERATION: usize = 200;

/// Most operations of one transaction.
const ACTIONS_MAX: usize = 4;

/// Hash tags that are used at the same time where each transaction has one: enough that every primary has some.
const TAGS: usize = 8;

/// How the keys of a transaction are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// Any keys: they lie in unrelated groups.
    Any,
    /// The same, and each transaction is a script, which declares some of them or none.
    InScripts,
    /// Keys of one hash tag, for servers that refuse others.
    OneTag,
}

/// What is to be said of what the clients saw.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Whether there is an order that explains everything.
    pub judgement: Judgement,
    /// Transactions that were answered.
    pub transactions: u64,
    /// Those among them with more than one key.
    pub wide: u64,
    /// Appends that were acknowledged.
    pub appends: u64,
    /// Those that are not in their list at the end.
    pub lost: u64,
    /// What was answered to transactions that were carried out in part, or not as one.
    pub torn: BTreeSet<String>,
    /// Keys that did not answer a write at the end.
    pub stuck: BTreeSet<String>,
    /// What was noted.
    pub history: Transactions<Action>,
}

impl Findings {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.judgement == Judgement::Clean && self.lost == 0 && self.torn.is_empty() && self.stuck.is_empty()
    }
}

struct Shared {
    common: Common,
    keys: Keys,
    ledger: Ledger<Action>,
    used: Mutex<BTreeSet<String>>,
    torn: Mutex<BTreeSet<String>>,
    elements: AtomicI64,
}

/// See the file's header.
pub struct ListAppend {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl ListAppend {
    /// Begins, at these nodes.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn start(addresses: Vec<SocketAddr>, keys: Keys, mixture: Mixture) -> Self {
        let shared = Arc::new(Shared {
            common: Common::new(addresses, mixture),
            keys,
            ledger: Ledger::default(),
            used: Mutex::default(),
            torn: Mutex::default(),
            elements: AtomicI64::new(0),
        });
        let threads = (0..shared.common.mixture.clients)
            .map(|number| {
                let shared = shared.clone();
                thread::spawn(move || Appender::new(&shared, Hand::new(&shared.common, number)).work())
            })
            .collect();
        ListAppend { shared, threads }
    }

    /// What was seen until now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.common.seen().clone()
    }

    /// Ends the clients, writes and reads every key once more, and judges. Whoever asks has mended everything before.
    ///
    /// # Panics
    /// If a client panicked.
    #[must_use]
    pub fn finish(self) -> (Findings, Seen) {
        self.shared.common.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a client does not panic");
        }
        let stuck = last_writes(&self.shared);
        let shared = Arc::into_inner(self.shared).expect("the clients have ended");
        let seen = shared.common.seen().clone();
        let history = shared.ledger.finish();
        let torn = shared.torn.into_inner().unwrap_or_else(PoisonError::into_inner);
        let findings = Findings {
            torn,
            stuck,
            ..judge(history)
        };
        (findings, seen)
    }
}

/// Writes to every key and reads it. The keys that do not answer.
fn last_writes(shared: &Shared) -> BTreeSet<String> {
    let keys = lock(&shared.used).clone();
    let mut last = Appender::new(shared, Hand::last(&shared.common));
    let mut is_stuck = |key: &str| {
        let mut attempt = || {
            let append = last.append(key);
            last.carry_out(&[append, read(key)])
        };
        !persist(&shared.common, &mut attempt)
    };
    keys.into_iter().filter(|key| is_stuck(key)).collect()
}

fn judge(history: Transactions<Action>) -> Findings {
    let mut last: BTreeMap<&str, &[i64]> = BTreeMap::new();
    let mut findings = Findings {
        judgement: list_append::check(&history),
        transactions: 0,
        wide: 0,
        appends: 0,
        lost: 0,
        torn: BTreeSet::new(),
        stuck: BTreeSet::new(),
        history: Transactions::default(),
    };
    let committed = || {
        history
            .as_slice()
            .iter()
            .filter(|transaction| transaction.is_committed())
    };
    for transaction in committed() {
        let mut keys = BTreeSet::new();
        for action in &transaction.actions {
            match action {
                Action::Append { key, .. } => {
                    keys.insert(key);
                    findings.appends += 1;
                }
                Action::Read { key, elements } => {
                    keys.insert(key);
                    // In the order of calls: the last write of each key reads it, when nobody else is there any more.
                    if let Some(elements) = elements {
                        last.insert(key, elements);
                    }
                }
            }
        }
        findings.transactions += 1;
        findings.wide += u64::from(keys.len() > 1);
    }
    let last: BTreeMap<&str, BTreeSet<i64>> = last
        .into_iter()
        .map(|(key, elements)| (key, elements.iter().copied().collect()))
        .collect();
    for action in committed().flat_map(|transaction| &transaction.actions) {
        if let Action::Append { key, element } = action {
            let is_there = last
                .get(key.as_str())
                .is_none_or(|elements| elements.contains(element));
            findings.lost += u64::from(!is_there);
        }
    }
    findings.history = history;
    findings
}

pub(crate) fn read(key: &str) -> Action {
    Action::Read {
        key: key.to_owned(),
        elements: None,
    }
}

/// What came of a transaction.
pub(crate) enum Reply {
    Told(Vec<Action>),
    Refused(String),
    Unknown(String),
    /// It was carried out, and not as one.
    Torn(String),
}

/// One client.
struct Appender<'a> {
    shared: &'a Shared,
    hand: Hand<'a>,
    /// Who said that another serves a tag, said who.
    owners: BTreeMap<String, SocketAddr>,
}

impl<'a> Appender<'a> {
    fn new(shared: &'a Shared, hand: Hand<'a>) -> Appender<'a> {
        Appender {
            shared,
            hand,
            owners: BTreeMap::new(),
        }
    }

    fn work(&mut self) {
        while !self.shared.common.is_over.load(Ordering::Relaxed) {
            let sharing = match self.shared.keys {
                Keys::Any | Keys::InScripts => 1,
                Keys::OneTag => TAGS,
            };
            let generation = self.shared.ledger.len() / (GENERATION * sharing);
            let tag = self.hand.prng.below(TAGS);
            let mut planned = Vec::new();
            for _ in 0..=self.hand.prng.below(ACTIONS_MAX) {
                let number = self.hand.prng.below(self.shared.common.mixture.keys);
                let key = match self.shared.keys {
                    Keys::Any | Keys::InScripts => format!("t:{generation}:{number}"),
                    Keys::OneTag => format!("t:{generation}:{{{tag}}}:{number}"),
                };
                lock(&self.shared.used).insert(key.clone());
                planned.push(if self.hand.prng.chance(50) {
                    self.append(&key)
                } else {
                    read(&key)
                });
            }
            self.carry_out(&planned);
            self.hand.rest();
        }
    }

    fn append(&self, key: &str) -> Action {
        Action::Append {
            key: key.to_owned(),
            element: self.shared.elements.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// One transaction; true if it was carried out.
    fn carry_out(&mut self, planned: &[Action]) -> bool {
        let tag = match (&planned[0], self.shared.keys) {
            (Action::Append { key, .. } | Action::Read { key, .. }, Keys::OneTag) => {
                key.split(['{', '}']).nth(1).unwrap_or_default().to_owned()
            }
            (_, Keys::Any | Keys::InScripts) => String::new(),
        };
        let address = match self.owners.get(&tag) {
            Some(&owner) => owner,
            None => self.hand.address,
        };
        let Some(mut connection) = self.hand.take(address) else {
            self.owners.remove(&tag);
            return false;
        };
        let invoked = self.hand.now();
        let process = self.hand.process;
        let entry = self.shared.ledger.called(process, planned.to_vec(), invoked);
        let is_alone = planned.len() == 1 && self.hand.prng.chance(50);
        let is_declared = self.hand.prng.chance(50);
        let asked = if is_alone {
            ask(&mut connection, &planned[0])
        } else if self.shared.keys == Keys::InScripts {
            ask_in_script(&mut connection, planned, is_declared)
        } else {
            ask_together(&mut connection, planned)
        };
        let now = self.hand.now();
        let Ok(reply) = asked else {
            self.owners.remove(&tag);
            self.hand.is_lost();
            return false;
        };
        self.hand.keep(address, connection);
        match reply {
            Reply::Told(told) => {
                self.shared.ledger.committed(entry, told, now);
                self.hand.is_answered(invoked, now);
                return true;
            }
            Reply::Refused(text) => {
                self.shared.ledger.aborted(entry, now);
                match moved(&text) {
                    Some(owner) => self.owners.insert(tag, owner),
                    None => self.owners.remove(&tag),
                };
                self.hand.is_refused(text);
            }
            Reply::Unknown(text) => self.hand.is_unknown(text),
            Reply::Torn(text) => {
                lock(&self.shared.torn).insert(text.clone());
                self.hand.complain(text);
                self.hand.become_another();
            }
        }
        false
    }
}

/// Who serves the slot, of `MOVED 866 127.0.0.1:7001`.
fn moved(text: &str) -> Option<SocketAddr> {
    text.strip_prefix("MOVED ")?.split(' ').nth(1)?.parse().ok()
}

fn words(action: &Action) -> Vec<String> {
    match action {
        Action::Append { key, element } => vec!["RPUSH".to_owned(), key.clone(), element.to_string()],
        Action::Read { key, .. } => ["LRANGE", key, "0", "-1"].map(str::to_owned).to_vec(),
    }
}

/// A plain command.
fn ask(connection: &mut Client, action: &Action) -> io::Result<Reply> {
    let reply = connection.try_command(&words(action))?;
    Ok(match (reply.error(), told(action, &reply)) {
        (Some(text), _) => refused_or_unknown(text),
        (None, Some(told)) => Reply::Told(vec![told]),
        (None, None) => Reply::Torn(format!("{reply:?} to {action}")),
    })
}

/// A `MULTI` block, sent at once as client libraries do.
pub(crate) fn ask_together(connection: &mut Client, planned: &[Action]) -> io::Result<Reply> {
    let mut bytes = frame(&["MULTI"]);
    for action in planned {
        bytes.extend(frame(&words(action)));
    }
    bytes.extend(frame(&["EXEC"]));
    connection.send_raw(&bytes)?;
    let mut first_error = None;
    for _ in 0..=planned.len() {
        first_error = first_error.or(connection.receive()?.error());
    }
    let reply = connection.receive()?;
    if let Some(text) = reply.error() {
        return Ok(match first_error {
            Some(first) if text.starts_with("EXECABORT") => Reply::Refused(first),
            _ => refused_or_unknown(text),
        });
    }
    let elements = reply.elements().unwrap_or_default();
    let told: Option<Vec<Action>> = planned
        .iter()
        .zip(elements)
        .map(|(action, reply)| told(action, reply))
        .collect();
    Ok(match (told, first_error) {
        (Some(told), None) if elements.len() == planned.len() => Reply::Told(told),
        (_, first_error) => Reply::Torn(format!(
            "{first_error:?}, then {reply:?}, to a transaction of {}",
            planned.len()
        )),
    })
}

/// Carries out the commands that it is given, each with the number of its words before it.
const SCRIPT: &str = "local told, at = {}, 1
while at <= #ARGV do
    local count, words = tonumber(ARGV[at]), {}
    for i = 1, count do words[i] = ARGV[at + i] end
    told[#told + 1] = redis.call(unpack(words))
    at = at + count + 1
end
return told";

/// A script. Of what is declared the first key is left out, so that there is mostly one that it comes to name.
fn ask_in_script(connection: &mut Client, planned: &[Action], is_declared: bool) -> io::Result<Reply> {
    let commands: Vec<Vec<String>> = planned.iter().map(words).collect();
    let keys = commands
        .iter()
        .skip(1)
        .filter(|_| is_declared)
        .map(|words| words[1].clone());
    let keys: Vec<String> = keys.collect();
    let mut all = vec!["EVAL".to_owned(), SCRIPT.to_owned(), keys.len().to_string()];
    all.extend(keys);
    for command in commands {
        all.push(command.len().to_string());
        all.extend(command);
    }
    let reply = connection.try_command(&all)?;
    if let Some(text) = reply.error() {
        return Ok(refused_or_unknown(text));
    }
    let elements = reply.elements().unwrap_or_default();
    let pairs = planned.iter().zip(elements);
    let told: Option<Vec<Action>> = pairs.map(|(action, reply)| told(action, reply)).collect();
    Ok(match told {
        Some(told) if elements.len() == planned.len() => Reply::Told(told),
        _ => Reply::Torn(format!("{reply:?}, to a script of {}", planned.len())),
    })
}

fn refused_or_unknown(text: String) -> Reply {
    match is_refusal(&text) {
        true => Reply::Refused(text),
        false => Reply::Unknown(text),
    }
}

/// What was asked, with what was told of it; `None` if that is no answer to it.
fn told(action: &Action, reply: &Value) -> Option<Action> {
    match action {
        Action::Append { .. } => matches!(reply, Value::Integer(_)).then(|| action.clone()),
        Action::Read { key, .. } => Some(Action::Read {
            key: key.clone(),
            elements: Some(
                reply
                    .elements()?
                    .iter()
                    .map(Value::integer)
                    .collect::<Option<_>>()?,
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use history::{Outcome, Process, Transaction};

    use super::*;

    fn transaction(invoked: u64, outcome: Outcome, text: &str) -> Transaction<Action> {
        let actions = text.split("; ").map(|action| {
            let words: Vec<&str> = action.split(' ').collect();
            let key = words[1].to_owned();
            match words[0] {
                "append" => Action::Append {
                    key,
                    element: words[2].parse().expect("a number"),
                },
                _ => Action::Read {
                    key,
                    elements: Some(
                        words[2..]
                            .iter()
                            .map(|word| word.parse().expect("a number"))
                            .collect(),
                    ),
                },
            }
        });
        Transaction {
            process: Process(0),
            invoked,
            returned: Some(invoked + 1),
            outcome,
            actions: actions.collect(),
        }
    }

    #[test]
    fn an_acknowledged_append_that_the_last_read_lacks_is_lost_and_one_of_unknown_outcome_is_not() {
        let findings = judge(Transactions::new(vec![
            transaction(1, Outcome::Committed, "append x 1; append y 2"),
            transaction(3, Outcome::Committed, "append x 3"),
            transaction(5, Outcome::Unknown, "append x 4"),
            transaction(7, Outcome::Committed, "read x 1"),
            transaction(9, Outcome::Committed, "read y 2"),
        ]));
        assert_eq!((findings.transactions, findings.wide), (4, 1));
        assert_eq!((findings.appends, findings.lost), (3, 1));
        assert!(!findings.is_good());
    }

    #[test]
    fn nothing_is_wrong_with_lists_that_hold_what_was_acknowledged() {
        let findings = judge(Transactions::new(vec![
            transaction(1, Outcome::Committed, "append x 1; append y 2"),
            transaction(3, Outcome::Committed, "append x 3; read x 1 3"),
            transaction(5, Outcome::Committed, "read y 2"),
        ]));
        assert!(findings.is_good(), "{findings:?}");
        assert_eq!((findings.appends, findings.lost), (3, 0));
    }

    #[test]
    fn a_redirection_names_the_one_who_serves_the_slot() {
        let owner = "127.0.0.1:7001".parse().expect("an address");
        assert_eq!(moved("MOVED 866 127.0.0.1:7001"), Some(owner));
        assert_eq!(moved("MOVED 866"), None);
        assert_eq!(moved("CLUSTERDOWN The cluster is down"), None);
    }

    /// What a client makes of what a server sends.
    fn answer(replies: &'static str, planned: &[Action]) -> io::Result<Reply> {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client connects");
            stream.write_all(replies.as_bytes()).expect("the client reads");
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut client = Client::connect(address).expect("the server listens");
        let reply = ask_together(&mut client, planned);
        drop(client);
        server.join().expect("the server does not panic");
        reply
    }

    #[test]
    fn what_certainly_was_not_done_is_told_from_what_nobody_knows_and_from_what_was_done_in_part() {
        let planned = [
            Action::Append {
                key: "x".to_owned(),
                element: 1,
            },
            read("y"),
        ];
        let ask = |replies| answer(replies, &planned).expect("there is an answer");
        let told = ask("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n*1\r\n$1\r\n7\r\n");
        let Reply::Told(told) = told else {
            panic!("it was carried out");
        };
        assert_eq!(told[0], planned[0]);
        assert!(matches!(&told[1], Action::Read { elements: Some(elements), .. } if elements == &[7]));
        let refused =
            ask("+OK\r\n-MOVED 1 127.0.0.1:7001\r\n+QUEUED\r\n-EXECABORT Transaction discarded\r\n");
        assert!(matches!(refused, Reply::Refused(text) if text.starts_with("MOVED")));
        let refused = ask("+OK\r\n+QUEUED\r\n+QUEUED\r\n-TRYAGAIN nothing was done\r\n");
        assert!(matches!(refused, Reply::Refused(_)));
        let unknown = ask("+OK\r\n+QUEUED\r\n+QUEUED\r\n-UNKNOWN a group was lost\r\n");
        assert!(matches!(unknown, Reply::Unknown(_)));
        let torn = ask("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n-CLUSTERDOWN no leader\r\n");
        assert!(matches!(torn, Reply::Torn(_)));
        let torn = ask("+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n");
        assert!(matches!(torn, Reply::Torn(_)));
        assert!(answer("+OK\r\n+QUEUED\r\n+QUEUED\r\n", &planned).is_err());
    }
}
