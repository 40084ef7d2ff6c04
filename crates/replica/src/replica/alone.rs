//! What a replica does whose group is alone on its node: whatever is asked is applied at once, in the turn's open entry.
//!
//! ```text
//!  handle(Execute, Block, Once, Watch, See, Fetch) - keys free --> Answered, Versions, Seen, Fetched
//!      |                                             else: waits in the queue of the state, by age
//!  handle(Prepare, Lock) --------------------------- keys free --> Voted, Locked
//!      |                                             else: waits; Wound to the coordinators of younger prepared ones in the way
//!  handle(Wound) ----------------------------------- if it waits: Voted(Refused(Wounded))
//!  handle(Decide) ---------------------------------- effects installed, locks released, waiters go on
//!  handle(CheckOut) -------------------------------- values of keys that it holds: CheckedOut
//!  handle(CheckIn) --------------------------------- what was checked out is back, or installed; as Decide
//! ```
//!
//! Who waits, holds and has voted is in the keyspace, as it is where a log decides. Here is who is to be answered.

use super::Replica;
use crate::courier::CROWDED_OUT;
use crate::operation::{Condition, Operation, Replies, as_conditions, as_state};
use crate::request::{Assignment, FullKey, IndexedKey, Output, Part, Request, Seen, Ticket};
use crate::turn::Turn;
use command::Walks;
use keyspace::{BlockCommand, Effect, Inquire, Lock, Prepare, Returned, Terms, Told, Work};
use std::time::Duration;
use txn::{Locks, Refusal, Register, TxnId, Vote};

/// Who is answered.
pub(super) enum Asker {
    Execute(Ticket),
    Block(Ticket),
    Watch(Ticket, Vec<IndexedKey>),
    Part(TxnId, Operation),
    Vote(TxnId),
    Lock(TxnId, Vec<FullKey>),
    See(TxnId, Vec<Condition>, Vec<Operation>),
    Fetch(TxnId, Vec<FullKey>),
}

/// What only waits: who asked looks for himself when it has its turn.
const LOOK: keyspace::Operation<'_> = keyspace::Operation::Block {
    conditions: Vec::new(),
    commands: Vec::new(),
};

impl Replica {
    /// The one dispatch of requests.
    pub fn handle(&mut self, turn: &Turn, request: Request, out: &mut Vec<Output>) {
        self.begin(turn);
        self.open();
        match request {
            // Who waits for a key to be filled is its gateway's to know.
            Request::Execute { ticket, operation } | Request::Wait { ticket, operation } => {
                let BlockCommand { db, protocol, args } = operation.as_state();
                let command = keyspace::Operation::Command { db, protocol, args };
                self.ask(Asker::Execute(ticket), command, Terms::default(), out);
            }
            Request::EndWait { .. } => {}
            Request::Part { txn, operation } => {
                let locks = crate::locks_of([operation.words()], |_| true);
                self.look(Asker::Part(txn, operation), locks, out);
            }
            Request::Block {
                ticket,
                conditions,
                operations,
            } => self.on_block(ticket, &conditions, &operations, out),
            Request::Once {
                ticket,
                request,
                operations,
            } => {
                // Whatever it takes: values that are lent to somebody else could come back without the result.
                let commands = operations.iter().map(Operation::as_state).collect();
                let once = keyspace::Operation::Once { request, commands };
                self.ask(Asker::Block(ticket), once, Terms::default(), out);
            }
            Request::Watch { ticket, keys } => {
                let locks = keyspace::shared(keys.iter().map(|(_, _, key)| &**key));
                self.look(Asker::Watch(ticket, keys), locks, out);
            }
            Request::See {
                txn,
                conditions,
                operations,
            } => {
                let locks = crate::locks_of(operations.iter().map(Operation::words), |_| true);
                let locks = crate::with_conditions(locks, &conditions);
                self.look(Asker::See(txn, conditions, operations), locks, out);
            }
            Request::Fetch { txn, keys } => {
                let locks = keyspace::shared(keys.iter().map(|(_, key)| &**key));
                self.look(Asker::Fetch(txn, keys), locks, out);
            }
            Request::Prepare(part) => self.on_prepare(*part, out),
            Request::Lock(part) => self.on_lock(*part, out),
            Request::Decide {
                txn,
                is_committed,
                is_awaited,
                worker,
                is_final,
            } => {
                let replies = self.on_decide(txn, is_committed, is_final);
                if is_awaited || !is_final {
                    out.push(Output::Decided {
                        txn,
                        group: self.group,
                        replies,
                        worker,
                    });
                }
            }
            Request::Inquire {
                txn,
                participants,
                worker,
            } => {
                let inquire = keyspace::Operation::Inquire(Inquire { txn, participants });
                let told = self.keyspace.ask(0, inquire, Terms::default(), &mut self.local);
                let code = told.and_then(|told| told.vote);
                out.push(Output::Inquired {
                    txn,
                    group: self.group,
                    register: code.and_then(Register::of_code).unwrap_or(Register::Over),
                    worker,
                });
            }
            Request::Wound { txn } => self.apply_quietly(keyspace::Operation::Withdraw { txn }),
            Request::Forget { txn, low } => {
                let forget = keyspace::Forget {
                    coordinator: ids::GatewayId {
                        boot: txn.boot,
                        worker: txn.worker,
                    },
                    low,
                    over: vec![(txn.seq, txn.attempt)],
                };
                self.apply_quietly(keyspace::Operation::Forget(forget));
            }
            Request::CheckOut { txn, keys } => self.on_check_out(txn, &keys, out),
            Request::CheckIn {
                txn,
                returned,
                events,
                garbage,
                counts,
            } => {
                self.local.hits += counts.hits;
                self.local.misses += counts.misses;
                self.keyspace.adopt_garbage(garbage);
                self.local.events.extend(events);
                self.on_check_in(txn, returned);
            }
        }
        self.answer_waiters(out);
    }

