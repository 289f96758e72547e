"""The rules of `tidelog explain` on hand-made evidence: each state is found, with its reason and what helps."""

import pytest

from tidelog.client.group.described import GroupMember, GroupState
from tidelog.explain.core.broker_rules import broker_findings
from tidelog.explain.core.cluster_rules import cluster_findings, topic_findings
from tidelog.explain.core.commands import command_line, sentence
from tidelog.explain.core.diagnosis import diagnose
from tidelog.explain.core.evidence import (
    BrokerEvent,
    BrokerEvidence,
    Evidence,
    GroupEvidence,
    GroupPosition,
    LogDir,
    OngoingReassignment,
    OpenTransaction,
    PartitionEvidence,
    View,
    VoterLag,
)
from tidelog.explain.core.finding import broker_list, duration, size
from tidelog.explain.core.group_rules import group_findings
from tidelog.explain.core.partition_rules import partition_findings
from tidelog.model import TopicPartition
from tidelog.wire.messages.transactions.transaction_admin import ProducerState

NOW = 1_000_000
NAME = TopicPartition("t", 0)
TIDELOG = command_line("here:9092")


def evidence(*, dead=(), leader=0, isr=(0, 1, 2), replicas=(0, 1, 2), needed=1, controller=0, **more):
    brokers = {
        broker: BrokerEvidence(broker, "" if broker in dead else f"host:{broker}", broker not in dead)
        for broker in (0, 1, 2)
    }
    seen = PartitionEvidence(NAME, leader, 5, replicas, isr, needed)
    return Evidence(NOW, "cluster", controller, brokers, {NAME: seen}, **more)


def gone(broker, ago_ms):
    return BrokerEvent(NOW - ago_ms, 0, 1, "broker.gone", "info", {"broker": broker})


def found(given):
    return {finding.kind: finding for finding in partition_findings(given, given.partitions[NAME])}


def helps(finding):
    return [sentence(advice, TIDELOG) for advice in finding.helps]


def text(finding):
    return " ".join([finding.says, *finding.because, *helps(finding)])


def test_nothing_is_said_of_what_is_well():
    assert diagnose(evidence()) == []


def test_an_offline_partition_reports_who_has_the_data_and_who_could_lead_without():
    finding = found(evidence(leader=-1, isr=(2,), dead=(2,), events=[gone(2, 90_000)]))["partition.offline"]
    assert finding.severity == "error"
    assert "last in-sync replicas were on broker 2" in text(finding)
    assert "has been down or cut off for 90 s" in text(finding)
    assert helps(finding)[0] == "Start broker 2."
    assert "elect brokers 0 and 1 instead" in helps(finding)[1]
    assert "--election-type unclean --topic t --partition 0" in helps(finding)[1]


def test_an_offline_partition_names_its_eligible_replicas_or_those_that_were():
    given = evidence(leader=-1, isr=(), dead=(2,), events=[gone(2, 90_000)])
    given.partitions[NAME].elr, given.partitions[NAME].last_known = (2,), (1,)
    finding = found(given)["partition.offline"]
    assert "eligible leader replicas are on broker 2" in text(finding)
    assert helps(finding)[0] == "Start broker 2."
    assert "elect brokers 0 and 1 instead" in helps(finding)[1]
    given.partitions[NAME].elr, given.partitions[NAME].last_known = (), (1, 2)
    finding = found(given)["partition.offline"]
    assert "on brokers 1 and 2, did not stop cleanly" in text(finding)
    assert helps(finding)[0] == "Start broker 2."


def test_refused_writes_are_reported_instead_of_under_replication():
    given = found(evidence(isr=(0,), needed=2, dead=(1, 2)))
    assert "partition.under-replicated" not in given
    finding = given["partition.too-few-in-sync"]
    assert "NOT_ENOUGH_REPLICAS" in finding.says
    assert "1 of 3 replicas are in sync, but min.insync.replicas is 2." in finding.because
    assert helps(finding)[:2] == ["Start broker 1.", "Start broker 2."]
    assert "--add-config min.insync.replicas=1" in helps(finding)[-1]


