"""What each API needs to be allowed: `authorize` is called for every request before its handler.

The guards are made of the parts in `guards.py`. Handlers that show what exists, such as Metadata, hide what may not be
described by themselves.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

from tidelog.api.change_audit import AUDITED, changes
from tidelog.api.context import Context
from tidelog.api.guards import (
    REFUSED_WITH,
    Caller,
    Guard,
    Test,
    Verdict,
    both,
    each_entry,
    emptied,
    in_turn,
    listed,
    named,
    of_group,
    of_topic,
    on_cluster,
    split,
    whole,
)
from tidelog.config import alter
from tidelog.effects import Close
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.slices import Sliced, kept_of
from tidelog.wire.message import key_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.refusals import ENTRIES, refuse, refused

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE, ALTER, DESCRIBE = AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE = AclOperation.IDEMPOTENT_WRITE

CREATE_REFUSED = "Authorization failed."
PRODUCE_BY_ID_SINCE = 13
OFFSETS_BY_ID_SINCE = 10
FETCH_BY_GROUP_SINCE = 8
CODE_OF_GROUP_SINCE = 2
"""Since this version OffsetFetch has a code for the whole group."""
BY_BROKERS_SINCE = 4
"""Since this version AddPartitionsToTxn is sent by brokers."""
HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def authorize(request: Any, context: Context, *, of_controller: bool = False) -> Verdict | None:
    """None if the request may be served as it is. `of_controller`: it came on a listener of controllers."""
    access = context.access
    if access is None:
        return None
    guard, api, is_audited = _APIS[request.__key__]
    if of_controller:
        guard = CONTROLLER_GUARDS.get(request.__key__, guard)
    verdict = None if guard is None else guard(request, Caller(context, access, api))
    if not is_audited or (verdict is not None and verdict.request is None):
        return verdict
    found = changes(request if verdict is None else verdict.request, context)
    return verdict if not found else _audited(request, verdict, partial(access.audit, api, found))


def _audited(request: Any, verdict: Verdict | None, audit: Callable[[Any], None]) -> Verdict:
    """The answer says what became of the changes."""
    if verdict is None:
        return Verdict(request=request, finish=audit)
    return verdict._replace(finish=in_turn(audit, verdict.finish))


# Records.


def _produce(request: Any, caller: Caller) -> Verdict | None:
    """Without acks there is no answer: the refusal closes the connection."""
    transactional_id = request.transactional_id
    if transactional_id is not None and not caller.may(WRITE, TRANSACTIONAL_ID, transactional_id):
        verdict: Verdict | None = Verdict(refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    else:
        verdict = _written(request, caller)
    if verdict is None or request.acks != 0:
        return verdict
    context = caller.context
    context.effects.append(Close(context.connection, "acks=0 was refused"))
    return Verdict(request=verdict.request or emptied(request, "topic_data"))


def _written(request: Any, caller: Caller) -> Verdict | None:
    """As `each_entry` does, in fewer calls: most requests are these, and most are allowed."""
    allows, api, by_id = caller.access.allows, caller.api, caller.context.version >= PRODUCE_BY_ID_SINCE
    denied = [
        index
        for index, topic in enumerate(request.topic_data)
        if (name := caller.topic(None, topic.topic_id) if by_id else topic.name) is not None
        and not allows(WRITE, TOPIC, name, api)
    ]
    if not denied:
        return None
    codes = [ErrorCode.NONE] * len(request.topic_data)
    for index in denied:
        codes[index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return split(request, codes)


def _offset_for_leader_epoch(request: Any, caller: Caller) -> Verdict | None:
    if caller.sees(CLUSTER_ACTION, CLUSTER):
        return None
    return each_entry(named(DESCRIBE, TOPIC, "topic"))(request, caller)


# Groups.


def _find_coordinator(request: Any, caller: Caller) -> Verdict | None:
    resource_type = {0: GROUP, 1: TRANSACTIONAL_ID}.get(request.key_type)
    if resource_type is None:
        return None
    if caller.context.version >= 4:
        return each_entry(named(DESCRIBE, resource_type, ""))(request, caller)
    return whole((DESCRIBE, resource_type, "key"))(request, caller)


def _offset_fetch(request: Any, caller: Caller) -> Verdict | None:
    """A group that may not be described has a code and no positions; topics that may not be described have a code where
    they are named, and are left out where they are not."""
    from tidelog.api.groups.offset_fetch import refused_group

    if caller.context.version < FETCH_BY_GROUP_SINCE:
        return _offset_fetch_of_one(request, caller)
    allowed, refusals = [], []
    for group in request.groups:
        if caller.may(DESCRIBE, GROUP, group.group_id):
            allowed.append(group)
        else:
            refusals.append(refused_group(group.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not allowed and refusals:
        response = refuse(request, ErrorCode.NONE)
        response.groups = refusals
        return Verdict(response)
    parts = [_visible_topics(group, caller) for group in allowed]
    kept = copy(request)
    kept.groups = [group for group, _ in parts]

    def finish(response: Any) -> Sliced[None]:
        for answer, (group, hidden) in zip(response.groups, parts, strict=True):
            if group.topics is None:
                answer.topics = yield from kept_of(
                    answer.topics, lambda topic: caller.sees(DESCRIBE, TOPIC, topic.name)
                )
            elif not answer.error_code:
                answer.topics += hidden
        response.groups += refusals

    return Verdict(request=kept, finish=finish)


def _visible_topics(group: Any, caller: Caller) -> tuple[Any, list[Any]]:
    """(the group with the topics that may be described, the answers for the others)."""
    from tidelog.api.groups.offset_fetch import refused_topic

    visible, hidden = [], []
    for topic in group.topics or ():
        name = caller.topic(topic.name, getattr(topic, "topic_id", NO_ID), OFFSETS_BY_ID_SINCE)
        if name is None or caller.may(DESCRIBE, TOPIC, name):
            visible.append(topic)
        else:
            hidden.append(refused_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    kept = copy(group)
    kept.topics = None if group.topics is None else visible
    return kept, hidden


def _offset_fetch_of_one(request: Any, caller: Caller) -> Verdict | None:
    from tidelog.api.groups.offset_fetch import flat_topic, refused_topic

    if not caller.may(DESCRIBE, GROUP, request.group_id):
        response = refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if caller.context.version < CODE_OF_GROUP_SINCE:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            response.topics = [flat_topic(refused_topic(topic, code)) for topic in request.topics or ()]
        return Verdict(response)
    kept, hidden = _visible_topics(request, caller)

    def finish(response: Any) -> Sliced[None]:
        if request.topics is None:
            topics = response.topics
            response.topics = yield from kept_of(topics, lambda topic: caller.sees(DESCRIBE, TOPIC, topic.name))
        elif not response.error_code:
            response.topics += [flat_topic(topic) for topic in hidden]

    return Verdict(request=kept, finish=finish)


def _offset_delete(request: Any, caller: Caller) -> Verdict | None:
    if not caller.may(DELETE, GROUP, request.group_id):
        return Verdict(refuse(emptied(request, "topics"), ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return each_entry(named(READ, TOPIC))(request, caller)


def _list_groups(request: Any, caller: Caller) -> Verdict | None:
    if caller.sees(DESCRIBE, CLUSTER):
        return None

    def finish(response: Any) -> Sliced[None]:
        groups = response.groups
        response.groups = yield from kept_of(groups, lambda group: caller.sees(DESCRIBE, GROUP, group.group_id))

    return Verdict(request=request, finish=finish)


def _consumer_group_heartbeat(request: Any, caller: Caller) -> Verdict | None:
    if not caller.may(READ, GROUP, request.group_id):
        return Verdict(refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not all(caller.may(DESCRIBE, TOPIC, name) for name in dict.fromkeys(request.subscribed_topic_names or ())):
        return Verdict(refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return None


def _consumer_group_describe(request: Any, caller: Caller) -> Verdict:
    verdict = each_entry(named(DESCRIBE, GROUP, ""))(request, caller) or Verdict(request=request)
    if verdict.request is None:
        return verdict

    def finish(response: Any) -> Sliced[None]:
        for group in response.groups:
            shown = yield from kept_of(group.members, sees_topics_of)
            if len(shown) < len(group.members):
                group.error_code, group.error_message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS
                group.members = []

    def sees_topics_of(member: Any) -> bool:
        return all(caller.sees(DESCRIBE, TOPIC, name) for name in _topics_of(member))

    return verdict._replace(finish=in_turn(finish, verdict.finish))


def _topics_of(member: Any) -> set[str]:
    return {
        topic.topic_name
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }.union(member.subscribed_topic_names)


# Topics and options.


def _create_topics(request: Any, caller: Caller) -> Verdict | None:
    """The options of a new topic are shown to those who may describe them."""
    verdict: Verdict | None = None
    if not caller.sees(CREATE, CLUSTER):
        verdict = each_entry(named(CREATE, TOPIC), CREATE_REFUSED)(request, caller)
    if verdict is not None and verdict.request is None:
        return verdict
    hidden = {topic.name for topic in request.topics if not caller.sees(DESCRIBE_CONFIGS, TOPIC, topic.name)}
    if not hidden:
        return verdict

    def finish(response: Any) -> None:
        for topic in response.topics:
            if topic.name in hidden and not topic.error_code:
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = None

    if verdict is None:
        return Verdict(request=request, finish=finish)
    return verdict._replace(finish=in_turn(finish, verdict.finish))


def _delete_topics(request: Any, caller: Caller) -> Verdict | None:
    """A topic that is found by its id, and may not be described, keeps its name. An id that is not known is refused
    here: the controller may know it already, and asks nobody."""
    allowed, refusals = [], []
    for each in listed(request):
        named = isinstance(each, str) or each.name is not None
        name = each if isinstance(each, str) else caller.topic(each.name, each.topic_id)
        is_unknown = name is None and each.topic_id != NO_ID
        if not is_unknown and (name is None or caller.may(DELETE, TOPIC, name)):
            allowed.append(each)
            continue
        part = copy(request)
        entries = ENTRIES[key_of(request)][isinstance(each, str)]
        setattr(part, entries.requested, [each])
        code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (refusal,) = refused(part, entries, code)
        if not named and name is not None and caller.sees(DESCRIBE, TOPIC, name):
            refusal.name = name
        refusals.append(refusal)
    if not refusals:
        return None
    if not allowed:
        response = refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        response.responses = refusals
        return Verdict(response)
    kept = copy(request)
    setattr(kept, "topic_names" if isinstance(allowed[0], str) else "topics", allowed)
    return Verdict(request=kept, finish=lambda response: response.responses.extend(refusals))


def _resource(operation: AclOperation) -> Test:
    """An entry of DescribeConfigs or AlterConfigs."""

    def test(entry: Any, caller: Caller) -> ErrorCode:
        resource_type = {alter.TOPIC: TOPIC, alter.GROUP: GROUP}.get(entry.resource_type, CLUSTER)
        name = CLUSTER_NAME if resource_type == CLUSTER else entry.resource_name
        return ErrorCode.NONE if caller.may(operation, resource_type, name) else REFUSED_WITH[resource_type]

    return test


# Transactions.


def _init_producer_id(request: Any, caller: Caller) -> Verdict | None:
    if request.transactional_id is not None:
        return whole((WRITE, TRANSACTIONAL_ID, "transactional_id"))(request, caller)
    if caller.sees(IDEMPOTENT_WRITE, CLUSTER) or caller.access.allows_any(WRITE, TOPIC, caller.api):
        return None
    return Verdict(refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def _add_partitions_to_txn(request: Any, caller: Caller) -> Verdict | None:
    """All partitions of a transaction are added, or none."""
    if caller.context.version >= BY_BROKERS_SINCE:
        allowed = caller.may(CLUSTER_ACTION, CLUSTER)
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return None if allowed else Verdict(refuse(emptied(request, "transactions"), code))
    if not caller.may(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return Verdict(refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    denied = {topic.name for topic in request.v3_and_below_topics if not caller.may(WRITE, TOPIC, topic.name)}
    if not denied:
        return None
    response = refuse(request, ErrorCode.OPERATION_NOT_ATTEMPTED)
    for topic in response.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition if topic.name in denied else ():
            partition.partition_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return Verdict(response)


def _write_txn_markers(request: Any, caller: Caller) -> Verdict | None:
    if caller.sees(ALTER, CLUSTER) or caller.may(CLUSTER_ACTION, CLUSTER):
        return None
    return Verdict(refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def _describe_transactions(request: Any, caller: Caller) -> Verdict:
    verdict = each_entry(named(DESCRIBE, TRANSACTIONAL_ID, ""))(request, caller) or Verdict(request=request)
    if verdict.request is None:
        return verdict

    def finish(response: Any) -> Sliced[None]:
        for state in response.transaction_states:
            state.topics = yield from kept_of(state.topics, lambda topic: caller.sees(DESCRIBE, TOPIC, topic.topic))

    return verdict._replace(finish=in_turn(finish, verdict.finish))


def _list_transactions(request: Any, caller: Caller) -> Verdict:
    def finish(response: Any) -> Sliced[None]:
        response.transaction_states = yield from kept_of(
            response.transaction_states,
            lambda state: caller.sees(DESCRIBE, TRANSACTIONAL_ID, state.transactional_id),
        )

    return Verdict(request=request, finish=finish)


def _known_acls(request: Any, _caller: Caller) -> None:
    """ACLs that no broker can know close the connection, also of those who may not change any."""
    from tidelog.api.security.acls import check_known

    check_known(request)


# Delegation tokens.


def _create_delegation_token(request: Any, caller: Caller) -> Verdict | None:
    from tidelog.api.security.delegation_tokens import foreign_owner, refused_creation

    owner = foreign_owner(request, caller.context)
    if owner is None or caller.may(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        return None
    return Verdict(refused_creation(request, caller.context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED))


def _describe_delegation_token(request: Any, caller: Caller) -> Verdict:
    from tidelog.api.security.delegation_tokens import keep_visible

    return Verdict(request=request, finish=partial(keep_visible, context=caller.context, sees=caller.sees))


GUARDS: dict[int, Guard | None] = {
    0: _produce,
    1: None,
    2: each_entry(named(DESCRIBE, TOPIC)),
    3: None,
    4: on_cluster(CLUSTER_ACTION),
    5: on_cluster(CLUSTER_ACTION),
    6: on_cluster(CLUSTER_ACTION),
    7: on_cluster(CLUSTER_ACTION),
    8: both(of_group(READ), each_entry(of_topic(READ, OFFSETS_BY_ID_SINCE))),
    9: _offset_fetch,
    10: _find_coordinator,
    11: of_group(READ),
    12: of_group(READ),
    13: of_group(READ),
    14: of_group(READ),
    15: each_entry(named(DESCRIBE, GROUP, "")),
    16: _list_groups,
    17: None,
    18: None,
    19: _create_topics,
    20: _delete_topics,
    21: each_entry(named(DELETE, TOPIC)),
    22: _init_producer_id,
    23: _offset_for_leader_epoch,
    24: _add_partitions_to_txn,
    25: whole((WRITE, TRANSACTIONAL_ID, "transactional_id"), (READ, GROUP, "group_id")),
    26: whole((WRITE, TRANSACTIONAL_ID, "transactional_id")),
    27: _write_txn_markers,
    28: both(
        whole((WRITE, TRANSACTIONAL_ID, "transactional_id"), (READ, GROUP, "group_id")),
        each_entry(named(READ, TOPIC)),
    ),
    29: both(_known_acls, on_cluster(DESCRIBE)),
    30: both(_known_acls, on_cluster(ALTER)),
    31: both(_known_acls, on_cluster(ALTER)),
    32: each_entry(_resource(DESCRIBE_CONFIGS)),
    33: each_entry(_resource(ALTER_CONFIGS)),
    34: on_cluster(ALTER),
    35: on_cluster(DESCRIBE),
    36: None,
    37: each_entry(named(ALTER, TOPIC)),
    38: _create_delegation_token,
    39: None,
    40: None,
    41: _describe_delegation_token,
    42: each_entry(named(DELETE, GROUP, "")),
    43: on_cluster(ALTER),
    44: each_entry(_resource(ALTER_CONFIGS)),
    45: on_cluster(ALTER),
    46: on_cluster(DESCRIBE),
    47: _offset_delete,
    48: on_cluster(DESCRIBE_CONFIGS),
    49: on_cluster(ALTER_CONFIGS),
    50: on_cluster(DESCRIBE),
    51: on_cluster(ALTER),
    52: on_cluster(CLUSTER_ACTION),
    53: on_cluster(CLUSTER_ACTION),
    54: on_cluster(CLUSTER_ACTION),
    55: on_cluster(DESCRIBE),
    56: on_cluster(CLUSTER_ACTION),
    57: on_cluster(ALTER),
    59: on_cluster(CLUSTER_ACTION),
    60: None,
    61: each_entry(named(READ, TOPIC)),
    64: on_cluster(ALTER),
    65: _describe_transactions,
    66: _list_transactions,
    68: _consumer_group_heartbeat,
    69: _consumer_group_describe,
    74: on_cluster(DESCRIBE_CONFIGS),
    75: None,
    80: on_cluster(ALTER),
    81: on_cluster(ALTER),
    82: on_cluster(CLUSTER_ACTION),
    10000: on_cluster(DESCRIBE),
    10001: on_cluster(CLUSTER_ACTION),
}
"""By API key; an API that is missing is served to nobody. None: open to everyone, or guarded by its handler."""

CONTROLLER_GUARDS = {1: on_cluster(CLUSTER_ACTION), 60: on_cluster(ALTER)}
"""Those of APIs that are another request on a listener of controllers, as in Kafka: Fetch is that of the metadata log,
DescribeCluster names the controllers."""

_APIS = {key: (guard, SCHEMAS[key].name, key in AUDITED) for key, guard in GUARDS.items()}
"""(guard, name, whether the changes that it requests are logged)."""
