"""Rules about brokers: whether they answer, their disks, clocks, certificates, coordinators and throttles."""

from collections.abc import Iterator

from tidelog.explain.core.evidence import BrokerEvidence, Evidence, LogDir
from tidelog.explain.core.finding import Advice, Finding, Severity, Subject, duration, size
from tidelog.explain.core.replica_state import free_space, start, why_silent
from tidelog.model import NO_LEADER

FULL_SHARE = 0.05
"""The share of free space below which a disk is reported."""
SCARCE_SHARE = 0.2
"""The share of free space below which a disk is reported that its replicas fill within `SOON_MS`."""
SOON_MS = 24 * 3_600_000
RENEW_MS = 30 * 24 * 3_600_000
"""The remaining time of a certificate from which its end is reported."""
SKEW_MS = 2_000
"""The least difference between clocks that is reported."""
PATIENCE_MS = 5_000
"""How long a coordinator may load, and how long requests may wait for the store, before that is reported."""
RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)

REPAIR_QUORUM = Advice("A majority of the voters must reach each other: repair the network between the controllers.")


def broker_findings(evidence: Evidence, seen: BrokerEvidence) -> Iterator[Finding]:
    if not seen.answers:
        yield _down(evidence, seen)
        return
    for folder in seen.folders:
        yield from _folder(seen, folder)
    for listener, expires_ms in sorted(seen.facts.get("certificates", {}).items()):
        yield from _certificate(seen, listener, expires_ms - evidence.now_ms)
    yield from _store(evidence, seen)
    yield from _coordinators(seen)
    yield from _clock(evidence, seen)
    yield from _throttle(evidence, seen)
    yield from _min_insync_replicas(seen)
    yield from _leads_too_little(evidence, seen)


def _down(evidence: Evidence, seen: BrokerEvidence) -> Finding:
    because = [why_silent(evidence, seen.id)]
    held = [each for each in evidence.partitions.values() if seen.id in each.replicas]
    alone = [each for each in held if each.leader in (NO_LEADER, seen.id)]
    if held:
        led = f"{len(alone)} of them have no leader that answers" if alone else "other brokers lead all of them"
        because.append(f"{len(held)} partitions have a replica on it; {led}.")
    severity: Severity = "error" if alone or not held else "warning"
    if seen.refused:
        says = "It is refused: the other brokers treat it as dead."
        because[0] = f"{seen.refused[:1].upper()}{seen.refused[1:]}."
        helps = [Advice(f"Install the version of the other brokers on broker {seen.id}, and restart it.")]
        return Finding("error", "broker.refused", _subject(seen), says, because, helps)
    says = "It does not answer." if seen.address else "It is down or cut off."
    helps = [start(evidence, seen.id)]
    if not seen.address:
        helps.append(Advice("If it runs, repair its network to the others. If it stops again, its log says why."))
    return Finding(severity, "broker.down", _subject(seen), says, because, helps)


def _folder(seen: BrokerEvidence, folder: LogDir) -> Iterator[Finding]:
    if folder.trouble:
        says = f"Its log directory {folder.path} is offline ({folder.trouble})."
        repair = "Repair or replace the disk, then restart the broker; it fetches missing data from other replicas."
        because = ["The disk returned an error, which is in the broker's log."]
        yield Finding("error", "broker.folder-offline", _subject(seen), says, because, [Advice(repair)])
        return
    if folder.is_full:
        says = f"Its log directory {folder.path} is full: nothing can be appended there."
        because = [f"{size(max(0, folder.usable_bytes))} of {size(folder.total_bytes)} are free."]
        yield Finding("error", "broker.folder-full", _subject(seen), says, because, free_space(seen, folder))
        return
    if folder.total_bytes <= 0:
        return
    left_ms = 1000 * folder.usable_bytes / folder.growth_per_s if folder.growth_per_s > 0 else None
    share = folder.usable_bytes / folder.total_bytes
    if share < FULL_SHARE or (share < SCARCE_SHARE and left_ms is not None and left_ms < SOON_MS):
        free, total = size(folder.usable_bytes), size(folder.total_bytes)
        says = f"The disk of {folder.path} is filling up: {free} of {total} are free."
        rate = size(folder.growth_per_s)
        because = (
            [] if left_ms is None else [f"Its replicas grow by {rate}/s; the disk is full in {duration(left_ms)}."]
        )
        helps = [Advice("Lower retention.ms or retention.bytes of large topics, or move replicas away.")]
        yield Finding("warning", "broker.disk-fills", _subject(seen), says, because, helps)


