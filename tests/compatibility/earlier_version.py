"""Brokers of an earlier version: its source, from this repository's history, beside the installed packages.

The version is named by its commit, which every full clone has, with or without tags.
"""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from tests.processes import Processes

ROOT = Path(__file__).parents[2]
BEFORE_QUORUM = "fb952092876715f2d7f162e69378960a9e298455"
"""Tagged before-quorum: no features that can change, no eligible leader replicas."""


def source(commit: str, folder: Path) -> Path:
    """The version's `src`, extracted below `folder`."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "src"], capture_output=True, check=False, timeout=60
    )
    assert packed.returncode == 0, f"{packed.stderr.decode().strip()}; in a shallow clone: git fetch --unshallow"
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


class Rolling(Processes):
    """A cluster whose brokers can be replaced by those of an earlier version, and back."""

    def run_earlier(self, number: int, earlier: Path) -> None:
        """The broker is that version's at its next start."""
        self.children[number].prefix = ("env", f"PYTHONPATH={earlier}")

    def run_current(self, number: int) -> None:
        self.children[number].prefix = ()
