//! A group whose members keep fragments: whole replicas in one thread, with every message between them.

use crate::cluster::operation;
use crate::single::turn;
use bytes::Bytes;
use consensus::{Config, Durability, Index, Members, RaftMessage, RaftNode, Saved, Times};
use ids::{
    Boot, Db, GatewayId, GroupId, HashSeed, Incarnation, Monotonic, NodeId, PartitionRange, SemanticsVersion,
    UnixMillis, Version,
};
use keyspace::{Given, KeyVersion};
use mutations::Mutation;
use replica::{
    Asked, BatchOutcome, Chunk, CodingMessage, CodingRule, Effects, Found, GroupClient, Input, LogBase,
    Output, PieceSizes, Replica, ReplyTo, Sender, Turn,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);

/// Ticks from one heartbeat to the next.
const BEAT_TICKS: u64 = 5;

/// Bytes of values that are coded.
const LONG: usize = 600;

/// From one member to another one.
enum Sent {
    Raft(RaftMessage),
    Coding(CodingMessage),
    Chunk(Chunk),
    ChunkAnswer {
        transfer: u64,
        number: u64,
        is_taken: bool,
    },
}

struct Seat {
    replica: Replica,
    /// Whether it does anything, and hears anything.
    is_up: bool,
    /// Whether what it says and is told gets lost.
    is_cut_off: bool,
}

/// What becomes of messages on their way.
type OnTheWay = Box<dyn FnMut(Incarnation, Incarnation, &mut Sent)>;

struct Scene {
    seats: BTreeMap<Incarnation, Seat>,
    queue: VecDeque<(Incarnation, Incarnation, Sent)>,
    now: Monotonic,
    turn: Turn,
    ticks: u64,
    client: GroupClient,
    asked: u64,
    told: BTreeMap<u64, String>,
    on_the_way: OnTheWay,
    /// Members whose state is lost for good.
    lost: BTreeSet<Incarnation>,
}

fn raft(me: u64, voters: &[u64], now: Monotonic) -> RaftNode {
    let members = Members::of_voters(voters.iter().copied().map(Incarnation));
    let is_first = voters.contains(&me);
    let config = Config {
        group: GroupId::new(0),
        me: Incarnation(me),
        start: if is_first {
            Config::first(members)
        } else {
            Config::NOWHERE
        },
        saved: Saved::default(),
        durability: Durability::Memory,
        node_start: Boot(1),
        times: Times::DEFAULT,
        seed: me,
    };
    RaftNode::new(config, now).expect("its parts agree")
}

fn db() -> Db {
    Db::default()
}

impl Scene {
    /// Three members, one of which leads.
    fn new() -> Scene {
        let rule = CodingRule {
            threshold: 64,
            hot_bytes: 0,
            delay: Duration::ZERO,
        };
        Scene::with(&[1, 2, 3], Some(rule))
    }

    fn with(voters: &[u64], coding: Option<CodingRule>) -> Scene {
        let gateway = GatewayId {
            boot: Boot(9),
            worker: 0,
        };
        let mut scene = Scene {
            seats: BTreeMap::new(),
            queue: VecDeque::new(),
            now: Monotonic(1_000_000_000),
            turn: Turn {
                coding,
                ..turn(1, 1_000_000)
            },
            ticks: 0,
            client: GroupClient::new(GroupId::new(0), 0, gateway),
            asked: 0,
            told: BTreeMap::new(),
            on_the_way: Box::new(|_, _, _| {}),
            lost: BTreeSet::new(),
        };
        for voter in voters {
            scene.add(*voter, voters);
        }
        scene.wait("somebody leads", |scene| scene.leader().is_some());
        scene
    }

