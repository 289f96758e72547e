"""What followers fetched, as their leaders received it.

`Fetches`: how far each follower has come, judged by its fetches and by the leader's log. A fetch counts in the leader
epoch and for the broker epoch that it names, and only if the follower's log agrees with the leader's below it: the
leader's log has a batch of the same epoch that ends there.
I21 (S): only assigned replicas with the current epochs are answered. What they append is checked in `leadership`.
"""

from collections.abc import Sequence

from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica
from tidelog.sim.checks.wire.wire_tap import FetchPosition, WireTap

NEVER_FETCHED = -1
NO_EPOCH = -1


class Fetches:
    def __init__(self, wire_tap: WireTap) -> None:
        self._wire_tap = wire_tap
        self._reached: dict[tuple[Replica, int], dict[tuple[int, int], int]] = {}

    def __repr__(self) -> str:
        return f"Fetches({len(self._reached)} leaderships)"

    def update(self, replica: Replica) -> None:
        """Count what a leader had received when it took a step."""
        state = replica.state
        fetched_here = self._wire_tap.fetched.get((replica.broker, replica.partition.name))
        if not fetched_here or state is None or not state.leading:
            return
        reached = self._reached.setdefault((replica, state.epoch), {})
        for (epoch, follower, broker_epoch), positions in list(fetched_here.items()):
            if epoch > state.epoch:
                continue
            del fetched_here[epoch, follower, broker_epoch]
            agreed = [fetched.offset for fetched in positions if epoch == state.epoch and agrees(replica, fetched)]
            if agreed:
                key = (follower, broker_epoch)
                reached[key] = max(*agreed, reached.get(key, NEVER_FETCHED))

    def reached(self, leader: Replica, follower: int, broker_epoch: int) -> int:
        """Return the highest offset fetched in this leader epoch with this broker epoch or a later one."""
        assert leader.state is not None
        found = self._reached.get((leader, leader.state.epoch), {})
        return max(
            (at for (who, life), at in found.items() if who == follower and life >= broker_epoch), default=NEVER_FETCHED
        )

    def forget(self, broker: int) -> None:
        for key in [key for key in self._reached if key[0].broker == broker]:
            del self._reached[key]


def agrees(leader: Replica, fetched: FetchPosition) -> bool:
    """Whether the follower's log below the fetched position equals the leader's."""
    if fetched.offset > leader.log.end:
        return False
    if fetched.last_epoch == NO_EPOCH:
        return True
    last = leader.log.below(fetched.offset)
    assert leader.state is not None
    if last is None or fetched.offset <= leader.state.start or last.epoch == NO_EPOCH:
        return True  # the records below were deleted
    return last.end == fetched.offset and last.epoch == fetched.last_epoch


def check_unassigned(answers: Sequence[str]) -> None:
    """I21: no follower was answered that is not assigned or has another epoch (as `wire_tap` found)."""
    assert not answers, f"I21: {answers[0]}"


def check_remote(ghosts: Ghosts, replica: Replica, remote: Sequence[int]) -> None:
    """I21: a leader tracks assigned replicas only."""
    others = set(remote) - set(replica.partition.replicas)
    assert not others, f"I21: {replica!r} tracks {sorted(others)}, which are not assigned: {ghosts!r}"
