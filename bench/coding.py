#!/usr/bin/env python3
"""Measures what erasure coding saves and costs: three nodes with codes beside three that keep everything three times.

A record has a part for each of these; those that are named are measured, without names all:

  memory     bytes of all nodes for values of 256 B to 64 KiB, beside Redis with one replica too
  speed      SET, and GET of values that are whole and of such as are in fragments: requests/s and CPU
  refill     what clients wait for while another node takes the place of a lost one, and what fails
  workloads  half and half, 95 % GET, and new keys alone: memory, CPU and latency

Examples:
    python3 bench/coding.py --quick                     does it work? Some minutes; the numbers mean nothing
    python3 bench/coding.py --parts memory              one part; printed and written nowhere
    python3 bench/coding.py --parts memory,speed --out bench/records/coding-NAME.json
                                                        two parts into a record
    python3 bench/coding.py --parts refill --out bench/records/coding-NAME.json
                                                        a third one into the same: others stay as they are

Each part that is complete is written at once; Ctrl-C ends the run, and loses the one that is measured. Needs a release build of
Chorale, and redis-server. The picture of a record goes to docs/pictures. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import record
import server
from chart import panels
from coded import memory, refill, speed, workloads
from coded.clusters import CODING_ON, OURS
from server import ROOT, Launch, SetupError

PARTS = {part.NAME: part for part in (memory, speed, refill, workloads)}


def page(data: dict[str, Any], out: str | None) -> str:
    """The record for people."""
    measured = {name: data["parts"][name] for name in PARTS if name in data["parts"]}
    last = max((found["facts"] for found in measured.values()), key=lambda facts: str(facts["started"]))
    text = record.preamble("What erasure coding saves and costs", last)
    text += "- A quick run: too small to compare anything\n" if data["quick"] else ""
    text += "\nThree nodes on one machine. Figures are medians of the rounds, with the smallest and the largest in brackets. [What the parts mean](../README.md#coding).\n"
    for name, found in measured.items():
        facts = found["facts"]
        text += f"\n## {PARTS[name].TITLE}\n\n`{facts['command']}`, {facts['started']}, commit {facts['commit'][:12]}, load when it started "
        text += f"{facts['machine']['load_at_start'].split()[0]}.\n\n{PARTS[name].report(found['found'])}"
    if out is not None and drawn(data):
        text += f"\n![Memory by size, and p99 while a node is replaced](../../docs/pictures/{picture_path(out).name})\n"
    return text


def drawn(data: dict[str, Any]) -> list[Any]:
    """What the picture has."""
    return [part.panel(data["parts"][part.NAME]["found"]) for part in (memory, refill) if part.NAME in data["parts"]]


def picture_path(out: str) -> Path:
    """Where the picture of a record is."""
    return ROOT / "docs/pictures" / f"{Path(out).stem}.svg"


def save(data: dict[str, Any], out: str) -> None:
    """Writes the record with its page and picture."""
    record.save(out, data, page(data, out))
    if parts := drawn(data):
        picture_path(out).write_text(panels("Erasure coding on three nodes", "Beside three that keep everything three times", parts))


def begun(out: str | None, quick: bool) -> dict[str, Any]:
    """The record as it is, or an empty one."""
    if out is None or not Path(out).exists():
        if out is not None and Path(out).with_suffix(".md").exists():
            raise SetupError(f"{Path(out).with_suffix('.md')} was written by hand: choose another name for --out")
        return {"kind": "coding", "quick": quick, "parts": {}}
    data = dict(json.loads(Path(out).read_text()))
    data["quick"] = data["quick"] or quick
    return data


def run(options: argparse.Namespace) -> None:
    """Measures part by part."""
    data = begun(options.out, options.quick)
    launches = [Launch("replicated", options.ours, options.workers), Launch("coded", options.ours + CODING_ON, options.workers)]
    progress = record.Progress(sum(PARTS[name].steps(options) for name in options.parts))
    for name in options.parts:
        beside = [Launch("redis", server.REDIS)] if name == memory.NAME else []
        facts = record.environment([*launches, *beside])
        data["parts"][name] = {"facts": facts, "found": PARTS[name].measure(options, progress)}
        if options.out is not None:
            progress.end()
            save(data, options.out)
    progress.end()
    print(page({**data, "parts": {name: data["parts"][name] for name in options.parts}}, None))


def names(text: str) -> list[str]:
    """Parts, with commas between; in the order in which they stand here."""
    asked = text.split(",")
    if unknown := [name for name in asked if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"there are {', '.join(PARTS)}; not {', '.join(unknown)}")
    return [name for name in PARTS if name in asked]


def numbers(text: str) -> list[int]:
    """Sizes, with commas between."""
    found = [int(part) for part in text.split(",")]
    # Shorter strings are never coded.
    if min(found) < 256:
        raise argparse.ArgumentTypeError("values of less than 256 bytes are not coded by default")
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=names, default=list(PARTS), help=f"what is measured, with commas between (default: {','.join(PARTS)})")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured; of memory and refill at most 3 (default: %(default)s)")
    parser.add_argument("--sizes", type=numbers, default=memory.SIZES, help="of values, of memory (default: 256,1024,4096,65536)")
    parser.add_argument("--megabytes", type=float, default=128.0, help="of values, of memory (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=12.0, help="seconds before memory is read (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=50_000, help="of speed, refill and workloads (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=60_000, help="of a cell of speed at pipeline 1; four times as many at 16, and two times of workloads (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=2_000, help="requests a second, of refill (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of steady state, of refill (default: %(default)s)")
    parser.add_argument("--refill-seconds", type=float, default=30.0, help="of load while a node is replaced (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=6, help="groups of each cluster (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="workers of each node (default: %(default)s)")
    parser.add_argument("--ours", default=OURS, help="our nodes' command line, from the repository root, without codes (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="everything tiny: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, or to put the parts into, such as bench/records/coding-NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.megabytes, options.pause, options.keys, options.requests = 1, 4.0, 1.0, 5_000, 5_000
        options.rate, options.seconds, options.refill_seconds = 1_000, 4.0, 20.0
    if min(options.rounds, options.keys, options.requests, options.rate, options.groups, options.workers) < 1:
        parser.error("numbers of rounds, keys, requests, groups and workers must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