    fn add(&mut self, me: u64, voters: &[u64]) {
        let is_first = voters.contains(&me);
        let mut replica = Replica::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE);
        replica.give_log();
        let applied = Index(u64::from(is_first));
        replica.join(raft(me, voters, self.now), 0, applied, LogBase::New);
        self.seats.insert(
            Incarnation(me),
            Seat {
                replica,
                is_up: true,
                is_cut_off: false,
            },
        );
    }

    fn leader(&self) -> Option<Incarnation> {
        let leads = |seat: &Seat| seat.is_up && seat.replica.member().is_some_and(replica::Member::leads);
        let leaders = self.seats.iter().filter(|(_, seat)| leads(seat));
        let leader = leaders.max_by_key(|(_, seat)| seat.replica.member().expect("it leads").term());
        Some(*leader?.0)
    }

    fn replica(&self, member: Incarnation) -> &Replica {
        &self.seats[&member].replica
    }

    fn at_leader(&self) -> &Replica {
        self.replica(self.leader().expect("somebody leads"))
    }

    fn up(&self) -> impl Iterator<Item = (&Incarnation, &Seat)> {
        self.seats.iter().filter(|(_, seat)| seat.is_up)
    }

    fn followers(&self) -> Vec<Incarnation> {
        let leader = self.leader();
        self.up()
            .map(|(member, _)| *member)
            .filter(|member| Some(*member) != leader)
            .collect()
    }

    /// A step of one member, and what follows from it.
    fn step(&mut self, me: Incarnation, input: Input<'_>) {
        let seat = self.seats.get_mut(&me).expect("there is such a member");
        if !seat.is_up {
            return;
        }
        let from = match &input {
            Input::Chunk { from, chunk } => Some((*from, chunk.transfer, chunk.number)),
            _ => None,
        };
        let mut effects = Effects::default();
        let ends_turn = matches!(input, Input::Finish);
        assert!(seat.replica.step(&self.turn, self.now, input, &mut effects));
        if ends_turn {
            assert_eq!(seat.replica.check(), Ok(()));
        }
        assert_eq!(effects.stopped, None);
        assert!(!effects.differs, "{me:?} is not like the others");
        if let Some((to, transfer, number)) = from {
            let is_taken = effects.is_taken;
            self.queue.push_back((
                me,
                to,
                Sent::ChunkAnswer {
                    transfer,
                    number,
                    is_taken,
                },
            ));
        }
        for message in effects.messages {
            self.queue.push_back((me, message.to, Sent::Raft(message)));
        }
        for (to, chunk) in effects.chunks {
            self.queue.push_back((me, to, Sent::Chunk(chunk)));
        }
        for (to, message) in effects.coding {
            self.queue.push_back((me, to, Sent::Coding(message)));
        }
        let mut out = Vec::new();
        for (_, response) in effects.responses {
            let is_read = self
                .client
                .on_outcome(response.sequence, &response.outcome, &mut out);
            assert!(is_read || matches!(response.outcome, BatchOutcome::NotLeader { .. }));
        }
        self.hear(out);
    }

    fn hear(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Replied { reply_to, reply, .. } => {
                    let reply = String::from_utf8(reply.to_bytes().to_vec()).expect("it is text");
                    assert!(self.told.insert(reply_to.sequence, reply).is_none());
                }
                Output::Failed { reply_to, error, .. } => {
                    let error = format!("-{error}\r\n");
                    assert!(self.told.insert(reply_to.sequence, error).is_none());
                }
                Output::Answered { reply_to, replies } => {
                    let replies = replies.map_or("refused".to_owned(), |replies| format!("{replies:?}"));
                    self.told.insert(reply_to.sequence, replies);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn deliver(&mut self) {
        while let Some((from, to, mut sent)) = self.queue.pop_front() {
            let is_lost = |member: &Incarnation| {
                self.seats
                    .get(member)
                    .is_none_or(|seat| !seat.is_up || seat.is_cut_off)
            };
            if is_lost(&from) || is_lost(&to) {
                continue;
            }
            (self.on_the_way)(from, to, &mut sent);
            let input = match sent {
                Sent::Raft(message) => Input::Message(message),
                Sent::Coding(message) => Input::Coding { from, message },
                Sent::Chunk(chunk) => Input::Chunk { from, chunk },
                Sent::ChunkAnswer {
                    transfer,
                    number,
                    is_taken,
                } => Input::ChunkAnswer {
                    from,
                    transfer,
                    number,
                    is_taken,
                },
            };
            self.step(to, input);
            self.finish(to);
        }
    }

    fn finish(&mut self, member: Incarnation) {
        let seat = &self.seats[&member];
        if seat.is_up && seat.replica.has_work(self.now) {
            self.step(member, Input::Finish);
        }
        if self.seats[&member].is_up && self.seats[&member].replica.reads_on() {
            self.step(member, Input::ReadOn);
            self.step(member, Input::Finish);
        }
    }

    fn beat(&mut self) {
        let members: Vec<Incarnation> = self.seats.keys().copied().collect();
        for leader in members {
            let seat = self.seats.get_mut(&leader).expect("it is one of them");
            let claims = match seat.replica.raft_mut() {
                Some(raft) if seat.is_up && !seat.is_cut_off => raft.claims(),
                _ => continue,
            };
            for claim in claims {
                let now = self.now;
                let Some(other) = self.seats.get_mut(&claim.to) else {
                    continue;
                };
                if !other.is_up || other.is_cut_off {
                    continue;
                }
                let is_confirmed = other
                    .replica
                    .raft_mut()
                    .is_some_and(|raft| raft.confirm(&claim, now));
                let seat = self.seats.get_mut(&leader).expect("it is one of them");
                let raft = seat.replica.raft_mut().expect("it leads");
                match is_confirmed {
                    true => raft.acknowledged(&claim, Boot(1), now, now),
                    false => raft.refused(&claim, Boot(1), now),
                }
            }
        }
    }

    /// What clients ask goes to who leads.
    fn dispatch(&mut self) {
        let Some(leader) = self.leader() else { return };
        let mut batches = Vec::new();
        self.client.dispatch(|batch| batches.push(batch.clone()));
        let sender = Sender {
            node: NodeId(9),
            gateway: self.client.gateway(),
        };
        for batch in batches {
            self.step(leader, Input::Batch { sender, batch });
        }
        self.finish(leader);
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.now = self.now.after(TICK);
        self.turn.number += 1;
        self.turn.seed = self.turn.number * 77;
        self.turn.now = UnixMillis(self.turn.now.0 + TICK.as_millis() as i64);
        self.client.begin(self.now, SemanticsVersion::CURRENT, None);
        let mut out = Vec::new();
        self.client.give_up(&mut out);
        self.hear(out);
        if self.ticks.is_multiple_of(BEAT_TICKS) {
            self.beat();
        }
        let members: Vec<Incarnation> = self.seats.keys().copied().collect();
        for member in members {
            self.step(member, Input::Tick);
            self.finish(member);
        }
        self.deliver();
        self.dispatch();
        self.deliver();
        self.check();
    }

    fn pass(&mut self, span: Duration) {
        for _ in 0..span.as_millis() / TICK.as_millis() {
            self.tick();
        }
    }

    #[track_caller]
    fn wait(&mut self, what: &str, mut until: impl FnMut(&Scene) -> bool) {
        for _ in 0..3_000 {
            if until(self) {
                return;
            }
            self.tick();
        }
        panic!("{what}: not within 30 seconds");
    }

    /// Nothing is a fragment that a holder of a row has not got.
    fn check(&self) {
        for (me, seat) in &self.seats {
            let keyspace = seat.replica.keyspace();
            let (mut coded, Some(code)) = (Vec::new(), keyspace.code()) else {
                continue;
            };
            keyspace.find_coded(None, None, usize::MAX, &mut coded);
            for (db, key) in coded {
                let version = keyspace.version_of(db, &key).expect("it was found");
                if keyspace.settled_up_to() < Some(version) {
                    // It got another name or deadline since it was settled.
                    continue;
                }
                let holders = code
                    .holders
                    .iter()
                    .flatten()
                    .filter(|holder| !self.lost.contains(holder));
                let lacks = holders
                    .copied()
                    .find(|holder| self.seats[holder].replica.keyspace().applied() < version && holder != me);
                let came_with_state = self.seats[me]
                    .replica
                    .member()
                    .is_some_and(|member| member.counts().installs > 0);
                assert!(
                    lacks.is_none() || came_with_state,
                    "{me:?} has a fragment of {key:?} at {version:?}, and {lacks:?} nothing"
                );
            }
        }
    }

    fn ask(&mut self, line: &str) -> u64 {
        self.asked += 1;
        let reply_to = ReplyTo {
            worker: 0,
            connection: 1,
            sequence: self.asked,
        };
        self.client.begin(self.now, SemanticsVersion::CURRENT, None);
        self.client.command(reply_to, Asked::of(&operation(0, line)));
        self.asked
    }

    /// Several commands of one pipeline, which leave together.
    #[track_caller]
    fn pipeline(&mut self, lines: &[&str]) -> Vec<String> {
        let asked: Vec<u64> = lines.iter().map(|line| self.ask(line)).collect();
        self.wait("all are answered", |scene| {
            asked.iter().all(|number| scene.told.contains_key(number))
        });
        asked
            .iter()
            .map(|number| self.told.remove(number).expect("it is told"))
            .collect()
    }

    #[track_caller]
    fn run(&mut self, line: &str) -> String {
        self.pipeline(&[line]).remove(0)
    }

    fn set(&mut self, keys: impl Iterator<Item = u64>) {
        for number in keys {
            assert_eq!(
                self.run(&format!("SET key:{number} {}", value(number))),
                "+OK\r\n"
            );
        }
    }

    fn is_coded(&self, member: Incarnation, key: &str) -> bool {
        self.replica(member).keyspace().is_coded(db(), key.as_bytes())
    }

    /// Waits until members that are there have fragments of these alone.
    #[track_caller]
    fn wait_until_coded(&mut self, keys: &[String]) {
        self.wait("all is settled and demoted", |scene| {
            scene
                .up()
                .all(|(member, _)| keys.iter().all(|key| scene.is_coded(*member, key)))
        });
    }

    /// All members that are there have the same state, in the end.
    #[track_caller]
    fn wait_until_equal(&mut self) {
        let up: Vec<u64> = self.up().map(|(member, _)| member.0).collect();
        self.wait_until_equal_among(&up);
    }

    #[track_caller]
    fn wait_until_equal_among(&mut self, members: &[u64]) {
        self.wait("all are equal", |scene| {
            let mut hashes = scene
                .up()
                .filter(|(member, _)| members.contains(&member.0))
                .map(|(_, seat)| {
                    (
                        seat.replica.keyspace().applied(),
                        seat.replica.keyspace().state_hash(),
                    )
                });
            let first = hashes.next();
            hashes.all(|hash| Some(hash) == first)
        });
    }

    fn gathered(&self) -> u64 {
        self.at_leader().coding_counts().gathered
    }

    fn version(&self, member: Incarnation, key: &str) -> Version {
        match self.replica(member).keyspace().version(db(), key.as_bytes()) {
            KeyVersion::Present(version) => version,
            KeyVersion::Absent(_) => panic!("there is no {key}"),
        }
    }

    /// What a member would give of a value.
    fn given(&self, member: Incarnation, key: &str) -> Given {
        let keyspace = self.replica(member).keyspace();
        let leader = self.leader().expect("somebody leads");
        keyspace.fragment(db(), key.as_bytes(), self.version(leader, key))
    }

    fn down(&mut self, member: Incarnation) {
        self.seats.get_mut(&member).expect("it is a member").is_up = false;
        self.lost.insert(member);
    }

    /// They hear nothing, and are not heard; or they are again.
    fn cut_off_followers(&mut self, is_cut_off: bool) {
        for member in self.followers() {
            self.seats.get_mut(&member).expect("it is one").is_cut_off = is_cut_off;
        }
    }

    fn change_members(&mut self, voters: &[u64], learners: &[u64]) {
        let mut members = Members::of_voters(voters.iter().copied().map(Incarnation));
        members.learners = learners.iter().copied().map(Incarnation).collect();
        let leader = self.leader().expect("somebody leads");
        self.step(leader, Input::ChangeMembers(members));
        self.finish(leader);
    }

    /// Asks for these members until they are it; those that are new learn before. Looks at each step.
    #[track_caller]
    fn become_members(&mut self, target: &[u64], mut look: impl FnMut(&Scene)) {
        for _ in 0..3_000 {
            if self.has_voters(target) {
                return;
            }
            let members = self.at_leader().member().expect("it leads").members().clone();
            let missing: Vec<u64> = target
                .iter()
                .copied()
                .filter(|one| !members.all().contains(&Incarnation(*one)))
                .collect();
            if self.ticks.is_multiple_of(10) && !members.is_joint() {
                let voters: Vec<u64> = members.voters.iter().map(|voter| voter.0).collect();
                match missing.is_empty() {
                    true => self.change_members(target, &[]),
                    false => self.change_members(&voters, &missing),
                }
            }
            self.tick();
            look(self);
        }
        panic!("{target:?} are not the members within 30 seconds");
    }

    /// Asks for these members for so long.
    fn become_members_for(&mut self, target: &[u64], span: Duration) {
        for _ in 0..span.as_millis() / TICK.as_millis() {
            if self.ticks.is_multiple_of(10) {
                self.change_members(target, &[]);
            }
            self.tick();
        }
    }

    fn has_voters(&self, voters: &[u64]) -> bool {
        let Some(leader) = self.leader() else { return false };
        let members = self.replica(leader).member().expect("it leads").members();
        let mut is: Vec<u64> = members.voters.iter().map(|voter| voter.0).collect();
        is.sort_unstable();
        is == voters && !members.is_joint()
    }
}

fn value(number: u64) -> String {
    let (left, right) = (format!("{number}:"), format!("{number}-"));
    left.repeat(LONG / 4) + &right.repeat(LONG / 4)
}

fn bulk(value: &str) -> String {
    format!("${}\r\n{value}\r\n", value.len())
}

fn keys(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| format!("key:{number}")).collect()
}

