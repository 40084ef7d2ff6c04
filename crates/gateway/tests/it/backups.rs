//! What replicas copy up to a mark is the state of one instant, in all groups together.

use crate::cluster::{replicated, spread};
use crate::world::World;
use control::{GroupRef, Order};
use gateway::PieceContent;
use ids::{GroupId, Incarnation, Prng};
use keyspace::{ChunkRecord, read_records};
use mutations::Mutation;
use std::collections::BTreeMap;

const GROUPS: u16 = 4;
const ACCOUNTS: u64 = 8;
/// What each account has in the beginning.
const BALANCE: i64 = 100;
const BACKUP: u64 = 5;

/// Of a group, by partition and hash, keys and values.
type Copy = BTreeMap<(u16, u64), Vec<(String, String)>>;

/// A backup under way: where each group is copied, and what has come of it.
struct Backup {
    places: BTreeMap<GroupId, usize>,
    copies: BTreeMap<GroupId, Copy>,
    ready: usize,
    ended: usize,
}

impl Backup {
    fn begin(world: &mut World, prng: &mut Prng, nodes: u64) -> Backup {
        let places: BTreeMap<GroupId, usize> = (0..GROUPS)
            .map(|group| (GroupId::new(group), prng.below(nodes) as usize))
            .collect();
        for (node, of_node) in world.nodes.iter_mut().enumerate() {
            let groups: Vec<GroupId> = places
                .iter()
                .filter(|(_, place)| **place == node)
                .map(|(group, _)| *group)
                .collect();
            of_node.gateway.begin_backup(BACKUP, &groups);
        }
        Backup {
            places,
            copies: BTreeMap::new(),
            ready: 0,
            ended: 0,
        }
    }

    /// Takes what the nodes have.
    fn take(&mut self, world: &mut World) {
        for (number, node) in world.nodes.iter_mut().enumerate() {
            for piece in node.gateway.take_backup_pieces() {
                assert_eq!((piece.backup, self.places[&piece.group]), (BACKUP, number));
                let copy = self.copies.entry(piece.group).or_default();
                match piece.content {
                    PieceContent::Chunk(chunk) => {
                        add(copy, &chunk);
                        node.gateway.on_backup_taken(BACKUP, piece.group);
                    }
                    PieceContent::Ready => self.ready += 1,
                    PieceContent::Last(chunk) => {
                        add(copy, &chunk);
                        self.ended += 1;
                    }
                    PieceContent::Lost(why) => panic!("{why}"),
                }
            }
        }
    }

    /// What all accounts have together.
    fn sum(&self) -> i64 {
        let all = self.copies.values().flat_map(BTreeMap::values).flatten();
        let accounts = all.filter(|(key, _)| key.starts_with("account:"));
        accounts
            .map(|(_, value)| value.parse::<i64>().expect("a balance"))
            .sum()
    }
}

fn add(copy: &mut Copy, chunk: &[u8]) {
    let read = read_records(chunk, |record| {
        match record {
            ChunkRecord::Cleared(place) => drop(copy.remove(&(place.partition.number(), place.hash))),
            ChunkRecord::Object { place, head, value } => {
                let key = codec::Reader::new(head).bytes()?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let objects = copy.entry((place.partition.number(), place.hash)).or_default();
                objects.push((text(key), text(value)));
            }
            _ => {}
        }
        Ok::<(), codec::DecodeError>(())
    });
    read.expect("it is a chunk of objects");
}

/// Transfers between accounts of all groups, by clients of all nodes, with a backup among them. What the accounts have together in
/// it.
fn sum_in_backup(mut world: World, nodes: u64, seed: u64) -> i64 {
    let mut prng = Prng::new(seed);
    for account in 0..ACCOUNTS {
        assert_eq!(
            world.run(0, 1, &format!("SET account:{account} {BALANCE}")),
            "+OK"
        );
    }
    let transfer = |world: &mut World, prng: &mut Prng| {
        let node = prng.below(nodes) as usize;
        let client = 10 + prng.below(6);
        world.nodes[node].take_reply(client);
        let (from, to) = (prng.below(ACCOUNTS), prng.below(ACCOUNTS));
        let line = match prng.below(3) {
            0 => format!("XFER account:{from} account:{to} {}", prng.below(20)),
            1 => format!(
                "SET other:{} {}",
                prng.below(50),
                "x".repeat(prng.below(300) as usize)
            ),
            _ => "GET account:1".to_owned(),
        };
        world.send(node, client, &line);
    };
    (0..prng.below(40)).for_each(|_| transfer(&mut world, &mut prng));
    // Ends of transactions wait for up to a millisecond for something to go with, and links are not equally fast.
    world.pace /= 10;
    world.delays = Some(Prng::new(seed));
    let mut backup = Backup::begin(&mut world, &mut prng, nodes);
    let mut turns = 0;
    while backup.ready < usize::from(GROUPS) {
        transfer(&mut world, &mut prng);
        world.turn();
        backup.take(&mut world);
        turns += 1;
        assert!(turns < 5_000, "seed {seed}: the copies do not become ready");
    }
    for _ in 0..prng.below(100) {
        transfer(&mut world, &mut prng);
        world.turn();
        backup.take(&mut world);
    }
    let node = prng.below(nodes) as usize;
    world.send(node, 99, &format!("BACKUP MARK {BACKUP}"));
    let mut reply = String::new();
    while reply.is_empty() || backup.ended < usize::from(GROUPS) {
        transfer(&mut world, &mut prng);
        world.turn();
        backup.take(&mut world);
        reply.push_str(&world.nodes[node].take_reply(99));
        turns += 1;
        assert!(
            turns < 10_000,
            "seed {seed}: {reply}, and {} groups have passed",
            backup.ended
        );
    }
    assert_eq!(reply, "+OK", "seed {seed}");
    backup.sum()
}

/// Three nodes, of which each leads some of the groups.
fn led_everywhere() -> World {
    let mut world = replicated(GROUPS);
    for number in 1..GROUPS {
        let group = GroupId::new(number);
        let to = Incarnation(1_000 + 2 * u64::from(number) + u64::from(number % 2));
        let (reports, _) = world.nodes[0].gateway.group_reports();
        let mut reports = reports.into_iter().map(|report| report.report);
        let report = reports.find(|report| report.group == GroupRef::Data(group));
        let index = report.expect("the first node leads it").index;
        world.nodes[0]
            .gateway
            .on_order(group, index, &Order::Transfer { to });
        world.turns(100);
    }
    world
}

const TOTAL: i64 = ACCOUNTS as i64 * BALANCE;

#[test]
fn a_transaction_is_in_a_backup_whole_or_not_at_all() {
    for seed in 0..30 {
        assert_eq!(sum_in_backup(led_everywhere(), 3, seed), TOTAL, "seed {seed}");
    }
}

#[test]
fn so_it_is_where_a_node_has_all_groups_alone() {
    for seed in 0..30 {
        assert_eq!(sum_in_backup(spread(1, GROUPS), 1, seed), TOTAL, "seed {seed}");
    }
}

#[test]
fn a_mark_that_holds_no_group_is_noticed() {
    mutations::plant(Some(Mutation::WholeNotLocked));
    let torn = (0..30).find(|seed| sum_in_backup(led_everywhere(), 3, *seed) != TOTAL);
    mutations::plant(None);
    assert!(torn.is_some(), "transactions must be seen to be torn");
}
