//! Clients that wait for a list or sorted set to be filled, or for a stream to grow.
//!
//! A command that may wait is tried first like any other. If there is nothing to pop, or to read, the client is *blocked*: its worker
//! remembers it, and it is entered as a *waiter* at every worker that owns one of its keys.
//!
//! ```text
//!            +------------------ nil ----------------+
//!            v                                       |
//!   waiting (entered at the keys' workers) --Woken--> trying (a command or transaction is under way)
//!      |  |                                          |
//!      |  +-- Served: its keys' worker popped for it |
//!      +-- time-out, UNBLOCK, the connection ends    +-- an element, or an error
//!      v                                             v
//!   answered                                      answered
//! ```
//!
//! Right behind each command (or `EXEC`) that filled a key, the waiters of that key are looked at in the order in which
//! they came. If all keys of a waiter's command live on this worker, it pops for it at once (*serves* it), so that nobody
//! overtakes. If not, the client's own worker is told to try again, and nobody behind it in the line is looked at before
//! it has answered: with [`WaitMessage::Await`] if it goes on waiting, with [`WaitMessage::Forget`] if it does not.
//!
//! Who may pop for a client decides its time-out too, so that no element is popped for a client that was told nil: a
//! client whose keys are all on one other worker asks there to be forgotten, and the answer is what that worker says.
//! From then on it does not try, even if it is told to: the two messages may have crossed. When more is known of who hosts what, that
//! worker is asked to have it try ([`WaitMessage::Recall`]), and pops nothing for it any more.
//!
//! **Groups with replicas on other nodes.** A client whose keys all are in one of them waits in the group's state
//! (`keyspace/src/waiters.rs`): the entry that fills a key serves it. It is only remembered here, and the group is asked to
//! answer it nil when its time is over. A client whose keys are in several groups is entered at the workers of its keys.
//! Nobody pops for it there: whoever is first in the line tries, each time that the group's replica here applies something
//! that filled the key, or, where there is none, that a node with a replica says so (`watches.rs`).
//!
//! **Streams.** Reading takes nothing away, and there may be a stream under a key that has nothing for who waits: all in its line
//! are looked at, each time that it grows, and one who found nothing is not told to try again before it grows once more. Who
//! waits with a group is told, with an error, when the stream or the group is gone. What `$` stands for is found out before a
//! client waits: where all its keys are here and free, at once; else by asking their groups ([`Blocked::is_resolving`]).
//!
//! Invariants, as [`Blocking::check`] looks at them:
//! 1. A waiter stands in the lines of all its keys, and nobody else stands in a line.
//! 2. A blocked client that is not to wait for ever has its deadline in the list, and nobody else has.

mod wait;
mod watches;

use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::{Answered, Answers, Delivery};
use crate::endpoint::Scope;
use crate::message::{Message, WaitMessage};
use crate::outbox::Told;
use crate::program::{Program, group_of_key};
use crate::synced::SyncedCounts;
use command::{BlockingCommand, BlockingPop, Command, CommandId, ReplyError, Spec};
use ids::{Db, GroupId, Monotonic};
use keyspace::{Kind, awaited_kind, awaits_group, is_nil, told_gone};
use replica::{Operation, ReplyTo, Request};
use resp::{Args, ArgsBuf, ReplyWriter, parse_array_header, skip_value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wait::ReplicaWaits;
use watches::Watches;

const NANOS_OF_MILLI: u64 = 1_000_000;

/// See the file's header. Bounded by the clients of the node: each is blocked at most once.
#[derive(Default)]
pub(crate) struct Blocking {
    /// This worker's blocked clients, by the token of their connection.
    blocked: BTreeMap<u64, Blocked>,
    /// When they have waited long enough, in nanoseconds of the clock that commands are timed by: a step of the wall
    /// clock neither shortens a wait nor makes it longer, and none ends a part of a millisecond early.
    deadlines: BTreeSet<(u64, u64)>,
    /// Who waits for keys of this worker, by arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// The waiters by worker and connection.
    arrived: BTreeMap<(u16, u64), u64>,
    /// The waiters of each key.
    lines: BTreeMap<(Db, Box<[u8]>), Line>,
    /// Connections that ended while a group had not let go of them yet, each with the place of its command: an element
    /// may still be popped for them. Until the group has answered, they count as blocked.
    leaving: BTreeSet<(u64, u64)>,
    arrivals: u64,
    /// Counts the looks at the lines.
    looks: u64,
    /// Keys whose lines are to be looked at.
    filled: VecDeque<(Db, Box<[u8]>)>,
    /// `WAIT`.
    replica_waits: ReplicaWaits,
    /// Of each group, once there is a cluster: keys that are waited for over nodes.
    watches: Vec<Watches>,
    /// Keys that are kept for other nodes, each node counted: while there are any, what is filled is looked at.
    watchers: usize,
}

/// A client whose command found nothing.
pub(crate) struct Waiting {
    pub(crate) reply_to: ReplyTo,
    /// Its number, as `CLIENT ID` tells it.
    pub(crate) client: u64,
    pub(crate) operation: Operation,
    pub(crate) timeout_millis: Option<u64>,
    /// Nanoseconds of work for it.
    pub(crate) spent: u64,
}

/// A blocked client of this worker.
struct Blocked {
    reply_to: ReplyTo,
    /// Its number, as `CLIENT ID` tells it.
    client: u64,
    operation: Operation,
    deadline: Option<u64>,
    /// Where it is entered as a waiter.
    workers: Vec<u16>,
    /// Whether those workers, being one, pop for it.
    is_served: bool,
    /// Whether its command is under way.
    is_trying: bool,
    /// Whether its groups are asked what `$` stands for, and not yet for its command.
    is_resolving: bool,
    /// The group that its keys are in, if they are in one.
    group: Option<GroupId>,
    /// Whether it waits in the state of that group.
    is_in_group: bool,
    /// Whether the worker that pops for it was asked to forget it: what comes from there is its answer, and it may not
    /// try any more, though that worker may have told it to before it was asked.
    is_leaving: bool,
    /// Its client hung up meanwhile: it gets what its command finds, but does not go on waiting.
    has_hung_up: bool,
    /// It has waited long enough: what it is answered if it gets nothing else.
    ending: Option<Vec<u8>>,
    /// Nanoseconds of work for its command, here and by whoever served it: the wait is none.
    spent: u64,
}

/// What is to be done for somebody whose keys are not where they were sought.
pub(crate) enum OnMoved {
    /// This is no client that waits.
    NotBlocked,
    /// Nothing more.
    Done,
    /// To look for the group of this command, and to let the client [go on](Blocking::go_on).
    Unplaced(Box<Operation>),
}

/// Those who wait for a key.
struct Line {
    /// The waiters, in the order in which they came.
    arrivals: BTreeSet<u64>,
    /// The index of the group that the key was in when the line began: it may have moved since, and they are told to try where it is.
    index: usize,
}

/// A client of any worker that waits for keys of this one.
struct Waiter {
    reply_to: ReplyTo,
    operation: Operation,
    kind: Kind,
    keys: Vec<(Db, Box<[u8]>)>,
    /// Whether this worker pops for it.
    is_served: bool,
    /// Whether its worker was told to try.
    is_woken: bool,
    /// In which look at the lines.
    woken_in: u64,
    /// Whether its keys were filled while it tried, in a group whose leader may be elsewhere: what it found may be older.
    is_missed: bool,
}

/// The command that an operation holds.
fn blocking_command(operation: &Operation) -> BlockingCommand<'_> {
    match operation.parse() {
        Ok(Command::Blocking(blocking)) => blocking,
        _ => unreachable!("only commands that were parsed and may wait come here"),
    }
}

