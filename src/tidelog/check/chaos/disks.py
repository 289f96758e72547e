"""Disks that can be full: a small file system in memory for the logs of each broker."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from tidelog.check.chaos.machine import NotAllowed, check_root, command

SIZE_MB = 256
BALLAST = "ballast"
_CHUNK = bytes(1 << 20)


class Disks:
    """`folder(n)` is the mounted one of broker n. Use as a context."""

    def __init__(self, below: Path, brokers: int) -> None:
        self._folders = [below / f"disk-{broker}" for broker in range(brokers)]
        self._mounted: list[Path] = []

    def __repr__(self) -> str:
        return f"Disks({len(self._mounted)} of {SIZE_MB} MB)"

    def __enter__(self) -> Self:
        """NotAllowed where the machine does not let us; nothing stays then."""
        check_root()
        try:
            for folder in self._folders:
                folder.mkdir(parents=True)
                command("mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tidelog-chaos", str(folder))
                self._mounted.append(folder)
        except NotAllowed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        while self._mounted:
            with suppress(NotAllowed):
                command("umount", "--lazy", str(self._mounted.pop()))

    def folder(self, broker: int) -> Path:
        """The broker's own folder, beside which the ballast lies."""
        return self._folders[broker] / "logs"

    def fill(self, broker: int) -> None:
        """Not one more byte can be written."""
        with (self._folders[broker] / BALLAST).open("wb", buffering=0) as ballast:
            chunk = _CHUNK
            while chunk:
                try:
                    written = ballast.write(chunk)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    chunk = chunk[: len(chunk) // 2]
                else:
                    assert written
            os.fsync(ballast.fileno())

    def free(self, broker: int) -> None:
        (self._folders[broker] / BALLAST).unlink(missing_ok=True)
