"""Bytes that changed in a broker's metadata store or its `meta.properties`: a broker starts on them with every topic,
option and record, or does not start and says why. `tests/store/test_rotten_store.py` tries more bytes of the store.

TIDELOG_ROT_STEP=1 takes every byte.
"""

import os
import shutil

import pytest

from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties
from tidelog.shell.disk import OsDisk
from tidelog.shell.log_dir_lock import CannotStart, LogDirLock
from tidelog.shell.store.store_address import StoreUnavailable
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.topics.metadata import MetadataRequest

STEP = int(os.environ.get("TIDELOG_ROT_STEP", "0"))
STORE, LOG, IDENTITY = "metadata.sqlite", "metadata.sqlite-wal", f"broker-0/{META_PROPERTIES}"
CLUSTER, DIRECTORY = "rT-SG7Nhl7Y2z694am5NMg", bytes(range(16))


def turned(content, position, bit):
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)


def content_of(cluster):
    """The topic's ID, its partitions, an option of it, and its records."""
    asked = DescribeConfigsResource(resource_type=2, resource_name="flights", configuration_keys=["retention.ms"])
    with cluster.admin() as admin:
        (topic,) = admin.ask(MetadataRequest(topics=None)).topics
        (options,) = admin.ask(DescribeConfigsRequest(resources=[asked])).results
    retention = [option.value for option in options.configs]
    return topic.topic_id, len(topic.partitions), retention, [each.value for each in cluster.records("flights")]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Folders of a broker that was killed and that was stopped, and what it served."""
    folder = tmp_path_factory.mktemp("broker")
    with Cluster(brokers=1, folder=folder / "stopped") as cluster:
        cluster.create_topic("flights", partitions=2, retention_ms=77_000_000)
        with Producer(cluster.bootstrap) as producer:
            for number in range(20):
                producer.send("flights", b"%d" % number, partition=number % 2)
            assert len(producer.flush()) == 20
        shutil.copytree(folder / "stopped", folder / "killed", ignore=shutil.ignore_patterns("*-shm"))
        served = content_of(cluster)
    return folder, served


def positions(content):
    return range(len(content) - 1, -1, -(STEP or len(content) // 24))


@pytest.mark.parametrize(("ended", "name"), [("stopped", STORE), ("killed", LOG), ("killed", IDENTITY)])
def test_every_file_that_rots(before, tmp_path, ended, name):
    folder, served = before
    before = folder / ended
    shutil.copytree(before, tmp_path / "sound")
    with Cluster(brokers=1, folder=tmp_path / "sound") as cluster:
        assert content_of(cluster) == served
    content = (before / name).read_bytes()
    refusals = []
    for position in positions(content):
        folder = tmp_path / str(position)
        shutil.copytree(before, folder)
        (folder / name).write_bytes(turned(content, position, position % 8))
        try:
            with Cluster(brokers=1, folder=folder) as cluster:
                assert content_of(cluster) == served, position
        except (StoreUnavailable, CannotStart) as refusal:
            refusals.append(str(refusal))
        shutil.rmtree(folder)
    assert refusals or name == STORE  # much of the database is free space
    assert [each for each in refusals if name.rpartition("/")[2].removesuffix("-wal") not in each] == []


def test_every_bit_of_meta_properties_is_as_it_was_or_the_file_is_refused(tmp_path):
    """A changed directory.id was believed: the broker had lost all that it had before, and was not elected."""
    meta = MetaProperties(CLUSTER, 0, DIRECTORY)
    good = format_meta_properties(meta)
    path = tmp_path / META_PROPERTIES
    for position in range(len(good)):
        bits = [turned(good, position, bit) for bit in range(8)]
        for content in (*bits, good[:position], good[:position] + bytes(len(good) - position)):
            path.write_bytes(content)
            lock = LogDirLock(OsDisk([str(tmp_path)]))
            try:
                lock.check_identity(CLUSTER, 0, lambda size: b"d" * size)
            except CannotStart as refusal:
                assert str(path) in str(refusal)  # noqa: PT017 - most, not all, are refused
            else:
                assert lock.directories == {str(tmp_path): DIRECTORY}, content


def test_meta_properties_of_kafka_and_changed_ones_are_read_without_a_checksum(tmp_path):
    line, _, content = format_meta_properties(MetaProperties(CLUSTER, 0, DIRECTORY)).partition(b"\n")
    path = tmp_path / META_PROPERTIES
    path.write_bytes(content)
    lock = LogDirLock(OsDisk([str(tmp_path)]))
    lock.check_identity(CLUSTER, 0, os.urandom)
    assert lock.directories == {str(tmp_path): DIRECTORY}
    path.write_bytes(line + b"\n" + content.replace(b"node.id=0", b"node.id=1"))
    with pytest.raises(CannotStart, match="if you changed it, remove line 1"):
        lock.check_identity(CLUSTER, 1, os.urandom)
