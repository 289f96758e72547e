"""Which access tokens a listener accepts. Each way to forge one is a test: CVE-2026-33557 and CVE-2026-110985 were
brokers that accepted some."""

import base64
import hashlib
import hmac
import json

import pytest
from cryptography.hazmat.primitives import serialization

from tests.security.tokens import AUDIENCE, ISSUER, RSA_KEYS, Provider, other_providers
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security.access_tokens import Invalid, KeySet, Verifier

NOW_S = 1_700_000_000
PREFIX = "sasl.oauthbearer."
GIVEN = {
    f"{PREFIX}jwks.endpoint.url": "file:///keys",
    f"{PREFIX}expected.issuer": ISSUER,
    f"{PREFIX}expected.audience": f"other,{AUDIENCE}",
}
PROVIDER = Provider()


def verify(token, keys=PROVIDER.jwks, *, now_s=NOW_S, **options):
    found = KeySet(keys)
    given = {**GIVEN, **{f"{PREFIX}{name.replace('_', '.')}": text for name, text in options.items()}}
    return Verifier(BrokerConfig(given)).verify(token, lambda url, *key: found.find(*key), now_s * 1000)


def refusal(token, *given, **options):
    with pytest.raises(Invalid) as raised:
        verify(token, *given, **options)
    assert raised.value.__cause__ is None
    return str(raised.value)


def part(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def signed_by_secret(header, secret):
    """A token that HMAC signs: PyJWT would refuse to make it with a public key."""
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW_S, "exp": NOW_S + 300}
    content = f"{part(header)}.{part(claims)}"
    return f"{content}.{part(hmac.digest(secret, content.encode(), hashlib.sha256))}"


def test_a_valid_token_names_a_user_until_it_expires():
    assert verify(PROVIDER.token(NOW_S)) == ("alice", (NOW_S + 300) * 1000)
    assert verify(PROVIDER.token(NOW_S, aud=["x", AUDIENCE], scope=["a", "b"], nbf=NOW_S)).user == "alice"
    assert verify(PROVIDER.token(NOW_S, preferred="bob"), sub_claim_name="preferred").user == "bob"
    assert verify(PROVIDER.token(NOW_S, headers={"kid": None})).user == "alice"


def test_every_allowed_algorithm_verifies():
    for provider in other_providers():
        assert verify(provider.token(NOW_S), provider.jwks).user == "alice"


def test_a_token_without_signature_is_refused():
    for name in ("none", "None", "NONE", "nOnE"):
        claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW_S, "exp": NOW_S + 300}
        for signature in ("", "AAAA"):
            token = f"{part({'alg': name, 'kid': 'one'})}.{part(claims)}.{signature}"
            assert "not signed by one of" in refusal(token)
    header, claims, _ = PROVIDER.token(NOW_S).split(".")
    assert refusal(f"{header}.{claims}.")


def test_a_public_key_is_not_a_shared_secret():
    public = RSA_KEYS[0].public_key()
    pem, der = (
        public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER)
    )
    for secret in (pem, der, PROVIDER.jwks.encode(), json.dumps(PROVIDER.public).encode(), b""):
        for name in ("HS256", "HS384", "HS512"):
            assert "not signed by one of" in refusal(signed_by_secret({"alg": name, "kid": "one"}, secret))


def test_a_secret_among_the_keys_verifies_nothing():
    secret = b"s" * 32
    oct_key = {"kty": "oct", "k": part(secret), "kid": "shared", "alg": "HS256"}
    keys = json.dumps({"keys": [oct_key, PROVIDER.public]})
    assert "not signed by one of" in refusal(signed_by_secret({"alg": "HS256", "kid": "shared"}, secret), keys)
    with pytest.raises(ValueError, match="no public key"):
        KeySet(json.dumps({"keys": [oct_key]}))


