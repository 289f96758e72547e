"""What the commands share: options that several tools have, and rules about which go together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # not generic before click 8.4

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_STORE = "tidelog.store"
HANGING_AFTER_MINUTES = 15
"""Since the last record: Kafka's default of transaction.max.timeout.ms, the longest that a coordinator waits."""

IGNORED_OPTIONS = ("bootstrap.servers", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
"""What Kafka's configuration files say of things that are given elsewhere here."""


class CommandFailed(click.ClickException):
    """Why a command was not carried out, as one sentence; exit code 1."""

    exit_code = 1


class Bootstrap(ParamType):
    """`host:port,host:port`."""

    name = "host:port,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        for address in str(value).split(","):
            host, _, port = address.strip().rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) <= 65535:
                self.fail(f"{address.strip()!r} is not host:port with a port from 1 to 65535.", param, ctx)
        return str(value)


class Pair(ParamType):
    """`name=value`, as a (name, value) pair; `strip` takes blanks around the value away."""

    name = "name=value"

    def __init__(self, *, strip: bool = True) -> None:
        self._strip = strip

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not name=value.", param, ctx)
        return name.strip(), text.strip() if self._strip else text


def cluster_options(function: Function) -> Function:
    """Those of `broker_options`, and `--command-config`."""
    function = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False),
        help="A properties file with options of the admin client.",
    )(function)
    return broker_options(function)


def broker_options(function: Function) -> Function:
    """`--bootstrap-server`, or in its place `--zookeeper` as in Kafka 3."""
    function = click.option(
        "--zookeeper",
        expose_value=False,
        is_eager=True,
        callback=_save_store,
        help="In place of --bootstrap-server the cluster's store: host:port/chroot of ZooKeeper, or a file of SQLite.",
    )(function)
    return click.option(
        "--bootstrap-server",
        type=Bootstrap(),
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        callback=_brokers,
        help="Brokers to connect to.",
    )(function)


def _save_store(context: click.Context, _parameter: click.Parameter, text: str | None) -> None:
    context.meta[_STORE] = text


def _brokers(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """The brokers to connect to, looked up where only their store is named."""
    store = context.meta.get(_STORE)
    if store is None or context.resilient_parsing:
        return given
    if context.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT:
        raise click.UsageError("--zookeeper and --bootstrap-server exclude each other.", context)
    from tidelog.cli.store_address import bootstrap_from_store

    return bootstrap_from_store(store)


def flag(name: str, sentence: str) -> Callable[[Function], Function]:
    return click.option(f"--{name}", is_flag=True, help=sentence)


def is_given(value: object) -> bool:
    """Whether an option stands on the command line; an optional value that was left out is ''."""
    return value is not None and value is not False and value != ()


def the_action(given: Mapping[str, Any], actions: Sequence[str]) -> str:
    """The one action of the command line; UsageError where there is none, or several."""
    found = [action for action in actions if is_given(given[_name(action)])]
    if len(found) != 1:
        listed = ", ".join(f"--{action}" for action in actions)
        raise usage_error(f"Exactly one action is needed, one of {listed}.")
    return found[0]


def check_applicable(given: Mapping[str, Any], action: str, belongs: Mapping[str, Sequence[str]]) -> None:
    """UsageError at an option that the action does not have. `belongs`: option → its actions."""
    for option, actions in belongs.items():
        if is_given(given[_name(option)]) and action not in actions:
            listed = " or ".join(f"--{each}" for each in actions)
            raise usage_error(f"--{option} goes with {listed}, not with --{action}.")


def check_required(given: Mapping[str, Any], action: str, options: Sequence[str]) -> None:
    """UsageError where the action lacks one of its options."""
    for option in options:
        if not is_given(given[_name(option)]):
            raise usage_error(f"--{action} needs --{option}.")


def at_most_one(given: Mapping[str, Any], options: Sequence[str]) -> str | None:
    """The one of these options that is given, or None; UsageError where several are."""
    found = [option for option in options if is_given(given[_name(option)])]
    if len(found) > 1:
        raise usage_error(f"--{found[0]} and --{found[1]} exclude each other.")
    return found[0] if found else None


def broker_ids(text: str) -> list[int]:
    """The brokers of --broker-list; UsageError where it names none."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries or not all(entry.isdigit() for entry in entries):
        raise usage_error(f"--broker-list {text!r} is not broker ids separated by ','.")
    return [int(entry) for entry in entries]


def usage_error(sentence: str) -> click.UsageError:
    """A fault of the command line, which names the command that it was made with."""
    return click.UsageError(sentence, click.get_current_context(silent=True))


def _name(option: str) -> str:
    return option.replace("-", "_")


def client_options(file: str | None, pairs: Iterable[tuple[str, str]], flags: Mapping[str, object]) -> dict[str, str]:
    """A client's options by Kafka's names: the file's, over them the pairs, over them the flags that are given."""
    from tidelog.config import properties

    found = properties.parse(Path(file).read_text(encoding="utf-8")) if file else {}
    found.update(pairs)
    found.update({name: str(value) for name, value in flags.items() if value is not None})
    return {name: value for name, value in found.items() if name not in IGNORED_OPTIONS}


def is_true(given: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A property that is true or false; anything but "true" is false, as in Kafka's tools."""
    return given[name].strip().lower() == "true" if name in given else default


def check_known(given: Mapping[str, str], known: Iterable[str], option: str) -> None:
    """UsageError at a property that the tool does not have."""
    for name in given:
        if name not in known:
            raise usage_error(f"{option} does not know {name!r}; there is {', '.join(known)}.")
