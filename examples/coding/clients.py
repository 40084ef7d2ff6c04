"""Clients that read and write pages, each pages of its own, and compare every answer with what they know.

Who alone writes a page knows to the byte what it must read. Only where a connection broke under a write it does not: then the
page may be as before or as afterwards, and the next read says which.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pages import next_edition

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 10.0
# How long one of several equal requests is tried at one node while others lead what that one led.
ELECTION_SECONDS = 20.0
RETRY_SECONDS = 0.1
BATCH = 50
# What is told of errors and wrong pages, in words.
TOLD = 5


class Wrong(Exception):
    """A page is not what was written."""


def connect(port: int) -> redis.Redis:
    # redis-py would send a command again by itself when a connection breaks: an APPEND would be there twice.
    retry = Retry(NoBackoff(), 0)
    return redis.Redis(host=HOST, port=port, socket_timeout=TIMEOUT_SECONDS, retry=retry, single_connection_client=True)


def differs(key: str, found: bytes | None, wanted: bytes) -> str:
    """What is wrong with a page, in a line."""
    if found is None:
        return f"{key} is not there; it has {len(wanted):,} bytes"
    pairs = zip(found, wanted)
    at = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(found), len(wanted)))
    return f"{key} has {len(found):,} bytes where {len(wanted):,} were written; they differ from byte {at:,} on"


def check_all(port: int, pages: dict[str, bytes], has_mget: bool, advance: Callable[[int], None]) -> int:
    """Reads every page through one node and compares it. The number of requests that had to be sent again."""
    again = 0
    keys = list(pages)
    with connect(port) as client:
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            deadline = time.monotonic() + ELECTION_SECONDS
            while True:
                try:
                    if has_mget:
                        values = client.mget(batch)
                    else:
                        with client.pipeline(transaction=False) as pipeline:
                            for key in batch:
                                pipeline.get(key)
                            values = pipeline.execute()
                    break
                except redis.ResponseError as error:
                    # Reads: they can be sent again whatever became of them.
                    if time.monotonic() > deadline:
                        raise Wrong(f"pages from {batch[0]} on were not answered for {ELECTION_SECONDS:.0f} s: {error}") from error
                    again += 1
                    time.sleep(RETRY_SECONDS)
            for key, value in zip(batch, values, strict=True):
                if value != pages[key]:
                    raise Wrong(differs(key, value, pages[key]))
            advance(len(batch))
    return again


class Client(threading.Thread):
    """One client at one node."""

    def __init__(self, port: int, pages: dict[str, bytes], seed: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port = port
        # Its own pages, as they are by what it knows.
        self.pages = pages
        self.over = over
        self.reads = 0
        self.writes = 0
        self.wrong: list[str] = []
        self.failed: list[str] = []
        # When each answer came, and how long it took, in seconds.
        self.waits: list[tuple[float, float]] = []
        self._prng = random.Random(seed)
        # What a page may be instead, where nobody knows whether a write was carried out.
        self._doubt: dict[str, bytes] = {}
        self._edition = 1

    def run(self) -> None:
        keys = list(self.pages)
        client = connect(self.port)
        while not self.over.is_set() and len(self.wrong) < TOLD and len(self.failed) < TOLD:
            key = self._prng.choice(keys)
            began = time.monotonic()
            try:
                if self._prng.random() < 0.6 or key in self._doubt:
                    self._read(client, key)
                else:
                    self._write(client, key)
            except redis.RedisError as error:
                self.failed.append(f"{type(error).__name__}: {error}")
                client.close()
                time.sleep(RETRY_SECONDS)
            else:
                self.waits.append((time.monotonic(), time.monotonic() - began))
        try:
            for key in list(self._doubt):
                self._read(client, key)
        except redis.RedisError as error:
            self.failed.append(f"{type(error).__name__}: {error}")
        client.close()

    def _read(self, client: redis.Redis, key: str) -> None:
        found = client.get(key)
        self.reads += 1
        if key in self._doubt and found == self._doubt[key]:
            self.pages[key] = found
        self._doubt.pop(key, None)
        if found != self.pages[key]:
            self.wrong.append(differs(key, found, self.pages[key]))

    def _write(self, client: redis.Redis, key: str) -> None:
        """Another edition; a note below the page, or a word of its first line, which need the page as a whole; or none and a new one."""
        before = self.pages[key]
        way = self._prng.random()
        self._edition += 1
        whole = next_edition(key, before, self._edition)
        note = b"note %d\n" % self._edition
        # Twice as long as a page may be, it is begun anew.
        if way < 0.5 or len(before) > 16_384:
            self._doubt[key] = whole
            client.set(key, whole)
        elif way < 0.75:
            self._doubt[key] = before + note
            client.append(key, note)
        elif way < 0.9:
            self._doubt[key] = b"{" + note[:-1] + before[len(note) :]
            client.setrange(key, 0, self._doubt[key][: len(note)])
        else:
            self._doubt[key] = whole
            with client.pipeline(transaction=True) as pipeline:
                pipeline.delete(key)
                pipeline.set(key, whole)
                pipeline.execute()
        self.pages[key] = self._doubt.pop(key)
        self.writes += 1
