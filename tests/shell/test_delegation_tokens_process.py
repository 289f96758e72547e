"""Delegation tokens in SQLite survive kill -9."""

from tests.shell.killed_with_tokens import check_tokens_survive


def test_tokens_survive_a_kill(tmp_path, free_ports):
    check_tokens_survive(tmp_path, free_ports(3), {})