def test_a_replica_that_is_behind_and_catches_up_has_an_end():
    given = evidence(isr=(0, 1))
    seen = given.partitions[NAME]
    seen.sizes.update({0: 50_000_000, 2: 20_000_000})
    seen.rates.update({0: 1e6, 2: 4e6})
    given.brokers[0].facts = {"behind": {"t-0": {"2": {"log_end_offset": 20, "end": 50, "caught_up_ms_ago": 9}}}}
    given.events.append(
        BrokerEvent(
            NOW - 40_000,
            0,
            2,
            "isr.change",
            "info",
            {"topic": "t", "partition": 0, "previous_isr": [0, 1, 2], "isr": [0, 1]},
        )
    )
    (fact,) = found(given)["partition.under-replicated"].because
    assert fact.startswith("Broker 2 is 30 records and 30.0 MB behind, catching up at 3.0 MB/s, in sync in 10 s.")
    assert fact.endswith(" It left the ISR 40 s ago.")


def test_a_replica_that_falls_further_behind():
    given = evidence(isr=(0, 1))
    given.partitions[NAME].sizes.update({0: 50_000_000, 2: 20_000_000})
    given.partitions[NAME].rates.update({0: 4e6, 2: 1e6})
    assert "does not catch up (1.0 MB/s)" in text(found(given)["partition.under-replicated"])


def test_a_replica_on_a_folder_that_failed():
    given = evidence(isr=(0, 1))
    given.brokers[2].folders = [LogDir("/b", "KAFKA_STORAGE_ERROR")]
    finding = found(given)["partition.under-replicated"]
    assert "lost the log directory /b" in finding.because[0]
    assert helps(finding) == ["Replace /b, and restart broker 2."]


def test_a_move_is_no_under_replication():
    given = evidence(replicas=(0, 1, 2), isr=(0, 1), moves={NAME: OngoingReassignment([0, 1, 2], [2], [1])})
    assert found(given).keys() == {"partition.moving"}
    assert "broker 2 is added and broker 1 is removed" in found(given)["partition.moving"].says


@pytest.mark.parametrize(
    ("isr", "dead", "said"), [((0, 1, 2), (), "--election-type preferred"), ((1, 2), (0,), "Start broker 0.")]
)
def test_a_leader_away_from_home(isr, dead, said):
    finding = found(evidence(leader=1, isr=isr, dead=dead))["partition.leader-away"]
    assert finding.severity == "note"
    assert said in helps(finding)[0]


def test_a_cleaner_that_does_not_clean():
    given = evidence()
    given.brokers[1].facts = {"uncleanable": {"t-0": "a record without key at offset 7"}}
    finding = found(given)["partition.uncleanable"]
    assert finding.says == "Broker 1 does not compact it."
    assert finding.because == ["a record without key at offset 7"]
    assert "Stop broker 1, delete its folder t-0, and start it: it copies the log from brokers 0 and 2." in text(
        finding
    )
    for broker in (0, 2):
        given.brokers[broker].facts = given.brokers[1].facts
    assert "copies" not in text(found(given)["partition.uncleanable"])


@pytest.mark.parametrize(
    ("name", "age_ms", "kinds"),
    [
        (None, 15 * 60_000 + 1, {"partition.hanging-transaction"}),
        (None, 15 * 60_000, {"partition.long-transaction"}),
        ("app", 60 * 60_000, {"partition.long-transaction"}),
    ],
)
def test_transactions_that_hang_or_last(name, age_ms, kinds):
    given = evidence()
    given.partitions[NAME].transactions.append(
        OpenTransaction(NAME, ProducerState(9, current_txn_start_offset=12), age_ms, name)
    )
    assert found(given).keys() == kinds


def test_a_deletion_that_waits_for_a_dead_broker_and_for_a_move():
    given = evidence(dead=(2,), deleting={"t": [2]}, moves={NAME: OngoingReassignment([0, 1, 2], [1], [])})
    (finding,) = topic_findings(given, "t")
    assert finding.kind == "topic.deletion-waits"
    assert "Broker 2 held replicas and is down or cut off." in finding.because
    assert any("reassignment of t-0" in fact for fact in finding.because)
    assert any("cluster unregister --bootstrap-server here:9092 --id 2" in each for each in helps(finding))
    assert "topic.deletion-waits" in {each.kind for each in diagnose(given)}


def test_a_topic_that_is_not_there():
    deleted = BrokerEvent(NOW - 5_000, 0, 1, "topic.deleted", "info", {"topic": "u"})
    (finding,) = topic_findings(evidence(events=[deleted]), "u")
    assert (finding.kind, finding.because) == ("topic.unknown", ["It was deleted 5 s ago."])


