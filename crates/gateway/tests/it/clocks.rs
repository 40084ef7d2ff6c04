//! Wall clocks that somebody sets wrong, and right again.

use crate::cluster::replicated;
use crate::out_of_reach::key;
use crate::world::World;
use mutations::Mutation;

const HOUR_MILLIS: i64 = 3_600_000;

/// Three nodes that have told each other the time.
fn agreed() -> World {
    let mut world = replicated(2);
    world.turns(2_000);
    world
}

/// What keys with deadlines are after the first node, which leads all groups, was an hour ahead for two seconds: one that was to
/// live for half a second, and one that was to live for a thousand seconds from before.
fn after_an_hour_ahead() -> (String, String) {
    let mut world = agreed();
    let until = world.now / 1_000_000 + 1_000_000;
    assert_eq!(world.run(1, 1, &format!("SET later 1 PXAT {until}")), "+OK");
    world.nodes[0].wall_ahead = HOUR_MILLIS;
    world.turns(1_000);
    assert_eq!(world.run(1, 1, "SET soon 1 PX 500"), "+OK");
    world.cron();
    world.turns(1_000);
    world.nodes[0].wall_ahead = 0;
    // The group's time may be a second ahead, and waits for the others' clocks.
    world.turns(2_500);
    assert_eq!(world.run(1, 1, "SET other 1"), "+OK");
    world.cron();
    world.turns(100);
    (world.run(2, 2, "GET soon"), world.run(2, 2, "GET later"))
}

#[test]
fn a_leader_whose_clock_is_an_hour_ahead_for_a_moment_neither_keeps_keys_nor_deletes_them_early() {
    assert_eq!(after_an_hour_ahead(), ("$-1".to_owned(), "$1 1".to_owned()));
}

#[test]
fn a_wall_clock_that_is_trusted_whatever_it_shows_is_noticed() {
    mutations::plant(Some(Mutation::WallClockTrusted));
    let seen = after_an_hour_ahead();
    mutations::plant(None);
    assert_ne!(seen, ("$-1".to_owned(), "$1 1".to_owned()));
}

/// What a key is, that a leader whose clock is ahead says has expired, when it dies as soon as it has said so.
fn after_a_leader_that_was_ahead(command: &str, told: &str) -> String {
    let mut world = agreed();
    let until = world.now / 1_000_000 + 900;
    assert_eq!(world.run(1, 1, &format!("SET k 1 PXAT {until}")), "+OK");
    world.nodes[0].wall_ahead = 950;
    world.turns(1);
    assert_eq!(world.run(0, 1, command), told);
    // What it has sent since is lost with it.
    world.dead[0] = true;
    world.lose();
    let found = world.run(1, 1, command);
    assert!(
        world.now / 1_000_000 < until,
        "by the others' clocks it would still be there"
    );
    found
}

#[test]
fn a_key_that_a_leader_has_said_to_have_expired_does_not_come_back_with_the_next_one() {
    for (command, told) in [("GET k", "$-1"), ("EXISTS k", ":0")] {
        assert_eq!(after_a_leader_that_was_ahead(command, told), told);
        mutations::plant(Some(Mutation::ExpiredByClockTold));
        let found = after_a_leader_that_was_ahead(command, told);
        mutations::plant(None);
        assert_ne!(found, told, "{command} shows it again");
    }
}

#[test]
fn an_operator_is_told_once_that_a_clock_is_off_and_once_that_it_is_right_again() {
    let mut world = agreed();
    world.nodes[2].wall_ahead = -HOUR_MILLIS;
    world.turns(1_000);
    assert!(world.nodes[2].gateway.is_wall_clock_off());
    let notice = world.nodes[2].gateway.take_clock_notice();
    assert!(
        notice.is_some_and(|notice| notice.contains("behind that of most nodes")),
        "it says so"
    );
    assert_eq!(world.nodes[2].gateway.take_clock_notice(), None);
    assert!(!world.nodes[0].gateway.is_wall_clock_off());
    world.nodes[2].wall_ahead = 0;
    world.turns(1_000);
    assert!(!world.nodes[2].gateway.is_wall_clock_off());
    let notice = world.nodes[2].gateway.take_clock_notice();
    assert!(notice.is_some_and(|notice| notice.contains("agrees")));
}

