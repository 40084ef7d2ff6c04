//! What a program does with redis-rs, checked: against the server at `HOST:PORT`, over RESP2 and over RESP3.
//!
//! With `CLUSTER_PORT`, the client also believes that it talks to a Redis Cluster there.
//!
//! Prints a line for each section and exits with 1 if one of them failed.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt::Debug;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{
    Client, Connection, Direction, ErrorKind, ExistenceCheck, InfoDict, IntegerReplyOrNoOp, RedisError,
    RedisResult, ScanOptions, ServerErrorKind, SetOptions, TypedCommands,
};

/// For whatever another connection has to do first.
const LIMIT: Duration = Duration::from_secs(5);

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// What a section works with.
struct Place {
    client: Client,
    version: u8,
}

impl Place {
    fn of_environment(version: u8) -> RedisResult<Place> {
        let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let (host, port) = (variable("HOST", "127.0.0.1"), variable("PORT", "6379"));
        let client = Client::open(format!("redis://{host}:{port}/?protocol=resp{version}"))?;
        Ok(Place { client, version })
    }

    fn connect(&self) -> RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(LIMIT)?;
        connection.set_read_timeout(Some(2 * LIMIT))?;
        Ok(connection)
    }

    fn key(&self, word: &str) -> String {
        format!("redis-rs:{}:{word}", self.version)
    }
}

