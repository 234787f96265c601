"""A private certificate authority for a site that has none: a folder with its key and the certificates it has signed.

The authority signs one certificate for the broker, one for each identity, and the certificate revocation list. Keys are
P-256, which every TLS library of the last decade supports. An identity's subject contains its name and a random mark.
NATS has no revocation list and accepts clients by their whole subject, so that the certificate of a stolen device
stays invalid when a new device gets its name.
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
"""The longest validity that current TLS clients accept in a server's certificate."""
SKEW = timedelta(hours=1)
"""How far a device's clock may be behind without a new certificate being not yet valid."""
RENEW_DAYS = 30
"""A certificate is due for renewal this many days before it expires."""


def _name(common: str, mark: str | None = None) -> x509.Name:
    unit = [] if mark is None else [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, mark)]
    return x509.Name([*unit, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def subject(certificate: Path) -> str:
    """Return the whole subject of a certificate as text, its name first: `CN=wearable-1,OU=8c01…`."""
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
        """Create a new authority; raise Problem when the folder already has one."""
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
            raise Problem(
                f"certificate authority in {folder}: ca.key is not a P-256 key, as hushmq creates it"
            )
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
        """The files of the broker's certificate and key."""
        return self.folder / "server.pem", self.folder / "server.key"

    def files(self, name: str) -> tuple[Path, Path]:
        """Return the files of an identity's certificate and key."""
        return self.identities / f"{name}.pem", self.identities / f"{name}.key"

    def issue_server(self, hosts: Sequence[str], *, days: float = CERTIFICATE_DAYS) -> None:
        """Sign a certificate for the broker, valid for these host names and addresses.

        It is also valid as a client certificate, with which the nodes of a cluster authenticate to each other.
        """
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        name = _name(
            hosts[0][:64]
        )  # a common name has at most 64 characters; clients read the alternative names
        self._issue(self.server, name, [_alternative(host) for host in hosts], usages, days)

    def issue_service(
        self, files: tuple[Path, Path], hosts: Sequence[str], *, days: float = CERTIFICATE_DAYS
    ) -> None:
        """Sign a certificate for another server of the site, such as its console, and write both files."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH]
        self._issue(files, _name(hosts[0][:64]), [_alternative(host) for host in hosts], usages, days)

    def issue_client(self, name: str, *, days: float = CERTIFICATE_DAYS) -> None:
        """Sign a certificate for an identity, with its name as the common name."""
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
        """Return when an identity's certificate expires, or, without a name, the broker's."""
        return _read((self.server if name is None else self.files(name))[0]).not_valid_after_utc

    def serves(self, hosts: Sequence[str]) -> bool:
        """Whether the broker's certificate exists, names all these hosts, and is not due for renewal."""
        if not self.server[0].exists():
            return False
        certificate = _read(self.server[0])
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        missing = {_alternative(host) for host in hosts} - set(named)
        return not missing and not due(certificate.not_valid_after_utc)

    def revoke(self, name: str) -> None:
        """Add an identity's certificate to the revocation list, and delete its files."""
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


def check_valid(certificate: Path) -> None:
    """Raise Problem if a certificate has expired: no client would accept it."""
    end = _read(certificate).not_valid_after_utc
    if end <= datetime.now(UTC):
        raise Problem(f"certificate {certificate} expired on {end:%Y-%m-%d}: renew it")


def due(end: datetime) -> bool:
    """Whether a certificate that expires then is due for renewal."""
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
