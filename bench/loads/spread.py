"""Records for many partitions of one broker: prebuilt requests, each with one batch of 16 KB for fifty partitions."""

from bench.wire import PRODUCE, Client, frame, records_for

PARTITIONS_A_REQUEST = 50
RECORDS, SIZE = 16, 1000
IN_FLIGHT = 4
LEADER_ACK = 1


def spread(port: int, topic: str, partitions: int, size: int) -> int:
    """Write about `size` bytes, evenly; how many records that were."""
    parts = [range(partitions)[at : at + PARTITIONS_A_REQUEST] for at in range(0, partitions, PARTITIONS_A_REQUEST)]
    frames = [frame(PRODUCE, records_for(topic, list(part), LEADER_ACK, SIZE, RECORDS)) for part in parts]
    rounds = max(1, size // (partitions * RECORDS * SIZE))
    with Client(port) as client:
        sent = 0
        for data in frames * rounds:
            client.socket.sendall(data)
            sent += 1
            if sent > IN_FLIGHT:
                _check(client)
        for _ in range(min(sent, IN_FLIGHT)):
            _check(client)
    return rounds * partitions * RECORDS


def _check(client: Client) -> None:
    answer = client.answer(PRODUCE)
    if any(each.error_code for found in answer.responses for each in found.partition_responses):
        raise RuntimeError("a partition refuses")
