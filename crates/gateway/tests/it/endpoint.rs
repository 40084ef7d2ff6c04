//! What clients are told through each of the two endpoints.

use gateway::{
    ClientInfo, Connection, Endpoint, Gateway, GroupPlacement, NodeHealth, NodeIndex, NodeName, Session,
    Shared, Topology, TopologyNode,
};
use ids::{Boot, Epoch, GroupId, Groups, HashSeed, Slot, UnixMillis};
use options::{DurabilityChoice, Settings};
use std::sync::Arc;

/// Keys of the four groups in their order; their slots are 3300, 7365, 11298 and 15495.
const KEYS: [&str; 4] = ["b", "c", "d", "a"];

/// Of the four groups, this node leads the first two, and follows the third, which another leads as it does the fourth.
fn topology(groups: Groups) -> Topology {
    let node = |number: u8| TopologyNode {
        name: NodeName([number; 20]),
        host: format!("10.0.0.{number}"),
        port: 7379,
        zone: String::new(),
        peer_port: 0,
        health: NodeHealth::Online,
        heard_at: UnixMillis(0),
        link: None,
        epoch: Epoch(1),
    };
    let placement = |leader: u16, followers: &[u16]| GroupPlacement {
        leader: Some(NodeIndex(leader)),
        followers: followers.iter().copied().map(NodeIndex).collect(),
    };
    let placements = vec![
        placement(0, &[]),
        placement(0, &[]),
        placement(1, &[0]),
        placement(1, &[]),
    ];
    Topology::new(NodeIndex(0), vec![node(0), node(1)], groups, placements, Epoch(1))
}

/// A gateway with all four groups: what it is told of the cluster decides what it refuses, not where data are.
struct Fixture {
    gateway: Gateway,
    groups: Groups,
    now: i64,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with_settings(Settings::default())
    }

    fn with_settings(settings: Settings) -> Fixture {
        let groups = Groups::with_default_partitions(ids::GroupCount::new(4).expect("four is a count"));
        let shared = Shared::new(Boot(1), "a".repeat(40), 0, 6379, groups, 1, settings);
        shared.set_topology(topology(groups));
        let gateway = Gateway::new(0, Arc::new(shared), HashSeed([1, 2]), 3);
        Fixture {
            gateway,
            groups,
            now: 0,
        }
    }

    /// With a key of each group.
    fn with_keys() -> Fixture {
        let mut fixture = Fixture::new();
        let mut client = connection(Endpoint::AnyNode);
        assert_eq!(fixture.ask(&mut client, "MSET a 1 b 2 c 3 d 4"), "+OK");
        fixture
    }

    /// The reply to a command, line ends as spaces.
    fn ask(&mut self, client: &mut Connection, command: &str) -> String {
        self.now += 1;
        self.gateway.begin_turn(UnixMillis(self.now));
        self.gateway.feed(client, format!("{command}\r\n").as_bytes());
        let text = String::from_utf8(std::mem::take(client.pipeline.target())).expect("it is text");
        text.trim_end().replace("\r\n", " ")
    }

    #[track_caller]
    fn expect(&mut self, client: &mut Connection, exchanges: &[(&str, &str)]) {
        for (command, reply) in exchanges {
            assert_eq!(self.ask(client, command), *reply, "{command}");
        }
    }
}

/// One that came in this way.
fn connection(endpoint: Endpoint) -> Connection {
    let address = "127.0.0.1:1".parse().expect("an address");
    let info = ClientInfo::new(1, address, address, 0, 0, 0);
    Connection::new(Session::new(info.into(), 1, endpoint, true))
}

/// What a client is answered through the any-node endpoint.
#[track_caller]
fn expect_by_any_node(exchanges: &[(&str, &str)]) {
    Fixture::with_keys().expect(&mut connection(Endpoint::AnyNode), exchanges);
}

/// The same through the cluster endpoint.
#[track_caller]
fn expect_by_cluster(exchanges: &[(&str, &str)]) {
    Fixture::with_keys().expect(&mut connection(Endpoint::Cluster), exchanges);
}

const DISABLED: &str = "-ERR This instance has cluster support disabled";
const MOVED_A: &str = "-MOVED 15495 10.0.0.1:7379";
const MOVED_D: &str = "-MOVED 11298 10.0.0.1:7379";

