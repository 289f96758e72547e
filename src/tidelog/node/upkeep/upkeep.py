"""All upkeep of a broker's logs, as the node sees it: inputs from the disk's slow work, one clock."""

from tidelog.config.broker import BrokerConfig
from tidelog.effects import Effect
from tidelog.errors import DiskFailed
from tidelog.model import Time
from tidelog.node.broker_state import BrokerState
from tidelog.node.upkeep.cleaning import Cleaning
from tidelog.node.upkeep.disk_space import DiskSpace
from tidelog.node.upkeep.jobs import Jobs
from tidelog.node.upkeep.syncing import Syncing
from tidelog.ports import Disk


class Upkeep:
    """Of one broker. `out` is for the world, `effects` for the node."""

    def __init__(self, broker: BrokerState, disk: Disk, effects: list[Effect], out: list[Effect]) -> None:
        config, replicas = broker.config, broker.replicas
        self._replicas = replicas
        self._broker = broker
        self.jobs = Jobs(config, replicas, broker.in_sync, effects, lambda: broker.broker_epoch)
        self.syncing = Syncing(replicas, out)
        self.cleaning = Cleaning(config, replicas, out, self.jobs.note_compaction)
        self.disk_space = DiskSpace(replicas, disk, effects, self._has_room)
        self.relocations = broker.relocations
        self.woken = (self.jobs, self.syncing, self.cleaning, self.disk_space, self.relocations, broker.integrity)

    def __repr__(self) -> str:
        return f"<Upkeep {self.syncing!r}, {self.cleaning!r}, {self.disk_space!r}>"

    def start(self, now: Time) -> None:
        self.jobs.start(now)
        self.cleaning.start(now)
        self.relocations.resume(now)
        self._broker.integrity.start(now)

    def configure(self, config: BrokerConfig) -> None:
        """Options changed while the broker runs."""
        self.jobs.configure(config)
        self.cleaning.configure(config)
        self.relocations.configure()

    def synced(self, token: int, now: Time) -> None:
        """By a sync that a partition waited for, its high watermark may move, and it may fetch on. The disk may refuse
        what follows from a sync, too."""
        try:
            self._synced(token, now)
        except DiskFailed as failure:
            self._replicas.refused(failure)

    def _synced(self, token: int, now: Time) -> None:
        if token < 0:
            self.cleaning.synced(token, now)
        if self.relocations.synced(token, now):
            return
        partition = self.syncing.done(token, now)
        if partition is not None:
            partition.advance(now, self._broker.eligible)
            self._broker.fetching.follow(partition)

    def failed(self, token: int, folder: str, reason: str, now: Time) -> None:
        """A failed fsync is final: the folder goes offline."""
        self.syncing.failed(token)
        self.cleaning.sync_failed(token, now)
        self.relocations.sync_failed(token)
        self._replicas.folder_failed(folder, reason)

    def full(self, folder: str, reason: str) -> None:
        """A checkpoint found no room, and will be written again; the old one stands."""
        self.jobs.forget_written(folder)
        self._replicas.folder_full(folder, reason)

    def _has_room(self, folder: str) -> None:
        self.jobs.note_truncation()
        for partition in self._replicas.within(folder):
            self._broker.fetching.follow(partition)

    def close(self) -> None:
        self.cleaning.close()
