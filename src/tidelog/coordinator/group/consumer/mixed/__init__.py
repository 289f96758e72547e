"""Members of the classic protocol in consumer groups, and groups that change from one kind to the other."""
