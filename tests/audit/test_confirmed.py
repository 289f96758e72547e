"""Of a cluster that runs, only what two looks agree on is broken."""

from tidelog.audit.core import finding
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.report import PartitionView, Report
from tidelog.audit.io.run import confirmed


def view(topic, leader=0):
    return PartitionView(topic, 0, leader, 0, is_compacted=False, acknowledged=0, first_divergence=-1, replicas=[])


def broken(topic, kind=finding.SHORT, broker=1, start=5):
    return Finding(kind, topic, 0, (broker,), f"at {start}", start)


def test_what_only_the_first_look_saw_is_gone_and_what_both_saw_stays():
    asked = []

    def again(topics):
        asked.append(topics)
        return Report([view("b", 2), view("c", 2)], [broken("b", start=7), broken("c", finding.GAP)], 2.0)

    orphan = Finding(finding.ORPHAN, "x", 0, (1,), "nobody's")
    first = Report([view("a"), view("b"), view("c")], [broken("b"), broken("c"), orphan], 1.0)
    found = confirmed(first, again)
    assert asked == [["b", "c"]]
    assert found.findings == [broken("b", start=7), orphan]
    assert [(each.topic, each.leader) for each in found.partitions] == [("a", 0), ("b", 2), ("c", 2)]
    assert found.seconds == 3.0


def test_where_nothing_is_broken_nobody_looks_again():
    first = Report([view("a")], [Finding(finding.TAIL, "a", 0, (1,), "above")])
    assert confirmed(first, lambda _: None) is first


def keys(sentence, *brokers):
    return Finding(finding.KEYS, "k", 0, brokers, sentence)


def test_a_key_must_have_the_same_values_twice():
    """Compaction goes on while replicas are read one after another: each look would find other keys."""
    more = keys("and 3 more of this kind")
    first = Report([view("k")], [keys("key 'a': a value at 5, nothing", 0, 1), more])
    for again, left in (
        ([keys("key 'a': a value at 9, nothing", 0, 1), more], []),
        ([keys("key 'a': a value at 5, nothing", 0, 1), more], ["key 'a': a value at 5, nothing", more.sentence]),
    ):
        found = confirmed(first, lambda _, told=again: Report([view("k")], told))
        assert [each.sentence for each in found.findings] == left


def test_what_no_replica_has_stays():
    lost = Finding(finding.ACKNOWLEDGED, "a", 0, (), "on no replica", 3, 4)
    assert confirmed(Report([view("a")], [lost]), lambda _: Report([view("a")], [lost])).findings == [lost]
