"""A certificate authority of one's own, for a site that has none: a folder with a key, and what it has signed.

The authority signs one certificate for the broker and one for each identity, and a list of the revoked ones.
Keys are P-256, because every TLS library of the last decade speaks it. An identity's subject has its name and a random
mark: a broker that knows no list of revoked certificates (NATS) lets in by the whole subject, so that the certificate
of a stolen device stays worthless when a new device gets its name.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import write_private

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 825
"""The longest that current TLS clients accept for a server."""
SKEW = timedelta(hours=1)
"""A device's clock may lag this much behind without finding a certificate not yet valid."""


RENEW_DAYS = 30
"""A certificate that ends within so many days is due."""


def _name(common: str, mark: str | None = None) -> x509.Name:
    unit = [] if mark is None else [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, mark)]
    return x509.Name([*unit, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def subject(certificate: Path) -> str:
    """The whole subject of a certificate as text, its name first: `CN=wearable-1,OU=8c01…`."""
    return _read(certificate).subject.rfc4514_string()


def _read(certificate: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes())
    except OSError as error:
        raise Problem(f"certificate {certificate}: {error.strerror}") from None
    except ValueError:
        raise Problem(f"certificate {certificate} is damaged") from None


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


class Authority:
    """An authority in a folder: ca.pem, ca.key, revoked.pem, server.pem and .key, identities/<name>.pem and .key."""

    def __init__(self, folder: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.folder = folder
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, folder: Path, *, name: str = "hushmq authority") -> Authority:
        """Make a new authority; Problem when the folder has one already."""
        if (folder / "ca.key").exists():
            raise Problem(f"{folder} holds a certificate authority already")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_private(folder / "ca.key", _key_pem(key))
        (folder / "ca.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        authority = cls(folder, key, certificate)
        authority.identities.mkdir(mode=0o700, exist_ok=True)
        authority._write_revoked(())
        return authority

    @classmethod
    def load(cls, folder: Path) -> Authority:
        try:
            key = load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
            certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        except OSError as error:
            raise Problem(f"certificate authority in {folder}: {error.filename}: {error.strerror}") from None
        except ValueError:
            raise Problem(f"certificate authority in {folder}: ca.key or ca.pem is damaged") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise Problem(f"certificate authority in {folder}: ca.key is not one of ours (P-256)")
        return cls(folder, key, certificate)

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def revoked(self) -> Path:
        return self.folder / "revoked.pem"

    @property
    def identities(self) -> Path:
        return self.folder / "identities"

    @property
    def server(self) -> tuple[Path, Path]:
        """Where the certificate and the key of the broker are."""
        return self.folder / "server.pem", self.folder / "server.key"

    def files(self, name: str) -> tuple[Path, Path]:
        """Where the certificate and the key of an identity are."""
        return self.identities / f"{name}.pem", self.identities / f"{name}.key"

    def issue_server(self, hosts: Sequence[str], *, days: float = CERTIFICATE_DAYS) -> None:
        """Sign a certificate for the broker, valid for these host names and addresses.

        It serves as a client's too: the nodes of a cluster prove themselves to each other with it.
        """
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        name = _name(hosts[0][:64])  # the longest that a common name may be; clients read the alternatives
        self._issue(self.server, name, [_alternative(host) for host in hosts], usages, days)

    def issue_client(self, name: str, *, days: float = CERTIFICATE_DAYS) -> None:
        """Sign a certificate for an identity; its name is the common name."""
        marked = _name(name, secrets.token_hex(8))
        self._issue(self.files(name), marked, [], [ExtendedKeyUsageOID.CLIENT_AUTH], days)

    def _issue(
        self,
        files: tuple[Path, Path],
        name: x509.Name,
        alternatives: list[x509.GeneralName],
        usages: list[x509.ObjectIdentifier],
        days: float,
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + timedelta(days=days)) - SKEW)
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        write_private(files[1], _key_pem(key))
        files[0].write_bytes(certificate.public_bytes(Encoding.PEM))

    def expires(self, name: str | None = None) -> datetime:
        """When the certificate of a name ends; without a name, the broker's."""
        return _read((self.server if name is None else self.files(name))[0]).not_valid_after_utc

    def serves(self, hosts: Sequence[str]) -> bool:
        """Whether the broker's certificate is there, names all these hosts, and is not due to be renewed."""
        if not self.server[0].exists():
            return False
        certificate = _read(self.server[0])
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        missing = {_alternative(host) for host in hosts} - set(named)
        return not missing and not due(certificate.not_valid_after_utc)

    def revoke(self, name: str) -> None:
        """Put the certificate of a name on the list of revoked ones, and forget its files."""
        serial = _read(self.files(name)[0]).serial_number
        self._write_revoked([*self._revoked_serials(), serial])
        for file in self.files(name):
            file.unlink(missing_ok=True)

    def _revoked_serials(self) -> list[int]:
        revoked = x509.load_pem_x509_crl(self.revoked.read_bytes())
        return [entry.serial_number for entry in revoked]

    def _write_revoked(self, serials: Iterable[int]) -> None:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(now - SKEW)
            .next_update(now + timedelta(days=AUTHORITY_DAYS))
        )
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            )
        self.revoked.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))


def due(end: datetime) -> bool:
    """Whether it is time to renew a certificate that ends then."""
    return end - datetime.now(UTC) < timedelta(days=RENEW_DAYS)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
