//! The cluster as clients are told of it.

use gateway::{GroupPlacement, NodeHealth, NodeIndex, NodeName, PeerLink, Topology, TopologyNode};
use ids::{Epoch, GroupId, Groups, Slot, UnixMillis};
use resp::{Protocol, ReplyWriter};

fn node(number: u8) -> TopologyNode {
    TopologyNode {
        name: NodeName([number; 20]),
        host: format!("10.0.0.{number}"),
        port: 7379,
        zone: String::new(),
        peer_port: 7380,
        health: NodeHealth::Online,
        heard_at: UnixMillis(1_700_000_000_000),
        link: Some(PeerLink {
            connected_at: UnixMillis(1_600_000_000_000),
            buffer_bytes: 4_096,
            waiting_bytes: 0,
        }),
        epoch: Epoch(u64::from(number)),
    }
}

/// Four groups, whose leaders and followers are given by the numbers of nodes; `-` is nobody.
fn topology(nodes: u8, groups: [(&str, &str); 4]) -> Topology {
    let index = |digit: char| digit.to_digit(10).map(|digit| NodeIndex(digit as u16));
    let placements = groups.map(|(leader, followers)| GroupPlacement {
        leader: leader.chars().next().and_then(index),
        followers: followers.chars().filter_map(index).collect(),
    });
    let mut nodes: Vec<TopologyNode> = (0..nodes).map(node).collect();
    nodes[0].link = None;
    nodes[0].host.clear();
    let count = Groups::with_default_partitions(ids::GroupCount::new(4).expect("four is a count"));
    Topology::new(NodeIndex(0), nodes, count, placements.to_vec(), Epoch(9))
}