fn is_move(operation: &Operation) -> bool {
    matches!(blocking_command(operation).pop, BlockingPop::Move { .. })
}

/// What a client that waits for a group is told when it, or its stream, is gone: this reply says that. Which of the two, is not
/// known here.
fn loss(operation: &Operation, reply: &[u8], is_stream_there: bool) -> Option<Vec<u8>> {
    let error = awaits_group(&blocking_command(operation).pop)
        .then(|| told_gone(reply, is_stream_there))
        .flatten()?;
    let mut bytes = Vec::new();
    error.write(&mut ReplyWriter::new(&mut bytes, operation.protocol));
    Some(bytes)
}

/// The command that asks what `$` stands for in this one; `None` if it stands there nowhere.
fn question(operation: &Operation) -> Option<Operation> {
    let BlockingPop::Streams(read) = blocking_command(operation).pop else {
        return None;
    };
    let spec = CommandId::XReadLast.spec();
    let words = [spec.name.as_bytes()].into_iter().chain(read.keys.iter());
    read.reads_from_end().then(|| Operation {
        spec,
        args: ArgsBuf::from_slices(words.collect::<Vec<_>>()),
        ..operation.clone()
    })
}

/// The same command with what `$` stands for, in the order of the keys, which the groups have answered.
pub(crate) fn resolved(operation: &Operation, answer: &[u8]) -> Option<Operation> {
    let args = operation.args.as_args();
    let keys = command::streams_at(args);
    let (_, mut at) = parse_array_header(answer)?;
    let mut words: Vec<&[u8]> = args.iter().collect();
    let ids = words.get_mut(keys.end..keys.end + keys.len())?;
    for word in ids {
        let length = skip_value(answer.get(at..)?)?;
        // `$`, a length, and the id between two ends of lines.
        let id = answer[at..at + length].strip_suffix(b"\r\n")?;
        let id = &id[id.iter().position(|&byte| byte == b'\n')? + 1..];
        if *word == b"$" {
            *word = id;
        }
        at += length;
    }
    Some(Operation {
        args: ArgsBuf::from_slices(words),
        ..operation.clone()
    })
}

/// A command whose keys are all here and free, with what `$` stands for.
pub(crate) fn resolved_here(cx: &mut Context, operation: Operation) -> Operation {
    let Some(question) = question(&operation) else {
        return operation;
    };
    let mut answer = Vec::new();
    let (spec, args) = question.argv();
    let mut out = ReplyWriter::new(&mut answer, operation.protocol);
    let command = question.parse().expect("it is made of keys");
    crate::local_fast_path::run_here(cx, operation.db, spec, args, &command, &Scope::Cluster, &mut out);
    resolved(&operation, &answer).unwrap_or(operation)
}

impl Blocking {
    /// How many of this worker's clients are blocked: entered as waiters. Whoever is still tried for the first time, which
    /// takes a round trip where the group is led elsewhere, may be overtaken by a client that comes now.
    pub(crate) fn count(&self) -> usize {
        let is_waiter = |blocked: &&Blocked| blocked.is_in_group || !blocked.workers.is_empty();
        self.blocked.values().filter(is_waiter).count() + self.leaving.len() + self.replica_waits.len()
    }

