"""`tidelog dump-log`: what stands in the files of a log folder, line by line as Kafka's DumpLogSegments prints it."""
