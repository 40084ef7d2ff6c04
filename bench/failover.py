#!/usr/bin/env python3
"""Measures how long writes wait when a node is killed, or stands still, beside Redis Cluster.

Three nodes, clients that write all over the keys through two of them; the third is hit. A run's time is that until a key of
every group has taken a write that was sent after the fault. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import record
from nodes import OURS, REDIS, SLOTS, Cluster, Node, OurCluster, RedisCluster, keys_of_ranges, slot_of
from probes import Load, Probes
from server import Launch

# Keys of each group that the load writes.
LOAD_KEYS = 32
STEADY_SECONDS = 0.5
AFTER_SECONDS = 1.0
LIMIT_SECONDS = 60.0
# Redis's own, and one for those who want it fast: the election begins 0.5 to 1 s after the time-out whatever it is, so a
# shorter one would gain little more, and calls nodes dead that were busy for a moment.
REDIS_DEFAULT_MS, REDIS_FAST_MS = 15_000, 500
# What a row should keep: median and longest, in seconds.
TARGETS = {"kill -9": (0.5, 1.5), "SIGSTOP": (1.5, 1.5)}


@dataclass
class Run:
    """One fault."""

    row: str
    victim: str
    led: int
    seconds: float
    by_key: dict[str, float]
    refusals: dict[str, int]
    longest_after: float
    probe_writes: int
    load_writes: int
    load_refusals: dict[str, int]
    whole_again_seconds: float


def one_run(cluster: Cluster, row: str, number: int, fault: str, options: argparse.Namespace) -> Run:
    """Hits one node under load, and waits until the cluster is whole again."""
    victim = cluster.victim(number)
    led = cluster.led_by(victim)
    others = [node for node in cluster.leaders() if node is not victim]
    survivors = [node.port for node in cluster.nodes if node is not victim]
    places, load = where(cluster, victim, others, options)
    probes = Probes(places)
    writers = Load(load, options.rate)
    try:
        probes.steady(STEADY_SECONDS)
        began = time.monotonic()
        if fault == "SIGSTOP":
            victim.pause()
        else:
            victim.kill()
        outcome = probes.after(began, victim.port, survivors, LIMIT_SECONDS, AFTER_SECONDS)
        written, refused = writers.stop()
    finally:
        probes.close()
        if fault == "SIGSTOP":
            victim.resume()
        else:
            victim.start()
    back = time.monotonic()
    cluster.settle()
    return Run(
        row=row,
        victim=victim.name,
        led=led,
        seconds=round(outcome.recovered, 4),
        by_key=outcome.accepted,
        refusals=outcome.refusals,
        longest_after=round(outcome.longest_after, 4),
        probe_writes=outcome.writes,
        load_writes=written,
        load_refusals=refused,
        whole_again_seconds=round(time.monotonic() - back, 2),
    )


Places = tuple[dict[bytes, int], list[tuple[int, list[bytes]]]]


def where(cluster: Cluster, victim: Node, others: list[Node], options: argparse.Namespace) -> Places:
    """Whom each key's probe asks first, and what the clients that are load write where."""
    ranges = keys_of_ranges(options.groups, LOAD_KEYS)
    probed = [keys[0] for keys in ranges]
    loaded = [key for keys in ranges for key in keys[1:]]
    clients = range(options.clients)
    if isinstance(cluster, OurCluster):
        # Any node takes any key, and the victim is asked nothing.
        places = {key: others[i % len(others)].port for i, key in enumerate(probed)}
        return places, [(others[i % len(others)].port, loaded) for i in clients]
    assert isinstance(cluster, RedisCluster)
    owners = cluster.owners()
    places = {key: owners[slot_of(key)].port for key in probed}
    of_node = {node.port: [key for key in loaded if owners[slot_of(key)] is node] for node in others}
    return places, [(others[i % len(others)].port, of_node[others[i % len(others)].port]) for i in clients]


COUNTERS = ("chorale_campaigns_total", "chorale_elections_won_total", "chorale_term_changes_total")


def undisturbed(cluster: OurCluster, options: argparse.Namespace) -> dict[str, Any]:
    """What elections there are while nothing is wrong: none, if time-outs are long enough."""
    places, load = where(cluster, cluster.nodes[-1], cluster.nodes[:-1], options)
    before = {name: cluster.counter(name) for name in COUNTERS}
    probes, writers = Probes(places), Load(load, options.rate)
    try:
        probes.steady(options.calm)
        written, refused = writers.stop()
    finally:
        probes.close()
    # The figures are written down twice a second.
    time.sleep(1.0)
    counted = {name: cluster.counter(name) - before[name] for name in COUNTERS}
    return {"seconds": options.calm, "load_writes": written, "load_refusals": refused, **counted}


def run(options: argparse.Namespace) -> None:
    """Measures, and writes the record."""
    facts = record.environment([Launch("ours", options.ours), Launch("redis", options.redis)], ["redis-cli"])
    progress = record.Progress(options.kills + options.stops + options.redis_fast + options.redis_default + 1)
    runs: list[Run] = []

    def rows(cluster: Cluster, row: str, fault: str, count: int) -> None:
        for number in range(count):
            mine = [r.seconds for r in runs if r.row == row]
            so_far = f", median so far {statistics.median(mine):.2f} s, longest {max(mine):.2f} s" if mine else ""
            progress.step(f"{row}{so_far}")
            runs.append(one_run(cluster, row, number, fault, options))

    with OurCluster(options.ours, options.groups, options.workers) as cluster:
        progress.step("undisturbed")
        calm = undisturbed(cluster, options)
        whole = cluster.seconds_to_whole
        rows(cluster, "ours, kill -9", "kill -9", options.kills)
        rows(cluster, "ours, SIGSTOP", "SIGSTOP", options.stops)
    for timeout, count in ((REDIS_FAST_MS, options.redis_fast), (REDIS_DEFAULT_MS, options.redis_default)):
        if count:
            with RedisCluster(options.redis, timeout) as redis:
                rows(redis, f"redis, time-out {timeout} ms, kill -9", "kill -9", count)
    progress.end()
    text = record.preamble("How long writes wait when a node fails", facts) + report(runs, calm, whole, options)
    data = {"facts": facts, "undisturbed": calm, "seconds_to_whole": round(whole, 2), "runs": [asdict(r) for r in runs]}
    record.write(options.out, data, text)