    /// Says which invariant does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        let standing = self
            .lines
            .iter()
            .flat_map(|(key, line)| line.arrivals.iter().map(move |arrival| (arrival, key)));
        let mut standing: Vec<_> = standing.collect();
        let waiters = self.waiters.iter();
        let waiting = waiters.flat_map(|(arrival, waiter)| waiter.keys.iter().map(move |key| (arrival, key)));
        let mut waiting: Vec<_> = waiting.collect();
        standing.sort_unstable();
        waiting.sort_unstable();
        if standing != waiting {
            return Err(format!(
                "invariant 1: {standing:?} stand in lines, and {waiting:?} wait"
            ));
        }
        let blocked = self.blocked.iter();
        let deadlines = blocked.filter_map(|(token, blocked)| Some((blocked.deadline?, *token)));
        match deadlines.collect::<BTreeSet<_>>() == self.deadlines {
            true => Ok(()),
            false => Err(format!("invariant 2: {:?}", self.deadlines)),
        }
    }

    /// Whether anybody wants to know what is filled.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiters.is_empty() || self.watchers > 0
    }

    /// When the first wait ends.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        let first = self.deadlines.first().map(|&(deadline, _)| deadline);
        first.into_iter().chain(self.replica_waits.first_deadline()).min()
    }

    /// `WAIT` outside of `MULTI`.
    pub(crate) fn on_wait(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        self.replica_waits.on_wait(cx, connection, spec, args);
    }

    /// `WAIT` inside of `MULTI`: nobody waits.
    pub(crate) fn wait_at_once(
        cx: &Context,
        args: Args<'_>,
        w: &mut ReplyWriter<'_>,
    ) -> Result<(), ReplyError> {
        ReplicaWaits::at_once(cx, args, w)
    }

    /// `WAITAOF` outside of `MULTI`.
    pub(crate) fn on_wait_aof(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        self.replica_waits.on_wait_aof(cx, connection, spec, args);
    }

    /// `WAITAOF` inside of `MULTI`: nobody waits.
    pub(crate) fn wait_aof_at_once(
        cx: &Context,
        args: Args<'_>,
        w: &mut ReplyWriter<'_>,
    ) -> Result<(), ReplyError> {
        ReplicaWaits::aof_at_once(cx, args, w)
    }

    /// Whether logs are to be synced now, for clients that wait for it: once it has said so, [`Blocking::on_synced`] is told.
    #[inline]
    pub(crate) fn wants_sync(&mut self, now: Monotonic) -> bool {
        self.replica_waits.wants_sync(now)
    }

    /// Logs were synced: so many replicas have what was acknowledged before that was asked for.
    pub(crate) fn on_synced(&mut self, cx: &mut Context, counts: SyncedCounts) {
        self.replica_waits.on_synced(cx, counts);
    }

    /// Blocks a client. `is_tried` if its keys are here and there is nothing; if not, its groups are asked.
    pub(crate) fn block(&mut self, cx: &mut Context, waiting: Waiting, is_tried: bool) {
        let nanos = waiting
            .timeout_millis
            .map(|millis| millis.saturating_mul(NANOS_OF_MILLI));
        let deadline = nanos.map(|nanos| cx.timing.now().saturating_add(nanos));
        let token = waiting.reply_to.connection;
        self.deadlines.extend(deadline.map(|deadline| (deadline, token)));
        let blocked = Blocked {
            reply_to: waiting.reply_to,
            client: waiting.client,
            operation: waiting.operation,
            deadline,
            workers: Vec::new(),
            is_served: false,
            is_trying: !is_tried,
            is_resolving: false,
            group: None,
            is_in_group: false,
            is_leaving: false,
            has_hung_up: false,
            ending: None,
            spent: waiting.spent,
        };
        self.blocked.insert(token, blocked);
        if is_tried {
            self.await_keys(cx, token);
        } else {
            self.resolve(cx, token);
        }
    }

    /// The connection ends: it does not wait any more.
    pub(crate) fn forget(&mut self, cx: &mut Context, connection: u64) {
        self.replica_waits.forget(connection);
        if let Some(blocked) = self.blocked.get(&connection)
            && blocked.group.is_some()
            && (blocked.is_in_group || blocked.is_trying)
        {
            self.leaving.insert((connection, blocked.reply_to.sequence));
            self.end_wait_in_group(cx, connection);
        }
        self.remove_blocked(cx, connection);
    }

    /// The client of a connection sends no more. Whether it waits for a key, and must not be given an element.
    pub(crate) fn hangs_up(&mut self, connection: u64) -> bool {
        if self.replica_waits.forget(connection) {
            return true;
        }
        let Some(blocked) = self.blocked.get_mut(&connection) else {
            return false;
        };
        blocked.has_hung_up = true;
        !blocked.is_trying
    }

    /// Ends the waits whose time has come.
    pub(crate) fn end_late(&mut self, cx: &mut Context) {
        self.replica_waits.end_late(cx);
        let now = cx.timing.now();
        while let Some((_, token)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.end_wait(cx, *token, None);
        }
    }
}

impl Blocking {
    /// Asks the groups of a blocked client what `$` stands for in its command, if it stands there, and then for the command.
    fn resolve(&mut self, cx: &mut Context, token: u64) {
        let Some(blocked) = self.blocked.get_mut(&token) else {
            return;
        };
        match question(&blocked.operation) {
            Some(question) => {
                blocked.is_resolving = true;
                let program = Program::single(question);
                cx.outbox.programs.push_back((blocked.reply_to, program));
            }
            None => self.try_again(cx, token),
        }
    }

