"""Messages about brokers and the cluster; between brokers too."""
