"""Nodes below `/admin` by which operators of a ZooKeeper tree ask for something without asking a broker.

`/admin/preferred_replica_election` names partitions whose first replicas are to lead, as Kafka's tool of that name
wrote it; it goes when that is done. A node `/admin/delete_topics/T` asks for the deletion of T. The third, of
reassignments, is in `granting`.
"""

from collections.abc import Mapping, Sequence

from tidelog.controller import tree
from tidelog.controller.commands.deletion import Deletions
from tidelog.controller.commands.elections import PREFERRED, LogEnds, elect_on_request
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Steps
from tidelog.model import id_text
from tidelog.ports import Children, Delete, Node, Read
from tidelog.wire.messages.topics.elect_leaders import ElectLeadersRequest, TopicPartitions


def elect_as_written(term: ControllerTerm, logs: LogEnds) -> Steps[None]:
    """Elect what the node names, as far as that can be; a node that is not of Kafka's form goes, too."""
    (node,) = yield [Read(tree.PREFERRED_ELECTION)]
    if not isinstance(node, Node):
        return
    topics: Mapping[str, Sequence[int]] = {}
    try:
        topics = tree.parse_preferred_election(node.data)
    except (ValueError, TypeError, KeyError) as error:
        term.tell("election.unreadable", "warning", reason=f"{type(error).__name__}: {error}")
    wanted = [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in topics.items()]
    yield from elect_on_request(term, logs, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted))
    yield [Delete(tree.PREFERRED_ELECTION, node.version)]


def delete_as_written(term: ControllerTerm, deletions: Deletions) -> Steps[None]:
    """Begin what an operator marked for deletion; marks of topics that are not there, or where `delete.topic.enable`
    forbids it, go. Marks that this controller made are known."""
    (marks,) = yield [Children(tree.DELETE_TOPICS)]
    void: list[Delete] = []
    for name in marks:
        topic = term.cluster.topics.get(name)
        if topic is not None and topic.marked:
            continue
        if topic is None or not term.config.delete_topic_enable:
            void.append(Delete(tree.delete_path(name)))
            continue
        term.tell("topic.deleting", topic=topic.name, topic_id=id_text(topic.id))
        deletions.begin(term, topic)
    yield void
