//! Nodes with empty directories, links and processes that break at any moment: never two clusters, and one in the end.

use control::{FOUNDING_LINKS_MAX, Founding, FoundingEnd, FoundingMessage, FoundingNode};
use ids::{FoundingId, Prng};
use mutations::Mutation;
use std::collections::{BTreeMap, VecDeque};

/// A link, and which of its two ends: 0 dialled.
type End = (u32, usize);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Directory {
    Empty,
    /// Of a node of this cluster.
    Member(u32),
}

enum Process {
    Founding(Founding<End>),
    /// It was told to create, and nothing of that is written yet.
    Creating,
    /// It knows that there is a cluster.
    Joining,
    Member,
}

struct Machine {
    directory: Directory,
    process: Option<Process>,
    /// The machines that its option names.
    addresses: Vec<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Introducing,
    Up,
    Down,
}

struct Link {
    machines: [usize; 2],
    nodes: [FoundingNode; 2],
    sides: [Side; 2],
    inboxes: [VecDeque<FoundingMessage>; 2],
    is_broken: bool,
}

/// What cannot be.
type Broken = String;

/// What may happen, and how often most of the time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Crash,
    Lose,
    Start,
    Dial,
    Write,
    Break,
    Notice,
    Rise,
    Deliver,
}

const EVENTS: [(Event, u64); 9] = [
    (Event::Crash, 3),
    (Event::Lose, 1),
    (Event::Start, 16),
    (Event::Dial, 25),
    (Event::Write, 5),
    (Event::Break, 2),
    (Event::Notice, 8),
    (Event::Rise, 15),
    (Event::Deliver, 25),
];

struct World {
    prng: Prng,
    weights: [(Event, u64); 9],
    expects: u16,
    machines: Vec<Machine>,
    links: BTreeMap<u32, Link>,
    next_link: u32,
    clusters: u32,
    trace: Vec<String>,
}

