"""What clients of three nodes wait for while a backup is taken, and how long its mark holds the groups."""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from typing import Any

import load
import record
from durable import turns
from durable.hosts import in_words, info, three
from nodes import OurCluster
from server import SetupError

NAME = "backup"
TITLE = "While a backup is taken"
KEYS = 1_000_000
REPLY_AIM = 1.5
HOLD_AIM = 3.0
# Requests a second of all clients, well below what two cores bear.
RATES = {"SET": 2_000, "MSET": 300}
CLIENTS_EACH = 10
BACKUP_SECONDS_MAX = 300.0


def _rounds(options: argparse.Namespace) -> int:
    return 1 if options.quick else min(3, options.rounds)


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return len(options.workers) * (1 + 2 * _rounds(options))


class Backups:
    """Takes one backup after the other while the block lasts, each into an empty directory."""

    def __init__(self, cluster: OurCluster) -> None:
        self._cluster = cluster
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._problem: BaseException | None = None
        self.took_s: list[float] = []

    def __enter__(self) -> Backups:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        # Ctrl-C ends a backup, too.
        if self._problem is not None and kind is None:
            raise SetupError(f"a backup failed: {self._problem}")

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                with tempfile.TemporaryDirectory(prefix="bench-") as target:
                    argv = [load.program(), "admin", "backup", target, "--admin", str(self._cluster.nodes[0].admin_port)]
                    began = time.monotonic()
                    done = subprocess.run(argv, capture_output=True, text=True, timeout=BACKUP_SECONDS_MAX, check=False)
                    if done.returncode != 0:
                        raise SetupError((done.stderr or done.stdout)[-300:])
                    self.took_s.append(time.monotonic() - began)
                    shutil.rmtree(target, ignore_errors=True)
        except (SetupError, OSError, subprocess.TimeoutExpired) as error:
            self._problem = error


def marks(cluster: OurCluster) -> tuple[int, float]:
    """How many marks were asked for, and for how many milliseconds all together were carried out."""
    calls, micros = 0, 0.0
    for node in cluster.nodes:
        found = info(node.port, "commandstats").get("cmdstat_backup|mark")
        if found is not None:
            fields = dict(field.split("=") for field in found.split(","))
            calls += int(fields["calls"])
            micros += float(fields["usec"])
    return calls, micros / 1e3


def _loads(options: argparse.Namespace, cluster: OurCluster) -> dict[str, dict[str, float]]:
    """SET and MSET of two keys side by side, at times fixed beforehand."""
    seconds = 3.0 if options.quick else options.seconds
    ports = [node.port for node in cluster.nodes]
    shape = ["--keys", str(_keys(options)), "--size", "100", "--clients", str(CLIENTS_EACH), "--no-load", "--seconds", f"{seconds:g}", "--warmup", "1"]
    kinds = {"SET": load.SET, "MSET": ("--workload", "mset", "--batch", "2")}
    reports = {}
    with (
        load.Beside(ports, [*kinds["SET"], *shape, "--rate", str(RATES["SET"])]) as sets,
        load.Beside(ports, [*kinds["MSET"], *shape, "--rate", str(RATES["MSET"])]) as msets,
    ):
        for kind, tool in (("SET", sets), ("MSET", msets)):
            found = tool.report(seconds)
            reports[kind] = {what: found["latency"][what] for what in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}
            reports[kind]["failed"] = found["errors"] + found.get("not_started", 0)
    return reports


def _keys(options: argparse.Namespace) -> int:
    return 10_000 if options.quick else KEYS


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All windows."""
    found: dict[str, Any] = {"keys": _keys(options), "windows": []}
    for workers in options.workers:
        progress.step(f"three nodes, {in_words(workers)} each: making {_keys(options):,} keys")
        with three(options.ours, workers, "relaxed") as cluster:
            load.fill([node.port for node in cluster.nodes], [*load.SET, "--keys", str(_keys(options)), "--size", "100"])
            for number in range(1, _rounds(options) + 1):
                progress.step(f"{in_words(workers)}, round {number}: steady")
                window = {"workers": workers, "round": number, "steady": _loads(options, cluster)}
                progress.step(f"{in_words(workers)}, round {number}: taking backups")
                calls, spent = marks(cluster)
                with Backups(cluster) as backups:
                    window["beside"] = _loads(options, cluster)
                calls, spent = marks(cluster)[0] - calls, marks(cluster)[1] - spent
                if calls < len(backups.took_s):
                    raise SetupError("INFO commandstats lacks marks of backups")
                window["backups_s"] = [round(took, 2) for took in backups.took_s]
                window["mark_ms"] = spent / calls
                found["windows"].append(window)
    return found


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    rows = []
    for workers in dict.fromkeys(window["workers"] for window in found["windows"]):
        windows = [window for window in found["windows"] if window["workers"] == workers]
        for kind in RATES:
            for what, said in (("p99_ms", "p99"), ("max_ms", "longest")):
                pairs = [(window["steady"][kind][what], window["beside"][kind][what]) for window in windows]
                ratio = record.spread([beside / steady for steady, beside in pairs])
                told = turns.aim(ratio["median"], REPLY_AIM, is_most=True) if what == "p99_ms" and workers == 1 else ""
                figures = [record.shown(record.spread([pair[place] for pair in pairs])) for place in (0, 1)]
                rows.append([f"`{kind}`, {said} in ms, {in_words(workers)}", *figures, record.shown(ratio), told])
        pairs = [(window["steady"]["MSET"]["p99_ms"], window["mark_ms"]) for window in windows]
        ratio = record.spread([mark / steady for steady, mark in pairs])
        told = turns.aim(ratio["median"], HOLD_AIM, is_most=True) if workers == 1 else ""
        figures = [record.shown(record.spread([pair[place] for pair in pairs])) for place in (0, 1)]
        rows.append([f"p99 of `MSET`, the mark, in ms, {in_words(workers)}", *figures, record.shown(ratio), told])
    took = [took for window in found["windows"] for took in window["backups_s"]]
    failed = sum(window[place][kind]["failed"] for window in found["windows"] for place in ("steady", "beside") for kind in RATES)
    text = (
        f"Three nodes in `relaxed`, {found['keys']:,} keys with values of 100 bytes. Clients of all nodes send {RATES['SET']:,} `SET` and "
        f"{RATES['MSET']:,} `MSET` of two keys a second, at times fixed beforehand, without backups and while one follows on the other, each into an empty "
        "directory. The *mark* is how long the command took that fixes the instant of a backup, on average of a window, until it was answered: it "
        "holds all groups, each for a part of that time.\n\n"
    )
    text += record.words_table(["", "steady", "beside", "ratio", "aim"], rows) + "\n\n"
    text += f"{len(took)} backups took {statistics.median(took):.1f} s each, in the middle"
    return text + (f"; {failed:,} requests failed or never began.\n" if failed else ".\n")
