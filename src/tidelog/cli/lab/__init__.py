"""`tidelog lab`: stories of replication, told on the terminal or as a page."""
