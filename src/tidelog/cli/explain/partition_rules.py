"""Why a partition is not as it should be: rules over what the brokers told. Each rule is about one state."""

from collections.abc import Iterator

from tidelog.cli.explain.evidence import Evidence, PartitionSeen
from tidelog.cli.explain.finding import Connected, Finding, amount, numbered, span
from tidelog.cli.options import HANGING_AFTER_MINUTES
from tidelog.cli.transaction_actions import Open
from tidelog.model import NO_LEADER


def partition_findings(evidence: Evidence, seen: PartitionSeen, tidelog: Connected) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(evidence, seen, tidelog)


def offline(evidence: Evidence, seen: PartitionSeen, tidelog: Connected) -> Iterator[Finding]:
    if seen.leader != NO_LEADER:
        return
    topic, index = seen.name
    silent = [replica for replica in seen.isr if not evidence.alive(replica)]
    because = [
        f"Its last in-sync replicas were on {numbered(seen.isr)}; only they are sure to have every acknowledged record."
    ]
    because += [_absence(evidence, seen, replica) for replica in seen.isr]
    others = [replica for replica in seen.replicas if replica not in seen.isr and evidence.alive(replica)]
    helps = [f"Start {numbered(silent)}." if silent else "Replace the log folder that failed, and restart its broker."]
    if others:
        unclean = tidelog(f"leader-election --election-type unclean --topic {topic} --partition {index}")
        helps.append(f"If they are lost for good, let {numbered(others)} lead and lose what it lacks: {unclean}")
    yield Finding("error", "partition.offline", _name(seen), "It has no leader: no reads, no writes.", because, helps)


def too_few_in_sync(evidence: Evidence, seen: PartitionSeen, tidelog: Connected) -> Iterator[Finding]:
    if seen.leader == NO_LEADER or len(seen.isr) >= seen.needed:
        return
    because = [
        f"In sync are {len(seen.isr)} of {len(seen.replicas)} replicas, min.insync.replicas asks for {seen.needed}."
    ]
    helps = []
    if len(seen.replicas) < seen.needed:
        helps.append("Give it more replicas by tidelog reassign-partitions.")
    because += [_absence(evidence, seen, replica) for replica in seen.lacking]
    helps += [help_ for replica in seen.lacking if (help_ := _remedy(evidence, seen, replica))]
    lower = tidelog(
        f"configs --alter --entity-type topics --entity-name {seen.name.topic} "
        f"--add-config min.insync.replicas={max(1, len(seen.isr))}"
    )
    helps.append(f"To write with fewer copies meanwhile: {lower}")
    says = "Writes with acks=all are refused with NOT_ENOUGH_REPLICAS."
    yield Finding("error", "partition.too-few-in-sync", _name(seen), says, because, _once(helps))


def under_replicated(evidence: Evidence, seen: PartitionSeen, _tidelog: Connected) -> Iterator[Finding]:
    adding = evidence.moves[seen.name].adding if seen.name in evidence.moves else ()
    lacking = [replica for replica in seen.lacking if replica not in adding]
    if not lacking or seen.leader == NO_LEADER or len(seen.isr) < seen.needed:
        return  # the other two rules say it with what follows from it
    says = f"It is under-replicated: {numbered(lacking)} of {numbered(seen.replicas)} is not in sync."
    if len(lacking) > 1:
        says = says.replace(" is not in sync", " are not in sync")
    because = [_absence(evidence, seen, replica) for replica in lacking]
    helps = [help_ for replica in lacking if (help_ := _remedy(evidence, seen, replica))]
    yield Finding("warning", "partition.under-replicated", _name(seen), says, because, _once(helps))


def moving(evidence: Evidence, seen: PartitionSeen, tidelog: Connected) -> Iterator[Finding]:
    if seen.name not in evidence.moves:
        return
    _, adding, removing = evidence.moves[seen.name]
    because = [_absence(evidence, seen, replica) for replica in adding if replica not in seen.isr]
    goes = [f"{numbered(adding)} is added" if adding else "", f"{numbered(removing)} is removed" if removing else ""]
    says = f"It is being moved: {' and '.join(part for part in goes if part)}."
    helps = [f"To see all moves: {tidelog('reassign-partitions --list')}"]
    yield Finding("note", "partition.moving", _name(seen), says, because, helps)


def away_from_home(evidence: Evidence, seen: PartitionSeen, tidelog: Connected) -> Iterator[Finding]:
    home = seen.replicas[0]
    if seen.leader in (NO_LEADER, home):
        return
    topic, index = seen.name
    says = f"Broker {seen.leader} leads it, its preferred leader is broker {home}."
    if home in seen.isr and evidence.alive(home):
        because = [f"Broker {home} is alive and in sync; nobody has elected it since it came back."]
        elect = tidelog(f"leader-election --election-type preferred --topic {topic} --partition {index}")
        helps = [f"Give it back: {elect}"]
    else:
        because = [_absence(evidence, seen, home)]
        helps = [help_ for help_ in [_remedy(evidence, seen, home)] if help_]
    yield Finding("note", "partition.leader-away", _name(seen), says, because, helps)


