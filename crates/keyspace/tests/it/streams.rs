//! Streams against a plain list of entries, with groups that are plain maps.

use crate::node::{Node, db};
use ids::Prng;
use keyspace::{EncodingLimits, EventClasses};
use resp::{ArgsBuf, Protocol};
use std::collections::{BTreeMap, BTreeSet};

type Id = (u64, u64);

const MAX: Id = (u64::MAX, u64::MAX);

/// How many entries go into a block: few, so that all that happens at their ends does.
const BLOCK: u32 = 4;

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    last: Id,
    /// How many entries were ever added, and the highest that `XDEL` removed: or what `XSETID` says.
    added: u64,
    max_deleted: Id,
    /// How many entries were ever added to the newest block, and its number.
    newest: (u32, u64),
    /// The highest id that each block ever had.
    lasts: BTreeMap<u64, Id>,
    groups: BTreeMap<String, Group>,
}

struct Entry {
    id: Id,
    fields: Vec<String>,
    block: u64,
}

#[derive(Default)]
struct Group {
    last: Id,
    /// Which of all entries that were ever added the last one is, as far as that is known.
    read: Option<u64>,
    pending: BTreeMap<Id, Pending>,
    consumers: BTreeSet<String>,
}

struct Pending {
    consumer: String,
    at: i64,
    deliveries: u64,
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn int(number: i64) -> String {
    format!(":{number}\r\n")
}

fn array(elements: &[String]) -> String {
    format!("*{}\r\n{}", elements.len(), elements.concat())
}

fn id_text((ms, seq): Id) -> String {
    bulk(&format!("{ms}-{seq}"))
}

const NIL: &str = "$-1\r\n";
const NO_ARRAY: &str = "*-1\r\n";

fn parse(word: &str, missing: u64) -> Id {
    match word {
        "-" => (0, 0),
        "+" => MAX,
        word => match word.split_once('-') {
            Some((ms, seq)) => (ms.parse().expect("a number"), seq.parse().expect("a number")),
            None => (word.parse().expect("a number"), missing),
        },
    }
}

impl Entry {
    fn text(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|text| bulk(text)).collect();
        array(&[id_text(self.id), array(&fields)])
    }
}

