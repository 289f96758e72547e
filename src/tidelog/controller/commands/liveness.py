"""Brokers that register, disappear and return, or are unregistered; failed log folders; controlled shutdown.

A broker is alive while its registration exists; its epoch is the registration's creation number. A broker whose
registration vanished is dead at once; another epoch means that it died and registered anew. What remains of a dead
broker are deletions of topics that wait for it, and its options (`unregister`). Its other replicas stay assigned to it
until they are moved, and if it alone may hold committed records, unregistering it elects no leader.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from tidelog.controller import tree
from tidelog.controller.commands.deletion import Deletions
from tidelog.controller.commands.elections import LogEnds, elect_where_due
from tidelog.controller.controller_term import ControllerTerm, Refused
from tidelog.controller.features import refusal
from tidelog.controller.journal import Slices, Steps, chunks
from tidelog.controller.leaders import Life
from tidelog.controller.pushes import ROLES_A_COUNT
from tidelog.controller.state import LiveBroker, Partition
from tidelog.effects import DropChannels
from tidelog.errors import ErrorCode
from tidelog.ports import Children, Delete, Node, Read
from tidelog.wire.messages.cluster.brokers import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def read_brokers(term: ControllerTerm) -> Steps[dict[int, LiveBroker]]:
    """The registered brokers, without those that do not support what is finalized: they register by themselves."""
    (names,) = yield [Children(tree.BROKER_IDS)]
    nodes = yield [Read(f"{tree.BROKER_IDS}/{name}") for name in names]
    found: dict[int, LiveBroker] = {}
    for name, node in zip(names, nodes, strict=True):
        with suppress(*tree.UNREADABLE):  # malformed registrations are ignored
            if isinstance(node, Node):
                found[int(name)] = LiveBroker(int(name), node.created, tree.parse_registration(node.data))
    refused = {
        id_: Refused(broker.epoch, reason)
        for id_, broker in found.items()
        if (reason := refusal(broker.registration.features, term.cluster.features)) is not None
    }
    for id_, (epoch, reason) in refused.items():
        if id_ not in term.refused or term.refused[id_].epoch != epoch:
            term.report("broker.refused", "error", broker=id_, epoch=epoch, reason=reason)
    term.refused = refused
    return {id_: broker for id_, broker in found.items() if id_ not in refused}


def adopt(term: ControllerTerm, brokers: dict[int, LiveBroker]) -> None:
    """Make these the live brokers. One with an unchanged epoch stays in its controlled shutdown."""
    cluster = term.cluster
    lives = {}
    for id_, broker in brokers.items():
        old = cluster.lives.get(id_)
        leaving = old is not None and old.epoch == broker.epoch and old.leaving
        registered = broker.registration
        since = min(registered.directories_since, broker.epoch)
        lives[id_] = Life(broker.epoch, registered.clean_epoch, leaving, term.trusts_restarts, since)
    cluster.brokers = brokers
    cluster.lives.clear()
    cluster.lives.update(lives)
    term.pushes.set_brokers(brokers.values())


def notice_brokers(term: ControllerTerm, logs: LogEnds) -> Steps[set[int]]:
    """Compare the registrations with those known and do what follows; the brokers that came."""
    found = yield from read_brokers(term)
    known = term.cluster.brokers
    gone = {id_ for id_, broker in known.items() if id_ not in found or found[id_].epoch != broker.epoch}
    came = {id_ for id_, broker in found.items() if id_ not in known or known[id_].epoch != broker.epoch}
    if not gone and not came:
        return came
    for id_ in sorted(gone):
        term.report("broker.gone", broker=id_, epoch=known[id_].epoch)
        term.effects.append(DropChannels(id_))
    adopt(term, found)
    for id_ in sorted(came):
        term.report("broker.registered", broker=id_, epoch=found[id_].epoch, clean=found[id_].registration.clean_epoch)
    affected = yield from on_brokers(term, gone | came)
    slices = Slices()
    for chunk in chunks(affected):
        yield from slices.count(len(chunk) // ROLES_A_COUNT)
        for partition in chunk:
            partition.offline -= gone | came
        term.touch(chunk)
    yield from elect_where_due(term, logs, affected, "brokers changed")
    for id_ in came:
        yield from push_all_roles(term, affected, only=id_)
    return came


def on_brokers(term: ControllerTerm, brokers: set[int]) -> Steps[list[Partition]]:
    """The partitions with a replica on any of these brokers."""
    found: list[Partition] = []
    slices = Slices()
    for chunk in chunks(list(term.cluster.partitions())):
        yield from slices.count(len(chunk) // ROLES_A_COUNT)
        found += [partition for partition in chunk if not brokers.isdisjoint(partition.replicas)]
    return found


def push_all_roles(term: ControllerTerm, partitions: Sequence[Partition], *, only: int | None = None) -> Steps[None]:
    """`Pushes.push_roles` of so many partitions as a broker may have."""
    slices = Slices()
    for chunk in chunks(partitions):
        yield from slices.count(len(chunk) // ROLES_A_COUNT)
        term.pushes.push_roles(chunk, only=only)


def notice_log_folders(term: ControllerTerm) -> Steps[None]:
    """A broker reports that a log folder failed, or has room again, but not which replicas are affected: push all its
    roles again; it answers KAFKA_STORAGE_ERROR for those that it lost."""
    (names,) = yield [Children(tree.LOG_DIR_EVENTS)]
    paths = [f"{tree.LOG_DIR_EVENTS}/{name}" for name in names]
    nodes = yield [Read(path) for path in paths]
    read = {path: node for path, node in zip(paths, nodes, strict=True) if node is not None}
    affected_brokers: set[int] = set()
    for node in read.values():
        with suppress(*tree.UNREADABLE):
            affected_brokers.add(tree.parse_log_dir_event(node.data))
    for broker in sorted(affected_brokers):
        yield from push_all_roles(term, (yield from on_brokers(term, {broker})), only=broker)
    yield [Delete(path) for path in read]


def lose_replicas(term: ControllerTerm, logs: LogEnds, broker: LiveBroker, partitions: list[Partition]) -> Steps[None]:
    """These replicas of a live broker failed with their log folder."""
    lost = _of_this_life(term, broker, partitions)
    if not lost:
        return
    for partition in lost:
        partition.offline |= {broker.id}
    term.touch(lost)
    term.report("replicas.offline", "warning", broker=broker.id, count=len(lost))
    yield from elect_where_due(term, logs, lost, "log folder failed")


def find_replicas(term: ControllerTerm, logs: LogEnds, broker: LiveBroker, partitions: list[Partition]) -> Steps[None]:
    """Their log folder was full when they were to be created, and has room again."""
    found = [partition for partition in _of_this_life(term, broker, partitions) if broker.id in partition.offline]
    if not found:
        return
    for partition in found:
        partition.offline -= {broker.id}
    term.touch(found)
    term.report("replicas.online", broker=broker.id, count=len(found))
    yield from elect_where_due(term, logs, found, "log folder has room")


def _of_this_life(term: ControllerTerm, broker: LiveBroker, partitions: list[Partition]) -> list[Partition]:
    """None if the broker has died or registered anew since its report: the next life opens its folders again."""
    live = term.cluster.brokers.get(broker.id)
    return term.cluster.current(partitions) if live is not None and live.epoch == broker.epoch else []


def shut_down(
    term: ControllerTerm, logs: LogEnds, request: ControlledShutdownRequest
) -> Steps[ControlledShutdownResponse]:
    """Move leaderships and ISR memberships away from a broker that is about to stop. A partition that no other replica
    can lead has no leader until the broker is back, so that it may stop at once."""
    lives = term.cluster.lives
    life = lives.get(request.broker_id)
    if life is None:
        return ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
    if request.broker_epoch not in (-1, life.epoch):
        return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    if not life.leaving:
        lives[request.broker_id] = life._replace(leaving=True)
        term.report("broker.leaving", broker=request.broker_id, epoch=life.epoch)
    held = yield from on_brokers(term, {request.broker_id})
    yield from elect_where_due(term, logs, held, "controlled shutdown")
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=partition.topic.name, partition_index=partition.index)
            for partition in held
            if partition.state.leader == request.broker_id and len(partition.replicas) > 1
        ]
    )


def unregister(
    term: ControllerTerm, deletions: Deletions, request: UnregisterBrokerRequest
) -> Steps[UnregisterBrokerResponse]:
    broker, entity = request.broker_id, f"brokers/{request.broker_id}"
    if broker in term.cluster.brokers:
        message = f"Broker {broker} is alive; stop it first."
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    if not any(_traces(term, deletions, broker)):
        message = f"Broker ID {broker} is not currently registered"
        return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
    if entity in term.cluster.config_versions:
        yield [Delete(tree.broker_config_path(str(broker)), term.cluster.config_versions[entity])]
        term.cluster.configs.pop(entity, None)
        del term.cluster.config_versions[entity]
    deletions.give_up(broker)
    term.report("broker.unregistered", broker=broker)
    return UnregisterBrokerResponse(error_message=None)


def _traces(term: ControllerTerm, deletions: Deletions, broker: int) -> Iterator[bool]:
    """Traces that such a broker existed."""
    yield f"brokers/{broker}" in term.cluster.config_versions
    for topic in term.cluster.topics.values():
        yield any(broker in replicas for replicas in topic.assignment.replicas.values())
    yield any(broker in replicas for replicas in deletions.remaining.values())
