"""What a checkpoint is of: a pipeline, and those of its options that may not change under it."""

import json

from tidelog.spark.pipelines.plan import Pipeline, Plan, WrongOption

FILE = "pipeline.json"


def claim(name: str, pipeline: Pipeline, plan: Plan) -> None:
    """Take the checkpoint for this pipeline. WrongOption where it has gone some way as another, or with others of the
    options `pipeline.fixed`; one that has read nothing yet can become anything."""
    wanted = {"pipeline": name, **{option: plan[option] for option in pipeline.fixed}}
    file = plan.checkpoint / FILE
    if file.exists() and any(plan.checkpoint.glob("*/offsets/[0-9]*")):
        _compare(json.loads(file.read_text(encoding="utf-8")), wanted, plan)
    plan.checkpoint.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(wanted), encoding="utf-8")
    part.rename(file)


def _compare(kept: dict[str, str], wanted: dict[str, str], plan: Plan) -> None:
    remedy = f"give another --checkpoint than {plan.checkpoint}"
    if kept["pipeline"] != wanted["pipeline"]:
        raise WrongOption(f"the checkpoint is one of pipeline {kept['pipeline']}: {remedy}")
    for option, value in wanted.items():
        if kept.get(option, value) != value:
            raise WrongOption(
                f"the checkpoint is of {option}={kept[option]}, not {value}: {remedy}, or {option} as it was"
            )
