//! Strings and keys against a plain map.

use crate::node::{Node, db};
use ids::Prng;
use resp::{ArgsBuf, Protocol};
use std::collections::BTreeMap;

/// What a handful of commands do, written as plainly as possible.
#[derive(Default)]
struct Model {
    time: i64,
    keys: BTreeMap<(u8, String), (String, Option<i64>)>,
}

const OK: &str = "+OK\r\n";
const ABSENT: &str = "-ERR no such key\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const OVERFLOW: &str = "-ERR increment or decrement would overflow\r\n";
const NIL: &str = "$-1\r\n";

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn int(number: i64) -> String {
    format!(":{number}\r\n")
}

impl Model {
    fn open(&mut self, now: i64) {
        self.time = self.time.max(now);
        let time = self.time;
        self.keys
            .retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > time));
    }

    /// The integer under a key that must be there.
    fn balance(&self, db: u8, key: &str) -> Result<i64, String> {
        let (value, _) = self.keys.get(&(db, key.to_owned())).ok_or(ABSENT)?;
        let canonical = value
            .parse()
            .ok()
            .filter(|number: &i64| number.to_string() == *value);
        canonical.ok_or_else(|| NOT_AN_INTEGER.into())
    }

    fn put_balance(&mut self, db: u8, key: &str, balance: i64) -> String {
        let (value, _) = self
            .keys
            .get_mut(&(db, key.to_owned()))
            .expect("it has a balance");
        *value = balance.to_string();
        int(balance)
    }

    fn add(&mut self, db: u8, key: &str, by: i64) -> Result<String, String> {
        let after = self.balance(db, key)?.checked_add(by).ok_or(OVERFLOW)?;
        Ok(self.put_balance(db, key, after))
    }

    /// The two parts of a transfer one after the other, on a copy that is only kept if both are done.
    fn transfer(&mut self, db: u8, from: &str, to: &str, amount: i64) -> Result<String, String> {
        if amount < 0 {
            return Err("-ERR value is out of range, must be positive\r\n".into());
        }
        let before = self.keys.clone();
        let taken = self.take(db, from, amount)?;
        let given = self.add(db, to, amount).inspect_err(|_| self.keys = before)?;
        // To itself, nothing is taken away in the end.
        let taken = if from == to { &given } else { &taken };
        Ok(format!("*2\r\n{taken}{given}"))
    }

    fn take(&mut self, db: u8, key: &str, amount: i64) -> Result<String, String> {
        let before = self.balance(db, key)?;
        if before < amount {
            return Err("-ERR insufficient balance\r\n".into());
        }
        Ok(self.put_balance(db, key, before - amount))
    }

    fn run(&mut self, db: u8, words: &[String]) -> String {
        let at = |key: &String| (db, key.clone());
        let word = |at: usize| words[at].as_str();
        let number = |at: usize| words[at].parse::<i64>().expect("the test makes numbers");
        let time = self.time;
        let reply = match word(0) {
            "GET" => self
                .keys
                .get(&at(&words[1]))
                .map_or(NIL.into(), |(value, _)| bulk(value)),
            "SET" => {
                let before = self.keys.get(&at(&words[1])).cloned();
                let refused = match words.get(3).map(String::as_str) {
                    Some("NX") => before.is_some(),
                    Some("XX") => before.is_none(),
                    Some("IFEQ") => before.as_ref().is_none_or(|(value, _)| *value != words[4]),
                    _ => false,
                };
                let deadline = match words.get(3).map(String::as_str) {
                    Some("PX") => Some(time + number(4)),
                    Some("PXAT") => Some(number(4)),
                    Some("KEEPTTL") => before.as_ref().and_then(|(_, deadline)| *deadline),
                    _ => None,
                };
                if !refused {
                    self.keys.insert(at(&words[1]), (words[2].clone(), deadline));
                }
                match words.get(3).map(String::as_str) {
                    Some("GET") => before.map_or(NIL.into(), |(value, _)| bulk(&value)),
                    _ if refused => NIL.into(),
                    _ => OK.into(),
                }
            }
            "GETDEL" => self
                .keys
                .remove(&at(&words[1]))
                .map_or(NIL.into(), |(value, _)| bulk(&value)),
            "APPEND" => {
                let (value, _) = self.keys.entry(at(&words[1])).or_default();
                value.push_str(&words[2]);
                int(value.len() as i64)
            }
            "STRLEN" => int(self
                .keys
                .get(&at(&words[1]))
                .map_or(0, |(value, _)| value.len() as i64)),
            "INCRBY" => {
                let before = self.keys.get(&at(&words[1])).map_or("0", |(value, _)| value);
                let canonical = before
                    .parse::<i64>()
                    .ok()
                    .filter(|number| number.to_string() == before);
                match canonical.map(|before| before.checked_add(number(2))) {
                    None => "-ERR value is not an integer or out of range\r\n".into(),
                    Some(None) => "-ERR increment or decrement would overflow\r\n".into(),
                    Some(Some(after)) => {
                        self.keys.entry(at(&words[1])).or_default().0 = after.to_string();
                        int(after)
                    }
                }
            }
            "CAS" => match self.keys.get_mut(&at(&words[1])) {
                None => NIL.into(),
                Some((value, _)) => {
                    let is_equal = *value == words[2];
                    if is_equal {
                        value.clone_from(&words[3]);
                    }
                    int(i64::from(is_equal))
                }
            },
            "ADD" => self.add(db, &words[1], number(2)).unwrap_or_else(|error| error),
            "SUB" => self.add(db, &words[1], -number(2)).unwrap_or_else(|error| error),
            "XFER" => {
                let done = self.transfer(db, &words[1], &words[2], number(3));
                done.unwrap_or_else(|error| error)
            }
            "DEL" => int(words[1..]
                .iter()
                .filter(|key| self.keys.remove(&at(key)).is_some())
                .count() as i64),
            "EXISTS" => int(words[1..]
                .iter()
                .filter(|key| self.keys.contains_key(&at(key)))
                .count() as i64),
            "PEXPIREAT" => match self.keys.get_mut(&at(&words[1])) {
                None => int(0),
                Some((_, before)) => {
                    let (before_deadline, after) = (*before, number(2));
                    let accepted = match words.get(3).map(String::as_str) {
                        Some("NX") => before_deadline.is_none(),
                        Some("GT") => before_deadline.is_some_and(|before| after > before),
                        Some("LT") => before_deadline.is_none_or(|before| after < before),
                        _ => true,
                    };
                    if accepted {
                        *before = Some(after);
                    }
                    int(i64::from(accepted))
                }
            },
            "PERSIST" => {
                let deadline = self
                    .keys
                    .get_mut(&at(&words[1]))
                    .and_then(|(_, deadline)| deadline.take());
                int(i64::from(deadline.is_some()))
            }
            "PTTL" => match self.keys.get(&at(&words[1])) {
                None => int(-2),
                Some((_, None)) => int(-1),
                Some((_, Some(deadline))) => int(deadline - time),
            },
            "RENAME" | "RENAMENX" => {
                let only_if_absent = word(0) == "RENAMENX";
                let occupied = self.keys.contains_key(&at(&words[2]));
                if !self.keys.contains_key(&at(&words[1])) {
                    "-ERR no such key\r\n".into()
                } else if only_if_absent && occupied {
                    int(0)
                } else {
                    let object = self.keys.remove(&at(&words[1])).expect("present");
                    self.keys.insert(at(&words[2]), object);
                    if only_if_absent { int(1) } else { OK.into() }
                }
            }
            "COPY" | "MOVE" => {
                let copies = word(0) == "COPY";
                let (key, target) = if copies {
                    (&words[2], number(4) as u8)
                } else {
                    (&words[1], number(2) as u8)
                };
                let to = (target, key.clone());
                if to == at(&words[1]) {
                    "-ERR source and destination objects are the same\r\n".into()
                } else if !self.keys.contains_key(&at(&words[1]))
                    || self.keys.contains_key(&to) && words.last().is_some_and(|word| word != "REPLACE")
                {
                    int(0)
                } else {
                    let object = self.keys[&at(&words[1])].clone();
                    if !copies {
                        self.keys.remove(&at(&words[1]));
                    }
                    self.keys.insert(to, object);
                    int(1)
                }
            }
            "FLUSHDB" => {
                self.keys.retain(|(other, _), _| *other != db);
                OK.into()
            }
            "SWAPDB" => {
                let (a, b) = (number(1) as u8, number(2) as u8);
                let other = |db| {
                    if db == a {
                        b
                    } else if db == b {
                        a
                    } else {
                        db
                    }
                };
                self.keys = std::mem::take(&mut self.keys)
                    .into_iter()
                    .map(|((db, key), object)| ((other(db), key), object))
                    .collect();
                OK.into()
            }
            other => unreachable!("{other} is not modelled"),
        };
        self.open(time);
        reply
    }
}

