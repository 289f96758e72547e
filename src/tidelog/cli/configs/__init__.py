"""`tidelog configs`: options of topics, brokers and groups (`resources`), and quotas of clients (`quotas`)."""
