"""What is shown while the bank is open: a picture that redraws itself on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from dataclasses import dataclass, field

from tellers import Work

BLOCKS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"
CHART_WIDTH = 40
# More accounts are drawn as one letter each.
BARS_MAX = 60
COLUMN_WIDTH = 26

GREEN, YELLOW, RED, DIM, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"
CLEAR_REST_OF_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

STATE_COLOURS = {"up": GREEN, "starting": YELLOW, "paused": YELLOW, "killed": RED, "down": RED}


@dataclass
class Sums:
    """What all tellers and auditors told until now."""

    total: int
    balances: list[int]
    changes: list[int]
    moved: int = 0
    poor: int = 0
    overtaken: int = 0
    again: int = 0
    refused: int = 0
    unreachable: int = 0
    longest_seconds: float = 0.0
    unknown: list[tuple[int, int, int]] = field(default_factory=list)
    unexpected: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    silent: int = 0
    looks_by_node: dict[int, int] = field(default_factory=dict)
    # Looks whose sum was not the total.
    wrong: list[str] = field(default_factory=list)

    def add(self, work: Work) -> None:
        for number, change in work.changes.items():
            self.changes[number] += change
        self.moved += work.moved
        self.poor += work.poor
        self.overtaken += work.overtaken
        self.again += work.again
        self.refused += work.refused
        self.unreachable += work.unreachable
        self.longest_seconds = max(self.longest_seconds, work.longest_seconds)
        self.unknown += work.unknown
        for text in work.unexpected:
            self.unexpected[text] = self.unexpected.get(text, 0) + 1

    def failures(self) -> str:
        return f"{self.refused:,} refused, {len(self.unknown):,} of unknown outcome"


def sparkline(values: list[float], largest: float) -> str:
    """A letter for each value; nothing is drawn for zero."""
    steps = len(BLOCKS) - 1
    return "".join(" " if value <= 0 else BLOCKS[min(steps, int(value / largest * steps))] for value in values)


def bar(share: float, width: int) -> str:
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


class Picture:
    """Draws, at most so often as is of use."""

    REDRAW_SECONDS = 0.15
    LINE_SECONDS = 1.0
    SAMPLE_SECONDS = 0.5

    def __init__(self, title: str, seconds: float, is_plain: bool) -> None:
        self.title = title
        self.seconds = seconds
        self.is_live = sys.stdout.isatty() and not is_plain
        self.has_colour = self.is_live and "NO_COLOR" not in os.environ
        self.started = time.monotonic()
        self.next_draw = self.started
        self.next_sample = self.started
        self.sampled = (self.started, 0)
        self.rates: deque[float] = deque(maxlen=CHART_WIDTH)
        self.events: deque[str] = deque(maxlen=4)
        self.height = 0
        if self.is_live:
            print(HIDE_CURSOR, end="")

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def event(self, text: str) -> None:
        """Something happened to a node."""
        line = f"{self.elapsed():6.1f} s  {text}"
        self.events.append(line)
        if not self.is_live:
            print(line, flush=True)

    def draw(self, sums: Sums, states: list[str], is_last: bool = False) -> None:
        now = time.monotonic()
        if now >= self.next_sample:
            since, moved = self.sampled
            if now > since:
                self.rates.append((sums.moved - moved) / (now - since))
            self.sampled = (now, sums.moved)
            self.next_sample = now + self.SAMPLE_SECONDS
        if now < self.next_draw and not is_last:
            return
        self.next_draw = now + (self.REDRAW_SECONDS if self.is_live else self.LINE_SECONDS)
        if self.is_live:
            self.redraw(self.lines(sums, states))
        else:
            print(self.line(sums, states), flush=True)

    def close(self) -> None:
        if self.is_live:
            print(SHOW_CURSOR, end="", flush=True)

    def rate(self) -> float:
        """Transfers a second, of late."""
        latest = list(self.rates)[-4:]
        return sum(latest) / len(latest) if latest else 0.0

    def line(self, sums: Sums, states: list[str]) -> str:
        nodes = " ".join(f"{number}:{state}" for number, state in enumerate(states, 1))
        verdict = f"{len(sums.wrong):,} WRONG" if sums.wrong else "none differs"
        return (
            f"{self.elapsed():6.1f} s  total {sum(sums.balances):,} in {sums.looks:,} looks, {verdict}; "
            f"{sums.moved:,} transfers, {self.rate():,.0f}/s; {sums.failures()}; nodes {nodes}"
        )

    def lines(self, sums: Sums, states: list[str]) -> list[str]:
        if sums.wrong:
            total = self.paint(RED, f"{sum(sums.balances):,}   WRONG in {len(sums.wrong):,} of {sums.looks:,} looks")
        else:
            total = self.paint(GREEN, f"{sum(sums.balances):,}") + f"   the same in each of {sums.looks:,} looks"
        chart = sparkline(list(self.rates), max(self.rates, default=0.0) or 1.0)
        shown = [
            f"{self.title}   {min(self.elapsed(), self.seconds):.0f} of {self.seconds:.0f} s",
            "",
            f"total      {total}",
            f"transfers  {sums.moved:<10,} {self.rate():>7,.0f}/s  {chart}",
            f"failed     {sums.failures()}; {sums.poor:,} too poor, {sums.overtaken:,} overtaken",
            "",
        ]
        for number, state in enumerate(states, 1):
            mark = {"up": "●", "killed": "✖"}.get(state, "○")
            looks = sums.looks_by_node.get(number, 0)
            shown.append(f"node {number}  {self.paint(STATE_COLOURS[state], f'{mark} {state:<9}')} {looks:>7,} looks")
        shown += ["", *self.accounts(sums.balances), ""]
        shown += [self.paint(DIM, event) for event in self.events]
        return shown

    def accounts(self, balances: list[int]) -> list[str]:
        largest = max(1, *balances)
        width = shutil.get_terminal_size().columns
        if len(balances) > BARS_MAX:
            letters = sparkline([float(balance) for balance in balances], largest)
            return [letters[at : at + width] for at in range(0, len(letters), width)]
        columns = max(1, width // COLUMN_WIDTH)
        rows = -(-len(balances) // columns)
        cells = [
            f"{number:>2} {bar(balance / largest, 14)} {balance:>6,}  " for number, balance in enumerate(balances)
        ]
        return ["".join(cells[row::rows]).rstrip() for row in range(rows)]

    def paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self.has_colour else text

    def redraw(self, lines: list[str]) -> None:
        up = f"\x1b[{self.height}A" if self.height else ""
        body = "".join(f"{line}{CLEAR_REST_OF_LINE}\n" for line in lines)
        print(f"{up}\r{body}{CLEAR_BELOW}", end="", flush=True)
        self.height = len(lines)
