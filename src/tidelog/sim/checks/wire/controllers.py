"""I48 (S): a fenced controller commits nothing (rule 7).

Once the store knows a newer controller epoch, it applies no write of an older one. No broker accepts a push from a
controller that it knows to be replaced or that the store never knew, or one that is older than the last it accepted.

A write belongs to the session that submitted it. What a broker knew about controllers when a push arrived came from the
store; whether it accepted the push is in its response on the wire.
"""

from collections.abc import Iterable

from tidelog.controller import tree
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.wire.wire_tap import AnsweredPush
from tidelog.sim.host import Host
from tidelog.sim.store import Tree

CONTROLLERS_ONLY = (f"{tree.TOPICS}/", f"{tree.DELETE_TOPICS}/", f"{tree.CONFIG}/")
"""Paths that only the controller writes."""

PushPosition = tuple[int, int]
"""A controller epoch, and the number of a push within it."""


class Controllers:
    """`elected_session` was elected last; `accepted` has the newest push that each life of a broker accepted."""

    def __init__(self) -> None:
        self.elected_session = 0
        self.accepted: dict[tuple[int, int], PushPosition] = {}

    def __repr__(self) -> str:
        return f"Controllers(session {self.elected_session} leads)"

    def check_write(self, given: Tree, paths: Iterable[str], *, is_broker: bool) -> None:
        """Check the last change of the tree. `paths` were changed; `is_broker`: a broker's session wrote them."""
        elected = given.nodes.get(tree.CONTROLLER)
        touched = list(paths)
        if elected is not None and elected.session:
            self.elected_session = elected.session
        elif elected is not None and tree.CONTROLLER in touched:  # not ephemeral with a metadata quorum
            self.elected_session = given.writer
        found = next((path for path in touched if path.startswith(CONTROLLERS_ONLY)), None)
        assert found is None or not is_broker or given.writer == self.elected_session, (
            f"I48: session {given.writer} wrote {found}, while {self.elected_session} was elected controller since"
        )

    def check_pushes(self, ghosts: Ghosts, host: Host, pushes: Iterable[AnsweredPush]) -> None:
        """Check the pushes that a broker answered in its last step."""
        life = host.broker_id, host.lives
        for push in pushes:
            if push.code:
                continue
            position, last = (push.epoch, push.number), self.accepted.get(life, (0, -1))
            assert push.epoch <= ghosts.controller_epoch, (
                f"I48: {host.name} accepts {push} from a controller that the store does not know"
            )
            assert push.epoch >= push.known, f"I48: {host.name} accepts {push}, although it knew a newer controller"
            assert position > last or (position == last and push.number < 0), (
                f"I48: {host.name} accepts {push} after {last[1]} of epoch {last[0]}"
            )
            self.accepted[life] = position
