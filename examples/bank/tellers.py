"""What runs in processes of its own: tellers, who move money, and auditors, who count it.

Each has one stock client and one connection. Whoever loses it goes on at another node. What they see they send to the
bank through a pipe, and they end when the bank closes its end.
"""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from nodes import HOST

# How long a client waits for an answer until it goes elsewhere.
PATIENCE_SECONDS = 6.0
REPORT_SECONDS = 0.1
AMOUNT_MAX = 100

# What a server says of a command that it certainly did not carry out, and never will: TRYAGAIN, CLUSTERDOWN, LOADING.
REFUSALS = (redis.exceptions.TryAgainError, redis.exceptions.ClusterDownError, redis.exceptions.BusyLoadingError)
# What it says if it does not know whether it did.
DOUBT = "UNKNOWN"
POOR = "insufficient balance"


def connect(port: int) -> redis.Redis:
    """A client with one connection, made now.

    redis-py would send a command again when the connection broke. What moves money must not be sent twice by somebody who
    does not know whether the first one arrived, so that is turned off; nothing else is.
    """
    return redis.Redis(
        host=HOST,
        port=port,
        socket_timeout=PATIENCE_SECONDS,
        socket_connect_timeout=1.0,
        retry=Retry(NoBackoff(), 0),
        single_connection_client=True,
    )


def account(number: int) -> str:
    """`account:7`: no hash tag, so that accounts lie in unrelated groups, led by different nodes."""
    return f"account:{number}"


class NotSent(Exception):
    """The connection broke before anything was sent that could move money."""


class InDoubt(Exception):
    """The connection broke afterwards: the money was moved, will be, or was not."""


@dataclass
class Work:
    """What a teller did since it told last."""

    moved: int = 0
    poor: int = 0
    overtaken: int = 0
    refused: int = 0
    unreachable: int = 0
    longest_seconds: float = 0.0
    again: int = 0
    # What was acknowledged: the change of each account.
    changes: dict[int, int] = field(default_factory=dict)
    # From, to and amount of what may or may not have happened.
    unknown: list[tuple[int, int, int]] = field(default_factory=list)
    # What a server said that nobody expected.
    unexpected: list[str] = field(default_factory=list)


def transfer(client: redis.Redis, source: int, target: int, amount: int) -> str:
    """One command of Chorale's own."""
    try:
        client.execute_command("XFER", account(source), account(target), amount)
    except redis.exceptions.BusyLoadingError:
        raise
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise InDoubt from error
    return "moved"


def name() -> str:
    """A UUID of version 7 (RFC 9562); from Python 3.14 on: uuid.uuid7()."""
    octets = bytearray(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10))
    octets[6] = octets[6] & 0x0F | 0x70
    octets[8] = octets[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(octets)))


def transfer_once(client: redis.Redis, request: str, source: int, target: int, amount: int) -> str:
    """The same under a name: it may be sent as often as it takes."""
    with client.pipeline(transaction=False) as pipeline:
        pipeline.execute_command("CLIENT", "REQUEST", request)
        pipeline.execute_command("XFER", account(source), account(target), amount)
        try:
            answer = pipeline.execute(raise_on_error=False)[-1]
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise InDoubt from error
    if isinstance(answer, Exception):
        raise answer
    return "moved"


def transaction(client: redis.Redis, source: int, target: int, amount: int) -> str:
    """What every Redis client can do: look, and change both if nobody was quicker."""
    with client.pipeline() as pipeline:
        try:
            pipeline.watch(account(source), account(target))
            balance = int(pipeline.get(account(source)))
        except (redis.ConnectionError, redis.TimeoutError, redis.WatchError) as error:
            raise NotSent from error
        if balance < amount:
            return "poor"
        pipeline.multi()
        pipeline.decrby(account(source), amount)
        pipeline.incrby(account(target), amount)
        try:
            pipeline.execute()
        except redis.WatchError as error:
            # A connection that breaks under EXEC is a WatchError to redis-py too, which is an invitation to try again.
            # A bank that followed it would pay twice.
            if "changed" in str(error):
                return "overtaken"
            raise InDoubt from error
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise InDoubt from error
    return "moved"


# With a name of its own, a transfer is sent until its outcome is known.
ONCE = "once"
WAYS: dict[str, Callable[[redis.Redis, int, int, int], str]] = {"xfer": transfer, "exec": transaction}


