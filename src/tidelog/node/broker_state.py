"""The broker as its handlers see it (`api.context.Broker`): what it knows, what it holds and what it can do."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from tidelog.api.context import PENDING, Context, Pending, Push
from tidelog.api.records.sessions import Sessions
from tidelog.config.broker import LISTENER_PREFIX, BrokerConfig
from tidelog.config.families.network_options import connections_by_address
from tidelog.config.group import GroupConfig
from tidelog.config.listeners import inter_broker_listener
from tidelog.config.loggers import level_of
from tidelog.config.topic import TopicConfig
from tidelog.controller.controller import Controller
from tidelog.controller.features import SUPPORTED
from tidelog.controller.image import FULL, ClusterImage
from tidelog.coordinator.group import GroupCoordinator
from tidelog.coordinator.transaction import TransactionCoordinator
from tidelog.effects import Effect, Event, Reply, SetConnectionLimits, SetListenerOptions, SetLogLevels
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.log.integrity import Unsound
from tidelog.model import NO_LEADER, Endpoint, Time, TopicPartition
from tidelog.node.computing import Computing
from tidelog.node.configs import ConfigMirror
from tidelog.node.controller_pushes import Assignments, PushOrder
from tidelog.node.coordinating import Loading
from tidelog.node.event_log import EventLog
from tidelog.node.fetching import Fetching
from tidelog.node.isr_proposals import IsrProposals
from tidelog.node.membership import Membership
from tidelog.node.peers import Forwarding
from tidelog.node.producer_ids import ProducerIdBlocks
from tidelog.node.quorum.member import QuorumMember
from tidelog.node.quorum.sasl_salts import SaslSalts
from tidelog.node.quotas import Quotas
from tidelog.node.replicas import HeldReplicas
from tidelog.node.security.acl_mirror import AclMirror
from tidelog.node.security.authentication import sasl_listeners
from tidelog.node.security.authorizer import Authorizer
from tidelog.node.security.delegation_tokens import TokenMirror
from tidelog.node.security.own_token import OwnToken
from tidelog.node.security.token_keys import TokenKeys
from tidelog.node.store import StoreCalls
from tidelog.node.upkeep.cleaning import Uncleanable
from tidelog.node.upkeep.integrity import Integrity
from tidelog.node.upkeep.log_dir_events import LogDirEvents
from tidelog.node.upkeep.relocating import Relocations
from tidelog.node.verifying import Verifying
from tidelog.partition.leader import Leader, Proposal
from tidelog.partition.partition import Partition
from tidelog.partition.replication_throttle import ReplicationThrottles
from tidelog.partition.truncation import Generation
from tidelog.ports import Certificates, Disk
from tidelog.security.acls import AclIndex
from tidelog.security.scram import MECHANISMS, Account, parse_credential
from tidelog.wire.messages.cluster.controller_pushes import LeaderAndIsrRequest, UpdateMetadataRequest


class Reactions(Protocol):
    """What the node does when a part of the broker notices a change."""

    def role_changed(self, partition: Partition) -> None: ...

    def registered(self, epoch: int) -> None: ...

    def broker_moved(self, broker_id: int) -> None: ...

    def config_changed(self, config: BrokerConfig) -> None: ...

    def signal(self, key: tuple[Any, ...]) -> None:
        """Resume the deferred answers that wait for the key."""


class BrokerState:
    """Puts a broker's parts together. `effects` is the list that all parts append to."""

    certificates: Certificates | None = None
    """Those of its TLS listeners, if the world has any."""
    quorum: QuorumMember | None = None
    """This node's part of the metadata quorum; None with another store."""
    now = Time(0, 0)
    loading: Mapping[TopicPartition, Loading]
    """The partitions of its coordinators that do not serve yet; given by the node."""

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        endpoints: Sequence[Endpoint],
        *,
        entropy: Callable[[int], bytes],
        stopwatch: Callable[[], int],
        generation: Generation,
        directories: Mapping[str, bytes],
        sasl_secret: bytes,
        jwks: Mapping[str, str],
        own_token: str,
        effects: list[Effect],
        store: StoreCalls,
        node: Reactions,
    ) -> None:
        self.broker_id = config.broker_id
        self.config = config
        self.effects = effects
        self.inter_broker_listener = inter_broker_listener(config)
        self._listeners_of_nodes = {self.inter_broker_listener, *config.controller_listener_names}
        self.token_keys = TokenKeys(config, jwks, effects, lambda: self.now)
        self.own_token = OwnToken(own_token, effects)
        self.sasl = sasl_listeners(config, self._account, entropy, sasl_secret, self.token_keys.find, self._wall_ms)
        """Listeners with SASL, by name."""
        self.authorizer = Authorizer(config, effects, lambda: self.now) if config.authorizer_class_name else None
        self.acls = AclMirror(store.submit, effects, self._acls_changed) if self.authorizer else None
        self.image = ClusterImage()
        timeout_ms = config.log_dir_failure_timeout_ms
        self.log_dir_events = LogDirEvents(self.broker_id, timeout_ms, store.submit, effects, entropy, lambda: self.now)
        self.replicas = HeldReplicas(
            config, disk, effects, self.topic_config, generation=generation, report_log_dir=self.log_dir_events.report
        )
        self.event_log = EventLog()
        self.topics_requested: dict[str, int] = {}
        self.uncleanable: Mapping[TopicPartition, Uncleanable] = {}
        self.sessions = Sessions(config.max_incremental_fetch_session_cache_slots, entropy)
        self.throttles = ReplicationThrottles(self.broker_id, self.replicas.get)
        self.throttles.configure(config, 0)
        self.fetching = Fetching(self.broker_id, config, self.replicas, effects, self.throttles.follower)
        self.integrity = Integrity(self.broker_id, self.replicas, effects, lambda: self.image.brokers, lambda: self.now)
        self.relocations = Relocations(
            lambda: self.config, self.replicas, effects, entropy=entropy, examine=self.integrity.examine
        )
        self.in_sync = IsrProposals(
            self.broker_id, self.replicas, effects, lambda: self.broker_epoch, lambda: self.eligible
        )
        self.quotas = Quotas(config, stopwatch)
        self.levels: Mapping[str, str] = {}
        self.configs = self._config_mirror(store)
        self._salts = SaslSalts(self.sasl.values(), store.submit, entropy)
        self.tokens = TokenMirror(store.submit, config.delegation_token_secret_key)
        self.producer_ids = ProducerIdBlocks(self.broker_id, store.submit, self._ids_came, self._mono_ms)
        self.forwarding = Forwarding(effects)
        self.groups = GroupCoordinator(config, entropy=entropy, cluster=self.image, group_config=self.group_config)
        self.transactions = TransactionCoordinator(config, find=self.leader_of, next_id=self.producer_ids.next_id)
        self.verifying = Verifying(self.image, effects, lambda producer_id: node.signal(("verified", producer_id)))
        self.computing = Computing(effects, lambda token: node.signal(("computed", token)))
        self.controller = Controller(
            self.broker_id, config, entropy=entropy, trusts_restarts=generation.trusts_restarts
        )
        self.membership = Membership(
            self.broker_id,
            endpoints,
            config.broker_rack,
            store.submit,
            effects,
            entropy=entropy,
            on_registered=node.registered,
            directories=lambda: [id_ for folder, id_ in directories.items() if folder in self.replicas.live_folders],
            now=lambda: self.now,
        )
        given = (self.replicas, self.fetching, self.configs, self.image, self.membership)
        self.assignments = Assignments(self.broker_id, *given, effects, on_role=node.role_changed)
        self.pushes = PushOrder(store.submit, self.controller)
        self._unknown_topics: list[Partition] | None = None
        self._metadata_epoch = -1
        self.store, self._node, self._entropy, self._submit = store, node, entropy, store.submit
        self._topic_configs: dict[str, TopicConfig] = {}

    def __repr__(self) -> str:
        return f"<broker {self.broker_id} epoch={self.broker_epoch} {len(self.replicas)} replicas>"

    @property
    def broker_epoch(self) -> int:
        return self.membership.epoch

    @property
    def has_sasl(self) -> bool:
        return bool(self.sasl)

    @property
    def has_features(self) -> bool:
        return self.controller.has_features

    @has_features.setter
    def has_features(self, supported: bool) -> None:
        self.controller.has_features = supported
        self.membership.features = SUPPORTED if supported else {}

    @property
    def has_authorizer(self) -> bool:
        return self.authorizer is not None

    @property
    def damaged(self) -> Mapping[TopicPartition, str]:
        return self.integrity.damaged

    @property
    def cluster_id(self) -> str:
        return self.membership.cluster_id

    @property
    def eligible(self) -> Collection[int]:
        return self.image.brokers

    # Time.

    @property
    def woken(self) -> tuple[Membership, Forwarding, ReplicationThrottles, LogDirEvents, TokenKeys, OwnToken]:
        return self.membership, self.forwarding, self.throttles, self.log_dir_events, self.token_keys, self.own_token

    @property
    def actors(self) -> tuple[GroupCoordinator, TransactionCoordinator, Controller]:
        return self.groups, self.transactions, self.controller

    @property
    def pumped(self) -> tuple[Fetching, IsrProposals]:
        """Parts that run at the end of every turn: their alarm only has to cause a turn."""
        return self.fetching, self.in_sync

    def _wall_ms(self) -> int:
        return self.now.wall

    def _mono_ms(self) -> int:
        return self.now.mono

    def _ids_came(self) -> None:
        self._node.signal(("producer-ids",))

    # Configuration.

    def topic_config(self, topic: str) -> TopicConfig:
        """Shared by all partitions of the topic; a change makes a new one."""
        found = self._topic_configs.get(topic)
        if found is None:
            found = self._topic_configs[topic] = TopicConfig(self.configs.topic(topic), self.config)
        return found

    def set_levels(self, levels: Mapping[str, str]) -> None:
        self.levels = levels
        if self.authorizer is not None:
            self.authorizer.is_debugging = level_of(levels, "access") in ("DEBUG", "TRACE")
        self.effects.append(SetLogLevels(levels))

    def group_config(self, group: str) -> GroupConfig:
        return GroupConfig(self.configs.group(group), self.config)

    def _topic_changed(self, topic: str) -> None:
        self._topic_configs.pop(topic, None)
        for partition in self.replicas:
            if partition.name.topic == topic:
                partition.config = partition.log.config = self.topic_config(topic)
                partition.mark_dirty()

    def _config_mirror(self, store: StoreCalls) -> ConfigMirror:
        return ConfigMirror(
            store.submit,
            on_topic=self._topic_changed,
            on_broker=self._broker_changed,
            on_quota=self.quotas.change,
            on_quotas=self._send_connection_limits,
        )

    def _broker_changed(self) -> None:
        before = self._listener_options()
        self.config = self.config.changed(self.configs.broker(None), self.configs.broker(self.broker_id))
        self._topic_configs.clear()
        for partition in self.replicas:
            partition.config = partition.log.config = self.topic_config(partition.name.topic)
            partition.mark_dirty()
        self.throttles.configure(self.config, self.now.mono)
        self._send_connection_limits()
        if (options := self._listener_options()) != before:
            self.effects.append(SetListenerOptions(options))
        self._node.config_changed(self.config)

    def start_session(self, session: int) -> None:
        """A session with the store began. The ACLs are read before a broker registers, because others may send it
        requests at once."""
        self.configs.start()
        self.tokens.start()
        if self.quorum is not None:
            self._salts.start()
        if self.acls is None:
            self.membership.start(session)
        else:
            self.acls.start(lambda: self.membership.start(session))

    def _acls_changed(self, index: AclIndex) -> None:
        """Fetch sessions, and fetches that wait, hold topics that may not be read any more."""
        assert self.authorizer is not None
        self.authorizer.update(index)
        for partition in self.replicas:
            partition.mark_dirty()

    def _listener_options(self) -> dict[str, str]:
        return {name: text for name, text in self.config.broker.items() if name.startswith(LISTENER_PREFIX)}

    def _send_connection_limits(self) -> None:
        """How many connections may come: the listening sockets are the world's."""
        config = self.config
        overrides = connections_by_address(config.max_connections_per_ip_overrides)
        self.effects.append(
            SetConnectionLimits(
                config.max_connections,
                config.max_connections_per_ip,
                overrides,
                config.max_connection_creation_rate,
                dict(self.quotas.limits.rates),
            )
        )

    # What handlers and coordinators call.

    def _account(self, listener: str, mechanism: str, name: str, by_token: bool) -> Account | None:
        """Whom the name logs in by SCRAM on the listener."""
        logins = None if self.quorum is None else self.quorum.logins
        if logins is not None and not logins.is_loaded:
            return None
        if by_token:
            return self.tokens.table.account(MECHANISMS[mechanism], name, self.now.wall)
        of_nodes = listener in self._listeners_of_nodes
        known = self.configs.user(name) if logins is None else logins.credentials(name, of_nodes=of_nodes)
        credential = parse_credential(known.get(mechanism, ""))
        return None if credential is None else Account(name, credential)

    def leader_of(self, partition: TopicPartition, office: TopicPartition, epoch: int) -> int | None:
        """NO_LEADER if there is no leader, None if the partition was deleted."""
        found = self.image.partition(*partition)
        if found is not None:
            return found.leader if found.leader in self.image.brokers else NO_LEADER
        return None if self.image.has_epoch_of(office, epoch) else NO_LEADER

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.replicas.topic_name(topic_id) or self.image.topic_names.get(topic_id)

    def forward(self, context: Context, request: Any) -> Pending:
        return self.forwarding.forward(context, request)

    def propose(self, partition: TopicPartition, proposal: Proposal) -> None:
        self.in_sync.propose(partition, proposal)

    def offer_isr(self, partition: Partition) -> None:
        """Propose the replicas that may join the partition's ISR by now."""
        proposal = partition.propose_rejoins(self.now, self.broker_epoch, self.eligible)
        if proposal is not None:
            self.propose(partition.name, proposal)

    def examine(self, partition: Partition, found: Unsound) -> ErrorCode:
        return self.integrity.examine(partition, found)

    def move_replica(self, partition: TopicPartition, folder: str) -> None:
        self.relocations.begin(partition, folder, self.now)

    def disk_failed(self, failure: DiskFailed) -> None:
        self.replicas.disk_failed(failure)

    def check_controller(self, push: Push) -> ErrorCode:
        return self._outdated(push) or self.pushes.accept(push)

    def _outdated(self, push: Push) -> ErrorCode:
        if self.pushes.is_stale(push):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE if push.broker_epoch in (-1, self.broker_epoch) else ErrorCode.STALE_BROKER_EPOCH

    def apply_assignments(self, request: LeaderAndIsrRequest, context: Context) -> Pending:
        self.assignments.apply(request, context.token, lambda: self.now, partial(self._outdated, request))
        return PENDING

    def stop_replica(self, partition: TopicPartition, topic_id: bytes, leader_epoch: int, *, delete: bool) -> ErrorCode:
        return self.assignments.stop(partition, leader_epoch, delete=delete, topic_id=topic_id)

    def answer_when_durable(
        self,
        context: Context,
        partitions: Collection[TopicPartition],
        answer: Callable[[Collection[TopicPartition]], Any],
    ) -> Pending:
        def durable(failed: Collection[TopicPartition]) -> None:
            self.effects.append(Reply(context.token, answer(failed)))

        self.assignments.folder_syncs.when_durable(partitions, durable)
        return PENDING

    def apply_metadata(self, request: UpdateMetadataRequest, now: Time) -> None:
        """ApiError if an earlier part of it is missing."""
        before = self.image.brokers
        changed = self.image.apply(request)
        if changed is None:
            return
        topics, touched = self.image.topics, changed.touched
        if request.type == FULL:
            self._unknown_topics = self.assignments.unknown_topics()
        self._metadata_epoch = request.controller_epoch
        self.delete_stray_replicas_once_known()
        self.effects.extend(self.groups.topics_deleted(touched.difference(topics) | changed.replaced, now))
        self.effects.extend(self.groups.topics_changed(touched, now))
        if before.keys() != self.image.brokers.keys():
            self._alive_changed()
        if self.image.brokers.keys() - before.keys():
            self.integrity.brokers_came()
        for broker, old in before.items():
            known = self.image.brokers.get(broker)
            listener = self.inter_broker_listener
            if known is None or known.endpoints.get(listener) != old.endpoints.get(listener):
                self._node.broker_moved(broker)

    def delete_stray_replicas_once_known(self) -> None:
        """Delete stray replicas once the full metadata has come from a controller that is not older than the one that
        led when this broker registered: an older one may not know yet what this broker holds. Either may be known
        first. `_unknown_topics` are the replicas whose topics the full metadata did not have; None while nothing is
        due."""
        if self._unknown_topics is not None and 0 <= self.controller.known_epoch <= self._metadata_epoch:
            unknown_topics, self._unknown_topics = self._unknown_topics, None
            self.assignments.delete_stray_replicas(unknown_topics)

    def _alive_changed(self) -> None:
        """Live brokers decide what commits, which replicas may join, and which ones a deletion of records waits for."""
        for partition in self.replicas:
            if isinstance(partition.role, Leader):
                self.replicas.changed[partition.name] = True
        fields = {"broker": self.broker_id, "alive": sorted(self.image.brokers)}
        self.effects.append(Event("metadata.brokers", fields, level="debug"))
