"""Rules about partitions. Each rule detects one problem."""

from collections.abc import Iterator

from tidelog.cli.explain.evidence import Evidence, PartitionEvidence
from tidelog.cli.explain.finding import CommandLine, Finding, broker_list, duration, size
from tidelog.cli.options import HANGING_AFTER_MINUTES
from tidelog.cli.transaction_actions import OpenTransaction
from tidelog.model import NO_LEADER


def partition_findings(evidence: Evidence, partition: PartitionEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(evidence, partition, tidelog)


def offline(evidence: Evidence, partition: PartitionEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    if partition.leader != NO_LEADER:
        return
    topic, index = partition.name
    silent = [replica for replica in partition.isr if not evidence.is_alive(replica)]
    last = broker_list(partition.isr)
    because = [f"Its last in-sync replicas were on {last}; only they are guaranteed to have every acknowledged record."]
    because += [_why_out_of_sync(evidence, partition, replica) for replica in partition.isr]
    others = [replica for replica in partition.replicas if replica not in partition.isr and evidence.is_alive(replica)]
    helps = [f"Start {broker_list(silent)}." if silent else "Replace the failed log directory, and restart its broker."]
    if others:
        unclean = tidelog(f"leader-election --election-type unclean --topic {topic} --partition {index}")
        helps.append(f"If they are lost, elect {broker_list(others)} instead, which loses missing records: {unclean}")
    yield Finding(
        "error",
        "partition.offline",
        _about(partition),
        "It has no leader: it cannot be read or written.",
        because,
        helps,
    )


def under_min_isr(evidence: Evidence, partition: PartitionEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    if partition.leader == NO_LEADER or len(partition.isr) >= partition.min_insync:
        return
    count, all_replicas, needed = len(partition.isr), len(partition.replicas), partition.min_insync
    because = [f"{count} of {all_replicas} replicas are in sync, but min.insync.replicas is {needed}."]
    helps = []
    if len(partition.replicas) < partition.min_insync:
        helps.append("Add replicas with tidelog reassign-partitions.")
    because += [_why_out_of_sync(evidence, partition, replica) for replica in partition.out_of_sync]
    helps += [help_ for replica in partition.out_of_sync if (help_ := _remedy(evidence, partition, replica))]
    lower = tidelog(
        f"configs --alter --entity-type topics --entity-name {partition.name.topic} "
        f"--add-config min.insync.replicas={max(1, len(partition.isr))}"
    )
    helps.append(f"To allow writes with fewer replicas for now: {lower}")
    says = "Writes with acks=all fail with NOT_ENOUGH_REPLICAS."
    yield Finding("error", "partition.too-few-in-sync", _about(partition), says, because, _without_duplicates(helps))


def under_replicated(evidence: Evidence, partition: PartitionEvidence, _tidelog: CommandLine) -> Iterator[Finding]:
    adding = evidence.moves[partition.name].adding if partition.name in evidence.moves else ()
    out_of_sync = [replica for replica in partition.out_of_sync if replica not in adding]
    if not out_of_sync or partition.leader == NO_LEADER or len(partition.isr) < partition.min_insync:
        return  # `offline` and `under_min_isr` report it with its consequences
    says = f"It is under-replicated: {broker_list(out_of_sync)} of {broker_list(partition.replicas)} is not in sync."
    if len(out_of_sync) > 1:
        says = says.replace(" is not in sync", " are not in sync")
    because = [_why_out_of_sync(evidence, partition, replica) for replica in out_of_sync]
    helps = [help_ for replica in out_of_sync if (help_ := _remedy(evidence, partition, replica))]
    yield Finding("warning", "partition.under-replicated", _about(partition), says, because, _without_duplicates(helps))


def moving(evidence: Evidence, partition: PartitionEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    if partition.name not in evidence.moves:
        return
    _, adding, removing = evidence.moves[partition.name]
    because = [_why_out_of_sync(evidence, partition, replica) for replica in adding if replica not in partition.isr]
    goes = [
        f"{broker_list(adding)} is added" if adding else "",
        f"{broker_list(removing)} is removed" if removing else "",
    ]
    says = f"It is being moved: {' and '.join(part for part in goes if part)}."
    helps = [f"To see all moves: {tidelog('reassign-partitions --list')}"]
    yield Finding("note", "partition.moving", _about(partition), says, because, helps)


def not_led_by_preferred(evidence: Evidence, partition: PartitionEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    home = partition.replicas[0]
    if partition.leader in (NO_LEADER, home):
        return
    topic, index = partition.name
    says = f"Its leader is broker {partition.leader}, its preferred leader is broker {home}."
    if home in partition.isr and evidence.is_alive(home):
        because = [f"Broker {home} is alive and in sync, but has not been elected since it returned."]
        elect = tidelog(f"leader-election --election-type preferred --topic {topic} --partition {index}")
        helps = [f"Elect it: {elect}"]
    else:
        because = [_why_out_of_sync(evidence, partition, home)]
        helps = [help_ for help_ in [_remedy(evidence, partition, home)] if help_]
    yield Finding("note", "partition.leader-away", _about(partition), says, because, helps)


def uncleanable(evidence: Evidence, partition: PartitionEvidence, _tidelog: CommandLine) -> Iterator[Finding]:
    facts = {broker: evidence.brokers[broker].facts.get("uncleanable", {}) for broker in partition.replicas}
    reasons = {
        broker: reasons_of_broker[str(partition.name)]
        for broker, reasons_of_broker in facts.items()
        if str(partition.name) in reasons_of_broker
    }
    sound = [broker for broker in partition.isr if broker not in reasons]
    for broker, reason in reasons.items():
        says = f"Broker {broker} does not compact it."
        helps = ["Fix the cause; the broker retries every minute."]
        if sound:
            source = broker_list(sound)
            copy = f"stop broker {broker}, delete its folder {partition.name}, start it: it copies from {source}"
            helps.append(f"If its copy is damaged, {copy}.")
        yield Finding("warning", "partition.uncleanable", _about(partition), says, [str(reason)], helps)


def long_transactions(_evidence: Evidence, partition: PartitionEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    for each in partition.transactions:
        knows = "" if each.transactional_id is not None else ", and no coordinator knows of it"
        because = [
            f"Producer {each.producer.producer_id} began it at offset {each.producer.current_txn_start_offset}{knows}.",
            f"Its last record was written {duration(each.age_ms)} ago.",
        ]
        if each.hangs():
            says = "A hanging transaction blocks read_committed consumers."
            helps = [_abort(partition, each, tidelog)]
            yield Finding("error", "partition.hanging-transaction", _about(partition), says, because, helps)
        elif each.transactional_id is not None:
            says = f"The transaction of {each.transactional_id} blocks read_committed consumers."
            helps = ["Wait until its producer ends it, or its coordinator does after transaction.timeout.ms."]
            yield Finding("warning", "partition.long-transaction", _about(partition), says, because, helps)
        else:
            says = "A transaction that may be hanging blocks read_committed consumers."
            helps = [f"If it is not ended, it counts as hanging {HANGING_AFTER_MINUTES} min after its last record."]
            yield Finding("warning", "partition.long-transaction", _about(partition), says, because, helps)


RULES = (offline, under_min_isr, under_replicated, moving, not_led_by_preferred, uncleanable, long_transactions)


def _about(partition: PartitionEvidence) -> str:
    return f"partition {partition.name}"


def _without_duplicates(sentences: list[str]) -> list[str]:
    return list(dict.fromkeys(sentences))


def _abort(partition: PartitionEvidence, transaction: OpenTransaction, tidelog: CommandLine) -> str:
    topic, index = partition.name
    start = transaction.producer.current_txn_start_offset
    return f"Abort it: {tidelog('transactions')} abort --topic {topic} --partition {index} --start-offset {start}"


def _why_out_of_sync(evidence: Evidence, partition: PartitionEvidence, replica: int) -> str:
    """Why the replica is not in sync, how far it is behind, and since when."""
    left = evidence.isr_departure(partition, replica)
    since = f" It left the ISR {duration(evidence.now_ms - left.wall_ms)} ago." if left is not None else ""
    if not evidence.is_alive(replica):
        gone = evidence.last_event("broker.gone", broker=replica)
        if gone is not None:
            return f"Broker {replica} has been down for {duration(evidence.now_ms - gone.wall_ms)}."
        return f"Broker {replica} is down.{since}"
    failed = [folder for folder in evidence.brokers[replica].folders if folder.trouble]
    if failed and replica not in partition.sizes:
        return f"Broker {replica} lost the log directory {failed[0].path} ({failed[0].trouble}).{since}"
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


def _remedy(evidence: Evidence, partition: PartitionEvidence, replica: int) -> str:
    if not evidence.is_alive(replica):
        return f"Start broker {replica}."
    failed = [folder.path for folder in evidence.brokers[replica].folders if folder.trouble]
    if failed and replica not in partition.sizes:
        return f"Replace {failed[0]}, and restart broker {replica}."
    return ""
