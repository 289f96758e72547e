"""`tidelog status`: how far each replica is. `snapshot.py` asks the brokers, `view.py` shows what they said."""
