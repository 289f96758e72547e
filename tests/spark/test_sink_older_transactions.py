"""The exactly-once sink on a Kafka with transaction version 1, where an end does not raise the epoch: the same tests."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.compatibility.differential import brokers
from tests.spark import test_sink_crashes as crashes
from tests.spark.settings import QUICK
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.features import FeatureUpdateKey, UpdateFeaturesRequest

SAFE_DOWNGRADE = 2

expiring = crashes.expiring
expired = crashes.expired
test_each_row_is_there_once_wherever_the_process_was_killed = (
    crashes.test_each_row_is_there_once_wherever_the_process_was_killed
)
test_transactions_that_all_ran_out_of_time_after_the_entry_are_written_anew = (
    crashes.test_transactions_that_all_ran_out_of_time_after_the_entry_are_written_anew
)
test_a_batch_of_which_a_part_ran_out_of_time_stops_the_query_again_and_again = (
    crashes.test_a_batch_of_which_a_part_ran_out_of_time_stops_the_query_again_and_again
)
test_what_the_coordinator_forgot_stands_in_the_log = crashes.test_what_the_coordinator_forgot_stands_in_the_log


@pytest.fixture(scope="module")
def bootstrap(kafka_libs: str, tmp_path_factory: Any) -> Iterator[str]:
    from tidelog.spark.writing import ledger

    with brokers.kafka(tmp_path_factory.mktemp("older") / "data", kafka_libs, options=QUICK) as port:
        address = f"127.0.0.1:{port}"
        older = FeatureUpdateKey(
            feature="transaction.version", max_version_level=1, allow_downgrade=True, upgrade_type=SAFE_DOWNGRADE
        )
        with Admin(address) as admin:
            answer = admin.ask(UpdateFeaturesRequest(feature_updates=[older]))
            assert not answer.error_code, answer
            ledger.create(admin)
        yield address


def test_the_version_is_the_older_one(bootstrap: str, topic: str) -> None:
    message = crashes.prepared(crashes.options(bootstrap, topic), crashes.Job(topic, 0), 0)
    assert isinstance(message, crashes.Prepared)
    assert message.transaction is not None
    assert message.transaction.version == 0
