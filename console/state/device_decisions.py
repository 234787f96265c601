"""What the calibrator decides about devices, as a history tells it: quarantine, and being left out of windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hushmq.console.state.reasons import reason_in_words

Decisions = Mapping[str, Mapping[str, str]]
"""By device, `quarantine` or a stream it is left out of, and the reason."""


def decided(before: Decisions | None, now: Decisions) -> Iterator[tuple[str, str]]:
    """Each device and a sentence for what is decided otherwise than before; nothing for what held at the start."""
    if before is None:
        return
    for device in sorted({*before, *now}):
        was, is_ = before.get(device, {}), now.get(device, {})
        for what in sorted({*was, *is_}):
            if what in is_ and was.get(what) != is_[what]:
                yield device, _began(what, is_[what])
            elif what not in is_:
                yield (
                    device,
                    "out of quarantine" if what == "quarantine" else f"counted again in windows of {what}",
                )


def _began(what: str, reason: str) -> str:
    if what == "quarantine":
        return f"put in quarantine: {reason_in_words(reason)[0]}"
    return f"left out of windows of {what}: {reason}"
