//! Strict serializability from versions that the store exposes: each transaction says which version of each key it read and
//! which it left.
//!
//! Versions of a key are numbers that grow with every change of it, deletion included; what was there before the history
//! has a smaller one than whatever was left in it. So the order of the versions is known, nothing is guessed, and a history
//! is strictly serializable exactly if nothing below is found, in time that is linear but for sorting:
//!
//! 1. a transaction agrees with itself: it reads its own last write, one version twice as the same, and leaves greater
//!    versions than it read ([`Phenomenon::Internal`]);
//! 2. a version is left once ([`Phenomenon::Duplicate`]), and by somebody ([`Phenomenon::Unwritten`]);
//! 3. who left it did not abort (G1a), and left no later one of this key (G1b);
//! 4. the graph (`graph.rs`) has no circle.
//!
//! A transaction of unknown outcome happened if a version was read that it says it left; otherwise it is as if it had not.
//! What it read is not looked at. A write whose version nobody knows (`write x ?`) explains versions that nobody says he
//! left: each is then a transaction of its own, which weakens the check by what is not known and by no more.

use crate::anomaly::{Anomaly, Judgement, Phenomenon};
use crate::graph::{self, About, Graph, Kind, Link};
use crate::transaction::{Outcome, Transaction, Transactions};
use crate::transaction_text::{self, ActionText, Key};
use std::collections::BTreeMap;
use std::fmt;

/// What a transaction did to one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// It read this version.
    Read {
        /// Of which key.
        key: String,
        /// The version that it found.
        version: u64,
    },
    /// It wrote without reading.
    Write {
        /// Which key.
        key: String,
        /// The version that it left; `None` if nobody knows.
        left: Option<u64>,
    },
    /// It read and wrote.
    Update {
        /// Which key.
        key: String,
        /// The version that it found.
        read: u64,
        /// The version that it left.
        left: u64,
    },
}

impl Action {
    /// Which key it is about.
    pub fn key(&self) -> &str {
        match self {
            Action::Read { key, .. } | Action::Write { key, .. } | Action::Update { key, .. } => key,
        }
    }

    fn read(&self) -> Option<u64> {
        match *self {
            Action::Read { version, .. } => Some(version),
            Action::Update { read, .. } => Some(read),
            Action::Write { .. } => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = Key(self.key());
        match self {
            Action::Read { version, .. } => write!(f, "read {key} {version}"),
            Action::Write { left: Some(left), .. } => write!(f, "write {key} {left}"),
            Action::Write { left: None, .. } => write!(f, "write {key} ?"),
            Action::Update { read, left, .. } => write!(f, "update {key} {read} {left}"),
        }
    }
}

impl ActionText for Action {
    fn from_words(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Action, &'static str> {
        let name = words.next();
        let key = transaction_text::key(words);
        let mut version = || crate::text::number(words, "a version");
        Ok(match name {
            Some("read") => Action::Read {
                key: key?,
                version: version()?,
            },
            Some("write") => Action::Write {
                key: key?,
                left: transaction_text::maybe(words, "?", "a version, or `?`")?,
            },
            Some("update") => Action::Update {
                key: key?,
                read: version()?,
                left: version()?,
            },
            _ => return Err("`read`, `write` or `update`"),
        })
    }
}

type History = Transactions<Action>;

/// Whether the transactions are strictly serializable.
pub fn check(history: &History) -> Judgement {
    match judge(history) {
        Ok(()) => Judgement::Clean,
        Err(anomaly) => Judgement::Violated(anomaly),
    }
}

fn judge(history: &History) -> Result<(), Box<Anomaly>> {
    let mut keys = Keys::of(history)?;
    let mut graph = Graph::new(history.len());
    let mut happened: Vec<bool> = history.as_slice().iter().map(Transaction::is_committed).collect();
    for key in &keys.keys {
        key.find_writers(history, &mut happened)?;
    }
    for (number, key) in keys.keys.iter_mut().enumerate() {
        key.connect(history, number, &happened, &mut graph)?;
    }
    graph.edges_of_history(history, &happened);
    match graph.circle() {
        None => Ok(()),
        Some(circle) => Err(keys.explain(history, &circle)),
    }
}

fn violated(
    phenomenon: Phenomenon,
    history: &History,
    transactions: Vec<usize>,
    reason: String,
) -> Box<Anomaly> {
    Box::new(Anomaly::new(
        phenomenon,
        false,
        history,
        transactions,
        vec![reason],
    ))
}

/// Who says that he left a version.
#[derive(Default)]
struct Claims {
    committed: Vec<usize>,
    unknown: Vec<usize>,
    aborted: Option<usize>,
}

/// What a transaction knows of one key from its actions so far.
#[derive(Default)]
struct Seen {
    /// The version that it found or left last.
    current: Option<u64>,
    /// The version that it left last.
    left: Option<u64>,
    /// Whether it left one that nobody knows: what it finds from then on may be its own, and says nothing of others.
    is_blind: bool,
}

/// One key's versions.
#[derive(Default)]
struct KeyVersions<'a> {
    name: &'a str,
    claims: BTreeMap<u64, Claims>,
    /// Versions after which the same transaction left another.
    intermediate: BTreeMap<(u64, usize), u64>,
    /// What committed transactions read that they had not written themselves.
    reads: Vec<(u64, usize)>,
    /// When the first write was called whose version nobody knows.
    unknown_from: Option<u64>,
    /// Versions whose writers are nodes without a transaction.
    strangers: BTreeMap<usize, u64>,
}

