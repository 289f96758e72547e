"""What a pipeline is given, and what it is made of: stages, each a streaming query with a checkpoint of its own."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.spark import activate
from tidelog.spark.access import COMMON, Access
from tidelog.spark.options import BOOTSTRAP
from tidelog.spark.pipelines.checkpoints import last_batch
from tidelog.spark.pipelines.folders import Folder, absolute, below, folder_of
from tidelog.spark.reading.read_options import ReadOptions

Options = Mapping[str, str]
UNITS_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


class WrongOption(ValueError):
    """An option of a pipeline that is missing, unknown or invalid; the message names it and the remedy."""


def milliseconds(name: str, text: str) -> int:
    """The milliseconds of `5 minutes`."""
    found = re.fullmatch(r"(\d+) *(\w+?)s?", text.strip())
    if found is None or found[2] not in UNITS_MS:
        raise WrongOption(f"option {name!r} is a time like '5 minutes', not {text!r}")
    return int(found[1]) * UNITS_MS[found[2]]


class Option(NamedTuple):
    """`default` is None if the option is required, '' if it is optional."""

    default: str | None
    sentence: str


@dataclass(frozen=True)
class Plan:
    """Where to read (`bootstrap`, and the `kafka.…` options of its clients), where to keep progress, and how long to
    run: until all that exists now is processed (`once`), or continuously, with a batch every `every`. `away` are the
    `kafka.…` options of clients of another cluster."""

    bootstrap: str
    checkpoint: Path | str
    """A folder of this machine, or a URI."""
    options: Options
    kafka: Options = field(default_factory=dict, repr=False)
    away: Options = field(default_factory=dict, repr=False)
    once: bool = False
    every: str = "1 second"

    def __getitem__(self, name: str) -> str:
        return self.options[name]

    def topics(self, name: str) -> list[str]:
        """A list separated by commas. WrongOption if it is empty."""
        found = [each.strip() for each in self[name].split(",") if each.strip()]
        if not found:
            raise WrongOption(f"option {name!r} names no topic; give some, separated by commas")
        return found

    @property
    def access(self) -> Access:
        """For lookups besides the records. BadOption if a kafka.… option is invalid."""
        return ReadOptions.of(self.reading("any")).access

    def access_away(self, bootstrap: str) -> Access:
        """For lookups in another cluster. BadOption if a kafka.… option is invalid."""
        return ReadOptions.of({**self.away, BOOTSTRAP: bootstrap, "subscribe": "any"}).access

    @property
    def reaching(self) -> dict[str, str]:
        """The options that every source and sink on this cluster needs."""
        common = {name: text for name, text in self.kafka.items() if name.lower() in COMMON}
        return {**common, BOOTSTRAP: self.bootstrap}

    def records(self, spark: Any, topics: str, **more: str) -> Any:
        """The topics' committed records as a stream, from the earliest on unless the checkpoint has an offset."""
        chosen = {"startingOffsets": "earliest", **self.reading(topics), **more}
        if limit := self.options.get("batch"):
            chosen.setdefault("maxOffsetsPerTrigger", limit)
        return spark.readStream.format("tidelog").options(**chosen).load()

    def reading(self, topics: str) -> dict[str, str]:
        """The options of every read of these topics."""
        base = {BOOTSTRAP: self.bootstrap, "subscribe": topics, "kafka.isolation.level": "read_committed"}
        return {**base, **self.kafka}

    def to_topics(self, frame: Any, name: str, away: str | None = None) -> Any:
        """Write each row exactly once to the topic that it names. `name` is the stage's; `away` is another cluster."""
        activate(frame.sparkSession)
        writer = frame.writeStream.format("tidelog").option("exactlyOnce", "true")
        options = {**self.away, BOOTSTRAP: away} if away else self.reaching
        return self.start(frame.sparkSession, writer.options(**options), name)

    def start(self, spark: Any, writer: Any, name: str) -> Any:
        """The running query, with its checkpoint in a folder named after the stage."""
        trigger: dict[str, Any] = {"availableNow": True} if self.once else {"processingTime": self.every}
        clear_unbegun(self.folder(spark), name)
        return writer.option("checkpointLocation", self.place(name)).queryName(name).trigger(**trigger).start()

    def place(self, name: str) -> str:
        """A folder in the checkpoint, as Spark is given it."""
        return below(absolute(str(self.checkpoint)), name)

    def folder(self, spark: Any) -> Folder:
        """The checkpoint. BadOption if it is a URI that this session cannot reach."""
        return folder_of(self.checkpoint, spark)