def uncleanable(evidence: Evidence, seen: PartitionSeen, _tidelog: Connected) -> Iterator[Finding]:
    facts = {broker: evidence.brokers[broker].facts.get("uncleanable", {}) for broker in seen.replicas}
    reasons = {broker: told[str(seen.name)] for broker, told in facts.items() if str(seen.name) in told}
    sound = [broker for broker in seen.isr if broker not in reasons]
    for broker, reason in reasons.items():
        says = f"Broker {broker} does not compact it."
        helps = ["Mend what the reason names; the broker tries again by itself each minute."]
        if sound:
            copy = f"stop broker {broker}, delete its folder {seen.name}, start it: it copies from {numbered(sound)}"
            helps.append(f"If its copy is damaged, {copy}.")
        yield Finding("warning", "partition.uncleanable", _name(seen), says, [str(reason)], helps)


def open_transactions(_evidence: Evidence, seen: PartitionSeen, tidelog: Connected) -> Iterator[Finding]:
    for each in seen.transactions:
        knows = "" if each.transactional_id is not None else ", and no coordinator knows of it"
        because = [
            f"Producer {each.producer.producer_id} began it at offset {each.producer.current_txn_start_offset}{knows}.",
            f"Its last record came {span(each.age_ms)} ago.",
        ]
        if each.hangs():
            says = "A hanging transaction holds back readers of committed records."
            helps = [_abort(seen, each, tidelog)]
            yield Finding("error", "partition.hanging-transaction", _name(seen), says, because, helps)
        elif each.transactional_id is not None:
            says = f"The transaction of {each.transactional_id} holds back readers of committed records."
            helps = ["Its producer ends it, or its coordinator does after transaction.timeout.ms."]
            yield Finding("warning", "partition.long-transaction", _name(seen), says, because, helps)
        else:
            says = "A transaction that may hang holds back readers of committed records."
            helps = [f"If nobody ends it, it counts as hanging {HANGING_AFTER_MINUTES} min after its last record."]
            yield Finding("warning", "partition.long-transaction", _name(seen), says, because, helps)


RULES = (offline, too_few_in_sync, under_replicated, moving, away_from_home, uncleanable, open_transactions)


def _name(seen: PartitionSeen) -> str:
    return f"partition {seen.name}"


def _once(sentences: list[str]) -> list[str]:
    return list(dict.fromkeys(sentences))


def _abort(seen: PartitionSeen, transaction: Open, tidelog: Connected) -> str:
    topic, index = seen.name
    start = transaction.producer.current_txn_start_offset
    return f"Abort it: {tidelog('transactions')} abort --topic {topic} --partition {index} --start-offset {start}"


def _absence(evidence: Evidence, seen: PartitionSeen, replica: int) -> str:
    """Why the replica is not in sync, how far it is behind, and since when."""
    left = evidence.left_isr(seen, replica)
    since = f" It left the ISR {span(evidence.now_ms - left.wall_ms)} ago." if left is not None else ""
    if not evidence.alive(replica):
        gone = evidence.last("broker.gone", broker=replica)
        if gone is not None:
            return f"Broker {replica} has been down for {span(evidence.now_ms - gone.wall_ms)}."
        return f"Broker {replica} is down.{since}"
    failed = [folder for folder in evidence.brokers[replica].folders if folder.trouble]
    if failed and replica not in seen.sizes:
        return f"Broker {replica} lost the log folder {failed[0].path} ({failed[0].trouble}).{since}"
    return _distance(evidence, seen, replica) + since


def _distance(evidence: Evidence, seen: PartitionSeen, replica: int) -> str:
    behind = evidence.behind(seen, replica)
    if behind and behind["log_end_offset"] < 0:
        return f"Broker {replica} has not fetched it since broker {seen.leader} leads."
    records = f"{max(0, behind['end'] - behind['log_end_offset'])} records" if behind else ""
    left = seen.sizes.get(seen.leader, 0) - seen.sizes.get(replica, 0)
    parts = [part for part in (records, amount(left) if left > 0 else "") if part]
    far = f"Broker {replica} is {' and '.join(parts)} behind" if parts else f"Broker {replica} is behind"
    catching = seen.rates.get(replica, 0) - seen.rates.get(seen.leader, 0)
    if left <= 0 or not seen.rates:
        return f"{far}."
    if catching <= 0:
        return f"{far} and does not catch up ({amount(seen.rates.get(replica, 0))}/s)."
    return f"{far} and catches up by {amount(catching)}/s, for another {span(1000 * left / catching)}."


def _remedy(evidence: Evidence, seen: PartitionSeen, replica: int) -> str:
    if not evidence.alive(replica):
        return f"Start broker {replica}."
    failed = [folder.path for folder in evidence.brokers[replica].folders if folder.trouble]
    if failed and replica not in seen.sizes:
        return f"Replace {failed[0]}, and restart broker {replica}."
    return ""
