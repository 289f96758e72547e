"""`tidelog pipeline`: lists and runs what `tidelog.spark.pipelines` has."""