def test_brokers_that_are_down_or_lose_their_disks():
    given = evidence(dead=(2,), leader=-1, isr=(2,))
    (down,) = broker_findings(given, given.brokers[2])
    assert (down.severity, down.kind) == ("error", "broker.down")
    assert "1 of them have no leader that answers" in text(down)
    given.brokers[1].folders = [
        LogDir("/a", "KAFKA_STORAGE_ERROR"),
        LogDir("/b", None, 1000, 10),
        LogDir("/c", None, 10**9, 10**8, growth_per_s=1e6),
        LogDir("/d", None, 10**9, 5 * 10**8),
    ]
    kinds = [finding.kind for finding in broker_findings(given, given.brokers[1])]
    assert kinds == ["broker.folder-offline", "broker.disk-fills", "broker.disk-fills"]


DAY = 24 * 3_600_000


@pytest.mark.parametrize(
    ("left_ms", "severity", "said"),
    [
        (31 * DAY, None, ""),
        (30 * DAY, "warning", "The certificate of its listener SSL expires in 30 days."),
        (60_000, "warning", "expires in 60 s."),
        (0, "error", "expired 0 ms ago."),
        (-3 * DAY, "error", "The certificate of its listener SSL expired 3 days ago."),
    ],
)
def test_a_certificate_that_expires_is_reported_a_month_before(left_ms, severity, said):
    given = evidence()
    given.brokers[1].facts = {"certificates": {"SSL": NOW + left_ms, "OTHER": NOW + 400 * DAY}}
    findings = list(broker_findings(given, given.brokers[1]))
    assert findings == [finding for finding in diagnose(given) if finding.about == "broker 1"]
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all(said in finding.says for finding in findings)


def test_no_controller():
    (finding,) = cluster_findings(evidence(controller=-1))
    assert finding.kind == "cluster.no-controller"


def test_no_controller_though_metadata_names_a_broker():
    given = evidence()
    for seen in given.brokers.values():
        seen.facts = {"controller": {"leading": False, "id": -1}}
    (finding,) = diagnose(given)
    assert (finding.kind, finding.severity) == ("cluster.no-controller", "error")
    given.brokers[2].facts = {"controller": {"leading": True, "id": 2}}
    assert diagnose(given) == []


def test_many_partitions_in_one_state_are_reported_once():
    given = evidence(dead=(2,))
    for index in range(10):
        name = TopicPartition("t", index)
        given.partitions[name] = PartitionEvidence(name, 0, 1, (0, 1, 2), (0, 1))
    told = [finding for finding in diagnose(given) if finding.kind == "partition.under-replicated"]
    assert [finding.about for finding in told] == ["partition t-0 and 9 more"]


MEMBER = GroupMember("id", "/1.2.3.4", "app", None, [NAME])


def place(*, before=5, position=5, start=0, end_before=9, end=9, stable=9, member=MEMBER):
    return GroupPosition(NAME, before, position, start, end_before, end, stable, member)


@pytest.mark.parametrize(
    ("state", "at", "kinds"),
    [
        ("Stable", place(position=9, before=9), set()),
        ("Stable", place(before=4), set()),
        ("Stable", place(), {"group.stands"}),
        ("Stable", place(member=None), {"group.unassigned"}),
        ("Stable", place(stable=5), {"group.open-transaction"}),
        ("Stable", place(start=7), {"group.out-of-range"}),
        ("Stable", place(before=4, end=20), {"group.falls-behind"}),
        ("PreparingRebalance", place(before=4), {"group.rebalancing"}),
        ("Empty", place(member=None), {"group.empty"}),
    ],
)
def test_a_group_that_does_not_move(state, at, kinds):
    members = [] if state == "Empty" else [MEMBER]
    seen = GroupEvidence(GroupState("g", state, "range", members), 0, [at], was_rebalancing=True)
    assert {finding.kind for finding in group_findings(evidence(), seen)} == kinds


def test_a_group_whose_partition_is_offline():
    seen = GroupEvidence(GroupState("g", "Stable", "range", [MEMBER]), 0, [place()])
    kinds = {finding.kind for finding in group_findings(evidence(leader=-1), seen)}
    assert kinds == {"group.offline"}


def test_a_group_without_a_committed_offset_in_a_partition():
    seen = GroupEvidence(GroupState("g", "Stable", "range", [MEMBER]), 0, unread={NAME: 7})
    (finding,) = group_findings(evidence(), seen)
    assert (finding.severity, finding.kind) == ("note", "group.no-position")
    assert "t-0" in finding.says


def of_broker(given, broker=1):
    return {finding.kind: finding for finding in broker_findings(given, given.brokers[broker])}


