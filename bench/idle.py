#!/usr/bin/env python3
"""Measures what groups cost that nobody uses: CPU time and memory of three nodes with many groups, and with few.

See README.md in this folder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import record
from nodes import OURS, Node, OurCluster
from server import Launch

# What a node may take, as a share of a core, and a replica.
CPU_TARGET_PERCENT = 1.0
REPLICA_TARGET_KIB = 64.0


@dataclass
class Reading:
    """One node of one cluster that did nothing for a while."""

    groups: int
    node: str
    seconds: float
    cpu_percent: float
    wake_ups_per_second: float
    resident_bytes: int
    # Where groups that are idle are led may not matter; the numbers say whether it does.
    led: int


def wake_ups(node: Node) -> int:
    """How often threads of a node waited for something so far."""
    total = 0
    for task in os.listdir(f"/proc/{node.pid}/task"):
        text = Path(f"/proc/{node.pid}/task/{task}/status").read_text()
        total += int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return total


def readings(options: argparse.Namespace, groups: int, seconds: float, progress: record.Progress) -> list[Reading]:
    """All nodes of one cluster, over the same time."""
    progress.step(f"{groups} groups: until they have their replicas")
    with OurCluster(options.ours, groups, options.workers) as cluster:
        progress.say(f"{groups} groups: rest")
        time.sleep(options.settle)
        began = time.monotonic()
        before = [(node.cpu_time(), wake_ups(node)) for node in cluster.nodes]
        while (left := began + seconds - time.monotonic()) > 0:
            progress.say(f"{groups} groups: idle, {left:.0f} s to go")
            time.sleep(min(left, 1.0))
        found = []
        for node, (cpu, woken) in zip(cluster.nodes, before, strict=True):
            node.ensure_alive()
            passed = time.monotonic() - began
            spent = node.cpu_time().since(cpu).best_ns / 1e9
            found.append(
                Reading(
                    groups=groups,
                    node=node.name,
                    seconds=round(passed, 2),
                    cpu_percent=round(100 * spent / passed, 3),
                    wake_ups_per_second=round((wake_ups(node) - woken) / passed, 1),
                    resident_bytes=node.resident_bytes(),
                    led=0,
                )
            )
        # Asking is work, so it comes last.
        for reading, node in zip(found, cluster.nodes, strict=True):
            reading.led = cluster.led_by(node)
        return found


def run(options: argparse.Namespace) -> None:
    """Measures, and writes the record."""
    facts = record.environment([Launch("ours", options.ours)])
    progress = record.Progress(2)
    few = readings(options, options.few, options.seconds / 3, progress)
    many = readings(options, options.groups, options.seconds, progress)
    progress.end()
    resident = {groups: statistics.median(r.resident_bytes for r in rs) for groups, rs in ((1, few), (2, many))}
    replica_kib = (resident[2] - resident[1]) / (options.groups - options.few) / 1024
    text = record.preamble("What idle groups cost", facts)
    text += (
        f"\nThree nodes, three replicas of each group, {options.workers} worker a node. Nobody is connected, and nothing is "
        f"written. CPU time of all threads of a process, {options.settle:.0f} s after the cluster has come to rest.\n\n"
    )
    headings = ["groups", "node", "leads", "over", "CPU, % of a core", "wake-ups/s", "resident"]
    rows = []
    for r in [*few, *many]:
        row = [str(r.groups), r.node, str(r.led), f"{r.seconds:.0f} s", f"{r.cpu_percent:.2f}"]
        rows.append([*row, f"{r.wake_ups_per_second:.0f}", f"{r.resident_bytes / (1 << 20):.1f} MiB"])
    text += record.table(headings, rows) + "\n\n"
    worst = max(r.cpu_percent for r in many)
    cpu_met = "yes" if worst < CPU_TARGET_PERCENT else "no"
    memory_met = "yes" if replica_kib < REPLICA_TARGET_KIB else "no"
    verdicts = [
        [f"CPU of a node with {options.groups} groups, the busiest", f"{worst:.2f} %", f"< {CPU_TARGET_PERCENT:.0f} %", cpu_met],
        ["memory of a replica", f"{replica_kib:.1f} KiB", f"< {REPLICA_TARGET_KIB:.0f} KiB", memory_met],
    ]
    text += record.table(["", "measured", "target", "met"], verdicts) + "\n\n"
    text += (
        f"Memory of a replica: what a node with {options.groups} groups has resident more than one with {options.few}, by the "
        "number of groups between; the medians of three nodes.\n"
    )
    data = {
        "facts": facts,
        "cpu_percent_busiest": worst,
        "replica_kib": round(replica_kib, 2),
        "readings": [asdict(r) for r in [*few, *many]],
    }
    record.write(options.out, data, text)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--ours", default=OURS, help="our nodes' command line, from the repository root")
    parser.add_argument("--groups", type=int, default=256, help="groups of the cluster that is judged")
    parser.add_argument("--few", type=int, default=64, help="groups of the one that it is compared with")
    parser.add_argument("--workers", type=int, default=1, help="worker threads of each node")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long; a third of it for the one with few")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds of rest before")
    parser.add_argument("--quick", action="store_true", help="short: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seconds, options.settle = 6.0, 1.0
    if not 0 < options.few < options.groups:
        parser.error("--few must be less than --groups, and more than 0")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