    /// The groups have said what `$` stands for.
    fn on_resolved(&mut self, cx: &mut Context, token: u64, reply: &[u8]) {
        let Some(blocked) = self.blocked.get_mut(&token) else {
            return;
        };
        blocked.is_resolving = false;
        match resolved(&blocked.operation, reply) {
            // It has waited long enough already: it did not come to wait.
            Some(_) if blocked.ending.is_some() => {
                let ending = blocked.ending.take().expect("just seen");
                self.unblock(cx, token, ending);
            }
            Some(_) if blocked.has_hung_up => cx.deliver(Delivery::HungUp { connection: token }),
            Some(operation) => {
                blocked.operation = operation;
                self.try_again(cx, token);
            }
            // An error.
            None => self.unblock(cx, token, reply.to_vec()),
        }
    }

    /// Carries the command of a blocked client out, wherever its groups are.
    fn try_again(&mut self, cx: &mut Context, token: u64) {
        let Some(blocked) = self.blocked.get_mut(&token) else {
            return;
        };
        blocked.is_trying = true;
        let (reply_to, operation) = (blocked.reply_to, blocked.operation.clone());
        let program = Program::single(operation.clone());
        if let [group] = program.extent(cx.groups).groups[..] {
            blocked.group = Some(group);
            cx.request(group, Request::Wait { reply_to, operation });
        } else {
            cx.outbox.programs.push_back((reply_to, program));
        }
    }

    /// The group of a blocked client's keys lets it wait.
    pub(crate) fn on_waits(&mut self, cx: &mut Context, reply_to: ReplyTo) {
        let blocked = self.blocked.get_mut(&reply_to.connection);
        let Some(blocked) = blocked.filter(|blocked| blocked.reply_to == reply_to) else {
            return;
        };
        blocked.is_trying = false;
        blocked.is_in_group = true;
        let workers = std::mem::take(&mut blocked.workers);
        // It waited here while the group was on this node alone.
        self.leave_lines(cx, reply_to, &workers);
        let blocked = &self.blocked[&reply_to.connection];
        if blocked.ending.is_some() {
            return self.end_wait_in_group(cx, reply_to.connection);
        }
        if blocked.has_hung_up {
            let connection = reply_to.connection;
            cx.deliver(Delivery::HungUp { connection });
        }
    }

    /// Asks the group that a client waits in to let go of it: what it was given before that, or nil, is what it is answered.
    fn end_wait_in_group(&mut self, cx: &mut Context, token: u64) {
        let Some(blocked) = self.blocked.get(&token) else {
            return;
        };
        let reply_to = blocked.reply_to;
        if let Some(group) = blocked.group {
            cx.request(group, Request::EndWait { reply_to });
        }
    }

    /// What became of the command of a blocked client over several groups. `false` if `reply_to` is not one's.
    pub(crate) fn ends_try(&mut self, cx: &mut Context, answered: &Answered) -> bool {
        let reply_to = answered.reply_to;
        match &answered.replies {
            Answers::Whole(replies) => self.on_tried(cx, reply_to, replies.bytes()),
            Answers::Failed(error) => {
                let mut bytes = Vec::new();
                ReplyWriter::new(&mut bytes, resp::Protocol::Resp2).error(error);
                self.on_tried(cx, reply_to, &bytes)
            }
            // Reads of streams are parted among their groups.
            Answers::Parts(parts) if self.blocked.contains_key(&reply_to.connection) => {
                let mut operations = answered.program.operations();
                let (Some(operation), None) = (operations.next(), operations.next()) else {
                    return false;
                };
                let parts = parts
                    .iter()
                    .filter_map(|(group, (_, replies))| Some((*group, replies.iter().next()?)));
                let parts: Vec<(GroupId, &[u8])> = parts.collect();
                let mut reply = Vec::new();
                let mut out = ReplyWriter::new(&mut reply, operation.protocol);
                crate::program::merge(operation, answered.hosts, &parts, &mut cx.prng, &mut out);
                self.on_tried(cx, reply_to, &reply)
            }
            Answers::Refused | Answers::Parts(_) | Answers::Mixed { .. } => false,
        }
    }

    /// What the groups answered to the command of a blocked client. `false` if `reply_to` is not one's.
    pub(crate) fn on_tried(&mut self, cx: &mut Context, reply_to: ReplyTo, reply: &[u8]) -> bool {
        let token = reply_to.connection;
        self.leaving.remove(&(token, reply_to.sequence));
        let Some(blocked) = self.blocked.get_mut(&token) else {
            return false;
        };
        if blocked.reply_to != reply_to {
            return false;
        }
        if blocked.is_resolving {
            self.on_resolved(cx, token, reply);
            return true;
        }
        blocked.is_trying = false;
        // Who waits already, waits on: something else has come under the key. Of a move, the destination may be wrong.
        let is_waiter = !blocked.workers.is_empty();
        let is_other_kind = is_waiter && reply.starts_with(b"-WRONGTYPE") && !is_move(&blocked.operation);
        if is_waiter && let Some(told) = loss(&blocked.operation, reply, true) {
            self.unblock(cx, token, told);
        } else if !is_nil(reply) && !is_other_kind {
            self.unblock(cx, token, reply.to_vec());
        } else if let Some(ending) = blocked.ending.take() {
            self.unblock(cx, token, ending);
        } else if blocked.has_hung_up {
            cx.deliver(Delivery::HungUp { connection: token });
        } else if std::mem::take(&mut blocked.is_in_group) {
            // The group's leader could not reach this node for a while.
            self.try_again(cx, token);
        } else {
            self.await_keys(cx, token);
        }
        true
    }

