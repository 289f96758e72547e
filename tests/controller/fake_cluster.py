"""A small cluster for the controller's tests: the simulator's store, and brokers that take what they are told.

Messages and store results wait in queues; `settle` delivers them until nothing moves. A broker applies
LeaderAndIsr, UpdateMetadata and StopReplica with the checks that a real one makes.
"""

from collections import deque
from itertools import count

from tests.controller.ghost import Ghost
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.controller import Controller
from tidelog.controller.features import SUPPORTED, founding
from tidelog.controller.image import ClusterImage
from tidelog.effects import DropChannels, Event, PeerRequest, Reply, Store
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, Time
from tidelog.ports import Create, StoreResult
from tidelog.sim.store import Tree
from tidelog.wire.messages.cluster.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from tidelog.wire.messages.records.offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


class FakeBroker:
    """One broker process: registered, with a controller of its own, and the replicas it was told to have."""

    def __init__(self, cluster, broker_id, rack=None):
        self.cluster = cluster
        self.id = broker_id
        self.rack = rack
        self.epoch = -1
        self.clean_epoch = -1
        self.has_features = cluster.elr
        """False for one of the version before there were features."""
        self.alive = False
        self.session = None
        self.controller_epoch = 0
        self.last_push = (0, -1)
        self.image = ClusterImage()
        self.roles = {}
        self.elr = {}
        self.log_ends = {}
        self.failed_folders = set()
        self.deleted = []
        self.received = []
        seed = count(1000 * (broker_id + 1))
        self.controller = self.new_controller(seed)

    def new_controller(self, seed):
        config = self.cluster.config
        return Controller(self.id, config, entropy=lambda n: next(seed).to_bytes(n), has_features=self.has_features)

    def start(self):
        self.alive = True
        self.session = self.cluster.tree.session()
        endpoints = (
            Endpoint("PLAINTEXT", "PLAINTEXT", "host", 9000 + self.id),
            Endpoint("REPLICATION", "PLAINTEXT", "host", 9500 + self.id),
        )
        features = SUPPORTED if self.has_features else {}
        registration = tree.Registration(endpoints, self.rack, self.clean_epoch, features=features)
        create = Create(tree.broker_path(self.id), tree.format_registration(registration, 0), ephemeral=True)
        result = self.session.apply([create])
        assert result.outcome == "ok", result
        self.epoch = result.values[0].created
        self.clean_epoch = -1
        self.image = ClusterImage()
        self.run(self.controller.elect(self.session.session, self.epoch, self.cluster.now))

    def kill(self):
        """The process ends: the session with it; memory is lost, the log ends stay."""
        self.alive = False
        self.session.close()
        seed = count(1000 * (self.id + 1) + self.epoch * 17)
        self.controller = self.new_controller(seed)
        self.roles = {}
        self.controller_epoch = 0

    def lose_session(self):
        """The process goes on and registers again, with proof of what it has."""
        self.session.close()
        self.run(self.controller.session_lost(self.cluster.now))
        self.clean_epoch = self.epoch
        self.start()

    def stop_cleanly(self):
        self.clean_epoch = self.epoch
        self.kill()

    def run(self, effects):
        for effect in effects:
            match effect:
                case Store(token, operations):
                    self.cluster.stores.append((self, self.controller, token, operations, self.session))
                case PeerRequest(target, request, owner, token):
                    assert owner == "controller"
                    self.cluster.messages.append((self, self.controller, target, request, token))
                case Reply(token, response):
                    self.cluster.replies[token] = response
                case Event():
                    self.cluster.events.append(effect)
                case DropChannels():
                    pass
                case _:
                    raise AssertionError(effect)

    def receive(self, request):
        self.received.append(request)
        if isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest):
            place = (request.controller_epoch, request.push_number)
            assert place > self.last_push or place[0] < self.last_push[0], "its pushes ascend within its epoch"
            self.last_push = max(self.last_push, place)
            refusal = self.refusal(request)
            if refusal:
                return type_of_answer(request)(error_code=refusal)
            self.controller_epoch = request.controller_epoch
            if isinstance(request, LeaderAndIsrRequest):
                return self.take_roles(request)
            if isinstance(request, UpdateMetadataRequest):
                self.image.apply(request)
                self.image.check_invariants()
                self.delete_stray_replicas()
                return UpdateMetadataResponse()
            return self.delete_replicas(request)
        return self.tell_log_ends(request)

    def refusal(self, request):
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.STALE_BROKER_EPOCH if request.broker_epoch != self.epoch else 0

    def take_roles(self, request):
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                key = (topic.topic_name, state.partition_index)
                assert self.id in state.replicas
                held = self.roles.get(key)
                code = 0
                if key in self.failed_folders:
                    code = ErrorCode.KAFKA_STORAGE_ERROR
                elif held is None or (state.leader_epoch, state.partition_epoch) > held[1:3]:
                    self.roles[key] = (state.leader, state.leader_epoch, state.partition_epoch, list(state.isr))
                    self.elr[key] = list(state.elr)
                    self.log_ends.setdefault(key, (-1, 0))
                errors.append(LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code))
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def delete_replicas(self, request):
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                assert state.delete_partition
                key = (topic.topic_name, state.partition_index)
                held = self.roles.get(key)
                if held is not None and 0 <= state.leader_epoch < held[1]:
                    continue
                if key in self.failed_folders:
                    code = ErrorCode.KAFKA_STORAGE_ERROR
                    errors.append(StopReplicaPartitionError(topic_name=key[0], partition_index=key[1], error_code=code))
                    continue
                self.roles.pop(key, None)
                self.log_ends.pop(key, None)
                self.deleted.append(key)
        return StopReplicaResponse(partition_errors=errors)

    def delete_stray_replicas(self):
        """Replicas that a newer state gives to others."""
        for key in list(self.log_ends):
            known = self.image.partition(*key)
            held = self.roles.get(key, (-1, -1, -1))
            newer = known is not None and (known.leader_epoch, known.partition_epoch) > held[1:3]
            if newer and self.id not in known.replicas:
                self.roles.pop(key, None)
                del self.log_ends[key]
                self.deleted.append(key)

    def tell_log_ends(self, request):
        topics = []
        for topic in request.topics:
            ends = []
            for partition in topic.partitions:
                epoch, end = self.log_ends.get((topic.topic, partition.partition), (None, None))
                entry = EpochEndOffset(partition=partition.partition)
                role = self.roles.get((topic.topic, partition.partition))
                if epoch is None:
                    entry.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif role is None or role[1] != partition.current_leader_epoch:
                    entry.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
                else:
                    entry.leader_epoch, entry.end_offset = epoch, end
                ends.append(entry)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        return OffsetForLeaderEpochResponse(topics=topics, broker_epoch=self.epoch)


