"""The atlas of faults: which broker may be hit by what now, so that one good copy is kept.

Invariants: a broker's unsynced data go only where the ghosts still forbid loss afterwards, so that a lost record is
always a bug. A broker that is `doomed` (its power goes within this moment) counts as having lost already: two are never
judged as if each were alone. So does a replica with rot, for the next unclean start may cut its log there. In a
reckless seed everybody may be hit at any time, and the ghosts say what may be lost.
"""

from collections.abc import Collection

from tidelog.model import TopicPartition
from tidelog.sim.checks.ghosts import Ghost, Ghosts
from tidelog.sim.faults import GO_ON, KILL, POWER, REFUSE
from tidelog.sim.host import Host


class Atlas:
    def __init__(self, ghosts: Ghosts, *, reckless: bool) -> None:
        self.ghosts = ghosts
        self.reckless = reckless
        self.doomed: set[int] = set()

    def __repr__(self) -> str:
        return f"<atlas{', reckless' if self.reckless else ''}, doomed {sorted(self.doomed)}>"

    def may_lose(self, host: Host, held: Collection[TopicPartition] | None = None) -> bool:
        """Whether the broker's unsynced data, or all it has of these partitions, may go without loss becoming
        legitimate."""
        return self.reckless or self.spares(host, held)

    def spares(self, host: Host, held: Collection[TopicPartition] | None = None) -> bool:
        """As `may_lose`, in a reckless seed, too."""
        gone = {host.broker_id} | self.doomed
        return all(
            self._survives(ghost, gone)
            for ghost in map(self.ghosts.of, self.ghosts.assignments)
            if host.broker_id in self.ghosts.assignments[ghost.name] and (held is None or ghost.name in held)
        )

    def _survives(self, ghost: Ghost, gone: Collection[int]) -> bool:
        lossy = ghost.lossy.union(gone, self.ghosts.rotten(ghost.name))
        state = self.ghosts.states.get(ghost.name)
        return len(lossy) < ghost.min_in_sync and (state is None or not lossy.issuperset(state.isr))

    def doom(self, host: Host) -> bool:
        """Whether the broker's power may go right now; then it is as good as gone."""
        if self.may_lose(host):
            self.doomed.add(host.broker_id)
            return True
        return False

    def ended(self, host: Host) -> None:
        """What was to come to it has come: from here on the ghosts know."""
        self.doomed.discard(host.broker_id)

    # Verdicts that a disk asks for at the moment of a fault.

    def power_or_kill(self, host: Host) -> str:
        return POWER if self.doom(host) else KILL

    def lossy_refusal(self, host: Host) -> str:
        """A failed fsync has lost what was dirty, whatever the next one says: it counts as a loss of power."""
        if not self.may_lose(host):
            return GO_ON
        self.ghosts.lost_power(host.broker_id)
        return REFUSE
