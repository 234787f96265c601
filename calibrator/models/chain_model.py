"""What differs between streams of two states and of more, in one place: their noise, and how Θ prices a history.

Two states: noise (ρ0, ρ1), Θ a box of (q, r), priced by pufferfish/binary/binary_timeline.py. More: noise an
emission matrix, Θ a class of chains given entry by entry, priced by pufferfish/categorical/categorical_timeline.py,
for the prior adversary alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from hushmq.broker.contract.noise_message import Certificate, Emission, Flips
from hushmq.broker.contract.theta_message import theta_of
from hushmq.pufferfish.binary import amplification
from hushmq.pufferfish.binary.binary_timeline import Entry, Price, Timeline
from hushmq.pufferfish.binary.stream_loss import Adversary, Box, Noise, loss
from hushmq.pufferfish.categorical import emission
from hushmq.pufferfish.categorical.categorical_timeline import IntervalTimeline
from hushmq.pufferfish.categorical.contraction import certificate_for, largest_tilt
from hushmq.pufferfish.categorical.transition_intervals import Class, Rows
from hushmq.pufferfish.window_method import Method, window_limit

UNPROVED = 1e6
"""The loss, in nats, that stands for one nothing is proved of: beyond every budget, and a number all the same."""
FREE = 1e-6
"""Share of the largest tilt of a class that is not used, for what a timeline rounds up.