/// All keys, by number.
struct Keys<'a> {
    keys: Vec<KeyVersions<'a>>,
}

impl<'a> Keys<'a> {
    /// Collects what transactions say, and checks that each agrees with itself.
    fn of(history: &'a History) -> Result<Keys<'a>, Box<Anomaly>> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut keys: Vec<KeyVersions<'a>> = Vec::new();
        for (index, transaction) in history.as_slice().iter().enumerate() {
            let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
            for action in &transaction.actions {
                let number = *numbers.entry(action.key()).or_insert_with(|| {
                    keys.push(KeyVersions {
                        name: action.key(),
                        ..KeyVersions::default()
                    });
                    keys.len() - 1
                });
                keys[number].note(history, index, action, seen.entry(number).or_default())?;
            }
        }
        Ok(Keys { keys })
    }

    fn explain(&self, history: &History, circle: &[Link]) -> Box<Anomaly> {
        let (phenomenon, needs_time) = graph::name(circle);
        let transactions = circle.iter().map(|link| link.from);
        let transactions = transactions.filter(|&node| node < history.len()).collect();
        let reasons = circle.iter().map(|link| self.reason(history, link)).collect();
        let anomaly = Anomaly::new(phenomenon, needs_time, history, transactions, reasons);
        Box::new(anomaly)
    }

    /// Why one node of a circle comes before the next.
    fn reason(&self, history: &History, link: &Link) -> String {
        let (from, to) = (
            self.node(history, link, link.from),
            self.node(history, link, link.to),
        );
        let because = match (link.kind, link.about.version) {
            (Kind::Ww, Some(version)) => {
                format!(
                    "{to} left version {version} of {:?}, the next after {from}'s",
                    self.name(link)
                )
            }
            (Kind::Wr, Some(version)) => {
                format!(
                    "{to} read version {version} of {:?}, which {from} left",
                    self.name(link)
                )
            }
            (Kind::Rw, Some(version)) => {
                format!(
                    "{from} read version {version} of {:?}, and {to} left the next",
                    self.name(link)
                )
            }
            _ => graph::reason_of_time(history, link),
        };
        format!("{from} comes before {to} ({}): {because}", link.kind.name())
    }

    fn name(&self, link: &Link) -> &str {
        self.keys[link.about.key].name
    }

    fn node(&self, history: &History, link: &Link, node: usize) -> String {
        if node < history.len() {
            return format!("T{node}");
        }
        match self.keys[link.about.key].strangers.get(&node) {
            Some(version) => format!("whoever left version {version} of {:?}", self.name(link)),
            None => "somebody".to_owned(),
        }
    }
}

