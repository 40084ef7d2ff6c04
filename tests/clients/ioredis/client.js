// What a program does with ioredis, checked: against the server at HOST:PORT, over RESP2 and over RESP3.
//
// With CLUSTER_PORT, the client also believes that it talks to a Redis Cluster there, of nodes at CLUSTER_PORTS. With PIDS, the processes of a cluster's
// nodes by their cluster ports, it kills one of them, and does nothing else. Prints a line for each section and exits with 1 if
// one of them failed.

import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Cluster, Redis, ReplyError } from "ioredis";

const host = process.env.HOST ?? "127.0.0.1";
const port = Number(process.env.PORT ?? 6379);
const clusterPort = Number(process.env.CLUSTER_PORT ?? 0);
const leaders = (process.env.CLUSTER_PORTS ?? `${clusterPort}`).split(",").map((port) => `${host}:${port}`).sort();
const LIMIT_MS = 5000; // for whatever another connection has to do first

function connect(protocol) {
  // `resp3` shows maps as objects and doubles as numbers; without it both protocols look the same.
  const replyMapping = protocol === 3 ? "resp3" : "legacy";
  const redis = new Redis({ host, port, protocol, replyMapping, retryStrategy: null, commandTimeout: 2 * LIMIT_MS });
  redis.on("error", () => {}); // the commands that wait are told, too
  return redis;
}

async function waitUntil(what, isTrue) {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await isTrue())) {
    assert.ok(Date.now() < deadline, `waited ${LIMIT_MS} ms, and still not: ${what}`);
    await sleep(5);
  }
}

// The server refuses with an error that begins with these words.
async function expectError(words, reply) {
  await assert.rejects(reply, (error) => error instanceof ReplyError && error.message.startsWith(words));
}

// --- sections: each gets a connection, its protocol, and a function that makes its key of a word ---------

async function protocol(redis, version) {
  assert.equal(await redis.ping(), "PONG");
  // The server's word for it: the client falls back to RESP2 and says nothing.
  assert.match(await redis.client("INFO"), new RegExp(` resp=${version}\\b`));
}

async function strings(redis, version, key) {
  await redis.del(key("greeting"), key("visits"), key("missing"));
  assert.equal(await redis.set(key("greeting"), "hello"), "OK");
  assert.equal(await redis.append(key("greeting"), ", world"), 12);
  assert.equal(await redis.get(key("greeting")), "hello, world");
  assert.equal(await redis.set(key("greeting"), "again", "NX"), null);
  assert.equal(await redis.incrby(key("visits"), 41), 41);
  assert.equal(await redis.incr(key("visits")), 42);
  assert.equal(await redis.incrbyfloat(key("visits"), 0.5), "42.5");
  assert.deepEqual(await redis.mget(key("visits"), key("missing"), key("greeting")), ["42.5", null, "hello, world"]);
  assert.equal(await redis.expire(key("visits"), 100), 1);
  const ttl = await redis.ttl(key("visits"));
  assert.ok(ttl > 0 && ttl <= 100, `the time to live is ${ttl}`);
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  await redis.set(key("bytes"), everyByte);
  assert.deepEqual(await redis.getBuffer(key("bytes")), everyByte);
}

async function hashes(redis, version, key) {
  await redis.del(key("ada"));
  assert.equal(await redis.hset(key("ada"), { name: "Ada", born: 1814, height: 1.5 }), 3);
  assert.equal(await redis.hincrby(key("ada"), "born", 1), 1815);
  assert.equal(await redis.hincrbyfloat(key("ada"), "height", 0.25), "1.75");
  assert.deepEqual({ ...(await redis.hgetall(key("ada"))) }, { name: "Ada", born: "1815", height: "1.75" });
  assert.deepEqual(await redis.hmget(key("ada"), "name", "died"), ["Ada", null]);
  assert.equal(await redis.hexists(key("ada"), "died"), 0);
  assert.equal(await redis.hdel(key("ada"), "height", "died"), 1);
  assert.deepEqual((await redis.hkeys(key("ada"))).sort(), ["born", "name"]);
  assert.deepEqual({ ...(await redis.hgetall(key("nobody"))) }, {});
}

