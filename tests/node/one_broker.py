"""One real `Node` on a simulated disk; the test is the controller, the other brokers, the clients and the clock.

Broker 0 is the node. `lead` and `follow` push roles as a controller does; `fetch_as` is another broker's fetch;
connection numbers are clients, and every answer is found by the number that `send` returned.
"""

from collections import deque
from random import Random

from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.effects import (
    Close,
    Compute,
    Connect,
    Event,
    Examine,
    Pause,
    PutBack,
    Remove,
    Replace,
    Retain,
    Send,
    SetConnectionLimits,
    SetLogLevels,
    Stop,
    Store,
    Sync,
    SyncFolders,
    carried_out,
)
from tidelog.errors import DiskFailed
from tidelog.log.examination import examine
from tidelog.model import Endpoint, Time, TopicPartition
from tidelog.node.log_dirs import sync_folders
from tidelog.node.node import Node
from tidelog.partition.truncation import KIP_320
from tidelog.ports import Children, Create, Write
from tidelog.sim.carry import read_part
from tidelog.sim.disk import SimDisk
from tidelog.sim.store import Tree
from tidelog.wire import codec
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import Record, build

CONTROLLER, CLIENT = 1, 2
TOPIC, TOPIC_ID = "t", b"topic-id-of-t...".ljust(16, b".")
WALL = 1_700_000_000_000
PUSHES = (4, 5, 6)
VERSIONS = {0: 9, 1: 17, 2: 7, 4: 7, 5: 4, 6: 8, 21: 2, 23: 4}


def values(*texts):
    """A client's batch."""
    return build([Record(0, WALL, b"k", text.encode()) for text in texts])


