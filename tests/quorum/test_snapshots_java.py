"""Kafka's own DumpLogSegments reads a snapshot of ours: its control records, and where ours are, that they are not Kafka's."""

import re

import pytest

from tests.quorum.test_snapshots import STATE, WHICH, picture, through
from tidelog.quorum.snapshots import make
from tidelog.shell.disk import OsDisk

MAIN = "org.apache.kafka.tools.DumpLogSegments"


@pytest.mark.parametrize("decoder", [(), ("--cluster-metadata-decoder",)])
def test_kafka_dumps_our_snapshot(tmp_path, tool_server, decoder):
    taken = picture()
    through(make(OsDisk([str(tmp_path)]), str(tmp_path), WHICH, taken, STATE, 1234))
    file = tmp_path / WHICH.file_name
    done = tool_server.run(MAIN, *decoder, "--deep-iteration", "--files", str(file))
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if not line.startswith("SLF4J")] == []
    records = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", done.stdout, re.MULTILINE)]
    ours = len(list(taken.records()))
    assert records == list(range(ours + 4))
    assert 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1234}' in done.stdout
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in done.stdout
    assert '"endpoints":[{"name":"CONTROLLER","host":"one","port":65000}]' in done.stdout
    assert 'SnapshotFooter {"version":0}' in done.stdout
    assert "isvalid: false" not in done.stdout
    if decoder:
        assert len(re.findall(r"Error at \d+, skipping\. .*3000[34]", done.stdout)) == ours
