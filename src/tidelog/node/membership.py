"""The broker's membership in the cluster: the cluster id, its registration, and the loss of both with the session.

The registration is an ephemeral node; its creation number is the broker epoch. It carries an earlier epoch of this
broker whose logs it has whole, and the epoch since which no log directory was lost (rule 8): that of the previous
process if it stopped cleanly, or that of this process if only its session ended, which costs no record. While the node
of an earlier session has not expired, the broker waits.

A node that outlives sessions lists the directories that the broker ever had. It is written together with the
registration, because a broker with an empty disk cannot know them itself. A missing id keeps the epoch of the first
life without it, so that a directory that returns makes its replicas complete again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from tidelog.alarms import NEVER, Alarm
from tidelog.controller import tree
from tidelog.controller.features import refusal
from tidelog.effects import Effect, Event, Stop
from tidelog.model import NO_EPOCH, Endpoint, Time, id_text
from tidelog.ports import Create, Node, Operation, Read, StoreResult, Watch, Write

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]

RETRY_MS = 200
UNKNOWN_EPOCH = 2**63 - 1
"""The epoch of the first life without a directory, before the store gave it."""


def after_start(known: Mapping[str, int], present: Collection[str]) -> dict[str, int]:
    """The epoch since which each directory is missing, NO_EPOCH for those that are there."""
    missing = {id_: UNKNOWN_EPOCH if epoch == NO_EPOCH else epoch for id_, epoch in known.items() if id_ not in present}
    return {**dict.fromkeys(present, NO_EPOCH), **missing}


class Membership:
    """`on_registered(epoch)` is called once a session's registration is confirmed. `directories` are the ids of the
    present log directories; without any, nothing is written about them. A controller that is no broker, which has no
    `endpoints`, is not registered: its session is enough for it to be elected."""

    def __init__(
        self,
        broker_id: int,
        endpoints: Sequence[Endpoint],
        rack: str | None,
        submit: Submit,
        effects: list[Effect],
        *,
        entropy: Callable[[int], bytes],
        on_registered: Callable[[int], None],
        now: Callable[[], Time],
        directories: Callable[[], Collection[bytes]] = tuple,
    ) -> None:
        self._broker_id = broker_id
        self._endpoints = tuple(endpoints)
        self._rack = rack
        self._submit = submit
        self._effects = effects
        self._entropy = entropy
        self._on_registered = on_registered
        self._now = now
        self._directories = directories
        self.features: Mapping[str, tuple[int, int]] = {}
        """The levels of features that this broker supports."""
        self._known: Node | None = None
        self._missing_since: dict[str, int] = {}
        self.cluster_id = ""
        self.epoch = NO_EPOCH
        self.clean_epoch = NO_EPOCH
        """The earlier epoch that the registration proves."""
        self.session = 0
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Membership of broker {self._broker_id}, session {self.session}, epoch {self.epoch}>"

    @property
    def path(self) -> str:
        return tree.broker_path(self._broker_id)

    @property
    def proven_epoch(self) -> int:
        """The latest epoch whose logs this broker has whole, -1 if it has none."""
        return self.clean_epoch if self.epoch == NO_EPOCH else self.epoch

    @property
    def directories(self) -> Collection[bytes]:
        """The IDs of the present log directories."""
        return self._directories()

    @property
    def directories_since(self) -> int:
        """Every log directory of the lives with this epoch or a later one is there."""
        return max(self._missing_since.values(), default=NO_EPOCH)

    def has_directories_of(self, recorded: int | None) -> bool:
        """Whether every log directory of the life with that epoch is there, of every life if none is recorded; as the
        controller decides it."""
        if recorded is None:
            return self.directories_since == NO_EPOCH
        return tree.has_directories_of(recorded, self.directories_since)

    def start(self, session: int) -> None:
        self.session = session
        self._read_cluster()

    def lost(self) -> None:
        """Without a session there is no registration. The process goes on, and has all that it had."""
        self.clean_epoch = self.proven_epoch
        self.session = 0
        self.epoch = NO_EPOCH
        self.alarm.set(None)

    def _found_cluster(self, result: StoreResult) -> None:
        node = result.values[1] if result.outcome == "ok" else None
        if isinstance(node, Node):
            self.cluster_id = tree.parse_cluster_id(node.data)
            self._found_directories(result.values[2])
            if self._is_supported(result.values[3]):
                self.register()
        elif result.outcome == "ok":
            content = tree.format_cluster_id(id_text(self._entropy(16)))
            self._submit([Create(tree.CLUSTER_ID, content)], lambda _: self._read_cluster())
        elif self.session:
            self.alarm.set(self._now().mono + RETRY_MS)

    def _read_cluster(self) -> None:
        """Whichever broker created it, the existing one counts."""
        directories = tree.directories_path(self._broker_id)
        read = [Read(path) for path in (tree.CLUSTER_ID, directories, tree.FEATURE)]
        self._submit([Watch(tree.BROKER_IDS), *read], self._found_cluster)

    def _is_supported(self, node: object) -> bool:
        """Whether this broker supports the finalized levels of features; otherwise it stops. The controller refuses
        brokers of versions that do not look."""
        reason = None
        if self.features and isinstance(node, Node):
            with suppress(*tree.UNREADABLE):
                reason = refusal(self.features, tree.parse_features(node.data))
        if reason is not None:
            self._effects.append(Stop(reason))
        return reason is None

    def _found_directories(self, found: object) -> None:
        self._known = found if isinstance(found, Node) else None

    def _directories_change(self) -> list[Operation]:
        """Compare the directories that are there with those that ever were."""
        known: dict[str, int] = {}
        if self._known is not None:
            with suppress(*tree.UNREADABLE):  # content that is written by hand is ignored
                known = tree.parse_directories(self._known.data)
        self._missing_since = after_start(known, {id_text(id_) for id_ in self._directories()})
        return [] if self._missing_since == known else [self._write_directories()]

    def _write_directories(self) -> Operation:
        path, content = tree.directories_path(self._broker_id), tree.format_directories(self._missing_since)
        return Create(path, content) if self._known is None else Write(path, content, self._known.version)

    def register(self) -> None:
        self.alarm.set(None)
        if not self._endpoints:
            self._on_registered(self.session)
            return
        changes = self._directories_change()
        registration = tree.Registration(
            self._endpoints, self._rack, self.clean_epoch, self.directories_since, self.features
        )
        content = tree.format_registration(registration, self._now().wall)
        self._submit([*changes, Create(self.path, content, ephemeral=True)], self._registered)

    def _registered(self, result: StoreResult) -> None:
        if result.outcome == "ok" and isinstance(result.values[-1], Node):
            if len(result.values) > 1:
                self._found_directories(result.values[0])
            self._registered_with(result.values[-1])
        elif self.session:
            self._submit([Read(self.path), Read(tree.directories_path(self._broker_id))], self._found_own)

    def _found_own(self, result: StoreResult) -> None:
        """After a conflict or an unknown outcome: does the existing node belong to this session?"""
        node = result.values[0] if result.outcome == "ok" else None
        if result.outcome == "ok":
            self._found_directories(result.values[1])
        if isinstance(node, Node) and node.session == self.session:
            self._registered_with(node)
        elif self.session:
            self.alarm.set(self._now().mono + RETRY_MS)

    def _registered_with(self, node: Node) -> None:
        self.epoch = node.created
        self._effects.append(Event("broker.registered", {"broker": self._broker_id, "epoch": self.epoch}))
        self._on_registered(self.epoch)
        if UNKNOWN_EPOCH in self._missing_since.values():
            # If this life ends before it is written, the next one takes its own epoch: more is thought to be missing
            # then, never less.
            since = {id_: self.epoch if epoch == UNKNOWN_EPOCH else epoch for id_, epoch in self._missing_since.items()}
            self._missing_since = since
            self._submit([self._write_directories()], self._directories_written)

    def _directories_written(self, result: StoreResult) -> None:
        if result.outcome != "ok" and self.epoch != NO_EPOCH:
            self._submit([Read(tree.directories_path(self._broker_id))], self._found_unwritten)

    def _found_unwritten(self, result: StoreResult) -> None:
        """Nobody else writes it while the session lasts: after a conflict or an unknown outcome it is written again."""
        if result.outcome == "ok":
            self._found_directories(result.values[0])
        if self.epoch != NO_EPOCH:
            self._submit([self._write_directories()], self._directories_written)

    def event(self, path: str) -> None:
        """A node below `/brokers/ids` changed: an earlier life's may be gone now."""
        if path == self.path and self.alarm.at < NEVER:
            self.register()

    def wake(self, _now: Time) -> None:
        self.alarm.set(None)
        if self.cluster_id:
            self.register()
        else:
            self._read_cluster()
