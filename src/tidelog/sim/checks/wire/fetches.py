"""How far each follower has come, judged by its fetches as its leader got them, and by the leader's log.

A fetch counts in the leader epoch that it names, for the broker epoch that it names, and only where the follower's log
does not part from the leader's below it: where the leader's log has a batch of the same epoch that ends there.
"""

from tidelog.sim.checks.replica import Replica
from tidelog.sim.checks.wire.said import Fetched
from tidelog.sim.checks.wire.wire_tap import WireTap

NOWHERE = -1
NO_EPOCH = -1


class Fetches:
    def __init__(self, wire_tap: WireTap) -> None:
        self._overheard = wire_tap
        self._reached: dict[tuple[Replica, int], dict[tuple[int, int], int]] = {}

    def __repr__(self) -> str:
        return f"Fetches({len(self._reached)} leaderships)"

    def take_in(self, replica: Replica) -> None:
        """A leader took a step: what it had been asked for until then counts."""
        state = replica.state
        heard = self._overheard.fetched.get((replica.broker, replica.partition.name))
        if not heard or state is None or not state.leading:
            return
        reached = self._reached.setdefault((replica, state.epoch), {})
        for (epoch, follower, broker_epoch), places in list(heard.items()):
            if epoch > state.epoch:
                continue
            del heard[epoch, follower, broker_epoch]
            agreed = [fetched.offset for fetched in places if epoch == state.epoch and agrees(replica, fetched)]
            if agreed:
                key = (follower, broker_epoch)
                reached[key] = max(*agreed, reached.get(key, NOWHERE))

    def reached(self, leader: Replica, follower: int, broker_epoch: int) -> int:
        """The highest place that it fetched from in this leader epoch, with this broker epoch or a later one."""
        assert leader.state is not None
        found = self._reached.get((leader, leader.state.epoch), {})
        return max(
            (at for (who, life), at in found.items() if who == follower and life >= broker_epoch), default=NOWHERE
        )

    def forget(self, broker: int) -> None:
        for key in [key for key in self._reached if key[0].broker == broker]:
            del self._reached[key]


def agrees(leader: Replica, fetched: Fetched) -> bool:
    """Whether everything below the fetched place is as in the leader's log."""
    if fetched.offset > leader.log.end:
        return False
    if fetched.last_epoch == NO_EPOCH:
        return True
    last = leader.log.below(fetched.offset)
    assert leader.state is not None
    if last is None or fetched.offset <= leader.state.start or last.epoch == NO_EPOCH:
        return True  # nothing is left of what lay there
    return last.end == fetched.offset and last.epoch == fetched.last_epoch
