#!/usr/bin/env python3
"""Measures transactions over several groups of a three-node cluster beside commands on one key.

Everything is a ratio of two figures from one run. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import selectors
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import load
import nodes
import record
from nodes import OurCluster, wait_until
from server import Launch
from wire import OK, Connection, encode

KEYS = 10_000
ACCOUNTS = 1_000
OPENING = 1_000_000
CLIENTS = 50
DRAWS = ("uniform", "zipf:0.99")
SINGLE, PAIR, READ, READ_PAIR = "SET", "MSET of 2 groups", "GET", "MGET of 2 groups"
COMMANDS = {
    SINGLE: load.SET,
    PAIR: ("--workload", "mset", "--batch", "2"),
    READ: load.GET,
    READ_PAIR: ("--workload", "mget", "--batch", "2"),
}
SHAPE = ("--keys", str(KEYS), "--size", "1")


@dataclass(frozen=True)
class Target:
    """What a ratio must reach."""

    name: str
    limit: float
    is_most: bool = True

    def verdict(self, value: float) -> str:
        """Whether it does."""
        met = value <= self.limit if self.is_most else value >= self.limit
        return f"{'<=' if self.is_most else '>='}{self.limit:g} {'met' if met else 'MISSED'}"


MSET_LATENCY = Target("MSET over 2 groups : SET, p50", 1.25)
MSET_RATE = Target("MSET over 2 groups/s : half of SET/s", 0.7, is_most=False)
MGET_LATENCY = Target("MGET over 2 groups : GET, p50", 1.3)
MGET_BYTES = Target("entries of MGET", 0.0)
XFER_ZIPF = Target("XFER/s, Zipf 0.99 : uniform", 0.5, is_most=False)
XFER_ABORTS = Target("errors of XFER that clients saw", 0.0)
IN_DOUBT = Target("in doubt after a gateway's death : p99 of XFER", 5.0)
EXEC_ONE = Target("EXEC of 10 : 10 pipelined, one group, CPU", 1.0)
EXEC_MANY = Target("EXEC of 10 : 10 pipelined, ten groups, CPU", 2.0)


@dataclass
class Tally:
    """What a closed loop of clients came to."""

    done: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    millis: list[float] = field(default_factory=list)

    def rate(self) -> float:
        """Operations a second."""
        return self.done / self.seconds

    def quantile(self, share: float) -> float:
        """How long that share of the operations took at most, in milliseconds."""
        ordered = sorted(self.millis)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def facts(self) -> dict[str, float]:
        """For the record."""
        return {
            "operations": self.done,
            "refused": self.refused,
            "errors": len(self.errors),
            "per_s": round(self.rate(), 1),
            "mean_ms": round(statistics.fmean(self.millis), 3),
            "p50_ms": round(self.quantile(0.5), 3),
            "p99_ms": round(self.quantile(0.99), 3),
            "max_ms": round(max(self.millis), 3),
        }


def value_end(data: bytes, at: int) -> int:
    """Where the reply that begins there ends, or -1."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return -1
    kind, line = data[at : at + 1], data[at + 1 : line_end]
    end = line_end + 2
    if kind == b"$" and int(line) >= 0:
        end += int(line) + 2
        return end if end <= len(data) else -1
    if kind == b"*":
        for _ in range(max(0, int(line))):
            end = value_end(data, end)
            if end < 0:
                return -1
    return end


class Loop:
    """Clients that each send, wait for the whole reply, and send again."""

    def __init__(self, ports: list[int], clients: int, program: Callable[[], Iterator[tuple[bytes, int]]]) -> None:
        self.selector = selectors.DefaultSelector()
        self.tally = Tally()
        for number in range(clients):
            link = socket.create_connection(("127.0.0.1", ports[number % len(ports)]), timeout=30)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setblocking(False)
            self.selector.register(link, selectors.EVENT_READ, _Client(link, program()))

    def start(self) -> None:
        """Everybody sends his first request."""
        for key in list(self.selector.get_map().values()):
            key.data.begin(None)

    def turn_until(self, end: float) -> None:
        """Goes on until then."""
        while time.perf_counter() < end:
            for key, _ in self.selector.select(0.1):
                key.data.on_readable(self.tally)

    def run(self, seconds: float) -> Tally:
        """All of them, for so long."""
        began = time.perf_counter()
        self.start()
        self.turn_until(began + seconds)
        self.tally.seconds = time.perf_counter() - began
        for key in list(self.selector.get_map().values()):
            key.data.link.close()
        self.selector.close()
        return self.tally