Without it one of a hundred classes of 3 to 5 states, for ε from 1 to 24, was priced over ε, by 1e-15; with a share of
1e-8 none was. How long a timeline takes does not depend on it: for 73 classes together 6.4 to 6.5 s, from 0 to 1e-4.
"""

AnyNoise = Noise | Rows
AnyTheta = Box | Class
AnyTimeline = Timeline | IntervalTimeline


def of_wire(noise: Flips | Emission) -> AnyNoise:
    """The noise of a setting."""
    return noise.noise if isinstance(noise, Flips) else noise.emission


def to_wire(noise: AnyNoise, theta: AnyTheta, own: float = 0.0) -> Flips | Emission:
    """The noise in a setting; for more than two states with the proof for its tilt and what else a tick costs."""
    if isinstance(noise, Noise):
        return Flips(rho0=noise.rho0, rho1=noise.rho1)
    if isinstance(theta, Box):
        raise TypeError("an emission matrix is for more than two states")
    whole = (tilts(noise)[0] + own) * (1 + 2.0**-48)
    return Emission(emission=noise, certificate=Certificate.of(certificate_for(theta, whole)))


def states_of(theta: AnyTheta) -> int:
    """How many states the chains of Θ have."""
    return 2 if isinstance(theta, Box) else theta.k


def contains(theta: AnyTheta, other: AnyTheta) -> bool:
    """Whether every chain of the other is in Θ."""
    if isinstance(theta, Box):
        return isinstance(other, Box) and theta.contains(other)
    return not isinstance(other, Box) and theta.contains(other)


def theta_tree(theta: AnyTheta) -> dict[str, Any]:
    """Θ for programs."""
    if isinstance(theta, Box):
        return {"q": [theta.q_low, theta.q_high], "r": [theta.r_low, theta.r_high]}
    return theta_of(theta).model_dump(mode="json")


def in_words(theta: AnyTheta) -> str:
    """Θ for people."""
    if isinstance(theta, Box):
        return (
            f"a chain with P(0→1) in [{theta.q_low:.4g}, {theta.q_high:.4g}], "
            f"P(1→0) in [{theta.r_low:.4g}, {theta.r_high:.4g}]"
        )
    stays = [(theta.forward.low[u][u], theta.forward.high[u][u]) for u in range(theta.k)]
    told = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in stays)
    return f"a chain of {theta.k} states that stay from tick to tick with probabilities in {told}"


def written(noise: AnyNoise) -> str:
    """The noise as it is stored: exact, as JSON."""
    if isinstance(noise, Noise):
        return json.dumps({"rho0": noise.rho0, "rho1": noise.rho1})
    return json.dumps({"emission": noise})


@lru_cache(maxsize=65_536)
def read(text: str) -> AnyNoise:
    """The noise that was written."""
    tree = json.loads(text)
    if "emission" in tree:
        return tuple(tuple(map(float, row)) for row in tree["emission"])
    return Noise(tree["rho0"], tree["rho1"])


def fingerprint(noise: AnyNoise) -> str:
    """What a ledger entry keeps of the noise it was charged through, beside its version."""
    return blake2b(written(noise).encode(), digest_size=16).hexdigest()


def amplified(noise: AnyNoise, w: float) -> float:
    """What a tilt of w on the sanitized states tells about the true ones, behind this noise."""
    if isinstance(noise, Noise):
        return amplification.amplified(noise, w)
    return emission.amplified(_distinct(noise), w)


def release_tilt(noise: AnyNoise, tau: float) -> float:
    """The largest tilt on the sanitized states that tells about the true ones at most τ."""
    if isinstance(noise, Noise):
        return amplification.release_tilt(noise, tau)
    return emission.release_tilt(_distinct(noise), tau)


def tilts(noise: AnyNoise) -> tuple[float, float]:
    """What the sanitized stream itself tells, towards 0 and towards 1; the same in all directions for more states."""
    if isinstance(noise, Noise):
        return noise.tau0, noise.tau1
    own = emission.tilt_of(_distinct(noise))
    return own, own


def signal(noise: AnyNoise) -> float:
    """How much of the state comes through: 1−ρ0−ρ1, or the least chance of the truth beyond that of any one lie."""
    if isinstance(noise, Noise):
        return 1 - noise.rho0 - noise.rho1
    return min(row[u] - max(row[:u] + row[u + 1 :]) for u, row in enumerate(noise))


@lru_cache(maxsize=256)
def _distinct(matrix: Rows) -> Rows:
    """Two rows stand for all where states can be exchanged: the truth equally likely, and every lie."""
    k = len(matrix)
    truth, lie = matrix[0][0], matrix[0][1]
    alike = all(matrix[u][z] == (truth if u == z else lie) for u in range(k) for z in range(k))
    return matrix[:2] if alike else matrix


def timeline(theta: AnyTheta, adversary: Adversary, entries: Iterable[Entry] = ()) -> AnyTimeline:
    """A history under Θ, to be priced as it grows."""
    if isinstance(theta, Box):
        return Timeline(theta, adversary, entries)
    if adversary != "prior":
        raise ValueError(f"more than two states are priced for the prior adversary, not the {adversary} one")
    return IntervalTimeline(theta, entries)


def priced(history: AnyTimeline) -> Price:
    """The price of a history; UNPROVED where Θ holds chains that forget too slowly for any bound."""
    found = history.price()
    return found if math.isfinite(found.epsilon) else Price(UNPROVED, found.tick)


@lru_cache(maxsize=65_536)
def known_loss(theta: AnyTheta, tau0: float, tau1: float, adversary: Adversary) -> float:
    """What constant tilts for ever tell under Θ; UNPROVED where nothing is proved."""
    if isinstance(theta, Box):
        return loss(theta, tau0=tau0, tau1=tau1, adversary=adversary)
    tau = max(tau0, tau1)
    try:
        return certificate_for(theta, tau).loss if tau > 0 else 0.0
    except ValueError:
        return UNPROVED


@dataclass(slots=True)
class _Known:
    """The largest tilt that is known to keep ε, and the least that is known not to."""

    within: float = 0.0
    beyond: float = math.inf


@lru_cache(maxsize=65_536)
def _known(_theta: AnyTheta, _epsilon: float, _adversary: Adversary) -> _Known:
    return _Known()


def keeps(theta: AnyTheta, tau: float, epsilon: float, adversary: Adversary) -> bool:
    """Whether this tilt at every tick, for ever, keeps ε under Θ.

    The loss rises with the tilt: an answer holds for every smaller tilt, or every larger one, and is remembered.
    """
    known = _known(theta, epsilon, adversary)
    if known.within < tau < known.beyond:
        # The prior adversary, who learns no more than the informed one, is quicker to ask.
        asked: tuple[Adversary, ...] = ("prior", adversary) if isinstance(theta, Box) else (adversary,)
        if all(known_loss(theta, tau, tau, one) <= epsilon for one in asked):
            known.within = tau
        else:
            known.beyond = tau
    return tau <= known.within


@lru_cache(maxsize=8192)
def window_tilt(method: Method, theta: AnyTheta, epsilon: float, adversary: Adversary) -> float:
    """The largest tilt at every tick, for ever, that the method allows and the ledger prices within ε; 0 if none.

    For two states the ledger is exact. For more it is the tilted quilt, which a quilt may exceed: the less of both.
    """
    if isinstance(theta, Box):
        return window_limit(method, theta, epsilon, adversary)
    tilted = largest_within(theta, epsilon)
    return min(tilted, window_limit(method, theta, epsilon, adversary)) if method == "mqm-exact" else tilted


@lru_cache(maxsize=1024)
def largest_within(theta: Class, epsilon: float) -> float:
    """All but the largest tilt at every tick whose loss is proved to be within ε; 0 where Θ forgets too slowly."""
    try:
        return largest_tilt(theta, epsilon).tau * (1 - FREE)
    except ValueError:
        return 0.0
