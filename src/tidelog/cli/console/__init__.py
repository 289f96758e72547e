"""`tidelog produce` and `tidelog consume`: Kafka's console producer and consumer."""
