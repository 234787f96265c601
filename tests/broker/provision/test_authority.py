"""The certificate authority: the certificates it signs, and the protection of its files."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.authority import Authority, subject


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "authority")


def test_private_keys_are_private(authority: Authority) -> None:
    """Every key file has mode 600."""
    authority.issue_server(["broker.lan"])
    authority.issue_client("wearable-1")
    keys = list(authority.folder.rglob("*.key"))
    assert len(keys) == 3
    assert {file.stat().st_mode & 0o777 for file in keys} == {0o600}


def test_a_server_certificate_names_hosts_and_addresses(authority: Authority) -> None:
    """Names become DNS entries, addresses IP entries; a reloaded authority has signed the certificate."""
    Authority.load(authority.folder).issue_server(["broker.lan", "192.168.1.5", "::1"])
    certificate = x509.load_pem_x509_certificate(authority.server[0].read_bytes())
    alternative = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert isinstance(alternative, x509.SubjectAlternativeName)
    assert alternative.get_values_for_type(x509.DNSName) == ["broker.lan"]
    assert [str(address) for address in alternative.get_values_for_type(x509.IPAddress)] == [
        "192.168.1.5",
        "::1",
    ]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))


def test_a_client_certificate_bears_the_name_and_an_end(authority: Authority) -> None:
    """The common name is the identity's name; `expires` returns the end of validity."""
    authority.issue_client("wearable-1", days=10)
    certificate = x509.load_pem_x509_certificate(authority.files("wearable-1")[0].read_bytes())
    assert certificate.subject.rfc4514_string().startswith("CN=wearable-1,")
    assert abs(authority.expires("wearable-1") - datetime.now(UTC) - timedelta(days=10)) < timedelta(
        minutes=1
    )


def test_two_certificates_of_one_name_have_different_subjects(authority: Authority) -> None:
    """The subject has a random mark beside the name, which comes first in its text."""
    found = set()
    for _ in range(2):
        authority.issue_client("wearable-1")
        found.add(subject(authority.files("wearable-1")[0]))
    assert len(found) == 2
    assert all(re.fullmatch("CN=wearable-1,OU=[0-9a-f]{16}", each) for each in found)


def test_a_certificate_serves_until_it_is_due_and_for_its_hosts_only(authority: Authority) -> None:
    """`serves` is false if there is no certificate, it expires within 30 days, or a host is missing."""
    assert not authority.serves(["broker.lan"])
    authority.issue_server(["broker.lan", "192.168.1.5"], days=31)
    assert authority.serves(["broker.lan"])
    assert authority.serves(["192.168.1.5", "broker.lan"])
    assert not authority.serves(["broker.lan", "192.168.1.6"])
    authority.issue_server(["broker.lan"], days=29)
    assert not authority.serves(["broker.lan"])


def test_a_long_host_name_is_no_obstacle(authority: Authority) -> None:
    """A common name is truncated to 64 characters; the alternative names contain the whole name."""
    host = f"{'broker-' * 12}.lan"
    authority.issue_server([host])
    assert authority.serves([host])


def test_revoking_adds_to_the_list_and_removes_the_files(authority: Authority) -> None:
    """Both revoked certificates are on the revocation list, which the authority has signed."""
    serials = list[int]()
    for name in ("wearable-1", "wearable-2"):
        authority.issue_client(name)
        serials.append(x509.load_pem_x509_certificate(authority.files(name)[0].read_bytes()).serial_number)
        authority.revoke(name)
        assert not any(file.exists() for file in authority.files(name))
    revoked = x509.load_pem_x509_crl(authority.revoked.read_bytes())
    assert [entry.serial_number for entry in revoked] == serials
    ca = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    public = ca.public_key()
    assert revoked.is_signature_valid(public)  # type: ignore[arg-type]  # a P-256 key


def test_an_authority_is_never_overwritten(authority: Authority) -> None:
    """Creating a second authority in the same folder is refused."""
    with pytest.raises(Problem, match="holds a certificate authority already"):
        Authority.create(authority.folder)


def test_damage_is_reported(authority: Authority, tmp_path: Path) -> None:
    """The message names a missing or damaged file."""
    with pytest.raises(Problem, match=r"ca\.key: No such file"):
        Authority.load(tmp_path / "none")
    with pytest.raises(Problem, match=r"certificate .*nobody\.pem: No such file"):
        authority.expires("nobody")
    (authority.folder / "ca.key").write_text("rubbish")
    with pytest.raises(Problem, match="is damaged"):
        Authority.load(authority.folder)