fn expect<T: PartialEq + Debug>(got: T, wanted: T) -> Outcome {
    match got == wanted {
        true => Ok(()),
        false => Err(format!("expected {wanted:?}, got {got:?}").into()),
    }
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> RedisResult<bool>) -> Outcome {
    let deadline = Instant::now() + LIMIT;
    while !is_true()? {
        if Instant::now() > deadline {
            return Err(format!("waited {LIMIT:?}, and still not: {what}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The server refused with an error of this code.
fn expect_error<T: Debug>(
    reply: RedisResult<T>,
    code: &str,
) -> Result<RedisError, Box<dyn Error + Send + Sync>> {
    match reply {
        Err(error) if error.code() == Some(code) => Ok(error),
        other => Err(format!("expected the error {code}, got {other:?}").into()),
    }
}

fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}

fn protocol(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    expect(r.ping()?, "PONG".to_owned())?;
    let info: String = redis::cmd("CLIENT").arg("INFO").query(&mut r)?;
    let resp = info
        .split_whitespace()
        .find_map(|field| field.strip_prefix("resp="));
    expect(resp, Some(place.version.to_string().as_str()))
}

fn strings(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let (greeting, visits, missing) = (place.key("greeting"), place.key("visits"), place.key("missing"));
    r.del(&[&greeting, &visits, &missing])?;
    r.set(&greeting, "hello")?;
    expect(r.append(&greeting, ", world")?, 12)?;
    expect(r.get(&greeting)?, Some("hello, world".to_owned()))?;
    let unless_there = SetOptions::default().conditional_set(ExistenceCheck::NX);
    expect(r.set_options(&greeting, "again", unless_there)?, None)?;
    expect(r.incr(&visits, 42)?, 42)?;
    // The typed command answers with an integer; a float needs the untyped one.
    expect(redis::Commands::incr::<_, _, f64>(&mut r, &visits, 0.5)?, 42.5)?;
    expect(
        r.mget(&[&visits, &missing, &greeting])?,
        vec![Some("42.5".into()), None, Some("hello, world".into())],
    )?;
    expect(r.expire(&visits, 100)?, true)?;
    let ttl = r.ttl(&visits)?;
    expect(matches!(ttl, IntegerReplyOrNoOp::IntegerReply(1..=100)), true)?;
    let every_byte: Vec<u8> = (0..=255).collect();
    r.set(place.key("bytes"), &every_byte)?;
    expect(
        redis::Commands::get::<_, Vec<u8>>(&mut r, place.key("bytes"))?,
        every_byte,
    )
}

fn hashes(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let ada = place.key("ada");
    r.del(&ada)?;
    expect(r.hset(&ada, "name", "Ada")?, 1)?;
    r.hset_multiple(&ada, &[("born", "1814"), ("height", "1.5")])?;
    expect(r.hincr(&ada, "born", 1)?, 1815.0)?;
    expect(r.hincr(&ada, "height", 0.25)?, 1.75)?;
    let wanted = [("name", "Ada"), ("born", "1815"), ("height", "1.75")];
    let wanted: HashMap<String, String> = wanted
        .map(|(field, value)| (field.to_owned(), value.to_owned()))
        .into();
    expect(r.hgetall(&ada)?, wanted)?;
    expect(
        redis::Commands::hmget::<_, _, Vec<Option<String>>>(&mut r, &ada, &["name", "died"])?,
        vec![Some("Ada".into()), None],
    )?;
    expect(r.hexists(&ada, "died")?, false)?;
    expect(r.hdel(&ada, &["height", "died"])?, 1)?;
    expect(sorted(r.hkeys(&ada)?), vec!["born".into(), "name".into()])?;
    expect(r.hgetall(place.key("nobody"))?, HashMap::new())
}

fn lists(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let (queue, done) = (place.key("queue"), place.key("done"));
    r.del(&[&queue, &done])?;
    expect(r.rpush(&queue, &["b", "c", "d"])?, 3)?;
    expect(r.lpush(&queue, "a")?, 4)?;
    expect(
        r.lrange(&queue, 0, -1)?,
        ["a", "b", "c", "d"].map(String::from).into(),
    )?;
    expect(r.linsert_before(&queue, "c", "b2")?, 5)?;
    expect(r.lindex(&queue, 2)?, Some("b2".into()))?;
    expect(
        r.lmove(&queue, &done, Direction::Left, Direction::Right)?,
        "a".into(),
    )?;
    let popped: Vec<String> = redis::Commands::lpop(&mut r, &queue, 2.try_into().ok())?;
    expect(popped, ["b", "b2"].map(String::from).into())?;
    expect(r.llen(&queue)?, 2)?;
    expect(
        redis::Commands::rpop::<_, Option<String>>(&mut r, place.key("nothing"), None)?,
        None,
    )
}

fn sets(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let (odd, small, both) = (place.key("odd"), place.key("small"), place.key("both"));
    r.del(&[&odd, &small, &both])?;
    let of = |members: &[i32]| members.iter().map(i32::to_string).collect::<HashSet<String>>();
    expect(r.sadd(&odd, &[1, 3, 5, 7])?, 4)?;
    expect(r.sadd(&small, &[1, 2, 3, 3])?, 3)?;
    expect(r.smembers(&small)?, of(&[1, 2, 3]))?;
    expect(r.smismember(&odd, &[1, 2])?, vec![true, false])?;
    expect(r.sinter(&[&odd, &small])?, of(&[1, 3]))?;
    expect(r.sdiff(&[&odd, &small])?, of(&[5, 7]))?;
    expect(r.sunionstore(&both, &[&odd, &small])?, 5)?;
    expect(r.scard(&both)?, 5)?;
    expect(r.srem(&odd, &[7, 9])?, 1)
}

fn sorted_sets(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let scores = place.key("scores");
    r.del(&scores)?;
    let people = [
        (1.5, "ada"),
        (2.0, "grace"),
        (-3.25, "alan"),
        (f64::INFINITY, "edsger"),
    ];
    expect(r.zadd_multiple(&scores, &people)?, 4)?;
    expect(r.zscore(&scores, "ada")?, Some(1.5))?;
    expect(r.zscore(&scores, "nobody")?, None)?;
    expect(r.zincr(&scores, "ada", 1)?, 2.5)?;
    let wanted = [
        ("alan", -3.25),
        ("grace", 2.0),
        ("ada", 2.5),
        ("edsger", f64::INFINITY),
    ];
    expect(
        r.zrange_withscores(&scores, 0, -1)?,
        wanted.map(|(member, score)| (member.to_owned(), score)).into(),
    )?;
    expect(
        r.zrevrangebyscore(&scores, 3, 2)?,
        vec!["ada".into(), "grace".into()],
    )?;
    expect(r.zrank(&scores, "ada")?, Some(2))?;
    expect(
        redis::Commands::zscore_multiple::<_, _, Vec<Option<f64>>>(&mut r, &scores, &["alan", "nobody"])?,
        vec![Some(-3.25), None],
    )?;
    let lowest: Vec<(String, f64)> = redis::Commands::zpopmin(&mut r, &scores, 1)?;
    expect(lowest, vec![("alan".into(), -3.25)])?;
    expect(r.zcount(&scores, 2, "(2.5")?, 1)
}

fn pipeline(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let mut batch = redis::pipe();
    for number in 0..500 {
        let key = place.key(&format!("pipelined:{number}"));
        batch.set(&key, number).get(&key);
    }
    let replies: Vec<String> = batch.query(&mut r)?;
    let wanted = (0..500).flat_map(|number| ["OK".to_owned(), number.to_string()]);
    expect(replies, wanted.collect())
}

/// Four connections count to 100 together: who reads, then writes, must be told of the others' writes.
fn transaction(place: &Place) -> Outcome {
    let counter = place.key("counter");
    let count_to_25 = || -> Outcome {
        let mut own = place.connect()?;
        for _ in 0..25 {
            // Repeats the closure until nobody else has written in between.
            redis::transaction(&mut own, &[&counter], |own, pipe| {
                let seen: u32 = redis::Commands::get(own, &counter)?;
                pipe.set(&counter, seen + 1)
                    .ignore()
                    .strlen(&counter)
                    .query::<Option<(usize,)>>(own)
            })?;
        }
        Ok(())
    };
    let mut r = place.connect()?;
    r.set(&counter, 0)?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count_to_25)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("counting does not panic"))
    })?;
    expect(r.get(&counter)?, Some("100".into()))
}

