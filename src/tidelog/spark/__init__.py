"""Tidelog, or any Kafka cluster, as a Python data source of Spark: `spark.readStream.format("tidelog")`, without a jar.

`source.DefaultSource` is what PySpark finds. `reading` is the source, `writing` the sink, `pipelines` the queries of
`tidelog pipeline`. Options have the names of Spark's own Kafka connector.
"""