    /// More is known of who hosts what: those who wait for keys of several groups, or of workers, wait where these are now.
    pub(crate) fn on_new_hosts(&mut self, cx: &mut Context) {
        let waits = |blocked: &Blocked| {
            !blocked.is_in_group && !blocked.is_trying && !blocked.is_leaving && !blocked.is_resolving
        };
        let all = self.blocked.iter().filter(|(_, blocked)| waits(blocked));
        for token in all.map(|(token, _)| *token).collect::<Vec<u64>>() {
            let blocked = self.blocked.get_mut(&token).expect("it was found there");
            let reply_to = blocked.reply_to;
            if blocked.is_served {
                // Who pops for it may have done so already: then it must not try.
                for worker in blocked.workers.clone() {
                    self.tell_worker(cx, worker, WaitMessage::Recall { reply_to });
                }
                continue;
            }
            let workers = std::mem::take(&mut blocked.workers);
            self.leave_lines(cx, reply_to, &workers);
            self.try_again(cx, token);
        }
        // Who waits here for a key that is not where it was is to enter itself anew. Its own worker may not know yet.
        let is_elsewhere = |key: &[u8], line: &Line| cx.local.index_of_key(key) != Some(line.index);
        let lines = self
            .lines
            .iter()
            .filter(|((_, key), line)| is_elsewhere(key, line));
        let waiting = lines.flat_map(|(_, line)| line.arrivals.iter().copied());
        for arrival in waiting.collect::<BTreeSet<u64>>() {
            self.wake(cx, arrival);
        }
    }

    /// Keys of what a blocked client was sent for, or waits for in a group, belong to another one by now: it tries there, as soon as
    /// that is known.
    pub(crate) fn on_moved(&mut self, cx: &mut Context, reply_to: ReplyTo, from: GroupId) -> OnMoved {
        let token = reply_to.connection;
        let is_leaving = self.leaving.remove(&(token, reply_to.sequence));
        let blocked = self.blocked.get_mut(&token);
        let Some(blocked) = blocked.filter(|blocked| blocked.reply_to == reply_to) else {
            return if is_leaving {
                OnMoved::Done
            } else {
                OnMoved::NotBlocked
            };
        };
        // Though its time may be over, and the group have let it wait: perhaps for a transaction, before it had looked.
        blocked.is_in_group = false;
        blocked.is_trying = true;
        let groups = Program::single(blocked.operation.clone())
            .extent(cx.groups)
            .groups;
        if blocked.has_hung_up && !blocked.is_resolving {
            blocked.is_trying = false;
            cx.deliver(Delivery::HungUp { connection: token });
        } else if groups[..] == [from] {
            blocked.group = None;
            return OnMoved::Unplaced(Box::new(blocked.operation.clone()));
        } else {
            self.go_on(cx, reply_to);
        }
        OnMoved::Done
    }

    /// More is known of where the keys are of a client that tries.
    pub(crate) fn go_on(&mut self, cx: &mut Context, reply_to: ReplyTo) {
        let token = reply_to.connection;
        match self.blocked.get(&token) {
            // It was a question, and no command yet.
            Some(blocked) if blocked.reply_to == reply_to && blocked.is_resolving => self.resolve(cx, token),
            Some(blocked) if blocked.reply_to == reply_to => self.try_again(cx, token),
            // The client is gone.
            _ => {}
        }
    }

    /// Enters a blocked client at the workers of its keys, or tells them that it goes on waiting.
    fn await_keys(&mut self, cx: &mut Context, token: u64) {
        let Some(blocked) = self.blocked.get(&token) else {
            return;
        };
        let (reply_to, operation) = (blocked.reply_to, blocked.operation.clone());
        let owner_of = |key: &[u8]| cx.local.owner(group_of_key(cx.groups, key));
        let mut owners = BTreeSet::new();
        operation.keys(|key, _| {
            owners.insert(owner_of(key));
        });
        let is_served = owners.len() == 1;
        let pop = blocking_command(&operation).pop;
        let workers: BTreeSet<u16> = pop.awaited().map(owner_of).collect();
        let workers: Vec<u16> = workers.into_iter().collect();
        let blocked = self.blocked.get_mut(&token).expect("found above");
        let mut former = std::mem::replace(&mut blocked.workers, workers.clone());
        former.retain(|worker| !workers.contains(worker));
        blocked.is_served = is_served;
        self.leave_lines(cx, reply_to, &former);
        let hosts = cx.groups;
        for worker in workers {
            let operation = Box::new(operation.clone());
            let message = WaitMessage::Await {
                reply_to,
                operation,
                is_served,
                hosts,
            };
            self.tell_worker(cx, worker, message);
        }
    }

    /// Tells a worker something of a client that waits, this one at once.
    fn tell_worker(&mut self, cx: &mut Context, worker: u16, message: WaitMessage) {
        if worker == cx.worker {
            self.on_wait_message(cx, message);
        } else {
            cx.send(worker, Message::Wait(message));
        }
    }

