"""This node as a member of the metadata quorum: inputs of the node → the quorum, the tree, and what the node must know.

Every input goes through `_give`: the replica acts first, then what it committed is applied, then the leader does what
its office requires, and at last this node's changes are sent. What the node must know comes as `notices`, in order; the
node takes them at the end of its turn, so that nothing is called back from within.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from tidelog.alarms import Alarm
from tidelog.controller import tree
from tidelog.controller.controller import NO_OFFICE
from tidelog.controller.tree import Registration
from tidelog.effects import DropChannels, Effect, Event, PeerRequest, Replace, Reply, Stop, Store, Sync
from tidelog.errors import ApiError, CorruptLog, DiskFailed, ErrorCode, ProtocolViolation
from tidelog.model import NO_LEADER, Endpoint, Time, earliest, is_any_address
from tidelog.node.quorum.local_tree import LocalTree, Outcome
from tidelog.node.quorum.logins import Logins
from tidelog.node.quorum.notices import Changed, LeaderLost, LeadershipChanged, Notice, Result
from tidelog.node.quorum.office import Office
from tidelog.node.quorum.session import BrokerSession
from tidelog.node.quorum.setup import QuorumSetup, controller_endpoint
from tidelog.ports import Disk, StoreResult
from tidelog.quorum.describing import describe
from tidelog.quorum.outbox import FETCHES, VOTES
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.records import (
    NO_SESSION,
    RecordTooLarge,
    SessionEnded,
    SessionOpened,
    TreeChanges,
    check_size,
    decode,
)
from tidelog.quorum.replica import Replica, config_of
from tidelog.quorum.requests import NODE_ENDPOINTS, is_of_leader, only_partition
from tidelog.quorum.state_file import check_voters, load_state
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import ReplicaKey
from tidelog.quorum.voting import QuorumConfig
from tidelog.wire.messages.cluster.describe_quorum import DescribeQuorumRequest
from tidelog.wire.messages.cluster.features import ApiVersionsRequest
from tidelog.wire.messages.cluster.metadata_write import MetadataWriteRequest, MetadataWriteResponse
from tidelog.wire.messages.records.fetch import FetchRequest

WRITES, PROBES = "quorum-write", "quorum-probe"
OWNERS = (VOTES, FETCHES, WRITES, PROBES)
"""The owners of its requests to other nodes."""
FETCH_VERSION = 18
BOOTSTRAP = -100
"""The first of the numbers that bootstrap servers have here, which go down: their nodes are not known. As in Kafka,
they are negative."""
FIRST_TOKEN = 1 << 60
"""Tokens of its syncs and files: no other part of the node has such."""
WORK_A_TURN = 1_000
"""Changes of the tree that one turn applies, about 5 ms; a batch is never split."""


class QuorumMember:
    """`directories` are the IDs of the node's present log directories. `machine` is its replica, from `start` on."""

    def __init__(
        self,
        setup: QuorumSetup,
        broker_id: int,
        disk: Disk,
        effects: list[Effect],
        *,
        entropy: Callable[[int], bytes],
        directories: Callable[[], Collection[bytes]],
    ) -> None:
        self.setup = setup
        self.machine: Quorum | None = None
        self.local = LocalTree(setup.snapshot_bytes, setup.snapshot_ms)
        self.logins = Logins(setup.users, self.local)
        self.notices: list[Notice] = []
        self.alarm = Alarm()
        self._broker_id = broker_id
        self._disk = disk
        self._effects = effects
        self._entropy = entropy
        self._directories = directories
        self._incarnation = entropy(16)
        self._session = BrokerSession(broker_id, self._incarnation, setup.directory, self.local)
        self._office = Office(broker_id, self._incarnation, setup.session_timeout_ms, setup.founding)
        self._heard_at = 0
        """When a leader was heard of last (monotonic ms)."""
        self._is_silent = False
        self._behind_since: int | None = None
        """There is more to apply than one turn does."""
        self.has_failed = False
        """The metadata log is not written any more, or the quorum is not this node's: the process ends."""
        self._is_closed = False
        """The files are closed; the turn that closed them may have changes left to send."""
        self._is_of_another_cluster = False
        """A controller said so."""
        self._is_denied = False
        """The last answer of a controller was that this node may not ask it."""
        self._bootstrap = {BOOTSTRAP - index: place for index, place in enumerate(setup.bootstrap)}
        self._named: dict[int, Endpoint] = {}
        """The leader that the last answer named, and where it is reached: for a node that does not know the voters."""

    def __repr__(self) -> str:
        return f"QuorumMember({self.machine}, {self.local}, session {self.session})"

    @property
    def listeners(self) -> frozenset[str]:
        return self.setup.listeners

    @property
    def session(self) -> int:
        """NO_SESSION while this process has none."""
        return self._session.number

    @property
    def office(self) -> int:
        """The epoch in which this node leads, NO_OFFICE if it does not."""
        return self._office.epoch

    @property
    def next_deadline(self) -> int | None:
        machine = self.machine
        if machine is None or self._is_over:
            return None
        return earliest(
            machine.next_deadline,
            self._session.writes.retry_at,
            self._office.next_deadline,
            None if self._is_silent else self._heard_at + self.setup.session_timeout_ms,
            self._behind_since,
        )

    def endpoint(self, node: int) -> Endpoint | None:
        """Where the node's controller is reached: as the log says, or as it was known at the start."""
        told = self.machine.endpoints_of(node) if self.machine is not None else ()
        if not (places := [each for each in told if not is_any_address(each.host)]):
            return self._bootstrap.get(node) or self._named.get(node) or self.setup.endpoints.get(node)
        place = next((each for each in places if each.name.upper() == self.setup.listener), places[0])
        return controller_endpoint(self.setup.listener, place.host, place.port)

    @property
    def controllers(self) -> list[tuple[int, Endpoint]]:
        """The voters, by ID, and where they are reached."""
        ids = self.machine.voters.ids if self.machine is not None else ()
        return [(node, endpoint) for node in ids if (endpoint := self.endpoint(node)) is not None]

    @property
    def leader_id(self) -> int:
        """NO_LEADER if none is known."""
        return NO_LEADER if self.machine is None else self.machine.standing.leader

    @property
    def kraft_version(self) -> int:
        """1 where voters are known by their directories, and can change."""
        return 0 if self.machine is None else self.machine.replica.kraft_versions.latest

    # Inputs

    def start(self, now: Time) -> None:
        """Open the log. CorruptLog if this node must not vote with it. Without a disk that works the process ends."""
        try:
            self._open(now)
        except DiskFailed as failure:
            self.disk_failed(str(failure))

    def _open(self, now: Time) -> None:
        setup = self.setup
        state = load_state(self._disk, setup.folder)
        replica = Replica.open(self._disk, setup.folder, setup.voters, config_of(setup.segment_bytes), now)
        check_voters(self._disk, setup.folder, replica.voters.latest)
        self.logins.begin(replica)
        config = QuorumConfig(
            ReplicaKey(self._broker_id, setup.directory),
            setup.cluster_id,
            replica,
            state,
            self._dice,
            setup.options,
            bootstrap=(*setup.endpoints, *self._bootstrap),
            endpoints=setup.own_endpoints,
        )
        self.machine = Quorum(config)
        self._heard_at = now.mono
        self._give(now, self.machine.start)

    def _dice(self, low: int, high: int) -> int:
        return low + int.from_bytes(self._entropy(8)) % (high - low + 1)

    def request(self, token: int, request: Any, now: Time) -> None:
        """A request on the listener of this node's controller; answered by `Reply`."""
        assert self.machine is not None
        if isinstance(request, DescribeQuorumRequest):
            self._effects.append(Reply(token, describe(self.machine, request, now)))
            return
        if isinstance(request, MetadataWriteRequest):
            code = self._accept(request)
            if code == ErrorCode.NONE:
                code = self._append(request.values, now)
            self._effects.append(Reply(token, MetadataWriteResponse(error_code=code)))
            return
        self._give(now, self.machine.request, token, request)
        if isinstance(request, FetchRequest) and (partition := only_partition(request)) is not None:
            self._renew(ReplicaKey(request.replica_state.replica_id, partition.replica_directory_id), now)

    def answered(self, owner: str, token: int, response: Any, now: Time) -> None:
        """The answer to a request of this node; None if it cannot come."""
        assert self.machine is not None
        if owner == PROBES:
            return
        if owner == WRITES:
            self._delivered(token, response, now)
            return
        code = ErrorCode.NONE if response is None else response.error_code
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID and not self._is_of_another_cluster:
            self._is_of_another_cluster = True
            fields = {"cluster": self.setup.cluster_id, "reason": "a controller belongs to another cluster"}
            self._effects.append(Event("quorum.other_cluster", fields, level="error"))
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and not self._is_denied:
            reason = "controllers do not allow this node CLUSTER_ACTION: add its principal to their super.users"
            self._effects.append(Event("quorum.denied", {"reason": reason}, level="error"))
        if response is not None:
            self._is_denied = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if (
            owner == FETCHES
            and response is not None
            and is_of_leader(response, self._broker_id)
            and self.machine.is_synced
        ):
            self._heard(now)  # while the disk hangs, this node learns nothing
        for place in getattr(response, "node_endpoints", ()):
            self._named = {place.node_id: controller_endpoint(self.setup.listener, place.host, place.port)}
        self._give(now, self.machine.answered, token, response)
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID and (strangers := self.machine.strangers):
            self._stop(
                f"The log directory belongs to cluster {self.setup.cluster_id}, but controllers "
                f"{', '.join(map(self._shown, strangers))} belong to another cluster: correct "
                f"controller.quorum.bootstrap.servers or controller.quorum.voters, or format an empty directory"
            )

    def _shown(self, node: int) -> str:
        place = self._bootstrap.get(node)
        return str(node) if place is None else f"{place.host}:{place.port}"

    def synced(self, token: int, now: Time) -> None:
        assert self.machine is not None
        self._give(now, self.machine.synced, token - FIRST_TOKEN)

    def wake(self, now: Time) -> None:
        assert self.machine is not None
        if not self._is_silent and now.mono >= self._heard_at + self.setup.session_timeout_ms:
            self._is_silent = True
            self.notices.append(LeaderLost())
            self._effects.append(self._why_silent(self.machine))
        self._give(now, self.machine.wake)

    def _why_silent(self, machine: Quorum) -> Event:
        if machine.is_called_leader:  # by others, for longer than their next election lasts
            return self._duplicate()
        voters = ", ".join(map(str, machine.voters.ids))
        why = f"no leader of the metadata quorum was heard of; most of the controllers {voters} must run"
        return Event("quorum.no_leader", {"reason": why}, level="warning")

    def _duplicate(self, **fields: Any) -> Event:
        why = "another process with this node.id is running; stop it, or give this node another node.id"
        return Event("quorum.duplicate_broker", {"broker": self._broker_id, **fields, "reason": why}, level="warning")

    def gone(self, node: int, now: Time, *, by_probe: bool) -> None:
        """A connection to the node was refused: its process is dead, or was. Only a probe, which goes to where the
        broker of the present session registered, proves that this process is: other addresses may be of an earlier."""
        if self.machine is None:
            return
        if not by_probe:
            self.lost_connection(node)
        elif self._office.epoch != NO_OFFICE and (ended := self._office.gone(self.local.tree, node, now.mono)):
            self._effects.append(Event("quorum.broker_gone", {"broker": node}))
            self._append(ended, now)
        self._give(now, self.machine.gone, node)

    def registered(self, broker: int) -> Registration | None:
        """What the broker of the present session registered."""
        node = self.local.tree.nodes.get(tree.broker_path(broker))
        try:
            return None if node is None else tree.parse_registration(node.data)
        except tree.UNREADABLE:
            return None

    def lost_connection(self, node: int) -> None:
        """A connection to the node broke: if its process is dead, a new one is refused."""
        if node in self._office.watched(self.local.tree):
            self._effects.append(PeerRequest(node, _probe(), PROBES, 0))

    def upgrade_kraft_version(self, now: Time, *, validate_only: bool) -> None:
        """Append kraft.version 1 as leader, or only check that it is possible. ApiError if it is not."""
        assert self.machine is not None
        self._give(now, partial(self.machine.upgrade, validate_only=validate_only))

    def resign(self, now: Time) -> None:
        """Leave the office: the voters elect another leader."""
        assert self.machine is not None
        self._give(now, self.machine.resign)

    def leave(self, now: Time) -> bool:
        """End the session by a record, and open no other one; False if there is none, or nobody to send it to."""
        if self.session == NO_SESSION or self.leader_id == NO_LEADER or self.has_failed:
            return False
        self._session.leave()
        self.pump(now)
        return True

    def accept(self, session: int) -> None:
        """The node knows this session: what it submits from now on is meant for it."""
        self._session.accept(session)

    def submit(self, store: Store) -> None:
        """Operations of the node; their results come as notices, in order of submission (`BrokerSession.submit`)."""
        try:
            self.notices += self._session.submit(store)
        except RecordTooLarge as error:
            self._effects.append(Event("quorum.refused", {"reason": str(error)}, level="error"))
            self.notices.append(Result(store.token, StoreResult("conflict", failed=len(store.operations) - 1)))

    def disk_failed(self, reason: str) -> None:
        """What is not durable must not be acknowledged, and a failed fsync is never repeated: the process ends."""
        self._stop(f"The metadata log failed: {reason}")

    def _stop(self, reason: str) -> None:
        if not self.has_failed:
            self.has_failed = True
            self.alarm.set(None)
            self._effects.append(Stop(f"{reason}."))

    def pump(self, now: Time) -> None:
        """Send the changes that were submitted in this turn."""
        if self.machine is not None and not self._is_over:
            self._guard(now, self._send)

    def is_in(self, folder: str) -> bool:
        """Whether the metadata log is in this log directory."""
        return self.setup.folder.startswith(f"{folder}/")

    @property
    def _is_over(self) -> bool:
        return self.has_failed or self._is_closed

    def close(self) -> None:
        if self.machine is not None and not self.has_failed:
            with suppress(DiskFailed):  # what was acknowledged is synced
                self.machine.replica.close()
        self._is_closed = True
        self.alarm.set(None)

    # Carrying out

    def _give(self, now: Time, function: Callable[..., Any], *arguments: Any) -> None:
        if not self._is_over:
            self._guard(now, self._step, function, arguments)

    def _guard(self, now: Time, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(now, *arguments)
        except (DiskFailed, CorruptLog) as failure:
            self.disk_failed(str(failure))
            return
        except ApiError:
            raise  # before anything changed
        except Exception as failure:
            # Half of a step was done: what this replica would vote for or acknowledge from now on cannot be trusted.
            self.disk_failed(f"{type(failure).__name__}: {failure}")
            raise
        self.alarm.set(self.next_deadline)

    def _step(self, now: Time, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        function(*arguments, now)
        self._carry_out()
        self._apply(now)
        self._make_snapshot(now)
        self._lead(now)
        self._request_session()
        self._send(now)

    def _carry_out(self) -> None:
        """The replica's effects; its tokens among those of the node."""
        assert self.machine is not None
        for effect in self.machine.effects():
            match effect:
                case Sync(token, files):
                    self._effects.append(Sync(FIRST_TOKEN + token, files))
                case Replace(token, path, content):
                    self._effects.append(Replace(FIRST_TOKEN + token, path, content))
                case Reply(_, response):
                    self._name_leader(response)
                    self._effects.append(effect)
                case Event("quorum.committed"):  # with every change of the tree: for timelines only
                    self._effects.append(effect._replace(level="debug"))
                case _:
                    self._effects.append(effect)

    def _name_leader(self, response: Any) -> None:
        """Say where the leader is reached, as Kafka does: who asks may know a bootstrap server only."""
        endpoint_of = NODE_ENDPOINTS.get(type(response))
        place = self.endpoint(self.leader_id) if endpoint_of is not None else None
        if endpoint_of is not None and place is not None:
            response.node_endpoints = [endpoint_of(node_id=self.leader_id, host=place.host, port=place.port)]

    def _append(self, values: Collection[bytes], now: Time) -> ErrorCode:
        """As leader."""
        machine = self.machine
        assert machine is not None
        if not isinstance(machine.state, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            if values:
                self._give(now, lambda now: machine.append(list(values), now))
        except ApiError as error:  # too large
            return error.code
        return ErrorCode.NONE

    # The tree

    def _apply(self, now: Time) -> None:
        assert self.machine is not None
        work = 0
        if self.local.load(self.machine.replica):
            self._snapshot_loaded()
        for outcomes in self.local.advance(self.machine.replica, now):
            for outcome in outcomes:
                self._take(outcome, now)
                work += outcome.work
            self.notices += [Changed(path) for path in self.local.watches.events()]
            if work >= WORK_A_TURN:
                break
        self._behind_since = now.mono if self.local.is_behind(self.machine.replica) else None

    def _snapshot_loaded(self) -> None:
        self.notices += self._session.loaded()
        self.local.watches.notice(["/"])
        self.notices += [Changed(path) for path in self.local.watches.events()]

    def _make_snapshot(self, now: Time) -> None:
        machine = self.machine
        assert machine is not None
        due = self.local.due_snapshot(now)
        if due is not None and machine.make_snapshot(*due, now):
            self.local.snapshot_begun()
            self._carry_out()

    def _take(self, outcome: Outcome, now: Time) -> None:
        offset, record, applied = outcome
        match record:
            case SessionOpened() if applied.verdict == "ok" and offset in self.local.tree.sessions:
                self._office.opened(offset, record, now.mono)
                self._effects.append(DropChannels(record.broker_id, (PROBES,)))  # they ask for the one before
            case SessionEnded(session):
                self._office.ended(session)
        self.notices += self._session.applied(record, applied)

    def _request_session(self) -> None:
        """Once this node knows who the sessions are of, as far as it knows what was committed."""
        if self.local.applied and self._behind_since is None:
            blocking = self._session.request(self._directories())
            if blocking is not None:
                self._effects.append(self._duplicate(session=blocking.session))

    # Changes of this node

    def _send(self, now: Time) -> None:
        machine = self.machine
        assert machine is not None
        leader, epoch = machine.standing
        if leader == self._broker_id and self._office.epoch != epoch:
            leader = NO_LEADER  # it does not know all that was committed yet
        values = self._session.writes.take(leader, epoch, now.mono)
        if not values:
            return
        if leader == self._broker_id:
            self._session.writes.delivered(epoch)
            machine.append(values, now)
            self._carry_out()
        else:
            request = MetadataWriteRequest(
                cluster_id=self.setup.cluster_id, node_id=self._broker_id, leader_epoch=epoch, values=list(values)
            )
            self._effects.append(PeerRequest(leader, request, WRITES, epoch))

    def _delivered(self, epoch: int, response: MetadataWriteResponse | None, now: Time) -> None:
        if response is not None and response.error_code == ErrorCode.NONE:
            self._session.writes.delivered(epoch)
        else:
            self._session.writes.failed(epoch, now.mono + self.setup.options.retry_backoff_ms)
        self.pump(now)

    def _accept(self, request: MetadataWriteRequest) -> ErrorCode:
        """Whether this node appends what another one sent."""
        assert self.machine is not None
        if request.cluster_id != self.setup.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self._office.epoch == NO_OFFICE or request.leader_epoch != self._office.epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            is_valid = all(_is_of_node(value) for value in request.values)
        except (ProtocolViolation, RecordTooLarge):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST

    # Leading

    def _lead(self, now: Time) -> None:
        machine = self.machine
        assert machine is not None
        state = machine.state
        if self._office.epoch != NO_OFFICE and not (isinstance(state, Leader) and machine.epoch == self._office.epoch):
            self._office.end()
            self.notices.append(LeadershipChanged(NO_OFFICE))
        if not isinstance(state, Leader):
            return
        self._heard(now)
        if self._office.epoch == NO_OFFICE:
            if self.local.applied <= state.epoch_start:
                return
            values = self._office.begin(machine.epoch, self.local.tree, now.mono)
            self.notices.append(LeadershipChanged(machine.epoch))
            for broker in self._office.watched(self.local.tree):
                self._effects.append(PeerRequest(broker, _probe(), PROBES, 0))
        else:
            values = self._office.over(now.mono)
        if values:
            machine.append(values, now)
            self._carry_out()

    def _renew(self, replica: ReplicaKey, now: Time) -> None:
        machine = self.machine
        assert machine is not None
        if self._office.epoch == NO_OFFICE or not isinstance(machine.state, Leader):
            return
        if machine.state.moved_at(machine.key_of(*replica)) == now.mono:
            self._office.fetched(self.local.tree, replica, now.mono)
            self.alarm.set(self.next_deadline)

    def _heard(self, now: Time) -> None:
        """Of a leader. After a silence, who is the controller must be read again."""
        self._heard_at = now.mono
        if self._is_silent:
            self._is_silent = False
            self.notices.append(Changed(tree.CONTROLLER))


def _is_of_node(value: bytes) -> bool:
    """Whether a node may write such a record. ProtocolViolation or RecordTooLarge if the log would not have it."""
    record = decode(value)
    check_size(record, len(value))
    return isinstance(record, TreeChanges | SessionOpened | SessionEnded)


def _probe() -> ApiVersionsRequest:
    """Any answer will do: the connection is what counts."""
    return ApiVersionsRequest(client_software_name="tidelog", client_software_version="0")
