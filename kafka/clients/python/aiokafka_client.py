"""Tries the features of aiokafka: aiokafka_client.py BOOTSTRAP PREFIX"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, __version__
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from trying import BOOTSTRAP, VALUES, WAIT_S, topic_of, tried


async def send(feature: str, values: list[bytes], **options: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, linger_ms=20, **options) as producer:
        for sent in [
            await producer.send(topic_of(feature), value, b"key", headers=[("name", b"header")]) for value in values
        ]:
            await asyncio.wait_for(sent, WAIT_S)


async def polled(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await asyncio.wait_for(consumer.getone(), WAIT_S) for _ in range(count)]


async def read(feature: str, count: int) -> list[Any]:
    reader = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    reader.assign([TopicPartition(topic_of(feature), 0)])
    async with reader:
        return await polled(reader, count)


async def records() -> None:
    await send("records", [b"value"])
    (record,) = await read("records", 1)
    assert (record.key, record.value, list(record.headers)) == (b"key", b"value", [("name", b"header")])


async def codec(name: str) -> None:
    await send(name, VALUES, compression_type=name)
    assert [record.value for record in await read(name, len(VALUES))] == VALUES


async def idempotence() -> None:
    await send("idempotence", VALUES, enable_idempotence=True)
    assert [record.value for record in await read("idempotence", len(VALUES))] == VALUES


async def transactions() -> None:
    name = topic_of("transactions")
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=name) as producer:
        for value, end in ((b"dropped", producer.abort_transaction), (b"kept", producer.commit_transaction)):
            await producer.begin_transaction()
            await producer.send_and_wait(name, value)
            await end()
    assert [record.value for record in await read("transactions", 1)] == [b"kept"]


async def group() -> None:
    for sent in ([b"1", b"2"], [b"3"]):
        await send("groups", sent)
        async with AIOKafkaConsumer(
            topic_of("groups"), bootstrap_servers=BOOTSTRAP, group_id=topic_of("groups"), auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as member:  # fmt: skip
            assert [record.value for record in await polled(member, len(sent))] == sent
            await member.commit()


async def topics() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    await admin.create_topics([NewTopic(topic_of("made"), 2, 1), NewTopic(topic_of("gone"), 2, 1)])
    await admin.delete_topics([topic_of("gone")])
    await admin.close()


async def configs() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic_of("configs"), {"retention.ms": "60000"})
    await admin.alter_configs([wanted])
    await admin.close()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


tried(
    __version__,
    {
        "records": lambda: run(records()),
        **{name: partial(lambda name: run(codec(name)), name) for name in ("gzip", "snappy", "lz4", "zstd")},
        "groups": lambda: run(group()),
        "idempotence": lambda: run(idempotence()),
        "transactions": lambda: run(transactions()),
        "topics": lambda: run(topics()),
        "configs": lambda: run(configs()),
    },
)
