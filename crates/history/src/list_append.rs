//! Strict serializability from what clients saw alone, over lists that only grow (Kingsbury and Alvaro, "Elle", 2020).
//!
//! Each element is appended to a key once in the whole history, and reads show whole lists. So a list tells its past: who
//! saw `[1,2]` saw the version that the append of 2 left, after that of 1. The longest read of each key is the order of its
//! versions, and a history is refused if one of these is so:
//!
//! 1. a list shows an element twice ([`Phenomenon::Duplicate`]), or one that nobody appended ([`Phenomenon::Unwritten`]),
//!    or one of an aborted transaction (G1a);
//! 2. a read is no beginning of the longest one ([`Phenomenon::IncompatibleOrder`]);
//! 3. a transaction does not see its own appends at the end of what it saw before ([`Phenomenon::Internal`]);
//! 4. another transaction saw an append that was not the last one of its transaction to that key (G1b);
//! 5. an append was answered, and a read that was called later does not show it ([`Phenomenon::LostAppend`]; a read that is
//!    stale and the longest one goes by this name too);
//! 6. the graph (`graph.rs`) has a circle.
//!
//! Appends that no read shows come after the longest read of their key, in an order that nobody can know. A transaction of
//! unknown outcome happened if an element of it was seen; otherwise it is as if it had not.
//!
//! Each of these is proof: what is strictly serializable is never refused. The other way round it holds as far as reads go:
//! with unique elements and whole lists, what passes *has* an order that explains every read. What no read shows is beyond
//! any check of this kind: an append that was lost and that nobody looked for afterwards passes, so a test reads every key
//! once more at its end. And where an answer of a read got lost, nothing is concluded from it.

use crate::anomaly::{Anomaly, Judgement, Phenomenon};
use crate::graph::{self, About, Graph, Kind, Link};
use crate::transaction::{Outcome, Transaction, Transactions};
use crate::transaction_text::{self, ActionText, Key};
use std::collections::BTreeMap;
use std::fmt;

/// What a transaction did to one list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// It appended an element that is appended nowhere else to this key: who tries again takes another one.
    Append {
        /// To which list.
        key: String,
        /// The element.
        element: i64,
    },
    /// It read the whole list.
    Read {
        /// Which list.
        key: String,
        /// What was in it; `None` if no answer came.
        elements: Option<Vec<i64>>,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Append { key, element } => write!(f, "append {} {element}", Key(key)),
            Action::Read { key, elements } => {
                write!(f, "read {} ", Key(key))?;
                transaction_text::write_elements(f, elements.as_deref())
            }
        }
    }
}

impl ActionText for Action {
    fn from_words(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Action, &'static str> {
        match words.next() {
            Some("append") => Ok(Action::Append {
                key: transaction_text::key(words)?,
                element: crate::text::number(words, "an element")?,
            }),
            Some("read") => Ok(Action::Read {
                key: transaction_text::key(words)?,
                elements: transaction_text::elements(words)?,
            }),
            _ => Err("`append` or `read`"),
        }
    }
}

type History = Transactions<Action>;

/// Whether the transactions are strictly serializable, as far as their reads show.
pub fn check(history: &History) -> Judgement {
    match judge(history) {
        Ok(()) => Judgement::Clean,
        Err(anomaly) => Judgement::Violated(anomaly),
    }
}

fn judge(history: &History) -> Result<(), Box<Anomaly>> {
    let lists = Lists::of(history)?;
    let mut happened: Vec<bool> = history.as_slice().iter().map(Transaction::is_committed).collect();
    for list in &lists.lists {
        list.check_elements(history, list.longest, list.longest_by, &mut happened)?;
    }
    for list in &lists.lists {
        list.check_beginnings(history, &mut happened)?;
        list.check_own_appends(history, &happened)?;
    }
    for list in &lists.lists {
        list.check_last_appends(history)?;
        list.check_lost_appends(history)?;
    }
    let mut graph = Graph::new(history.len());
    for (number, list) in lists.lists.iter().enumerate() {
        list.connect(history, number, &happened, &mut graph)?;
    }
    graph.edges_of_history(history, &happened);
    match graph.circle() {
        None => Ok(()),
        Some(circle) => Err(lists.explain(history, &circle)),
    }
}

/// All lists, by number.
struct Lists<'a> {
    lists: Vec<List<'a>>,
}

/// One key's appends and reads.
#[derive(Default)]
struct List<'a> {
    name: &'a str,
    appends: Vec<Append>,
    /// Which of the appends is an element's.
    by_element: BTreeMap<i64, usize>,
    reads: Vec<Read<'a>>,
    longest: &'a [i64],
    longest_by: usize,
    /// Where each append stands in the longest read.
    places: Vec<Option<usize>>,
}

