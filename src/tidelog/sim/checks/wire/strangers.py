"""I21 (S): followers are answered only as assigned replicas with the current epochs. What they append is looked at in
`leadership`.
"""

from collections.abc import Sequence

from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica


def check(answers: Sequence[str]) -> None:
    """What `wire_tap` took for an answer to a stranger."""
    assert not answers, f"I21: {answers[0]}"


def check_remote(ghosts: Ghosts, replica: Replica, remote: Sequence[int]) -> None:
    """A leader keeps account of assigned replicas only."""
    others = set(remote) - set(replica.partition.replicas)
    assert not others, f"I21: {replica!r} keeps account of {sorted(others)}, which are not assigned: {ghosts!r}"
