"""What each fault does to the cluster, and how it is healed."""

import signal
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import NamedTuple

from tidelog.check.chaos import schedule
from tidelog.check.chaos.cluster import ChaosCluster
from tidelog.check.chaos.machine import Network
from tidelog.check.chaos.schedule import PlannedFault

_Act = Callable[[ChaosCluster, tuple[int, ...]], None]
_Pairs = Iterable[tuple[int, int]]


class Fault(NamedTuple):
    begin: _Act
    heal: _Act


def _each(act: Callable[[ChaosCluster, int], None]) -> _Act:
    def run(cluster: ChaosCluster, brokers: tuple[int, ...]) -> None:
        for broker in brokers:
            act(cluster, broker)

    return run


def _signalled(number: signal.Signals) -> _Act:
    return _each(lambda cluster, broker: cluster.signal(broker, number))


def _on_pairs(
    act: Callable[[Network, int, int], None], pairs: Callable[[ChaosCluster, tuple[int, ...]], _Pairs]
) -> _Act:
    def run(cluster: ChaosCluster, brokers: tuple[int, ...]) -> None:
        assert cluster.network is not None
        for source, target in pairs(cluster, brokers):
            act(cluster.network, source, target)

    return run


def _both_ways(_cluster: ChaosCluster, brokers: tuple[int, ...]) -> _Pairs:
    first, second = brokers
    return [(first, second), (second, first)]


def _one_way(_cluster: ChaosCluster, brokers: tuple[int, ...]) -> _Pairs:
    return [(brokers[0], brokers[1])]


def _from_all_others(cluster: ChaosCluster, brokers: tuple[int, ...]) -> _Pairs:
    return [pair for pair in permutations(range(cluster.brokers), 2) if brokers[0] in pair]


def _on_cable(act: Callable[[Network, int], None]) -> _Act:
    def run(cluster: ChaosCluster, brokers: tuple[int, ...]) -> None:
        assert cluster.network is not None
        act(cluster.network, brokers[0])

    return run


def _between(act: Callable[[ChaosCluster, int, int], None]) -> _Act:
    return lambda cluster, brokers: act(cluster, *brokers)


FAULTS = {
    schedule.KILL: Fault(_each(ChaosCluster.kill), _each(ChaosCluster.start)),
    schedule.KILL_ALL: Fault(_each(ChaosCluster.kill), _each(ChaosCluster.start)),
    schedule.PAUSE: Fault(_signalled(signal.SIGSTOP), _signalled(signal.SIGCONT)),
    schedule.RESTART: Fault(_each(ChaosCluster.stop), _each(ChaosCluster.start)),
    schedule.FULL_DISK: Fault(_each(ChaosCluster.fill), _each(ChaosCluster.free)),
    schedule.CUT: Fault(_on_pairs(Network.cut, _both_ways), _on_pairs(Network.restore, _both_ways)),
    schedule.CUT_ONE_WAY: Fault(_on_pairs(Network.cut, _one_way), _on_pairs(Network.restore, _one_way)),
    schedule.ISOLATE: Fault(_on_pairs(Network.cut, _from_all_others), _on_pairs(Network.restore, _from_all_others)),
    schedule.UNPLUG: Fault(_on_cable(Network.unplug), _on_cable(Network.plug)),
    schedule.LATE: Fault(_between(ChaosCluster.hold), _between(ChaosCluster.stop_holding)),
}


def begin(cluster: ChaosCluster, planned: PlannedFault) -> None:
    FAULTS[planned.kind].begin(cluster, planned.brokers)


def heal(cluster: ChaosCluster, planned: PlannedFault) -> None:
    FAULTS[planned.kind].heal(cluster, planned.brokers)
