//! Transcripts of one group, in `testdata`: replicas in one thread, and every message is seen.
//!
//! A replica acts when a command says so: there is no time but `wait`, and no message arrives but by `deliver` and
//! `settle`. Times are counted from the start of the transcript.

use crate::scenario::{damaged, first_voter};
use bytes::Bytes;
use consensus::{
    EntryEffect, Index, Members, MessageBody, RaftMessage, RaftNode, ReadId, ReadPermit, Role, Term,
};
use ids::{Boot, Incarnation, Monotonic};
use mutations::Mutation;
use std::collections::BTreeSet;
use std::fmt::Write;
use transcript::Command;

const MS: u64 = 1_000_000;

/// When a transcript begins: later than any span that something is subtracted from.
const BEGINNING: Monotonic = Monotonic(1_000 * MS);

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");

fn interpreter() -> impl FnMut(&Command) -> Result<String, String> {
    let mut group = Group::new();
    move |command| group.carry_out(command)
}

#[test]
fn the_transcripts_of_a_group_go_as_they_are_written() {
    transcript::play_folder(FOLDER, interpreter);
}

#[test]
fn a_mistake_in_a_group_is_noticed_by_its_transcript() {
    for (file, mutation) in [
        ("election", Mutation::CampaignInsidePromise),
        ("election", Mutation::MinorityCommit),
        ("lease_loss", Mutation::CampaignInsidePromise),
        ("lease_loss", Mutation::LeaseKeptAcrossTransfer),
        ("floor", Mutation::FloorForgotten),
        ("floor", Mutation::ProgressKept),
        ("floor_by_term", Mutation::FloorByPlace),
    ] {
        mutations::plant(Some(mutation));
        let goes = transcript::goes_as_written(format!("{FOLDER}/{file}.txt"), interpreter());
        mutations::plant(None);
        assert!(!goes, "{file}: {mutation:?}");
    }
}

/// Replicas of one group, numbered from 1.
struct Group {
    replicas: Vec<RaftNode>,
    /// Which start each of their nodes is in.
    starts: Vec<Boot>,
    /// What was last said of each: role, term, leader.
    told: Vec<(Role, Term, Option<Incarnation>)>,
    applied: Vec<Vec<String>>,
    now: Monotonic,
    on_the_way: Vec<RaftMessage>,
    cut_off: BTreeSet<u64>,
    out: String,
}

impl Group {
    fn new() -> Group {
        Group {
            replicas: Vec::new(),
            starts: Vec::new(),
            told: Vec::new(),
            applied: Vec::new(),
            now: BEGINNING,
            on_the_way: Vec::new(),
            cut_off: BTreeSet::new(),
            out: String::new(),
        }
    }

    fn carry_out(&mut self, command: &Command) -> Result<String, String> {
        match command.name() {
            "voters" => self.begin(command.parsed(0, "how many")?),
            "wait" => {
                let ms: u64 = command.parsed_value("ms")?.ok_or("`wait` lacks ms=")?;
                self.now = Monotonic(self.now.0 + ms * MS);
                let passed = (self.now.0 - BEGINNING.0) / MS;
                let _ = writeln!(self.out, "at {passed} ms");
            }
            "tick" => {
                for number in self.named(command, 0)? {
                    let now = self.now;
                    self.replica(number).tick(now);
                    self.take(number);
                }
            }
            "deliver" => self.deliver(true),
            "settle" => {
                while !self.on_the_way.is_empty() {
                    self.deliver(false);
                }
            }
            "lose" => {
                for message in std::mem::take(&mut self.on_the_way) {
                    let _ = writeln!(self.out, "lost: {}", line(&message));
                }
            }
            "cut" => self.cut_off.extend(self.named(command, 0)?),
            "heal" => self.cut_off.clear(),
            "damage" => {
                let number = self.named(command, 0)?[0];
                self.damage(number, command.parsed_value("behind")?.ok_or("lacks behind=")?);
            }
            "heartbeat" => self.heartbeat(self.named(command, 0)?[0]),
            "propose" => {
                let number = self.named(command, 0)?[0];
                let data = Bytes::copy_from_slice(command.value("data").ok_or("lacks data=")?.as_bytes());
                let said = match self.replica(number).propose(data) {
                    Ok((index, term)) => format!("{number} proposes entry {} of term {}", index.0, term.0),
                    Err(refused) => format!("{number} refuses: {}", words(&format!("{refused:?}"))),
                };
                let _ = writeln!(self.out, "{said}");
                self.take(number);
            }
            "read" => self.read(self.named(command, 0)?[0]),
            "hand-over" => {
                let (from, to) = (self.named(command, 0)?[0], command.parsed_value("to")?);
                let (to, now) = (to.ok_or("lacks to=")?, self.now);
                let said = match self.replica(from).transfer(Incarnation(to), now) {
                    Ok(()) => format!("{from} gives its lease up and hands over to {to}"),
                    Err(refused) => format!("{from} refuses: {}", words(&format!("{refused:?}"))),
                };
                let _ = writeln!(self.out, "{said}");
                self.take(from);
            }
            "status" => self.status(),
            _ => return Err(command.unknown()),
        }
        Ok(std::mem::take(&mut self.out))
    }

