"""Load generators, asked by a script: `chorale bench`, and redis-benchmark for commands that it has no workload of."""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from server import ROOT, SetupError, need_tool

PROGRAM = "target/release/chorale"
# Loading and the wait for connections come on top of what is measured.
SPARE_SECONDS = 120.0
# How long a number of requests may take: a generator tries for ever to reach a server that is gone.
REQUESTS_SECONDS_MAX = 180.0
SET = ("--workload", "get_set", "--ratio", "0:1")
GET = ("--workload", "get_set", "--ratio", "1:0")


def ask(ports: Sequence[int], seconds: float, options: Sequence[str]) -> dict[str, Any]:
    """Runs the tool against endpoints of this machine for so long, and returns its report."""
    return _run(ports, ["--seconds", f"{seconds:g}", *options], seconds)


def fill(ports: Sequence[int], options: Sequence[str]) -> None:
    """Makes every key that these options name, so that reads always hit and no table grows while it is measured."""
    _run(ports, ["--requests", "1", *options], REQUESTS_SECONDS_MAX)


def ask_requests(ports: Sequence[int], requests: int, options: Sequence[str]) -> dict[str, Any]:
    """The report of so many requests, of keys that are there. None may fail: an error costs less than what is measured."""
    found = _run(ports, ["--no-load", "--requests", str(requests), *options], REQUESTS_SECONDS_MAX)
    if found["errors"] or found["misses"] or found["requests"] != requests:
        told = f"{found['requests']} of {requests} requests succeeded, {found['misses']} keys were not there"
        raise SetupError(f"chorale bench {' '.join(options)}: {told}, errors: {found['errors_by_kind']}")
    return found


class Beside:
    """The tool while it runs beside something else; use as a context manager so that it never outlives the measurement."""

    def __init__(self, ports: Sequence[int], options: Sequence[str]) -> None:
        self._process = subprocess.Popen(_argv(ports, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def report(self, seconds: float) -> dict[str, Any]:
        """Waits for its end, which is to come within so long and some spare time."""
        out, said = self._process.communicate(timeout=seconds + SPARE_SECONDS)
        if self._process.returncode != 0 or not out.strip():
            raise SetupError(f"the load generator failed: {said.strip()[-400:] or 'it says nothing'}")
        return dict(json.loads(out))


def program() -> str:
    """The tool."""
    path = ROOT / PROGRAM
    if not path.is_file():
        raise SetupError(f"{PROGRAM} does not exist: run `cargo build --release` first")
    return str(path)


def _argv(ports: Sequence[int], options: Sequence[str]) -> list[str]:
    endpoints = ",".join(str(port) for port in ports)
    return [program(), "bench", endpoints, "--json", "-", *options]


def _run(ports: Sequence[int], options: Sequence[str], seconds: float) -> dict[str, Any]:
    return read(_argv(ports, options), seconds)


def read(argv: Sequence[str], seconds: float) -> dict[str, Any]:
    """Runs a generator that writes its report as JSON to its standard output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + SPARE_SECONDS, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise SetupError(f"the load generator failed: {done.stderr.strip()[-400:] or 'it says nothing'}")
    return dict(json.loads(done.stdout))


def ask_redis_benchmark(port: int, requests: int, options: Sequence[str]) -> dict[str, Any]:
    """Runs redis-benchmark for so many requests; what it tells has the names that it has in a report of `chorale bench`."""
    argv = [need_tool("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port), "-n", str(requests), "--csv", *options]
    cpu, began = children_cpu_s(), time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=REQUESTS_SECONDS_MAX, check=False)
    seconds, cpu = time.monotonic() - began, children_cpu_s() - cpu
    try:
        row = redis_benchmark_row(done.stdout if done.returncode == 0 else "")
    except ValueError as error:
        said = (done.stdout + done.stderr).strip()[-400:] or "it says nothing"
        raise SetupError(f"redis-benchmark {' '.join(options)} failed: {said}") from error
    # It has one thread.
    return {"seconds": seconds, "requests_per_second": row["rps"], "latency": row, "client": {"busiest_thread": cpu / seconds}}


def redis_benchmark_row(out: str) -> dict[str, float]:
    """The one row of numbers that redis-benchmark prints; latencies have the names that they have in a report."""
    rows = list(csv.DictReader(out[max(0, out.find('"test"')) :].splitlines()))
    if len(rows) != 1:
        raise ValueError("it printed no row of numbers")
    named = {name.replace("avg", "average").replace("_latency", ""): value for name, value in rows[0].items()}
    return {name: float(value) for name, value in named.items() if name != "test"}


def children_cpu_s() -> float:
    """CPU time of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
