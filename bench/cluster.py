#!/usr/bin/env python3
"""Compares what reads and writes cost on three of our nodes with one node, redis-server, Redis Cluster and etcd.

All servers run at the same time and are measured in turn. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import load
import nodes
import record
import server
from nodes import Etcd, OurCluster, RedisCluster
from server import Launch, Process, Server, SetupError

CONNECTIONS = 50
KEYS = 100_000
VALUE_BYTES = 100
COMMANDS = {"set": load.SET, "get": load.GET}
# What must not rise while nothing fails.
ELECTIONS = "chorale_campaigns_total"
SINGLE, ANY, MOVED, REDIS, REDIS_CLUSTER = "ours, one node", "ours, any node", "ours, cluster endpoint", "redis", "redis cluster"


@dataclass(frozen=True)
class Way:
    """A way to send commands: where to, and whose CPU it takes."""

    name: str
    port: int
    is_cluster: bool
    processes: Sequence[Process]

    def options(self) -> list[str]:
        """What the generator is told of keys and servers."""
        return ["--keys", str(KEYS), "--size", str(VALUE_BYTES), *["--cluster"] * self.is_cluster]


@dataclass(frozen=True)
class Run:
    """One way, one cell, one round."""

    round: int
    cell: str
    way: str
    requests: int
    cpu_us_per_command: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Target:
    """The most that the CPU of one way may be, in terms of another's."""

    command: str
    way: str
    base: str
    most: float


TARGETS = [
    Target("get", MOVED, SINGLE, 1.1),
    Target("set", ANY, SINGLE, 4.0),
    Target("set", MOVED, SINGLE, 4.0),
    Target("set", MOVED, REDIS_CLUSTER, 1.2),
]
ETCD_TIMES = 20.0


