#!/usr/bin/env python3
"""Measures scripts over two groups of a three-node cluster that few keys keep from each other, beside MULTI and EXEC of the same keys.

Clients at all nodes take one from a key and add it to another one. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import nodes
import record
from nodes import OurCluster, wait_until
from server import Launch
from transactions import Loop, Tally
from wire import Connection, encode

MOVE = b"redis.call('INCRBY', KEYS[1], -1) return redis.call('INCRBY', KEYS[2], 1)"
# The same, which names its keys only as it goes on.
ROAM = b"redis.call('INCRBY', ARGV[1], -1) return redis.call('INCRBY', ARGV[2], 1)"
DECLARED, UNDECLARED, BLOCK = "EVALSHA, keys declared", "EVALSHA, not declared", "MULTI, EXEC"
WORKLOADS = (DECLARED, UNDECLARED, BLOCK)
COUNTERS = {
    "retries": "chorale_transaction_retries_total",
    "on_copies": "chorale_scripts_on_copies_total",
    "as_transactions": "chorale_scripts_as_transactions_total",
}

Program = Callable[[], Iterator[tuple[bytes, int]]]


@dataclass
class Fairness:
    """How often each client was served."""

    served: list[int]

    def ratio(self) -> float:
        """The least by the most."""
        return min(self.served) / max(1, max(self.served))


def moves(what: str, digits: dict[str, bytes], keys: list[bytes], seeds: Iterator[int], fairness: Fairness) -> Program:
    """Clients that move one from a key to another one of another group."""

    def program() -> Iterator[tuple[bytes, int]]:
        seed = next(seeds)
        prng, place = random.Random(seed), len(fairness.served)
        fairness.served.append(0)
        while True:
            source, target = prng.sample(keys, 2)
            if what == BLOCK:
                block = encode(b"MULTI") + encode(b"INCRBY", source, b"-1") + encode(b"INCRBY", target, b"1") + encode(b"EXEC")
                yield block, 4
            else:
                yield encode(b"EVALSHA", digits[what], b"2" if what == DECLARED else b"0", source, target), 1
            fairness.served[place] += 1
            yield b"", -1

    return program


def total(cluster: OurCluster, keys: list[bytes]) -> int:
    """What all keys hold at one moment: nothing, as whatever is taken is added."""
    with Connection(cluster.nodes[1].port) as connection:
        lines = connection.exchange_lines(encode(b"MGET", *keys), 1 + 2 * len(keys)).split(b"\r\n")
    return sum(int(line) for line in lines[2::2] if line)


def measure(cluster: OurCluster, program: Program, clients: int, fairness: Fairness, seconds: float) -> dict[str, float]:
    """One run."""
    before = {name: cluster.counter(counter) for name, counter in COUNTERS.items()}
    tally: Tally = Loop([node.port for node in cluster.nodes], clients, program).run(seconds)
    counted = {name: cluster.counter(counter) - before[name] for name, counter in COUNTERS.items()}
    if not tally.millis:
        raise SystemExit("nobody was served")
    errors = {"error": tally.errors[0]} if tally.errors else {}
    each = counted["retries"] / max(1, tally.done)
    return {**tally.facts(), **counted, "retries_each": round(each, 3), "fairness": round(fairness.ratio(), 3), **errors}  # type: ignore[dict-item]


def run(options: argparse.Namespace) -> None:
    """The measurement."""
    facts = record.environment([Launch("three nodes", nodes.OURS)])
    cells = [(keys, clients) for keys in options.keys for clients in options.clients]
    progress = record.Progress(options.rounds * len(cells) * len(WORKLOADS))
    rows: list[dict[str, object]] = []
    seeds = itertools.count(1)
    with OurCluster(nodes.OURS, options.groups, options.workers) as cluster:
        with Connection(cluster.nodes[0].port) as connection:
            digits = {name: connection.command(b"SCRIPT", b"LOAD", text) for name, text in ((DECLARED, MOVE), (UNDECLARED, ROAM))}
        # As many of each group as there can be: most pairs are of two groups.
        ranges = nodes.keys_of_ranges(options.groups, -(-max(options.keys) // options.groups))
        all_keys = list(itertools.chain.from_iterable(zip(*ranges)))
        with Connection(cluster.nodes[0].port) as connection:
            connection.command(b"MSET", *itertools.chain.from_iterable((key, b"0") for key in all_keys))
        for number in range(1, options.rounds + 1):
            for count, clients in cells:
                for what in WORKLOADS[:: 1 if number % 2 else -1]:
                    progress.step(f"round {number} of {options.rounds}: {what}, {clients} clients, {count} keys")
                    fairness, keys = Fairness([]), all_keys[:count]
                    program = moves(what, digits, keys, seeds, fairness)
                    found = measure(cluster, program, clients, fairness, options.seconds)
                    rows.append({"round": number, "keys": count, "clients": clients, "what": what, **found})
        wait_until(lambda: total(cluster, all_keys) == 0, 10.0, "whatever was taken was added")
    progress.end()
    text = record.preamble("Contention of scripts", facts) + report(options, rows)
    record.write(options.out, {"kind": "contention", **facts, "rows": rows}, text)


def report(options: argparse.Namespace, rows: list[dict[str, object]]) -> str:
    """The summary."""
    shown = []
    for count in options.keys:
        for clients in options.clients:
            for what in WORKLOADS:
                mine = [row for row in rows if (row["keys"], row["clients"], row["what"]) == (count, clients, what)]
                cells = [str(count), str(clients), what]
                for name, form in (("per_s", ",.0f"), ("p50_ms", ".2f"), ("p99_ms", ".2f"), ("max_ms", ".1f"), ("retries_each", ".2f"), ("fairness", ".2f")):
                    cells.append(record.shown(record.spread([float(str(row[name])) for row in mine]), form))
                shown.append([*cells, str(sum(int(str(row["errors"])) for row in mine))])
    text = (
        f"\nThree nodes, {options.groups} groups, {options.workers} worker(s) each, all on this machine with the clients. Each client is at one of the nodes, "
        f"draws two of the keys, and waits for the answer. The median of {options.rounds} rounds (smallest-largest). Retries are counted for each operation; fairness is the "
        "least of what a client was served by the most. Nothing was made or lost.\n\n"
    )
    return text + record.table(["keys", "clients", "", "/s", "p50 ms", "p99 ms", "max ms", "retries", "fairness", "errors"], shown) + "\n"


def numbers(text: str) -> list[int]:
    """A list such as 10,1000."""
    return [int(number) for number in text.split(",")]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each cell is measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long clients loop")
    parser.add_argument("--groups", type=int, default=6, help="groups of the cluster")
    parser.add_argument("--workers", type=int, default=1, help="workers of each node")
    parser.add_argument("--keys", type=numbers, default=[10, 1000], help="how many keys there are, by commas")
    parser.add_argument("--clients", type=numbers, default=[16, 48], help="how many clients, by commas")
    parser.add_argument("--quick", action="store_true", help="short: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    if min(options.rounds, options.seconds, options.groups, options.workers, *options.clients) <= 0 or min(options.keys) < 2:
        parser.error("all must be positive, and --keys at least 2")
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
