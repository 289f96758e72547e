"""A broker process that is killed as soon as it has answered that a delegation token is made, renewed or removed, or
that a user has a password."""

import hashlib
from contextlib import contextmanager

from tests.processes import Processes
from tests.shell.logins import log_in, log_in_by_token
from tests.shell.test_sasl import WANTS, Wire
from tests.waiting import wait_for
from tidelog.wire.messages.security.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tidelog.wire.messages.security.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

HOUR_MS = 3_600_000
SALT, ROUNDS, SHA_512 = b"a salt of carol.", 4096, 2


def check_tokens_and_users_survive(folder, ports, options, *, quorum=False):
    """`ports` are three free ones; `options` name the metadata store, unless it is a `quorum`."""
    plain, secured, brokers = ports
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured},REPLICATION://127.0.0.1:{brokers}"
    overrides = {**WANTS, **options, "listeners": listeners, "delegation.token.secret.key": "the secret"}
    with Processes(folder, brokers=1, port=plain, overrides=overrides, report=lambda _: None, quorum=quorum) as cluster:

        @contextmanager
        def alice():
            with Wire(secured) as wire:
                assert log_in(wire, "alice", "wonder land", "PLAIN").error_code == 0
                yield wire
            cluster.kill(0)
            cluster.start_broker(0)
            cluster.wait_ready()

        def known():
            with Wire(secured) as wire:
                log_in(wire, "alice", "wonder land", "PLAIN")
                tokens = wire.ask(41, 3, DescribeDelegationTokenRequest(owners=None)).tokens
            return {token.token_id: token.expiry_timestamp for token in tokens}

        def logs_in(made):
            with Wire(secured) as wire:
                return log_in_by_token(wire, made).error_code == 0

        with alice() as wire:
            kept, removed = (wire.ask(38, 3, CreateDelegationTokenRequest(max_lifetime_ms=-1)) for _ in range(2))
            assert kept.error_code == removed.error_code == 0
        wait_for(lambda: logs_in(kept) and logs_in(removed), "both tokens")
        with alice() as wire:
            gone = wire.ask(40, 2, ExpireDelegationTokenRequest(hmac=removed.hmac, expiry_time_period_ms=-1))
            renewed = wire.ask(39, 2, RenewDelegationTokenRequest(hmac=kept.hmac, renew_period_ms=HOUR_MS))
            assert gone.error_code == renewed.error_code == 0
        with alice() as wire:
            salted = hashlib.pbkdf2_hmac("sha512", b"secret", SALT, ROUNDS)
            carol = ScramCredentialUpsertion(
                name="carol", mechanism=SHA_512, iterations=ROUNDS, salt=SALT, salted_password=salted
            )
            (result,) = wire.ask(51, 0, AlterUserScramCredentialsRequest(upsertions=[carol])).results
            assert result.error_code == 0
        wait_for(lambda: known() == {kept.token_id: renewed.expiry_timestamp_ms}, "what was changed last")
        with Wire(secured) as wire:
            assert log_in(wire, "carol", "secret").error_code == 0
        assert logs_in(kept)
        assert not logs_in(removed)
    return kept
