// What was seen of every job while the shop was open, and whether that is what BullMQ promises: each job is completed once, with
// its own result; it is begun again only if it failed, or if BullMQ itself noticed that its worker was gone ("stalled"); a parent
// begins after its children; nothing delayed begins too early.

import { bounces, ITEMS, QUEUES, wanted } from "./shop.js";

const SHOWN_MAX = 5;

export class Judge {
  constructor(orders) {
    this.wanted = wanted(orders);
    this.total = QUEUES.reduce((sum, queue) => sum + this.wanted[queue].size, 0);
    // When each job was begun, once or oftener, by queue and id.
    this.begun = this.#empty();
    // How many times the stream of events said that each job is completed.
    this.told = this.#empty();
    // Jobs that are completed as far as anybody said: their workers, or the stream of events.
    this.done = Object.fromEntries(QUEUES.map((queue) => [queue, new Set()]));
    // When the answer came that the job was placed.
    this.placed = new Map();
    this.begins = 0;
    this.stalls = 0;
    this.again = 0;
    // What workers and producers were told that they did not expect, and how often.
    this.errors = new Map();
  }

  #empty() {
    return Object.fromEntries(QUEUES.map((queue) => [queue, new Map()]));
  }

  onBegun({ queue, begun, at }) {
    const times = this.begun[queue];
    times.set(begun, [...(times.get(begun) ?? []), at]);
    this.begins += 1;
  }

  onDone({ queue, done }) {
    this.done[queue].add(done);
  }

  onEvent(queue, event, id) {
    if (event === "stalled") this.stalls += 1;
    if (event !== "completed") return;
    this.done[queue].add(id);
    this.told[queue].set(id, (this.told[queue].get(id) ?? 0) + 1);
  }

  onError(message) {
    // Ports and ids differ, and are no other error.
    const kind = message.replace(/ 127\.0\.0\.1:\d+/, "").replace(/(mail|pick|shipment|reminder)-[\d-]+/, "a job");
    this.errors.set(kind, (this.errors.get(kind) ?? 0) + 1);
  }

  allDone() {
    return QUEUES.reduce((sum, queue) => sum + this.done[queue].size, 0);
  }

  // Whether the stream of events has told of all jobs.
  isOver() {
    return QUEUES.every((queue) => this.told[queue].size >= this.wanted[queue].size);
  }

  // `queues` are BullMQ's, by name; they are read through several nodes. Returns what is wrong, in words.
  async verdict(readers) {
    const wrong = [];
    const jobs = {};
    for (const [node, queues] of readers.entries()) {
      for (const name of QUEUES) {
        const counts = await queues[name].getJobCounts();
        const { completed, ...others } = counts;
        const left = Object.entries(others).filter(([, count]) => count > 0);
        if (completed !== this.wanted[name].size || left.length) {
          wrong.push(`node ${node + 1}: of ${this.wanted[name].size} ${name} there are ${JSON.stringify(counts)}`);
        }
      }
    }
    for (const name of QUEUES) {
      const found = await readers[0][name].getJobs(["completed"], 0, -1);
      jobs[name] = new Map(found.filter(Boolean).map((job) => [job.id, job]));
      for (const [id, result] of this.wanted[name]) wrong.push(...this.#judgeJob(name, id, result, jobs[name].get(id)));
      for (const id of jobs[name].keys()) if (!this.wanted[name].has(id)) wrong.push(`${id}: nobody placed it`);
    }
    wrong.push(...this.#judgeFlows(jobs), ...this.#judgeReminders(jobs.reminders));
    return wrong.length > SHOWN_MAX ? [...wrong.slice(0, SHOWN_MAX), `and ${wrong.length - SHOWN_MAX} more`] : wrong;
  }

  #judgeJob(queue, id, result, job) {
    if (!job) return [`${id}: not among the completed jobs`];
    const wrong = [];
    if (job.returnvalue !== result) wrong.push(`${id}: returned ${job.returnvalue}, not ${result}`);
    const told = this.told[queue].get(id) ?? 0;
    if (told !== 1) wrong.push(`${id}: ${told} events say that it is completed`);
    const begins = this.begun[queue].get(id)?.length ?? 0;
    const failures = queue === "mails" && bounces(job.data.order) ? 1 : 0;
    if (begins < 1 + failures) wrong.push(`${id}: begun ${begins} times, and completed`);
    if (begins > 1 + failures + job.stalledCounter) {
      wrong.push(`${id}: begun ${begins} times; it failed ${failures} times and was found stalled ${job.stalledCounter} times`);
    }
    if (begins > 1 + failures) this.again += 1;
    return wrong;
  }

  #judgeFlows(jobs) {
    const wrong = [];
    for (const [id, shipment] of jobs.shipments) {
      const began = this.begun.shipments.get(id)?.[0];
      for (let item = 0; item < ITEMS; item += 1) {
        const pick = jobs.picks.get(`pick-${shipment.data.order}-${item}`);
        // Workers of all processes have the clock of one machine.
        if (pick && began < pick.finishedOn) wrong.push(`${id}: begun before ${pick.id} was done`);
      }
    }
    return wrong;
  }

  // One worker has them all, so that their order is to be seen.
  #judgeReminders(reminders) {
    const wrong = [];
    const seen = [...reminders.values()].map((job) => ({
      id: job.id, due: job.timestamp + job.opts.delay, began: this.begun.reminders.get(job.id)?.[0], stalled: job.stalledCounter,
    }));
    for (const { id, due, began } of seen) if (began < due) wrong.push(`${id}: begun ${due - began} ms before its time`);
    // Those that are due in the same millisecond may come in any order.
    seen.sort((one, other) => one.due - other.due || one.began - other.began);
    // The latest to begin so far.
    let last = seen[0];
    for (const next of seen.slice(1)) {
      // Who was placed after the other was due may be later. Of a job whose worker was gone somebody else comes first.
      if (next.began < last.began && next.due > last.due && !last.stalled && this.placed.get(last.id) < next.due) {
        wrong.push(`${next.id}: begun before ${last.id}, which was due ${next.due - last.due} ms earlier`);
      }
      if (next.began >= last.began) last = next;
    }
    return wrong;
  }
}