fn resp2(say: impl FnOnce(&mut ReplyWriter<'_>)) -> String {
    said(Protocol::Resp2, say)
}

fn resp3(say: impl FnOnce(&mut ReplyWriter<'_>)) -> String {
    said(Protocol::Resp3, say)
}

fn said(protocol: Protocol, say: impl FnOnce(&mut ReplyWriter<'_>)) -> String {
    let mut out = Vec::new();
    say(&mut ReplyWriter::new(&mut out, protocol));
    String::from_utf8(out).expect("it is text").replace("\r\n", "|")
}

fn id(number: u8) -> String {
    format!("{number:02x}").repeat(20)
}

#[test]
fn a_node_by_itself_has_all_slots() {
    let groups = Groups::with_default_partitions(ids::GroupCount::new(64).unwrap());
    let topology = Topology::alone(NodeName([7; 20]), String::new(), 7379, groups);
    let view = topology.seen_at("127.0.0.1");
    assert!(topology.leads_all());
    let id = id(7);
    assert_eq!(
        resp2(|w| view.slots(w)),
        format!("*1|*3|:0|:16383|*4|$9|127.0.0.1|:7379|$40|{id}|*0|")
    );
    assert_eq!(
        resp3(|w| view.slots(w)),
        format!("*1|*3|:0|:16383|*4|$9|127.0.0.1|:7379|$40|{id}|%0|")
    );
    let line = format!("{id} 127.0.0.1:7379@0 myself,master - 0 0 0 connected 0-16383\n");
    assert_eq!(resp2(|w| view.nodes(w)), format!("${}|{line}|", line.len()));
    assert_eq!(
        resp3(|w| view.nodes(w)),
        format!("={}|txt:{line}|", line.len() + 4)
    );
    assert_eq!(
        resp3(|w| view.shards(w)),
        format!(
            "*1|%2|$5|slots|*2|:0|:16383|$5|nodes|*1|%7|$2|id|$40|{id}|$4|port|:7379|$2|ip|$9|127.0.0.1|\
             $8|endpoint|$9|127.0.0.1|$4|role|$6|master|$18|replication-offset|:0|$6|health|$6|online|"
        )
    );
    assert!(resp2(|w| view.shards(w)).starts_with("*1|*4|$5|slots|*2|:0|:16383|$5|nodes|*1|*14|"));
    assert_eq!(
        resp2(|w| view.info(0, 0, w)),
        "$312|cluster_state:ok|cluster_slots_assigned:16384|cluster_slots_ok:16384|cluster_slots_pfail:0|\
         cluster_slots_fail:0|cluster_known_nodes:1|cluster_size:1|cluster_current_epoch:0|cluster_my_epoch:0|\
         cluster_stats_messages_sent:0|cluster_stats_messages_received:0|\
         total_cluster_links_buffer_limit_exceeded:0||"
    );
    assert_eq!(resp2(|w| view.links(w)), "*0|");
}

#[test]
fn the_zone_of_a_node_is_told_where_it_has_said_one() {
    let groups = Groups::with_default_partitions(ids::GroupCount::new(2).unwrap());
    let led = |leader: u16| GroupPlacement {
        leader: Some(NodeIndex(leader)),
        followers: Vec::new(),
    };
    let mut nodes = vec![node(0), node(1)];
    nodes[1].zone = "rack-7".to_owned();
    let topology = Topology::new(NodeIndex(0), nodes, groups, vec![led(0), led(1)], Epoch(9));
    let view = topology.seen_at("here");
    let (zero, one) = (id(0), id(1));
    let slots = resp3(|w| view.slots(w));
    assert!(slots.contains(&format!("$40|{zero}|%0|")), "{slots}");
    assert!(
        slots.ends_with(&format!("$40|{one}|%1|$17|availability-zone|$6|rack-7|")),
        "{slots}"
    );
    let shards = resp3(|w| view.shards(w));
    assert!(shards.contains(&format!("%7|$2|id|$40|{zero}|")), "{shards}");
    assert!(shards.contains(&format!("%8|$2|id|$40|{one}|")), "{shards}");
    assert!(
        shards.ends_with("$6|health|$6|online|$17|availability-zone|$6|rack-7|"),
        "{shards}"
    );
    // A line has no place for it.
    assert!(!resp3(|w| view.nodes(w)).contains("rack"));
}

#[test]
fn neighbouring_groups_of_one_leader_are_one_range() {
    let topology = topology(2, [("0", "1"), ("0", "1"), ("1", "0"), ("0", "1")]);
    let view = topology.seen_at("here");
    let (zero, one) = (id(0), id(1));
    assert_eq!(
        resp2(|w| view.slots(w)),
        format!(
            "*3|*3|:0|:8191|*4|$4|here|:7379|$40|{zero}|*0|\
             *3|:8192|:12287|*4|$8|10.0.0.1|:7379|$40|{one}|*0|\
             *3|:12288|:16383|*4|$4|here|:7379|$40|{zero}|*0|"
        )
    );
    let text = resp2(|w| view.nodes(w));
    let (_, text) = text.split_once('|').unwrap();
    assert_eq!(
        text,
        format!(
            "{zero} here:7379@7380 myself,master - 0 0 0 connected 0-8191 12288-16383\n\
             {one} 10.0.0.1:7379@7380 master - 0 1700000000000 1 connected 8192-12287\n|"
        )
    );
    assert!(resp3(|w| view.shards(w)).starts_with("*2|%2|$5|slots|*4|:0|:8191|:12288|:16383|"));
}

#[test]
fn who_leads_nothing_is_a_replica_of_one_master_and_of_each_range_it_follows() {
    let topology = topology(4, [("0", "12"), ("0", "1"), ("1", "2"), ("1", "02")]);
    let view = topology.seen_at("here");
    let ids = [0, 1, 2, 3].map(id);
    let slots = resp2(|w| view.slots(w));
    assert_eq!(
        slots,
        format!(
            "*3|*4|:0|:4095|*4|$4|here|:7379|$40|{0}|*0|*4|$8|10.0.0.2|:7379|$40|{2}|*0|\
             *3|:4096|:8191|*4|$4|here|:7379|$40|{0}|*0|\
             *4|:8192|:16383|*4|$8|10.0.0.1|:7379|$40|{1}|*0|*4|$8|10.0.0.2|:7379|$40|{2}|*0|",
            ids[0], ids[1], ids[2]
        )
    );
    let text = resp2(|w| view.nodes(w));
    let line = |number: usize| {
        let mut lines = text.split_once('|').unwrap().1.lines();
        lines.find(|line| line.starts_with(&ids[number])).unwrap()
    };
    assert!(line(0).ends_with(" connected 0-8191"));
    assert!(line(1).ends_with(" connected 8192-16383"));
    assert_eq!(
        line(2),
        format!(
            "{} 10.0.0.2:7379@7380 slave {} 0 1700000000000 2 connected",
            ids[2], ids[0]
        )
    );
    assert!(line(3).ends_with("master - 0 1700000000000 3 connected"));
    assert_eq!(
        resp2(|w| view.replicas(ids[0].as_bytes(), w).unwrap()),
        format!("*1|${}|{}|", line(2).len(), line(2))
    );
    assert_eq!(resp2(|w| view.replicas(ids[1].as_bytes(), w).unwrap()), "*0|");
    let error = |name: &str| {
        let mut out = Vec::new();
        let result = view.replicas(name.as_bytes(), &mut ReplyWriter::new(&mut out, Protocol::Resp2));
        assert!(out.is_empty());
        result.unwrap_err().to_string()
    };
    assert_eq!(error(&ids[2]), "ERR The specified node is not a master");
    assert_eq!(error("foo"), "ERR Unknown node foo");
    let shards = resp2(|w| view.shards(w));
    assert!(
        shards.starts_with("*3|*4|$5|slots|*2|:0|:8191|$5|nodes|*2|"),
        "{shards}"
    );
    assert!(shards.contains("$4|role|$7|replica|"));
    assert!(shards.contains("|*4|$5|slots|*0|$5|nodes|*1|"));
    assert_eq!(
        resp2(|w| view.links(w)),
        [1, 2, 3]
            .map(|number| format!(
                "*12|$9|direction|$2|to|$4|node|$40|{}|$11|create-time|:1600000000000|$6|events|$1|r|\
                 $21|send-buffer-allocated|:4096|$16|send-buffer-used|:0|",
                ids[number]
            ))
            .iter()
            .fold("*3|".to_owned(), |text, link| text + link)
    );
}

#[test]
fn slots_without_a_leader_are_not_assigned_and_those_of_a_lost_one_are_down() {
    let mut nodes: Vec<TopologyNode> = (0..3).map(node).collect();
    nodes[1].health = NodeHealth::Suspected;
    nodes[2].health = NodeHealth::Failed;
    nodes[2].link = None;
    let placement = |leader: Option<u16>| GroupPlacement {
        leader: leader.map(NodeIndex),
        followers: Vec::new(),
    };
    let placements = [Some(0), Some(1), Some(2), None].map(placement).to_vec();
    let groups = Groups::with_default_partitions(ids::GroupCount::new(4).unwrap());
    let topology = Topology::new(NodeIndex(0), nodes, groups, placements, Epoch(9));
    let view = topology.seen_at("here");
    let info = resp2(|w| view.info(5, 6, w));
    for field in [
        "cluster_state:fail",
        "cluster_slots_assigned:12288",
        "cluster_slots_ok:4096",
        "cluster_slots_pfail:4096",
        "cluster_slots_fail:4096",
        "cluster_known_nodes:3",
        "cluster_size:3",
        "cluster_current_epoch:9",
        "cluster_stats_messages_sent:5",
        "cluster_stats_messages_received:6",
    ] {
        assert!(info.split('|').any(|line| line == field), "{field} in {info}");
    }
    let nodes = resp2(|w| view.nodes(w));
    assert!(
        nodes.contains(" master,fail? - ")
            && nodes.contains(" master,fail - 0 1700000000000 2 disconnected 8192-12287")
    );
    assert!(resp2(|w| view.shards(w)).contains("$6|health|$4|fail|"));
    assert!(resp2(|w| view.slots(w)).starts_with("*3|"));
}

#[test]
fn a_slot_that_another_node_leads_has_moved_there() {
    let topology = topology(2, [("0", "1"), ("0", ""), ("1", "0"), ("-", "")]);
    let slot = |number: u16| Slot::new(number).unwrap();
    assert!(!topology.leads_all());
    assert_eq!(topology.led_elsewhere(slot(0)), None);
    assert_eq!(
        topology.led_elsewhere(slot(16_383)),
        None,
        "nobody is known to lead it"
    );
    let leader = topology.led_elsewhere(slot(8_192)).unwrap();
    let error = topology.seen_at("here").moved(slot(8_192), leader);
    assert_eq!(error.to_string(), "MOVED 8192 10.0.0.1:7379");
    let group = |number: u16| GroupId::new(number);
    assert!(topology.leads(group(0)) && !topology.leads(group(2)));
    assert!(topology.follows(group(2)) && !topology.follows(group(0)));
}
