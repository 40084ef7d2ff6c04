"""What was measured: one run, spreads over the rounds, ratios, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import record
from cells import Cell
from chart import Dots
from peers import CLUSTER_WAIT, REDIS, WAYS, Way
from server import CpuTime, SetupError

Spread = dict[str, float]


@dataclass(frozen=True)
class Run:
    """One way, one cell, one round."""

    round: int
    cell: str
    way: str
    requests: int
    requests_per_s: float
    cpu_us: float
    average_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    errors: int
    errors_by_kind: dict[str, int]
    resident_mb: float
    # Cores that the servers and the generator used.
    server_cores: float
    client_cores: float
    is_limit: bool
    # w: requests for each entry of the groups' logs; `None` where there are none, or not every request writes.
    requests_an_entry: float | None = None


def measure(way: Way, cell: Cell, number: int, seconds: float, warmup: float) -> Run:
    """Runs a cell once."""
    before = [process.cpu_time() for process in way.processes]
    counts = way.counts() if cell.writes_alone else None
    # Few clients soon have their connections warm, and then CPU can be read from outside too.
    found = way.ask(cell, seconds, warmup if cell.clients >= 50 else 0.0, is_loaded=True)
    after = way.counts() if counts else None
    requests = max(1, int(found["requests"]))
    told = {server["process"]: server["cpu_seconds"] for server in found["servers"]}
    if len(told) == len(way.processes):
        spent = sum(told.values())
    elif cell.clients >= 50:
        raise SetupError(f"the generator saw {len(told)} of the {len(way.processes)} processes of {way.name}")
    else:
        # The tool sees only the processes at the endpoints that it was given.
        spent = sum(_since(process.cpu_time(), old) for process, old in zip(way.processes, before))
    latency, client = found["latency"], found["client"]
    return Run(
        round=number,
        cell=cell.name,
        way=way.name,
        requests=int(found["requests"]),
        requests_per_s=float(found["requests_per_second"]),
        cpu_us=spent / requests * 1e6,
        average_ms=float(latency["average_ms"]),
        p50_ms=float(latency["p50_ms"]),
        p99_ms=float(latency["p99_ms"]),
        max_ms=float(latency["max_ms"]),
        errors=int(found["errors"]),
        errors_by_kind=dict(found["errors_by_kind"]),
        resident_mb=sum(process.resident_bytes() for process in way.processes) / 1e6,
        server_cores=spent / float(found["seconds"]),
        client_cores=float(client["cpu_us_per_request"] or 0.0) * requests / 1e6 / float(found["seconds"]),
        is_limit=bool(client["is_limit"]),
        requests_an_entry=_ratio_of(counts, after),
    )


def _ratio_of(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Requests an entry, warming up included."""
    if before is None or after is None or after[1] == before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def _since(now: CpuTime, before: CpuTime) -> float:
    return now.since(before).best_ns / 1e9


