"""Where replicas stand and who leads: the commands that move them, elect, and look at folders."""
