"""Mixed workloads: memory, CPU and latency of both clusters."""

from __future__ import annotations

import argparse
from typing import Any

import load
import record
from coded.clusters import CODED, REPLICATED, both, cpu, in_turn, memory, ports, ratio, settle, spent
from nodes import OurCluster

NAME = "workloads"
TITLE = "Workloads"
SIZE = 1024
CLIENTS_EACH = 17
# What `chorale bench` calls them, and how they are told.
WORKLOADS = {"a": "half GET, half SET", "b": "95 % GET, 5 % SET", "c-unique": "SET of a new key each"}


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return options.rounds * len(WORKLOADS)


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """Fresh clusters for each workload and round, which live at the same time and are asked in turns."""
    runs: list[dict[str, Any]] = []
    for number in range(1, options.rounds + 1):
        for workload, told in WORKLOADS.items():
            progress.step(f"workloads, {told}, round {number} of {options.rounds}")
            with both(options) as clusters:
                for way, cluster in in_turn(clusters, number):
                    runs.append({"way": way, "round": number, "workload": workload} | _measure(options, cluster, workload))
    return {"runs": runs, "keys": options.keys, "requests": options.requests}


def _measure(options: argparse.Namespace, cluster: OurCluster, workload: str) -> dict[str, Any]:
    keys = ["--workload", workload, "--keys", str(options.keys), "--size", str(SIZE)]
    empty = memory(cluster.nodes)
    if workload != "c-unique":
        load.fill(ports(cluster), ["--keys", str(options.keys), "--size", str(SIZE)])
        settle(cluster)
    before = cpu(cluster.nodes)
    requests = options.requests * 2
    found = load.ask_requests(ports(cluster), requests, [*keys, "--clients", str(CLIENTS_EACH)])
    after = cpu(cluster.nodes)
    at_once = memory(cluster.nodes)
    settled = settle(cluster)
    run = {
        "requests": requests,
        "requests_per_s": found["requests_per_second"],
        "cpu_us": spent(before, after) / requests,
        "cpu_settled_us": spent(before, settled.cpu) / requests,
        "settled_s": settled.seconds,
        "average_ms": found["latency"]["average_ms"],
        "p50_ms": found["latency"]["p50_ms"],
        "p99_ms": found["latency"]["p99_ms"],
    }
    later = memory(cluster.nodes)
    run |= {f"{name}_at_once": at_once[name] - empty[name] for name in empty}
    return run | {name: later[name] - empty[name] for name in empty}


def report(found: dict[str, Any]) -> str:
    """The section of the page."""
    runs = found["runs"]
    text = (
        f"Values of {SIZE:,} bytes, {found['keys']:,} keys drawn by Zipf's law (0.99), or new ones, {CLIENTS_EACH} clients of `chorale bench` at each of three nodes. "
        "Memory in MB, of all nodes, less that of the empty ones: *data* (`used_memory_dataset`) at the end, and when all was settled; *used* and *resident* then. CPU "
        "is that of all nodes in µs for each request; *settled*: with what came afterwards.\n\n"
    )
    rows, ratios = [], []
    fields = ("requests_per_s", "cpu_us", "cpu_settled_us", "p50_ms", "p99_ms", "data_at_once", "data", "used", "resident")
    for workload, told in WORKLOADS.items():
        for way in (REPLICATED, CODED):
            mine = [run for run in runs if run["workload"] == workload and run["way"] == way]
            if mine:
                cells = {field: record.spread([run[field] / (1e6 if field.startswith(("data", "used", "resident")) else 1) for run in mine]) for field in fields}
                rows.append([f"{told}, {way}", *(record.shown(cells[field], ",.0f" if field == "requests_per_s" else ".2f") for field in fields)])
        both_ways = {field: ratio(runs, field, workload=workload) for field in fields}
        if all(both_ways.values()):
            ratios.append([told, *(record.shown(record.spread(values)) for values in both_ways.values())])
    headings = ["requests/s", "CPU µs", "CPU µs, settled", "p50 ms", "p99 ms", "data at the end", "data", "used", "resident"]
    return text + record.table(["", *headings], rows) + "\n\n" + record.table(["coded : replicated", *headings], ratios) + "\n"