def test_a_key_of_the_token_itself_is_not_used():
    other = Provider(RSA_KEYS[1])
    for headers in (
        {"jwk": other.public},
        {"jku": "https://evil.example/keys"},
        {"x5c": ["AAAA"]},
        {"x5u": "file:///x"},
    ):
        assert "signature" in refusal(other.token(NOW_S, headers=headers))


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://evil.example/"}, "not of sasl.oauthbearer.expected.issuer"),
        ({"iss": ISSUER.rstrip("/")}, "not of sasl.oauthbearer.expected.issuer"),
        ({"without": ["iss"]}, "no claim iss"),
        ({"aud": "elsewhere"}, "another audience"),
        ({"aud": ["elsewhere", "kafka2"]}, "another audience"),
        ({"aud": []}, "no claim aud"),
        ({"without": ["aud"]}, "no claim aud"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": NOW_S - 3600, "iat": NOW_S - 7200}, "has expired"),
        ({"without": ["exp"]}, "no claim exp"),
        ({"exp": "tomorrow"}, "exp of the token is not a time"),
        ({"exp": True}, "exp of the token is not a time"),
        ({"exp": float("inf")}, "exp of the token is not a time"),
        ({"exp": float("nan")}, "exp of the token is not a time"),
        ({"exp": -1}, "exp of the token is not a time"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"nbf": [1]}, "nbf of the token is not a time"),
        ({"without": ["iat"]}, "no claim iat"),
        ({"iat": "now"}, "iat of the token is not a time"),
        ({"iat": NOW_S + 3600}, "expires before it is valid"),
        ({"without": ["sub"]}, "no claim sub"),
        ({"sub": ""}, "no claim sub"),
        ({"sub": " \t"}, "no claim sub"),
        ({"sub": 7}, "no claim sub"),
        ({"sub": ["alice"]}, "no claim sub"),
        ({"scope": ["a", "a"]}, "not a scope"),
        ({"scope": [1]}, "not a scope"),
        ({"scope": ""}, "not a scope"),
    ],
)
def test_claims_that_do_not_hold_are_refused(claims, reason):
    assert reason in refusal(PROVIDER.token(NOW_S, **claims))


def test_clocks_may_differ_by_the_skew():
    for claims in ({"exp": NOW_S - 29, "iat": NOW_S - 60}, {"nbf": NOW_S + 30}):
        token = PROVIDER.token(NOW_S, **claims)
        assert verify(token).user == "alice"
        assert refusal(token, clock_skew_seconds="0")


def test_only_the_provider_can_sign():
    other = Provider(RSA_KEYS[1])
    assert "signature" in refusal(other.token(NOW_S))
    assert "no key" in refusal(Provider(RSA_KEYS[1], "two").token(NOW_S))
    assert "no key" in refusal(Provider(algorithm="RS256").token(NOW_S), next(iter(other_providers())).jwks)
    header, claims, signature = PROVIDER.token(NOW_S).split(".")
    forged = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"sub": "admin"}
    assert "signature" in refusal(f"{header}.{part(forged)}.{signature}")
    assert "signature" in refusal(f"{header}.{claims}.{part(bytes(256))}")
    changed = part({"alg": "RS256", "kid": "one", "typ": "JWT2"})
    assert "signature" in refusal(f"{changed}.{claims}.{signature}")


def test_a_key_serves_the_algorithm_that_it_names():
    bound = json.dumps({"keys": [{**PROVIDER.public, "alg": "PS256"}]})
    assert "no key" in refusal(PROVIDER.token(NOW_S), bound)
    assert verify(Provider(algorithm="PS256").token(NOW_S), bound).user == "alice"


def test_a_token_without_key_id_can_have_but_one_key():
    two = json.dumps({"keys": [PROVIDER.public, Provider(RSA_KEYS[1], "two").public]})
    assert "no key" in refusal(PROVIDER.token(NOW_S, headers={"kid": None}), two)