    /// Asks the state, and answers whoever asked if that need not wait.
    fn ask(&mut self, asker: Asker, operation: keyspace::Operation<'_>, terms: Terms, out: &mut Vec<Output>) {
        if !self.brief.is_empty() {
            self.make_ordinary();
        }
        self.requests += 1;
        match self
            .keyspace
            .ask(self.requests, operation, terms, &mut self.local)
        {
            Some(told) => self.tell(asker, told, out),
            None => drop(self.askers.insert(self.requests, asker)),
        }
    }

    /// Lets somebody look when these are free.
    fn look(&mut self, asker: Asker, locks: Locks, out: &mut Vec<Output>) {
        let terms = Terms {
            locks: Some(locks),
            keeps_place: false,
        };
        self.ask(asker, LOOK, terms, out);
    }

    fn apply_quietly(&mut self, operation: keyspace::Operation<'_>) {
        self.keyspace.ask(0, operation, Terms::default(), &mut self.local);
    }

    /// Lets go of what was held briefly; who waited for it goes on.
    pub(super) fn let_go_of_ordinary(&mut self, txn: TxnId, out: &mut Vec<Output>) {
        self.open();
        self.keyspace.let_go(txn, &mut self.local);
        self.answer_waiters(out);
    }

    /// Answers those who waited and have had their turn, and tells of younger transactions that older ones wait for.
    fn answer_waiters(&mut self, out: &mut Vec<Output>) {
        for (number, told) in self.keyspace.take_told(&mut self.local) {
            let asker = self.askers.remove(&number).expect("invariant 1");
            self.tell(asker, told, out);
        }
        let wounds = self.local.wounds.drain(..);
        out.extend(wounds.map(|(txn, _)| Output::Wound { txn }));
    }

