#!/usr/bin/env python3
"""Compares the speed of our server with redis-server, and of two workers with one.

Both servers run at the same time and are measured in turn, so that what else happens on the machine
meets both. See README.md in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import load
import record
from server import OURS, REDIS, TICK_NS, Launch, Server, SetupError
from wire import Connection

KEYS = 100_000
VALUE = b"x" * 100
# The workloads by family. Those of collections name one key each.
FAMILIES = {
    "strings": ("set", "get", "incr", "mset"),
    "lists": ("lpush", "rpush", "lpop", "rpop", "lrange"),
    "hashes": ("hset",),
    "sets": ("sadd", "spop"),
    "sorted-sets": ("zadd", "zpopmin", "zrange"),
    "streams": ("xadd", "xrange"),
}
SHAPE = ("--keys", str(KEYS), "--size", str(len(VALUE)))
# What `chorale bench` asks.
WORKLOADS = {"set": load.SET, "get": load.GET, "mset": ("--workload", "mset", "--batch", "10")}
# What redis-benchmark asks, because `chorale bench` has no such workload. It replaces `__rand_int__` by 12 digits.
COUNTER, ELEMENT = "counter:__rand_int__", "element:__rand_int__"
WORDS = {
    "incr": ("INCR", COUNTER),
    "lpush": ("LPUSH", "bench:list", VALUE.decode()),
    "rpush": ("RPUSH", "bench:list", VALUE.decode()),
    "lpop": ("LPOP", "bench:list"),
    "rpop": ("RPOP", "bench:list"),
    "lrange": ("LRANGE", "bench:list", "0", "99"),
    "hset": ("HSET", "bench:hash", ELEMENT, VALUE.decode()),
    "sadd": ("SADD", "bench:set", ELEMENT),
    "spop": ("SPOP", "bench:set"),
    "zadd": ("ZADD", "bench:sorted-set", "__rand_int__", ELEMENT),
    "zpopmin": ("ZPOPMIN", "bench:sorted-set"),
    "zrange": ("ZRANGE", "bench:sorted-set", "0", "99"),
    "xadd": ("XADD", "bench:stream", "*", "field", VALUE.decode()),
    "xrange": ("XRANGE", "bench:stream", "-", "+", "COUNT", "100"),
}
# How many elements a collection has of which some are read.
READ_FROM = 10_000
# Shares from which a run says more about something else than about the server.
GENERATOR_BUSY = 0.90
OTHERS_BUSY = 0.10


@dataclass(frozen=True)
class Cell:
    """One workload: a command, a number of connections, a pipeline depth."""

    command: str
    connections: int
    pipeline: int

    @property
    def name(self) -> str:
        return f"{self.command}/c{self.connections}/p{self.pipeline}"


CELLS = [
    Cell(command, connections, pipeline)
    for family, commands in FAMILIES.items()
    for pipeline in (1, 16)
    # What one connection sees of a command is told by the strings.
    for connections in ((1, 50) if family == "strings" else (50,))
    for command in commands
]


@dataclass(frozen=True)
class Comparison:
    """Two servers that take turns; the ratios are the second by the first."""

    title: str
    first: Launch
    second: Launch
    generator_core: int | None
    # Threads of `chorale bench`.
    generators: int
    # By pipeline depth.
    string_targets: dict[int, float]
    collection_targets: dict[int, float]
    latency_target: float | None

    def cpu_targets(self, command: str) -> dict[int, float]:
        """The most CPU per command, as a ratio, that this command may cost."""
        return self.string_targets if command in FAMILIES["strings"] else self.collection_targets


@dataclass(frozen=True)
class Run:
    """The numbers of one server in one cell of one round."""

    comparison: str
    round: int
    cell: str
    server: str
    order: int
    requests: int
    wall_s: float
    requests_per_s: float
    cpu_us_per_command: float
    server_cpu_s: float
    server_waited_s: float
    generator_cpu_s: float
    # The share of a core that its busiest thread used.
    generator_busy: float
    others_busy_cores: float
    average_ms: float
    p50_ms: float
    p99_ms: float


def machine_busy_s() -> float:
    """CPU time that all cores together have spent on anything, the hypervisor's other guests included."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) * TICK_NS / 1e9


