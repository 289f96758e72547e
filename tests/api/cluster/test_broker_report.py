"""What a broker reports to `tidelog explain`: its last events, and what no API of Kafka's has."""

import json

from tests.node.one_broker import CLIENT, OneBroker
from tidelog.config.feature_levels import ELR_VERSION
from tidelog.effects import Event
from tidelog.model import Time
from tidelog.node.event_log import EventLog
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest
from tidelog.wire.messages.cluster.features import ApiVersionsRequest

KEY = 10_000


def report(broker, **asked):
    answer = broker.ask(BrokerReportRequest(**asked), version=0)
    return answer, json.loads(answer.facts)


def test_the_replica_that_is_behind_and_since_when():
    broker = OneBroker()
    broker.lead(isr=(0, 1))
    broker.fetch_as(1, 0)
    broker.produce("a", "b", acks=1)
    answer, facts = report(broker)
    assert (answer.error_code, answer.broker_id, answer.wall_ms) == (0, 0, broker.now.wall)
    assert facts["behind"] == {"t-0": {"2": {"log_end_offset": -1, "end": 2, "caught_up_ms_ago": None}}}
    assert facts["short"] == {}
    broker.passes(700)
    broker.fetch_as(2, 1)
    _, facts = report(broker)
    assert facts["behind"]["t-0"]["2"]["log_end_offset"] == 1


def test_how_many_in_sync_replicas_are_needed_where_there_are_fewer():
    broker = OneBroker(min_insync_replicas=3)
    broker.lead(isr=(0, 1))
    assert report(broker)[1]["short"] == {"t-0": 3}


def test_folders_and_the_controller():
    broker = OneBroker(folders=("/a", "/b"))
    broker.give("disk_failed", 77, "/b", "EIO")
    _, facts = report(broker)
    assert facts["folders"]["/a"] is None
    assert "offline" in facts["folders"]["/b"]
    assert facts["controller"] == {"leading": False, "id": -1, "epoch": -1, "deletions": {}}


def test_a_store_that_is_silent_and_producer_ids_that_do_not_come():
    broker = OneBroker()
    assert report(broker)[1]["store"] == {"silent": False, "session": True, "registered": False, "waiting_ms": 0}
    broker.store_answers = False
    broker.node.broker.producer_ids.fetch_block()
    broker.passes(7_000)
    broker.give("store_silent")
    _, facts = report(broker)
    assert facts["store"]["silent"]
    assert facts["store"]["waiting_ms"] >= 7_000
    assert facts["producer_ids_wait_ms"] >= 7_000
    broker.give("store_event", "/config")
    assert not report(broker)[1]["store"]["silent"]
    broker.give("session_lost")
    store = report(broker)[1]["store"]
    assert (store["session"], store["registered"]) == (False, False)


def test_a_full_folder():
    broker = OneBroker(folders=("/a", "/b"))
    broker.node.replicas.folder_full("/b", "ENOSPC")
    assert report(broker)[1]["full"] == ["/b"]


def test_events_from_a_number_on_and_of_one_partition():
    broker = OneBroker()
    broker.lead(isr=(0, 1, 2))
    broker.lead(isr=(0, 1, 2), index=1)
    every = report(broker)[0].events
    assert [event.number for event in every] == list(range(len(every)))
    assert all(event.wall_ms == broker.now.wall for event in every)
    about = [json.loads(event.fields).get("partition") for event in report(broker, subject="t-1")[0].events]
    assert "t-1" in about
    assert "t-0" not in about
    assert [event.number for event in report(broker, since=2)[0].events] == list(range(2, len(every)))


def test_a_chronicle_is_bounded_and_counts_what_it_forgot():
    event_log = EventLog(kept=3)
    for number in range(5):
        event_log.note(Event("x", {"topic": "t", "partition": number % 2}), Time(0, number))
    assert event_log.forgotten == 2
    assert [(entry.number, entry.wall_ms) for entry in event_log.since(0)] == [(2, 2), (3, 3), (4, 4)]
    assert [entry.number for entry in event_log.since(0, "t-1")] == [3]


def test_only_tidelogs_own_clients_are_told_of_it():
    broker = OneBroker()

    def keys(name):
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        return {each.api_key for each in broker.ask(request, CLIENT, version=4).api_keys}

    assert keys("tidelog") - keys("apache-kafka-java") == {KEY}


def test_a_min_insync_replicas_of_its_file_that_the_clusters_overrides():
    broker = OneBroker(min_insync_replicas=3)
    broker.lead()
    broker.node.broker.image.features = {ELR_VERSION: 1}
    assert "min_insync_replicas" not in report(broker)[1]
    broker.node.broker.config = broker.node.broker.config.changed({"min.insync.replicas": "2"}, {})
    assert report(broker)[1]["min_insync_replicas"] == [3, 2]
    broker.node.broker.image.features = {}
    assert "min_insync_replicas" not in report(broker)[1], "the cluster's value was set by somebody who meant it"
