//! Clients that push elements to queues, move them from queue to queue, and take them, some of them waiting until there is one,
//! over keys of any nodes, and write down which element was where.
//!
//! At the end every queue is read: an element that was pushed is in one of them, or was taken once. What is nowhere was
//! lost; what is not answered in time is held by a transaction that nobody ends.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, JoinHandle};

use history::queues::{self, Action};
use history::{Judgement, Ledger, Transactions};

use crate::hand::{Common, Hand, is_refusal, persist};
use crate::{Client, Mixture, Seen, Value, frame};

/// How long a client waits for an element: long enough that others push one meanwhile, short beside its patience.
const WAIT_SECONDS: &str = "0.5";

/// What is to be said of what the clients saw.
#[derive(Clone, Debug)]
pub struct QueueFindings {
    /// Whether every element was taken once, or is still there.
    pub judgement: Judgement,
    /// Elements that were pushed.
    pub pushed: usize,
    /// Elements that were taken.
    pub taken: usize,
    /// Those among them that somebody waited for.
    pub awaited: usize,
    /// Moves from queue to queue.
    pub moved: usize,
    /// Queues that could not be read at the end.
    pub stuck: BTreeSet<String>,
    /// What was noted.
    pub history: Transactions<Action>,
}

impl QueueFindings {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.judgement == Judgement::Clean && self.stuck.is_empty()
    }
}

struct Shared {
    common: Common,
    ledger: Ledger<Action>,
    elements: AtomicI64,
    awaited: AtomicI64,
}

fn name_of(number: usize) -> String {
    format!("q:{number}")
}

/// See the file's header.
pub struct Queues {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Queues {
    /// Begins, at these nodes.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn start(addresses: Vec<SocketAddr>, mixture: Mixture) -> Self {
        let shared = Arc::new(Shared {
            common: Common::new(addresses, mixture),
            ledger: Ledger::default(),
            elements: AtomicI64::new(1),
            awaited: AtomicI64::new(0),
        });
        let threads = (0..shared.common.mixture.clients)
            .map(|number| {
                let shared = shared.clone();
                thread::spawn(move || Taker::new(&shared, Hand::new(&shared.common, number)).work())
            })
            .collect();
        Queues { shared, threads }
    }

    /// What was seen until now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.common.seen().clone()
    }

    /// Ends the clients, reads what is left, and judges. Whoever asks has mended everything before.
    ///
    /// # Panics
    /// If a client panicked.
    #[must_use]
    pub fn finish(self) -> (QueueFindings, Seen) {
        self.shared.common.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a client does not panic");
        }
        let common = &self.shared.common;
        let mut last = Taker::new(&self.shared, Hand::last(common));
        // All at once: a command of a client whose connection ended may still be carried out, and an element that is moved between
        // two reads would be seen twice or not at all.
        let queues: Vec<String> = (0..common.mixture.keys).map(name_of).collect();
        let is_read = persist(common, &mut || last.rest(&queues));
        let stuck = queues.into_iter().filter(|_| !is_read).collect();
        drop(last);
        let shared = Arc::into_inner(self.shared).expect("the clients have ended");
        let seen = shared.common.seen().clone();
        let awaited = usize::try_from(shared.awaited.into_inner()).unwrap_or_default();
        let findings = QueueFindings {
            stuck,
            awaited,
            ..judge(shared.ledger.finish())
        };
        (findings, seen)
    }
}

fn judge(history: Transactions<Action>) -> QueueFindings {
    let committed = || {
        let all = history.as_slice().iter().filter(|one| one.is_committed());
        all.flat_map(|one| &one.actions)
    };
    let taken = |action: &&Action| matches!(action, Action::Pop { element: Some(_), .. });
    let moved = |action: &&Action| matches!(action, Action::Move { element: Some(_), .. });
    QueueFindings {
        judgement: queues::check(&history),
        pushed: committed()
            .filter(|action| matches!(action, Action::Push { .. }))
            .count(),
        taken: committed().filter(taken).count(),
        awaited: 0,
        moved: committed().filter(moved).count(),
        stuck: BTreeSet::new(),
        history,
    }
}

