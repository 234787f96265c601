"""The topics of the contract as a table: what goes over each, who writes and who reads it.

The documents are generated from it; tests hold it against the topics (broker/contract/topics.py) and the rights
(broker/provision/access_rights.py), so that none of the three can say something else.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from hushmq.broker.contract.messages import Batch, LedgerState, NoiseSetting, Policy, Release, Seen, Status
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import ROOT
from hushmq.broker.provision.access_rights import Role

PARAMETERS = {
    "cohort": "the devices that share a policy and a broker's rights",
    "device": "a device's name, which is its identity at the broker",
    "stream": "what is measured: one chain of states a device",
    "shard": "one hexadecimal digit, the stable hash of the device: several calibrators split the work by it",
    "window": "the name of a window in the policy",
    "scope": "`cohort`, or the device that the release is about",
}


@dataclass(frozen=True, slots=True)
class Channel:
    """One kind of topic."""

    name: str
    below: str
    message: type[BaseModel]
    retained: bool
    writers: tuple[Role, ...]
    readers: tuple[Role, ...]
    purpose: str

    @property
    def address(self) -> str:
        return f"{ROOT}/{{cohort}}/{self.below}"

    @property
    def parameters(self) -> list[str]:
        return [level.strip("{}") for level in self.address.split("/") if level.startswith("{")]


CHANNELS = (
    Channel(
        "policy", "policy", Signed[Policy], True, ("ops",), ("ops", "calibrator", "device"),
        "What every device of the cohort does; signed by ops, its version only rises.",
    ),
    Channel(
        "noise", "noise/{stream}", Signed[NoiseSetting], True, ("calibrator",), ("ops", "calibrator", "device"),
        "Θ now believed and the noise for it, for the whole cohort; signed by the calibrator, its version only rises.",
    ),
    Channel(
        "deviceNoise", "noise/{stream}/{device}", Signed[NoiseSetting], True, ("calibrator",),
        ("ops", "calibrator", "device"),
        "The same for one device, which prefers it while its version is the higher one.",
    ),
    Channel(
        "batch", "z/{shard}/{device}/{stream}", Batch, False, ("device",), ("ops", "calibrator"),
        "A run of ticks, every state already perturbed.",
    ),
    Channel(
        "seen", "seen/{device}", Seen, True, ("calibrator",), ("ops", "calibrator", "device"),
        "What has been counted durably, so that the device may forget it.",
    ),
    Channel(
        "status", "status/{device}", Status, True, ("device",), ("ops", "calibrator"),
        "Versions applied or refused and why, queue depth, drops; also the last will.",
    ),
    Channel(
        "release", "release/{stream}/{window}/{scope}", Release, True, ("calibrator", "device"),
        ("ops", "calibrator", "subscriber"),
        "A noisy histogram of one closed window. A device writes only releases about itself.",
    ),
    Channel(
        "ledger", "ledger/{stream}", LedgerState, True, ("calibrator",), ("ops", "calibrator"),
        "Both audiences' accounts: budget, loss, what is left.",
    ),
)  # fmt: skip
