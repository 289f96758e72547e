"""UnregisterBroker (64): a broker that is dead and will not come back.

A registration ends with its broker here, so what is left of a dead one is what waits for it: deletions of topics of
which it held replicas, and its options. Its replicas of topics that live stay assigned to it until they are moved, and
where it alone may hold what was committed, nobody is elected for that.
"""

from collections.abc import Iterator

from tidelog.controller import tree
from tidelog.controller.commands.deletion import Deletions
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.errors import ErrorCode
from tidelog.ports import Delete
from tidelog.wire.messages.cluster.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


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
    term.tell("broker.unregistered", broker=broker)
    return UnregisterBrokerResponse(error_message=None)


def _traces(term: ControllerTerm, deletions: Deletions, broker: int) -> Iterator[bool]:
    """Whether anything tells that there was such a broker."""
    yield f"brokers/{broker}" in term.cluster.config_versions
    for topic in term.cluster.topics.values():
        yield any(broker in replicas for replicas in topic.assignment.replicas.values())
    yield any(broker in replicas for replicas in deletions.remaining.values())
