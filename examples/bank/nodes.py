"""A cluster of servers on this machine, whose nodes can be killed, paused and brought back."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"

# Below the range from which the kernel takes ports for connections: a node that is down keeps its ports.
PORTS = range(20_000, 30_000)

START_SECONDS = 20.0
WHOLE_SECONDS = 60.0


class CannotRun(Exception):
    """The bank cannot open; the message says what to do about it."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise CannotRun(f"There are no {count} free ports between {PORTS.start} and {PORTS.stop}.")


class Node:
    """One server process. Its folder outlives the process, so that it can come back."""

    def __init__(self, number: int, program: Path, folder: Path, flags: dict[str, str], ports: list[int]) -> None:
        self.number = number
        self.port, self.peer_port, self.admin_port = ports
        self.folder = folder
        self.state = "down"
        self.process: subprocess.Popen[bytes] | None = None
        named = {
            "--bind": HOST,
            "--port": str(self.port),
            "--peer-port": str(self.peer_port),
            "--admin-port": str(self.admin_port),
            "--cluster-port": "0",
            "--dir": str(folder / "data"),
            **flags,
        }
        self.argv = [str(program), "server", *(word for pair in named.items() for word in pair)]
        folder.mkdir()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            # A session of its own: an interrupt from the terminal is for the bank, which ends its nodes itself.
            self.process = subprocess.Popen(
                self.argv,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.state = "starting"

    def kill(self) -> None:
        """As a crash would end it."""
        self.process.kill()
        self.process.wait()
        self.state = "killed"

    def pause(self) -> None:
        """It stands still, and its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)
        self.state = "paused"

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.state = "up"

    def has_ended(self) -> bool:
        """Whether the process is gone although nobody killed it."""
        return self.state in ("up", "starting") and self.process.poll() is not None

    def view(self) -> dict[str, Any]:
        """The cluster as this node sees it."""
        with urllib.request.urlopen(f"http://{HOST}:{self.admin_port}/cluster", timeout=2) as answer:
            return dict(json.loads(answer.read()))

    def log_tail(self) -> str:
        try:
            lines = (self.folder / "log").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return "\n".join(lines[-15:]) or "(it printed nothing)"


class Cluster:
    """Several nodes that are one store, in one folder."""

    def __init__(self, program: Path, count: int, groups: int, folder: Path, more: dict[str, str] | None = None) -> None:
        self.nodes: list[Node] = []
        flags = {"--groups": str(groups), "--workers": "1", **(more or {})}
        ports = free_ports(3 * count)
        for number in range(count):
            own = ports[3 * number : 3 * number + 3]
            node = Node(number + 1, program, folder / f"node{number + 1}", flags, own)
            flags["--join"] = f"{HOST}:{self.nodes[0].peer_port if self.nodes else own[1]}"
            self.nodes.append(node)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
            deadline = time.monotonic() + START_SECONDS
            while True:
                if node.has_ended() or time.monotonic() > deadline:
                    raise CannotRun(f"Node {node.number} did not start; its log ends with:\n{node.log_tail()}")
                try:
                    with socket.create_connection((HOST, node.port), timeout=1):
                        break
                except OSError:
                    time.sleep(0.05)
        if trouble := self.wait_until_whole():
            raise CannotRun(f"The cluster does not come up: {trouble}.")

    def wait_until_whole(self) -> str | None:
        """Waits until everything has all its replicas again; says what lacks if that takes too long."""
        deadline = time.monotonic() + WHOLE_SECONDS
        while True:
            for node in self.nodes:
                if node.has_ended():
                    return f"node {node.number} ended by itself; its log ends with:\n{node.log_tail()}"
            try:
                lacking = self.lacking()
            except (OSError, ValueError) as error:
                lacking = f"a node does not show the cluster ({error})"
            if lacking is None:
                for node in self.nodes:
                    node.state = "up"
                return None
            if time.monotonic() > deadline:
                return f"{lacking}, for {WHOLE_SECONDS:.0f} s"
            time.sleep(0.1)

    def lacking(self) -> str | None:
        """What a node misses of a whole cluster; nothing if every node sees all others, and all replicas."""
        for node in self.nodes:
            view = node.view()
            up = sum(member["is_up"] for member in view["nodes"])
            if up != len(self.nodes) or len(view["nodes"]) != len(self.nodes):
                return f"node {node.number} sees {up} nodes"
            wanted = 3 if len(self.nodes) >= 3 else 1
            for group in view["groups"]:
                voters = sum(replica["role"] == "voter" for replica in group["replicas"])
                if voters != wanted or len(group["replicas"]) != wanted or group["leader"] is None:
                    return f"node {node.number} sees a group with {voters} replicas and leader {group['leader']}"
        return None

    def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()
