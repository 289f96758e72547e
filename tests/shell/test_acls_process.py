"""ACLs in SQLite and in a metadata quorum survive kill -9."""

from tests.shell.killed_with_acls import check_acls_survive


def test_acls_survive_a_kill(tmp_path, free_ports):
    check_acls_survive(tmp_path, free_ports(3), {})


def test_acls_in_a_quorum_survive_a_kill(tmp_path, free_ports):
    """Without TLS on its listener of controllers, its own principal is ANONYMOUS there."""
    own = {"super.users": "User:brokers;User:admin;User:ANONYMOUS"}
    check_acls_survive(tmp_path, free_ports(3), own, quorum=True)
