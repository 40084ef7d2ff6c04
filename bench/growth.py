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
        machine = facts["machine"]
        assert isinstance(machine, dict)
        machine["load_at_start"] = found["load"][0]
        # A record names no file outside the repository.
        facts["command"] = " ".join([*program(found, "FILE"), ";", *record.command(), "--found FILE"])
        facts["command"] += f" --out {options.out}" if options.out else ""
    else:
        found = measure(options)
    text = record.preamble("A cluster that grows and shrinks under load", facts) + report(found)
    if options.out:
        picture = ROOT / "docs/pictures" / (Path(options.out).stem + ".svg")
        picture.write_text(draw(found))
        text += f"\n![The time line](../../docs/pictures/{picture.name})\n"
    record.write(options.out, {"facts": facts, "found": found}, text)


def program(asked: dict[str, Any], file: str) -> list[str]:
    """The command line of the program that does the work."""
    sizes = ",".join(str(size) for size in asked["sizes"])
    command = ["cargo", "run", "--release", "--locked", "-p", "blackbox", "--bin", "growth", "--", "--sizes", sizes]
    command += ["--calm", str(asked["calm_secs"]), "--workers", str(asked["workers"]), "--groups", str(asked["groups"])]
    command += ["--seed", str(asked["seed"])]
    command += ["--kills"] if asked["kills"] else []
    return [*command, "--json", file]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the program."""
    asked = {**vars(options), "sizes": options.sizes.split(","), "calm_secs": options.calm}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        done = subprocess.run(program(asked, str(file)), cwd=ROOT, check=False)
        if not file.exists():
            raise SetupError(f"the program growth has written nothing; it ended with {done.returncode}")
        return dict(json.loads(file.read_text()))


def report(found: dict[str, Any]) -> str:
    """The summary."""
    rows = []
    for step in found["steps"]:
        is_calm = step["moved"] is None
        rows.append(
            [
                step["name"],
                f"{(step['ended_ms'] - step['began_ms']) / 1000:.1f}",
                f"{step['commands']:,}",
                f"{step['p50_ms']:.2f}",
                f"{step['p99_ms']:.2f}",
                "-" if step["ratio"] is None else f"{step['ratio']:.1f}",
                f"{step['longest_ms']:.1f}",
                "-" if is_calm else f"{step['moved']} of {step['may_move']}",
                "-" if step["killed"] is None else f"node {step['killed']}",
                "-" if step["killed"] is None else f"{step['failed_at_killed']}",
            ]
        )
    headings = ["", "seconds", "commands", "p50 ms", "p99 ms", "of the calm around it", "longest ms", "replicas moved, of at most", "killed", "failed there"]
    # Where nobody is killed there is nothing to say of it.
    columns = len(headings) if found["kills"] else len(headings) - 2
    judged = "linearizable" if found["is_linearizable"] else "**not linearizable**"
    serial = "strictly serializable" if found["is_strictly_serializable"] else "**not strictly serializable**"
    machines = "in network namespaces, with addresses of their own" if found["has_namespaces"] else "at the loopback address"
    slow = f"not met ({', '.join(found['slow'])})" if found["slow"] else "met"
    text = (
        f"- Load when it ended: {found['load'][1]}\n\nNodes with {found['workers']} workers {machines}, {found['groups']} groups at first, `{found['durability']}`. Two clients of each node read and "
        "write registers, counters and lists, one command at a time, and rest for up to 16 ms between two; another client of each node has transactions over "
        f"lists of any groups, and rests for up to 64 ms. After each step nothing happens for {found['calm_secs']} s; its p99 is compared with the larger one "
        "of the calm before and the calm after it. A node that is to leave gets no more commands before it is drained. At most: a k-th part of the replicas "
        "and 5 % for the k-th node that joins, and for one that leaves those that it had.\n\n"
    )
    if found["kills"]:
        text += (
            f"In each step a node is killed and started again 2 s later, drawn (seed {found['seed']}) among all, the joining and the leaving one included, as "
            "soon as each group has a majority without it. Its clients go to others and come back. *Failed there*: commands, transactions and connections of "
            "its clients, from its kill until it served again.\n\n"
        )
    text += record.table(headings[:columns], [row[:columns] for row in rows])
    text += (
        f"\n\np99 at most 3x the calm around it: {slow}.\n\n{found['commands']:,} single commands and {found['transactions']:,} transactions, "
        f"{found['wide_transactions']:,} of them over several lists: {found['failed']:,} failed at nodes that were up"
    )
    text += f", and {found['failed_at_killed']:,} at those that were killed" if found["kills"] else ""
    return f"{text}. What the clients of single commands saw is {judged}, and the transactions are {serial}.\n"


def draw(found: dict[str, Any]) -> str:
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
    title = " to ".join(str(size) for size in found["sizes"]) + " nodes under load" + (", with a kill in each step" if found["kills"] else "")
    below = f"{found['commands']:,} commands and {found['transactions']:,} transactions; {found['failed']} failed at nodes that were up"
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
    parser.add_argument("--calm", type=int, default=3, help="seconds in which nothing happens before and after each step")
    parser.add_argument("--groups", type=int, default=12, help="groups that the cluster is founded with")
    parser.add_argument("--workers", type=int, default=2, help="workers of each node")
    parser.add_argument("--kills", action="store_true", help="a node is killed in each step, and comes back")
    parser.add_argument("--seed", type=int, default=1, help="what decides the commands, and who is killed when")
    parser.add_argument("--found", help="what the program growth has written already, instead of running it")
    parser.add_argument("--out", help="record to write, such as bench/records/cluster-growth-NAME.json; its picture goes to docs/pictures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
