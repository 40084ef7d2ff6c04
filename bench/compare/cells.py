"""What every peer is asked: one cell is a workload, a number of clients, and how many requests each has on its way."""

from __future__ import annotations

from dataclasses import dataclass

KEYS = 100_000
VALUE_BYTES = 100
BATCH = 2


@dataclass(frozen=True)
class Cell:
    """One of the workloads of `chorale bench`, with its options."""

    name: str
    workload: str
    clients: int = 50
    pipeline: int = 1
    # GET and SET of get_set.
    ratio: str = "1:1"
    keys: int = KEYS
    # It sets keys that nobody has set: the servers are emptied before.
    is_from_nothing: bool = False

    @property
    def writes(self) -> bool:
        """Whether anything is written."""
        return not (self.workload == "mget" or (self.workload == "get_set" and self.ratio == "1:0"))

    @property
    def writes_alone(self) -> bool:
        """Whether every request writes."""
        return self.workload in ("mset", "c-unique") or (self.workload == "get_set" and self.ratio == "0:1")

    @property
    def is_batch(self) -> bool:
        """Whether a request names several keys."""
        return self.workload in ("mset", "mget", "xfer")


def _reads_and_writes() -> list[Cell]:
    kinds = [("get_set", "1:1"), ("get", "1:0"), ("set", "0:1")]
    loads = [(50, 1), (50, 16), (1, 1)]
    return [
        Cell(f"{name}/c{clients}/p{pipeline}", "get_set", clients, pipeline, ratio)
        for clients, pipeline in loads
        for name, ratio in kinds
    ]


CELLS = [
    *_reads_and_writes(),
    Cell("a/c50", "a"),
    Cell("trans/c50", "trans"),
    *(Cell(f"nkeys/{keys}", "trans", clients=10, keys=keys) for keys in (10, 100, 1_000, 10_000)),
    Cell("mset/c50", "mset"),
    Cell("mget/c50", "mget"),
    # One request at a time: with more, a request that takes twice the CPU is also waited for twice as long.
    Cell("mset/c1", "mset", clients=1),
    Cell("mget/c1", "mget", clients=1),
    Cell("xfer/c150", "xfer", clients=150),
    Cell("c-unique/c50", "c-unique", is_from_nothing=True),
]
QUICK = ("get_set/c50/p1", "set/c1/p1", "mset/c50", "c-unique/c50")
