#!/usr/bin/env python3
"""Measures what values from a kilobyte to 512 megabytes cost three nodes, and who else waits for them.

One client sets a value through one node, reads it through the second, renames it to a key of another group and
deletes it through the third, while a client of each node sets small keys of all groups, one after the other.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event

from nodes import OURS, OurCluster
from server import SetupError
from wire import Connection, WireError, encode

KIB = 1024
MIB = 1024 * KIB
SIZES = (KIB, MIB, 16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB)
# Times that a value of a size goes through all commands: small ones are over too soon to be measured once.
ROUNDS = {KIB: 500, MIB: 50, 16 * MIB: 6}
SMALL_KEYS = 2_000
# How long leaders must stay before it begins.
STEADY_SECONDS = 4.0
QUIET_SECONDS = 5.0
RECEIVED = 4 * MIB


def beside(port: int, is_over: Event, answers: Pipe) -> None:
    """A client with small commands: how long each took, in milliseconds."""
    took, number = [], 0
    try:
        with Connection(port, timeout=120.0) as connection:
            while not is_over.is_set():
                began = time.perf_counter()
                connection.command(b"SET", b"small:%d" % (number % SMALL_KEYS), b"v")
                took.append((time.perf_counter() - began) * 1_000)
                number += 1
        answers.send((took, ""))
    except (OSError, WireError) as error:
        answers.send((took, str(error)))


class Beside:
    """The clients with small commands, one for each node, as processes."""

    def __init__(self, ports: list[int]) -> None:
        self.is_over = multiprocessing.Event()
        self.pipes, self.processes = [], []
        for port in ports:
            here, there = multiprocessing.Pipe()
            process = multiprocessing.Process(target=beside, args=(port, self.is_over, there))
            process.start()
            self.pipes.append(here)
            self.processes.append(process)

    def end(self) -> tuple[list[float], list[str]]:
        """All times, ascending, and the errors."""
        self.is_over.set()
        told = [pipe.recv() for pipe in self.pipes]
        for process in self.processes:
            process.join()
        return sorted(sum((took for took, _ in told), [])), [error for _, error in told if error]


def quantile(times: list[float], share: float) -> float:
    """Of ascending times."""
    return times[min(len(times) - 1, int(len(times) * share))]


def ask(port: int, *words: bytes) -> tuple[float, int, bytes]:
    """Sends a command whose reply is a line or one bulk string; seconds, bytes of the string, the line."""
    with Connection(port, timeout=120.0) as connection:
        request = encode(*words)
        began = time.perf_counter()
        connection.socket.sendall(request)
        data = b""
        while b"\r\n" not in data:
            data += connection.socket.recv(65536)
        line, _, rest = data.partition(b"\r\n")
        if line.startswith(b"-"):
            raise WireError(line.decode())
        size = int(line[1:]) if line.startswith(b"$") else 0
        left = size + 2 - len(rest) if line.startswith(b"$") else 0
        buffer = bytearray(RECEIVED)
        while left > 0:
            got = connection.socket.recv_into(buffer, min(left, RECEIVED))
            if got == 0:
                raise WireError("the connection ended")
            left -= got
        return time.perf_counter() - began, size, line


def memory(cluster: OurCluster) -> list[int]:
    """Resident memory of each node in MiB."""
    found = []
    for node in cluster.nodes:
        with open(f"/proc/{node.process.pid}/status", encoding="ascii") as status:
            found.extend(int(line.split()[1]) // KIB for line in status if line.startswith("VmRSS"))
    return found


def steady(cluster: OurCluster) -> int:
    """Waits until leaders stay, and answers how many terms were seen."""
    terms, since = -1, time.monotonic()
    while time.monotonic() - since < STEADY_SECONDS:
        now = cluster.counter("chorale_term_changes_total")
        if now != terms:
            terms, since = now, time.monotonic()
        time.sleep(0.1)
    return terms


def name_of(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def measure(cluster: OurCluster, size: int) -> str:
    """One row of the table."""
    ports = [node.port for node in cluster.nodes]
    value = bytes(size)
    terms = steady(cluster)
    others = Beside(ports)
    begun, took = time.monotonic(), {"SET": 0.0, "GET": 0.0, "RENAME": 0.0, "DEL": 0.0}
    rounds, sent_by_set = ROUNDS.get(size, 1), 0
    errors = []
    for turn in range(rounds):
        key, other = b"large:%d:%d" % (size, turn), b"renamed:%d:%d" % (size, turn)
        sent = cluster.counter("chorale_peer_output_bytes_total") if turn == 0 else 0
        for place, words in enumerate(((b"SET", key, value), (b"GET", key), (b"RENAME", key, other), (b"DEL", other))):
            try:
                seconds, got, _ = ask(ports[place % 3], *words)
                took[words[0].decode()] += seconds
                if words[0] == b"GET" and got != size:
                    errors.append(f"GET gave {got} bytes")
            except (OSError, WireError) as error:
                errors.append(f"{words[0].decode()}: {error}")
            if turn == 0 and place == 0:
                # The slower follower may still be taking it.
                time.sleep(min(3.0, 0.3 + size / (256 * MIB)))
                sent_by_set = cluster.counter("chorale_peer_output_bytes_total") - sent
    while time.monotonic() - begun < QUIET_SECONDS:
        time.sleep(0.05)
    times, failed = others.end()
    changed = cluster.counter("chorale_term_changes_total") - terms
    means = " | ".join(f"{took[name] / rounds * 1_000:.1f}" for name in took)
    return (
        f"| {name_of(size)} | {means} | {sent_by_set / size:.2f} | {changed} | {quantile(times, 0.5):.2f} "
        f"| {quantile(times, 0.99):.2f} | {times[-1]:.0f} | {len(times)} | {' '.join(map(str, memory(cluster)))} "
        f"| {'; '.join(errors + failed) or 'none'} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=OURS, help="how a node is started")
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--most", type=int, default=512, help="the largest value in MiB")
    arguments = parser.parse_args()
    try:
        with OurCluster(arguments.ours, arguments.groups, arguments.workers) as cluster:
            steady(cluster)
            others = Beside([node.port for node in cluster.nodes])
            time.sleep(QUIET_SECONDS)
            times, failed = others.end()
            print("| value | SET ms | GET ms | RENAME ms | DEL ms | sent / value | terms | p50 ms | p99 ms | longest ms | SETs beside | MiB of each node after | errors |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
            print(
                f"| none | | | | | | | {quantile(times, 0.5):.2f} | {quantile(times, 0.99):.2f} | {times[-1]:.0f} "
                f"| {len(times)} | {' '.join(map(str, memory(cluster)))} | {'; '.join(failed) or 'none'} |",
                flush=True,
            )
            for size in SIZES:
                if size <= arguments.most * MIB:
                    print(measure(cluster, size), flush=True)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
