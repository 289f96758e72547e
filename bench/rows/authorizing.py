"""Row 22: requests of one record, each of them authorized among 10,000 ACLs."""

from collections.abc import Iterator

from bench.loads.requests import Requests
from bench.measure import Measure, Target, alternate, pair
from bench.wire import CREATE_ACLS, Client, fresh_topic
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.security.acls import AclOperation, PatternType, Permission, ResourceType
from tidelog.wire.messages.security.acls import AclCreation, CreateAclsRequest

ACLS, AT_A_TIME = 10_000, 500
COUNT, IN_FLIGHT = 60_000, 50
TOPIC = "authorized"


def acls(scale: float) -> Iterator[Measure]:
    """Where no ACL concerns a resource, everybody may use it: so the brokers themselves are not refused."""
    options = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    requests = Requests(1, IN_FLIGHT, int(COUNT * scale))
    with pair(1, **options) as sides:
        for side in sides:
            fresh_topic(side.ports[0], TOPIC, 1, 1)
            _create_acls(side.ports[0])
        found = alternate(sides, lambda side: requests.run(side.ports[0], TOPIC))
        what = f"one broker, acks=1, 50 in flight, {ACLS:,} ACLs"
        yield found.measure("rate", "22", what, "requests/s", Target(1, at_least=True))


def _create_acls(port: int) -> None:
    """Half of them literal, half prefixes, of a thousand users; and those that the load needs."""
    creations = [
        _allow(TOPIC, PatternType.LITERAL, "ANONYMOUS", operation)
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    for number in range(ACLS - len(creations)):
        pattern = PatternType.PREFIXED if number % 2 else PatternType.LITERAL
        creations.append(_allow(f"topic-{number}", pattern, f"user-{number % 1000}", AclOperation.WRITE))
    with Client(port) as client:
        for first in range(0, len(creations), AT_A_TIME):
            request = CreateAclsRequest(creations=creations[first : first + AT_A_TIME])
            if refused := [each for each in client.call(CREATE_ACLS, request).results if each.error_code]:
                raise RuntimeError(f"{len(refused)} ACLs were refused: {refused[0].error_message}")


def _allow(topic: str, pattern: PatternType, user: str, operation: AclOperation) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=topic,
        resource_pattern_type=pattern,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )
