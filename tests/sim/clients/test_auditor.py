"""The auditor looks up where partitions begin as long as nobody leads them."""

import pytest

from tidelog.client.results import Failed
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.clients.transactor import Auditor
from tidelog.sim.world import World

NAME = TopicPartition("t", 0)


@pytest.fixture
def auditor():
    return Auditor(World(1, lambda host: None), [NAME], None)


@pytest.mark.parametrize(
    "error", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE]
)
def test_a_look_up_that_runs_out_of_time_begins_again(auditor, error):
    """Seeds 1004095, 1004647, 1005066 and 1005968: the last fault was that nobody was reached."""
    auditor._failed(Failed(error, "no known offsets", (NAME,)))


def test_any_other_failure_is_one_and_so_is_one_after_records_were_read(auditor):
    with pytest.raises(AssertionError):
        auditor._failed(Failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no", (NAME,)))
    auditor.found[NAME].append(b"a")
    with pytest.raises(AssertionError):
        auditor._failed(Failed(ErrorCode.LEADER_NOT_AVAILABLE, "no known offsets", (NAME,)))
