"""Whether a store's file still has what was committed: SQLite has no checksums of its own for that.

SQLite notices only damage of its structure, and takes a damaged transaction in the write-ahead log for the end of the
log: it drops that transaction and every later one in silence. So each transaction updates three counters: `nodes`, the
sum of the checksums of all nodes; `commits`, the number of transactions; and `seal`, the checksum of everything but the
nodes. `SqliteStore` also notes the number of commits outside the database (`Turns.note_commits`).

Nodes are summed, so a transaction reads only the nodes that it changes. A start reads all of them: 0.1 s for 50,000.
"""

import sqlite3
from zlib import crc32

from tidelog.ports import Node

_MASK = 0xFFFFFFFF


class StoreDamaged(Exception):
    """The store's file is damaged, or belongs to another program or a newer version."""


class Seal:
    """The counters, as one connection changes them. All of it is called inside a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._nodes = 0
        self._changes = 0
        self.commits = 0
        """How many commits the content had when `holds` read it."""

    def __repr__(self) -> str:
        return f"Seal(commits {self.commits})"

    def create(self) -> None:
        """Begin to count; what the transaction changed until now is part of the first sum."""
        counters = ("commits", 0), ("nodes", self._sum_of_nodes()), ("seal", 0)
        self._db.executemany("INSERT INTO counters VALUES (?, ?)", counters)
        self._nodes = 0

    def begin(self) -> None:
        self._nodes = 0
        self._changes = self._db.total_changes

    def added(self, path: str, node: Node) -> None:
        self._nodes += _checksum(path, path.rpartition("/")[0], *node)

    def removed(self, path: str, node: Node) -> None:
        self._nodes -= _checksum(path, path.rpartition("/")[0], *node)

    def renew(self) -> int:
        """The last statements before a commit; returns its number. A transaction that changed nothing stays one that
        writes nothing, and has the number 0."""
        if self._db.total_changes == self._changes:
            return 0
        counted = self._db.execute("UPDATE counters SET value = value + 1 WHERE name = 'commits' RETURNING value")
        row = counted.fetchone()
        if row is None:
            return 0  # an earlier version of this program may still have it open, and does not count
        self._db.execute("UPDATE counters SET value = (value + ?) & ? WHERE name = 'nodes'", (self._nodes, _MASK))
        self._db.execute("UPDATE counters SET value = ? WHERE name = 'seal'", (self._checksum_of_others(),))
        return int(row[0])

    def holds(self) -> bool:
        """Whether the content is what was committed."""
        counters = dict(self._db.execute("SELECT name, value FROM counters"))
        self.commits = counters.get("commits", 0)
        try:
            found = self._sum_of_nodes(), self._checksum_of_others()
        except TypeError:  # a text where bytes were
            return False
        return found == (counters.get("nodes"), counters.get("seal"))

    def _sum_of_nodes(self) -> int:
        rows = self._db.execute("SELECT path, parent, data, version, created, session FROM nodes")
        return sum(_checksum(*row) for row in rows) & _MASK

    def _checksum_of_others(self) -> int:
        counters = self._db.execute("SELECT name, value FROM counters WHERE name != 'seal' ORDER BY name").fetchall()
        sessions = self._db.execute("SELECT session, pid FROM sessions ORDER BY session").fetchall()
        changes = self._db.execute("SELECT min(number), max(number) FROM changes").fetchone()
        return crc32(repr((counters, sessions, changes)).encode())


def _checksum(path: str, parent: str, data: bytes, version: int, created: int, session: int) -> int:
    return crc32(data, crc32(f"{path} {parent} {version} {created} {session}".encode()))
