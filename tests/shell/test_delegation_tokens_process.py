"""Delegation tokens and users in SQLite and in a metadata quorum survive kill -9."""

import pytest

from tests.shell.killed_with_tokens import check_tokens_and_users_survive


@pytest.mark.parametrize("quorum", [False, True], ids=["sqlite", "quorum"])
def test_tokens_and_users_survive_a_kill(tmp_path, free_ports, quorum):
    check_tokens_and_users_survive(tmp_path, free_ports(3), {}, quorum=quorum)
