"""A bank on three nodes that are killed and paused: money is moved all the time, and counted all the time.

Tellers, each a process with a stock Redis client, move money between random accounts. Auditors read all accounts with one
MGET, through every node. The accounts lie on different nodes, and nobody may ever see a sum other than the one the bank
opened with, whatever happens to the nodes. At the end every balance is compared with what the tellers were told.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

from program import EXIT_CANNOT_RUN, EXIT_INTERRUPTED, EXIT_WRONG, number_within, termination_interrupts

try:
    import redis
except ImportError as missing:
    print(f"bank: {missing}.\nStart this through examples/bank/run, which installs what it needs.", file=sys.stderr)
    sys.exit(EXIT_CANNOT_RUN)

from nodes import CannotRun, Cluster, Node
from picture import Picture, Sums
from tellers import Look, NoLook, Work, account, audit, connect, tell

OPENING_BALANCE = 1_000
GROUPS = 16
# How long after the last fault every account may take to answer.
SETTLING_SECONDS = 20.0
# Wrong looks that are kept in words.
WRONG_SHOWN = 5


class Staff:
    """All tellers and auditors: processes that are told to end by the end of their pipes."""

    def __init__(self) -> None:
        self.pipes: list[Connection] = []
        self.processes: list[multiprocessing.Process] = []

    def hire(self, life: Callable[..., None], *arguments: object) -> None:
        ours, theirs = multiprocessing.Pipe()
        # What a forked process inherits, it must close: the others would never see the end of their pipes.
        inherited = [*self.pipes, ours]

        def live() -> None:
            for pipe in inherited:
                pipe.close()
            life(theirs, *arguments)

        process = multiprocessing.get_context("fork").Process(target=live, daemon=True)
        process.start()
        theirs.close()
        self.pipes.append(ours)
        self.processes.append(process)

    def heard(self, seconds: float) -> Iterator[Work | Look | NoLook]:
        """What was told within so many seconds."""
        for pipe in wait(self.pipes, timeout=seconds):
            try:
                yield pipe.recv()
            except EOFError:
                pipe.close()
                self.pipes.remove(pipe)

    def dismiss(self) -> None:
        """Asks all to end. They tell their last, then their pipes end."""
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                pass

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


class Faults(threading.Thread):
    """Kills and pauses nodes, one at a time. The next comes when everything is replicated again.

    What is in memory survives the loss of one of three replicas, not of two.
    """

    def __init__(self, cluster: Cluster, picture: Picture, prng: random.Random) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.picture = picture
        self.prng = prng
        self.over = threading.Event()
        self.kills = 0
        self.pauses = 0
        self.trouble: str | None = None

    def run(self) -> None:
        while not self.over.wait(self.prng.uniform(0.5, 2.5)) and self.trouble is None:
            node = self.prng.choice(self.cluster.nodes)
            # The first one is always a kill: a short run shows it too.
            if self.kills == 0 or self.prng.random() < 0.7:
                self.kill(node)
            else:
                self.pause(node)
            broken = time.monotonic()
            self.trouble = self.cluster.wait_until_whole()
            self.picture.event(self.trouble or f"all replicas are there again, {time.monotonic() - broken:.1f} s later")

    def kill(self, node: Node) -> None:
        self.kills += 1
        self.picture.event(f"kill -9 node {node.number}")
        node.kill()
        self.over.wait(self.prng.uniform(0.5, 4.0))
        self.picture.event(f"start node {node.number}")
        node.start()

    def pause(self, node: Node) -> None:
        self.pauses += 1
        self.picture.event(f"pause node {node.number}")
        node.pause()
        self.over.wait(self.prng.uniform(0.5, 4.0))
        self.picture.event(f"let node {node.number} go on")
        node.resume()


def note(sums: Sums, told: Work | Look | NoLook) -> None:
    match told:
        case Work():
            sums.add(told)
        case NoLook():
            sums.silent += 1
        case Look():
            sums.looks += 1
            sums.looks_by_node[told.node] = sums.looks_by_node.get(told.node, 0) + 1
            sums.balances = told.balances
            sums.longest_seconds = max(sums.longest_seconds, told.seconds)
            if (found := sum(told.balances)) != sums.total:
                text = f"node {told.node} showed {found:,} instead of {sums.total:,}: {told.balances}"
                sums.wrong.append(text if len(sums.wrong) < WRONG_SHOWN else "")


def read_at_last(node: Node, accounts: int) -> list[int]:
    """All balances through one node, after a command that writes to each: none may be held by a transaction for ever."""
    deadline = time.monotonic() + SETTLING_SECONDS
    keys = [account(number) for number in range(accounts)]
    while True:
        try:
            client = connect(node.port)
            for key in keys:
                client.incrby(key, 0)
            return [int(balance) for balance in client.mget(keys)]
        except redis.RedisError as error:
            if time.monotonic() > deadline:
                raise WrongEnd(f"node {node.number} does not serve all accounts at the end: {error}") from error
            time.sleep(0.1)


class WrongEnd(Exception):
    """What is there at the end is not what ought to be."""


def check_balances(sums: Sums, balances: list[int]) -> None:
    """Each account holds what the acknowledged transfers say, give or take those of unknown outcome."""
    if sum(balances) != sums.total:
        raise WrongEnd(f"the total is {sum(balances):,} instead of {sums.total:,}: {balances}")
    for number, balance in enumerate(balances):
        known = OPENING_BALANCE + sums.changes[number]
        least = known - sum(amount for source, _, amount in sums.unknown if source == number)
        most = known + sum(amount for _, target, amount in sums.unknown if target == number)
        if not least <= balance <= most:
            raise WrongEnd(
                f"{account(number)} holds {balance:,}; what was acknowledged says {known:,}, "
                f"and what is unknown allows {least:,} to {most:,}"
            )


def open_bank(options: argparse.Namespace, cluster: Cluster) -> Sums:
    """All accounts at once, with one MSET, and what they hold together."""
    client = connect(cluster.nodes[0].port)
    client.mset({account(number): OPENING_BALANCE for number in range(options.accounts)})
    client.close()
    return Sums(
        total=OPENING_BALANCE * options.accounts,
        balances=[OPENING_BALANCE] * options.accounts,
        changes=[0] * options.accounts,
    )


def run(options: argparse.Namespace, folder: Path) -> int:
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"Starting {options.nodes} nodes of {options.server.name}, and {options.tellers} tellers (seed {seed}) ...")
    cluster = Cluster(options.server, options.nodes, GROUPS, folder)
    staff = Staff()
    try:
        cluster.start()
        sums = open_bank(options, cluster)
        ports = [node.port for node in cluster.nodes]
        ways = ["xfer", "exec"] if options.way == "both" else [options.way]
        for number in range(options.tellers):
            staff.hire(tell, ports, options.accounts, ways, seed + number)
        for node in cluster.nodes:
            staff.hire(audit, node.number, node.port, options.accounts)
        name = {"xfer": "XFER", "exec": "WATCH, MULTI, EXEC", "both": "XFER and EXEC", "once": "XFER under a name"}[options.way]
        title = f"Bank: {options.accounts} accounts on {options.nodes} nodes, {options.tellers} tellers, {name}"
        picture = Picture(title, options.seconds, options.plain)
        faults = Faults(cluster, picture, random.Random(seed))
        try:
            was_interrupted = work(options, cluster, staff, sums, picture, faults)
        finally:
            picture.close()
        return verdict(options, cluster, sums, picture, faults, was_interrupted)
    finally:
        staff.end()
        cluster.stop()


def work(
    options: argparse.Namespace, cluster: Cluster, staff: Staff, sums: Sums, picture: Picture, faults: Faults
) -> bool:
    """The bank's hours. True if they were cut short."""

    def states() -> list[str]:
        return [node.state for node in cluster.nodes]

    was_interrupted = False
    if not options.no_faults:
        faults.start()
    try:
        while picture.elapsed() < options.seconds and not sums.wrong and not sums.unexpected and not faults.trouble:
            for told in staff.heard(0.05):
                note(sums, told)
            picture.draw(sums, states())
    except KeyboardInterrupt:
        was_interrupted = True
    faults.over.set()
    # The last fault is mended with the tellers at work: that is when something could hang.
    while faults.is_alive():
        for told in staff.heard(0.05):
            note(sums, told)
        picture.draw(sums, states())
    staff.dismiss()
    while staff.pipes:
        for told in staff.heard(0.05):
            note(sums, told)
    picture.draw(sums, states(), is_last=True)
    return was_interrupted


