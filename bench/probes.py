"""Clients around a failover: one for each key that tries to write it all the time, and others that are load."""

from __future__ import annotations

import heapq
import multiprocessing
import selectors
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from wire import Connection, WireError, encode

# Between two writes of one key.
EVERY_SECONDS = 0.01
# Between two tries of a key that is refused.
RETRY_SECONDS = 0.005
VALUE = b"v" * 100


@dataclass
class Outcome:
    """What the probes saw of one fault. Times are seconds after it."""

    # By key, when the first write was accepted that was sent after the fault.
    accepted: dict[str, float]
    # What clients were told instead, by its first word.
    refusals: dict[str, int]
    # The longest wait for an answer once all keys were accepted.
    longest_after: float
    writes: int

    @property
    def recovered(self) -> float:
        """When the last key accepted writes again."""
        return max(self.accepted.values())


@dataclass
class Probe:
    """A client that writes one key, one write after the other."""

    key: bytes
    port: int
    socket: socket.socket | None = None
    sent: float | None = None
    received: bytes = b""
    generation: int = 0
    events: list[tuple[float, float]] = field(default_factory=list)


class Probes:
    """A client for each key, all in this thread. They follow MOVED, avoid the victim once it is hit, and try again."""

    def __init__(self, places: dict[bytes, int]) -> None:
        self._selector = selectors.DefaultSelector()
        self._probes = [Probe(key, port) for key, port in places.items()]
        self._due: list[tuple[float, int, int]] = []
        self._refusals: Counter[str] = Counter()
        self._avoid: int | None = None
        self._ports: list[int] = []
        self._writes = 0

    def close(self) -> None:
        """Ends all connections."""
        for probe in self._probes:
            self._disconnect(probe)
        self._selector.close()

    def steady(self, seconds: float) -> None:
        """Writes while nothing is wrong."""
        now = time.monotonic()
        for index in range(len(self._probes)):
            heapq.heappush(self._due, (now + EVERY_SECONDS * index / len(self._probes), index, 0))
        end = now + seconds
        while time.monotonic() < end:
            self._turn(end)

    def after(self, fault: float, victim: int, survivors: list[int], limit: float, on: float) -> Outcome:
        """Writes until every key is accepted, at most for `limit` seconds, and for `on` seconds more."""
        self._avoid, self._ports = victim, survivors
        self._refusals.clear()
        writes = self._writes
        for index, probe in enumerate(self._probes):
            if probe.port == victim:
                self._elsewhere(index, probe, self._another(index))
        accepted: dict[bytes, float] = {}
        recovered: float | None = None
        seen = {probe.key: len(probe.events) for probe in self._probes}
        while True:
            now = time.monotonic()
            if recovered is None:
                for probe in self._probes:
                    if probe.key not in accepted:
                        new = (done for sent, done in probe.events[seen[probe.key] :] if sent >= fault)
                        first = next(new, None)
                        if first is not None:
                            accepted[probe.key] = first - fault
                if len(accepted) == len(self._probes):
                    recovered = now
                elif now - fault > limit:
                    raise WireError(f"{len(self._probes) - len(accepted)} keys took no write within {limit:.0f} s")
            elif now - recovered > on:
                break
            self._turn(now + 0.05)
        times = accepted.values()
        waits = [done - sent for probe in self._probes for sent, done in probe.events if sent >= fault + max(times)]
        waits += [now - probe.sent for probe in self._probes if probe.sent is not None]
        named = {key.decode(): round(seconds, 4) for key, seconds in accepted.items()}
        return Outcome(named, dict(self._refusals), max(waits, default=0.0), self._writes - writes)

    # ---- one turn

    def _turn(self, end: float) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, index, generation = heapq.heappop(self._due)
            probe = self._probes[index]
            if probe.generation == generation and probe.sent is None:
                self._send(index, probe)
        wait = min(end, self._due[0][0] if self._due else end) - time.monotonic()
        for key, _ in self._selector.select(max(wait, 0.0)):
            self._receive(key.data, self._probes[key.data])

    def _send(self, index: int, probe: Probe) -> None:
        try:
            if probe.socket is None:
                probe.socket = socket.create_connection(("127.0.0.1", probe.port), timeout=1.0)
                probe.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                probe.socket.setblocking(False)
                self._selector.register(probe.socket, selectors.EVENT_READ, index)
            probe.sent = time.monotonic()
            probe.socket.send(encode(b"SET", probe.key, VALUE))
        except OSError:
            self._elsewhere(index, probe, self._another(index))

    def _receive(self, index: int, probe: Probe) -> None:
        if probe.socket is None or probe.sent is None:
            return
        try:
            more = probe.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        if not more:
            return self._elsewhere(index, probe, self._another(index))
        probe.received += more
        if not probe.received.endswith(b"\r\n"):
            return
        line, probe.received = probe.received.strip(), b""
        now, sent = time.monotonic(), probe.sent
        probe.sent = None
        self._writes += 1
        if line == b"+OK":
            probe.events.append((sent, now))
            heapq.heappush(self._due, (max(now, sent + EVERY_SECONDS), index, probe.generation))
            return
        words = line[1:].split()
        self._refusals[words[0].decode()] += 1
        port = probe.port
        if words[0] == b"MOVED":
            port = int(words[2].rpartition(b":")[2])
        if port == self._avoid:
            port = self._another(index)
        self._elsewhere(index, probe, port)

    def _another(self, index: int) -> int:
        ports = [port for port in self._ports if port != self._avoid]
        at = self._probes[index]
        return ports[(ports.index(at.port) + 1) % len(ports)] if at.port in ports else ports[index % len(ports)]

    def _elsewhere(self, index: int, probe: Probe, port: int) -> None:
        """The next try goes there."""
        if port != probe.port or probe.sent is not None:
            self._disconnect(probe)
        probe.port = port
        probe.generation += 1
        heapq.heappush(self._due, (time.monotonic() + RETRY_SECONDS, index, probe.generation))

    def _disconnect(self, probe: Probe) -> None:
        if probe.socket is not None:
            self._selector.unregister(probe.socket)
            probe.socket.close()
        probe.socket, probe.sent, probe.received = None, None, b""