async function lists(redis, version, key) {
  await redis.del(key("queue"), key("done"));
  assert.equal(await redis.rpush(key("queue"), "b", "c", "d"), 3);
  assert.equal(await redis.lpush(key("queue"), "a"), 4);
  assert.deepEqual(await redis.lrange(key("queue"), 0, -1), ["a", "b", "c", "d"]);
  assert.equal(await redis.linsert(key("queue"), "BEFORE", "c", "b2"), 5);
  assert.equal(await redis.lindex(key("queue"), 2), "b2");
  assert.equal(await redis.lmove(key("queue"), key("done"), "LEFT", "RIGHT"), "a");
  assert.deepEqual(await redis.lpop(key("queue"), 2), ["b", "b2"]);
  assert.equal(await redis.llen(key("queue")), 2);
  assert.equal(await redis.rpop(key("nothing")), null);
}

async function sets(redis, version, key) {
  await redis.del(key("odd"), key("small"), key("both"));
  assert.equal(await redis.sadd(key("odd"), 1, 3, 5, 7), 4);
  assert.equal(await redis.sadd(key("small"), 1, 2, 3, 3), 3);
  assert.deepEqual((await redis.smembers(key("small"))).sort(), ["1", "2", "3"]);
  assert.deepEqual(await redis.smismember(key("odd"), 1, 2), [1, 0]);
  assert.deepEqual((await redis.sinter(key("odd"), key("small"))).sort(), ["1", "3"]);
  assert.deepEqual((await redis.sdiff(key("odd"), key("small"))).sort(), ["5", "7"]);
  assert.equal(await redis.sunionstore(key("both"), key("odd"), key("small")), 5);
  assert.equal(await redis.scard(key("both")), 5);
  assert.equal(await redis.srem(key("odd"), 7, 9), 1);
}

async function sortedSets(redis, version, key) {
  // Scores are doubles of RESP3, texts of RESP2.
  const score = (number) => (version === 3 ? number : String(number).replace("Infinity", "inf"));
  const pairs = (...wanted) => (version === 3 ? wanted : wanted.flat().map(String));

  await redis.del(key("scores"));
  assert.equal(await redis.zadd(key("scores"), 1.5, "ada", 2, "grace", -3.25, "alan", "+inf", "edsger"), 4);
  assert.equal(await redis.zscore(key("scores"), "ada"), score(1.5));
  assert.equal(await redis.zscore(key("scores"), "edsger"), score(Infinity));
  assert.equal(await redis.zscore(key("scores"), "nobody"), null);
  assert.equal(await redis.zincrby(key("scores"), 1, "ada"), score(2.5));
  assert.deepEqual(
    await redis.zrange(key("scores"), 0, 2, "WITHSCORES"),
    pairs(["alan", -3.25], ["grace", 2], ["ada", 2.5]),
  );
  assert.deepEqual(await redis.zrange(key("scores"), 3, 2, "BYSCORE", "REV"), ["ada", "grace"]);
  assert.equal(await redis.zrank(key("scores"), "ada"), 2);
  assert.deepEqual(await redis.zmscore(key("scores"), "alan", "nobody"), [score(-3.25), null]);
  assert.deepEqual(await redis.zpopmin(key("scores"), 1), pairs(["alan", -3.25]));
  assert.equal(await redis.zcount(key("scores"), 2, "(2.5"), 1);
}

async function pipeline(redis, version, key) {
  const batch = redis.pipeline();
  for (let number = 0; number < 500; number++) {
    batch.set(key(`pipelined:${number}`), number).get(key(`pipelined:${number}`));
  }
  const replies = await batch.exec();
  assert.equal(replies.length, 1000);
  for (let number = 0; number < 500; number++) {
    assert.deepEqual(replies.slice(2 * number, 2 * number + 2), [[null, "OK"], [null, String(number)]]);
  }
}

// Four connections count to 100 together: who reads, then writes, must be told of the others' writes.
async function transaction(redis, version, key) {
  async function increment(own) {
    for (;;) {
      await own.watch(key("counter"));
      const next = Number(await own.get(key("counter"))) + 1;
      const replies = await own.multi().set(key("counter"), next).strlen(key("counter")).exec();
      if (replies !== null) {
        assert.deepEqual(replies, [[null, "OK"], [null, String(next).length]]);
        return;
      }
    }
  }

  await redis.set(key("counter"), 0);
  const connections = Array.from({ length: 4 }, () => connect(version));
  try {
    await Promise.all(
      connections.map(async (own) => {
        for (let times = 0; times < 25; times++) await increment(own);
      }),
    );
  } finally {
    connections.forEach((own) => own.disconnect());
  }
  assert.equal(await redis.get(key("counter")), "100");
}

