"""Settings and `seen` changed at random, also under signatures that a device trusts: it goes on with what it had."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

from hushmq.agent.accept_settings import Settings
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Counted, NoiseSetting, Seen, decode, encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.topics import Address
from tests.agent.peer import noise, policy, sign
from tests.agent.test_accept_settings import NOISE, OWN, POLICY, fresh
from tests.mutations import mutated, rounds

KINDS: dict[Address, type[Policy] | type[NoiseSetting]] = {
    POLICY: Policy,
    NOISE: NoiseSetting,
    OWN: NoiseSetting,
}


def right(address: Address, version: int) -> Policy | NoiseSetting:
    if address == POLICY:
        return policy(version)
    return noise(version, policy=3, device=address.device)


def changed(address: Address, version: int, rng: random.Random) -> bytes:
    """A changed message: its bytes, or its content under a signature that the device trusts."""
    message = right(address, version)
    if rng.random() < 0.3:
        return mutated(sign(message), rng)
    payload = mutated(encode(message), rng)
    try:
        return sign(KINDS[address].model_validate_json(payload))
    except Exception:  # noqa: BLE001  # whatever is wrong with it, it is sent as it is
        return payload


def test_no_setting_ends_the_agent_or_weakens_its_noise(tmp_path: Path) -> None:
    """A refusal is all that comes of a wrong setting; what is applied keeps the limits of the device."""
    for number, rng in enumerate(rounds(25)):
        folder = tmp_path / str(number % 25)
        folder.mkdir(exist_ok=True)
        found: Settings = fresh(folder)
        for kept in folder.glob("settings/*"):
            kept.unlink()
        found.offer(POLICY, sign(policy(3)), {})
        found.offer(NOISE, sign(noise(5, policy=3)), {})
        for _ in range(30):
            address = rng.choice(list(KINDS))
            with suppress(Rejected):
                found.offer(address, changed(address, rng.choice((2, 3, 5, 6, 7)), rng), {"motion": 2})
            for applied in found.noise.values():
                assert applied.noise.least_probability() >= 0.001, number
        found.followed()
        again = fresh(folder)
        again.load({"motion": 2})
        assert (again.policy, again.noise) == (found.policy, found.noise), number


def test_no_seen_ends_the_agent_or_breaks_its_balance(tmp_path: Path) -> None:
    """Whatever `seen` says, sampled = counted + buffered + dropped, and no counter is negative."""
    outbox = Outbox(tmp_path, max_bytes=10_000, max_age_s=3600)
    for made, rng in enumerate(rounds(60), 1):
        first = 10 * made + rng.choice((0, 0, 3))
        batch = MadeBatch("motion", first, 10 * made + 9, b"x" * 20)
        said = Seen(streams={"motion": Counted(highest=10 * made + 5, holes=((3, 10 * made - 5),))})
        payload = mutated(encode(said), rng)
        seen: dict[str, Counted] = {}
        with suppress(Rejected):
            seen = dict(decode(Seen, payload).streams)
        outbox.commit([batch], periods={"motion": 1000}, seen=seen, now_ms=made)
        balance = outbox.balances["motion"]
        assert min(balance.sampled, balance.buffered, balance.dropped) >= 0
        assert balance.sampled >= balance.buffered + balance.dropped
        assert balance.watermark == 10 * made + 9
    outbox.close()
