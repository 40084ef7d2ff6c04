// What programs do with rate-limiter-flexible and with redlock, checked: against the servers at PORTS. Clients at all of them want the
// same limits and locks at one time.
//
// Prints a line for each section and exits with 1 if one of them failed.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import Redlock from "redlock";

const ports = (process.env.PORTS ?? "6379").split(",").map(Number);
const CLIENTS = 6;
const name = randomUUID().slice(0, 8);
const clients = Array.from({ length: CLIENTS }, (_, place) => {
  const redis = new Redis({ host: "127.0.0.1", port: ports[place % ports.length], retryStrategy: null });
  redis.on("error", () => {});
  return redis;
});

const limiters = (options) => clients.map((storeClient) => new RateLimiterRedis({ storeClient, ...options }));

// How many of so many points taken by each are given, and what the others were told.
async function take(all, key, each) {
  const asked = all.flatMap((limiter) => Array.from({ length: each }, () => limiter.consume(key)));
  const settled = await Promise.allSettled(asked);
  const refused = settled.filter((one) => one.status === "rejected").map((one) => one.reason);
  for (const reason of refused) assert.ok(reason instanceof RateLimiterRes, `${reason}`);
  return { given: settled.length - refused.length, refused };
}

async function limits() {
  const all = limiters({ keyPrefix: `${name}:limit`, points: 50, duration: 60 });
  const { given, refused } = await take(all, "ann", 20);
  assert.equal(given, 50);
  assert.ok(refused.every((reason) => reason.msBeforeNext > 0 && reason.msBeforeNext <= 60_000 && reason.remainingPoints === 0));
  assert.equal((await take(all, "bob", 2)).given, 12);
  assert.equal((await all[1].get("bob")).consumedPoints, 12);
  await all[2].reward("bob", 5);
  assert.equal((await all[0].get("bob")).consumedPoints, 7);
  assert.equal(await all[3].delete("bob"), true);
  assert.equal(await all[4].get("bob"), null);
}

// A window ends, and another one begins.
async function windows() {
  const all = limiters({ keyPrefix: `${name}:window`, points: 3, duration: 1 });
  assert.equal((await take(all, "ann", 1)).given, 3);
  await sleep(1100);
  assert.equal((await take(all, "ann", 1)).given, 3);
}

async function blocking() {
  const all = limiters({ keyPrefix: `${name}:block`, points: 2, duration: 1, blockDuration: 30 });
  await take(all, "ann", 1);
  await sleep(1100);
  // The window is over, and yet everybody is told to wait.
  const { given, refused } = await take(all, "ann", 1);
  assert.equal(given, 0);
  assert.ok(refused.every((reason) => reason.msBeforeNext > 10_000));
}

async function bursts() {
  const all = clients.map((storeClient) => new BurstyRateLimiter(
    new RateLimiterRedis({ storeClient, keyPrefix: `${name}:steady`, points: 2, duration: 30 }),
    new RateLimiterRedis({ storeClient, keyPrefix: `${name}:burst`, points: 5, duration: 60 }),
  ));
  assert.equal((await take(all, "ann", 2)).given, 7);
}

// Who is refused waits in line.
async function queues() {
  const queue = new RateLimiterQueue(limiters({ keyPrefix: `${name}:queue`, points: 3, duration: 1 })[0], { maxQueueSize: 20 });
  const began = Date.now();
  await Promise.all(Array.from({ length: 7 }, () => queue.removeTokens(1)));
  const took = Date.now() - began;
  assert.ok(took >= 1500 && took < 10_000, `seven of three a second took ${took} ms`);
}

// A counter that is read and written in two steps, under a lock: none of the steps is lost.
async function locks() {
  const key = `${name}:counter`;
  await clients[0].set(key, 0);
  await Promise.all(clients.map(async (client) => {
    const redlock = new Redlock([client], { retryCount: 1000, retryDelay: 10, retryJitter: 10 });
    for (let turn = 0; turn < 8; turn += 1) {
      const lock = await redlock.lock(`${name}:lock`, 20_000);
      await client.set(key, Number(await client.get(key)) + 1);
      await lock.unlock();
    }
  }));
  assert.equal(await clients[1].get(key), `${CLIENTS * 8}`);
}

// One lock over several resources, whose keys lie anywhere; it ends by itself, and can be made longer.
async function lockOfMany() {
  const [one, other] = [0, 1].map((place) => new Redlock([clients[place]], { retryCount: 0 }));
  const resources = ["tea", "milk", "sugar"].map((word) => `${name}:${word}`);
  const lock = await one.lock(resources, 500);
  await assert.rejects(other.lock(resources.slice(1), 500), Redlock.LockError);
  const longer = await lock.extend(1500);
  await sleep(700);
  await assert.rejects(other.lock(resources[2], 500), Redlock.LockError);
  await longer.unlock();
  const next = await other.lock(resources, 200);
  await sleep(400);
  await assert.rejects(next.unlock(), Redlock.LockError);
}

let status = 0;
const sections = { limits, windows, blocking, bursts, queues, locks, "lock of many": lockOfMany };
for (const [section, run] of Object.entries(sections)) {
  try {
    await run();
    console.log(`${section.padEnd(14)} ok`);
  } catch (error) {
    console.error(error);
    console.log(`${section.padEnd(14)} FAILED: ${error.name}: ${String(error.message).split("\n")[0]}`);
    status = 1;
  }
}
for (const client of clients) client.disconnect();
process.exit(status);
