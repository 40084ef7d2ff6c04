//! Sets against plain ones, through all their forms.

use crate::node::{Node, db};
use ids::Prng;
use resp::{ArgsBuf, Protocol};
use std::collections::{BTreeMap, BTreeSet};

type Sets = BTreeMap<String, BTreeSet<String>>;

/// The elements of an array of bulk strings, or the one bulk string.
fn texts(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n");
    let mut texts = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') && line != "$-1" {
            texts.push(lines.next().expect("a bulk string has two lines").to_owned());
        }
    }
    texts
}

fn set_of(reply: &str) -> BTreeSet<String> {
    let texts = texts(reply);
    let set: BTreeSet<String> = texts.iter().cloned().collect();
    assert_eq!(set.len(), texts.len(), "members are answered once: {reply:?}");
    set
}

fn number(reply: &str) -> usize {
    let digits = reply.strip_prefix(':').and_then(|rest| rest.strip_suffix("\r\n"));
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no number: {reply:?}"))
}

struct Pair {
    node: Node,
    sets: Sets,
    prng: Prng,
}

impl Pair {
    fn run(&mut self, words: &[&str]) -> String {
        let words = ArgsBuf::from_slices(words);
        let reply = self.node.apply(db(0), Protocol::Resp2, words.as_args());
        String::from_utf8(reply).expect("the test's members are text")
    }

    fn key(&mut self) -> String {
        format!("k{}", self.prng.below(4))
    }

    /// One of about nine hundred, so that sets outgrow every compact form; integers of every width among them.
    fn member(&mut self) -> String {
        match self.prng.below(40) {
            0 => (self.prng.below(9) as i64 - 4).to_string(),
            1 => ((self.prng.below(40) as i64 - 20) * 5_000_000_000).to_string(),
            2 => ((self.prng.below(40) as i64 - 20) * 40_000).to_string(),
            3 => format!("m{}", self.prng.below(100)),
            4 if self.prng.below(20) == 0 => "long".repeat(20),
            _ => self.prng.below(700).to_string(),
        }
    }

    fn members(&mut self) -> Vec<String> {
        (0..self.prng.below(40)).map(|_| self.member()).collect()
    }

    fn model(&mut self, key: &str) -> &mut BTreeSet<String> {
        self.sets.entry(key.to_owned()).or_default()
    }

    fn combined(&self, operation: &str, keys: &[String]) -> BTreeSet<String> {
        let empty = BTreeSet::new();
        let set = |key: &String| self.sets.get(key).unwrap_or(&empty);
        keys[1..]
            .iter()
            .fold(set(&keys[0]).clone(), |sum, key| match operation {
                "SINTER" => &sum & set(key),
                "SUNION" => &sum | set(key),
                _ => &sum - set(key),
            })
    }

    fn step(&mut self) {
        let key = self.key();
        match self.prng.below(16) {
            0..6 => {
                let mut members = self.members();
                // Otherwise few sets would keep to integers for long.
                if self.prng.below(2) == 0 {
                    members.retain(|member| member.parse::<i64>().is_ok());
                }
                members.push("7".to_owned());
                let mut words = vec!["SADD", &key];
                words.extend(members.iter().map(String::as_str));
                let added = number(&self.run(&words));
                let set = self.model(&key);
                let before = set.len();
                set.extend(members);
                assert_eq!(added, set.len() - before);
            }
            6 => {
                let members = [self.members(), vec![self.member()]].concat();
                let mut words = vec!["SREM", &key];
                words.extend(members.iter().map(String::as_str));
                let removed = number(&self.run(&words));
                let set = self.model(&key);
                assert_eq!(
                    removed,
                    members.iter().filter(|member| set.remove(*member)).count()
                );
            }
            7 => {
                let member = self.member();
                let reply = self.run(&["SISMEMBER", &key, &member]);
                assert_eq!(number(&reply) == 1, self.model(&key).contains(&member));
            }
            8 => {
                let count = match self.prng.below(4) {
                    0 => 1_000,
                    1 => self.model(&key).len() as u64 * 2 / 3,
                    _ => self.prng.below(20),
                };
                let popped = set_of(&self.run(&["SPOP", &key, &count.to_string()]));
                let set = self.model(&key);
                assert_eq!(popped.len(), set.len().min(count as usize));
                assert!(popped.iter().all(|member| set.remove(member)));
            }
            9 => {
                let popped = texts(&self.run(&["SPOP", &key]));
                let set = self.model(&key);
                assert_eq!(popped.is_empty(), set.is_empty());
                assert!(popped.iter().all(|member| set.remove(member)));
            }
            10 => {
                let count = self.prng.below(60) as i64 - 30;
                let picked = texts(&self.run(&["SRANDMEMBER", &key, &count.to_string()]));
                let set = self.model(&key);
                assert!(picked.iter().all(|member| set.contains(member)));
                if count < 0 && !set.is_empty() {
                    assert_eq!(picked.len(), count.unsigned_abs() as usize);
                } else {
                    assert_eq!(picked.len(), set.len().min(count.max(0) as usize));
                    assert_eq!(picked.iter().collect::<BTreeSet<_>>().len(), picked.len());
                }
            }
            11 => {
                let (destination, member) = (self.key(), self.member());
                let moved = number(&self.run(&["SMOVE", &key, &destination, &member])) == 1;
                assert_eq!(moved, self.model(&key).remove(&member));
                if moved {
                    self.model(&destination).insert(member);
                }
            }
            12 | 13 => {
                let operation = ["SINTER", "SUNION", "SDIFF"][self.prng.below(3) as usize];
                let keys: Vec<String> = (0..1 + self.prng.below(3)).map(|_| self.key()).collect();
                let expected = self.combined(operation, &keys);
                let mut words: Vec<&str> = keys.iter().map(String::as_str).collect();
                if self.prng.below(3) == 0 {
                    let name = format!("{operation}STORE");
                    words.splice(0..0, [name.as_str(), &key]);
                    assert_eq!(number(&self.run(&words)), expected.len());
                    *self.model(&key) = expected;
                } else {
                    words.insert(0, operation);
                    assert_eq!(set_of(&self.run(&words)), expected);
                }
            }
            14 => {
                let keys = [self.key(), self.key()];
                let (count, limit) = (self.combined("SINTER", &keys).len(), self.prng.below(30) as usize);
                let reply = self.run(&["SINTERCARD", "2", &keys[0], &keys[1], "LIMIT", &limit.to_string()]);
                assert_eq!(number(&reply), if limit == 0 { count } else { count.min(limit) });
            }
            _ => {
                let mut found = BTreeSet::new();
                let mut cursor = "0".to_owned();
                loop {
                    let mut page = texts(&self.run(&["SSCAN", &key, &cursor, "COUNT", "50", "MATCH", "*1*"]));
                    cursor = page.remove(0);
                    found.extend(page);
                    if cursor == "0" {
                        break;
                    }
                }
                let expected = self.model(&key).iter().filter(|member| member.contains('1'));
                assert!(found.iter().eq(expected));
            }
        }
        assert_eq!(number(&self.run(&["SCARD", &key])), self.model(&key).len());
        assert_eq!(
            number(&self.run(&["EXISTS", &key])) == 1,
            !self.model(&key).is_empty()
        );
    }
}