@pytest.mark.parametrize(
    ("loading", "reported"),
    [
        ({"for_ms": 5_000}, False),
        ({"for_ms": 5_001}, True),
        ({"for_ms": 10, "reason": "rot"}, True),
    ],
)
def test_a_coordinator_that_loads_for_long_or_cannot(loading, reported):
    given = evidence()
    given.brokers[1].facts = {"loading": {"__consumer_offsets-3": loading}}
    finding = of_broker(given).get("broker.coordinator-loading")
    assert (finding is not None) == reported
    if finding is not None:
        assert finding.severity == "error"
        assert any("rot" in line for line in finding.because) == ("reason" in loading)
        assert "explain partition" in text(finding)
        assert "__consumer_offsets-3" in text(finding)


def test_a_coordinator_of_kafka_that_answers_that_it_loads():
    given = evidence()
    given.brokers[1].loading = ("groups",)
    finding = of_broker(given)["broker.coordinator-loading"]
    assert finding.severity == "warning"
    assert "COORDINATOR_LOAD_IN_PROGRESS for groups" in finding.says


@pytest.mark.parametrize(("waited", "reported"), [(None, False), (5_000, False), (7_000, True)])
def test_a_broker_that_waits_for_producer_ids(waited, reported):
    given = evidence()
    given.brokers[1].facts = {"producer_ids_wait_ms": waited}
    assert ("broker.no-producer-ids" in of_broker(given)) == reported


def test_a_broker_that_leads_less_than_it_should():
    assert "broker.leads-too-little" not in of_broker(evidence(), 0)
    finding = of_broker(evidence(leader=1), 0)["broker.leads-too-little"]
    assert finding.severity == "note"
    assert "leads 0 of the 1 partitions" in finding.says
    assert "broker.leads-too-little" not in of_broker(evidence(leader=1, isr=(1, 2)), 0)


def test_a_metadata_quorum_without_a_majority():
    given = evidence(voters=(0, 1, 2), dead=(1,))
    assert "cluster.quorum-without-majority" not in {each.kind for each in diagnose(given)}
    given = evidence(voters=(0, 1, 2), dead=(1, 2), controller=-1)
    (finding,) = cluster_findings(given)
    assert (finding.severity, finding.kind) == ("error", "cluster.quorum-without-majority")
    assert "1 of its 3 voters answer" in finding.says
    assert helps(finding) == ["Start 1 of these: brokers 1 and 2. If they stop again, their logs say why."]


def test_controllers_that_are_no_brokers_count_as_far_as_their_leader_hears_of_them():
    lags = [VoterLag(8, 0, 100), VoterLag(9, 5, 5_000)]
    given = evidence(voters=(7, 8, 9), quorum_leader=7, voter_lags=lags)
    assert {each.kind for each in diagnose(given)} == {"cluster.voter-behind"}
    given = evidence(voters=(7, 8, 9))
    assert "cluster.quorum-without-majority" in {each.kind for each in diagnose(given)}


@pytest.mark.parametrize(
    ("behind_ms", "said"), [(0, ""), (4_999, ""), (5_000, "is behind for 5 s: it"), (None, "is behind: it does not")]
)
def test_a_voter_that_is_behind(behind_ms, said):
    findings = diagnose(evidence(voters=(0, 1, 2), voter_lags=[VoterLag(2, 7, behind_ms)]))
    assert [(finding.severity, finding.kind) for finding in findings] == [("warning", "cluster.voter-behind")] * bool(
        said
    )
    assert all(said in finding.says and "It lacks 7 records" in finding.because[0] for finding in findings)


def test_a_voter_that_is_behind_because_it_is_down_is_to_be_started():
    given = evidence(dead=(2,), voters=(0, 1, 2), voter_lags=[VoterLag(2, 7, None)])
    (finding,) = cluster_findings(given)
    assert finding.because == ["Broker 2 is down or cut off."]
    assert helps(finding)[0] == "Start broker 2."


@pytest.mark.parametrize(("leading", "said"), [(True, "Other brokers reach it."), (False, "quorum has no leader")])
def test_a_broker_without_the_store_is_not_alone_where_no_voter_leads(leading, said):
    given = evidence(voters=(0, 1, 2))
    for broker, seen in given.brokers.items():
        seen.facts = {"controller": {"leading": leading and broker == 0}, "store": {"silent": broker == 2}}
    finding = of_broker(given, 2)["broker.store-silent"]
    assert said in finding.because[0]
    assert ("A majority of the voters must reach each other" in helps(finding)[0]) != leading


