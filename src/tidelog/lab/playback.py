"""A story that was told: every step with every replica's log, and the verdict. Plain data, for the terminal, page and
notebook.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

NO_EPOCH = -1


@dataclass(slots=True)
class RecordView:
    """One record of a log. `label` is the value's short name (m1, m2, …); `synced`: it would survive a power loss."""

    offset: int
    epoch: int
    label: str
    synced: bool
    is_control: bool = False


@dataclass(slots=True)
class ReplicaView:
    """One broker's replica after a step, or one voter of the metadata quorum.

    `role`: "leader", "follower", "idle" (no role yet) or "down"; for a broker that is down, the log is what its disk
    holds, and `leader_epoch` and `hw` are the last it knew. `isr` and `remote` (broker → LEO as the leader knows it, -1
    if it has not fetched in this epoch) belong to a leader and are empty otherwise. `epochs` is the epoch cache.

    A voter's `role` is its state ("prospective", "candidate", …) or "observer"; `voters` are those that its log names,
    and `voted` is whom it voted for in this epoch.
    """

    broker: str
    alive: bool
    role: str
    leader_epoch: int
    log_start: int
    leo: int
    hw: int
    isr: list[str] = field(default_factory=list)
    records: list[RecordView] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    remote: dict[str, int] = field(default_factory=dict)
    voters: list[str] = field(default_factory=list)
    voted: str = ""


@dataclass(slots=True)
class Message:
    """What one party sent to another in a step.

    `kind` is the request's name ("Fetch", "Produce", …; a response ends in " answer"); `delivered` is False while it is
    held, or if it was lost.
    """

    source: str
    target: str
    kind: str
    text: str
    delivered: bool


@dataclass(slots=True)
class Step:
    """`number` counts from 1; `millis` is the world's clock since the story began; `says`: what happens; `why`: why;
    `happened`: what clients and brokers reported meanwhile, a line each.
    """

    number: int
    millis: float
    says: str
    why: str
    replicas: list[ReplicaView] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Verdict:
    """`ok`: nothing acknowledged is gone and all logs agree. `lost`: acknowledged records that the partition no longer
    has; `differs`: offsets at which two replicas hold different records; `word`: what to say in place of the usual
    word.
    """

    ok: bool
    lost: list[RecordView] = field(default_factory=list)
    differs: list[int] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    word: str = ""


@dataclass(slots=True)
class Playback:
    """`source`: the document and the KIP that the story comes from; `knobs`: the value of every knob; `base`: what to
    add to all offsets, for a log whose beginning is not shown."""

    name: str
    title: str
    source: str
    knobs: dict[str, str]
    steps: list[Step]
    verdict: Verdict
    base: int = 0


def to_json(telling: Playback) -> dict[str, Any]:
    """Return what `json.dumps` takes; tuples become lists, `remote` an object."""
    return asdict(telling)
