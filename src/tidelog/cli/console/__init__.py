"""`tidelog produce` and `tidelog consume`: lines to records and records to lines, as Kafka's console tools do it."""
