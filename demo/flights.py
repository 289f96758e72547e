"""The main job: 336,776 real flights through three broker processes whose leaders are killed, into Spark, complete.

Sending (confluent-kafka, acks=all, idempotent) and reading (a Structured Streaming query) run side by side. At one and
at two thirds of the acknowledgements, with a batch open, the leader of a partition is killed with SIGKILL; `tidelog up`
restarts it. In the end Spark's table is compared with the input row by row. The last line tells; exit 0 only for ok.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from show import Show  # noqa: E402
from table import Row, Table, flights  # noqa: E402

TOPIC = "flights"
PARTITIONS = 6
BROKERS = 3
READY_WITHIN_S = 60
ENDS_WITHIN_S = 300
FIRST_ROWS = 5_000


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        try:
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


class Cluster:
    """`tidelog up` in a fresh folder, its children restarted when they die."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "tidelog.cli.main", "up", "--brokers", str(BROKERS), "--restart"]
        command += ["--data", str(folder), "--port", str(free_ports(BROKERS))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise SystemExit(f"the cluster did not start: {line.strip() or 'no line'}")
        self.bootstrap = line.removeprefix("ready ").strip()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self, broker: int) -> None:
        os.kill(int((self.folder / f"broker-{broker}" / "pid").read_text()), signal.SIGKILL)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Sending:
    """Every row as JSON keyed by tail number, on a thread of its own; what was acknowledged is remembered."""

    def __init__(self, bootstrap: str, rows: list[Row]) -> None:
        self.rows = rows
        self.sent = 0
        self.acknowledged = 0
        self.failed: list[str] = []
        self.go_on = threading.Event()
        """Set once Spark has read the first rows: the rest is sent while it reads."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "queue.buffering.max.messages": 20_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        self.thread = threading.Thread(target=self._run)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))

    def _run(self) -> None:
        for number, row in enumerate(self.rows):
            if number == FIRST_ROWS:
                self._producer.flush()
                self.go_on.wait()
            while True:
                try:
                    self._producer.produce(TOPIC, row.value, row.key, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self.sent += 1
            self._producer.poll(0)
        self._producer.flush(120)


def leaders(admin: AdminClient) -> dict[int, tuple[int, tuple[int, ...]]]:
    found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    return {number: (partition.leader, tuple(partition.isrs)) for number, partition in found.items()}


def kill_a_leader(cluster: Cluster, sending: Sending, partition: int, admin: AdminClient, show: Show) -> None:
    """With records sent and not acknowledged: their batch is open on the leader that goes."""
    while sending.sent <= sending.acknowledged and sending.thread.is_alive():
        time.sleep(0.001)
    leader = leaders(admin)[partition][0]
    cluster.kill(leader)
    open_records = sending.sent - sending.acknowledged
    show.say(f"kill -9: broker {leader}, leader of {TOPIC}-{partition}, with {open_records} records on their way")


def run(folder: Path, show: Show) -> tuple[int, int, int, int, int, int]:
    """(sent, acknowledged, stored, lost, duplicated, kills)."""
    rows = flights()
    show.say(f"{len(rows)} flights read; starting {BROKERS} brokers in {folder}")
    cluster = Cluster(folder / "cluster")
    table = Table(folder, cluster.bootstrap, TOPIC)
    try:
        show.say(f"cluster ready at {cluster.bootstrap}")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, PARTITIONS, BROKERS, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(30)
        show.watch(cluster.bootstrap, TOPIC)
        show.say("starting Spark")
        table.start()
        sending = Sending(cluster.bootstrap, rows)
        sending.thread.start()
        kills = 0
        while sending.thread.is_alive():
            show.progress(sending.sent, sending.acknowledged, table.rows, len(rows))
            if table.rows and not sending.go_on.is_set():
                show.say("Spark has read the first rows; sending the rest")
                sending.go_on.set()
            if kills < 2 and sending.acknowledged >= (kills + 1) * len(rows) // 3:
                kill_a_leader(cluster, sending, kills, admin, show)
                kills += 1
            time.sleep(0.05)
        sending.thread.join()
        for reason, times in Counter(sending.failed).items():
            show.say(f"not acknowledged, {times} times: {reason}")
        show.progress(sending.sent, sending.acknowledged, table.rows, len(rows), final=True)
        show.say("everything is sent; Spark reads the rest")
        table.finish(ENDS_WITHIN_S, lambda: show.progress(sending.sent, sending.acknowledged, table.rows, len(rows)))
        show.delays(table.most_delayed(10))
        stored, lost, duplicated = table.compare(rows)
        return sending.sent, sending.acknowledged, stored, lost, duplicated, kills
    finally:
        show.close()
        table.stop()
        cluster.stop()


def main() -> int:
    show = Show()
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as folder:
        sent, acknowledged, stored, lost, duplicated, kills = run(Path(folder), show)
    expected = len(flights())
    ok = sent == acknowledged == stored == expected and lost == duplicated == 0 and kills == 2
    sys.stderr.flush()
    print(
        f"demo: sent {sent} acknowledged {acknowledged} stored {stored} lost {lost} duplicated {duplicated} "
        f"kills {kills} {'ok' if ok else 'FAILED'}",
        flush=True,
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
