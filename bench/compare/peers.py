"""The servers that are compared, and the ways to ask them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import load
import nodes
import server
from cells import BATCH, VALUE_BYTES, Cell
from durable import hosts
from nodes import Etcd, OurCluster, RedisCluster
from server import ROOT, Launch, Process, Server, SetupError
from wire import Connection

# Rewriting the log would fall into the turns of others.
LOGGED = hosts.REDIS_COMMANDS
ETCD_DRIVER = ROOT / "target" / "compare" / "etcd-driver"
GROUPS = 6
NODE_TIMEOUT_MS = 15_000
REDIS, REDIS_ALWAYS = "redis", "redis, log synced always"
REDIS_NO, REDIS_EVERYSEC = "redis, log not synced", "redis, log synced every second"
CLUSTER, CLUSTER_WAIT = "Redis Cluster", "Redis Cluster, WAIT 1"
ETCD = "etcd"
ONE, ANY, SLOTS = "Chorale, 1 node", "Chorale, 3 nodes, any node", "Chorale, 3 nodes, cluster endpoint"
ONE_RELAXED, ONE_STRICT = "Chorale, 1 node, relaxed", "Chorale, 1 node, strict"
ANY_RELAXED, ANY_STRICT = "Chorale, 3 nodes, any node, relaxed", "Chorale, 3 nodes, any node, strict"
# The names of the peers for `--only`, and the ways to ask each.
PEERS = {
    "redis": [REDIS],
    "redis-no": [REDIS_NO],
    "redis-everysec": [REDIS_EVERYSEC],
    "redis-always": [REDIS_ALWAYS],
    "redis-cluster": [CLUSTER, CLUSTER_WAIT],
    "etcd": [ETCD],
    "chorale-1": [ONE],
    "chorale-1-relaxed": [ONE_RELAXED],
    "chorale-1-strict": [ONE_STRICT],
    "chorale-3": [ANY, SLOTS],
    "chorale-3-relaxed": [ANY_RELAXED],
    "chorale-3-strict": [ANY_STRICT],
}
# When a log of Redis is synced, and how our nodes keep what they acknowledge.
APPENDFSYNC = {"redis-no": "no", "redis-everysec": "everysec", "redis-always": "always"}
DURABILITY = {
    "chorale-1-relaxed": "relaxed",
    "chorale-1-strict": "strict",
    "chorale-3": "memory",
    "chorale-3-relaxed": "relaxed",
    "chorale-3-strict": "strict",
}
WAYS = [way for ways in PEERS.values() for way in ways]
LAUNCHES = {
    "redis": Launch("redis", server.REDIS),
    **{name: Launch(name, LOGGED.replace("{appendfsync}", when)) for name, when in APPENDFSYNC.items()},
    "redis-cluster": Launch("redis-cluster", nodes.REDIS),
    "etcd": Launch("etcd", nodes.ETCD),
    "chorale-1": Launch("chorale-1", server.OURS),
    **{name: Launch(name, hosts.OURS.replace("{durability}", durability)) for name, durability in DURABILITY.items()},
}


@dataclass
class Way:
    """A way to ask servers: through which ports, by which protocol, and whose CPU it takes."""

    name: str
    ports: Sequence[int]
    processes: Sequence[Process]
    is_cluster: bool = False
    # Replicas that WAIT asks for behind every write.
    wait: int = 0
    # Keys of one request need a hash tag.
    is_tagged: bool = False
    is_ours: bool = False
    # Whose groups have logs.
    logs: OurCluster | None = None

    def counts(self) -> tuple[int, int] | None:
        """Commands that all nodes have carried out for clients, and entries that all leaders have proposed."""
        if self.logs is None:
            return None
        # What nodes show of their groups is a while old.
        time.sleep(nodes.FIGURES_SECONDS)
        commands = 0
        for node in self.logs.nodes:
            with Connection(node.port) as connection:
                stats = connection.command(b"INFO", b"stats")
            commands += int(stats.split(b"total_commands_processed:")[1].split()[0])
        return commands, self.logs.counter("chorale_entries_proposed_total")

    def takes(self, cell: Cell) -> bool:
        """Whether it has this workload, and is another than one that is measured anyway."""
        if cell.workload == "xfer":
            return self.is_ours
        # Without a write there is nothing to wait for, or to log.
        return cell.writes or (not self.wait and self.name not in (REDIS_NO, REDIS_EVERYSEC, REDIS_ALWAYS))

    def ask(self, cell: Cell, seconds: float, warmup: float, is_loaded: bool) -> dict[str, Any]:
        """Runs a cell, and returns the report of the generator."""
        # Clients stand at all nodes if they are enough to be shared out evenly, or nearly so: 17 at each of three for 50.
        ports = self.ports if self.is_cluster or cell.clients >= 50 else self.ports[:1]
        clients = -(-cell.clients // len(ports))
        options = ["--workload", cell.workload, "--clients", str(clients), "--pipeline", str(cell.pipeline)]
        options += ["--keys", str(cell.keys), "--size", str(VALUE_BYTES), "--warmup", f"{warmup:g}"]
        if cell.workload == "get_set":
            options += ["--ratio", cell.ratio]
        if cell.workload in ("mset", "mget"):
            options += ["--batch", str(BATCH)]
        if self.is_tagged and cell.is_batch:
            options.append("--tagged")
        if self.is_cluster:
            options.append("--cluster")
        if self.wait and cell.writes:
            options += ["--wait", str(self.wait)]
        if is_loaded:
            options.append("--no-load")
        return load.ask(ports, seconds, options)

    def empty(self) -> None:
        """Removes all keys."""
        for process in self.processes:
            with Connection(process.port) as connection:
                if b"role:slave" not in connection.command(b"INFO", b"replication"):
                    connection.command(b"FLUSHALL")
            if self.is_ours:
                return


@dataclass
class EtcdWay(Way):
    """Members of etcd, asked over its own protocol."""

    cluster: Etcd | None = field(default=None)

    def ask(self, cell: Cell, seconds: float, warmup: float, is_loaded: bool) -> dict[str, Any]:
        argv = [str(ETCD_DRIVER), "-endpoints", ",".join(f"127.0.0.1:{port}" for port in self.ports)]
        argv += ["-processes", ",".join(str(process.pid) for process in self.processes)]
        argv += ["-workload", cell.workload, "-clients", str(cell.clients), "-pipeline", str(cell.pipeline)]
        argv += ["-keys", str(cell.keys), "-size", str(VALUE_BYTES), "-batch", str(BATCH), "-ratio", cell.ratio]
        argv += ["-seconds", f"{seconds:g}", "-warmup", f"{warmup:g}"]
        if is_loaded:
            argv.append("-no-load")
        return load.read(argv, seconds)

    def empty(self) -> None:
        assert self.cluster is not None
        done = self.cluster.control("del", "--prefix", "bench:")
        if done.returncode != 0:
            raise SetupError(f"etcdctl del failed: {done.stderr[-300:]}")


def unstarted(names: Sequence[str]) -> list[Way]:
    """The ways that these peers will have, to count what is to be measured."""
    ways = [(name, way) for name in names for way in PEERS[name]]
    return [Way(way, [], [], wait=int(way == CLUSTER_WAIT), is_ours=name.startswith("chorale")) for name, way in ways]


def _our_ways(cluster: OurCluster, names: Sequence[str]) -> list[Way]:
    """The cluster through any node, and through the cluster endpoint if that has a name."""
    any_node, *slots = names
    endpoints = [int(node.argv[node.argv.index("--cluster-port") + 1]) for node in cluster.nodes]
    return [
        Way(any_node, [node.port for node in cluster.nodes], cluster.nodes, is_ours=True, logs=cluster),
        *(Way(name, endpoints[:1], cluster.nodes, is_cluster=True, is_ours=True, logs=cluster) for name in slots),
    ]


def start(names: Sequence[str], stack: ExitStack, say: Callable[[str], None]) -> list[Way]:
    """Starts these peers, beside each other. They end with the stack."""
    ways: list[Way] = []
    for name in names:
        say(f"starting {name}")
        launch = LAUNCHES[name]
        if name == "redis-cluster":
            theirs = stack.enter_context(RedisCluster(launch.template, NODE_TIMEOUT_MS))
            ports = [theirs.nodes[0].port]
            for way, wait in ((CLUSTER, 0), (CLUSTER_WAIT, 1)):
                ways.append(Way(way, ports, theirs.nodes, is_cluster=True, wait=wait, is_tagged=True))
        elif name == "etcd":
            members = stack.enter_context(Etcd(launch.template))
            ways.append(EtcdWay(ETCD, [node.port for node in members.nodes], members.nodes, cluster=members))
        elif name.startswith("chorale-3"):
            ways += _our_ways(stack.enter_context(OurCluster(launch.template, GROUPS, 1)), PEERS[name])
        elif name in DURABILITY:
            kept = stack.enter_context(hosts.Host(name, launch.template, groups=GROUPS, workers=1))
            ways.append(Way(PEERS[name][0], [kept.port], [kept], is_ours=True))
        else:
            alone = stack.enter_context(Server(launch))
            ways.append(Way(PEERS[name][0], [alone.port], [alone], is_ours=name == "chorale-1"))
    return ways
