""" "Play as a story": the last election of the cluster as a playback for the lab's page.

A step for each event of the partition around its last election, with what is known of every replica by then. Brokers of
Tidelog report their log ends, high watermarks and truncations; of Apache Kafka the console has seen leaders and in-sync
sets only, and the offsets are those of now.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tidelog.cli.explain.partition_timeline import partition_events
from tidelog.console.console import Console, Query, Refused
from tidelog.console.diagnosis import BrokerEvent, event_sentence
from tidelog.console.observer import Position
from tidelog.lab.playback import Playback, RecordView, ReplicaView, Step, Verdict, to_json
from tidelog.model import INTERNAL_TOPICS, TopicPartition

BEFORE_MS = 30_000
"""How long before the last election the story begins."""
TOGETHER_MS = 2_000
MOST_STEPS = 40
SHOWN = 9
"""How many offsets before the ends of the logs are drawn."""


@dataclass(slots=True)
class _Replica:
    """What is known of a replica as the story goes on; `end` is None until a broker has reported it."""

    broker: int
    alive: bool = True
    end: int | None = None
    high_watermark: int | None = None


@dataclass(slots=True)
class _Scene:
    """The partition at one moment."""

    replicas: dict[int, _Replica]
    leader: int = -1
    epoch: int = -1
    isr: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, its first offset)."""


async def last_election(console: Console, query: Query) -> Any:
    """The playback of the last election, of a partition or of the whole cluster."""
    elections = [event for event in console.observer.events if event.kind == "partition.elected"]
    if query.has("topic"):
        topic, number = query.text("topic"), query.number("partition", least=0)
        elections = [e for e in elections if (e.fields.get("topic"), e.fields.get("partition")) == (topic, number)]
    real = [event for event in elections if event.fields.get("previous_leader", -1) >= 0]
    if not real:
        raise Refused(HTTPStatus.NOT_FOUND, "No election is known: brokers keep their last events in memory.")
    event = _most_telling(console, real)
    name = TopicPartition(str(event.fields["topic"]), int(event.fields["partition"]))
    partition = console.observer.topology.partition(name) if console.observer.topology is not None else None
    if partition is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Partition {name} does not exist any more.")
    events, _ = await console.blocking(partition_events, console.bridged, str(name))
    shown = events or [each for each in console.observer.events if _is_about(each, name)]
    positions = await console.observer.positions({broker: [name] for broker in partition.replica_nodes})
    found = {broker: own[name] for broker, own in positions.items() if name in own}
    return [to_json(playback(name, partition.replica_nodes, shown, found, event.wall_ms))]


def _most_telling(console: Console, elections: Sequence[BrokerEvent]) -> BrokerEvent:
    """Of the elections that happened together last, as those of a broker that died, one of a topic with records."""
    last = [event for event in elections if event.wall_ms >= elections[-1].wall_ms - TOGETHER_MS]

    def weight(event: BrokerEvent) -> tuple[bool, int]:
        topic = str(event.fields["topic"])
        end = console.observer.ends.get(TopicPartition(topic, int(event.fields["partition"])), 0)
        return topic not in INTERNAL_TOPICS, end

    return max(last, key=weight)


def _is_about(event: BrokerEvent, name: TopicPartition) -> bool:
    about = event.fields.get("topic"), event.fields.get("partition")
    return about == name or event.kind.startswith("broker.")


