"""What can be configured: every option declared once (`broker.py`, `topic.py`), the rest derived from that.

Start from `BrokerConfig` and `TopicConfig`. Values come in as text, by Kafka's names, and are checked by `validate`
where they come in; reading an attribute answers the typed value. A configuration never changes: a new one replaces it.
"""