class _Client:
    def __init__(self, link: socket.socket, program: Iterator[tuple[bytes, int]]) -> None:
        self.link, self.program = link, program
        self.data, self.since, self.awaited = b"", 0.0, 1

    def begin(self, reply: bytes | None) -> bool:
        """Sends the next step; whether the operation was over."""
        request, awaited = next(self.program) if reply is None else self.program.send(reply)  # type: ignore[attr-defined]
        is_over = awaited < 0
        if is_over or reply is None:
            self.since = time.perf_counter()
        if is_over:
            request, awaited = next(self.program)
        self.awaited = awaited
        self.link.sendall(request)
        return is_over

    def on_readable(self, tally: Tally) -> None:
        """Takes what came."""
        self.data += self.link.recv(65536)
        at = 0
        for _ in range(self.awaited):
            at = value_end(self.data, at)
            if at < 0:
                return
        reply, self.data = self.data[:at], self.data[at:]
        before = self.since
        if self.begin(reply):
            tally.millis.append((time.perf_counter() - before) * 1_000)
            if reply.startswith(b"*-1") or reply.endswith(b"*-1\r\n"):
                tally.refused += 1
            elif reply.startswith(b"-"):
                tally.errors.append(reply.decode(errors="replace").strip())
            else:
                tally.done += 1


def transfers(accounts: list[bytes], seeds: Iterator[int]) -> Callable[[], Iterator[tuple[bytes, int]]]:
    """Clients that transfer one."""

    def program() -> Iterator[tuple[bytes, int]]:
        prng = random.Random(next(seeds))
        while True:
            source, target = prng.sample(accounts, 2)
            yield encode(b"XFER", source, target, b"1"), 1
            yield b"", -1

    return program


