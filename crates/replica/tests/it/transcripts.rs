//! Transcripts of transactions, in `testdata`: three groups, each with one replica, and a coordinator that is the transcript itself.
//!
//! A request reaches its group when the transcript says so, and what the group says to it is the answer. Which group a key is of
//! follows from the key, as everywhere.

use crate::cluster::{GROUPS, group_of, operation};
use crate::single::turn;
use ids::{Boot, GroupCount, GroupId, Groups, HashSeed, UnixMillis};
use mutations::Mutation;
use replica::{Assignment, Condition, Output, Part, Replica, Replies, ReplyTo, Request};
use std::collections::BTreeMap;
use std::fmt::Write;
use transcript::Command;
use txn::{Participant, Refusal, TxnId, Vote, VoteRecord};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");

#[test]
fn the_transcripts_of_transactions_go_as_they_are_written() {
    transcript::play_folder(FOLDER, interpreter);
}

#[test]
fn a_mistake_in_a_group_is_noticed_by_its_transcript() {
    for (file, mutation) in [
        ("vote", Mutation::ConditionsNotJudged),
        ("vote", Mutation::LocksReleasedEarly),
        ("wound", Mutation::PreparedRevoked),
        ("recover", Mutation::RefusalNotRecorded),
    ] {
        mutations::plant(Some(mutation));
        let goes = transcript::goes_as_written(format!("{FOLDER}/{file}.txt"), interpreter());
        mutations::plant(None);
        assert!(!goes, "{file}: {mutation:?}");
    }
}

fn interpreter() -> impl FnMut(&Command) -> Result<String, String> {
    let mut stage = Stage::new();
    move |command| stage.carry_out(command)
}

struct Transaction {
    id: TxnId,
    began: UnixMillis,
    groups: Vec<GroupId>,
}

struct Stage {
    replicas: Vec<Replica>,
    turn: u64,
    transactions: BTreeMap<String, Transaction>,
    clients: BTreeMap<String, u64>,
}

impl Stage {
    fn new() -> Stage {
        let groups = Groups::with_default_partitions(GroupCount::new(GROUPS).expect("a valid count"));
        let replica = |number: u16| {
            let group = GroupId::new(number);
            Replica::new(
                group,
                HashSeed([1, u64::from(number)]),
                groups.founded_range(group),
            )
        };
        Stage {
            replicas: (0..GROUPS).map(replica).collect(),
            turn: 0,
            transactions: BTreeMap::new(),
            clients: BTreeMap::new(),
        }
    }

    fn carry_out(&mut self, command: &Command) -> Result<String, String> {
        match command.name() {
            // A transaction of so many groups; of two the one that began earlier is the older.
            "begin" => {
                let name = command.word(0, "a name")?.to_owned();
                let began = command.parsed_value("at")?.ok_or("`begin` lacks at=")?;
                let groups = command.value("groups").ok_or("`begin` lacks groups=")?;
                let groups: Result<Vec<u16>, _> = groups.split(',').map(str::parse).collect();
                let groups = groups.map_err(|_| "groups= takes numbers")?;
                let id = TxnId {
                    boot: Boot(1),
                    worker: 0,
                    seq: 1 + self.transactions.len() as u64,
                    attempt: 1,
                };
                let transaction = Transaction {
                    id,
                    began: UnixMillis(began),
                    groups: groups.into_iter().map(GroupId::new).collect(),
                };
                self.transactions.insert(name, transaction);
                Ok(String::new())
            }
            // The same as another attempt, as old as the first.
            "begin-again" => {
                let name = command.word(0, "a transaction")?;
                let transaction = self
                    .transactions
                    .get_mut(name)
                    .ok_or("there is none of that name")?;
                transaction.id.attempt += 1;
                Ok(String::new())
            }
            "ask" => {
                let line = command.rest(1).join(" ");
                let name = command.word(0, "a client")?.to_owned();
                let connection = 1 + self.clients.len() as u64;
                let connection = *self.clients.entry(name).or_insert(connection);
                let operation = operation(0, &line);
                let reply_to = ReplyTo {
                    worker: 0,
                    connection,
                    sequence: self.turn,
                };
                let mut group = None;
                operation.keys(|key, _| group = group.or(Some(group_of(key))));
                let group = group.ok_or("the command has no key")?;
                Ok(self.handle(group, Request::Execute { reply_to, operation }))
            }
            "prepare" => {
                let transaction = self.transaction(command)?;
                let if_absent = command.value("if_absent");
                // What is the command's own stands before what is the group's.
                let words = command.rest(1);
                let words: Vec<&str> = words
                    .into_iter()
                    .filter(|word| !word.starts_with("if_absent="))
                    .collect();
                let operation = operation(0, &words.join(" "));
                let mut group = None;
                operation.keys(|key, _| group = group.or(Some(group_of(key))));
                let group = group.ok_or("the command has no key")?;
                let conditions = if_absent.map(|key| Condition::Absent {
                    db: operation.db,
                    key: key.as_bytes().into(),
                });
                let part = Part {
                    txn: transaction.id,
                    began: transaction.began,
                    participants: transaction
                        .groups
                        .iter()
                        .copied()
                        .map(Participant::first)
                        .collect(),
                    conditions: conditions.into_iter().collect(),
                    expects: Vec::new(),
                    assignment: Assignment::Evaluate {
                        operations: vec![operation],
                        is_strict: false,
                    },
                    is_bounded: true,
                };
                Ok(self.handle(group, Request::Prepare(Box::new(part))))
            }
            "commit" | "abort" => {
                let (txn, group) = (self.transaction(command)?.id, group(command)?);
                let request = Request::Decide {
                    txn,
                    is_committed: command.name() == "commit",
                    is_awaited: false,
                    worker: 0,
                    is_final: false,
                };
                Ok(self.handle(group, request))
            }
            "wound" => {
                let (txn, group) = (self.transaction(command)?.id, group(command)?);
                Ok(self.handle(group, Request::Wound { txn }))
            }
            "query" => {
                let transaction = self.transaction(command)?;
                let request = Request::QueryTxn {
                    txn: transaction.id,
                    participants: transaction
                        .groups
                        .iter()
                        .copied()
                        .map(Participant::first)
                        .collect(),
                    worker: 0,
                };
                Ok(self.handle(group(command)?, request))
            }
            "locks" => {
                let mut out = String::new();
                for (number, replica) in self.replicas.iter().enumerate() {
                    let (holders, waiting) = replica.state().lock_counts();
                    let _ = writeln!(out, "group {number}: {holders} hold keys, {waiting} wait");
                }
                Ok(out)
            }
            _ => Err(command.unknown()),
        }
    }