#[test]
fn the_any_node_endpoint_serves_everything_and_knows_no_cluster() {
    expect_by_any_node(&[
        ("GET a", "$1 1"),
        ("DBSIZE", ":4"),
        ("SELECT 1", "+OK"),
        ("CLUSTER INFO", DISABLED),
        ("CLUSTER COUNTKEYSINSLOT 1", DISABLED),
        ("CLUSTER HELP", DISABLED),
        ("READONLY", DISABLED),
        ("READWRITE", DISABLED),
        ("ASKING", DISABLED),
        (
            "CLUSTER NOPE",
            "-ERR unknown subcommand 'NOPE'. Try CLUSTER HELP.",
        ),
    ]);
}

#[test]
fn what_another_node_leads_has_moved_unless_keys_are_in_several_slots() {
    expect_by_cluster(&[
        ("GET b", "$1 2"),
        ("GET a", MOVED_A),
        ("MGET a a", MOVED_A),
        ("MGET a d", "*2 $1 1 $1 4"),
        ("MSET a 5 b 6", "+OK"),
        ("WATCH a", MOVED_A),
        ("WATCH a b", "+OK"),
        ("BLPOP a 1", MOVED_A),
        ("SORT a BY w_*", MOVED_A),
        (
            "OBJECT FREQ a x",
            "-ERR wrong number of arguments for 'object|freq' command",
        ),
        ("PUBLISH a x", ":0"),
        ("SPUBLISH a x", ":0"),
        ("PING", "+PONG"),
    ]);
}

#[test]
fn a_block_stays_where_its_first_keys_were_accepted() {
    expect_by_cluster(&[
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("SET b 7", "+QUEUED"),
        ("GET a", "+QUEUED"),
        ("EXEC", "*3 +PONG +OK $1 1"),
        ("MULTI", "+OK"),
        ("PING", "+QUEUED"),
        ("SET a 7", MOVED_A),
        ("GET a", MOVED_A),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("MULTI", "+OK"),
        ("MGET a b", "+QUEUED"),
        ("GET a", "+QUEUED"),
        ("EXEC", "*2 *2 $1 1 $1 7 $1 1"),
    ]);
}

#[test]
fn readonly_clients_read_what_this_node_follows() {
    expect_by_cluster(&[
        ("GET d", MOVED_D),
        ("READONLY", "+OK"),
        ("GET d", "$1 4"),
        ("SET d 5", MOVED_D),
        ("GET a", MOVED_A),
        ("READWRITE", "+OK"),
        ("GET d", MOVED_D),
        ("READONLY", "+OK"),
        ("RESET", "+RESET"),
        ("GET d", MOVED_D),
        ("ASKING", "+OK"),
        ("GET d", MOVED_D),
    ]);
}

