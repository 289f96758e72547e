"""Each API beside a real Kafka with StandardAuthorizer: refused without its ACL, refused with every other operation, and
allowed with exactly its own. Both sides run the same steps, and all answers have the same codes in the same places.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from tests.compatibility.differential import brokers
from tests.compatibility.differential.comparison import differences
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import KEYS, Connection
from tests.compatibility.security import acl_script
from tests.compatibility.security.acl_rows import OPEN, ROWS, Ground, Row, prepared
from tests.ports import free_ports
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.api.registry import APIS
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode
from tidelog.security.acls import AclOperation, Permission, ResourceType

pytestmark = pytest.mark.timeout(900)

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="p";'
OPTIONS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
"""Whoever comes without a login is a super user: the test's administrator, and brokers among themselves."""
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
REFUSED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED.name,
    ErrorCode.GROUP_AUTHORIZATION_FAILED.name,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED.name,
}
TYPES = {each.title: each for each in ResourceType}
OPERATIONS = [each.name for each in AclOperation if each >= AclOperation.READ]
NAMES = {"name", "topic", "topic_name", "group_id", "key", "transactional_id", "resource_type", "resource_name"}
NAMES |= {"partition_index", "partition", "index", "partition_id"}
"""What codes are about."""
INCLUDED_IN = {
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
}


class Client(Side):
    """Alice, who has only the rights that she is given."""

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = connection = Connection(self.port)
            connection.ask("SaslHandshake", 1, mechanism="PLAIN")
            assert connection.ask("SaslAuthenticate", 2, auth_bytes=b"\0alice\0p").error_code == 0
        return self._connection


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, kafka_libs, kafka_tool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Answers by row and step: ours, and Kafka's. Both brokers start, and run the steps, at the same time."""
    folder = tmp_path_factory.mktemp("authorizers")
    plain, ours, theirs, between = free_ports(4)
    with ExitStack() as running, ThreadPoolExecutor(2) as pool:
        kafka = pool.submit(
            running.enter_context,
            brokers.kafka(
                folder / "kafka",
                kafka_libs,
                listeners={"SASL_PLAINTEXT": theirs},
                options={**OPTIONS, "listener.security.protocol.map": PROTOCOLS},
                tool=kafka_tool,
            ),
        )
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{ours},REPLICATION://127.0.0.1:{between}"
        overrides = {**brokers.OPTIONS, **OPTIONS, "listeners": listeners}
        running.enter_context(Processes(folder / "tidelog", brokers=1, port=plain, overrides=overrides))
        sides = [
            (Side("Tidelog", plain), Client("Tidelog", ours)),
            (Side("Kafka", kafka.result()), Client("Kafka", theirs)),
        ]
        recorded = [each.result() for each in [pool.submit(_recorded, *side) for side in sides]]
        yield recorded[0], recorded[1]


def _recorded(administrator: Side, client: Client) -> dict[str, Any]:
    ground = prepared(administrator)
    client.names = administrator.names
    rights = Rights(administrator, client)
    acl_script.run(administrator)
    for whose, given in acl_script.RIGHTS.items():
        rights.give(given)
        acl_script.show_operations(client, whose)
    acl_script.show_operations(administrator, "a super user's")
    found = dict(administrator.answers + client.answers)
    for row in ROWS:
        for step, given in steps(row):
            rights.give(given)
            found[f"{row.name}: {step}"] = _asked(client, row, ground)
    administrator.close()
    client.close()
    return found


def steps(row: Row) -> Iterator[tuple[str, set[str]]]:
    """(what the step is about, the rights that alice has in it). Refusals come first: they change nothing."""
    yield "without a right", set()
    first, *others = row.needs
    for left_out in sorted(first):
        without = {left_out, *(right for needs in others for right in needs)}
        resources = {right.partition(" ")[0] for needs in row.needs for right in needs}
        missing = {
            f"{resource} {other}"
            for right in without
            for resource, _, operation in [right.partition(" ")]
            for other in INCLUDED_IN.get(operation, {operation})
        }
        rest = {f"{resource} {operation}" for resource in resources for operation in OPERATIONS} - missing
        yield f"all but {left_out}", rest
    for needs in row.needs[:1] if row.once else row.needs:
        yield f"exactly {' + '.join(sorted(needs))}", set(needs)