impl Model {
    fn find(&self, id: Id) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    fn add(&mut self, wanted: &str, now: i64, fields: &[String]) -> Result<Id, &'static str> {
        let last = self.last;
        let id = match wanted.strip_suffix("-*") {
            _ if wanted == "*" && now as u64 > last.0 => (now as u64, 0),
            _ if wanted == "*" => (last.0, last.1 + 1),
            Some(ms) => {
                let ms = ms.parse().expect("a number");
                (ms, if ms == last.0 { last.1 + 1 } else { 0 })
            }
            None => parse(wanted, 0),
        };
        if id <= last {
            return Err(
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n",
            );
        }
        let begins = self.newest.0 == BLOCK || !self.entries.iter().any(|entry| entry.block == self.newest.1);
        self.newest = if begins {
            (1, self.newest.1 + 1)
        } else {
            (self.newest.0 + 1, self.newest.1)
        };
        self.entries.push(Entry {
            id,
            fields: fields.to_vec(),
            block: self.newest.1,
        });
        self.lasts.insert(self.newest.1, id);
        self.last = id;
        self.added += 1;
        Ok(id)
    }

    /// Whether the highest entry that `XDEL` removed is at this id or above.
    fn is_holed_from(&self, id: Id) -> bool {
        let first = self.entries.first();
        first.is_some_and(|first| first.id <= self.max_deleted) && id <= self.max_deleted
    }

    /// Which of all entries that were ever added this one is, where Redis can tell: of the last id, and of what is not behind the
    /// first entry if none was removed behind that.
    fn rank(&self, id: Id) -> Option<u64> {
        let len = self.entries.len() as u64;
        match self.entries.first().map(|entry| entry.id) {
            _ if self.added == 0 => Some(0),
            _ if id == self.last => Some(self.added),
            None => (id < self.last).then_some(self.added),
            Some(first) if self.max_deleted >= first || id > first || id > self.last => None,
            Some(first) => Some(self.added - len + u64::from(id == first)),
        }
    }

    fn lag(&self, group: &Group) -> Option<u64> {
        let known = group.read.filter(|_| !self.is_holed_from(group.last));
        let read = if self.added == 0 {
            Some(0)
        } else {
            known.or_else(|| self.rank(group.last))
        };
        read.map(|read| self.added.wrapping_sub(read))
    }

    /// Removes whole blocks from the beginning while `goes` says so of what stays behind them, then, unless it is
    /// approximate, single entries.
    fn trim(&mut self, words: &[String]) -> usize {
        let is_approximate = words[1] == "~";
        let before = self.entries.len();
        let goes = |entries: &[Entry], first: usize, last: Id| match words[0].as_str() {
            "MAXLEN" => entries.len() - first >= words[2].parse().expect("a number"),
            _ => last < parse(&words[2], 0),
        };
        while let Some(first) = self.entries.first() {
            let block = first.block;
            let len = self.entries.iter().filter(|entry| entry.block == block).count();
            if !goes(&self.entries, len, self.lasts[&block]) {
                break;
            }
            self.entries.drain(..len);
        }
        if !is_approximate {
            while let Some(first) = self.entries.first() {
                if !goes(&self.entries, 1, first.id) {
                    break;
                }
                self.entries.remove(0);
            }
        }
        before - self.entries.len()
    }

    fn range(&self, start: Id, end: Id, count: Option<usize>, is_reverse: bool) -> Vec<String> {
        let inside = self
            .entries
            .iter()
            .filter(|entry| (start..=end).contains(&entry.id));
        let mut found: Vec<String> = inside.map(Entry::text).collect();
        if is_reverse {
            found.reverse();
        }
        found.truncate(count.unwrap_or(usize::MAX));
        found
    }
}

