"""Many consumer groups on few connections: each member of a group has a connection of its own, which it shares with
members of other groups. They join with the classic protocol, and from then on only say that they are there."""

import struct
import time
from itertools import cycle, islice

from bench.sides import Side
from bench.wire import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Client, NotYet, find_coordinator, frame, patiently
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

MEMBERS = 3
TEAMS = 20
"""Connections by threes; what each carries is what is joined at the same time."""
SESSION_MS, REBALANCE_MS = 45_000, 60_000
HEARTBEAT_S = 3.0
"""Kafka's default, heartbeat.interval.ms."""
TICK_S = 0.002
SUBSCRIPTION = struct.pack(">hih5si", 0, 1, 5, b"topic", -1)
SHARE = struct.pack(">hih5siii", 0, 1, 5, b"topic", 1, 0, -1)
"""A subscription and an assignment of the consumer protocol, in its first version."""


class Groups:
    """`number` groups of three members at the first broker of a side."""

    def __init__(self, side: Side, number: int) -> None:
        patiently(find_coordinator, side.ports[0], "group-0")
        self._teams = [[Client(side.ports[0]) for _ in range(MEMBERS)] for _ in range(min(TEAMS, number))]
        self._beats: list[tuple[Client, bytes]] = []
        for first in range(0, number, len(self._teams)):
            for team, group in zip(self._teams, range(first, number), strict=False):
                self._beats += patiently(_form, team, f"group-{group}")
        self._beats.sort(key=lambda beat: id(beat[0]))
        step = MEMBERS * len(self._teams)
        share = len(self._beats) // step  # neighbours on different connections
        self._beats = [beat for at in range(share) for beat in self._beats[at::share]]

    def close(self) -> None:
        for team in self._teams:
            for client in team:
                client.socket.close()

    def beat(self, seconds: float) -> None:
        """Say of each member every three seconds that it is there, spread evenly; RuntimeError where it is not."""
        end = time.perf_counter() + seconds
        beats, due = cycle(self._beats), 0.0
        last = time.perf_counter()
        while last < end:
            time.sleep(TICK_S)
            now = time.perf_counter()
            due, last = due + (now - last) * len(self._beats) / HEARTBEAT_S, now
            some = list(islice(beats, int(due)))
            due -= len(some)
            for client, data in some:
                client.socket.sendall(data)
            for client, _ in some:
                if client.answer(HEARTBEAT).error_code:
                    raise RuntimeError("a member was lost")


def _form(team: list[Client], group: str) -> list[tuple[Client, bytes]]:
    """Let three members join, one on each connection; their heartbeats. The first one joins alone, then again with the
    others, whose requests wait until it does."""
    ids = [_member_id(client, group) for client in team[:1]]
    _checked(team[0].call(JOIN_GROUP, _join(group, ids[0])))
    ids += [_member_id(client, group) for client in team[1:]]
    for client, member in zip(team[1:], ids[1:], strict=True):
        client.send(JOIN_GROUP, _join(group, member))
    while len((joined := _checked(team[0].call(JOIN_GROUP, _join(group, ids[0])))).members) < MEMBERS:
        time.sleep(0.001)
    for client in team[1:]:
        _checked(client.answer(JOIN_GROUP))
    shares = [SyncGroupRequestAssignment(member_id=member, assignment=SHARE) for member in ids]
    for client, member in zip(team, ids, strict=True):
        sync = SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=member, protocol_type="consumer",
            protocol_name="range", assignments=shares if client is team[0] else [],
        )  # fmt: skip
        client.send(SYNC_GROUP, sync)
    for client in team:
        _checked(client.answer(SYNC_GROUP))
    beats = [HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=member) for member in ids]
    return [(client, frame(HEARTBEAT, beat)) for client, beat in zip(team, beats, strict=True)]


def _join(group: str, member: str) -> JoinGroupRequest:
    protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
    return JoinGroupRequest(
        group_id=group, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS, member_id=member,
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip


def _member_id(client: Client, group: str) -> str:
    """The broker makes one up, and wants it in the next request."""
    answer: JoinGroupResponse = client.call(JOIN_GROUP, _join(group, ""))
    if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        raise NotYet(f"{group}: {ErrorCode(answer.error_code).name}")
    return answer.member_id


def _checked(answer: JoinGroupResponse) -> JoinGroupResponse:
    if answer.error_code:
        raise RuntimeError(ErrorCode(answer.error_code).name)
    return answer