#[test]
fn a_request_named_a_moment_ago_is_taken_after_a_clock_was_ahead() {
    let mut world = agreed();
    world.nodes[0].wall_ahead = HOUR_MILLIS;
    world.turns(500);
    assert_eq!(world.run(1, 1, "INCR count"), ":1");
    world.nodes[0].wall_ahead = 0;
    world.turns(1_500);
    // Version 7: the first 48 bits are the time.
    let name = format!("{:012x}", world.now / 1_000_000);
    let name = format!("{}-{}-7000-8000-000000000001", &name[..8], &name[8..]);
    assert_eq!(world.run(1, 1, &format!("CLIENT REQUEST {name}")), "+OK");
    assert_eq!(world.run(1, 1, "INCR count"), ":2");
}

#[test]
fn a_value_that_crosses_groups_has_expired_when_its_group_says_so() {
    let mut world = agreed();
    let (a, b) = (key(2, 0, "a"), key(2, 1, "b"));
    // Fast by less than what is corrected: only the groups' leader knows what their time is.
    world.nodes[1].wall_ahead = 900;
    world.turns(200);
    for member in ["1", "2"] {
        world.run(0, 1, &format!("SADD {a} {member}"));
    }
    world.run(0, 1, &format!("SADD {b} 1 3"));
    assert_eq!(world.run(0, 1, &format!("PEXPIRE {a} 500")), ":1");
    assert_eq!(world.run(1, 2, &format!("SINTER {a} {b}")), "*1 $1 1");
    assert_eq!(world.run(1, 2, &format!("SINTERSTORE {b} {a} {b}")), ":1");
    assert_eq!(world.run(1, 2, &format!("SMOVE {a} {b} 2")), ":1");
    assert_eq!(world.run(1, 2, &format!("RENAME {a} {b}")), "+OK");
    assert_eq!(
        world.run(0, 1, &format!("SCARD {b}")),
        ":1",
        "it is what was renamed"
    );
    world.turns(600);
    assert_eq!(world.run(0, 1, &format!("EXISTS {b}")), ":0", "with its deadline");
}

/// What relative deadlines of 500 ms are, in an `EXEC` that a gateway evaluates whose clock is ahead or behind by less than what
/// is corrected: by how much each key outlives it by its group's time, as its leader tells it.
fn deadlines_in_a_flow(ahead: i64, beside: &[&str]) -> Vec<String> {
    let mut world = agreed();
    let (a, b) = (key(2, 0, "a"), key(2, 1, "b"));
    let keys: Vec<String> = (0..5).map(|at| key(2, at % 2, &format!("k{at}"))).collect();
    world.nodes[1].wall_ahead = ahead;
    world.turns(200);
    assert_eq!(world.run(0, 1, &format!("SADD {a} 1 2")), ":2");
    for key in &keys[2..] {
        assert_eq!(world.run(0, 1, &format!("SET {key} 1")), "+OK");
    }
    let [set, setex, expire, pexpire, getex] = [0, 1, 2, 3, 4].map(|at| &keys[at]);
    let flow = [
        format!("SET {set} 1 PX 10500"),
        format!("PSETEX {setex} 10500 1"),
        format!("EXPIRE {expire} 10"),
        format!("PEXPIRE {pexpire} 10500"),
        format!("GETEX {getex} PX 10500"),
        format!("SUNIONSTORE {b} {a}"),
    ];
    let lines: Vec<&str> = flow
        .iter()
        .map(String::as_str)
        .chain(beside.iter().copied())
        .collect();
    world.exec(1, 2, &lines);
    // A leader's clock is right: what is left is what was asked for, less what it took.
    let left = |world: &mut World, key: &String| {
        let left = world.run(0, 1, &format!("PTTL {key}"));
        let millis: i64 = left.trim_start_matches(':').parse().expect("an integer");
        match millis {
            9_900..=10_500 => "right".to_owned(),
            wrong => format!("{wrong} ms"),
        }
    };
    keys.iter().map(|key| left(&mut world, key)).collect()
}

#[test]
fn a_relative_deadline_in_a_flow_counts_from_its_groups_time() {
    for ahead in [900, -900] {
        assert_eq!(
            deadlines_in_a_flow(ahead, &[]),
            ["right"; 5],
            "ahead by {ahead} ms"
        );
    }
}

#[test]
fn a_relative_deadline_beside_a_command_on_the_whole_keyspace_counts_from_its_groups_time() {
    for ahead in [900, -900] {
        assert_eq!(
            deadlines_in_a_flow(ahead, &["DBSIZE"]),
            ["right"; 5],
            "ahead by {ahead} ms"
        );
    }
}
