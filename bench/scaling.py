#!/usr/bin/env python3
"""Measures what more workers of one node, and more nodes with three replicas, bring and cost.

One configuration runs at a time, the rounds interleaved. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import nodes
import record
import server
from chart import Line, Panel, panels
from load import ask
from nodes import OurCluster
from server import Launch, Server

GROUPS = 64
CLIENTS = 50
KEYS = 100_000
WARMUP = 0.3
NODES_MAX = 5
# CPU per request of more workers, in terms of one worker's.
TARGET = 1.4
# How far the reasoned curves go.
REASONED_MAX = 64
ONE_NODE, ANY, SLOTS = "one node", "any node", "cluster endpoint"
OURS = nodes.OURS + " --rf 3"


@dataclass(frozen=True)
class Run:
    """One configuration, one load, one round."""

    round: int
    kind: str
    # Workers, or nodes.
    count: int
    load: str
    requests_per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    server_cores: float
    client_cores: float
    is_limit: bool


def workers() -> list[int]:
    """1, 2, 4 and so on, up to half of the cores, so that clients have the other half; and always 1 and 2."""
    most = max(2, (os.cpu_count() or 1) // 2)
    return [count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count <= most]


def loads(is_quick: bool) -> list[tuple[str, str, int]]:
    """What is asked: GETs and SETs, one at a time and 16 at a time; for nodes, reads and writes by themselves."""
    both = [("get_set/p1", "1:1", 1), ("get_set/p16", "1:1", 16)]
    return both[:1] if is_quick else both + [("get/p16", "1:0", 16), ("set/p16", "0:1", 16)]


def configurations(is_quick: bool) -> list[tuple[str, int]]:
    """Kinds and counts."""
    counts = [1, 3] if is_quick else range(1, NODES_MAX + 1)
    return [(ONE_NODE, count) for count in workers()] + [(ANY, count) for count in counts]


def steps(rounds: int, is_quick: bool) -> int:
    """How many pieces of work that is."""
    return rounds * len(configurations(is_quick))


@contextmanager
def running(kind: str, count: int) -> Iterator[dict[str, tuple[list[int], list[str]]]]:
    """Starts one configuration. Gives the ways to ask it: ports, and further options of the tool."""
    if kind == ONE_NODE:
        with Server(Launch("ours", server.OURS, workers=count)) as one:
            yield {ONE_NODE: ([one.port], [])}
        return
    with OurCluster(OURS, GROUPS, 1, count) as cluster:
        endpoint = int(cluster.nodes[0].argv[cluster.nodes[0].argv.index("--cluster-port") + 1])
        yield {ANY: ([node.port for node in cluster.nodes], []), SLOTS: ([endpoint], ["--cluster"])}


def measure(rounds: int, seconds: float, is_quick: bool, progress: record.Progress) -> dict[str, Any]:
    """All configurations, as the record has them. Ctrl-C leaves what is complete."""
    runs: list[Run] = []
    is_cut_short = False
    try:
        for number in range(1, rounds + 1):
            for kind, count in configurations(is_quick):
                progress.step(f"round {number} of {rounds}, {count} {'workers' if kind == ONE_NODE else 'nodes'}")
                with running(kind, count) as ways:
                    is_loaded = False
                    for load, ratio, pipeline in loads(is_quick):
                        for way, (ports, more) in ways.items():
                            options = ["--clients", str(-(-CLIENTS // len(ports))), "--pipeline", str(pipeline), "--ratio", ratio]
                            options += ["--keys", str(KEYS), "--warmup", f"{WARMUP:g}", *more]
                            options += ["--no-load"] if is_loaded else []
                            is_loaded = True
                            runs.append(_run(number, way, count, load, ask(ports, seconds, options)))
    except KeyboardInterrupt:
        is_cut_short = True
    return {"runs": [asdict(run) for run in runs], "cores": os.cpu_count(), "is_cut_short": is_cut_short}


def _run(number: int, kind: str, count: int, load: str, found: dict[str, Any]) -> Run:
    spent = sum(process["cpu_seconds"] for process in found["servers"])
    requests, seconds = max(1, int(found["requests"])), float(found["seconds"])
    return Run(
        round=number,
        kind=kind,
        count=count,
        load=load,
        requests_per_s=float(found["requests_per_second"]),
        cpu_us=spent / requests * 1e6,
        p50_ms=float(found["latency"]["p50_ms"]),
        p99_ms=float(found["latency"]["p99_ms"]),
        server_cores=spent / seconds,
        client_cores=float(found["client"]["cpu_us_per_request"] or 0.0) * requests / 1e6 / seconds,
        is_limit=bool(found["client"]["is_limit"]),
    )


class Scaling:
    """The runs of a record."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.runs = [Run(**run) for run in data["runs"]]
        self.cores = int(data["cores"])
        self.loads = list(dict.fromkeys(run.load for run in self.runs))

    def counts(self, kind: str) -> list[int]:
        """Workers or nodes that were measured."""
        return sorted({run.count for run in self.runs if run.kind == kind})

    def values(self, kind: str, count: int, load: str, value: Callable[[Run], float]) -> dict[int, float]:
        """By round."""
        return {run.round: value(run) for run in self.runs if (run.kind, run.count, run.load) == (kind, count, load)}

    def median(self, kind: str, count: int, load: str, value: Callable[[Run], float]) -> float | None:
        """The middle of the rounds."""
        found = self.values(kind, count, load, value)
        return record.spread(list(found.values()))["median"] if found else None

    def ratio(self, kind: str, count: int, load: str, base: tuple[str, int], value: Callable[[Run], float]) -> dict[str, float] | None:
        """The spread of the rounds' ratios to a base."""
        bases = self.values(*base, load, value)
        found = [v / bases[number] for number, v in self.values(kind, count, load, value).items() if number in bases]
        return record.spread(found) if found else None

    def reasoned_workers(self, load: str) -> tuple[float, float] | None:
        """CPU of a request, and what a hop to another worker adds, in µs: of two workers, half of the requests have one."""
        one, two = (self.median(ONE_NODE, count, load, lambda run: run.cpu_us) for count in (1, 2))
        return None if one is None or two is None or two <= one else (one, 2 * (two - one))

    def reasoned_nodes(self, load: str) -> tuple[float, float] | None:
        """CPU of a request at the node that leads its group and at its replicas, and what forwarding adds, in µs: of three nodes, two
        thirds of what arrives at any node are forwarded."""
        direct, any_node = (self.median(kind, 3, load, lambda run: run.cpu_us) for kind in (SLOTS, ANY))
        if direct is None or any_node is None or any_node <= direct:
            return None
        return direct, (any_node - direct) * 3 / 2

    def cost(self, kind: str, count: int, load: str) -> str:
        """CPU of a request as measured, where it was."""
        found = self.median(kind, count, load, lambda run: run.cpu_us)
        return "-" if found is None else f"{found:.2f}"