#[test]
fn the_cluster_endpoint_has_one_database() {
    expect_by_cluster(&[
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
        ("MOVE b 1", "-ERR MOVE is not allowed in cluster mode"),
        (
            "COPY b c DB 1 REPLACE",
            "-ERR Copying to another database is not allowed in cluster mode",
        ),
        ("COPY b c DB 0 REPLACE", ":1"),
        ("MULTI", "+OK"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
    ]);
}

#[test]
fn the_whole_keyspace_is_what_this_node_leads() {
    let mut fixture = Fixture::with_keys();
    let mut cluster = connection(Endpoint::Cluster);
    let mut any_node = connection(Endpoint::AnyNode);
    fixture.expect(
        &mut cluster,
        &[
            ("DBSIZE", ":2"),
            ("MULTI", "+OK"),
            ("DBSIZE", "+QUEUED"),
            ("EXEC", "*1 :2"),
        ],
    );
    let keys = fixture.ask(&mut cluster, "KEYS *");
    assert!(
        ["*2 $1 b $1 c", "*2 $1 c $1 b"].contains(&keys.as_str()),
        "{keys}"
    );
    for _ in 0..20 {
        let key = fixture.ask(&mut cluster, "RANDOMKEY");
        assert!(["$1 b", "$1 c"].contains(&key.as_str()), "{key}");
    }
    fixture.expect(
        &mut cluster,
        &[
            ("CLUSTER COUNTKEYSINSLOT 3300", ":1"),
            ("CLUSTER GETKEYSINSLOT 3300 10", "*1 $1 b"),
            ("CLUSTER GETKEYSINSLOT 3300 0", "*0"),
            ("CLUSTER COUNTKEYSINSLOT 3301", ":0"),
            ("CLUSTER COUNTKEYSINSLOT 15495", ":0"),
            ("CLUSTER GETKEYSINSLOT 15495 10", "*0"),
            ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
            (
                "CLUSTER COUNTKEYSINSLOT x",
                "-ERR value is not an integer or out of range",
            ),
            (
                "CLUSTER GETKEYSINSLOT 1 -1",
                "-ERR Invalid slot or number of keys",
            ),
            ("MULTI", "+OK"),
            ("CLUSTER COUNTKEYSINSLOT 3300", "+QUEUED"),
            ("CLUSTER GETKEYSINSLOT 15495 10", "+QUEUED"),
            ("CLUSTER COUNTKEYSINSLOT -1", "+QUEUED"),
            ("EXEC", "*3 :1 *0 -ERR Invalid slot"),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", ":0"),
            ("RANDOMKEY", "$-1"),
        ],
    );
    assert_eq!(fixture.ask(&mut any_node, "DBSIZE"), ":2");
    assert_eq!(fixture.ask(&mut any_node, "MGET a b c d"), "*4 $1 1 $-1 $-1 $1 4");
}

#[test]
fn a_scan_passes_over_groups_that_other_nodes_lead() {
    let mut fixture = Fixture::with_keys();
    let mut client = connection(Endpoint::Cluster);
    let third = keyspace::Cursor::before(fixture.groups.founded_range(GroupId::new(2)).first()).number();
    assert_eq!(fixture.ask(&mut client, &format!("SCAN {third}")), "*2 $1 0 *0");
    fixture.expect(&mut client, &[("MULTI", "+OK")]);
    assert_eq!(fixture.ask(&mut client, &format!("SCAN {third}")), "+QUEUED");
    assert_eq!(fixture.ask(&mut client, "EXEC"), "*1 *2 $1 0 *0");
    assert_eq!(fixture.ask(&mut client, "SCAN x"), "-ERR invalid cursor");
    let slots = KEYS.map(|key| fixture.groups.group_of(Slot::of_key(key.as_bytes())).number());
    assert_eq!(slots, [0, 1, 2, 3]);
}

#[test]
fn each_endpoint_says_what_it_is() {
    let mut fixture = Fixture::new();
    for (endpoint, mode, enabled) in [
        (Endpoint::AnyNode, "standalone", 0),
        (Endpoint::Cluster, "cluster", 1),
    ] {
        let mut client = connection(endpoint);
        let hello = fixture.ask(&mut client, "HELLO");
        assert!(
            hello.contains(&format!("$4 mode ${} {mode} ", mode.len())),
            "{hello}"
        );
        let info = fixture.ask(&mut client, "INFO server cluster");
        assert!(info.contains(&format!(" redis_mode:{mode} ")), "{info}");
        assert!(info.ends_with(&format!(" cluster_enabled:{enabled}")), "{info}");
    }
}

#[test]
fn clients_see_how_durable_writes_are_and_change_it_in_clusters_only() {
    for (durability, writes, appendonly, appendfsync) in [
        (DurabilityChoice::Memory, 0, "no", "everysec"),
        (DurabilityChoice::Relaxed, 1, "yes", "everysec"),
        (DurabilityChoice::Strict, 1, "yes", "always"),
    ] {
        let mut settings = Settings::default();
        settings.take_durability(durability);
        let mut fixture = Fixture::with_settings(settings);
        let mut client = connection(Endpoint::AnyNode);
        let info = fixture.ask(&mut client, "INFO persistence");
        assert!(info.contains(&format!(" aof_enabled:{writes} ")), "{info}");
        let word = durability.word();
        for (name, value) in [
            ("durability", word),
            ("appendonly", appendonly),
            ("appendfsync", appendfsync),
        ] {
            let shown = format!("*2 ${} {name} ${} {value}", name.len(), value.len());
            assert_eq!(fixture.ask(&mut client, &format!("CONFIG GET {name}")), shown);
            assert_eq!(
                fixture.ask(&mut client, &format!("CONFIG SET {name} {value}")),
                "+OK"
            );
        }
        let other = if writes == 1 { "memory" } else { "strict" };
        let refused = "-ERR CONFIG SET failed (possibly related to argument 'durability') - a node without a peer port has no \
                       durability but memory: start it with --peer-port";
        assert_eq!(
            fixture.ask(&mut client, &format!("CONFIG SET durability {other}")),
            refused
        );
    }
}