def transfer(ports: list[int], draw: str, seconds: float, seed: int) -> dict[str, float]:
    """What clients at all nodes come to that transfer one between accounts that are there."""
    options = ["--workload", "xfer", "--no-load", "--keys", str(ACCOUNTS), "--distribution", draw, "--seed", str(seed)]
    found = load.ask(ports, seconds, [*options, "--clients", str(-(-CLIENTS // len(ports)))])
    facts = {"operations": found["requests"], "errors": found["errors"], "per_s": found["requests_per_second"]}
    return {**facts, **found["latency"]}


def loops(accounts: list[bytes], seeds: Iterator[int]) -> Callable[[], Iterator[tuple[bytes, int]]]:
    """Clients that add one to two keys of different groups: WATCH, GET and GET, MULTI, SET and SET, EXEC; five round trips."""

    def program() -> Iterator[tuple[bytes, int]]:
        prng = random.Random(next(seeds))
        while True:
            a, b = prng.sample(accounts, 2)
            yield encode(b"WATCH", a, b), 1
            values = yield encode(b"GET", a) + encode(b"GET", b), 2
            one, two = (int(line) for line in values.split(b"\r\n")[1:4:2])
            yield encode(b"MULTI"), 1
            yield encode(b"SET", a, b"%d" % (one - 1)) + encode(b"SET", b, b"%d" % (two + 1)), 2
            yield encode(b"EXEC"), 1
            yield b"", -1

    return program


def open_accounts(cluster: OurCluster, accounts: list[bytes]) -> None:
    """Every account has its money."""
    with Connection(cluster.nodes[0].port) as connection:
        for first in range(0, ACCOUNTS, 100):
            pairs = [(account, b"%d" % OPENING) for account in accounts[first : first + 100]]
            connection.command(b"MSET", *itertools.chain.from_iterable(pairs))


def total(cluster: OurCluster, accounts: list[bytes]) -> int:
    """All the money, at one moment."""
    request = encode(b"MGET", *accounts)
    with Connection(cluster.nodes[1].port) as connection:
        lines = connection.exchange_lines(request, 1 + 2 * ACCOUNTS).split(b"\r\n")
    return sum(int(line) for line in lines[2::2] if line)


def entries(cluster: OurCluster) -> int:
    """How many entries all logs have been given, those of the last command included."""
    time.sleep(nodes.FIGURES_SECONDS)
    return cluster.counter("chorale_entries_proposed_total")


def cpu_of(cluster: OurCluster, work: Callable[[], None]) -> float:
    """Nanoseconds of all nodes for some work."""
    before = [node.cpu_time() for node in cluster.nodes]
    work()
    return float(sum(node.cpu_time().since(b).best_ns for node, b in zip(cluster.nodes, before)))


def exec_ratio(cluster: OurCluster, keys: list[bytes], times: int) -> float:
    """CPU of an EXEC of ten commands, in terms of the same ten in a pipeline."""
    commands = b"".join(encode(b"SET", key, b"value") for key in keys)
    block = encode(b"MULTI") + commands + encode(b"EXEC")
    with Connection(cluster.nodes[0].port) as connection:

        def pipelined() -> None:
            for _ in range(times):
                connection.exchange(commands, len(keys) * len(OK))

        def blocks() -> None:
            for _ in range(times):
                connection.exchange_lines(block, 2 + 2 * len(keys))

        pipelined()
        return cpu_of(cluster, blocks) / cpu_of(cluster, pipelined)


def in_doubt(groups: int, seconds: float) -> tuple[float, float]:
    """How long keys were locked after the node died whose gateway coordinated, and p99 of its transfers; milliseconds.

    The accounts are in groups that other nodes lead, so that no group has to find another leader.
    """
    with OurCluster(nodes.OURS, groups, 1, count=4) as cluster:
        gateway = cluster.nodes[3]
        me = json.loads(cluster.page(gateway, "/cluster"))["answered_by"]
        others = [number for number, group in enumerate(cluster.view()["groups"]) if group["leader"] != me]
        ranges = nodes.keys_of_ranges(groups, ACCOUNTS // len(others) + 1)
        accounts = list(itertools.chain.from_iterable(ranges[number] for number in others))[:ACCOUNTS]
        open_accounts(cluster, accounts)
        p99 = Loop([gateway.port], CLIENTS, transfers(accounts, itertools.count(1))).run(seconds).quantile(0.99)
        loop = Loop([gateway.port], CLIENTS, transfers(accounts, itertools.count(100)))
        loop.start()
        loop.turn_until(time.perf_counter() + 1.0)
        # Whatever is locked is written, all at once: the last answer says how long it took.
        request = b"".join(encode(b"ADD", account, b"0") for account in accounts)
        with Connection(cluster.nodes[0].port) as connection:
            gateway.kill()
            took = []
            for _ in range(2):
                began = time.perf_counter()
                connection.exchange_lines(request, ACCOUNTS)
                took.append((time.perf_counter() - began) * 1_000)
        # What the same takes when nothing is locked is not the dead gateway's doing.
        return max(0.0, took[0] - took[1]), p99


def run(options: argparse.Namespace) -> None:
    """The measurement."""
    launches = [Launch("ours-3", nodes.OURS)]
    facts = record.environment(launches)
    clients = [1, 10, 50, 150]
    progress = record.Progress(options.rounds * 8 + 2 * len(clients) + 4)
    cells: list[dict[str, object]] = []
    results: dict[str, list[float]] = {}
    note: Callable[[Target, float], None] = lambda target, value: results.setdefault(target.name, []).append(value)
    watch: list[dict[str, object]] = []
    seeds = itertools.count(1)
    # By the names that the generator has for them.
    accounts = [b"bench:account:%012d" % number for number in range(ACCOUNTS)]
    with ExitStack() as stack:
        progress.say("starting the servers")
        three = stack.enter_context(OurCluster(nodes.OURS, options.groups, 1))
        ports = [node.port for node in three.nodes]
        load.fill(ports[:1], SHAPE)
        open_accounts(three, accounts)
        before = entries(three)
        for number in range(1, options.rounds + 1):
            for connections in (1, CLIENTS):
                told: dict[str, dict[str, float]] = {}
                requests = options.requests // (1 if connections == CLIENTS else 8)
                for name in list(COMMANDS)[:: 1 if number % 2 else -1]:
                    progress.step(f"round {number} of {options.rounds}, {name}, {connections} connections")
                    found = load.ask_requests(ports[:1], requests, [*SHAPE, *COMMANDS[name], "--clients", str(connections)])
                    after = entries(three)
                    told[name] = {
                        "per_s": found["requests_per_second"],
                        "p50_ms": found["latency"]["p50_ms"],
                        "entries_per_command": (after - before) / requests,
                    }
                    before = after
                    cells.append({"round": number, "command": name, "connections": connections, **told[name]})
                note(MGET_BYTES, round(told[READ_PAIR]["entries_per_command"], 2))
                if connections == 1:
                    note(MSET_LATENCY, told[PAIR]["p50_ms"] / told[SINGLE]["p50_ms"])
                    note(MGET_LATENCY, told[READ_PAIR]["p50_ms"] / told[READ]["p50_ms"])
                else:
                    note(MSET_RATE, told[PAIR]["per_s"] / (told[SINGLE]["per_s"] / 2))
        transfer_facts = {}
        for number in range(1, options.rounds + 1):
            both = {}
            for draw in DRAWS[:: 1 if number % 2 else -1]:
                progress.say(f"XFER, {draw}")
                both[draw] = transfer(ports, draw, options.seconds, number)
            uniform, zipf = (both[draw] for draw in DRAWS)
            note(XFER_ZIPF, zipf["per_s"] / uniform["per_s"])
            note(XFER_ABORTS, uniform["errors"] + zipf["errors"])
            transfer_facts[number] = dict(zip(DRAWS, (uniform, zipf)))
        progress.step("EXEC")
        ranges = nodes.keys_of_ranges(options.groups, 10)
        for _ in range(options.rounds):
            note(EXEC_ONE, exec_ratio(three, ranges[0], options.requests // 20))
            note(EXEC_MANY, exec_ratio(three, [keys[0] for keys in ranges[:: max(1, options.groups // 10)]][:10], options.requests // 20))
        for through in ("one node", "all nodes"):
            for count in clients:
                progress.step(f"WATCH, GET, MULTI, SET, EXEC: {count} clients through {through}")
                tally = Loop(ports if through == "all nodes" else ports[:1], count, loops(accounts, seeds)).run(options.seconds)
                watch.append({"through": through, "clients": count, **tally.facts()})
        wait_until(lambda: total(three, accounts) == ACCOUNTS * OPENING, 10.0, "no money was made or lost")
    progress.step("a gateway dies")
    for _ in range(options.rounds):
        doubt, p99 = in_doubt(options.groups, options.seconds)
        note(IN_DOUBT, doubt / p99)
        cells.append({"in_doubt_ms": doubt, "p99_ms": p99})
    progress.end()
    text = record.preamble("Transactions", facts) + report(results, cells, transfer_facts, watch)
    record.write(
        options.out, {"facts": facts, "cells": cells, "ratios": results, "transfers": transfer_facts, "watch": watch}, text
    )


def report(
    results: dict[str, list[float]],
    cells: list[dict[str, object]],
    transfer_facts: dict[int, dict[str, dict[str, float]]],
    watch: list[dict[str, object]],
) -> str:
    """The summary."""
    targets = [MSET_LATENCY, MSET_RATE, MGET_LATENCY, MGET_BYTES, XFER_ZIPF, XFER_ABORTS, IN_DOUBT, EXEC_ONE, EXEC_MANY]
    rows = []
    for target in targets:
        spread = record.spread(results[target.name])
        rows.append([target.name, record.shown(spread), target.verdict(spread["median"])])
    text = (
        "\nThree nodes with 64 groups of three replicas in memory, all on this machine with the clients; the middle of the "
        "rounds (smallest-largest).\n\n" + record.table(["ratio", "measured", "target"], rows) + "\n\n"
    )
    rows = [
        [str(cell["command"]), str(cell["connections"]), f"{cell['per_s']:,.0f}", f"{cell['p50_ms']:.3f}", f"{cell['entries_per_command']:.2f}"]
        for cell in cells
        if "command" in cell
    ]
    text += record.table(["one node", "connections", "/s", "p50 ms", "entries/command"], rows) + "\n\n"
    rows = [
        [f"XFER, {kind}", f"{facts['per_s']:,.0f}", f"{facts['p50_ms']:.2f}", f"{facts['p99_ms']:.2f}", f"{facts['errors']:.0f}"]
        for both in transfer_facts.values()
        for kind, facts in both.items()
    ]
    text += record.table([f"{CLIENTS} clients, all nodes", "/s", "p50 ms", "p99 ms", "errors"], rows) + "\n\n"
    columns = ["through", "clients", "per_s", "mean_ms", "p99_ms", "max_ms", "refused"]
    rows = [[str(row[column]) for column in columns] for row in watch]
    text += "WATCH, GET GET, MULTI, SET SET, EXEC over two groups; refused: a watched key had changed.\n\n"
    return text + record.table(columns, rows) + "\n"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each cell is measured")
    parser.add_argument("--requests", type=int, default=60_000, help="requests of a cell with 50 connections; an eighth of them with one")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long clients loop")
    parser.add_argument("--groups", type=int, default=64, help="groups of the cluster")
    parser.add_argument("--quick", action="store_true", help="few requests: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.requests, options.seconds = 1, 4_000, 1.0
    if options.rounds < 1 or options.requests < 20:
        parser.error("--rounds must be at least 1, --requests at least 20")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
