"""A broker process with an authorizer, killed as soon as it has answered that ACLs are created or deleted."""

from contextlib import contextmanager

from tests.processes import Processes
from tests.shell.test_acls import SECURED, logged_in_at
from tests.waiting import wait_for
from tidelog.errors import ErrorCode
from tidelog.security.acls import AclOperation, PatternType, Permission, ResourceType
from tidelog.wire.messages.security.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

ANYTHING = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": Permission.ANY,
}


def creation(name, pattern):
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=pattern,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission_type=Permission.ALLOW,
    )


def check_acls_survive(folder, ports, options, *, quorum=False):
    """`ports` are three free ones; `options` name the metadata store, unless it is a `quorum`."""
    plain, secured, brokers = ports
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured},REPLICATION://127.0.0.1:{brokers}"
    overrides = {**SECURED, **options, "listeners": listeners}
    with Processes(folder, brokers=1, port=plain, overrides=overrides, report=lambda _: None, quorum=quorum) as cluster:

        @contextmanager
        def admin():
            with logged_in_at(secured, "admin") as wire:
                yield wire
            cluster.kill(0)
            cluster.start_broker(0)
            cluster.wait_ready()

        with admin() as wire:
            made = [creation("t", PatternType.LITERAL), creation("a/b", PatternType.LITERAL)]
            made.append(creation("fl", PatternType.PREFIXED))
            results = wire.ask(30, 3, CreateAclsRequest(creations=made)).results
            assert [each.error_code for each in results] == [0, 0, 0]
            assert _seen(secured, "t", "flights", "other") == {"t", "flights"}
        with admin() as wire:
            found = wire.ask(29, 3, DescribeAclsRequest(**ANYTHING)).resources
            assert {(each.resource_name, each.pattern_type) for each in found} == {
                (each.resource_name, each.resource_pattern_type) for each in made
            }
            assert _seen(secured, "t", "flights", "other") == {"t", "flights"}
            one = DeleteAclsFilter(**{**ANYTHING, "resource_name_filter": "t"})
            (result,) = wire.ask(31, 3, DeleteAclsRequest(filters=[one])).filter_results
            assert [each.resource_name for each in result.matching_acls] == ["t"]
        assert _seen(secured, "t", "flights") == {"flights"}


def _seen(port, *names):
    """The topics that alice may describe, all of which are missing, once the broker knows an ACL: it learns of changes
    a moment after their answer, and serves before it has loaded what is stored."""

    def seen():
        with logged_in_at(port, "alice") as wire:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
            )
            topics = wire.ask(3, 12, request).topics
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return {topic.name for topic in topics if topic.error_code != denied}

    return wait_for(seen, "that the ACLs are loaded")
