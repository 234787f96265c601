"""The rights of every role, tested against the brokers of the fixtures."""

from __future__ import annotations

import pytest

from hushmq.broker.provision.access_rights import Identity, Site, rights
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.broker import matrix
from tests.broker.plain import Plain


@pytest.fixture
def site(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The usual site, and an identity "witness" with all rights."""
    matrix.allow_witness(monkeypatch)
    return Site(site.cohort, (*site.identities, Identity("ops", "witness", "witness-secret")))


def test_everybody_writes_exactly_what_they_may(broker: BrokerProcess) -> None:
    """What an identity publishes arrives iff its role may write that topic, retained or not."""
    matrix.check_writes(broker.endpoint)


def test_everybody_reads_exactly_what_they_may(broker: BrokerProcess) -> None:
    """A subscription to every topic by name yields the retained and the live message iff the role may read it."""
    matrix.check_reads(broker.endpoint)


def test_wildcards_open_nothing(broker: BrokerProcess) -> None:
    """No wildcard subscription delivers a message that the role may not read by name."""
    matrix.check_wildcards(broker.endpoint)


@pytest.mark.parametrize("name", ["calibrator", "subscriber", "home-assistant", "wearable-1"])
def test_the_filters_of_a_role_are_granted_as_they_stand(broker: BrokerProcess, name: str) -> None:
    """All filters of a role's rights can be subscribed to in one request."""
    granted = rights("test", broker.site.identity(name)).subscribe
    with Plain(broker.endpoint(name)) as reader:
        assert reader.subscribe(*granted) == [1] * len(granted)
