"""How long a server with millions of keys is away when it is started again."""

from __future__ import annotations

import argparse
from typing import Any

import load
import record
from durable import turns
from durable.hosts import REDIS_COMMANDS, REDIS_DUMP, Host, in_words, ours, redis, until_quiet
from wire import Connection

NAME = "restart"
TITLE = "Starts"
DUMP, COMMANDS = "redis, RDB", "redis, AOF"
KILLED, STOPPED, SAVED = "killed", "stopped", "saved and stopped"
# By workers: by how much redis takes longer to read its RDB.
DUMP_AIMS = {1: 1.3, 4: 4.0}
COMMANDS_AIM = 3.0


def starts(options: argparse.Namespace) -> int:
    """How often each is started."""
    return 1 if options.quick else options.starts


def steps(options: argparse.Namespace) -> int:
    """Steps of progress."""
    return len(options.workers) * (2 + 3 * starts(options)) + 2 * (1 + starts(options))


def _kept(host: Host) -> int:
    """Bytes of all files of the server."""
    return sum(path.stat().st_blocks * 512 for path in host.folder.rglob("*") if path.is_file())


class Starts:
    """A server that has its keys, and is started again."""

    def __init__(self, options: argparse.Namespace, progress: record.Progress, side: str, host: Host) -> None:
        self._options, self._progress, self._side, self._host = options, progress, side, host
        self.found: list[dict[str, Any]] = []
        progress.step(f"{side}: making {options.keys:,} keys")
        load.fill([host.port], [*load.SET, "--keys", str(options.keys), "--size", "100"])
        until_quiet(host.port)

    def after(self, what: str) -> None:
        """Ends it so, and starts it, a few times."""
        for number in range(1, starts(self._options) + 1):
            self._progress.step(f"{self._side}: start {number} after it was {what}")
            if what == KILLED:
                self._host.kill()
                self._host.reap()
            else:
                self._host.shut_down()
            kept = _kept(self._host)
            answers, whole, cpu = self._host.until_it_has(self._options.keys)
            row = {"side": self._side, "after": what, "answers_s": answers, "whole_s": whole, "cpu_s": cpu, "kept": kept}
            self.found.append(row)


def measure(options: argparse.Namespace, progress: record.Progress) -> dict[str, Any]:
    """All starts."""
    found = []
    with redis(REDIS_DUMP) as host:
        dump = Starts(options, progress, DUMP, host)
        with Connection(host.port, timeout=600.0) as connection:
            connection.command(b"SAVE")
        dump.after(KILLED)
        found += dump.found
    with redis(REDIS_COMMANDS) as host:
        commands = Starts(options, progress, COMMANDS, host)
        commands.after(STOPPED)
        found += commands.found
    for workers in options.workers:
        with ours(options.ours, workers, "relaxed") as host:
            own = Starts(options, progress, in_words(workers), host)
            own.after(KILLED)
            own.after(STOPPED)
            progress.step(f"{in_words(workers)}: saving")
            with Connection(host.port, timeout=600.0) as connection:
                connection.command(b"SAVE")
            own.after(SAVED)
            found += own.found
    return {"keys": options.keys, "starts": found}


def report(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """The section of the page."""
    kinds = dict.fromkeys((row["side"], row["after"]) for row in found["starts"])

    def of(side: str, after: str, what: str) -> dict[str, float]:
        return record.spread([row[what] for row in found["starts"] if (row["side"], row["after"]) == (side, after)])

    kinds_of_redis = ((DUMP, KILLED), (COMMANDS, STOPPED))
    rows = []
    for side, after in kinds:
        whole = of(side, after, "whole_s")
        row = [f"{side}, {after}" if side not in (DUMP, COMMANDS) else side, record.shown(whole)]
        row += [record.shown(of(side, after, what)) for what in ("answers_s", "cpu_s")]
        row.append(f"{of(side, after, 'kept')['median'] / 1e6:.0f}")
        if side in (DUMP, COMMANDS):
            rows.append([*row, "", "", "", ""])
            continue
        for base, target in zip(kinds_of_redis, (DUMP_AIMS.get(int(side.split()[0])), COMMANDS_AIM), strict=True):
            ratio = of(*base, "whole_s")["median"] / whole["median"]
            row.append(f"{ratio:.2f}" + (f", {turns.aim(ratio, target, is_most=False)}" if target else ""))
        # Where others take the cores, seconds say less than this.
        row += [f"{of(*base, 'cpu_s')['median'] / of(side, after, 'cpu_s')['median']:.2f}" for base in kinds_of_redis]
        rows.append(row)
    headings = ["", "seconds until all keys are there", "until `PING` is answered", "CPU seconds by then", "files, MB", "redis RDB / ours", "redis AOF / ours"]
    headings += ["CPU, RDB / ours", "CPU, AOF / ours"]
    return (
        f"{found['keys']:,} keys with values of 100 bytes. *Killed* is `kill -9`, *stopped* SIGTERM, *saved and stopped* `SAVE` and then SIGTERM; the "
        "processes are started at once, so that what they read is in the page cache. Redis's AOF is all commands, since nobody has written it "
        "anew. Ratios are of medians.\n\n" + record.words_table(headings, rows) + "\n"
    )
