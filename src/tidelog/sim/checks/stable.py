"""I27 (S): the last stable offset ascends. What a leader once told as stable stays stable for all that follow, as soon
as their high watermark reaches the first offset of their epoch; before that it may be behind (REPLICATION.md, rule 9).
Of a transaction that began below the log's start only those know who held its beginning: they wait there for its end.
I1 (S): it lies between the log's start and the high watermark.
"""

from tidelog.sim.checks.committed import is_current_leader
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica


def check(ghosts: Ghosts, replica: Replica) -> None:
    state, ghost, stable = replica.state, ghosts.of(replica.partition.name), replica.partition.last_stable_offset
    assert state is not None
    right = state.start <= stable <= max(state.high_watermark, state.start)
    assert right, f"I1: {replica!r} has the last stable offset {stable}"
    if not state.leading or ghost.loss_allowed or not is_current_leader(ghosts, replica):
        return
    if state.high_watermark >= ghost.starts[state.epoch]:
        told = ghost.told_stable
        begun_below = 0 < state.start == stable
        assert stable >= told or begun_below, (
            f"I27: the last stable offset of {replica!r} goes back from {told} to {stable}"
        )
        if not begun_below:  # it tells that nothing is left to read below, not that it is stable (seed 111311)
            ghost.told_stable = stable
