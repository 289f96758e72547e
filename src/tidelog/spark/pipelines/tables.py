"""A table of a pipeline and the checkpoint of the query that fills it must agree, or rows would be missing or doubled.

A table knows its source (the cluster, and its topics with their IDs) and takes no rows of another one. It also knows
what each query has written to it. So what happens to a checkpoint or to a table alone is noticed before a row is
written: a checkpoint that was deleted or belongs to another table, a table that was deleted or restored. With
`restart=table` such a query begins again where the rows in the table end.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tidelog.model import NO_ID, TopicPartition, id_text
from tidelog.spark.access import Access
from tidelog.spark.pipelines.checkpoints import Progress, name_query, new_query, progress, renew
from tidelog.spark.pipelines.folders import Folder
from tidelog.spark.pipelines.output_topics import describe_topics
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.reading.offsets import QueryOffset

RESTART = "restart"
FROM_TABLE = "table"


class Source(NamedTuple):
    """Where a table's rows come from; `topics` are IDs by name, "" where brokers report none."""

    cluster: str
    topics: Mapping[str, str]

    @property
    def text(self) -> str:
        return f"topic {', '.join(f'{name} ({id_})' for name, id_ in self.topics.items())} of cluster {self.cluster}"


def source_of(access: Access, topic: str) -> Source:
    """What the cluster knows of a topic that exists."""
    with access.lookup_admin() as admin:
        answer = describe_topics(admin, [topic])
    (found,) = answer.topics
    return Source(answer.cluster_id or "", {topic: "" if found.topic_id == NO_ID else id_text(found.topic_id)})


class Record(NamedTuple):
    """What a table knows of itself: its source, the columns of its values (Spark's JSON), and option 'partition'."""

    source: Source
    schema: str = ""
    partition: str = ""

    def to_json(self, **more: str) -> str:
        return json.dumps({"source": self.source._asdict(), "schema": self.schema, "partition": self.partition, **more})

    @classmethod
    def from_json(cls, text: str) -> "Record":
        found = json.loads(text)
        return cls(Source(**found["source"]), found["schema"], found["partition"])


class Table(Protocol):
    """One table, of one format."""

    place: str
    """Its folder or URI."""

    def record(self) -> Record | None:
        """None if there is no table yet. WrongOption if something else is there."""
        ...

    def create(self, record: Record, schema: Any, columns: Sequence[str], query: str) -> None:
        """For rows of this schema, in folders by these columns. WrongOption if somebody else did, meanwhile."""
        ...

    def agrees(self, found: Progress) -> bool:
        """Whether a query that got this far can continue, with each row written once. The table may not exist yet."""
        ...

    def ends(self) -> dict[int, int]:
        """The offset behind the last row of each partition of the topic that has rows."""
        ...

    def hand_over(self, query: str) -> int:
        """Make it the table of this query; returns the number of the batch that counts as its last, -1 for none."""
        ...


def claim(table: Table, plan: Plan, spark: Any, stage: str, wanted: Record, frame: Any, columns: Sequence[str]) -> str:
    """The ID of the query that may now write rows like this frame's to the table, which is created if it is missing.
    WrongOption if the table has another source, or does not agree with the checkpoint."""
    checkpoint = plan.folder(spark)
    found, known = progress(checkpoint, stage), table.record()
    if known is not None:
        _check(table, known, wanted)
    if not table.agrees(found):
        if plan.options.get(RESTART) != FROM_TABLE:
            raise WrongOption(_disagreement(table, plan, known))
        checkpoint.remove(stage)
        if known is not None:
            return _restart(table, checkpoint, stage, known.source)
        found = progress(checkpoint, stage)
    query = found.query or new_query()
    name_query(checkpoint, stage, query)
    if known is None:
        table.create(wanted, frame.schema, columns, query)
    return query


def _check(table: Table, known: Record, wanted: Record) -> None:
    if known.source != wanted.source:
        raise WrongOption(
            f"{table.place} is a table of {known.source.text}, and this is {wanted.source.text}: give another path"
        )
    if known.partition != wanted.partition:
        raise WrongOption(
            f"option 'partition' is {wanted.partition!r}, and that of {table.place} so far {known.partition!r}: "
            "give the same, or another path"
        )


def _restart(table: Table, checkpoint: Folder, stage: str, source: Source) -> str:
    """A new checkpoint that begins where the rows in the table end. Its query has an ID when it is complete: until then
    the table agrees with no query."""
    ends = {TopicPartition(topic, number): end for topic in source.topics for number, end in table.ends().items()}
    query = new_query()
    batch = table.hand_over(query)
    if batch >= 0:
        ids = {topic: id_ for topic, id_ in source.topics.items() if id_}
        renew(checkpoint, stage, batch, QueryOffset(ends, ids).to_json())
    name_query(checkpoint, stage, query)
    return query


def _disagreement(table: Table, plan: Plan, record: Record | None) -> str:
    if record is None:
        what = f"there is no table at {table.place}, to which checkpoint {plan.checkpoint} has written rows"
    else:
        what = f"another query, or one with another checkpoint than {plan.checkpoint}, wrote {table.place}"
    remedies = [f"give another path, or remove {table.place} and {plan.checkpoint} to write it anew"]
    if RESTART in plan.options:
        remedies.insert(0, f"option {RESTART}={FROM_TABLE} continues where the rows in the table end")
    return f"{what}: {'; or '.join(remedies)}"
