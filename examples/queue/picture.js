// What is shown while the shop is open: a picture that redraws itself on a terminal, lines elsewhere.

import { QUEUES } from "./shop.js";

const BAR_WIDTH = 40;
const EIGHTHS = " ▏▎▍▌▋▊▉";
const [GREEN, YELLOW, RED, DIM, PLAIN] = ["\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"];
const [CLEAR_REST_OF_LINE, CLEAR_BELOW] = ["\x1b[K", "\x1b[J"];
const [HIDE_CURSOR, SHOW_CURSOR] = ["\x1b[?25l", "\x1b[?25h"];
const LOOKS = { up: [GREEN, "●"], killed: [RED, "✖"], starting: [YELLOW, "○"] };
const REDRAW_MS = 100;
const LINE_MS = 2000;

export const number = (value) => value.toLocaleString("en-US");

function bar(share) {
  const eighths = Math.round(share * BAR_WIDTH * 8);
  const rest = eighths % 8 ? EIGHTHS[eighths % 8] : "";
  return ("█".repeat(Math.floor(eighths / 8)) + rest).padEnd(BAR_WIDTH, "░");
}

export class Picture {
  constructor(judge, states, isPlain) {
    Object.assign(this, { judge, states, events: [], height: 0, samples: [], started: Date.now() });
    this.isLive = process.stdout.isTTY && !isPlain && process.env.TERM !== "dumb";
    this.hasColour = this.isLive && !process.env.NO_COLOR;
    if (this.isLive) process.stdout.write(HIDE_CURSOR);
    this.timer = setInterval(() => this.draw(), this.isLive ? REDRAW_MS : LINE_MS);
  }

  seconds() {
    return (Date.now() - this.started) / 1000;
  }

  // Something happened to a node.
  event(text) {
    const line = `${this.seconds().toFixed(1).padStart(6)} s  ${text}`;
    this.events.push(line);
    if (!this.isLive) console.log(line);
  }

  // Jobs a second, over the last two seconds or so.
  rate() {
    const now = { at: Date.now(), done: this.judge.allDone() };
    this.samples.push(now);
    while (this.samples.length > 2 && now.at - this.samples[0].at > 2000) this.samples.shift();
    const first = this.samples[0];
    return now.at > first.at ? ((now.done - first.done) * 1000) / (now.at - first.at) : 0;
  }

  draw() {
    const { judge } = this;
    const [done, rate] = [judge.allDone(), Math.round(this.rate())];
    if (!this.isLive) {
      const nodes = this.states.map((state, node) => `${node + 1}:${state}`).join(" ");
      console.log(
        `${this.seconds().toFixed(1).padStart(6)} s  ${number(done)} of ${number(judge.total)} jobs done, ${number(rate)}/s; ` +
          `${judge.stalls} found stalled; nodes ${nodes}`,
      );
      return;
    }
    const paint = (colour, text) => (this.hasColour ? `${colour}${text}${PLAIN}` : text);
    const share = done / judge.total;
    const lines = [
      `jobs done  ${paint(GREEN, bar(share))} ${`${Math.floor(share * 100)}%`.padStart(4)}  ${number(done)} of ${number(judge.total)}  ${number(rate)}/s`,
      "",
      ...QUEUES.map((queue) => {
        const [count, all] = [judge.done[queue].size, judge.wanted[queue].size];
        return `${queue.padEnd(10)} ${number(count).padStart(6)} of ${number(all)}`;
      }),
      "",
      `begun      ${number(judge.begins).padStart(6)}, ${judge.stalls} found stalled`,
      "",
      ...this.states.map((state, node) => `node ${node + 1}  ${paint(LOOKS[state][0], `${LOOKS[state][1]} ${state}`)}`),
      "",
      ...this.events.map((event) => paint(DIM, event)),
    ];
    const up = this.height ? `\x1b[${this.height}A` : "";
    process.stdout.write(`${up}\r${lines.map((line) => `${line}${CLEAR_REST_OF_LINE}\n`).join("")}${CLEAR_BELOW}`);
    this.height = lines.length;
  }

  close() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    this.draw();
    if (this.isLive) process.stdout.write(SHOW_CURSOR);
  }
}
