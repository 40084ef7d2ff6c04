// What a program does with node-redis, checked: against the server at HOST:PORT, over RESP2 and over RESP3.
//
// With CLUSTER_PORT, the client also believes that it talks to a Redis Cluster there, of nodes at CLUSTER_PORTS. Prints a
// line for each section and exits with 1 if one of them failed.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { ErrorReply, RESP_TYPES, WatchError, createClient, createCluster } from "redis";

const host = process.env.HOST ?? "127.0.0.1";
const port = Number(process.env.PORT ?? 6379);
const clusterPort = Number(process.env.CLUSTER_PORT ?? 0);
const leaders = (process.env.CLUSTER_PORTS ?? `${clusterPort}`).split(",").map((port) => `${host}:${port}`).sort();
const LIMIT_MS = 5000; // for whatever another connection has to do first

async function connect(version) {
  const redis = createClient({ socket: { host, port, reconnectStrategy: false }, RESP: version });
  redis.on("error", () => {}); // the commands that wait are told, too
  return redis.connect();
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
  await assert.rejects(reply, (error) => error instanceof ErrorReply && error.message.startsWith(words));
}

// --- sections: each gets a connection, its protocol, and a function that makes its key of a word ---------

async function protocol(redis, version) {
  assert.equal(await redis.ping(), "PONG");
  // The server's word for it: a client may fall back to RESP2 and say nothing.
  assert.match(await redis.sendCommand(["CLIENT", "INFO"]), new RegExp(` resp=${version}\\b`));
}

async function strings(redis, version, key) {
  await redis.del([key("greeting"), key("visits"), key("missing")]);
  assert.equal(await redis.set(key("greeting"), "hello"), "OK");
  assert.equal(await redis.append(key("greeting"), ", world"), 12);
  assert.equal(await redis.get(key("greeting")), "hello, world");
  assert.equal(await redis.set(key("greeting"), "again", { condition: "NX" }), null);
  assert.equal(await redis.incrBy(key("visits"), 41), 41);
  assert.equal(await redis.incr(key("visits")), 42);
  assert.equal(await redis.incrByFloat(key("visits"), 0.5), "42.5");
  assert.deepEqual(await redis.mGet([key("visits"), key("missing"), key("greeting")]), ["42.5", null, "hello, world"]);
  assert.equal(await redis.expire(key("visits"), 100), 1);
  const ttl = await redis.ttl(key("visits"));
  assert.ok(ttl > 0 && ttl <= 100, `the time to live is ${ttl}`);
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  await redis.set(key("bytes"), everyByte);
  const raw = redis.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  assert.deepEqual(await raw.get(key("bytes")), everyByte);
}

async function hashes(redis, version, key) {
  await redis.del(key("ada"));
  assert.equal(await redis.hSet(key("ada"), { name: "Ada", born: 1814, height: 1.5 }), 3);
  assert.equal(await redis.hIncrBy(key("ada"), "born", 1), 1815);
  assert.equal(await redis.hIncrByFloat(key("ada"), "height", 0.25), "1.75");
  assert.deepEqual({ ...(await redis.hGetAll(key("ada"))) }, { name: "Ada", born: "1815", height: "1.75" });
  assert.deepEqual(await redis.hmGet(key("ada"), ["name", "died"]), ["Ada", null]);
  assert.equal(await redis.hExists(key("ada"), "died"), 0);
  assert.equal(await redis.hDel(key("ada"), ["height", "died"]), 1);
  assert.deepEqual((await redis.hKeys(key("ada"))).sort(), ["born", "name"]);
  assert.deepEqual({ ...(await redis.hGetAll(key("nobody"))) }, {});
}

async function lists(redis, version, key) {
  await redis.del([key("queue"), key("done")]);
  assert.equal(await redis.rPush(key("queue"), ["b", "c", "d"]), 3);
  assert.equal(await redis.lPush(key("queue"), "a"), 4);
  assert.deepEqual(await redis.lRange(key("queue"), 0, -1), ["a", "b", "c", "d"]);
  assert.equal(await redis.lInsert(key("queue"), "BEFORE", "c", "b2"), 5);
  assert.equal(await redis.lIndex(key("queue"), 2), "b2");
  assert.equal(await redis.lMove(key("queue"), key("done"), "LEFT", "RIGHT"), "a");
  assert.deepEqual(await redis.lPopCount(key("queue"), 2), ["b", "b2"]);
  assert.equal(await redis.lLen(key("queue")), 2);
  assert.equal(await redis.rPop(key("nothing")), null);
}

