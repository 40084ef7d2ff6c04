//! Commands of one turn that share a transaction.

use crate::out_of_reach::{key, one_each, seconds};

#[test]
fn what_comes_in_one_turn_is_prepared_once_in_each_group() {
    let mut world = one_each(3);
    let pairs: Vec<[String; 2]> = (0..10)
        .map(|number| [0, 1].map(|group| key(3, group, &format!("of{number}"))))
        .collect();
    for (client, [a, b]) in (10..).zip(&pairs) {
        world.send(2, client, &format!("MSET {a} {client} {b} {client}"));
    }
    let mut most = 0;
    for _ in 0..20 {
        world.turn();
        most = most
            .max(world.transactions_held(0))
            .max(world.transactions_held(1));
    }
    assert_eq!(most, 1, "one of all ten");
    for (client, [a, b]) in (10..).zip(&pairs) {
        assert_eq!(world.nodes[2].take_reply(client), "+OK");
        let value = client.to_string();
        let told = format!("*2 ${0} {value} ${0} {value}", value.len());
        assert_eq!(world.run(1, 1, &format!("MGET {a} {b}")), told);
    }
    assert_eq!(world.transactions_held(0), 0);
}

#[test]
fn what_shares_a_transaction_is_carried_out_in_the_order_in_which_it_came() {
    let mut world = one_each(2);
    let (a, b) = (key(2, 0, "a"), key(2, 1, "b"));
    world.send(0, 1, &format!("MSET {a} 1 {b} 1"));
    world.send(0, 2, &format!("MSET {b} 2 {a} 2"));
    world.turns(20);
    for client in [1, 2] {
        assert_eq!(world.nodes[0].take_reply(client), "+OK");
    }
    assert_eq!(world.run(1, 1, &format!("MGET {a} {b}")), "*2 $1 2 $1 2");
}

#[test]
fn what_is_of_several_databases_is_written_each_to_its_own() {
    let mut world = one_each(2);
    let (a, b) = (key(2, 0, "a"), key(2, 1, "b"));
    assert_eq!(world.run(0, 2, "SELECT 1"), "+OK");
    world.send(0, 1, &format!("MSET {a} 1 {b} 1"));
    world.send(0, 2, &format!("MSET {a} 2 {b} 2"));
    world.turns(20);
    for (client, told) in [(1, "*2 $1 1 $1 1"), (2, "*2 $1 2 $1 2")] {
        assert_eq!(world.nodes[0].take_reply(client), "+OK");
        assert_eq!(world.run(0, client, &format!("MGET {a} {b}")), told);
    }
}

#[test]
fn what_a_connection_sends_behind_it_waits_for_it() {
    let mut world = one_each(2);
    let (a, b) = (key(2, 0, "a"), key(2, 1, "b"));
    for words in [
        format!("MSET {a} 1 {b} 1"),
        format!("SET {a} 2"),
        format!("APPEND {b} 3"),
        format!("GET {a}"),
        format!("MSET {a} 4 {b} 4"),
        format!("GET {b}"),
    ] {
        world.send(0, 1, &words);
    }
    world.send(0, 2, &format!("MSET {a} 9 {b} 9"));
    world.turns(60);
    let told = world.nodes[0].take_reply(1);
    let words: Vec<&str> = told.split(' ').collect();
    // What the other client wrote may come anywhere between.
    assert_eq!(words[..3], ["+OK", "+OK", ":2"], "{told}");
    assert!(["2", "9"].contains(&words[4]), "{told}");
    assert_eq!(words[5], "+OK", "{told}");
    assert!(["4", "9"].contains(&words[7]), "{told}");
}

#[test]
fn commands_without_a_common_group_do_not_wait_for_each_other() {
    let mut world = one_each(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|group| key(4, group, "k"));
    world.dead[3] = true;
    world.send(0, 1, &format!("MSET {a} 1 {b} 1"));
    world.send(0, 2, &format!("MSET {c} 1 {d} 1"));
    world.turns(20);
    assert_eq!(world.nodes[0].take_reply(1), "+OK");
    assert_eq!(world.nodes[0].take_reply(2), "", "one of its groups is gone");
    // While that one waits, a group may be gone: nobody else is to wait for it.
    world.turns(60);
    let others = [0, 1, 3].map(|group| key(4, group, "other"));
    world.send(0, 4, &format!("MSET {} 3 {} 3", others[0], others[2]));
    world.send(0, 5, &format!("MSET {a} 4 {} 4", others[1]));
    world.turns(20);
    assert_eq!(world.nodes[0].take_reply(5), "+OK");
}

#[test]
fn who_shares_a_transaction_goes_on_alone_if_nothing_was_done_because_of_another() {
    let mut world = one_each(3);
    let [a, b, c] = [0, 1, 2].map(|group| key(3, group, "k"));
    // The link is gone before anything is sent there: what names that group is certain not to be done.
    world.nodes[0].gateway.on_link(ids::NodeId(2), false);
    world.dead[2] = true;
    world.send(0, 1, &format!("MSET {a} 1 {b} 1"));
    world.send(0, 2, &format!("MSET {a} 2 {c} 2"));
    seconds(&mut world, 12);
    assert_eq!(world.nodes[0].take_reply(1), "+OK");
    let told = world.nodes[0].take_reply(2);
    assert!(told.starts_with("-CLUSTERDOWN"), "{told}");
    assert_eq!(world.run(0, 3, &format!("MGET {a} {b}")), "*2 $1 1 $1 1");
    assert_eq!(world.transactions_held(0), 0);
}
