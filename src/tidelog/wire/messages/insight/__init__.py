"""Messages of Tidelog's own, between its brokers and its tools; Kafka has none of them."""
