"""Clients as they are published, each of which tries one `Attempt`: the result is "ok", or what the client reports."""

import asyncio
import json
import logging
import re
import subprocess
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AsyncTopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compatibility.security.matrix import HOUR_S, LONG_S, Attempt
from tests.kafka_tools import ToolServer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of kafka-python itself
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider as PlainTokenProvider

VALUE = "a record"
Client = Callable[[Attempt, int], str]
"""(attempt, port) → result."""


def plain_text(text: object) -> str:
    """What a client reports without addresses, numbers of processes and times."""
    found = re.sub(r"(127\.0\.0\.1|localhost|\[::1\]|::1)(/[\d.]+)?(:\d+)?", "HOST", " ".join(str(text).split()))
    return re.sub(r"0x[0-9a-f]+|\b\d+(\.\d+)?\s?(ms|s|seconds)\b|\b\d+(\.\d+)?\b", "N", found)


# confluent-kafka (librdkafka)


def confluent(attempt: Attempt, port: int) -> str:
    errors: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap.servers": f"{attempt.host}:{port}",
        "broker.address.family": "v4",
        "security.protocol": attempt.protocol,
        "error_cb": errors.append,
        "log_level": 0,
    }
    if attempt.has_tls:
        options["ssl.ca.location"] = str(attempt.trusted)
    if attempt.certificate is not None:
        store = str(attempt.certificate)
        options |= {"ssl.certificate.location": store, "ssl.key.location": store}
    if attempt.mechanism:
        options |= {"sasl.mechanism": attempt.mechanism, "sasl.username": attempt.user}
        options["sasl.password"] = attempt.password
    if attempt.token:
        options["oauth_cb"] = lambda _: (attempt.token, time.time() + HOUR_S)
    producer = Producer(options)
    results: list[Any] = []
    producer.produce(
        attempt.topic, VALUE, partition=0, on_delivery=lambda error, message: results.append(error or message)
    )
    deadline = time.monotonic() + 90
    while not (errors or results) and time.monotonic() < deadline:
        producer.poll(0.2)
    if errors or not hasattr(results[0], "offset"):
        producer.purge()
        return plain_text((errors or results)[0].str())
    reader = Consumer({**options, "group.id": "nobody", "enable.auto.commit": False})
    with closing(reader):
        reader.assign([TopicPartition(attempt.topic, 0, 0)])
        message = reader.poll(attempt.within_s)
        assert message is not None
        return "ok" if message.value() == VALUE.encode() else str(message.error())


# aiokafka


