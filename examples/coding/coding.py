"""What erasure coding does: half the memory, and nothing is lost with a node.

A coded and a replicated cluster of three nodes are filled with the same pages of a gazetteer, and memory is shown side by side
while they grow. Then a node of the coded one is killed, and every page is read from what the two others have. It comes back
under its name with nothing in its directory, as another member, while clients read and write; when it has its fragments, all is
read again. Then a node is killed for good, and a fourth one takes its place, which makes its fragments from those of the others. At
the end one more is killed, so that what the newcomer made is needed for every page.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

# The nodes are those of the bank; the folder that `picture` takes the drawing from has other ones of that name.
sys.path.append(str(Path(__file__).resolve().parent.parent / "bank"))

from program import EXIT_CANNOT_RUN, EXIT_INTERRUPTED, EXIT_WRONG, number_within, termination_interrupts  # noqa: E402

try:
    import redis

    from pages import OtherData, gazetteer
except ImportError as missing:
    print(f"coding: {missing}.\nStart this through examples/coding/run, which installs what it needs.", file=sys.stderr)
    sys.exit(EXIT_CANNOT_RUN)

from nodes import HOST, CannotRun, Cluster, Node, free_ports  # noqa: E402

from clients import Client, Wrong, check_all, connect  # noqa: E402
from picture import FILLED, KILLED, Reading, Screen, growth, mib, write_svg  # noqa: E402

GROUPS = 12
BATCH = 25
SAMPLES = 60
SAMPLE_SECONDS = 0.25
# The most that coded pages may take of what they would take replicated.
CODED_SHARE = 0.75
# The pages of which a newcomer makes its fragments: some are whole where they were used last, and are sent like that.
MADE_SHARE = 0.8
# A group at rest lags by the entry that settled what was before it.
SETTLED_LAG = 4
SETTLED_SECONDS = 60.0
# How long what an operator says may be refused.
ADMIN_SECONDS = 20.0
# So many looks in a row see nothing that goes, and as much memory: for longer than the figures of INFO are old.
SETTLED_LOOKS = 10
FIELDS = (
    "coded_values",
    "coded_value_bytes",
    "coded_fragment_bytes",
    "coded_whole_values",
    "coding_lag",
    "coding_groups",
    "coding_groups_filling",
    "coding_groups_stalled",
    "coding_gathered",
    "coding_refilled",
    "coding_demoted",
    "coding_damaged",
    "coding_lacking",
)


class Failed(Exception):
    """Something is not as it must be."""


class Watched:
    """A cluster, with a connection to each node for INFO."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._clients: dict[int, redis.Redis] = {}

    def info(self, node: Node, section: str) -> dict[str, int]:
        client = self._clients.setdefault(node.port, connect(node.port))
        return client.info(section)

    def sum(self, field: str) -> int:
        """A field of INFO memory of all nodes together."""
        return sum(self.info(node, "memory")[field] for node in self.cluster.nodes)

    def data(self) -> dict[str, float]:
        """What the data take at each node that answers, in bytes."""
        found = {}
        for node in self.cluster.nodes:
            if node.state == "killed":
                continue
            try:
                found[f"node {node.number}"] = float(self.info(node, "memory")["used_memory_dataset"])
            except (redis.RedisError, KeyError):
                self.forget(node)
        return found

    def forget(self, node: Node) -> None:
        """Its connection is of no use any more."""
        if client := self._clients.pop(node.port, None):
            client.close()

    def wait_until_settled(self, look: Callable[[], None]) -> float:
        """Waits until nothing lags, no page is replaced by its fragment any more, and memory stays what it is. How many seconds it took."""
        began = time.monotonic()
        before: list[tuple[int, int]] = []
        looks = 0
        while True:
            lacking = self._lacking()
            now = [(self.info(node, "coding")["coding_demoted"], self.info(node, "memory")["used_memory_dataset"]) for node in self.cluster.nodes]
            looks = looks + 1 if now == before and lacking is None else 0
            before = now
            if looks == SETTLED_LOOKS:
                # To see that nothing changes takes its time, too.
                return max(0.0, time.monotonic() - began - SETTLED_LOOKS * SAMPLE_SECONDS)
            if time.monotonic() - began > SETTLED_SECONDS:
                raise Failed(f"not settled within {SETTLED_SECONDS:.0f} s: {lacking or f'pages still go: {now}'}")
            look()
            time.sleep(SAMPLE_SECONDS)

    def _lacking(self) -> str | None:
        for node in self.cluster.nodes:
            found = self.info(node, "coding")
            for field, most in (("coding_groups_filling", 0), ("coding_groups_cutting", 0), ("coding_groups_stalled", 0), ("coding_to_refill", 0), ("coding_lag", SETTLED_LAG)):
                if found[field] > most:
                    return f"{field} of node {node.number} is {found[field]}"
        return None


