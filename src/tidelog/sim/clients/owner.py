"""I50 (S): who alone has a transactional id is not fenced, except by the time-out of its transaction.

A request for the id itself (InitProducerId) of which nobody knows what became may come through late, and fence whoever
has the id by then: from then on nothing is claimed.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.checks.ghosts import Ghosts

FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Owner:
    """The only application that ever asks for the transactional id, through all of its lives."""

    def __init__(self, ghosts: Ghosts, transactional_id: str) -> None:
        self.ghosts = ghosts
        self.transactional_id = transactional_id
        self.is_doubtful = False
        self._breaks: int | None = None
        self._overdue = 0

    def __repr__(self) -> str:
        return f"<owner of {self.transactional_id}{', in doubt' if self.is_doubtful else ''}>"

    def asks(self, breaks: int) -> None:
        """For the id; so many connections had broken."""
        self._breaks, self._overdue = breaks, self.ghosts.overdue[self.transactional_id]

    def has_it(self, breaks: int) -> None:
        """The id is there; in doubt where it may have been asked for more than once."""
        self.is_doubtful |= breaks != self._breaks
        self._breaks = None

    def ends(self, error: ErrorCode) -> None:
        """A life is over, with this error or none."""
        self.is_doubtful |= self._breaks is not None
        ghosts = self.ghosts
        excused = self.is_doubtful or ghosts.aged or self._overdue != ghosts.overdue[self.transactional_id]
        if error in FENCED and not excused:
            assert ghosts.with_losses(), f"I50: {self.transactional_id} has one owner, and was told {error.name}"
