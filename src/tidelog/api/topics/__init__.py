"""Topics and configurations: what admin clients ask for."""
