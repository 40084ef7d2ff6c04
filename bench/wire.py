"""A blocking RESP connection and the encoding of commands."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

OK = b"+OK\r\n"


class WireError(Exception):
    """The server answered with an error, with something unexpected, or not at all."""


def encode(*parts: bytes) -> bytes:
    """One command as an array of bulk strings."""
    lines = [b"*%d\r\n" % len(parts)]
    lines.extend(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"".join(lines)


class Connection:
    """One connection that sends requests and waits for their replies."""

    def __init__(self, port: int, timeout: float = 60.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def command(self, *parts: bytes) -> bytes:
        """Sends one command whose reply is a single line or one bulk string, and returns the payload."""
        self.socket.sendall(encode(*parts))
        data = self._receive(b"")
        while b"\r\n" not in data:
            data = self._receive(data)
        line, _, rest = data.partition(b"\r\n")
        if line.startswith(b"-"):
            raise WireError(f"{parts[0].decode()} was refused: {line[1:].decode(errors='replace')}")
        if not line.startswith(b"$"):
            return line[1:]
        size = int(line[1:])
        if size < 0:
            return b""
        while len(rest) < size + 2:
            rest = self._receive(rest)
        return rest[:size]

    def exchange(self, request: bytes, reply_size: int) -> bytes:
        """Sends raw bytes and reads until a reply of the known size is there."""
        self.socket.sendall(request)
        data = self.socket.recv(65536)
        while len(data) < reply_size:
            data = self._receive(data)
        return data

    def exchange_lines(self, request: bytes, lines: int) -> bytes:
        """Sends raw bytes and reads until so many reply lines are there."""
        self.socket.sendall(request)
        data = self.socket.recv(65536)
        while data.count(b"\r\n") < lines:
            data = self._receive(data)
        return data

    def pour(self, batches: Iterable[tuple[bytes, int]], on_loaded: Callable[[int], None] | None = None) -> int:
        """Streams batches of commands that each answer +OK and returns how many were answered.

        A batch is its bytes and how many commands it holds. Two batches are in flight at most: the
        server always has work, and the replies not yet read always fit into the socket buffers.
        """
        total = 0
        pending = 0
        for data, commands in batches:
            self.socket.sendall(data)
            if pending:
                self._drain(pending)
                total += pending
                if on_loaded is not None:
                    on_loaded(total)
            pending = commands
        if pending:
            self._drain(pending)
            total += pending
            if on_loaded is not None:
                on_loaded(total)
        return total

    def _drain(self, commands: int) -> None:
        left = commands * len(OK)
        while left > 0:
            data = self.socket.recv(min(left, 1 << 20))
            if not data:
                raise WireError("the server closed the connection while keys were being loaded")
            if b"-" in data:
                raise WireError(f"a SET was refused while loading: {data[data.index(b'-') :][:200]!r}")
            left -= len(data)

    def _receive(self, data: bytes) -> bytes:
        more = self.socket.recv(65536)
        if not more:
            raise WireError("the server closed the connection")
        return data + more