class _Tokens(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class _Reports(logging.Handler):
    """What a library logs while it tries: some raise an exception that does not say why."""

    def __init__(self, library: str) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._logger = logging.getLogger(library)

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "not authorized" in line or re.search(r"Unable|\wError\b", line):
            self.lines.append(line)


def _context(attempt: Attempt) -> Any:
    store = None if attempt.certificate is None else str(attempt.certificate)
    return create_ssl_context(cafile=str(attempt.trusted), certfile=store, keyfile=store) if attempt.has_tls else None


def asynchronous(attempt: Attempt, port: int) -> str:
    options: dict[str, Any] = {
        "bootstrap_servers": f"{attempt.host}:{port}",
        "security_protocol": attempt.protocol,
        "ssl_context": _context(attempt),
        "request_timeout_ms": attempt.within_s * 1000,
    }
    if attempt.mechanism:
        options["sasl_mechanism"] = attempt.mechanism
        if attempt.token:
            options["sasl_oauth_token_provider"] = _Tokens(attempt.token)
        else:
            options |= {"sasl_plain_username": attempt.user, "sasl_plain_password": attempt.password}

    async def story() -> str:
        producer = AIOKafkaProducer(**options)
        try:
            await producer.start()
            await producer.send_and_wait(attempt.topic, VALUE.encode(), partition=0)
        finally:
            await producer.stop()
        place = AsyncTopicPartition(attempt.topic, 0)
        reader = AIOKafkaConsumer(**options)
        reader.assign([place])
        try:
            await reader.start()
            reader.seek(place, 0)
            record = await asyncio.wait_for(reader.getone(), attempt.within_s)
        finally:
            await reader.stop()
        return "ok" if record.value == VALUE.encode() else repr(record)

    with _Reports("aiokafka") as reports:
        try:
            return asyncio.run(story())
        except Exception as error:  # noqa: BLE001 (whatever the library raises is the result)
            return plain_text("; ".join([f"{type(error).__name__}: {error}", *reports.lines[:1]]))


# kafka-python


class _PlainTokens(PlainTokenProvider):
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def kafka_python(attempt: Attempt, port: int) -> str:
    """It tries until its time is up whatever is wrong, and logs why: it gets more time until it has logged something."""
    for within_s in (1, 4, 16, attempt.within_s) if attempt.within_s == LONG_S else (attempt.within_s,):
        result, reasons = _kafka_python(attempt, port, within_s)
        if result == "ok" or reasons:
            break
    return plain_text("; ".join([result, *reasons[:1]]))


def _kafka_python(attempt: Attempt, port: int, within_s: int) -> tuple[str, list[str]]:
    options: dict[str, Any] = {
        "bootstrap_servers": f"{attempt.host}:{port}",
        "security_protocol": attempt.protocol,
        "ssl_context": _context(attempt),
        "bootstrap_timeout_ms": within_s * 1000,
    }
    if attempt.mechanism:
        options["sasl_mechanism"] = attempt.mechanism
        if attempt.token:
            options["sasl_oauth_token_provider"] = _PlainTokens(attempt.token)
        else:
            options |= {"sasl_plain_username": attempt.user, "sasl_plain_password": attempt.password}
    with _Reports("kafka") as reports:
        try:
            with closing(kafka.KafkaProducer(**options)) as producer:
                producer.send(attempt.topic, VALUE.encode(), partition=0).get(timeout=attempt.within_s)
            with closing(kafka.KafkaConsumer(**options, group_id=None)) as reader:
                place = kafka.TopicPartition(attempt.topic, 0)
                reader.assign([place])
                reader.seek(place, 0)
                found = reader.poll(timeout_ms=attempt.within_s * 1000, max_records=1)
                return "ok" if found[place][0].value == VALUE.encode() else repr(found), []
        except Exception as error:  # noqa: BLE001 (whatever the library raises is the result)
            return f"{type(error).__name__}: {error}", reports.lines


# franz-go


def franz_go(program: Path) -> Client:
    def run(attempt: Attempt, port: int) -> str:
        given = {
            "Address": f"{attempt.host}:{port}",
            "TLS": attempt.has_tls,
            "Trusted": str(attempt.trusted),
            "Certificate": str(attempt.certificate or ""),
            "Mechanism": attempt.mechanism,
            "User": attempt.user,
            "Password": attempt.password,
            "Token": attempt.token,
            "Topic": attempt.topic,
            "Seconds": attempt.within_s,
        }
        done = subprocess.run(
            [program], input=json.dumps(given), capture_output=True, text=True, timeout=300, check=True
        )
        return plain_text(done.stdout)

    return run


# Kafka's Java tools

LOGINS = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}
PACKAGE = "org.apache.kafka.common.security"


def java_options(attempt: Attempt, token_file: Path) -> dict[str, str]:
    """For Kafka's Java clients. The token is read from the file."""
    options = {"security.protocol": attempt.protocol, "default.api.timeout.ms": str(attempt.within_s * 1000)}
    options["request.timeout.ms"] = str(min(30, attempt.within_s) * 1000)
    if attempt.has_tls:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(attempt.trusted)}
    if attempt.certificate is not None:
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(attempt.certificate)}
    if attempt.mechanism:
        named = f' username="{attempt.user}" password="{attempt.password}"' if attempt.password else ""
        options["sasl.mechanism"] = attempt.mechanism
        options["sasl.jaas.config"] = f"{PACKAGE}.{LOGINS[attempt.mechanism]} required{named};"
    if attempt.token:
        options["sasl.oauthbearer.token.endpoint.url"] = f"file://{token_file}"
        handler = f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
        options["sasl.login.callback.handler.class"] = handler
    return options


def java(server: ToolServer, folder: Path) -> Client:
    """kafka-topics, the console producer and the console consumer."""

    def run(attempt: Attempt, port: int) -> str:
        file = folder / "client.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in java_options(attempt, server.token_file).items()))
        server.token_file.write_text(attempt.token)
        place = ("--bootstrap-server", f"{attempt.host}:{port}", "--command-config", str(file))
        topic = ("--topic", attempt.topic)

        def tool(name: str, *arguments: str, given: str = "") -> Any:
            return server.run(f"org.apache.kafka.tools.{name}", *place, *arguments, given=given)

        done = tool("TopicCommand", "--list")
        if done.returncode == 0:
            done = tool("ConsoleProducer", *topic, given=f"{VALUE}\n")
        if done.returncode == 0:
            limits = ("--partition", "0", "--offset", "0", "--max-messages", "1", "--timeout-ms", "90000")
            done = tool("consumer.ConsoleConsumer", *topic, *limits)
        if (done.returncode, done.stdout) == (0, f"{VALUE}\n"):
            return "ok"
        causes = re.findall(r"[\w.]+\.(\w+(?:Exception|Error)): ?(.*)", done.stdout + done.stderr)
        return plain_text("; ".join(dict.fromkeys(": ".join(each) for each in causes)) or done.stdout + done.stderr)

    return run
