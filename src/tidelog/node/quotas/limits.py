"""Which quota holds for whom: the most specific one that is set, in Kafka's order.

Who shares a quota is counted together: a quota of a user holds for all its clients, one of a client id for all users
that have none of their own.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import NamedTuple

from tidelog.config.quotas import CLIENT_ID, IP, USER, Entity

_ABSENT = ""
"""No name is empty, so this stands for a type that an entity does not have."""

MOST_KNOWN = 10_000
"""Clients choose their ids, so what is remembered of them must have a bound."""


class Limit(NamedTuple):
    """A bound, and who is counted together under it."""

    bound: float
    shared_by: tuple[str, str]


class Limits:
    """`of(quota, user, client)` for users and clients, `rates` for addresses. A change is a new instance."""

    def __init__(self, quotas: Iterable[tuple[Entity, Mapping[str, float]]]) -> None:
        self._bounds: dict[tuple[str, str | None, str | None], float] = {}
        self.rates: dict[str | None, float] = {}
        """Connections per second by address, None for the default of all."""
        for entity, values in quotas:
            for name, bound in values.items():
                if IP in entity:
                    self.rates[_canonical(entity[IP])] = bound
                else:
                    self._bounds[name, entity.get(USER, _ABSENT), entity.get(CLIENT_ID, _ABSENT)] = bound
        self._found: dict[tuple[str, str, str], Limit | None] = {}
        self.names = frozenset(name for name, _, _ in self._bounds)
        """The quotas that anybody has."""

    def __repr__(self) -> str:
        return f"<Limits {len(self._bounds)} of clients, {len(self.rates)} of addresses>"

    def of(self, name: str, user: str, client: str) -> Limit | None:
        key = (name, user, client)
        if key not in self._found:
            if len(self._found) >= MOST_KNOWN:
                self._found.clear()
            self._found[key] = self._search(*key)
        return self._found[key]

    def _search(self, name: str, user: str, client: str) -> Limit | None:
        for his, its, shared_by in (
            (user, client, (user, client)),
            (user, None, (user, client)),
            (user, _ABSENT, (user, "")),
            (None, client, (user, client)),
            (None, None, (user, client)),
            (None, _ABSENT, (user, "")),
            (_ABSENT, client, ("", client)),
            (_ABSENT, None, ("", client)),
        ):
            if (bound := self._bounds.get((name, his, its))) is not None:
                return Limit(bound, shared_by)
        return None


def _canonical(address: str | None) -> str | None:
    """An address as sockets tell it; a host's name stays as it is."""
    try:
        return address and str(ip_address(address))
    except ValueError:
        return address