def generate(server: Server, cell: Cell, requests: int, threads: int) -> dict[str, Any]:
    """Runs the generator that knows the command, on the cores of this process, and returns its report."""
    connections, pipeline = str(cell.connections), str(cell.pipeline)
    try:
        if cell.command in WORKLOADS:
            options = ["--clients", connections, "--pipeline", pipeline, "--threads", str(threads)]
            return load.ask_requests([server.port], requests, [*SHAPE, *WORKLOADS[cell.command], *options])
        options = ["-c", connections, "-P", pipeline, "-r", str(KEYS), *WORDS[cell.command]]
        return load.ask_redis_benchmark(server.port, requests, options)
    except (SetupError, subprocess.TimeoutExpired):
        server.ensure_alive()
        raise


def prepare(server: Server, cell: Cell, requests: int) -> None:
    """Makes the counters, or the collection, that a command names what they should be before so many requests."""
    if cell.command in WORKLOADS:
        return
    key = WORDS[cell.command][1].encode()
    requests = max(requests, cell.connections * cell.pipeline)
    popped = dict.fromkeys(("lpop", "rpop", "spop", "zpopmin"), requests)
    count = {"incr": KEYS, "lrange": READ_FROM, "zrange": READ_FROM, "xrange": READ_FROM, **popped}.get(cell.command, 0)
    with Connection(server.port) as connection:
        connection.command(b"UNLINK", key)
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            if key == COUNTER.encode():
                connection.command(b"MSET", *(word for n in numbers for word in (b"counter:%012d" % n, b"0")))
            elif key == b"bench:list":
                connection.command(b"RPUSH", key, *[VALUE] * len(numbers))
            elif key == b"bench:stream":
                for number in numbers:
                    connection.command(b"XADD", key, b"%d-1" % number, b"field", VALUE)
            elif key == b"bench:set":
                connection.command(b"SADD", key, *(b"element:%012d" % n for n in numbers))
            else:
                pairs = ((b"%d" % (n * 7919 % count), b"element:%012d" % n) for n in numbers)
                connection.command(b"ZADD", key, *(word for pair in pairs for word in pair))


def measure(server: Server, cell: Cell, requests: int, comparison: Comparison, number: int, order: int) -> Run:
    """One run of one cell against one server."""
    # Before the clocks are read: what this costs the server belongs to no workload.
    prepare(server, cell, requests)
    busy, cpu, before, began = machine_busy_s(), load.children_cpu_s(), server.cpu_time(), time.monotonic()
    found = generate(server, cell, requests, comparison.generators)
    wall, spent = time.monotonic() - began, server.cpu_time().since(before)
    cpu, busy = load.children_cpu_s() - cpu, machine_busy_s() - busy
    return Run(
        comparison=comparison.title,
        round=number,
        cell=cell.name,
        server=server.launch.name,
        order=order,
        requests=requests,
        wall_s=found["seconds"],
        requests_per_s=found["requests_per_second"],
        cpu_us_per_command=spent.best_ns / 1000 / requests,
        server_cpu_s=spent.best_ns / 1e9,
        server_waited_s=spent.waited_ns / 1e9,
        generator_cpu_s=cpu,
        generator_busy=found["client"]["busiest_thread"],
        others_busy_cores=max(0.0, (busy - spent.best_ns / 1e9 - cpu) / wall),
        **{name: found["latency"][name] for name in ("average_ms", "p50_ms", "p99_ms")},
    )


def compare(
    comparison: Comparison, cells: list[Cell], options: argparse.Namespace, progress: record.Progress, runs: list[Run]
) -> None:
    """All rounds of one comparison; runs are added in pairs, so that what is there can be evaluated."""
    requests: dict[Cell, int] = {}
    for number in range(1, options.rounds + 1):
        progress.say(f"round {number}: starting and filling {comparison.first.name}, {comparison.second.name}")
        # Fresh processes each round: where memory happens to lie differs from start to start.
        with Server(comparison.first) as first, Server(comparison.second) as second:
            for server in (first, second):
                load.fill([server.port], SHAPE)
            for index, cell in enumerate(cells):
                progress.step(f"{comparison.title}: round {number} of {options.rounds}, {cell.name}")
                if cell not in requests:
                    requests[cell] = calibrate((first, second), cell, comparison, options.seconds)
                turn = (first, second) if (number + index) % 2 else (second, first)
                runs += [
                    measure(server, cell, requests[cell], comparison, number, order)
                    for order, server in enumerate(turn, 1)
                ]


