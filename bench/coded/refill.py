"""What clients wait for while another replica takes the place of a lost one."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import time
from typing import Any

import load
import record
from chart import Line, Panel
from coded.clusters import CODED, CODING_ON, REPLICATED, coding, settle, verdict
from nodes import Node, OurCluster, wait_until
from server import SetupError, free_port

NAME = "refill"
TITLE = "While a lost node is replaced"
SIZE = 1024
CLIENTS_EACH = 10
# Another node joins and is given what the lost one had; or the lost one comes back with nothing, and takes its own place.
# Its peer address is as good as a name.
ANOTHER, BY_ADDRESS = "another node", "the same, with nothing"
KINDS = (ANOTHER, BY_ADDRESS)
TARGET = 3.0
ROUNDS_MAX = 3
# After the kill: until others lead what the lost one led, and a little more. What is lost in these seconds is no part of this.
AWAY_SECONDS = 4.0
# Of the load, before the newcomer starts and after it is filled.
MARGIN_SECONDS = 2.0
FILLED_SECONDS_MAX = 120.0


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return _rounds(options) * len(KINDS) * 2


def _rounds(options: argparse.Namespace) -> int:
    return min(ROUNDS_MAX, options.rounds)


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """Fresh clusters for each loss, coded and replicated in turns."""
    runs: list[dict[str, Any]] = []
    for number in range(1, _rounds(options) + 1):
        for kind in KINDS:
            turn = [(REPLICATED, ""), (CODED, CODING_ON)]
            for way, more in turn if number % 2 else turn[::-1]:
                progress.step(f"refill, {kind}, {way}, round {number} of {_rounds(options)}")
                runs.append({"way": way, "round": number, "kind": kind} | _measure(options, more, kind))
    return {"runs": runs, "keys": options.keys, "rate": options.rate, "seconds": options.seconds}


def _measure(options: argparse.Namespace, more: str, kind: str) -> dict[str, Any]:
    with OurCluster(options.ours + more, options.groups, options.workers) as cluster:
        staying, lost = cluster.nodes[:2], cluster.nodes[2]
        keys = ["--keys", str(options.keys), "--size", str(SIZE)]
        load.fill([node.port for node in cluster.nodes], keys)
        settle(cluster)
        ports = [node.port for node in staying]
        asked = [*keys, "--no-load", "--rate", str(options.rate), "--clients", str(CLIENTS_EACH)]
        steady = load.ask(ports, options.seconds, asked)
        settle(cluster)
        lost.kill()
        lost.reap()
        time.sleep(AWAY_SECONDS)
        with load.Beside(ports, [*asked, "--seconds", f"{options.refill_seconds:g}"]) as beside:
            began = time.monotonic()
            time.sleep(MARGIN_SECONDS)
            started = time.monotonic() - began
            newcomer = _replace(options, more, cluster, lost, kind)
            wait_until(lambda: _is_filled(cluster, newcomer, options.groups), FILLED_SECONDS_MAX, "the newcomer has its fragments")
            filled = time.monotonic() - began
            found = beside.report(options.refill_seconds)
        if filled + 1 > options.refill_seconds:
            raise SetupError(f"it took {filled - started:.0f} s until the newcomer had everything: give the load longer (--refill-seconds)")
        refilled = coding(newcomer)["coding_refilled"]
        settled = settle(cluster).seconds
    seconds = [second for second in found["timeline"] if started - 1 < second["second"] < filled]
    return {
        "steady_p99_ms": steady["latency"]["p99_ms"],
        "steady_worst_p99_ms": max(second["p99_ms"] for second in steady["timeline"]),
        "steady_longest_ms": steady["latency"]["max_ms"],
        "refill_p99_ms": statistics.median(second["p99_ms"] for second in seconds),
        "refill_worst_p99_ms": max(second["p99_ms"] for second in seconds),
        "refill_longest_ms": max(second["max_ms"] for second in seconds),
        "refill_s": filled - started,
        "refilled": refilled,
        "settled_s": settled,
        "requests": steady["requests"] + found["requests"],
        "failed": steady["errors"] + found["errors"],
        "failed_by_kind": {name: steady["errors_by_kind"].get(name, 0) + number for name, number in found["errors_by_kind"].items()},
        "misses": steady["misses"] + found["misses"],
        "not_started": steady["not_started"] + found["not_started"],
        "started_at": started,
        "filled_at": filled,
        "timeline": [{name: second[name] for name in ("second", "requests", "errors", "p50_ms", "p99_ms", "max_ms")} for second in found["timeline"]],
    }


def _replace(options: argparse.Namespace, more: str, cluster: OurCluster, lost: Node, kind: str) -> Node:
    """Starts who takes the place of the lost node."""
    if kind == BY_ADDRESS:
        shutil.rmtree(lost.folder / "chorale-data")
        lost.start()
        return lost
    line = options.ours + more
    ports = {name: free_port() for name in ("port", "cluster_port", "peer_port", "admin_port")}
    argv = line.format(groups=options.groups, workers=options.workers, **ports).split()
    argv[0], join = lost.argv[0], lost.argv[lost.argv.index("--join") + 1]
    newcomer = Node("node 4", [*argv, "--join", join], cluster.folder / "node4", ports["port"], ports["admin_port"])
    cluster.nodes[2] = newcomer
    first = cluster.nodes[0]
    mine = _number(cluster, newcomer)
    view = cluster.view()
    gone = next(str(node["id"]) for node in view["nodes"] if not node["is_up"])
    asked = [lost.argv[0], "admin", "replace", gone, "--with", mine, "--confirm", "--admin", str(first.admin_port)]

    def is_taken() -> bool:
        # Refused until others lead all that the lost one led.
        return subprocess.run(asked, capture_output=True, timeout=30, check=False).returncode == 0

    wait_until(is_taken, 30.0, f"the cluster takes {' '.join(asked[1:])}")
    return newcomer


def _number(cluster: OurCluster, node: Node) -> str:
    """A node's number, once the first one knows it."""
    found: list[str] = []

    def is_known() -> bool:
        number = str(_view(cluster, node)["answered_by"])
        found[:] = [number]
        return any(str(other["id"]) == number and other["is_up"] for other in cluster.view()["nodes"])

    wait_until(is_known, 30.0, f"{node.name} is a member")
    return found[0]


