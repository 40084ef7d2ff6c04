"""CPU time of a SET: three nodes in `relaxed` beside `memory`, one node in `relaxed` beside Redis with `everysec`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

import load
import record
from durable import turns
from durable.hosts import REDIS_LOG, in_words, ours, redis, three
from durable.turns import Cell, Side
from server import Process

NAME = "cpu"
TITLE = "CPU of a SET"
CELLS = (Cell(50, 1), Cell(50, 16))
# By pipeline.
THREE_AIMS = {1: 1.15, 16: 1.10}
ALONE_AIMS = {1: 1.0, 16: 0.6}
# Turns that do not count for each worker, until it has filled the files of its log: from then on it uses them again.
WARM_UPS = 4
SHAPE = [*load.SET, "--keys", "100000", "--size", "100"]


def requests(options: argparse.Namespace, cell: Cell, is_alone: bool) -> int:
    """So many that a turn takes seconds."""
    if options.quick:
        return 5_000
    if is_alone:
        return 200_000 if cell.pipeline == 1 else 2_000_000
    return 100_000 if cell.pipeline == 1 else 500_000


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return len(options.workers) * sum(turns.steps(sides, len(CELLS), options.rounds) for sides in (2, 3))


def _side(options: argparse.Namespace, name: str, processes: list[Process], is_alone: bool) -> Side:
    ports = [process.port for process in processes]  # type: ignore[attr-defined]
    load.fill(ports, SHAPE)

    def ask(cell: Cell) -> dict[str, Any]:
        words = [*SHAPE, "--clients", str(-(-cell.clients // len(ports))), "--pipeline", str(cell.pipeline)]
        return load.ask_requests(ports, requests(options, cell, is_alone), words)

    return Side(name, processes, ask)


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All runs, by the number of workers."""
    found: dict[str, Any] = {}
    for workers in options.workers:
        with ExitStack() as stack:
            progress.say(f"starting three nodes twice, {in_words(workers)} each")
            sides = []
            for durability in ("memory", "relaxed"):
                cluster = stack.enter_context(three(options.ours, workers, durability))
                sides.append(_side(options, durability, list(cluster.nodes), is_alone=False))
            in_threes = turns.take(sides, CELLS, options.rounds, progress, WARM_UPS * workers)
        with ExitStack() as stack:
            sides = []
            host = stack.enter_context(redis(REDIS_LOG))
            sides.append(_side(options, "redis", [host], is_alone=True))
            for durability in ("relaxed", "memory"):
                host = stack.enter_context(ours(options.ours, workers, durability))
                sides.append(_side(options, durability, [host], is_alone=True))
            alone = turns.take(sides, CELLS, options.rounds, progress, WARM_UPS * workers)
        found[str(workers)] = {"three": turns.to_record(in_threes), "alone": turns.to_record(alone)}
    return found


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    headings = ["CPU µs of a `SET`", "beside", "", "`relaxed`", "ratio", "aim", "`memory`", "remarks"]
    rows = []
    for workers, parts in found.items():
        for place, base, aims in (("three", "memory", THREE_AIMS), ("alone", "redis", ALONE_AIMS)):
            runs = turns.of_record(parts[place])
            for cell in CELLS:
                figures = {side: turns.spread(runs, cell.name, side, lambda run: run.cpu_us) for side in ("memory", "relaxed", base)}
                ratio = turns.ratio(runs, cell.name, "relaxed", base, lambda run: run.cpu_us)
                # One worker is what Redis has.
                told = turns.aim(ratio["median"], aims[cell.pipeline], is_most=True) if workers == "1" else ""
                bound = [side for side in (base, "relaxed") if turns.is_generator_bound(runs, cell.name, side)]
                rows.append(
                    [
                        f"{'three nodes' if place == 'three' else 'one node'}, p{cell.pipeline}, {in_words(int(workers))}",
                        "`memory`" if base == "memory" else "redis `everysec`",
                        record.shown(figures[base]),
                        record.shown(figures["relaxed"]),
                        record.shown(ratio),
                        told,
                        "" if base == "memory" else record.shown(figures["memory"]),
                        f"generator-bound: {', '.join(bound)}" if bound else "",
                    ]
                )
    return (
        "50 clients at one server, 17 at each of three nodes; values of 100 bytes, 100,000 keys. CPU is that of all threads of the servers, "
        "without what children of redis take that write its log anew. Ratios are of neighbouring runs: their median, with the smallest and "
        "the largest.\n\n" + record.words_table(headings, rows) + "\n"
    )
