"""Rules about the metadata store, the controller and topics."""

from collections.abc import Iterator

from tidelog.errors import ErrorCode
from tidelog.explain.core.broker_rules import REPAIR_QUORUM, has_active_controller, store_trouble
from tidelog.explain.core.evidence import Evidence, VoterLag
from tidelog.explain.core.finding import CLUSTER, Advice, Finding, Severity, Subject, broker_list, duration
from tidelog.explain.core.replica_state import start, why_silent
from tidelog.model import NO_LEADER

VOTER_LAG_MS = 5_000
"""How long a voter may be behind: ten of its fetches."""
DELETION_MS = 60_000
"""How long a deletion may take before it counts as stuck."""


def cluster_findings(evidence: Evidence) -> Iterator[Finding]:
    lost = list(_lost_majority(evidence))
    yield from lost or (*_store(evidence), *_no_controller(evidence))
    yield from _voters_behind(evidence)


def _store(evidence: Evidence) -> Iterator[Finding]:
    troubles = {seen.id: store_trouble(seen) for seen in evidence.brokers.values() if "store" in seen.facts}
    if not troubles or not all(troubles.values()):
        return  # `broker_rules` reports a store that some brokers reach
    says = "No broker reaches the metadata store: leaders cannot be elected, and nothing can be changed."
    because = [f"Broker {broker}: {trouble}." for broker, trouble in sorted(troubles.items())]
    helps = [Advice("Start the metadata store (metadata.store of the brokers), or repair the network to it.")]
    if evidence.voters:
        helps = [REPAIR_QUORUM]
    yield Finding("error", "cluster.store-silent", CLUSTER, says, because, helps)


def _lost_majority(evidence: Evidence) -> Iterator[Finding]:
    fetching = {evidence.quorum_leader, *(lag.voter for lag in evidence.voter_lags if not _is_behind(lag))}
    dead = [voter for voter in evidence.voters if not evidence.is_alive(voter) and voter not in fetching]
    alive, needed = len(evidence.voters) - len(dead), len(evidence.voters) // 2 + 1
    if not evidence.voters or alive >= needed:
        return
    says = (
        f"The metadata quorum has no majority: {alive} of its {len(evidence.voters)} voters answer. "
        "Leaders cannot be elected, and nothing can be changed."
    )
    because = [why_silent(evidence, voter) for voter in dead]
    helps = [Advice(f"Start {needed - alive} of these: {broker_list(dead)}. If they stop again, their logs say why.")]
    yield Finding("error", "cluster.quorum-without-majority", CLUSTER, says, because, helps)


def _voters_behind(evidence: Evidence) -> Iterator[Finding]:
    for lag in evidence.voter_lags:
        if not _is_behind(lag):
            continue
        voter, records, behind_ms = lag
        since = f" for {duration(behind_ms)}" if behind_ms is not None else ""
        says = f"Voter {voter} of the metadata quorum is behind{since}: it does not help to make a majority."
        because = [f"It lacks {records} records of the metadata log."]
        helps = [Advice(f"Check the network and the disk of node {voter}.")]
        if voter in evidence.brokers and not evidence.is_alive(voter):
            because, helps = [why_silent(evidence, voter)], [start(evidence, voter)]
        helps.append(Advice("To watch it:", "quorum describe --replication"))
        yield Finding("warning", "cluster.voter-behind", CLUSTER, says, because, helps)


def _is_behind(lag: VoterLag) -> bool:
    return lag.behind_ms is None or lag.behind_ms >= VOTER_LAG_MS


