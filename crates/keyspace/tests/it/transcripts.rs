//! Transcripts of a state that is sent, in `testdata`: a leader that goes on serving, and a learner that has nothing yet.

use crate::node::{Node, db, gateway, header};
use keyspace::{EntryBuf, EntryOperation, SnapshotReceiver, Transfer, TransferStep};
use mutations::Mutation;
use resp::{ArgsBuf, Protocol};
use std::fmt::Write;
use transcript::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");

#[test]
fn the_transcripts_of_a_state_go_as_they_are_written() {
    transcript::play_folder(FOLDER, interpreter);
}

#[test]
fn a_state_that_lacks_an_entry_is_noticed_by_its_transcript() {
    mutations::plant(Some(Mutation::EntryLostAtSnapshot));
    let goes = transcript::goes_as_written(format!("{FOLDER}/chunked_snapshot.txt"), interpreter());
    mutations::plant(None);
    assert!(!goes);
}

fn interpreter() -> impl FnMut(&Command) -> Result<String, String> {
    let mut stage = Stage {
        leader: Node::new(1),
        entries: 0,
        transfer: None,
        receiver: SnapshotReceiver::new(),
        learner: None,
    };
    move |command| stage.carry_out(command)
}

struct Stage {
    leader: Node,
    /// How many were applied.
    entries: u64,
    transfer: Option<Transfer>,
    receiver: SnapshotReceiver,
    /// The replica that came of it.
    learner: Option<Node>,
}

impl Stage {
    fn carry_out(&mut self, command: &Command) -> Result<String, String> {
        match command.name() {
            "write" => Ok(self.write(&command.rest(0).join(" "))),
            // So many keys with short values.
            "fill" => {
                let keys: u64 = command.parsed_value("keys")?.ok_or("`fill` lacks keys=")?;
                for key in 0..keys {
                    self.write(&format!("SET key:{key} value:{key}"));
                }
                Ok(format!(
                    "the leader holds {} keys",
                    self.leader.keyspace.key_count()
                ))
            }
            // A list that is too large to be sent whole.
            "fill-list" => {
                let name = command.word(0, "a key")?.to_owned();
                let elements: u64 = command.parsed_value("elements")?.ok_or("lacks elements=")?;
                for element in 0..elements {
                    self.write(&format!("RPUSH {name} {element}:{}", "x".repeat(1_000)));
                }
                Ok(self.write(&format!("LLEN {name}")))
            }
            "begin" => {
                self.receiver = SnapshotReceiver::new();
                self.transfer = Transfer::begin(&mut self.leader.keyspace);
                let has_begun = self.transfer.is_some();
                has_begun
                    .then(String::new)
                    .ok_or_else(|| "too many are under way".into())
            }
            "chunk" => {
                let bytes_max = command.parsed_value("bytes")?.ok_or("`chunk` lacks bytes=")?;
                let chunks: usize = command.parsed_value("times")?.unwrap_or(1);
                let mut out = String::new();
                for _ in 0..chunks {
                    let transfer = self.transfer.as_mut().ok_or("no transfer was begun")?;
                    let (bytes, kind) = match transfer.next_chunk(&mut self.leader.keyspace, bytes_max) {
                        TransferStep::More(bytes) => (bytes, "a chunk"),
                        TransferStep::Last(bytes) => (bytes, "the last chunk"),
                        TransferStep::Lost => {
                            return Ok("more changed than is remembered: begin again".into());
                        }
                    };
                    let _ = writeln!(out, "{kind} of {} bytes", bytes.len());
                    if command.value("is") == Some("lost") {
                        continue;
                    }
                    out.push_str(&self.arrive(&bytes));
                    if self.learner.is_some() {
                        break;
                    }
                }
                Ok(out)
            }
            "ask" => {
                let line = command.rest(1).join(" ");
                let node = match command.word(0, "leader or learner")? {
                    "leader" => &mut self.leader,
                    "learner" => match &mut self.learner {
                        Some(learner) => learner,
                        None => return Ok("it has no state yet".into()),
                    },
                    other => return Err(format!("`{other}` is neither leader nor learner")),
                };
                Ok(told(node.read(&line).0.as_bytes()))
            }
            "compare" => {
                let learner = self.learner.as_ref().ok_or("the learner has no state yet")?;
                let is_equal = learner.keyspace.state_hash() == self.leader.keyspace.state_hash();
                Ok(if is_equal {
                    "equal to the byte"
                } else {
                    "different"
                }
                .into())
            }
            _ => Err(command.unknown()),
        }
    }

    fn arrive(&mut self, bytes: &[u8]) -> String {
        match self.receiver.take(bytes) {
            Ok(progress) if progress.is_complete => {
                let mut learner = Node::new(2);
                let receiver = std::mem::take(&mut self.receiver);
                learner.keyspace = receiver.finish().expect("it is complete");
                self.learner = Some(learner);
                format!("the learner has the state: {} keys\n", progress.objects)
            }
            Ok(progress) => format!("the learner holds {} keys of it\n", progress.objects),
            Err(error) => format!("the learner refuses: {error}\n"),
        }
    }

    /// A command as an entry of its own, which the learner applies too as soon as it has a state.
    fn write(&mut self, line: &str) -> String {
        self.entries += 1;
        let words = ArgsBuf::from_slices(line.split(' '));
        let mut entry = EntryBuf::new(&header(self.entries as i64, self.entries));
        entry.begin_batch(gateway(1, 0), self.entries, self.entries - 1);
        entry.push(&EntryOperation::Command {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        });
        let entry = entry.finish();
        let (_, replies) = self.leader.apply_entry(&entry);
        if let Some(learner) = &mut self.learner {
            let (_, others) = learner.apply_entry(&entry);
            assert_eq!(others, replies);
        }
        told(&replies[0])
    }
}

/// A short reply as `redis-cli` writes it.
fn told(reply: &[u8]) -> String {
    let reply = String::from_utf8_lossy(reply);
    let reply = reply.trim_end();
    match (reply.as_bytes()[0], reply.split_once("\r\n")) {
        (b'$', Some((_, text))) => format!("{text:?}"),
        (b'$', None) => "(nil)".into(),
        (b':', _) => format!("(integer) {}", &reply[1..]),
        _ => reply[1..].into(),
    }
}