def type_of_answer(request):
    return {
        LeaderAndIsrRequest: LeaderAndIsrResponse,
        UpdateMetadataRequest: UpdateMetadataResponse,
        StopReplicaRequest: StopReplicaResponse,
    }[type(request)]


class FakeCluster:
    def __init__(self, brokers=3, racks=None, elr=False, **options):
        self.config = BrokerConfig({name.replace("_", "."): str(value) for name, value in options.items()})
        self.elr = elr
        self.tree = Tree()
        if elr:
            self.tree.change(founding(self.config), 0)
        self.ghost = Ghost(self.tree)
        self.now = Time(1_000_000, 1_700_000_000_000)
        self.stores = deque()
        self.messages = deque()
        self.replies = {}
        self.events = []
        self.tokens = count(1_000_000)
        self.outcomes = deque()
        self.store_count = 0
        self.brokers = {id_: FakeBroker(self, id_, racks and racks[id_]) for id_ in range(brokers)}

    def start(self):
        for broker in self.brokers.values():
            broker.start()
        self.settle()
        return self

    @property
    def leader(self):
        return next(broker for broker in self.brokers.values() if broker.alive and broker.controller.leading)

    @property
    def state(self):
        return self.leader.controller.active.term.cluster

    def partition(self, topic, index=0):
        return self.state.topics[topic].partitions[index]

    def kinds(self, kind):
        return [event.fields for event in self.events if event.kind == kind]

    def step_store(self):
        """Carry out one list of operations; `outcomes` may hold what becomes of it: (applied, answer)."""
        while not self.stores and self.run_timers(self.now.mono):
            pass  # a command that pauses goes on
        broker, controller, token, operations, session = self.stores.popleft()
        self.store_count += 1
        fate = self.outcomes.popleft() if self.outcomes else None
        if fate == "lost":
            result = StoreResult("unknown")
        else:
            result = session.apply(operations)
            if fate == "answer lost":
                result = StoreResult("unknown")
            active = controller.active
            self.ghost.look(active.term.cluster.lives if active else {})
        if broker.alive and broker.controller is controller:
            broker.run(controller.store_result(token, result, self.now))

    def step_message(self):
        sender, controller, target, request, token = self.messages.popleft()
        receiver = self.brokers[target]
        response = receiver.receive(request) if receiver.alive else None
        if sender.alive and sender.controller is controller:
            sender.run(controller.answered(token, response, self.now))

    def tell_events(self):
        moved = False
        for broker in self.brokers.values():
            if broker.alive:
                for path in broker.session.events():
                    broker.run(broker.controller.store_event(path, self.now))
                    moved = True
        return moved

    def settle(self, limit=5_000, timers=True):
        """Until nothing moves; timers due within a second are run."""
        end = self.now.mono + 1000
        for _ in range(limit):
            if self.stores:
                self.step_store()
            elif self.tell_events():
                pass
            elif self.messages:
                self.step_message()
            elif not timers or not self.run_timers(end):
                self.check()
                return
        raise AssertionError("the cluster does not settle")

    def by_hand(self, *operations):
        """What an operator does to the tree, and what follows from it."""
        assert self.tree.session().apply(operations).outcome == "ok"
        self.settle()

    def settle_if_alive(self):
        if any(broker.alive for broker in self.brokers.values()):
            self.settle(limit=20_000)

    def settle_without_leader(self):
        """All brokers are dead: what is under way is dropped."""
        assert not any(broker.alive for broker in self.brokers.values())
        self.stores.clear()
        self.messages.clear()

    def step_any(self):
        """One step of anything; else time goes on to the next timer."""
        if self.stores:
            self.step_store()
        elif not self.tell_events():
            if self.messages:
                self.step_message()
            else:
                self.run_timers(self.now.mono + 10_000)

    def expand(self, topic, index, broker):
        """The leader takes a caught-up replica into the ISR."""
        partition = self.partition(topic, index)
        leader = self.brokers[partition.state.leader]
        members = [*zip(partition.state.isr, partition.state.isr_epochs, strict=True)]
        members.append((broker, self.brokers[broker].epoch))
        answer = self.alter(leader, partition, members)
        assert answer.error_code == 0, answer

    def catch_up(self):
        """Every leader takes every replica that lives into the ISR, until nothing changes."""
        for _ in range(100):
            missing = [
                (p.name, broker)
                for p in self.state.partitions()
                for broker in p.replicas
                if p.state.leader != -1 and broker not in p.state.isr and self.brokers[broker].alive
            ]
            if not missing:
                return
            (topic, index), broker = missing[0]
            self.expand(topic, index, broker)
        raise AssertionError("the ISRs do not grow")

    def alter(self, leader, partition, members, **fields):
        """An AlterPartition of one partition; the partition's answer, or the whole one where it is an error."""
        epoch = fields.pop("broker_epoch", leader.epoch)
        topic = self.wish(partition, members, **fields)
        response = self.ask(AlterPartitionRequest(broker_id=leader.id, broker_epoch=epoch, topics=[topic]))
        return response if response.error_code else response.topics[0].partitions[0]

    def wish(self, partition, members, *, leader_epoch=None, partition_epoch=None, topic_id=None, index=None):
        """One partition's part of an AlterPartition, with the present epochs unless others are given."""
        state = partition.state
        wish = PartitionData(
            partition_index=partition.index if index is None else index,
            leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=partition.version if partition_epoch is None else partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in members],
        )
        return TopicData(topic_id=partition.topic.id if topic_id is None else topic_id, partitions=[wish])

    def run_timers(self, end):
        deadlines = [
            (deadline, broker.id)
            for broker in self.brokers.values()
            if broker.alive and (deadline := broker.controller.next_deadline) is not None
        ]
        if not deadlines or min(deadlines)[0] > end:
            return False
        deadline, id_ = min(deadlines)
        self.advance(max(0, deadline - self.now.mono))
        self.brokers[id_].run(self.brokers[id_].controller.wake(self.now))
        return True

    def advance(self, ms):
        self.now = Time(self.now.mono + ms, self.now.wall + ms)

    def check(self):
        for broker in self.brokers.values():
            if broker.alive and broker.controller.leading:
                broker.controller.active.term.cluster.check_invariants()

    def submit(self, request):
        token = next(self.tokens)
        leader = self.leader
        leader.run(leader.controller.handle(token, request, self.now))
        return token

    def ask(self, request):
        token = self.submit(request)
        self.settle()
        return self.replies.pop(token)

    def create(self, name, partitions=-1, factor=-1, assignments=None, configs=None, **flags):
        return self.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=factor,
                        assignments=[
                            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                            for index, replicas in (assignments or {}).items()
                        ],
                        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
                    )
                ],
                **flags,
            )
        ).topics[0]