impl World {
    fn new(seed: u64, expects: u16, lists: &[Vec<u16>]) -> World {
        let machine = |addresses: &Vec<u16>| Machine {
            directory: Directory::Empty,
            process: None,
            addresses: addresses.clone(),
        };
        let mut prng = Prng::new(seed);
        // What is rare in one run is frequent in another.
        let weights = EVENTS.map(|(event, weight)| (event, weight << prng.below(5)));
        World {
            prng,
            weights,
            expects,
            machines: lists.iter().map(machine).collect(),
            links: BTreeMap::new(),
            next_link: 0,
            clusters: 0,
            trace: Vec::new(),
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        self.trace.push(what());
    }

    fn founding(&mut self, machine: usize) -> Option<&mut Founding<End>> {
        match &mut self.machines[machine].process {
            Some(Process::Founding(founding)) => Some(founding),
            _ => None,
        }
    }

    fn start(&mut self, machine: usize) {
        if self.machines[machine].process.is_some() {
            return;
        }
        self.note(|| format!("{machine} starts"));
        let process = match self.machines[machine].directory {
            Directory::Member(_) => Process::Member,
            Directory::Empty => {
                let id = FoundingId(self.prng.next_u64().into());
                let mut founding = Founding::new(FoundingNode {
                    id,
                    expects: self.expects,
                });
                founding.on_addresses(Some(self.machines[machine].addresses.iter().copied().collect()));
                Process::Founding(founding)
            }
        };
        self.machines[machine].process = Some(process);
        self.settle(machine);
    }

    fn crash(&mut self, machine: usize) {
        if self.machines[machine].process.take().is_some() {
            self.note(|| format!("{machine} crashes"));
            self.leave(machine);
        }
    }

    /// Its process has no links any more; the other ends do not know yet.
    fn leave(&mut self, machine: usize) {
        for link in self.links.values_mut() {
            for side in 0..2 {
                if link.machines[side] == machine {
                    link.sides[side] = Side::Down;
                    link.is_broken = true;
                }
            }
        }
        self.links.retain(|_, link| link.sides != [Side::Down; 2]);
    }

    /// Lets a node say what it has to say, and follows what becomes of it.
    fn settle(&mut self, machine: usize) {
        let Some(founding) = self.founding(machine) else {
            return;
        };
        let mut said = Vec::new();
        let end = founding.step(&mut |link, message| said.push((link, message)));
        for ((link, side), message) in said {
            self.note(|| format!("{machine} says {message:?} on {link}"));
            let link = self.links.get_mut(&link).expect("it is up here");
            if !link.is_broken {
                link.inboxes[1 - side].push_back(message);
            }
        }
        let Some(end) = end else { return };
        self.note(|| format!("{machine}: {end:?}"));
        self.machines[machine].process = Some(match end {
            FoundingEnd::Create => Process::Creating,
            FoundingEnd::Join => Process::Joining,
        });
        self.leave(machine);
    }

    /// What a node that creates, or joins, has come to is on its disk.
    fn write(&mut self, machine: usize) -> Result<(), Broken> {
        let held = |machine: &Machine| match machine.directory {
            Directory::Member(cluster) => Some(cluster),
            Directory::Empty => None,
        };
        let written = match self.machines[machine].process {
            Some(Process::Creating) => {
                if self.machines.iter().any(|machine| held(machine).is_some()) {
                    return Err(format!("{machine} makes a second cluster"));
                }
                self.clusters += 1;
                self.clusters
            }
            Some(Process::Joining) => {
                let mut members = self.machines.iter();
                let is_up = |machine: &&Machine| matches!(machine.process, Some(Process::Member));
                match members.find(is_up).and_then(held) {
                    Some(cluster) => cluster,
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        self.note(|| format!("{machine} is of cluster {written}"));
        self.machines[machine].directory = Directory::Member(written);
        self.machines[machine].process = Some(Process::Member);
        Ok(())
    }

    /// A machine that is down loses its disk.
    fn lose(&mut self, machine: usize) {
        let machines = self.machines.len();
        let lost = &mut self.machines[machine];
        // Where not all are named, those that are would wait for the others, which have a cluster.
        let is_found = lost.addresses.len() == machines;
        if is_found && lost.process.is_none() && lost.directory != Directory::Empty {
            lost.directory = Directory::Empty;
            self.note(|| format!("{machine} loses its directory"));
        }
    }

    fn dial(&mut self, machine: usize, address: u16) {
        let to = usize::from(address);
        let mut links = self.links.values();
        let is_dialled = links.any(|link| link.machines == [machine, to] && link.sides[0] != Side::Down);
        if is_dialled || !self.machines[machine].addresses.contains(&address) {
            return;
        }
        let Some(Process::Founding(caller)) = &self.machines[machine].process else {
            return;
        };
        let caller = caller.own();
        match &self.machines[to].process {
            Some(Process::Member) => {
                self.founding(machine).expect("it was looked at").on_cluster();
                self.settle(machine);
            }
            Some(Process::Founding(answerer)) => {
                let number = self.next_link;
                self.next_link += 1;
                let link = Link {
                    machines: [machine, to],
                    nodes: [caller, answerer.own()],
                    sides: [Side::Introducing, Side::Up],
                    inboxes: Default::default(),
                    is_broken: false,
                };
                self.note(|| format!("{machine} dials {to}: {number}"));
                self.links.insert(number, link);
                let answerer = self.founding(to).expect("it was looked at");
                assert!(answerer.on_link_up((number, 1), None, caller));
                self.settle(to);
            }
            Some(Process::Creating | Process::Joining) | None => {}
        }
    }

    /// Whoever dialled hears the verdict.
    fn rise(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        if link.sides[0] == Side::Introducing && !link.is_broken {
            link.sides[0] = Side::Up;
            let ([machine, to], peer) = (link.machines, link.nodes[1]);
            self.note(|| format!("{number} is up at {machine}"));
            let founding = self.founding(machine).expect("else the link were broken");
            assert!(founding.on_link_up((number, 0), Some(to as u16), peer));
            self.settle(machine);
        }
    }

    fn deliver(&mut self, (number, side): End) {
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        if link.sides[side] == Side::Up
            && let Some(message) = link.inboxes[side].pop_front()
        {
            let machine = link.machines[side];
            let founding = self.founding(machine).expect("else this end were down");
            founding.on_message((number, side), message);
            self.settle(machine);
        }
    }

    /// An end hears that its link is broken.
    fn notice(&mut self, (number, side): End) {
        let Some(link) = self.links.get_mut(&number).filter(|link| link.is_broken) else {
            return;
        };
        let was = std::mem::replace(&mut link.sides[side], Side::Down);
        let machine = link.machines[side];
        if link.sides == [Side::Down; 2] {
            self.links.remove(&number);
        }
        if was == Side::Up {
            self.note(|| format!("{machine} hears that {number} is down"));
            let founding = self.founding(machine).expect("else this end were down");
            founding.on_link_down((number, side));
            self.settle(machine);
        }
    }

    fn any_link(&mut self) -> Option<u32> {
        let count = self.links.len() as u64;
        let at = (count > 0).then(|| self.prng.below(count) as usize)?;
        self.links.keys().nth(at).copied()
    }

    /// Something happens.
    fn happen(&mut self) -> Result<(), Broken> {
        let machine = self.prng.below(self.machines.len() as u64) as usize;
        let side = self.prng.below(2) as usize;
        let mut at = self
            .prng
            .below(self.weights.iter().map(|(_, weight)| weight).sum());
        let chosen = self.weights.iter().find(|(_, weight)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        let (event, _) = *chosen.expect("it is below the sum");
        match (event, self.any_link()) {
            (Event::Crash, _) => self.crash(machine),
            (Event::Lose, _) => self.lose(machine),
            (Event::Start, _) => self.start(machine),
            (Event::Dial, _) => {
                let address = self.prng.below(self.machines.len() as u64) as u16;
                self.dial(machine, address);
            }
            (Event::Write, _) => self.write(machine)?,
            (Event::Break, Some(link)) => {
                self.links.get_mut(&link).expect("it is there").is_broken = true;
            }
            (Event::Notice, Some(link)) => self.notice((link, side)),
            (Event::Rise, Some(link)) => self.rise(link),
            (Event::Deliver, Some(link)) => self.deliver((link, side)),
            (Event::Break | Event::Notice | Event::Rise | Event::Deliver, None) => {}
        }
        Ok(())
    }

    /// From here on nothing fails, and whatever is to happen does. Who waits for a cluster whose last directory was lost is started
    /// again by somebody.
    fn heal(&mut self) -> Result<(), Broken> {
        let is_lost = self
            .machines
            .iter()
            .all(|machine| machine.directory == Directory::Empty);
        for machine in 0..self.machines.len() {
            let is_joining = matches!(self.machines[machine].process, Some(Process::Joining));
            if is_lost && is_joining {
                self.crash(machine);
            }
        }
        for _ in 0..40 {
            for machine in 0..self.machines.len() {
                self.start(machine);
                self.write(machine)?;
                for address in self.machines[machine].addresses.clone() {
                    self.dial(machine, address);
                }
            }
            for link in self.links.keys().copied().collect::<Vec<_>>() {
                self.rise(link);
                for side in 0..2 {
                    self.notice((link, side));
                    for _ in 0..4 {
                        self.deliver((link, side));
                    }
                }
            }
        }
        let all: Vec<Directory> = self.machines.iter().map(|machine| machine.directory).collect();
        let is_one = matches!(all[0], Directory::Member(_)) && all.iter().all(|one| *one == all[0]);
        match is_one {
            true => Ok(()),
            false => Err(format!("they are of {all:?} in the end")),
        }
    }
}

/// Each of so many machines names all of them.
fn all_named(machines: u16) -> Vec<Vec<u16>> {
    vec![(0..machines).collect(); machines.into()]
}

/// The steps of a run that went wrong, and how.
fn run(seed: u64, expects: u16, lists: &[Vec<u16>], is_healed: bool) -> Result<(), String> {
    let mut world = World::new(seed, expects, lists);
    let steps = 50 + world.prng.below(400);
    let mut result = (0..steps).try_for_each(|_| world.happen());
    if is_healed {
        result = result.and_then(|()| world.heal());
    }
    result.map_err(|broken| format!("seed {seed}: {broken}\n{}", world.trace.join("\n")))
}

const SEEDS: u64 = 8_000;

fn holds(expects: u16, lists: &[Vec<u16>]) {
    for seed in 0..SEEDS {
        run(seed, expects, lists, true).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn of_two_three_and_four_nodes_one_creates_whatever_breaks() {
    for nodes in 1..=4 {
        holds(nodes, &all_named(nodes));
    }
}

#[test]
fn one_creates_where_all_name_one_of_them() {
    holds(3, &vec![vec![0]; 3]);
    holds(3, &vec![vec![0, 1]; 3]);
}

#[test]
fn one_creates_where_there_are_more_nodes_than_are_expected() {
    holds(2, &all_named(4));
    // Two of them are not named.
    holds(3, &vec![vec![0, 1]; 4]);
}

#[test]
fn as_many_nodes_as_are_expected_never_make_two_whatever_each_knows_of_the_others() {
    for seed in 0..SEEDS {
        let mut prng = Prng::new(seed);
        let nodes = 2 + prng.below(3) as u16;
        let mut lists = all_named(nodes);
        lists
            .iter_mut()
            .for_each(|list| list.retain(|_| prng.below(3) > 0));
        run(seed, nodes, &lists, false).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn a_node_that_creates_on_its_own_count_is_noticed() {
    mutations::plant(Some(Mutation::TwoCreators));
    let caught = (0..SEEDS).find_map(|seed| run(seed, 3, &all_named(3), true).err());
    mutations::plant(None);
    let caught = caught.expect("somebody notices");
    assert!(caught.contains("makes a second cluster"), "{caught}");
}

fn of(id: u128, expects: u16) -> FoundingNode {
    let id = FoundingId(id);
    FoundingNode { id, expects }
}

fn asks(founding: &mut Founding<u8>) -> (Vec<(u8, FoundingMessage)>, Option<FoundingEnd>) {
    let mut said = Vec::new();
    let end = founding.step(&mut |link, message| said.push((link, message)));
    (said, end)
}

/// Node 1, to which address 0 leads, and node 2 at address 1.
fn pair(expects: u16) -> Founding<u8> {
    let mut founding = Founding::new(of(1, 2));
    founding.on_addresses(Some([0, 1].into()));
    assert!(founding.on_link_up(10, Some(0), of(1, 2)));
    assert!(founding.on_link_up(11, None, of(1, 2)));
    assert_eq!(asks(&mut founding), (vec![], None));
    assert_eq!(founding.unanswered().collect::<Vec<_>>(), [1]);
    assert!(founding.on_link_up(12, Some(1), of(2, expects)));
    founding
}

#[test]
fn the_smallest_asks_and_creates_when_all_have_promised() {
    let mut founding = pair(2);
    let (said, end) = asks(&mut founding);
    let [(12, FoundingMessage::Ask { round })] = said[..] else {
        panic!("it asks the other, and not itself: {said:?}");
    };
    assert_eq!(end, None);
    founding.on_message(12, FoundingMessage::Promise { round: round - 1 });
    assert_eq!(asks(&mut founding), (vec![], None), "of an earlier round");
    founding.on_message(12, FoundingMessage::Promise { round });
    assert_eq!(asks(&mut founding), (vec![], Some(FoundingEnd::Create)));
}

#[test]
fn a_promise_is_void_when_a_link_comes_or_goes() {
    let mut founding = pair(2);
    let (said, _) = asks(&mut founding);
    let (_, FoundingMessage::Ask { round }) = said[0] else {
        panic!("it asks: {said:?}");
    };
    founding.on_message(12, FoundingMessage::Promise { round });
    assert!(founding.on_link_up(13, None, of(3, 2)));
    let (said, end) = asks(&mut founding);
    assert_eq!((said.len(), end), (2, None), "both are asked anew");
    founding.on_link_down(12);
    assert_eq!(
        asks(&mut founding),
        (vec![], None),
        "nobody answers at an address"
    );
    founding.on_cluster();
    assert_eq!(asks(&mut founding), (vec![], Some(FoundingEnd::Join)));
}

#[test]
fn nobody_creates_beside_a_node_that_expects_another_number() {
    let mut founding = pair(3);
    assert_eq!(asks(&mut founding), (vec![], None));
    assert_eq!(founding.other_numbers().collect::<Vec<_>>(), [(12, 3)]);
}

#[test]
fn who_is_not_behind_an_address_never_creates() {
    let mut founding = Founding::new(of(1, 2));
    founding.on_addresses(Some([1].into()));
    assert!(founding.on_link_up(12_u8, Some(1), of(2, 2)));
    founding.on_message(12, FoundingMessage::Ask { round: 7 });
    let promise = (12, FoundingMessage::Promise { round: 7 });
    assert_eq!(asks(&mut founding), (vec![promise], None));
    assert!(!founding.is_named());
}

#[test]
fn nothing_is_promised_while_an_address_does_not_answer() {
    let mut founding = Founding::new(of(2, 2));
    assert!(founding.on_link_up(12_u8, Some(1), of(1, 2)));
    founding.on_message(12, FoundingMessage::Ask { round: 7 });
    assert_eq!(asks(&mut founding), (vec![], None), "no name leads anywhere yet");
    founding.on_addresses(Some([0, 1].into()));
    assert_eq!(asks(&mut founding), (vec![], None));
    assert!(founding.on_link_up(13, Some(0), of(2, 2)));
    let promise = (12, FoundingMessage::Promise { round: 7 });
    assert_eq!(asks(&mut founding), (vec![promise], None));
    assert_eq!(asks(&mut founding), (vec![], None), "once");
}

#[test]
fn strangers_find_no_room_without_end() {
    let mut founding = Founding::new(of(1, 2));
    for stranger in 0..FOUNDING_LINKS_MAX {
        assert!(founding.on_link_up(stranger, None, of(2 + stranger as u128, 2)));
    }
    assert!(!founding.on_link_up(FOUNDING_LINKS_MAX, None, of(1, 2)));
    assert!(
        founding.on_link_up(FOUNDING_LINKS_MAX, Some(0), of(1, 2)),
        "they keep nobody out whom it dials"
    );
    founding.check();
}

#[test]
fn messages_are_what_was_said_and_nothing_else() {
    for message in [
        FoundingMessage::Ask { round: 0x0102 },
        FoundingMessage::Promise { round: u64::MAX },
    ] {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(FoundingMessage::decode(&bytes), Ok(message));
        bytes.push(0);
        assert!(FoundingMessage::decode(&bytes).is_err());
    }
    assert!(FoundingMessage::decode(&[3, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    assert!(FoundingMessage::decode(&[1, 0]).is_err());
}