class Teller:
    """Moves money between random accounts."""

    def __init__(self, pipe: Connection, ports: list[int], accounts: int, ways: list[str], seed: int) -> None:
        self.pipe = pipe
        self.ports = ports
        self.accounts = accounts
        self.ways = ways
        # What was sent under a name and not answered: its name, from, to and amount.
        self.pending: tuple[str, int, int, int] | None = None
        self.prng = random.Random(seed)
        self.place = seed
        self.client: redis.Redis | None = None
        self.work = Work()

    def run(self) -> None:
        told = time.monotonic()
        while not self.pipe.poll():
            self.step()
            if time.monotonic() - told > REPORT_SECONDS:
                told = time.monotonic()
                self.pipe.send(self.work)
                self.work = Work()
        if self.pending is not None:
            self.work.unknown.append(self.pending[1:])
        self.pipe.send(self.work)
        self.pipe.recv()

    def step(self) -> None:
        if self.client is None:
            try:
                self.client = connect(self.ports[self.place % len(self.ports)])
            except redis.RedisError:
                self.place += 1
                self.work.unreachable += 1
                time.sleep(0.02)
                return
        if self.pending is not None:
            request, source, target, amount = self.pending
            self.work.again += 1
        else:
            request = name()
            source, target = self.prng.sample(range(self.accounts), 2)
            amount = self.prng.randint(1, AMOUNT_MAX)
        way = ONCE if self.pending is not None else self.prng.choice(self.ways)
        began = time.monotonic()
        try:
            if way == ONCE:
                self.pending = (request, source, target, amount)
                outcome = transfer_once(self.client, request, source, target, amount)
            else:
                outcome = WAYS[way](self.client, source, target, amount)
        except NotSent:
            self.leave()
            return
        except InDoubt:
            if way != ONCE:
                self.work.unknown.append((source, target, amount))
            self.leave()
            return
        except REFUSALS:
            self.work.refused += 1
            return
        except redis.ResponseError as error:
            self.judge(str(error), source, target, amount)
            return
        self.pending = None
        self.work.longest_seconds = max(self.work.longest_seconds, time.monotonic() - began)
        setattr(self.work, outcome, getattr(self.work, outcome) + 1)
        if outcome == "moved":
            changes = self.work.changes
            changes[source] = changes.get(source, 0) - amount
            changes[target] = changes.get(target, 0) + amount

    def judge(self, text: str, source: int, target: int, amount: int) -> None:
        if POOR in text:
            self.pending = None
            self.work.poor += 1
        elif text.startswith(DOUBT) and self.pending is not None:
            # Asked again, somebody will know.
            return
        elif text.startswith(DOUBT):
            self.work.unknown.append((source, target, amount))
        else:
            self.pending = None
            self.work.unexpected.append(text)

    def leave(self) -> None:
        """Goes on at the next node."""
        self.client.close()
        self.client = None
        self.place += 1


@dataclass
class Look:
    """All balances at one moment, through one node."""

    node: int
    balances: list[int]
    seconds: float


@dataclass
class NoLook:
    """The node did not answer."""

    node: int
    reason: str


class Auditor:
    """Reads all accounts through one node, again and again."""

    REST_SECONDS = 0.04
    REST_AFTER_ERROR_SECONDS = 0.1

    def __init__(self, pipe: Connection, node: int, port: int, accounts: int) -> None:
        self.pipe = pipe
        self.node = node
        self.port = port
        self.keys = [account(number) for number in range(accounts)]
        self.client: redis.Redis | None = None

    def run(self) -> None:
        rest = 0.0
        while not self.pipe.poll(rest):
            seen = self.look()
            self.pipe.send(seen)
            rest = self.REST_SECONDS if isinstance(seen, Look) else self.REST_AFTER_ERROR_SECONDS
        self.pipe.recv()

    def look(self) -> Look | NoLook:
        began = time.monotonic()
        try:
            if self.client is None:
                self.client = connect(self.port)
            balances = [int(balance) for balance in self.client.mget(self.keys)]
        except redis.RedisError as error:
            if self.client is not None:
                self.client.close()
                self.client = None
            return NoLook(self.node, f"{type(error).__name__}: {error}")
        return Look(self.node, balances, time.monotonic() - began)


def _run(worker: Callable[..., Teller | Auditor], pipe: Connection, *arguments: object) -> None:
    # An interrupt from the terminal reaches all processes; the bank tells its own when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        worker(pipe, *arguments).run()
    except (BrokenPipeError, EOFError):
        pass


def tell(pipe: Connection, ports: list[int], accounts: int, ways: list[str], seed: int) -> None:
    """The life of a teller's process."""
    _run(Teller, pipe, ports, accounts, ways, seed)


def audit(pipe: Connection, node: int, port: int, accounts: int) -> None:
    """The life of an auditor's process."""
    _run(Auditor, pipe, node, port, accounts)
