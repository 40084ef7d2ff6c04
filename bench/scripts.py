#!/usr/bin/env python3
"""Compares scripts and streams with redis-server: one worker beside one redis-server, and over three nodes a script beside a SET.

See README.md in this folder.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import load
import memory
import nodes
import record
from nodes import OurCluster
from server import OURS, REDIS, Launch, Process, Server, SetupError
from wire import Connection, WireError, encode

KEYS = 100_000
VALUE = b"x" * 100
CONNECTIONS = 50
PIPELINES = (1, 16)
# What a ratio may be at most.
SCRIPTS_TARGET, STREAMS_TARGET, NODES_TARGET, BYTES_TARGET = 1.2, 1.0, 1.5, 1.0

# redis-benchmark replaces `__rand_int__` by 12 digits.
KEY = "bench:__rand_int__"
STREAM = b"bench:stream"
TWO_COMMANDS = "redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1])"
# At most so many calls in so many milliseconds: the scripts that most applications have.
RATE_LIMITER = """local calls = redis.call('INCR', KEYS[1])
if calls == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if calls > tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
return {1, tonumber(ARGV[1]) - calls}"""
LIMITS = ("100", "60000")

EVAL, EVALSHA = "EVAL of GET and SET", "EVALSHA of a rate limiter"
XADD, XADD_TRIMMED = "XADD", "XADD MAXLEN ~ 10000"
# One entry each, and many: what each consumer takes before it acknowledges.
GROUP, GROUP_OF_16 = "XREADGROUP and XACK", "XREADGROUP COUNT 16 and XACK of 16"
COUNTS = {GROUP: 1, GROUP_OF_16: 16}
# Ids of one length, so that a reply's length says what is in it.
FIRST_ID = 1_000_000_000_000

SECTIONS = ("scripts", "streams", "nodes", "bytes")


@dataclass(frozen=True)
class Cell:
    """One workload at one depth of pipeline."""

    section: str
    what: str
    pipeline: int

    @property
    def name(self) -> str:
        return f"{self.what}, pipeline {self.pipeline}"


CELLS = [
    *(Cell("scripts", what, pipeline) for pipeline in PIPELINES for what in (EVAL, EVALSHA)),
    *(Cell("streams", what, pipeline) for pipeline in PIPELINES for what in (XADD, XADD_TRIMMED, GROUP)),
    Cell("streams", GROUP_OF_16, 1),
]
# Over three nodes a script of one group is compared with SET.
NODE_SCRIPTS = (EVAL, EVALSHA)


@dataclass(frozen=True)
class Run:
    """One run of one cell: of commands, or where groups read, of entries."""

    cell: str
    server: str
    round: int
    order: int
    commands: int
    cpu_us: float
    per_s: float
    generator_busy: float


def words(what: str, port: int) -> list[str]:
    """What redis-benchmark sends."""
    if what == "SET":
        return ["SET", KEY, VALUE.decode()]
    if what == EVAL:
        return ["EVAL", TWO_COMMANDS, "1", KEY, VALUE.decode()]
    if what == EVALSHA:
        with Connection(port) as connection:
            sha = connection.command(b"SCRIPT", b"LOAD", RATE_LIMITER.encode()).decode()
        return ["EVALSHA", sha, "1", f"limit:{KEY}", *LIMITS]
    trimmed = ["MAXLEN", "~", "10000"] if what == XADD_TRIMMED else []
    return ["XADD", STREAM.decode(), *trimmed, "*", "field", VALUE.decode()]


# --- consumers of a group, which redis-benchmark cannot be --------------------------------------------


def entry_id(number: int) -> bytes:
    """The id of an entry."""
    return b"%d-0" % (FIRST_ID + number)


def fill_stream(port: int, entries: int) -> None:
    """A stream of so many entries, and a group that has read none."""
    reply = len(b"$%d\r\n%s\r\n" % (len(entry_id(0)), entry_id(0)))
    with Connection(port) as connection:
        connection.command(b"UNLINK", STREAM)
        for start in range(0, entries, 1000):
            batch = range(start, min(start + 1000, entries))
            data = b"".join(encode(b"XADD", STREAM, entry_id(number), b"field", VALUE) for number in batch)
            if len(connection.exchange(data, reply * len(batch))) != reply * len(batch):
                raise WireError("an XADD was not answered with the id that it gave")
        connection.command(b"XGROUP", b"CREATE", STREAM, b"group", b"0")


class Consumer:
    """One connection of a group: it reads, and acknowledges what it got, in turn."""

    def __init__(self, port: int, number: int, count: int, pipeline: int, turns: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.count, self.pipeline, self.turns = count, pipeline, turns
        name = b"consumer-%d" % number
        self.read = encode(b"XREADGROUP", b"GROUP", b"group", name, b"COUNT", b"%d" % count, b"STREAMS", STREAM, b">") * pipeline
        head = b"*1\r\n*2\r\n$%d\r\n%s\r\n*%d\r\n" % (len(STREAM), STREAM, count)
        entry = b"*2\r\n$15\r\n%s\r\n*2\r\n$5\r\nfield\r\n$%d\r\n%s\r\n" % (entry_id(0), len(VALUE), VALUE)
        self.head_bytes, self.entry_bytes = len(head), len(entry)
        self.id_at, self.id_bytes = entry.index(entry_id(0)), len(entry_id(0))
        self.reply_bytes = self.head_bytes + count * self.entry_bytes
        self.acknowledged = b":%d\r\n" % count * pipeline
        self.data, self.is_reading = b"", True

    def begin(self) -> None:
        """Reads."""
        self.data, self.is_reading = b"", True
        self.link.sendall(self.read)

    def on_readable(self) -> bool:
        """Takes what came; whether the last turn is over."""
        more = self.link.recv(1 << 20)
        if not more:
            raise WireError("the server closed the connection")
        self.data += more
        if self.is_reading:
            if len(self.data) < self.pipeline * self.reply_bytes:
                # An error, or the end of the stream, is shorter, and would be awaited for ever.
                if not self.data.startswith(b"*1\r\n"[: len(self.data)]):
                    raise WireError(f"XREADGROUP was answered {self.data[:100]!r}")
                return False
            acknowledgements = []
            for reply in range(self.pipeline):
                first = reply * self.reply_bytes + self.head_bytes + self.id_at
                places = (first + number * self.entry_bytes for number in range(self.count))
                ids = [self.data[place : place + self.id_bytes] for place in places]
                acknowledgements.append(encode(b"XACK", STREAM, b"group", *ids))
            self.data, self.is_reading = b"", False
            self.link.sendall(b"".join(acknowledgements))
            return False
        if len(self.data) < len(self.acknowledged):
            return False
        if self.data != self.acknowledged:
            raise WireError(f"XACK was answered {self.data[:100]!r}")
        self.turns -= 1
        if not self.turns:
            return True
        self.begin()
        return False


def consume(port: int, count: int, pipeline: int, turns: int) -> tuple[float, float]:
    """All consumers read and acknowledge, so many turns each. Returns the seconds that took, and the share of a core it was busy."""
    with selectors.DefaultSelector() as selector:
        consumers = [Consumer(port, number, count, pipeline, turns) for number in range(CONNECTIONS)]
        try:
            began, cpu = time.monotonic(), time.process_time()
            for consumer in consumers:
                selector.register(consumer.link, selectors.EVENT_READ, consumer)
                consumer.begin()
            left = len(consumers)
            while left:
                ready = selector.select(30.0)
                if not ready:
                    raise WireError("the server did not answer a consumer for 30 s")
                for key, _ in ready:
                    if key.data.on_readable():
                        selector.unregister(key.data.link)
                        left -= 1
            seconds = time.monotonic() - began
            return seconds, (time.process_time() - cpu) / seconds
        finally:
            for consumer in consumers:
                consumer.link.close()


# --- one worker beside one redis-server, and nodes ----------------------------------------------------


def ask(port: int, cell: Cell, commands: int) -> tuple[int, float, float]:
    """Runs the load; what it came to: commands (of groups entries), a second, and how busy the generator was."""
    if cell.what in COUNTS:
        count = COUNTS[cell.what]
        turns = max(1, commands // (CONNECTIONS * cell.pipeline * count))
        seconds, busy = consume(port, count, cell.pipeline, turns)
        entries = turns * CONNECTIONS * cell.pipeline * count
        return entries, entries / seconds, busy
    options = ["-c", str(CONNECTIONS), "-P", str(cell.pipeline), "-r", str(KEYS), *words(cell.what, port)]
    found = load.ask_redis_benchmark(port, commands, options)
    return commands, found["requests_per_second"], found["client"]["busiest_thread"]


def prepare(port: int, cell: Cell, commands: int) -> None:
    """Makes the stream what it should be before so many commands."""
    if cell.what in COUNTS:
        fill_stream(port, max(commands, CONNECTIONS * cell.pipeline * COUNTS[cell.what]))
    elif cell.section == "streams":
        with Connection(port) as connection:
            connection.command(b"UNLINK", STREAM)


def measure(cell: Cell, name: str, port: int, processes: list[Process], commands: int, number: int, order: int) -> Run:
    """One run of one cell."""
    prepare(port, cell, commands)
    before = [process.cpu_time() for process in processes]
    done, per_s, busy = ask(port, cell, commands)
    cpu = sum(process.cpu_time().since(then).best_ns for process, then in zip(processes, before))
    return Run(cell.name, name, number, order, done, cpu / 1000 / done, per_s, busy)


def calibrate(ports: list[int], cell: Cell, seconds: float) -> int:
    """How many commands keep the faster one busy for so long."""
    pilot = max(200, int(min(seconds, 1.0) * 2000)) * cell.pipeline
    rates = []
    for port in ports:
        prepare(port, cell, pilot)
        rates.append(ask(port, cell, pilot)[1])
    return max(pilot, int(max(rates) * seconds) // cell.pipeline * cell.pipeline)


def one_node(options: argparse.Namespace, cells: list[Cell], progress: record.Progress, runs: list[Run]) -> None:
    """All rounds of both servers, which run at the same time and are measured in turn."""
    core = None if options.no_pin else options.server_core
    redis, ours = Launch("redis", options.redis, 1, core), Launch("ours", options.ours, 1, core)
    commands: dict[Cell, int] = {}
    for number in range(1, options.rounds + 1):
        with Server(redis) as first, Server(ours) as second:
            for server in (first, second):
                load.fill([server.port], ("--keys", str(KEYS), "--size", str(len(VALUE))))
            for index, cell in enumerate(cells):
                progress.step(f"round {number} of {options.rounds}, {cell.name}")
                if cell not in commands:
                    commands[cell] = calibrate([first.port, second.port], cell, options.seconds)
                turn = (first, second) if (number + index) % 2 else (second, first)
                pair = [
                    measure(cell, server.name, server.port, [server], commands[cell], number, order)
                    for order, server in enumerate(turn)
                ]
                runs += pair


def three_nodes(options: argparse.Namespace, progress: record.Progress, runs: list[Run]) -> None:
    """SET and the scripts in turn, through one of three nodes. CPU is that of all three."""
    with OurCluster(nodes.OURS, options.groups, options.workers) as cluster:
        port, processes = cluster.nodes[0].port, list(cluster.nodes)
        commands: dict[Cell, int] = {}
        for number in range(1, options.rounds + 1):
            for pipeline in PIPELINES:
                cells = [Cell("nodes", what, pipeline) for what in ("SET", *NODE_SCRIPTS)]
                for order, cell in enumerate(cells if number % 2 else cells[::-1]):
                    progress.step(f"three nodes, round {number} of {options.rounds}, {cell.name}")
                    if cell not in commands:
                        commands[cell] = calibrate([port], cell, options.seconds)
                    runs.append(measure(cell, "three nodes", port, processes, commands[cell], number, order))


def bytes_of_entries(options: argparse.Namespace, progress: record.Progress) -> list[dict[str, memory.Collected]]:
    """What streams take on either server."""
    shapes = [shape for shape in memory.shapes(options.entries // 50, options.entries) if shape.command == b"XADD"]
    launches = [Launch("redis", options.redis), Launch("ours", options.ours)]
    return [
        {launch.name: memory.measure_collections(launch, shape, options.settle, progress) for launch in launches}
        for shape in shapes
    ]


# --- what is told -------------------------------------------------------------------------------------


def against(target: float, ratio: float) -> str:
    """A target and whether the ratio keeps it."""
    return f"<={target:.1f} {'met' if ratio <= target else 'MISSED'}"


def rounds_of(runs: list[Run], cell: str, server: str) -> list[Run]:
    """The runs of one cell at one server, by round."""
    return sorted((run for run in runs if (run.cell, run.server) == (cell, server)), key=lambda run: run.round)


def evaluate_one_node(cells: list[Cell], runs: list[Run]) -> list[dict[str, object]]:
    """Each cell's spreads and ratios; those without a run are left out."""
    found = []
    for cell in cells:
        pairs = list(zip(rounds_of(runs, cell.name, "redis"), rounds_of(runs, cell.name, "ours")))
        if not pairs:
            continue
        ratio = record.spread([two.cpu_us / one.cpu_us for one, two in pairs])
        target = SCRIPTS_TARGET if cell.section == "scripts" else STREAMS_TARGET
        found.append(
            {
                "section": cell.section,
                "cell": cell.name,
                "redis_cpu_us": record.spread([one.cpu_us for one, _ in pairs]),
                "ours_cpu_us": record.spread([two.cpu_us for _, two in pairs]),
                "ratio": ratio,
                "target": against(target, ratio["median"]),
                "redis_per_s": record.spread([one.per_s for one, _ in pairs]),
                "ours_per_s": record.spread([two.per_s for _, two in pairs]),
                "rate_ratio": record.spread([two.per_s / one.per_s for one, two in pairs]),
                "generator_busy": record.spread([run.generator_busy for pair in pairs for run in pair]),
            }
        )
    return found