    fn tell(&mut self, asker: Asker, told: Told, out: &mut Vec<Output>) {
        let group = self.group;
        if told.is_crowded_out {
            return out.push(asker.crowded_out(group));
        }
        out.push(match asker {
            Asker::Execute(ticket) => Output::Answered {
                ticket,
                replies: Some(Replies::of_told(told)),
            },
            Asker::Block(ticket) => Output::Answered {
                ticket,
                replies: told.is_carried_out.then(|| Replies::of_told(told)),
            },
            Asker::Watch(ticket, keys) => {
                let versions = keys
                    .iter()
                    .map(|(at, db, key)| (*at, self.keyspace.version(*db, key)));
                Output::Versions {
                    ticket,
                    versions: versions.collect(),
                }
            }
            Asker::Part(txn, operation) => Output::Resolved {
                txn,
                group,
                replies: self.run_in_place(std::slice::from_ref(&operation)),
            },
            Asker::Vote(txn) => {
                let (vote, replies) = Replies::of_vote(told);
                Output::Voted {
                    txn,
                    group,
                    vote,
                    is_logged: false,
                    replies,
                }
            }
            Asker::Lock(txn, keys) => match Replies::of_vote(told) {
                (Vote::Prepared, _) => {
                    let objects = keys.iter().map(|(db, key)| self.keyspace.copy_object(*db, key));
                    Output::Locked {
                        txn,
                        group,
                        is_logged: false,
                        objects: objects.collect(),
                    }
                }
                (vote, replies) => Output::Voted {
                    txn,
                    group,
                    vote,
                    is_logged: false,
                    replies,
                },
            },
            Asker::See(txn, conditions, operations) => {
                let holds = as_conditions(&conditions)
                    .iter()
                    .all(|one| self.keyspace.holds(one));
                let replies = holds.then(|| self.run_in_place(&operations));
                // Nobody counts here for how long it has been so.
                let age = Duration::ZERO;
                Output::Seen {
                    txn,
                    group,
                    seen: Seen { replies, age },
                }
            }
            Asker::Fetch(txn, keys) => {
                let seen = |(db, key): &FullKey| {
                    (
                        self.keyspace.copy_object(*db, key),
                        self.keyspace.version(*db, key),
                    )
                };
                Output::Fetched {
                    txn,
                    group,
                    objects: keys.iter().map(seen).collect(),
                    age: Duration::ZERO,
                }
            }
        });
    }

    /// Carries out commands on the state itself.
    pub fn run_in_place(&mut self, operations: &[Operation]) -> Replies {
        let turn = self.turn;
        let mut replies = Replies::default();
        for operation in operations {
            replies.push(operation.protocol, |writer| match operation.parse() {
                Ok(command) => self.execute(&turn, operation.db, &command, writer),
                Err(error) => error.write(writer),
            });
        }
        replies
    }

    /// Whether commands are to be carried out elsewhere, on values that are checked out: they are too many steps; or they have to
    /// wait, and how far they will walk cannot be told yet.
    fn is_too_large(&self, operations: &[Operation], steps: usize) -> bool {
        let walks = |operation: &Operation| operation.spec.walks != Walks::Little;
        if steps <= self.turn.steps_max && !operations.iter().any(walks) {
            return false;
        }
        let locks = crate::locks_of(operations.iter().map(Operation::words), |_| true);
        // What looks at groups as a whole cannot be lent what it looks at.
        matches!(locks, Locks::Keys(_)) && (steps > self.turn.steps_max || !self.is_free(|| locks))
    }

    fn on_block(
        &mut self,
        ticket: Ticket,
        conditions: &[Condition],
        operations: &[Operation],
        out: &mut Vec<Output>,
    ) {
        if self.is_too_large(operations, self.steps(operations)) {
            return out.push(Output::TooLarge { ticket });
        }
        let block = keyspace::Operation::Block {
            conditions: as_conditions(conditions),
            commands: operations.iter().map(Operation::as_state).collect(),
        };
        self.ask(Asker::Block(ticket), block, Terms::default(), out);
    }

    fn on_prepare(&mut self, part: Part, out: &mut Vec<Output>) {
        let Part {
            txn,
            began,
            participants,
            conditions,
            expects,
            mut assignment,
            is_bounded,
        } = part;
        if let (Assignment::Evaluate { operations, .. }, true) = (&assignment, is_bounded)
            && self.is_too_large(operations, self.steps_beside(operations))
        {
            return out.push(self.refusal(txn, Refusal::TooLarge));
        }
        let mut terms = Terms::default();
        let work = match &mut assignment {
            Assignment::Evaluate {
                operations,
                is_strict,
            } => Work::Evaluate {
                commands: operations.iter().map(Operation::as_state).collect(),
                is_strict: *is_strict,
            },
            Assignment::Install {
                effects,
                after_lock,
                result,
            } => Work::Install {
                effects: std::mem::take(effects),
                after_lock: *after_lock,
                result: result.take(),
            },
            Assignment::InPlace { steps, after_lock } => Work::InPlace {
                steps: steps.iter_mut().map(as_state).collect(),
                after_lock: *after_lock,
            },
            Assignment::CheckOut { locks, keeps_place } => {
                let none = Locks::Keys(Vec::new());
                terms.locks = Some(std::mem::replace(locks, none));
                terms.keeps_place = *keeps_place;
                Work::Install {
                    effects: Vec::new(),
                    after_lock: false,
                    result: None,
                }
            }
            Assignment::Lock { .. } => return out.push(self.refusal(txn, Refusal::Over)),
        };
        let prepare = Prepare {
            txn,
            began,
            participants,
            conditions: as_conditions(&conditions),
            expects: as_conditions(&expects),
            work,
        };
        let prepare = keyspace::Operation::Prepare(Box::new(prepare));
        self.ask(Asker::Vote(txn), prepare, terms, out);
    }

