"""Pipelines over topics, as plain functions of Structured Streaming: `flights`, `lag`, `mirror`, `lake`.

`table.PIPELINES` names them with their options; `plan.Plan` is what each is given, and makes readers and sinks. Every
stage is a query of its own with a checkpoint of its own, so a pipeline goes on where it was after any crash.
"""