impl KeyVersions<'_> {
    /// Notes one action of a transaction that has seen this much of the key before.
    fn note(
        &mut self,
        history: &History,
        index: usize,
        action: &Action,
        seen: &mut Seen,
    ) -> Result<(), Box<Anomaly>> {
        let transaction = &history.as_slice()[index];
        let internal = |reason| violated(Phenomenon::Internal, history, vec![index], reason);
        let read = action
            .read()
            .filter(|_| transaction.is_committed() && !seen.is_blind);
        if let Some(read) = read {
            match seen.current {
                Some(current) if current != read => {
                    return Err(internal(format!(
                        "T{index} read version {read} of {:?}, where it knew of version {current}",
                        self.name
                    )));
                }
                Some(_) => {}
                None => self.reads.push((read, index)),
            }
            seen.current = Some(read);
        }
        let left = match *action {
            Action::Read { .. } => return Ok(()),
            Action::Write { left: None, .. } => {
                if transaction.outcome != Outcome::Aborted {
                    let from = self.unknown_from.get_or_insert(transaction.invoked);
                    *from = transaction.invoked.min(*from);
                }
                seen.is_blind = true;
                return Ok(());
            }
            Action::Write { left: Some(left), .. } | Action::Update { left, .. } => left,
        };
        if let Some(current) = seen.current
            && left <= current
            && transaction.is_committed()
        {
            return Err(internal(format!(
                "T{index} left version {left} of {:?} where it found version {current}",
                self.name
            )));
        }
        seen.current = Some(left);
        if let Some(last) = seen.left.replace(left) {
            self.intermediate.insert((last, index), left);
        }
        let claims = self.claims.entry(left).or_default();
        match transaction.outcome {
            Outcome::Committed => claims.committed.push(index),
            Outcome::Unknown => claims.unknown.push(index),
            Outcome::Aborted => claims.aborted = Some(index),
        }
        Ok(())
    }

    /// Marks transactions of unknown outcome whose versions were read: they happened.
    fn find_writers(&self, history: &History, happened: &mut [bool]) -> Result<(), Box<Anomaly>> {
        let first = self.first();
        for &(version, reader) in &self.reads {
            let Some(claims) = self.claims.get(&version) else {
                let ended = history.as_slice()[reader].ended();
                if Some(version) != first && self.unknown_from.is_none_or(|from| from > ended) {
                    return Err(violated(
                        Phenomenon::Unwritten,
                        history,
                        vec![reader],
                        format!(
                            "T{reader} read version {version} of {:?}, which nobody left",
                            self.name
                        ),
                    ));
                }
                continue;
            };
            if !claims.committed.is_empty() {
                continue;
            }
            match (claims.unknown.as_slice(), claims.aborted) {
                (&[writer], _) => happened[writer] = true,
                ([], Some(writer)) => {
                    return Err(violated(
                        Phenomenon::AbortedRead,
                        history,
                        vec![writer, reader],
                        format!(
                            "T{reader} read version {version} of {:?}, which T{writer} left, and T{writer} was aborted",
                            self.name
                        ),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What was there before the history: the smallest version that was read and that nobody left, if nobody left a
    /// smaller one.
    fn first(&self) -> Option<u64> {
        let read = self.reads.iter().map(|&(version, _)| version).min()?;
        let left = self.claims.keys().next();
        left.is_none_or(|&left| read < left).then_some(read)
    }

    /// Puts the versions in their order, and edges into the graph.
    fn connect(
        &mut self,
        history: &History,
        number: usize,
        happened: &[bool],
        graph: &mut Graph,
    ) -> Result<(), Box<Anomaly>> {
        let first = self.first();
        // Who left each version; nobody what was there before.
        let mut versions: BTreeMap<u64, Option<usize>> = BTreeMap::new();
        for (&version, claims) in &self.claims {
            let writers: Vec<usize> = claims
                .committed
                .iter()
                .chain(&claims.unknown)
                .copied()
                .filter(|&writer| happened[writer])
                .collect();
            match writers[..] {
                [] => {}
                [writer] => {
                    versions.insert(version, Some(writer));
                }
                _ => {
                    let reason = format!("each of them left version {version} of {:?}", self.name);
                    return Err(violated(Phenomenon::Duplicate, history, writers, reason));
                }
            }
        }
        for &(version, reader) in &self.reads {
            let writer = *versions.entry(version).or_insert_with(|| {
                let stranger = (Some(version) != first).then(|| graph.node());
                self.strangers
                    .extend(stranger.map(|stranger| (stranger, version)));
                stranger
            });
            if let Some(writer) = writer
                && writer != reader
                && let Some(next) = self.intermediate.get(&(version, writer))
            {
                return Err(violated(
                    Phenomenon::IntermediateRead,
                    history,
                    vec![writer, reader],
                    format!(
                        "T{reader} read version {version} of {:?}, which T{writer} left before it left version {next}",
                        self.name
                    ),
                ));
            }
        }
        let order: Vec<(u64, Option<usize>)> = versions.into_iter().collect();
        let about = |version| About {
            key: number,
            version: Some(version),
        };
        for pair in order.windows(2) {
            if let [(_, Some(before)), (version, Some(after))] = *pair {
                graph.edge(before, after, Kind::Ww, about(version));
            }
        }
        for &(version, reader) in &self.reads {
            let at = order
                .binary_search_by_key(&version, |&(version, _)| version)
                .expect("every version that was read is in the order");
            if let Some(writer) = order[at].1 {
                graph.edge(writer, reader, Kind::Wr, about(version));
            }
            if let Some(&(_, Some(next))) = order.get(at + 1) {
                graph.edge(reader, next, Kind::Rw, about(version));
            }
        }
        Ok(())
    }
}