def evaluate_nodes(runs: list[Run]) -> list[dict[str, object]]:
    """Each script beside the SET of the same round and depth."""
    found = []
    for pipeline in PIPELINES:
        sets = rounds_of(runs, Cell("nodes", "SET", pipeline).name, "three nodes")
        for what in NODE_SCRIPTS:
            cell = Cell("nodes", what, pipeline)
            pairs = list(zip(sets, rounds_of(runs, cell.name, "three nodes")))
            if not pairs:
                continue
            ratio = record.spread([script.cpu_us / plain.cpu_us for plain, script in pairs])
            found.append(
                {
                    "cell": cell.name,
                    "set_cpu_us": record.spread([plain.cpu_us for plain, _ in pairs]),
                    "script_cpu_us": record.spread([script.cpu_us for _, script in pairs]),
                    "ratio": ratio,
                    "target": against(NODES_TARGET, ratio["median"]),
                    "script_per_s": record.spread([script.per_s for _, script in pairs]),
                }
            )
    return found


def spreads(cell: dict[str, object], names: list[str], form: Callable[[str], str]) -> list[str]:
    """Some of a cell's spreads as text."""
    shown = []
    for name in names:
        spread = cell[name]
        assert isinstance(spread, dict)
        shown.append(record.shown(spread, form(name)))
    return shown


