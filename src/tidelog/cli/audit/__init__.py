"""`tidelog audit`: the command, and its report as text, as a page and as a picture of each partition."""
