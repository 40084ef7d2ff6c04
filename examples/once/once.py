"""A counter that is right although connections break at the worst moment.

Each increment is sent, and now and then the connection is dropped before the answer can be read: the client cannot know
whether it was carried out. It sends it again, at another node. Under the same name the increment is carried out once; without
a name, twice whenever the first one had arrived.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def uuid7() -> str:
    """A UUID of version 7 (RFC 9562): the milliseconds since 1970, and random bits. From Python 3.14 on: uuid.uuid7()."""
    octets = bytearray(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10))
    octets[6] = octets[6] & 0x0F | 0x70
    octets[8] = octets[8] & 0x3F | 0x80
    text = octets.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Nodes:
    """One connection to some node; the next one if it breaks."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.place = 0
        self.client = self.connect()

    def connect(self) -> redis.Redis:
        port = self.ports[self.place % len(self.ports)]
        # redis-py would send a command again by itself when the connection breaks: that is what is to be shown here.
        return redis.Redis(port=port, socket_timeout=5, retry=Retry(NoBackoff(), 0), single_connection_client=True)

    def leave(self) -> None:
        self.client.close()
        self.place += 1
        self.client = self.connect()

    def send_and_hang_up(self, *commands: tuple[str, ...]) -> None:
        """Sends commands, and breaks the connection without reading what they are answered."""
        connection = self.client.connection
        connection.send_packed_command(connection.pack_commands(commands))
        self.leave()

    def ask(self, *commands: tuple[str, ...]) -> object:
        """Sends commands in one packet, and answers with what the last of them is answered."""
        with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return pipeline.execute()[-1]


def increment(nodes: Nodes, key: str, is_named: bool, hangs_up: bool) -> object:
    """One increment: sent until it is answered, here and there."""
    commands = [("INCR", key)]
    if is_named:
        # The name is made once, and stays the same for every retry.
        commands.insert(0, ("CLIENT", "REQUEST", uuid7()))
    if hangs_up:
        nodes.send_and_hang_up(*commands)
    while True:
        try:
            return nodes.ask(*commands)
        except (redis.ConnectionError, redis.TimeoutError):
            nodes.leave()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ports", nargs="*", type=int, default=[6379], help="where nodes of one cluster listen")
    parser.add_argument("--count", type=int, default=1000, help="increments of each counter (default: %(default)s)")
    options = parser.parse_args()
    prng = random.Random(1)
    nodes = Nodes(options.ports)
    nodes.client.delete("once:named", "once:nameless")
    broken = 0
    for _ in range(options.count):
        hangs_up = prng.random() < 0.3
        broken += hangs_up
        increment(nodes, "once:named", True, hangs_up)
        increment(nodes, "once:nameless", False, hangs_up)
    named, nameless = (int(value) for value in nodes.client.mget("once:named", "once:nameless"))
    print(f"{options.count:,} increments, {broken:,} of them sent again after the connection broke")
    print(f"    with names      {named:>7,}")
    print(f"    without names   {nameless:>7,}")
    if named != options.count:
        print("WRONG: an increment with a name was lost, or carried out twice.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