def test_two_that_act_as_controller_for_a_moment_are_no_problem():
    """The former one learns of the next one's term within 0.2 s, and writes nothing until then."""
    given = evidence()
    given.brokers[0].facts = given.brokers[1].facts = {"controller": {"leading": True}}
    assert diagnose(given) == []


def test_a_broker_that_is_refused_says_why_and_is_not_to_be_started_as_it_is():
    reason = "the cluster has tidelog.metadata 1, and the broker's version supports none; start a newer version"
    given = evidence(dead=(2,), leader=-1, isr=(2,))
    given.brokers[2].refused = reason
    (finding,) = broker_findings(given, given.brokers[2])
    assert (finding.severity, finding.kind) == ("error", "broker.refused")
    assert finding.because[0] == f"T{reason[1:]}."
    assert "Broker 2 is refused, because of its version." in text(found(given)["partition.offline"])
    given.partitions[NAME].isr = (0, 1)
    given.partitions[NAME].leader = 0
    assert "tidelog explain broker --bootstrap-server here:9092 2" in text(found(given)["partition.under-replicated"])


def test_a_damaged_batch_is_an_error_where_it_is_read():
    given = evidence(dead=(2,), isr=(0, 1))
    given.brokers[0].facts = {"damaged": {"t-0": "the batch at offset 7: the checksum does not hold"}}
    finding = found(given)["partition.damaged"]
    assert (finding.severity, finding.says[:33]) == ("error", "Its log on broker 0 is damaged: c")
    assert finding.because == ["The batch at offset 7: the checksum does not hold."]
    assert helps(finding)[0] == "Start broker 2, which may have the records: the broker asks again."
    assert "skip them (groups --reset-offsets)" in helps(finding)[1]
    given = evidence()
    given.brokers[1].facts = {"damaged": {"t-0": "the batch at offset 7: the checksum does not hold"}}
    finding = found(given)["partition.damaged"]
    assert (finding.severity, finding.says) == ("warning", "Its log on broker 1 is damaged.")
    copy = "Stop broker 1, delete its folder t-0, and start it: it copies the log from brokers 0 and 2."
    assert helps(finding) == [copy]


@pytest.mark.parametrize(("epoch", "reported"), [(4, True), (5, False)])
def test_a_broker_that_shows_an_old_leader(epoch, reported):
    given = evidence()
    given.brokers[2].views = {NAME: View(2, epoch, (2,))}
    finding = found(given).get("partition.epochs-disagree")
    assert (finding is not None) == reported
    if finding is not None:
        assert finding.says == "Broker 2 shows an old leader of it."
        assert any("Broker 2 shows epoch 4" in line for line in finding.because)


def test_a_follower_that_counts_as_in_sync_but_is_down():
    assert "partition.member-silent" not in found(evidence(dead=(2,), isr=(0, 1)))
    finding = found(evidence(dead=(2,)))["partition.member-silent"]
    assert finding.severity == "warning"
    assert "Broker 2 counts as in sync" in finding.says
    assert "Start broker 2." in helps(finding)


def test_words():
    assert [broker_list([1]), broker_list([1, 2]), broker_list([1, 2, 3])] == [
        "broker 1",
        "brokers 1 and 2",
        "brokers 1, 2 and 3",
    ]
    assert [size(5), size(1_500), size(2.5e12)] == ["5 B", "1.5 kB", "2.5 TB"]
    assert [duration(450), duration(12_000), duration(180_000), duration(9e6), duration(4 * 86_400_000)] == [
        "450 ms",
        "12 s",
        "3 min",
        "2.5 h",
        "4 days",
    ]


def test_a_command_that_helps_has_the_options_of_the_one_that_found_it():
    helps = command_line("here:9092", "/my own/client.properties")
    assert helps("topics --list") == (
        "tidelog topics --bootstrap-server here:9092 --command-config '/my own/client.properties' --list"
    )
    assert TIDELOG("status") == "tidelog status --bootstrap-server here:9092"


def test_a_min_insync_replicas_of_a_file_that_has_no_effect():
    given = evidence()
    assert "broker.min-insync-replicas" not in of_broker(given, 1)
    given.brokers[1].facts = {"min_insync_replicas": [3, 2]}
    finding = of_broker(given, 1)["broker.min-insync-replicas"]
    assert finding.severity == "warning"
    assert finding.says == "min.insync.replicas=3 in its file has no effect: 2 applies to all brokers."
    assert "--entity-default --add-config min.insync.replicas=3" in text(finding)
