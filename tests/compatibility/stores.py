"""Three broker processes on either store, for tests that hold on both."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Processes
from tidelog.shell.supervisor import Supervisor

PARAMS = ["sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)]


@dataclass
class Stored:
    """A cluster and where its memory is: what --zookeeper says of it, and what --metadata does."""

    cluster: Supervisor
    place: str
    url: str


@contextmanager
def running(request: Any, folder: Path, chroot: str, **overrides: str) -> Iterator[Stored]:
    """On the store that the fixture's parameter names."""
    options = {"group.initial.rebalance.delay.ms": "0", **overrides}
    place, url = str(folder), f"sqlite:{folder}/metadata.sqlite"
    if request.param == "zookeeper":
        place = f"{request.getfixturevalue('zookeeper').hosts}/{chroot}"
        url, options["zookeeper.connect"] = f"zookeeper://{place}", place
    with Processes(folder, brokers=3, port=0, overrides=options, report=lambda _: None) as cluster:
        yield Stored(cluster, place, url)
