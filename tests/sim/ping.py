"""A tiny broker for tests of the world itself: it registers, pings its neighbour, and writes each ping to disk."""

from tidelog.effects import Close, Connect, Event, Send, Stop, Store, Sync
from tidelog.ports import Create, Watch


class PingNode:
    def __init__(self, host):
        self.host = host
        self.disk = host.disk
        self.id = host.broker_id
        self.file = None
        self.end = 0
        self.next_deadline = None
        self.out = None
        self.pings = 0
        self.lost = []
        self.sessions = []
        self.results = []
        self.events = []
        self.synced_tokens = []

    def start(self, now):
        path = "/data/pings"
        self.file = self.disk.open(path, create=not self.disk.exists(path))
        self.end = self.file.size()
        self.next_deadline = now.mono + 10
        return [Event("ping.started", {"end": self.end})]

    def session_started(self, session, now):
        self.sessions.append(session)
        return [Store(1, [Watch("/brokers/ids")]), Store(2, [Create(f"/brokers/ids/{self.id}", ephemeral=True)])]

    def session_lost(self, now):
        self.lost.append(now.mono)
        return []

    def store_result(self, token, result, now):
        self.results.append((token, result.outcome))
        return []

    def store_event(self, path, now):
        self.events.append(path)
        return []

    def wake(self, now):
        assert now.mono >= self.next_deadline
        self.next_deadline = now.mono + 50
        if self.out is None:
            self.out = -1
            return [Connect(-1, f"broker-{(self.id + 1) % 3}", 9093)]
        return [Send(-1, [b"\0\0\0\4", b"ping"])] if self.out == 1 else []

    def connected(self, connection, listener, peer, principal, now):
        if connection < 0:
            self.out = 1
        return []

    def connect_failed(self, connection, reason, now):
        self.out = None
        return []

    def receive(self, connection, frames, now):
        effects = []
        for frame in frames:
            assert bytes(frame) == b"ping"
            self.pings += 1
            self.file.write(self.end, frame)
            self.end += 4
            effects.append(Sync(self.pings, [self.file]))
        return effects

    def disconnected(self, connection, now):
        if connection < 0:
            self.out = None
        return []

    def synced(self, token, now):
        self.synced_tokens.append(token)
        return []

    def disk_failed(self, token, folder, reason, now):
        return [Stop(f"{folder}: {reason}")]

    def stop(self, now):
        return [Close(-1), Stop()]