/// What the commands do, written as plainly as possible.
fn run(streams: &mut BTreeMap<String, Model>, now: i64, words: &[String]) -> String {
    let word = |at: usize| words[at].as_str();
    let number = |at: usize| words[at].parse::<u64>().expect("the test makes numbers");
    // Where the value of an option stands.
    let option = |name: &str| words.iter().position(|word| word == name).map(|at| at + 1);
    let no_group =
        |key: &str, group: &str| format!("-NOGROUP No such key '{key}' or consumer group '{group}'\r\n");
    match word(0) {
        "XADD" => {
            let model = streams.entry(word(1).to_owned()).or_default();
            let at = if word(2) == "MAXLEN" || word(2) == "MINID" {
                5
            } else {
                2
            };
            match model.add(word(at), now, &words[at + 1..]) {
                Ok(id) => {
                    if at > 2 {
                        model.trim(&words[2..5]);
                    }
                    id_text(id)
                }
                Err(error) => error.to_owned(),
            }
        }
        "XLEN" => int(streams.get(word(1)).map_or(0, |model| model.entries.len()) as i64),
        name @ ("XRANGE" | "XREVRANGE") => {
            let is_reverse = name == "XREVRANGE";
            let (first, last) = if is_reverse { (3, 2) } else { (2, 3) };
            let count = (words.len() > 4).then(|| number(5) as usize);
            let found = streams.get(word(1)).map(|model| {
                model.range(
                    parse(word(first), 0),
                    parse(word(last), u64::MAX),
                    count,
                    is_reverse,
                )
            });
            array(&found.unwrap_or_default())
        }
        "XDEL" => {
            let Some(model) = streams.get_mut(word(1)) else {
                return int(0);
            };
            let mut removed = 0;
            for id in words[2..].iter().map(|word| parse(word, 0)) {
                if let Some(at) = model.entries.iter().position(|entry| entry.id == id) {
                    model.entries.remove(at);
                    model.max_deleted = model.max_deleted.max(id);
                    removed += 1;
                }
            }
            int(removed)
        }
        "XSETID" => {
            // key last [ENTRIESADDED n] [MAXDELETEDID id]
            let last = parse(word(2), 0);
            let max_deleted = option("MAXDELETEDID").map(|at| parse(word(at), 0));
            if max_deleted.is_some_and(|id| last < id) {
                return "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id\r\n"
                    .to_owned();
            }
            let Some(model) = streams.get_mut(word(1)) else {
                return "-ERR no such key\r\n".to_owned();
            };
            if model.entries.last().is_some_and(|entry| last < entry.id) {
                return "-ERR The ID specified in XSETID is smaller than the target stream top item\r\n"
                    .to_owned();
            }
            let added = option("ENTRIESADDED").map_or(model.added, number);
            if added < model.entries.len() as u64 {
                return "-ERR The entries_added specified in XSETID is smaller than the target stream length\r\n"
                    .to_owned();
            }
            (model.last, model.added) = (last, added);
            model.max_deleted = max_deleted
                .filter(|id| *id != (0, 0))
                .unwrap_or(model.max_deleted);
            // What was removed above it is forgotten.
            if let Some(entry) = model.entries.last() {
                let of_block = model
                    .lasts
                    .get_mut(&entry.block)
                    .expect("each block has a last id");
                *of_block = last.min(*of_block);
            }
            "+OK\r\n".to_owned()
        }
        "XINFO" => {
            // GROUPS key
            let Some(model) = streams.get(word(2)) else {
                return "-ERR no such key\r\n".to_owned();
            };
            let optional = |number: Option<u64>| number.map_or(NIL.to_owned(), |number| int(number as i64));
            let groups = model.groups.iter().map(|(name, group)| {
                let fields = [
                    ("name", bulk(name)),
                    ("consumers", int(group.consumers.len() as i64)),
                    ("pending", int(group.pending.len() as i64)),
                    ("last-delivered-id", id_text(group.last)),
                    ("entries-read", optional(group.read)),
                    ("lag", optional(model.lag(group))),
                ];
                array(&fields.map(|(name, value)| bulk(name) + &value)).replacen("*6", "*12", 1)
            });
            array(&groups.collect::<Vec<_>>())
        }
        "XTRIM" => int(streams
            .get_mut(word(1))
            .map_or(0, |model| model.trim(&words[2..])) as i64),
        "XREAD" => {
            let count = number(2) as usize;
            let mut found = Vec::new();
            for at in [4, 5] {
                let Some(model) = streams.get(word(at)) else {
                    continue;
                };
                let (ms, seq) = parse(word(at + 2), 0);
                let entries = model.range((ms, seq + 1), MAX, Some(count), false);
                if !entries.is_empty() {
                    found.push(array(&[bulk(word(at)), array(&entries)]));
                }
            }
            if found.is_empty() {
                NO_ARRAY.to_owned()
            } else {
                array(&found)
            }
        }
        "XGROUP" => {
            let Some(model) = streams.get_mut(word(2)) else {
                return "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
                        the MKSTREAM option to create an empty stream automatically.\r\n"
                    .to_owned();
            };
            let last = model.last;
            let start = |word: &str| if word == "$" { last } else { parse(word, 0) };
            let missing = format!(
                "-NOGROUP No such consumer group '{}' for key name '{}'\r\n",
                word(3),
                word(2)
            );
            match (word(1), model.groups.get_mut(word(3))) {
                ("CREATE", Some(_)) => "-BUSYGROUP Consumer Group name already exists\r\n".to_owned(),
                ("CREATE", None) => {
                    let group = Group {
                        last: start(word(4)),
                        read: option("ENTRIESREAD").map(number),
                        ..Group::default()
                    };
                    model.groups.insert(word(3).to_owned(), group);
                    "+OK\r\n".to_owned()
                }
                ("DESTROY", group) => {
                    let is_there = group.is_some();
                    model.groups.remove(word(3));
                    int(i64::from(is_there))
                }
                (_, None) => missing,
                ("SETID", Some(group)) => {
                    group.last = start(word(4));
                    group.read = option("ENTRIESREAD").map(number);
                    "+OK\r\n".to_owned()
                }
                ("CREATECONSUMER", Some(group)) => int(i64::from(group.consumers.insert(word(4).to_owned()))),
                ("DELCONSUMER", Some(group)) => {
                    let before = group.pending.len();
                    group.consumers.remove(word(4));
                    group.pending.retain(|_, pending| pending.consumer != word(4));
                    int((before - group.pending.len()) as i64)
                }
                other => unreachable!("{:?}", other.0),
            }
        }
        "XREADGROUP" => {
            // GROUP group consumer COUNT n [NOACK] STREAMS key from
            let key = word(words.len() - 2);
            let Some((model, group)) = streams
                .get_mut(key)
                .and_then(|model| model.groups.remove(word(2)).map(|group| (model, group)))
            else {
                let error = no_group(key, word(2));
                return format!("{} in XREADGROUP with GROUP option\r\n", error.trim_end());
            };
            let mut group = group;
            let (count, from) = (number(5) as usize, word(words.len() - 1));
            let mut told = Vec::new();
            if from == ">" {
                for entry in model
                    .entries
                    .iter()
                    .filter(|entry| entry.id > group.last)
                    .take(count)
                {
                    told.push(entry.text());
                    let counted = group.read.filter(|_| !model.is_holed_from(entry.id));
                    group.read = counted.map(|read| read + 1).or_else(|| model.rank(entry.id));
                    if word(6) != "NOACK" {
                        let pending = Pending {
                            consumer: word(3).to_owned(),
                            at: now,
                            deliveries: 1,
                        };
                        group.pending.insert(entry.id, pending);
                    }
                }
                let newest = model
                    .entries
                    .iter()
                    .filter(|entry| entry.id > group.last)
                    .take(count)
                    .last();
                group.last = newest.map_or(group.last, |entry| entry.id);
            } else {
                let start = parse(from, 0);
                let its = group
                    .pending
                    .iter_mut()
                    .filter(|(id, pending)| **id > start && pending.consumer == word(3))
                    .take(count);
                for (id, pending) in its {
                    told.push(match model.find(*id) {
                        Some(entry) => {
                            pending.at = now;
                            pending.deliveries += 1;
                            entry.text()
                        }
                        None => array(&[id_text(*id), NO_ARRAY.to_owned()]),
                    });
                }
            }
            let is_told = from != ">" || !told.is_empty();
            if is_told {
                group.consumers.insert(word(3).to_owned());
            }
            model.groups.insert(word(2).to_owned(), group);
            if !is_told {
                return NO_ARRAY.to_owned();
            }
            array(&[array(&[bulk(key), array(&told)])])
        }
        "XACK" => {
            let group = streams
                .get_mut(word(1))
                .and_then(|model| model.groups.get_mut(word(2)));
            let mut removed = 0;
            if let Some(group) = group {
                for id in words[3..].iter().map(|word| parse(word, 0)) {
                    removed += i64::from(group.pending.remove(&id).is_some());
                }
            }
            int(removed)
        }
        "XPENDING" => {
            let Some(group) = streams.get(word(1)).and_then(|model| model.groups.get(word(2))) else {
                return no_group(word(1), word(2));
            };
            if words.len() == 3 {
                let Some((first, last)) = group
                    .pending
                    .first_key_value()
                    .zip(group.pending.last_key_value())
                else {
                    return format!("*4\r\n:0\r\n{NIL}{NIL}{NO_ARRAY}");
                };
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for pending in group.pending.values() {
                    *counts.entry(&pending.consumer).or_default() += 1;
                }
                let counts: Vec<String> = counts
                    .into_iter()
                    .map(|(name, count)| array(&[bulk(name), bulk(&count.to_string())]))
                    .collect();
                return array(&[
                    int(group.pending.len() as i64),
                    id_text(*first.0),
                    id_text(*last.0),
                    array(&counts),
                ]);
            }
            // IDLE n start end count [consumer]
            let (idle, start, end) = (number(4) as i64, parse(word(5), 0), parse(word(6), u64::MAX));
            let found = group.pending.iter().filter(|(id, pending)| {
                (start..=end).contains(*id)
                    && now - pending.at >= idle
                    && words.get(8).is_none_or(|name| pending.consumer == *name)
            });
            let found: Vec<String> = found
                .take(number(7) as usize)
                .map(|(id, pending)| {
                    array(&[
                        id_text(*id),
                        bulk(&pending.consumer),
                        int(now - pending.at),
                        int(pending.deliveries as i64),
                    ])
                })
                .collect();
            array(&found)
        }
        name @ ("XCLAIM" | "XAUTOCLAIM") => {
            let Some((model, mut group)) = streams
                .get_mut(word(1))
                .and_then(|model| model.groups.remove(word(2)).map(|group| (model, group)))
            else {
                return no_group(word(1), word(2));
            };
            let idle = number(4) as i64;
            let only_ids = words.iter().any(|word| word == "JUSTID");
            let is_forced = words.iter().any(|word| word == "FORCE");
            group.last = option("LASTID").map_or(group.last, |at| group.last.max(parse(word(at), 0)));
            let (mut claimed, mut deleted) = (Vec::new(), Vec::new());
            let mut cursor = (0, 0);
            let ids: Vec<Id> = if name == "XCLAIM" {
                vec![parse(word(5), 0), parse(word(6), 0)]
            } else {
                let start = parse(word(5), 0);
                group.pending.keys().copied().filter(|id| *id >= start).collect()
            };
            let mut left = if name == "XCLAIM" {
                usize::MAX
            } else {
                number(7) as usize
            };
            for (tried, id) in ids.into_iter().enumerate() {
                if name == "XAUTOCLAIM" && (left == 0 || tried as u64 == 10 * number(7)) {
                    cursor = id;
                    break;
                }
                let Some(entry) = model.find(id) else {
                    if group.pending.remove(&id).is_some() {
                        deleted.push(id_text(id));
                        left -= 1;
                    }
                    continue;
                };
                let before = group.pending.get(&id);
                let is_claimed = before.map_or(is_forced, |pending| now - pending.at >= idle);
                if !is_claimed {
                    continue;
                }
                let counted = before.map_or(1, |pending| pending.deliveries);
                let pending = Pending {
                    consumer: word(3).to_owned(),
                    at: now,
                    deliveries: counted + u64::from(!only_ids),
                };
                group.pending.insert(id, pending);
                claimed.push(if only_ids { id_text(id) } else { entry.text() });
                left -= 1;
            }
            if !claimed.is_empty() {
                group.consumers.insert(word(3).to_owned());
            }
            model.groups.insert(word(2).to_owned(), group);
            if name == "XCLAIM" {
                return array(&claimed);
            }
            array(&[id_text(cursor), array(&claimed), array(&deleted)])
        }
        other => unreachable!("{other}"),
    }
}

