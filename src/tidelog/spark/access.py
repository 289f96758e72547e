"""How a query reaches a cluster: the bootstrap brokers, and the `kafka.*` options of every client, including TLS and
SASL. All clients of a query, except those for the rows themselves, are created here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tidelog.client.options import ClientOptions
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.options import UNREACHED, BadOption, client_refusal, unreached

_UNKNOWN_USER = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)

COMMON = frozenset(f"kafka.{each.name.replace('_', '.')}" for each in fields(ClientOptions))
"""The options, besides the brokers, that define how a cluster is reached."""


@dataclass(frozen=True)
class Access:
    """It is sent to tasks, and is the key of what a process keeps between tasks: a different password is a different
    key. Its repr shows no secret."""

    bootstrap: str
    client: ClientOptions = field(default_factory=ClientOptions)

    @classmethod
    def of(cls, bootstrap: str, client: ClientOptions) -> "Access":
        """The access of a client of any kind, without the options of its kind."""
        common = {each.name: getattr(client, each.name) for each in fields(ClientOptions)}
        return cls(bootstrap, ClientOptions(**common))

    def admin(self) -> Admin:
        return Admin(self.bootstrap, **asdict(self.client))

    def consumer(self, **own: Any) -> Consumer:
        """A consumer without a group; `own` are options that only a consumer has."""
        return Consumer(self.bootstrap, **asdict(self.client), **own)

    def transactional(self, transactional_id: str, **own: Any) -> TransactionalProducer:
        """`own` are options that only a producer has."""
        return TransactionalProducer(self.bootstrap, transactional_id, **asdict(self.client), **own)

    @contextmanager
    def lookup_admin(self) -> Iterator[Admin]:
        """An admin for a few requests, with errors as in `explained_errors`."""
        with self.explained_errors(self.client.default_api_timeout_ms), self.admin() as admin:
            yield admin

    @contextmanager
    def explained_errors(self, within_ms: int) -> Iterator[None]:
        """Turn errors of the access into one sentence that names the option: ConnectionError if no broker answers
        within this time, BadOption if a broker rejects the user or is not trusted. Other ApiErrors stay as they are."""
        try:
            yield
        except ApiError as error:
            if error.code in UNREACHED:
                raise unreached(self.bootstrap, within_ms, error) from None
            if error.code in _UNKNOWN_USER:
                raise BadOption(f"option 'kafka.sasl.jaas.config' or 'kafka.sasl.mechanism': {error}") from None
            raise
        except InvalidOption as reason:
            raise client_refusal(reason) from None