    fn on_lock(&mut self, part: Part, out: &mut Vec<Output>) {
        let (txn, is_bounded) = (part.txn, part.is_bounded);
        let Assignment::Lock { keys, is_whole } = part.assignment else {
            return out.push(self.refusal(txn, Refusal::Over));
        };
        if is_bounded && !is_whole {
            let size = |((db, key), _): &(FullKey, bool)| self.keyspace.size(*db, key);
            let sizes = keys.iter().map(size).fold(0, usize::saturating_add);
            // Of what is checked out, nobody here knows the size.
            if sizes > self.turn.steps_max || !self.lent.is_empty() {
                return out.push(self.refusal(txn, Refusal::TooLarge));
            }
        }
        let lock = Lock {
            txn,
            began: part.began,
            participants: part.participants,
            is_whole,
            keys: keys
                .iter()
                .map(|((db, key), alone)| (*db, &**key, *alone))
                .collect(),
        };
        let lock = keyspace::Operation::Lock(Box::new(lock));
        self.requests += 1;
        if !self.brief.is_empty() {
            self.make_ordinary();
        }
        let told = self
            .keyspace
            .ask(self.requests, lock, Terms::default(), &mut self.local);
        let asker = Asker::Lock(txn, keys.into_iter().map(|(key, _)| key).collect());
        match told {
            Some(told) => self.tell(asker, told, out),
            None => drop(self.askers.insert(self.requests, asker)),
        }
    }

    fn on_decide(&mut self, txn: TxnId, is_committed: bool, is_final: bool) -> Replies {
        if is_final {
            return Replies::of_told(self.keyspace.end_for_good(txn, is_committed, &mut self.local));
        }
        let resolve = keyspace::Resolve {
            decisions: vec![(txn, is_committed)],
        };
        let resolve = keyspace::Operation::Resolve(resolve);
        let told = self.keyspace.ask(0, resolve, Terms::default(), &mut self.local);
        Replies::of_told(told.expect("a decision waits for nothing"))
    }

    fn on_check_out(&mut self, txn: TxnId, keys: &[FullKey], out: &mut Vec<Output>) {
        let objects: Vec<_> = keys
            .iter()
            .map(|(db, key)| self.keyspace.lend_value(*db, key))
            .collect();
        let bytes = objects.iter().flatten().map(keyspace::Object::memory).sum();
        self.lent.insert(txn, bytes);
        out.push(Output::CheckedOut {
            txn,
            group: self.group,
            objects,
        });
    }

    fn on_check_in(&mut self, txn: TxnId, returned: Vec<Returned>) {
        let mut effects: Vec<Effect> = Vec::new();
        for one in returned {
            match one {
                Returned::Unchanged(db, object) => self.keyspace.take_back_value(db, object),
                Returned::Changed(effect) => effects.push(effect),
            }
        }
        if !effects.is_empty() {
            self.keyspace.install(effects, &mut self.local);
        }
        self.lent.remove(&txn);
        self.keyspace.end_for_good(txn, true, &mut self.local);
    }

    fn refusal(&self, txn: TxnId, refusal: Refusal) -> Output {
        Output::Voted {
            txn,
            group: self.group,
            vote: Vote::Refused(refusal),
            is_logged: false,
            replies: Replies::default(),
        }
    }
}

impl Asker {
    /// There was no room to wait.
    fn crowded_out(self, group: ids::GroupId) -> Output {
        let error = CROWDED_OUT;
        match self {
            Asker::Execute(ticket) | Asker::Block(ticket) => Output::Failed {
                ticket,
                error,
                journey: None,
            },
            Asker::Watch(ticket, _) => Output::FailedWatch { ticket, error },
            Asker::Part(txn, _)
            | Asker::Vote(txn)
            | Asker::Lock(txn, _)
            | Asker::See(txn, ..)
            | Asker::Fetch(txn, _) => Output::FailedPart { txn, group, error },
        }
    }
}
