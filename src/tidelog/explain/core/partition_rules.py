"""Rules about partitions. Each rule detects one problem."""

from collections.abc import Iterator, Sequence

from tidelog.errors import ErrorCode
from tidelog.explain.core import HANGING_AFTER_MINUTES
from tidelog.explain.core.evidence import Evidence, OpenTransaction, PartitionEvidence
from tidelog.explain.core.finding import Advice, Finding, Severity, Subject, broker_list, duration
from tidelog.explain.core.replica_state import (
    free_space,
    remedies,
    start,
    storage_of,
    why_out_of_sync,
    why_silent,
    without_duplicates,
)
from tidelog.model import NO_LEADER


def partition_findings(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(evidence, partition)


def offline(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    if partition.leader != NO_LEADER:
        return
    topic, index = partition.name
    holders = partition.holders
    silent = [replica for replica in holders if not evidence.is_alive(replica)]
    last = broker_list(holders)
    if partition.isr or not holders:
        because = [
            f"Its last in-sync replicas were on {last}; only they are guaranteed to have every acknowledged record."
        ]
    elif partition.elr:
        because = [
            f"Its eligible leader replicas are on {last}; only they are guaranteed to have every acknowledged record."
        ]
    else:
        because = [
            f"Its last replicas, on {last}, did not stop cleanly; the most complete log leads once all are back."
        ]
    because += [why_out_of_sync(evidence, partition, replica) for replica in holders]
    others = [replica for replica in partition.replicas if replica not in holders and evidence.is_alive(replica)]
    restart = Advice("Replace the failed log directory, and restart its broker.")
    helps = [Advice(f"Start {broker_list(silent)}.") if silent else restart]
    if others:
        lossy = f"If they are lost, elect {broker_list(others)} instead, which loses missing records:"
        helps.append(Advice(lossy, f"leader-election --election-type unclean --topic {topic} --partition {index}"))
    says = "It has no leader: it cannot be read or written."
    yield Finding("error", "partition.offline", _subject(partition), says, because, helps)


def leader_silent(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """The leader that the brokers name does not answer: they have not noticed yet, or cannot elect another."""
    leader = partition.leader
    if leader == NO_LEADER or evidence.is_alive(leader):
        return
    says = f"Its leader, broker {leader}, does not answer: it cannot be read or written."
    because = [why_silent(evidence, leader)]
    others = [replica for replica in partition.isr if replica != leader and evidence.is_alive(replica)]
    helps = [start(evidence, leader)]
    if others:
        helps.insert(
            0, Advice(f"The controller elects {broker_list(others)} once the session of broker {leader} ends.")
        )
    yield Finding("error", "partition.leader-silent", _subject(partition), says, because, helps)


def leader_refuses(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """The leader answers, but with an error."""
    error, leader = partition.leader_error, partition.leader
    if error is ErrorCode.NONE or not evidence.is_alive(leader) or storage_of(evidence, partition, leader) is not None:
        return  # `storage` reports the directory
    says = f"Its leader, broker {leader}, answers {error.name}."
    because = ["It has answered so for as long as it was watched."]
    helps = [Advice("See that broker:", f"explain broker {leader}")]
    yield Finding("error", "partition.leader-refuses", _subject(partition), says, because, helps)


def storage(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """The log directory of the leader failed or is full. `under_replicated` reports those of followers."""
    leader = partition.leader
    folder = storage_of(evidence, partition, leader) if leader != NO_LEADER else None
    if folder is None:
        return
    if folder.trouble:
        says = f"Its leader, broker {leader}, lost the log directory {folder.path}: it cannot be read or written."
        helps = [Advice(f"Replace {folder.path}, and restart broker {leader}.")]
        because = [f"The disk returned an error ({folder.trouble})."]
        yield Finding("error", "partition.storage-failed", _subject(partition), says, because, helps)
        return
    says = f"Writes fail with KAFKA_STORAGE_ERROR: log directory {folder.path} of its leader, broker {leader}, is full."
    because = ["Producers retry until delivery.timeout.ms. Existing records can still be read."]
    helps = free_space(evidence.brokers[leader], folder)
    yield Finding("error", "partition.storage-full", _subject(partition), says, because, helps)


def epochs_disagree(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """Brokers that show clients an older leader, unchanged for as long as they were watched."""
    stale = {
        broker: view
        for broker, seen in sorted(evidence.brokers.items())
        if (view := seen.views.get(partition.name)) is not None and view.epoch < partition.epoch
    }
    if not stale:
        return
    says = f"{broker_list(list(stale)).capitalize()} {'shows' if len(stale) == 1 else 'show'} an old leader of it."
    because = [f"Its leader epoch is {partition.epoch}, with {_leader(partition.leader)}."]
    because += [
        f"Broker {broker} shows epoch {view.epoch}, with {_leader(view.leader)}." for broker, view in stale.items()
    ]
    helps = [Advice("Look for errors of the controller's pushes to it in the controller's log; a restart also helps.")]
    yield Finding("warning", "partition.epochs-disagree", _subject(partition), says, because, helps)


def under_min_isr(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    if partition.leader == NO_LEADER or len(partition.isr) >= partition.min_insync:
        return
    count, all_replicas, needed = len(partition.isr), len(partition.replicas), partition.min_insync
    because = [f"{count} of {all_replicas} replicas are in sync, but min.insync.replicas is {needed}."]
    helps = []
    if len(partition.replicas) < partition.min_insync:
        helps.append(Advice("Add replicas with tidelog reassign-partitions."))
    because += [why_out_of_sync(evidence, partition, replica) for replica in partition.out_of_sync]
    helps += [advice for replica in partition.out_of_sync for advice in remedies(evidence, partition, replica)]
    lower = (
        f"configs --alter --entity-type topics --entity-name {partition.name.topic} "
        f"--add-config min.insync.replicas={max(1, len(partition.isr))}"
    )
    helps.append(Advice("To allow writes with fewer replicas for now:", lower))
    says = "Writes with acks=all fail with NOT_ENOUGH_REPLICAS."
    yield Finding("error", "partition.too-few-in-sync", _subject(partition), says, because, without_duplicates(helps))


def under_replicated(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    adding = evidence.moves[partition.name].adding if partition.name in evidence.moves else ()
    out_of_sync = [replica for replica in partition.out_of_sync if replica not in adding]
    if not out_of_sync or partition.leader == NO_LEADER or len(partition.isr) < partition.min_insync:
        return  # `offline` and `under_min_isr` report it with its consequences
    says = f"It is under-replicated: {broker_list(out_of_sync)} of {broker_list(partition.replicas)} is not in sync."
    if len(out_of_sync) > 1:
        says = says.replace(" is not in sync", " are not in sync")
    because = [why_out_of_sync(evidence, partition, replica) for replica in out_of_sync]
    helps = [advice for replica in out_of_sync for advice in remedies(evidence, partition, replica)]
    yield Finding(
        "warning", "partition.under-replicated", _subject(partition), says, because, without_duplicates(helps)
    )


def member_silent(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """A follower that counts as in sync does not answer, or cannot append: writes with acks=all wait for it."""
    if partition.leader == NO_LEADER:
        return
    for replica in partition.isr:
        if replica == partition.leader:
            continue
        if evidence.is_alive(replica) and storage_of(evidence, partition, replica) is None:
            continue
        says = (
            f"Broker {replica} counts as in sync, but cannot follow: writes with acks=all wait until it leaves the ISR."
        )
        because = [why_out_of_sync(evidence, partition, replica)]
        helps = remedies(evidence, partition, replica)
        yield Finding("warning", "partition.member-silent", _subject(partition), says, because, helps)


def moving(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    if partition.name not in evidence.moves:
        return
    _, adding, removing = evidence.moves[partition.name]
    missing = [replica for replica in adding if replica not in partition.isr]
    because = [why_out_of_sync(evidence, partition, replica) for replica in missing]
    goes = [
        f"{broker_list(adding)} is added" if adding else "",
        f"{broker_list(removing)} is removed" if removing else "",
    ]
    says = f"It is being moved: {' and '.join(part for part in goes if part)}."
    helps = [Advice("To see all moves:", "reassign-partitions --list")]
    severity: Severity = "note"
    kind = "partition.moving"
    stuck = [replica for replica in missing if _is_stuck(evidence, partition, replica)]
    if stuck:
        severity, kind = "warning", "partition.move-stuck"
        says = f"{says[:-1]}, but {broker_list(stuck)} does not catch up."
        helps[:0] = [advice for replica in stuck for advice in remedies(evidence, partition, replica)]
    yield Finding(severity, kind, _subject(partition), says, because, without_duplicates(helps))


def _is_stuck(evidence: Evidence, partition: PartitionEvidence, replica: int) -> bool:
    """Whether the added replica cannot arrive, or received nothing although the leader has more."""
    if not evidence.is_alive(replica) or storage_of(evidence, partition, replica) is not None:
        return True
    size, leader_size = partition.sizes.get(replica), partition.sizes.get(partition.leader)
    if size is None or leader_size is None or not partition.rates:
        return False
    return size < leader_size and partition.rates.get(replica, 0) == 0


def not_led_by_preferred(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    home = partition.replicas[0]
    if partition.leader in (NO_LEADER, home):
        return
    topic, index = partition.name
    says = f"Its leader is broker {partition.leader}, its preferred leader is broker {home}."
    if home in partition.isr and evidence.is_alive(home):
        because = [f"Broker {home} is alive and in sync, but has not been elected since it returned."]
        elect = f"leader-election --election-type preferred --topic {topic} --partition {index}"
        helps = [Advice("Elect it:", elect)]
    else:
        because = [why_out_of_sync(evidence, partition, home)]
        helps = remedies(evidence, partition, home)
    yield Finding("note", "partition.leader-away", _subject(partition), says, because, helps)


def uncleanable(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    reasons = _reported(evidence, partition, "uncleanable")
    sound = [broker for broker in partition.isr if broker not in reasons]
    for broker, reason in reasons.items():
        says = f"Broker {broker} does not compact it."
        helps = [Advice("Fix the cause; the broker retries every minute.")]
        if sound:
            helps.append(Advice(f"If its copy is damaged: {_copy_again(partition, broker, sound)}"))
        yield Finding("warning", "partition.uncleanable", _subject(partition), says, [reason], helps)


def damaged(evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    """Bytes that changed on a disk after they were written, and that no other replica could replace."""
    batches = _reported(evidence, partition, "damaged")
    silent = [broker for broker in partition.replicas if not evidence.is_alive(broker)]
    sound = [broker for broker in partition.isr if broker not in batches and broker not in silent]
    for broker, batch in batches.items():
        leads = broker == partition.leader
        helps = []
        if silent:
            helps.append(Advice(f"Start {broker_list(silent)}, which may have the records: the broker asks again."))
        if not leads and sound:
            helps.append(Advice(_copy_again(partition, broker, sound)))
        if leads:
            skip = "If no replica has them, they are lost; let consumers skip them (groups --reset-offsets)."
            helps.append(Advice(f"If {broker_list(silent)} cannot be started: {skip}" if silent else skip))
        says = f"Its log on broker {broker} is damaged{': consumers that read there get errors' if leads else ''}."
        severity: Severity = "error" if leads else "warning"
        because = [f"{batch[:1].upper()}{batch[1:]}."]
        yield Finding(severity, "partition.damaged", _subject(partition), says, because, helps)


def _reported(evidence: Evidence, partition: PartitionEvidence, fact: str) -> dict[int, str]:
    """What brokers report about their replicas of the partition."""
    facts = {broker: evidence.brokers[broker].facts for broker in partition.replicas if broker in evidence.brokers}
    name = str(partition.name)
    return {broker: str(each[fact][name]) for broker, each in facts.items() if name in each.get(fact, {})}


def _copy_again(partition: PartitionEvidence, broker: int, sound: Sequence[int]) -> str:
    folder, source = partition.name, broker_list(sound)
    return f"Stop broker {broker}, delete its folder {folder}, and start it: it copies the log from {source}."


def long_transactions(_evidence: Evidence, partition: PartitionEvidence) -> Iterator[Finding]:
    for each in partition.transactions:
        knows = "" if each.transactional_id is not None else ", and no coordinator knows of it"
        because = [
            f"Producer {each.producer.producer_id} began it at offset {each.producer.current_txn_start_offset}{knows}.",
            f"Its last record was written {duration(each.age_ms)} ago.",
        ]
        if each.hangs():
            says = "A hanging transaction blocks read_committed consumers."
            helps = [Advice("Abort it:", _abort(partition, each))]
            yield Finding("error", "partition.hanging-transaction", _subject(partition), says, because, helps)
        elif each.transactional_id is not None:
            says = f"The transaction of {each.transactional_id} blocks read_committed consumers."
            helps = [Advice("Wait until its producer ends it, or its coordinator does after transaction.timeout.ms.")]
            yield Finding("warning", "partition.long-transaction", _subject(partition), says, because, helps)
        else:
            says = "A transaction that may be hanging blocks read_committed consumers."
            sure = f"If it is not ended, it counts as hanging {HANGING_AFTER_MINUTES} min after its last record."
            yield Finding("warning", "partition.long-transaction", _subject(partition), says, because, [Advice(sure)])


RULES = (
    offline,
    leader_silent,
    leader_refuses,
    storage,
    under_min_isr,
    under_replicated,
    member_silent,
    epochs_disagree,
    moving,
    not_led_by_preferred,
    uncleanable,
    damaged,
    long_transactions,
)


def _subject(partition: PartitionEvidence) -> Subject:
    return Subject("partition", str(partition.name))


def _leader(broker: int) -> str:
    return "no leader" if broker == NO_LEADER else f"leader {broker}"


def _abort(partition: PartitionEvidence, transaction: OpenTransaction) -> str:
    topic, index = partition.name
    start_offset = transaction.producer.current_txn_start_offset
    return f"transactions abort --topic {topic} --partition {index} --start-offset {start_offset}"