def table(data: dict[str, Any]) -> str:
    """Everything measured, with ratios to one worker of one node."""
    scaling = Scaling(data)
    rows = []
    for kind in (ONE_NODE, ANY, SLOTS):
        for load in scaling.loads:
            for count in scaling.counts(kind):
                rate = scaling.values(kind, count, load, lambda run: run.requests_per_s)
                if not rate:
                    continue
                of = lambda value: record.spread(list(scaling.values(kind, count, load, value).values()))  # noqa: E731
                cpu = scaling.ratio(kind, count, load, (ONE_NODE, 1), lambda run: run.cpu_us)
                faster = scaling.ratio(kind, count, load, (ONE_NODE, 1), lambda run: run.requests_per_s)
                target = "-"
                if kind == ONE_NODE and count > 1 and cpu is not None:
                    target = f"<={TARGET} {'met' if cpu['median'] <= TARGET else 'MISSED'}"
                what = f"{count} worker{'s' * (count > 1)}" if kind == ONE_NODE else f"{count} node{'s' * (count > 1)}, {kind}"
                is_limit = any(run.is_limit for run in scaling.runs if (run.kind, run.count, run.load) == (kind, count, load))
                rows.append([
                    what,
                    load,
                    record.shown(record.spread(list(rate.values())), ",.0f"),
                    record.shown(of(lambda run: run.cpu_us)),
                    "-" if faster is None else record.shown(faster),
                    "-" if cpu is None else record.shown(cpu),
                    target,
                    f"{of(lambda run: run.server_cores)['median']:.2f} + {of(lambda run: run.client_cores)['median']:.2f}",
                    "generator-bound" if is_limit else "",
                ])
    headings = ["", "load", "requests/s", "CPU µs/request", "/s : 1 worker", "CPU : 1 worker", "target", "cores, servers + tool", "remarks"]
    return record.table(headings, rows)