fn pub_sub(place: &Place) -> Outcome {
    let (news, sport, pattern) = (place.key("news"), place.key("news.sport"), place.key("news.*"));
    let mut r = place.connect()?;
    let mut own = place.connect()?;
    {
        let mut subscriber = own.as_pubsub();
        subscriber.set_read_timeout(Some(LIMIT))?;
        subscriber.subscribe(&news)?;
        subscriber.psubscribe(&pattern)?;
        expect(r.publish(&news, "hello")?, 1)?;
        let message = subscriber.get_message()?;
        expect(
            (message.get_channel_name(), message.get_payload()?),
            (news.as_str(), "hello".to_owned()),
        )?;
        expect(r.publish(&sport, "1:0")?, 1)?;
        let message = subscriber.get_message()?;
        expect(
            (
                message.get_pattern::<String>()?,
                message.get_channel_name(),
                message.get_payload()?,
            ),
            (pattern.clone(), sport.as_str(), "1:0".to_owned()),
        )?;
        subscriber.unsubscribe(&news)?;
        expect(r.publish(&news, "nobody hears this")?, 0)?;
        // The end of the block takes the pattern back.
    }
    expect(r.publish(&sport, "nobody hears this")?, 0)?;
    expect(own.ping()?, "PONG".to_owned())
}

fn blocking(place: &Place) -> Outcome {
    let (jobs, nothing) = (place.key("jobs"), place.key("nothing"));
    let mut r = place.connect()?;
    r.del(&[&jobs, &nothing])?;
    let popped = thread::scope(|scope| -> Result<_, Box<dyn Error + Send + Sync>> {
        let waiter = scope.spawn(|| place.connect()?.blpop(&jobs, LIMIT.as_secs_f64()));
        wait_until("a client is blocked", || {
            let info: InfoDict = redis::cmd("INFO").arg("clients").query(&mut r)?;
            Ok(info.get::<u64>("blocked_clients").is_some_and(|count| count >= 1))
        })?;
        expect(r.rpush(&jobs, "wash up")?, 1)?;
        Ok(waiter.join().expect("waiting does not panic")?)
    })?;
    expect(popped, Some([jobs, "wash up".into()]))?;
    let started = Instant::now();
    expect(r.blpop(&nothing, 0.1)?, None)?;
    expect(started.elapsed() >= Duration::from_millis(100), true)
}

