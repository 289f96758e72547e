"""The mirror of the tree's delegation tokens on this broker, kept by a watch. Nothing is read without
delegation.token.secret.key.

What changed follows from the ids that were added or removed, and from the notifications below
`/delegation_token/token_changes`, of which only the latest are kept: after a gap everything is read.
"""

from collections.abc import Callable, Iterable, Sequence

from tidelog.controller import tree
from tidelog.node.configs import names_of
from tidelog.ports import Children, Node, Operation, Read, StoreResult, Watch
from tidelog.security.delegation_tokens import TokenTable

Submit = Callable[[Sequence[Operation], Callable[[StoreResult], None]], None]

READS = 100
"""Tokens that are read at a time: parsing them is work of the event loop, some milliseconds."""
_QUERIES: Sequence[Operation] = (
    Watch(tree.DELEGATION_TOKEN),  # first, so that a change after the lists is noticed
    Children(tree.DELEGATION_TOKENS),
    Children(tree.DELEGATION_TOKEN_CHANGES),
)


class TokenMirror:
    """`submit` sends queries to the store and calls back within the node."""

    def __init__(self, submit: Submit, secret: str | None) -> None:
        self.table = TokenTable(secret)
        self._submit = submit
        self._known: set[str] = set()
        """The ids of the nodes that were read; the content of one may be malformed."""
        self._seen = -1
        """The latest notification that is reflected here."""
        self._read_all = True
        self._is_reading = self._read_again = False

    def __repr__(self) -> str:
        return f"<mirror of {self.table}, seen {self._seen}>"

    def start(self) -> None:
        """A session began: changes since the last one were missed."""
        self._read_all = True
        self.changed(tree.DELEGATION_TOKEN)

    def changed(self, path: str) -> None:
        """A store event: something changed at or below `path`."""
        if path != tree.DELEGATION_TOKEN or not self.table.is_enabled:
            return
        if self._is_reading:
            self._read_again = True
        else:
            self._read_changes()

    def _read_changes(self) -> None:
        self._is_reading, self._read_again = True, False
        self._submit(_QUERIES, self._listed)

    def _listed(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            self._read_changes()
            return
        ids, notifications = (names_of(value) for value in result.values[1:])
        existing = set(ids)
        for token_id in self._known - existing:
            self._take(token_id, None)
        numbers = tree.change_numbers(notifications)
        fresh, missed, self._seen = tree.unseen(numbers, self._seen)
        if self._read_all or missed:
            self._read_all = False
            self._read(existing, numbers)
        elif fresh:
            paths = [tree.delegation_token_change_path(number) for number in fresh]
            self._submit([Read(path) for path in paths], lambda named: self._notified(named, existing, numbers))
        else:
            self._read(existing - self._known, numbers)

    def _notified(self, result: StoreResult, existing: set[str], numbers: Sequence[int]) -> None:
        """Read the tokens that the notifications name, and new ones."""
        nodes = [value for value in result.values if isinstance(value, Node)]
        if result.outcome != "ok" or len(nodes) < len(result.values):
            self._read_all = True  # a notification went while we looked
            self._read_changes()
            return
        named = {node.data.decode(errors="replace") for node in nodes}
        self._read((named & existing) | (existing - self._known), numbers)

    def _read(self, ids: Iterable[str], numbers: Sequence[int]) -> None:
        """Read these tokens, some at a time; then the notifications count as seen."""
        wanted = sorted(ids)
        part, rest = wanted[:READS], wanted[READS:]

        def take(result: StoreResult) -> None:
            if result.outcome != "ok":
                self._read_all = True
                self._read_changes()
                return
            for token_id, value in zip(part, result.values, strict=True):
                self._take(token_id, value if isinstance(value, Node) else None)
            self._read(rest, numbers)

        if part:
            self._submit([Read(tree.delegation_token_path(token_id)) for token_id in part], take)
            return
        self._seen = numbers[-1] if numbers else -1
        self._is_reading = False
        if self._read_again:
            self._read_changes()

    def _take(self, token_id: str, node: Node | None) -> None:
        if node is None:
            self._known.discard(token_id)
            self.table.remove(token_id)
            return
        self._known.add(token_id)
        token = tree.readable_token(token_id, node.data)
        if token is None:
            self.table.remove(token_id)
        else:
            self.table.put(token)
