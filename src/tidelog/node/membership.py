"""The broker's place in the cluster: the cluster's id, its registration, and the loss of both with the session.

The registration is an ephemeral node; its creation number is the broker epoch. It carries the epoch of the life before
where that ended cleanly (rule 8). A node left over from a session that is not expired yet is waited for.
"""

from collections.abc import Callable, Sequence

from tidelog.alarms import NEVER, Alarm
from tidelog.controller import tree
from tidelog.effects import Effect, Event
from tidelog.model import Endpoint, Time, id_text
from tidelog.ports import Create, Node, Operation, Read, StoreResult, Watch

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]

RETRY_MS = 200


class Membership:
    """`on_registered(epoch)` is called once a session's registration stands."""

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
    ) -> None:
        self._broker_id = broker_id
        self._endpoints = tuple(endpoints)
        self._rack = rack
        self._submit = submit
        self._effects = effects
        self._entropy = entropy
        self._on_registered = on_registered
        self._now = Time(0, 0)
        self.cluster_id = ""
        self.epoch = -1
        self.clean_epoch = -1
        self.session = 0
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Membership of broker {self._broker_id}, session {self.session}, epoch {self.epoch}>"

    @property
    def path(self) -> str:
        return tree.broker_path(self._broker_id)

    def start(self, session: int, now: Time) -> None:
        self._now = now
        self.session = session
        self._submit([Watch(tree.BROKER_IDS), Read(tree.CLUSTER_ID)], self._found_cluster)

    def lost(self) -> None:
        """Without a session there is no registration; a life that lost it did not stop cleanly."""
        self.session = 0
        self.epoch = -1
        self.clean_epoch = -1
        self.alarm.set(None)

    def _found_cluster(self, result: StoreResult) -> None:
        node = result.values[1] if result.outcome == "ok" else None
        if isinstance(node, Node):
            self.cluster_id = tree.parse_cluster_id(node.data)
            self.register()
        elif result.outcome == "ok":
            content = tree.format_cluster_id(id_text(self._entropy(16)))
            self._submit([Create(tree.CLUSTER_ID, content)], lambda _: self._read_cluster())
        elif self.session:
            self.alarm.set(self._now.mono + RETRY_MS)

    def _read_cluster(self) -> None:
        """Whoever created it, the one that stands counts."""
        self._submit([Watch(tree.BROKER_IDS), Read(tree.CLUSTER_ID)], self._found_cluster)

    def register(self) -> None:
        self.alarm.set(None)
        registration = tree.Registration(self._endpoints, self._rack, self.clean_epoch)
        content = tree.format_registration(registration, self._now.wall)
        self._submit([Create(self.path, content, ephemeral=True)], self._registered)

    def _registered(self, result: StoreResult) -> None:
        if result.outcome == "ok" and isinstance(result.values[0], Node):
            self._stands(result.values[0])
        elif self.session:
            self._submit([Read(self.path)], self._found_own)

    def _found_own(self, result: StoreResult) -> None:
        """After a conflict or an unknown outcome: is the node that stands this session's?"""
        node = result.values[0] if result.outcome == "ok" else None
        if isinstance(node, Node) and node.session == self.session:
            self._stands(node)
        elif self.session:
            self.alarm.set(self._now.mono + RETRY_MS)

    def _stands(self, node: Node) -> None:
        self.epoch = node.created
        self._effects.append(Event("broker.registered", {"broker": self._broker_id, "epoch": self.epoch}))
        self._on_registered(self.epoch)

    def event(self, path: str, now: Time) -> None:
        """A node below `/brokers/ids` changed: an earlier life's may be gone now."""
        self._now = now
        if path == self.path and self.alarm.at < NEVER:
            self.register()

    def wake(self, now: Time) -> None:
        self._now = now
        if self.alarm.at <= now.mono:
            self.alarm.set(None)
            if self.cluster_id:
                self.register()
            else:
                self._read_cluster()
