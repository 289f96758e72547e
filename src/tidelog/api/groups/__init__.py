"""Handlers of the group APIs, a file per API. What a group's coordinator decides is submitted to it
(`to_group_coordinator`); what depends on the request's version, or on the topics that the cluster has, is done here."""
