"""What more would cost, computed once for each policy, Θ and number of devices: pages do not wait for it.

It follows from public messages alone, so that everybody may be told when it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyio import to_thread

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.forecast.what_if import WhatIf, what_if
from hushmq.pufferfish.protocols import Theta

PATIENCE_S = 0.05
"""A page waits so long; what is not there by then comes as a live update."""


class Forecasts:
    """The newest forecast of each stream."""

    def __init__(self, computed: Callable[[], None], patience_s: float = PATIENCE_S) -> None:
        self._computed = computed
        self.patience_s = patience_s
        self._tasks: dict[str, tuple[Any, asyncio.Task[list[WhatIf]]]] = {}
        self._done: dict[str, tuple[Any, Sequence[WhatIf]]] = {}

    async def of(
        self, policy: Policy, stream: str, thetas: Mapping[str, Theta], devices: int
    ) -> Sequence[WhatIf] | None:
        """The forecast; None while it is being computed."""
        basis = policy.version, tuple(sorted(thetas.items())), devices
        known = self._done.get(stream)
        if known is not None and known[0] == basis:
            return known[1]
        running = self._tasks.get(stream)
        if running is None or running[0] != basis or running[1].done():
            running = basis, asyncio.create_task(self._compute(basis, policy, stream, thetas, devices))
            self._tasks[stream] = running
        await asyncio.wait({running[1]}, timeout=self.patience_s)
        return running[1].result() if running[1].done() else None

    async def _compute(
        self, basis: Any, policy: Policy, stream: str, thetas: Mapping[str, Theta], devices: int
    ) -> list[WhatIf]:
        found = await to_thread.run_sync(what_if, policy, stream, thetas, devices)
        self._done[stream] = basis, found
        self._computed()
        return found