/// Ten values of which every member has a fragment alone.
fn coded() -> Scene {
    let mut scene = Scene::new();
    scene.set(0..10);
    scene.wait_until_coded(&keys(0..10));
    scene
}

#[test]
fn values_are_settled_and_every_member_demotes_them() {
    let mut scene = coded();
    scene.run("SET short v");
    scene.pass(Duration::from_secs(1));
    let members: Vec<Incarnation> = scene.seats.keys().copied().collect();
    let mut rows = BTreeSet::new();
    for member in members {
        assert!(!scene.is_coded(member, "short"));
        let Given::Fragment(bytes) = scene.given(member, "key:3") else {
            panic!("it has a row")
        };
        rows.insert(bytes[0]);
        let counts = scene.replica(member).coding_counts();
        assert_eq!(counts.demoted, 10);
    }
    assert_eq!(rows.len(), 3, "each has another row");
    scene.wait_until_equal();
}

/// One is written again and again, the other once.
#[test]
fn what_is_written_again_within_the_delay_stays_whole() {
    let rule = CodingRule {
        threshold: 64,
        hot_bytes: 0,
        delay: Duration::from_secs(1),
    };
    let mut scene = Scene::with(&[1, 2, 3], Some(rule));
    scene.set(0..2);
    for look in 0..160 {
        // Between two writes it is settled, and walks through all keys begin.
        if look % 8 == 0 {
            scene.set(0..1);
        }
        scene.pass(Duration::from_millis(50));
        let followers = scene.followers();
        let is_coded = |key| followers.iter().any(|member| scene.is_coded(*member, key));
        assert!(!is_coded("key:0"), "{look}");
        assert!(look >= 20 || !is_coded("key:1"), "{look}");
    }
    scene.wait_until_coded(&keys(1..2));
    scene.wait_until_coded(&keys(0..2));
    scene.wait_until_equal();
}

