"""`tidelog status`: the command, its views, and the screen that `--watch` redraws."""
