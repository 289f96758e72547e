"""Tidelog, or any Kafka cluster, as a Python data source of Spark: `spark.readStream.format("tidelog")`, no jar.

`source.DefaultSource` is what PySpark finds; `options` are Spark's own connector's names; `offsets` turn them into
ranges; `batch` and `stream` are Spark's two readers; `reading` fetches one range of one partition as Arrow batches.
"""
