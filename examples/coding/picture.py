"""What is shown meanwhile: bars that redraw themselves on a terminal, lines elsewhere; and the picture at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

# The repository draws all of its pictures alike.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "bench"))

from chart import Line, Panel, panels  # noqa: E402

MIB = 1 << 20
EIGHTHS = " ▏▎▍▌▋▊▉"
WIDTH = 36
# What happens to nodes, as it is told.
KILLED, FILLED = "kill -9 ", " has its fragments"
BLUE, GREY, PLAIN = "\x1b[34m", "\x1b[90m", "\x1b[0m"
CLEAR_REST_OF_LINE = "\x1b[K"


def bar(share: float) -> str:
    """A bar of that share of the width."""
    eighths = round(min(max(share, 0.0), 1.0) * WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(WIDTH, "░")


def mib(number: float) -> str:
    return f"{number / MIB:,.1f} MiB"


class Screen:
    """Lines that take the place of those before, at most so often as is of use."""

    REDRAW_SECONDS = 0.15
    LINE_SECONDS = 2.0

    def __init__(self, is_plain: bool) -> None:
        self.is_live = sys.stdout.isatty() and not is_plain
        self.has_colour = self.is_live and "NO_COLOR" not in os.environ
        self.started = time.monotonic()
        self.next_draw = 0.0
        self.height = 0

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        """A line that stays."""
        self.height = 0
        print(text, flush=True)

    def event(self, text: str) -> None:
        """Something happened."""
        self.say(f"{self.elapsed():6.1f} s  {text}")

    def draw(self, lines: Sequence[str], plain: str, is_last: bool = False) -> None:
        """Shows the lines on a terminal, and one elsewhere."""
        now = time.monotonic()
        if now < self.next_draw and not is_last:
            return
        self.next_draw = now + (self.REDRAW_SECONDS if self.is_live else self.LINE_SECONDS)
        if self.is_live:
            up = f"\x1b[{self.height}A" if self.height else ""
            print(f"{up}\r" + "".join(f"{line}{CLEAR_REST_OF_LINE}\n" for line in lines), end="", flush=True)
            self.height = 0 if is_last else len(lines)
        else:
            print(f"{self.elapsed():6.1f} s  {plain}", flush=True)

    def paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self.has_colour else text


class Reading:
    """How far one that reads all pages is."""

    def __init__(self, screen: Screen, label: str, total: int) -> None:
        self.screen, self.label, self.total = screen, label, total
        self.done = 0

    def advance(self, count: int) -> None:
        self.done += count
        text = f"{self.label}: {self.done:,} of {self.total:,} pages are right"
        is_last = self.done == self.total
        self.screen.draw([f"  {bar(self.done / self.total)} {self.label}: {self.done:,} of {self.total:,}"], text, is_last)


def growth(screen: Screen, done: float, written: int, replicated: float, coded: float, is_last: bool = False) -> None:
    """Both clusters side by side; the longer bar is as long as three times the pages will be."""
    most = 3 * written / max(done, 1e-9)
    lines = [
        f"  pages       {bar(done)} {mib(written):>10}",
        f"  replicated  {screen.paint(GREY, bar(replicated / most))} {mib(replicated):>10}  {replicated / max(written, 1):.2f} x the pages",
        f"  coded       {screen.paint(BLUE, bar(coded / most))} {mib(coded):>10}  {coded / max(written, 1):.2f} x",
    ]
    plain = f"{mib(written)} of pages: replicated {mib(replicated)}, coded {mib(coded)}, {coded / max(replicated, 1):.2f} of it"
    screen.draw(lines, plain, is_last)


def write_svg(
    path: Path,
    grown: Sequence[tuple[float, float, float]],
    data: Sequence[tuple[float, dict[str, float]]],
    events: Sequence[tuple[float, str]],
) -> None:
    """Memory while the pages come; then, while a node is lost and another takes its place, the memory of each node."""
    largest = grown[-1][0]
    memory = [
        Line("coded", [(written / MIB, coded / MIB) for written, _, coded in grown]),
        Line("replicated", [(written / MIB, replicated / MIB) for written, replicated, _ in grown]),
        Line("3 x and 1.5 x the pages", [(0.0, 0.0), (largest / MIB, 3 * largest / MIB)], is_dashed=True),
        Line("3 x and 1.5 x the pages", [(0.0, 0.0), (largest / MIB, 1.5 * largest / MIB)], is_dashed=True),
    ]
    names = list(dict.fromkeys(name for _, found in data for name in found))
    most = max((value for _, found in data for value in found.values()), default=1.0) / MIB
    nodes = [Line(name, [(at, found[name] / MIB) for at, found in data if name in found]) for name in names]
    nodes += [Line("what happens to it", [(at, 0.0), (at, most)], is_dashed=True) for at, _ in events]
    parts = [
        Panel("Memory of each cluster, what INFO says of data", "MiB of pages", "MiB", memory, is_even=True),
        Panel("Memory of each node of the coded cluster", "seconds", "MiB", nodes, is_even=True),
    ]
    ratio = grown[-1][2] / max(grown[-1][1], 1.0)
    killed = [f"{what.removeprefix(KILLED)} at {at:.0f} s" for at, what in events if what.startswith(KILLED)]
    filled = [f"{what.removesuffix(FILLED)} at {at:.0f} s" for at, what in events if what.endswith(FILLED)]
    below = f"Killed: {', '.join(killed)}. All fragments again: {', '.join(filled)}."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(panels(f"The pages of a gazetteer: coded ones take {ratio:.2f} of the memory of replicated ones", below, parts))
