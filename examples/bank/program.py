"""What programs that start servers have alike: exit statuses, how they are ended, and numbers among their options."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EXIT_WRONG = 1
EXIT_CANNOT_RUN = 2
EXIT_INTERRUPTED = 130


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does, so that no server outlives it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def number_within(least: int, most: int) -> Callable[[str], int]:
    """What makes a number of an option's text, or says why it is none."""

    def number(text: str) -> int:
        if not least <= (found := int(text)) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return found

    return number
