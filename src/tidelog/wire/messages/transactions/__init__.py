"""Messages of transactions and producers."""
