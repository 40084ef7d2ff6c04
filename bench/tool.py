#!/usr/bin/env python3
"""Compares our load generator, `chorale bench`, with redis-benchmark: what each takes itself, and what each tells.

What they take is seen against a trivial responder, which they ask in turn. What they tell is compared while they run at the same
time, against responders that answer after known times, and against one redis-server. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import record
from load import redis_benchmark_row
from server import REDIS, Launch, Server, SetupError, need_tool

OURS = "target/release/chorale bench"
RESPONDER = f"{OURS} --respond {{port}}"
KEYS = 100_000
VALUE_BYTES = 100
CONNECTIONS = 50
# Keys of one MSET. So many cost the server much more than they cost who asks for them.
BATCH = 100
# Either tool would wait long for a server that is gone.
TOOL_SECONDS_MAX = 300
# The most CPU per request that ours may take, by that of redis-benchmark.
CPU_TARGET = 1.0
# How far what both tell may lie apart.
AGREEMENT = 0.05
TOOLS = ("redis-benchmark", "chorale bench")
MEASURES = ("average_ms", "p50_ms", "p95_ms", "p99_ms")


@dataclass(frozen=True)
class Load:
    """What both tools are to ask for."""

    name: str
    command: str
    connections: int = CONNECTIONS
    pipeline: int = 1
    # How many requests, by that of a SET without pipeline: they should take about as long.
    share: float = 1.0

    def argv(self, tool: str, ours: list[str], port: int, requests: int) -> list[str]:
        """The command line of a tool."""
        if tool == "redis-benchmark":
            argv = [need_tool(tool), "-h", "127.0.0.1", "-p", str(port), "--csv", "-r", str(KEYS), "-n", str(requests)]
            argv += ["-c", str(self.connections), "-P", str(self.pipeline)]
            if self.command == "mset":
                return [*argv, "MSET", *["key:__rand_int__", "x" * VALUE_BYTES] * BATCH]
            return [*argv, "-t", self.command, "-d", str(VALUE_BYTES)]
        argv = [*ours, f"127.0.0.1:{port}", "--json", "-", "--no-load", "--keys", str(KEYS), "--size", str(VALUE_BYTES)]
        argv += ["--clients", str(self.connections), "--pipeline", str(self.pipeline), "--requests", str(requests)]
        if self.command == "mset":
            return [*argv, "--workload", "mset", "--batch", str(BATCH)]
        return [*argv, "--workload", "get_set", "--ratio", "1:0" if self.command == "get" else "0:1"]


CPU_LOADS = [
    Load(f"{command}/c{CONNECTIONS}/p{depth}", command, pipeline=depth, share=share)
    for depth, share in ((1, 1.0), (16, 10.0))
    for command in ("set", "get")
]
DELAYED = Load(f"set/c{CONNECTIONS}/p1", "set", share=0.25)
# On one server, so each has half of the connections.
HALF = CONNECTIONS // 2
SHARED = [Load(f"{command}/c{HALF}+{HALF}/p1", command, HALF, share=share) for command, share in (("mset", 0.1), ("set", 1.0))]


@dataclass(frozen=True)
class Run:
    """What one tool took and told, once."""

    part: str
    load: str
    round: int
    tool: str
    order: int
    requests: int
    wall_s: float
    cpu_s: float
    average_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @property
    def cpu_us(self) -> float:
        """CPU time of the tool by request."""
        return self.cpu_s / self.requests * 1e6


def told(tool: str, out: str) -> dict[str, float]:
    """The latencies in what a tool printed."""
    if tool == "redis-benchmark":
        return {measure: redis_benchmark_row(out)[measure] for measure in MEASURES}
    report = json.loads(out)
    if report["errors"] or report["connections_lost"]:
        raise ValueError(f"requests failed: {report['errors_by_kind']}")
    shares = {entry["share"]: entry["ms"] for entry in report["percentiles"]}
    return {"average_ms": report["latency"]["average_ms"], "p50_ms": shares[0.5], "p95_ms": shares[0.95], "p99_ms": shares[0.99]}


def at_once(options: argparse.Namespace, part: str, load: Load, number: int, servers: dict[str, Server]) -> list[Run]:
    """Runs tools at the same time, each against its server, and reads what each took and told."""
    requests = max(100, int(options.requests * load.share))
    ours = Launch("chorale bench", options.ours + " {port}").argv(0, 0)[:-1]
    began = time.monotonic()
    running: dict[str, subprocess.Popen[bytes]] = {}
    done: dict[str, tuple[float, float]] = {}
    try:
        for tool, server in servers.items():
            argv = [need_tool("timeout"), str(TOOL_SECONDS_MAX), *load.argv(tool, ours, server.port, requests)]
            if not options.no_pin:
                argv = [need_tool("taskset"), "-c", str(options.tool_core), *argv]
            running[tool] = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for tool, process in running.items():
            # wait4 instead of Popen.wait: it alone tells this child's own CPU time. What they print fits into a pipe.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            done[tool] = (usage.ru_utime + usage.ru_stime, time.monotonic() - began)
        found = []
        for order, (tool, server) in enumerate(servers.items()):
            process = running[tool]
            out, err = (pipe.read().decode(errors="replace") for pipe in (process.stdout, process.stderr) if pipe)
            try:
                if process.returncode != 0:
                    raise ValueError(f"status {process.returncode}")
                latencies = told(tool, out)
            except (ValueError, KeyError) as error:
                server.ensure_alive()
                problem = (err + out).strip()[-500:] or "(nothing)"
                raise SetupError(f"{tool} failed on {load.name} against {server.name}: {error}; it said\n{problem}") from error
            cpu, wall = done[tool]
            found.append(Run(part, load.name, number, tool, order, requests, wall, cpu, **latencies))
        return found
    finally:
        for process in running.values():
            if process.returncode is None:
                process.kill()
                process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()


def first(number: int) -> tuple[str, ...]:
    """Both tools; who begins changes from round to round."""
    return TOOLS if number % 2 == 0 else TOOLS[::-1]


def in_turn(options: argparse.Namespace, part: str, load: Load, number: int, server: Server) -> list[Run]:
    """Both tools one after the other."""
    return [run for tool in first(number) for run in at_once(options, part, load, number, {tool: server})]


def measure(options: argparse.Namespace, progress: record.Progress, runs: list[Run]) -> None:
    """All rounds. What was complete is in `runs` even if it ends early."""
    core = None if options.no_pin else options.server_core
    plain = Launch("responder", RESPONDER, core=core)
    delayed = Launch("responder with delays", f"{RESPONDER} --delay {options.delay}", core=core)
    redis = Launch("redis", options.redis, core=core)
    # Each has a responder of its own where answers are delayed, and so the whole distribution.
    with Server(plain) as responder, Server(delayed) as one, Server(delayed) as other, Server(redis) as shared:
        delaying = dict(zip(TOOLS, (one, other)))
        for number in range(options.rounds):
            for load in CPU_LOADS:
                progress.step(f"CPU, {load.name}, round {number + 1}")
                runs += in_turn(options, "cpu", load, number, responder)
            progress.step(f"known delays, round {number + 1}")
            runs += at_once(options, "delays", DELAYED, number, {tool: delaying[tool] for tool in first(number)})
            for load in SHARED:
                progress.step(f"redis-server, {load.name}, round {number + 1}")
                runs += at_once(options, "shared", load, number, dict.fromkeys(first(number), shared))


def compared(runs: list[Run], value: Callable[[Run], float]) -> dict[str, dict[str, float]]:
    """The spreads of both tools, and that of the ratios, ours by the other, of each round."""
    by_tool = {tool: sorted((run for run in runs if run.tool == tool), key=lambda run: run.round) for tool in TOOLS}
    pairs = list(zip(by_tool[TOOLS[0]], by_tool[TOOLS[1]]))
    return {
        "first": record.spread([value(one) for one, _ in pairs]),
        "second": record.spread([value(two) for _, two in pairs]),
        "ratio": record.spread([value(two) / value(one) for one, two in pairs]),
    }


def known(measure: str, mean_ms: float) -> float:
    """What an exponential distribution with this mean has."""
    if measure == "average_ms":
        return mean_ms
    return -mean_ms * math.log(1 - int(measure[1:3]) / 100)


def evaluate(runs: list[Run], delay: float) -> dict[str, list[dict[str, object]]]:
    """The cells of both tables, those without a run left out."""
    cpu: list[dict[str, object]] = []
    for load in CPU_LOADS:
        mine = [run for run in runs if run.part == "cpu" and run.load == load.name]
        if {run.tool for run in mine} == set(TOOLS):
            spreads = compared(mine, lambda run: run.cpu_us)
            cpu.append({"load": load.name, **spreads, "met": spreads["ratio"]["median"] <= CPU_TARGET})
    latencies: list[dict[str, object]] = []
    for part, load in [("delays", DELAYED), *(("shared", load) for load in SHARED)]:
        mine = [run for run in runs if run.part == part and run.load == load.name]
        if {run.tool for run in mine} != set(TOOLS):
            continue
        for measure in MEASURES:
            spreads = compared(mine, lambda run, measure=measure: getattr(run, measure))
            is_met = abs(spreads["ratio"]["median"] - 1) <= AGREEMENT
            exact = known(measure, delay * 1e3) if part == "delays" else None
            latencies.append({"part": part, "load": load.name, "measure": measure, "known": exact, **spreads, "met": is_met})
    return {"cpu": cpu, "latencies": latencies}


def summary(cells: dict[str, list[dict[str, object]]], options: argparse.Namespace, rounds: int) -> str:
    """Both tables."""

    def spreads(cell: dict[str, object]) -> list[dict[str, float]]:
        found = [cell[side] for side in ("first", "second", "ratio")]
        return [spread for spread in found if isinstance(spread, dict)]

    placed = "nothing pinned" if options.no_pin else f"servers on core {options.server_core}, tools on core {options.tool_core}"
    lines = ["", f"{rounds} rounds, {placed}. Each entry is the median of the rounds (smallest-largest); ratios are chorale bench by "]
    lines[-1] += "redis-benchmark in each round."
    rows = []
    for cell in cells["cpu"]:
        one, two, ratio = spreads(cell)
        per_core = [f"{1e6 / spread['median']:,.0f}" for spread in (one, two)]
        rows.append([str(cell["load"]), record.shown(one), record.shown(two), record.shown(ratio), *per_core, "met" if cell["met"] else "MISSED"])
    headings = ["load", "CPU µs/request redis-benchmark", "chorale bench", "ratio", "requests/s of a core redis-benchmark", "chorale bench"]
    lines += ["", "## What the tools take", "", record.table([*headings, f"<={CPU_TARGET:.2f}"], rows), ""]
    rows = []
    for cell in cells["latencies"]:
        one, two, ratio = spreads(cell)
        exact = cell["known"]
        where = "responder, known delays" if cell["part"] == "delays" else "redis-server, both at once"
        row = [f"{where}, {cell['load']}", str(cell["measure"]), f"{exact:.3f}" if isinstance(exact, float) else "-"]
        rows.append([*row, record.shown(one, ".3f"), record.shown(two, ".3f"), record.shown(ratio, ".3f"), "met" if cell["met"] else "MISSED"])
    headings = ["server and load", "measure", "known ms", "redis-benchmark ms", "chorale bench ms", "ratio", f"within {AGREEMENT:.0%}"]
    lines += ["## What the tools tell", "", record.table(headings, rows), ""]
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ours", default=OURS, help="the command line of our tool, from the repository root")
    parser.add_argument("--redis", default=REDIS, help="the command line of the server that both ask at once")
    parser.add_argument("--rounds", type=int, default=7, help="how often everything is run")
    parser.add_argument("--requests", type=int, default=60_000, help="requests of one run of SET; others take about as long")
    parser.add_argument("--delay", type=float, default=0.01, help="mean of the known delays, in seconds")
    parser.add_argument("--no-pin", action="store_true", help="do not pin anything to cores")
    parser.add_argument("--server-core", type=int, default=0, help="core of the servers where pinned")
    parser.add_argument("--tool-core", type=int, default=1, help="core of the tools where pinned")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.requests = 1, 1_000
    if options.rounds < 1 or options.requests < 1 or options.delay <= 0:
        parser.error("--rounds, --requests and --delay must be positive")
    return options


def run(options: argparse.Namespace) -> None:
    """Runs the measurement. Ctrl-C evaluates the rounds that are complete."""
    if not options.no_pin and not {options.server_core, options.tool_core} <= os.sched_getaffinity(0):
        raise SetupError("those cores are not both usable here: choose others with --server-core and --tool-core, or pass --no-pin")
    facts = record.environment([Launch("responder", RESPONDER), Launch("redis", options.redis)], ["redis-benchmark"])
    progress = record.Progress(options.rounds * (len(CPU_LOADS) + 1 + len(SHARED)))
    runs: list[Run] = []
    stopped = False
    try:
        measure(options, progress, runs)
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    cells = evaluate(runs, options.delay)
    text = record.preamble("The load generators", facts)
    if options.quick:
        text += "- A quick run: too short to compare anything\n"
    if stopped:
        text += "- Stopped early: the rounds are those that were complete\n"
    text += summary(cells, options, max((run.round + 1 for run in runs), default=0))
    data = {"kind": "tool", **facts, "quick": options.quick, "stopped_early": stopped, "delay_s": options.delay}
    record.write(options.out, {**data, "summary": cells, "runs": [asdict(run) for run in runs]}, text)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
