"""`tidelog acls` and `tidelog explain access` on a broker with an authorizer, whose anonymous clients are super users."""

import json
import re

import pytest

from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def bootstrap():
    options = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with Cluster(brokers=1, options=options) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def on(tidelog, bootstrap):
    """The command line on that broker, without any ACL."""

    def run(command, *arguments, given=b""):
        first, *rest = command.split()
        result = tidelog(first, *rest, "--bootstrap-server", bootstrap, *arguments, given=given)
        assert result.code == 0, result
        return result.out

    yield run
    for option in ("--topic", "--group", "--transactional-id"):
        run("acls", "--remove", "--force", option, "t", "--resource-pattern-type", "match")
    run("acls", "--remove", "--force", "--cluster")
    assert run("acls", "--list") == ""


def test_what_a_producer_and_a_consumer_need_is_added_listed_and_removed(on):
    roles = ("--producer", "--idempotent", "--consumer", "--topic", "t", "--group", "t", "--transactional-id", "t")
    out = on("acls", "--add", "--allow-principal", "User:alice", *roles)
    assert out.count("Adding ACLs for resource") == 4
    listed = on("acls", "--list")
    operations = {
        line.split("resourceType=")[1].split(",")[0]: set(re.findall(r"operation=(\w+)", block))
        for block in listed.split("Current ACLs for ")[1:]
        for line in block.splitlines()[:1]
    }
    assert operations == {
        "TOPIC": {"WRITE", "DESCRIBE", "CREATE", "READ"},
        "GROUP": {"READ"},
        "TRANSACTIONAL_ID": {"WRITE", "DESCRIBE"},
        "CLUSTER": {"IDEMPOTENT_WRITE"},
    }
    again = on("acls", "--add", "--allow-principal", "User:alice", *roles)
    assert again.count("already exists.") == 8
    assert on("acls", "--remove", "--force", "--allow-principal", "User:alice", *roles) == ""
    assert on("acls", "--list") == ""


def test_an_acl_is_removed_only_after_a_yes(on):
    rule = ("--topic", "t", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "read")
    on("acls", "--add", *rule)
    assert "Are you sure you want to remove ACLs" in on("acls", "--remove", *rule, given=b"n\n")
    assert "(principal=User:bob, host=10.0.0.1, operation=READ, permissionType=DENY)" in on("acls", "--list")
    on("acls", "--remove", *rule, given=b"y\n")
    assert on("acls", "--list") == ""


def test_the_acls_of_principals_and_of_patterns_are_listed(on):
    on("acls", "--add", "--topic", "t", "--allow-principal", "User:alice", "--allow-principal", "User:bob")
    on("acls", "--add", "--topic", "t", "--resource-pattern-type", "prefixed", "--allow-principal", "User:bob")
    assert on("acls", "--list", "--topic", "t").count("User:bob") == 1
    assert on("acls", "--list", "--topic", "tea", "--resource-pattern-type", "match").count("User:bob") == 1
    out = on("acls", "--list", "--principal", "User:bob")
    assert out.startswith("ACLs for principal `User:bob`")
    assert (out.count("User:bob"), out.count("User:alice")) == (3, 0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("--add --list", "Exactly one action is required"),
        ("--add --topic t", "--add requires --allow-principal or --deny-principal"),
        ("--add --allow-principal User:a", "a resource is required"),
        ("--add --allow-principal alice --topic t", "is not a principal"),
        ("--add --allow-principal User:a --topic t --operation Fly", "is not an operation"),
        ("--add --allow-principal User:a --topic t --operation ClusterAction", "a TOPIC supports only"),
        ("--add --allow-principal User:a --topic t --resource-pattern-type match", "literal or prefixed"),
        ("--add --producer --topic t --allow-principal User:a --operation Read", "--producer and --operation"),
        ("--add --consumer --topic t --allow-principal User:a", "--consumer requires --topic and --group"),
        ("--add --idempotent --topic t --allow-principal User:a", "--idempotent requires --producer"),
        ("--list --allow-principal User:a", "--allow-principal applies to --add or --remove"),
        ("--add --topic t --principal User:a", "--principal applies to --list"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tidelog, bootstrap, arguments, problem):
    result = tidelog("acls", "--bootstrap-server", bootstrap, *arguments.split())
    assert result.code == 1
    assert problem in result.err


def test_a_cluster_without_an_authorizer_says_so(tidelog, cluster):
    result = tidelog("acls", "--bootstrap-server", cluster.bootstrap, "--list")
    assert result.code == 1
    assert "authorizer.class.name is not set" in result.err


def findings(on, *arguments):
    out = json.loads(on("explain access", "--principal", "User:alice", "--json", *arguments))
    return {each["about"]: each for each in out["findings"]}


def test_the_acl_that_decides_and_the_one_that_would_help_are_named(on, tidelog):
    on("acls", "--add", "--topic", "t", "--allow-principal", "User:alice", "--operation", "Read")
    found = findings(on, "--topic", "t", "--operation", "Read", "--operation", "Write", "--operation", "describe")
    read, write = found["User:alice READ topic t"], found["User:alice WRITE topic t"]
    assert (read["severity"], write["severity"]) == ("note", "error")
    assert found["User:alice DESCRIBE topic t"]["because"] == read["because"]
    assert "operation=READ, permissionType=ALLOW) on Topic:LITERAL:t" in read["because"][0]
    (help_,) = write["helps"]
    assert help_.endswith("--add --allow-principal User:alice --operation Write --topic t")
    assert tidelog(*help_.split()[1:]).code == 0
    assert findings(on, "--topic", "t", "--operation", "Write")["User:alice WRITE topic t"]["severity"] == "note"


def test_a_deny_is_named_with_the_command_that_removes_it(on, tidelog):
    on("acls", "--add", "--topic", "*", "--deny-principal", "User:*", "--operation", "All")
    on("acls", "--add", "--topic", "t", "--allow-principal", "User:alice", "--resource-pattern-type", "prefixed")
    denied = findings(on, "--topic", "tea", "--operation", "Read")["User:alice READ topic tea"]
    assert "principal=User:*" in denied["because"][0]
    (help_,) = denied["helps"]
    assert tidelog(*help_.replace("'", "").split()[1:], "--force").code == 0
    assert findings(on, "--topic", "tea", "--operation", "Read")["User:alice READ topic tea"]["severity"] == "note"


def test_other_resources_and_hosts_are_explained_too(on):
    on("acls", "--add", "--group", "t", "--allow-principal", "User:alice", "--allow-host", "10.0.0.1")
    asked = ("--group", "t", "--transactional-id", "t", "--cluster")
    found = findings(on, *asked)
    assert len(found) == 5 + 3 + 7 + 1 + 1
    assert found["User:alice READ group t"]["severity"] == "error"
    assert "host=10.0.0.1" in found["group t"]["because"][0]
    assert findings(on, *asked, "--host", "10.0.0.1")["User:alice READ group t"]["severity"] == "note"


def test_who_may_create_every_topic_may_create_this_one(on):
    on("acls", "--add", "--topic", "t", "--deny-principal", "User:alice", "--operation", "Create")
    on("acls", "--add", "--cluster", "--allow-principal", "User:alice", "--operation", "Create")
    created = findings(on, "--topic", "t", "--operation", "Create")["User:alice CREATE topic t"]
    assert created["severity"] == "note"
    assert "on Cluster:LITERAL:kafka-cluster" in created["because"][0]
