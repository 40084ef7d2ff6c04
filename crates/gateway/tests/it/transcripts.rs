//! Transcripts of clients, in `testdata`: what they send to whichever node, what the nodes tell each other, what is answered.
//!
//! A turn takes a millisecond, in which every node hears what was sent to it in the turn before. Nodes are called A, B and
//! C; replies are written as `redis-cli` writes them.

use crate::cluster::replicated;
use crate::out_of_reach::one_each;
use crate::world::World;
use control::GroupRef;
use ids::{GroupCount, Groups, NodeId, Slot};
use keyspace::{BlockCommand, ConditionView, EntryOperation, Operations, Work};
use mutations::Mutation;
use peer_wire::PeerMessage;
use replica::BatchOutcome;
use resp::Args;
use std::collections::BTreeMap;
use std::fmt::Write;
use transcript::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");

/// A command that is not answered in so many turns waits, and has to be sent by `send`.
const TURNS_MAX: usize = 100;

#[test]
fn the_transcripts_of_clients_go_as_they_are_written() {
    transcript::play_folder(FOLDER, interpreter);
}

#[test]
fn a_mistake_in_a_node_is_noticed_by_its_transcript() {
    for (file, mutation) in [
        ("waiting_read", Mutation::LockIgnoredByRead),
        ("expiry_under_a_lock", Mutation::LockIgnoredByRead),
        ("msetnx_refused", Mutation::ConditionsNotJudged),
        ("multi_over_three_groups", Mutation::ConditionsNotJudged),
        ("blpop_handed_over", Mutation::LateAnswerTwice),
        ("gap_and_resend", Mutation::ForwardAppliedTwice),
        ("gap_and_resend", Mutation::WriteBeforeNotMissed),
    ] {
        mutations::plant(Some(mutation));
        let goes = transcript::goes_as_written(format!("{FOLDER}/{file}.txt"), interpreter());
        mutations::plant(None);
        assert!(!goes, "{file}: {mutation:?}");
    }
}

fn interpreter() -> impl FnMut(&Command) -> Result<String, String> {
    let mut stage = None;
    move |command| match (command.name(), &mut stage) {
        ("nodes", _) => {
            let new = Stage::new(command)?;
            let out = new.leaders();
            stage = Some(new);
            Ok(out)
        }
        (_, None) => Err("a transcript begins with `nodes`".into()),
        (_, Some(stage)) => stage.carry_out(command),
    }
}

struct Stage {
    world: World,
    groups: Groups,
    /// The node and the number of each client.
    clients: BTreeMap<String, (usize, u64)>,
}

impl Stage {
    fn new(command: &Command) -> Result<Stage, String> {
        let count: u16 = command.parsed_value("groups")?.ok_or("`nodes` lacks groups=")?;
        let world = match command.word(0, "`replicated` or `one-each`")? {
            "replicated" => replicated(count),
            // Each node has the only replica of one group.
            "one-each" => one_each(count),
            other => return Err(format!("`{other}` is neither `replicated` nor `one-each`")),
        };
        let count = GroupCount::new(count).ok_or("there are not so many groups")?;
        Ok(Stage {
            world,
            groups: Groups::with_default_partitions(count),
            clients: BTreeMap::new(),
        })
    }

