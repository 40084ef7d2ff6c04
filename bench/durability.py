#!/usr/bin/env python3
"""Measures what it costs to keep data on disk, beside redis-server and etcd, and judges it by the design's aims.

A record has a section for each of these; those that are named are measured, without names all:

  cpu        CPU time of a SET: three nodes relaxed/memory, one node relaxed/redis everysec
  strict     SET/s with a synced log: one node/redis always, three nodes/etcd; what readers wait meanwhile
  written    bytes written to the disk for each byte that clients set
  snapshots  the slowest replies, and memory, while a snapshot of 5 million keys is written, beside steady state
  restart    how long a start with 5 million keys takes, beside redis's RDB and AOF
  backup     what clients of three nodes wait for while a backup is taken, and how long its mark takes

Examples:
    python3 bench/durability.py --quick                does it work? A few minutes; the numbers mean nothing
    python3 bench/durability.py cpu                    one section; printed and written nowhere
    python3 bench/durability.py cpu strict --out bench/records/durability-NAME.json
                                                       two sections into a record
    python3 bench/durability.py restart --out bench/records/durability-NAME.json
                                                       a third one into the same: others stay as they are
    python3 bench/durability.py snapshots --keys 1000000 --workers 1
                                                       something smaller
    python3 bench/durability.py strict --own-disk      on a file system with a journal, whatever the machine's has
    python3 bench/durability.py --from bench/records/durability-NAME.json
                                                       its page and its picture once more, without measuring

Each section that is complete is written at once; Ctrl-C ends the run, and loses the one that is measured. Needs a release build
of Chorale, redis-server, and for etcd what bench/compare/install brings. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import record
from durable import backup, cpu, restart, snapshots, strict, written
from durable.hosts import OURS, REDIS_LOG
from durable.own_disk import OwnDisk
from nodes import ETCD
from server import Launch, SetupError

SECTIONS = {section.NAME: section for section in (cpu, strict, written, snapshots, restart, backup)}


def page(data: dict[str, Any], out: str | None) -> str:
    """The record for people."""
    measured = {name: data["sections"][name] for name in SECTIONS if name in data["sections"]}
    last = max((found["facts"] for found in measured.values()), key=lambda facts: str(facts["started"]))
    text = record.preamble("What keeping data on disk costs", last)
    text += "\nFigures are medians, with the smallest and the largest in brackets. [What the sections mean](../README.md#durability).\n"
    for name, found in measured.items():
        facts = found["facts"]
        text += f"\n## {SECTIONS[name].TITLE}\n\n"
        text += f"`{facts['command']}`, {facts['started']}, commit {facts['commit'][:12]}, load when it started "
        text += f"{facts['machine']['load_at_start'].split()[0]}, files on {facts['scratch']}.\n\n"
        text += SECTIONS[name].report(found["found"], facts)
        if name == snapshots.NAME and out is not None:
            text += f"\n![Replies and memory over time]({picture_path(out).name})\n"
    return text


def picture_path(out: str) -> Path:
    """Where the picture of a record is."""
    path = Path(out)
    return path.with_name(f"{path.stem}-snapshots.svg")


def save(data: dict[str, Any], out: str) -> None:
    """Writes the record with its page and picture."""
    record.save(out, data, page(data, out))
    if snapshots.NAME in data["sections"]:
        picture_path(out).write_text(snapshots.picture(data["sections"][snapshots.NAME]["found"]))


def begun(out: str | None) -> dict[str, Any]:
    """The record as it is, or an empty one."""
    if out is None or not Path(out).exists():
        if out is not None and Path(out).with_suffix(".md").exists():
            raise SetupError(f"{Path(out).with_suffix('.md')} was written by hand: choose another name for --out")
        return {"sections": {}}
    return dict(json.loads(Path(out).read_text()))


@contextmanager
def own_disk(options: argparse.Namespace, name: str) -> Iterator[None]:
    """Has the files of servers in a file system of the section's own, if that is asked for."""
    # `written` always makes its own.
    if not options.own_disk or name == written.NAME:
        yield
        return
    before = tempfile.gettempdir()
    with OwnDisk() as disk:
        if not disk.is_own:
            raise SetupError("--own-disk: mkfs.ext4 and mount -o loop do not work here: become root, or leave it out")
        tempfile.tempdir = str(disk.folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def run(options: argparse.Namespace) -> None:
    """Measures section by section."""
    if options.source:
        save(begun(options.source), options.source)
        return
    data = begun(options.out)
    launches = [Launch("ours", options.ours), Launch("redis", REDIS_LOG)]
    if not options.no_etcd and strict.NAME in options.sections:
        launches.append(Launch("etcd", ETCD))
    progress = record.Progress(sum(SECTIONS[name].steps(options) for name in options.sections))
    for name in options.sections:
        facts = record.environment(launches)
        with own_disk(options, name):
            facts["scratch"] = record.scratch()
            found = SECTIONS[name].measure(options, progress)
        data["sections"][name] = {"facts": facts, "found": found}
        if options.out is not None:
            progress.end()
            save(data, options.out)
    progress.end()
    print(page({"sections": {name: data["sections"][name] for name in options.sections}}, None))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="what is measured, of those above (default: all)")
    parser.add_argument("--workers", help="workers of our nodes, with commas between (default: 1 and as many as there are cores)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured; of snapshots and backup at most 3 (default: 5)")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of a window of snapshots and backup (default: 30)")
    parser.add_argument("--keys", type=int, default=5_000_000, help="of snapshots and restart (default: 5000000)")
    parser.add_argument("--rate", type=int, default=20_000, help="SET a second of snapshots (default: 20000)")
    parser.add_argument("--megabytes", type=float, default=600.0, help="payload of a cell of written; half of it at p1 (default: 600)")
    parser.add_argument("--starts", type=int, default=3, help="of each kind, of restart (default: 3)")
    parser.add_argument("--ours", default=OURS, help="our nodes' command line, from the repository root (default: %(default)s)")
    own = "have files in a new ext4, as mkfs makes it, in a file (as root): the machine's own may have no journal, which makes syncs cheap"
    parser.add_argument("--own-disk", action="store_true", help=own)
    parser.add_argument("--no-etcd", action="store_true", help="leave etcd out of strict")
    parser.add_argument("--quick", action="store_true", help="everything tiny: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, or to put the sections into, such as bench/records/durability-NAME.json")
    parser.add_argument("--from", dest="source", metavar="RECORD", help="write the page of this record again; nothing is measured")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there are {', '.join(SECTIONS)}; not {', '.join(unknown)}")
    options.sections = [name for name in SECTIONS if name in options.sections or not options.sections]
    cores = os.cpu_count() or 1
    try:
        options.workers = list(dict.fromkeys(map(int, (options.workers or f"1,{cores}").split(","))))
    except ValueError:
        parser.error("--workers takes numbers with commas between, such as 1,4")
    if options.quick:
        options.rounds, options.keys, options.rate, options.megabytes = 1, 50_000, 2_000, 2.0
    if min(options.workers) < 1 or min(options.rounds, options.starts, options.keys, options.rate) < 1:
        parser.error("numbers of workers, rounds, starts, keys and requests must be at least 1")
    if options.seconds < 2 or options.megabytes <= 0:
        parser.error("--seconds must be at least 2, and --megabytes more than 0")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
