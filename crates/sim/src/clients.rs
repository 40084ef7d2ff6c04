//! Clients: they ask, wait, and write down what they saw.
//!
//! ```text
//!   thinks --- asks once or several times at once ---> waits --- all answered ---> thinks
//!                                                       |
//!                        patience ends, or the connection breaks: unknown
//!                                                       '---> goes on as another process, elsewhere
//! ```

use crate::node::Connection;
use crate::swarm::Swarm;
use crate::workloads::{self, Checked, Next, Running, SingleKeys, Task, TxnHistory};
use history::{Answer, Call, Outcome, Process, Ticket};
use ids::Prng;
use std::collections::VecDeque;

/// One client.
pub(crate) struct Client {
    process: Process,
    pub(crate) connection: Option<Connection>,
    doing: Doing,
    /// When the oldest request that waits was sent.
    pub(crate) waits_since: u64,
    received: Vec<u8>,
    /// What it still has to ask before it is done; `None` as long as the storm lasts.
    left: Option<Left>,
    /// It was refused something, and goes elsewhere with it.
    pub(crate) is_turned_away: bool,
}

/// What a client is at.
enum Doing {
    /// Requests that wait for answers, if any.
    Requests(VecDeque<(Ticket, String, Call)>),
    /// A transaction, and what is to be sent of it next; nothing if it waits for answers.
    Transaction(Running, Option<Vec<u8>>),
}

impl Doing {
    const NOTHING: Doing = Doing::Requests(VecDeque::new());
}

#[derive(Default)]
struct Left {
    requests: VecDeque<(String, Call)>,
    tasks: VecDeque<Task>,
}

impl Client {
    fn new(process: Process) -> Client {
        Client {
            process,
            connection: None,
            doing: Doing::NOTHING,
            waits_since: 0,
            received: Vec::new(),
            left: None,
            is_turned_away: false,
        }
    }

    fn waits(&self) -> bool {
        match &self.doing {
            Doing::Requests(waiting) => !waiting.is_empty(),
            Doing::Transaction(_, next) => next.is_none(),
        }
    }

    fn is_done(&self) -> bool {
        let is_left = |left: &Left| left.requests.is_empty() && left.tasks.is_empty();
        let is_idle = matches!(&self.doing, Doing::Requests(waiting) if waiting.is_empty());
        is_idle && self.left.as_ref().is_some_and(is_left)
    }

    /// Whether it has everything it waited for; then there is nothing more.
    fn is_answered(&self) -> Result<bool, String> {
        if !self.waits() && !self.received.is_empty() {
            let bytes = String::from_utf8_lossy(&self.received);
            return Err(format!("nobody asked for {bytes:?}"));
        }
        Ok(!self.waits())
    }
}

/// All clients, and their history.
pub(crate) struct Clients {
    pub(crate) clients: Vec<Client>,
    single_keys: SingleKeys,
    transactions: TxnHistory,
    processes: u32,
    prng: Prng,
}

impl Clients {
    /// Those of a seed.
    pub(crate) fn new(seed: u64, swarm: &Swarm) -> Clients {
        let mut prng = Prng::new(seed ^ 0x434c_4945_4e54_0002);
        let processes = swarm.clients as u32;
        let pads = swarm.shape.coding.is_some();
        Clients {
            clients: (0..processes)
                .map(|number| Client::new(Process(number)))
                .collect(),
            single_keys: SingleKeys::new(swarm.keys, swarm.reads, pads, Prng::new(prng.next_u64())),
            transactions: TxnHistory::new(swarm.mix.clone(), pads),
            processes,
            prng,
        }
    }

    /// The storm is over: each client has a few more requests, together they write to everything, and then each reads
    /// everything.
    pub(crate) fn give_requests(&mut self, count: usize) {
        let all = self.clients.len();
        let writes = self.single_keys.writes();
        for (number, client) in self.clients.iter_mut().enumerate() {
            let mut left = Left::default();
            left.requests.extend((0..count).map(|_| self.single_keys.next()));
            left.requests
                .extend(writes.iter().skip(number).step_by(all).cloned());
            left.requests.extend(self.single_keys.reads());
            if number == 0 {
                left.requests.extend(self.single_keys.reads_of_relics());
            }
            let transactions = &mut self.transactions;
            if transactions.share() > 0 {
                left.tasks
                    .extend((0..count / 2).map(|_| transactions.next(&mut self.prng)));
                left.tasks.extend(transactions.reads());
            }
            client.left = Some(left);
        }
    }

    /// What there is may be lost: from now on they use other keys. How often that was.
    pub(crate) fn begin_anew(&mut self) -> u64 {
        self.single_keys.begin_anew()
    }

    /// Whether every client is done.
    pub(crate) fn are_done(&self) -> bool {
        self.clients.iter().all(Client::is_done)
    }

    /// The client's next requests, as bytes, each of which is noted as called. Nothing if it has no more.
    pub(crate) fn ask(&mut self, index: usize, swarm: &Swarm, now: u64) -> Vec<u8> {
        self.clients[index].waits_since = now;
        if let Some(bytes) = self.ask_transaction(index, now) {
            return bytes;
        }
        let client = &mut self.clients[index];
        let (mut bytes, mut waiting) = (Vec::new(), VecDeque::new());
        for _ in 0..1 + self.prng.below(swarm.pipeline) {
            let next = match &mut client.left {
                None => Some(self.single_keys.next()),
                Some(left) => left.requests.pop_front(),
            };
            let Some((key, call)) = next else {
                break;
            };
            let ticket = self
                .single_keys
                .call(client.process, (&key, call), now, &mut bytes);
            waiting.push_back((ticket, key, call));
        }
        client.doing = Doing::Requests(waiting);
        bytes
    }

