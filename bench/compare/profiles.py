"""Where the servers spend their CPU time: samples of `perf` while a cell runs once more, outside the measured rounds."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import record
from cells import CELLS
from peers import ANY, CLUSTER_WAIT, ETCD, ONE, ONE_RELAXED, ONE_STRICT, REDIS, REDIS_ALWAYS, REDIS_EVERYSEC, SLOTS, Way
from server import SetupError

# What is looked at, by way.
CHOSEN = {
    REDIS: ["set/c50/p1", "set/c50/p16"],
    REDIS_EVERYSEC: ["set/c50/p1"],
    REDIS_ALWAYS: ["set/c50/p1"],
    CLUSTER_WAIT: ["set/c50/p1", "set/c50/p16"],
    ETCD: ["set/c50/p1"],
    ONE: ["set/c50/p1", "set/c50/p16"],
    ONE_RELAXED: ["set/c50/p1"],
    ONE_STRICT: ["set/c50/p1"],
    ANY: ["get/c50/p1", "set/c50/p1", "set/c50/p16", "trans/c50", "xfer/c150"],
    SLOTS: ["set/c50/p1", "set/c50/p16"],
}
SECONDS = 1.0
LEAD_SECONDS = 0.5
SAMPLES_PER_SECOND = 499
SYMBOLS = 5
SYMBOL_CHARACTERS = 60


def take(ways: Sequence[Way], cells: Sequence[str], progress: record.Progress) -> list[dict[str, Any]]:
    """A profile of each chosen way and cell that is measured; none without `perf`."""
    if shutil.which("perf") is None:
        return []
    found = []
    for way in ways:
        for name in [name for name in CHOSEN.get(way.name, []) if name in cells]:
            progress.say(f"profile of {name}, {way.name}")
            cell = next(cell for cell in CELLS if cell.name == name)
            # Longer than the samples on both sides: connections are open before, and requests come until after.
            load = threading.Thread(target=_ask, args=(way, cell))
            load.start()
            time.sleep(LEAD_SECONDS)
            try:
                profile = _sample([process.pid for process in way.processes])
            finally:
                load.join()
            if profile is not None:
                found.append({"way": way.name, "cell": name, **profile})
    return found


def _ask(way: Way, cell: Any) -> None:
    try:
        way.ask(cell, SECONDS + 2 * LEAD_SECONDS, 0.0, is_loaded=True)
    except SetupError:
        # Then the profile is that of idle servers, and is left out for want of samples.
        return


def _sample(pids: Sequence[int]) -> dict[str, Any] | None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        data = Path(folder) / "perf.data"
        words = ["perf", "record", "-q", "-F", str(SAMPLES_PER_SECOND), "-o", str(data), "-p", ",".join(map(str, pids))]
        started = subprocess.run([*words, "--", "sleep", f"{SECONDS}"], capture_output=True, text=True, check=False)
        if started.returncode != 0 or not data.is_file():
            return None
        words = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-F", "overhead,sym", "-s", "sym", "-t", "\t"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    return _read(done.stdout)


def _read(text: str) -> dict[str, Any] | None:
    """The share of the kernel, and the symbols of the program that took most."""
    shares: dict[str, float] = {}
    kernel = nameless = 0.0
    for line in text.splitlines():
        matched = re.match(r"\s*([\d.]+)%\s+\[(.)\]\s+(.*\S)", line)
        if matched is None:
            continue
        share, place, symbol = float(matched[1]), matched[2], _shorten(matched[3])
        if place == "k":
            kernel += share
        elif symbol.startswith("0x"):
            # A program without names of its functions.
            nameless += share
        else:
            shares[symbol] = shares.get(symbol, 0.0) + share
    if kernel + nameless + sum(shares.values()) < 50.0:
        return None
    if nameless > sum(shares.values()):
        return {"kernel": round(kernel, 1), "top": []}
    top = sorted(shares.items(), key=lambda entry: -entry[1])[:SYMBOLS]
    return {"kernel": round(kernel, 1), "top": [[symbol, round(share, 1)] for symbol, share in top]}


def _shorten(symbol: str) -> str:
    """A symbol without hashes, and without the types that it was made for."""
    symbol = re.sub(r"::h[0-9a-f]{16}$", "", symbol)
    symbol = re.sub(r"\[[0-9a-f]{16}\]", "", symbol)
    # From the inside out: what a name is made for goes, and `<A as B>` is A.
    while (inner := re.search(r"(\w(?:::)?)?<([^<>]*)>", symbol)) is not None:
        kept = inner[1].rstrip(":") if inner[1] else inner[2].partition(" as ")[0]
        symbol = symbol[: inner.start()] + kept + symbol[inner.end() :]
    return symbol if len(symbol) <= SYMBOL_CHARACTERS else symbol[: SYMBOL_CHARACTERS - 1] + "…"


def table(found: Sequence[dict[str, Any]]) -> str:
    """All of them."""
    rows = []
    for entry in found:
        top = ", ".join(f"`{symbol}` {share:.0f} %" for symbol, share in entry["top"]) or "its functions have no names"
        rows.append([entry["cell"], entry["way"], f"{entry['kernel']:.0f} %", top])
    return record.words_table(["cell", "way", "kernel", "the program's functions that took most"], rows)