fn scan(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let wanted: HashSet<String> = (0..1000)
        .map(|number| place.key(&format!("scanned:{number}")))
        .collect();
    let pairs: Vec<(&String, u8)> = wanted.iter().map(|name| (name, 1)).collect();
    r.mset(&pairs)?;
    let options = ScanOptions::default()
        .with_pattern(place.key("scanned:*"))
        .with_count(100);
    let found: HashSet<String> = r.scan_options(options)?.collect::<RedisResult<_>>()?;
    expect(found.symmetric_difference(&wanted).next(), None)?;

    let many = place.key("many");
    let fields: HashMap<String, String> = (0..1000)
        .map(|number| (format!("field:{number}"), number.to_string()))
        .collect();
    r.hset_multiple(&many, &fields.iter().collect::<Vec<_>>())?;
    let found: HashMap<String, String> =
        redis::Commands::hscan::<_, (String, String)>(&mut r, &many)?.collect::<RedisResult<_>>()?;
    expect(found == fields, true)
}

fn errors(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let text = place.key("text");
    r.set(&text, "not a number")?;
    expect_error(r.lpush(&text, "x"), "WRONGTYPE")?;
    let error = expect_error(r.incr(&text, 1), "ERR")?;
    expect(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError))?;
    expect(error.detail(), Some("value is not an integer or out of range"))?;
    expect_error(redis::cmd("NO-SUCH-COMMAND").exec(&mut r), "ERR")?;
    expect(r.get(&text)?, Some("not a number".into()))
}

fn cluster(place: &Place) -> Outcome {
    let mut r = place.connect()?;
    let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let (host, port) = (variable("HOST", "127.0.0.1"), variable("CLUSTER_PORT", "7379"));
    let seed = format!("redis://{host}:{port}/?protocol=resp{}", place.version);
    let mut all = ClusterClient::new([seed])?.get_connection()?;
    let wanted: Vec<(String, String)> = (0..300)
        .map(|number| (place.key(&format!("spread:{number}")), number.to_string()))
        .collect();
    for (name, value) in &wanted {
        all.set(name, value)?;
        expect(all.get(name)?.as_ref(), Some(value))?;
    }
    let names: Vec<&String> = wanted.iter().map(|(name, _)| name).collect();
    let values: Vec<Option<String>> = wanted.iter().map(|(_, value)| Some(value.clone())).collect();
    // What was written there is read at the front door.
    expect(r.mget(&names)?, values.clone())?;
    // redis-rs splits what lies in several slots.
    expect(all.mget(&names)?, values)?;
    let mut batch = redis::cluster::cluster_pipe();
    for name in &names {
        batch.incr(*name, 1);
    }
    let replies: Vec<i64> = batch.query(&mut all)?;
    expect(replies, (1..=300).collect())?;
    expect(all.del(&names)?, 300)?;

    let readers = |connection: &mut ClusterConnection| -> RedisResult<Option<String>> {
        connection.set(place.key("read"), "at a replica")?;
        connection.get(place.key("read"))
    };
    // Each connection says READONLY.
    let seed = format!("redis://{host}:{port}/?protocol=resp{}", place.version);
    let client = redis::cluster::ClusterClientBuilder::new([seed])
        .read_from_replicas()
        .build()?;
    expect(
        readers(&mut client.get_connection()?)?,
        Some("at a replica".into()),
    )
}

const SECTIONS: [(&str, fn(&Place) -> Outcome); 12] = [
    ("protocol", protocol),
    ("strings", strings),
    ("hashes", hashes),
    ("lists", lists),
    ("sets", sets),
    ("sorted sets", sorted_sets),
    ("pipeline", pipeline),
    ("transaction", transaction),
    ("pub/sub", pub_sub),
    ("blocking", blocking),
    ("scan", scan),
    ("errors", errors),
];

fn main() -> ExitCode {
    let mut failed = 0;
    let mut sections = SECTIONS.to_vec();
    if std::env::var_os("CLUSTER_PORT").is_some() {
        sections.push(("cluster", cluster));
    }
    for version in [2, 3] {
        for &(name, section) in &sections {
            let outcome = Place::of_environment(version)
                .map_err(Into::into)
                .and_then(|place| section(&place));
            match outcome {
                Ok(()) => println!("RESP{version}  {name:<12} ok"),
                Err(trouble) => {
                    failed += 1;
                    println!("RESP{version}  {name:<12} FAILED: {trouble}");
                }
            }
        }
    }
    if failed > 0 {
        eprintln!("redis-rs: {failed} of {} sections failed", 2 * sections.len());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
