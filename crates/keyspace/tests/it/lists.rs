//! Lists against a plain queue, in both of their forms.

use crate::node::{Node, db};
use ids::Prng;
use keyspace::{EncodingLimits, EventClasses};
use resp::{ArgsBuf, Protocol};
use std::collections::{BTreeMap, VecDeque};

type Lists = BTreeMap<String, VecDeque<String>>;

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array<'a>(texts: impl ExactSizeIterator<Item = &'a String>) -> String {
    let head = format!("*{}\r\n", texts.len());
    texts.fold(head, |reply, text| reply + &bulk(text))
}

fn int(number: i64) -> String {
    format!(":{number}\r\n")
}

const NIL: &str = "$-1\r\n";
const NO_ARRAY: &str = "*-1\r\n";
const OK: &str = "+OK\r\n";

fn pop(list: &mut VecDeque<String>, end: &str) -> Option<String> {
    match end {
        "LPOP" | "LEFT" => list.pop_front(),
        _ => list.pop_back(),
    }
}

fn push(list: &mut VecDeque<String>, end: &str, text: String) {
    match end {
        "LPUSH" | "LPUSHX" | "LEFT" => list.push_front(text),
        _ => list.push_back(text),
    }
}

/// What the commands do, written as plainly as possible. No list in it is empty.
fn run(lists: &mut Lists, words: &[String]) -> String {
    let number = |at: usize| words[at].parse::<i64>().expect("the test makes numbers");
    let key = &words[1];
    let range = |len: usize| {
        let from_start = |index: i64| if index < 0 { index + len as i64 } else { index };
        let (start, stop) = (from_start(number(2)).max(0), from_start(number(3)));
        (0..len as i64)
            .filter(|index| (start..=stop).contains(index))
            .map(|index| index as usize)
            .collect::<Vec<_>>()
    };
    let reply = match words[0].as_str() {
        name @ ("LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX") => {
            if name.ends_with('X') && !lists.contains_key(key) {
                return int(0);
            }
            let list = lists.entry(key.clone()).or_default();
            words[2..].iter().for_each(|text| push(list, name, text.clone()));
            int(list.len() as i64)
        }
        name @ ("LPOP" | "RPOP") => match (lists.get_mut(key), words.len()) {
            (None, 2) => NIL.into(),
            (None, _) => NO_ARRAY.into(),
            (Some(list), 2) => bulk(&pop(list, name).expect("no list is empty")),
            (Some(list), _) => {
                let popped: Vec<_> = (0..number(2)).map_while(|_| pop(list, name)).collect();
                array(popped.iter())
            }
        },
        "LLEN" => int(lists.get(key).map_or(0, VecDeque::len) as i64),
        "LINDEX" => lists
            .get(key)
            .and_then(|list| {
                let index = number(2);
                let index = if index < 0 {
                    index + list.len() as i64
                } else {
                    index
                };
                list.get(usize::try_from(index).ok()?)
            })
            .map_or(NIL.into(), |text| bulk(text)),
        "LSET" => match lists.get_mut(key) {
            None => "-ERR no such key\r\n".into(),
            Some(list) => {
                let index = number(2);
                let index = if index < 0 {
                    index + list.len() as i64
                } else {
                    index
                };
                match usize::try_from(index).ok().and_then(|index| list.get_mut(index)) {
                    None => "-ERR index out of range\r\n".into(),
                    Some(old) => {
                        *old = words[3].clone();
                        OK.into()
                    }
                }
            }
        },
        "LRANGE" => lists.get(key).map_or("*0\r\n".into(), |list| {
            array(range(list.len()).iter().map(|&index| &list[index]))
        }),
        "LTRIM" => {
            if let Some(list) = lists.get_mut(key) {
                *list = range(list.len())
                    .iter()
                    .map(|&index| list[index].clone())
                    .collect();
            }
            OK.into()
        }
        "LINSERT" => match lists.get_mut(key) {
            None => int(0),
            Some(list) => match list.iter().position(|text| *text == words[3]) {
                None => int(-1),
                Some(at) => {
                    list.insert(at + usize::from(words[2] == "AFTER"), words[4].clone());
                    int(list.len() as i64)
                }
            },
        },
        "LREM" => lists.get_mut(key).map_or(int(0), |list| {
            let (before, count) = (list.len(), number(2));
            let mut left = if count == 0 { i64::MAX } else { count.abs() };
            let mut all: Vec<String> = list.drain(..).collect();
            if count < 0 {
                all.reverse();
            }
            all.retain(|text| {
                let goes = *text == words[3] && left > 0;
                left -= i64::from(goes);
                !goes
            });
            if count < 0 {
                all.reverse();
            }
            *list = all.into();
            int((before - list.len()) as i64)
        }),
        "LPOS" => {
            let (rank, count, len) = (number(4), number(6), number(8));
            let mut found = Vec::new();
            if let Some(list) = lists.get(key) {
                let mut all: Vec<_> = list.iter().enumerate().collect();
                if rank < 0 {
                    all.reverse();
                }
                all.truncate(if len == 0 { usize::MAX } else { len as usize });
                found.extend(
                    all.iter()
                        .filter(|(_, text)| **text == words[2])
                        .map(|(at, _)| *at),
                );
                found.drain(..found.len().min(rank.unsigned_abs() as usize - 1));
                found.truncate(if count == 0 { usize::MAX } else { count as usize });
            }
            let head = format!("*{}\r\n", found.len());
            found.iter().fold(head, |reply, &at| reply + &int(at as i64))
        }
        "LMOVE" => match lists.get_mut(key).and_then(|list| pop(list, &words[3])) {
            None => NIL.into(),
            Some(text) => {
                push(
                    lists.entry(words[2].clone()).or_default(),
                    &words[4],
                    text.clone(),
                );
                bulk(&text)
            }
        },
        "LMPOP" => match words[2..4].iter().find(|key| lists.contains_key(*key)) {
            None => NO_ARRAY.into(),
            Some(key) => {
                let list = lists.get_mut(key).expect("it was found");
                let popped: Vec<_> = (0..number(6)).map_while(|_| pop(list, &words[4])).collect();
                format!("*2\r\n{}{}", bulk(key), array(popped.iter()))
            }
        },
        other => unreachable!("{other}"),
    };
    lists.retain(|_, list| !list.is_empty());
    reply
}

