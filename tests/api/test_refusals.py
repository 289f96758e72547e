"""Bad transactions, producers and records are refused with Kafka's codes by a broker in this process, and nothing is
appended (tests/compatibility/differential/refusals_script.py)."""

from tests.compatibility.differential.brokers import OPTIONS
from tests.compatibility.differential.refusals_script import refusals
from tests.compatibility.differential.side import Side
from tidelog.testing import Cluster


def test_what_is_wrong_is_refused_with_kafkas_code_and_leaves_no_trace():
    with Cluster(brokers=1, options=OPTIONS) as running:
        side = Side("Tidelog", running.brokers[0].port)
        found = [(case.label, case.codes, codes, grown) for case, codes, grown in refusals(side)]
        side.close()
    assert [(label, codes, {}) for label, codes, _, _ in found] == [
        (label, codes, grown) for label, _, codes, grown in found
    ]
