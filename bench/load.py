"""`chorale bench`, asked by a script: its command line and its report."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from server import ROOT, SetupError

PROGRAM = "target/release/chorale"
# Loading and the wait for connections come on top of what is measured.
SPARE_SECONDS = 120.0


def ask(ports: Sequence[int], seconds: float, options: Sequence[str]) -> dict[str, Any]:
    """Runs the tool against endpoints of this machine, and returns its report."""
    program = ROOT / PROGRAM
    if not program.is_file():
        raise SetupError(f"{PROGRAM} does not exist: run `cargo build --release` first")
    endpoints = ",".join(str(port) for port in ports)
    argv = [str(program), "bench", endpoints, "--seconds", f"{seconds:g}", "--json", "-", *options]
    return read(argv, seconds)


def read(argv: Sequence[str], seconds: float) -> dict[str, Any]:
    """Runs a generator that writes its report as JSON to its standard output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + SPARE_SECONDS, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise SetupError(f"the load generator failed: {done.stderr.strip()[-400:] or 'it says nothing'}")
    return dict(json.loads(done.stdout))
