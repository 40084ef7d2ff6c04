"""The record of a measurement: where it ran, what was run, and the files it is written to."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from server import ROOT, Launch, SetupError
from wire import WireError


def git(*arguments: str) -> str:
    """The output of a git command in this repository, empty where there is none."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    """The commit that is checked out, marked where sources differ from it."""
    head = git("rev-parse", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--", ".", ":!bench/records")
    return f"{head} (with uncommitted changes)" if changed else head


def first_line(path: str, key: str = "") -> str:
    """The first line of a file under /proc or /sys, or the value of its first line that begins with the key."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    for line in lines:
        if line.startswith(key):
            return line.partition(":")[2].strip() if key else line.strip()
    return "unknown"


def command() -> list[str]:
    """How this script is called from the root of the repository."""
    script = Path(sys.argv[0]).resolve()
    name = str(script.relative_to(ROOT)) if script.is_relative_to(ROOT) else script.name
    return ["python3", name] if script.suffix == ".py" else [name]


def environment(launches: Sequence[Launch], tools: Sequence[str] = ()) -> dict[str, object]:
    """The facts a reader needs to judge the numbers or to repeat them."""
    versions = {launch.name: launch.version() for launch in launches}
    for tool in tools:
        versions[tool] = Launch(tool, tool).version()
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "command": shlex.join([*command(), *sys.argv[1:]]),
        "servers": {launch.name: launch.described() for launch in launches},
        "versions": versions,
        "machine": {
            "cpu": first_line("/proc/cpuinfo", "model name"),
            "cores": os.cpu_count(),
            "memory": first_line("/proc/meminfo", "MemTotal"),
            "architecture": platform.machine(),
            "kernel": f"{platform.system()} {platform.release()}",
            "transparent_hugepages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
            "load_at_start": first_line("/proc/loadavg"),
        },
        "python": platform.python_version(),
    }


def scratch() -> str:
    """The kind of file system that servers under measurement write to; of ext4, whether it has a journal."""
    place = Path(tempfile.gettempdir()).resolve()
    found = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind = line.split()[:3]
        if place.is_relative_to(mount) and len(mount) >= len(found[0]):
            found = (mount, kind)
    if found[1] != "ext4":
        return found[1]
    device = os.stat(place).st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    # A file that grows changes what the file system knows of it: with a journal, its sync waits for that as well.
    return f"ext4 {'with' if any(Path('/proc/fs/jbd2').glob(f'{name}-*')) else 'without'} a journal"


def sync_ms() -> float:
    """How long it takes there to write a little and have it on the disk: the median of some."""
    took = []
    with tempfile.TemporaryFile() as file:
        for _ in range(30):
            began = time.monotonic()
            file.write(bytes(200))
            file.flush()
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - began) * 1e3)
    return statistics.median(took)


def heed_signals() -> None:
    """Makes SIGTERM end a run as Ctrl-C does, so that no server is left behind; also when run in the background."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def main(parse: Callable[[], argparse.Namespace], run: Callable[[argparse.Namespace], None]) -> int:
    """Runs a measurement; what is wrong is told in one line. `options.out` is the record to write."""
    options = parse()
    name = Path(sys.argv[0]).name
    heed_signals()
    try:
        check_out(options.out)
        run(options)
    except (SetupError, WireError, OSError, subprocess.TimeoutExpired) as error:
        print(f"\n{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{name}: stopped", file=sys.stderr)
        return 130
    return 0


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An aligned Markdown table, so that the terminal and the summary show the same."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "| " + " | ".join([first, *(c.rjust(w) for c, w in zip(cells[1:], widths[1:]))]) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
    return "\n".join([line(headings), rule, *(line(row) for row in rows)])


def words_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of sentences, which no padding makes readable."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [headings, ["---"] * len(headings), *rows])


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median with its range."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(values: dict[str, float], form: str = ".2f") -> str:
    """A spread as text: the median, and the range where there is one."""
    middle = format(values["median"], form)
    if values["min"] == values["max"]:
        return middle
    return f"{middle} ({format(values['min'], form)}-{format(values['max'], form)})"


def check_out(out: str | None) -> None:
    """Refuses a record path that cannot be written, before hours of measuring and not after."""
    if out is None:
        return
    if not out.endswith(".json"):
        raise SetupError(f"--out must end with .json, the summary goes beside it as .md: {out}")
    folder = Path(out).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SetupError(f"the folder {folder} does not exist or cannot be written: create it first")


def write(out: str | None, data: dict[str, object], summary: str) -> None:
    """Prints the summary and, where a path is given, writes the JSON and the Markdown beside it."""
    print(summary)
    if out is not None:
        save(out, data, summary)


def save(out: str, data: dict[str, object], summary: str) -> None:
    """Writes the JSON and the Markdown beside it."""
    path = Path(out)
    # No folder of the measuring machine belongs into a record.
    path.write_text((json.dumps(data, indent=1) + "\n").replace(f"{ROOT}/", ""))
    path.with_suffix(".md").write_text(summary.replace(f"{ROOT}/", ""))
    print(f"written: {path} and {path.with_suffix('.md')}", file=sys.stderr)


def preamble(title: str, facts: dict[str, object]) -> str:
    """The head of a Markdown summary."""
    machine = facts["machine"]
    versions = facts["versions"]
    servers = facts["servers"]
    assert isinstance(machine, dict) and isinstance(versions, dict) and isinstance(servers, dict)
    lines = [f"# {title}", "", f"- Date: {facts['started']}", f"- Commit: {facts['commit']}"]
    lines.append(f"- Command: `{facts['command']}`")
    lines += [f"- {name}: `{line}`" for name, line in servers.items()]
    lines += [f"- Version of {name}: {version}" for name, version in versions.items()]
    lines.append(f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['kernel']}")
    lines.append(f"- Load when it started: {machine['load_at_start']}")
    return "\n".join(lines) + "\n"


# Cells of the bar that shows how much is done.
BAR = 20


class Progress:
    """Tells on stderr what is being done, which of how many, and for how long."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._began = time.monotonic()
        self._said = float("-inf")
        self._terminal = sys.stderr.isatty()

    def step(self, what: str) -> None:
        """Counts one more piece of work, which begins now."""
        self.done += 1
        self.say(what)

    def say(self, what: str) -> None:
        """Shows the piece of work; a log file gets a line every few seconds only."""
        now = time.monotonic()
        line = f"[{self.done}/{self.total}] {now - self._began:.0f} s  {what}"
        if self._terminal:
            # What has begun is not done.
            filled = max(0, self.done - 1) * BAR // max(1, self.total)
            bar = "\u2588" * filled + "\u2591" * (BAR - filled)
            room = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            print(f"\r\x1b[K{f'{bar} {line}'[: room - 1]}", end="", file=sys.stderr, flush=True)
        elif now - self._said >= 5.0:
            self._said = now
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leaves the terminal on a fresh line."""
        if self._terminal:
            print(file=sys.stderr)
