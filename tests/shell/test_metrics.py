"""The page of metrics of a real broker."""

import re
import urllib.request

import pytest

from tidelog.shell.supervisor import Supervisor

pytestmark = pytest.mark.processes


def test_a_broker_tells_its_numbers_where_it_is_asked_to(tmp_path, free_ports):
    (port,) = free_ports(1)
    with Supervisor(tmp_path, brokers=1, port=0, overrides={"metrics.listener": f"127.0.0.1:{port}"}):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        values = dict(re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE))
    assert values["tidelog_leaders"] == "0.0"
    assert values["tidelog_under_replicated_partitions"] == "0.0"
    assert values["tidelog_offline_partitions"] == "0.0"
    assert float(values["tidelog_requests_total"]) >= 1
    assert float(values['tidelog_events_total{kind="controller.elected"}']) == 1
