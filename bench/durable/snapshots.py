"""What clients wait for, and what memory it takes, while a snapshot of millions of keys is written."""

from __future__ import annotations

import argparse
import re
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import load
import record
from chart import Line, Panel, panels
from durable import turns
from durable.hosts import REDIS_COMMANDS, Host, children, figure, in_words, is_writing, ours, redis, until_quiet

NAME = "snapshots"
TITLE = "While a snapshot is written"
REPLY_AIM = 2.0
MEMORY_AIM = 1.2
MEMORY_EVERY = 0.25
CLIENTS = 50
WARM_UP_SECONDS = 1.0


def _sides(options: argparse.Namespace) -> list[int]:
    """Workers of ours; 0 is redis."""
    return [*options.workers, 0]


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return len(_sides(options)) * (1 + 2 * _rounds(options))


def _rounds(options: argparse.Namespace) -> int:
    return 1 if options.quick else min(3, options.rounds)


class Watch:
    """Reads a server's memory, and saves again and again if told so, while the block lasts."""

    def __init__(self, host: Host, saves: bool) -> None:
        self.host = host
        # Seconds since the beginning, and bytes.
        self.memory: list[tuple[float, int]] = []
        # How long each took.
        self.saved: list[float] = []
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self._threads = [threading.Thread(target=self._read, daemon=True)]
        if saves:
            self._threads.append(threading.Thread(target=self._save, daemon=True))

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        while not self._stopping.wait(MEMORY_EVERY):
            self.memory.append((time.monotonic() - self._began, bytes_of(self.host)))

    def _save(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            self.host.ask(b"BGSAVE")
            while is_writing(self.host.port):
                # The one that is under way when the clients have ended is nobody's.
                if self._stopping.wait(0.1):
                    return
            self.saved.append(time.monotonic() - began)


def bytes_of(host: Host) -> int:
    """Memory of a process and of its children; what they share counts once."""
    forked = children(host.pid)
    if not forked:
        return int(Path(f"/proc/{host.pid}/statm").read_text().split()[1]) * 4096
    found = 0
    for pid in (host.pid, *forked):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        found += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) * 1024  # type: ignore[index]
    return found


