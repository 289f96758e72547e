"""The clients of a story: one request at a time, each on its own connection, so that each can wait alone."""

from dataclasses import dataclass
from typing import Any

from tidelog.sim.network import End, Network
from tidelog.wire import codec

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID, ALTER_CONFIGS, ELECT_LEADERS = 0, 1, 19, 20, 22, 44, 43
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT, ALTER_REASSIGNMENTS = 24, 25, 26, 28, 45
VERSIONS = {0: 9, 1: 12, 8: 8, 9: 7, 10: 2, 19: 7, 20: 5, 22: 4, 24: 3, 25: 3, 26: 3, 28: 3, 43: 2, 44: 1, 45: 0}
"""The version of each request."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """`over` once there is a response, or none can arrive (`answer` is then None)."""

    key: int
    request: Any
    number: int
    over: bool = False
    answer: Any = None


class StoryClient:
    """A `network.Party`."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.name = name
        self._open: dict[int, PendingRequest] = {}
        self._last = 0

    def __repr__(self) -> str:
        return f"<{self.name}, {len(self._open)} questions open>"

    def ask(self, host: str, port: int, key: int, request: Any) -> PendingRequest:
        self._last += 1
        question = self._open[self._last] = PendingRequest(key, request, self._last)
        self.network.connect(self, self._last, host, port)
        return question

    def connected(self, end: End) -> None:
        question = self._open.get(end.number)
        if question is None:
            self.network.close(end)
            return
        version = VERSIONS[question.key]
        parts = codec.encode_request(question.key, version, question.number, self.name, question.request)
        self.network.send(end, b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]
        if question.key == PRODUCE and question.request.acks == 0:
            self._end(question)

    def arrived(self, end: End, data: bytes) -> None:
        for frame in [bytes(frame) for frame in end.reader.feed(data)]:
            question = self._open.get(end.number)
            if question is not None:
                _, question.answer = codec.decode_response(question.key, VERSIONS[question.key], frame)
                self._end(question)
                self.network.close(end)

    def connect_failed(self, number: int, reason: str) -> None:
        question = self._open.get(number)
        if question is not None:
            self._end(question)

    def disconnected(self, end: End) -> None:
        self.connect_failed(end.number, "disconnected")

    def _end(self, question: PendingRequest) -> None:
        question.over = True
        self._open.pop(question.number, None)
