#!/usr/bin/env python3
"""Lets a cluster grow and shrink under load, and draws what clients and nodes saw of it.

The program `growth` of the crate blackbox does the work, and judges what the clients saw; this script keeps the record and draws
the time line. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import record
from chart import Line, Panel, panels
from server import ROOT, SetupError


def run(options: argparse.Namespace) -> None:
    """Measures, or takes what was measured, and writes the record and its picture."""
    facts = record.environment([])
    if options.found:
        found = json.loads(Path(options.found).read_text())
    else:
        found = measure(options)
    text = record.preamble("A cluster that grows and shrinks under load", facts) + report(found, options)
    if options.out:
        picture = ROOT / "docs/pictures" / (Path(options.out).stem + ".svg")
        picture.write_text(draw(found, options))
        text += f"\n![The time line](../../docs/pictures/{picture.name})\n"
    record.write(options.out, {"facts": facts, "found": found}, text)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the program."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "blackbox", "--bin", "growth", "--"]
        command += ["--sizes", options.sizes, "--calm", str(options.calm), "--json", str(file)]
        command += ["--workers", str(options.workers), "--groups", str(options.groups)]
        command += ["--kills"] if options.kills else []
        done = subprocess.run(command, cwd=ROOT, check=False)
        if not file.exists():
            raise SetupError(f"the program growth has written nothing; it ended with {done.returncode}")
        return dict(json.loads(file.read_text()))


def report(found: dict[str, Any], options: argparse.Namespace) -> str:
    """The summary."""
    rows = []
    calm = 0.0
    for step in found["steps"]:
        is_calm = step["moved"] is None
        calm = step["p99_ms"] if is_calm else calm
        rows.append(
            [
                step["name"],
                f"{(step['ended_ms'] - step['began_ms']) / 1000:.1f}",
                f"{step['commands']:,}",
                f"{step['p50_ms']:.2f}",
                f"{step['p99_ms']:.2f}",
                "-" if is_calm else f"{step['p99_ms'] / calm:.1f}",
                f"{step['longest_ms']:.1f}",
                "-" if is_calm else f"{step['moved']} of {step['may_move']}",
                "-" if step["killed"] is None else f"node {step['killed']}",
            ]
        )
    headings = ["", "seconds", "commands", "p50 ms", "p99 ms", "of the calm before", "longest ms", "replicas moved, of at most", "killed"]
    failed = found["failed"] + found["failed_in_transactions"]
    judged = "linearizable" if found["is_linearizable"] else "**not linearizable**"
    serial = "strictly serializable" if found["is_strictly_serializable"] else "**not strictly serializable**"
    return (
        f"\nNodes with {options.workers} workers, {options.groups} groups, `relaxed`. Two clients of each node read and write registers, counters and "
        "lists, one command at a time, and rest for up to 16 ms between two; three clients of the first node have transactions over lists of any "
        "groups. A node that is to leave gets no more commands before it is drained. At most: a k-th part of the replicas and 5 % for the k-th node "
        "that joins, and for one that leaves those that it had.\n\n"
        + record.table(headings, rows)
        + f"\n\n{found['commands']:,} single commands and {found['transactions']:,} transactions, {found['wide_transactions']:,} of them over "
        f"several lists: {failed:,} failed. What the clients of single commands saw is {judged}, and the transactions are {serial}.\n"
    )


def draw(found: dict[str, Any], options: argparse.Namespace) -> str:
    """The time line."""
    seconds = [(float(second["second"]), second) for second in found["seconds"]]
    latency = [
        Line(name, [(at, max(second[key], 0.01)) for at, second in seconds])
        for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"))
    ]
    samples = [(sample["at_ms"] / 1000, sample) for sample in found["samples"]]
    nodes = [
        Line("nodes", [(at, float(sample["nodes"])) for at, sample in samples]),
        Line("groups that the busiest leads", [(at, float(sample["led_most"])) for at, sample in samples]),
    ]
    sent = []
    for (before, first), (at, sample) in zip(samples, samples[1:]):
        sent.append((at, (sample["sent_bytes"] - first["sent_bytes"]) / 1e6 / max(at - before, 0.1)))
    moved = [Line("MB/s between nodes", [(at, max(rate, 0.0)) for at, rate in sent])]
    title = f"{options.sizes.replace(',', ' to ')} nodes under load" + (", with kills" if options.kills else "")
    failed = found["failed"] + found["failed_in_transactions"]
    below = f"{found['commands']:,} commands and {found['transactions']:,} transactions; {failed} failed"
    parts = [
        Panel("Nodes and leaders", "seconds", "count", nodes, is_even=True),
        Panel("Latency", "seconds", "ms", latency, is_even=True),
        Panel("Traffic", "seconds", "MB/s", moved, is_even=True),
    ]
    return panels(title, below, parts)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--sizes", default="1,3,5,12,3", help="numbers of nodes, one after the other")
    parser.add_argument("--calm", type=int, default=10, help="seconds in which nothing happens at each of them")
    parser.add_argument("--groups", type=int, default=12, help="groups that the cluster is founded with")
    parser.add_argument("--workers", type=int, default=2, help="workers of each node")
    parser.add_argument("--kills", action="store_true", help="another node is killed in each step, and comes back")
    parser.add_argument("--found", help="what the program growth has written already, instead of running it")
    parser.add_argument("--out", help="record to write, such as bench/records/growth-NAME.json; its picture goes to docs/pictures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
