#!/usr/bin/env python3
"""Compares the speed of our server with redis-server, and of two workers with one.

Both servers run at the same time and are measured in turn, so that what else happens on the machine
meets both. See README.md in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import io
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import record
from server import OURS, REDIS, TICK_NS, Launch, Server, SetupError, need_tool
from wire import Connection, WireError, encode

KEYS = 100_000
VALUE = b"x" * 100
# The workloads by family. Those of strings are redis-benchmark's own; the others name one key each, as its own do, but
# lists and sets that are popped from never run empty, and there is a ZRANGE.
FAMILIES = {
    "strings": ("set", "get", "incr", "mset"),
    "lists": ("lpush", "rpush", "lpop", "rpop", "lrange"),
    "hashes": ("hset",),
    "sets": ("sadd", "spop"),
    "sorted-sets": ("zadd", "zpopmin", "zrange"),
}
RANDOM = "element:__rand_int__"
WORDS = {
    "lpush": ("LPUSH", "bench:list", VALUE.decode()),
    "rpush": ("RPUSH", "bench:list", VALUE.decode()),
    "lpop": ("LPOP", "bench:list"),
    "rpop": ("RPOP", "bench:list"),
    "lrange": ("LRANGE", "bench:list", "0", "99"),
    "hset": ("HSET", "bench:hash", RANDOM, VALUE.decode()),
    "sadd": ("SADD", "bench:set", RANDOM),
    "spop": ("SPOP", "bench:set"),
    "zadd": ("ZADD", "bench:sorted-set", "__rand_int__", RANDOM),
    "zpopmin": ("ZPOPMIN", "bench:sorted-set"),
    "zrange": ("ZRANGE", "bench:sorted-set", "0", "99"),
}
# How many elements a collection has of which some are read.
READ_FROM = 10_000
# redis-benchmark tries for ever to reach a server that is gone.
GENERATOR_SECONDS_MAX = 300
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
    server_cpu_ticks_s: float
    server_waited_s: float
    generator_cpu_s: float
    generators: int
    others_busy_cores: float
    average_ms: float
    p50_ms: float
    p99_ms: float
    probe_p50_us: float | None

    @property
    def generator_busy(self) -> float:
        """The share of its core that a generator used."""
        return self.generator_cpu_s / self.generators / self.wall_s

    @property
    def latency_us(self) -> float:
        """The median latency: the probe's where there is one, as it is finer than redis-benchmark's."""
        return self.p50_ms * 1000 if self.probe_p50_us is None else self.probe_p50_us


@dataclass(frozen=True)
class Load:
    """What the generator processes of one run reported together."""

    requests: int
    wall_s: float
    cpu_s: float
    requests_per_s: float
    average_ms: float
    p50_ms: float
    p99_ms: float


def machine_busy_s() -> float:
    """CPU time that all cores together have spent on anything, the hypervisor's other guests included."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) * TICK_NS / 1e9