    /// The next step of the client's transaction, or the first one of a new one; `None` if it does something else now.
    fn ask_transaction(&mut self, index: usize, now: u64) -> Option<Vec<u8>> {
        let client = &mut self.clients[index];
        if let Doing::Transaction(_, next) = &mut client.doing {
            return next.take();
        }
        let share = self.transactions.share();
        let begins = match &client.left {
            None => share > 0 && self.prng.below(100) < share,
            Some(left) => !left.tasks.is_empty() && (left.requests.is_empty() || self.prng.below(3) == 0),
        };
        if !begins {
            return None;
        }
        let next = client.left.as_mut().and_then(|left| left.tasks.pop_front());
        let mut task = next.unwrap_or_else(|| self.transactions.next(&mut self.prng));
        if let Some(before) = self.transactions.setup(&task) {
            let after = std::mem::replace(&mut task, before);
            if let Some(left) = &mut client.left {
                left.tasks.push_front(after);
            }
        }
        let (running, bytes) = self.transactions.begin(task, client.process, now);
        client.doing = Doing::Transaction(running, None);
        Some(bytes)
    }

    /// Whether the client is between two steps of a transaction.
    pub(crate) fn is_within(&self, index: usize) -> bool {
        matches!(self.clients[index].doing, Doing::Transaction(..))
    }

    /// Bytes arrive; whether the client has everything it waited for.
    pub(crate) fn receive(&mut self, index: usize, bytes: &[u8], now: u64) -> Result<bool, String> {
        let client = &mut self.clients[index];
        client.received.extend_from_slice(bytes);
        match &client.doing {
            Doing::Requests(_) => self.receive_answers(index, now)?,
            Doing::Transaction(..) => self.receive_replies(index, now)?,
        }
        self.clients[index].is_answered()
    }

    fn receive_replies(&mut self, index: usize, now: u64) -> Result<(), String> {
        let client = &mut self.clients[index];
        let Doing::Transaction(running, next) = &mut client.doing else {
            return Ok(());
        };
        client.waits_since = now;
        match self.transactions.receive(running, &mut client.received, now)? {
            Next::Wait => {}
            Next::Step(bytes) => *next = Some(bytes),
            Next::Over(outcome, is_passing) => {
                if let Some(left) = client.left.as_mut().filter(|_| is_passing) {
                    left.tasks.extend(self.transactions.again(running.task()));
                    client.is_turned_away = true;
                }
                client.doing = Doing::NOTHING;
                if outcome == Outcome::Unknown {
                    self.go_on_as_another(index);
                }
            }
        }
        Ok(())
    }

    fn receive_answers(&mut self, index: usize, now: u64) -> Result<(), String> {
        loop {
            let client = &mut self.clients[index];
            let Doing::Requests(waiting) = &mut client.doing else {
                return Ok(());
            };
            let Some((ticket, key, call)) = waiting.front() else {
                return Ok(());
            };
            let (ticket, call) = (*ticket, *call);
            let Some((answer, length)) = workloads::answer(key, call, &client.received)? else {
                return Ok(());
            };
            let is_relic = self.single_keys.relic_answered(key, &answer)?;
            let tells_loss = workloads::tells_loss(&client.received[..length]);
            client.received.drain(..length);
            if is_relic && (tells_loss || !matches!(answer, Answer::Unknown | Answer::Refused)) {
                // That is all that is to be known of it.
                waiting.pop_front();
                client.waits_since = now;
                continue;
            }
            let asked = waiting.pop_front().map(|(_, key, _)| key);
            // In the calm nothing stays undone.
            if let (Answer::Unknown | Answer::Refused, Some(left)) = (&answer, &mut client.left) {
                let again = asked.map(|key| (key, self.single_keys.again(call)));
                left.requests.extend(again);
                client.is_turned_away = true;
            }
            client.waits_since = now;
            let is_unknown = answer == Answer::Unknown;
            self.single_keys.answered(ticket, answer, now);
            if is_unknown {
                self.go_on_as_another(index);
            }
        }
    }

    /// What it asked for may still happen: whoever goes on is another process.
    fn go_on_as_another(&mut self, index: usize) {
        self.clients[index].process = Process(self.processes);
        self.processes += 1;
    }

    /// The connection is over: what was not answered stays unknown.
    pub(crate) fn lose(&mut self, index: usize) -> usize {
        let client = &mut self.clients[index];
        client.connection = None;
        client.received.clear();
        let lost = match std::mem::replace(&mut client.doing, Doing::NOTHING) {
            Doing::Requests(waiting) => waiting.len(),
            Doing::Transaction(running, _) => {
                self.transactions.lose(&running);
                if let Some(left) = &mut client.left {
                    left.tasks.extend(self.transactions.again(running.task()));
                }
                1
            }
        };
        if lost > 0 {
            self.go_on_as_another(index);
        }
        lost
    }

    /// Whether it waits for anything.
    pub(crate) fn waits(&self, index: usize) -> bool {
        self.clients[index].waits()
    }

    /// What they still want, in words.
    pub(crate) fn undone(&self) -> String {
        let first = |client: &Client| {
            client
                .left
                .as_ref()?
                .tasks
                .front()
                .map(|task| format!("{task:?}"))
        };
        let tasks: Vec<String> = self.clients.iter().filter_map(first).collect();
        tasks.join(", ")
    }

    /// Judges what they saw.
    pub(crate) fn check(&mut self) -> Checked {
        for client in &mut self.clients {
            if let Doing::Transaction(running, _) = &client.doing {
                self.transactions.lose(running);
                client.doing = Doing::NOTHING;
            }
        }
        workloads::both(self.single_keys.check(), self.transactions.check())
    }
}
