"""Configurations of topics, brokers, groups and loggers: described, listed, altered."""
