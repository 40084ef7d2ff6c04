// The servers of the example: the nodes of a `chorale dev`, one of which can be killed, and the masters of a Redis Cluster.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

export const NODES = 3;
const HOST = "127.0.0.1";
const START_MS = 60_000;

// The example cannot run; the message says what to do about it.
export class CannotRun extends Error {}

async function isFree(port) {
  const probe = net.createServer();
  try {
    probe.listen(port, HOST);
    await once(probe, "listening");
    return true;
  } catch {
    return false;
  } finally {
    probe.close();
  }
}

// A port with which those that follow from it are free too.
async function freePort(offsets) {
  for (let tries = 0; tries < 200; tries += 1) {
    // Below the range from which the kernel takes ports for connections: a node that is down keeps its ports.
    const first = 12_000 + Math.floor(Math.random() * 9000);
    const are = await Promise.all(offsets.map((offset) => isFree(first + offset)));
    if (are.every(Boolean)) return first;
  }
  throw new CannotRun(`no ports for ${NODES} servers are free between 12000 and 32000`);
}

const each = Array.from({ length: NODES }, (_, number) => number);

// Starts a program that ends with this one.
function start(program, words, folder, stdin) {
  const child = spawn(program, words, { cwd: folder, stdio: [stdin, "pipe", "pipe"], detached: true });
  const started = { child, said: "" };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (started.said += text));
  child.on("error", (error) => (started.said += error.message));
  return started;
}

async function saysWithin(server, words, what) {
  const deadline = Date.now() + START_MS;
  while (!server.said.includes(words)) {
    if (server.child.exitCode !== null || server.child.pid === undefined || Date.now() > deadline) {
      throw new CannotRun(`${what} did not start; it said:\n${server.said.slice(-2000)}`);
    }
    await sleep(20);
  }
}

async function end({ child }) {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const patience = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(patience);
}

// Three nodes that are one store.
export class Chorale {
  static async start(program) {
    const first = await freePort([0, 1000, 2000, 3000].flatMap((kind) => each.map((node) => kind + node)));
    const self = new Chorale();
    self.ports = each.map((node) => first + node);
    self.folder = await mkdtemp(path.join(tmpdir(), "queue-"));
    self.server = start(program, ["dev", "--nodes", `${NODES}`, "--port", `${first}`], self.folder, "pipe");
    try {
      await saysWithin(self.server, "They are ready", "chorale dev");
    } catch (trouble) {
      await self.stop();
      throw trouble;
    }
    return self;
  }

  // What a person would type: `kill 2`, `start 2`.
  type(line) {
    this.server.child.stdin.write(`${line}\n`);
  }

  // Waits until a node that was started again takes connections.
  async isBack(node) {
    const deadline = Date.now() + START_MS;
    while (Date.now() < deadline) {
      const probe = net.connect(this.ports[node - 1], HOST);
      try {
        await once(probe, "connect");
        return;
      } catch {
        await sleep(50);
      } finally {
        probe.destroy();
      }
    }
    throw new CannotRun(`node ${node} did not start again; the nodes said:\n${this.server.said.slice(-2000)}`);
  }

  async stop() {
    await end(this.server);
    await rm(this.folder, { recursive: true, force: true });
  }
}

// Three masters that have the slots between them.
export class RedisCluster {
  static async start() {
    const self = new RedisCluster();
    // Each master has a second port, 10,000 above its first one.
    const first = await freePort([0, 10_000].flatMap((kind) => each.map((node) => kind + node)));
    self.ports = each.map((node) => first + node);
    self.folder = await mkdtemp(path.join(tmpdir(), "queue-"));
    const words = ["--bind", HOST, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes"];
    self.servers = self.ports.map((port) =>
      start("redis-server", [...words, "--port", `${port}`, "--cluster-config-file", `nodes-${port}.conf`], self.folder, "ignore"),
    );
    try {
      for (const server of self.servers) await saysWithin(server, "Ready to accept connections", "redis-server");
      const places = self.ports.map((port) => `${HOST}:${port}`);
      await promisify(execFile)("redis-cli", ["--cluster", "create", ...places, "--cluster-yes"]);
      self.version = /version=([0-9.]+)/.exec(self.servers[0].said)?.[1] ?? "of this machine";
    } catch (trouble) {
      await self.stop();
      throw trouble instanceof CannotRun ? trouble : new CannotRun(`redis-cli --cluster create failed: ${trouble.message}`);
    }
    return self;
  }

  async stop() {
    await Promise.all(this.servers.map(end));
    await rm(this.folder, { recursive: true, force: true });
  }
}
