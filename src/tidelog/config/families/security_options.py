"""Authentication, authorization and TLS."""

from tidelog.config.option import (
    PER_BROKER,
    Options,
    boolean,
    class_name,
    double,
    integer,
    long,
    password,
    short,
    string,
    strings,
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZERS = (STANDARD_AUTHORIZER, "kafka.security.authorizer.AclAuthorizer")
"""Kafka's own of KRaft and of ZooKeeper, which have the same rules."""


def _known_authorizer(name: str) -> str | None:
    """Fail instead of running without the authorizer that the configuration requests."""
    return None if name in ("", *AUTHORIZERS) else f"empty or {STANDARD_AUTHORIZER}"


def _principals(names: str) -> str | None:
    """Separated by semicolons, because a certificate's name has commas."""
    wrong = [name for name in principals_of(names) if ":" not in name]
    return "principals such as User:admin, separated by semicolons" if wrong else None


def principals_of(names: str) -> list[str]:
    return [name.strip() for name in names.split(";") if name.strip()]


STORES = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")
"""How the options begin that name key and trust stores."""


class SslOptions(Options):
    ssl_allow_dn_changes = boolean(False, "Whether a new certificate can have a different distinguished name.")
    ssl_allow_san_changes = boolean(False, "Whether a new certificate can have fewer alternative names.")
    ssl_cipher_suites = strings([], "Enabled cipher suites; empty means all.", dynamic=PER_BROKER)
    ssl_client_auth = string(
        "none",
        "Whether clients must present a certificate.",
        choices=("required", "requested", "none"),
        dynamic=PER_BROKER,
    )
    ssl_enabled_protocols = strings(["TLSv1.2", "TLSv1.3"], "Enabled TLS versions.", dynamic=PER_BROKER)
    ssl_endpoint_identification_algorithm = string(
        "https", "How another broker's host name is verified.", dynamic=PER_BROKER
    )
    ssl_engine_factory_class = class_name(
        None, "Java class that creates TLS engines.", dynamic=PER_BROKER, ignored=True
    )
    ssl_key_password = password("Password of the private key.", dynamic=PER_BROKER)
    ssl_keymanager_algorithm = string("SunX509", "Java's key manager.", dynamic=PER_BROKER, ignored=True)
    ssl_keystore_certificate_chain = password("The broker's certificates as PEM text.", dynamic=PER_BROKER)
    ssl_keystore_key = password("The broker's private key as PEM text.", dynamic=PER_BROKER)
    ssl_keystore_location = string(None, "File with the broker's key and certificates.", dynamic=PER_BROKER)
    ssl_keystore_password = password("Password of the key file.", dynamic=PER_BROKER)
    ssl_keystore_type = string(
        "JKS",
        "Format of the key file: PEM, or PKCS12 or JKS, detected from the content.",
        dynamic=PER_BROKER,
    )
    ssl_principal_mapping_rules = string("DEFAULT", "Rules that map a certificate's name to a principal.")
    ssl_protocol = string("TLSv1.3", "TLS version of new contexts.", dynamic=PER_BROKER, ignored=True)
    ssl_provider = string(None, "Java's TLS provider.", dynamic=PER_BROKER, ignored=True)
    ssl_secure_random_implementation = string(
        None, "Java's random number generator for TLS.", dynamic=PER_BROKER, ignored=True
    )
    ssl_trustmanager_algorithm = string("PKIX", "Java's trust manager.", dynamic=PER_BROKER, ignored=True)
    ssl_truststore_certificates = password("Trusted certificates as PEM text.", dynamic=PER_BROKER)
    ssl_truststore_location = string(None, "File with trusted certificates.", dynamic=PER_BROKER)
    ssl_truststore_password = password("Password of the file with trusted certificates.", dynamic=PER_BROKER)
    ssl_truststore_type = string(
        "JKS",
        "Format of the file with trusted certificates: PEM, or PKCS12 or JKS, detected from the content.",
        dynamic=PER_BROKER,
    )


class AuthorizerOptions(Options):
    authorizer_class_name = string("", "The authorizer; none allows everything to everybody.", check=_known_authorizer)
    super_users = string(
        "", "Principals that may do everything, separated by semicolons.", check=_principals, of_authorizer=True
    )
    allow_everyone_if_no_acl_found = boolean(
        False, "Whether everybody has access to a resource that no ACL is about.", of_authorizer=True
    )


class AccessOptions(Options, ignored=True):
    principal_builder_class = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Java class that builds principals.",
        dynamic=PER_BROKER,
    )
    security_providers = string(None, "Java's security providers.")


class TokenOptions(Options):
    delegation_token_expiry_check_interval_ms = long(
        3_600_000, "Interval between removals of expired tokens.", at_least=1
    )
    delegation_token_expiry_time_ms = long(86_400_000, "How long a token is valid until it is renewed.", at_least=1)
    delegation_token_max_lifetime_ms = long(604_800_000, "Maximum lifetime of a token.", at_least=1)
    delegation_token_secret_key = password(
        "Secret of the delegation tokens, the same on all brokers; empty: no tokens."
    )


