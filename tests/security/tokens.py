"""A token provider for tests: keys, their JWKS, and tokens, valid ones and others."""

import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://provider.example/", "kafka"
RSA_KEYS = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
"""Made once: a key takes a tenth of a second."""


class Provider:
    """`key` signs, its public half is in `jwks`."""

    def __init__(self, key=None, key_id="one", algorithm="RS256"):
        self.key = key or RSA_KEYS[0]
        self.key_id = key_id
        self.algorithm = algorithm

    @property
    def public(self):
        kinds = {"E": jwt.algorithms.ECAlgorithm, "R": jwt.algorithms.RSAAlgorithm, "P": jwt.algorithms.RSAAlgorithm}
        kind = jwt.algorithms.OKPAlgorithm if self.algorithm == "EdDSA" else kinds[self.algorithm[0]]
        return {**json.loads(kind.to_jwk(self.key.public_key())), "kid": self.key_id, "use": "sig"}

    @property
    def jwks(self):
        return json.dumps({"keys": [self.public]})

    def token(self, now_s, *, key=None, algorithm=None, headers=None, without=(), **claims):
        """Valid for five minutes and for alice, unless the arguments say otherwise."""
        usual = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 300}
        given = {name: value for name, value in {**usual, **claims}.items() if name not in without}
        named = {"kid": self.key_id, **(headers or {})}
        named = {name: value for name, value in named.items() if value is not None}
        return jwt.encode(given, key or self.key, algorithm or self.algorithm, headers=named)


def first_message(token, header="n,,", scheme="Bearer"):
    return f"{header}\x01auth={scheme} {token}\x01\x01".encode()


def other_providers():
    """One of each further kind of key."""
    yield Provider(ec.generate_private_key(ec.SECP256R1()), algorithm="ES256")
    yield Provider(ec.generate_private_key(ec.SECP384R1()), algorithm="ES384")
    yield Provider(ec.generate_private_key(ec.SECP521R1()), algorithm="ES512")
    yield Provider(ed25519.Ed25519PrivateKey.generate(), algorithm="EdDSA")
    yield from (Provider(algorithm=name) for name in ("RS384", "RS512", "PS256", "PS384", "PS512"))