fn random_words(prng: &mut Prng, time: i64) -> Vec<String> {
    const TEMPLATES: &[&str] = &[
        "GET K",
        "GET K",
        "SET K V",
        "SET K V NX",
        "SET K V XX",
        "SET K V GET",
        "SET K V PX T",
        "SET K V PXAT A",
        "SET K V KEEPTTL",
        "SET K V IFEQ V",
        "GETDEL K",
        "APPEND K V",
        "STRLEN K",
        "INCRBY K N",
        "CAS K V V",
        "ADD K N",
        "SUB K N",
        "XFER K K N",
        "XFER K K 1",
        "DEL K K",
        "EXISTS K K",
        "PEXPIREAT K A",
        "PEXPIREAT K A NX",
        "PEXPIREAT K A GT",
        "PEXPIREAT K A LT",
        "PERSIST K",
        "PTTL K",
        "RENAME K K",
        "RENAMENX K K",
        "COPY K K DB D",
        "COPY K K DB D REPLACE",
        "MOVE K D",
        "SWAPDB D D",
    ];
    let template = match prng.below(200) {
        0 => "FLUSHDB",
        _ => TEMPLATES[prng.below(TEMPLATES.len() as u64) as usize],
    };
    let words = template.split(' ').map(|word| match word {
        "K" => format!("k{}", prng.below(8)),
        "V" => [
            "1",
            "-7",
            "007",
            "",
            "text",
            "9223372036854775807",
            "a-longer-text",
        ][prng.below(7) as usize]
            .into(),
        "N" => (prng.below(2_000) as i64 - 1_000).to_string(),
        "T" => (1 + prng.below(200)).to_string(),
        "A" => (time + prng.below(300) as i64 - 80).max(1).to_string(),
        "D" => prng.below(3).to_string(),
        other => other.into(),
    });
    words.collect()
}

