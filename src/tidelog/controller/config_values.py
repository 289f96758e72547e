"""The valid values of an entity below `/config`, whoever wrote them.

Requests are checked before anything is written, but operators write into the tree as well. A malformed node counts as
no values, and an invalid value as not set: nothing in the tree may stop the brokers that read it.
"""

from collections.abc import Mapping

from tidelog.config.broker import BrokerConfig, base_name
from tidelog.config.group import GroupConfig
from tidelog.config.option import Options
from tidelog.config.topic import TopicConfig
from tidelog.controller import tree
from tidelog.errors import InvalidOption

_OPTIONS: Mapping[str, type[Options]] = {"topics": TopicConfig, "brokers": BrokerConfig, "groups": GroupConfig}


def read_values(entity: str, data: bytes) -> dict[str, str]:
    """The values of the entity ("topics/T", "brokers/N", …), without those that are not valid."""
    try:
        given = tree.parse_config(data)
    except tree.UNREADABLE:
        return {}
    options = _OPTIONS.get(entity.partition("/")[0])
    texts = {name: text for name, text in given.items() if isinstance(name, str) and isinstance(text, str)}
    return texts if options is None else {name: text for name, text in texts.items() if _allowed(options, name, text)}


def _allowed(options: type[Options], name: str, text: str) -> bool:
    option = options.OPTIONS.get(base_name(name))
    try:
        if option is not None:
            option.checked(text)
    except InvalidOption:
        return False
    return True
