//! Clients: they ask, wait, and write down what they saw.
//!
//! ```text
//!   thinks --- asks once or several times at once ---> waits --- all answered ---> thinks
//!                                                       |
//!                        patience ends, or the connection breaks: unknown
//!                                                       '---> goes on as another process, elsewhere
//! ```

use crate::node::Connection;
use crate::programs::{Books, Mix, Next, Running, Tasks};
use crate::swarm::Swarm;
use crate::workload::{self, Workload};
use history::{Answer, Call, History, Outcome, Process, Recorder, Ticket};
use ids::Prng;
use std::collections::VecDeque;

/// One client.
pub(crate) struct Client {
    process: Process,
    /// Where it is connected, and as what.
    pub(crate) connection: Option<(Connection, usize)>,
    waiting: VecDeque<(Ticket, String, Call)>,
    /// The transaction that it is at, and what is to be sent of it next.
    running: Option<Running>,
    step: Vec<u8>,
    /// Whether this transaction's step waits for answers.
    is_in_step: bool,
    /// When the oldest request that waits was sent.
    pub(crate) waits_since: u64,
    received: Vec<u8>,
    /// What it still has to ask before it is done; `None` as long as the storm lasts.
    pub(crate) requests: Option<VecDeque<(String, Call)>>,
    /// The transactions among it.
    tasks: Tasks,
    /// It was refused something, and goes elsewhere with it.
    pub(crate) is_turned_away: bool,
}

impl Client {
    fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.is_in_step
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
    recorder: Recorder,
    books: Books,
    mix: Mix,
    processes: u32,
    workload: Workload,
    prng: Prng,
}

impl Clients {
    pub(crate) fn new(count: usize, workload: Workload, mix: Mix, prng: Prng) -> Clients {
        let clients = (0..count)
            .map(|number| Client {
                process: Process(number as u32),
                connection: None,
                waiting: VecDeque::new(),
                running: None,
                step: Vec::new(),
                is_in_step: false,
                waits_since: 0,
                received: Vec::new(),
                requests: None,
                tasks: Tasks::new(),
                is_turned_away: false,
            })
            .collect();
        Clients {
            clients,
            recorder: Recorder::default(),
            books: Books::default(),
            mix,
            processes: count as u32,
            workload,
            prng,
        }
    }

    /// The storm is over: each client has a few more requests, together they write to everything, and then each reads
    /// everything.
    pub(crate) fn give_requests(&mut self, count: usize) {
        let all = self.clients.len();
        let writes = self.workload.writes();
        for (number, client) in self.clients.iter_mut().enumerate() {
            let mut requests: VecDeque<(String, Call)> = (0..count).map(|_| self.workload.next()).collect();
            requests.extend(writes.iter().skip(number).step_by(all).cloned());
            requests.extend(self.workload.reads());
            client.requests = Some(requests);
            if self.mix.share > 0 {
                let (books, mix, prng) = (&mut self.books, &self.mix, &mut self.prng);
                client.tasks.extend((0..count / 2).map(|_| books.next(mix, prng)));
                client.tasks.extend(books.reads(mix));
            }
        }
    }

    /// What there is may be lost: from now on they use other keys. How often that was.
    pub(crate) fn begin_anew(&mut self) -> u64 {
        self.workload.begin_anew()
    }

    /// Whether every client is done.
    pub(crate) fn are_done(&self) -> bool {
        self.clients.iter().all(|client| {
            client.waiting.is_empty()
                && client.running.is_none()
                && client.tasks.is_empty()
                && client.requests.as_ref().is_some_and(VecDeque::is_empty)
        })
    }

    /// The client's next requests, as bytes, each of which is noted as called. Nothing if it has no more.
    pub(crate) fn ask(&mut self, index: usize, swarm: &Swarm, now: u64) -> Vec<u8> {
        if let Some(bytes) = self.ask_program(index, now) {
            return bytes;
        }
        let mut bytes = Vec::new();
        let pipeline = swarm.pipeline;
        let count = 1 + self.prng.below(pipeline);
        for _ in 0..count {
            let client = &mut self.clients[index];
            let next = match &mut client.requests {
                None => Some(self.workload.next()),
                Some(requests) => requests.pop_front(),
            };
            let Some((key, call)) = next else {
                break;
            };
            let ticket = self.recorder.called(client.process, &key, call, now);
            bytes.extend(workload::request(&key, call));
            client.waiting.push_back((ticket, key, call));
        }
        self.clients[index].waits_since = now;
        bytes
    }

