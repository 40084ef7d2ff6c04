//! Commands that a leader alone applies before they are in its log.

use crate::cluster::operation;
use crate::single::turn;
use consensus::{Config, Durability, Index, Members, RaftNode, Saved, Times};
use ids::{Boot, GatewayId, GroupId, HashSeed, Incarnation, Monotonic, NodeId, PartitionRange, UnixMillis};
use keyspace::{EntryOperation, Operations};
use replica::{
    Batch, BatchOutcome, Call, CarriedOut, DiskAnswer, DiskRequest, Effects, Input, LogBase, Replica, Sender,
    Turn,
};
use resp::ReplyWriter;
use txn::{Participant, TxnId};

const ME: Incarnation = Incarnation(5);

/// A replica that is alone and keeps its log, with the clock, and what its disk was asked.
struct Scene {
    replica: Replica,
    turn: Turn,
    now: Monotonic,
    /// What is written, in order, and the numbers of what is not.
    saved: Saved,
    unwritten: Vec<u64>,
    /// What batches were answered.
    outcomes: Vec<BatchOutcome>,
}

fn raft(saved: Saved, now: Monotonic) -> RaftNode {
    let config = Config {
        group: GroupId::new(0),
        me: ME,
        start: Config::first(Members::of_voters([ME])),
        saved,
        durability: Durability::Durable,
        node_start: Boot(1),
        times: Times::DEFAULT,
        seed: 1,
    };
    RaftNode::new(config, now).expect("its parts agree")
}

impl Scene {
    /// One that begins with what another has written, and leads.
    fn behind(saved: Saved) -> Scene {
        let now = Monotonic(1_000_000_000);
        let mut replica = Replica::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE);
        replica.give_log();
        replica.join(raft(saved.clone(), now), 0, Index(1), LogBase::Stored);
        let mut scene = Scene {
            replica,
            turn: turn(1, 1_000),
            now,
            saved,
            unwritten: Vec::new(),
            outcomes: Vec::new(),
        };
        while scene.replica.leader().is_none() {
            scene.now = scene.now.after(Times::DEFAULT.election_max);
            scene.step(Input::Tick);
            scene.finish();
            scene.write();
        }
        scene
    }

    fn new() -> Scene {
        Scene::behind(Saved::default())
    }

    fn step(&mut self, input: Input<'_>) {
        let mut effects = Effects::default();
        assert!(self.replica.step(&self.turn, self.now, input, &mut effects));
        assert_eq!(self.replica.check(), Ok(()));
        self.outcomes.extend(
            effects
                .responses
                .into_iter()
                .map(|(_, response)| response.outcome),
        );
        for request in effects.disk {
            if let DiskRequest::Persist(persist) = request {
                self.saved.hard_state = persist.hard_state;
                self.saved.entries.extend(persist.entries);
                self.unwritten.push(persist.number);
            }
        }
    }

    fn finish(&mut self) {
        while self.replica.has_work(self.now) {
            self.step(Input::Finish);
            if self.replica.is_ahead() {
                return;
            }
        }
    }

    /// The disk has written all that it was asked to, and the turn ends.
    fn write(&mut self) {
        for number in std::mem::take(&mut self.unwritten) {
            self.step(Input::Disk(DiskAnswer::Persisted(number)));
        }
        self.finish();
        if !self.unwritten.is_empty() {
            self.write();
        }
    }

    fn begin_turn(&mut self) {
        let number = self.turn.number + 1;
        self.turn = turn(number, 1_000 * number as i64);
    }

    /// Applies commands first, each if that may be.
    fn apply_first(&mut self, lines: &[&str]) -> Vec<String> {
        let mut replies = Vec::new();
        for line in lines {
            if !self.replica.may_apply_first() {
                replies.push("not now".to_owned());
                continue;
            }
            let operation = operation(0, line);
            let command = operation.parse().expect("it is a command");
            let mut out = Vec::new();
            let mut writer = ReplyWriter::new(&mut out, operation.protocol);
            self.replica
                .apply_first(&self.turn, &operation.as_state(), &command, &mut writer);
            assert_eq!(self.replica.check(), Ok(()));
            replies.push(String::from_utf8_lossy(&out).trim_end().to_owned());
        }
        replies
    }

    /// Carries out commands together, all of them or none: what each came to.
    fn at_once(&mut self, lines: &[&str], is_kept: bool) -> Vec<CarriedOut> {
        let mut run = self.replica.begin_at_once(&self.turn);
        let mut all = Vec::new();
        for line in lines {
            let operation = operation(0, line);
            let command = operation.parse().expect("it is a command");
            let call = Call {
                spec: operation.spec,
                db: operation.db,
                protocol: operation.protocol,
                args: operation.args.as_args(),
                command: &command,
            };
            let mut out = Vec::new();
            let out = &mut ReplyWriter::new(&mut out, operation.protocol);
            all.push(self.replica.carry_out(&mut run, &call, |_, _| true, out));
        }
        match is_kept {
            true => self.replica.end_at_once(run),
            false => self.replica.take_back_at_once(run),
        }
        assert_eq!(self.replica.check(), Ok(()));
        all
    }

    /// A batch of a gateway with one write.
    fn send(&mut self, number: u64, line: &str) {
        let operation = operation(0, line);
        let command = operation.as_state();
        let mut writes = Operations::new();
        writes.push(&EntryOperation::Command {
            db: command.db,
            protocol: command.protocol,
            args: command.args,
        });
        self.send_writes(number, writes);
    }

    fn send_writes(&mut self, number: u64, writes: Operations) {
        let gateway = GatewayId {
            boot: Boot(1),
            worker: 0,
        };
        let sender = Sender {
            node: NodeId(1),
            gateway,
        };
        let batch = Batch {
            sequence: number,
            number,
            writes: writes.into_bytes().into(),
            ..Batch::default()
        };
        self.step(Input::Batch { sender, batch });
    }

    /// A part of a transaction, which has voted from here on.
    fn prepare(&mut self, number: u64, line: &str) {
        let operation = operation(0, line);
        let txn = TxnId {
            boot: Boot(1),
            worker: 0,
            seq: 1,
            attempt: 1,
        };
        let mut writes = Operations::new();
        writes.push(&EntryOperation::Prepare(Box::new(keyspace::Prepare {
            txn,
            began: UnixMillis(1),
            participants: [Participant::first(GroupId::new(0))].into(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: keyspace::Work::Evaluate {
                commands: vec![operation.as_state()],
                is_strict: false,
            },
        })));
        self.send_writes(number, writes);
        self.finish();
        self.write();
        assert!(!self.replica.keyspace().is_unlocked(), "it holds its key");
    }

    fn hash(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        self.replica.keyspace().state_hash()
    }

    /// What a start makes of what is written.
    fn restarted(&self) -> Scene {
        Scene::behind(self.saved.clone())
    }
}