#[test]
fn a_read_of_a_fragment_is_answered_when_the_value_was_gathered() {
    let mut scene = coded();
    assert_eq!(scene.run("GET key:3"), bulk(&value(3)));
    assert_eq!(scene.gathered(), 1);
    let (leader, followers) = (scene.leader().expect("one leads"), scene.followers());
    assert!(followers.iter().all(|member| scene.is_coded(*member, "key:3")));
    assert_eq!(scene.run("GETRANGE key:4 0 1"), "$2\r\n4:\r\n");
    assert_eq!(
        scene.run("MGET key:5 key:6 none"),
        format!("*3\r\n{}{}$-1\r\n", bulk(&value(5)), bulk(&value(6)))
    );
    // What needs no bytes gathers nothing.
    let gathered = scene.gathered();
    assert_eq!(scene.run("STRLEN key:7"), format!(":{}\r\n", value(7).len()));
    assert_eq!(scene.run("EXISTS key:7 key:8"), ":2\r\n");
    assert_eq!(scene.gathered(), gathered);
    // It is not kept: there is no room for what is in use.
    scene.wait("it is demoted again", |scene| scene.is_coded(leader, "key:3"));
    scene.wait_until_equal();
}

#[test]
fn what_changes_a_value_brings_it_back_everywhere() {
    let mut scene = coded();
    let length = value(3).len();
    assert_eq!(scene.run("APPEND key:3 more"), format!(":{}\r\n", length + 4));
    scene.wait_until_equal();
    assert_eq!(scene.run("GET key:3"), bulk(&format!("{}more", value(3))));
    assert_eq!(scene.run("SETRANGE key:4 0 xx"), format!(":{length}\r\n"));
    assert_eq!(scene.run("GETSET key:5 new"), bulk(&value(5)));
    assert_eq!(scene.run("GETDEL key:6"), bulk(&value(6)));
    assert_eq!(scene.run("RENAME key:7 name"), "+OK\r\n");
    assert_eq!(scene.run("APPEND name !"), format!(":{}\r\n", length + 1));
    assert_eq!(scene.run("EXPIRE key:8 1000"), ":1\r\n");
    assert_eq!(scene.run("APPEND key:8 !"), format!(":{}\r\n", length + 1));
    scene.wait_until_equal();
    let mut again = keys(0..3);
    again.extend(["key:3".to_owned(), "name".to_owned(), "key:8".to_owned()]);
    scene.wait_until_coded(&again);
    assert_eq!(scene.run("GET name"), bulk(&format!("{}!", value(7))));
    assert_eq!(scene.run("GETRANGE key:4 0 3"), "$4\r\nxx4:\r\n");
    scene.wait_until_equal();
}

/// It comes in pieces, and what it needs is known when all of them are applied.
#[test]
fn a_long_command_that_needs_a_value_brings_it_back() {
    let mut scene = coded();
    let mut length = value(3).len();
    // All pieces are on their way when the operation is to be carried out, or some.
    for piece_bytes in [400, 150, 40] {
        scene.wait_until_coded(&["key:3".to_owned()]);
        scene.client.set_piece_sizes(PieceSizes {
            long_bytes_min: 100,
            piece_bytes,
            ..PieceSizes::default()
        });
        scene.cut_off_followers(true);
        let asked = scene.ask(&format!("APPEND key:3 {}", "m".repeat(200)));
        for _ in 0..6 {
            scene.tick();
        }
        scene.cut_off_followers(false);
        scene.wait("it is answered", |scene| scene.told.contains_key(&asked));
        length += 200;
        assert_eq!(scene.told.remove(&asked), Some(format!(":{length}\r\n")));
    }
    assert_eq!(scene.run("GET key:3"), bulk(&(value(3) + &"m".repeat(600))));
    scene.wait_until_equal();
}

