"""Apache Kafka's replicated log in Python."""
