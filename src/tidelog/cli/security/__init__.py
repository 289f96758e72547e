"""Commands for SCRAM users (`users.py`, `scram_users.py`) and for delegation tokens (`delegation_tokens.py` parses the
flags, `token_actions.py` does the rest)."""