def _window(options: argparse.Namespace, host: Host, is_ours: bool, is_saving: bool) -> dict[str, Any]:
    seconds = 3.0 if options.quick else options.seconds
    words = [*load.SET, "--keys", str(options.keys), "--size", "100", "--clients", str(CLIENTS)]
    words += ["--no-load", "--rate", str(options.rate), "--warmup", f"{WARM_UP_SECONDS:g}"]
    before = figure(host, "chorale_snapshots_total") if is_ours else 0
    with Watch(host, is_saving) as watch:
        found = load.ask([host.port], seconds, words)
    until_quiet(host.port)
    latency = found["latency"]
    return {
        "is_saving": is_saving,
        **{what: latency[what] for what in ("p50_ms", "p99_ms", "p999_ms", "max_ms")},
        "second_max_ms": statistics.median(row["max_ms"] for row in found["timeline"]),
        "not_started": found.get("not_started", 0),
        "errors": found["errors"],
        "timeline": [[row["second"], row["p99_ms"], row["max_ms"]] for row in found["timeline"]],
        "memory": [[round(at, 2), count] for at, count in watch.memory],
        "saved_s": [round(took, 2) for took in watch.saved],
        # Of groups, because their logs have grown.
        "by_itself": int(figure(host, "chorale_snapshots_total") - before) if is_ours and not is_saving else 0,
    }


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All windows of all servers."""
    found: dict[str, Any] = {"keys": options.keys, "rate": options.rate, "sides": {}}
    for workers in _sides(options):
        name = f"`relaxed`, {in_words(workers)}" if workers else "redis `everysec`"
        # A log that redis writes anew would be a snapshot in a steady window.
        with ours(options.ours, workers, "relaxed") if workers else redis(REDIS_COMMANDS) as host:
            progress.step(f"{name}: making {options.keys:,} keys")
            load.fill([host.port], [*load.SET, "--keys", str(options.keys), "--size", "100"])
            until_quiet(host.port)
            windows = []
            for number in range(1, _rounds(options) + 1):
                for is_saving in (False, True):
                    progress.step(f"{name}: round {number}, {'saving' if is_saving else 'steady'}")
                    windows.append({"round": number, **_window(options, host, bool(workers), is_saving)})
            found["sides"][name] = windows
    return found


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    rows = []
    for name, windows in found["sides"].items():
        pairs = list(zip(windows[::2], windows[1::2], strict=True))
        is_judged = name == "`relaxed`, 1 worker"
        for what, said in (("p999_ms", "p99.9"), ("second_max_ms", "slowest of a second, median"), ("max_ms", "slowest of all")):
            ratio = record.spread([saving[what] / steady[what] for steady, saving in pairs])
            told = turns.aim(ratio["median"], REPLY_AIM, is_most=True) if is_judged and what != "p999_ms" else ""
            figures = [record.shown(record.spread([pair[place][what] for pair in pairs])) for place in (0, 1)]
            rows.append([f"{name}: {said}, ms", *figures, record.shown(ratio), told])
        at_rest = [statistics.median(count for _, count in steady["memory"]) / 1e6 for steady, _ in pairs]
        peaks = [max(count for _, count in saving["memory"]) / 1e6 for _, saving in pairs]
        ratio = record.spread([peak / rest for peak, rest in zip(peaks, at_rest, strict=True)])
        told = turns.aim(ratio["median"], MEMORY_AIM, is_most=True) if is_judged else ""
        spreads = [record.shown(record.spread(values), ".0f") for values in (at_rest, peaks)]
        rows.append([f"{name}: memory, MB; while saving, the most", *spreads, record.shown(ratio), told])
    text = (
        f"{found['keys']:,} keys with values of 100 bytes. {CLIENTS} clients send {found['rate']:,} `SET` a second of random keys, at times fixed "
        "beforehand, in two windows: one in which nobody saves, and one in which `BGSAVE` follows on `BGSAVE`. Memory is resident; of redis and its "
        "child, what they share counts once.\n\n"
    )
    text += record.words_table(["", "steady", "saving", "ratio", "aim"], rows) + "\n\n"
    for name, windows in found["sides"].items():
        took = [took for window in windows for took in window["saved_s"]]
        told = f"took {record.shown(record.spread(took), '.1f')} s each" if took else "did not end within a window"
        text += f"- {name}: {len(took)} saves, which {told}"
        late = sum(window["not_started"] + window["errors"] for window in windows)
        text += f"; {late:,} requests failed or never began" if late else ""
        by_itself = sum(window["by_itself"] for window in windows)
        text += f"; {by_itself} snapshots of groups by itself in steady windows" if by_itself else ""
        text += "\n"
    return text


def picture(found: dict[str, Any]) -> str:
    """The first round of all servers, over time."""
    replies, memory = [], []
    for name, windows in found["sides"].items():
        offset, waits, sizes = 0.0, [], []
        for window in windows[:2]:
            waits += [(offset + row[0], row[2]) for row in window["timeline"]]
            sizes += [(offset + at - WARM_UP_SECONDS, count / 1e6) for at, count in window["memory"] if at >= WARM_UP_SECONDS]
            offset += len(window["timeline"])
        said = name.replace("`", "")
        replies.append(Line(said, waits))
        memory.append(Line(said, sizes))
    below = f"{found['keys']:,} keys, {found['rate']:,} SET a second; in the second half BGSAVE follows on BGSAVE"
    parts = [
        Panel("Slowest reply in each second", "seconds", "ms", replies, is_even=True),
        Panel("Resident memory", "seconds", "MB", memory, is_even=True),
    ]
    return panels("While a snapshot is written", below, parts)
