"""What values take on all nodes together: coded, replicated, and on a Redis with one replica."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import record
import server
from chart import Line, Panel
from coded.clusters import CODED, REPLICATED, both, memory, settle, verdict
from nodes import wait_until
from server import Launch, Process, Server, SetupError
from wire import Connection

NAME = "memory"
TITLE = "Memory"
REDIS = "redis, one replica"
SIZES = [256, 1024, 4096, 65_536]
# The most that a coded cluster may take of what a replicated one takes.
TARGETS = {256: 0.58, 1024: 0.60, 4096: 0.54, 65_536: 0.52}
# Rounds have different numbers of keys: the memory of tables goes in steps, and one number would flatter or punish.
FACTORS = [1.0, 1.3, 1.7]
BATCH_BYTES = 256 * 1024
KEY_BYTES = 16
FIGURES = ("data", "used", "resident")


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return len(options.sizes) * _rounds(options)


def _rounds(options: argparse.Namespace) -> int:
    return min(len(FACTORS), options.rounds)


class RedisPair:
    """A primary, and a replica that has all of it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.nodes = [self._stack.enter_context(Server(Launch("redis", server.REDIS))) for _ in range(2)]
        primary, replica = self.nodes
        with Connection(replica.port) as connection:
            connection.command(b"REPLICAOF", b"127.0.0.1", str(primary.port).encode())
        self.wait()

    def __enter__(self) -> RedisPair:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait(self) -> None:
        """Until the replica has what the primary has."""

        def has_all() -> bool:
            pages = []
            for node in self.nodes:
                with Connection(node.port) as connection:
                    pages.append(fields(connection.command(b"INFO", b"replication")))
            primary, replica = pages
            return replica["master_link_status"] == "up" and replica["slave_repl_offset"] == primary["master_repl_offset"]

        wait_until(has_all, 120.0, "the replica of redis has what its primary has")

    def memory(self) -> dict[str, int]:
        """Bytes of both together."""
        pages = []
        for node in self.nodes:
            with Connection(node.port) as connection:
                pages.append(fields(connection.command(b"INFO", b"memory")))
        data, used = (sum(int(page[name]) for page in pages) for name in ("used_memory_dataset", "used_memory"))
        return {"data": data, "used": used, "resident": sum(node.resident_bytes() for node in self.nodes)}


def fields(page: bytes) -> dict[str, str]:
    """The fields of a section of INFO."""
    return dict(line.split(":", 1) for line in page.decode().split("\r\n") if ":" in line)


def batches(keys: int, size: int) -> Iterator[tuple[bytes, int]]:
    """SET commands with values that are all different, and that nothing could make shorter."""
    draw = random.Random(size)
    each = max(1, BATCH_BYTES // (size + 40))
    head = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n"
    for start in range(0, keys, each):
        count = min(each, keys - start)
        yield b"".join(head % (number, size, draw.randbytes(size)) for number in range(start, start + count)), count


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """Fresh servers for each size and round, all of them at once; each gets the same bytes."""
    runs: list[dict[str, Any]] = []
    for size in options.sizes:
        for number, factor in enumerate(FACTORS[: _rounds(options)], 1):
            keys = max(100, int(options.megabytes * 1e6 * factor / size))
            progress.step(f"memory, {size:,} B, {keys:,} keys, round {number} of {_rounds(options)}")
            runs += _measure(options, size, keys, number, progress)
    return {"runs": runs, "megabytes": options.megabytes, "pause_s": options.pause}


def _measure(options: argparse.Namespace, size: int, keys: int, number: int, progress: record.Progress) -> list[dict[str, Any]]:
    with both(options) as clusters, RedisPair() as pair:
        reading = {way: (lambda cluster=cluster: memory(cluster.nodes)) for way, cluster in clusters.items()} | {REDIS: pair.memory}
        processes: dict[str, Sequence[Process]] = {way: cluster.nodes for way, cluster in clusters.items()} | {REDIS: pair.nodes}
        empty = {way: read() for way, read in reading.items()}
        for way, members in processes.items():
            with Connection(members[0].port) as connection:
                what = f"{way}, {size:,} B"
                connection.pour(batches(keys, size), lambda done: progress.say(f"{what}: {done:,} of {keys:,} keys"))
                if int(connection.command(b"DBSIZE")) != keys:
                    raise SetupError(f"{way} does not hold the {keys:,} keys that were set")
        pair.wait()
        took = settle(clusters[CODED]).seconds
        # Allocators hand pages back some time after they are free.
        time.sleep(options.pause)
        found = []
        for way, read in reading.items():
            full = read()
            run: dict[str, Any] = {"way": way, "round": number, "size": size, "keys": keys}
            run |= {name: full[name] - empty[way][name] for name in FIGURES}
            run["settled_s"] = took if way == CODED else 0.0
            found.append(run)
        return found


def ratios(found: dict[str, Any], size: int, figure: str, base: str) -> list[float]:
    """What coded values take by what they take elsewhere, of each round."""
    mine = {(run["round"], run["way"]): run[figure] for run in found["runs"] if run["size"] == size}
    numbers = sorted({number for number, _ in mine})
    return [mine[number, CODED] / mine[number, base] for number in numbers if mine[number, base] > 0]


def report(found: dict[str, Any]) -> str:
    """The section of the page."""
    text = (
        f"About {found['megabytes']:g} MB of values, different numbers of keys in each round, keys of {KEY_BYTES} bytes, random values. Bytes are those "
        f"of all nodes, less those of the empty ones, by values and keys: *data* is `used_memory_dataset`, *used* `used_memory`, which has the end of "
        f"the logs in it, *resident* what the system has given, {found['pause_s']:g} s after all was settled. Redis is a primary with a replica.\n\n"
    )
    sizes = list(dict.fromkeys(run["size"] for run in found["runs"]))
    rows = []
    for size in sizes:
        for figure in FIGURES:
            row = [f"{size:,} B, {figure}"]
            for way in (REPLICATED, CODED, REDIS):
                mine = [run for run in found["runs"] if run["size"] == size and run["way"] == way]
                row.append(record.shown(record.spread([run[figure] / run["keys"] / (size + KEY_BYTES) for run in mine])))
            coded = record.spread(ratios(found, size, figure, REPLICATED))
            row.append(record.shown(coded, ".3f"))
            row.append(verdict(coded["median"], TARGETS[size], at_most=True) if size in TARGETS else "-")
            rows.append([*row, record.shown(record.spread(ratios(found, size, figure, REDIS)), ".2f")])
    headings = ["", "replicated, x the payload", "coded", "redis with a replica", "coded : replicated", "target", "coded : redis"]
    text += record.table(headings, rows)
    settled = [run["settled_s"] for run in found["runs"] if run["way"] == CODED]
    return text + f"\n\nAll was settled {record.shown(record.spread(settled), '.1f')} s after the last write.\n"


def panel(found: dict[str, Any]) -> Panel:
    """Ratios by size."""
    sizes = list(dict.fromkeys(run["size"] for run in found["runs"]))
    lines = []
    for name, figure, base in (("data, by replicated", "data", REPLICATED), ("resident, by replicated", "resident", REPLICATED)):
        points = [(float(size), record.spread(ratios(found, size, figure, base))["median"]) for size in sizes]
        lines.append(Line(name, points))
    targets = [(float(size), TARGETS[size]) for size in sizes if size in TARGETS]
    if targets:
        lines.append(Line("target", targets, is_dashed=True))
    return Panel("Memory of a coded cluster", "bytes of a value", "ratio", lines)
