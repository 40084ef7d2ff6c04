"""Clusters under measurement: several processes that are started, killed, paused and brought back."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server import START_SECONDS, Launch, Process, SetupError, free_port, need_tool
from wire import Connection, WireError

SLOTS = 16_384
# How old the figures of one of our workers may be where nothing happens any more, and a little more.
FIGURES_SECONDS = 1.2
# Nothing is written to disk, as in all records: what that costs is for `durability.py`.
OURS = (
    "target/release/chorale server --port {port} --cluster-port {cluster_port} --peer-port {peer_port} "
    "--admin-port {admin_port} --bind 127.0.0.1 --groups {groups} --workers {workers} --durability memory"
)
REDIS = (
    "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no --cluster-enabled yes "
    "--cluster-node-timeout {timeout} --repl-diskless-sync-delay 0"
)

ETCD = (
    "etcd --name {name} --data-dir data --listen-client-urls http://127.0.0.1:{port} "
    "--advertise-client-urls http://127.0.0.1:{port} --listen-peer-urls http://127.0.0.1:{peer_port} "
    "--initial-advertise-peer-urls http://127.0.0.1:{peer_port} --initial-cluster {members} --log-level error"
)


def crc16(data: bytes) -> int:
    """CRC16-XMODEM, by which keys are given to slots."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(key: bytes) -> int:
    """The slot of a key without a hash tag."""
    return crc16(key) % SLOTS


def keys_of_ranges(count: int, each: int) -> list[list[bytes]]:
    """Keys for each of so many equal ranges of slots, as groups are."""
    found: list[list[bytes]] = [[] for _ in range(count)]
    missing, number = count * each, 0
    while missing:
        key = b"key:%d" % number
        place = found[slot_of(key) * count // SLOTS]
        if len(place) < each:
            place.append(key)
            missing -= 1
        number += 1
    return found


def bus_port() -> int:
    """A free port whose neighbour 10,000 above is free too: Redis Cluster speaks there."""
    while True:
        port = free_port()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port + 10_000))
            except (OSError, OverflowError):
                continue
            return port


class Node(Process):
    """One member of a cluster. Its folder outlives its process, so that it can be brought back."""

    start_seconds = START_SECONDS

    def __init__(self, name: str, argv: list[str], folder: Path, port: int, admin_port: int = 0) -> None:
        self.name = name
        self.argv = argv
        self.folder = folder
        self.port = port
        self.admin_port = admin_port
        self.log = folder / "server.log"
        self.process = None
        folder.mkdir()
        try:
            self.start()
        except BaseException:
            # Nobody has it yet who would end it.
            if self.process is not None:
                self.kill()
                self.reap()
            raise

    def spawn(self) -> None:
        """Starts the process. The one before is gone by then."""
        self.reap()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def start(self) -> None:
        """Starts the process, and waits until it answers."""
        self.spawn()
        deadline = time.monotonic() + self.start_seconds
        while True:
            self.ensure_alive()
            try:
                with Connection(self.port, timeout=2.0) as connection:
                    if connection.command(b"PING") == b"PONG":
                        return
            except (OSError, WireError):
                pass
            if time.monotonic() > deadline:
                raise SetupError(
                    f"{self.name} did not answer PING within {self.start_seconds:.0f} s; its log ends with:\n{self.log_tail()}"
                )
            time.sleep(0.02)

    def kill(self) -> None:
        """As a crash would end it. Nothing is waited for: on a busy machine the end takes a while."""
        self.process.kill()

    def reap(self) -> None:
        """Waits for the end of a process that was killed."""
        if self.process is not None:
            self.process.wait()

    def pause(self) -> None:
        """It stands still, and its links stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self.process.send_signal(signal.SIGCONT)

    def ask(self, *words: bytes) -> str:
        """The answer to one command."""
        with Connection(self.port, timeout=5.0) as connection:
            return connection.command(*words).decode()


def wait_until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Waits for a condition; what is asked for it may fail meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except (OSError, WireError, urllib.error.URLError):
            pass
        if time.monotonic() > deadline:
            raise SetupError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


class Cluster:
    """Several nodes in one temporary folder; use as a context manager so that none outlives the measurement."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-")
        self.folder = Path(self._scratch.name)
        self.nodes: list[Node] = []

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all nodes at once and removes the folder: nothing of it is needed any more."""
        for node in self.nodes:
            node.kill()
        for node in self.nodes:
            node.reap()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._scratch.cleanup()

    def settle(self) -> None:
        """Waits until the cluster is whole."""
        raise NotImplementedError

    def led_by(self, node: Node) -> int:
        """How many of the ranges of slots a node leads."""
        raise NotImplementedError

    def victim(self, number: int) -> Node:
        """Whom a fault hits: another node each time."""
        raise NotImplementedError

    def leaders(self) -> list[Node]:
        """The nodes that lead anything."""
        raise NotImplementedError


class OurCluster(Cluster):
    """Three of our nodes, or more."""

    def __init__(self, template: str, groups: int, workers: int, count: int = 3) -> None:
        super().__init__()
        self.groups = groups
        self.seconds_to_whole = 0.0
        launch = Launch("ours", template)
        first_peer_port = 0
        try:
            for number in range(count):
                ports = {name: free_port() for name in ("port", "cluster_port", "peer_port", "admin_port")}
                argv = shlex.split(template.format(groups=groups, workers=workers, **ports))
                argv[0] = launch.program()
                if number == 0:
                    first_peer_port = ports["peer_port"]
                else:
                    argv += ["--join", f"127.0.0.1:{first_peer_port}"]
                folder = self.folder / f"node{number + 1}"
                self.nodes.append(Node(f"node {number + 1}", argv, folder, ports["port"], ports["admin_port"]))
            began = time.monotonic()
            self.settle()
            self.seconds_to_whole = time.monotonic() - began
        except BaseException:
            self.stop()
            raise

    def page(self, node: Node, path: str) -> str:
        """A page of a node's admin port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{node.admin_port}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def view(self) -> dict[str, Any]:
        """The cluster as the first node sees it."""
        return dict(json.loads(self.page(self.nodes[0], "/cluster")))

    def counter(self, name: str) -> int:
        """A counter of all nodes together."""
        pattern = re.compile(rf"^{name}(?:{{[^}}]*}})? (\d+)$", re.MULTILINE)
        pages = [self.page(node, "/metrics") for node in self.nodes]
        found = [pattern.findall(page) for page in pages]
        if not all(found):
            raise SetupError(f"the metrics lack {name}")
        return sum(int(value) for values in found for value in values)

    def settle(self) -> None:
        """All replicas are there and have the log, and every node leads its share."""

        def is_whole() -> bool:
            views = [json.loads(self.page(node, "/cluster")) for node in self.nodes]
            for view in views:
                wanted = min(view["replication_factor"], len(self.nodes))
                if not all(node["is_up"] for node in view["nodes"]) or wanted != min(3, len(self.nodes)):
                    return False
                for group in view["groups"]:
                    voters = [r for r in group["replicas"] if r["role"] == "voter"]
                    if len(voters) != wanted or len(group["replicas"]) != wanted:
                        return False
            led = Counter(group["leader"] for group in views[0]["groups"])
            agreed = all([g["leader"] for g in v["groups"]] == [g["leader"] for g in views[0]["groups"]] for v in views)
            share = self.groups // (len(self.nodes) + 1)
            return agreed and None not in led and all(led[node["id"]] >= share for node in views[0]["nodes"])

        wait_until(is_whole, 120.0, "all groups have their replicas, and every node leads its share of them")

    def led_by(self, node: Node) -> int:
        view = json.loads(self.page(node, "/cluster"))
        return sum(group["leader"] == view["answered_by"] for group in view["groups"])

    def victim(self, number: int) -> Node:
        return self.nodes[number % len(self.nodes)]

    def leaders(self) -> list[Node]:
        return self.nodes


