"""Situations made by hand: what brokers, their logs and the metadata tree would look like if something were wrong."""

from types import SimpleNamespace

from tidelog.controller.tree import LeadershipState
from tidelog.log.epochs import EpochCache
from tidelog.log.producers import Producers
from tidelog.model import TopicPartition
from tidelog.partition.truncation import KIP_320, EpochEnd
from tidelog.sim.checks.ghosts import Ghosts
from tidelog.sim.checks.replica import Replica, State
from tidelog.sim.checks.wire.followers import Fetches
from tidelog.sim.checks.wire.wire_tap import FetchPosition, WireTap
from tidelog.wire import records

NAME = TopicPartition("t", 0)
REPLICAS = (0, 1, 2)
LIVES = {0: 10, 1: 11, 2: 12}
"""Broker epochs."""


def state(leader=0, epoch=1, isr=REPLICAS, epochs=None, controller=1):
    return LeadershipState(leader, epoch, tuple(isr), tuple(epochs or (LIVES[b] for b in isr)), controller)


def ghosts(given=None, *, lives=None):
    """A cluster of three whose partition has this state; all of them live."""
    made = Ghosts()
    made.assignments[NAME] = REPLICAS
    made.topic_ids["t"] = b"T" * 16
    made.states[NAME] = given or state()
    made.partition_epochs[NAME] = 5
    made.epochs = dict(lives if lives is not None else LIVES)
    made.registered = dict.fromkeys({**LIVES, **made.epochs}.items(), -1)
    ghost = made.of(NAME)
    ghost.min_in_sync = 2
    ghost.leaders[1], ghost.starts[1] = 0, 0
    return made


def replica(broker=0, batches=(), *, epochs=(), high_watermark=None, epoch=1, isr=None, proposal=None, **numbers):
    """`batches`: (records, epoch) or (records, epoch, crc); with an ISR it leads."""
    cache = EpochCache(epochs)
    log = SimpleNamespace(epochs=cache, producers=Producers(), topic_id=b"T" * 16, folder="/data/t-0")
    partition = SimpleNamespace(
        name=NAME,
        broker_id=broker,
        log=log,
        replicas=REPLICAS,
        epoch=epoch,
        failed=False,
        generation=KIP_320,
        config=SimpleNamespace(min_insync_replicas=2, unclean_leader_election_enable=False, cleanup_policy=("delete",)),
    )
    made = Replica(broker, partition)
    append(made, *batches)
    end = made.log.end
    log.log_start_offset, log.log_end_offset, log.recovery_point = 0, end, numbers.get("recovery_point", 0)
    partition.epoch_end = lambda asked: EpochEnd(*cache.end_offset_for(asked, made.log.end))
    mark = end if high_watermark is None else high_watermark
    partition.high_watermark = partition.last_stable_offset = mark
    members = tuple(isr or ())
    counted = frozenset({*members, *(proposal.isr if proposal else ())})
    made.state = State(
        epoch,
        numbers.get("partition_epoch", 5),
        isr is not None,
        mark,
        end,
        numbers.get("start", 0),
        numbers.get("recovery_point", 0),
        members,
        numbers.get("maximal_isr", counted),
        proposal,
    )
    return made


def append(to, *batches):
    """Returns what is new."""
    new = []
    for count, epoch, *rest in batches:
        crc, producer = (*rest, None, None)[:2]
        base = to.log.end
        new.append(to.log.append(base, base + count, epoch, crc or 1000 * epoch + base, producer or (-1, -1, -1, -1)))
    return new


def fetches(leader, *fetched):
    """`fetched`: (follower, broker epoch, offset, last epoch) that reached the leader in its epoch."""
    wire_tap = WireTap(ghosts(), lambda *_: -1)
    wire_tap.fetched[leader.broker, NAME] = {
        (leader.state.epoch, follower, life): [FetchPosition(offset, last)] for follower, life, offset, last in fetched
    }
    found = Fetches(wire_tap)
    found.update(leader)
    return found


def batch(values, *, producer=(-1, -1, -1), base=0, epoch=1):
    """A batch's bytes as a log has them."""
    producer_id, producer_epoch, sequence = producer
    content = bytearray(
        records.build(
            [records.Record(timestamp=1, value=value) for value in values],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
    )
    records.stamp(content, 0, base, epoch)
    return content
