"""`tidelog explain` on a real Apache Kafka: what its own APIs tell."""

from tests.compatibility.differential import brokers
from tests.waiting import wait_for


def test_apache_kafka_is_explained_with_what_its_own_apis_tell(tidelog, kafka_libs, tmp_path):
    with brokers.kafka(tmp_path / "kafka", kafka_libs) as port:
        place = ("--bootstrap-server", f"127.0.0.1:{port}")
        options = ("--partitions", "2", "--replication-factor", "1", "--config", "min.insync.replicas=2")
        assert tidelog("topics", *place, "--create", "--topic", "t", *options).code == 0

        def lacks_replicas():  # once Kafka's broker has learned of the topic that its controller created
            result = tidelog("explain", "topic", *place, "t")
            return result.code == 0 and result.out.count("NOT_ENOUGH_REPLICAS") == 2

        wait_for(lacks_replicas, "both partitions to lack replicas")
        assert "There is no such topic." in tidelog("explain", "topic", *place, "nothing").out
        assert tidelog("explain", "broker", *place, "1").code in (0, 1)
        assert "No broker remembers anything of t-0." in tidelog("explain", "timeline", *place, "t-0").err
