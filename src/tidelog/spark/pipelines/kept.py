"""What a checkpoint is of: a pipeline, and those of its options that may not change under it."""

import json
from collections.abc import Sequence

from tidelog.spark.pipelines.plan import Pipeline, Plan, WrongOption

FILE = "pipeline.json"


def claim(name: str, pipeline: Pipeline, plan: Plan) -> None:
    """Take the checkpoint for this pipeline. WrongOption where it has gone some way as another, or with others of the
    options that are fixed; one that has read nothing yet can become anything."""
    wanted = {"pipeline": name, **{option: plan[option] for option in (*pipeline.fixed, *pipeline.lists)}}
    file = plan.checkpoint / FILE
    if file.exists() and any(plan.checkpoint.glob("*/offsets/[0-9]*")):
        _compare(json.loads(file.read_text(encoding="utf-8")), wanted, plan, pipeline.lists)
    plan.checkpoint.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(wanted), encoding="utf-8")
    part.rename(file)


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