GARBAGE = [
    "", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "é.b.c", part({"alg": "RS256"}) + ".e30.", "[" * 5000 + ".." ,
    f"{part(b'[]')}.{part({})}.AAAA", f"{part(b'7')}.e30.AAAA", f"{part({'kid': 'one'})}.e30.AAAA",
    f"{part({'alg': ['RS256'], 'kid': 'one'})}.e30.AAAA", f"{part({'alg': 'RS256', 'kid': 7})}.e30.AAAA",
    f"{part({'alg': None})}.e30.AAAA", f"{part({'alg': 'RS256', 'kid': 'one', 'b64': False, 'crit': ['b64']})}..AAAA",
    f"{part({'alg': 'RS256', 'kid': 'one', 'crit': ['x'], 'x': 1})}.e30.AAAA",
    f"{part(b'[' * 100_000)}.e30.AAAA", f"{part(b'{' + b'0' * 9000)}.e30.AAAA", f"{part({'alg': 'RS256', 'kid': 'one'})}.!!.AAAA",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(GARBAGE)))
def test_garbage_is_refused_in_words_of_ours(number):
    told = refusal(GARBAGE[number])
    assert told in ("the token is not a valid JWT", "the signature of the token is wrong") or "not signed by" in told


def test_what_is_signed_but_is_no_claims_is_refused():
    for content in (b"[]", b"7", b"null", b"{", b"\xff", b"[" * 100_000):
        header = part({"alg": "RS256", "kid": "one"})
        signature = PROVIDER.key.sign(f"{header}.{part(content)}".encode(), *pkcs1())
        assert refusal(f"{header}.{part(content)}.{part(signature)}") == "the token is not a valid JWT"


def pkcs1():
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return padding.PKCS1v15(), hashes.SHA256()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "{}", '{"keys": 7}', '{"keys": []}', '{"keys": [7, null, {}, {"kty": "RSA"}]}', "[" * 100_000],
)
def test_keys_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="it "):
        KeySet(text)


def test_keys_for_other_purposes_are_left_out():
    for change in ({"use": "enc"}, {"key_ops": ["encrypt"]}, {"kty": ["RSA"]}, {"n": 7}):
        with pytest.raises(ValueError, match="no public key"):
            KeySet(json.dumps({"keys": [{**PROVIDER.public, **change}]}))


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_a_short_key_verifies_nothing():
    from cryptography.hazmat.primitives.asymmetric import rsa

    short = Provider(rsa.generate_private_key(public_exponent=65537, key_size=1024))
    assert refusal(short.token(NOW_S), short.jwks) == "the token is not a valid JWT"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"jwks.endpoint.url": None}, "sasl.oauthbearer.jwks.endpoint.url: SASL/OAUTHBEARER needs"),
        ({"expected.issuer": None, "expected.audience": None}, "expected.issuer, sasl.oauthbearer.expected.audience: "),
        ({"expected.audience": ""}, "sasl.oauthbearer.expected.audience: SASL"),
        ({"expected.audience": " "}, "sasl.oauthbearer.expected.audience: SASL"),
        ({"expected.audience": "kafka,,"}, "sasl.oauthbearer.expected.audience: SASL"),
        ({"expected.issuer": " "}, "sasl.oauthbearer.expected.issuer: SASL"),
        ({"jwks.endpoint.url": "http://provider.example/keys"}, "must be a file:/// or https:// URL, not 'http:"),
        ({"jwks.endpoint.url": "file://elsewhere/keys"}, "must be a file:/// or https:// URL"),
        ({"jwks.endpoint.url": "jndi:ldap://evil.example/x"}, "must be a file:/// or https:// URL"),
        ({"jwt.validator.class": "org.evil.Validator"}, "sasl.oauthbearer.jwt.validator.class must be one of"),
        ({"sub.claim.name": " "}, "sasl.oauthbearer.sub.claim.name must not be empty"),
    ],
)
def test_what_is_not_configured_keeps_tokens_from_being_accepted(changes, sentence):
    given = {**GIVEN, **{f"{PREFIX}{name}": text for name, text in changes.items()}}
    with pytest.raises(InvalidOption, match=sentence):
        Verifier(BrokerConfig({name: text for name, text in given.items() if text is not None}))
