"""Metrics in Prometheus' format, under the names that dashboards of Kafka know.

`kafka.py` has those of Kafka's JMX beans as its exporter spells them, `exporter.py` those of kafka_exporter, `page.py`
serves them. The node keeps plain numbers; here they are read on the loop at the moment of a request.
"""
