"""Commands on replicas: move and balance them, elect leaders, describe log directories, delete records."""
