"""Clients that set keys to bytes that no compressor makes smaller. Those of `chorale bench` are pieces of one text."""

from __future__ import annotations

import multiprocessing
import random
import selectors
import signal
import socket

from wire import OK, WireError

# Values begin anywhere in so many random bytes: a compressor that looks back for less finds none again.
BLOCK_BYTES = 16 << 20
KEY_BYTES = len(b"key:000000000000")


def write(port: int, keys: int, size: int, writes: int, clients: int, pipeline: int, seed: int) -> None:
    """Sets random keys so many times, from a process of its own. With seed 0 each key in turn, so that all are there."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_run, args=(port, keys, size, writes, clients, pipeline, seed))
    process.start()
    try:
        process.join()
    finally:
        if process.is_alive():
            process.kill()
            process.join()
    if process.exitcode != 0:
        raise WireError("the clients that write did not come to their end")


def _run(port: int, keys: int, size: int, writes: int, clients: int, pipeline: int, seed: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    draw = random.Random(seed)
    block = draw.randbytes(BLOCK_BYTES + size)
    head = b"*3\r\n$3\r\nSET\r\n$%d\r\nkey:" % KEY_BYTES
    middle = b"\r\n$%d\r\n" % size
    sent = 0

    def batch() -> bytes:
        nonlocal sent
        parts = []
        for _ in range(min(pipeline, writes - sent)):
            key = int(draw.random() * keys) if seed else sent % keys
            at = int(draw.random() * BLOCK_BYTES)
            parts.append(b"%s%012d%s%s\r\n" % (head, key, middle, block[at : at + size]))
            sent += 1
        return b"".join(parts)

    selector = selectors.DefaultSelector()
    missing: dict[socket.socket, int] = {}

    def ask(link: socket.socket) -> None:
        before = sent
        data = batch()
        missing[link] = (sent - before) * len(OK)
        if data:
            link.sendall(data)
        else:
            selector.unregister(link)
            link.close()

    for _ in range(clients):
        link = socket.create_connection(("127.0.0.1", port), timeout=120)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(link, selectors.EVENT_READ)
        ask(link)
    while selector.get_map():
        for key, _ in selector.select(120):
            link = key.fileobj
            data = link.recv(65536)  # type: ignore[union-attr]
            if not data or b"-" in data:
                raise WireError(f"a SET was refused: {data[:200]!r}")
            missing[link] -= len(data)  # type: ignore[index]
            if missing[link] == 0:  # type: ignore[index]
                ask(link)  # type: ignore[arg-type]
