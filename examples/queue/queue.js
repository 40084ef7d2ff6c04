// A shop whose jobs are BullMQ's, on three nodes of Chorale, one of which is killed while 20 workers are busy; then the same orders
// are placed on a Redis Cluster.

import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue, QueueEvents } from "bullmq";
import { Cluster } from "ioredis";
import { Judge } from "./judge.js";
import { number, Picture } from "./picture.js";
import { CannotRun, Chorale, NODES, RedisCluster } from "./servers.js";
import { Counter, ORDER_JOBS, QUEUES } from "./shop.js";

const [EXIT_WRONG, EXIT_CANNOT_RUN, EXIT_INTERRUPTED] = [1, 2, 130];

// 20 workers; one alone has the reminders, so that their order can be seen.
const WORKERS = { mails: 6, picks: 8, shipments: 5, reminders: 1 };
const CREW = fileURLToPath(new URL("crew.js", import.meta.url));
// The shop stands still for no longer than this.
const PATIENCE_MS = 60_000;
const PLACING_PAUSE_MS = 100;

const { values: options } = parseArgs({
  options: {
    server: { type: "string" },
    orders: { type: "string" },
    kill: { type: "string", default: "2" },
    down: { type: "string", default: "4" },
    quick: { type: "boolean", default: false },
    plain: { type: "boolean", default: false },
    "no-redis": { type: "boolean", default: false },
  },
});
const orders = Number(options.orders ?? (options.quick ? 60 : 200));
const [killed, down] = [Number(options.kill), Number(options.down)];
if (!(Number.isInteger(orders) && orders >= 10)) fail("--orders is a number of 10 or more");
if (!(Number.isInteger(killed) && killed >= 0 && killed <= NODES)) fail(`--kill is a number of 0 to ${NODES}`);
if (!(down >= 0 && down <= 60)) fail("--down is a number of seconds, 0 to 60");

function fail(message) {
  console.error(`queue: ${message}`);
  process.exit(EXIT_CANNOT_RUN);
}

const connectionTo = (port) => ({ host: "127.0.0.1", port, maxRetriesPerRequest: null, retryStrategy: () => 200 });

// What must be ended whatever happens, the latest first.
const toEnd = [];
async function endAll() {
  while (toEnd.length) await toEnd.pop()();
}

// --- the first part: Chorale --------------------------------------------------------------------------

// A process of workers for each node. The workers of a queue are spread over all of them.
async function hire(ports, judge) {
  const counts = ports.map(() => ({}));
  let place = 0;
  for (const [queue, count] of Object.entries(WORKERS)) {
    for (let worker = 0; worker < count; worker += 1, place += 1) {
      const crew = counts[place % ports.length];
      crew[queue] = (crew[queue] ?? 0) + 1;
    }
  }
  const crews = ports.map((port, node) => fork(CREW, [`${port}`, JSON.stringify(counts[node])]));
  toEnd.push(async () => {
    for (const crew of crews) if (crew.connected) crew.send("leave");
    await Promise.all(crews.map((crew) => crew.exitCode === null && crew.signalCode === null && once(crew, "exit")));
  });
  await Promise.all(
    crews.map(
      (crew) =>
        new Promise((resolve, reject) => {
          crew.on("exit", (status) => reject(new CannotRun(`workers ended by themselves, with status ${status}`)));
          crew.on("message", (said) => {
            if (said.ready) resolve();
            else if (said.begun) judge.onBegun(said);
            else if (said.done) judge.onDone(said);
            else judge.onError(said.error);
          });
        }),
    ),
  );
}

// The events of all queues, through the node that is killed: whoever listens reads on where it was, and misses none.
async function listen(port, judge) {
  for (const queue of QUEUES) {
    const events = new QueueEvents(queue, { connection: connectionTo(port), lastEventId: "0" });
    events.on("error", () => {});
    for (const event of ["completed", "stalled"]) events.on(event, ({ jobId }) => judge.onEvent(queue, event, jobId));
    toEnd.push(() => events.close());
    await events.waitUntilReady();
  }
}

// Places some of the orders through one node. What fails because a connection broke is placed again: ids are the shop's own.
async function place(counter, mine, judge) {
  const first = Date.now() + 3000;
  for (const order of mine) {
    for (const way of ["mail", "shipment", "reminder"]) {
      for (let isPlaced = false; !isPlaced; ) {
        try {
          await counter[way](order, first);
          isPlaced = true;
        } catch (error) {
          judge.onError(error.message);
          await sleep(PLACING_PAUSE_MS);
        }
      }
      judge.placed.set(`${way}-${order}`, Date.now());
    }
  }
}

async function killAndStart(chorale, judge, states, picture) {
  if (!killed) return;
  while (judge.allDone() < judge.total / 4) await sleep(20);
  chorale.type(`kill ${killed}`);
  states[killed - 1] = "killed";
  picture.event(`kill -9 node ${killed}`);
  await sleep(down * 1000);
  chorale.type(`start ${killed}`);
  states[killed - 1] = "starting";
  picture.event(`start node ${killed}`);
  await chorale.isBack(killed);
  states[killed - 1] = "up";
}

