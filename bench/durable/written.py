"""Bytes that are written to the disk for each byte that clients set, in the log and in all."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import load
import record
from durable import turns, writers
from durable.hosts import REDIS_LOG, Host, figure, in_words, info, ours, redis, until_quiet

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


def _written(path: Path) -> int:
    """Bytes that were to go to the disk, less those of files that were removed before."""
    fields = dict(line.split(": ") for line in path.read_text().splitlines())
    return int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])


def _by_thread(host: Host) -> Counter[str]:
    """The same of the threads that live now, by their names. The kernel counts children that have ended in the whole alone."""
    found: Counter[str] = Counter()
    for task in Path(f"/proc/{host.pid}/task").iterdir():
        try:
            found[(task / "comm").read_text().strip()] += _written(task / "io")
        except OSError:
            continue
    return found


def _reading(host: Host, is_ours: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"all": _written(Path(f"/proc/{host.pid}/io")), "threads": _by_thread(host)}
    if is_ours:
        found["log"] = figure(host, "chorale_log_written_bytes_total")
        found["snapshots"] = figure(host, "chorale_snapshots_total")
        found["batches"] = figure(host, "chorale_log_batches_total")
    else:
        # Its own threads write the log, a child writes it anew.
        found["log"] = sum(found["threads"].values())
        found["snapshots"] = int(info(host.port, "persistence").get("aof_rewrites", 0))
    return found


def _cell(options: argparse.Namespace, host: Host, is_ours: bool, by: str, size: int, keys: int, pipeline: int) -> dict[str, Any]:
    each = size + (writers.KEY_BYTES if by == SCRIPT else TOOL_KEY_BYTES)
    # With one request on its way a client of this script is slow, and what it brings is the same after less.
    megabytes = options.megabytes if pipeline > 1 else options.megabytes / 2
    writes = int(megabytes * 1e6) // each
    shape = [*load.SET, "--keys", str(keys), "--size", str(size)]
    if by == TOOL:
        load.fill([host.port], shape)
        until_quiet(host.port)
    before, began = _reading(host, is_ours), time.monotonic()
    if by == TOOL:
        load.ask_requests([host.port], writes, [*shape, "--clients", str(CLIENTS), "--pipeline", str(pipeline)])
    else:
        writers.write(host.port, keys, size, writes, CLIENTS, pipeline, seed=pipeline)
    seconds = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    after = _reading(host, is_ours)
    threads = {name: after["threads"][name] - before["threads"][name] for name in after["threads"]}
    return {
        "by": by,
        "size": size,
        "pipeline": pipeline,
        "keys": keys,
        "writes": writes,
        "writes_per_s": round(writes / seconds),
        "payload": writes * each,
        **{what: after[what] - before[what] for what in after if what != "threads"},
        "threads": {name: count for name, count in threads.items() if count},
    }


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All cells of all servers."""
    found = []
    for side, workers in _sides(options):
        is_ours = side != "redis"
        name = f"`{side}`, {in_words(workers)}" if is_ours else "redis `everysec`"
        for size, keys in SIZES.items():
            with ours(options.ours, workers, side) if is_ours else redis(REDIS_LOG) as host:
                keys = 2_000 if options.quick else keys
                progress.step(f"{name}: making {keys:,} keys of {size} bytes")
                writers.write(host.port, keys, size, keys, CLIENTS, 16, seed=0)
                until_quiet(host.port)
                for by in (SCRIPT, TOOL) if is_ours else (SCRIPT,):
                    for pipeline in PIPELINES:
                        progress.step(f"{name}: setting values of {size} bytes at pipeline {pipeline}, {by}")
                        found.append({"side": name, **_cell(options, host, is_ours, by, size, keys, pipeline)})
    return {"cells": found}


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    headings = ["`SET` by 50 clients", "payload, MB", "log / payload", "aim", "`SET` a batch", "all / payload", "aim", "snapshots, rewrites", "`SET`/s"]
    rows = []
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
        + ", and all are there before. *All* is `write_bytes` of `/proc/PID/io`, less what was cancelled, children that ended included: zeros "
        "for new files of the log and snapshots too. *Log* is what our node counts as written to its log; of redis, what its own threads wrote.\n\n"
        + record.words_table(headings, rows)
        + "\n"
    )
