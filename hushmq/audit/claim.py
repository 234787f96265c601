"""The claim under audit: numbers from the command line, or the settings that an agent follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.agent.agent_config import load
from hushmq.agent.status_socket import read_report
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.operator_loss import operator_loss
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that a stream with this noise has a loss of at most ε to this adversary, for every chain of Θ.

    `windows` is the stated tilt of the windows that the device releases itself: it is priced, not sampled.
    """

    setting: NoiseSetting
    epsilon: float
    adversary: Adversary
    windows: float = 0.0

    def stated(self, adversary: Adversary) -> float:
        """The loss computed from the stated noise: exact for two states, a certified bound for more."""
        return operator_loss(self.setting.theta, self.setting.noise, self.windows, adversary)


def claim_of_numbers(q: float, r: float, noise: BinaryNoise, epsilon: float, adversary: Adversary) -> Claim:
    """The claim for one chain and one noise."""
    setting = NoiseSetting(
        version=1,
        policy=1,
        cohort="audit",
        stream="audit",
        theta=theta_message(BinaryTheta.point(q, r)),
        noise=BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1),
    )
    return Claim(setting, epsilon, adversary)


def claim_of_agent(path: Path, stream: str | None) -> Claim:
    """The claim of an agent's stream: the settings in its folder, verified as the agent does.

    Raises Problem if there is none, if the agent would refuse it, or if a running agent follows another version.
    """
    config = load(path)
    if not (config.folder / "settings").is_dir():
        raise Problem(
            f"{path}: folder: {config.folder} holds no settings; run the agent and push a policy first"
        )
    settings = Settings(
        config.folder,
        Trust.of(config.trust),
        cohort=config.cohort,
        device=config.device,
        streams=config.streams,
    )
    try:
        refused = settings.load({}).refused
    except OSError as error:
        raise Problem(f"{error.filename}: {error.strerror}; run the audit as the agent's user") from None
    if refused:
        raise Problem(f"{path}: the agent would refuse what lies in its folder: {refused[0]}")
    if stream is None and len(config.streams) > 1:
        raise Problem(f"--stream: {path} has several; give one of {', '.join(config.streams)}")
    name = stream or next(iter(config.streams))
    if name not in config.streams:
        raise Problem(f"--stream: {path} has no {name!r}; give one of {', '.join(config.streams)}")
    if settings.policy is None or name not in settings.noise:
        raise Problem(f"{path}: stream {name} follows no noise setting, so it publishes nothing to audit")
    setting, policy = settings.noise[name], settings.streams[name]
    _same_as_running(config.folder, name, setting.version)
    return Claim(setting, policy.epsilon.operator, policy.adversary, policy.device_window_tilt)


def _same_as_running(folder: Path, stream: str, version: int) -> None:
    report = read_report(folder)
    if report is not None and (running := report["streams"][stream]["noise"]) != version:
        raise Problem(
            f"{folder}: the running agent follows version {running} of the noise for {stream}, the folder holds "
            f"{version}; try again, or see why it cannot save: hushmq agent status"
        )
