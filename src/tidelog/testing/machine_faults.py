"""Faults of a cluster's machines: disks, power, clocks; and leaders and in-sync sets moved by hand."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.partition.leader import Leader
from tidelog.partition.progress import LONG_AGO, UNKNOWN
from tidelog.shell.hosting import HostedBroker
from tidelog.testing.broker import Broker
from tidelog.testing.clocks import VirtualClock
from tidelog.testing.names import at_least
from tidelog.testing.request_faults import Numbers, RequestFaults
from tidelog.testing.requests import Fault
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)

PREFERRED = 0


class MachineFaults(RequestFaults):
    """What `Cluster` can do to machines, leaders and in-sync sets."""

    def full_disk(self, broker: int) -> Fault:
        """Let the broker's disk have no room: nothing new is written, everything is served. Brokers notice within a
        second that there is room again."""

        def fill(each: Broker, full: bool | None) -> None:
            each.disk.is_full = bool(full)

        return self._overlay(fill, {self.broker(broker): True}, f"full disk of broker {broker}")

    def slow_disk(self, broker: int, ms: float) -> Fault:
        """Let each write and each fsync of the broker take so much longer. A write stops the broker meanwhile."""
        at_least("ms", ms, 0)

        def slow_down(each: Broker, wait_s: float | None) -> None:
            each.disk.wait_s = wait_s or 0.0

        text = f"disk of broker {broker} slower by {ms:g} ms"
        return self._overlay(slow_down, {self.broker(broker): ms / 1000}, text)

    def lose_unflushed(self, broker: Numbers | None = None) -> None:
        """Cut the power of these brokers, or of all, at the same moment: what no fsync covered is gone. `start` starts
        them again. Like Kafka, brokers leave fsync to the operating system unless flush.messages says otherwise."""
        chosen: Sequence[Broker] = self._chosen(broker)
        for each in chosen:
            each.kill()
        for each in chosen:
            each.lose_unflushed()

    # Clock.

    def advance_clock(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: float = 0
    ) -> None:
        """Move the brokers' clocks on, and let them do what is then due: timeouts, retention, expiries. The clocks of
        clients, and sessions of brokers in the metadata store, are not touched.

        >>> cluster.advance_clock(hours=7)
        """
        step = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms)
        at_least("the time to advance, in ms", step, 1)
        self._check_open()
        self._change_clocks(lambda clock: clock.advance(step))

    def stop_clock(self) -> Fault:
        """Let time stand still for the brokers, until `heal` or the fault's end: only `advance_clock` moves it.

        >>> with cluster.stop_clock():
        ...     cluster.advance_clock(seconds=10)
        """
        self._check_open()

        def hold(each: Broker, stopped: bool | None) -> None:
            each.change_clock(VirtualClock.stop if stopped else VirtualClock.start)

        return self._overlay(hold, dict.fromkeys(self.brokers, True), "stopped clock")

    def reset_clock(self) -> None:
        """Set the brokers' clocks to the machine's again. A clock never goes back while its broker runs, so each broker
        whose clock was moved is restarted."""
        self._check_open()
        for each in [each for each in self.brokers if each.is_clock_moved]:
            was_running = each.is_running
            each.stop()
            each.reset_clock()
            if was_running:
                self.start(each.id)

    def _change_clocks(self, change: Callable[[VirtualClock], None]) -> None:
        for broker in self.brokers:
            broker.change_clock(change)

    # Leaders and in-sync sets.

    def elect(self, topic: str, partition: int = 0, *, leader: int) -> None:
        """Make this replica the leader, and return when every running broker knows it. It becomes the first of the
        partition's replicas. ApiError if it is not in sync.

        >>> cluster.elect("orders", 0, leader=2)
        """
        self.broker(leader)
        replicas = list(self._partition(topic, partition).replica_nodes)
        if leader not in replicas:
            raise ValueError(f"broker {leader} has no replica of {topic}-{partition}; expected one of {replicas}")
        order = [leader, *(replica for replica in replicas if replica != leader)]
        moved = ReassignableTopic(
            name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=order)]
        )
        chosen = [TopicPartitions(topic=topic, partitions=[partition])]
        with self.admin() as admin:
            response = admin.ask(AlterPartitionReassignmentsRequest(topics=[moved]))
            results = [each for found in response.responses for each in found.partitions]
            elected = admin.ask(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=chosen))
            results += [each for found in elected.replica_election_results for each in found.partition_result]
        for result in results:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                raise ApiError(ErrorCode(result.error_code), result.error_message)
        self._wait_until(
            lambda: all(self._partition(topic, partition, each.id).leader_id == leader for each in self._reachable),
            lambda: f"every broker knows {leader} as leader of {topic}-{partition}",
        )

    def shrink_isr(self, topic: str, partition: int = 0, *, without: Numbers) -> Fault:
        """Take followers out of the partition's in-sync set, and keep them out until `heal` or the fault's end: their
        leader refuses their fetches, of its other partitions too.

        >>> with cluster.shrink_isr("orders", 0, without=2):
        ...     assert cluster.in_sync("orders") == {0, 1}
        """
        out = [each.id for each in self._chosen(without)]
        found = self._partition(topic, partition)
        strangers = [number for number in out if number not in found.replica_nodes or number == found.leader_id]
        if strangers:
            followers = [number for number in found.replica_nodes if number != found.leader_id]
            raise ValueError(f"broker {strangers[0]} does not follow {topic}-{partition}; expected one of {followers}")
        leader = self.broker(found.leader_id)

        def shun(each: Broker, _: object) -> None:
            layers: Iterable[Sequence[int]] = self._layers[shun.__qualname__, each.id].values()
            each.wire.shunned = tuple(chain.from_iterable(layers))

        fault = self._overlay(shun, {leader: out}, f"in-sync set of {topic}-{partition} without {out}")
        for number in out:  # a fetch session that went on would not repeat the position of an idle follower
            self.broker(number).cut_peer(leader.id)
        leader.call(lambda hosted: _expel(hosted, TopicPartition(topic, partition), out))
        self._wait_until(
            lambda: not self.in_sync(topic, partition) & set(out),
            lambda: f"{out} leave the in-sync set of {topic}-{partition}, which is {self.in_sync(topic, partition)}",
        )
        return fault


def _expel(hosted: HostedBroker, name: TopicPartition, replicas: Sequence[int]) -> None:
    """Let the leader believe that these followers fell behind long ago."""
    node = hosted.node
    partition = node.replicas.get(*name)
    role = partition.role if partition is not None else None
    if partition is None or not isinstance(role, Leader) or hosted.server is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader of {name} changed meanwhile")
    for replica in replicas:
        role.remote[replica].caught_up_at = LONG_AGO
        role.remote[replica].log_end_offset = UNKNOWN

    def propose(now: Time) -> Sequence[Effect]:
        proposal = partition.propose_shrink(node.now, node.broker.broker_epoch)
        if proposal is not None:
            node.broker.propose(partition.name, proposal)
        return node.wake(now)

    hosted.server.notify(propose)