    fn carry_out(&mut self, command: &Command) -> Result<String, String> {
        match command.name() {
            "client" => {
                let name = command.word(0, "a name")?.to_owned();
                let node = node(command.value("at").ok_or("`client` lacks at=")?)?;
                let number = 1 + self.clients.len() as u64;
                self.clients.insert(name, (node, number));
                Ok(String::new())
            }
            // Sends a command, and waits for what it is answered.
            "ask" => {
                let (node, client) = self.client(command)?;
                self.world.send(node, client, &command.rest(1).join(" "));
                for _ in 0..TURNS_MAX {
                    let reply = self.world.nodes[node].take_ready(client);
                    if !reply.is_empty() {
                        return Ok(replies(&reply));
                    }
                    self.world.turn();
                }
                Ok("(no reply)".into())
            }
            // Sends a command, and goes on.
            "send" => {
                let (node, client) = self.client(command)?;
                self.world.send(node, client, &command.rest(1).join(" "));
                Ok(String::new())
            }
            "send-bytes" => {
                let (node, client) = self.client(command)?;
                let bytes = command.word(1, "bytes")?;
                self.world.nodes[node].send_bytes(client, bytes.as_bytes());
                Ok(String::new())
            }
            "replies" => {
                let (node, client) = self.client(command)?;
                let reply = self.world.nodes[node].take_ready(client);
                Ok(if reply.is_empty() {
                    "(no reply)".into()
                } else {
                    replies(&reply)
                })
            }
            "turns" => {
                let turns: usize = command.parsed(0, "how many")?;
                let mut out = String::new();
                for _ in 0..turns {
                    self.world.turn();
                    if command.value("show") == Some("batches") {
                        self.show(&mut out);
                    }
                }
                Ok(out)
            }
            "lose" => {
                let mut out = String::new();
                self.show(&mut out);
                self.world.lose();
                Ok(out.lines().map(|line| format!("lost: {line}\n")).collect())
            }
            // Work between turns: keys that are due go.
            "tend" => {
                self.world.cron();
                Ok(String::new())
            }
            "crash" => {
                let gone = node(command.word(0, "a node")?)?;
                self.world.dead[gone] = true;
                for other in (0..self.world.nodes.len()).filter(|other| *other != gone) {
                    self.world.nodes[other]
                        .gateway
                        .on_link(NodeId(gone as u64), false);
                }
                Ok(String::new())
            }
            "locks" => {
                let held = (0..self.world.nodes.len()).map(|node| {
                    let held = self.world.transactions_held(node);
                    format!("{} holds locks of {held}", letter(node))
                });
                Ok(held.collect::<Vec<_>>().join("\n"))
            }
            "leaders" => Ok(self.leaders()),
            "where" => {
                let mut out = String::new();
                for key in command.rest(0) {
                    let group = self.groups.group_of(Slot::of_key(key.as_bytes()));
                    let _ = writeln!(out, "{key}: group {}", group.number());
                }
                Ok(out)
            }
            _ => Err(command.unknown()),
        }
    }

    fn client(&self, command: &Command) -> Result<(usize, u64), String> {
        let name = command.word(0, "a client")?;
        let found = self.clients.get(name).copied();
        found.ok_or_else(|| format!("there is no client `{name}`"))
    }

    /// Who leads each group, as the leaders say.
    fn leaders(&self) -> String {
        let mut leads = BTreeMap::new();
        for (number, node) in self.world.nodes.iter().enumerate() {
            for report in node.gateway.group_reports().0 {
                if let (GroupRef::Data(group), false) = (report.report.group, self.world.dead[number]) {
                    leads.insert(group.number(), (number, report.report.members.len()));
                }
            }
        }
        let line = |(group, (node, replicas)): (&u16, &(usize, usize))| {
            let replicas = if *replicas == 1 {
                "alone".into()
            } else {
                format!("of {replicas} replicas")
            };
            format!("group {group}: {} leads, {replicas}\n", letter(*node))
        };
        leads.iter().map(line).collect()
    }

    /// What was sent between gateways and groups.
    fn show(&self, out: &mut String) {
        for (from, to, message) in self.world.on_the_wire() {
            let (from, to) = (letter(from), letter(to));
            let _ = match message {
                PeerMessage::Batch(batch) => {
                    let (group, batch) = (batch.group.number(), &batch.batch);
                    let numbered = match batch.number {
                        0 => "a batch".into(),
                        number => format!("batch {number}"),
                    };
                    let mut asked = Vec::new();
                    let read = Operations::read(&batch.writes, |operation| asked.push(name(&operation)));
                    read.expect("a gateway sends operations");
                    // How reads stand in a batch is between a gateway and a group.
                    if !batch.reads.is_empty() {
                        asked.push("reads".into());
                    }
                    writeln!(
                        out,
                        "{from} -> {to}: {numbered} for group {group}: {}",
                        asked.join(", ")
                    )
                }
                PeerMessage::Answers(answers) => {
                    let group = answers.group.number();
                    let said = match &answers.outcome {
                        BatchOutcome::Done(_) => "done".into(),
                        BatchOutcome::NotLeader { .. } => "I do not lead it".into(),
                        BatchOutcome::Gap { applied } => format!("a gap: I have only those to {applied}"),
                        BatchOutcome::Evicted => "done, I do not know any more with what answer".into(),
                        BatchOutcome::Deferred { .. } => "now one that had waited".into(),
                    };
                    writeln!(out, "{from} -> {to}: from group {group}: {said}")
                }
                _ => Ok(()),
            };
        }
    }
}

