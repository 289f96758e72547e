"""Why a broker does not answer, why a replica is out of sync, and what helps: sentences that several rules use."""

from tidelog.explain.core.evidence import BrokerEvidence, Evidence, LogDir, PartitionEvidence
from tidelog.explain.core.finding import Advice, duration, size


def why_silent(evidence: Evidence, broker: int) -> str:
    """Why the broker counts as down, and since when. A broker that is cut off from the others looks the same."""
    if broker in evidence.brokers and evidence.brokers[broker].refused:
        return f"Broker {broker} is refused, because of its version."
    gone_ms = evidence.gone_for_ms(broker)
    if gone_ms is not None:
        return f"Broker {broker} has been down or cut off for {duration(gone_ms)}."
    seen = evidence.brokers.get(broker)
    if seen is None or not seen.address:
        return f"Broker {broker} is down or cut off."
    return f"Broker {broker} is registered at {seen.address}, but does not answer."


def storage_of(evidence: Evidence, partition: PartitionEvidence, replica: int) -> LogDir | None:
    """The log directory of the replica if it is offline or full. A directory that failed no longer says what it holds,
    so a replica that is in none counts as lost with it."""
    seen = evidence.brokers.get(replica)
    if seen is None or not seen.answers:
        return None
    path = partition.folders.get(replica)
    for folder in seen.folders:
        if folder.path == path and (folder.trouble or folder.is_full):
            return folder
    failed = [folder for folder in seen.folders if folder.trouble]
    return failed[0] if failed and path is None else None


def why_out_of_sync(evidence: Evidence, partition: PartitionEvidence, replica: int) -> str:
    """Why the replica is not in sync, how far it is behind, and since when."""
    if not evidence.is_alive(replica):
        return why_silent(evidence, replica)
    left = evidence.isr_departure(partition, replica)
    since = f" It left the ISR {duration(max(0, evidence.now_ms - left.wall_ms))} ago." if left is not None else ""
    folder = storage_of(evidence, partition, replica)
    if folder is not None and folder.trouble:
        return f"Broker {replica} lost the log directory {folder.path} ({folder.trouble}).{since}"
    if folder is not None:
        return f"The log directory {folder.path} of broker {replica} is full.{since}"
    return _how_far_behind(evidence, partition, replica) + since


def _how_far_behind(evidence: Evidence, partition: PartitionEvidence, replica: int) -> str:
    behind = evidence.follower_facts(partition, replica)
    if behind and behind["log_end_offset"] < 0:
        return f"Broker {replica} has not fetched it since broker {partition.leader} became leader."
    records = f"{max(0, behind['end'] - behind['log_end_offset'])} records" if behind else ""
    left = partition.sizes.get(partition.leader, 0) - partition.sizes.get(replica, 0)
    parts = [part for part in (records, size(left) if left > 0 else "") if part]
    far = f"Broker {replica} is {' and '.join(parts)} behind" if parts else f"Broker {replica} is behind"
    catching = partition.rates.get(replica, 0) - partition.rates.get(partition.leader, 0)
    if left <= 0 or not partition.rates:
        return f"{far}."
    if catching <= 0:
        return f"{far} and does not catch up ({size(partition.rates.get(replica, 0))}/s)."
    return f"{far}, catching up at {size(catching)}/s, in sync in {duration(1000 * left / catching)}."


def remedies(evidence: Evidence, partition: PartitionEvidence, replica: int) -> list[Advice]:
    """What brings the replica back into sync; nothing if it only has to catch up."""
    if not evidence.is_alive(replica):
        return [start(evidence, replica)]
    folder = storage_of(evidence, partition, replica)
    if folder is None:
        return []
    if folder.trouble:
        return [Advice(f"Replace {folder.path}, and restart broker {replica}.")]
    return free_space(evidence.brokers[replica], folder)


def start(evidence: Evidence, broker: int) -> Advice:
    seen = evidence.brokers.get(broker)
    if seen is not None and seen.address:
        return Advice(f"Start broker {broker}, or restart it if it hangs.")
    if seen is not None and seen.refused:
        return Advice("See that broker:", f"explain broker {broker}")
    return Advice(f"Start broker {broker}.")


def free_space(seen: BrokerEvidence, folder: LogDir) -> list[Advice]:
    return [
        Advice(f"Free space on the disk of {folder.path}, broker {seen.id}; writes resume within a second."),
        Advice("To see which replicas are large:", f"log-dirs --describe --broker-list {seen.id}"),
        Advice(
            "Lower retention.ms or retention.bytes of a large topic, or delete its oldest records with delete-records. "
            "Segments are deleted at the next retention check (log.retention.check.interval.ms, 5 min by default)."
        ),
    ]


def without_duplicates(advice: list[Advice]) -> list[Advice]:
    return list(dict.fromkeys(advice))
