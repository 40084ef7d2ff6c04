"""Writes that wait for the disk: one node beside Redis with `always`, what readers wait meanwhile, three nodes beside etcd."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from typing import Any

import load
import record
from durable import turns
from durable.hosts import REDIS_LOG, in_words, ours, redis, three
from durable.turns import Cell, Side
from nodes import ETCD, Etcd
from server import ROOT, SetupError

sys.path.append(str(ROOT / "bench" / "compare"))

import cells as compare_cells  # noqa: E402
import peers  # noqa: E402

NAME = "strict"
TITLE = "Writes that wait for the disk"
ALONE = (Cell(1, 1), Cell(1, 16), Cell(50, 1), Cell(50, 16))
THREE = (Cell(50, 1), Cell(50, 16))
ALONE_AIM = 1.2
READS_AIM = 0.3
ETCD_AIM = 5.0
# GET a second, whatever the server does.
READS = 1_000
SHAPE = ["--keys", "100000", "--size", "100"]
WARMUP = 0.3


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    sides = 1 + len(options.workers)
    found = turns.steps(sides, len(ALONE), options.rounds) + sides * options.rounds
    return found + (0 if options.no_etcd else turns.steps(sides, len(THREE), options.rounds))


def _side(name: str, processes: list[Any], seconds: float) -> Side:
    ports = [process.port for process in processes]
    load.fill(ports, [*load.SET, *SHAPE])

    def ask(cell: Cell) -> dict[str, Any]:
        at = ports if cell.clients >= 50 else ports[:1]
        words = ["--clients", str(-(-cell.clients // len(at))), "--pipeline", str(cell.pipeline), "--warmup", f"{WARMUP:g}"]
        return load.ask(at, seconds, [*load.SET, *SHAPE, *words, "--no-load"])

    return Side(name, processes, ask)


def _etcd_side(members: Etcd, seconds: float) -> Side:
    way = peers.EtcdWay(peers.ETCD, [node.port for node in members.nodes], members.nodes, cluster=members)

    def ask(cell: Cell, is_loaded: bool = True) -> dict[str, Any]:
        asked = compare_cells.Cell(f"set/{cell.name}", "get_set", cell.clients, cell.pipeline, "0:1")
        return way.ask(asked, seconds, WARMUP, is_loaded)

    ask(THREE[0], is_loaded=False)
    return Side("etcd", members.nodes, ask)


def _reads(side: Side, seconds: float) -> dict[str, float]:
    """What readers wait for while 50 clients set."""
    ports = [process.port for process in side.processes]  # type: ignore[attr-defined]
    setting = [*load.SET, *SHAPE, "--clients", "50", "--no-load", "--seconds", f"{seconds + 1.5:g}"]
    with load.Beside(ports, setting) as setters:
        time.sleep(0.5)
        reading = [*load.GET, *SHAPE, "--clients", "20", "--no-load", "--rate", str(READS)]
        found = load.ask(ports, seconds, reading)
        sets = setters.report(seconds + 1.5)
    latency = found["latency"]
    return {"p50_ms": latency["p50_ms"], "p99_ms": latency["p99_ms"], "max_ms": latency["max_ms"], "sets_per_s": sets["requests_per_second"]}


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All runs."""
    if not options.no_etcd and not peers.ETCD_DRIVER.is_file():
        raise SetupError("the driver for etcd is not built: run bench/compare/install, or leave etcd out with --no-etcd")
    seconds = 0.3 if options.quick else 4.0
    found: dict[str, Any] = {"sync_ms": record.sync_ms(), "reads": []}
    with ExitStack() as stack:
        sides = [_side("redis", [stack.enter_context(redis(REDIS_LOG, "always"))], seconds)]
        for workers in options.workers:
            sides.append(_side(in_words(workers), [stack.enter_context(ours(options.ours, workers, "strict"))], seconds))
        found["alone"] = turns.to_record(turns.take(sides, ALONE, options.rounds, progress))
        for number in range(1, options.rounds + 1):
            for side in sides if number % 2 else sides[::-1]:
                progress.step(f"round {number} of {options.rounds}, GET beside 50 clients that set, {side.name}")
                found["reads"].append({"round": number, "side": side.name, **_reads(side, 2 * seconds)})
    if options.no_etcd:
        return found
    with ExitStack() as stack:
        progress.say("starting three nodes, and etcd")
        sides = [_etcd_side(stack.enter_context(Etcd(ETCD)), seconds)]
        for workers in options.workers:
            cluster = stack.enter_context(three(options.ours, workers, "strict"))
            sides.append(_side(in_words(workers), list(cluster.nodes), seconds))
        found["three"] = turns.to_record(turns.take(sides, THREE, options.rounds, progress))
    return found


def _compared(runs: list[turns.Run], cells: tuple[Cell, ...], base: str, target: float) -> str:
    sides = [side for side in dict.fromkeys(run.side for run in runs) if side != base]
    rows = []
    for cell in cells:
        theirs = turns.spread(runs, cell.name, base, lambda run: run.requests_per_s)
        for side in sides:
            rate = turns.spread(runs, cell.name, side, lambda run: run.requests_per_s)
            ratio = turns.ratio(runs, cell.name, side, base, lambda run: run.requests_per_s)
            waits = [turns.spread(runs, cell.name, name, lambda run: run.p99_ms) for name in (base, side)]
            told = turns.aim(ratio["median"], target, is_most=False)
            bound = [name for name in (base, side) if turns.is_generator_bound(runs, cell.name, name)]
            rows.append(
                [
                    f"{cell.clients} client{'s' if cell.clients > 1 else ''}, p{cell.pipeline}, {side}",
                    record.shown(theirs, ",.0f"),
                    record.shown(rate, ",.0f"),
                    record.shown(ratio),
                    told,
                    " / ".join(f"{wait['median']:.2f}" for wait in waits),
                    f"generator-bound: {', '.join(bound)}" if bound else "",
                ]
            )
    headings = ["`SET`/s", base, "`strict`", "ratio", "aim", f"p99 in ms, {base} / ours", "remarks"]
    return record.words_table(headings, rows) + "\n"


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    text = f"One sync of a little took {found['sync_ms']:.2f} ms there. One node, beside redis with `appendfsync always`:\n\n"
    text += _compared(turns.of_record(found["alone"]), ALONE, "redis", ALONE_AIM)
    text += f"\n{READS:,} `GET` a second, at times fixed beforehand, beside 50 clients that set all the time:\n\n"
    rows = []
    reads = found["reads"]
    theirs = {read["round"]: read for read in reads if read["side"] == "redis"}
    for side in dict.fromkeys(read["side"] for read in reads):
        own = [read for read in reads if read["side"] == side]
        figures = [record.shown(record.spread([read[what] for read in own])) for what in ("p50_ms", "p99_ms", "max_ms")]
        ratio = record.spread([read["p99_ms"] / theirs[read["round"]]["p99_ms"] for read in own])
        told = ["", ""] if side == "redis" else [record.shown(ratio, ".3f"), turns.aim(ratio["median"], READS_AIM, is_most=True)]
        rows.append([side, *figures, record.shown(record.spread([read["sets_per_s"] for read in own]), ",.0f"), *told])
    text += record.words_table(["`GET`", "p50 in ms", "p99", "longest", "`SET`/s meanwhile", "p99, ours/redis", "aim"], rows) + "\n"
    if "three" in found:
        text += "\nThree nodes, beside three members of etcd, which sync as they do by default:\n\n"
        text += _compared(turns.of_record(found["three"]), THREE, "etcd", ETCD_AIM)
    return text