fn node(letter: &str) -> Result<usize, String> {
    let found = ["A", "B", "C"].iter().position(|node| *node == letter);
    found.ok_or_else(|| format!("there is no node `{letter}`"))
}

fn letter(node: usize) -> &'static str {
    ["A", "B", "C"][node]
}

/// What a gateway asks a group for, in a word or its words.
fn name(operation: &EntryOperation<'_>) -> String {
    match operation {
        EntryOperation::Command { args, .. } => line(args),
        EntryOperation::Block { commands, .. } => format!("as one: {}", lines(commands)),
        EntryOperation::Wait { command, .. } => format!("wait: {}", line(&command.args)),
        EntryOperation::EndWait { .. } => "wait no longer".into(),
        EntryOperation::Prepare(prepare) => {
            let work = match &prepare.work {
                Work::Evaluate { commands, .. } => lines(commands),
                Work::Install { .. } => "what was computed".into(),
                Work::InPlace { .. } => "commands on all of it".into(),
                Work::Move(_) => "a partition moves".into(),
                Work::Put { pairs, .. } => {
                    let pairs: Vec<String> = pairs
                        .iter()
                        .map(|(key, value)| {
                            let [key, value] = [key, value].map(String::from_utf8_lossy);
                            format!("{key} becomes {value}")
                        })
                        .collect();
                    pairs.join("; ")
                }
            };
            let conditions = prepare.conditions.iter().map(|condition| {
                let key = String::from_utf8_lossy(condition.key());
                match condition {
                    ConditionView::Unchanged { .. } => format!(" if {key} is unchanged"),
                    ConditionView::Absent { .. } => format!(" if {key} is absent"),
                }
            });
            format!("prepare {work}{}", conditions.collect::<String>())
        }
        EntryOperation::Lock(_) => "lock".into(),
        EntryOperation::Resolve(resolve) => {
            let decisions = resolve.decisions.iter();
            let decisions = decisions.map(|(_, is_committed)| if *is_committed { "commit" } else { "abort" });
            decisions.collect::<Vec<_>>().join(", ")
        }
        EntryOperation::QueryTxn(_) => "what has become of it?".into(),
        EntryOperation::Forget(_) => "forget".into(),
        EntryOperation::Received { .. } => "I have the late answer".into(),
        _ => "something else".into(),
    }
}

fn line(args: &Args<'_>) -> String {
    let words: Vec<String> = args
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    words.join(" ")
}

fn lines(commands: &[BlockCommand<'_>]) -> String {
    let commands: Vec<String> = commands.iter().map(|command| line(&command.args)).collect();
    commands.join("; ")
}

/// Replies as `redis-cli` writes them.
fn replies(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut rest: &str = &text;
    let mut out = String::new();
    while !rest.is_empty() {
        rest = reply(rest, "", &mut out);
    }
    out
}

/// Writes one reply, whose first line is begun, and answers what follows it.
fn reply<'a>(text: &'a str, indent: &str, out: &mut String) -> &'a str {
    let (line, rest) = text.split_once("\r\n").expect("a reply ends");
    let (kind, line) = line.split_at(1);
    let length = || line.parse::<usize>().ok();
    match (kind, length()) {
        ("-", _) => {
            let _ = writeln!(out, "(error) {line}");
        }
        (":", _) => {
            let _ = writeln!(out, "(integer) {line}");
        }
        ("$", Some(length)) => {
            let _ = writeln!(out, "{:?}", &rest[..length]);
            return &rest[length + 2..];
        }
        ("*", Some(0)) => {
            let _ = writeln!(out, "(empty array)");
        }
        ("*", Some(count)) => {
            let mut rest = rest;
            for place in 1..=count {
                let lead = if place == 1 { "" } else { indent };
                let _ = write!(out, "{lead}{place}) ");
                rest = reply(rest, &format!("{indent}   "), out);
            }
            return rest;
        }
        ("$" | "*", None) => {
            let _ = writeln!(out, "(nil)");
        }
        _ => {
            let _ = writeln!(out, "{line}");
        }
    }
    rest
}
