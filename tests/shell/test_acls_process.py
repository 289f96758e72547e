"""ACLs in SQLite survive kill -9."""

from tests.shell.killed_with_acls import check_acls_survive


def test_acls_survive_a_kill(tmp_path, free_ports):
    check_acls_survive(tmp_path, free_ports(3), {})