fn random_words(prng: &mut Prng) -> Vec<String> {
    let templates = [
        "XADD K * F V",
        "XADD K * F V",
        "XADD K * F V F V",
        "XADD K T-* F V",
        "XADD K I F V",
        "XADD K MAXLEN ~ C * F V",
        "XADD K MAXLEN = C * F V",
        "XADD K MINID ~ I * F V",
        "XLEN K",
        "XRANGE K I I",
        "XRANGE K - + COUNT P",
        "XREVRANGE K I I COUNT P",
        "XREVRANGE K + -",
        "XDEL K I I",
        "XTRIM K MAXLEN ~ C",
        "XTRIM K MAXLEN = C",
        "XTRIM K MINID = I",
        "XTRIM K MINID ~ I",
        "XSETID K I",
        "XSETID K I ENTRIESADDED C",
        "XSETID K I ENTRIESADDED C MAXDELETEDID I",
        "XREAD COUNT P STREAMS K K I I",
        "XGROUP CREATE K G I",
        "XGROUP CREATE K G $",
        "XGROUP CREATE K G I ENTRIESREAD C",
        "XGROUP SETID K G I",
        "XGROUP SETID K G I ENTRIESREAD C",
        "XGROUP SETID K G 0 ENTRIESREAD 0",
        "XGROUP DESTROY K G",
        "XGROUP CREATECONSUMER K G N",
        "XGROUP DELCONSUMER K G N",
        "XREADGROUP GROUP G N COUNT P STREAMS K >",
        "XREADGROUP GROUP G N COUNT P STREAMS K >",
        "XREADGROUP GROUP G N COUNT P STREAMS K >",
        "XREADGROUP GROUP G N COUNT P NOACK STREAMS K >",
        "XREADGROUP GROUP G N COUNT P STREAMS K 0",
        "XREADGROUP GROUP G N COUNT P STREAMS K I",
        "XACK K G I I",
        "XPENDING K G",
        "XPENDING K G IDLE C - + P",
        "XPENDING K G IDLE 0 I I P N",
        "XCLAIM K G N C I I",
        "XCLAIM K G N 0 I I FORCE",
        "XCLAIM K G N 0 I I JUSTID",
        "XCLAIM K G N 0 I I LASTID I",
        "XAUTOCLAIM K G N C I COUNT P",
        "XAUTOCLAIM K G N 0 0 COUNT P JUSTID",
        "XINFO GROUPS K",
        "XINFO GROUPS K",
        "XINFO GROUPS K",
    ];
    let template = templates[prng.below(templates.len() as u64) as usize];
    let mut fill = |word: &str| match word {
        "K" => format!("k{}", prng.below(2)),
        "F" => format!("f{}", prng.below(2)),
        "V" => match prng.below(3) {
            0 => prng.next_u64().to_string(),
            1 => (prng.below(300) as i64 - 150).to_string(),
            _ => "v".repeat(prng.below(200) as usize),
        },
        "G" => format!("g{}", prng.below(2)),
        "N" => format!("n{}", prng.below(3)),
        "T" => (1_000 + prng.below(400)).to_string(),
        "T-*" => format!("{}-*", 1_000 + prng.below(400)),
        "I" => format!("{}-{}", 1_000 + prng.below(400), prng.below(3)),
        "C" => prng.below(20).to_string(),
        "P" => (1 + prng.below(6)).to_string(),
        _ => word.to_owned(),
    };
    template.split(' ').map(&mut fill).collect()
}

