"""Ports for servers that a script starts."""

import random
import socket

# Below the range from which the system gives ports to outgoing connections: one of those would sooner or later sit on a
# number that was free a moment ago.
PORTS = range(10_000, 32_000)
given = set()


def free_port():
    """A port that nobody listens on, and that no other call of this process was given."""
    while True:
        port = random.choice(PORTS)
        if port in given:
            continue
        with socket.socket() as probe:
            # As servers do: connections of one that has ended may linger there.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        given.add(port)
        return port
