"""Calibrate and price: which noise keeps a promise, and what a given noise promises. Nothing needs to run for this.

    python examples/calibrate_and_price.py

A loss of ε means: whoever reads what is published can change their odds about the state at any one instant by at most
e^ε. It depends on how correlated the states are in time, so every number is for a Θ, a set of Markov chains.
"""

from __future__ import annotations

from hushmq import BinaryTheta, CategoricalTheta, Entry, loss, optimal_noise, price

# Two states, away (0) and home (1). Nobody knows the chain exactly: each probability lies in an interval.
presence = BinaryTheta(q_low=0.05, q_high=0.15, r_low=0.08, r_high=0.12)  # q: away → home, r: home → away

# The least noise that keeps ε = 4 for every chain in Θ, even against somebody who knows the state at other instants.
noise = optimal_noise(presence, epsilon=4.0)
print(f"flip 0 with probability {noise.rho0:.3f} and 1 with {noise.rho1:.3f}")
print(f"loss: {loss(presence, noise):.4f} of 4")

# Its loss is smaller against an adversary who knows the chain but no states.
print(f"loss against the prior adversary: {loss(presence, noise, adversary='prior'):.4f}")

# Releases over time: each one tilts its ticks by so many nats (a count with Laplace noise of scale b tilts by 1/b).
# Where two overlap, their tilts add up.
history = [
    Entry(first=0, last=3599, tau0=0.01, tau1=0.01),
    Entry(first=1800, last=5399, tau0=0.01, tau1=0.01),
]
spent = price(presence, history)
print(f"two overlapping releases: loss {spent.epsilon:.4f}, reached at tick {spent.tick}")

# Three states: lying, sitting, walking. Certified bounds, against the prior adversary.
activity = CategoricalTheta.between(
    low=[[0.70, 0.05, 0.05], [0.05, 0.70, 0.05], [0.05, 0.05, 0.70]],
    high=[[0.90, 0.20, 0.20], [0.20, 0.90, 0.20], [0.20, 0.20, 0.90]],
)
response = optimal_noise(activity, epsilon=4.0, adversary="prior")
print(f"of three states the true one is published with probability {response.rows[0][0]:.3f}")
print(f"loss: {loss(activity, response, adversary='prior'):.4f} of 4")
