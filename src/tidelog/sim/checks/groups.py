"""I29 (S): a group's generations ascend for each member, and no partition is owned twice in one generation. (What a
group committed is looked after by the clients that commit.)
"""

from collections.abc import Iterable

from tidelog.model import TopicPartition


class Groups:
    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}

    def __repr__(self) -> str:
        return f"Groups({len(self._last)} members)"

    def joined(self, group: str, generation: int, member: str, partitions: Iterable[TopicPartition]) -> None:
        last = self._last.get((group, member), -1)
        assert generation >= last, f"I29: {member} of {group} goes back from generation {last} to {generation}"
        self._last[group, member] = generation
        owners = self._owners.setdefault((group, generation), {})
        for name in partitions:
            owner = owners.setdefault(name, member)
            assert owner == member, f"I29: {owner} and {member} of {group} both own {name} in generation {generation}"
