"""What is claimed: by whoever types numbers, or by the settings that an agent follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.agent.agent_config import load
from hushmq.agent.device_windows import tilt
from hushmq.agent.status_socket import read_report
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import Flips
from hushmq.broker.contract.operator_loss import operator_loss
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import theta_of
from hushmq.pufferfish.binary.stream_loss import Adversary, Box, Noise


@dataclass(frozen=True, slots=True)
class Claim:
    """That a stream with this noise loses at most ε to this adversary, whichever chain of Θ it is.

    `windows` is the tilt of what the device releases beside the stream, as stated: it is priced, not sampled.
    """

    setting: NoiseSetting
    epsilon: float
    adversary: Adversary
    windows: float = 0.0

    def stated(self, adversary: Adversary) -> float:
        """The loss computed from the noise as stated: with two states the loss itself, with more what is proved."""
        return operator_loss(self.setting.theta, self.setting.noise, self.windows, adversary)


def typed(q: float, r: float, noise: Noise, epsilon: float, adversary: Adversary) -> Claim:
    """The claim about one chain and one noise."""
    setting = NoiseSetting(
        version=1,
        policy=1,
        cohort="audit",
        stream="audit",
        theta=theta_of(Box.point(q, r)),
        noise=Flips(rho0=noise.rho0, rho1=noise.rho1),
    )
    return Claim(setting, epsilon, adversary)


def of_agent(path: Path, stream: str | None) -> Claim:
    """The claim of an agent's stream: the settings it follows, read from its folder and verified as it does.

    Where the agent runs it is asked which version it follows, and that must be the one read.
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
        refused = settings.load({})
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
        raise Problem(
            f"{path}: stream {name} follows no noise setting, so it publishes nothing that could be audited"
        )
    setting, policy = settings.noise[name], settings.policy.streams[name]
    _same_as_running(config.folder, name, setting.version)
    return Claim(setting, policy.epsilon.operator, policy.adversary, tilt(policy))


def _same_as_running(folder: Path, stream: str, version: int) -> None:
    report = read_report(folder)
    if report is not None and (running := report["streams"][stream]["noise"]) != version:
        raise Problem(
            f"{folder}: the running agent follows version {running} of the noise for {stream}, the folder holds "
            f"{version}; try again, or see why it cannot save: hushmq agent status"
        )
