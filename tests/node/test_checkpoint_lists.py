"""Which replicas a folder's checkpoints list, while replicas come and go: all of its own, by name."""

from tests.node.one_broker import OneBroker
from tidelog.log.checkpoints import read_offsets

FOLDERS = ("/a", "/b")


def listed(broker):
    """The partitions in the checkpoint of each folder."""
    held = broker.node.replicas
    contents = {folder: held.recovery_points(folder) for folder in FOLDERS}
    assert contents == {folder: held.high_watermarks(folder) for folder in FOLDERS}, "nothing is written yet"
    return {folder: [name.partition for name in read_offsets(content, folder)] for folder, content in contents.items()}


def test_replicas_come_and_go():
    broker = OneBroker(folders=FOLDERS)
    for index in (4, 3, 2, 1):  # in turns, because the roomiest folder takes the next one
        broker.lead(index=index)
    assert listed(broker) == {"/a": [2, 4], "/b": [1, 3]}
    broker.delete(4)
    assert listed(broker) == {"/a": [2], "/b": [1, 3]}
    broker.lead(index=0)
    broker.delete(3)
    assert listed(broker) == {"/a": [0, 2], "/b": [1]}


def test_a_deletion_does_not_sort_all_replicas_again(monkeypatch):
    """Four checkpoints were made from all replicas, sorted out by folder each time: 160 ms with 50,000 of them."""
    broker = OneBroker(folders=FOLDERS)
    for index in range(20):
        broker.lead(index=index)
    listed(broker)
    compared = []
    folders = broker.node.replicas._folders
    monkeypatch.setattr(
        broker.node.replicas, "_folders", type("Watched", (dict,), {"items": lambda _: compared.append(1)})(folders)
    )
    broker.delete(7)
    assert not compared