def _certificate(seen: BrokerEvidence, listener: str, left_ms: int) -> Iterator[Finding]:
    if left_ms > RENEW_MS:
        return
    replace = f"Replace the key store of listener {listener}; the broker reads the file again at the next connection."
    helps = [Advice(replace)]
    if left_ms > 0:
        says = f"The certificate of its listener {listener} expires in {duration(left_ms)}."
        because = ["After that, clients and other brokers refuse to connect to it."]
        yield Finding("warning", "broker.certificate-expires", _subject(seen), says, because, helps)
    else:
        says = f"The certificate of its listener {listener} expired {duration(-left_ms)} ago."
        because = ["Clients refuse to connect to it. Open connections go on."]
        yield Finding("error", "broker.certificate-expired", _subject(seen), says, because, helps)


def has_active_controller(evidence: Evidence) -> bool:
    """Whether a broker reports that it is the controller, or a controller that is no broker leads the quorum."""
    reports = [seen.facts["controller"] for seen in evidence.brokers.values() if "controller" in seen.facts]
    is_elsewhere = evidence.quorum_leader not in (NO_LEADER, *evidence.brokers)
    return is_elsewhere or not reports or any(report.get("leading") for report in reports)


def store_trouble(seen: BrokerEvidence) -> str:
    """How the broker misses the metadata store, "" if it does not."""
    store = seen.facts.get("store", {})
    if store.get("silent"):
        return "it has heard nothing from the metadata store for a whole session timeout"
    if store.get("registered") is False and store.get("session") is False:
        return "it has no session with the metadata store"
    waited = store.get("waiting_ms") or 0
    if waited > PATIENCE_MS:
        return f"the metadata store has not answered it for {duration(waited)}"
    return ""


def _store(evidence: Evidence, seen: BrokerEvidence) -> Iterator[Finding]:
    trouble = store_trouble(seen)
    reporting = [each for each in evidence.brokers.values() if "store" in each.facts]
    if not trouble or all(store_trouble(each) for each in reporting):
        return  # `cluster_rules` reports a store that no broker reaches
    says = f"It does not reach the metadata store: {trouble}."
    because = ["Other brokers reach it. This one cannot change its in-sync replicas, and may lose its leaderships."]
    helps = [Advice("Check its network to the store, and look for store.unreachable in its log.")]
    if evidence.voters:
        helps = [Advice("Check its network to the controllers.")]
        if not has_active_controller(evidence):
            because, helps = ["The metadata quorum has no leader, so no broker can change anything."], [REPAIR_QUORUM]
    yield Finding("warning", "broker.store-silent", _subject(seen), says, because, helps)


def _coordinators(seen: BrokerEvidence) -> Iterator[Finding]:
    for name, loading in sorted(seen.facts.get("loading", {}).items()):
        if loading["for_ms"] > PATIENCE_MS or loading.get("reason"):
            says = f"It has been loading {name} for {duration(loading['for_ms'])}; groups or transactions there wait."
            because = [f"It cannot read its log: {loading['reason']}."] if loading.get("reason") else []
            helps = [Advice("See that partition:", f"explain partition {name}")]
            yield Finding("error", "broker.coordinator-loading", _subject(seen), says, because, helps)
    for kind in () if "loading" in seen.facts else seen.loading:
        says = f"It answers COORDINATOR_LOAD_IN_PROGRESS for {kind}: those that it coordinates wait."
        helps = [Advice("Wait; if it lasts, look for errors of the coordinator in its log.")]
        yield Finding("warning", "broker.coordinator-loading", _subject(seen), says, [], helps)
    waited = seen.facts.get("producer_ids_wait_ms") or 0
    if waited > PATIENCE_MS:
        says = f"It has no producer ids, and has waited for some for {duration(waited)}."
        because = [
            "Idempotent and transactional producers that start at it wait. The ids come from the metadata store."
        ]
        helps = [Advice("Check that it reaches the metadata store.")]
        yield Finding("error", "broker.no-producer-ids", _subject(seen), says, because, helps)