/// One append to a list.
struct Append {
    transaction: usize,
    element: i64,
    /// Whether its transaction appended to this list again.
    is_followed: bool,
}

/// One read of a list, by a committed transaction.
struct Read<'a> {
    transaction: usize,
    elements: &'a [i64],
    /// How many appends to the list stood before it, in all transactions up to and with its own: those of its own among
    /// them are the last.
    appends_before: usize,
}

impl<'a> Lists<'a> {
    fn of(history: &'a History) -> Result<Lists<'a>, Box<Anomaly>> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut lists: Vec<List<'a>> = Vec::new();
        for (index, transaction) in history.as_slice().iter().enumerate() {
            for action in &transaction.actions {
                let (Action::Append { key, .. } | Action::Read { key, .. }) = action;
                let number = *numbers.entry(key).or_insert_with(|| {
                    lists.push(List {
                        name: key,
                        ..List::default()
                    });
                    lists.len() - 1
                });
                let list = &mut lists[number];
                match action {
                    Action::Append { element, .. } => list.note_append(history, index, *element)?,
                    Action::Read {
                        elements: Some(elements),
                        ..
                    } if transaction.is_committed() => list.note_read(index, elements),
                    Action::Read { .. } => {}
                }
            }
        }
        for list in &mut lists {
            list.places = vec![None; list.appends.len()];
            for (place, element) in list.longest.iter().enumerate() {
                if let Some(&append) = list.by_element.get(element) {
                    list.places[append].get_or_insert(place);
                }
            }
        }
        Ok(Lists { lists })
    }

    fn explain(&self, history: &History, circle: &[Link]) -> Box<Anomaly> {
        let (phenomenon, needs_time) = graph::name(circle);
        let transactions = circle.iter().map(|link| link.from).collect();
        let reasons = circle.iter().map(|link| self.reason(history, link)).collect();
        let anomaly = Anomaly::new(phenomenon, needs_time, history, transactions, reasons);
        Box::new(anomaly)
    }