def calibrate(servers: tuple[Server, Server], cell: Cell, comparison: Comparison, seconds: float) -> int:
    """How many requests keep even the faster server busy for the seconds that were asked for."""
    pilot = max(200, int(min(seconds, 1.0) * 2000)) * cell.pipeline
    rates = []
    for server in servers:
        prepare(server, cell, pilot)
        rates.append(generate(server, cell, pilot, comparison.generators)["requests_per_second"])
    # redis-benchmark sends whole pipelines.
    return max(pilot, int(max(rates) * seconds) // cell.pipeline * cell.pipeline)


def evaluate(comparison: Comparison, runs: list[Run]) -> list[dict[str, object]]:
    """Per cell: both servers' spreads, and the spread of the ratios that each round gave."""
    cells: list[dict[str, object]] = []
    mine = [run for run in runs if run.comparison == comparison.title]
    for name in dict.fromkeys(run.cell for run in mine):
        by_server = {
            launch.name: sorted((r for r in mine if r.cell == name and r.server == launch.name), key=lambda r: r.round)
            for launch in (comparison.first, comparison.second)
        }
        pairs = list(zip(by_server[comparison.first.name], by_server[comparison.second.name]))
        result: dict[str, object] = {"cell": name, "rounds": len(pairs)}
        measures: dict[str, Callable[[Run], float]] = {
            "cpu_us_per_command": lambda run: run.cpu_us_per_command,
            "requests_per_s": lambda run: run.requests_per_s,
            "p50_us": lambda run: run.p50_ms * 1000,
            "p99_ms": lambda run: run.p99_ms,
            "generator_busy": lambda run: run.generator_busy,
            "server_busy_cores": lambda run: run.server_cpu_s / run.wall_s,
            "others_busy_cores": lambda run: run.others_busy_cores,
        }
        for measure_name, value in measures.items():
            result[measure_name] = {
                "first": record.spread([value(one) for one, _ in pairs]),
                "second": record.spread([value(two) for _, two in pairs]),
                "ratio": record.spread([value(two) / value(one) for one, two in pairs if value(one) > 0] or [math.nan]),
            }
        cells.append(result)
    return cells


def spread_of(cell: dict[str, object], measure_name: str, side: str) -> dict[str, float]:
    """One spread out of an evaluated cell."""
    sides = cell[measure_name]
    assert isinstance(sides, dict)
    found = sides[side]
    assert isinstance(found, dict)
    return found


def against(target: float | None, ratio: float) -> str:
    """A target and whether the ratio keeps it."""
    if target is None:
        return "-"
    return f"<={target:.2f} {'met' if ratio <= target else 'MISSED'}"


def remarks(cell: dict[str, object]) -> str:
    """What limited the run beside the server."""
    found = []
    for side in ("first", "second"):
        if spread_of(cell, "generator_busy", side)["median"] >= GENERATOR_BUSY:
            found.append(f"generator-bound ({side})")
        if spread_of(cell, "others_busy_cores", side)["median"] > OTHERS_BUSY:
            found.append(f"others busy ({side})")
    return ", ".join(found) or "-"


def summary(comparison: Comparison, cells: list[dict[str, object]]) -> str:
    """Two tables, CPU with throughput and latency, and the geometric means."""
    one, two = comparison.first.name, comparison.second.name
    cpu_rows, latency_rows = [], []
    means: dict[int, list[float]] = {}
    for cell in cells:
        name = str(cell["cell"])
        pipeline = int(name.rpartition("/p")[2])
        command = name.partition("/")[0]
        family = "strings" if command in FAMILIES["strings"] else "collections"
        targets = comparison.cpu_targets(command)
        cpu = spread_of(cell, "cpu_us_per_command", "ratio")
        means.setdefault((pipeline, family, targets.get(pipeline)), []).append(cpu["median"])
        cpu_rows.append(
            [
                name,
                record.shown(spread_of(cell, "cpu_us_per_command", "first")),
                record.shown(spread_of(cell, "cpu_us_per_command", "second")),
                record.shown(cpu),
                against(targets.get(pipeline), cpu["median"]),
                f"{spread_of(cell, 'requests_per_s', 'first')['median']:,.0f}",
                f"{spread_of(cell, 'requests_per_s', 'second')['median']:,.0f}",
                record.shown(spread_of(cell, "requests_per_s", "ratio")),
                *(f"{spread_of(cell, 'server_busy_cores', s)['median']:.0%}" for s in ("first", "second")),
                *(f"{spread_of(cell, 'generator_busy', s)['median']:.0%}" for s in ("first", "second")),
                remarks(cell),
            ]
        )
        latency = spread_of(cell, "p50_us", "ratio")
        # redis-benchmark sorts latencies into steps of 8 µs, which say nothing of the few dozen that one connection waits.
        is_coarse = command in WORDS and "/c1/" in name
        latency_rows.append(
            [
                name,
                "chorale bench" if command in WORKLOADS else "redis-benchmark",
                record.shown(spread_of(cell, "p50_us", "first"), ".1f"),
                record.shown(spread_of(cell, "p50_us", "second"), ".1f"),
                record.shown(latency),
                against(None if is_coarse else comparison.latency_target, latency["median"]),
                record.shown(spread_of(cell, "p99_ms", "first"), ".3f"),
                record.shown(spread_of(cell, "p99_ms", "second"), ".3f"),
                record.shown(spread_of(cell, "p99_ms", "ratio")),
            ]
        )
    cpu_headings = ["cell", f"CPU µs/command {one}", two, "ratio", "target", f"requests/s {one}", two, "ratio"]
    cpu_headings += [f"CPU {one}", two, f"generator CPU for {one}", two, "remarks"]
    latency_headings = ["cell", "generator", f"p50 µs {one}", two, "ratio", "target", f"p99 ms {one}", two, "ratio"]
    placed = f"generator on core {comparison.generator_core}" if comparison.generator_core is not None else "unpinned"
    rounds = max((int(str(cell["rounds"])) for cell in cells), default=0)
    lines = [f"## {comparison.title}", ""]
    lines.append(
        f"Ratios are {two} by {one}. {rounds} rounds, {placed}, generators: {comparison.generators}. "
        "Each entry is the median of the rounds (smallest-largest)."
    )
    lines += ["", record.table(cpu_headings, cpu_rows), "", record.table(latency_headings, latency_rows), ""]
    for (pipeline, family, target), ratios in means.items():
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
        lines.append(
            f"CPU per command of {family} at pipeline {pipeline}, geometric mean of the ratios: {mean:.2f} "
            f"({against(target, mean)})"
        )
    return "\n".join(lines) + "\n"


def plan(options: argparse.Namespace) -> list[Comparison]:
    """The comparisons that the options ask for."""
    comparisons = []
    cores = os.sched_getaffinity(0)
    pinned = not options.no_pin
    if pinned and not {options.server_core, options.generator_core} <= cores:
        raise SetupError(
            f"cores {options.server_core} and {options.generator_core} are not both usable here (usable: "
            f"{sorted(cores)}): choose others with --server-core and --generator-core, or pass --no-pin"
        )
    for workers in options.workers:
        if workers == 1:
            core = options.server_core if pinned else None
            comparisons.append(
                Comparison(
                    title="One worker against redis-server",
                    first=Launch("redis", options.redis, 1, core),
                    second=Launch("ours", options.ours, 1, core),
                    generator_core=options.generator_core if pinned else None,
                    # One core for the generator: a second thread would only take turns on it.
                    generators=1 if pinned else options.generators,
                    string_targets={1: 1.0, 16: 0.7},
                    collection_targets={1: 1.0, 16: 1.0},
                    latency_target=1.05,
                )
            )
        else:
            comparisons.append(
                Comparison(
                    title=f"{workers} workers against one worker",
                    first=Launch("ours-1", options.ours, 1),
                    second=Launch(f"ours-{workers}", options.ours, workers),
                    generator_core=None,
                    generators=options.generators,
                    string_targets={1: 1.4, 16: 1.4} if workers == 2 else {},
                    collection_targets={1: 1.4, 16: 1.4} if workers == 2 else {},
                    latency_target=None,
                )
            )
    return comparisons


def choose_cells(families: list[str], filters: str) -> list[Cell]:
    """The cells of these families whose name or command matches one of the patterns."""
    patterns = [pattern.strip().lower() for pattern in filters.split(",") if pattern.strip()]
    cells = [cell for cell in CELLS if any(cell.command in FAMILIES[family] for family in families)]
    chosen = [
        cell
        for cell in cells
        if any(fnmatch.fnmatch(cell.name, p) or p in (cell.command, *cell.name.split("/")) for p in patterns)
    ]
    if not chosen:
        raise SetupError(f"--workloads {filters} matches none of: {', '.join(cell.name for cell in cells)}")
    return chosen


def family_names(text: str) -> list[str]:
    """A list such as lists,sets; `all` is every family."""
    names = [name.strip().lower() for name in text.split(",")]
    if names == ["all"]:
        return list(FAMILIES)
    if not set(names) <= set(FAMILIES):
        raise ValueError(text)
    return names


def worker_counts(text: str) -> list[int]:
    """A list such as 1,2."""
    counts = [int(part) for part in text.split(",")]
    if not counts or min(counts) < 1:
        raise ValueError(text)
    return counts


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ours", default=OURS, help="our server's command line, from the repository root")
    parser.add_argument("--redis", default=REDIS, help="the command line of the server to compare with")
    parser.add_argument("--workers", type=worker_counts, default=[1, 2], help="worker counts to measure")
    families = f"families of workloads, by commas: {', '.join(FAMILIES)}; or all"
    parser.add_argument("--families", type=family_names, default=["strings"], help=families)
    parser.add_argument("--workloads", default="*", help="cells: patterns (set/c50/*), commands or parts (p16), by commas")
    parser.add_argument("--rounds", type=int, default=5, help="how often every cell is run on either server")
    parser.add_argument("--seconds", type=float, default=1.5, help="shortest time of one run on the faster server")
    parser.add_argument("--generators", type=int, default=1, help="threads of chorale bench where nothing is pinned")
    parser.add_argument("--no-pin", action="store_true", help="do not pin the one-worker comparison to cores")
    parser.add_argument("--server-core", type=int, default=0, help="core of both servers where pinned")
    parser.add_argument("--generator-core", type=int, default=1, help="core of the generator where pinned")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not how fast it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.1
    if options.rounds < 1 or options.generators < 1 or options.seconds <= 0:
        parser.error("--rounds, --generators and --seconds must be positive")
    return options


def run(options: argparse.Namespace) -> None:
    """The measurement. Ctrl-C evaluates the rounds that are complete."""
    usable = os.sched_getaffinity(0)
    comparisons = plan(options)
    cells = choose_cells(options.families, options.workloads)
    launches = list(dict.fromkeys(launch for c in comparisons for launch in (c.first, c.second)))
    others = ["redis-benchmark"] if any(cell.command in WORDS for cell in cells) else []
    facts = record.environment(launches, [load.PROGRAM, *others])
    progress = record.Progress(len(comparisons) * options.rounds * len(cells))
    runs: list[Run] = []
    stopped = False
    try:
        for comparison in comparisons:
            core = comparison.generator_core
            # Generators run where this process does.
            os.sched_setaffinity(0, usable if core is None else {core})
            compare(comparison, cells, options, progress, runs)
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    evaluated = {comparison.title: evaluate(comparison, runs) for comparison in comparisons}
    text = record.preamble("Speed", facts)
    if options.quick:
        text += "- A quick run: too short to compare anything\n"
    if stopped:
        text += "- Stopped early: the rounds are those that were complete\n"
    for comparison in comparisons:
        if evaluated[comparison.title]:
            text += "\n" + summary(comparison, evaluated[comparison.title])
    data = {
        "kind": "speed",
        **facts,
        "quick": options.quick,
        "stopped_early": stopped,
        "families": options.families,
        "keys": KEYS,
        "value_bytes": len(VALUE),
        "summary": evaluated,
        "runs": [asdict(run) for run in runs],
    }
    record.write(options.out, data, text)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
