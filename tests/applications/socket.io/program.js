// What servers of Socket.IO do through its adapters, checked: each of three servers has a connection to one of PORTS, in turn. With the
// one adapter they speak over Pub/Sub, and ask how many listen to know how many answers to wait for; with the other over a
// stream, which each reads with a blocking XREAD.
//
// Prints a line for each section and exits with 1 if one of them failed.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { createAdapter as createStreamsAdapter } from "@socket.io/redis-streams-adapter";
import { Redis } from "ioredis";
import { Server } from "socket.io";
import { io as connectTo } from "socket.io-client";

const ports = (process.env.PORTS ?? "6379").split(",").map(Number);
const SERVERS = 3;
const LIMIT_MS = 10_000;
const name = randomUUID().slice(0, 8);

async function waitUntil(what, isTrue) {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await isTrue())) {
    assert.ok(Date.now() < deadline, `waited ${LIMIT_MS} ms, and still not: ${what}`);
    await sleep(10);
  }
}

// Three servers with a client each.
class House {
  static async open(adapterOf) {
    const house = new House();
    Object.assign(house, { redis: [], servers: [], https: [], clients: [], heard: [] });
    for (let place = 0; place < SERVERS; place += 1) {
      const connect = () => {
        const redis = new Redis({ host: "127.0.0.1", port: ports[place % ports.length], retryStrategy: null });
        redis.on("error", () => {});
        house.redis.push(redis);
        return redis;
      };
      const http = createServer();
      const server = new Server(http, { adapter: adapterOf(connect) });
      server.on("connection", (socket) => socket.on("join", (room, answer) => answer(socket.join(room) && room)));
      http.listen(0, "127.0.0.1");
      await once(http, "listening");
      house.servers.push(server);
      house.https.push(http);
    }
    for (let place = 0; place < SERVERS; place += 1) {
      const client = connectTo(`http://127.0.0.1:${house.https[place].address().port}`, { transports: ["websocket"] });
      const heard = [];
      client.on("news", (text) => heard.push(text));
      client.on("question", (text, answer) => answer(`${place}: ${text}`));
      await once(client, "connect");
      house.clients.push(client);
      house.heard.push(heard);
    }
    return house;
  }

  // All servers know of each other: each finds the clients of all. A server that is new says so, and is then listened to.
  async settle() {
    for (const server of this.servers) {
      await waitUntil("all sockets are seen", async () => (await server.fetchSockets().catch(() => [])).length === SERVERS);
    }
  }

  async close() {
    for (const client of this.clients) client.close();
    for (const server of this.servers) await server.close();
    for (const redis of this.redis) redis.disconnect();
  }
}

// What holds for each adapter.
async function exercise(adapterOf) {
  const house = await House.open(adapterOf);
  const { servers, clients, heard } = house;
  try {
    await house.settle();
    // To all, from each; every client hears each once.
    servers.forEach((server, place) => server.emit("news", `all from ${place}`));
    await waitUntil("everybody heard of all", () => heard.every((texts) => texts.length === SERVERS));
    for (const texts of heard) assert.deepEqual([...texts].sort(), ["all from 0", "all from 1", "all from 2"]);
    // To a room of two, and to one socket by its id, from a server that has neither.
    await clients[1].timeout(LIMIT_MS).emitWithAck("join", "kitchen");
    await clients[2].timeout(LIMIT_MS).emitWithAck("join", "kitchen");
    await waitUntil("the room is seen", async () => (await servers[0].in("kitchen").fetchSockets()).length === 2);
    servers[0].to("kitchen").emit("news", "dinner");
    servers[1].to(clients[0].id).emit("news", "only you");
    await waitUntil("they heard", () => heard[1].length === 4 && heard[2].length === 4 && heard[0].length === 4);
    assert.equal(heard[0][3], "only you");
    assert.equal(heard[1][3], "dinner");
    // Answers of all clients: how many there are must be known on the way.
    const answers = await servers[2].timeout(LIMIT_MS).emitWithAck("question", "hungry?");
    assert.deepEqual(answers.sort(), ["0: hungry?", "1: hungry?", "2: hungry?"]);
    // Servers speak with each other.
    servers.forEach((server, place) => server.on("sum", (number, answer) => answer(number + place)));
    const sums = await servers[0].serverSideEmitWithAck("sum", 10);
    assert.deepEqual(sums.sort(), [11, 12]);
    // Out, wherever they are.
    servers[0].in("kitchen").disconnectSockets();
    await waitUntil("they are out", () => !clients[1].connected && !clients[2].connected);
    assert.ok(clients[0].connected);
    await waitUntil("nobody is in the room", async () => (await servers[0].in("kitchen").fetchSockets()).length === 0);
  } finally {
    await house.close();
  }
}

const pubSub = () => exercise((connect) => createAdapter(connect(), connect(), { key: `${name}-pubsub`, requestsTimeout: LIMIT_MS }));
const sharded = () => exercise((connect) => createShardedAdapter(connect(), connect(), { channelPrefix: `${name}-sharded` }));
const streams = () => exercise((connect) => createStreamsAdapter(connect(), { streamName: `${name}-stream`, maxLen: 1000, readCount: 100 }));

let status = 0;
for (const [section, run] of Object.entries({ "pub sub": pubSub, "sharded pub sub": sharded, streams })) {
  try {
    await run();
    console.log(`${section.padEnd(18)} ok`);
  } catch (error) {
    console.error(error);
    console.log(`${section.padEnd(18)} FAILED: ${error.name}: ${String(error.message).split("\n")[0]}`);
    status = 1;
  }
}
process.exit(status);
