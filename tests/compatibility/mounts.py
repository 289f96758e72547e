"""Small file systems for tests. Mounting needs root: whoever is not runs the test again in a namespace of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

import pytest

from tidelog.check.chaos.machine import NotAllowed, command

OWN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def as_root(test: Callable[..., None]) -> Callable[..., None]:
    """The test as root, or as one who is root in a user and mount namespace; a failure where neither may be."""

    @wraps(test)
    def run(**fixtures: object) -> None:
        if os.geteuid() == 0:
            test(**fixtures)
            return
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        done = subprocess.run([*OWN_NAMESPACE, sys.executable, "-m", "pytest", "-q", node],
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            pytest.fail(f"as root in a namespace ({' '.join(OWN_NAMESPACE)}):\n{done.stdout}{done.stderr}")

    return run


@contextmanager
def small_disk(folder: Path, megabytes: int, *options: str) -> Iterator[Path]:
    """A tmpfs of this size on the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    told = ",".join((f"size={megabytes}m", *options))
    command("mount", "-t", "tmpfs", "-o", told, "tidelog-test", str(folder))
    try:
        yield folder
    finally:
        try:
            command("umount", str(folder))
        except NotAllowed:
            command("umount", "--lazy", str(folder))


def fill(folder: Path) -> Path:
    """Write until not one more byte finds room; the file that took it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        chunk = bytes(1 << 20)
        while chunk:
            try:
                file.write(chunk)
            except OSError:
                chunk = chunk[: len(chunk) // 2]
    return ballast
