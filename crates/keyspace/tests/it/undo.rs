//! What commands did is taken back, and then it never was.

use crate::node::{Node, db, header};
use crate::words;
use command::{CommandRoute, Spec};
use ids::{Prng, UnixMillis};
use keyspace::{Keyspace, UNDO_BYTES_MAX, Undo};
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};

/// Carries out a command that writes keys, if what it may change can be kept. `None` of any other.
fn run_kept(node: &mut Node, undo: &mut Undo, number: u8, args: Args<'_>) -> Option<bool> {
    let spec: &'static Spec = command::resolve(args).ok()?;
    let command = command::parse(spec, args)?.ok()?;
    if spec.route != CommandRoute::Keys || !command.writes() {
        return None;
    }
    if !undo.keep(&node.keyspace, db(number), spec, args, &command) {
        return Some(false);
    }
    let mut out = Vec::new();
    let mut writer = ReplyWriter::new(&mut out, Protocol::Resp2);
    node.keyspace
        .apply_command(db(number), &command, &mut node.local, &mut writer);
    Some(true)
}

fn run_words(node: &mut Node, undo: &mut Undo, line: &str) -> Option<bool> {
    let words = ArgsBuf::from_slices(line.split_ascii_whitespace());
    run_kept(node, undo, 0, words.as_args())
}

/// What the state is, and what is counted of it. Tables that were made larger stay so.
fn picture(keyspace: &Keyspace) -> impl PartialEq + std::fmt::Debug + use<> {
    let changes = (0..16u8).map(|number| keyspace.counts(db(number)));
    (
        keyspace.state_hash(),
        keyspace.applied(),
        changes.collect::<Vec<_>>(),
    )
}

#[test]
fn what_is_taken_back_never_was() {
    let mut kept = 0;
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let mut node = Node::new(seed);
        let mut now = 1_000;
        for round in 0..12 {
            now += prng.below(400) as i64;
            node.keyspace
                .open(&header(now, prng.next_u64()))
                .expect("the rules are known");
            node.local.now = UnixMillis(now);
            for _ in 0..40 {
                let args = words::random(&mut prng);
                node.apply(db(prng.below(3) as u8), Protocol::Resp2, args.as_args());
            }
            // What has expired is there until somebody meets it.
            now += prng.below(400) as i64;
            node.keyspace
                .open(&header(now, prng.next_u64()))
                .expect("the rules are known");
            node.local.events.clear();
            let before = (picture(&node.keyspace), node.local.changes, node.local.expired);
            let mut undo = Undo::begin(&node.local);
            for _ in 0..prng.below(12) {
                let args = words::random(&mut prng);
                let number = prng.below(3) as u8;
                kept += usize::from(run_kept(&mut node, &mut undo, number, args.as_args()) == Some(true));
            }
            undo.take_back(&mut node.keyspace, &mut node.local);
            let after = (picture(&node.keyspace), node.local.changes, node.local.expired);
            assert_eq!(after, before, "seed {seed}, round {round}");
            assert_eq!(node.local.events.len(), 0);
        }
    }
    assert!(kept > 1_000, "{kept} commands were carried out");
}

#[test]
fn chance_is_taken_back_too() {
    let mut node = Node::new(1);
    node.open(1_000);
    node.run("SADD s 1 2 3 4 5 6 7 8 9 10 11 12");
    let mut undo = Undo::begin(&node.local);
    assert_eq!(run_words(&mut node, &mut undo, "SPOP s 3"), Some(true));
    undo.take_back(&mut node.keyspace, &mut node.local);
    let mut other = Node::new(1);
    other.open(1_000);
    other.run("SADD s 1 2 3 4 5 6 7 8 9 10 11 12");
    assert_eq!(node.run("SPOP s 5"), other.run("SPOP s 5"));
    assert_eq!(node.keyspace.state_hash(), other.keyspace.state_hash());
}

#[test]
fn what_is_large_is_not_changed() {
    let mut node = Node::new(1);
    node.open(1_000);
    for number in 0..UNDO_BYTES_MAX / 8 {
        node.run(&format!("SADD large member:{number}"));
    }
    let mut undo = Undo::begin(&node.local);
    assert_eq!(run_words(&mut node, &mut undo, "SET small 1"), Some(true));
    assert_eq!(run_words(&mut node, &mut undo, "SADD large another"), Some(false));
    assert_eq!(node.run("SISMEMBER large another"), ":0\r\n");
    undo.take_back(&mut node.keyspace, &mut node.local);
    assert_eq!(node.run("EXISTS small large"), ":1\r\n");
}

#[test]
fn a_key_that_came_and_went_was_absent_all_the_time() {
    let mut node = Node::new(1);
    node.open(1_000);
    let watched = node.keyspace.version(db(0), b"k");
    let mut undo = Undo::begin(&node.local);
    assert_eq!(run_words(&mut node, &mut undo, "SET k 1"), Some(true));
    assert_eq!(run_words(&mut node, &mut undo, "RENAME k l"), Some(true));
    undo.take_back(&mut node.keyspace, &mut node.local);
    assert_eq!(node.keyspace.version(db(0), b"k"), watched);
    assert_eq!(node.run("EXISTS k l"), ":0\r\n");
}
