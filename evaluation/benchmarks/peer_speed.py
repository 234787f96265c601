"""Perturbing bits: ours against randomized response of pure-ldp, multi-freq-ldpy, diffprivlib and OpenDP.

All are asked for the same ε and fed the same bits in one run; the section `peers` audits them too. A package that is
missing or cannot be imported here is a row that says so. NumPy with a seeded generator is no peer: its noise can be
recomputed by who finds the seed. It stands here for what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.calibration_speed import fastest
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.perturber import Perturber

Perturb = Callable[[bytes], bytes]

EPSILON = 1.0
BATCH = 100
"""Samples of one of our batches."""
IN_BATCHES = f"hushmq, in batches of {BATCH}"


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody's randomized response: what makes its noise, and how it perturbs states, one byte each, at an ε."""

    name: str
    package: str
    randomness: str
    load: Callable[[float], Perturb]
    samples: int

    def perturber(self, epsilon: float) -> Perturb:
        """Import it; Absent where that fails."""
        try:
            return self.load(epsilon)
        except ImportError as error:
            try:
                installed = f"version {version(self.package)} cannot be imported here: {error}"
            except PackageNotFoundError:
                installed = "not installed: pip install 'hushmq[peers]'"
            raise Absent(installed.split(" (/")[0]) from None


class Absent(Exception):
    """Raised where a package is missing or cannot be imported; the text says which."""


def plain(epsilon: float) -> BinaryNoise:
    """Randomized response for independent samples: every bit is flipped with probability 1/(1+e^ε)."""
    rho = 1 / (1 + math.exp(epsilon))
    return BinaryNoise(rho, rho)


def _pure_ldp(epsilon: float) -> Perturb:
    from pure_ldp.frequency_oracles.direct_encoding import DEClient  # noqa: PLC0415  # an extra

    client = DEClient(epsilon, 2, lambda state: state)
    return lambda states: bytes(map(client.privatise, states))


def _multi_freq_ldpy(epsilon: float) -> Perturb:
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client  # noqa: PLC0415  # an extra

    GRR_Client(0, 2, epsilon)  # compiled at the first call, which is not what is measured
    return lambda states: bytes([GRR_Client(state, 2, epsilon) for state in states])


def _diffprivlib(epsilon: float) -> Perturb:
    from diffprivlib.mechanisms import Binary  # noqa: PLC0415  # an extra

    mechanism = Binary(epsilon=epsilon, value0="0", value1="1")
    return lambda states: bytes([mechanism.randomise("1" if state else "0") == "1" for state in states])


def _opendp(epsilon: float) -> Perturb:
    from opendp.measurements import make_randomized_response_bool  # noqa: PLC0415  # slow to import
    from opendp.mod import enable_features  # noqa: PLC0415  # as above

    enable_features("contrib")
    respond = make_randomized_response_bool(1 - plain(epsilon).rho0)
    return lambda states: bytes([respond(bool(state)) for state in states])


def _opendp_vector(epsilon: float) -> Perturb:
    from opendp.domains import bitvector_domain  # noqa: PLC0415  # slow to import
    from opendp.measurements import make_randomized_response_bitvec  # noqa: PLC0415  # as above
    from opendp.metrics import discrete_distance  # noqa: PLC0415  # as above
    from opendp.mod import enable_features  # noqa: PLC0415  # as above

    enable_features("contrib")
    # It replaces a bit by a fair one with probability f, so it flips with f/2. The weight only enters its own map.
    respond = make_randomized_response_bitvec(
        bitvector_domain(max_weight=1), discrete_distance(), f=2 * plain(epsilon).rho0
    )

    def perturb(states: bytes) -> bytes:
        packed = np.packbits(np.frombuffer(states, dtype=np.uint8)).tobytes()
        return np.unpackbits(np.frombuffer(respond(packed), dtype=np.uint8))[: len(states)].tobytes()

    return perturb


def _numpy(epsilon: float) -> Perturb:
    rho, rng = plain(epsilon).rho0, np.random.default_rng(1)

    def perturb(states: bytes) -> bytes:
        flips = rng.random(len(states)) < rho
        return (np.frombuffer(states, dtype=np.uint8) ^ flips).tobytes()

    return perturb


SYSTEM, SEEDED = "operating system", "Mersenne Twister"
PEERS = (
    Peer("pure-ldp, direct encoding", "pure-ldp", SEEDED, _pure_ldp, 50_000),
    Peer("multi-freq-ldpy, GRR", "multi-freq-ldpy", SEEDED, _multi_freq_ldpy, 50_000),
    Peer("diffprivlib, Binary", "diffprivlib", SYSTEM, _diffprivlib, 20_000),
    Peer("OpenDP, one bit", "opendp", SYSTEM, _opendp, 5_000),
    Peer("OpenDP, bit vector", "opendp", SYSTEM, _opendp_vector, 50_000),
    Peer("NumPy, vectorised", "numpy", "PCG64, seeded", _numpy, 500_000),
)


def rate(perturb: Perturb, samples: int) -> float:
    """Samples a second of processor time, fed at once."""
    states = bytes(n & 1 for n in range(samples))
    seconds, _ = fastest(lambda: perturb(states), rounds=5)
    return samples / seconds


def in_batches(perturb: Perturb, size: int) -> Perturb:
    """The same, fed so many states at a time, as a device has them."""
    return lambda states: b"".join(perturb(states[at : at + size]) for at in range(0, len(states), size))


def ours(epsilon: float) -> Sequence[tuple[str, Perturb, int]]:
    """Our perturber, in one call, in batches and sample by sample."""
    perturb = Perturber(plain(epsilon)).perturb
    return (
        ("hushmq, at once", perturb, 500_000),
        (IN_BATCHES, in_batches(perturb, BATCH), 200_000),
        ("hushmq, one by one", in_batches(perturb, 1), 20_000),
    )


def run() -> Iterator[Row]:
    """A row for each way of ours, then ours in batches against each peer."""
    rates = {name: rate(perturb, samples) for name, perturb, samples in ours(EPSILON)}
    yield from (Row(f"bits perturbed, {name}", found, "/s") for name, found in rates.items())
    batches = rates[IN_BATCHES]
    for peer in PEERS:
        name = f"bits perturbed, against {peer.name}"
        try:
            theirs = rate(peer.perturber(EPSILON), peer.samples)
        except Absent as absent:
            yield Row(name, None, "/s", str(absent))
            continue
        against = f"{peer.name} ({theirs:,.0f} /s, noise from: {peer.randomness})"
        yield Row(name, batches, "/s", against, batches / theirs)
