"""A network of the brokers' own: each in a network namespace, joined by a bridge on which clients stand, too.

Cuts are made with neighbour entries: a broker that is given a wrong hardware address of another one sends into the
void, silently and one way, as a broken switch would. The metadata store is a file and is reached all the same; its
bells (abstract sockets) do not ring across namespaces, so brokers learn of changes when they renew their lease.
"""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from tidelog.check.chaos.machine import NotAllowed, check_root, command

NOWHERE = "02:00:00:00:00:01"
SPACES = Path("/run/netns")
_SUBNETS = 200
_CLONE_NEWNET = 0x40000000


class Network:
    """`address(n)` is where broker n listens, `prefix(n)` what its command line begins with. Use as a context."""

    def __init__(self, brokers: int) -> None:
        self._name = f"tdl-{os.urandom(3).hex()}"
        self._brokers = brokers
        self._subnet = 0

    def __repr__(self) -> str:
        return f"Network({self._name}, {self.address(0)}…)"

    def __enter__(self) -> Self:
        """NotAllowed where the machine does not let us; nothing stays then."""
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
                command("ip", "netns", "delete", self._space(broker))  # its end of the cable goes with it
            with suppress(NotAllowed):
                command("ip", "link", "delete", self._space(broker))
        with suppress(NotAllowed):
            command("ip", "link", "delete", self._name)

    def address(self, broker: int) -> str:
        return self._address(broker + 1)

    def prefix(self, broker: int) -> tuple[str, ...]:
        return ("nsenter", f"--net={SPACES / self._space(broker)}", "--")

    def enter(self, broker: int) -> None:
        """What this thread opens from now on is in the broker's namespace."""
        system = ctypes.CDLL(None, use_errno=True)  # os.setns is not in Python 3.11
        with (SPACES / self._space(broker)).open() as space:
            if system.setns(space.fileno(), _CLONE_NEWNET):
                raise NotAllowed(f"setns: {os.strerror(ctypes.get_errno())}")

    def cut(self, source: int, target: int) -> None:
        """Whatever `source` sends to `target` is lost from now on."""
        where = (self.address(target), "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")
        command("ip", "-n", self._space(source), "neigh", "replace", *where)

    def mend(self, source: int, target: int) -> None:
        with suppress(NotAllowed):  # it is mended already
            command("ip", "-n", self._space(source), "neigh", "delete", self.address(target), "dev", "eth0")

    def unplug(self, broker: int) -> None:
        command("ip", "link", "set", self._space(broker), "down")

    def plug(self, broker: int) -> None:
        command("ip", "link", "set", self._space(broker), "up")

    def _add(self, broker: int) -> None:
        """A namespace, and a cable from the bridge into it; both have the same name."""
        space = self._space(broker)
        command("ip", "netns", "add", space)
        command("ip", "link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        command("ip", "link", "set", space, "master", self._name, "up")
        command("ip", "-n", space, "addr", "add", f"{self.address(broker)}/24", "dev", "eth0")
        command("ip", "-n", space, "link", "set", "lo", "up")
        command("ip", "-n", space, "link", "set", "eth0", "up")

    def _space(self, broker: int) -> str:
        return f"{self._name}-{broker}"

    def _address(self, host: int) -> str:
        return f"10.213.{self._subnet}.{host}"


def _unused_subnet() -> int:
    used = command("ip", "-4", "addr")
    free = [number for number in range(_SUBNETS) if f" 10.213.{number}." not in used]
    if not free:
        raise NotAllowed("every subnet 10.213.x.0 is in use")
    return free[os.getpid() % len(free)]