    /// The next step of the client's transaction, or the first one of a new one; `None` if it does something else now.
    fn ask_program(&mut self, index: usize, now: u64) -> Option<Vec<u8>> {
        let client = &mut self.clients[index];
        if client.running.is_none() {
            let is_calm = client.requests.is_some();
            let begins = match &client.requests {
                None => self.mix.share > 0 && self.prng.below(100) < self.mix.share,
                Some(requests) => {
                    !client.tasks.is_empty() && (requests.is_empty() || self.prng.below(3) == 0)
                }
            };
            if !begins {
                return None;
            }
            let next = if is_calm { client.tasks.pop_front() } else { None };
            let task = next.unwrap_or_else(|| self.books.next(&self.mix, &mut self.prng));
            let task = match self.books.before(&task) {
                Some(before) => {
                    if is_calm {
                        client.tasks.push_front(task);
                    }
                    before
                }
                None => task,
            };
            let (running, bytes) = self.books.begin(task, client.process, &self.mix, now);
            (client.running, client.step) = (Some(running), bytes);
        }
        client.waits_since = now;
        client.is_in_step = true;
        Some(std::mem::take(&mut client.step))
    }

    /// Whether the client is between two steps of a transaction.
    pub(crate) fn is_within(&self, index: usize) -> bool {
        self.clients[index].running.is_some()
    }

    fn receive_program(&mut self, index: usize, now: u64) -> Result<bool, String> {
        let client = &mut self.clients[index];
        let Some(running) = &mut client.running else {
            return Ok(false);
        };
        client.waits_since = now;
        match self
            .books
            .receive(running, &mut client.received, &self.mix, now)?
        {
            Next::Wait => return Ok(true),
            Next::Step(bytes) => client.step = bytes,
            Next::Over(outcome, is_passing) => {
                if outcome == Outcome::Unknown {
                    client.process = Process(self.processes);
                    self.processes += 1;
                }
                let running = client.running.take().expect("looked at a moment ago");
                if is_passing && client.requests.is_some() {
                    client.tasks.extend(self.books.tried(running.task()));
                    client.is_turned_away = true;
                }
            }
        }
        client.is_in_step = false;
        Ok(true)
    }

    /// Bytes arrive; whether the client has everything it waited for.
    pub(crate) fn receive(&mut self, index: usize, bytes: &[u8], now: u64) -> Result<bool, String> {
        let client = &mut self.clients[index];
        client.received.extend_from_slice(bytes);
        if self.receive_program(index, now)? {
            return self.clients[index].is_answered();
        }
        let client = &mut self.clients[index];
        while let Some(&(ticket, _, call)) = client.waiting.front() {
            let Some((answer, length)) = workload::answer(call, &client.received)? else {
                break;
            };
            client.received.drain(..length);
            let asked = client.waiting.pop_front().map(|(_, key, _)| key);
            // In the calm nothing stays undone.
            if let (Answer::Unknown | Answer::Refused, Some(requests)) = (&answer, &mut client.requests) {
                requests.extend(asked.map(|key| (key, self.workload.again(call))));
                client.is_turned_away = true;
            }
            client.waits_since = now;
            // It may still happen: whoever goes on is another process.
            if answer == Answer::Unknown {
                client.process = Process(self.processes);
                self.processes += 1;
            }
            self.recorder.answered(ticket, answer, now);
        }
        client.is_answered()
    }

    /// The connection is over: what was not answered stays unknown.
    pub(crate) fn lose(&mut self, index: usize) -> usize {
        let client = &mut self.clients[index];
        client.connection = None;
        client.received.clear();
        let mut lost = client.waiting.len();
        client.waiting.clear();
        client.step.clear();
        client.is_in_step = false;
        if let Some(running) = client.running.take() {
            self.books.lose(&running, &self.mix);
            lost += 1;
            if client.requests.is_some() {
                client.tasks.extend(self.books.tried(running.task()));
            }
        }
        if lost > 0 {
            client.process = Process(self.processes);
            self.processes += 1;
        }
        lost
    }

    /// Whether it waits for anything.
    pub(crate) fn waits(&self, index: usize) -> bool {
        self.clients[index].waits()
    }

    /// What they still want, in words.
    pub(crate) fn undone(&self) -> String {
        let task = |client: &Client| client.tasks.front().map(|task| format!("{task:?}"));
        let tasks: Vec<String> = self.clients.iter().filter_map(task).collect();
        tasks.join(", ")
    }

    pub(crate) fn calls(&self) -> usize {
        self.recorder.len() + self.books.len()
    }

    /// What they saw.
    pub(crate) fn take_history(&mut self) -> History {
        std::mem::take(&mut self.recorder).finish()
    }

    /// What they saw of transactions, judged, and as text.
    pub(crate) fn judge_transactions(&mut self) -> (Result<(), String>, String) {
        for client in &mut self.clients {
            if let Some(running) = client.running.take() {
                self.books.lose(&running, &self.mix);
            }
        }
        std::mem::take(&mut self.books).judge(&self.mix)
    }
}
