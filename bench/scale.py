#!/usr/bin/env python3
"""Simulates clusters of up to a thousand nodes with stubbed data, and draws what a change of members costs them.

`sim --scale --stub` does the work; this script runs it several times, takes the least of what is measured and not counted, keeps the record
and draws the picture. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import record
from chart import Line, Panel, panels
from server import ROOT, SetupError

MEASURED = ("cpu_ms", "longest_look_ms", "layouts_cpu_ms")
FIGURES = [
    ("messages", "messages"),
    ("bytes", "bytes"),
    ("bytes of maps", "map_bytes"),
    ("versions of the map", "epochs"),
    ("replicas moved", "moved"),
    ("partitions moved", "partitions"),
    ("bytes of fences", "fence_bytes"),
    ("seconds until settled", "seconds"),
    ("CPU time of the leader", "cpu_ms"),
    ("longest look", "longest_look_ms"),
]


def run(options: argparse.Namespace) -> None:
    """Simulates, or takes what was found, and writes the record and its picture."""
    facts = record.environment([])
    found = json.loads(Path(options.found).read_text()) if options.found else measure(options, options.groups)
    before = json.loads(Path(options.before).read_text()) if options.before else None
    grown = measure(options, options.grown) if options.grown else None
    text = record.preamble("What a change of members costs a thousand nodes", facts) + about(found) + report(found, before)
    if grown:
        text += "\n## Clusters that have grown\n" + founded(grown) + report(grown, None)
    if options.out:
        picture = ROOT / "docs/pictures" / (Path(options.out).stem + ".svg")
        picture.write_text(draw(grown or found, before))
        text += f"\n![What it costs, over the number of nodes](../../docs/pictures/{picture.name})\n"
    record.write(options.out, {"facts": facts, "found": found, "grown": grown, "before": before}, text)


def measure(options: argparse.Namespace, groups: int) -> dict[str, Any]:
    """Runs the simulation of clusters that were founded with so many groups; what is counted has to be the same each time."""
    built = ["cargo", "run", "--quiet", "--release", "--locked", "-p", "sim", "--"]
    command = [options.program] if options.program else built
    command += ["--scale", options.sizes, "--stub", "--groups", str(groups)]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        for _ in range(options.runs):
            if subprocess.run([*command, "--json", str(file)], cwd=ROOT, check=False).returncode != 0:
                raise SetupError("the simulation failed")
            found = least(found, json.loads(file.read_text()))
    return found


def least(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Of two runs what was counted, and the least of what was measured."""
    if not one:
        return other
    for size, same in zip(one["sizes"], other["sizes"]):
        for step, again in zip(size["steps"], same["steps"]):
            for key, value in again.items():
                if key in MEASURED:
                    step[key] = min(step[key], value)
                elif step[key] != value:
                    raise SetupError(f"{step['name']} of {size['nodes']} nodes: {key} is {step[key]}, and {value} the next time")
    return one


def figure(step: dict[str, Any], key: str) -> float:
    """One figure of a step."""
    apart = {"map_bytes": ("maps", "bytes"), "fence_bytes": ("fences", "bytes")}
    if key in apart:
        part, of = apart[key]
        return float(step[part][of])
    return float(step[key])


def exponent(found: dict[str, Any], place: int, key: str) -> float | None:
    """How the figure grows with the number of nodes: as its power of this, by least squares of logarithms."""
    points = [(size["nodes"], figure(size["steps"][place], key)) for size in found["sizes"]]
    logs = [(math.log(nodes), math.log(value)) for nodes, value in points if value > 0]
    if len(logs) < 2:
        return None
    x = sum(point[0] for point in logs) / len(logs)
    y = sum(point[1] for point in logs) / len(logs)
    along = sum((point[0] - x) ** 2 for point in logs)
    return sum((point[0] - x) * (point[1] - y) for point in logs) / along if along else None


def steps_of(found: dict[str, Any] | None, nodes: int) -> list[dict[str, Any]]:
    """The steps at a size; none if it is not among what was found."""
    sizes = found["sizes"] if found else []
    return next((size["steps"] for size in sizes if size["nodes"] == nodes), [])


def row(size: dict[str, Any], place: int, before: dict[str, Any] | None) -> list[str]:
    """A step at one size, and what it was before."""
    step, nodes = size["steps"][place], size["nodes"]
    told = step["epochs"] * nodes
    former = steps_of(before, nodes)
    most = int(size["replicas"] * (1 / (nodes + 1) + 0.05))
    cells = [
        f"{nodes:,}",
        step["name"],
        f"{step['messages']:,}",
        f"{step['bytes'] / 1e6:.2f}",
        f"{step['maps']['bytes'] / 1e6:.2f}",
        f"{step['epochs']:,}",
        f"{step['maps']['bytes'] / told:,.0f}" if told else "-",
        f"{step['known_after_ms']:.0f}" if told else "-",
        f"{step['moved']:,}" + (f" of {most:,}" if step["name"] == "a node joins" and not step["added"] else ""),
        f"{step['added']:,}",
        f"{step['partitions']:,}",
        f"{step['fences']['entries']:,}",
        f"{step['fences']['bytes'] / 1e6:.2f}",
        f"{step['seconds']:.2f}",
        f"{step['entries']:,}",
        f"{step['looks']:,}",
        f"{step['cpu_ms']:.0f}",
        f"{step['longest_look_ms']:.1f}",
        f"{step['layouts_cpu_ms'] / step['layouts']:.2f}" if step["layouts"] else "-",
    ]
    if former:
        cells += [f"{former[place]['bytes'] / 1e6:.2f}", f"{former[place]['seconds']:.2f}", f"{former[place]['cpu_ms']:.0f}"]
    elif before:
        cells += ["-", "-", "-"]
    return cells


