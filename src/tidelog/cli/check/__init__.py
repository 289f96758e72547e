"""`tidelog check`: the history checker against any cluster."""