def reasoned(data: dict[str, Any]) -> str:
    """What follows beyond the cores of the machine, with its formula."""
    scaling = Scaling(data)
    text = (
        "**Reasoned, not measured.** A request costs `c` on the worker that has its key; one that arrives at another worker costs a "
        "hop `h` besides. Keys are drawn evenly, so of W workers a share of 1 - 1/W has the hop: CPU per request is "
        "`c + (1 - 1/W) h`, and W workers with a core each do `W / (c + (1 - 1/W) h)`. `c` is what one worker takes here, and `h` "
        "twice what two workers take more. For N nodes with three replicas, `c` is what three nodes take through the cluster "
        "endpoint, where nothing is forwarded, and `h` three halves of what they take more through any node. It assumes that "
        "clients, network and memory are no limit, that the work is spread evenly, and that a hop costs the same among many as among few: "
        "what one turn brings for each of the others gets less, and so its share of a message more, so that the curves are too "
        "good rather than too bad for many. A row is missing where the difference is lost in the noise: clients of the cluster "
        "endpoint spread a pipeline over three connections, which makes it dearer, too.\n\n"
    )
    if scaling.cores <= NODES_MAX:
        text += (
            f"The last two columns show how far that goes: {NODES_MAX} nodes and their clients share {scaling.cores} cores and one load here, so "
            "that each turn of each brings less, and a request costs more than the formula says. It holds for nodes that have cores of "
            "their own, and as much to do each as three have here.\n\n"
        )
    rows = []
    for load in scaling.loads:
        for what, unit, found, least in (
            ("workers", ONE_NODE, scaling.reasoned_workers(load), 1),
            ("nodes", ANY, scaling.reasoned_nodes(load), 3),
        ):
            if found is None:
                continue
            c, h = found
            entries = []
            for count in (4, 8, 16, 64):
                cost = c + (1 - 1 / count) * h
                base = c + (1 - 1 / least) * h
                entries.append(f"{count / least * base / cost:.1f}")
            most = max(scaling.counts(unit))
            both = [f"{most}: {scaling.cost(unit, most, load)}", f"{c + (1 - 1 / most) * h:.2f}"]
            rows.append([f"{what}, {load}", f"{c:.2f}", f"{h:.2f}", f"{(c + h) / c:.2f}", *entries, *both])
    headings = ["", "c, µs", "h, µs", "CPU at most", *(f"{count}" for count in (4, 8, 16, 64)), "µs measured with", "µs by the formula"]
    text += record.table(headings, rows)
    text += (
        "\n\n*CPU at most*: the limit of CPU per request in terms of `c`. *4* to *64*: throughput of so many workers or nodes, in terms of one "
        "worker, or of three nodes."
    )
    return text


def picture(data: dict[str, Any]) -> str:
    """Throughput in terms of the smallest, measured and reasoned; and CPU per request."""
    scaling = Scaling(data)
    chosen = [load for load in ("get_set/p1", "get_set/p16") if load in scaling.loads]
    more, cost, cluster = [], [], []
    for load in chosen:
        found = scaling.reasoned_workers(load)
        counts = scaling.counts(ONE_NODE)
        rate = {count: scaling.median(ONE_NODE, count, load, lambda run: run.requests_per_s) for count in counts}
        base = rate.get(1)
        if base:
            more.append(Line(load, [(count, value / base) for count, value in rate.items() if value]))
        spent = [(count, scaling.median(ONE_NODE, count, load, lambda run: run.cpu_us)) for count in counts]
        cost.append(Line(load, [(count, value) for count, value in spent if value]))
        if found is not None:
            c, h = found
            far = [1, 2, 4, 8, 16]
            more.append(Line(load, [(n, n * c / (c + (1 - 1 / n) * h)) for n in far], is_dashed=True))
            cost.append(Line(load, [(n, c + (1 - 1 / n) * h) for n in far], is_dashed=True))
        spent = [(count, scaling.median(ANY, count, load, lambda run: run.cpu_us)) for count in scaling.counts(ANY)]
        cluster.append(Line(load, [(count, value) for count, value in spent if value]))
        across = scaling.reasoned_nodes(load)
        if across is not None:
            c, h = across
            cluster.append(Line(load, [(n, c + (1 - 1 / n) * h) for n in (3, 5, 8, 16)], is_dashed=True))
    parts = [
        Panel("Throughput, in terms of one worker", "workers", "times", more),
        Panel("CPU per request, one node", "workers", "µs", cost),
        Panel("CPU per request, nodes with 3 replicas", "nodes", "µs", cluster),
    ]
    below = f"Measured on {scaling.cores} cores, shared with the clients. Dashed: reasoned from CPU per request, not measured."
    for part in parts:
        part.lines = [line for line in part.lines if line.points]
    parts = [part for part in parts if part.lines]
    return panels("What more workers and more nodes bring and cost", below, parts)


def report(data: dict[str, Any]) -> str:
    """The part of a summary."""
    text = (
        f"{CLIENTS} clients (with three nodes 17 at each), {KEYS:,} keys, values of 100 bytes. One node with one replica and 1, 2, 4 and more workers; and nodes "
        "of one worker each with up to three replicas of everything, through any node (clients at all of them) and through the "
        "cluster endpoint. Servers and clients share the cores: where these are used up, more workers or nodes bring no more "
        "throughput, and CPU per request is what counts.\n\n"
    )
    return text + table(data) + "\n\n" + reasoned(data) + "\n"


def run(options: argparse.Namespace) -> None:
    """The measurement by itself."""
    facts = record.environment([Launch("ours", server.OURS), Launch("ours, nodes", OURS)])
    progress = record.Progress(steps(options.rounds, options.quick))
    data = measure(options.rounds, options.seconds, options.quick, progress)
    progress.end()
    if not data["runs"]:
        raise KeyboardInterrupt
    record.write(options.out, {"facts": facts, **data}, record.preamble("Scaling", facts) + "\n" + report(data))


def parse() -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each configuration is measured")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each run is")
    parser.add_argument("--quick", action="store_true", help="few configurations, short: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be more than 0")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
