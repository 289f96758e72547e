"""The lab: stories of replication, told with real brokers and real logs, one step at a time.

`telling` is what a told story is (plain data, drawn by the terminal and the page), `language` reads a story, `engine`
tells it in `sim`. Every verdict is read from the bytes of the logs.
"""

from tidelog.lab.telling import Message, RecordView, ReplicaView, Step, Telling, Verdict, to_json

__all__ = ["Message", "RecordView", "ReplicaView", "Step", "Telling", "Verdict", "to_json"]