    fn transaction(&self, command: &Command) -> Result<&Transaction, String> {
        let name = command.word(0, "a transaction")?;
        let found = self.transactions.get(name);
        found.ok_or_else(|| format!("there is no transaction `{name}`"))
    }

    /// A request reaches its group, in a turn of its own.
    fn handle(&mut self, group: GroupId, request: Request) -> String {
        self.turn += 1;
        let turn = turn(self.turn, 1_000_000 + self.turn as i64);
        let mut outputs = Vec::new();
        self.replicas[group.index()].handle(&turn, request, &mut outputs);
        let lines = outputs.iter().map(|output| format!("{}\n", self.line(output)));
        lines.collect()
    }

    /// One output in one line.
    fn line(&self, output: &Output) -> String {
        let name = |txn: &TxnId| {
            let named = |(_, transaction): &(&String, &Transaction)| transaction.id.seq == txn.seq;
            let found = self.transactions.iter().find(named);
            let (name, transaction) = found.expect("groups know of those that the transcript has begun");
            match transaction.id.attempt == txn.attempt {
                true => name.clone(),
                false => format!("attempt {} of {name}", txn.attempt),
            }
        };
        match output {
            Output::Voted {
                txn,
                group,
                vote,
                replies,
                ..
            } => {
                let vote = match vote {
                    Vote::Prepared => format!("yes, prepared to answer {}", told(replies)),
                    Vote::Refused(Refusal::Condition) => "no, a condition does not hold".into(),
                    Vote::Refused(Refusal::Wounded) => "no, an older one needs the keys".into(),
                    Vote::Refused(_) => "no".into(),
                };
                format!("group {} votes on {}: {vote}", group.number(), name(txn))
            }
            Output::Wound { txn } => {
                format!("an older request waits for {}: tell its coordinator", name(txn))
            }
            Output::Decided { txn, group, .. } => {
                format!("group {} has recorded the end of {}", group.number(), name(txn))
            }
            Output::QueriedTxn {
                txn,
                group,
                vote_record,
                ..
            } => {
                let vote_record = match vote_record {
                    VoteRecord::Empty => "nothing",
                    VoteRecord::Prepared => "prepared",
                    VoteRecord::Refused => "refused",
                    VoteRecord::Committed => "committed",
                    VoteRecord::Aborted => "aborted",
                    VoteRecord::Over => "over",
                    VoteRecord::Lost => "lost",
                };
                format!("group {} knows of {}: {vote_record}", group.number(), name(txn))
            }
            Output::Answered { reply_to, replies } => {
                let asked = |(_, connection): &(&String, &u64)| **connection == reply_to.connection;
                let (client, _) = self.clients.iter().find(asked).expect("it has asked");
                let replies = replies.as_ref().map_or("nothing was done".into(), told);
                format!("{client} is answered {replies}")
            }
            other => format!("{other:?}"),
        }
    }
}

fn group(command: &Command) -> Result<GroupId, String> {
    let number = command.parsed_value("group")?.ok_or("it lacks group=")?;
    Ok(GroupId::new(number))
}

/// Replies in one line, as they are on the wire but for the ends of lines.
fn told(replies: &Replies) -> String {
    let replies: Vec<String> = replies
        .iter()
        .map(|reply| {
            let reply = String::from_utf8_lossy(reply);
            let reply = reply.trim_end();
            match (reply.as_bytes()[0], reply.split_once("\r\n")) {
                (b'$', Some((_, text))) => format!("{text:?}"),
                (b'$', None) => "(nil)".into(),
                (b':', _) => format!("(integer) {}", &reply[1..]),
                _ => reply[1..].into(),
            }
        })
        .collect();
    replies.join(", ")
}
