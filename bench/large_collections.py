#!/usr/bin/env python3
"""Measures for how long commands over collections of a million members keep other clients waiting on three nodes.

The keys of each command lie in groups that different nodes lead. A client of each node sets and reads small keys of all
groups, one after the other with a pause between, while another one sends the command. The same on one redis-server.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event

from nodes import OURS, SLOTS, OurCluster, slot_of
from server import REDIS, Launch, Server, SetupError
from wire import Connection, WireError, encode

# Members that one command of the loader names.
BATCH = 1_000
SMALL_KEYS = 2_000
# Between two commands of a small client.
PAUSE_SECONDS = 0.001
# How long the small clients go on when the command is answered: what is dropped is dropped afterwards.
AFTER_SECONDS = 1.5

# Each with what must be there before it: keys by their names, and what they are.
CASES = (
    ("none", ()),
    ("SUNIONSTORE {c}out {a}set {b}set", ("{a}set", "{b}set")),
    ("SINTERSTORE {c}out {a}set {b}set", ("{a}set", "{b}set")),
    ("ZUNIONSTORE {c}out 2 {a}zset {b}zset", ("{a}zset", "{b}zset")),
    ("RENAME {a}set {b}new", ("{a}set",)),
    ("RENAME {a}zset {b}new", ("{a}zset",)),
    ("COPY {a}hash {b}new", ("{a}hash",)),
    ("RENAME {a}list {b}new", ("{a}list",)),
    ("SUNION {a}set {b}set", ("{a}set", "{b}set")),
    ("DEL {a}set", ("{a}set",)),
)


def beside(port: int, is_over: Event, answers: Pipe) -> None:
    """A client with small commands: how long each took, in milliseconds."""
    took, number = [], 0
    try:
        with Connection(port, timeout=120.0) as connection:
            while not is_over.is_set():
                key = b"small:%d" % (number % SMALL_KEYS)
                began = time.perf_counter()
                if number % 2:
                    connection.command(b"GET", key)
                else:
                    connection.command(b"SET", key, b"v")
                took.append((time.perf_counter() - began) * 1_000)
                number += 1
                time.sleep(PAUSE_SECONDS)
        answers.send((took, ""))
    except (OSError, WireError) as error:
        answers.send((took, str(error)))


class Beside:
    """The clients with small commands, one for each port, as processes."""

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


def parts(kind: str, first: int, last: int, step: int) -> tuple[bytes, list[bytes]]:
    """The command that adds elements to a collection, and its words."""
    numbers = range(first, last)
    if kind == "set":
        return b"SADD", [b"member:%d" % (n * step) for n in numbers]
    if kind == "zset":
        return b"ZADD", [part for n in numbers for part in (b"%d" % n, b"member:%d" % (n * step))]
    if kind == "hash":
        return b"HSET", [part for n in numbers for part in (b"field:%d" % n, b"v" * 16)]
    return b"RPUSH", [b"element:%d" % n for n in numbers]


def fill(port: int, key: bytes, members: int, step: int) -> None:
    """Makes a collection: half of the members of one with steps of two are in one with steps of one, too."""
    kind = key.decode().rpartition("}")[2]
    with Connection(port, timeout=120.0) as connection:
        connection.command(b"DEL", key)
        for first in range(0, members, BATCH):
            name, words = parts(kind, first, min(first + BATCH, members), step)
            connection.command(name, key, *words)


def tags_of(cluster: OurCluster) -> dict[str, str]:
    """Hash tags of keys in groups that different nodes lead, one for each letter of the commands."""
    groups = cluster.view()["groups"]
    found: dict[int, str] = {}
    number = 0
    while len(found) < 3:
        tag = b"t%d" % number
        leader = groups[slot_of(tag) * len(groups) // SLOTS]["leader"]
        found.setdefault(leader, "{" + tag.decode() + "}")
        number += 1
    return dict(zip("abc", found.values()))


def send(port: int, words: list[bytes]) -> float:
    """Sends a command and reads its reply to the end, whatever it is; seconds."""
    mark = b"end-of-the-reply"
    with Connection(port, timeout=120.0) as connection:
        began = time.perf_counter()
        connection.socket.sendall(encode(*words) + encode(b"ECHO", mark))
        tail = b""
        head = b""
        while not tail.endswith(mark + b"\r\n"):
            data = connection.socket.recv(1 << 20)
            if not data:
                raise WireError("the connection ended")
            head = head or data[:100]
            tail = (tail + data)[-64:]
        if head.startswith(b"-"):
            raise WireError(head.split(b"\r\n")[0].decode())
        return time.perf_counter() - began


def measure(ports: list[int], tags: dict[str, str], text: str, needs: tuple[str, ...], members: int) -> str:
    """What the small clients saw while a command was carried out, as cells of the table."""
    with Connection(ports[0], timeout=120.0) as connection:
        for name in ("{a}set", "{b}set", "{a}zset", "{b}zset", "{a}hash", "{a}list", "{b}new", "{c}out"):
            if name not in needs:
                connection.command(b"DEL", name.format(**tags).encode())
    for name in needs:
        fill(ports[0], name.format(**tags).encode(), members, 2 if name.startswith("{b}") else 1)
    time.sleep(AFTER_SECONDS)
    others = Beside(ports)
    time.sleep(0.5)
    took, failed = 0.0, []
    try:
        if needs:
            took = send(ports[0], [word.format(**tags).encode() for word in text.split()])
    except (OSError, WireError) as error:
        failed.append(str(error))
    time.sleep(AFTER_SECONDS)
    times, more = others.end()
    over = sum(one > 30 for one in times)
    errors = "; ".join(failed + more)
    return f"{took * 1_000:.0f} | {times[-1]:.0f} | {over} | {times[min(len(times) - 1, int(len(times) * 0.99))]:.1f} | {errors or 'none'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=OURS, help="how a node is started")
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of commands")
    parser.add_argument("--without-redis", action="store_true")
    arguments = parser.parse_args()
    cases = [case for case in CASES if not arguments.only or any(part in case[0] for part in arguments.only)]
    try:
        print("| server | command | took ms | longest ms | above 30 ms | p99 ms | errors |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        if not arguments.without_redis:
            with Server(Launch("redis", REDIS)) as server:
                for text, needs in cases:
                    for _ in range(arguments.rounds):
                        cells = measure([server.port] * 3, {"a": "{a}", "b": "{b}", "c": "{c}"}, text, needs, arguments.members)
                        print(f"| redis-server | {text} | {cells} |", flush=True)
        with OurCluster(arguments.ours, arguments.groups, arguments.workers) as cluster:
            tags = tags_of(cluster)
            for text, needs in cases:
                for _ in range(arguments.rounds):
                    cells = measure([node.port for node in cluster.nodes], tags, text, needs, arguments.members)
                    print(f"| three nodes | {text} | {cells} |", flush=True)
    except (SetupError, WireError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
