// The workers of one process, who all talk to one node. They tell the main program, which started this one, what they begin and
// what goes wrong, and end when it says so or is gone.
//
// usage: fork("crew.js", [PORT, JSON of the workers of each queue])

import { Worker } from "bullmq";
import { PROCESSORS } from "./shop.js";

const [port, counts] = [Number(process.argv[2]), JSON.parse(process.argv[3])];

const connection = {
  host: "127.0.0.1",
  port,
  // BullMQ's workers must have it so: they wait for their node, however long it is away.
  maxRetriesPerRequest: null,
  retryStrategy: () => 200,
};

// A worker that is not heard of for LOCK_MS has lost its job, and another one gets it. BullMQ's own value is 30 s, which would
// make this program long.
const LOCK_MS = 4000;
const STALLED_CHECK_MS = 2000;
// A job may be lost so often; BullMQ's own value is 1.
const STALLED_MAX = 3;

const tell = (what) => process.connected && process.send(what);

function hire(queue) {
  const worker = new Worker(
    queue,
    (job) => {
      tell({ begun: job.id, queue, at: Date.now(), attempt: job.attemptsMade });
      return PROCESSORS[queue](job);
    },
    { connection, lockDuration: LOCK_MS, stalledInterval: STALLED_CHECK_MS, maxStalledCount: STALLED_MAX },
  );
  worker.on("completed", (job) => tell({ done: job.id, queue }));
  worker.on("error", (error) => tell({ error: error.message || error.code, queue }));
  return worker;
}

const workers = Object.entries(counts).flatMap(([queue, count]) => Array.from({ length: count }, () => hire(queue)));

async function leave() {
  // Whoever waits for a job of a node that is away would wait on.
  const patience = setTimeout(() => process.exit(0), 5000);
  await Promise.all(workers.map((worker) => worker.close()));
  clearTimeout(patience);
  process.exit(0);
}

process.on("message", leave);
process.on("disconnect", () => process.exit(0));
// An interrupt from the terminal is for the main program.
process.on("SIGINT", () => {});
await Promise.all(workers.map((worker) => worker.waitUntilReady()));
tell({ ready: true });