async function pubSub(redis, version, key) {
  const [news, sport, pattern] = [key("news"), key("news.sport"), key("news.*")];
  const subscriber = connect(version);
  const next = (event) => once(subscriber, event, { signal: AbortSignal.timeout(LIMIT_MS) });
  try {
    assert.equal(await subscriber.subscribe(news), 1);
    assert.equal(await subscriber.psubscribe(pattern), 2);
    let received = next("message");
    assert.equal(await redis.publish(news, "hello"), 1);
    assert.deepEqual(await received, [news, "hello"]);
    received = next("pmessage");
    assert.equal(await redis.publish(sport, "1:0"), 1);
    assert.deepEqual(await received, [pattern, sport, "1:0"]);
    assert.equal(await subscriber.unsubscribe(news), 1);
    assert.equal(await redis.publish(news, "nobody hears this"), 0);
    assert.equal(await subscriber.punsubscribe(pattern), 0);
    assert.equal(await subscriber.ping(), "PONG"); // a connection for commands again
  } finally {
    subscriber.disconnect();
  }
}

async function blocking(redis, version, key) {
  await redis.del(key("jobs"), key("nothing"));
  const own = connect(version);
  try {
    const popped = own.blpop(key("jobs"), LIMIT_MS / 1000);
    await waitUntil("a client is blocked", async () => /^blocked_clients:[1-9]/m.test(await redis.info("clients")));
    assert.equal(await redis.rpush(key("jobs"), "wash up"), 1);
    assert.deepEqual(await popped, [key("jobs"), "wash up"]);
  } finally {
    own.disconnect();
  }
  const started = performance.now();
  assert.equal(await redis.blpop(key("nothing"), 0.1), null);
  assert.ok(performance.now() - started >= 99, "the wait was too short");
}

async function scan(redis, version, key) {
  const wanted = Array.from({ length: 1000 }, (_, number) => key(`scanned:${number}`)).sort();
  await redis.mset(wanted.flatMap((name) => [name, "1"]));
  const found = new Set();
  for await (const names of redis.scanStream({ match: key("scanned:*"), count: 100 })) {
    names.forEach((name) => found.add(name));
  }
  assert.deepEqual([...found].sort(), wanted);

  const fields = Array.from({ length: 1000 }, (_, number) => [`field:${number}`, String(number)]).sort();
  await redis.hset(key("many"), Object.fromEntries(fields));
  const pairs = new Map();
  for await (const flat of redis.hscanStream(key("many"), { count: 100 })) {
    for (let at = 0; at < flat.length; at += 2) pairs.set(flat[at], flat[at + 1]);
  }
  assert.deepEqual([...pairs].sort(), fields);
}

async function errors(redis, version, key) {
  await redis.set(key("text"), "not a number");
  await expectError("WRONGTYPE", redis.lpush(key("text"), "x"));
  await expectError("ERR value is not an integer", redis.incr(key("text")));
  await expectError("ERR unknown command", redis.call("NO-SUCH-COMMAND"));
  const [refused, answered] = await redis.pipeline().lpush(key("text"), "x").get(key("text")).exec();
  assert.ok(refused[0] instanceof ReplyError);
  assert.deepEqual(answered, [null, "not a number"]);
}

