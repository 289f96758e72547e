"""Options that Kafka 4 does not have: Tidelog's own, and Kafka 3's for ZooKeeper."""

from tidelog.config.option import Options, boolean, integer, password, string, strings


class ZookeeperOptions(Options):
    """Kafka 3's options for ZooKeeper; Kafka 4 has none of them."""

    zookeeper_connect = string(
        None, "The metadata store in ZooKeeper, as `host:port,host:port/chroot`; an alternative to metadata.store."
    )
    zookeeper_session_timeout_ms = integer(
        18_000,
        "Time without contact after which ZooKeeper considers a broker dead; its servers set the bounds.",
        at_least=1,
    )
    zookeeper_connection_timeout_ms = integer(
        None, "Timeout for the first connection to ZooKeeper (default: the session timeout).", at_least=1
    )
    zookeeper_max_in_flight_requests = integer(
        10, "Maximum number of requests in flight to ZooKeeper; Tidelog has no limit.", at_least=1, ignored=True
    )
    zookeeper_set_acl = boolean(
        False, "Whether only the brokers' own user in ZooKeeper may change the nodes that they create."
    )
    zookeeper_sasl_jaas_config = password(
        "Login to ZooKeeper, in JAAS format with DigestLoginModule (default: the section Client of the JAAS file that "
        "KAFKA_OPTS names, as in Kafka)."
    )
    zookeeper_ssl_client_enable = boolean(False, "Whether to connect to ZooKeeper with TLS.")
    zookeeper_clientCnxnSocket = string(  # noqa: N815 (Kafka's name)
        None, "Java class of ZooKeeper's client sockets; Tidelog needs none.", ignored=True
    )
    zookeeper_ssl_keystore_location = string(None, "File with the client certificate for ZooKeeper and its key.")
    zookeeper_ssl_keystore_password = password("Password of that file.")
    zookeeper_ssl_keystore_type = string(None, "Format of that file: PEM or PKCS12 (default: by its name).")
    zookeeper_ssl_truststore_location = string(None, "File with the certificates that are trusted for ZooKeeper.")
    zookeeper_ssl_truststore_password = password("Password of that file.")
    zookeeper_ssl_truststore_type = string(None, "Format of that file: PEM or PKCS12 (default: by its name).")
    zookeeper_ssl_protocol = string("TLSv1.2", "TLS version of new contexts.", ignored=True)
    zookeeper_ssl_enabled_protocols = strings(None, "Enabled TLS versions (default: TLSv1.2 and TLSv1.3).")
    zookeeper_ssl_cipher_suites = strings(None, "Enabled cipher suites (default: all).")
    zookeeper_ssl_endpoint_identification_algorithm = string(
        "HTTPS", "How the host name of a ZooKeeper server is verified; empty: not at all."
    )
    zookeeper_ssl_crl_enable = boolean(False, "Whether to check revocation lists; not supported.")
    zookeeper_ssl_ocsp_enable = boolean(False, "Whether to check revocation by OCSP; not supported.")


class OwnOptions(Options):
    """What Kafka has no option for."""

    metadata_store = string(
        None,
        "The metadata store, `sqlite:PATH` or `zookeeper://HOST:PORT/CHROOT`; by default metadata.sqlite in a "
        "directory next to the first log directory.",
    )
    metrics_listener = string(None, "Address that serves metrics in Prometheus' format, as host:port; none by default.")
    log_format = string("text", "Format of log lines: text or json.", choices=("text", "json"))
