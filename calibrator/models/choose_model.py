"""Which chain model a stream has: the one place that chooses, by the policy or by what is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.theta_message import (
    BinaryThetaMessage,
    CategoricalThetaMessage,
    RegimeThetaMessage,
    ThetaMessage,
)
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.pufferfish.protocols import Noise, Theta
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta


@cache
def models() -> Mapping[type[ThetaMessage], AnyModel]:
    """The chain model of each form of Θ, imported at the first call: all of them use numpy."""
    from hushmq.calibrator.models.binary_model import BINARY  # noqa: PLC0415  # as the docstring says
    from hushmq.calibrator.models.categorical_model import CATEGORICAL  # noqa: PLC0415  # as above
    from hushmq.calibrator.models.regime_set_model import REGIMES  # noqa: PLC0415  # as above

    return {
        BinaryThetaMessage: BINARY,
        CategoricalThetaMessage: CATEGORICAL,
        RegimeThetaMessage: REGIMES,
    }


def model_of(stream: StreamPolicy) -> AnyModel:
    """The chain model of a stream: that of its Θ, for its stride."""
    if isinstance(stream.theta.start, RegimeThetaMessage):
        return _regimes(stream.theta.start.chains, stream.stride)
    form = type(stream.theta.start)
    return models()[form] if stream.stride == 1 else _strided(form, stream.stride)


@lru_cache(maxsize=64)
def _regimes(listed: RegimeTheta, stride: int) -> AnyModel:
    from hushmq.calibrator.models.regime_set_model import RegimeModel  # noqa: PLC0415  # as in `models`

    return RegimeModel.of(listed, stride)


@lru_cache(maxsize=64)
def _strided(form: type[ThetaMessage], stride: int) -> AnyModel:
    from hushmq.calibrator.models.binary_model import BinaryModel  # noqa: PLC0415  # as in `models`
    from hushmq.calibrator.models.categorical_model import CategoricalModel  # noqa: PLC0415  # as above

    return CategoricalModel(stride) if form is CategoricalThetaMessage else BinaryModel(stride)


@lru_cache(maxsize=65_536)
def read_noise(text: str) -> Noise:
    """The noise whose stored JSON this is, exactly; ValueError where no model knows it. Memoised."""
    tree = json.loads(text)
    for model in models().values():
        noise: Noise | None = model.read_noise(tree)
        if noise is not None:
            return noise
    raise ValueError("a stored noise has a form that no chain model knows")


@lru_cache(maxsize=1024)
def read_theta(text: str) -> Theta:
    """The Θ whose stored JSON this is (`Theta.as_tree`), exactly. Memoised."""
    tree = json.loads(text)
    form = (
        RegimeThetaMessage
        if "regimes" in tree
        else BinaryThetaMessage
        if "q" in tree
        else CategoricalThetaMessage
    )
    theta: Theta = models()[form].read_theta(tree)
    return theta
