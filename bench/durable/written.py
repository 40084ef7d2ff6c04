"""Bytes that are written to the disk for each byte that clients set, in the log and in all."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

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
# What was written last is synced by then.
SETTLE_SECONDS = 3.0


def _sides(options: argparse.Namespace) -> list[tuple[str, int]]:
    return [("relaxed", workers) for workers in options.workers] + [("strict", options.workers[0]), ("redis", 1)]


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return len(_sides(options)) * len(SIZES) * (1 + len(PIPELINES))


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
    else:
        # Its own threads write the log, a child writes it anew.
        found["log"] = sum(found["threads"].values())
        found["snapshots"] = int(info(host.port, "persistence").get("aof_rewrites", 0))
    return found


def _cell(options: argparse.Namespace, host: Host, is_ours: bool, size: int, keys: int, pipeline: int) -> dict[str, Any]:
    each = writers.KEY_BYTES + size
    # With one request on its way a client of this script is slow, and what it brings is the same after less.
    megabytes = options.megabytes if pipeline > 1 else options.megabytes / 2
    writes = int(megabytes * 1e6) // each
    before, began = _reading(host, is_ours), time.monotonic()
    writers.write(host.port, keys, size, writes, CLIENTS, pipeline, seed=pipeline)
    seconds = time.monotonic() - began
    time.sleep(SETTLE_SECONDS)
    after = _reading(host, is_ours)
    threads = {name: after["threads"][name] - before["threads"][name] for name in after["threads"]}
    return {
        "size": size,
        "pipeline": pipeline,
        "keys": keys,
        "writes": writes,
        "writes_per_s": round(writes / seconds),
        "payload": writes * each,
        **{what: after[what] - before[what] for what in ("all", "log", "snapshots")},
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
                for pipeline in PIPELINES:
                    progress.step(f"{name}: setting values of {size} bytes at pipeline {pipeline}")
                    found.append({"side": name, "is_ours": is_ours, **_cell(options, host, is_ours, size, keys, pipeline)})
    return {"cells": found}


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    headings = ["`SET` by 50 clients", "payload, MB", "log / payload", "aim", "all / payload", "aim", "snapshots, rewrites", "`SET`/s"]
    rows = []
    for cell in found["cells"]:
        log, whole = cell["log"] / cell["payload"], cell["all"] / cell["payload"]
        is_judged = cell["side"].startswith("`relaxed`")
        rows.append(
            [
                f"{cell['side']}: {cell['size']} bytes, p{cell['pipeline']}",
                f"{cell['payload'] / 1e6:.0f}",
                f"{log:.2f}",
                turns.aim(log, LOG_AIM, is_most=True) if is_judged else "",
                f"{whole:.2f}",
                turns.aim(whole, ALL_AIM, is_most=True) if is_judged else "",
                f"{cell['snapshots']:.0f}",
                f"{cell['writes_per_s']:,}",
            ]
        )
    return (
        f"Payload is keys, of {writers.KEY_BYTES} bytes, and values: random bytes, which do not compress. Keys are drawn evenly, of "
        + ", ".join(dict.fromkeys(f"{cell['keys']:,} with {cell['size']} bytes" for cell in found["cells"]))
        + ", and all are there before. *All* is `write_bytes` of `/proc/PID/io`, less what was cancelled, children that ended included: zeros "
        "for new files of the log and snapshots too. *Log* is what our node counts as written to its log; of redis, what its own threads wrote. The "
        "clients are a Python program, so `SET`/s says nothing of servers.\n\n" + record.words_table(headings, rows) + "\n"
    )