def report(runs: list[Run], calm: dict[str, Any], whole: float, options: argparse.Namespace) -> str:
    """The summary."""
    names = list(dict.fromkeys(r.row for r in runs))
    text = (
        f"\nOurs: three nodes, {options.groups} groups of three replicas, {options.workers} worker a node, time-outs as they "
        "are. Redis Cluster: three primaries with a replica each. A client for each group writes a key of it every "
        f"{10} ms through the nodes that stay; {options.clients} more are load, {options.rate:.0f} writes/s together in "
        "pipelines of 16, over all groups with ours, over the slots of the primaries that stay with Redis. The node that is "
        "hit changes from run to run. A run's time: from the fault until the last of the keys has taken a write that was sent "
        "after it. Seconds.\n\n"
    )
    table = []
    for name in names:
        mine = [r for r in runs if r.row == name]
        times = sorted(r.seconds for r in mine)
        told = sum((Counter(r.refusals) + Counter(r.load_refusals) for r in mine), Counter[str]())
        said = ", ".join(f"{word} {count}" for word, count in told.most_common()) or "nothing"
        target, verdict = "-", "-"
        if name.startswith("ours, "):
            middle, most = TARGETS[name.removeprefix("ours, ")]
            is_met = statistics.median(times) <= middle and times[-1] <= most
            target, verdict = f"{middle} / {most}", "yes" if is_met else "no"
        table.append(
            [
                name,
                str(len(mine)),
                f"{statistics.median(times):.2f}",
                f"{times[0]:.2f}",
                f"{times[-1]:.2f}",
                target,
                verdict,
                f"{max(r.longest_after for r in mine):.2f}",
                f"{statistics.median(r.whole_again_seconds for r in mine):.1f}",
                said,
            ]
        )
    headings = ["", "runs", "median", "shortest", "longest", "target: median / longest", "met"]
    headings += ["longest wait after", "whole again after", "errors that clients saw"]
    text += record.table(headings, table) + "\n\n"
    text += "One mark for each run, over seconds:\n\n```text\n" + picture(runs, names) + "\n```\n\n"
    elections = ", ".join(f"`{name}` {calm[name]}" for name in COUNTERS)
    text += (
        f"Undisturbed for {calm['seconds']:.0f} s under the same load ({calm['load_writes']} writes of it): {elections}. "
        f"All of them ought to be 0.\n\nFrom the start of the last node until all groups had three replicas and every node "
        f"led its share: {whole:.1f} s.\n"
    )
    return text


def picture(runs: list[Run], names: list[str]) -> str:
    """Runs as marks on a scale that doubles, so that a tenth of a second and half a minute fit beside each other."""
    first, steps, width = 0.125, 8, 8
    scale = [first * 2**i for i in range(steps + 1)]
    margin = max(map(len, names)) + 2

    def column(seconds: float) -> int:
        at = max(seconds, first)
        place = next((i for i in range(steps) if at < scale[i + 1]), steps - 1)
        return min(steps * width - 1, int((place + (at - scale[place]) / scale[place]) * width))

    lines = []
    for name in names:
        counts = Counter(column(r.seconds) for r in runs if r.row == name)
        marks = ("." if c not in counts else str(counts[c]) if counts[c] < 10 else "#" for c in range(steps * width))
        lines.append(name.ljust(margin) + "".join(marks))
    lines.append(" " * margin + "".join(format(mark, "g").ljust(width) for mark in scale).rstrip())
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--ours", default=OURS, help="our nodes' command line, from the repository root")
    parser.add_argument("--redis", default=REDIS, help="the command line of nodes of Redis Cluster")
    parser.add_argument("--groups", type=int, default=64, help="groups of our cluster, and keys that are watched")
    parser.add_argument("--workers", type=int, default=1, help="worker threads of each of our nodes")
    parser.add_argument("--clients", type=int, default=6, help="clients that are load")
    parser.add_argument("--rate", type=float, default=4000, help="writes a second of these together")
    parser.add_argument("--calm", type=float, default=20.0, help="seconds of load without a fault")
    parser.add_argument("--kills", type=int, default=20, help="runs with kill -9")
    parser.add_argument("--stops", type=int, default=20, help="runs with SIGSTOP")
    parser.add_argument("--redis-fast", type=int, default=8, help=f"runs of Redis with a time-out of {REDIS_FAST_MS} ms")
    parser.add_argument("--redis-default", type=int, default=3, help=f"runs of Redis with one of {REDIS_DEFAULT_MS} ms")
    parser.add_argument("--quick", action="store_true", help="few runs: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.kills, options.stops, options.redis_fast, options.redis_default = 2, 2, 1, 0
        options.calm = 3.0
    if min(options.kills, options.stops) < 0 or options.kills + options.stops < 1:
        parser.error("at least one run is needed")
    assert options.groups <= SLOTS
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
