"""Reads Java's key stores and certificates with `cryptography`: PKCS#12 as PEM, and subjects as Java prints them."""

from typing import Any

from tidelog.errors import InvalidOption

_JKS = bytes.fromhex("feedfeed")
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
    from cryptography.hazmat.primitives import serialization

    key, certificate, others = _pkcs12(content, key_password or store_password, option)
    if key is None or certificate is None:
        raise InvalidOption(f"{option} holds no private key with its certificate")
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = [certificate, *others]
    return bytes(key.private_bytes(*plain)) + b"".join(each.public_bytes(plain[0]) for each in chain)


def certificates_as_pem(content: bytes, password: str | None, option: str) -> bytes:
    """All certificates of the store. InvalidOption if it cannot be read."""
    from cryptography.hazmat.primitives.serialization import Encoding

    _, certificate, others = _pkcs12(content, password, option)
    found = [each for each in (certificate, *others) if each is not None]
    if not found:
        raise InvalidOption(f"{option} holds no certificate")
    return b"".join(bytes(each.public_bytes(Encoding.PEM)) for each in found)


def _pkcs12(content: bytes, password: str | None, option: str) -> tuple[Any, Any, list[Any]]:
    if content.startswith(_JKS):
        raise InvalidOption(
            f"{option} is a JKS store, which Tidelog does not read; convert it: "
            "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"
        )
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


class UnreadableSubject(Exception):
    """OpenSSL trusts the certificate, but its subject cannot be decoded, so its owner has no name."""


def check_subjects(option: str) -> None:
    """InvalidOption if the package that reads the subjects of certificates is missing."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidOption(
            f"{option}: client certificates need the package cryptography: pip install 'tidelog[tls]'"
        ) from None


def subject(certificate: bytes) -> str:
    """The subject of a DER certificate in RFC 2253's form, as Java prints it: `CN=Some One,OU=Other,O=Org`.
    UnreadableSubject if it cannot be decoded, as text of a type without a defined encoding."""
    from cryptography import x509

    try:
        parsed = x509.load_der_x509_certificate(certificate)
        return ",".join("+".join(_attribute(each) for each in rdn) for rdn in reversed(parsed.subject.rdns))
    except Exception as problem:  # a client chose these bytes, and the errors of the parser are not declared
        raise UnreadableSubject(f"the certificate's subject cannot be read ({type(problem).__name__})") from None


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