async function sets(redis, version, key) {
  await redis.del([key("odd"), key("small"), key("both")]);
  assert.equal(await redis.sAdd(key("odd"), ["1", "3", "5", "7"]), 4);
  assert.equal(await redis.sAdd(key("small"), ["1", "2", "3", "3"]), 3);
  assert.deepEqual((await redis.sMembers(key("small"))).sort(), ["1", "2", "3"]);
  assert.deepEqual(await redis.smIsMember(key("odd"), ["1", "2"]), [1, 0]);
  assert.deepEqual((await redis.sInter([key("odd"), key("small")])).sort(), ["1", "3"]);
  assert.deepEqual((await redis.sDiff([key("odd"), key("small")])).sort(), ["5", "7"]);
  assert.equal(await redis.sUnionStore(key("both"), [key("odd"), key("small")]), 5);
  assert.equal(await redis.sCard(key("both")), 5);
  assert.equal(await redis.sRem(key("odd"), ["7", "9"]), 1);
}

async function sortedSets(redis, version, key) {
  await redis.del(key("scores"));
  const people = [
    { value: "ada", score: 1.5 },
    { value: "grace", score: 2 },
    { value: "alan", score: -3.25 },
    { value: "edsger", score: Infinity },
  ];
  assert.equal(await redis.zAdd(key("scores"), people), 4);
  assert.equal(await redis.zScore(key("scores"), "ada"), 1.5);
  assert.equal(await redis.zScore(key("scores"), "nobody"), null);
  assert.equal(await redis.zIncrBy(key("scores"), 1, "ada"), 2.5);
  assert.deepEqual(await redis.zRangeWithScores(key("scores"), 0, -1), [
    { value: "alan", score: -3.25 },
    { value: "grace", score: 2 },
    { value: "ada", score: 2.5 },
    { value: "edsger", score: Infinity },
  ]);
  assert.deepEqual(await redis.zRange(key("scores"), 3, 2, { BY: "SCORE", REV: true }), ["ada", "grace"]);
  assert.equal(await redis.zRank(key("scores"), "ada"), 2);
  assert.deepEqual(await redis.zmScore(key("scores"), ["alan", "nobody"]), [-3.25, null]);
  assert.deepEqual(await redis.zPopMin(key("scores")), { value: "alan", score: -3.25 });
  assert.equal(await redis.zCount(key("scores"), 2, "(2.5"), 1);
}

async function pipeline(redis, version, key) {
  const batch = redis.multi();
  for (let number = 0; number < 500; number++) {
    batch.set(key(`pipelined:${number}`), number).get(key(`pipelined:${number}`));
  }
  // A batch that is sent in one go, but is no transaction.
  const replies = await batch.execAsPipeline();
  assert.equal(replies.length, 1000);
  for (let number = 0; number < 500; number++) {
    assert.deepEqual(replies.slice(2 * number, 2 * number + 2), ["OK", String(number)]);
  }
}

// Four connections count to 100 together: who reads, then writes, must be told of the others' writes.
async function transaction(redis, version, key) {
  async function increment(own) {
    for (;;) {
      await own.watch(key("counter"));
      const next = Number(await own.get(key("counter"))) + 1;
      try {
        const replies = await own.multi().set(key("counter"), next).strLen(key("counter")).exec();
        assert.deepEqual(replies, ["OK", String(next).length]);
        return;
      } catch (error) {
        if (!(error instanceof WatchError)) throw error;
      }
    }
  }

  await redis.set(key("counter"), 0);
  const connections = await Promise.all(Array.from({ length: 4 }, () => connect(version)));
  try {
    await Promise.all(
      connections.map(async (own) => {
        for (let times = 0; times < 25; times++) await increment(own);
      }),
    );
  } finally {
    connections.forEach((own) => own.destroy());
  }
  assert.equal(await redis.get(key("counter")), "100");
}

async function pubSub(redis, version, key) {
  const [news, sport, pattern] = [key("news"), key("news.sport"), key("news.*")];
  const subscriber = await connect(version);
  const received = [];
  try {
    await subscriber.subscribe(news, (message, channel) => received.push([channel, message]));
    await subscriber.pSubscribe(pattern, (message, channel) => received.push([pattern, channel, message]));
    assert.equal(await redis.publish(news, "hello"), 1);
    assert.equal(await redis.publish(sport, "1:0"), 1);
    await waitUntil("two messages were received", () => received.length >= 2);
    assert.deepEqual(received, [[news, "hello"], [pattern, sport, "1:0"]]);
    await subscriber.unsubscribe(news);
    assert.equal(await redis.publish(news, "nobody hears this"), 0);
    await subscriber.pUnsubscribe(pattern);
    // A connection for commands again. (Over RESP2, node-redis answers the first one with a Buffer.)
    assert.equal(String(await subscriber.echo("back")), "back");
    assert.equal(received.length, 2);
  } finally {
    subscriber.destroy();
  }
}