class Load:
    """Clients in a process of their own that write all the time, in pipelines, at a given rate together."""

    PIPELINE = 16

    def __init__(self, places: list[tuple[int, list[bytes]]], writes_per_second: float) -> None:
        context = multiprocessing.get_context("fork")
        self._ends, theirs = context.Pipe()
        self._process = context.Process(target=self._run, args=(places, writes_per_second, theirs), daemon=True)
        self._process.start()
        self._ends.recv()

    def stop(self) -> tuple[int, dict[str, int]]:
        """Ends it. How many writes were accepted, and what was said to others."""
        self._ends.send(b"stop")
        answer: tuple[int, dict[str, int]] = self._ends.recv() if self._ends.poll(40) else (0, {"silence": 1})
        self._process.terminate()
        self._process.join()
        return answer

    def _run(self, places: list[tuple[int, list[bytes]]], rate: float, ends: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        accepted = [0] * len(places)
        refusals: Counter[str] = Counter()
        stopping = threading.Event()
        pause = len(places) * self.PIPELINE / rate

        def client(number: int, port: int, keys: list[bytes]) -> None:
            at = number * 7919
            due = time.monotonic()
            try:
                with Connection(port, timeout=30.0) as connection:
                    while not stopping.is_set():
                        batch = b"".join(encode(b"SET", keys[(at + i) % len(keys)], VALUE) for i in range(self.PIPELINE))
                        at += self.PIPELINE
                        answers = connection.exchange_lines(batch, self.PIPELINE).split(b"\r\n")[:-1]
                        accepted[number] += answers.count(b"+OK")
                        refusals.update(answer[1:].split()[0].decode() for answer in answers if answer != b"+OK")
                        due = max(due + pause, time.monotonic() - pause)
                        stopping.wait(max(0.0, due - time.monotonic()))
            except (OSError, WireError) as error:
                refusals[type(error).__name__] += 1

        threads = [threading.Thread(target=client, args=(i, *place), daemon=True) for i, place in enumerate(places)]
        for thread in threads:
            thread.start()
        ends.send(b"begun")  # type: ignore[attr-defined]
        ends.recv()  # type: ignore[attr-defined]
        stopping.set()
        for thread in threads:
            thread.join(35.0)
        ends.send((sum(accepted), dict(refusals)))  # type: ignore[attr-defined]
