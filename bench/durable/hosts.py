"""The servers that are compared: one process alone, whose folder outlives it, and three of our nodes."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
import urllib.request
from pathlib import Path

from nodes import Node, OurCluster, wait_until
from server import Launch, SetupError, free_port
from wire import Connection, WireError

OURS = (
    "target/release/chorale server --port {port} --cluster-port {cluster_port} --peer-port {peer_port} "
    "--admin-port {admin_port} --bind 127.0.0.1 --groups {groups} --workers {workers} --durability {durability}"
)
# What Redis does by itself when its log has doubled is part of what that costs.
REDIS_LOG = "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly yes --appendfsync {appendfsync}"
# Its log is written anew by nobody: it is all commands, from the first to the last.
REDIS_COMMANDS = REDIS_LOG + " --auto-aof-rewrite-percentage 0"
REDIS_DUMP = "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"
# As many as a server makes by itself for each worker.
GROUPS_A_WORKER = 6
# Five million keys are read from an old disk in less.
START_SECONDS_MAX = 600.0


class Host(Node):
    """A server alone; use as a context manager so that it never outlives the measurement. What it keeps goes with it."""

    start_seconds = START_SECONDS_MAX

    def __init__(self, name: str, template: str, place: Path | None = None, **values: object) -> None:
        self.process = None
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-", dir=place)
        ports = {what: free_port() for what in ("port", "cluster_port", "peer_port", "admin_port")}
        argv = shlex.split(template.format(**ports, **values))
        argv[0] = Launch(name, template).program()
        try:
            super().__init__(name, argv, Path(self._scratch.name) / "node", ports["port"], ports["admin_port"])
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the process and removes its folder."""
        if self.process is not None:
            self.kill()
            self.reap()
        self._scratch.cleanup()

    def shut_down(self) -> None:
        """As a service manager ends it."""
        self.process.terminate()
        self.process.wait(START_SECONDS_MAX)

    def until_it_has(self, keys: int) -> tuple[float, float, float]:
        """Starts the process. Seconds until it answers PING, until it has so many keys, and of CPU by then."""
        began = time.monotonic()
        self.spawn()
        answers = None
        while True:
            self.ensure_alive()
            try:
                with Connection(self.port, timeout=START_SECONDS_MAX) as connection:
                    if answers is None and connection.command(b"PING") == b"PONG":
                        answers = time.monotonic() - began
                    if int(connection.command(b"DBSIZE")) == keys:
                        whole = time.monotonic() - began
                        return whole if answers is None else answers, whole, self.cpu_time().stat_ns / 1e9
            except (OSError, WireError, ValueError):
                # It does not listen yet, or says that it loads.
                pass
            if time.monotonic() - began > START_SECONDS_MAX:
                raise SetupError(f"{self.name} has not its {keys} keys after {START_SECONDS_MAX:.0f} s:\n{self.log_tail()}")
            time.sleep(0.005)


def ours(options_ours: str, workers: int, durability: str, place: Path | None = None) -> Host:
    """One of our nodes, alone. Its folder is made there, or where temporary files are."""
    name = f"{durability}, {in_words(workers)}"
    return Host(name, options_ours, place, groups=GROUPS_A_WORKER * workers, workers=workers, durability=durability)


def three(options_ours: str, workers: int, durability: str) -> OurCluster:
    """Three of our nodes with three replicas of each group."""
    return OurCluster(options_ours.replace("{durability}", durability), GROUPS_A_WORKER * workers, workers)


def redis(template: str, appendfsync: str = "everysec", place: Path | None = None) -> Host:
    """One redis-server, likewise."""
    return Host("redis", template, place, appendfsync=appendfsync)


def in_words(workers: int) -> str:
    """A number of workers."""
    return "1 worker" if workers == 1 else f"{workers} workers"


def figure(node: Node, name: str) -> float:
    """A metric of one of our nodes, all its labels together."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.admin_port}/metrics", timeout=5) as answer:
        page = answer.read().decode()
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    if not found:
        raise SetupError(f"the metrics of {node.name} lack {name}")
    return sum(map(float, found))


def info(port: int, section: str) -> dict[str, str]:
    """A section of INFO."""
    with Connection(port) as connection:
        text = connection.command(b"INFO", section.encode()).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def is_writing(port: int) -> bool:
    """Whether a snapshot is under way, of whatever kind."""
    found = info(port, "persistence")
    return "1" in (found["rdb_bgsave_in_progress"], found["aof_rewrite_in_progress"])


def until_quiet(port: int) -> None:
    """Waits until no snapshot was under way for a while: what was loaded is kept."""
    quiet_since = time.monotonic()

    def holds() -> bool:
        nonlocal quiet_since
        if is_writing(port):
            quiet_since = time.monotonic()
        return time.monotonic() - quiet_since > 2.0

    wait_until(holds, START_SECONDS_MAX, "no snapshot is under way")


def children(pid: int) -> list[int]:
    """Processes that it has forked and that live."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found