#[test]
fn commands_of_one_pipeline_keep_their_order_whatever_they_gather() {
    let mut scene = coded();
    let ok = "+OK\r\n".to_owned();
    assert_eq!(
        scene.pipeline(&["GET key:0", "SET key:0 new", "GET key:0"]),
        [bulk(&value(0)), ok.clone(), bulk("new")]
    );
    assert_eq!(
        scene.pipeline(&["SET key:1 new", "GET key:1", "APPEND key:2 x", "STRLEN key:2"]),
        [
            ok.clone(),
            bulk("new"),
            format!(":{}\r\n", value(2).len() + 1),
            format!(":{}\r\n", value(2).len() + 1)
        ]
    );
    assert_eq!(
        scene.pipeline(&[
            "RENAME key:3 name",
            "GETRANGE name 0 0",
            "GET key:3",
            "APPEND name x",
            "GET key:4",
            "DEL key:4",
            "GET key:4"
        ]),
        [
            ok,
            bulk("3"),
            "$-1\r\n".to_owned(),
            format!(":{}\r\n", value(3).len() + 1),
            bulk(&value(4)),
            ":1\r\n".to_owned(),
            "$-1\r\n".to_owned(),
        ]
    );
    // Each leaves in a batch of its own, and the one before is not answered yet.
    let mut asked = Vec::new();
    for line in [
        "GET key:5",
        "SET key:5 new",
        "GET key:5",
        "GET key:6",
        "APPEND key:6 x",
    ] {
        asked.push(scene.ask(line));
        scene.dispatch();
    }
    scene.wait("all are answered", |scene| {
        asked.iter().all(|number| scene.told.contains_key(number))
    });
    let told: Vec<String> = asked
        .iter()
        .map(|number| scene.told.remove(number).expect("it is told"))
        .collect();
    assert_eq!(
        told,
        [
            bulk(&value(5)),
            "+OK\r\n".to_owned(),
            bulk("new"),
            bulk(&value(6)),
            format!(":{}\r\n", value(6).len() + 1),
        ]
    );
    scene.wait_until_equal();
}

#[test]
fn while_a_holder_is_away_nothing_is_settled_and_writes_go_on() {
    let mut scene = coded();
    let away = scene.followers()[0];
    scene.seats.get_mut(&away).expect("it is a member").is_cut_off = true;
    scene.set(10..15);
    scene.pass(Duration::from_secs(4));
    let leader = scene.leader().expect("one leads");
    for key in keys(10..15) {
        assert!(!scene.is_coded(leader, &key));
    }
    assert_eq!(scene.run("GET key:3"), bulk(&value(3)), "two of three are enough");
    scene.seats.get_mut(&away).expect("it is a member").is_cut_off = false;
    scene.wait_until_coded(&keys(0..15));
    scene.wait_until_equal();
}

#[test]
fn who_leads_next_reads_everything() {
    let mut scene = coded();
    let before = scene.leader().expect("one leads");
    scene.down(before);
    scene.wait("another one leads", |scene| {
        scene.leader().is_some_and(|leader| leader != before)
    });
    for number in 0..10 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
    assert_eq!(
        scene.run("APPEND key:3 more"),
        format!(":{}\r\n", value(3).len() + 4)
    );
    scene.set(10..12);
    scene.wait_until_equal();
    assert_eq!(scene.run("GET key:11"), bulk(&value(11)));
}

/// A follower loses its memory, and another one comes in its place. Who went, and who came.
fn replaced(scene: &mut Scene) -> (Incarnation, Incarnation) {
    let lost = scene.followers()[0];
    scene.down(lost);
    scene.add(4, &[]);
    let stay = [1, 2, 3].into_iter().filter(|one| *one != lost.0);
    let target: Vec<u64> = stay.chain([4]).collect();
    scene.become_members(&target, |_| {});
    (lost, Incarnation(4))
}

#[test]
fn a_member_without_memory_is_replaced_and_the_new_one_has_its_rows_before_the_former_goes() {
    let mut scene = coded();
    let (lost, new) = replaced(&mut scene);
    let code = scene.at_leader().keyspace().code().expect("there is one").clone();
    assert!(code.row_of(new).is_some() && code.row_of(lost).is_none());
    let counts = scene.replica(new).coding_counts();
    assert_eq!(counts.recoded, 10, "as many as there are");
    let row = code.row_of(new).expect("it has one");
    for key in keys(0..10) {
        let Given::Fragment(bytes) = scene.given(new, &key) else {
            panic!("it has a row of {key}")
        };
        assert_eq!(bytes[0] & 15, row.number());
    }
    scene.set(10..12);
    scene.wait_until_coded(&keys(0..12));
    // It bears what it is there for.
    let leader = scene.leader().expect("one leads");
    scene.down(leader);
    scene.wait("another one leads", |scene| {
        scene.leader().is_some_and(|next| next != leader)
    });
    for number in 0..12 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
    scene.wait_until_equal();
}

#[test]
fn nobody_goes_before_somebody_else_has_his_row() {
    let mut scene = coded();
    let leaving = scene.followers()[0];
    // What it asks for gets lost.
    scene.on_the_way = Box::new(|_, to, sent| {
        if let Sent::Coding(CodingMessage::Answer { found, .. }) = sent
            && to == Incarnation(4)
        {
            found.clear();
        }
    });
    scene.add(4, &[]);
    let voters = [1, 2, 3];
    scene.wait("it leads", |scene| scene.leader().is_some());
    scene.change_members(&voters, &[4]);
    scene.pass(Duration::from_secs(1));
    let stay = voters.into_iter().filter(|one| *one != leaving.0);
    let target: Vec<u64> = stay.chain([4]).collect();
    scene.become_members_for(&target, Duration::from_secs(20));
    assert!(scene.has_voters(&voters), "a row of each value would be missing");
    let code = scene.at_leader().keyspace().code().expect("there is one");
    assert!(code.row_of(Incarnation(4)).is_some(), "it is to have them");
    scene.on_the_way = Box::new(|_, _, _| {});
    scene.become_members(&target, |_| {});
    assert_eq!(scene.replica(Incarnation(4)).coding_counts().recoded, 10);
    scene.wait_until_coded(&keys(0..10));
    scene.set(10..11);
    scene.wait_until_equal_among(&target);
}

