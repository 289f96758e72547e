"""Three broker processes on either store, for tests that hold on both."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import Processes
from tidelog.shell.supervisor import Supervisor

PARAMS = ["sqlite", "zookeeper"]


@dataclass
class Stored:
    """A cluster and where its memory is: what --zookeeper says of it, and what --metadata does."""

    cluster: Supervisor
    place: str
    url: str


@contextmanager
def running(store: str, folder: Path, place: str = "", **overrides: str) -> Iterator[Stored]:
    """On `sqlite`, or on `zookeeper` at a place HOST:PORT/CHROOT."""
    options = {"group.initial.rebalance.delay.ms": "0", **overrides}
    url = f"sqlite:{folder}/metadata.sqlite"
    if store == "zookeeper":
        url, options["zookeeper.connect"] = f"zookeeper://{place}", place
    with Processes(folder, brokers=3, port=0, overrides=options, report=lambda _: None) as cluster:
        yield Stored(cluster, place or str(folder), url)
