"""`tidelog users`, and SCRAM users in `tidelog configs`: passwords come from a prompt or a file."""

import pytest

from tests.shell.test_sasl import WANTS, port_of
from tests.waiting import wait_for
from tidelog.errors import ApiError
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.metadata import MetadataRequest

HEADER = ["USER", "MECHANISM", "ITERATIONS"]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1, options={**WANTS, "connection.failed.authentication.delay.ms": "0"}) as started:
        yield started


@pytest.fixture
def on(tidelog, cluster):
    def call(command, *arguments, given=b""):
        return tidelog(*command.split(), "--bootstrap-server", cluster.bootstrap, *arguments, given=given)

    return call


def logs_in(cluster, user, password, mechanism="SCRAM-SHA-512"):
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'x.ScramLoginModule required username="{user}" password="{password}";',
    }
    try:
        with Admin(f"127.0.0.1:{port_of(cluster.brokers[0], 'SASL_PLAINTEXT')}", **options) as admin:
            return bool(admin.ask(MetadataRequest(topics=[])).brokers)
    except ApiError:
        return False


def listed(on, user):
    rows = [line.split() for line in on("users list").lines]
    assert rows[0] == HEADER
    return [row[1:] for row in rows[1:] if row[0] == user]


def test_a_user_is_added_changed_listed_and_removed(cluster, on, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("one two\n")
    added = on("users add", "ann", "--password-file", str(secret))
    assert (added.code, added.out) == (0, "Added SCRAM-SHA-512 of user ann.\n")
    wait_for(lambda: logs_in(cluster, "ann", "one two"), "ann")
    assert listed(on, "ann") == [["SCRAM-SHA-512", "4096"]]
    again = on("users add", "ann", "--password-file", str(secret))
    assert (again.code, again.err) == (1, "User ann already has SCRAM-SHA-512; use `tidelog users change`.\n")
    more = on(
        "users add", "ann", "--mechanism", "SCRAM-SHA-256", "--iterations", "8192", "--password-file", str(secret)
    )
    assert more.code == 0
    wait_for(lambda: listed(on, "ann") == [["SCRAM-SHA-256", "8192"], ["SCRAM-SHA-512", "4096"]], "both")
    changed = on("users change", "ann", "--password-file", "-", given=b"three\n")
    assert changed.lines == ["Changed SCRAM-SHA-256 of user ann.", "Changed SCRAM-SHA-512 of user ann."]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        wait_for(lambda by=mechanism: logs_in(cluster, "ann", "three", by), "the new password")
        assert not logs_in(cluster, "ann", "one two", mechanism)
    assert on("users remove", "ann", "--mechanism", "SCRAM-SHA-256").code == 0
    wait_for(lambda: listed(on, "ann") == [["SCRAM-SHA-512", "4096"]], "one is gone")
    assert on("users remove", "ann").out == "Removed SCRAM-SHA-512 of user ann.\n"
    wait_for(lambda: listed(on, "ann") == [], "ann is gone")
    for command in ("users change", "users remove"):
        assert on(command, "ann").err == "There is no SCRAM user ann.\n"


def test_without_a_file_the_password_is_asked_for_twice_and_not_shown(cluster, on, monkeypatch):
    typed = iter(["first", "other", "second", "second"])
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _prompt: next(typed))
    result = on("users add", "ben")
    assert result.code == 0
    assert "first" not in result.out + result.err
    wait_for(lambda: logs_in(cluster, "ben", "second"), "ben")
    wrong = on("users change", "ben", "--mechanism", "SCRAM-SHA-256")
    assert wrong.err == "User ben does not have SCRAM-SHA-256, but SCRAM-SHA-512.\n"


@pytest.mark.parametrize("content", ["", "\n", "two\nlines\n"])
def test_a_file_holds_one_line(on, content):
    result = on("users add", "cid", "--password-file", "-", given=content.encode())
    assert (result.code, result.err) == (1, "--password-file: expected one line with the password.\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--user", "dan", "--add-config", "SCRAM-SHA-512=[passwort=x]"],
            "SCRAM-SHA-512: expected [password=PASSWORD]",
        ),
        (["--user", "dan", "--add-config", "SCRAM-SHA-512=[iterations=9,password=x]"], "must be at least 4096, not 9"),
        (["--user", "dan", "--add-config", "SCRAM-SHA-512=[iterations=99999,password=x]"], "Too many iterations"),
        (["--user-defaults", "--add-config", "SCRAM-SHA-512=[password=x]"], "require one user"),
        (["--user", "dan", "--client", "c", "--add-config", "SCRAM-SHA-512=[password=x]"], "require one user"),
        (
            ["--user", "dan", "--add-config", "SCRAM-SHA-512=[password=x],consumer_byte_rate=1"],
            "cannot be altered together",
        ),
        (["--user", "dan", "--delete-config", "SCRAM-SHA-512"], "does not exist"),
        (["--user", "dan", "--add-config", "SCRAM-SHA-1=[password=x]"], "SCRAM-SHA-1: not a valid quota"),
    ],
)
def test_configs_refuses_what_is_no_credential_and_says_no_password(on, arguments, says):
    result = on("configs", "--alter", *arguments)
    assert result.code == 1
    assert says in result.err
    assert "=x" not in result.err