    /// The one dispatch of what workers tell each other of clients that wait.
    pub(crate) fn on_wait_message(&mut self, cx: &mut Context, message: WaitMessage) {
        match message {
            WaitMessage::Await {
                reply_to,
                operation,
                is_served,
                hosts,
            } => {
                cx.learn_hosts(cx.groups, hosts.moved());
                self.on_await(cx, reply_to, *operation, is_served);
            }
            WaitMessage::Forget { reply_to, answer } => self.on_forget(cx, reply_to, answer),
            WaitMessage::Served {
                reply_to,
                bytes,
                nanos,
            } => self.on_served(cx, reply_to, bytes, nanos),
            WaitMessage::Woken { reply_to } => self.on_woken(cx, reply_to),
            WaitMessage::Recall { reply_to } => self.on_recall(cx, reply_to),
        }
    }

    /// Ends the wait of a client with this reply.
    fn unblock(&mut self, cx: &mut Context, token: u64, bytes: Vec<u8>) {
        let Some(blocked) = self.remove_blocked(cx, token) else {
            return;
        };
        cx.deliver(Delivery::Unblocked {
            reply_to: blocked.reply_to,
            operation: blocked.operation,
            nanos: blocked.spent,
            bytes,
        });
    }

    fn remove_blocked(&mut self, cx: &mut Context, token: u64) -> Option<Blocked> {
        let blocked = self.blocked.remove(&token)?;
        if let Some(deadline) = blocked.deadline {
            self.deadlines.remove(&(deadline, token));
        }
        self.leave_lines(cx, blocked.reply_to, &blocked.workers);
        Some(blocked)
    }

    /// Takes a client out of the lines of these workers.
    fn leave_lines(&mut self, cx: &mut Context, reply_to: ReplyTo, workers: &[u16]) {
        for &worker in workers {
            self.tell_worker(
                cx,
                worker,
                WaitMessage::Forget {
                    reply_to,
                    answer: None,
                },
            );
        }
    }

    /// Lets a client go on that waited long enough, or that `CLIENT UNBLOCK` names.
    fn end_wait(&mut self, cx: &mut Context, token: u64, ending: Option<Vec<u8>>) {
        let Some(blocked) = self.blocked.get_mut(&token) else {
            return;
        };
        if let Some(deadline) = blocked.deadline.take() {
            self.deadlines.remove(&(deadline, token));
        }
        // Also for a move, which answers a plain null where it does not wait.
        let ending = ending.unwrap_or_else(|| {
            let mut nil = Vec::new();
            ReplyWriter::new(&mut nil, blocked.operation.protocol).null_array();
            nil
        });
        if blocked.is_leaving {
            return;
        }
        if blocked.is_in_group || blocked.is_trying {
            let is_asked = blocked.ending.replace(ending).is_some();
            if blocked.is_in_group && !is_asked {
                self.end_wait_in_group(cx, token);
            }
            return;
        }
        match blocked.workers.as_slice() {
            &[worker] if blocked.is_served && worker != cx.worker => {
                blocked.is_leaving = true;
                let (reply_to, answer) = (blocked.reply_to, Some(ending));
                self.tell_worker(cx, worker, WaitMessage::Forget { reply_to, answer });
            }
            _ => self.unblock(cx, token, ending),
        }
    }

    /// `CLIENT UNBLOCK`, for a client of this worker.
    pub(crate) fn on_unblock(&mut self, cx: &mut Context, client: u64, is_error: bool) {
        let error = b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";
        let ending = is_error.then(|| error.to_vec());
        let mut blocked = self.blocked.iter();
        match blocked.find(|(_, blocked)| blocked.client == client) {
            Some((&token, _)) => self.end_wait(cx, token, ending),
            None => self.replica_waits.unblock(cx, client, ending),
        }
    }

    /// A client waits for keys of this worker.
    pub(crate) fn on_await(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        operation: Operation,
        is_served: bool,
    ) {
        let mut again = self.waiter_of(reply_to);
        // If keys have moved since, it stands where they were.
        if let Some(arrival) = again.filter(|arrival| !self.stands_right(cx, *arrival)) {
            self.remove_waiter(cx, arrival);
            again = None;
        }
        if let Some(arrival) = again {
            let waiter = self.waiters.get_mut(&arrival).expect("just found");
            waiter.is_woken = false;
            let is_missed = std::mem::take(&mut waiter.is_missed);
            // A stream that has nothing for it stays: it would try for ever.
            let is_of_stream = waiter.kind == Kind::Stream;
            let keys = waiter.keys.clone();
            let is_replicated = |(_, key): &(Db, Box<[u8]>)| self.is_replicated(cx, key);
            let again: Vec<_> = keys
                .into_iter()
                .filter(|key| is_missed || !is_of_stream && !is_replicated(key))
                .collect();
            self.filled.extend(again);
            return self.serve(cx);
        }
        let pop = blocking_command(&operation).pop;
        let kind = awaited_kind(&pop);
        let mut keys: Vec<(Db, Box<[u8]>)> = Vec::new();
        for key in pop.awaited() {
            let entry = (operation.db, Box::from(key));
            if cx.local.index_of_key(key).is_some() && !keys.contains(&entry) {
                keys.push(entry);
            }
        }
        self.arrivals += 1;
        let arrival = self.arrivals;
        for entry in &keys {
            let index = cx.local.index_of_key(&entry.1).expect("it was found above");
            self.place_line(cx, entry, index);
            let line = self.lines.entry(entry.clone()).or_insert_with(|| Line {
                arrivals: BTreeSet::new(),
                index,
            });
            line.arrivals.insert(arrival);
            let is_first = line.arrivals.len() == 1;
            cx.local.replicas[index].state_mut().await_keys(true);
            if is_first {
                self.watch_key(cx, index, entry, true);
            }
        }
        // It may have been filled since the client was answered.
        self.filled.extend(keys.iter().cloned());
        let waiter = Waiter {
            reply_to,
            operation,
            kind,
            keys,
            is_served,
            is_woken: false,
            woken_in: 0,
            is_missed: false,
        };
        self.waiters.insert(arrival, waiter);
        let client = (reply_to.worker, reply_to.connection);
        self.arrived.insert(client, arrival);
        self.serve(cx);
    }

