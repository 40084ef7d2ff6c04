//! Scripts that applications are made of, and what is peculiar to the dialect: each beside a real Redis.
//!
//! The scripts stand in `testdata/corpus.lua`, each below a line `--- what it shows`. They get two keys and three arguments.

use crate::host::{as_resp2, evaluate_with};
use crate::redis::Redis;
use script::Reply;

const CORPUS: &str = include_str!("../../testdata/corpus.lua");

pub(crate) const KEYS: [&str; 2] = ["k1", "k2"];
pub(crate) const ARGV: [&str; 3] = ["3", "60", "name"];

fn scripts() -> Vec<(&'static str, &'static str)> {
    CORPUS
        .split("\n--- ")
        .skip(1)
        .map(|script| script.split_once('\n').expect("a script stands below its title"))
        .collect()
}

/// What a script answers on this machine, with commands carried out by `store`.
pub(crate) fn ours(store: &mut Redis, source: &str) -> Reply {
    let reply = evaluate_with(source, &KEYS, &ARGV, &mut |words, is_resp3| match store
        .command_in(words, is_resp3)
    {
        // What Redis says inside of a script is shorter.
        Reply::Error(text) if text.starts_with(b"ERR unknown command") => {
            Reply::Error(b"ERR Unknown Redis command called from script".to_vec())
        }
        Reply::Error(text) if text.starts_with(b"ERR wrong number of arguments") => {
            Reply::Error(b"ERR Wrong number of args calling Redis command from script".to_vec())
        }
        reply => reply,
    });
    as_resp2(reply)
}

fn flush(redis: &mut Redis) {
    redis.command(&[b"FLUSHALL"]);
}

#[test]
fn scripts_answer_as_redis_answers() {
    let mut redis = Redis::start();
    let mut failures = Vec::new();
    for (title, source) in scripts() {
        flush(&mut redis);
        let theirs = redis.eval(source, &KEYS, &ARGV);
        flush(&mut redis);
        let ours = ours(&mut redis, source);
        if ours != theirs {
            failures.push(format!(
                "{title}\n{source}\n  ours:   {ours:?}\n  theirs: {theirs:?}"
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
