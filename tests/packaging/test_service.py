"""The systemd unit: no systemd runs here, so the unit is read, and its command is that of a broker."""

import shlex
from configparser import RawConfigParser
from pathlib import Path

from click.testing import CliRunner

from tidelog.cli.brokers.broker_commands import broker

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "tidelog.service"


def service():
    unit = RawConfigParser()
    unit.optionxform = str
    unit.read_string(UNIT.read_text("utf-8"))
    return dict(unit["Service"])


def test_the_command_of_the_unit_is_that_of_a_broker():
    program, name, *arguments = shlex.split(service()["ExecStart"])
    assert (Path(program).name, name) == ("tidelog", "broker")
    done = CliRunner().invoke(broker, arguments)
    assert done.exit_code == 2
    assert "File '/etc/tidelog/server.properties' does not exist" in done.output, "read as a file of options"


def test_a_stop_leaves_the_broker_time_to_hand_its_leaderships_over():
    unit = service()
    assert unit["KillMode"] == "mixed", "SIGTERM to the broker first, SIGKILL to what is left at the end"
    assert int(unit["TimeoutStopSec"]) >= 60
    assert int(unit["LimitNOFILE"]) >= 100_000