def playback(
    name: TopicPartition,
    replicas: Sequence[int],
    events: Sequence[BrokerEvent],
    now: Mapping[int, Position],
    elected_ms: int,
) -> Playback:
    """The events around the election, then how it is now. Offsets are drawn from where the logs may differ."""
    chosen = [event for event in events if event.wall_ms >= elected_ms - BEFORE_MS][:MOST_STEPS]
    scene = _Scene({broker: _Replica(broker) for broker in replicas})
    _begin(scene, chosen)
    base = max(0, _least_offset(chosen, now) - SHOWN)
    began = chosen[0].wall_ms if chosen else elected_ms
    steps: list[Step] = []
    for event in chosen:
        _apply(scene, event)
        steps.append(_step(scene, len(steps) + 1, event.wall_ms - began, _says(event), event_sentence(event), base))
    for broker, replica in scene.replicas.items():
        replica.alive = broker in now
        if broker in now:
            replica.end, replica.high_watermark = now[broker]
    ended = max(0, time.time_ns() // 1_000_000 - began)
    steps.append(_step(scene, len(steps) + 1, ended, "Now.", "As the brokers answer at this moment.", base))
    agree = len({position.end for position in now.values()}) <= 1
    word = "All replicas have the same log end." if agree else "The replicas have different log ends now."
    verdict = Verdict(agree, word=word)
    knobs = {"partition": str(name)}
    title, source = f"The last election of {name}", "From the event logs of the brokers."
    return Playback("last-election", title, source, knobs, steps, verdict, base)


def _begin(scene: _Scene, events: Iterable[BrokerEvent]) -> None:
    """How it was before the first event, as far as the events show it."""
    for event in events:
        if event.kind in ("partition.elected", "isr.change"):
            scene.isr = list(event.fields.get("previous_isr", ()))
            scene.leader = event.fields.get("previous_leader", event.fields.get("leader", -1))
            scene.epoch = int(event.fields.get("leader_epoch", 0)) - (event.kind == "partition.elected")
            return


def _least_offset(events: Iterable[BrokerEvent], now: Mapping[int, Position]) -> int:
    known = [int(event.fields[name]) for event in events for name in ("end", "offset") if name in event.fields]
    known += [position.end for position in now.values()]
    return min(known, default=0)


def _says(event: BrokerEvent) -> str:
    who = "The controller" if event.kind.startswith(("partition.elected", "isr.change")) else f"Broker {event.broker}"
    return f"{who}: {event.kind.replace('.', ' ')}" if event.broker >= 0 else event.kind.replace(".", " ")


def _elected(scene: _Scene, fields: Mapping[str, Any], _broker: int) -> None:
    scene.leader, scene.epoch = int(fields["leader"]), int(fields["leader_epoch"])
    scene.isr = list(fields["isr"])


def _changed(scene: _Scene, fields: Mapping[str, Any], _broker: int) -> None:
    scene.isr = list(fields["isr"])


def _placed(scene: _Scene, fields: Mapping[str, Any], broker: int) -> None:
    """A broker reports its offsets when it begins to lead or to follow."""
    replica = scene.replicas.get(broker)
    if replica is not None:
        replica.alive, replica.end, replica.high_watermark = True, int(fields["end"]), int(fields["high_watermark"])
        if replica.broker == scene.leader and (not scene.epochs or scene.epochs[-1][0] < int(fields["epoch"])):
            scene.epochs.append((int(fields["epoch"]), replica.end))


def _truncated(scene: _Scene, fields: Mapping[str, Any], broker: int) -> None:
    replica = scene.replicas.get(broker)
    if replica is not None:
        replica.end = int(fields["offset"])


def _gone(scene: _Scene, fields: Mapping[str, Any], _broker: int) -> None:
    if fields.get("broker") in scene.replicas:
        scene.replicas[fields["broker"]].alive = False


def _come(scene: _Scene, fields: Mapping[str, Any], _broker: int) -> None:
    if fields.get("broker") in scene.replicas:
        scene.replicas[fields["broker"]].alive = True


EFFECTS: dict[str, Callable[[_Scene, Mapping[str, Any], int], None]] = {
    "partition.elected": _elected,
    "isr.change": _changed,
    "partition.leader": _placed,
    "partition.follower": _placed,
    "log.truncate": _truncated,
    "broker.gone": _gone,
    "broker.leaving": _gone,
    "broker.registered": _come,
}


def _apply(scene: _Scene, event: BrokerEvent) -> None:
    effect = EFFECTS.get(event.kind)
    if effect is not None:
        effect(scene, event.fields, event.broker)


def _step(scene: _Scene, number: int, millis: float, says: str, why: str, base: int) -> Step:
    return Step(number, millis, says, why, [_view(scene, each, base) for each in scene.replicas.values()])


def _view(scene: _Scene, replica: _Replica, base: int) -> ReplicaView:
    role = "leader" if replica.broker == scene.leader else "follower"
    end = base if replica.end is None else max(base, replica.end)
    mark = end if replica.high_watermark is None else max(base, min(replica.high_watermark, end))
    first = max(base, end - 2 * SHOWN)
    records = [RecordView(offset - base, _epoch_at(scene, offset), "", True) for offset in range(first, end)]
    isr = [f"broker-{broker}" for broker in scene.isr] if role == "leader" else []
    return ReplicaView(
        f"broker-{replica.broker}",
        replica.alive,
        role if replica.alive else "down",
        scene.epoch,
        first - base,
        end - base,
        mark - base,
        isr,
        records,
    )


def _epoch_at(scene: _Scene, offset: int) -> int:
    """The epoch of an offset, as far as elections show it."""
    found = [epoch for epoch, first in scene.epochs if first <= offset]
    return found[-1] if found else max(0, scene.epochs[0][0] - 1 if scene.epochs else scene.epoch)