async function waitUntilDone(judge) {
  let [done, since] = [0, Date.now()];
  while (!judge.isOver()) {
    await sleep(50);
    if (judge.allDone() > done) [done, since] = [judge.allDone(), Date.now()];
    if (Date.now() - since > PATIENCE_MS) return `no job was completed for ${PATIENCE_MS / 1000} s`;
  }
  return null;
}

// Returns whether all is well.
async function onChorale() {
  const judge = new Judge(orders);
  const chorale = await Chorale.start(options.server);
  toEnd.push(() => chorale.stop());
  const { ports } = chorale;
  const counters = ports.map((port) => new Counter(connectionTo(port)));
  toEnd.push(() => Promise.all(counters.map((counter) => counter.close())));
  await listen(ports[Math.max(0, killed - 1)], judge);
  await hire(ports, judge);

  const workers = Object.values(WORKERS).reduce((sum, count) => sum + count);
  console.log(`${number(orders)} orders, ${number(orders * ORDER_JOBS)} jobs in 4 queues; ${workers} workers at ${NODES} nodes of Chorale`);
  const states = ports.map(() => "up");
  const picture = new Picture(judge, states, options.plain);
  toEnd.push(() => picture.close());
  const began = Date.now();
  const placing = counters.map((counter, node) => {
    const mine = Array.from({ length: orders }, (_, order) => order).filter((order) => order % NODES === node);
    return place(counter, mine, judge);
  });
  const faults = killAndStart(chorale, judge, states, picture);
  const stuck = await waitUntilDone(judge);
  const seconds = (Date.now() - began) / 1000;
  if (!stuck) await Promise.all([...placing, faults]);
  picture.close();

  const readers = ports.map((port) => Object.fromEntries(QUEUES.map((name) => [name, new Queue(name, { connection: connectionTo(port) })])));
  const wrong = await judge.verdict(readers);
  if (stuck) wrong.unshift(stuck);
  await Promise.all(readers.flatMap((queues) => Object.values(queues).map((queue) => queue.close())));
  report(judge, seconds, wrong);
  return wrong.length === 0;
}

function report(judge, seconds, wrong) {
  console.log();
  console.log(
    `${number(judge.allDone())} jobs of ${number(judge.total)} done in ${seconds.toFixed(1)} s, ` +
      `${killed ? `while node ${killed} was killed and started again` : "nobody was killed"}.`,
  );
  console.log(
    `${number(judge.begins)} times a job was begun: BullMQ found ${judge.stalls} whose worker had lost its node (stalled), ` +
      `and ${judge.again} were done again.`,
  );
  if (judge.errors.size) console.log("What workers and producers were told meanwhile:");
  for (const [kind, count] of judge.errors) console.log(`    ${count} x ${kind}`);
  console.log();
  if (wrong.length) {
    console.log("VERDICT: WRONG");
    for (const line of wrong) console.log(`    ${line}`);
  } else {
    console.log("VERDICT: every job was completed once, with its own result; parents after their children; no reminder before its");
    console.log("time, and all in order; each completion was told once by the stream of events; every node says so.");
  }
}

// --- the second part: a Redis Cluster -----------------------------------------------------------------

async function onRedisCluster() {
  let redis;
  try {
    redis = await RedisCluster.start();
  } catch (error) {
    if (!(error instanceof CannotRun)) throw error;
    console.log(`\nThe second part, on a Redis Cluster, is left out: ${error.message}`);
    return;
  }
  toEnd.push(() => redis.stop());
  console.log(`\nThe same on a Redis Cluster of ${NODES} masters (redis-server ${redis.version}, ioredis' Cluster):`);
  const cluster = new Cluster(redis.ports.map((port) => ({ host: "127.0.0.1", port })), { redisOptions: { maxRetriesPerRequest: null } });
  cluster.on("error", () => {});
  toEnd.push(() => cluster.disconnect());
  const counter = new Counter(cluster);
  for (const [way, what] of [["mail", "add a job"], ["shipment", "add a flow"], ["reminder", "add a delayed job"]]) {
    let said;
    try {
      await counter[way](0, Date.now());
      said = "carried out";
    } catch (error) {
      said = `refused: ${error.message}`;
    }
    console.log(`    ${what.padEnd(20)} ${said}`);
  }
  await counter.close();
}

async function main() {
  const isWell = await onChorale();
  await endAll();
  if (!options["no-redis"]) await onRedisCluster();
  await endAll();
  return isWell ? 0 : EXIT_WRONG;
}

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, async () => {
    await endAll();
    process.exit(EXIT_INTERRUPTED);
  });
}
try {
  process.exitCode = await main();
} catch (trouble) {
  if (!(trouble instanceof CannotRun)) throw trouble;
  console.error(`queue: ${trouble.message}`);
  process.exitCode = EXIT_CANNOT_RUN;
} finally {
  await endAll();
}