    fn waiter_of(&self, reply_to: ReplyTo) -> Option<u64> {
        let arrival = *self.arrived.get(&(reply_to.worker, reply_to.connection))?;
        (self.waiters[&arrival].reply_to == reply_to).then_some(arrival)
    }

    /// The key of a line, if there is one, is in the group of this index by now.
    fn place_line(&mut self, cx: &mut Context, entry: &(Db, Box<[u8]>), index: usize) {
        let Some(line) = self.lines.get_mut(entry).filter(|line| line.index != index) else {
            return;
        };
        let former = std::mem::replace(&mut line.index, index);
        for _ in &line.arrivals {
            cx.local.replicas[former].state_mut().await_keys(false);
            cx.local.replicas[index].state_mut().await_keys(true);
        }
        self.watch_key(cx, former, entry, false);
        self.watch_key(cx, index, entry, true);
    }

    /// Whether a waiter stands in the lines of all its keys that are here, each in the group where it is.
    fn stands_right(&self, cx: &Context, arrival: u64) -> bool {
        let waiter = &self.waiters[&arrival];
        let pop = blocking_command(&waiter.operation).pop;
        let is_right = |key: &[u8]| {
            let entry = (waiter.operation.db, Box::from(key));
            let line = self
                .lines
                .get(&entry)
                .filter(|line| line.arrivals.contains(&arrival));
            line.map(|line| line.index) == cx.local.index_of_key(key)
        };
        pop.awaited().all(is_right)
    }

    /// The layout is another one: perhaps there are as many replicas as somebody waits for.
    pub(crate) fn on_new_layout(&mut self, cx: &mut Context) {
        self.replica_waits.on_layout(cx);
    }

    /// The same, of all groups in their order.
    pub(crate) fn on_layout(&mut self, cx: &Context, index: usize, has_new_log: bool) {
        if index == self.watches.len() {
            self.watches.push(Watches::default());
        }
        if has_new_log {
            self.look_at_lines(cx, index);
        }
    }

    /// Whether ticks have nothing to do for those who wait for keys of a group over nodes.
    pub(crate) fn is_quiet(&self, index: usize) -> bool {
        self.watches[index].is_idle()
    }

    /// Whoever waits for keys of this group is to try again: it may have got replicas on other nodes, and then its state is
    /// where one waits.
    pub(crate) fn look_at_lines(&mut self, cx: &Context, index: usize) {
        if cx.local.replicas[index].has_log() {
            let lines = self.lines.iter();
            let its = lines
                .filter(|(_, line)| line.index == index)
                .map(|(entry, _)| entry);
            self.filled.extend(its.cloned());
        }
    }

    /// Looks at the lines of keys that may have been filled elsewhere.
    pub(crate) fn wake_lines(&mut self, cx: &mut Context, keys: Vec<(Db, Box<[u8]>)>) {
        self.filled.extend(keys);
        self.serve(cx);
    }

    /// A client does not wait any more. If it is still entered and asks for it, it gets `answer`.
    pub(crate) fn on_forget(&mut self, cx: &mut Context, reply_to: ReplyTo, answer: Option<Vec<u8>>) {
        let Some(arrival) = self.waiter_of(reply_to) else {
            return;
        };
        let waiter = self.remove_waiter(cx, arrival);
        // Whoever stood behind it was not looked at while it tried.
        if waiter.is_woken {
            self.filled.extend(waiter.keys);
        }
        if let Some(bytes) = answer {
            let nanos = 0;
            self.tell_worker(
                cx,
                reply_to.worker,
                WaitMessage::Served {
                    reply_to,
                    bytes,
                    nanos,
                },
            );
        }
        self.serve(cx);
    }

    fn remove_waiter(&mut self, cx: &mut Context, arrival: u64) -> Waiter {
        let waiter = self.waiters.remove(&arrival).expect("the caller has it");
        let client = (waiter.reply_to.worker, waiter.reply_to.connection);
        self.arrived.remove(&client);
        for entry in &waiter.keys {
            let line = self.lines.get_mut(entry);
            let line = line.expect("every waiter stands in its lines");
            line.arrivals.remove(&arrival);
            let (index, is_last) = (line.index, line.arrivals.is_empty());
            if is_last {
                self.lines.remove(entry);
                self.watch_key(cx, index, entry, false);
            }
            cx.local.replicas[index].state_mut().await_keys(false);
        }
        waiter
    }

    /// The worker of its keys has answered for a blocked client of this one, which took it so long.
    pub(crate) fn on_served(&mut self, cx: &mut Context, reply_to: ReplyTo, bytes: Vec<u8>, nanos: u64) {
        let blocked = self.blocked.get_mut(&reply_to.connection);
        if let Some(blocked) = blocked.filter(|blocked| blocked.reply_to == reply_to) {
            blocked.spent += nanos;
            self.unblock(cx, reply_to.connection, bytes);
        }
    }

