"""Bad transactions, producers and records (differential/refusals_script.py): Kafka's codes, and nothing appended."""

from tests.compatibility.differential import brokers
from tests.compatibility.differential.refusals_script import refusals
from tests.compatibility.differential.side import Side


def test_what_is_wrong_is_refused_with_kafkas_code_and_leaves_no_trace(tmp_path):
    with brokers.tidelog(tmp_path / "refusing") as port:
        side = Side("Tidelog", port)
        found = [(case.label, case.codes, codes, grown) for case, codes, grown in refusals(side)]
        side.close()
    assert [(label, codes, {}) for label, codes, _, _ in found] == [
        (label, codes, grown) for label, _, codes, grown in found
    ]