def report(found: dict[str, Any], before: dict[str, Any] | None) -> str:
    """The summary."""
    headings = ["nodes", "step", "messages", "MB", "of it maps", "versions of the map", "B a node and version", "known after ms"]
    headings += ["replicas moved", "groups added", "partitions moved", "fences", "MB of them"]
    headings += ["settled after s", "entries", "looks", "CPU ms of the leader", "longest look ms", "ms a layout"]
    headings += ["before: MB", "settled after s", "CPU ms"] if before else []
    names = [step["name"] for step in found["sizes"][0]["steps"]]
    rows = [row(size, place, before) for size in found["sizes"] for place in range(len(names))]
    maps = [
        [
            f"{size['nodes']:,}",
            f"{size['groups']:,}",
            f"{size['map_bytes']:,}",
            f"{size['groups'] * 64 + size['nodes'] * 128:,}",
            f"{size['pairs']:,} of {size['nodes'] * (size['nodes'] - 1) // 2:,}",
        ]
        for size in found["sizes"]
    ]
    grows = []
    for place, name in enumerate(names):
        powers = [exponent(found, place, key) for _, key in FIGURES]
        grows.append([name, *("-" if power is None else f"{power:.2f}" for power in powers)])
    return (
        "\n"
        + record.table(headings, rows)
        + "\n\nA whole map, what a node may have for it, and the pairs of nodes that have replicas of the same group, of all pairs:\n\n"
        + record.table(["nodes", "groups", "bytes of a map", "64 a group and 128 a node", "pairs"], maps)
        + "\n\nFigures grow as the number of nodes to the power of:\n\n"
        + record.table(["step", *(name for name, _ in FIGURES)], grows)
        + "\n"
    )


def about(found: dict[str, Any]) -> str:
    """What is simulated."""
    return (
        f"\n{found['groups']:,} groups of three replicas over three zones, which are as many as there can be. The meta group, placement and every node's part in them are those of production, and so "
        "are the messages, whose bytes are counted with the heads of their frames. Stubs: a replica fills in 10 ms, one after the other on a node; a sync takes 2 ms; a "
        "link 0.25 ms and a gigabit; a group whose leader's process has ended is led again after 401 ms, one whose leader's machine is lost after 400 to 800 ms. A node "
        "that dies is replaced after 15 s, not 600 s. All but CPU time and the longest look is counted, in simulated time, and the same on any machine; these two are how long turns of the meta group's leader took. "
        "A fence is an entry in the log of a group that says who lives, with 8 B for each: there is one for each start of a term and each death, counted on all replicas. "
        "A layout is what a node makes of each version of the map: how long one takes was measured on one node. Not counted are links that nobody uses, "
        "what workers do with a layout, and what groups of keys say among themselves.\n"
    )


def founded(grown: dict[str, Any]) -> str:
    """How the others came to be."""
    return (
        f"\nThe same clusters, founded with {grown['groups']:,} groups, as nodes of two workers are, and 4,096 partitions. They have grown as production has it: groups were added for nodes "
        "beyond the third, and partitions have moved there. So they do at each join. A partition moves in 12 ms, those of a node one after the other.\n"
    )


def line(found: dict[str, Any], name: str, place: int, key: str, scale: float, is_dashed: bool = False) -> Line:
    """A figure of one step over all sizes."""
    points = [(float(size["nodes"]), figure(size["steps"][place], key) / scale) for size in found["sizes"]]
    return Line(name, points, is_dashed)


def draw(found: dict[str, Any], before: dict[str, Any] | None) -> str:
    """The picture."""
    names = [step["name"] for step in found["sizes"][0]["steps"]]
    places = [place for place, name in enumerate(names) if name != "nothing happens"]
    sent = [line(found, names[place], place, "map_bytes", 1e6) for place in places if names[place] != "a zone is lost"]
    settled = [line(found, names[place], place, "seconds", 1) for place in places]
    cpu = [line(found, names[place], place, "cpu_ms", 1) for place in places]
    parts = [
        Panel("Maps to all nodes", "nodes", "MB", sent),
        Panel("Until settled, and known everywhere", "nodes", "seconds", settled),
        Panel("CPU time of the meta group's leader", "nodes", "ms", cpu),
    ]
    groups = sorted({size["groups"] for size in found["sizes"]})
    below = " to ".join(f"{count:,}" for count in dict.fromkeys([groups[0], groups[-1]])) + " groups; stubbed data"
    joined = names.index("a node joins")
    if before:
        costs = [size["steps"][joined]["bytes"] / 1e6 for size in before["sizes"]]
        below += f". Before, the whole map went to all nodes: a join cost {min(costs):,.0f} to {max(costs):,.0f} MB"
    return panels("What a change of members costs", below, parts)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--sizes", default="10,30,100,300,1000", help="numbers of nodes")
    parser.add_argument("--groups", type=int, default=4096, help="groups of the clusters")
    parser.add_argument("--grown", type=int, default=12, help="groups with which clusters are founded that are simulated besides, and that have grown; 0 for none")
    parser.add_argument("--runs", type=int, default=3, help="how often all is simulated")
    parser.add_argument("--program", help="`sim`, if it is built already")
    parser.add_argument("--found", help="what `sim --scale --json` has written already, instead of running it")
    parser.add_argument("--before", help="what it has written of an earlier build, to be shown beside")
    parser.add_argument("--out", help="record to write, such as bench/records/scale-NAME.json; its picture goes to docs/pictures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
