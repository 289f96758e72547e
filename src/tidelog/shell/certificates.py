"""Makes a certificate authority, and the certificates that it issues to brokers; needs the package cryptography."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_NAME = "tidelog-ca"
VALID_FOR = timedelta(days=3650)
RENEWED_BEFORE = timedelta(days=30)


class Authority(NamedTuple):
    """The key and the certificate with which brokers' certificates are signed."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls) -> Self:
        key = _new_key()
        made = (
            _builder(AUTHORITY_NAME, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage("key_cert_sign", "crl_sign"), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(key, made.sign(key, hashes.SHA256()))

    @classmethod
    def of_pem(cls, key: bytes, certificate: bytes) -> Self:
        loaded = load_pem_private_key(key, None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        return cls(loaded, x509.load_pem_x509_certificate(certificate))

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self.key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, hosts: Collection[str]) -> bytes:
        """A new key, its certificate for these hosts, and the authority's: a store in Kafka's PEM form."""
        key = _new_key()
        roles = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        made = (
            _builder(name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage("digital_signature"), critical=True)
            .add_extension(x509.ExtendedKeyUsage(roles), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        signed = made.sign(self.key, hashes.SHA256())
        return _key_pem(key) + signed.public_bytes(Encoding.PEM) + self.certificate_pem


def serves(store: bytes, hosts: Collection[str]) -> bool:
    """Whether the store's certificate is for all of these hosts, and not about to expire."""
    certificate = x509.load_pem_x509_certificate(store)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    is_fresh = certificate.not_valid_after_utc - datetime.now(UTC) > RENEWED_BEFORE
    return is_fresh and all(_general_name(host) in names for host in hosts)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _builder(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(name))
        .issuer_name(_common_name(AUTHORITY_NAME))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + VALID_FOR)
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(*allowed: str) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    given: dict[str, Any] = {name: name in allowed for name in names}
    return x509.KeyUsage(**given)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
