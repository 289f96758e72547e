"""Options that several commands share, and checks of which options go together.

The checks take the options of a command as click passes them (`given`), and raise UsageError.
"""

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
ZK_TLS = "zk_tls_config_file"


CONSOLE_NEEDS = ("starlette", "uvicorn")
"""The packages of the extra `console`."""


class CommandFailed(click.ClickException):
    """A command could not do what was requested: one message, exit status 1."""

    exit_code = 1


class Bootstrap(ParamType):
    """`host:port,host:port`."""

    name = "host:port,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        for address in str(value).split(","):
            host, _, port = address.strip().rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) <= 65535:
                self.fail(
                    f"{address.strip()!r} is not a valid address; expected host:port, with a port from 1 to 65535.",
                    param,
                    ctx,
                )
        return str(value)


class Pair(ParamType):
    """`name=value`, converted to a (name, value) pair; `strip` removes whitespace around the value."""

    name = "name=value"

    def __init__(self, *, strip: bool = True) -> None:
        self._strip = strip

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not a valid setting; expected NAME=VALUE.", param, ctx)
        return name.strip(), text.strip() if self._strip else text


def cluster_options(function: Function) -> Function:
    """Add the options of `broker_options`, and `--command-config`."""
    return broker_options(command_config_option(function))


def command_config_option(function: Function) -> Function:
    """Add `--command-config`."""
    return click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False),
        help="Properties file with client options: security.protocol, sasl.jaas.config, …",
    )(function)


def broker_options(function: Function) -> Function:
    """Add `--bootstrap-server`, and `--zookeeper` as in Kafka 3, which replaces it. Only docs/guide.md describes the
    latter: few need it, and it would be on every help page."""
    function = zookeeper_options(function)
    function = click.option(
        "--zookeeper",
        expose_value=False,
        is_eager=True,
        hidden=True,
        callback=_save_store,
        help="Metadata store, instead of --bootstrap-server: ZooKeeper host:port/chroot, or folder of `tidelog up`.",
    )(function)
    return click.option(
        "--bootstrap-server",
        type=Bootstrap(),
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        callback=_bootstrap_servers,
        help="Brokers to connect to, as host:port,host:port.",
    )(function)


def zookeeper_options(function: Function) -> Function:
    """Add `--zk-tls-config-file`, as in Kafka 3; its options are those of `current_zookeeper_options`."""
    return zk_tls_option(expose_value=False, is_eager=True, hidden=True, callback=_save_zk_tls)(function)


def current_zookeeper_options() -> dict[str, str]:
    """The options in the file of `--zk-tls-config-file` of the current command."""
    return file_options(click.get_current_context().meta.get(f"tidelog.{ZK_TLS}"))


def zk_tls_option(**settings: Any) -> Callable[[Function], Function]:
    return click.option(
        "--zk-tls-config-file",
        ZK_TLS,
        type=click.Path(exists=True, dir_okay=False),
        help="Properties file with zookeeper.ssl.* and zookeeper.sasl.jaas.config.",
        **settings,
    )


def _save_zk_tls(context: click.Context, _parameter: click.Parameter, file: str | None) -> None:
    context.meta[f"tidelog.{ZK_TLS}"] = file


def _save_store(context: click.Context, _parameter: click.Parameter, text: str | None) -> None:
    context.meta[_STORE] = text


def _bootstrap_servers(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """The brokers to connect to, looked up in the metadata store if `--zookeeper` is given."""
    store = context.meta.get(_STORE)
    if store is None or context.resilient_parsing:
        return given
    if context.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT:
        raise click.UsageError("--zookeeper and --bootstrap-server cannot be used together.", context)
    from tidelog.cli.store_address import bootstrap_from_store

    return bootstrap_from_store(store, current_zookeeper_options())


def check_extra(packages: Iterable[str], extra: str, who: str) -> None:
    """Raise CommandFailed with the command that installs the packages, if one of them is missing."""
    from importlib.util import find_spec

    names = list(packages)
    if any(find_spec(name) is None for name in names):
        raise CommandFailed(f"{who} needs {' and '.join(names)}: pip install 'tidelog[{extra}]'.")


def flag(name: str, help_text: str) -> Callable[[Function], Function]:
    return click.option(f"--{name}", is_flag=True, help=help_text)


def is_given(value: object) -> bool:
    """Whether an option is on the command line; an option without its optional value is ''."""
    return value is not None and value is not False and value != ()


def single_action(given: Mapping[str, Any], actions: Sequence[str]) -> str:
    """The one action on the command line; UsageError if there is none, or more than one."""
    found = [action for action in actions if is_given(given[_name(action)])]
    if len(found) != 1:
        listed = ", ".join(f"--{action}" for action in actions)
        raise usage_error(f"Exactly one action is required: {listed}.")
    return found[0]


def check_applicable(given: Mapping[str, Any], action: str, actions_of_option: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError if an option does not apply to the action. `actions_of_option`: option → its actions."""
    for option, actions in actions_of_option.items():
        if is_given(given[_name(option)]) and action not in actions:
            listed = " or ".join(f"--{each}" for each in actions)
            raise usage_error(f"--{option} applies to {listed}, not to --{action}.")


def check_required(given: Mapping[str, Any], action: str, options: Sequence[str]) -> None:
    """Raise UsageError if an option that the action requires is missing."""
    for option in options:
        if not is_given(given[_name(option)]):
            raise usage_error(f"--{action} requires --{option}.")


def at_most_one(given: Mapping[str, Any], options: Sequence[str]) -> str | None:
    """The one of these options that is given, or None; UsageError if more than one is."""
    found = [option for option in options if is_given(given[_name(option)])]
    if len(found) > 1:
        raise usage_error(f"--{found[0]} and --{found[1]} cannot be used together.")
    return found[0] if found else None


def broker_ids(text: str) -> list[int]:
    """The broker IDs of --broker-list; UsageError if it is not a list of them."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries or not all(entry.isdigit() for entry in entries):
        raise usage_error(f"--broker-list: {text!r} is not a list of broker IDs; expected 0,1,2.")
    return [int(entry) for entry in entries]


def usage_error(message: str) -> click.UsageError:
    """A UsageError that names the current command."""
    return click.UsageError(message, click.get_current_context(silent=True))


def _name(option: str) -> str:
    return option.replace("-", "_")


def client_options(file: str | None, pairs: Iterable[tuple[str, str]], flags: Mapping[str, object]) -> dict[str, str]:
    """A client's options by Kafka's names; flags override pairs, and pairs override the file."""
    from tidelog.client.properties import GIVEN_ELSEWHERE, renamed

    found = file_options(file)
    found.update(renamed(dict(pairs)))
    found.update({name: str(value) for name, value in flags.items() if value is not None})
    return {name: value for name, value in found.items() if name not in GIVEN_ELSEWHERE}


def file_options(file: str | None) -> dict[str, str]:
    """The options in a file of `--command-config`, by Kafka's names; none if no file is given."""
    if file is None:
        return {}
    from tidelog.client import properties

    try:
        return properties.read(Path(file).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise CommandFailed(f"{file} is not a text file in UTF-8.") from None


def is_true(given: Mapping[str, str], name: str, default: bool = False) -> bool:
    """The value of a boolean property; anything but "true" is false, as in Kafka's tools."""
    return given[name].strip().lower() == "true" if name in given else default


def check_known(given: Mapping[str, str], known: Iterable[str], option: str) -> None:
    """Raise UsageError if a property is unknown."""
    for name in given:
        if name not in known:
            raise usage_error(f"{option}: unknown property {name!r}; known properties: {', '.join(known) or 'none'}.")
