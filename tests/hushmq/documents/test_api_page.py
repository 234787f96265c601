"""The reference of the public API is complete and says how each name is called."""

from __future__ import annotations

import hushmq
from hushmq.documents.api_page import MEMBERS, USES, document


def test_every_public_name_has_a_section() -> None:
    """Once, and nothing else is called public."""
    named = [name for use in USES for name in use.names]
    assert sorted(named) == hushmq.__all__
    assert all(f"\n### {name}\n" in document() for name in named)


def test_signatures_are_those_of_the_code() -> None:
    """Keyword-only arguments, defaults, overloads and class methods."""
    text = document()
    for line in (
        "Agent.wait_ready(*, timeout: float) -> bool",
        "loss(theta: BinaryTheta, noise: BinaryNoise, *, adversary: Adversary = 'informed') -> float",
        "loss(theta: CategoricalTheta, noise: CategoricalNoise, *, adversary: Adversary) -> float",
        "BinaryTheta.point(q: float, r: float) -> BinaryTheta",
        "    *brokers: str,",
    ):
        assert f"\n{line}\n" in text


def test_docstrings_are_markdown() -> None:
    """An example is a block of Python, arguments are a list; nothing is empty or Python's own text."""
    text = document()
    assert "\n```python\nwith Agent(" in text
    assert "\n- `cohort`: " in text
    assert "Initialize self" not in text
    assert "Args:" not in text
    assert all(f"#### {name}.{member}\n" in text for name, members in MEMBERS.items() for member in members)
