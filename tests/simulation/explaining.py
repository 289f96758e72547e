"""`explain` in a simulated cluster: the same gatherer and rules, asking the simulated brokers' own handlers.

A request is decoded from the bytes that a client would send, served by the handler of its API, and answered from bytes.
Only requests that read are asked, outside of any step, so a run is the same with and without them: no action is
scheduled, nothing random is drawn, and the disks do not count operations. Groups and transactions are not asked, because
their coordinators would answer by effects.
"""

from importlib import import_module
from types import GeneratorType

from tidelog.api.context import PENDING, Context
from tidelog.api.registry import APIS
from tidelog.controller.commands.reassignment import list_reassignments
from tidelog.effects import CONTROLLER, Deferred
from tidelog.errors import ErrorCode
from tidelog.explain.core.broker_rules import SKEW_MS
from tidelog.explain.core.diagnosis import diagnose
from tidelog.explain.core.finding import Subject
from tidelog.explain.gathering.asking import Answer, Pause
from tidelog.explain.gathering.evidence import THROTTLED, gather
from tidelog.sim.host import PRINCIPAL, WALL_START
from tidelog.sim.world import CLIENT_LISTENER
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.topics.reassignments import ListPartitionReassignmentsRequest

READING = {2, 3, 32, 35, 61, 10_000}
"""ListOffsets, Metadata, DescribeConfigs, DescribeLogDirs, DescribeProducers, BrokerReport: their handlers only read."""


def evidence_of(cluster):
    """What `explain cluster` would learn at this moment."""
    world = cluster.world
    steps = gather(lambda _: True, watch_ms=0, patience_ms=0)
    wall = WALL_START + world.micros // 1000
    for host in world.hosts:
        host.disk.quiet = True
    try:
        turn = next(steps)
        while True:
            turn = steps.send(() if isinstance(turn, Pause) else [_answer(world, ask, wall) for ask in turn])
    except StopIteration as done:
        return done.value[0]
    finally:
        for host in world.hosts:
            host.disk.quiet = False


def _answer(world, ask, wall):
    running = [host for host in world.hosts if host.running]
    if isinstance(ask.request, ListPartitionReassignmentsRequest):
        leading = [host for host in running if host.node.broker.controller.active is not None]
        if ask.target == CONTROLLER and leading:
            return Answer(_finished(list_reassignments(leading[0].node.broker.controller.active.term, ask.request)))
        return Answer(error=ErrorCode.REQUEST_TIMED_OUT)
    if ask.request.__key__ not in READING:
        return Answer(error=ErrorCode.UNSUPPORTED_VERSION)
    hosts = [host for host in running if ask.target in (-1, host.broker_id) and host.node.knows_cluster]
    if not hosts:
        return Answer(error=ErrorCode.BROKER_NOT_AVAILABLE)
    return _served(hosts[0], ask.request, wall)


def _served(host, request, wall):
    key, version = request.__key__, SCHEMAS[request.__key__].max_version
    frame = b"".join(map(bytes, codec.encode_request(key, version, 1, "explain", request)))
    header, request = codec.decode_request(memoryview(frame)[4:])
    context = Context(
        host.node.broker, host.now(), version, header.client_id, -1, CLIENT_LISTENER, "explain", PRINCIPAL, -1, []
    )
    api = APIS[key]
    response = getattr(import_module(f"tidelog.api.{api.module}"), api.function)(request, context)
    if type(response) is GeneratorType:
        response = _finished(response)
    if response is PENDING or isinstance(response, Deferred):
        return Answer(error=ErrorCode.REQUEST_TIMED_OUT)
    data = b"".join(map(bytes, codec.encode_response(key, version, 1, response)))
    return Answer(codec.decode_response(key, version, memoryview(data)[4:])[1], began_ms=wall, ended_ms=wall)


def _finished(steps):
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return done.value


class Explained:
    """What `explain` said of one run: `missed` are standing faults that it did not name, `wrong` problems that it found
    once all was healed; `named` counts what it named. `unhealed`: a broker was down again at the end."""

    def __init__(self):
        self.missed, self.wrong, self.named, self.unhealed = [], [], {}, 0
        self.cluster = None

    def watch(self, cluster):
        """Look at the cluster at the end of the safety phase, before everything is healed."""
        self.cluster, heal = cluster, cluster.heal

        def look_then_heal():
            self._look()
            heal()

        cluster.heal = look_then_heal

    def _look(self):
        if not any(host.running and host.node.knows_cluster for host in self.cluster.world.hosts):
            return  # nobody can be asked: status 3
        evidence = evidence_of(self.cluster)
        for subject, kinds in standing_faults(self.cluster, evidence):
            found = {finding.kind for finding in diagnose(evidence, subject)}
            for kind in found & kinds:
                self.named[kind] = self.named.get(kind, 0) + 1
            if not found & kinds:
                self.missed.append((self.cluster.world.seed, str(subject), sorted(kinds), sorted(found)))

    def check_health(self):
        """Once everything is healed: no problems but those that healing leaves, since they are not faults of brokers."""
        if not all(host.running and host.node.knows_cluster for host in self.cluster.world.hosts):
            self.unhealed += 1
            return
        evidence = evidence_of(self.cluster)
        left = left_by_healing(self.cluster, evidence)
        for subject in subjects(evidence):
            found = [finding for finding in diagnose(evidence, subject) if finding.is_problem]
            self.wrong += [(self.cluster.world.seed, each) for each in found if (each.subject, each.kind) not in left]
            expected = {kind for about, kind in left if about == subject}
            if missed := expected - {each.kind for each in found}:
                self.missed.append((self.cluster.world.seed, str(subject), sorted(missed), "healed"))


