"""Reads Java's key stores and certificates with `cryptography` and `purejks`: stores as PEM, what a certificate says,
and subjects as Java prints them."""

import base64
import re
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple

from tidelog.errors import InvalidOption

MOST_ROUNDS = 1_000_000
"""A third of a second. OpenSSL and keytool use 2,048 to 10,000."""
_ENCRYPTED_KEY = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_INTEGER, _CONSTRUCTED = 0x02, 0x20
_SHORT, _MOST_LENGTH_BYTES, _DEEPEST = 0x7F, 4, 8
_JKS = bytes.fromhex("feedfeed")
_JCEKS = bytes.fromhex("cececece")
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attributes with a keyword in RFC 2253; Java prints all others by number."""

_ESCAPED = str.maketrans({char: f"\\{char}" for char in ',=+<>#;"\\'})
_IA5, _PRINTABLE, _UTF8 = 0x16, 0x13, 0x0C
_TAGS = {"1.2.840.113549.1.9.1": _IA5, "2.5.4.5": _PRINTABLE, "2.5.4.46": _PRINTABLE}


def key_as_pem(content: bytes, store_password: str | None, key_password: str | None, option: str) -> bytes:
    """The private key and its certificate chain, its own certificate first. InvalidOption if the store cannot
    be read."""
    if content.startswith(_JKS):
        return _jks_key(content, store_password, key_password or store_password, option)
    from cryptography.hazmat.primitives import serialization

    key, certificate, others = _pkcs12(content, key_password or store_password, option)
    if key is None or certificate is None:
        raise InvalidOption(f"{option} holds no private key with its certificate")
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = [certificate, *others]
    return bytes(key.private_bytes(*plain)) + b"".join(each.public_bytes(plain[0]) for each in chain)


def check_rounds(pem: bytes, option: str) -> None:
    """InvalidOption if an encrypted key asks for more rounds of its key derivation than MOST_ROUNDS: a client can send
    one (AlterConfigs), and OpenSSL would hold the event loop for as long as its author likes."""
    for body in _ENCRYPTED_KEY.findall(pem):
        try:
            rounds = max(_numbers(base64.b64decode(body), 0), default=0)
        except ValueError:
            raise InvalidOption(f"{option}: the encrypted key is not DER in base64") from None
        if rounds > MOST_ROUNDS:
            raise InvalidOption(
                f"{option}: the key is encrypted with {rounds} rounds; at most {MOST_ROUNDS} are allowed"
            )


def _numbers(der: bytes, depth: int) -> Iterator[int]:
    """Every INTEGER that is not inside a string. ValueError if it is not DER."""
    position = 0
    while position < len(der):
        tag, content, position = _element(der, position)
        if tag == _INTEGER:
            yield int.from_bytes(content)
        elif tag & _CONSTRUCTED:
            if depth == _DEEPEST:
                raise ValueError("nested too deep")
            yield from _numbers(content, depth + 1)


def _element(der: bytes, position: int) -> tuple[int, bytes, int]:
    """(tag, content, where the next one begins)."""
    if position + 2 > len(der):
        raise ValueError("cut short")
    tag, length, start = der[position], der[position + 1], position + 2
    if length > _SHORT:
        size = length - _SHORT - 1
        length, start = int.from_bytes(der[start : start + size]), start + size
        if not 0 < size <= _MOST_LENGTH_BYTES:  # 0: an indefinite length, which is not DER
            raise ValueError("no definite length")
    if start + length > len(der):
        raise ValueError("cut short")
    return tag, der[start : start + length], start + length


def certificates_as_pem(content: bytes, password: str | None, option: str) -> bytes:
    """All certificates of the store. InvalidOption if it cannot be read."""
    if content.startswith(_JKS):
        found = [entry.cert for entry in _jks(content, password, option).certs.values()]
    else:
        from cryptography.hazmat.primitives.serialization import Encoding

        _, certificate, others = _pkcs12(content, password, option)
        found = [each.public_bytes(Encoding.DER) for each in (certificate, *others) if each is not None]
    if not found:
        raise InvalidOption(f"{option} holds no certificate")
    return "".join(ssl.DER_cert_to_PEM_cert(each) for each in found).encode()


def _pkcs12(content: bytes, password: str | None, option: str) -> tuple[Any, Any, list[Any]]:
    if content.startswith(_JCEKS):
        raise InvalidOption(f"{option} is a JCEKS store, which Tidelog does not read; {_CONVERT}")
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise InvalidOption(
            f"{option}: PKCS#12 stores need the package cryptography: pip install 'tidelog[tls]'"
        ) from None
    try:
        return pkcs12.load_key_and_certificates(content, password.encode() if password is not None else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise InvalidOption(f"{option}: not a PKCS#12 store, or the wrong password ({problem})") from None


_CONVERT = "convert it: keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"


def _jks_key(content: bytes, store_password: str | None, key_password: str | None, option: str) -> bytes:
    store = _jks(content, store_password, option)
    if not store.private_keys:
        raise InvalidOption(f"{option} holds no private key with its certificate")
    entry = next(iter(store.private_keys.values()))
    from cryptography.hazmat.primitives import serialization

    try:
        entry.decrypt(key_password)
        key = serialization.load_der_private_key(entry.pkey_pkcs8, None)
    except Exception as problem:  # the errors of the parsers are not declared
        raise InvalidOption(f"{option}: the key cannot be read, or ssl.key.password is wrong ({problem})") from None
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = "".join(ssl.DER_cert_to_PEM_cert(certificate) for _, certificate in entry.cert_chain)
    return key.private_bytes(*plain) + chain.encode()


def _jks(content: bytes, password: str | None, option: str) -> Any:
    try:
        import cryptography  # noqa: F401
        import jks
    except ImportError:
        raise InvalidOption(
            f"{option} is a JKS store, which needs the package purejks: pip install 'tidelog[tls,jks]'; or {_CONVERT}"
        ) from None
    try:
        return jks.KeyStore.loads(content, password, try_decrypt_keys=False)
    except Exception as problem:  # the errors of the parser are not declared
        raise InvalidOption(f"{option}: not a JKS store, or the wrong password ({problem})") from None


class Identity(NamedTuple):
    """What a listener's certificate says of it, and when the first certificate of its chain expires."""

    subject: str
    alternative_names: frozenset[str]
    expires_ms: int


