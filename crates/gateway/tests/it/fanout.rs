//! Commands that concern every node.

use crate::cluster::replicated;
use crate::world::{DURABILITY, World};
use gateway::{Layout, SaveTask};
use ids::{DurabilityMode, GroupId, NodeId};
use options::DurabilityChoice;

/// Three nodes that know each other; all groups are on the first.
fn three() -> World {
    let mut world = World::new(3, 4);
    world.lay_out(|_| {});
    world.turns(100);
    world
}

/// The id of a client.
fn id(world: &mut World, node: usize, client: u64) -> u64 {
    let reply = world.run(node, client, "CLIENT ID");
    reply[1..].parse().expect("a number")
}

#[test]
fn a_message_counts_its_receivers_on_all_nodes() {
    let mut world = three();
    assert_eq!(world.run(1, 1, "PUBLISH news x"), ":0");
    for node in 0..3 {
        world.run(node, 10, "SUBSCRIBE news");
    }
    world.run(2, 11, "PSUBSCRIBE n*");
    world.run(1, 11, "PSUBSCRIBE n* x*");
    world.run(1, 12, "SSUBSCRIBE shard");
    for node in 0..3 {
        assert_eq!(world.run(node, 1, "PUBLISH news x"), ":5");
        assert_eq!(world.run(node, 1, "SPUBLISH shard x"), ":1");
        assert_eq!(world.run(node, 1, "PUBSUB CHANNELS"), "*1 $4 news");
        assert_eq!(world.run(node, 1, "PUBSUB SHARDCHANNELS s*"), "*1 $5 shard");
        assert_eq!(
            world.run(node, 1, "PUBSUB NUMSUB news other"),
            "*4 $4 news :3 $5 other :0"
        );
        assert_eq!(world.run(node, 1, "PUBSUB NUMPAT"), ":2");
    }
}

#[test]
fn clients_of_all_nodes_are_listed_and_killed_from_any() {
    let mut world = three();
    let ids: Vec<u64> = (0..3).map(|node| id(&mut world, node, 5)).collect();
    assert!(
        ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2],
        "{ids:?}"
    );
    for node in 0..3 {
        let list = world.run(node, 6, "CLIENT LIST");
        for id in &ids {
            assert!(list.contains(&format!("id={id} ")), "{id} in {list}");
        }
    }
    let one = world.run(1, 6, &format!("CLIENT LIST ID {}", ids[2]));
    assert!(one.contains(&format!("id={} ", ids[2])) && !one.contains(&format!("id={} ", ids[1])));
    assert_eq!(world.run(0, 6, &format!("CLIENT KILL ID {}", ids[2])), ":1");
    assert_eq!(world.run(1, 6, &format!("CLIENT KILL ID {}", ids[2])), ":0");
    let list = world.run(0, 6, "CLIENT LIST");
    assert!(!list.contains(&format!("id={} ", ids[2])), "{list}");
    assert_eq!(world.run(0, 6, "CLIENT KILL 1.2.3.4:5"), "-ERR No such client");
    assert_eq!(
        world.run(0, 6, "CLIENT KILL ID x"),
        "-ERR client-id should be greater than 0"
    );
}

#[test]
fn who_waits_on_another_node_can_be_unblocked() {
    let mut world = three();
    let waiting = id(&mut world, 1, 5);
    world.send(1, 5, "BLPOP nothing 0");
    world.turns(20);
    assert_eq!(world.run(2, 6, &format!("CLIENT UNBLOCK {waiting} ERROR")), ":1");
    world.turns(20);
    assert_eq!(
        world.nodes[1].take_reply(5),
        "-UNBLOCKED client unblocked via CLIENT UNBLOCK"
    );
    assert_eq!(world.run(2, 6, &format!("CLIENT UNBLOCK {waiting}")), ":0");
}

#[test]
fn who_is_still_on_its_way_to_the_leader_does_not_count_as_blocked() {
    let mut world = three();
    world.send(1, 5, "BLPOP nothing 0");
    assert!(world.run(1, 6, "INFO clients").contains("blocked_clients:0"));
    world.turns(20);
    assert!(world.run(1, 6, "INFO clients").contains("blocked_clients:1"));
}

#[test]
fn a_pause_holds_on_all_nodes_until_any_ends_it() {
    let mut world = three();
    assert_eq!(world.run(0, 1, "CLIENT PAUSE 100000 WRITE"), "+OK");
    world.send(2, 5, "SET a 1");
    world.turns(100);
    assert_eq!(world.nodes[2].take_reply(5), "");
    assert_eq!(world.run(1, 1, "CLIENT UNPAUSE"), "+OK");
    assert_eq!(world.run(2, 6, "SET b 1"), "+OK");
}

