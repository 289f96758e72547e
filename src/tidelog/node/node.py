"""One broker without I/O or clock: inputs in, effects out, and the time at which it must be woken.

An input changes state and appends effects to one list; `_finish` carries out those that are the node's own business
(requests to brokers, appends of coordinators, replies) until only effects for the world are left. So there is no
recursion and one order for everything. Deferred answers are resumed when their partition is dirty.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tidelog.alarms import NEVER, Alarms, Woken
from tidelog.api.records.sessions import ANY_CHANGE, FOLLOWER_CHANGE
from tidelog.config.broker import BrokerConfig
from tidelog.config.listeners import is_shared, of_brokers
from tidelog.controller.controller import NO_OFFICE
from tidelog.coordinator.transaction import markers
from tidelog.effects import (
    CONTROLLER,
    REFUSED,
    UNATTENDED,
    Append,
    Close,
    DropChannels,
    Effect,
    Event,
    PeerRequest,
    Reply,
    Stop,
    Store,
)
from tidelog.errors import ProtocolViolation
from tidelog.log.examination import Verdict
from tidelog.model import GROUP_TOPIC, NO_EPOCH, TRANSACTION_TOPIC, Endpoint, Time
from tidelog.node import fetching, isr_proposals, large_requests, verifying
from tidelog.node.broker_state import BrokerState
from tidelog.node.coordinating import Coordinating
from tidelog.node.dispatch import Dispatch
from tidelog.node.peers import FORWARDING, VERSIONS, Peers, client_id
from tidelog.node.purgatory import DirtyPartitions, Purgatory
from tidelog.node.quorum.member import FETCH_VERSION as METADATA_FETCH_VERSION
from tidelog.node.quorum.member import FIRST_TOKEN as FIRST_QUORUM_TOKEN
from tidelog.node.quorum.member import OWNERS as QUORUM_OWNERS
from tidelog.node.quorum.member import PROBES, QuorumMember
from tidelog.node.quorum.notices import Changed, LeaderLost, LeadershipChanged, Result, SessionLost, SessionStarted
from tidelog.node.quorum.setup import QuorumSetup
from tidelog.node.security.authentication import sasl_logins
from tidelog.node.stopping import Stopping
from tidelog.node.store import StoreCalls
from tidelog.node.upkeep import integrity
from tidelog.node.upkeep.upkeep import Upkeep
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.partition.truncation import KIP_320, Generation
from tidelog.ports import Certificates, Disk, StoreResult
from tidelog.quorum.outbox import FETCHES

CONTROLLER_OWNER = "controller"
FETCH = 1
RETRIED_WITH_NEXT_CONTROLLER = (FORWARDING, isr_proposals.OWNER, Stopping.OWNER)
"""Owners whose requests another controller can answer."""
TO_CONTROLLER = frozenset({*RETRIED_WITH_NEXT_CONTROLLER, UNATTENDED})
"""The owners whose requests a listener for controllers serves; a fetch waits until the broker is registered."""


OF_OFFICE = (CONTROLLER_OWNER, PROBES)
"""Owners whose requests only the leader of the quorum sends."""


class Node:
    """A broker. Every input returns the effects to carry out, in order. `stopwatch` measures work, in nanoseconds.
    `directories` are the ids of its log folders; `sasl_secret` is the cluster's, for brokers with SASL; `jwks` are the
    keys that verify access tokens, by URL (`security.access_tokens.providers`); `own_token` is the access token with
    which it logs in to other brokers, if it does so by OAUTHBEARER. With `has_features` it knows features whose level
    may change; without, its messages are those of before there were any."""

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        endpoints: Sequence[Endpoint],
        *,
        entropy: Callable[[int], bytes],
        stopwatch: Callable[[], int] = lambda: 0,
        generation: Generation = KIP_320,
        directories: Mapping[str, bytes] | None = None,
        sasl_secret: bytes = b"",
        certificates: Certificates | None = None,
        jwks: Mapping[str, str] | None = None,
        own_token: str = "",
        has_features: bool = False,
        quorum: QuorumSetup | None = None,
    ) -> None:
        self._effects: list[Effect] = []
        self._out: list[Effect] = []
        self.purgatory = Purgatory()
        self.quorum = self._member(quorum, config.broker_id, disk, entropy)
        self.store = StoreCalls(self._out.append if self.quorum is None else self.quorum.submit, lambda: self.now.mono)
        self.broker = BrokerState(
            config,
            disk,
            endpoints,
            entropy=entropy,
            stopwatch=stopwatch,
            generation=generation,
            directories=directories or {},
            sasl_secret=sasl_secret,
            jwks=jwks or {},
            own_token=own_token,
            effects=self._effects,
            store=self.store,
            node=self,
        )
        broker = self.broker
        broker.certificates, broker.has_features, broker.quorum = certificates, has_features, self.quorum
        self.replicas, self.dirty = broker.replicas, DirtyPartitions(broker.replicas.changed)
        given = (broker.inter_broker_listener, broker.sasl, broker.authorizer)
        controllers = quorum.listeners if quorum is not None else ()
        shared = is_shared(config)
        self.dispatch = Dispatch(
            broker, self.purgatory, self._effects, *given, is_shared=shared, controllers=controllers
        )
        self.peers = Peers(
            client_id(broker.broker_id),
            self._endpoint,
            self._out,
            config.request_timeout_ms,
            sasl_logins(config, entropy, lambda: broker.own_token.text),
            dict.fromkeys(QUORUM_OWNERS, quorum.request_timeout_ms) if quorum is not None else {},
        )
        self.upkeep = Upkeep(broker, disk, self._effects, self._out)
        broker.uncleanable = self.upkeep.cleaning.uncleanable
        self.stopping = Stopping(self._effects, self.quorum)
        of_topics: Mapping[str, Any] = {GROUP_TOPIC: broker.groups, TRANSACTION_TOPIC: broker.transactions}
        self.coordinating = Coordinating(of_topics, broker.replicas, self._effects, broker.examine)
        broker.loading = self.coordinating.loading
        self._woken: Sequence[Woken] = (
            self.purgatory,
            self.dirty,
            self.dispatch.muting,
            self.dispatch,
            self.peers,
            *broker.woken,
            *([self.quorum] if self.quorum is not None else []),
            self.stopping,
            self.coordinating,
            *broker.actors,
            *self.upkeep.woken,
        )
        self._alarms = Alarms([*self._woken, *broker.pumped])
        self.now = Time(0, 0)
        self._controller = -1
        self._owners = self._answers_by_owner()
        if self.quorum is not None:
            self.store.session_lost()  # there is none yet
            broker.controller.office, broker.controller.quorum = NO_OFFICE, self.quorum

    def _member(
        self, setup: QuorumSetup | None, broker_id: int, disk: Disk, entropy: Callable[[int], bytes]
    ) -> QuorumMember | None:
        if setup is None:
            return None
        directories = lambda: self.broker.membership.directories  # noqa: E731 (the broker is made later)
        return QuorumMember(setup, broker_id, disk, self._effects, entropy=entropy, directories=directories)

    def _answers_by_owner(self) -> dict[str, Callable[[int, Any], Iterable[Effect] | None]]:
        """Who gets the answers of other brokers."""
        broker, quorum = self.broker, self.quorum
        return {
            fetching.OWNER: lambda token, answer: broker.fetching.answered(token, answer, self.now),
            fetching.EPOCHS_OWNER: lambda token, answer: broker.fetching.epochs_answered(token, answer, self.now),
            isr_proposals.OWNER: lambda _, answer: broker.in_sync.answered(answer, self.now),
            FORWARDING: lambda token, answer: broker.forwarding.answered(token, answer, self.now),
            CONTROLLER_OWNER: lambda token, answer: broker.controller.answered(token, answer, self.now),
            markers.OWNER: lambda token, answer: broker.transactions.answered(token, answer, self.now),
            verifying.OWNER: broker.verifying.answered,
            integrity.OWNER: broker.integrity.answered,
            large_requests.OWNER: self.dispatch.part_answered,
            Stopping.OWNER: lambda _, answer: self.stopping.answered(answer, self.now),
            fetching.END_OWNER: lambda _token, _answer: None,
            UNATTENDED: lambda _token, _answer: None,
            **({} if quorum is None else {owner: partial(self._of_quorum, quorum, owner) for owner in QUORUM_OWNERS}),
        }

    def _of_quorum(self, quorum: QuorumMember, owner: str, token: int, answer: Any) -> None:
        quorum.answered(owner, token, answer, self.now)

    def __repr__(self) -> str:
        return f"<Node {self.broker!r}>"

    # Inputs.

    def start(self, now: Time) -> list[Effect]:
        """Open the logs. The world then opens a session with the metadata store; with a quorum the node has its own.
        CorruptLog if it must not be a member of the quorum with its log."""
        self._at(now)
        self.replicas.load(now)
        if self.quorum is not None:
            self.quorum.start(now)
        self.broker.membership.clean_epoch = self.replicas.clean_epoch
        self.upkeep.start(now)
        self.broker.token_keys.start(now)
        self.broker.own_token.start(now)
        return self._finish()

    def session_started(self, session: int, now: Time) -> list[Effect]:
        self._at(now)
        self._session_started(session)
        return self._finish()

    def _session_started(self, session: int) -> None:
        self.store.session_started()
        self.broker.start_session(session)

    def session_lost(self, now: Time) -> list[Effect]:
        self._at(now)
        self._session_lost()
        return self._finish()

    def _session_lost(self) -> None:
        self.broker.membership.lost()
        self._effects.extend(self.broker.controller.session_lost(self.now))
        self.store.session_lost()

    def store_silent(self, now: Time) -> list[Effect]:
        """The store was silent for a whole session timeout, so another controller may have been elected."""
        self._at(now)
        self._store_silent()
        return self._finish()

    def _store_silent(self) -> None:
        self.store.is_silent = True
        self._effects.extend(self.broker.controller.store_silent(self.now))

    def store_result(self, token: int, result: StoreResult, now: Time) -> list[Effect]:
        self._at(now)
        self.store.result(token, result)
        return self._finish()

    def store_event(self, path: str, now: Time) -> list[Effect]:
        self._at(now)
        self._store_event(path)
        return self._finish()

    def _store_event(self, path: str) -> None:
        self.store.is_silent = False
        self.broker.configs.changed(path)
        if self.broker.acls is not None:
            self.broker.acls.changed(path)
        self.broker.tokens.changed(path)
        self.broker.membership.event(path)
        self._effects.extend(self.broker.controller.store_event(path, self.now))

    def connected(self, connection: int, listener: str, peer: str, principal: str, now: Time) -> list[Effect]:
        """Inbound connections have positive numbers; a negative one answers a `Connect`."""
        self._at(now)
        if connection > 0:
            self.dispatch.opened(connection, listener, peer, principal)
        else:
            self.peers.connected(connection, now.mono)
        return self._finish()

    def connect_failed(self, connection: int, reason: str, now: Time) -> list[Effect]:
        self._at(now)
        self._effects.append(Event("peer.unreachable", {"connection": connection, "reason": reason}, level="debug"))
        target, by_probe = self.peers.target_of(connection), self.peers.is_of(connection, PROBES)
        self.peers.lost(connection)
        if self.quorum is not None and reason == REFUSED and target is not None:
            self.quorum.gone(target, now, by_probe=by_probe)
        return self._finish()

    def receive(self, connection: int, frames: Sequence[memoryview], now: Time) -> list[Effect]:
        """Complete frames without their length; the views are not used after the call."""
        self._at(now)
        if connection > 0:
            self.upkeep.cleaning.served += 1
            self.dispatch.receive(connection, frames, now)
        else:
            self._peer_answered(connection, frames)
        return self._finish()

    def disconnected(self, connection: int, now: Time) -> list[Effect]:
        self._at(now)
        if connection > 0:
            self.dispatch.closed(connection)
        else:
            target = self.peers.target_of(connection)
            self.peers.lost(connection)
            if self.quorum is not None and target is not None:
                self.quorum.lost_connection(target)
        return self._finish()

    def synced(self, token: int, now: Time) -> list[Effect]:
        self._at(now)
        if self.quorum is not None and token >= FIRST_QUORUM_TOKEN:
            self.quorum.synced(token, now)
        else:
            self.upkeep.synced(token, now)
        return self._finish()

    def disk_failed(self, token: int, folder: str, reason: str, now: Time) -> list[Effect]:
        self._at(now)
        if self.quorum is not None and (token >= FIRST_QUORUM_TOKEN or self.quorum.is_in(folder)):
            self.quorum.disk_failed(reason)
        self.upkeep.failed(token, folder, reason, now)
        return self._finish()

    def examined(self, token: int, verdict: Verdict, now: Time) -> list[Effect]:
        self._at(now)
        self.broker.integrity.examined(token, verdict)
        return self._finish()

    def computed(self, token: int, result: Any, now: Time) -> list[Effect]:
        self._at(now)
        self.broker.computing.computed(token, result)
        return self._finish()

    def keys_fetched(self, url: str, text: str, problem: str, now: Time) -> list[Effect]:
        """`problem` says why there are no keys, or is ""."""
        self._at(now)
        self.broker.token_keys.fetched(url, text, problem, now)
        return self._finish()

    def token_fetched(self, text: str, problem: str, now: Time) -> list[Effect]:
        """`problem` says why there is no token, or is ""."""
        self._at(now)
        self.broker.own_token.fetched(text, problem, now)
        return self._finish()

    def disk_full(self, folder: str, reason: str, now: Time) -> list[Effect]:
        """A `Replace` found no room; never a `Sync`."""
        self._at(now)
        if self.quorum is not None and self.quorum.is_in(folder):
            self.quorum.disk_failed(reason)
        self.upkeep.full(folder, reason)
        return self._finish()

    def stop(self, now: Time) -> list[Effect]:
        """Hand leaderships over, then close everything; the `Stop` effect reports that it is done."""
        self._at(now)
        self.stopping.begin(self.broker.broker_id, self.broker.broker_epoch, now)
        return self._finish()

    def wake(self, now: Time) -> list[Effect]:
        self._at(now)
        for part in self._woken:
            if part.alarm.at <= now.mono:  # as it is at its turn: those before it may have changed it
                self._effects.extend(part.wake(now) or ())
        return self._finish()

    @property
    def knows_cluster(self) -> bool:
        """Whether a controller has pushed metadata in this life."""
        return bool(self.broker.image.brokers)

    @property
    def next_deadline(self) -> int | None:
        """The monotonic millisecond at which `wake` is due."""
        first = self._alarms.first
        return None if first == NEVER else first

    # Carrying out.

    def _at(self, now: Time) -> None:
        self.now = self.broker.now = now

    def _finish(self) -> list[Effect]:
        """Carry out what is the node's own business until nothing of it is left.

        The order decides what a turn sees: effects first, then answers of peers, then dirty partitions, and only then
        the deferred requests and the fetchers, so that each of these runs on a state that is settled.
        """
        if self.broker.controller.leader_id != self._controller:
            self._follow_controller(self.broker.controller.leader_id)
        while True:
            if self._effects:
                self._carry_out()
            elif self.peers.answers or self.dispatch.own_answers:
                self._hand_down()
            elif self.quorum is not None and self.quorum.notices:
                self._take_notices(self.quorum)
            elif self.replicas.changed:
                self._answer_waits_of_changed()
            else:
                if self.purgatory.resumable:
                    self.dispatch.resume(self.now)
                if self.broker.in_sync.pending:
                    self.broker.in_sync.pump(self.now)
                self.broker.fetching.pump(self.now)
                if self.replicas.truncated:
                    self.upkeep.jobs.note_truncation()
                if self.quorum is not None:
                    self.quorum.pump(self.now)
                if not (self._effects or self.dispatch.own_answers or self.replicas.changed):
                    break
        self.dispatch.flush(self._out)
        out = self._out[:]
        for effect in out:
            if type(effect) is Event:
                self.broker.event_log.note(effect, self.now)
        self._out.clear()
        return out

    def _take_notices(self, quorum: QuorumMember) -> None:
        """What happened in the quorum, in order: as if the world had said it."""
        notices, quorum.notices[:] = list(quorum.notices), []
        controller = self.broker.controller
        for each in notices:
            match each:
                case SessionStarted(session):
                    quorum.accept(session)
                    self._session_started(session)
                case SessionLost():
                    self._session_lost()
                    self.stopping.left(self.now)
                case LeaderLost():
                    self._store_silent()
                case Changed(path):
                    self._store_event(path)
                case Result(token, result):
                    self.store.result(token, result)
                case LeadershipChanged(epoch):
                    if epoch == NO_OFFICE:  # its next term must not find channels to where a broker was before
                        self.peers.drop_all(OF_OFFICE)
                    self._effects.extend(controller.take_office(epoch, self.now))
        if quorum.office == controller.refused_office != NO_OFFICE:
            quorum.resign(self.now)

    def _follow_controller(self, leader: int) -> None:
        """Drop the requests to the former controller, so that their owners send them to the next one: the former may
        hang, and could only answer NOT_CONTROLLER."""
        self.peers.drop(self._controller, of=RETRIED_WITH_NEXT_CONTROLLER)
        self._controller = leader
        self.broker.delete_stray_replicas_once_known()

    def _carry_out(self) -> None:
        batch = self._effects[:]
        self._effects.clear()
        for effect in batch:
            if isinstance(effect, Reply):
                self.dispatch.reply(effect.token, effect.response)
            elif isinstance(effect, PeerRequest):
                self._send_request(effect)
            elif isinstance(effect, DropChannels):
                self.peers.drop(effect.broker, of=effect.owners)
            elif isinstance(effect, Append):
                self._append(effect)
            elif isinstance(effect, Store):
                self._submit(effect)
            else:
                if isinstance(effect, Stop):
                    self._close()
                elif isinstance(effect, Close) and effect.connection > 0:
                    self.dispatch.close(effect.connection, self._out)
                self._out.append(effect)

    def _send_request(self, ask: PeerRequest) -> None:
        broker = self.broker
        target = broker.controller.leader_id if ask.target == CONTROLLER else ask.target
        version = broker.forwarding.version(ask.token) if ask.owner == FORWARDING else None
        if ask.owner == FETCHES and ask.request.__key__ == FETCH:
            version = METADATA_FETCH_VERSION
        if target != broker.broker_id:
            self.peers.send(PeerRequest(target, ask.request, ask.owner, ask.token), version, self.now.mono)
        elif ask.target == CONTROLLER and not broker.controller.leading:
            self._answer(ask.owner, ask.token, None)
        else:
            key = ask.request.__key__
            chosen = VERSIONS[key] if version is None else version
            self.dispatch.send_to_self(key, chosen, ask.request, ask.owner, ask.token, self.now)

    def _append(self, effect: Append) -> None:
        partition = self.coordinating.append(effect, self.now)
        if partition is not None:
            partition.advance(self.now, self.broker.eligible)

    def _submit(self, effect: Store) -> None:
        """The controller's operations; its tokens are its own."""

        def then(result: StoreResult) -> None:
            self._effects.extend(self.broker.controller.store_result(effect.token, result, self.now))

        self.store.submit(effect.operations, then)

    def _hand_down(self) -> None:
        answers, self.peers.answers[:] = list(self.peers.answers), []
        own, self.dispatch.own_answers[:] = list(self.dispatch.own_answers), []
        for owner, token, response in (*answers, *own):
            self._answer(owner, token, response)

    def _answer(self, owner: str, token: int, response: Any) -> None:
        self._effects.extend(self._owners[owner](token, response) or ())

    def _peer_answered(self, connection: int, frames: Iterable[memoryview]) -> None:
        for frame in frames:
            try:
                for owner, token, response in self.peers.received(connection, frame, self.now.mono):
                    self._answer(owner, token, response)
            except ProtocolViolation as violation:
                self.peers.close(connection, str(violation))
                return

    def _answer_waits_of_changed(self) -> None:
        """Answer the requests that waited for what these partitions now have."""
        deleted, self.replicas.deleted[:] = list(self.replicas.deleted), []
        for replica in deleted:
            self.upkeep.cleaning.forget(replica.name)
            self._answer_waits_of_unavailable(replica)
        for name, for_followers in self.dirty.take(self.now).items():
            partition = self.replicas.get(*name)
            if partition is None:
                continue
            if partition.failed:
                self._answer_waits_of_unavailable(partition)
                self.role_changed(partition)
                continue
            leads = isinstance(partition.role, Leader)
            if leads:  # a change of the ISR may allow both
                partition.advance(self.now, self.broker.eligible)
                self.broker.offer_isr(partition)
            self.purgatory.changed(
                name, partition.epoch if leads else -1, partition.high_watermark, partition.durable_end
            )
            self._wake_sessions(partition, for_followers=for_followers)
            if leads:
                self.coordinating.committed(partition, self.now)
            self.upkeep.syncing.check(partition, self.now)

    def _answer_waits_of_unavailable(self, partition: Partition) -> None:
        """Deleted, or offline with its folder: answer every request that waits for it, even if a new one has its
        name."""
        self.broker.fetching.forget(partition)
        self.purgatory.changed(partition.name, -1, 0, 0)
        self._wake_sessions(partition)

    def _wake_sessions(self, partition: Partition, *, for_followers: bool = True) -> None:
        for session in partition.sessions:
            self.purgatory.signal((ANY_CHANGE, session))
            if for_followers:
                self.purgatory.signal((FOLLOWER_CHANGE, session))

    # Roles and membership.

    # broker_state.Reactions: what parts of the broker found to have changed.

    def signal(self, key: tuple[Any, ...]) -> None:
        self.purgatory.signal(key)

    def config_changed(self, config: BrokerConfig) -> None:
        self.upkeep.configure(config)

    def role_changed(self, partition: Partition) -> None:
        self.coordinating.role_changed(partition, self.now)
        partition.advance(self.now, self.broker.eligible)

    def registered(self, epoch: int) -> None:
        broker = self.broker
        broker.fetching.broker_epoch = epoch
        broker.image.cluster_id = broker.cluster_id
        broker.producer_ids.restart()
        self._effects.extend(broker.controller.elect(broker.membership.session, epoch, self.now))

    def broker_moved(self, broker_id: int) -> None:
        self.peers.drop(broker_id)  # no answer will come from its former address

    def _endpoint(self, broker_id: int, owner: str) -> Endpoint | None:
        """The address of a broker; the controller here knows a new broker before any metadata is pushed. Requests of
        the quorum go to another listener; its probes to where the broker of the present session registered."""
        if self.quorum is not None and owner == PROBES:
            registered = self.quorum.registered(broker_id)
            return None if registered is None else registered.reached_by(of_brokers(self.broker.config))
        if self.quorum is not None and owner in QUORUM_OWNERS:
            return self.quorum.endpoint(broker_id)
        known = self.broker.image.brokers.get(broker_id)
        known_endpoint = known.endpoints.get(self.broker.inter_broker_listener) if known else None
        found = self.broker.controller.endpoint(broker_id) or known_endpoint
        if found is None and self.quorum is not None and owner in TO_CONTROLLER:  # it may be no broker
            return self.quorum.endpoint(broker_id)
        return found

    def _close(self) -> None:
        self.upkeep.close()
        epoch = self.broker.membership.proven_epoch
        if self.quorum is not None:
            self.quorum.close()
            if self.quorum.has_failed:  # as a crash: the next life proves nothing
                epoch = NO_EPOCH
        self.replicas.close(epoch)

    def check_invariants(self) -> None:
        for partition in self.replicas:
            partition.check_invariants()
        self.broker.image.check_invariants()
        self._alarms.check_invariants()