def _clock(evidence: Evidence, seen: BrokerEvidence) -> Iterator[Finding]:
    """Compared with the broker whose clock is in the middle; bounds overlap where answers took long."""
    clocks = {each.id: each.ahead_ms for each in evidence.brokers.values() if each.ahead_ms is not None}
    if seen.ahead_ms is None or len(clocks) < 2:
        return
    middle = sorted(clocks, key=lambda broker: (sum(clocks[broker]), broker))[(len(clocks) - 1) // 2]
    low, high = clocks[middle]
    behind, ahead = low - seen.ahead_ms[1], seen.ahead_ms[0] - high
    if max(behind, ahead) < SKEW_MS:
        return
    way = f"{duration(ahead)} ahead of" if ahead > behind else f"{duration(behind)} behind"
    says = f"Its clock is {way} that of broker {middle}."
    because = ["Retention, record timestamps and certificates depend on clocks."]
    helps = [Advice("Synchronize the clocks of all brokers, with NTP for example.")]
    yield Finding("warning", "broker.clock-skew", _subject(seen), says, because, helps)


def _throttle(evidence: Evidence, seen: BrokerEvidence) -> Iterator[Finding]:
    rates = [name for name in RATES if name in seen.options]
    if not rates or evidence.moves:
        return
    says = "Its replication is throttled, but no partition moves."
    because = [f"{name}={seen.options[name]}" for name in rates]
    delete = f"configs --alter --entity-type brokers --entity-name {seen.id} --delete-config {','.join(rates)}"
    yield Finding("warning", "broker.throttle-left", _subject(seen), says, because, [Advice("Remove it:", delete)])


def _min_insync_replicas(seen: BrokerEvidence) -> Iterator[Finding]:
    if "min_insync_replicas" not in seen.facts:
        return
    own, applied = seen.facts["min_insync_replicas"]
    says = f"min.insync.replicas={own} in its file has no effect: {applied} applies to all brokers."
    because = ["With eligible leader replicas (KIP-966) only the cluster and topics have this option."]
    set_it = f"configs --alter --entity-type brokers --entity-default --add-config min.insync.replicas={own}"
    helps = [Advice(f"Remove it from the file, or write {applied} there."), Advice("Or set it for all:", set_it)]
    yield Finding("warning", "broker.min-insync-replicas", _subject(seen), says, because, helps)


def _leads_too_little(evidence: Evidence, seen: BrokerEvidence) -> Iterator[Finding]:
    preferred = [each for each in evidence.partitions.values() if each.replicas[0] == seen.id]
    led_by_others = [each for each in preferred if each.leader not in (seen.id, NO_LEADER)]
    in_sync = [each for each in led_by_others if seen.id in each.isr]
    if in_sync:
        led = len(preferred) - len(led_by_others)
        says = f"It leads {led} of the {len(preferred)} partitions that it is the preferred leader of."
        because = [f"It is in sync in {len(in_sync)} of the partitions that other brokers lead."]
        helps = [Advice("Elect it:", "leader-election --election-type preferred --all-topic-partitions")]
        yield Finding("note", "broker.leads-too-little", _subject(seen), says, because, helps)


def _subject(seen: BrokerEvidence) -> Subject:
    return Subject("broker", str(seen.id))
