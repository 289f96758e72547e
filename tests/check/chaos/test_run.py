"""Chaos where the machine allows less than is asked for: it is told, and nothing is left."""

import pytest

from tidelog.check.chaos import machine
from tidelog.check.chaos.machine import NotAllowed, command


def test_a_network_that_cannot_be_made_leaves_nothing(monkeypatch):
    def refuse(*words):
        made.append(words)
        if "netns" in words and "delete" not in words:
            raise NotAllowed("ip: Operation not permitted")
        return ""

    made = []
    monkeypatch.setattr(machine, "check_root", lambda: None)
    monkeypatch.setattr(machine, "command", refuse)
    with pytest.raises(NotAllowed, match="Operation not permitted"), machine.Network(2):
        pass
    assert made[-1][:3] == ("ip", "link", "delete")


def test_a_disk_that_cannot_be_mounted_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "check_root", lambda: None)
    monkeypatch.setattr(machine, "command", lambda *_: command("false"))
    with pytest.raises(NotAllowed, match="false: exit code 1"), machine.Disks(tmp_path, 1):
        pass


def test_a_command_that_is_missing_is_reported():
    with pytest.raises(NotAllowed, match="no-such-command: No such file"):
        machine.command("no-such-command")