/// It is taken out first, and another one comes later: the group keeps its fragments meanwhile, and nothing is gathered where it is led.
#[test]
fn a_lost_holder_may_be_taken_out_before_another_one_is_there() {
    let mut scene = coded();
    let lost = scene.followers()[0];
    scene.down(lost);
    let stay: Vec<u64> = [1, 2, 3].into_iter().filter(|one| *one != lost.0).collect();
    scene.become_members(&stay, |_| {});
    scene.pass(Duration::from_secs(20));
    assert_eq!(scene.gathered(), 0);
    let code = scene.at_leader().keyspace().code().expect("there is one").clone();
    assert!(code.is_on && code.holders.contains(&None), "{code:?}");
    scene.set(10..12);
    assert_eq!(scene.run("GET key:3"), bulk(&value(3)));
    scene.add(4, &[]);
    let target: Vec<u64> = stay.iter().copied().chain([4]).collect();
    scene.become_members(&target, |_| {});
    scene.wait_until_coded(&keys(0..12));
    // But for the one that was read, and came as a whole.
    assert_eq!(scene.replica(Incarnation(4)).coding_counts().recoded, 9);
    for number in 0..12 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
    scene.wait_until_equal_among(&target);
}

/// It was heard a moment before; and one of those that stay has not got its rows.
#[test]
fn a_lost_holder_stays_until_enough_others_have_their_rows_and_nothing_is_made_whole() {
    let mut scene = coded();
    let [lost, lacking] = scene.followers()[..] else {
        panic!("there are two")
    };
    scene.on_the_way = Box::new(move |from, _, sent| {
        if let Sent::Coding(CodingMessage::Holding(holding)) = sent
            && from == lacking
        {
            holding.epoch = None;
        }
    });
    scene.pass(Duration::from_secs(2));
    scene.down(lost);
    let stay: Vec<u64> = [1, 2, 3].into_iter().filter(|one| *one != lost.0).collect();
    scene.become_members_for(&stay, Duration::from_secs(8));
    assert!(
        scene.has_voters(&[1, 2, 3]),
        "there is one fragment of each value"
    );
    scene.on_the_way = Box::new(|_, _, _| {});
    scene.become_members(&stay, |_| {});
    let code = scene.at_leader().keyspace().code().expect("there is one");
    assert!(code.is_on, "{code:?}");
    assert_eq!(scene.gathered(), 0);
}

#[test]
fn a_learner_that_was_given_a_row_may_go_before_it_is_a_voter() {
    let mut scene = coded();
    let lost = scene.followers()[0];
    scene.down(lost);
    let stay: Vec<u64> = [1, 2, 3].into_iter().filter(|one| *one != lost.0).collect();
    scene.become_members(&stay, |_| {});
    scene.pass(Duration::from_secs(1));
    scene.add(4, &[]);
    scene.change_members(&stay, &[4]);
    scene.wait("it has a row", |scene| {
        let code = scene.at_leader().keyspace().code();
        code.is_some_and(|code| code.row_of(Incarnation(4)).is_some())
    });
    let learns = |scene: &Scene| {
        !scene
            .at_leader()
            .member()
            .expect("it leads")
            .members()
            .learners
            .is_empty()
    };
    while learns(&scene) {
        assert!(scene.ticks < 10_000, "it does not go");
        scene.become_members_for(&stay, Duration::from_millis(100));
    }
    for number in 0..10 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
    scene.wait_until_equal_among(&stay);
}

/// The group has grown, and was to have another code; but two holders of three are lost before values were whole, and no one can make them so.
#[test]
fn lost_holders_may_be_taken_out_of_a_group_that_cannot_be_made_whole() {
    let mut scene = coded();
    let lost = scene.followers();
    scene.on_the_way = Box::new(|_, _, sent| {
        if let Sent::Coding(CodingMessage::Answer { found, .. }) = sent {
            found.clear();
        }
    });
    scene.add(4, &[]);
    scene.add(5, &[]);
    scene.become_members(&[1, 2, 3, 4, 5], |_| {});
    scene.wait("values are to be whole", |scene| {
        let code = scene.at_leader().keyspace().code();
        code.is_some_and(|code| !code.is_on)
    });
    for member in &lost {
        scene.down(*member);
    }
    scene.pass(Duration::from_secs(1));
    let stay: Vec<u64> = (1..=5).filter(|member| *member != lost[0].0).collect();
    scene.become_members_for(&stay, Duration::from_secs(20));
    assert!(scene.has_voters(&[1, 2, 3, 4, 5]), "they may come back");
    scene.become_members(&stay, |_| {});
}

/// It was heard when it had not got to the code that there is, and never again.
#[test]
fn a_holder_that_is_lost_holds_nobody_up() {
    let mut scene = coded();
    let [lost, leaving] = scene.followers()[..] else {
        panic!("there are two")
    };
    scene.on_the_way = Box::new(move |from, _, sent| {
        if let Sent::Coding(CodingMessage::Holding(holding)) = sent
            && from == lost
        {
            holding.epoch = None;
        }
    });
    scene.add(4, &[]);
    let stay = [1, 2, 3].into_iter().filter(|one| *one != leaving.0);
    let target: Vec<u64> = stay.chain([4]).collect();
    scene.change_members(&[1, 2, 3], &[4]);
    scene.become_members_for(&target, Duration::from_secs(3));
    assert!(scene.has_voters(&[1, 2, 3]), "one that is heard lacks its row");
    scene.down(lost);
    scene.become_members(&target, |_| {});
    for number in 0..10 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
}

