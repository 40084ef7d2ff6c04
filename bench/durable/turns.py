"""Servers that take turns: cell by cell, one right after the other, forwards and backwards from round to round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import record
from server import Process

Spread = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """What is asked: how many clients, and how many requests each has on its way."""

    clients: int
    pipeline: int

    @property
    def name(self) -> str:
        return f"c{self.clients}/p{self.pipeline}"


@dataclass(frozen=True)
class Side:
    """A server, or servers that are one: how it is asked, and whose CPU that takes."""

    name: str
    processes: Sequence[Process]
    ask: Callable[[Cell], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """The numbers of one side in one cell of one round."""

    round: int
    cell: str
    side: str
    requests: int
    requests_per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    generator_busy: float


def take(sides: Sequence[Side], cells: Sequence[Cell], rounds: int, progress: record.Progress, warm_ups: int = 1) -> list[Run]:
    """All sides in all cells, so many times, after turns that do not count: files of a log are filled with zeros while they are new."""
    progress.step(f"warming up {', '.join(side.name for side in sides)}")
    for side in sides:
        for _ in range(warm_ups):
            side.ask(cells[-1])
    runs = []
    for number in range(1, rounds + 1):
        for cell in cells:
            for side in sides if number % 2 else sides[::-1]:
                progress.step(f"round {number} of {rounds}, {cell.name}, {side.name}")
                runs.append(_turn(side, cell, number))
    return runs


def steps(sides: int, cells: int, rounds: int) -> int:
    """Steps of progress of `take`."""
    return 1 + sides * cells * rounds


def _turn(side: Side, cell: Cell, number: int) -> Run:
    before = [process.cpu_time() for process in side.processes]
    found = side.ask(cell)
    spent = sum(p.cpu_time().since(b).best_ns for p, b in zip(side.processes, before, strict=True)) / 1e3
    return Run(
        round=number,
        cell=cell.name,
        side=side.name,
        requests=int(found["requests"]),
        requests_per_s=float(found["requests_per_second"]),
        cpu_us=spent / max(1, int(found["requests"])),
        p50_ms=float(found["latency"]["p50_ms"]),
        p99_ms=float(found["latency"]["p99_ms"]),
        generator_busy=float(found["client"].get("busiest_thread") or 0.0),
    )


def spread(runs: Sequence[Run], cell: str, side: str, value: Callable[[Run], float]) -> Spread:
    """The median of the rounds with its range."""
    return record.spread([value(run) for run in runs if (run.cell, run.side) == (cell, side)])


def ratio(runs: Sequence[Run], cell: str, over: str, under: str, value: Callable[[Run], float]) -> Spread:
    """The median of the ratios that each round gave."""
    unders = {run.round: value(run) for run in runs if (run.cell, run.side) == (cell, under)}
    return record.spread([value(run) / unders[run.round] for run in runs if (run.cell, run.side) == (cell, over)])


def is_generator_bound(runs: Sequence[Run], cell: str, side: str) -> bool:
    """Whether the generator was as busy as its threads can be."""
    return statistics.median(run.generator_busy for run in runs if (run.cell, run.side) == (cell, side)) > 0.9


def of_record(rows: Sequence[dict[str, Any]]) -> list[Run]:
    """Runs as a record has them."""
    return [Run(**row) for row in rows]


def to_record(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The other way round."""
    return [asdict(run) for run in runs]


def aim(value: float, target: float, is_most: bool) -> str:
    """What was aimed at, and whether it was met."""
    is_met = value <= target if is_most else value >= target
    return f"{'at most' if is_most else 'at least'} {target:g}: {'met' if is_met else '**missed**'}"
