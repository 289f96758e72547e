"""`tidelog configs`: what is set, what is described, and how values with commas are written."""

import pytest

from tidelog.cli import store_address
from tidelog.cli.configs import parse_additions


def test_options_of_a_topic_are_set_shown_and_removed(on):
    on.create("tuned")
    changed = on(
        "configs", "--alter", "--topic", "tuned", "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]"
    )
    assert changed == (0, "Completed updating config for topic tuned.\n", "")
    described = ("configs", "--describe", "--entity-type", "topics", "--entity-name", "tuned")
    assert on.until(lambda result: len(result.lines) == 3, *described).lines == [
        "Dynamic configs for topic tuned are:",
        (
            "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
            "DEFAULT_CONFIG:log.cleanup.policy=delete}"
        ),
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}",
    ]
    on("configs", "--alter", "--topic", "tuned", "--delete-config", "retention.ms,cleanup.policy")
    nothing = ["Dynamic configs for topic tuned are:"]
    on.until(lambda result: result.lines == nothing, "configs", "--describe", "--topic", "tuned")
    everything = on("configs", "--describe", "--topic", "tuned", "--all").lines
    assert everything[0] == "All configs for topic tuned are:"
    assert "  preallocate=false sensitive=false synonyms={DEFAULT_CONFIG:log.preallocate=false}" in everything


def test_options_from_a_file(on, tmp_path):
    on.create("filed")
    file = tmp_path / "topic.properties"
    file.write_text("# comment\nretention.ms = 7\n")
    assert on("configs", "--alter", "--topic", "filed", "--add-config-file", str(file)).code == 0
    on.until(lambda result: "retention.ms=7" in result.out, "configs", "--describe", "--topic", "filed")


def test_brokers_have_options_each_and_together(on):
    assert on("configs", "--describe", "--entity-type", "brokers").lines == [
        "Dynamic configs for broker 0 are:",
        "Dynamic configs for broker 1 are:",
        "Dynamic configs for broker 2 are:",
        "Default configs for brokers in the cluster are:",
        "  min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1}",
    ]
    described = on("configs", "--describe", "--broker", "1", "--all")
    assert "  broker.id=1 sensitive=false" in described.out


def test_what_is_not_there_or_not_valid_is_exit_code_1(on):
    for kind in ("topic", "group", "client-metric"):
        missing = on("configs", "--describe", f"--entity-type={kind}s", "--entity-name", "missing")
        assert missing == (1, "", f"The {kind} 'missing' doesn't exist and doesn't have dynamic config.\n")
    on.create("strict")
    wrong = on("configs", "--alter", "--topic", "strict", "--add-config", "retention.ms=x")
    assert wrong.code == 1
    assert wrong.err.endswith("(INVALID_CONFIG).\n")


def test_values_with_commas_stand_in_brackets():
    given = {"add_config_file": None, "add_config": "a=1,b=[x,y],c=,d=p=q"}
    assert parse_additions(given) == {"a": "1", "b": "x,y", "c": "", "d": "p=q"}


QUOTA = ("configs", "--describe", "--entity-type")


def test_quotas_of_clients_users_and_addresses(on):
    changed = on(
        "configs", "--alter", "--client", "c 1", "--add-config", "producer_byte_rate=1024,request_percentage=12.5"
    )
    assert changed == (0, "Completed updating config for client c 1.\n", "")
    line = "Quota configs for client-id 'c 1' are producer_byte_rate=1024.0, request_percentage=12.5"
    assert on.until(lambda result: result.out, *QUOTA, "clients").lines == [line]
    pair = ("--entity-type", "clients", "--entity-default", "--entity-type", "users", "--entity-name", "u/v")
    assert on("configs", "--alter", *pair, "--add-config", "consumer_byte_rate=7").code == 0
    on.until(
        lambda result: result.lines == ["Quota configs for user-principal 'u/v', the default client-id are consumer_byte_rate=7.0"],
        *QUOTA, "users", "--entity-type", "clients",
    )  # fmt: skip
    assert on(*QUOTA, "users").lines == []
    by_default = on("configs", "--alter", "--ip-defaults", "--add-config", "connection_creation_rate=500")
    assert by_default.out == "Completed updating default config for ips in the cluster.\n"
    on.until(lambda result: "the default ip are connection_creation_rate=500.0" in result.out, *QUOTA, "ips")
    on("configs", "--alter", "--client", "c 1", "--delete-config", "producer_byte_rate,request_percentage")
    on.until(lambda result: not result.out, *QUOTA, "clients")


@pytest.mark.parametrize(
    ("quota", "says"),
    [
        ("producer_byte_rate=x", "producer_byte_rate: 'x' is not a number."),
        ("producer_byte_rate=-1", "(INVALID_REQUEST)."),
        ("producer_byte_rate=1.5", "(INVALID_REQUEST)."),
        ("nonsense=1", "nonsense: not a valid quota of clients; expected one of producer_byte_rate"),
        ("retention.ms", "expected key=value"),
        ("a b=1", "'a b' is not a valid option name."),
    ],
)
def test_what_is_no_quota_is_refused(on, quota, says):
    result = on("configs", "--alter", "--client", "refused", "--add-config", quota)
    assert (result.code, result.out, says in result.err) == (1, "", True)
    assert on(*QUOTA, "clients", "--entity-name", "refused").lines == []


