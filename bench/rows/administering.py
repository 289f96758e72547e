"""Row 15: three brokers, 1,000 partitions with replication 3: to create them, to lose the controller by SIGKILL until
the first partition that it led has another leader, and to delete them; the cluster's memory in SQLite and in ZooKeeper.

Of Kafka, whose controllers are a quorum, the broker is killed that its metadata names. In ZooKeeper's case what is
killed is a broker that `tidelog up` watches: its supervisor ends the session that it leaves.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import PASSES, Figures, Measure, Target
from bench.sides import Kafka, Side, Tidelog
from bench.wire import NotYet, delete, fresh_topic, leaders, patiently, produce_to_all
from tests.ensemble import Ensemble
from tidelog.shell.store import zookeeper_session_file
from tidelog.shell.supervisor import metadata_view

BROKERS = 3
PARTITIONS = 1000
LEADER_ACK = 1
TOPIC, AGAIN = "many", "again"

STORES = {"SQLite": 2, "ZooKeeper": 10}
"""The stores, and the seconds within which 1,000 partitions must be created there."""
FAILOVER_S, DELETE_S = 2, 20


class OnZookeeper(Tidelog):
    """The same brokers over a ZooKeeper server of their own."""

    def start(self) -> None:
        self._servers = Ensemble(self.folder / "zookeeper")
        self._servers.__enter__()
        for number in range(self.brokers):
            file = Path(self.properties(number))
            kept = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("metadata.store")]
            file.write_text("\n".join([*kept, f"zookeeper.connect={self._servers.hosts}/bench", ""]), encoding="utf-8")
        super().start()

    def stop(self) -> None:
        super().stop()
        self._servers.__exit__()

    def kill(self, number: int) -> None:
        super().kill(number)
        zookeeper_session_file.end_session(self.data(number))


def stores(scale: float) -> Iterator[Measure]:
    size = max(10, int(PARTITIONS * scale))
    kinds = {"SQLite": Tidelog, "ZooKeeper": OnZookeeper, "Kafka": Kafka}
    found: dict[str, list[Figures]] = {name: [] for name in kinds}
    for _ in range(PASSES if scale >= 1 else 1):
        for name, kind in kinds.items():
            os.sync()  # thousands of folders that the side before made and left are not this one's to write
            found[name].append(_pass(kind, size))
            line = "  ".join(f"{what} {value:.3g}" for what, value in found[name][-1].items())
            print(f"  {name:9} {line}", flush=True)
    for store, create_s in STORES.items():
        for figure, what, bound in (
            ("create", f"create {size} partitions until each has acknowledged a record", create_s),
            ("failover", f"SIGKILL of the controller of {size} partitions to the first new leader", FAILOVER_S),
            ("delete", f"delete {size} partitions", DELETE_S),
        ):
            sides = {"Tidelog": store, "Kafka": "Kafka"}
            samples = {side: [each[figure] for each in found[name]] for side, name in sides.items()}
            yield Measure("15", f"{what}, {store}", "s", Target(bound, ratio=False), samples)


@contextmanager
def _running(kind: type[Side]) -> Iterator[Side]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        kind(Path(folder) / "cluster", BROKERS) as side,
    ):
        yield side


def _pass(kind: type[Side], size: int) -> Figures:
    with _running(kind) as side:
        fresh_topic(side.ports[0], "first", 1, BROKERS)  # wakes what is loaded at first use
        begin = time.perf_counter()
        fresh_topic(side.ports[0], AGAIN, size, BROKERS)
        patiently(produce_to_all, side.ports[0], AGAIN, LEADER_ACK)
        created = time.perf_counter() - begin
        begin = time.perf_counter()
        delete(side.ports[0], AGAIN)
        patiently(_gone, side, AGAIN)
        deleted = time.perf_counter() - begin
        fresh_topic(side.ports[0], TOPIC, size, BROKERS)
        return {"create": created, "failover": _failover(side), "delete": deleted}


def _gone(side: Side, topic: str) -> None:
    """Every replica's folder is gone or renamed to be, everywhere."""
    left = [path for number in range(side.brokers) for path in side.data(number).glob(f"{topic}-*") if _is_log(path)]
    if left:
        raise NotYet(f"{len(left)} replicas of {topic} are there")


def _is_log(path: Path) -> bool:
    return path.name.rpartition("-")[2].isdigit()


def _failover(side: Side) -> float:
    victim = metadata_view("127.0.0.1", side.ports[0]).controller
    led, _ = patiently(leaders, side.ports[0], TOPIC)
    lost = [partition for partition, leader in led.items() if leader == victim]
    others = [port for number, port in enumerate(side.ports) if number != victim]
    begin = time.perf_counter()
    side.kill(victim)
    patiently(_led_by_another, others[0], lost, victim)
    return time.perf_counter() - begin


def _led_by_another(port: int, partitions: list[int], victim: int) -> None:
    led, _ = leaders(port, TOPIC)
    if all(led[partition] == victim for partition in partitions):
        raise NotYet(f"broker {victim} leads still")
