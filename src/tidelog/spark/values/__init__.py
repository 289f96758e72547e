"""Values that a schema registry describes, as Arrow columns."""