def generate(server: Server, cell: Cell, requests: int, core: int | None, generators: int) -> Load:
    """Runs redis-benchmark, in several processes where asked, and adds up what they say."""
    generators = min(generators, cell.connections)
    per_process = max(1, requests // generators // cell.pipeline) * cell.pipeline
    processes = []
    began = time.monotonic()
    for index in range(generators):
        connections = cell.connections // generators + (index < cell.connections % generators)
        argv = [need_tool("redis-benchmark"), "-h", "127.0.0.1", "-p", str(server.port), "--csv"]
        argv += ["-c", str(connections), "-P", str(cell.pipeline), "-n", str(per_process), "-r", str(KEYS)]
        argv += WORDS.get(cell.command) or ["-t", cell.command, "-d", str(len(VALUE))]
        argv = [need_tool("timeout"), str(GENERATOR_SECONDS_MAX), *argv]
        if core is not None:
            argv = [need_tool("taskset"), "-c", str(core), *argv]
        processes.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    cpu = 0.0
    rows = []
    try:
        for process in processes:
            # wait4 instead of Popen.wait: it alone tells this child's own CPU time.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            cpu += usage.ru_utime + usage.ru_stime
        wall = time.monotonic() - began
        for process in processes:
            out, err = (pipe.read().decode(errors="replace") for pipe in (process.stdout, process.stderr) if pipe)
            rows.append(parse_csv(out, err, process.returncode, server, cell))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()

    def mean(column: str) -> float:
        return statistics.fmean(row[column] for row in rows)

    return Load(
        requests=per_process * generators,
        wall_s=wall,
        cpu_s=cpu,
        requests_per_s=sum(row["rps"] for row in rows),
        average_ms=mean("avg_latency_ms"),
        p50_ms=mean("p50_latency_ms"),
        p99_ms=max(row["p99_latency_ms"] for row in rows),
    )


def parse_csv(out: str, err: str, code: int, server: Server, cell: Cell) -> dict[str, float]:
    """The one row of numbers that redis-benchmark prints."""
    rows = list(csv.DictReader(io.StringIO(out[max(0, out.find('"test"')) :])))
    if code == 0 and len(rows) == 1:
        return {key: float(value) for key, value in rows[0].items() if key != "test"}
    server.ensure_alive()
    raise SetupError(
        f"redis-benchmark failed on {cell.name} against {server.launch.name} (status {code}): it said\n"
        f"{(out + err).strip()[-500:] or '(nothing)'}\n"
        f"Try that command by hand, or leave the cell out with --workloads."
    )


def fill(server: Server) -> None:
    """Makes every key exist that the workloads name, so that GET always hits and memory stays level."""

    def batches() -> Iterator[tuple[bytes, int]]:
        for start in range(0, KEYS, 1000):
            commands = []
            for index in range(start, start + 1000):
                commands.append(encode(b"SET", b"key:%012d" % index, VALUE))
                commands.append(encode(b"SET", b"counter:%012d" % index, b"0"))
            yield b"".join(commands), len(commands)

    with Connection(server.port) as connection:
        connection.pour(batches())


def prepare(server: Server, cell: Cell, requests: int) -> None:
    """Makes the collection that a workload names what it should be before so many requests."""
    words = WORDS.get(cell.command)
    if words is None:
        return
    requests = max(requests, cell.connections * cell.pipeline)
    key = words[1].encode()
    count = {"lpop": requests, "rpop": requests, "spop": requests, "zpopmin": requests}.get(cell.command, 0)
    if cell.command in ("lrange", "zrange"):
        count = READ_FROM
    with Connection(server.port) as connection:
        connection.command(b"UNLINK", key)
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            if key == b"bench:list":
                connection.command(b"RPUSH", key, *[VALUE] * len(numbers))
            elif key == b"bench:set":
                connection.command(b"SADD", key, *(b"element:%012d" % n for n in numbers))
            else:
                pairs = ((b"%d" % (n * 7919 % count), b"element:%012d" % n) for n in numbers)
                connection.command(b"ZADD", key, *(word for pair in pairs for word in pair))


def probe(server: Server, cell: Cell, seconds: float) -> float:
    """The median latency in µs that one connection sees.

    redis-benchmark sorts latencies into steps of 8 µs, too coarse for the few dozen of one connection.
    """
    choose = random.Random(7)

    def request() -> bytes:
        parts = []
        for _ in range(cell.pipeline):
            keys = [b"key:%012d" % choose.randrange(KEYS) for _ in range(10)]
            parts.append(
                {
                    "set": lambda: encode(b"SET", keys[0], VALUE),
                    "get": lambda: encode(b"GET", keys[0]),
                    "incr": lambda: encode(b"INCR", b"counter:" + keys[0][4:]),
                    "mset": lambda: encode(b"MSET", *(part for key in keys for part in (key, VALUE))),
                }[cell.command]()
            )
        return b"".join(parts)

    requests = [request() for _ in range(500)]
    lines = cell.pipeline * (2 if cell.command == "get" else 1)
    took: list[int] = []
    with Connection(server.port) as connection:
        for data in requests[:50]:
            connection.exchange_lines(data, lines)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for data in requests:
                began = time.perf_counter_ns()
                reply = connection.exchange_lines(data, lines)
                took.append(time.perf_counter_ns() - began)
                if b"-" in reply:
                    raise WireError(f"{cell.name} was refused by {server.launch.name}: {reply[:200]!r}")
    return statistics.median(took) / 1000


def measure(
    server: Server, cell: Cell, requests: int, comparison: Comparison, number: int, order: int, probe_s: float
) -> Run:
    """One run of one cell against one server."""
    generators = min(comparison.generators, cell.connections)
    # Before the clocks are read: what this costs the server belongs to no workload.
    prepare(server, cell, requests)
    busy = machine_busy_s()
    before = server.cpu_time()
    load = generate(server, cell, requests, comparison.generator_core, generators)
    spent = server.cpu_time().since(before)
    busy = machine_busy_s() - busy
    latency = probe(server, cell, probe_s) if cell.connections == 1 else None
    return Run(
        comparison=comparison.title,
        round=number,
        cell=cell.name,
        server=server.launch.name,
        order=order,
        requests=load.requests,
        wall_s=load.wall_s,
        requests_per_s=load.requests_per_s,
        cpu_us_per_command=spent.best_ns / 1000 / load.requests,
        server_cpu_s=spent.best_ns / 1e9,
        server_cpu_ticks_s=spent.stat_ns / 1e9,
        server_waited_s=spent.waited_ns / 1e9,
        generator_cpu_s=load.cpu_s,
        generators=generators,
        others_busy_cores=max(0.0, (busy - spent.best_ns / 1e9 - load.cpu_s) / load.wall_s),
        average_ms=load.average_ms,
        p50_ms=load.p50_ms,
        p99_ms=load.p99_ms,
        probe_p50_us=latency,
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
                fill(server)
            for index, cell in enumerate(cells):
                progress.step(f"{comparison.title}: round {number} of {options.rounds}, {cell.name}")
                if cell not in requests:
                    requests[cell] = calibrate((first, second), cell, comparison, options.seconds)
                turn = (first, second) if (number + index) % 2 else (second, first)
                runs += [
                    measure(server, cell, requests[cell], comparison, number, order, options.probe_seconds)
                    for order, server in enumerate(turn, 1)
                ]


def calibrate(servers: tuple[Server, Server], cell: Cell, comparison: Comparison, seconds: float) -> int:
    """How many requests keep even the faster server busy for the seconds that were asked for."""
    pilot = max(200, int(min(seconds, 1.0) * 2000)) * cell.pipeline
    rates = []
    for server in servers:
        prepare(server, cell, pilot)
        load = generate(server, cell, pilot, comparison.generator_core, comparison.generators)
        rates.append(load.requests_per_s)
    return max(pilot, int(max(rates) * seconds))


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
            "latency_us": lambda run: run.latency_us,
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
        latency = spread_of(cell, "latency_us", "ratio")
        latency_rows.append(
            [
                name,
                "probe" if "/c1/" in name else "redis-benchmark",
                record.shown(spread_of(cell, "latency_us", "first"), ".1f"),
                record.shown(spread_of(cell, "latency_us", "second"), ".1f"),
                record.shown(latency),
                against(comparison.latency_target, latency["median"]),
                record.shown(spread_of(cell, "p99_ms", "first"), ".3f"),
                record.shown(spread_of(cell, "p99_ms", "second"), ".3f"),
                record.shown(spread_of(cell, "p99_ms", "ratio")),
            ]
        )
    cpu_headings = ["cell", f"CPU µs/command {one}", two, "ratio", "target", f"requests/s {one}", two, "ratio"]
    cpu_headings += [f"CPU {one}", two, f"generator CPU for {one}", two, "remarks"]
    latency_headings = ["cell", "p50 by", f"p50 µs {one}", two, "ratio", "target", f"p99 ms {one}", two, "ratio"]
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
                    # One core for the generator: a second process would only take turns on it.
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
    parser.add_argument("--probe-seconds", type=float, default=0.4, help="time of the probe at one connection")
    parser.add_argument("--generators", type=int, default=1, help="redis-benchmark processes where nothing is pinned")
    parser.add_argument("--no-pin", action="store_true", help="do not pin the one-worker comparison to cores")
    parser.add_argument("--server-core", type=int, default=0, help="core of both servers where pinned")
    parser.add_argument("--generator-core", type=int, default=1, help="core of the generator where pinned")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not how fast it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds, options.probe_seconds = 1, 0.1, 0.05
    if options.rounds < 1 or options.generators < 1 or options.seconds <= 0:
        parser.error("--rounds, --generators and --seconds must be positive")
    return options


def main() -> int:
    options = parse()
    record.heed_signals()
    usable = os.sched_getaffinity(0)
    try:
        record.check_out(options.out)
        comparisons = plan(options)
        cells = choose_cells(options.families, options.workloads)
        launches = list(dict.fromkeys(launch for c in comparisons for launch in (c.first, c.second)))
        facts = record.environment(launches, ["redis-benchmark"])
        progress = record.Progress(len(comparisons) * options.rounds * len(cells))
        runs: list[Run] = []
        stopped = False
        try:
            for comparison in comparisons:
                core = comparison.generator_core
                # The probe runs in this process, which therefore belongs where the generator is.
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
    except KeyboardInterrupt:
        print("\nstopped before anything was measured", file=sys.stderr)
        return 130
    except (SetupError, WireError, OSError) as error:
        print(f"\nspeed.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
