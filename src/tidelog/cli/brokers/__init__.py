"""Commands that run brokers on this machine, and control them."""