fn random_words(prng: &mut Prng) -> Vec<String> {
    let templates = [
        "LPUSH K V",
        "RPUSH K V",
        "LPUSH K V V V",
        "RPUSH K V V V V V V",
        "LPUSHX K V",
        "RPUSHX K V V",
        "LPOP K",
        "RPOP K",
        "LPOP K C",
        "RPOP K C",
        "LLEN K",
        "LINDEX K N",
        "LSET K N V",
        "LRANGE K N N",
        "LRANGE K 0 -1",
        "LTRIM K C -1",
        "LTRIM K 0 N",
        "LINSERT K BEFORE V V",
        "LINSERT K AFTER V V",
        "LREM K N V",
        "LPOS K V RANK R COUNT C MAXLEN C",
        "LMOVE K K E E",
        "LMPOP 2 K K E COUNT P",
    ];
    let template = templates[prng.below(templates.len() as u64) as usize];
    let mut fill = |word: &str| match word {
        "K" => format!("k{}", prng.below(3)),
        "V" => match prng.below(12) {
            0 => "x".repeat(prng.below(3_000) as usize),
            1..8 => prng.below(5).to_string(),
            _ => "y".repeat(prng.below(8) as usize),
        },
        "C" => prng.below(5).to_string(),
        "P" => (1 + prng.below(5)).to_string(),
        "N" => (prng.below(60) as i64 - 30).to_string(),
        "R" => [-3, -2, -1, 1, 2, 3][prng.below(6) as usize].to_string(),
        "E" => ["LEFT", "RIGHT"][prng.below(2) as usize].to_owned(),
        _ => word.to_owned(),
    };
    template.split(' ').map(&mut fill).collect()
}