class Results:
    """All runs, as the record has them."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = list(runs)
        self.cells = list(dict.fromkeys(run.cell for run in self.runs))
        present = {run.way for run in self.runs}
        self.ways = [way for way in WAYS if way in present]

    @classmethod
    def of(cls, data: dict[str, Any]) -> Results:
        """The runs of a record."""
        return cls([Run(**run) for run in data["runs"]])

    def of_cell(self, cell: str, way: str) -> list[Run]:
        """One cell of the table, all rounds."""
        return [run for run in self.runs if run.cell == cell and run.way == way]

    def spread(self, cell: str, way: str, value: Callable[[Run], float]) -> Spread | None:
        """The median of the rounds with its range."""
        values = [value(run) for run in self.of_cell(cell, way)]
        return record.spread(values) if values else None

    def ratio(self, cell: str, way: str, base: str, value: Callable[[Run], float]) -> Spread | None:
        """The median of the ratios that each round gave."""
        bases = {run.round: value(run) for run in self.of_cell(cell, base)}
        found = [value(run) / bases[run.round] for run in self.of_cell(cell, way) if bases.get(run.round)]
        return record.spread(found) if found else None

    def remarks(self, cell: str, way: str) -> str:
        """What a reader must know of this cell."""
        runs = self.of_cell(cell, way)
        told = ["generator-bound"] if any(run.is_limit for run in runs) else []
        kinds = sorted({kind for run in runs for kind in run.errors_by_kind})
        for kind in kinds:
            count = sum(run.errors_by_kind.get(kind, 0) for run in runs)
            share = count / max(1, sum(run.requests + run.errors for run in runs))
            told.append(f"{kind} {share:.1%}")
        return ", ".join(told)

    # --- tables

    def full(self) -> str:
        """Every figure, one row for each cell and way."""
        rows = []
        for cell in self.cells:
            for way in self.ways:
                if not self.of_cell(cell, way):
                    continue
                figure = lambda value, form: record.shown(self.spread(cell, way, value) or {}, form)  # noqa: E731
                rows.append([
                    cell,
                    way,
                    figure(lambda run: run.requests_per_s, ",.0f"),
                    figure(lambda run: run.cpu_us, ".2f"),
                    figure(lambda run: run.p50_ms, ".3f"),
                    figure(lambda run: run.p99_ms, ".2f"),
                    figure(lambda run: run.max_ms, ".1f"),
                    *(self._ratio(cell, way, base) for base in (REDIS, CLUSTER_WAIT)),
                    figure(lambda run: run.server_cores, ".2f"),
                    figure(lambda run: run.client_cores, ".2f"),
                    figure(lambda run: run.resident_mb, ".0f"),
                    self._requests_an_entry(cell, way),
                    self.remarks(cell, way),
                ])
        headings = ["cell", "way", "requests/s", "CPU µs/request", "p50 ms", "p99 ms", "max ms"]
        headings += [f"/s : {REDIS}", f"/s : {CLUSTER_WAIT}", "servers' cores", "generator's cores", "resident MB", "w", "remarks"]
        return record.table(headings, rows)

    def _requests_an_entry(self, cell: str, way: str) -> str:
        found = [run.requests_an_entry for run in self.of_cell(cell, way) if run.requests_an_entry is not None]
        return record.shown(record.spread(found), ".1f") if found else "-"

    def _ratio(self, cell: str, way: str, base: str) -> str:
        found = None if way == base else self.ratio(cell, way, base, lambda run: run.requests_per_s)
        return "-" if found is None else record.shown(found)

    def pivot(self, value: Callable[[Run], float], form: str) -> str:
        """Medians: a row for each cell, a column for each way. A star: the generator was the limit."""

        def entry(cell: str, way: str) -> str:
            found = self.spread(cell, way, value)
            if found is None:
                return "-"
            return format(found["median"], form) + ("*" if any(run.is_limit for run in self.of_cell(cell, way)) else "")

        rows = [[cell, *(entry(cell, way) for way in self.ways)] for cell in self.cells]
        return record.table(["", *self.ways], rows)

    def ratios(self, base: str, value: Callable[[Run], float]) -> str:
        """The median of the rounds' ratios, with their range."""
        others = [way for way in self.ways if way != base]

        def entry(cell: str, way: str) -> str:
            found = self.ratio(cell, way, base, value)
            return "-" if found is None else record.shown(found)

        cells = [cell for cell in self.cells if self.of_cell(cell, base)]
        rows = [[cell, *(entry(cell, way) for way in others)] for cell in cells]
        return record.table([f"to {base}", *others], rows)

    def limits(self) -> str:
        """Who used how many cores: what the machine had to share out."""

        def entry(cell: str, way: str) -> str:
            servers = self.spread(cell, way, lambda run: run.server_cores)
            client = self.spread(cell, way, lambda run: run.client_cores)
            return "-" if servers is None or client is None else f"{servers['median']:.2f} + {client['median']:.2f}"

        rows = [[cell, *(entry(cell, way) for way in self.ways)] for cell in self.cells]
        return record.table(["cores of servers + generator", *self.ways], rows)

    # --- pictures

    def picture(self, title: str, below: str, axis: str, value: Callable[[Run], float], cells: Sequence[str]) -> str:
        """Dots with ranges, for these cells, as far as they were measured."""
        dots = Dots(title, below, axis, self.ways)
        for cell in [cell for cell in cells if cell in self.cells]:
            entries: list[tuple[float, float, float] | None] = []
            for way in self.ways:
                found = self.spread(cell, way, value)
                is_there = found is not None and found["min"] > 0
                entries.append((found["median"], found["min"], found["max"]) if found is not None and is_there else None)
            dots.rows.append((cell, entries))
        return dots.svg()
