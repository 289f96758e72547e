"""What each fault does to the arena, and what undoes it."""

import signal
from collections.abc import Callable, Iterable
from itertools import permutations
from typing import NamedTuple

from tidelog.check.chaos import schedule
from tidelog.check.chaos.arena import Arena
from tidelog.check.chaos.machine import Network
from tidelog.check.chaos.schedule import Planned

_Act = Callable[[Arena, tuple[int, ...]], None]
_Pairs = Iterable[tuple[int, int]]


class Fault(NamedTuple):
    begin: _Act
    cure: _Act


def _each(act: Callable[[Arena, int], None]) -> _Act:
    def run(arena: Arena, brokers: tuple[int, ...]) -> None:
        for broker in brokers:
            act(arena, broker)

    return run


def _signalled(number: signal.Signals) -> _Act:
    return _each(lambda arena, broker: arena.signal(broker, number))


def _on_pairs(act: Callable[[Network, int, int], None], pairs: Callable[[Arena, tuple[int, ...]], _Pairs]) -> _Act:
    def run(arena: Arena, brokers: tuple[int, ...]) -> None:
        assert arena.network is not None
        for source, target in pairs(arena, brokers):
            act(arena.network, source, target)

    return run


def _both_ways(_arena: Arena, brokers: tuple[int, ...]) -> _Pairs:
    first, second = brokers
    return [(first, second), (second, first)]


def _one_way(_arena: Arena, brokers: tuple[int, ...]) -> _Pairs:
    return [(brokers[0], brokers[1])]


def _from_all_others(arena: Arena, brokers: tuple[int, ...]) -> _Pairs:
    return [pair for pair in permutations(range(arena.brokers), 2) if brokers[0] in pair]


def _on_cable(act: Callable[[Network, int], None]) -> _Act:
    def run(arena: Arena, brokers: tuple[int, ...]) -> None:
        assert arena.network is not None
        act(arena.network, brokers[0])

    return run


def _between(act: Callable[[Arena, int, int], None]) -> _Act:
    return lambda arena, brokers: act(arena, *brokers)


FAULTS = {
    schedule.KILL: Fault(_each(Arena.kill), _each(Arena.start)),
    schedule.KILL_ALL: Fault(_each(Arena.kill), _each(Arena.start)),
    schedule.PAUSE: Fault(_signalled(signal.SIGSTOP), _signalled(signal.SIGCONT)),
    schedule.RESTART: Fault(_each(Arena.stop), _each(Arena.start)),
    schedule.FULL_DISK: Fault(_each(Arena.fill), _each(Arena.free)),
    schedule.CUT: Fault(_on_pairs(Network.cut, _both_ways), _on_pairs(Network.mend, _both_ways)),
    schedule.CUT_ONE_WAY: Fault(_on_pairs(Network.cut, _one_way), _on_pairs(Network.mend, _one_way)),
    schedule.ISOLATE: Fault(_on_pairs(Network.cut, _from_all_others), _on_pairs(Network.mend, _from_all_others)),
    schedule.UNPLUG: Fault(_on_cable(Network.unplug), _on_cable(Network.plug)),
    schedule.LATE: Fault(_between(Arena.hold), _between(Arena.let_pass)),
}


def begin(arena: Arena, planned: Planned) -> None:
    FAULTS[planned.kind].begin(arena, planned.brokers)


def cure(arena: Arena, planned: Planned) -> None:
    FAULTS[planned.kind].cure(arena, planned.brokers)