def summary(
    options: argparse.Namespace,
    one: list[dict[str, object]],
    three: list[dict[str, object]],
    pairs: list[dict[str, memory.Collected]],
) -> str:
    """The tables."""
    lines = [""]
    form: Callable[[str], str] = lambda name: ",.0f" if name.endswith("_per_s") else ".0%" if name == "generator_busy" else ".2f"
    placed = "nothing pinned" if options.no_pin else f"servers on core {options.server_core}, generators on core {options.generator_core}"
    for section in ("scripts", "streams"):
        mine = [cell for cell in one if cell["section"] == section]
        if not mine:
            continue
        lines += [f"## {section.capitalize()}: one worker beside one redis-server", ""]
        lines.append(
            f"{CONNECTIONS} connections, {placed}. Each entry is the median of the rounds (smallest-largest); ratios are ours by redis in each round."
        )
        if section == "streams":
            lines[-1] += " Where a group reads, figures are per entry: read and acknowledged."
        names = ["redis_cpu_us", "ours_cpu_us", "ratio", "redis_per_s", "ours_per_s", "rate_ratio", "generator_busy"]
        rows = []
        for cell in mine:
            shown = spreads(cell, names, form)
            rows.append([str(cell["cell"]), *shown[:3], str(cell["target"]), *shown[3:]])
        headings = ["", "CPU µs redis", "ours", "ratio", "target", "per second redis", "ours", "ratio", "generator's core"]
        lines += ["", record.table(headings, rows), ""]
    if three:
        lines += [f"## Three nodes, {options.groups} groups: a script of one group beside a SET", ""]
        each = "one worker" if options.workers == 1 else f"{options.workers} workers"
        lines.append(f"{CONNECTIONS} connections to one of the nodes, which have {each} each, nothing pinned; CPU of all nodes for each command.")
        rows = []
        for cell in three:
            shown = spreads(cell, ["set_cpu_us", "script_cpu_us", "ratio", "script_per_s"], form)
            rows.append([str(cell["cell"]), *shown[:3], str(cell["target"]), shown[3]])
        lines += ["", record.table(["", "CPU µs SET", "script", "ratio", "target", "scripts/s"], rows), ""]
    if pairs:
        lines += ["## Bytes of an entry", ""]
        lines.append("Two fields, 44 bytes with their names, and an id of its own; the key's share included. Each less what the empty server takes.")
        rows = []
        for pair in pairs:
            redis, ours = pair["redis"], pair["ours"]
            row = [redis.shape, f"{redis.collections:,} of {redis.elements:,}"]
            for theirs, mine in ((redis.used_bytes, ours.used_bytes), (redis.resident_bytes, ours.resident_bytes)):
                row += [f"{theirs / redis.elements:.1f}", f"{mine / ours.elements:.1f}", f"{mine / theirs:.2f}"]
            rows.append([*row, against(BYTES_TARGET, ours.used_bytes / redis.used_bytes)])
        headings = ["", "number", "used redis", "ours", "ratio", "resident redis", "ours", "ratio", "target (used)"]
        lines += ["", record.table(headings, rows), ""]
    return "\n".join(lines)


