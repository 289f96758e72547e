"""What a chaos run needs root for: a network of the brokers' own, and disks that fill up.

The network: each broker in a network namespace, joined by a bridge that clients reach, too. Cuts are neighbour entries:
a broker with a wrong hardware address of another broker sends into the void, silently and one way, as with a broken
switch. The metadata store is a file and stays reachable; its notifications (abstract sockets) do not cross namespaces,
so brokers learn of changes when they renew their lease.

The disks: a small file system in memory for the logs of each broker.
"""

import ctypes
import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

UNUSED_MAC = "02:00:00:00:00:01"
NETNS_FOLDER = Path("/run/netns")
_SUBNETS = 200
_CLONE_NEWNET = 0x40000000
SIZE_MB = 256
BALLAST = "ballast"
_CHUNK = bytes(1 << 20)


class NotAllowed(Exception):
    """The machine does not allow it; the message is the output of the command."""


def command(*words: str) -> str:
    """Run a command and return its output; NotAllowed if it is missing or fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 (fixed words)
    except OSError as error:
        raise NotAllowed(f"{words[0]}: {error.strerror}") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()
        raise NotAllowed(f"{words[0]}: {output[-1] if output else f'exit code {done.returncode}'}")
    return done.stdout


def check_root() -> None:
    if os.geteuid() != 0:
        raise NotAllowed("it needs root")


class Network:
    """`address(n)` is the address of broker n, `prefix(n)` the prefix of its command line. Use as a context manager."""

    def __init__(self, brokers: int) -> None:
        self._name = f"tdl-{os.urandom(3).hex()}"
        self._brokers = brokers
        self._subnet = 0

    def __repr__(self) -> str:
        return f"Network({self._name}, {self.address(0)}…)"

    def __enter__(self) -> Self:
        """NotAllowed if the machine does not allow it; then nothing is left behind."""
        check_root()
        self._subnet = _unused_subnet()
        try:
            command("ip", "link", "add", self._name, "type", "bridge")
            command("ip", "addr", "add", f"{self._address(254)}/24", "dev", self._name)
            command("ip", "link", "set", self._name, "up")
            for broker in range(self._brokers):
                self._add(broker)
        except NotAllowed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in range(self._brokers):
            with suppress(NotAllowed):
                command("ip", "netns", "delete", self._namespace(broker))  # its end of the cable is removed with it
            with suppress(NotAllowed):
                command("ip", "link", "delete", self._namespace(broker))
        with suppress(NotAllowed):
            command("ip", "link", "delete", self._name)

    def address(self, broker: int) -> str:
        return self._address(broker + 1)

    def prefix(self, broker: int) -> tuple[str, ...]:
        return ("nsenter", f"--net={NETNS_FOLDER / self._namespace(broker)}", "--")

    def enter(self, broker: int) -> None:
        """Enter the namespace of the broker: sockets that this thread opens from now on are in it."""
        system = ctypes.CDLL(None, use_errno=True)  # os.setns is not in Python 3.11
        with (NETNS_FOLDER / self._namespace(broker)).open() as namespace:
            if system.setns(namespace.fileno(), _CLONE_NEWNET):
                raise NotAllowed(f"setns: {os.strerror(ctypes.get_errno())}")

    def cut(self, source: int, target: int) -> None:
        """Drop everything that `source` sends to `target` from now on."""
        where = (self.address(target), "lladdr", UNUSED_MAC, "dev", "eth0", "nud", "permanent")
        command("ip", "-n", self._namespace(source), "neigh", "replace", *where)

    def restore(self, source: int, target: int) -> None:
        with suppress(NotAllowed):  # it is already restored
            command("ip", "-n", self._namespace(source), "neigh", "delete", self.address(target), "dev", "eth0")

    def unplug(self, broker: int) -> None:
        command("ip", "link", "set", self._namespace(broker), "down")

    def plug(self, broker: int) -> None:
        command("ip", "link", "set", self._namespace(broker), "up")

    def _add(self, broker: int) -> None:
        """Add a namespace and a cable (veth pair) from the bridge into it; both have the same name."""
        namespace = self._namespace(broker)
        command("ip", "netns", "add", namespace)
        command("ip", "link", "add", namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        command("ip", "link", "set", namespace, "master", self._name, "up")
        command("ip", "-n", namespace, "addr", "add", f"{self.address(broker)}/24", "dev", "eth0")
        command("ip", "-n", namespace, "link", "set", "lo", "up")
        command("ip", "-n", namespace, "link", "set", "eth0", "up")

    def _namespace(self, broker: int) -> str:
        return f"{self._name}-{broker}"

    def _address(self, host: int) -> str:
        return f"10.213.{self._subnet}.{host}"


def _unused_subnet() -> int:
    used = command("ip", "-4", "addr")
    free = [number for number in range(_SUBNETS) if f" 10.213.{number}." not in used]
    if not free:
        raise NotAllowed("every subnet 10.213.x.0 is in use")
    return free[os.getpid() % len(free)]


class Disks:
    """`folder(n)` is the mounted folder of broker n. Use as a context manager."""

    def __init__(self, below: Path, brokers: int) -> None:
        self._folders = [below / f"disk-{broker}" for broker in range(brokers)]
        self._mounted: list[Path] = []

    def __repr__(self) -> str:
        return f"Disks({len(self._mounted)} of {SIZE_MB} MB)"

    def __enter__(self) -> Self:
        """NotAllowed if the machine does not allow it; then nothing is left behind."""
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
        """The broker's log folder, beside the ballast."""
        return self._folders[broker] / "logs"

    def fill(self, broker: int) -> None:
        """Fill the disk to the last byte."""
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
