"""Drawing noise: batches of samples against one system call and one comparison per sample."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from fractions import Fraction

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.calibration_speed import fastest
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.discrete_laplace import discrete_laplace
from hushmq.pufferfish.noise.noise_arrays import discrete_laplace_array
from hushmq.pufferfish.noise.perturber import CategoryPerturber, Perturber, threshold

NOISE = BinaryNoise(0.48, 0.46)
SAMPLES = 100_000
FOUR = [[0.55 if u == z else 0.15 for z in range(4)] for u in range(4)]
SCALE = Fraction(8.9)
DRAWS = 2_000


def plain_perturb(states: Sequence[int], thresholds: tuple[int, int]) -> list[int]:
    """Perturbs each state separately: eight bytes from the operating system and one comparison."""
    return [state ^ (int.from_bytes(os.urandom(8)) < thresholds[state]) for state in states]


def run() -> list[Row]:
    """Bits, categories and counts."""
    bits, categories = [n & 1 for n in range(SAMPLES)], [n & 3 for n in range(SAMPLES)]
    thresholds = (threshold(NOISE.rho0), threshold(NOISE.rho1))
    perturber, four = Perturber(NOISE), CategoryPerturber(FOUR)
    bare, _ = fastest(lambda: plain_perturb(bits, thresholds), rounds=3)
    source, _ = fastest(lambda: os.urandom(8 * SAMPLES))
    ours, _ = fastest(lambda: perturber.perturb(bits))
    ours4, _ = fastest(lambda: four.perturb(categories))
    against = f"os.urandom and a comparison, sample by sample ({SAMPLES / bare:,.0f} /s)"
    device, _ = fastest(lambda: [discrete_laplace(SCALE) for _ in range(DRAWS)], rounds=3)
    together, _ = fastest(lambda: discrete_laplace_array(SCALE, DRAWS))
    theirs = _opendp(float(SCALE))
    opendp, _ = fastest(lambda: theirs([0] * DRAWS), rounds=3)
    sampler = f"OpenDP's sampler ({DRAWS / opendp:,.0f} /s)"
    return [
        Row("bits perturbed", SAMPLES / ours, "/s", against, bare / ours, "≥ 150,000 /s"),
        Row(
            "of that, os.urandom alone",
            100 * source / ours,
            "%",
            "the time of perturbing bits",
        ),
        Row("categories of 4 perturbed", SAMPLES / ours4, "/s", against, bare / ours4),
        Row(
            f"discrete Laplace draws, scale {float(SCALE):g}, one at a time",
            DRAWS / device,
            "/s",
            sampler,
            opendp / device,
        ),
        Row(
            f"discrete Laplace draws, scale {float(SCALE):g}, {DRAWS:,} at once",
            DRAWS / together,
            "/s",
            sampler,
            opendp / together,
        ),
    ]


def _opendp(scale: float) -> Callable[[list[int]], list[int]]:
    from opendp.domains import atom_domain, vector_domain  # noqa: PLC0415  # slow to import
    from opendp.measurements import make_laplace  # noqa: PLC0415  # as above
    from opendp.metrics import l1_distance  # noqa: PLC0415  # as above
    from opendp.mod import enable_features  # noqa: PLC0415  # as above

    enable_features("contrib")
    return make_laplace(vector_domain(atom_domain(T=int)), l1_distance(T=int), scale=scale)
