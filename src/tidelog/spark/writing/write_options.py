"""The options of a write, named as those of Spark's own Kafka connector, and `exactlyOnce`."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.options import ProducerOptions
from tidelog.client.properties import PRODUCERS_WITHOUT_EFFECT
from tidelog.spark.access import Access
from tidelog.spark.options import BOOTSTRAP, BadOption, boolean, bootstrap_of, client_options, lowered, value

TOPIC = "topic"
EXACTLY_ONCE = "exactlyOnce"
PREFIX = "transactionalIdPrefix"
JOB = "jobName"
DEFAULT_PREFIX = "tidelog-spark"
KNOWN = frozenset({BOOTSTRAP, TOPIC, EXACTLY_ONCE, PREFIX, JOB})
SPARKS_OWN = frozenset({"checkpointlocation", "path", "querytype", "queryname", "includeheaders"})
"""Options that Spark passes on, or that its own connector accepts and ignores in a write."""

FORBIDDEN = {
    "key.serializer": "keys are written as the bytes or the text that they are",
    "value.serializer": "values are written as the bytes or the text that they are",
}
OWNED = {
    "transactional.id": f"it is made from the query and the task; option {PREFIX!r} says how it begins",
    "enable.idempotence": "a transaction needs it",
    "acks": "a transaction needs all of them",
}
"""Not allowed with exactlyOnce."""
BATCH_BYTES = 512 * 1024
"""The size of record batches unless `kafka.batch.size` is set: rows come by the thousand, so nothing waits."""
MAX_TRANSACTION_MS = 900_000
"""The brokers' default limit: how long an outage may last."""


@dataclass(frozen=True)
class WriteOptions:
    """Checked options. `producer` lacks the transactional ID, which each task has its own of."""

    bootstrap: str
    topic: str | None
    exactly_once: bool
    prefix: str
    job: str | None
    producer: ProducerOptions

    @property
    def access(self) -> Access:
        """For the driver's clients and the ledger's, not for the rows."""
        return Access.of(self.bootstrap, self.producer)

    @classmethod
    def of(cls, given: Mapping[str, str], *, streaming: bool) -> "WriteOptions":
        """BadOption for a missing, unknown or invalid option, with what to write instead."""
        named = {name: text for name, text in given.items() if name.lower() not in SPARKS_OWN}
        options = lowered(named, KNOWN)
        exactly_once = value(options, EXACTLY_ONCE, boolean, default=False)
        for name in (PREFIX, JOB):
            if name.lower() in options and not exactly_once:
                raise BadOption(f"option {name!r} means something only with {EXACTLY_ONCE!r}: set that to true")
        if streaming and JOB.lower() in options:
            raise BadOption(f"option {JOB!r} is for batch writes: a stream is known by its checkpoint; leave it out")
        topic = options.get(TOPIC)
        if topic is not None and not topic.strip():
            raise BadOption(f"option {TOPIC!r} is empty: name a topic, or leave it out and have a column 'topic'")
        return cls(
            bootstrap=bootstrap_of(options, "writing"),
            topic=None if topic is None else topic.strip(),
            exactly_once=exactly_once,
            prefix=options.get(PREFIX.lower(), DEFAULT_PREFIX),
            job=options.get(JOB.lower()),
            producer=_producer(options, exactly_once=exactly_once),
        )


def _producer(options: Mapping[str, str], *, exactly_once: bool) -> ProducerOptions:
    defaults = {"kafka.batch.size": str(BATCH_BYTES)}
    if exactly_once:
        defaults["kafka.transaction.timeout.ms"] = str(MAX_TRANSACTION_MS)
    forbidden = {**FORBIDDEN, **OWNED} if exactly_once else FORBIDDEN
    return client_options(ProducerOptions, {**defaults, **options}, PRODUCERS_WITHOUT_EFFECT, forbidden)
