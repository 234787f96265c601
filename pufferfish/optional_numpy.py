"""numpy where it is installed: a device prices and verifies without it."""

from __future__ import annotations

from types import ModuleType


def numpy_if_installed() -> ModuleType | None:
    """The module, or None."""
    try:
        import numpy  # noqa: PLC0415  # optional
    except ImportError:
        return None
    return numpy
