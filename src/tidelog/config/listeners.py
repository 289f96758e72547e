"""The listeners that a broker opens and advertises, from `listeners`, `advertised.listeners` and related options.

Brokers use a listener of their own, never the clients': if the configuration names none, one is added on the first
listener's host, with a port derived from the first listener's, so that a firewall rule can name it. Listeners of
controllers are apart: they are opened with a metadata quorum only.
"""

import re

from tidelog.config.broker import LISTENER_PREFIX, BrokerConfig
from tidelog.config.families.network_options import PROTOCOLS
from tidelog.errors import InvalidOption
from tidelog.model import INTER_BROKER_LISTENER, Endpoint, is_any_address

ADVERTISED = "advertised.listeners"
PORTS_APART = 1000
HIGHEST_PORT = 65_535
_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>[^\[\]/]*|\[[0-9a-fA-F:.%]+\]):(?P<port>[0-9]{1,5})")


def bound(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """The listeners to open, including the brokers' own; host '' means every address, port 0 a free port. A node that
    is a controller only has none of these."""
    if config.is_controller_only:
        return ()
    found = _parsed(config, "listeners", config.listeners)
    if not found:
        raise InvalidOption(f"listeners must name a listener for clients, not {','.join(config.listeners)!r}")
    inter_broker = inter_broker_listener(config)
    if all(each.listener != inter_broker for each in found):
        protocol = _protocols(config)[inter_broker]
        if protocol == "PLAINTEXT" and all(each.security != "PLAINTEXT" for each in found):
            raise InvalidOption(
                "security.inter.broker.protocol is PLAINTEXT, but no listener is PLAINTEXT; set it to "
                f"{found[0].security}, or select a listener with inter.broker.listener.name"
            )
        found.append(Endpoint(inter_broker, protocol, found[0].host, _port_beside(found)))
    return tuple(found)


def _port_beside(found: list[Endpoint]) -> int:
    """10092 for 9092: far from the ports of other brokers on the machine. A free port if the first listener has a free
    port."""
    first = found[0].port
    if first == 0:
        return 0
    port = first + PORTS_APART if first + PORTS_APART <= HIGHEST_PORT else first - PORTS_APART
    return port if all(port != each.port for each in found) else 0


def advertised(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """The endpoints of `advertised.listeners`; () if it is not set and the bound addresses are advertised."""
    return tuple(_parsed(config, ADVERTISED, config.advertised_listeners or []))


def of_controllers(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """The listeners of the metadata quorum that this node would open."""
    return tuple(_parsed(config, "listeners", config.listeners, controllers=True))


def advertised_by_controllers(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Those of `advertised.listeners`."""
    return tuple(_parsed(config, ADVERTISED, config.advertised_listeners or [], controllers=True))


def shown_by_controllers(config: BrokerConfig) -> list[Endpoint]:
    """Where this node's controller is reached: as advertised, else as bound, in the order of controller.listener.names.
    One that only opens all addresses is left out: the node does not know by which of them it is reached."""
    known = {each.listener: each for each in (*of_controllers(config), *advertised_by_controllers(config))}
    found = [known[name] for name in config.controller_listener_names if name in known]
    return [each for each in found if not is_any_address(each.host)]


def opened(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """All listeners to open: those of `bound`, and those of this node's controller where there is a metadata quorum."""
    return (*bound(config), *(of_controllers(config) if config.has_quorum else ()))


def among_nodes(config: BrokerConfig) -> dict[str, str]:
    """The listeners by which this node reaches others, with their protocols: that between brokers, and with a metadata
    quorum that of the controllers, which it need not open itself. A controller that is no broker reaches brokers by the
    one that they added, if they did (`INTER_BROKER_LISTENER`)."""
    name = inter_broker_listener(config)
    found = {each.listener: each.security for each in bound(config) if each.listener == name}
    if config.is_controller_only:
        protocols = _protocols(config)
        found = {each: protocols[each] for each in of_brokers(config) if each in protocols}
    if config.has_quorum and config.controller_listener_names:
        controllers = config.controller_listener_names[0]
        found[controllers] = _protocol_of_controllers(config, controllers)
    return found


def of_brokers(config: BrokerConfig) -> tuple[str, ...]:
    """The listeners by which this node reaches brokers, the first that a broker has. A controller that is no broker
    does not know whether brokers added one beside the configured one."""
    name = inter_broker_listener(config)
    return (INTER_BROKER_LISTENER, name) if config.is_controller_only else (name,)


def _protocol_of_controllers(config: BrokerConfig, name: str) -> str:
    """As in Kafka, it is PLAINTEXT unless listener.security.protocol.map is set, which must then have it."""
    protocols = _protocols(config)
    if "listener.security.protocol.map" not in config.explicit:
        protocols.setdefault(name, "PLAINTEXT")
    if name not in protocols:
        raise InvalidOption(
            f"controller.listener.names: {name} has no protocol in listener.security.protocol.map; add {name}:PROTOCOL "
            "there"
        )
    return protocols[name]


def inter_broker_listener(config: BrokerConfig) -> str:
    """The configured listener if it is one of several, otherwise the added one. A controller that is no broker has no
    listener of brokers, and takes the configured one."""
    named = config.inter_broker_listener_name
    if config.is_controller_only:
        return (named or INTER_BROKER_LISTENER).upper()
    names = [each.listener for each in _parsed(config, "listeners", config.listeners)]
    return named if named and named in names and len(names) > 1 else INTER_BROKER_LISTENER


def is_shared(config: BrokerConfig) -> bool:
    """Whether clients may use the inter-broker listener, too: it is one of `listeners`."""
    name = inter_broker_listener(config)
    return any(each.listener == name for each in _parsed(config, "listeners", config.listeners))


def options_of(config: BrokerConfig, listener: str) -> BrokerConfig:
    """The options of one listener. On the added listener between brokers only their own SASL mechanism is enabled
    unless that listener's option enables others: SCRAM knows the clients' users too."""
    own = config.of_listener(listener)
    mechanisms = "sasl.enabled.mechanisms"
    if listener != INTER_BROKER_LISTENER or f"{LISTENER_PREFIX}{listener.lower()}.{mechanisms}" in config.explicit:
        return own
    return type(own)({**own.explicit, mechanisms: own.sasl_mechanism_inter_broker_protocol})


def _parsed(config: BrokerConfig, option: str, texts: list[str], *, controllers: bool = False) -> list[Endpoint]:
    """The listeners of clients and brokers, or those of controllers."""
    protocols, is_mapped = _protocols(config), "listener.security.protocol.map" in config.explicit
    endpoints: list[Endpoint] = []
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match["port"]) > HIGHEST_PORT:
            raise InvalidOption(f"{option} must be NAME://host:port separated by commas, not {text!r}")
        name = match["name"].upper()
        if (name in config.controller_listener_names) != controllers:
            continue
        if controllers and not is_mapped:
            protocols.setdefault(name, "PLAINTEXT")
        if name not in protocols:
            raise InvalidOption(
                f"{option}: {name} has no protocol in listener.security.protocol.map; add {name}:PROTOCOL there"
            )
        if any(name == other.listener for other in endpoints):
            raise InvalidOption(f"{option} must name each listener once, not {name} twice")
        host = match["host"].strip("[]")
        if option == ADVERTISED and host and is_any_address(host):
            raise InvalidOption(f"{option}: nobody can connect to {text}; set the address by which the host is reached")
        endpoints.append(Endpoint(name, protocols[name], host, int(match["port"])))
    return endpoints


def _protocols(config: BrokerConfig) -> dict[str, str]:
    protocols = {INTER_BROKER_LISTENER: config.security_inter_broker_protocol}
    for pair in config.listener_security_protocol_map.split(","):
        name, colon, protocol = (part.strip() for part in pair.partition(":"))
        if not colon or protocol.upper() not in PROTOCOLS:
            raise InvalidOption(
                f"listener.security.protocol.map must be NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}, not {pair!r}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols
