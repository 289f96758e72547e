"""The replica audit's tasks on Spark's executors; everything else of it is `audit/io`."""