#[test]
fn random_commands_do_what_they_do_to_plain_sets() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut node = Node::new(seed);
        node.open(1);
        let mut pair = Pair {
            node,
            sets: Sets::new(),
            prng: Prng::new(seed),
        };
        for _ in 0..600 {
            pair.step();
        }
        for key in ["k0", "k1", "k2", "k3"] {
            let found = set_of(&pair.run(&["SMEMBERS", key]));
            assert_eq!(found, *pair.model(key));
        }
    }
}

#[test]
fn a_set_is_kept_as_its_members_and_the_limits_allow() {
    let mut node = Node::new(1);
    node.open(1);
    let mut encoding = |line: &str| {
        node.run(line);
        texts(&node.run("OBJECT ENCODING k"))[0].clone()
    };
    let numbers = |range: std::ops::Range<i64>| range.map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(encoding("SADD k 1 2 3"), "intset");
    assert_eq!(encoding("SADD k a"), "listpack");
    assert_eq!(encoding("SREM k a"), "listpack");
    assert_eq!(encoding(&format!("SADD k {}", numbers(1..129))), "listpack");
    assert_eq!(encoding("SADD k 129"), "hashtable");
    assert_eq!(encoding("SPOP k 100"), "intset", "what is left is kept anew");
    assert_eq!(encoding("SINTERSTORE k k k"), "intset");
    assert_eq!(encoding(&format!("SADD k {}", numbers(0..512))), "intset");
    assert_eq!(encoding("SADD k 512"), "hashtable");
    assert_eq!(encoding("SDIFFSTORE k k none"), "hashtable");
}

#[test]
fn a_long_member_makes_a_set_large() {
    let mut node = Node::new(1);
    node.open(1);
    node.run(&format!("SADD k 1 {}", "x".repeat(64)));
    assert_eq!(texts(&node.run("OBJECT ENCODING k")), ["listpack"]);
    node.run(&format!("SADD k {}", "y".repeat(65)));
    assert_eq!(texts(&node.run("OBJECT ENCODING k")), ["hashtable"]);
    assert_eq!(number(&node.run("SCARD k")), 3);
}

#[test]
fn every_member_is_as_likely_to_be_popped() {
    let mut node = Node::new(1);
    let mut counts = BTreeMap::new();
    for round in 0..4_000 {
        node.open_with(1, round);
        node.run("SADD k a b c d e f g h");
        for member in texts(&node.run("SPOP k 3")) {
            *counts.entry(member).or_insert(0u32) += 1;
        }
        node.run("DEL k");
    }
    // 1,500 on average; the deviation of one count is about thirty.
    assert_eq!(counts.len(), 8);
    assert!(
        counts.values().all(|count| (1_300..1_700).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn picks_that_repeat_too_often_are_refused() {
    let mut node = Node::new(1);
    node.open(1);
    node.run("SADD k a");
    assert_eq!(
        node.run("SRANDMEMBER k -1048577"),
        "-ERR value is out of range\r\n"
    );
    assert_eq!(texts(&node.run("SRANDMEMBER k -1000")).len(), 1_000);
}

#[test]
fn events_are_those_of_redis() {
    let mut node = Node::new(1);
    node.open(1);
    node.local.notify = keyspace::EventClasses(!keyspace::EventClasses::NEW.0);
    node.tells(&[
        ("SADD a 1 2 3", "sadd a"),
        ("SADD a 1", ""),
        ("SADD b 1", "sadd b"),
        ("SREM a 9", ""),
        ("SREM a 3", "srem a"),
        ("SMOVE a b 2", "srem a, sadd b"),
        ("SMOVE a b 1", "srem a, del a"),
        ("SUNIONSTORE a b", "sunionstore a"),
        ("SINTERSTORE a b", "sinterstore a"),
        ("SDIFFSTORE a b", "sdiffstore a"),
        ("SDIFFSTORE a b b", "del a"),
        ("SDIFFSTORE a b b", ""),
        ("SPOP b", "spop b"),
        ("SPOP b 0", ""),
        ("SPOP b 5", "spop b, del b"),
        ("SADD l 2 1", "sadd l"),
        ("SORT l STORE d", "sortstore d"),
        ("SORT none STORE d", "keymiss none, del d"),
    ]);
}
