"""What writes and reads cost a coded cluster beside a replicated one."""

from __future__ import annotations

import argparse
from typing import Any

import load
import record
from coded.clusters import CODED, REPLICATED, both, coding, cpu, in_turn, ports, ratio, settle, spent, verdict
from nodes import OurCluster

NAME = "speed"
TITLE = "Speed"
SIZE = 1024
CLIENTS_EACH = 17
PIPELINES = (1, 16)
# Of all keys, those that hot reads ask for: fewer than may be whole where they are led.
HOT_SHARE = 0.01
# Pipelines make requests cheap.
MORE_PIPELINED = 4
SET, HOT, COLD = "SET", "GET, hot", "GET, cold"
CELLS = [(command, pipeline) for command in (SET, HOT, COLD) for pipeline in PIPELINES]
# The least throughput by that of a replicated cluster.
TARGETS = {SET: 0.95, HOT: 0.95}


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return 1 + options.rounds * len(CELLS)


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """Both clusters live at the same time, and are asked in turns."""
    runs: list[dict[str, Any]] = []
    progress.step("speed, starting and filling")
    with both(options) as clusters:
        for cluster in clusters.values():
            load.fill(ports(cluster), _keys(options.keys))
        for number in range(1, options.rounds + 1):
            for command, pipeline in CELLS:
                progress.step(f"speed, {command}, pipeline {pipeline}, round {number} of {options.rounds}")
                for way, cluster in in_turn(clusters, number):
                    runs.append({"way": way, "round": number} | _measure(options, cluster, command, pipeline))
    return {"runs": runs, "keys": options.keys}


def _keys(count: int) -> list[str]:
    return ["--keys", str(count), "--size", str(SIZE)]


def _measure(options: argparse.Namespace, cluster: OurCluster, command: str, pipeline: int) -> dict[str, Any]:
    """One cell. What is read cold has been settled before; and what was written is settled afterwards, on its account."""
    asked = [*_keys(options.keys), *load.GET]
    if command == SET:
        asked = [*_keys(options.keys), *load.SET]
    elif command == HOT:
        asked = [*_keys(max(10, int(options.keys * HOT_SHARE))), *load.GET]
    requests = options.requests * (1 if pipeline == 1 else MORE_PIPELINED)
    settle(cluster)
    if command == HOT:
        # What is hot has been read before.
        load.ask_requests(ports(cluster), max(1_000, options.requests // 4), [*asked, "--clients", str(CLIENTS_EACH)])
        settle(cluster)
    gathered = sum(coding(node)["coding_gathered"] for node in cluster.nodes)
    before = cpu(cluster.nodes)
    found = load.ask_requests(ports(cluster), requests, [*asked, "--clients", str(CLIENTS_EACH), "--pipeline", str(pipeline)])
    after = cpu(cluster.nodes)
    # What INFO says is up to a second old before that.
    settled = settle(cluster)
    gathered = sum(coding(node)["coding_gathered"] for node in cluster.nodes) - gathered
    return {
        "command": command,
        "pipeline": pipeline,
        "requests": requests,
        "requests_per_s": found["requests_per_second"],
        "cpu_us": spent(before, after) / requests,
        "cpu_settled_us": spent(before, settled.cpu) / requests,
        "settled_s": settled.seconds,
        "gathered_share": gathered / requests,
        "p50_ms": found["latency"]["p50_ms"],
        "p99_ms": found["latency"]["p99_ms"],
        "max_ms": found["latency"]["max_ms"],
        "busiest_thread": found["client"]["busiest_thread"],
    }


def report(found: dict[str, Any]) -> str:
    """The section of the page."""
    runs = found["runs"]
    text = (
        f"{found['keys']:,} values of {SIZE:,} bytes, {CLIENTS_EACH} clients of `chorale bench` at each of three nodes, keys drawn evenly. *Hot* reads ask for "
        f"{HOT_SHARE:.0%} of the keys, which have been read before; *cold* ones for all, of which most are in fragments: *gathered* is how many of the "
        f"requests had a value made up. CPU is that of all nodes, in µs for each request; *settled*: with what came afterwards, until all was in fragments "
        "again.\n\n"
    )
    rows = []
    for command, pipeline in CELLS:
        which = {"command": command, "pipeline": pipeline}
        for way in (REPLICATED, CODED):
            mine = [run for run in runs if run["way"] == way and all(run[name] == value for name, value in which.items())]

            def cell(field: str, form: str, mine: list[dict[str, Any]] = mine) -> str:
                return record.shown(record.spread([run[field] for run in mine]), form)

            row = [f"{command}, p{pipeline}, {way}", cell("requests_per_s", ",.0f"), cell("cpu_us", ".2f"), cell("cpu_settled_us", ".2f")]
            rows.append([*row, cell("p50_ms", ".2f"), cell("p99_ms", ".2f"), cell("max_ms", ".0f"), cell("gathered_share", ".2f"), cell("busiest_thread", ".0%")])
    text += record.table(["", "requests/s", "CPU µs", "CPU µs, settled", "p50 ms", "p99 ms", "longest ms", "gathered", "busiest thread of the generator"], rows)
    rows = []
    for command, pipeline in CELLS:
        which = {"command": command, "pipeline": pipeline}
        rate = record.spread(ratio(runs, "requests_per_s", **which))
        row = [f"{command}, p{pipeline}", record.shown(rate)]
        row.append(verdict(rate["median"], TARGETS[command], at_most=False) if command in TARGETS else "-")
        row += [record.shown(record.spread(ratio(runs, field, **which))) for field in ("cpu_us", "cpu_settled_us", "p99_ms")]
        rows.append(row)
    return text + "\n\n" + record.table(["coded : replicated", "requests/s", "target", "CPU", "CPU, settled", "p99"], rows) + "\n"
