"""One look at a cluster: every broker is asked for what changes, at the same time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.explain.core.evidence import View
from tidelog.explain.gathering.asking import (
    LATEST,
    Answer,
    Ask,
    Steps,
    ask_all,
    by_leader,
    list_offsets,
    listed_offsets,
    refused,
    top_error,
)
from tidelog.model import TopicPartition
from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.transactions.transaction_admin import ListTransactionsRequest

COORDINATORS: dict[str, Callable[[], Any]] = {
    "groups": ListGroupsRequest,
    "transactions": lambda: ListTransactionsRequest(producer_id_filters=[-1]),
}
"""Requests that fail while a coordinator loads a partition. The filter fits no transaction: only the error counts."""

Wanted = Callable[[str], bool]
Shown = dict[TopicPartition, tuple[View, Sequence[int]]]
"""Partitions as one broker shows them, and their replicas."""


@dataclass(slots=True)
class Look:
    """What the brokers answered. `errors` are those of brokers that did not; `wall_ms` is about when."""

    wall_ms: int = 0
    errors: dict[int, ErrorCode] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    shown: dict[int, Shown] = field(default_factory=dict)
    folders: dict[int, list[DescribeLogDirsResult]] = field(default_factory=dict)
    loading: dict[int, list[str]] = field(default_factory=dict)
    groups: dict[int, list[Any]] = field(default_factory=dict)
    leader_errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    """What could not be asked about groups."""

    def newest(self) -> Shown:
        """Each partition as the broker with the highest leader epoch shows it; of several as its leader does."""
        found: Shown = {}
        for broker, shown in self.shown.items():
            for name, (view, replicas) in shown.items():
                known = found.get(name)
                newer = known is None or view.epoch > known[0].epoch
                if newer or (known is not None and view.epoch == known[0].epoch and view.leader == broker):
                    found[name] = (view, replicas)
        return found

    def stale(self) -> dict[tuple[int, TopicPartition], View]:
        """Views with a lower leader epoch than another broker's."""
        newest = self.newest()
        return {
            (broker, name): view
            for broker, shown in self.shown.items()
            for name, (view, _) in shown.items()
            if view.epoch < newest[name][0].epoch
        }


def take_look(brokers: Iterable[int], wanted: Wanted, topics: Sequence[str] | None) -> Steps[Look]:
    """`topics` are those to ask for, None for all. Brokers that others name are asked, too."""
    look, left = Look(), set(brokers)
    while left:
        asks: dict[tuple[int, str], Ask] = {}
        for broker in sorted(left):
            asks[broker, "metadata"] = Ask(metadata_request(topics), broker)
            asks[broker, "folders"] = Ask(DescribeLogDirsRequest(topics=None), broker)
            for kind, request in COORDINATORS.items():
                asks[broker, kind] = Ask(request(), broker)
        answers = yield from ask_all(asks)
        for broker in sorted(left):
            _add(look, broker, {kind: answers[each, kind] for each, kind in asks if each == broker}, wanted)
        left = set(look.addresses) - set(look.errors) - set(look.shown)
    yield from _ask_leaders(look)
    return look


def metadata_request(topics: Sequence[str] | None) -> MetadataRequest:
    """Never creates a topic."""
    named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


def shown_by(response: MetadataResponse, wanted: Wanted) -> Shown:
    return {
        TopicPartition(topic.name or "", each.partition_index): (
            View(each.leader_id, each.leader_epoch, tuple(each.isr_nodes)),
            tuple(each.replica_nodes),
        )
        for topic in response.topics
        if wanted(topic.name or "")
        for each in topic.partitions
    }


def addresses_in(response: MetadataResponse) -> dict[int, str]:
    return {each.node_id: f"{each.host}:{each.port}" for each in response.brokers}


def _add(look: Look, broker: int, answers: dict[str, Answer], wanted: Wanted) -> None:
    answer = answers["metadata"]
    if answer.response is None:
        look.errors[broker] = answer.error
        return
    look.wall_ms = max(look.wall_ms, answer.ended_ms)
    look.addresses.update(addresses_in(answer.response))
    look.shown[broker] = shown_by(answer.response, wanted)
    folders = answers["folders"]
    if folders.response is not None:
        look.folders[broker] = folders.response.results
    look.unanswered += refused("DescribeLogDirs", broker, top_error(folders))
    for kind in COORDINATORS:
        error = top_error(answers[kind])
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            look.loading.setdefault(broker, []).append(kind)
        elif kind == "groups":
            look.groups[broker] = answers[kind].response.groups if answers[kind].response is not None else []
            look.unlisted += refused("ListGroups", broker, error)


def _ask_leaders(look: Look) -> Steps[None]:
    """Ask each leader that answers for the ends of its partitions: it says whether it leads and can read them."""
    newest = look.newest()
    led = by_leader((name, view.leader) for name, (view, _) in newest.items())
    asks = {leader: Ask(list_offsets(led[leader], LATEST), leader) for leader in led if leader in look.shown}
    answers = yield from ask_all(asks)
    for name, (_, error) in listed_offsets(answers.values()).items():
        if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            look.unanswered.append(f"Offsets of {name} may not be read ({error.name}).")
        elif error is not ErrorCode.NONE:
            look.leader_errors[name] = error