#[test]
fn keys_stop_to_expire_wherever_their_group_is_led() {
    let mut world = three();
    assert_eq!(world.run(1, 1, "DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
    assert_eq!(world.run(2, 1, "SET key value PX 1"), "+OK");
    world.turns(100);
    world.cron();
    assert_eq!(world.run(2, 1, "DBSIZE"), ":1");
    assert_eq!(world.run(2, 1, "DEBUG SET-ACTIVE-EXPIRE 1"), "+OK");
    world.cron();
    world.turns(100);
    assert_eq!(world.run(2, 1, "DBSIZE"), ":0");
}

#[test]
fn a_node_that_does_not_answer_is_left_out() {
    let mut world = three();
    world.run(0, 10, "SUBSCRIBE news");
    world.dead[2] = true;
    assert_eq!(world.run(1, 1, "PUBLISH news x"), ":1");
    assert_eq!(world.run(1, 1, "PUBSUB NUMSUB news"), "*2 $4 news :1");
    let reply = world.run(0, 1, "CLIENT PAUSE 1 WRITE");
    let told = "-UNKNOWN it is done here, but nothing is known of node 2";
    assert_eq!(reply, told);
    // The end of the link ends the wait.
    world.send(1, 1, "CLIENT LIST");
    world.turns(5);
    assert_eq!(world.nodes[1].take_reply(1), "");
    world.nodes[1].gateway.on_link(ids::NodeId(2), false);
    world.turns(5);
    assert!(world.nodes[1].take_reply(1).contains("id="));
}

#[test]
fn what_is_set_is_set_on_all_nodes_and_remembered_by_the_meta_group() {
    let mut world = three();
    world.send(1, 1, "CONFIG SET maxmemory 100mb hz 20");
    world.turns(5);
    assert_eq!(world.nodes[1].take_reply(1), "");
    let wishes = world.nodes[1].gateway.take_wishes();
    let [wish] = wishes.as_slice() else {
        panic!("{wishes:?}");
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(wish.settings, [pair("maxmemory", "100mb"), pair("hz", "20")]);
    world.nodes[1].gateway.on_wish(wish.id, Some(vec![7, 8]));
    world.turns(5);
    assert_eq!(world.nodes[1].take_reply(1), "+OK");
    for node in 0..3 {
        let reply = world.run(node, 2, "CONFIG GET maxmemory");
        assert_eq!(reply, "*2 $9 maxmemory $9 104857600");
    }
    // Without the meta group it holds here and there, but may be forgotten.
    let reply = world.run(2, 1, "CONFIG SET maxmemory 0");
    let told = "-UNKNOWN it is done here, but nothing is known of the meta group";
    assert_eq!(reply, told);
    // What cannot be is refused before anybody is asked.
    let reply = world.run(0, 1, "CONFIG SET maxmemory x");
    assert!(reply.starts_with("-ERR CONFIG SET failed"), "{reply}");
    assert!(world.nodes[0].gateway.take_wishes().is_empty());
}

#[test]
fn a_node_out_of_reach_is_told_of_by_who_must_know() {
    let mut world = three();
    for node in 0..2 {
        world.nodes[node].gateway.on_link(ids::NodeId(2), false);
    }
    let told = "-UNKNOWN it is done here, but nothing is known of node 2";
    assert_eq!(world.run(0, 1, "CLIENT UNPAUSE"), told);
    world.send(0, 1, "CONFIG SET hz 20");
    world.turns(5);
    let wishes = world.nodes[0].gateway.take_wishes();
    world.nodes[0].gateway.on_wish(wishes[0].id, Some(vec![1]));
    world.turns(500);
    assert_eq!(world.nodes[0].take_reply(1), "", "a link may be on its way");
    world.turns(600);
    assert_eq!(world.nodes[0].take_reply(1), "+OK", "it will learn of it");
    world.send(0, 1, "CONFIG SET hz 30");
    world.turns(5);
    let wishes = world.nodes[0].gateway.take_wishes();
    world.nodes[0].gateway.on_wish(wishes[0].id, Some(vec![2]));
    world.turns(5);
    world.nodes[0].gateway.on_link(ids::NodeId(2), true);
    world.turns(5);
    assert_eq!(world.nodes[0].take_reply(1), "+OK");
    assert_eq!(world.run(2, 1, "CONFIG GET hz"), "*2 $2 hz $2 30");
}

/// A client of a node orders a durability, and the meta group does, or does not, hear of it.
fn order(world: &mut World, node: usize, durability: &str, is_heard: bool) {
    world.send(node, 1, &format!("CONFIG SET durability {durability}"));
    world.turns(5);
    let wishes = world.nodes[node].gateway.take_wishes();
    let wanted = [("durability".to_owned(), durability.to_owned())];
    assert_eq!(wishes[0].settings, wanted);
    let epoch = world.next_epoch();
    world.nodes[node]
        .gateway
        .on_wish(wishes[0].id, is_heard.then_some(vec![epoch]));
    world.turns(5);
}

fn orders(layout: &mut Layout, durability: DurabilityMode) {
    (layout.durability, layout.ordered) = (durability, durability);
}

#[test]
fn an_order_of_another_durability_waits_until_all_nodes_have_followed() {
    let mut world = three();
    order(&mut world, 1, "relaxed", true);
    world.lay_out(|layout| orders(layout, DurabilityMode::Relaxed));
    for node in 0..3 {
        world.turns(2_000);
        assert_eq!(world.nodes[1].take_reply(1), "", "it waits for node {node}");
        world.nodes[node].has_followed(DurabilityChoice::Relaxed);
    }
    world.turns(200);
    assert_eq!(world.nodes[1].take_reply(1), "+OK");
    let reply = world.run(2, 1, "CONFIG SET durability relaxed");
    assert_eq!(reply, "+OK", "it is so already");

    // The map says another one, and no node has followed: what they still have is an order, too.
    world.lay_out(|layout| layout.ordered = DurabilityMode::Memory);
    order(&mut world, 2, "relaxed", false);
    let told = world.nodes[2].take_reply(1);
    assert!(told.starts_with("-UNKNOWN the meta group"), "{told}");
    world.lay_out(|layout| layout.ordered = DurabilityMode::Relaxed);

    order(&mut world, 1, "strict", false);
    let told = world.nodes[1].take_reply(1);
    assert!(told.starts_with("-UNKNOWN the meta group"), "{told}");

    order(&mut world, 1, "strict", true);
    world.lay_out(|layout| orders(layout, DurabilityMode::Strict));
    world.turns(200);
    world.lay_out(|layout| orders(layout, DurabilityMode::Relaxed));
    world.turns(200);
    let told = world.nodes[1].take_reply(1);
    assert!(told.contains("followed by another order"), "{told}");
}

#[test]
fn an_order_of_another_durability_says_who_is_away() {
    let mut world = three();
    for node in 0..2 {
        world.nodes[node].gateway.on_link(NodeId(2), false);
    }
    order(&mut world, 0, "strict", true);
    world.lay_out_for(0, |layout| orders(layout, DurabilityMode::Strict));
    world.lay_out_for(1, |layout| orders(layout, DurabilityMode::Strict));
    world.nodes[0].gateway.on_link(NodeId(2), false);
    for node in 0..2 {
        world.nodes[node].has_followed(DurabilityChoice::Strict);
    }
    world.turns(200);
    let told = world.nodes[0].take_reply(1);
    let wanted =
        "-UNKNOWN it is done here, but nothing is known of node 2: who is down follows with its next start";
    assert_eq!(told, wanted);
}

/// Has something set for the whole cluster by a client of a node, and the meta group give it this version.
fn set(world: &mut World, node: usize, name: &str, value: &str, version: u64) {
    world.send(node, 1, &format!("CONFIG SET {name} {value}"));
    world.turns(1);
    let wishes = world.nodes[node].gateway.take_wishes();
    world.nodes[node]
        .gateway
        .on_wish(wishes[0].id, Some(vec![version]));
    for _ in 0..10 {
        world.turns(1);
        let reply = world.nodes[node].take_reply(1);
        if !reply.is_empty() {
            assert_eq!(reply, "+OK");
            return;
        }
    }
    panic!("no answer to CONFIG SET {name} {value}");
}

#[test]
fn what_the_meta_group_tells_late_does_not_undo_what_was_set_since() {
    let mut world = three();
    set(&mut world, 1, "maxmemory", "1", 5);
    set(&mut world, 2, "maxmemory", "2", 6);
    for node in 0..3 {
        // The node's own part of the meta group is behind, and then it is not.
        for late in [("1", 5), ("2", 6)] {
            world.nodes[node].hears_of_setting("maxmemory", late.0, late.1);
            let reply = world.run(node, 2, "CONFIG GET maxmemory");
            assert_eq!(reply, "*2 $9 maxmemory $1 2", "node {node}, version {}", late.1);
        }
        world.nodes[node].hears_of_setting("maxmemory", "3", 7);
        let reply = world.run(node, 2, "CONFIG GET maxmemory");
        assert_eq!(reply, "*2 $9 maxmemory $1 3");
    }
}

#[test]
fn what_is_written_after_a_limit_was_set_is_kept_as_it_says() {
    let mut world = three();
    // The leader is another node than either client's, and hears of it as they do.
    for (round, limit, encoding) in [(1, 1, "hashtable"), (2, 9, "listpack"), (3, 1, "hashtable")] {
        set(
            &mut world,
            1,
            "hash-max-listpack-entries",
            &limit.to_string(),
            round,
        );
        for key in 0..4 {
            let key = format!("{round}:{key}");
            assert_eq!(world.run(2, 2, &format!("HSET {key} a 1 b 2")), ":2");
            let reply = world.run(2, 2, &format!("OBJECT ENCODING {key}"));
            assert_eq!(reply, format!("${} {encoding}", encoding.len()), "round {round}");
        }
    }
    // Set and set back, before the first has become an entry.
    set(&mut world, 1, "hash-max-listpack-entries", "9", 4);
    set(&mut world, 1, "hash-max-listpack-entries", "1", 5);
    assert_eq!(world.run(2, 2, "HSET back a 1 b 2"), ":2");
    assert_eq!(world.run(2, 2, "OBJECT ENCODING back"), "$9 hashtable");
}

#[test]
fn what_follows_on_the_same_connection_waits_until_it_is_set() {
    let mut world = three();
    world.send(1, 1, "CONFIG SET hash-max-listpack-entries 1");
    world.send(1, 1, "HSET key a 1 b 2");
    world.send(1, 1, "OBJECT ENCODING key");
    world.turns(5);
    let wishes = world.nodes[1].gateway.take_wishes();
    assert_eq!(world.run(2, 2, "EXISTS key"), ":0");
    world.nodes[1].gateway.on_wish(wishes[0].id, Some(vec![1]));
    world.turns(40);
    assert_eq!(world.nodes[1].take_reply(1), "+OK :2 $9 hashtable");
}

#[test]
fn info_counts_the_keys_of_all_groups_through_any_node() {
    let mut world = three();
    for key in 0..20 {
        assert_eq!(world.run(2, 1, &format!("SET {key} x")), "+OK");
    }
    let keyspace = |world: &mut World, node| world.run(node, 3, "INFO keyspace");
    for node in 0..3 {
        let shown = keyspace(&mut world, node);
        assert!(
            shown.ends_with("# Keyspace db0:keys=20,expires=0,avg_ttl=0"),
            "{node}: {shown}"
        );
    }
    assert_eq!(world.run(1, 1, "PEXPIRE 3 50000"), ":1");
    assert_eq!(world.run(1, 1, "PEXPIRE 4 100000"), ":1");
    for node in 0..3 {
        let shown = keyspace(&mut world, node);
        let (counts, ttl) = shown.split_once(",avg_ttl=").expect("there are keys");
        assert!(counts.ends_with("db0:keys=20,expires=2"), "{node}: {shown}");
        let ttl: i64 = ttl.parse().expect("a number");
        assert!((74_000..=75_000).contains(&ttl), "{node}: {ttl}");
    }
    for node in 0..3 {
        assert_eq!(world.run(1, 1, "FLUSHALL"), "+OK");
        let shown = keyspace(&mut world, node);
        assert!(shown.ends_with("# Keyspace"), "{node}: {shown}");
        assert_eq!(world.run(1, 1, "SET again x"), "+OK");
    }
    // A client of Redis Cluster asks each node for what it leads.
    for node in 0..3 {
        world.by_cluster(node, 9);
        let shown = world.run(node, 9, "INFO keyspace");
        assert_eq!(
            shown.ends_with("db0:keys=1,expires=0,avg_ttl=0"),
            node == 0,
            "{node}: {shown}"
        );
    }
    // A node that does not answer is left out.
    world.dead[0] = true;
    let shown = keyspace(&mut world, 1);
    assert!(shown.ends_with("# Keyspace"), "{shown}");
}

/// Three nodes that are said to keep what they have, all groups on each.
fn three_that_keep() -> World {
    DURABILITY.set(DurabilityChoice::Relaxed);
    let mut world = three();
    DURABILITY.set(DurabilityChoice::Memory);
    world.run(0, 1, "MSET a 1 b 2 c 3 d 4");
    world
}

/// What a node is to store.
fn save_task(world: &mut World, node: usize) -> SaveTask {
    let mut tasks = world.nodes[node].gateway.take_saves();
    assert_eq!(tasks.len(), 1, "node {node}");
    tasks.remove(0)
}

#[test]
fn a_save_waits_for_all_nodes_and_background_saves_for_none() {
    let mut world = three_that_keep();
    world.send(1, 1, "SAVE");
    world.send(1, 1, "PING");
    world.turns(5);
    let tasks: Vec<SaveTask> = (0..3).map(|node| save_task(&mut world, node)).collect();
    let groups = |task: &SaveTask| task.wanted.iter().map(|(group, _)| *group).collect::<Vec<_>>();
    assert_eq!(groups(&tasks[0]), (0..4).map(GroupId::new).collect::<Vec<_>>());
    assert_eq!(groups(&tasks[1]), [], "it has no replicas");
    assert_eq!(
        world.run(1, 2, "SAVE"),
        "-ERR Background save already in progress"
    );
    assert_eq!(
        world.run(1, 2, "BGSAVE"),
        "-ERR Background save already in progress"
    );
    assert_eq!(world.run(1, 2, "BGSAVE SCHEDULE"), "+Background saving started");
    for (node, task) in tasks.iter().enumerate() {
        world.turns(1_500);
        assert_eq!(world.nodes[1].take_reply(1), "", "it waits for node {node}");
        world.nodes[node].gateway.on_saved(task.number, true);
    }
    world.turns(5);
    assert_eq!(world.nodes[1].take_reply(1), "+OK +PONG");

    for command in ["BGSAVE", "BGREWRITEAOF"] {
        assert!(world.run(1, 1, command).starts_with("+Background "), "{command}");
        assert!(
            world
                .run(1, 1, "INFO persistence")
                .contains("rdb_bgsave_in_progress:1")
        );
        world.turns(5);
        for node in 0..3 {
            let task = save_task(&mut world, node);
            world.nodes[node].gateway.on_saved(task.number, true);
        }
        world.turns(5);
        let info = world.run(1, 1, "INFO persistence");
        assert!(info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:ok"));
    }
}

#[test]
fn a_save_right_behind_a_write_waits_for_followers_that_have_not_heard_that_it_is_committed() {
    DURABILITY.set(DurabilityChoice::Relaxed);
    let mut world = replicated(1);
    DURABILITY.set(DurabilityChoice::Memory);
    let place = |world: &World| {
        let mut views = world.nodes[1].gateway.replica_views();
        let first = views.next().expect("there is one group");
        let member = first.member().expect("it has a replica on each node");
        (member.applied(), member.raft().last_index())
    };
    for round in 0..20 {
        assert_eq!(world.run(0, 1, &format!("SET key {round}")), "+OK");
        let (applied, last) = place(&world);
        assert!(
            applied < last,
            "it was answered by a majority, and this node is to hear of it"
        );
        world.send(1, 2, "SAVE");
        world.turns(500);
        for node in 0..3 {
            let task = save_task(&mut world, node);
            let reflects = task.wanted[0].1;
            assert!(
                reflects >= last,
                "round {round}, node {node}: {reflects:?}, not {last:?}"
            );
            world.nodes[node].gateway.on_saved(task.number, true);
        }
        world.turns(5);
        assert_eq!(world.nodes[1].take_reply(2), "+OK");
    }
}

#[test]
fn a_save_says_who_could_not_and_of_whom_nothing_is_known() {
    let mut world = three_that_keep();
    let ends = |world: &mut World, is_kept: bool, answers: &[usize]| {
        world.send(1, 1, "SAVE");
        world.turns(5);
        for &node in answers {
            let task = save_task(world, node);
            world.nodes[node]
                .gateway
                .on_saved(task.number, is_kept || node != 2);
        }
        world.turns(5);
        world.nodes[1].take_reply(1)
    };
    assert_eq!(
        ends(&mut world, false, &[0, 1, 2]),
        "-ERR node 2 could not write a snapshot"
    );
    let info = world.run(1, 1, "INFO persistence");
    assert!(info.contains("rdb_last_bgsave_status:err"), "{info}");
    assert_eq!(ends(&mut world, true, &[0, 1]), "");
    world.nodes[1].gateway.on_link(NodeId(2), false);
    world.turns(5);
    let told = "-UNKNOWN it is done here, but nothing is known of node 2";
    assert_eq!(world.nodes[1].take_reply(1), told);
    assert_eq!(ends(&mut world, true, &[0, 1]), told, "it is known to be away");
}

#[test]
fn a_save_does_not_hold_up_what_is_asked_for_shorter() {
    let mut world = three_that_keep();
    world.send(1, 1, "SAVE");
    world.turns(5);
    world.dead[2] = true;
    world.send(1, 2, "CLIENT PAUSE 1 WRITE");
    world.turns(1_100);
    let told = "-UNKNOWN it is done here, but nothing is known of node 2";
    assert_eq!(world.nodes[1].take_reply(2), told);
    world.send(1, 3, "CLIENT PAUSE 1 WRITE");
    world.turns(1_100);
    assert_eq!(world.nodes[1].take_reply(3), told);
    assert_eq!(world.nodes[1].take_reply(1), "");
}

/// Has the drivers of these nodes sync what they were asked to, of all groups.
fn sync(world: &mut World, nodes: &[usize]) {
    let groups: Vec<GroupId> = (0..4).map(GroupId::new).collect();
    for &node in nodes {
        for number in world.nodes[node].gateway.take_syncs() {
            world.nodes[node].gateway.on_synced(number, &groups);
        }
    }
    world.turns(5);
}

#[test]
fn what_is_on_disk_is_counted_after_a_sync_of_all_nodes() {
    let mut world = three_that_keep();
    world.send(0, 1, "WAITAOF 1 0 0");
    world.turns(5);
    assert_eq!(world.nodes[0].take_reply(1), "");
    assert!(world.run(0, 2, "INFO clients").contains("blocked_clients:1"));
    sync(&mut world, &[0, 1, 2]);
    assert_eq!(world.nodes[0].take_reply(1), "*2 :1 :0");
    // All replicas are there: for this node they are elsewhere.
    world.send(1, 1, "WAITAOF 0 1 0");
    world.turns(5);
    sync(&mut world, &[0, 1, 2]);
    assert_eq!(world.nodes[1].take_reply(1), "*2 :0 :1");
}

#[test]
fn who_waits_for_more_syncs_than_there_are_is_told_of_those_there_are() {
    let mut world = three_that_keep();
    let id = id(&mut world, 0, 1);
    world.send(0, 1, "WAITAOF 1 1 0");
    world.send(0, 2, "WAITAOF 0 0 0");
    for _ in 0..3 {
        world.turns(30);
        sync(&mut world, &[0, 1, 2]);
    }
    assert_eq!(world.nodes[0].take_reply(2), "*2 :1 :0");
    assert_eq!(
        world.nodes[0].take_reply(1),
        "",
        "it waits on, and others are asked again"
    );
    world.run(0, 3, &format!("CLIENT UNBLOCK {id}"));
    world.turns(5);
    assert_eq!(world.nodes[0].take_reply(1), "*2 :1 :0");
    // What was not synced does not count.
    world.send(1, 1, "WAITAOF 0 1 0");
    world.turns(5);
    for number in world.nodes[0].gateway.take_syncs() {
        world.nodes[0].gateway.on_synced(number, &[GroupId::new(0)]);
    }
    sync(&mut world, &[1, 2]);
    assert_eq!(world.nodes[1].take_reply(1), "");
    world.turns(30);
    sync(&mut world, &[0, 1, 2]);
    assert_eq!(world.nodes[1].take_reply(1), "*2 :0 :1");
}

#[test]
fn what_cannot_be_waited_for_is_refused() {
    let mut world = three_that_keep();
    for (words, reply) in [
        (
            "WAITAOF 2 0 0",
            "-ERR value is out of range, value must between 0 and 1",
        ),
        ("WAITAOF 0 -1 0", "-ERR value is out of range, must be positive"),
        ("WAITAOF x 0 0", "-ERR value is not an integer or out of range"),
        ("WAITAOF 0 0 -1", "-ERR timeout is negative"),
    ] {
        assert_eq!(world.run(0, 1, words), reply, "{words}");
    }
    let blocks = world.exec(0, 1, &["SET a 1", "WAITAOF 1 1 0"]);
    assert_eq!(blocks, "*2 +OK *2 :0 :0");
    let mut world = three();
    assert_eq!(world.run(0, 1, "WAITAOF 0 0 0"), "*2 :0 :0");
    let refused = world.run(0, 1, "WAITAOF 1 0 0");
    assert!(refused.contains("CONFIG SET durability relaxed"), "{refused}");
}
