"""Messages about brokers, their options and the cluster; between brokers too."""