const LINES: &[&str] = &[
    "SET a 1",
    "INCR a",
    "SADD s 1 2 3 4 5 6 7 8 9",
    "SPOP s 2",
    "SET b x PX 500",
    "RPUSH l 1 2 3",
    "LPOP a",
    "SPOP s",
];

#[test]
fn a_start_finds_what_was_applied_first_as_it_was() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.begin_turn();
        let replies = scene.apply_first(LINES);
        assert_eq!(replies[1], ":2", "it is answered at once");
        assert!(scene.replica.is_ahead());
        scene.step(Input::Close);
        assert!(scene.replica.is_ahead(), "it is not kept yet");
        scene.write();
        assert!(!scene.replica.is_ahead());
        // What is gathered beside it is applied behind it, here and there.
        scene.begin_turn();
        scene.send(1 + scene.turn.number / 2 - 1, "APPEND a 7");
        scene.apply_first(&["APPEND a 5"]);
        scene.step(Input::Close);
        scene.write();
        let restarted = scene.restarted();
        assert_eq!(restarted.hash(), scene.hash());
    }
    assert_eq!(scene.outcomes.len(), 3);
    let applied = scene.replica.member().expect("it has a part").applied();
    // Each of the turns has one entry of what was applied first, and every second one another.
    assert_eq!(applied.0 - 2, 3 * 3);
}

#[test]
fn nothing_is_applied_first_while_anything_is_on_its_way() {
    let mut scene = Scene::new();
    scene.begin_turn();
    scene.send(1, "SET a 1");
    scene.step(Input::Finish);
    assert_eq!(scene.apply_first(&["APPEND a 2"]), ["not now"]);
    let number = scene.unwritten.remove(0);
    scene.step(Input::Disk(DiskAnswer::Persisted(number)));
    assert_eq!(
        scene.apply_first(&["APPEND a 2"]),
        ["not now"],
        "it is kept, and not applied"
    );
    scene.finish();
    scene.write();
    assert_eq!(scene.apply_first(&["APPEND a 2"]), [":2"]);
    scene.step(Input::Close);
    assert_eq!(
        scene.apply_first(&["APPEND a 3"]),
        ["not now"],
        "an entry is on its way"
    );
    scene.write();
    assert_eq!(scene.apply_first(&["APPEND a 3"]), [":3"]);
}