def verdict(
    options: argparse.Namespace, cluster: Cluster, sums: Sums, picture: Picture, faults: Faults, was_interrupted: bool
) -> int:
    wrong = [text for text in sums.wrong if text]
    wrong += [f"{count:,} times: {text}" for text, count in sums.unexpected.items()]
    if faults.trouble:
        wrong.append(f"the cluster did not become whole: {faults.trouble}")
    if not sums.moved or not sums.looks:
        wrong.append(f"there were {sums.moved:,} transfers and {sums.looks:,} looks, which shows nothing")
    if not wrong:
        try:
            for node in cluster.nodes:
                check_balances(sums, read_at_last(node, options.accounts))
        except WrongEnd as end:
            wrong.append(str(end))
    nodes = " ".join(f"{node}: {looks:,}" for node, looks in sorted(sums.looks_by_node.items()))
    print(
        f"\n{sums.moved:,} transfers in {picture.elapsed():.0f} s, while nodes were killed {faults.kills} times "
        f"and paused {faults.pauses} times."
        f"\n{sums.failures()}; {sums.unreachable:,} connections refused; {sums.poor:,} transfers from accounts too poor, "
        f"{sums.overtaken:,} overtaken, {sums.again:,} sent again under their names; longest wait {sums.longest_seconds:.2f} s."
        f"\n{sums.looks:,} looks at all accounts (by node {nodes}); {sums.silent:,} without an answer."
    )
    if wrong:
        print("\nVERDICT: WRONG\n" + "\n".join(wrong))
        for node in cluster.nodes:
            print(f"--- node {node.number}\n{node.log_tail()}")
        return EXIT_WRONG
    if was_interrupted:
        print("Ended early.")
    print(
        f"\nVERDICT: the total was {sums.total:,} every time, and every balance is what the acknowledged transfers make it."
    )
    return EXIT_INTERRUPTED if was_interrupted else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bank.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True, metavar="PATH", help="the server to start")
    parser.add_argument("--seconds", type=number_within(1, 1_000_000), default=60, help="how long (default: %(default)s)")
    parser.add_argument("--nodes", type=number_within(3, 9), default=3, help="how many nodes (default: %(default)s)")
    parser.add_argument("--accounts", type=number_within(2, 1_000), default=24, help="how many accounts (default: %(default)s)")
    parser.add_argument("--tellers", type=number_within(1, 100), default=6, help="how many processes move money (default: %(default)s)")
    parser.add_argument("--way", choices=("xfer", "exec", "both", "once"), default="xfer", help="with XFER (default), with WATCH, MULTI and EXEC, both, or XFER under a name")
    parser.add_argument("--no-faults", action="store_true", help="leave the nodes alone")
    parser.add_argument("--plain", action="store_true", help="lines instead of a picture, as where there is no terminal")
    parser.add_argument("--seed", type=int, help="what decides the order of faults and transfers")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    try:
        with termination_interrupts(), tempfile.TemporaryDirectory(prefix="bank-") as folder:
            return run(options, Path(folder))
    except CannotRun as reason:
        print(f"\nbank: {reason}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        print("\nbank: interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
