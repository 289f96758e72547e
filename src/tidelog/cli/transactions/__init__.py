"""`tidelog transactions`, with kafka-transactions' commands, flags and columns."""