    /// It was popped here for a client of any worker, and told what happened.
    pub(crate) fn on_popped(&mut self, cx: &mut Context, reply_to: ReplyTo, bytes: Vec<u8>, nanos: u64) {
        let served = WaitMessage::Served {
            reply_to,
            bytes,
            nanos,
        };
        self.tell_worker(cx, reply_to.worker, served);
    }

    /// A key of a blocked client of this worker was filled at another.
    pub(crate) fn on_woken(&mut self, cx: &mut Context, reply_to: ReplyTo) {
        let is_waiting = |blocked: &Blocked| {
            let is_busy = blocked.is_trying || blocked.is_leaving || blocked.is_in_group;
            blocked.reply_to == reply_to && !is_busy
        };
        let blocked = self.blocked.get(&reply_to.connection);
        if blocked.is_some_and(is_waiting) {
            self.try_again(cx, reply_to.connection);
        }
    }

    pub(crate) fn serve(&mut self, cx: &mut Context) {
        self.looks += 1;
        loop {
            for index in 0..cx.local.replicas.len() {
                let (filled, is_swapped) = cx.local.replicas[index].state_mut().take_filled();
                if self.watchers > 0 {
                    self.tell_watchers(cx, index, &filled, is_swapped);
                }
                self.filled.extend(filled);
                if is_swapped {
                    self.filled.extend(self.lines.keys().cloned());
                }
            }
            let Some((db, key)) = self.filled.pop_front() else {
                return;
            };
            self.serve_line(cx, db, &key);
        }
    }

    /// Tells the first who waits for a key to try, and all who wait for a stream: whether there is anything, its group's leader
    /// knows.
    fn wake_line(&mut self, cx: &mut Context, entry: &(Db, Box<[u8]>)) {
        let line = self.lines.get(entry).into_iter().flat_map(|line| &line.arrivals);
        let of_stream = |arrival: &&u64| self.waiters[*arrival].kind == Kind::Stream;
        let first = line.clone().next().filter(|first| !of_stream(first));
        let woken: Vec<u64> = first.into_iter().chain(line.filter(of_stream)).copied().collect();
        for arrival in woken {
            self.wake(cx, arrival);
        }
    }

    /// The worker of a client that waits here wants it to try. Nothing is popped for it from here on.
    fn on_recall(&mut self, cx: &mut Context, reply_to: ReplyTo) {
        if let Some(arrival) = self.waiter_of(reply_to) {
            self.wake(cx, arrival);
        }
    }

    fn wake(&mut self, cx: &mut Context, arrival: u64) {
        let look = self.looks;
        let waiter = self.waiters.get_mut(&arrival);
        let waiter = waiter.expect("it stands in the line");
        if std::mem::replace(&mut waiter.is_woken, true) {
            // Of several keys that are looked at together, the first has woken it.
            waiter.is_missed |= waiter.woken_in != look;
            return;
        }
        waiter.woken_in = look;
        let reply_to = waiter.reply_to;
        self.tell_worker(cx, reply_to.worker, WaitMessage::Woken { reply_to });
    }

    fn is_replicated(&self, cx: &Context, key: &[u8]) -> bool {
        let index = cx.local.index_of_key(key);
        index.is_some_and(|index| cx.local.replicas[index].has_log())
    }

    /// Pops for those who wait for a key, in their order, as long as it holds something.
    fn serve_line(&mut self, cx: &mut Context, db: Db, key: &[u8]) {
        let entry = (db, Box::from(key));
        let mut last = 0;
        let Some(&Line { index, .. }) = self.lines.get(&entry) else {
            return;
        };
        if cx.local.replicas[index].has_log() {
            return self.wake_line(cx, &entry);
        }
        loop {
            let Some(line) = self.lines.get(&entry) else {
                return;
            };
            let Some(&arrival) = line.arrivals.range(last + 1..).next() else {
                return;
            };
            last = arrival;
            let kind = cx.local.replicas[index].state_mut().kind(&cx.turn, db, key);
            let waiter = &self.waiters[&arrival];
            let is_kind = kind == Some(waiter.kind);
            if !is_kind && !awaits_group(&blocking_command(&waiter.operation).pop) {
                continue;
            }
            if waiter.kind == Kind::Stream && !waiter.is_served {
                self.wake(cx, arrival);
                continue;
            }
            if waiter.is_woken {
                return;
            }
            let (reply_to, operation) = (waiter.reply_to, waiter.operation.clone());
            let (spec, args) = operation.argv();
            if !waiter.is_served || !cx.local.is_one_step(spec, args, &Scope::Cluster) {
                let waiter = self.waiters.get_mut(&arrival);
                waiter.expect("it stands in the line").is_woken = true;
                return self.tell_worker(cx, reply_to.worker, WaitMessage::Woken { reply_to });
            }
            let began = cx.timing.now();
            let mut reply = Vec::new();
            let mut out = ReplyWriter::new(&mut reply, operation.protocol);
            match operation.parse() {
                Ok(command) => crate::local_fast_path::run_here(
                    cx,
                    operation.db,
                    spec,
                    args,
                    &command,
                    &Scope::Cluster,
                    &mut out,
                ),
                Err(error) => error.write(&mut out),
            }
            let nanos = cx.timing.now().saturating_sub(began);
            cx.timing.leave_out(nanos);
            if !is_nil(&reply) {
                self.remove_waiter(cx, arrival);
                let bytes = loss(&operation, &reply, is_kind).unwrap_or(reply);
                cx.outbox.told.push_back(Told::Served {
                    reply_to,
                    bytes,
                    nanos,
                });
            }
        }
    }
}
