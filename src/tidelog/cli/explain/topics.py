"""Why a topic is not as it should be; above all why it does not go."""

from collections.abc import Iterator

from tidelog.cli.explain.evidence import Evidence
from tidelog.cli.explain.finding import Connected, Finding, numbered, span
from tidelog.cli.explain.partitions import partition_findings


def topic_findings(evidence: Evidence, topic: str, tidelog: Connected) -> Iterator[Finding]:
    """Of a topic that is there, or being deleted, or not known at all."""
    if topic in evidence.deleting:
        yield deletion(evidence, topic)
        return
    partitions = list(evidence.of_topic(topic))
    if not partitions:
        yield _unknown(evidence, topic, tidelog)
    for seen in partitions:
        yield from partition_findings(evidence, seen, tidelog)


def deletion(evidence: Evidence, topic: str) -> Finding:
    """A topic that is marked and still there."""
    about = f"topic {topic}"
    marked = evidence.last("topic.deleting", topic=topic)
    since = f" for {span(evidence.now_ms - marked.wall_ms)}" if marked else ""
    says = f"It has been waiting for its deletion{since}, and its name is taken until all replicas are gone."
    because, helps = [], []
    waiting = list(evidence.deleting[topic])
    dead = [broker for broker in waiting if not evidence.alive(broker)]
    if dead:
        because.append(f"{numbered(dead).capitalize()} held replicas and {'is' if len(dead) == 1 else 'are'} down.")
        helps.append(f"Start {numbered(dead)}: the deletion then goes on by itself.")
        helps.append(
            f"If that is for good: remove the folders {topic}-* there, then the node "
            f"/admin/delete_topics/{topic} and /controller with tidelog metadata rm."
        )
    for broker in waiting:
        for folder in evidence.brokers[broker].folders if broker in evidence.brokers else ():
            if folder.trouble:
                because.append(f"Broker {broker} cannot delete in {folder.path}, which is offline.")
                helps.append(f"Mend {folder.path}, and restart broker {broker}.")
    moving = [str(name) for name in sorted(evidence.moves) if name.topic == topic]
    if moving:
        because.append(f"A reassignment of {', '.join(moving)} runs, and a deletion waits for its end.")
        helps.append("Wait, or cancel it: tidelog reassign-partitions --cancel.")
    if not because:
        because.append(f"{numbered(waiting).capitalize()} is deleting now.")
    return Finding("warning", "topic.deletion-waits", about, says, because, helps)


def _unknown(evidence: Evidence, topic: str, tidelog: Connected) -> Finding:
    gone = evidence.last("topic.deleted", topic=topic)
    because = [f"It was deleted {span(evidence.now_ms - gone.wall_ms)} ago."] if gone else []
    helps = [f"Create it: {tidelog(f'topics --create --topic {topic}')}"]
    return Finding("error", "topic.unknown", f"topic {topic}", "There is no such topic.", because, helps)
