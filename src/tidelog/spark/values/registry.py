"""A schema registry with Confluent's API (Confluent's own, Apicurio's `ccompat`, Karapace, Redpanda), by the client of
confluent-kafka."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from tidelog.spark.values import avro_schema, proto_schema
from tidelog.spark.values.registered import Avro, Protobuf, Written

KEPT_SCHEMAS = 1_000
"""Topics have few; values that are no values of the registry may name any."""
NOT_FOUND = 404
AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"


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
    references: tuple[tuple[str, str], ...]
    """Names and texts of what it uses, each behind what it uses itself."""


def avro(schema: Schema) -> avro_schema.Record:
    """The columns of a schema of Avro. UnsupportedSchema if it has none."""
    return avro_schema.parse(schema.text, (text for _, text in schema.references))


def protobuf(schema: Schema) -> proto_schema.Schema:
    """The messages of a schema of Protobuf. UnsupportedSchema if it is invalid."""
    return proto_schema.Schema(schema.text, schema.references)


def latest(access: RegistryAccess, subject: str) -> Schema | None:
    """The newest schema of a subject; None if there is none."""
    client = _new_client(access)
    try:
        return _asked(access, client, lambda: client.get_latest_version(subject).schema)
    finally:
        client.close()


@lru_cache(KEPT_SCHEMAS)
def written(access: RegistryAccess, kind: str, number: int, message: str = "") -> Written | None:
    """How values with this ID of a schema, which never changes, are decoded; of Protobuf, those of this message. None
    if there is no such schema of this kind, or it is not supported."""
    client = _kept_client(access)
    found = _asked(access, client, lambda: client.get_schema(number))
    if found is None or found.kind != kind:
        return None
    try:
        return Avro(avro(found)) if kind == AVRO else Protobuf(protobuf(found), message)
    except (avro_schema.UnsupportedSchema, proto_schema.UnsupportedSchema):
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
    references: dict[tuple[str, int], tuple[str, str]] = {}
    _collect(client, schema, references)
    return Schema(schema.schema_type or AVRO, schema.schema_str, tuple(references.values()))


def _collect(client: Any, schema: Any, found: dict[tuple[str, int], tuple[str, str]]) -> None:
    for each in schema.references or ():
        place = each.subject, each.version
        if place not in found:
            referenced = client.get_version(*place).schema
            _collect(client, referenced, found)
            found[place] = each.name, referenced.schema_str