def test_options_of_groups(on):
    option = "consumer.session.timeout.ms"
    assert on("configs", "--alter", "--group", "g 1", "--add-config", f"{option}=50000").code == 0
    shown = on.until(lambda result: option in result.out, "configs", "--describe", "--group", "g 1")
    assert shown.lines[1].startswith(
        f"  {option}=50000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{option}=50000,"
    )
    short = on("configs", "--alter", "--group", "g 1", "--add-config", f"{option}=5")
    assert (short.code, short.err[-18:]) == (1, "(INVALID_CONFIG).\n")


def test_a_group_that_is_not_there_has_options_all_the_same(on):
    shown = on("configs", "--describe", "--all", "--group", "nobody")
    assert "  consumer.session.timeout.ms=45000 sensitive=false" in shown.out


def test_client_metrics_are_not_served(on):
    assert on("configs", "--describe", "--entity-type", "client-metrics") == (0, "", "")
    refused = on("configs", "--alter", "--client-metrics", "m", "--add-config", "interval.ms=1000")
    sentence = "Client metrics (KIP-714) are not supported (INVALID_REQUEST).\n"
    assert refused == (1, "", sentence)


def test_levels_of_log_lines(on):
    changed = on("configs", "--alter", "--broker-logger", "1", "--add-config", "partition=DEBUG")
    assert changed == (0, "Completed updating config for broker-logger 1.\n", "")
    described = on("configs", "--describe", "--entity-type", "broker-loggers", "--entity-name", "1").lines
    assert described[0] == "Dynamic configs for broker-logger 1 are:"
    assert "  partition=DEBUG sensitive=false synonyms={}" in described
    assert "(INVALID_CONFIG)" in on("configs", "--alter", "--broker-logger", "1", "--add-config", "nothing=DEBUG").err


def test_the_form_of_kafka_3_reaches_the_same_cluster(tidelog, on, cluster):
    on.create("kept")
    for store in (str(cluster.folder), f"sqlite:{cluster.folder}/metadata.sqlite", cluster.bootstrap):
        changed = tidelog(
            "kafka-configs.sh", "--zookeeper", store, "--entity-type", "topics", "--entity-name", "kept",
            "--alter", "--add-config", "max.message.bytes=10485760",
        )  # fmt: skip
        assert changed == (0, "Completed updating config for topic kept.\n", "")
    assert "kept" in tidelog("bin/kafka-topics.sh", "--zookeeper", str(cluster.folder), "--list").lines
    sent = tidelog("kafka-console-producer.sh", "--zookeeper", str(cluster.folder), "--topic", "kept", given=b"line\n")
    assert sent.code == 0
    read = ("--topic", "kept", "--from-beginning", "--max-messages", "1")
    assert tidelog("kafka-console-consumer.sh", "--zookeeper", str(cluster.folder), *read).out == "line\n"


@pytest.fixture
def impatient(monkeypatch):
    """A ZooKeeper that nobody can reach is waited for a moment only."""
    monkeypatch.setattr(store_address, "CONNECT_MS", 100)


@pytest.mark.usefixtures("impatient")
def test_a_store_that_is_not_there_is_refused(tidelog, tmp_path, free_ports):
    (port,) = free_ports(1)
    for store in (str(tmp_path / "no.sqlite"), str(tmp_path), "nonsense", f"127.0.0.1:{port}/chroot"):
        result = tidelog("topics", "--zookeeper", store, "--list")
        assert (result.code, result.out, len(result.err.splitlines())) == (1, "", 1), result
    both = tidelog("topics", "--zookeeper", str(tmp_path), "--bootstrap-server", "127.0.0.1:1", "--list")
    assert "--zookeeper and --bootstrap-server cannot be used together" in both.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("impatient")
def test_the_folder_of_a_cluster_on_zookeeper_leads_there(tidelog, tmp_path, free_ports):
    (port,) = free_ports(1)
    file = tmp_path / "broker-0" / "server.properties"
    file.parent.mkdir()
    file.write_text(f"node.id=0\nlog.dirs=logs\nzookeeper.connect=127.0.0.1:{port}/kafka\n")
    result = tidelog("topics", "--zookeeper", str(tmp_path), "--list")
    assert (result.code, f"ZooKeeper cannot be reached at 127.0.0.1:{port}" in result.err) == (1, True), result


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--describe", "--user", "u", "--user", "v", "--entity-type", "users"), "users may be given only once."),
        (
            ("--describe", "--ip", "300.1.1.1"),
            "--entity-name: '300.1.1.1' is not an IP address or host name.",
        ),
        (
            ("--alter", "--entity-type", "clients", "--add-config", "producer_byte_rate=1"),
            "--alter of clients requires --entity-name or --entity-default.",
        ),
        (("--describe",), "--entity-type or one of its short forms is required."),
        (("--alter", "--entity-type", "topics", "--add-config", "a=b"), "--alter of topics requires --entity-name."),
        (("--alter", "--topic", "t"), "--alter requires --add-config, --add-config-file or --delete-config."),
        (("--describe", "--topic", "t", "--add-config", "a=b"), "--add-config applies to --alter, not to --describe."),
        (
            ("--describe", "--topic", "t", "--broker", "1"),
            "Only users and clients may be combined, not topics and brokers.",
        ),
        (
            ("--describe", "--entity-type", "brokers", "--entity-name", "x"),
            "--entity-name: 'x' is not a broker ID.",
        ),
        (
            ("--describe", "--entity-type", "topics", "--entity-default"),
            "--entity-default applies to brokers, users, clients, ips, not to topics.",
        ),
    ],
)
def test_flags_that_do_not_go_together_say_so(tidelog, arguments, sentence):
    assert tidelog("configs", *arguments) == (1, "", f"tidelog configs: {sentence} See tidelog configs --help.\n")
