"""The options of a group of the newer protocols (KIP-848, 932, 1071), with a fallback to the broker's.

Names, types, defaults and bounds are Kafka 4.3.1's. Share and streams groups are not supported; their options are
stored.
"""

import re
from collections.abc import Mapping

from tidelog.config.broker import BrokerConfig, InheritingOptions
from tidelog.config.option import Option, Synonym, boolean, integer, string
from tidelog.errors import InvalidOption


def _group_option(default: int, doc: str, synonym: str, at_least: int, *, ignored: bool = False) -> Option[int]:
    return integer(default, doc, at_least=at_least, synonyms=(Synonym(synonym),), ignored=ignored)


def _reset(value: str) -> str | None:
    known = value in ("latest", "earliest") or re.fullmatch(r"by_duration:P[0-9DTHMS.]+", value)
    return None if known else "latest, earliest or by_duration:PnDTnHnMn.nS"


class GroupConfig(InheritingOptions):
    """`GroupConfig(overrides, broker).consumer_session_timeout_ms` and so on."""

    consumer_session_timeout_ms = _group_option(
        45_000, "Time without a heartbeat after which a member is removed.", "group.consumer.session.timeout.ms", 1
    )
    consumer_heartbeat_interval_ms = _group_option(
        5000, "Interval between heartbeats of a member.", "group.consumer.heartbeat.interval.ms", 1
    )
    consumer_assignment_interval_ms = _group_option(
        1000, "Minimum time between assignments.", "group.consumer.assignment.interval.ms", 0
    )
    share_session_timeout_ms = _group_option(
        45_000, "Session timeout of a share group.", "group.share.session.timeout.ms", 1, ignored=True
    )
    share_heartbeat_interval_ms = _group_option(
        5000, "Heartbeat interval of a share group.", "group.share.heartbeat.interval.ms", 1, ignored=True
    )
    share_assignment_interval_ms = _group_option(
        1000, "Minimum time between assignments.", "group.share.assignment.interval.ms", 0, ignored=True
    )
    share_record_lock_duration_ms = _group_option(
        30_000, "How long a delivered record is locked.", "group.share.record.lock.duration.ms", 1000, ignored=True
    )
    share_delivery_count_limit = _group_option(
        5, "Maximum deliveries of one record.", "group.share.delivery.count.limit", 2, ignored=True
    )
    share_partition_max_record_locks = _group_option(
        2000, "Maximum records locked per partition.", "group.share.partition.max.record.locks", 100, ignored=True
    )
    share_auto_offset_reset = string("latest", "Where a share group starts to read.", check=_reset, ignored=True)
    share_isolation_level = string(
        "read_uncommitted",
        "Whether a share group reads records of aborted transactions.",
        choices=("read_committed", "read_uncommitted"),
        ignored=True,
    )
    share_renew_acknowledge_enable = boolean(True, "Whether locks can be renewed.", ignored=True)
    streams_session_timeout_ms = _group_option(
        45_000, "Session timeout of a streams group.", "group.streams.session.timeout.ms", 1, ignored=True
    )
    streams_heartbeat_interval_ms = _group_option(
        5000, "Heartbeat interval of a streams group.", "group.streams.heartbeat.interval.ms", 1, ignored=True
    )
    streams_assignment_interval_ms = _group_option(
        1000, "Minimum time between assignments.", "group.streams.assignment.interval.ms", 0, ignored=True
    )
    streams_initial_rebalance_delay_ms = _group_option(
        3000, "How long to wait for more members.", "group.streams.initial.rebalance.delay.ms", 0, ignored=True
    )
    streams_num_standby_replicas = _group_option(
        0, "Number of standby tasks.", "group.streams.num.standby.replicas", 0, ignored=True
    )

    @classmethod
    def validate(cls, given: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
        """InvalidOption for the first unknown name, value out of bounds, or value beyond the broker's bounds."""
        for name in given:
            if name not in cls.OPTIONS:
                raise InvalidOption(f"{name} is not an option of a group")
        super().validate(given)
        broker = broker or BrokerConfig({})
        config = cls(given, broker)
        for name in given:
            for limit_kind, wrong in (("min", int.__lt__), ("max", int.__gt__)):
                bound = BrokerConfig.OPTIONS.get(_bound(name, limit_kind))
                if bound is not None:
                    limit, value = broker.value_of(bound), config.value_of(cls.OPTIONS[name])
                    if wrong(value, limit):
                        least = "at least" if limit_kind == "min" else "at most"
                        raise InvalidOption(f"{name} must be {least} {bound.name} ({limit}), not {value}")
        if {"consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"} & set(given):
            _check_heartbeat(config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms)


def _bound(name: str, limit_kind: str) -> str:
    """The bounding broker option: `group.consumer.min.session.timeout.ms` for `consumer.session.timeout.ms`."""
    protocol, _, rest = name.partition(".")
    return f"group.{protocol}.{limit_kind}.{rest.removeprefix('num.')}"


def _check_heartbeat(session_ms: int, heartbeat_ms: int) -> None:
    if heartbeat_ms >= session_ms:
        raise InvalidOption(
            f"consumer.heartbeat.interval.ms must be less than consumer.session.timeout.ms ({session_ms}), "
            f"not {heartbeat_ms}"
        )
