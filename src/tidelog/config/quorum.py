"""The metadata quorum as the options of a node describe it: its roles, its controllers, and what contradicts itself."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.model import is_any_address

BROKER, CONTROLLER = "broker", "controller"


class StaticVoter(NamedTuple):
    """A controller of `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int


class Address(NamedTuple):
    host: str
    port: int


class QuorumConfig(NamedTuple):
    """What the options of one node say. `voters` is empty where the controllers are not fixed; then `bootstrap` has
    addresses of some. `listener` is the name under which controllers are reached, `own` where this one is."""

    node_id: int
    roles: frozenset[str]
    voters: tuple[StaticVoter, ...]
    bootstrap: tuple[Address, ...]
    listener: str
    own: Address | None
    metadata_folder: str

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles


def quorum_of(config: BrokerConfig) -> QuorumConfig:
    """The quorum of these options; InvalidOption if they do not describe one."""
    roles = frozenset(config.process_roles)
    if not roles:
        raise InvalidOption("process.roles is missing: set it to broker, controller or broker,controller")
    if config.node_id < 0:
        raise InvalidOption("node.id is missing: set it to the node's number in the cluster")
    if not config.controller_listener_names:
        raise InvalidOption("controller.listener.names is missing: set it to the name of the controllers' listener")
    voters = _voters(config.controller_quorum_voters)
    bootstrap = tuple(_address(text, "controller.quorum.bootstrap.servers") for text in _servers(config))
    if not voters and not bootstrap:
        raise InvalidOption(
            "controller.quorum.voters and controller.quorum.bootstrap.servers are missing: set the latter to "
            "addresses of controllers"
        )
    if voters and config.controller_quorum_auto_join_enable:
        raise InvalidOption(
            "controller.quorum.auto.join.enable needs controllers that are not fixed: remove controller.quorum.voters"
        )
    _check_role(config.node_id, roles, voters)
    own = _own_listener(config, roles)
    folder = config.metadata_log_dir or config.folders[0]
    return QuorumConfig(config.node_id, roles, voters, bootstrap, config.controller_listener_names[0], own, folder)


def _servers(config: BrokerConfig) -> Sequence[str]:
    return config.controller_quorum_bootstrap_servers


def _voters(texts: Sequence[str]) -> tuple[StaticVoter, ...]:
    voters: list[StaticVoter] = []
    for text in texts:
        number, at, address = text.partition("@")
        if not at or not number.isascii() or not number.isdecimal():
            raise InvalidOption(f"controller.quorum.voters must be id@host:port separated by commas, not {text!r}")
        host, port = _address(address, "controller.quorum.voters")
        if any(each.node_id == int(number) for each in voters):
            raise InvalidOption(f"controller.quorum.voters must name each controller once, not {number} twice")
        voters.append(StaticVoter(int(number), host, port))
    return tuple(voters)


def _address(text: str, option: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) <= listeners.HIGHEST_PORT:
        raise InvalidOption(f"{option}: {text!r} is not a valid address; expected HOST:PORT")
    if is_any_address(host):
        raise InvalidOption(f"{option}: nobody can connect to {host}; set the address under which the host is reached")
    return Address(host.strip("[]"), int(port))


def _check_role(node_id: int, roles: frozenset[str], voters: Sequence[StaticVoter]) -> None:
    is_voter = any(each.node_id == node_id for each in voters)
    if voters and CONTROLLER in roles and not is_voter:
        raise InvalidOption(
            f"process.roles has controller, but controller.quorum.voters does not have node {node_id}; add it there"
        )
    if is_voter and CONTROLLER not in roles:
        raise InvalidOption(
            f"controller.quorum.voters has node {node_id}, but process.roles does not have controller; add it there"
        )


def _own_listener(config: BrokerConfig, roles: frozenset[str]) -> Address | None:
    """Where others reach this controller: its advertised address, or the one that it opens."""
    opened = listeners.of_controllers(config)
    names = ",".join(config.controller_listener_names)
    if CONTROLLER not in roles:
        if opened:
            raise InvalidOption(
                f"listeners has {opened[0].listener} of controller.listener.names, but process.roles does not have "
                "controller; remove one of them"
            )
        return None
    missing = set(config.controller_listener_names) - {each.listener for each in opened}
    if missing:
        raise InvalidOption(f"listeners must have the listeners of controller.listener.names ({names}), so add them")
    if BROKER not in roles and len(opened) != len(config.listeners):
        raise InvalidOption(f"listeners of a node without the role broker may be those of controllers only ({names})")
    shown = (*listeners.advertised_by_controllers(config), *opened)
    first = next(each for each in shown if each.listener == config.controller_listener_names[0])
    return Address(first.host, first.port)
