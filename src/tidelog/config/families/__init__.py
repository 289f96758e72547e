"""A broker's options by family; `BrokerConfig` combines them. Names, types, defaults and bounds are Kafka 4.3.1's."""