fn node(seed: u64) -> Node {
    let mut node = Node::new(seed);
    node.open(1_000);
    node.keyspace.set_limits(EncodingLimits {
        stream_node_bytes: 0,
        stream_node_entries: BLOCK,
        ..EncodingLimits::default()
    });
    node
}

#[test]
fn commands_on_streams_agree_with_plain_lists_and_maps() {
    // Ids are of a range that is used up after a while.
    for seed in 0..30 {
        let mut prng = Prng::new(70 + seed);
        let mut node = node(seed);
        let mut streams = BTreeMap::new();
        let mut now = 1_000;
        for step in 0..1_200 {
            now += prng.below(2) as i64;
            node.open(now);
            let words = random_words(&mut prng);
            let args = ArgsBuf::from_slices(&words);
            let reply = node.apply(db(0), Protocol::Resp2, args.as_args());
            let expected = run(&mut streams, now, &words);
            let reply = String::from_utf8_lossy(&reply);
            assert_eq!(reply, expected, "seed {seed}, step {step}: {words:?}");
            node.keyspace.check_streams().unwrap();
        }
    }
}

#[test]
fn a_stream_stays_when_its_last_entry_goes_and_its_last_id_too() {
    let mut node = node(0);
    node.run("XADD k 5-5 a b");
    assert_eq!(node.run("XDEL k 5-5"), int(1));
    assert_eq!(node.run("TYPE k"), "+stream\r\n");
    assert_eq!(node.run("OBJECT ENCODING k"), bulk("stream"));
    assert!(
        node.run("XADD k 5-5 a b")
            .starts_with("-ERR The ID specified in XADD is equal")
    );
    assert_eq!(node.run("XADD k 5-* a b"), id_text((5, 6)));
    assert_eq!(node.run("XADD none NOMKSTREAM * a b"), NIL);
    assert_eq!(node.run("EXISTS none"), int(0));
}