def sections(text: str) -> list[str]:
    """A list such as scripts,nodes."""
    names = [name.strip().lower() for name in text.split(",")]
    if not set(names) <= set(SECTIONS):
        raise ValueError(text)
    return names


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ours", default=OURS, help="our server's command line, from the repository root; nodes have their own")
    parser.add_argument("--redis", default=REDIS, help="the command line of the server to compare with")
    parser.add_argument("--only", type=sections, default=list(SECTIONS), help=f"sections, by commas: {', '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often every cell is run on either server")
    parser.add_argument("--seconds", type=float, default=1.0, help="shortest time of one run on the faster server")
    parser.add_argument("--groups", type=int, default=6, help="groups of the three nodes")
    parser.add_argument("--workers", type=int, default=1, help="workers of each of the three nodes")
    parser.add_argument("--entries", type=int, default=1_000_000, help="entries whose bytes are measured")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds before memory is read")
    parser.add_argument("--no-pin", action="store_true", help="do not pin anything to cores")
    parser.add_argument("--server-core", type=int, default=0, help="core of both servers where pinned")
    parser.add_argument("--generator-core", type=int, default=1, help="core of the generators where pinned")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds, options.entries, options.settle = 1, 0.05, 10_000, 0.1
    if min(options.rounds, options.groups, options.workers, options.seconds, options.settle) <= 0 or options.entries < 1000:
        parser.error("--rounds, --groups, --seconds and --settle must be positive, and --entries a thousand or more")
    return options


