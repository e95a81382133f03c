"""Keys and certificates for a throw-away control plane on loopback."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key."""

    key: rsa.RSAPrivateKey
    cert: x509.Certificate

    @property
    def cert_pem(self) -> bytes:
        return self.cert.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return key_pem(self.key)


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def key_pem(key: rsa.RSAPrivateKey) -> bytes:
    # PKCS#1: Kueue's certificate rotator reads its CA key in this form only.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def make_ca(name: str) -> Pair:
    """A self-signed CA.

    Its own name is also a DNS name of the certificate: Kueue's rotator checks its CA by that name.
    """
    key = new_key()
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    return Pair(key, _unsigned(name, name, key, names, is_ca=True).sign(key, hashes.SHA256()))


def issue(ca: Pair, name: str, *, dns: list[str], ips: list[str]) -> Pair:
    """A server and client certificate signed by a CA."""
    key = new_key()
    issuer = str(ca.cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    names: list[x509.GeneralName] = [x509.DNSName(d) for d in dns]
    names += [x509.IPAddress(ipaddress.ip_address(i)) for i in ips]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _unsigned(name, issuer, key, names, is_ca=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return Pair(key, builder.sign(ca.key, hashes.SHA256()))


def _unsigned(
    name: str, issuer: str, key: rsa.RSAPrivateKey, names: list[x509.GeneralName], *, is_ca: bool
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(_called(name))
        .issuer_name(_called(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        # Kueue's rotator renews what ends within 90 days, so stay well clear.
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(usage, critical=True)
    )


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