#[test]
fn ids_end_where_numbers_do() {
    let mut node = node(0);
    let highest = "18446744073709551615-18446744073709551615";
    node.run("XADD k 18446744073709551615-18446744073709551614 a b");
    assert_eq!(node.run("XADD k * a b"), bulk(highest));
    let exhausted = "-ERR The stream has exhausted the last possible ID, unable to add more items\r\n";
    assert_eq!(node.run("XADD k * a b"), exhausted);
    assert_eq!(node.run(&format!("XREAD STREAMS k {highest}")), NO_ARRAY);
    assert_eq!(
        node.run("XREVRANGE k + - COUNT 1")
            .matches("18446744073709551615-")
            .count(),
        1
    );
}

#[test]
fn ids_of_removed_entries_can_be_used_again_if_somebody_says_so() {
    let mut node = node(0);
    node.run("XADD k 1-0 a b");
    node.run("XADD k 2-0 a b");
    node.run("XDEL k 2-0");
    assert_eq!(
        node.run("XSETID k 3-0 ENTRIESADDED 2 MAXDELETEDID 1-0"),
        "+OK\r\n"
    );
    assert_eq!(node.run("XSETID k 1-0"), "+OK\r\n");
    node.keyspace.check_streams().unwrap();
    assert_eq!(node.run("XADD k 1-5 a b"), bulk("1-5"));
    assert_eq!(node.run("XLEN k"), int(2));
    node.keyspace.check_streams().unwrap();
}

