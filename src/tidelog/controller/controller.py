"""The controller as an actor: inputs from the node, effects back.

Every broker has one. `elect` starts an election whenever the store has a session; the first broker to create
`/controller` leads, in the same multi that raises `/controller_epoch`; the others watch that node and try again when it
is removed. A controller resigns when it loses the session, or when a multi finds the epoch raised. `leader_id` is the
present controller.

With a metadata quorum there is no election here: the leader of the quorum is the controller (`take_office`). It writes
`/controller`, which is not ephemeral then, and the quorum's epoch as `/controller_epoch`. Removing the node makes it
resign.
"""

from collections.abc import Callable
from typing import Any

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.active_controller import ActiveController
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.features import TREE, Kraft, tree_version
from tidelog.effects import Effect, Event, Reply, Store
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, Time, earliest
from tidelog.ports import Change, Create, Delete, Node, Operation, Read, StoreResult, Watch, Write
from tidelog.wire.refusals import refuse

RETRY_MS = 100
NO_OFFICE = -1


class Controller:
    """`leading` once elected (requests then wait until the tree is read); `leader_id` is -1 while unknown.
    `known_epoch`: the last controller epoch read in this session, -1 before; older controllers may not know the
    replicas that this broker got since."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        *,
        entropy: Callable[[int], bytes],
        trusts_restarts: bool = False,
        has_features: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.entropy = entropy
        self.trusts_restarts = trusts_restarts
        self.has_features = has_features
        self.leader_id = -1
        self.known_epoch = -1
        self.quorum: Kraft | None = None
        self.active: ActiveController | None = None
        self.session = 0
        self.office: int | None = None
        """With a metadata quorum: the epoch in which this node leads it, NO_OFFICE while it does not."""
        self.refused_office = NO_OFFICE
        """The office that this broker had and lost, because its node was removed: it must not lead the quorum on."""
        self.retry_at: int | None = None
        self.alarm = Alarm()
        self.last_token = 0
        self.waiting: dict[int, Callable[[StoreResult], None]] = {}
        self.now = Time(0, 0)
        self.out: list[Effect] = []

    def __repr__(self) -> str:
        return f"Controller({self.broker_id} {self.active or f'follows {self.leader_id}'})"

    @property
    def leading(self) -> bool:
        return self.active is not None

    @property
    def epoch(self) -> int:
        """The controller epoch while leading, else -1."""
        return self.active.term.epoch if self.active else -1

    @property
    def deletions(self) -> dict[str, list[int]]:
        """Topics marked for deletion, and the brokers that have not confirmed it; known while leading."""
        remaining = self.active.deletions.remaining if self.active else {}
        return {topic.name: sorted(brokers) for topic, brokers in remaining.items()}

    @property
    def refused(self) -> dict[int, str]:
        """Brokers whose registration is refused, and why; known while leading."""
        return {broker: each.reason for broker, each in self.active.term.refused.items()} if self.active else {}

    @property
    def eligible(self) -> dict[str, list[list[int]]]:
        """Partitions with eligible leader replicas, or some that were: both; known while leading."""
        partitions = self.active.term.cluster.partitions() if self.active else ()
        known = ((partition.name, partition.state) for partition in partitions)
        return {str(name): [list(s.elr), list(s.last_known)] for name, s in known if s.elr or s.last_known}

    def endpoint(self, broker: int) -> Endpoint | None:
        """The inter-broker endpoint of a live broker, while leading: the controller knows it before all others."""
        return self.active.term.endpoint(broker) if self.active else None

    def elect(self, session: int, broker_epoch: int, now: Time) -> list[Effect]:
        """This broker is registered by this session: find the controller, or become it."""
        assert broker_epoch >= 0, "only a registered broker may lead"
        self.now = now
        self.session = session
        self._read_controller()
        return self._drain()

    def take_office(self, epoch: int, now: Time) -> list[Effect]:
        """This node leads the metadata quorum in this epoch; NO_OFFICE: it does not, or not any more."""
        self.now = now
        self.office = epoch
        if epoch == NO_OFFICE:
            self._resign("another node leads the quorum")
        elif self.session:
            self._read_controller()
        return self._drain()

    def handle(self, token: int, request: Any, now: Time) -> list[Effect]:
        """A request for the controller; answered by a `Reply` with this token, NOT_CONTROLLER if it is not here."""
        self.now = now
        if self.active is None:
            self.out.append(Reply(token, refuse(request, ErrorCode.NOT_CONTROLLER)))
        else:
            self.active.handle(token, request, now)
        return self._drain()

    def store_result(self, token: int, result: StoreResult, now: Time) -> list[Effect]:
        self.now = now
        if (resume := self.waiting.pop(token, None)) is not None:
            resume(result)
        elif self.active is not None:
            self.active.store_result(token, result, now)
        return self._drain()

    def store_event(self, path: str, now: Time) -> list[Effect]:
        self.now = now
        if path in (tree.CONTROLLER, "/"):
            self._read_controller()
        if self.active is not None:
            self.active.store_event(path, now)
        return self._drain()

    def answered(self, token: int, response: Any, now: Time) -> list[Effect]:
        """The answer to a `PeerRequest`, or None if it cannot come."""
        self.now = now
        if self.active is not None:
            self.active.answered(token, response, now)
        return self._drain()

    def session_lost(self, now: Time) -> list[Effect]:
        """The ephemeral nodes are gone, or will be: nothing may be decided here any more."""
        self.now = now
        self.waiting.clear()
        self.retry_at = None
        self.session = 0
        self.leader_id = self.known_epoch = -1
        self._resign("session lost")
        return self._drain()

    def store_silent(self, now: Time) -> list[Effect]:
        """The store has been unreachable for so long that others may have ended this session: the leader is unknown
        until it answers. Operations in flight are answered `unknown`; the session may survive, and lead again."""
        self.now = now
        self.leader_id = -1
        self._resign("the metadata store is silent")
        return self._drain()

    def wake(self, now: Time) -> list[Effect]:
        self.now = now
        if self.retry_at is not None and now.mono >= self.retry_at:
            self._read_controller()
        if self.active is not None:
            self.active.wake(now)
        return self._drain()

    @property
    def next_deadline(self) -> int | None:
        """When to call `wake`, in monotonic milliseconds."""
        return earliest(self.retry_at, self.active.next_deadline if self.active is not None else None)

    def _store(self, operations: list[Operation], resume: Callable[[StoreResult], None]) -> None:
        self.last_token += 1
        self.waiting[self.last_token] = resume
        self.out.append(Store(self.last_token, operations))

    def _read_controller(self) -> None:
        """Read the present controller. One read at a time; the watch reports every later change."""
        self.retry_at = None
        if not self.waiting:
            paths = (tree.CONTROLLER, tree.CONTROLLER_EPOCH, *((tree.FEATURE,) if self.has_features else ()))
            self._store([Watch(tree.CONTROLLER), *(Read(path) for path in paths)], self._controller_read)
            return
        self.retry_at = self.now.mono + RETRY_MS

    def _controller_read(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self.retry_at = self.now.mono + RETRY_MS
            return
        _, node, epoch, *features = result.values
        assert isinstance(epoch, Node), "the store holds the skeleton from its first start"
        self.known_epoch = tree.parse_controller_epoch(epoch.data)
        if self.office is not None:
            self._follow_office(node if isinstance(node, Node) else None, epoch, self.office)
            return
        if not isinstance(node, Node):
            self.leader_id = -1
            self._resign("its node is gone")
            self._try_to_lead(epoch)
            return
        self.leader_id = tree.parse_controller(node.data)
        if node.session != self.session:
            self._resign(f"broker {self.leader_id} leads")
            if features and tree.parse_controller_version(node.data) < tree_version(features[0]):
                self._depose(node, epoch)
        elif self.active is None:
            self._lead(epoch)

    def _depose(self, node: Node, epoch: Node) -> None:
        """Take over from a broker whose version does not support what is finalized: it elects itself as any other does,
        and would lose what it does not know. What it wants to write is refused from the next epoch on."""
        fields = {"broker": self.leader_id, "reason": f"its version does not support {TREE.name} as finalized"}
        self.out.append(Event("controller.refused", fields, "error"))
        self._try_to_lead(epoch, Delete(tree.CONTROLLER, node.version))

    def _try_to_lead(self, epoch: Node, *before: Change) -> None:
        """Create the node and raise the epoch, both or none."""
        data = tree.format_controller(self.broker_id, self.now.wall, TREE.high if self.has_features else 0)
        raised = tree.parse_controller_epoch(epoch.data) + 1
        self._store(
            [
                *before,
                Create(tree.CONTROLLER, data, ephemeral=True),
                Write(tree.CONTROLLER_EPOCH, tree.format_controller_epoch(raised), epoch.version),
            ],
            self._tried_to_lead,
        )

    def _follow_office(self, node: Node | None, epoch: Node, office: int) -> None:
        """Lead if this node leads the quorum and the tree says so; write that if it does not say so yet."""
        self.leader_id = tree.parse_controller(node.data) if node is not None else -1
        if office == NO_OFFICE:
            return
        if self.leader_id == self.broker_id and self.known_epoch == office:
            if self.active is None:
                self._lead(epoch)
        elif self.active is not None:
            self.refused_office = office
            self._resign("its node is gone")
        elif self.refused_office != office:
            data = tree.format_controller(self.broker_id, self.now.wall)
            self._store(
                [
                    Create(tree.CONTROLLER, data) if node is None else Write(tree.CONTROLLER, data, node.version),
                    Write(tree.CONTROLLER_EPOCH, tree.format_controller_epoch(office), epoch.version),
                ],
                lambda _: self._read_controller(),
            )

    def _tried_to_lead(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self._read_controller()
            return
        epoch = result.values[-1]
        assert isinstance(epoch, Node)
        self.leader_id = self.broker_id
        self._lead(epoch)

    def _lead(self, epoch: Node) -> None:
        number = self.known_epoch = tree.parse_controller_epoch(epoch.data)
        self.out.append(Event("controller.elected", {"broker": self.broker_id, "epoch": number}))
        term = ControllerTerm(self.broker_id, self.config, self.entropy, number, epoch.version)
        term.trusts_restarts, term.has_features, term.quorum = self.trusts_restarts, self.has_features, self.quorum
        self.active = ActiveController(term, self.last_token, self.now)

    def _resign(self, why: str) -> None:
        if self.active is None:
            return
        active, self.active = self.active, None
        self.last_token = max(self.last_token, active.last_token)
        self.out += active.end()
        self.out.append(
            Event("controller.resigned", {"broker": self.broker_id, "epoch": active.term.epoch, "why": why})
        )

    def _drain(self) -> list[Effect]:
        try:
            if self.active is not None:
                self._pump(self.active)
        finally:  # an input that fails must not lose the alarm of the rest
            self.alarm.set(self.next_deadline)
        out, self.out = self.out, []
        return out

    def _pump(self, active: ActiveController) -> None:
        active.term.config = self.config
        self.last_token = max(self.last_token, active.last_token)
        active.last_token = self.last_token
        active.pump()
        self.last_token = active.last_token
        self.out += active.drain()
        if active.deposed:
            self._resign("another controller was elected")
            self._read_controller()