#[test]
fn a_group_that_ends_keeping_fragments_has_everything_as_a_whole() {
    let mut scene = coded();
    scene.set(10..12);
    scene.turn.coding = None;
    scene.wait("nothing is a fragment", |scene| {
        let members = scene.seats.keys();
        let is_whole = |member: &Incarnation| keys(0..12).iter().all(|key| !scene.is_coded(*member, key));
        let mut all = members.map(is_whole);
        all.all(|is_whole| is_whole)
    });
    scene.pass(Duration::from_secs(2));
    for key in keys(0..12) {
        assert!(scene.seats.keys().all(|member| !scene.is_coded(*member, &key)));
    }
    scene.wait_until_equal();
    assert!(!scene.at_leader().keyspace().code().expect("there was one").is_on);
    // And back.
    scene.turn.coding = Some(CodingRule {
        threshold: 64,
        hot_bytes: 0,
        delay: Duration::ZERO,
    });
    scene.set(12..13);
    scene.wait_until_coded(&keys(0..13));
    assert_eq!(scene.run("GET key:3"), bulk(&value(3)));
    scene.wait_until_equal();
}

#[test]
fn four_members_get_another_code_and_nothing_is_a_fragment_of_the_one_before() {
    let mut scene = coded();
    scene.add(4, &[]);
    let mut was_whole = false;
    let mut look = move |scene: &Scene| {
        let codes = scene
            .seats
            .values()
            .filter_map(|seat| seat.replica.keyspace().code());
        if codes.map(|code| code.holders.len()).any(|rows| rows == 4) {
            assert!(was_whole, "rows of two codes go with nothing");
        }
        was_whole |= scene
            .seats
            .keys()
            .filter(|member| member.0 != 4)
            .all(|member| keys(0..10).iter().all(|key| !scene.is_coded(*member, key)));
    };
    scene.become_members(&[1, 2, 3, 4], &mut look);
    for _ in 0..500 {
        scene.tick();
        look(&scene);
    }
    scene.set(10..11);
    scene.wait_until_coded(&keys(0..11));
    assert_eq!(
        scene
            .at_leader()
            .keyspace()
            .code()
            .expect("it has one")
            .holders
            .len(),
        4
    );
    for number in 0..11 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
    scene.wait_until_equal();
}

/// Damages the fragments that these members give.
fn damaging(members: Vec<Incarnation>) -> OnTheWay {
    Box::new(move |from, _, sent| {
        if let Sent::Coding(CodingMessage::Answer { found, .. }) = sent
            && members.contains(&from)
        {
            for found in found {
                if let Found::Fragment(bytes) = found {
                    let mut damaged = bytes.to_vec();
                    *damaged.last_mut().expect("it has a row") ^= 0x40;
                    *bytes = Bytes::from(damaged);
                }
            }
        }
    })
}

#[test]
fn one_fragment_that_is_damaged_is_found_and_the_value_is_right() {
    let mut scene = coded();
    // One of them is asked first; if it gives what is wrong, the other one is asked as well.
    for (at, follower) in scene.followers().into_iter().enumerate() {
        scene.on_the_way = damaging(vec![follower]);
        assert_eq!(scene.run(&format!("GET key:{at}")), bulk(&value(at as u64)));
    }
    let counts = scene.at_leader().coding_counts();
    assert_eq!((counts.damaged, counts.lacking), (1, 0), "it is counted");
    scene.on_the_way = Box::new(|_, _, _| {});
    scene.wait("whoever gave it has made it anew", |scene| {
        let recoded = scene.followers().into_iter();
        recoded
            .map(|one| scene.replica(one).coding_counts().recoded)
            .sum::<u64>()
            == 1
    });
    assert_eq!(
        scene.run("APPEND key:5 x"),
        format!(":{}\r\n", value(5).len() + 1)
    );
    scene.wait_until_equal();
}

#[test]
fn a_value_of_which_two_of_three_fragments_are_damaged_is_an_error_and_not_another_value() {
    let mut scene = coded();
    scene.on_the_way = damaging(scene.followers());
    let reply = scene.run("GET key:3");
    assert!(reply.starts_with('-'), "{reply}");
    assert!(!reply.contains("nil"), "{reply}");
    assert_eq!(scene.run("STRLEN key:3"), format!(":{}\r\n", value(3).len()));
    let reply = scene.run("APPEND key:3 x");
    assert!(reply.starts_with('-'), "{reply}");
    let counts = scene.at_leader().coding_counts();
    assert!(counts.lacking >= 1);
    // All else goes on, and the key can be written.
    assert_eq!(scene.run("SET other v"), "+OK\r\n");
    assert_eq!(scene.run("SET key:3 new"), "+OK\r\n");
    assert_eq!(scene.run("GET key:3"), bulk("new"));
    scene.wait_until_equal();
}

#[test]
fn an_own_fragment_that_is_damaged_is_found_counted_and_made_anew() {
    let mut scene = coded();
    let key = b"key:7";
    // What the learner is sent of this one value is wrong.
    scene.on_the_way = Box::new(move |_, to, sent| {
        if let Sent::Chunk(chunk) = sent
            && to == Incarnation(4)
        {
            let at = chunk.bytes.windows(key.len()).position(|bytes| bytes == key);
            if let Some(at) = at {
                // Somewhere in the row, behind what stands before it.
                chunk.bytes[at + 60] ^= 2;
            }
        }
    });
    let (_, new) = replaced(&mut scene);
    let counts = scene.replica(new).coding_counts();
    assert_eq!((counts.recoded, counts.damaged), (10, 1));
    let leader = scene.leader().expect("one leads");
    let others = scene.followers();
    scene.on_the_way = Box::new(|_, _, _| {});
    scene.down(leader);
    scene.wait("another one leads", |scene| {
        scene.leader().is_some_and(|next| next != leader)
    });
    assert!(others.contains(&new));
    assert_eq!(scene.run("GET key:7"), bulk(&value(7)));
}