#[test]
fn an_approximate_trim_looks_at_as_many_entries_as_it_may() {
    let mut node = node(0);
    for _ in 0..1_000 {
        node.run("XADD k * a b");
    }
    assert_eq!(
        node.run("XTRIM k MAXLEN ~ 0 LIMIT 30"),
        int(28),
        "seven blocks of four"
    );
    assert_eq!(
        node.run("XTRIM k MAXLEN ~ 0"),
        int(400),
        "a hundred blocks, if nothing is said"
    );
    assert_eq!(node.run("XTRIM k MAXLEN ~ 0 LIMIT 0"), int(572));
}

#[test]
fn groups_know_how_far_they_have_read_as_long_as_that_can_be_told() {
    let mut node = node(0);
    for id in 1..=5 {
        node.run(&format!("XADD k {id}-0 a b"));
    }
    let lag = |node: &mut Node| {
        let info = node.run("XINFO GROUPS k");
        let at = info.find("entries-read\r\n").unwrap() + "entries-read\r\n".len();
        info[at..].replace("\r\n", " ")
    };
    node.run("XGROUP CREATE k g 0");
    assert_eq!(lag(&mut node), "$-1 $3 lag :5 ");
    node.run("XREADGROUP GROUP g c COUNT 1 STREAMS k >");
    assert_eq!(lag(&mut node), ":1 $3 lag :4 ");
    node.run("XDEL k 3-0");
    assert_eq!(lag(&mut node), ":1 $3 lag $-1 ");
    node.run("XREADGROUP GROUP g c STREAMS k >");
    assert_eq!(lag(&mut node), ":5 $3 lag :0 ");
    node.run("XGROUP SETID k g 1-0");
    assert_eq!(lag(&mut node), "$-1 $3 lag $-1 ");
    node.run("XGROUP SETID k g 1-0 ENTRIESREAD 7");
    node.run("XSETID k 9-0 ENTRIESADDED 10 MAXDELETEDID 0-0");
    assert_eq!(lag(&mut node), ":7 $3 lag $-1 ");
}