class SaslOptions(Options):
    sasl_enabled_mechanisms = strings(["GSSAPI"], "SASL mechanisms offered to clients.", dynamic=PER_BROKER)
    sasl_mechanism_inter_broker_protocol = string("GSSAPI", "SASL mechanism between brokers.", dynamic=PER_BROKER)
    sasl_mechanism_controller_protocol = string("GSSAPI", "SASL mechanism with which nodes log in to controllers.")
    sasl_jaas_config = password("Credentials of one mechanism, in JAAS format.", dynamic=PER_BROKER)
    sasl_server_max_receive_size = integer(524_288, "Maximum message size before a client is authenticated.")
    sasl_server_callback_handler_class = class_name(
        None, "Java class that verifies logins; only Kafka's own for OAUTHBEARER, whose name has no effect."
    )
    connections_max_reauth_ms = long(0, "Time after which a connection must authenticate again; 0 means never.")


class LoginOptions(Options):
    """Of brokers that log in to others with an access token."""

    sasl_login_callback_handler_class = class_name(
        None, "Java class for SASL logins; only Kafka's own for OAUTHBEARER, whose name has no effect."
    )
    sasl_login_connect_timeout_ms = integer(None, "Timeout for connecting to a token provider.")
    sasl_login_read_timeout_ms = integer(None, "Timeout for an answer of a token provider.")
    sasl_login_retry_backoff_max_ms = long(10_000, "How long an unavailable token provider is retried.")
    sasl_login_retry_backoff_ms = long(100, "Initial backoff between two requests to a token provider.")


class SaslOptionsOfJava(Options, ignored=True):
    sasl_client_callback_handler_class = class_name(None, "Java class for SASL clients.")
    sasl_login_class = class_name(None, "Java class that logs in.")
    sasl_login_refresh_buffer_seconds = short(300, "Time before expiry without refreshes.", dynamic=PER_BROKER)
    sasl_login_refresh_min_period_seconds = short(
        60, "Minimum time between two refreshes of a login.", dynamic=PER_BROKER
    )
    sasl_login_refresh_window_factor = double(
        0.8, "Share of a credential's lifetime after which it is refreshed.", dynamic=PER_BROKER
    )
    sasl_login_refresh_window_jitter = double(0.05, "Random share added to the refresh time.", dynamic=PER_BROKER)
    sasl_kerberos_kinit_cmd = string("/usr/bin/kinit", "Path of Kerberos' kinit.", dynamic=PER_BROKER)
    sasl_kerberos_min_time_before_relogin = long(
        60_000, "Minimum time between two Kerberos logins.", dynamic=PER_BROKER
    )
    sasl_kerberos_principal_to_local_rules = strings(
        ["DEFAULT"], "Rules that map Kerberos principals to names.", dynamic=PER_BROKER
    )
    sasl_kerberos_service_name = string(None, "Kerberos service name of the brokers.", dynamic=PER_BROKER)
    sasl_kerberos_ticket_renew_jitter = double(0.05, "Random share added to a ticket's renewal.", dynamic=PER_BROKER)
    sasl_kerberos_ticket_renew_window_factor = double(
        0.8, "Share of a ticket's lifetime after which it is renewed.", dynamic=PER_BROKER
    )


def _algorithm(value: str) -> str | None:
    return None if value.upper() in {"ES256", "RS256"} else "one of ES256, RS256"


class OauthOptions(Options):
    sasl_oauthbearer_clock_skew_seconds = integer(30, "Allowed clock skew.", at_least=0)
    sasl_oauthbearer_expected_audience = strings([], "Audiences; a token must name one of them.")
    sasl_oauthbearer_expected_issuer = string(None, "Issuer that a token must name.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(3_600_000, "Interval between refreshes of the keys.", at_least=1)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(10_000, "Maximum backoff before a retry.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(100, "Initial backoff before a retry.")
    sasl_oauthbearer_jwks_endpoint_url = string(None, "URL of the provider's keys.")
    sasl_oauthbearer_jwt_validator_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "Java class that validates tokens.",
    )
    sasl_oauthbearer_client_credentials_client_id = string(None, "This broker's client ID at the token provider.")
    sasl_oauthbearer_client_credentials_client_secret = password("This broker's secret at the token provider.")
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Java class that fetches this broker's token; only Kafka's own, whose name has no effect.",
    )
    sasl_oauthbearer_scope = string(None, "Scope to request for this broker's token.")
    sasl_oauthbearer_scope_claim_name = string("scope", "Name of the scope claim.")
    sasl_oauthbearer_sub_claim_name = string("sub", "Name of the subject claim.")
    sasl_oauthbearer_token_endpoint_url = string(None, "URL of this broker's token: a file or the token endpoint.")


class OauthAssertionOptions(Options, ignored=True):
    """Of brokers that get their token by an assertion, which Tidelog's do not."""

    sasl_oauthbearer_assertion_algorithm = string("RS256", "Signature algorithm of assertions.", check=_algorithm)
    sasl_oauthbearer_assertion_claim_aud = string(None, "Audience of assertions.")
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(300, "Lifetime of an assertion.", at_least=0, at_most=86_400)
    sasl_oauthbearer_assertion_claim_iss = string(None, "Issuer of assertions.")
    sasl_oauthbearer_assertion_claim_jti_include = boolean(False, "Whether each assertion has an ID.")
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        60, "How long before its creation an assertion is valid.", at_least=0, at_most=3600
    )
    sasl_oauthbearer_assertion_claim_sub = string(None, "Subject of assertions.")
    sasl_oauthbearer_assertion_file = string(None, "File with a complete assertion.")
    sasl_oauthbearer_assertion_private_key_file = string(None, "Key that signs assertions.")
    sasl_oauthbearer_assertion_private_key_passphrase = password("Password of that key.")
    sasl_oauthbearer_assertion_template_file = string(None, "Template file of assertions.")