#[test]
fn what_is_in_use_stays_whole_at_who_leads() {
    let rule = CodingRule {
        threshold: 64,
        hot_bytes: 100 * LONG,
        delay: Duration::ZERO,
    };
    let mut scene = Scene::with(&[1, 2, 3], Some(rule));
    scene.set(0..10);
    scene.wait("followers have fragments", |scene| {
        let followers = scene.followers();
        followers
            .iter()
            .all(|member| keys(0..10).iter().all(|key| scene.is_coded(*member, key)))
    });
    scene.pass(Duration::from_secs(1));
    let gathered = scene.gathered();
    for number in 0..10 {
        assert_eq!(scene.run(&format!("GET key:{number}")), bulk(&value(number)));
    }
    assert_eq!(scene.gathered(), gathered, "all of it is here");
    scene.wait_until_equal();
}

/// At each moment of the way of a value from being written to being demoted: a batch that reads it and overwrites it is a while on its way.
#[test]
fn what_a_batch_on_its_way_relies_on_is_not_demoted() {
    let mut scene = Scene::new();
    for moment in 0..30 {
        let key = format!("key:{moment}");
        scene.set(moment..moment + 1);
        for _ in 0..moment {
            scene.tick();
        }
        scene.cut_off_followers(true);
        let asked = [format!("GET {key}"), format!("SET {key} new")].map(|line| scene.ask(&line));
        for _ in 0..6 {
            scene.tick();
        }
        scene.cut_off_followers(false);
        scene.wait("both are answered", |scene| {
            asked.iter().all(|number| scene.told.contains_key(number))
        });
        let told = asked.map(|number| scene.told.remove(&number).expect("it is told"));
        assert_eq!(told, [bulk(&value(moment)), "+OK\r\n".to_owned()], "{moment}");
    }
    scene.wait_until_equal();
}

/// The others tell of one value at a time, and of each only when the one before could be demoted again.
#[test]
fn a_read_of_two_values_is_answered_though_one_is_gathered_long_after_the_other() {
    let mut scene = coded();
    let long = value(50).repeat(3);
    assert_eq!(scene.run(&format!("SET long {long}")), "+OK\r\n");
    scene.wait_until_coded(&["long".to_owned()]);
    let is_long_told = Rc::new(Cell::new(false));
    let told = is_long_told.clone();
    scene.on_the_way = Box::new(move |_, _, sent| {
        if let Sent::Coding(CodingMessage::Answer { found, .. }) = sent {
            for found in found {
                if let Found::Fragment(bytes) = found
                    && (bytes.len() > LONG) != told.get()
                {
                    *found = Found::Older;
                }
            }
        }
    });
    let asked = scene.ask("MGET long key:3");
    for _ in 0..10 {
        scene.pass(Duration::from_millis(1_300));
        is_long_told.set(!is_long_told.get());
    }
    let reply = scene.told.remove(&asked).expect("it is answered");
    assert_eq!(reply, format!("*2\r\n{}{}", bulk(&long), bulk(&value(3))));
}

/// Some members are out of reach for longer than anybody waits.
#[test]
fn a_value_that_was_out_of_reach_is_read_when_it_is_not_any_more() {
    let mut scene = coded();
    // They are heard, and say nothing of fragments.
    scene.on_the_way = Box::new(|_, _, sent| {
        if let Sent::Coding(CodingMessage::Answer { found, .. }) = sent {
            found.clear();
        }
    });
    for line in ["GET key:3", "APPEND key:3 x"] {
        let reply = scene.run(line);
        assert!(
            reply.starts_with("-TRYAGAIN a value of this command is in fragments"),
            "{reply}"
        );
    }
    // Nothing of it is lost, so the group is not whole.
    scene.turn.coding = None;
    scene.pass(Duration::from_secs(20));
    assert!(keys(0..10).iter().any(|key| {
        let leader = scene.leader().expect("one leads");
        scene.is_coded(leader, key)
    }));
    scene.become_members_for(&[1, 2], Duration::from_secs(5));
    assert!(scene.has_voters(&[1, 2, 3]), "nobody leaves before that");
    scene.on_the_way = Box::new(|_, _, _| {});
    scene.pass(Duration::from_secs(6));
    assert_eq!(scene.run("GET key:3"), bulk(&value(3)));
    scene.wait("all is whole", |scene| {
        let mut members = scene.seats.keys();
        members.all(|member| keys(0..10).iter().all(|key| !scene.is_coded(*member, key)))
    });
    scene.wait_until_equal();
}

#[test]
fn every_mistake_of_members_with_fragments_is_noticed() {
    let scenes: &[(Mutation, fn())] = &[
        (
            Mutation::DemotedAtMajority,
            while_a_holder_is_away_nothing_is_settled_and_writes_go_on,
        ),
        (
            Mutation::RefillLeftOut,
            what_changes_a_value_brings_it_back_everywhere,
        ),
        (
            Mutation::HolderLeavesEarly,
            a_member_without_memory_is_replaced_and_the_new_one_has_its_rows_before_the_former_goes,
        ),
        (
            Mutation::LostHolderLeaves,
            a_lost_holder_stays_until_enough_others_have_their_rows_and_nothing_is_made_whole,
        ),
        (
            Mutation::PiecesNotAwaited,
            a_long_command_that_needs_a_value_brings_it_back,
        ),
        (Mutation::RowInEarly, nobody_goes_before_somebody_else_has_his_row),
        (
            Mutation::NeededGoes,
            a_read_of_two_values_is_answered_though_one_is_gathered_long_after_the_other,
        ),
        (
            Mutation::CondemnedGoes,
            what_a_batch_on_its_way_relies_on_is_not_demoted,
        ),
        (
            Mutation::CodeChangedEarly,
            four_members_get_another_code_and_nothing_is_a_fragment_of_the_one_before,
        ),
    ];
    for (mutation, scene) in scenes {
        mutations::plant(Some(*mutation));
        let noticed = std::panic::catch_unwind(scene).is_err();
        mutations::plant(None);
        assert!(noticed, "{mutation:?}");
    }
}