PARTITION = {
    "partition.offline",
    "partition.leader-silent",
    "partition.leader-refuses",
    "partition.storage-failed",
    "partition.storage-full",
}


def standing_faults(cluster, evidence):
    """(subject, kinds of which one must be found), by what the simulator itself knows."""
    world, ghosts = cluster.world, cluster.suite.ghosts
    running = {host.broker_id: host for host in world.hosts if host.running and host.node.knows_cluster}
    asked = {broker: host for broker, host in running.items() if evidence.is_alive(broker)}
    for broker in running.keys() - asked.keys():
        assert broker not in evidence.brokers or not evidence.brokers[broker].address, "whom others name is asked"
    for broker in evidence.brokers.keys() - asked.keys():
        yield Subject("broker", str(broker)), {"broker.down"}
    if not any(host.node.broker.controller.leading for host in asked.values()):
        yield Subject("cluster"), {"cluster.no-controller", "cluster.quorum-without-majority"}
    voters = {voter for host in asked.values() if host.node.quorum for voter, _ in host.node.quorum.controllers}
    if 2 * len(voters & asked.keys()) <= len(voters) > 0:
        yield Subject("cluster"), {"cluster.quorum-without-majority"}
    for broker, host in asked.items():
        subject = Subject("broker", str(broker))
        replicas = host.node.replicas
        if len(replicas.live_folders) < len(host.node.broker.config.folders):
            yield subject, {"broker.folder-offline"}
        if any(folder in replicas.live_folders for folder in replicas.full):
            yield subject, {"broker.folder-full"}
        if host.silence and host.node.store.is_silent:
            yield subject, {"broker.store-silent", "cluster.store-silent", "cluster.quorum-without-majority"}
    yield from ((subject, {"broker.clock-skew"}) for subject in skewed(asked.values()))
    known = {name for seen in evidence.brokers.values() if seen.answers for name in evidence.partitions}
    for name, state in ghosts.states.items():
        leads = state.leader in asked and name in {each.name for each in asked[state.leader].node.replicas}
        told = name in known and evidence.partitions[name].epoch >= state.leader_epoch  # else no broker knows it yet
        if told and name.topic not in ghosts.deleting and not leads:
            yield Subject("partition", str(name)), PARTITION


def skewed(hosts):
    """Brokers whose clocks differ from the one in the middle."""
    walls = sorted((host.now().wall, host.broker_id) for host in hosts)
    middle = walls[(len(walls) - 1) // 2][0]
    return [Subject("broker", str(broker)) for wall, broker in walls if abs(wall - middle) >= SKEW_MS]


def left_by_healing(cluster, evidence):
    """(subject, kind) of what healing does not end: wrong clocks, throttles that an operator set, topics that were
    created with fewer replicas than they need in sync, and logs that were not compacted for want of room, until the
    next attempt."""
    ghosts = cluster.suite.ghosts
    left = {(subject, "broker.clock-skew") for subject in skewed(cluster.world.hosts)}
    for topic in {name.topic for name in evidence.partitions}:
        moves = any(name.topic == topic for name in evidence.moves)
        if not moves and any(ghosts.overrides.get(topic, {}).get(option) for option in THROTTLED):
            left.add((Subject("topic", topic), "topic.throttle-left"))
    for host in cluster.world.hosts:
        for name in host.node.broker.uncleanable.keys() & evidence.partitions.keys():
            left.add((Subject("partition", str(name)), "partition.uncleanable"))
    for name, seen in evidence.partitions.items():
        if len(ghosts.assignments[name]) < seen.min_insync:
            left.add((Subject("partition", str(name)), "partition.too-few-in-sync"))
    return left


def subjects(evidence):
    yield from (Subject("broker", str(broker)) for broker in evidence.brokers)
    yield from (Subject("topic", topic) for topic in {name.topic for name in evidence.partitions})
    yield from (Subject("partition", str(name)) for name in evidence.partitions)