class Story:
    """What happens, in order, and what was seen."""

    def __init__(self, options: argparse.Namespace, screen: Screen, pages: dict[str, bytes], coded: Cluster, replicated: Cluster) -> None:
        self.options = options
        self.screen = screen
        self.pages = pages
        self.coded = Watched(coded)
        self.replicated = Watched(replicated)
        # Bytes of pages, and what the data of the replicated and the coded cluster take by then.
        self.grown: list[tuple[float, float, float]] = []
        # Seconds, and what the data take at each node.
        self.data: list[tuple[float, dict[str, float]]] = []
        self.events: list[tuple[float, str]] = []
        self._loss_began = 0.0
        self._next_sample = 0.0

    def run(self) -> None:
        first, second, third = self.coded.cluster.nodes
        self.fill()
        self.lose(second)
        self.replace(second)
        self.read_all(self.coded, "after that", self.coded.cluster.nodes)
        self.read_all(self.replicated, "the replicated cluster", self.replicated.cluster.nodes[:1], self.written)
        newcomer = self.rebuild(third)
        self.show_info()
        self.lose_last(second, [first, newcomer])

    # ---- memory

    def fill(self) -> None:
        """Both clusters get the same pages in turns."""
        total = sum(map(len, self.pages.values()))
        self.screen.say(f"\n1. {len(self.pages):,} pages, {mib(total)}, into both clusters")
        self.written = dict(self.pages)
        both = [connect(watched.cluster.nodes[0].port) for watched in (self.replicated, self.coded)]
        keys = list(self.pages)
        written, sampled = 0, 0
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            for client in both:
                with client.pipeline(transaction=False) as pipeline:
                    for key in batch:
                        pipeline.set(key, self.pages[key])
                    pipeline.execute()
            written += sum(len(self.pages[key]) for key in batch)
            if written * SAMPLES >= sampled * total:
                sampled += 1
                self._sample(written, total)
        for client in both:
            client.close()
        took = self.coded.wait_until_settled(lambda: self._sample(total, total))
        self._sample(total, total, is_last=True)
        self.screen.event(f"all is settled, {took:.1f} s after the last page")
        for field, what in (("used_memory_dataset", "data"), ("used_memory", "used"), ("used_memory_rss", "resident")):
            replicated, coded = self.replicated.sum(field), self.coded.sum(field)
            self.screen.say(f"  {what:<9} replicated {mib(replicated):>10}   coded {mib(coded):>10}   {coded / replicated:.2f} of it   ({field} of INFO, three nodes)")
        self.check_size()

    def check_size(self) -> None:
        """Coded pages take as little as they should, by what pages take on the replicated cluster."""
        written, replicated, _ = self.grown[-1]
        would = replicated / written * sum(map(len, self.pages.values()))
        takes = self.coded.sum("used_memory_dataset")
        if takes > CODED_SHARE * would:
            raise Failed(f"coded pages take {mib(takes)}; replicated ones would take {mib(would)}")

    def _sample(self, written: int, total: int, is_last: bool = False) -> None:
        replicated, coded = (watched.sum("used_memory_dataset") for watched in (self.replicated, self.coded))
        self.grown.append((written, replicated, coded))
        growth(self.screen, written / total, written, replicated, coded, is_last)

    # ---- a node is lost

    def lose(self, node: Node) -> None:
        self.screen.say(f"\n2. Node {node.number} of the coded cluster is killed")
        self._loss_began = time.monotonic()
        self._look()
        self._kill(node)
        others = [other for other in self.coded.cluster.nodes if other is not node]
        self.read_all(self.coded, "from the fragments of two nodes", others)

    def _kill(self, node: Node) -> None:
        node.kill()
        self.coded.forget(node)
        self._event(f"{KILLED}node {node.number}")

    def _event(self, text: str) -> None:
        self.screen.event(text)
        self.events.append((time.monotonic() - self._loss_began, text))

    def _look(self) -> None:
        """Notes what the data take at each node, now and then."""
        now = time.monotonic()
        if now >= self._next_sample:
            self._next_sample = now + SAMPLE_SECONDS
            self.data.append((now - self._loss_began, self.coded.data()))

    def read_all(self, watched: Watched, what: str, nodes: list[Node], pages: dict[str, bytes] | None = None) -> None:
        """Every page through each of the nodes, in pipelines of GET and by MGET in turns."""
        pages = self.pages if pages is None else pages
        for place, node in enumerate(nodes):
            reading = Reading(self.screen, f"{what}, by node {node.number}", len(pages))

            def advance(count: int) -> None:
                reading.advance(count)
                if self._loss_began:
                    self._look()

            again = check_all(node.port, pages, has_mget=place % 2 == 1, advance=advance)
            if again:
                self.screen.event(f"{again} of these requests were refused at first, and sent again")

    # ---- another takes its place

    def replace(self, node: Node) -> None:
        self.screen.say(f"\n3. Node {node.number} comes back with nothing, while {self.options.clients} clients read and write")
        others = [other for other in self.coded.cluster.nodes if other is not node]
        over = threading.Event()
        shares: list[dict[str, bytes]] = [{} for _ in range(self.options.clients)]
        for place, (key, page) in enumerate(self.pages.items()):
            shares[place % len(shares)][key] = page
        seeds = random.Random(self.options.seed)
        clients = [Client(others[place % 2].port, share, seeds.randrange(1 << 32), over) for place, share in enumerate(shares)]
        for client in clients:
            client.start()
        began = time.monotonic()
        try:
            # What is written while a node is away stays whole.
            self._work(clients, 1.0)
            started = time.monotonic()
            self._bring_back(node, clients)
            filled = time.monotonic()
            self._work(clients, max(1.0, self.options.seconds - (time.monotonic() - began)))
        finally:
            over.set()
            for client in clients:
                client.join()
        for client in clients:
            self.pages.update(client.pages)
        self._judge(clients, started, filled)
        took = self.coded.wait_until_settled(self._look)
        self._look()
        self.screen.event(f"all is settled, {took:.1f} s after the last write")
        self.check_size()

    def rebuild(self, node: Node) -> Node:
        """Another node takes the place of one that is gone for good, and makes its fragments from those of the others."""
        cluster = self.coded.cluster
        self.screen.say(f"\n4. Node {node.number} is killed for good, and node {len(cluster.nodes) + 1} takes its place")
        # What was read is whole where it was read, until more has been used later. What is rebuilt must be in fragments.
        self.coded.wait_until_settled(self._look)
        self._kill(node)
        number = len(cluster.nodes) + 1
        flags = {"--join": f"{HOST}:{cluster.nodes[0].peer_port}", "--workers": "1", "--node-name": f"node-{number}", "--coding": "on"}
        newcomer = Node(number, self.options.server, cluster.nodes[0].folder.parent / f"node{number}", flags, free_ports(3))
        cluster.nodes.append(newcomer)
        newcomer.start()
        self._event(f"start node {number}")
        self._work_until([], lambda: sum(one["is_up"] for one in newcomer.view()["nodes"]) == 3, "the newcomer sees the others")
        self._admin("replace", f"node-{node.number}", "--with", f"node-{number}", "--confirm", "--wait")
        self._admin("drain", f"node-{node.number}", "--leave", "--confirm", "--wait")
        cluster.nodes.remove(node)
        newcomer.state = "up"
        self._work_until([], self._is_whole_and_filled, "the newcomer has its fragments")
        self._event(f"node {number}{FILLED}")
        self.coded.wait_until_settled(self._look)
        self._look()
        made = self.coded.info(newcomer, "coding")["coding_refilled"]
        self.screen.event(f"node {number} has made {made:,} fragments of {len(self.pages):,} pages from those of the others; it was sent the rest as wholes")
        self.check_size()
        if made < MADE_SHARE * len(self.pages):
            raise Failed(f"node {number} has made only {made:,} fragments from those of others")
        return newcomer

    def _admin(self, *words: str) -> None:
        """What an operator says."""
        asked = f"{HOST}:{self.coded.cluster.nodes[0].admin_port}"
        deadline = time.monotonic() + ADMIN_SECONDS
        while True:
            done = subprocess.run([str(self.options.server), "admin", *words, "--admin", asked], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode == 0:
                return self.screen.event("chorale admin " + " ".join(words))
            # Refused in the first seconds, until others lead what the lost one led.
            if time.monotonic() > deadline:
                raise Failed(f"chorale admin {' '.join(words)}, status {done.returncode}:\n{(done.stdout + done.stderr).strip()}")
            time.sleep(0.2)

    def _bring_back(self, node: Node, clients: list[Client]) -> None:
        """Starts a node that was killed with nothing, and waits until it has its fragments."""
        shutil.rmtree(node.folder / "data")
        node.start()
        self._event(f"start node {node.number} with an empty directory")
        self._work_until(clients, lambda: self.coded.cluster.lacking() is None, "the cluster is whole")
        node.state = "up"
        self._work_until(clients, self._is_whole_and_filled, "the newcomer has its fragments")
        self._event(f"node {node.number}{FILLED}")

    def _is_whole_and_filled(self) -> bool:
        return self.coded.cluster.lacking() is None and self._has_fragments()

    def _has_fragments(self) -> bool:
        found = [self.coded.info(node, "coding") for node in self.coded.cluster.nodes]
        return all(one["coding_groups"] == GROUPS and one["coding_groups_filling"] == 0 for one in found)

    def _work(self, clients: list[Client], seconds: float) -> None:
        until = time.monotonic() + seconds
        self._work_until(clients, lambda: time.monotonic() >= until, "the clients are done")

    def _work_until(self, clients: list[Client], holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLED_SECONDS
        while True:
            for node in self.coded.cluster.nodes:
                if node.has_ended():
                    raise Failed(f"node {node.number} ended by itself; its log ends with:\n{node.log_tail()}")
            try:
                if holds():
                    return
            except (OSError, ValueError, KeyError, redis.RedisError):
                # The newcomer does not answer yet.
                pass
            if any(client.wrong or client.failed for client in clients):
                return
            if time.monotonic() > deadline:
                raise Failed(f"not within {SETTLED_SECONDS:.0f} s: {what}")
            self._look()
            reads, writes = sum(client.reads for client in clients), sum(client.writes for client in clients)
            text = f"{reads:,} reads, {writes:,} writes; " if clients else ""
            text += "data: " + ", ".join(f"{name} {mib(number)}" for name, number in self.data[-1][1].items())
            self.screen.draw([f"  {text}"], text)
            time.sleep(0.05)

    def _judge(self, clients: list[Client], started: float, filled: float) -> None:
        wrong = [text for client in clients for text in client.wrong]
        failed = [text for client in clients for text in client.failed]
        reads, writes = sum(client.reads for client in clients), sum(client.writes for client in clients)

        def shown(waits: list[float]) -> str:
            if not waits:
                return "nothing"
            ordered = sorted(waits)
            return f"{ordered[len(ordered) // 2] * 1e3:.1f} ms, p99 {ordered[len(ordered) * 99 // 100] * 1e3:.1f}, longest {ordered[-1] * 1e3:.0f}"

        waits = [wait for client in clients for wait in client.waits]
        self.screen.say(
            f"  {reads:,} reads and {writes:,} writes, {len(failed)} failed, {len(wrong)} wrong; {filled - started:.1f} s from the start until "
            f"the node had its fragments"
            f"\n  answers took, while it was filled: {shown([took for at, took in waits if started <= at <= filled])}"
            f"\n            and when it had them all: {shown([took for at, took in waits if at > filled])}"
        )
        if wrong:
            raise Wrong("\n".join(wrong[:10]))
        if failed:
            raise Failed("requests failed at nodes that were up:\n" + "\n".join(failed[:10]))
        if not reads or not writes:
            raise Failed("the clients did nothing, which shows nothing")

    # ---- at the end

    def show_info(self) -> None:
        self.screen.say("\n5. What INFO coding says of it")
        found = [self.coded.info(node, "coding") for node in self.coded.cluster.nodes]
        names = "".join(f"{f'node {node.number}':>14}" for node in self.coded.cluster.nodes)
        self.screen.say(f"  {'':<24}{names}")
        for field in FIELDS:
            self.screen.say(f"  {field:<24}" + "".join(f"{one[field]:>14,}" for one in found))
        for one in found:
            if one["coding_damaged"] or one["coding_lacking"]:
                raise Failed("fragments were damaged, or values lacked some")

    def lose_last(self, node: Node, others: list[Node]) -> None:
        self.screen.say(f"\n6. Node {node.number} is killed: what node {others[-1].number} has made is needed for every page")
        self._kill(node)
        self.read_all(self.coded, "from fragments", others)


def run(options: argparse.Namespace, folder: Path) -> int:
    screen = Screen(options.plain)
    screen.say("Reading the cities of GeoNames ...")
    pages = gazetteer(options.short)
    screen.say(f"Starting two clusters of three nodes of {options.server.name} (seed {options.seed}) ...")
    (folder / "replicated").mkdir()
    (folder / "coded").mkdir()
    replicated = Cluster(options.server, 3, GROUPS, folder / "replicated")
    coded = Cluster(options.server, 3, GROUPS, folder / "coded", {"--coding": "on"})
    for node in coded.nodes:
        # By its name a node that comes back with nothing takes its old place at once.
        node.argv += ["--node-name", f"node-{node.number}"]
    try:
        replicated.start()
        coded.start()
        story = Story(options, screen, pages, coded, replicated)
        try:
            story.run()
        except (Wrong, Failed, redis.RedisError) as wrong:
            print(f"\nVERDICT: WRONG\n{wrong}" if str(wrong) else f"\nVERDICT: WRONG\n{wrong!r}")
            for node in coded.nodes:
                print(f"--- node {node.number}, {node.state}\n{node.log_tail()}")
            return EXIT_WRONG
        write_svg(options.svg, story.grown, story.data, story.events)
        ratio = story.grown[-1][2] / story.grown[-1][1]
        print(
            f"\nVERDICT: coded pages took {ratio:.2f} of the memory of replicated ones; three times a node was lost and two were replaced, no request "
            f"failed, and every page was what was written, to the byte.\nThe picture: {options.svg}"
        )
        return 0
    finally:
        coded.stop()
        replicated.stop()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="coding.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True, metavar="PATH", help="the server to start")
    parser.add_argument("--svg", type=Path, required=True, metavar="FILE", help="where the picture goes")
    parser.add_argument("--short", action="store_true", help="a fifth of the pages, and a shorter load")
    parser.add_argument("--clients", type=number_within(1, 32), default=4, help="how many clients read and write (default: %(default)s)")
    parser.add_argument("--seconds", type=number_within(1, 100_000), help="how long they do at least (default: 15, of a short run 5)")
    parser.add_argument("--seed", type=int, help="what decides what the clients do")
    parser.add_argument("--plain", action="store_true", help="lines instead of bars, as where there is no terminal")
    options = parser.parse_args()
    options.seconds = options.seconds or (5 if options.short else 15)
    options.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    return options


def main() -> int:
    options = parse_options()
    try:
        with termination_interrupts(), tempfile.TemporaryDirectory(prefix="coding-") as folder:
            return run(options, Path(folder))
    except (CannotRun, OtherData) as reason:
        print(f"\ncoding: {reason}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        print("\ncoding: interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
