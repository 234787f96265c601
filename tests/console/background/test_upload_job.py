"""What an uploaded policy is published with."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hushmq.broker.commands.client_options import add_broker, endpoints
from hushmq.broker.provision.authority import Authority
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.service.settings_file import BrokerSection, TlsSection
from hushmq.console.background.upload_job import staged_policy, upload_request
from hushmq.console.console_config import UploadSection
from tests.calibrator.site import policy, signed
from tests.console.conftest import Opened


@pytest.mark.parametrize("mutual", [False, True])
def test_push_gets_all_that_the_broker_needs(opened: Opened, tmp_path: Path, mutual: bool) -> None:
    """The options lead to the very endpoints that the settings describe, with the identity of ops."""
    authority = Authority.create(tmp_path / "authority")
    authority.issue_server(["127.0.0.1"])
    certificate, key = authority.server if mutual else (None, None)
    write_private(tmp_path / "password", "secret\n")
    config = opened().context.config.model_copy(
        update={
            "broker": BrokerSection(
                urls=("mqtts://one.example:8883", "mqtts://two.example:8883"),
                username="console",
                tls=TlsSection(ca=authority.certificate, certificate=certificate, key=key),
            ),
            "upload": UploadSection(username="ops", password_file=tmp_path / "password"),
        }
    )
    request = upload_request(config, staged_policy(config, signed(policy())), "--dry-run")
    parser = argparse.ArgumentParser()
    add_broker(parser)
    parser.add_argument("--dry-run", action="store_true")
    found = endpoints(parser.parse_args(request["push"]))
    assert found == config.upload_endpoints()
    assert len(found) == 2
    assert found[0].tls is not None
    assert (found[0].tls.certificate is not None) == mutual