def _view(cluster: OurCluster, node: Node) -> dict[str, Any]:
    return dict(json.loads(cluster.page(node, "/cluster")))


def _is_filled(cluster: OurCluster, newcomer: Node, groups: int) -> bool:
    """All groups have three voters that are up, and, with codes, each its fragments."""
    for node in (cluster.nodes[0], newcomer):
        view = _view(cluster, node)
        up = {one["id"] for one in view["nodes"] if one["is_up"]}
        for group in view["groups"]:
            voters = [one for one in group["replicas"] if one["role"] == "voter"]
            if len(voters) != 3 or len(group["replicas"]) != 3 or not all(one["node"] in up for one in voters):
                return False
    found = [coding(node) for node in cluster.nodes]
    if not any(one["coding_groups"] for one in found[:2]):
        return True
    return all(one["coding_groups"] == groups and one["coding_groups_filling"] == 0 for one in found)


def report(found: dict[str, Any]) -> str:
    """The section of the page."""
    text = (
        f"{found['keys']:,} values of {SIZE:,} bytes, {found['rate']:,} requests a second at fixed times through the two nodes that stay, half `GET` and half "
        f"`SET`. Steady: {found['seconds']:g} s with all three nodes. Then a node is killed, and {AWAY_SECONDS + MARGIN_SECONDS:g} s later either *another node* joins and is "
        "given its place (`chorale admin replace`), or *the same* comes back with an empty directory. Filled: all groups have three voters again, and none lacks a "
        "fragment. p99 is that of each second: the middle one and the worst one; *ratio* is the worst while filled by the worst of steady state, of each "
        "round. *Failed*: requests, of all but the first seconds after the kill.\n\n"
    )
    rows = []
    for kind in KINDS:
        for way in (REPLICATED, CODED):
            mine = [run for run in found["runs"] if run["kind"] == kind and run["way"] == way]
            if not mine:
                continue

            def cell(field: str, form: str = ".2f", mine: list[dict[str, Any]] = mine) -> str:
                return record.shown(record.spread([run[field] for run in mine]), form)

            ratio = record.spread([run["refill_worst_p99_ms"] / run["steady_worst_p99_ms"] for run in mine])
            failed = sum(run["failed"] + run["misses"] for run in mine)
            row = [f"{kind}, {way}", cell("steady_p99_ms"), cell("steady_worst_p99_ms"), cell("refill_p99_ms"), cell("refill_worst_p99_ms"), cell("refill_longest_ms", ".0f")]
            row += [record.shown(ratio, ".1f"), verdict(ratio["median"], TARGET, at_most=True)]
            row += [f"{failed:,} of {sum(run['requests'] for run in mine):,}", verdict(failed, 0, at_most=True)]
            rows.append([*row, cell("refill_s", ".1f"), cell("refilled", ",.0f"), cell("settled_s", ".1f")])
    headings = ["", "steady p99 ms", "worst second", "filled p99 ms", "worst second", "longest ms", "ratio", "target", "failed", "target", "filled in s"]
    text += record.table([*headings, "fragments made", "settled after s"], rows) + "\n"
    kinds: dict[str, int] = {}
    for run in found["runs"]:
        for name, number in run["failed_by_kind"].items():
            kinds[name] = kinds.get(name, 0) + number
    return text + (f"\nWhat failed, by kind: {kinds}.\n" if kinds else "")


def panel(found: dict[str, Any]) -> Panel:
    """The p99 of each second, of the first round of each."""
    lines = []
    for kind in KINDS:
        for way in (REPLICATED, CODED):
            mine = [run for run in found["runs"] if run["kind"] == kind and run["way"] == way]
            if mine:
                lines.append(Line(f"{kind}, {way}", [(second["second"] - mine[0]["started_at"] + MARGIN_SECONDS, second["p99_ms"]) for second in mine[0]["timeline"]]))
    return Panel("p99 while a node is replaced, which starts at 2 s", "seconds", "ms", lines, is_even=True)