def _no_controller(evidence: Evidence) -> Iterator[Finding]:
    """Metadata always names a broker, since any broker accepts requests for the controller: reports show who leads, and
    a request that only the controller answers shows it where there are none."""
    reports = [seen.facts["controller"] for seen in evidence.brokers.values() if "controller" in seen.facts]
    elected = evidence.last_event("controller.elected")
    because = [] if elected is None else [f"The last controller was broker {elected.broker}."]
    look = "Look for store.unreachable in the brokers' logs: at least one broker must reach the metadata store."
    helps = [REPAIR_QUORUM if evidence.voters else Advice(look)]
    if evidence.controller == NO_LEADER or not has_active_controller(evidence):
        says = "There is no controller: leaders cannot be elected, and topics cannot be created."
        yield Finding("error", "cluster.no-controller", CLUSTER, says, because, helps)
    elif not reports and evidence.controller_error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER):
        says = "The controller does not answer: leaders cannot be elected, and topics cannot be created."
        because = [f"A request that only the controller can answer came to {evidence.controller_error.name}."]
        helps = [Advice("Start the controllers, or repair the network between them.")]
        yield Finding("error", "cluster.no-controller", CLUSTER, says, because, helps)


def topic_findings(evidence: Evidence, topic: str) -> Iterator[Finding]:
    """Findings about a topic itself: whether it is being deleted or is unknown, and a throttle that was left."""
    if topic in evidence.deleting:
        yield deletion_finding(evidence, topic)
        return
    if not any(evidence.of_topic(topic)):
        yield _unknown(evidence, topic)
    yield from throttle_findings(evidence, topic)


def throttle_findings(evidence: Evidence, topic: str) -> Iterator[Finding]:
    options = evidence.throttled.get(topic, {})
    if not options or any(name.topic == topic for name in evidence.moves):
        return
    says = "Its replication is throttled, but none of its partitions moves."
    because = [f"{name}={value}" for name, value in sorted(options.items())]
    delete = f"configs --alter --entity-type topics --entity-name {topic} --delete-config {','.join(sorted(options))}"
    helps = [Advice("Remove the throttle:", delete)]
    yield Finding("warning", "topic.throttle-left", Subject("topic", topic), says, because, helps)


def deletion_finding(evidence: Evidence, topic: str) -> Finding:
    """The finding about a topic that is marked for deletion but still exists."""
    marked = evidence.last_event("topic.deleting", topic=topic)
    since = f" for {duration(max(0, evidence.now_ms - marked.wall_ms))}" if marked else ""
    says = f"It has been waiting for deletion{since}; its name cannot be reused until all replicas are deleted."
    because, helps = [], []
    waiting = list(evidence.deleting[topic])
    dead = [broker for broker in waiting if not evidence.is_alive(broker)]
    if dead:
        because.append(
            f"{broker_list(dead).capitalize()} held replicas and {'is' if len(dead) == 1 else 'are'} down or cut off."
        )
        helps.append(Advice(f"Start {broker_list(dead)}; the deletion then resumes by itself."))
        helps += [
            Advice("If it is lost for good, the deletion does without it:", f"cluster unregister --id {broker}")
            for broker in dead
        ]
    for broker in waiting:
        for folder in evidence.brokers[broker].folders if broker in evidence.brokers else ():
            if folder.trouble:
                because.append(f"Broker {broker} cannot delete replicas in {folder.path}, which is offline.")
                helps.append(Advice(f"Repair {folder.path}, and restart broker {broker}."))
    moving = [str(name) for name in sorted(evidence.moves) if name.topic == topic]
    if moving:
        because.append(f"A reassignment of {', '.join(moving)} is in progress, and the deletion waits for it.")
        helps.append(Advice("Wait, or cancel it. To see it:", "reassign-partitions --list"))
    subject = Subject("topic", topic)
    is_late = marked is not None and evidence.now_ms - marked.wall_ms > DELETION_MS
    severity: Severity = "warning" if because or is_late else "note"
    if not because:
        have = "has" if len(waiting) == 1 else "have"
        brokers = f"{broker_list(waiting).capitalize()} {have} not confirmed it yet."
        because.append(brokers if waiting else "It is in progress.")
    return Finding(severity, "topic.deletion-waits", subject, says, because, helps)


def _unknown(evidence: Evidence, topic: str) -> Finding:
    gone = evidence.last_event("topic.deleted", topic=topic)
    because = [f"It was deleted {duration(max(0, evidence.now_ms - gone.wall_ms))} ago."] if gone else []
    helps = [Advice("Create it:", f"topics --create --topic {topic}")]
    return Finding("error", "topic.unknown", Subject("topic", topic), "The topic does not exist.", because, helps)