/// One client.
struct Taker<'a> {
    shared: &'a Shared,
    hand: Hand<'a>,
}

impl<'a> Taker<'a> {
    fn new(shared: &'a Shared, hand: Hand<'a>) -> Taker<'a> {
        Taker { shared, hand }
    }

    fn work(&mut self) {
        while !self.shared.common.is_over.load(Ordering::Relaxed) {
            let queue = self.any();
            match self.hand.prng.below(20) {
                0..8 => {
                    let element = self.shared.elements.fetch_add(1, Ordering::Relaxed);
                    self.push(queue, element)
                }
                8..11 => self.pop(queue),
                11..14 => {
                    let other = self.any();
                    self.wait(queue, other)
                }
                14..17 => {
                    let to = self.any();
                    self.shift(queue, to, false)
                }
                _ => {
                    let to = self.any();
                    self.shift(queue, to, true)
                }
            };
            self.hand.rest();
        }
    }

    fn any(&mut self) -> String {
        let number = self.hand.prng.below(self.shared.common.mixture.keys);
        name_of(number)
    }

    fn push(&mut self, queue: String, element: i64) -> bool {
        let name = if self.hand.prng.chance(50) {
            "LPUSH"
        } else {
            "RPUSH"
        };
        let words = [name, &queue, &element.to_string()].map(str::to_owned);
        let planned = Action::Push { queue, element };
        self.carry_out(&words, planned.clone(), |reply| reply.integer().map(|_| planned))
    }

    fn pop(&mut self, queue: String) -> bool {
        let name = if self.hand.prng.chance(50) { "LPOP" } else { "RPOP" };
        let words = [name, &queue].map(str::to_owned);
        let popped = |element| Action::Pop { queue, element };
        self.carry_out(&words, popped.clone()(None), |reply| {
            Some(popped(element(reply)?))
        })
    }

    /// `BLPOP` or `BRPOP` of two queues.
    fn wait(&mut self, queue: String, other: String) -> bool {
        let name = if self.hand.prng.chance(50) {
            "BLPOP"
        } else {
            "BRPOP"
        };
        let words = [name, &queue, &other, WAIT_SECONDS].map(str::to_owned);
        let none = Action::Pop { queue, element: None };
        let awaited = &self.shared.awaited;
        self.carry_out(&words, none.clone(), |reply| {
            if reply.is_null() {
                return Some(none);
            }
            let [queue, found] = reply.elements()? else {
                return None;
            };
            let (queue, element) = (queue.text()?, element(found)?);
            awaited.fetch_add(1, Ordering::Relaxed);
            Some(Action::Pop { queue, element })
        })
    }

    /// `LMOVE`, or `BLMOVE`, which waits.
    fn shift(&mut self, from: String, to: String, waits: bool) -> bool {
        let mut words = [
            if waits { "BLMOVE" } else { "LMOVE" },
            &from,
            &to,
            "LEFT",
            "RIGHT",
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend(waits.then(|| WAIT_SECONDS.to_owned()));
        let moved = |element| Action::Move { from, to, element };
        self.carry_out(&words, moved.clone()(None), |reply| Some(moved(element(reply)?)))
    }

    /// Reads what is left in all queues, in one transaction.
    fn rest(&mut self, queues: &[String]) -> bool {
        let rest = |queue: &String, elements| Action::Rest {
            queue: queue.clone(),
            elements,
        };
        let planned = queues.iter().map(|queue| rest(queue, None)).collect();
        let mut bytes = frame(&["MULTI"]);
        for queue in queues {
            bytes.extend(frame(&["LRANGE", queue, "0", "-1"]));
        }
        bytes.extend(frame(&["EXEC"]));
        let ask = |connection: &mut Client| {
            connection.send_raw(&bytes)?;
            for _ in 0..=queues.len() {
                connection.receive()?;
            }
            connection.receive()
        };
        self.ask(planned, ask, |reply| {
            let replies = reply.elements().filter(|replies| replies.len() == queues.len())?;
            let left = queues.iter().zip(replies).map(|(queue, reply)| {
                let elements: Option<Vec<i64>> = reply.elements()?.iter().map(Value::integer).collect();
                Some(rest(queue, Some(elements?)))
            });
            left.collect()
        })
    }

    /// One command. `told` is what was planned, with what a reply tells of it; `None` if that is no answer to it.
    fn carry_out(
        &mut self,
        words: &[String],
        planned: Action,
        told: impl FnOnce(&Value) -> Option<Action>,
    ) -> bool {
        let ask = |connection: &mut Client| connection.try_command(words);
        self.ask(vec![planned], ask, |reply| Some(vec![told(reply)?]))
    }

    /// Asks the node that it stands at; true if what was planned was carried out.
    fn ask(
        &mut self,
        planned: Vec<Action>,
        ask: impl FnOnce(&mut Client) -> io::Result<Value>,
        told: impl FnOnce(&Value) -> Option<Vec<Action>>,
    ) -> bool {
        let address = self.hand.address;
        let Some(mut connection) = self.hand.take(address) else {
            return false;
        };
        let invoked = self.hand.now();
        let entry = self.shared.ledger.called(self.hand.process, planned, invoked);
        let Ok(reply) = ask(&mut connection) else {
            self.hand.is_lost();
            return false;
        };
        let now = self.hand.now();
        self.hand.keep(address, connection);
        if let Some(told) = told(&reply) {
            self.shared.ledger.committed(entry, told, now);
            self.hand.is_answered(invoked, now);
            return true;
        }
        let text = reply.error().unwrap_or_else(|| format!("{reply:?}"));
        if is_refusal(&text) {
            self.shared.ledger.aborted(entry, now);
            self.hand.is_refused(text);
        } else {
            self.hand.is_unknown(text);
        }
        false
    }
}

