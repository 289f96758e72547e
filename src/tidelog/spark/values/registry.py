"""A schema registry with Confluent's API (Confluent's own, Apicurio's `ccompat`, Karapace, Redpanda), by the client of
confluent-kafka."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from tidelog.spark.values.avro_schema import Record, UnsupportedSchema, parse

KEPT_SCHEMAS = 1_000
"""Topics have few; values that are no values of the registry may name any."""
NOT_FOUND = 404
AVRO = "AVRO"
JSON = "JSON"


class RegistryFailed(Exception):
    """The registry does not answer, or refuses."""


class RegistryAccess(NamedTuple):
    """How to reach a registry; it is sent to tasks. `config` are other options of confluent-kafka's
    SchemaRegistryClient, such as `basic.auth.user.info`."""

    url: str
    config: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: str, config: Mapping[str, str]) -> "RegistryAccess":
        return cls(url, tuple(sorted(config.items())))


class Schema(NamedTuple):
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[str, ...]


def latest(access: RegistryAccess, subject: str) -> Schema | None:
    """The newest schema of a subject; None if there is none."""
    client = _new_client(access)
    try:
        return _asked(access, client, lambda: client.get_latest_version(subject).schema)
    finally:
        client.close()


@lru_cache(KEPT_SCHEMAS)
def avro(access: RegistryAccess, number: int) -> Record | None:
    """The columns of the schema with this ID, which never changes; None if there is none, or if it is not of Avro or
    not supported."""
    client = _kept_client(access)
    found = _asked(access, client, lambda: client.get_schema(number))
    try:
        return parse(found.text, found.references) if found is not None and found.kind == AVRO else None
    except UnsupportedSchema:
        return None


def _asked(access: RegistryAccess, client: Any, ask: Callable[[], Any]) -> Schema | None:
    """The schema, with its references; None if the registry has none. RegistryFailed if it cannot be asked."""
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        return _complete(client, ask())
    except SchemaRegistryError as error:
        if error.http_status_code == NOT_FOUND:
            return None
        raise RegistryFailed(f"{access.url}: {error}") from error
    except Exception as error:  # the client lets the errors of its HTTP library through
        raise RegistryFailed(f"{access.url}: {error}") from error


def _new_client(access: RegistryAccess) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient.new_client({"url": access.url, **dict(access.config)})


@lru_cache(4)
def _kept_client(access: RegistryAccess) -> Any:
    """A worker process keeps its connections."""
    return _new_client(access)


def _complete(client: Any, schema: Any) -> Schema:
    references: dict[tuple[str, int], str] = {}
    _collect(client, schema, references)
    return Schema(schema.schema_type or AVRO, schema.schema_str, tuple(references.values()))


def _collect(client: Any, schema: Any, found: dict[tuple[str, int], str]) -> None:
    for each in schema.references or ():
        place = each.subject, each.version
        if place not in found:
            referenced = client.get_version(*place).schema
            _collect(client, referenced, found)
            found[place] = referenced.schema_str
