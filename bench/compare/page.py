"""docs/performance.md: the parts between marks are written from a record, and the pictures with them.

A part is what stands between `<!-- compare: begin NAME -->` and `<!-- compare: end -->`. Everything else is written by hand.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import profiles
import record
import scaling
from cells import CELLS
from peers import ANY, ANY_STRICT, CLUSTER_WAIT, ONE, REDIS, REDIS_ALWAYS, SLOTS
from results import Results
from server import ROOT, SetupError

PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
RECORDS = ROOT / "bench" / "records"
MARKS = re.compile(r"<!-- compare: begin ([a-z-]+) -->\n.*?<!-- compare: end -->", re.DOTALL)
IMVU = "https://engineering.imvu.com/2012/02/09/distributed-redis-transactions/"


def write(data: dict[str, Any], source: Path) -> None:
    """Writes the page and its pictures from a record."""
    results = Results.of(data)
    text = PAGE.read_text()
    parts = _parts(data, results, source)
    names = MARKS.findall(text)
    unknown, missing = set(names) - set(parts), set(parts) - set(names)
    if unknown or missing:
        raise SetupError(f"{PAGE}: parts {sorted(unknown)} are unknown, parts {sorted(missing)} are missing")
    PICTURES.mkdir(exist_ok=True)
    for name, picture in _pictures(data, results).items():
        (PICTURES / name).write_text(picture)
    filled = MARKS.sub(lambda found: f"<!-- compare: begin {found[1]} -->\n\n{parts[found[1]].strip()}\n\n<!-- compare: end -->", text)
    PAGE.write_text(filled)
    print(f"written: {PAGE.relative_to(ROOT)} and its pictures", file=sys.stderr)


def _pictures(data: dict[str, Any], results: Results) -> dict[str, str]:
    machine = data["facts"]["machine"]
    below = (
        f"{machine['cpu']}, {machine['cores']} cores shared by servers and clients; {data['facts']['started'][:10]}; "
        f"median of {data['rounds']} rounds, line: smallest to largest"
    )
    cells = [cell.name for cell in CELLS]
    found = {
        "compare-throughput.svg": results.picture("Requests a second: to the right is more", below, "requests/s, logarithmic", lambda run: run.requests_per_s, cells),
        "compare-cpu.svg": results.picture("CPU of all servers for a request: to the left is less", below, "µs, logarithmic", lambda run: run.cpu_us, cells),
        "compare-latency.svg": results.picture("99 of 100 requests were answered within: to the left is sooner", below, "ms, logarithmic", lambda run: run.p99_ms, cells),
    }
    if data["scaling"]:
        found["scaling.svg"] = scaling.picture(data["scaling"])
    return found


def _parts(data: dict[str, Any], results: Results, source: Path) -> dict[str, str]:
    return {
        "machine": _machine(data, results, source),
        "throughput": results.pivot(lambda run: run.requests_per_s, ",.0f"),
        "ratios": results.ratios(REDIS, lambda run: run.requests_per_s) + "\n\n" + results.ratios(CLUSTER_WAIT, lambda run: run.requests_per_s),
        "cpu": results.pivot(lambda run: run.cpu_us, ",.2f"),
        "latency": "Median, in milliseconds:\n\n" + results.pivot(lambda run: run.p50_ms, ".3f")
        + "\n\n99 of 100, in milliseconds:\n\n" + results.pivot(lambda run: run.p99_ms, ".2f"),
        "aborted": _aborted(results),
        "memory": record.table(["", "resident MB"], [[way, f"{megabytes:.0f}"] for way, megabytes in data["resident_mb"].items()]),
        "limits": results.limits(),
        "profiles": profiles.table(data["profiles"]) if data.get("profiles") else "No profiles were taken: `perf` was not there.",
        "scaling": scaling.report(data["scaling"]) if data["scaling"] else "Not measured in this record.",
        "published": _published(data, results),
    }


def _machine(data: dict[str, Any], results: Results, source: Path) -> str:
    facts = data["facts"]
    machine = facts["machine"]
    versions = "; ".join(dict.fromkeys(facts["versions"].values()))
    idle = sum(data["idle_cores"].values())
    bound = [f"{cell} of {way}" for cell in results.cells for way in results.ways if any(run.is_limit for run in results.of_cell(cell, way))]
    lines = [
        f"- {facts['started'][:16].replace('T', ' ')} UTC, commit {facts['commit']}, by `{facts['command']}`",
        f"- {machine['cpu']}, {machine['cores']} cores, {machine['memory']} of memory, {machine['kernel']}; servers write to {data['scratch']}, where one sync took {data['sync_ms']:.2f} ms before the rounds",
        f"- load of the machine when it began: {machine['load_at_start']}",
        f"- {versions}",
        f"- {data['rounds']} rounds, {data['seconds']:g} s a run; idle servers took {idle:.1%} of a core together",
        f"- cells with a star, where the generator was the limit: {', '.join(bound) or 'none'}",
        f"- every figure with its spread: [{source.with_suffix('.md').name}](../bench/records/{source.with_suffix('.md').name})",
    ]
    if data["is_cut_short"]:
        lines.append("- **it was stopped before its end**")
    lines += [f"- not measured: {problem}" for problem in data["problems"]]
    return "\n".join(lines)


def _aborted(results: Results) -> str:
    """Of how many transactions another client had changed the key."""
    rows = []
    for cell in [cell for cell in results.cells if cell.startswith(("nkeys/", "trans/"))]:
        entries = []
        for way in results.ways:
            runs = results.of_cell(cell, way)
            done, aborted = sum(run.requests for run in runs), sum(run.errors_by_kind.get("EXEC aborted", 0) for run in runs)
            entries.append(f"{aborted / max(1, done + aborted):.1%}" if runs else "-")
        rows.append([cell, *entries])
    return record.table(["aborted", *results.ways], rows)


def _figure(results: Results, cell: str, way: str, value: Any, form: str = ",.0f") -> str:
    found = results.spread(cell, way, value)
    return "not measured" if found is None else format(found["median"], form)


def _failover() -> str:
    """The newest record of failovers."""
    sources = sorted(RECORDS.glob("failover-*.json"))
    if not sources:
        return "not measured"
    told = []
    runs = json.loads(sources[-1].read_text())["runs"]
    for row in dict.fromkeys(run["row"] for run in runs):
        seconds = [run["seconds"] for run in runs if run["row"] == row]
        told.append(f"{row}: {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s, of {len(seconds)}")
    name = sources[-1].with_suffix(".md").name
    return "; ".join(told) + f" ([record](../bench/records/{name}))"


def _published(data: dict[str, Any], results: Results) -> str:
    rate = lambda run: run.requests_per_s  # noqa: E731
    cores = data["facts"]["machine"]["cores"]

    def beside(cell: str) -> str:
        found = results.ratio(cell, ANY, REDIS, rate)
        times = "" if found is None else f", {1 / found['median']:.1f} times as many"
        return f"{_figure(results, cell, ANY, rate)}/s; plain Redis {_figure(results, cell, REDIS, rate)}/s{times}"

    def per_core(cell: str, way: str) -> str:
        runs = results.of_cell(cell, way)
        found = statistics.median(run.requests / max(run.cpu_us * run.requests / 1e6, 1e-9) for run in runs) if runs else None
        return "" if found is None else f" ({found:,.0f} for each second of a core that the servers used)"

    def worst(cell: str, way: str) -> str:
        return f"p99 {_figure(results, cell, way, lambda run: run.p99_ms, ',.0f')} ms, longest {_figure(results, cell, way, lambda run: run.max_ms, ',.0f')} ms"

    def seconds(cell: str, way: str) -> str:
        return _figure(results, cell, way, lambda run: run.average_ms / 1e3, ".5f") + " s"

    strict = _figure(results, "trans/c50", ANY_STRICT, rate)
    durable = f"{strict} `trans`/s" if ANY_STRICT in results.ways else f"{strict} in this record"
    rows = [
        [
            "Consistent-hashing layer over Redis, one client: 496 gets/s and 372 sets/s; plain Redis 18,518 and 18,348 (37 and 49 times as many)",
            f"Three nodes, three replicas, through any node, one client. GET: {beside('get/c1/p1')}. SET: {beside('set/c1/p1')}",
            "Theirs is a layer before Redis servers. Ours forwards two thirds of the requests to another node, and has a write on two of three nodes "
            "before it answers. Other machines: compare the ratios to plain Redis, not the rates",
        ],
        [
            f"[dtm-redis]({IMVU}), distributed Redis transactions: 293,377 requests/s on four hosts of 12 cores (6,112 a core)",
            f"Three nodes through any node, GET and SET, 50 clients: {_figure(results, 'get_set/c50/p1', ANY, rate)}/s{per_core('get_set/c50/p1', ANY)}; "
            f"pipeline of 16: {_figure(results, 'get_set/c50/p16', ANY, rate)}/s{per_core('get_set/c50/p16', ANY)}. "
            f"`trans`, each of five commands: {_figure(results, 'trans/c50', ANY, rate)}/s",
            f"Theirs is the total of 48 cores. Ours is three replicas of everything, on {cores} cores of today that the clients share",
        ],
        [
            "dtm-redis: 1,925 durable transactions/s on four spinning disks",
            f"Three nodes in `strict`, through any node: {durable}. Redis with its log synced always: {_figure(results, 'trans/c50', REDIS_ALWAYS, rate)} `trans`/s on this disk",
            "Theirs were on spinning disks, one for each of four hosts; all of ours share this one",
        ],
        [
            "Raft groups with two-phase commit: failover below one second",
            _failover(),
            "Ours: from the fault until a key of every group has taken a write that was sent after it. Redis Cluster beside it, by the same clients, in few runs. An earlier record than the rest of this page",
        ],
        [
            "Raft groups with two-phase commit: tails of 5 s at 150 clients in transactions over shards",
            f"`XFER` between two accounts in any two groups, 150 clients through three nodes: {_figure(results, 'xfer/c150', ANY, rate)}/s, {worst('xfer/c150', ANY)}. No client sees an error of a conflict",
            "Ours commits in one round of consensus, and what conflicts waits in order. Here nodes and clients share one machine, without a network between",
        ],
        [
            "Erasure-coded cache, unique SETs: 0.0145 to 0.0192 s a request",
            f"`c-unique`, 50 clients: {seconds('c-unique/c50', ANY)} through any node, {seconds('c-unique/c50', SLOTS)} through the cluster endpoint, {seconds('c-unique/c50', ONE)} on one node; plain Redis {seconds('c-unique/c50', REDIS)}",
            "Ours are whole copies on three nodes: erasure coding is not built. Values are of 100 bytes here; a request's time is that of a closed loop of 50 clients",
        ],
    ]
    return record.words_table(["published", "here", "what differs"], rows)