async function cluster(redis, version, key) {
  const all = new Cluster([{ host, port: clusterPort }], {
    redisOptions: { protocol: version, commandTimeout: 2 * LIMIT_MS },
    clusterRetryStrategy: null,
    shardedSubscribers: true,
  });
  const troubles = [];
  all.on("error", (error) => troubles.push(error));
  try {
    const wanted = Array.from({ length: 300 }, (_, number) => [key(`spread:${number}`), String(number)]);
    const [names, values] = [wanted.map(([name]) => name), wanted.map(([, value]) => value)];
    for (const [name, value] of wanted) assert.equal(await all.set(name, value), "OK");
    assert.deepEqual(await Promise.all(names.map((name) => all.get(name))), values);
    const nodes = all.nodes("master").map((node) => `${node.options.host}:${node.options.port}`);
    assert.deepEqual(nodes.sort(), leaders);
    // What was written there is read at the front door.
    assert.deepEqual(await redis.mget(names), values);
    // ioredis sends these whole, to the node of the first key.
    assert.deepEqual(await all.mget(names), values);
    assert.equal(await all.mset(wanted.flat()), "OK");
    assert.equal(await all.exists(names), 300);

    // It refuses a pipeline for several nodes before anything is sent.
    const batches = new Map();
    for (const [name, value] of wanted) {
      const nodes = all.slots[await all.nodes("master")[0].cluster("KEYSLOT", name)].join();
      batches.set(nodes, [...(batches.get(nodes) ?? []), [name, Number(value)]]);
    }
    assert.equal(batches.size >= leaders.length, true);
    for (const batch of batches.values()) {
      const replies = await batch.reduce((pipeline, [name]) => pipeline.incr(name), all.pipeline()).exec();
      assert.deepEqual(replies, batch.map(([, value]) => [null, value + 1]));
    }

    const tagged = [key("{tagged}:1"), key("{tagged}:2")];
    const block = await all.multi().set(tagged[0], "one").set(tagged[1], "two").mget(tagged).exec();
    assert.deepEqual(block, [[null, "OK"], [null, "OK"], [null, ["one", "two"]]]);
    assert.equal(await all.del([...tagged, ...names]), 302);
    assert.equal((await all.nodes("master")[0].cluster("MYID")).length, 40);

    const channel = key("shard");
    const received = once(all, "smessage", { signal: AbortSignal.timeout(LIMIT_MS) });
    assert.equal(await all.ssubscribe(channel), 1);
    assert.equal(await all.spublish(channel, "hello"), 1);
    // A third value, which no message has, comes as undefined.
    assert.deepEqual((await received).slice(0, 2), [channel, "hello"]);
    assert.deepEqual(troubles, []);
  } finally {
    all.disconnect();
  }
}

// The node that leads most keys is killed: every key that was written is there, and can be written again.
async function failover(_, version, key) {
  const pids = new Map(process.env.PIDS.split(",").map((pair) => pair.split(":")));
  const all = new Cluster([{ host, port: clusterPort }], { redisOptions: { protocol: version } });
  all.on("error", () => {});
  const until = Date.now() + LIMIT_MS;
  const persistently = async (command) => {
    for (;;) {
      try {
        return await command();
      } catch (error) {
        if (Date.now() > until) throw error;
        await sleep(50);
      }
    }
  };
  try {
    const names = Array.from({ length: 200 }, (_, number) => key(`failover:${number}`));
    for (const name of names) assert.equal(await all.set(name, "before"), "OK");
    const led = new Map();
    for (const [first, last, [, leader]] of await all.nodes("master")[0].cluster("SLOTS")) {
      led.set(leader, (led.get(leader) ?? 0) + last - first + 1);
    }
    const [[victim]] = [...led].filter(([port]) => pids.has(String(port))).sort(([, one], [, other]) => other - one);
    process.kill(Number(pids.get(String(victim))), "SIGKILL");
    for (const name of names) assert.equal(await persistently(() => all.get(name)), "before");
    for (const name of names) assert.equal(await persistently(() => all.set(name, "after")), "OK");
    for (const name of names) assert.equal(await persistently(() => all.get(name)), "after");
  } finally {
    all.disconnect();
  }
}

let SECTIONS = [
  ["protocol", protocol],
  ["strings", strings],
  ["hashes", hashes],
  ["lists", lists],
  ["sets", sets],
  ["sorted sets", sortedSets],
  ["pipeline", pipeline],
  ["transaction", transaction],
  ["pub/sub", pubSub],
  ["blocking", blocking],
  ["scan", scan],
  ["errors", errors],
];
if (clusterPort) SECTIONS.push(["cluster", cluster]);
if (process.env.PIDS) SECTIONS = [["failover", failover]];

let failed = 0;
for (const version of [2, 3].filter((version) => (process.env.PROTOCOLS ?? "RESP2 RESP3").includes(`RESP${version}`))) {
  for (const [name, section] of SECTIONS) {
    const redis = connect(version);
    const line = `RESP${version}  ${name.padEnd(12)}`;
    try {
      await section(redis, version, (word) => `ioredis:${version}:${word}`);
      console.log(`${line} ok`);
    } catch (error) {
      failed += 1;
      console.log(`${line} FAILED: ${error.message.replace(/\s+/g, " ")}`);
    } finally {
      redis.disconnect();
    }
  }
}
if (failed) {
  console.error(`ioredis: ${failed} of ${2 * SECTIONS.length} sections failed`);
  process.exitCode = 1;
}
