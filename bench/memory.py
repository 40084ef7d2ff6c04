#!/usr/bin/env python3
"""Compares resident memory per key and per collection, and the longest stall while a keyspace grows, with redis-server.

See README.md in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import record
from server import OURS, REDIS, Launch, Server, SetupError
from wire import Connection, WireError, encode

KEY_BYTES = 16
COUNTS = [1_000_000, 1_300_000, 1_700_000]
VALUES = [32, 1024]
# A batch is about this big: large enough to stream, small enough for two to be in flight.
BATCH_BYTES = 256 * 1024
# First in order, then in long steps; primes, so that they meet every key of nearly any number of keys.
STRIDES = [1, 7_368_787, 6_700_417]
PROBE_KEYS = 1000
PROBE_VALUE = b"p" * 16


def letters(size: int) -> bytes:
    """Value bytes that neither look like a number nor are all the same."""
    return bytes(random.Random(size).choices(b"abcdefghijklmnopqrstuvwxyz", k=size))


def sizes_of(value: int, overwrite: bool) -> range:
    """The sizes of the values: all the same at first, then anything from half to one and a half of that.

    The mean stays what it was, so that bytes per key before and after compare directly.
    """
    return range(value // 2, value + value // 2 + 1) if overwrite else range(value, value + 1)


def batches(keys: int, value: int, generation: int, batch: int | None = None) -> Iterator[tuple[bytes, int]]:
    """SET commands for every key once, in an order and with sizes that only the generation decides."""
    sizes = sizes_of(value, generation > 0)
    stride = STRIDES[generation % len(STRIDES)]
    if math.gcd(stride, keys) != 1:
        raise SetupError(f"{keys} keys are a multiple of {stride}: choose another number of keys")
    text = letters(sizes[-1])
    tails = {size: b"\r\n$%d\r\n%s\r\n" % (size, text[:size]) for size in sizes}
    per_batch = batch or max(1, BATCH_BYTES // (value + 40))
    choose = random.Random(generation)
    for start in range(0, keys, per_batch):
        count = min(per_batch, keys - start)
        places = range(start, start + count)
        chosen = [tails[size] for size in choose.choices(sizes, k=count)]
        head = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d%s"
        yield b"".join([head % (i * stride % keys, tail) for i, tail in zip(places, chosen)]), count


def load(server: Server, keys: int, value: int, generation: int, progress: record.Progress, what: str) -> float:
    """Writes every key once, checks that they are there, and returns how many seconds it took."""
    began = time.monotonic()
    with Connection(server.port) as connection:
        connection.pour(
            batches(keys, value, generation), lambda done: progress.say(f"{what}: {done:,} of {keys:,} keys")
        )
        took = time.monotonic() - began
        found = int(connection.command(b"DBSIZE"))
        if found != keys:
            raise SetupError(f"{server.launch.name} holds {found:,} keys where {keys:,} were set: it lost or evicted some")
        for index in (0, keys // 2, keys - 1):
            size = len(connection.command(b"GET", b"key:%012d" % index))
            if size not in sizes_of(value, generation > 0):
                raise SetupError(f"{server.launch.name} answered GET with {size} bytes that nobody had set")
    return took


def settled_bytes(server: Server, seconds: float) -> int:
    """Resident memory after a pause, as allocators hand pages back some time after they are free."""
    time.sleep(seconds)
    server.ensure_alive()
    return server.resident_bytes()


@dataclass(frozen=True)
class Resident:
    """One measurement of resident memory."""

    server: str
    value_bytes: int
    keys: int
    stage: str
    empty_bytes: int
    resident_bytes: int
    bytes_per_key: float
    load_s: float


def measure_resident(launch: Launch, value: int, keys: int, settle: float, progress: record.Progress) -> list[Resident]:
    """Loads one fresh server, then overwrites all keys twice; memory is read after the load and at the end."""
    results = []
    with Server(launch) as server:
        # A first request is part of being ready; what it makes resident belongs to no key.
        empty = settled_bytes(server, min(settle, 1.0))
        for generation, stage in enumerate(("loaded", "", "overwritten")):
            what = f"{launch.name}, {value} B values, {stage or 'first overwriting'}"
            progress.step(what)
            took = load(server, keys, value, generation, progress, what)
            if stage:
                resident = settled_bytes(server, settle)
                per_key = (resident - empty) / keys
                results.append(Resident(launch.name, value, keys, stage, empty, resident, per_key, took))
    return results


def run_resident(options: argparse.Namespace) -> None:
    """The `resident` mode."""
    launches = servers(options)
    facts = record.environment(launches)
    progress = record.Progress(len(launches) * len(options.values) * len(options.counts) * 3)
    results: list[Resident] = []
    stopped = False
    try:
        for value in options.values:
            for keys in options.counts:
                # One after the other, never at once: together they might not fit.
                pair = [measure_resident(launch, value, keys, options.settle, progress) for launch in launches]
                results += [result for side in pair for result in side]
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    text = record.preamble("Resident memory per key", facts)
    text += notes(options, stopped)
    text += (
        f"\nKeys of {KEY_BYTES} bytes. Bytes per key are the resident memory less that of the empty server, by the "
        "number of keys; averaged over the numbers of keys. Overhead is what is more than key and mean value. "
        "Overwritten: every key set twice more, to a size drawn evenly from half to one and a half of the first.\n\n"
    )
    rows = []
    summary: list[dict[str, object]] = []
    for value in options.values:
        for stage in ("loaded", "overwritten"):
            mine = [r for r in results if r.value_bytes == value and r.stage == stage]
            by_server = {n: [r.bytes_per_key for r in mine if r.server == n] for n in ("redis", "ours")}
            if not by_server["redis"] or not by_server["ours"]:
                continue
            redis, ours = (statistics.fmean(by_server[name]) for name in ("redis", "ours"))
            payload = KEY_BYTES + value
            ratios = [two / one for one, two in zip(by_server["redis"], by_server["ours"])]
            summary.append(
                {"value_bytes": value, "stage": stage, "redis": redis, "ours": ours, "ratio": ours / redis}
                | {"by_count": by_server, "ratio_by_count": ratios}
            )
            rows.append(
                [f"{value} B, {stage}", f"{redis:.1f}", f"{ours:.1f}", f"{ours / redis:.2f}"]
                + [f"{redis - payload:.1f}", f"{ours - payload:.1f}", f"{min(ratios):.2f}-{max(ratios):.2f}"]
            )
    headings = ["values", "bytes/key redis", "ours", "ratio", "overhead redis", "ours", "ratios by number of keys"]
    text += record.table(headings, rows) + "\n\n"
    text += record.table(
        ["each measurement", "keys", "server", "resident MiB", "empty MiB", "bytes/key", "last load s"],
        [
            [f"{r.value_bytes} B, {r.stage}", f"{r.keys:,}", r.server, f"{r.resident_bytes / 2**20:.1f}"]
            + [f"{r.empty_bytes / 2**20:.1f}", f"{r.bytes_per_key:.1f}", f"{r.load_s:.1f}"]
            for r in results
        ],
    )
    data = {"kind": "resident", **facts, "quick": options.quick, "stopped_early": stopped}
    data |= {"key_bytes": KEY_BYTES, "settle_s": options.settle, "summary": summary}
    record.write(options.out, data | {"runs": [asdict(r) for r in results]}, text + "\n")


# How many elements a command adds to a collection.
ELEMENTS_PER_COMMAND = 1000


@dataclass(frozen=True)
class Collection:
    """Collections of one kind and size: so many of them, and the words that add elements to one."""

    name: str
    collections: int
    elements: int
    command: bytes
    # The words of element number i of collection number c.
    words: Callable[[int, int], tuple[bytes, ...]]
    # How many of them go into one command.
    per_command: int = ELEMENTS_PER_COMMAND

    def key(self, number: int) -> bytes:
        """The key of one of them: as long as those of `resident`."""
        return b"key:%012d" % number


def member(number: int) -> bytes:
    """A member or field of a large collection: 16 bytes, as different from the one before as can be."""
    return b"member%010d" % (number * 7_368_787 % 10_000_000_000)


def entry(_: int, number: int) -> tuple[bytes, ...]:
    """An entry of a stream: its id, ten milliseconds behind the one before, and two fields."""
    return (b"%d-0" % (1_700_000_000_000 + 10 * number), b"temperature", b"%d.%d" % (15 + number % 9, number % 10), b"sensor", member(number))


def shapes(collections: int, large: int) -> list[Collection]:
    """What is measured: many small collections, which have a compact form, and one large one of each kind."""
    word = b"element-%06d"
    return [
        Collection("hashes of 10 fields", collections, 10, b"HSET", lambda c, i: (b"field%d" % i, b"value-%06d" % c)),
        Collection("lists of 50", collections // 5, 50, b"RPUSH", lambda c, i: (word % (c * 31 + i),)),
        Collection("sets of 50 strings", collections // 5, 50, b"SADD", lambda c, i: (word % (c * 31 + i),)),
        Collection("sets of 50 integers", collections // 5, 50, b"SADD", lambda c, i: (b"%d" % (c * 31 + i * 7),)),
        Collection(
            "sorted sets of 100", collections // 10, 100, b"ZADD", lambda c, i: (b"%d" % (c + i * 13), word % (c * 31 + i))
        ),
        Collection("one list", 1, large, b"RPUSH", lambda _, i: (member(i),)),
        Collection("one set", 1, large, b"SADD", lambda _, i: (member(i),)),
        Collection("one hash", 1, large, b"HSET", lambda _, i: (member(i), b"value-%010d" % i)),
        Collection("one sorted set", 1, large, b"ZADD", lambda _, i: (b"%d" % (i * 7919 % large), member(i))),
        Collection("streams of 50", collections // 5, 50, b"XADD", entry, 1),
        Collection("one stream", 1, large, b"XADD", entry, 1),
    ]


def additions(shape: Collection) -> Iterator[tuple[bytes, int]]:
    """The commands that make all collections of one shape, in batches."""
    batch: list[bytes] = []
    size = 0
    for number in range(shape.collections):
        for start in range(0, shape.elements, shape.per_command):
            elements = range(start, min(start + shape.per_command, shape.elements))
            words = (word for element in elements for word in shape.words(number, element))
            batch.append(encode(shape.command, shape.key(number), *words))
            size += len(batch[-1])
            if size >= BATCH_BYTES:
                yield b"".join(batch), len(batch)
                batch, size = [], 0
    if batch:
        yield b"".join(batch), len(batch)


def used_bytes(connection: Connection) -> int:
    """What the server says that its data take."""
    for line in connection.command(b"INFO", b"memory").split(b"\r\n"):
        if line.startswith(b"used_memory:"):
            return int(line.partition(b":")[2])
    raise WireError("INFO memory has no used_memory")


@dataclass(frozen=True)
class Collected:
    """One measurement of collections."""

    server: str
    shape: str
    collections: int
    elements: int
    used_bytes: float
    resident_bytes: float
    encoding: str
    load_s: float


def measure_collections(launch: Launch, shape: Collection, settle: float, progress: record.Progress) -> Collected:
    """Fills one fresh server with one shape; the numbers are per collection, without what the empty server took."""
    what = f"{launch.name}, {shape.name}"
    progress.step(what)
    with Server(launch) as server, Connection(server.port) as connection:
        empty_resident = settled_bytes(server, min(settle, 1.0))
        empty_used = used_bytes(connection)
        began = time.monotonic()
        for data, commands in additions(shape):
            # Each answers a line, and XADD an id, which has two; an error is a line too.
            reply = connection.exchange_lines(data, commands * (2 if shape.command == b"XADD" else 1))
            if b"\r\n-" in b"\r\n" + reply:
                raise WireError(f"{what}: a command was refused: {reply[reply.index(b'-') :][:200]!r}")
        took = time.monotonic() - began
        found = int(connection.command(b"DBSIZE"))
        counts = {b"HSET": b"HLEN", b"RPUSH": b"LLEN", b"SADD": b"SCARD", b"ZADD": b"ZCARD", b"XADD": b"XLEN"}
        last = shape.key(shape.collections - 1)
        elements = int(connection.command(counts[shape.command], last))
        if (found, elements) != (shape.collections, shape.elements):
            raise SetupError(
                f"{launch.name} holds {found:,} collections, the last one of {elements:,} elements, where "
                f"{shape.collections:,} of {shape.elements:,} were made"
            )
        encoding = connection.command(b"OBJECT", b"ENCODING", last).decode()
        resident = settled_bytes(server, settle) - empty_resident
        used = used_bytes(connection) - empty_used
        return Collected(
            server=launch.name,
            shape=shape.name,
            collections=shape.collections,
            elements=shape.elements,
            used_bytes=used / shape.collections,
            resident_bytes=resident / shape.collections,
            encoding=encoding,
            load_s=took,
        )


def run_collections(options: argparse.Namespace) -> None:
    """The `collections` mode."""
    launches = servers(options)
    facts = record.environment(launches)
    measured = shapes(options.collections, options.elements)
    progress = record.Progress(len(launches) * len(measured))
    pairs: list[dict[str, Collected]] = []
    stopped = False
    try:
        for shape in measured:
            pairs.append({launch.name: measure_collections(launch, shape, options.settle, progress) for launch in launches})
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    text = record.preamble("Memory per collection", facts)
    text += notes(options, stopped)
    text += (
        f"\nBytes per collection, keys of {KEY_BYTES} bytes included: what `INFO` calls used_memory, and resident memory, "
        "each less that of the empty server.\n\n"
    )
    rows = []
    for pair in pairs:
        redis, ours = pair["redis"], pair["ours"]
        row = [f"{ours.collections:,}", redis.shape, f"{redis.elements:,}"]
        for one, two in ((redis.used_bytes, ours.used_bytes), (redis.resident_bytes, ours.resident_bytes)):
            row += [f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}" if one > 0 else "-"]
        rows.append([*row, redis.encoding, ours.encoding])
    headings = ["number", "collections", "elements each", "used bytes redis", "ours", "ratio"]
    headings += ["resident bytes redis", "ours", "ratio", "encoding redis", "ours"]
    text += record.table(headings, rows)
    data = {"kind": "collections", **facts, "quick": options.quick, "stopped_early": stopped}
    data |= {"key_bytes": KEY_BYTES, "settle_s": options.settle}
    record.write(options.out, data | {"runs": [asdict(r) for pair in pairs for r in pair.values()]}, text + "\n")


@dataclass(frozen=True)
class Stall:
    """One slow probe: how long, of that how long the kernel kept server and prober waiting for a core, and when."""

    latency_us: float
    server_waited_us: float
    prober_waited_us: float
    command: str
    keys_loaded: int
    second: float

    @property
    def unexplained_us(self) -> float:
        """What is left when time spent waiting for a core is taken off.

        A lower bound of the server's part: both may have waited at once, or after the reply.
        """
        return max(0.0, self.latency_us - self.server_waited_us - self.prober_waited_us)


@dataclass(frozen=True)
class Growth:
    """What the prober saw in one run."""

    server: str
    control: bool
    round: int
    keys: int
    seconds: float
    probes: int
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    max_unexplained_us: float
    worst: list[Stall]


class WaitClock:
    """Reads how long tasks have waited for a core so far; files stay open to keep the reading short."""

    def __init__(self, pid: int) -> None:
        self._files: list[int] = []
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                self._files.append(os.open(f"/proc/{pid}/task/{task}/schedstat", os.O_RDONLY))
        except OSError:
            self.close()

    def read(self) -> list[int]:
        """Nanoseconds per task; empty where the kernel keeps no scheduler statistics."""
        return [int(os.pread(file, 64, 0).split()[1]) for file in self._files]

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            os.close(file)
        self._files = []


def pour_keys(port: int, keys: int, pipeline: int, loaded: Any, outcome: Any) -> None:
    """The loader process: its own interpreter, so that loading cannot hold the prober up."""

    # The prober's process decides when to stop, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def note(done: int) -> None:
        loaded.value = done

    try:
        with Connection(port) as connection:
            connection.pour(batches(keys, 16, 0, pipeline), note)
        outcome.put("")
    except (WireError, OSError, SetupError) as error:
        outcome.put(f"loading failed: {error}")


def probe_while_loading(
    probed: Server, loading: Server, control: bool, number: int, options: argparse.Namespace, progress: record.Progress
) -> Growth:
    """Loads keys into one server while a connection probes one, which may be another, about once a millisecond."""
    what = f"{probed.launch.name}, round {number}" + (", control" if control else "")
    progress.step(what)
    commands: list[tuple[str, bytes, int]] = []
    with Connection(probed.port) as connection:
        for index in range(PROBE_KEYS):
            key = b"probe:%010d" % index
            set_it = encode(b"SET", key, PROBE_VALUE)
            connection.exchange(set_it, 5)
            commands.append(("SET", set_it, 5))
            commands.append(("PING", encode(b"PING"), 7))
            commands.append(("GET", encode(b"GET", key), 5 + len(PROBE_VALUE) + 2))
        loaded = multiprocessing.Value("Q", 0, lock=False)
        outcome: Any = multiprocessing.SimpleQueue()
        loader = multiprocessing.Process(
            target=pour_keys, args=(loading.port, options.keys, options.pipeline, loaded, outcome), daemon=True
        )
        server_clock, own_clock = WaitClock(probed.pid), WaitClock(os.getpid())
        latencies: list[float] = []
        worst: list[Stall] = []
        worst_unexplained = 0.0
        gc.disable()
        try:
            loader.start()
            began = due = time.perf_counter()
            turn = 0
            while loader.is_alive():
                # Asking for the loader's state and saying how far it is costs; once in a while will do.
                for _ in range(100):
                    name, request, reply_size = commands[turn % len(commands)]
                    turn += 1
                    server_before, own_before = server_clock.read(), own_clock.read()
                    start = time.perf_counter_ns()
                    reply = connection.exchange(request, reply_size)
                    latency = (time.perf_counter_ns() - start) / 1000
                    if reply[:1] == b"-":
                        raise WireError(f"{name} was refused by {probed.launch.name}: {reply[:200]!r}")
                    server_waited, own_waited = (
                        max((now - then for now, then in zip(clock.read(), before)), default=0) / 1000
                        for clock, before in ((server_clock, server_before), (own_clock, own_before))
                    )
                    latencies.append(latency)
                    second = time.perf_counter() - began
                    stall = Stall(latency, server_waited, own_waited, name, int(loaded.value), second)
                    worst_unexplained = max(worst_unexplained, stall.unexplained_us)
                    if len(worst) < 20 or latency > worst[-1].latency_us:
                        worst = sorted([*worst, stall], key=lambda s: -s.latency_us)[:20]
                    due = max(due + options.interval / 1000, time.perf_counter())
                    time.sleep(max(0.0, due - time.perf_counter()))
                progress.say(f"{what}: {int(loaded.value):,} of {options.keys:,} keys")
            seconds = time.perf_counter() - began
        finally:
            gc.enable()
            server_clock.close()
            own_clock.close()
            if loader.is_alive():
                loader.terminate()
            loader.join()
    failure = outcome.get() if not outcome.empty() else "the loader ended without a word"
    if failure:
        loading.ensure_alive()
        raise WireError(f"{failure} (server {loading.launch.name})")
    ordered = sorted(latencies)

    def percentile(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Growth(
        server=probed.launch.name,
        control=control,
        round=number,
        keys=options.keys,
        seconds=seconds,
        probes=len(ordered),
        p50_us=percentile(0.5),
        p99_us=percentile(0.99),
        p999_us=percentile(0.999),
        max_us=ordered[-1],
        max_unexplained_us=worst_unexplained,
        worst=worst,
    )


def run_growth(options: argparse.Namespace) -> None:
    """The `growth` mode."""
    launches = servers(options)
    facts = record.environment(launches)
    progress = record.Progress(options.rounds * len(launches) * 2)
    results: list[Growth] = []
    stopped = False
    try:
        for number in range(1, options.rounds + 1):
            for launch in launches if number % 2 else launches[::-1]:
                with Server(launch) as server:
                    results.append(probe_while_loading(server, server, False, number, options, progress))
                with Server(launch) as idle, Server(launch) as busy:
                    results.append(probe_while_loading(idle, busy, True, number, options, progress))
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    text = record.preamble("Stalls while the keyspace grows", facts)
    text += notes(options, stopped)
    text += (
        f"\nOne connection loads {options.keys:,} keys of 16 bytes with values of 16 bytes, {options.pipeline} commands "
        f"a batch; another sends SET, PING or GET every {options.interval:g} ms. Control: the probed server is idle "
        "while another one is loaded, so what it shows is the machine's. Less waiting: time that the kernel kept the "
        "server or the prober waiting for a core is taken off, a lower bound. Medians of the rounds (smallest-largest).\n\n"
    )
    rows = []
    summary: dict[str, dict[str, dict[str, float]]] = {}
    columns = ("max_us", "max_unexplained_us", "p999_us", "p99_us", "p50_us")
    for launch in launches:
        for control in (False, True):
            mine = [r for r in results if r.server == launch.name and r.control == control]
            if mine:
                name = launch.name + (", control" if control else ", growing")
                summary[name] = {c: record.spread([getattr(r, c) for r in mine]) for c in columns}
                seconds = record.shown(record.spread([r.seconds for r in mine]), ".1f")
                rows.append([name, *(record.shown(summary[name][c], ".0f") for c in columns), seconds])
    headings = ["probed server", "longest µs", "longest less waiting µs", "p99.9 µs", "p99 µs", "p50 µs", "load s"]
    text += record.table(headings, rows) + "\n\n"
    pairs: dict[int, dict[str, Growth]] = {}
    for result in results:
        if not result.control:
            pairs.setdefault(result.round, {})[result.server] = result
    for column, label in (("max_us", "longest"), ("max_unexplained_us", "longest less waiting")):
        ratios = [
            getattr(pair["ours"], column) / getattr(pair["redis"], column)
            for pair in pairs.values()
            if len(pair) == 2 and getattr(pair["redis"], column) > 0
        ]
        if ratios:
            text += f"Ratio ours by redis, {label}: {record.shown(record.spread(ratios))}\n\n"
    text += "The five slowest probes of each growing run, to see whether they come at table sizes:\n\n"
    text += record.table(
        ["run", "command", "keys loaded", "µs", "server waited µs", "prober waited µs"],
        [
            [f"{r.server}, round {r.round}", s.command, f"{s.keys_loaded:,}", f"{s.latency_us:.0f}"]
            + [f"{s.server_waited_us:.0f}", f"{s.prober_waited_us:.0f}"]
            for r in results
            if not r.control
            for s in r.worst[:5]
        ],
    )
    data = {"kind": "growth", **facts, "quick": options.quick, "stopped_early": stopped}
    data |= {"keys": options.keys, "pipeline": options.pipeline, "interval_ms": options.interval, "summary": summary}
    record.write(options.out, data | {"runs": [asdict(r) for r in results]}, text + "\n")


def servers(options: argparse.Namespace) -> list[Launch]:
    """Both servers; neither is pinned."""
    return [Launch("redis", options.redis, 1), Launch("ours", options.ours, options.workers)]


def notes(options: argparse.Namespace, stopped: bool) -> str:
    """What a reader must know about an incomplete record."""
    text = "- A quick run: too small to compare anything\n" if options.quick else ""
    return text + ("- Stopped early: only what was complete is shown\n" if stopped else "")


def numbers(text: str) -> list[int]:
    """A list of positive numbers by commas."""
    found = [int(part) for part in text.split(",")]
    if not found or min(found) < 2:
        raise ValueError(text)
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--ours", default=OURS, help="our server's command line, from the repository root")
    common.add_argument("--redis", default=REDIS, help="the command line of the server to compare with")
    common.add_argument("--workers", type=int, default=1, help="workers of our server")
    common.add_argument("--quick", action="store_true", help="tiny: shows that it works, not how good it is")
    common.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    modes = parser.add_subparsers(dest="mode", required=True)
    resident = modes.add_parser(
        "resident", parents=[common], formatter_class=formatter, help="resident bytes per key"
    )
    resident.add_argument("--counts", type=numbers, default=COUNTS, help="numbers of keys, averaged over")
    resident.add_argument("--values", type=numbers, default=VALUES, help="value sizes in bytes")
    resident.add_argument("--settle", type=float, default=12.0, help="seconds between the last write and the reading")
    collections = modes.add_parser(
        "collections", parents=[common], formatter_class=formatter, help="bytes per hash, list, set and sorted set"
    )
    collections.add_argument("--collections", type=int, default=500_000, help="hashes of 10; fewer of larger collections")
    collections.add_argument("--elements", type=int, default=1_000_000, help="elements of a large collection")
    collections.add_argument("--settle", type=float, default=12.0, help="seconds between the last write and the reading")
    growth = modes.add_parser(
        "growth", parents=[common], formatter_class=formatter, help="longest stall while keys are loaded"
    )
    growth.add_argument("--keys", type=int, default=5_000_000, help="keys to load")
    growth.add_argument("--pipeline", type=int, default=64, help="commands in a batch of the loader")
    growth.add_argument("--interval", type=float, default=1.0, help="milliseconds between probes")
    growth.add_argument("--rounds", type=int, default=3, help="how often each run is repeated")
    options = parser.parse_args(arguments)
    if options.quick:
        options.counts, options.settle = [10_000, 13_000, 17_000], 0.5
        options.keys, options.rounds = 100_000, 1
        options.collections, options.elements = 1_000, 2_000
    if options.mode == "growth" and (options.keys < 2 or options.pipeline < 1 or options.rounds < 1):
        parser.error("--keys, --pipeline and --rounds must be positive")
    if options.mode == "collections" and (options.collections < 10 or options.elements < 1):
        parser.error("--collections must be 10 or more, and --elements positive")
    return options


def run(options: argparse.Namespace) -> None:
    """The measurement that was asked for."""
    modes = {"resident": run_resident, "collections": run_collections, "growth": run_growth}
    modes[options.mode](options)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
