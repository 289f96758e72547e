"""The rows of the table, by the number that `scripts/bench ROW…` takes."""

from collections.abc import Callable, Iterator

from bench.measure import Measure
from bench.rows import (
    administering,
    auditing,
    authorizing,
    compacting,
    encrypting,
    growing,
    idling,
    moving,
    producing,
    reassigning,
    replicating_metadata,
    requesting,
    restarting,
    sinking,
    sourcing,
    starting,
    transacting,
)

Row = Callable[[float], Iterator[Measure]]
"""Takes a scale (1: full size) and yields measures as they are made."""

ROWS: dict[str, Row] = {
    "1": producing.one_broker,
    "2": producing.three_brokers,
    "3": requesting.in_flight,
    "4": requesting.one_by_one,
    "5": moving.reading,
    "6": moving.writing,
    "7": starting.first_record,
    "8": producing.three_brokers,
    "9": growing.partitions,
    "10": transacting.transactions,
    "11": compacting.compaction,
    "12": restarting.after_a_kill,
    "13": idling.groups,
    "14": reassigning.moves,
    "15": administering.stores,
    "16": sourcing.small,
    "17": sourcing.large,
    "18": sourcing.stream,
    "19": sinking.sink,
    "20": auditing.replicas,
    "21": encrypting.tls,
    "22": authorizing.acls,
    "23": sinking.small_batches,
    "24": replicating_metadata.quorum,
}
