"""Bad transactions, producers and records are refused with Kafka's codes by a broker in this process, and nothing is
appended (tests/compatibility/differential/refusals_script.py), but the record that confirms that the coordinator which
refuses for good still leads (docs/differences.md)."""

from tests.compatibility.differential.brokers import OPTIONS
from tests.compatibility.differential.refusals_script import refusals
from tests.compatibility.differential.side import Side
from tidelog.testing import Cluster


def test_what_is_wrong_is_refused_with_kafkas_code_and_leaves_no_trace():
    with Cluster(brokers=1, options=OPTIONS) as running:
        side = Side("Tidelog", running.brokers[0].port)
        found = [(case.label, case.codes, codes, appended(grown)) for case, codes, grown in refusals(side)]
        side.close()
    assert [(label, codes, {}) for label, codes, _, _ in found] == [
        (label, codes, grown) for label, _, codes, grown in found
    ]


def appended(grown):
    """Where more was appended than one confirmation."""
    return {
        name: count for name, count in grown.items() if not (name.startswith("__transaction_state-") and count == 1)
    }