#[test]
fn nothing_is_applied_first_where_somebody_waits_in_the_state() {
    let mut scene = Scene::new();
    scene.begin_turn();
    let operation = operation(0, "BLPOP l 0");
    let mut writes = Operations::new();
    writes.push(&EntryOperation::Wait {
        id: keyspace::WaitId {
            worker: 0,
            connection: 1,
            sequence: 1,
        },
        command: operation.as_state(),
    });
    let gateway = GatewayId {
        boot: Boot(1),
        worker: 0,
    };
    let sender = Sender {
        node: NodeId(1),
        gateway,
    };
    let batch = Batch {
        sequence: 1,
        number: 1,
        writes: writes.into_bytes().into(),
        ..Batch::default()
    };
    scene.step(Input::Batch { sender, batch });
    scene.finish();
    scene.write();
    assert!(scene.replica.keyspace().has_waiters());
    assert_eq!(scene.apply_first(&["RPUSH l 1"]), ["not now"]);
}

#[test]
fn the_members_stay_as_they_are_while_an_entry_is_open() {
    let mut scene = Scene::new();
    scene.begin_turn();
    scene.apply_first(&["SET a 1"]);
    let change = || {
        let mut members = Members::of_voters([ME]);
        members.learners.push(Incarnation(6));
        Input::ChangeMembers(members)
    };
    scene.step(change());
    scene.step(Input::Close);
    scene.write();
    assert!(scene.replica.may_apply_first(), "nothing has changed");
    scene.step(change());
    assert!(!scene.replica.may_apply_first());
    scene.finish();
    scene.write();
    assert!(!scene.replica.may_apply_first(), "it is not alone");
    assert_eq!(scene.restarted().hash(), scene.hash());
}

#[test]
fn no_piece_of_a_state_is_made_that_is_ahead_of_its_log() {
    let mut scene = Scene::new();
    scene.begin_turn();
    scene.apply_first(&["SET a 1"]);
    scene.step(Input::Close);
    let mut effects = Effects::default();
    scene
        .replica
        .step(&scene.turn, scene.now, Input::Snapshot, &mut effects);
    scene
        .replica
        .step(&scene.turn, scene.now, Input::Finish, &mut effects);
    assert_eq!(effects.disk, [], "up to where it reflects the log cannot be said");
    let number = scene.unwritten.remove(0);
    scene.step(Input::Disk(DiskAnswer::Persisted(number)));
    let mut effects = Effects::default();
    scene
        .replica
        .step(&scene.turn, scene.now, Input::Finish, &mut effects);
    let is_last = |request: &DiskRequest| matches!(request, DiskRequest::Chunk { point: Some(point), .. } if point.index == Index(3));
    assert!(effects.disk.iter().any(is_last), "{:?}", effects.disk);
    assert_eq!(scene.replica.keyspace().key_count(), 1);
}

#[test]
fn a_start_finds_what_was_done_together_and_nothing_of_what_was_taken_back() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.begin_turn();
        scene.at_once(LINES, false);
        assert!(scene.replica.is_ahead(), "an entry is open, of nothing");
        scene.apply_first(LINES);
        scene.at_once(LINES, true);
        scene.at_once(&["SPOP s 3", "INCR a", "EXISTS b", "DEL b"], false);
        scene.apply_first(&["SPOP s 2", "INCR a", "SET c 1 PX 700"]);
        let hash = scene.hash();
        scene.step(Input::Close);
        scene.write();
        assert_eq!(scene.hash(), hash);
        assert_eq!(scene.restarted().hash(), hash);
    }
}

#[test]
fn what_only_reads_opens_no_entry_unless_it_says_that_a_key_has_expired() {
    let mut scene = Scene::new();
    scene.begin_turn();
    scene.at_once(&["SET a 1", "SET b 1 PX 500"], true);
    scene.step(Input::Close);
    scene.write();
    assert_eq!(scene.at_once(&["GET a", "EXISTS b"], true), [CarriedOut::Done; 2]);
    assert!(!scene.replica.is_ahead());
    scene.begin_turn();
    let time = scene.replica.keyspace().time();
    assert_eq!(scene.at_once(&["GET b"], true), [CarriedOut::Done]);
    assert!(scene.replica.is_ahead(), "whoever reads later is to find it gone");
    scene.step(Input::Close);
    scene.write();
    let now = scene.replica.keyspace().time();
    assert!(now > time);
    assert_eq!(scene.restarted().replica.keyspace().time(), now);
}

#[test]
fn what_a_transaction_holds_is_left_alone_and_all_else_is_done() {
    let mut scene = Scene::new();
    scene.begin_turn();
    scene.prepare(1, "SET held 1");
    assert!(scene.replica.may_apply_first());
    assert_eq!(
        scene.at_once(&["SET free 1", "GET held"], false),
        [CarriedOut::Done, CarriedOut::Held]
    );
    assert_eq!(
        scene.at_once(&["INCR free", "INCR free"], true),
        [CarriedOut::Done; 2]
    );
    assert_eq!(
        scene.at_once(&["INCR free", "DEL held"], false)[1],
        CarriedOut::Held
    );
    let hash = scene.hash();
    scene.step(Input::Close);
    scene.write();
    assert_eq!(scene.restarted().hash(), hash);
}