async function blocking(redis, version, key) {
  await redis.del([key("jobs"), key("nothing")]);
  const own = await connect(version);
  try {
    const popped = own.blPop(key("jobs"), LIMIT_MS / 1000);
    await waitUntil("a client is blocked", async () => /^blocked_clients:[1-9]/m.test(await redis.info("clients")));
    assert.equal(await redis.rPush(key("jobs"), "wash up"), 1);
    assert.deepEqual({ ...(await popped) }, { key: key("jobs"), element: "wash up" });
  } finally {
    own.destroy();
  }
  const started = performance.now();
  assert.equal(await redis.blPop(key("nothing"), 0.1), null);
  assert.ok(performance.now() - started >= 99, "the wait was too short");
}

async function scan(redis, version, key) {
  const wanted = Array.from({ length: 1000 }, (_, number) => key(`scanned:${number}`)).sort();
  await redis.mSet(wanted.map((name) => [name, "1"]));
  const found = new Set();
  for await (const names of redis.scanIterator({ MATCH: key("scanned:*"), COUNT: 100 })) {
    names.forEach((name) => found.add(name));
  }
  assert.deepEqual([...found].sort(), wanted);

  const fields = Array.from({ length: 1000 }, (_, number) => [`field:${number}`, String(number)]).sort();
  await redis.hSet(key("many"), Object.fromEntries(fields));
  const pairs = new Map();
  for await (const entries of redis.hScanIterator(key("many"), { COUNT: 100 })) {
    for (const { field, value } of entries) pairs.set(field, value);
  }
  assert.deepEqual([...pairs].sort(), fields);
}

async function errors(redis, version, key) {
  await redis.set(key("text"), "not a number");
  await expectError("WRONGTYPE", redis.lPush(key("text"), "x"));
  await expectError("ERR value is not an integer", redis.incr(key("text")));
  await expectError("ERR unknown command", redis.sendCommand(["NO-SUCH-COMMAND"]));
  // Commands of one turn are sent together; each has its own answer.
  const [refused, answered] = await Promise.allSettled([redis.lPush(key("text"), "x"), redis.get(key("text"))]);
  assert.ok(refused.reason instanceof ErrorReply);
  assert.equal(answered.value, "not a number");
}

async function cluster(redis, version, key) {
  const all = createCluster({
    rootNodes: [{ socket: { host, port: clusterPort } }],
    defaults: { socket: { reconnectStrategy: false } },
    RESP: version,
  });
  all.on("error", () => {}); // the commands that wait are told, too
  await all.connect();
  try {
    const wanted = Array.from({ length: 300 }, (_, number) => [key(`spread:${number}`), String(number)]);
    const [names, values] = [wanted.map(([name]) => name), wanted.map(([, value]) => value)];
    for (const [name, value] of wanted) assert.equal(await all.set(name, value), "OK");
    assert.deepEqual(await Promise.all(names.map((name) => all.get(name))), values);
    assert.deepEqual(all.masters.map((master) => master.address).sort(), leaders);
    // What was written there is read at the front door.
    assert.deepEqual(await redis.mGet(names), values);
    assert.deepEqual(await all.mGet(names), values);
    assert.equal(await all.mSet(wanted.flat()), "OK");

    // node-redis sends a block whole, to the node of its first key, wherever the others belong.
    const block = names.slice(0, 10).reduce((block, name) => block.incr(name), all.multi());
    assert.deepEqual(await block.exec(), values.slice(0, 10).map((value) => Number(value) + 1));
    assert.equal(await all.del(names), 300);

    const channel = key("shard");
    const received = [];
    await all.sSubscribe(channel, (message, from) => received.push([from, message]));
    await all.sPublish(channel, "hello");
    await waitUntil("a message comes", () => received.length > 0);
    assert.deepEqual(received, [[channel, "hello"]]);
  } finally {
    all.destroy();
  }
}

const SECTIONS = [
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

let failed = 0;
for (const version of [2, 3]) {
  for (const [name, section] of SECTIONS) {
    const line = `RESP${version}  ${name.padEnd(12)}`;
    let redis;
    try {
      redis = await connect(version);
      await section(redis, version, (word) => `node-redis:${version}:${word}`);
      console.log(`${line} ok`);
    } catch (error) {
      failed += 1;
      console.log(`${line} FAILED: ${error.message.replace(/\s+/g, " ")}`);
    } finally {
      redis?.destroy();
    }
  }
}
if (failed) {
  console.error(`node-redis: ${failed} of ${2 * SECTIONS.length} sections failed`);
  process.exitCode = 1;
}
