"""A file system of a measurement's own, whose device counts what is written to it, and nothing else is.

`write_bytes` of `/proc/PID/io` would not do: where files have large pages, a synced write of 4 KiB counts as a megabyte there.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from server import SetupError

IMAGE_BYTES = 16 << 30
SECTOR_BYTES = 512


class OwnDisk:
    """A file with a file system in it, mounted while the block lasts. Who is not root gets the disk of temporary files, which others use, too."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-")
        self.folder = Path(self._scratch.name) / "mounted"
        self.folder.mkdir()
        self.is_own = False

    def __enter__(self) -> OwnDisk:
        image = self.folder.with_name("image")
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        # What is usually put off until the file system is used would count as written by whoever uses it.
        make = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)]
        self.is_own = all(_is_done(argv) for argv in (make, ["mount", "-o", "loop", str(image), str(self.folder)]))
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_own:
            subprocess.run(["umount", str(self.folder)], check=False)
        self._scratch.cleanup()

    def written(self) -> int:
        """Bytes that the device has been given, once all that was written to files is there."""
        subprocess.run(["sync", "-f", str(self.folder)], check=True)
        device = os.stat(self.folder).st_dev
        counters = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
        if not counters.is_file():
            raise SetupError(f"{self.folder} is on no disk: set TMPDIR to a folder that is, or run as root")
        return int(counters.read_text().split()[6]) * SECTOR_BYTES


def _is_done(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