    /// A replica starts again, without what its log had behind an entry.
    fn damage(&mut self, number: u64, behind: u64) {
        let at = number as usize - 1;
        let start = Boot(self.starts[at].0 + 1);
        let replica = damaged(&self.replicas[at], Index(behind), start, self.now);
        let (last, floor) = (replica.last_index().0, replica.floor());
        let status = replica.status();
        self.told[at] = (status.role, status.term, status.leader);
        (self.replicas[at], self.starts[at]) = (replica, start);
        let had = match floor {
            Some((term, index)) => format!("it had entry {} of term {} once", index.0, term.0),
            None => "that is all it had".into(),
        };
        let _ = writeln!(self.out, "{number} starts again with a log to {last}: {had}");
    }

    fn begin(&mut self, voters: u64) {
        let members = Members::of_voters((1..=voters).map(Incarnation));
        for me in 1..=voters {
            let replica = first_voter(me, &members, self.now);
            let status = replica.status();
            self.told.push((status.role, status.term, status.leader));
            self.replicas.push(replica);
            self.starts.push(Boot(1));
            self.applied.push(Vec::new());
        }
        self.status();
    }

    /// The replicas that the words of a command from a place on name.
    fn named(&self, command: &Command, place: usize) -> Result<Vec<u64>, String> {
        let mut named = vec![command.parsed(place, "a replica")?];
        while let Ok(number) = command.parsed(place + named.len(), "a replica") {
            named.push(number);
        }
        let are_there = named
            .iter()
            .all(|number| (1..=self.replicas.len() as u64).contains(number));
        are_there
            .then_some(named)
            .ok_or_else(|| "there is no such replica".into())
    }

    fn replica(&mut self, number: u64) -> &mut RaftNode {
        &mut self.replicas[number as usize - 1]
    }

    /// What a replica wants done is done: it says what it has become, sends, and applies.
    fn take(&mut self, number: u64) {
        let now = self.now;
        while self.replica(number).has_ready() {
            let ready = self.replica(number).take_ready(now);
            let status = self.replica(number).status();
            let told = (status.role, status.term, status.leader);
            let last_told = &mut self.told[number as usize - 1];
            if *last_told != told {
                *last_told = told;
                let _ = writeln!(self.out, "{number} {}", standing(told));
            }
            for entry in &ready.committed {
                if let EntryEffect::Apply(data) = &entry.effect {
                    let data = String::from_utf8_lossy(data).into_owned();
                    let _ = writeln!(self.out, "{number} applies entry {}: {data}", entry.index.0);
                    self.applied[number as usize - 1].push(data);
                }
            }
            if let Some(last) = ready.committed.last() {
                let last = last.index;
                self.replica(number).applied(last);
            }
            for (ReadId { number: round, .. }, Index(index)) in ready.reads {
                let said = format!("{number} may read from entry {index} on: round {round} is confirmed");
                let _ = writeln!(self.out, "{said}");
            }
            for id in ready.reads_lost {
                let _ = writeln!(self.out, "{number} will not read: round {} is lost", id.number);
            }
            self.on_the_way.extend(ready.messages);
        }
    }

    /// One message after the other arrives; what is sent meanwhile is on its way.
    fn deliver(&mut self, shows_messages: bool) {
        for message in std::mem::take(&mut self.on_the_way) {
            let (from, to, line) = (message.from.0, message.to.0, line(&message));
            if self.cut_off.contains(&from) || self.cut_off.contains(&to) {
                if shows_messages {
                    let _ = writeln!(self.out, "lost: {line}");
                }
                continue;
            }
            if shows_messages {
                let _ = writeln!(self.out, "{line}");
            }
            let now = self.now;
            self.replica(to).step(message, now);
            self.take(to);
        }
    }

