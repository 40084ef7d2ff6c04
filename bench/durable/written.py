"""Bytes that are written to the disk for each byte that clients set, in the log and in all."""

from __future__ import annotations

import argparse
import time
from typing import Any

import load
import record
from durable import turns, writers
from durable.hosts import REDIS_LOG, Host, figure, in_words, info, ours, redis, until_quiet
from durable.own_disk import OwnDisk
from wire import encode

NAME = "written"
TITLE = "Bytes written"
LOG_AIM = 1.5
ALL_AIM = 3.0
# Bytes of a value, and how many keys there are.
SIZES = {100: 500_000, 1024: 100_000}
PIPELINES = (1, 16)
CLIENTS = 50
SCRIPT, TOOL = "random bytes", "`chorale bench`"
# Of the tool: `bench:` and twelve digits.
TOOL_KEY_BYTES = 18
# What was written last is synced by then.
SETTLE_SECONDS = 3.0


def _sides(options: argparse.Namespace) -> list[tuple[str, int]]:
    return [("relaxed", workers) for workers in options.workers] + [("strict", options.workers[0]), ("redis", 1)]


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    sides = _sides(options)
    return len(SIZES) * (len(sides) * (1 + len(PIPELINES)) + (len(sides) - 1) * len(PIPELINES))


def _reading(host: Host, disk: OwnDisk, is_ours: bool) -> dict[str, float]:
    found: dict[str, float] = {"all": disk.written()}
    if is_ours:
        found["log"] = figure(host, "chorale_log_written_bytes_total")
        found["snapshots"] = figure(host, "chorale_snapshots_total")
        found["batches"] = figure(host, "chorale_log_batches_total")
    else:
        found["snapshots"] = int(info(host.port, "persistence")["aof_rewrites"])
    return found


def _cell(
    options: argparse.Namespace, host: Host, disk: OwnDisk, side: str, by: str, size: int, keys: int, pipeline: int
) -> dict[str, Any]:
    is_ours = side != "redis"
    each = size + (writers.KEY_BYTES if by == SCRIPT else TOOL_KEY_BYTES)
    # With one request on its way a client of this script is slow, and what it brings is the same after less.
    megabytes = options.megabytes if pipeline > 1 else options.megabytes / 2
    if side == "strict":
        # It waits for the disk, and nothing is aimed at.
        megabytes /= 4
    writes = int(megabytes * 1e6) // each
    shape = [*load.SET, "--keys", str(keys), "--size", str(size)]
    if by == TOOL:
        load.fill([host.port], shape)
        until_quiet(host.port)
    before, began = _reading(host, disk, is_ours), time.monotonic()
    if by == TOOL:
        load.ask_requests([host.port], writes, [*shape, "--clients", str(CLIENTS), "--pipeline", str(pipeline)])
    else:
        writers.write(host.port, keys, size, writes, CLIENTS, pipeline, seed=pipeline)
    seconds = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    after = _reading(host, disk, is_ours)
    # Redis logs a command as it came.
    command = encode(b"SET", bytes(writers.KEY_BYTES), bytes(size))
    return {
        "log": writes * len(command),
        "by": by,
        "size": size,
        "pipeline": pipeline,
        "keys": keys,
        "writes": writes,
        "writes_per_s": round(writes / seconds),
        "payload": writes * each,
        **{what: after[what] - before[what] for what in after},
    }


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All cells of all servers."""
    found: dict[str, Any] = {"cells": []}
    for side, workers in _sides(options):
        name = "redis `everysec`" if side == "redis" else f"`{side}`, {in_words(workers)}"
        for size, keys in SIZES.items():
            keys = 2_000 if options.quick else keys
            with OwnDisk() as disk, _start(options, side, workers, disk) as host:
                found["is_own_disk"] = disk.is_own
                progress.step(f"{name}: making {keys:,} keys of {size} bytes")
                writers.write(host.port, keys, size, keys, CLIENTS, 16, seed=0)
                until_quiet(host.port)
                for by in (SCRIPT,) if side == "redis" else (SCRIPT, TOOL):
                    for pipeline in PIPELINES:
                        progress.step(f"{name}: setting values of {size} bytes at pipeline {pipeline}, {by}")
                        found["cells"].append({"side": name, **_cell(options, host, disk, side, by, size, keys, pipeline)})
    return found


def _start(options: argparse.Namespace, side: str, workers: int, disk: OwnDisk) -> Host:
    if side == "redis":
        return redis(REDIS_LOG, place=disk.folder)
    return ours(options.ours, workers, side, disk.folder)


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    headings = ["`SET` by 50 clients", "payload, MB", "log / payload", "aim", "`SET` a batch", "all / payload", "aim", "snapshots, rewrites", "`SET`/s"]
    rows = []
    whose = "nobody else uses it" if found["is_own_disk"] else "**others use it, too, since this was not run as root**"
    for cell in found["cells"]:
        log, whole = cell["log"] / cell["payload"], cell["all"] / cell["payload"]
        is_judged = cell["side"].startswith("`relaxed`")
        # What the tool sets is made small by snapshots, so it says something of the log alone.
        is_whole = cell["by"] == SCRIPT
        rows.append(
            [
                f"{cell['side']}: {cell['size']} bytes, p{cell['pipeline']}, {cell['by']}",
                f"{cell['payload'] / 1e6:.0f}",
                f"{log:.2f}",
                turns.aim(log, LOG_AIM, is_most=True) if is_judged else "",
                f"{cell['writes'] / cell['batches']:.1f}" if cell.get("batches") else "",
                f"{whole:.2f}" if is_whole else "",
                turns.aim(whole, ALL_AIM, is_most=True) if is_judged and is_whole else "",
                f"{cell['snapshots']:.0f}",
                f"{cell['writes_per_s']:,}",
            ]
        )
    return (
        "Payload is keys and values. *Random bytes* do not compress, and are set by clients of a Python program, which is slow: few of its `SET` "
        "share a batch of the log, and its `SET`/s say nothing of servers. `chorale bench` sets pieces of one text as fast as it can; it is asked for the "
        "log alone. Keys are drawn evenly, of "
        + ", ".join(dict.fromkeys(f"{cell['keys']:,} with {cell['size']} bytes" for cell in found["cells"]))
        + ", and all are there before. *All* is what the device of the file system was given, zeros for new files of the log, snapshots, and what the "
        f"file system itself writes included; {whose}. *Log* is what our node counts as written to its log; of redis, the commands.\n\n"
        + record.words_table(headings, rows)
        + "\n"
    )
