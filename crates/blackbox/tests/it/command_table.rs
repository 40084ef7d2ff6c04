//! What `COMMAND` says about each command that Redis has too: clients route, retry and check arguments by it.

use std::collections::BTreeMap;

use blackbox::{Client, Prng, Server, Value};

/// Where the table of the server under test differs on purpose: command (`container|subcommand` for subcommands),
/// what differs, and why. An entry that is not needed any more fails the test.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("client|kill", "arguments", "`MAXAGE` came with Redis 7.4"),
    ("set", "arguments", "`IFEQ` of Valkey 8.1 is known"),
    ("xinfo|consumers", "history", "`inactive` came with Redis 7.2"),
    ("zrank", "arguments", "`WITHSCORE` came with Redis 7.2"),
    ("zrank", "arity", "`WITHSCORE` came with Redis 7.2"),
    ("zrank", "history", "`WITHSCORE` came with Redis 7.2"),
    ("zrevrank", "arguments", "`WITHSCORE` came with Redis 7.2"),
    ("zrevrank", "arity", "`WITHSCORE` came with Redis 7.2"),
    ("zrevrank", "history", "`WITHSCORE` came with Redis 7.2"),
];

/// Commands of the table that the reference does not have, and why.
const NEWER: &[(&str, &str)] = &[
    ("add", "our own"),
    ("backup", "our own"),
    ("backup|begin", "our own"),
    ("backup|end", "our own"),
    ("backup|help", "our own"),
    ("backup|mark", "our own"),
    ("backup|parts", "our own"),
    ("backup|read", "our own"),
    ("backup|status", "our own"),
    ("cas", "our own"),
    ("debug|coding", "our own"),
    ("mrestore", "our own"),
    ("sub", "our own"),
    ("xfer", "our own"),
    ("client|no-touch", "came with Redis 7.2"),
    ("client|request", "our own"),
    ("client|setinfo", "came with Redis 7.2"),
    ("cluster|myshardid", "came with Redis 7.2"),
    ("waitaof", "came with Redis 7.2"),
];

/// Commands that the reference has without documenting them or naming them as commands.
const UNLISTED: &[(&str, &str)] = &[
    ("debug|object", "not listed as a subcommand"),
    ("debug|sdslen", "not listed as a subcommand"),
];

/// What the elements of an entry of `COMMAND` mean, in their order; the last, subcommands, is compared entry by entry.
const ASPECTS: &[&str] = &[
    "name",
    "arity",
    "flags",
    "first key",
    "last key",
    "step",
    "ACL categories",
    "tips",
    "key specifications",
];

/// The subject and the reference, with a connection to each.
struct Pair {
    subject: Client,
    reference: Client,
    subject_is_redis: bool,
    _servers: [Server; 2],
}

impl Pair {
    fn start() -> Self {
        let (subject, reference) = (Server::subject().start(), Server::reference().start());
        Self {
            subject: subject.client(),
            reference: reference.client(),
            subject_is_redis: subject.is_redis(),
            _servers: [subject, reference],
        }
    }

    fn both(&mut self, words: &str) -> (Value, Value) {
        (self.subject.run(words), self.reference.run(words))
    }

    #[track_caller]
    fn agree(&mut self, words: &str) {
        let (subject, reference) = self.both(words);
        assert_eq!(subject, reference, "{words}");
    }
}

/// Facts about commands: by full name, then by aspect.
type Table = BTreeMap<String, BTreeMap<String, Value>>;

/// Sets come as arrays in RESP2, and nobody may rely on their order.
fn sorted(value: &Value) -> Value {
    match value.elements() {
        Some(elements) => {
            let mut elements = elements.to_vec();
            elements.sort();
            Value::Array(elements)
        }
        None => value.clone(),
    }
}