    /// The claim to lead, put to all others at once, and answered at once.
    fn heartbeat(&mut self, leader: u64) {
        let now = self.now;
        let mut heard = Vec::new();
        for claim in self.replica(leader).claims() {
            let to = claim.to.0;
            if self.cut_off.contains(&to) || self.cut_off.contains(&leader) {
                continue;
            }
            let start = self.starts[to as usize - 1];
            let is_confirmed = self.replica(to).confirm(&claim, now);
            self.take(to);
            if is_confirmed {
                heard.push(to.to_string());
                self.replica(leader).acknowledged(&claim, start, now, now);
            } else {
                let _ = writeln!(self.out, "{to} does not take {leader} for the leader");
                self.replica(leader).refused(&claim, start, now);
            }
        }
        let heard = if heard.is_empty() {
            "nobody".into()
        } else {
            heard.join(", ")
        };
        let _ = writeln!(self.out, "{leader} is acknowledged by {heard}");
        self.take(leader);
    }

    fn read(&mut self, number: u64) {
        let now = self.now;
        let said = match self.replica(number).read_permit(now) {
            ReadPermit::Lease(lease) => {
                let replica = self.replica(number);
                let ms = (1..).find(|ms| !replica.holds(lease, Monotonic(now.0 + ms * MS)));
                let ms = ms.expect("every lease ends");
                format!("{number} reads under its lease, for less than {ms} ms more")
            }
            ReadPermit::ReadIndex => match self.replica(number).read_index(now) {
                Ok(id) => format!("{number} has no lease: round {} asks the others", id.number),
                Err(refused) => format!("{number} refuses: {}", words(&format!("{refused:?}"))),
            },
            ReadPermit::NotLeader => format!("{number} does not lead"),
        };
        let _ = writeln!(self.out, "{said}");
        self.take(number);
    }

    fn status(&mut self) {
        for (number, replica) in (1..).zip(&self.replicas) {
            let status = replica.status();
            let standing = standing((status.role, status.term, status.leader));
            let promised = replica.promised_until().0.saturating_sub(self.now.0) / MS;
            let _ = write!(self.out, "{number} {standing}; log to {}", replica.last_index().0);
            let _ = write!(self.out, ", committed to {}", replica.commit_index().0);
            let _ = match promised {
                0 => writeln!(self.out),
                ms => writeln!(self.out, "; promised for {ms} ms"),
            };
        }
    }
}

fn standing((role, term, leader): (Role, Term, Option<Incarnation>)) -> String {
    let term = term.0;
    match (role, leader) {
        (Role::Leader, _) => format!("leads in term {term}"),
        (Role::Candidate, _) => format!("is a candidate in term {term}"),
        (Role::Follower, Some(leader)) => format!("follows {} in term {term}", leader.0),
        (Role::Follower, None) => format!("follows nobody in term {term}"),
    }
}

/// A message in one line.
fn line(message: &RaftMessage) -> String {
    let said = match &message.body {
        MessageBody::Append {
            index,
            commit,
            entries,
            ..
        } => {
            let entries = match entries.as_slice() {
                [] => format!("do you hold entry {}?", index.0),
                [one] => format!("entry {}", one.index.0),
                [first, .., last] => format!("entries {} to {}", first.index.0, last.index.0),
            };
            format!("{entries} (committed to {})", commit.0)
        }
        MessageBody::AppendAnswer {
            index, reject: None, ..
        } => format!("I hold entry {}", index.0),
        MessageBody::AppendAnswer {
            index,
            reject: Some(_),
            ..
        } => format!("I do not hold entry {}", index.0),
        MessageBody::Heartbeat { read: 0, .. } => "I lead".into(),
        MessageBody::Heartbeat { read, .. } => format!("do I lead still? (round {read})"),
        MessageBody::HeartbeatAnswer { read: 0, .. } => "you lead".into(),
        MessageBody::HeartbeatAnswer { read, .. } => format!("you lead still (round {read})"),
        MessageBody::Vote {
            is_pre,
            index,
            log_term,
            is_transfer,
            ..
        } => {
            let asked = if *is_pre {
                "would you vote for me?"
            } else {
                "vote for me"
            };
            let wished = if *is_transfer {
                ", as the leader wishes"
            } else {
                ""
            };
            format!(
                "{asked} (my log ends with entry {} of term {}{wished})",
                index.0, log_term.0
            )
        }
        MessageBody::VoteAnswer { is_pre, reject, .. } => {
            let answer = match (*is_pre, *reject) {
                (true, false) => "I would",
                (true, true) => "I would not",
                (false, false) => "you have my vote",
                (false, true) => "no",
            };
            answer.into()
        }
        MessageBody::Snapshot(point) => format!("take the state as of entry {}", point.index.0),
        MessageBody::TimeoutNow => "campaign now".into(),
    };
    format!(
        "{} -> {} in term {}: {said}",
        message.from.0, message.to.0, message.term.0
    )
}

/// `NotLeader` as `not leader`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}
