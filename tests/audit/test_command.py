"""`tidelog audit` on a running cluster, on its folders once it is stopped, and what it refuses."""

import importlib.util
import json
import shutil

import pytest

from tests.audit.gone import wait_gone
from tests.audit.logs import batches, flip_record, segment, write_cluster, write_replica
from tests.spark.records import in_sync
from tidelog.audit.core import finding
from tidelog.audit.io import cluster as planning
from tidelog.audit.io import fetching
from tidelog.cli.audit.audit_command import check_history
from tidelog.cli.main import run
from tidelog.lab.engine import HISTORY, export_disks, find, tell
from tidelog.model import TopicPartition
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster

RECORDS = 600


@pytest.fixture(scope="module")
def tides():
    with Cluster(brokers=3, min_insync_replicas=2, replica_fetch_wait_max_ms=50) as cluster:
        cluster.create_topic("t", 2)
        produce(cluster, RECORDS)
        yield cluster


def produce(cluster, count):
    with Producer(cluster.bootstrap, acks="all", batch_size=500) as producer:
        for number in range(count):
            producer.send("t", b"v%d" % number, key=b"k%d" % (number % 10), partition=number % 2)
        assert not [each for each in producer.flush() if each.error]


def audit(capsys, *arguments):
    code = run(["audit", "--local", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def as_json(capsys, *arguments):
    code, out, _ = audit(capsys, "--json", *arguments)
    found = json.loads(out)
    assert found["good"] == (code == 0)
    return found


@pytest.mark.parametrize("way", ["fetch", "folders"])
def test_a_running_cluster_is_sound(capsys, tides, way):
    found = as_json(capsys, "--bootstrap", tides.bootstrap, "--read", way)
    assert found["findings"] == []
    assert [(each["topic"], each["partition"]) for each in found["partitions"]] == [("t", 0), ("t", 1)]
    for partition in found["partitions"]:
        assert partition["leader"] in (0, 1, 2)
        sources = {replica["source"] for replica in partition["replicas"]}
        assert sources == {"fetch+folder" if way == "fetch" else "folder"}
        assert [(each["start"], each["end"]) for each in partition["replicas"]] == [(0, RECORDS // 2)] * 3


def test_without_any_folder_replicas_are_read_up_to_their_high_watermarks(capsys, tides, monkeypatch):
    monkeypatch.setattr(planning, "_reachable", lambda *_: [])
    found = as_json(capsys, "--bootstrap", tides.bootstrap)
    assert found["findings"] == []
    for partition in found["partitions"]:
        assert {replica["source"] for replica in partition["replicas"]} == {"fetch"}
        for replica in partition["replicas"]:
            assert replica["end"] == replica["high_watermark"] > 0


def test_a_broker_that_does_not_run_is_reported_and_its_folder_is_read_where_it_is_named(capsys, tides):
    tides.brokers[2].stop()
    try:
        wait_gone(tides, 2)
        found = as_json(capsys, "--bootstrap", tides.bootstrap, "--topic", "t")
        assert {each["kind"] for each in found["findings"]} == {finding.UNREADABLE}
        found = as_json(capsys, "--bootstrap", tides.bootstrap, "--topic", "t", "--folder", tides.brokers[2].folder)
        assert found["findings"] == []
    finally:
        tides.start(2)
        in_sync(tides.bootstrap, "t", 3)


def test_a_broker_that_does_not_answer_costs_its_time_once(capsys, tides, monkeypatch):
    """It was killed a moment ago, or hangs: the cluster still knows it, and each partition would wait for it."""
    fetch, asked = fetching.fetch, []

    def hangs(source, *others, **more):
        if source.broker == 2:
            asked.append(source.broker)
            raise fetching.NoAnswer("broker 2 does not answer (REQUEST_TIMED_OUT)")
        return fetch(source, *others, **more)

    monkeypatch.setattr(fetching, "fetch", hangs)
    monkeypatch.setattr(planning, "_reachable", lambda *_: [])
    found = as_json(capsys, "--bootstrap", tides.bootstrap, "--topic", "t")
    assert asked == [2]
    assert [(each["kind"], each["partition"], each["brokers"]) for each in found["findings"]] == [
        (finding.UNREADABLE, 0, [2]),
        (finding.UNREADABLE, 1, [2]),
    ]


def test_a_replica_that_nobody_knows_of_is_an_orphan(capsys, tides):
    strange = tides.brokers[1].folder / "gone-0"
    strange.mkdir()
    try:
        found = as_json(capsys, "--bootstrap", tides.bootstrap)
        assert [(each["kind"], each["topic"], each["brokers"]) for each in found["findings"]] == [
            (finding.ORPHAN, "gone", [1])
        ]
    finally:
        strange.rmdir()


def test_a_bit_that_turned_in_a_running_brokers_folder(capsys, tides, tmp_path):
    """On the disk it is found; over the wire the broker gives out what it trusts, or has mended it by then."""
    place = next(each for each in tides.brokers[0].folder.rglob("t-0/*.log"))
    sound = place.read_bytes()
    flip_record(place)
    try:
        found = as_json(capsys, "--bootstrap", tides.bootstrap, "--read", "folders")
        assert (finding.CHECKSUM, [0]) in [(each["kind"], each["brokers"]) for each in found["findings"]]
    finally:
        place.write_bytes(sound)


def test_the_table_says_what_is_wrong(capsys, tmp_path):
    path = write_cluster(tmp_path, batches(10))[1]
    flip_record(segment(path, 0))
    code, out, err = audit(capsys, "--folder", tmp_path)
    lines = out.splitlines()
    assert code == 1
    assert lines[0].split() == ["PARTITION", "BROKER", "FROM", "START", "HW", "END", "BATCHES", "SIZE", "EPOCHS"]
    assert [line.split()[-1] for line in lines[1:4]] == ["0@0", "checksum", "0@0"]
    assert lines[4] == "checksum (I2) t-0 broker 1: the checksum of the batch at offset 0 does not match"
    assert lines[-1].endswith("1 broken")
    assert "audit: reading 3 pieces" in err


def test_the_page_needs_nothing_else_and_shows_each_partition(capsys, tmp_path):
    write_cluster(tmp_path / "logs", batches(40))
    other = batches(40)
    other[30] = other[30][:17] + bytes(4) + other[30][21:]
    write_replica(tmp_path / "logs", 3, other)
    code, _, _ = audit(capsys, "--folder", tmp_path / "logs", "--html", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert code == 1
    assert text.count('role="img"') == 1
    assert text.count(">broker ") == 4
    assert "checksum" in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--folder", "{empty}"], "there is no log folder here or below. Expected a log directory of a broker"),
        (["--folder", "{empty}/none"], "does not exist"),
        (["--folder", "{logs}", "--topic", "u"], "These folders have no replica of topic u; they have t."),
        (["--folder", "{logs}", "--compacted", "u"], "These folders have no replica of topic u; they have t."),
        (["--folder", "{logs}", "--read", "folders"], "--read requires --bootstrap"),
        (["--bootstrap", "127.0.0.1:1", "--compacted", "t"], "--compacted requires --folder without"),
        (["--folder", "{logs}", "--history", "{bad}"], "line 1: expected a JSON object"),
        (["--folder", "{logs}", "--history", "{bad}"], "--history expects the history.jsonl of `tidelog check`"),
        (["--folder", "{logs}", "--history", "{logs}"], "is a directory"),
        (["--folder", "{logs}", "--html", "{empty}/none/report.html"], "folder {empty}/none does not exist"),
        (["--bootstrap", "127.0.0.1:1"], "No broker is reachable at 127.0.0.1:1 (Connection refused)."),
        (["--bootstrap", "127.0.0.1:1"], "audit the log directories of its brokers: --folder LOG_DIR."),
        (["--bootstrap", "nowhere"], "is not a valid address"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(capsys, tmp_path, arguments, sentence):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").write_text("no history\n", encoding="utf-8")
    write_cluster(tmp_path / "logs", batches(3))
    filled = [each.format(empty=tmp_path / "empty", logs=tmp_path / "logs", bad=tmp_path / "bad") for each in arguments]
    code, out, err = audit(capsys, *filled)
    assert (code, out) == (1, "")
    assert sentence.format(empty=tmp_path / "empty") in err
    assert len(err.splitlines()) == 1


def test_a_topic_that_is_not_there(capsys, tides):
    code, _, err = audit(capsys, "--bootstrap", tides.bootstrap, "--topic", "nowhere")
    assert code == 1
    assert err == (
        "Topic nowhere cannot be audited: UNKNOWN_TOPIC_OR_PARTITION. "
        "`tidelog topics --list` lists the existing topics.\n"
    )


def test_a_history_of_another_cluster_finds_nothing_lost_so_it_is_refused(capsys, tmp_path):
    """One that knows of more than there is left is reported, and used."""
    tell(find("divergence-by-high-watermark"), {}, ended=lambda play: export_disks(play, tmp_path / "lab"))
    history = tmp_path / "lab" / HISTORY
    write_replica(tmp_path / "other", 0, batches(3), name=TopicPartition("u", 0))
    code, out, err = audit(capsys, "--folder", tmp_path / "other", "--history", history)
    assert (code, out) == (1, "")
    assert f"{history}: none of its partitions (t-0) is audited. Is it from another cluster?" in err
    check_history(history, [TopicPartition("t", 0), TopicPartition("u", 0)], {TopicPartition("u", 0)}, ())
    assert capsys.readouterr().err == "audit: partitions t-0 of the history do not exist and are not audited\n"


@pytest.mark.parametrize(
    ("module", "function", "lacking"),
    [(importlib.util, "find_spec", "PySpark is not installed"), (shutil, "which", "no Java runtime was found")],
)
def test_without_spark_this_process_reads_the_logs_and_says_so(
    capsys, tmp_path, monkeypatch, module, function, lacking
):
    write_cluster(tmp_path, batches(3))
    code = run(["audit", "--folder", str(tmp_path), "--local"])
    expected = capsys.readouterr().out
    monkeypatch.setattr(module, function, lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run(["audit", "--folder", str(tmp_path)]) == code
    told = capsys.readouterr()
    assert told.out == expected
    assert f"audit: {lacking}, so this process reads the logs, as with --local\n" in told.err


def test_a_master_that_cannot_be_used_without_pyspark_is_an_error(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    write_cluster(tmp_path, batches(3))
    assert run(["audit", "--folder", str(tmp_path), "--master", "spark://here:7077"]) == 1
    assert capsys.readouterr().err.endswith(
        "PySpark is not installed: pip install 'tidelog[spark]', or audit in this process with --local.\n"
    )


def test_a_stopped_cluster_is_sound(capsys, tides, tmp_path):
    """The last test of the module: the cluster is stopped for it."""
    for broker in tides.brokers:
        broker.stop()
    for broker in tides.brokers:
        shutil.copytree(broker.folder, tmp_path / broker.folder.name)
    found = as_json(capsys, "--folder", tmp_path)
    assert found["findings"] == []
    assert [len(each["replicas"]) for each in found["partitions"]] == [3, 3]
