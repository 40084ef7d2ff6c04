// What the shop does: the jobs of an order, and how each of them is done. Nothing here knows which server it is.
//
// An order is a mail that confirms it, a shipment that waits until its items are picked (a flow: one parent, two children), and a
// reminder that must not be sent before its time. All of it is BullMQ as it comes: no prefix, no hash tag.

import { FlowProducer, Queue } from "bullmq";
import { setTimeout as sleep } from "node:timers/promises";

export const QUEUES = ["mails", "picks", "shipments", "reminders"];

export const ITEMS = 2;
// The jobs of one order.
export const ORDER_JOBS = 1 + ITEMS + 1 + 1;

// Every tenth mail bounces the first time.
const ATTEMPTS = 3;
const BACKOFF_MS = 200;
export const bounces = (order) => order % 10 === 3;

// Reminders are due this far apart, and never sooner than a second from now.
const REMINDER_STEP_MS = 20;
const REMINDER_SOONEST_MS = 1000;

export const grams = (order, item) => 100 + ((order * 7 + item * 13) % 900);
export const shipmentGrams = (order) => {
  let sum = 0;
  for (let item = 0; item < ITEMS; item += 1) sum += grams(order, item);
  return sum;
};

// The jobs that must be done, by queue: what each has to return by its id.
export function wanted(orders) {
  const all = Object.fromEntries(QUEUES.map((queue) => [queue, new Map()]));
  for (let order = 0; order < orders; order += 1) {
    all.mails.set(`mail-${order}`, `mailed ${order}`);
    for (let item = 0; item < ITEMS; item += 1) all.picks.set(`pick-${order}-${item}`, grams(order, item));
    all.shipments.set(`shipment-${order}`, shipmentGrams(order));
    all.reminders.set(`reminder-${order}`, `reminded ${order}`);
  }
  return all;
}

// Places orders. Each job has an id of the shop's own: an order that is placed again, because a connection broke and nobody
// knows whether it arrived, is the same order.
export class Counter {
  constructor(connection) {
    this.mails = new Queue("mails", { connection });
    this.reminders = new Queue("reminders", { connection });
    this.flows = new FlowProducer({ connection });
    for (const part of this.parts()) part.on("error", () => {});
  }

  parts() {
    return [this.mails, this.reminders, this.flows];
  }

  mail(order) {
    const options = { jobId: `mail-${order}`, attempts: ATTEMPTS, backoff: { type: "fixed", delay: BACKOFF_MS } };
    return this.mails.add("confirm", { order }, options);
  }

  shipment(order) {
    const children = [];
    for (let item = 0; item < ITEMS; item += 1) {
      children.push({ name: "pick", queueName: "picks", data: { order, item }, opts: { jobId: `pick-${order}-${item}` } });
    }
    return this.flows.add({
      name: "send", queueName: "shipments", data: { order }, opts: { jobId: `shipment-${order}` }, children,
    });
  }

  // `first` is when the reminder of order 0 is due.
  reminder(order, first) {
    const timestamp = Date.now();
    const due = Math.max(first + order * REMINDER_STEP_MS, timestamp + REMINDER_SOONEST_MS);
    return this.reminders.add("remind", { order }, { jobId: `reminder-${order}`, timestamp, delay: due - timestamp });
  }

  close() {
    return Promise.all(this.parts().map((part) => part.close()));
  }
}

// How jobs are done, by queue. What is returned goes to the parent, and is looked at at the end.
export const PROCESSORS = {
  async mails(job) {
    await sleep(3);
    if (bounces(job.data.order) && job.attemptsMade === 0) throw new Error("the mail bounced");
    return `mailed ${job.data.order}`;
  },
  async picks(job) {
    await sleep(5);
    return grams(job.data.order, job.data.item);
  },
  async shipments(job) {
    const picked = Object.values(await job.getChildrenValues());
    if (picked.length !== ITEMS) throw new Error(`the shipment of order ${job.data.order} has ${picked.length} items`);
    return picked.reduce((sum, weight) => sum + weight, 0);
  },
  async reminders(job) {
    return `reminded ${job.data.order}`;
  },
};
