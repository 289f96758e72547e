"""The exactly-once sink, stopped at every point where it can be: afterwards each row is there once, or an error says why
not. On Tidelog and on a real Kafka, with transaction version 2."""

import signal
from typing import NamedTuple

import pytest

from tests.spark.records import make_topic
from tests.spark.sink_steps import NOWHERE, POINTS, messages, options, prepared, rows
from tests.spark.steps import Steps
from tests.waiting import wait_for
from tidelog.client.admin import Coordinator
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.access import Access
from tidelog.spark.writing import prepared_transactions
from tidelog.spark.writing.driver import Driver, TransactionsLost
from tidelog.spark.writing.ledger import Ledger, LedgerEntry, State
from tidelog.spark.writing.task import Job, Prepared, Recorded
from tidelog.wire.messages.transactions.transaction_admin import DescribeTransactionsRequest

SHORT = {"kafka.transaction.timeout.ms": "8000"}
"""What is to be done before a transaction's time is over takes a tenth of this, and longer on a slow machine."""


def step(steps: Steps, bootstrap: str, topic: str, batch: int, point: str = NOWHERE) -> int:
    return steps.run(bootstrap, topic, f"query-{topic}", str(batch), point)


def values(bootstrap: str, topic: str) -> list[bytes]:
    """What is committed, once nothing is open any more."""
    with (
        Consumer(bootstrap, isolation_level="read_uncommitted") as ends,
        Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        wanted = ends.end_offsets(ends.partitions_of(topic))
        consumer.assign(wanted)
        found: list[bytes] = []
        while any(consumer.position(place) < end for place, end in wanted.items()):
            found += [record.value or b"" for record in consumer.poll(0.1)]
        return sorted(found)


def expected(*batches: int) -> list[bytes]:
    return sorted(value for batch in batches for number in range(2) for value in rows(batch, number))


def wait_until_gone(bootstrap: str, message: Prepared | Recorded) -> None:
    """The coordinator aborted it, because its time was over."""
    assert isinstance(message, Prepared)
    assert message.transaction is not None
    name = message.transaction.id
    asked = DescribeTransactionsRequest(transactional_ids=[name])
    with Admin(bootstrap) as admin:

        def state() -> str:
            return admin.ask(asked, Coordinator(name, 1)).transaction_states[0].transaction_state

        wait_for(lambda: state() == "CompleteAbort", f"the coordinator aborts {name}")


@pytest.mark.parametrize("point", POINTS)
def test_each_row_is_there_once_wherever_the_process_was_killed(
    steps: Steps, bootstrap: str, topic: str, point: str
) -> None:
    assert step(steps, bootstrap, topic, 0) == 0
    assert step(steps, bootstrap, topic, 1, point) == -signal.SIGKILL
    assert step(steps, bootstrap, topic, 1) == 0
    assert step(steps, bootstrap, topic, 2) == 0
    assert values(bootstrap, topic) == expected(0, 1, 2)
    with Admin(bootstrap) as admin:
        assert prepared_transactions.left_open(admin, lambda name: name.startswith(f"query-{topic}-")) == []


def test_each_row_is_there_once_after_one_kill_at_every_point_in_turn(steps: Steps, bootstrap: str, topic: str) -> None:
    for point in POINTS:
        assert step(steps, bootstrap, topic, 0, point) in (
            -signal.SIGKILL,
            0,
        )  # a point that is passed already kills nobody
    assert step(steps, bootstrap, topic, 0) == 0
    assert values(bootstrap, topic) == expected(0)


def test_a_rerun_of_a_batch_that_has_its_entry_writes_nothing(steps: Steps, bootstrap: str, topic: str) -> None:
    assert step(steps, bootstrap, topic, 0, "after the entry") == -signal.SIGKILL
    found = messages(options(bootstrap, topic), Job(f"query-{topic}", 0))
    assert all(isinstance(message, Recorded) for message in found)
    driver = Driver(Access(bootstrap), f"query-{topic}")
    driver.commit(found, Job(f"query-{topic}", 0))
    driver.close()
    assert values(bootstrap, topic) == expected(0)


def test_a_driver_that_was_taken_over_can_record_nothing(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        first = Ledger(Access(bootstrap), topic, admin)
        second = Ledger(Access(bootstrap), topic, admin)
        with pytest.raises(ApiError) as refused:
            first.write(LedgerEntry(0, State.DECIDED, ()))
        assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert second.read() is None
        first.close()
        second.close()


def test_of_two_drivers_with_the_same_batch_one_counts(bootstrap: str, topic: str) -> None:
    job = Job(f"query-{topic}", 0)
    chosen = options(bootstrap, topic)
    old, new = messages(chosen, job), messages(chosen, job)
    first = Driver(Access(bootstrap), job.key)
    second = Driver(Access(bootstrap), job.key)
    second.commit(new, job)
    first.commit(old, job)
    first.close()
    second.close()
    assert values(bootstrap, topic) == expected(0)


def test_an_attempt_that_lost_is_aborted(bootstrap: str, topic: str) -> None:
    job = Job(f"query-{topic}", 0)
    chosen = options(bootstrap, topic)
    lost = prepared(chosen, job, 1)
    driver = Driver(Access(bootstrap), job.key)
    driver.commit(messages(chosen, job), job)
    with Admin(bootstrap) as admin:
        assert isinstance(lost, Prepared)
        assert lost.transaction is not None
        assert prepared_transactions.not_open(admin, [lost.transaction]) == [lost.transaction]
    driver.close()
    assert values(bootstrap, topic) == expected(0)


def test_the_transactions_of_a_job_whose_name_begins_alike_are_left_alone(bootstrap: str, topic: str) -> None:
    """Both drivers abort what is left open of their own job when they begin, and again when a batch has failed."""
    job = Job(f"job-{topic}", 0)
    for other in (Job(f"{job.key}-eu", 0), Job(f"{job.key}-0123456789ab-0", 0)):
        chosen = options(bootstrap, topic)
        found = messages(chosen, other)
        left = messages(chosen, job)
        driver = Driver(Access(bootstrap), job.key)
        driver.abort([], job)
        driver.close()
        with Admin(bootstrap) as admin:
            ours = [one.transaction for one in left if isinstance(one, Prepared) and one.transaction]
            assert prepared_transactions.not_open(admin, ours) == ours
        running = Driver(Access(bootstrap), other.key)
        running.commit(found, other)
        running.close()
    assert values(bootstrap, topic) == sorted([*expected(0), *expected(0)])


def test_a_batch_that_failed_is_aborted_unless_it_has_its_entry(bootstrap: str, topic: str) -> None:
    job = Job(f"query-{topic}", 0)
    chosen = options(bootstrap, topic)
    written = [one.transaction for one in messages(chosen, job) if isinstance(one, Prepared) and one.transaction]
    driver = Driver(Access(bootstrap), job.key)
    driver.abort(written, job)
    assert values(bootstrap, topic) == []
    driver.commit(again := messages(chosen, job), job)
    driver.abort([one.transaction for one in again if isinstance(one, Prepared) and one.transaction], job)
    driver.close()
    assert values(bootstrap, topic) == expected(0)


class _Killed(Exception):
    """Stands for the end of the driver's process."""


def _kill(*_: object) -> None:
    raise _Killed


class Expired(NamedTuple):
    """A batch whose transactions may have run out of time."""

    topic: str
    job: Job
    messages: list[Prepared | Recorded]


_expiring: dict[str, dict[str, Expired]] = {}
"""By broker."""


@pytest.fixture(autouse=True)
def expiring(bootstrap: str) -> dict[str, Expired]:
    """Three batches with short transactions, whose time runs out during the tests that do not need them: the first before
    its driver had recorded it, the second after that, the third when its driver had ended one of two transactions."""
    if bootstrap not in _expiring:
        found = _expiring[bootstrap] = {name: _prepared(bootstrap) for name in ("before", "after", "in part")}
        _commit_until_killed(bootstrap, found["after"], 0)
        _commit_until_killed(bootstrap, found["in part"], 1)
    return _expiring[bootstrap]


@pytest.fixture
def expired(bootstrap: str, expiring: dict[str, Expired]) -> dict[str, Expired]:
    """The same when their time is over."""
    for name, batch in expiring.items():
        for message in batch.messages[1 if name == "in part" else 0 :]:
            wait_until_gone(bootstrap, message)
    return expiring


def _prepared(bootstrap: str) -> Expired:
    topic = make_topic(bootstrap, 3)
    job = Job(f"query-{topic}", 0)
    return Expired(topic, job, messages(options(bootstrap, topic, **SHORT), job))


def _commit_until_killed(bootstrap: str, batch: Expired, ended: int) -> None:
    """The driver dies when it has recorded the batch and ended so many of its transactions."""
    driver = Driver(Access(bootstrap), batch.job.key)
    commit = prepared_transactions.commit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared_transactions, "commit", lambda admin, listed: [commit(admin, listed[:ended]), _kill()])
        with pytest.raises(_Killed):
            driver.commit(batch.messages, batch.job)
    driver.close()


def test_transactions_that_ran_out_of_time_before_the_entry_cost_nothing(
    steps: Steps, bootstrap: str, expired: dict[str, Expired]
) -> None:
    topic, job, found = expired["before"]
    driver = Driver(Access(bootstrap), job.key)
    with pytest.raises(TransactionsLost, match="nothing of the batch is in the topic"):
        driver.commit(found, job)
    driver.abort([one.transaction for one in found if isinstance(one, Prepared) and one.transaction], job)
    driver.close()
    assert values(bootstrap, topic) == []
    assert step(steps, bootstrap, topic, 0) == 0
    assert values(bootstrap, topic) == expected(0)


def test_transactions_that_all_ran_out_of_time_after_the_entry_are_written_anew(
    steps: Steps, bootstrap: str, expired: dict[str, Expired]
) -> None:
    topic = expired["after"].topic
    assert step(steps, bootstrap, topic, 0) != 0  # it says that nothing of the batch is there
    assert values(bootstrap, topic) == []
    assert step(steps, bootstrap, topic, 0) == 0
    assert values(bootstrap, topic) == expected(0)


def test_a_batch_of_which_a_part_ran_out_of_time_stops_the_query_again_and_again(
    bootstrap: str, expired: dict[str, Expired]
) -> None:
    topic, job, _ = expired["in part"]
    for _ in range(2):
        driver = Driver(Access(bootstrap), job.key)
        with pytest.raises(TransactionsLost, match=r"1 of 2 transactions of batch 0 .* rows are missing in"):
            driver.commit(messages(options(bootstrap, topic), job), job)
        driver.close()
    assert values(bootstrap, topic) == sorted(rows(0, 0))


def test_what_the_coordinator_forgot_stands_in_the_log(bootstrap: str, topic: str) -> None:
    """The id went to somebody else after the commit: the answer to one more commit says nothing, the marker does."""
    job = Job(f"query-{topic}", 0)
    chosen = options(bootstrap, topic)
    first, second = (one.transaction for one in messages(chosen, job) if isinstance(one, Prepared))
    assert first is not None
    assert second is not None
    with Admin(bootstrap) as admin:
        assert prepared_transactions.commit(admin, [first]) == [prepared_transactions.Fate.COMMITTED]
        prepared_transactions.abort(admin, [second])
        from tidelog.shell.transactions import TransactionalProducer

        for one in (first, second):
            TransactionalProducer(bootstrap, one.id).close()
        assert prepared_transactions.commit(admin, [first, second]) == [
            prepared_transactions.Fate.COMMITTED,
            prepared_transactions.Fate.ABORTED,
        ]


def test_an_old_copy_of_a_checkpoint_is_refused(bootstrap: str, topic: str) -> None:
    job = Job(f"query-{topic}", 3)
    chosen = options(bootstrap, topic)
    driver = Driver(Access(bootstrap), job.key)
    driver.commit(messages(chosen, job), job)
    driver.close()
    with pytest.raises(ApiError, match=r"batch 2 of .* was written before: the ledger has batch 3"):
        messages(chosen, Job(job.key, 2))