#[test]
fn strings_keys_and_deadlines_behave_as_in_a_plain_map() {
    for seed in 0..10 {
        let mut prng = Prng::new(100 + seed);
        let (mut node, mut model) = (Node::new(seed), Model::default());
        let mut now = 10_000;
        for step in 0..4_000 {
            // Clocks of leaders differ: now and then time seems to go back.
            now += prng.below(20) as i64 - if prng.below(10) == 0 { 100 } else { 0 };
            node.open(now);
            model.open(now);
            let number = prng.below(3) as u8;
            let words = random_words(&mut prng, model.time);
            let expected = model.run(number, &words);
            let args = ArgsBuf::from_slices(&words);
            let reply = node.apply(db(number), Protocol::Resp2, args.as_args());
            assert_eq!(
                String::from_utf8_lossy(&reply),
                expected,
                "seed {seed} step {step}: db {number} {words:?}"
            );
            assert_eq!(node.keyspace.time().0, model.time);
            if step % 50 == 0 {
                for number in 0..3 {
                    let (count, _) = node.keyspace.counts(db(number));
                    let living = model.keys.keys().filter(|(other, _)| *other == number).count();
                    assert!(
                        count >= living,
                        "keys that expired may still count, living ones must"
                    );
                }
            }
        }
        let mut due = Vec::new();
        let time = node.keyspace.time();
        while !node.keyspace.due(time, 100, &mut due) {}
        due.iter()
            .for_each(|(db, key)| node.keyspace.expire(*db, key, &mut node.local));
        let count: usize = (0..16).map(|number| node.keyspace.counts(db(number)).0).sum();
        assert_eq!(
            count,
            model.keys.len(),
            "nothing but the living is left once all due keys were deleted"
        );
    }
}
