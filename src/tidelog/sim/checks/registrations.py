"""I17, in part: a broker that shows a clean shutdown had ended cleanly, in the life before the one that says so.

A registration is of the life whose session made it. It may reach the store when that life is over: it says nothing of
how that one ended. A life that was over before its first step was done (its disk refused, or was cut off) heard of
nobody and changed nothing: what the one before it left stands, as with a Kafka broker that ends before its logs are
loaded.
"""

from dataclasses import dataclass, field

NO_CLEAN_EPOCH = -1
STOPPED = "stop"


@dataclass(slots=True)
class Lifetime:
    """With which epochs a life registered, and how it ended. One that was cut short in a wished stop may have left the
    proof of it already, which comes last."""

    epochs: set[int] = field(default_factory=set)
    ended_by: str = ""


class Registrations:
    """Lives are numbered from 1 on, for each broker."""

    def __init__(self) -> None:
        self.life_of: dict[int, int] = {}
        """Which life has a session with the store."""
        self._lives: dict[tuple[int, int], Lifetime] = {}

    def __repr__(self) -> str:
        return f"Registrations({len(self._lives)} lives)"

    def opened(self, session: int, life: int) -> None:
        self.life_of[session] = life

    def ended(self, broker: int, life: int, how: str, *, stopping: bool = False, stillborn: bool = False) -> None:
        if stillborn:
            self._lives[broker, life] = self._of(broker, life - 1)
        else:
            self._of(broker, life).ended_by = STOPPED if stopping else how

    def check(self, broker: int, session: int, epoch: int, clean_epoch: int) -> None:
        """A registration is new in the tree."""
        life = self.life_of.get(session, 0)
        before = self._lives.get((broker, life - 1), Lifetime())
        right = clean_epoch == NO_CLEAN_EPOCH or (before.ended_by == STOPPED and clean_epoch in before.epochs)
        assert right, (
            f"I17: broker {broker} shows that {clean_epoch} ended cleanly; the life before ({before.epochs}) "
            f"ended by {before.ended_by or 'nothing'}"
        )
        self._of(broker, life).epochs.add(epoch)

    def _of(self, broker: int, life: int) -> Lifetime:
        return self._lives.setdefault((broker, life), Lifetime())