fn add_entries(table: &mut Table, entries: &Value) {
    for entry in entries.elements().expect("COMMAND lists entries") {
        let elements = entry.elements().expect("an entry is an array");
        let name = elements[0].text().expect("the first element is the name");
        let facts = table.entry(name).or_default();
        for (aspect, value) in ASPECTS.iter().zip(elements) {
            let value = if matches!(*aspect, "flags" | "ACL categories") {
                sorted(value)
            } else {
                value.clone()
            };
            facts.insert((*aspect).to_owned(), without_prose(aspect, value));
        }
        add_entries(
            table,
            elements
                .get(ASPECTS.len())
                .expect("the last element lists subcommands"),
        );
    }
}

fn add_documentation(table: &mut Table, documentation: &Value) {
    for (name, facts) in documentation.pairs().expect("COMMAND DOCS is a map") {
        let facts = facts.pairs().expect("the documentation of a command is a map");
        let name = name.text().expect("names are strings");
        for (aspect, value) in facts {
            let aspect = aspect.text().expect("names are strings");
            if aspect == "subcommands" {
                add_documentation(table, &value);
            } else {
                let value = without_prose(&aspect, value);
                table.entry(name.clone()).or_default().insert(aspect, value);
            }
        }
    }
}

/// Stands for a text whose words are compared by nobody.
const PROSE: &[u8] = b"(a text)";

/// Leaves of an aspect what must be equal. The explanations in the table are this project's own words, not Redis's,
/// and no client can act on them; that there is one, and what it belongs to, is compared:
///
/// - `summary` and `replaced_by`: nothing but presence,
/// - `complexity`: a bare `O(...)`, but no explanation,
/// - `history`: the versions, but not what changed in them,
/// - notes of key specifications: nothing but presence.
fn without_prose(aspect: &str, value: Value) -> Value {
    match aspect {
        "summary" | "replaced_by" => prose(&value),
        "complexity" if is_bare_order(&value) => value,
        "complexity" => prose(&value),
        "history" => rewritten(value, |change| {
            rewritten_at(change, |index, part| if index == 1 { prose(&part) } else { part })
        }),
        "key specifications" => rewritten(value, |specification| {
            let mut after_notes = false;
            rewritten(specification, |part| {
                let is_note = std::mem::replace(&mut after_notes, part.text().as_deref() == Some("notes"));
                if is_note { prose(&part) } else { part }
            })
        }),
        _ => value,
    }
}

fn prose(value: &Value) -> Value {
    let text = value.text().unwrap_or_else(|| panic!("no text: {value:?}"));
    assert!(!text.trim().is_empty(), "an empty explanation");
    Value::bulk(PROSE)
}

/// True for `O(1)` and `O(N*M)`, false for anything with words around it.
fn is_bare_order(value: &Value) -> bool {
    value.text().is_some_and(|text| {
        text.strip_prefix("O(")
            .and_then(|rest| rest.strip_suffix(')'))
            .is_some_and(|inner| {
                inner.matches('(').count() == inner.matches(')').count() && !inner.contains(' ')
            })
    })
}

fn rewritten(value: Value, mut rewrite: impl FnMut(Value) -> Value) -> Value {
    rewritten_at(value, |_, element| rewrite(element))
}

fn rewritten_at(value: Value, mut rewrite: impl FnMut(usize, Value) -> Value) -> Value {
    let mut change = |elements: Vec<Value>| {
        elements
            .into_iter()
            .enumerate()
            .map(|(index, element)| rewrite(index, element))
            .collect()
    };
    match value {
        Value::Array(elements) => Value::Array(change(elements)),
        Value::Set(elements) => Value::Set(change(elements)),
        other => other,
    }
}