class OneBroker:
    def __init__(self, *, disk=None, folders=("/data",), generation=KIP_320, alive=(0, 1, 2), **options):
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        listeners = "PLAINTEXT://broker-0:9092,REPLICATION://broker-0:9093"
        own = {
            "node.id": "0",
            "log.dirs": ",".join(folders),
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION",
            "min.insync.replicas": "2",
        }
        self.disk = disk or SimDisk(list(folders), Random(0))
        endpoints = [Endpoint(name, "PLAINTEXT", "broker-0", port) for name, port in _PORTS.items()]
        config = BrokerConfig({**own, **given})
        self.work_ns = 0
        """What every handling of a request takes."""
        self._watch = 0
        self.node = Node(
            config,
            self.disk,
            endpoints,
            entropy=Random(1).randbytes,
            stopwatch=self._stopwatch,
            generation=generation,
        )
        self.now = Time(1_000, WALL)
        self.session = Tree().session()
        self.store_answers = True
        self.stores, self.syncs, self.events, self.asked = deque(), deque(), [], []
        self.examinations, self.folder_syncs, self.removed = deque(), deque(), []
        self.syncs_folders = True
        """Whether fsyncs of folders are done at once; else by `synced_folders`."""
        self.computations = deque()
        self.answers, self.closed, self.paused, self.retained = {}, [], {}, {}
        self.put_back, self.delivered_again = {}, 0
        """Frames that the broker put back, by connection; how often some were delivered again."""
        self.stopped = self.admission = None
        self.requests, self._waiting = 0, {}
        self._client_ids = {}
        self.pushes = 1_000_000
        """The last number of a push; the node has its own where it led first."""
        self.elects = True
        """Whether every controller that the test names was elected, as far as the broker knows."""
        self.give("start")
        self.connect(CONTROLLER, "REPLICATION")
        self.connect(CLIENT)
        if alive:  # otherwise it may lead itself
            self.live(*alive)

    # The world.

    def _stopwatch(self):
        self._watch += self.work_ns
        return self._watch

    def give(self, name, *arguments):
        self._carry_out(getattr(self.node, name)(*arguments, self.now))
        while self._has_work() or self._deliver_again():
            if self.examinations:
                token, stretch = self.examinations.popleft()
                self._carry_out(self.node.examined(token, examine(stretch), self.now))
                continue
            if self.syncs_folders and self.folder_syncs:
                self._carry_out(self._sync_folder(self.folder_syncs.popleft()))
            if self.store_answers and self.stores:
                store = self.stores.popleft()
                self._carry_out(self.node.store_result(store.token, self.session.apply(store.operations), self.now))
        self.node.check_invariants()

    def _has_work(self):
        stores = self.store_answers and self.stores
        return stores or self.examinations or (self.syncs_folders and self.folder_syncs)

    def _sync_folder(self, sync):
        """Carry out the fsync of a folder; the effects of the node."""
        try:
            sync_folders(self.disk, sync)
        except DiskFailed as failure:
            return self.node.disk_failed(sync.token, failure.folder, failure.reason, self.now)
        return self.node.synced(sync.token, self.now)

    def synced_folders(self, folder=None):
        """The fsync of this folder that is under way is done, or the oldest one."""
        sync = next(each for each in self.folder_syncs if folder in (None, *each.paths))
        self.folder_syncs.remove(sync)
        self._carry_out(self._sync_folder(sync))
        self.give("wake")

    def _deliver_again(self):
        """What the broker put back, on a connection that it reads; whether there was any."""
        connection = next((each for each in self.put_back if not self.paused.get(each)), None)
        if connection is None:
            return False
        self.delivered_again += 1
        views = [memoryview(bytearray(frame)) for frame in self.put_back.pop(connection)]
        self._carry_out(self.node.receive(connection, views, self.now))
        return True

    def _carry_out(self, effects):
        for effect in effects:
            match effect:
                case Store():
                    self.stores.append(effect)
                case Sync():
                    self.syncs.append(effect)
                case SyncFolders():
                    self.folder_syncs.append(effect)
                case Examine():
                    self.examinations.append(effect)
                case Compute():
                    self.computations.append(effect)
                case Event():
                    self.events.append(effect)
                case Send(connection, parts) if connection > 0:
                    self._answered(connection, b"".join(map(read_part, parts)))
                case Send(connection, parts):
                    self.asked.append((connection, codec.decode_request(b"".join(parts)[4:])))
                case Close(connection):
                    self.closed.append(connection)
                case Pause(connection, paused):
                    self.paused[connection] = paused
                case Retain(connection, size):
                    self.retained[connection] = size
                case PutBack(connection, frames):
                    self.put_back[connection] = [*map(bytes, frames), *self.put_back.get(connection, ())]
                case SetConnectionLimits():
                    self.admission = effect
                case SetLogLevels(levels):
                    self.loud = levels
                case Stop(reason):
                    self.stopped = reason
                case Connect(connection):
                    self.dialled = connection
                case Replace(_, path, content):
                    self.disk.replace(path, content)
                case Remove(path):
                    self.removed.append(path)

    def _answered(self, connection, data):
        while data:
            length = int.from_bytes(data[:4])
            number, key, version = self._waiting[connection].popleft()
            _, self.answers[number] = codec.decode_response(key, version, data[4 : 4 + length])
            data = data[4 + length :]

    def passes(self, ms):
        """Time passes, and the node is woken whenever it asked for it."""
        end = self.now.mono + ms
        while (due := self.node.next_deadline) is not None and due <= end:
            self._at(max(due, self.now.mono))
            self.give("wake")
        self._at(end)

    def _at(self, mono):
        self.now = Time(mono, self.now.wall + mono - self.now.mono)

    def synced(self):
        """The oldest fsync under way is done."""
        sync = self.syncs.popleft()
        for file in sync.files:
            file.sync()
        self.give("synced", sync.token)

    def computed(self):
        """The oldest work on a thread is done."""
        work = self.computations.popleft()
        self.give("computed", work.token, carried_out(work.function, work.arguments))

    def configure(self, entity, **options):
        """What stands below `/config` changes, as by a controller."""
        values = tree.format_config({name.replace("_", "."): str(value) for name, value in options.items()})
        path = f"{tree.CONFIG}/{entity}"
        if self.session.apply([Write(path, values)]).outcome != "ok":
            assert self.session.apply([Create(path, values)]).outcome == "ok"
        (listed,) = self.session.apply([Children(tree.CONFIG_CHANGES)]).values
        change = Create(tree.config_change_path(len(listed)), tree.format_config_change(entity))
        assert self.session.apply([change]).outcome == "ok"
        self.give("store_event", tree.CONFIG)

    def connect(self, number, listener="PLAINTEXT", principal="User:ANONYMOUS", client_id=None):
        self._waiting[number] = deque()
        self._client_ids[number] = client_id or ("broker-9" if listener == "REPLICATION" else "test")
        self.give("connected", number, listener, f"peer-{number}", principal)

    # Requests.

    def send(self, request, connection=CLIENT, version=None):
        """The number by which the answer is found in `answers`."""
        self.requests += 1
        key = request.__key__
        if key in PUSHES:
            self._push(request)
        version = VERSIONS[key] if version is None else version
        frame = b"".join(codec.encode_request(key, version, self.requests, self._client_ids[connection], request))[4:]
        if not (key == 0 and request.acks == 0):
            self._waiting[connection].append((self.requests, key, version))
        number = self.requests
        if connection in self.put_back:
            self.put_back[connection].append(frame)
            return number
        received = bytearray(frame)
        self.give("receive", connection, [memoryview(received)])
        received[:] = bytes(len(received))  # views of a frame are good for its turn only
        return number

    def _push(self, request):
        """The controller's next, unless the test numbered it."""
        if request.push_number < 0:
            self.pushes += 1
            request.push_number = self.pushes
        if self.elects:
            order = self.node.broker.pushes
            order.confirmed = max(order.confirmed, request.controller_epoch)

    def expects(self, request, version, connection=CLIENT):
        """The number of a request that the test sends by itself."""
        self.requests += 1
        self._waiting[connection].append((self.requests, request.__key__, version))
        return self.requests

    def ask(self, request, connection=CLIENT, version=None):
        """The answer, which must come at once."""
        return self.answers[self.send(request, connection, version)]

    def live(self, *brokers, **states):
        live = [
            UpdateMetadataBroker(
                id=broker,
                rack=f"rack-{broker}",
                endpoints=[
                    UpdateMetadataEndpoint(port=port, host=f"broker-{broker}", listener=name)
                    for name, port in _PORTS.items()
                ],
            )
            for broker in brokers
        ]
        request = UpdateMetadataRequest(controller_id=1, type=1, controller_epoch=1, live_brokers=live, **states)
        assert self.ask(request, CONTROLLER).error_code == 0

    def lead(self, isr=(0, 1, 2), **given):
        return self.assign(leader=0, isr=isr, **given)

    def follow(self, leader=1, isr=(0, 1, 2), **given):
        return self.assign(leader=leader, isr=isr, **given)

    def assign(
        self,
        leader,
        isr,
        *,
        replicas=(0, 1, 2),
        epoch=0,
        partition_epoch=0,
        topic_id=TOPIC_ID,
        index=0,
        by=1,
        topic=TOPIC,
        number=-1,
        elr=(),
        is_new=False,
    ):
        state = LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=by,
            leader=leader,
            leader_epoch=epoch,
            isr=list(isr),
            partition_epoch=partition_epoch,
            replicas=list(replicas),
            elr=list(elr),
            is_new=is_new,
        )
        states = [LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=[state])]
        request = LeaderAndIsrRequest(controller_id=1, controller_epoch=by, topic_states=states, push_number=number)
        return self.send(request, CONTROLLER)

    def delete(self, index=0, *, connection=CONTROLLER, **given):
        """The answer to a StopReplica that deletes a partition; it must come at once."""
        return self.answers[self.begin_delete(index, connection=connection, **given)]

    def begin_delete(self, index=0, *, by=1, connection=CONTROLLER, topic_id=TOPIC_ID, number=-1):
        state = StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=[state], topic_id=topic_id)
        request = StopReplicaRequest(controller_id=1, controller_epoch=by, topic_states=[topic], push_number=number)
        return self.send(request, connection)

    def produce(self, *texts, acks=-1, timeout_ms=30_000, connection=CLIENT, index=0, records=None, version=None):
        data = PartitionProduceData(index=index, records=records or values(*texts))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        return self.send(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic]), connection, version)

    def produced(self, number):
        """(error code, base offset), or None while there is no answer."""
        if number not in self.answers:
            return None
        answer = self.answers[number].responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    def fetch_as(self, replica, offset, *, epoch=0, last_epoch=None, log_start=0, connection=None, index=0, **more):
        """A follower's fetch without a session, and its partition's answer, or None while it waits."""
        connection = connection or 10 + replica
        if connection not in self._waiting:
            self.connect(connection, "REPLICATION")
        wanted = FetchPartition(
            partition=index,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=(epoch if offset else -1) if last_epoch is None else last_epoch,
            log_start_offset=log_start,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=100 + replica),
            max_wait_ms=more.pop("max_wait_ms", 0),
            min_bytes=1,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
            **more,
        )
        number = self.send(request, connection)
        return self.answers[number].responses[0].partitions[0] if number in self.answers else None

    def partition(self, index=0):
        return self.node.replicas.get(TOPIC, index)

    def name(self, index=0):
        return TopicPartition(TOPIC, index)


_PORTS = {"PLAINTEXT": 9092, "REPLICATION": 9093}
