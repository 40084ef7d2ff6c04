"""The clusters that are compared: three nodes that keep everything three times, and three that keep it in fragments."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import nodes
from nodes import Node, OurCluster
from server import CpuTime, Process, SetupError

REPLICATED, CODED = "replicated", "coded"
OURS = nodes.OURS
CODING_ON = " --coding on"
# What a group lags by at rest: the entry that settled all before it, and what the leader says now and then.
SETTLED_LAG = 4
SETTLED_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.25
# So many looks in a row see nothing that goes, and as much memory: for longer than INFO's figures are old.
LOOKS = 10


def info(node: Node, section: bytes) -> dict[str, str]:
    """The fields of a section of INFO."""
    lines = node.ask(b"INFO", section).split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def coding(node: Node) -> dict[str, int]:
    """INFO coding."""
    return {name: int(value) for name, value in info(node, b"coding").items()}


@contextmanager
def both(options: argparse.Namespace, groups: int | None = None) -> Iterator[dict[str, OurCluster]]:
    """Both clusters, with as many workers and groups."""
    with ExitStack() as stack:
        found = {}
        for way, more in ((REPLICATED, ""), (CODED, CODING_ON)):
            found[way] = stack.enter_context(OurCluster(options.ours + more, groups or options.groups, options.workers))
        yield found


def in_turn(ways: dict[str, Any], number: int) -> list[tuple[str, Any]]:
    """Who is measured first changes from round to round."""
    turn = list(ways.items())
    return turn if number % 2 else turn[::-1]


def ports(cluster: OurCluster) -> list[int]:
    """Where clients of any node connect."""
    return [node.port for node in cluster.nodes]


@dataclass(frozen=True)
class Settled:
    """When a cluster was seen to change for the last time: the seconds until then, and the CPU time of its nodes by then."""

    seconds: float
    cpu: list[CpuTime]


def settle(cluster: OurCluster) -> Settled:
    """Waits until nothing lags, and all that is to be in fragments is.

    How many values are in fragments INFO says as of the last walk through the keys, before that walk replaced any. So it is waited until
    nothing is replaced any more, and memory stays what it is. A cluster without codes is settled at once.
    """
    began = time.monotonic()
    before: list[tuple[int, int]] = []
    looks = 0
    settled = Settled(0.0, cpu(cluster.nodes))
    while True:
        found = [coding(node) for node in cluster.nodes]
        if not any(one["coding_groups"] for one in found):
            return settled
        lacking = _lacking(found)
        now = [(one["coding_demoted"], int(info(node, b"memory")["used_memory_dataset"])) for node, one in zip(cluster.nodes, found)]
        looks = looks + 1 if lacking is None and now == before else 0
        if looks == LOOKS:
            return settled
        if looks == 0 and before:
            # To see that nothing changes any more takes its time, too.
            settled = Settled(time.monotonic() - began, cpu(cluster.nodes))
        before = now
        if time.monotonic() - began > SETTLED_SECONDS_MAX:
            raise SetupError(f"not settled within {SETTLED_SECONDS_MAX:.0f} s: {lacking or f'values still go: {now}'}")
        time.sleep(LOOK_SECONDS)


def _lacking(found: list[dict[str, int]]) -> str | None:
    for number, one in enumerate(found, 1):
        for name in ("coding_groups_filling", "coding_groups_cutting", "coding_groups_stalled", "coding_gathering", "coding_to_refill"):
            if one[name]:
                return f"{name} of node {number} is {one[name]}"
        if one["coding_lag"] > SETTLED_LAG:
            return f"coding_lag of node {number} is {one['coding_lag']}"
    return None


def cpu(processes: Sequence[Process]) -> list[CpuTime]:
    """CPU time of each process by now."""
    return [process.cpu_time() for process in processes]


def spent(before: Sequence[CpuTime], after: Sequence[CpuTime]) -> float:
    """Microseconds of CPU between two readings."""
    return sum(now.since(then).best_ns for then, now in zip(before, after)) / 1_000


def memory(processes: Sequence[Node]) -> dict[str, int]:
    """Bytes of all nodes together: data, as INFO has them; used, with logs and all else; and resident."""
    pages = [info(node, b"memory") for node in processes]
    return {
        "data": sum(int(page["used_memory_dataset"]) for page in pages),
        "used": sum(int(page["used_memory"]) for page in pages),
        "resident": sum(node.resident_bytes() for node in processes),
    }


def ratio(runs: list[dict[str, Any]], field: str, **which: object) -> list[float]:
    """By round, a figure of the coded cluster by that of the replicated one."""
    mine = [run for run in runs if all(run[name] == value for name, value in which.items())]
    by_round = {(run["round"], run["way"]): run[field] for run in mine}
    rounds = sorted({number for number, _ in by_round})
    pairs = [(by_round.get((number, CODED)), by_round.get((number, REPLICATED))) for number in rounds]
    return [coded / replicated for coded, replicated in pairs if coded is not None and replicated]


def verdict(value: float, target: float, at_most: bool) -> str:
    """A target, and whether it is met."""
    is_met = value <= target if at_most else value >= target
    return f"at {'most' if at_most else 'least'} {target:g}: {'met' if is_met else '**missed**'}"
