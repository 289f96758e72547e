"""Sends 336,776 real flights through three broker processes, kills leaders, and checks that Spark reads every flight.

The producer (confluent-kafka, acks=all, idempotent) and the reader (a Structured Streaming query) run concurrently.
After one third and two thirds of the acknowledgements, with a batch in flight, the demo kills the leader of a partition
with SIGKILL; `tidelog up` restarts it. The pipeline flights reads the same topic and writes hours to another topic,
exactly once. Finally Spark's table and the hours are compared with the input row by row. The last line is the verdict,
and the exit status is 0 only for ok.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from hours import Hours  # noqa: E402
from show import Show  # noqa: E402
from table import Engine, Failed, Row, Table, flights  # noqa: E402

TOPIC = "flights"
PARTITIONS = 6
BROKERS = 3
KILLS = 2
OPEN_RECORDS = 500
OPEN_WITHIN_S = 0.2
AHEAD, AHEAD_SHARE = 80_000, 4
"""How many rows, or which fraction of all, the producer may be ahead of Spark: both must run when leaders die."""
ENDS_WITHIN_S = 300
LAST_LINES = 40


class Cluster:
    """`tidelog up` on free ports in a new folder; it restarts brokers that die."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder.with_suffix(".log")
        command = [sys.executable, "-m", "tidelog.cli.main", "up", "--brokers", str(BROKERS), "--restart", "--verbose"]
        command += ["--data", str(folder), "--port", "0"]
        with self._log.open("wb") as log:
            # A separate process group: Ctrl-C must reach only the demo, which then stops its cluster.
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0)
        self.bootstrap = ""

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise Failed("the cluster did not start")
        self.bootstrap = line.removeprefix("ready ").strip()

    def kill(self, broker: int) -> None:
        os.kill(int((self.folder / f"broker-{broker}" / "pid").read_text()), signal.SIGKILL)

    @property
    def last_words(self) -> str:
        return "".join(self._log.read_text(errors="replace").splitlines(keepends=True)[-LAST_LINES:])

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Sending:
    """Sends every row as JSON keyed by tail number, on its own thread, at most `AHEAD` rows ahead of the table.

    Counts the acknowledgements.
    """

    def __init__(self, bootstrap: str, rows: list[Row]) -> None:
        self._rows = rows
        self._ahead = min(AHEAD, len(rows) // AHEAD_SHARE)
        self.sent = 0
        self.acknowledged = 0
        self.stored = 0
        """Rows in the table; set by `_progress`."""
        self.ends = False
        self.failed: Counter[str] = Counter()
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
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    @property
    def open_records(self) -> int:
        return self.sent - self.acknowledged

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop sending; does nothing if everything is sent."""
        self.ends = True
        if self._thread.ident is not None:
            self._thread.join()

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed[str(error)] += 1

    def _run(self) -> None:
        for row in self._rows:
            while self.sent - self.stored >= self._ahead and not self.ends:
                self._producer.poll(0.05)
            self._send(row)
            if self.ends:
                self._producer.purge()
                return
        self._producer.flush(ENDS_WITHIN_S)

    def _send(self, row: Row) -> None:
        while not self.ends:
            try:
                self._producer.produce(TOPIC, row.value, row.key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
            else:
                self.sent += 1
                self._producer.poll(0)
                return


def leaders(admin: AdminClient) -> dict[int, int]:
    found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    return {number: partition.leader for number, partition in found.items()}


def kill_a_leader(cluster: Cluster, sending: Sending, partition: int, admin: AdminClient, show: Show) -> bool:
    """Kill the partition's leader if records are in flight, sent and not acknowledged; return whether it was killed."""
    leader = leaders(admin)[partition]
    until = time.monotonic() + OPEN_WITHIN_S
    while sending.open_records < OPEN_RECORDS:
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    cluster.kill(leader)
    show.say(f"kill -9: broker {leader}, leader of {TOPIC}-{partition}, with {sending.open_records:,} records open")
    return True


class Demo:
    """The parts of the demo, and the counts of rows that `verdict` reports."""

    def __init__(self, folder: Path, show: Show, count: int | None) -> None:
        self._folder = folder
        self._show = show
        self._count = count
        self._rows: list[Row] = []
        self._cluster: Cluster | None = None
        self._engine: Engine | None = None
        self._sending: Sending | None = None
        self._stored = self._lost = self._duplicated = self._wrong = self._kills = 0

    def run(self) -> None:
        show = self._show
        show.say(f"starting {BROKERS} brokers and Spark in {self._folder}")
        cluster = self._cluster = Cluster(self._folder / "cluster")
        engine = self._engine = Engine(self._folder / "spark.log", show.say)
        rows = self._rows = flights(self._count)
        show.say(f"{len(rows):,} flights loaded")
        cluster.wait_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, PARTITIONS, BROKERS, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(30)
        show.say(f"cluster ready at {cluster.bootstrap}; sending")
        show.watch(cluster.bootstrap, TOPIC)
        sending = self._sending = Sending(cluster.bootstrap, rows)
        sending.start()
        table = Table(engine, self._folder, cluster.bootstrap, TOPIC)
        hours = Hours(engine, self._folder, cluster.bootstrap, TOPIC)
        show.say("Spark writes the rows to a table, and the hours by carrier and airport to a topic")
        self._send_all(cluster, sending, table, admin)
        show.say("all flights sent; Spark reads the rest")
        table.finish(ENDS_WITHIN_S, lambda: self._progress(sending, table))
        self._stored, self._lost, self._duplicated = table.compare(rows)
        hours.finish(ENDS_WITHIN_S, lambda: None)
        same, self._wrong, more = hours.compare(rows)
        self._wrong += more
        show.delays(hours.most_delayed(10))
        show.say(f"hours by carrier and airport in the topic: {same:,} match the input, {self._wrong} do not")

    def _send_all(self, cluster: Cluster, sending: Sending, table: Table, admin: AdminClient) -> None:
        deadline = time.monotonic() + ENDS_WITHIN_S
        while sending.is_under_way:
            if time.monotonic() > deadline:
                raise Failed(f"sending did not finish within {ENDS_WITHIN_S} s")
            self._progress(sending, table)
            if self._kills < KILLS and sending.acknowledged >= (self._kills + 1) * len(self._rows) // (KILLS + 1):
                self._kills += kill_a_leader(cluster, sending, self._kills, admin, self._show)
            time.sleep(0.02)
        for reason, times in sending.failed.items():
            self._show.say(f"not acknowledged, {times} times: {reason}")

    def _progress(self, sending: Sending, table: Table) -> None:
        sending.stored = table.rows
        self._show.progress(sending.sent, sending.acknowledged, sending.stored, len(self._rows))

    def explain(self, error: BaseException) -> None:
        """Print the error on stderr, after the last log lines of the cluster and of Spark."""
        if isinstance(error, KeyboardInterrupt):
            print("demo: interrupted", file=sys.stderr)
            return
        for part in (self._cluster, self._engine):
            if part is not None:
                print(part.last_words, file=sys.stderr)
        if isinstance(error, Failed):
            print(f"demo: {error}", file=sys.stderr)
        else:
            traceback.print_exception(error)

    def verdict(self) -> tuple[str, bool]:
        sent, acknowledged = (self._sending.sent, self._sending.acknowledged) if self._sending else (0, 0)
        ok = self._kills == KILLS and self._lost == self._duplicated == 0 and self._stored > 0
        ok = ok and self._wrong == 0 and sent == acknowledged == self._stored == len(self._rows)
        line = f"demo: sent {sent} acknowledged {acknowledged} stored {self._stored} lost {self._lost}"
        return f"{line} duplicated {self._duplicated} kills {self._kills} {'ok' if ok else 'FAILED'}", ok

    def stop(self) -> None:
        """Stop Spark before the brokers, or its queries would retry against dead brokers."""
        for part in (self._sending, self._engine, self._cluster):
            if part is not None:
                part.stop()


def interrupted(*_: object) -> None:
    """Raise KeyboardInterrupt once, and ignore further signals while the demo stops."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def positive(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{count} is not a positive number")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Send real flights through killed leaders into Spark."
    )
    help_text = "number of flights to send, at least 20,000 for two kills (default: all 336,776)"
    parser.add_argument("--flights", type=positive, metavar="N", help=help_text)
    count = parser.parse_args().flights
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    show = Show()
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-", ignore_cleanup_errors=True) as folder:
        demo = Demo(Path(folder), show, count)
        try:
            demo.run()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  reported; then everything is stopped
            show.close()
            demo.explain(error)
        finally:
            show.close()
            demo.stop()
    line, ok = demo.verdict()
    sys.stderr.flush()
    print(line, flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