/// Compares what both tables have, but for [`DIFFERENCES`].
fn compare(pair: &Pair, subject: &Table, reference: &Table, aspects: impl Fn(&str) -> bool) {
    let mut problems = Vec::new();
    for name in subject.keys().filter(|name| !reference.contains_key(*name)) {
        let mut excuses = NEWER.iter().chain(UNLISTED);
        if excuses.all(|(other, _)| other != name) {
            problems.push(format!("{name}: unknown to the reference"));
        }
    }
    for (name, theirs) in reference {
        let Some(ours) = subject.get(name) else { continue };
        let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for aspect in names {
            if !aspects(aspect) {
                continue;
            }
            let excuse = DIFFERENCES
                .iter()
                .find(|(command, what, _)| command == name && what == aspect);
            match (ours.get(aspect) == theirs.get(aspect), excuse) {
                (false, None) => problems.push(format!(
                    "{name}, {aspect}:\n  subject:   {:?}\n  reference: {:?}",
                    ours.get(aspect),
                    theirs.get(aspect)
                )),
                (true, Some(_)) if !pair.subject_is_redis => {
                    problems.push(format!("{name}, {aspect}: listed as a difference, but equal"));
                }
                _ => {}
            }
        }
    }
    assert!(
        problems.is_empty(),
        "{} differences\n{}",
        problems.len(),
        problems.join("\n")
    );
}

#[test]
fn command_says_what_redis_says_of_every_common_command() {
    let mut pair = Pair::start();
    let (subject, reference) = pair.both("COMMAND");
    let (mut ours, mut theirs) = (Table::new(), Table::new());
    add_entries(&mut ours, &subject);
    add_entries(&mut theirs, &reference);
    compare(&pair, &ours, &theirs, |_| true);
    let count = pair.subject.run("COMMAND COUNT").integer();
    assert_eq!(count, subject.elements().map(|entries| entries.len() as i64));
}

#[test]
fn command_docs_says_what_redis_says_of_every_common_command() {
    let mut pair = Pair::start();
    let (subject, reference) = pair.both("COMMAND DOCS");
    let (mut ours, mut theirs) = (Table::new(), Table::new());
    add_documentation(&mut ours, &subject);
    add_documentation(&mut theirs, &reference);
    compare(&pair, &ours, &theirs, |aspect| !ASPECTS.contains(&aspect));
}

#[test]
fn command_info_is_the_entry_of_command() {
    let mut pair = Pair::start();
    let all = pair.subject.run("COMMAND");
    let mut ours = Table::new();
    add_entries(&mut ours, &all);
    for name in ["get", "SET", "mset", "bitop", "Object"] {
        let entry = pair.subject.run(&format!("COMMAND INFO {name}"));
        let mut alone = Table::new();
        add_entries(&mut alone, &entry);
        for (name, facts) in alone {
            assert_eq!(Some(&facts), ours.get(&name), "{name}");
        }
    }
    for words in [
        "COMMAND INFO nosuch",
        "COMMAND INFO nosuch nosuch2",
        "COMMAND DOCS nosuch",
    ] {
        pair.agree(words);
    }
}

#[test]
fn command_list_filters_as_redis_does() {
    let mut pair = Pair::start();
    let names = |value: &Value| -> Vec<String> {
        value
            .elements()
            .unwrap_or_else(|| panic!("COMMAND LIST answered {value:?}"))
            .iter()
            .map(|name| name.text().expect("names are strings"))
            .collect()
    };
    let (ours, theirs) = pair.both("COMMAND LIST");
    let (ours, theirs) = (names(&ours), names(&theirs));
    for filter in [
        "PATTERN get*",
        "PATTERN *bit*",
        "ACLCAT bitmap",
        "ACLCAT string",
        "ACLCAT dangerous",
        "MODULE nosuch",
    ] {
        let (subject, reference) = pair.both(&format!("COMMAND LIST FILTERBY {filter}"));
        let (mut subject, mut reference) = (names(&subject), names(&reference));
        subject.retain(|name| theirs.contains(name));
        reference.retain(|name| ours.contains(name));
        subject.sort();
        reference.sort();
        assert_eq!(subject, reference, "{filter}");
    }
    for words in [
        "COMMAND LIST BOGUS",
        "COMMAND LIST FILTERBY",
        "COMMAND LIST FILTERBY BOGUS x",
    ] {
        pair.agree(words);
    }
}