class RedisCluster(Cluster):
    """Three primaries with a replica each."""

    def __init__(self, template: str, timeout_ms: int) -> None:
        super().__init__()
        launch = Launch("redis", template)
        try:
            for number in range(6):
                port = bus_port()
                argv = shlex.split(template.format(port=port, timeout=timeout_ms))
                argv[0] = launch.program()
                folder = self.folder / f"node{number + 1}"
                self.nodes.append(Node(f"redis {number + 1}", argv, folder, port))
            addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
            tool = [need_tool("redis-cli"), "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"]
            done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                raise SetupError(f"redis-cli --cluster create failed: {(done.stdout + done.stderr)[-500:]}")
            self.settle()
        except BaseException:
            self.stop()
            raise

    def settle(self) -> None:
        """All slots are served, and every primary has a replica that has its data."""

        def is_whole() -> bool:
            for node in self.nodes:
                if "cluster_state:ok" not in node.ask(b"CLUSTER", b"INFO"):
                    return False
                lines = node.ask(b"CLUSTER", b"NODES").split("\n")
                if any("fail" in line for line in lines) or sum(" slave " in f" {line} ".replace(",", " ") for line in lines) != 3:
                    return False
                replication = node.ask(b"INFO", b"replication")
                is_primary = "role:master" in replication
                if not ("connected_slaves:1" in replication if is_primary else "master_link_status:up" in replication):
                    return False
            return True

        wait_until(is_whole, 120.0, "Redis Cluster is whole")

    def owners(self) -> dict[int, Node]:
        """Who serves which slots, by their primary's view."""
        by_port = {node.port: node for node in self.nodes}
        text = next(node for node in self.nodes if node.process.poll() is None).ask(b"CLUSTER", b"NODES")
        found: dict[int, Node] = {}
        for line in text.split("\n"):
            fields = line.split()
            if len(fields) < 9:
                continue
            node = by_port[int(fields[1].partition("@")[0].rpartition(":")[2])]
            for piece in fields[8:]:
                first, _, last = piece.partition("-")
                found.update(dict.fromkeys(range(int(first), int(last or first) + 1), node))
        return found

    def leaders(self) -> list[Node]:
        return sorted(set(self.owners().values()), key=lambda node: node.port)

    def led_by(self, node: Node) -> int:
        return sum(owner is node for owner in self.owners().values())

    def victim(self, number: int) -> Node:
        leaders = self.leaders()
        return leaders[number % len(leaders)]


class Etcd(Cluster):
    """Three members of etcd, with their logs on disk, as it always has them."""

    def __init__(self, template: str) -> None:
        super().__init__()
        launch = Launch("etcd", template)
        try:
            ports = [(free_port(), free_port()) for _ in range(3)]
            members = ",".join(f"m{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(ports))
            for number, (port, peer) in enumerate(ports):
                line = template.format(name=f"m{number}", port=port, peer_port=peer, members=members)
                argv = [launch.program(), *line.split()[1:]]
                self.nodes.append(EtcdMember(f"etcd {number}", argv, self.folder / f"m{number}", port))
            self.endpoints = ",".join(f"127.0.0.1:{port}" for port, _ in ports)
            wait_until(lambda: self.control("endpoint", "health").returncode == 0, 60.0, "etcd is whole")
        except BaseException:
            self.stop()
            raise

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs etcdctl."""
        argv = [need_tool("etcdctl"), f"--endpoints={self.endpoints}", *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=180, env={"ETCDCTL_API": "3"}, check=False)


class EtcdMember(Node):
    """One member. It answers only when it has seen the others."""

    def start(self) -> None:
        self.spawn()