#[test]
fn commands_on_lists_agree_with_a_plain_queue() {
    for (seed, list_node_size) in [1, 2, 8, 128, -1, -2].into_iter().enumerate() {
        let mut prng = Prng::new(40 + seed as u64);
        let mut node = Node::new(seed as u64);
        node.open(1);
        node.keyspace.set_limits(EncodingLimits {
            list_node_size,
            ..EncodingLimits::default()
        });
        let mut lists = Lists::new();
        for step in 0..6_000 {
            let words = random_words(&mut prng);
            let args = ArgsBuf::from_slices(&words);
            let reply = node.apply(db(0), Protocol::Resp2, args.as_args());
            let expected = run(&mut lists, &words);
            assert_eq!(
                String::from_utf8_lossy(&reply),
                expected,
                "seed {seed}, step {step}: {words:?}"
            );
        }
    }
}

fn encoding(node: &mut Node) -> String {
    node.run("OBJECT ENCODING k")
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_list_has_nodes_beyond_the_limit_of_one_and_none_again_at_half_of_it() {
    let mut node = Node::new(0);
    node.open(1);
    node.keyspace.set_limits(EncodingLimits {
        list_node_size: 8,
        ..EncodingLimits::default()
    });
    node.run("RPUSH k 1 2 3 4 5 6 7 8");
    assert_eq!(encoding(&mut node), "listpack");
    node.run("LPUSH k 0");
    assert_eq!(encoding(&mut node), "quicklist");
    node.run("RPOP k 4");
    assert_eq!(encoding(&mut node), "quicklist");
    node.run("LREM k 1 2");
    assert_eq!(encoding(&mut node), "listpack");
    assert_eq!(
        node.run("LRANGE k 0 -1"),
        array(["0", "1", "3", "4"].map(String::from).iter())
    );
    let long = "x".repeat(9_000);
    node.run(&format!("LSET k 1 {long}"));
    assert_eq!(encoding(&mut node), "quicklist");
    assert_eq!(node.run("LINDEX k 1"), bulk(&long));
    assert_eq!(node.run("LINDEX k 3"), bulk("4"));
    node.run("LSET k 1 1");
    assert_eq!(encoding(&mut node), "listpack");
}

#[test]
fn events_are_those_of_redis_and_in_its_order() {
    let mut node = Node::new(0);
    node.open(1);
    node.local.notify = EventClasses(EventClasses::LIST.0 | EventClasses::GENERIC.0);
    node.tells(&[
        ("RPUSH a 1 2 3 1", "rpush a"),
        ("LPUSHX none 1", ""),
        ("LPUSHX a 0", "lpush a"),
        ("LINSERT a BEFORE 9 9", ""),
        ("LINSERT a AFTER 1 9", "linsert a"),
        ("LSET a 0 8", "lset a"),
        ("LSET a 99 8", ""),
        ("LREM a 0 1", "lrem a"),
        ("LREM a 0 1", ""),
        ("LTRIM a 0 -1", "ltrim a"),
        ("LPOP a 0", ""),
        ("LMOVE a b LEFT RIGHT", "rpush b, lpop a"),
        ("LMOVE a a LEFT RIGHT", "rpush a, lpop a"),
        ("RPOPLPUSH b b", "lpush b, rpop b"),
        ("RPOPLPUSH b a", "lpush a, rpop b, del b"),
        ("LMPOP 2 b a LEFT COUNT 2", "lpop a"),
        ("LPUSH b 1", "lpush b"),
        ("RPOP b", "rpop b, del b"),
        ("LTRIM a 5 4", "ltrim a, del a"),
        ("LTRIM a 0 0", ""),
    ]);
}

#[test]
fn moving_an_element_checks_the_destination_only_if_there_is_one_to_move() {
    let mut node = Node::new(0);
    node.open(1);
    node.run("SET s x");
    assert_eq!(node.run("LMOVE none s LEFT LEFT"), NIL);
    node.run("RPUSH a 1");
    assert!(node.run("LMOVE a s LEFT LEFT").starts_with("-WRONGTYPE"));
    assert!(node.run("LMOVE s a LEFT LEFT").starts_with("-WRONGTYPE"));
    assert_eq!(node.run("LLEN a"), int(1));
    assert_eq!(node.run("LMOVE a a LEFT RIGHT"), bulk("1"));
    assert_eq!(node.run("LLEN a"), int(1));
    assert!(node.run("LMPOP 3 none s a LEFT").starts_with("-WRONGTYPE"));
}
