"""`tidelog explain` on a real Apache Kafka: with what its own APIs report."""

from tests.waiting import wait_for


def test_apache_kafka_is_explained_with_what_its_own_apis_report(tidelog, real_kafka):
    place = ("--bootstrap-server", real_kafka)
    options = ("--partitions", "2", "--replication-factor", "1", "--config", "min.insync.replicas=2")
    assert tidelog("topics", *place, "--create", "--topic", "explained", *options).code == 0

    def lacks_replicas():  # once Kafka's broker has learned of the topic that its controller created
        result = tidelog("explain", "topic", *place, "explained")
        return result.code == 2 and result.out.count("NOT_ENOUGH_REPLICAS") == 2

    wait_for(lacks_replicas, "both partitions to lack replicas")
    assert "The topic does not exist." in tidelog("explain", "topic", *place, "nothing").out
    assert tidelog("explain", "broker", *place, "0").out == "broker 0: no problems found.\n"
    assert "No broker has events of explained-0." in tidelog("explain", "timeline", *place, "explained-0").err
