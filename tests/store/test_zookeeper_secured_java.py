"""A real ZooKeeper that requires TLS with client certificates, a login, or both, and nodes that only brokers may change."""

from threading import Event

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from tests.ensemble import Server
from tests.ports import free_ports
from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.ports import Children, Create, Read, Watch, Write
from tidelog.shell.certificates import Authority
from tidelog.shell.store import zookeeper_client, zookeeper_session_file
from tidelog.shell.store.store_address import StoreUnavailable, address_of, open_store
from tidelog.shell.store.zookeeper_client import Client
from tidelog.testing import Cluster

JAAS = """
Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_kafka="tide {pool};";
};
// the brokers' own
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="kafka"
  password="tide {pool};";
};
"""
LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="tide {pool};";'


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The authority's certificate, and a store for anybody, in the form that ZooKeeper reads."""
    folder = tmp_path_factory.mktemp("tls")
    made = Authority.new()
    (folder / "ca.pem").write_bytes(made.certificate_pem)
    (folder / "node.pem").write_bytes(made.issue("node", ["127.0.0.1"]))
    (folder / "stranger.pem").write_bytes(Authority.new().certificate_pem)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, stores):
    """The address without and with TLS, and the JAAS file."""
    folder = tmp_path_factory.mktemp("zookeeper")
    port, secure_port = free_ports(2)
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS)
    lines = (
        f"secureClientPort={secure_port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={stores / 'node.pem'}",
        f"ssl.trustStore.location={stores / 'ca.pem'}",
        "ssl.clientAuth=need",
        "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    )
    made = Server(folder, port, more=lines, properties=(f"-Djava.security.auth.login.config={jaas}",))
    made.start()
    try:
        made.wait()
        yield made.address, f"127.0.0.1:{secure_port}", jaas
    finally:
        made.stop()


def tls_options(stores, trusted="ca.pem"):
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(stores / "node.pem"),
        "zookeeper.ssl.truststore.location": str(stores / trusted),
    }


def opened(place, options, **more):
    return open_store(
        address_of(BrokerConfig({"zookeeper.connect": place, **options})), session_timeout_ms=6_000, **more
    )


def seen(address, path):
    """What somebody sees who is not logged in."""
    other = KazooClient(address)
    other.start(timeout=60)
    try:
        found, _ = other.get(path)
    except NoAuthError:
        return None
    else:
        with pytest.raises(NoAuthError):
            other.set(path, b"forged")
        return found
    finally:
        other.stop()
        other.close()


@pytest.mark.parametrize("way", ["login", "login over TLS", "certificate"])
def test_a_store_is_secured_and_only_its_user_may_change_its_nodes(server, stores, way):
    plain, secure, _ = server
    chroot = f"/{way.replace(' ', '-')}"
    options = {"zookeeper.set.acl": "true"}
    if way.startswith("login"):
        options["zookeeper.sasl.jaas.config"] = LOGIN
    if way != "login":
        options |= tls_options(stores)
    store = opened((plain if way == "login" else secure) + chroot, options)
    try:
        big = b"x" * 200_000
        created = store.apply([Create(f"{tree.TOPICS}/t", big), Create(f"{tree.USER_CONFIGS}/bob", b"secret")])
        assert created.outcome == "ok"
        assert store.apply([Watch(tree.TOPICS), Read(f"{tree.TOPICS}/t")]).values[1].data == big
        assert store.apply([Write(f"{tree.TOPICS}/t", b"changed")]).outcome == "ok"
        wait_for(lambda: tree.TOPICS in store.events(), "the change")
        assert list(store.apply([Children(tree.TOPICS)]).values[0]) == ["t"]
        assert seen(plain, f"{chroot}{tree.TOPICS}/t") == b"changed"
        assert seen(plain, f"{chroot}{tree.USER_CONFIGS}/bob") is None
        assert "tide" not in repr(store) + repr(address_of(BrokerConfig({"zookeeper.connect": plain, **options})))
    finally:
        store.close()


def test_a_session_that_a_dead_process_left_is_ended_over_tls(server, stores, tmp_path):
    _, secure, _ = server
    options = {**tls_options(stores), "zookeeper.sasl.jaas.config": LOGIN}
    store = opened(f"{secure}/left", options, folder=tmp_path)
    security = address_of(BrokerConfig({"zookeeper.connect": secure, **options})).security
    zookeeper_session_file.end_session(tmp_path, security)
    wait_for(lambda: store.lost, "the session to end")
    store.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"zookeeper.ssl.truststore.location": "stranger.pem"}, "is not trusted"),
        ({"zookeeper.ssl.client.enable": "false", "zookeeper.set.acl": "false"}, "cannot be reached"),
        ({"zookeeper.sasl.jaas.config": LOGIN.replace("tide", "wrong")}, "does not serve"),
    ],
)
def test_what_is_refused_is_said_without_the_password(server, stores, change, says):
    _, secure, _ = server
    options = {**tls_options(stores), "zookeeper.sasl.jaas.config": LOGIN, "zookeeper.set.acl": "true", **change}
    if "/" not in options["zookeeper.ssl.truststore.location"]:
        options["zookeeper.ssl.truststore.location"] = str(stores / options["zookeeper.ssl.truststore.location"])
    with pytest.raises(StoreUnavailable) as refused:
        opened(secure, options, connection_timeout_ms=2_000).close()
    assert says in str(refused.value)
    assert "{pool}" not in str(refused.value)


def test_requests_during_the_login_wait_for_its_end(server, stores, monkeypatch):
    """They would fail at once and be sent again without end, until kazoo's pipe is full and nobody reads it."""
    _, secure, _ = server
    sent = Event()
    requests = []
    send, login = Client.send, zookeeper_client._Connection._authenticate_with_sasl

    def sending(client, request):
        requests.append(client.term_s)
        result = send(client, request)
        sent.set()
        return result

    def late(connection, *given):
        assert sent.wait(30)
        login(connection, *given)

    monkeypatch.setattr(Client, "send", sending)
    monkeypatch.setattr(zookeeper_client._Connection, "_authenticate_with_sasl", late)
    options = {**tls_options(stores), "zookeeper.sasl.jaas.config": LOGIN}
    opened(secure, options, connection_timeout_ms=30_000).close()
    assert min(requests) > 0


def test_brokers_and_the_supervisor_use_kafkas_jaas_file(server, stores, monkeypatch, capsys, tmp_path):
    _, secure, jaas = server
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={jaas}")
    options = {"zookeeper.connect": f"{secure}/kafka", "zookeeper.set.acl": "true", **tls_options(stores)}
    with Cluster(brokers=2, secure=True, options=options) as cluster:
        cluster.create_topic("t", replicas=2)
        file = tmp_path / "zk.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in tls_options(stores).items()))
        place = ("--metadata", f"zookeeper://{secure}/kafka", "--zk-tls-config-file", str(file))
        assert run(["metadata", "ls", tree.TOPICS, *place]) == 0
        reached = ("--zookeeper", f"{secure}/kafka", "--zk-tls-config-file", str(file))
        client = ("--command-config", str(cluster.security.client_file))
        assert run(["topics", "--list", *reached, *client]) == 0
        assert capsys.readouterr().out == "t\nt\n"
