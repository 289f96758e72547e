"""The verdict on a story, from the bytes: acknowledged records that are gone, and offsets where replicas differ."""

from itertools import combinations

from tidelog.lab.play import ACKNOWLEDGED, Play, Sent
from tidelog.lab.playback import RecordView, ReplicaView, Verdict
from tidelog.lab.stage import Stage
from tidelog.lab.views import folder, records_on, replicas
from tidelog.model import TopicPartition

ALL_WELL = "Every acknowledged record is there, and all replicas agree."
NO_TOPIC = "There is no topic."
GONE = "The topic is gone, and with it all its replicas."
LEFT = "The topic is gone, but a folder of it is left on"


def verdict(play: Play) -> Verdict:
    """Return the verdict; of a deleted topic only what consumers and applications saw is judged."""
    sentences: list[str] = []
    lost_records: list[RecordView] = []
    apart: list[int] = []
    waiting: list[str] = []
    gone = not play.has_stage or play.stage.state(play.name) is None
    if gone:
        waiting.append(_gone_sentence(play) if play.has_topic else NO_TOPIC)
    else:
        lost_records = lost(play)
        sentences += [_lost_sentence(play, record) for record in lost_records]
        views = [view for view in replicas(play.stage, play.name) if view.alive]
        apart = differs(views)
        sentences += [apart_sentence(views, offset) for offset in apart]
        sentences += _twice(play)
        sentences += _unread(play)
        if not play.stage.leader(play.name):
            waiting.append(_waiting_sentence(play))
    sentences += [play.changed[offset] for offset in sorted(play.changed)]
    sentences += _application(play)
    well = not sentences
    return Verdict(well, lost_records, apart, ([ALL_WELL] if well and not gone else sentences) + waiting)


def _gone_sentence(play: Play) -> str:
    left = [view.broker for view in replicas(play.stage, play.name)]
    return f"{LEFT} {', '.join(left)}." if left else GONE


def lost(play: Play) -> list[RecordView]:
    """Return acknowledged records that the leader does not hold at their offset; without a leader,
    that no disk holds.
    """
    held = _held(play.stage, play.name)
    found: dict[tuple[int, str], RecordView] = {}
    for sent in play.sent:
        if sent.outcome == ACKNOWLEDGED and sent.offset >= 0 and (sent.offset, sent.label) not in held:
            found[sent.offset, sent.label] = RecordView(sent.offset, -1, sent.label, synced=False)
    return [found[key] for key in sorted(found)]


def _held(stage: Stage, name: TopicPartition) -> set[tuple[int, str]]:
    leader = stage.leader(name)
    brokers = [leader] if leader and stage.hosts[leader].up else stage.brokers
    return {
        (record.offset, record.label)
        for broker in brokers
        if folder(name) in stage.hosts[broker].disk.names
        for record in records_on(stage.hosts[broker].disk, name)
    }


def differs(views: list[ReplicaView]) -> list[int]:
    """Return the offsets at which two running replicas hold different records."""
    logs = [{record.offset: (record.epoch, record.label) for record in view.records} for view in views]
    return sorted({o for one, other in combinations(logs, 2) for o in one.keys() & other.keys() if one[o] != other[o]})


def _lost_sentence(play: Play, record: RecordView) -> str:
    sent = next(s for s in play.sent if s.label == record.label and s.offset == record.offset)
    return f"{record.label} was acknowledged at offset {record.offset} with acks={sent.acks}, and is gone."


def apart_sentence(views: list[ReplicaView], offset: int) -> str:
    held = [
        f"{view.broker} holds {record.label} of epoch {record.epoch}"
        for view in views
        for record in view.records
        if record.offset == offset
    ]
    return f"At offset {offset} {', '.join(held)}."


def _twice(play: Play) -> list[str]:
    """Report values that were produced once and are in the log more than once."""
    leader = play.stage.leader(play.name)
    if not leader or not play.stage.hosts[leader].up:
        return []
    found = [record.label for record in records_on(play.stage.hosts[leader].disk, play.name)]
    batches: dict[str, set[bytes]] = {}
    for sent in play.sent:
        batches.setdefault(sent.label, set()).add(sent.content)
    return [
        f"{value} was produced once and stands in the log {found.count(value)} times."
        for value, contents in batches.items()
        if found.count(value) > len(contents)
    ]


def _unread(play: Play) -> list[str]:
    """Report records that a consumer received and that the leader does not hold."""
    if not play.stage.leader(play.name):
        return []
    held = _held(play.stage, play.name)
    return [
        f"A consumer read {value} at offset {offset}; it is gone."
        for offset, value in sorted(play.read.items())
        if (offset, value) not in held and offset not in play.changed
    ]


def _waiting_sentence(play: Play) -> str:
    state = play.stage.state(play.name)
    members = [play.stage.names[member] for member in state.isr] if state is not None else []
    return f"Nobody leads: the partition waits for {' and '.join(members)}, who may hold what nobody else does."


def _application(play: Play) -> list[str]:
    """What the application carried out too often, or never."""
    done, meant = play.application.done, [sent.label for sent in _first(play.sent)]
    if not done and not play.application.position:
        return []
    sentences = [f"The application never carried out {value}." for value in meant if value not in done]
    twice = [value for value in dict.fromkeys(done) if done.count(value) > 1]
    return sentences + [f"The application carried out {value} {done.count(value)} times." for value in twice]


def _first(sent: list[Sent]) -> list[Sent]:
    return list({one.label: one for one in sent}.values())