def measure(way: Way, number: int, command: str, pipeline: int, requests: int) -> Run:
    """Runs one cell, and counts the CPU of all processes that have a part in it."""
    # A client of a cluster has a connection to each of the three nodes, and its requests spread over them: so there are as many
    # connections as elsewhere, and as many requests on their way.
    links = 3 if way.is_cluster else 1
    options = ["--clients", str(-(-CONNECTIONS // links)), "--pipeline", str(pipeline * links)]
    before = [process.cpu_time() for process in way.processes]
    found = load.ask_requests([way.port], requests, [*way.options(), *COMMANDS[command], *options])
    spent = sum(process.cpu_time().since(b).best_ns for process, b in zip(way.processes, before))
    latency = found["latency"]
    return Run(
        round=number,
        cell=f"{command}/p{pipeline}",
        way=way.name,
        requests=requests,
        cpu_us_per_command=spent / requests / 1_000,
        requests_per_s=found["requests_per_second"],
        p50_ms=latency["p50_ms"],
        p99_ms=latency["p99_ms"],
    )


def etcd_writes(etcd: Etcd) -> tuple[float, float]:
    """Writes a second that etcd takes, and its CPU for each in microseconds: its own check, asked for more than it can do."""
    before = [node.cpu_time() for node in etcd.nodes]
    began = time.monotonic()
    done = etcd.control("check", "perf", "--load=xl", "--auto-compact=false")
    seconds = time.monotonic() - began
    # "FAIL: Throughput too low: 4119 writes/s", or "PASS: Throughput is 14998 writes/s".
    found = re.search(r"Throughput[^0-9]*(\d+) writes/s", done.stdout)
    if found is None:
        raise SetupError(f"etcdctl check perf says nothing of throughput: {(done.stdout + done.stderr)[-400:]}")
    rate = float(found.group(1))
    spent = sum(node.cpu_time().since(b).best_ns for node, b in zip(etcd.nodes, before))
    return rate, spent / max(1.0, rate * min(seconds, 60.0)) / 1_000


def evaluate(runs: list[Run], cell: str, way: str, value: Callable[[Run], float]) -> dict[str, float]:
    """The spread of one figure."""
    return record.spread([value(run) for run in runs if run.cell == cell and run.way == way])


def ratios(runs: list[Run], cell: str, way: str, base: str) -> dict[str, float]:
    """The spread of the ratios of CPU that each round gave."""
    mine = [run for run in runs if run.cell == cell]
    rounds = sorted({run.round for run in mine})
    cost = {(run.round, run.way): run.cpu_us_per_command for run in mine}
    return record.spread([cost[number, way] / cost[number, base] for number in rounds])


def report(runs: list[Run], etcd: tuple[float, float] | None, elections: int) -> str:
    """The summary."""
    cells = list(dict.fromkeys(run.cell for run in runs))
    ways = list(dict.fromkeys(run.way for run in runs))
    text = (
        f"\n{CONNECTIONS} connections, values of {VALUE_BYTES} bytes, {KEYS:,} keys, `chorale bench`. CPU is that of all processes "
        "of a way together, without the generator; middle of the rounds (smallest-largest).\n\n"
    )
    rows = []
    for cell in cells:
        for way in ways:
            cpu = record.shown(evaluate(runs, cell, way, lambda run: run.cpu_us_per_command))
            rate = format(evaluate(runs, cell, way, lambda run: run.requests_per_s)["median"], ",.0f")
            p50 = record.shown(evaluate(runs, cell, way, lambda run: run.p50_ms))
            p99 = record.shown(evaluate(runs, cell, way, lambda run: run.p99_ms))
            rows.append([cell, way, cpu, rate, p50, p99])
    text += record.table(["cell", "way", "CPU µs/command", "requests/s", "p50 ms", "p99 ms"], rows) + "\n\n"
    rows = []
    for target in TARGETS:
        for cell in [cell for cell in cells if cell.startswith(target.command + "/")]:
            if target.way in ways and target.base in ways:
                ratio = ratios(runs, cell, target.way, target.base)
                verdict = "met" if ratio["median"] <= target.most else "MISSED"
                rows.append([cell, f"{target.way} : {target.base}", record.shown(ratio), f"<={target.most:.1f} {verdict}"])
    text += record.table(["cell", "CPU, ratio of", "ratio", "target"], rows) + "\n\n"
    if etcd is not None:
        rate, cost = etcd
        ours = {
            cell: evaluate(runs, cell, ANY, lambda run: run.requests_per_s)["median"] for cell in cells if cell.startswith("set/")
        }
        shown = ", ".join(f"{cell}: {value / rate:.0f} times" for cell, value in ours.items())
        most = max(ours.values(), default=0.0) / rate
        text += (
            f"etcd, three members, `etcdctl check perf --load=xl` (1,000 clients, values of 1,024 bytes, its log on this disk): "
            f"{rate:,.0f} writes/s, about {cost:.0f} µs of CPU each. Our writes through any node, in throughput: {shown} "
            f"(target {ETCD_TIMES:.0f}, {'met' if most >= ETCD_TIMES else 'MISSED'} by the best cell).\n\n"
        )
    text += f"Campaigns for leadership during all of it: {elections} (target 0, {'met' if elections == 0 else 'MISSED'}).\n"
    return text


def run(options: argparse.Namespace) -> None:
    """The measurement."""
    ours = Launch("ours", server.OURS)
    redis = Launch("redis", server.REDIS)
    launches = [redis, ours, Launch("ours-3", nodes.OURS), Launch("redis-cluster", nodes.REDIS)]
    has_etcd = not options.no_etcd and shutil.which("etcd") is not None and shutil.which("etcdctl") is not None
    if has_etcd:
        launches.append(Launch("etcd", nodes.ETCD))
    facts = record.environment(launches)
    cells = [(command, pipeline) for pipeline in (1, 16) for command in COMMANDS]
    progress = record.Progress(options.rounds * len(cells) + int(has_etcd))
    runs: list[Run] = []
    etcd_result = None
    with ExitStack() as stack:
        progress.say("starting the servers")
        one = stack.enter_context(Server(ours))
        peer = stack.enter_context(Server(redis))
        three = stack.enter_context(OurCluster(nodes.OURS, options.groups, 1))
        others = stack.enter_context(RedisCluster(nodes.REDIS, 15_000))
        first = three.nodes[0]
        endpoint = int(first.argv[first.argv.index("--cluster-port") + 1])
        ways = [
            Way(REDIS, peer.port, False, [peer]),
            Way(SINGLE, one.port, False, [one]),
            Way(ANY, first.port, False, three.nodes),
            Way(MOVED, endpoint, True, three.nodes),
            Way(REDIS_CLUSTER, others.nodes[0].port, True, others.nodes),
        ]
        for way in ways:
            if way.name != MOVED:
                progress.say(f"filling {way.name}")
                load.fill([way.port], way.options())
        before = three.counter(ELECTIONS)
        for number in range(1, options.rounds + 1):
            for command, pipeline in cells:
                progress.step(f"round {number} of {options.rounds}, {command}/p{pipeline}")
                requests = options.requests * (1 if pipeline == 1 else 6)
                turn = ways if number % 2 else ways[::-1]
                runs += [measure(way, number, command, pipeline, requests) for way in turn]
        elections = three.counter(ELECTIONS) - before
    if has_etcd:
        progress.step("etcd, one minute")
        with Etcd(nodes.ETCD) as etcd:
            etcd_result = etcd_writes(etcd)
    progress.end()
    text = record.preamble("Speed of a cluster", facts) + report(runs, etcd_result, elections)
    data = {
        "facts": facts,
        "runs": [asdict(run) for run in runs],
        "etcd": etcd_result and {"writes_per_s": etcd_result[0], "cpu_us_per_write": etcd_result[1]},
        "elections": elections,
    }
    record.write(options.out, data, text)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each cell is measured")
    parser.add_argument("--requests", type=int, default=80_000, help="requests of a cell at pipeline 1; six times as many at 16")
    parser.add_argument("--groups", type=int, default=6, help="groups of our cluster")
    parser.add_argument("--no-etcd", action="store_true", help="leave etcd out, which takes a minute")
    parser.add_argument("--quick", action="store_true", help="few requests: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.requests, options.no_etcd = 1, 5_000, True
    if options.rounds < 1 or options.requests < 1:
        parser.error("--rounds and --requests must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