class Rights:
    """What alice may do. A marker, a topic that only the newest rights let her see, tells that they are in effect."""

    def __init__(self, administrator: Side, client: Client) -> None:
        self._administrator = administrator
        self._client = client
        self._numbers = count()

    def give(self, rights: Iterable[str]) -> None:
        everything = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
        hers = {
            **everything,
            "principal_filter": "User:alice",
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
        self._administrator.quiet("DeleteAcls", 3, filters=[hers])
        marker = f"marker-{next(self._numbers)}"
        creations = [_creation(right) for right in [*sorted(rights), f"Topic:{marker} DESCRIBE"]]
        results = self._administrator.quiet("CreateAcls", 3, creations=creations).results
        assert not any(each.error_code for each in results), results

        def is_seen() -> bool:
            values = {"topics": [{"name": marker}], "allow_auto_topic_creation": False}
            (topic,) = self._client.quiet("Metadata", 12, **values).topics
            return topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED

        wait_for(is_seen, f"{self._client}: the rights {sorted(rights)}")


def _creation(right: str) -> dict[str, Any]:
    resource, _, operation = right.partition(" ")
    kind, _, name = resource.partition(":")
    return {
        "resource_type": TYPES[kind],
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation[operation],
        "permission_type": Permission.ALLOW,
    }


def _asked(client: Client, row: Row, ground: Ground) -> Any:
    version = APIS[KEYS[row.api]].high if row.version is None else row.version
    client.answers.clear()
    client.ask(row.name, row.api, version, **row.values(ground))
    ((_, answer),) = client.answers
    return codes(answer)


def codes(answer: Any) -> Any:
    """An answer without anything but codes, and what they are about."""
    if isinstance(answer, dict):
        return {name: codes(value) for name, value in answer.items() if _is_kept(name, value)}
    return [codes(each) for each in answer] if isinstance(answer, list) else answer


def _is_kept(name: str, value: Any) -> bool:
    return (
        name.endswith("error_code")
        or name in NAMES
        or (isinstance(value, list) and value and isinstance(value[0], dict))
    )


def _names_of_codes(answer: Any) -> set[str]:
    if isinstance(answer, dict):
        found = {_name_of(answer[name]) for name in ("error_code", "partition_error_code") if name in answer}
        return found.union(*map(_names_of_codes, answer.values()))
    return set().union(*map(_names_of_codes, answer)) if isinstance(answer, list) else set()


def _name_of(code: Any) -> str:
    return code if isinstance(code, str) else ErrorCode(code).name


def test_acl_requests_and_the_operations_that_are_shown_are_answered_as_by_kafka(recordings):
    ours, theirs = recordings
    assert ours.keys() == theirs.keys()
    scripted = [label for label in ours if not any(label.startswith(f"{row.name}: ") for row in ROWS)]
    assert len(scripted) > 150
    found = [(label, *each) for label in scripted for each in differences(ours[label], theirs[label])]
    assert not found, "(request, where, Tidelog, Kafka)\n" + "\n".join(map(str, found))


def test_every_api_has_a_row():
    served = {api.name for api in APIS.values() if api.caller in ("anyone", "sasl", "secured", "features")}
    assert {row.api for row in ROWS} == served - OPEN
    assert served >= OPEN


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_is_refused_and_allowed_as_by_kafka(row, recordings):
    ours, theirs = recordings
    for step, _ in steps(row):
        label = f"{row.name}: {step}"
        found = list(differences(ours[label], theirs[label]))
        assert not found, f"{label}: (where, Tidelog, Kafka)\n" + "\n".join(map(str, found))
        refused = _names_of_codes(ours[label]) & REFUSED
        if not row.hides:
            assert bool(refused) is not step.startswith("exactly"), (label, ours[label])


@pytest.mark.parametrize("row", [row for row in ROWS if row.hides], ids=lambda row: row.name)
def test_what_it_shows_depends_on_the_right(row, recordings):
    ours, _ = recordings
    shown = {step: ours[f"{row.name}: {step}"] for step, _ in steps(row)}
    allowed = [answer for step, answer in shown.items() if step.startswith("exactly")]
    assert all(answer != shown["without a right"] for answer in allowed), shown