def clear_unbegun(checkpoint: Folder, stage: str) -> None:
    """Remove the temporary files of a query that was killed while it wrote its first offsets. Spark 4.3 refuses such a
    checkpoint (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY) although no batch has begun in it."""
    names = checkpoint.names(f"{stage}/offsets")
    if not any(name[0].isdigit() for name in names):
        for name in names:
            if name.startswith(".") and name.endswith((".tmp", ".crc")):
                checkpoint.remove(f"{stage}/offsets/{name}")


class Stage(NamedTuple):
    """`start` returns the running query. With `once`, a stage starts when the one before it has ended."""

    name: str
    start: Callable[[], Any]


class Pipeline(NamedTuple):
    """`stages` is called with a SparkSession and a plan with all options. `fixed`: options that cannot change once a
    checkpoint has begun; `lists`: lists that must keep at least one name then; `clusters`: addresses."""

    sentence: str
    options: Mapping[str, Option]
    stages: Callable[[Any, Plan], Sequence[Stage]]
    fixed: Sequence[str] = ()
    lists: Sequence[str] = ()
    clusters: Sequence[str] = ()

    def complete(self, given: Options) -> dict[str, str]:
        """All options, with defaults. WrongOption for an unknown or missing one."""
        unknown = sorted(set(given) - set(self.options))
        if unknown:
            raise WrongOption(f"unknown option {unknown[0]!r}; expected one of {', '.join(self.options)}")
        found = {name: given.get(name, option.default) for name, option in self.options.items()}
        missing = [name for name, value in found.items() if value is None]
        if missing:
            raise WrongOption(f"option {missing[0]!r} is required: {self.options[missing[0]].sentence}")
        return {name: str(value) for name, value in found.items()}


CHECKPOINT_FILE = "pipeline.json"


def claim_checkpoint(name: str, pipeline: Pipeline, plan: Plan, spark: Any = None) -> None:
    """Take the checkpoint for this pipeline. WrongOption if it has made progress as another pipeline, or with other
    values of fixed options; one that has not read anything yet can be reused. A URI needs the session."""
    wanted = {"pipeline": name, **{option: plan[option] for option in (*pipeline.fixed, *pipeline.lists)}}
    folder = plan.folder(spark)
    kept = folder.read(CHECKPOINT_FILE)
    if kept is not None and any(last_batch(folder, f"{stage}/offsets") >= 0 for stage in folder.names()):
        _compare(json.loads(kept), wanted, plan, pipeline.lists)
    folder.write(CHECKPOINT_FILE, json.dumps(wanted))


def _compare(kept: dict[str, str], wanted: dict[str, str], plan: Plan, lists: Sequence[str]) -> None:
    remedy = f"give another --checkpoint than {plan.checkpoint}"
    if kept["pipeline"] != wanted["pipeline"]:
        raise WrongOption(f"the checkpoint is one of pipeline {kept['pipeline']}: {remedy}")
    for option, value in wanted.items():
        before = kept.get(option, value)
        if not (_names(before) & _names(value) if option in lists else before == value):
            raise WrongOption(f"the checkpoint is of {option}={before}, not {value}: {remedy}, or {option} as it was")


def _names(text: str) -> set[str]:
    return {each.strip() for each in text.split(",")}
