"""The options of brokers, topics and groups: each declared once, everything else derived from the declarations.

Start from `BrokerConfig` and `TopicConfig`. Values come in as text, by Kafka's names; `validate` checks them where they
come in, and reading an attribute returns the typed value. A configuration never changes: a new one replaces it.
"""
