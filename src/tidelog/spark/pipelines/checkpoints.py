"""What is in the checkpoint of a streaming query, as far as its table must agree with it: Spark's ID of the query, and
its last batches. Spark 4.3 writes a file `metadata`, and for each batch `offsets/N` before it and `commits/N` after it.
"""

import json
from typing import Any, NamedTuple
from uuid import uuid4

from tidelog.spark.pipelines.folders import Folder

METADATA = "metadata"
_VERSION = "v1"


class Progress(NamedTuple):
    """`query` is the query's ID, None if it has none yet. `begun` and `committed` are the last batch that was planned,
    and the last one that Spark knows to be written, -1 if there is none."""

    query: str | None
    begun: int
    committed: int


def progress(checkpoint: Folder, stage: str) -> Progress:
    metadata = checkpoint.read(f"{stage}/{METADATA}")
    query = json.loads(metadata)["id"] if metadata else None
    return Progress(query, last_batch(checkpoint, f"{stage}/offsets"), last_batch(checkpoint, f"{stage}/commits"))


def last_batch(folder: Folder, log: str) -> int:
    """The last number in one of Spark's logs, in which some files are named `N.compact`; -1 if it is empty."""
    numbers = (name.removesuffix(".compact") for name in folder.names(log))
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


def new_query() -> str:
    return str(uuid4())


def name_query(checkpoint: Folder, stage: str, query: str) -> None:
    """Give a query without an ID one before Spark does, so that its table can be claimed before it starts."""
    checkpoint.create(f"{stage}/{METADATA}", json.dumps({"id": query}))


def renew(checkpoint: Folder, stage: str, batch: int, offsets: dict[str, Any]) -> None:
    """Replace a stage's checkpoint by one in which `batch` is the last that is written, and `offsets`, in the source's
    own format, is where the next one begins. The query has no ID until `name_query`."""
    checkpoint.remove(stage)
    state = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    planned = "\n".join([_VERSION, json.dumps(state), json.dumps(offsets)])
    written = "\n".join([_VERSION, json.dumps({"nextBatchWatermarkMs": 0})])
    for number in range(max(batch - 1, 0), batch + 1):  # Spark also looks at the batch before the last
        checkpoint.write(f"{stage}/offsets/{number}", planned)
        checkpoint.write(f"{stage}/commits/{number}", written)
