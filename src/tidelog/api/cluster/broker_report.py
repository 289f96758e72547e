"""BrokerReport (10000): recent events of this broker, and facts that no API of Kafka reports.

The facts are a JSON object: `broker_epoch`; `controller` (`leading`, `id`, `epoch`, and of the leading one `deletions`:
topic → brokers that have not confirmed them, and `refused`: brokers whose registration is refused → why); `store`: its
contact with the metadata store (`silent` for a whole session timeout, `session`, `registered`, `waiting_ms` of the
oldest open call); `quorum`: with a metadata quorum, its `voters`; `folders`: folder → why it is offline, or null;
`full`: folders without room; `loading`: coordinator's partition → `for_ms`, and `reason` if it is stuck;
`producer_ids_wait_ms`: how long a block of producer ids has been needed; `behind`: led partition → replica outside the
ISR → `log_end_offset`, `end` of the leader, `caught_up_ms_ago` (null if never in this epoch); `short`: led partition →
the in-sync replicas that acks=all needs, where there are fewer; `uncleanable`: partition → why; `damaged`: partition →
the first damaged batch that no other replica could replace; `min_insync_replicas`: [of its file, of the cluster], if
the file's has no effect because of eligible leader replicas (KIP-966) and is another; with TLS, `certificates`:
listener → when its certificate expires, in wall-clock milliseconds.
"""

import json
from typing import Any

from tidelog.api.context import Broker, Context
from tidelog.config.feature_levels import ELR_VERSION
from tidelog.errors import DiskFailed
from tidelog.model import Time
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.partition.progress import LONG_AGO
from tidelog.slices import SLICE, Sliced
from tidelog.wire.messages.cluster.brokers import BrokerReportRequest, BrokerReportResponse, ReportedEvent

MOST_EVENTS = 2000


def handle(request: BrokerReportRequest, context: Context) -> Sliced[BrokerReportResponse]:
    broker = context.broker
    entries = list(broker.event_log.since(request.since, request.subject))[:MOST_EVENTS]
    events = [
        ReportedEvent(
            number=entry.number,
            wall_ms=entry.wall_ms,
            kind=entry.event.kind,
            level=entry.event.level,
            fields=json.dumps(dict(entry.event.fields), default=str),
        )
        for entry in entries
    ]
    found = yield from facts(broker, context.now)
    return BrokerReportResponse(
        broker_id=broker.broker_id,
        wall_ms=context.now.wall,
        forgotten=broker.event_log.forgotten,
        events=events,
        facts=json.dumps(found),
    )


def facts(broker: Broker, now: Time) -> Sliced[dict[str, Any]]:
    certificates = broker.certificates.expiries() if broker.certificates is not None else {}
    behind, short = {}, {}
    for count, partition in enumerate(list(broker.replicas), 1):
        if not count % SLICE:
            yield
        role = partition.role
        if not isinstance(role, Leader):
            continue
        if outside := _behind(partition, role, now.mono):
            behind[str(partition.name)] = outside
        if len(role.isr) < partition.min_in_sync:
            short[str(partition.name)] = partition.min_in_sync
    return {
        "broker_epoch": broker.broker_epoch,
        "controller": _controller(broker),
        "store": _store(broker),
        **({"quorum": {"voters": [voter for voter, _ in quorum.controllers]}} if (quorum := broker.quorum) else {}),
        "full": sorted(broker.replicas.full),
        "loading": {
            str(name): {"for_ms": now.mono - loading.since, "reason": loading.reason}
            for name, loading in broker.loading.items()
        },
        "producer_ids_wait_ms": broker.producer_ids.waiting_ms,
        "folders": {folder: _trouble(broker, folder) for folder in broker.config.folders},
        "behind": behind,
        "short": short,
        "uncleanable": {str(name): failure.reason for name, failure in broker.uncleanable.items()},
        "damaged": {str(name): damage for name, damage in broker.damaged.items()},
        **_min_insync_replicas(broker),
        **({"certificates": dict(certificates)} if certificates else {}),
    }


def _store(broker: Broker) -> dict[str, Any]:
    return {
        "silent": broker.store.is_silent,
        "session": broker.store.has_session,
        "registered": broker.broker_epoch >= 0,
        "waiting_ms": broker.store.waiting_ms,
    }


def _min_insync_replicas(broker: Broker) -> dict[str, list[int]]:
    config = broker.config
    own, applied = config.changed({}, {}).min_insync_replicas, config.min_insync_replicas
    is_given = "min.insync.replicas" in config.properties
    overridden = is_given and own != applied and broker.image.features.get(ELR_VERSION, 0) > 0
    return {"min_insync_replicas": [own, applied]} if overridden else {}


def _controller(broker: Broker) -> dict[str, Any]:
    controller = broker.controller
    eligible = controller.eligible if broker.image.features else {}
    return {
        "leading": controller.leading,
        "id": controller.leader_id,
        "epoch": controller.epoch,
        "deletions": controller.deletions,
        **({"refused": refused} if (refused := controller.refused) else {}),
        **({"eligible": eligible} if eligible else {}),
    }


def _trouble(broker: Broker, folder: str) -> str | None:
    try:
        broker.replicas.usage(folder)
    except (DiskFailed, FileNotFoundError) as error:
        return str(error)
    return None


def _behind(partition: Partition, role: Leader, now: int) -> dict[str, Any]:
    end = partition.log.log_end_offset
    return {
        str(replica): {
            "log_end_offset": progress.log_end_offset,
            "end": end,
            "caught_up_ms_ago": now - progress.caught_up_at if progress.caught_up_at > LONG_AGO else None,
        }
        for replica, progress in role.remote.items()
        if replica not in role.isr
    }
