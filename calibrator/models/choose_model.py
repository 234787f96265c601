"""Which chain model a stream has: the one place that chooses, by the policy or by what is stored."""

from __future__ import annotations

import json
from functools import lru_cache

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.theta_message import (
    BinaryThetaMessage,
    CategoricalThetaMessage,
    RegimeThetaMessage,
    ThetaMessage,
)
from hushmq.calibrator.models.binary_model import BINARY, BinaryModel
from hushmq.calibrator.models.categorical_model import CATEGORICAL
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.regime_set_model import REGIMES, RegimeModel
from hushmq.pufferfish.protocols import Noise, Theta
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

MODELS: dict[type[ThetaMessage], AnyModel] = {
    BinaryThetaMessage: BINARY,
    CategoricalThetaMessage: CATEGORICAL,
    RegimeThetaMessage: REGIMES,
}
"""The chain model of each form of Θ."""


def model_of(stream: StreamPolicy) -> AnyModel:
    """The chain model of a stream: that of its Θ, for its stride."""
    if isinstance(stream.theta.start, RegimeThetaMessage):
        return _regimes(stream.theta.start.chains, stream.stride)
    return MODELS[type(stream.theta.start)] if stream.stride == 1 else _strided(stream.stride)


@lru_cache(maxsize=64)
def _regimes(listed: RegimeTheta, stride: int) -> AnyModel:
    return RegimeModel.of(listed, stride)


@lru_cache(maxsize=64)
def _strided(stride: int) -> AnyModel:
    return BinaryModel(stride)


@lru_cache(maxsize=65_536)
def read_noise(text: str) -> Noise:
    """The noise whose stored JSON this is, exactly; ValueError where no model knows it. Memoised."""
    tree = json.loads(text)
    for model in MODELS.values():
        noise: Noise | None = model.read_noise(tree)
        if noise is not None:
            return noise
    raise ValueError("a stored noise has a form that no chain model knows")


@lru_cache(maxsize=1024)
def read_theta(text: str) -> Theta:
    """The Θ whose stored JSON this is (`Theta.as_tree`), exactly. Memoised."""
    tree = json.loads(text)
    model: AnyModel = REGIMES if "regimes" in tree else BINARY if "q" in tree else CATEGORICAL
    theta: Theta = model.read_theta(tree)
    return theta
