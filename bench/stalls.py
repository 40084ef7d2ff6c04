#!/usr/bin/env python3
"""Measures how long one client's heavy command keeps another waiting, beside redis-server.

One connection sends a command on a collection of a million elements; another one, on the same worker, sends
EXISTS and PING without a pause meanwhile. See README.md in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import nodes
import record
from nodes import OurCluster
from server import OURS, REDIS, Launch, Process, Server, SetupError
from wire import Connection, WireError, encode

ELEMENTS = 1_000_000
# Elements that one command of the loader names.
BATCH = 500
VALUE = b"v" * 16
END = b"end-of-the-answer"
# How long a reader that is slow lets its answer lie.
SLOW_SECONDS = 0.5
# How long probing goes on when the answer is there: what is deleted is dropped afterwards.
AFTER_SECONDS = 0.3
TARGET_MS = 10.0
# A node with a log, and as many as keep three replicas.
WITH_LOG = OURS.replace("--peer-port 0", "--peer-port {peer_port} --dir data --durability relaxed")
GROUPS = 6

Words = tuple[bytes, ...]


def words(text: str) -> Words:
    """A command as it is typed."""
    return tuple(text.encode().split())


@dataclass(frozen=True)
class Case:
    """One heavy command."""

    name: str
    command: Words
    # What must be there: keys by the name of their type, see LOADERS.
    needs: tuple[str, ...]
    # What it changes or removes, so that it is made anew.
    spoils: tuple[str, ...] = ()
    is_slow: bool = False
    # A command before it, which is not measured.
    before: Words = ()
    # It need not be carried out: a script may come to the end of its memory.
    may_fail: bool = False
    # Redis would take all memory of the machine.
    is_ours_alone: bool = False
    # The other client names no key: all are locked.
    pings_alone: bool = False


def case(text: str, needs: str, spoils: str = "", **more: Any) -> Case:
    """A case whose name is its command."""
    return Case(more.pop("name", text), words(text), tuple(needs.split()), tuple(spoils.split()), **more)


def collection(key: bytes, name: bytes, element: Callable[[int], tuple[bytes, ...]]) -> Callable[[int], Iterator[bytes]]:
    """What fills a key: commands of a few hundred elements each."""

    def batches(count: int) -> Iterator[bytes]:
        for first in range(0, count, BATCH):
            parts = [part for i in range(first, min(first + BATCH, count)) for part in element(i)]
            yield encode(name, key, *parts)

    return batches


def keys(count: int) -> Iterator[bytes]:
    """Many small keys instead of one large one."""
    for first in range(0, count, BATCH):
        pairs = [part for i in range(first, min(first + BATCH, count)) for part in (b"key:%d" % i, VALUE)]
        yield encode(b"MSET", *pairs)


def place(index: int) -> tuple[bytes, ...]:
    """A position on the earth, all over it."""
    longitude, latitude = index * 137 % 360_000 / 1000 - 180, index * 61 % 170_000 / 1000 - 85
    return (b"%.3f" % longitude, b"%.3f" % latitude, b"member:%d" % index)


LOADERS: dict[str, Callable[[int], Iterator[bytes]]] = {
    # Half of the second is in the first, too.
    "set": collection(b"set", b"SADD", lambda i: (b"member:%d" % i,)),
    "set2": collection(b"set2", b"SADD", lambda i: (b"member:%d" % (i * 2),)),
    "hash": collection(b"hash", b"HSET", lambda i: (b"field:%d" % i, VALUE)),
    "list": collection(b"list", b"RPUSH", lambda i: (b"element:%d" % i,)),
    "zset": collection(b"zset", b"ZADD", lambda i: (b"%d" % i, b"member:%d" % i)),
    "zset2": collection(b"zset2", b"ZADD", lambda i: (b"%d" % i, b"member:%d" % (i * 2))),
    "geo": collection(b"geo", b"GEOADD", place),
    "keys": keys,
}

CASES = [
    case("SMEMBERS set", "set"),
    case("SMEMBERS set", "set", name="SMEMBERS set, slow reader", is_slow=True),
    case("SINTER set set2", "set set2"),
    case("SUNION set set2", "set set2"),
    case("SDIFF set set2", "set set2"),
    case("SINTERCARD 2 set set2", "set set2"),
    case("SINTERSTORE result set set2", "set set2"),
    case("SUNIONSTORE result set set2", "set set2"),
    case("SRANDMEMBER set 100000", "set"),
    case("SRANDMEMBER set -1000000", "set"),
    case("SSCAN set 0 COUNT 1000000", "set"),
    case("HGETALL hash", "hash"),
    case("HVALS hash", "hash"),
    case("HRANDFIELD hash 100000 WITHVALUES", "hash"),
    case("LRANGE list 0 -1", "list"),
    case("LPOS list nothing", "list"),
    case("LINDEX list MIDDLE", "list"),
    case("LSET list MIDDLE other", "list"),
    case("LREM list 0 nothing", "list"),
    case("LINSERT list BEFORE nothing x", "list"),
    case("SORT list ALPHA LIMIT 0 10", "list"),
    case("ZRANGE zset 0 -1 WITHSCORES", "zset"),
    case("ZRANGEBYSCORE zset 0 10 LIMIT 0 1", "zset"),
    case("ZCOUNT zset 10 900000", "zset"),
    case("ZRANGESTORE result zset 0 -1", "zset"),
    case("ZRANDMEMBER zset 100000", "zset"),
    case("ZINTER 2 zset zset2", "zset zset2"),
    case("ZUNIONSTORE result 2 zset zset2", "zset zset2"),
    case("ZINTERSTORE result 2 zset zset2", "zset zset2"),
    case("GEOSEARCH geo FROMLONLAT 0 0 BYRADIUS 30000 km ASC", "geo", name="GEOSEARCH geo, everywhere"),
    case("COPY set copy", "set"),
    case("COPY zset copy", "zset"),
    case("DEL set", "set", "set"),
    case("DEL hash", "hash", "hash"),
    case("DEL list", "list", "list"),
    case("DEL zset", "zset", "zset"),
    case("UNLINK zset", "zset", "zset"),
    case("SET hash small", "hash", "hash"),
    case("RENAME small set", "set", "set", before=words("SET small x")),
    case("SINTERSTORE set set set2", "set set2", "set"),
    case("PEXPIRE zset 50", "zset", "zset", name="PEXPIRE zset 50, and its end"),
    case("SPOP set 500000", "set", "set"),
    case("LPOP list 500000", "list", "list"),
    case("LTRIM list 1 0", "list", "list"),
    case("ZPOPMIN zset 500000", "zset", "zset"),
    case("ZREMRANGEBYRANK zset 0 499999", "zset", "zset"),
    case("FLUSHALL", "set hash zset", "set hash zset", name="FLUSHALL of three collections"),
    case("SCAN 0 COUNT 1000000", "keys"),
    case("KEYS *", "keys"),
    case("FLUSHALL SYNC", "keys", "keys", name="FLUSHALL of a million keys"),
]


def script(name: str, text: str, needs: str = "", **more: Any) -> Case:
    """A script that would hold others up."""
    return Case(name, (b"EVAL", text.encode(), b"0"), tuple(needs.split()), **more)


LONG = (b"SETRANGE", b"long", b"100000000", b"x")
BITMAP = (b"SETRANGE", b"long", b"10000000", b"x")

SCRIPTS = [
    script("nothing", "return 1"),
    script("200,000 lines of source", "local a = 0\n" + "a = a + 1\n" * 200_000 + "return a"),
    script("a table of 100,000 tables, as source", "return #{" + ",".join(f"{{{i}}}" for i in range(100_000)) + "}"),
    script("find in 1,000 bytes, 200 times", "local s=string.rep('a',1000) for i=1,200 do s:find('a-b') end"),
    script("one pattern that goes back and back", "return string.rep('a',30):find(string.rep('a-',6)..'b')", may_fail=True),
    script("sort of a million", "local t={} for i=1,1000000 do t[i]=i%7919 end table.sort(t) return 1"),
    script("gsub over 1 MB, 100 times", "local s=string.rep('x',1000000) for i=1,100 do s=s:gsub('x','y') end return 1"),
    script("a string of 50 MB", "return #string.rep('x',50*1024*1024)"),
    script("strings that grow, 20,000 times", "local s='' for i=1,20000 do s=s..string.rep('x',50) end return #s"),
    script("three million tables", "local t={} for i=1,3000000 do t[i]={} end return 1", may_fail=True),
    script("cjson.encode of 200,000", "local t={} for i=1,200000 do t[i]=i end return #cjson.encode(t)"),
    script("cjson.decode of 600 KB", "return #cjson.decode('['..string.rep('1,',300000)..'1]')"),
    script("cmsgpack.pack of 60 MB", "return #cmsgpack.pack({string.rep('x',60000000)})"),
    script("a reply of a million", "local t={} for i=1,1000000 do t[i]=i end return t"),
    script("LRANGE of 100,000, 20 times", "for i=1,20 do redis.call('LRANGE','list',0,99999) end", "list"),
    script("SMEMBERS of a million", "return #redis.call('SMEMBERS','set')", "set"),
    script("KEYS * of a million", "return #redis.call('KEYS','*')", "keys"),
    script("KEYS * of a million, PING alone", "return #redis.call('KEYS','*')", "keys", pings_alone=True),
    script("RPUSH, 100,000 times", "for i=1,100000 do redis.call('RPUSH','result',i) end"),
    script("SET of 8,000 keys", "for i=1,8000 do redis.call('SET','key:'..i,i) end"),
    script("SET of 60,000 keys", "for i=1,60000 do redis.call('SET','key:'..i,i) end"),
    script("GET of 100 MB", "return #redis.call('GET','long')", before=LONG),
    script("BITCOUNT of 100 MB, 100 times", "for i=1,100 do redis.call('BITCOUNT','long') end", before=LONG),
    script("SETBIT in 10 MB, 50 times", "for i=1,50 do redis.call('SETBIT','long',i,1) end", before=BITMAP),
    script("APPEND to 100 MB", "return redis.call('APPEND','long','x')", before=LONG),
    script("SETRANGE to 50 MB, 8 keys", "for i=1,8 do redis.call('SETRANGE','key:'..i,50000000,'x') end"),
    script(
        "SETRANGE to 500 MB, 50 keys",
        "for i=1,50 do redis.call('SETRANGE','key:'..i,500000000,'x') end",
        may_fail=True,
        is_ours_alone=True,
    ),
]


@dataclass(frozen=True)
class Run:
    """What the prober saw while one command was carried out."""

    server: str
    case: str
    round: int
    # Until the last byte of the answer, as far as it was read at once.
    command_ms: float
    probes: int
    # The longest time between a probe and its answer.
    gap_ms: float
    # Of the longest such times, the most that the thread that serves the probe was at work: what else the machine does
    # is not in it.
    work_ms: float
    worst_ms: list[float] = field(default_factory=list)


class WorkClock:
    """Reads for how long the threads that serve connections have run, one of each node."""

    def __init__(self, pids: list[int]) -> None:
        self._files = []
        for pid in pids:
            task = pid
            for number in os.listdir(f"/proc/{pid}/task"):
                if Path(f"/proc/{pid}/task/{number}/comm").read_text().strip() == "worker-0":
                    task = int(number)
            self._files.append(os.open(f"/proc/{pid}/task/{task}/schedstat", os.O_RDONLY))

    def read(self) -> list[int]:
        """Nanoseconds, of each."""
        return [int(os.pread(file, 64, 0).split()[0]) for file in self._files]

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            os.close(file)


@dataclass(frozen=True)
class Target:
    """What is measured: one server, or the nodes of a cluster. The heavy client is at the first of them, the other one at each in turn."""

    name: str
    processes: list[Any]

    @property
    def port(self) -> int:
        """Of the first."""
        return int(self.processes[0].port)

    def ensure_alive(self) -> None:
        """Raises where any has died."""
        for process in self.processes:
            process.ensure_alive()


def send_heavy(port: int, commands: list[Words], is_slow: bool, may_fail: bool, steps: tuple[Any, Any], outcome: Any) -> None:
    """The other client, a process of its own: its reading must not hold the prober up."""
    ready, go = steps
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=120.0) as connection:
            for command in commands[:-1]:
                connection.sendall(encode(*command))
                connection.recv(65536)
            ready.set()
            go.wait()
            began = time.perf_counter()
            connection.sendall(encode(*commands[-1]) + encode(b"ECHO", END))
            if is_slow:
                time.sleep(SLOW_SECONDS)
            head, tail = b"", b""
            while not tail.endswith(END + b"\r\n"):
                data = connection.recv(1 << 20)
                if not data:
                    raise WireError("the server closed the connection")
                head = head or data[:100]
                tail = tail[-64:] + data if len(data) < 64 else data[-64:]
            if head.startswith(b"-") and not may_fail:
                raise WireError(f"{commands[-1][0].decode()} was refused: {head!r}")
            outcome.put((time.perf_counter() - began, ""))
    except (WireError, OSError) as error:
        outcome.put((0.0, str(error)))


def fill(connection: Connection, name: str, elements: int) -> None:
    """Makes the collection anew, as far as it is one."""
    if name != "keys":
        connection.command(b"DEL", name.encode())
    waiting = 0
    for batch in LOADERS[name](elements):
        connection.socket.sendall(batch)
        waiting += 1
        if waiting == 64:
            read_lines(connection, waiting)
            waiting = 0
    read_lines(connection, waiting)


def read_lines(connection: Connection, count: int) -> None:
    """Reads so many answers of one line."""
    while count > 0:
        data = connection.socket.recv(65536)
        if not data:
            raise WireError("the server closed the connection while it was being filled")
        if data.startswith(b"-") or b"\n-" in data:
            raise WireError(f"a command was refused while loading: {data[:200]!r}")
        count -= data.count(b"\n")


def measure(server: Target, measured: Case, number: int, elements: int) -> Run:
    """Probes while one command is carried out."""
    ready, go = multiprocessing.Event(), multiprocessing.Event()
    outcome: Any = multiprocessing.SimpleQueue()
    middle = {b"MIDDLE": b"%d" % (elements // 2)}
    commands = [
        tuple(middle.get(word, word) for word in command) for command in (measured.before, measured.command) if command
    ]
    heavy = multiprocessing.Process(
        target=send_heavy,
        args=(server.port, commands, measured.is_slow, measured.may_fail, (ready, go), outcome),
        daemon=True,
    )
    clock = WorkClock([process.pid for process in server.processes])
    gaps: list[tuple[float, float]] = []
    gc.disable()
    try:
        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(Connection(process.port)) for process in server.processes]
            # With several nodes, keys of which each leads some.
            keys = [b"probe:%d" % number for number in range(GROUPS if len(others) > 1 else 1)]
            # An answer of the same length whether the key is there or was flushed.
            probes = [probe for key in keys for probe in ((encode(b"EXISTS", key), 4), (encode(b"PING"), 7))]
            if measured.pings_alone:
                probes = [probe for probe in probes if probe[1] == len(b"+PONG\r\n")]
            for key in keys:
                others[0].command(b"SET", key, b"x")
            heavy.start()
            # The command before it is over, and what it has left behind is dropped.
            ready.wait(30.0)
            time.sleep(0.3)
            turn, until = 0, float("inf")
            while time.perf_counter() < until:
                if turn == 50:
                    go.set()
                request, size = probes[turn % len(probes)]
                connection = others[turn // len(probes) % len(others)]
                turn += 1
                work = clock.read()
                start = time.perf_counter_ns()
                connection.exchange(request, size)
                gap = (time.perf_counter_ns() - start) / 1e6
                worked = max(after - before for before, after in zip(work, clock.read(), strict=True))
                gaps.append((gap, min(gap, worked / 1e6)))
                if until == float("inf") and not heavy.is_alive():
                    until = time.perf_counter() + AFTER_SECONDS
    finally:
        gc.enable()
        clock.close()
        if heavy.is_alive():
            heavy.terminate()
        heavy.join()
    server.ensure_alive()
    seconds, failure = outcome.get() if not outcome.empty() else (0.0, "the client ended without a word")
    if failure:
        raise WireError(f"{measured.name}: {failure} (server {server.name})")
    return Run(
        server=server.name,
        case=measured.name,
        round=number,
        command_ms=seconds * 1000,
        probes=len(gaps),
        gap_ms=max(gap for gap, _ in gaps),
        work_ms=max(work for _, work in gaps),
        worst_ms=sorted((gap for gap, _ in gaps), reverse=True)[:5],
    )


def measure_all(launch: Launch, cases: list[Case], options: argparse.Namespace, progress: record.Progress) -> list[Run]:
    """All cases on one server, each several times."""
    runs = []
    with contextlib.ExitStack() as stack:
        processes: list[Process]
        if options.nodes > 1 and launch.name == "ours":
            processes = list(stack.enter_context(OurCluster(launch.template, GROUPS, 1, options.nodes)).nodes)
        else:
            processes = [stack.enter_context(Server(launch))]
        server = Target(launch.name, processes)
        connection = stack.enter_context(Connection(server.port))
        there: set[str] = set()
        for measured in cases:
            if measured.is_ours_alone and launch.name != "ours":
                continue
            for number in range(1, options.rounds + 1):
                progress.step(f"{launch.name}, {measured.name}")
                if "keys" in measured.needs and "keys" not in there:
                    connection.command(b"FLUSHALL")
                    there.clear()
                for name in measured.needs:
                    if name not in there:
                        fill(connection, name, options.elements)
                        there.add(name)
                connection.command(b"DEL", b"result", b"copy", b"small", b"long")
                # What was dropped before is not to be measured.
                time.sleep(options.settle)
                runs.append(measure(server, measured, number, options.elements))
                there -= set(measured.spoils)
    return runs


def run(options: argparse.Namespace) -> None:
    """Measures, and writes the record."""
    default = nodes.OURS if options.nodes > 1 else WITH_LOG if options.log else OURS
    if options.nodes > 1 and options.log:
        default = default.replace("memory", "relaxed")
    launches = [Launch("redis", options.redis), Launch("ours", options.ours or default, workers=1)]
    if options.ours_alone:
        del launches[0]
    all_cases = SCRIPTS if options.scripts else CASES
    cases = [one for one in all_cases if not options.only or any(part in one.name for part in options.only)]
    if not cases:
        raise SetupError(f"no case has any of these in its name: {' '.join(options.only)}")
    facts = record.environment(launches)
    progress = record.Progress(len(launches) * len(cases) * options.rounds)
    runs: list[Run] = []
    for launch in launches:
        runs += measure_all(launch, cases, options, progress)
    progress.end()
    heavy = "script" if options.scripts else "command"
    text = record.preamble(f"How long a heavy {heavy} keeps others waiting", facts)
    where = f"{options.nodes} nodes of one worker each" if options.nodes > 1 else "one worker"
    thread = "the thread that serves it" if options.nodes == 1 else "the busiest of the threads that serve clients"
    text += (
        f"\nCollections of {options.elements:,} elements, {where}. Another client sends EXISTS and PING, one after the "
        f"other, while the {heavy} is carried out and 0.3 s longer. Gap: the longest it waited for an answer. Work: for how "
        f"long of such a wait, at most, {thread} was running, so that the rest of the machine is not "
        f"counted. Milliseconds, the median of {options.rounds} runs with their range.\n\n"
    )
    rows = []
    summary: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for one in cases:
        row = [one.name]
        for launch in launches:
            mine = [r for r in runs if r.server == launch.name and r.case == one.name]
            if not mine:
                row += ["-", "-", "-"]
                continue
            spreads = {
                "gap_ms": record.spread([r.gap_ms for r in mine]),
                "work_ms": record.spread([r.work_ms for r in mine]),
                "command_ms": record.spread([r.command_ms for r in mine]),
            }
            summary.setdefault(one.name, {})[launch.name] = spreads
            row += [record.shown(spreads["gap_ms"], ".1f"), record.shown(spreads["work_ms"], ".1f")]
            row.append(format(spreads["command_ms"]["median"], ".0f"))
        over = summary[one.name]["ours"]["work_ms"]["median"] > TARGET_MS
        rows.append([*row, "no" if over else "yes"])
    columns = [f"{what} {launch.name}" for launch in launches for what in ("gap", "work", "took")]
    headings = [heavy, *columns, "<= 10 ms"]
    text += record.table(headings, rows) + "\n"
    data = {"facts": facts, "elements": options.elements, "summary": summary, "runs": [asdict(r) for r in runs]}
    record.write(options.out, data, text)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--ours", help="our server's command line, from the repository root, if not the usual one")
    parser.add_argument("--log", action="store_true", help="our server keeps a log")
    parser.add_argument("--nodes", type=int, default=1, help="so many of our nodes, with one worker each")
    parser.add_argument("--ours-alone", action="store_true", help="without redis-server")
    parser.add_argument("--redis", default=REDIS, help="the command line of the server to compare with")
    parser.add_argument("--scripts", action="store_true", help="scripts instead of commands")
    parser.add_argument("--elements", type=int, default=ELEMENTS, help="elements of a collection")
    parser.add_argument("--rounds", type=int, default=3, help="how often each command is measured")
    parser.add_argument("--settle", type=float, default=0.3, help="seconds of rest before each measurement")
    parser.add_argument("--only", nargs="*", default=[], help="commands whose name has one of these in it")
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it works, not how good it is")
    parser.add_argument("--out", help="record to write, such as bench/records/NAME.json")
    options = parser.parse_args(arguments)
    if options.quick:
        options.elements, options.rounds, options.settle = 2_000, 1, 0.0
    return options


if __name__ == "__main__":
    sys.exit(record.main(parse, run))
