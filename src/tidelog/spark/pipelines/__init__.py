"""Pipelines over topics, as plain functions of Structured Streaming: `flights`, `lag`, `mirror`, `lake`.

`table.PIPELINES` lists them with their options; each is given a `plan.Plan`, which makes readers and sinks. Every stage
is a query with its own checkpoint, so a pipeline resumes after any crash.
"""
