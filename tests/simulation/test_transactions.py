"""Seeds in which applications write in transactions while everything may break.

Goal: of a transaction everything is read or nothing, as its application was told (I23, I28), and nothing before it is
decided (I22). Method: four applications, two of them under one transactional id, and an auditor at read_committed; the
invariants of `sim/checks` are looked at after each step, what was read is held against what was told at the end.
"""

import pytest

from tidelog.model import TopicPartition
from tidelog.sim.clients.transactor import Fate, Ledger, WrittenTransaction
from tidelog.sim.plan import Plan
from tidelog.sim.run import run

HERE = TopicPartition("t", 0)

SEEDS = (4, 8, 22, 55, 60)


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_with_transactions(seed):
    outcome = run(Plan(seed))
    assert not outcome.violation
    assert outcome.counts["transaction: NONE"] > 0


def written(fate, *values):
    return WrittenTransaction([(HERE, value) for value in values], fate)


@pytest.mark.parametrize(
    ("transaction", "found", "broken"),
    [
        (written(Fate.COMMITTED, b"a", b"b"), [b"a"], "I23"),
        (written(Fate.ABORTED, b"a", b"b"), [b"b"], "I23"),
        (written(Fate.UNKNOWN, b"a", b"b"), [b"b"], "I28"),
        (written(Fate.COMMITTED, b"a"), [b"a", b"a"], "I26"),
        (written(Fate.COMMITTED, b"a"), [b"a", b"z"], "I22"),
    ],
)
def test_the_ledger_names_what_is_broken(transaction, found, broken):
    ledger = Ledger()
    ledger.transactions.append(transaction)
    with pytest.raises(AssertionError, match=broken):
        ledger.check({HERE: found})


@pytest.mark.parametrize(
    ("transaction", "found"),
    [
        (written(Fate.COMMITTED, b"a", b"b"), [b"a", b"b"]),
        (written(Fate.ABORTED, b"a"), []),
        (written(Fate.UNKNOWN, b"a", b"b"), []),
        (written(Fate.UNKNOWN, b"a", b"b"), [b"b", b"a"]),
    ],
)
def test_the_ledger_accepts_all_or_nothing(transaction, found):
    ledger = Ledger()
    ledger.transactions.append(transaction)
    ledger.check({HERE: found})
