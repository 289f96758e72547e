"""The cluster's secret for SCRAM users that do not exist, where the metadata is in a quorum.

A broker that shows salts of its own for such users would say that they do not exist, because those of users that do are
the same on every broker. With another store the world reads the secret before the node starts. Here it is read with the
first session, and written by the first node that finds none; before, a node uses a secret of its own.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable

from tidelog.controller import tree
from tidelog.node.mirror import Submit
from tidelog.ports import Create, Node, Read, StoreResult
from tidelog.security.sasl import SaslListener

BYTES = 32


class SaslSalts:
    def __init__(self, listeners: Iterable[SaslListener], submit: Submit, entropy: Callable[[int], bytes]) -> None:
        self._listeners = tuple(listeners)
        self._submit = submit
        self._entropy = entropy
        self._is_known = False

    def __repr__(self) -> str:
        return f"SaslSalts({'known' if self._is_known else 'not known yet'})"

    def start(self) -> None:
        """A session began."""
        if self._listeners and not self._is_known:
            self._submit([Read(tree.SASL_SALTS)], self._found)

    def _found(self, result: StoreResult) -> None:
        if result.outcome != "ok":
            return  # the session is over, and the next one reads it
        node = result.values[0]
        if isinstance(node, Node):
            self._is_known = True
            for listener in self._listeners:
                listener.secret = node.data
        else:
            content = b64encode(self._entropy(BYTES))
            self._submit([Create(tree.SASL_SALTS, content)], lambda _: self.start())
