"""Pipeline *lake*: a topic of JSON → a partitioned table of Parquet files, or of Delta Lake.

`pipeline` has the stages, `schema` finds the columns, `ownership` refuses the table of another query. Executors write
files (`files`); only the driver makes them part of the table, once for each batch: `parquet` with a log of its own,
`delta` in Delta's log with the batch's number beside it. Both put small files together. Delta goes through delta-rs:
delta-spark wants a PySpark before 4.3 and a jar.
"""
