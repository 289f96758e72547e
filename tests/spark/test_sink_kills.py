"""The exactly-once sink in Spark, with one of its Python workers, a broker and its driver killed at random moments of its
batches. What is in the topic afterwards, read as committed, is what was in the source: each row once.

By default there is one run, which kills all of them. TIDELOG_SINK_KILLS says how many runs there are with one kill each,
TIDELOG_SINK_SEED where chance begins: it draws whom such a run kills, as often one as the other, and when. At the end there
is a line of figures for each kind of victim."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.output import read_line
from tests.spark.records import make_topic, send
from tidelog.shell.supervisor import Supervisor
from tidelog.shell.transport import Consumer

ROOT = Path(__file__).parent.parent.parent
RUNS = int(os.environ.get("TIDELOG_SINK_KILLS", "0"))
SEED = int(os.environ.get("TIDELOG_SINK_SEED", "1"))
EACH = 1_000
PARTITIONS = 3
KINDS = ("worker", "broker", "driver")
VICTIMS = [[KINDS[number % 3]] for number in range(RUNS)] or [[*KINDS]]
"""Of each run."""
random.Random(SEED).shuffle(VICTIMS)
WORKERS = {
    b"pyspark.worker": "task",
    b"pyspark.sql.worker.write_into_data_source": "planning of the sink",
    b"pyspark.sql.worker.python_streaming_sink_runner": "the sink's driver",
    b"pyspark.sql.streaming.python_streaming_source_runner": "the source's driver",
}
"""Spark's Python processes by the module that they run."""
FOUND = "the ledger has batch"
"""What the sink's driver says of a batch that was decided before and is only ended."""
LONGEST_S = 2.0
"""After the first batch is through, the kills come within so many seconds; until then the query does not end."""
STARTS = 5
STARTS_WITHIN_S = 300
"""The JVM, the session and a first batch, beside other tests."""


class Query:
    """The query's process; what Spark starts for it are its descendants."""

    def __init__(self, bootstrap: str, source: str, target: str, checkpoint: Path) -> None:
        command = [sys.executable, "-m", "tests.spark.sink_query", bootstrap, source, target, str(checkpoint)]
        self._errors = checkpoint.with_suffix(".log")
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )

    def wait_for_a_batch(self) -> bool:
        """Whether one was through before it ended."""
        assert self.process.stdout is not None
        return read_line(self.process.stdout, STARTS_WITHIN_S).startswith(b"batch")

    def goes_on_for(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> int:
        """Its exit code, once it has written what is there."""
        self.process.communicate()  # ends its input
        return self.process.returncode

    def kill_driver(self) -> None:
        """The JVM, and the Python that started it; workers find their connections closed."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def kill_worker(self, chance: random.Random) -> str:
        """One of the processes that Python's daemons forked, or that Spark keeps beside them; what it was for."""
        found = {pid: command_of(pid).split(b"\0") for pid in descendants(self.process.pid)}
        daemons = {pid for pid, command in found.items() if b"pyspark.daemon" in command}
        workers = {
            pid: purpose
            for pid, command in found.items()
            for module, purpose in WORKERS.items()
            if module in command and (parent_of(pid) in daemons or pid not in daemons)
        }
        if not workers:
            return ""
        purpose = chance.choice(sorted(set(workers.values())))
        try:
            os.kill(chance.choice([pid for pid, its in workers.items() if its == purpose]), signal.SIGKILL)
        except ProcessLookupError:
            return ""
        return f"worker ({purpose})"

    @property
    def errors(self) -> str:
        """What this process and those before it at the same checkpoint said."""
        return self._errors.read_text(encoding="utf-8", errors="replace")


def parent_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> list[int]:
    parents = {int(entry.name): parent_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found, wanted = [], [pid]
    while wanted:
        parent = wanted.pop()
        children = [child for child, its in parents.items() if its == parent]
        found += children
        wanted += children
    return found


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    """What is committed, once nothing is open any more."""
    with (
        Consumer(bootstrap, isolation_level="read_uncommitted") as ends,
        Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        wanted = ends.end_offsets(ends.partitions_of(topic))
        consumer.assign(wanted)
        found: Counter[bytes] = Counter()
        while any(consumer.position(place) < end for place, end in wanted.items()):
            found.update(record.value or b"" for record in consumer.poll(0.1))
        return found


def written(bootstrap: str, topic: str) -> int:
    """Records of all kinds, committed or not."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(consumer.partitions_of(topic))
        consumer.assign(ends)
        count = 0
        while any(consumer.position(place) < end for place, end in ends.items()):
            count += len(consumer.poll(0.1))
        return count


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, Counter[str]]]:
    """Sums by victim, printed when all runs are through."""
    sums: dict[str, Counter[str]] = {}
    yield sums
    for what in sorted(sums):
        told = ", ".join(f"{name} {number}" for name, number in sums[what].items())
        sys.stderr.write(f"{what} killed: {told}\n")


@pytest.fixture(scope="module")
def source(cluster: Supervisor) -> tuple[str, Counter[bytes]]:
    """The topic that the queries read, and what is in it."""
    topic = make_topic(cluster.bootstrap, PARTITIONS, replicas=3)
    for partition in range(PARTITIONS):
        values = [b"%d-%d" % (partition, number) for number in range(EACH)]
        send(cluster.bootstrap, topic, values, partition)
    return topic, committed(cluster.bootstrap, topic)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(len(VICTIMS)))
def test_each_row_is_there_once_whatever_was_killed(
    cluster: Supervisor,
    source: tuple[str, Counter[bytes]],
    figures: dict[str, Counter[str]],
    tmp_path: Path,
    number: int,
) -> None:
    chance = random.Random(SEED * 1_000 + number)
    topic, wanted = source
    target = make_topic(cluster.bootstrap, PARTITIONS, replicas=3)
    victims = VICTIMS[number]
    codes: list[int] = []
    killed: list[str] = []
    while (not codes or codes[-1] != 0) and len(codes) < STARTS:
        query = Query(cluster.bootstrap, topic, target, tmp_path / "checkpoint")
        if len(killed) < len(victims) and query.wait_for_a_batch():
            while len(killed) < len(victims) and query.goes_on_for(chance.random() * LONGEST_S / len(victims)):
                if who := kill(victims[len(killed)], query, cluster, chance):
                    killed.append(who)
        codes.append(query.end())
    assert len(killed) == len(victims), f"it ended before all could be killed: {query.errors[-4_000:]}"
    assert codes[-1] == 0, query.errors[-4_000:]
    found = committed(cluster.bootstrap, target)
    its = {
        "runs": 1,
        "rows": found.total(),
        "lost": (wanted - found).total(),
        "doubled": (found - wanted).total(),
        "started again": len(codes) > 1,
        "record found": FOUND in query.errors,
        "rows written in vain": written(cluster.bootstrap, target) - found.total(),
    }
    figures.setdefault(" and ".join(killed), Counter()).update(its)
    sys.stderr.write(f"run {number}: {killed} killed, exit codes {codes}, {its}\n")
    assert found == wanted


def kill(what: str, query: Query, cluster: Supervisor, chance: random.Random) -> str:
    """Who was killed; "" where the query was through before."""
    if what == "driver":
        query.kill_driver()
    elif what == "worker":
        while query.goes_on_for(0.01):
            if killed := query.kill_worker(chance):
                return killed
        return ""
    else:
        broker = chance.randrange(3)
        cluster.kill(broker)
        cluster.start_broker(broker)
    return what
