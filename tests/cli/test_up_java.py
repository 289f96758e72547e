"""`tidelog up` as a process, with the memory of its cluster in ZooKeeper."""

from tests.cli.commands import PATIENCE_S, ended, running
from tests.output import read_line


def test_up_keeps_the_clusters_memory_in_zookeeper(tmp_path, zookeeper):
    place = f"zookeeper://{zookeeper.hosts}/up/here"
    with running("up", "--data", tmp_path, "--port", "0", "--metadata", place) as process:
        ready = read_line(process.stdout).split()
        assert ready[0] == "ready"
        with running("metadata", "ls", "/brokers/ids", "--data", tmp_path) as asked:
            assert asked.communicate(timeout=PATIENCE_S)[0].split() == ["0", "1", "2"]
        with running("topics", "--create", "--topic", "t", "--zookeeper", tmp_path) as asked:
            assert asked.communicate(timeout=PATIENCE_S)[0] == "Created topic t.\n"
        process.terminate()
        assert ended(process) == (0, "")
    assert not (tmp_path / "metadata.sqlite").exists()
    with running("metadata", "ls", "/brokers/ids", "--metadata", place) as asked:
        assert asked.communicate(timeout=PATIENCE_S)[0].split() == []
