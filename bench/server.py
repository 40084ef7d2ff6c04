"""A server process under measurement: its start, its CPU time, its memory, its end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from wire import Connection, WireError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from ports import free_port  # noqa: E402

OURS = "target/release/chorale server --port {port} --cluster-port 0 --peer-port 0 --admin-port {admin_port} --bind 127.0.0.1 --workers {workers}"
REDIS = "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
START_SECONDS = 15.0
PACKAGES = {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "redis-cli": "redis-tools", "taskset": "util-linux", "timeout": "coreutils"}


class SetupError(Exception):
    """Something the measurement needs is missing; the text says what to do."""


def need_tool(name: str) -> str:
    """The path of a program, or an error that names the Debian package it comes from."""
    path = shutil.which(name)
    if path is None:
        package = PACKAGES.get(name)
        advice = f"run `apt-get install {package}` (Debian)" if package else "install it or pass its path"
        raise SetupError(f"{name} is not installed: {advice} and try again")
    return path


@dataclass(frozen=True)
class Launch:
    """How to start one of the servers that are compared."""

    name: str
    template: str
    workers: int = 1
    core: int | None = None

    def argv(self, port: int, admin_port: int) -> list[str]:
        """The command line for these ports, pinned where a core is set."""
        if "{port}" not in self.template:
            raise SetupError(f"the command line of {self.name} lacks {{port}}: {self.template}")
        peer_port = free_port() if "{peer_port}" in self.template else 0
        line = self.template.format(port=port, admin_port=admin_port, peer_port=peer_port, workers=self.workers)
        argv = shlex.split(line)
        argv[0] = self.program()
        if self.core is None:
            return argv
        return [need_tool("taskset"), "-c", str(self.core), *argv]

    def program(self) -> str:
        """The absolute path of the server program."""
        program = shlex.split(self.template)[0]
        if "/" not in program:
            return need_tool(program)
        path = (ROOT / program).resolve()
        if not path.is_file():
            raise SetupError(f"{program} does not exist: run `cargo build --release` first, or pass --ours")
        return str(path)

    def version(self) -> str:
        """What the program says about itself, or why that is unknown."""
        try:
            done = subprocess.run(
                [self.program(), "--version"], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return "unknown"
        lines = (done.stdout or done.stderr).strip().splitlines()
        return lines[0] if lines and done.returncode == 0 else "unknown"

    def described(self) -> str:
        """The command line as a reader would type it, ports left open."""
        pin = "" if self.core is None else f"taskset -c {self.core} "
        return pin + self.template.replace("{workers}", str(self.workers))


@dataclass(frozen=True)
class CpuTime:
    """CPU time of a process so far, by both of the kernel's clocks, and its time spent waiting for a core."""

    schedstat_ns: int | None
    stat_ns: int
    waited_ns: int

    def since(self, before: CpuTime) -> CpuTime:
        """What passed between two readings."""
        precise = None
        if self.schedstat_ns is not None and before.schedstat_ns is not None:
            precise = self.schedstat_ns - before.schedstat_ns
        return CpuTime(precise, self.stat_ns - before.stat_ns, self.waited_ns - before.waited_ns)

    @property
    def best_ns(self) -> int:
        """The nanosecond clock where the kernel has it, otherwise the one of 10 ms ticks."""
        return self.stat_ns if self.schedstat_ns is None else self.schedstat_ns


class Process:
    """A running process: whether it lives, what it printed, what it takes."""

    name: str
    process: subprocess.Popen[bytes] | None
    log: Path

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.process.pid

    def end(self) -> None:
        """Ends the process, whatever it is doing."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def ensure_alive(self) -> None:
        """Raises with the end of the process's log where it has died."""
        code = self.process.poll()
        if code is not None:
            raise SetupError(f"{self.name} ended with status {code}; its log ends with:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines that the process printed."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-15:]) or "(it printed nothing)"

    def cpu_time(self) -> CpuTime:
        """CPU time of all threads that live now."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        stat_ns = (int(fields[11]) + int(fields[12])) * TICK_NS
        running = waited = 0
        try:
            for task in os.listdir(f"/proc/{self.pid}/task"):
                parts = Path(f"/proc/{self.pid}/task/{task}/schedstat").read_text().split()
                running += int(parts[0])
                waited += int(parts[1])
        except (OSError, IndexError, ValueError):
            return CpuTime(None, stat_ns, 0)
        # A kernel without scheduler statistics shows zeros.
        return CpuTime(running if running or not stat_ns else None, stat_ns, waited)

    def resident_bytes(self) -> int:
        """Resident memory; smaps_rollup counts pages, where status may lag behind by some."""
        for source, field in (("smaps_rollup", "Rss"), ("status", "VmRSS")):
            try:
                text = Path(f"/proc/{self.pid}/{source}").read_text()
            except OSError:
                continue
            found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
            if found:
                return int(found.group(1)) * 1024
        self.ensure_alive()
        raise SetupError("this kernel shows no resident memory in /proc/PID: run on Linux with /proc mounted")


class Server(Process):
    """A server alone; use as a context manager so that it never outlives the measurement."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.name = launch.name
        self.port = free_port()
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-")
        self.log = Path(self._scratch.name) / "server.log"
        argv = launch.argv(self.port, free_port())
        # An empty working directory: no dump or data folder of an earlier run can be loaded.
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                argv, cwd=self._scratch.name, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the process and removes its working directory."""
        self.end()
        self._scratch.cleanup()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            self.ensure_alive()
            try:
                with Connection(self.port, timeout=2.0) as connection:
                    if connection.command(b"PING") in (b"PONG", b"OK"):
                        self.ensure_alive()
                        return
            except (OSError, WireError):
                pass
            if time.monotonic() > deadline:
                raise SetupError(
                    f"{self.launch.name} did not answer PING within {START_SECONDS:.0f} s "
                    f"({self.launch.described()}); its log ends with:\n{self.log_tail()}"
                )
            time.sleep(0.02)