/// The element that was taken, or that there was none; `None` if this says neither.
fn element(reply: &Value) -> Option<Option<i64>> {
    match reply.is_null() {
        true => Some(None),
        false => Some(Some(reply.integer()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Outcome, Process, Transaction};

    fn committed(invoked: u64, action: Action) -> Transaction<Action> {
        Transaction {
            process: Process(0),
            invoked,
            returned: Some(invoked + 1),
            outcome: Outcome::Committed,
            actions: vec![action],
        }
    }

    fn queue() -> String {
        "q:0".to_owned()
    }

    #[test]
    fn an_element_that_is_nowhere_is_a_violation_and_one_that_was_taken_or_is_left_is_not() {
        let push = |invoked, element| {
            committed(
                invoked,
                Action::Push {
                    queue: queue(),
                    element,
                },
            )
        };
        let pop = committed(
            5,
            Action::Pop {
                queue: queue(),
                element: Some(1),
            },
        );
        let rest = |elements| {
            let elements = Some(elements);
            committed(
                7,
                Action::Rest {
                    queue: queue(),
                    elements,
                },
            )
        };
        let findings = judge(Transactions::new(vec![
            push(1, 1),
            push(3, 2),
            pop.clone(),
            rest(vec![2]),
        ]));
        assert!(findings.is_good(), "{findings:?}");
        assert_eq!((findings.pushed, findings.taken), (2, 1));
        let lost = vec![push(1, 1), push(3, 2), pop.clone(), rest(vec![])];
        assert!(!judge(Transactions::new(lost)).is_good());
        let twice = vec![push(1, 1), pop, rest(vec![1])];
        assert!(!judge(Transactions::new(twice)).is_good());
    }

    #[test]
    fn that_there_was_none_is_an_answer_and_an_error_is_not() {
        assert_eq!(element(&Value::NullBulk), Some(None));
        assert_eq!(element(&Value::bulk("7")), Some(Some(7)));
        assert_eq!(element(&Value::Error(b"ERR".to_vec())), None);
    }
}