def identity(pem: bytes, option: str) -> Identity:
    """The identity in a chain of certificates, its own certificate first. InvalidOption if it cannot be parsed."""
    from cryptography import x509

    try:
        chain = x509.load_pem_x509_certificates(pem)
        expires = min(each.not_valid_after_utc for each in chain)
        names = _alternative_names(chain[0])
        return Identity(_subject(chain[0]), names, int(expires.timestamp() * 1000))
    except Exception as problem:  # the errors of the parser are not declared
        raise InvalidOption(f"{option}: the certificates cannot be parsed ({problem})") from None


def _alternative_names(certificate: Any) -> frozenset[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(each).__name__} {each.value}" for each in names)


class UnusableCertificate(Exception):
    """OpenSSL trusts the certificate, but it names nobody: its subject cannot be decoded, or it has expired since
    the session began that is resumed with it."""


def check_installed(who: str) -> None:
    """InvalidOption if the package that parses certificates is missing."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidOption(f"{who} needs the package cryptography: pip install 'tidelog[tls]'") from None


def subject(certificate: bytes, now_s: float) -> str:
    """The subject of a DER certificate in RFC 2253's form, as Java prints it: `CN=Some One,OU=Other,O=Org`.
    UnusableCertificate if it has expired or cannot be decoded, as text of a type without a defined encoding."""
    from cryptography import x509

    try:
        parsed = x509.load_der_x509_certificate(certificate)
        name, expires_s = _subject(parsed), parsed.not_valid_after_utc.timestamp()
    except Exception as problem:  # a client chose these bytes, and the errors of the parser are not declared
        raise UnusableCertificate(f"the certificate's subject cannot be read ({type(problem).__name__})") from None
    if expires_s < now_s:
        raise UnusableCertificate("the certificate has expired since the session began")
    return name


def _subject(certificate: Any) -> str:
    return ",".join("+".join(_attribute(each) for each in rdn) for rdn in reversed(certificate.subject.rdns))


def _attribute(attribute: Any) -> str:
    oid = attribute.oid.dotted_string
    if oid in _KEYWORDS:
        return f"{_KEYWORDS[oid]}={_escaped(attribute.value)}"
    value = attribute.value.encode()
    return f"{oid}=#{bytes([_TAGS.get(oid, _UTF8)]).hex()}{_der_length(len(value)).hex()}{value.hex()}"


def _der_length(length: int) -> bytes:
    if length < 0x80:
        return bytes([length])
    size = (length.bit_length() + 7) // 8
    return bytes([0x80 | size]) + length.to_bytes(size)


def _escaped(text: str) -> str:
    """Leading and trailing blanks are escaped, too."""
    escaped = text.translate(_ESCAPED)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(escaped) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped
