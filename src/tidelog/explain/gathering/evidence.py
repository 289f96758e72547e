"""The evidence about a cluster: two looks at every broker, and what its configuration and coordinators say.

What may be passing (an old view, a leader that does not answer as one) is looked at again until it is gone or has
lasted for `patience_ms`. A broker that does not answer the second look counts as down.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from tidelog.client.results import code_of
from tidelog.config.alter import BROKER, TOPIC
from tidelog.effects import CONTROLLER
from tidelog.errors import ApiError, ErrorCode
from tidelog.explain.core.broker_rules import RATES
from tidelog.explain.core.evidence import BrokerEvidence, Evidence, LogDir, OngoingReassignment, PartitionEvidence
from tidelog.explain.gathering.asking import Answer, Ask, Pause, Steps, ask_all, refused, top_error
from tidelog.explain.gathering.look import Look, Wanted, addresses_in, metadata_request, shown_by, take_look
from tidelog.explain.gathering.quorum import add_quorum
from tidelog.explain.gathering.reports import add_reports
from tidelog.explain.gathering.transactions import add_transactions
from tidelog.model import TopicPartition
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.topics.reassignments import ListPartitionReassignmentsRequest

STEP_MS = 500
"""How long to wait before another look at what may be passing."""
NO_ROOM_BYTES = 1 << 20
"""Usable bytes below which a disk counts as full, of brokers that do not report it."""
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
TOPIC_OPTIONS = ("min.insync.replicas", "unclean.leader.election.enable", *THROTTLED)
ANY_SOURCE, DYNAMIC = range(128), (2, 3)
"""Sources of options in DescribeConfigs; dynamic ones are those of a broker or the defaults of all."""
UNLIMITED = str(2**63 - 1)
MAX_UNANSWERED = 20
MAX_TRIES = 3


def gather(
    wanted: Wanted, *, watch_ms: int, patience_ms: int, topics: Sequence[str] | None = None
) -> Steps[tuple[Evidence, Look]]:
    """The evidence on all brokers and on the topics that `wanted` selects, and the last look. ApiError if no broker
    answers. `topics` are those to ask for at each look, None for all."""
    response = yield from _any_metadata()
    first = yield from take_look(addresses_in(response), wanted, topics)
    evidence = Evidence(first.wall_ms, response.cluster_id or "", response.controller_id, {}, {})
    _take_brokers(evidence, first, addresses_in(response))
    _take_partitions(evidence, first if first.shown else Look(shown={-1: shown_by(response, wanted)}))
    evidence.events = yield from add_reports([seen for seen in evidence.brokers.values() if seen.address])
    yield from _add_settings(evidence)
    yield Pause(watch_ms)
    last = yield from _look_again(evidence, first, wanted, topics, patience_ms)
    _take_sizes(evidence, first, last)
    yield from add_quorum(evidence)
    yield from add_transactions(evidence)
    for broker, seen in evidence.brokers.items():
        if seen.answers:
            evidence.unanswered += refused("BrokerReport", broker, seen.report_error)
    evidence.unanswered = [*dict.fromkeys([*evidence.unanswered, *last.unanswered])][:MAX_UNANSWERED]
    return evidence, last


def _any_metadata() -> Steps[Any]:
    """The metadata of any broker. One that stands still takes the time of a whole request: then another is asked."""
    answer = Answer()
    for _ in range(MAX_TRIES):
        (answer,) = yield [Ask(metadata_request(None))]
        if answer.response is not None and not answer.response.error_code:
            return answer.response
    raise ApiError(top_error(answer), "no broker answered")


def _take_brokers(evidence: Evidence, look: Look, registered: Mapping[int, str]) -> None:
    for broker, address in sorted({**registered, **look.addresses}.items()):
        seen = evidence.brokers.setdefault(broker, BrokerEvidence(broker))
        seen.address = address
        seen.answers, seen.error = broker in look.shown, look.errors.get(broker, ErrorCode.NONE)


def _take_partitions(evidence: Evidence, look: Look) -> None:
    """Add what is new, and update what is known. Brokers that only assignments name are added, too."""
    for name, (view, replicas) in look.newest().items():
        seen = evidence.partitions.get(name)
        if seen is None:
            seen = evidence.partitions[name] = PartitionEvidence(name, view.leader, view.epoch, replicas, view.isr)
        seen.leader, seen.epoch, seen.isr, seen.replicas = view.leader, view.epoch, view.isr, replicas
        for broker in replicas:
            evidence.brokers.setdefault(broker, BrokerEvidence(broker))


def _add_settings(evidence: Evidence) -> Steps[None]:
    """Reassignments, which only the controller knows; options of topics and brokers; deletions."""
    topics = sorted({name.topic for name in evidence.partitions})
    asks: dict[Any, Ask] = {"moves": Ask(ListPartitionReassignmentsRequest(topics=None), CONTROLLER)}
    if topics:
        asks["topics"] = Ask(_describe(TOPIC, topics, TOPIC_OPTIONS))
    asks |= {
        broker: Ask(_describe(BROKER, [str(broker)], RATES), broker)
        for broker, seen in evidence.brokers.items()
        if seen.answers
    }
    answers = yield from ask_all(asks)
    _take_moves(evidence, answers["moves"])
    of_topics = answers.get("topics", Answer())
    _take_topic_options(evidence, _options(of_topics))
    evidence.unanswered += _undescribed(of_topics, "topic", "min.insync.replicas and throttles are not known")
    for partition in evidence.partitions.values():
        partition.elr = partition.last_known = ()
    refused: dict[int, str] = {}
    for broker, seen in evidence.brokers.items():
        of_broker = answers.get(broker, Answer())
        evidence.unanswered += _undescribed(of_broker, "broker", "throttles are not known")
        found = _options(of_broker, DYNAMIC).get(str(broker), {})
        seen.options = {name: rate for name in RATES if (rate := found.get(name)) not in (None, "", UNLIMITED)}
        controller = seen.facts.get("controller", {})
        for name, (elr, last_known) in controller.get("eligible", {}).items():
            topic, _, index = name.rpartition("-")
            if (known := evidence.partitions.get(TopicPartition(topic, int(index)))) is not None:
                known.elr, known.last_known = elr, last_known
        deleting: Mapping[str, Sequence[int]] = controller.get("deletions", {})
        evidence.deleting = {**evidence.deleting, **deleting}
        refused |= {int(id_): reason for id_, reason in controller.get("refused", {}).items()}
    # A deletion may wait for a broker that no partition and no registration names; metadata has no refused ones.
    for broker in chain(*evidence.deleting.values(), refused):
        evidence.brokers.setdefault(broker, BrokerEvidence(broker)).refused = refused.get(broker, "")


def _describe(kind: int, names: Iterable[str], options: Sequence[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[*options])
            for name in names
        ]
    )


def _options(answer: Answer, sources: Container[int] = ANY_SOURCE) -> dict[str, dict[str, str | None]]:
    """The options of each resource that have one of these sources; none of those that could not be described."""
    results = answer.response.results if answer.response is not None else ()
    return {
        result.resource_name: {each.name: each.value for each in result.configs if each.config_source in sources}
        for result in results
        if not result.error_code
    }


def _undescribed(answer: Answer, kind: str, so: str) -> Iterator[str]:
    """Sentences about options that may not be read. A topic that is deleted meanwhile is no matter."""
    if answer.response is None and answer.error is not ErrorCode.NONE:
        yield f"Options of {kind}s could not be read ({answer.error.name}): {so}."
    for result in answer.response.results if answer.response is not None else ():
        error = code_of(result.error_code)
        if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            yield f"The options of {kind} {result.resource_name} may not be read ({error.name}): {so}."


def _take_moves(evidence: Evidence, answer: Answer) -> None:
    error = top_error(answer)
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        evidence.unanswered.append(f"Reassignments may not be listed ({error.name}).")
    elif error is not ErrorCode.UNSUPPORTED_VERSION:
        evidence.controller_error = error
    evidence.moves = {
        TopicPartition(topic.name, each.partition_index): OngoingReassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in (answer.response.topics if answer.response is not None else ())
        for each in topic.partitions
    }


def _take_topic_options(evidence: Evidence, options: Mapping[str, Mapping[str, str | None]]) -> None:
    for name, seen in evidence.partitions.items():
        given = options.get(name.topic, {})
        seen.min_insync = int(given.get("min.insync.replicas") or 1)
        seen.unclean = given.get("unclean.leader.election.enable") == "true"
    evidence.throttled = {
        topic: throttles
        for topic, given in options.items()
        if (throttles := {option: value for option in THROTTLED if (value := given.get(option))})
    }


def _look_again(
    evidence: Evidence, first: Look, wanted: Wanted, topics: Sequence[str] | None, patience_ms: int
) -> Steps[Look]:
    """The last look. What the looks agree on is taken for lasting."""
    registered = [broker for broker, seen in evidence.brokers.items() if seen.address]
    last = yield from take_look(registered, wanted, topics)
    lasting, waited = _suspicions(first) & _suspicions(last), 0
    while lasting and waited < patience_ms:
        yield Pause(STEP_MS)
        waited += STEP_MS
        last = yield from take_look(registered, wanted, topics)
        lasting &= _suspicions(last)
    _take_answers(evidence, first, last)
    _take_partitions(evidence, last)
    evidence.now_ms = last.wall_ms or evidence.now_ms
    for kind, subject, detail in lasting:
        if kind == "stale" and (view := last.stale().get((subject, detail[0]))) is not None:
            seen = evidence.brokers[subject]
            seen.views = {**seen.views, detail[0]: view}
        elif kind == "leader":
            evidence.partitions[subject].leader_error = detail
        elif kind == "loading":
            evidence.brokers[subject].loading = (*evidence.brokers[subject].loading, detail)
    return last


def _suspicions(look: Look) -> set[tuple[str, Any, Any]]:
    """What may pass by itself: (kind, subject, detail)."""
    stale = {("stale", broker, (name, view.epoch)) for (broker, name), view in look.stale().items()}
    leaders = {("leader", name, error) for name, error in look.leader_errors.items()}
    return stale | leaders | {("loading", broker, kind) for broker, kinds in look.loading.items() for kind in kinds}


def _take_answers(evidence: Evidence, first: Look, last: Look) -> None:
    """A broker that was slow once still answers; one that refuses connections now is down."""
    for broker, address in last.addresses.items():
        evidence.brokers.setdefault(broker, BrokerEvidence(broker)).address = address
    for broker, seen in evidence.brokers.items():
        error = last.errors.get(broker, ErrorCode.NONE)
        was_slow = error is ErrorCode.REQUEST_TIMED_OUT and broker in first.shown
        seen.answers, seen.error = broker in last.shown or was_slow, error
        if last.addresses and broker not in last.addresses:
            seen.address = ""  # it is not registered any more


def _take_sizes(evidence: Evidence, first: Look, last: Look) -> None:
    """Sizes and rates of replicas and log directories."""
    passed_s = max(1, last.wall_ms - first.wall_ms) / 1000
    for broker, after in last.folders.items():
        old, new = _sizes(first.folders.get(broker, ())), _sizes(after)
        for (path, name), size in new.items():
            seen = evidence.partitions.get(name)
            if seen is not None:
                seen.sizes[broker], seen.folders[broker] = size, path
                seen.rates[broker] = max(0.0, size - old.get((path, name), size)) / passed_s
        evidence.brokers[broker].folders = list(_log_dirs(evidence.brokers[broker], old, new, after, passed_s))


def _sizes(folders: Iterable[Any]) -> dict[tuple[str, TopicPartition], int]:
    return {
        (folder.log_dir, TopicPartition(topic.name, each.partition_index)): each.partition_size
        for folder in folders
        for topic in folder.topics
        for each in topic.partitions
        if not each.is_future_key
    }


def _log_dirs(
    seen: BrokerEvidence,
    old: Mapping[tuple[str, TopicPartition], int],
    new: Mapping[tuple[str, TopicPartition], int],
    folders: Iterable[Any],
    passed_s: float,
) -> Iterator[LogDir]:
    full = seen.facts.get("full")
    for folder in folders:
        path, usable = folder.log_dir, folder.usable_bytes
        trouble = code_of(folder.error_code).name if folder.error_code else None
        growth = sum(size - old.get(key, size) for key, size in new.items() if key[0] == path) / passed_s
        is_full = path in full if full is not None else 0 <= usable < NO_ROOM_BYTES
        yield LogDir(path, trouble, folder.total_bytes, usable, max(0.0, growth), is_full and not trouble)