#[test]
fn command_getkeys_finds_the_keys_that_redis_finds() {
    let mut pair = Pair::start();
    for invocation in [
        "GET a",
        "SET a b EX 10 NX",
        "GETEX a PERSIST",
        "MGET a b c",
        "MSET a 1 b 2 c 3",
        "MSETNX a 1 b 2",
        "DEL a b",
        "EXISTS a a a",
        "RENAME a b",
        "COPY a b DB 3 REPLACE",
        "MOVE a 1",
        "LCS a b LEN",
        "BITOP AND dest a b c",
        "BITFIELD a GET u8 0 SET u8 0 1",
        "BITCOUNT a 0 -1",
        "SADD a m n",
        "SMOVE a b m",
        "SINTER a b c",
        "SINTERCARD 2 a b LIMIT 1",
        "SINTERCARD 3 a b",
        "SUNIONSTORE d a b",
        "SPOP a 3",
        "SORT a BY w_* GET # GET v_*->f LIMIT 0 5 DESC ALPHA STORE d",
        "SORT a STORE d STORE e",
        "SORT a BY store STORE d",
        "SORT_RO a BY w_*",
        "OBJECT ENCODING a",
        "MEMORY USAGE a",
        "EXPIRE a 10 NX",
        "WATCH a b",
        "TOUCH a b",
        "GETRANGE a 0 1",
        "PING",
        "KEYS *",
        "MULTI",
        "nosuch a",
        "GET",
        "MSET",
        "BITOP AND",
    ] {
        pair.agree(&format!("COMMAND GETKEYS {invocation}"));
        pair.agree(&format!("COMMAND GETKEYSANDFLAGS {invocation}"));
    }
    pair.agree("COMMAND GETKEYS");
    pair.agree("COMMAND GETKEYSANDFLAGS");
    pair.agree("COMMAND NOSUCH");
}

/// Words that may be a key, a number of keys, or what keys are found by.
const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "key",
    "1",
    "1",
    "2",
    "3",
    "0",
    "-1",
    "x",
    "",
    "9223372036854775807",
    "STORE",
    "store",
    "STOREDIST",
    "LIMIT",
    "BY",
    "GET",
    "WEIGHTS",
    "AGGREGATE",
    "COUNT",
    "LEFT",
    "MIN",
    "FROMMEMBER",
    "BYRADIUS",
    "SET",
    "EX",
];

#[test]
fn command_getkeys_finds_what_redis_finds_among_any_words() {
    let mut pair = Pair::start();
    let mut table = Table::new();
    add_entries(&mut table, &pair.subject.run("COMMAND"));
    let mut prng = Prng::new(7);
    let mut problems = Vec::new();
    for name in table.keys() {
        let mut left_out = NEWER.iter().chain(UNLISTED);
        if left_out.any(|(other, _)| other == name) || matches!(name.as_str(), "zrank" | "zrevrank") {
            continue;
        }
        for round in 0..60 {
            let subcommand = if round % 2 == 0 {
                "GETKEYS"
            } else {
                "GETKEYSANDFLAGS"
            };
            let mut words = vec!["COMMAND", subcommand];
            words.extend(name.split('|'));
            let mut has_destination = false;
            for _ in 0..prng.below(9) {
                let word: &str = prng.pick::<&str>(WORDS);
                // With several destinations a key too many is found on purpose: see `Search::After`.
                let is_option = word.to_ascii_uppercase().starts_with("STORE");
                if !(is_option && std::mem::replace(&mut has_destination, true)) {
                    words.push(word);
                }
            }
            let (subject, reference) = (pair.subject.command(&words), pair.reference.command(&words));
            if subject != reference {
                problems.push(format!(
                    "{words:?}:\n  subject:   {subject:?}\n  reference: {reference:?}"
                ));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "{} differences\n{}",
        problems.len(),
        problems.join("\n")
    );
}