#[test]
fn events_are_those_of_redis_and_in_its_order() {
    let mut node = node(0);
    node.local.notify = EventClasses(EventClasses::STREAM.0 | EventClasses::GENERIC.0);
    node.tells(&[
        ("XADD k * a 1", "xadd k"),
        ("XADD none NOMKSTREAM * a 1", ""),
        ("XADD k MAXLEN = 1 * a 1", "xadd k, xtrim k"),
        ("XADD k MAXLEN = 9 7000-0 a 1", "xadd k"),
        ("XDEL k 7000-0", "xdel k"),
        ("XDEL k 7000-0", ""),
        ("XTRIM k MAXLEN 9", ""),
        ("XTRIM k MAXLEN 0", "xtrim k"),
        ("XSETID k 8000-0", "xsetid k"),
        ("XGROUP CREATE k g $", "xgroup-create k"),
        ("XGROUP CREATE k g $", ""),
        ("XGROUP SETID k g 0", "xgroup-setid k"),
        ("XGROUP CREATECONSUMER k g a", "xgroup-createconsumer k"),
        ("XGROUP CREATECONSUMER k g a", ""),
        ("XREADGROUP GROUP g b STREAMS k >", ""),
        ("XREADGROUP GROUP g b STREAMS k 0", "xgroup-createconsumer k"),
        ("XCLAIM k g c 0 9000-0", ""),
        ("XADD k 9000-0 a 1", "xadd k"),
        ("XCLAIM k g c 0 9000-0", ""),
        ("XCLAIM k g c 0 9000-0 FORCE", "xgroup-createconsumer k"),
        ("XAUTOCLAIM k g d 0 0", "xgroup-createconsumer k"),
        ("XGROUP DELCONSUMER k g a", "xgroup-delconsumer k"),
        ("XGROUP DELCONSUMER k g a", ""),
        ("XACK k g 1-1", ""),
        ("XGROUP DESTROY k g", "xgroup-destroy k"),
        ("XGROUP DESTROY k g", ""),
        ("DEL k", "del k"),
    ]);
}

#[test]
fn copies_share_nothing_that_changes() {
    let mut node = node(0);
    for _ in 0..10 {
        node.run("XADD k * a b");
    }
    node.run("XGROUP CREATE k g 0");
    node.run("COPY k l");
    node.run("XREADGROUP GROUP g c STREAMS k >");
    node.run("XTRIM k MAXLEN 1");
    node.run("XADD k * c d");
    assert_eq!(node.run("XLEN l"), int(10));
    assert!(node.run("XPENDING l g").starts_with("*4\r\n:0\r\n"));
    assert!(node.run("XREADGROUP GROUP g c STREAMS l >").contains("*10\r\n"));
    node.keyspace.check_streams().unwrap();
}

#[test]
fn a_read_with_a_group_gives_nothing_if_one_of_the_groups_is_missing() {
    let mut node = node(0);
    node.run("XADD a 1-1 x y");
    node.run("XADD b 1-1 x y");
    node.run("XGROUP CREATE a g 0");
    let reply = node.run("XREADGROUP GROUP g c STREAMS a b > >");
    assert_eq!(
        reply,
        "-NOGROUP No such key 'b' or consumer group 'g' in XREADGROUP with GROUP option\r\n"
    );
    assert!(node.run("XPENDING a g").starts_with("*4\r\n:0\r\n"));
    node.run("XGROUP CREATE b g $");
    let reply = node.run("XREADGROUP GROUP g c STREAMS a a b > > >");
    assert_eq!(reply.matches("1-1").count(), 1, "{reply}");
    assert!(reply.starts_with("*1\r\n"), "{reply}");
}
