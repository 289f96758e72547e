"""Messages as JSON values, by the names and rules of Kafka's own converters: what its tools print.

Names are camel case, ids are Kafka's text form, bytes are base64; fields that a version does not have are left out, and
so are tagged ones with their default.
"""

from base64 import b64encode
from typing import Any

from tidelog.model import id_text
from tidelog.wire.message import Field, fields, versions_of


def to_json(message: Any, version: int) -> dict[str, Any]:
    """A message of `wire.messages` as what `json.dumps` takes."""
    return {
        _camel_case(field.name): _value(field, getattr(message, field.name), version)
        for field in fields(message)
        if version in versions_of(field.versions) and not _is_left_out(field, getattr(message, field.name))
    }


def _is_left_out(field: Field, value: Any) -> bool:
    default = field.default() if callable(field.default) else field.default
    return field.tag is not None and value == default


def _value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.kind.name == "array":
        is_plain = not hasattr(field.element, "__fields__")
        return [item if is_plain else to_json(item, version) for item in value]
    if field.kind.name == "struct":
        return to_json(value, version)
    if field.kind.name == "uuid":
        return id_text(value)
    return b64encode(value).decode() if field.kind.name in ("binary", "records") else value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