def run(options: argparse.Namespace) -> None:
    """Runs the measurement. Ctrl-C evaluates the rounds that are complete."""
    usable = os.sched_getaffinity(0)
    if not options.no_pin and not {options.server_core, options.generator_core} <= usable:
        raise SetupError("those cores are not both usable here: choose others with --server-core and --generator-core, or pass --no-pin")
    launches = [Launch("redis", options.redis), Launch("ours", options.ours)]
    if "nodes" in options.only:
        launches.append(Launch("three nodes", nodes.OURS))
    facts = record.environment(launches, ["redis-benchmark"])
    cells = [cell for cell in CELLS if cell.section in options.only]
    steps = options.rounds * len(cells)
    steps += options.rounds * len(PIPELINES) * (1 + len(NODE_SCRIPTS)) * ("nodes" in options.only) + 4 * ("bytes" in options.only)
    progress = record.Progress(steps)
    runs: list[Run] = []
    pairs: list[dict[str, memory.Collected]] = []
    stopped = False
    try:
        if cells:
            # Generators run where this process does.
            os.sched_setaffinity(0, usable if options.no_pin else {options.generator_core})
            one_node(options, cells, progress, runs)
        os.sched_setaffinity(0, usable)
        if "nodes" in options.only:
            three_nodes(options, progress, runs)
        if "bytes" in options.only:
            pairs = bytes_of_entries(options, progress)
    except KeyboardInterrupt:
        stopped = True
    progress.end()
    one, three = evaluate_one_node(cells, runs), evaluate_nodes(runs)
    text = record.preamble("Scripts and streams", facts)
    if options.quick:
        text += "- A quick run: too short to compare anything\n"
    if stopped:
        text += "- Stopped early: the rounds are those that were complete\n"
    text += summary(options, one, three, pairs)
    data = {"kind": "scripts", **facts, "quick": options.quick, "stopped_early": stopped, "one_node": one, "three_nodes": three}
    data["bytes"] = [{name: asdict(found) for name, found in pair.items()} for pair in pairs]
    record.write(options.out, {**data, "runs": [asdict(run) for run in runs]}, text)


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