    /// Why one transaction of a circle comes before the next.
    fn reason(&self, history: &History, link: &Link) -> String {
        let (from, to, kind) = (link.from, link.to, link.kind.name());
        let list = &self.lists[link.about.key];
        let name = list.name;
        let element = |place: u64| {
            usize::try_from(place)
                .ok()
                .and_then(|place| list.longest.get(place))
        };
        let element = link.about.version.and_then(element);
        let because = match (link.kind, element) {
            (Kind::Ww, Some(element)) => {
                format!("T{to} appended {element} to {name:?}, right after an append of T{from}")
            }
            (Kind::Ww, None) => format!(
                "the longest read of {name:?} ends with an append of T{from} and does not show one of T{to}"
            ),
            (Kind::Wr, Some(element)) => {
                format!("T{to} read {name:?} up to {element}, which T{from} appended")
            }
            (Kind::Rw, Some(element)) => {
                format!("T{from} read {name:?} up to the place before {element}, which T{to} appended")
            }
            (Kind::Rw, None) => {
                format!("T{from} read all that was seen of {name:?}, and not what T{to} appended")
            }
            _ => graph::reason_of_time(history, link),
        };
        format!("T{from} comes before T{to} ({kind}): {because}")
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

impl<'a> List<'a> {
    fn note_append(&mut self, history: &History, index: usize, element: i64) -> Result<(), Box<Anomaly>> {
        if let Some(&other) = self.by_element.get(&element) {
            let reason = format!(
                "{element} was appended to {:?} twice, so that nobody can tell whose was seen",
                self.name
            );
            let transactions = vec![self.appends[other].transaction, index];
            return Err(violated(Phenomenon::Unjudgeable, history, transactions, reason));
        }
        if let Some(last) = self.appends.last_mut() {
            last.is_followed = last.transaction == index;
        }
        self.by_element.insert(element, self.appends.len());
        self.appends.push(Append {
            transaction: index,
            element,
            is_followed: false,
        });
        Ok(())
    }

    fn note_read(&mut self, index: usize, elements: &'a [i64]) {
        if self.reads.is_empty() || elements.len() > self.longest.len() {
            self.longest = elements;
            self.longest_by = index;
        }
        self.reads.push(Read {
            transaction: index,
            elements,
            appends_before: self.appends.len(),
        });
    }

    fn append_of(&self, element: i64) -> Option<&Append> {
        self.by_element.get(&element).map(|&append| &self.appends[append])
    }

    /// The elements of one read are of appends that happened, each of one. Transactions of unknown outcome are known to
    /// have happened by it.
    fn check_elements(
        &self,
        history: &History,
        elements: &[i64],
        reader: usize,
        happened: &mut [bool],
    ) -> Result<(), Box<Anomaly>> {
        let mut seen = vec![false; self.appends.len()];
        for &element in elements {
            let Some(&number) = self.by_element.get(&element) else {
                let reason = format!(
                    "T{reader} read {element} in {:?}, which nobody appended",
                    self.name
                );
                return Err(violated(Phenomenon::Unwritten, history, vec![reader], reason));
            };
            let writer = self.appends[number].transaction;
            if std::mem::replace(&mut seen[number], true) {
                let reason = format!(
                    "T{reader} read {element} twice in {:?}, and T{writer} appended it once",
                    self.name
                );
                let transactions = vec![writer, reader];
                return Err(violated(Phenomenon::Duplicate, history, transactions, reason));
            }
            match history.as_slice()[writer].outcome {
                Outcome::Committed => {}
                Outcome::Unknown => happened[writer] = true,
                Outcome::Aborted => {
                    let reason = format!(
                        "T{reader} read {element} in {:?}, which T{writer} appended, and T{writer} was aborted",
                        self.name
                    );
                    let transactions = vec![writer, reader];
                    return Err(violated(Phenomenon::AbortedRead, history, transactions, reason));
                }
            }
        }
        Ok(())
    }

    /// Every read is a beginning of the longest one.
    fn check_beginnings(&self, history: &History, happened: &mut [bool]) -> Result<(), Box<Anomaly>> {
        for read in &self.reads {
            if self.longest.starts_with(read.elements) {
                continue;
            }
            self.check_elements(history, read.elements, read.transaction, happened)?;
            let reason = format!(
                "neither of these reads of {:?} continues the other: T{} and T{}",
                self.name, read.transaction, self.longest_by
            );
            let transactions = vec![read.transaction, self.longest_by];
            return Err(violated(
                Phenomenon::IncompatibleOrder,
                history,
                transactions,
                reason,
            ));
        }
        Ok(())
    }

    /// A transaction sees its own appends so far, at the end and in their order, and none that it is still to make; and if
    /// it read before, nothing else has come since. What it appended and others see is in its order too.
    fn check_own_appends(&self, history: &History, happened: &[bool]) -> Result<(), Box<Anomaly>> {
        let internal = |index, reason| Err(violated(Phenomenon::Internal, history, vec![index], reason));
        let mut before: Option<&Read<'_>> = None;
        for read in &self.reads {
            let index = read.transaction;
            let own = |number: &usize| self.appends[*number].transaction == index;
            let own_before = (0..read.appends_before).rev().take_while(own).count();
            let length = read.elements.len();
            let first = read.appends_before - own_before;
            let sees_own = own_before <= length
                && (0..own_before).all(|nth| self.places[first + nth] == Some(length - own_before + nth));
            let mut later = (read.appends_before..self.appends.len()).take_while(own);
            if !sees_own || later.any(|number| self.places[number].is_some_and(|place| place < length)) {
                return internal(
                    index,
                    format!(
                        "T{index} read {:?}, which does not end with what T{index} had appended to it until then",
                        self.name
                    ),
                );
            }
            if let Some(earlier) = before.filter(|earlier| earlier.transaction == index) {
                let since = read.appends_before - earlier.appends_before;
                if earlier.elements.len() + since != length {
                    return internal(
                        index,
                        format!(
                            "T{index} read {:?} twice, and the second list is not the first with its own appends since",
                            self.name
                        ),
                    );
                }
            }
            before = Some(read);
        }
        for pair in self.appends.windows(2) {
            let index = pair[0].transaction;
            if !pair[0].is_followed || !happened[index] {
                continue;
            }
            let place = |append: &Append| self.place(append).unwrap_or(usize::MAX);
            let (first, second) = (place(&pair[0]), place(&pair[1]));
            if second < first {
                return internal(
                    index,
                    format!(
                        "T{index} appended {} to {:?} before {}, which is seen before it or without it",
                        pair[0].element, self.name, pair[1].element
                    ),
                );
            }
        }
        Ok(())
    }

    fn place(&self, append: &Append) -> Option<usize> {
        let number = self.by_element.get(&append.element)?;
        self.places[*number]
    }

    /// Of several appends of one transaction, others see all or none.
    fn check_last_appends(&self, history: &History) -> Result<(), Box<Anomaly>> {
        for read in &self.reads {
            let Some(append) = read.elements.last().and_then(|&last| self.append_of(last)) else {
                continue;
            };
            let (reader, writer) = (read.transaction, append.transaction);
            if writer != reader && append.is_followed {
                let reason = format!(
                    "T{reader} read {:?} up to {}, after which T{writer} appended more to it",
                    self.name, append.element
                );
                let transactions = vec![writer, reader];
                return Err(violated(
                    Phenomenon::IntermediateRead,
                    history,
                    transactions,
                    reason,
                ));
            }
        }
        Ok(())
    }

    /// What was answered is seen by whoever reads after that.
    fn check_lost_appends(&self, history: &History) -> Result<(), Box<Anomaly>> {
        let called = |read: &&Read<'_>| history.as_slice()[read.transaction].invoked;
        let Some(last) = self.reads.iter().max_by_key(called) else {
            return Ok(());
        };
        for (append, place) in self.appends.iter().zip(&self.places) {
            let (writer, reader) = (append.transaction, last.transaction);
            let transaction = &history.as_slice()[writer];
            if place.is_none() && transaction.is_committed() && transaction.ended() < called(&last) {
                let reason = format!(
                    "T{writer} appended {} to {:?} and was answered at {}; T{reader}, called at {}, did not read it, and \
                     nobody ever did",
                    append.element,
                    self.name,
                    transaction.ended(),
                    called(&last)
                );
                let transactions = vec![writer, reader];
                return Err(violated(Phenomenon::LostAppend, history, transactions, reason));
            }
        }
        Ok(())
    }

    /// Puts edges into the graph.
    fn connect(
        &self,
        history: &History,
        number: usize,
        happened: &[bool],
        graph: &mut Graph,
    ) -> Result<(), Box<Anomaly>> {
        let about = |place: usize| About {
            key: number,
            version: Some(place as u64),
        };
        let writers: Vec<usize> = self
            .longest
            .iter()
            .filter_map(|&element| self.append_of(element))
            .map(|append| append.transaction)
            .collect();
        for (place, pair) in writers.windows(2).enumerate() {
            graph.edge(pair[0], pair[1], Kind::Ww, about(place + 1));
        }
        for read in &self.reads {
            let length = read.elements.len();
            if length > 0 {
                graph.edge(writers[length - 1], read.transaction, Kind::Wr, about(length - 1));
            }
            if let Some(&next) = writers.get(length) {
                graph.edge(read.transaction, next, Kind::Rw, about(length));
            }
        }
        self.connect_unseen(history, number, happened, &writers, graph)
    }

    /// What nobody read was appended after all that somebody read.
    ///
    /// ```text
    ///   readers of the longest list --.                        .--> who appended, and nobody read it
    ///                                 end --> next -----> rest --->
    ///   who appended its last --------'       (the one who
    ///                                          read and appended, if any)
    /// ```
    fn connect_unseen(
        &self,
        history: &History,
        number: usize,
        happened: &[bool],
        writers: &[usize],
        graph: &mut Graph,
    ) -> Result<(), Box<Anomaly>> {
        let mut unseen: Vec<usize> = self
            .appends
            .iter()
            .zip(&self.places)
            .filter(|(append, place)| place.is_none() && happened[append.transaction])
            .map(|(append, _)| append.transaction)
            .collect();
        unseen.dedup();
        if unseen.is_empty() {
            return Ok(());
        }
        let mut readers: Vec<usize> = self
            .reads
            .iter()
            .filter(|read| read.elements.len() == self.longest.len())
            .map(|read| read.transaction)
            .collect();
        readers.dedup();
        // Both lists ascend: transactions were walked in their order.
        let mut both = readers
            .iter()
            .copied()
            .filter(|reader| unseen.binary_search(reader).is_ok());
        let next = both.next();
        if let (Some(one), Some(other)) = (next, both.next()) {
            let reason = format!(
                "both read {:?} with {} elements, and each appended one that the other did not read",
                self.name,
                self.longest.len()
            );
            return Err(violated(
                Phenomenon::LostUpdate,
                history,
                vec![one, other],
                reason,
            ));
        }
        let about = About {
            key: number,
            version: None,
        };
        let (end, rest) = (graph.waypoint(), graph.waypoint());
        for &reader in readers.iter().filter(|&&reader| Some(reader) != next) {
            graph.edge(reader, end, Kind::Rw, about);
        }
        if let Some(&last) = writers.last()
            && Some(last) != next
        {
            graph.edge(last, end, Kind::Ww, about);
        }
        graph.edge(end, rest, Kind::Through, about);
        if let Some(next) = next {
            graph.edge(end, next, Kind::Through, about);
            graph.edge(next, rest, Kind::Rw, about);
        }
        for &writer in unseen.iter().filter(|&&writer| Some(writer) != next) {
            graph.edge(rest, writer, Kind::Through, about);
        }
        Ok(())
    }
}
