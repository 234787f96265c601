"""Exports of real cohorts, and how they are changed: by somebody without keys, or by whoever has the calibrator's."""

from __future__ import annotations

import copy
import io
import json
import time
from base64 import b64encode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from hushmq.broker.contract.policy_message import Assumption, Window
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.service.log import logger
from hushmq.calibrator.ledger.ledger_export import export_bundle
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.verify.check_export import check_export
from hushmq.verify.claims import Claim, Verdict
from hushmq.verify.export_file import read_export
from hushmq.verify.signed_text import canonical, entry_digest, epoch_digest
from tests.calibrator.site import (
    CALIBRATOR,
    OPS,
    STREAM,
    Desk,
    desk,
    from_device,
    policy,
    sqlite,
    states,
    wait_until,
)
from tests.calibrator.site import START as START  # noqa: PLC0414  # tests of exports use it too

Tree = dict[str, Any]
TWO = {"short": Window(ticks=20, scopes=("cohort", "device")), "long": Window(ticks=40)}
WIDE, FLOOR = BinaryTheta(0.05, 0.45, 0.05, 0.45), BinaryTheta(0.3, 0.31, 0.3, 0.31)


def exported(here: Desk) -> Tree:
    """The export of a cohort, as it is written and read."""
    with here.engine.begin() as db:
        found = export_bundle(
            db,
            cohort="test",
            key=CALIBRATOR,
            ops_keys=[OPS.public],
            log=logger("error", "json", io.StringIO()),
        )
    tree: Tree = json.loads(json.dumps(found))
    return tree


def two_state_export(folder: Path, adversary: str = "informed", *, windows: int = 3, **changes: Any) -> Tree:
    """A few windows under one policy, and a window under a second one, which allows more."""
    with desk(sqlite(folder)) as here:
        here.adopt(policy(windows=TWO, adversary=adversary, **changes))
        for number in range(windows):
            here.window(number)
            here.cohort.close_due()
        return exported(here)


def next_second() -> None:
    """Wait until the clock shows another second: entries and policies are told apart by it."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now)


def wide_policy(**changes: Any) -> Any:
    return policy(theta=Assumption(start=theta_message(WIDE), floor=theta_message(FLOOR)), **changes)


def device_window(here: Desk, number: int, noises: dict[str, int]) -> None:
    """Every device sends one window of states with the noise of its setting."""
    first = START + number * 20
    here.clock.tick = first + 21
    here.cohort.receive(
        [from_device(device, first, states(20, number), noise=noise) for device, noise in noises.items()]
    )
    here.cohort.close_due()


def claims_of(tree: Tree, folder: Path) -> Iterator[Claim]:
    """The claims of an export as they are checked, with trusted keys."""
    path = folder / "export.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return check_export(read_export(path), [OPS.public.raw], [CALIBRATOR.public.raw])


def checked(tree: Tree, folder: Path) -> list[Claim]:
    return list(claims_of(tree, folder))


def first_claim(tree: Tree, folder: Path) -> Claim:
    return next(claims_of(tree, folder))


def faults(claims: list[Claim]) -> dict[str, tuple[Verdict, str]]:
    """What does not hold: verdict and reason by what it is about."""
    return {
        f"{one.about}, {one.claim}": (one.verdict, one.detail)
        for one in claims
        if one.verdict is not Verdict.HOLDS
    }


def changed(tree: Tree) -> Tree:
    return copy.deepcopy(tree)


def sealed_again(tree: Tree, key: PrivateKey = CALIBRATOR) -> Tree:
    """The export as a dishonest calibrator would seal it: digests, heads and the whole made anew."""
    for name, stream in tree["streams"].items():
        for old, new in pairwise(stream["epochs"]):
            for entry in (one for one in stream["entries"] if one["id"] == new["entry"]):
                entry |= {"noise_digest": epoch_digest(old, new), "first": new["first"], "last": new["first"]}
        before = "0" * 64
        for entry in stream["entries"]:
            before = entry["digest"] = entry_digest(before, entry)
        stream["head"] = before
        stream["seal"] = key.seal(f"{tree['cohort']}\n{name}\n{len(stream['entries'])}\n{before}".encode())
        if stream.get("state"):
            stream["state"] |= {"entries": len(stream["entries"]), "head": before, "seal": stream["seal"]}
    content = {name: value for name, value in tree.items() if name != "seal"}
    tree["seal"] = key.seal(b"export\n" + canonical(content))
    return tree


def signed_again(envelope: Tree, kind: str, key: PrivateKey = CALIBRATOR) -> None:
    """Sign a message, however it was changed, as its owner would."""

    text = f"hushmq/1/{kind}\n".encode() + canonical(envelope["message"])
    envelope["signature"] = b64encode(key._key.sign(text)).decode()
    envelope["key"] = key.public.id


def stream_of(tree: Tree) -> Tree:
    stream: Tree = tree["streams"][STREAM]
    return stream
