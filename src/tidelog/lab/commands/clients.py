"""Producers and consumers: plain requests to the leader, one at a time."""

from tidelog.errors import ErrorCode
from tidelog.lab import requests
from tidelog.lab.language import Command
from tidelog.lab.play import CommandEntry, Play, Sent, command_entry
from tidelog.lab.post import ANSWER, Rule
from tidelog.lab.views import records_on
from tidelog.sim.host import WALL_START
from tidelog.wire import records
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.transactions.transaction_requests import InitProducerIdRequest

ACKS = {"0": 0, "1": 1, "all": -1}
PRODUCE_TIMEOUT_MS = 60_000
NO_PRODUCER = (-1, -1, -1)

# Producing.


def produce(play: Play, command: Command) -> None:
    """Send one request for each value, to the leader or to the named broker."""
    acks = command.options.get("acks", play.knobs.get("acks", "all"))
    if acks not in ACKS:
        raise play.impossible(f"expected acks=0, acks=1 or acks=all, not acks={acks}.")
    target = play.running(command.options["to"]) if "to" in command.options else play.leader()
    for value in command.words:
        _send(play, value, _batch(play, value, command.options), acks, target, command)
    play.run()


def retry(play: Play, command: Command) -> None:
    """Send the same batch again, as a producer does without a response."""
    for value in command.words:
        earlier = next((sent for sent in reversed(play.sent) if sent.label == value), None)
        if earlier is None:
            raise play.impossible(f"{value} was never sent; expected `produce {value}` before.")
        target = play.running(command.options["to"]) if "to" in command.options else play.leader()
        _send(play, value, earlier.content, earlier.acks, target, command)
    play.run()


def _send(play: Play, value: str, content: bytes, acks: str, target: str, command: Command) -> None:
    rule = _loss(play, target, command.options.get("lose", ""))
    data = PartitionProduceData(index=0, records=content)
    topic = TopicProduceData(name=play.name.topic, partition_data=[data])
    request = ProduceRequest(acks=ACKS[acks], timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])
    play.sent.append(Sent(value, acks, play.ask(target, requests.PRODUCE, request), content))
    if rule is not None:
        post = play.stage.post
        play.stage.until(lambda: bool(post.waiting(rule.source, rule.target, rule.kinds)), 2_000_000)
        for letter in post.waiting(rule.source, rule.target, rule.kinds):
            post.lose(letter)
        post.rules.remove(rule)
    elif len(command.words) > 1:
        play.run(10_000)


def _loss(play: Play, target: str, what: str) -> Rule | None:
    if what not in ("", "request", "answer"):
        raise play.impossible(f"expected lose=request or lose=answer, not lose={what}.")
    host = play.party(target)
    rules = {
        "request": Rule("client", host, frozenset({"Produce"})),
        "answer": Rule(host, "client", frozenset({"Produce" + ANSWER})),
    }
    rule = rules.get(what)
    if rule is not None:
        play.stage.post.rules.append(rule)
    return rule


def _batch(play: Play, value: str, options: dict[str, str]) -> bytes:
    """Return a batch; with `by`, that of an idempotent producer, with ID and sequence (KIP-98)."""
    number, epoch, sequence = _identity(play, options["by"]) if "by" in options else NO_PRODUCER
    wall = WALL_START + play.stage.world.micros // 1000
    key = options["key"].encode() if "key" in options else None
    record = records.Record(timestamp=wall, key=key, value=value.encode())
    return records.build([record], producer_id=number, producer_epoch=epoch, base_sequence=sequence)


def _identity(play: Play, producer: str) -> tuple[int, int, int]:
    known = play.producers.get(producer)
    if known is None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        answer = play.answer(play.leader(), requests.INIT_PRODUCER_ID, request)
        if answer is None or answer.error_code:
            raise play.impossible("the producer was given no id.")
        known = answer.producer_id, answer.producer_epoch, 0
    play.producers[producer] = known[0], known[1], known[2] + 1
    return known


# Consuming.


def consume(play: Play, command: Command) -> None:
    """Read from an offset on; `to=leo` reads as if there were no high watermark."""
    position = _number(play, command.options.get("from", "0"))
    broker = play.running(command.options["on"]) if "on" in command.options else play.leader()
    if command.options.get("to", "hw") == "leo":
        found = [(r.offset, r.label) for r in records_on(play.stage.hosts[broker].disk, play.name)]
        found = [one for one in found if one[0] >= position]
    else:
        found = read(play, broker, position)
    _remember(play, found)
    play.last_read = [value for _, value in found]
    play.told.append(f"a consumer reads {' '.join(play.last_read) or 'nothing'} from {broker}")


def _number(play: Play, text: str) -> int:
    if not text.isdecimal():
        raise play.impossible(f"expected an offset, not {text!r}.")
    return int(text)


def read(play: Play, broker: str, position: int) -> list[tuple[int, str]]:
    """All that is there to read: one answer need not hold it all."""
    found: list[tuple[int, str]] = []
    while True:
        piece, end = _read_once(play, broker, found[-1][0] + 1 if found else position)
        found += piece
        if not piece or found[-1][0] + 1 >= end:
            return found


def _read_once(play: Play, broker: str, position: int) -> tuple[list[tuple[int, str]], int]:
    """What one answer holds, and the high watermark."""
    wanted = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=play.name.topic, partitions=[wanted])
    answer = play.answer(broker, requests.FETCH, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]))
    data = answer.responses[0].partitions[0] if answer is not None and answer.responses else None
    if data is None or data.error_code:
        play.told.append(f"the consumer is refused with {ErrorCode(data.error_code).name if data else 'no answer'}")
        return [], 0
    content = bytes(data.records or b"")
    found = [
        (record.offset, bytes(record.value or b"").decode(errors="replace"))
        for batch in records.batches(content)
        if not batch.is_control
        for record in records.records(content, batch)
        if record.offset >= position
    ]
    return found, data.high_watermark


def _remember(play: Play, found: list[tuple[int, str]]) -> None:
    for offset, value in found:
        before = play.read.setdefault(offset, value)
        if before != value:
            sentence = f"At offset {offset} a consumer once read {before}, and later {value}."
            play.changed.setdefault(offset, sentence)


COMMANDS: dict[str, CommandEntry] = {
    "produce": command_entry(
        "produce VALUE… [acks=0|1|all] [to=BROKER] [by=PRODUCER] [key=KEY] [lose=request|answer]",
        produce,
        1,
        None,
        "acks",
        "to",
        "by",
        "key",
        "lose",
    ),
    "retry": command_entry("retry VALUE… [to=BROKER] [lose=request|answer]", retry, 1, None, "to", "lose"),
    "consume": command_entry("consume [from=OFFSET] [on=BROKER] [to=hw|leo]", consume, 0, 0, "from", "on", "to"),
}
