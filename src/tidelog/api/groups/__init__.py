"""Handlers of the group APIs. What a group's coordinator decides is submitted to it (`group_requests`); what depends on
the request's version, or on the topics that the cluster has, is done here."""
