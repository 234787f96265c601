"""The topics of the contract as a table: the message of each, who writes it and who reads it.

The documents are generated from this table. Tests compare it with the topics (broker/contract/topics.py) and the access
rights (broker/provision/access_rights.py), so that the three cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from hushmq.broker.contract.messages import Batch, LedgerState, NoiseSetting, Release, Seen, Status
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import ROOT
from hushmq.broker.provision.access_rights import Role

PARAMETERS = {
    "cohort": "the devices that share a policy, a Θ and a ledger",
    "device": "a device's name, which is its identity at the broker",
    "stream": "what is measured: one chain of states per device",
    "shard": "one hexadecimal digit, a stable hash of the device's name, by which several calibrators split the work",
    "window": "the name of a window in the policy",
    "scope": "`cohort`, or the device that the release is about",
}


@dataclass(frozen=True, slots=True)
class Channel:
    """All topics of one kind, as AsyncAPI defines a channel."""

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
        "policy", "policy", Signed[Policy], True, ("ops", "calibrator"), ("ops", "calibrator", "device", "console"),
        "The rules that every device of the cohort follows; signed by ops, its version only rises.",
    ),
    Channel(
        "noise", "noise/{stream}", Signed[NoiseSetting], True, ("calibrator",),
        ("ops", "calibrator", "device", "console"),
        "The learned Θ and the noise for it, for the whole cohort; signed by the calibrator, its version only rises.",
    ),
    Channel(
        "deviceNoise", "noise/{stream}/{device}", Signed[NoiseSetting], True, ("calibrator",),
        ("ops", "calibrator", "device", "console"),
        "A device-specific setting, which the device prefers while its version is higher than the cohort's.",
    ),
    Channel(
        "batch", "z/{shard}/{device}/{stream}", Batch, False, ("device",), ("ops", "calibrator"),
        "A run of consecutive ticks with their sanitized states.",
    ),
    Channel(
        "seen", "seen/{device}", Seen, True, ("calibrator",), ("ops", "calibrator", "device"),
        "The ticks that are counted durably, so that the device may delete them.",
    ),
    Channel(
        "status", "status/{device}", Status, True, ("device", "ops"),
        ("ops", "calibrator", "console", "home-assistant"),
        "Versions applied, versions refused with their reasons, ticks buffered and dropped; also the last will. "
        "Ops clear that of a device to be forgotten.",
    ),
    Channel(
        "release", "release/{stream}/{window}/{scope}", Release, True, ("calibrator", "device"),
        ("ops", "calibrator", "subscriber", "console", "home-assistant"),
        "The noisy histogram of one closed window. A device writes only releases about itself.",
    ),
    Channel(
        "ledger", "ledger/{stream}", LedgerState, True, ("calibrator",), ("ops", "calibrator", "console"),
        "Both audiences' accounts: budget, loss so far, and the rest of the budget.",
    ),
)  # fmt: skip
